"""Samples of LitData's chunks, as the package litdata wrote them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya
from carya._records.opening import open_records

WRITTEN = Path(__file__).parent / "containers" / "litdata"
KINDS = ("raw", "whole", "framed", "sample")
COUNT = 10


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))


def stored(kind: str, folder: Path) -> Path:
    """A folder of the package's writer."""
    if kind in ("whole", "framed", "sample"):
        pytest.importorskip("pyarrow")
    return Path(shutil.copytree(WRITTEN / kind, folder / kind))


def mixed(n: int) -> dict[str, Any]:
    """Sample n of the folders in `KINDS`."""
    return {
        "n": n - 3,
        "x": n / 3,
        "flag": n % 2 == 0,
        "text": f"note {n} ü",
        "raw": bytes([n]) * n,
        "array": np.arange(n + 1, dtype=np.int16).reshape(1, -1),
        "vector": np.arange(n, dtype=np.float32),
        "tensor": np.arange(2 * n, dtype=np.int64).reshape(2, n),
        "ids": np.arange(n, dtype=np.int32),
        "picture": (np.arange(60).reshape(4, 5, 3) * n % 256).astype(np.uint8),
        "inside": {"a": [n, f"{n}"], "b": (n * 2,)},
    }


def arrow_row(n: int) -> dict[str, Any]:
    """Sample n of the folders of Arrow rows; 260 are in the first chunk, in two batches."""
    inside = {"a": [n / 2], "b": None if n % 3 else n}
    late = True if n % 5 == 0 else None
    words = [f"w{k}" for k in range(n % 4)]
    return {
        "n": n - 3,
        "text": f"note {n} ü",
        "raw": bytes([n % 256]) * (n % 5),
        "words": words,
        "inside": inside,
        "late": late,
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in other)
    if isinstance(other, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_those_that_were_written(kind: str, tmp_path: Path) -> None:
    rows = pickle.loads(pickle.dumps(carya.litdata(stored(kind, tmp_path)).map_style))  # as a worker has them
    assert len(rows) == COUNT
    for n in random.Random(1).sample(range(COUNT), COUNT):
        assert same(rows[n], mixed(n))


@pytest.mark.parametrize("kind", ["rows", "rows_zstd"])
def test_rows_of_arrow_are_those_that_were_written(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = stored(kind, tmp_path)
    rows = pickle.loads(pickle.dumps(carya.litdata(folder).map_style))
    assert len(rows) == 270
    order = [0, 259, 256, 260, 255, 269, 1, *random.Random(2).sample(range(270), 20)]
    assert [rows[n] for n in order] == [arrow_row(n) for n in order]
    pipeline = carya.litdata(folder).map(lambda row: {"n": row["n"]}).shuffle(seed=1).batch(9)
    with carya.Loader(pipeline, threads=2) as loader:
        assert sorted(int(n) for batch in loader for n in batch["n"]) == [n - 3 for n in range(270)]
    first = sorted(folder.glob("chunk*"))[0]
    begun = first.stat()
    first.write_bytes(first.read_bytes()[:-1] + b"!")
    with pytest.raises(carya.IoError, match="changed since it was listed"):
        rows[3]
    os.utime(first, ns=(begun.st_atime_ns, begun.st_mtime_ns))
    with pytest.raises(carya.SampleError, match=r"chunk-0-0\.bin.*sample 3: .*copy the file again"):
        carya.litdata(folder).map_style[3]


@pytest.mark.parametrize("batches", [(200, 60), (260,), (256, 3, 1), (256, 5)])
@pytest.mark.parametrize("how", ["file", "stream"])
def test_batches_of_arrow_rows_may_have_any_size(batches: tuple[int, ...], how: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    folder = stored("rows", tmp_path)
    first = sorted(folder.glob("chunk*"))[0]
    table = arrow.Table.from_pylist([arrow_row(n) for n in range(sum(batches))])
    out = arrow.BufferOutputStream()
    with getattr(arrow.ipc, f"new_{how}")(out, table.schema) as writer:
        for count, end in zip(batches, itertools.accumulate(batches), strict=True):
            writer.write_table(table.slice(end - count, count))
    written = out.getvalue().to_pybytes()
    head = first.read_bytes()[: 4 + 4 * 261]
    first.write_bytes(head + written + len(written).to_bytes(4, "little") + b"LDARW01\0")
    rows = carya.litdata(folder).map_style
    if sum(batches) == 260:
        assert [rows[n] for n in (0, 199, 200, 255, 256, 259)] == [arrow_row(n) for n in (0, 199, 200, 255, 256, 259)]
    else:
        with pytest.raises(carya.SampleError, match="it has 261 rows of Arrow, and not the 260"):
            [rows[n] for n in range(260)]


def test_rows_of_arrow_that_cannot_be_are_broken_records(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    folder = stored("rows", tmp_path)
    first = sorted(folder.glob("chunk*"))[0]
    head = first.read_bytes()[: 4 + 4 * 261]
    late = arrow.array([0] * 259 + [1 << 62], arrow.timestamp("s"))
    for table, row, said in (
        (arrow.table({"at": late}), 259, "sample 259"),
        (arrow.table([[1] * 260, [2] * 260], names=["a", "a"]), 0, "two columns of one name"),
    ):
        out = arrow.BufferOutputStream()
        with arrow.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        written = out.getvalue().to_pybytes()
        first.write_bytes(head + written + len(written).to_bytes(4, "little") + b"LDARW01\0")
        rows = carya.litdata(folder).map_style
        with pytest.raises(carya.SampleError, match=said):
            rows[row]
    for how in ("file", "stream"):  # without a batch
        out = arrow.BufferOutputStream()
        with getattr(arrow.ipc, f"new_{how}")(out, arrow.schema([("a", arrow.int64())])):
            pass
        written = out.getvalue().to_pybytes()
        first.write_bytes(head + written + len(written).to_bytes(4, "little") + b"LDARW01\0")
        with pytest.raises(carya.SampleError, match="it has no batch of rows"):
            carya.litdata(folder).map_style[3]


def written_rows(folder: Path, table: Any, how: str, codec: str) -> bytes:
    """A chunk whose rows are those of a table, in one batch; its bytes of Arrow."""
    arrow = pytest.importorskip("pyarrow")
    out = arrow.BufferOutputStream()
    options = arrow.ipc.IpcWriteOptions(compression=codec)
    with getattr(arrow.ipc, f"new_{how}")(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(out.getvalue().to_pybytes())


def put_rows(folder: Path, written: bytes) -> Any:
    first = sorted(folder.glob("chunk*"))[0]
    head = first.read_bytes()[: 4 + 4 * 261]
    first.write_bytes(head + written + len(written).to_bytes(4, "little") + b"LDARW01\0")
    return carya.litdata(folder).map_style


@pytest.mark.parametrize("how", ["file", "stream"])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_batches_of_arrow_take_no_more_than_their_bytes_may_say(
    how: str, codec: str, tmp_path: Path
) -> None:
    """The library gives a buffer whatever it says that it is: a terabyte, or a million zeros for each byte."""
    arrow = pytest.importorskip("pyarrow")
    folder = stored("rows", tmp_path)
    numbers = arrow.table({"n": [*range(260)], "name": arrow.array(["a", "b"] * 130).dictionary_encode()})
    written = written_rows(folder, numbers, how, codec)
    rows = put_rows(folder, written)
    assert [rows[n] for n in (0, 259)] == [{"n": 0, "name": "a"}, {"n": 259, "name": "b"}]
    size = (260 * 8).to_bytes(8, "little")  # of the buffer of numbers
    assert written.count(size) >= 1
    for said in (1 << 40, 1 << 62, 1 << 30):
        rows = put_rows(folder, written.replace(size, said.to_bytes(8, "little")))
        with pytest.raises(
            carya.SampleError,
            match=r"chunk-0-0\.bin.*B of Arrow say that they are [\d,]+ B unpacked, and at most 67,108,864 B",
        ):
            rows[0]
    zeros = arrow.table({"a": arrow.array([bytes(1 << 20)] * 260, arrow.binary())})
    rows = put_rows(folder, written_rows(folder, zeros, how, codec))
    with (
        contextlib.suppress(carya.SampleError)
        if codec == "lz4"
        else pytest.raises(carya.SampleError, match="unpacked, and at most")
    ):
        assert len(rows[259]["a"]) == 1 << 20


def test_lists_of_what_takes_no_bytes_are_no_longer_than_a_piece_may_be(tmp_path: Path) -> None:
    """A few hundred bytes say two billion nulls, which Python would have a list of."""
    arrow = pytest.importorskip("pyarrow")
    folder = stored("rows", tmp_path)

    def of_lists(values: Any) -> Any:
        ends = arrow.array([0] * 260 + [len(values)], arrow.int64())
        return arrow.table({"a": arrow.LargeListArray.from_arrays(ends, values)})

    pair = arrow.table({"a": [[None, None]] * 260, "b": [{"c": [], "d": {}}] * 260})
    rows = put_rows(folder, written_rows(folder, pair, "file", "zstd"))
    assert rows[259] == {"a": [None, None], "b": {"c": [], "d": {}}}
    nulls = arrow.nulls((1 << 27) + 260)
    nested = arrow.FixedSizeListArray.from_arrays(arrow.nulls(1 << 29), 1 << 20)
    for values in (nulls, arrow.StructArray.from_arrays([nulls], ["x"]), nested):
        rows = put_rows(folder, written_rows(folder, of_lists(values), "file", "zstd"))
        assert rows[0]["a"] == []
        with pytest.raises(carya.SampleError, match=r"sample 259: .*its lists have more than 134,217,728 values"):
            rows[259]
    rows = put_rows(
        folder, written_rows(folder, of_lists(arrow.array(["a"] * 300).dictionary_encode()), "file", "zstd")
    )
    with pytest.raises(carya.SampleError, match=r"values of dictionary.*which LitData does not write"):
        rows[0]


@pytest.mark.parametrize("how", ["file", "stream"])
def test_compressed_rows_of_arrow_whose_bytes_are_damaged_are_errors(how: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    folder = stored("rows", tmp_path)
    numbers = arrow.table({"n": [*range(260)], "name": arrow.array(["a", "b"] * 130).dictionary_encode()})
    written, drawn = written_rows(folder, numbers, how, "zstd"), random.Random(7)
    for _ in range(150):
        damaged = bytearray(written)
        for _ in range(drawn.randrange(1, 4)):
            damaged[drawn.randrange(len(damaged))] = drawn.randrange(256)
        rows = put_rows(folder, bytes(damaged))
        for n in (0, 259):
            with contextlib.suppress(carya.SampleError):
                rows[n]


def test_a_chunk_of_arrow_rows_that_is_cut_off_is_an_error_and_no_crash(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = stored("rows", tmp_path)
    rows = carya.litdata(folder).map_style
    assert rows[0] == arrow_row(0)
    os.truncate(sorted(folder.glob("chunk*"))[0], 100)
    with pytest.raises(carya.IoError):
        rows[259]


def test_rows_of_arrow_whose_bytes_are_damaged_are_errors_and_never_more(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = stored("rows", tmp_path)
    first = sorted(folder.glob("chunk*"))[0]
    data, before, drawn = first.read_bytes(), first.stat(), random.Random(5)
    wrong = 0
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(drawn.randrange(1, 4)):
            damaged[drawn.randrange(len(damaged))] = drawn.randrange(256)
        first.write_bytes(damaged)
        os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns))
        rows = carya.litdata(folder).map_style
        for n in (0, 255, 259):
            with contextlib.suppress(carya.SampleError):
                wrong += rows[n] != arrow_row(n)
    assert wrong < 150  # what has no checksum may be another value, and some are


def test_a_level_of_compression_is_part_of_the_names_of_chunks(tmp_path: Path) -> None:
    folder = stored("whole", tmp_path)
    said = json.loads((folder / "index.json").read_text())
    said["config"]["compression"] = "zstd:3"
    for chunk in said["chunks"]:
        name = chunk["filename"].replace(".zstd.", ".zstd:3.")
        chunk["filename"] = (folder / chunk["filename"]).rename(folder / name).name
    (folder / "index.json").write_text(json.dumps(said))
    rows = carya.litdata(folder).map_style
    assert all(same(rows[n], mixed(n)) for n in range(COUNT))


def test_lists_and_dicts_of_json_and_files_as_bytes(tmp_path: Path) -> None:
    rows = carya.litdata(stored("json", tmp_path)).map_style
    for n in range(COUNT):
        sample = rows[n]
        record = {"a": n, "b": None if n % 2 else "x", "c": n / 2, "d": True}
        assert sample["j"] == [record] * (n % 3 + 1)
        assert sample["k"] == {
            "t": [n, 2],
            "u": ["a", "b"],
            "v": [1.5],
            "w": {"deep": [{"q": [1]}]},
            "y": [True, False],
        }
        assert sample["im"][:2] == b"\xff\xd8"


def test_a_stream_has_each_sample_once(tmp_path: Path) -> None:
    pipeline = carya.litdata([stored("raw", tmp_path), WRITTEN / "raw"]).shuffle(seed=1)
    lists = ["raw", "array", "vector", "tensor", "ids"]
    with carya.Loader(pipeline.batch(5, lists=lists), threads=2) as loader:
        found = {int(r): int(n) for batch in loader for r, n in zip(batch.records, batch["n"], strict=True)}
    assert found == {n: n % COUNT - 3 for n in range(2 * COUNT)}


def test_blocks_of_ids_are_those_of_the_chunks(tmp_path: Path) -> None:
    folder = stored("tokens", tmp_path)
    ids = np.concatenate([np.arange(n * 30, n * 30 + 30 + n % 3) for n in range(25)])
    chunks = [chunk["dim"] for chunk in json.loads((folder / "index.json").read_text())["chunks"]]
    starts = np.concatenate([[0], np.cumsum(chunks)])
    wanted = [
        ids[begin + 10 * i : begin + 10 * i + 10]
        for begin, n in zip(starts, chunks, strict=False)
        for i in range(n // 10)
    ]
    rows = carya.litdata(folder, block=10)
    assert len(chunks) > 1
    assert len(rows) == len(wanted)
    assert all(np.array_equal(rows[n]["ids"], block) for n, block in enumerate(wanted))
    with pytest.raises(carya.InvalidArgument, match="written for TokensLoader; give block="):
        carya.litdata(folder)
    with pytest.raises(carya.InvalidArgument, match="not written for TokensLoader"):
        carya.litdata(WRITTEN / "raw", block=10)


def test_pickles_are_refused_or_stay_bytes(tmp_path: Path) -> None:
    folder = stored("pickled", tmp_path)
    with pytest.raises(carya.Unsupported, match=r'it has pickles.*give pickles="bytes"'):
        carya.litdata(folder)
    sample = carya.litdata(folder, pickles="bytes")[3]
    assert sample["n"] == 3
    assert isinstance(sample["s"], bytes)


def test_it_is_told_from_mds_and_inspected(tmp_path: Path) -> None:
    folder = stored("raw", tmp_path)
    assert carya.open(folder)[4]["text"] == "note 4 ü"
    opened = open_records(str(folder))
    assert (opened.records.kind, len(opened.records)) == ("litdata", COUNT)
    assert opened.records.read(7)["n"] == 4
    assert len(opened.records.files) == 2


def test_a_broken_sample_is_one_entry_and_the_others_are_read(tmp_path: Path) -> None:
    folder = stored("raw", tmp_path)
    path = folder / "chunk-0-0.bin"
    data = bytearray(path.read_bytes())
    begin = int.from_bytes(data[4 + 4 * 2 : 8 + 4 * 2], "little")
    data[begin] = 99  # bytes of its first leaf
    path.write_bytes(data)
    pipeline = carya.litdata(folder).batch(5, lists=["raw", "array", "vector", "tensor", "ids"])
    with carya.Loader(pipeline, threads=1, on_error="replace", seed=1) as loader:
        assert sum(len(batch["n"]) for batch in loader) == COUNT
        (entry,) = loader.quarantine()
    assert entry["record"] == 2
    assert f"chunk-0-0.bin @{begin}, sample 2: n: its leaves are" in entry["reason"]


def test_indexes_that_are_none_are_told_by_name(tmp_path: Path) -> None:
    folder = stored("raw", tmp_path)
    index = folder / "index.json"
    whole = json.loads(index.read_text())

    def changed(**config: Any) -> dict[str, Any]:
        return {**whole, "config": {**whole["config"], **config}}

    for content in (
        "",
        "[]",
        "{",
        "[" * 99_999,
        json.dumps({"chunks": 1, "config": {}}),
        json.dumps(changed(data_spec="[1]")),
    ):
        index.write_text(content)
        with pytest.raises(carya.SampleError, match=r"litdata: .*index\.json: .*; give a folder of litdata\.optimize"):
            carya.litdata(folder)
    for config, said in (
        ({"encryption": {"level": "chunk"}}, "it is encrypted"),
        ({"item_loader": "ParquetLoader"}, r"call carya\.parquet"),
        ({"item_loader": "Mine"}, "write it for PyTreeLoader"),
        ({"compression": "lz4"}, "write it with zstd"),
        ({"data_format": ["mine"] * len(whole["config"]["data_format"])}, "none of LitData's own"),
    ):
        index.write_text(json.dumps(changed(**config)))
        with pytest.raises(carya.Unsupported, match=said):
            carya.litdata(folder)
    chunk = whole["chunks"][0]
    for said in (
        {"filename": "../secret"},
        {"filename": ""},
        {"chunk_size": -1},
        {"chunk_size": None},
        {"dim": "x"},
        {"filename": "c" * 300},
    ):
        index.write_text(json.dumps({**whole, "chunks": [{**chunk, **said}]}))
        with pytest.raises(carya.SampleError):
            carya.litdata(folder)
    index.write_text(json.dumps({**whole, "chunks": [{**chunk, "filename": "none.bin"}]}))
    with pytest.raises(carya.NotFound, match=r"none\.bin: there is no such file.*index\.json names it"):
        carya.litdata(folder)


def test_structures_with_a_key_twice_or_endlessly_deep_are_told(tmp_path: Path) -> None:
    folder = stored("raw", tmp_path)
    index = folder / "index.json"
    whole = json.loads(index.read_text())
    leaf: Any = {"type": None, "context": None, "children_spec": []}
    deep = leaf
    for _ in range(70):
        deep = {"type": "builtins.list", "context": None, "children_spec": [deep]}
    twice = {"type": "builtins.dict", "context": '["a","a"]', "children_spec": [leaf, leaf]}
    for spec, said in ((twice, "or one of them twice"), (deep, "more than 64 lists and dicts deep")):
        config = {**whole["config"], "data_spec": json.dumps([1, spec]), "data_format": ["int"] * (1 + (spec is twice))}
        index.write_text(json.dumps({**whole, "config": config}))
        with pytest.raises(carya.SampleError, match=said):
            carya.litdata(folder)


def test_a_large_sample_is_read_in_parts_or_is_a_broken_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from carya._containers import litdata

    rows = carya.litdata(stored("raw", tmp_path)).map_style
    pread = os.pread  # which gives at most 2 GiB, and may give less
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 7), offset))
    assert same(rows[9], mixed(9))
    monkeypatch.setattr(litdata, "UNPACKED_MAX", 50)
    with pytest.raises(carya.SampleError, match=r"sample 3: it has \d+ B, and at most 50 B are read; leave it out"):
        rows[3]


@pytest.mark.parametrize("kind", ["whole", "framed"])
def test_what_is_gone_from_the_cache_folder_is_unpacked_again(kind: str, tmp_path: Path) -> None:
    rows, again = (carya.litdata(stored(kind, tmp_path / str(n))).map_style for n in range(2))
    for one in (rows, again):
        one.unpack()
    shutil.rmtree(tmp_path / "cache")
    assert same(rows[3], mixed(3))
    again.unpack()
    for opened in again._open.values():
        opened.ranges.close()
    for folder in again.kept_paths():
        os.utime(Path(folder) / "chunk", ns=(1, 1))  # as if another process had done it
    assert same(again[3], mixed(3))


@pytest.mark.parametrize("kind", ["whole", "framed"])
def test_a_file_that_changes_while_it_is_unpacked_leaves_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from carya._containers import litdata

    rows = carya.litdata(stored(kind, tmp_path)).map_style
    write = litdata._write

    def writes(path: str, *rest: Any) -> None:
        write(path, *rest)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(litdata, "_write", writes)
    with pytest.raises(carya.IoError, match="it changed since it was listed"):
        rows[0]
    assert not list((tmp_path / "cache").rglob("chunk"))


def test_what_is_damaged_in_the_cache_folder_is_made_anew(tmp_path: Path) -> None:
    rows = carya.litdata(stored("framed", tmp_path)).map_style
    rows.unpack()
    for folder in rows.kept_paths():
        (Path(folder) / "chunk").write_bytes(b"short")
    again = carya.litdata(tmp_path / "framed").map_style
    assert same(again[9], mixed(9))


@pytest.mark.parametrize("kind", [*KINDS, "json"])
def test_damaged_bytes_are_errors_and_never_more(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stored(kind, tmp_path)
    (path,) = (one for one in folder.iterdir() if one.name.startswith("chunk-0-0"))
    whole = path.read_bytes()
    draw = random.Random(kind)
    for turn in range(40):
        monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / f"cache-{turn}"))
        data = bytearray(whole)
        for at in draw.sample(range(min(len(data), 400) if turn % 2 else len(data)), draw.randint(1, 6)):
            data[at] = draw.choice((0, 255, draw.randrange(256)))
        path.write_bytes(data[: draw.randrange(len(data))] if turn % 5 == 0 else data)
        rows = carya.litdata(folder).map_style
        for n in range(COUNT):
            with contextlib.suppress(carya.SampleError):
                rows[n]


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    folder = stored("raw", tmp_path)
    rows = carya.litdata(folder).map_style
    path = folder / "chunk-0-0.bin"
    assert same(rows[0], mixed(0))  # it is open now
    path.write_bytes(path.read_bytes()[:-9] + b"different")
    os.utime(path, ns=(1, 1))
    with pytest.raises(carya.IoError, match=r"chunk-0-0\.bin: it changed since it was listed"):
        rows[1]
