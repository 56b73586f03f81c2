#!/usr/bin/env python3
"""Everything that must hold before a change is taken: .ci/run. `--all` (make all-checks): the full thing, for hours.

A normal run takes at most 40 minutes on two cores from a cold cache. Every test of the shipped build runs each time.
The sanitizers run the tests of all modules that the change of the last day reaches, and of a rotating third of the
others, which the summary names; fuzzing has a budget of time, shared by all targets; so has a rotating tenth of the
mutants (tools/mutants.py); GCC and aarch64 build what decides bits and compare digests. The full thing runs all of it,
the long forms of tests, and the tests of what has states under load.

The summary has a line per part with its seconds beside those of .ci/seconds.tsv. Machines differ: the median of the
ratios is this machine's speed, and a part that took over 20 % more than it lets expect is named. --record writes the file.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "house"))
from house import LEVELS  # noqa: E402  what each module may include: a change reaches its own tests and those above

SECONDS = ROOT / ".ci" / "seconds.tsv"
LIMIT_S = 40 * 60
GROWTH = 1.2  # a part that takes this many times what it should is named ...
GROWTH_MIN_S = 10  # ... if that is this much
FUZZ_BUDGET_S = 180  # of wall time, for all targets together
MUTANTS_BUDGET_S = 150  # of wall time, after which none is begun
DAY_S = 24 * 3600

# Test folders by module; those that start no thread are of no use to the thread sanitizer.
TESTS = {
    "base": ("base",),
    "shm": ("shm",),
    "io": ("io", "store"),
    "transforms": ("jpeg", "transforms"),
    "autotune": ("autotune",),
    "remote": ("remote",),
    "loader": ("loader", "overflow", "daemon", "faults"),
}
WITHOUT_THREADS = {"jpeg", "transforms", "autotune"}


class Part(NamedTuple):
    name: str
    command: list[str]


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def changed_files() -> list[str]:
    """Those of the commits of the last day before HEAD, and of the work tree. All files where there is no older commit."""
    now = int(git("show", "--no-patch", "--format=%ct", "HEAD"))
    base = git("rev-list", "--max-count=1", f"--before={now - DAY_S}", "HEAD")
    return git("diff", "--name-only", base).splitlines() if base else git("ls-files").splitlines()


def reached_modules(files: list[str]) -> set[str]:
    """Modules whose own code, tests or lower levels are among the files."""
    tops = {name.split("/")[0] for name in files}
    tests = {name.split("/")[1] for name in files if name.startswith("tests/") and name.count("/") > 1}
    everything = {"cmake", "CMakeLists.txt", "CMakePresets.json"} & tops
    reached: set[str] = set()
    below = bool(everything)
    for level in sorted({LEVELS[module] for module in TESTS}):
        modules = [module for module in TESTS if LEVELS[module] == level]
        here = {module for module in modules if below or module in tops}
        reached |= here | {module for module in modules if tests & set(TESTS[module])}
        below = below or bool(here)
    return reached


def sanitized_folders(turn: int) -> tuple[list[str], list[str]]:
    """The test folders that the sanitizers run, and those that they leave to later runs."""
    reached = reached_modules(changed_files())
    rest = [module for module in TESTS if module not in reached]
    chosen = reached | {module for place, module in enumerate(rest) if place % 3 == turn % 3}
    folders = {module: TESTS[module] for module in TESTS}
    run = [folder for module in folders if module in chosen for folder in folders[module]]
    left = [folder for module in folders if module not in chosen for folder in folders[module]]
    return run, left


def parts(everything: bool) -> tuple[list[Part], list[str]]:
    """The parts in the order of what fails most, and the test folders that the sanitizers leave to later runs."""
    run, left = sanitized_folders(int(git("rev-list", "--count", "HEAD")))
    threads = [folder for folder in run if folder not in WITHOUT_THREADS]
    targets = len(list((ROOT / "tests" / "fuzz").glob("*_fuzz.cc")))
    seconds = max(5, FUZZ_BUDGET_S * (os.cpu_count() or 1) // targets)
    begin = [Part("test", ["make", "test"]), Part("lint", ["make", "lint"]), Part("docs", ["make", "docs"])]
    if everything:
        os.environ["CARYA_LONG"] = "1"
        return [
            *begin,
            *(Part(name, ["make", name]) for name in ("asan", "tsan", "gcc", "arm")),
            Part("fuzz", ["make", "fuzz", f"FUZZ_SECONDS={max(120, seconds)}"]),
            Part("faults", ["make", "faults"]),
            Part("mutants", ["make", "mutants"]),
            Part("stress", ["make", "stress"]),
            *PACKAGES,
        ], []
    return [
        *begin,
        Part("asan", ["make", "asan", f"FOLDERS={' '.join(run)}"]),
        *([Part("tsan", ["make", "tsan", f"FOLDERS={' '.join(threads)}"])] if threads else []),
        Part("gccbits", ["make", "gccbits"]),
        Part("armbits", ["make", "armbits"]),
        Part("fuzz", ["make", "fuzz", f"FUZZ_SECONDS={seconds}"]),
        Part("mutants", ["make", "mutants", f"MUTANTS=--tenth --seconds {MUTANTS_BUDGET_S}"]),
        *PACKAGES,
    ], left


# Only what may make trees of a system can try packages; elsewhere (an ordinary user) the wheel is tried in environments.
PACKAGES = (
    [Part(name, ["make", name, "PYTHONS=3.11"]) for name in ("wheel-trial", "deb-trial", "container-trial")]
    if os.geteuid() == 0
    else [Part("wheel", ["make", "wheel", "PYTHONS=3.11"])]
)


def recorded() -> dict[str, float]:
    lines = SECONDS.read_text().splitlines() if SECONDS.exists() else []
    return {name: float(text) for name, text in (line.split("\t") for line in lines if line and line[0] != "#")}


def grown(taken: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """Parts that took more than this machine's speed lets expect, with how many times as much."""
    ratios = {name: seconds / before[name] for name, seconds in taken.items() if before.get(name)}
    speed = statistics.median(ratios.values()) if ratios else 1.0
    return {
        name: ratio / speed
        for name, ratio in ratios.items()
        if ratio > GROWTH * speed and taken[name] - before[name] * speed > GROWTH_MIN_S
    }


