"""Rows of arrays that lie in memory, gathered into batches.

raw: samples of 224x224x3 uint8, batches of 256. Ceiling: memcpy of the same rows by one core. Must reach 0.8 of it per core.
small: samples of 28x28x1 uint8, batches of 256, normalized to float32. Ceiling: at 784 bytes a sample everything is overhead.
Must reach 2 million samples per second and core.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._loading.loader import Loader
from .._pipeline.sources import arrays
from .measure import Rate, measure, median
from .report import Options, Report

ROWS, SHAPE = 256, (224, 224, 3)


def raw(options: Options) -> Report:
    options = options.scaled()
    rows = 8 if options.smoke else ROWS
    images = np.random.default_rng(0).integers(0, 256, (8 * rows, *SHAPE), np.uint8)
    row_bytes = int(np.prod(SHAPE))
    pipeline = arrays({"image": images}).shuffle(seed=1).batch(rows, drop_last=True)
    copies: list[float] = []
    found: dict[int, list[Rate]] = {1: [], 2: []}
    for _ in range(options.rounds):
        copies.append(_memcpy_rows_per_s(images, rows, options.seconds))
        _measure_each(pipeline, found, options.seconds)
    copy = median(copies)
    report = Report("raw", facts={"batch": rows, "memcpy_GB_per_s": round(copy * row_bytes / 1e9, 2)})
    for threads, wall, cpu_us in _medians(found):
        report.rows.append(
            {
                "threads": threads,
                "samples_per_s": round(wall),
                "cpu_us_per_sample": round(cpu_us, 2),
                "GB_per_s": round(wall * row_bytes / 1e9, 2),
                "of_memcpy_wall_per_core": round(wall / threads / copy, 3),
                "of_memcpy_cpu": round(1e6 / cpu_us / copy, 3),
            }
        )
    return report


def small(options: Options) -> Report:
    options = options.scaled()
    count = 4096 if options.smoke else 60_000
    images = np.random.default_rng(0).integers(0, 256, (count, 28, 28, 1), np.uint8)
    labels = np.arange(count) % 10
    pipeline = arrays({"image": images, "label": labels}).shuffle(seed=1).normalize(0.1307, 0.3081).batch(256)
    found: dict[int, list[Rate]] = {1: [], 2: []}
    for _ in range(options.rounds):
        _measure_each(pipeline, found, options.seconds, slots=16)
    report = Report("small", facts={"batch": 256, "records": count})
    for threads, wall, cpu_us in _medians(found):
        report.rows.append(
            {
                "threads": threads,
                "samples_per_s": round(wall),
                "samples_per_s_per_core": round(wall / threads),
                "samples_per_cpu_s": round(1e6 / cpu_us),
                "cpu_ns_per_sample": round(cpu_us * 1000, 1),
            }
        )
    return report


def _measure_each(pipeline: Any, found: dict[int, list[Rate]], seconds: float, **options: Any) -> None:
    """One more rate for each number of threads."""
    for threads, rates in found.items():
        with Loader(pipeline, threads=threads, **options) as loader:
            rates.append(measure(_sizes(loader), seconds))


def _medians(found: dict[int, list[Rate]]) -> Iterator[tuple[int, float, float]]:
    """By number of threads: samples per second, and CPU microseconds per sample."""
    for threads, rates in found.items():
        yield threads, median([rate.per_second for rate in rates]), median([rate.cpu_us for rate in rates])


def _memcpy_rows_per_s(images: np.ndarray[Any, Any], rows: int, seconds: float) -> float:
    """One core copying rows in random order into a mapped batch, again and again."""
    target = np.zeros((rows, *SHAPE), np.uint8)
    order = np.random.default_rng(1).permutation(len(images))
    copied, start = 0, time.process_time()
    while time.process_time() - start < min(1.0, seconds):
        for row, record in enumerate(order[:rows]):
            target[row] = images[record]
        order = np.roll(order, rows)
        copied += rows
    return copied / (time.process_time() - start)


def _sizes(loader: Loader) -> Any:
    while True:
        for batch in loader:
            yield len(batch["image"])
