"""Turns with the jobs of a daemon, which shares the cores by weight: how many processes of a job may be busy now."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from .. import _core
from .._errors import Error, Unsupported

# How often the daemon is asked: where nobody else wants the cores, where somebody does, and while it is others' turn.
_ALONE_S, _SHARED_S, _HELD_S = 0.1, 0.008, 0.003
# A daemon that is not there is looked for again so often; processes are taken to compute as much as in so many seconds before.
_SEEK_S, _REMEMBERED_S = 2.0, 0.1


class Turns:
    """One job's. Threads: one at a time. No daemon, or one that ends, is no error: the system shares the cores then."""

    def __init__(self, socket: str, weight: float) -> None:
        self._socket, self._weight = socket, weight
        self._seat: _core.TurnSeat | None = None
        self._next = 0.0  # when the daemon is asked again, or looked for
        self._cpu: dict[int, int] = {}  # CPU time of processes when it was last asked for, in ns
        # The time that they computed or waited for a core until then, in ns; empty: unknown.
        self._ran: dict[int, int] = {}
        self._asked = 0.0
        self._computing = math.inf  # how many of them do one or the other, on average, while they may
        self._wants = 0
        self.allowed: float = math.inf  # processes that may be busy
        self.held = False  # somebody had to wait for that; said by who gives the work
        self.held_s = 0.0  # for so long in all

    def close_in_child(self) -> None:
        """A forked worker has no turn of its own."""
        self._seat = None

    def wait_s(self, longest: float) -> float:
        """How long to sleep before it is time to `look` again."""
        if self._seat is None or not (self._wants or self.held):
            return longest
        return min(longest, max(0.0, self._next - time.monotonic()))

    def is_time(self) -> bool:
        """Whether the daemon is to be asked, or looked for, now."""
        return time.monotonic() >= self._next

    def look(self, processes: Sequence[int], busy: int) -> None:
        """Ask the daemon. `processes`: of this job; `busy`: those that have something to do."""
        now = time.monotonic()
        try:
            if self._seat is None:
                self._seat = _core.TurnSeat(self._socket)
                self._cpu = {}
            self._ask(self._seat, processes, busy, now)
        except Unsupported:  # a daemon of an earlier version
            self._part(now + 3600)
        except (Error, OSError):
            self._part(now + _SEEK_S)

    def _part(self, until: float) -> None:
        self._seat, self._next, self.allowed, self.held = None, until, math.inf, False

    def _ask(self, seat: _core.TurnSeat, processes: Sequence[int], busy: int, now: float) -> None:
        cpu, ran = {pid: _cpu_ns(pid) for pid in processes}, {pid: _ran_ns(pid) for pid in processes}
        if self.held:
            self.held_s += now - self._asked
        else:
            self._note_computing(ran, now)
            self._wants = busy if self._computing > busy / 2 else math.ceil(self._computing)
        used = sum(max(0, ns - self._cpu.get(pid, ns)) for pid, ns in cpu.items())
        self.allowed, alone = seat.report(self._weight, used, self._wants)
        self._cpu, self._asked = cpu, now
        self._ran = ran if self.allowed and busy else {}
        self._next = now + (_HELD_S if self.held else _ALONE_S if alone else _SHARED_S)
        self.held = False

    def _note_computing(self, ran: dict[int, int], now: float) -> None:
        """Processes that wait for storage or sleep have no use for a core that others leave."""
        if not self._ran:
            return
        both = sum(max(0, ns - self._ran[pid]) for pid, ns in ran.items() if pid in self._ran)
        passed = now - self._asked
        seen, part = both * 1e-9 / passed, min(1.0, passed / _REMEMBERED_S)
        self._computing = seen if self._computing == math.inf else self._computing + part * (seen - self._computing)


def _cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process; 0 when it is gone."""
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)  # CPUCLOCK_SCHED of another process: clock_getcpuclockid(3)
    except OSError:
        return 0


def _ran_ns(pid: int) -> int:
    """How long the first thread of a process computed or waited for a core; 0 when it is gone, or the system does not say."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return 0
    return int(ran) + int(waited)
