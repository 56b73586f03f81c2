"""States: small, free, exact, at any step and another global batch size."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from streams import flat, numbers, records

import carya


def test_a_state_is_small_plain_data() -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    assert json.loads(json.dumps(state)) == state
    assert len(json.dumps(state)) < 300
    assert (state["version"], state["epoch"], state["position"], state["global_size"]) == (1, 0, 4, 4)


@pytest.mark.parametrize("tail", [{}, {"drop_last": True}, {"pad_last": True}])
def test_resuming_at_every_step_goes_on_exactly(tail: dict[str, bool]) -> None:
    chain = numbers(22, batch_size=5, **tail)
    with carya.Loader(chain) as loader:
        whole, states = [], []
        for _ in range(2):
            for batch in loader:
                whole.append(batch["x"][batch.valid].tolist())
                states.append(batch.state_dict())
                assert states[-1] == loader.state_dict()
    for cut, state in enumerate(states):
        with carya.Loader(chain, state=state) as loader:
            rest = [batch["x"][batch.valid].tolist() for _ in range(2) for batch in loader]
        wanted = whole[cut + 1 :]
        assert rest[: len(wanted)] == wanted


@pytest.mark.parametrize("other", [1, 2, 3, 7, 10, 25])
def test_resuming_with_another_global_size_covers_the_rest_exactly_once(
    other: int, caplog: pytest.LogCaptureFixture
) -> None:
    with carya.Loader(numbers(23, global_size=4)) as loader:
        whole = flat(records(loader))
        loader.set_epoch(0)
        states = [batch.state_dict() for batch in loader]
    for state in states:
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="carya"), carya.Loader(numbers(23, global_size=other)) as loader:
            loader.load_state_dict(state)
            steps = records(loader)
            following = flat(records(loader))
        assert flat(steps) == whole[state["position"] :]
        assert all(len(step) == other for step in steps[:-1])
        assert sorted(following) == list(range(23))
        assert sum("global batch size" in entry.message for entry in caplog.records) == (other != 4)


def test_resuming_at_another_world_size(tmp_path: object) -> None:
    chain = numbers(30, global_size=6)
    with carya.Loader(chain) as loader:
        whole = flat(records(loader))
        loader.set_epoch(0)
        iterator = iter(loader)
        next(iterator)
        state = next(iterator).state_dict()
    parts = []
    for rank in range(3):
        with carya.Loader(chain, rank=rank, world_size=3, state=state) as loader:
            parts.append(records(loader))
    assert flat([flat(step) for step in zip(*parts, strict=True)]) == whole[12:]


def test_after_a_break_the_state_is_that_of_the_last_yielded_batch() -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        for batch in loader:
            if batch.step == 2:
                break
        assert loader.state_dict() == batch.state_dict()
        assert loader.state_dict()["position"] == 12


def test_after_an_epoch_the_state_is_the_start_of_the_next() -> None:
    with carya.Loader(numbers(8, batch_size=4)) as loader:
        batch = list(loader)[-1]
        assert (batch.state_dict()["epoch"], batch.state_dict()["position"]) == (0, 8)
        state = loader.state_dict()
        assert (state["epoch"], state["position"]) == (1, 0)
        second = records(loader)
    with carya.Loader(numbers(8, batch_size=4), state=state) as loader:
        assert records(loader) == second


def test_a_state_at_the_end_of_an_epoch_has_an_empty_rest() -> None:
    with carya.Loader(numbers(8, batch_size=4)) as loader:
        state = [batch.state_dict() for batch in loader][-1]
        second = records(loader)
    with carya.Loader(numbers(8, batch_size=4), state=state) as loader:
        assert records(loader) == []
        assert records(loader) == second
    with carya.Loader(numbers(8, batch_size=4), state=state) as loader:
        loader.set_epoch(1)
        assert records(loader) == second


def test_a_mismatch_says_what_differs() -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    other_data = carya.arrays({"x": np.arange(20) + 1}).shuffle(seed=5).batch(4)
    with pytest.raises(carya.InvalidArgument, match="dataset differs"):
        carya.Loader(other_data, state=state)
    with pytest.raises(carya.InvalidArgument, match=r"seed differs .state 5, here 6"):
        carya.Loader(numbers(20, batch_size=4), seed=6, state=state)
    with pytest.raises(carya.InvalidArgument, match=r"on_error differs .state 'raise', here 'mask'"):
        carya.Loader(numbers(20, batch_size=4), on_error="mask", state=state)


def test_another_pipeline_is_refused_unless_accepted() -> None:
    data = carya.arrays({"image": np.zeros((20, 2, 2, 1), np.uint8)}).shuffle(seed=5)
    with carya.Loader(data.normalize(0.5, 0.5).batch(4)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    for other in (data.normalize(0.5, 0.25), data.to_dtype("float32"), data):
        with pytest.raises(carya.InvalidArgument, match="pipeline differs"):
            carya.Loader(other.batch(4), state=state)
    with carya.Loader(data.batch(4)) as loader:
        loader.load_state_dict(state, strict=False)
        assert next(iter(loader)).position == 8


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"position": -1}, {"position": 21}, {"epoch": "1"}, {"seed": None}, {"global_size": True}],
)
def test_a_broken_state_is_refused(change: dict[str, object]) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        state = loader.state_dict()
        with pytest.raises(carya.InvalidArgument, match="load_state_dict"):
            loader.load_state_dict({**state, **change})
        for key in state:
            with pytest.raises(carya.InvalidArgument, match=key):
                loader.load_state_dict({name: value for name, value in state.items() if name != key})
        assert len(records(loader)) == 5


def test_numbers_of_numpy_are_numbers() -> None:
    """Some checkpoints give back arrays of no dimension for what they were given."""
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        next(iter(loader))
        state = loader.state_dict()
        rest = records(loader)
    for kind in (np.int64, np.uint64, np.array):
        changed = {name: kind(value) if isinstance(value, int) else np.str_(value) for name, value in state.items()}
        with carya.Loader(numbers(20, batch_size=4), state=changed) as loader:
            assert loader.state_dict() == state
            assert records(loader) == rest_of(state)
    assert rest != rest_of(state), "another epoch"
    with carya.Loader(numbers(20, batch_size=4)) as loader, pytest.raises(carya.InvalidArgument, match="epoch"):
        loader.load_state_dict({**state, "epoch": np.float64(1)})


def rest_of(state: dict[str, object]) -> list[list[int]]:
    with carya.Loader(numbers(20, batch_size=4), state=state) as loader:
        return records(loader)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (
            {"_snapshot": {}, "_steps_since_snapshot": 0, "_iterator_finished": False},
            "of torchdata's StatefulDataLoader",
        ),
        ({"_num_yielded": 1, "_sampler_iter_state": None}, r"StatefulDataLoader, .*set_epoch\(e\)"),
        ({"version": 1, "epoch": 0, "batches": 1, "indices": "", "generators": {}}, "DataLoader with num_workers=0"),
        ({"version": 1, "workers": [], "next": 0, "seed": 0}, "over an iterable dataset"),
    ],
)
def test_a_state_of_another_loader_is_named(state: dict[str, object], told: str) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader, pytest.raises(carya.InvalidArgument, match=told):
        loader.load_state_dict(state)
