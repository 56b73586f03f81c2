"""`carya convert` of what lies in a store: the bytes that it makes of the files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import contents
from store_data import forget_credentials, jpeg
from stores import FaultStore
from test_array_record import stored
from test_inspect import every_kind, tar
from test_inspect_urls import asked_bytes, put, tables

import carya
from carya._convert.conversion import Request, convert
from carya._convert.journal import NAME
from carya._records.opening import open_records


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def store() -> Iterator[FaultStore]:
    with FaultStore({}) as running:
        yield running


def shards(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if name != NAME}


def test_all_records_of_each_kind_are_those_of_the_files(store: FaultStore, photos: Path, tmp_path: Path) -> None:
    kinds = every_kind(tmp_path, photos) | tables(tmp_path) | {"array_record": stored("plain", tmp_path)}
    for kind, path in kinds.items():
        if kind == "lance":
            continue
        here, there = open_records(str(path), raw=True).records, open_records(put(store, path), raw=True).records
        assert (there.kind, len(there), there.notes) == (kind, len(here), here.notes)
        there.expect(range(len(there)))
        for index in range(len(here)):
            np.testing.assert_equal(there.read(index), here.read(index))


@pytest.mark.parametrize("kind", ["webdataset", "jsonl"])
def test_a_conversion_out_of_a_store_makes_the_same_bytes(store: FaultStore, tmp_path: Path, kind: str) -> None:
    if kind == "jsonl":
        path = tmp_path / "lines.jsonl"
        path.write_text("".join(f'{{"n": {n}, "text": "{"x" * (n % 100)}"}}\n' for n in range(3000)))
    else:
        path = tmp_path / "train"
        path.mkdir()
        for part in range(3):
            numbers = range(10 * part, 10 * part + 10)
            members = {f"{n}.jpg": jpeg(n) for n in numbers} | {f"{n}.cls": b"%d" % n for n in numbers}
            tar(path / f"{part}.tar", dict(sorted(members.items())))
    url = put(store, path)
    for source, to in ((str(path), "here"), (url, "there")):
        convert(Request(source, str(tmp_path / to), "mds", 2, shard_bytes=30_000))
    made = shards(tmp_path / "there")
    assert made == shards(tmp_path / "here")
    assert len(made) > 3
    size = sum(len(data) for data in store.objects.values())
    assert asked_bytes(store) < 6 * size + (1 << 20)
    assert not [path for path in Path(os.environ["CARYA_CACHE_DIR"]).rglob("*") if path.suffix in (".tar", ".jsonl")]
    convert(Request(url, str(tmp_path / "there"), "mds", 2, shard_bytes=30_000))  # which is done
    first = next(key for key in store.objects if "." in key)
    store.objects[first] += b"\n"
    with pytest.raises(
        carya.InvalidArgument, match=r"another conversion \(records differ\)"
    ):  # it is another source by now
        convert(Request(url, str(tmp_path / "there"), "mds", 2, shard_bytes=30_000))


def test_what_a_store_refuses_is_no_end_of_a_file(store: FaultStore, photos: Path, tmp_path: Path) -> None:
    for kind, path in every_kind(tmp_path, photos).items():
        if kind not in ("webdataset", "tfrecord", "mds"):
            continue
        url = put(store, path)
        for first in range(1, 5):
            store.gets = 0
            store.fault = lambda path, count, first=first: "packed" if count >= first else ""  # type: ignore[misc]
            try:
                records = open_records(url).records
                for index in range(len(records)):
                    records.read(index)
            except carya.Error as error:
                assert "packs what it sends" in str(error), kind  # noqa: PT017
        store.fault = lambda path, count: ""
