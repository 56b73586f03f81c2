"""Sources over libraries that read files, and folders of images, behind URLs: what they give is what the files give."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_data import BUCKET, forget_credentials, jpeg, objects_of, training
from stores import FaultStore
from streams import epoch_digest

import carya
from carya._records.opening import open_records
from carya._sources.stores import at_endpoint

_SOURCES: dict[str, Callable[..., carya.Pipeline]] = {
    "csv": lambda where, **options: carya.csv(f"{where}/rows-*.csv", **options),
    "jsonl": lambda where, **options: carya.jsonl(f"{where}/lines.jsonl.gz", **options),
    "npy": lambda where, **options: carya.npy({"x": f"{where}/x-{{0..1}}.npy"}, **options),
    "npz": lambda where, **options: carya.npz([f"{where}/packed.npz"], **options),
    "text": lambda where, **options: carya.text(f"{where}/", **options),
    "open": lambda where, **options: carya.open(f"{where}/rows-*.csv", **options),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / BUCKET
    folder.mkdir()
    for part in range(2):
        (folder / f"rows-{part}.csv").write_text(
            "x,y\n" + "".join(f"{row + 10 * part},{row / 4}\n" for row in range(6))
        )
        np.save(folder / f"x-{part}.npy", np.arange(12, dtype=np.int16).reshape(6, 2) + 100 * part)
    lines = "".join(json.dumps({"n": number, "text": f"line {number}"}) + "\n" for number in range(8))
    (folder / "lines.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "words.txt").write_text("one\ntwo\nthree\n")
    np.savez_compressed(folder / "packed.npz", x=np.arange(8).reshape(4, 2), y=np.arange(4) / 2)
    for number in range(9):
        classes = folder / "photos" / f"class {'abc'[number % 3]}" / "inner"
        classes.mkdir(parents=True, exist_ok=True)
        (classes.parent if number % 2 else classes).joinpath(f"{number}.JPG").write_bytes(jpeg(number))
    (folder / "photos" / "README.txt").write_text("beside the classes")
    (folder / "photos" / "class a" / "notes.txt").write_text("no picture")
    return folder


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_credentials(monkeypatch, tmp_path)


@pytest.fixture
def store(data: Path) -> Iterator[FaultStore]:
    with FaultStore(objects_of(data)) as running_store:
        yield running_store


def samples(pipeline: carya.Pipeline) -> list[Any]:
    return [pipeline[index] for index in range(len(pipeline))]


@pytest.mark.parametrize("kind", _SOURCES)
def test_what_lies_in_a_store_is_what_the_files_give(data: Path, store: FaultStore, kind: str) -> None:
    local, remote = _SOURCES[kind](str(data)), _SOURCES[kind](f"s3://{BUCKET}", endpoint=store.url)
    np.testing.assert_equal(samples(remote), samples(local))
    assert len(local) > 2
    with carya.Loader(local.shuffle(seed=2).batch(2)) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        expected = [batch.records.tolist() for batch in batches]
    with carya.Loader(remote.shuffle(seed=2).batch(2)) as loader:  # a state of the files goes on in the store
        loader.load_state_dict(state)
        assert [batch.records.tolist() for batch in loader] == expected


def test_parquet_and_hdf5_are_read_from_a_store(data: Path, store: FaultStore, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    h5py = pytest.importorskip("h5py")
    parquet.write_table(arrow.table({"x": list(range(20)), "t": [f"t{n}" for n in range(20)]}), tmp_path / "a.parquet")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(6, dtype=np.int16).reshape(3, 2)
    for name in ("a.parquet", "a.h5"):
        store.objects[f"/{BUCKET}/{name}"] = (tmp_path / name).read_bytes()
    where = f"s3://{BUCKET}"
    np.testing.assert_equal(
        samples(carya.parquet(f"{where}/a.parquet", endpoint=store.url)), samples(carya.parquet(tmp_path / "a.parquet"))
    )
    np.testing.assert_equal(
        samples(carya.hdf5(f"{where}/a.h5", endpoint=store.url)), samples(carya.hdf5(tmp_path / "a.h5"))
    )


@pytest.fixture
def wide(store: FaultStore, tmp_path: Path) -> Path:
    """Four row groups with a column that nobody wants, which has nearly all of the bytes; also in the store."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    noise = [np.random.default_rng(number).bytes(40_000) for number in range(40)]
    path = tmp_path / "a b.parquet"
    parquet.write_table(arrow.table({"x": list(range(40)), "noise": noise}), path, row_group_size=10)
    store.objects[f"/{BUCKET}/a b.parquet"] = path.read_bytes()
    return path


