"""`carya.npy(native=True)`: rows where they lie, read by native threads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import daemons
import numpy as np
import pytest
import workers
from streams import check_resume, epoch_digest, shuffled_epoch
from test_npy import DTYPES, header, values
from test_remote import at, read_until_remote

import carya

CHANGED = r"it was written to since it was listed|it changed (since it was listed|while it was read)"


def read_on(loader: carya.Loader) -> None:
    for _ in range(100):
        for _ in loader:
            pass


def saved(folder: Path, *shape: int, dtype: str = "uint8", files: int = 3) -> np.ndarray[Any, Any]:
    """Files of different lengths. Returns their rows."""
    folder.mkdir(exist_ok=True)
    arrays = [values((4 + 3 * n, *shape), dtype, n) for n in range(files)]
    for n, array in enumerate(arrays):
        np.save(folder / f"{n}.npy", array)
    return np.concatenate(arrays)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name[0] != ">"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 5)])
def test_rows_are_those_of_the_same_source_without_it(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    wanted = saved(tmp_path, *shape, dtype=dtype)
    old, new = carya.npy(tmp_path), carya.npy(tmp_path, native=True)
    assert len(old) == len(new) == len(wanted)
    assert new.outputs == [("value", np.dtype(dtype).name, shape)]
    for n in np.random.default_rng(1).permutation(len(wanted)).tolist():
        assert (list(new[n]), new[n]["value"].dtype) == (["value"], old[n]["value"].dtype)
        np.testing.assert_array_equal(new[n]["value"], old[n]["value"])
        np.testing.assert_array_equal(new[n]["value"], wanted[n])


def test_rows_of_zips_are_read_where_they_lie(tmp_path: Path) -> None:
    for n in range(3):
        rows = 4 + 3 * n
        arrays = {"x": values((rows, 5, 2), "int16", n), "y": values((rows,), "float32", n)}
        np.savez(tmp_path / f"{n}.npz", label=np.arange(rows) + 100 * n, **arrays)
    old, new = carya.npz(tmp_path), carya.npz(tmp_path, native=True)
    assert new.outputs == [("x", "int16", (5, 2)), ("y", "float32", ()), ("label", "int64", ())]
    assert len(new) == len(old) == 21
    for n in range(21):
        assert new[n].keys() == old[n].keys()
        for name, value in new[n].items():
            np.testing.assert_array_equal(value, old[n][name])
    two = {"arrays": ["label", "x"]}
    digests = {epoch_digest(carya.npz(tmp_path, native=n, **two).shuffle(seed=1).batch(4)) for n in (False, True)}  # type: ignore[arg-type]
    assert len(digests) == 1
    np.savez_compressed(tmp_path / "1.npz", **arrays, label=np.arange(rows))
    with pytest.raises(
        carya.Unsupported, match=r"1\.npz, (x|y|label)\.npy: native=True: it is compressed; leave native="
    ):
        carya.npz(tmp_path, native=True)
    with pytest.raises(carya.Unsupported, match="npz: native=True: files are records of any shape"):
        carya.npz(tmp_path / "0.npz", native=True, record="file")


def test_streams_are_the_same_wherever_they_are_made(tmp_path: Path) -> None:
    rows = saved(tmp_path / "image", 8, 9, 3)
    labels = saved(tmp_path / "label", dtype="int64")
    masks = saved(tmp_path / "mask", 8, 9, 1)
    given = {name: tmp_path / name for name in ("image", "label", "mask")}

    def chain(source: carya.Pipeline) -> carya.Pipeline:
        return source.shuffle(seed=3).random_crop((5, 4)).normalize(0.5, 0.25).batch(global_size=4)

    new = chain(carya.npy(given, native=True))
    wanted = epoch_digest(chain(carya.arrays({"image": rows, "label": labels, "mask": masks})), epochs=2)
    for options in ({}, {"threads": 3, "io_engine": "pread"}, {"cache": "off"}):
        assert epoch_digest(new, epochs=2, **options) == wanted
    with daemons.running() as daemon:
        assert epoch_digest(new, epochs=2, daemon=daemon.socket) == wanted
    batches, _ = shuffled_epoch(new, len(rows))
    check_resume(new, batches)


def test_remote_workers_read_rows_or_are_sent_them(tmp_path: Path) -> None:
    saved(tmp_path / "image", 8, 9, 3)
    pipeline = carya.npy({"image": tmp_path / "image"}, native=True).shuffle(seed=3).random_crop(5).batch(global_size=4)
    wanted = epoch_digest(pipeline)
    options: dict[str, Any] = {"placement": "remote:1", "threads": 1}
    for root in (["--root", "/"], []):
        with workers.running(*root) as worker, carya.Loader(pipeline, remote=at(worker), **options) as loader:
            assert read_until_remote(loader) == wanted
            assert any("reads records itself" in line for line in loader.placement()["events"]) == bool(root)


def test_functions_get_what_they_got(tmp_path: Path) -> None:
    saved(tmp_path, 5, dtype="float32")

    def doubled(value: Any) -> Any:
        return value * 2

    digests = {
        epoch_digest(
            carya.npy({"x": tmp_path}, native=native).shuffle(seed=1).map(doubled, fields="x").batch(global_size=4)
        )
        for native in (False, True)
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.asfortranarray(np.ones((3, 2))), "it is in Fortran's order"),
        (np.ones((3, 2), ">f4"), "its values are >f4, and no little-endian numbers"),
        (np.ones((3, 2), "c16"), "its values are <c16, and no little-endian numbers"),
        (np.ones((3, 0)), "its rows have no bytes"),
        (np.ones((3, *[1] * 9)), "its rows have 9 dimensions"),
    ],
)
def test_what_it_does_not_take_is_told(tmp_path: Path, array: Any, why: str) -> None:
    np.save(tmp_path / "a.npy", array)
    assert len(carya.npy(tmp_path)) == 3
    with pytest.raises(carya.Unsupported, match=rf"a\.npy: native=True: {why}.*; leave native= out"):
        carya.npy(tmp_path, native=True)


def test_wrong_arguments_and_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(carya.InvalidArgument, match="npy: native: got 1; give True or False"):
        carya.npy(tmp_path, native=1)  # type: ignore[arg-type]
    with pytest.raises(carya.Unsupported, match="files are records of any shape"):
        carya.npy(tmp_path, native=True, record="file")
    np.save(tmp_path / "a.npy", np.ones(0))
    with pytest.raises(carya.InvalidArgument, match="give files with a row"):
        carya.npy(tmp_path, native=True)
    text = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}"
    (tmp_path / "a.npy").write_bytes(header(text) + bytes(11))
    with pytest.raises(carya.SampleError, match=r"a\.npy: .*copy it again if it was cut off"):
        carya.npy(tmp_path, native=True)


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    saved(tmp_path, 400)
    pipeline = carya.npy(tmp_path, native=True).shuffle(seed=1).batch(4)
    with carya.Loader(pipeline, on_error="replace", epochs=None, slots=2, threads=1, io_timeout=0.2) as loader:
        next(iter(loader))
        os.utime(tmp_path / "1.npy", ns=(1, 1))
        with pytest.raises(carya.IoError, match=CHANGED):
            read_on(loader)
    with pytest.raises(carya.IoError, match=CHANGED):
        pipeline[9]


def test_each_file_of_a_record_is_compared(tmp_path: Path) -> None:
    saved(tmp_path / "x", 40)
    saved(tmp_path / "y", 40)
    pipeline = carya.npy({"x": tmp_path / "x", "y": tmp_path / "y"}, native=True)
    assert [one["y"].shape for one in (pipeline[0], pipeline[9])] == [(40,), (40,)]
    os.utime(tmp_path / "y" / "1.npy", ns=(1, 1))
    with pytest.raises(carya.IoError, match=rf"1\.npy: {CHANGED}"):
        pipeline[9]
