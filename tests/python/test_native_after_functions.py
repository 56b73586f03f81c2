"""Operations of Carya behind a Python function or a dataset: the bits of a native pipeline, whoever runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code
from streams import digest, epoch_digest

import carya

PICTURES = np.random.default_rng(3).integers(0, 256, (24, 40, 52, 3), np.uint8)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)


def source() -> carya.Pipeline:
    return carya.arrays({"image": PICTURES, "label": np.arange(24)}).shuffle(seed=5)


def finished(pipeline: carya.Pipeline) -> carya.Pipeline:
    return pipeline.resize((32, 32)).center_crop(24).normalize(MEAN, STD).batch(5)


def batches(pipeline: carya.Pipeline, threads: int = 2) -> list[dict[str, Any]]:
    with carya.Loader(pipeline, threads=threads, epochs=1) as loader:
        return [{name: value.copy() for name, value in batch.items()} for batch in loader]


def test_they_have_the_bits_of_a_native_pipeline() -> None:
    for mapped in (source().map(code.same), carya.dataset(code.Pictures(PICTURES)).shuffle(seed=5)):
        found, wanted = batches(finished(mapped)), batches(finished(source()))
        assert len(found) == len(wanted) == 5
        for mine, native in zip(found, wanted, strict=True):
            assert mine["image"].dtype == np.float32
            assert mine["image"].tobytes() == native["image"].tobytes()
            assert mine["label"].tolist() == native["label"].tolist()


def test_random_ones_depend_on_seed_epoch_and_record_only() -> None:
    def random(seed: int) -> carya.Pipeline:
        ops = carya.arrays({"image": PICTURES}).shuffle(seed=seed).random_horizontal_flip().map(code.same)
        return ops.random_resized_crop(16).color_jitter(0.4).map(code.same).random_crop(8).to_dtype("float32").batch(7)

    first = [digest(random_epoch) for random_epoch in (epoch_of(random(1), 0), epoch_of(random(1), 1))]
    assert first[0] != first[1], "another epoch, other numbers"
    for options in ({"threads": 1, "slots": 2}, {"threads": 3}):
        assert epoch_digest(random(1), 2, **options) == epoch_digest(random(1), 2, threads=2)
    assert epoch_digest(random(2), threads=1) != epoch_digest(random(1), threads=1)
    with carya.Loader(random(1), threads=1, epochs=1) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        rest = digest(iterator)
    with carya.Loader(random(1), threads=2, epochs=1, state=state) as loader:
        assert digest(loader) == rest


def epoch_of(pipeline: carya.Pipeline, epoch: int) -> list[carya.Batch]:
    with carya.Loader(pipeline, threads=2) as loader:
        loader.set_epoch(epoch)
        return [carya.Batch({name: value.copy() for name, value in batch.items()}, like=batch) for batch in loader]


def test_the_same_operation_before_and_behind_a_function_draws_other_numbers() -> None:
    before = carya.arrays({"image": PICTURES}).random_horizontal_flip().map(code.same)
    behind = carya.arrays({"image": PICTURES}).map(code.same).random_horizontal_flip()
    again = behind.map(code.same).random_horizontal_flip()
    flips = [
        [bool((p.sample(i)["image"] != PICTURES[i]).any()) for i in range(len(PICTURES))]
        for p in (before, behind, again)
    ]
    assert flips[0] != flips[1]
    assert any(flips[1])
    assert not all(flips[1])
    assert any(flips[2]), "two equal flips would take each other back"


def test_pictures_of_many_shapes_and_what_has_no_native_form(photos: Path) -> None:
    """Each shape has a plan of its own; text and boxes go past the operations."""
    files = carya.image_folder(photos).take(6).decode_image().map(code.with_text)
    found = batches(files.resize((20, 20)).map(code.same).random_crop(16).batch(6, lists=("boxes",)))
    assert found[0]["image"].shape == (6, 16, 16, 3)
    assert found[0]["text"] == [f"label {label}" for label in found[0]["label"]]
    many = carya.dataset([{"image": PICTURES[0][: 2 + i]} for i in range(80)]).resize((4, 4)).batch(80)
    assert batches(many)[0]["image"].shape == (80, 4, 4, 3)


def test_mistakes_name_the_operation_and_what_it_was_given() -> None:
    with pytest.raises(carya.InvalidArgument, match=r"resize: the sample has no array, only value"):
        carya.Loader(carya.dataset(["a", "b"]).resize((8, 8)).batch(2), threads=1)
    with pytest.raises(carya.InvalidArgument, match=r"resize"):
        carya.Loader(source().map(code.same).resize((-8, 8)).batch(2), threads=1)
    with pytest.raises(carya.InvalidArgument, match=r"filter: it comes after random numbers"):
        source().map(code.same).random_crop(8).filter(bool)
    with pytest.raises(carya.InvalidArgument, match=r"resize: comes after batch"):
        source().map(code.same).batch(2).resize(8)


def test_they_belong_to_the_fingerprint_and_the_figures() -> None:
    first, other = source().map(code.same).resize((8, 8)), source().map(code.same).resize((8, 9))
    assert first.native.fingerprint("raise") != other.native.fingerprint("raise")
    assert "resize" in str(first)
    assert first.barrier() == first
    with carya.Loader(finished(source().map(code.same)), threads=1) as loader:
        for _ in loader:
            pass
        assert [op["name"] for op in loader.stats()["ops"]] == ["arrays", "map(same)", "resize+center_crop+normalize"]
