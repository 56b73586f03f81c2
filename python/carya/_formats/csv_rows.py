"""Rows of CSV files."""

from __future__ import annotations

import array
import contextlib
import csv as csv_module
import io
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from .._errors import InvalidArgument, NotFound, SampleError, invalid
from .._options import named_arguments
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike
from .._stages.source import checked_dataset
from .kept import File, digest, file_name, text_files
from .texts import TextRecords, Texts, line_starts
from .values import as_dtype, checked_dtypes

_NAMED = re.compile(r"^[^.].*\.(csv|tsv)(\.(gz|zst|bz2|xz))?$")
_GUESSED = 1000  # records that say what the dtypes are
_EXACT_DIGITS = 15  # every whole number of so many characters is a float64
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@named_arguments
def csv(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    delimiter: str = ",",
    quotechar: str | None = '"',
    endpoint: str | None = None,
    copy: bool = True,
) -> Pipeline:
    """Rows of CSV files in any order, parsed in worker processes.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.csv" or "*.tsv", also with ".gz", ".zst", ".bz2" or
    ".xz" behind; bytewise), all with the same columns. Where rows begin is found once, by Python's csv module where there are
    quotes, and kept in the cache folder for files of 8 MiB or more; compressed files are unpacked there once, as by
    `carya.jsonl`.

    The first row of each file has the names of the columns, unless `names` gives them. Values are as csv reads them, UTF-8,
    separated by `delimiter`, "\\t" for instance; in `quotechar` they may hold delimiters, ends of lines and doubled quotes (None:
    quotes are text). Empty lines are no rows.
    `columns`: only these. `dtypes`: {"x": "float32", "name": str}. A column that has none is int64 or float64 where all its values
    in the first 1,000 rows are (007 is text, as is a whole number that it would round), else text. Fields: numbers (), text as
    `str`, of which a batch has a list. An empty value is NaN in a column of floats, "" in one of text.

    A row with more or fewer values than there are columns, or with a value that is none of its dtype, is a broken record
    (`Loader(on_error=)`), named by file and offset; so is one with a whole number that a column of floats without a dtype would
    round, as the number of somebody beyond 2**53: give that column `str` or "int64". A file that changes while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. `copy`: objects behind URLs are copied into the
    cache folder as a whole, once for each version. False: they stay in their store. Where their rows begin is found by reading
    them once for each version, and then rows are read by ranges (docs/guides/stores.md says what that costs); compressed ones
    are copied all the same.
    Errors: NotFound (no file, a column that there is not), InvalidArgument (no row, two columns of one name, files of other
    columns than the first, delimiter, quotechar, dtypes), SampleError (no text in UTF-8, a compressed file that was cut off, a
    file whose lines end with CR alone), Exhausted (no room to unpack), Unsupported (zstd without pyarrow).
    Reference: csv.reader.

    >>> import carya, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> size = name.write_text('x,y,name\\n1,0.5,one\\n2,,"two, or more"\\n')
    >>> carya.csv(name, dtypes={"y": "float32"})[1]
    {'x': array(2), 'y': array(nan, dtype=float32), 'name': 'two, or more'}
    """
    for name, given in (("delimiter", delimiter), ("quotechar", quotechar)):
        sound = isinstance(given, str) and len(given) == 1 and given.isascii() and given not in "\r\n"
        if not sound and (given is not None or name == "delimiter"):
            raise invalid(f"csv: {name}", given, "one character of ASCII")
    files = text_files("csv", paths, _NAMED, "*.csv or *.tsv", endpoint, copy)
    rows = CsvRows(files, _Dialect(delimiter, quotechar), columns, names, checked_dtypes("csv", dtypes))
    return Pipeline._of_dataset(checked_dataset(rows, None, False, rows.version))


