"""`carya.torch.DataLoader` beside torch's: the same batches, attributes and errors; what torch's own tests ask of a loader."""

from __future__ import annotations

import os
import signal
import sys
import types
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya
from carya._functions import job

torch = pytest.importorskip("torch")
data = torch.utils.data

from dataloader_code import (  # noqa: E402
    FailsInWorker,
    Items,
    Touch,
    always_raises,
    bulk,
    collate,
    drawn,
    halves,
    has_torch,
    info,
    number,
    odd_raises,
    of_numbers,
    of_words,
    pairs,
    raises_and_hangs,
    single,
    slow,
    summed,
    tensors,
)

from carya._torch.orders import Orders  # noqa: E402
from carya.torch import DataLoader  # noqa: E402


def equal(one: Any, other: Any) -> bool:
    if isinstance(other, torch.Tensor):
        return isinstance(one, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(other, dict):
        return type(one) is type(other) and list(one) == list(other) and all(equal(one[k], other[k]) for k in other)
    if isinstance(other, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


@pytest.mark.parametrize("make", [of_numbers, of_words, pairs, halves])
def test_batches_are_those_of_torch(make: Any) -> None:
    ours = DataLoader(Items(7, make), batch_size=3, num_workers=1)
    theirs = data.DataLoader(Items(7, make), batch_size=3)
    found, expected = list(ours), list(theirs)
    ours.close()
    assert len(found) == len(expected) == len(ours) == 3
    assert all(map(equal, found, expected)), (found, expected)


def test_arguments_mean_what_they_mean_in_torch() -> None:
    of = Items(10, tensors)
    options: dict[str, Any] = {"batch_size": 4, "drop_last": True, "collate_fn": collate}
    ours, theirs = DataLoader(of, num_workers=1, **options), data.DataLoader(of, **options)
    assert all(map(equal, list(ours), list(theirs)))
    assert len(ours) == len(theirs) == 2
    ours.close()


def test_shuffle_is_keyed_by_generator_and_epoch() -> None:
    def epochs(seed: int) -> list[list[int]]:
        loader = DataLoader(
            Items(20, number), 5, shuffle=True, num_workers=1, generator=torch.Generator().manual_seed(seed)
        )
        found = [[int(x) for batch in loader for x in batch] for _ in range(2)]
        loader.close()
        return found

    first, other = epochs(1), epochs(2)
    assert first != other, "alike where the seed is: test_a_state_resumes_at_any_step"
    assert first[0] != first[1]
    assert sorted(first[0]) == sorted(first[1]) == list(range(0, 40, 2))


def test_a_distributed_sampler_gives_ranks_and_epochs() -> None:
    found = []
    for rank in range(2):
        sampler = data.DistributedSampler(range(11), num_replicas=2, rank=rank, seed=3)
        loader = DataLoader(Items(11, number), 2, sampler=sampler, num_workers=1)
        sampler.set_epoch(4)
        found.append([int(x) for batch in loader for x in batch])
        assert len(loader) == 3
        loader.close()
    assert set(found[0] + found[1]) == set(range(0, 22, 2))


def test_set_epoch_of_a_distributed_sampler_leaves_out_a_rest_that_is_empty() -> None:
    def made() -> tuple[Any, Any]:
        sampler = data.DistributedSampler(range(8), num_replicas=1, rank=0, seed=3)
        return sampler, DataLoader(Items(8, number), 4, sampler=sampler, num_workers=1)

    sampler, loader = made()
    states, epochs = [], []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        epochs.append([int(x) for batch in loader for x in (states.append(loader.state_dict()), batch)[1]])
    loader.close()
    for told, expected in ((0, []), (1, epochs[1])):
        sampler, loader = made()
        loader.load_state_dict(states[1])
        sampler.set_epoch(told)
        assert [int(x) for batch in loader for x in batch] == expected
        loader.close()


def test_set_epoch_chooses_the_epoch_of_the_next_for() -> None:
    loader = DataLoader(Items(8, number), 4, shuffle=True, num_workers=1, generator=torch.Generator().manual_seed(1))
    epochs = [[int(x) for batch in loader for x in batch] for _ in range(3)]
    loader.set_epoch(1)
    assert [int(x) for batch in loader for x in batch] == epochs[1]
    assert [int(x) for batch in loader for x in batch] == epochs[2]
    assert [2 * index for index in list(loader.sampler)] != epochs[0], "that of the epoch that comes"
    loader.close()
    loader.set_epoch(2)
    assert [2 * index for index in loader.batch_sampler.sampler] == epochs[2]
    assert [int(x) for batch in loader for x in batch] == epochs[2]
    loader.close()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"num_workers": 1, "batch_size": None, "sampler": data.BatchSampler(range(4), 2, False)},
            "batch_size=None with",
        ),
    ],
)
def test_what_has_no_engine_here_runs_by_torchs_own(options: dict[str, Any], why: str) -> None:
    loader = DataLoader(Items(4, bulk), **options)
    assert loader.engine.startswith(f"torch: {why}")
    assert len(list(loader)) == len(list(data.DataLoader(Items(4, bulk), **options)))
    with pytest.raises(carya.Unsupported, match=why):
        loader.state_dict()


