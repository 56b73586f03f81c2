"""`repeated`: records that come several times in an epoch, each time with other random numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import user_code as code
from hypothesis import given, settings
from hypothesis import strategies as some
from streams import copied, digest, epoch_digest, killed_and_resumed

import carya
from carya import _core
from carya._orders.repeated import Repeated, Repeats


@settings(max_examples=200, deadline=None)
@given(
    times=some.integers(1, 5),
    apart=some.integers(1, 7),
    records=some.integers(1, 60),
    seed=some.one_of(some.none(), some.integers(0, 2**63)),
    data=some.data(),
)
def test_any_part_of_an_epoch_is_the_same_and_records_come_as_often_as_asked(
    times: int, apart: int, records: int, seed: int | None, data: some.DataObject
) -> None:
    samples = data.draw(some.one_of(some.none(), some.just(records * times), some.integers(1, records * times)))
    of = Repeated(times, times * apart, samples)
    for epoch in (0, 5):
        repeats = Repeats(of, records, seed)
        whole = repeats.at(epoch, 0, repeats.count).tolist()
        assert len(whole) == repeats.count == (samples or records)
        order = (
            list(range(records))
            if seed is None
            else _core.Permutation(seed, epoch, records).records(0, records).tolist()
        )
        expected: list[int] = []
        for begin in range(0, records, apart):
            expected += order[begin : begin + apart] * times
        assert whole == expected[: len(whole)]
        if samples == records * times:
            assert set(Counter(whole).values()) == {times}
        first = data.draw(some.integers(0, repeats.count - 1))
        count = data.draw(some.integers(0, repeats.count - first))
        assert Repeats(of, records, seed).at(epoch, first, count).tolist() == whole[first : first + count]


def thrice(**batch: Any) -> carya.Pipeline:
    p = carya.dataset(code.Squares(30)).shuffle(seed=4).repeated(3, within=9, samples=81)
    return p.map(code.noisy).batch(**batch)


def filtered(**batch: Any) -> carya.Pipeline:
    return carya.dataset(code.Squares(40)).filter(code.even).repeated(2).shuffle(seed=1).map(code.noisy).batch(**batch)


@pytest.mark.parametrize("made", [thrice, filtered])
def test_world_sizes_kills_and_resumes_give_the_stream_of_an_undisturbed_run(made: Any) -> None:
    whole = epoch_digest(made(global_size=3), 2, threads=1)
    assert epoch_digest(made(batch_size=5), 2, threads=3) == whole
    assert digest(killed_and_resumed(made, steps=2, ranks=3, global_size=9)) == whole


def test_a_step_has_each_record_as_often_with_other_random_numbers() -> None:
    with carya.Loader(thrice(batch_size=9), threads=2, epochs=2) as loader:
        batches = [copied(batch) for _ in range(2) for batch in loader]
    assert (len(batches), len(thrice(batch_size=9))) == (18, 81)
    for batch in batches:
        records = batch.records.tolist()
        assert records[:3] == records[3:6] == records[6:]
        assert len(set(records)) == 3
        assert len({tuple(row) for row in batch["noise"].tolist()}) == 9
        assert batch["y"].tolist() == [record**2 for record in records]
    assert batches[0].records.tolist() != batches[9].records.tolist()
    epoch = [record for batch in batches[:9] for record in batch.records.tolist()]
    assert set(Counter(epoch).values()) == {3}
    assert len(set(epoch)) == 27


def test_ranks_of_a_step_have_different_records_each() -> None:
    """What DeiT's sampler gives: a record's three samples on three ranks."""
    ranks = []
    for rank in range(3):
        with carya.Loader(thrice(batch_size=3), threads=1, rank=rank, world_size=3, epochs=1) as loader:
            ranks.append([copied(batch).records.tolist() for batch in loader])
    for step in zip(*ranks, strict=True):
        assert step[0] == step[1] == step[2]
        assert len(set(step[0])) == 3


def test_an_epoch_is_as_long_as_without_and_native_operations_draw_for_each() -> None:
    x = np.random.default_rng(1).integers(0, 256, (12, 8, 8, 3), np.uint8)
    p = carya.arrays({"image": x}).shuffle(seed=2).repeated(4).random_crop((4, 4)).batch(12)
    with carya.Loader(p, threads=1, epochs=1) as loader:
        (batch,) = (copied(batch) for batch in loader)
    assert sorted(Counter(batch.records.tolist()).values()) == [4, 4, 4]
    assert len({image.tobytes() for image in batch["image"]}) > 6


def test_mistakes() -> None:
    p = carya.dataset(code.Squares(4))
    for call, told in [
        (lambda: p.repeated(0), "repeated: times: got 0; give how often"),
        (lambda: p.repeated(2.5), "repeated: times: got 2.5"),  # type: ignore[arg-type]
        (lambda: p.repeated(3, within=4), "repeated: within: got 4; give a multiple of times=3"),
        (lambda: p.repeated(3, samples=0), "repeated: samples: got 0"),
        (lambda: p.repeated(2).repeated(2), r"repeated: it comes after repeated, .* \.repeated\(...\) only once"),
        (lambda: p.repeated(2).weighted([1] * 4), "weighted: it comes after repeated"),
        (lambda: p.weighted([1] * 4).repeated(2), "repeated: it comes after weighted"),
        (lambda: p.repeated(2).flat_map(list), "flat_map: it comes after repeated"),
        (lambda: p.flat_map(list).repeated(2), "repeated: it comes after flat_map"),
        (lambda: p.batch(2).repeated(2), "repeated: comes after batch"),
        (lambda: carya.mix([p, p.repeated(2)]), "mix: pipeline 1 repeats its records"),
        (lambda: carya.mix([p, p]).repeated(2), "repeated: a mix says itself"),
        (lambda: carya.iterable(code.forever, shards=2, samples=4).repeated(2), "repeated: the samples of an iterable"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            call()
    for wrong, told in [
        (p.repeated(2, samples=9), "repeated: samples: got 9, and 4 records that come 2 times make 8"),
        (p.filter(code.even).repeated(2, samples=5), "got 5, and 2 records"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            carya.Loader(wrong.batch(2), threads=1)
    made = (p, p.repeated(2), p.repeated(3), p.repeated(2, within=4), p.repeated(2, samples=3))
    assert len({one.batch(2).native.fingerprint("raise") for one in made}) == 5
