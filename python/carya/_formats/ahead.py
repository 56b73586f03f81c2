"""What sources over kept libraries keep in the cache folder, made before the first epoch asks for it: for `carya index`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

# Of sources whose `map_style` object keeps nothing: why, for people.
_NOTHING = {
    "npy": "files are mapped as they lie",
    "hdf5": "chunks are decoded where they are needed",
    "lmdb": "keys are read when the pipeline is made",
    "litdata": "chunks are not compressed, or each sample is",
    "beton": "what is stored of each sample stands in front of them",
    "lance": "rows are taken where they lie",
    "array_record": "indexes stand at the ends of the files",
    "npz": "arrays are not compressed, and are mapped as they lie",
    "jsonl": "where lines begin is found anew in files of less than 8 MiB",
    "text": "where lines begin is found anew in files of less than 8 MiB",
    "csv": "where rows begin is found anew in files of less than 8 MiB",
}


class Kept(NamedTuple):
    """Something in the cache folder."""

    path: str
    bytes: int


def keep_ahead(rows: Any, show: Callable[[int, int], None] = lambda done, count: None) -> list[Kept]:
    """Make all that the object of a source keeps, and say what that is. `show(done, count)` is told of parts.

    Errors: Exhausted (no room), SampleError that names a part that cannot be decoded.
    """
    if hasattr(rows, "unpack"):
        rows.unpack(show)
    return [Kept(path, _bytes(path)) for path in rows.kept_paths()] if hasattr(rows, "kept_paths") else []


def why_nothing(kind: str) -> str:
    """Why a source of this kind keeps nothing."""
    return _NOTHING.get(kind, "")


def _bytes(path: str) -> int:
    if os.path.isdir(path):
        return sum(entry.stat().st_size for entry in os.scandir(path))
    return os.path.getsize(path)
