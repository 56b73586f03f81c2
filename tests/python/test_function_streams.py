"""One stream: what worker processes deliver is what a single call per record gives, however it is cut, resumed or shared."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code
from streams import digest, epoch_digest

import carya
from carya import _core

COUNT = 53


def pipeline(**batch: Any) -> carya.Pipeline:
    return carya.dataset(code.Squares(COUNT)).map(code.noisy).map(code.old_fashioned).shuffle(seed=9).batch(**batch)


def expected(epoch: int, start: int = 0) -> list[tuple[Any, ...]]:
    """Record, y, noise and a, position by position, by calls in this process."""
    unbatched = carya.dataset(code.Squares(COUNT)).map(code.noisy).map(code.old_fashioned).shuffle(seed=9)
    order = _core.Permutation(9, epoch, COUNT).records(start, COUNT - start).tolist()
    samples = [(record, unbatched.sample(record, epoch=epoch)) for record in order]
    return [(r, int(s["y"]), tuple(s["noise"].tolist()), tuple(s["a"].tolist())) for r, s in samples]


def rows(batches: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        for i in np.flatnonzero(np.asarray(batch.valid)):
            values = batch["noise"][i].tolist(), batch["a"][i].tolist()
            found.append((int(batch.records[i]), int(batch["y"][i]), tuple(values[0]), tuple(values[1])))
    return found


@pytest.mark.parametrize(("workers", "size", "slots"), [(1, 1, 2), (2, 7, 3), (3, 64, "auto")])
def test_the_stream_is_that_of_single_calls(workers: int, size: int, slots: Any) -> None:
    with carya.Loader(pipeline(batch_size=size), threads=workers, slots=slots, epochs=2) as loader:
        for epoch in range(2):
            assert rows(loader) == expected(epoch)


def test_the_ranks_parts_together_are_the_single_stream_also_resumed_at_another_world_size() -> None:
    with carya.Loader(pipeline(global_size=12), threads=2) as loader:
        iterator = iter(loader)
        before = rows([next(iterator), next(iterator)])
        state = loader.state_dict()
    assert len(repr(state)) < 400
    assert before == expected(0)[:24]
    steps: list[list[Any]] = [[] for _ in range(3)]
    for rank in range(3):
        with carya.Loader(
            pipeline(global_size=6), threads=1, rank=rank, world_size=3, state=state, on_error="raise"
        ) as loader:
            for step, batch in enumerate(loader):
                steps[step % 3] += [(step, rank, rows([batch]))]
    parts = sorted(part for step in steps for part in step)
    assert [row for _, _, found in parts for row in found] == expected(0, 24)


def test_resume_at_every_step_goes_on_with_the_same_rows() -> None:
    with carya.Loader(pipeline(batch_size=8), threads=2) as loader:
        states = [(dict(loader.state_dict()), batch.position) for batch in loader]
        for state, position in states[::2]:
            loader.load_state_dict(state)
            assert rows(loader) == expected(0, position)


def test_a_state_of_other_code_or_data_is_refused() -> None:
    with carya.Loader(pipeline(batch_size=8), threads=1) as loader:
        state = loader.state_dict()
    others = (
        carya.dataset(code.Squares(COUNT)).map(code.noisy).shuffle(seed=9).batch(8),
        carya.dataset(code.Squares(COUNT), version=2).map(code.noisy).map(code.old_fashioned).shuffle(seed=9).batch(8),
    )
    for other, text in zip(others, ("the pipeline differs", "the dataset differs"), strict=True):
        with pytest.raises(carya.InvalidArgument, match=text):
            carya.Loader(other, threads=1, state=state)


def test_held_batches_do_not_change_and_views_keep_their_slot() -> None:
    with carya.Loader(pipeline(batch_size=8), threads=2, slots=4, epochs=8) as loader:
        iterator = iter(loader)
        held = next(iterator)["noise"][3:5]
        was = held.copy()
        for _ in range(5):
            for batch in loader:
                assert np.array_equal(held, was)
                del batch
        assert loader.stats()["slots"]["held"] == 1
        del held
        gc.collect()
        assert loader.stats()["slots"]["held"] == 0


def test_who_holds_all_slots_is_told() -> None:
    with (
        carya.Loader(pipeline(batch_size=8), threads=1, slots=3, hold_timeout=0.3) as loader,
        pytest.raises(carya.Exhausted, match="holds 3 of 3 slots"),
    ):
        list(loader)


@pytest.mark.parametrize(("tail", "steps"), [({"drop_last": True}, 6), ({"pad_last": True}, 7), ({}, 7)])
def test_tails_are_those_of_native_streams(tail: dict[str, Any], steps: int) -> None:
    native = carya.arrays({"x": np.arange(COUNT)}).shuffle(seed=9).batch(8, **tail)
    with carya.Loader(native) as loader:
        wanted = [(b.records.tolist(), b.valid.tolist(), b["x"].shape) for b in loader]
    with carya.Loader(carya.dataset(range(COUNT), names="x").shuffle(seed=9).batch(8, **tail), threads=2) as loader:
        assert (len(loader), [(b.records.tolist(), b.valid.tolist(), b["x"].shape) for b in loader]) == (steps, wanted)


def test_seeks_breaks_and_epochs() -> None:
    with carya.Loader(pipeline(batch_size=8), threads=2) as loader:
        next(iter(loader))
        assert rows(loader) == expected(1)
        loader.set_epoch(5)
        assert rows(loader) == expected(5)
        assert loader.state_dict()["epoch"] == 6


def test_without_prefetch_of_epochs_the_stream_is_the_same() -> None:
    with carya.Loader(pipeline(batch_size=16), threads=1, prefetch_epochs=False, epochs=2) as loader:
        assert [rows(loader) for _ in range(2)] == [expected(0), expected(1)]


def test_functions_of_whole_batches_are_one_stream_too() -> None:
    chain = carya.dataset(code.Squares(40)).shuffle(seed=2).batch(8).map_batches(code.shuffled_batch)
    assert epoch_digest(chain, threads=1) == epoch_digest(chain, threads=3)


def test_where_importing_starts_threads_workers_are_started_by_exec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_a_thread.py").write_text(
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
        "def triple(x):\n    return x * 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("with_a_thread")
    chain = carya.arrays({"x": np.arange(12)}).map(module.triple, fields="x").batch(4)
    with carya.Loader(chain, threads=2) as loader:
        assert [batch["x"].tolist() for batch in loader] == [[0, 3, 6, 9], [12, 15, 18, 21], [24, 27, 30, 33]]
        assert loader.stats()["workers"]["started_by"] == "exec: importing the functions started threads"
    sys.modules.pop("with_a_thread")


def test_the_digest_of_a_known_stream() -> None:
    """It must not change with a version, a machine or a Python: what is keyed by the record and what is permuted."""
    chain = carya.dataset(range(32), names="x").map(_mixed).shuffle(seed=11).batch(5)
    with carya.Loader(chain, threads=2) as loader:
        assert digest(loader) == KNOWN


def _mixed(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"x": sample["x"], "bits": rng.bit_generator.random_raw(3)}


KNOWN = "f4b89a70e28019a2c8426d233ff2bb4093cb31da9db8d786d3ebfc8d430e17c4"
