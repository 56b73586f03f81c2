"""Values in one short line."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from .._records.values import what_is

_NUMBERS = 8  # of an array that are shown
_VALUE_MAX = 4096  # letters of a text that `--json` has as they are


def short(value: Any, width: int) -> str:
    """A value in at most about `width` letters, not yet escaped.

    >>> short(b"\\x00\\x01", 40), short(np.arange(20), 60)
    ('2 B: 00 01', 'int64 (20,): 0 1 2 3 4 5 6 7 ...')
    """
    if isinstance(value, str):
        return _cut(json.dumps(value, ensure_ascii=False), width)
    if isinstance(value, bytes):
        what = what_is(value)
        if what.dtype != "bytes":
            sides = "" if what.shape is None else f" {what.shape[1]}x{what.shape[0]}"
            return f"{what.dtype}{sides}, {len(value):,} B"
        return f"{len(value):,} B: {_of_bytes(value, max(width - 12, 8))}"
    if isinstance(value, np.ndarray) and value.ndim:
        numbers = " ".join(
            f"{number:g}" if value.dtype.kind == "f" else str(number) for number in value.ravel()[:_NUMBERS]
        )
        more = " ..." if value.size > _NUMBERS else ""
        return _cut(f"{value.dtype} {value.shape}: {numbers}{more}", width)
    if isinstance(value, np.ndarray | np.generic):
        return str(value)
    if isinstance(value, list | tuple | dict):
        return _cut(repr(_pruned(value, 0)), width)
    return _cut(str(value), width)


def for_json(value: Any) -> dict[str, Any]:
    """What `--json` says of a value: dtype, shape, a short text, and the value itself where it is small."""
    what = what_is(value)
    found: dict[str, Any] = {"dtype": what.dtype, "shape": what.shape, "shown": short(value, 200)}
    if isinstance(value, bytes):
        found["bytes"] = len(value)
    plain = (
        value.tolist() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim) else value
    )
    if isinstance(plain, str):
        found["value"] = plain[:_VALUE_MAX]
    elif plain is None or isinstance(plain, bool | int) or (isinstance(plain, float) and math.isfinite(plain)):
        found["value"] = plain
    return found


def _of_bytes(value: bytes, width: int) -> str:
    """As text where it is one, else in hexadecimal."""
    head = value[:width]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        text = head[: error.start].decode() if error.start >= max(len(head) - 3, 1) else ""
    if text and text.isprintable():
        return json.dumps(text, ensure_ascii=False) + ("..." if len(value) > len(head) else "")
    count = max(width // 3, 2)
    return value[:count].hex(" ") + (" ..." if len(value) > count else "")


def _pruned(value: Any, depth: int) -> Any:
    """The same with long lists, texts and deep parts cut, so that a short text of it costs little."""
    if depth > 6:
        return "..."
    if isinstance(value, dict):
        return {key: _pruned(item, depth + 1) for key, item in list(value.items())[:20]}
    if isinstance(value, list | tuple):
        return [_pruned(item, depth + 1) for item in value[:20]]
    if isinstance(value, str | bytes):
        return value[:200]
    return value.tolist() if isinstance(value, np.generic) else value


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 1)] + "..."
