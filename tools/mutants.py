#!/usr/bin/env python3
"""Puts small mistakes into the code, one at a time, and says which tests notice.

A mutant is a row of tests/mutants/*.toml: a text of one source file, the wrong text in its place, the property that this
breaks, and the tests that are to fail. The work tree is never changed. What a mutant changes is compiled into
build/mutants, from a copy of its file, and linked before the objects of build/release, which must be built; a mutant of
Python is a copy of the package. So each costs the compilation of one file, a link, and its tests.

First the tests of all chosen mutants must pass without any, in programs that are linked in the same way. Then each mutant
ends in one of these ways:

  killed      a test failed, crashed, or ran into the time limit, many times what it takes without the mutant
  survived    all its tests passed: write a test that fails
  not tried   its tests skip here (they need root, for example): it does not count
  stale       the text is not in the file any more, or more than once: bring the row up to date
  unbuilt     it does not compile: bring the row up to date

The exit status is 1 when one is stale or unbuilt, when one survives whose property may not be broken unseen (isolation,
fairness, authentication, checksums, liveness), or when fewer than 90 % of those that were tried die.

  tools/mutants.py --list                         names, properties, files
  tools/mutants.py --only 'daemon|turns'          only those whose name or file matches
  tools/mutants.py --tenth 3                      the tenth number 3 (modulo 10); without a number: the next one with each commit
  tools/mutants.py --tenth --seconds 150          begins none after that many seconds, and names those that are left

`make mutants` builds what is needed and runs all.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: pytest brings the same parser
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import unity  # noqa: E402

TABLES = ROOT / "tests" / "mutants"
BUILD = ROOT / "build" / "release"
# The tests' own, whoever runs this script.
PYTHON = str(ROOT / ".venv" / "bin" / "python") if (ROOT / ".venv").is_dir() else sys.executable
PLACE = ROOT / "build" / "mutants"
PROPERTIES = {
    "isolation": "no client, record or reader reaches what is not its own",
    "fairness": "nobody is kept from what is shared",
    "authentication": "who may not is refused",
    "checksums": "damaged bytes are not taken for good ones",
    "liveness": "nobody sleeps while there is something to do",
    "bits": "the stream has the bits that it must have",
    "bounds": "limits are kept",
    "errors": "what fails is reported, as what it is",
    "decisions": "what is chosen is the best of what was measured",
}
NEVER_SURVIVED = ("isolation", "fairness", "authentication", "checksums", "liveness")
DEATHS_MIN = 0.9
LIMIT_S = 20  # the end of a hang, unless the tests take that long ...
LIMIT_TIMES = 6  # ... times this, without the mutant


@dataclass(frozen=True)
class Mutant:
    name: str
    property: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]  # "loader_test Job.A:Job.B" (a GoogleTest filter), or "tests/python/test_x.py -k word"

    def mutated(self) -> str:
        """The file's text with the mistake. ValueError: the text is not there, or not once."""
        text = (ROOT / self.file).read_text()
        if (times := text.count(self.old)) != 1:
            raise ValueError(f"{self.file} has the text {times} times: {self.old.strip().splitlines()[0]}")
        return text.replace(self.old, self.new)


def read_tables() -> list[Mutant]:
    """Every row, in the order of files and rows."""
    rows = []
    for path in sorted(TABLES.glob("*.toml")):
        for row in tomllib.loads(path.read_text())["mutant"]:
            rows.append(Mutant(**{**row, "tests": tuple(row["tests"])}))
    return rows


@dataclass
class Outcome:
    """What running tests came to."""

    passed: bool
    seconds: float
    failed: list[str] = field(default_factory=list)  # tests, in words
    skipped: bool = False  # all of them
    hung: bool = False
    log: str = ""


@dataclass
class Verdict:
    mutant: Mutant
    how: str
    by: str = ""
    seconds: float = 0


