"""Rows of datasets in HDF5 files."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from .._errors import Error, InvalidArgument, IoError, NotFound, SampleError, Unsupported, invalid
from .._options import integer, named_arguments
from .._pipeline.pipeline import Pipeline
from .._sources.objects import ListedObject, ObjectPages, first_page, open_file
from .._sources.paths import PathLike
from .._stages.source import checked_dataset
from .addresses import RawRows, is_label, row_names, rows_at_addresses, why_not_raw
from .kept import File, digest, listed_files, of_each, source_files
from .needed import needed
from .values import native_order

_NAMED = re.compile(r"^[^.].*\.(h5|hdf5|hdf|he5)$")
_BEGINS_MAX = 1024  # files whose first pages are held, 128 KiB each, while a pipeline is made
_OPEN_MAX = 16  # files that a process has open
_CHUNK_CACHE = 64 << 20

Array = np.ndarray[Any, Any]


@named_arguments
def hdf5(
    paths: PathLike | Sequence[PathLike],
    datasets: str | Sequence[str] | Mapping[str, str] | None = None,
    *,
    native: bool = False,
    chunk_cache: int = _CHUNK_CACHE,
    endpoint: str | None = None,
) -> Pipeline:
    """Rows of datasets in HDF5 files, read by h5py in worker processes. Needs it: `pip install carya[hdf5]`.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.h5" or "*.hdf5", bytewise), their rows one behind the
    other. `datasets`: paths inside of the file ("images", "train/labels"), or such by field ({"image": "train/images"}); None: all
    that have as many rows as the longest. Record i is row i of each, along the first axis. Fields: numbers and bools as arrays in
    native byte order (a filter that h5py has, such as gzip and lzf, is undone), text as `str`, bytes as `bytes`, lists of
    differing length as arrays, for `.batch(lists=)`.

    A compressed dataset is decoded by chunk, of which each process keeps `chunk_cache` bytes per dataset: in random order each row
    decodes a chunk unless all of them fit. Write chunks of one row or few where rows are large. Files are opened in each worker,
    never before a fork, read only and without locks; external links, virtual datasets and external storage, which read other
    files, are refused.

    `native=True`: h5py says where rows lie, once when the pipeline is made, and io_uring reads them there, as members of tars are:
    without worker processes, with `cache=`, `remote=` and operations on pictures. The fields and their bits are the same. It takes
    numbers of at most 8 bytes, little-endian, of datasets in one piece or in chunks of whole rows without filters, and keeps each
    file open. A dataset "label" of int64 numbers is held in memory, however it is stored.

    A row that cannot be decoded is a broken record (`Loader(on_error=)`), named by file, dataset and row. A file that changes
    while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Objects behind URLs are copied into the cache
    folder as a whole, once for each version; with `native` they stay in their store and rows are read by ranges.
    Errors: NotFound (also a dataset that there is not: those that there are are named), InvalidArgument (numbers of rows, dtypes or
    shapes that differ, no row, two of one field), SampleError (no HDF5 file, one that was cut off), IoError (one of the newer
    format that a program has open for writing), Unsupported (h5py is missing,
    structured types, links to other files; with `native` what it does not take).
    Reference: h5py.Dataset.__getitem__.

    >>> import carya, h5py, numpy as np, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.h5"
    >>> with h5py.File(name, "w") as file:
    ...     file["train/x"] = np.arange(6, dtype=np.int16).reshape(3, 2)
    ...     file["train/y"] = ["a", "b", "c"]
    >>> carya.hdf5(name, {"x": "train/x", "y": "train/y"})[1]
    {'x': array([2, 3], dtype=int16), 'y': 'b'}
    >>> carya.hdf5(name, {"x": "train/x"}, native=True).outputs
    [('x', 'int16', (2,))]
    """
    needed("hdf5", "h5py", "hdf5")
    integer("hdf5: chunk_cache", chunk_cache, 0, "bytes of 0 or more")
    if not isinstance(native, bool):
        raise invalid("hdf5: native", native, "True or False")
    files = (listed_files if native else source_files)("hdf5", paths, _NAMED, "*.h5 or *.hdf5", endpoint)
    wanted = _wanted(datasets)
    # h5py looks at one file at a time, and opens each twice.
    begins = of_each(lambda file: first_page(file) if isinstance(file, ListedObject) else b"", files[:_BEGINS_MAX])
    begins += [b""] * (len(files) - len(begins))
    if wanted is None:
        wanted = _all(files[0], begins[0])
    rows = Hdf5Rows(files, wanted, chunk_cache, begins)
    if native:
        return rows.native(begins)
    return Pipeline._of_dataset(checked_dataset(rows, None, False, rows.version))


def _wanted(datasets: Any) -> dict[str, str] | None:
    """Path in the file by field; None for all."""
    if datasets is None:
        return None
    listed = [datasets] if isinstance(datasets, str) else datasets
    named = dict(listed) if isinstance(listed, Mapping) else {name: name for name in listed}
    if not named or not all(isinstance(name, str) for pair in named.items() for name in pair):
        raise invalid("hdf5: datasets", datasets, "paths of datasets in the file")
    return _by_field("hdf5", [(name.strip("/"), path.strip("/")) for name, path in named.items()])


def _by_field(subject: str, named: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Paths of datasets by field. Errors: InvalidArgument (two of one field, as "a/b" and "a.b")."""
    found: dict[str, str] = {}
    for name, path in named:
        other = found.setdefault(name.replace("/", "."), path)
        if other != path:
            raise invalid(
                f"{subject}: datasets", [other, path], 'a field for each, as datasets={"x": "a/b", "y": "a.b"}'
            )
    return found


