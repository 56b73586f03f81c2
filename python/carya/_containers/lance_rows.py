"""Rows of Lance datasets, read by pylance."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._errors import Error, IoError, NotFound, SampleError, invalid
from .._formats.arrow_rows import TableRows
from .._formats.kept import Listed, digest, look_at
from .._formats.needed import needed
from .._formats.values import checked_names
from .._joined import ByColumns
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike, path_list
from .._stages.source import checked_dataset

_AT_ONCE = 4 << 20  # bytes of rows that are taken together, or of a manifest


def lance(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: str | Sequence[str] | None = None,
    version: int | None = None,
    fill_null: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Rows of Lance datasets in any order, read by pylance in worker processes. Needs it: `pip install carya[lance]`.

    `paths`: folders of datasets, one or several, one behind the other. `columns`: names; None: all. `version`: that of the
    dataset; None: the newest one, which stays the one that is read, whatever is written later. Fields are those of
    `carya.parquet`: numbers and bools () in the column's dtype, lists of numbers as arrays, text, bytes and the like as Python
    objects; `fill_null` has a number for nulls, by column, which else make the row a broken record.

    Rows that are small are taken many at a time, which costs a tenth of one by one.

    A row that cannot be read is a broken record (`Loader(on_error=)`), named by dataset and row. A version whose manifest changes
    or goes away while it is used is an IoError. Read only Lance files that you trust: pylance ends the process for some damaged
    bytes, also that of the user, where it opens the dataset too.
    Errors: NotFound (also a version), InvalidArgument (a column that there is not, no row), SampleError (no dataset of Lance, a
    damaged one), Unsupported (pylance is missing).
    Reference: lance.LanceDataset.take.

    >>> import carya, lance, pyarrow, tempfile
    >>> folder = tempfile.mkdtemp() + "/a.lance"
    >>> _ = lance.write_dataset(pyarrow.table({"x": [1, 2], "y": ["a", "b"]}), folder)
    >>> carya.lance(folder)[1]
    {'x': array(2), 'y': 'b'}
    """
    needed("lance", "lance", "lance")
    if version is not None and (not isinstance(version, int) or isinstance(version, bool) or version < 1):
        raise invalid("lance: version", version, "a version from 1 on")
    names = checked_names("lance: columns", columns, "names of columns")
    rows = LanceRows(
        [os.path.abspath(path) for path in path_list("lance: paths", paths)], names, version, fill_null or {}
    )
    return Pipeline._of_dataset(checked_dataset(rows, None, False, rows.version))


