#!/usr/bin/env python3
"""Question: how many records per CPU-second, against the reader that a format brings itself?

Both sides make shuffled batches of 128 rows of numpy arrays from the same files, which the format's own writer wrote: small
rows (28x28 uint8 and a label). Ceiling: the other reader; must reach 2 x its rate per CPU-second. Readers are packages
(tfrecord, mosaicml-streaming, pyarrow) that need not be there: a row without them says so. One JSON line. Flag: --smoke.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import carya

BATCH = 128


def cpu_us(rows: Iterator[int], least: int) -> float:
    """CPU microseconds of this process per row, over at least so many rows."""
    next(rows)
    start, done = time.process_time(), 0
    while done < least:
        done += next(rows)
    return (time.process_time() - start) * 1e6 / done


def ours(source: carya.Pipeline) -> Iterator[int]:
    with carya.Loader(source.shuffle(seed=1).batch(BATCH, drop_last=True), threads=1) as loader:
        while True:
            for batch in loader:
                assert batch["row"].shape == (BATCH, 28, 28)
                yield BATCH


def rows_of(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.random.default_rng(1).integers(0, 256, (count, 28, 28), np.uint8), np.arange(count) % 10


def of_tfrecord(folder: Path, count: int) -> tuple[Iterator[int], Iterator[int]]:
    import tfrecord

    images, labels = rows_of(count)
    path = str(folder / "rows.tfrecord")
    writer = tfrecord.TFRecordWriter(path)
    for image, label in zip(images, labels, strict=True):
        writer.write({"row": (image.tobytes(), "byte"), "label": (int(label), "int")})
    writer.close()

    def theirs() -> Iterator[int]:
        while True:
            window: list[dict[str, Any]] = []
            # A window of four batches is drawn from: as little a shuffle as there is.
            for record in tfrecord.tfrecord_loader(path, None, {"row": "byte", "label": "int"}):
                window.append(record)
                if len(window) == 4 * BATCH:
                    random.shuffle(window)
                    rows, window = window[:BATCH], window[BATCH:]
                    image = np.stack([np.frombuffer(row["row"], np.uint8).reshape(28, 28) for row in rows])
                    label = np.concatenate([row["label"] for row in rows])
                    yield len(image) + 0 * len(label)

    return ours(carya.tfrecord(path, label="label", tensors={"row": ("row", "uint8", (28, 28))})), theirs()


def of_mds(folder: Path, count: int) -> tuple[Iterator[int], Iterator[int]]:
    from streaming import LocalDataset, MDSWriter

    images, labels = rows_of(count)
    out = str(folder / "mds")
    with MDSWriter(out=out, columns={"row": "ndarray:uint8:28,28", "label": "int"}) as writer:
        for image, label in zip(images, labels, strict=True):
            writer.write({"row": image, "label": int(label)})

    def theirs() -> Iterator[int]:
        dataset, generator = LocalDataset(out), np.random.default_rng(2)
        while True:
            order = generator.permutation(count)
            for first in range(0, count - BATCH, BATCH):
                rows = [dataset[int(i)] for i in order[first : first + BATCH]]
                image, label = np.stack([row["row"] for row in rows]), np.array([row["label"] for row in rows])
                yield len(image) + 0 * len(label)

    return ours(carya.mds(out, label="label", tensors={"row": ("row", "uint8", (28, 28))})), theirs()


def of_arrow(folder: Path, count: int) -> tuple[Iterator[int], Iterator[int]]:
    import pyarrow as pa

    images, labels = rows_of(count)
    path = str(folder / "rows.arrow")
    table = pa.table({"row": pa.array([image.tobytes() for image in images], pa.binary()), "label": labels})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)  # as Hugging Face's datasets does

    def theirs() -> Iterator[int]:
        mapped = pa.ipc.open_stream(pa.memory_map(path)).read_all()
        generator = np.random.default_rng(2)
        while True:
            order = generator.permutation(count)
            for first in range(0, count - BATCH, BATCH):
                rows = mapped.take(pa.array(order[first : first + BATCH]))
                data = b"".join(rows["row"].to_pylist())
                image = np.frombuffer(data, np.uint8).reshape(-1, 28, 28)
                yield len(image) + 0 * len(rows["label"].to_numpy())

    return ours(carya.arrow(path, label="label", tensors={"row": ("row", "uint8", (28, 28))})), theirs()


def measure(make: Callable[[Path, int], tuple[Iterator[int], Iterator[int]]], smoke: bool) -> dict[str, float]:
    """Both sides in turns; medians."""
    with tempfile.TemporaryDirectory() as folder:
        mine, other = make(Path(folder), 1000 if smoke else 20_000)
        rounds = [
            (cpu_us(mine, 1000 if smoke else 200_000), cpu_us(other, 500 if smoke else 10_000))
            for _ in range(1 if smoke else 5)
        ]
        del mine, other
    carya_us, peer_us = (statistics.median(side) for side in zip(*rounds, strict=True))
    return {"carya_cpu_us": carya_us, "peer_cpu_us": peer_us, "carya_to_peer_per_cpu_s": peer_us / carya_us}


def main() -> int:
    smoke = "--smoke" in sys.argv
    os.environ.setdefault("CARYA_CACHE_DIR", tempfile.mkdtemp())
    line: dict[str, Any] = {"bench": "peer_formats", "rows": []}
    peers = (("tfrecord", "tfrecord", of_tfrecord), ("mds", "streaming", of_mds), ("arrow", "pyarrow", of_arrow))
    for name, package, make in peers:
        if importlib.util.find_spec(package) is None:
            line["rows"].append({"format": name, "skipped": f"the package {package} is not installed"})
        else:
            line["rows"].append({"format": name, **measure(make, smoke)})
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
