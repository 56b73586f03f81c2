"""One trainer's worker on this machine: a connection, and the process that makes its rows.

The process is an ordinary worker, started by exec, with slots of its own. This one, which runs nothing of the user's, hands
it what it is told, and sends back the rows that it has made.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import selectors
import sys
import time
from typing import Any

from .._errors import Error
from .._functions import worker
from .._functions.crew import Worker
from .._functions.schedule import RowsTask
from .._functions.start import start_worker
from .._processes.system import environment, how_it_ended, memory_kills
from .._processes.transport import Channel, file_of, mapped_private, memory_file
from .._processes.wire import Wire, versions

_WATCH_S = 0.5
_BEAT_S = 2.0
_OPEN_S = 120.0
_HERE_S = 30.0  # the other side takes what is sent within


class _RefusedError(Exception):
    pass


class _GoneError(Exception):
    """The worker has died, and how."""


def serve(wire: Wire, taken: Any) -> None:
    """Until the trainer's side closes the connection or the worker dies. `taken()`: whether there was a place left for it.

    Errors: OSError, EOFError, ValueError: of the connection.
    """
    (kind, opening), blobs = wire.receive()
    if kind != "open":
        raise ValueError(kind)
    try:
        if not taken():
            raise _RefusedError("all its processes are taken; it is asked again")
        session = _Session(wire, opening, blobs)
    except _RefusedError as error:
        wire.send(("refused", str(error)))
        return
    try:
        session.run()
    except _GoneError as error:
        wire.send(("gone", str(error)))
    except Error as error:  # such as no memory for slots
        wire.send(("gone", f"{error}; make room on that machine"))
    finally:
        session.end()


def _own_ops(opening: dict[str, Any]) -> str:
    """The libraries of the trainer's own operations that lie here too, and those that this worker was started with."""
    named = [*os.environ.get("CARYA_OPS", "").split(":"), *opening.get("ops", "").split(":")]
    return ":".join(dict.fromkeys(path for path in named if os.path.isfile(path)))


class _Session:
    def __init__(self, wire: Wire, opening: dict[str, Any], blobs: list[bytearray]) -> None:
        own = versions([name for name in opening["versions"] if name not in ("carya", "machine", "python")])
        for name, wanted in opening["versions"].items():
            if own.get(name) != wanted:
                raise _RefusedError(
                    f"it has {name} {own.get(name, 'not at all')}, and the trainer {wanted}; install the same"
                )
        script = opening["message"][4].get("init_main_from_path")
        if script and not os.path.isfile(script):
            raise _RefusedError(
                f"the script {script} is not there; install cloudpickle where the trainer runs, or put the functions into a module"
            )
        sys.path += [path for path in opening["path"] if path not in sys.path and os.path.isdir(path)]
        self._wire, self._limits = wire, opening
        self._views: list[Any] = []
        self._memory: Any = None
        self._layout: Any = None
        self._said = time.monotonic()
        self._kills = memory_kills()
        self._poll = selectors.DefaultSelector()
        self._begin(opening, blobs)

    def _begin(self, opening: dict[str, Any], blobs: list[bytearray]) -> None:
        mine, its = Channel.pair()
        dump = os.memfd_create("carya-dump", os.MFD_CLOEXEC)
        cells = memory_file("cells", 8 * worker.CELLS)
        pid = start_worker(its, dump, cells, 0, {**environment(), "CARYA_OPS": _own_ops(opening)})
        its.close()
        mapped = memoryview(mmap.mmap(cells, 8 * worker.CELLS)).cast("q")
        os.close(cells)
        self._worker = Worker(0, pid, Channel(mine), mapped, dump)
        files = [file_of("told", blob) for blob in blobs]
        self._worker.link.send(opening["message"], files)
        for fd in files:
            os.close(fd)
        self._worker.link.send(("digest", -1, opening["records"]))
        if not self._worker.link.readable(_OPEN_S):
            self._worker.kill(f"took more than {_OPEN_S:g} s", dump=True)
        if (got := self._worker.link.receive()) is None:
            how, dumped = self._ended()
            raise _RefusedError(f"its worker {how} while it opened the functions{dumped and ': ' + dumped[-1000:]}")
        self._poll.register(self._wire, selectors.EVENT_READ, self._hear)
        self._poll.register(self._worker.link, selectors.EVENT_READ, self._answered)
        self._poll.register(self._worker.pidfd, selectors.EVENT_READ, self._died)
        self._wire.timeout(_HERE_S)
        self._wire.send(("ready", {"digest": got[0][1][0]["digest"]}))

    def run(self) -> None:
        with contextlib.suppress(EOFError):
            while True:
                for key, _ in self._poll.select(_WATCH_S):
                    key.data()
                while self._wire.pending():
                    self._hear()
                self._worker.end_if_stuck(self._limits["function_timeout"], self._limits["rss_max"])
                now = time.monotonic()
                if now - self._said > _BEAT_S:
                    self._said = now
                    self._wire.send(("here",))

    def end(self) -> None:
        self._wire.close()
        if not self._worker.gone:
            self._worker.kill("")
            self._ended()

    def _hear(self) -> None:
        (kind, *rest), blobs = self._wire.receive()
        if kind == "give":
            self._worker.give(rest[1], (rest[0], rest[1]))
            return
        (message,) = rest
        if message[0] == "layout_is":
            _, _, self._layout, slots = message
            fd = memory_file("slots", self._layout.size * slots)
            self._memory = mmap.mmap(fd, self._layout.size * slots)
            self._views = [self._layout.views(self._memory, slot) for slot in range(slots)]
        else:
            fd = file_of("told", blobs[0])
        with contextlib.suppress(ConnectionError):
            self._worker.link.send(message, [fd])
        os.close(fd)

    def _answered(self) -> None:
        got = self._worker.link.receive()
        if got is None:
            self._poll.unregister(self._worker.link)
            self._worker.deaf = True
            return
        (_, answers, used), fds = got
        tasks = self._worker.answered()
        blobs: list[Any] = []
        for task, answer in zip(tasks, answers, strict=True):
            self._rows(RowsTask(*task), answer, fds, blobs)
        self._said = time.monotonic()
        self._wire.send(("done", answers, used), blobs)

    def _rows(self, task: RowsTask, answer: dict[str, Any], fds: list[int], blobs: list[Any]) -> None:
        """What a task has made, as bytes."""
        if answer["faults"]:
            return
        views = self._views[task.slot]
        count = answer.get("part_rows", task.length + task.pad)
        for column in (views.records, views.valid, *views.fields.values()):
            blobs.append(column[task.row : task.row + count].reshape(-1).view("u1"))
        if "part" not in answer:
            return
        if answer.get("in_file"):
            blobs.append(mapped_private(fds.pop(0)))
            return
        _, places = answer["part"]
        size = max((at + length for at, length in places), default=0)
        begin = task.slot * self._layout.size + self._layout.arena_at
        blobs.append(memoryview(self._memory)[begin : begin + size])
        answer["in_arena"] = True

    def _ended(self) -> tuple[str, str]:
        one = self._worker
        one.gone = True
        _, status = os.waitpid(one.pid, 0)
        return one.why_killed or how_it_ended(status, memory_kills() > self._kills), one.said()

    def _died(self) -> None:
        while not self._worker.deaf and self._worker.link.readable():  # what it answered before it died
            self._answered()
        how, dump = self._ended()
        raise _GoneError(f"its worker {how}{dump and ': ' + dump[-1000:]}")
