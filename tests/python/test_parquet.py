"""Rows of Parquet files, as pyarrow wrote them."""

from __future__ import annotations

import datetime
import decimal
import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA, picture
from PIL import Image
from streams import check_resume, epoch_digest, shuffled_epoch

import carya

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")


def rows(first: int, last: int) -> Any:
    """Every kind of column, without nulls where a number is needed."""
    numbers = range(first, last)
    return pa.table(
        {
            "i8": pa.array([n - 100 for n in numbers], pa.int8()),
            "u64": pa.array([2**63 + n for n in numbers], pa.uint64()),
            "f32": pa.array([n / 3 for n in numbers], pa.float32()),
            "f16": pa.array(np.arange(first, last, dtype=np.float16)),
            "yes": [n % 3 == 0 for n in numbers],
            "text": [f"é{n}" * (n % 5) if n % 7 else None for n in numbers],
            "raw": pa.array([bytes([n % 256]) * (n % 9) for n in numbers], pa.binary()),
            "named": pa.array([str(n % 4) for n in numbers]).dictionary_encode(),
            "list": pa.array([list(range(n % 4)) for n in numbers], pa.list_(pa.int16())),
            "grid": pa.array([[[n, 1.5], [2, n]] for n in numbers], pa.list_(pa.large_list(pa.float32()))),
            "fixed": pa.array([[n, n + 1] for n in numbers], pa.list_(pa.uint8(), 2)),
            "words": [[str(n), "x"] for n in numbers],
            "in": [{"a": n, "deep": {"b": str(n), "c": [n, n]}} for n in numbers],
            "pairs": pa.array([[("k", n)] for n in numbers], pa.map_(pa.string(), pa.int64())),
            "day": pa.array([datetime.date(1970, 1, 1) + datetime.timedelta(n) for n in numbers]),
            "time": pa.array([n * 1_000_003 for n in numbers], pa.timestamp("us", "UTC")),
            "money": pa.array([decimal.Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)),
            "people": [[{"name": str(n), "age": n}] * (n % 3) for n in numbers],
        }
    )


def expected(row: dict[str, Any], n: int) -> dict[str, Any]:
    """A row of `to_pylist` as the sample that it is: with the dtypes of the columns."""
    return {
        "i8": np.int8(row["i8"]),
        "u64": np.uint64(row["u64"]),
        "f32": np.float32(row["f32"]),
        "f16": np.float16(row["f16"]),
        "yes": np.bool_(row["yes"]),
        "text": row["text"],
        "raw": row["raw"],
        "named": row["named"],
        "list": np.array(row["list"], np.int16),
        "grid": np.array(row["grid"], np.float32),
        "fixed": np.array(row["fixed"], np.uint8),
        "words": row["words"],
        "in.a": np.int64(row["in"]["a"]),
        "in.deep.b": row["in"]["deep"]["b"],
        "in.deep.c": np.array(row["in"]["deep"]["c"], np.int64),
        "pairs": row["pairs"],
        "day": np.int32(n),
        "time": np.int64(n * 1_000_003),
        "money": row["money"],
        "people": row["people"],
    }


def assert_same(sample: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert list(sample) == list(wanted)
    for name, value in wanted.items():
        if isinstance(value, np.ndarray | np.generic):
            assert sample[name].dtype == value.dtype, name
            np.testing.assert_array_equal(sample[name], value, name)
        else:
            assert sample[name] == value, name


def jpegs(count: int) -> Any:
    def jpeg(number: int) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(picture(number, 40 + number % 7, 50)).save(buffer, "JPEG")
        return buffer.getvalue()

    images = [{"bytes": jpeg(n), "path": f"{n}.jpg"} for n in range(count)]
    return pa.table(
        {"image": images, "label": pa.array(range(count), pa.int16()), "box": [[n, 1.5] for n in range(count)]}
    )


@pytest.mark.parametrize("unpack_max", [None, 0])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_every_row_is_pyarrows(tmp_path: Path, codec: str, unpack_max: int | None) -> None:
    options = {"compression": codec, "data_page_version": "2.0" if codec == "zstd" else "1.0"}
    for number, (first, last, size) in enumerate([(0, 23, 5), (23, 24, 99), (24, 90, 17)]):
        pq.write_table(rows(first, last), tmp_path / f"{number}.parquet", row_group_size=size, **options)
    listed = [row for path in sorted(tmp_path.iterdir()) for row in pq.read_table(path).to_pylist()]
    pipeline = carya.parquet(tmp_path, unpack_max=unpack_max)
    assert len(pipeline) == 90
    for n in np.random.default_rng(1).permutation(90).tolist():
        assert_same(pipeline[n], expected(listed[n], n))


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
def test_encodings_of_numbers(tmp_path: Path, encoding: str) -> None:
    table = pa.table({"x": pa.array(range(1000), pa.int32())})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False, column_encoding=encoding, row_group_size=128)
    pipeline = carya.parquet(tmp_path / "a.parquet")
    assert [int(pipeline[n]["x"]) for n in range(999, -1, -37)] == list(range(999, -1, -37))


