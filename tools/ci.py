#!/usr/bin/env python3
"""Everything that must hold before a change is taken: .ci/run. `--all` (make all-checks): the full thing, for hours.

A normal run takes at most 40 minutes on two cores from a cold cache. Every test of the shipped build runs each time.
The sanitizers run the tests of all modules that the change of the last day reaches, and of a rotating third of the
others, which the summary names. Where a change reaches most modules, the two sanitizers take turns: one runs all of
them, the other a third. Under both, tests that compare a lot of data look at a part of it. Fuzzing has a budget of time,
shared by all targets, and so has a rotating tenth of the mutants (tools/mutants.py). GCC and aarch64 build what decides
bits and compare digests. Faults under running jobs and the long forms of tests take turns. Of the packages, those are
tried whose own files changed, and one in turn. The full thing runs all of it, and the tests of what has states under load.

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
sys.path.insert(0, str(ROOT / "tests" / "architecture"))
from tree import LEVELS  # noqa: E402  what each module may include: a change reaches its own tests and those above

SECONDS = ROOT / ".ci" / "seconds.tsv"
LIMIT_S = 40 * 60
GROWTH = 1.2  # a part that takes this many times what it should is named ...
GROWTH_MIN_S = 10  # ... if that is this much
FUZZ_BUDGET_S = 120  # of wall time, for all targets together
MUTANTS_BUDGET_S = 100  # of wall time, after which none is begun
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
# The trials of packages, and the files that are their own.
PACKAGES = {
    "wheel-trial": r"pyproject\.toml|tools/wheel|packaging/wheel|cmake/|python/CMakeLists",
    "deb-trial": r"packaging/(deb|install|man|systemd|trial)",
    "container-trial": r"packaging/(container|trial)",
}


class Part(NamedTuple):
    name: str
    command: list[str]


# What takes long, a part of it in turn; the full thing has all of it.
LONG = [
    Part("faults", ["make", "faults", "N=300"]),
    *(Part("long", ["make", "long", f"TESTS=/{target}"]) for target in ("AVX2", "SSE4", "EMU128")),
]


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


def a_third(things: list[str], turn: int) -> set[str]:
    return {thing for place, thing in enumerate(things) if place % 3 == turn % 3}


def sanitized_folders(files: list[str], turn: int) -> dict[str, list[str]]:
    """By sanitizer: the folders of tests that it runs."""
    reached = reached_modules(files)
    modules = reached | a_third([module for module in TESTS if module not in reached], turn)
    chosen = {"asan": modules, "tsan": modules}
    if 2 * len(reached) > len(TESTS):
        chosen["asan" if turn % 2 else "tsan"] = a_third(list(TESTS), turn // 2)
    return {
        name: [
            folder
            for module, folders in TESTS.items()
            if module in chosen[name]
            for folder in folders
            if name == "asan" or folder not in WITHOUT_THREADS
        ]
        for name in chosen
    }


def tried_packages(files: list[str], turn: int) -> list[Part]:
    """Only who may make trees of a system can try packages; another user (root is not) has the wheel tried in environments."""
    if os.geteuid() != 0:
        return [Part("wheel", ["make", "wheel", "PYTHONS=3.11"])]
    chosen = {name for name, own in PACKAGES.items() if any(re.match(own, file) for file in files)}
    chosen |= a_third(list(PACKAGES), turn)
    return [Part(name, ["make", name, "PYTHONS=3.11"]) for name in PACKAGES if name in chosen]


def parts(everything: bool) -> tuple[list[Part], list[str]]:
    """The parts in the order of what fails most, and what they leave to later runs, in words."""
    files, turn = changed_files(), int(git("rev-list", "--count", "HEAD"))
    run = sanitized_folders(files, turn)
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
            *(Part(name, ["make", name, "PYTHONS=3.11"]) for name in PACKAGES),
        ], []
    packages = tried_packages(files, turn)
    folders = [folder for folders in TESTS.values() for folder in folders]
    left = [f"{name} of {', '.join(rest)}" for name in run if (rest := left_out(name, folders, run))]
    left += [name for name in PACKAGES if name not in {part.name for part in packages}]
    return [
        *begin,
        *(Part(name, ["make", name, f"FOLDERS={' '.join(run[name])}"]) for name in run if run[name]),
        Part("gccbits", ["make", "gccbits"]),
        Part("armbits", ["make", "armbits"]),
        Part("fuzz", ["make", "fuzz", f"FUZZ_SECONDS={seconds}"]),
        Part("mutants", ["make", "mutants", f"MUTANTS=--tenth --seconds {MUTANTS_BUDGET_S}"]),
        LONG[turn % len(LONG)],
        *packages,
    ], left


def left_out(sanitizer: str, folders: list[str], run: dict[str, list[str]]) -> list[str]:
    useless = WITHOUT_THREADS if sanitizer == "tsan" else set()
    return [folder for folder in folders if folder not in run[sanitizer] and folder not in useless]


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
        print(f"left to later runs (make all-checks runs all): {'; '.join(left)}")
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
