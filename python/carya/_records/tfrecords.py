"""Records of TFRecord files, with all features of their Examples."""

from __future__ import annotations

import array
import itertools
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._containers.examples import parsed
from .._errors import SampleError, Unsupported
from .._formats.kept import of_each
from .._sources.objects import GAP_MAX, LEAP_MAX, enough, open_file
from .crc32c import crc32c, masked
from .records import Array, File, Records, part_of

_HEAD, _FOOT = 12, 4  # length and its CRC in front of the data, the CRC of the data behind
_TOLD_BY = 16  # records, of which the first sound one says what all are
_AHEAD = 4 << 20  # bytes whose CRCs are computed together, where records are read one after the other
_PACKED = {b"\x1f\x8b": "gzip", b"\x78\x9c": "zlib", b"\x78\x01": "zlib", b"\x78\xda": "zlib"}


class TfRecords(Records):
    """Fields are the features; of files whose first record is no Example, `record`, the whole bytes. `whole`: also of objects, of which
    else the beginning is looked at.

    Errors: SampleError (no TFRecord file), Unsupported (compressed).
    """

    kind = "tfrecord"

    def __init__(self, files: Sequence[File], whole: bool = False) -> None:
        super().__init__(files)
        self._whole = whole
        self._offsets: list[Array] = []  # of the data of each record; the last is that of the next one's
        self._cut: dict[int, str] = {}  # why a file's last record cannot be read
        self._starts = [0]
        self._last = -2
        self._ahead: dict[int, bytes | None] = {}  # records that were read already; None has another CRC
        for number, (offsets, problem) in enumerate(of_each(self._found, self.files)):
            self._offsets.append(offsets)
            self._starts.append(self._starts[-1] + len(offsets) - (0 if problem else 1))
            if problem:
                self._cut[number] = problem
        self.has_examples = len(self) == 0 or self._first_is_example()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ahead": {}}

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, index: int) -> dict[str, Any]:
        data = self.data(index)
        if not self.has_examples:
            return {"record": data}
        try:
            return parsed(data)
        except (ValueError, RecursionError) as error:
            raise SampleError(f"{self.place(index)}: it is no tf.train.Example: {error}; leave it out") from error

    def expect(self, indices: Sequence[int]) -> None:
        places = []
        for index in indices:
            number, row = part_of(self._starts, index)
            begin, end = (
                self._offsets[number][row : row + 2].tolist() if row + 1 < len(self._offsets[number]) else (0, 0)
            )
            if begin < end:
                places.append((number, begin, end - _HEAD))
        self._expect(places)

    def data(self, index: int) -> bytes:
        """The bytes of a record. Errors: SampleError (they were cut off, or have another CRC)."""
        number, row = part_of(self._starts, index)
        if row == len(self._offsets[number]) - 1:
            raise SampleError(f"{self.place(index)}: {self._cut[number]}; copy the file again")
        if index not in self._ahead:
            self._read_from(number, index, row, _AHEAD if index == self._last + 1 else 0)
        self._last = index
        data = self._ahead[index]
        if data is None:
            raise SampleError(f"{self.place(index)}: its CRC is another one; copy the file again")
        return data

    def _read_from(self, number: int, index: int, row: int, ahead: int) -> None:
        """Read a record, and those behind it within so many bytes."""
        offsets = self._offsets[number]
        begin = int(offsets[row])
        stop = max(int(np.searchsorted(offsets, begin + ahead, "right")) - 1, row + 1)
        read = self._bytes(number, begin, int(offsets[stop]) - begin - _HEAD)
        edges = (offsets[row : stop + 1] - begin).tolist()
        records = [read[one : other - _HEAD - _FOOT] for one, other in itertools.pairwise(edges)]
        feet = [read[other - _HEAD - _FOOT : other - _HEAD] for other in edges[1:]]
        self._ahead = {
            index + i: data if masked(crc) == int.from_bytes(foot, "little") else None
            for i, (data, crc, foot) in enumerate(zip(records, crc32c(records), feet, strict=True))
        }

    def place(self, index: int) -> str:
        number, row = part_of(self._starts, index)
        return f"{self.kind}: {self.files[number].path} @{int(self._offsets[number][row]) - _HEAD}"

    def sizes(self) -> Array:
        found = []
        for number, offsets in enumerate(self._offsets):
            found.append(np.diff(offsets) - _HEAD - _FOOT)
            if number in self._cut:
                found.append(np.zeros(1, np.int64))
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _first_is_example(self) -> bool:
        """Told by the first record that can be read, of some."""
        for index in range(min(len(self), _TOLD_BY)):
            try:
                return bool(parsed(self.data(index)))
            except SampleError:  # its bytes are damaged, and say nothing
                continue
            except ValueError:
                break
        return False

    def _found(self, file: File) -> tuple[Array, str]:
        """Where the data of each record of a file begins, and that of one behind it; or the last begins, and why it cannot be read."""
        path, size, _ = file
        offsets = array.array("q")
        at, problem = 0, ""
        with open_file(file, 1 << 16, LEAP_MAX if self._whole else GAP_MAX) as source:
            while at < size:
                if not self._whole and enough(source):
                    self.notes.append(f"{path}: looked at the first {at:,} B of {size:,}; records are those of them")
                    break
                head = source.read(_HEAD)
                length = int.from_bytes(head[:8], "little")
                if len(head) < _HEAD:
                    problem = f"wanted a head of {_HEAD} B, got {len(head)} B: it was cut off"
                elif masked(crc32c([head[:8]])[0]) != int.from_bytes(head[8:], "little"):
                    if not at:
                        raise self._no_file(path, head)
                    problem = "the CRC of its length is another one, so nothing behind it can be found"
                elif at + _HEAD + length + _FOOT > size:
                    problem = f"wanted {length + _FOOT:,} B, got {size - at - _HEAD:,} B: it was cut off"
                offsets.append(at + _HEAD)
                if problem:
                    break
                at += _HEAD + length + _FOOT
                source.seek(length + _FOOT, os.SEEK_CUR)
        if not problem:
            offsets.append(at + _HEAD)
        return np.frombuffer(offsets, np.int64), problem

    def _no_file(self, path: str, head: bytes) -> Exception:
        packed = next((name for magic, name in _PACKED.items() if head.startswith(magic)), "")
        if packed:
            return Unsupported(
                f"tfrecord: {path}: it is {packed}, so records cannot be read one by one; unpack it first"
            )
        return SampleError(
            f"tfrecord: {path}: it does not begin as TFRecord files do; give another file, or copy it again"
        )


def frames(records: Sequence[bytes]) -> list[bytes]:
    """Records as they stand in a TFRecord file."""
    lengths = [struct.pack("<Q", len(record)) for record in records]
    heads, feet = crc32c(lengths), crc32c(records)
    return [
        length + struct.pack("<I", masked(head)) + record + struct.pack("<I", masked(foot))
        for length, head, record, foot in zip(lengths, heads, records, feet, strict=True)
    ]
