"""Samples into rows of one length, so that little of a row is empty and no sample is cut that fits into one."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def best_fit(sizes: Array, order: Array, length: int, window: int) -> tuple[Array, Array]:
    """Pieces of samples as (sample, where in it the piece begins, how long it is), int64 (3, n), those of a row side by side;
    where the pieces of each row begin, and their end.

    Of each `window` samples of `order` the longest come first, and each goes to the row in which the least is left behind it. What is
    longer than a row fills rows of its own, and its rest is placed as a sample. Empty samples are in no row.

    >>> pieces, begins = best_fit(np.array([3, 2, 5, 1]), np.arange(4), 6, 4)
    >>> pieces.tolist(), begins.tolist()
    ([[2, 3, 0, 1], [0, 0, 0, 0], [5, 1, 3, 2]], [0, 2, 4])

    Cost: some microseconds per sample.
    """
    found: list[tuple[int, int, int]] = []
    begins = [0]
    for first in range(0, len(order), window):
        for row in _of_window(sizes, order[first : first + window], length):
            found += row
            begins.append(len(found))
    return np.array(found, np.int64).reshape(-1, 3).T, np.array(begins, np.int64)


def _of_window(sizes: Array, samples: Array, length: int) -> list[list[tuple[int, int, int]]]:
    rows: list[list[tuple[int, int, int]]] = []
    pieces: list[tuple[int, int, int]] = []
    for sample, size in zip(samples.tolist(), sizes[samples].tolist(), strict=True):
        whole = size // length * length
        rows += [[(sample, begin, length)] for begin in range(0, whole, length)]
        if size > whole:
            pieces.append((sample, whole, size - whole))
    pieces.sort(key=lambda piece: -piece[2])  # stable
    left: list[tuple[int, int]] = []  # what is left in a row, and which row, rising
    for piece in pieces:
        at = bisect.bisect_left(left, (piece[2], -1))
        if at == len(left):
            rows.append([piece])
            rest, row = length - piece[2], len(rows) - 1
        else:
            rest, row = left.pop(at)
            rows[row].append(piece)
            rest -= piece[2]
        if rest:
            bisect.insort(left, (rest, row))
    return rows