@pytest.mark.parametrize("unpack_max", [None, 0])
def test_of_parquet_the_wanted_columns_are_read(store: FaultStore, wide: Path, unpack_max: int | None) -> None:
    url = f"{store.url}/{BUCKET}/a%20b.parquet"
    options: dict[str, Any] = {"columns": "x", "unpack_max": unpack_max}
    local, remote = carya.parquet(wide, **options), carya.parquet(url, **options)
    with carya.Loader(local.shuffle(seed=1).batch(4)) as loader:
        batches = iter(loader)
        next(batches)
        state, expected = loader.state_dict(), [batch["x"].tolist() for batch in batches]
    with carya.Loader(remote.shuffle(seed=1).batch(4)) as loader:  # a state of the files goes on in the store
        loader.load_state_dict(state)
        assert [batch["x"].tolist() for batch in loader] == expected
    if unpack_max is None:
        ranges = [headers["range"] for method, _, headers in store.seen if method == "GET"]
        bounds = [[int(number) for number in found.removeprefix("bytes=").split("-")] for found in ranges]
        assert sum(last + 1 - first for first, last in bounds) < wide.stat().st_size / 2
    assert not list(Path(os.environ["CARYA_CACHE_DIR"]).rglob("*.parquet"))


def test_a_row_group_of_parquet_is_one_request(store: FaultStore, wide: Path) -> None:
    rows = carya.parquet(f"{store.url}/{BUCKET}/a%20b.parquet", unpack_max=0)
    before = store.gets
    assert [row["x"] for row in samples(rows)] == list(range(40))
    assert store.gets - before <= 1 + 4  # a footer, and four groups


def test_an_object_of_parquet_that_changes_is_an_error(store: FaultStore, wide: Path) -> None:
    pipeline = carya.parquet(f"{store.url}/{BUCKET}/a%20b.parquet", columns="x")
    store.objects[f"/{BUCKET}/a b.parquet"] = wide.read_bytes()[:-12] + b"x" * 12
    for policy in ("raise", "mask"):
        with (
            pytest.raises(carya.IoError, match=r"a%20b\.parquet.*changed since it was listed"),
            carya.Loader(pipeline.batch(4), on_error=policy) as loader,
        ):
            list(loader)


@pytest.mark.parametrize("policy", ["raise", "mask"])
def test_a_store_that_answers_wrongly_breaks_no_row_of_parquet(store: FaultStore, wide: Path, policy: str) -> None:
    url = f"{store.url}/{BUCKET}/a%20b.parquet"
    rows = carya.parquet(url, columns="x", unpack_max=0)
    store.fault = lambda path, count: "packed"
    with (
        pytest.raises(carya.InvalidArgument, match="the store packs what it sends"),
        carya.Loader(rows.batch(4), on_error=policy) as loader,
    ):
        list(loader)
    for ask in (lambda: rows[25], lambda: carya.parquet(url)):
        with pytest.raises(carya.InvalidArgument, match="the store packs what it sends"):
            ask()
    store.fault = lambda path, count: ""
    assert rows[25]["x"] == 25


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_what_was_an_object_is_read_by_nobody_else(
    store: FaultStore, wide: Path, data: Path, open_folder: Path, umask: int
) -> None:
    everybodys = shutil.copy(wide, open_folder / "everybody's.parquet")
    everybodys.chmod(0o644)

    def kept() -> set[int]:
        files = [path for path in Path(os.environ["CARYA_CACHE_DIR"]).rglob("unpacked-*/*") if path.is_file()]
        return {path.stat().st_mode & 0o777 for path in files}

    before = os.umask(umask)
    try:
        assert carya.parquet(f"{store.url}/{BUCKET}/a%20b.parquet")[1]["x"] == 1
        assert len(carya.jsonl(f"{store.url}/{BUCKET}/lines.jsonl.gz")) == 8  # unpacked from its copy
        assert kept() == {0o600}
        assert carya.parquet(wide)[1]["x"] == 1  # below a folder that is this user's alone
        assert kept() == {0o600}
        assert carya.parquet(everybodys)[1]["x"] == 1
        assert kept() == {0o600, 0o644 & ~umask}
    finally:
        os.umask(before)


