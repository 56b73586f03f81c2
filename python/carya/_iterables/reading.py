"""Samples of shards by their numbers, from iterators that go forward only.

Sample o of shard s is record o * shards + s. A process keeps the iterator of each shard that it is asked of; what lies before
the sample that is asked for is passed over, or kept where the same window may still ask for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument
from .._stages.identity import content
from .._stages.randomness import GlobalSeeds
from .._stages.source import ShardEndedError
from .order import Endless, Rounds
from .snapshots import Stateful, stateful
from .spec import IterableSpec

Array = np.ndarray[Any, Any]
# Passing over more samples than this, an iterator is begun anew behind them, where the function can.
_GAP = 1024
# The occurrence of a record that keys what the function itself draws, when it is called.
_CALL = 1 << 62
_RAISED_MAX = 1000


class _Raised:
    """What the iterator raised in place of a sample."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Cursor:
    """An iterator of a shard. `next`: which of its samples it gives next; `kept`: those before it that may still be asked for."""

    __slots__ = ("epoch", "iterator", "kept", "next", "number", "raised", "raised_last", "state")

    def __init__(self, epoch: int, iterator: Any, begin: int, state: Stateful | None, number: int = 0) -> None:
        self.epoch, self.iterator, self.next, self.state = epoch, iterator, begin, state
        self.number = number  # how often an endless shard has ended
        self.kept: dict[int, Any] = {}
        self.raised: tuple[int, str] | None = None  # the last sample in whose place there was an exception
        self.raised_last = 0  # so many on end

    def close(self) -> None:
        close = getattr(self.iterator, "close", None)
        if close is not None:
            with contextlib.suppress(Exception):  # of the user's clean-up: nothing is asked of it any more
                close()


class _Survivors:
    """Which samples filters keep. `counts`: of each shard; `offsets` and `shards`: of each of them, one shard behind the other."""

    def __init__(self, lengths: Array, kept: Array) -> None:
        ends = np.cumsum(lengths)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        self._kept, self._starts = kept, ends - lengths
        self._begins = before[self._starts]
        self.counts = before[ends] - self._begins
        self.shards = np.repeat(np.arange(len(lengths)), self.counts)
        self.offsets = np.flatnonzero(kept) - self._starts[self.shards]

    def at(self, shards: Array, numbers: Array) -> Array:
        """Which sample of its shard is this one of those that are kept."""
        found: Array = self.offsets[self._begins[shards] + numbers]
        return found

    def floor(self, shard: int, number: int) -> int:
        if number >= int(self.counts[shard]):
            return int(self.offsets.max(initial=0)) + 1
        return int(self.offsets[int(self._begins[shard]) + number])

    def has(self, shard: int, offset: int) -> bool:
        return bool(self._kept[int(self._starts[shard]) + offset])


