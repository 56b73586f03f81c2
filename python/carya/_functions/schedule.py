"""Which rows are due: steps in stream order, their slots, the chunks of rows that workers take. Pure state, no clock.

A step is published when all its rows are made and all steps before it were. A slot is given to the next step only when
its reader has let go of it and no worker writes into it any more.
"""

from __future__ import annotations

import bisect
import operator
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .faults import Fault
from .steps import Steps

# A chunk takes about so long, so that a death costs little; longer, where the cores are busy with others, for so much CPU time
# that the messages about it cost little; but never longer than the last.
_CHUNK_S, _CHUNK_CPU_S, _CHUNK_MAX_S = 0.012, 0.016, 0.1
# Of what is left of the stream, a chunk takes so large a share of each worker's part, so that all of them end at the same time.
_TAIL_SHARE = 2
_ROWS_MAX = 256
# Chunks of one message take so long together: a message costs both sides together some 100 us.
_MESSAGE_S = 0.004


@dataclass(eq=False)
class Step:
    """One step of this rank."""

    session: int
    epoch: int
    position: int  # of the epoch, over all ranks, where it begins
    after: int  # the first position behind it
    first: int  # this rank's own positions: `count` of them from here
    count: int
    rows: int
    repeated: bool
    slot: int
    undone: int = 0  # chunks that are not done yet, of those that were cut
    cut: int = 0  # rows that were cut into chunks
    last: bool = False  # of the epoch
    faults: list[Fault] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)  # of the quarantine
    parts: list[tuple[int, Any]] = field(default_factory=list)  # (row, objects or results) of its chunks
    given: set[int] = field(default_factory=set)  # owners that have their part of it
    dropped: bool = False  # nobody waits for it: its slot is free when `undone` is 0
    ahead: int = -1  # the slot in which native threads have made its rows; -1: workers make them from their records

    @property
    def whole(self) -> bool:
        return self.undone == 0 and self.cut >= self.count


@dataclass(eq=False)
class Chunk:
    """Rows of a step that one worker makes."""

    number: int
    step: Step
    row: int
    count: int
    pad: int  # rows behind them that hold nothing
    attempts: int = 0
    owner: int = -1  # the worker that makes it: of all rows of the step those that are its own


class RowsTask(NamedTuple):
    """A chunk as its worker is told: `length` positions of `epoch` from `first` on, into rows `row` and following of a slot."""

    number: int
    epoch: int
    first: int
    length: int
    slot: int
    row: int
    pad: int  # rows behind them that hold nothing
    repeated: bool
    policy: str
    owner: int = -1  # of all these positions only those whose records are its own
    ahead: int = -1  # in which slot of native threads the same rows lie, before the functions


