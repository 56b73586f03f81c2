#!/usr/bin/env python3
"""Runs clang-tidy over the product's sources; one that was clean before is skipped while nothing that it includes changed.

What was clean is kept in ~/.cache/carya-tidy, by the contents of the source, of all that the compiler read for it, of
.clang-tidy and of the command. Needs a configured build/release; a source that was not built there is always looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "architecture"))
from tree import MODULES  # noqa: E402  product code is read twice; benches and tests are the compiler's business

BUILD = ROOT / "build" / "release"
COMMANDS = ROOT / "build" / "tidy"
TOOL = "clang-tidy-19"
HEADERS = rf"/({'|'.join(MODULES)})/.*\.h$"
CLEAN = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "carya-tidy"
KEPT_MAX = 4000  # files of no bytes


@cache
def digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def commands() -> dict[Path, str]:
    """The compiler's command by source, without precompiled headers: they hide a missing #include, and may not be built."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = re.sub(r" -Winvalid-pch| -Xclang -include(-pch)? -Xclang \S+", "", entry["command"])
    COMMANDS.mkdir(exist_ok=True)
    (COMMANDS / "compile_commands.json").write_text(json.dumps(entries))
    return {Path(entry["file"]): entry["command"].replace(str(ROOT), "") for entry in entries}


def read_files() -> dict[Path, list[Path]]:
    """By source: all files that the compiler read for it, as ninja knows them."""
    text = subprocess.run(["ninja", "-C", str(BUILD), "-t", "deps"], capture_output=True, text=True, check=False).stdout
    found = {}
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if len(lines) > 1 and "(VALID)" in lines[0]:
            paths = [Path(os.path.normpath(BUILD / line.strip())) for line in lines[1:]]
            found[paths[0]] = paths
    return found


def key(source: Path, command: str, read: Iterable[Path], version: str) -> str:
    hasher = hashlib.sha256((version + HEADERS + command).encode())
    for path in (ROOT / ".clang-tidy", source, *read):
        hasher.update(digest(path))
    return hasher.hexdigest()


def tidy(source: Path) -> str:
    """What it says; "" when clean."""
    done = subprocess.run(
        [TOOL, "-p", str(COMMANDS), "--quiet", f"--header-filter={HEADERS}", str(source)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    return done.stdout + done.stderr if done.returncode else ""


def main() -> int:
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout
    known, read = commands(), read_files()
    sources = sorted(path for folder in MODULES for path in (ROOT / folder).rglob("*.cc"))
    if not sources:
        sys.exit("carya: no sources found")
    CLEAN.mkdir(parents=True, exist_ok=True)
    keys = {
        source: key(source, known[source], read[source], version)
        for source in sources
        if source in known and source in read
    }
    left = [source for source in sources if source not in keys or not (CLEAN / keys[source]).exists()]
    failed = 0
    with ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for source, said in zip(left, pool.map(tidy, left), strict=True):
            if said:
                failed += 1
                print(f"{source.relative_to(ROOT)}:\n{said}")
            elif source in keys:
                (CLEAN / keys[source]).touch()
    for old in sorted(CLEAN.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT_MAX]:
        old.unlink(missing_ok=True)
    print(f"clang-tidy: {len(sources)} sources, {len(sources) - len(left)} of them known to be clean, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
