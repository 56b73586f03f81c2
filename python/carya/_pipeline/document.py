"""Turning Python arguments into the values of the pipeline document (transforms/FORMAT.md).

What a value may be is decided by the native parser; here only the shorthands of Python are written out (one number for
a pair, a tuple for a list), so that an error of the parser still shows what the user gave.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .._errors import InvalidArgument, invalid
from .._options import integer

Document = dict[str, Any]


def plain(value: Any) -> Any:
    """The JSON form of a parameter: numpy scalars become numbers, tuples and arrays become lists."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return value


def pair(value: Any) -> Any:
    """`size` of an op with exact sizes: one number stands for a square."""
    value = plain(value)
    return [value, value] if isinstance(value, int) and not isinstance(value, bool) else value


def shorter_side(value: Any) -> Any:
    """`size` of resize: one number is the shorter side."""
    value = plain(value)
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


def four_sides(value: Any) -> Any:
    """`padding`: one number for all sides, two for left/right and top/bottom, four for left, top, right, bottom.

    >>> four_sides(2), four_sides((1, 2))
    ([2, 2, 2, 2], [1, 2, 1, 2])
    """
    value = plain(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return [value] * 4
    if isinstance(value, list) and len(value) == 1:
        return value * 4
    if isinstance(value, list) and len(value) == 2:
        return [value[0], value[1], value[0], value[1]]
    return value


def number_list(value: Any) -> Any:
    """One number or a sequence of them, as a list."""
    value = plain(value)
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


def filled(fill: Any, extra_fill: Any) -> Document:
    """`fill`, and `extra_fill` where it is given: a document without it is what it was before there was one."""
    return {"fill": plain(fill)} if extra_fill is None else {"fill": plain(fill), "extra_fill": plain(extra_fill)}


def shared_epochs(epochs: int | Mapping[int, int]) -> int | list[int]:
    """How many epochs share their random numbers; of a schedule pairs of the epoch from which on a number holds and that number.
    Errors: InvalidArgument (what is no number of epochs; a schedule that says nothing of epoch 0)."""
    name, what = "reuse_augmentation: epochs", "an integer of 1 or more, or a schedule of such, as {0: 5, 30: 2}"
    if not isinstance(epochs, Mapping):
        return integer(name, epochs, 1, what)
    pairs = sorted((integer(name, begin, 0, what), integer(name, count, 1, what)) for begin, count in epochs.items())
    if not pairs or pairs[0][0] != 0:
        raise invalid(name, dict(epochs), "a schedule that begins with epoch 0, as {0: 5, 30: 2}")
    return pairs[0][1] if len(pairs) == 1 else [number for pair in pairs for number in pair]


def dump(document: Document) -> str:
    """The text of a document. A value that JSON cannot hold is an error that names its op and parameter."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        parts = [("source", document["source"]), ("batch", document.get("batch") or {})]
        parts += [(view["view"], view) for view in document.get("views", [])]
        parts += [("shuffle", document.get("shuffle") or {})]
        parts += [(op["name"] if op["op"] == "user" else op["op"], op) for op in document.get("ops", [])]
        for name, part in parts:
            name = part.get("type", name)
            for key, value in part.items():
                try:
                    json.dumps(value, allow_nan=False)
                except (TypeError, ValueError) as error:
                    raise invalid(f"{name}: {key}", value, "finite numbers, strings or lists of them") from error
        raise InvalidArgument("pipeline: holds a value that JSON cannot; give numbers, strings and lists") from None
