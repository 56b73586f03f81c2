#!/usr/bin/env python3
"""Runs the tests of one build and ends with one line: `N passed, M failed, K skipped`.

A skipped test whose reason names CARYA_TEST_DATA counts as failed when that variable is set: with the real data at
hand nothing may be left out for lack of it.
No test runs twice: one that failed once has failed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE_FOLDERS = (
    "base",
    "shm",
    "io",
    "transforms",
    "autotune",
    "remote",
    "loader",
    "python",
    "bench",
    "tests",
    "tools",
    "examples",
)
BENCH_TIMEOUT_S = 300
TEST_JOBS = int(os.environ.get("TEST_JOBS", "2"))  # tests, or benches, at a time
HANG_S = 600  # one test, of any language: not a bar for speed, the end of a hang


@dataclass
class Tally:
    """What ran so far."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, name: str, ok: bool, output: str = "") -> None:
        if ok:
            self.passed += 1
            return
        self.failed.append(name)
        print(f"FAILED {name}\n{shortened(output)}")


def shortened(output: str) -> str:
    """Its ends: a sanitizer says at the start what it found, a test at the end what it expected."""
    return output if len(output) <= 8000 else f"{output[:5000]}\n[...]\n{output[-3000:]}"


def say(text: str) -> None:
    print(f"\033[1mcarya\033[0m  {text}", flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Says the name before, and the seconds after; tools/ci.py reads them from the file CARYA_PARTS, with CPU seconds."""
    say(name)
    start, busy = time.monotonic(), cpu_seconds()
    yield
    seconds, busy = time.monotonic() - start, cpu_seconds() - busy
    say(f"{name}: {seconds:.0f} s, {busy:.0f} s of CPU")
    if parts := os.environ.get("CARYA_PARTS"):
        with open(parts, "a") as file:
            file.write(f"{name}\t{seconds:.0f}\t{busy:.0f}\n")


def cpu_seconds() -> float:
    """That processes which have ended were computing for, and those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment(build: Path) -> dict[str, str]:
    """The variables of tests/ENVIRONMENT.md."""
    env = dict(os.environ)
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:allocator_may_return_null=1")
    suppressions = ROOT / "tests" / "tsan.supp"
    env.setdefault(
        "TSAN_OPTIONS",
        "halt_on_error=1:die_after_fork=0" + (f":suppressions={suppressions}" if suppressions.exists() else ""),
    )
    paths = [str(build / "python"), env.get("PYTHONPATH", "")]  # tools/build.sh links the package there
    env["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    # Compiled once, and not by each of some thousand processes: half of the CPU time of those that import torch.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PYTHONPYCACHEPREFIX"] = str(ROOT / "build" / "pycache")
    return env


@dataclass
class Case:
    """One test of a JUnit file."""

    name: str
    state: str  # "passed", "failed" or "skipped"
    text: str  # what it printed, or why it was skipped


def read_junit(report: Path, title: str) -> list[Case]:
    """The cases of a JUnit file. A missing, broken or empty one is a failed case named `title`."""
    try:
        found = list(ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        return [Case(title, "failed", f"no report of its tests: {error}")]
    cases = []
    for case in found:
        name = f"{case.get('classname', '')}::{case.get('name')}" if title == "pytest" else str(case.get("name"))
        text = " ".join(case.itertext())
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            cases.append(Case(name, "failed", text))
        elif skip is not None or case.get("status") in ("notrun", "disabled"):
            reason = text + (str(skip.attrib) if skip is not None else "")
            lacking = os.environ.get("CARYA_TEST_DATA") and "CARYA_TEST_DATA" in reason
            told = f"skipped for lack of data, though CARYA_TEST_DATA is set: {reason}"
            cases.append(Case(name, "failed", told) if lacking else Case(name, "skipped", reason))
        else:
            cases.append(Case(name, "passed", ""))
    return cases or [Case(title, "failed", "no test was found")]


def count(tally: Tally, cases: list[Case]) -> None:
    for case in cases:
        if case.state == "skipped":
            tally.skipped.append(case.name)
        else:
            tally.add(case.name, case.state == "passed", case.text)


def run_ctest(tally: Tally, build: Path, pattern: str, folders: str, left_out: list[str]) -> None:
    """The C++ tests whose names match, of these folders below tests ("": of all), without those left out."""
    report = build / "ctest.xml"
    report.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(build), "--quiet", "--timeout", str(HANG_S), "-R", pattern]
    command += ["-L", f"^({'|'.join(folders.split())})$"] if folders else []
    command += ["-E", "|".join(left_out)] if left_out else []
    command += ["--output-junit", str(report), "--parallel", str(TEST_JOBS)]
    subprocess.run(command, env=environment(build), stdout=subprocess.DEVNULL, check=False)
    count(tally, read_junit(report, "ctest"))


def run_pytest(tally: Tally, build: Path, folders: list[str]) -> None:
    existing = [folder for folder in folders if (ROOT / folder).is_dir() and any((ROOT / folder).glob("test_*.py"))]
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    log = build / "pytest.log"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--durations=25", f"--junitxml={report}"]
    command += ["-n", str(TEST_JOBS), "--dist", "worksteal"]
    command += ["-o", f"cache_dir={build / 'pytest-cache'}", "-o", f"faulthandler_timeout={HANG_S}"]
    command += ["-o", "faulthandler_exit_on_timeout=true", *existing]
    with log.open("w") as output:
        done = subprocess.run(
            command, cwd=ROOT, env=environment(build), stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode not in (0, 1):
        tally.add("pytest", False, f"ended with {done.returncode}; the end of {log}:\n{log.read_text()[-3000:]}")
    if done.returncode in (0, 1) or report.exists():
        count(tally, read_junit(report, "pytest"))


def check_formatting(tally: Tally) -> None:
    sources = [
        str(path) for folder in CODE_FOLDERS for kind in ("*.cc", "*.h") for path in sorted((ROOT / folder).rglob(kind))
    ]
    clang = subprocess.run(
        ["clang-format-19", "--dry-run", "-Werror", *sources], capture_output=True, text=True, check=False
    )
    tally.add("format: C++ (make format repairs it)", clang.returncode == 0, clang.stderr)
    ruff = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--check", "--quiet", str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    tally.add("format: Python (make format repairs it)", ruff.returncode == 0, ruff.stdout + ruff.stderr)


def smoke_benches(tally: Tally, build: Path) -> None:
    """Two at a time: they show that they work, and their figures mean nothing."""
    benches = sorted(path for path in (build / "bench").glob("bench_*") if path.is_file() and os.access(path, os.X_OK))
    commands = [[str(path)] for path in benches]
    commands += [[sys.executable, str(path)] for path in sorted((ROOT / "bench").glob("*.py"))]

    def run(command: list[str]) -> tuple[bool, str]:
        try:
            done = subprocess.run(
                [*command, "--smoke"],
                cwd=build,
                env=environment(build),
                capture_output=True,
                text=True,
                check=False,
                timeout=BENCH_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return False, f"not finished after {BENCH_TIMEOUT_S} s"
        return done.returncode == 0, done.stdout + done.stderr

    with ThreadPoolExecutor(TEST_JOBS) as pool:
        for command, (good, text) in zip(commands, pool.map(run, commands), strict=True):
            tally.add(f"bench smoke: {Path(command[-1]).name}", good, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--tests", default=".", help="only C++ tests whose name matches")
    parser.add_argument("--folders", default="", help="only C++ tests of these folders below tests")
    parser.add_argument("--python", action="store_true", help="also tests/python")
    parser.add_argument(
        "--architecture", action="store_true", help="also the rules of the source tree and the formatting"
    )
    parser.add_argument("--bench", action="store_true", help="also the smoke runs of the benches")
    parser.add_argument(
        "--leave-out", type=Path, help="a file with parts of names, one a line: C++ tests that are not run"
    )
    options = parser.parse_args()
    build = options.build.resolve()
    lines = options.leave_out.read_text().splitlines() if options.leave_out else []
    left_out = [line for line in lines if line and not line.startswith("#")]
    tally = Tally()
    start = time.monotonic()
    with step(f"C++ tests of {build.relative_to(ROOT)}"):
        run_ctest(tally, build, options.tests, options.folders, left_out)
    folders = ["tests/python"] * options.python + ["tests/architecture"] * options.architecture
    if folders:
        with step("Python tests"):
            run_pytest(tally, build, folders)
    if options.architecture:
        with step("formatting"):
            check_formatting(tally)
    if options.bench:
        with step("smoke runs of the benches"):
            smoke_benches(tally, build)
    for name in tally.skipped:
        print(f"skipped {name}")
    for name in tally.failed:
        print(f"failed  {name}")
    say(f"tests of {build.relative_to(ROOT)} took {time.monotonic() - start:.0f} s")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
