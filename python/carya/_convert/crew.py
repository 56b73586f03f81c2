"""Worker processes: runs of records come back in order, shards are compared beside them."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from .._errors import Error, IoError, WorkerDied
from .._records.records import Records
from .formats import Format
from .worker import Check, Failed, Piece, Run, serve

_WAITING_MAX = 256 << 20  # bytes of runs that are not at their turn
_AHEAD = 2  # runs per worker that may be begun


class Crew:
    """Threads: owner only. Processes end with their owner, however that ends."""

    def __init__(self, workers: int, records: Records, form: Format) -> None:
        context = multiprocessing.get_context("spawn")  # the owner may have threads
        self._members: list[_Member] = []
        try:
            with _no_interrupt():
                for _ in range(workers):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=serve, args=(theirs, os.getpid(), records, form), daemon=True)
                    process.start()
                    theirs.close()
                    self._members.append(_Member(process, ours))
        except BaseException:
            self.close()
            raise
        self._checks: deque[tuple[int, Check]] = deque()
        self._checked: dict[int, str] = {}
        self._next_check = 0
        self._waiting = 0  # bytes that arrived and were not taken

    def check(self, task: Check) -> int:
        """Have a shard compared; a number for `checked`."""
        self._checks.append((self._next_check, task))
        self._next_check += 1
        return self._next_check - 1

    def checked(self, number: int) -> str | None:
        """What differs in it, "" for nothing; None while that is not known."""
        return self._checked.get(number)

    def wait_for_check(self, number: int) -> str:
        while number not in self._checked:
            self._give_checks()
            self._receive(self._busy())
        return self._checked[number]

    def pieces(self, runs: Iterator[Run]) -> Iterator[tuple[Piece, bytes]]:
        """The pieces of all runs, in their order. Errors: those of a worker, WorkerDied."""
        begun: deque[_Turn] = deque()
        more = True
        while more or begun:
            self._give_checks()
            while more and len(begun) < _AHEAD * len(self._members):
                member = next((one for one in self._members if one.task is None), None)
                if member is None:
                    break
                run = next(runs, None)
                more = run is not None
                if run is not None:
                    begun.append(_Turn())
                    member.give(run, begun[-1])
            head = begun[0] if begun else None
            if head is not None and head.arrived:
                piece, data = head.arrived.popleft()
                self._waiting -= len(data)
                if piece.last:
                    begun.popleft()
                yield piece, data
            elif head is not None or more:
                busy = self._busy()
                if self._waiting >= _WAITING_MAX:
                    busy = [member for member in busy if member.turn in (head, None)]
                self._receive(busy)

    def close(self) -> None:
        for member in self._members:
            member.connection.close()
            member.process.terminate()
        for member in self._members:
            member.process.join(5)
            if member.process.is_alive():
                member.process.kill()
                member.process.join()

    def _busy(self) -> list[_Member]:
        return [member for member in self._members if member.task is not None]

    def _give_checks(self) -> None:
        for member in self._members:
            if self._checks and member.task is None:
                number, task = self._checks.popleft()
                member.give(task, None)
                member.check = number

    def _receive(self, members: list[_Member]) -> None:
        """Take what some of these send next."""
        ready = multiprocessing.connection.wait([member.connection for member in members])
        for member in members:
            if member.connection in ready:
                self._waiting += member.receive(self._checked)


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Processes that are started here ignore Ctrl-C from their first moment on: a terminal sends it to all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Turn:
    """What has come of a run."""

    def __init__(self) -> None:
        self.arrived: deque[tuple[Piece, bytes]] = deque()


class _Member:
    """A process and what it does."""

    def __init__(self, process: Any, connection: Any) -> None:
        self.process, self.connection = process, connection
        self.task: Run | Check | None = None
        self.turn: _Turn | None = None
        self.check = -1

    def give(self, task: Run | Check, turn: _Turn | None) -> None:
        self.task, self.turn = task, turn
        try:
            self.connection.send(task)
        except OSError:
            raise self._died() from None

    def receive(self, checked: dict[int, str]) -> int:
        """Take an answer; how many bytes of records came with it. Errors: those of the worker, WorkerDied."""
        try:
            answer = self.connection.recv()
            data = self.connection.recv_bytes() if isinstance(answer, Piece) else b""
        except (EOFError, OSError):
            raise self._died() from None
        if isinstance(answer, Error):
            raise answer
        if isinstance(answer, Failed):
            what = (
                "give fewer --workers" if answer.kind == "MemoryError" else "mend that and run the same command again"
            )
            raise IoError(f"convert: {answer.kind}: {answer.said}; {what}")
        if isinstance(answer, Piece) and self.turn is not None:
            self.turn.arrived.append((answer, data))
            if answer.last:
                self.task = None
        else:
            checked[self.check] = answer
            self.task = None
        return len(data)

    def _died(self) -> WorkerDied:
        self.process.join(1)
        did = f"compared {self.task.path}" if isinstance(self.task, Check) else f"read records {_span(self.task)}"
        return WorkerDied(
            f"convert: the process that {did} ended with status {self.process.exitcode}; give fewer --workers if memory is "
            "short, and run the same command again"
        )


def _span(run: Run | None) -> str:
    return f"{run.first:,} to {run.stop - 1:,}" if run is not None else ""
