"""`tf.train.Example` and `SequenceExample`: from their bytes, and to them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


def parsed(data: bytes) -> dict[str, Any]:
    """The features of an Example, and of a SequenceExample its context and its lists. Errors: ValueError.

    A feature of one value is `bytes`, an `int` or a float32 (); of several a list of `bytes`, or an array int64 or float32 (n,).
    A feature list is a list of those. One that has the name of a feature of the context is an error.
    """
    found: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    for number, kind, value in _fields(data):
        if kind != _BYTES or number not in (1, 2):
            continue
        for name, entry in _entries(value):
            if number == 1:
                found[name] = _feature(entry)
            else:
                lists[name] = [_feature(item) for where, what, item in _fields(entry) if (where, what) == (1, _BYTES)]
    if twice := found.keys() & lists.keys():
        raise ValueError(f"a feature and a feature list are called {min(twice)!r}")
    return found | lists


def serialized(features: Mapping[str, tuple[int, Sequence[Any]]]) -> bytes:
    """An Example of features: kind (1 bytes, 2 float, 3 int64) and values, in the order given.

    >>> parsed(serialized({"x": (3, [1, -1]), "y": (1, [b"one"])}))
    {'x': array([ 1, -1]), 'y': b'one'}
    """
    entries = []
    for name, (kind, values) in features.items():
        if kind == _BYTES_LIST:
            inner = b"".join(_framed(1, value) for value in values)
        elif kind == _FLOAT_LIST:
            inner = _framed(1, np.asarray(values, "<f4").tobytes()) if len(values) else b""
        else:
            inner = (
                _framed(1, b"".join(_varint(int(value) & (1 << 64) - 1) for value in values)) if len(values) else b""
            )
        entries.append(_framed(1, _framed(1, name.encode()) + _framed(2, _framed(kind, inner))))
    return _framed(1, b"".join(entries))


def _entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The entries of a map from text to messages."""
    for number, kind, value in _fields(data):
        if (number, kind) == (1, _BYTES):
            name, entry = b"", b""
            for inside, what, item in _fields(value):
                if (inside, what) == (1, _BYTES):
                    name = item
                elif (inside, what) == (2, _BYTES):
                    entry = item
            yield name.decode(), entry


def _feature(data: bytes) -> Any:
    values: list[Any] = []
    which = 0
    for number, kind, value in _fields(data):
        if kind != _BYTES or number not in (1, 2, 3):
            continue
        if number != which:  # the last one of a oneof counts
            values, which = [], number
        for inside, what, item in _fields(value):
            if inside == 1:
                values += _values(which, what, item)
    if which == _FLOAT_LIST:
        return np.float32(values[0]) if len(values) == 1 else np.array(values, np.float32)
    if which == _INT64_LIST:
        return values[0] if len(values) == 1 else np.array(values, np.int64)
    return values[0] if len(values) == 1 else values


def _values(which: int, kind: int, item: Any) -> list[Any]:
    """Values of a list, packed or not."""
    if which == _BYTES_LIST and kind == _BYTES:
        return [item]
    if which == _FLOAT_LIST and kind == _FIXED32:
        return list(struct.unpack("<f", item))
    if which == _FLOAT_LIST and kind == _BYTES:
        if len(item) % 4:
            raise ValueError(f"a list of floats has {len(item)} B")
        return list(np.frombuffer(item, "<f4"))
    if which == _INT64_LIST and kind == _VARINT:
        return [_signed(item)]
    if which == _INT64_LIST and kind == _BYTES:
        found, at = [], 0
        while at < len(item):
            value, at = read_varint(item, at)
            found.append(_signed(value))
        return found
    raise ValueError("a list has values of another kind")


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, kind and value of the fields of a message. Errors: ValueError (it is none)."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = read_varint(data, at)
            yield number, kind, value
            continue
        if kind not in (_FIXED64, _BYTES, _FIXED32) or number == 0:
            raise ValueError("it is no message of protobuf")
        size = 8 if kind == _FIXED64 else 4
        if kind == _BYTES:
            size, at = read_varint(data, at)
        if at + size > len(data):
            raise ValueError("a field of it is longer than it")
        yield number, kind, data[at : at + size]
        at += size


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
    raise ValueError("a number of it does not end")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _framed(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data
