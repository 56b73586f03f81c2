"""Steps, tails and world sizes (DESIGN section 4)."""

from __future__ import annotations

import numpy as np
import pytest
from streams import flat, numbers, records

import carya

# One, primes, powers of two, and what has many divisors.
CASES = [(g, w) for g in (1, 2, 3, 4, 5, 8, 12) for w in range(1, g + 1) if g % w == 0]


@pytest.mark.parametrize(("global_size", "world_size"), CASES)
@pytest.mark.parametrize("tail", ["short", "drop_last", "pad_last"])
def test_each_record_is_valid_exactly_once_over_all_ranks(global_size: int, world_size: int, tail: str) -> None:
    near = {1, global_size - 1, global_size, global_size + 1, 37} - {0}
    for count in range(1, 51) if (global_size, world_size) in ((4, 2), (12, 3)) else sorted(near):
        chain = numbers(count, global_size=global_size, **({} if tail == "short" else {tail: True}))
        if tail == "drop_last" and count < global_size:
            with pytest.raises(carya.InvalidArgument, match="drop_last"):
                carya.Loader(chain, world_size=world_size)
            continue
        parts = []
        for rank in range(world_size):
            with carya.Loader(chain, rank=rank, world_size=world_size, threads=1, slots=2, epochs=1) as loader:
                batches = [(batch["x"].copy(), batch.records.copy(), batch.valid.copy()) for batch in loader]
                assert len(batches) == len(loader)
            parts.append(batches)
        check(parts, count, global_size, world_size, tail)


def check(parts: list, count: int, global_size: int, world_size: int, tail: str) -> None:
    steps = {len(batches) for batches in parts}
    assert len(steps) == 1, "all ranks make the same number of steps"
    seen = np.concatenate([rec[ok] for batches in parts for _, rec, ok in batches])
    values = np.concatenate([x[ok] for batches in parts for x, _, ok in batches])
    assert np.array_equal(seen, values)
    wanted = count // global_size * global_size if tail == "drop_last" else count
    assert len(seen) == len(set(seen.tolist())) == wanted
    rows = global_size // world_size
    for batches in parts:
        shapes = [len(x) for x, _, _ in batches]
        full = shapes if tail != "short" else shapes[:-1]
        assert all(shape == rows for shape in full)
    if tail == "short" and count % global_size:
        last = [int(batches[-1][2].sum()) for batches in parts]
        assert sum(last) == count % global_size
        assert min(len(batches[-1][0]) for batches in parts) == max(1, min(last))
        assert max(last) - min(last) <= 1


def test_batch_size_is_per_rank() -> None:
    with carya.Loader(numbers(40, batch_size=5), rank=1, world_size=4) as loader:
        assert (loader.global_size, loader.batch_size, len(loader)) == (20, 5, 2)


def test_global_size_that_the_ranks_cannot_share_is_refused() -> None:
    with pytest.raises(carya.InvalidArgument, match=r"world_size|divis"):
        carya.Loader(numbers(40, global_size=10), world_size=4)
    with pytest.raises(carya.InvalidArgument, match="rank"):
        carya.Loader(numbers(40, global_size=8), rank=4, world_size=4)


def test_ranks_concatenated_are_the_global_batch() -> None:
    chain = numbers(50, global_size=12)
    with carya.Loader(chain) as loader:
        whole = records(loader)
    for world_size in (2, 3, 4, 6, 12):
        parts = []
        for rank in range(world_size):
            with carya.Loader(chain, rank=rank, world_size=world_size, threads=1) as loader:
                parts.append(records(loader))
        assert [flat(step) for step in zip(*parts, strict=True)] == whole


def test_an_unshuffled_epoch_is_in_order_and_a_shuffled_one_is_not() -> None:
    plain = carya.arrays({"x": np.arange(100)}).batch(10)
    with carya.Loader(plain) as loader:
        assert flat(records(loader)) == list(range(100))
    with carya.Loader(numbers(100, batch_size=10)) as loader:
        first, second = flat(records(loader)), flat(records(loader))
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != list(range(100))
    assert first != second