class _Column(NamedTuple):
    """What a dataset is."""

    rows: int
    kind: str  # "number", "text", "bytes" or "list"
    dtype: str
    shape: tuple[int, ...]


class Hdf5Rows:
    """Rows of HDF5 files by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(
        self, files: Sequence[File], datasets: Mapping[str, str], chunk_cache: int, begins: Sequence[bytes]
    ) -> None:
        self._files, self._datasets, self._cache = list(files), dict(datasets), chunk_cache
        columns = [self._columns_of(file, begin) for file, begin in zip(files, begins, strict=True)]
        for file, found in zip(self._files, columns, strict=True):
            for name, column in found.items():
                like = columns[0][name]
                if column[1:] != like[1:]:
                    raise InvalidArgument(
                        f"hdf5: {file.path}, {self._datasets[name]}: its rows are {column.dtype} {column.shape}, and those of "
                        f"{self._files[0].path} {like.dtype} {like.shape}; give files with rows of one dtype and shape"
                    )
        self._kinds = {name: column.kind for name, column in columns[0].items()}
        counts = [next(iter(found.values())).rows for found in columns]
        self._starts = [0, *itertools.accumulate(counts)]
        if not len(self):
            raise invalid("hdf5: paths", [file.path for file in self._files], "files with at least one row")
        shape = [
            (os.path.basename(file.path), file.size, *found.items()) for file, found in zip(files, columns, strict=True)
        ]
        self.version = f"hdf5 1 {digest(shape, self._datasets)}"
        self._open: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = bisect.bisect_right(self._starts, index) - 1
        row = index - self._starts[number]
        opened = self._open.get(number) or self._opened(number)
        sample, name = {}, ""
        try:
            for name, dataset in opened[1].items():
                sample[name] = _value(dataset[row], self._kinds[name])
        except Exception as error:
            if isinstance(error, OSError) and _is_of_system(error):
                raise
            where = f"hdf5: {self._files[number].path}, {self._datasets[name]}, row {row}"
            raise SampleError(f"{where}: {_said(error)}; copy the file again, or leave the row out") from error
        return sample

    def place(self, index: int) -> str:
        """Where a record is, for people."""
        number = bisect.bisect_right(self._starts, index) - 1
        return f"hdf5: {self._files[number].path}, row {index - self._starts[number]}"

    def native(self, begins: Sequence[bytes]) -> Pipeline:
        """Rows as ranges of their files. Errors: InvalidArgument, Unsupported, SampleError."""
        places: dict[str, list[Array]] = {}
        labels: list[Array] = []
        like: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        for number, (file, begin) in enumerate(zip(self._files, begins, strict=True)):
            with _reading(file, begin) as opened:
                in_memory = None
                for name, path in self._datasets.items():
                    dataset = opened[path]
                    like[name] = dataset.dtype, tuple(dataset.shape[1:])
                    if is_label(name, *like[name], len(self._datasets)):
                        in_memory = dataset
                    else:
                        found = _places(f"hdf5: {file.path}, {path}", dataset, number, file)
                        places.setdefault(name, []).append(found)
                if in_memory is not None:  # behind the others: the file has bytes for as many rows of those
                    labels.append(in_memory[:])
            file.check("hdf5")
        fields = [RawRows(name, *like[name], np.concatenate(lies)) for name, lies in places.items()]
        counts = [end - begin for begin, end in itertools.pairwise(self._starts)]
        in_all = np.concatenate(labels) if labels else None
        return rows_at_addresses("hdf5", self._files, fields, row_names(counts), in_all)

    def _opened(self, number: int) -> Any:
        self._files[number].check("hdf5")
        if len(self._open) >= _OPEN_MAX:
            self._open.pop(next(iter(self._open)))[0].close()
        try:
            file = _open(self._files[number].path, self._cache)
        except OSError as error:
            raise _no_file(self._files[number], error) from error
        self._open[number] = file, {name: file[path] for name, path in self._datasets.items()}
        return self._open[number]

    def _columns_of(self, file: File, begin: bytes) -> dict[str, _Column]:
        with _reading(file, begin) as opened:
            found = {name: _column(f"hdf5: {file.path}", opened, path) for name, path in self._datasets.items()}
        counts = {self._datasets[name]: column.rows for name, column in found.items()}
        if len(set(counts.values())) != 1:
            raise invalid(f"hdf5: {file.path}: rows", counts, "datasets with as many rows")
        return found


def _open(source: str | BinaryIO, cache: int) -> Any:
    import h5py

    def opened(**how: bool | None) -> Any:
        return h5py.File(source, "r", rdcc_nbytes=cache, rdcc_nslots=10007, **how)

    if not isinstance(source, str):
        return opened()
    for locking in (False, None):
        try:
            return opened(locking=locking)
        except OSError as error:
            if "flag values don't match" not in str(error):
                raise
    return opened(locking=True)  # as this process has it open elsewhere: the library wants all of one kind


@contextlib.contextmanager
def _reading(file: File, begin: bytes = b"") -> Iterator[Any]:
    """The file, to be looked at; `begin`: what was read of an object. Errors: SampleError (no HDF5 file, a damaged one); of an object those of its store."""
    pages = ObjectPages(file, begin) if isinstance(file, ListedObject) else None
    failure: Exception | None = None
    try:
        with _open(file.path if pages is None else cast(BinaryIO, pages), 0) as opened:
            yield opened
    except Exception as error:
        if pages is None and isinstance(error, Error):
            raise
        failure = error if isinstance(error, Error) else _no_file(file, error)
        if pages is None:
            raise failure from error
    if failure is not None:
        # What h5py holds in the frames of a traceback it frees when the interpreter ends, in Python that is no more.
        failure.__cause__ = failure.__context__ = None
        raise failure.with_traceback(None)


def _places(subject: str, dataset: Any, number: int, file: File) -> Array:
    """Where the rows of a dataset lie. Errors: Unsupported (not in one piece each), SampleError (behind the end)."""
    dtype, shape = dataset.dtype, tuple(dataset.shape[1:])
    rows, size = int(dataset.shape[0]), dtype.itemsize * math.prod(shape)
    why = why_not_raw(dtype, shape)
    if not why and dataset.id.get_create_plist().get_nfilters():
        why = "it is compressed, or has another filter"
    if not why and dataset.chunks and dataset.chunks[1:] != shape:
        why = f"its chunks of {dataset.chunks} have parts of rows"
    begins: Array | None = None  # of pieces of `each` rows
    each = dataset.chunks[0] if dataset.chunks else max(rows, 1)
    if not why and rows * size > file.size:
        why = "its values were never written as a whole"
    if not why:
        begins = _chunks(dataset, -(-rows // each)) if dataset.chunks else _piece(dataset)
        why = "" if begins is not None else "some of its values were never written, or stand in its header"
    if begins is None:
        raise Unsupported(f"{subject}: native=True: {why}; leave native= out")
    places = np.empty((rows, 3), np.uint64)
    places[:, 0], places[:, 2] = number, size
    row = np.arange(rows, dtype=np.uint64)
    places[:, 1] = begins[row // np.uint64(each)] + row % np.uint64(each) * np.uint64(size)
    if rows and int(places[:, 1].max()) > file.size - size:
        raise SampleError(f"{subject}: it ends behind the end of the file; copy it again")
    with open_file(file) as raw:  # the library may count from elsewhere: behind a user's block, in a file of parts
        for at in {0, rows - 1} if rows else ():
            raw.seek(int(places[at, 1]))
            if raw.read(size) != np.asarray(dataset[at]).tobytes():
                raise Unsupported(f"{subject}: native=True: row {at} is not where h5py says; leave native= out")
    return places


def _piece(dataset: Any) -> Array | None:
    begin = dataset.id.get_offset() if dataset.shape[0] else 0
    return None if begin is None else np.array([begin], np.uint64)


def _chunks(dataset: Any, count: int) -> Array | None:
    """Where each of so many chunks begins; None where one is missing."""
    if dataset.id.get_num_chunks() != count:
        return None
    begins = np.zeros(count, np.uint64)
    seen = np.zeros(count, bool)

    def take(info: Any) -> None:
        number = info.chunk_offset[0] // dataset.chunks[0]
        if info.byte_offset is not None and 0 <= number < count:
            begins[number], seen[number] = info.byte_offset, True

    if hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(take)
    else:
        for i in range(count):
            take(dataset.id.get_chunk_info(i))
    return begins if seen.all() else None


def _no_file(file: File, error: Exception) -> Exception:
    if isinstance(error, OSError) and _is_of_system(error):
        return error
    if "already open for write" in str(error):
        return IoError(
            f"hdf5: {file.path}: a program has it open for writing, or ended while it had, so that what is in it may be half written; close "
            f"it there, or, where none has it open, take the mark off: h5clear -s {file.path}"
        )
    return SampleError(f"hdf5: {file.path}: {_said(error)}; give HDF5 files, or copy it again if it was cut off")


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _is_of_system(error: OSError) -> bool:
    """h5py's own errors have no number, but for those of opening."""
    return error.errno is not None and "unable to" not in str(error).lower()


