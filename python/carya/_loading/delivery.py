"""How the batches of a job reach the trainer: the contract between `Loader` and the loaders for frameworks."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from .. import _core
from .._dtypes import is_bfloat16
from .._errors import Exhausted
from .batch import Batch, Whole
from .state import Place

# A wait is cut into slices so that signals (Ctrl-C) are seen in between.
SLICE_S = 0.2


def _as_it_is(array: Any) -> Any:
    return array


def converted(value: Any, convert: Callable[[Any], Any]) -> Any:
    """`value` with `convert` of each array in it, inside of lists, tuples and dicts; other objects as they are."""
    if isinstance(value, np.ndarray):
        return convert(value) if value.dtype.kind in "biufc" or is_bfloat16(value.dtype) else value
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([converted(item, convert) for item in value])
    if kind is dict:
        return {name: converted(item, convert) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*[converted(item, convert) for item in value])
    return value


class Taken(Protocol):
    """What `_take` gives to `_wrap`: a batch of the job, or one on its way to a device."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Step of the epoch, epoch, and the position after the batch."""


class Delivery:
    """Numpy arrays over the slots of a job. `carya.torch.Loader` and `carya.jax.Loader` override what theirs do differently.

    The loader calls the methods, in one thread at a time: `_prepare_epoch` when a `for` begins; `_seek` where the stream
    does not go on by itself; then, for each step, `_take` and at once `_wrap` of what it gave. An error of `_take` ends
    neither the epoch nor the loader: the same step is taken again, after `_seek` unless the job stands there.

    A subclass sets these attributes before `Loader.__init__` makes the job; they do not change after that.
    """

    # Type of integer labels in the slot: "int64" or "int32".
    _label_dtype: str = "int64"
    # True: a slot whose last view is gone is not free at once; it waits in `_job.take_retired()` for whoever knows when the
    # device has read it.
    _defer_release: bool = False
    # True: `_wrap` has a type for the two bytes of a bfloat16 ("V2" where ml_dtypes is not installed).
    _takes_bfloat16: bool = False
    # The NUMA node beside which the device is; -1: nobody knows, and the cores that this process may use say it.
    _node: int = -1
    # Waits for what a device still reads of the slots; called once, before the engine lets go of them, also while the
    # interpreter ends. Must not refer to the loader.
    _drain: Callable[[], None] | None = None

    # The loader's, for subclasses to read.
    _job: _core.Job  # or a FunctionJob, which has its methods
    _fields: list[str]  # names of the pipeline's outputs, in the order of `_core.Batch.arrays()`
    _rank: int
    _world_size: int
    _steps_left: int  # of this epoch, the batch that `_take` is asked for among them
    # Where the stream of the job goes on; None while nobody can say: a batch was taken and not yet yielded.
    _job_at: Place | None

    _hold_timeout: float
    _place: str  # who makes the batches: "embedded", or the socket of a daemon
    _reattached: int

    def _prepare_epoch(self) -> None:
        """Before the first batch of a `for`, and before the loader chooses its epoch."""

    def _seek(self, place: Place) -> None:
        """Point the job at `place`, and forget what was taken ahead of it. An override ends with this one."""
        self._job.seek(place.epoch, place.position)
        self._job_at = place

    def _take(self) -> Taken:
        """The next batch of the stream; what `_wrap` of the same class understands.

        Errors: as `_next_batch`.
        """
        return self._next_batch()

    def _wrap(self, taken: Any) -> Batch:
        """The public batch of what `_take` gave. The loader then fills in step, epoch, position and state.

        It sets `Batch._core`, or, where the values are copies, `_records` and `_valid`.
        """
        core: _core.Batch = taken
        if type(core) is not _core.Batch:
            return self._wrap_made(core, _as_it_is)
        batch = Batch(zip(self._fields, core.arrays(), strict=True))
        batch._core = core
        return batch

    def _wrap_made(self, made: Any, convert: Callable[[Any], Any]) -> Batch:
        """The batch of a `SlotBatch`, its arrays converted: also those inside of what a function of whole batches made."""
        value = made.value
        if value is None or isinstance(value, Mapping):
            batch = Batch((name, converted(made.numpy(name), convert)) for name in made)
        else:
            batch = Batch()
            batch._whole = Whole(converted(value, convert))
        batch._core = made
        return batch

    # Waiting, the same for all --------------------------------------------------------------------------------------

    def _next_batch(self) -> _core.Batch:
        """The job's next batch, waited for in slices.

        Errors: SampleError, IoError and Closed of the job; Exhausted when this process holds all slots.
        """
        job = self._job
        batch = job.next(SLICE_S)
        if batch is None:
            batch = self._wait()
        if self._place != "embedded" and job.reattached != self._reattached:
            self._warn_if_embedded()
        return batch

    def _wait(self) -> _core.Batch:
        """A batch that is long in coming."""
        job = self._job
        look_at = time.monotonic() + self._hold_timeout - SLICE_S
        while True:
            batch = job.next(SLICE_S)
            if batch is not None:
                return batch
            if time.monotonic() >= look_at:
                self._check_held()
                look_at = time.monotonic() + 1.0

    def _check_held(self) -> None:
        """Errors: Exhausted when all slots are in the reader's hands, so that there is none for the next batch."""
        slots = self._job.stats()["slots"]["count"]
        if self._job.held() < slots:
            return
        gc.collect()  # batches in reference cycles
        held = self._job.held()
        if held >= slots:
            raise Exhausted(
                f"Loader: no batch for {self._hold_timeout:g} s, because this process holds {held} of {slots} slots; "
                "drop references to earlier batches; give what is kept, as list(loader) does, as copies "
                "([{k: v.copy() for k, v in batch.items()} for batch in loader]; clone() of a tensor), or "
                f"Loader(slots={held + 2}) where no more than these {held} are kept"
            )

    def _warn_if_embedded(self) -> None:
        """The stream's maker was lost: say so when there was no other daemon."""
        lost, self._place, self._reattached = self._place, self._job.place, self._job.reattached
        if self._place == "embedded":
            warnings.warn(
                f"carya: the daemon at {lost} was lost; this process goes on by itself, with the same batches, and uses "
                "its own cores from now on; restart caryad, then the training, to go back",
                RuntimeWarning,
                stacklevel=7,
            )
