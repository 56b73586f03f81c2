#!/usr/bin/env python3
"""Runs the tests of what has states and threads again and again, on a machine that is busy with something else.

Each round runs the C++ tests of shm, loader, daemon, overflow and remote, in an order of their own, and the Python tests
of processes, leases, states and workers. Beside them a process that does nothing keeps each core busy, and all tests
together get one core and no more: by a quota, which stops all of their threads for milliseconds, where a cgroup (version
1) can be made; by an affinity elsewhere. What depends on who is first then has many chances to go wrong.

It stops at the first failure and says where its log is: build/stress/ROUND-SUITE.log. The round is the seed of the order:
`--from ROUND --repeats 1` runs the same one again.

  tools/stress.py --repeats 5 --only 'shm|remote'

`make stress` builds what is needed and runs 200 rounds; `make stress REPEATS=5` is a short one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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
HANG_S = 3600  # of a suite: the end of a hang
CGROUP = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 20_000


def suites() -> dict[str, list[str]]:
    """Their commands, without what is different in each round."""
    found = {name: [str(BUILD / "tests" / name / f"{name}_test"), "--gtest_shuffle"] for name in FOLDERS}
    tests = [f"tests/python/test_{name}.py" for name in PYTHON]
    found["python"] = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=short", "-p", "no:cacheprovider", *tests]
    return found


@contextlib.contextmanager
def hogs() -> Iterator[None]:
    """One busy process per core."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


@contextlib.contextmanager
def one_core() -> Iterator[list[str]]:
    """What to put before a command so that it gets one core at most, and how that is done in words."""
    group = CGROUP / f"carya-stress-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(PERIOD_US))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        print("stress: no quota can be set here; the tests run on one core instead", flush=True)
        yield ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
        return
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
    finally:
        with contextlib.suppress(OSError):  # what a test left behind may still be in it
            group.rmdir()


def run(command: list[str], log: Path) -> tuple[bool, str]:
    """Whether it passed, and how it ended."""
    env = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    env.pop("CARYA_LONG", None)  # it is the repeats that are long here
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False, f"not finished after {HANG_S} s"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    return status == 0, f"ended with {status}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200, help="rounds (default: 200)")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="ROUND", help="the first one (default: 1)")
    parser.add_argument("--only", default=".", metavar="PATTERN", help="suites whose name matches")
    options = parser.parse_args()
    chosen = {name: command for name, command in suites().items() if re.search(options.only, name)}
    missing = [command[0] for command in chosen.values() if not Path(command[0]).exists()]
    if missing or not chosen:
        print(f"stress: not built: {', '.join(missing)}; run make stress" if missing else "stress: no such suite")
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    last = options.first + options.repeats - 1
    with hogs(), one_core() as limited:
        for round_number in range(options.first, last + 1):
            for name, command in chosen.items():
                log = LOGS / f"{round_number}-{name}.log"
                seed = [f"--gtest_random_seed={round_number}"] if name != "python" else []
                passed, how = run([*limited, *command, *seed], log)
                if not passed:
                    print("\n".join(log.read_text(errors="replace").splitlines()[-30:]))
                    print(f"stress: round {round_number}: {name} {how}; all it said: {log.relative_to(ROOT)}")
                    return 1
                log.unlink()
            print(f"stress: round {round_number} of {last} passed, {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
