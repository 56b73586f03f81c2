"""Which sample of which shard is at a position, in closed form, so that any position is found without those before it.

Samples are taken from the shards in turn, one of each; a shard that has no more is left out of the rounds that follow. With a
seed the shards take their turns in an order of each epoch's own, and the positions of each window are permuted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core

Array = np.ndarray[Any, Any]


class Rounds:
    """Shards of known lengths: an epoch has each of their samples once. Threads: one.

    >>> rounds = Rounds(np.array([3, 1, 2]), seed=None, window=1)
    >>> [one.tolist() for one in rounds.at(0, 0, 6)]
    [[0, 1, 2, 0, 2, 0], [0, 0, 0, 1, 1, 2]]
    """

    def __init__(self, lengths: Array, seed: int | None, window: int) -> None:
        self._lengths = np.ascontiguousarray(lengths, np.int64)
        self._seed, self._window = seed, window
        self.count = int(self._lengths.sum())
        # Rounds from `_begins[i]` on, to the next one, have `_active[i]` shards, and the first is at position `_at[i]`.
        self._begins = np.unique(np.concatenate([np.zeros(1, np.int64), self._lengths]))
        ordered = np.sort(self._lengths)
        self._active = len(ordered) - np.searchsorted(ordered, self._begins, "right")
        sizes = np.diff(self._begins) * self._active[:-1]
        self._at = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self._turns: tuple[tuple[int, int], Array] = ((-1, -1), np.zeros(0, np.int64))

    def at(self, epoch: int, first: int, count: int) -> tuple[Array, Array]:
        """The shards at these positions, and which of their samples."""
        positions = np.arange(first, first + count, dtype=np.int64)
        if self._seed is not None and self._window > 1:
            positions = permuted(positions, self._seed, epoch, self._window, self.count)
        shards, offsets = np.empty(count, np.int64), np.empty(count, np.int64)
        stretches = np.searchsorted(self._at, positions, "right") - 1
        for stretch in np.unique(stretches).tolist():
            here = stretches == stretch
            rounds, turns = np.divmod(positions[here] - self._at[stretch], self._active[stretch])
            offsets[here] = self._begins[stretch] + rounds
            shards[here] = self._turns_of(epoch, stretch)[turns]
        return shards, offsets

    def floor(self, epoch: int, position: int) -> int:
        """An offset: no position of the window that has this one is of a lower sample, in any shard."""
        begin = position // self._window * self._window if self._seed is not None else position
        stretch = int(np.searchsorted(self._at, begin, "right")) - 1
        active = int(self._active[stretch])
        rounds = (begin - int(self._at[stretch])) // active if active else 0
        return int(self._begins[stretch]) + rounds

    def _turns_of(self, epoch: int, stretch: int) -> Array:
        """The shards of each round of a stretch, in their order."""
        if self._turns[0] != (epoch, stretch):
            shards = np.arange(len(self._lengths))
            if self._seed is not None and len(shards) > 1:
                key = _core.op_key(self._seed, "carya.shards", 0)
                shards = _core.Permutation(key, epoch, len(shards)).records(0, len(shards))
            self._turns = ((epoch, stretch), shards[self._lengths[shards] > self._begins[stretch]])
        return self._turns[1]


class Endless:
    """Shards that begin anew when they end: an epoch has `count` samples, and the next one goes on behind them.

    >>> endless = Endless(2, 3, seed=None, window=1)
    >>> [one.tolist() for one in endless.at(1, 0, 3)]
    [[1, 0, 1], [1, 2, 2]]
    """

    def __init__(self, shards: int, count: int, seed: int | None, window: int) -> None:
        self._shards, self.count, self._seed, self._window = shards, count, seed, window

    def at(self, epoch: int, first: int, count: int) -> tuple[Array, Array]:
        """The shards at these positions, and which of all the samples that they will ever give."""
        positions = np.arange(first, first + count, dtype=np.int64)
        if self._seed is not None and self._window > 1:
            positions = permuted(positions, self._seed, epoch, self._window, self.count)
        offsets, shards = np.divmod(positions + epoch * self.count, self._shards)
        return shards, offsets

    def floor(self, epoch: int, position: int) -> int:
        """As `Rounds.floor`."""
        begin = position // self._window * self._window if self._seed is not None else position
        return (epoch * self.count + begin) // self._shards


def permuted(positions: Array, seed: int, epoch: int, window: int, total: int) -> Array:
    """Positions of an epoch, each window of them in an order of its own. `positions`: consecutive ones."""
    made = np.empty_like(positions)
    key = _core.op_key(seed, "carya.window", 0)
    windows = total // window + 1
    first, count = (int(positions[0]), len(positions)) if len(positions) else (0, 0)
    at = first
    while at < first + count:
        number = at // window
        begin, end = number * window, min((number + 1) * window, total)
        until = min(end, first + count)
        keyed = _core.Permutation(key, epoch * windows + number, end - begin)
        made[at - first : until - first] = begin + keyed.records(at - begin, until - at)
        at = until
    return made
