"""Several pipelines as one: how many samples of each an epoch has, and the order that says which one has each position.

The order is native (loader/data/mix_order.h, which has the rule): nested integer floors of the position of the whole stream,
and within blocks of positions a keyed permutation of the epoch.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, invalid

Array = np.ndarray[Any, Any]

_POSITIONS_MAX = 1 << 47
STOPS = ("first", "all")
# Of weights that change: from which position of the whole stream on, and which. The first is from 0 on.
Table = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Mix:
    """Which source has which position. `table`: weights as integers; `counts`: records of each source; `length`: positions of an
    epoch.

    >>> mix = mixed([3, 9], ((0, (1, 3)),), stop="first", seed=None)
    >>> mix.length, mix.places(0, 0, mix.length)[0].tolist()
    (12, [1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0])
    """

    counts: tuple[int, ...]
    table: Table
    length: int
    seed: int | None  # of the order within blocks; None: as the floors have it
    spans: tuple[int, ...] = ()  # how many numbers the records of each source take
    in_turn: bool = False  # each source gives its samples in their order, also within blocks

    def order(self, shuffle_seeds: Sequence[int | None] = ()) -> _core.MixOrder:
        """Which source has which position. `shuffle_seeds`: of each source's own order, None where it has none."""
        seeds = shuffle_seeds or [None] * len(self.counts)
        return _core.MixOrder(
            sources=list(zip(self.counts, seeds, strict=True)),
            table=self.table,
            length=self.length,
            seed=self.seed,
            in_turn=self.in_turn,
        )

    def places(self, epoch: int, first: int, count: int) -> tuple[Array, Array]:
        """Of each of these positions of an epoch its source, and how many samples that one has given before it."""
        return self.order().places(epoch, first, count)

    def starts(self) -> list[int]:
        """The first record of each source in the numbering of them all."""
        return [0, *itertools.accumulate(self.spans or self.counts)][:-1]


def mixed(
    counts: Sequence[int],
    table: Table,
    stop: str,
    seed: int | None,
    spans: Sequence[int] = (),
    in_turn: bool = False,
) -> Mix:
    """Errors: InvalidArgument that names the parameter."""
    if stop not in STOPS:
        raise invalid(
            "mix: stop", stop, '"first" or "all"; epochs follow each other without a gap for whoever never stops'
        )
    plain = Mix(tuple(counts), table, _POSITIONS_MAX, None)
    order = plain.order()
    if stop == "first":  # as far as no source gives a record twice
        ends = [_positions_for(order, source, count + 1) for source, count in enumerate(counts)]
        length = min(end for end in ends if end is not None) - 1
    else:
        ends = [_positions_for(order, source, count) for source, count in enumerate(counts)]
        if None in ends:
            raise InvalidArgument(
                f'mix: stop: got "all", and pipeline {ends.index(None)} never ends, since its last weight is 0; give it one of more than '
                '0, or stop="first"'
            )
        length = max(end for end in ends if end is not None)
    return replace(plain, length=length, seed=seed, spans=tuple(spans or counts), in_turn=in_turn)


def _positions_for(order: _core.MixOrder, source: int, count: int) -> int | None:
    """The fewest positions before which the source has given `count` samples; None where it never has."""

    def given(position: int) -> int:
        return order.given(position)[source]

    low, high = count, _POSITIONS_MAX
    if given(high) < count:
        return None
    while low < high:
        middle = (low + high) // 2
        if given(middle) >= count:
            high = middle
        else:
            low = middle + 1
    return low
