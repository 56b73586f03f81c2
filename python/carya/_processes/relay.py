"""A process that stands in for a worker on another machine: its host takes it for a worker, and its rows come by TCP.

It writes what comes into the same slots as the workers here. When the other machine cannot be reached it says so, and its
host gives what it had to others; it then tries again and again.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import select
import signal
import socket
import time
from collections import deque
from typing import Any

import numpy as np

from .system import end_with_parent
from .transport import Channel, file_of
from .wire import Place, UnreachableError, Wire, connect

_CONNECT_S = 5.0
_OPEN_S = 120.0  # which the user's modules may take to be imported there
_AGAIN_S, _AGAIN_MAX_S = 1.0, 30.0
_SILENT_S = 8.0  # the other side says something each two seconds
_ROWS_JUDGED, _SHARE_MAX = 64, 0.7  # what bringing a row may cost of what making it does

_SLOT, _ROW, _COUNT, _PAD, _AHEAD = 4, 5, 3, 6, 10  # places in a task (`schedule.RowsTask`)


def main(link: int, host: int) -> None:
    """Until the host closes its end."""
    end_with_parent(host)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(link, False)
    channel = Channel(socket.socket(fileno=link))
    with contextlib.suppress(ConnectionError):
        if (got := channel.receive()) is not None:
            (_, place, opening), fds = got
            Relay(channel, place, opening, [_content(fd) for fd in fds]).run()


def _content(fd: int) -> Any:
    """The bytes of a file. Closes it."""
    try:
        size = os.fstat(fd).st_size
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ) if size else b""
    finally:
        os.close(fd)


class _OverError(Exception):
    """The host wants no more."""


class Relay:
    """Threads: the one of its process."""

    def __init__(self, link: Channel, place: Place, opening: dict[str, Any], blobs: list[Any]) -> None:
        self._link, self._place, self._opening, self._blobs = link, place, opening, blobs
        self._told: list[tuple[tuple[Any, ...], Any]] = []  # to every session
        self._views: list[Any] = []
        self._memory: Any = None
        self._layout: Any = None
        self._wire: Wire | None = None
        self._tasks: deque[list[Any]] = deque()  # of the messages that are not answered
        self._heard = self._next_try = 0.0
        self._pause = _AGAIN_S
        self._resting = False  # the host has been told so, and has not said that it knows
        self._parted = False  # for good
        self._rows = 0
        self._spent = self._saved = 0.0  # CPU seconds

    def run(self) -> None:
        with contextlib.suppress(_OverError):
            while True:
                self._turn()

    def _turn(self) -> None:
        if self._wire is None and not self._resting and time.monotonic() >= self._next_try:
            self._begin()
        wire = self._wire
        if wire is None or not wire.pending():
            watched = [self._link.fileno()] + ([] if wire is None else [wire.fileno()])
            readable, _, _ = select.select(watched, [], [], 0.5)
        else:
            readable = [wire.fileno()]
        if self._link.fileno() in readable:
            self._hear_host()
        if wire is None or wire is not self._wire:
            return
        try:
            if wire.fileno() in readable:
                self._heard = time.monotonic()
                self._hear(wire)
            elif time.monotonic() - self._heard > _SILENT_S:
                raise EOFError(f"it has said nothing for {_SILENT_S:g} s")
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self._lost_by(error)

    # The other machine -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        try:
            wire = connect(self._place, _CONNECT_S)
        except UnreachableError as error:
            self._lost(str(error))
            return
        try:
            wire.send(("open", self._opening), self._blobs)
            wire.timeout(_OPEN_S)
            (kind, told), _ = wire.receive()
            if kind != "ready":
                raise ValueError(str(told))
            wire.timeout(_SILENT_S)
            for message, blob in self._told:
                wire.send(("tell", message), [blob])
            self._wire, self._heard = wire, time.monotonic()
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            wire.close()
            self._wire = None
            self._lost_by(error)
            return
        self._link.send(("back", told))

    def _lost_by(self, error: Exception) -> None:
        self._lost(f"{self._place.address}: {error}")

    def _say(self, message: tuple[Any, ...], *blobs: Any) -> None:
        assert self._wire is not None
        try:
            self._wire.send(message, blobs)
        except OSError as error:
            self._lost_by(error)

    def _lost(self, why: str) -> None:
        """The host takes back what it gave. Nothing more of it is written into the slots."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._tasks.clear()
        self._next_try = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _AGAIN_MAX_S)
        self._resting = True
        self._link.send(("away", why))

    def _hear(self, wire: Wire) -> None:
        began = time.process_time()
        message, blobs = wire.receive()
        kind, *rest = message
        if kind == "gone":
            raise ValueError(rest[0])
        if kind != "done":
            return  # it says that it is there
        answers, used = rest
        tasks = self._tasks.popleft()
        fds: list[int] = []
        try:
            blobs.reverse()
            for task, answer in zip(tasks, answers, strict=True):
                self._write(task, answer, blobs, fds)
            self._spent, self._pause = self._spent + time.process_time() - began, _AGAIN_S
            self._link.send(("done", answers, used), fds)
        except IndexError:
            raise ValueError("an answer without its rows") from None
        finally:
            for fd in fds:
                os.close(fd)
        self._judge()

    def _write(self, task: Any, answer: dict[str, Any], blobs: list[bytearray], fds: list[int]) -> None:
        """The rows of a task into the slot, and what is beside them into files."""
        self._rows += answer["rows"]
        self._saved += answer["cpu_seconds"]
        answer.pop("in_file", None)  # of a file there
        if answer["faults"]:
            return
        views, first = self._views[task[_SLOT]], task[_ROW]
        count = answer.get("part_rows", task[_COUNT] + task[_PAD])
        for column in (views.records, views.valid, *views.fields.values()):
            here = column[first : first + count]
            data = blobs.pop()
            if len(data) != here.nbytes:
                raise ValueError(f"rows of {len(data)} bytes in place of {here.nbytes}")
            here.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
        if "part" not in answer:
            return
        data = blobs.pop()
        if answer.pop("in_arena", False):
            at = task[_SLOT] * self._layout.size + self._layout.arena_at
            if len(data) > self._layout.arena:
                raise ValueError(f"a batch of {len(data)} bytes in place of {self._layout.arena}")
            memoryview(self._memory)[at : at + len(data)] = data
            return
        answer["in_file"] = True
        fds.append(file_of("afar", data))

    def _judge(self) -> None:
        """Rows that cost this machine nearly as much as making them here are not worth bringing."""
        if self._rows < _ROWS_JUDGED:
            return
        spent, saved = self._spent, self._saved
        self._rows, self._spent, self._saved = 0, 0.0, 0.0
        if spent > _SHARE_MAX * saved:
            self._pause = _AGAIN_MAX_S
            self._lost(
                f"{self._place.address}: bringing its rows here costs {spent / max(saved, 1e-9):.2f} of the CPU time that making "
                "them takes"
            )

    # The host ----------------------------------------------------------------------------------------------------------

    def _hear_host(self) -> None:
        got = self._link.receive()
        if got is None:
            raise _OverError
        message, fds = got
        kind = message[0]
        if kind == "stop":
            raise _OverError
        if kind == "rested":
            self._resting = self._parted
        elif kind == "part":
            self._parted = True
            self._lost(message[1])
        elif kind in ("rows", "step"):
            self._give(kind, message[1])
        elif kind == "ahead_is":  # rows that native threads have made stay here
            os.close(fds[0])
        else:
            self._tell(message, fds)

    def _give(self, kind: str, tasks: list[Any]) -> None:
        if self._wire is None:
            return  # given before the host knew: it gives them to others
        self._tasks.append(tasks)
        self._say(("give", kind, [(*task[:_AHEAD], -1) for task in tasks]))

    def _tell(self, message: tuple[Any, ...], fds: list[int]) -> None:
        blob: Any = b""
        if message[0] == "layout_is":
            _, _, self._layout, slots = message
            self._memory = mmap.mmap(fds[0], self._layout.size * slots)
            os.close(fds[0])
            self._views = [self._layout.views(self._memory, slot) for slot in range(slots)]
        else:
            blob = _content(fds[0])
        if message[0] == "order_is":
            self._told = [one for one in self._told if one[0][0] != "order_is"]
        self._told.append((message, blob))
        if self._wire is not None:
            self._say(("tell", message), blob)
