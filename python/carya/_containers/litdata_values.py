"""Leaves of LitData's samples, and how they make one."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._errors import Unsupported

Decode = Callable[[bytes], Any]

# Dtypes by their numbers. Source: litdata/constants.py; several names of torch's are one dtype, bfloat16 is none of numpy's.
_TORCH = (
    "float32", "float32", "float64", "float64", "complex64", "complex64", "complex128", "complex128", "float16", "float16",
    "", "uint8", "int8", "int16", "int16", "int32", "int32", "int64", "int64", "bool", "uint16",
)  # fmt: skip
_NUMPY = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64",
    "complex128", "bool",
)  # fmt: skip
# Values per pixel and dtype of a picture's mode. Source: Pillow's documentation of modes.
_MODES = {
    "L": (1, "|u1"), "P": (1, "|u1"), "RGB": (3, "|u1"), "RGBA": (4, "|u1"), "RGBX": (4, "|u1"), "CMYK": (4, "|u1"), "LA": (2, "|u1"),
    "PA": (2, "|u1"), "YCbCr": (3, "|u1"), "LAB": (3, "|u1"), "HSV": (3, "|u1"), "I": (1, "<i4"), "F": (1, "<f4"), "I;16": (1, "<u2"),
}  # fmt: skip
_RANK_MAX = 32
_DEPTH_MAX = 64  # of a sample's dicts, lists and tuples
_PICKLED = ("pickle", "graph")
# Files as they are: what they mean is for who reads them.
_AS_BYTES = ("bytes", "file", "jpeg", "image", "video", "audio", "nifti", "mesh", "pdf", "tiff", "tifffile")
_CONTAINERS = {"builtins.dict", "collections.OrderedDict", "builtins.list", "builtins.tuple"}

Array = np.ndarray[Any, Any]


def decoder(name: str, pickled_as_bytes: bool) -> Decode:
    """What makes a value of a leaf's bytes; it raises ValueError, also as IndexError or struct.error. Errors: Unsupported."""
    kind, _, how = name.partition(":")
    if kind in _PICKLED:
        if not pickled_as_bytes:
            wanted = 'give pickles="bytes", and load them in a function of yours, if you trust who wrote them'
            raise Unsupported(f"it has pickles, which can run any code when they are loaded; {wanted}")
        return bytes
    if kind in _AS_BYTES:
        return bytes
    simple: dict[str, Decode] = {
        "str": bytes.decode, "text": bytes.decode, "string": bytes.decode, "bool": _bool, "int": _int, "float": _float,
        "numpy": _numpy, "tensor": _tensor, "pil": _picture, "jpeg_array": _several, "json": nested,
    }  # fmt: skip
    if kind in simple:
        return simple[kind]
    if kind in ("no_header_numpy", "no_header_tensor"):
        try:
            dtype = flat_dtype(kind, int(how))
        except ValueError as error:
            raise Unsupported(f"its leaf is {name}: {error}; write it in another dtype") from None
        return lambda data: _array(data, dtype, None)
    raise Unsupported(f"its leaf is {name!r:.80}, which is none of LitData's own; write it as bytes or arrays")


def flat_dtype(kind: str, number: int) -> np.dtype[Any]:
    """Of "no_header_numpy" or "no_header_tensor". Errors: ValueError."""
    return _dtype(_NUMPY if kind == "no_header_numpy" else _TORCH, number)


def _dtype(table: Sequence[str], number: int) -> np.dtype[Any]:
    if not 0 <= number < len(table) or not table[number]:
        raise ValueError(f"its dtype has the number {number}, which is bfloat16, or none of numbers")
    found: np.dtype[Any] = np.dtype(table[number]).newbyteorder("<")
    return found


def _array(data: bytes, dtype: np.dtype[Any], shape: Sequence[int] | None) -> Array:
    found = np.frombuffer(data, dtype)
    if shape is not None:
        found = found.reshape(shape)
    return found.astype(dtype.newbyteorder("="))  # a copy, which can be written


def _numpy(data: bytes) -> Array:
    number, rank = struct.unpack_from("<II", data)
    return _shaped(data, _dtype(_NUMPY, number), "<", rank)


def _tensor(data: bytes) -> Array:
    number, rank = struct.unpack_from(">II", data)
    return _shaped(data, _dtype(_TORCH, number), ">", rank)


def _shaped(data: bytes, dtype: np.dtype[Any], order: str, rank: int) -> Array:
    if rank > _RANK_MAX:
        raise ValueError(f"it has {rank:,} axes")
    return _array(data[8 + 4 * rank :], dtype, struct.unpack_from(f"{order}{rank}I", data, 8))


def _bool(data: bytes) -> bool:
    return data[0] != 0


def _int(data: bytes) -> int:
    return int(struct.unpack("<q", data)[0])


def _float(data: bytes) -> float:
    return float(struct.unpack("<d", data)[0])


