"""The loader behind a DataLoader: what a function made of a batch is what is yielded, as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._loading.batch import Batch, Whole
from ..torch import Loader


class Engine(Loader):
    """Where `collate_fn` makes the batches, its arrays stay arrays, its mappings of their class, and None is None."""

    def _wrap_made(self, made: Any, convert: Callable[[Any], Any]) -> Batch:
        job: Any = self._job
        if job.fields:
            return super()._wrap_made(made, convert)
        batch = Batch()
        batch._whole, batch._core = Whole(made.value), made
        return batch
