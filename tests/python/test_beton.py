"""Samples of FFCV's files, as its writer wrote them."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import carya
from carya._records.opening import open_records

COUNT = 12
FIELDS = ["label", "score", "image", "photo", "raw", "array", "about", "tensor", "mixed"]


def stored(folder: Path) -> Path:
    """A file of FFCV's writer."""
    path = folder / "all.beton"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "containers" / "all.beton.gz").read_bytes()))
    return path


def picture(n: int) -> np.ndarray[Any, Any]:
    height, width = 3 + n % 4, 5
    return (np.arange(height * width * 3).reshape(height, width, 3) * (n + 1) % 256).astype(np.uint8)


def test_samples_are_those_that_were_written(tmp_path: Path) -> None:
    path = stored(tmp_path)
    rows = pickle.loads(pickle.dumps(carya.beton(path).map_style))  # as a worker has them
    files = carya.beton(path, decode=False).map_style
    assert len(rows) == COUNT
    for n in random.Random(1).sample(range(COUNT), COUNT):
        sample, raw = rows[n], files[n]
        assert list(sample) == FIELDS
        assert (sample["label"], sample["score"]) == (n - 2, n / 3)
        assert np.array_equal(sample["image"], picture(n))
        assert sample["raw"] == bytes([n]) * (n + 1)
        assert sample["array"].dtype == np.float32
        assert np.array_equal(sample["array"], np.arange(6).reshape(2, 3) * n)
        assert sample["about"] == {"n": n, "t": ["ü", None]}
        assert np.array_equal(sample["tensor"], np.arange(4) + n)
        assert raw["photo"][:2] == b"\xff\xd8"
        assert raw["photo"][-2:] == b"\xff\xd9"
        assert np.array_equal(sample["photo"], np.array(Image.open(io.BytesIO(raw["photo"]))))
        assert np.abs(sample["photo"].astype(int) - (n * 9, 100, 200 - n * 5)).max() < 4
        assert sample["mixed"].shape == picture(n).shape
    assert {type(files[n]["mixed"]) for n in range(COUNT)} == {bytes, np.ndarray}


def test_a_stream_of_some_fields_has_each_sample_once(tmp_path: Path) -> None:
    path = stored(tmp_path)
    pipeline = carya.beton([path, path], fields=["label", "array"]).shuffle(seed=1).batch(8)
    with carya.Loader(pipeline, threads=2) as loader:
        found = {int(r): int(n) for batch in loader for r, n in zip(batch.records, batch["label"], strict=True)}
    assert found == {n: n % COUNT - 2 for n in range(2 * COUNT)}
    with pytest.raises(carya.InvalidArgument, match=r"\['none'\]; give some of label, score"):
        carya.beton(path, fields="none")


def test_it_is_recognised_and_inspected(tmp_path: Path) -> None:
    path = stored(tmp_path)
    assert carya.open(path, fields=["score"])[3]["score"] == 1
    records = open_records(str(path)).records
    assert (records.kind, len(records), list(records.read(2))) == ("beton", COUNT, FIELDS)


def test_files_that_are_none_or_were_cut_off_are_told_by_name(tmp_path: Path) -> None:
    path = stored(tmp_path)
    whole = path.read_bytes()
    begin = 24 + len(FIELDS) * 1041
    for content in (b"", b"<html>" * 9999, whole[:20], whole[:900], whole[: begin + 50]):
        path.write_bytes(content)
        with pytest.raises(carya.SampleError, match=r"beton: .*all\.beton: .*; give files of FFCV's DatasetWriter"):
            carya.beton(path)
    path.write_bytes(struct.pack("<H", 1) + whole[2:])
    with pytest.raises(carya.Unsupported, match="its version is 1"):
        carya.beton(path)
    path.write_bytes(whole[:24] + b"\xff" + whole[25:])
    with pytest.raises(carya.Unsupported, match="its field 'label' has a type of somebody's own"):
        carya.beton(path)
    path.write_bytes(whole[:24] + whole[24 : 24 + 1041] * len(FIELDS) + whole[begin:])
    with pytest.raises(carya.Unsupported, match="two fields are called alike"):
        carya.beton(path)


