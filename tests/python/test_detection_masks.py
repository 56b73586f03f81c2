"""Masks of single objects: decoded as a plain reading decodes them, kept as pictures, and moved with their picture."""

from __future__ import annotations

import json
import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_torchvision as reference
from test_detection import CHAINS, applied, torch_step

import carya

HEIGHT, WIDTH = 60, 90
NEAREST = {"resize", "rotate", "affine"}  # what takes a way of its own for masks


def plain_outline(corners: list[float], height: int, width: int) -> np.ndarray:
    """COCO's rule, point by point: the outline on a grid five times as fine, and the pixels between where it crosses
    the middles of their columns."""
    fine = [(int(5 * x + 0.5), int(5 * y + 0.5)) for x, y in zip(corners[::2], corners[1::2], strict=True)]
    points = []
    for (x0, y0), (x1, y1) in zip(fine, [*fine[1:], fine[0]], strict=True):
        wide = abs(x1 - x0) >= abs(y1 - y0)
        steps = max(abs(x1 - x0), abs(y1 - y0))
        back = (x0 > x1) if wide else (y0 > y1)
        (xa, ya), (xb, yb) = ((x1, y1), (x0, y0)) if back else ((x0, y0), (x1, y1))
        slope = 0.0 if steps == 0 else (yb - ya) / steps if wide else (xb - xa) / steps
        for step in range(steps, -1, -1) if back else range(steps + 1):
            aside = int((ya if wide else xa) + slope * step + 0.5)
            points.append((xa + step, aside) if wide else (aside, ya + step))
    turns = [0] * (height * width + 1)
    for (xa, ya), (xb, yb) in pairwise(points):
        if xa == xb:
            continue
        x = (min(xa, xb) + 0.5) / 5 - 0.5 if xb < xa else (xb - 1 + 0.5) / 5 - 0.5
        if x != math.floor(x) or not 0 <= x <= width - 1:
            continue
        y = math.ceil(min(max((min(ya, yb) + 0.5) / 5 - 0.5, 0), height))
        turns[int(x) * height + y] ^= 1
    mask, inside = np.zeros((width, height), bool), 0
    for place in range(height * width):
        inside ^= turns[place]
        mask[divmod(place, height)] = inside
    return mask.T


def plain_runs(mask: np.ndarray) -> list[int]:
    runs, before = [0], False
    for value in mask.T.ravel():
        if bool(value) != before:
            runs.append(0)
            before = bool(value)
        runs[-1] += 1
    return runs


def plain_text(runs: list[int]) -> str:
    text = ""
    for place, run in enumerate(runs):
        left = run - runs[place - 2] if place > 2 else run
        more = True
        while more:
            digit = left & 31
            left >>= 5
            more = left != (-1 if digit & 16 else 0)
            text += chr(48 + digit + 32 * more)
    return text


def drawn_outline(rng: np.random.Generator, left: float, top: float, side: float) -> list[float]:
    corners = rng.uniform(0, side, (int(rng.integers(3, 9)), 2)) + np.array([left, top])
    return [round(float(value), 2) for value in corners.ravel()]


def document(segmentations: list[list[Any]], crowds: bool = False) -> dict[str, Any]:
    """Picture i has the objects of `segmentations[i]`, of category 1 + place."""
    return {
        "images": [
            {"id": i, "file_name": f"{i}.png", "height": HEIGHT, "width": WIDTH} for i in range(len(segmentations))
        ],
        "annotations": [
            {"id": 100 * i + k, "image_id": i, "category_id": k + 1, "bbox": [0, 0, WIDTH, HEIGHT]}
            | ({"segmentation": one} if one is not None else {})
            | {"iscrowd": int(crowds and k == 0)}
            for i, found in enumerate(segmentations)
            for k, one in enumerate(found)
        ],
    }


def source_of(folder: Path, found: dict[str, Any], **options: Any) -> carya.Pipeline:
    image = pytest.importorskip("PIL.Image")
    for i in range(len(found["images"])):
        image.fromarray(np.full((HEIGHT, WIDTH, 3), i, np.uint8)).save(folder / f"{i}.png")
    path = folder / "instances.json"
    path.write_text(json.dumps(found))
    return carya.coco(folder, path, masks=folder / "masks", **options)


