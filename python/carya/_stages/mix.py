"""Several pipelines as one: which source has each position, in closed form, so that any position is found without those before it.

Position p of epoch e stands at P = e * N + p of the whole stream. How many of the positions before P are a source's follows
from P and the weights alone, by nested integer floors: source 0 has floor(P * w0 / W), of the rest source 1 has its share, and
so on; each count never goes down, and exactly one goes up with each P. So every source is at its own place at every step: its
n-th sample is number n mod length of its own epoch n div length. Largest remainders look fairer and take samples back.
Source: Grain's `mix` (google/grain, `_dataset_and_key_of_next_element`).

Within blocks of positions a keyed permutation of the epoch breaks the pattern that the floors make.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, invalid
from .identity import identity
from .regroup import REGROUPS
from .source import Sharded

if TYPE_CHECKING:
    from .chain import Chain
    from .spec import StreamSpec

Array = np.ndarray[Any, Any]

_BLOCK = 4096
# Weights are integers of this sum at most, so that products of two of them have 60 bits.
_WEIGHTS_MAX = 1 << 30
_POSITIONS_MAX = 1 << 47
STOPS = ("first", "all")


@dataclass(frozen=True)
class Mix:
    """Which source has which position. `weights`: integers; `counts`: records of each source; `length`: positions of an epoch.

    >>> mix = mixed([3, 9], weights=(1, 3), stop="first", seed=None)
    >>> mix.length, mix.places(0, 0, mix.length)[0].tolist()
    (12, [1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0])
    """

    counts: tuple[int, ...]
    weights: tuple[int, ...]
    length: int
    seed: int | None  # of the order within blocks; None: as the floors have it
    spans: tuple[int, ...] = ()  # how many numbers the records of each source take
    in_turn: bool = False  # each source gives its samples in their order, also within blocks

    def before(self, positions: Array) -> list[Array]:
        """How many samples each source has given before each of these positions of the whole stream."""
        total = sum(self.weights)
        rounds, rest = np.divmod(positions, total)  # after each round every source has given its weight
        found = []
        for weight in self.weights[:-1]:
            mine = rest * weight // total
            found.append(rounds * weight + mine)
            rest, total = rest - mine, total - weight
        return [*found, rounds * self.weights[-1] + rest]

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
        before, after = self.before(positions), self.before(positions + 1)
        sources = np.zeros(len(positions), np.int64)
        numbers = np.zeros(len(positions), np.int64)
        for number, (low, high) in enumerate(zip(before, after, strict=True)):
            mine = high > low
            sources[mine], numbers[mine] = number, low[mine]
        return sources, numbers

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


def mixed(
    counts: Sequence[int],
    weights: Sequence[float] | None,
    stop: str,
    seed: int | None,
    spans: Sequence[int] = (),
    in_turn: bool = False,
) -> Mix:
    """Errors: InvalidArgument that names the parameter."""
    shares = _integers(weights, counts)
    if stop not in STOPS:
        raise invalid(
            "mix: stop", stop, '"first" or "all"; epochs follow each other without a gap for whoever never stops'
        )
    plain = Mix(tuple(counts), shares, _POSITIONS_MAX, None)
    if stop == "first":  # as far as no source gives a record twice
        length = min(_positions_for(plain, source, count + 1) for source, count in enumerate(counts)) - 1
    else:
        length = max(_positions_for(plain, source, count) for source, count in enumerate(counts))
    return replace(plain, length=length, seed=seed, spans=tuple(spans or counts), in_turn=in_turn)


def _positions_for(mix: Mix, source: int, count: int) -> int:
    """The fewest positions before which the source has given `count` samples."""
    low, high = count, _POSITIONS_MAX
    while low < high:
        middle = (low + high) // 2
        if int(mix.before(np.array([middle], np.int64))[source][0]) >= count:
            high = middle
        else:
            low = middle + 1
    return low


def _integers(weights: Sequence[float] | None, counts: Sequence[int]) -> tuple[int, ...]:
    if weights is None:
        given: list[float] = [float(count) for count in counts]
    else:
        wanted = f"{len(counts)} numbers of more than 0, one for each pipeline"
        try:
            given = [float(weight) for weight in weights]
        except (TypeError, ValueError):
            raise invalid("mix: weights", weights, wanted) from None
        if len(given) != len(counts) or not all(weight > 0 and math.isfinite(weight) for weight in given):
            raise invalid("mix: weights", list(weights), wanted)
    whole = [int(weight) for weight in given]
    divisor = math.gcd(*whole)
    if whole == given and sum(whole) // divisor <= _WEIGHTS_MAX:
        return tuple(weight // divisor for weight in whole)
    total = sum(given)
    shares = tuple(max(1, round(weight / total * (_WEIGHTS_MAX - len(given)))) for weight in given)
    if min(given) / total < 1 / _WEIGHTS_MAX:
        raise invalid(
            "mix: weights", list(given), f"weights of which none is less than {1 / _WEIGHTS_MAX:.2g} of their sum"
        )
    return shares


@dataclass(frozen=True)
class MixSpec:
    """A mix as a pipeline holds it, in the place of a dataset."""

    mix: Mix
    specs: tuple[StreamSpec, ...]
    fingerprints: tuple[str, ...]
    names: tuple[str, ...] | None = field(default=None, init=False)

    @property
    def count(self) -> int:
        """Positions of an epoch."""
        return self.mix.length

    @property
    def label(self) -> str:
        return f"mix({len(self.specs)} pipelines)"

    def source_of(self, record: int) -> int:
        """Which pipeline has a record of the numbering of them all."""
        return bisect.bisect_right(self.mix.starts(), record) - 1

    def fingerprint(self) -> str:
        said = [self.fingerprints, self.mix.counts, self.mix.weights, self.mix.length, self.mix.seed]
        return identity([*said, "in turn"] if self.mix.in_turn else said)

    def where(self, record: int) -> str:
        """How a person finds a record of the numbering of them all."""
        number = self.source_of(record)
        own, of = record - self.mix.starts()[number], self.specs[number].dataset
        inside = f"{of.where(own)}, " if isinstance(of, Sharded) else f"record {own} "
        return f"{inside}of pipeline {number} of the mix"


class MixSource:
    """Samples of all of them, by a numbering of their records one behind the other. Threads: one."""

    def __init__(self, spec: MixSpec, seed: int) -> None:
        self.label = spec.label
        self.mix = spec.mix
        self._starts = spec.mix.starts()
        self._chains: list[Chain] = []
        self._orders: dict[tuple[int, int], Any] = {}
        self._specs = [
            replace(
                one, seed=_core.sample_seed(_core.op_key(seed, "carya.mix", number), self.mix.seed or 0, one.seed, 0)
            )
            for number, one in enumerate(spec.specs)
        ]
        self._sources: list[Any] = [one.open() for one in self._specs]
        self._shards: list[Any] = [
            source if isinstance(one.dataset, Sharded) else None
            for one, source in zip(self._specs, self._sources, strict=True)
        ]
        self._chains = [one.chain(source) for one, source in zip(self._specs, self._sources, strict=True)]

    @property
    def opening(self) -> bool:
        return any(one is not None and one.opening for one in self._shards)

    @property
    def skipped(self) -> int:
        return sum(one.skipped for one in self._shards if one is not None)

    def heard_by(self, beat: Callable[[int], None]) -> None:
        """`beat(record)`, by the numbering of them all."""
        for start, one in zip(self._starts, self._shards, strict=True):
            if one is not None:
                one.heard_by(functools.partial(_shifted, beat, start))

    def owners(self, records: Array, workers: int) -> Array:
        """Which worker makes each of these: of a shard always the same."""
        found = records % workers
        sources = np.searchsorted(np.array(self._starts), records, "right") - 1
        for number, one in enumerate(self._shards):
            if one is not None:
                mine = sources == number
                found[mine] = one.owners(records[mine] - self._starts[number], workers)
        return found

    def sample(self, record: int, epoch: int, occurrence: int) -> Any:
        """`epoch`: that of the source. Errors: those of its functions."""
        number = self.source_of(record)
        chain = self._chains[number]
        return chain.leaves(chain.sample(record - self._starts[number], epoch, occurrence))

    def source_of(self, record: int) -> int:
        return bisect.bisect_right(self._starts, record) - 1

    def rows(self, epoch: int, first: int, count: int) -> tuple[list[int], list[int]]:
        """The record of each of these positions, and the epoch of its source."""
        sources, numbers = self.mix.places(epoch, first, count)
        records, epochs = [], []
        for source, number in zip(sources.tolist(), numbers.tolist(), strict=True):
            of, position = divmod(number, self.mix.counts[source])
            records.append(self._starts[source] + self._ordered(source, of, position))
            epochs.append(of)
        return records, epochs

    def _ordered(self, source: int, epoch: int, position: int) -> int:
        spec = self._specs[source]
        if self._shards[source] is not None:
            return int(self._shards[source].rows(epoch, position, 1)[0][0])
        if not spec.shuffle:
            return position
        order = self._orders.get((source, epoch))
        if order is None:
            if len(self._orders) > 4 * len(self._specs):
                self._orders.clear()
            order = self._orders[source, epoch] = _core.Permutation(spec.seed, epoch, self.mix.counts[source])
        return int(order.records(position, 1)[0])

    def substitute(self, seed: int, epoch: int, position: int, draw: int, record: int) -> int:
        """Another record of the same source."""
        number = self.source_of(record)
        if self._shards[number] is not None:
            own = record - self._starts[number]
            return int(self._starts[number] + self._shards[number].substitute(seed, epoch, position, draw, own))
        drawn: int = _core.substitute(seed, epoch, position, draw, self.mix.counts[number])
        return self._starts[number] + drawn


def _shifted(beat: Callable[[int], None], start: int, record: int) -> None:
    beat(start + record)


def checked_parts(pipelines: Any) -> list[Any]:
    """Pipelines that can be mixed. Errors: InvalidArgument."""
    listed = list(pipelines) if isinstance(pipelines, list | tuple) else []
    if len(listed) < 2 or not all(hasattr(one, "_stream_spec") for one in listed):
        raise invalid("mix: pipelines", pipelines, "a list of two or more pipelines without batch")
    for number, one in enumerate(listed):
        if isinstance(one._source.dataset, MixSpec):
            raise InvalidArgument(
                f"mix: pipeline {number} is a mix itself; give the pipelines of both with their weights to one mix"
            )
        if one._batch is not None:
            raise InvalidArgument(
                f"mix: pipeline {number} has a batch; leave .batch(...) out there, and call it on the mix"
            )
        if any(stage.kind == "filter" for stage in one._stages):
            raise InvalidArgument(
                f"mix: pipeline {number} has a filter, whose survivors are known only when a loader has asked it; give "
                ".subset(indices) of what it keeps"
            )
        of = one._source.dataset
        if isinstance(of, Sharded) and not of.known:
            raise InvalidArgument(
                f"mix: pipeline {number} is an iterable whose length is not known here; give carya.iterable(..., lengths=) how many "
                "samples each shard has, or is to give to an epoch of its own"
            )
        found = [stage.kind for stage in one._stages if stage.kind in REGROUPS]
        if found:
            raise InvalidArgument(
                f"mix: pipeline {number} has a {found[0]}, whose sizes are known only when a loader has asked; put .map(fn) in place "
                "of it, and leave forming samples of several to the batch (.batch(n, collate=fn))"
            )
    return listed