def weighted(seed: int, count: int = 30) -> Any:
    weights = [1.0, 5.0, 0.0, 2.0] * 5
    return data.WeightedRandomSampler(weights, count, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "sampler",
    [
        lambda: data.RandomSampler(range(20), num_samples=7, generator=torch.Generator().manual_seed(4)),
        lambda: InTurn(
            [3, 1, 0],
            weighted(1),
            data.SubsetRandomSampler(range(4, 16), generator=torch.Generator().manual_seed(2)),
        ),
    ],
)
def test_any_sampler_is_the_order_of_each_epoch(sampler: Any) -> None:
    ours = DataLoader(Items(20, number), 4, sampler=sampler(), num_workers=2)
    theirs = data.DataLoader(Items(20, number), 4, sampler=sampler())
    assert ours.engine == "carya"
    for _ in range(3):
        found, expected = list(ours), list(theirs)
        assert len(found) == len(expected)
        assert all(map(equal, found, expected))
    assert len(ours) == len(theirs)
    ours.close()


def test_records_that_come_again_draw_other_numbers_and_dead_workers_know_the_order() -> None:
    def epochs(workers: int, kills: bool) -> list[list[tuple[float, float]]]:
        loader = DataLoader(Items(20, drawn), 4, sampler=weighted(1), num_workers=workers, prefetch_factor=1)
        found: list[list[tuple[float, float]]] = []
        for _ in range(3):
            found.append([])
            for step, (index, random) in enumerate(loader):
                found[-1] += list(zip(index.tolist(), random.tolist(), strict=True))
                if kills and step == 1:
                    job: Any = loader._loader
                    os.kill(job._job._figures["pids"][0], signal.SIGKILL)
        loader.close()
        return found

    found = epochs(1, False)
    assert found == epochs(2, True)
    for epoch in found:
        assert len(epoch) == len(set(epoch)) == 30
        assert len({index for index, _ in epoch}) < 16, "some came again"
    assert len({pair for epoch in found for pair in epoch}) == 90


def test_a_sampler_is_replayed_for_a_state_and_checked() -> None:
    loader = DataLoader(Items(20, number), 4, sampler=weighted(1), num_workers=1)
    list(loader)
    iterator = iter(loader)
    first = [next(iterator).tolist() for _ in range(3)]
    state = loader.state_dict()
    rest = [batch.tolist() for batch in iterator]
    loader.close()
    assert len(first + rest) == 8
    other = DataLoader(Items(20, number), 4, sampler=weighted(1), num_workers=1)
    other.load_state_dict(state)
    assert [batch.tolist() for batch in other] == rest
    with pytest.raises(carya.Unsupported, match="epoch 0 is past"):
        other.load_state_dict({**state, "epoch": 0})
    other.close()
    # A loader asks it so, when its processes have begun: test_a_state_resumes_inside_of_the_epochs_of_a_batch_sampler.
    with pytest.raises(carya.InvalidArgument, match="sampler: for epoch 1 it gives another order"):
        Orders(weighted(2)).check(state)


class InTurn:
    """Another sampler in each epoch."""

    def __init__(self, *samplers: Any) -> None:
        self.samplers, self.epoch = samplers, 0

    def __iter__(self) -> Any:
        self.epoch += 1
        return iter(self.samplers[self.epoch % len(self.samplers)])

    def __len__(self) -> int:
        return len(self.samplers[self.epoch % len(self.samplers)])


