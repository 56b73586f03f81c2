"""Rows and pictures in files that readers in Python look through, behind URLs: read natively by ranges, with no copy of a file."""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import running
from store_data import BUCKET, forget_credentials, jpeg, objects_of
from stores import FaultStore
from streams import epoch_digest
from test_beton import stored
from test_litdata import KINDS, same
from test_litdata import stored as stored_chunks
from test_npy_native import read_on

import carya
from carya._records.opening import open_records
from carya._sources.stores import at_endpoint

ROWS = 60


def write_h5(folder: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "rows.h5", "w") as file:
        rng = np.random.default_rng(1)
        file["deep/x"] = rng.integers(0, 99, (ROWS, 7), np.int16)
        file.create_dataset("chunked", data=rng.random((ROWS, 300)).astype(np.float32), chunks=(8, 300))
        file["label"] = np.arange(ROWS)


def write_lmdb(folder: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(folder / "pictures.lmdb"), map_size=64 << 20) as env, env.begin(write=True) as transaction:
        for number in range(ROWS):
            transaction.put(b"%05d" % number, jpeg(number))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / BUCKET
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part in range(2):
        rows = ROWS // 2
        np.save(folder / f"x-{part}.npy", rng.integers(0, 255, (rows, 11, 3), np.uint8))
        np.save(folder / f"y-{part}.npy", np.arange(rows) + 100 * part)
        np.arange(900 + 7 * part, dtype=np.uint16).tofile(folder / f"ids-{part}.bin")
        np.savez(folder / f"both-{part}.npz", x=rng.random((rows, 5)).astype(np.float32), label=np.arange(rows))
    return folder


@pytest.fixture
def store(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultStore]:
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    with FaultStore(objects_of(data)) as running_store:
        yield running_store


def npy(where: str, **options: Any) -> carya.Pipeline:
    files = {"x": f"{where}/x-{{0..1}}.npy", "label": f"{where}/y-{{0..1}}.npy"}
    return carya.npy(files, native=True, **options)


def npz(where: str, **options: Any) -> carya.Pipeline:
    return carya.npz(f"{where}/both-*.npz", native=True, **options)


def hdf5(where: str, **options: Any) -> carya.Pipeline:
    wanted = {"x": "deep/x", "y": "chunked", "label": "label"}
    return carya.hdf5(f"{where}/rows.h5", wanted, native=True, **options)


def token_blocks(where: str, **options: Any) -> carya.Pipeline:
    return carya.token_blocks(f"{where}/ids-*.bin", 33, stride=32, native=True, **options)


def lmdb(where: str, **options: Any) -> carya.Pipeline:
    return carya.lmdb(f"{where}/pictures.lmdb/", image="value", label=int, **options).decode_image().resize((8, 8))


def beton(where: str, **options: Any) -> carya.Pipeline:
    return carya.beton(f"{where}/all.beton", image="photo", label="label", **options).decode_image().resize((8, 8))


def ready(folder: Path, source: Callable[..., Any]) -> None:
    """What the source reads, made once."""
    if source is hdf5 and not (folder / "rows.h5").exists():
        write_h5(folder)
    if source is lmdb and not (folder / "pictures.lmdb").exists():
        write_lmdb(folder)
    if source is beton and not (folder / "all.beton").exists():
        stored(folder)


@pytest.mark.parametrize("source", [npy, npz, hdf5, token_blocks, lmdb, beton], ids=lambda source: source.__name__)
def test_what_is_read_by_ranges_is_what_the_files_give(
    data: Path, store: FaultStore, source: Callable[..., carya.Pipeline]
) -> None:
    ready(data, source)
    store.objects.update(objects_of(data))
    local = source(str(data)).shuffle(seed=2).batch(4)
    remote = source(f"s3://{BUCKET}", endpoint=store.url).shuffle(seed=2).batch(4)
    assert len(local) > 2
    assert epoch_digest(remote) == epoch_digest(local)
    with carya.Loader(local) as loader:
        batches = iter(loader)
        next(batches)
        state, expected = loader.state_dict(), [batch.records.tolist() for batch in batches]
    with carya.Loader(remote) as loader:  # a state of the files goes on in the store
        loader.load_state_dict(state)
        assert [batch.records.tolist() for batch in loader] == expected
    kept = [path for path in (Path(os.environ["CARYA_CACHE_DIR"])).rglob("*") if path.is_file()]
    assert not [path for path in kept if path.suffix in (".npy", ".npz", ".h5", ".mdb", ".beton")]


