"""`carya.torch.DataLoader`: samplers whose order torch follows, and which Carya's own permutation does not stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
data = torch.utils.data

from dataloader_code import Items, number  # noqa: E402

from carya.torch import DataLoader  # noqa: E402


def seeded() -> Any:
    return torch.Generator().manual_seed(4)


@pytest.mark.parametrize(
    "sampler",
    [
        lambda: data.RandomSampler(range(12), generator=seeded()),
        lambda: data.RandomSampler(range(7), generator=seeded()),
        lambda: data.SequentialSampler(range(5)),
        lambda: data.DistributedSampler(range(8), num_replicas=2, rank=1, shuffle=False),
        lambda: data.DistributedSampler(range(7), num_replicas=2, rank=0, seed=3, drop_last=True),
    ],
)
def test_samplers_with_a_generator_or_of_other_records_give_torchs_order(sampler: Any) -> None:
    ours = DataLoader(Items(12, number), 3, sampler=sampler(), num_workers=1)
    theirs = data.DataLoader(Items(12, number), 3, sampler=sampler())
    assert len(ours) == len(theirs)
    for epoch in range(2):
        for loader in (ours, theirs):
            if isinstance(loader.sampler, data.DistributedSampler):
                loader.sampler.set_epoch(epoch)
        assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]
    ours.close()


class Sometimes:
    """Nothing in some epochs."""

    def __init__(self, *counts: int) -> None:
        self.counts = list(counts)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.counts.pop(0)))

    def __len__(self) -> int:
        return self.counts[0]


@pytest.mark.parametrize("counts", [(0, 0, 4), (3, 0, 0, 4), (0,)])
def test_an_epoch_of_no_indices_has_no_batch_and_the_next_one_follows(counts: tuple[int, ...]) -> None:
    ours = DataLoader(Items(12, number), 3, sampler=Sometimes(*counts), num_workers=1)
    theirs = data.DataLoader(Items(12, number), 3, sampler=Sometimes(*counts))
    for _ in counts:
        assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]
    ours.close()


def test_a_sampler_that_can_be_iterated_over_once_has_one_epoch() -> None:
    ours = DataLoader(Items(12, number), 3, sampler=iter([1, 2, 3, 4]), num_workers=1)
    assert [[batch.tolist() for batch in ours] for _ in range(3)] == [[[2, 4, 6], [8]], [], []]
    ours.close()