def test_a_shuffled_stream_has_every_row_once_in_one_order_and_resumes(tmp_path: Path) -> None:
    table = rows(0, 90).select(["i8", "f32", "fixed", "text"])
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=7)
    pipeline = carya.parquet(tmp_path / "a.parquet").shuffle(seed=3).batch(16)
    batches, order = shuffled_epoch(pipeline, 90)
    assert order != sorted(order)
    listed = table.to_pylist()
    for batch in batches:
        assert batch["f32"].dtype == np.float32
        for i, record in enumerate(batch.records):
            assert batch["fixed"][i].tolist() == listed[record]["fixed"]
            assert batch["text"][i] == listed[record]["text"]
    names = ("i8", "f32", "fixed")
    in_memory = carya.parquet(tmp_path / "a.parquet", unpack_max=0).shuffle(seed=3).batch(16)
    check_resume(pipeline, batches, names, again=in_memory)  # it does not matter how rows are kept


def test_columns_are_names_or_paths_into_structs(tmp_path: Path) -> None:
    pq.write_table(rows(0, 4), tmp_path / "a.parquet")
    assert carya.parquet(tmp_path / "a.parquet", columns="in.deep")[3].keys() == {"in.deep.b", "in.deep.c"}
    assert list(carya.parquet(tmp_path / "a.parquet", columns=["text", "i8"])[1]) == ["text", "i8"]
    with pytest.raises(carya.NotFound, match=r"a\.parquet has no column 'in\.d'; give some of i8, .*in\.deep\.b"):
        carya.parquet(tmp_path / "a.parquet", columns=["in.d"])


