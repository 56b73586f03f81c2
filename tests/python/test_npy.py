"""Arrays in .npy and .npz files, as numpy wrote them."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streams import check_resume, shuffled_epoch

import carya
from carya._formats import npy

DTYPES = ["bool", "int8", "uint64", ">i4", "float16", "<f8", ">c16"]


def values(shape: tuple[int, ...], dtype: str, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (5, 3), (4, 2, 3)])
def test_rows_are_numpys(tmp_path: Path, shape: tuple[int, ...], dtype: str, order: Any) -> None:
    arrays = [np.asarray(values(shape, dtype, seed), order=order) for seed in range(3)]
    for i, array in enumerate(arrays):
        np.save(tmp_path / f"{i}.npy", array)
    pipeline, wanted = carya.npy(tmp_path), np.concatenate(arrays)
    assert len(pipeline) == len(wanted)
    for n in np.random.default_rng(1).permutation(len(wanted)).tolist():
        found = pipeline[n]["value"]
        assert found.dtype == wanted.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found, wanted[n])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_a_zip_are_numpys(tmp_path: Path, save: Callable[..., None], dtype: str) -> None:
    arrays = [
        {"x": values((4, 3), dtype, seed), "y": np.asfortranarray(values((4, 2, 2), "u1", seed))} for seed in range(3)
    ]
    for i, named in enumerate(arrays):
        save(tmp_path / f"{i}.npz", **named)
    rows, files = carya.npz(tmp_path), carya.npz(tmp_path, record="file")
    assert (len(rows), len(files)) == (12, 3)
    for n in (11, 0, 5, 6):
        for name in ("x", "y"):
            np.testing.assert_array_equal(rows[n][name], arrays[n // 4][name][n % 4])
            np.testing.assert_array_equal(files[n // 4][name], arrays[n // 4][name])
            assert rows[n][name].dtype.isnative
    assert list(carya.npz(tmp_path, arrays="y")[0]) == ["y"]


def test_a_file_can_be_a_record_and_fields_lie_in_several(tmp_path: Path) -> None:
    for i in range(6):
        np.save(tmp_path / f"wave-{i}.npy", np.arange(i, dtype=np.float32))
        np.save(tmp_path / f"label-{i}.npy", np.int64(i * i))
    given = {"wave": str(tmp_path / "wave-*.npy"), "label": [tmp_path / f"label-{i}.npy" for i in range(6)]}
    pipeline = carya.npy(given, record="file").shuffle(seed=2).batch(3, lists="wave")
    with carya.Loader(pipeline, threads=2) as loader:
        for batch in loader:
            assert [len(wave) for wave in batch["wave"]] == np.sqrt(batch["label"]).tolist()
    with pytest.raises(carya.InvalidArgument, match=r"npy: paths: got \{'wave': 6, 'label': 2\}; give as many"):
        carya.npy({"wave": given["wave"], "label": given["label"][:2]})
    with pytest.raises(carya.InvalidArgument, match=r"label-0\.npy: it has no axis, so no rows; give record=\"file\""):
        carya.npy({"label": given["label"]})


def test_an_array_without_a_name_is_one_among_others(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"": np.arange(3), "y": np.arange(3) + 5})
    assert carya.npz(tmp_path)[1] == {"": 1, "y": 6}
    np.savez(tmp_path / "a.npz", **{"": np.arange(3)})
    assert carya.npz(tmp_path)[1] == {"value": 1}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_shuffled_stream_has_every_row_once_and_resumes(tmp_path: Path, save: Callable[..., None]) -> None:
    for i in range(3):
        save(tmp_path / f"{i}.npz", x=np.arange(30).reshape(-1, 1) + 30 * i)
    pipeline = carya.npz(tmp_path).shuffle(seed=3).batch(16)
    batches, order = shuffled_epoch(pipeline, 90)
    assert [int(x[0]) for batch in batches for x in batch["x"]] == order
    check_resume(pipeline, batches)


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("exploded",)


def test_pickles_are_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([Bomb()], object), allow_pickle=True)
    np.savez("a.npz", x=np.array([Bomb()], object))
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb()))
    for record in ("row", "file"):
        for source, name in ((carya.npy, "a.npy"), (carya.npz, "a.npz")):
            with pytest.raises(carya.Unsupported, match="its values are objects, which are a pickle"):
                source(name, record=record)
        with pytest.raises(carya.SampleError, match=r"b\.npy: .*give files of numpy\.save"):
            carya.npy("b.npy", record=record)
    assert not Path("exploded").exists()


def header(text: str, version: int = 1) -> bytes:
    line = text.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(line).to_bytes(2 if version == 1 else 4, "little") + line


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"<html>" * 30,
        header("{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}") + bytes(11),
        header("{'descr': '<i4', 'fortran_order': False, 'shape': (-3,)}") + bytes(12),
        header("{'descr': '<i4', 'fortran_order': False, 'shape': (9999999999999, 9999999999999)}") + bytes(12),
        header("{'descr': '<i4', 'fortran_order': False, 'shape': 3}") + bytes(12),
        header("{'descr': '<i4', 'fortran_order': False}") + bytes(12),
        header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (3,)}") + bytes(12),
        header("__import__('os').mkdir('exploded')"),
        header("(" * 5000),
        header("{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", 9) + bytes(12),
        header("{'descr': '<i4', 'fortran_order': False, 'shape': (3,)" + " " * 70_000 + "}", 2) + bytes(12),
    ],
)
def test_files_that_are_none_are_told_by_name(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("x.npy", content)
    for record in ("row", "file"):
        with pytest.raises(carya.SampleError, match=r"npy: a\.npy: .*give files of numpy\.save"):
            carya.npy("a.npy", record=record)
        with pytest.raises(carya.SampleError, match=r"npz: a\.npz, x\.npy: .*give files of numpy\.save"):
            carya.npz("a.npz", record=record)
    assert not Path("exploded").exists()


@pytest.mark.parametrize("kind", ["S5", "U5", [("a", "i4")], "M8[s]"])
def test_what_is_no_number_is_told(tmp_path: Path, kind: Any) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3, kind))
    with pytest.raises(carya.Unsupported, match="give arrays of numbers"):
        carya.npy(tmp_path / "a.npy")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_byte_of_a_zip_changed_is_told_or_read(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "a.npz", x=np.arange(40).reshape(20, 2), y=np.arange(20.0))
    whole = (tmp_path / "a.npz").read_bytes()
    random = np.random.default_rng(3)
    for n in range(300):
        mutant = bytearray(whole)
        for at in random.integers(0, len(whole), 1 + n % 3):
            mutant[at] = random.integers(256)
        (tmp_path / "b.npz").write_bytes(mutant[: random.integers(len(whole)) if n % 10 == 0 else len(whole)])
        for record in ("row", "file"):
            try:
                carya.npz(tmp_path / "b.npz", record=record)[-1]
            except (carya.SampleError, carya.Unsupported, carya.InvalidArgument) as error:
                assert "b.npz" in str(error)  # noqa: PT017


def test_a_damaged_member_makes_its_rows_broken_records(tmp_path: Path) -> None:
    for i in range(3):
        np.savez_compressed(tmp_path / f"{i}.npz", x=np.random.default_rng(i).random(5000) if i == 1 else np.ones(5000))
    with zipfile.ZipFile(tmp_path / "1.npz") as archive:
        at = archive.infolist()[0].header_offset + archive.infolist()[0].compress_size // 2
    content = bytearray((tmp_path / "1.npz").read_bytes())
    content[at] ^= 255
    (tmp_path / "1.npz").write_bytes(content)
    for record, size in (("row", 5000), ("file", 1)):
        with carya.Loader(carya.npz(tmp_path, record=record).batch(size), threads=1, on_error="mask") as loader:
            assert [int(batch.valid.sum()) for batch in loader] == [size, 0, size]
            reasons = {entry["reason"] for entry in loader.quarantine()}
        assert all(f"{tmp_path / '1.npz'}, x.npy" in reason and "CRC" in reason for reason in reasons)


def test_a_damaged_member_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.random.default_rng(1).random(5000))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "a.npz").write_bytes(content)
    tried = []
    copy = npy.copy_with_room
    monkeypatch.setattr(npy, "copy_with_room", lambda *given: tried.append(given) or copy(*given))
    rows = carya.npz(tmp_path)
    for row in (0, 7, 4999):
        with pytest.raises(carya.SampleError, match=rf"a\.npz, x\.npy, row {row}: .*CRC.*copy the file again"):
            rows[row]
    assert len(tried) == 1


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), y=np.zeros(4))
    with pytest.raises(carya.InvalidArgument, match=r"npz: rows: got .*x\.npy': 3, .*y\.npy': 4"):
        carya.npz(tmp_path / "a.npz")
    with pytest.raises(carya.NotFound, match=r"a\.npz has no array 'z'; give some of x, y"):
        carya.npz(tmp_path / "a.npz", arrays="z")
    np.savez(tmp_path / "b.npz", x=np.zeros((3, 3)))
    with pytest.raises(carya.InvalidArgument, match=r"b\.npz, x\.npy: its rows are float64 \(3,\), and those of"):
        carya.npz(tmp_path, arrays="x")
    np.savez(tmp_path / "c.npz", x=np.zeros((0, 2)))
    with pytest.raises(carya.InvalidArgument, match="give files with a row"):
        carya.npz(tmp_path / "c.npz")
    with pytest.raises(carya.InvalidArgument, match="record: got 'rows'"):
        carya.npz(tmp_path / "a.npz", record="rows")


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    pipelines = [carya.npy(tmp_path / "a.npy", record=record) for record in ("row", "file")]
    np.save(tmp_path / "a.npy", np.zeros(4))
    for pipeline in pipelines:
        with pytest.raises(carya.IoError, match=r"a\.npy: it changed since it was listed"):
            pipeline[0]