def decoded(source: carya.Pipeline) -> carya.Pipeline:
    return source.decode_image("RGB", fields=["image"]).decode_image("L", fields=["mask"])


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_outlines_are_those_of_a_plain_reading(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    outlines = [[drawn_outline(rng, rng.uniform(-20, 80), rng.uniform(-20, 50), 40)] for _ in range(60)]
    outlines += [[[10, 10, 30, 10, 30, 10, 10, 40]], [[5, 5, 5, 5, 5, 5]], [[0, 0, 90, 0, 90, 60, 0, 60]]]
    outlines += [outlines[0] + outlines[1]]
    chain = decoded(source_of(tmp_path, document([[one] for one in outlines])))
    pixels = 0
    for i, one in enumerate(outlines):
        expected = np.any([plain_outline(corners, HEIGHT, WIDTH) for corners in one], axis=0)
        np.testing.assert_array_equal(chain[i]["mask"][..., 0], expected)
        pixels += expected.sum()
    assert pixels > 5_000


def test_run_lengths_are_those_of_a_plain_reading(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    masks = [rng.random((HEIGHT, WIDTH)) < share for share in (0.001, 0.1, 0.5, 0.9)]
    masks += [plain_outline(drawn_outline(rng, 10, 5, 50), HEIGHT, WIDTH) for _ in range(4)]
    size = [HEIGHT, WIDTH]
    lists = [{"size": size, "counts": plain_runs(mask)} for mask in masks]
    texts = [{"size": size, "counts": plain_text(plain_runs(mask))} for mask in masks]
    chain = decoded(source_of(tmp_path, document([[one] for one in lists + texts])))
    for i, mask in enumerate([*masks, *masks]):
        np.testing.assert_array_equal(chain[i]["mask"][..., 0], mask)


def square(left: int, top: int, side: int) -> list[list[int]]:
    return [[left, top, left + side, top, left + side, top + side, left, top + side]]


def test_the_smaller_object_is_in_front_and_crowds_are_behind(tmp_path: Path) -> None:
    crowd = np.zeros((HEIGHT, WIDTH), bool)
    crowd[20:24, 20:24] = True
    whole = {"size": [HEIGHT, WIDTH], "counts": plain_runs(crowd)}
    objects = [whole, square(10, 10, 8), square(5, 5, 30), square(14, 10, 8), [], []]
    source = source_of(tmp_path, document([objects], crowds=True))
    expected = np.zeros((HEIGHT, WIDTH), np.uint8)
    expected[20:24, 20:24] = 1
    expected[5:35, 5:35] = 3
    expected[10:18, 10:18] = 2
    expected[10:18, 14:22] = 4
    np.testing.assert_array_equal(decoded(source)[0]["mask"][..., 0], expected)
    assert source[0]["mask_values"].tolist() == [1, 2, 3, 4, 5, 6]
    alone = source_of(tmp_path, document([objects], crowds=True), crowd=False)
    assert alone[0]["mask_values"].tolist() == [1, 2, 3, 4, 5]
    expected = np.maximum(expected, 1) - 1
    np.testing.assert_array_equal(decoded(alone)[0]["mask"][..., 0], expected)


def test_mask_pictures_are_made_once_and_again_when_something_changes(tmp_path: Path) -> None:
    found = document([[square(3, 4, 10)], [square(3, 4, 10)], [square(5, 4, 10)], []])
    source = source_of(tmp_path, found)
    made = {path: path.stat().st_mtime_ns for path in files_below(tmp_path / "masks")}
    assert len(made) == 3  # two pictures have the same objects
    assert source_of(tmp_path, found) == source
    assert {path: path.stat().st_mtime_ns for path in files_below(tmp_path / "masks")} == made
    found["annotations"][0]["segmentation"] = square(20, 4, 10)
    changed = decoded(source_of(tmp_path, found))
    assert len(files_below(tmp_path / "masks")) == 4
    assert np.flatnonzero(changed[0]["mask"].any(axis=(0, 2))).tolist() == list(range(20, 30))
    assert not decoded(source_of(tmp_path, found))[3]["mask"].any()


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_mask_pictures_are_read_by_those_who_may_read_the_annotations(open_folder: Path, mode: int) -> None:
    before = os.umask(0o022)
    try:
        source_of(open_folder, document([[square(3, 4, 10)]]))
        (open_folder / "instances.json").chmod(mode)
        carya.coco(open_folder, open_folder / "instances.json", masks=open_folder / "again")
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in files_below(open_folder / "again")}
    assert modes == {mode}


def tiles(rng: np.random.Generator) -> list[Any]:
    """Objects that do not overlap, so that each mask is whole."""
    return [[drawn_outline(rng, left, top, 26)] for left in (2, 32, 62) for top in (2, 32)]


def widened(mask: np.ndarray) -> np.ndarray:
    """With all pixels beside it."""
    padded = np.pad(mask, 1)
    height, width = mask.shape
    return np.any([padded[y : y + height, x : x + width] for y in range(3) for x in range(3)], axis=0)


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_masks_move_as_those_of_torchvision(chain: list[tuple[str, dict[str, Any]]], tmp_path: Path) -> None:
    functional, tensors = reference.module("transforms.v2.functional"), reference.module("tv_tensors")
    outlines = tiles(np.random.default_rng(8))
    plain = np.stack([plain_outline(one[0], HEIGHT, WIDTH) for one in outlines])
    expected = tensors.Mask(plain.astype(np.uint8))
    moved = []
    for name, parameters in chain:
        expected = torch_step(functional, name, parameters, expected)
        moved.append((name, parameters | ({"extra_interpolation": "nearest"} if name in NEAREST else {})))
    source = decoded(source_of(tmp_path, document([outlines]))).boxes()
    height, width = expected.shape[1:]
    pipeline = applied(source, moved).crop(0, 0, height, width).batch(1)
    with carya.Loader(pipeline, epochs=1, threads=1) as loader:
        (batch,) = [{name: value.copy() for name, value in one.items()} for one in loader]
    (found,) = carya.detection.masks(batch)
    assert found.shape == tuple(expected.shape)
    wanted = expected.numpy().astype(bool)
    assert wanted.any()
    for mine, theirs in zip(found, wanted, strict=True):
        assert not (mine & ~widened(theirs)).any()
        assert not (theirs & ~widened(mine)).any()
    if not NEAREST & {name for name, _ in chain}:
        np.testing.assert_array_equal(found, wanted)


def test_masks_stay_with_their_objects_whatever_is_drawn(tmp_path: Path) -> None:
    """Each object's box is that of its mask, and objects that are left out take their numbers along."""
    rng = np.random.default_rng(12)
    found = document([tiles(rng) for _ in range(12)])
    for i, annotation in enumerate(found["annotations"]):
        mask = plain_outline(annotation["segmentation"][0], HEIGHT, WIDTH)
        y, x = np.nonzero(mask)
        assert len(x), i
        left, top = int(x.min()), int(y.min())
        annotation["bbox"] = [left, top, int(x.max()) + 1 - left, int(y.max()) + 1 - top]
    chain = source_of(tmp_path, found).shuffle(seed=3).decode_image().boxes()
    chain = chain.random_zoom_out(fill=(123, 117, 104), side_range=(1.0, 1.5)).random_crop((50, 60))
    chain = chain.random_horizontal_flip().sanitize_boxes(min_size=4)
    objects, fewer = 0, 0
    with carya.Loader(chain.batch(4), epochs=2, threads=2) as loader:
        for batch in (batch for _ in range(2) for batch in loader):
            for masks, one in zip(carya.detection.masks(batch), carya.detection.objects(batch), strict=True):
                assert masks.shape == (len(one["boxes"]), 50, 60)
                fewer += len(masks) < 6
                for mask, box, label, number in zip(
                    masks, one["boxes"], one["labels"], one["mask_values"], strict=True
                ):
                    assert label == number
                    y, x = np.nonzero(mask)
                    if not len(x):  # the crop left a corner of the box without a pixel of the object
                        assert min(*box[:2], 60 - box[2], 50 - box[3]) == 0
                        continue
                    objects += 1
                    assert box[0] <= x.min()
                    assert box[1] <= y.min()
                    assert box[2] >= x.max() + 1
                    assert box[3] >= y.max() + 1
    assert objects > 60
    assert fewer > 0


def test_masks_keep_their_numbers_without_being_told_how(tmp_path: Path) -> None:
    """They have one channel, no number between two objects', and 0 beside the picture, whatever fills that."""
    rng = np.random.default_rng(13)
    source = source_of(tmp_path, document([tiles(rng) for _ in range(3)]))
    chain = source.decode_image()
    numbers = {index: set(np.unique(chain[index]["mask"])) for index in range(3)}
    assert all(len(found) > 3 and 0 in found for found in numbers.values())
    moved = (
        chain.boxes().random_zoom_out(fill=(123, 117, 104), side_range=(2, 3), p=1.0).rotate(20, "bilinear", fill=114)
    )
    for index in range(3):
        found = moved.resize((70, 70)).sample(index)
        assert found["mask"].shape == (70, 70, 1)
        assert set(np.unique(found["mask"])) <= numbers[index]
        assert (found["mask"] == 0).sum() > 70 * 70 / 3
    shown = repr(moved)
    assert 'decode_image(mode="L", apply_exif=False, fields=["mask"])' in shown
    assert "extra_fill=[0]" in shown
    told = chain.boxes().resize((30, 30), extra_interpolation="bilinear").pad(2, extra_fill=7)
    assert told[0]["mask"][0, 0, 0] == 7
    assert 'extra_interpolation="bilinear"' in repr(told)


def test_masks_are_decoded_as_one_says(tmp_path: Path) -> None:
    source = source_of(tmp_path, document([tiles(np.random.default_rng(14))]))
    for chain, channels in (
        (source.decode_image(), 1),
        (source.decode_image("RGB"), 3),
        (source.decode_image("L"), 1),
        (source.decode_image(fields=["mask"]).decode_image(), 1),
        (source.decode_image(fields=["image"]).decode_image(), 1),
        (source.decode_image("RGB", fields=["mask"]).decode_image(), 3),
        (source.decode_image(fields=["mask", "image"]), 1),
    ):
        assert chain[0]["mask"].shape == (HEIGHT, WIDTH, channels)
    own = carya.files([tmp_path / "0.png"], extra={"mask": [tmp_path / "0.png"]})  # which may be any picture
    assert own.decode_image()[0]["mask"].shape[2] == 3


def test_a_label_picture_of_ones_own_is_taken_apart(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    labels = np.random.default_rng(1).integers(0, 4, (HEIGHT, WIDTH)).astype(np.uint8)
    image.fromarray(labels).save(tmp_path / "labels.png")
    image.fromarray(labels).save(tmp_path / "picture.png")
    found = {"boxes": [np.float32([[0, 0, 9, 9]] * 2)], "numbers": [[3, 1]]}
    source = carya.files([tmp_path / "picture.png"], extra={"labels": [tmp_path / "labels.png"]}, arrays=found)
    with carya.Loader(source.decode_image().boxes().crop(0, 0, HEIGHT, WIDTH).batch(1), epochs=1) as loader:
        for batch in loader:
            (masks,) = carya.detection.masks(batch, mask="labels", values="numbers")
            np.testing.assert_array_equal(masks, [labels == 3, labels == 1])


def voc_folder(folder: Path, labels: np.ndarray) -> Path:
    """One picture with objects 1 and 2, whose numbers are a PNG file with a palette."""
    image = pytest.importorskip("PIL.Image")
    for name in ("JPEGImages", "Annotations", "SegmentationObject", "ImageSets/Segmentation"):
        (folder / name).mkdir(parents=True)
    image.fromarray(np.stack([labels] * 3, axis=2)).save(folder / "JPEGImages" / "a.png")
    numbers = image.fromarray(labels)
    numbers.putpalette(np.random.default_rng(1).integers(0, 256, 768).astype(np.uint8).tobytes())
    numbers.save(folder / "SegmentationObject" / "a.png", transparency=0)
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    objects = "".join(f"<object><name>{name}</name>{box}</object>" for name in ("dog", "cat"))
    text = f"<annotation><filename>a.png</filename>{objects}</annotation>"
    (folder / "Annotations" / "a.xml").write_text(text)
    (folder / "ImageSets" / "Segmentation" / "val.txt").write_text("a\n")
    return folder / "SegmentationObject" / "a.png"


def test_masks_of_voc_are_the_indexes_of_its_palette(tmp_path: Path) -> None:
    labels = np.random.default_rng(2).choice(np.uint8([0, 1, 2, 255]), (HEIGHT, WIDTH))
    written = voc_folder(tmp_path, labels)
    chain = decoded(carya.voc(tmp_path, split="Segmentation/val", masks=tmp_path / "kept")).boxes()
    with carya.Loader(chain.crop(0, 0, HEIGHT, WIDTH).batch(1), epochs=1, threads=1) as loader:
        for batch in loader:
            np.testing.assert_array_equal(batch["mask"][0, ..., 0], labels)
            (masks,) = carya.detection.masks(batch)
            np.testing.assert_array_equal(masks, [labels == 1, labels == 2])
    assert len(files_below(tmp_path / "kept")) == 1
    pytest.importorskip("PIL.Image").fromarray(labels).save(written)  # gray: taken as it is
    gray = decoded(carya.voc(tmp_path, masks=tmp_path / "kept"))
    np.testing.assert_array_equal(gray[0]["mask"][..., 0], labels)
    assert len(files_below(tmp_path / "kept")) == 1


def test_a_mask_of_voc_that_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    written = voc_folder(tmp_path, np.zeros((HEIGHT, WIDTH), np.uint8))
    good = written.read_bytes()
    for data in (b"", good[:30], good[:-12], good[:-1], b"\xff" + good[1:], good.replace(b"PLTE", b"PLTF"), good[:8]):
        written.write_bytes(data)
        with pytest.raises(carya.InvalidArgument, match=r"SegmentationObject/a\.png: no such PNG file"):
            carya.voc(tmp_path, masks=tmp_path / "kept")
    rng = np.random.default_rng(3)
    for _ in range(100):
        changed = bytearray(good)
        changed[rng.integers(len(good))] ^= 1 << int(rng.integers(8))
        written.write_bytes(changed)
        with pytest.raises(carya.InvalidArgument, match=r"a\.png: no such PNG file"):
            carya.voc(tmp_path, masks=tmp_path / "kept")
    written.unlink()
    with pytest.raises(carya.NotFound, match=r"a\.png: no such file"):
        carya.voc(tmp_path, masks=tmp_path / "kept")
    with pytest.raises(carya.InvalidArgument, match="voc: masks"):
        carya.voc(tmp_path / "JPEGImages", tmp_path / "Annotations", masks=tmp_path / "kept")


# Bad input ------------------------------------------------------------------------------------------------------------

RUNS = {"size": [HEIGHT, WIDTH], "counts": [HEIGHT * WIDTH]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([[1, 2, 3, 4]], "three corners"),
        ([[1, 2, 3, 4, 5, 6, 7]], "three corners"),
        ([[1, 2, 3, 4, 5, float("nan")]], "three corners"),
        ([[1, 2, 3, 4, 5, 1e300]], "three corners"),
        ([[1, 2, 3, 4, 5, None]], "three corners"),
        ([[0, 0, 60_000, 60_000] * 200], "pixels around"),
        ([[[1, 2], [3, 4], [5, 6]]], "three corners"),
        ([7], "three corners"),
        ("abc", "a list of outlines"),
        (7, "a list of outlines"),
        (None, "there is none, and masks= asks for .* leave masks= out"),
        (RUNS | {"size": [WIDTH, HEIGHT]}, "size"),
        (RUNS | {"size": None}, "size"),
        (RUNS | {"counts": None}, "a list of run lengths"),
        (RUNS | {"counts": [5]}, "they are 5 pixels"),
        (RUNS | {"counts": [-5, HEIGHT * WIDTH + 5]}, "integers of 0 or more"),
        (RUNS | {"counts": [1e3]}, "integers of 0 or more"),
        (RUNS | {"counts": ""}, "they are 0 pixels"),
        (RUNS | {"counts": "X"}, "COCO's run lengths"),
        (RUNS | {"counts": " "}, "COCO's run lengths"),
        (RUNS | {"counts": "o" * 50}, "COCO's run lengths"),
        (RUNS | {"counts": "\u00ff0"}, "COCO's run lengths"),
    ],
)
def test_a_segmentation_that_cannot_be_is_refused_by_name_or_empty(given: Any, said: str, tmp_path: Path) -> None:
    found = document([[square(3, 4, 10), given]])
    with pytest.raises(carya.InvalidArgument, match=rf"annotation 1: segmentation.*{said}"):
        source_of(tmp_path, found)
    sample = decoded(source_of(tmp_path, found, invalid="drop"))[0]
    assert sample["mask_values"].tolist() == [1, 2]
    assert np.bincount(sample["mask"].ravel()).tolist() == [HEIGHT * WIDTH - 100, 100]
    with pytest.raises(carya.InvalidArgument, match=said):
        source_of(tmp_path, found)  # a file that was made for "drop" is not taken


def test_any_change_of_a_segmentation_is_read_or_refused(tmp_path: Path) -> None:
    """Drawn values in the place of any value, in any depth: an error of ours, or a pipeline."""
    rng = np.random.default_rng(17)
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    values = [None, True, -1, 0, 1e300, 2**70, "a", "", [], {}, float("inf"), [[1, 2]], [None] * 6, "\0", 1e4, deep]
    kinds = [square(3, 4, 10) * 2, RUNS, RUNS | {"counts": "0" + plain_text([HEIGHT * WIDTH])}]
    refused = 0
    for _ in range(300):
        found = json.loads(json.dumps(document([kinds])))
        place: Any = [found["images"][0], *found["annotations"] * 3][rng.integers(10)]
        key: Any = "height" if "height" in place else "segmentation"
        while isinstance(place[key], list | dict) and place[key] and rng.random() < 0.7:
            place = place[key]
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[rng.integers(len(keys))]
        place[key] = values[rng.integers(len(values))]
        path = tmp_path / "instances.json"
        path.write_text(json.dumps(found))
        for invalid in ("raise", "drop"):
            try:
                carya.coco(tmp_path, path, masks=tmp_path / "masks", invalid=invalid)
            except carya.InvalidArgument:
                refused += invalid == "raise"
    assert refused > 100


@pytest.mark.parametrize("size", [(None, 5), (0, 5), (5, 1 << 20), (5.5, 5), (True, 5), (1 << 15, 1 << 15)])
def test_a_picture_without_a_size_has_no_mask(size: tuple[Any, Any], tmp_path: Path) -> None:
    found = document([[square(3, 4, 10)]])
    found["images"][0] |= {"height": size[0], "width": size[1]}
    with pytest.raises(carya.InvalidArgument, match=r"images\[0\]: height, width"):
        source_of(tmp_path, found)


def test_more_objects_than_there_are_numbers(tmp_path: Path) -> None:
    found = document([[square(k % 80, k % 50, 3) for k in range(300)]])
    with pytest.raises(carya.InvalidArgument, match=r"images\[0\]: 300 objects"):
        source_of(tmp_path, found)
    source = source_of(tmp_path, found, invalid="drop")
    assert source[0]["mask_values"].tolist() == [*range(1, 256), *[0] * 45]


def test_a_mask_of_another_size_than_its_picture_is_bad_data(tmp_path: Path) -> None:
    found = document([[square(3, 4, 10)]])
    found["images"][0] |= {"height": HEIGHT + 1}
    with pytest.raises(carya.SampleError):
        decoded(source_of(tmp_path, found)).boxes().random_horizontal_flip()[0]


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "masks").write_text("")
    with pytest.raises(carya.IoError, match=r"masks: .*give a folder"):
        source_of(tmp_path, document([[square(3, 4, 10)]]))


@pytest.mark.parametrize(
    "change",
    [
        {"mask": np.zeros((2, 5, 5, 1), np.float32)},
        {"mask": np.zeros((2, 5, 5), np.uint8)},
        {"mask": np.zeros((2, 5, 5, 2), np.uint8)},
        {"mask_values": np.ones((3, 4), np.int64)},
        {"mask_values": np.ones(2, np.int64)},
        {"boxes_count": np.array([1, 5])},
    ],
)
def test_batches_that_cannot_be(change: dict[str, Any]) -> None:
    batch = {"mask": np.zeros((2, 5, 5, 1), np.uint8), "mask_values": np.ones((2, 4), np.int64)}
    batch["boxes_count"] = np.array([1, 4])
    assert [len(one) for one in carya.detection.masks(batch)] == [1, 4]
    with pytest.raises(carya.InvalidArgument, match="masks: "):
        carya.detection.masks(batch | change)
    with pytest.raises(carya.InvalidArgument, match="no field 'mask_values'"):
        carya.detection.masks({"mask": batch["mask"]})
