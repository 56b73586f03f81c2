"""Samples of MDS shards, with all of their columns; and values as MDS has them."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import Error, IoError, SampleError
from .._formats.kept import of_each
from .._sources.objects import open_file
from .records import Array, File, Records, part_of

_HEAD_MAX = 64 << 20  # of a shard's description of its columns
# Dtypes of arrays by the number that stands in front of their values. Source: streaming/base/format/mds/encodings.py.
DTYPES = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
    64: "uint64", 65: "int64", 66: "float64",
}  # fmt: skip
_SCALARS = {
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
}  # fmt: skip
_PICTURES = {"bytes", "jpeg", "png", "pil", "pkl"}  # shown and copied as they are: pickles are never loaded


class MdsSamples(Records):
    """Samples of the shards that `index.json` names. Errors: SampleError (no shard)."""

    kind = "mds"

    def __init__(self, files: Sequence[File]) -> None:
        super().__init__(files)
        heads = of_each(lambda _, number: self._head(number), self.files, range(len(self.files)))
        self._columns = [columns for columns, _ in heads]
        self._offsets = [offsets for _, offsets in heads]
        self._starts = [0, *np.cumsum([len(offsets) - 1 for offsets in self._offsets]).tolist()]

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def encodings(self) -> dict[str, str]:
        """The encoding of each column, of the first shard."""
        return {name: encoding for name, encoding, _ in self._columns[0]} if self._columns else {}

    def read(self, index: int) -> dict[str, Any]:
        number, row = part_of(self._starts, index)
        begin, end = (int(at) for at in self._offsets[number][row : row + 2])
        if not 0 <= begin <= end <= self.files[number].size:
            raise SampleError(
                f"{self.place(index)}: bytes {begin} to {end} of a file of {self.files[number].size:,} B; copy it again"
            )
        data = self._bytes(number, begin, end - begin)
        columns = self._columns[number]
        at = 4 * sum(size is None for _, _, size in columns)
        sizes = iter(struct.unpack(f"<{at // 4}I", data[:at]) if len(data) >= at else ())
        sample: dict[str, Any] = {}
        name = ""
        try:
            for name, encoding, fixed in columns:
                size = next(sizes) if fixed is None else fixed
                if at + size > len(data):
                    raise ValueError(f"wanted {size:,} B, got {len(data) - at:,} B")
                sample[name] = decoded(encoding, data[at : at + size])
                at += size
            if at != len(data):
                raise ValueError(f"{len(data) - at:,} B are left behind it")
        except (ValueError, StopIteration, RecursionError, TypeError) as error:
            raise SampleError(
                f"{self.place(index)}: {name}: {error or 'it ends too soon'}; copy the file again"
            ) from error
        return sample

    def expect(self, indices: Sequence[int]) -> None:
        places = []
        for index in indices:
            number, row = part_of(self._starts, index)
            begin, end = self._offsets[number][row : row + 2].tolist()
            if 0 <= begin < end <= self.files[number].size:
                places.append((number, begin, end))
        self._expect(places)

    def place(self, index: int) -> str:
        number, row = part_of(self._starts, index)
        return f"{self.kind}: {self.files[number].path}, sample {row}"

    def sizes(self) -> Array:
        parts = [np.diff(offsets) for offsets in self._offsets]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _head(self, number: int) -> tuple[list[tuple[str, str, int | None]], Array]:
        path, size, _ = self.files[number]
        try:
            with open_file(self.files[number]) as file:
                (count,) = struct.unpack("<I", file.read(4))
                if 8 + 4 * count > size:
                    raise ValueError(f"{count:,} samples do not fit into {size:,} B")
                offsets = np.frombuffer(file.read(4 * (count + 1)), "<u4").astype(np.int64)
                first = int(offsets[0])
                if not 8 + 4 * count <= first <= min(size, _HEAD_MAX + 8 + 4 * count):
                    raise ValueError(f"its first sample begins at {first:,}")
                config = json.loads(file.read(first - 8 - 4 * count))
            names, encodings = config["column_names"], config["column_encodings"]
            columns = list(zip(names, encodings, config["column_sizes"], strict=True))
            sound = all(isinstance(name, str) and isinstance(what, str) for name, what, _ in columns)
            if not sound or not all(fixed is None or (isinstance(fixed, int) and fixed >= 0) for *_, fixed in columns):
                raise ValueError("its columns are none")
        except Error:  # of a store
            raise
        except OSError as error:
            raise IoError(f"mds: {path}: {error.strerror}; give a file that can be read") from error
        except (ValueError, LookupError, TypeError, struct.error, RecursionError) as error:
            raise SampleError(f"mds: {path}: {error}; give a shard of MDSWriter, or copy it again") from error
        return columns, offsets


def decoded(encoding: str, data: bytes) -> Any:
    """A value of a column. Pickles stay bytes. Errors: ValueError.

    >>> decoded("int", (7).to_bytes(8, "little")), decoded("str", b"one")
    (7, 'one')
    """
    kind, _, how = encoding.partition(":")
    if kind in _PICTURES:
        return data
    if kind == "str":
        return data.decode()
    if kind == "json":
        return json.loads(data)
    if kind == "int":
        return int(np.frombuffer(data, "<i8")[0]) if len(data) == 8 else _wrong(encoding, data)
    if kind in _SCALARS:
        dtype = np.dtype(kind).newbyteorder("<")
        if len(data) != dtype.itemsize:
            _wrong(encoding, data)
        value = np.frombuffer(data, dtype)[0]
        return value.astype(dtype.newbyteorder("="))
    if kind == "str_int":
        return int(data.decode())
    if kind == "str_float":
        return float(data.decode())
    if kind == "str_decimal":
        return data.decode()
    if kind == "ndarray":
        return _array(data, how)
    return data


def _wrong(encoding: str, data: bytes) -> Any:
    raise ValueError(f"{len(data)} B are no {encoding}")


def _array(data: bytes, how: str) -> Array:
    """`how`: dtype and shape, as "int32:2,3"; what is missing there stands in front of the values."""
    name, _, shaped = how.partition(":")
    at = 0
    if not name:
        if not data or data[0] not in DTYPES:
            raise ValueError("it begins with no dtype")
        name, at = DTYPES[data[0]], 1
    dtype = np.dtype(name).newbyteorder("<")
    if shaped:
        shape = [int(side) for side in shaped.split(",")]
    else:
        axes, width = data[at] >> 2 if len(data) > at else 0, 1 << (data[at] & 3) if len(data) > at else 1
        at += 1
        shape = np.frombuffer(data[at : at + axes * width], f"<u{width}").tolist()
        at += axes * width
        if len(shape) != axes:
            raise ValueError("its shape was cut off")
    values = np.frombuffer(data[at:], dtype)
    return values.reshape(shape).astype(dtype.newbyteorder("="))