class _Dialect:
    """How rows are written. Callable as what finds where they begin."""

    def __init__(self, delimiter: str, quotechar: str | None) -> None:
        self.delimiter, self.quotechar = delimiter, quotechar

    def reader(self, lines: Any) -> Any:
        if self.quotechar is None:
            return csv_module.reader(lines, delimiter=self.delimiter, quotechar=None, quoting=csv_module.QUOTE_NONE)
        return csv_module.reader(lines, delimiter=self.delimiter, quotechar=self.quotechar)

    def values(self, record: bytes) -> list[str]:
        """The values of one row. Errors: csv.Error, ValueError."""
        with _long_fields():
            found = [row for row in self.reader(io.StringIO(record.decode(), newline="\n")) if row]
        if len(found) != 1:
            raise ValueError(f"it is {len(found)} rows")
        return list(found[0])

    def starts(self, open_: Callable[[], BinaryIO], _: int) -> np.ndarray[Any, Any]:
        """Where rows begin that are not empty; the last entry is the end of the file."""
        with open_() as file:
            plain = line_starts(file, (self.quotechar or "").encode())
        if plain is not None:
            return plain
        with open_() as file, _long_fields():
            first = file.readline()
            at = 3 if first.startswith(b"\xef\xbb\xbf") else 0
            left = itertools.chain([first[at:]], file)

            def lines() -> Iterator[str]:
                nonlocal at
                for line in left:
                    at += len(line)
                    yield line.decode("latin-1")  # quotes and delimiters are the same bytes in UTF-8

            found, before = array.array("q", [at]), -1
            while at != before:  # until nothing is left
                before = at
                try:
                    for row in self.reader(lines()):
                        if row:
                            found.append(at)
                        else:
                            found[-1] = at
                except csv_module.Error:  # it is a broken row, and the next line another one
                    found.append(at)
        return np.frombuffer(found, np.int64)


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Fields of more than 128 KiB, which the csv module forbids by a setting of the process."""
    before = csv_module.field_size_limit(min(sys.maxsize, 1 << 30))
    try:
        yield
    finally:
        csv_module.field_size_limit(before)


class CsvRows(TextRecords):
    """Rows of CSV files by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(
        self,
        files: Sequence[File],
        dialect: _Dialect,
        columns: Sequence[str] | None,
        names: Sequence[str] | None,
        dtypes: Mapping[str, np.dtype[Any] | None],
    ) -> None:
        if not files:
            raise invalid("csv: paths", [], "files with at least one row")
        self._dialect = dialect
        how = (dialect.delimiter, dialect.quotechar)
        with _long_fields():  # once for all threads that look for rows
            self._texts = Texts("csv", files, dialect.starts, how, skip=0 if names is not None else 1)
        found = (
            [names] if names is not None else [self._head(*one) for one in zip(files, self._texts.heads(), strict=True)]
        )
        for file, head in zip(files, found, strict=False):
            if head != found[0]:
                raise InvalidArgument(
                    f"csv: {file.path}: its columns are {', '.join(head)}, and those of {files[0].path} {', '.join(found[0])}; "
                    "give files of the same columns"
                )
        self._names = _checked_names(found[0])
        wanted = self._names if columns is None else [columns] if isinstance(columns, str) else list(columns)
        for name in (*wanted, *dtypes):
            if name not in self._names:
                raise NotFound(f"csv: {files[0].path} has no column {name!r}; give some of {', '.join(self._names)}")
        if not len(self):
            raise invalid("csv: paths", [file.path for file in files], "files with at least one row")
        self._columns = [(name, self._names.index(name), dtypes.get(name)) for name in wanted]
        self._exact: frozenset[str] = (
            frozenset()
        )  # columns of floats that nobody asked for, in which nothing is rounded
        guessed = self._guessed([name for name in wanted if name not in dtypes])
        self._columns = [(name, place, guessed.get(name, dtype)) for name, place, dtype in self._columns]
        self._exact = frozenset(name for name, dtype in guessed.items() if dtype.kind == "f")
        sizes = [(file_name(file.path), file.size) for file in files]
        shape = [(name, place, str(dtype)) for name, place, dtype in self._columns]
        self.version = f"csv 1 {digest(sizes, self._texts.counts, how, shape)}"

    def __getitem__(self, index: int) -> dict[str, Any]:
        record = self._texts.read(index)
        name = ""
        sample: dict[str, Any] = {}
        try:
            values = self._dialect.values(record)
            if len(values) != len(self._names):
                raise SampleError(
                    f"{self._texts.place(index)}: it has {len(values)} values, and there are {len(self._names)} columns; mend the row, or "
                    "give delimiter= or quotechar= as the file has them"
                )
            for name, place, dtype in self._columns:
                value = values[place]
                if len(value) > _EXACT_DIGITS and name in self._exact:
                    _check_exact(value)
                sample[name] = value if dtype is None else _number(value, dtype)
        except (ValueError, csv_module.Error) as error:
            where = f"{self._texts.place(index)}: {name}" + (": " if name else "")
            raise SampleError(f"{where}{error}; mend the row, give dtypes=, or leave it out") from error
        return sample

    def _head(self, file: File, record: bytes) -> list[str]:
        try:
            return self._dialect.values(record)
        except (ValueError, csv_module.Error) as error:
            wanted = "give a file whose first row has the names of the columns, whose lines end with LF or CR LF"
            raise SampleError(f"csv: {file.path}: first row: {error}; {wanted}") from error

    def _guessed(self, names: Sequence[str]) -> dict[str, np.dtype[Any]]:
        """Dtypes of columns all of whose values in the first rows are numbers."""
        kinds: dict[str, set[str]] = {name: set() for name in names}
        self.expect(range(min(len(self), _GUESSED)))
        for index in range(min(len(self), _GUESSED)):
            with contextlib.suppress(SampleError):
                for name, value in self[index].items():
                    if name in kinds:
                        kinds[name].add(_kind(value))
        found: dict[str, np.dtype[Any]] = {}
        for name, seen in kinds.items():
            if seen and seen <= {"int64", "wide"}:
                found[name] = np.dtype(np.int64)
            elif seen <= {"int64", "float64", ""} and seen != {""} and seen:
                found[name] = np.dtype(np.float64)
        return found


