"""Identity of functions and objects: what tells whether a resumed stream is still computed by the same code.

A pickle is no hash (sets, memo and dict order differ between runs), so values are walked and digested by what they say.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

# Deeper than this, and past this many values, an object counts by its type: a cycle, or a model.
_DEPTH = 12
_VALUES = 10_000
# Of larger arrays the first and last bytes count, as of the arrays of a source evenly spaced blocks do.
_ARRAY_BYTES = 1 << 20


def identity(value: Any, version: object = None) -> str:
    """32 hexadecimal digits: equal in every process for equal code and equal plain values, else different.

    Of a function: its module and name, its code with constants, defaults, and what it closes over. Of an object: its type
    and attributes. What cannot be looked into (an extension's object) counts by its type. A `version` that is not None
    counts in place of all that, beside the name.

    >>> identity(lambda x: x + 1) == identity(lambda x: x + 1), identity(lambda x: x + 1) == identity(lambda x: x + 2)
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    if version is not None:
        digest.update(f"{_name(value)}\0{version!r}".encode())
    else:
        for part in _Walk().parts(value, 0):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()


def _name(value: Any) -> str:
    of = value if hasattr(value, "__qualname__") else type(value)
    name = of.__qualname__
    # Where a lambda or local function stands in its file is no part of it: another line above would be another stream.
    return f"{getattr(of, '__module__', '')}.{name}"


class _Walk:
    def __init__(self) -> None:
        self._left = _VALUES
        self._inside: set[int] = set()

    def parts(self, value: Any, depth: int) -> Iterator[bytes]:
        self._left -= 1
        if depth > _DEPTH or self._left < 0 or id(value) in self._inside:
            yield f"...{type(value).__qualname__}".encode()
            return
        self._inside.add(id(value))
        try:
            yield from self._parts(value, depth + 1)
        finally:
            self._inside.discard(id(value))

    def _parts(self, value: Any, depth: int) -> Iterator[bytes]:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
            yield f"{type(value).__qualname__} {value!r}".encode(errors="backslashreplace")
        elif isinstance(value, enum.Enum):
            yield f"{_name(value)} {value.name}".encode()
        elif isinstance(value, type | types.BuiltinFunctionType | types.ModuleType | np.ufunc):
            yield f"{getattr(value, '__module__', '')} {getattr(value, '__qualname__', value.__name__)}".encode()
        elif isinstance(value, types.FunctionType):
            yield from self._function(value, depth)
        elif isinstance(value, types.MethodType):
            yield from self._all([value.__func__, value.__self__], depth)
        elif isinstance(value, types.CodeType):
            yield value.co_code
            yield from self._all([value.co_names, value.co_varnames, value.co_consts], depth)
        elif isinstance(value, functools.partial):
            yield from self._all([value.func, value.args, value.keywords], depth)
        elif isinstance(value, list | tuple):
            yield f"{type(value).__qualname__} {len(value)}".encode()
            yield from self._all(value, depth)
        elif isinstance(value, dict):
            yield f"{type(value).__qualname__} {len(value)}".encode()
            for key in value:
                yield from self._all([key, value[key]], depth)
        elif isinstance(value, set | frozenset):
            yield from sorted(b"".join(_Walk().parts(item, depth)) for item in value)
        elif isinstance(value, np.ndarray):
            yield from _array(value)
        else:
            yield from self._object(value, depth)

    def _all(self, values: Any, depth: int) -> Iterator[bytes]:
        for value in values:
            yield from self.parts(value, depth)

    def _function(self, value: types.FunctionType, depth: int) -> Iterator[bytes]:
        yield value.__module__.encode() if value.__module__ else b""
        yield value.__qualname__.encode()
        cells = [cell.cell_contents if cell != types.CellType() else None for cell in value.__closure__ or ()]
        yield from self._all([value.__code__, value.__defaults__, value.__kwdefaults__, cells], depth)

    def _object(self, value: Any, depth: int) -> Iterator[bytes]:
        yield _name(value).encode()
        if hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor of torch
            try:
                yield from _array(value.detach().cpu().numpy())
            except (TypeError, RuntimeError):
                yield repr(getattr(value, "shape", None)).encode()
            return
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            yield from self.parts({key: attributes[key] for key in sorted(attributes, key=str)}, depth)
        for slot in getattr(type(value), "__slots__", ()):
            if isinstance(slot, str) and hasattr(value, slot):
                yield from self._all([slot, getattr(value, slot)], depth)


def _array(value: np.ndarray[Any, Any]) -> Iterator[bytes]:
    yield f"array {value.dtype} {value.shape}".encode()
    if value.dtype.hasobject:
        return
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8) if value.nbytes <= _ARRAY_BYTES else None
    if flat is not None:
        yield flat.tobytes()
    else:
        plain = value.reshape(-1) if value.flags.c_contiguous else value.ravel()[:_ARRAY_BYTES]
        yield plain[: _ARRAY_BYTES // 16].tobytes() + plain[-(_ARRAY_BYTES // 16) :].tobytes()