def test_nulls_are_told_or_filled(tmp_path: Path) -> None:
    table = pa.table(
        {"x": [1, None, 3], "v": [[1.5], [None], None], "s": [{"a": 1}, None, {"a": None}], "t": ["", None, "z"]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    plain = carya.parquet(tmp_path / "a.parquet")
    assert plain[0]["t"] == ""
    with pytest.raises(carya.SampleError, match=r"a\.parquet, row group 0, row 1: x: got null; give fill_null=\{'x'"):
        plain[1]
    assert [carya.parquet(tmp_path / "a.parquet", columns="t")[n]["t"] for n in range(3)] == ["", None, "z"]
    fill = {"x": -1, "v": 0, "s.a": 7}
    filled = carya.parquet(tmp_path / "a.parquet", columns=["x", "s", "v"], fill_null=fill)
    assert [int(filled[n]["s.a"]) for n in range(2)] == [1, 7]
    assert filled[1]["x"].dtype == np.int64
    assert filled[1]["x"] == -1
    assert filled[1]["v"].tolist() == [0.0]
    with pytest.raises(carya.SampleError, match="row 2: v: got null"):  # a list, not a number, is missing
        filled[2]
    with pytest.raises(carya.InvalidArgument, match=r"fill_null\['x'\]: got 'a'; give a value of int64"):
        carya.parquet(tmp_path / "a.parquet", fill_null={"x": "a"})
    with pytest.raises(carya.InvalidArgument, match=r"fill_null: got .*; give columns among x"):
        carya.parquet(tmp_path / "a.parquet", fill_null={"y": 1})


def test_images_and_tensors_are_read_natively(tmp_path: Path) -> None:
    table = jpegs(20)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=6)
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    options = {"image": "image", "label": "label", "tensors": {"box": ("box", "float64", (2,))}}
    digests = {
        epoch_digest(source(path, **options).shuffle(seed=1).decode_image().random_resized_crop(16).batch(4))
        for source, path in ((carya.parquet, tmp_path / "a.parquet"), (carya.arrow, tmp_path / "a.arrow"))
    }
    assert len(digests) == 1
    with pytest.raises(carya.Exhausted, match="raise unpack_max"):
        carya.parquet(tmp_path / "a.parquet", image="image", unpack_max=10)
    with pytest.raises(carya.NotFound, match="no column 'pixels'; give some of image"):
        carya.parquet(tmp_path / "a.parquet", image="pixels")
    with pytest.raises(carya.InvalidArgument, match="columns, fill_null: got 'label'"):
        carya.parquet(tmp_path / "a.parquet", image="image", columns="label")


def damaged(path: Path) -> None:
    """The first page of the second row group is no page any more."""
    about = pq.ParquetFile(path).metadata.row_group(1).column(0)
    whole = bytearray(path.read_bytes())
    at = about.dictionary_page_offset or about.data_page_offset
    whole[at : at + about.total_compressed_size] = b"\xff" * about.total_compressed_size
    path.write_bytes(whole)


def test_a_broken_row_group_makes_its_rows_broken_records(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(30)}), path, row_group_size=10)
    damaged(path)
    pipeline = carya.parquet(path).batch(10)
    with carya.Loader(pipeline, threads=1) as loader, pytest.raises(carya.SampleError, match="row group 1, row 0"):
        list(loader)
    with carya.Loader(pipeline, threads=2, on_error="mask") as loader:
        batches = list(loader)
        entries = loader.quarantine()
    assert [int(batch.valid.sum()) for batch in batches] == [10, 0, 10]
    assert sorted(entry["record"] for entry in entries) == list(range(10, 20))
    assert f"{path}, row group 1, row 3: " in next(entry["reason"] for entry in entries if entry["record"] == 13)
    with pytest.raises(carya.SampleError, match=r"a\.parquet, row group 1: "):
        carya.parquet(path, tensors={"x": ("x", "int64", ())})


def test_files_that_are_none_are_told_before_the_first_batch(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(100)}), path)
    whole = path.read_bytes()
    broken = [b"", b"PAR1", whole[:-1], whole[:50], b"<html>" * 50, whole[:-8] + b"\xff\xff\xff\x7fPAR1"]
    broken += [whole[:-8] + (10).to_bytes(4, "little") + b"PAR1", whole[: len(whole) // 2] + whole[-8:]]
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(carya.SampleError, match=r"a\.parquet: .*; give Parquet files, or copy it again"):
            carya.parquet(path)


def test_footers_with_any_byte_changed_are_refused_or_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(rows(0, 5).select(["i8", "text", "list"]), path, row_group_size=3, store_schema=False)
    whole = path.read_bytes()
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    random = np.random.default_rng(5)
    for _ in range(150):
        mutant = bytearray(whole)
        for at in random.integers(begin, len(whole) - 8, 3):
            mutant[at] = random.integers(256)
        path.write_bytes(mutant)
        try:
            pipeline = carya.parquet(path, unpack_max=0)
        except carya.Error:
            continue
        for n in range(min(len(pipeline), 5)):
            try:
                pipeline[n]
            except (carya.Error, MemoryError):
                continue


def test_files_of_other_columns_and_without_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["1"]}), tmp_path / "b.parquet")
    with pytest.raises(
        carya.InvalidArgument, match=r"b\.parquet: its columns are x string, and those of .*a\.parquet x int64"
    ):
        carya.parquet(tmp_path)
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "b.parquet")
    assert len(carya.parquet(tmp_path)) == 1
    with pytest.raises(carya.InvalidArgument, match="give files with at least one row"):
        carya.parquet(tmp_path / "b.parquet")
    with pytest.raises(carya.NotFound, match="there is no such file"):
        carya.parquet(tmp_path / "c.parquet")
    with pytest.raises(carya.InvalidArgument, match="unpack_max: got '1GB'; give bytes of 0 or more, or None"):
        carya.parquet(tmp_path / "a.parquet", unpack_max="1GB")


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(10)}), path)
    pipeline = carya.parquet(path)
    pq.write_table(pa.table({"x": range(11)}), path)
    with pytest.raises(carya.IoError, match=r"a\.parquet: it changed since it was listed"):
        pipeline[0]


