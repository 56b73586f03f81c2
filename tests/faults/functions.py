#!/usr/bin/env python3
"""Random kills of the processes behind a stream of Python functions, and of its trainer.

    functions.py -n 500 --seed 4        the seed is printed; without one it is another each time
    functions.py --kind host -n 20      only kinds whose name has this

A trainer (`function_trainer.py`) reads a stream that two worker processes make, while at random moments one or both workers, the host
between them and the trainer, or the trainer itself get SIGKILL, or a worker stands still for a while. After each fault:

* it took effect while batches came: the process ended by the signal, or was stopped;
* every batch is that of the undisturbed stream, made in this process, and the one behind its predecessor, or behind the state that
  the trainer had written when it was killed;
* at least three more batches come;
* nothing is left: no process of a killed host or trainer, no more children, descriptors or threads than before;
* no process has fallen over the death of another one with a traceback.

Ends with 0, or says what was lost with the number of the fault and the seed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import secrets
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import function_pipeline  # noqa: E402

import carya  # noqa: E402

_PATIENCE_S = 120.0  # for a batch, and for a process to end: far beyond what a busy machine takes
_WORKERS = 2


class LostError(Exception):
    """The stream is not what it should be."""


def parents() -> dict[int, int]:
    """Of every process that is there and no zombie."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError):
                state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    found[int(entry)] = int(parent)
    return found


def children(pid: int) -> list[int]:
    return sorted(child for child, parent in parents().items() if parent == pid)


def wait_until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > end:
            raise LostError(what)
        time.sleep(0.005)


class Undisturbed:
    """The batches of the stream as one process makes them, as far as they were asked for."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []
        self.index: dict[tuple[int, int], int] = {}
        self.digests: list[str] = []
        self._loader = carya.Loader(function_pipeline.pipeline(), threads=1, slots=3)
        self._batches = iter(self._loader)

    def upto(self, number: int) -> None:
        while len(self.digests) <= number:
            batch = next(self._batches, None)
            if batch is None:
                self._batches = iter(self._loader)
                continue
            self.index[batch.epoch, batch.position] = len(self.digests)
            self.digests.append(function_pipeline.digest(batch))

    def place_of(self, epoch: int, position: int) -> int:
        """The number of the batch that ends there; of a state at the end of an epoch that of its last batch."""
        while (epoch, position) not in self.index:
            if position == 0 and epoch == 0:
                return -1
            self.upto(len(self.digests))
            behind = {e: n for (e, _), n in self.index.items()}  # the last batch of each epoch
            if position == 0 and epoch in behind:
                return behind[epoch - 1]
            if len(self.digests) > 1_000_000:
                raise LostError(f"no batch ends at position {position} of epoch {epoch}")
        return self.index[epoch, position]


class Trainer:
    """The process, what it said, and what it must say next."""

    def __init__(self, folder: Path, undisturbed: Undisturbed) -> None:
        self._state, self._undisturbed = folder / "state.json", undisturbed
        self._said = (folder / "stderr").open("w+")
        self.last, self.batches, self.again = -1, 0, 0
        self._text = b""
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(HERE / "function_trainer.py"), str(self._state)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._said)
        self._text = b""

    def read(self, timeout: float) -> int:
        """Batches that it said meanwhile, each of which is looked at. Errors: LostError."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            return 0
        got = os.read(self.process.stdout.fileno(), 1 << 16)
        if not got and self.process.poll() is not None:
            raise LostError(f"the trainer ended by itself with status {self.process.returncode}")
        *lines, self._text = (self._text + got).split(b"\n")
        return sum(self._look(line.decode()) for line in lines)

    def _look(self, line: str) -> int:
        if line.startswith("again"):
            self.again += 1
            return 0
        epoch, position, digest = line.split()
        self._undisturbed.upto(self.last + 1)
        number = self._undisturbed.place_of(int(epoch), int(position))
        if number != self.last + 1:
            raise LostError(f"batch {number} came behind batch {self.last}")
        if digest != self._undisturbed.digests[number]:
            raise LostError(f"batch {number} is not that of the undisturbed stream")
        self.last, self.batches = number, self.batches + 1
        return 1

    def more(self, count: int) -> None:
        """Wait for so many batches."""
        end = time.monotonic() + _PATIENCE_S
        while count > 0:
            if time.monotonic() > end:
                raise LostError(f"no batch came for {_PATIENCE_S:g} s")
            count -= self.read(0.2)

    def drain(self) -> None:
        """What a killed one had said; the next one goes on behind its state."""
        assert self.process.stdout is not None
        while got := os.read(self.process.stdout.fileno(), 1 << 16):
            self._text += got
        for line in self._text.split(b"\n")[:-1]:
            self._look(line.decode())
        self.process.stdout.close()
        state = json.loads(self._state.read_text()) if self._state.exists() else {"epoch": 0, "position": 0}
        at = self._undisturbed.place_of(state["epoch"], state["position"])
        if at not in (self.last, self.last + 1):  # it may be killed between writing a state and saying the batch
            raise LostError(f"the state is behind batch {at}, and the last that was said is {self.last}")
        self.last = at

    def look_at_stderr(self) -> None:
        """Errors: LostError, where a process fell over what was done to another one."""
        self._said.seek(0)
        if "Traceback" in (text := self._said.read()):
            raise LostError(f"a process said:\n{text[-4000:]}")

    @property
    def host(self) -> int:
        wait_until(lambda: bool(children(self.process.pid)), "the trainer has no host")
        return children(self.process.pid)[0]

    def workers(self) -> list[int]:
        host = self.host
        wait_until(lambda: len(children(host)) == _WORKERS, f"the host has no {_WORKERS} workers")
        return children(host)

    def owned(self) -> tuple[int, int, int]:
        """Descriptors and threads of the trainer, descriptors of its host."""
        counts = [len(os.listdir(f"/proc/{pid}/fd")) for pid in (self.process.pid, self.host)]
        return counts[0], len(os.listdir(f"/proc/{self.process.pid}/task")), counts[1]


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in parents(), f"process {pid} did not end")


