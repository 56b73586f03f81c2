"""Values as arrays of the dtype that was asked for, and names of fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import invalid

# Kinds of values that a dtype of this kind takes: nothing is rounded, and text is not taken for a number.
_TAKES = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}


def checked_names(subject: str, given: str | Sequence[str] | None, wanted: str) -> tuple[str, ...] | None:
    """One name or several; None for all. Errors: InvalidArgument that says what is wanted."""
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) for name in names):
        raise invalid(subject, given, wanted)
    return names


def native_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values in this machine's byte order."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def checked_dtypes(kind: str, given: Mapping[str, Any] | None) -> dict[str, np.dtype[Any] | None]:
    """Dtypes by name; None for text. Errors: InvalidArgument (no plain number)."""
    found: dict[str, np.dtype[Any] | None] = {}
    for name, dtype in (given or {}).items():
        try:
            found[name] = None if dtype is str else np.dtype(dtype)
        except TypeError:
            raise invalid(f"{kind}: dtypes[{name!r}]", dtype, 'a dtype of numbers such as "float32", or str') from None
        if dtype is not str and np.dtype(dtype).kind not in _TAKES:
            raise invalid(f"{kind}: dtypes[{name!r}]", dtype, 'a dtype of numbers such as "float32", or str')
    return found


def as_dtype(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A number, or a list of them with one shape, exactly. Errors: ValueError that says what it is.

    >>> as_dtype([1, 2.5], np.dtype("float32"))
    array([1. , 2.5], dtype=float32)
    >>> as_dtype(300, np.dtype("uint8"))
    Traceback (most recent call last):
    ValueError: got 300, and its dtype is uint8
    """
    try:
        array = np.asarray(value)
        # An empty list is a float64 of numpy's.
        sound = array.dtype.kind in _TAKES[dtype.kind] or not array.size
        made = np.array(value, dtype) if sound else array
        if sound and (dtype.kind == "f" or np.array_equal(made, array)):
            return made
    except (ValueError, OverflowError, TypeError):
        pass
    shown = repr(value)
    raise ValueError(f"got {shown if len(shown) <= 80 else shown[:80] + '...'}, and its dtype is {dtype}")
