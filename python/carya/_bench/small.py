"""Small samples: 28x28x1 uint8 from memory, batch 256, normalized to float32.

Ceiling: at 784 bytes a sample everything is overhead. Must reach 2 million samples per second and core.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._loading.loader import Loader
from .._pipeline.sources import arrays
from .measure import Rate, measure, median
from .report import Options, Report


def run(options: Options) -> Report:
    options = options.scaled()
    count = 4096 if options.smoke else 60_000
    images = np.random.default_rng(0).integers(0, 256, (count, 28, 28, 1), np.uint8)
    labels = np.arange(count) % 10
    pipeline = arrays({"image": images, "label": labels}).shuffle(seed=1).normalize(0.1307, 0.3081).batch(256)
    found: dict[int, list[Rate]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for threads, rates in found.items():
            with Loader(pipeline, threads=threads, slots=16) as loader:
                rates.append(measure(_sizes(loader), options.seconds))
    report = Report("small", facts={"batch": 256, "records": count})
    for threads, rates in found.items():
        wall = median([rate.per_second for rate in rates])
        cpu_us = median([rate.cpu_us for rate in rates])
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


def _sizes(loader: Loader) -> Any:
    while True:
        for batch in loader:
            yield len(batch["label"])
