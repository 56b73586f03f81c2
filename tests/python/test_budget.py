"""Batches by a budget of tokens: `batch(tokens=...)`."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
import user_code as code
from hypothesis import given, settings
from hypothesis import strategies as some

import carya
from carya._functions.steps import BudgetSteps
from carya._orders.budget import Budget

COUNT = 61
LENGTHS = some.lists(some.integers(0, 30), min_size=1, max_size=90)


@settings(max_examples=80, deadline=None)
@given(
    lengths=LENGTHS, tokens=some.integers(32, 90), rows=some.integers(1, 12), padded=some.booleans(),
    multiple_of=some.sampled_from([1, 4, 8]), data=some.data(),
)  # fmt: skip
def test_batches_hold_the_budget_and_no_record_more_would_fit(
    lengths: list[int], tokens: int, rows: int, padded: bool, multiple_of: int, data: some.DataObject
) -> None:
    of, budget = np.array(lengths), Budget(tokens, rows, padded, multiple_of)
    ends = budget.ends(of)
    costs = [max(1, -(-n // multiple_of) * multiple_of if padded else n) for n in lengths]

    def total(first: int, last: int) -> int:
        part = costs[first:last]
        return len(part) * max(part) if padded else sum(part)

    first = 0
    for end in ends.tolist():
        assert total(first, end) <= tokens
        assert 1 <= end - first <= min(rows, budget.rows_of(of))
        assert end == len(lengths) or end - first == rows or total(first, end + 1) > tokens
        first = end
    assert first == len(lengths)
    begin = data.draw(some.sampled_from([0, *ends.tolist()[:-1]]))  # what came before does not count
    assert budget.ends(of, begin).tolist() == [end for end in ends.tolist() if end > begin]


@settings(max_examples=80, deadline=None)
@given(lengths=LENGTHS, worlds=some.lists(some.integers(1, 5), min_size=1, max_size=12), drop_last=some.booleans())
def test_every_position_comes_once_at_world_sizes_that_change_at_any_step(
    lengths: list[int], worlds: list[int], drop_last: bool
) -> None:
    of, budget = np.array(lengths), Budget(60, 9, True)
    seen: list[int] = []
    cuts = [0]
    position, turn = 0, 0
    while True:
        world = worlds[turn % len(worlds)]
        ranks = [BudgetSteps(of, budget, world_size=world, rank=rank, drop_last=drop_last) for rank in range(world)]
        assert len({(one.steps_from(position), one.step_positions(position)) for one in ranks}) == 1
        if not ranks[0].steps_from(position):
            break
        for one in ranks:
            first, count, rows, repeated = one.part(position)
            assert count == rows <= one.rank_rows_max
            if not repeated:
                seen += range(first, first + count)
                cuts.append(first + count)
            else:
                assert not drop_last
                assert position <= first < position + ranks[0].step_positions(position)
        position += ranks[0].step_positions(position)
        turn += 1
    assert seen == list(range(len(seen)))
    assert cuts == [0, *budget.ends(of).tolist()[: len(cuts) - 1]]
    assert position == len(lengths) if not drop_last else len(budget.ends(of)) - len(cuts) + 1 < max(worlds)


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS, position=some.integers(0, 89))
def test_a_position_of_another_budget_begins_a_batch(lengths: list[int], position: int) -> None:
    of = np.array(lengths)
    position = min(position, len(lengths))
    steps = BudgetSteps(of, Budget(60, 9, True))
    expected = Budget(60, 9, True).ends(of, position).tolist()
    found = []
    for _ in range(steps.steps_from(position)):
        first, count, _, _ = steps.part(position)
        assert first == position
        position += steps.step_positions(position)
        assert first + count == position
        found.append(position)
    assert found == expected
    fresh = BudgetSteps(of, Budget(60, 9, True))  # what was asked for meanwhile changes nothing from the start on
    at = 0
    while fresh.steps_from(at):
        assert (steps.steps_from(at), steps.part(at), steps.step(at)) == (
            fresh.steps_from(at),
            fresh.part(at),
            fresh.step(at),
        )
        at += fresh.step_positions(at)
    assert steps.steps_from(at) == 0


def padded(pipeline: carya.Pipeline) -> carya.Pipeline:
    return pipeline.pad_sequences("tokens", multiple_of=4, value=-1).pad_sequences("weights")


RAGGED = carya.dataset(code.Ragged(COUNT)).shuffle(seed=3)
PIPELINES = {
    "in its order": lambda: padded(RAGGED.map(code.noisy)).batch(tokens=48, length=code.Ragged(COUNT).lengths),
    "by buckets": lambda: padded(RAGGED.bucket_by_length("tokens", window=20, group=4)).batch(tokens=48),
    "of what is left": lambda: padded(RAGGED.filter(code.many_labels)).batch(
        tokens=40, length=code.token_count, max_rows=5
    ),
    "sums, as lists": lambda: RAGGED.batch(
        tokens=30, length="tokens", padded=False, max_rows=7, lists=("tokens", "weights")
    ),
}


def shown(batch: carya.Batch) -> Any:
    """What is in a batch, or None of one that repeats another rank's row."""
    if not np.asarray(batch.valid).any():
        return None
    values = {name: [np.asarray(one).tolist() for one in value] for name, value in batch.items()}
    return batch.epoch, batch.records.tolist(), values