@cache
def compile_commands() -> list[dict[str, str]]:
    """Without precompiled headers: those were made with other options."""
    entries: list[dict[str, str]] = json.loads((BUILD / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = re.sub(r" -Winvalid-pch| -Xclang -include(-pch)? -Xclang \S+", "", entry["command"])
    return [entry for entry in entries if "/tests/faults/" not in entry["output"]]


@cache
def joined(file: str) -> list[str]:
    """The sources that this one joins, from the root; none where it is one of ours."""
    return [os.path.relpath(one, ROOT) for one in unity.joined_sources(["-c", file])]


@cache
def includers() -> dict[str, list[str]]:
    """Sources that include a header, by the header, both from the root. A precompiled header stands before the source in
    what an object depends on, so the source is the one that its command compiles."""
    text = subprocess.run(["ninja", "-C", str(BUILD), "-t", "deps"], capture_output=True, text=True, check=True).stdout
    sources = {os.path.relpath(one["output"], BUILD): os.path.relpath(one["file"], ROOT) for one in compile_commands()}
    found: dict[str, list[str]] = {}
    for block in text.split("\n\n"):
        head, *lines = block.splitlines() or [""]
        source = sources.get(head.split(": #deps")[0])
        for line in lines if source else []:
            path = os.path.relpath(os.path.join(BUILD, line.strip()), ROOT)
            if path != source:
                found.setdefault(path, []).append(source or "")
    return found


@cache
def link_command(program: str) -> str:
    """How ninja links it, from the build folder. `program` is a path there."""
    line = subprocess.run(
        ["ninja", "-C", str(BUILD), "-t", "commands", "-s", program], capture_output=True, text=True, check=True
    ).stdout
    found = [part for part in line.split(" && ") if f" -o {program} " in part]
    if not found:
        raise SystemExit(f"mutants: build/release does not know how to link {program}; run make test first")
    return found[0]


@cache
def extension() -> str:
    found = [path.name for path in (BUILD / "python" / "carya").glob("_core*.so")]
    if len(found) != 1:
        raise SystemExit("mutants: build/release/python/carya has no extension; run make test first")
    return f"python/carya/{found[0]}"


def programs_of(test: str) -> list[str]:
    """The programs that a row's tests start, as paths in the build folder, those that must be linked anew first."""
    if test.startswith("tests/"):
        return [extension(), "python/carya/bin/caryad", "python/carya/bin/carya-worker"]
    name = test.split()[0]
    linked = [f"tests/{name.removesuffix('_test')}/{name}"]
    return [*linked, "python/carya/bin/caryad"] if name == "daemon_test" else linked


class Bench:
    """A place in which one mutant at a time is built and tried."""

    def __init__(self, number: int) -> None:
        self.place = PLACE / str(number)
        shutil.rmtree(self.place, ignore_errors=True)

    def put(self, file: str, text: str) -> None:
        """Begins anew with that file in place of the tree's."""
        shutil.rmtree(self.place, ignore_errors=True)
        copy = self.place / "copy" / file
        copy.parent.mkdir(parents=True)
        copy.write_text(text)
        package = self.place / "python" / "carya"
        (package / "bin").mkdir(parents=True)
        for path in (ROOT / "python" / "carya").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so":
                twin = self.place / path.relative_to(ROOT)
                twin.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(copy if str(path.relative_to(ROOT)) == file else path, twin)
        built = ("python/carya/include", extension(), "python/carya/bin/caryad", "python/carya/bin/carya-worker")
        for one in built:
            (self.place / one).symlink_to(BUILD / one)
        self.objects = self.compile(file) if file.endswith((".cc", ".h")) else {}

    def compile(self, file: str) -> dict[str, Path]:
        """The objects that the file is in, by their names in the build folder. RuntimeError: what the compiler says."""
        sources = {file} if file.endswith(".cc") else {*includers().get(file, [])}
        objects = {}
        for entry in compile_commands():
            source = os.path.relpath(entry["file"], ROOT)
            if sources.isdisjoint([source, *joined(entry["file"])]):
                continue
            self.copy_joined(source)
            name = os.path.relpath(entry["output"], BUILD)
            out = self.place / "objects" / name
            out.parent.mkdir(parents=True, exist_ok=True)
            words = shlex.split(entry["command"])
            copied = self.place / "copy" / source
            words[words.index("-c") + 1] = str(copied if copied.exists() else entry["file"])
            words[words.index("-o") + 1] = str(out)
            words[1:1] = [f"-I{self.place / 'copy'}"]
            words += ["-O1", "-g0", "-Wno-error", "-w"]
            # Joined sources, which a first build makes of tests, need not go together: as in the build, unity.py looks.
            words.insert(0, str(ROOT / "tools" / "unity.py"))
            done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            objects[name] = out
        if not objects:
            raise RuntimeError(f"no program has {file}")
        return objects

    def copy_joined(self, source: str) -> None:
        """Where CMake joins several sources, another one, of which each that has changed here is the one of this place."""
        changed = [one for one in joined(str(ROOT / source)) if (self.place / "copy" / one).exists()]
        if not changed:
            return
        text = (ROOT / source).read_text()
        for one in changed:
            text = text.replace(f'"{ROOT / one}"', f'"{self.place / "copy" / one}"')
        copy = self.place / "copy" / source
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)

    def link(self, program: str) -> bool:
        """The program with the changed objects. False: it has none of them."""
        command = link_command(program)
        words = shlex.split(command.removeprefix(": "))
        libraries = {Path(word).name[3:-2] for word in words if word.endswith(".a")}
        before = []
        changed = False
        for name, path in self.objects.items():
            target = re.search(r"CMakeFiles/([^/]+)\.dir/", name)
            if name in words:
                words[words.index(name)] = str(path)
                changed = True
            elif target and target.group(1) in libraries:
                before.append(str(path))  # before the library: what it defines is not looked for there any more
        if not changed and not before:
            return False
        out = self.place / program
        out.parent.mkdir(parents=True, exist_ok=True)
        out.unlink(missing_ok=True)
        at = words.index("-o")
        words[at + 1] = str(out)
        words[at + 2 : at + 2] = before
        words = [word for word in words if word != "-fuse-ld=bfd"]  # only what is shipped needs it, and mold is faster
        done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return True

    def run(self, test: str, limit_s: float) -> Outcome:
        """The row's tests with the programs of this place, or those of the build where it has none."""
        if self.objects:
            for program in programs_of(test):
                if not (self.place / program).is_file() or (self.place / program).is_symlink():
                    self.link(program)
        return run_tests(test, self.place, limit_s)


def environment(place: Path) -> dict[str, str]:
    env = dict(os.environ)
    env.pop("CARYA_LONG", None)  # the long forms of tests say no more about a mutant
    env["PYTHONPATH"] = str(place / "python")
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["CARYA_TEST_CARYAD"] = str(place / "python/carya/bin/caryad")
    if (data := ROOT.parent / "shared" / "data").is_dir():
        env.setdefault("CARYA_TEST_DATA", str(data))
    return env


def run_tests(test: str, place: Path, limit_s: float) -> Outcome:
    words = shlex.split(test)
    if test.startswith("tests/"):
        command = [PYTHON, "-m", "pytest", "-x", "-v", "--tb=line", "-rsfE", "-p", "no:cacheprovider", *words]
    else:
        program = programs_of(test)[0]
        built = place / program if (place / program).is_file() else BUILD / program
        command = [str(built), f"--gtest_filter={words[1]}", "--gtest_fail_fast", "--gtest_brief=0"]
    log = place / "tests.log"
    start = time.monotonic()
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(place), stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):  # also what a test that failed has left behind
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    seconds = time.monotonic() - start
    text = log.read_text(errors="replace")
    failed = failures(test, text)
    if status is None:
        return Outcome(False, seconds, failed, hung=True, log=text)
    if status == 0:
        ran, skipped = counts(test, text)
        if ran == 0:
            raise SystemExit(f"mutants: no test is called {test}")
        return Outcome(True, seconds, skipped=skipped == ran, log=text)
    return Outcome(False, seconds, failed or [f"{words[0]} ended with {status}"], log=text)


