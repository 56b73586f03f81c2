"""The semantics of `for` loops over a loader, and what trainers look at."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from streams import numbers, records

import carya


@pytest.fixture
def epochs() -> list[list[list[int]]]:
    """The first four epochs, step by step, by four fresh loaders."""
    found = []
    for epoch in range(4):
        with carya.Loader(numbers(20, batch_size=4)) as loader:
            loader.set_epoch(epoch)
            found.append(records(loader))
    return found


def test_each_for_is_the_next_epoch(epochs: list[list[list[int]]]) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        assert [records(loader) for _ in range(4)] == epochs
    with carya.Loader(numbers(20, batch_size=4), prefetch_epochs=False) as loader:
        assert [records(loader) for _ in range(4)] == epochs


def test_a_break_abandons_the_rest_of_the_epoch(epochs: list[list[list[int]]]) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        for batch in loader:
            if batch.step == 1:
                break
        assert records(loader) == epochs[1]
        for _ in loader:
            break
        assert records(loader) == epochs[3]


def test_directly_after_a_restore_the_epoch_goes_on(epochs: list[list[list[int]]]) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        for batch in loader:
            if batch.step == 1:
                break
        loader.load_state_dict(loader.state_dict())
        assert records(loader) == epochs[0][2:]
        assert records(loader) == epochs[1]


def test_iter_alone_starts_nothing(epochs: list[list[list[int]]]) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        iter(loader)
        iter(loader)
        assert records(loader) == epochs[0]


def test_an_overtaken_iterator_says_so(epochs: list[list[list[int]]]) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        old = iter(loader)
        next(old)
        new = iter(loader)
        assert next(new)["x"].tolist() == epochs[1][0]
        with pytest.raises(carya.InvalidArgument, match="overtaken"):
            next(old)
        assert [batch["x"].tolist() for batch in new] == epochs[1][1:]
        assert next(new, None) is None


def test_set_epoch_chooses_the_epoch(epochs: list[list[list[int]]]) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        for epoch in (2, 0, 3, 0):
            loader.set_epoch(epoch)
            assert records(loader) == epochs[epoch]
        assert records(loader) == epochs[1]
        loader.sampler.set_epoch(3)
        assert records(loader) == epochs[3]


def test_set_epoch_after_a_restore(epochs: list[list[list[int]]]) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        iterator = iter(loader)
        next(iterator)
        state = next(iterator).state_dict()
        loader.load_state_dict(state)
        with pytest.raises(carya.InvalidArgument, match="set_epoch"):
            loader.set_epoch(1)
        loader.set_epoch(0)
        assert records(loader) == epochs[0][2:]
        loader.set_epoch(1)
        assert records(loader) == epochs[1]


@pytest.mark.parametrize("epoch", [-1, 1.5, "1", True])
def test_set_epoch_refuses_what_is_no_epoch(epoch: object) -> None:
    with carya.Loader(numbers(8, batch_size=4)) as loader, pytest.raises(carya.InvalidArgument, match="set_epoch"):
        loader.set_epoch(epoch)  # type: ignore[arg-type]


def test_epochs_bounds_the_stream() -> None:
    with carya.Loader(numbers(8, batch_size=4), epochs=2) as loader:
        assert len(records(loader) + records(loader)) == 4
        with pytest.raises(carya.Closed, match="epochs=2"):
            next(iter(loader))
        loader.set_epoch(0)
        assert len(records(loader)) == 2


def test_the_seed_of_the_loader_wins() -> None:
    by_pipeline = carya.arrays({"x": np.arange(20)}).shuffle(seed=9).batch(4)
    with carya.Loader(by_pipeline) as one, carya.Loader(numbers(20, batch_size=4), seed=9) as two:
        assert two.seed == 9
        assert records(one) == records(two)


def test_batches_know_their_place() -> None:
    with carya.Loader(numbers(10, batch_size=4)) as loader:
        places = [(batch.epoch, batch.step, batch.position) for _ in range(2) for batch in loader]
    assert places == [(0, 0, 4), (0, 1, 8), (0, 2, 10), (1, 0, 4), (1, 1, 8), (1, 2, 10)]


def test_as_tuple_yields_the_named_arrays_in_order() -> None:
    chain = carya.arrays({"image": np.zeros((6, 2), np.uint8), "label": np.arange(6)}).batch(3)
    with carya.Loader(chain, as_tuple=("label", "image")) as loader:
        label, image = next(iter(loader))
        assert label.tolist() == [0, 1, 2]
        assert image.shape == (3, 2)
        assert loader.state_dict()["position"] == 3
    for wrong in (("label", "mask"), "label"):
        with pytest.raises(carya.InvalidArgument, match="as_tuple"):
            carya.Loader(chain, as_tuple=wrong)


def test_trainers_find_what_they_look_for() -> None:
    with carya.Loader(numbers(21, batch_size=4, drop_last=True)) as loader:
        assert (loader.batch_size, loader.drop_last, len(loader)) == (4, True, 5)
        assert len(loader.dataset) == 21
        assert int(loader.dataset[3]["x"]) == 3
        assert len(loader.sampler) == 20
        steps = loader.batch_sampler
        assert (len(steps), steps.batch_size, steps.drop_last) == (5, 4, True)
        assert len(steps.sampler) == 20
        batch = next(iter(loader))
        assert loader.collate_fn(batch) is batch  # it is made as a whole
        # Torch's defaults, for what is another's here: no processes of a trainer's, no pinning by it, no generator.
        assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == (0, None, False)
        assert (loader.worker_init_fn, loader.multiprocessing_context, loader.generator) == (None, None, None)
        assert (loader.pin_memory, loader.timeout) == (False, 0)


def test_frameworks_can_rebuild_and_copy_a_batch() -> None:
    with carya.Loader(numbers(8, batch_size=4)) as loader:
        batch = next(iter(loader))
        rebuilt = type(batch)({name: value + 1 for name, value in batch.items()})
        assert isinstance(rebuilt, dict)
        assert rebuilt["x"].tolist() == (batch["x"] + 1).tolist()
        with pytest.raises(TypeError, match=r"loader\.state_dict"):
            rebuilt.state_dict()
        for copied in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
            assert copied["x"].tolist() == batch["x"].tolist()
            assert copied.state_dict() == batch.state_dict()
            assert copied.records.tolist() == batch.records.tolist()


def test_a_loader_is_not_pickled_and_says_what_to_do() -> None:
    with carya.Loader(numbers(8, batch_size=4)) as loader, pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(loader)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"threads": 0}, "threads"),
        ({"slots": -1}, "slots"),
        ({"slots": "many"}, "slots"),
        ({"read_ahead": "64 apples"}, "read_ahead"),
        ({"read_ahead": 0}, "read_ahead"),
        ({"on_error": "ignore"}, "on_error"),
        ({"io_engine": "aio"}, "io_engine"),
        ({"epochs": 0}, "epochs"),
        ({"seed": -1}, "seed"),
        ({"world_size": 0}, "world_size"),
        ({"rank": -1}, "rank"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], word: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=word):
        carya.Loader(numbers(8, batch_size=4), **options)  # type: ignore[arg-type]


def test_a_loader_needs_a_pipeline_with_a_batch() -> None:
    with pytest.raises(carya.InvalidArgument, match="batch"):
        carya.Loader(carya.arrays({"x": np.arange(3)}))
    with pytest.raises(carya.InvalidArgument, match="pipeline"):
        carya.Loader([1, 2])  # type: ignore[arg-type]


def test_too_large_slots_are_an_error_at_once() -> None:
    huge = carya.arrays({"x": np.zeros((2, 1 << 24), np.uint8)}).batch(1 << 20)  # 16 TiB a slot
    with pytest.raises(carya.Exhausted, match="slots"):
        carya.Loader(huge, slots=16)


def test_a_closed_loader_says_so() -> None:
    loader = carya.Loader(numbers(8, batch_size=4))
    iterator = iter(loader)
    next(iterator)
    loader.close()
    loader.close()
    with pytest.raises(carya.Closed):
        next(iterator)
    with pytest.raises(carya.Closed):
        iter(loader)


def test_holding_all_slots_is_an_error_with_the_cure_after_which_it_goes_on() -> None:
    with carya.Loader(numbers(40, batch_size=4), slots=3, hold_timeout=0.3) as loader:
        iterator = iter(loader)
        held = [next(iterator) for _ in range(3)]
        with pytest.raises(carya.Exhausted, match=r"holds 3 of 3 slots; drop .* copies .*Loader\(slots=5\)"):
            next(iterator)
        held.clear()
        assert next(iterator).step == 3


def test_stats_count_what_was_delivered() -> None:
    with carya.Loader(numbers(20, batch_size=4), threads=2, slots=5) as loader:
        for _ in loader:
            pass
        stats = loader.stats()
    assert stats["batches"] == 5
    assert stats["threads"] == 2
    assert stats["slots"]["count"] == 5
    assert stats["stall_seconds"] >= 0


def test_a_loader_that_is_given_for_a_dataset_says_what_to_give() -> None:
    with carya.Loader(numbers(8, batch_size=4)) as loader:
        with pytest.raises(TypeError, match=r"give loader\.dataset"):
            loader[0]
        torchs = pytest.importorskip("torch.utils.data").DataLoader(loader, batch_size=2)
        with pytest.raises(TypeError, match="it gives batches in their order"):
            next(iter(torchs))
        assert len(records(loader)) == 2
