"""Records that worker processes read behind URLs: by ranges of one version, many at a time, with no copy of an object."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_data import BUCKET, forget_credentials
from stores import FaultStore
from test_array_record import COUNT, KINDS, stored, value

import carya
from carya._sources.fetched import BLOCK, Fetched, Streamed, first_of
from carya._sources.objects import object_at
from carya._stages.source import DatasetSource


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultStore]:
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    with FaultStore({}) as running_store:
        yield running_store


def put(store: FaultStore, *paths: Path) -> None:
    store.objects.update({f"/{BUCKET}/{path.name}": path.read_bytes() for path in paths})


def bounds(store: FaultStore, since: int = 0) -> list[tuple[int, int]]:
    """Where the ranges that were asked for begin and end."""
    ranges = [headers["range"] for method, _, headers in store.seen[since:] if method == "GET" and "range" in headers]
    both = (found.removeprefix("bytes=").split("-") for found in ranges)
    return [(int(first), int(last) + 1) for first, last in both]


def kept(suffix: str) -> list[Path]:
    return [path for path in Path(os.environ["CARYA_CACHE_DIR"]).rglob(f"*{suffix}") if path.is_file()]


# What is fetched ------------------------------------------------------------------------------------------------------


def fetched(store: FaultStore, size: int) -> tuple[bytes, Fetched]:
    data = np.random.default_rng(1).bytes(size)
    store.objects[f"/{BUCKET}/x"] = data
    return data, Fetched([object_at(f"{store.url}/{BUCKET}/x")])


def test_what_comes_next_is_brought_along_and_neighbours_are_one_request(store: FaultStore) -> None:
    data, reader = fetched(store, 9 * BLOCK)
    places = [(0, at, at + 100) for at in (8 * BLOCK, 10, 700, 3 * BLOCK)]
    reader.expect(places)
    assert reader.read(places[0]) == data[8 * BLOCK : 8 * BLOCK + 100]
    assert sorted(bounds(store)) == [(10, 800), (3 * BLOCK, 3 * BLOCK + 100), (8 * BLOCK, 8 * BLOCK + 100)]
    for place in places[1:]:
        assert reader.read(place) == data[place[1] : place[2]]
    assert len(bounds(store)) == 3
    assert reader.read((0, 5, 6)) == data[5:6]  # that nobody told of
    assert set(reader._left) == set(places)


def test_blocks_of_which_much_is_wanted_are_read_as_a_whole_and_kept(store: FaultStore) -> None:
    data, reader = fetched(store, 5 * BLOCK + 77)
    in_order = [(0, at, min(at + 1000, len(data))) for at in range(0, len(data), 1000)]
    for first in range(0, len(in_order), 50):
        reader.expect(in_order[first : first + 50])
        for place in in_order[first : first + 50]:
            assert reader.read(place) == data[place[1] : place[2]]
    asked = bounds(store)
    assert len(asked) <= 4  # a block, two behind it, four, as far as there are any
    assert sum(end - begin for begin, end in asked) == len(data)
    order = np.random.default_rng(2).permutation(len(in_order)).tolist()
    reader.expect([in_order[n] for n in order])
    for n in order:
        assert reader.read(in_order[n]) == data[in_order[n][1] : in_order[n][2]]
    assert len(bounds(store)) == len(asked)


def test_memory_is_bounded_whatever_comes(store: FaultStore) -> None:
    data, reader = fetched(store, 80 * BLOCK)
    places = [(0, at, at + BLOCK // 8) for at in range(0, len(data), BLOCK // 8)]
    reader.expect(places)
    for place in places:
        assert reader.read(place) == data[place[1] : place[2]]
        assert sum(map(len, reader._blocks.values())) <= 64 * BLOCK
        assert sum(map(len, reader._ready.values())) <= 8 << 20
    assert max(end - begin for begin, end in bounds(store)) <= 2 << 20
    assert sum(end - begin for begin, end in bounds(store)) == len(data)
    whole = (0, 0, len(data))
    reader.expect([whole, *places])
    assert reader.read(whole) == data


@pytest.mark.parametrize("size", [BLOCK // 2, 3 * BLOCK])
def test_what_is_read_several_times_is_asked_for_once(store: FaultStore, size: int) -> None:
    """As a chunk of several records, which come in any order."""
    data, reader = fetched(store, 20 * BLOCK)
    places = [(0, at, at + size) for at in range(0, len(data), 4 * BLOCK)]
    order = [places[n] for n in np.random.default_rng(4).permutation(np.repeat(np.arange(len(places)), 6)).tolist()]
    for round in (1, 2):  # behind all of them: they are told once, and read once more
        if round == 1:
            reader.expect(order)
        for place in order:
            assert reader.read(place) == data[place[1] : place[2]]
        assert len(bounds(store)) <= len(places) * round * -(-size // BLOCK)
        assert sum(end - begin for begin, end in bounds(store)) <= round * size * len(places)
    assert not reader._ready


def test_where_one_object_ends_and_the_next_begins_nothing_else_is_asked_for(store: FaultStore) -> None:
    objects = [np.random.default_rng(n).bytes(12 * BLOCK) for n in range(2)]
    store.objects.update({f"/{BUCKET}/{n}": data for n, data in enumerate(objects)})
    reader = Fetched([object_at(f"{store.url}/{BUCKET}/{n}") for n in range(2)])
    step = BLOCK // 8
    places = [(0, 11 * BLOCK + at, 11 * BLOCK + at + step) for at in range(0, BLOCK, step)]
    places += [(1, at, at + step) for at in range(0, BLOCK, step)]
    reader.expect(places)
    for number, begin, end in places:
        assert reader.read((number, begin, end)) == objects[number][begin:end]
    assert sorted(bounds(store)) == [(0, BLOCK), (11 * BLOCK, 12 * BLOCK)]


def test_any_ranges_in_any_order_are_those_of_the_object(store: FaultStore) -> None:
    data, reader = fetched(store, 3 << 20)
    rng = np.random.default_rng(3)
    for _ in range(20):
        begins = rng.integers(0, len(data), 30)
        sizes = rng.choice([1, 100, 5_000, 300_000], 30)
        places = [(0, int(b), min(int(b + s), len(data))) for b, s in zip(begins, sizes, strict=True)]
        reader.expect(places[: int(rng.integers(0, 31))])
        for place in places:
            assert reader.read(place) == data[place[1] : place[2]]


@pytest.mark.parametrize("kind", ["jsonl", "array_record"])
def test_what_comes_next_is_told_of_objects_only(store: FaultStore, tmp_path: Path, kind: str) -> None:
    """It costs time for each sample, and files have no use for it."""
    path = stored("plain", tmp_path)
    if kind == "jsonl":
        path = tmp_path / "lines.jsonl"
        path.write_text('{"n": 1}\n')
    put(store, path)
    url = f"s3://{BUCKET}/{path.name}"
    in_store = {"copy": False} if kind == "jsonl" else {}
    there = getattr(carya, kind)(url, endpoint=store.url, **in_store)
    here = getattr(carya, kind)(path)
    for pipeline, expects in ((there, True), (here, False)):
        spec = pipeline._source.dataset
        assert DatasetSource(spec, None, 0).expects is expects


# ArrayRecord ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_array_records_are_read_by_ranges(store: FaultStore, tmp_path: Path, kind: str) -> None:
    put(store, stored(kind, tmp_path))
    url = f"s3://{BUCKET}/{kind}.array_record"
    remote = carya.array_record(url, endpoint=store.url)
    assert [remote[n]["record"] for n in range(COUNT)] == [value(n) for n in range(COUNT)]
    local = carya.array_record(tmp_path / f"{kind}.array_record")
    with carya.Loader(local.shuffle(seed=2).batch(4)) as loader:
        batches = iter(loader)
        next(batches)
        state, expected = loader.state_dict(), [batch["record"] for batch in batches]
    with carya.Loader(remote.shuffle(seed=2).batch(4)) as loader:  # a state of the files goes on in the store
        loader.load_state_dict(state)
        assert [batch["record"] for batch in loader] == expected
    assert not kept(".array_record")


def test_the_index_of_array_records_is_a_few_requests_and_so_is_an_epoch(store: FaultStore, tmp_path: Path) -> None:
    path = stored("plain", tmp_path)
    put(store, path)
    remote = carya.array_record(f"s3://{BUCKET}/plain.array_record", endpoint=store.url)
    assert store.gets <= 3
    before = store.gets
    with carya.Loader(remote.batch(COUNT), threads=1) as loader:
        list(loader)
    assert store.gets - before <= 6
    assert sum(end - begin for begin, end in bounds(store)) < 4 * path.stat().st_size


@pytest.mark.parametrize("policy", ["raise", "mask"])
def test_array_records_that_change_are_an_error(store: FaultStore, tmp_path: Path, policy: str) -> None:
    path = stored("plain", tmp_path)
    put(store, path)
    remote = carya.array_record(f"s3://{BUCKET}/plain.array_record", endpoint=store.url)
    store.objects[f"/{BUCKET}/plain.array_record"] = path.read_bytes()[:-1] + b"x"
    with (
        pytest.raises(carya.IoError, match=r"plain\.array_record.*changed since it was listed"),
        carya.Loader(remote.batch(4), on_error=policy) as loader,
    ):
        list(loader)


@pytest.mark.parametrize("fault", ["503", "reset", "short", "other range"])
def test_what_goes_wrong_now_and_then_changes_no_array_record(store: FaultStore, tmp_path: Path, fault: str) -> None:
    put(store, stored("groups", tmp_path))
    store.fault = lambda path, count: fault if count % 2 == 1 else ""
    remote = carya.array_record(f"s3://{BUCKET}/groups.array_record", endpoint=store.url)
    with carya.Loader(remote.batch(COUNT)) as loader:
        assert [batch["record"] for batch in loader] == [[value(n) for n in range(COUNT)]]


def test_what_a_store_refuses_breaks_no_array_record(store: FaultStore, tmp_path: Path) -> None:
    put(store, stored("plain", tmp_path))
    url = f"s3://{BUCKET}/plain.array_record"
    remote = carya.array_record(url, endpoint=store.url)
    for fault, error in (("packed", carya.InvalidArgument), ("403", carya.Permission)):
        store.fault = lambda path, count, fault=fault: fault  # type: ignore[misc]
        for ask in (lambda: remote[3], lambda: carya.array_record(url, endpoint=store.url)):
            with pytest.raises(error) as told:
                ask()
            assert not isinstance(told.value, carya.SampleError)
    store.fault = lambda path, count: ""
    assert remote[3] == {"record": value(3)}


def test_an_array_record_that_was_cut_off_in_a_store_is_told_by_name(store: FaultStore, tmp_path: Path) -> None:
    whole = stored("plain", tmp_path).read_bytes()
    for content in (b"", whole[: -(1 << 16)], whole[:64] + bytes((1 << 17) - 64)):
        store.objects[f"/{BUCKET}/plain.array_record"] = content
        with pytest.raises(carya.SampleError, match=r"array_record: .*plain\.array_record: .*; give files"):
            carya.array_record(f"{store.url}/{BUCKET}/plain.array_record")


# Lines and rows -------------------------------------------------------------------------------------------------------

ROWS = 3000
Lines = Callable[..., carya.Pipeline]


def jsonl(where: str, **options: Any) -> carya.Pipeline:
    return carya.jsonl(f"{where}/lines-*.jsonl", **options)


def text(where: str, **options: Any) -> carya.Pipeline:
    return carya.text(f"{where}/words*.txt", **options)


def whole(where: str, **options: Any) -> carya.Pipeline:
    return carya.text(f"{where}/", by="file", **options)


def csv(where: str, **options: Any) -> carya.Pipeline:
    return carya.csv(f"{where}/rows-*.csv", **options)


def quoted(where: str, **options: Any) -> carya.Pipeline:
    return carya.csv(f"{where}/quoted.csv", **options)


SOURCES = [jsonl, text, whole, csv, quoted]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines")
    for part in range(2):
        with open(folder / f"lines-{part}.jsonl", "w") as file:
            for n in range(part * ROWS, (part + 1) * ROWS):
                file.write(json.dumps({"n": n, "text": "x" * (n * 37 % 200)}) + "\n" + "\n" * (n % 9 == 0))
        (folder / f"rows-{part}.csv").write_text("n,y\n" + "".join(f"{n},{n / 4}\n" for n in range(2000)))
    (folder / "words.txt").write_bytes(b"\xef\xbb\xbf" + "".join(f"wörd {n}\r\n" for n in range(ROWS)).encode())
    (folder / "words 2.txt").write_text("one\n\ntwo")
    (folder / "quoted.csv").write_text("n,t\n" + "".join(f'{n},"a, ""b""\n{"c" * (n % 300)}"\n' for n in range(2000)))
    return folder


def filled(store: FaultStore, folder: Path) -> str:
    put(store, *folder.iterdir())
    return f"s3://{BUCKET}"


def rows_of(batches: Iterable[Any]) -> list[Any]:
    return [[batch[name][i] for name in sorted(batch)] for batch in batches for i in range(len(batch.records))]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_lines_are_read_by_ranges_and_no_object_is_copied(store: FaultStore, lines: Path, source: Lines) -> None:
    where = filled(store, lines)
    local, remote = source(str(lines)), source(where, endpoint=store.url, copy=False)
    assert len(remote) == len(local) > 1
    for n in (1, len(local) - 1, len(local) // 2):
        np.testing.assert_equal(remote[n], local[n])
    with carya.Loader(local.shuffle(seed=2).batch(64)) as loader:
        batches = iter(loader)
        if len(local) > 64:
            next(batches)
        state, expected = loader.state_dict(), rows_of(batches)
    with carya.Loader(remote.shuffle(seed=2).batch(64)) as loader:  # a state of the files goes on in the store
        loader.load_state_dict(state)
        np.testing.assert_equal(rows_of(loader), expected)
    assert not [path for name in (".jsonl", ".txt", ".csv") for path in kept(name)]


def test_an_object_whose_first_row_has_quotes_is_read_once(store: FaultStore, tmp_path: Path) -> None:
    path = tmp_path / "named.csv"
    path.write_text('"n","t"\n' + "".join(f"{n},some text without quotes\n" for n in range(100_000)))
    put(store, path)
    pipeline = carya.csv(f"s3://{BUCKET}/named.csv", endpoint=store.url, copy=False)
    assert len(pipeline) == 100_000
    assert sum(end - begin for begin, end in bounds(store)) < 1.5 * path.stat().st_size


@pytest.mark.parametrize("source", [jsonl, csv, quoted], ids=lambda source: source.__name__)
def test_where_lines_begin_is_kept_for_a_version(store: FaultStore, lines: Path, source: Lines) -> None:
    where = filled(store, lines)
    count = len(source(where, endpoint=store.url, copy=False))
    begun = len(bounds(store))
    again = source(where, endpoint=store.url, copy=False)
    assert len(again) == count
    asked = sum(end - begin for begin, end in bounds(store)[begun:])
    assert asked < 3 * BLOCK  # of csv the first rows, which say what the columns are
    if source is jsonl:
        assert asked == 0
    for name in ("lines-1.jsonl", "rows-1.csv", "quoted.csv"):
        key = f"/{BUCKET}/{name}"
        store.objects[key] = store.objects[key][: len(store.objects[key]) // 2].rpartition(b"\n")[0] + b"\n"
    assert len(source(where, endpoint=store.url, copy=False)) < count


@pytest.mark.parametrize("source", [jsonl, text], ids=lambda source: source.__name__)
def test_an_epoch_in_order_takes_a_request_for_a_block(store: FaultStore, lines: Path, source: Lines) -> None:
    where = filled(store, lines)
    remote = source(where, endpoint=store.url, copy=False)
    begun = len(bounds(store))
    with carya.Loader(remote.batch(50), threads=1) as loader:
        assert sum(len(batch.records) for batch in loader) == len(remote)
    asked = bounds(store)[begun:]
    size = sum(path.stat().st_size for path in lines.glob("lines*" if source is jsonl else "words*"))
    assert len(asked) <= 8
    assert sum(end - begin for begin, end in asked) <= size + 4096  # the first lines, before there were enough of them


@pytest.mark.parametrize("policy", ["raise", "mask"])
@pytest.mark.parametrize("source", [jsonl, text, csv], ids=lambda source: source.__name__)
def test_lines_that_change_are_an_error(store: FaultStore, lines: Path, source: Lines, policy: str) -> None:
    where = filled(store, lines)
    remote = source(where, endpoint=store.url, copy=False)
    store.objects = {key: value + b"1\n" for key, value in store.objects.items()}
    with (
        pytest.raises(carya.IoError, match="changed since it was listed"),
        carya.Loader(remote.shuffle(seed=1).batch(64), on_error=policy) as loader,
    ):
        list(loader)


@pytest.mark.parametrize("fault", ["503", "reset", "short", "other range"])
def test_what_goes_wrong_now_and_then_changes_no_line(store: FaultStore, lines: Path, fault: str) -> None:
    where = filled(store, lines)
    store.fault = lambda path, count: fault if count % 3 == 1 else ""
    for source in (text, quoted):
        remote = source(where, endpoint=store.url, copy=False).batch(500)
        with carya.Loader(source(str(lines)).batch(500)) as expected, carya.Loader(remote) as loader:
            np.testing.assert_equal(rows_of(loader), rows_of(expected))


def test_an_object_that_changes_while_its_lines_are_looked_for_is_an_error(store: FaultStore, lines: Path) -> None:
    where = filled(store, lines)
    store.fault = lambda path, count: "other etag" if count > 1 else ""
    with pytest.raises(carya.IoError, match="changed since it was listed"):
        jsonl(where, endpoint=store.url, copy=False)
    assert not kept(".npy")


def test_what_a_store_refuses_breaks_no_line(store: FaultStore, lines: Path) -> None:
    where = filled(store, lines)
    remote = jsonl(where, endpoint=store.url, copy=False)
    store.fault = lambda path, count: "packed"
    for ask in (lambda: remote[1500], lambda: text(where, endpoint=store.url, copy=False)):
        with pytest.raises(carya.InvalidArgument, match="packs what it sends"):
            ask()
    store.fault = lambda path, count: ""
    assert remote[1500]["n"] == 1500


def test_what_is_compressed_is_copied_all_the_same(store: FaultStore, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2}\n'))
    (tmp_path / "b.jsonl").write_text('{"n": 3}\n')
    put(store, tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl")
    remote = carya.jsonl(
        [f"s3://{BUCKET}/{name}" for name in ("a.jsonl.gz", "b.jsonl")], endpoint=store.url, copy=False
    )
    assert [int(remote[n]["n"]) for n in range(3)] == [1, 2, 3]
    assert (len(kept(".gz")), len(kept(".jsonl"))) == (1, 0)
    (tmp_path / "c.jsonl").write_bytes(b"PK\x03\x04nothing")
    put(store, tmp_path / "c.jsonl")
    with pytest.raises(carya.SampleError, match=r"c\.jsonl: it is zip"):
        carya.jsonl(f"s3://{BUCKET}/c.jsonl", endpoint=store.url, copy=False)
    with pytest.raises(carya.InvalidArgument, match="copy: got 1; give True, or False"):
        carya.jsonl(tmp_path / "b.jsonl", copy=1)  # type: ignore[arg-type]


def test_a_broken_line_in_a_store_is_named_by_url_and_offset(store: FaultStore, tmp_path: Path) -> None:
    store.objects[f"/{BUCKET}/a.jsonl"] = b'{"n": 1}\n{"n": \n{"n": 3}\n'
    remote = carya.jsonl(f"{store.url}/{BUCKET}/a.jsonl", copy=False)
    with carya.Loader(remote.batch(3), on_error="mask") as loader:
        (batch,) = loader
        assert batch.valid.tolist() == [True, False, True]
        assert "a.jsonl @9: " in str(loader.quarantine()[0])


def test_an_object_is_streamed_in_order(store: FaultStore) -> None:
    data = np.random.default_rng(4).bytes((64 << 10) + 5 * (2 << 20) // 2)
    store.objects[f"/{BUCKET}/x"] = data
    listed = object_at(f"{store.url}/{BUCKET}/x")
    for ahead in (1, 3):
        with Streamed(listed, first_of(listed), ahead) as file:
            assert file.read() == data
    begun = store.gets
    with Streamed(listed, first_of(listed), 3) as file:
        assert file.read(5) == data[:5]
    assert store.gets == begun + 1