class IterableSource:
    """A user's shards. Threads: one. `skipped`: samples that were passed over to get to where a stream goes on."""

    def __init__(self, spec: IterableSpec, seed: int, shuffle: bool, folder: str) -> None:
        self.label, self._spec = spec.label, spec
        # States are kept by all that decides what an iterator gives; where that cannot be told, none is.
        self._identity = [spec.fingerprint(), content(spec.fn, spec.version, files=True)] if folder else []
        self._folder = "" if None in self._identity else folder
        self._seed, self._shuffle = seed, shuffle
        self._seeds = GlobalSeeds(_core.op_key(seed, "iterable", 0)) if spec.seed_globals else None
        self._cursors: dict[int, _Cursor] = {}
        self._floor: tuple[int, int] | None = None  # epoch and offset: samples from there on may be asked for again
        self._beat: Callable[[int], None] = _silent
        self.opening, self.skipped = False, 0
        self._passes: dict[int, int] = {}  # of endless shards, how many samples each has
        self._lengths: Array | None = None if spec.lengths is None else np.array(spec.lengths, np.int64)
        self._survivors: _Survivors | None = None
        self._order: Rounds | Endless | None = None
        if spec.samples is not None:
            self._order = Endless(spec.shards, spec.samples, seed if shuffle else None, spec.window)
        elif self._lengths is not None:
            self._order = Rounds(self._lengths, seed if shuffle else None, spec.window)

    # What is where -----------------------------------------------------------------------------------------------------

    def lengths_are(self, lengths: Array, survivors: Array | None) -> None:
        """What a pass has found: samples of each shard, and, one shard behind the other, whether filters keep each (bool)."""
        self._lengths = lengths
        self._survivors = None if survivors is None else _Survivors(lengths, survivors)
        counts = lengths if self._survivors is None else self._survivors.counts
        self._order = Rounds(counts, self._seed if self._shuffle else None, self._spec.window)

    @property
    def count(self) -> int:
        """Positions of an epoch."""
        assert self._order is not None
        return self._order.count

    def rows(self, epoch: int, first: int, count: int) -> tuple[list[int], list[int]]:
        """The record of each of these positions, and its epoch. What lies before their window is not asked for again."""
        assert self._order is not None
        shards, offsets = self._order.at(epoch, first, count)
        floor = self._order.floor(epoch, first)
        if self._survivors is not None:
            offsets = self._survivors.at(shards, offsets)
        if self._shuffle and self._spec.window > 1 and self._floor != (self._epoch_of(epoch), floor):
            self._floor = (self._epoch_of(epoch), floor)
            for shard, cursor in self._cursors.items():
                begin = self._floor_of(shard, cursor.epoch)
                if cursor.kept:
                    cursor.kept = {at: one for at, one in cursor.kept.items() if begin is not None and at >= begin}
        return (offsets * self._spec.shards + shards).tolist(), [epoch] * count

    def _floor_of(self, shard: int, epoch: int) -> int | None:
        """The first sample of a shard that may still be asked for out of turn; None where all come in turn."""
        if self._floor is None or self._floor[0] != epoch:
            return None
        return self._floor[1] if self._survivors is None else self._survivors.floor(shard, self._floor[1])

    def owners(self, records: Array, workers: int) -> Array:
        """Which worker reads each record, so that each shard is read by one."""
        return records % self._spec.shards % workers

    def candidates(self, most: int) -> list[int]:
        """The lowest records that there are."""
        shards = self._spec.shards
        if self._lengths is None:
            return list(range(most))
        if self._survivors is not None:
            lowest: list[int] = np.sort(self._survivors.offsets * shards + self._survivors.shards)[:most].tolist()
            return lowest
        found: list[int] = []
        for offset in range(int(self._lengths.max(initial=0))):
            found += [offset * shards + shard for shard in np.flatnonzero(self._lengths > offset).tolist()]
            if len(found) >= most:
                break
        return found[:most]

    def substitute(self, seed: int, epoch: int, position: int, draw: int, record: int) -> int:
        """Another record of the same shard, among those that are known to be there."""
        offset, shard = divmod(record, self._spec.shards)
        if self._survivors is not None:
            drawn = _core.substitute(seed, epoch, position, draw, int(self._survivors.counts[shard]))
            drawn = int(self._survivors.at(np.array([shard]), np.array([drawn]))[0])
        else:
            count = offset + 16 if self._lengths is None else int(self._lengths[shard])
            drawn = _core.substitute(seed, epoch, position, draw, count)
        return drawn * self._spec.shards + shard

    # Samples -----------------------------------------------------------------------------------------------------------

    def heard_by(self, beat: Callable[[int], None]) -> None:
        """Call `beat(record)` before each sample is asked of an iterator."""
        self._beat = beat

    def sample(self, record: int, epoch: int, occurrence: int) -> Any:
        """Errors: the iterator's own; ShardEndedError, in a pass; InvalidArgument (a shard that is shorter than was told)."""
        self.opening = False
        offset, shard = divmod(record, self._spec.shards)
        epoch = self._epoch_of(epoch)
        if occurrence:  # it takes the place of another one: the stream's own iterator stays where it is
            cursor = self._begun(shard, epoch, offset)
            try:
                return self._at(cursor, shard, offset, None)
            finally:
                cursor.close()
        of = self._cursors.get(shard)
        floor = self._floor_of(shard, epoch)
        if of is not None and of.epoch == epoch and offset in of.kept:
            return _given(of.kept.pop(offset))
        begin = offset if floor is None else min(floor, offset)
        if of is not None and not self._goes_on(of, epoch, begin, offset):
            of.close()
            del self._cursors[shard]
        if shard not in self._cursors:
            self._cursors[shard] = self._begun(shard, epoch, begin)
        return self._at(self._cursors[shard], shard, offset, floor)

    def _goes_on(self, cursor: _Cursor, epoch: int, begin: int, offset: int) -> bool:
        """Whether the sample lies ahead, and not so far that the iterator is better begun anew behind what lies between."""
        if cursor.epoch != epoch or offset < cursor.next:
            return False
        can_seek = cursor.state is not None or ("start" in self._spec.takes and not self._spec.endless)
        return begin - cursor.next <= _GAP or not can_seek

    def _epoch_of(self, epoch: int) -> int:
        return 0 if self._spec.endless else epoch

    def _at(self, cursor: _Cursor, shard: int, offset: int, floor: int | None) -> Any:
        """The sample that the cursor comes to; those from `floor` on that lie before it are kept."""
        while cursor.next < offset:
            at = cursor.next
            one = self._next(cursor, shard)
            if floor is not None and at >= floor and (self._survivors is None or self._survivors.has(shard, at)):
                cursor.kept[at] = one
            else:
                self.skipped += 1
        return _given(self._next(cursor, shard))

    def _next(self, cursor: _Cursor, shard: int) -> Any:
        """The next sample, or what was raised in its place."""
        at = cursor.next
        record = at * self._spec.shards + shard
        length = self._passes.get(shard)
        if length is not None and at // length != cursor.number:  # an endless shard begins anew
            cursor.close()
            cursor.number = at // length
            cursor.iterator, cursor.state = self._called(shard, cursor.number, 0)
        self._beat(record)
        if self._seeds is not None:
            self._seeds.set(cursor.epoch, record, 0)
        if cursor.state is not None:
            cursor.state.note(at)
        try:
            one = next(cursor.iterator)
        except StopIteration:
            if not self._spec.endless:
                raise self._ended(cursor, shard) from None
            if length is not None or at == 0:
                raise self._broken_promise(shard, at, length) from None
            self._passes[shard] = at
            return self._next(cursor, shard)
        except Exception as error:
            cursor.raised, cursor.raised_last = (at, f"{type(error).__name__}: {error}"[:200]), cursor.raised_last + 1
            if cursor.raised_last > _RAISED_MAX:
                self.opening = True  # it says nothing about a record
                raise
            one = _Raised(error)
        else:
            cursor.raised_last = 0
        cursor.next = at + 1
        return one

    def _begun(self, shard: int, epoch: int, offset: int) -> _Cursor:
        """A cursor at `offset`, where the function or the iterator can begin there, else before it."""
        self._beat(offset * self._spec.shards + shard)
        if self._spec.endless:
            length = self._passes.get(shard)
            number = offset // length if length else 0
            iterator, state = self._called(shard, number, 0)
            return _Cursor(epoch, iterator, number * (length or 0), state, number)
        begin = offset if "start" in self._spec.takes else 0
        iterator, state = self._called(shard, epoch, begin)
        if state is not None and not begin and offset:
            begin, iterator = state.sought(offset)
        return _Cursor(epoch, iterator, begin, state)

    def _called(self, shard: int, epoch: int, begin: int) -> tuple[Any, Stateful | None]:
        """The iterator that the function gives, and its states where it has some."""
        spec = self._spec
        if self._seeds is not None:
            self._seeds.set(epoch, shard, _CALL)
        given: dict[str, Any] = {"epoch": epoch, "start": begin}
        self.opening = True
        made = spec.fn(shard, **{name: given[name] for name in spec.takes})
        if made is None or isinstance(made, str | bytes | Mapping) or not hasattr(made, "__iter__"):
            shown = "None" if made is None else f"an object of type {type(made).__name__}"
            raise InvalidArgument(
                f"{self.label}: for shard {shard} it returned {shown}; return an iterator or a list of samples, or yield them"
            )
        iterator = iter(made)
        state = None
        if self._folder and not spec.endless and "start" not in spec.takes:
            state = stateful(made, iterator, self._folder, [*self._identity, self._seed, shard, epoch])
        self.opening = False
        return iterator, state

    def _ended(self, cursor: _Cursor, shard: int) -> Exception:
        """Why there is no sample: ShardEndedError in a pass, which asks for its length."""
        if self._lengths is None:
            return ShardEndedError()
        told = f"lengths= says {self._lengths[shard]}"
        advice = "give the lengths that the shards have"
        if self._spec.lengths is None:
            told = f"{self._lengths[shard]} were counted before the first batch"
            advice = (
                "let their number depend on nothing but the shard, and give a version= that changes with the data, so that they are "
                "counted anew"
            )
        if cursor.raised is not None and cursor.raised[0] == cursor.next - 1:
            told += f", and the last one raised {cursor.raised[1]}"
            advice = "catch exceptions inside of a generator, which cannot go on behind one"
        return InvalidArgument(f"{self.label}: shard {shard} ended after {cursor.next} samples ({told}); {advice}")

    def _broken_promise(self, shard: int, at: int, length: int | None) -> Exception:
        if length is None:
            return InvalidArgument(f"{self.label}: shard {shard} has no sample; give shards of at least one")
        return InvalidArgument(
            f"{self.label}: shard {shard} ended after {at % length} samples, and gave {length} when it was first read; let it give as "
            "many each time"
        )


def _given(one: Any) -> Any:
    if isinstance(one, _Raised):
        raise one.error
    return one


def _silent(record: int) -> None:
    """Nobody listens."""
