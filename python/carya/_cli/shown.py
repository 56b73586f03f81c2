"""What somebody else wrote, as it is shown on a terminal."""

from __future__ import annotations

from typing import Any, TypeVar

from .. import _core

Shown = TypeVar("Shown")


def shown(what: Shown) -> Shown:
    """The same document with all of its texts escaped: nothing in them steers a terminal.

    >>> shown({"job": "a\\x1b[2J", "ranks": [{"rank": 0}]})
    {'job': 'a\\\\x1b[2J', 'ranks': [{'rank': 0}]}
    """
    found: Any = what
    if isinstance(found, str):
        try:
            raw = found.encode("utf-8", "surrogateescape")  # the bytes that a file's name has
        except UnicodeEncodeError:  # another half of a pair
            raw = found.encode("utf-8", "surrogatepass")
        found = _core.escaped(raw)
    elif isinstance(found, dict):
        found = type(found)({shown(key): shown(value) for key, value in found.items()})
    elif isinstance(found, list | tuple):
        found = type(found)(shown(item) for item in found)
    return found  # type: ignore[no-any-return]
