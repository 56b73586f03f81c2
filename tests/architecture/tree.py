"""The source tree as its tests see it: modules with their levels, rooms with their floors, source files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# DESIGN section 3. An include may only point to a lower level, or stay inside its module.
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

# The rooms of each module, floor by floor from the ground. An include may only point to a lower floor, or stay in its
# room; a module with rooms has no source outside of them.
FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "loader": (
        ("host", "program", "read", "trace"),
        ("cache", "data"),
        ("plan", "wire"),
        ("stream", "worker"),
        ("engine", "overflow"),
        ("job",),
        ("control",),
        ("users",),
        ("daemon",),
    ),
    "transforms": (
        ("simd", "text", "audio/codec", "kernels/image"),
        ("jpeg", "audio/signal", "kernels/resize", "kernels/blur", "kernels/store"),
        ("jpeg/scan", "coefficients", "kernels/warp"),
        ("kernels/codec",),
        ("kernels/color",),
        ("kernels/floats",),
        ("op",),
        ("ops/audio", "ops/encoded", "ops/objects", "user"),
        ("ops",),
        ("pipeline",),
        ("plan",),
    ),
    "autotune": (("order",), ("cache", "placement"), ("controller",), ("sharing",), ("simulator",)),
    "remote": (("protocol", "fleet"), ("pool", "server")),
    "io": (
        ("rights",),
        ("manifest", "store", "credentials"),
        ("files", "segments"),
        ("read", "index"),
        ("formats", "http"),
        ("sources",),
    ),
}
FLOOR = {
    f"{module}/{room}": floor
    for module, floors in FLOORS.items()
    for floor, rooms in enumerate(floors)
    for room in rooms
}

# Parts of a module that know less than it, and the modules and rooms that each may include.
INNER = {
    "transforms/simd": ("base",),
    "transforms/jpeg": ("base", "transforms/simd"),
    "transforms/coefficients": ("base", "transforms/simd", "transforms/jpeg"),
    "transforms/text": ("base",),
    "transforms/audio": ("base", "transforms/simd"),
}


def sources(*folders: str) -> Iterator[Path]:
    """Every C++ file below the folders, as it lies on disk."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h"):
                yield path


def folders_with_sources() -> list[str]:
    """The folders of the product that hold C++ files."""
    return sorted({str(path.parent.relative_to(ROOT)) for path in sources(*MODULES)})


def stems(folder: str) -> set[str]:
    """The files of a folder without endings: a pair of header and implementation counts once."""
    return {path.stem.removesuffix("-inl") for path in (ROOT / folder).glob("*.*") if path.suffix in (".cc", ".h")}


def module_of(path: str) -> str:
    """The folder of INNER that the file lies in, or else its first folder."""
    return next((inner for inner in INNER if path.startswith(f"{inner}/")), path.split("/")[0])


def without_comments(text: str) -> str:
    """The code alone: comments and string literals are blanked, line numbers stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda match: "\n" * match.group().count("\n"), text)
