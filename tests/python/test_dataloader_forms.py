"""`carya.torch.DataLoader`: samples of several forms, and what a collate function makes, are what torch gives of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
data = torch.utils.data

from dataloader_code import (  # noqa: E402
    Held,
    Items,
    array_of,
    arrays_of,
    none_of,
    number,
    of_dtypes,
    of_names,
    of_shapes,
    ordered,
    ordered_of,
    ragged,
)

from carya.torch import DataLoader  # noqa: E402


def same(one: Any, other: Any) -> bool:
    """Of the same types too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor | np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("make", [of_shapes, of_dtypes, of_names, ordered])
def test_batches_may_have_dtypes_shapes_and_names_of_their_own(make: Any) -> None:
    theirs = data.DataLoader(Items(9, make), 3)
    ours = DataLoader(Items(9, make), 3, num_workers=2)
    for _ in range(2):
        found = list(ours)
        assert same(found, list(theirs)), found
    ours.close()


class InOtherOrder:
    """Batches of samples that are alike, in another order in each epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Any:
        self.epoch += 1
        first = [[0, 1], [2]] * self.epoch  # alike; those that differ come behind them
        return iter(first if self.epoch == 1 else [*first, [8, 7], [3, 5, 4], [6]])


def test_a_state_goes_on_before_and_behind_the_first_batch_that_differs() -> None:
    """In the second epoch of a sampler, which does not go back."""
    loader = DataLoader(Items(9, of_shapes), batch_sampler=InOtherOrder(), num_workers=1)
    theirs = data.DataLoader(Items(9, of_shapes), batch_sampler=InOtherOrder())
    batches, states = [], []
    for _ in range(3):
        for batch in loader:
            batches.append(batch)
            states.append(loader.state_dict())
    loader.close()
    assert same(batches, [batch for _ in range(3) for batch in theirs])
    assert len({state["pipeline"] for state in states}) == 1
    for step in (3, 7):
        again = DataLoader(Items(9, of_shapes), batch_sampler=InOtherOrder(), num_workers=1)
        again.load_state_dict(states[step])
        found = [batch for _ in range(3 - states[step]["epoch"]) for batch in again]
        assert same(found, batches[step + 1 :]), step
        again.load_state_dict(states[-2])
        assert same(list(again), batches[-1:])
        again.close()


def test_what_no_batch_can_be_made_of_is_torchs_error_and_the_next_batch_follows() -> None:
    found: list[list[Any]] = []
    for kind, workers in ((DataLoader, 1), (data.DataLoader, 0)):
        loader = kind(Items(9, ragged), 3, num_workers=workers)
        iterator = iter(loader)
        found.append([])
        for _ in range(9):
            try:
                found[-1].append(next(iterator).shape)
            except RuntimeError as error:
                found[-1].append("equal size" in str(error))
            except StopIteration:
                break
    assert found[0] == found[1] == [(3, 1), True, (3, 1)]


@pytest.mark.parametrize("collate", [none_of, arrays_of, ordered_of, array_of, Held])
def test_what_collate_fn_returns_is_what_is_yielded(collate: Any) -> None:
    theirs = data.DataLoader(Items(400, number), 4, collate_fn=collate)
    ours = DataLoader(Items(400, number), 4, collate_fn=collate, num_workers=1, prefetch_factor=1)
    found = list(ours)  # more than there are slots: those that are kept are copies
    ours.close()
    assert same(found, list(theirs))
    assert same(list(itertools.islice(ours, 2)), found[:2]), "and once more"
    ours.close()
