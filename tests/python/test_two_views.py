"""two_views: one picture on two ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import carya

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def simclr() -> carya.OpChain:
    chain = carya.ops().random_resized_crop(32).random_horizontal_flip()
    return chain.random_apply(carya.ops().color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8).random_grayscale(p=0.2)


def test_both_views_come_in_one_batch_with_the_label(photos: Path) -> None:
    source = carya.image_folder(str(photos)).shuffle(seed=5).decode_image()
    twice = source.two_views(simclr().normalize(mean=MEAN, std=STD))
    once = source.random_resized_crop(32).random_horizontal_flip()
    once = once.random_apply(carya.ops().color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8).random_grayscale(p=0.2)
    once = once.normalize(mean=MEAN, std=STD)
    seen, different = 0, 0
    with carya.Loader(twice.batch(5), threads=3) as loader:
        for _ in range(2):
            epoch = loader.state_dict()["epoch"] if seen else 0
            for batch in loader:
                assert sorted(batch) == ["label", "view_0", "view_1"]
                assert batch["view_0"].shape == batch["view_1"].shape == (len(batch.records), 3, 32, 32)
                for row, record in enumerate(batch.records):
                    sample = twice.sample(int(record), epoch=epoch, seed=5)
                    assert np.array_equal(batch["view_0"][row], sample["view_0"])
                    assert np.array_equal(batch["view_1"][row], sample["view_1"])
                    image = once.sample(int(record), epoch=epoch, seed=5)
                    assert np.array_equal(batch["view_0"][row], image["image"])
                    assert batch["label"][row] == image["label"]
                    different += not np.array_equal(sample["view_0"], sample["view_1"])
                    seen += 1
    assert seen == 54
    assert different == 54


def test_views_are_the_same_with_a_decode_index(photos: Path) -> None:
    twice = carya.image_folder(str(photos)).decode_image().two_views(simclr()).batch(9)
    streams = []
    for index in ("off", "rows"):
        with carya.Loader(twice, decode_index=index) as loader:
            streams.append([(b["view_0"].tobytes(), b["view_1"].tobytes()) for _ in range(3) for b in loader])
    assert len(streams[0]) == 9
    assert streams[0] == streams[1]


def test_a_broken_picture_is_one_broken_record(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"no picture")
    chain = carya.files([str(tmp_path / "a.jpg")]).decode_image().two_views(simclr())
    with pytest.raises(carya.SampleError, match="decode_image: not a JPEG or PNG"):
        chain[0]
    with carya.Loader(chain.batch(1), on_error="mask") as loader:
        batch = next(iter(loader))
        assert not batch.valid.any()
        assert not batch["view_0"].any()
        assert not batch["view_1"].any()
        assert len(loader.quarantine()) == 1


def test_it_survives_json_and_shows_its_operations(photos: Path) -> None:
    chain = carya.image_folder(str(photos)).decode_image().two_views(simclr()).batch(4)
    again = carya.Pipeline.from_json(chain.to_json())
    assert again == chain
    assert "-> view_0 uint8 (32, 32, 3), label int64 (), view_1 uint8 (32, 32, 3)" in repr(again)
    assert "two_views(ops=[random_resized_crop(size=[32, 32]" in repr(again)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.two_views(simclr()), "two_views: image is uint8.*; give a picture: put decode_image before"),
        (lambda p: p.decode_image().two_views([]), r"two_views: ops: got \[\]; give a chain such as carya.ops\(\)"),
        (lambda p: p.decode_image().two_views(carya.ops()), r"two_views: ops: got \[\]; give a list of 1 to 63 ops"),
        (
            lambda p: p.decode_image().two_views(carya.ops().random_horizontal_flip()),
            r"two_views: ops leave uint8\[\?, \?, 3\]; give one shape for both views: add random_resized_crop",
        ),
        (
            lambda p: p.decode_image().two_views(carya.ops().random_crop(0)),
            r"two_views: random_crop: size: got \[0, 0\]; give",
        ),
        (
            lambda p: p.decode_image().two_views(simclr()).two_views(simclr()),
            'two_views: .* there is no "image"; give fields= with names among view_0, label, view_1',
        ),
    ],
)
def test_errors_name_op_parameter_given_and_allowed(
    photos: Path, change: Callable[[carya.Pipeline], carya.Pipeline], message: str
) -> None:
    with pytest.raises(carya.InvalidArgument, match=message):
        change(carya.image_folder(str(photos)))
