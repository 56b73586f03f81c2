"""torch's IterableDataset in `carya.torch.DataLoader`: torch's batches, with a state."""

from __future__ import annotations

import copy
import itertools
import json
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


class Flipping(Plain):
    """Its state holds a list that it goes on changing, also when it was given one."""

    def __init__(self) -> None:
        super().__init__(40)
        self.bits, self.step = [0] * 4, 0

    def __iter__(self) -> Any:
        for number in self.numbers()[self.step :]:
            self.step += 1
            self.bits[self.step % 4] ^= 1
            yield number, self.bits[self.step % 4]

    def state_dict(self) -> dict[str, Any]:
        return {"bits": self.bits, "step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.bits, self.step = state["bits"], state["step"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_that_was_given_stays_as_it_is_and_can_be_given_again(workers: int) -> None:
    one = DataLoader(Flipping(), batch_size=1, num_workers=workers)
    iterator = iter(one)
    for _ in range(6):
        next(iterator)
    state = one.state_dict()
    before = copy.deepcopy(state)
    rest = [shown(batch) for batch in iterator]
    for _ in range(2):
        again = DataLoader(Flipping(), batch_size=1, num_workers=workers)
        again.load_state_dict(state)
        assert [shown(batch) for batch in again] == rest
        assert state == before


def test_states_at_the_begin_and_the_end_of_a_for_know_the_random_numbers_of_workers() -> None:
    """Each `for` draws the seed of its workers from the generator; no state goes on with that of a `for` that is done."""

    def made() -> Any:
        return DataLoader(Random(8), batch_size=2, num_workers=2, generator=torch.Generator().manual_seed(5))

    one = made()
    states, epochs = [one.state_dict()], []
    for _ in range(3):
        iterator = iter(one)
        states.append(one.state_dict())  # nothing was taken yet
        epochs.append([shown(batch) for batch in iterator])
        states.append(one.state_dict())
    assert len({repr(epoch) for epoch in epochs}) == 3
    theirs = data.DataLoader(Random(8), batch_size=2, num_workers=2, generator=torch.Generator().manual_seed(5))
    assert [[shown(batch) for batch in theirs] for _ in range(2)] == epochs[:2]
    for state, epoch in ((states[1], 0), (states[2], 1), (states[3], 1)):
        again = made()
        again.load_state_dict(json.loads(json.dumps(state)))
        assert [shown(batch) for batch in again] == epochs[epoch]
        if epoch == 1:
            assert [shown(batch) for batch in again] == epochs[2], "and the epoch behind it"


class Uneasy:
    """An iterator that raises and goes on."""

    def __init__(self, count: int) -> None:
        self.at, self.count = 0, count

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        self.at += 1
        if self.at > self.count:
            raise StopIteration
        if self.at in (2, 3):
            raise ValueError(f"{self.at} is broken")
        return self.at


class OfUneasy(data.IterableDataset[int]):
    def __iter__(self) -> Any:
        return Uneasy(9)


def drained(iterator: Any) -> list[Any]:
    found: list[Any] = []
    while len(found) < 30:
        try:
            found.append(shown(next(iterator)))
        except StopIteration:
            return found
        except ValueError:
            found.append("raised")
    return found


@pytest.mark.parametrize("options", [{"batch_size": 2}, {"batch_size": None, "num_workers": 1}])
def test_behind_an_exception_an_iterator_is_asked_again_as_torch_does(options: dict[str, Any]) -> None:
    expected = drained(iter(data.DataLoader(OfUneasy(), **options)))
    assert expected.count("raised") == 2
    assert len(expected) >= 5
    one = DataLoader(OfUneasy(), **options)
    iterator = iter(one)
    got: list[Any] = []
    while got.count("raised") < 2 or got[-1] == "raised":  # a state is of behind a batch
        try:
            got.append(shown(next(iterator)))
        except ValueError:
            got.append("raised")
    again = DataLoader(OfUneasy(), **options)
    again.load_state_dict(one.state_dict())
    assert got + drained(iter(again)) == expected


class Itself(Plain):
    """Its own iterator, which is ready for a state only while it is iterated over; another `for` begins anew."""

    def __iter__(self) -> Any:
        self.left = list(self.numbers())
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        return self.left.pop(0)

    def state_dict(self) -> dict[str, Any]:
        return {"left": self.left}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.left.clear()
        self.left.extend(state["left"])


class Shifted(ByIterator):
    """A state of its own beside that of its iterators, in another form."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = 0

    def __iter__(self) -> Any:
        return Numbers(range(self.shift, self.shift + 9))

    def state_dict(self) -> dict[str, int]:
        return {"shift": self.shift}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.shift = state["shift"]


@pytest.mark.parametrize("workers", [0, 2])
def test_whose_a_state_is_who_is_given_it(workers: int) -> None:
    shifted = Shifted()
    shifted.shift = 50
    for of, fresh in ((Itself(), Itself()), (shifted, Shifted())):
        one = DataLoader(of, batch_size=2, num_workers=workers)
        iterator = iter(one)
        for _ in range(3):
            next(iterator)
        state = one.state_dict()
        rest = [shown(batch) for batch in iterator]
        again = DataLoader(fresh, batch_size=2, num_workers=workers)
        again.load_state_dict(state)
        assert [shown(batch) for batch in again] == rest


class Once(Itself):
    """Gives what is left, however often it is iterated over."""

    def __init__(self) -> None:
        super().__init__(6)
        self.left = list(self.numbers())

    def __iter__(self) -> Any:
        return self


def test_a_dataset_that_is_its_own_iterator_is_turned_back_to_where_a_for_began() -> None:
    dataset = Once()
    one = DataLoader(dataset, batch_size=2)
    iterator = iter(one)
    state = one.state_dict()
    rest = [shown(batch) for batch in iterator]
    assert (rest, dataset.left) == ([[0, 1], [2, 3], [4, 5]], [])
    again = DataLoader(dataset, batch_size=2)
    again.load_state_dict(state)
    assert [shown(batch) for batch in again] == rest


class Unsaid(Stateful):
    def state_dict(self) -> Any:
        return {"function": lambda: 0} if self.state["at"] % 2 else 1 / 0


@pytest.mark.parametrize("workers", [0, 1])
def test_a_state_that_cannot_be_had_fails_who_asks_for_it_and_no_epoch(workers: int) -> None:
    loader = DataLoader(Unsaid(), batch_size=3, num_workers=workers)
    told = []
    for _ in loader:
        with pytest.raises(
            carya.Unsupported, match=r"state cannot be had: Unsaid: \w+: .*mend its state_dict\(\)"
        ) as error:
            loader.state_dict()
        told.append("ZeroDivisionError" in str(error.value))
    assert told == [False, True] * 4


def test_a_state_that_the_dataset_refuses_raises_what_it_raised() -> None:
    loader = DataLoader(Stateful(), batch_size=3)
    loader.load_state_dict(
        {**loader.state_dict(), "workers": [{"samples": 3, "ended": False, "state": 5, "of": "dataset"}]}
    )
    with pytest.raises(TypeError, match="not iterable"):
        next(iter(loader))


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
