"""The events of a stream of Python functions: its workers' calls, and the trainer's waits for batches."""

from __future__ import annotations

import itertools
import time

from .. import _core

_numbers = itertools.count(1)


def step_key(epoch: int, after: int) -> int:
    """The number of a step in a trace: its epoch, and the first position behind it."""
    return (epoch << 40 | after) + 1


class CallTrace:
    """The trainer's side of one stream. Threads: one at a time."""

    def __init__(self) -> None:
        self.on = False  # whether the host tells of calls
        self._number = next(_numbers)
        self._asked = self._returned = self._batches = 0  # times in ns of CLOCK_MONOTONIC; 0: none

    def turned(self) -> bool:
        """Whether a trace began or ended since the last call: the host is then to be told `on`."""
        if _core.trace_on() == self.on:
            return False
        self.on = not self.on
        self._asked = self._returned = 0
        return True

    def asked(self) -> None:
        """The trainer asks for a batch; it may ask several times."""
        if self.on and not self._asked:
            self._asked = time.monotonic_ns()

    def called(self, calls: list[tuple[int, ...]]) -> None:
        """Calls that have ended: process, begin and end in ns, chunk, step_key(), rows, epoch."""
        _core.trace_calls(self._number, calls)

    def took(self, place: tuple[int, int, int], rows: int) -> None:
        """The trainer got the batch at `place`: step of the epoch, epoch, and the position behind it."""
        if not self.on:
            return
        _, epoch, after = place
        self._batches += 1
        asked = self._asked or time.monotonic_ns()
        _core.trace_next(self._number, self._returned, asked, self._batches, step_key(epoch, after), rows, epoch)
        self._asked, self._returned = 0, time.monotonic_ns()
