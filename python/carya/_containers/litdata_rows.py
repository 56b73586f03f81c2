"""Rows of LitData's chunks that end with a file of Arrow, as it writes samples that are dicts."""

from __future__ import annotations

import bisect
import itertools
import mmap
import struct
from typing import Any

from .._errors import Error
from .arrow_messages import Unpacked
from .codecs import UNPACKED_MAX, library
from .ranges import Ranges

# Source: litdata/streaming/item_loader.py of 0.2.76: behind a file (earlier: a stream) of Arrow its size, and this. It writes
# batches of 256 rows.
MAGIC = b"LDARW01\0"
_TAIL, _FILE, _BATCH_ROWS = struct.Struct("<I8s"), b"ARROW1", 256
_VALUES_MAX = UNPACKED_MAX // 8  # of the lists of a row: each is 8 bytes of a list of Python's


class ArrowRows:
    """Rows by number: dicts of Python's values, in which None stands for what a row lacks. The chunk is mapped, as arrays of numpy's
    files are: one that is cut off while a row is read ends the process. Of batches that are compressed the one that was read last is
    kept. Threads: one.

    Errors: ValueError (damaged, or larger unpacked than its bytes may say), Unsupported (pyarrow is missing), IoError (the file changed).
    """

    def __init__(self, ranges: Ranges, rows: int) -> None:
        self._ranges, self._arrow = ranges, library("litdata")
        size = ranges.files[0].size
        length, _ = _TAIL.unpack(ranges.read(0, size - _TAIL.size, _TAIL.size))
        begin = size - _TAIL.size - length
        if begin < 0:
            raise ValueError(f"it ends behind {length:,} B of Arrow, and has {size:,} B")
        mapped = mmap.mmap(ranges.descriptor(0), 0, access=mmap.ACCESS_READ)
        if len(mapped) != size:
            raise ValueError(f"wanted {size:,} B, got {len(mapped):,} B")
        self._data = self._arrow.py_buffer(mapped).slice(begin, length)
        self._kept: dict[int, Any] = {}  # batches that are no more than places in the file
        self._last: tuple[int, Any] = -1, None
        self._unpacked = Unpacked(self._arrow, self._data)
        ipc = self._arrow.ipc
        try:
            if self._data.slice(0, len(_FILE)).to_pybytes() == _FILE:
                self._file = ipc.open_file(self._data)
                self._unpacked.check_file()
                count = self._file.num_record_batches
            else:
                self._unpacked.check_stream()
                self._kept = dict(enumerate(map(self._checked, ipc.open_stream(self._data))))
                count = len(self._kept)
            if not count:
                raise ValueError("it has no batch of rows")
            first = self._batch(0)
            if len(set(first.schema.names)) < len(first.schema.names):
                raise ValueError("it has two columns of one name")
            self._counts = any(_weightless(self._arrow.types, field.type) for field in first.schema)
            self._rows, self._batches = rows, count
            usual = [*range(0, rows, _BATCH_ROWS), rows]
            self._starts = usual if len(usual) == count + 1 else self._counted()
        except self._damage() as error:
            if isinstance(error, Error):
                raise
            raise ValueError(str(error)) from error

    def row(self, number: int) -> dict[str, Any]:
        part = bisect.bisect_right(self._starts, number) - 1
        self._check()
        try:
            batch = self._batch(part)
            if batch.num_rows != self._starts[part + 1] - self._starts[part]:
                self._starts = self._counted()
                return self.row(number)
            one = batch.slice(number - self._starts[part], 1)
            if self._counts and sum(_values(self._arrow.types, column) for column in one.columns) > _VALUES_MAX:
                raise ValueError(f"its lists have more than {_VALUES_MAX:,} values, and say so in a few bytes")
            (found,) = one.to_pylist()
        except self._damage() as error:
            if isinstance(error, Error):
                raise
            raise ValueError(str(error)) from error
        self._check()
        return dict(found)

    def _check(self) -> None:
        """Errors: IoError: the file is not the one any more that was listed."""
        self._ranges.read(0, self._ranges.files[0].size - 1, 1)

    def _counted(self) -> list[int]:
        """Where each batch begins, and the end of the last."""
        starts = [0, *itertools.accumulate(self._batch(number).num_rows for number in range(self._batches))]
        if starts[-1] != self._rows:
            raise ValueError(f"it has {starts[-1]:,} rows of Arrow, and not the {self._rows:,} of index.json")
        return starts

    def _batch(self, number: int) -> Any:
        if number in self._kept:
            return self._kept[number]
        if self._last[0] != number:
            self._unpacked.check_batch(number)
            batch = self._checked(self._file.get_batch(number))
            if self._is_mapped(batch):
                self._kept[number] = batch
                return batch
            self._last = number, batch
        return self._last[1]

    @staticmethod
    def _checked(batch: Any) -> Any:
        batch.validate(full=True)  # offsets of a hostile one lead anywhere
        return batch

    def _is_mapped(self, batch: Any) -> bool:
        begin, end = self._data.address, self._data.address + self._data.size
        buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]
        return all(begin <= buffer.address <= end for buffer in buffers)

    def _damage(self) -> tuple[type[Exception], ...]:
        """What pyarrow raises where it finds some."""
        return self._arrow.ArrowException, OSError, ValueError, LookupError, OverflowError


def _weightless(types: Any, kind: Any, inside: bool = False) -> bool:
    """Whether values of lists take no bytes where they lie, such as null: any number of them is in a file of a few.

    Errors: ValueError: of a kind whose values may be larger than they are where they lie. LitData writes none.
    """
    if types.is_struct(kind):
        parts = [_weightless(types, kind.field(i).type, inside) for i in range(kind.num_fields)]
        return any(parts) or (inside and not parts)
    if types.is_map(kind):
        return any([_weightless(types, kind.key_type, True), _weightless(types, kind.item_type, True)])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        none = inside and types.is_fixed_size_list(kind) and not kind.list_size
        return _weightless(types, kind.value_type, True) or none
    if not inside:
        return False
    if types.is_dictionary(kind) or types.is_nested(kind) or "_view" in str(kind) or str(kind).startswith("run_end"):
        raise ValueError(f"its lists have values of {kind}, which LitData does not write")
    return bool(types.is_null(kind) or str(kind) == "fixed_size_binary[0]")


def _values(types: Any, array: Any) -> int:
    """How many values there are, those of lists among them."""
    kind = array.type
    if types.is_struct(kind):
        return len(array) + sum(_values(types, array.field(i)) for i in range(kind.num_fields))
    if types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return len(array) + _values(types, array.flatten())
    return len(array)
