"""Rows of Parquet files: unpacked once, a row group at a time, into the cache folder, and read from there in any order."""

from __future__ import annotations

import bisect
import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._errors import Error, Exhausted, InvalidArgument, NotFound, SampleError, Unsupported, invalid
from .._options import integer, named_arguments
from .._pipeline.dataset import cache_dir
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import arrow
from .._sources.objects import ListedObject, asking, interrupted, open_file
from .._sources.paths import PathLike
from .._stages.source import checked_dataset
from .arrow_rows import TableRows, is_list, plain_type, without_structs
from .kept import Listed, digest, file_name, has_room, kept_name, listed_files, make_once
from .needed import needed
from .values import checked_names

_NAMED = re.compile(r"^[^.].*\.(parquet|parq|pq)$")
_MAPPED_MAX = 1024  # row groups that a process has mapped
_DECODED_MAX = 2  # row groups that a process has in memory
_NATIVELY = "row groups are unpacked to read images and tensors natively"
_TRIES = 8  # of reading what others take away
_log = logging.getLogger("carya")


@named_arguments
def parquet(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: str | Sequence[str] | None = None,
    fill_null: Mapping[str, Any] | None = None,
    image: str | None = None,
    label: str | None = None,
    encoded: Mapping[str, str] | None = None,
    tensors: Mapping[str, tuple[str, Any, Sequence[int]]] | None = None,
    unpack_max: int | None = None,
    endpoint: str | None = None,
) -> Pipeline:
    """Rows of Parquet files in any order, each row group decoded once. Needs pyarrow: `pip install carya[parquet]`.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.parquet", bytewise), all with the same columns.

    A row group cannot be read by row, so it is unpacked once into the cache folder, by whoever needs it first, and mapped from
    there: rows are then read in any order, by any number of processes and runs, for microseconds each. `unpack_max`: the most
    bytes, as the files' footers say them, that may be unpacked; None: as many as leave a tenth of the disk free; 0:
    nothing. What is not unpacked is decoded where it is needed, and each process keeps the last two row groups: as fast in the
    order of the rows, but a shuffled stream then decodes a row group per row, which is logged. `carya cache rm` takes away what
    was unpacked.

    Without `image`, `label`, `encoded` and `tensors`, rows are samples that worker processes read, as of `carya.dataset`.
    `columns`: names, or paths into structs ("image.bytes"); None: all. Fields: numbers and bools () in the column's dtype; dates,
    times and durations as integers in the column's unit (days, us, ...); lists of numbers as arrays of it, nested ones too where
    inner lists have one length; fields of structs by path; text, bytes, decimals, other lists and maps as Python objects, of
    which a batch has a list. A null is None where it is an object, and else makes the row a broken record, unless `fill_null`
    has a number for its column ({"age": -1}).

    With one of them, rows are read and decoded natively, as by `carya.arrow`, which says what they are; all row groups are
    unpacked when the pipeline is made.

    A row group that cannot be decoded makes its rows broken records (`Loader(on_error=)`), named by file, row group and row. A
    file that changes while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Objects behind URLs stay where they are: their
    footers are read when the pipeline is made, and of a row group the wanted columns, once for each version where it is unpacked.
    Errors: NotFound (no file; a column that there is not: those that there are are named), InvalidArgument (files of other
    columns than the first, no row), SampleError (no Parquet file), Unsupported (pyarrow is missing; encrypted files), Exhausted
    (no room to unpack, where that must be).
    Reference: pyarrow.parquet.read_table.

    >>> import carya, pathlib, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.parquet"
    >>> pq.write_table(pa.table({"x": [[1, 2], [3, 4]], "name": ["one", "two"]}), name)
    >>> carya.parquet(name)[1]
    {'x': array([3, 4]), 'name': 'two'}
    """
    files = listed_files("parquet", paths, _NAMED, "*.parquet", endpoint)
    native = image is not None or label is not None or bool(encoded) or bool(tensors)
    if native:
        if columns is not None or fill_null:
            raise invalid(
                "parquet: columns, fill_null", columns or fill_null, "them, or image, label, encoded and tensors"
            )
        keys = [
            *(encoded or {}).values(),
            *(given[0] for given in (tensors or {}).values() if isinstance(given, Sequence)),
        ]
        columns = list(dict.fromkeys(name for name in (image, label, *keys) if name is not None))
    rows = Parquet(
        files, checked_names("parquet: columns", columns, "names of columns"), dict(fill_null or {}), unpack_max
    )
    if native:
        return arrow(rows.unpack(), image=image, label=label, encoded=encoded, tensors=tensors)
    return Pipeline._of_dataset(checked_dataset(rows, None, False, rows.version))


