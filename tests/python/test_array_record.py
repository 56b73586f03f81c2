"""Records of ArrayRecord files, as the package array_record wrote them."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import struct
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA

import carya
from carya._containers.examples import serialized
from carya._records.opening import open_records

KINDS = ("zstd", "brotli", "snappy", "plain", "groups")
COUNT = 24


def value(n: int) -> bytes:
    """Record n of the files: an Example, some longer than a block of 64 KiB."""
    size = 70_000 + n if n % 8 == 5 else n * 37 % 500
    return serialized({"n": (3, [n]), "data": (1, [bytes([n]) * size])})


def stored(kind: str, folder: Path) -> Path:
    """A file of the package's writer."""
    if kind not in ("plain", "groups", "transposed"):
        pytest.importorskip("pyarrow")
    path = folder / f"{kind}.array_record"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "containers" / f"{path.name}.gz").read_bytes()))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_those_that_were_written(kind: str, tmp_path: Path) -> None:
    rows = carya.array_record(stored(kind, tmp_path)).map_style
    assert len(rows) == COUNT
    for n in random.Random(1).sample(range(COUNT), COUNT):
        assert rows[n] == {"record": value(n)}
    example = carya.array_record(tmp_path, record="example")[13]
    assert (example["n"], example["data"]) == (13, b"\x0d" * 70_013)


def test_a_stream_over_two_files_has_each_record_once(tmp_path: Path) -> None:
    paths = [stored("plain", tmp_path), stored("groups", tmp_path)]
    pipeline = carya.array_record(paths, record="example").shuffle(seed=1).batch(12)
    with carya.Loader(pipeline, threads=2) as loader:
        found = {int(r): int(n) for batch in loader for r, n in zip(batch.records, batch["n"], strict=True)}
    assert found == {n: n % COUNT for n in range(2 * COUNT)}


def test_it_is_told_by_its_first_bytes_and_inspected(tmp_path: Path) -> None:
    path = stored("plain", tmp_path)
    assert carya.open(path)[3] == {"record": value(3)}
    opened = open_records(str(path))
    assert (opened.records.kind, len(opened.records)) == ("array_record", COUNT)
    assert opened.records.read(3)["n"] == 3
    assert opened.records.sizes() is not None
    path.rename(tmp_path / "train.array_record-00000-of-00001")
    assert len(carya.open(tmp_path)) == COUNT
    (tmp_path / "train.array_record-00000-of-00001").rename(tmp_path / "data")
    assert len(carya.open(tmp_path / "data")) == COUNT


def test_files_that_are_none_or_were_cut_off_are_told_by_name(tmp_path: Path) -> None:
    path = stored("plain", tmp_path)
    whole = path.read_bytes()
    for content in (b"", b"<html>" * 99_999, whole[: -(1 << 16)], whole[:-1], whole[:64] + bytes((1 << 17) - 64)):
        path.write_bytes(content)
        with pytest.raises(carya.SampleError, match=r"array_record: .*plain\.array_record: .*; give files"):
            carya.array_record(path)
    with pytest.raises(carya.NotFound):
        carya.array_record(tmp_path / "none.array_record")
    with pytest.raises(carya.InvalidArgument, match='give "bytes" or "example"'):
        carya.array_record(path, record="text")  # type: ignore[arg-type]


def test_a_broken_record_is_one_entry_and_the_others_are_read(tmp_path: Path) -> None:
    path = stored("plain", tmp_path)
    rows: Any = carya.array_record(path).map_style
    begin = int(rows.place(3).split("@")[1].split(",")[0])
    data = bytearray(path.read_bytes())
    for kind, said in (
        ("x", "there is no chunk of records"),
        ("t", 'its chunk is one that was written with "transpose"'),
    ):
        data[begin + 24] = ord(kind)
        path.write_bytes(data)
        pipeline = carya.array_record(path, record="example").batch(4)
        with carya.Loader(pipeline, threads=1, on_error="replace", seed=1) as loader:
            assert sum(len(batch["n"]) for batch in loader) == COUNT
            (entry,) = loader.quarantine()
        assert entry["record"] == 3
        assert f"@{begin}, record 3: {said}" in entry["reason"]


def test_what_was_transposed_is_refused(tmp_path: Path) -> None:
    path = stored("transposed", tmp_path)
    with pytest.raises(carya.Unsupported, match='it was written with "transpose"; write it without'):
        carya.array_record(path)


def number(value: int) -> bytes:
    """A varint."""
    return bytes([value & 127 | 128]) + number(value >> 7) if value > 127 else bytes([value])


def chunk(records: int, codec: bytes, lengths: bytes, values: bytes, size: int) -> bytes:
    data = codec + number(len(lengths)) + lengths + values
    return struct.pack("<QQQQQ", 0, len(data), 0, ord("r") | records << 8, size) + data


def made(path: Path, footer: bytes, end: bytes | None = None) -> Path:
    """A file with this chunk for an index, and this one at its end."""
    message = b"\x08" + number((1 << 16) + 24) + b"\x10" + number(0x71930E704FDAE05E)
    blocks = [stored("plain", path.parent).read_bytes()[: 1 << 16]]
    for data in (footer, end or chunk(1, b"\0", b"", message, len(message))):
        blocks.append((bytes(24) + data).ljust(1 << 16, b"\0"))
    path.write_bytes(b"".join(blocks))
    return path


