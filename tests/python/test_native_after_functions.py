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


def _with_boxes() -> carya.Pipeline:
    rng = np.random.default_rng(5)
    boxes = np.tile(np.float32([[2, 3, 20, 15]]), (6, 2, 1)) + np.arange(6, dtype=np.float32)[:, None, None]
    pictures = rng.integers(0, 256, (6, 40, 50, 3), dtype=np.uint8)
    return carya.arrays({"image": pictures, "boxes": boxes, "labels": np.arange(12).reshape(6, 2)}).boxes(rows="labels")


def _first_object(sample: Any) -> Any:
    left, top, right, bottom = sample["boxes"][0].astype(int)
    return {"image": sample["image"][top:bottom, left:right], "label": sample["labels"][0]}


@pytest.mark.parametrize(
    "moves",
    [
        lambda chain: chain.random_horizontal_flip(),
        lambda chain: chain.random_apply(carya.ops().random_horizontal_flip()),
        lambda chain: chain.sanitize_boxes(),
        lambda chain: chain.color_jitter(0.2).resize((20, 20)),
    ],
)
def test_no_picture_is_moved_without_its_boxes(moves: Any) -> None:
    source = _with_boxes()
    for chain in (source.map(dict), carya.mix([source, source], weights=[1, 1])):
        with pytest.raises(carya.InvalidArgument, match=r"boxes would not follow .* right behind \.boxes\(\)"):
            moves(chain)[0]
        assert chain.color_jitter(0.2)[0]["boxes"].shape == (2, 4)
    objects = source.map(_first_object).resize((9, 9)).random_horizontal_flip()  # of which none is left
    assert objects[0]["image"].shape == (9, 9, 3)


def _to_shares(boxes: Any) -> Any:
    return boxes / np.float32([50, 40, 50, 40])


def test_boxes_as_shares_of_the_sides_stay_right_behind_a_resize() -> None:
    chain = _with_boxes().map(_to_shares, fields="boxes")
    assert np.array_equal(chain.color_jitter(0.2).resize((20, 20))[1]["boxes"], chain[1]["boxes"])
    with pytest.raises(carya.InvalidArgument, match="boxes would not follow"):
        chain.resize((20, 20)).random_horizontal_flip()[1]


def test_boxes_follow_behind_a_filter_wherever_samples_are_made() -> None:
    def of(chain: carya.Pipeline) -> carya.Pipeline:
        return chain.filter(_even, fields="labels").random_horizontal_flip().resize((30, 20)).sanitize_boxes()

    chain = of(_with_boxes())
    with carya.Loader(chain.batch(1), epochs=1, threads=1) as loader:
        rows = [{name: np.array(batch[name][0]) for name in batch} for batch in loader]
    with carya.Loader(chain.map(dict).batch(1), epochs=1, threads=1, native="workers") as loader:
        others = [{name: np.array(batch[name][0]) for name in batch} for batch in loader]
    assert [int(row["labels"][0]) for row in rows] == [0, 4, 8]
    for number, (row, other) in enumerate(zip(rows, others, strict=True)):
        for name, value in row.items():
            assert np.array_equal(value, other[name])
            assert np.array_equal(value, chain[2 * number][name])
    moved = {tuple(row["boxes"][0]) for row in rows}
    assert moved.isdisjoint(tuple(one["boxes"][0]) for one in (_with_boxes()[0], _with_boxes()[2], _with_boxes()[4]))


def _even(labels: Any) -> bool:
    return labels[0] % 4 == 0


def _found(sample: Any) -> Any:
    """As many objects as the picture's number says, from none on."""
    boxes = np.tile(np.float32([[2, 3, 20, 15]]), (int(sample["number"]), 1))
    return {"image": sample["image"], "boxes": boxes, "labels": np.arange(7, 7 + len(boxes))}


def _one_found(sample: Any) -> Any:
    return _found({**sample, "number": 1})


def _numbered() -> carya.Pipeline:
    return carya.arrays({"image": np.zeros((4, 40, 50, 3), np.uint8), "number": np.arange(4)})


def test_boxes_of_a_function_are_of_any_number() -> None:
    """Also none at all, in the first record too."""
    chain = _numbered().map(_found).boxes(max_objects=3, rows="labels").crop(0, 0, 40, 50).batch(4)
    (batch,) = batches(chain)
    assert batch["boxes_count"].tolist() == [0, 1, 2, 3]
    assert batch["labels"].tolist() == [[0, 0, 0], [7, 0, 0], [7, 8, 0], [7, 8, 9]]
    assert np.array_equal(batch["boxes"][:, :, 2] > 0, batch["labels"] > 0)


@pytest.mark.parametrize("known", [{}, {"rows": "labels"}, {"max_objects": 3}])
def test_how_many_objects_a_function_makes_is_asked_for(known: Any) -> None:
    chain = _numbered().map(_found).boxes(**known).batch(4)
    with (
        pytest.raises(
            carya.InvalidArgument, match=r'boxes.*; say how many .*\.boxes\(max_objects=100, rows=\("labels",\)\)'
        ),
        carya.Loader(chain, threads=1) as loader,
    ):
        next(iter(loader))


def test_objects_are_not_left_out_without_their_labels() -> None:
    of = _numbered().map(_one_found)
    made = [
        lambda: of.boxes().sanitize_boxes(),
        lambda: of.boxes().random_zoom_out().random_iou_crop(),
        lambda: of.boxes(invalid="drop"),
        lambda: of.boxes(2, truncate=True),
    ]
    for make in made:
        with pytest.raises(
            carya.InvalidArgument, match=r"boxes: rows: got None behind a function, and .* leaves objects out"
        ):
            make()
    of.boxes(rows=()).sanitize_boxes()
    assert of.boxes(rows="labels").sanitize_boxes(min_size=30)[0]["labels"].tolist() == [0]
