"""What the positions of an epoch are where they are not records: samples that a record becomes, rows that several fill, and
records ordered by length.

All of them follow from the sizes of the records alone, which are known before the first batch, so that what is at a position
is a pure function of seed, epoch and position. Sizes and indices are those of the records that filters have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from .. import _core

Array = np.ndarray[Any, Any]
# The records at positions `first` to `first + count - 1` of an epoch, as indices of what filters have left.
Ordered = Callable[[int, int, int], Array]
# Prefix sums of an order are kept for each so many positions, not for each one.
_BLOCK = 4096


class Unit(NamedTuple):
    """What is at a position. `part`: for `flat_map` which sample of how many; for `pack` the row, and its spans."""

    place: int
    part: Any = None


class Span(NamedTuple):
    """Elements `begin` to `end - 1` of a record that has `size`."""

    place: int
    begin: int
    end: int
    size: int


def made_of(records: Sequence[int], keys: Sequence[tuple[int, int, Any]]) -> Iterator[int]:
    """The records that are read for the samples of these, by what keys their random numbers and their parts.

    >>> [*made_of([7, 7], [(0, 0, (1, 3)), (0, 0, (0, (Span(7, 0, 5, 9), Span(2, 0, 3, 3))))])]
    [7, 7, 2]
    """
    for record, (_, _, part) in zip(records, keys, strict=True):
        spans = None if part is None else part[1]
        yield from (span.place for span in spans) if isinstance(spans, tuple) else (record,)


class Units(Protocol):
    count: int  # positions of an epoch, the same in each

    def at(self, epoch: int, first: int, count: int) -> list[Unit]:
        """What is at positions `first` and following."""


class Buckets:
    """Records in the order of an epoch, whose windows of `window` are sorted by size and cut into groups of `group`; the groups
    of a window then stand in an order of their own, so that sizes do not rise within it.

    >>> near = Buckets(np.array([5, 1, 4, 2, 6, 3]), 4, 2, seed=1, ordered=lambda epoch, first, count: np.arange(first, first + count), shuffle=False)
    >>> [unit.place for unit in near.at(0, 0, 6)]
    [1, 3, 2, 0, 5, 4]
    """

    def __init__(self, sizes: Array, window: int, group: int, seed: int, ordered: Ordered, shuffle: bool) -> None:
        self._sizes, self._window, self._group = sizes, window, group
        self._key, self._ordered, self._shuffle = seed, ordered, shuffle
        self.count = len(sizes)
        self._known: tuple[tuple[int, int], Array] = ((-1, -1), np.zeros(0, np.int64))

    def at(self, epoch: int, first: int, count: int) -> list[Unit]:
        return list(map(Unit, self.places(epoch, first, count).tolist()))

    def places(self, epoch: int, first: int, count: int) -> Array:
        """The records at positions `first` and following, as indices of what filters have left."""
        if self._window == 1:
            return self._ordered(epoch, first, count)
        found = []
        while count > 0:
            number, begin = divmod(first, self._window)
            part = self._of_window(epoch, number)[begin : begin + count]
            found.append(part)
            first, count = first + len(part), count - len(part)
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _of_window(self, epoch: int, number: int) -> Array:
        if self._known[0] != (epoch, number):
            first = number * self._window
            indices = self._ordered(epoch, first, min(self._window, self.count - first))
            indices = indices[np.argsort(self._sizes[indices], kind="stable")]
            whole = len(indices) // self._group
            if self._shuffle and whole > 1:
                key = _core.op_key(self._key, "carya.bucket", number)
                groups = _core.Permutation(key, epoch, whole).records(0, whole)
                mixed = indices[: whole * self._group].reshape(whole, self._group)[groups].reshape(-1)
                indices = np.concatenate([mixed, indices[whole * self._group :]])  # what is left over ends the epoch
            self._known = ((epoch, number), indices)
        return self._known[1]


class Joined:
    """The records of an epoch, one behind the other, as one sequence of elements. Threads: one.

    Cost: the order of an epoch is walked once when it is first asked; then some microseconds per call.
    """

    def __init__(self, sizes: Array, ordered: Ordered) -> None:
        self._sizes, self._ordered = sizes, ordered
        self.elements = int(sizes.sum())
        self._begins: tuple[int, Array] = (-1, np.zeros(0, np.int64))
        self._block: tuple[tuple[int, int], Array, Array] = ((-1, -1), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def spans(self, epoch: int, begin: int, end: int) -> list[Span]:
        """The records that have elements `begin` to `end - 1` of the epoch."""
        found: list[Span] = []
        end = min(end, self.elements)
        begins = self._of_epoch(epoch)
        while begin < end:
            block = int(np.searchsorted(begins, begin, "right")) - 1
            indices, ends = self._of_block(epoch, block, int(begins[block]))
            place = int(np.searchsorted(ends, begin, "right"))
            while begin < end and place < len(ends):
                stop = int(ends[place])
                size = int(self._sizes[indices[place]])
                if size:
                    start = stop - size
                    found.append(Span(int(indices[place]), begin - start, min(end, stop) - start, size))
                    begin = min(end, stop)
                place += 1
        return found

    def _of_epoch(self, epoch: int) -> Array:
        """Where each block begins."""
        if self._begins[0] != epoch:
            count = len(self._sizes)
            sums = [
                int(self._sizes[self._ordered(epoch, first, min(_BLOCK, count - first))].sum())
                for first in range(0, count, _BLOCK)
            ]
            self._begins = (epoch, np.cumsum(np.array([0, *sums[:-1]], np.int64)))
        return self._begins[1]

    def _of_block(self, epoch: int, block: int, begin: int) -> tuple[Array, Array]:
        """Its records, and where each ends."""
        if self._block[0] != (epoch, block):
            first = block * _BLOCK
            indices = self._ordered(epoch, first, min(_BLOCK, len(self._sizes) - first))
            self._block = ((epoch, block), indices, begin + np.cumsum(self._sizes[indices]))
        return self._block[1], self._block[2]


class Many:
    """Each record as `sizes` samples, side by side."""

    def __init__(self, sizes: Array, ordered: Ordered) -> None:
        self._joined, self._sizes = Joined(sizes, ordered), sizes
        self.count = self._joined.elements

    def at(self, epoch: int, first: int, count: int) -> list[Unit]:
        return [
            Unit(place, (number, size))
            for place, begin, end, size in self._joined.spans(epoch, first, first + count)
            for number in range(begin, end)
        ]


class BestFit:
    """Rows of `length` elements at most, filled with whole samples (`_orders/bins.py`). Which samples share a row is the same in
    each epoch, so that their number is; with `shuffle` the rows have an order of their own in each. Threads: one."""

    def __init__(self, sizes: Array, length: int, window: int, seed: int, shuffle: bool) -> None:
        from .._orders.bins import best_fit

        self._sizes, self._key, self._shuffle = sizes, _core.op_key(seed, "carya.best_fit", 0), shuffle
        order = _core.Permutation(self._key, 0, len(sizes)).records(0, len(sizes)) if shuffle else np.arange(len(sizes))
        self._pieces, self._begins = best_fit(sizes, order, length, window)
        self.count = len(self._begins) - 1
        self._order: tuple[int, Any] = (-1, None)

    def at(self, epoch: int, first: int, count: int) -> list[Unit]:
        rows = np.arange(first, first + count)
        if self._shuffle:
            if self._order[0] != epoch:
                self._order = (epoch, _core.Permutation(self._key, 1 + epoch, self.count))
            rows = self._order[1].records(first, count)
        found: list[Unit] = []
        for position, row in enumerate(rows.tolist(), first):
            pieces = self._pieces[:, self._begins[row] : self._begins[row + 1]].T.tolist()
            spans = tuple(Span(place, begin, begin + size, int(self._sizes[place])) for place, begin, size in pieces)
            found.append(Unit(spans[0].place, (position, spans)))
        return found


class Packed:
    """Rows of `length` elements, of the records of an epoch one behind the other; the last row may be shorter."""

    def __init__(self, sizes: Array, length: int, ordered: Ordered) -> None:
        self._joined, self._length = Joined(sizes, ordered), length
        self.count = -(-self._joined.elements // length)

    def at(self, epoch: int, first: int, count: int) -> list[Unit]:
        found: list[Unit] = []
        for row in range(first, first + count):
            spans = self._joined.spans(epoch, row * self._length, (row + 1) * self._length)
            found.append(Unit(spans[0].place, (row, tuple(spans))))
        return found
