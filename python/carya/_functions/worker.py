"""A worker process: makes the rows of one chunk after the other, straight into the slots that the trainer reads."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from .. import _core
from .._errors import InvalidArgument
from .._orders.draws import Draws
from .._orders.repeated import Repeats
from .._processes.system import keep_freed_memory, own_bytes
from .._processes.transport import Channel, Packed
from .._stages.chain import Chain
from .._stages.mix import MixSource, MixSpec
from .._stages.regroup import units_of
from .._stages.source import Placed, Sharded, Source
from .._stages.spec import StreamSpec
from .._stages.tree import flatten, mappings, shape_of
from .._stages.units import Unit, Units, made_of
from .._traits.moves import as_written, keeps_bits, passed
from .._traits.proof import compared, tried
from .ahead import AheadRows, Tensors
from .code import check_result, dumps_result, first_unfit, told_of
from .counting import ask_shard
from .faults import Fault, Made
from .layout import Field, Layout, Rows, field_of
from .schedule import RowsTask

_SUBSTITUTES = 16
_SPREAD = 64  # records by which the size of a batch is guessed, where they are made at once
# Occurrences of records that an order has several times: past those of substitutes, which are positions.
_AGAIN = 1 << 48
# Of a worker's cells, which its host reads: when the present call began (ns, 0 for none), and of which record it is.
SINCE, RECORD, STAGE, TASK = range(4)  # STAGE: what runs, an index of the chain's labels; Chain.STAGE. TASK: its number
CELLS = 4

_forked = False
_WRITTEN: dict[str, Any] = {}
_now = time.monotonic_ns


def _mark_forked() -> None:
    global _forked
    _forked = True


def serve(link: Channel, spec: StreamSpec, source: Source, cells: Any, dump: int, number: int) -> None:
    """Do what the host says until it closes the link. Threads: the process has this one, and those of the user."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.enable(file=dump)
    faulthandler.register(signal.SIGUSR1, file=dump, all_threads=True)
    os.register_at_fork(after_in_child=_mark_forked)
    keep_freed_memory()
    torch = sys.modules.get("torch")
    if torch is not None:
        with contextlib.suppress(Exception):
            torch.set_num_threads(1)
    worker = _Worker(link, spec, source, cells)
    for stage in spec.stages:
        if stage.kind == "start":
            worker.start(stage.fn, number)
    try:
        while (got := link.receive()) is not None:
            message, fds = got
            if message[0] == "stop":
                return
            worker.do(message, fds)
    except ConnectionError:  # of the link, whose host is gone: those of functions are told
        return


class _Given(NamedTuple):
    """What is known of a task before its samples are made one by one."""

    records: list[int]
    keys: Sequence[tuple[int, int, Any]]  # what keys their random numbers, and which part of a record each is
    columns: dict[str, Any] | None = None  # all its samples, where they were made at once
    seconds: float = 0.0  # what that took
    cpu_seconds: float = 0.0


