"""Many samples at once: columns of them, and arrays of several lengths as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

Array = np.ndarray[Any, Any]


class ByColumns:
    """What Carya's own datasets and functions of samples are that make many at once, drawing no random numbers."""

    def columns(self, given: Any) -> dict[str, Any] | None:
        """Samples as named columns: lists, arrays, or `Joined`. `given`: the columns before, or a dataset's indices.

        None: a dataset has them one by one only, since they are large. Errors: any; then one by one tells what is wrong.
        """
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
    def __getitem__(self, index: slice) -> list[Array]: ...
    def __getitem__(self, index: int | slice) -> Array | list[Array]:
        """Views."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        at = range(len(self))[index]
        return self.values[self.ends[at - 1] if at else 0 : self.ends[at]]

    def __iter__(self) -> Iterator[Array]:
        begin = 0
        for end in self.ends.tolist():
            yield self.values[begin:end]
            begin = end

    def padded(self, length: int, value: Any) -> Array:
        """[n, length]: the first `length` elements of each, and `value` behind them."""
        lengths = self.lengths
        made = np.full((len(self), length), value, self.values.dtype)
        values = self.values
        if len(lengths) and int(lengths.max()) > length:
            lengths = np.minimum(lengths, length)
            values = np.concatenate([values[:0], *(one[:length] for one in self)])
        made[np.arange(length) < lengths[:, None]] = values
        return made


def as_lists(batch: Any) -> Any:
    """A batch with lists of arrays in place of joined ones."""
    if isinstance(batch, dict) and any(isinstance(column, Joined) for column in batch.values()):
        return {name: [*column] if isinstance(column, Joined) else column for name, column in batch.items()}
    return batch