def stream(made: carya.Pipeline, ranks: int = 1, state: Any = None, **options: Any) -> list[Any]:
    """Two epochs, or what a state leaves of them, batch by batch in the order of ranks."""
    parts = []
    for rank in range(ranks):
        with carya.Loader(made, threads=2, rank=rank, world_size=ranks, epochs=2, state=state, **options) as loader:
            left = 2 - (state["epoch"] if state else 0)
            parts.append([[shown(batch) for batch in loader] for _ in range(left)])
    found = []
    for epoch in range(len(parts[0])):
        for step in zip(*(part[epoch] for part in parts), strict=True):
            found += [one for one in step if one is not None]
    return found


@pytest.mark.parametrize("name", PIPELINES)
def test_world_sizes_kills_and_resumes_give_the_same_batches(name: str) -> None:
    made = PIPELINES[name]()
    whole = stream(made)
    assert sorted(record for epoch, records, _ in whole for record in records if epoch == 0) == sorted(
        record for epoch, records, _ in whole for record in records if epoch == 1
    )
    if name in ("by buckets", "sums, as lists"):
        assert stream(made, ranks=3) == whole
    found, states = [], []
    with carya.Loader(made, threads=2, epochs=2) as loader:
        iterator = iter(loader)
        for step in range(5):
            found.append(shown(next(iterator)))
            states.append(loader.state_dict())
            if step == 2:
                os.kill(loader._job._figures["pids"][0], signal.SIGKILL)  # type: ignore[attr-defined]
        assert len(repr(states[-1])) < 400
    assert found == whole[:5]
    assert stream(made, ranks=2, state=states[4]) == whole[5:]
    assert stream(made, state=states[1]) == whole[2:]


def test_batches_hold_their_budget_as_they_are_padded_and_length_is_that_of_the_epoch() -> None:
    with carya.Loader(PIPELINES["by buckets"](), threads=2, epochs=2) as loader:
        for _ in range(2):
            sizes = [(len(batch.records), batch["tokens"].size, batch.step) for batch in loader]
            assert max(size for _, size, _ in sizes) <= 48
            assert [step for *_, step in sizes] == list(range(len(sizes)))
            assert len({rows for rows, *_ in sizes}) > 1
        assert loader.batch_size == 1024
        loader.set_epoch(0)
        assert sum(1 for _ in loader) == len(loader)
    with carya.Loader(PIPELINES["sums, as lists"](), threads=1, epochs=1) as loader:
        assert all(sum(map(len, batch["tokens"])) <= 30 and len(batch["tokens"]) <= 7 for batch in loader)


