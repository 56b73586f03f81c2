"""How large batches of Arrow say that they are unpacked, before a library gives them memory.

Source: Arrow's format/Message.fbs and File.fbs, in flatbuffers: a table begins with the distance to a list of its fields' places.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from .codecs import UNPACKED_MAX

_LEAST, _PER_BYTE = 64 << 20, 1024  # bytes that a message may say in any case, and for each byte that it has
_FOOTER = struct.Struct("<i6s")  # at the end of a file: how long the footer before it is, and a magic
_BLOCK = struct.Struct("<qiiq")  # where a message is: offset, bytes of its header, padding, bytes of its body
_DICTIONARY, _BATCH = 2, 3  # what a message may be that has buffers


class _Table:
    """A table of a flatbuffer. Errors: struct.error, IndexError: it leads out of its bytes."""

    def __init__(self, data: Any, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - struct.unpack_from("<i", data, at)[0]
        if self._fields < 0:
            raise IndexError(self._fields)
        (self._size,) = struct.unpack_from("<H", data, self._fields)

    def field(self, number: int) -> int:
        """Where a field is; 0: it is not there."""
        place = 4 + 2 * number
        (at,) = struct.unpack_from("<H", self._data, self._fields + place) if place + 2 <= self._size else (0,)
        return self._at + at if at else 0

    def table(self, number: int) -> _Table | None:
        at = self.field(number)
        return _Table(self._data, self._target(at)) if at else None

    def listed(self, number: int) -> tuple[int, int]:
        """Where the entries of a list begin, and how many there are."""
        at = self.field(number)
        if not at:
            return 0, 0
        begin = self._target(at)
        return begin + 4, struct.unpack_from("<I", self._data, begin)[0]

    def _target(self, at: int) -> int:
        return at + int(struct.unpack_from("<I", self._data, at)[0])


def _root(data: Any) -> _Table:
    return _Table(data, struct.unpack_from("<I", data, 0)[0])


class Unpacked:
    """What the messages of a file or stream of Arrow may take. Errors: ValueError (more, or a header that cannot be)."""

    def __init__(self, arrow: Any, data: Any) -> None:
        self._arrow, self._data = arrow, data
        self._blocks: list[tuple[int, int]] = []

    def check_stream(self) -> None:
        """All of a stream, which is kept as a whole."""
        self._check(iter(self._arrow.ipc.MessageReader.open_stream(self._data)))

    def check_file(self) -> None:
        """The dictionaries of a file, which are kept as long as it is open; where its batches are."""
        with _in_bounds():
            length, _ = _FOOTER.unpack(self._data.slice(self._data.size - _FOOTER.size).to_pybytes())
            end = self._data.size - _FOOTER.size
            if not 0 < length <= end:
                raise ValueError(f"its footer of {length:,} B does not fit into {end:,} B")
            footer = memoryview(self._data.slice(end - length, length))
            found = [_blocks(footer, _root(footer), number) for number in (2, 3)]
        self._blocks = found[1]
        self._check(map(self._message, found[0]))

    def check_batch(self, number: int) -> None:
        """One batch of a file."""
        self._check(iter((self._message(self._blocks[number]),)))

    def _message(self, block: tuple[int, int]) -> Any:
        begin, size = block
        if begin < 0 or size <= 0 or begin + size > self._data.size:
            raise ValueError(f"a message of {size:,} B at {begin:,} does not lie in its {self._data.size:,} B")
        try:
            return self._arrow.ipc.read_message(self._data.slice(begin, size))
        except EOFError:
            raise ValueError(f"there is no message of Arrow at {begin:,}") from None

    @staticmethod
    def _check(messages: Iterator[Any]) -> None:
        said = packed = 0
        for message in messages:
            with _in_bounds():
                said += _promised(memoryview(message.metadata), message.body)
            packed += 0 if message.body is None else message.body.size
            most = min(UNPACKED_MAX, max(_LEAST, _PER_BYTE * packed))
            if said > most:
                raise ValueError(
                    f"{packed:,} B of Arrow say that they are {said:,} B unpacked, and at most {most:,} B are read"
                )


@contextlib.contextmanager
def _in_bounds() -> Iterator[None]:
    """Errors: ValueError, where something leads out of a header."""
    try:
        yield
    except (struct.error, IndexError):
        raise ValueError("a header of Arrow leads out of its bytes") from None


def _blocks(footer: Any, table: _Table, number: int) -> list[tuple[int, int]]:
    """Offset and bytes of each message of a list of the footer."""
    begin, count = table.listed(number)
    if begin + _BLOCK.size * count > len(footer):
        raise IndexError(count)
    return [
        (offset, header + body)
        for offset, header, _, body in _BLOCK.iter_unpack(footer[begin : begin + _BLOCK.size * count])
    ]


def _promised(header: Any, body: Any) -> int:
    """Bytes of the buffers of a message that are compressed, when they are unpacked."""
    message = _root(header)
    at = message.field(1)
    kind = header[at] if at else 0
    found = message.table(2) if kind in (_DICTIONARY, _BATCH) else None
    if found is not None and kind == _DICTIONARY:
        found = found.table(1)
    if found is None or not found.field(3):
        return 0
    begin, count = found.listed(2)
    if body is None or begin + 16 * count > len(header):
        raise IndexError(count)
    data = memoryview(body)
    total = 0
    for offset, length in np.frombuffer(header, "<i8", 2 * count, begin).reshape(-1, 2).tolist():
        if not length:
            continue
        if offset < 0 or length < 8 or offset + length > len(data):
            raise IndexError(offset)
        (size,) = struct.unpack_from("<q", data, offset)
        if size < -1:
            raise IndexError(size)
        total += max(size, 0)  # -1: it is as it was
    return total
