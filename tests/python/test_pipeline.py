"""Building pipelines: immutability, checks at every step, JSON, printing."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya


def photo_chain() -> carya.Pipeline:
    return carya.image_folder("photos").shuffle(seed=42).decode_image()


def test_every_call_returns_a_new_pipeline() -> None:
    base = carya.image_folder("photos")
    before = base.to_json()
    base.shuffle(seed=1).decode_image().resize((8, 8)).batch(2)
    assert base.to_json() == before
    with pytest.raises(AttributeError, match="immutable"):
        base._batch = None  # type: ignore[misc]


def test_the_snippet_of_the_readme_has_the_promised_shapes() -> None:
    train = (
        photo_chain()
        .random_resized_crop(224)
        .random_horizontal_flip()
        .normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
        .batch(128, drop_last=True)
    )
    assert train.outputs == [("image", "float32", (3, 224, 224)), ("label", "int64", ())]
    text = repr(train)
    for part in ("image_folder", "shuffle", "random_resized_crop", "scale", "normalize", "float32", "(3, 224, 224)"):
        assert part in text


def test_json_round_trip_is_the_same_text() -> None:
    train = (
        carya.image_folder("photos")
        .take(100)
        .shuffle(seed=3)
        .decode_image()
        .random_crop(32, padding=4)
        .to_dtype("float32", scale=True)
        .batch(8)
    )
    again = carya.Pipeline.from_json(train.to_json())
    assert again.to_json() == train.to_json()
    assert again == train
    assert hash(again) == hash(train)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: photo_chain().random_resized_crop(0), ["random_resized_crop", "size", "0"]),
        (lambda: photo_chain().random_resized_crop((224, -1)), ["random_resized_crop", "size", "-1"]),
        (lambda: photo_chain().random_resized_crop("big"), ["random_resized_crop", "size", "big"]),
        (lambda: photo_chain().random_resized_crop(8, scale=(0.5, 0.1)), ["random_resized_crop", "scale"]),
        (lambda: photo_chain().random_resized_crop(8, interpolation="cubic"), ["interpolation", "cubic", "bicubic"]),
        (lambda: photo_chain().random_horizontal_flip(p=1.5), ["random_horizontal_flip", "p", "1.5"]),
        (lambda: photo_chain().random_horizontal_flip(p=float("nan")), ["random_horizontal_flip", "p"]),
        (lambda: photo_chain().normalize(mean=(0.5, 0.5), std=(0.5, 0.5)), ["normalize", "mean"]),
        (lambda: photo_chain().normalize(mean=0.5, std=0.0), ["normalize", "std", "0"]),
        (lambda: photo_chain().decode_image(), ["decode_image"]),
        (lambda: photo_chain().to_dtype("complex64"), ["to_dtype", "dtype", "complex64"]),
        (lambda: photo_chain().pad((1, 2, 3)), ["pad", "padding"]),
        (lambda: carya.image_folder("photos").resize(8), ["resize", "decode_image"]),
        (lambda: photo_chain().decode_image(mode="BGR"), ["decode_image"]),
        (lambda: photo_chain().batch(8), ["batch", "image"]),
        (lambda: photo_chain().resize((8, 8)).batch(0), ["batch", "0"]),
        (lambda: photo_chain().resize((8, 8)).batch(4, global_size=8), ["batch", "global_size"]),
        (lambda: photo_chain().resize((8, 8)).batch(), ["batch", "batch_size"]),
        (lambda: photo_chain().resize((8, 8)).batch(4, drop_last=True, pad_last=True), ["drop_last", "pad_last"]),
        (lambda: photo_chain().resize((8, 8)).batch(4).resize((4, 4)), ["resize", "batch"]),
        (lambda: photo_chain().take(5), ["take", "shuffle"]),
        (lambda: photo_chain().shuffle(seed=1), ["shuffle"]),
        (lambda: carya.image_folder("photos").take(-1), ["take", "-1"]),
        (lambda: carya.image_folder("photos").split(1.5), ["split", "1.5"]),
        (lambda: carya.image_folder("photos").subset([0, -2]), ["subset", "-2"]),
        (lambda: photo_chain().map_batch(len), ["map_batch", "batch"]),
    ],
)
def test_a_wrong_parameter_is_named_when_the_pipeline_is_built(build: Any, words: list[str]) -> None:
    with pytest.raises(carya.InvalidArgument) as caught:
        build()
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "invalid_argument"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"version": 2, "source": {"type": "image_folder", "path": "x"}}',
        '{"version": 1}',
        '{"version": 1, "source": {"type": "image_folder", "path": "x"}, "surprise": 1}',
        '{"version": 1, "source": {"type": "image_folder", "path": "x", "other": 1}}',
        '{"version": 1, "source": {"type": "image_folder", "path": "x"}, "ops": [{"op": "explode"}]}',
        '{"version": 1, "source": {"type": "image_folder", "path": 7}}',
        "[" * 100_000,
    ],
)
def test_a_hostile_document_is_refused(text: str) -> None:
    with pytest.raises(carya.InvalidArgument):
        carya.Pipeline.from_json(text)


def test_map_batch_has_no_json_form_and_is_named() -> None:
    chain = carya.arrays({"x": np.arange(4)}).batch(2).map_batch(named_function)
    assert "named_function" in repr(chain)
    with pytest.raises(carya.InvalidArgument, match="named_function"):
        chain.to_json()


def named_function(batch: Any) -> Any:
    return batch["x"] + 1


def test_map_batch_runs_on_yielded_batches_in_order() -> None:
    chain = carya.arrays({"x": np.arange(4)}).batch(2).map_batch(named_function).map_batch(lambda values: values * 10)
    with carya.Loader(chain) as loader:
        assert [values.tolist() for values in loader] == [[10, 20], [30, 40]]


def test_pickled_pipelines_are_equal(photos: Path) -> None:
    chain = carya.arrays({"x": np.arange(4)}).shuffle(seed=1).batch(2).map_batch(named_function)
    again = pickle.loads(pickle.dumps(chain))
    assert again == chain
    assert again[1]["x"] == 1


def test_a_long_list_of_files_builds_and_keeps_all_of_it(photos: Path) -> None:
    paths = [str(path) for path in sorted(photos.rglob("*.jpg"))] * 60
    chain = carya.files(paths, labels=np.arange(len(paths))).subset(np.arange(len(paths))[::-1])
    chain = chain.decode_image().resize((8, 8)).batch(4)
    assert len(paths) > 1000
    assert len(chain) == len(paths)
    assert int(chain[0]["label"]) == len(paths) - 1
    assert len(carya.Pipeline.from_json(chain.to_json())) == len(paths)


def test_numpy_numbers_are_taken_as_numbers() -> None:
    chain = photo_chain().random_resized_crop(np.int64(8)).normalize(np.array([0.5, 0.5, 0.5]), np.float32(0.5))
    assert chain.outputs[0] == ("image", "float32", (3, 8, 8))


def test_len_and_samples_by_index(photos: Path) -> None:
    chain = carya.image_folder(str(photos)).decode_image().resize((16, 16))
    assert len(chain) == 27
    assert chain.class_names == ["class_a", "class_b", "class_c"]
    assert chain.labels.dtype == np.int64
    assert chain.labels.tolist() == [chain.address(i)["label"] for i in range(27)]
    assert chain.subset([26, 0, 9]).labels.tolist() == [2, 0, 1]
    assert chain[0]["image"].shape == (16, 16, 3)
    assert [int(chain[i]["label"]) for i in (0, 9, 26)] == [0, 1, 2]
    assert np.array_equal(chain[-1]["image"], chain[26]["image"])
    assert chain.address(0)["path"].endswith("00.jpg")
    for index in (27, -28):
        with pytest.raises(IndexError, match="27"):
            chain[index]


def test_a_sample_has_the_randomness_of_its_epoch(photos: Path) -> None:
    chain = carya.image_folder(str(photos)).shuffle(seed=3).decode_image().random_resized_crop(16).batch(9)
    assert np.array_equal(chain[4]["image"], chain.sample(4, epoch=0)["image"])
    assert not np.array_equal(chain.sample(4, epoch=1)["image"], chain.sample(4, epoch=0)["image"])
    assert not np.array_equal(chain.sample(4, seed=9)["image"], chain[4]["image"])
    with carya.Loader(chain) as loader:
        for epoch in range(2):
            for batch in loader:
                for row, record in enumerate(batch.records):
                    assert np.array_equal(batch["image"][row], chain.sample(record, epoch=epoch)["image"])


def test_views_choose_records(photos: Path) -> None:
    base = carya.image_folder(str(photos))
    head, tail = base.split(0.7, seed=4)
    paths = {chain.address(i)["path"] for chain in (head, tail) for i in range(len(chain))}
    assert (len(head), len(tail)) == (19, 8)
    assert len(paths) == 27
    assert len(base.take(5)) == 5
    assert len(base.take(500)) == 27
    picked = base.subset([7, 7, 2])
    assert [picked.address(i)["path"] for i in range(3)] == [base.address(i)["path"] for i in (7, 7, 2)]
    with pytest.raises(carya.InvalidArgument, match="27"):
        base.subset([27]).open()


def test_a_loader_shows_where_it_is() -> None:
    with carya.Loader(carya.arrays({"x": np.arange(20)}).batch(4), threads=1, rank=1, world_size=2) as loader:
        next(iter(loader))
        assert repr(loader) == "<carya.Loader: epoch 0, 1 of 3 steps, rank 1 of 2>"
    assert repr(loader) == "<carya.Loader: epoch 0, 1 of 3 steps, rank 1 of 2>"
