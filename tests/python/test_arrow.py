"""Arrow IPC files, read where they lie, as pyarrow wrote them."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import picture
from PIL import Image
from streams import epoch_digest

import carya

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

TENSORS = {
    "box": ("box", "float32", (2, 2)),
    "three": ("three", "int64", 3),
    "bits": ("bits", "bool", (2,)),
    "raw": ("raw", "uint8", (2, 2)),
    "small": ("in.small", "int8", ()),
}


def jpeg(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(number, 40 + number % 7, 50)).save(buffer, "JPEG")
    return buffer.getvalue()


def table(first: int, last: int) -> Any:
    numbers = range(first, last)
    return pa.table(
        {
            "skipped": [{"a": list(range(n % 4)), "b": str(n)} for n in numbers],
            "image": [{"bytes": jpeg(n), "path": f"{n}.jpg"} for n in numbers],
            "long": pa.array([jpeg(n) for n in numbers], pa.large_binary()),
            "label": pa.array([n - 5 for n in numbers], pa.int16()),
            "yes": [n % 3 == 0 for n in numbers],
            "box": pa.array([[[n, 1], [2, 3]] for n in numbers], pa.list_(pa.large_list(pa.float32()))),
            "three": pa.array([[n, n + 1, n + 2] for n in numbers], pa.list_(pa.int64(), 3)),
            "bits": [[n % 2 == 0, True] for n in numbers],
            "in": pa.array([{"small": n - 4} for n in numbers], pa.struct([("small", pa.int8())])),
            "named": pa.array([str(n % 3) for n in numbers]).dictionary_encode(),
            "view": pa.array(["v" * 20 * n for n in numbers], pa.string_view()),
            "raw": pa.array([bytes([n] * 4) for n in numbers], pa.binary(4)),
        }
    )


def write(path: Path, rows: Any, *, stream: bool = True, chunk: int = 4, **options: Any) -> Path:
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(rows, max_chunksize=chunk)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("arrow")
    write(place / "a.arrow", table(0, 9))
    write(place / "b.arrow", table(9, 15), stream=False)
    return place


def test_rows_are_those_that_were_written(folder: Path) -> None:
    pipeline = carya.arrow(folder, image="image", label="label", tensors=TENSORS).decode_image()
    assert pipeline.open().count == 15
    for number in range(15):
        got = pipeline[number]
        assert np.array_equal(got["image"], np.asarray(Image.open(io.BytesIO(jpeg(number)))))
        assert got["label"] == number - 5
        assert got["box"].tolist() == [[number, 1], [2, 3]]
        assert got["three"].tolist() == [number, number + 1, number + 2]
        assert got["bits"].tolist() == [number % 2 == 0, True]
        assert got["raw"].tolist() == [[number] * 2] * 2
        assert got["small"] == number - 4
    other = carya.arrow(folder, image="long", label="yes").decode_image()
    assert [other[number]["label"] for number in range(4)] == [1, 0, 0, 1]
    assert np.array_equal(other[7]["image"], pipeline[7]["image"])


def test_options_and_kept_indexes_change_no_bit(folder: Path) -> None:
    def chain(paths: Any) -> carya.Pipeline:
        source = carya.arrow(paths, image="image", label="label", tensors=TENSORS).shuffle(seed=3)
        return source.decode_image().random_crop(30, pad_if_needed=True).batch(global_size=4)

    wanted = epoch_digest(chain(folder), epochs=2)
    assert epoch_digest(chain(str(folder / "*.arrow")), epochs=2, threads=3, slots=2) == wanted
    assert epoch_digest(chain([folder / "a.arrow", folder / "b.arrow"]), epochs=2, io_engine="pread") == wanted


@pytest.mark.parametrize("seed", range(8))
def test_random_tables_are_as_pyarrow_reads_them(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 60))
    values = [None if random.random() < 0.1 else random.bytes(int(random.integers(0, 50))) for _ in range(rows)]
    labels = [None if random.random() < 0.1 else int(random.integers(-(2**40), 2**40)) for _ in range(rows)]
    lists = [random.standard_normal(int(random.integers(2, 4))).tolist() for _ in range(rows)]
    whole = pa.table({"v": pa.array(values, pa.binary()), "l": labels, "t": pa.array(lists, pa.list_(pa.float64()))})
    part = whole.slice(int(random.integers(0, rows)))  # offsets that do not begin at 0
    path = write(tmp_path / "a.arrow", part, stream=bool(seed % 2), chunk=int(random.integers(1, 20)))
    read = carya.arrow(path, encoded={"v": "v"}, label="l", tensors={"t": ("t", "float64", 3)})
    got = read.open()
    assert got.count == part.num_rows
    for record, (value, label, numbers) in enumerate(zip(*(part[name].to_pylist() for name in "vlt"), strict=True)):
        if value and label is not None and len(numbers) == 3:
            address = got.address(record)
            assert path.read_bytes()[address["offset"] : address["offset"] + address["bytes"]] == value
            assert read[record]["t"].tolist() == numbers
            assert read[record]["label"] == label
        elif value != b"" or label is None or len(numbers) != 3:
            with pytest.raises(carya.SampleError, match=r"the record has no|has \d+ values|null"):
                read[record]


def test_broken_rows_are_told(tmp_path: Path) -> None:
    rows = table(0, 8).select(["image", "label", "box"]).to_pydict()
    rows["image"][1] = None
    rows["image"][2] = {"bytes": None, "path": "x.jpg"}
    rows["label"][3] = None
    rows["box"][4] = [[1.0], [2.0, 3.0, 4.0]]
    rows["box"][5] = [[1.0, 2.0]]
    rows["box"][6] = [[1.0, 2.0], [3.0, None]]
    schema = pa.schema([table(0, 1).schema.field(name) for name in ("image", "label", "box")])
    write(tmp_path / "a.arrow", pa.table(rows, schema=schema))
    source = carya.arrow(tmp_path, image="image", label="label", tensors={"box": ("box", "float32", (2, 2))})
    with carya.Loader(source.decode_image().resize((8, 8)).batch(8), on_error="mask") as loader:
        batch = next(iter(loader))
        assert [i for i in range(8) if not batch.valid[i]] == [1, 2, 3, 4, 5, 6]
        reasons = {entry["record"]: entry["reason"] for entry in loader.quarantine()}
    assert (
        reasons[1]
        == reasons[2]
        == ("the record has no image; give the record one value of bytes in it, or leave the field out")
    )
    assert reasons[3].startswith("the record has no label; give the record one integer")
    assert reasons[4].startswith("box holds another kind of value; give the record 4 of float32")
    assert reasons[5].startswith("box has 2 values")
    assert reasons[6].startswith("box holds another kind of value")


def test_a_file_cut_off_anywhere_is_refused_or_has_one_broken_record_at_its_end(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", table(0, 6).select(["image", "label"]), chunk=2).read_bytes()
    path = tmp_path / "a.arrow"
    counts, refused = set(), set()
    for end in [*range(0, len(whole), 97), len(whole) - 9, len(whole) - 1]:
        path.write_bytes(whole[:end])
        try:
            opened = carya.arrow(path, image="image", label="label").open()
        except (carya.SampleError, carya.NotFound) as error:
            refused.add(str(error).split(str(path))[0])
            continue
        counts.add(opened.count)
        with pytest.raises(carya.SampleError, match=r"the file ends \d+ B before the record does"):
            carya.arrow(path, image="image", label="label")[opened.count - 1]
    assert counts == {1, 3, 5, 7}
    assert refused == {"arrow "}, "not an Arrow IPC file"


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"image": "label"}, carya.InvalidArgument, "image: column label is stored as int16; give a column of binary"),
        ({"image": "skipped.a.item"}, carya.InvalidArgument, "it lies in a list: give the list itself"),
        ({"image": "image", "label": "box"}, carya.InvalidArgument, "stored as list; give a column of integers"),
        ({"image": "image", "label": "named"}, carya.InvalidArgument, "stored as dictionary; give a column of int"),
        ({"tensors": {"b": ("box", "int32", (2, 2))}}, carya.InvalidArgument, "give the dtype float32"),
        ({"tensors": {"b": ("view", "uint8", (2,))}}, carya.InvalidArgument, "stored as string_view"),
        ({"image": "img"}, carya.NotFound, r"image: no record has img; the first of .* image \(struct\), image.bytes"),
        ({}, carya.InvalidArgument, "got None; give the columns to read"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_columns_are_refused(folder: Path, arguments: dict[str, Any], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        carya.arrow(folder / "a.arrow", **arguments).open()


def test_what_cannot_be_read_in_place_is_refused(tmp_path: Path) -> None:
    for codec in ("lz4", "zstd"):
        write(tmp_path / "a.arrow", table(0, 3), compression=codec)
        with pytest.raises(carya.Unsupported, match=f"compressed with {codec}.*write it without compression"):
            carya.arrow(tmp_path, image="image").open()
    for content in (b"", b"PAR1" + bytes(40), b"ARROW1\0\0" + b"\xff" * 40, bytes(64), b"\xff" * 4 + b"\1\0\0\0" * 9):
        (tmp_path / "a.arrow").write_bytes(content)
        with pytest.raises(carya.SampleError, match="not an Arrow IPC file"):
            carya.arrow(tmp_path, image="image").open()
    twice = pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["x", "x"])
    write(tmp_path / "a.arrow", twice)
    with pytest.raises(carya.InvalidArgument, match="two columns are called x"):
        carya.arrow(tmp_path, image="x").open()
    with pytest.raises(carya.NotFound, match=r"called \*.arrow; give a glob"):
        carya.arrow(Path(__file__).parent, image="x")


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_lead_nowhere(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    whole = write(tmp_path / "whole", table(0, 6), stream=bool(seed % 2), chunk=3).read_bytes()
    path = tmp_path / "a.arrow"
    for _ in range(60):
        wrong = bytearray(whole)
        for place in random.integers(0, len(whole), int(random.integers(1, 30))):
            wrong[place] = int(random.integers(0, 256))
        path.write_bytes(wrong)
        try:
            opened = carya.arrow(path, image="image", label="label", tensors=TENSORS).open()
        except (carya.SampleError, carya.NotFound, carya.InvalidArgument, carya.Unsupported, carya.Exhausted):
            continue
        for record in range(min(opened.count, 8)):
            address = opened.address(record)
            assert address["offset"] + address["bytes"] <= len(whole)


def test_carya_index_knows_them(folder: Path, tmp_path: Path, capsys: Any) -> None:
    from carya._cli.cache import index_dataset

    index_dataset(str(folder), False, "off", 1, True, "image", "label")
    assert json.loads(capsys.readouterr().out)["records"] == 15
    write(tmp_path / "b.arrow", table(0, 4))
    write(tmp_path / "old.arrow", table(0, 4))
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "b.arrow"}]}))
    index_dataset(str(tmp_path), False, "off", 1, True, "image")
    assert json.loads(capsys.readouterr().out)["records"] == 4
    with pytest.raises(carya.InvalidArgument, match="--image image"):
        index_dataset(str(folder), False, "off", 1, True)


@dataclass
class FakeDataset:
    """What carya.hf_dataset asks of a datasets.Dataset."""

    cache_files: list[dict[str, str]]
    data: Any
    _indices: Any = None


def test_hugging_face_datasets_are_read_from_their_files(folder: Path, tmp_path: Path) -> None:
    files = [{"filename": str(folder / name)} for name in ("a.arrow", "b.arrow")]
    whole = table(0, 15)

    def labels(dataset: Any) -> list[int]:
        pipeline = carya.hf_dataset(dataset, image="image", label="label").decode_image().resize((4, 4)).batch(20)
        with carya.Loader(pipeline, threads=1, epochs=1) as loader:
            return [int(label) for batch in loader for label in batch["label"]]

    assert labels(FakeDataset(files, whole)) == list(range(-5, 10))
    chosen = pa.table({"indices": pa.array([7, 0, 14], pa.uint64())})
    assert labels(FakeDataset(files, whole, chosen)) == [2, -5, 9]
    kept = SimpleNamespace(path="chosen.arrow", column=chosen.column)
    assert labels(FakeDataset([*files, {"filename": "chosen.arrow"}], whole, kept)) == [2, -5, 9]
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "b.arrow"}, {"filename": "a.arrow"}]}))
    assert labels(folder) == [*range(4, 10), *range(-5, 4)]
    with pytest.raises(carya.InvalidArgument, match=r"table is not that of its files; give dataset.save_to_disk"):
        labels(FakeDataset(files, whole.slice(1)))
    with pytest.raises(carya.InvalidArgument, match="table is not that of its files"):
        labels(FakeDataset(files, whole.rename_columns([*whole.column_names[:-1], "other"])))
    # As of columns that changed their names with each other.
    swapped = whole.set_column(3, "label", pa.array(range(15), pa.int16()))
    mixed = pa.concat_tables([whole.slice(0, 14), whole.slice(0, 1)])  # a row of memory in the place of one of a file
    for changed in (swapped, mixed, pa.concat_tables([whole.slice(9), whole.slice(0, 9)])):
        with pytest.raises(carya.InvalidArgument, match="table is not that of its files"):
            labels(FakeDataset(files, changed))
    with pytest.raises(carya.InvalidArgument, match=r"it lies in memory; give dataset.save_to_disk"):
        labels(FakeDataset([], whole))
    for wrong in ({"train": FakeDataset(files, whole)}, [1, 2], 7):
        with pytest.raises(carya.InvalidArgument, match=r"give a datasets.Dataset"):
            labels(wrong)
    for text in ("{}", "[]", '{"_data_files": [{"filename": "../a"}]}', '{"_data_files": []}', '{"_data_files": 3}'):
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(carya.InvalidArgument):
            labels(tmp_path)
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(carya.InvalidArgument, match="one of its splits"):
        labels(tmp_path)