def show(taken: dict[str, float], failed: list[str], left: list[str]) -> None:
    before = recorded()
    more = grown(taken, before)
    print("=== summary")
    print(f"{'part':32} {'seconds':>8} {'recorded':>8}")
    for name, seconds in taken.items():
        indent = "  " if " " in name else ""
        mark = "FAILED" if name in failed else f"{more[name]:.2f} x what is expected" if name in more else ""
        print(f"{indent + name:32} {seconds:8.0f} {before.get(name, 0):8.0f}  {mark}".rstrip())
    total = sum(seconds for name, seconds in taken.items() if " " not in name)
    print(f"{'all':32} {total:8.0f} {sum(s for n, s in before.items() if ' ' not in n):8.0f}")
    if left:
        print(
            f"sanitizers: left to later runs, as the change does not reach them: {', '.join(left)} (make all-checks runs all)"
        )
    if more:
        print(f"grown by more than 20 %: {', '.join(more)}")
    if total > LIMIT_S:
        print(f"this run took more than {LIMIT_S // 60} minutes: make a part cheaper")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the full thing: every test under every build, long forms")
    parser.add_argument("--record", action="store_true", help="write the seconds to .ci/seconds.tsv")
    parser.add_argument("--only", default=".", help="only parts whose name matches this pattern")
    options = parser.parse_args()
    data = ROOT.parent / "shared" / "data"
    if data.is_dir():
        os.environ.setdefault("CARYA_TEST_DATA", str(data))
    os.environ["CI"] = "true"  # tools/build.sh and the tests know it
    detail = ROOT / "build" / "ci-parts.tsv"  # build.sh and test.py add a line for each of their steps
    detail.parent.mkdir(exist_ok=True)
    os.environ["CARYA_PARTS"] = str(detail)
    taken: dict[str, float] = {}
    failed: list[str] = []
    chosen, left = parts(options.all)
    for part in chosen:
        if not re.search(options.only, part.name):
            continue
        print(f"=== {part.name}: {' '.join(part.command)}", flush=True)
        detail.write_text("")
        start = time.monotonic()
        done = subprocess.run(part.command, cwd=ROOT, check=False)
        taken[part.name] = time.monotonic() - start
        for line in detail.read_text().splitlines():
            step, seconds = line.split("\t")
            taken[f"{part.name} {step}"] = taken.get(f"{part.name} {step}", 0) + float(seconds)
        if done.returncode != 0:
            failed.append(part.name)
    show(taken, failed, left)
    if options.record:
        lines = [f"{name}\t{seconds:.0f}" for name, seconds in taken.items()]
        head = "# Seconds of each part of .ci/run on two cores from a cold cache: tools/ci.py --record"
        SECONDS.write_text("\n".join([head, *lines, ""]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
