#!/usr/bin/env python3
"""Question: what does a photo cost that lies in an LMDB database, or in FFCV's `.beton` file?

Random crops to 224 x 224 of 110 KB JPEGs in shuffled batches of 64, everything in the page cache, by CPU time of all processes:
read and decoded natively (`image=`), by a Python function in a worker process (Pillow), and, for LMDB, by a loop of
`transaction.get` and Pillow as a torch Dataset has it. Ceiling: the same photos natively from a folder's files. With --cold
also values of a database that is not in the page cache, in shuffled order, beside fio with reads of that size. One JSON line. Flags: --smoke, --cold, --data FOLDER.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import carya
from carya._bench.photos import find_photos
from carya._bench.report import Options

BATCH, SIDE = 64, 224
_PAGE = 1 << 21  # of a beton file


def family_s(pid: int = os.getpid()) -> float:
    """CPU seconds of this process, its children, and those that it waited for."""
    total = 0.0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(family_s(int(child)) for child in (task / "children").read_text().split())
    return total


def write_lmdb(folder: Path, photos: list[bytes]) -> Path:
    import lmdb

    with (
        lmdb.open(str(folder), map_size=2 * sum(map(len, photos)) + (1 << 24)) as env,
        env.begin(write=True) as transaction,
    ):
        for number, photo in enumerate(photos):
            transaction.put(b"%06d" % number, photo)
    return folder


def write_beton(path: Path, photos: list[bytes]) -> Path:
    """As FFCV writes one field of JPEGs: head, field, rows, pages of images, and where each lies."""
    rows, places, end = b"", b"", _PAGE * (1 + len(photos) * 13 // _PAGE)
    with open(path, "wb") as file:
        for number, photo in enumerate(photos):
            width, height = Image.open(io.BytesIO(photo)).size
            rows += struct.pack("<BHHQ", 0, width, height, end)
            places += struct.pack("<QQQ", number, end, len(photo))
            file.seek(end)
            file.write(photo)
            end += len(photo)
        file.write(places)
        file.seek(0)
        head = struct.pack("<HHIQQ", 2, 1, _PAGE, len(photos), end)
        file.write(head + bytes([2]) + b"photo".ljust(16, b"\0") + bytes(1024) + rows)
    return path


def crop(photo: bytes, draw: np.random.Generator) -> Any:
    """A random crop as torchvision's, by Pillow."""
    image = Image.open(io.BytesIO(photo)).convert("RGB")
    width, height = image.size
    side = min(int((draw.uniform(0.09, 1) * width * height) ** 0.5), width, height)
    left, top = int(draw.integers(0, width - side + 1)), int(draw.integers(0, height - side + 1))
    resized = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    return np.asarray(resized)


def crop_value(photo: bytes) -> Any:
    return crop(photo, np.random.default_rng(len(photo)))


def natively(source: carya.Pipeline) -> carya.Pipeline:
    return source.shuffle(seed=1).decode_image().random_resized_crop(SIDE, scale=(0.09, 1), ratio=(1, 1)).batch(BATCH)


def by_function(source: carya.Pipeline, field: str) -> carya.Pipeline:
    return source.map(crop_value, fields=field, out="image").shuffle(seed=1).batch(BATCH)


def steps(pipeline: carya.Pipeline, **options: Any) -> Iterator[int]:
    with carya.Loader(pipeline, threads=1, epochs=None, **options) as loader:
        while True:
            for batch in loader:
                yield len(batch["image"])


def by_hand(folder: Path, count: int) -> Iterator[int]:
    import lmdb

    draw = np.random.default_rng(2)
    with lmdb.open(str(folder), readonly=True, lock=False, readahead=False) as env, env.begin() as transaction:
        while True:
            order = draw.permutation(count)
            for first in range(0, count, BATCH):
                rows = [crop(transaction.get(b"%06d" % n), draw) for n in order[first : first + BATCH]]
                yield len(np.stack(rows))


def cpu_us(rows: Iterator[int], seconds: float) -> float:
    """CPU microseconds of a row of all processes, for at least so long."""
    next(rows)
    begun, until, done = family_s(), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        done += next(rows)
    return (family_s() - begun) * 1e6 / done


