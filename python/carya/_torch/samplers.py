"""The samplers of a DataLoader whose order is the stream's: what trainers look at, call, and make other loaders of."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import RandomSampler, SequentialSampler

from .._core import Permutation

if TYPE_CHECKING:
    from .dataloader import DataLoader


class _OfStream:
    """Tells the loader which epoch a trainer asks for. The loader owns it and is not kept by it."""

    _loader: weakref.ref[DataLoader[Any]]

    def set_epoch(self, epoch: int) -> None:
        loader = self._loader()
        if loader is not None:
            loader._epoch_asked(epoch)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": _gone}


class InOrder(_OfStream, SequentialSampler):  # type: ignore[misc]
    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader.dataset)
        self._loader = weakref.ref(loader)


class Shuffled(_OfStream, RandomSampler):  # type: ignore[misc]
    """Iterated by others than the loader (`skip_first_batches` of Accelerate does so) it gives the loader's order of the epoch that
    comes, then of those behind it. Where somebody gave it another generator, the order is torch's, by that one."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader.dataset, generator=loader.generator)
        self._loader = weakref.ref(loader)
        self._given, self._seed = loader.generator, loader._seed()
        self._iterated: dict[int, int] = {}  # how often since the loader's own epoch, by that epoch

    def __iter__(self) -> Iterator[int]:
        loader = self._loader()
        if loader is None or self.generator is not self._given:
            yield from super().__iter__()
            return
        epoch, count = loader._epoch_to_come(), len(self.data_source)
        times = self._iterated.get(epoch, 0)
        self._iterated = {epoch: times + 1}
        yield from Permutation(self._seed, epoch + times, count).records(0, count).tolist()


def _gone() -> None:
    """In place of the loader, in a copy of its sampler."""