class _Footer(NamedTuple):
    """What the footer of a file says."""

    rows: list[int]  # of each row group
    bytes: int  # of all columns, not compressed
    schema: Any  # of the wanted columns, structs taken apart


class Parquet:
    """Rows of Parquet files by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(
        self,
        files: Sequence[Listed | ListedObject],
        columns: tuple[str, ...] | None,
        fill: Mapping[str, Any],
        unpack_max: int | None,
        keep_nulls: bool = False,
    ) -> None:
        needed("parquet", "pyarrow", "parquet")
        if unpack_max is not None:
            integer("parquet: unpack_max", unpack_max, 0, "bytes of 0 or more, or None")
        self._files, self._columns, self._fill, self._keep_nulls = list(files), columns, dict(fill), keep_nulls
        with asking(8) as pool:
            footers = list(pool.map(lambda file: _footer(file, columns), self._files))
        for file, footer in zip(self._files, footers, strict=True):
            if footer.schema != footers[0].schema:
                raise InvalidArgument(
                    f"parquet: {file.path}: its columns are {_shown(footer.schema)}, and those of {self._files[0].path} "
                    f"{_shown(footers[0].schema)}; give files of one schema, or columns= that all of them have alike"
                )
        _check_fill(fill, footers[0].schema)
        # Of each row group its file, its number there and its first row; the last entry is the end.
        self._groups = [(i, g) for i, footer in enumerate(footers) for g in range(len(footer.rows))]
        counts = [count for footer in footers for count in footer.rows]
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).tolist()
        if not len(self):
            raise invalid("parquet: paths", [file.path for file in self._files], "files with at least one row")
        shape = [(file_name(file.path), file.size, footer.rows) for file, footer in zip(files, footers, strict=True)]
        self.version = f"parquet 1 {digest(shape, columns, sorted(fill.items()), str(footers[0].schema))}"
        self._bytes = sum(footer.bytes for footer in footers)
        self._folder = self._chosen_folder(unpack_max)
        self._close()

    def _close(self) -> None:
        """As it travels: nothing is open."""
        self._open: dict[int, Callable[[int], dict[str, Any]]] = {}
        self._broken: dict[int, str] = {}
        self._in_memory: list[int] = []
        self._about: dict[int, Any] = {}  # what the footer of the file says that was read last

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}, "_broken": {}, "_in_memory": [], "_about": {}}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: int) -> dict[str, Any]:
        group = bisect.bisect_right(self._starts, index) - 1
        row = index - self._starts[group]
        rows = self._open.get(group)
        if rows is None:
            rows = self._opened(group, row)
        return rows(row)

    def place(self, index: int) -> str:
        """Where a row is, for people."""
        group = bisect.bisect_right(self._starts, index) - 1
        return f"{self._subject(group)}, row {index - self._starts[group]}"

    @property
    def unpacked_bytes(self) -> int:
        """Of all wanted columns, as the footers say."""
        return self._bytes

    def kept_paths(self) -> list[str]:
        """What is in the cache folder of it."""
        return [self._folder] if self._folder and os.path.isdir(self._folder) else []

    def unpack(self, show: Callable[[int, int], None] = lambda done, count: None) -> list[str]:
        """All row groups in the cache folder; their paths in order. `show(done, count)` is told of row groups.

        Errors: Exhausted, SampleError that names the row group.
        """
        if not self._folder:
            raise Exhausted(
                f"parquet: {_NATIVELY}, and unpack_max or a cache folder that cannot be written forbid it; "
                "raise unpack_max, give CARYA_CACHE_DIR a folder that can be written, or give columns="
            )

        def unpacked(group: int) -> str:
            self._check(group)
            try:
                return self._unpacked(group)
            except _BrokenError as error:
                raise SampleError(f"{self._subject(group)}: {error}; leave the file out, or write it again") from error
            except _NoRoomError:
                raise Exhausted(
                    f"{self._subject(group)}: {_NATIVELY}, and a tenth of the disk of {self._folder} must stay free; make room, "
                    "give CARYA_CACHE_DIR a folder on a larger disk, or give columns="
                ) from None

        cores = min(len(os.sched_getaffinity(0)), 8)
        with asking(cores) as pool:
            groups = [g for g in range(len(self._groups)) if self._rows(g)]
            paths = []
            for path in pool.map(unpacked, groups):
                paths.append(path)
                show(len(paths), len(groups))
            return paths

    def _check(self, group: int) -> None:
        """Errors: IoError, when the file is another one by now. Of an object each range is of the version that was listed."""
        if isinstance(file := self._files[self._groups[group][0]], Listed):
            file.check("parquet")

    def _chosen_folder(self, unpack_max: int | None) -> str:
        """Where row groups are unpacked; "" for nowhere."""
        folder = cache_dir()
        if not folder or (unpack_max is not None and self._bytes > unpack_max):
            return ""
        return os.path.join(folder, kept_name("unpacked", self._files, "parquet", 1, self._columns))

    def _opened(self, group: int, row: int) -> Callable[[int], dict[str, Any]]:
        """The rows of a row group. Errors: SampleError, when it cannot be decoded; IoError, when its file is another one."""
        if group not in self._broken:
            self._check(group)
            try:
                table, mapped = self._mapped_or_decoded(group)
            except _BrokenError as error:
                self._broken[group] = str(error)
            else:
                rows = TableRows(table, self._subject(group), self._fill, self._keep_nulls)
                self._keep(group, rows, mapped)
                return rows
        raise SampleError(
            f"{self._subject(group)}, row {row}: {self._broken[group]}; leave the file out, or write it again"
        )

    def _keep(self, group: int, rows: Callable[[int], dict[str, Any]], mapped: bool) -> None:
        if not mapped:
            self._in_memory.append(group)
        elif len(self._open) >= _MAPPED_MAX:
            self._open.pop(next(one for one in self._open if one not in self._in_memory))
        self._open[group] = rows

    def _mapped_or_decoded(self, group: int) -> tuple[Any, bool]:
        if self._folder:
            try:
                return self._mapped(group), True
            except _NoRoomError:
                _log.warning(
                    "parquet: no room to unpack row groups in %s, of whose disk a tenth stays free; a shuffled stream decodes one "
                    "for each row from here on; make room, or give CARYA_CACHE_DIR a folder on a larger disk", self._folder,
                )  # fmt: skip
                self._folder = ""
        return self._decoded(group), False

    def _mapped(self, group: int) -> Any:
        """The table of a row group over its unpacked file, which is made where it is missing or damaged."""
        for _ in range(_TRIES):
            path = self._unpacked(group)
            try:
                table = _map(path)
                if table.num_rows == self._rows(group):
                    return table
            except FileNotFoundError:  # `carya cache rm`
                continue
            except _BrokenError:
                pass
            os.unlink(path)
        raise _NoRoomError

    def _unpacked(self, group: int) -> str:
        """The path of a row group that was unpacked, now or before. Errors: _NoRoomError, _BrokenError."""
        number, inside = self._groups[group]
        path = os.path.join(self._folder, f"{number:06}-{inside:06}.arrow")

        def write(name: str) -> None:
            table = self._decoded(group)
            if not has_room(self._folder, table.nbytes):
                raise _NoRoomError
            _write(table, name)

        make_once(path, write, [self._files[number]])
        return path

    def _decoded(self, group: int) -> Any:
        """The table of a row group in memory, where there are two at most."""
        while len(self._in_memory) >= _DECODED_MAX:
            self._open.pop(self._in_memory.pop(0), None)
        is_object = isinstance(self._files[self._groups[group][0]], ListedObject)
        return interrupted(lambda: self._read(group)) if is_object else self._read(group)

    def _read(self, group: int) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        number, inside = self._groups[group]
        listed = self._files[number]
        wanted = None if self._columns is None else list(self._columns)
        with _errors_of_data():
            # Of an object columns side by side are one request.
            ahead = isinstance(listed, ListedObject)
            with pq.ParquetFile(_source(listed), metadata=self._about.get(number), pre_buffer=ahead) as file:
                self._about = {number: file.metadata}
                table = file.read_row_group(inside, columns=wanted, use_threads=False)
            if table.num_rows != self._rows(group):
                raise ValueError(f"it has {table.num_rows:,} rows, and the footer says {self._rows(group):,}")
            return table.cast(pa.schema([field.with_type(plain_type(field.type)) for field in table.schema]))

    def _rows(self, group: int) -> int:
        return int(self._starts[group + 1] - self._starts[group])

    def _subject(self, group: int) -> str:
        number, inside = self._groups[group]
        return f"parquet: {self._files[number].path}, row group {inside}"


def _source(file: Listed | ListedObject) -> Any:
    """What pyarrow reads: of an object of a store the ranges that it asks for."""
    return open_file(file) if isinstance(file, ListedObject) else file.path


def _map(path: str) -> Any:
    import pyarrow as pa

    with _errors_of_data(), pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all()


def _write(table: Any, name: str) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(name, table.schema) as writer:
        writer.write_table(table.combine_chunks())


class _NoRoomError(Exception):
    """A row group is not unpacked."""


class _BrokenError(Exception):
    """Data cannot be decoded."""


@contextlib.contextmanager
def _errors_of_data() -> Iterator[None]:
    """What pyarrow raises of broken files becomes `_BrokenError`; errors of the system have a number, and pass."""
    import pyarrow as pa

    try:
        yield
    except (Error, MemoryError):  # a store that is wrong, or away, is no bad data
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        said = " ".join(str(error).split())
        raise _BrokenError(f"{type(error).__name__}: {said}") from error


def _footer(listed: Listed | ListedObject, columns: Sequence[str] | None) -> _Footer:
    """Errors: SampleError (no Parquet file), Unsupported (encrypted), NotFound (a column that there is not)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = listed.path
    try:
        with _errors_of_data(), pq.ParquetFile(_source(listed), pre_buffer=False) as file:
            about, schema = file.metadata, file.schema_arrow
            # Not their columns: of one that is encrypted, pyarrow ends the process.
            groups = [about.row_group(i) for i in range(about.num_row_groups)]
            rows = [group.num_rows for group in groups]
            size = sum(max(group.total_byte_size, 0) for group in groups)
            plain = pa.schema([field.with_type(plain_type(field.type)) for field in schema]).empty_table()
    except _BrokenError as error:
        if "crypt" in str(error):
            raise Unsupported(f"parquet: {path}: it is encrypted; write it again without encryption") from error
        raise SampleError(
            f"parquet: {path}: {error}; give Parquet files, or copy it again if it was cut off"
        ) from error
    if min(rows, default=0) < 0:
        raise SampleError(f"parquet: {path}: its footer has row groups of {min(rows)} rows; write it again")
    try:
        flat = without_structs(plain)
    except InvalidArgument as error:
        raise InvalidArgument(f"parquet: {path}: {error}") from None
    missing = [name for name in columns or () if not any(_is_wanted(one, [name]) for one in flat.column_names)]
    if missing:
        raise NotFound(f"parquet: {path} has no column {missing[0]!r}; give some of {', '.join(flat.column_names)}")
    kept = [field.remove_metadata() for field in flat.schema if _is_wanted(field.name, columns)]
    if not kept:
        raise invalid(f"parquet: {path}: columns", [], "a file with columns")
    return _Footer(rows, size, pa.schema([field.with_nullable(True) for field in kept]))


def _is_wanted(path: str, columns: Sequence[str] | None) -> bool:
    """Whether a path into structs is one of the columns, or inside of one."""
    return columns is None or any(path == name or path.startswith(f"{name}.") for name in columns)


def _shown(schema: Any) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _check_fill(fill: Mapping[str, Any], schema: Any) -> None:
    """Errors: InvalidArgument (a column that there is not, a value that is none of its type)."""
    import pyarrow as pa

    for name, value in fill.items():
        if name not in schema.names:
            raise invalid("parquet: fill_null", fill, f"columns among {', '.join(schema.names)}")
        kind = schema.field(name).type
        while is_list(kind):
            kind = kind.value_type
        if pa.types.is_temporal(kind):
            kind = pa.int64()
        try:
            pa.scalar(value).cast(kind)
        except (pa.ArrowException, TypeError, ValueError):
            raise invalid(f"parquet: fill_null[{name!r}]", value, f"a value of {kind}") from None