def in_turns(sides: Mapping[str, Callable[[], Iterator[int]]], options: Options) -> dict[str, float]:
    """CPU microseconds of a row by each side, the median of rounds in which each has its turn."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, make in sides.items():
            with contextlib.closing(make()) as rows:  # type: ignore[type-var]
                found[name].append(cpu_us(rows, options.seconds))
    return {name: statistics.median(values) for name, values in found.items()}


def measure(folder: Path, paths: list[str], options: Options) -> dict[str, Any]:
    photos = [Path(path).read_bytes() for path in paths]
    database, container = write_lmdb(folder / "db", photos), write_beton(folder / "a.beton", photos)
    sides: dict[str, Callable[[], Iterator[int]]] = {
        "files": lambda: steps(natively(carya.files(paths)), decode_index="off"),
        "lmdb": lambda: steps(natively(carya.lmdb(database, image="value")), decode_index="off"),
        "lmdb by function": lambda: steps(by_function(carya.lmdb(database), "value")),
        "lmdb.get and Pillow": lambda: by_hand(database, len(photos)),
        "beton": lambda: steps(natively(carya.beton(container, image="photo")), decode_index="off"),
        "beton by function": lambda: steps(by_function(carya.beton(container, decode=False), "photo")),
    }
    us = in_turns(sides, options)
    return {
        "photos": len(photos),
        "kb": sum(map(len, photos)) / len(photos) / 1000,
        "cpu_us": us,
        "lmdb_to_files": us["files"] / us["lmdb"],
        "lmdb_to_function": us["lmdb by function"] / us["lmdb"],
        "lmdb_to_hand": us["lmdb.get and Pillow"] / us["lmdb"],
        "beton_to_files": us["files"] / us["beton"],
        "beton_to_function": us["beton by function"] / us["beton"],
    }


def drop(path: Path) -> None:
    """From the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def cold(folder: Path, size: int, count: int) -> dict[str, float]:
    """MB/s of values in random order, beside fio with reads of that size. A picture of 16 x 16 begins each: next to no decoding."""
    buffer = io.BytesIO()
    Image.new("RGB", (16, 16)).save(buffer, "JPEG")
    name = write_lmdb(folder / "cold", [buffer.getvalue().ljust(size, b"\0")] * count) / "data.mdb"
    pipeline = carya.lmdb(name, image="value").shuffle(seed=1).decode_image().resize((16, 16)).batch(BATCH)
    found: dict[str, list[float]] = {"lmdb": [], "fio": []}
    for _ in range(3):
        drop(name)
        begun = time.monotonic()
        with carya.Loader(pipeline, threads=1, epochs=1, decode_index="off") as loader:
            rows = sum(len(batch.records) for batch in loader)
        found["lmdb"].append(rows * size / (time.monotonic() - begun) / 1e6)
        drop(name)
        asked = ["--name=x", f"--filename={name}", "--readonly", "--rw=randread", f"--bs={size & -4096}", "--direct=1"]
        asked += ["--ioengine=io_uring", "--iodepth=32", "--output-format=json"]
        done = subprocess.run(["fio", *asked], capture_output=True, text=True, check=True)
        found["fio"].append(json.loads(done.stdout)["jobs"][0]["read"]["bw_bytes"] / 1e6)
    mb = {side: statistics.median(values) for side, values in found.items()}
    return {"lmdb_mb_s": mb["lmdb"], "fio_mb_s": mb["fio"], "to_fio": mb["lmdb"] / mb["fio"]}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--data")
    given = parser.parse_args()
    options = Options(data=given.data, smoke=given.smoke, seconds=4).scaled()
    os.environ.setdefault("CARYA_CACHE_DIR", tempfile.mkdtemp())
    line: dict[str, Any] = {"bench": "database_photos"}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        paths = find_photos(options, folder)
        try:
            import lmdb  # noqa: F401 - it writes the database
        except ImportError:
            print(json.dumps({**line, "skipped": "the package lmdb is not installed"}))
            return 0
        line |= measure(folder, paths, options)
        if given.cold and shutil.which("fio"):
            line["cold"] = cold(folder, 110_000, 20_000)
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
