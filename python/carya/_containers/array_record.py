"""Records of ArrayRecord files."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from .._errors import Error, SampleError, Unsupported, invalid
from .._formats.kept import File, digest, file_name, listed_files, of_each
from .._joined import Expecting
from .._pipeline.pipeline import Pipeline
from .._sources.objects import ListedObject, ObjectPages
from .._sources.paths import PathLike
from .._stages.source import checked_dataset
from .codecs import UNPACKED_MAX, unpacked
from .examples import parsed, read_varint
from .ranges import Ranges

NAMED = re.compile(r"^[^.].*\.(array_?record|arrayrecord)(-\d+-of-\d+)?$")
# Source: Riegeli's description of its files (doc/riegeli_records_file_format.md): blocks of 64 KiB begin with a head of 24 B that
# lies in the middle of what they hold; a chunk has a head of 40 B.
_BLOCK, _BLOCK_HEAD, _CHUNK_HEAD = 1 << 16, 24, 40
_CODECS = {0: "", ord("z"): "zstd", ord("b"): "brotli", ord("s"): "snappy"}
_SIMPLE, _TRANSPOSED = ord("r"), ord("t")
_MAGIC = 0x71930E704FDAE05E
# The first 64 bytes of every Riegeli file are those of its signature.
SIGNATURE = bytes.fromhex("83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a9")

_KIND_AT = 24
_HEAD = struct.Struct("<QQQQQ")  # hash, bytes, hash of them, kind and number of records, bytes of the records
_LOOKED_AT = _CHUNK_HEAD + 11  # the head, how it was compressed, bytes of the lengths
# What a chunk's head may say of its records, so that a few bytes do not ask for much memory: so many, or some for each byte of it;
# never more than the first number. Lengths have at most 5 bytes, since a chunk has at most 1 GiB.
_RECORDS_MAX, _RECORDS_LEAST, _RECORDS_PER_BYTE, _LENGTH_MAX = 1 << 24, 1 << 16, 64, 5
# Of an index: writers need at least a byte for each entry, which is three numbers and what they are.
_ENTRIES_PER_BYTE, _ENTRY_MAX = 4, 33
_AT_ONCE = 1 << 20  # bytes whose numbers are read together

Array = np.ndarray[Any, Any]
Record = Literal["bytes", "example"]
_View = Callable[[int, int], memoryview]  # so many bytes of a file from an offset on


def array_record(
    paths: PathLike | Sequence[PathLike], *, record: Record = "bytes", endpoint: str | None = None
) -> Pipeline:
    """Records of ArrayRecord files in any order, read in worker processes by a reader of our own.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.array_record" or "*.array_record-00000-of-00010",
    bytewise), their records one behind the other. `record`: samples are `{"record": bytes}`, or "example", the features of a
    `tf.train.Example` or `SequenceExample` by name: `bytes`, an `int` or a float32 where there is one value, else a list of bytes
    or an array. What else bytes mean is for a function to say: `.map(decode, fields="record")`.

    Where records lie is read from a file's end, once when the pipeline is made, as 30 bytes of memory each. A chunk that was
    compressed (zstd is what writers choose by themselves; brotli, snappy) is unpacked by pyarrow: `pip install carya[parquet]`. A
    record is read alone where the file was written with "group_size:1", the default; else its group is unpacked, of which each
    process keeps the last one. Checksums are not compared: what is checked is that lengths, numbers and heads agree.

    A record that cannot be read is a broken record (`Loader(on_error=)`), named by file, offset and reason. A file that changes
    while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Objects behind URLs are read by ranges: a worker
    process asks for the chunks of the samples that it makes next, at most 8 MiB and 16 requests at the same time.
    Errors: NotFound, InvalidArgument (no record), SampleError (no ArrayRecord file, one that was cut off), Unsupported (chunks that
    were written with "transpose", pyarrow is missing).
    Reference: array_record.python.array_record_module.ArrayRecordReader.

    >>> import carya, tempfile
    >>> from array_record.python.array_record_module import ArrayRecordWriter
    >>> name = tempfile.mkdtemp() + "/a.array_record"
    >>> writer = ArrayRecordWriter(name, "uncompressed")
    >>> for n in range(3): _ = writer.write(b"record %d" % n)
    >>> writer.close()
    >>> carya.array_record(name)[1]
    {'record': b'record 1'}
    """
    if record not in ("bytes", "example"):
        raise invalid("array_record: record", record, '"bytes" or "example"')
    files = listed_files("array_record", paths, NAMED, "*.array_record", endpoint)
    rows = ArrayRecords(files, record)
    return Pipeline._of_dataset(checked_dataset(rows, None, False, rows.version))


class _Index(NamedTuple):
    """Where the chunks of a file lie."""

    begins: Array  # int64; one more, the end of the last
    decoded: Array  # int64: bytes of the records of each chunk
    firsts: Array  # int64: number of the first record of each chunk; one more, that of all records


class _Chunk(NamedTuple):
    """Records that were compressed together."""

    data: bytes
    ends: Array | None  # int64, the first is 0; None: one record

    def record(self, row: int) -> bytes:
        if self.ends is None:
            return self.data
        return self.data[self.ends.item(row) : self.ends.item(row + 1)]


_NO_CHUNK: tuple[tuple[int, int], _Chunk] = (-1, -1), _Chunk(b"", None)


class ArrayRecords(Expecting):
    """Records of ArrayRecord files by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(self, files: Sequence[File], record: Record) -> None:
        self._ranges = Ranges("array_record", files)
        self._record = record
        self.expects = any(isinstance(file, ListedObject) for file in files)
        self._indexes = of_each(lambda _, number: self._index_of(number), files, range(len(files)))
        self._ranges.close()
        self._starts = [0, *itertools.accumulate(int(index.firsts[-1]) for index in self._indexes)]
        if not len(self):
            raise invalid("array_record: paths", [file.path for file in files], "files with at least one record")
        about = [
            (file_name(file.path), file.size, *(digest(part.tobytes()) for part in index))
            for file, index in zip(files, self._indexes, strict=True)
        ]
        self.version = f"array_record 1 {digest(about, record)}"
        self._last = _NO_CHUNK

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": _NO_CHUNK}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        number, chunk, row = self._at(index)
        try:
            data = self._data(number, chunk, row)
            return {"record": data} if self._record == "bytes" else parsed(data)
        except (ValueError, RecursionError, Unsupported) as error:
            if isinstance(error, Error) and not isinstance(error, Unsupported):
                raise  # of a store
            # What is not supported was told when the pipeline was made; here it is a damaged byte.
            wanted = "copy the file again, or leave the record out"
            raise SampleError(f"{self.place(index)}: {error}; {wanted}") from error

    def expect(self, indices: Sequence[int]) -> None:
        if not self.expects:
            return
        places = []
        for index in indices:
            number, chunk, _ = self._at(index)
            begins = self._indexes[number].begins
            places.append((number, begins.item(chunk), begins.item(chunk + 1)))
        # Of a chunk that was read last the records are here.
        self._ranges.expect([place for place, _ in itertools.groupby(places)])

    def place(self, index: int) -> str:
        """Where a record is, for people: its chunk's offset, and its number in the file."""
        number, chunk, _ = self._at(index)
        path, begin = self._ranges.files[number].path, int(self._indexes[number].begins[chunk])
        return f"array_record: {path} @{begin}, record {index - self._starts[number]}"

    def sizes(self) -> Array:
        """Bytes of each record as they lie in the file, of groups in equal parts."""
        found = []
        for index in self._indexes:
            counts = np.diff(index.firsts)
            found.append(np.repeat(np.diff(index.begins) // np.maximum(counts, 1), counts))
        return np.concatenate(found)

    def _at(self, index: int) -> tuple[int, int, int]:
        """File, chunk and number in the chunk."""
        number = bisect.bisect_right(self._starts, index) - 1
        firsts = self._indexes[number].firsts
        row = index - self._starts[number]
        chunk = int(np.searchsorted(firsts, row, "right")) - 1
        return number, chunk, row - int(firsts[chunk])

    def _data(self, number: int, chunk: int, row: int) -> bytes:
        if self._last[0] != (number, chunk):
            index = self._indexes[number]
            begin, end = index.begins.item(chunk), index.begins.item(chunk + 1)
            count = index.firsts.item(chunk + 1) - index.firsts.item(chunk)
            view = functools.partial(self._ranges.view, number)
            found = self._chunk(view, begin, end, count, index.decoded.item(chunk))
            if count == 1:
                return found.data
            self._last = (number, chunk), found
        return self._last[1].record(row)

    @staticmethod
    def _chunk(view: _View, begin: int, end: int, count: int | None, decoded: int | None) -> _Chunk:
        """What the chunk that lies there holds; `count`: None: it is of the index. Errors: ValueError, Unsupported, IoError."""
        if end - begin > 2 * UNPACKED_MAX:
            raise ValueError(f"its chunk has {end - begin:,} B, and at most {2 * UNPACKED_MAX:,} B are read")
        parts = _without_heads(view(begin, end - begin), begin)
        head = bytes(parts[0][:_LOOKED_AT])
        if len(head) < _LOOKED_AT:
            head = b"".join(parts[:3])[:_LOOKED_AT]
        if len(head) < _CHUNK_HEAD:
            raise ValueError("it ends within the head of a chunk")
        _, size, _, kind, bytes_ = _HEAD.unpack_from(head)
        kind, records = kind & 255, kind >> 8
        if kind == _TRANSPOSED:
            raise ValueError('its chunk is one that was written with "transpose"')
        if kind != _SIMPLE or sum(map(len, parts)) < _CHUNK_HEAD + size or size < 2:
            raise ValueError("there is no chunk of records")
        most = max(_RECORDS_LEAST, _RECORDS_PER_BYTE * size)
        if count is None:
            count, decoded, most = records, bytes_, _ENTRIES_PER_BYTE * size
            if bytes_ > _ENTRY_MAX * records + _BLOCK:
                raise ValueError(f"its index says {records:,} entries of {bytes_:,} B")
        if records > min(most, _RECORDS_MAX):
            raise ValueError(
                f"its chunk says {records:,} records in {size:,} B, and at most {min(most, _RECORDS_MAX):,} are read"
            )
        if records != count or bytes_ != decoded:
            raise ValueError(
                f"its chunk has {records:,} records of {bytes_:,} B, and {count:,} of {decoded:,} are listed"
            )
        codec = _CODECS.get(head[_CHUNK_HEAD])
        if codec is None:
            raise ValueError("its chunk was compressed in a way that is not known")
        lengths, at = read_varint(head, _CHUNK_HEAD + 1)
        if at + lengths > _CHUNK_HEAD + size:
            raise ValueError("the lengths of its chunk are longer than the chunk")
        ends = None
        if count != 1:
            ends = _ends(_piece(codec, _cut(parts, at, lengths), _LENGTH_MAX * count), count, bytes_)
        values = _piece(codec, _cut(parts, at + lengths, _CHUNK_HEAD + size - at - lengths), bytes_)
        if len(values) != bytes_:
            raise ValueError(f"its chunk wanted {bytes_:,} B, and has {len(values):,} B")
        return _Chunk(values, ends)

    def _index_of(self, number: int) -> _Index:
        """What the file's end says. Errors: SampleError, Unsupported."""
        file = self._ranges.files[number]
        path, size, _ = file
        pages = ObjectPages(file) if isinstance(file, ListedObject) else None
        view = functools.partial(self._ranges.view, number) if pages is None else functools.partial(_paged, pages)
        try:
            if size < 2 * _BLOCK or size % _BLOCK or not bytes(view(0, 64)).startswith(SIGNATURE):
                raise ValueError(f"it has {size:,} B, and begins or ends as no such file does")
            end = size - _BLOCK
            chunk = self._chunk(view, end, size, None, None)
            if chunk.ends is not None and len(chunk.ends) < 2:
                raise ValueError("its end says nothing")
            said = dict(zip(*_numbers(chunk.record(0)), strict=True))
            footer = said.get(1, 0)
            if said.get(2) != _MAGIC or not 64 <= footer < end:
                raise ValueError("its end is not that of an ArrayRecord file")
            behind = _end_of(footer, _CHUNK_HEAD + int.from_bytes(_head(view, footer)[8:16], "little"))
            found = _index(self._chunk(view, footer, min(behind, end), None, None), footer)
            edges = {found.begins.item(0), found.begins.item(max(len(found.begins) - 2, 0))}
            # All chunks are, or none; a damaged byte makes one of them look so.
            if {_head(view, begin)[_KIND_AT] for begin in edges} == {_TRANSPOSED}:
                raise Unsupported(f'array_record: {path}: it was written with "transpose"; write it without')
            return found
        except ValueError as error:
            if isinstance(error, Error):
                raise  # of a store
            wanted = "give files of ArrayRecordWriter that were closed, or copy it again if it was cut off"
            raise SampleError(f"array_record: {path}: {error}; {wanted}") from error


def _head(view: _View, begin: int) -> bytes:
    """The head of the chunk that begins there; its end lies behind it."""
    return b"".join(_without_heads(view(begin, _BLOCK_HEAD + _CHUNK_HEAD), begin))


def _paged(pages: ObjectPages, offset: int, size: int) -> memoryview:
    pages.seek(offset)
    return memoryview(pages.read(size) or b"")


def _without_heads(data: memoryview, begin: int) -> list[memoryview]:
    """Bytes from an offset of a file on, in parts, without the heads of blocks among them."""
    at = -begin % _BLOCK
    if at >= len(data):
        return [data]
    return [data[:at], *(data[i + _BLOCK_HEAD : i + _BLOCK] for i in range(at, len(data), _BLOCK))]


def _cut(parts: list[memoryview], begin: int, size: int) -> bytes:
    """So many bytes of parts, from one on."""
    found = []
    for part in parts:
        if begin < len(part):
            found.append(part[begin : begin + size])
            size -= len(found[-1])
        begin = max(begin - len(part), 0)
        if not size:
            break
    return b"".join(found)


def _end_of(begin: int, size: int) -> int:
    """Where so many bytes end that begin there, with the heads of blocks among them."""
    blocks, rest = divmod(max(begin % _BLOCK - _BLOCK_HEAD, 0) + size, _BLOCK - _BLOCK_HEAD)
    return begin - begin % _BLOCK + blocks * _BLOCK + (_BLOCK_HEAD + rest if rest else 0)


def _ends(lengths: bytes, count: int, decoded: int) -> Array:
    """Where the records of a chunk begin and end, int64. Errors: ValueError."""
    sizes = _varints(lengths, count)
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.minimum(sizes, UNPACKED_MAX + 1, out=sizes), out=ends[1:], dtype=np.int64)
    if len(sizes) != count or ends[-1] != decoded:
        raise ValueError(f"its chunk says {count:,} records of {decoded:,} B, and has other lengths")
    return ends


def _piece(codec: str, data: bytes, most: int) -> bytes:
    """A piece of a chunk as it was before it was compressed. Errors: ValueError (more than `most`, damaged)."""
    if not codec:
        return data
    size, at = read_varint(data, 0)
    if size > most:
        raise ValueError(f"a piece of its chunk says {size:,} B, where at most {most:,} can be")
    return unpacked("array_record", codec, data[at:], size)


def _numbers(message: bytes) -> tuple[list[int], list[int]]:
    """The numbers of a message's fields, and their values, which all are integers. Errors: ValueError."""
    found = _varints(message)
    if len(found) % 2 or np.any(found[::2] & 7):
        raise ValueError("its index has a message of another kind")
    return (found[::2] >> 3).tolist(), found[1::2].tolist()


def _varints(data: bytes, most: int = _RECORDS_MAX) -> Array:
    """All numbers of bytes that are nothing but numbers, uint64. Errors: ValueError (more than `most`, too)."""
    raw = np.frombuffer(data, np.uint8)
    if len(raw) and raw[-1] >= 128:
        raise ValueError("a number of it does not end")
    count = sum(int(np.count_nonzero(raw[at : at + _AT_ONCE] < 128)) for at in range(0, len(raw), _AT_ONCE))
    if count > most:
        raise ValueError(f"it has {count:,} numbers, and at most {most:,} can be")
    found = np.zeros(count, np.uint64)
    at = done = 0
    while at < len(raw):
        part = raw[at : at + _AT_ONCE]
        ends = np.flatnonzero(part < 128)
        begins = np.zeros(len(ends), np.int64)
        begins[1:] = ends[:-1] + 1
        lengths = ends + 1 - begins
        if not len(ends) or lengths.max() > 10:
            raise ValueError("a number of it has more than 10 bytes")
        out = found[done : done + len(ends)]
        for i in range(int(lengths.max())):
            there = lengths > i
            out[there] |= (part[begins[there] + i] & 127).astype(np.uint64) << np.uint64(7 * i)
        at += int(ends[-1]) + 1
        done += len(ends)
    return found


def _index(chunk: _Chunk, footer: int) -> _Index:
    """Of entries {1: offset, 2: decoded size, 3: records}, in which zeros are left out, behind one. Errors: ValueError."""
    edges = (np.array([0, len(chunk.data)], np.int64) if chunk.ends is None else chunk.ends)[1:]
    columns = np.zeros((3, max(len(edges) - 1, 0)), np.uint64)
    for first in range(0, columns.shape[1], _AT_ONCE // _ENTRY_MAX):
        part = edges[first : first + _AT_ONCE // _ENTRY_MAX + 1]
        _entries(chunk.data[part[0] : part[-1]], part[1:] - part[0], columns[:, first:])
    if np.any(columns[1:] > 1 << 40) or np.any(columns[0] > footer) or np.any(columns[2] > _RECORDS_MAX):
        raise ValueError("its index says what cannot be")
    begins, decoded, counts = columns.astype(np.int64)
    begins = np.append(begins, footer)
    firsts = np.concatenate([[0], np.cumsum(counts)])
    if np.any(np.diff(begins) < _CHUNK_HEAD) or firsts[-1] > _RECORDS_LEAST + _RECORDS_PER_BYTE * footer:
        raise ValueError("its index says what cannot be")
    return _Index(begins, decoded, firsts.astype(np.int64))


def _entries(data: bytes, edges: Array, columns: Array) -> None:
    """The columns of some entries, by where each ends in `data`. Errors: ValueError."""
    found = _varints(data)
    tags, values = found[::2], found[1::2]
    # In which entry each number is, by the byte where it ends.
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) < 128)
    owner = np.searchsorted(edges, ends, "right")
    if len(tags) != len(values) or np.any(owner[::2] != owner[1::2]) or not np.isin(tags, (8, 16, 24)).all():
        raise ValueError("its index has entries of another kind")
    columns[(tags >> np.uint64(3)).astype(np.int64) - 1, owner[::2]] = values
