"""The bytes of a slot: where the rows of each field lie in the shared memory that workers write and trainers read."""

from __future__ import annotations

import functools
import math
import mmap
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, NamedTuple

import numpy as np

from .._errors import InvalidArgument
from .._stages.chain import check_like
from .._stages.tree import VALUE, as_leaf

_ALIGN = 64
_PAGE = mmap.PAGESIZE
# Numbers of Python's own, and the dtype that `as_leaf` gives them.
_NUMBERS = {int: "int64", float: "float64", bool: "bool", complex: "complex128"}


@dataclass(frozen=True)
class Field:
    """One field of a batch: arrays of one dtype and shape, or, with `dtype` None, objects that travel by pickle."""

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...] = ()
    like: np.ndarray[Any, Any] | None = dataclass_field(
        default=None, compare=False
    )  # of objects that are arrays: one without elements

    @property
    def row_bytes(self) -> int:
        return 0 if self.dtype is None else self.dtype.itemsize * math.prod(self.shape)


def field_of(name: str, leaf: Any, as_list: bool) -> Field:
    """The field that has such values: objects where it is no array, or each row of a batch is to be an item of a list."""
    if as_list or not isinstance(leaf, np.ndarray):
        plain = isinstance(leaf, np.ndarray) and leaf.ndim and not leaf.dtype.hasobject
        return Field(name, None, like=np.zeros((0, *leaf.shape[1:]), leaf.dtype) if plain else None)
    return Field(name, leaf.dtype, leaf.shape)


