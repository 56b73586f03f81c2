"""Many samples at once: columns of them, and arrays or texts of several lengths as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from . import _core

Array = np.ndarray[Any, Any]


class ByColumns:
    """What Carya's own datasets and functions of samples are that make many at once, drawing no random numbers."""

    def columns(self, given: Any) -> dict[str, Any] | None:
        """Samples as named columns: lists, arrays, or `Joined`. `given`: the columns before, or a dataset's indices.

        None: a dataset has them one by one only, since they are large. Errors: any; then one by one tells what is wrong.
        """
        raise NotImplementedError


class Expecting:
    """What Carya's own datasets are that may read from stores: told which samples come next, they ask for many at a time.

    `expects`: whether this one does; one of files alone need not be told, which costs time for each sample.
    """

    expects: bool

    def expect(self, indices: Sequence[int]) -> None:
        """These are asked for next, in about this order. Reads nothing and raises nothing."""
        raise NotImplementedError


class Joined(Sequence[Array]):
    """Arrays, one for each sample, that lie one behind the other in `values`; sample i ends at `ends[i]`.

    >>> joined = Joined.of([np.array([1, 2]), np.array([3])], np.int64)
    >>> joined[1], joined.lengths
    (array([3]), array([2, 1]))
    """

    def __init__(self, values: Array, ends: Array) -> None:
        self.values, self.ends = values, ends

    @classmethod
    def of(cls, arrays: Sequence[Array], dtype: Any) -> Joined:
        """A copy of one-dimensional arrays of `dtype`."""
        ends = np.cumsum([len(array) for array in arrays], dtype=np.int64)
        return cls(np.concatenate([np.zeros(0, dtype), *arrays]), ends)

    @property
    def lengths(self) -> Array:
        """int64 [n]."""
        return np.diff(self.ends, prepend=0)

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Joined: ...
    def __getitem__(self, index: int | slice) -> Array | Joined:
        """Views. Of slices those without a step."""
        if isinstance(index, slice):
            inside, ends = _span(self.ends, index)
            return Joined(self.values[inside], ends)
        return self.values[_place(self.ends, index)]

    def __iter__(self) -> Iterator[Array]:
        begin = 0
        for end in self.ends.tolist():
            yield self.values[begin:end]
            begin = end

    def padded(self, to: int | None, multiple_of: int, value: Array) -> tuple[Array, Array]:
        """[n, to]: the first elements of each, `value` behind them; and how many, int64 [n].

        `to` None: as many as the longest has, at least one, rounded up to a multiple.
        """
        return _core.pad_rows(self.values, self.ends, to or 0, multiple_of, value)


class JoinedTexts(Sequence[str]):
    """Texts, one for each sample, whose UTF-8 lies one behind the other in `data`; that of text i ends at `ends[i]`.

    >>> texts = JoinedTexts("aüb".encode(), np.array([3, 4]))
    >>> texts[0], len(texts), [*texts]
    ('aü', 2, ['aü', 'b'])
    """

    def __init__(self, data: bytes, ends: Array) -> None:
        self.data, self.ends = data, ends

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> JoinedTexts: ...
    def __getitem__(self, index: int | slice) -> str | JoinedTexts:
        """Of slices those without a step."""
        if isinstance(index, slice):
            inside, ends = _span(self.ends, index)
            return JoinedTexts(self.data[inside], ends)
        return self.data[_place(self.ends, index)].decode()


def _place(ends: Array, index: int) -> slice:
    """Where the element of what ends at `ends` lies."""
    at = range(len(ends))[index]
    return slice(int(ends[at - 1]) if at else 0, int(ends[at]))


def _span(ends: Array, index: slice) -> tuple[slice, Array]:
    """Where a slice of what ends at `ends` lies, and where what is in it ends, from there on."""
    first, until, step = index.indices(len(ends))
    if step != 1:
        raise ValueError(f"a slice with the step {step}; take those without one")
    begin = int(ends[first - 1]) if first else 0
    inside = ends[first:until] - begin
    return slice(begin, begin + (int(inside[-1]) if len(inside) else 0)), inside


def as_lists(batch: Any) -> Any:
    """A batch with lists of arrays and texts in place of joined ones."""
    if isinstance(batch, dict) and any(isinstance(column, Joined | JoinedTexts) for column in batch.values()):
        return {
            name: [*column] if isinstance(column, Joined | JoinedTexts) else column for name, column in batch.items()
        }
    return batch
