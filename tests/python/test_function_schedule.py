"""The schedule of a host: every position once, slots with one step at a time, whatever order answers and deaths come in."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from carya._core import StreamShape
from carya._functions.faults import Fault
from carya._functions.schedule import Chunk, Schedule, Step
from carya._functions.steps import ListedSteps


def shape(records: int, batch: int, world: int, rank: int, drop: bool, pad: bool) -> StreamShape:
    return StreamShape(
        records=records, batch_size=batch, global_size=0, world_size=world, rank=rank, drop_last=drop, pad_last=pad
    )


class Run:
    """Workers that answer, die and are slow at random, and a trainer that holds slots."""

    def __init__(self, schedule: Schedule, seed: int) -> None:
        self.schedule, self.random = schedule, random.Random(seed)
        self.out: list[Chunk] = []
        self.held: list[int] = []
        self.published: list[Step] = []

    def turn(self) -> None:
        what = self.random.random()
        if what < 0.5 and (chunk := self.schedule.next_chunk()) is not None:
            assert all(chunk.step.slot not in (slot,) for slot in self.held), "a held slot is written"
            self.out.append(chunk)
        elif what < 0.75 and self.out:
            chunk = self.out.pop(self.random.randrange(len(self.out)))
            self.schedule.note_cost(self.random.random() * 0.05, 0.001, chunk.count)
            self.schedule.done(chunk, [], [], None)
        elif what < 0.8 and self.out:
            self.schedule.again(self.out.pop(self.random.randrange(len(self.out))))
        elif what < 0.9 and (step := self.schedule.take_ready()) is not None:
            self.published.append(step)
            self.held.append(step.slot)
        elif self.held:
            self.schedule.free(self.held.pop(0))


@settings(max_examples=60, deadline=None)
@given(
    records=some.integers(1, 60),
    batch=some.integers(1, 9),
    world=some.integers(1, 4),
    whole=some.booleans(),
    pad=some.booleans(),
    seed=some.integers(0, 2**32),
)
def test_every_position_once_over_all_ranks(
    records: int, batch: int, world: int, whole: bool, pad: bool, seed: int
) -> None:
    found: list[int] = []
    for rank in range(world):
        of = shape(records, batch, world, rank, False, pad)
        schedule = Schedule(of, 3, whole=whole, epochs=1, prefetch_epochs=True)
        schedule.seek(1, 0, 0)
        run = Run(schedule, seed + rank)
        for _ in range(100_000):
            run.turn()
            if run.published and run.published[-1].last:
                break
        assert [step.after for step in run.published] == sorted({step.after for step in run.published})
        assert len(run.published) == of.steps_from(0)
        found += [step.first + i for step in run.published for i in range(step.count) if not step.repeated]
    assert sorted(found) == list(range(records))


@settings(max_examples=60, deadline=None)
@given(
    epochs=some.lists(some.lists(some.integers(1, 9), min_size=1, max_size=12), min_size=1, max_size=3),
    whole=some.booleans(),
    seed=some.integers(0, 2**32),
    data=some.data(),
)
def test_steps_of_any_lengths_have_every_position_once_from_any_step_on(
    epochs: list[list[int]], whole: bool, seed: int, data: some.DataObject
) -> None:
    schedule = Schedule(ListedSteps(np.zeros(0, np.int64)), 3, whole=whole, epochs=None, prefetch_epochs=False)
    run = Run(schedule, seed)
    for epoch, lengths in enumerate(epochs):
        ends = np.cumsum(lengths)
        begun = data.draw(some.integers(0, len(lengths) - 1))
        start = int(ends[begun]) - lengths[begun]
        schedule.seek(epoch + 1, epoch, start, ListedSteps(ends))
        run.published.clear()
        for _ in range(100_000):
            run.turn()
            if run.published and run.published[-1].last:
                break
        assert [(step.epoch, step.position, step.count) for step in run.published] == [
            (epoch, int(end) - length, length) for end, length in zip(ends[begun:], lengths[begun:], strict=True)
        ]


@settings(max_examples=60, deadline=None)
@given(
    records=some.integers(1, 60),
    batch=some.integers(1, 9),
    workers=some.integers(1, 4),
    pad=some.booleans(),
    fault_at=some.one_of(some.none(), some.integers(0, 59)),
    seed=some.integers(0, 2**32),
)
def test_each_worker_has_its_part_of_every_step_though_workers_die(
    records: int, batch: int, workers: int, pad: bool, fault_at: int | None, seed: int
) -> None:
    of = shape(records, batch, 1, 0, False, pad)
    schedule = Schedule(of, 3, whole=False, epochs=1, prefetch_epochs=True, workers=workers, owners=workers)
    chosen = random.Random(seed)
    for session, position in ((1, 0), (2, batch * chosen.randrange(max(1, records // batch)))):
        schedule.seek(session, 0, position)
        out: list[Chunk] = []
        made: dict[int, list[int]] = {}
        published: list[Step] = []
        for _ in range(100_000):
            owner, what = chosen.randrange(workers), chosen.random()
            if what < 0.5 and (chunk := schedule.next_chunk(owner)) is not None:
                assert (chunk.owner, chunk.row, chunk.count) == (owner, 0, chunk.step.count)
                assert chunk.pad == (chunk.step.rows - chunk.step.count if owner == 0 else 0)
                out.append(chunk)
            elif what < 0.7 and out:
                chunk = out.pop(chosen.randrange(len(out)))
                broken = (
                    fault_at is not None and chunk.owner == 0 and chunk.step.position <= fault_at < chunk.step.after
                )
                schedule.done(chunk, [Fault(0, 0, "f", ValueError())] if broken else [], [], None)
                made.setdefault(chunk.step.position, []).append(chunk.owner)
            elif what < 0.8 and out:
                schedule.again(out.pop(chosen.randrange(len(out))))
            elif (step := schedule.take_ready()) is not None:
                published.append(step)
                if step.faults:
                    break
                schedule.free(step.slot)
            if published and published[-1].last:
                break
        steps = [step.position for step in published]
        assert steps == list(range(position, published[-1].position + 1, batch))
        assert all(sorted(made[one]) == list(range(workers)) for one in steps)
        if fault_at is None or not position <= fault_at < records:
            assert published[-1].last
        else:
            assert published[-1].position == fault_at // batch * batch


@settings(max_examples=40, deadline=None)
@given(seed=some.integers(0, 2**32), seeks=some.lists(some.integers(0, 49), min_size=1, max_size=6))
def test_seeks_lose_no_slot_and_publish_nothing_of_before(seed: int, seeks: list[int]) -> None:
    of = shape(50, 7, 1, 0, False, False)
    schedule = Schedule(of, 4, whole=False, epochs=1, prefetch_epochs=True)
    run = Run(schedule, seed)
    for session, position in enumerate(seeks, 1):
        schedule.seek(session, 0, position)
        run.published.clear()
        for _ in range(run.random.randrange(200)):
            run.turn()
        assert all(step.session == session for step in run.published)
        assert [step.position for step in run.published] == [position + 7 * k for k in range(len(run.published))]
    schedule.seek(99, 5, 0)  # an epoch that does not exist: nothing is begun
    while run.out or run.held:
        run.turn()
    assert schedule.free_slots == 4


def test_the_lowest_fault_of_the_first_step_stops_the_stream() -> None:
    schedule = Schedule(shape(40, 20, 1, 0, False, False), 4, whole=False, epochs=None, prefetch_epochs=True)
    schedule.seek(1, 0, 0)
    chunks = [schedule.next_chunk() for _ in range(5)]
    assert all(chunk is not None for chunk in chunks)
    later, earlier = chunks[4], chunks[1]
    assert later is not None
    assert earlier is not None
    assert later.step is not earlier.step
    schedule.done(later, [Fault(later.row, 9, "map(f)", ValueError("later"))], [], None)
    assert (schedule.next_chunk(), schedule.take_ready()) == (None, None)
    schedule.done(earlier, [Fault(earlier.row, 3, "map(f)", ValueError("earlier"))], [], None)
    for chunk in (chunks[0], chunks[2], chunks[3]):
        assert chunk is not None
        schedule.done(chunk, [], [], None)
    step = schedule.take_ready()
    assert step is earlier.step
    assert [fault.record for fault in step.faults] == [3]
    assert schedule.take_ready() is None
    schedule.seek(2, 0, 0)
    assert schedule.next_chunk() is not None


@pytest.mark.parametrize(("prefetch", "begun"), [(True, 6), (False, 2)])
def test_without_prefetch_nothing_is_begun_behind_an_epoch(prefetch: bool, begun: int) -> None:
    schedule = Schedule(shape(8, 4, 1, 0, False, False), 6, whole=True, epochs=None, prefetch_epochs=prefetch)
    schedule.seek(1, 0, 0)
    steps = []
    while (chunk := schedule.next_chunk()) is not None:
        steps.append(chunk.step)
    assert [(step.epoch, step.position) for step in steps] == [(e, p) for e in range(3) for p in (0, 4)][:begun]


@pytest.mark.parametrize(
    ("seconds", "cpu_seconds", "rows"),
    [
        (0.1, 0.1, 1),
        (1e-6, 1e-6, 256),
        (0.0005, 0.0005, 32),
        (0.01, 0.0005, 10),  # the cores are busy with others
        (0.05, 0.0005, 2),
        (0.05, 1e-6, 2),  # it waits for something
    ],
)
def test_chunks_follow_what_rows_cost(seconds: float, cpu_seconds: float, rows: int) -> None:
    schedule = Schedule(shape(1000, 1000, 1, 0, False, False), 2, whole=False, epochs=1, prefetch_epochs=True)
    for _ in range(60):
        schedule.note_cost(seconds, cpu_seconds, 1)
    assert schedule.chunk_rows == rows


def test_workers_end_an_epoch_together() -> None:
    """No worker is given a chunk that takes longer than what is left for the others, where nothing comes after it."""
    for going_on in (True, False):
        of = shape(96, 64, 1, 0, False, False)
        schedule = Schedule(of, 4, whole=False, epochs=None, prefetch_epochs=going_on, workers=2)
        schedule.seek(1, 0, 0)
        schedule.note_cost(1e-6, 1e-6, 1)
        counts = []
        for _ in range(20):
            if (chunk := schedule.next_chunk()) is None or chunk.step.epoch:
                break
            counts.append(chunk.count)
        assert sum(counts) == 96
        assert (counts == [64, 32]) == going_on
        assert going_on or max(counts[-2:]) <= 2


class Ahead:
    """Native threads: they fill their slots with steps in stream order, as soon as a slot is given back."""

    def __init__(self, schedule: Schedule, of: StreamShape, slots: int) -> None:
        self.schedule, self.of = schedule, of
        self.free = list(range(slots))
        self.place: tuple[int, int, int] | None = None  # session, epoch, position
        self.holds: dict[int, tuple[int, int]] = {}  # of each slot the step in it

    def turn(self) -> None:
        for slot in self.schedule.take_spent():
            del self.holds[slot]
            self.free.append(slot)
        if self.place is None or not self.free:
            return
        session, epoch, position = self.place
        if self.of.steps_from(position) == 0:
            epoch, position = epoch + 1, 0
        after = position + self.of.step_positions(position)
        slot = self.free.pop()
        self.holds[slot] = (epoch, after)
        self.schedule.made_ahead(session, epoch, after, slot)
        self.place = (session, epoch, after)


@settings(max_examples=60, deadline=None)
@given(records=some.integers(1, 40), batch=some.integers(1, 9), slots=some.integers(1, 4), seed=some.integers(0, 2**32))
def test_a_step_is_made_from_the_slot_of_native_threads_that_holds_it(
    records: int, batch: int, slots: int, seed: int
) -> None:
    of, chance = shape(records, batch, 1, 0, False, False), random.Random(seed)
    schedule = Schedule(of, 3, whole=False, epochs=None, prefetch_epochs=True, ahead=True)
    run, native = Run(schedule, seed), Ahead(schedule, of, slots)
    sought, ended = 0, False
    for turn in range(4000):
        if turn % 997 == 0:
            sought += 1
            begin = chance.randrange(of.steps_from(0)) * batch
            schedule.seek(sought, sought, begin)
            if chance.random() < 0.5:
                native.turn()  # what it has made before it hears of the seek
            native.place = (sought, sought, begin)
        if chance.random() < 0.5:
            native.turn()
        run.turn()
        for chunk in run.out:
            if chunk.step.ahead >= 0:
                assert native.holds[chunk.step.ahead] == (chunk.step.epoch, chunk.step.after)
        if turn == 3500 and chance.random() < 0.5:
            schedule.end_ahead()
            native.place, ended = None, True
    assert run.published
    if ended:
        published = len(run.published)
        for _ in range(1000):
            run.turn()
        assert len(run.published) > published
    else:
        assert len(native.free) + len(native.holds) == slots


def test_native_threads_that_make_another_stream_are_found_out() -> None:
    schedule = Schedule(shape(8, 4, 1, 0, False, False), 3, whole=False, epochs=1, prefetch_epochs=True, ahead=True)
    schedule.seek(1, 0, 0)
    assert schedule.next_chunk() is None  # nothing was made yet
    schedule.made_ahead(1, 0, 8, 0)
    with pytest.raises(RuntimeError, match="native threads made the step to"):
        schedule.next_chunk()


def test_who_has_something_to_do_waits_for_as_many_steps_as_are_worth_a_message() -> None:
    schedule = Schedule(shape(6400, 64, 1, 0, True, False), 20, whole=True, epochs=1, prefetch_epochs=True)
    schedule.seek(1, 0, 0)
    first = schedule.next_chunks(8, waits=False)
    assert len(first) == 1, "nobody knows yet what a step takes"
    for _ in range(40):
        schedule.note_cost(64e-6, 64e-6, 64)
    assert [len(schedule.next_chunks(8, waits=False)) for _ in range(3)] == [8, 8, 0], "three slots are left"
    assert len(schedule.next_chunks(8, waits=True)) == 3
    assert schedule.next_chunks(8, waits=True) == []
    slow = Schedule(shape(6400, 64, 1, 0, True, False), 24, whole=True, epochs=1, prefetch_epochs=True)
    slow.seek(1, 0, 0)
    slow.note_cost(0.64, 0.64, 64)
    assert [len(slow.next_chunks(8, waits=False)) for _ in range(24)] == [1] * 24, "each is worth a message"


def test_of_chunks_whose_workers_died_the_earliest_comes_first() -> None:
    schedule = Schedule(shape(40, 20, 1, 0, False, False), 4, whole=False, epochs=None, prefetch_epochs=True)
    schedule.seek(1, 0, 0)
    chunks = [schedule.next_chunk() for _ in range(6)]
    for number in (3, 5, 0, 4):
        chunk = chunks[number]
        assert chunk is not None
        schedule.again(chunk)
    assert [schedule.next_chunk() for _ in range(4)] == [chunks[number] for number in (0, 3, 4, 5)]