def test_pictures_and_rows_are_asked_for_by_ranges_of_them_alone(data: Path, store: FaultStore) -> None:
    ready(data, lmdb)
    store.objects.update(objects_of(data))
    pipeline = lmdb(f"s3://{BUCKET}", endpoint=store.url)
    asked = len(store.seen)
    for index in (3, 40):
        assert pipeline[index]["label"] == index
    ranges = [headers["range"] for method, _, headers in store.seen[asked:] if method == "GET"]
    bounds = [[int(number) for number in found.removeprefix("bytes=").split("-")] for found in ranges]
    wanted = [len(jpeg(index)) for index in (3, 40)]
    assert [last + 1 - first for first, last in bounds] == wanted


@pytest.mark.parametrize("policy", ["raise", "mask"])
def test_an_object_that_changes_is_an_error(data: Path, store: FaultStore, policy: str) -> None:
    pipeline = npy(f"s3://{BUCKET}", endpoint=store.url).batch(4)
    key = f"/{BUCKET}/x-1.npy"
    before = store.objects[key]
    store.objects[key] = before[:-1] + bytes([before[-1] ^ 1])
    with pytest.raises(carya.IoError, match=r"x-1\.npy: it was written to since it was listed; make the pipeline anew"):
        carya.Loader(pipeline, on_error=policy)
    store.objects[key] = before
    with carya.Loader(pipeline, on_error=policy, epochs=50) as loader:
        next(iter(loader))
        store.objects[key] = before + b"x"
        with pytest.raises(carya.IoError, match=r"x-1\.npy"):
            read_on(loader)


@pytest.mark.parametrize("fault", ["503", "reset", "short", "other range"])
def test_what_goes_wrong_now_and_then_changes_no_row(data: Path, store: FaultStore, fault: str) -> None:
    ready(data, hdf5)
    store.objects.update(objects_of(data))
    store.fault = lambda path, count: fault if count % 2 == 1 else ""
    for source in (npz, hdf5):
        remote = source(f"s3://{BUCKET}", endpoint=store.url).batch(8)
        assert epoch_digest(remote) == epoch_digest(source(str(data)).batch(8))


def test_what_a_store_refuses_is_its_error_and_no_damage_of_the_file(data: Path, store: FaultStore) -> None:
    ready(data, hdf5)
    store.objects.update(objects_of(data))
    store.fault = lambda path, count: "packed"
    for source in (npy, npz, hdf5, token_blocks):
        with pytest.raises(carya.InvalidArgument, match="the store packs what it sends"):
            source(f"s3://{BUCKET}", endpoint=store.url)
    store.fault = lambda path, count: ""
    (key,) = [key for key in store.objects if key.endswith("rows.h5")]
    store.objects[key] = store.objects[key][:3000]
    with pytest.raises(carya.SampleError, match=r"hdf5: .*rows\.h5: .*copy it again if it was cut off"):
        hdf5(f"s3://{BUCKET}", endpoint=store.url)


@pytest.mark.parametrize("source", [npy, npz, hdf5, token_blocks, lmdb, beton], ids=lambda source: source.__name__)
def test_what_a_store_refuses_at_any_request_is_its_error(
    data: Path, store: FaultStore, source: Callable[..., carya.Pipeline]
) -> None:
    ready(data, source)
    store.objects.update(objects_of(data))
    told: list[carya.Error] = []
    for fault, turn in [*(("packed", turn) for turn in range(1, 7)), ("403", 1), ("403", 2)]:
        store.gets = 0
        store.fault = lambda path, count, fault=fault, turn=turn: fault if count >= turn else ""  # type: ignore[misc]
        try:
            source(f"s3://{BUCKET}", endpoint=store.url)
        except carya.Error as error:
            told.append(error)
    assert told
    assert not [error for error in told if isinstance(error, carya.SampleError)]
    assert all(re.search("403|packs what it sends", str(error)) for error in told)


@pytest.mark.parametrize("fault", ["packed", ""])
def test_an_error_that_nobody_catches_ends_the_process_in_order(data: Path, store: FaultStore, fault: str) -> None:
    """h5py frees what the frames of a traceback hold when the interpreter is gone."""
    ready(data, hdf5)
    store.objects[f"/{BUCKET}/cut.h5"] = (data / "rows.h5").read_bytes()[:3000]
    store.fault = lambda path, count: fault
    code = f"import carya; carya.hdf5('{store.url}/{BUCKET}/cut.h5', native=True)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, "cut.h5" in ran.stderr) == (1, True), ran.stderr


