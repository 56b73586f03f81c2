"""MDS shards, read where they lie."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import picture
from PIL import Image
from record_writers import mds_shard, write_mds
from streams import epoch_digest

import carya

COLUMNS: dict[str, tuple[str, int | None]] = {
    "image": ("jpeg", None),
    "label": ("int", 8),
    "small": ("int8", 1),
    "digits": ("str_int", None),
    "box": ("ndarray:float32:2,2", 16),
    "row": ("ndarray:uint16", None),
    "free": ("ndarray", None),
    "raw": ("bytes", None),
    "text": ("str", None),
    "code": ("pkl", None),
}


def jpeg(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(number, 40 + number, 50)).save(buffer, "JPEG")
    return buffer.getvalue()


def sample(number: int, **other: bytes) -> dict[str, bytes]:
    return {
        "image": jpeg(number),
        "label": struct.pack("<q", -number),
        "small": struct.pack("<b", number - 4),
        "digits": str(number * 10).encode(),
        "box": struct.pack("<4f", number, 1, 2, 3),
        "row": bytes([1 << 2 | 0, 3]) + struct.pack("<3H", number, 500, 60000),
        "free": bytes([65, 2 << 2 | 1]) + struct.pack("<2H", 1, 2) + struct.pack("<2q", number, -1),
        "raw": bytes([number] * 6),
        "text": b"caf\xc3\xa9",
        "code": b"never read",
        **other,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shards = [mds_shard(COLUMNS, [sample(shard * 5 + i) for i in range(5)]) for shard in range(3)]
    made = write_mds(tmp_path_factory.mktemp("mds") / "train", shards)
    time.sleep(0.1)  # an index of files that were changed less than 50 ms ago is not kept
    return made


TENSORS = {
    "box": ("box", "float32", (2, 2)),
    "row": ("row", "uint16", 3),
    "free": ("free", "int64", (2,)),
    "raw": ("raw", "uint8", (2, 3)),
    "small": ("small", "int8", ()),
}


def test_samples_are_those_that_were_written(folder: Path) -> None:
    pipeline = carya.mds(folder, image="image", label="label", tensors=TENSORS).decode_image()
    assert pipeline.open().count == 15
    for number in range(15):
        got = pipeline[number]
        assert np.array_equal(got["image"], np.asarray(Image.open(io.BytesIO(jpeg(number)))))
        assert got["label"] == -number
        assert got["box"].tolist() == [[number, 1], [2, 3]]
        assert got["row"].tolist() == [number, 500, 60000]
        assert got["free"].tolist() == [number, -1]
        assert got["raw"].tolist() == [[number] * 3] * 2
        assert got["small"] == number - 4
    for column, wanted in (("small", -4), ("digits", 0)):
        assert carya.mds(folder, image="image", label=column).decode_image()[0]["label"] == wanted


def test_options_ranks_and_several_folders_change_no_bit(folder: Path) -> None:
    def chain(paths: Any) -> carya.Pipeline:
        source = carya.mds(paths, image="image", label="label", tensors=TENSORS).shuffle(seed=3)
        return source.decode_image().random_crop(30, pad_if_needed=True).batch(global_size=4)

    wanted = epoch_digest(chain(folder), epochs=2)
    assert epoch_digest(chain([folder]), epochs=2, threads=3, slots=2) == wanted
    assert epoch_digest(chain(folder), epochs=2, io_engine="pread", threads=1) == wanted
    assert carya.mds([folder, folder], image="image").open().count == 30


def test_broken_samples_are_told(tmp_path: Path) -> None:
    shard = mds_shard(COLUMNS, [sample(n) for n in range(6)] + [sample(6, digits=b"six")])
    (begin,) = struct.unpack_from("<I", shard, 4 * 3)  # of sample 2
    shard = shard[:begin] + struct.pack("<I", 7) + shard[begin + 4 :]
    cut = mds_shard(COLUMNS, [sample(n) for n in range(3)])[:-10]
    folder = write_mds(tmp_path / "a", [shard, cut])
    source = carya.mds(folder, image="image", label="digits").decode_image().resize((8, 8)).batch(10)
    with carya.Loader(source, on_error="mask") as loader:
        batch = next(iter(loader))
        assert [i for i in range(10) if not batch.valid[i]] == [2, 6, 9]
        reasons = {entry["record"]: (entry["path"], entry["reason"]) for entry in loader.quarantine()}
    assert reasons[2][1].startswith("the record is no message of the format")
    assert reasons[6][1].startswith("digits holds another kind of value; give the record one integer")
    assert reasons[9] == (
        f"{folder}/shard.00001.mds",
        "the file ends 10 B before the record does; copy the file again, or write it anew",
    )


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"image": "code"}, carya.Unsupported, "image: column code is stored as pkl; write it as jpeg"),
        ({"image": "label"}, carya.InvalidArgument, "is stored as int; give it as label or among tensors"),
        ({"image": "image", "label": "text"}, carya.InvalidArgument, "is stored as str; give a column of integers"),
        ({"image": "image", "label": "box"}, carya.InvalidArgument, "give a column of integers"),
        ({"tensors": {"b": ("box", "int32", (2, 2))}}, carya.InvalidArgument, "give the dtype float32"),
        ({"tensors": {"b": ("text", "uint8", (2,))}}, carya.InvalidArgument, "stored as str; give a column of numbers"),
        ({"image": "img"}, carya.NotFound, "image: no record has img; the first of .*: box .ndarray:float32:2,2., code .pkl."),
        ({}, carya.InvalidArgument, "got None; give the columns to read"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_columns_are_refused(folder: Path, arguments: dict[str, Any], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        carya.mds(folder, **arguments).open()


def test_carya_index_knows_them(folder: Path, capsys: Any) -> None:
    from carya._cli.cache import files, index_dataset

    index_dataset(str(folder), False, "off", 1, True, "image", "label")
    assert json.loads(capsys.readouterr().out)["records"] == 15
    assert [line["records"] for line in files(os.environ["CARYA_CACHE_DIR"]) if line["kind"] == "records"] == [5, 5, 5]
    with pytest.raises(carya.InvalidArgument, match="--image image"):
        index_dataset(str(folder), False, "off", 1, True)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"shards": [{}]}', '{"shards": 3}', '{"shards": [{"raw_data": {"basename": "../a"}}]}',
     '{"shards": [{"raw_data": {"basename": "/a"}}]}', '{"shards": [{"raw_data": {"basename": 7}}]}'],
)  # fmt: skip
def test_an_index_that_lies_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(carya.InvalidArgument):
        carya.mds(tmp_path, image="image")


def test_what_is_no_shard_is_named(tmp_path: Path) -> None:
    with pytest.raises(carya.NotFound, match="has no index"):
        carya.mds(tmp_path, image="image")
    good = mds_shard(COLUMNS, [sample(1)])
    (config,) = struct.unpack_from("<I", good, 4)
    for shard in (b"", b"abc", good[:20], b"\xff" * 40, good[:12] + b"x" * (config - 12) + good[config:]):
        with pytest.raises(carya.SampleError, match="not an MDS shard"):
            carya.mds(write_mds(tmp_path / "a", [shard]), image="image").open()
    with pytest.raises(carya.Unsupported, match="compressed with zstd"):
        carya.mds(write_mds(tmp_path / "a", [b"\x28\xb5\x2f\xfd" + b"0" * 40]), image="image").open()
    packed = {"raw_data": {"basename": "shard.00000.mds"}, "zip_data": {"basename": "shard.00000.mds.zstd"}}
    (tmp_path / "index.json").write_text(json.dumps({"shards": [packed]}))
    with pytest.raises(carya.Unsupported, match=r"shard.00000.mds.zstd: compressed.*unpack"):
        carya.mds(tmp_path, image="image")


@pytest.mark.skipif(importlib.util.find_spec("streaming") is None, reason="mosaicml-streaming is not installed")
def test_shards_of_mosaic_s_writer_are_read(tmp_path: Path) -> None:
    from streaming import MDSWriter

    random = np.random.default_rng(3)
    columns = {
        "a": "bytes",
        "b": "int",
        "c": "ndarray:float32:5",
        "d": "ndarray",
        "e": "uint16",
        "f": "str",
        "g": "jpeg",
    }
    rows = []
    with MDSWriter(out=str(tmp_path / "out"), columns=columns, size_limit=1 << 16) as out:
        for number in range(300):
            row = {
                "a": random.bytes(int(random.integers(0, 900))),
                "b": number - 100,
                "c": random.standard_normal(5).astype(np.float32),
                "d": random.integers(0, 99, (2, 3)),
                "e": np.uint16(number),
                "f": "x" * (number % 7),
                "g": Image.fromarray(picture(number, 20, 20)),
            }
            out.write(row)
            rows.append(row)
    source = carya.mds(
        tmp_path / "out",
        encoded={"blob": "a"},
        label="b",
        tensors={"c": ("c", "float32", 5), "d": ("d", "int64", (2, 3)), "e": ("e", "uint16", ())},
    )
    dataset = source.open()
    assert dataset.count == 300
    only = carya.mds(tmp_path / "out", tensors={"c": ("c", "float32", 5), "d": ("d", "int64", (2, 3))}, label="b")
    for number, row in enumerate(rows):
        place = dataset.address(number)
        data = Path(place["path"]).read_bytes()
        assert data[place["offset"] :][: place["bytes"]] == row["a"]
        got = only[number]
        assert got["label"] == row["b"]
        assert np.array_equal(got["c"], row["c"])
        assert np.array_equal(got["d"], row["d"])
