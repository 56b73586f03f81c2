"""`flat_map`, `bucket_by_length`, `pack`: stages after which positions are no single records, and the sizes that they ask for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid
from .padding import filling
from .tree import as_leaf, flatten
from .units import BestFit, Buckets, Many, Ordered, Packed, Units

Array = np.ndarray[Any, Any]
REGROUPS = ("flat_map", "bucket_by_length", "pack")
# Fields that `pack` makes.
SEGMENT, POSITION = "segment", "position"


class Bucket:
    """`length`: a field's name, or a function of a sample; None where `lengths` has one for each record."""

    def __init__(
        self, length: str | Callable[[Any], Any] | None, lengths: Array | None, window: int, group: int
    ) -> None:
        self.length, self.lengths, self.window, self.group = length, lengths, window, group

    @property
    def __name__(self) -> str:
        return self.length if isinstance(self.length, str) else "" if self.length is None else "..."

    def __call__(self, value: Any) -> int:
        """The length of a sample. Errors: InvalidArgument."""
        if isinstance(self.length, str):
            return len(_ragged("bucket_by_length: length", self.length, flatten(value)))
        assert self.length is not None
        return _size("bucket_by_length: length", self.length(value))


class Pack:
    """Rows of `length` elements of the fields, which are as long as each other. `lengths`: of each record, where they are given.
    `best_fit`: how many samples are looked at together for rows of whole ones; None: one behind the other."""

    def __init__(
        self,
        length: int,
        fields: Sequence[str],
        lengths: Array | None,
        value: float | dict[str, float],
        best_fit: int | None = None,
    ) -> None:
        self.length, self.fields, self.lengths, self.value = length, tuple(fields), lengths, value
        self.best_fit = best_fit

    @property
    def __name__(self) -> str:
        return ", ".join(self.fields)

    def __call__(self, value: Any) -> int:
        """The length of a sample. Errors: InvalidArgument."""
        return len(self.arrays(value)[0])

    def arrays(self, value: Any) -> list[Array]:
        """The packed fields of a sample. Errors: InvalidArgument."""
        named = flatten(value)
        arrays = [_ragged("pack: fields", name, named) for name in self.fields]
        for name, array in zip(self.fields, arrays, strict=True):
            if len(array) != len(arrays[0]):
                raise InvalidArgument(
                    f"pack: {name}: got {len(array)} elements beside {len(arrays[0])} of {self.fields[0]}; give fields that are as "
                    "long as each other"
                )
        return arrays

    def row(self, pieces: Sequence[tuple[Sequence[Array], int]]) -> dict[str, Array]:
        """A row of parts of samples, each with where it begins in its sample. Errors: InvalidArgument."""
        made: dict[str, Array] = {}
        for number, name in enumerate(self.fields):
            like = pieces[0][0][number]
            value = self.value[name] if isinstance(self.value, dict) else self.value
            made[name] = np.full((self.length, *like.shape[1:]), filling("pack", value, like.dtype), like.dtype)
            at = 0
            for arrays, _ in pieces:
                one = arrays[number]
                if one.dtype != like.dtype or one.shape[1:] != like.shape[1:]:
                    raise InvalidArgument(
                        f"pack: {name}: got {one.dtype} {one.shape} beside {like.dtype} {like.shape}; give arrays that differ in "
                        "their first side only"
                    )
                made[name][at : at + len(one)] = one
                at += len(one)
        made[SEGMENT], made[POSITION] = np.zeros(self.length, np.int32), np.zeros(self.length, np.int32)
        at = 0
        for segment, (arrays, begin) in enumerate(pieces, 1):
            here = slice(at, at + len(arrays[0]))
            made[SEGMENT][here] = segment
            made[POSITION][here] = np.arange(begin, begin + len(arrays[0]))
            at = here.stop
        return made


def many(label: str, result: Any) -> list[Any]:
    """The samples that a function of `flat_map` made of one. Errors: InvalidArgument; the function's own, where it yields them."""
    if result is None or isinstance(result, str | bytes | Mapping | np.ndarray) or not hasattr(result, "__iter__"):
        shown = "None" if result is None else f"an object of type {type(result).__name__}"
        raise InvalidArgument(f"{label}: it returned {shown}; return a list of samples, or yield them")
    return list(result)


def units_of(fn: Any, sizes: Array, seed: int, shuffle: bool, ordered: Ordered) -> Units:
    """What is at the positions behind a stage of this room."""
    if isinstance(fn, Bucket):
        return Buckets(sizes, fn.window, fn.group, seed, ordered, shuffle)
    if isinstance(fn, Pack) and fn.best_fit is not None:
        return BestFit(sizes, fn.length, fn.best_fit, seed, shuffle)
    if isinstance(fn, Pack):
        return Packed(sizes, fn.length, ordered)
    return Many(sizes, ordered)


