"""CPU seconds, wall seconds and percentiles."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .._pipeline.batch_functions import median as median

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Rate:
    """Samples delivered in a stretch of wall time, and what they cost."""

    samples: int
    wall_s: float
    cpu_s: float

    @property
    def per_second(self) -> float:
        return self.samples / self.wall_s

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per sample."""
        return self.cpu_s / self.samples * 1e6


@contextlib.contextmanager
def cached_in(folder: str) -> Iterator[None]:
    """Manifests, indexes and profiles of loaders made inside of it go to `folder`."""
    before = os.environ.get("CARYA_CACHE_DIR")
    os.environ["CARYA_CACHE_DIR"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["CARYA_CACHE_DIR"]
        else:
            os.environ["CARYA_CACHE_DIR"] = before


def process_tree_cpu_s() -> float:
    """User and system seconds of this process, of its living descendants and of those it waited for."""
    total = 0.0
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as stat:
                words = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(words[1]), []).append(int(name))
        ticks[int(name)] = sum(int(word) for word in words[11:15])  # utime stime cutime cstime
    queue = list(parents.get(os.getpid(), []))
    while queue:
        child = queue.pop()
        total += ticks[child] / _TICK
        queue += parents.get(child, [])
    own = os.times()
    return total + time.process_time() + own.children_user + own.children_system


def measure(
    batches: Iterator[int],
    seconds: float,
    cpu_clock: Callable[[], float] = time.process_time,
    warm_batches: int = 3,
    batches_min: int = 1,
) -> Rate:
    """Rate of an endless iterator of batch sizes, after `warm_batches` of them; at least so long and so many."""
    for _ in range(warm_batches):
        next(batches)
    samples = count = 0
    cpu, start = cpu_clock(), time.perf_counter()
    now = start
    while now - start < seconds or count < batches_min:
        samples += next(batches)
        count += 1
        now = time.perf_counter()
    return Rate(samples, now - start, cpu_clock() - cpu)


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