def failures(test: str, text: str) -> list[str]:
    """Also the one that was running when the program died or was ended."""
    if test.startswith("tests/"):
        found = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
        return [name.split("/")[-1] for name in found or re.findall(r"^(\S+::.*\S)\s*\Z", text, re.MULTILINE)]
    found = re.findall(r"^\[  FAILED  \] ([^\s,]+)(?:,.*)? \(\d+ ms\)", text, re.MULTILINE)
    begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)
    ended = re.findall(r"^\[ (?: FAILED |      OK| SKIPPED) \] ([^\s,]+)", text, re.MULTILINE)
    return found or begun[len(ended) :][:1]


def counts(test: str, text: str) -> tuple[int, int]:
    """Tests that ran, and of those the ones that were skipped."""
    if test.startswith("tests/"):
        number = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|skipped)", text)}
        return sum(number.values()), number.get("skipped", 0)
    ran = re.search(r"^\[==========\] (\d+) tests? from .* ran", text, re.MULTILINE)
    return int(ran.group(1)) if ran else 0, len(re.findall(r"^\[  SKIPPED \] \S+ \(", text, re.MULTILINE))


class Trial:
    """Tries mutants, as many at a time as there are benches."""

    def __init__(self, jobs: int, seconds: float) -> None:
        self.end = time.monotonic() + seconds if seconds > 0 else None
        self.benches = [Bench(number) for number in range(jobs)]
        self.usual: dict[str, Outcome] = {}  # by a row's tests: without a mutant
        self.lock = threading.Lock()
        self.done = 0

    def in_bench(self, work: Iterable[Mutant], count: int) -> list[Verdict]:
        with ThreadPoolExecutor(len(self.benches)) as pool:
            return list(pool.map(lambda mutant: self.one(mutant, count), work))

    def one(self, mutant: Mutant, count: int) -> Verdict:
        with self.lock:
            bench = self.benches.pop()
        try:
            verdict = self.judge(mutant, bench)
        finally:
            with self.lock:
                self.benches.append(bench)
        with self.lock:
            self.done += 1
            print(
                f"[{self.done}/{count}] {mutant.name}: {verdict.how} {verdict.by} {verdict.seconds:.0f} s", flush=True
            )
        return verdict

    def judge(self, mutant: Mutant, bench: Bench) -> Verdict:
        start = time.monotonic()
        if self.end is not None and start > self.end:
            return Verdict(mutant, "left")
        try:
            text = mutant.mutated()
        except ValueError as error:
            return Verdict(mutant, "stale", str(error))
        try:
            self.look_without(mutant, bench)
            usual = [self.usual[test] for test in mutant.tests]
            if all(one.skipped for one in usual):
                return Verdict(mutant, "not tried", "its tests skip here")
            bench.put(mutant.file, text)
            for test, without in zip(mutant.tests, usual, strict=True):
                outcome = bench.run(test, max(LIMIT_S, LIMIT_TIMES * without.seconds))
                if outcome.passed:
                    continue
                by = ", ".join(outcome.failed[:2]) + (" (a hang)" if outcome.hung else "")
                return Verdict(mutant, "killed", by, time.monotonic() - start)
        except RuntimeError as error:
            return Verdict(mutant, "unbuilt", str(error).strip()[:600])
        return Verdict(mutant, "survived", "", time.monotonic() - start)

    def look_without(self, mutant: Mutant, bench: Bench) -> None:
        """The tests of the row without a mutant, in programs that were linked as those with one are."""
        new = [test for test in mutant.tests if test not in self.usual]
        if not new:
            return
        bench.put(mutant.file, (ROOT / mutant.file).read_text())
        for test in new:
            outcome = bench.run(test, 600)
            if not outcome.passed:
                print(outcome.log[-3000:])
                raise SystemExit(f"mutants: {test} fails without a mutant; mend that first")
            self.usual[test] = outcome


