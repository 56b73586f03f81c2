"""Arrays in files of numpy: rows of them, or each file a record."""

from __future__ import annotations

import bisect
import errno
import io
import itertools
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from .._errors import Error, InvalidArgument, NotFound, SampleError, Unsupported, invalid
from .._options import named_arguments
from .._pipeline.dataset import cache_dir
from .._pipeline.pipeline import Pipeline
from .._sources.objects import open_file
from .._sources.paths import PathLike
from .._stages.source import checked_dataset
from .addresses import RawRows, is_label, row_names, row_places, rows_at_addresses, why_not_raw
from .kept import File, digest, kept_name, listed_files, make_once, of_each, source_files
from .texts import copy_with_room
from .values import checked_names, native_order

_NPY = re.compile(r"^[^.].*\.npy$")
_NPZ = re.compile(r"^[^.].*\.npz$")
_OPEN_MAX = 256  # files that a process has mapped
_LOCAL_HEADER = 30  # bytes of a zip's header in front of a member, without name and extra field
_HEADER_MAX = 12 << 10  # of a .npy; numpy takes none of more than 10,000 B
_ENCRYPTED = 1

Array = np.ndarray[Any, Any]
Record = Literal["row", "file"]


@named_arguments
def npy(
    paths: PathLike | Sequence[PathLike] | Mapping[str, PathLike | Sequence[PathLike]],
    *,
    record: Record = "row",
    native: bool = False,
    endpoint: str | None = None,
) -> Pipeline:
    """Arrays in .npy files: rows of all of them one behind the other, or each file a record. They are mapped, not read.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.npy", bytewise); or such by field, as
    {"image": "image-*.npy", "label": "label-*.npy"}, as many files of each, of which those at the same place belong together.
    `record="row"`: records are rows, along the first axis, all of one dtype and shape. `record="file"`: each file, whatever its
    shape. The field is "value", or those of `paths`. Numbers of any dtype, also of the other byte order and in Fortran's order;
    arrays of objects are pickles, which are never loaded.

    `native=True`: rows are read by io_uring where they lie and never touch Python, as members of tars are: without worker
    processes, with `cache=`, `remote=` and operations on pictures. The fields and their bits are the same, and a sample has them
    by name. It takes numbers of at most 8 bytes, little-endian, in C order, and keeps each file open. A field "label" of int64
    numbers is held in memory. For one file per field that fits in memory, `carya.arrays({"x": "x.npy"})` maps it in this process.

    A file that changes while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Objects behind URLs are copied into the cache
    folder as a whole, once for each version; with `native` they stay in their store and rows are read by ranges.
    Errors: NotFound, InvalidArgument (numbers of files or rows, dtypes or shapes that differ, no row), SampleError (no .npy file,
    one that was cut off), Unsupported (objects, text, structured dtypes; with `native` what it does not take).
    Reference: numpy.load(allow_pickle=False).

    >>> import carya, numpy as np, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for i in range(2): np.save(folder / f"x{i}.npy", np.arange(6, dtype=np.int16).reshape(3, 2) + 10 * i)
    >>> carya.npy(folder)[4]["value"]
    array([12, 13], dtype=int16)
    >>> carya.npy(folder, native=True).outputs
    [('value', 'int16', (2,))]
    """
    by_name = paths if isinstance(paths, Mapping) else {"": paths}
    find = listed_files if native is True else source_files
    listed = {name: find("npy", given, _NPY, "*.npy", endpoint) for name, given in by_name.items()}
    counts = {name: len(found) for name, found in listed.items()}
    if len(set(counts.values())) != 1:
        raise invalid("npy: paths", counts, "as many files of each field")
    arrays = {name: of_each(npy_array, found) for name, found in listed.items()}
    parts = [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]
    return _pipeline("npy", parts, record, native)


