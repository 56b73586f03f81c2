"""Anchors and their targets, compared with torchvision's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import reference_torchvision as reference

import carya
from carya import detection

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "detection.py"
SIZE = (320, 256)
LEVELS = [(40, 32), (20, 16), (10, 8)]
SIZES = [(32.0, 40.3, 50.8), (64.0, 80.6, 101.6), (128.0, 161.3, 203.2)]
SCALES = [0.1, 0.3, 0.6, 0.9]


def anchors_of(kind: str) -> np.ndarray:
    if kind == "retinanet":
        return detection.grid_anchors(SIZE, LEVELS, SIZES)
    return detection.default_boxes(SIZE, LEVELS, [[2], [2, 3], [2]], SCALES)


def drawn(rng: np.random.Generator, count: int) -> np.ndarray:
    begin = rng.uniform(0, 200, (count, 2))
    return np.concatenate([begin, begin + rng.uniform(2, 110, (count, 2))], axis=1).astype(np.float32)


def batch_of(rows: int, most: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    counts = rng.integers(0, most + 1, rows)
    counts[0] = 0
    batch: dict[str, Any] = {"boxes": np.zeros((rows, most, 4), np.float32), "boxes_count": counts}
    for row, count in enumerate(counts):
        batch["boxes"][row, :count] = drawn(rng, count)
    return {**batch, "labels": rng.integers(1, 90, (rows, most))}


def test_anchors_are_those_of_torchvision() -> None:
    torch, utils = pytest.importorskip("torch"), reference.module("models.detection.anchor_utils")
    generator = utils.AnchorGenerator(tuple(SIZES), ((0.5, 1.0, 2.0),) * len(SIZES))
    pictures = SimpleNamespace(tensors=torch.zeros(1, 3, *SIZE), image_sizes=[SIZE])
    (expected,) = generator(pictures, [torch.zeros(1, 1, *level) for level in LEVELS])
    np.testing.assert_array_equal(anchors_of("retinanet"), expected.numpy())


@pytest.mark.parametrize("steps", [None, [8, 16, 32]])
@pytest.mark.parametrize("clip", [True, False])
def test_default_boxes_are_those_of_torchvision(steps: list[int] | None, clip: bool) -> None:
    torch, utils = pytest.importorskip("torch"), reference.module("models.detection.anchor_utils")
    ratios, scales = [[2], [2, 3], [2]], [0.1, 0.3, 0.6, 1.5]
    generator = utils.DefaultBoxGenerator(ratios, scales=scales, steps=steps, clip=clip)
    pictures = SimpleNamespace(tensors=torch.zeros(1, 3, *SIZE), image_sizes=[SIZE])
    (expected,) = generator(pictures, [torch.zeros(1, 1, *level) for level in LEVELS])
    made = detection.default_boxes(SIZE, LEVELS, ratios, scales, steps, clip)
    assert made.dtype == np.float32
    assert np.abs(made - expected.numpy()).max() <= 1e-6 * max(SIZE)


@pytest.mark.parametrize("kind", ["retinanet", "ssd"])
def test_targets_are_those_of_torchvision(kind: str) -> None:
    torch, utils = pytest.importorskip("torch"), reference.module("models.detection._utils")
    ops = reference.module("ops.boxes")
    anchors = anchors_of(kind)
    if kind == "retinanet":
        matcher = utils.Matcher(0.5, 0.4, allow_low_quality_matches=True)
        coder, make = utils.BoxCoder((1.0, 1.0, 1.0, 1.0)), detection.RetinaNetTargets(anchors)
    else:
        matcher = utils.SSDMatcher(0.5)
        coder, make = utils.BoxCoder((10.0, 10.0, 5.0, 5.0)), detection.SsdTargets(anchors)
    batch = batch_of(24, 12)
    made = make(batch)
    positive = 0
    for row, count in enumerate(batch["boxes_count"]):
        expected = np.full(len(anchors), -1)
        if count:
            boxes = torch.from_numpy(batch["boxes"][row, :count])
            expected = matcher(ops.box_iou(boxes, torch.from_numpy(anchors))).numpy()
        np.testing.assert_array_equal(made["matches"][row], expected)
        found = expected >= 0
        positive += found.sum()
        np.testing.assert_array_equal(made["class_targets"][row][~found], expected[~found])
        np.testing.assert_array_equal(made["class_targets"][row][found], batch["labels"][row][expected[found]])
        assert not made["box_targets"][row][~found].any()
        if count:
            codes = coder.encode_single(boxes[expected[found]], torch.from_numpy(anchors[found])).numpy()
            np.testing.assert_allclose(made["box_targets"][row][found], codes, rtol=1e-6, atol=1e-6)
    assert positive > 100
    assert (made["class_targets"] == -2).any() == (kind == "retinanet")


def test_overlaps_are_those_of_torchvision() -> None:
    torch, ops = pytest.importorskip("torch"), reference.module("ops.boxes")
    rng = np.random.default_rng(3)
    one, other = drawn(rng, 30), drawn(rng, 40)
    expected = ops.box_iou(torch.from_numpy(one), torch.from_numpy(other)).numpy()
    assert np.abs(detection.iou(one, other) - expected).max() <= 1e-6
    empty = np.zeros((1, 4), np.float32)
    assert detection.iou(empty, empty).tolist() == [[0.0]]


def test_targets_come_with_the_batches_of_a_stream() -> None:
    rng = np.random.default_rng(5)
    boxes = np.stack([drawn(rng, 3) for _ in range(6)])
    arrays = {"image": np.zeros((6, *SIZE, 3), np.uint8), "boxes": boxes, "labels": rng.integers(1, 9, (6, 3))}
    source = carya.arrays(arrays).boxes(rows="labels").sanitize_boxes().random_horizontal_flip(p=1.0).batch(2)
    targets = detection.SsdTargets(anchors_of("ssd"))
    with carya.Loader(source.map_batch(targets), epochs=1) as loader:
        for number, batch in enumerate(loader):
            again = targets({name: batch[name] for name in ("boxes", "labels", "boxes_count")})
            np.testing.assert_array_equal(batch["box_targets"], again["box_targets"])
            for row, one in enumerate(detection.objects(batch)):
                assert one["labels"].tolist() == arrays["labels"][2 * number + row].tolist()
                assert set(one["labels"]) <= set(batch["class_targets"][row])


@pytest.mark.parametrize(
    "make",
    [
        lambda: detection.SsdTargets(np.zeros((3, 4), np.float32)),
        lambda: detection.SsdTargets(np.zeros((3, 5), np.float32)),
        lambda: detection.RetinaNetTargets(anchors_of("retinanet"), high=0.3, low=0.4),
        lambda: detection.RetinaNetTargets(anchors_of("retinanet"))({"boxes": np.zeros((1, 1, 4))}),
        lambda: detection.grid_anchors(SIZE, LEVELS, SIZES[:2]),
        lambda: detection.default_boxes(SIZE, LEVELS, [[2]] * 3, SCALES[:3]),
    ],
)
def test_what_cannot_be_is_refused(make: Any) -> None:
    with pytest.raises(carya.InvalidArgument):
        make()


def test_the_example_makes_targets_that_stand_for_the_boxes(tmp_path: Path) -> None:
    def said(*arguments: str) -> list[str]:
        command = [sys.executable, str(EXAMPLE), "--size", "256", "--batch-size", "4", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()

    *batches, total = said("--epochs", "2")
    assert len(batches) == 12
    found = [re.search(r"(\d+) objects, (\d+) anchors, within ([0-9.]+) pixels", line) for line in batches]
    numbers = [(int(one[1]), int(one[2]), float(one[3])) for one in found if one]
    assert len(numbers) == 12
    assert all(anchors >= objects > 0 and within < 0.01 for objects, anchors, within in numbers)
    assert total.startswith(f"{sum(one[0] for one in numbers)} objects in 48 pictures")
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((50, 60, 3), np.uint8)).save(tmp_path / "a.png")
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [5, 5, 30, 40]}
    instances = {"images": [{"id": 1, "file_name": "a.png"}], "annotations": [annotation]}
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    assert said(str(tmp_path), str(tmp_path / "instances.json"))[-1].startswith("1 objects in 1 pictures")


def test_objects_say_which_field_is_missing() -> None:
    batch = {"boxes": np.zeros((2, 5, 4)), "n": np.array([1, 3])}
    assert [len(one["boxes"]) for one in detection.objects(batch, count="n")] == [1, 3]
    other = {"found": batch["boxes"], "n": batch["n"]}  # as .boxes(field="found") names it
    assert [len(one["found"]) for one in detection.objects(other, count="n", fields=["found"])] == [1, 3]
    for given, options, name in (
        (batch, {}, "boxes_count"),
        ({}, {}, "boxes"),
        (batch, {"count": "n", "fields": ["x"]}, "x"),
    ):
        with pytest.raises(carya.InvalidArgument, match=f"objects: no field '{name}' in the batch; give"):
            detection.objects(given, **options)  # type: ignore[arg-type]
