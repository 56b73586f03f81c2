"""`pad_sequences`: arrays of several lengths as one array, with their lengths beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid
from .._joined import ByColumns, Joined
from .tree import as_leaf, flatten

_LENGTHS_MAX = 1 << 40


class Pad(ByColumns):
    """The same for samples (`to` is given: one length for all) and for batches (the longest of the batch, rounded up)."""

    def __init__(self, fields: Sequence[str], to: int | None, multiple_of: int, value: float, truncate: bool) -> None:
        self.fields, self.to, self.multiple_of, self.value, self.truncate = (
            tuple(fields),
            to,
            multiple_of,
            value,
            truncate,
        )

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
                filling = self._filling(column.values)
                made[name], made[f"{name}_length"] = column.padded(None, self.multiple_of, filling)
                continue
            arrays = [None if one is None else self._array(name, one) for one in column]
            like = next((one for one in arrays if one is not None), np.zeros(0))
            lengths = np.array([0 if one is None else len(one) for one in arrays], np.int64)
            made[name] = self._column(len(arrays), self._rounded(lengths), like)
            for row, one in enumerate(arrays):
                if one is None:
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
        try:
            return np.array(self.value).astype(like.dtype, casting="unsafe")
        except (TypeError, ValueError):
            raise InvalidArgument(
                f"pad_sequences: value: got {self.value!r} for {like.dtype}; give a number of that kind"
            ) from None

    def _array(self, name: str, value: Any) -> np.ndarray[Any, Any]:
        if value is None:
            raise InvalidArgument(f"pad_sequences: fields: the sample has no {name!r}; give names that it has")
        array = as_leaf(value)
        if isinstance(array, list) and not array:
            array = np.zeros(0)
        if not isinstance(array, np.ndarray) or array.ndim < 1:
            shown = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise InvalidArgument(f"pad_sequences: {name}: got {shown}; give arrays of one or more dimensions")
        return array


def checked_pad(fields: Any, to: Any, multiple_of: Any, value: Any, truncate: Any) -> Pad:
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
    return Pad(names, None if to is None else int(to), int(multiple_of), plain, truncate)


def _is_count(value: Any) -> bool:
    integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(integral and 1 <= value <= _LENGTHS_MAX)