class LanceRows(ByColumns):
    """Rows by index. Threads: one. It travels to worker processes, each of which opens the datasets itself."""

    def __init__(
        self, folders: Sequence[str], names: tuple[str, ...] | None, version: int | None, fill: Mapping[str, Any]
    ) -> None:
        self._folders, self._names, self._fill = list(folders), names, dict(fill)
        self._open: dict[int, Any] = {}
        self._versions: list[Any] = [version] * len(folders)
        self._manifests: list[Listed] = []  # a manifest names the files of data of its version
        counts: list[int] = []
        about: list[object] = []
        for number, folder in enumerate(folders):
            if not os.path.isdir(os.path.join(folder, "_versions")):
                raise NotFound(f"lance: {folder}: there is no dataset of Lance; give its folder")
            with _told(f"lance: {folder}", "give a dataset and a version that are there, or copy it again"):
                self._versions[number] = self._opened(number).version
                self._manifests.append(look_at("lance", _manifest(folder, self._versions[number])))
                manifest = _digest_of(self._manifests[-1].path)
                self._open.clear()  # what is opened now is what was listed, or is told by the look behind it
                dataset = self._opened(number)
                counts.append(dataset.count_rows())
                there = dataset.schema.names
                about.append((os.path.basename(folder), dataset.version, counts[-1], str(dataset.schema), manifest))
                self._check(number)
            if missing := [name for name in names or () if name.partition(".")[0] not in there]:
                raise invalid(f"lance: {folder}: columns", missing, f"some of {', '.join(there)}")
        self._open = {}
        self._starts = [0, *itertools.accumulate(counts)]
        if not len(self):
            raise invalid("lance: paths", self._folders, "datasets with at least one row")
        self.version = f"lance 2 {digest(about, names, sorted(self._fill.items()))}"
        self._row_bytes = sum(file.size for file in self.files) // len(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        number, row = self._at(index)
        return self._taken(number, [row])[0]

    def columns(self, given: Any) -> dict[str, Any] | None:
        indices = [int(index) for index in given]
        if len(indices) * self._row_bytes > _AT_ONCE:
            return None
        samples: list[dict[str, Any]] = [{}] * len(indices)
        places = [self._at(index) for index in indices]
        for number in {number for number, _ in places}:
            asked = [i for i, (of, _) in enumerate(places) if of == number]
            found = self._taken(number, [places[i][1] for i in asked])
            for i, sample in zip(asked, found, strict=True):
                samples[i] = sample
        return {name: _column([sample[name] for sample in samples]) for name in samples[0]}

    def place(self, index: int) -> str:
        """Where a row is, for people."""
        number, row = self._at(index)
        return f"lance: {self._folders[number]}, version {self._versions[number]}, row {row}"

    @property
    def files(self) -> list[Listed]:
        """The files of data, of all versions."""
        found = []
        for folder in self._folders:
            data = os.path.join(folder, "data")
            names = sorted(os.listdir(data)) if os.path.isdir(data) else []
            found += [look_at("lance", os.path.join(data, name)) for name in names if name.endswith(".lance")]
        return found

    def _at(self, index: int) -> tuple[int, int]:
        number = bisect.bisect_right(self._starts, index) - 1
        return number, index - self._starts[number]

    def _taken(self, number: int, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Errors: SampleError, IoError, MemoryError, OSError."""
        names = None if self._names is None else list(self._names)
        place = f"lance: {self._folders[number]}, version {self._versions[number]}, row {rows[0]}"
        with _told(place, "copy the dataset again, or leave the row out", lambda: self._check(number)):
            table = self._opened(number).take(rows, columns=names)
            if len(table) != len(rows):
                raise ValueError(f"wanted {len(rows):,} rows, got {len(table):,}")
            read = TableRows(table, f"lance: {self._folders[number]}, of the rows from {rows[0]} on", self._fill)
            found = [read(i) for i in range(len(rows))]
        self._check(number)
        return found

    def _check(self, number: int) -> None:
        """Errors: IoError, when the dataset was written anew, or is gone."""
        try:
            self._manifests[number].check("lance")
        except NotFound:
            where = f"lance: {self._folders[number]}, version {self._versions[number]}"
            raise IoError(f"{where}: its manifest is gone; make the pipeline anew") from None

    def _opened(self, number: int) -> Any:
        if number not in self._open:
            import lance as library

            self._open[number] = library.dataset(self._folders[number], version=self._versions[number])
        return self._open[number]


@contextmanager
def _told(place: str, wanted: str, unchanged: Callable[[], None] = lambda: None) -> Iterator[None]:
    """What pylance raises, as a SampleError, but for lacks of memory and errors with a number; `unchanged()` may raise before."""
    try:
        yield
    except Error:
        raise
    except BaseException as error:
        # A panic of Rust is none of Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        unchanged()
        said = " ".join(str(error).split())[:300]
        raise SampleError(f"{place}: {type(error).__name__}: {said}; {wanted}") from None


def _manifest(folder: str, version: int) -> str:
    """The path of a version's manifest. Source: lance-table/src/io/commit.rs: two ways of calling it, newest first or not."""
    names = [f"{(1 << 64) - 1 - version:020}.manifest", f"{version}.manifest"]
    paths = [os.path.join(folder, "_versions", name) for name in names]
    return next(filter(os.path.exists, paths), paths[0])


def _digest_of(path: str) -> str:
    found = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(_AT_ONCE):
            found.update(block)
    return found.hexdigest()


def _column(values: list[Any]) -> Any:
    """Values of many rows as one array, where they are of one dtype and shape."""
    first = values[0]
    if isinstance(first, np.ndarray | np.generic):
        like = first.dtype, first.shape
        if all(isinstance(value, np.ndarray | np.generic) and (value.dtype, value.shape) == like for value in values):
            return np.stack(values)
    return values
