"""Broken records: policies, quarantine, addresses. What is not bytes is not bad data."""

from __future__ import annotations

import io
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BROKEN, DATA, picture
from PIL import Image

import carya


def chain(paths: list[str], **batch: Any) -> carya.Pipeline:
    return (
        carya.files(paths, labels=range(len(paths)))
        .decode_image()
        .resize((16, 16))
        .batch(**(batch or {"batch_size": 4}))
    )


def test_raise_names_the_record_and_repeats(damaged: list[str]) -> None:
    with carya.Loader(chain(damaged)) as loader:
        iterator = iter(loader)
        with pytest.raises(carya.SampleError) as caught:
            next(iterator)
        error = caught.value
        assert (error.record, error.path, error.member) == (3, damaged[3], "")
        assert error.stage == "decode_image"
        assert error.reason
        for word in ("replace", "mask", damaged[3]):
            assert word in str(error)
        for _ in range(3):
            with pytest.raises(carya.SampleError) as again:
                next(iterator)
            assert str(again.value) == str(error)
        with pytest.raises(carya.SampleError):
            next(iter(loader))


def test_good_batches_before_the_broken_one_are_delivered(damaged: list[str]) -> None:
    with carya.Loader(chain(damaged, batch_size=1), threads=3) as loader:
        iterator = iter(loader)
        assert [next(iterator).records.tolist() for _ in range(3)] == [[0], [1], [2]]
        with pytest.raises(carya.SampleError):
            next(iterator)
        assert loader.state_dict()["position"] == 3


def test_changing_the_policy_goes_on_where_it_stopped(damaged: list[str]) -> None:
    with carya.Loader(chain(damaged, batch_size=1)) as loader:
        seen = []
        with pytest.raises(carya.SampleError):  # noqa: PT012
            for batch in loader:
                seen.append(int(batch.records[0]))
        before = loader.state_dict()
        loader.on_error = "mask"
        assert loader.state_dict()["pipeline"] != before["pipeline"]
        seen += [int(batch.records[0]) for batch in loader]
        assert seen == list(range(12))


def test_mask_leaves_zeros_and_clears_valid(damaged: list[str]) -> None:
    with carya.Loader(chain(damaged), on_error="mask") as loader:
        for batch in loader:
            for row, record in enumerate(batch.records):
                assert batch.valid[row] == (record not in BROKEN)
                if record in BROKEN:
                    assert not batch["image"][row].any()
                else:
                    assert batch["label"][row] == record
        entries = loader.quarantine()
    assert sorted(entry["record"] for entry in entries) == list(BROKEN)
    for entry in entries:
        assert entry["path"] == damaged[entry["record"]]
        assert (entry["member"], entry["offset"], entry["epoch"]) == ("", 0, 0)
        assert entry["position"] == entry["record"]
        assert entry["stage"] == "decode_image"
        assert entry["reason"]
        assert entry["substitute"] is None


def test_replace_names_a_good_substitute_and_moves_nothing(damaged: list[str]) -> None:
    with carya.Loader(chain(damaged), on_error="replace") as loader:
        seen = []
        for batch in loader:
            assert batch.valid.all()
            assert batch["label"].tolist() == batch.records.tolist()
            seen += batch.records.tolist()
        entries = {entry["record"]: entry for entry in loader.quarantine()}
    for position, record in enumerate(seen):
        if position in BROKEN:
            assert record not in BROKEN
            assert entries[position]["substitute"] == record
        else:
            assert record == position


def test_quarantine_shows_only_what_was_delivered(damaged: list[str]) -> None:
    with carya.Loader(chain(damaged, batch_size=4), on_error="mask", slots=4) as loader:
        iterator = iter(loader)
        assert loader.quarantine() == []
        first = next(iterator)
        assert [entry["record"] for entry in loader.quarantine()] == [3]
        assert first.position == 4


