#!/usr/bin/env python3
"""Functions that release the interpreter lock, in worker processes and in threads of one process: rate and memory.

Ceiling: as many calls at once as there are workers, limited by the cores where a function computes. Threads are the least
that they can cost: a ThreadPoolExecutor in which each thread takes chunks of rows, calls the function and copies the result
into a row of an array, with no random numbers seeded, no faults looked at and nothing sent. Run: give `--smoke` for a short run.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import carya

_CHUNK = 8
_SIZE = 150_000


class Samples:
    """`count` arrays of 150 KB."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.row = np.arange(_SIZE, dtype=np.uint8)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.row


def waits(row: np.ndarray) -> np.ndarray:
    """5 ms of a network."""
    time.sleep(0.005)
    return row


def digests(row: np.ndarray) -> np.ndarray:
    """Half a millisecond of C without the lock."""
    for _ in range(2):
        hashlib.sha256(row).digest()
    return row


def many_calls(row: np.ndarray) -> np.ndarray:
    """Half a millisecond of numpy, call by call."""
    part = row[:20_000].astype(np.float32)
    for _ in range(20):
        part = np.sqrt(part + 1)
    return row


def private_bytes(pids: list[int]) -> float:
    """Mean of what each has for itself."""
    found = []
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        rows = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
        found.append(1024 * (rows["Private_Clean"] + rows["Private_Dirty"]))
    return sum(found) / max(len(found), 1)


def by_processes(fn: Any, workers: int, count: int) -> dict[str, float]:
    pipeline = carya.dataset(Samples(count), names="x").map(fn, fields="x").batch(32, drop_last=True)
    with carya.Loader(pipeline, threads=workers) as loader:
        for _ in loader:  # a stream that goes on, whose reader waits for each batch: nothing lies ready at either end
            pass
        batches = iter(loader)
        for _ in range(len(loader) // 2):
            next(batches)
        begin, timed = time.perf_counter(), 0
        for _ in batches:
            timed += 32
        seconds = time.perf_counter() - begin
        job: Any = loader._job
        return {"per_s": timed / seconds, "private_mb": private_bytes(job._figures["pids"]) / 1e6}


def by_threads(fn: Any, workers: int, count: int) -> dict[str, float]:
    samples, slots = Samples(count), np.zeros((256, _SIZE), np.uint8)
    chunks = itertools.count(0, _CHUNK)

    def work(_: int) -> None:
        while (first := next(chunks)) < count:
            for index in range(first, min(first + _CHUNK, count)):
                slots[index % 256] = fn(samples[index])

    with ThreadPoolExecutor(workers) as pool:
        begin = time.perf_counter()
        list(pool.map(work, range(workers)))
        return {"per_s": count / (time.perf_counter() - begin)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    scale = 4 if asked.smoke else 1
    cores = len(os.sched_getaffinity(0))
    rows = []
    for fn, workers, count in ((waits, 32, 8192), (waits, 8, 4096), (digests, cores, 8192), (many_calls, cores, 8192)):
        processes = by_processes(fn, workers, count // scale // 32 * 32)
        threads = by_threads(fn, workers, count // scale)
        rows.append(
            {
                "function": fn.__name__,
                "workers": workers,
                "processes_per_s": round(processes["per_s"]),
                "threads_per_s": round(threads["per_s"]),
                "process_private_mb": round(processes["private_mb"], 1),
            }
        )
    print(json.dumps({"bench": "function_threads", "cores": cores, "rows": rows}))


if __name__ == "__main__":
    main()
