"""random_apply: operations done all or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module")
def source() -> carya.Pipeline:
    random = np.random.default_rng(7)
    images = random.integers(0, 256, (200, 12, 16, 3), np.uint8)
    return carya.arrays({"image": images, "mask": images[:, :, :, :1].copy()})


def test_each_sample_has_all_the_operations_or_none(source: carya.Pipeline) -> None:
    chain = source.random_apply(carya.ops().invert().random_horizontal_flip(p=1), p=0.3)
    done = 0
    for index in range(200):
        before, after = source[index], chain[index]
        if np.array_equal(before["image"], after["image"]):
            assert np.array_equal(before["mask"], after["mask"])
            continue
        done += 1
        assert np.array_equal(255 - before["image"][:, ::-1], after["image"])
        assert np.array_equal(before["mask"][:, ::-1], after["mask"])
    assert 35 <= done <= 85  # 60 expected, deviation 6.5


def test_it_is_done_where_the_draw_is_below_p(source: carya.Pipeline) -> None:
    """What is done at a small p is done at a greater one: one draw decides, compared as the reference compares."""

    def done(p: float) -> set[int]:
        chain = source.random_apply(carya.ops().invert(), p=p)
        return {i for i in range(200) if not np.array_equal(chain[i]["image"], source[i]["image"])}

    assert done(0) == set()
    assert done(1) == set(range(200))
    assert done(0.2) < done(0.6)


def test_always_is_the_operations_themselves(source: carya.Pipeline) -> None:
    jitter = carya.ops().color_jitter(0.4, 0.4, 0.4, 0.1).random_grayscale(0.5)
    inside = source.random_apply(jitter, p=1).color_jitter(0.4)
    plain = source.color_jitter(0.4, 0.4, 0.4, 0.1).random_grayscale(0.5).color_jitter(0.4)
    for index in range(20):
        assert np.array_equal(inside[index]["image"], plain[index]["image"])


def test_the_loader_delivers_what_samples_are(photos: Path) -> None:
    jitter = carya.ops().color_jitter(0.4, 0.4, 0.4, 0.1).random_vertical_flip()
    chain = carya.image_folder(str(photos)).decode_image().random_resized_crop(32).random_apply(jitter, p=0.6)
    seen = 0
    with carya.Loader(chain.shuffle(seed=3).batch(5), threads=3) as loader:
        for batch in loader:
            for row, record in enumerate(batch.records):
                assert np.array_equal(batch["image"][row], chain.sample(int(record), seed=3)["image"])
                seen += 1
    assert seen == 27


def test_it_survives_json_and_shows_its_operations(source: carya.Pipeline) -> None:
    chain = source.random_apply(carya.ops().invert().solarize(9, fields=["mask"]), p=0.25)
    assert carya.Pipeline.from_json(chain.to_json()) == chain
    assert 'random_apply(ops=[invert(), solarize(threshold=9.0, fields=["mask"])], p=0.25)' in repr(chain).splitlines()


def test_a_chain_of_operations_is_immutable() -> None:
    start = carya.ops()
    flipped = start.random_horizontal_flip()
    assert repr(start) == "carya.ops()"
    assert repr(flipped.invert()) == "carya.ops().random_horizontal_flip(p=0.5).invert()"
    assert repr(flipped) == "carya.ops().random_horizontal_flip(p=0.5)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.random_apply([], 0.5), r"random_apply: ops: got \[\]; give a chain such as carya.ops\(\)"),
        (lambda p: p.random_apply(p), "random_apply: ops: got (.|\\n)*; give a chain such as"),
        (lambda p: p.random_apply(carya.ops()), r"random_apply: ops: got \[\]; give a list of 1 to 63 ops"),
        (lambda p: p.random_apply(carya.ops().invert(), p=2), "random_apply: p: got 2; give a number, 0.0 to 1.0"),
        (
            lambda p: p.random_apply(carya.ops().color_jitter(hue=0.7)),
            "random_apply: color_jitter: hue: got 0.7; give .* -0.5 to 0.5",
        ),
        (
            lambda p: p.random_apply(carya.ops().solarize(float("nan"))),
            "random_apply: ops: got .*nan.*; give finite numbers",
        ),
        (
            lambda p: p.random_apply(carya.ops().center_crop(9)),
            r"random_apply: ops change the shape of image, uint8\[12, 16, 3\]; give geometric and color ops",
        ),
        (
            lambda p: p.random_apply(carya.ops().normalize(0.5, 0.5)),
            "random_apply: ops has normalize; give geometric and color ops",
        ),
        (
            lambda p: p.random_apply(carya.ops().random_apply(carya.ops().invert())),
            "random_apply: ops has random_apply; give geometric and color ops",
        ),
    ],
)
def test_errors_name_op_parameter_given_and_allowed(
    source: carya.Pipeline, change: Callable[[carya.Pipeline], carya.Pipeline], message: str
) -> None:
    with pytest.raises(carya.InvalidArgument, match=message):
        change(source)
