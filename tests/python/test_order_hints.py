"""What a user says of an operation's place: `keep_position`, `depends_on`, `barrier()`."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya


def colors(**order: Any) -> carya.Pipeline:
    return carya.image_folder("photos").decode_image().color_jitter(0.4, hue=0.1).random_crop(40, **order)


def order_of(chain: carya.Pipeline) -> list[str]:
    return list(chain.batch(4).explain()["order"])


def test_each_holds_an_operation_where_it_is() -> None:
    declared = ["decode_image", "color_jitter", "random_crop"]
    assert order_of(colors()) == ["decode_image", "random_crop", "color_jitter"]
    assert order_of(colors(keep_position=True)) == declared
    assert order_of(colors(depends_on=["color_jitter"])) == declared
    assert order_of(colors(depends_on=("color_jitter",))) == declared
    started = carya.image_folder("photos").decode_image().color_jitter(0.4, hue=0.1)
    assert order_of(started.barrier().random_crop(40)) == declared
    assert order_of(started.random_crop(40).barrier()) == ["decode_image", "random_crop", "color_jitter"]


def test_every_operation_takes_them() -> None:
    methods = [
        name
        for name in dir(type(carya.ops()))
        if not name.startswith("_") and "OrderHints" in str(inspect.signature(getattr(carya.ops(), name)))
    ]
    assert len(methods) == 56
    assert all(callable(getattr(carya.Pipeline, name)) for name in methods)


def test_they_are_shown_and_written_where_they_say_something() -> None:
    chain = (
        colors(keep_position=True, depends_on=["decode_image"]).barrier().random_horizontal_flip(keep_position=False)
    )
    text = repr(chain)
    assert 'padding_mode="constant", keep_position=True, depends_on=["decode_image"])' in text
    assert "\nbarrier()\nrandom_horizontal_flip(p=0.5)" in text
    document = json.loads(chain.to_json())
    assert document["ops"][-3]["depends_on"] == ["decode_image"]
    assert document["ops"][-2] == {"op": "barrier"}
    assert set(document["ops"][-1]) == {"op", "p"}
    assert carya.Pipeline.from_json(chain.to_json()) == chain
    assert colors(keep_position=False, depends_on=[]) == colors()


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: colors(depends_on=["crop"]), carya.InvalidArgument, ["random_crop", '"crop"', "color_jitter"]),
        (lambda: colors(depends_on=["random_crop"]), carya.InvalidArgument, ["itself"]),
        (lambda: colors(depends_on="color_jitter"), carya.InvalidArgument, ["depends_on", "a list"]),
        (lambda: colors(depends_on=[1]), carya.InvalidArgument, ["depends_on", "a list of strings"]),
        (lambda: colors(keep_position=1), carya.InvalidArgument, ["keep_position: got 1", "True or False"]),
        (lambda: colors(keep_positon=True), TypeError, ["random_crop()", "'keep_positon'"]),
        (lambda: colors().invert().invert().invert(depends_on=["invert"]), carya.InvalidArgument, ['"invert#1"']),
        (lambda: colors().batch(2).barrier(), carya.InvalidArgument, ["barrier", "batch"]),
        (
            lambda: colors().random_apply(carya.ops().invert(keep_position=True)),
            carya.InvalidArgument,
            ["random_apply", "keep_position", "as they are listed"],
        ),
    ],
)
def test_what_cannot_be_names_the_thing_and_the_fix(build: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        build()
    for word in words:
        assert word in str(raised.value)


def test_they_change_no_bit_and_a_state_goes_on_with_those_added_since(photos: Path) -> None:
    def chain(**order: Any) -> carya.Pipeline:
        start = carya.image_folder(str(photos)).shuffle(seed=1).decode_image().color_jitter(0.4, hue=0.1)
        return start.random_crop(40, pad_if_needed=True, **order).batch(4)

    with carya.Loader(chain(), daemon="embedded") as loader:
        whole = [np.array(batch["image"]) for batch in loader]
    with carya.Loader(chain(), daemon="embedded") as loader:
        next(iter(loader))
        state = loader.state_dict()
    with carya.Loader(chain(keep_position=True), daemon="embedded", state=state) as loader:
        rest = [np.array(batch["image"]) for batch in loader]
        assert loader.stats()["order"] == ["decode_image", "color_jitter", "random_crop"]
    assert len(rest) == len(whole) - 1
    for ours, theirs in zip(rest, whole[1:], strict=True):
        assert np.array_equal(ours, theirs)
