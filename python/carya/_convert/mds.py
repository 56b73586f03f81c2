"""Shards of MDS, and their index.json. Source: streaming/base/format/mds/writer.py."""

from __future__ import annotations

import decimal
import json
import shutil
import struct
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np

from .._errors import InvalidArgument
from .._formats.kept import look_at
from .._records.mds_shards import DTYPES, MdsSamples
from .._records.records import Records
from .formats import COPIED, Format
from .plain import as_json
from .schema import Schema

_PICTURES = {"jpeg", "png", "gif", "webp", "bmp", "tiff", "bytes"}
_SCALARS = set(DTYPES.values())
_NUMBERS = {name: number for number, name in DTYPES.items()}
_SIZES = {"int": 8, **{name: np.dtype(name).itemsize for name in _SCALARS}}


class Mds(Format):
    """A column per field: `jpeg`, `png`, `bytes`, `str`, `int`, numbers by dtype, `ndarray`, and `json` for all else."""

    name, suffix = "mds", "mds"
    shard_bytes_max = (1 << 32) - 1  # offsets have 32 bits

    def __init__(self, records: Records, schema: Schema) -> None:
        super().__init__(records, schema)
        self.columns = {name: encoding(name, schema.kinds[name]) for name in sorted(schema.kinds)}
        if not self.columns:
            raise InvalidArgument(
                "convert: no record that was looked at has a field; give a dataset with sound records"
            )
        sizes = [_SIZES.get(how) for how in self.columns.values()]
        self._config = {
            "column_encodings": list(self.columns.values()), "column_names": list(self.columns), "column_sizes": sizes,
            "compression": None, "format": "mds", "hashes": [], "size_limit": None, "version": 2,
        }  # fmt: skip
        self._head = json.dumps(self._config, sort_keys=True).encode()

    def stored(self, records: Records, index: int) -> dict[str, Any]:
        sample = records.read(index)
        extra = next((name for name in sample if name not in self.columns), None)
        if extra is not None:
            raise ValueError(
                f"{extra}: the records that were looked at have no such field, so there is no column for it"
            )
        return {name: _kept(name, how, sample.get(name)) for name, how in self.columns.items()}

    def packed(self, records: Records, index: int, stored: dict[str, Any]) -> bytes:
        data = [_bytes(how, stored[name]) for name, how in self.columns.items()]
        sizes = [len(one) for one, how in zip(data, self.columns.values(), strict=True) if how not in _SIZES]
        return struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(data)

    def overhead(self, count: int) -> int:
        return 8 + 4 * count + len(self._head)

    def write(self, out: BinaryIO, path: str, body: BinaryIO, sizes: Sequence[int]) -> None:
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]) + self.overhead(len(sizes))
        out.write(struct.pack("<I", len(sizes)) + offsets.astype("<u4").tobytes() + self._head)
        shutil.copyfileobj(body, out, COPIED)

    def finish(self, folder: str, shards: Sequence[dict[str, Any]], put: Callable[[str, bytes], None]) -> None:
        listed = [
            {
                **self._config,
                "raw_data": {"basename": shard["name"], "bytes": shard["bytes"], "hashes": {}},
                "samples": shard["records"],
                "zip_data": None,
            }
            for shard in shards
        ]
        put("index.json", json.dumps({"shards": listed, "version": 2}, sort_keys=True).encode())

    def reader(self, path: str, sizes: Sequence[int]) -> Any:
        return MdsSamples([look_at("mds", path)])


def encoding(name: str, kinds: Sequence[str]) -> str:
    """The encoding of a column. Errors: InvalidArgument (bytes that some records lack).

    >>> encoding("x", ("int64",)), encoding("x", ("float64", "int64")), encoding("x", ("null", "text"))
    ('int', 'float64', 'json')
    """
    there = set(kinds) - {"null"}
    if "null" in kinds:
        if there & _PICTURES:
            raise InvalidArgument(
                f"convert: {name}: some records have none, and MDS has no missing bytes; give --to webdataset or --to tfrecord"
            )
        return "json"
    if there <= _PICTURES:
        return there.pop() if there in ({"jpeg"}, {"png"}) else "bytes"
    arrays = {kind.removesuffix("[]") for kind in there}
    if any(kind.endswith("[]") for kind in there) and arrays <= {*_SCALARS, "bool"}:
        dtype = "uint8" if arrays == {"bool"} else arrays.pop() if len(arrays) == 1 else ""
        return f"ndarray:{dtype}" if dtype else "ndarray"
    known = {"text": "str", "int64": "int", "bool": "uint8", "Decimal": "str_decimal"}
    if len(there) == 1:
        kind = there.pop()
        return known.get(kind, kind if kind in _SCALARS else "json")
    return "float64" if there == {"int64", "float64"} else "json"


def _kept(name: str, how: str, value: Any) -> Any:
    """The value as it comes back. Errors: ValueError (it is none of its column's)."""
    kind, _, dtype = how.partition(":")
    sound = True
    if kind in ("jpeg", "png", "bytes"):
        sound = isinstance(value, bytes)
    elif kind == "str":
        sound = isinstance(value, str)
    elif kind == "json":
        return as_json(value)
    elif kind == "str_decimal":
        sound, value = isinstance(value, decimal.Decimal), str(value)
    elif kind == "ndarray":
        sound = isinstance(value, np.ndarray | np.generic | int | float)
        if sound:
            array = np.atleast_1d(np.asarray(value))
            array = array.astype(np.uint8) if array.dtype == bool else array
            sound = array.dtype.name in _NUMBERS and dtype in ("", array.dtype.name) and array.ndim < 64
            value = array
    else:
        return _number(name, how, value)
    if not sound:
        raise ValueError(f"{name}: it is {_said(value)}, and its column is {how}")
    return value


def _number(name: str, how: str, value: Any) -> Any:
    dtype = np.dtype(np.int64 if how == "int" else how)
    if not isinstance(value, bool | int | float | np.generic) and not (
        isinstance(value, np.ndarray) and not value.ndim
    ):
        raise ValueError(f"{name}: it is {_said(value)}, and its column is {how}")
    try:
        made = np.asarray(value).astype(dtype)[()] if not isinstance(value, int) else dtype.type(value)
    except OverflowError:
        raise ValueError(f"{name}: {value} is no {how}") from None
    plain = np.asarray(value).item()
    if made.item() != plain and plain == plain:  # NaN is no other value
        raise ValueError(f"{name}: {plain} is no {how}")
    return made


def _said(value: Any) -> str:
    return (
        "missing"
        if value is None
        else f"{value.dtype} {value.shape}"
        if isinstance(value, np.ndarray)
        else type(value).__name__
    )


def _bytes(how: str, value: Any) -> bytes:
    kind, _, dtype = how.partition(":")
    if isinstance(value, bytes):
        return value
    if kind in ("str", "str_decimal"):
        return str(value).encode()
    if kind == "json":
        return json.dumps(value).encode()
    if kind == "ndarray":
        sides = np.array(value.shape, np.int64)
        width = next(i for i in range(4) if sides.max() < 1 << 8 * (1 << i) or i == 3)
        head = b"" if dtype else bytes([_NUMBERS[value.dtype.name]])
        head += bytes([value.ndim << 2 | width]) + sides.astype(f"<u{1 << width}").tobytes()
        return head + np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
    return np.asarray(value).astype(np.asarray(value).dtype.newbyteorder("<")).tobytes()
