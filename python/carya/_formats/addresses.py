"""Records that a reader found in files, by their places: a source of the native path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._pipeline.arrays import arrays_document
from .._pipeline.pipeline import Pipeline
from .._sources.objects import ListedObject
from .kept import File

NAME_MAX = 64  # bytes of a record's name
_DIMENSIONS_MAX = 8  # of a row

Array = np.ndarray[Any, Any]


def at_addresses(
    kind: str,
    files: Sequence[File],
    encoded: Sequence[str],
    places: Array,
    names: Array,
    *,
    labels: Array | None = None,
    marks: Sequence[tuple[int, int]] | None = None,
) -> Pipeline:
    """A pipeline of ranges of files, read, decoded, cached and sent to workers as the members of tars are.

    `files`: as they were when the places were found: another size or time is an IoError under every policy, compared when the
    source is opened and behind every read; of objects in stores, all of one bucket or host, another version. `encoded`: the fields of a record. `places`: uint64 (records, fields, 3): of each field
    the number of its file, offset and size; size 0: a broken record, as its name may say. `names`: bytes
    ("S", at most 64) by which people find a record in its file, none empty. `labels`: int64. `marks`: for each file where it has
    eight bytes that each writer changes before it touches a record, and what they are as a number; of objects it says nothing.
    Errors: InvalidArgument (fields with one name).
    """
    memory: dict[str, Array] = {
        "places": np.ascontiguousarray(places, np.uint64).reshape(len(places), -1),
        "names": np.ascontiguousarray(names).view(np.uint8).reshape(len(names), -1),
    }
    if labels is not None:
        memory["labels"] = np.ascontiguousarray(labels, np.int64)
    stamps: list[int] = []
    pins = [file.version for file in files if isinstance(file, ListedObject)]
    for file, (at, value) in zip(files, marks or [(-1, 0)] * len(files), strict=True):
        stamps += [file.size, 0, -1, 0] if isinstance(file, ListedObject) else [file.size, file.mtime_ns, at, value]
    return Pipeline._start(
        {
            **arrays_document(memory),
            "type": "ranges",
            "kind": kind,
            "paths": [file.path for file in files],
            "stamps": stamps,
            **({"pins": pins} if pins else {}),
            "encoded": list(encoded),
            "label": labels is not None,
        },
        memory,
    )


def record_name(number: int, about: bytes = b"") -> bytes:
    """The name of a record: "#7", and what else there is to say of it, shortened where that is long.

    >>> record_name(7), record_name(7, b"'cat.jpg'")
    (b'#7', b"#7 'cat.jpg'")
    """
    name = b"#%d %b" % (number, about) if about else b"#%d" % number
    return name if len(name) <= NAME_MAX else name[: NAME_MAX - 3] + b"..."


class RawRows(NamedTuple):
    """A field whose rows lie in files as they are in memory."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of a row
    places: Array  # uint64 (records, 3): file, offset and size of each


def rows_at_addresses(
    kind: str,
    files: Sequence[File],
    fields: Sequence[RawRows],
    names: Array,
    labels: Array | None = None,
) -> Pipeline:
    """A pipeline of rows of arrays in files: ranges, and what they are behind them. Errors: InvalidArgument."""
    places = np.stack([field.places for field in fields], axis=1)
    pipeline = at_addresses(kind, files, [field.name for field in fields], places, names, labels=labels)
    for field in fields:
        pipeline = pipeline.decode_raw(field.dtype.name, field.shape, fields=[field.name])
    return pipeline


def why_not_raw(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """Why rows of this type and shape are none that `decode_raw` takes; "" if they are.

    >>> why_not_raw(np.dtype(">f4"), (3,)), why_not_raw(np.dtype("<f4"), (3,))
    ('its values are >f4, and no little-endian numbers of at most 8 bytes', '')
    """
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or dtype.newbyteorder("<") != dtype:
        return f"its values are {dtype.str}, and no little-endian numbers of at most 8 bytes"
    if not math.prod(shape):
        return "its rows have no bytes"
    return "" if len(shape) <= _DIMENSIONS_MAX else f"its rows have {len(shape)} dimensions"


def is_label(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], fields: int) -> bool:
    """Whether a field of so many is the one that is held in memory: `label`, with the type that it has of other sources."""
    return name == "label" and dtype == np.int64 and not shape and fields > 1


def row_places(file: int, offset: int, rows: int, size: int, step: int | None = None) -> Array:
    """Of rows of so many bytes, each of which begins `step` bytes behind the one before; None: where that ends.

    >>> row_places(2, 128, 2, 24).tolist()
    [[2, 128, 24], [2, 152, 24]]
    """
    places = np.empty((rows, 3), np.uint64)
    places[:, 0], places[:, 2] = file, size
    places[:, 1] = np.uint64(offset) + np.arange(rows, dtype=np.uint64) * np.uint64(step or size)
    return places


def row_names(counts: Sequence[int]) -> Array:
    """The names of rows by their numbers in each of the files that have so many.

    >>> row_names([2, 1]).tolist()
    [b'#0', b'#1', b'#0']
    """
    most = np.char.add(b"#", np.arange(max(counts)).astype(f"S{len(str(max(counts)))}"))
    return np.concatenate([most[:count] for count in counts])
