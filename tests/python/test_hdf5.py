"""Rows of HDF5 datasets, as h5py wrote them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streams import check_resume, shuffled_epoch

import carya

h5py = pytest.importorskip("h5py", reason="h5py is not installed")


def write(path: Path, first: int, last: int, **options: Any) -> Path:
    """Datasets of every kind in a file."""
    rows = np.arange(first, last)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=rows[:, None] + np.zeros(3), dtype="f4", **options)
        file.create_dataset("deep/label", data=rows.astype(">i2"))
        file.create_dataset("yes", data=rows % 2 == 0)
        file.create_dataset("text", data=[f"ü{n}" for n in rows], dtype=h5py.string_dtype())
        file.create_dataset("fixed", data=np.array([f"{n}" for n in rows], "S4"))
        ragged = file.create_dataset("ragged", (len(rows),), h5py.vlen_dtype(np.int16))
        for i, n in enumerate(rows):
            ragged[i] = np.arange(n % 4)
        file.create_dataset("other", data=np.zeros(2))
    return path


def damaged(path: Path, row: int) -> None:
    """The chunk of a row is zeros."""
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info(row)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(content)


@pytest.mark.parametrize(
    "options",
    [{}, {"chunks": (2, 3)}, {"chunks": (4, 2), "compression": "gzip", "shuffle": True}, {"chunks": (1, 3), "compression": "lzf"},
     {"chunks": (5, 3), "fletcher32": True}],
    ids=str,
)  # fmt: skip
def test_rows_are_h5pys(tmp_path: Path, options: dict[str, Any]) -> None:
    write(tmp_path / "a.h5", 0, 20, **options)
    write(tmp_path / "b.hdf5", 20, 33, **options)
    pipeline = carya.hdf5(tmp_path)
    assert len(pipeline) == 33
    for n in np.random.default_rng(1).permutation(33).tolist():
        sample = pipeline._source.dataset.dataset[n]
        assert list(sample) == ["deep.label", "fixed", "ragged", "text", "x", "yes"]
        assert sample["x"].dtype == np.float32
        assert sample["x"].tolist() == [n, n, n]
        assert sample["deep.label"].dtype == np.dtype("int16")
        assert sample["deep.label"] == n
        assert (sample["text"], sample["fixed"]) == (f"ü{n}", f"{n}".encode())
        assert sample["ragged"].tolist() == list(range(n % 4))
        assert sample["yes"].dtype == np.bool_
        assert bool(sample["yes"]) == (n % 2 == 0)


def test_a_shuffled_stream_has_every_row_once_and_resumes(tmp_path: Path) -> None:
    write(tmp_path / "a.h5", 0, 90, chunks=(8, 3), compression="gzip")
    pipeline = carya.hdf5(tmp_path / "a.h5", {"image": "x", "label": "/deep/label"}).shuffle(seed=3).batch(16)
    batches, order = shuffled_epoch(pipeline, 90)
    assert [int(n) for batch in batches for n in batch["label"]] == order
    check_resume(pipeline, batches)


def test_a_damaged_chunk_makes_its_rows_broken_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", 0, 12, chunks=(4, 3), compression="gzip")
    damaged(path, 1)
    with carya.Loader(carya.hdf5(path, "x").batch(4), threads=1, on_error="mask") as loader:
        assert [int(batch.valid.sum()) for batch in loader] == [4, 0, 4]
        entries = loader.quarantine()
    assert sorted(entry["record"] for entry in entries) == [4, 5, 6, 7]
    assert all(f"{path}, x, row {entry['record']}: " in entry["reason"] for entry in entries)


def test_files_that_are_none_or_were_cut_off_are_told_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", 0, 50)
    whole = path.read_bytes()
    for content in (b"", b"<html>" * 99, whole[:8], whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(content)
        for datasets in (None, "x"):
            with pytest.raises(carya.SampleError, match=r"a\.h5: .*; give HDF5 files, or copy it again"):
                carya.hdf5(path, datasets)


def test_datasets_that_are_not_there_or_do_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", 0, 5)
    with pytest.raises(carya.NotFound, match=r"a\.h5 has no dataset 'y'; give some of deep/label, "):
        carya.hdf5(path, "y")
    with pytest.raises(carya.NotFound, match="no dataset 'deep'"):
        carya.hdf5(path, ["deep"])
    with pytest.raises(carya.InvalidArgument, match=r"rows: got \{'x': 5, 'other': 2\}"):
        carya.hdf5(path, ["x", "other"])
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = np.zeros((3, 4), "f4")
        file["scalar"] = 1
        file["empty"] = np.zeros((0, 2))
        file["records"] = np.zeros(3, [("a", "i4")])
    with pytest.raises(
        carya.InvalidArgument, match=r"b\.h5, x: its rows are float32 \(4,\), and those of .*a\.h5 float32 \(3,\)"
    ):
        carya.hdf5(tmp_path, "x")
    with pytest.raises(carya.InvalidArgument, match="scalar: it has no axis"):
        carya.hdf5(tmp_path / "b.h5", "scalar")
    with pytest.raises(carya.InvalidArgument, match="files with at least one row"):
        carya.hdf5(tmp_path / "b.h5", "empty")
    with pytest.raises(carya.Unsupported, match="records: its values are"):
        carya.hdf5(tmp_path / "b.h5", "records")


def test_what_reads_other_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.h5", 0, 5)
    layout = h5py.VirtualLayout((5, 3), "f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "a.h5"), "x", (5, 3))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(tmp_path / "a.h5"), "x")
        file["group"] = h5py.ExternalLink(str(tmp_path / "a.h5"), "/")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("external", (4,), "u1", external=[(str(tmp_path / "a.h5"), 0, 4)])
    for name in ("link", "group/x"):
        with pytest.raises(carya.Unsupported, match="it is a link to another file"):
            carya.hdf5(tmp_path / "b.h5", name)
    for name in ("virtual", "external"):
        with pytest.raises(carya.Unsupported, match="its values lie in other files"):
            carya.hdf5(tmp_path / "b.h5", name)


@pytest.mark.parametrize("locking", [None, True, False, "best-effort"])
@pytest.mark.parametrize("native", [False, True])
def test_a_file_that_this_process_has_open_is_read(tmp_path: Path, locking: Any, native: bool) -> None:
    path = write(tmp_path / "a.h5", 0, 5)
    with h5py.File(path, "r", locking=locking):
        pipeline = carya.hdf5(path, "x", native=native)
        assert pipeline[2]["x"].tolist() == [2, 2, 2]


def test_two_datasets_of_one_field_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a/b"], file["a.b"] = np.arange(3), np.arange(3) + 10
    for datasets in (None, ["a/b", "a.b"], {"a/b": "a/b", "a.b": "a.b"}):
        with pytest.raises(carya.InvalidArgument, match="a field for each"):
            carya.hdf5(path, datasets)
    assert carya.hdf5(path, {"x": "a/b", "y": "a.b"})[1] == {"x": 1, "y": 11}
    assert carya.hdf5(path, {"x": "a/b", "y": "a/b"})[1] == {"x": 1, "y": 1}


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", 0, 5)
    pipeline = carya.hdf5(path, "x")
    write(path, 0, 6)
    with pytest.raises(carya.IoError, match=r"a\.h5: it changed since it was listed"):
        pipeline[0]


def test_without_h5py_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(carya.Unsupported, match=r"pip install 'carya\[hdf5\]'"):
        carya.hdf5(tmp_path)


_WRITER = """
import sys, h5py
with h5py.File(sys.argv[1], "r+", libver="latest" if sys.argv[2] == "latest" else None) as file:
    file["x"][0] = 7
    file.flush()
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("format", ["oldest", "latest"])
def test_a_file_that_another_process_has_open_for_writing(tmp_path: Path, format: str, native: bool) -> None:
    """It is locked, which h5py alone heeds; the newer format has a mark too, and is refused with what takes it off."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest" if format == "latest" else None) as file:
        file["x"] = np.arange(6).reshape(3, 2)
    command = [sys.executable, "-c", _WRITER, str(path), format]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(OSError, match=r"lock|open"):
            h5py.File(path, "r")
        if format == "latest":
            with pytest.raises(carya.IoError, match=r"a\.h5: a program has it open for writing.*h5clear -s .*a\.h5"):
                carya.hdf5(path, native=native)
        else:
            with carya.Loader(carya.hdf5(path, native=native).batch(3), threads=1) as loader:
                assert next(iter(loader))["x"].tolist() == [[7, 7], [2, 3], [4, 5]]
        writer.stdin.close()
    with carya.Loader(carya.hdf5(path, native=native).batch(3), threads=1) as loader:
        assert next(iter(loader))["x"].tolist() == [[7, 7], [2, 3], [4, 5]]
