#!/usr/bin/env python3
"""Rows of a Parquet file in random order: CPU time per row of `carya.parquet`, beside pyarrow.

Ceiling: pyarrow's `take` from a table that is in memory as a whole. Beside it: pyarrow decoding the row group of each row,
which is all it has for a file that is not in memory. One process, one thread, everything in the page cache. Run: give
`--smoke` for small files, `--photo FILE` for the bytes of the pictures.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import carya


def tables(scale: int, photo: bytes) -> dict[str, tuple[Any, int]]:
    """Name -> (table, rows of a row group); the last one as pyarrow writes it by default."""
    rows = 20_000 // scale
    random = np.random.default_rng(1)
    small = {f"x{i}": random.random(rows, np.float32) for i in range(4)}
    text = [f"row {n} " * 8 for n in range(rows)]
    tokens = list(random.integers(0, 50_000, (rows, 128), np.int32))
    photos = [photo[:-8] + n.to_bytes(8, "little") for n in range(1_000 // scale)]
    return {
        "4 numbers": (pa.table(small), rows // 10),
        "text and 128 tokens": (pa.table({"text": text, "tokens": tokens}), rows // 10),
        "photos, groups of 100": (pa.table({"image": photos}), 100),
        "photos, one group": (pa.table({"image": photos}), 1 << 20),
    }


def cpu_us(what: Any, order: list[int]) -> float:
    begin = time.process_time()
    for row in order:
        what(row)
    return (time.process_time() - begin) / len(order) * 1e6


def measure(table: Any, group: int, folder: str) -> dict[str, float]:
    path = os.path.join(folder, "a.parquet")
    pq.write_table(table, path, row_group_size=group)
    order = np.random.default_rng(2).permutation(table.num_rows).tolist()
    whole = table.combine_chunks()
    rows = carya.parquet(path)._source.dataset.dataset
    found = {"first pass, unpacking": cpu_us(rows.__getitem__, order)}
    found["later passes"] = min(cpu_us(rows.__getitem__, order) for _ in range(3))
    found["take from memory"] = min(cpu_us(lambda row: whole.take([row]).to_pylist(), order[:2000]) for _ in range(3))
    file = pq.ParquetFile(path)
    some = order[:20]
    found["decoding the row group"] = cpu_us(
        lambda row: file.read_row_group(row // group, use_threads=False).slice(row % group, 1).to_pylist(), some
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--photo", type=Path)
    given = parser.parse_args()
    photo = given.photo.read_bytes() if given.photo else np.random.default_rng(3).bytes(110_000)
    report = {}
    for name, (table, group) in tables(50 if given.smoke else 1, photo).items():
        with tempfile.TemporaryDirectory() as folder:
            os.environ["CARYA_CACHE_DIR"] = os.path.join(folder, "cache")
            report[name] = measure(table, group, folder)
        print(f"{name:24}", "  ".join(f"{key} {value:,.1f}" for key, value in report[name].items()), flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