def _picture(data: bytes) -> Array:
    """The pixels of a picture of Pillow's: (height, width) or (height, width, values)."""
    width, height, length = struct.unpack_from("<III", data)
    mode = data[12 : 12 + length].decode()
    pixels = data[12 + length :]
    if mode == "1":  # bits, each row from a byte on
        if len(pixels) != height * ((width + 7) // 8):
            raise ValueError(f"a picture of {width} x {height} has {len(pixels):,} B")
        rows = np.frombuffer(pixels, np.uint8).reshape(height, -1)
        return np.unpackbits(rows, axis=1, count=width).astype(bool)
    if mode not in _MODES:
        raise ValueError(f"its picture has the mode {mode!r:.20}")
    values, dtype = _MODES[mode]
    return _array(pixels, np.dtype(dtype), (height, width) if values == 1 else (height, width, values))


def _several(data: bytes) -> list[bytes]:
    """Files in a leaf."""
    (count,) = struct.unpack_from("<I", data)
    if 4 + 4 * count > len(data):
        raise ValueError(f"it says {count:,} pictures, and has {len(data):,} B")
    found, at = [], 4 + 4 * count
    for size in struct.unpack_from(f"<{count}I", data, 4):
        if at + size > len(data):
            raise ValueError("a picture of it ends behind it")
        found.append(data[at : at + size])
        at += size
    return found


class _Nested:
    """Lists and dicts, with a byte in front of each that says what it is. Source: litdata/streaming/serializers.py."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def value(self) -> Any:
        tag = self._byte()
        if tag == 0:
            return json.loads(self._take(self._count(1)))
        if tag == 1:
            return [self._text() for _ in range(self._count(4))]
        if tag in (2, 3):
            return np.frombuffer(self._take(8 * self._count(8)), "<i8" if tag == 2 else "<f8").tolist()
        if tag == 4:
            return [byte != 0 for byte in self._take(self._count(1))]
        if tag == 5:
            return {self._text(): self.value() for _ in range(self._count(5))}
        if tag == 6:
            return self._records()
        if 7 <= tag <= 11:
            return self._scalar({7: 0x11, 8: 0x12, 9: 0x13, 10: 0x14, 11: 0x10}[tag])
        raise ValueError(f"a value of it has the tag {tag}")

    def _records(self) -> list[dict[str, Any]]:
        count, names = self._count(0), [self._text() for _ in range(self._count(4))]
        if count * max(len(names), 1) > len(self._data):
            raise ValueError("it says more records than it has bytes")
        return [{name: self._scalar(self._byte()) for name in names} for _ in range(count)]

    def _scalar(self, tag: int) -> Any:
        if tag == 0x10:
            return None
        if tag == 0x11:
            return self._text()
        if tag in (0x12, 0x13):
            return struct.unpack("<q" if tag == 0x12 else "<d", self._take(8))[0]
        if tag == 0x14:
            return self._byte() != 0
        raise ValueError(f"a value of it has the tag {tag}")

    def _byte(self) -> int:
        return self._take(1)[0]

    def _text(self) -> str:
        return self._take(self._count(1)).decode()

    def _count(self, width: int) -> int:
        """A number of items that take so many bytes each at least."""
        (count,) = struct.unpack("<I", self._take(4))
        if count * width > len(self._data) - self._at:
            raise ValueError(f"it says {count:,} values, and has {len(self._data):,} B")
        return int(count)

    def _take(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise ValueError("it ends too soon")
        return self._data[self._at - size : self._at]


def nested(data: bytes) -> Any:
    """A leaf of JSON, in the form of today's writer or as text. Errors: ValueError, RecursionError.

    >>> nested(b'{"a": [1]}'), nested(bytes([2, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]))
    ({'a': [1]}, [7])
    """
    return json.loads(data) if not data or data[0] > 0x20 else _Nested(data).value()


class Tree:
    """How the leaves of a sample make one: `data_spec` of an index. Errors: ValueError (it is none), Unsupported."""

    def __init__(self, spec: Any) -> None:
        self.names: list[str] = []
        self._root = self._node(spec, "")

    def sample(self, leaves: Sequence[Any]) -> Any:
        if isinstance(self._root, int):
            return leaves[0]
        if isinstance(self._root, dict) and all(isinstance(item, int) for item in self._root.values()):
            return dict(zip(self._root, leaves, strict=True))  # as most are
        return _filled(self._root, leaves)

    def _node(self, spec: Any, path: str, depth: int = 0) -> Any:
        if depth > _DEPTH_MAX:
            raise ValueError(f"its samples are more than {_DEPTH_MAX} lists and dicts deep")
        kind, inside = spec["type"], spec["children_spec"]
        if kind is None:
            self.names.append(path)
            return len(self.names) - 1
        if kind not in _CONTAINERS or not isinstance(inside, list):
            raise Unsupported(f"its samples have a {kind!r:.80}; write dicts, lists and tuples")
        if kind in ("builtins.list", "builtins.tuple"):
            found = [self._node(one, f"{path}.{i}".strip("."), depth + 1) for i, one in enumerate(inside)]
            return found if kind == "builtins.list" else tuple(found)
        said = spec["context"]
        keys = json.loads(said) if isinstance(said, str) else said
        if (
            not isinstance(keys, list)
            or len(keys) != len(inside)
            or not all(isinstance(key, str | int) for key in keys)
            or len(set(keys)) != len(keys)
        ):
            raise ValueError("a dict of its samples has other keys than values, or one of them twice")
        return {
            key: self._node(one, f"{path}.{key}".strip("."), depth + 1) for key, one in zip(keys, inside, strict=True)
        }


def _filled(node: Any, leaves: Sequence[Any]) -> Any:
    if isinstance(node, dict):
        return {key: _filled(item, leaves) for key, item in node.items()}
    if isinstance(node, list | tuple):
        return type(node)(_filled(item, leaves) for item in node)
    return leaves[node]