def test_a_daemon_reads_them_with_what_its_client_lends(data: Path, store: FaultStore) -> None:
    local, remote = npz(str(data)).batch(6), npz(f"s3://{BUCKET}", endpoint=store.url).batch(6)
    with running() as daemon:
        assert epoch_digest(remote, daemon=daemon.socket) == epoch_digest(local)
        store.objects[f"/{BUCKET}/both-0.npz"] += b"x"
        with pytest.raises(carya.IoError, match=r"both-0\.npz: it was written to since it was listed"):
            carya.Loader(remote, daemon=daemon.socket)


def test_files_of_several_buckets_are_refused(data: Path, store: FaultStore) -> None:
    store.objects.update({key.replace(BUCKET, "another"): value for key, value in store.objects.items()})
    with pytest.raises(carya.InvalidArgument, match="different places"):
        carya.Loader(
            carya.npy(
                [f"s3://{where}/x-0.npy" for where in (BUCKET, "another")], native=True, endpoint=store.url
            ).batch(2)
        )


@pytest.mark.parametrize("kind", [*KINDS, "rows", "rows_zstd"])
def test_chunks_of_litdata_are_read_from_a_store(store: FaultStore, tmp_path: Path, kind: str) -> None:
    local = stored_chunks(kind, tmp_path)
    store.objects.update({f"/{BUCKET}/{kind}/{path.name}": path.read_bytes() for path in local.iterdir()})
    url = f"s3://{BUCKET}/{kind}/"
    remote = carya.open(url, endpoint=store.url)
    files = carya.litdata(local)
    assert len(remote) == len(files) > 2
    assert all(same(remote[n], files[n]) for n in (3, 0, len(files) - 1))
    opened = open_records(at_endpoint(url, store.url), partly=True).records
    assert (len(opened), same(opened.read(1), files.map_style[1])) == (len(files), True)
    assert len(carya.litdata(f"{store.url}/{BUCKET}/{kind}")) == len(files)  # a server without listings
    chunk = next(key for key in store.objects if key.startswith(f"/{BUCKET}/{kind}/chunk"))
    del store.objects[chunk]
    with pytest.raises(carya.NotFound, match=r"chunk-.*index\.json names it"):
        carya.litdata(url, endpoint=store.url)