def test_a_dataset_of_broken_files_ends_with_an_error_under_replace(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.jpg"
        path.write_bytes(b"nothing of a picture")
        paths.append(str(path))
    said = r'substitutes were broken too; repair the data, or give on_error="mask"$'
    with (
        carya.Loader(chain(paths, batch_size=2), on_error="replace") as loader,
        pytest.raises(carya.SampleError, match=said),
    ):
        next(iter(loader))


def test_a_broken_member_is_named_with_its_offset(tmp_path: Path) -> None:
    tar = tmp_path / "a.tar"
    buffer = io.BytesIO()
    Image.fromarray(picture(1, 30, 30)).save(buffer, "JPEG")
    with tarfile.open(tar, "w") as writer:
        for name, data in (("0.jpg", buffer.getvalue()), ("1.jpg", b"no picture at all"), ("2.jpg", buffer.getvalue())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            writer.addfile(info, io.BytesIO(data))
    source = carya.webdataset(str(tar), label=None).decode_image().resize((8, 8)).batch(3)
    with carya.Loader(source, on_error="mask") as loader:
        assert next(iter(loader)).valid.tolist() == [True, False, True]
        (entry,) = loader.quarantine()
    assert entry["member"] == "1.jpg"
    assert entry["path"].endswith("a.tar")
    with open(tar, "rb") as file:
        file.seek(entry["offset"])
        assert file.read(17) == b"no picture at all"


@pytest.mark.parametrize("policy", ["raise", "replace", "mask"])
def test_a_vanished_file_is_never_bad_data(damaged: list[str], policy: str) -> None:
    good = [path for number, path in enumerate(damaged) if number not in BROKEN]
    loader = carya.Loader(
        carya.files(good).decode_image().resize((8, 8)).batch(1), on_error=policy, io_timeout=0.2, read_ahead=1, slots=2
    )
    with loader:
        iterator = iter(loader)
        next(iterator)
        os.rename(good[-1], good[-1] + ".away")
        with pytest.raises((carya.IoError, carya.NotFound)) as caught:
            for _ in iterator:
                pass
        assert good[-1] in str(caught.value)
        assert loader.quarantine() == []


def test_a_changed_file_is_never_bad_data(damaged: list[str]) -> None:
    good = [path for number, path in enumerate(damaged) if number not in BROKEN]
    with carya.Loader(
        carya.files(good).decode_image().resize((8, 8)).batch(1), on_error="mask", io_timeout=0.2, read_ahead=1, slots=2
    ) as loader:
        iterator = iter(loader)
        next(iterator)
        Path(good[-1]).write_bytes(Path(good[-1]).read_bytes()[:-7])
        with pytest.raises(carya.IoError) as caught:
            for _ in iterator:
                pass
        assert good[-1] in str(caught.value)


def test_a_missing_file_before_the_start_is_named(damaged: list[str]) -> None:
    with pytest.raises(carya.NotFound, match="absent"):
        carya.Loader(chain([*damaged, "absent.jpg"]))


def mapped(path: Path, how: str) -> np.ndarray | Path:
    """A file of 4,096 rows of 4 KiB as the user gives it."""
    np.save(path, np.zeros((4096, 4096), np.uint8))
    if how == "path":
        return path
    return np.lib.format.open_memmap(path, mode="r+" if how == "writable" else "r")


@pytest.mark.parametrize("how", ["path", "memmap", "writable"])
@pytest.mark.parametrize("policy", ["raise", "replace", "mask"])
def test_a_mapped_file_that_is_truncated_is_an_error(tmp_path: Path, how: str, policy: str) -> None:
    path = tmp_path / "rows.npy"
    source = carya.arrays({"x": mapped(path, how)})
    with carya.Loader(source.batch(8), slots=2, threads=1, on_error=policy) as loader:
        iterator = iter(loader)
        held = next(iterator)
        while loader.stats()["samples_produced"] < 16:  # the other slot is filled, so nobody reads the file now
            time.sleep(0.01)
        os.truncate(path, 1 << 20)
        del held
        with pytest.raises(carya.IoError, match=f"{path} was truncated while it is used"):
            list(iterator)
        assert not loader.quarantine()
    with pytest.raises(carya.IoError, match="truncated"):
        source[0]


def test_a_mapped_file_that_is_rewritten_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    source = carya.arrays({"x": mapped(path, "path")})
    assert source[0]["x"].sum() == 0
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"1")
    os.utime(path, ns=(0, 1))
    with pytest.raises(carya.IoError, match=f"{path} was written to while it is used"):
        source[0]


def test_a_mapped_file_of_the_user_may_be_written_by_the_user(tmp_path: Path) -> None:
    rows = mapped(tmp_path / "rows.npy", "writable")
    source = carya.arrays({"x": rows})
    rows[0] = 7
    rows.flush()
    assert source[0]["x"].min() == 7


def test_a_mapped_file_that_was_replaced_is_read_to_its_end(tmp_path: Path) -> None:
    source = carya.arrays({"x": mapped(tmp_path / "rows.npy", "path")})
    mapped(tmp_path / "other.npy", "path")
    os.replace(tmp_path / "other.npy", tmp_path / "rows.npy")
    os.truncate(tmp_path / "rows.npy", 100)  # another file: what is mapped is still there
    with carya.Loader(source.batch(512), epochs=1) as loader:
        assert sum(len(batch["x"]) for batch in loader) == 4096


@pytest.mark.skipif(not DATA, reason="needs CARYA_TEST_DATA")
@pytest.mark.parametrize("folder", ["malformed", "images"])
def test_every_real_file_is_delivered_or_named(folder: str) -> None:
    assert DATA
    paths = sorted(str(path) for path in Path(DATA, folder).rglob("*") if path.is_file())
    assert len(paths) > 300
    with carya.Loader(chain(paths, batch_size=16), on_error="mask", threads=2) as loader:
        good = 0
        for batch in loader:
            good += int(batch.valid.sum())
            assert not np.asarray(batch["image"])[~np.asarray(batch.valid)].any()
        entries = loader.quarantine()
    assert good + len(entries) == len(paths)
    assert all(entry["reason"] and entry["stage"] for entry in entries)
    if folder == "images":
        assert good > 300