class SlotViews(NamedTuple):
    """Arrays of all rows over the memory of one slot."""

    records: np.ndarray[Any, Any]  # int64
    valid: np.ndarray[Any, Any]  # bool
    fields: dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Layout:
    """`rows` rows at most: `records` int64, `valid` bool, then the fields, and `arena` bytes for what has no fixed size.

    >>> layout = Layout((Field("x", np.dtype("float32"), (3,)), Field("text", None)), rows=2)
    >>> layout.views(bytearray(layout.size), 0).fields["x"].shape, layout.objects
    ((2, 3), ('text',))
    """

    fields: tuple[Field, ...]
    rows: int
    arena: int = 0

    @functools.cached_property
    def arrays(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.dtype is not None)

    @functools.cached_property
    def objects(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields if field.dtype is None)

    @functools.cached_property
    def _places(self) -> list[tuple[str, np.dtype[Any], tuple[int, ...], int]]:
        """Name, dtype, shape and offset of each array of a slot: `records`, `valid` and the fields' arrays."""
        listed: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = [
            ("", np.dtype(np.int64), ()),
            ("", np.dtype(np.bool_), ()),
        ]
        listed += [(field.name, field.dtype, field.shape) for field in self.arrays if field.dtype is not None]
        at, found = 0, list[tuple[str, np.dtype[Any], tuple[int, ...], int]]()
        for name, dtype, shape in listed:
            found.append((name, dtype, (self.rows, *shape), at))
            at += -(-dtype.itemsize * math.prod(shape) * self.rows // _ALIGN) * _ALIGN
        return found

    @functools.cached_property
    def arena_at(self) -> int:
        """Where in a slot the arena begins."""
        _, dtype, shape, at = self._places[-1]
        return at + -(-dtype.itemsize * math.prod(shape) // _ALIGN) * _ALIGN

    @functools.cached_property
    def size(self) -> int:
        """Bytes of a slot: whole pages."""
        return max(-(-(self.arena_at + self.arena) // _PAGE) * _PAGE, _PAGE)

    def views(self, memory: Any, slot: int) -> SlotViews:
        """Arrays over slot `slot` of `memory`, a writable buffer."""
        start = slot * self.size
        records, valid, *fields = [
            (name, np.ndarray(shape, dtype, memory, start + at)) for name, dtype, shape, at in self._places
        ]
        return SlotViews(records[1], valid[1], dict(fields))


def _other_objects(label: str, leaf: np.ndarray[Any, Any], field: Field) -> bool:
    """Whether a sample has another number of objects than the first one behind an operation `boxes`."""
    if "boxes" not in label.split("+") or leaf.dtype != field.dtype:
        return False
    return bool(leaf.shape != field.shape and leaf.shape[1:] == field.shape[1:])


class Rows:
    """Samples into rows: copied at once where they are like the first one, taken apart where that is not plain to see. Threads: one."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self._names = tuple(field.name for field in fields)
        self._arrays = tuple(field.name for field in fields if field.dtype is not None)
        # Objects travel by pickle, and are taken apart one by one.
        self._plain = bool(fields) and all(field.dtype is not None for field in fields)
        self._only = self._names == (VALUE,)
        self._numbered = self._names == tuple(map(str, range(len(fields))))
        self._likes: list[tuple[Any, tuple[int, ...], frozenset[type]]] = [
            (field.dtype, field.shape, _numbers(field)) for field in fields
        ]

    def columns(self, views: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The arrays of a slot for `put`."""
        return [views[name] for name in self._arrays]

    def put(self, sample: Any, columns: Sequence[np.ndarray[Any, Any]], row: int) -> bool:
        """Write a sample into its row. False, and the row is not whole, when `leaves` and `check` have to say what it is."""
        if not self._plain:
            return False
        kind = type(sample)
        values: Any
        if kind is dict:
            if len(sample) != len(columns):
                return False
            try:
                values = [sample[name] for name in self._names]
            except KeyError:
                return False
        elif kind is tuple and self._numbered and len(sample) == len(columns):
            values = sample
        elif self._only:
            values = (sample,)
        else:
            return False
        for value, like, column in zip(values, self._likes, columns, strict=True):
            dtype, shape, numbers = like
            kind = type(value)
            if kind in numbers:
                try:
                    column[row] = value
                except OverflowError:
                    return False
                continue
            if kind is not np.ndarray and not isinstance(value, np.ndarray):
                if kind is not _tensor_type():
                    return False
                value = as_leaf(value)
            if value.shape != shape or value.dtype != dtype:
                return False
            column[row] = value
        return True

    def put_leaves(self, leaves: dict[str, Any], columns: Sequence[np.ndarray[Any, Any]], row: int) -> None:
        """Write the arrays among leaves that were checked."""
        for name, column in zip(self._arrays, columns, strict=True):
            column[row] = leaves[name]

    def check(self, leaves: dict[str, Any], label: str) -> dict[str, Any]:
        """The same leaves. Errors: InvalidArgument, when they are not those of the first sample; `label` is who made them."""
        for field in self.fields:
            leaf = leaves.get(field.name, leaves)
            if leaf is leaves:
                raise InvalidArgument(
                    f"{label}: the sample has no {field.name!r}, and the first one has {self._names}; return the same names for "
                    "every record"
                )
            if field.dtype is None:
                continue
            if type(leaf) is not np.ndarray and not isinstance(leaf, np.ndarray):
                raise InvalidArgument(
                    f"{label}: {field.name}: got an object of type {type(leaf).__name__}, and the first sample has "
                    f"{field.dtype} {field.shape}; return arrays of one dtype and shape"
                )
            if _other_objects(label, leaf, field):
                raise InvalidArgument(
                    f"{label}: {field.name}: got {leaf.dtype} {leaf.shape}, and the first sample has {field.dtype} {field.shape}; say how "
                    "many objects a sample has at most and which fields have a row for each, as behind a function nothing else does: "
                    '.boxes(max_objects=100, rows=("labels",))'
                )
            if leaf.dtype != field.dtype or leaf.shape != field.shape:
                check_like(f"{label}: {field.name}", leaf, field.dtype, field.shape, "the first sample has")
        if len(leaves) > len(self.fields):
            more = next(name for name in leaves if name not in self._names)
            raise InvalidArgument(
                f"{label}: the sample has {more!r}, which the first one has not; return the same names for every record"
            )
        return leaves

    def fits(self, columns: dict[str, Any], count: int) -> bool:
        """Whether columns of `count` samples are like the first one; an array of objects may be joined or a list."""
        if columns.keys() != set(self._names):
            return False
        for field in self.fields:
            column = columns[field.name]
            if field.dtype is not None and (
                not isinstance(column, np.ndarray) or column.dtype != field.dtype or column.shape[1:] != field.shape
            ):
                return False
            if len(column) != count:
                return False
        return True

    def stacked(self, samples: Sequence[Any], rows: int) -> dict[str, Any]:
        """The default collate: an array for each field, or a list of objects. Rows without a sample are zeros."""
        batch: dict[str, Any] = {}
        for field in self.fields:
            if field.dtype is None:
                listed = [None if leaves is None else leaves[field.name] for leaves in samples]
                batch[field.name] = listed + [None] * (rows - len(samples))
                continue
            column = np.zeros((rows, *field.shape), field.dtype)
            for row, leaves in enumerate(samples):
                if leaves is not None:
                    column[row] = leaves[field.name]
            batch[field.name] = column
        return batch


def _numbers(field: Field) -> frozenset[type]:
    """Types of numbers that a field takes as they are: those of which `as_leaf` makes its dtype."""
    if field.dtype is None or field.shape:
        return frozenset()
    own = [kind for kind, name in _NUMBERS.items() if np.dtype(name) == field.dtype]
    return frozenset([*own, field.dtype.type])


def _tensor_type() -> Any:
    """torch's, where a user's code has imported it."""
    torch = sys.modules.get("torch")
    return None if torch is None else getattr(torch, "Tensor", None)