@pytest.mark.parametrize("records", [1 << 20, 1 << 23, 1 << 40])
def test_a_small_index_that_says_many_records_asks_for_no_memory(records: int, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    count = min(records, 1 << 23)
    lengths = number(count) + arrow.compress(bytes(count), "zstd", asbytes=True)
    path = made(tmp_path / "bomb.array_record", chunk(records, b"z", lengths, number(0), 0))
    tracemalloc.start()
    try:
        with pytest.raises(carya.SampleError, match=rf"its chunk says {records:,} records in .* B, and at most"):
            carya.array_record(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_an_index_of_nothing_or_of_too_much_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.array_record"
    with pytest.raises(carya.SampleError, match="its end says nothing"):
        carya.array_record(made(path, chunk(1, b"\0", b"", b"", 0), chunk(0, b"\0", b"", b"", 0)))
    # Numbers of records whose sum is a small one, where it is cut to 64 bits.
    entries = [b"\x08" + number(64 + 64 * n) + b"\x18" + number(1 << 62) for n in range(4)]
    data = b"".join(entries)
    index = chunk(5, b"\0", b"\0" + bytes(map(len, entries)), data, len(data))
    with pytest.raises(carya.SampleError, match="its index says what cannot be"):
        carya.array_record(made(path, index))


def test_numbers_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from carya._containers import array_record

    draw = random.Random(1)
    values = [draw.getrandbits(draw.randint(1, 64)) for _ in range(300)]
    data = b"".join(map(number, values))
    for at_once in (10, 11, 64, 1 << 20):
        monkeypatch.setattr(array_record, "_AT_ONCE", at_once)
        assert array_record._varints(data).tolist() == values
    with pytest.raises(ValueError, match="at most 299 can be"):
        array_record._varints(data, 299)
    assert array_record._ends(b"\x01\x00\x02", 3, 3).tolist() == [0, 1, 1, 3]
    with pytest.raises(ValueError, match="has other lengths"):
        array_record._ends(number((1 << 64) - 1) * 2 + number(7), 3, 5)
    assert array_record._varints(b"").dtype == np.uint64


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = stored("plain", tmp_path)
    rows = carya.array_record(path).map_style
    again = carya.array_record(path).map_style
    assert rows[0] == {"record": value(0)}  # it is open now
    with path.open("r+b") as file:
        file.seek(1 << 16)
        file.write(b"another")
    os.utime(path, ns=(1, 1))
    for one in (rows, again):
        with pytest.raises(carya.IoError, match=r"plain\.array_record: it changed since it was listed"):
            one[7]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bytes_are_errors_and_never_more(kind: str, tmp_path: Path) -> None:
    path = stored(kind, tmp_path)
    whole = path.read_bytes()
    used = [n for n in range(len(whole)) if whole[n]][:4000]
    draw = random.Random(kind)
    for _ in range(60):
        data = bytearray(whole)
        for at in draw.sample(used, draw.randint(1, 6)):
            data[at] = draw.randrange(256)
        path.write_bytes(data)
        try:
            rows = carya.array_record(path, record=draw.choice(("bytes", "example"))).map_style
            assert len(rows) < 1 << 50
            for n in draw.sample(range(min(len(rows), 99)), min(len(rows), 8)):
                with contextlib.suppress(carya.SampleError):
                    rows[n]
        except (carya.SampleError, carya.InvalidArgument, carya.Unsupported):
            continue


@pytest.mark.parametrize("codec", ["zstd", "brotli", "snappy"])
def test_a_piece_that_is_shorter_or_longer_than_it_says_is_refused(codec: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    from carya._containers.codecs import unpacked

    data = arrow.compress(b"abc" * 30, codec, asbytes=True)
    assert unpacked("a", codec, data, 90) == b"abc" * 30
    for size in (0, 1, 89, 91, 5000, 1 << 40):
        with pytest.raises(ValueError, match="unpacked"):
            unpacked("a", codec, data, size)


def test_without_pyarrow_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from carya._containers import codecs

    path = stored("zstd", tmp_path)
    codecs.library.cache_clear()
    codecs.codec_of.cache_clear()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(carya.Unsupported, match=r"pip install 'carya\[parquet\]'"):
        carya.array_record(path)[0]


@pytest.mark.parametrize(
    "options", ["", "uncompressed", "group_size:7,brotli:3", "snappy", "uncompressed,group_size:9"]
)
def test_records_are_those_that_the_package_reads(options: str, tmp_path: Path) -> None:
    module = pytest.importorskip("array_record.python.array_record_module", reason="array_record is not installed")
    pytest.importorskip("pyarrow")
    draw = random.Random(options)
    path = str(tmp_path / "a.array_record")
    writer = module.ArrayRecordWriter(path, options)
    for _ in range(300):
        size = draw.choice((0, 1, 100, 3000, 65_472, 65_536, 200_000))
        writer.write(draw.randbytes(size) if draw.random() < 0.5 else bytes(size))
    writer.close()
    wanted, rows = module.ArrayRecordReader(path).read_all(), carya.array_record(path).map_style
    assert [rows[n]["record"] for n in range(len(rows))] == wanted


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
def test_a_real_file_has_its_records() -> None:
    path = Path(DATA or "", "formats", "arrayrecord", "digits.array_record-00000-of-00002")
    rows = carya.array_record(path)
    assert [rows[n]["record"] for n in range(len(rows))] == [b"0", b"1", b"2", b"3", b"4"]
