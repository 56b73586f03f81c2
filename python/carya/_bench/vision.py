"""Photos to batches: random_resized_crop(224) and flip, uint8 and normalized float32, warm page cache.

Ceilings: the bare loops of `bench/limit` in the same run (bytes in memory, region decode, antialiased resize, store).
Bound A decodes by libjpeg-turbo, bound B by Carya's own decoder with the index that the loader has: "off", or complete
ones, "rows" and "8". Must reach 0.92 of B per CPU second. `--peers`: the same work by other loaders, on the same files;
must reach 4.4 x torch+pillow, and 6 x with the row index. A peer that is not installed, or fails, has a row that says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import _core, files
from .._loading.loader import Loader
from .._loading.loader_options import DecodeIndex
from .._pipeline.pipeline import Pipeline
from .limit import bounds
from .measure import Rate, cached_in, measure, median
from .peers import PEERS, missing
from .photos import BATCH, MEAN, SIDE, STD, find_photos, warm
from .report import Options, Report

FORMS = ("uint8", "float32")
INDEXES: tuple[DecodeIndex, ...] = ("off", "rows", 8)
_PILLOW = "torch+pillow"
_PEER_START_S = 120  # some compile, or write the photos into a file of their own

# (loader, form, threads, index) to what was measured, a figure per round.
Measured = dict[tuple[str, str, int, str], list[Rate]]
Bounds = list[dict[str, dict[str, float]]]


def pipeline(paths: list[str], form: str) -> Pipeline:
    """The pipeline that every loader here is asked for."""
    chain = files(paths).shuffle(seed=1).decode_image().random_resized_crop(SIDE).random_horizontal_flip()
    if form == "float32":
        chain = chain.normalize(MEAN, STD)
    return chain.batch(BATCH)


def run(options: Options) -> Report:
    options = options.scaled()
    with tempfile.TemporaryDirectory() as scratch:
        paths = find_photos(options, Path(scratch))
        mean_bytes = warm(paths)
        caches = {index: _cache(paths, index, scratch) for index in INDEXES}
        cores = len(os.sched_getaffinity(0))
        found: Measured = {}
        failed = {peer: reason for peer in PEERS if options.peers and (reason := missing(peer))}
        limits: Bounds = []
        for _ in range(options.rounds):
            limits.append(bounds(os.path.commonpath(paths), options.smoke))
            for form in FORMS:
                for threads in (1, 2) if cores > 1 else (1,):
                    for index in INDEXES:
                        rate = _carya(paths, form, threads, index, caches[index], options.seconds)
                        found.setdefault(("carya", form, threads, str(index)), []).append(rate)
                for peer in PEERS if options.peers else ():
                    if peer in failed:
                        continue
                    try:
                        peer_rate = _peer(peer, paths, form, cores, options.seconds)
                        found.setdefault((peer, form, cores, "-"), []).append(peer_rate)
                    except PeerFailed as error:
                        failed[peer] = str(error)
    report = Report("vision", facts={"photos": len(paths), "mean_bytes": round(mean_bytes), "batch": BATCH})
    report.rows = [_row(*of, rates, limits, found) for of, rates in found.items()]
    report.rows += [dict.fromkeys(report.rows[0], None) | {"loader": peer, "note": why} for peer, why in failed.items()]
    if not any(limits):
        report.facts["limit"] = (
            "bench_limit is not here (a wheel has it; or `ninja bench_limit`): no ratio to the bounds"
        )
    return report


def _row(
    loader: str, form: str, threads: int, index: str, rates: list[Rate], limits: Bounds, found: Measured
) -> dict[str, Any]:
    cpu, wall = _cpu_us(rates), median([rate.per_second for rate in rates])
    own = "own_" if index in ("off", "-") else f"own_{index}_"
    a, b = (f"{bound}{form}_threads_{threads}" for bound in ("", own))
    pillow, others = _peer_cpu_us(found, form)
    return {
        "loader": loader,
        "form": form,
        "threads": threads,
        "index": index,
        "samples_per_s": round(wall, 1),
        "cpu_us_per_sample": round(cpu, 1),
        "samples_per_cpu_s": round(1e6 / cpu, 1),
        "of_a_cpu": _ratio(_bound(limits, a, "cpu_us"), cpu),
        "of_b_cpu": _ratio(_bound(limits, b, "cpu_us"), cpu),
        "of_b_wall": _ratio(wall, _bound(limits, b, "per_second")),
        "x_torch_pillow": _ratio(pillow, cpu),
        "x_best_other": _ratio(others, cpu),
        "note": "",
    }


def _cpu_us(rates: list[Rate]) -> float:
    return median([rate.cpu_us for rate in rates])


def _bound(limits: Bounds, key: str, figure: str) -> float | None:
    values = [limit[key][figure] for limit in limits if key in limit]
    return median(values) if values else None


def _peer_cpu_us(found: Measured, form: str) -> tuple[float | None, float | None]:
    """CPU microseconds per sample of torch+pillow, and of the best of the other peers."""
    peers = {of[0]: _cpu_us(rates) for of, rates in found.items() if of[0] != "carya" and of[1] == form}
    pillow = peers.pop(_PILLOW, None)
    return pillow, min(peers.values(), default=None)


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else round(above / below, 3)


def _cache(paths: list[str], index: DecodeIndex, scratch: str) -> str:
    """A cache folder with a complete index of this kind."""
    folder = os.path.join(scratch, f"cache-{index}")
    os.mkdir(folder)
    if index != "off":
        with cached_in(folder):
            dataset = pipeline(paths, "uint8").open()
            _core.complete_index(dataset, decode_index=str(index), cache_dir=folder, threads=0)
    return folder


def _carya(paths: list[str], form: str, threads: int, index: DecodeIndex, cache: str, seconds: float) -> Rate:
    with cached_in(cache), Loader(pipeline(paths, form), threads=threads, decode_index=index) as loader:
        return measure(_sizes(loader), seconds)


def _sizes(loader: Loader) -> Iterator[int]:
    while True:
        for batch in loader:
            yield len(batch["image"])


class PeerFailed(Exception):
    """A peer ended without a figure; the text is the last line that it said."""


def _peer(name: str, paths: list[str], form: str, cores: int, seconds: float) -> Rate:
    """A peer runs in a process of its own: none shares threads, allocators or start-up with another."""
    request = json.dumps({"name": name, "form": form, "cores": cores, "seconds": seconds, "paths": paths})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "carya._bench.peers"],
            input=request,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PEER_START_S + 10 * seconds,
        )
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"no figure after {_PEER_START_S + 10 * seconds:.0f} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"ended with {done.returncode} without a word"]
        raise PeerFailed(said[-1])
    answer = json.loads(done.stdout.splitlines()[-1])
    return Rate(answer["samples"], answer["wall_s"], answer["cpu_s"])
