"""`carya.torch.DataLoader` with `num_workers=0`: torch's batches, and a state that is exact at each step."""

from __future__ import annotations

import base64
import json
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import carya

torch = pytest.importorskip("torch")
data = torch.utils.data

from carya.torch import DataLoader  # noqa: E402


class Counting(data.Dataset):
    """Squares, and which indices were asked for."""

    def __init__(self, count: int = 23) -> None:
        self.count, self.asked = count, []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        return index * index


class Own:
    """A sampler with random numbers of its own, which go on from epoch to epoch."""

    def __init__(self) -> None:
        self._random = random.Random(5)

    def __len__(self) -> int:
        return 17

    def __iter__(self) -> Iterator[int]:
        return iter(self._random.sample(range(23), 17))


def seeded(seed: int) -> Any:
    return torch.Generator().manual_seed(seed)


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": lambda: {"batch_size": 4},
    "shuffle": lambda: {"batch_size": 4, "shuffle": True},
    "generator": lambda: {"batch_size": 5, "shuffle": True, "generator": seeded(3), "drop_last": True},
    "of the sampler": lambda: {"batch_size": 3, "sampler": data.RandomSampler(range(23), generator=seeded(4))},
    "weighted": lambda: {"batch_size": 4, "sampler": data.WeightedRandomSampler([1, 2, 0] * 7, 30)},
    "own": lambda: {"batch_size": 4, "sampler": Own()},
    "batches": lambda: {"batch_sampler": data.BatchSampler(Own(), 5, False)},
    "batches of a generator": lambda: {
        "batch_sampler": data.BatchSampler(data.RandomSampler(range(23), generator=seeded(8)), 5, False)
    },
    "single": lambda: {"batch_size": None, "shuffle": True},
}


def listed(batch: Any) -> Any:
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_state_of_every_step_goes_on_as_an_undisturbed_run_does(kind: str) -> None:
    torch.manual_seed(11)
    torchs = data.DataLoader(Counting(), **KINDS[kind]())
    expected = [[listed(batch) for batch in torchs] for _ in range(2)]
    torch.manual_seed(11)
    loader = DataLoader(Counting(), **KINDS[kind]())
    states, got = [loader.state_dict()], []
    for _ in range(2):
        got.append([])
        for batch in loader:
            got[-1].append(listed(batch))
            states.append(pickle.loads(pickle.dumps(loader.state_dict())))
    assert got == expected, "the batches of torch's own"
    steps = [batch for epoch in expected for batch in epoch]
    first = len(expected[0])
    for taken, state in enumerate(states):
        torch.manual_seed(99)  # the trainer's generator is somewhere else
        dataset = Counting()
        again = DataLoader(dataset, **KINDS[kind]())
        again.load_state_dict(state)
        assert again.state_dict() == state
        if not taken and kind in ("shuffle", "weighted", "single"):
            continue  # no order is drawn: it will be by the trainer's generator
        rest = [listed(batch) for batch in again]
        end = first if taken <= first else len(steps)
        assert rest == steps[taken:end], taken
        skipped = [index for batch in rest for index in (batch if isinstance(batch, list) else [batch])]
        assert len(dataset.asked) == len(skipped), "what was delivered is not asked for again"
        if taken <= first and kind not in ("shuffle", "weighted", "single"):
            assert [listed(batch) for batch in again] == expected[1], "and the epoch behind it"


def test_the_trainers_generator_stays_as_it_is() -> None:
    torch.manual_seed(1)
    loader = DataLoader(Counting(), 4, shuffle=True)
    next(iter(loader))
    state = loader.state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = DataLoader(Counting(), 4, shuffle=True)
    again.load_state_dict(state)
    iterator = iter(again)
    assert torch.equal(torch.get_rng_state(), before)
    list(iterator)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_that_fails_is_passed_over_in_the_state_too() -> None:
    class Failing(Counting):
        def __getitem__(self, index: int) -> int:
            if index == 5:
                raise ValueError("5")
            return index

    loader = DataLoader(Failing(12), 4)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(ValueError, match="5"):
        next(iterator)
    again = DataLoader(Failing(12), 4)
    again.load_state_dict(loader.state_dict())
    assert [listed(batch) for batch in again] == [[8, 9, 10, 11]]


def test_states_of_other_loaders_are_refused() -> None:
    loader = DataLoader(Counting(), 4, shuffle=True, generator=seeded(1))
    next(iter(loader))
    state = loader.state_dict()
    for changed in (
        {**state, "batches": -1},
        {**state, "version": 9},
        {**state, "generators": {"torch": 1}},
        {**state, "generators": {"other": b""}},
        {"epoch": 0},
        json.dumps({}),
    ):
        with pytest.raises(carya.InvalidArgument, match="load_state_dict: state"):
            loader.load_state_dict(changed)  # type: ignore[arg-type]
    for other, told in [
        (
            DataLoader(Counting(), 3, shuffle=True, generator=seeded(1)),
            "gives other indices for the 1 batches of epoch 0",
        ),
        (DataLoader(Counting(9), 4, shuffle=True, generator=seeded(1)), "gives other indices"),
        (DataLoader(Counting(), 4, shuffle=True), "the generator of the loader is one of the state only"),
    ]:
        other.load_state_dict(state)
        before = torch.get_rng_state()
        with pytest.raises(carya.InvalidArgument, match=told):
            iter(other)
        assert torch.equal(torch.get_rng_state(), before)
    broken = DataLoader(Counting(), 4, shuffle=True, generator=seeded(1))
    broken.load_state_dict({**state, "generators": {**state["generators"], "loader": b"123"}})
    with pytest.raises(carya.InvalidArgument, match="load_state_dict: generators"):
        iter(broken)


def test_a_state_is_json_too_and_one_of_a_loader_is_named() -> None:
    loader = DataLoader(Counting(), 4, shuffle=True, generator=seeded(1))
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [listed(batch) for batch in batches]
    as_bytes = {name: base64.b64decode(one) for name, one in state["generators"].items()}
    for form in (json.loads(json.dumps(state)), {**state, "generators": as_bytes}):
        again = DataLoader(Counting(), 4, shuffle=True, generator=seeded(1))
        again.load_state_dict(form)
        assert [listed(batch) for batch in again] == rest
    with carya.Loader(carya.arrays({"x": [0] * 8}).batch(4)) as other:
        of_another = other.state_dict()
    with pytest.raises(carya.InvalidArgument, match=r"the state is of a carya\.Loader"):
        loader.load_state_dict(of_another)
