"""The host process of one stream: imports the user's code once, makes workers of it, and gives them what is due.

It is started by exec, never forked from the trainer, and has one thread, so that its workers can be forked at any time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import StreamShape
from .._errors import Timeout, WorkerDied
from .._processes.system import be_nicer, end_with_parent
from .._processes.transport import Channel, file_of
from .._processes.turns import Turns
from .._processes.wire import Place, versions
from .._stages.randomness import prepare_global_random
from .._tracing.calls import step_key
from .ahead import AheadSpec, Feeder
from .crew import Crew, End, Worker
from .faults import Fault, WorkerTraceback
from .layout import Field, Layout
from .opening import Opened, find_kept, open_payload, probe
from .schedule import Chunk, Schedule, Step
from .start import channel_of
from .steps import ListedSteps, Steps, budget_steps

_WATCH_S = 0.2
# The trainer is told of figures not more often.
_FIGURES_S = 0.02
# How often the trainer is told how far a pass over all records is.
_PROGRESS_S = 0.2
# Chunks that a worker is given by one message, and that one message answers, where they take a moment only.
_CHUNKS_MAX = 8
# Descriptors of one message to the trainer, but for those of a single step; it has room for 128 of them.
_FDS_MAX = 64
# Chunks that take longer are given one at a time, so that none waits behind another.
_LONG_S = 0.2
# A record is at fault when its calls have ended two workers; four, where somebody else may have killed them (`End.stray`).
_BLAME_MAX = 4
# Packages that decide bits, by the module that says whether they are used: another machine has the same versions.
_COMPARED = {
    **{name: name for name in ("numpy", "torch", "torchvision", "torchaudio", "scipy", "albumentations", "tokenizers", "jax")},
    "PIL": "pillow", "cv2": "opencv-python",
}  # fmt: skip
# Chunks of another machine that are broken one after the other, until it gets none any more.
_BOUNCED_MAX = 16
# So many deaths on end without one answer between them are no accident; more where each worker may be at a record that kills it.
_FRUITLESS_MAX = 12


def main(control: int, dump: int, trainer: int) -> None:
    """The host: until the trainer closes its end or is gone."""
    end_with_parent(trainer)  # while the user's modules are imported; later the trainer is watched
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(control, False)
    os.set_inheritable(dump, False)
    link = channel_of(control)
    prepare_global_random()
    try:
        got = link.receive()
        if got is not None:
            Host(link, trainer, dump).run(got[0], got[1])
    except (BrokenPipeError, ConnectionError):
        pass  # the trainer is gone
    except Exception:  # a mistake of ours, of which nobody would hear more than the signal below
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        # With it go the workers, and what the functions have started in this group.
        os.killpg(0, signal.SIGKILL)


class _OverError(Exception):
    """The trainer wants no more, or is gone."""


class Host:
    """Threads: the one of its process."""

    def __init__(self, link: Channel, trainer: int, dump: int) -> None:
        self._link, self._dump = link, dump
        self._trainer = os.pidfd_open(trainer)
        self._poll = selectors.DefaultSelector()
        self._poll.register(link, selectors.EVENT_READ, self._told)
        self._poll.register(self._trainer, selectors.EVENT_READ, self._over)
        self._crew: Crew
        self._opened: Opened
        self._schedule: Schedule | None = None
        self._feeder: Feeder | None = None
        self._why_not_ahead = ""
        self._turns: Turns | None = None
        self._shape: Steps | None = None  # of the next epoch that is sought, where it has one of its own
        self._sizes: np.ndarray[Any, Any] | None = None  # of records, where they say where a step ends
        self._asked_shape: dict[str, Any] = {}
        self._policy = "raise"
        self._tasks: list[tuple[int, tuple[Any, ...]]] = []  # that are no chunks, still to be given
        self._answers: dict[int, Any] = {}  # to those
        self._numbers = 0  # of those, downwards
        self._deaths: dict[tuple[int, int], list[End]] = {}  # of workers, by epoch and record
        self._fruitless = 0
        self._watched = 0.0
        self._told_at = 0.0  # when the trainer was told the figures
        self._told_crew: dict[str, Any] = {}
        self._calls: list[tuple[int, ...]] | None = None  # since the last news, while they are traced
        self._chunks_max = 1  # of one message to a worker
        self._compared: list[int] = []  # records that other machines have to make alike
        self._own_digest = 0  # the task that makes them here
        self._waiting: list[tuple[Worker, dict[str, Any]]] = []  # other machines, until that is done
        self._figures: dict[str, Any] = {
            "rows": 0,
            "seconds": 0.0,
            "cpu_seconds": 0.0,
            "timed": 0,
            "skipped": 0,
            "stages": [],
        }

    # Beginning ---------------------------------------------------------------------------------------------------------

    def run(self, message: tuple[Any, ...], fds: list[int]) -> None:
        """Answer the first message, which opens the stream, and serve until the trainer wants no more."""
        with contextlib.suppress(_OverError):
            try:
                told, arrays = self._open(message, fds)
            except _OverError:
                raise
            except BaseException as error:
                of_worker = isinstance(error.__cause__, WorkerTraceback)  # which knew the stage
                stage = getattr(error, "stage", "functions") if of_worker else "functions"
                self._link.send(("failed", Fault(0, getattr(error, "record", -1), stage, error)))
                self._link.receive()  # the trainer closes its end when it has read it
                return
            end_with_parent(None, wanted=False)  # a loader may be made by a thread that ends before it
            fds = [file_of("told", *arrays)] if arrays else []
            self._link.send(("opened", told), fds)
            for fd in fds:
                os.close(fd)
            while True:
                self._turn()

    def _open(self, message: tuple[Any, ...], fds: list[int]) -> tuple[dict[str, Any], list[Any]]:
        """What the trainer is told, and arrays that it needs: the sizes of records, where they say where a step ends; where only
        filters are asked, which records they keep, and for which of those they raised."""
        self._opened = open_payload(message, fds, self._dump)
        be_nicer(self._opened.spec.niceness)
        if self._opened.spec.turns is not None:
            self._turns = Turns(*self._opened.spec.turns)
        gc.collect()
        gc.freeze()  # pages of what exists stay shared with the workers
        self._figures["stages"] = [0.0] * len(self._opened.labels)
        self._crew = Crew(self._opened, self._hired, self._close_in_child)
        self._crew.fill()
        kept = find_kept(self._opened.spec, self.ask, self._crew.tell)
        if self._opened.spec.asks_only:
            assert kept.records is not None
            return {"kept": len(kept.records)}, [kept.records, kept.raised]
        if self._opened.spec.budget is not None:
            self._sizes = kept.sizes
        found = probe(self._opened.spec, kept, self.ask)
        self._compared = found.pop("compared")
        told = {**found, "spawned": self._opened.why_spawned, "labels": self._opened.labels}
        return told, [] if self._sizes is None else [self._sizes]

    def ask(self, messages: list[tuple[Any, ...]]) -> list[Any]:
        """Have workers do tasks that are no chunks; the answers, in order. Errors: WorkerDied, Timeout."""
        numbers = []
        for kind, *rest in messages:
            self._numbers -= 1
            numbers.append(self._numbers)
            self._tasks.append((self._numbers, (kind, self._numbers, *rest)))
        done, told_at = 0, time.monotonic()
        while done < len(numbers):
            if numbers[done] in self._answers:
                done += 1
                continue
            self._turn()
            if (now := time.monotonic()) - told_at >= _PROGRESS_S:
                told_at = now
                self._link.send(("progress", done / len(numbers)))
        answers = [self._answers.pop(number) for number in numbers]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _hired(self, one: Worker) -> None:
        self._poll.register(one.link, selectors.EVENT_READ, lambda: self._answered(one))
        self._poll.register(one.pidfd, selectors.EVENT_READ, lambda: self._died(one))

    def _close_in_child(self) -> None:
        self._poll.close()
        self._link.close()
        os.close(self._trainer)
        if self._feeder is not None:
            self._feeder.close_in_child()
        if self._turns is not None:
            self._turns.close_in_child()

    # One turn ----------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._give()
        for key, _ in self._poll.select(_WATCH_S if self._turns is None else self._turns.wait_s(_WATCH_S)):
            key.data()
        now = time.monotonic()
        if now - self._watched >= _WATCH_S:
            self._watched = now
            for one in list(self._crew):
                self._crew.watch(one)
        self._publish()
        if self._feeder is not None and self._schedule is not None and (spent := self._schedule.take_spent()):
            self._feeder.free(spent)

    def _over(self) -> None:
        raise _OverError

    def _told(self) -> None:
        try:
            while True:
                got = self._link.receive(wait=False)
                if got is None:
                    raise _OverError
                (kind, *rest), fds = got
                getattr(self, f"_do_{kind}")(*rest, *fds)
        except BlockingIOError:
            pass

    def _do_close(self) -> None:
        raise _OverError

    def _do_slots(
        self,
        fields: tuple[Field, ...],
        layout: Layout,
        slots: int,
        shape: dict[str, Any],
        epochs: dict[str, Any],
        ahead: AheadSpec | str,
        places: Sequence[Place],
        fd: int,
    ) -> None:
        spec = self._opened.spec
        least = -(-layout.rows // 100) if layout.objects else 1  # each chunk with objects sends a descriptor
        self._asked_shape = shape
        self._schedule = Schedule(
            StreamShape(**shape), slots, whole=spec.whole, chunk_rows_min=least, workers=spec.workers,
            owners=spec.workers if spec.sharded and not spec.whole else 0, ahead=not isinstance(ahead, str), **epochs
        )  # fmt: skip
        # Each chunk with objects sends a descriptor, and there may be many to a step; a whole batch sends one at most.
        self._chunks_max = 1 if layout.objects else _CHUNKS_MAX
        self._crew.tell(("layout_is", fields, layout, slots), fd)
        if isinstance(ahead, str):
            self._why_not_ahead = ahead
        else:
            order = (spec.kept, spec.draws(spec.kept))
            self._feeder = Feeder(ahead, self._opened.arrays, order, self._crew.tell, self._schedule.made_ahead)
            self._poll.register(self._feeder.link, selectors.EVENT_READ, self._fed)
        if places:
            self._numbers -= 1
            self._own_digest = self._numbers
            self._tasks.append((self._numbers, ("digest", self._numbers, self._compared)))
            opening = opening_afar(self._opened, self._compared)
            for place in places:
                with contextlib.suppress(OSError):  # no process can be made: it is done without
                    self._crew.hire_afar(place, opening)

    def _fed(self) -> None:
        assert self._feeder is not None
        assert self._schedule is not None
        if not self._feeder.hear():
            self._poll.unregister(self._feeder.link)
            self._schedule.end_ahead()
            self._why_not_ahead = self._feeder.why
            self._feeder.link.close()
            self._feeder = None

    def _do_seek(self, session: int, epoch: int, position: int, policy: str) -> None:
        assert self._schedule is not None
        self._policy = policy
        self._deaths.clear()
        if self._sizes is not None:
            self._shape = budget_steps(self._opened.spec, self._sizes, epoch, self._asked_shape)
        self._schedule.seek(session, epoch, position, self._shape)
        if self._feeder is not None:
            self._feeder.seek(session, epoch, position)

    def _do_order(self, epoch: int, count: int, shape: dict[str, Any] | int, fd: int) -> None:
        """Before the seek to an epoch with an order of its own. `shape`: how many steps there are, whose ends stand behind it."""
        if isinstance(shape, dict):
            self._shape = StreamShape(**shape)
        else:
            self._shape = ListedSteps(np.frombuffer(os.pread(fd, 8 * shape, 16 * count), np.int64))
        self._crew.tell_anew(("order_is", epoch, count), fd)

    def _do_trace(self, wanted: bool) -> None:
        self._calls = [] if wanted else None

    def _do_free(self, slots: Sequence[int]) -> None:
        assert self._schedule is not None
        for slot in slots:
            self._schedule.free(slot)

    # Giving ------------------------------------------------------------------------------------------------------------

    def _give(self) -> None:
        schedule = self._schedule
        seconds = schedule.row_seconds if schedule is not None else None
        long = seconds is None or (schedule is not None and seconds * schedule.chunk_rows > _LONG_S)
        self._take_turn()
        for depth in range(1 if long else 2):
            for one in self._crew:
                if one.retiring or one.why_killed or one.away or one.messages > depth or self._waits(one):
                    continue
                if not self._give_one(one, depth == 0) and (schedule is None or not schedule.owned) and not one.afar:
                    return

    def _take_turn(self) -> None:
        if self._turns is None or not self._turns.is_time():
            return
        processes = [os.getpid(), *(one.pid for one in self._crew if not one.afar)]
        if self._feeder is not None:
            processes.append(self._feeder.figures["pid"])
        self._turns.look(processes, self._crew.busy())

    def _waits(self, one: Worker) -> bool:
        """Whether it is the turn of other jobs of the machine, so that this worker gets nothing."""
        if self._turns is None or one.afar or self._turns.allowed >= self._opened.spec.workers:
            return False
        if self._crew.busy() + (not one.messages) <= self._turns.allowed:
            return False
        self._turns.held = True
        return True

    def _give_one(self, one: Worker, waits: bool) -> bool:
        if self._tasks and not one.afar:
            number, message = self._tasks.pop(0)
            one.give([(number, message)], message)
            return True
        schedule = self._schedule
        chunks = [] if schedule is None else schedule.next_chunks(self._chunks_max, one.number, bool(one.afar), waits)
        if not chunks:
            return False
        # The fields of RowsTasks: plain tuples are smaller pickles.
        tasks = [
            (chunk.number, chunk.step.epoch, chunk.step.first + chunk.row, chunk.count, chunk.step.slot, chunk.row,
             chunk.pad, chunk.step.repeated, self._policy, chunk.owner, chunk.step.ahead)
            for chunk in chunks
        ]  # fmt: skip
        one.give(chunks, ("step" if self._opened.spec.whole else "rows", tasks))
        return True

    def _answered(self, one: Worker) -> None:
        if one.gone:
            return
        got = one.link.receive()
        if got is None:  # it is ending: its pidfd says how
            self._poll.unregister(one.link)
            one.deaf = True
            return
        message, fds = got
        if message[0] != "done":
            getattr(self, f"_afar_{message[0]}")(one, *message[1:])
            return
        _, answers, one.own_bytes = message
        self._fruitless = 0
        most = self._opened.spec.rss_max
        one.retiring = one.retiring or (most is not None and one.own_bytes > most and not one.afar)
        tasks = one.answered()
        if one.afar and [task.number for task in tasks] != [answer["number"] for answer in answers]:
            for fd in fds:
                os.close(fd)
            one.chunks.extendleft(reversed(tasks))  # for others
            one.kill("answered what it was not asked")
            return
        for task, answer in zip(tasks, answers, strict=True):
            if isinstance(task, Chunk):
                self._take(one, task, answer, fds)
            else:
                self._answers[task[0]] = answer
                if task[0] == self._own_digest:
                    waiting, self._waiting = self._waiting, []
                    for other, told in waiting:
                        self._afar_back(other, told)
        if one.retiring and not one.chunks:
            one.link.send(("stop",))

    # Other machines ----------------------------------------------------------------------------------------------------

    def _afar_away(self, one: Worker, why: str) -> None:
        """It cannot be reached, or its worker has died: what it had goes to others."""
        one.away = why
        self._waiting = [other for other in self._waiting if other[0] is not one]
        for chunk in one.let_go():
            assert self._schedule is not None
            self._schedule.again(chunk)
        self._crew.say(one, ("rested",), [])

    def _afar_back(self, one: Worker, told: dict[str, Any]) -> None:
        """It can be reached. It makes rows once its samples are known to be those that are made here."""
        own = self._answers.get(self._own_digest)
        if own is None:
            self._waiting.append((one, told))
            return
        one.away = ""
        if isinstance(own, Exception) or own["digest"] != told["digest"]:
            self._part_from(
                one,
                f"{one.afar}: its samples are not those that are made here ({told['digest']}); give it the same files and packages, and "
                "functions that depend on nothing else",
            )

    def _part_from(self, one: Worker, why: str) -> None:
        """It gets nothing more. What it has goes to others once it says that it writes no more."""
        one.away = why
        self._crew.say(one, ("part", why), [])

    def _take(self, one: Worker, chunk: Chunk, answer: dict[str, Any], fds: list[int]) -> None:
        assert self._schedule is not None
        fd = fds.pop(0) if answer.get("in_file") else -1  # of several answers of one message some have a file
        if one.afar:
            if answer["faults"] or answer["entries"]:  # what is broken there is made again here, which knows why
                if fd >= 0:
                    os.close(fd)
                self._schedule.again(chunk)
                one.bounced += 1
                if one.bounced == _BOUNCED_MAX:
                    why = (answer["faults"] or [None])[0]
                    reason = why.reason if why else answer["entries"][0]["reason"]
                    self._part_from(one, f"{one.afar}: what it makes is broken, time after time: {reason}")
                return
            one.rows += answer["rows"]
            one.bounced = 0
        figures = self._figures
        figures["rows"] += answer["rows"]
        figures["seconds"] += answer["seconds"]
        figures["cpu_seconds"] += answer["cpu_seconds"]
        figures["timed"] += answer["timed"]
        figures["skipped"] += answer["skipped"]
        for i, stage in enumerate(answer["stage_seconds"]):
            figures["stages"][i] += stage
        if self._calls is not None:
            began = int(answer["began"] * 1e9)  # both clocks are CLOCK_MONOTONIC
            ended = began + int(answer["seconds"] * 1e9)
            step = chunk.step
            told = (one.number, began, ended, chunk.number, step_key(step.epoch, step.after), chunk.count, step.epoch)
            self._calls.append(told)
        self._schedule.note_cost(answer["seconds"], answer["cpu_seconds"], answer["rows"])
        part = None
        if "part" in answer and not chunk.step.dropped:
            part = (answer["part"], answer.get("part_rows"), fd)
        elif fd >= 0:
            os.close(fd)
        self._schedule.done(chunk, answer["faults"], answer["entries"], part)

    def _publish(self) -> None:
        batches: list[tuple[Any, ...]] = []
        fds: list[int] = []
        while self._schedule is not None and (step := self._schedule.take_ready()) is not None:
            if step.faults:
                self._send_batches(batches, fds)
                fault = min(step.faults, key=lambda one: one.row)
                self._link.send(("fault", step.session, fault, step.epoch, step.first + fault.row))
                continue
            parts = [part for _, part in sorted(step.parts, key=lambda one: one[0])]
            theirs = [fd for _, _, fd in parts if fd >= 0]
            if len(fds) + len(theirs) > _FDS_MAX:
                self._send_batches(batches, fds)
            rows = parts[0][1] if parts and parts[0][1] is not None else step.rows
            fds += theirs
            batches.append(self._told_of(step, rows, [(text, places, fd >= 0) for (text, places), _, fd in parts]))
        self._send_batches(batches, fds)

    def _send_batches(self, batches: list[tuple[Any, ...]], fds: list[int]) -> None:
        if not batches:
            return
        self._link.send(("batches", batches, self._news()), fds)
        for fd in fds:
            os.close(fd)
        batches.clear()
        fds.clear()

    @staticmethod
    def _told_of(step: Step, rows: int, parts: list[Any]) -> tuple[Any, ...]:
        entries = sorted(step.entries, key=lambda one: one["position"]) if step.entries else step.entries
        return step.session, step.slot, (step.epoch, step.position, step.after), rows, entries, parts

    def _news(self) -> dict[str, Any] | None:
        """The figures, where the trainer does not know nearly the same ones."""
        assert self._schedule is not None
        now, crew = time.monotonic(), self._crew.figures()
        if now - self._told_at < _FIGURES_S and crew == self._told_crew and not self._calls:
            return None
        self._told_at, self._told_crew = now, crew
        ahead = {"why_not": self._why_not_ahead} if self._feeder is None else self._feeder.figures
        news = {**self._figures, **crew, "chunk_rows": self._schedule.chunk_rows, "ahead": ahead}
        if self._turns is not None:
            news["held_seconds"] = self._turns.held_s
        if self._calls:
            news["calls"], self._calls = self._calls, []
        return news

    # Dying -------------------------------------------------------------------------------------------------------------

    def _died(self, one: Worker) -> None:
        if one.afar:  # the process that stands in for another machine
            if not one.deaf:
                self._poll.unregister(one.link)
            self._poll.unregister(one.pidfd)
            self._afar_away(one, f"{one.afar}: the process for it {self._crew.ended(one).how}")
            self._crew.replace(one, True)
            return
        while not one.deaf and one.link.readable():  # what it answered before it died
            self._answered(one)
        retired, blamed = one.retiring and not one.chunks, one.busy_with()
        if not one.deaf:
            self._poll.unregister(one.link)
        self._poll.unregister(one.pidfd)
        end = self._crew.ended(one)
        if not retired:
            self._fruitless += 1
            self._redo(one, end, blamed)
        self._crew.replace(one, retired)

    def _redo(self, one: Worker, end: End, blamed: tuple[int, int, int] | None) -> None:
        """Its tasks go to others, but for one whose record has ended too many workers."""
        record, stage, busy = blamed or (-1, 0, 0)
        for task in one.chunks:
            epoch, number = (task.step.epoch, task.number) if isinstance(task, Chunk) else (-1, task[0])
            error = None
            ends = [end]
            if number == busy:
                ends = self._deaths.setdefault((epoch, record), [])
                ends.append(end)
            guilty = number == busy and sum(1 if each.stray else 2 for each in ends) >= _BLAME_MAX
            if guilty or self._fruitless > max(_FRUITLESS_MAX, _BLAME_MAX * self._opened.spec.workers):
                error = _death(self._opened.labels[stage], record, ends, one.timed_out)
            if not isinstance(task, Chunk):
                if error is None:
                    self._tasks.insert(0, task)
                else:
                    self._answers[task[0]] = error
                continue
            assert self._schedule is not None
            if error is None:
                self._schedule.again(task)
            else:
                fault = Fault(task.row, error.record, self._opened.labels[stage], error)
                self._schedule.done(task, [fault], [], None)


def opening_afar(opened: Opened, records: list[int]) -> dict[str, Any]:
    """What another machine is told to begin a worker."""
    spec = opened.spec
    used = [package for module, package in _COMPARED.items() if module in sys.modules]
    used += [f"{package}-headless" for package in used if package == "opencv-python"]
    return {
        "message": opened.message,
        "versions": versions(used),
        "path": [path for path in sys.path if path],
        "ops": os.environ.get("CARYA_OPS", ""),
        "records": records,
        "function_timeout": spec.function_timeout,
        "rss_max": spec.rss_max,
    }


def _death(stage: str, record: int, ends: list[End], timed_out: bool) -> Any:
    how, dump, _ = ends[-1]
    before = {2: ", and so did a second one", 3: ", and so did two others", 4: ", and so did three others"}
    text = f"the worker process that ran {stage} {how}{before.get(len(ends), '')}"
    advice = (
        "give function_timeout= more seconds if it needs them"
        if timed_out
        else "run the function on this record by itself: pipeline.sample(record)"
        if record >= 0
        else "look at what it printed: it had no record yet, or none any more"
    )
    told = f"\nWhere it was:\n{dump}" if dump else ""
    kind = Timeout if timed_out else WorkerDied
    where = f"record {record}: " if record >= 0 else ""
    error: Any = kind(f"{where}{text}; {advice}{told}")
    error.record = record
    return error