@named_arguments
def npz(
    paths: PathLike | Sequence[PathLike],
    *,
    arrays: str | Sequence[str] | None = None,
    record: Record = "row",
    native: bool = False,
    endpoint: str | None = None,
) -> Pipeline:
    """Arrays in .npz files: rows of all files one behind the other, or each file a record.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.npz", bytewise), all with the arrays of the first.
    `arrays`: only these; None: all. They are the fields. `record="row"`: records are rows of them, along the first axis, as many
    in each array. Arrays of `numpy.savez` are mapped where they lie (their CRC is not checked); those of `savez_compressed` are
    unpacked once into the cache folder, as long as a tenth of the disk stays free, and mapped there. `record="file"`: each file is
    a record of its arrays, whatever their shapes, and read as a whole each time, its CRC checked.
    Arrays of objects are pickles, which are never loaded.

    `native=True`: rows of arrays of `numpy.savez` are read by io_uring where they lie, as by `carya.npy(native=True)`, which says
    what it takes; their CRC is not checked.

    An array that cannot be unpacked makes its rows broken records (`Loader(on_error=)`), named by file and array. A file that
    changes while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Objects behind URLs are copied into the cache
    folder as a whole, once for each version; with `native` they stay in their store and rows are read by ranges.
    Errors: NotFound (also an array that there is not: those that there are are named), InvalidArgument (numbers of rows, dtypes or
    shapes that differ, no row), SampleError (no .npz file, one that was cut off), Unsupported (objects, text, structured dtypes,
    encrypted files; with `native` what it does not take), Exhausted (no room to unpack).
    Reference: numpy.load(allow_pickle=False).

    >>> import carya, numpy as np, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez_compressed(name, x=np.arange(6, dtype=np.int16).reshape(3, 2), y=np.arange(3) / 2)
    >>> carya.npz(name)[1]
    {'x': array([2, 3], dtype=int16), 'y': array(0.5)}
    """
    files = (listed_files if native is True else source_files)("npz", paths, _NPZ, "*.npz", endpoint)
    names = checked_names("npz: arrays", arrays, "names of arrays")
    parts = [_npz_arrays(files[0], names)]
    wanted = names or tuple(parts[0])
    parts += of_each(lambda file: _npz_arrays(file, wanted), files[1:])
    return _pipeline("npz", parts, record, native)


def _pipeline(kind: str, parts: list[dict[str, _Stored]], record: Record, native: bool) -> Pipeline:
    if record not in ("row", "file"):
        raise invalid(f"{kind}: record", record, '"row" or "file"')
    if not isinstance(native, bool):
        raise invalid(f"{kind}: native", native, "True or False")
    if native and record == "file":
        raise Unsupported(
            f'{kind}: native=True: files are records of any shape; leave native= out, or give record="row"'
        )
    if native:
        return _native(kind, parts)
    rows = ArrayFiles(kind, parts, record)
    return Pipeline._of_dataset(checked_dataset(rows, None, False, rows.version))


def _native(kind: str, parts: list[dict[str, _Stored]]) -> Pipeline:
    """Rows as ranges of their files. Errors: InvalidArgument, Unsupported."""
    first = parts[0]
    counts = [_rows(kind, part, first) for part in parts]
    for part in parts:
        for one in part.values():
            why = why_not_raw(one.dtype, one.shape[1:])
            if one.fortran and len(one.shape) > 1:
                why = "it is in Fortran's order"
            if one.packed:
                why = "it is compressed"
            if why:
                raise Unsupported(f"{kind}: {one.subject}: native=True: {why}; leave native= out")
    if not sum(counts):
        raise _no_row(kind, parts)
    files: dict[File, int] = {}  # with their numbers
    fields, labels = [], None
    for name, like in first.items():
        stored = [part[name] for part in parts]
        if is_label(name, like.dtype, like.shape[1:], len(first)):
            labels = np.concatenate(
                of_each(lambda _file, one: _values(kind, one), [one.file for one in stored], stored)
            )
            continue
        size = like.dtype.itemsize * math.prod(like.shape[1:])
        places = [row_places(files.setdefault(one.file, len(files)), one.offset, one.shape[0], size) for one in stored]
        fields.append(RawRows(name or "value", like.dtype, like.shape[1:], np.concatenate(places)))
    return rows_at_addresses(kind, list(files), fields, row_names(counts), labels)


def _values(kind: str, one: _Stored) -> Array:
    with open_file(one.file) as source:
        source.seek(one.offset)
        data = source.read(one.shape[0] * one.dtype.itemsize)
    one.file.check(kind)
    if len(data) != one.shape[0] * one.dtype.itemsize:
        raise SampleError(f"{kind}: {one.subject}: it was cut off; copy it again")
    return np.frombuffer(data, one.dtype)


def _no_row(kind: str, parts: Sequence[Mapping[str, _Stored]]) -> Error:
    return invalid(f"{kind}: paths", [next(iter(part.values())).file.path for part in parts], "files with a row")


class _Stored(NamedTuple):
    """One array in a file."""

    file: File
    member: str  # of a zip; "" of a .npy file
    number: int  # of the member
    packed: bool  # it is compressed
    offset: int  # of its values in the file; of a compressed one in the member
    head: int  # bytes in front of them in the member or .npy file
    size: int  # of the member or .npy file
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @property
    def subject(self) -> str:
        return self.file.path + (f", {self.member}" if self.member else "")