def _all(file: File, begin: bytes) -> dict[str, str]:
    """The datasets of a file that have as many rows as the longest, by field."""
    import h5py

    found: dict[str, int] = {}

    def visit(path: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape:
            found[path] = item.shape[0]

    with _reading(file, begin) as opened:
        opened.visititems(visit)  # follows no links to other files
    longest = max(found.values(), default=0)
    if not longest:
        raise invalid(f"hdf5: {file.path}: datasets", list(found), "a file with a dataset that has rows")
    return _by_field(f"hdf5: {file.path}", [(path, path) for path, rows in found.items() if rows == longest])


def _column(subject: str, file: Any, path: str) -> _Column:
    """Errors: NotFound, Unsupported, InvalidArgument (no axis)."""
    import h5py

    parts = path.split("/")
    for i in range(len(parts)):
        link = None
        with contextlib.suppress(KeyError):
            link = file.get("/".join(parts[: i + 1]), getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise Unsupported(f"{subject}, {path}: it is a link to another file, {link.filename}; give that file")
    dataset = file.get(path)
    if not isinstance(dataset, h5py.Dataset):
        there: list[str] = []
        file.visititems(lambda name, item: there.append(name) if isinstance(item, h5py.Dataset) else None)
        raise NotFound(f"{subject} has no dataset {path!r}; give some of {', '.join(there)}")
    if dataset.is_virtual or dataset.external:
        raise Unsupported(f"{subject}, {path}: its values lie in other files; give those, or copy it into one file")
    if not dataset.shape:
        raise InvalidArgument(f"{subject}, {path}: it has no axis, so no rows; give datasets with one row per record")
    text, items = h5py.check_string_dtype(dataset.dtype), h5py.check_vlen_dtype(dataset.dtype)
    kind = "list" if items is not None else "number"
    if text is not None:
        kind = "text" if text.encoding == "utf-8" or text.length is None else "bytes"
    number = np.dtype(items) if items is not None else dataset.dtype
    if text is None and number.kind not in "biufc":
        raise Unsupported(f"{subject}, {path}: its values are {dataset.dtype}; give datasets of numbers or text")
    return _Column(dataset.shape[0], kind, str(dataset.dtype), tuple(dataset.shape[1:]))


def _value(value: Any, kind: str) -> Any:
    """A row as a sample has it. Errors: UnicodeDecodeError."""
    if kind in ("text", "bytes"):
        if isinstance(value, np.ndarray):
            return [_value(item, kind) for item in value]
        value = bytes(value)
        return value.decode() if kind == "text" else value
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return [_value(item, kind) for item in value]
    return native_order(np.asarray(value))
