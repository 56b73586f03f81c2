"""Records at addresses that a reader found: values of LMDB databases and images of FFCV's files on the native path."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import daemons
import numpy as np
import pytest
import workers
from conftest import picture
from PIL import Image
from streams import check_resume, digest, epoch_digest
from test_beton import stored
from test_remote import at, read_until_remote

import carya
from carya._containers.ranges import Ranges
from carya._formats.addresses import at_addresses, record_name
from carya._formats.kept import look_at

lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed")
COUNT = 23
# By who looks first: the reads, which look once a second, or what looks behind each of them.
CHANGED = r"it was written to since it was listed|it changed (since it was listed|while it was read)"


def encoded(number: int, kind: str = "JPEG") -> bytes:
    """A picture that lies in a leaf page (a small PNG) or in pages of its own."""
    side = (9, 20) if kind == "PNG" else (60 + number, 70)
    buffer = io.BytesIO()
    Image.fromarray(picture(number, *side)).save(buffer, kind)
    return buffer.getvalue()


def value(number: int) -> bytes:
    return encoded(number, "PNG" if number % 4 == 0 else "JPEG")


def key(number: int) -> bytes:
    return b"%03d.jpg" % number


def put(path: Path, values: dict[bytes, bytes], name: bytes | None = None, **options: Any) -> Path:
    with lmdb.open(str(path), max_dbs=2, map_size=8 << 20, **options) as env:
        database = None if name is None else env.open_db(name)
        with env.begin(write=True, db=database) as transaction:
            for one, content in values.items():
                transaction.put(one, content)
    return path


def label_of(one: bytes) -> int:
    return int(one[:3]) % 5


@pytest.fixture(scope="module")
def values() -> dict[bytes, bytes]:
    return {key(n): value(n) for n in range(COUNT)}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, values: dict[bytes, bytes]) -> Path:
    return put(tmp_path_factory.mktemp("lmdb") / "train", values)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, values: dict[bytes, bytes]) -> list[Path]:
    """The same pictures as files of a folder."""
    folder = tmp_path_factory.mktemp("files")
    for one, content in values.items():
        (folder / one.decode()).write_bytes(content)
    return sorted(folder.iterdir())


def native(path: Any, **options: Any) -> carya.Pipeline:
    return carya.lmdb(path, image="value", label=label_of, **options)


def chain(source: carya.Pipeline, **batch: Any) -> carya.Pipeline:
    return source.shuffle(seed=3).decode_image().random_resized_crop(24).batch(**(batch or {"global_size": 6}))


def of_files(files: list[Path], **batch: Any) -> carya.Pipeline:
    return chain(carya.files(files, labels=[label_of(file.name.encode()) for file in files]), **batch)


def test_values_are_those_that_a_function_decodes(database: Path, values: dict[bytes, bytes]) -> None:
    def decoded(content: bytes) -> Any:
        return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))

    old = carya.lmdb(database).map(decoded, fields="value")
    new = native(database).decode_image()
    assert len(old) == len(new) == COUNT
    for n in random.Random(1).sample(range(COUNT), COUNT):
        assert np.array_equal(new[n]["image"], old[n]["value"])
        assert new[n]["label"] == n % 5
    dataset = native(database).open()
    data = (database / "data.mdb").read_bytes()
    offsets = set()
    for n in range(COUNT):
        address = dataset.address(n)
        assert address["path"] == str(database / "data.mdb")
        assert address["member"] == f"#{n} {key(n)!r}"
        begin = address["offset"]
        assert data[begin : begin + address["bytes"]] == values[key(n)]
        offsets.add(begin % 4096 == 16)
    assert offsets == {True, False}  # pages of their own, and places inside of leaf pages


def test_threads_ranks_states_and_the_daemon_change_no_bit(database: Path, files: list[Path]) -> None:
    wanted = epoch_digest(of_files(files), epochs=2)
    pipeline = chain(native(database))
    assert epoch_digest(pipeline, epochs=2) == wanted
    assert epoch_digest(pickle.loads(pickle.dumps(pipeline)), epochs=2, threads=3, slots=2) == wanted
    assert epoch_digest(pipeline, epochs=2, io_engine="pread", threads=1) == wanted
    for rank in range(2):
        options = {"rank": rank, "world_size": 2}
        assert epoch_digest(pipeline, **options) == epoch_digest(of_files(files), **options)
    with carya.Loader(of_files(files)) as loader:
        check_resume(pipeline, [carya.Batch({k: np.array(v) for k, v in b.items()}, like=b) for b in loader])
    with daemons.running() as daemon:
        assert epoch_digest(pipeline, epochs=2, daemon=daemon.socket) == wanted
        relative = native(os.path.relpath(database))  # the daemon is somewhere else
        assert epoch_digest(chain(relative), epochs=2, daemon=daemon.socket) == wanted


def test_functions_and_views_follow(database: Path, files: list[Path]) -> None:
    def negative(image: Any) -> Any:
        return 255 - image

    def made(source: carya.Pipeline) -> carya.Pipeline:
        return source.subset(range(3, 19)).shuffle(seed=1).decode_image().resize((16, 16)).map(negative, fields="image")

    sources = native(database), carya.files(files, labels=[label_of(file.name.encode()) for file in files])
    assert len({epoch_digest(made(source).batch(4), threads=2) for source in sources}) == 1


def test_several_databases_named_ones_and_fields(tmp_path: Path, values: dict[bytes, bytes]) -> None:
    put(tmp_path / "a", values, b"inner")
    half = dict(list(values.items())[:9])
    put(tmp_path / "b", half, b"inner")
    pipeline = native([tmp_path / "a", tmp_path / "b" / "data.mdb"], name="inner").decode_image()
    assert len(pipeline) == COUNT + 9
    assert np.array_equal(pipeline[COUNT + 5]["image"], pipeline[5]["image"])
    two = carya.lmdb(tmp_path / "a", name=b"inner", encoded={"one": "value", "two": "value"})
    assert [name for name, _, _ in two.outputs] == ["one", "two"]
    got = two.decode_image()[3]
    assert np.array_equal(got["one"], got["two"])
    with pytest.raises(carya.InvalidArgument, match=r"that of a database inside, such as b'inner'"):
        native(tmp_path / "a")
    with pytest.raises(carya.InvalidArgument, match="name of a database that is there"):
        native(tmp_path / "a", name="none")
    with lmdb.open(str(tmp_path / "many"), max_dbs=2) as env, env.begin(write=True) as transaction:
        transaction.put(b"k", b"v", db=env.open_db(b"many", transaction, dupsort=True))
    with pytest.raises(carya.Unsupported, match="several values per key"):
        native(tmp_path / "many", name=b"many")
    with pytest.raises(carya.InvalidArgument, match="databases with at least one entry"):
        native(put(tmp_path / "empty", {}))
    with pytest.raises(carya.InvalidArgument, match='give "value"'):
        carya.lmdb(tmp_path / "a", image="key")
    with pytest.raises(carya.InvalidArgument, match='beside image="value"'):
        carya.lmdb(tmp_path / "a", label=label_of)
    with pytest.raises(
        carya.InvalidArgument, match=r"label of b'000.jpg' in .*: got 'cat'; give an integer of 64 bits"
    ):
        carya.lmdb(tmp_path / "a", name="inner", image="value", label=lambda one: "cat")  # type: ignore[arg-type, return-value]


def test_damaged_pictures_are_entries_with_file_key_and_offset(tmp_path: Path, values: dict[bytes, bytes]) -> None:
    broken = {**values, key(4): b"", key(5): values[key(5)][:200], key(7): b"no picture" * 999}
    path = put(tmp_path, broken)
    pipeline = native(path).decode_image().resize((8, 8)).batch(COUNT)
    with carya.Loader(pipeline, on_error="mask") as loader:
        batch = next(iter(loader))
        assert [n for n in range(COUNT) if not batch.valid[n]] == [4, 5, 7]
        entries = {entry["record"]: entry for entry in loader.quarantine()}
    for n in (4, 5, 7):
        assert entries[n]["path"] == str(path / "data.mdb")
        assert entries[n]["member"] == f"#{n} {key(n)!r}"
        at_ = entries[n]["offset"]
        assert (path / "data.mdb").read_bytes()[at_:].startswith(broken[key(n)])


def gather(items: Iterator[str], into: list[str]) -> None:
    """What comes before an error stays there."""
    for item in items:
        into.append(item)


def read_on(loader: carya.Loader) -> None:
    for _ in range(100):
        for _ in loader:
            pass


def other(values: dict[bytes, bytes], turn: int) -> dict[bytes, bytes]:
    """Pictures of other records under the same keys, of the same sizes."""
    names = [name for name in values if int(name[:3]) % 4]
    return {name: values[names[(i + turn) % len(names)]] for i, name in enumerate(names)}


@pytest.mark.parametrize("mapped", [False, True])
def test_a_writer_is_noticed_and_no_batch_is_of_another_transaction(
    tmp_path: Path, values: dict[bytes, bytes], mapped: bool
) -> None:
    options: dict[str, Any] = {"writemap": mapped, "sync": not mapped, "map_async": mapped}
    path = put(tmp_path / "db", values, **options)
    with lmdb.open(str(path), map_size=8 << 20, **options) as env:
        pipeline = chain(native(path))
        with carya.Loader(pipeline, epochs=3) as loader:
            wanted = [digest([batch]) for _ in range(3) for batch in loader]

        def batches() -> Iterator[str]:
            with carya.Loader(pipeline, epochs=3, slots=2, threads=1, io_timeout=0.2) as loader:
                for epoch in range(3):
                    for step, batch in enumerate(loader):
                        if (epoch, step) >= (0, 1):
                            for turn in range(3):  # freed pages are used again two transactions later
                                with env.begin(write=True) as transaction:
                                    for one, content in other(values, turn + 1).items():
                                        transaction.put(one, content)
                        yield digest([batch])

        got: list[str] = []
        with pytest.raises(carya.IoError, match=CHANGED):
            gather(batches(), got)
        assert 1 <= len(got) < len(wanted)
        assert got == wanted[: len(got)]
        with pytest.raises(carya.IoError, match="it was written to since it was listed; make the pipeline anew"):
            next(iter(carya.Loader(pickle.loads(pickle.dumps(pipeline)))))
    new = native(path).decode_image()
    shown = np.asarray(Image.open(io.BytesIO(other(values, 3)[key(1)])).convert("RGB"))
    assert np.array_equal(new[1]["image"], shown)


def test_a_transaction_that_changes_no_time_and_no_size_is_noticed_by_its_number(
    tmp_path: Path, values: dict[bytes, bytes]
) -> None:
    path = put(tmp_path / "db", values, writemap=True)  # its file has the size of the map from the beginning
    name = path / "data.mdb"
    os.utime(name, ns=(10**18, 10**18))
    pipeline = native(path).decode_image().resize((8, 8)).batch(4)
    wanted = native(path).decode_image()[1]["image"]
    before = look_at("lmdb", str(name))
    with carya.Loader(pipeline, epochs=None, slots=2, threads=1, io_timeout=0.2) as loader:
        stream = iter(loader)
        next(stream)
        put(path, {key(1): values[key(2)]}, writemap=True)
        os.utime(name, ns=(10**18, 10**18))
        assert look_at("lmdb", str(name)) == before
        with pytest.raises(carya.IoError, match="it was written to since it was listed"):
            read_on(loader)
    with pytest.raises(carya.IoError, match="it was written to since it was listed"):
        pipeline[1]
    assert not np.array_equal(native(path).decode_image()[1]["image"], wanted)


def test_samples_kept_of_one_transaction_are_not_taken_for_those_of_another(tmp_path: Path) -> None:
    """The new picture has the key, place, size and time of the old one."""
    path, name = tmp_path / "db", tmp_path / "db" / "data.mdb"
    pictures = [encoded(n).ljust(9000, b"\0") for n in range(4)]

    def written(change: dict[bytes, bytes]) -> carya.Pipeline:
        put(path, change, writemap=True)
        os.utime(name, ns=(10**18, 10**18))
        return native(path).decode_image().resize((16, 16)).batch(4)

    def rows(pipeline: carya.Pipeline, cache: Any) -> bytes:
        with carya.Loader(pipeline, threads=1, cache=cache) as loader:
            found = b"".join(np.asarray(batch["image"]).tobytes() for batch in loader)
            if cache != "off":
                daemons.until(lambda: loader.stats()["cache"]["files"][0]["written"] >= len(missing))
        return found

    cache = {"disk": (tmp_path / "tier", "64MB")}
    missing = list(range(4))
    pipeline = written({key(n): pictures[n] for n in range(4)})
    before, first = pipeline.open().address(1), rows(pipeline, cache)
    for turn in range(20):
        pipeline = written({key(1): pictures[turn % 3 + 1 if turn % 3 else 0]})
        if turn % 3 != 0 and pipeline.open().address(1) == before:
            break
    assert pipeline.open().address(1) == before
    missing = []
    assert rows(pipeline, cache) == rows(pipeline, "off") != first


def test_a_database_that_is_replaced_gives_the_old_stream_or_an_error(
    tmp_path: Path, values: dict[bytes, bytes]
) -> None:
    path = put(tmp_path / "db", values)
    put(tmp_path / "next", dict(zip(values, reversed(values.values()), strict=True)))
    pipeline = chain(native(path))
    with carya.Loader(pipeline, epochs=2) as loader:
        wanted = [digest([batch]) for _ in range(2) for batch in loader]
        state = loader.state_dict()
    got = []
    with (
        contextlib.suppress(carya.IoError),
        carya.Loader(pipeline, epochs=2, slots=2, threads=1, io_timeout=0.2) as loader,
    ):
        for _ in range(2):
            for batch in loader:
                got.append(digest([batch]))
                if len(got) == 1:
                    os.replace(tmp_path / "next" / "data.mdb", path / "data.mdb")
    assert got == wanted[: len(got)]
    with pytest.raises(carya.IoError, match="it was written to since it was listed"):
        next(iter(carya.Loader(pickle.loads(pickle.dumps(pipeline)))))
    with carya.Loader(chain(native(path))) as loader, pytest.raises(carya.InvalidArgument, match="dataset"):
        loader.load_state_dict(state)


def test_a_worker_is_sent_records_and_no_addresses_where_it_could_not_see_a_writer(
    database: Path, files: list[Path]
) -> None:
    wanted = epoch_digest(of_files(files))
    options: dict[str, Any] = {"placement": "remote:1", "threads": 1}
    started = workers.running("--root", "/")
    with started as worker, carya.Loader(chain(native(database)), remote=at(worker), **options) as loader:
        assert read_until_remote(loader) == wanted
        assert not any("reads records itself" in line for line in loader.placement()["events"])


def test_any_bytes_are_records_or_an_error(tmp_path: Path, database: Path) -> None:
    whole = (database / "data.mdb").read_bytes()
    path = tmp_path / "data.mdb"
    for content in (b"", b"<html>" * 9999, whole[:100], whole[:4200], whole[:8192], whole[: len(whole) // 2 & -4096]):
        path.write_bytes(content)
        with pytest.raises(carya.SampleError, match=r"lmdb: .*data\.mdb: "):
            native(path)
    path.write_bytes(whole[:20] + struct.pack("<I", 2) + whole[24:])
    with pytest.raises(carya.Unsupported, match=r"the version of its format is 2; write it by LMDB 0\.9"):
        native(path)
    pages = [n for n in range(0, len(whole), 4096) if struct.unpack_from("<H", whole, n + 10)[0] & 3]
    assert pages  # of the tree
    draw = random.Random(1)
    errors = 0
    for _ in range(120):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            begin = draw.choice([0, 4096, *pages * 3])
            data[begin + draw.randrange(draw.choice((16, 160, 4096)))] = draw.choice((0, 255, draw.randrange(256)))
        path.write_bytes(data)
        try:
            found = carya.lmdb(path, image="value").open()
            for n in range(min(found.count, COUNT)):
                address = found.address(n)
                assert address["offset"] + address["bytes"] <= len(whole)
        except (carya.SampleError, carya.Unsupported, carya.InvalidArgument, carya.IoError):
            errors += 1
    assert errors > 10


def test_addresses_that_lie_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(100))
    listed = look_at("test", str(path))

    def opened(place: list[int], name: bytes = b"#0", **options: Any) -> Any:
        return at_addresses("test", [listed], ["image"], np.array([[place]]), np.array([name]), **options).open()

    assert opened([0, 40, 60]).address(0)["bytes"] == 60
    for place, wanted in (
        ([1, 0, 1], "file 1; give 0 to 0"),
        ([0, 40, 61], "61 B at 40, and .* has 100 B"),
        ([0, 101, 0], "0 B at 101, and"),
        ([0, 2**64 - 1, 2], "2 B at 18446744073709551615, and"),
    ):
        with pytest.raises(carya.InvalidArgument, match=wanted):
            opened(np.array(place, np.uint64))  # type: ignore[arg-type]
    with pytest.raises(carya.InvalidArgument, match="record 0 has no name"):
        opened([0, 0, 1], b"\0")
    with pytest.raises(carya.IoError, match="it was written to since it was listed"):
        opened([0, 0, 1], marks=[(0, 7)])
    with pytest.raises(carya.IoError, match="it was cut off"):
        opened([0, 0, 1], marks=[(96, 0)])
    text = at_addresses("test", [listed], ["image"], np.array([[[0, 0, 1]]]), np.array([b"#0"])).to_json()
    with pytest.raises(
        carya.InvalidArgument, match=r"does not say where the records lie; make the pipeline by carya\.test"
    ):
        carya.Pipeline.from_json(text).open()
    memory: dict[str, Any] = {"places": np.array([[0, 0, 1]], np.uint64), "names": np.array([[35, 48]], np.uint8)}
    assert carya.Pipeline.from_json(text, arrays=memory).open().count == 1
    with pytest.raises(carya.InvalidArgument, match="are not those of the document"):
        carya.Pipeline.from_json(text, arrays={**memory, "places": np.array([[0, 1, 1]], np.uint64)})
    assert len(record_name(5, b"k" * 900)) == 64


def photos_of_beton(path: Path) -> carya.Pipeline:
    return carya.beton(path, image="photo", label="label")


def test_images_of_beton_files_are_read_natively(tmp_path: Path) -> None:
    path = stored(tmp_path)
    shutil.copy(path, tmp_path / "b.beton")
    old, new = carya.beton([path, tmp_path / "b.beton"]), photos_of_beton(tmp_path).decode_image()  # type: ignore[arg-type]
    assert len(old) == len(new) == 24
    for n in range(24):
        assert np.array_equal(new[n]["image"], old[n]["photo"])
        assert new[n]["label"] == old[n]["label"]
    both = carya.beton(path, encoded={"one": "photo", "raw": "raw"})
    dataset = both.open()
    assert [name for name, _, _ in both.outputs] == ["one", "raw"]
    assert (dataset.address(3)["member"], dataset.address(3)["path"]) == ("#3", str(path))
    wanted = epoch_digest(chain(photos_of_beton(path)), epochs=2)
    assert epoch_digest(chain(photos_of_beton(path)), epochs=2, threads=3, io_engine="pread") == wanted
    with daemons.running() as daemon:
        assert epoch_digest(chain(photos_of_beton(path)), epochs=2, daemon=daemon.socket) == wanted


def test_fields_of_beton_files_that_are_no_jpeg_are_refused(tmp_path: Path) -> None:
    path = stored(tmp_path)
    for field in ("image", "mixed"):
        with pytest.raises(carya.Unsupported, match=rf"{field} of sample \d+ is raw pixels, and no JPEG"):
            carya.beton(path, image=field)
    with pytest.raises(carya.InvalidArgument, match="got 'none'; give one of label, score"):
        carya.beton(path, image="none")
    with pytest.raises(carya.InvalidArgument, match=r"got \{'score': 'float'\}; give a field of integers"):
        carya.beton(path, image="photo", label="score")
    for options in ({"label": "label"}, {"image": "photo", "fields": "photo"}, {"image": "photo", "decode": False}):
        with pytest.raises(carya.InvalidArgument, match="take no fields= or decode="):
            carya.beton(path, **options)  # type: ignore[arg-type]


def test_beton_images_that_lie_nowhere_and_files_that_change(tmp_path: Path) -> None:
    path = stored(tmp_path)
    rows: Any = carya.beton(path).map_style
    offset = rows._row.fields["f3"][1]  # of what is stored of the photo: mode, width, height, place
    data = bytearray(path.read_bytes())
    at_ = int(rows.place(3).split("@")[1].split(",")[0]) + offset + 5
    data[at_ : at_ + 8] = (1 << 60).to_bytes(8, "little")
    path.write_bytes(data)
    pipeline = photos_of_beton(path).decode_image().resize((8, 8)).batch(6)
    with carya.Loader(pipeline, on_error="replace", seed=1) as loader:
        assert sum(len(batch["label"]) for batch in loader) == 12
        (entry,) = loader.quarantine()
    assert (entry["record"], entry["member"]) == (3, "#3 (photo lies nowhere)")
    with carya.Loader(pipeline, on_error="replace", epochs=None, slots=2, threads=1, io_timeout=0.2) as loader:
        next(iter(loader))
        os.utime(path, ns=(1, 1))
        with pytest.raises(carya.IoError, match=CHANGED):
            read_on(loader)


def test_damaged_beton_files_are_places_in_the_file_or_an_error(tmp_path: Path) -> None:
    path = stored(tmp_path)
    whole = path.read_bytes()
    head = 24 + 9 * 1041 + 12 * 112  # with fields and rows
    used = [n for n in [*range(head), *range(len(whole) - 4000, len(whole))] if whole[n]]
    draw = random.Random(1)
    good = 0
    for _ in range(80):
        data = bytearray(whole)
        for at_ in draw.sample(used, draw.randint(1, 8)):
            data[at_] = draw.choice((0, 255, draw.randrange(256)))
        path.write_bytes(data)
        with contextlib.suppress(carya.SampleError, carya.Unsupported, carya.InvalidArgument):
            dataset = carya.beton(path, image="photo", label="label").open()
            for n in range(dataset.count):
                address = dataset.address(n)
                assert address["offset"] + address["bytes"] <= len(whole)
            good += 1
    assert 0 < good < 80


def test_the_walk_reads_no_values(tmp_path: Path) -> None:
    """An index of large values costs the pages of the tree, and not the file."""
    put(tmp_path, {key(n): bytes([n]) * 100_000 for n in range(40)})
    reads: list[int] = []

    class Counting(Ranges):
        def read(self, number: int, offset: int, size: int) -> bytes:
            reads.append(size)
            return super().read(number, offset, size)

    from carya._containers.lmdb_pages import LmdbPages

    pages = LmdbPages(Counting("lmdb", [look_at("lmdb", str(tmp_path / "data.mdb"))]), 0, None)
    assert len(list(pages.entries())) == 40
    assert sum(reads) < 10 * 4096
