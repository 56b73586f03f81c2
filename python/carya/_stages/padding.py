"""`pad_sequences`: arrays of several lengths as one array, with their lengths beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid
from .._joined import ByColumns, Joined
from .tree import as_leaf, flatten

_LENGTHS_MAX = 1 << 40


class Pad(ByColumns):
    """The same for samples (`to` is given: one length for all) and for batches (the longest of the batch, rounded up)."""

    # Beside the attributes, which say what it is, so that states of before `dtype` are its own.
    dtype: np.dtype[Any] | None = None  # of the arrays that are padded; None: that of those that come
    likes: Mapping[str, np.ndarray[Any, Any]] = MappingProxyType({})  # without elements: what those of a field are like
    guesses = False  # whether a sample had no elements and nothing told their dtype

    def __init__(
        self,
        fields: Sequence[str],
        to: int | None,
        multiple_of: int,
        value: float,
        truncate: bool,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        self.fields, self.to, self.multiple_of, self.value, self.truncate = (
            tuple(fields),
            to,
            multiple_of,
            value,
            truncate,
        )
        if dtype is not None:
            self.dtype = dtype

    @property
    def __name__(self) -> str:
        return ", ".join(self.fields)

    def sample(self, value: Any) -> dict[str, Any]:
        """A sample whose fields have length `to`. Errors: InvalidArgument."""
        assert self.to is not None
        named = flatten(value)
        for name in self.fields:
            array = self._array(name, named.get(name))
            if len(array) > self.to and not self.truncate:
                raise InvalidArgument(
                    f"pad_sequences: {name}: got {len(array)} elements, to={self.to}; give to= at least {len(array)}, or truncate=True"
                )
            column = self._column(1, self.to, array)
            count = column[0, : len(array)].shape[0]
            column[0, :count] = array[:count]
            named[name], named[f"{name}_length"] = column[0], count
        return named

    def columns(self, given: Any) -> dict[str, Any]:
        """`sample` for many."""
        assert self.to is not None
        made = dict(given)
        for name in self.fields:
            column = given[name]
            if not self.truncate and int(column.lengths.max(initial=0)) > self.to:
                raise ValueError(name)
            column = self._of_dtype(name, column)
            made[name], made[f"{name}_length"] = column.padded(self.to, 1, self._filling(column.values))
        return made

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch of lists as arrays; None in a list is a row without a sample. Errors: InvalidArgument."""
        made: dict[str, Any] = {}
        for name, column in batch.items():
            if name not in self.fields:
                made[name] = column
                continue
            if isinstance(column, Joined):
                column = self._of_dtype(name, column)
                filling = self._filling(column.values)
                made[name], made[f"{name}_length"] = column.padded(None, self.multiple_of, filling)
                continue
            arrays = [None if one is None else self._array(name, one) for one in column]
            # An empty list of Python says no dtype: it has that of the others. A batch of such, or without a sample, has that of others.
            told = (one for one, given in zip(arrays, column, strict=True) if one is not None and _says_dtype(given))
            found = next(told, None)
            like = self._empty(name) if found is None else found
            lengths = np.array([0 if one is None else len(one) for one in arrays], np.int64)
            made[name] = self._column(len(arrays), self._rounded(lengths), like)
            for row, one in enumerate(arrays):
                if one is None or not _says_dtype(column[row]):
                    continue
                if one.dtype != like.dtype or one.shape[1:] != like.shape[1:]:
                    raise InvalidArgument(
                        f"pad_sequences: {name}: got {one.dtype} {one.shape} beside {like.dtype} {like.shape}; give arrays that differ in "
                        "their first side only"
                    )
                made[name][row, : len(one)] = one
            made[f"{name}_length"] = lengths
        return made

    def _rounded(self, lengths: np.ndarray[Any, Any]) -> int:
        """The length of all rows of a batch."""
        longest = max(1, int(lengths.max(initial=0)))
        return -(-longest // self.multiple_of) * self.multiple_of

    def _column(self, rows: int, length: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.full((rows, length, *like.shape[1:]), self._filling(like), like.dtype)

    def _filling(self, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """`value` as one of `like`."""
        return filling("pad_sequences", self.value, like.dtype)

    def _empty(self, name: str) -> np.ndarray[Any, Any]:
        """An array without elements, of a field that says nothing of them."""
        known = self.likes.get(name)
        if known is not None:
            return known if self.dtype is None else known.astype(self.dtype)
        self.guesses = self.guesses or self.dtype is None
        return np.zeros(0, self.dtype)

    def _of_dtype(self, name: str, column: Joined) -> Joined:
        return column if self.dtype is None else Joined(self._cast(name, column.values), column.ends)

    def _cast(self, name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The array in the dtype that was given. Floats are rounded. Errors: InvalidArgument, where another number would be another one."""
        if self.dtype is None or array.dtype == self.dtype:
            return array
        with np.errstate(invalid="ignore", over="ignore"):
            made = array.astype(self.dtype)
            rounds = array.dtype.kind in "fc" and self.dtype.kind in (array.dtype.kind, "c")
            # Back again too: what compares large integers with floats makes floats of both.
            same = rounds or (np.array_equal(made, array) and np.array_equal(made.astype(array.dtype), array))
        if not same:
            raise InvalidArgument(
                f"pad_sequences: {name}: got {array.dtype} with numbers that {self.dtype} does not have; give another dtype="
            )
        return made

    def _array(self, name: str, value: Any) -> np.ndarray[Any, Any]:
        if value is None:
            raise InvalidArgument(f"pad_sequences: fields: the sample has no {name!r}; give names that it has")
        array = as_leaf(value)
        if isinstance(array, list) and not array:
            return self._empty(name)
        if not isinstance(array, np.ndarray) or array.ndim < 1:
            shown = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise InvalidArgument(f"pad_sequences: {name}: got {shown}; give arrays of one or more dimensions")
        return self._cast(name, array)


def filling(subject: str, value: float, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """What is put where an array has no elements. Errors: InvalidArgument, where an integer's type has no such value (-100 of uint16)."""
    try:
        with np.errstate(invalid="ignore"):  # of NaN as an integer, which is looked at below
            made = np.array(value).astype(dtype, casting="unsafe")
    except (TypeError, ValueError, OverflowError):
        made = None
    if made is None or (dtype.kind in "biu" and made != value):
        raise InvalidArgument(
            f"{subject}: value: got {value!r} for {dtype}; give a number of that kind, or make the arrays another one before (.map)"
        )
    return made


def checked_pad(fields: Any, to: Any, multiple_of: Any, value: Any, truncate: Any, dtype: Any = None) -> Pad:
    """What a user gave to `pad_sequences`. Errors: InvalidArgument that names the parameter."""
    names = (fields,) if isinstance(fields, str) else tuple(fields) if isinstance(fields, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise invalid("pad_sequences: fields", fields, "a name or several different ones")
    if to is not None and not _is_count(to):
        raise invalid("pad_sequences: to", to, "a length of 1 or more, or None for the longest of each batch")
    if not _is_count(multiple_of):
        raise invalid("pad_sequences: multiple_of", multiple_of, "an integer of 1 or more")
    if to is not None and to % multiple_of:
        raise invalid("pad_sequences: to", to, f"a multiple of multiple_of={multiple_of}, or one of the two")
    if isinstance(value, str | bytes) or not isinstance(value, int | float | np.generic):
        raise invalid("pad_sequences: value", value, "a number")
    if not isinstance(truncate, bool):
        raise invalid("pad_sequences: truncate", truncate, "True or False")
    if truncate and to is None:
        raise invalid("pad_sequences: truncate", truncate, "to= too, the length at which to cut")
    plain: Any = value.item() if isinstance(value, np.generic) else value
    kind = None
    if dtype is not None:
        try:
            kind = np.dtype(dtype)
        except TypeError:
            kind = np.dtype(object)
        if kind.kind not in "biufc":
            raise invalid("pad_sequences: dtype", dtype, 'a dtype of numbers such as "int64", or None')
        filling("pad_sequences", plain, kind)
    return Pad(names, None if to is None else int(to), int(multiple_of), plain, truncate, kind)


def _says_dtype(value: Any) -> bool:
    return not (isinstance(value, list | tuple) and not len(value))


def _is_count(value: Any) -> bool:
    integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(integral and 1 <= value <= _LENGTHS_MAX)
