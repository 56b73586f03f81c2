"""Several pipelines as one: which source has each position, in closed form, so that any position is found without those before it.

Position p of epoch e stands at P = e * N + p of the whole stream. How many of the positions before P are a source's follows
from P and the weights alone, by nested integer floors: source 0 has floor(P * w0 / W), of the rest source 1 has its share, and
so on; each count never goes down, and exactly one goes up with each P. So every source is at its own place at every step: its
n-th sample is number n mod length of its own epoch n div length. Largest remainders look fairer and take samples back.
Source: Grain's `mix` (google/grain, `_dataset_and_key_of_next_element`).

Within blocks of positions a keyed permutation of the epoch breaks the pattern that the floors make.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, invalid

Array = np.ndarray[Any, Any]

_BLOCK = 4096
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

    def before(self, positions: Array) -> list[Array]:
        """How many samples each source has given before each of these positions of the whole stream."""
        if len(self.table) == 1:
            return _floors(positions, self.table[0][1])
        found = [np.empty(len(positions), np.int64) for _ in self.counts]
        stretches = np.searchsorted([at for at, _ in self.table], positions, "right") - 1
        for stretch in np.unique(stretches).tolist():
            here = stretches == stretch
            at, weights = self.table[stretch]
            inside = _floors(positions[here] - at, weights)
            for column, base, more in zip(found, self._bases[stretch], inside, strict=True):
                column[here] = base + more
        return found

    @functools.cached_property
    def _bases(self) -> list[list[int]]:
        """What each source has given where each stretch of the table begins."""
        bases = [[0] * len(self.counts)]
        for (at, weights), (after, _) in itertools.pairwise(self.table):
            given = _floors(np.array([after - at]), weights)
            bases.append([base + int(more[0]) for base, more in zip(bases[-1], given, strict=True)])
        return bases

    def places(self, epoch: int, first: int, count: int) -> tuple[Array, Array]:
        """Of each of these positions of an epoch its source, and how many samples that one has given before it."""
        sources, numbers = np.empty(count, np.int64), np.empty(count, np.int64)
        at = first
        while at < first + count:
            block = at // _BLOCK
            begin, end = block * _BLOCK, min((block + 1) * _BLOCK, self.length)
            until = min(end, first + count)
            inside = np.arange(at - begin, until - begin, dtype=np.int64)
            here = slice(at - first, until - first)
            if self.in_turn and self.seed is not None:
                sources[here], numbers[here] = self._of_block(epoch, block, slice(at - begin, until - begin))
                at = until
                continue
            if self.seed is not None and end - begin > 1:
                keyed = _core.Permutation(self.seed, epoch * (self.length // _BLOCK + 1) + block, end - begin)
                inside = keyed.records(at - begin, until - at)
            sources[here], numbers[here] = self._of(epoch * self.length + begin + inside)
            at = until
        return sources, numbers

    def _of(self, positions: Array) -> tuple[Array, Array]:
        count = len(positions)
        given = np.stack(self.before(np.concatenate([positions, positions + 1])))
        low = given[:, :count]
        sources = np.argmax(given[:, count:] > low, axis=0)
        return sources, low[sources, np.arange(count)]

    def _of_block(self, epoch: int, block: int, part: slice) -> tuple[Array, Array]:
        """The sources at positions of a block are permuted, and each gives its samples in their order."""
        begin, end = block * _BLOCK, min((block + 1) * _BLOCK, self.length)
        at = epoch * self.length + begin
        inside = np.arange(end - begin)
        if end - begin > 1:
            inside = _core.Permutation(
                self.seed or 0, epoch * (self.length // _BLOCK + 1) + block, end - begin
            ).records(0, end - begin)
        sources, _ = self._of(at + inside)
        numbers = np.empty(end - begin, np.int64)
        for source, before in enumerate(self.before(np.array([at]))):
            mine = sources == source
            numbers[mine] = int(before[0]) + np.arange(np.count_nonzero(mine))
        return sources[part], numbers[part]

    def starts(self) -> list[int]:
        """The first record of each source in the numbering of them all."""
        return [0, *itertools.accumulate(self.spans or self.counts)][:-1]


def _floors(positions: Array, weights: Sequence[int]) -> list[Array]:
    """How many of so many positions each source has, by nested floors."""
    total = sum(weights)
    rounds, rest = np.divmod(positions, total)  # after each round every source has given its weight
    found = []
    for weight in weights[:-1]:
        mine = rest * weight // total if total else rest  # where no weight is left, no position is
        found.append(rounds * weight + mine)
        rest, total = rest - mine, total - weight
    return [*found, rounds * weights[-1] + rest]


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
    if stop == "first":  # as far as no source gives a record twice
        ends = [_positions_for(plain, source, count + 1) for source, count in enumerate(counts)]
        length = min(end for end in ends if end is not None) - 1
    else:
        ends = [_positions_for(plain, source, count) for source, count in enumerate(counts)]
        if None in ends:
            raise InvalidArgument(
                f'mix: stop: got "all", and pipeline {ends.index(None)} never ends, since its last weight is 0; give it one of more than '
                '0, or stop="first"'
            )
        length = max(end for end in ends if end is not None)
    return replace(plain, length=length, seed=seed, spans=tuple(spans or counts), in_turn=in_turn)


def _positions_for(mix: Mix, source: int, count: int) -> int | None:
    """The fewest positions before which the source has given `count` samples; None where it never has."""

    def given(position: int) -> int:
        return int(mix.before(np.array([position], np.int64))[source][0])

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