def _checked_names(names: Sequence[str]) -> list[str]:
    """Errors: InvalidArgument (none, two of one name)."""
    listed = [names] if isinstance(names, str) else list(names)
    twice = [name for name in listed if listed.count(name) > 1]
    if not listed or twice or not all(isinstance(name, str) and name for name in listed):
        raise invalid(
            "csv: names of columns", listed, "a different name for each column, by names= where the first row has none"
        )
    return listed


def _kind(value: str) -> str:
    """What a value looks like: "int64", "wide", an int64 that no float64 is, "float64", "text", or "" of an empty one.

    Whole numbers that neither dtype holds are text: they are numbers of somebody or something, which rounding would make alike.
    """
    if not value:
        return ""
    digits = value.strip().lstrip("+-")
    whole = digits.isdigit()
    if "_" in value or (whole and len(digits) > 1 and digits[0] == "0"):
        return "text"
    with contextlib.suppress(ValueError):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return "int64" if float(number) == number else "wide"
    with contextlib.suppress(ValueError):
        rounded = float(value)
        return "float64" if not whole or rounded == int(value) else "text"
    return "text"


def _int64(value: str) -> int:
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"got {number}, and its dtype is int64")
    return number


def _check_exact(value: str) -> None:
    """Errors: ValueError: a whole number that float64 would round."""
    if value.strip().lstrip("+-").isdigit() and float(value) != int(value):
        shown = value if len(value) <= 80 else value[:80] + "..."
        raise ValueError(
            f"got {shown}, which the dtype float64, that of the column in the first {_GUESSED:,} rows, would round to {float(value):.0f}"
        )


def _number(value: str, dtype: np.dtype[Any]) -> Any:
    """Errors: ValueError that says what it is."""
    try:
        if "_" in value:
            raise ValueError
        if dtype.kind == "f":
            number: Any = float(value) if value else float("nan")
            return number if dtype.itemsize == 8 else as_dtype(number, dtype)
        if dtype.kind == "b":
            return _TRUTH[value.strip().lower()]
        if dtype.kind == "c":
            return as_dtype(complex(value), dtype)
        return _int64(value) if dtype == np.int64 else as_dtype(int(value), dtype)
    except (ValueError, LookupError):
        shown = repr(value)
        raise ValueError(f"got {shown if len(shown) <= 80 else shown[:80] + '...'}, and its dtype is {dtype}") from None
