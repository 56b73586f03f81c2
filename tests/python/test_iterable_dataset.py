"""torch's IterableDataset in `carya.torch.DataLoader`: torch's batches, with a state."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import carya

torch = pytest.importorskip("torch")
data = torch.utils.data

from carya.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Plain(data.IterableDataset[int]):
    """Worker i of n has every n-th number of 0 to `count` - 1; workers before the last one end earlier."""

    def __init__(self, count: int = 23) -> None:
        self.count = count

    def numbers(self) -> range:
        info = data.get_worker_info()
        return range(info.id, self.count, info.num_workers) if info else range(self.count)

    def __iter__(self) -> Any:
        return iter(self.numbers())


class Random(Plain):
    def __iter__(self) -> Any:
        for number in self.numbers():
            drawn = np.random.random()  # noqa: NPY002 - the global one is what is tried
            yield number + random.random(), drawn, torch.rand(2)


class Stateful(Plain):
    """Begins anew behind its end. Its state is one dict that it goes on changing."""

    def __init__(self, count: int = 23) -> None:
        super().__init__(count)
        self.state = {"at": 0}
        self.passed = 0

    def __iter__(self) -> Any:
        for number in self.numbers()[self.state["at"] :]:
            self.passed += 1
            self.state["at"] += 1
            yield number, self.passed
        self.state["at"] = 0

    def state_dict(self) -> dict[str, int]:
        return self.state

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.state = dict(state)


class Numbers:
    """An iterator with a state, of a dataset that has none."""

    def __init__(self, numbers: range) -> None:
        self.numbers, self.at = numbers, 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.at >= len(self.numbers):
            raise StopIteration
        self.at += 1
        return self.numbers[self.at - 1]

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class ByIterator(Plain):
    def __iter__(self) -> Any:
        return Numbers(self.numbers())


def shown(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    return [shown(one) for one in batch] if isinstance(batch, list | tuple) else batch


def firsts(batch: Any) -> Any:
    return shown(batch[0] if isinstance(batch, list) else batch)


OPTIONS: list[dict[str, Any]] = [
    {"batch_size": 3, "num_workers": 3},
    {"batch_size": 2, "num_workers": 2, "drop_last": True, "prefetch_factor": 1, "persistent_workers": True},
    {"batch_size": 4, "num_workers": 0},
    {"batch_size": None, "num_workers": 2},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_batches_are_torch_s(options: dict[str, Any]) -> None:
    def epochs(kind: Any) -> Any:
        torch.manual_seed(5)
        loader = kind(Plain(), **options)
        return [[shown(batch) for batch in loader] for _ in range(2)]

    assert epochs(DataLoader) == epochs(data.DataLoader)
    if options["num_workers"]:  # else the trainer's own generators are drawn from
        torch.manual_seed(5)
        expected = [shown(batch) for batch in data.DataLoader(Random(7), **options)]
        torch.manual_seed(5)
        assert [shown(batch) for batch in DataLoader(Random(7), **options)] == expected


@pytest.mark.parametrize(
    ("kind", "options"),
    [(kind, options) for options in OPTIONS[:3:2] for kind in (Plain, Stateful, ByIterator)] + [(Stateful, OPTIONS[1])],
)
def test_a_state_goes_on_behind_the_last_delivered_batch(kind: Any, options: dict[str, Any]) -> None:
    def loader() -> Any:
        return DataLoader(kind(), **options)

    whole = [firsts(batch) for batch in loader()]
    stops = range(len(whole) + 1) if not options["num_workers"] else (len(whole) // 2, len(whole) - 1)
    for stop in stops:
        one = loader()
        iterator = iter(one)
        seen = [firsts(batch) for batch in itertools.islice(iterator, stop)]
        state = one.state_dict()
        del iterator
        again = loader()
        again.load_state_dict(state)
        assert again.state_dict() == state
        rest = []
        for batch in again:
            rest.append(firsts(batch))
            state = again.state_dict()
        assert seen + rest == whole
        if stop == len(whole) // 2:
            assert [firsts(batch) for batch in again] == whole  # the next epoch, behind a resume
            third = loader()
            third.load_state_dict(state)  # of the last batch
            assert list(third) == []


def test_a_state_of_a_resumed_loader_knows_workers_that_have_given_nothing_since() -> None:
    whole = [firsts(batch) for batch in DataLoader(Stateful(), batch_size=2, num_workers=3)]
    seen: list[Any] = []
    state = None
    while len(seen) < len(whole):  # a new loader for each batch
        loader = DataLoader(Stateful(), batch_size=2, num_workers=3)
        if state is not None:
            loader.load_state_dict(state)
        seen.append(firsts(next(iter(loader))))
        state = loader.state_dict()
    assert seen == whole


def test_a_dataset_with_a_state_passes_over_nothing_and_one_without_draws_the_same_numbers() -> None:
    one = DataLoader(Stateful(40), batch_size=4, num_workers=2)
    iterator = iter(one)
    for _ in range(6):
        next(iterator)
    again = DataLoader(Stateful(40), batch_size=4, num_workers=2)
    again.load_state_dict(one.state_dict())
    assert next(iter(again))[1].tolist() == [1, 2, 3, 4]

    torch.manual_seed(9)
    one = DataLoader(Random(), batch_size=2, num_workers=2)
    iterator = iter(one)
    for _ in range(3):
        next(iterator)
    state = one.state_dict()
    rest = [shown(batch) for batch in iterator]
    torch.manual_seed(77)
    again = DataLoader(Random(), batch_size=2, num_workers=2)
    again.load_state_dict(state)
    assert [shown(batch) for batch in again] == rest


def init(number: int) -> None:
    info = data.get_worker_info()
    info.dataset.count = 6 + 0 * number


def test_worker_init_fn_sees_the_dataset_itself() -> None:
    def numbers(kind: Any) -> Any:
        return [shown(batch) for batch in kind(Plain(), batch_size=2, num_workers=2, worker_init_fn=init)]

    assert numbers(DataLoader) == numbers(data.DataLoader)


class Failing(Plain):
    def __iter__(self) -> Any:
        yield 1
        raise ValueError("the second is broken")


class Longer(Plain):
    def __len__(self) -> int:
        return 5


def test_errors_and_warnings_are_torch_s() -> None:
    with pytest.raises(ValueError, match="the second is broken"):
        list(DataLoader(Failing(), batch_size=2, num_workers=1))
    for options in ({"shuffle": True}, {"sampler": [1, 2]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="IterableDataset"):
            DataLoader(Plain(), **options)
    loader = DataLoader(Longer(), batch_size=2)
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="was reported to be 5"):
        list(loader)


def test_mistakes_with_states() -> None:
    loader = DataLoader(Plain(), batch_size=4, num_workers=2)
    state = loader.state_dict()
    for wrong, told in [
        (5, "load_state_dict: state: got 5; give what state_dict"),
        ({**state, "version": 9}, "load_state_dict: state: got"),
        ({**state, "next": 2}, r"give what state_dict\(\) returned, unchanged"),
        ({**state, "workers": [None, {}]}, r"give what state_dict\(\) returned, unchanged"),
        ({**state, "workers": [None]}, "the state is of 1 workers.*give num_workers=1 in place of 2"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            loader.load_state_dict(wrong)
    mark = {"samples": 400, "ended": False, "state": None}
    loader.load_state_dict({**state, "workers": [mark, mark]})
    with pytest.raises(carya.InvalidArgument, match="the dataset gave 12 samples, and 400 where"):
        list(loader)
    loader = DataLoader(Plain(), batch_size=4, num_workers=2, in_order=False)
    with pytest.raises(carya.Unsupported, match=r"in_order=False.*leave in_order out"):
        loader.state_dict()