class Growing:
    """Gives more from epoch to epoch."""

    def __init__(self) -> None:
        self.count = 2

    def __iter__(self) -> Any:
        self.count += 3
        return iter(range(self.count))

    def __len__(self) -> int:
        return self.count + 3


class Uneven:
    """Batches of many lengths, others in each epoch, as by a budget of tokens; where they grow, slots and processes are new."""

    def __init__(self, seed: int = 1, most: int = 6, growth: int = 2) -> None:
        self.random, self.count, self.most, self.growth = np.random.default_rng(seed), 20, most, growth

    def __iter__(self) -> Any:
        left = self.random.permutation(self.count).tolist()
        self.most *= self.growth
        batches = []
        while left:
            size = int(self.random.integers(1, self.most))
            batches.append(left[:size])
            del left[:size]
        return iter(batches)


@pytest.mark.parametrize(
    ("name", "sampler", "text"), [("sampler", [0, 20], "0 to 20"), ("batch_sampler", [[-1]], "-1")]
)
def test_samplers_of_other_records_say_so(name: str, sampler: Any, text: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=f"{name}: .*indices of {text}"):
        list(DataLoader(Items(20, number), **{name: sampler}, num_workers=1, collate_fn=summed))


def test_samplers_that_cannot_be_followed_say_why_before_a_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "start_host", lambda dump: pytest.fail("a process is started"))
    with pytest.raises(carya.InvalidArgument, match=r"sampler: .*it gave 'a'"):
        list(DataLoader(Items(20, number), sampler=["a"], num_workers=1))
    for batches in ([[0], []], [[0], 5]):
        with pytest.raises(carya.InvalidArgument, match=r"batch_sampler: batch 1 of epoch 0 is .*; give lists"):
            list(DataLoader(Items(20, number), batch_sampler=batches, num_workers=1))


def test_a_sampler_may_give_more_or_fewer_in_each_epoch() -> None:
    ours = DataLoader(Items(20, number), 4, sampler=Growing(), num_workers=1)
    theirs = data.DataLoader(Items(20, number), 4, sampler=Growing())
    for _ in range(4):
        assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]
    ours.close()


@pytest.mark.parametrize(
    ("sampler", "collated"),
    [
        (
            lambda: InTurn(
                [[3, 1], [0], [5, 6, 7]],
                data.BatchSampler(data.SequentialSampler(range(20)), 6, drop_last=True),
                data.BatchSampler(weighted(3), 4, drop_last=False),
            ),
            False,
        ),
        (lambda: Uneven(), False),
        (lambda: Uneven(growth=1), True),
    ],
)
def test_a_batch_sampler_says_each_batch(sampler: Any, collated: bool) -> None:
    options = {"collate_fn": summed} if collated else {}
    ours = DataLoader(Items(20, number), batch_sampler=sampler(), num_workers=2, **options)
    theirs = data.DataLoader(Items(20, number), batch_sampler=sampler(), **options)
    assert ours.engine == "carya"
    assert (ours.batch_size, ours.drop_last) == (theirs.batch_size, theirs.drop_last) == (None, False)
    kept = []
    for _ in range(2 if type(sampler()) is Uneven else 3):
        kept.append(next(iter(ours), None))  # a break: the rest of the epoch is left
        next(iter(theirs), None)
        assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]
    if hasattr(sampler(), "__len__"):
        assert len(ours) == len(theirs)
    ours.close()