def _ragged(subject: str, name: str, named: Mapping[str, Any]) -> Array:
    if name not in named:
        raise InvalidArgument(f"{subject}: the sample has no {name!r}; give one of {tuple(named)}")
    array = as_leaf(named[name])
    if isinstance(array, list) and not array:
        array = np.zeros(0, np.int64)
    if isinstance(array, str | bytes | list) and subject.startswith("bucket"):
        return np.empty(len(array), np.bool_)  # only its length is asked
    if not isinstance(array, np.ndarray) or array.ndim < 1:
        shown = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise InvalidArgument(f"{subject}: {name}: got {shown}; give a field of arrays of one or more dimensions")
    return array


def _size(subject: str, value: Any) -> int:
    try:
        size = operator.index(value)
    except TypeError:
        size = -1
    if size < 0:
        raise invalid(subject, value, "a function that returns an integer of 0 or more")
    return size


def checked_bucket(length: Any, window: Any, group: Any) -> Bucket:
    """What a user gave to `bucket_by_length`. Errors: InvalidArgument that names the parameter."""
    group = _count("bucket_by_length: group", group)
    window = _count("bucket_by_length: window", window)
    if window % group or window > 1 << 24:
        raise invalid("bucket_by_length: window", window, f"a multiple of group={group}, of at most {1 << 24}")
    if isinstance(length, str) and length:
        return Bucket(length, None, window, group)
    if callable(length):
        return Bucket(length, None, window, group)
    return Bucket(None, checked_lengths("bucket_by_length: length", length), window, group)


def checked_pack(length: Any, fields: Any, lengths: Any, value: Any, best_fit: Any) -> Pack:
    """What a user gave to `pack`. Errors: InvalidArgument that names the parameter."""
    length = _count("pack: length", length)
    names = (fields,) if isinstance(fields, str) else tuple(fields) if isinstance(fields, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise invalid("pack: fields", fields, "a name or several different ones")
    if {SEGMENT, POSITION} & set(names):
        raise invalid("pack: fields", fields, f'other names than "{SEGMENT}" and "{POSITION}", which pack makes itself')
    values = dict(value) if isinstance(value, Mapping) else dict.fromkeys(names, value)
    if not values.keys() <= set(names) or not all(
        isinstance(one, int | float | np.number | np.bool_) for one in values.values()
    ):
        raise invalid("pack: value", value, f"a number, or one for each of {names} by name")
    values = {name: one.item() if isinstance(one, np.generic) else one for name, one in values.items()}
    values = {name: values.get(name, 0) for name in names}  # however it was written
    given = None if lengths is None else checked_lengths("pack: lengths", lengths)
    plain: Any = values if isinstance(value, Mapping) else values[names[0]]
    if best_fit is not None:
        best_fit = _count("pack: best_fit", best_fit)
    return Pack(length, names, given, plain, best_fit)


def checked_lengths(subject: str, given: Any) -> Array:
    """Lengths of all records. Errors: InvalidArgument."""
    try:
        lengths = np.asarray(given)
    except ValueError:
        lengths = np.zeros((0, 0))
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths) or int(lengths.min()) < 0:
        wanted = "an integer of 0 or more for each record"
        raise invalid(subject, given, f"a field's name, a function, or {wanted}" if subject.startswith("b") else wanted)
    return np.ascontiguousarray(lengths, np.int64)


def _count(subject: str, value: Any) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 1 <= value <= 1 << 40:
        raise invalid(subject, value, "an integer of 1 or more")
    return int(value)


def with_budget(
    pipeline: Any, batch_size: Any, global_size: Any, tokens: Any, length: Any, max_rows: Any, padded: Any
) -> Any:
    """What `batch(tokens=...)` puts before the batch. Errors: InvalidArgument that names the parameter."""
    from .._errors import invalid
    from .._orders.budget import checked_budget
    from .padding import Pad
    from .stage import Stage

    if batch_size is not None or global_size is not None:
        raise invalid("batch: tokens", tokens, "only one of batch_size=, global_size= and tokens=")
    former = next((stage.kind for stage in pipeline._stages if stage.kind in ("flat_map", "pack", "weighted")), None)
    if former is not None:
        raise invalid("batch: tokens", tokens, f"batch_size=, since the rows behind {former} are no single records")
    found = next((stage for stage in pipeline._stages if stage.kind == "bucket_by_length"), None)
    if found is not None and length is not None:
        raise invalid("batch: length", length, "it to bucket_by_length only, whose lengths count")
    if found is None and length is None:
        raise invalid("batch: length", length, "a field's name, a function, or an integer for each record")
    budgeted = pipeline if found is not None else pipeline.bucket_by_length(length, window=1, group=1)
    bucket: Any = next(stage.fn for stage in budgeted._stages if stage.kind == "bucket_by_length")
    field = bucket.length
    pads = [stage.fn for stage in pipeline._stages if isinstance(stage.fn, Pad) and field in stage.fn.fields]
    if any(pad.to is not None for pad in pads):
        raise invalid(
            "batch: tokens", tokens, f"batch_size=, since pad_sequences({field!r}, to=...) makes rows of one length"
        )
    multiple_of = max((pad.multiple_of for pad in pads), default=1)
    budget: Any = checked_budget(tokens, max_rows, padded, multiple_of)
    return budgeted._with(stages=(*budgeted._stages, Stage("budget", budget, seed_globals=False)))
