"""What a value of a record is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

_MAGIC = {
    b"\xff\xd8\xff": "jpeg",
    b"\x89PNG\r\n\x1a\n": "png",
    b"GIF8": "gif",
    b"BM": "bmp",
    b"II*\0": "tiff",
    b"MM\0*": "tiff",
}
# Markers of JPEG whose segments hold height and width. Source: ITU-T T.81, table B.1.
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_BARE = {0x01, *range(0xD0, 0xD8)}


class What(NamedTuple):
    """Dtype or kind of a value, and its shape; None where it has none."""

    dtype: str
    shape: tuple[int, ...] | None


def what_is(value: Any) -> What:
    """Arrays and numbers by dtype and shape; pictures by format, height and width; everything else by its type.

    >>> what_is(np.zeros((2, 3), np.uint8)), what_is(7), what_is(["a"])
    (What(dtype='uint8', shape=(2, 3)), What(dtype='int64', shape=()), What(dtype='list', shape=(1,)))
    """
    if isinstance(value, np.ndarray | np.generic):
        return What(str(value.dtype), tuple(value.shape))
    if isinstance(value, bytes):
        kind = picture_kind(value)
        return What(kind or "bytes", picture_shape(value) if kind else (len(value),))
    if isinstance(value, bool | int | float):
        return What({bool: "bool", int: "int64", float: "float64"}[type(value)], ())
    if isinstance(value, list | tuple):
        return What("list", (len(value),))
    return What({str: "text", type(None): "null"}.get(type(value), type(value).__name__), None)


def picture_kind(data: bytes) -> str:
    """The format of an encoded picture by its first bytes; "" for none.

    >>> picture_kind(b"\\xff\\xd8\\xff\\xe0"), picture_kind(b"text")
    ('jpeg', '')
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    found = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "")
    # Two letters are no proof; the size that a bitmap says is.
    return "" if found == "bmp" and int.from_bytes(data[2:6], "little") != len(data) else found


def picture_shape(data: bytes) -> tuple[int, int] | None:
    """Height and width of an encoded JPEG or PNG, of its header; None where it does not say."""
    if data.startswith(b"\x89PNG") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return height, width
    at = 2
    while data.startswith(b"\xff\xd8") and at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return height, width
        at += 1 if marker == 0xFF else 2 if marker in _BARE else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def size_of(value: Any) -> int:
    """About how many bytes a value has."""
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, np.ndarray | np.generic):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    return sum(map(size_of, value)) if isinstance(value, list | tuple) else 8


def spread(count: int, wanted: int, together: bool) -> Iterator[int]:
    """Up to `wanted` records of `count`: the first ones, or some from everywhere."""
    if together or count <= wanted:
        yield from range(min(count, wanted))
    else:
        yield from (i * (count - 1) // (wanted - 1) for i in range(wanted))