def test_blocks_of_litdata_are_read_natively_from_a_store(store: FaultStore, tmp_path: Path) -> None:
    local = stored_chunks("tokens", tmp_path)
    store.objects.update({f"/{BUCKET}/tokens/{path.name}": path.read_bytes() for path in local.iterdir()})
    url = f"s3://{BUCKET}/tokens"
    with pytest.raises(carya.Unsupported, match="give native=True"):
        carya.litdata(url, block=4, endpoint=store.url)
    remote = carya.litdata(url, block=4, native=True, endpoint=store.url)
    files = carya.litdata(local, block=4)
    assert len(remote) == len(files)
    for n in (0, 7, len(files) // 2, len(files) - 1):
        assert remote[n]["ids"].tolist() == files[n]["ids"].tolist()
    with pytest.raises(carya.InvalidArgument, match="True beside block= only"):
        carya.litdata(local, native=True)


def test_what_a_store_refuses_breaks_no_sample_of_litdata(store: FaultStore, tmp_path: Path) -> None:
    local = stored_chunks("whole", tmp_path)
    store.objects.update({f"/{BUCKET}/whole/{path.name}": path.read_bytes() for path in local.iterdir()})
    samples = carya.litdata(f"s3://{BUCKET}/whole", endpoint=store.url).map_style
    for fault, error in (
        ("packed", carya.InvalidArgument),
        ("403", carya.Permission),
        ("other etag", carya.IoError),
    ):
        store.fault = lambda path, count, fault=fault: fault  # type: ignore[misc]
        with pytest.raises(error):
            samples[0]
    store.fault = lambda path, count: ""
    assert same(samples[0], carya.litdata(local).map_style[0])


class Closed(FaultStore):
    """A store that lets nobody list: it says "forbidden" of what there is not."""

    def refuses(self, request: http.server.BaseHTTPRequestHandler) -> bool:
        path = request.path.partition("?")[0]
        return path not in self.objects or super().refuses(request)


def test_who_may_not_list_a_bucket_reads_what_it_may(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    local = stored_chunks("raw", tmp_path)
    objects = objects_of(data) | {f"/{BUCKET}/raw/{path.name}": path.read_bytes() for path in local.iterdir()}
    with Closed(objects) as store:
        url = f"s3://{BUCKET}/ids-0.bin"
        with pytest.raises(carya.Permission, match=r"ids-0\.idx: it may say what the ids are.*give dtype="):
            carya.token_blocks(url, 10, native=True, endpoint=store.url)
        blocks = carya.token_blocks(url, 10, dtype="uint16", native=True, endpoint=store.url)
        assert blocks[2]["ids"].tolist() == list(range(20, 30))
        samples = carya.litdata(f"s3://{BUCKET}/raw", endpoint=store.url).map_style
        assert same(samples[3], carya.litdata(local).map_style[3])


def test_blocks_of_ids_have_the_dtype_of_their_files(tmp_path: Path) -> None:
    ids = np.arange(1000, dtype=np.uint16)
    ids.tofile(tmp_path / "a.bin")
    np.save(tmp_path / "b.npy", ids.astype(np.int64))
    old, new = (carya.token_blocks(tmp_path / "a.bin", 65, stride=64, native=native) for native in (False, True))
    assert new.outputs == [("ids", "uint16", (65,))]
    assert [row["ids"].tolist() for row in (new[n] for n in range(len(new)))] == [
        old[n]["ids"].tolist() for n in range(len(old))
    ]
    with carya.Loader(new.shuffle(seed=1).batch(4)) as loader:
        assert sorted(int(row[0]) for batch in loader for row in batch["ids"]) == [64 * n for n in range(len(new))]
    with pytest.raises(carya.InvalidArgument, match=r"native=True: its ids are <u2 or <i8; give files with ids of one"):
        carya.token_blocks(tmp_path, 10, native=True)


@pytest.mark.usefixtures("store")
def test_blocks_of_ids_behind_urls_are_read_natively_only(data: Path, store: FaultStore) -> None:
    with pytest.raises(carya.Unsupported, match=r"ids-0\.bin: worker processes map files; give native=True"):
        carya.token_blocks(f"s3://{BUCKET}/ids-0.bin", 8, endpoint=store.url)
    tokens = np.array([1, 70_000, 5], np.uint32)
    store.objects[f"/{BUCKET}/index.json"] = b'{"format": "carya tokens 1", "dtype": "uint32"}'
    store.objects[f"/{BUCKET}/t.bin"] = tokens.tobytes()
    found = carya.token_blocks(f"s3://{BUCKET}/t.bin", 3, native=True, endpoint=store.url)
    assert found[0]["ids"].tolist() == tokens.tolist()
    store.fault = lambda path, count: "packed" if path.endswith("index.json") else ""
    with pytest.raises(carya.InvalidArgument, match="packs what it sends"):  # never taken for uint16
        carya.token_blocks(f"s3://{BUCKET}/t.bin", 3, native=True, endpoint=store.url)


def test_a_database_in_a_store_is_known_and_looked_at_without_a_copy(data: Path, store: FaultStore) -> None:
    ready(data, lmdb)
    store.objects.update({key: b"" if key.endswith("lock.mdb") else value for key, value in objects_of(data).items()})
    for where in ("pictures.lmdb/", "pictures.lmdb/data.mdb"):
        url = f"s3://{BUCKET}/{where}"
        assert carya.open(url, endpoint=store.url, image="value").outputs[0][0] == "image"
        opened = open_records(at_endpoint(url, store.url), partly=True)
        assert len(opened.records) == ROWS
        assert opened.records.read(5)["value"] == jpeg(5)
    assert not list(Path(os.environ["CARYA_CACHE_DIR"]).rglob("*.mdb"))


def test_an_empty_value_is_a_broken_record_wherever_it_lies(data: Path, store: FaultStore, tmp_path: Path) -> None:
    library = pytest.importorskip("lmdb")
    with library.open(str(tmp_path / "texts"), map_size=1 << 20) as env, env.begin(write=True) as transaction:
        for key, value in ((b"a", b"one"), (b"b", b""), (b"c", b"three")):
            transaction.put(key, value)
    store.objects[f"/{BUCKET}/data.mdb"] = (tmp_path / "texts" / "data.mdb").read_bytes()
    for source in (
        carya.lmdb(tmp_path / "texts", encoded={"text": "value"}),
        carya.lmdb(f"s3://{BUCKET}/data.mdb", encoded={"text": "value"}, endpoint=store.url),
    ):
        pipeline = source.map(bytes, fields="text").batch(3, lists=["text"])
        with carya.Loader(pipeline, threads=1, epochs=1, on_error="mask") as loader:
            (batch,) = loader
            assert batch.valid.tolist() == [True, False, True]
            assert [batch["text"][n] for n in (0, 2)] == [b"one", b"three"]
