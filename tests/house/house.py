"""What the house's tests share: the folders, their levels, and the source files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# DESIGN section 3. An include may only point to a lower level, or stay inside its folder.
LEVELS = {
    "base": 0,
    "shm": 1,
    "io": 1,
    "transforms": 1,
    "remote": 1,
    "autotune": 1,
    "loader": 2,
    "python": 3,
}
MODULES = tuple(LEVELS)
ANYTHING_GOES = ("bench", "tests", "examples")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def sources(*folders: str) -> Iterator[Path]:
    """Every C++ file below the folders, as it lies on disk."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h"):
                yield path


# Folders inside of a module that are modules of their own, and those outside of them that each may include.
INNER = {
    "transforms/simd": ("base",),
    "transforms/jpeg": ("base", "transforms/simd"),
}


def module_of(path: str) -> str:
    """The folder of INNER that the file lies in, or else its first folder."""
    return next((inner for inner in INNER if path.startswith(f"{inner}/")), path.split("/")[0])


def without_comments(text: str) -> str:
    """The code alone: comments and string literals are blanked, line numbers stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda match: "\n" * match.group().count("\n"), text)
