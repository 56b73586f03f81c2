"""A trainer with a loader in a process of its own, on whatever machine: what its stream holds, and what the loader says of it.

As a program it reads its task from its first argument (JSON) and orders from stdin, a JSON object a line, and says how it is on
stdout, a JSON object a line. `Trainer` is the other side of that.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import carya

EVERY_S = 0.25  # between two lines


def pipeline(
    photos: list[str], side: int = 224, batch_size: int = 32, floats: bool = False, colors: bool = False, burn: str = ""
) -> carya.Pipeline:
    """Pictures of side x side, uint8 or normalized float32; with jitter and blur a sample takes several times as long.

    `burn`: the library of an operation that takes just so much CPU time, 0.4 and 0.8 ms of which a sample takes then.
    """
    chain = carya.files(photos).shuffle(seed=11).decode_image().random_resized_crop(side).random_horizontal_flip()
    if colors:
        chain = chain.color_jitter(0.4, 0.4, 0.4, 0.1).gaussian_blur(9)
    for us in (400, 800) if burn else ():
        chain = chain.op(carya.op("burn", library=burn)(us=us))
    if floats:
        chain = chain.normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    return chain.batch(batch_size)


class Digest:
    """Of every batch, from all its bits: cheap, since it runs on the machine whose speed counts.

    The sums of its blocks of words, each with a random odd weight, modulo 2^64: any word that differs changes it, and any
    block that lies elsewhere.
    """

    BLOCK = 128  # words: less than a row of any picture here

    def __init__(self) -> None:
        self._weights = np.zeros(0, np.uint64)
        self.all: list[int] = []

    def add(self, batch: Any) -> None:
        total = 0
        for array in (batch.records, batch.valid, *(np.asarray(batch[name]) for name in sorted(batch))):
            raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
            whole = len(raw) // (8 * self.BLOCK)
            sums = raw[: whole * 8 * self.BLOCK].view(np.uint64).reshape(whole, self.BLOCK).sum(axis=1, dtype=np.uint64)
            total = (total * 3 + int((sums * self._of(whole)).sum(dtype=np.uint64))) % 2**64
            total = (total * 5 + int.from_bytes(raw[whole * 8 * self.BLOCK :].tobytes(), "little")) % 2**64
        self.all.append(total)

    def _of(self, count: int) -> Any:
        if count > len(self._weights):
            drawn = np.random.default_rng(7).integers(0, 2**64, count, np.uint64, False)
            self._weights = drawn | np.uint64(1)
        return self._weights[:count]


class Stream:
    """Batches without end, their digests, and whether each epoch had each record once."""

    def __init__(self, loader: carya.Loader, records: int) -> None:
        self._loader = loader
        self._records = records
        self.digest = Digest()
        self.samples = 0
        self.waited_s = 0.0
        self.longest_wait_s = 0.0
        self.not_once = 0  # epochs

    def steps(self) -> Iterator[None]:
        while True:
            seen: list[int] = []
            batches = iter(self._loader)
            while True:
                asked = time.monotonic()
                batch = next(batches, None)
                waited = time.monotonic() - asked
                self.waited_s += waited
                self.longest_wait_s = max(self.longest_wait_s, waited)
                if batch is None:
                    break
                good = [int(r) for r, ok in zip(batch.records, batch.valid, strict=True) if ok]
                seen += good
                self.samples += len(good)
                self.digest.add(batch)
                yield
            self.not_once += sorted(seen) != list(range(self._records))


def main(task: dict[str, Any]) -> None:
    orders: dict[str, Any] = {"step_s": task.get("step_s", 0.0), "most": task.get("batches", 0)}

    def listen() -> None:
        for line in sys.stdin:
            orders.update(json.loads(line))
        orders["end"] = True

    threading.Thread(target=listen, daemon=True).start()
    photos = task["photos"]
    options = {"remote_tls": {"insecure": True}, **task["loader"]} if "remote" in task["loader"] else task["loader"]
    with carya.Loader(pipeline(photos, **task.get("pipeline", {})), daemon="embedded", **options) as loader:
        stream = Stream(loader, len(photos))
        begin = said = time.monotonic()

        def say(**more: Any) -> None:
            state = {"at_s": time.monotonic() - begin, "samples": stream.samples, "waited_s": stream.waited_s}
            longest, stream.longest_wait_s = stream.longest_wait_s, 0.0
            placement = loader.placement()
            print(json.dumps({**state, "longest_wait_s": longest, "placement": placement, **more}), flush=True)

        for _ in stream.steps():
            due = time.monotonic() + orders["step_s"]
            if time.monotonic() - said >= EVERY_S:
                said = time.monotonic()
                say()
            if orders.get("end") or (orders["most"] and len(stream.digest.all) >= orders["most"]):
                break
            time.sleep(max(0.0, due - time.monotonic()))
        say(digests=stream.digest.all, not_once=stream.not_once, frozen=_frozen(loader))


def _frozen(loader: carya.Loader) -> Any:
    placement = loader.placement()
    return placement.frozen() if "pipeline" in placement else None


class Trainer:
    """The program, started; `inside` gives the command line that runs one where it should run."""

    def __init__(self, inside: Callable[..., list[str]], task: dict[str, Any], env: dict[str, str]) -> None:
        command = inside(sys.executable, __file__, json.dumps(task))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.lines: list[dict[str, Any]] = []
        self._came: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._came.put(json.loads(line))
        self._came.put(None)

    def order(self, **orders: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(orders) + "\n")
        self.process.stdin.flush()

    def read(self, seconds: float) -> dict[str, Any] | None:
        """The next line; None where there is none for so long. Errors: RuntimeError: it ended."""
        try:
            line = self._came.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        if line is None:
            raise RuntimeError(f"the trainer ended with {self.process.wait()}")
        self.lines.append(line)
        return line

    def until(self, done: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Its first line for which `done` is true. Errors: TimeoutError."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            line = self.read(left)
            if line and done(line):
                return line
        raise TimeoutError(f"not so after {seconds} s; the last line: {self.lines[-1:]}")

    def end(self, seconds: float = 300) -> dict[str, Any]:
        """Its last line, with the digests."""
        self.order(end=True)
        last = self.until(lambda line: "digests" in line, seconds)
        self.process.wait(seconds)
        return last

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
