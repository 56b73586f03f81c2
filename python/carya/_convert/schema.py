"""What the fields of a dataset are, by some of its records."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._errors import NotFound, SampleError
from .._records.records import Records
from .._records.values import spread, what_is

_LOOKED_AT = 200
_PICTURES = {"jpeg", "png", "gif", "webp", "bmp", "tiff"}
_LABELS = ("label", "labels", "class", "class_id", "target", "cls", "y")


class Schema(NamedTuple):
    """Of each field what its values were: "int64", "int64[]" of an array, "text", "jpeg", "null" where it was missing, ..."""

    kinds: dict[str, tuple[str, ...]]
    picture: str  # the only field of pictures; "" where there are none or several
    label: str  # the field that is called like a label, of one integer; "" for none

    @property
    def digest(self) -> str:
        return hashlib.blake2b(repr(self).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def schema_of(records: Records) -> Schema:
    """By records from everywhere; broken ones say nothing."""
    return schema_of_samples(_samples(records))


def schema_of_samples(samples: Iterable[dict[str, Any]]) -> Schema:
    """
    >>> schema_of_samples([{"label": 1, "t": "a"}, {"label": 2}]).kinds
    {'label': ('int64',), 't': ('null', 'text')}
    """
    kinds: dict[str, set[str]] = {}
    count, seen = 0, dict[str, int]()
    for sample in samples:
        count += 1
        for name, value in sample.items():
            kinds.setdefault(name, set()).add(kind_of(value))
            seen[name] = seen.get(name, 0) + 1
    for name, times in seen.items():
        if times < count:
            kinds[name].add("null")
    pictures = [name for name, found in kinds.items() if found <= _PICTURES]
    found = {name: tuple(sorted(one)) for name, one in kinds.items()}
    return Schema(found, pictures[0] if len(pictures) == 1 else "", _label(found))


def kind_of(value: Any) -> str:
    """The kind of a value, as in `Schema`."""
    what = what_is(value)
    return what.dtype + ("[]" if isinstance(value, np.ndarray) and value.ndim else "")


def _samples(records: Records) -> Iterable[dict[str, Any]]:
    indices = [*spread(len(records), _LOOKED_AT, records.in_blocks)]
    records.expect(indices)
    for index in indices:
        try:
            yield records.read(index)
        except (SampleError, NotFound):
            continue


def _label(kinds: dict[str, tuple[str, ...]]) -> str:
    numbers = [name for name, found in kinds.items() if all(re.fullmatch(r"u?int\d+", one) for one in found)]
    for wanted in _LABELS:
        for name in numbers:
            if re.split(r"[/.]", name)[-1].lower() == wanted:
                return name
    return ""