class ArrayFiles:
    """Records of files of arrays by index. Threads: one. It travels to worker processes, each of which maps files of its own."""

    def __init__(self, kind: str, parts: Sequence[Mapping[str, _Stored]], record: Record) -> None:
        self._kind, self._parts, self._by_row = kind, [dict(part) for part in parts], record == "row"
        self._folder = cache_dir()
        counts = [_rows(kind, part, self._parts[0]) for part in self._parts] if self._by_row else [1] * len(parts)
        self._starts = [0, *itertools.accumulate(counts)]
        if not len(self):
            raise _no_row(kind, parts)
        shape = [
            [
                (name, os.path.basename(one.file.path), one.file.size, str(one.dtype), one.shape)
                for name, one in part.items()
            ]
            for part in self._parts
        ]
        self.version = f"{kind} 1 {digest(shape, record)}"
        self._open: dict[int, list[tuple[str, Array]]] = {}
        self._damaged: dict[
            str, str
        ] = {}  # members that cannot be unpacked, by their path there: why, for all of their rows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}, "_damaged": {}}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Any:
        if self._by_row:
            part = bisect.bisect_right(self._starts, index) - 1
            row = index - self._starts[part]
            arrays = self._open.get(part) or self._mapped(part, row)
            sample = {name: native_order(array[row, ...]) for name, array in arrays}
        else:
            sample = {name: self._whole(one) for name, one in self._parts[index].items()}
        return sample.get("", sample) if len(sample) == 1 else sample

    def place(self, index: int) -> str:
        """Where a record is, for people."""
        part = bisect.bisect_right(self._starts, index) - 1
        row = f", row {index - self._starts[part]}" if self._by_row else ""
        return f"{self._kind}: {next(iter(self._parts[part].values())).file.path}{row}"

    def unpack(self, show: Callable[[int, int], None] = lambda done, count: None) -> None:
        """Unpack what rows are mapped from. `show(done, count)` is told of files. Errors: SampleError, Exhausted."""
        for part, stored in enumerate(self._parts if self._by_row else ()):
            for one in stored.values():
                if one.packed:
                    one.file.check(self._kind)
                    self._unpacked(one, 0)
            show(part + 1, len(self._parts))

    def kept_paths(self) -> list[str]:
        """What is in the cache folder of it."""
        packed = {one.file for part in self._parts for one in part.values() if one.packed and self._by_row}
        paths = [os.path.join(self._folder, kept_name("unpacked", [file], "npz", 1)) for file in packed]
        return sorted(path for path in paths if self._folder and os.path.isdir(path))

    def _mapped(self, part: int, row: int) -> list[tuple[str, Array]]:
        found = []
        for name, one in self._parts[part].items():
            one.file.check(self._kind)
            path, offset = one.file.path, one.offset
            if one.packed:
                path = self._unpacked(one, row)
            if not math.prod(one.shape):
                found.append((name, np.zeros(one.shape, one.dtype)))
                continue
            order: Literal["F", "C"] = "F" if one.fortran else "C"
            found.append((name, np.asarray(np.memmap(path, one.dtype, "r", offset, one.shape, order))))
        if len(self._open) >= _OPEN_MAX:
            self._open.pop(next(iter(self._open)))
        self._open[part] = found
        return found

    def _unpacked(self, one: _Stored, row: int) -> str:
        """The path of a compressed member, unpacked into the cache folder."""
        subject = f"{self._kind}: {one.subject}"
        if not self._folder:
            raise Unsupported(f"{subject}: it is compressed; give CARYA_CACHE_DIR a folder that can be written")
        path = os.path.join(self._folder, kept_name("unpacked", [one.file], "npz", 1), f"{one.number:06}.npy")

        def write(temporary: str) -> None:
            try:
                with zipfile.ZipFile(one.file.path) as archive, archive.open(archive.infolist()[one.number]) as source:
                    copy_with_room(source, temporary, subject)  # type: ignore[arg-type]
            except _DAMAGED as error:
                self._damaged[path] = str(error)
                raise damaged(str(error)) from error

        def damaged(why: str) -> SampleError:
            return SampleError(f"{subject}, row {row}: {why}; copy the file again, or leave it out")

        if path in self._damaged:
            raise damaged(self._damaged[path])

        make_once(path, write, [one.file])
        if os.path.getsize(path) != one.size:  # damaged
            os.unlink(path)
            make_once(path, write, [one.file])
        return path

    def _whole(self, one: _Stored) -> Array:
        one.file.check(self._kind)
        size = math.prod(one.shape) * one.dtype.itemsize
        try:
            if one.member:
                with zipfile.ZipFile(one.file.path) as archive, archive.open(archive.infolist()[one.number]) as source:
                    data = source.read(one.head + size + 1)[one.head :]  # to the end, where the CRC is checked
            else:
                with open(one.file.path, "rb") as raw:
                    raw.seek(one.head)
                    data = raw.read(size)
            array = np.frombuffer(data, one.dtype, math.prod(one.shape))
        except _DAMAGED as error:
            raise SampleError(f"{self._kind}: {one.subject}: {error}; copy the file again, or leave it out") from error
        return native_order(array.reshape(one.shape, order="F" if one.fortran else "C"))


