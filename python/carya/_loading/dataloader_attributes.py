"""What frameworks look at on a loader: the attributes of a torch DataLoader, as far as they have a meaning here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .. import _core
from .._pipeline.one_by_one import Delivered
from .._pipeline.pipeline import Pipeline

if TYPE_CHECKING:
    from .loader import Loader


TAKING = 10  # calls between Lightning's fetcher and an iterator of a loader: 3 in its version 2.6, and some here
_LIGHTNING = {"lightning", "pytorch_lightning"}
_CALLS = 4  # between Lightning's loop and `set_epoch` here: 2 in its version 2.6, and 2 of a DataLoader's


class DataLoaderAttributes:
    """Of a loader that has these; trainers read them, and some call `set_epoch` on the samplers."""

    _job: _core.Job
    _pipeline: Pipeline
    _world_size: int

    def __getitem__(self, index: Any) -> NoReturn:
        """There is none; it is here to say so to who gives a loader for a dataset."""
        raise TypeError(
            f"Loader: it has no items, {index!r} or other: it gives batches in their order; iterate over it where a DataLoader of "
            "torch's would be, and where a dataset is asked for, give loader.dataset"
        )

    @property
    def batch_size(self) -> int:
        """Rows of a full batch of this rank."""
        return self._job.global_size // self._world_size

    @property
    def dataset(self) -> Pipeline:
        """The pipeline, as a map-style dataset of single samples."""
        return self._pipeline

    @property
    def drop_last(self) -> bool:
        assert self._pipeline._batch is not None
        return bool(self._pipeline._batch["drop_last"])

    @property
    def sampler(self) -> Sampler:
        """Has `set_epoch`, as distributed samplers do; the order itself is the pipeline's."""
        return Sampler(cast("Loader", self))

    @property
    def batch_sampler(self) -> BatchSampler:
        """One item per step, which `dataset` and `collate_fn` turn into the loader's own batch: what `skip_first_batches` of
        Accelerate and the Trainer of Transformers make a DataLoader of."""
        return BatchSampler(cast("Loader", self))

    @property
    def collate_fn(self) -> Callable[[Any], Any]:
        """Nothing is left to do: batches are made as a whole."""
        return _as_it_is

    @property
    def num_workers(self) -> int:
        """Worker processes of the trainer's: none. `threads` are the loader's own."""
        return 0

    @property
    def pin_memory(self) -> bool:
        """Whether somebody else is to pin the batches: no. `stats()["pinned"]` says what a torch loader does."""
        return False

    @property
    def persistent_workers(self) -> bool:
        return False

    @property
    def prefetch_factor(self) -> None:
        """That of worker processes: none. `slots` batches are made ahead."""
        return None

    @property
    def timeout(self) -> float:
        return 0

    @property
    def worker_init_fn(self) -> None:
        return None

    @property
    def multiprocessing_context(self) -> None:
        return None

    @property
    def generator(self) -> None:
        """Randomness is keyed by `seed`, and no generator's."""
        return None


class Sampler:
    """What trainers call on `loader.sampler`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """As the loader's; after a restore Lightning's own count of epochs may be another one than the stream's.

        1. An epoch in which `max_steps` ended it is counted as done, saved so, and its rest is asked for all the same: from then on
           its count is ahead.
        2. An epoch that `limit_train_batches` ended is done, and the next one is asked for, from its start.
        3. A loader that is shorter than one beside it is begun several times in an epoch of Lightning's, whose count is then behind.
           What it began last goes on.
        """
        loader = self._loader
        loop = fit_loop(_CALLS) if loader._restored and type(epoch) is int else None
        if loop is None:
            loader._ahead = loader._ahead if epoch >= loader._ahead else 0  # less: another trainer's first epochs
            loader.set_epoch(epoch - loader._ahead if loader._ahead else epoch)
            return
        comes, position = loader._next
        epochs = loop.epoch_progress.current
        done = loop.epoch_loop.batch_progress.is_last_batch and epochs.processed >= epochs.ready
        if epoch <= comes and not done:
            loader._ahead = 0
            return  # the next `for` goes on where the state was taken
        if done or loader._job.steps_from(position) == 0:
            comes = min(comes + 1, epoch)
            loader._inside = False  # the rest of the state's epoch is nobody's
        # It is asked for again, with more, where it skips an epoch.
        loader._ahead, loader._chosen_epoch = epoch - comes, comes

    def __len__(self) -> int:
        return len(self._loader) * self._loader.batch_size


class BatchSampler:
    """What trainers look at as `loader.batch_sampler`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.sampler = loader.sampler
        self.batch_size = loader.batch_size
        self.drop_last = loader.drop_last

    def __iter__(self) -> Iterator[Delivered]:
        return map(Delivered, self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)


def fit_loop(calls: int) -> Any:
    """Lightning's training loop, where it is at most so many calls away from the caller's own; else None.

    What it calls with does not say whether the epoch before was ended by a limit or by `max_steps`; the loop knows.
    """
    for loop in _of_lightning(calls):
        if hasattr(getattr(getattr(loop, "epoch_loop", None), "batch_progress", None), "is_last_batch"):
            return loop
    return None


def taken_ahead(calls: int) -> list[Any]:
    """The batches that Lightning has taken of an iterator and not given to the model yet, a list that it keeps up to date, where it is at
    most so many calls away from the caller's own; else a list of none.

    Where a loader has no length, or one beside it has none, its fetcher takes one batch ahead to know which is the last, and asks for
    a state all the same. The list of a fetcher that has ended stays as it was, so that a state behind `fit` is right too.
    """
    for fetcher in _of_lightning(calls):
        if type(fetcher).__name__ == "_PrefetchDataFetcher":
            found = getattr(fetcher, "batches", None)
            return found if isinstance(found, list) else []
    return []


def _of_lightning(calls: int) -> Iterator[Any]:
    """The objects of Lightning whose methods are at most so many calls away from the caller's caller.

    Variables of other calls are not looked at: what Python 3.12 and older show of them it keeps as long as the call lasts, and that of
    a user's own loop has a batch.
    """
    if _LIGHTNING.isdisjoint(sys.modules):
        return
    frame: Any = sys._getframe(3)  # behind this generator, the function that asks and the one that called it
    for _ in range(calls):
        if frame is None:
            return
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _LIGHTNING:
            yield frame.f_locals.get("self")
        frame = frame.f_back


def _as_it_is(batch: Any) -> Any:
    return batch
