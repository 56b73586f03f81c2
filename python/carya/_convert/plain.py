"""Values as JSON has them, and whether two values are the same."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np


def as_json(value: Any) -> Any:
    """What `json.loads` gives of a value that was written as JSON; bytes are taken for text. Errors: ValueError (what JSON has not).

    >>> as_json({"x": np.arange(2), 3: (1.5, None)})
    {'x': [0, 1], '3': [1.5, None]}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "biuf":
            return value.tolist()
        raise ValueError(f"its values are {value.dtype}, which JSON has not")
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(as_json(key)): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError("it holds bytes that are no text, which JSON has not") from None
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise ValueError(f"it holds {type(value).__name__}, which JSON has not")


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, NaN among them; numbers by value, arrays by shape and values.

    >>> same([float("nan"), {"x": 1}], [float("nan"), {"x": 1}]), same(np.arange(2), [0, 2])
    (True, False)
    """
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        a, b = np.asarray(one), np.asarray(other)
        if a.shape != b.shape or "O" in a.dtype.kind + b.dtype.kind:
            return False
        return bool(np.array_equal(a, b, equal_nan="f" in a.dtype.kind + b.dtype.kind or a.dtype.kind == "c"))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float | np.floating) and isinstance(other, float | np.floating):
        return bool(one == other) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
