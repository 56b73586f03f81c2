"""Records of text files by number: where each begins is found once and kept, and what is compressed is unpacked once."""

from __future__ import annotations

import bisect
import bz2
import contextlib
import gzip
import io
import itertools
import lzma
import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from .. import _core
from .._errors import Exhausted, IoError, SampleError, Unsupported
from .._joined import Expecting
from .._pipeline.dataset import cache_dir
from .._sources.fetched import Fetched, Place, Streamed, first_of
from .._sources.objects import ListedObject
from .kept import File, Listed, copied, has_room, kept_name, make_once, of_each
from .needed import needed

_BLOCK = 1 << 20
_KEPT_MIN = 8 << 20  # of smaller files the index is made anew
_KEPT_OBJECT_MIN = 64 << 10  # of smaller objects it is one request
_REQUESTS = 8  # for an object that is read to find where its records begin; fewer where there are many
_RECORD_MAX = 1 << 30
_SMALL_MAX = 4 << 20  # that are read at once
_FILES_MAX = 64  # that a process has open
_PACKED: dict[bytes, tuple[str, Callable[..., Any] | None]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
    b"\x28\xb5\x2f\xfd": ("zstd", None),  # by pyarrow
}
_OTHER = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"PK\x03\x04": "zip", b"PAR1": "Parquet", b"\x89HDF": "HDF5"}

Array = np.ndarray[Any, Any]


class _Text(NamedTuple):
    listed: File  # as the user has it
    path: str  # of the text: the same file or object, or the unpacked one
    starts: Array  # int64: where each record begins; the last one is the end
    kept: str = ""  # the file of the cache folder with that


# Where the records of a text begin that some function opens, of so many bytes; the last entry is the end.
FindStarts = Callable[[Callable[[], BinaryIO], int], Array]


