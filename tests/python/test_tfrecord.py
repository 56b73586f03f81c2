"""TFRecord files, read where they lie: the same records, the same stream, what is broken told apart."""

from __future__ import annotations

import gzip
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
from conftest import DATA, picture
from daemons import running
from PIL import Image
from record_writers import example, field, frame, varint, write_records
from streams import digest, epoch_digest

import carya

KEYS = {"image": "image/encoded", "label": "image/class/label"}


def jpeg(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(number, 60 + number, 70)).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def photo_record(number: int) -> bytes:
    box = [number / 7, -1.0, 0.5, 3.0e30]
    return example(
        {"image/encoded": jpeg(number), "image/class/label": number - 3, "box": box, "id": [number, -number]}
    )


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 photos in three files."""
    folder = tmp_path_factory.mktemp("shards")
    for shard in range(3):
        write_records(folder / f"train-{shard:05d}-of-00003", [photo_record(shard * 8 + i) for i in range(8)])
    (folder / "dataset_info.json").write_text("{}")
    time.sleep(0.1)  # an index of files that were changed less than 50 ms ago is not kept
    return folder


TENSORS = {"box": ("box", "float32", (2, 2)), "id": ("id", "int64", (2,))}


def chain(paths: Any, **batch: Any) -> carya.Pipeline:
    source = carya.tfrecord(paths, **KEYS, tensors=TENSORS).shuffle(seed=11).decode_image()
    return source.random_resized_crop(32).random_horizontal_flip().batch(**(batch or {"global_size": 8}))


def test_records_are_those_that_were_written(shards: Path) -> None:
    pipeline = carya.tfrecord(shards, **KEYS, tensors=TENSORS).decode_image()
    assert pipeline.open().count == 24
    for number in range(24):
        sample = pipeline[number]
        assert np.array_equal(sample["image"], np.asarray(Image.open(io.BytesIO(jpeg(number)))))
        assert sample["label"] == number - 3
        assert np.array_equal(sample["box"], np.array([[number / 7, -1], [0.5, 3e30]], np.float32))
        assert sample["id"].tolist() == [number, -number]


def test_the_stream_is_that_of_the_same_files_in_a_list(shards: Path, tmp_path: Path) -> None:
    """Same photos, same labels, same numbers: only the container differs."""
    paths = []
    for number in range(24):
        paths.append(tmp_path / f"{number:02d}.jpg")
        paths[-1].write_bytes(jpeg(number))
    plain = carya.files(paths, labels=[n - 3 for n in range(24)]).shuffle(seed=11).decode_image()
    plain = plain.random_resized_crop(32).random_horizontal_flip().batch(global_size=8)
    with carya.Loader(chain(shards)) as ours, carya.Loader(plain) as theirs:
        assert digest(iter(ours), ("image", "label")) == digest(iter(theirs), ("image", "label"))


def test_paths_may_be_a_list_a_pattern_braces_or_a_folder(shards: Path) -> None:
    wanted = carya.tfrecord(shards, **KEYS).open().fingerprint
    names = [f"train-{shard:05d}-of-00003" for shard in range(3)]
    for given in ([shards / name for name in names], f"{shards}/train-*", f"{shards}/train-{{00000..00002}}-of-00003"):
        assert carya.tfrecord(given, **KEYS).open().fingerprint == wanted
    with pytest.raises(carya.NotFound, match=r"no file in .* is called \*.tfrecord"):
        carya.tfrecord(shards.parent, **KEYS)


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 1},
        {"threads": 3},
        {"slots": 2},
        {"read_ahead": 1},
        {"io_engine": "pread", "threads": 2},
        {"on_error": "mask"},
    ],
    ids=str,
)
def test_options_change_no_bit(shards: Path, options: dict[str, Any]) -> None:
    assert epoch_digest(chain(shards), epochs=2, **options) == epoch_digest(chain(shards), epochs=2)


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks_concatenated_change_no_bit(shards: Path, world_size: int) -> None:
    with carya.Loader(chain(shards)) as loader:
        whole = [(batch.records.tolist(), batch["image"].tobytes(), batch["box"].tobytes()) for batch in loader]
    parts: list[Any] = []
    for rank in range(world_size):
        with carya.Loader(chain(shards), rank=rank, world_size=world_size, threads=1) as loader:
            parts.append([[x[b.valid] for x in (b.records, b["image"], b["box"])] for b in loader])
    for step, (records, image, box) in enumerate(whole):
        assert [int(r) for part in parts for r in part[step][0]] == records
        assert b"".join(part[step][1].tobytes() for part in parts) == image
        assert b"".join(part[step][2].tobytes() for part in parts) == box


def test_resuming_after_any_step_goes_on_exactly(shards: Path) -> None:
    with carya.Loader(chain(shards), epochs=1) as loader:
        whole = [(batch.state_dict(), batch.records.tolist(), batch["id"].tolist()) for batch in loader]
    for done, (state, _, _) in enumerate(whole):
        with carya.Loader(chain(shards), epochs=1, state=state, threads=2) as loader:
            rest = [(batch.records.tolist(), batch["id"].tolist()) for batch in loader]
        assert rest == [step[1:] for step in whole[done + 1 :]]


def test_the_daemon_s_stream_is_the_embedded_one(shards: Path) -> None:
    wanted = epoch_digest(chain(shards), epochs=2, daemon="embedded")
    with running("--linger", "5") as daemon:
        assert epoch_digest(chain(shards), epochs=2, daemon=daemon.socket) == wanted


def broken(tmp_path: Path) -> Path:
    """12 records; 2 has a wrong CRC, 4 no image, 5 two labels, 7 is no Example, 9 no picture; then a tail."""
    records = [photo_record(number) for number in range(12)]
    records[4] = example({"image/class/label": 4, "box": [0.0] * 4, "id": [4, 4]})
    records[5] = example({"image/encoded": jpeg(5), "image/class/label": [1, 2], "box": [0.0] * 4, "id": [5, 5]})
    records[7] = b"\x0a\xff\xff\xff\xff\x0f"
    records[9] = example({"image/encoded": b"no picture", "image/class/label": 9, "box": [0.0] * 4, "id": [9, 9]})
    data = bytearray(b"".join(map(frame, records)))
    data[sum(len(frame(record)) for record in records[:2]) + 30] ^= 1
    path = tmp_path / "broken.tfrecord"
    path.write_bytes(bytes(data) + frame(records[0])[:-20])
    return path


REASONS = {
    2: "the checksum of the record's data is wrong",
    4: "the record has no image/encoded",
    5: "image/class/label has 2 values",
    7: "the record is no message of the format, wrong at its byte 6",
    12: "the file ends 20 B before the record does",
}


def test_broken_records_are_told_with_place_and_reason(tmp_path: Path) -> None:
    path = broken(tmp_path)
    source = carya.tfrecord(path, **KEYS, tensors=TENSORS).decode_image().resize((8, 8)).batch(13)
    with carya.Loader(source, on_error="mask") as loader:
        batch = next(iter(loader))
        assert [record for record in range(13) if not batch.valid[record]] == [2, 4, 5, 7, 9, 12]
        entries = {entry["record"]: entry for entry in loader.quarantine()}
    assert entries.keys() == {2, 4, 5, 7, 9, 12}
    for record, reason in REASONS.items():
        assert entries[record]["stage"] == "tfrecord"
        assert entries[record]["reason"].startswith(reason)
        assert entries[record]["path"] == str(path)
        assert entries[record]["member"] == f"#{record}"
    assert entries[9]["stage"] == "decode_image"
    data = path.read_bytes()
    assert data[entries[9]["offset"] :].startswith(b"no picture")
    assert data[entries[7]["offset"] :].startswith(b"\x0a\xff\xff\xff\xff\x0f")


def test_broken_records_follow_the_policy(tmp_path: Path) -> None:
    path = broken(tmp_path)
    source = carya.tfrecord(path, **KEYS).decode_image().resize((8, 8)).batch(1)
    with carya.Loader(source, epochs=1, on_error="replace") as loader:
        assert len([batch.records.tolist() for batch in loader]) == 13
        assert {entry["record"] for entry in loader.quarantine()} == {2, 4, 5, 7, 9, 12}
    with (
        carya.Loader(source) as loader,
        pytest.raises(carya.SampleError, match="checksum of the record's data") as caught,
    ):
        for _ in loader:
            pass
    assert str(path) in str(caught.value)
    with pytest.raises(carya.SampleError, match="has no image/encoded"):
        carya.tfrecord(path, **KEYS).decode_image()[4]


def test_a_crc_that_is_not_checked_is_no_fault(tmp_path: Path) -> None:
    data = bytearray(frame(example({"x": 5})))
    data[-1] ^= 1
    path = tmp_path / "a.tfrecord"
    path.write_bytes(bytes(data))
    wanted = {"x": ("x", "int64", ())}
    assert carya.tfrecord(path, tensors=wanted, check_data=False)[0]["x"] == 5
    with pytest.raises(carya.SampleError, match="checksum"):
        carya.tfrecord(path, tensors=wanted)[0]


def test_tensors_alone_are_a_source(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).integers(0, 256, (50, 3, 4), np.uint8)
    path = write_records(tmp_path / "rows", [example({"raw": row.tobytes(), "y": i}) for i, row in enumerate(rows)])
    source = carya.tfrecord(path, label="y", tensors={"row": ("raw", np.uint8, (3, 4)), "wide": ("raw", "<u4", 3)})
    assert source.outputs == [("row", "uint8", (3, 4)), ("wide", "uint32", (3,)), ("label", "int64", ())]
    with carya.Loader(source.shuffle(seed=1).batch(10), epochs=1) as loader:
        for batch in loader:
            assert np.array_equal(batch["row"], rows[batch.records])
            assert np.array_equal(batch["wide"].view(np.uint8).reshape(-1, 3, 4), rows[batch.records])
            assert np.array_equal(batch["label"], batch.records)
    assert source.open().address(3)["path"] == str(path)
    # Another value is another dataset, also where no byte count changes.
    first = source.open().fingerprint
    write_records(path, [example({"raw": row.tobytes(), "y": i}) for i, row in enumerate(rows[::-1])])
    os.utime(path)
    assert source.open().fingerprint != first


def test_whole_records_are_a_source(tmp_path: Path) -> None:
    path = write_records(tmp_path / "pictures.tfrecord", [jpeg(1), jpeg(2)])
    sample = carya.tfrecord(path, record="image").decode_image()[1]
    assert np.array_equal(sample["image"], np.asarray(Image.open(io.BytesIO(jpeg(2)))))


def test_further_pictures_are_cut_alike(tmp_path: Path) -> None:
    mask = np.where(picture(1, 61, 70)[..., :1] > 128, 255, 0).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(mask[..., 0]).save(buffer, "PNG")
    path = write_records(tmp_path / "a.tfrecord", [example({"i": jpeg(1), "m": buffer.getvalue()})])
    source = (
        carya.tfrecord(path, image="i", encoded={"mask": "m"}).decode_image(fields=["image"]).decode_image(mode="L")
    )
    sample = source.center_crop(20)[0]
    assert sample["image"].shape == (20, 20, 3)
    assert np.array_equal(sample["mask"], mask[20:40, 25:45])  # torchvision rounds the half up


def test_the_context_of_a_sequence_example_is_read(tmp_path: Path) -> None:
    lists = field(2, field(1, field(1, b"frames") + field(2, b"")))
    path = write_records(tmp_path / "a.tfrecord", [example({"x": 3}) + lists])
    assert carya.tfrecord(path, tensors={"x": ("x", "int64", 1)})[0]["x"].tolist() == [3]
    with pytest.raises(carya.NotFound, match=r"no record has frames.*frames \(a list of a SequenceExample, not read\)"):
        carya.tfrecord(path, encoded={"image": "frames"}).open()


def test_indexes_are_kept_and_follow_the_file(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [example({"x": 1})])
    time.sleep(0.1)  # a file that changed just now is indexed anew
    source = carya.tfrecord(path, tensors={"x": ("x", "int64", ())})
    assert not source.open().from_cache
    assert source.open().from_cache
    assert not source.open(verify=True).from_cache
    path.write_bytes(frame(example({"x": 2})) * 2)
    assert source.open().count == 2
    assert not carya.tfrecord(path, tensors={"x": ("x", "int64", (1,))}, check_data=False).open().from_cache


def test_a_file_written_anew_under_a_loader_is_never_bad_data(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [example({"i": jpeg(n)}) for n in range(6)])
    source = carya.tfrecord(path, image="i").decode_image().resize((8, 8)).batch(1)
    with carya.Loader(source, read_ahead=1, slots=2, io_timeout=0.2, on_error="mask") as loader:
        iterator = iter(loader)
        next(iterator)
        path.write_bytes(b"x" * path.stat().st_size)
        with pytest.raises(carya.IoError, match="changed since it was listed"):
            for _ in iterator:
                pass
        assert loader.quarantine() == []


def test_what_is_no_tfrecord_is_named_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(gzip.compress(frame(b"x")))
    with pytest.raises(carya.Unsupported, match=r"compressed with gzip.*gzip -dc .*a.tfrecord"):
        carya.tfrecord(tmp_path / "a.tfrecord", record="image").open()
    (tmp_path / "b.tfrecord").write_text('{"json": "of something"}')
    with pytest.raises(carya.SampleError, match=r"b.tfrecord @0: not a TFRecord file"):
        carya.tfrecord(tmp_path / "b.tfrecord", record="image").open()
    write_records(tmp_path / "c.tfrecord", [example({"jpeg": b"x", "y": [1, 2]})])
    with pytest.raises(
        carya.NotFound, match=r"image: no record has image; the first of .*: jpeg \(1 bytes\), y \(2 int64\)"
    ):
        carya.tfrecord(tmp_path / "c.tfrecord", image="image").open()
    with pytest.raises(carya.NotFound, match="no record in"):
        carya.tfrecord(write_records(tmp_path / "d.tfrecord", []), image="image").open()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, 'got None; give what to read of each record, such as image="image/encoded"'),
        ({"tensors": {"x": "x"}}, "a tuple of name, dtype and shape"),
        ({"tensors": {"x": ("x", "text", 1)}}, "a tuple of name, dtype and shape"),
        ({"tensors": {"x": ("x", "<U4", 1)}}, "dtype"),
        ({"tensors": {"x": ("x", "float32", (2**32,))}}, "at most 4294967296 B per row"),
        ({"tensors": {"x": (3, "float32", (2,))}}, "key"),
        ({"image": 3}, "give a name"),
        ({"image": "i", "label": 3}, "label: got 3"),
        ({"image": "i", "tensors": {"image": ("x", "float32", (1,))}}, "is there twice"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(carya.InvalidArgument) as caught:
        carya.tfrecord("a.tfrecord", **arguments)
    assert said in str(caught.value)


def test_a_document_is_the_same_pipeline(shards: Path) -> None:
    pipeline = chain(shards)
    again = carya.Pipeline.from_json(pipeline.to_json())
    assert again.to_json() == pipeline.to_json()
    assert epoch_digest(again) == epoch_digest(pipeline)


def test_carya_index_and_cache_know_them(shards: Path, capsys: Any) -> None:
    from carya._cli.cache import files, index_dataset, remove, verify

    index_dataset(str(shards), False, "rows", 1, True, "image/encoded", "image/class/label")
    said = json.loads(capsys.readouterr().out)
    assert said["records"] == 24
    assert said["index_files"] == 24
    with pytest.raises(carya.InvalidArgument, match="--image image/encoded"):
        index_dataset(str(shards), False, "off", 1, True)
    kept = [line for line in files(os.environ["CARYA_CACHE_DIR"]) if line["kind"] == "records"]
    assert [line["records"] for line in kept] == [8, 8, 8]
    verify([], None, True)
    with open(kept[0]["path"], "r+b") as file:
        file.seek(120)
        file.write(b"\xff")
    with pytest.raises(SystemExit):
        verify([], None, True)
    remove([line["name"] for line in kept], False, None, True)
    assert not [line for line in files(os.environ["CARYA_CACHE_DIR"]) if line["kind"] == "records"]


# Files that other writers wrote.


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
def test_a_real_detection_set_is_read() -> None:
    path = Path(DATA or "", "formats", "tfrecord_raccoon", "test.record")
    keys = {"height": ("image/height", "int64", ()), "width": ("image/width", "int64", ())}
    pipeline = carya.tfrecord(path, image="image/encoded", tensors=keys).decode_image()
    count = pipeline.open().count
    assert count > 10
    for number in range(count):
        sample = pipeline[number]
        assert sample["image"].shape == (sample["height"], sample["width"], 3)


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
def test_real_compressed_files_are_told() -> None:
    folder = Path(
        DATA or "", "formats", "tfrecord_tfx", "tfx", "components", "testdata", "csv_example_gen", "Split-eval"
    )
    with pytest.raises(carya.Unsupported, match="compressed with gzip"):
        carya.tfrecord(sorted(folder.iterdir()), record="image").open()


@pytest.mark.skipif(importlib.util.find_spec("tfrecord") is None, reason="tfrecord is not installed")
def test_files_of_the_package_tfrecord_are_read(tmp_path: Path) -> None:
    import tfrecord

    random = np.random.default_rng(3)
    path = tmp_path / "a.tfrecord"
    writer = tfrecord.TFRecordWriter(str(path))
    rows = []
    for number in range(200):
        blob = random.bytes(int(random.integers(0, 3000)))
        floats = random.standard_normal(5).astype(np.float32)
        numbers = [int(n) for n in random.integers(-(2**63), 2**63 - 1, 3)]
        rows.append((blob, floats, numbers))
        writer.write(
            {"b": (blob, "byte"), "f": (floats.tolist(), "float"), "i": (numbers, "int"), "y": (number, "int")}
        )
    writer.close()
    wanted = {"f": ("f", "float32", 5), "i": ("i", "int64", 3)}
    dataset = carya.tfrecord(path, encoded={"blob": "b"}, label="y", tensors=wanted).open()
    assert dataset.count == 200
    data = path.read_bytes()
    only = carya.tfrecord(path, label="y", tensors=wanted)
    for number, (blob, floats, numbers) in enumerate(rows):
        place = dataset.address(number)
        assert data[place["offset"] :][: place["bytes"]] == blob
        sample = only[number]
        assert np.array_equal(sample["f"], floats)
        assert sample["i"].tolist() == numbers
        assert sample["label"] == number


@pytest.mark.skipif(importlib.util.find_spec("google") is None, reason="protobuf is not installed")
def test_messages_mean_what_protobuf_says(tmp_path: Path) -> None:
    """Random messages, right and wrong: taken or refused as protobuf's own parser does."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")

    def add(parent: Any, name: str, fields: list[tuple[str, int, int, str, bool]]) -> Any:
        made = parent.add(name=name)
        for label, number, kind, type_name, repeated in fields:
            made.field.add(
                name=label, number=number, type=kind, type_name=type_name or None,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
            )  # fmt: skip
        return made

    add(file.message_type, "BytesList", [("value", 1, kinds.TYPE_BYTES, "", True)])
    add(file.message_type, "FloatList", [("value", 1, kinds.TYPE_FLOAT, "", True)])
    add(file.message_type, "Int64List", [("value", 1, kinds.TYPE_INT64, "", True)])
    feature_type = add(
        file.message_type,
        "Feature",
        [(f"{name}_list", n, kinds.TYPE_MESSAGE, f".t.{kind}", False) for n, (name, kind) in enumerate(
            [("bytes", "BytesList"), ("float", "FloatList"), ("int64", "Int64List")], 1)],
    )  # fmt: skip
    feature_type.oneof_decl.add(name="kind")
    for item in feature_type.field:
        item.oneof_index = 0
    features = add(
        file.message_type, "Features", [("feature", 1, kinds.TYPE_MESSAGE, ".t.Features.FeatureEntry", True)]
    )
    entry = add(
        features.nested_type,
        "FeatureEntry",
        [("key", 1, kinds.TYPE_BYTES, "", False), ("value", 2, kinds.TYPE_MESSAGE, ".t.Feature", False)],
    )
    entry.options.map_entry = True
    entry.field[0].type = kinds.TYPE_STRING
    add(file.message_type, "Example", [("features", 1, kinds.TYPE_MESSAGE, ".t.Features", False)])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    Example = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))

    random = np.random.default_rng(5)
    messages = []
    for number in range(1500):
        values = varint(24) + b"\x01" + field(3, varint(8) + varint(number * 17) + field(1, b"") + varint(80) + b"\x01")
        last = field(1, field(1, field(1, b"a") + field(2, values)))
        others = {"a": 3, "b": [1.0] * int(random.integers(0, 3)), "a2": b"x", "c": []}
        # Every second message has nothing but what is asked for, since nothing else is looked into. Damage is in
        # the feature: what an entry of a map with unknown fields means, protobuf's own parsers disagree about.
        whole = bytearray((b"" if number % 2 else example(others)) + last + varint(72) + b"\x05")
        at = whole.rindex(values)
        for _ in range(int(random.integers(0, 3))):
            whole[int(random.integers(at, at + len(values)))] = int(random.integers(0, 256))
        if number % 10 == 0:
            del whole[int(random.integers(0, len(whole))) :]
        messages.append(bytes(whole))
    path = write_records(tmp_path / "a.tfrecord", messages)
    source = carya.tfrecord(path, tensors={"a": ("a", "int64", 1)})
    with carya.Loader(source.batch(len(messages)), on_error="mask") as loader:
        batch = next(iter(loader))
    taken = 0
    for number, text in enumerate(messages):
        ours, valid, wanted = batch["a"][number, 0], batch.valid[number], None
        try:
            found = Example.FromString(text).features.feature
            if "a" in found and len(found["a"].int64_list.value) == 1:
                wanted = found["a"].int64_list.value[0]
        except message.DecodeError:
            if number % 2 == 0 or not _is_text(text):
                continue  # protobuf looks into all features, and refuses keys that are no UTF-8
        assert (ours if valid else None) == wanted, text
        taken += valid
    assert 500 < taken < 1400


def _is_text(message: bytes) -> bool:
    try:
        message.replace(b"\xff", b"").decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False


def test_a_gigantic_length_costs_nothing(tmp_path: Path) -> None:
    length = struct.pack("<Q", 2**63)
    from record_writers import masked_crc

    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(jpeg(1)) + length + struct.pack("<I", masked_crc(length)) + b"data")
    assert carya.tfrecord(path, record="image").open().count == 2
