"""The thread that takes batches from a loader ahead of the trainer, and its bounded queue.

1. The trainer's thread makes the iterator, so that what a loader draws then is drawn where it would be without a wrapper.
2. The thread takes one batch, then the loader's state, and puts both into the queue: a state belongs to the batch before it, and
   what lies in the queue is in no state that was handed out.
3. It waits while the queue is full, and behind an exception until the trainer asks for more, as it would without a thread.
4. `stop()` only sets a flag: the call of the loader that runs cannot be ended, and `join()` waits for it.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import math
import os
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from .._errors import ForkedError
from .figures import Figures

# Waits are cut into slices, so that Ctrl-C and a fork are noticed.
_SLICE_S = 0.2
# How long the interpreter's exit waits for a call of the loader.
_EXIT_S = 10.0


class Made:
    """What the loader gave: a batch, or how it ended. `state`: of the loader behind it, or the exception of asking for it."""

    __slots__ = ("error", "lies", "shares", "state", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value, self.error = value, error
        self.state: Any = None
        self.lies: frozenset[int] = frozenset()  # where its arrays begin
        self.shares = False  # it lies where one lies which was not delivered yet


def snapshot(state_of: Callable[[], Any] | None) -> Any:
    """A copy of a loader's state, which may be a dict that it goes on changing; the exception where it has none to give."""
    if state_of is None:
        return None
    try:
        return copy.deepcopy(state_of())
    except Exception as error:
        return error


class _Bell:
    """Wakes one thread that waits for another one. A ring that Ctrl-C loses costs a slice, no more: a lock would stay locked."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()
        self._awaited = False

    def wait(self, done: Callable[[], bool]) -> None:
        """Until a ring, for a slice at most, unless `done()`."""
        self._awaited = True
        if not done():
            with contextlib.suppress(Empty):
                self._rings.get(timeout=_SLICE_S)
        self._awaited = False

    def ring(self) -> None:
        if self._awaited:
            self._awaited = False
            self._rings.put(None)


class Feeder:
    """`ahead` batches of `iterator`, taken by a thread of its own. Threads: one trainer's."""

    def __init__(
        self, iterator: Iterator[Any], ahead: int, state_of: Callable[[], Any] | None, figures: Figures, name: str
    ) -> None:
        self._iterator: Iterator[Any] | None = iterator
        self._ahead, self._state_of, self._figures, self._name = ahead, state_of, figures, name
        self._queue: deque[Made] = deque()
        self._filled, self._taken = _Bell(), _Bell()
        self._stopped = False
        self._halted = False  # behind an exception
        self._told = False  # of batches in each other's memory
        # What the trainer is about to take: Ctrl-C at any place finds it here or in the queue, or in both (`_gone`).
        self.hand: Made | None = None
        self._gone: Made | None = None
        self._pid = os.getpid()
        # Ctrl-C may come before `_started` is set: a second thread finds `_once` taken and ends.
        self._started = self._over = False
        self._once = threading.Lock()
        self._ended = _Bell()

    def ready(self) -> int:
        return len(self._queue)

    def next(self) -> Made:
        """The next item, in `hand` until the caller puts None there. Waits as long as the loader does."""
        if self.hand is not None:
            return self.hand
        if not self._started:
            _RUNNING.add(self)
            try:
                threading.Thread(target=self._run, name="carya.wrap", daemon=True).start()
            except RuntimeError as error:  # start() waits by a lock, which Ctrl-C may find released
                raise error.__context__ if isinstance(error.__context__, KeyboardInterrupt) else error from None
            self._started = True
        while True:
            if self._queue and self._queue[0] is self._gone:
                self._queue.popleft()  # Ctrl-C came before it
            if self._queue:
                break
            if os.getpid() != self._pid:
                raise ForkedError("wrap: used in a forked child; wrap the loader again there")
            self._halted = False
            self._taken.ring()
            self._filled.wait(lambda: bool(self._queue))
        self.hand = self._gone = self._queue[0]
        self._queue.popleft()
        self._gone = None
        self._taken.ring()
        if self.hand.shares:
            self.hand.shares = False
            warnings.warn(
                f"wrap: {self._name} gave a batch that lies where one lies which was not delivered yet: if it writes each batch "
                "over the one before, give carya.wrap(loader, ahead=0), or let it yield copies",
                RuntimeWarning,
                stacklevel=3,
            )
        return self.hand

    def stop(self) -> None:
        """Take nothing more. Any thread, also a finalizer's."""
        self._stopped = True
        self._taken.ring()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the loader's call that runs has ended, after `stop()`."""
        if os.getpid() != self._pid or self._once.acquire(blocking=False):
            return  # no thread has begun, and one that is about to finds `_once` taken
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._over and time.monotonic() < end:
            self._ended.wait(lambda: self._over)

    # In the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if not self._once.acquire(blocking=False):
            return
        ended = False
        while not ended and self._has_room():
            ended = self._fill()
        self._iterator = None  # a generator is closed here, and its `finally` runs
        _RUNNING.discard(self)
        self._over = True
        self._ended.ring()

    def _fill(self) -> bool:
        """Put one item into the queue; whether it is the last."""
        made = self._made()
        made.shares = not self._told and any(made.lies & other.lies for other in tuple(self._queue))
        self._told = self._told or made.shares
        self._halted = made.error is not None
        self._queue.append(made)
        self._filled.ring()
        return isinstance(made.error, StopIteration)

    def _has_room(self) -> bool:
        begun = time.perf_counter()
        while not self._stopped and not self._may_go_on():
            self._taken.wait(lambda: self._stopped or self._may_go_on())
        self._figures.idle_seconds += time.perf_counter() - begun
        return not self._stopped

    def _may_go_on(self) -> bool:
        return not self._halted and len(self._queue) < self._ahead

    def _made(self) -> Made:
        assert self._iterator is not None
        begun, cpu = time.perf_counter(), time.thread_time()
        try:
            made = Made(next(self._iterator))
        except BaseException as error:  # also SystemExit, which is the trainer's to see
            made = Made(error=error)
        ended = time.perf_counter()
        if made.error is None:
            self._figures.made(ended - begun, time.thread_time() - cpu)
            made.lies = addresses(made.value)
        if self._state_of is not None:
            made.state = snapshot(self._state_of)
            self._figures.state_seconds += time.perf_counter() - ended
        return made


def leaves(batch: Any) -> list[Any]:
    """The values of a batch that is a mapping or a sequence, else the batch."""
    if isinstance(batch, Mapping):
        return list(batch.values())
    return list(batch) if isinstance(batch, tuple | list) else [batch]


def addresses(batch: Any) -> frozenset[int]:
    """Where the arrays and tensors of a batch begin that may be written."""
    found = set()
    for leaf in leaves(batch):
        with contextlib.suppress(Exception):  # sparse, of no memory, or an object that answers to everything
            if hasattr(leaf, "data_ptr"):
                found.add(int(leaf.data_ptr()))
            elif hasattr(leaf, "__array_interface__"):
                address, read_only = leaf.__array_interface__["data"]
                found.add(0 if read_only else int(address))
    return frozenset(found - {0})


_RUNNING: weakref.WeakSet[Feeder] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    """Threads that still call into a loader end before the interpreter takes its modules apart."""
    running = list(_RUNNING)
    for feeder in running:
        feeder.stop()
    for feeder in running:
        feeder.join(_EXIT_S)
