#!/usr/bin/env python3
"""Runs the tests of what has states and threads again and again, many at a time, so that the machine is always busy.

Each round runs the C++ tests of shm, loader, daemon, overflow and remote, in an order of their own, and the Python tests
of processes, leases, states and workers. Several rounds go side by side: tests wait for each other's turns at the cores,
in the middle of whatever they do, and what depends on who is first has many chances to go wrong.

It stops at the first failure and says where its log is: build/stress/ROUND-SUITE.log. The round is the seed of the order:
`--from ROUND --repeats 1` runs the same one again, alone. Whoever stops it with Ctrl-C is told how to go on.

  tools/stress.py --repeats 5 --only 'shm|remote'

`make stress` builds what is needed and runs 200 rounds; `make stress REPEATS=5` is a short one.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
LOGS = ROOT / "build" / "stress"
FOLDERS = ("shm", "loader", "daemon", "overflow", "remote")
PYTHON = (
    "processes",
    "leases",
    "state",
    "loader",
    "limits",
    "daemon",
    "daemon_ranks",
    "share",
    "users",
    "worker",
    "remote",
)
# Two threads of one picture seldom run at the same time here.
NOT_HERE = {"loader": "BandCrew.AHelperWhoseCoreIsWantedBackRunsOnePart"}
JOBS_PER_CORE = 4
HANG_S = 3600  # of a suite: the end of a hang


def suites() -> dict[str, list[str]]:
    """Their commands, without what is different in each round."""
    found = {
        name: [str(BUILD / f"tests/{name}/{name}_test"), "--gtest_shuffle", f"--gtest_filter=-{NOT_HERE.get(name, '')}"]
        for name in FOLDERS
    }
    tests = [f"tests/python/test_{name}.py" for name in PYTHON]
    found["python"] = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=short", "-p", "no:cacheprovider", *tests]
    return found


class Rounds:
    """Rounds that run side by side. The first failure, or Ctrl-C, ends what the others run."""

    def __init__(self, chosen: dict[str, list[str]], last: int) -> None:
        self.failed = False
        self._chosen = chosen
        self._last = last
        self._start = time.monotonic()
        self._stopped = False
        self._lock = threading.Lock()  # of what follows, and of what is said
        self._running: set[subprocess.Popen[bytes]] = set()
        self._passed: set[int] = set()

    def run(self, number: int) -> None:
        for name, command in self._chosen.items():
            log = LOGS / f"{number}-{name}.log"
            seed = [f"--gtest_random_seed={number}"] if name != "python" else []
            how = self._run(command + seed, log, f"gw{10 + number % 50}")
            with self._lock:
                if self._stopped:
                    return
                if how:
                    print("\n".join(log.read_text(errors="replace").splitlines()[-30:]))
                    print(f"stress: round {number}: {name} {how}; all it said: {log.relative_to(ROOT)}", flush=True)
                    self.failed = True
                    self._stop()
                    return
            log.unlink()
        with self._lock:
            self._passed.add(number)
            took = time.monotonic() - self._start
            print(f"stress: round {number} of {self._last} passed, {took:.0f} s", flush=True)

    def stop(self) -> None:
        with self._lock:
            self._stop()

    def next(self, first: int) -> int:
        """The first round that has not passed."""
        return next(number for number in range(first, self._last + 2) if number not in self._passed)

    def _stop(self) -> None:
        self._stopped = True
        for process in self._running:
            os.killpg(process.pid, signal.SIGKILL)

    def _run(self, command: list[str], log: Path, worker: str) -> str:
        """How it failed; "" if it passed. `worker`: what tests that need names of their own on this machine go by."""
        env = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "PYTEST_XDIST_WORKER": worker}
        env.pop("CARYA_LONG", None)  # it is the repeats that are long here
        with self._lock:
            if self._stopped:
                return "was not begun"
            with log.open("w") as out:
                process = subprocess.Popen(
                    command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
                )
            self._running.add(process)
        try:
            status = process.wait(HANG_S)
            return f"ended with {status}" if status else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"was not finished after {HANG_S} s"
        finally:
            with self._lock:
                process.wait()
                self._running.discard(process)


def main() -> int:
    jobs = JOBS_PER_CORE * len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200, help="rounds (default: 200)")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="ROUND", help="the first one (default: 1)")
    parser.add_argument("--only", default=".", metavar="PATTERN", help="suites whose name matches")
    parser.add_argument("--jobs", type=int, default=jobs, help=f"rounds at a time (default: {jobs})")
    options = parser.parse_args()
    chosen = {name: command for name, command in suites().items() if re.search(options.only, name)}
    missing = [command[0] for command in chosen.values() if not Path(command[0]).exists()]
    if missing or not chosen:
        print(f"stress: not built: {', '.join(missing)}; run make stress" if missing else "stress: no such suite")
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing stays behind
    LOGS.mkdir(parents=True, exist_ok=True)
    last = options.first + options.repeats - 1
    rounds = Rounds(chosen, last)
    with ThreadPoolExecutor(options.jobs) as lanes:
        try:
            list(lanes.map(rounds.run, range(options.first, last + 1)))
        except KeyboardInterrupt:
            rounds.stop()
            first = rounds.next(options.first)
            print(f"stress: stopped; --from {first} --repeats {last + 1 - first} goes on", flush=True)
            return 130
    return 1 if rounds.failed else 0


if __name__ == "__main__":
    sys.exit(main())
