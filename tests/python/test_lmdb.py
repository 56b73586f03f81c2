"""Entries of LMDB databases, as lmdb wrote them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA

import carya

lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed")


def value(n: int) -> bytes:
    return bytes([n % 256]) * (n * 37 % 9000)


def write(folder: Path, first: int, last: int, name: bytes | None = None, **options: Any) -> Path:
    with lmdb.open(str(folder), max_dbs=2, map_size=64 << 20) as env:
        database = None if name is None else env.open_db(name, **options)
        with env.begin(write=True, db=database) as transaction:
            for n in range(first, last):
                transaction.put(f"{n:05}".encode() if n % 3 else f"{n:05}-longer".encode(), value(n))
    return folder


def test_entries_are_lmdbs(tmp_path: Path) -> None:
    write(tmp_path / "a", 0, 60)
    write(tmp_path / "b", 60, 90)
    pipeline = carya.lmdb([tmp_path / "a", tmp_path / "b" / "data.mdb"])
    assert len(pipeline) == 90
    for n in np.random.default_rng(1).permutation(90).tolist():
        sample = pipeline[n]
        assert sample["key"][:5] == f"{n:05}".encode()
        assert sample["value"] == value(n)
    with carya.Loader(pipeline.shuffle(seed=1).batch(16), threads=2) as loader:
        found = {int(r): v for batch in loader for r, v in zip(batch.records, batch["value"], strict=True)}
    assert found == {n: value(n) for n in range(90)}


def test_named_databases(tmp_path: Path) -> None:
    write(tmp_path, 0, 9, b"train")
    assert carya.lmdb(tmp_path, name="train")[4]["value"] == value(4)
    assert carya.lmdb(tmp_path)[0]["key"] == b"train"
    with pytest.raises(carya.InvalidArgument, match="name: got b'test'; give the name of a database that is there"):
        carya.lmdb(tmp_path, name="test")
    write(tmp_path, 9, 10, b"many", dupsort=True)
    with pytest.raises(carya.Unsupported, match="several values per key"):
        carya.lmdb(tmp_path, name=b"many")


def test_a_database_that_was_written_to_is_an_error_of_the_system(tmp_path: Path) -> None:
    pipeline = carya.lmdb(write(tmp_path, 0, 9))
    assert pipeline[0]["value"] == value(0)
    write(tmp_path, 9, 10)
    with pytest.raises(carya.IoError, match=r"it (was written to|changed) since it was listed"):
        pipeline[0]


def test_a_transaction_that_changes_no_time_is_noticed_behind_each_read(tmp_path: Path) -> None:
    name = write(tmp_path, 0, 9) / "data.mdb"
    os.truncate(name, 1 << 20)  # room for the writer
    os.utime(name, ns=(1, 1))
    rows: Any = carya.lmdb(tmp_path).map_style
    assert rows[1]["value"] == value(1)  # it is open now
    with lmdb.open(str(tmp_path), map_size=64 << 20) as env, env.begin(write=True) as transaction:
        transaction.delete(b"00001")
    os.utime(name, ns=(1, 1))
    assert name.stat().st_size == 1 << 20
    with pytest.raises(carya.IoError, match="it was written to since it was listed"):
        rows[1]


def test_files_that_are_none_or_were_cut_off_are_told_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, 0, 90) / "data.mdb"
    whole = path.read_bytes()
    for content in (b"", b"<html>" * 9999, whole[:100], whole[:8192], whole[: len(whole) // 2 & -4096]):
        path.write_bytes(content)
        with pytest.raises(carya.SampleError, match=r"lmdb: .*data\.mdb: "):
            carya.lmdb(tmp_path)
    with pytest.raises(carya.NotFound, match="there is no such file"):
        carya.lmdb(tmp_path / "none")
    write(tmp_path / "empty", 0, 0)
    with pytest.raises(carya.InvalidArgument, match="databases with at least one entry"):
        carya.lmdb(tmp_path / "empty")


def test_pages_that_were_never_written_are_not_missed(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), map_size=64 << 20) as env:
        for size in (9000, 3000, 200_000):  # so that there are free pages where the list of them is written
            with env.begin(write=True) as transaction:
                for n in range(9):
                    transaction.put(b"%05d" % n, value(n))
                transaction.put(b"gone", bytes(size))
        with env.begin(write=True) as transaction:
            transaction.put(b"gone", bytes(200_000))
            transaction.delete(b"gone")
        assert (env.info()["last_pgno"] + 1) * env.stat()["psize"] > (tmp_path / "data.mdb").stat().st_size
    pipeline = carya.lmdb(tmp_path)
    assert [pipeline[n] for n in range(9)] == [{"key": b"%05d" % n, "value": value(n)} for n in range(9)]


@pytest.mark.parametrize("size", [4000, 3 << 20])
def test_a_database_that_was_cut_off_says_how_much_there_should_be(tmp_path: Path, size: int) -> None:
    with lmdb.open(str(tmp_path), map_size=64 << 20) as env, env.begin(write=True) as transaction:
        for n in range(9):
            transaction.put(b"%05d" % n, b"x" * size)
    path = tmp_path / "data.mdb"
    os.truncate(path, path.stat().st_size * 2 // 3)
    with pytest.raises(carya.SampleError, match=r"data\.mdb: wanted [0-9,]+ B, got [0-9,]+ B; copy the database again"):
        carya.lmdb(tmp_path)


def test_the_library_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 0, 3)
    monkeypatch.setitem(sys.modules, "lmdb", None)
    assert carya.lmdb(tmp_path)[1] == {"key": b"00001", "value": value(1)}


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
def test_real_databases_have_the_entries_that_lmdb_reads() -> None:
    for path in sorted(Path(DATA or "", "formats").glob("lmdb*/**/data.mdb")):
        with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as env, env.begin() as transaction:
            wanted = list(transaction.cursor())
        pipeline = carya.lmdb(path)
        assert [(pipeline[n]["key"], pipeline[n]["value"]) for n in range(len(pipeline))] == wanted
