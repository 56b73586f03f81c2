#!/usr/bin/env python3
"""Question: what does a row cost that lies in a `.npy` file or an HDF5 dataset, read by native threads or in worker processes?

Shuffled batches of 64 rows of 1 KB (float32) and of 150 KB (uint8), everything in the page cache, by CPU time of all processes:
`carya.npy` and `carya.hdf5` with `native=True` and without, `carya.arrays` of the same file, and loops of numpy (a mapping) and
h5py as a torch Dataset has them. Ceiling: the loop over the mapping, which copies each row once. With --cold also rows that are not
in the page cache, beside fio with reads of that size. One JSON line. Flags: --smoke, --cold.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from database_photos import BATCH, drop, in_turns

import carya
from carya._bench.report import Options

ROWS = {"1 KB": ((256,), "float32"), "150 KB": ((224, 224, 3), "uint8")}


def written(path: Path, count: int, shape: tuple[int, ...], dtype: str) -> Path:
    rows = np.lib.format.open_memmap(path, "w+", dtype, (count, *shape))
    for first in range(0, count, 1000):
        part = rows[first : first + 1000]
        part[:] = np.random.default_rng(first).integers(0, 256, part.shape, np.uint8)
    rows.flush()
    return path


def steps(source: carya.Pipeline) -> Iterator[int]:
    with carya.Loader(source.shuffle(seed=1).batch(BATCH), threads=1, epochs=None) as loader:
        while True:
            for batch in loader:
                yield len(batch.records)


def by_hand(rows: Any) -> Iterator[int]:
    draw = np.random.default_rng(2)
    while True:
        order = draw.permutation(len(rows))
        for first in range(0, len(rows) - BATCH + 1, BATCH):
            yield len(np.stack([rows[n] for n in order[first : first + BATCH]]))


def measure(folder: Path, name: str, count: int, options: Options) -> dict[str, float]:
    path = written(folder / "x.npy", count, *ROWS[name])
    sides: dict[str, Callable[[], Iterator[int]]] = {
        "npy": lambda: steps(carya.npy(path, native=True)),
        "npy by workers": lambda: steps(carya.npy(path)),
        "arrays": lambda: steps(carya.arrays({"value": path})),
        "numpy": lambda: by_hand(np.load(path, mmap_mode="r")),
    }
    if importlib.util.find_spec("h5py"):
        import h5py

        with h5py.File(folder / "x.h5", "w") as file:
            file["x"] = np.load(path, mmap_mode="r")
        sides["hdf5"] = lambda: steps(carya.hdf5(folder / "x.h5", native=True))
        sides["hdf5 by workers"] = lambda: steps(carya.hdf5(folder / "x.h5"))
        sides["h5py"] = lambda: by_hand(h5py.File(folder / "x.h5")["x"])
    return in_turns(sides, options)


def cold(folder: Path, name: str, count: int) -> dict[str, float]:
    """MB/s of rows in shuffled order."""
    shape, dtype = ROWS[name]
    size = math.prod(shape) * np.dtype(dtype).itemsize
    path = written(folder / "cold.npy", count, shape, dtype)
    pipeline = carya.npy(path, native=True).shuffle(seed=1).batch(BATCH)
    found: dict[str, list[float]] = {"npy": [], "fio": []}
    for _ in range(3):
        drop(path)
        begun = time.monotonic()
        with carya.Loader(pipeline, threads=1, epochs=1) as loader:
            rows = sum(len(batch.records) for batch in loader)
        found["npy"].append(rows * size / (time.monotonic() - begun) / 1e6)
        drop(path)
        asked = ["--name=x", f"--filename={path}", "--readonly", "--rw=randread", f"--bs={max(size & -4096, 4096)}"]
        asked += ["--direct=1", "--ioengine=io_uring", "--iodepth=32", "--output-format=json"]
        asked += ["--time_based", "--runtime=5"]
        done = subprocess.run(["fio", *asked], capture_output=True, text=True, check=True)
        read = json.loads(done.stdout)["jobs"][0]["read"]
        found["fio"].append(read["iops"] * size / 1e6)
    mb = {side: statistics.median(values) for side, values in found.items()}
    return {"npy_mb_s": mb["npy"], "fio_mb_s": mb["fio"], "to_fio": mb["npy"] / mb["fio"]}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    options = Options(smoke=given.smoke, seconds=3).scaled()
    os.environ.setdefault("CARYA_CACHE_DIR", tempfile.mkdtemp())
    line: dict[str, Any] = {"bench": "array_rows"}
    for name, count in {"1 KB": 100_000, "150 KB": 3_000}.items():
        with tempfile.TemporaryDirectory() as scratch:
            line[name] = measure(Path(scratch), name, count // (20 if given.smoke else 1), options)
        if given.cold and shutil.which("fio"):
            with tempfile.TemporaryDirectory() as scratch:
                line[f"{name} cold"] = cold(Path(scratch), name, {"1 KB": 1_000_000, "150 KB": 12_000}[name])
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