def test_a_broken_image_is_one_entry_and_the_others_are_read(tmp_path: Path) -> None:
    path = stored(tmp_path)
    rows: Any = carya.beton(path).map_style
    data = bytearray(path.read_bytes())
    at = (
        int(rows.place(3).split("@")[1].split(",")[0]) + 16 + 5
    )  # where its image begins, behind label, score and three numbers
    data[at : at + 8] = (1 << 60).to_bytes(8, "little")
    path.write_bytes(data)
    pipeline = carya.beton(path, fields=["label", "image"]).filter(lambda sample: True).batch(4, lists="image")
    with carya.Loader(pipeline, threads=1, on_error="replace", seed=1) as loader:
        assert sum(len(batch["label"]) for batch in loader) == COUNT
        (entry,) = loader.quarantine()
    assert entry["record"] == 3
    assert "sample 3: image: " in entry["reason"]


def test_damaged_bytes_are_errors_and_never_more(tmp_path: Path) -> None:
    path = stored(tmp_path)
    whole = path.read_bytes()
    used = [n for n in range(24 + len(FIELDS) * 1041 + COUNT * 112) if whole[n]]
    used += [n for n in range(1 << 21, len(whole)) if whole[n]][:3000]
    draw = random.Random(1)
    for _ in range(100):
        data = bytearray(whole)
        for at in draw.sample(used, draw.randint(1, 8)):
            data[at] = draw.choice((0, 255, draw.randrange(256)))
        path.write_bytes(data)
        with contextlib.suppress(carya.SampleError, carya.Unsupported, carya.InvalidArgument):
            rows = carya.beton(path).map_style
            for n in range(min(len(rows), COUNT)):
                with contextlib.suppress(carya.SampleError):
                    rows[n]


def test_dtypes_that_could_run_code_or_are_huge_are_refused(tmp_path: Path) -> None:
    path = stored(tmp_path)
    whole = path.read_bytes()
    at = 24 + 5 * 1041 + 17
    for dtype, shape in (("|O", [2]), ("<f4", [1 << 40]), ("<f4,<f4", [1]), ("nothing", [1]), ("(,)i4", [1])):
        text = json.dumps([["", dtype]]).encode()
        said = struct.pack("<33Q", *shape, *[0] * (32 - len(shape)), len(text)) + text
        path.write_bytes(whole[:at] + said.ljust(1024, b"\0") + whole[at + 1024 :])
        with pytest.raises(carya.SampleError, match=r"all\.beton"):
            carya.beton(path)


def test_a_table_of_allocations_that_cannot_be_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from carya._containers import ranges

    path = stored(tmp_path)
    whole = path.read_bytes()
    reads: list[int] = []
    read = ranges.Ranges.read

    def reading(self: Any, number: int, offset: int, size: int) -> bytes:
        reads.append(size)
        return read(self, number, offset, size)

    monkeypatch.setattr(ranges.Ranges, "read", reading)
    rows_end = 24 + len(FIELDS) * 1041 + COUNT * 112
    for begin in (24, rows_end + (-rows_end) % 8):
        path.write_bytes(whole[:16] + begin.to_bytes(8, "little") + whole[24:])
        rows = carya.beton(path, fields=["label", "photo"]).map_style
        with pytest.raises(carya.SampleError, match=r"sample 2: photo: its table of [\d,]+ allocations begins at"):
            rows[2]
    assert max(reads) < 1 << 16


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = stored(tmp_path)
    rows = carya.beton(path, fields=["raw", "image"]).map_style
    assert rows[0]["raw"] == b"\0"  # it is open now
    path.write_bytes(path.read_bytes().replace(b"\2\2\2", b"\1\1\1"))
    os.utime(path, ns=(1, 1))
    with pytest.raises(carya.IoError, match=r"all\.beton: it changed since it was listed"):
        rows[2]
