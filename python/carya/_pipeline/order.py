"""What a user may say of an operation's place in the order; every method that appends one takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from .._options import unknown_argument
from .document import Document, plain


class OrderHints(TypedDict, total=False):
    """Keywords of every operation, for where it runs; they change nothing of what it does.

    keep_position: True: no operation passes it, and it passes none.
    depends_on: names of operations before it that run before it, whatever else moves; "random_crop#1" is the second
    so called.
    """

    keep_position: bool
    depends_on: Sequence[str]


def described(op: str, parameters: Mapping[str, Any], order: Mapping[str, Any]) -> Document:
    """The document's object of an operation. Errors: TypeError for keywords that no operation has."""
    for name in order:
        if name not in OrderHints.__annotations__:
            raise unknown_argument("op" if op == "user" else op, name, [*parameters, *OrderHints.__annotations__])
    # What says nothing is left out, as in the canonical text.
    hints = {name: plain(value) for name, value in order.items()}
    return {
        "op": op,
        **parameters,
        **{name: value for name, value in hints.items() if value is not False and value != []},
    }
