#!/usr/bin/env python3
"""Runs clang-tidy over the product's sources; what was clean before is skipped while nothing that it includes changed.

Sources are looked at in batches, as one source that includes them: most of the time goes into headers, which a batch
reads once. A batch that does not compile, as two of its sources use one name for different things, is halved. What a
batch cannot show is an #include that a source lacks and another one of the batch has, and a using-declaration that only
another one needs: --each looks at every source by itself. --part, for who has little time, looks at a twentieth of them by
itself and at an eighth of the batches, other ones with each commit.

What was clean is kept in ~/.cache/carya-tidy, by the contents of the sources, of all that the compiler read for them, of
.clang-tidy and of the command. Needs a configured build/lint, which has a command for each source. What a source reads
is known of build/release; one that was not built there by itself is always looked at.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "architecture"))
from tree import MODULES  # noqa: E402  product code is read twice; benches and tests are the compiler's business

COMMANDS = ROOT / "build" / "lint" / "compile_commands.json"
BUILD = ROOT / "build" / "release"
PLACE = ROOT / "build" / "tidy"
TOOL = "clang-tidy-19"
FILES = rf"/({'|'.join(MODULES)})/.*\.(h|cc)$"
CLEAN = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "carya-tidy"
KEPT_MAX = 4000  # files of no bytes
BATCH_MAX = 12
DOES_NOT_COMPILE = "[clang-diagnostic-error]"


@cache
def digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def commands() -> dict[Path, str]:
    """The compiler's command by source, without its outcome and without precompiled headers, which may not be built."""
    entries = json.loads(COMMANDS.read_text())
    strip = re.compile(r" -Winvalid-pch| -Xclang -include(-pch)? -Xclang \S+| -Werror| -Wshadow| -o \S+ -c \S+$")
    return {Path(entry["file"]): strip.sub("", entry["command"]) for entry in entries}


def read_files() -> dict[Path, list[Path]]:
    """By source: all files that the compiler read for it, as ninja knows them."""
    text = subprocess.run(["ninja", "-C", str(BUILD), "-t", "deps"], capture_output=True, text=True, check=False).stdout
    found = {}
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if len(lines) > 1 and "(VALID)" in lines[0]:
            paths = [Path(os.path.normpath(BUILD / line.strip())) for line in lines[1:]]
            found[paths[0]] = [path for path in paths if path.suffix != ".pch"]
    return found


def own_names(source: Path) -> set[str]:
    """Names that the source declares outside of functions and classes, as far as text shows it: where two sources have
    one in common, they may not go together."""
    found = set()
    for line in source.read_text().splitlines():
        if kind := re.match(r"(?:using|struct|class|enum|enum class|union) (\w+)\b(?!.*;$|::)|using (\w+) =", line):
            found.add(kind.group(1) or kind.group(2))
        elif (name := re.match(r"[A-Za-z][^(=;{]*?(?<!:)\b(\w+)(?: = |\(|\[|\{|;)", line)) and "::" not in name.group(
            1
        ):
            found.add(name.group(1))
    return found


def batches(sources: list[Path], known: dict[Path, str], alone: set[Path]) -> list[list[Path]]:
    """Sources that are compiled by one command. What is compiled once per SIMD target stands alone, as do those named."""
    found: list[list[Path]] = []
    open_ones: dict[str, list[tuple[list[Path], set[str]]]] = {}
    for source in sources:
        if source in alone or source not in known or "foreach_target" in source.read_text():
            found.append([source])
            continue
        names = own_names(source)
        of_command = open_ones.setdefault(known[source], [])
        for batch, taken in of_command:
            if len(batch) < BATCH_MAX and not names & taken:
                batch.append(source)
                taken |= names
                break
        else:
            of_command.append(([source], names))
            found.append(of_command[-1][0])
    return found


class Tidy:
    """Looks at batches, and remembers the clean ones."""

    def __init__(self) -> None:
        self.version = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout
        self.known, self.read = commands(), read_files()
        PLACE.mkdir(exist_ok=True)
        CLEAN.mkdir(parents=True, exist_ok=True)

    def key(self, batch: list[Path]) -> Path | None:
        """The file that is there when the batch was clean. None: what it reads is not known."""
        if any(source not in self.known or source not in self.read for source in batch):
            return None
        hasher = hashlib.sha256((self.version + FILES + self.known[batch[0]].replace(str(ROOT), "")).encode())
        files: Iterable[Path] = [
            ROOT / ".clang-tidy",
            *batch,
            *(path for source in batch for path in self.read[source]),
        ]
        for path in files:
            hasher.update(digest(path))
        return CLEAN / hasher.hexdigest()

    def look(self, batch: list[Path]) -> str:
        """What it says of the batch; "" when clean."""
        if (key := self.key(batch)) and key.exists():
            return ""
        said = self.run(batch)
        if DOES_NOT_COMPILE in said and len(batch) > 1:
            half = len(batch) // 2
            return self.look(batch[:half]) + self.look(batch[half:])
        if not said and key:
            key.touch()
        return said

    def run(self, batch: list[Path]) -> str:
        joined = batch[0]
        words = []
        if len(batch) > 1:
            name = hashlib.sha256("".join(map(str, batch)).encode()).hexdigest()[:16]
            joined = PLACE / f"joined_{name}.cc"
            joined.write_text("".join(f'#include "{source}"\n' for source in batch))
        if batch[0] in self.known:
            words = ["--", *shlex.split(self.known[batch[0]])[1:]]
        done = subprocess.run(
            [TOOL, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", f"--header-filter={FILES}", str(joined), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=BUILD,
        )
        return done.stdout + done.stderr if done.returncode else ""


def commits() -> int:
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(counted.stdout or 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", action="store_true", help="every source by itself")
    parser.add_argument("--part", action="store_true", help="a twentieth by themselves, an eighth of the batches")
    options = parser.parse_args()
    sources = sorted(path for folder in MODULES for path in (ROOT / folder).rglob("*.cc"))
    if not sources:
        sys.exit("carya: no sources found")
    alone = set(sources if options.each else sources[commits() % 20 :: 20] if options.part else [])
    tidy = Tidy()
    work = batches(sources, tidy.known, alone)
    if options.part:
        work = [batch for at, batch in enumerate(work) if set(batch) <= alone or at % 8 == commits() % 8]
    left = [batch for batch in work if not (key := tidy.key(batch)) or not key.exists()]
    failed = 0
    with ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for said in pool.map(tidy.look, left):
            if said:
                failed += 1
                print(said)
    for old in sorted(CLEAN.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT_MAX]:
        old.unlink(missing_ok=True)
    print(
        f"clang-tidy: {len(sources)} sources in {len(work)} batches, {len(alone)} by themselves; "
        f"{len(work) - len(left)} batches were known to be clean, {failed} are not"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
