"""TFRecord files of `tf.train.Example`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._containers.examples import serialized
from .._formats.kept import look_at
from .._records.records import Records
from .._records.tfrecords import TfRecords, frames
from .formats import Format
from .plain import as_json
from .schema import Schema

_BYTES, _FLOAT, _INT64 = 1, 2, 3


class Examples(Format):
    """A feature per field; of TFRecord files, the bytes of each record as they are.

    Text is UTF-8; integers and bools are int64, floats float32; lists of one kind are lists; arrays of several axes raw bytes with
    `NAME/shape` and `NAME/dtype` beside them; what an Example has not is JSON; a null is left out.
    """

    def __init__(self, records: Records, schema: Schema) -> None:
        super().__init__(records, schema)
        self._raw = isinstance(records, TfRecords)
        doubles = [name for name, kinds in schema.kinds.items() if {"float64", "float64[]"} & set(kinds)]
        if doubles:
            self.notes.append(f"{', '.join(doubles)}: float64 became float32, since an Example has no other floats")

    def stored(self, records: Records, index: int) -> dict[str, Any]:
        if isinstance(records, TfRecords):
            return {"record": records.data(index)}
        sample = records.read(index)
        found: dict[str, tuple[int, Sequence[Any]]] = {}
        for name, value in sample.items():
            for inside, feature in _features(name, value):
                if inside in found:
                    raise ValueError(f"two features would be called {inside!r}; rename {name!r}")
                found[inside] = feature
        return found

    def packed(self, records: Records, index: int, stored: dict[str, Any]) -> bytes:
        data: bytes = stored["record"] if self._raw else serialized(stored)
        return data

    def alike(self, stored: dict[str, Any], read: dict[str, Any]) -> str:
        if not self._raw:
            stored = {name: _come_back(*feature) for name, feature in stored.items()}
        return super().alike(stored, read)


class TfRecord(Examples):
    """Records framed by lengths and checksums."""

    name, suffix = "tfrecord", "tfrecord"

    def framed(self, packed: list[bytes]) -> list[bytes]:
        return frames(packed)

    def overhead(self, count: int) -> int:
        return 0

    def reader(self, path: str, sizes: Sequence[int]) -> Any:
        records = TfRecords([look_at("tfrecord", path)])
        return _Raw(records) if self._raw else records


class _Raw:
    """The records of a file as they are."""

    def __init__(self, records: TfRecords) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def read(self, index: int) -> dict[str, Any]:
        return {"record": self._records.data(index)}


def _come_back(kind: int, values: Sequence[Any]) -> Any:
    """What reading a feature gives."""
    if len(values) == 1:
        return np.float32(values[0]) if kind == _FLOAT else values[0]
    return list(values) if kind == _BYTES else np.array(values, np.float32 if kind == _FLOAT else np.int64)


def _features(name: str, value: Any) -> list[tuple[str, tuple[int, Sequence[Any]]]]:
    """The features that a field becomes. Errors: ValueError."""
    if value is None:
        return []
    if isinstance(value, np.ndarray) and value.ndim > 1:
        if value.dtype.kind not in "biufc":
            raise ValueError(f"{name}: its values are {value.dtype}, and arrays of numbers are written")
        data = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
        about = [
            (f"{name}/shape", (_INT64, list(value.shape))),
            (f"{name}/dtype", (_BYTES, [value.dtype.name.encode()])),
        ]
        return [(name, (_BYTES, [data])), *about]
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "biuf":
            raise ValueError(f"{name}: its values are {value.dtype}, which an Example has not")
        value = value.tolist() if value.ndim else [value.item()]
        return [(name, _numbers(name, value, float_list=np.asarray(value).dtype.kind == "f"))]
    if isinstance(value, bytes | str | bool | int | float):
        value = [value]
    if isinstance(value, list | tuple) and value:
        if all(isinstance(item, bytes) for item in value):
            return [(name, (_BYTES, list(value)))]
        if all(isinstance(item, str) for item in value):
            return [(name, (_BYTES, [item.encode() for item in value]))]
        if all(isinstance(item, bool | int | float) for item in value):
            return [(name, _numbers(name, value, float_list=any(isinstance(item, float) for item in value)))]
    return [(name, (_BYTES, [json.dumps(as_json(value), ensure_ascii=False).encode()]))]


def _numbers(name: str, values: Sequence[Any], float_list: bool) -> tuple[int, Sequence[Any]]:
    if float_list:
        with np.errstate(over="ignore"):
            rounded = np.array(values, np.float32)
        if any(math.isinf(one) and not math.isinf(other) for one, other in zip(rounded.tolist(), values, strict=True)):
            raise ValueError(f"{name}: a float of it is beyond those of 32 bits, and an Example has no others")
        return _FLOAT, rounded.tolist()
    if any(not -(1 << 63) <= value < 1 << 63 for value in values):
        raise ValueError(f"{name}: an integer of it is beyond those of 64 bits, and an Example has no others")
    return _INT64, [int(value) for value in values]
