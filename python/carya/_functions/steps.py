"""Orders that are listed, epoch by epoch: the record at each position, and where steps end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import Permutation, StreamShape
from .._orders.budget import Budget
from .._stages.regroup import units_of
from .._stages.spec import StreamSpec
from .._stages.units import Buckets

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


class BudgetSteps:
    """Steps of one epoch, in each of which each rank has the next batch of a budget: the methods of `_core.StreamShape`.

    `lengths`: of the records in the order of the epoch. Batches do not depend on the number of ranks. A position at which none ends,
    as of a state with another budget, begins one.

    >>> steps = BudgetSteps(np.array([3, 2, 2, 5, 1, 1, 1]), Budget(8, 4, True), world_size=2, rank=1)
    >>> steps.steps_from(0), steps.part(0), steps.step_positions(0), steps.part(3), steps.part(1)
    (2, (2, 1, 1, False), 3, (4, 3, 3, False), (3, 1, 1, False))
    """

    def __init__(
        self,
        lengths: Array,
        budget: Budget,
        *,
        world_size: int = 1,
        rank: int = 0,
        drop_last: bool = False,
        pad_last: bool = False,
    ) -> None:
        self._lengths, self._budget = lengths, budget
        self._world, self._rank, self._drop, self._pad = world_size, rank, drop_last, pad_last
        self.records = len(lengths)
        self.rank_rows_max = budget.rows_max if pad_last else budget.rows_of(lengths)
        self.global_size = budget.rows_max * world_size
        self._ends = budget.ends(lengths)
        self._cut = self._ends  # as from the last position that began a batch and is in none of `_ends`

    @property
    def rank_rows_mean(self) -> float:
        return self.records / max(1, len(self._ends))

    def _at(self, position: int) -> tuple[Array, int]:
        """Where batches end, and the number of the one that begins at `position`."""
        for ends in (self._ends, self._cut):
            number = int(np.searchsorted(ends, position, "right"))
            if position >= self.records or position == (ends[number - 1] if number else 0):
                return ends, number
        number = int(np.searchsorted(self._ends, position, "right"))
        behind = self._budget.ends(self._lengths, position)
        self._cut = np.concatenate([self._ends[:number], np.array([position]), behind])
        return self._cut, number + 1

    def step(self, position: int) -> int:
        """Which step begins there, of steps of so many ranks from the start of the epoch."""
        return self._at(position)[1] // self._world

    def steps_from(self, position: int) -> int:
        ends, number = self._at(position)
        left = len(ends) - number if position < self.records else 0
        return left // self._world if self._drop else -(-left // self._world)

    def step_positions(self, position: int) -> int:
        ends, number = self._at(position)
        if position >= self.records:
            return 0
        return int(ends[min(number + self._world, len(ends)) - 1]) - position

    def part(self, position: int) -> tuple[int, int, int, bool]:
        ends, number = self._at(position)
        mine = number + self._rank
        if mine >= len(ends):  # fewer batches than ranks are left
            return position, 1, self.rank_rows_max if self._pad else 1, True
        first = int(ends[mine - 1]) if mine else 0
        count = int(ends[mine]) - first
        return first, count, self.rank_rows_max if self._pad else count, False


def budget_steps(spec: StreamSpec, sizes: Array, epoch: int, shape: dict[str, Any]) -> BudgetSteps:
    """The steps of an epoch. `sizes`: of the records that filters have left; `shape`: arguments of StreamShape."""
    budget, regroup, count = spec.budget, spec.regroup, len(sizes)
    assert budget is not None
    assert regroup is not None
    order = Permutation(spec.seed, epoch, count) if spec.shuffle else None

    def ordered(_: int, first: int, number: int) -> Array:
        return np.arange(first, first + number) if order is None else order.records(first, number)

    units = units_of(regroup.fn, sizes, spec.seed, spec.shuffle, ordered)
    assert isinstance(units, Buckets)
    told = {name: shape[name] for name in ("world_size", "rank", "drop_last", "pad_last")}
    return BudgetSteps(sizes[units.places(epoch, 0, count)], budget, **told)


Steps = StreamShape | ListedSteps | BudgetSteps
