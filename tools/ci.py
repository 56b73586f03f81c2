#!/usr/bin/env python3
"""Everything that must hold before a change is taken: .ci/run. `--all` (make all-checks): the full thing, for hours.

A normal run takes at most 40 minutes on two cores from a cold cache. Every test of the shipped build runs each time.
One of the two sanitizers, in turn, runs a rotating set of the folders of tests, and where the change of the last day
reaches few modules those of them that are below the loader; the summary names the others. Under both, tests that compare
a lot of data look at a part of it. Fuzzing has a budget of time, shared by all targets, and so has a rotating tenth of
the mutants (tools/mutants.py). clang-tidy looks at a rotating eighth of the sources in batches, and at a twentieth one
by one. GCC and aarch64 build what decides bits and compare digests, each first in turn. Faults under running jobs and the long forms of tests take turns. Of the packages,
those are tried whose own files changed, and one in turn. The full thing runs all of it, and the tests of what has
states under load. The summary says what was left out.

Two lanes run at a time. Tests wait a good part of their time: for other processes, clocks, bounds of waiting. Meanwhile
the second lane, of lower priority, computes: it also builds what the sanitizer's tests in the first one need.
tools/build.sh and tools/setup.sh keep the two out of each other's way.

No run passes END_S. A part that may wait for a later run (`rotating`) is left out, by name, when the time so far
lets expect that it, and what must still follow it, would end after GUARD_S, or that it takes processor time that the other
lane needs to end by then.

The summary has a line per part: wall seconds, CPU seconds of all its processes, and those of .ci/seconds.tsv. Wall time
depends on what else the machine does, so growth is judged by CPU seconds. Machines differ: the median of the ratios is
this machine's speed, and a part that took over 20 % more than it lets expect is named. --record writes the file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "architecture"))
from tree import LEVELS  # noqa: E402  what each module may include: a change reaches its own tests and those above

SECONDS = ROOT / ".ci" / "seconds.tsv"
LIMIT_S = 40 * 60  # a run that takes longer says so
GUARD_S = 35 * 60  # no rotating part is begun that is expected to end later, with what must follow it
END_S = 85 * 60  # what then runs is ended: the machine would end all of it five minutes later, without a summary
UNKNOWN_S = 300  # what a part is expected to take of which nothing is recorded
BUSY = 0.85  # of the processors, as the tests wait for others
GROWTH = 1.2  # a part that takes this many times what it should is named ...
GROWTH_MIN_S = 10  # ... if that is this much
FUZZ_BUDGET_S = 60  # of wall time, for all targets together
MUTANTS_BUDGET_S = 100  # of wall time, after which none is begun
LAST_LINES = 12  # of a part that failed, said again at the end
DAY_S = 24 * 3600

# Test folders by module; those that start no thread are of no use to the thread sanitizer.
TESTS = {
    "base": ("base",),
    "shm": ("shm",),
    "io": ("io", "store"),
    "transforms": ("jpeg", "coefficients", "text", "transforms"),
    "autotune": ("autotune",),
    "remote": ("remote",),
    "loader": ("loader", "overflow", "daemon", "faults"),
}
# One sanitizer a run, with one of its sets of folders. Rings and leases, on which all else stands, are in most. What is below
# the loader goes twice under the thread sanitizer, whose sets are fewer.
LOW = ("base", "shm", "io", "store", "remote")
SETS = (
    ("asan", ("shm", "loader")),
    ("tsan", LOW),
    ("asan", ("jpeg", "coefficients", "text", "transforms", "autotune")),
    ("tsan", ("shm", "loader")),
    ("asan", ("shm", "overflow", "daemon", "faults")),
    ("tsan", LOW),
    ("asan", LOW),
    ("tsan", ("shm", "overflow", "daemon", "faults")),
)
WITHOUT_THREADS = {"jpeg", "coefficients", "text", "transforms", "autotune"}
# The trials of packages, and the files that are their own.
PACKAGES = {
    "wheel-trial": r"pyproject\.toml|tools/wheel|packaging/wheel|cmake/|python/CMakeLists",
    "deb-trial": r"packaging/(deb|install|man|systemd|trial)",
    "container-trial": r"packaging/(container|trial)",
}


class Part(NamedTuple):
    name: str
    command: list[str]
    rotating: bool = False  # may be left to a later run, when time is short
    computes: bool = False  # in the second lane


class Taken(NamedTuple):
    wall: float
    cpu: float


# What takes long, a part of it in turn; the full thing has all of it.
LONG = [
    Part("faults", ["make", "faults", "N=300"], rotating=True),
    *(Part("long", ["make", "long", f"TESTS=/{target}"], rotating=True) for target in ("AVX2", "SSE4", "EMU128")),
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


def a_part(things: list[str], of: int, turn: int) -> set[str]:
    """One of `of` parts of them, another one in each turn."""
    return {thing for place, thing in enumerate(things) if place % of == turn % of}


def sanitized_folders(files: list[str], turn: int) -> tuple[str, list[str]]:
    """The sanitizer of this run, and the folders of tests that it looks at."""
    name, folders = SETS[turn % len(SETS)]
    reached = reached_modules(files)
    few = reached - {"loader"} if 2 * len(reached) <= len(TESTS) else set()
    chosen = {*folders, *(folder for module in few for folder in TESTS[module])}
    useless = WITHOUT_THREADS if name == "tsan" else set()
    return name, [folder for folders in TESTS.values() for folder in folders if folder in chosen - useless]


def tried_packages(files: list[str], turn: int) -> list[Part]:
    """Only who may make trees of a system can try packages; another user (root is not) has the wheel tried in environments."""
    if os.geteuid() != 0:
        return [Part("wheel", ["make", "wheel", "PYTHONS=3.11"])]
    chosen = {name for name, own in PACKAGES.items() if any(re.match(own, file) for file in files)}
    chosen |= a_part(list(PACKAGES), 3, turn)
    return [Part(name, ["make", name, "PYTHONS=3.11"], rotating=True) for name in PACKAGES if name in chosen]


def parts(everything: bool) -> tuple[list[Part], list[str]]:
    """The parts, of each lane in the order of what fails most, and what they leave to later runs, in words."""
    files, turn = changed_files(), int(git("rev-list", "--count", "HEAD"))
    sanitizer, folders = sanitized_folders(files, turn)
    targets = len(list((ROOT / "tests" / "fuzz").glob("*_fuzz.cc")))
    seconds = max(5, FUZZ_BUDGET_S * (os.cpu_count() or 1) // targets)
    test, docs = Part("test", ["make", "test"]), Part("docs", ["make", "docs"], computes=True)
    if everything:
        os.environ["CARYA_LONG"] = "1"
        return [
            test,
            Part("lint", ["make", "lint", "LINT=--each"], computes=True),
            docs,
            *(Part(name, ["make", name]) for name in ("asan", "tsan", "gcc", "arm")),
            Part("fuzz", ["make", "fuzz", f"FUZZ_SECONDS={max(120, seconds)}"]),
            Part("faults", ["make", "faults"]),
            Part("function-faults", ["make", "function-faults", "N=500"]),
            Part("mutants", ["make", "mutants"]),
            Part("stress", ["make", "stress"]),
            *(Part(name, ["make", name, "PYTHONS=3.11"]) for name in PACKAGES),
        ], []
    packages = tried_packages(files, turn)
    bits = ("armbits", "gccbits") if turn % 2 else ("gccbits", "armbits")
    left = [
        f"{name} of {', '.join(rest)}"
        for name in ("asan", "tsan")
        if (rest := left_out(name, folders if name == sanitizer else []))
    ]
    left += [" ".join(part.command[1:]) for part in LONG if part != LONG[turn % len(LONG)]]
    left += [name for name in PACKAGES if name not in {part.name for part in packages}]
    left += [
        "nine tenths of the mutants",
        "clang-tidy on nineteen of twenty sources one by one, and on seven eighths of their batches",
    ]
    left += ["gcc and arm but for what decides bits", "stress"]
    return [
        test,
        Part(
            "mutants", ["make", "mutants", f"MUTANTS=--tenth {turn % 10} --seconds {MUTANTS_BUDGET_S}"], rotating=True
        ),
        Part(sanitizer, ["make", sanitizer, f"FOLDERS={' '.join(folders)}"]),
        LONG[turn % len(LONG)],
        *packages,
        Part("lint", ["make", "lint", "LINT=--part"], computes=True),
        docs,
        # What `make asan` or `make tsan` builds, before the first lane comes to it.
        Part(f"{sanitizer}-build", ["tools/build.sh", sanitizer, *(f"{one}_test" for one in folders)], computes=True),
        Part(bits[0], ["make", bits[0]], rotating=True, computes=True),
        Part("fuzz", ["make", "fuzz", f"FUZZ_SECONDS={seconds}"], rotating=True, computes=True),
        Part(bits[1], ["make", bits[1]], rotating=True, computes=True),
    ], left


def left_out(sanitizer: str, run: list[str]) -> list[str]:
    """The folders of tests that the sanitizer is for and does not look at in this run."""
    useless = WITHOUT_THREADS if sanitizer == "tsan" else set()
    return [one for folders in TESTS.values() for one in folders if one not in useless.union(run)]


def rows() -> dict[tuple[str, str], Taken]:
    """What .ci/seconds.tsv has, by name and by the command of the part; a step has its part's."""
    lines = SECONDS.read_text().splitlines() if SECONDS.exists() else []
    found = [line.split("\t") for line in lines if line and line[0] != "#"]
    return {(row[0], row[3]): Taken(float(row[1]), float(row[2])) for row in found}


