"""What lies at a path, found by reading its index and some of its records."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._errors import Error, NotFound, SampleError, invalid
from .._records.opening import open_records
from .._records.records import Records
from .._records.values import What, size_of, spread, what_is
from .._sources.stores import is_url
from .line import python_line

_LOOKED_AT = 100  # records that say what the fields are
_OF_STORE, _STORE_BYTES = 16, 32 << 20  # of a store: each is a request
_SIZED = 1 << 20  # records whose sizes are asked for


@dataclass(frozen=True)
class Field:
    """A field over the records that were looked at."""

    name: str
    dtype: str  # "text or int64" where they differ
    shape: str  # "(3, 2)", "(varies, 3)", "varies" or ""
    seen: int  # in how many it is there, and no null

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype, "shape": self.shape, "seen": self.seen}


@dataclass(frozen=True)
class Shown:
    """A record that is shown: its fields, or why there are none."""

    index: int
    place: str
    values: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class Survey:
    """What was found."""

    path: str
    kind: str
    why: str
    files: int
    file_bytes: int
    records: int
    sizes: dict[str, int] | None  # min, median and max of bytes of a record
    sizes_are: str
    fields: list[Field]
    looked_at: int
    broken: int  # of those looked at
    notes: list[str]
    shown: list[Shown]
    line: str


def survey(path: str, count: int, at: int | None) -> Survey:
    """Look at `path`, and at `count` records from position `at` on; None: some from everywhere.

    Errors: those of `open_records`, InvalidArgument (a position that there is not).
    """
    opened = open_records(path, partly=True)
    records = opened.records
    positions = _positions(records, count, at)
    samples: dict[int, dict[str, Any]] = {}
    problems: dict[int, str] = {}
    remote = is_url(opened.path)
    others = spread(len(records), _OF_STORE if remote else _LOOKED_AT, records.in_blocks) if len(records) else ()
    wanted = [*positions, *others]
    found: dict[str, list[What]] = {}
    memory: list[int] = []
    looked_at = 0
    for index in dict.fromkeys(wanted):
        if remote and index not in positions and sum(memory) > _STORE_BYTES:
            break
        looked_at += 1
        try:
            sample = records.read(index)
        except (SampleError, NotFound) as error:
            problems[index] = str(error).removeprefix(f"{_place(records, index)}: ")
            continue
        memory.append(size_of(sample))
        for name, value in sample.items():
            found.setdefault(str(name), []).append(what_is(value))
        if index in positions:
            samples[index] = sample
    fields = [_field(name, whats) for name, whats in found.items()]
    return Survey(
        path=opened.path,
        kind=records.kind,
        why=opened.why,
        files=len(records) if records.kind == "image_folder" else len(records.files),
        file_bytes=records.file_bytes,
        records=len(records),
        **_sizes(records, memory),
        fields=fields,
        looked_at=looked_at,
        broken=len(problems),
        notes=records.notes,
        shown=[Shown(i, _place(records, i), samples.get(i, {}), problems.get(i, "")) for i in positions],
        line=python_line(opened, fields),
    )


def _positions(records: Records, count: int, at: int | None) -> list[int]:
    if at is None:
        return list(spread(len(records), count, records.in_blocks or count < 2))
    if not 0 <= at < len(records):
        raise invalid("inspect: --at", at, f"a position of 0 to {len(records) - 1:,}")
    return list(range(at, min(at + count, len(records))))


def _place(records: Records, index: int) -> str:
    with contextlib.suppress(Error):
        return records.place(index)
    return ""


def _sizes(records: Records, memory: list[int]) -> dict[str, Any]:
    sizes = records.sizes() if len(records) <= _SIZED else None
    what = "as they lie in their files"
    if sizes is None:
        sizes, what = np.array(memory, np.int64), "in memory, of those looked at"
    if not len(sizes):
        return {"sizes": None, "sizes_are": ""}
    figures = {"min": int(sizes.min()), "median": int(np.median(sizes)), "max": int(sizes.max())}
    return {"sizes": figures, "sizes_are": what}


def _field(name: str, whats: list[What]) -> Field:
    there = [what for what in whats if what.dtype != "null"]
    dtypes = list(dict.fromkeys(what.dtype for what in there))
    shapes = {what.shape for what in there}
    return Field(name, " or ".join(dtypes) or "null", _shape(shapes), len(there))


def _shape(shapes: set[tuple[int, ...] | None]) -> str:
    if len(shapes) == 1:
        shape = next(iter(shapes))
        return "" if shape is None else str(shape)
    lengths = {None if shape is None else len(shape) for shape in shapes}
    if len(lengths) != 1 or None in lengths:
        return "varies" if shapes else ""
    sides = [set(side) for side in zip(*(shape for shape in shapes if shape is not None), strict=True)]
    shown = ", ".join(str(next(iter(side))) if len(side) == 1 else "varies" for side in sides)
    return f"({shown},)" if len(sides) == 1 else f"({shown})"
