#!/usr/bin/env python3
"""Samples kept in memory: what does an epoch of hits cost, in each form, and a first batch out of a full folder?

Ceilings: the operations behind the place alone, as they were timed on the same bytes in the same run; for packed coefficients
1.5 times as fast as the JPEG with its index, both in memory; 150 ms from a new loader to its first batch where a folder has all.
CPU time of the process per sample, with one thread, the page cache warm, each configuration in turns with all others. What is
worth keeping over capacities, epochs and storages: `carya bench cache`. Run: `--data FOLDER` with JPEGs, `--rounds N`, `--smoke`
for a second; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import carya
from carya import _core
from carya._bench.measure import cached_in, median
from carya._bench.photos import find_photos, warm
from carya._bench.report import Options


def pipelines(paths: list[str]) -> dict[str, Any]:
    source = carya.files(paths).shuffle(seed=1).decode_image()
    return {
        "random crop": source.random_resized_crop(224).random_horizontal_flip().batch(32),
        "heavy prefix": source.resize(256).grayscale(3).gaussian_blur(9).random_crop(224).batch(32),
        "repeated crop": source.random_resized_crop(256)
        .reuse_augmentation(5)
        .random_crop(224)
        .random_horizontal_flip()
        .batch(32),
    }


def hits(pipeline: Any) -> dict[str, float]:
    """With room for all: CPU microseconds per sample once all are kept, and of the operations behind the place alone."""
    with carya.Loader(pipeline, threads=1, daemon="embedded", cache={"memory": "80%"}) as loader:
        for _ in range(2):
            for _ in loader:
                pass
        begun, samples = time.process_time(), 0
        for _ in range(3):
            samples += sum(len(batch.records) for batch in loader)
        whole, told = (time.process_time() - begun) / samples * 1e6, loader.stats()["cache"]
        return {
            "kept_bytes": told["bytes"],
            "all_kept_us": whole,
            "behind_us": told["hit_us"],
            "of_bare": told["hit_us"] / whole,
        }


def forms(pipeline: Any, rounds: int) -> dict[str, Any]:
    """An epoch of hits by what is kept: CPU microseconds per sample, and times as fast as JPEGs with their whole index.

    The JPEGs are in the page cache. Pictures have the room that the coefficients of all photos take, and that of all.
    """

    def kept(cache: Any) -> carya.Loader:
        # Without batches of the next epoch, which would be made in the turns of the others.
        loader = carya.Loader(pipeline, threads=1, daemon="embedded", cache=cache, prefetch_epochs=False)
        for _ in range(3):
            epoch(loader)
        return loader

    packed = kept({"memory": "80%", "form": "coefficients"})
    told = packed.stats()["cache"]
    loaders = {
        "JPEG": kept("off"),
        "coefficients": packed,
        "pictures, as much room": kept({"memory": told["bytes"], "after": "decode_image"}),
        "pictures, all": kept({"memory": "40%", "after": "decode_image"}),
    }
    took: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(rounds):
        for name, loader in loaders.items():
            took[name].append(epoch(loader))
    for loader in loaders.values():
        loader.close()
    return {
        "kept_bytes": told["bytes"],
        "fill_us": told["fill_us"],
        "us_per_sample": {name: median(times) for name, times in took.items()},
        "times_as_fast": {
            name: median([jpeg / one for jpeg, one in zip(took["JPEG"], times, strict=True)])
            for name, times in took.items()
        },
    }


def epoch(loader: carya.Loader) -> float:
    """CPU microseconds per sample of the loader's next epoch."""
    begun = time.process_time()
    samples = sum(len(batch.records) for batch in loader)
    return (time.process_time() - begun) / samples * 1e6


def first_batch(pipeline: Any, rounds: int) -> dict[str, float]:
    """From a new loader to its first batch, in ms, with a folder that has all samples and of which nothing is in the page
    cache; and of later loaders, when it is."""
    with tempfile.TemporaryDirectory() as tier:
        cache = {"disk": (tier, "64GB")}

        def start() -> float:
            begun = time.perf_counter()
            with carya.Loader(pipeline, threads=1, epochs=1, daemon="embedded", cache=cache) as loader:
                next(iter(loader))
                return (time.perf_counter() - begun) * 1e3

        found = samples = 0
        while found < samples or samples == 0:
            with carya.Loader(pipeline, threads=1, epochs=1, daemon="embedded", cache=cache) as loader:
                samples = sum(len(batch.records) for batch in loader)
                found = loader.stats()["cache"]["files"][0]["hits"]
        cold = []
        for _ in range(rounds):
            for path in Path(tier).rglob("*.segment"):
                with path.open("rb") as file:
                    os.fdatasync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            cold.append(start())
        return {"cold": median(cold), "warm": median([start() for _ in range(rounds)])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, cached_in(folder):
        paths = find_photos(Options(data=given.data, smoke=given.smoke), Path(folder))
        warm(paths)
        _core.complete_index(carya.files(paths).open(), decode_index="8", cache_dir=folder, threads=0)
        for name, pipeline in pipelines(paths).items():
            report[name] = found = hits(pipeline)
            print(
                f"{name}: {found['kept_bytes'] / len(paths) / 1e3:,.0f} KB kept per photo, of {len(paths)} photos; all kept: "
                f"{found['all_kept_us']:,.0f} us, of which {found['behind_us']:,.0f} ({found['of_bare']:.2f}) in the operations "
                "behind the place",
                flush=True,
            )
        report["forms"] = found = forms(pipelines(paths)["random crop"], 2 if given.smoke else 4 * given.rounds)
        print(
            f"random crop, by form: {found['kept_bytes'] / len(paths) / 1e3:,.0f} KB of coefficients per photo, "
            f"{found['fill_us'] or 0:,.0f} us to keep one"
        )
        for name, us in found["us_per_sample"].items():
            print(f"  {name}: {us:,.0f} us per sample ({found['times_as_fast'][name]:.2f} x)")
        report["first_batch_ms"] = found = first_batch(pipelines(paths)["random crop"], 2 if given.smoke else 9)
        print(
            f"first batch from a full folder: {found['cold']:.0f} ms, {found['warm']:.0f} in the page cache (at most 150)"
        )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