def recorded(chosen: list[Part]) -> dict[str, Taken]:
    """What is known of these parts and their steps. One that takes turns is compared with the same turn, by its command."""
    commands = {part.name: " ".join(part.command) for part in chosen}
    return {name: taken for (name, command), taken in rows().items() if commands.get(name.split()[0]) == command}


def expected(chosen: list[Part]) -> dict[str, Taken]:
    """What a part may take: as much as the same turn did, or else as the dearest one."""
    found: dict[str, Taken] = {}
    for (name, _), taken in rows().items():
        if name not in found or taken.cpu > found[name].cpu:
            found[name] = taken
    return found | recorded(chosen)


def record(chosen: list[Part], taken: dict[str, Taken]) -> None:
    """Those of this run, in place of what was known of the same turns."""
    commands = {part.name: " ".join(part.command) for part in chosen if part.name in taken}
    known = {key: one for key, one in rows().items() if commands.get(key[0].split()[0]) != key[1]}
    known |= {(name, commands[name.split()[0]]): one for name, one in taken.items()}
    lines = [f"{name}\t{one.wall:.0f}\t{one.cpu:.0f}\t{command}" for (name, command), one in sorted(known.items())]
    head = "# Wall and CPU seconds of each part of .ci/run and its steps, on two cores from a cold cache: tools/ci.py --record"
    SECONDS.write_text("\n".join([head, *lines, ""]))