def test_what_is_unpacked_is_used_again_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(40)}), path, row_group_size=10)
    assert int(carya.parquet(path)[15]["x"]) == 15
    cache = Path(os.environ["CARYA_CACHE_DIR"])
    (kept,) = cache.glob("unpacked-*/*.arrow")
    assert kept.name == "000000-000001.arrow"
    stamp = kept.stat().st_mtime_ns
    assert int(carya.parquet(path)[16]["x"]) == 16
    assert kept.stat().st_mtime_ns == stamp
    for content in (b"", b"ARROW1", kept.read_bytes()[:-20], kept.read_bytes()[:100] + bytes(100)):
        kept.write_bytes(content)
        assert int(carya.parquet(path)[17]["x"]) == 17
    assert not list(cache.glob("unpacked-*/*.lock")) + list(cache.glob("unpacked-*/*.part"))


def test_without_room_a_row_group_is_decoded_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(40)}), path, row_group_size=10)
    monkeypatch.setattr("carya._formats.parquet.has_room", lambda *_: False)
    pipeline = carya.parquet(path)
    assert [int(pipeline[n]["x"]) for n in (0, 10, 20, 30, 0, 39)] == [0, 10, 20, 30, 0, 39]
    assert caplog.text.count("no room to unpack") == 1
    with pytest.raises(carya.Exhausted, match=r"row group 0: .*make room"):
        carya.parquet(path, tensors={"x": ("x", "int64", ())})


def test_two_row_groups_are_in_memory_at_most(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(1_000_000)}), path, row_group_size=100_000)
    dataset = pickle.loads(pickle.dumps(carya.parquet(path, unpack_max=0)))._source.dataset.dataset
    before = pa.total_allocated_bytes()
    for n in range(0, 1_000_000, 50_000):
        assert int(dataset[n]["x"]) == n
        assert pa.total_allocated_bytes() - before <= 2 * 800_000 + 100_000
    assert len(dataset._open) == 2


def test_without_pyarrow_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(carya.Unsupported, match=r"pip install 'carya\[parquet\]'"):
        carya.parquet(tmp_path / "a.parquet")


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
def test_real_files_of_many_writers_are_read_or_refused() -> None:
    read = 0
    for path in sorted(Path(DATA or "", "formats").glob("parquet*/**/*.parquet")):
        if path.name == "large_string_map.brotli.parquet" and not os.environ.get("CARYA_LONG"):
            continue  # two rows of a gigabyte take as long as a hundred of the other files together
        try:
            pipeline = carya.parquet(path, unpack_max=0)
        except carya.Error as error:
            assert str(path) in str(error)  # noqa: PT017
            continue
        for n in range(min(len(pipeline), 20)):
            try:
                read += bool(pipeline[n])
            except carya.SampleError as error:
                assert str(path) in str(error)  # noqa: PT017
    assert read > 500


def test_the_cache_shows_and_removes_what_was_unpacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = pytest.importorskip("carya._cli.cache")
    pq.write_table(pa.table({"x": range(40)}), tmp_path / "a.parquet", row_group_size=10)
    pipeline = carya.parquet(tmp_path / "a.parquet")
    assert int(pipeline[15]["x"]) == 15
    (line,) = (line for line in cache.files(os.environ["CARYA_CACHE_DIR"]) if line["kind"] == "unpacked")
    assert line["bytes"] > 80
    assert line["records"] == 1
    cache.remove([line["name"]], False, None, True)
    assert line["name"] in capsys.readouterr().out
    assert [int(pipeline[n]["x"]) for n in (16, 25)] == [16, 25]  # what is mapped, and what is unpacked again
