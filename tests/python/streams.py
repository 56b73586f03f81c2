"""Reading streams: digests, records, steps."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

import carya


def digest(batches: Any, names: tuple[str, ...] | None = None) -> str:
    """Of all bytes of the valid rows, row by row, so that it does not depend on how rows are cut into batches."""
    state = hashlib.sha256()
    for batch in batches:
        arrays = [np.asarray(batch[name]) for name in names or sorted(batch)]
        for row in range(len(batch.records)):
            if batch.valid[row]:
                state.update(int(batch.records[row]).to_bytes(8, "little"))
                for array in arrays:
                    state.update(np.ascontiguousarray(array[row]).tobytes())
    return state.hexdigest()


def epoch_digest(pipeline: carya.Pipeline, epochs: int = 1, **options: Any) -> str:
    """Of whole epochs of a new loader."""
    with carya.Loader(pipeline, **options) as loader:
        return digest(batch for _ in range(epochs) for batch in loader)


def flat(parts: Any) -> list[int]:
    """The lists of `parts`, one after the other."""
    return list(itertools.chain.from_iterable(parts))


def records(loader: carya.Loader) -> list[list[int]]:
    """The valid records of one epoch, step by step."""
    return [[int(r) for r, ok in zip(batch.records, batch.valid, strict=True) if ok] for batch in loader]


def numbers(count: int, **batch: Any) -> carya.Pipeline:
    """A shuffled pipeline of the numbers 0..count-1."""
    return carya.arrays({"x": np.arange(count)}).shuffle(seed=5).batch(**batch)


def shuffled_epoch(pipeline: carya.Pipeline, count: int) -> tuple[list[carya.Batch], list[int]]:
    """The batches of an epoch, and its records in their order, each of `count` once."""
    with carya.Loader(pipeline, threads=2) as loader:
        batches = list(loader)
    order = [int(record) for batch in batches for record in batch.records]
    assert sorted(order) == list(range(count))
    return batches, order


def check_resume(
    pipeline: carya.Pipeline,
    batches: list[carya.Batch],
    names: tuple[str, ...] | None = None,
    again: carya.Pipeline | None = None,
) -> None:
    """From a state after two of the batches, `again`, or the pipeline, gives the others."""
    with carya.Loader(pipeline, threads=1) as loader:
        first = iter(loader)
        next(first), next(first)
        state = loader.state_dict()
    with carya.Loader(again or pipeline, threads=2) as loader:
        loader.load_state_dict(state)
        assert digest(loader, names) == digest(batches[2:], names)


def copied(batch: carya.Batch) -> carya.Batch:
    """A batch that outlives its slot."""
    return carya.Batch({name: np.array(value) for name, value in batch.items()}, like=batch)


def killed_and_resumed(made: Callable[..., carya.Pipeline], steps: int, ranks: int, global_size: int) -> list[Any]:
    """Two epochs of `made(global_size=...)`: the first steps of one loader, a worker of which is killed before the last of them,
    then the rest by `ranks` ranks from its state, in the order of positions."""
    found = []
    with carya.Loader(made(global_size=6), threads=2, epochs=2) as loader:
        iterator = iter(loader)
        for step in range(steps):
            found.append(copied(next(iterator)))
            if step == steps - 2:
                os.kill(loader._job._figures["pids"][0], signal.SIGKILL)  # type: ignore[attr-defined]
        state = loader.state_dict()
    assert len(repr(state)) < 400
    parts = []
    for rank in range(ranks):
        pipeline = made(global_size=global_size)
        with carya.Loader(pipeline, threads=1, rank=rank, world_size=ranks, state=state, epochs=2) as loader:
            parts.append([[copied(batch) for batch in loader] for _ in range(2)])
    for epoch in range(2):
        for step_parts in zip(*(one[epoch] for one in parts), strict=True):
            found += step_parts
    return found