def grown(taken: dict[str, Taken], before: dict[str, Taken]) -> dict[str, float]:
    """Parts that took more CPU time than this machine's speed lets expect, with how many times as much."""
    ratios = {name: one.cpu / before[name].cpu for name, one in taken.items() if name in before and before[name].cpu}
    speed = statistics.median(ratios.values()) if ratios else 1.0
    return {
        name: ratio / speed
        for name, ratio in ratios.items()
        if ratio > GROWTH * speed and taken[name].cpu - before[name].cpu * speed > GROWTH_MIN_S
    }


def yield_to_others(pid: int) -> None:
    """Where the kernel groups tasks by session, a process's own nice value counts within its group only."""
    with contextlib.suppress(OSError):  # no such kernel, or the process has ended
        Path(f"/proc/{pid}/autogroup").write_text("10")


class Run:
    """Runs the parts, a lane at a time in each of two threads."""

    def __init__(
        self, chosen: list[Part], before: dict[str, Taken], end_s: float, expects: dict[str, Taken] | None = None
    ) -> None:
        self.chosen = chosen
        self.lanes = [[part for part in chosen if part.computes == computes] for computes in (False, True)]
        self.before = before
        self.expects = before | (expects or {})
        self.start = time.monotonic()
        self.end_s = end_s
        self.ended = False
        self.taken: dict[str, Taken] = {}
        self.failed: list[str] = []
        self.left: list[str] = []  # for lack of time
        self.lock = threading.Lock()  # of what is above, and of the output
        self.processes: dict[str, int] = {}  # those that run, by part
        self.begun: dict[str, float] = {}  # when, by part
        self.place = ROOT / "build" / "ci"
        self.place.mkdir(parents=True, exist_ok=True)

    def all_of_it(self) -> None:
        threads = [threading.Thread(target=self.lane, args=(lane,), daemon=True) for lane in self.lanes]
        ending = threading.Timer(self.end_s, self.end)
        ending.daemon = True
        for thread in [*threads, ending]:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            ending.cancel()
            self.end()

    def end(self) -> None:
        """Ends all that runs, with what it has started, and lets nothing more begin."""
        with self.lock:
            self.ended = True
            for pid in self.processes.values():
                os.killpg(pid, signal.SIGKILL)

    def lane(self, lane: list[Part]) -> None:
        for place, part in enumerate(lane):
            with self.lock:
                if self.ended or (part.rotating and not (self.has_time(lane[place:]) and self.has_processors(part))):
                    self.put_off(part)
                    continue
            self.one(part)

    def put_off(self, part: Part) -> None:
        """A part that was not begun, or was ended, for lack of time: one that must not wait for a later run has failed."""
        self.left.append(f"{part.name} (no time)")
        if not part.rotating:
            self.failed.append(part.name)

    def has_time(self, rest: list[Part]) -> bool:
        """Whether the first of these, and those of the others that must follow, are expected to end in time."""
        known = [name for name in self.taken if name in self.before and " " not in name]
        before = sum(self.before[name].wall for name in known)
        slowness = max(1.0, sum(self.taken[name].wall for name in known) / before) if before else 1.0
        wanted = [rest[0], *(part for part in rest[1:] if not part.rotating)]
        more = sum(self.expects[part.name].wall if part.name in self.expects else UNKNOWN_S for part in wanted)
        return time.monotonic() - self.start + slowness * more <= GUARD_S

    def has_processors(self, part: Part) -> bool:
        """Whether the processors are expected to do this part by GUARD_S beside all that must be done, and what runs now."""
        steps = {name: taken for running in self.begun for name, taken in self.steps_of(running).items()}
        ended = {name: taken for name, taken in (self.taken | steps).items() if name in self.before and " " in name}
        before = sum(self.before[name].cpu for name in ended)
        slowness = max(1.0, sum(taken.cpu for taken in ended.values()) / before) if before else 1.0
        wanted = 0.0
        for one in self.chosen:
            known = self.expects.get(one.name, Taken(UNKNOWN_S, UNKNOWN_S))
            if one == part or one.name in self.begun or not (one.rotating or one.name in self.taken):
                elapsed = time.monotonic() - self.begun.get(one.name, time.monotonic())
                wanted += known.cpu * max(0.0, 1 - elapsed / max(known.wall * slowness, 1))
        left_s = max(0.0, GUARD_S - (time.monotonic() - self.start))
        return slowness * wanted <= left_s * (os.cpu_count() or 1) * BUSY

    def steps_of(self, name: str) -> dict[str, Taken]:
        """Those of a part that have ended, by their names behind its own."""
        found: dict[str, Taken] = {}
        for line in (self.place / f"{name}.tsv").read_text().splitlines():
            step, *seconds = line.split("\t")
            old = found.get(f"{name} {step}", Taken(0, 0))
            found[f"{name} {step}"] = Taken(old.wall + float(seconds[0]), old.cpu + float(seconds[1]))
        return found

    def one(self, part: Part) -> None:
        steps, log = self.place / f"{part.name}.tsv", self.place / f"{part.name}.log"
        steps.write_text("")
        lowered = ["nice", "-n", "10"] if part.computes else []
        start = time.monotonic()
        with log.open("w") as output, self.lock:
            print(f"=== begin {part.name}: {' '.join(part.command)}", flush=True)
            process = subprocess.Popen(
                [*lowered, *part.command],
                cwd=ROOT,
                env={
                    **os.environ,
                    "CARYA_PARTS": str(steps),
                },  # build.sh and test.py add a line for each of their steps
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.processes[part.name] = process.pid
            self.begun[part.name] = start
        if part.computes:
            yield_to_others(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # until it is reaped, its number is nobody else's
        with self.lock:
            del self.processes[part.name], self.begun[part.name]
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            wall = time.monotonic() - start
            self.taken[part.name] = Taken(wall, used.ru_utime + used.ru_stime)
            self.taken |= self.steps_of(part.name)
            if self.ended:
                self.put_off(part)
            elif process.returncode != 0:
                self.failed.append(part.name)
            print(
                f"=== {part.name}: {wall:.0f} s, ended with {process.returncode}\n{log.read_text(errors='replace')}",
                flush=True,
            )


def show(run: Run, left: list[str]) -> None:
    taken, wall = run.taken, time.monotonic() - run.start
    more = grown(taken, run.before)
    print("=== summary")
    print(f"{'part':36} {'wall s':>8} {'CPU s':>8} {'recorded':>8}")
    for name, seconds in sorted(taken.items()):
        indent = "  " if " " in name else ""
        mark = "FAILED" if name in run.failed else f"{more[name]:.2f} x what is expected" if name in more else ""
        before = run.before.get(name, Taken(0, 0)).cpu
        print(f"{indent + name:36} {seconds.wall:8.0f} {seconds.cpu:8.0f} {before:8.0f}  {mark}".rstrip())
    total = sum(seconds.cpu for name, seconds in taken.items() if " " not in name)
    print(f"{'all':36} {wall:8.0f} {total:8.0f} {sum(s.cpu for n, s in run.before.items() if ' ' not in n):8.0f}")
    if left or run.left:
        print(f"left to later runs (make all-checks runs all): {'; '.join(run.left + left)}")
    if more:
        print(f"grown by more than 20 %: {', '.join(more)}")
    for name in run.failed:  # who sees the end of the output alone sees why
        log = run.place / f"{name}.log"
        lines = log.read_text(errors="replace").splitlines() if name in run.taken else ["not begun, for lack of time"]
        print(f"--- {name} failed; its last lines:", *lines[-LAST_LINES:], sep="\n  ")
    if run.failed:
        print(f"failed: {', '.join(run.failed)}")
    if wall > LIMIT_S:
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
    os.environ.setdefault("CARYA_UNITY", "TESTS" if options.all else "ALL")  # cmake/carya.cmake
    chosen, left = parts(options.all)
    chosen = [part for part in chosen if re.search(options.only, part.name)]
    run = (
        Run(chosen, {}, threading.TIMEOUT_MAX)
        if options.all
        else Run(chosen, recorded(chosen), END_S, expected(chosen))
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is ended, too
    run.all_of_it()
    show(run, left)
    if options.record:
        record(chosen, run.taken)
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
