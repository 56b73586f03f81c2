"""Orders that are listed, epoch by epoch: the record at each position, and where steps end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import StreamShape

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Order:
    """Of one epoch. `places`: int64 (2, n), the record of each position and how often it stands before.

    `ends`: int64 (steps,), the first position behind each step, rising; None where all steps are of one size.
    """

    places: Array
    ends: Array | None = None


class ListedSteps:
    """Steps of any lengths, of one reader: the methods of `_core.StreamShape`.

    >>> steps = ListedSteps(np.array([2, 3, 7]))
    >>> steps.steps_from(0), steps.part(3), steps.step_positions(2), steps.rank_rows_max, steps.step(3)
    (3, (3, 4, 4, False), 1, 4, 2)
    """

    def __init__(self, ends: Array) -> None:
        self._ends = ends
        self.records = int(ends[-1]) if len(ends) else 0
        self.rank_rows_max = int(np.diff(ends, prepend=0).max()) if len(ends) else 0
        self.global_size = max(1, self.rank_rows_max)

    def step(self, position: int) -> int:
        """Which step begins there."""
        return int(np.searchsorted(self._ends, position, "right"))

    def steps_from(self, position: int) -> int:
        return len(self._ends) - self.step(position)

    def step_positions(self, position: int) -> int:
        step = self.step(position)
        return int(self._ends[step]) - position if step < len(self._ends) else 0

    def part(self, position: int) -> tuple[int, int, int, bool]:
        rows = self.step_positions(position)
        return position, rows, rows, False


Steps = StreamShape | ListedSteps