# Of a zip whose members cannot be unpacked; errors of the system are others.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError)


def _rows(kind: str, part: Mapping[str, _Stored], first: Mapping[str, _Stored]) -> int:
    """How many rows the arrays of a part have. Errors: InvalidArgument, where they differ, or rows from those of the first part."""
    for name, one in part.items():
        if not one.shape:
            raise InvalidArgument(f'{kind}: {one.subject}: it has no axis, so no rows; give record="file"')
        like = first[name]
        if (one.dtype, one.shape[1:]) != (like.dtype, like.shape[1:]):
            raise InvalidArgument(
                f"{kind}: {one.subject}: its rows are {one.dtype} {one.shape[1:]}, and those of {like.subject} {like.dtype} "
                f"{like.shape[1:]}; give files with rows of one dtype and shape"
            )
    counts = {one.subject: one.shape[0] for one in part.values()}
    if len(set(counts.values())) != 1:
        raise invalid(f"{kind}: rows", counts, "arrays with as many rows, those of interest by arrays=")
    return next(iter(counts.values()))


def npy_array(file: File, kind: str = "npy") -> _Stored:
    """The array of a .npy file. Errors: SampleError, Unsupported."""
    with open_file(file) as source:
        return _stored(kind, file, "", 0, source, file.size)


def _npz_arrays(file: File, names: Sequence[str] | None) -> dict[str, _Stored]:
    """Arrays of a zip by name. Errors: SampleError, NotFound, Unsupported."""
    found: dict[str, _Stored] = {}
    try:
        with open_file(file) as raw, zipfile.ZipFile(raw) as archive:
            members = {info.filename.removesuffix(".npy"): i for i, info in enumerate(archive.infolist())}
            for name in members if names is None else names:
                if name not in members:
                    raise NotFound(f"npz: {file.path} has no array {name!r}; give some of {', '.join(members)}")
                found[name] = _member(file, raw, archive, members[name])
    except Error:  # some of them are ValueErrors too
        raise
    except (*_DAMAGED, OSError) as error:
        if isinstance(error.__context__, Error):  # of a store, which zipfile takes for damage
            raise error.__context__ from None
        # A position that the file cannot have is one that it names itself.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise SampleError(f"npz: {file.path}: {error}; give files of numpy.savez, or copy it again") from error
    if not found:
        raise invalid(f"npz: {file.path}: arrays", [], "files with at least one array")
    return found


def _member(file: File, raw: BinaryIO, archive: zipfile.ZipFile, number: int) -> _Stored:
    info = archive.infolist()[number]
    if info.flag_bits & _ENCRYPTED:
        raise Unsupported(f"npz: {file.path}, {info.filename}: it is encrypted; write it again without encryption")
    with archive.open(info) as source:
        one = _stored("npz", file, info.filename, number, source, info.file_size)
    if info.compress_type != zipfile.ZIP_STORED:
        return one._replace(packed=True)
    raw.seek(info.header_offset)
    header = raw.read(_LOCAL_HEADER)
    skipped = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    start = info.header_offset + _LOCAL_HEADER + skipped
    if start + info.file_size > file.size:
        raise SampleError(f"npz: {file.path}, {info.filename}: it ends behind the end of the file; copy it again")
    return one._replace(offset=start + one.offset)


def _stored(kind: str, file: File, member: str, number: int, source: BinaryIO | Any, size: int) -> _Stored:
    """What the header of a .npy says. Errors: SampleError (none, cut off), Unsupported (objects, text, structured dtypes)."""
    subject = f"{kind}: {file.path}" + (f", {member}" if member else "")
    try:
        head = io.BytesIO(source.read(_HEADER_MAX))
        version = np.lib.format.read_magic(head)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read is None:
            raise ValueError(f"its version is {version}, that of structured dtypes")
        shape, fortran, dtype = read(head)
        wanted = head.tell() + math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or wanted > size:
            raise ValueError(f"{dtype} {shape} are {wanted:,} B, and it has {size:,} B")
    except (OSError, Error):  # of the system, or of a store
        raise
    except Exception as error:  # numpy's and Python's parsers have many
        raise SampleError(
            f"{subject}: {error}; give files of numpy.save, or copy it again if it was cut off"
        ) from error
    if dtype.kind not in "biufc":
        what = "objects, which are a pickle" if dtype.hasobject else str(dtype)
        raise Unsupported(f"{subject}: its values are {what}; give arrays of numbers")
    return _Stored(file, member, number, False, head.tell(), head.tell(), size, dtype, shape, fortran)
