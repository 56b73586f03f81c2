"""Rows of CSV files, as the csv module wrote them."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from streams import check_resume, shuffled_epoch

import carya
from carya._formats.csv_rows import CsvRows, _Dialect
from carya._formats.kept import look_at


def write(path: Path, rows: list[list[Any]], **options: Any) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, **options).writerows(rows)
    return path


def table(count: int) -> list[list[Any]]:
    texts = ["plain", 'a "quoted" one', "two\nlines", "comma, here", "", "ü\u2028x", " x "]
    return [[n, n / 4, texts[n % len(texts)], f"{n:04}"] for n in range(count)]


@pytest.mark.parametrize("options", [{}, {"delimiter": "\t"}, {"quotechar": "'"}, {"lineterminator": "\n"}], ids=str)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_every_row_is_what_was_written(tmp_path: Path, options: dict[str, Any], packed: bool) -> None:
    rows = table(70)
    for number, part in enumerate((rows[:50], rows[50:])):
        path = write(tmp_path / f"{number}.csv", [["n", "x", "text", "id"], *part], **options)
        if packed:
            (tmp_path / f"{number}.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    options.pop("lineterminator", None)
    pipeline = carya.csv(tmp_path, **options)
    assert len(pipeline) == 70
    for n in np.random.default_rng(1).permutation(70).tolist():
        assert pipeline._source.dataset.dataset[n] == dict(zip(("n", "x", "text", "id"), rows[n], strict=True))
    assert {name: getattr(value, "dtype", str) for name, value in pipeline[3].items()} == {
        "n": np.int64, "x": np.float64, "text": str, "id": str
    }  # fmt: skip


def test_a_shuffled_stream_has_every_row_once_and_resumes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [["n", "x", "text", "id"], *table(90)])
    pipeline = carya.csv(path, columns=["n", "x"], dtypes={"x": "float32"}).shuffle(seed=3).batch(16)
    batches, order = shuffled_epoch(pipeline, 90)
    assert [int(n) for batch in batches for n in batch["n"]] == order
    assert batches[0]["x"].dtype == np.float32
    check_resume(pipeline, batches)


def rows_of(folder: Path, data: bytes, **options: Any) -> list[Any]:
    """Rows of a file that has no head, or the errors of broken ones."""
    path = folder / "a.csv"
    path.write_bytes(data)
    dialect = _Dialect(",", options.get("quotechar", '"'))
    starts = dialect.starts(lambda: path.open("rb"), path.stat().st_size).tolist()
    assert starts == sorted(set(starts))
    assert starts[-1] == len(data)
    found: list[Any] = []
    for begin, end in itertools.pairwise(starts):
        try:
            found.append(dialect.values(data[begin:end]))
        except (csv.Error, ValueError) as error:
            found.append(error)
    return found


PIECES = st.lists(
    st.sampled_from(["a", "é", ",", '"', '""', "\n", "\r\n", " ", '"x\ny"', '"a,b"', "\n\n"]), max_size=30
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES)
@example(["a", '"', "\n", '"', ","])
@example(["\n", "a", "\n\n", '"', "\n"])
@example(['"x\ny"', "a", "\n", "\r\n", "a"])
def test_any_text_has_the_rows_of_csv_reader(tmp_path: Path, pieces: list[str]) -> None:
    text = "".join(pieces)
    wanted = [row for row in csv.reader(io.StringIO(text, newline="\n")) if row]
    assert rows_of(tmp_path, text.encode()) == wanted
    plain = text.replace('"', "")
    wanted = [row for row in csv.reader(io.StringIO(plain, newline="\n")) if row]
    assert rows_of(tmp_path, plain.encode()) == wanted
    wanted = [row for row in csv.reader(io.StringIO(text, newline="\n"), quotechar=None, quoting=csv.QUOTE_NONE) if row]
    assert rows_of(tmp_path, text.encode(), quotechar=None) == wanted


def test_a_row_that_csv_cannot_read_is_broken_alone(tmp_path: Path) -> None:
    found = rows_of(tmp_path, b'a,"b"\nc\rd\n"e"\n')
    assert [found[0], found[2]] == [["a", "b"], ["e"]]
    assert "new-line character" in str(found[1])
    assert "new-line character" in str(rows_of(tmp_path, b"a\nc\rd\ne\n")[1])


def test_rows_with_another_delimiter_say_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name;note, x;n\nSmith;a;1\n")
    with pytest.raises(
        carya.SampleError, match=r"it has 1 values, and there are 2 columns; mend the row, or give delimiter="
    ):
        carya.csv(tmp_path / "a.csv")[0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1", "it has 1 values, and there are 2 columns"),
        ("1,2,3", "it has 3 values, and there are 2 columns"),
        ("x,2", "n: got 'x', and its dtype is int64"),
        ("1_0,2", "n: got '1_0', and its dtype is int64"),
        ("9223372036854775808,2", "n: got '9223372036854775808', and its dtype is int64"),
        ("1.5,2", "n: got '1.5', and its dtype is int64"),
        (",2", "n: got '', and its dtype is int64"),
        ("1,256", "small: got '256', and its dtype is uint8"),
        ("1,-1", "small: got '-1', and its dtype is uint8"),
        ("\udcff,1", "'utf-8' codec can't decode"),
    ],
)
def test_a_broken_row_is_a_broken_record(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"n,small\n1,1\n{line}\n3,3".encode("utf-8", "surrogateescape"))
    pipeline = carya.csv(path, dtypes={"n": "int64", "small": np.uint8}).batch(3)
    with pytest.raises(carya.SampleError, match=rf"a\.csv @12: {reason}"):
        pipeline[1]
    with carya.Loader(pipeline, threads=1, on_error="mask") as loader:
        (batch,) = list(loader)
        (entry,) = loader.quarantine()
    assert batch["n"].tolist() == [1, 0, 3]
    assert batch["small"].dtype == np.uint8
    assert entry["record"] == 1
    assert f"{path} @12: {reason.split(' codec')[0]}" in entry["reason"]


def test_numbers_are_guessed_from_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,c,d,e,f\n1,1,,x,007,1e3\n-2,2.5,3, 4,8,nan\n+3,,4,5,9,-inf\n")
    dtypes = {name: str(getattr(value, "dtype", "text")) for name, value in carya.csv(path)[2].items()}
    assert dtypes == {"a": "int64", "b": "float64", "c": "float64", "d": "text", "e": "text", "f": "float64"}
    assert np.isnan(carya.csv(path)[2]["b"])
    assert carya.csv(path, dtypes={"a": bool, "b": "complex64", "e": int}, columns=["a", "e"])[0] == {"a": True, "e": 7}
    assert carya.csv(path, columns="a", dtypes={"a": str})[1] == {"a": "-2"}


def test_whole_numbers_that_would_be_rounded_are_text(tmp_path: Path) -> None:
    hashes, wide = ["18446744073709551615", "-9223372036854775809", "1" + "0" * 4400], "9007199254740993"
    path = tmp_path / "a.csv"
    path.write_text(
        "".join(f"{a},{b},{c}\n" for a, b, c in [("hash", "gap", "id"), *((h, wide, wide) for h in hashes), (1, "", 2)])
    )
    rows = [carya.csv(path)[n] for n in range(4)]
    assert [row["hash"] for row in rows] == [*hashes, "1"]
    assert [row["gap"] for row in rows] == [wide, wide, wide, ""]
    assert [row["id"].tolist() for row in rows] == [int(wide), int(wide), int(wide), 2]
    path.write_text(f"x,y\n{2**64},1\n1.5,{2**53}\n2,0.5\n")  # a float64 holds them
    assert [carya.csv(path)[n]["x"].tolist() for n in range(3)] == [2.0**64, 1.5, 2]
    assert carya.csv(path)[1]["y"].tolist() == 2.0**53


def test_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\ufeffa,b\n1,2\n", encoding="utf-8")
    assert list(carya.csv(path)[0]) == ["a", "b"]
    assert len(carya.csv(path, names=["x", "y"])) == 2
    assert carya.csv(path, names=["x", "y"])[0] == {"x": "a", "y": "b"}
    with pytest.raises(carya.NotFound, match=r"a\.csv has no column 'c'; give some of a, b"):
        carya.csv(path, columns=["c"])
    with pytest.raises(carya.NotFound, match="no column 'c'"):
        carya.csv(path, dtypes={"c": int})
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(carya.InvalidArgument, match=r"b\.csv: its columns are a, c, and those of .*a\.csv a, b"):
        carya.csv(tmp_path)
    for text in ("a,a\n1,2\n", "a,\n1,2\n"):
        path.write_text(text)
        with pytest.raises(carya.InvalidArgument, match=r"names of columns: got .*; give a different name"):
            carya.csv(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "first row: it is 0 rows"),
        (b"a,b\r1,2\r", "first row: new-line character"),
        (b"\xff,b\n1,2\n", "first row: 'utf-8' codec"),
        (b"a,b\n", "files with at least one row"),
        ("a,b\n1,2\n".encode("utf-16"), "it is UTF-16"),
    ],
)
def test_files_that_cannot_be_read_are_told_before_the_first_batch(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(carya.Error, match=said):
        carya.csv(tmp_path / "a.csv")


def test_long_fields_and_options(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [["a"], ["x" * 300_000], ['"\n' * 100_000]])
    assert [len(carya.csv(path)[n]["a"]) for n in range(2)] == [300_000, 200_000]
    assert csv.field_size_limit() == 131_072
    for options in (
        {"delimiter": ""},
        {"delimiter": "\n"},
        {"quotechar": "ab"},
        {"delimiter": None},
        {"quotechar": "é"},
    ):
        with pytest.raises(carya.InvalidArgument, match="give one character of ASCII"):
            carya.csv(path, **options)


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [["a"], [1]])
    rows = CsvRows([look_at("csv", str(path))], _Dialect(",", '"'), None, None, {})
    rows._texts._fds.clear()
    write(path, [["a"], [1], [2]])
    with pytest.raises(carya.IoError, match=r"a\.csv: it changed since it was listed"):
        rows[0]


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
@pytest.mark.parametrize("name", ["ANALYSIS.tsv", "formats/tfrecord_raccoon/test_labels.csv"])
def test_real_files_have_the_rows_of_csv_reader(name: str) -> None:
    path, delimiter = Path(DATA or "", name), "\t" if name.endswith("tsv") else ","
    with open(path, newline="", encoding="utf-8") as file:
        head, *wanted = (row for row in csv.reader(file, delimiter=delimiter) if row)
    dataset = carya.csv(path, delimiter=delimiter, dtypes=dict.fromkeys(head, str))._source.dataset.dataset
    assert [list(dataset[n].values()) for n in range(len(dataset))] == wanted


def test_a_column_of_floats_rounds_no_whole_number_behind_the_rows_that_say_so(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{i}.5" for i in range(1000)] + [
        str(2**53),
        str(2**53 + 1),
        f"-{2**53 + 1}",
        "9007199254740993.0",
        "1" * 60,
    ]
    path.write_text("x\n" + "\n".join(rows) + "\n")
    source = carya.csv(path)
    assert source[1000]["x"] == 2.0**53
    assert source[1003]["x"] == 2.0**53
    for row in (1001, 1002, 1004):
        with pytest.raises(
            carya.SampleError, match=r"a\.csv.*x: got -?\d+, which the dtype float64.*would round.*give dtypes="
        ):
            source[row]
    assert carya.csv(path, dtypes={"x": "float64"})[1001]["x"] == 2.0**53, "it was asked for"
    assert carya.csv(path, dtypes={"x": str})[1001]["x"] == str(2**53 + 1)