def test_a_state_goes_on_with_another_budget_and_with_rows() -> None:
    ordered = RAGGED.bucket_by_length("tokens", window=20, group=4).pad_sequences(("tokens", "weights"))
    with carya.Loader(ordered.batch(tokens=48), threads=1) as loader:
        iterator = iter(loader)
        seen = [int(record) for _ in range(3) for record in next(iterator).records]
        state = loader.state_dict()
    rest = []
    for batch in ({"batch_size": 5}, {"tokens": 96}, {"tokens": 13, "max_rows": 2}):
        with carya.Loader(ordered.batch(**batch), threads=1, epochs=1, state=state) as loader:  # type: ignore[arg-type]
            rest.append([int(record) for one in loader for record in one.records])
    assert rest[0] == rest[1] == rest[2]
    assert sorted(seen + rest[0]) == list(range(COUNT))
    made = ordered.batch(tokens=13, max_rows=2)
    with carya.Loader(made, threads=1) as loader:
        whole = [batch.records.tolist() for batch in loader]
        loader.load_state_dict(state)  # inside of a batch of this budget
        assert sum(1 for _ in loader) <= len(whole)
        loader.load_state_dict({**state, "position": 0})
        assert [batch.records.tolist() for batch in loader] == whole


def test_pad_last_and_drop_last() -> None:
    made = padded(RAGGED).batch(tokens=48, length="tokens", max_rows=9, pad_last=True)
    with carya.Loader(made, threads=2, epochs=1, rank=1, world_size=4) as loader:
        for batch in loader:
            assert len(batch.records) == batch["tokens"].shape[0] == 9
    ends = len(stream(padded(RAGGED).batch(tokens=48, length="tokens", max_rows=9)))
    made = padded(RAGGED).batch(tokens=48, length="tokens", max_rows=9, drop_last=True)
    with carya.Loader(made, threads=1, epochs=1, rank=1, world_size=4) as loader:
        first = len(loader)
        assert sum(1 for _ in loader) == first
        assert first <= ends // 4 + 1


def test_mistakes_of_a_budget() -> None:
    p = carya.dataset(code.Ragged(COUNT))
    for call, told in [
        (lambda: p.batch(4, tokens=8, length="tokens"), "batch: tokens: got 8; give only one of"),
        (lambda: p.batch(tokens=0, length="tokens"), "batch: tokens: got 0; give an integer of 1 or more"),
        (lambda: p.batch(tokens=8), "batch: length: got None; give a field's name"),
        (lambda: p.batch(tokens=8, length="tokens", max_rows=0), "batch: max_rows: got 0"),
        (lambda: p.batch(tokens=8, length="tokens", padded=1), "batch: padded: got 1; give True or False"),  # type: ignore[arg-type]
        (lambda: p.batch(4, length="tokens"), "batch: length: got 'tokens'; give tokens= beside it"),
        (lambda: p.batch(4, max_rows=5), "batch: max_rows: got 5; give tokens= beside it"),
        (
            lambda: p.bucket_by_length("tokens").batch(tokens=8, length="tokens"),
            "batch: length: .*to bucket_by_length only",
        ),
        (
            lambda: p.flat_map(code.words).batch(tokens=8, length="token"),
            "batch: tokens: .*behind flat_map are no single",
        ),
        (lambda: p.pack(8, "tokens").batch(tokens=8, length="tokens"), "batch: tokens: .*behind pack are no single"),
        (
            lambda: p.pad_sequences("tokens", to=12).batch(tokens=8, length="tokens"),
            "batch: tokens: .*give batch_size=",
        ),
        (lambda: p.map(code.noisy).batch(tokens=8, length="tokens"), "it comes after random numbers"),
        (lambda: p.batch(tokens=8, length="tokens").mixup(), "mixup: group: .*give .batch"),
        (lambda: carya.mix([p, p]).batch(tokens=8, length="tokens"), "mix"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            call()
    long = int(np.flatnonzero(code.Ragged(COUNT).lengths > 8)[0])
    with pytest.raises(
        carya.InvalidArgument, match=f"batch: tokens: got 8, and record {long} has .*give at least 12, or"
    ):
        carya.Loader(p.pad_sequences(("tokens", "weights")).batch(tokens=8, length="tokens"), threads=1)
