"""`one_hot`, `mixup`, `cutmix`: values against plain numpy, and bits that depend on no batch size, rank or resume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from streams import digest, epoch_digest

import carya

COUNT, CLASSES = 23, 5
LABELS = np.arange(COUNT) % CLASSES


def pictures(channels_last: bool = False, dtype: Any = np.float32, count: int = COUNT) -> carya.Pipeline:
    shape = (COUNT, 6, 8, 3) if channels_last else (COUNT, 3, 6, 8)
    images = np.arange(COUNT).reshape(COUNT, 1, 1, 1) * np.ones(shape)
    return carya.arrays({"image": images.astype(dtype), "label": LABELS}).take(count).shuffle(seed=4)


def first(pipeline: carya.Pipeline) -> carya.Batch:
    with carya.Loader(pipeline, threads=1, epochs=1) as loader:
        batch = next(iter(loader))
        return carya.Batch({name: np.array(value) for name, value in batch.items()}, like=batch)


def test_one_hot_smooths_as_cross_entropy_does() -> None:
    batch = first(pictures().batch(8).one_hot(CLASSES, smoothing=0.1))
    expected = np.eye(CLASSES, dtype=np.float32)[LABELS[batch.records]] * 0.9 + 0.1 / CLASSES
    assert batch["label"].dtype == np.float32
    assert np.allclose(batch["label"], expected)


def test_mixup_is_a_weighted_sum_with_the_one_before_it_in_its_group() -> None:
    batch = first(pictures().batch(9).mixup(1.0, num_classes=CLASSES, group=3))
    own = batch.records.astype(np.float32)
    shares = []
    for begin in range(0, 9, 3):
        here = slice(begin, begin + 3)
        other = np.roll(own[here], 1)
        share = (batch["image"][here, 0, 0, 0] - other) / (own[here] - other)
        assert np.allclose(share, share[0], atol=1e-4)
        eye = np.eye(CLASSES)[LABELS[batch.records[here]]]
        assert np.allclose(batch["label"][here], eye * share[0] + np.roll(eye, 1, 0) * (1 - share[0]), atol=1e-4)
        assert np.allclose(batch["image"][here], batch["image"][here][:, :1, :1, :1])
        shares.append(round(float(share[0]), 4))
    assert len(set(shares)) == 3, "each group has a share of its own"


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_cutmix_puts_in_a_rectangle_whose_area_is_in_the_label(channels_last: bool, dtype: Any) -> None:
    batch = first(pictures(channels_last, dtype).batch(8).cutmix(num_classes=CLASSES))
    cut = 0
    for row in range(8):
        own, other = batch.records[row], batch.records[row ^ 1]
        image = batch["image"][row] if channels_last else batch["image"][row].transpose(1, 2, 0)
        assert set(np.unique(image)) <= {own, other}
        foreign = (image == other).all(-1)
        assert ((image == other).any(-1) == foreign).all(), "all channels alike"
        rows, columns = np.flatnonzero(foreign.any(1)), np.flatnonzero(foreign.any(0))
        assert foreign.sum() == len(rows) * len(columns)
        share = foreign.mean()
        eye = np.eye(CLASSES)
        assert np.allclose(batch["label"][row], eye[LABELS[own]] * (1 - share) + eye[LABELS[other]] * share)
        cut += bool(foreign.sum())
    assert cut >= 2


def recipe(**batch: Any) -> carya.Pipeline:
    mixed = pictures().batch(**batch).one_hot(CLASSES, smoothing=0.1).mixup(0.4, p=0.5, group=4)
    return mixed.cutmix(p=0.7).mixup(0.3, p=0.2)


def test_bits_depend_on_no_batch_size_rank_or_resume() -> None:
    whole = epoch_digest(recipe(batch_size=4), 2, threads=2)
    assert epoch_digest(recipe(batch_size=12), 2, threads=1) == whole
    assert epoch_digest(recipe(batch_size=16, pad_last=True), 2, threads=1) == whole
    before: list[Any] = []
    with carya.Loader(recipe(global_size=8), threads=2, epochs=2) as loader:
        iterator = iter(loader)
        before.append(next(iterator))
        state = loader.state_dict()
        ranks = []
        for rank in range(2):
            options: Any = {"threads": 1, "rank": rank, "world_size": 2, "state": state, "epochs": 2, "slots": 12}
            with carya.Loader(recipe(global_size=8, drop_last=False), **options) as part:
                ranks.append([list(part), list(part)])
        after = [
            one for epoch in range(2) for step in zip(*(rank[epoch] for rank in ranks), strict=True) for one in step
        ]
        assert digest(before + after) == whole


def test_mistakes() -> None:
    p = pictures().batch(8)
    for call, told in [
        (lambda: pictures().mixup(), "mixup: comes before batch"),
        (lambda: p.map_batch(len).cutmix(), "cutmix: it comes after map_batch"),
        (lambda: p.mixup(0), "mixup: alpha"),
        (lambda: p.mixup(float("nan")), "mixup: alpha"),
        (lambda: p.cutmix(p=1.5), "cutmix: p"),
        (lambda: p.cutmix(group=1), "cutmix: group"),
        (lambda: p.mixup(image=""), "mixup: image"),
        (lambda: p.mixup(num_classes=0), "mixup: num_classes"),
        (lambda: p.one_hot(0), "one_hot: num_classes"),
        (lambda: p.one_hot(5, smoothing=2), "one_hot: smoothing"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            call()
    for wrong, told in [
        (p.mixup(), r"mixup: label: got int64 \(\); give num_classes="),
        (p.mixup(num_classes=3), r"mixup: label: got classes 0 to 4; give num_classes= of at least 5"),
        (p.mixup(image="picture", num_classes=5), "mixup: the batch has no 'picture'"),
        (p.one_hot(5, label="image"), r"one_hot: image: got float32 .*; give one class number"),
        (pictures(dtype=np.uint8).batch(8).mixup(num_classes=5), "mixup: image: got uint8 .*normalize"),
        (
            pictures().batch(3).mixup(num_classes=5),
            "mixup: group: .* position 3, inside of a group of 2; give a batch size",
        ),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            for _ in carya.Loader(wrong, threads=1, epochs=1):
                pass
    uneven = pictures(count=22).batch(global_size=8)  # the last step has 3 and 3
    with pytest.raises(carya.InvalidArgument, match=r"cutmix: group: .* position 19.*drop_last=True"):
        carya.Loader(uneven.cutmix(num_classes=5), threads=1, rank=1, world_size=2)


def painted(count: int = 24, side: int = 40, channels_last: bool = True) -> carya.Pipeline:
    """Pictures that are 0 but for two rectangles of an own value each, and their boxes."""
    rng = np.random.default_rng(3)
    images = np.zeros((count, side, side, 1), np.uint8)
    boxes, labels = np.zeros((count, 3, 4), np.float32), np.zeros((count, 3), np.int64)
    counts = np.arange(count, dtype=np.int32) % 3
    for i in range(count):
        for j in range(counts[i]):
            left, top = rng.integers(0, side // 2, 2)
            left += j * (side // 2 - 1)
            right, bottom = min(side, left + rng.integers(4, side // 2)), top + rng.integers(4, side // 2)
            labels[i, j] = 1 + 2 * i + j
            boxes[i, j] = left, top, right, bottom
            images[i, top:bottom, left:right] = labels[i, j]
    if not channels_last:
        images = images.transpose(0, 3, 1, 2).repeat(3, 1)
    arrays = {"image": images, "boxes": boxes, "boxes_count": counts, "labels": labels}
    return carya.arrays(arrays).shuffle(seed=4)


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_mosaic_has_the_objects_of_four_pictures_where_its_boxes_say(channels_last: bool) -> None:
    batch = first(painted(channels_last=channels_last).batch(8).mosaic(min_kept=0.0))
    assert batch["boxes"].shape == (8, 12, 4)
    assert batch["labels"].shape == (8, 12)
    sources = 0
    for row in range(8):
        image = batch["image"][row] if channels_last else batch["image"][row].transpose(1, 2, 0)
        count = batch["boxes_count"][row]
        assert not batch["boxes"][row][count:].any()
        seen = set(np.unique(image).tolist()) - {0}
        group = batch.records[row // 4 * 4 : row // 4 * 4 + 4]
        assert {(value - 1) // 2 for value in seen} <= set(group.tolist())
        sources += len({(value - 1) // 2 for value in seen})
        told = batch["labels"][row][:count].tolist()
        assert seen <= set(told), "what is seen has a box; one may lie behind another"
        for label, box in zip(told, batch["boxes"][row][:count], strict=True):
            rows, columns = np.nonzero(image[..., 0] == label)
            left, top, right, bottom = box
            assert 0 <= left < right <= 40
            assert 0 <= top < bottom <= 40
            assert rows.size == 0 or (
                left <= columns.min() <= columns.max() < right and top <= rows.min() <= rows.max() < bottom
            )
    assert sources > 8


def test_a_mosaic_depends_on_no_batch_size_and_leaves_out_what_is_cut_to_little() -> None:
    with carya.Loader(painted().batch(8).mosaic(p=0.7), threads=1) as loader:
        eight = [np.array(batch["image"]) for batch in loader]
    with carya.Loader(painted().batch(4).mosaic(p=0.7), threads=2) as loader:
        four = [np.array(batch["image"]) for batch in loader]
    assert np.array_equal(np.concatenate(eight), np.concatenate(four))
    plain, left = first(painted().batch(8).mosaic(p=0)), first(painted().batch(8))
    assert np.array_equal(plain["image"], left["image"])
    assert np.array_equal(plain["boxes"][:, :3], left["boxes"])
    all_kept, few = (first(painted().batch(8).mosaic(min_kept=kept))["boxes_count"].sum() for kept in (0.0, 0.9))
    assert 0 < few < all_kept


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"p": 2}, "mosaic: p"),
        ({"min_kept": -1}, "mosaic: min_kept"),
        ({"rows": "labels"}, "mosaic: rows"),
        ({"boxes": ""}, "mosaic: boxes"),
        ({"image": "labels"}, "resize pictures to one size"),
        ({"boxes": "labels"}, "labels_count"),
    ],
)
def test_a_mosaic_says_what_it_needs(options: Any, text: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=text):
        first(painted().batch(8).mosaic(**options))
    with pytest.raises(carya.InvalidArgument, match="multiple of 4"):
        list(carya.Loader(painted().batch(6).mosaic(), threads=1))


@pytest.mark.parametrize("field", ["mask", "keypoints", "scores"])
def test_a_mosaic_leaves_nothing_behind_in_silence(field: str) -> None:
    beside = {
        "mask": np.zeros((8, 40, 40, 1), np.uint8),
        "keypoints": np.zeros((8, 3, 5, 3), np.float32),
        "scores": np.zeros((8, 3)),
    }
    batch = first(painted().batch(8))
    arrays = {name: np.array(batch[name]) for name in ("image", "boxes", "boxes_count", "labels")} | {
        field: beside[field],
        "size": np.full((8, 3), 40),  # of no box, though there are three places
    }
    with pytest.raises(carya.InvalidArgument, match=f"mosaic: {field} .* leave it out before .batch"):
        first(carya.arrays(arrays).batch(8).mosaic())
    if field == "scores":
        assert first(carya.arrays(arrays).batch(8).mosaic(rows=("labels", "scores")))["scores"].shape == (8, 12)
