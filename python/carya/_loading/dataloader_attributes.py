"""What frameworks look at on a loader: the attributes of a torch DataLoader, as far as they have a meaning here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from .. import _core
from .._pipeline.one_by_one import Delivered
from .._pipeline.pipeline import Pipeline

if TYPE_CHECKING:
    from .loader import Loader


class DataLoaderAttributes:
    """Of a loader that has these; trainers read them, and some call `set_epoch` on the samplers."""

    _job: _core.Job
    _pipeline: Pipeline
    _world_size: int

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
        """As the loader's, of a trainer that may count one ahead after a restore.

        Lightning counts an epoch in which `max_steps` ended it as done, saves that, and asks for the rest of it all the same.
        """
        loader = self._loader
        if loader._restored and type(epoch) is int:
            comes = loader._next.epoch + (loader._job.steps_from(loader._next.position) == 0)
            loader._ahead = int(loader._next.position > 0 and epoch == comes + 1)
        loader.set_epoch(epoch - loader._ahead if loader._ahead else epoch)

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


def _as_it_is(batch: Any) -> Any:
    return batch