def chosen(rows: list[Mutant], only: str, tenth: int | None) -> list[Mutant]:
    """A tenth has rows of all tables, and begins elsewhere each time, as what comes last may be left for lack of time."""
    picked = [row for row in rows if re.search(only, row.name) or re.search(only, row.file)]
    if tenth is None:
        return picked
    some = picked[tenth % 10 :: 10]
    first = tenth // 10 * 5 % max(len(some), 1)
    return some[first:] + some[:first]


def commits() -> int:
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(counted.stdout or 0)


def fails(verdicts: list[Verdict]) -> list[str]:
    """Why the exit status is 1."""
    reasons = [f"{one.mutant.name} is {one.how}: {one.by}" for one in verdicts if one.how in ("stale", "unbuilt")]
    alive = [one.mutant for one in verdicts if one.how == "survived"]
    reasons += [
        f"{one.name} survives: {one.property} may not be broken unseen"
        for one in alive
        if one.property in NEVER_SURVIVED
    ]
    dead = sum(one.how == "killed" for one in verdicts)
    tried = dead + len(alive)
    if tried and dead / tried < DEATHS_MIN:
        names = ", ".join(one.name for one in alive)
        reasons.append(f"{dead} of {tried} die, fewer than {DEATHS_MIN:.0%}; alive: {names}")
    return reasons


def show(verdicts: list[Verdict]) -> None:
    print(f"\n{'mutant':44} {'property':15} {'':9} {'seconds':>7}  by")
    for one in verdicts:
        print(
            f"{one.mutant.name:44} {one.mutant.property:15} {one.how:9} {one.seconds:7.0f}  {one.by.splitlines()[0] if one.by else ''}"
        )
    left = [one.mutant.name for one in verdicts if one.how == "left"]
    if left:
        print(f"left to later runs, as the time was up: {', '.join(left)}")
    counted = {how: sum(one.how == how for one in verdicts) for how in ("killed", "survived", "not tried")}
    print("mutants: " + ", ".join(f"{count} {how}" for how, count in counted.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the mutants, and nothing is run")
    parser.add_argument("--only", default=".", metavar="PATTERN", help="those whose name or file matches")
    parser.add_argument("--tenth", nargs="?", type=int, const=-1, metavar="N", help="a tenth of them; N: which")
    parser.add_argument("--seconds", type=float, default=0, help="begin none after that time (default: no limit)")
    parser.add_argument(
        "--jobs", type=int, default=int(os.environ.get("JOBS") or os.cpu_count() or 1), help="at a time"
    )
    options = parser.parse_args()
    tenth = commits() if options.tenth == -1 else options.tenth
    rows = chosen(read_tables(), options.only, tenth)
    if options.list:
        for row in rows:
            print(f"{row.name:44} {row.property:15} {row.file}")
        print(f"{len(rows)} mutants")
        return 0
    if not rows:
        print(f"mutants: none matches {options.only}", file=sys.stderr)
        return 2
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("mutants: another run uses build/mutants; wait for its end", file=sys.stderr)
            return 2
        verdicts = Trial(max(1, options.jobs), options.seconds).in_bench(rows, len(rows))
    show(verdicts)
    reasons = fails(verdicts)
    for reason in reasons:
        print(f"FAILED {reason}")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
