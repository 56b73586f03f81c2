"""The worker processes of a host: made, watched, ended, replaced."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .._processes.system import end_with_parent, how_it_ended, memory_kills, own_bytes
from .._processes.transport import Channel, memory_file
from .._processes.wire import Place
from . import worker
from .opening import Opened
from .start import start_worker

_CELL_BYTES = 8 * worker.CELLS
_DUMP_MAX = 64 << 10
_RELAY = "import sys; sys.path[:] = {path!r}; from carya._processes.relay import main; main({link}, {host})"
# How long a worker that hangs has to say where.
_DUMP_S = 1.0


class Worker:
    """One process. `chunks`: tasks that it was given and has not answered, in order."""

    def __init__(self, number: int, pid: int, link: Channel, cells: Any, dump: int) -> None:
        self.number, self.pid, self.link, self.cells, self.dump = number, pid, link, cells, dump
        self.pidfd = os.pidfd_open(pid)
        self.chunks: deque[Any] = deque()
        self._sizes: deque[int] = deque()  # how many of them came by each message
        self.afar = ""  # the address of the machine that it stands for
        self.away = ""  # why that makes nothing now
        self.rows = self.bounced = 0  # that it has made; chunks that were broken, one after the other
        self.hired_with: tuple[Any, ...] = ()  # what made it, where it stands for another machine's
        self.retiring = False
        self.timed_out = False
        self.why_killed = ""
        self.own_bytes = 0
        self.deaf = self.gone = False

    @property
    def messages(self) -> int:
        """Messages with tasks that it has not answered."""
        return len(self._sizes)

    def give(self, tasks: Sequence[Any], message: tuple[Any, ...]) -> None:
        """All of them by one message, which it answers by one."""
        self.chunks.extend(tasks)
        self._sizes.append(len(tasks))
        with contextlib.suppress(ConnectionError):  # it has died, and what it was given goes to another one
            self.link.send(message)

    def answered(self) -> list[Any]:
        """The tasks of its oldest message, which it has answered."""
        return [self.chunks.popleft() for _ in range(self._sizes.popleft())]

    def let_go(self) -> list[Any]:
        """All that it has not answered, and will not."""
        tasks = [*self.chunks]
        self.chunks.clear()
        self._sizes.clear()
        return tasks

    def busy_seconds(self) -> float:
        """How long its present call has taken; 0 when it is in none."""
        since = self.cells[worker.SINCE]
        return max(0.0, (time.monotonic_ns() - since) * 1e-9) if since else 0.0

    def busy_with(self) -> tuple[int, int, int] | None:
        """Record, stage and task of its present call."""
        if not self.cells[worker.SINCE]:
            return None
        return self.cells[worker.RECORD], self.cells[worker.STAGE], self.cells[worker.TASK]

    def kill(self, why: str, dump: bool = False) -> None:
        """End it; with `dump`, once it has said where it is."""
        self.why_killed = why
        if dump:
            os.kill(self.pid, signal.SIGUSR1)
            until, seen = time.monotonic() + _DUMP_S, -1
            while time.monotonic() < until:
                time.sleep(0.05)
                size = os.fstat(self.dump).st_size
                if size and size == seen:
                    break
                seen = size
        os.kill(self.pid, signal.SIGKILL)

    def end_if_stuck(self, limit: float | None, most: int | None) -> None:
        """End it where its present call takes more than `limit` seconds, or where it has grown past twice `most` bytes."""
        if self.why_killed:
            return
        if limit is not None and self.busy_seconds() > limit:
            self.timed_out = True
            self.kill(f"took more than {limit:g} s for one call and was ended", dump=True)
        elif most is not None and self.chunks and (used := own_bytes(self.pid)) > 2 * most:
            self.kill(f"used {used} bytes of memory, more than twice max_rss={most}, and was ended")

    def said(self) -> str:
        """What faulthandler wrote into its memory file."""
        size = min(os.fstat(self.dump).st_size, _DUMP_MAX)
        return os.pread(self.dump, size, 0).decode(errors="replace").strip()


class End(NamedTuple):
    """How a worker ended."""

    how: str  # for the user: "was killed by SIGSEGV"
    dump: str  # what faulthandler wrote
    stray: bool  # by a SIGKILL that is not known to be for what its record did: anybody may have sent it


class Crew:
    """As many workers as the spec says, made by fork from this process, or, where that is unsafe, by exec.

    `hired` is called with each new one. `close_in_child`: what a forked child must let go of.
    """

    def __init__(self, opened: Opened, hired: Callable[[Worker], None], close_in_child: Callable[[], None]) -> None:
        self._opened, self._hired, self._close_in_child = opened, hired, close_in_child
        self._spec = opened.spec
        self._workers: dict[int, Worker] = {}
        self._told: list[tuple[tuple[Any, ...], int]] = []  # to every worker, also to new ones, with a descriptor
        self._cells_fd = memory_file("cells", self._spec.workers * _CELL_BYTES)
        self._cells = mmap.mmap(self._cells_fd, self._spec.workers * _CELL_BYTES)
        self._memory_kills = memory_kills()
        self._died = self._recycled = 0

    def busy(self) -> int:
        """How many of this machine's have something to do."""
        return sum(1 for one in self._workers.values() if one.messages and not one.afar)

    def __iter__(self) -> Iterator[Worker]:
        """Those of this machine first."""
        return iter([self._workers[number] for number in sorted(self._workers)])

    def fill(self) -> None:
        for number in range(self._spec.workers):
            self._make(number)

    def tell(self, message: tuple[Any, ...], fd: int) -> None:
        """To all that there are and will be. Keeps the descriptor."""
        self._told.append((message, fd))
        for one in self:
            self.say(one, message, [fd])

    def tell_anew(self, message: tuple[Any, ...], fd: int) -> None:
        """The same, in place of what was told by the former message of this kind."""
        for former in [told for told in self._told if told[0][0] == message[0]]:
            self._told.remove(former)
            os.close(former[1])
        self.tell(message, fd)

    @staticmethod
    def say(one: Worker, message: tuple[Any, ...], fds: list[int]) -> None:
        """To one of them, if it lives."""
        with contextlib.suppress(ConnectionError):  # its successor is told
            one.link.send(message, fds)

    def hire_afar(self, place: Place, opening: dict[str, Any]) -> None:
        """One more, which stands for a worker of another machine. It is away until it says otherwise."""
        mine, its = Channel.pair()
        code = _RELAY.format(path=sys.path, link=its.fileno(), host=os.getpid())
        process = subprocess.Popen([sys.executable, "-c", code], pass_fds=[its.fileno()], stdin=subprocess.DEVNULL)
        process.returncode = 0  # it is waited for here
        its.close()
        number = max(self._workers) + 1
        one = Worker(
            number, process.pid, Channel(mine), [0] * worker.CELLS, os.memfd_create("carya-dump", os.MFD_CLOEXEC)
        )
        one.afar, one.away = place.address, "it is asked for the first time"
        one.hired_with = (place, opening)
        self._workers[number] = one
        self._hired(one)
        self.say(one, ("relay", place, opening), self._opened.fds)
        for message, fd in self._told:
            self.say(one, message, [fd])

    def _make(self, number: int) -> None:
        mine, its = Channel.pair()
        dump = os.memfd_create("carya-dump", os.MFD_CLOEXEC)
        cells = self._cells_of(number)
        for i in range(worker.CELLS):
            cells[i] = 0
        if self._opened.why_spawned:
            pid = self._spawned(number, its, dump)
        else:
            pid = self._forked(number, mine, its, cells, dump)
        its.close()
        one = Worker(number, pid, Channel(mine), cells, dump)
        self._workers[number] = one
        self._hired(one)
        if self._opened.why_spawned:
            self.say(one, self._opened.message, self._opened.fds)
        for message, fd in self._told:
            self.say(one, message, [fd])

    def _cells_of(self, number: int) -> Any:
        return memoryview(self._cells)[number * _CELL_BYTES : (number + 1) * _CELL_BYTES].cast("q")

    def _forked(self, number: int, mine: socket.socket, its: socket.socket, cells: Any, dump: int) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            end_with_parent(parent)
            mine.close()
            self._close_in_child()
            for other in self:
                other.link.close()
                os.close(other.pidfd)
                os.close(other.dump)
            for _, fd in self._told:
                os.close(fd)
            source = self._opened.source
            spec = self._spec if source is not None else self._opened.again()
            worker.serve(Channel(its), spec, source or spec.open(), cells, dump, number)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)

    def _spawned(self, number: int, its: socket.socket, dump: int) -> int:
        return start_worker(its, dump, self._cells_fd, number)

    def watch(self, one: Worker) -> None:
        """End a worker that hangs or grows without bounds within a call."""
        if not one.afar:
            one.end_if_stuck(self._spec.function_timeout, self._spec.rss_max)

    def ended(self, one: Worker) -> End:
        """How a process that is gone went; its descriptors are closed."""
        one.gone = True
        _, status = os.waitpid(one.pid, 0)
        kills = memory_kills()
        for_memory, self._memory_kills = kills > self._memory_kills, kills
        how = one.why_killed or how_it_ended(status, for_memory)
        dump = one.said()
        one.link.close()
        os.close(one.pidfd)
        os.close(one.dump)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return End(how, dump, killed and not one.why_killed and not for_memory)

    def replace(self, one: Worker, retired: bool) -> None:
        """A new one in its place."""
        del self._workers[one.number]
        self._recycled += retired
        self._died += not retired
        if one.afar:
            with contextlib.suppress(OSError):  # no process can be made: it is done without
                self.hire_afar(*one.hired_with)
        else:
            self._make(one.number)

    def figures(self) -> dict[str, Any]:
        own = [one for one in self if not one.afar]
        return {
            "workers": len(own),
            "pids": [one.pid for one in own],
            "afar": [{"address": one.afar, "away": one.away, "rows": one.rows} for one in self if one.afar],
            "died": self._died,
            "recycled": self._recycled,
        }
