"""Reading streams: digests, records, steps."""

from __future__ import annotations

import hashlib
import itertools
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