class _Worker:
    def __init__(self, link: Channel, spec: StreamSpec, source: Source, cells: Any) -> None:
        self._link, self._spec, self._cells = link, spec, cells
        self._ahead = AheadRows()
        self._chain: Chain = spec.chain(source)
        self._placed: Placed | None = cast(Any, source) if spec.placed else None
        if self._placed is not None:
            self._placed.heard_by(self._at)
        self._skipped = 0
        self._chain.cells = cells
        self._unfit: Fault | None = None  # why it makes nothing
        self._layout: Layout | None = None
        self._memory: Any = None
        self._slots: list[Any] = []
        self._put = Rows(())
        self._columns: list[list[np.ndarray[Any, Any]]] = []
        self._survivors: np.ndarray[Any, Any] | None = None
        self._units: Units | None = None
        self._order: tuple[int, Any] = (-1, None)
        self._draws: Draws | Repeats | None = None
        self._told: np.ndarray[Any, Any] | None = (
            None  # of the present epoch: its records, and how often each came before
        )

    def start(self, fn: Callable[[int], Any], number: int) -> None:
        """Call what a worker begins with; what it raises is the answer to all that is asked."""
        try:
            fn(number)
        except BaseException as error:
            self._unfit = Fault(0, -1, "worker_init_fn", error)
            self._unfit.kind = "fatal"

    def do(self, message: tuple[Any, ...], fds: list[int]) -> None:
        kind, *rest = message
        if self._unfit is not None and kind in ("rows", "step", "probe", "digest"):
            answers = self._refused(kind, self._unfit, rest)
        elif kind in ("rows", "step"):
            make = self._rows if kind == "rows" else self._step
            tasks = [RowsTask(*told) for told in rest[0]]
            answers = [self._done(make(task, given)) for task, given in zip(tasks, self._given(tasks), strict=True)]
        else:
            answer = getattr(self, f"_{kind}")(*rest, *fds)
            answers = [] if answer is None else [self._done(answer)]
        with contextlib.suppress(Exception):  # the user may have closed or replaced it
            sys.stdout.flush()
        if answers:
            files = [fd for answer in answers for fd in answer.pop("fds", [])]
            used = own_bytes() if self._spec.rss_max is not None else 0
            self._link.send(("done", answers, used), files)
            for fd in files:
                os.close(fd)

    def _refused(self, kind: str, fault: Fault, rest: list[Any]) -> list[dict[str, Any]]:
        if kind == "digest":
            return [{"number": rest[0], "digest": fault.reason}]
        if kind == "probe":
            return [{"number": rest[0], "fields": None, "tree": (), "faults": [fault]}]
        answers = []
        for task in [RowsTask(*told) for told in rest[0]]:
            made = Made()
            made.faults.append(fault)
            answers.append(
                made.answer(task.number, task.length, time.perf_counter(), time.thread_time()) | self._timed()
            )
        return answers

    def _done(self, answer: dict[str, Any]) -> dict[str, Any]:
        self._cells[SINCE] = 0
        if _forked:  # a function has forked, and its child came back
            os._exit(0)
        return answer

    # Being told --------------------------------------------------------------------------------------------------------

    def _layout_is(self, fields: tuple[Field, ...], layout: Layout, slots: int, fd: int) -> None:
        self._put, self._layout = Rows(fields), layout
        self._chain.likes_are({field.name: field.like for field in fields if field.like is not None}, as_lists=True)
        likes = {
            field.name: np.zeros((0, *field.shape[1:]), field.dtype) for field in fields if field.dtype and field.shape
        }
        self._chain.likes_are(likes, as_lists=False)
        # With its page tables: a fault for each page costs more than what is written to it.
        self._memory = mmap.mmap(fd, layout.size * slots, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        os.close(fd)
        self._slots = [layout.views(self._memory, slot) for slot in range(slots)]
        if not self._spec.whole:
            self._columns = [self._put.columns(views.fields) for views in self._slots]

    def _ahead_is(self, number: int, tensors: Tensors, rows: int, size: int, fd: int) -> None:
        memory = mmap.mmap(fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ)
        os.close(fd)
        self._ahead.slot_is(number, tensors, rows, memory)

    def _survivors_are(self, count: int, raised: int, sized: int, fd: int) -> None:
        """What `opening.find_kept` found. A count of -1: all records, or no sizes."""
        kept, sizes = max(count, 0), max(sized, 0)
        memory = mmap.mmap(fd, max(8 * (kept + raised + sizes), 1), prot=mmap.PROT_READ)
        os.close(fd)
        told = np.frombuffer(memory, np.int64, kept + raised + sizes)
        self._survivors = told[:count] if count >= 0 else None
        self._chain.asked_again = frozenset(told[kept : kept + raised].tolist())
        if sized >= 0 and (regroup := self._spec.regroup) is not None:
            spec = self._spec
            self._units = units_of(regroup.fn, told[kept + raised :], spec.seed, spec.shuffle, self._indices)

    def _order_is(self, epoch: int, count: int, fd: int) -> None:
        memory = mmap.mmap(fd, max(16 * count, 1), prot=mmap.PROT_READ)
        os.close(fd)
        self._told = np.frombuffer(memory, np.int64, 2 * count).reshape(2, count)

    # Looking -----------------------------------------------------------------------------------------------------------

    def _verdicts(self, number: int, first: int, count: int, part: int) -> dict[str, Any]:
        """Sizes of records, -1 for what filters drop; one whose functions raise has 1, and its filters are asked again there.

        `part`: of which pipeline of a mix; -1 where there is none.
        """
        self._cells[TASK] = number
        chain = self._part_of(part)
        sizes, raised = np.ones(count, np.int64), []
        begin = time.perf_counter()
        if chain.expects:
            chain.expect(range(first, first + count))
        for i in range(count):
            self._at(first + i)
            try:
                sizes[i] = chain.size(first + i)
            except BaseException as error:  # also sys.exit
                raised.append(self._fault(0, first + i, error))
        seconds = time.perf_counter() - begin
        return {"number": number, "verdicts": (first, sizes), "raised": raised, "seconds": seconds}

    def _part_of(self, part: int) -> Chain:
        return self._chain if part < 0 else cast(MixSource, self._placed).chains[part]

    def _shard(self, number: int, shard: int, part: int) -> dict[str, Any]:
        """Sizes of the samples of a shard: as `_verdicts`."""
        self._cells[TASK] = number
        of = self._spec.dataset
        if isinstance(of, MixSpec):
            of = of.specs[part].dataset
        return {"number": number} | ask_shard(self._part_of(part), cast(Sharded, of), shard, self._at, self._fault)

    def _part_is(self, part: int, count: int, raised: int, fd: int) -> None:
        """Which records filters of a pipeline of a mix keep, and which of them raised."""
        memory = mmap.mmap(fd, 8 * raised + count, prot=mmap.PROT_READ)
        os.close(fd)
        again = frozenset(np.frombuffer(memory, np.int64, raised).tolist())
        cast(MixSource, self._placed).part_is(part, np.frombuffer(memory, np.bool_, count, 8 * raised), again)

    def _shards_are(self, shards: int, raised: int, kept: int, fd: int) -> None:
        """What `counting.count_shards` found. A count of -1: all samples are kept."""
        total = shards + raised + max(kept, 0)
        memory = mmap.mmap(fd, max(8 * total, 1), prot=mmap.PROT_READ)
        os.close(fd)
        told = np.frombuffer(memory, np.int64, total)
        self._chain.asked_again = frozenset(told[shards : shards + raised].tolist())
        survivors = told[shards + raised :].astype(np.bool_) if kept >= 0 else None
        cast(Any, self._placed).lengths_are(told[:shards], survivors)

    def _probe(self, number: int, candidates: Sequence[int]) -> dict[str, Any]:
        """Fields of the first sample that can be made, and its tree; the faults of those before it."""
        self._cells[TASK] = number
        faults = []
        guessed: dict[str, Any] | None = None  # where a list without elements says no dtype, and another sample may
        for record in candidates:
            self._at(record)
            try:
                sample = self._chain.sample(record, 0)
                if self._chain.collates:
                    return {"number": number, "fields": (), "tree": (), "kinds": (), "faults": []}
                leaves = self._chain.leaves(sample)
                missing = [name for name in self._spec.lists if name not in leaves]
                if missing:
                    raise InvalidArgument(
                        f"{self._spec.lister(missing[0])}: got {missing[0]!r}; give some of {tuple(leaves)}"
                    )
                if not leaves:
                    raise InvalidArgument(f"{self._chain.label}: the sample is empty; return at least one value")
                fields = tuple(field_of(name, leaf, name in self._spec.lists) for name, leaf in leaves.items())
                for field in fields:
                    if field.dtype is None:
                        check_result(f"{self._chain.label}: {field.name}", leaves[field.name])
                tree = Packed(shape_of(sample), dumps_result).text  # read by the trainer only, which has its classes
                kinds = (*(type(value).__name__ for value in flatten(sample).values()), *mappings(sample))
                found = {"number": number, "fields": fields, "tree": tree, "kinds": kinds, "faults": []}
                if not self._chain.guessed(leaves):
                    return found
                guessed = guessed or found
            except BaseException as error:
                faults.append(self._fault(0, record, error))
        if guessed is not None:
            return guessed
        return {"number": number, "fields": None, "tree": (), "faults": faults}

    def _digest(self, number: int, records: Sequence[int]) -> dict[str, Any]:
        """Of the samples of these records, or what keeps them from being made: other machines must come to the same."""
        self._cells[TASK] = number
        made = hashlib.blake2b(digest_size=16)
        for record in records:
            self._at(record)
            try:
                leaves = self._chain.leaves(self._chain.sample(record, 0)) if not self._chain.collates else {}
                for name, leaf in leaves.items():
                    made.update(name.encode() + b"\0" + told_of(leaf))
            except Exception as error:
                return {"number": number, "digest": f"{type(error).__name__}: {error}"[:500]}
        return {"number": number, "digest": made.hexdigest()}

    def _prove(self, number: int, records: Sequence[int]) -> dict[str, Any]:
        """What these samples say of what a user says of functions."""
        self._cells[TASK] = number
        self._at(records[0])
        spec = as_written(self._spec)
        written = self._chain if spec is self._spec else spec.chain(spec.open())
        found = tried(written, spec.stages, records, self._at)
        if keeps_bits(self._spec):
            found += compared(written, self._chain, passed(self._spec), records, beat=self._at)
        return {"number": number, "found": found}

    def _measure(self, number: int, fields: tuple[Field, ...], candidates: Sequence[int]) -> dict[str, Any]:
        """Bytes of a row of a whole batch, by these records, or by many more where they cost little; 0 where that cannot be said."""
        self._cells[TASK] = number
        rows = Rows(fields)
        self._at(candidates[0])
        size = 0
        with contextlib.suppress(Exception):
            spread = range(0, self._spec.records, -(-self._spec.records // _SPREAD))
            batch: Any = None if self._chain.collates else self._chain.columns(spread)
            count = len(candidates) if batch is None else len(spread)
            if batch is None:
                batch = [self._chain.sample(record, 0) for record in candidates]
                if not self._chain.collates:
                    batch = [rows.check(self._chain.leaves(one), self._chain.label) for one in batch]
                    batch = rows.stacked(batch, count)
            size = -(-Packed(self._chain.batch(batch, (0, 0, 0), count), dumps_result, plain=True).size // count)
        return {"number": number, "row_bytes": size}

    # Making ------------------------------------------------------------------------------------------------------------

    def _rows(self, task: RowsTask, given: _Given) -> dict[str, Any]:
        """Make rows of a slot, one by one where they were not made at once."""
        assert self._layout is not None
        self._cells[TASK] = task.number
        begin, seconds = time.perf_counter() - given.seconds, time.thread_time() - given.cpu_seconds
        made = Made()
        views, columns = self._slots[task.slot], self._columns[task.slot]
        records, keys, at_once, valid = given.records, given.keys, given.columns, []
        mine: Sequence[int] = range(len(records))
        if task.owner >= 0 and self._placed is not None:
            owners = self._placed.owners(np.array(records, np.int64), self._spec.workers)
            mine = np.flatnonzero(owners == task.owner).tolist()
        objects: dict[str, list[Any]] = {name: [] for name in self._layout.objects}
        self._chain.timing = True  # the first one
        if at_once is not None:
            for name, column in views.fields.items():
                column[task.row : task.row + task.length] = at_once[name]
            for name, listed in objects.items():
                listed.extend(at_once[name])
            valid = [not task.repeated] * task.length
        for i in mine if at_once is None else ():
            records[i], leaves = self._sample(task, i, records[i], keys[i], made, columns)
            self._chain.timing = False
            if made.faults:
                break
            valid.append(leaves is not None and not task.repeated)
            if leaves is None:
                self._clear(views, task.row + i)
            for name, listed in objects.items():
                listed.append(None if leaves is None else leaves[name])
        if not made.faults:
            if task.owner < 0:
                here: Any = slice(task.row, task.row + task.length)
                views.records[here], views.valid[here] = records, valid
            elif mine:
                here = np.array(mine) + task.row
                views.records[here], views.valid[here] = np.array(records)[mine], valid
        for row in range(task.row + task.length, task.row + task.length + task.pad):
            views.records[row], views.valid[row] = -1, False
            self._clear(views, row)
            for listed in objects.values():
                listed.append(None)
        answer = made.answer(task.number, task.length, begin, seconds) | self._timed() | {"rows": len(mine)}
        if objects and not made.faults:
            rows = None
            if task.owner >= 0:
                rows = [task.row + i for i in [*mine, *range(task.length, task.length + task.pad)]]
            try:
                packed = Packed((objects, rows), dumps_result)
            except InvalidArgument as error:
                at, why = first_unfit(self._chain.label, objects) or (0, error)
                made.faults.append(self._fault(task.row + mine[at], records[mine[at]], why))
                return answer
            answer |= {"part": (packed.text, packed.places), "in_file": True, "fds": [packed.to_file("objects")]}
        return answer

    def _step(self, task: RowsTask, given: _Given) -> dict[str, Any]:
        """Make a step as a whole: its samples, then what the functions of whole batches make of them."""
        assert self._layout is not None
        self._cells[TASK] = task.number
        begin, seconds = time.perf_counter() - given.seconds, time.thread_time() - given.cpu_seconds
        made = Made()
        views = self._slots[task.slot]
        records, keys, columns, samples = given.records, given.keys, given.columns, list[Any]()
        for i in range(task.length if columns is None else 0):
            self._chain.timing = i == 0
            record, leaves = self._sample(task, i, records[i], keys[i], made, None)
            if made.faults:
                break
            samples.append(leaves)
            views.records[i], views.valid[i] = record, leaves is not None and not task.repeated
        if columns is not None:
            views.records[: task.length], views.valid[: task.length] = records, not task.repeated
        rows = task.length if self._chain.collates else task.length + task.pad
        views.records[task.length : rows], views.valid[task.length : rows] = -1, False
        answer: dict[str, Any] = {"part_rows": rows}
        if not made.faults:
            self._at(records[0] if task.length else 0)
            try:
                batch: Any = samples if self._chain.collates else columns or self._put.stacked(samples, rows)
                batch = self._chain.batch(batch, (task.epoch, task.first, 0), task.length)
                packed = Packed(batch, dumps_result, plain=True)
                answer |= self._packed_batch(packed, task.slot)
            except BaseException as error:
                fault = self._fault(0, records[0] if task.length else 0, error)
                fault.kind = "fatal"  # no record of it is known to be broken
                made.faults.append(fault)
        return made.answer(task.number, task.length, begin, seconds) | answer | self._timed()

    def _given(self, tasks: list[RowsTask]) -> Iterator[_Given]:
        """Of each task, when it is its turn, its records, and its samples where the chain makes those of many at once.

        Those of all tasks are made together, which costs little more than those of one; where that fails, since one of them is
        broken, or they are large, each task tries it by itself, and then makes them one by one.
        """
        if self._chain.expects:
            self._chain.expect([record for task in tasks for record in made_of(*self._places(task))])
        if len(tasks) > 1 and all(map(self._is_plain, tasks)):
            together = self._made_at_once(tasks, [_Given(*self._places(task)) for task in tasks])
            if together is not None:
                yield from together
                return
        for task in tasks:
            given = _Given(*self._places(task))
            alone = self._made_at_once([task], [given]) if self._is_plain(task) else None
            yield given if alone is None else alone[0]

    def _is_plain(self, task: RowsTask) -> bool:
        """Whether its samples may be made at once, as far as the task says."""
        if self._chain.collates or self._placed is not None or self._units is not None:
            return False
        return not task.pad and task.ahead < 0 and task.owner < 0 and task.length > 0

    def _made_at_once(self, tasks: list[RowsTask], given: list[_Given]) -> list[_Given] | None:
        """The same with the columns of each; None where they are not made at once, or not like the first sample."""
        self._cells[TASK] = tasks[0].number
        self._at(given[0].records[0])
        begin, cpu_begin = time.perf_counter(), time.thread_time()
        records = [record for one in given for record in one.records]
        self._chain.timing = True
        columns = self._chain.columns(records)
        self._chain.timing = False
        if columns is None or not self._put.fits(columns, len(records)):
            return None
        seconds = (time.perf_counter() - begin) / len(records)
        cpu_seconds = (time.thread_time() - cpu_begin) / len(records)
        made, at = [], 0
        for one in given:
            count = len(one.records)
            part = {name: column[at : at + count] for name, column in columns.items()} if len(given) > 1 else columns
            made.append(one._replace(columns=part, seconds=seconds * count, cpu_seconds=cpu_seconds * count))
            at += count
        return made

    def _sample(
        self, task: RowsTask, i: int, record: int, key: tuple[int, int, Any], made: Made, columns: Any
    ) -> tuple[int, Any]:
        """The record whose sample row `i` of the task is in the end, and the sample; None where it is masked.

        Its arrays are written into the slot where there are `columns` of it; `_WRITTEN` is a sample of nothing else.
        """
        (epoch, occurrence, part), draws = key, 0
        chain, cells = self._chain, self._cells
        while True:
            cells[RECORD] = record
            cells[SINCE] = _now()
            try:
                made_before = None
                if task.ahead >= 0 and not draws:
                    made_before = self._ahead.sample(task.ahead, task.row + i, record)
                sample = chain.sample(record, epoch, occurrence, part, made_before)
                if _forked:
                    os._exit(0)
                if chain.collates:
                    return record, sample
                row = task.row + i
                if columns is not None and self._put.put(sample, columns, row):
                    return record, _WRITTEN
                leaves = self._put.check(chain.leaves(sample), chain.label)
                if columns is not None:
                    self._put.put_leaves(leaves, columns, row)
                return record, leaves
            except BaseException as error:
                if _forked:
                    os._exit(0)
                fault = self._fault(task.row + i, record, error)
            position = task.first + i
            if fault.kind != "data" or task.policy == "raise":
                made.faults.append(fault)
                return record, None
            entry = {"record": record, "stage": fault.stage, "reason": fault.reason, "position": position}
            made.entries.append({**entry, "epoch": task.epoch, "substitute": None})
            if task.policy == "mask":
                return record, None
            if draws == _SUBSTITUTES:
                fault.reason += f"; {_SUBSTITUTES} substitutes were broken too"
                made.faults.append(fault)
                return record, None
            record, part = self._substitute(task.epoch, position, draws, record)
            made.entries[-1]["substitute"] = record
            draws, occurrence = draws + 1, 1 + position

    def _packed_batch(self, packed: Packed, slot: int) -> dict[str, Any]:
        """Into the slot's arena, or, where that is too small, a file of its own."""
        assert self._layout is not None
        if packed.size > self._layout.arena:
            return {"part": (packed.text, packed.places), "in_file": True, "fds": [packed.to_file("batch")]}
        packed.write(self._memory, slot * self._layout.size + self._layout.arena_at)
        return {"part": (packed.text, packed.places)}

    def _places(self, task: RowsTask) -> tuple[list[int], Sequence[tuple[int, int, Any]]]:
        """Of each position of the task its record; what keys its random numbers, epoch and occurrence; and which part of it it is."""
        if self._told is not None:
            records, before = self._told[:, task.first : task.first + task.length].tolist()
            return records, [(task.epoch, _AGAIN + times if times else 0, None) for times in before]
        if self._placed is not None:
            records, epochs = self._placed.rows(task.epoch, task.first, task.length)
            return records, [(epoch, 0, None) for epoch in epochs]
        if self._units is not None:
            found = [self._unit(unit) for unit in self._units.at(task.epoch, task.first, task.length)]
            return [record for record, _ in found], [(task.epoch, 0, part) for _, part in found]
        records = self._indices(task.epoch, task.first, task.length)
        if self._survivors is not None:
            records = self._survivors[records]
        if self._draws is not None:  # a record may come again
            until = task.first + task.length
            return records.tolist(), [(task.epoch, _AGAIN + at, None) for at in range(task.first, until)]
        return records.tolist(), [(task.epoch, 0, None)] * task.length

    def _indices(self, epoch: int, first: int, count: int) -> np.ndarray[Any, Any]:
        """What is at these positions of the order, as indices of what filters have left."""
        spec = self._spec
        if self._draws is None:
            self._draws = spec.draws(self._survivors)
        if self._draws is not None:
            return self._draws.at(epoch, first, count)
        if not spec.shuffle:
            return np.arange(first, first + count)
        if self._order[0] != epoch:
            total = spec.count if self._survivors is None else len(self._survivors)
            self._order = (epoch, _core.Permutation(spec.seed, epoch, total))
        records: np.ndarray[Any, Any] = self._order[1].records(first, count)
        return records

    def _unit(self, unit: Unit) -> tuple[int, Any]:
        """A unit of records, not of indices of survivors."""
        kept, part = self._survivors, unit.part
        if kept is None:
            return unit.place, part
        if part is not None and isinstance(part[1], tuple):
            part = (part[0], tuple(span._replace(place=int(kept[span.place])) for span in part[1]))
        return int(kept[unit.place]), part

    def _substitute(self, epoch: int, position: int, draw: int, record: int) -> tuple[int, Any]:
        seed = self._spec.seed
        if self._placed is not None:
            return self._placed.substitute(seed, epoch, position, draw, record), None
        if self._units is not None:
            drawn = _core.substitute(seed, epoch, position, draw, self._units.count)
            return self._unit(self._units.at(epoch, drawn, 1)[0])
        if self._draws is not None:
            at = _core.substitute(seed, epoch, position, draw, self._draws.count)
            drawn = int(self._draws.at(epoch, at, 1)[0])
            return (drawn if self._survivors is None else int(self._survivors[drawn])), None
        total = self._spec.count if self._survivors is None else len(self._survivors)
        drawn = _core.substitute(seed, epoch, position, draw, total)
        return (drawn if self._survivors is None else int(self._survivors[drawn])), None

    @staticmethod
    def _clear(views: Any, row: int) -> None:
        for column in views.fields.values():
            column[row : row + 1].reshape(-1).view(np.uint8)[:] = 0

    def _at(self, record: int) -> None:
        cells = self._cells
        cells[RECORD] = record
        cells[SINCE] = time.monotonic_ns()

    def _fault(self, row: int, record: int, error: BaseException) -> Fault:
        if isinstance(error, StopIteration):  # a `for` would take it for the end of the epoch
            told = RuntimeError(f"{self._chain.label} raised StopIteration; let it return or raise another error")
            told.__cause__, error = error, told
        fault = Fault(row, record, self._chain.label, error)
        if self._placed is not None and self._placed.opening:
            fault.kind = "fatal"
        return fault

    def _timed(self) -> dict[str, Any]:
        chain = self._chain
        seconds, timed = chain.seconds, chain.timed
        chain.seconds, chain.timed, chain.timing = [0.0] * len(chain.labels), 0, False
        skipped = getattr(self._placed, "skipped", 0)
        former, self._skipped = self._skipped, skipped
        return {"stage_seconds": seconds, "timed": timed, "skipped": skipped - former}
