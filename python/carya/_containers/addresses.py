"""Records that a reader found in files, by their places: a source of the native path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._formats.kept import Listed
from .._pipeline.arrays import arrays_document
from .._pipeline.pipeline import Pipeline

NAME_MAX = 64  # bytes of a record's name

Array = np.ndarray[Any, Any]


def at_addresses(
    kind: str,
    files: Sequence[Listed],
    encoded: Sequence[str],
    places: Array,
    names: Array,
    *,
    labels: Array | None = None,
    marks: Sequence[tuple[int, int]] | None = None,
) -> Pipeline:
    """A pipeline of ranges of files, read, decoded, cached and sent to workers as the members of tars are.

    `files`: as they were when the places were found: another size or time is an IoError under every policy, compared when the
    source is opened and behind every read. `encoded`: the fields of a record. `places`: uint64 (records, 1 + 2 * fields): the
    number of its file, and of each field its offset and size; size 0: a broken record, as its name may say. `names`: bytes
    ("S", at most 64) by which people find a record in its file, none empty. `labels`: int64. `marks`: for each file where it has
    eight bytes that each writer changes before it touches a record, and what they are as a number.
    Errors: InvalidArgument (fields with one name).
    """
    memory: dict[str, Array] = {
        "places": np.ascontiguousarray(places, np.uint64),
        "names": np.ascontiguousarray(names).view(np.uint8).reshape(len(names), -1),
    }
    if labels is not None:
        memory["labels"] = np.ascontiguousarray(labels, np.int64)
    stamps = []
    for file, (at, value) in zip(files, marks or [(-1, 0)] * len(files), strict=True):
        stamps += [file.size, file.mtime_ns, at, value]
    return Pipeline._start(
        {
            **arrays_document(memory),
            "type": "ranges",
            "kind": kind,
            "paths": [file.path for file in files],
            "stamps": stamps,
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
