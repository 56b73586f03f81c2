"""Mixes: every position has one sample of one pipeline, each pipeline is at a place that follows from the position alone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code
from hypothesis import given, settings
from hypothesis import strategies as some
from streams import digest, epoch_digest, killed_and_resumed

import carya
from carya._orders.shares import Mix, mixed
from carya._orders.weights import table_of

COUNTS = some.lists(some.integers(1, 60), min_size=2, max_size=5)


@settings(max_examples=150, deadline=None)
@given(
    counts=COUNTS,
    data=some.data(),
    stop=some.sampled_from(["first", "all"]),
    seed=some.one_of(some.none(), some.integers(0, 2**64 - 1)),
    in_turn=some.booleans(),
)
def test_each_source_gives_its_samples_once_and_in_its_share(
    counts: list[int], data: some.DataObject, stop: str, seed: int | None, in_turn: bool
) -> None:
    weights = data.draw(
        some.one_of(
            some.none(),
            some.lists(some.integers(1, 50), min_size=len(counts), max_size=len(counts)),
            some.lists(some.floats(0.01, 10), min_size=len(counts), max_size=len(counts)),
        )
    )
    mix = mixed(counts, table_of(weights, counts, None, None, None), stop, seed, in_turn=in_turn)
    told: list[list[int]] = [[] for _ in counts]
    for epoch in range(2):
        sources, numbers = mix.places(epoch, 0, mix.length)
        for source, number in zip(sources.tolist(), numbers.tolist(), strict=True):
            told[source].append(number)
        first = data.draw(some.integers(0, mix.length - 1))
        count = data.draw(some.integers(0, mix.length - first))
        part = mix.places(epoch, first, count)
        assert [one.tolist() for one in part] == [
            sources[first : first + count].tolist(),
            numbers[first : first + count].tolist(),
        ]
        ends = [len(numbers) for numbers in told]
        if epoch == 0 and stop == "first":
            assert all(end <= count for end, count in zip(ends, counts, strict=True))
            assert weights is not None or ends == counts, "without weights an epoch has every record once"
        if epoch == 0 and stop == "all":
            assert all(end >= count for end, count in zip(ends, counts, strict=True))
        shares = np.array(mix.table[0][1]) / sum(mix.table[0][1]) * (epoch + 1) * mix.length
        assert np.abs(np.array(ends) - shares).max() <= len(counts)
    for numbers in told:
        assert sorted(numbers) == list(range(len(numbers)))


@pytest.mark.parametrize(
    ("in_turn", "known"),
    [(False, "c84a0a2eca40b0fdb783194de03cf64e"), (True, "c479dc045b1def82df7b8fe643c0dba2")],
)
def test_the_order_is_that_of_states_that_are_there(in_turn: bool, known: str) -> None:
    table = ((0, (2, 3, 1)), (300, (0, 1, 1)), (20_000, (5, 4, 3)))
    mix = mixed([5000, 9000, 70], table, "all", 7, in_turn=in_turn)
    told = hashlib.sha256()
    for epoch in (0, 1, 10**6):
        for column in mix.places(epoch, 0, mix.length):
            told.update(column.tobytes())
    assert (mix.length, told.hexdigest()[:32]) == (31_760, known)


def test_places_far_away_and_over_many_blocks() -> None:
    mix = mixed([5_000, 9_000], ((0, (2, 3)),), "first", 7)
    sources, numbers = mix.places(10**9, 0, mix.length)
    for source in range(2):
        mine = np.sort(numbers[sources == source])
        assert np.array_equal(mine, np.arange(mine[0], mine[0] + len(mine)))
    assert mix.places(10**9, 4_090, 20)[1].tolist() == numbers[4_090:4_110].tolist()


WEIGHTS = some.lists(some.one_of(some.integers(0, 9), some.floats(0.01, 3)), min_size=3, max_size=3).filter(any)


@settings(max_examples=100, deadline=None)
@given(
    counts=some.lists(some.integers(1, 60), min_size=3, max_size=3),
    steps=some.lists(some.tuples(some.integers(1, 90), WEIGHTS), min_size=1, max_size=5),
    first=WEIGHTS,
    temperature=some.one_of(some.none(), some.floats(0.5, 20)),
    seed=some.one_of(some.none(), some.integers(0, 99)),
    in_turn=some.booleans(),
    data=some.data(),
)
def test_weights_that_change_keep_every_sample_once_and_their_shares_between_changes(
    counts: list[int],
    steps: list[tuple[int, list[float]]],
    first: list[float],
    temperature: float | None,
    seed: int | None,
    in_turn: bool,
    data: some.DataObject,
) -> None:
    pairs, at = [(0, first)], 0
    for length, weights in steps:
        at += length
        pairs.append((at, weights))
    table = table_of(pairs, counts, temperature, None, None)
    mix = mixed(counts, table, "first", seed, in_turn=in_turn)
    whole = [mix.places(epoch, 0, mix.length) for epoch in range(3)]
    sources = np.concatenate([one for one, _ in whole])
    numbers = np.concatenate([one for _, one in whole])
    for source in range(3):
        mine = numbers[sources == source]
        assert sorted(mine.tolist()) == list(range(len(mine)))
        if in_turn or seed is None:
            assert mine.tolist() == list(range(len(mine)))
    epoch, begin = data.draw(some.integers(0, 2)), data.draw(some.integers(0, mix.length - 1))
    count = data.draw(some.integers(0, mix.length - begin))
    part = mix.places(epoch, begin, count)
    assert [one.tolist() for one in part] == [one[begin : begin + count].tolist() for one in whole[epoch]]
    if seed is None:
        ends = [at for at, _ in table[1:]] + [3 * mix.length]
        for (at, weights), end in zip(table, ends, strict=True):
            inside = np.bincount(sources[at:end], minlength=3)
            shares = np.array(weights) / sum(weights) * max(0, min(end, 3 * mix.length) - at)
            assert np.abs(inside - shares).max() <= 3
            assert not inside[np.array(weights) == 0].any()


def test_a_function_of_the_position_is_a_table_and_temperature_makes_weights_alike() -> None:
    ramp = table_of(lambda at: (100 - at, at), [1, 1], None, 25, 100)
    assert ramp == ((0, (1, 0)), (25, (3, 1)), (50, (1, 1)), (75, (1, 3)), (100, (0, 1)))
    assert table_of(lambda at: (2, 4), [1, 1], None, 10, 100) == ((0, (1, 2)),)
    assert table_of((1, 100), [1, 1], 2, None, None) == ((0, (1, 10)),)
    assert table_of((1, 100), [1, 1], float("inf"), None, None) == ((0, (1, 1)),)
    ((_, (small, large)),) = table_of(None, [10, 1000], 3.0, None, None)
    assert abs(large / small - 100 ** (1 / 3)) < 1e-6


def test_far_changes_cost_no_walk() -> None:
    mix = mixed([1000, 1000], table_of([(0, (1, 1)), (10**12, (3, 1))], [1000, 1000], None, None, None), "first", 5)
    sources, _ = mix.places(10**9, 0, mix.length)
    assert abs(float(np.mean(sources == 0)) - 0.75) < 0.01
    assert isinstance(mix, Mix)


def squares(count: int, by: int = 0, kept: Any = None) -> carya.Pipeline:
    of = carya.dataset(code.Squares(count))
    return (of if kept is None else of.filter(kept)).map(code.noisy).map(code.Plus(by))


def pipeline(**batch: Any) -> carya.Pipeline:
    parts = [squares(23).shuffle(seed=1), squares(11, 1000), squares(7, 2000).shuffle(seed=2)]
    return carya.mix(parts, weights=(4, 2, 1), stop="all", seed=3).map(code.noisy).batch(**batch)


def filtered(**batch: Any) -> carya.Pipeline:
    of = carya.iterable(code.Squared([9, 4]), shards=2, lengths=[9, 4], window=5).filter(code.even).shuffle(seed=4)
    parts = [squares(23, kept=code.even).shuffle(seed=1), squares(11, 1000), of.map(code.noisy).map(code.Plus(0))]
    return carya.mix(parts, stop="all", seed=3).map(code.noisy).batch(**batch)


def test_filters_inside_of_a_mix_leave_an_exact_stream() -> None:
    whole = epoch_digest(filtered(global_size=6), 2, threads=1)
    assert epoch_digest(filtered(batch_size=5), 2, threads=3) == whole
    assert digest(killed_and_resumed(filtered, steps=3, ranks=3, global_size=9)) == whole
    with carya.Loader(filtered(batch_size=40), threads=2, epochs=1) as loader:
        (batch,) = loader
        assert sorted(batch["y"].tolist()) == sorted(
            [i * i for i in range(0, 23, 2)]
            + [i * i + 1000 for i in range(11)]
            + [(100 * shard + at) ** 2 for shard, count in enumerate([9, 4]) for at in range(0, count, 2)]
        ), "without weights an epoch has every record once"
    with pytest.raises(carya.Unsupported, match=r"len: how many samples \.filter\(\.\.\.\) of pipeline 0"):
        len(filtered(batch_size=2))
    plain = squares(5, kept=code.even)
    with carya.Loader(
        carya.mix([plain, squares(4)], weights=(1, 1), seed=None).batch(6), threads=1, epochs=1
    ) as loader:
        assert [batch["y"].tolist() for batch in loader] == [[0, 0, 1, 4, 4, 16], [9]]
    with pytest.raises(carya.InvalidArgument, match="none of the records of pipeline 1 of the mix"):
        carya.Loader(carya.mix([squares(4), squares(5, kept=code.never)]).batch(2), threads=1)


def test_filters_inside_of_a_mix_are_asked_once_and_raise_at_their_records(tmp_path: Path) -> None:
    counted = code.CountedEven(str(tmp_path / "calls"))
    mix = carya.mix([squares(4), squares(20, kept=counted)]).batch(7)
    for _ in range(2):
        with carya.Loader(mix, threads=2, epochs=1) as loader:
            assert sum(len(batch["y"]) for batch in loader) == 14
        assert (tmp_path / "calls").stat().st_size == 20
    picky = carya.mix([squares(4), squares(8, kept=code.picky)]).batch(3)
    with carya.Loader(picky, threads=2, epochs=1, on_error="mask") as loader:
        rows = [y for batch in loader for y in batch["y"][batch.valid].tolist()]
        assert [entry["record"] for entry in loader.quarantine()] == [4 + 3]
    assert sorted(rows) == sorted([0, 1, 4, 9, 0, 4, 16, 36])


def scheduled(**batch: Any) -> carya.Pipeline:
    parts = [squares(23).shuffle(seed=1), squares(11, 1000), squares(7, 2000).shuffle(seed=2)]
    weights = [(0, (1, 0, 0)), (9, (1, 1, 0)), (30, (1, 2, 3))]
    return carya.mix(parts, weights=weights, temperature=1.5, stop="all", seed=None).batch(**batch)


def test_a_weight_of_0_that_the_shuffle_would_not_keep_is_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    parts = [squares(30), squares(30, 1000)]
    with pytest.warns(
        RuntimeWarning, match=r"mix: pipeline 1 has weight 0 up to position 16, .* give seed=None"
    ) as told:
        carya.mix(parts, weights=[(0, [1, 0]), (16, [1, 1])])
    assert told[0].filename == __file__
    recwarn.clear()
    sharp = carya.mix(parts, weights=[(0, [1, 0]), (16, [1, 1])], seed=None).batch(16)
    with carya.Loader(sharp, threads=1) as loader:
        assert next(iter(loader))["y"].max() < 1000
    carya.mix(parts, weights=[(0, [1, 0]), (4096, [1, 1])])
    carya.mix(parts, weights=[(0, [1, 3]), (16, [1, 0])])  # of that one fewer come after, which is no harm
    carya.mix(parts, weights=lambda at: (1000 - at, at), every=50, until=1000)
    assert not recwarn


def test_weights_that_change_give_one_stream_too() -> None:
    whole = epoch_digest(scheduled(global_size=6), 2, threads=1)
    assert epoch_digest(scheduled(batch_size=5), 2, threads=3) == whole
    assert digest(killed_and_resumed(scheduled, steps=3, ranks=3, global_size=9)) == whole
    with carya.Loader(scheduled(batch_size=9), threads=1, epochs=1) as loader:
        first = next(iter(loader))
        assert first.records.max() < 23


def test_world_sizes_chunks_kills_and_resumes_give_the_same_stream() -> None:
    whole = epoch_digest(pipeline(global_size=6), 2, threads=1, slots=2)
    assert epoch_digest(pipeline(batch_size=5), 2, threads=3) == whole
    assert digest(killed_and_resumed(pipeline, steps=3, ranks=3, global_size=9)) == whole


def test_native_pipelines_mix_with_datasets_and_a_broken_record_is_replaced_by_one_of_its_own_pipeline() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (12, 20, 20, 3), np.uint8)
    native = carya.arrays({"image": pictures, "label": np.zeros(12, np.int64)}).random_crop(8)
    own = carya.dataset(code.Pictures(pictures[:6])).map(code.broken_label_2).resize((8, 8))
    mix = carya.mix([native, own]).random_horizontal_flip().batch(6)
    with pytest.raises(ValueError, match="label 2"):
        for _ in carya.Loader(mix, threads=1, epochs=1):
            pass
    with carya.Loader(mix, threads=2, epochs=1, on_error="replace") as loader:
        records = np.concatenate([batch.records.copy() for batch in loader])
        (entry,) = loader.quarantine()
    assert (entry["record"], entry["substitute"] >= 12) == (14, True)
    assert sorted(set(records.tolist()) | {14}) == list(range(18))
    assert mix.sample(17)["image"].shape == (8, 8, 3)


def test_mistakes() -> None:
    a, b = squares(3), carya.dataset(code.Squares(4)).map(code.Plus(1))
    for pipelines, options, told in [
        ([a], {}, "mix: pipelines"),
        ("ab", {}, "mix: pipelines"),
        ([a, b.batch(2)], {}, r"mix: pipeline 1 has a batch"),
        ([a, carya.mix([a, b])], {}, r"mix: pipeline 1 is a mix itself"),
        ([a, b], {"weights": (1,)}, "mix: weights"),
        ([a, b], {"weights": (1, 0)}, "mix: weights"),
        ([a, b], {"weights": (1, float("nan"))}, "mix: weights"),
        ([a, b], {"weights": (1, "x")}, "mix: weights"),
        ([a, b], {"weights": (1, 1e-12)}, "mix: weights"),
        ([a, b], {"stop": "never"}, "mix: stop"),
        ([a, b], {"weights": [(1, (1, 2))]}, "mix: weights: .*begin with 0 and rise"),
        ([a, b], {"weights": [(0, (1, 2)), (0, (2, 1))]}, "mix: weights: .*begin with 0 and rise"),
        ([a, b], {"weights": [(0, (1, 2)), (5, (0, 0))]}, "mix: weights at position 5: .*one of more than 0"),
        ([a, b], {"weights": lambda at: (1,), "every": 5, "until": 9}, "mix: weights at position 0: .*2 numbers"),
        ([a, b], {"weights": lambda at: (1, 2)}, "mix: every: got None"),
        ([a, b], {"weights": lambda at: (1, 2), "every": 1, "until": 10**6}, "mix: every: .*at least 16"),
        ([a, b], {"weights": (1, 2), "every": 1}, "mix: every: it says how often a function is asked"),
        ([a, b], {"temperature": 0}, "mix: temperature"),
        ([a, b], {"temperature": True}, "mix: temperature"),
        ([a, b], {"weights": [(0, (1, 1)), (2, (1, 0))], "stop": "all"}, "mix: stop: .*pipeline 1 never ends"),
        ([a, b], {"seed": -1}, "mix: seed"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            carya.mix(pipelines, **options)  # type: ignore[arg-type]
    mix = carya.mix([a, b])
    for call in (lambda: mix.shuffle(1), lambda: mix.take(2), lambda: mix.filter(code.even)):
        with pytest.raises(carya.InvalidArgument, match="a mix says itself"):
            call()
    with pytest.raises(carya.InvalidArgument, match=r"dtype|shape|names"):
        for _ in carya.Loader(carya.mix([b, carya.arrays({"x": np.zeros(3)})]).batch(2), threads=1, epochs=1):
            pass
    assert a.native.fingerprint("raise") != mix.native.fingerprint("raise")
    assert carya.mix([a, b], weights=(1, 2)).native.fingerprint("raise") != mix.native.fingerprint("raise")