def test_a_state_resumes_inside_of_the_epochs_of_a_batch_sampler() -> None:
    def made(seed: int = 1) -> Any:
        return DataLoader(Items(20, drawn), batch_sampler=Uneven(seed, growth=1), num_workers=2)

    loader = made()
    steps, states = [], []
    for epoch in range(3):
        for step, batch in enumerate(loader):
            steps.append([part.tolist() for part in batch])
            states.append(loader.state_dict())
            if epoch == 1 and step == 1:
                os.kill(loader._loader._job._figures["pids"][0], signal.SIGKILL)
    loader.close()
    for step in range(1, len(steps), max(2, len(steps) // 2)):
        other = made()
        other.load_state_dict(states[step])
        found = [[part.tolist() for part in batch] for _ in range(3 - states[step]["epoch"]) for batch in other]
        assert found == steps[step + 1 :], step
        other.close()
    wrong = made(2)
    wrong.load_state_dict(states[0])
    with pytest.raises(carya.InvalidArgument, match="batch_sampler: for epoch 0 it gives another order"):
        list(wrong)
    wrong.close()


@pytest.mark.parametrize("make", [of_numbers, of_words])
def test_without_batches_each_sample_is_yielded_as_torch_does(make: Any) -> None:
    ours = DataLoader(Items(5, make), batch_size=None, num_workers=2)
    theirs = data.DataLoader(Items(5, make), batch_size=None)
    assert (ours.engine, len(ours), ours.batch_size) == ("carya", 5, None)
    found, expected = list(ours), list(theirs)
    assert all(map(equal, found, expected)), (found, expected)
    assert equal(found, expected)
    iterator = iter(ours)
    next(iterator)
    state = ours.state_dict()
    rest = list(iterator)
    ours.load_state_dict(state)
    assert equal(list(ours), rest)
    ours.close()


def test_without_batches_samples_follow_a_sampler_and_are_collated() -> None:
    ours = DataLoader(Items(5, number), batch_size=None, sampler=[4, 0], collate_fn=str, num_workers=1)
    assert list(ours) == ["8", "0"]
    ours.close()


@pytest.mark.parametrize("dataset", [Items(4, number), range(0)])
def test_options_of_batches_are_refused_beside_a_batch_sampler_as_torch_does(dataset: Any) -> None:
    for options in ({"batch_size": 2}, {"shuffle": True}, {"sampler": [1]}, {"drop_last": True}):
        told = []
        for make in (DataLoader, data.DataLoader):
            with pytest.raises(ValueError, match="mutually exclusive") as error:
                make(dataset, batch_sampler=[[0]], **options)
            told.append(str(error.value))
        assert told[0] == told[1]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"num_workers": -1}, ValueError, "num_workers"),
        ({"timeout": -1}, ValueError, "timeout"),
        ({"shuffle": True, "sampler": [1]}, ValueError, "mutually exclusive"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor"),
        ({"persistent_workers": True}, ValueError, "persistent_workers"),
        ({"no_such": 1}, TypeError, "no_such"),
    ],
)
def test_mistakes_are_told_as_torch_tells_them(options: dict[str, Any], kind: Any, text: str) -> None:
    for make in (DataLoader, data.DataLoader):
        with pytest.raises(kind, match=text):
            make(Items(4, number), **options)


@pytest.mark.parametrize(("count", "drop_last"), [(0, False), (3, True)])
def test_where_there_is_no_batch_the_loop_has_none(count: int, drop_last: bool) -> None:
    for kind in (DataLoader, data.DataLoader):
        loader = kind(Items(count, number), 4, num_workers=1, drop_last=drop_last)
        assert (len(loader), list(loader), list(loader)) == (0, [], [])


def test_attributes_are_torchs() -> None:
    loader = DataLoader(Items(9, number), 4, True, num_workers=2, persistent_workers=True, prefetch_factor=3)
    assert isinstance(loader, data.DataLoader)
    assert (loader.batch_size, loader.num_workers, loader.prefetch_factor, loader.drop_last) == (4, 2, 3, False)
    assert isinstance(loader.sampler, data.RandomSampler)
    assert DataLoader[int].__origin__ is DataLoader  # a generic class
    assert loader.dataset.count == 9
    with pytest.raises(ValueError, match="batch_size"):
        loader.batch_size = 3


def test_keeping_all_batches_gives_copies() -> None:
    loader = DataLoader(Items(200, single), 4, num_workers=1, prefetch_factor=2)
    kept = list(loader)
    loader.close()
    assert [int(batch[0, 0]) for batch in kept] == [4 * i % 256 for i in range(50)]


def test_a_state_resumes_at_any_step() -> None:
    def made() -> Any:
        return DataLoader(Items(40, number), 4, True, num_workers=1, generator=torch.Generator().manual_seed(5))

    loader = made()
    iterator = iter(loader)
    first = [next(iterator).tolist() for _ in range(3)]
    state = loader.state_dict()
    rest = [batch.tolist() for batch in iterator]
    loader.close()
    other = made()
    other.load_state_dict(state)
    assert [batch.tolist() for batch in other] == rest
    assert len(first + rest) == 10
    other.close()


