"""What a DataLoader sends to its workers. Nothing here imports torch, which takes seconds: workers of a dataset that does
without it start without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .._stages.randomness import when_torch_is_imported


class Single:
    """Without automatic batching: the one sample of a step, through a function of samples."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def __call__(self, samples: list[Any]) -> Any:
        return self._convert(samples[0])


class WorkerStart:
    """What torch does when a worker begins: `get_worker_info()` and `worker_init_fn`."""

    def __init__(self, init: Callable[[int], None] | None, workers: int, seed: int, dataset: Any) -> None:
        self._init, self._workers, self._seed, self._dataset = init, workers, seed, dataset

    def __call__(self, number: int) -> None:
        random.seed(self._seed + number)  # as torch does: what the function draws is another in each process
        when_torch_is_imported(lambda: self._prepare(number))
        if self._init is not None:
            self._init(number)

    def _prepare(self, number: int) -> None:
        import torch
        from torch.utils.data._utils import worker

        worker._worker_info = worker.WorkerInfo(
            id=number, num_workers=self._workers, seed=self._seed + number, dataset=self._dataset
        )
        torch.manual_seed(self._seed + number)
