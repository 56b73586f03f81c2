"""`carya.hdf5(native=True)`: rows where they lie, read by native threads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import daemons
import numpy as np
import pytest
from streams import check_resume, epoch_digest, shuffled_epoch

import carya

h5py = pytest.importorskip("h5py", reason="h5py is not installed")
CHANGED = r"it was written to since it was listed|it changed (since it was listed|while it was read)"
STORED: list[dict[str, Any]] = [{}, {"chunks": (1, 8, 9, 3)}, {"chunks": (4, 8, 9, 3), "maxshape": (None, 8, 9, 3)}]


def write(path: Path, first: int, last: int, **options: Any) -> Path:
    """Pictures of some rows with labels, and what cannot be ranges."""
    rows = np.arange(first, last)
    with h5py.File(path, "w", userblock_size=512 if first else 0) as file:
        shape = (len(rows), 8, 9, 3)
        file.create_dataset(
            "train/image", data=np.random.default_rng(first).integers(0, 256, shape, np.uint8), **options
        )
        file.create_dataset("train/label", data=rows % 7)
        file.create_dataset("weight", data=rows.astype("f4"))
        file.create_dataset("big", data=rows.astype(">i2"))
        file.create_dataset("text", data=[f"{n}" for n in rows], dtype=h5py.string_dtype())
        file.create_dataset("packed", data=rows[:, None] + np.zeros(3), chunks=(2, 3), compression="gzip")
        file.create_dataset("checked", data=rows[:, None] + np.zeros(3), chunks=(2, 3), fletcher32=True)
        file.create_dataset("parts", data=rows[:, None] + np.zeros(4), chunks=(2, 2))
        file.create_dataset("unwritten", (len(rows), 3), "f4")
        file.create_dataset("holes", (len(rows), 3), "f4", chunks=(2, 3))[:2] = 1
        file.create_dataset("complex", data=rows.astype("c16"))
    return path


FIELDS = {"image": "train/image", "label": "train/label", "weight": "weight"}


@pytest.mark.parametrize("options", STORED, ids=str)
def test_rows_are_those_of_the_same_source_without_it(tmp_path: Path, options: dict[str, Any]) -> None:
    write(tmp_path / "a.h5", 0, 19, **options)
    write(tmp_path / "b.h5", 19, 33, **options)
    old, new = carya.hdf5(tmp_path, FIELDS), carya.hdf5(tmp_path, FIELDS, native=True)
    assert len(old) == len(new) == 33
    assert sorted(new.outputs) == [("image", "uint8", (8, 9, 3)), ("label", "int64", ()), ("weight", "float32", ())]
    for n in np.random.default_rng(1).permutation(33).tolist():
        wanted, found = old[n], new[n]
        assert sorted(wanted) == sorted(found)
        for name in FIELDS:
            assert wanted[name].dtype == found[name].dtype
            np.testing.assert_array_equal(found[name], wanted[name])


@pytest.mark.parametrize("options", STORED, ids=str)
def test_streams_are_the_same_wherever_they_are_made(tmp_path: Path, options: dict[str, Any]) -> None:
    write(tmp_path / "a.h5", 3, 26, **options)

    def chain(source: carya.Pipeline) -> carya.Pipeline:
        return source.shuffle(seed=3).random_crop((5, 4)).normalize(0.5, 0.25).batch(global_size=4)

    with h5py.File(tmp_path / "a.h5") as file:
        wanted = epoch_digest(chain(carya.arrays({name: file[path][:] for name, path in FIELDS.items()})), epochs=2)
    new = chain(carya.hdf5(tmp_path / "a.h5", FIELDS, native=True))
    assert epoch_digest(new, epochs=2) == wanted
    assert epoch_digest(new, epochs=2, threads=3, io_engine="pread") == wanted
    with daemons.running() as daemon:
        assert epoch_digest(new, epochs=2, daemon=daemon.socket) == wanted
    batches, _ = shuffled_epoch(new, 23)
    check_resume(new, batches)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("big", "its values are >i2, and no little-endian numbers"),
        ("complex", "its values are <c16, and no"),
        ("text", r"its values are \|O, and no"),
        ("packed", "it is compressed, or has another filter"),
        ("checked", "it is compressed, or has another filter"),
        ("parts", r"its chunks of \(2, 2\) have parts of rows"),
        ("unwritten", "some of its values were never written"),
        ("holes", "some of its values were never written"),
    ],
)
def test_what_it_does_not_take_is_told(tmp_path: Path, path: str, why: str) -> None:
    write(tmp_path / "a.h5", 0, 9)
    assert len(carya.hdf5(tmp_path, path)) == 9
    with pytest.raises(carya.Unsupported, match=rf"a\.h5, {path}: native=True: {why}.*; leave native= out"):
        carya.hdf5(tmp_path, path, native=True)
    with pytest.raises(carya.InvalidArgument, match="hdf5: native: got 1; give True or False"):
        carya.hdf5(tmp_path, path, native=1)  # type: ignore[arg-type]


def test_files_that_say_more_than_they_have_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", 0, 40)
    whole = path.read_bytes()
    at = whole.index((40).to_bytes(8, "little") + (8).to_bytes(8, "little"))  # the shape of the pictures
    for rows in (41, 1 << 30, 1 << 60):
        path.write_bytes(whole[:at] + rows.to_bytes(8, "little") + whole[at + 8 :])
        with pytest.raises((carya.SampleError, carya.Unsupported, carya.InvalidArgument), match=r"a\.h5"):
            carya.hdf5(path, "train/image", native=True)


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    write(tmp_path / "a.h5", 0, 9)
    pipeline = carya.hdf5(tmp_path, FIELDS, native=True)
    assert pipeline[8]["weight"] == 8
    os.utime(tmp_path / "a.h5", ns=(1, 1))
    with pytest.raises(carya.IoError, match=CHANGED):
        pipeline[8]
