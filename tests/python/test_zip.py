"""Zips whose members are stored, read as tars are."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import picture
from PIL import Image
from streams import digest, epoch_digest

import carya


def jpeg(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(number, 50 + number, 60)).save(buffer, "JPEG")
    return buffer.getvalue()


def write(path: Path, count: int, **options: int) -> Path:
    with zipfile.ZipFile(path, "w", **options) as out:
        out.mkdir("photos")
        for number in range(count):
            out.writestr(f"photos/{number:03d}.jpg", jpeg(number))
            out.writestr(f"photos/{number:03d}.cls", str(number * 3))
    return path


def test_members_are_those_that_were_written(tmp_path: Path) -> None:
    pipeline = carya.webdataset(write(tmp_path / "a.zip", 12)).decode_image()
    assert pipeline.open().count == 12
    for number in range(12):
        sample = pipeline[number]
        assert sample["label"] == number * 3
        assert np.array_equal(sample["image"], np.asarray(Image.open(io.BytesIO(jpeg(number)))))


def test_the_stream_is_that_of_files(tmp_path: Path) -> None:
    paths = []
    for number in range(12):
        paths.append(tmp_path / f"{number:02d}.jpg")
        paths[-1].write_bytes(jpeg(number))
    plain = carya.files(paths, labels=[3 * n for n in range(12)])
    zipped = carya.webdataset(write(tmp_path / "a.zip", 12))

    def chain(source: carya.Pipeline) -> carya.Pipeline:
        return source.shuffle(seed=3).decode_image().random_resized_crop(24).batch(global_size=4)

    with carya.Loader(chain(zipped), epochs=1) as ours, carya.Loader(chain(plain), epochs=1) as theirs:
        assert digest(ours, ("image", "label")) == digest(theirs, ("image", "label"))
    assert epoch_digest(chain(zipped), threads=3, slots=2) == epoch_digest(chain(zipped), io_engine="pread")


def test_members_without_sizes_of_their_own_and_a_long_comment_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as out:
        for number in range(2):
            with out.open(zipfile.ZipInfo(f"{number}.jpg"), "w", force_zip64=True) as member:
                member.write(jpeg(number))
        out.comment = b"PK\x05\x06" + b"a comment" * 100
    dataset = carya.webdataset(path, label=None).open()
    assert [dataset.address(i)["member"] for i in range(2)] == ["0.jpg", "1.jpg"]
    for number in range(2):
        place = dataset.address(number)
        assert path.read_bytes()[place["offset"] :][: place["bytes"]] == jpeg(number)


def test_zip64_directories_are_read(tmp_path: Path) -> None:
    data = write(tmp_path / "a.zip", 2).read_bytes()
    at = data.rindex(b"PK\x05\x06")
    count, _, size, begin = struct.unpack_from("<HHII", data, at + 8)
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, begin)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    (tmp_path / "b.zip").write_bytes(data[:at] + end64 + locator + end)
    assert carya.webdataset(tmp_path / "b.zip").decode_image()[1]["label"] == 3


def test_what_cannot_be_read_where_it_lies_is_told(tmp_path: Path) -> None:
    with pytest.raises(carya.Unsupported, match=r"photos/000.jpg is compressed.*zip -0"):
        carya.webdataset(write(tmp_path / "a.zip", 2, compression=zipfile.ZIP_DEFLATED)).open()
    data = bytearray(write(tmp_path / "b.zip", 2).read_bytes())
    directory = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)  # the folder has the first entry

    def changed(at: int, value: bytes) -> Path:
        path = tmp_path / "c.zip"
        path.write_bytes(bytes(data[:at]) + value + bytes(data[at + len(value) :]))
        return path

    with pytest.raises(carya.Unsupported, match="is encrypted; unpack it"):
        carya.webdataset(changed(directory + 8, b"\x01")).open()
    for at, value, said in (
        (directory + 24, b"\x00\x00\x00\x7f", "stored with two sizes"),
        (directory + 20, b"\x00\x00\x00\x7f" * 2, "lies outside of it"),
        (directory + 42, b"\x00\x00\x00\x7f", "lies outside of it"),
        (directory + 42, b"\x00\x00\x00\x00", "called otherwise in its own header"),
        (directory + 46, b"\x00", "holds a NUL"),
        (directory, b"XX", "its directory holds something else"),
        (directory + 28, b"\xff\xff", "its directory is cut off"),
    ):
        with pytest.raises(carya.SampleError, match=said):
            carya.webdataset(changed(at, value)).open()
    for size in range(30, len(data), 301):
        (tmp_path / "d.zip").write_bytes(bytes(data[:size]))
        with pytest.raises(carya.SampleError, match=r"no directory at its end; the zip is damaged"):
            carya.webdataset(tmp_path / "d.zip").open()


def test_members_that_lie_over_each_other_are_refused(tmp_path: Path) -> None:
    """Two entries of one member: how zip bombs are small."""
    data = write(tmp_path / "a.zip", 1).read_bytes()
    at = data.rindex(b"PK\x05\x06")
    last = data.rindex(b"PK\x01\x02")
    count, _, size, begin = struct.unpack_from("<HHII", data, at + 8)
    entry = data[last:at]
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count + 1, count + 1, size + len(entry), begin, 0)
    (tmp_path / "b.zip").write_bytes(data[:at] + entry + end)
    with pytest.raises(carya.SampleError, match="members that lie over each other"):
        carya.webdataset(tmp_path / "b.zip").open()


def test_a_zip_behind_other_bytes_is_told_as_a_zip(tmp_path: Path) -> None:
    """An archive that unpacks itself has its program in front, and begins as no tar does."""
    path = write(tmp_path / "a.zip", 2)
    path.write_bytes(b"#!/bin/sh\n" + bytes(4000) + path.read_bytes())
    with pytest.raises(carya.SampleError, match=r"zip .*a\.zip: other bytes stand in front of it.*zip -J"):
        carya.webdataset(path).open()
    path.write_bytes(b"no archive at all" * 100)
    with pytest.raises(carya.SampleError, match=r"tar .*a\.zip @0: not a tar header"):
        carya.webdataset(path).open()
