"""`weighted` and `balanced`: records drawn by weights, position by position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code
from hypothesis import given, settings
from hypothesis import strategies as some
from streams import copied, digest, epoch_digest, killed_and_resumed

import carya
from carya._orders.draws import Draws, logarithm

WEIGHTS = some.lists(some.one_of(some.just(0), some.integers(1, 100), some.floats(0.01, 5)), min_size=1, max_size=50)


@settings(max_examples=100, deadline=None)
@given(weights=WEIGHTS.filter(any), replacement=some.booleans(), seed=some.integers(0, 2**63), data=some.data())
def test_any_part_of_an_epoch_is_the_same_and_weight_0_never_comes(
    weights: list[float], replacement: bool, seed: int, data: some.DataObject
) -> None:
    of = np.array(weights, np.float64)
    able = int(np.count_nonzero(of))
    samples = data.draw(some.one_of(some.none(), some.integers(1, 100 if replacement else able)))
    for epoch in (0, 5):
        draws = Draws(of, samples, replacement, seed)
        whole = draws.at(epoch, 0, draws.count)
        assert len(whole) == draws.count == (samples or (len(of) if replacement else able))
        assert (of[whole] > 0).all()
        assert replacement or len(set(whole.tolist())) == len(whole)
        first = data.draw(some.integers(0, draws.count - 1))
        count = data.draw(some.integers(0, draws.count - first))
        again = Draws(of, samples, replacement, seed).at(epoch, first, count)
        assert again.tolist() == whole[first : first + count].tolist()


def test_proportions_are_those_of_the_weights() -> None:
    weights = np.array([1.0, 2.0, 0.0, 4.0, 13.0])
    drawn = Draws(weights, 100_000, True, seed=3).at(2, 0, 100_000)
    assert np.abs(np.bincount(drawn, minlength=5) / 100_000 - weights / 20).max() < 0.005
    firsts, pairs = np.zeros(5), 0
    for epoch in range(4000):
        first, second = Draws(weights, 2, False, seed=3).at(epoch, 0, 2).tolist()
        firsts[first] += 1
        pairs += {first, second} == {0, 4}
    assert np.abs(firsts / 4000 - weights / 20).max() < 0.03
    expected = 1 / 20 * 13 / 19 + 13 / 20 * 1 / 7  # one drawn after the other
    assert abs(pairs / 4000 - expected) < 0.03


def test_the_logarithm_is_one_and_the_draws_are_known() -> None:
    values = np.concatenate([np.random.default_rng(0).random(10_000), [2.0**-53, 1.0, 1e300, 0.5, np.sqrt(0.5)]])
    assert np.allclose(logarithm(values), np.log(values), rtol=2e-15, atol=1e-16)
    assert Draws(np.arange(10.0), 12, True, seed=1).at(1, 0, 12).tolist() == WITH
    assert Draws(np.arange(10.0), None, False, seed=1).at(1, 0, 9).tolist() == WITHOUT


WITH = [9, 5, 4, 6, 9, 9, 6, 5, 9, 9, 7, 6]
WITHOUT = [7, 6, 2, 3, 9, 1, 8, 5, 4]


def drawn(**batch: Any) -> carya.Pipeline:
    weights = [0, *range(1, 30)]
    return carya.dataset(code.Squares(30)).weighted(weights, samples=47).shuffle(seed=4).map(code.noisy).batch(**batch)


def without(**batch: Any) -> carya.Pipeline:
    p = carya.dataset(code.Squares(30)).filter(code.even).weighted(np.arange(30), replacement=False)
    return p.map(code.noisy).batch(**batch)


@pytest.mark.parametrize("made", [drawn, without])
def test_world_sizes_kills_and_resumes_give_the_stream_of_an_undisturbed_run(made: Any) -> None:
    whole = epoch_digest(made(global_size=3), 2, threads=1)
    assert epoch_digest(made(batch_size=5), 2, threads=3) == whole
    assert digest(killed_and_resumed(made, steps=2, ranks=3, global_size=9)) == whole


def test_epochs_differ_lengths_are_right_and_records_that_come_again_draw_other_numbers() -> None:
    with carya.Loader(drawn(batch_size=47), threads=2, epochs=2) as loader:
        first, second = (copied(batch) for _ in range(2) for batch in loader)
        assert (len(loader), len(drawn(batch_size=5))) == (1, 47)
    assert first.records.tolist() != second.records.tolist()
    assert first["y"].tolist() == [record**2 for record in first.records.tolist()]
    noise = {tuple(row) for row in first["noise"].tolist()}
    assert len(noise) == 47 > len(set(first.records.tolist()))
    with carya.Loader(without(batch_size=20), threads=2, epochs=1) as loader:
        (batch,) = loader
        assert sorted(batch.records.tolist()) == list(range(2, 30, 2)), "0 has weight 0, odd ones are filtered"


def test_native_pipelines_and_classes(tmp_path: Any) -> None:
    labels = np.array([0] * 180 + [1] * 15 + [2] * 5)
    p = carya.arrays({"x": np.arange(200.0), "label": labels}).balanced(labels, samples=3000).batch(3000)
    with carya.Loader(p, threads=1, epochs=1) as loader:
        counts = np.bincount(next(iter(loader))["label"])
    assert np.abs(counts / 3000 - 1 / 3).max() < 0.03
    names = np.array(["cat", "dog"])[np.minimum(labels, 1)]
    assert carya.arrays({"x": np.arange(200)}).balanced(names).native.fingerprint("raise")


def test_an_order_stands_before_operations_as_well_as_behind_them(photos: Path) -> None:
    source = carya.image_folder(photos)
    weights = np.arange(1, len(source) + 1)

    def behind(p: carya.Pipeline) -> carya.Pipeline:
        return p.decode_image().random_resized_crop(16)

    for drawn in (lambda p: p.weighted(weights), lambda p: p.repeated(2, within=4)):
        both = [drawn(behind(source)).batch(4), behind(drawn(source)).batch(4)]
        assert both[0].native.fingerprint("raise") == both[1].native.fingerprint("raise")
        first, second = (epoch_digest(p, 1, threads=2) for p in both)
        assert first == second


def test_a_broken_record_is_replaced_by_one_that_can_be_drawn() -> None:
    broken = code.Doing("value_error", (1,))
    p = carya.dataset(code.Squares(4)).weighted([0, 1, 1, 0], samples=40).map(broken).batch(40)
    with carya.Loader(p, threads=1, epochs=1, on_error="replace") as loader:
        (batch,) = loader
        assert set(batch.records.tolist()) == {2}
        assert len(loader.quarantine()) > 5


def test_mistakes() -> None:
    p = carya.dataset(code.Squares(4))
    for call, told in [
        (lambda: p.weighted([1, -1, 2, 3]), "weighted: weights"),
        (lambda: p.weighted([0, 0, 0, 0]), "weighted: weights"),
        (lambda: p.weighted([1, float("nan"), 2, 3]), "weighted: weights"),
        (lambda: p.weighted("abcd"), "weighted: weights"),  # type: ignore[arg-type]
        (lambda: p.weighted([1, 1e-20, 1, 1]), "weighted: weights: got 1e-20"),
        (lambda: p.weighted([1, 0, 1, 0], samples=3, replacement=False), "weighted: samples: got 3, and 2 records"),
        (lambda: p.weighted([1, 1, 1, 1], samples=0), "weighted: samples"),
        (lambda: p.weighted([1, 1, 1, 1], replacement=1), "weighted: replacement"),  # type: ignore[arg-type]
        (lambda: p.balanced([0.5, 1, 2, 3]), "balanced: labels"),
        (lambda: p.weighted([1] * 4).weighted([1] * 4), "weighted: it comes after weighted"),
        (lambda: p.weighted([1] * 4).flat_map(list), "flat_map: it comes after weighted"),
        (lambda: p.flat_map(list).weighted([1] * 4), "weighted: it comes after flat_map"),
        (lambda: p.batch(2).weighted([1] * 4), "weighted: comes after batch"),
        (lambda: carya.mix([p, p.weighted([1] * 4)]), "mix: pipeline 1 draws its records by weights"),
        (lambda: carya.mix([p, p]).weighted([1] * 8), "weighted: a mix says itself"),
        (
            lambda: carya.iterable(code.forever, shards=2, samples=4).weighted([1]),
            "weighted: the samples of an iterable",
        ),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            call()
    for wrong, told in [
        (p.weighted([1] * 5), "weighted: weights: got 5 for 4 records; .* also of those that a filter drops"),
        (p.filter(code.even).weighted([0, 1, 0, 1]), "all of what filters keep have weight 0"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            carya.Loader(wrong.batch(2), threads=1)
    prints = {
        one.batch(2).native.fingerprint("raise")
        for one in (
            p,
            p.weighted([1] * 4),
            p.weighted([1, 1, 1, 2]),
            p.weighted([1] * 4, samples=3),
            p.weighted([1] * 4, replacement=False),
        )
    }
    assert len(prints) == 5


def test_balanced_takes_the_labels_of_the_source(photos: Path) -> None:
    folder = carya.image_folder(photos).subset(range(3, 27)).decode_image()
    assert folder.balanced().native.fingerprint("raise") == folder.balanced(folder.labels).native.fingerprint("raise")
    for source in (carya.dataset([1, 2]), carya.arrays({"label": np.arange(4)})):
        with pytest.raises(
            carya.Unsupported, match=r"labels: records of this source have none .* give \.balanced\(labels\)"
        ):
            source.balanced()