class Schedule:
    """Of one stream.

    `owners`: 0, or so many workers, each of which makes its own rows of every step, since it alone reads their shards: a chunk
    is then one worker's part of a step.

    `ahead`: a step is begun when native threads have made its rows (`made_ahead`), as long as they make any; `take_spent` says
    which of their slots nobody reads any more.

    `chunk_rows_min`: fewer rows are no chunk. `whole`: a step is one chunk, since a function makes it as a whole. `epochs`: None is endless. With
    `prefetch_epochs` false nothing is begun after the end of an epoch until `seek`.
    """

    def __init__(
        self,
        shape: Steps,
        slots: int,
        *,
        whole: bool,
        epochs: int | None,
        prefetch_epochs: bool,
        chunk_rows_min: int = 1,
        workers: int = 1,
        owners: int = 0,
        ahead: bool = False,
    ) -> None:
        self._ahead = ahead
        # Epoch, first position behind it and slot of each step that was made ahead, in stream order.
        self._made: deque[tuple[int, int, int]] = deque()
        self._spent: list[int] = []
        self._owners = owners
        self._shape, self._whole, self._chunk_rows_min, self._workers = shape, whole, chunk_rows_min, workers
        self._epochs, self._prefetch_epochs = epochs, prefetch_epochs
        self._free, self._slots = deque(range(slots)), slots
        self._steps: deque[Step] = deque()  # begun and not yet published, in stream order
        self._again: deque[Chunk] = deque()  # whose worker died
        self._numbers = 0
        self._next: tuple[int, int] | None = None  # epoch and position of the next step; None: nothing is asked for
        self._row_seconds: float | None = None
        self._row_cpu_seconds = 0.0
        self.session = 0
        self._faulty = False  # a fault was met: rows behind it are not needed
        self.stopped = False  # it was published: nothing is until the next seek

    def seek(self, session: int, epoch: int, position: int, shape: Steps | None = None) -> None:
        """Forget what was begun; go on at `position` of `epoch`, whose steps are those of `shape`."""
        self._shape = shape or self._shape
        for step in self._steps:
            step.dropped = True
            self._settle(step)
        self._steps.clear()
        for chunk in self._again:
            self._abandon(chunk)
        self._again.clear()
        self._spent += [slot for _, _, slot in self._made]
        self._made.clear()
        self.session, self._next, self.stopped = session, (epoch, position), False
        self._faulty = False

    def next_chunk(self, owner: int = -1, afar: bool = False) -> Chunk | None:
        """The chunk that is due, for worker `owner` where each has its own; None when there is none, or no slot for its step.

        `afar`: for another machine, which gets none that was given before.
        """
        if self._owners:
            return self._next_part(owner)
        if self._again and not afar:
            return self._again.popleft()
        if self.stopped or self._faulty:
            return None
        step = self._steps[-1] if self._steps else None
        if step is None or step.cut >= step.count:
            step = self._begin()
            if step is None:
                return None
        left = step.count - step.cut
        count = left if self._whole else min(left, self.chunk_rows, self._tail_rows(step, left))
        if not self._whole and 0 < left - count < count // 2:
            count = (left + 1) // 2  # no crumbs
        self._numbers += 1
        row = step.cut
        step.cut += count
        pad = step.rows - step.count if step.cut >= step.count else 0
        step.undone += 1
        return Chunk(self._numbers, step, row, count, pad)

    def _next_part(self, owner: int) -> Chunk | None:
        """A worker's part of the first step of which it has none. Steps before one with a fault are still made."""
        for chunk in self._again:
            if chunk.owner == owner:
                self._again.remove(chunk)
                return chunk
        if self.stopped:
            return None
        step = None
        for one in self._steps:
            if owner not in one.given:
                step = one
                break
            if one.faults:
                return None
        if step is None:
            step = None if self._faulty else self._begin()
        if step is None:
            return None
        step.given.add(owner)
        step.undone += 1
        step.cut = step.count if len(step.given) == self._owners else 0
        self._numbers += 1
        pad = step.rows - step.count if owner == 0 else 0
        return Chunk(self._numbers, step, 0, step.count, pad, owner=owner)

    def next_chunks(self, most: int, owner: int = -1, afar: bool = False, waits: bool = True) -> list[Chunk]:
        """The chunks that are due for one worker: several, where they take a moment only and there are enough for all.

        `waits`: it has nothing to do; else it gets as many steps as are worth a message, or none yet.
        """
        if self._whole and not waits and self._row_seconds is not None:
            step_s = max(self._row_seconds * self._shape.rank_rows_max, 1e-9)
            enough = min(most, int(_MESSAGE_S / step_s), self._slots // (2 * self._workers))
            if 1 + len(self._free) // self._workers < enough:
                return []
        first = self.next_chunk(owner, afar)
        if first is None:
            return []
        chunks, seconds = [first], (self._row_seconds or 1.0) * first.count
        most = min(most, int(_MESSAGE_S / max(seconds, 1e-9)), 1 + len(self._free) // self._workers)
        while len(chunks) < most and (chunk := self.next_chunk(owner, afar)) is not None:
            chunks.append(chunk)
        return chunks

    @property
    def chunk_rows(self) -> int:
        """Rows of the next chunk, by what rows have cost."""
        most = max(1, min(_ROWS_MAX, self._shape.rank_rows_max))
        if self._row_seconds is None:
            return max(self._chunk_rows_min, min(most, 8))
        each, cpu = max(self._row_seconds, 1e-7), max(self._row_cpu_seconds, 1e-7)
        wanted = max(_CHUNK_S / each, min(_CHUNK_CPU_S / cpu, _CHUNK_MAX_S / each))
        return max(1, self._chunk_rows_min, min(most, int(wanted)))

    def _tail_rows(self, step: Step, left: int) -> int:
        """How many rows a chunk may have, that the workers end the epoch together where nothing is begun after it."""
        going_on = self._prefetch_epochs and (self._epochs is None or step.epoch + 1 < self._epochs)
        if going_on or self._workers == 1:
            return left
        rows = left + self._shape.steps_from(step.after) * self._shape.rank_rows_max
        return max(self._chunk_rows_min, -(-rows // (_TAIL_SHARE * self._workers)))

    @property
    def row_seconds(self) -> float | None:
        """Mean wall time of a row, of the recent ones."""
        return self._row_seconds

    def _begin(self) -> Step | None:
        if self._next is None or not self._free:
            return None
        epoch, position = self._next
        if self._epochs is not None and epoch >= self._epochs:
            return None
        if self._shape.steps_from(position) == 0:
            if not self._prefetch_epochs:
                return None
            self._next = (epoch + 1, 0)
            return self._begin() if position > 0 else None
        if self._ahead and not self._made:
            return None
        first, count, rows, repeated = self._shape.part(position)
        after = position + self._shape.step_positions(position)
        ahead = self._take_made(epoch, after)
        slot = self._free.popleft()
        step = Step(self.session, epoch, position, after, first, count, rows, repeated, slot)
        step.last, step.ahead = self._shape.steps_from(after) == 0, ahead
        self._steps.append(step)
        self._next = (epoch, after)
        return step

    def note_cost(self, seconds: float, cpu_seconds: float, rows: int) -> None:
        """What `rows` rows took."""
        if rows:
            self._row_seconds = _followed(self._row_seconds, seconds / rows)
            self._row_cpu_seconds = _followed(self._row_cpu_seconds or None, cpu_seconds / rows)

    def done(self, chunk: Chunk, faults: list[Fault], entries: list[dict[str, Any]], part: Any) -> None:
        """A worker has made the chunk, or met faults in it."""
        step = chunk.step
        step.undone -= 1
        step.faults += faults
        self._faulty = self._faulty or (bool(faults) and not step.dropped)
        step.entries += entries
        if part is not None:
            step.parts.append((chunk.row, part))
        self._settle(step)

    def again(self, chunk: Chunk) -> None:
        """The chunk's worker is gone, and writes no more: another one has to make it."""
        chunk.attempts += 1
        if chunk.step.dropped:
            self._abandon(chunk)
        else:
            bisect.insort(self._again, chunk, key=operator.attrgetter("number"))  # the earliest is waited for first

    def _abandon(self, chunk: Chunk) -> None:
        chunk.step.undone -= 1
        self._settle(chunk.step)

    def _settle(self, step: Step) -> None:
        if step.dropped and step.undone == 0:
            step.undone = -1  # once
            self._free.append(step.slot)
            self._return(step)

    def take_ready(self) -> Step | None:
        """The next step in stream order, once it is whole. One with faults stops the stream."""
        if self.stopped or not self._steps:
            return None
        step = self._steps[0]
        if step.faults and (
            step.whole if self._owners else step.undone == 0
        ):  # what was not cut any more is not needed
            self.stopped = True
            return step
        if not step.whole:
            return None
        self._steps.popleft()
        self._return(step)
        return step

    def _return(self, step: Step) -> None:
        if step.ahead >= 0:
            self._spent.append(step.ahead)
            step.ahead = -1

    def _take_made(self, epoch: int, after: int) -> int:
        if not self._ahead:
            return -1
        *made, slot = self._made.popleft()
        if made != [epoch, after]:
            raise RuntimeError(f"native threads made the step to {made}, and the one to {[epoch, after]} is due")
        return slot

    def made_ahead(self, session: int, epoch: int, after: int, slot: int) -> None:
        """Native threads have made the next step: the one before position `after`."""
        if session == self.session:
            self._made.append((epoch, after, slot))
        else:
            self._spent.append(slot)

    def end_ahead(self) -> None:
        """Native threads make nothing any more. What they have made may still be read."""
        self._ahead = False
        self._made.clear()
        self._spent.clear()

    def take_spent(self) -> list[int]:
        """Slots of native threads that nobody reads any more; each is told once."""
        spent, self._spent = self._spent, []
        return spent

    def free(self, slot: int) -> None:
        """The reader has let go of a published slot."""
        self._free.append(slot)

    @property
    def owned(self) -> bool:
        """Whether each worker has chunks of its own."""
        return self._owners > 0

    @property
    def free_slots(self) -> int:
        return len(self._free)


def _followed(former: float | None, each: float) -> float:
    # Growing fast, shrinking slowly: a chunk that is too long holds the trainer up, one too short costs little.
    return each if former is None else former + (each - former) * (0.5 if each > former else 0.2)