class Texts:
    """Records of text files and objects. `find_starts` says where records begin, `how` it does that; the first `skip` are a head.

    Objects are read once, to find where their records begin, and then by ranges; those that are compressed are copied. Threads: one.
    Errors: SampleError (a file that is no text or was cut off), Exhausted (no room to unpack), Unsupported.
    """

    def __init__(
        self,
        kind: str,
        files: Sequence[File],
        find_starts: FindStarts,
        how: tuple[object, ...] = (),
        skip: int = 0,
    ) -> None:
        self._kind, self._skip = kind, skip
        ahead = max(1, _REQUESTS // max(len(files), 1))
        self._texts = of_each(lambda file: _opened(kind, file, find_starts, how, ahead), files)
        self.in_store = any(isinstance(text.listed, ListedObject) for text in self._texts)
        self._fetched = Fetched([text.listed for text in self._texts])
        self.counts = [max(len(text.starts) - 1 - skip, 0) for text in self._texts]
        self._firsts = [0, *itertools.accumulate(self.counts)]
        self._fds: dict[int, int] = {}

    def __len__(self) -> int:
        return self._firsts[-1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fds": {}}

    def read_lines(self, indices: Sequence[int]) -> tuple[bytes, Array] | None:
        """The first line of some records, one behind the other without line ends, and where each ends.

        None, where one by one will do only: they are large together or in many files, or one of them is broken.
        """
        wanted = np.asarray(indices, np.int64)
        if self.in_store:
            return self._fetched_lines(wanted)
        if len(self._texts) == 1:
            inside, starts = wanted + self._skip, self._texts[0].starts
            begins, ends, files = starts[inside], starts[inside + 1], np.full(len(wanted), self._files([0])[0])
        else:
            numbers = np.searchsorted(self._firsts, wanted, "right") - 1
            some, which = np.unique(numbers, return_inverse=True)
            if len(some) > _FILES_MAX:
                return None
            begins, ends = np.empty_like(wanted), np.empty_like(wanted)
            for number in some.tolist():
                places = numbers == number
                inside, starts = wanted[places] - self._firsts[number] + self._skip, self._texts[number].starts
                begins[places], ends[places] = starts[inside], starts[inside + 1]
            files = np.array(self._files(some.tolist()))[which]
        return None if int((ends - begins).sum()) > _SMALL_MAX else _core.read_lines(files, begins, ends)

    def _fetched_lines(self, wanted: Array) -> tuple[bytes, Array] | None:
        spans = [self._span(index) for index in wanted.tolist()]
        if sum(end - begin for _, begin, end in spans) > _SMALL_MAX:
            return None
        records = [self._read(index, span) for index, span in zip(wanted.tolist(), spans, strict=True)]
        lines = [record.partition(b"\n")[0].removesuffix(b"\r") for record in records]
        data = b"".join(lines)
        data.decode()
        return data, np.cumsum([*map(len, lines)], dtype=np.int64)

    def expect(self, indices: Sequence[int]) -> None:
        """As of `Expecting`."""
        if self.in_store:
            spans = map(self._span, indices)
            self._fetched.expect([one for one in spans if isinstance(self._texts[one[0]].listed, ListedObject)])

    def read(self, index: int) -> bytes:
        """The bytes of a record. Errors: IoError (the file is another one by now), SampleError (more than 1 GiB)."""
        return self._read(index, self._span(index))

    def _span(self, index: int) -> Place:
        """In which file a record is, where it begins and ends."""
        number = bisect.bisect_right(self._firsts, index) - 1
        starts = self._texts[number].starts
        inside = index - self._firsts[number] + self._skip
        return number, starts.item(inside), starts.item(inside + 1)

    def _read(self, index: int, span: Place) -> bytes:
        number, begin, end = span
        if end - begin > _RECORD_MAX:
            raise SampleError(f"{self.place(index)}: got a record of {end - begin:,} B; give records of at most 1 GiB")
        if self.in_store and isinstance(self._texts[number].listed, ListedObject):
            return self._fetched.read(span)
        fd = self._fds.get(number)
        data = os.pread(self._files([number])[0] if fd is None else fd, end - begin, begin)
        if len(data) != end - begin:
            raise IoError(f"{self.place(index)}: wanted {end - begin:,} B, got {len(data):,} B; make the pipeline anew")
        return data

    def place(self, index: int) -> str:
        """Where a record is, for errors: file and offset, which is that in the unpacked text."""
        number = bisect.bisect_right(self._firsts, index) - 1
        text = self._texts[number]
        return f"{self._kind}: {text.listed.path} @{text.starts[index - self._firsts[number] + self._skip]}"

    def sizes(self) -> Array:
        """Bytes of each record, its line end among them."""
        return np.concatenate([np.diff(text.starts[self._skip :]) for text in self._texts])

    def kept_paths(self) -> list[str]:
        """What is in the cache folder of them: unpacked texts, and where records begin."""
        unpacked = [os.path.dirname(text.path) for text in self._texts if text.path != text.listed.path]
        return [path for path in (*unpacked, *(text.kept for text in self._texts)) if path and os.path.exists(path)]

    def heads(self) -> list[bytes]:
        """The first record of each file; nothing of a file that has none."""
        return of_each(lambda _, text: _head_of(text), [text.listed for text in self._texts], self._texts)

    def _files(self, numbers: Sequence[int]) -> list[int]:
        """Descriptors of at most `_FILES_MAX` files, all of them open until the next call."""
        found = []
        for number in numbers:
            fd = self._fds.pop(number, None)
            if fd is None:
                text = self._texts[number]
                cast(Listed, text.listed).check(self._kind)
                if len(self._fds) >= _FILES_MAX:
                    os.close(self._fds.pop(next(iter(self._fds))))
                fd = os.open(text.path, os.O_RDONLY | os.O_CLOEXEC)
            self._fds[number] = fd  # the last one to be closed
            found.append(fd)
        return found

    def __del__(self) -> None:
        for fd in getattr(self, "_fds", {}).values():
            with contextlib.suppress(OSError):
                os.close(fd)


class TextRecords(Expecting):
    """What all datasets over the records of text files have."""

    _texts: Texts

    @property
    def expects(self) -> bool:  # type: ignore[override]
        return self._texts.in_store

    def __len__(self) -> int:
        return len(self._texts)

    def place(self, index: int) -> str:
        """Where a record is, for people."""
        return self._texts.place(index)

    def expect(self, indices: Sequence[int]) -> None:
        self._texts.expect(indices)

    def kept_paths(self) -> list[str]:
        """What is in the cache folder of them."""
        return self._texts.kept_paths()

    def sizes(self) -> Array:
        """Bytes of each record."""
        return self._texts.sizes()


def line_starts(file: BinaryIO, unless: bytes = b"") -> Array | None:
    """Where lines begin that are not empty; the last entry is the end of the file. A BOM is no part of the first.

    None where the byte `unless` is in it.
    """
    head = data = file.read(5)
    if unless and unless in head:
        return None
    found, base = list[Array](), 0  # which offset the first byte of `data` has
    while block := file.read(_BLOCK):
        if unless and unless in block:
            return None
        data += block
        text = np.frombuffer(data, np.uint8)
        starts = np.flatnonzero(text[:-2] == 10) + 1  # of lines of which two bytes are there
        first = text[starts]
        empty = (first == 10) | ((first == 13) & (text[starts + 1] == 10))
        found.append(starts[~empty] + base)
        base, data = base + len(data) - 2, data[-2:]
    size, begin = base + len(data), 3 if head.startswith(b"\xef\xbb\xbf") else 0
    if size <= begin:
        return np.zeros(1, np.int64)
    last = [at + 1 + base for at, byte in enumerate(data) if byte == 10 and not _is_empty(data[at + 1 :])]
    first_one = [] if _is_empty(head[begin:]) else [begin]
    return np.concatenate([first_one, *found, last, [size]]).astype(np.int64)


def _is_empty(rest: bytes) -> bool:
    """Whether a text begins with an empty line, or there is none; by its first two bytes."""
    return rest[:1] in (b"", b"\n") or rest[:2] in (b"\r", b"\r\n")


def lines_of(open_: Callable[[], BinaryIO], _: int) -> Array:
    """`FindStarts` of lines."""
    with open_() as file:
        found = line_starts(file)
    assert found is not None
    return found


def _opened(kind: str, file: File, find_starts: FindStarts, how: tuple[object, ...], ahead: int) -> _Text:
    is_object = isinstance(file, ListedObject)
    folder = cache_dir() if file.size >= (_KEPT_OBJECT_MIN if is_object else _KEPT_MIN) else ""
    kept = os.path.join(folder, kept_name("lines", [file], kind, 1, how) + ".npy") if folder else ""
    if isinstance(file, ListedObject):
        if kept and (known := _read_starts(kept, file.size)) is not None:  # of an object that was looked at
            return _Text(file, file.path, known, kept)
        path, size, first = file.path, file.size, first_of(file)
        if _packed(kind, path, first[:6]) is not None:
            return _opened(kind, copied(kind, file), find_starts, how, ahead)
    else:
        path = _text_of(kind, file)
        size = os.path.getsize(path)

    def opened() -> BinaryIO:
        if isinstance(file, ListedObject):
            return cast(BinaryIO, io.BufferedReader(Streamed(file, first, ahead), 1 << 20))
        return open(path, "rb")

    def write(name: str) -> None:
        with open(name, "wb") as out:
            np.save(out, find_starts(opened, size), allow_pickle=False)

    if not kept:
        return _Text(file, path, find_starts(opened, size))
    make_once(kept, write, [file])
    starts = _read_starts(kept, size)
    if starts is None:  # damaged
        os.unlink(kept)
        make_once(kept, write, [file])
        starts = _read_starts(kept, size)
    return _Text(file, path, starts, kept) if starts is not None else _Text(file, path, find_starts(opened, size))


def _head_of(text: _Text) -> bytes:
    """The first record; nothing where there is none."""
    if len(text.starts) < 2:
        return b""
    begin, size = text.starts.item(0), min(text.starts.item(1) - text.starts.item(0), _RECORD_MAX)
    if isinstance(text.listed, ListedObject):
        return text.listed.read(begin, size)
    with open(text.path, "rb") as file:
        file.seek(begin)
        return file.read(size)


def _read_starts(name: str, size: int) -> Array | None:
    """A kept index; None when it is none of a file of this size."""
    try:
        starts: Array = np.load(name, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    sound = starts.dtype == np.int64 and starts.ndim == 1 and len(starts) > 0 and starts[0] >= 0
    return starts if sound and starts[-1] == size and bool((np.diff(starts) > 0).all()) else None


def _packed(kind: str, path: str, magic: bytes) -> tuple[str, Callable[..., Any] | None] | None:
    """By what a file is compressed that begins so; None of text. Errors: SampleError (it is neither)."""
    for start, name in _OTHER.items():
        if magic.startswith(start):
            raise SampleError(f"{kind}: {path}: it is {name}; give text in UTF-8, plain, or of gzip, bzip2, xz or zstd")
    return next((found for start, found in _PACKED.items() if magic.startswith(start)), None)


def _text_of(kind: str, file: Listed) -> str:
    """The path of the text: that of the file, or of what was unpacked of it into the cache folder."""
    with open(file.path, "rb") as head:
        packed = _packed(kind, file.path, head.read(6))
    if packed is None:
        return file.path
    name, opener = packed
    folder = cache_dir()
    if not folder:
        raise Unsupported(
            f"{kind}: {file.path}: it is {name}, and no cache folder can be written; call {name} -d on it"
        )
    path = os.path.join(folder, kept_name("unpacked", [file], "text", 1), "text")

    def write(temporary: str) -> None:
        try:
            with _zstd(kind, file.path) if opener is None else opener(file.path, "rb") as source:
                copy_with_room(source, temporary, f"{kind}: {file.path}")
        except (EOFError, zlib.error, lzma.LZMAError, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise SampleError(f"{kind}: {file.path}: it is {name}, and {error}; copy it again") from error

    make_once(path, write, [file])
    return path


def _zstd(kind: str, path: str) -> Any:
    return needed(kind, "pyarrow", "parquet").input_stream(path, compression="zstd")


def copy_with_room(source: BinaryIO, path: str, subject: str) -> None:
    """All of a stream to a file. Errors: Exhausted, where less than a tenth of the disk would stay free."""
    with open(path, "wb") as out:
        while block := source.read(_BLOCK):
            if not has_room(os.path.dirname(path), len(block)):
                wanted = "make room, or give CARYA_CACHE_DIR a folder on a larger disk"
                raise Exhausted(f"{subject}: unpacked, it leaves less than a tenth of the disk free; {wanted}")
            out.write(block)
