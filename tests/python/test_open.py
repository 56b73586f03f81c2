"""`carya.open`: what lies at a path."""

from __future__ import annotations

import io
import logging
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

import carya
from carya._records.recognise import recognised


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.parquet", b"PAR1....", "parquet"),
        ("data", b"PAR1....", "parquet"),
        ("data", b"\x93NUMPY..", "npy"),
        ("data", b"\x89HDF\r\n\x1a\n", "hdf5"),
        ("a.MP4", b"\0\0\0\x20ftypisom", "video"),
        ("a.beton", b"\x02\0", "beton"),
        ("data", b"ARROW1", "arrow"),
        ("a.array_record-00001-of-00002", b"..", "array_record"),
        ("data", bytes(257) + b"ustar", "webdataset"),
        ("data", bytes(16) + b"\xde\xc0\xef\xbe", "lmdb"),
        ("a.jsonl.gz", b"\x1f\x8b", "jsonl"),
        ("a.tsv", b"a\tb", "csv"),
        ("a.txt.gz", b"\x1f\x8b", "text"),
        ("folder/a.txt", b"", "text"),
        ("a.npz", b"PK\x03\x04", "npz"),
        ("a.zip", b"PK\x03\x04", "webdataset"),
        ("train-00000-of-00010", b"..", "tfrecord"),
        ("folder/state.json", b"{}", "hf_dataset"),
        ("folder/index.json", b"{}", "mds"),
        ("folder/index.json", b'{"chunks": []}', "litdata"),
        ("folder/_versions/1.manifest", b"", "lance"),
        ("folder/data.mdb", b"", "lmdb"),
        ("folder/a.csv", b"", "csv"),
        ("folder/a.tar", b"", "webdataset"),
        ("folder/class/a.jpg", b"", "image_folder"),
        ("folder/README.md,folder/class/a.jpg", b"", "image_folder"),
        ("folder/classes.txt,folder/class/a.jpg", b"", "image_folder"),
        ("folder/a.txt,folder/notes/b.txt", b"", "text"),
    ],
)
def test_each_kind_is_recognised(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    for one in name.split(","):
        path = tmp_path / one
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content)
    assert recognised(str(tmp_path / name.split("/")[0]))[0] == kind


def test_it_gives_the_source_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "carya")
    (tmp_path / "a.tsv").write_text("x\ty\n1\t2\n")
    assert carya.open(tmp_path / "a.tsv")[0] == {"x": 1, "y": 2}
    assert "taken for csv, by its name" in caplog.text
    np.save(tmp_path / "a.npy", np.arange(3))
    np.save(tmp_path / "b.npy", np.arange(3))
    assert len(carya.open(tmp_path / "*.npy")) == 6
    assert carya.open(tmp_path / "a.tsv", columns=["y"])[0] == {"y": 2}


def test_what_is_ambiguous_or_unknown_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"PAR1")
    with pytest.raises(
        carya.InvalidArgument, match=r"its name says csv and its first bytes parquet; call carya\.parquet"
    ):
        carya.open(tmp_path / "a.csv")
    (tmp_path / "b.jsonl").write_text("1\n")
    with pytest.raises(carya.InvalidArgument, match=r"it could be csv or jsonl; call carya\.csv or the other"):
        carya.open(tmp_path)
    for name in ("a.dat", "a.data"):
        (tmp_path / name).write_text("{}")
        with pytest.raises(carya.InvalidArgument, match=r"got nothing that is known; call one of carya\.array_record"):
            carya.open(tmp_path / name)
    with pytest.raises(carya.NotFound):
        carya.open(tmp_path / "none*")
    with pytest.raises(carya.NotFound, match="there is no such file"):
        carya.open(tmp_path / "none")


def test_a_folder_of_tars_is_read_in_order(tmp_path: Path) -> None:
    for number in (1, 0):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as archive:
            for name, data in ((f"{number}.jpg", b"\xff\xd8"), (f"{number}.cls", b"%d" % number)):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    assert [carya.open(tmp_path)[i]["label"] for i in range(2)] == [0, 1]


def test_pictures_without_a_folder_for_each_class_are_told_apart(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.JPEG", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(
        carya.InvalidArgument, match=r"it has 2 pictures and no folder for each class; give carya\.files"
    ):
        carya.open(tmp_path)


def test_what_is_no_file_is_unknown_and_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(carya.InvalidArgument, match="got nothing that is known"):
        carya.open(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("folder/year=2020/a.parquet", b"", r"no pictures, but parquet \(year=2020/a.parquet\); .*/\*\*/\*\.parquet"),
        (
            "folder/README.md,folder/data/a.tar",
            b"",
            r"no pictures, but webdataset \(data/a.tar\); .* as .*/folder/data,",
        ),
        ("folder/notes.txt,folder/data/a.tar", b"", r"no pictures, but webdataset \(data/a.tar\)"),
        (
            "folder/dataset_dict.json,folder/train/state.json",
            b"{}",
            r"hf_dataset \(train/state.json\); .*/folder/train$",
        ),
        ("folder/pos/1.txt", b"", r"no pictures, but text \(pos/1.txt\)"),
        ("folder/a.wav", b"RIFF", r"sound files; call carya\.audio_folder\(path\)"),
        ("folder/README.md,folder/a/b/c.FLAC", b"fLaC", r"sound files; call carya\.audio_folder"),
        ("folder/a.trans.txt,folder/a/c.ogg", b"OggS", r"sound files; call carya\.audio_folder"),
        ("a.mp3", b"ID3", r"a sound file; call carya\.audio_folder"),
        ("a.jpg", b"\xff\xd8", r"a picture; call carya\.files"),
        ("a.json", b" [{}]", r"one array of JSON; write a record to a line"),
        ("a.json", b"{}", r"call carya\.jsonl\(path\)"),
        ("a.tar.gz", b"\x1f\x8b", r"a compressed tar, .* unpack it to a \.tar"),
        ("a.tgz", b"\x1f\x8b", r"a compressed tar"),
        ("a.bin", b"1234", r"call carya\.token_blocks\(path, length\)"),
        ("a.pt", b"PK", r"no source loads those"),
        ("a.tar", b"version https://git-lfs.github.com/spec/v1\noid", r"a pointer of Git LFS .* `git lfs pull`"),
        ("folder/index.json", b'{"format": "carya tokens 1"}', r"call carya\.token_blocks\(path, length\)"),
    ],
)
def test_what_no_source_takes_is_told_with_what_to_call(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    for one in name.split(","):
        path = tmp_path / one
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content)
    with pytest.raises(carya.InvalidArgument, match=told):
        carya.open(tmp_path / name.split("/")[0])