def kill_worker(trainer: Trainer, rng: random.Random) -> None:
    killed(rng.choice(trainer.workers()))


def kill_workers(trainer: Trainer, rng: random.Random) -> None:
    for pid in trainer.workers():
        killed(pid)


def kill_twice(trainer: Trainer, rng: random.Random) -> None:
    """The one in whose place the first came, too, maybe while it starts."""
    killed(rng.choice(trainer.workers()))
    time.sleep(rng.uniform(0, 0.03))
    there = children(trainer.host)
    if there:
        killed(max(there))


def stop_worker(trainer: Trainer, rng: random.Random) -> None:
    pid = rng.choice(trainer.workers())
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", f"{pid} runs on")
    time.sleep(rng.uniform(0, 0.2))
    os.kill(pid, signal.SIGCONT)


def kill_host(trainer: Trainer, rng: random.Random) -> None:
    """The trainer is told, and makes a loader from its state."""
    host, before = trainer.host, trainer.again
    workers = children(host)
    killed(host)
    end = time.monotonic() + _PATIENCE_S
    while trainer.again == before and time.monotonic() < end:
        trainer.read(0.2)
    if trainer.again == before:
        raise LostError("nobody told the trainer that the host was gone")
    wait_until(lambda: not set(workers) & parents().keys(), "workers of a killed host are left")


def kill_trainer(trainer: Trainer, rng: random.Random) -> None:
    family = [trainer.process.pid, trainer.host, *children(trainer.host)]
    _kill_family(trainer, family)
    trainer.start()


def kill_starting_trainer(trainer: Trainer, rng: random.Random) -> None:
    """Also the one in its place, at any moment of its start."""
    kill_trainer(trainer, rng)
    time.sleep(rng.uniform(0, 1.5))
    family = [trainer.process.pid]
    for _ in range(2):
        family += [child for child, parent in parents().items() if parent in family and child not in family]
    _kill_family(trainer, family)
    trainer.start()


