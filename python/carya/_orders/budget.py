"""Batches that hold a budget of tokens: where each ends, by the lengths of the records in their order alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid

Array = np.ndarray[Any, Any]


class Budget:
    """`tokens` of a batch at most, in `rows_max` rows at most. `padded`: each row counts as much as the longest of its batch, rounded
    up to `multiple_of`; else as much as it has."""

    def __init__(self, tokens: int, rows_max: int, padded: bool, multiple_of: int = 1) -> None:
        self.tokens, self.rows_max, self.padded, self.multiple_of = tokens, rows_max, padded, multiple_of

    @property
    def __name__(self) -> str:
        return f"{self.tokens} tokens"

    def costs(self, lengths: Array) -> Array:
        """What each record counts, 1 at least."""
        step = self.multiple_of if self.padded else 1
        costs: Array = np.maximum(-(-lengths // step) * step, 1)
        return costs

    def check(self, lengths: Array, records: Array | None) -> None:
        """Errors: InvalidArgument, for a record that is larger than a batch. `records`: their numbers, None for all."""
        costs = self.costs(lengths)
        over = np.flatnonzero(costs > self.tokens)
        if len(over):
            place, longest = int(over[0]), int(costs.max())
            raise InvalidArgument(
                f"batch: tokens: got {self.tokens}, and record {place if records is None else int(records[place])} has "
                f"{int(costs[place])} ({len(over)} records have more than {self.tokens}); give at least {longest}, or leave long "
                "records out by .filter(...)"
            )

    def ends(self, lengths: Array, begin: int = 0) -> Array:
        """The first position behind each batch, of those that begin at `begin` and behind it.

        Each takes as many of the next records as the budget allows, so that batches from one of its ends on are the same whatever
        came before. Cost: some 5 us per batch.

        >>> Budget(8, 4, padded=True).ends(np.array([3, 2, 2, 5, 1, 1, 1, 1, 1])).tolist()
        [2, 3, 4, 8, 9]
        >>> Budget(8, 4, padded=False).ends(np.array([3, 2, 2, 5, 1, 1, 1, 1, 1])).tolist()
        [3, 7, 9]
        """
        costs, found, count = self.costs(lengths), [], len(lengths)
        rows = np.arange(1, self.rows_max + 1)
        while begin < count:
            # No more rows than that, since all of them count 1 at least, and in a padded batch as much as the first one.
            most = min(self.rows_max, self.tokens // int(costs[begin]) if self.padded else self.tokens)
            next_ones = costs[begin : begin + most]
            if self.padded:
                totals = np.maximum.accumulate(next_ones) * rows[: len(next_ones)]
            else:
                totals = np.cumsum(next_ones)
            begin += max(1, int(np.searchsorted(totals, self.tokens, "right")))
            found.append(begin)
        return np.array(found, np.int64)

    def rows_of(self, lengths: Array) -> int:
        """No batch of these records, in any order, has more rows."""
        costs = np.sort(self.costs(lengths))[: self.rows_max]
        totals = costs * np.arange(1, len(costs) + 1) if self.padded else np.cumsum(costs)
        return max(1, int(np.searchsorted(totals, self.tokens, "right")))


def checked_budget(tokens: Any, max_rows: Any, padded: Any, multiple_of: int) -> Budget:
    """What a user gave to `batch`. Errors: InvalidArgument that names the parameter."""
    for name, value in (("tokens", tokens), ("max_rows", max_rows)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 1 <= value <= 1 << 40:
            raise invalid(f"batch: {name}", value, "an integer of 1 or more")
    if max_rows > 1 << 20:
        raise invalid("batch: max_rows", max_rows, f"at most {1 << 20}")
    if not isinstance(padded, bool | np.bool_):
        raise invalid("batch: padded", padded, "True or False")
    return Budget(int(tokens), int(max_rows), bool(padded), multiple_of)
