"""Records of every format with all of their fields (`carya._records`), against the formats' own words and readers."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import record_writers as write
from conftest import DATA
from PIL import Image

import carya
from carya._containers.examples import parsed, serialized
from carya._records.crc32c import crc32c, masked
from carya._records.mds_shards import decoded
from carya._records.opening import open_records
from carya._records.records import Records


def opened(path: Path | str, raw: bool = False) -> Records:
    """Its records, as another process has them."""
    made: Records = pickle.loads(pickle.dumps(open_records(path, raw).records))
    return made


def test_crc32c_of_all_lengths_and_of_many_at_once() -> None:
    random = np.random.default_rng(1)
    lengths = [0, 1, 3, 4, 8, 63, 64, 65, 1023, 1024, 1025, 2048, 5000, *random.integers(0, 3000, 40).tolist()]
    records = [random.bytes(length) for length in lengths]
    assert [masked(crc) for crc in crc32c(records)] == [write.masked_crc(record) for record in records]


def test_examples_of_all_kinds_come_back() -> None:
    features = {
        "bytes": (1, [b"one"]),
        "several": (1, [b"a", b"", b"c"]),
        "number": (3, [-(2**63)]),
        "numbers": (3, [0, 2**63 - 1, -1, 300]),
        "float": (2, [0.5]),
        "floats": (2, [1.5, -2.0]),
        "none": (3, []),
    }
    found = parsed(serialized(features))
    assert found["bytes"] == b"one"
    assert found["several"] == [b"a", b"", b"c"]
    assert found["number"] == -(2**63)
    assert found["numbers"].tolist() == [0, 2**63 - 1, -1, 300]
    assert found["floats"].tolist() == [1.5, -2.0]
    assert found["float"] == np.float32(0.5)
    assert len(found["none"]) == 0


def test_examples_that_are_none_are_refused_and_random_bytes_end() -> None:
    whole = serialized({"x": (1, [b"one"]), "y": (2, [1.0, 2.0])})
    for end in range(len(whole)):
        try:
            parsed(whole[:end])
        except ValueError:
            continue
    random = np.random.default_rng(2)
    for _ in range(2000):
        try:
            parsed(random.bytes(int(random.integers(0, 60))))
        except ValueError:
            continue


def test_unpacked_lists_and_sequences() -> None:
    unpacked = write.field(
        1, write.field(1, write.field(1, b"x") + write.field(2, write.field(3, b"\x08\x05\x08\x06")))
    )
    assert parsed(unpacked)["x"].tolist() == [5, 6]
    inner = write.field(1, write.feature([7])) + write.field(1, write.feature([8, 9]))
    sequence = write.example({"id": b"a"}) + write.field(
        2, write.field(1, write.field(1, b"tokens") + write.field(2, inner))
    )
    found = parsed(sequence)
    assert found["id"] == b"a"
    assert found["tokens"][0] == 7
    assert found["tokens"][1].tolist() == [8, 9]
    with pytest.raises(ValueError, match="a feature and a feature list are called 'tokens'"):
        parsed(write.example({"tokens": [1]}) + sequence)


def test_tfrecords_with_broken_records(tmp_path: Path) -> None:
    whole = [write.example({"x": [n], "name": b"n%d" % n}) for n in range(5)]
    path = write.write_records(tmp_path / "a.tfrecord", whole, tail=write.frame(whole[0])[:-3])
    data = bytearray(path.read_bytes())
    data[len(write.frame(whole[0])) + 14] ^= 1
    path.write_bytes(data)
    records = opened(path)
    assert len(records) == 6
    assert records.read(0) == {"x": 0, "name": b"n0"}
    with pytest.raises(carya.SampleError, match=r"@\d+: its CRC is another one"):
        records.read(1)
    with pytest.raises(carya.SampleError, match="it was cut off"):
        records.read(5)
    assert records.sizes().tolist()[:5] == [len(one) for one in whole]  # type: ignore[union-attr]
    (tmp_path / "b.tfrecord").write_bytes(b"\x1f\x8b\x08" + bytes(30))
    with pytest.raises(carya.Unsupported, match="it is gzip"):
        opened(tmp_path / "b.tfrecord")
    (tmp_path / "c.tfrecord").write_bytes(b"x" * 50)
    with pytest.raises(carya.SampleError, match="does not begin as TFRecord files do"):
        opened(tmp_path / "c.tfrecord")


def members(path: Path, given: dict[str, bytes], how: str = "w") -> Path:
    with tarfile.open(path, how) as archive:
        for name, data in given.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


NPY = io.BytesIO()
np.save(NPY, np.arange(3, dtype=np.int16))
MEMBERS = {
    "d/a.JPG": b"\xff\xd8\xff", "d/a.cls": b"3", "d/a.json": b'{"x": 1}', "d/a.seg.npy": NPY.getvalue(), "d/b.txt": b"two", "none": b""
}  # fmt: skip


def test_members_of_tars_and_zips_mean_what_their_names_say(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in MEMBERS.items():
            archive.writestr(name, data)
    for path in (members(tmp_path / "a.tar", MEMBERS), tmp_path / "b.zip"):
        records = opened(path)
        assert len(records) == 2
        first = records.read(0)
        assert (first["jpg"], first["cls"], first["json"]) == (b"\xff\xd8\xff", 3, {"x": 1})
        assert first["seg.npy"].tolist() == [0, 1, 2]
        assert records.read(1) == {"txt": "two"}
        assert opened(path, raw=True).read(0)["cls"] == b"3"
        assert "key d/a" in records.place(0)
        assert ["members are compressed" in note for note in records.notes] == ([True] if path.suffix == ".zip" else [])


def test_tars_that_are_cut_off_appended_or_have_junk(tmp_path: Path) -> None:
    path = members(tmp_path / "a.tar", {"a.txt": b"a" * 600, "b.txt": b"b" * 600})
    whole = path.read_bytes()
    path.write_bytes(whole[: 512 + 1024 + 512 + 300])
    records = opened(path)
    assert records.read(0) == {"txt": "a" * 600}
    with pytest.raises(carya.SampleError, match=r"txt: wanted 600 B, got 300 B: it was cut off"):
        records.read(1)
    path.write_bytes(whole + members(tmp_path / "b.tar", {"c.txt": b"c"}).read_bytes())
    assert [opened(path).read(i)["txt"][0] for i in range(3)] == ["a", "b", "c"]
    path.write_bytes(whole[:1536] + b"junk" * 128 + whole[1536:])
    assert "bytes 1,536 to 2,048 are no members" in opened(path).notes[0]
    (tmp_path / "c.tar").write_bytes(b"no tar at all")
    with pytest.raises(carya.SampleError, match="does not begin as a tar does"):
        opened(tmp_path / "c.tar")


@pytest.mark.parametrize(
    ("encoding", "data", "value"),
    [
        ("int", struct.pack("<q", -3), -3),
        ("uint8", b"\xff", 255),
        ("float64", struct.pack("<d", 0.1), 0.1),
        ("str", "ä".encode(), "ä"),
        ("str_int", b"123456789012345678901", 123456789012345678901),
        ("json", b"[1, null]", [1, None]),
        ("jpeg", b"\xff\xd8", b"\xff\xd8"),
        ("pkl", b"cos\nsystem\n", b"cos\nsystem\n"),
        ("ndarray", b"\x11\x08\x02\x03" + np.arange(6, dtype="<i2").tobytes(), [[0, 1, 2], [3, 4, 5]]),
        ("ndarray:int16", b"\x04\x02" + np.arange(2, dtype="<i2").tobytes(), [0, 1]),
        ("ndarray:int16:2,1", np.arange(2, dtype="<i2").tobytes(), [[0], [1]]),
    ],
)
def test_values_of_mds(encoding: str, data: bytes, value: Any) -> None:
    found = decoded(encoding, data)
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == value


def test_samples_of_mds(tmp_path: Path) -> None:
    columns = {"x": ("int", 8), "text": ("str", None), "b": ("bytes", None)}
    samples = [{"x": struct.pack("<q", n), "text": b"t%d" % n, "b": bytes(n)} for n in range(4)]
    shard = write.mds_shard(columns, samples)
    folder = write.write_mds(tmp_path / "mds", [shard, shard])
    records = opened(folder)
    assert len(records) == 8
    assert records.read(5) == {"b": bytes(1), "text": "t1", "x": 1}
    broken = bytearray(shard)
    broken[-20] ^= 0xFF
    (folder / "shard.00001.mds").write_bytes(broken[:-1])
    records = opened(folder)
    with pytest.raises(carya.Error, match=r"shard\.00001\.mds, sample 3|wanted"):
        records.read(7)
    (folder / "shard.00001.mds").write_bytes(b"\xff" * 100)
    with pytest.raises(carya.SampleError, match=r"shard\.00001\.mds: .*do not fit"):
        opened(folder)


def test_a_file_that_changed_is_an_error(tmp_path: Path) -> None:
    path = write.write_records(tmp_path / "a.tfrecord", [write.example({"x": [1]})])
    records = opened(path)
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(carya.IoError, match="it changed since it was listed"):
        records.read(0)


def test_rows_of_tables_keep_their_nulls(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"x": [1, None], "l": [[1.5], [None, 2.0]], "s": [{"bytes": b"a", "path": None}, None]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.new_stream(tmp_path / "b.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("a.parquet", "a.arrow", "b.arrow"):
        records = opened(tmp_path / name)
        first, second = records.read(0), records.read(1)
        assert first["x"] == 1
        assert first["l"].tolist() == [1.5]
        assert first["s.bytes"] == b"a"
        assert second == {"x": None, "l": [None, 2.0], "s.bytes": None, "s.path": None}
        assert records.place(1).endswith("row 1")


def test_folders_and_text(photos: Path, tmp_path: Path) -> None:
    records = opened(photos)
    sample = records.read(26)
    assert (len(records), sample["label"], sample["class"]) == (27, 2, "class_c")
    assert Image.open(io.BytesIO(sample["image"])).size
    assert records.sizes()[26] == len(sample["image"])  # type: ignore[index]
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n[2]\nbroken\n')
    lines = opened(tmp_path / "a.jsonl")
    assert lines.read(1) == {"value": [2]}
    assert lines.sizes().tolist() == [9, 4, 7]
    with pytest.raises(carya.SampleError, match="mend the line"):
        lines.read(2)
    np.save(tmp_path / "a.npy", np.arange(3))
    assert opened(tmp_path / "a.npy").read(2)["value"] == 2


@pytest.mark.skipif(not DATA, reason="needs CARYA_TEST_DATA")
def test_real_files_are_read_as_carya_reads_them() -> None:
    path = os.path.join(DATA or "", "formats", "tfrecord_raccoon", "test.record")
    records = opened(path)
    native = carya.tfrecord(path, image="image/encoded")
    assert len(records) == len(native) == 40
    for index in (0, 17, 39):
        assert records.read(index)["image/encoded"] == native[index]["image"].tobytes()
    path = os.path.join(DATA or "", "text", "gsm8k", "train.jsonl")
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    records = opened(path)
    assert [records.read(i) for i in range(len(records))] == lines
