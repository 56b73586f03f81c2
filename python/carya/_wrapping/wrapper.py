"""`carya.wrap`: a loader of another library behind a thread and a bounded queue, with the figures of `carya.Loader`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from .._errors import InvalidArgument, Unsupported, invalid
from .._options import integer
from .feeder import Feeder, Made, leaves, snapshot
from .figures import Figures
from .headroom import Headroom, compared
from .report import written

_OWN = frozenset(("_loader", "_ahead", "_states", "_figures", "_feeder", "_turn", "_state", "_headroom"))
_STATE = ("state_dict", "load_state_dict")


def wrap(loader: Any, *, ahead: int = 2, states: bool = True) -> Wrapped:
    """Put any iterable loader behind a thread that takes batches ahead, and measure who waits for whom.

    loader: a torch DataLoader, what a generator function returned, a numpy iterator of tf.data, a list: what `for` takes.
    ahead: batches that lie ready, 1 to 1024. 0: no thread; the trainer takes each batch itself, and only times are measured.
    states: ask the loader's `state_dict()` behind each batch, where it has one, so that states are exact although batches lie ready.

    The same batches in the same order; an exception comes in its place with its traceback, and the next `for` or `next()` goes on as
    the loader does. `len()` and attributes are the loader's. One iterator at a time is live: a newer one ends it. A `break` drops what
    lay ready, as the loader's own workers drop it; of an iterator, which cannot begin anew, it is kept for the next `for`.

    `state_dict()` and `load_state_dict()` exist where the loader has them: a state is that of the last batch that was delivered, not
    of those that lie ready. With ahead=0 they are the loader's own.

    The thread is one of the trainer's process: it needs the interpreter's lock as the loader does, and a loader that draws from a
    global random generator in this process (`num_workers=0`) draws at other moments than without it: give ahead=0 there.

    Errors: InvalidArgument (`loader` is nothing to iterate over; `ahead`). RuntimeWarning: batches that lie in each other's memory,
    which a loader may write over before they are delivered.

    >>> import carya
    >>> loader = carya.wrap([1, 2, 3])
    >>> list(loader), len(loader), loader.stats()["batches"]
    ([1, 2, 3], 3, 3)
    """
    if callable(loader) and not hasattr(loader, "__iter__"):
        raise invalid("wrap: loader", loader, "what the function returns, such as wrap(batches())")
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise invalid("wrap: loader", loader, "an iterable, such as a DataLoader, a generator or a list")
    allowed = "a count of 0 to 1024 batches"
    return Wrapped(loader, integer("wrap: ahead", ahead, 0, allowed, 1024), bool(states))


class Wrapped:
    """What `carya.wrap` returns. Its other attributes are those of the loader."""

    def __init__(self, loader: Any, ahead: int, states: bool) -> None:
        self._loader, self._ahead, self._states = loader, ahead, states
        self._figures = Figures()
        self._feeder: Feeder | None = None  # of the live iterator
        self._turn = 0  # number of the live iterator
        self._state: Any = None  # of the last batch that was delivered; None: the loader's own is right
        self._headroom: Headroom | None = None

    def __iter__(self) -> Iterator[Any]:
        return _Batches(self)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # not made yet, as in a copy
            raise AttributeError(name)
        value = getattr(self._loader, name)
        if name in _STATE and self._ahead:
            return self._exact_state if name == "state_dict" else self._go_on
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._loader, name, value)

    def __repr__(self) -> str:
        return f"carya.wrap({self._loader!r}, ahead={self._ahead})"

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle what carya.wrap returned: it has a thread; pickle the loader, and wrap it again")

    # Iterating ------------------------------------------------------------------------------------------------------

    def _begun(self) -> Feeder | _Direct:
        """For a new iterator, which is the live one from here on."""
        is_iterator = hasattr(self._loader, "__next__")
        self._turn += 1
        if self._feeder is not None and not is_iterator:
            self._end()
        self._figures.begun()
        if self._feeder is not None:
            return self._feeder
        iterator = iter(self._loader)
        if not self._ahead:
            return _Direct(iterator, self._figures)
        state_of = getattr(self._loader, "state_dict", None) if self._states else None
        self._state = snapshot(state_of)
        self._feeder = Feeder(iterator, self._ahead, state_of, self._figures, type(self._loader).__name__)
        return self._feeder

    def _end(self) -> None:
        """Two threads never call into one loader."""
        feeder = self._feeder
        if feeder is not None:
            feeder.stop()
            feeder.join()
            self._feeder = None

    def close(self) -> None:
        """End the thread, which waits for the call of the loader that runs; then the loader's own `close`, where it has one.

        Batches that lay ready are dropped. Twice is harmless.
        """
        self._turn += 1
        self._end()
        close = getattr(self._loader, "close", None)
        if close is not None:
            close()

    # State ----------------------------------------------------------------------------------------------------------

    def _exact_state(self) -> Any:
        if not self._states:
            raise Unsupported(
                "wrap: state_dict: states=False was given, and the loader's own state counts batches that were not delivered yet; "
                "give states=True or ahead=0"
            )
        if isinstance(self._state, Exception):
            raise self._state
        return snapshot(self._loader.state_dict if self._state is None else lambda: self._state)

    def _go_on(self, *args: Any, **options: Any) -> Any:
        self._turn += 1
        self._end()
        self._state = None
        return self._loader.load_state_dict(*args, **options)

    # Figures --------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """What was measured since the start, in the words of `carya.Loader.stats()`; None where nothing is known yet.

        `batches`, `samples` (None where batches do not say how many), `batches_per_second`: delivered, inside of `for` loops.
        `step_seconds`: the trainer's own time per step, from a batch to asking for the next; the median of the last 240.
        `demand_per_second`: the samples that it takes when it never waits. `stall_seconds`, `stall_share`: what it waited, and the
        share of the time inside of `for` loops. `start_seconds`: how much of that was for the first batches of epochs.
        `make_seconds`, `make_cpu_seconds`: mean time of the loader's own call per batch, and CPU of this process's thread in it (not
        of its worker processes). `idle_seconds`: what the thread waited because enough lay ready. `state_seconds`: for states.
        `slots`: `count` (ahead) and `ready_mean`, how many batches lay ready when the trainer came for one.
        `place`: "thread", or "trainer" with ahead=0. `headroom`: what `headroom()` found last, or None.
        """
        found = self._figures.all()
        slots = {"count": self._ahead, "ready_mean": found.pop("ready_mean")}
        place = "thread" if self._ahead else "trainer"
        return {**found, "slots": slots, "place": place, "headroom": self._headroom}

    def headroom(
        self, step: Callable[[Any], Any], *, steps: int = 32, cached: int = 4, rounds: int = 2, carya: bool = True
    ) -> Headroom:
        """How much faster training would be with a loader that never makes it wait: a dict that prints as a text.

        `rounds` times in turn, `step(batch)` is called for `steps` batches of the loader, for as many of which the first `cached` are
        given again and again, and, with `carya`, for as many that a `carya.Loader` makes of the cached ones' arrays. Steps right behind
        a change are not counted. It trains on what it gets: give it a model that may be thrown away. On an accelerator `step` must
        wait for its result (`torch.cuda.synchronize()`), or `steps` be many more than are under way.

        Keys: `steps` counted of each kind; `present_seconds`, `replayed_seconds`, `carya_seconds` per step (the last None with `reason`,
        where batches are no arrays with one row per sample); `gain`: present / replayed; `hand_over_seconds` and `carya_cpu_seconds`
        per batch of Carya's (the latter None where too few were made for its samples to be timed).
        Errors: InvalidArgument (counts; the loader has no batch; it has no length and ends).
        """
        counts = [
            integer(f"wrap: headroom: {name}", value, 1, f"a count of 1 to {highest}", highest)
            for name, value, highest in (("steps", steps, 1 << 20), ("cached", cached, 1024), ("rounds", rounds, 1024))
        ]
        self._headroom = compared(self, step, *counts, carya=carya, lead=self._lead())
        return self._headroom

    def _lead(self) -> int:
        """Steps until what lies ready here and in the loader's own workers is used up."""
        workers = getattr(self._loader, "num_workers", 0)
        factor = getattr(self._loader, "prefetch_factor", 0)
        known = isinstance(workers, int) and isinstance(factor, int)
        return self._ahead + (min(workers * factor, 64) if known else 0) + 1

    def report(self) -> str:
        """The figures of `stats()` in sentences."""
        return written(self.stats(), type(self._loader).__name__)