def _kill_family(trainer: Trainer, family: list[int]) -> None:
    trainer.process.send_signal(signal.SIGKILL)
    trainer.process.wait()
    if trainer.process.returncode != -signal.SIGKILL:
        raise LostError(f"the trainer ended with status {trainer.process.returncode}")
    trainer.drain()
    wait_until(lambda: not set(family) & parents().keys(), "processes of a killed trainer are left")


KINDS: dict[str, Callable[[Trainer, random.Random], None]] = {
    "kill worker": kill_worker,
    "kill all workers": kill_workers,
    "kill worker and the next": kill_twice,
    "stop worker": stop_worker,
    "kill host": kill_host,
    "kill trainer": kill_trainer,
    "kill starting trainer": kill_starting_trainer,
}


def run(count: int, seed: str, kind: str) -> None:
    """Errors: LostError, whose text has the number of the fault."""
    kinds = [name for name in KINDS if kind in name]
    if not kinds:
        raise SystemExit(f"functions.py: --kind: got {kind!r}; give a part of one of: {', '.join(KINDS)}")
    taken: dict[str, list[float]] = defaultdict(list)
    began = time.monotonic()
    trainer = None
    with tempfile.TemporaryDirectory(prefix="carya-faults-") as folder:
        try:
            trainer = Trainer(Path(folder), Undisturbed())
            trainer.more(3)
            for number in range(count):
                rng = random.Random(f"{seed}/{number}")
                name = rng.choice(kinds) if number >= len(kinds) else kinds[number]
                owned, pid = trainer.owned(), trainer.process.pid
                trainer.more(1)  # batches are coming
                time.sleep(rng.uniform(0, 0.06))
                fault = time.monotonic()
                try:
                    KINDS[name](trainer, rng)
                    trainer.more(1)
                    taken[name].append(time.monotonic() - fault)
                    trainer.more(2)
                    trainer.workers()
                    trainer.look_at_stderr()
                    if trainer.process.pid == pid:
                        look_for_leaks(owned, trainer)
                except LostError as error:
                    raise LostError(f"fault {number} ({name}), seed {seed}: {error}") from None
        finally:
            if trainer is not None:
                trainer.process.kill()
                trainer.process.wait()
    report(taken, trainer, time.monotonic() - began, seed)


def look_for_leaks(owned: tuple[int, int, int], trainer: Trainer) -> None:
    """Errors: LostError. What lies in a queue between processes is on its way, so that it is looked at for a while."""
    now: list[Any] = [None]

    def same() -> bool:
        trainer.read(0.01)
        now[0] = trainer.owned()
        return all(here <= before for here, before in zip(now[0], owned, strict=True))

    try:
        wait_until(same, "")
    except LostError:
        raise LostError(f"descriptors, threads, host's descriptors were {owned} and are {now[0]}") from None


def report(taken: dict[str, list[float]], trainer: Trainer, seconds: float, seed: str) -> None:
    print(f"{'until the next batch, ms':<30}{'count':>8}{'p50':>10}{'max':>10}")
    for name in sorted(taken):
        times = [1e3 * one for one in taken[name]]
        print(f"{name:<30}{len(times):>8}{statistics.median(times):>10.1f}{max(times):>10.1f}")
    faults = sum(map(len, taken.values()))
    print(
        f"{faults} faults in {seconds:.0f} s; {trainer.batches} batches, each that of the undisturbed stream; "
        f"{trainer.again} loaders made anew; leaks 0; seed {seed}"
    )


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("-n", type=int, default=500, help="how many faults")
    asked.add_argument("--seed", default="", help="of the moments and kinds")
    asked.add_argument("--kind", default="", help="a part of the names of kinds")
    given = asked.parse_args()
    try:
        run(given.n, given.seed or secrets.token_hex(4), given.kind)
    except LostError as error:
        raise SystemExit(f"functions.py: {error}") from None
