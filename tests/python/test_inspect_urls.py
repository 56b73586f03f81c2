"""`carya inspect URL`: the same as of the files, from a few ranges of them."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import record_writers as write
from store_data import BUCKET, forget_credentials
from stores import FaultStore
from test_inspect import every_kind, found, jpeg

import carya
from carya._cli import inspecting
from carya._inspect.survey import survey
from carya._sources import objects


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_credentials(monkeypatch, tmp_path)


@pytest.fixture
def store() -> Iterator[FaultStore]:
    with FaultStore({}) as running:
        yield running


def put(store: FaultStore, path: Path) -> str:
    """The URL of a file or folder, with all that is in it."""
    for file in [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file()):
        store.objects[f"/{BUCKET}/{file.relative_to(path.parent)}"] = file.read_bytes()
    return f"s3+{store.url}/{BUCKET}/{path.name}" + ("/" if path.is_dir() else "")


def asked_bytes(store: FaultStore) -> int:
    ranges = [re.findall(r"\d+", headers["range"]) for _, _, headers in store.seen if "range" in headers]
    return sum(int(last) - int(first) + 1 for first, last in ranges)


def values(told: Any) -> list[Any]:
    return [
        {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in one.values.items()}
        for one in told.shown
    ]


def tables(folder: Path) -> dict[str, Path]:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"image": [{"bytes": jpeg(n), "path": None} for n in range(4)], "label": [0, 1, 2, 3]})
    pq.write_table(table, folder / "a.parquet", row_group_size=2)
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    return {"parquet": folder / "a.parquet", "arrow": folder / "a.arrow"}


def test_each_kind_is_told_as_from_files(store: FaultStore, photos: Path, tmp_path: Path) -> None:
    for kind, path in (every_kind(tmp_path, photos) | tables(tmp_path)).items():
        url = put(store, path)
        here, there = survey(str(path), 3, None), survey(url, 3, None)
        assert (there.kind, there.records, there.files) == (kind, here.records, here.files)
        if here.looked_at == there.looked_at:  # fewer, where there are many
            assert [one.as_dict() for one in there.fields] == [one.as_dict() for one in here.fields]
        assert values(there) == values(here)
        assert there.file_bytes == here.file_bytes
        pipeline = eval(there.line, {"carya": carya})
        assert len(pipeline) == there.records


def test_the_command_says_it(store: FaultStore, tmp_path: Path) -> None:
    url = put(store, every_kind(tmp_path, tmp_path)["webdataset"])
    told = found(url)
    assert (told["is"], told["records"]) == ("webdataset", 2)
    assert [record["fields"]["cls"]["value"] for record in told["shown"]] == [4, 5]


def test_large_members_are_leapt_over(store: FaultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carya._inspect.survey._STORE_BYTES", 1 << 20)
    with tarfile.open(tmp_path / "large.tar", "w") as tar:
        for number in range(24):
            member = tarfile.TarInfo(f"{number:02}.bin")
            member.size = 256 << 10
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    told = survey(put(store, tmp_path / "large.tar"), 1, 0)
    assert told.records == 24
    assert told.looked_at < 24
    assert asked_bytes(store) < 4 << 20
    assert told.notes == []


@pytest.mark.parametrize("kind", ["webdataset", "tfrecord"])
def test_it_stops_after_enough_and_says_so(
    store: FaultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(objects, "LOOK_BYTES", 200_000)
    path = tmp_path / ("a.tar" if kind == "webdataset" else "a.tfrecord")
    if kind == "webdataset":
        with tarfile.open(path, "w") as tar:
            for number in range(200):
                member = tarfile.TarInfo(f"{number:03}.bin")
                member.size = 10_000
                tar.addfile(member, io.BytesIO(bytes(member.size)))
    else:
        write.write_records(path, [bytes(10_000) for _ in range(200)])
    told = survey(put(store, path), 2, None)
    assert 10 < told.records < 100
    assert told.broken == 0
    assert any("looked at the first" in note for note in told.notes)
    assert asked_bytes(store) < path.stat().st_size


def test_of_many_objects_some_are_looked_at(store: FaultStore, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    for shard in range(12):
        write.write_records(tmp_path / "shards" / f"train-{shard:05}-of-00012", [write.example({"x": [shard]})] * 2)
    told = survey(put(store, tmp_path / "shards"), 2, None)
    assert (told.kind, told.records, told.files) == ("tfrecord", 16, 8)
    assert told.notes == ["looked at the first 8 of 12 objects; records are those of them"]


def test_an_object_that_changes_meanwhile_is_no_mixture(store: FaultStore, tmp_path: Path) -> None:
    file = objects.open_file(put(store, write.write_records(tmp_path / "a.tfrecord", [bytes(100_000)] * 4)))
    assert len(file.read(12)) == 12
    store.objects[f"/{BUCKET}/a.tfrecord"] = bytes(400_064)
    file.seek(300_000)
    with pytest.raises(carya.IoError, match="changed"):
        file.read(12)


def test_an_object_is_read_as_the_file_is(store: FaultStore, tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    (tmp_path / "a.bin").write_bytes(chance.bytes(700_000))
    url = put(store, tmp_path / "a.bin")
    with open(tmp_path / "a.bin", "rb") as here, objects.open_file(url) as there:
        for _ in range(60):
            at, size = int(chance.integers(0, 720_000)), int(chance.choice([0, 1, 512, 70_000, 300_000]))
            here.seek(at)
            there.seek(at)
            for _ in range(3):
                assert there.read(size) == here.read(size)
            assert there.tell() == here.tell()


@pytest.mark.parametrize("url", ["ftp://host/a.tar", "https://user:word@host/a.tar", "https://host/a.tar?key=secret"])
def test_urls_that_are_not_read_are_refused_without_their_secrets(url: str) -> None:
    with pytest.raises(carya.InvalidArgument) as refused:
        survey(url, 1, None)
    assert "word" not in str(refused.value).replace("password", "")
    assert "secret" not in str(refused.value).replace("could hold a secret", "")


def test_a_store_that_refuses_says_which_credentials_to_give(tmp_path: Path, store: FaultStore) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    url = put(store, tmp_path / "a.jsonl")
    store.fault = lambda path, count: "403"
    with pytest.raises(
        carya.Permission, match=r"/a\.jsonl: the store answered 403.*there are no credentials: give them"
    ):
        carya.open(url)


def test_a_store_that_takes_long_is_told_of(
    store: FaultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    url = put(store, tmp_path / "a.jsonl")
    inspecting.inspect_dataset(url, 1, None, "off", None, True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(inspecting, "PATIENCE_S", 0.05)
    store.fault = lambda path, count: "late 0.5"
    inspecting.inspect_dataset(url, 1, None, "off", None, True)
    assert "takes more than 0.05 s; what fails is tried again" in capsys.readouterr().err


def test_folders_without_a_slash_and_without_objects_are_told(tmp_path: Path, store: FaultStore) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "a.jsonl").write_text("{}\n")
    url = put(store, tmp_path / "shards")
    for folder in (url[:-1], url[: -len("/shards/")]):
        with pytest.raises(carya.NotFound, match=r"it is a folder; give it with / at its end"):
            carya.open(folder)
    with pytest.raises(carya.NotFound, match=r"no object lies below it"):
        carya.open(url[:-1] + "-none/")
    with pytest.raises(carya.NotFound, match=r"404"):
        carya.open(url + "none.jsonl")
    with pytest.raises(carya.InvalidArgument, match=r"no pictures, but jsonl \(shards/a\.jsonl\)"):
        carya.open(url.removesuffix("shards/"))