@pytest.mark.parametrize("fault", ["503", "reset", "short", "other range"])
def test_what_goes_wrong_now_and_then_changes_no_row_of_parquet(store: FaultStore, wide: Path, fault: str) -> None:
    store.fault = lambda path, count: fault if count % 2 == 1 else ""
    found = samples(carya.parquet(f"{store.url}/{BUCKET}/a%20b.parquet"))
    np.testing.assert_equal(found, samples(carya.parquet(wide)))


def test_an_object_is_copied_once_for_each_version(store: FaultStore) -> None:
    url = f"{store.url}/{BUCKET}/words.txt"
    assert len(carya.text(url)) == 3
    first = store.gets
    assert len(carya.text(url)) == 3
    assert store.gets == first
    store.objects[f"/{BUCKET}/words.txt"] = b"one\ntwo\n"
    assert len(carya.text(url)) == 2
    copies = list(Path(os.environ["CARYA_CACHE_DIR"]).rglob("words.txt"))
    assert len(copies) == 2
    for copy in copies:  # damaged ones are copied anew
        copy.write_bytes(b"o")
    assert len(carya.text(url)) == 2


@pytest.mark.parametrize("fault", ["503", "reset", "short", "other range"])
def test_what_goes_wrong_now_and_then_changes_no_copy(data: Path, store: FaultStore, fault: str) -> None:
    store.fault = lambda path, count: fault if count % 2 == 1 else ""
    remote = carya.npy({"x": f"{store.url}/{BUCKET}/x-{{0..1}}.npy"})
    np.testing.assert_equal(samples(remote), samples(carya.npy({"x": f"{data}/x-{{0..1}}.npy"})))


def test_an_object_that_changes_while_it_is_copied_is_an_error(store: FaultStore) -> None:
    store.fault = lambda path, count: "other etag"
    with pytest.raises(carya.IoError, match=r"words\.txt.*changed since it was listed"):
        carya.text(f"{store.url}/{BUCKET}/words.txt")
    left = {path.name for path in Path(os.environ["CARYA_CACHE_DIR"]).rglob("words.txt*")}
    assert left <= {"words.txt.lock"}


def test_names_that_no_file_can_have_are_refused(store: FaultStore, tmp_path: Path) -> None:
    for name in ("..", "a" * 300 + ".txt"):
        store.objects[f"/{BUCKET}/{name}"] = b"text\n"
        with pytest.raises(carya.InvalidArgument, match="name a file can have"):
            carya.text([f"s3://{BUCKET}/{name}"], endpoint=store.url)


def test_a_folder_of_images_in_a_bucket_is_that_of_the_files(data: Path, store: FaultStore, tmp_path: Path) -> None:
    local = tmp_path / "photos"
    shutil.copytree(data / "photos", local)
    for where in (f"s3://{BUCKET}/photos", f"s3://{BUCKET}/photos/"):
        remote = carya.image_folder(where, endpoint=store.url)
        assert epoch_digest(training(remote)) == epoch_digest(training(carya.image_folder(local)))
        assert remote.class_names == carya.image_folder(local).class_names != []
    for where, said in ((f"s3://{BUCKET}/nothing", "no folder of a class"),):
        with pytest.raises(carya.NotFound, match=said):
            carya.image_folder(where, endpoint=store.url)
    with pytest.raises(carya.Unsupported, match="no listing"):
        carya.image_folder(f"{store.url}/{BUCKET}/photos")


