"""Several pipelines as one source: their samples, by the order that `_orders/shares.py` has of them."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, invalid
from .._orders.shares import Mix
from .identity import identity
from .regroup import REGROUPS
from .source import Sharded

if TYPE_CHECKING:
    from .chain import Chain
    from .spec import StreamSpec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MixSpec:
    """A mix as a pipeline holds it, in the place of a dataset.

    Where its pipelines have filters, `mix` is that of all their records until `settled` has the counts of what they keep.
    `remade(counts)`: the mix of other counts.
    """

    mix: Mix
    specs: tuple[StreamSpec, ...]
    fingerprints: tuple[str, ...]
    remade: Callable[[Sequence[int]], Mix]
    names: tuple[str, ...] | None = field(default=None, init=False)

    @property
    def count(self) -> int:
        """Positions of an epoch."""
        return self.mix.length

    @property
    def filtered(self) -> list[int]:
        """The pipelines that have filters."""
        return [number for number, one in enumerate(self.specs) if one.filters]

    def settled(self, counts: Mapping[int, int]) -> Mix:
        """`counts`: of the pipelines that have filters, how many samples they keep."""
        return self.remade([counts.get(number, count) for number, count in enumerate(self.mix.counts)])

    @property
    def label(self) -> str:
        return f"mix({len(self.specs)} pipelines)"

    def source_of(self, record: int) -> int:
        """Which pipeline has a record of the numbering of them all."""
        return bisect.bisect_right(self.mix.starts(), record) - 1

    def fingerprint(self) -> str:
        said = [self.fingerprints, self.mix.counts, self.mix.table, self.mix.length, self.mix.seed]
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
        self.label, self._spec = spec.label, spec
        self.mix = spec.mix
        self._survivors: dict[
            int, Array
        ] = {}  # of pipelines with filters: what they keep, by record; of shards their count only
        self._starts = spec.mix.starts()
        self._start_of = np.array(self._starts, np.int64)
        self.chains: list[Chain] = []
        self._named = True
        self._order: _core.MixOrder | None = None
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
        self.chains = [one.chain(source) for one, source in zip(self._specs, self._sources, strict=True)]
        self._sample_of = [chain.direct for chain in self.chains]

    def part_is(self, number: int, kept: Array, asked_again: frozenset[int]) -> None:
        """Which records filters of pipeline `number` keep (bool), and which of them have to be asked again."""
        self.chains[number].asked_again = asked_again
        self._survivors[number] = np.flatnonzero(kept)
        of: Any = self._specs[number].dataset
        if self._shards[number] is not None:
            self._shards[number].lengths_are(np.array(of.lengths, np.int64), kept)
        if sorted(self._survivors) == self._spec.filtered:
            self.mix = self._spec.settled({at: len(found) for at, found in self._survivors.items()})
            self._order = None

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
        sources = np.searchsorted(self._start_of, records, "right") - 1
        for number, one in enumerate(self._shards):
            if one is not None:
                mine = sources == number
                found[mine] = one.owners(records[mine] - self._starts[number], workers)
        return found

    def sample(self, record: int, epoch: int, occurrence: int) -> Any:
        """Its leaves by name; `epoch`: that of the source. Errors: those of its functions."""
        number = bisect.bisect_right(self._starts, record) - 1
        made = self._sample_of[number](record - self._starts[number], epoch, occurrence)
        return self.chains[number].leaves(made) if self._named else made

    def for_no_function(self) -> None:
        """No function sees the samples, so that they need not have the same form: they are taken apart once, behind this."""
        self._named = False

    def source_of(self, record: int) -> int:
        return bisect.bisect_right(self._starts, record) - 1

    def rows(self, epoch: int, first: int, count: int) -> tuple[list[int], list[int]]:
        """The record of each of these positions, and the epoch of its source."""
        if self._order is None:
            seeds = [
                one.seed if one.shuffle and shards is None else None
                for one, shards in zip(self._specs, self._shards, strict=True)
            ]
            self._order = self.mix.order(seeds)
        sources, epochs, indices = self._order.rows(epoch, first, count)
        records = self._start_of[sources] + indices
        for number, kept in self._survivors.items():
            if self._shards[number] is None:
                mine = sources == number
                records[mine] = self._starts[number] + kept[indices[mine]]
        for number, shards in enumerate(self._shards):
            for of in np.unique(epochs[sources == number]).tolist() if shards is not None else ():
                mine = (sources == number) & (epochs == of)
                records[mine] = self._starts[number] + self._of_shards(shards, of, indices[mine])
        return records.tolist(), epochs.tolist()

    @staticmethod
    def _of_shards(shards: Any, epoch: int, positions: Array) -> Array:
        """The records at these positions, which mostly follow each other."""
        first, count = int(positions[0]), len(positions)
        if (positions == np.arange(first, first + count)).all():
            return np.array(shards.rows(epoch, first, count)[0], np.int64)
        return np.array([shards.rows(epoch, at, 1)[0][0] for at in positions.tolist()], np.int64)

    def substitute(self, seed: int, epoch: int, position: int, draw: int, record: int) -> int:
        """Another record of the same source."""
        number = self.source_of(record)
        if self._shards[number] is not None:
            own = record - self._starts[number]
            return int(self._starts[number] + self._shards[number].substitute(seed, epoch, position, draw, own))
        drawn: int = _core.substitute(seed, epoch, position, draw, self.mix.counts[number])
        kept = self._survivors.get(number)
        return self._starts[number] + (drawn if kept is None else int(kept[drawn]))


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
        of = one._source.dataset
        if isinstance(of, Sharded) and not of.known:
            raise InvalidArgument(
                f"mix: pipeline {number} is an iterable whose length is not known here; give carya.iterable(..., lengths=) how many "
                "samples each shard has, or is to give to an epoch of its own"
            )
        drawn: Any = next((stage.fn for stage in one._stages if stage.kind == "weighted"), None)
        if drawn is not None and drawn.method == "repeated":
            raise InvalidArgument(f"mix: pipeline {number} repeats its records; leave .repeated(...) out there")
        if drawn is not None:
            raise InvalidArgument(
                f"mix: pipeline {number} draws its records by weights; give the mix a pipeline for each kind of records, and weights="
            )
        found = [stage.kind for stage in one._stages if stage.kind in REGROUPS]
        if found:
            raise InvalidArgument(
                f"mix: pipeline {number} has a {found[0]}, whose sizes are known only when a loader has asked; put .map(fn) in place "
                "of it, and leave forming samples of several to the batch (.batch(n, collate=fn))"
            )
    return listed
