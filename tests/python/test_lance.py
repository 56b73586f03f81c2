"""Rows of Lance datasets, as pylance wrote them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya
from carya._records.opening import open_records

lance = pytest.importorskip("lance", reason="pylance is not installed")
pa = pytest.importorskip("pyarrow")
COUNT = 40


def write(folder: Path, first: int = 0, last: int = COUNT, **options: Any) -> Path:
    rows = range(first, last)
    table = pa.table(
        {
            "n": rows,
            "x": pa.array([n / 3 for n in rows], pa.float32()),
            "text": [f"row {n}" for n in rows],
            "vector": pa.FixedSizeListArray.from_arrays(np.arange(4 * first, 4 * last, dtype=np.float32), 4),
            "list": [[n] * (n % 3) for n in rows],
        }
    )
    lance.write_dataset(table, str(folder), max_rows_per_file=15, **options)
    return folder


def test_rows_are_those_that_were_written_one_by_one_and_together(tmp_path: Path) -> None:
    rows = carya.lance([write(tmp_path / "a"), write(tmp_path / "b", COUNT, COUNT + 9)]).map_style
    assert len(rows) == COUNT + 9
    order = np.random.default_rng(1).permutation(COUNT + 9).tolist()
    together = rows.columns(order)
    for i, n in enumerate(order):
        sample = rows[n]
        assert (sample["n"], sample["x"], sample["text"]) == (n, np.float32(n / 3), f"row {n}")
        assert np.array_equal(sample["vector"], np.arange(4 * n, 4 * n + 4))
        assert sample["list"].tolist() == [n] * (n % 3)
        assert all(np.array_equal(sample[name], together[name][i]) for name in sample)


def test_a_stream_has_each_row_once_with_one_batch_by_any_workers(tmp_path: Path) -> None:
    pipeline = carya.lance(write(tmp_path / "a")).shuffle(seed=1).batch(8, lists="list")
    found = []
    for threads in (1, 2):
        with carya.Loader(pipeline, threads=threads) as loader:
            found.append([(batch.records.tolist(), batch["n"].tolist(), list(batch["text"])) for batch in loader])
    assert found[0] == found[1]
    assert sorted(n for _, numbers, _ in found[0] for n in numbers) == list(range(COUNT))
    assert all(records == numbers for records, numbers, _ in found[0])


def test_a_version_stays_the_one_that_was_listed(tmp_path: Path) -> None:
    pipeline = carya.lance(write(tmp_path / "a"))
    write(tmp_path / "a", 100, 103, mode="overwrite")
    assert pipeline[5]["n"] == 5
    assert [row["n"] for row in (carya.lance(tmp_path / "a")[n] for n in range(3))] == [100, 101, 102]
    assert len(carya.lance(tmp_path / "a", version=1)) == COUNT
    with pytest.raises(carya.SampleError, match="give a dataset and a version that are there"):
        carya.lance(tmp_path / "a", version=99)


def test_it_is_recognised_and_inspected(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    assert carya.open(folder, columns="text")[3] == {"text": "row 3"}
    records = open_records(str(folder)).records
    assert (records.kind, len(records), len(records.files)) == ("lance", COUNT, 3)


def test_what_is_none_or_damaged_is_told_by_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    with pytest.raises(carya.NotFound, match="there is no dataset of Lance"):
        carya.lance(tmp_path)
    with pytest.raises(carya.InvalidArgument, match=r"\['none'\]; give some of n, x, text"):
        carya.lance(folder, columns="none")
    rows = carya.lance(folder).map_style
    victim = sorted((folder / "data").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:50])
    broken = []
    for n in range(COUNT):
        try:
            assert rows[n]["n"] == n
        except carya.SampleError as error:
            assert f"{folder}, version 1, row {n}" in str(error)  # noqa: PT017
            broken.append(n)
    assert len(broken) in (15, COUNT - 30)


def test_a_dataset_that_is_written_anew_or_goes_is_an_error_of_the_system(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    rows, again = carya.lance(folder).map_style, carya.lance(folder).map_style
    assert rows.version == again.version
    moved = tmp_path / "moved" / "a"
    shutil.copytree(folder, moved)
    assert carya.lance(moved).map_style.version == rows.version  # it has no time in it
    assert rows[3]["n"] == 3
    shutil.rmtree(folder)
    write(folder, 100, 100 + COUNT)
    for read in (lambda: rows[3], lambda: rows.columns([1, 2]), lambda: again[3]):
        with pytest.raises(carya.IoError, match="it changed since it was listed"):
            read()
    assert carya.lance(folder).map_style.version != rows.version
    shutil.rmtree(folder)
    for read in (lambda: rows[3], lambda: rows.columns([1, 2])):
        with pytest.raises(carya.IoError, match="version 1: its manifest is gone; make the pipeline anew"):
            read()


class PanicException(BaseException):
    """As pylance's."""


@pytest.mark.parametrize(
    ("raised", "wanted"),
    [
        (PanicException("index out of range"), carya.SampleError),
        (OSError("LanceError(IO): cut off"), carya.SampleError),
        (OSError(5, "Input/output error"), OSError),
        (MemoryError(), MemoryError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_what_pylance_raises_is_a_broken_row_or_an_error_of_the_system(
    raised: BaseException, wanted: type[BaseException], tmp_path: Path
) -> None:
    rows: Any = carya.lance(write(tmp_path / "a")).map_style

    class Broken:
        def take(self, *args: object, **options: object) -> None:
            raise raised

    rows._open[0] = Broken()
    for read in (lambda: rows[3], lambda: rows.columns([3, 4])):
        with pytest.raises(wanted) as caught:
            read()
        assert type(caught.value) is wanted
    if wanted is carya.SampleError:
        assert f"{tmp_path}/a, version 1, row 3: {type(raised).__name__}: " in str(caught.value)


def test_without_pylance_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(carya.Unsupported, match=r"pip install 'carya\[lance\]'"):
        carya.lance(tmp_path)
