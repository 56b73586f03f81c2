"""The headers of one's own that sources include: they are part of what an operation was compiled from."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
# Flags that name a folder of headers, in one word with it or before it.
_FOLDERS = ("-iquote", "-isystem", "-idirafter", "-I")
_FILES = ("-include", "-imacros")


def included(sources: Sequence[str], flags: Sequence[str]) -> list[bytes]:
    """What the files have that `#include` names beside the including file, or in a folder of `flags`, and those that flags
    include, each once.

    Those of the system, and Carya's own, count as the machine's. Conditions are not read: a header that the compiler
    leaves out counts too. The order is that of the text, and no path is in it, so that all machines find the same.
    """
    folders = _folders(flags)
    texts = list[bytes]()
    seen = {os.path.realpath(source) for source in sources}

    def taken(name: str, places: Sequence[str]) -> list[tuple[str, bytes]]:
        """The first file of that name, unless it was taken before."""
        if os.path.basename(name) == "carya_op.h":
            return []
        path = next((at for at in (os.path.join(place, name) for place in places) if os.path.isfile(at)), None)
        if path is None or os.path.realpath(path) in seen:
            return []
        seen.add(os.path.realpath(path))
        text = _read(path)
        texts.append(text)
        return [(path, text)]

    waiting = [one for name in _forced(flags) for one in taken(name, ["", *folders])]
    waiting = [*reversed([*waiting, *((source, _read(source)) for source in sources)])]
    while waiting:
        path, text = waiting.pop()
        found = []
        for beside, anywhere in _INCLUDE.findall(text):
            places = [*([os.path.dirname(path)] if beside else []), *folders]
            found += taken(os.fsdecode(beside or anywhere), places)
        waiting += reversed(found)
    return texts


def _read(path: str) -> bytes:
    """Nothing of a file that cannot be read: the compiler says so better."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _folders(flags: Sequence[str]) -> list[str]:
    return _named(flags, _FOLDERS)


def _forced(flags: Sequence[str]) -> list[str]:
    """Files that the compiler includes before the text of a source."""
    return _named(flags, _FILES)


def _named(flags: Sequence[str], options: Sequence[str]) -> list[str]:
    """What these options have, in one word with them or behind them."""
    found = []
    for flag, following in pairwise([*flags, ""]):
        option = next((option for option in options if flag.startswith(option)), None)
        if option is not None:
            found.append(flag[len(option) :] or following)
    return found