@pytest.fixture
def saved(store: FaultStore, tmp_path: Path) -> Path:
    """A folder as `save_to_disk` writes it; also in the store."""
    arrow = pytest.importorskip("pyarrow")
    folder = tmp_path / "saved"
    folder.mkdir()
    for part in range(2):
        rows = range(5 * part, 5 * part + 5)
        table = arrow.table({"image": [{"bytes": jpeg(n), "path": None} for n in rows], "label": [*rows]})
        with arrow.ipc.new_stream(folder / f"data-{part:05}-of-00002.arrow", table.schema) as writer:
            writer.write_table(table)
    names = [{"filename": f"data-{part:05}-of-00002.arrow"} for part in range(2)]
    (folder / "state.json").write_text(json.dumps({"_data_files": names}))
    (folder / "dataset_info.json").write_text("{}")
    store.objects.update({f"/{BUCKET}/saved/{path.name}": path.read_bytes() for path in folder.iterdir()})
    return folder


def test_a_dataset_of_hugging_face_in_a_store_is_that_of_the_files(store: FaultStore, saved: Path) -> None:
    wanted: dict[str, Any] = {"image": "image", "label": "label"}
    expected = epoch_digest(training(carya.hf_dataset(saved, **wanted)))
    for where, options in (
        (f"s3://{BUCKET}/saved", {"endpoint": store.url}),
        (f"s3://{BUCKET}/saved/", {"endpoint": store.url}),
        (f"{store.url}/{BUCKET}/saved", {}),
    ):
        assert epoch_digest(training(carya.hf_dataset(where, **wanted, **options))) == expected
    opened = carya.open(f"s3://{BUCKET}/saved/", endpoint=store.url, **wanted)
    assert epoch_digest(training(opened)) == expected
    assert not list(Path(os.environ["CARYA_CACHE_DIR"]).rglob("*.arrow"))
    url = at_endpoint(f"s3://{BUCKET}/saved/", store.url)
    here = open_records(str(saved)).records
    for partly in (True, False):
        there = open_records(url, partly=partly).records
        assert (there.kind, len(there)) == ("hf_dataset", 10)
        np.testing.assert_equal([there.read(n) for n in range(10)], [here.read(n) for n in range(10)])


def test_what_is_no_dataset_of_hugging_face_in_a_store_is_told(store: FaultStore, saved: Path) -> None:
    def ask(folder: str, **options: Any) -> None:
        carya.hf_dataset(f"s3://{BUCKET}/{folder}", image="image", endpoint=store.url, **options)

    with pytest.raises(carya.NotFound, match=r"nothing has no state\.json; give a folder that save_to_disk wrote"):
        ask("nothing")
    with pytest.raises(carya.InvalidArgument, match=r"got 's3://.*saved,nothing\}'; give the URL of one folder"):
        ask("{saved,nothing}")
    store.objects[f"/{BUCKET}/hub/train-0.parquet"] = b"PAR1"
    with pytest.raises(carya.NotFound, match=r"hub has no state\.json, but Parquet files; call carya\.parquet"):
        ask("hub")
    store.objects[f"/{BUCKET}/splits/dataset_dict.json"] = b'{"splits": ["train"]}'
    with pytest.raises(carya.InvalidArgument, match="one of its splits"):
        ask("splits")
    for said in (b"{}", b'{"_data_files": [{"filename": "../a"}]}', b'{"_data_files": [{"filename": "a?b"}]}'):
        store.objects[f"/{BUCKET}/saved/state.json"] = said
        with pytest.raises(carya.InvalidArgument, match=r"state\.json"):
            ask("saved")
    store.fault = lambda path, count: "packed"
    with pytest.raises(carya.InvalidArgument, match="packs what it sends"):
        ask("saved")
    with pytest.raises(carya.InvalidArgument, match="endpoint"):
        carya.hf_dataset(saved, image="image", endpoint=store.url)
