"""Measuring a pipeline before a long training: what each operation costs, and what each technique brings."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from .._errors import InvalidArgument, Unsupported
from .._explain.explanation import Explanation
from .._loading.loader import Loader
from .._options import Reorder
from .._pipeline.pipeline import Pipeline

# Rows of a measured batch: a slice of a second has several.
_ROWS_MAX = 64
# What is shown while it works: seconds done of all.
Progress = Callable[[float, float, str], None]


@dataclass
class Setting:
    """One way to run the pipeline, and what was measured of it, a figure a round."""

    name: str
    options: dict[str, Any]
    threads: int
    rates: list[float] = field(default_factory=list)  # samples/s
    cpu_us: list[float] = field(default_factory=list)  # per sample

    def facts(self, first: Setting) -> dict[str, Any]:
        rate = statistics.median(self.rates)
        return {
            "setting": self.name,
            "threads": self.threads,
            "samples_per_s": round(rate, 1),
            "lowest": round(min(self.rates), 1),
            "highest": round(max(self.rates), 1),
            "cpu_us_per_sample": round(statistics.median(self.cpu_us), 1),
            "times": round(statistics.median(a / b for a, b in zip(self.rates, first.rates, strict=True)), 3),
        }


def profile(pipeline: Pipeline, seconds: float, progress: Progress) -> Explanation:
    """Run the operations as they are written for about so long; what each costs. Kept for the loaders to come.

    Errors: those of the loader.
    """
    with Loader._create(
        _measurable(pipeline),
        measuring={"trains": False},
        reorder="off",
        on_error="replace",
        daemon="embedded",
    ) as loader:
        begun = time.perf_counter()
        samples, cpu = 0, _cpu_s()
        for batch in _endless(loader):
            samples += len(batch.records)
            done = time.perf_counter() - begun
            progress(min(done, seconds), seconds, "as written")
            if done >= seconds:
                break
        used = _cpu_s() - cpu
        report = loader._explained("exact")
    report["run"] = {
        "samples": samples,
        "seconds": round(done, 2),
        "samples_per_s": round(samples / done, 1),
        "cpu_us_per_sample": round(used / samples * 1e6, 1),
    }
    return report


def tune(
    pipeline: Pipeline, seconds: float, rounds: int, progress: Progress, reorder: Reorder = "exact"
) -> dict[str, Any]:
    """The techniques one by one, in turns: medians and spread of each, and the best. An order with other bits is one of them
    when `reorder` allows it and it is cheaper.

    Keys: `settings`, `best` and its `order`, `indices` and `reorder`, `declared`, `finished` (False after Ctrl-C), `rounds`, `seconds`.
    Errors: those of the loader; KeyboardInterrupt when not one round was finished.
    """
    if pipeline.has_functions:
        raise Unsupported(
            "tune: the pipeline has Python functions, which run in one order; carya explain says what each costs and what may pass it"
        )
    measurable = _measurable(pipeline)
    threads = _core.doctor()["auto_threads"]
    whole = seconds * (2 + rounds * 5)  # about: known when the order is
    report = profile(measurable, 2 * seconds, lambda done, _, text: progress(done, whole, text))
    settings = _settings(report, threads, reorder, measurable.native.fixed_order(reorder))
    whole = seconds * (2 + rounds * len(settings))
    turns = [(number, setting) for number in range(rounds) for setting in settings]
    finished = True
    try:
        for turn, (number, setting) in enumerate(turns):
            progress(seconds * (2 + turn), whole, f"round {number + 1}: {setting.name}")
            rate, cpu_us = _slice(measurable, setting, seconds)
            setting.rates.append(rate)
            setting.cpu_us.append(cpu_us)
    except KeyboardInterrupt:
        finished = False
        rounds = min(len(setting.rates) for setting in settings)
        if rounds == 0:
            raise
        for setting in settings:
            del setting.rates[rounds:], setting.cpu_us[rounds:]
    facts = [setting.facts(settings[0]) for setting in settings]
    best = max(range(len(facts)), key=lambda number: float(facts[number]["samples_per_s"]))
    chosen = settings[best].options
    indices: list[int] = chosen["order"]
    return {
        "settings": facts,
        "best": facts[best]["setting"],
        "finished": finished,
        "rounds": rounds,
        "seconds": seconds,
        "order": [report["declared"][index] for index in indices],
        "indices": indices,
        "reorder": chosen["reorder"],
        "declared": report["declared"],
    }


def _settings(
    report: Explanation, threads: int, reorder: Reorder = "exact", fixed: Sequence[int] = ()
) -> list[Setting]:
    declared: dict[str, Any] = {"reorder": "off", "order": list(range(len(report["declared"])))}
    best: dict[str, Any] = {"reorder": "exact", "order": report["best"]["indices"]}
    single: dict[str, Any] = {"fuse": False, "cache_dir": ""}  # what one operation after the other costs is no profile
    found = [Setting("as written, one by one", {**declared, **single}, 1)]
    turned = best["order"] != declared["order"]
    if turned:
        found.append(Setting("order", {**best, **single}, 1))
    found.append(Setting("fusion", dict(declared), 1))
    if turned:
        found.append(Setting("order + fusion", dict(best), 1))
    if fixed:  # with other bits
        best = {"reorder": reorder, "order": list(fixed)}
        found.append(Setting(f"{reorder} order + fusion", dict(best), 1))
    name = found[-1].name
    found += [Setting(f"{name} + {count} threads", dict(best), count) for count in _thread_counts(threads)]
    return found


def _thread_counts(threads: int) -> Iterable[int]:
    return sorted({threads, threads // 2} - {0, 1})


def _slice(pipeline: Pipeline, setting: Setting, seconds: float) -> tuple[float, float]:
    """Samples per second and CPU microseconds per sample of one stretch, after a first batch that is not counted."""
    samples = 0
    with Loader._create(
        pipeline,
        measuring={**setting.options, "trains": False},
        threads=setting.threads,
        on_error="replace",
        decode_index="off",
        daemon="embedded",
    ) as loader:
        batches = iter(_endless(loader))
        next(batches)
        begun, cpu = time.perf_counter(), _cpu_s()
        for batch in batches:
            samples += len(batch.records)
            taken = time.perf_counter() - begun
            if taken >= seconds:
                break
        used = _cpu_s() - cpu
    return samples / taken, used / samples * 1e6


def _endless(loader: Loader) -> Iterable[Any]:
    while True:
        yield from loader


def _measurable(pipeline: Pipeline) -> Pipeline:
    """With batches that a slice has several of, and without the user's functions on them."""
    batch = pipeline._batch
    if batch is None:
        return pipeline.batch(_ROWS_MAX // 2)
    rows = batch["batch_size"] or batch["global_size"]
    records = len(pipeline)
    if records == 0:
        raise InvalidArgument("tune: the pipeline has no records; give a folder with --data")
    rows = min(rows, _ROWS_MAX, records)
    return pipeline._with(batch={**batch, "batch_size": rows, "global_size": None}, maps=())


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