class _Direct:
    """Without a thread: each batch is asked for when the trainer wants it."""

    def __init__(self, iterator: Iterator[Any], figures: Figures) -> None:
        self._iterator, self._figures = iterator, figures
        self.hand: Made | None = None

    def ready(self) -> int:
        return 0

    def next(self) -> Made:
        return self.hand or Made(next(self._iterator))

    def stop(self) -> None:
        """Nothing runs."""


class _Batches:
    """One `for` over a wrapped loader; live from its first batch on."""

    def __init__(self, of: Wrapped) -> None:
        self._of = of
        self._from: Feeder | _Direct | None = None
        self._turn = 0
        self._ended = False

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        of = self._of
        source = self._from
        if source is None:
            source = self._begin()
        elif self._turn != of._turn:
            raise InvalidArgument(
                "wrap: this iterator was overtaken by a newer one (or by load_state_dict, close); keep one `for` at a time, or wrap a "
                "second loader"
            )
        of._figures.asked(source.ready())
        made = source.next()
        if made.error is not None:
            self._failed(source, made)
        value = made.value
        of._figures.given(_rows(value))
        # All at once, without a call in between: Python takes Ctrl-C only at calls and jumps back.
        of._state, source.hand = made.state, None
        return value

    def _begin(self) -> Feeder | _Direct:
        of = self._of
        self._from = source = of._begun()
        self._turn = of._turn
        # Of an iterator what lies ready is kept for the next `for`, so that its thread ends with the loader.
        ends_with = of if hasattr(of._loader, "__next__") else self
        weakref.finalize(ends_with, source.stop).atexit = False
        return source

    def _failed(self, source: Feeder | _Direct, made: Made) -> NoReturn:
        assert made.error is not None
        if isinstance(made.error, StopIteration):
            self._ended = True
            self._of._feeder = None
            if made.state is not None:
                self._of._state = made.state
            raise StopIteration
        error, made.error, source.hand = made.error, None, None
        try:
            raise error
        finally:
            del error  # else its frames, and the batches in them, would wait for the garbage collector


def _rows(batch: Any) -> int:
    """Samples of a batch, by the first side of its first array or list; 0 where it does not say."""
    for leaf in leaves(batch):
        if isinstance(leaf, list):
            return len(leaf)
        if getattr(leaf, "shape", ()):
            return int(leaf.shape[0])
    return 0