def test_behind_an_exception_the_next_batch_follows_as_torch_has_it() -> None:
    found: list[list[Any]] = []
    for make, workers in ((DataLoader, 2), (data.DataLoader, 0)):
        loader = make(Items(11, odd_raises), 2, num_workers=workers)
        for _ in range(2):
            found.append([])
            iterator = iter(loader)
            assert len(iterator) == len(loader)
            while True:
                try:
                    found[-1].append(next(iterator).tolist())
                except KeyError as error:
                    found[-1].append(error.args)
                except StopIteration:
                    break
        if make is DataLoader:
            loader.close()
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0] == [("no 1",), [2, 3], ("no 5",), [6, 7], ("no 9",), [10]]


def test_where_no_sample_can_be_made_each_batch_is_the_exception_and_the_loop_ends() -> None:
    loader = DataLoader(Items(9, always_raises), 2, num_workers=1)
    iterator, errors = iter(loader), 0
    for _ in range(8):
        try:
            assert next(iterator, None) is None, "the end"
        except KeyError:
            errors += 1
    assert errors == 5


@pytest.mark.parametrize("number", [0, 1])
def test_what_worker_init_fn_raises_is_raised(number: int) -> None:
    loader = DataLoader(Items(400, slow), 2, num_workers=2, worker_init_fn=FailsInWorker(number))
    with pytest.raises(RuntimeError, match="this start fails"):
        list(loader)
    loader.close()


def test_worker_info_and_worker_init_fn(tmp_path: Path) -> None:
    loader = DataLoader(Items(64, info), 4, num_workers=2, worker_init_fn=Touch(str(tmp_path)))
    found = [tuple(row) for batch in loader for row in torch.stack(batch, 1).tolist()]
    loader.close()
    assert {row[1:] for row in found} == {(2, 64)}
    assert {row[0] for row in found} <= {0, 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_workers_import_torch_where_the_dataset_does() -> None:
    loader = DataLoader(Items(4, has_torch), 2, num_workers=1)
    assert [batch.tolist() for batch in loader] == [[False, False], [False, False]]
    loader.close()
    loader = DataLoader(Items(4, has_torch), 2, num_workers=1, worker_init_fn=FailsInWorker(7))
    assert [batch.tolist() for batch in loader] == [[True, True], [True, True]]
    loader.close()


def test_exceptions_are_the_users_own_and_hangs_time_out() -> None:
    loader = DataLoader(Items(6, raises_and_hangs), 2, num_workers=1, timeout=0.5)
    iterator = iter(loader)
    with pytest.raises(IndexError, match="no such row"):
        next(iterator)
    with pytest.raises(TimeoutError, match="record 4"):
        list(iterator)
    loader.close()


def test_the_state_of_another_seed_is_refused_by_what_a_dataloader_takes() -> None:
    """It has no strict=, which a carya.Loader has."""
    first = carya.torch.DataLoader(list(range(8)), 2, True, num_workers=1, generator=torch.Generator().manual_seed(1))
    state = first.state_dict()
    first.close()
    other = carya.torch.DataLoader(list(range(8)), 2, True, num_workers=1, generator=torch.Generator().manual_seed(2))
    other.load_state_dict(state)
    with pytest.raises(
        carya.InvalidArgument, match=r"the seed differs.*generator= of a DataLoader.*; build the loader as it was"
    ) as found:
        next(iter(other))
    assert "strict" not in str(found.value)
    other.close()


class _Thing:
    pass


@pytest.mark.parametrize("kind", ["loader", "in this process", "streamed"])
def test_what_a_users_loop_has_is_not_kept_where_lightning_is_there(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who calls is looked at, and Python keeps what it shows of the variables of a call for as long as that lasts."""
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    if kind == "loader":
        loader: Any = carya.Loader(carya.arrays({"x": np.arange(8)}).batch(4), threads=1)
    else:
        loader = carya.torch.DataLoader(list(range(8)) if kind == "in this process" else _Counted(), 4)
    thing: Any = _Thing()
    seen = weakref.ref(thing)
    for _ in loader:
        thing = None
        assert seen() is None
    loader.close()


class _Counted(torch.utils.data.IterableDataset):  # type: ignore[type-arg,misc]
    def __iter__(self) -> Any:
        return iter(range(8))
