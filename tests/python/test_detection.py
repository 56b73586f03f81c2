"""Boxes, labels and key points beside pictures: where they go when pixels move, and what annotations may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import daemons
import numpy as np
import pytest
import reference_torchvision as reference
import workers
from streams import digest, epoch_digest

import carya

HEIGHT, WIDTH = 60, 90
BOXES = np.float32([[5, 6, 40, 30], [50, 10, 80, 55], [0, 0, 90, 60], [33, 25, 34.5, 27]])
LABELS = np.int64([3, 1, 2, 7])


def places() -> np.ndarray:
    """A picture whose pixels say where they are: x + 1, y + 1, and 1."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return np.stack([x + 1, y + 1, np.ones_like(x)], axis=-1).astype(np.uint8)


def pictures(count: int = 1, boxes: np.ndarray = BOXES) -> carya.Pipeline:
    repeated = {"image": places(), "boxes": boxes, "labels": LABELS[: len(boxes)]}
    return carya.arrays({name: np.repeat(one[None], count, axis=0) for name, one in repeated.items()})


def rows_of(pipeline: carya.Pipeline, **options: Any) -> list[dict[str, np.ndarray]]:
    """The records of one epoch, one by one, by the fused plan."""
    rows = []
    with carya.Loader(pipeline.batch(4), epochs=1, threads=1, **options) as loader:
        for batch in loader:
            rows += [{name: batch[name][i].copy() for name in batch} for i in range(len(batch["boxes"]))]
    return rows


CHAINS = {
    "flip": [("random_horizontal_flip", {"p": 1.0}), ("random_vertical_flip", {"p": 1.0})],
    "crop": [("crop", {"top": 7, "left": 11, "height": 30, "width": 40})],
    "beyond": [("crop", {"top": -5, "left": 20, "height": 80, "width": 90})],
    "center_crop": [("center_crop", {"size": (20, 30)})],
    "pad": [("pad", {"padding": (3, 4, 5, 6)})],
    "resize": [("resize", {"size": (33, 120)})],
    "rotate": [("rotate", {"angle": 30.0})],
    "affine": [("affine", {"angle": 10.0, "translate": (4, -3), "scale": 1.2, "shear": (8.0, 0.0)})],
    "all": [
        ("pad", {"padding": (3, 4, 5, 6)}),
        ("random_horizontal_flip", {"p": 1.0}),
        ("rotate", {"angle": -20.0}),
        ("crop", {"top": 10, "left": 8, "height": 45, "width": 60}),
        ("resize", {"size": (70, 64)}),
    ],
}


def torch_step(functional: Any, name: str, parameters: dict[str, Any], value: Any) -> Any:
    if name == "random_horizontal_flip":
        return functional.horizontal_flip(value)
    if name == "random_vertical_flip":
        return functional.vertical_flip(value)
    if name == "center_crop":
        return functional.center_crop(value, list(parameters["size"]))
    given = {key: list(one) if isinstance(one, tuple) else one for key, one in parameters.items()}
    return getattr(functional, name)(value, **given)


def applied(pipeline: carya.Pipeline, chain: list[tuple[str, dict[str, Any]]]) -> carya.Pipeline:
    for name, parameters in chain:
        pipeline = getattr(pipeline, name)(**parameters)
    return pipeline


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_boxes_move_as_those_of_torchvision(chain: list[tuple[str, dict[str, Any]]]) -> None:
    functional, tensors = reference.module("transforms.v2.functional"), reference.module("tv_tensors")
    expected = tensors.BoundingBoxes(BOXES, format="XYXY", canvas_size=(HEIGHT, WIDTH))
    for name, parameters in chain:
        expected = torch_step(functional, name, parameters, expected)
    pipeline = applied(pictures().boxes(rows="labels"), chain)
    for row in (*rows_of(pipeline), pipeline[0]):
        assert np.abs(row["boxes"] - expected.numpy()).max() < 0.01
        assert row["boxes_count"] == len(BOXES)
        assert row["labels"].tolist() == LABELS.tolist()


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_key_points_move_as_those_of_torchvision(chain: list[tuple[str, dict[str, Any]]]) -> None:
    functional, tensors = reference.module("transforms.v2.functional"), reference.module("tv_tensors")
    points = np.random.default_rng(1).uniform(0, 59, (1, 4, 5, 3)).astype(np.float32)
    points[..., 2] = 2
    expected: Any = tensors.KeyPoints(points[0, ..., :2].copy(), canvas_size=(HEIGHT, WIDTH))
    for name, parameters in chain:
        expected = torch_step(functional, name, parameters, expected)
    source = carya.arrays({"image": places()[None], "boxes": BOXES[None], "points": points})
    made = applied(source.boxes(key_points="points"), chain)
    (row,) = rows_of(made)
    assert np.abs(row["points"][..., :2] - expected.numpy()).max() < 0.01
    height, width = row["image"].shape[:2]
    x, y = row["points"][..., 0], row["points"][..., 1]
    outside = (x < 0) | (x >= width) | (y < 0) | (y >= height)
    assert not row["points"][..., 2][outside].any()
    np.testing.assert_array_equal(made[0]["points"], row["points"])


def test_pairs_of_key_points_change_places_in_a_mirrored_picture() -> None:
    points = np.float32([[[[1, 2, 2], [10, 3, 1], [20, 4, 2]]]])
    source = carya.arrays({"image": places()[None], "boxes": BOXES[None, :1], "points": points})
    marked = source.boxes(key_points="points", flip_pairs=[(0, 2)])
    mirrored = marked.random_horizontal_flip(p=1.0)[0]["points"]
    assert mirrored[0].tolist() == [[WIDTH - 21, 4, 2], [WIDTH - 11, 3, 1], [WIDTH - 2, 2, 2]]
    assert marked.random_vertical_flip(p=1.0)[0]["points"][0, 0].tolist() == [1, HEIGHT - 3, 2]


def painted(count: int) -> carya.Pipeline:
    """Pictures and masks in which the one object is white."""
    rng = np.random.default_rng(3)
    masks = np.zeros((count, HEIGHT, WIDTH, 1), np.uint8)
    boxes = np.zeros((count, 1, 4), np.float32)
    for i in range(count):
        left, top = rng.integers(0, 60), rng.integers(0, 40)
        box = (left, top, left + rng.integers(8, 30), top + rng.integers(8, 20))
        masks[i, box[1] : box[3], box[0] : box[2]] = 255
        boxes[i] = box
    arrays = {"image": np.repeat(masks, 3, axis=3), "mask": masks, "boxes": boxes}
    return carya.arrays(arrays).shuffle(seed=5).boxes()


@pytest.mark.parametrize(
    ("move", "within"),
    [
        (lambda p: p.random_zoom_out(side_range=(1.0, 2.0)).crop(0, 0, 70, 100), 0),
        (lambda p: p.random_iou_crop().crop(0, 0, 60, 90), 0),
        (lambda p: p.random_horizontal_flip().random_vertical_flip().random_crop(40), 0),
        (lambda p: p.random_affine(0, translate=(0.1, 0.1), scale=(0.8, 1.2)), 1),
        (lambda p: p.random_shortest_size([80, 99], extra_interpolation="nearest").crop(0, 0, 99, 99), 1),
        (lambda p: p.scale_jitter(99, (0.5, 1.0), extra_interpolation="nearest").crop(0, 0, 99, 99), 1),
        (lambda p: p.random_resized_crop((66, 55), scale=(0.6, 1.0), extra_interpolation="nearest"), 1),
    ],
)
def test_an_object_lies_where_its_pixels_lie_whatever_is_drawn(move: Any, within: float) -> None:
    count = 40
    found = [row for row in rows_of(move(painted(count)).sanitize_boxes(min_size=3)) if row["boxes_count"]]
    assert len(found) > count / 3
    for row in found:
        y, x = np.nonzero(row["mask"][..., 0])
        seen = np.float32([x.min(), y.min(), x.max() + 1, y.max() + 1])
        assert np.abs(row["boxes"][0] - seen).max() <= within


def test_boxes_change_no_pixel_and_follow_the_same_draws() -> None:
    source = pictures(8).shuffle(seed=2)

    def moved(pipeline: carya.Pipeline) -> carya.Pipeline:
        return pipeline.random_horizontal_flip().random_crop(40).random_rotation(15)

    with_boxes = rows_of(moved(source.boxes(rows="labels")))
    alone = rows_of(moved(source))
    assert len({row["image"].tobytes() for row in alone}) > 4
    for one, other in zip(with_boxes, alone, strict=True):
        np.testing.assert_array_equal(one["image"], other["image"])


def test_samples_by_index_are_the_rows_of_a_stream() -> None:
    chain = pictures(8).boxes(rows="labels").random_zoom_out(fill=9).random_iou_crop().sanitize_boxes()
    chain = chain.random_shortest_size([40, 50]).crop(0, 0, 64, 64)
    for index, row in enumerate(rows_of(chain)):
        sample = chain.sample(index)
        for name, values in row.items():
            np.testing.assert_array_equal(sample[name], values, err_msg=name)


def test_an_iou_crop_keeps_the_objects_whose_centre_it_has() -> None:
    chain = pictures(64).boxes(rows="labels").random_iou_crop(overlaps=[0.3])
    cropped = 0
    for index in range(64):
        row = chain.sample(index)
        height, width = row["image"].shape[:2]
        left, top = row["image"][0, 0, 0] - 1, row["image"][0, 0, 1] - 1
        cropped += (height, width) != (HEIGHT, WIDTH)
        x, y = (BOXES[:, 0] + BOXES[:, 2]) / 2, (BOXES[:, 1] + BOXES[:, 3]) / 2
        inside = (left < x) & (x < left + width) & (top < y) & (y < top + height)
        assert inside.any()
        count = int(row["boxes_count"])
        assert row["labels"][:count].tolist() == LABELS[inside].tolist()
        kept = np.clip(BOXES[inside] - np.float32([left, top, left, top]), 0, np.float32([width, height] * 2))
        np.testing.assert_allclose(row["boxes"][:count], kept)
        assert not row["boxes"][count:].any()
        shared = np.prod(kept[:, 2:] - kept[:, :2], axis=1)
        whole = np.prod(BOXES[inside, 2:] - BOXES[inside, :2], axis=1) + height * width - shared
        assert (shared / whole).max() >= 0.3 - 1e-6
        assert 0.5 <= width / height <= 2
    assert cropped > 32


def test_a_picture_without_objects_stays_as_it_is() -> None:
    source = carya.arrays({"image": places()[None], "boxes": BOXES[None], "n": np.int64([0])})
    row = source.boxes(count="n").random_iou_crop(overlaps=[0.9]).sanitize_boxes()[0]
    assert row["n"] == 0
    assert row["image"].shape == (HEIGHT, WIDTH, 3)
    assert not row["boxes"].any()


def test_formats_say_the_same() -> None:
    left, top, right, bottom = BOXES.T
    sides = (right - left, bottom - top)
    given = {
        "xyxy": BOXES,
        "xywh": np.stack([left, top, *sides], axis=1),
        "cxcywh": np.stack([(left + right) / 2, (top + bottom) / 2, *sides], axis=1),
    }
    for name, boxes in given.items():
        for relative in (False, True):
            scale = np.float32([WIDTH, HEIGHT] * 2) if relative else np.float32(1)
            row = pictures(boxes=(boxes / scale).astype(np.float32)).boxes(format=name, relative=relative)[0]
            assert np.abs(row["boxes"] - BOXES).max() < 1e-4


def test_small_boxes_are_left_out_with_what_goes_with_them() -> None:
    row = pictures().boxes(rows="labels").sanitize_boxes(min_size=2)[0]
    assert row["boxes_count"] == 3
    assert row["labels"].tolist() == [3, 1, 2, 0]
    row = pictures().boxes(rows="labels").sanitize_boxes(min_size=0, min_area=3.5)[0]
    assert row["boxes_count"] == 3


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ([np.nan, 0, 1, 1], "not finite"),
        ([0, 0, np.inf, 1], "not finite"),
        ([9, 0, 3, 1], "ends before it begins"),
        ([200, 0, 220, 1], "lies beside the picture"),
        ([0, -20, 5, -10], "lies beside the picture"),
    ],
)
def test_a_box_that_cannot_be_is_bad_data_or_left_out(box: list[float], said: str) -> None:
    boxes = np.concatenate([BOXES[:2], np.float32([box])])
    with pytest.raises(carya.SampleError, match=rf"box 2 of 3.*{said}"):
        pictures(boxes=boxes).boxes(rows="labels")[0]
    row = pictures(boxes=boxes).boxes(rows="labels", invalid="drop")[0]
    assert row["boxes_count"] == 2
    assert row["labels"].tolist() == [3, 1, 0]
    both = np.stack([boxes, np.float32([[0, 0, 5, 5]] * 3)])
    source = carya.arrays({"image": np.repeat(places()[None], 2, axis=0), "boxes": both})
    with carya.Loader(source.boxes().batch(2), on_error="mask", epochs=1) as loader:
        assert [batch.valid.tolist() for batch in loader] == [[False, True]]


def test_a_key_point_that_is_no_number_is_bad_data() -> None:
    points = np.full((1, 4, 2, 3), np.nan, np.float32)
    source = carya.arrays({"image": places()[None], "boxes": BOXES[None], "points": points})
    with pytest.raises(carya.SampleError, match="key point that is not finite"):
        source.boxes(key_points="points")[0]


def test_more_objects_than_there_is_room_for() -> None:
    with pytest.raises(carya.SampleError, match="4 objects"):
        pictures().boxes(max_objects=2)[0]
    row = pictures().boxes(max_objects=2, rows="labels", truncate=True)[0]
    assert row["boxes_count"] == 2
    assert row["labels"].tolist() == [3, 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: p.boxes(field="label"), "give names among image, boxes, labels"),
        (lambda p: p.boxes(field="labels"), "float32 of"),
        (lambda p: p.boxes().boxes(), "one op boxes"),
        (lambda p: p.boxes(flip_pairs=[(0, 1)]), "flip_pairs"),
        (lambda p: p.boxes(key_points="labels"), "float32 of"),
        (lambda p: p.boxes(rows="image"), "one row for each"),
        (lambda p: p.boxes(format="yxyx"), "format"),
        (lambda p: p.random_iou_crop(), "put boxes"),
        (lambda p: p.sanitize_boxes(), "put boxes"),
        (lambda p: p.normalize(0.5, 0.5).boxes(), "before normalize"),
        (lambda p: p.boxes().normalize(0.5, 0.5, fields=["boxes"]), "boxes"),
        (lambda p: p.boxes().crop(0, 0, 9, 9).two_views(carya.ops().random_horizontal_flip()), "no boxes beside"),
        (lambda p: p.random_zoom_out(side_range=(0.5, 2)), "side_range"),
        (lambda p: p.scale_jitter(0), "target_size"),
    ],
)
def test_what_cannot_be_is_refused_at_once(make: Any, said: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=said):
        make(pictures())


def test_a_written_pipeline_is_read_again() -> None:
    data = {"image": places()[None], "boxes": BOXES[None]}
    chain = carya.arrays(data).boxes().random_zoom_out().random_iou_crop().sanitize_boxes().scale_jitter(99)
    again = carya.Pipeline.from_json(chain.to_json(), arrays=data)
    assert again == chain
    np.testing.assert_array_equal(again[0]["boxes"], chain[0]["boxes"])


# Files with arrays beside them, and COCO's annotations ----------------------------------------------------------------


def photos(folder: Path, count: int) -> list[str]:
    image = pytest.importorskip("PIL.Image")
    names = [f"{i}.png" for i in range(count)]
    for i, name in enumerate(names):
        image.fromarray(places()[: HEIGHT - i]).save(folder / name)
    return names


def instances(names: list[str]) -> dict[str, Any]:
    """Picture i has i objects, of category 10 i + k."""
    found = [
        {"id": 100 * i + k, "image_id": i, "category_id": 10 * i + k, "bbox": [k, i, 10 + k, 20], "iscrowd": k % 2}
        for i in range(len(names))
        for k in range(i)
    ]
    return {"images": [{"id": i, "file_name": name} for i, name in enumerate(names)], "annotations": found}


def written(folder: Path, document: Any) -> Path:
    path = folder / "instances.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_pictures_have_the_objects_of_their_annotations(tmp_path: Path) -> None:
    names = photos(tmp_path, 5)
    source = carya.coco(tmp_path, written(tmp_path, instances(names)))
    chain = source.shuffle(seed=4).decode_image().boxes().resize((30, 45))
    seen = set()
    with carya.Loader(chain.batch(2), epochs=1) as loader:
        for batch in loader:
            for row in range(len(batch["image"])):
                count = int(batch["boxes_count"][row])
                seen.add(count)
                assert batch["labels"][row].tolist() == [10 * count + k for k in range(count)] + [0] * (4 - count)
                assert batch["object_ids"][row][:count].tolist() == [100 * count + k for k in range(count)]
                assert batch["crowd"][row][:count].tolist() == [k % 2 == 1 for k in range(count)]
                factor = 30 / (HEIGHT - count)
                for k in range(count):
                    expected = np.float32([k / 2, count * factor, k + 5, (20 + count) * factor])
                    np.testing.assert_allclose(batch["boxes"][row, k], expected, rtol=1e-5)
    assert seen == set(range(5))
    assert source[3]["boxes"].shape == (3, 4)


def test_crowds_and_empty_pictures_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, instances(photos(tmp_path, 4)))
    assert len(carya.coco(tmp_path, path, empty=False)) == 3
    assert carya.coco(tmp_path, path, crowd=False)[3]["labels"].tolist() == [30, 32]


def test_functions_get_arrays_of_their_own_length(tmp_path: Path) -> None:
    source = carya.coco(tmp_path, written(tmp_path, instances(photos(tmp_path, 3))))
    lists = ["image", "boxes", "labels", "areas", "crowd", "object_ids"]
    chain = source.map(np.negative, fields="labels").batch(3, lists=lists)
    with carya.Loader(chain, epochs=1, threads=1) as loader:
        (batch,) = list(loader)
    assert [one.tolist() for one in batch["labels"]] == [[], [-10], [-20, -21]]


def test_a_batch_needs_boxes_of_one_shape(tmp_path: Path) -> None:
    source = carya.coco(tmp_path, written(tmp_path, instances(photos(tmp_path, 3)))).decode_image()
    with pytest.raises(carya.InvalidArgument, match=r"add \.boxes\(\) behind"):
        source.resize((8, 8)).batch(2)


def test_a_pipeline_with_arrays_is_pickled_and_written(tmp_path: Path) -> None:
    import pickle

    path = written(tmp_path, instances(photos(tmp_path, 4)))
    chain = carya.coco(tmp_path, path).decode_image().boxes().resize((30, 45))
    again = pickle.loads(pickle.dumps(chain))
    assert again == chain
    np.testing.assert_array_equal(again[2]["boxes"], chain[2]["boxes"])
    values = {name: [np.asarray(chain._source.arrays[name])[:1]] * 2 for name in ("boxes", "labels")}
    other = carya.files([tmp_path / "0.png"] * 2, arrays=values)
    assert carya.Pipeline.from_json(other.to_json(), arrays=values) == other
    with pytest.raises(carya.InvalidArgument, match="are not those of the document"):
        carya.Pipeline.from_json(other.to_json(), arrays={**values, "labels": [[1], [2]]})


def test_workers_and_a_daemon_have_the_same_objects(tmp_path: Path) -> None:
    source = carya.coco(tmp_path, written(tmp_path, instances(photos(tmp_path, 9))))
    chain = source.shuffle(seed=4).decode_image().boxes().random_zoom_out().random_iou_crop().sanitize_boxes()
    chain = chain.random_horizontal_flip().resize((30, 45)).batch(2)
    expected = epoch_digest(chain)
    with workers.running("--insecure") as worker:
        remote = [f"127.0.0.1:{worker.port}"]
        with carya.Loader(chain, remote=remote, placement="remote:1", threads=1) as loader:
            for _ in range(2_000):
                loader.set_epoch(0)
                assert digest(loader) == expected
                if loader.stats()["remote_chunks"] > 0:
                    break
            assert loader.stats()["remote_chunks"] > 0
    with daemons.running() as daemon, carya.Loader(chain, daemon=daemon.socket, job="boxes", threads=1) as loader:
        assert digest(loader) == expected


def changed(**changes: Any) -> Any:
    def change(document: dict[str, Any]) -> Any:
        document["annotations"][1] |= changes
        return document

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed(id=100), "id 100 is there twice"),
        (changed(image_id=77), "image_id: got 77"),
        (
            changed(bbox=[0, 0, -4, 5]),
            "bbox: left 0, top 0, right -4, bottom 5; give a box that ends behind where it begins",
        ),
        (changed(bbox=[0, float("nan"), 4, 5]), "four finite numbers"),
        (changed(bbox=[0, 1]), "four finite numbers"),
        (changed(bbox="0123"), "four finite numbers"),
        (changed(category_id=None), "category_id"),
        (changed(area="large"), "area"),
        (lambda d: {**d, "images": d["images"] + d["images"][:1]}, "id 0 is there twice"),
        (lambda d: {**d, "images": [{"id": 0, "file_name": "../a.png"}]}, "below the folder"),
        (lambda d: {**d, "annotations": []}, "no picture has an object"),
        (lambda d: {**d, "images": 3}, "no list of objects 'images'"),
        (lambda d: "{", "give a JSON file"),
        (lambda d: "[" * 5000, "give a JSON file"),
    ],
)
def test_annotations_that_cannot_be_are_refused_by_name(tmp_path: Path, change: Any, said: str) -> None:
    document = instances(["0.png", "1.png", "2.png"])
    with pytest.raises(carya.InvalidArgument, match=said):
        carya.coco(tmp_path, written(tmp_path, change(document)))


def test_an_object_that_cannot_be_is_left_out_on_demand(tmp_path: Path) -> None:
    document = changed(bbox=[0, 0, -4, 5])(instances(photos(tmp_path, 3)))
    source = carya.coco(tmp_path, written(tmp_path, document), invalid="drop")
    assert source[2]["labels"].tolist() == [21]


def test_a_picture_that_is_missing_is_named(tmp_path: Path) -> None:
    source = carya.coco(tmp_path, written(tmp_path, instances(["0.png", "1.png"])))
    with pytest.raises(carya.NotFound, match=r"0\.png"):
        source.open()
    with pytest.raises(carya.NotFound, match=r"none\.json"):
        carya.coco(tmp_path, tmp_path / "none.json")


def test_key_points_of_coco(tmp_path: Path) -> None:
    document = instances(photos(tmp_path, 3))
    document["annotations"][0]["keypoints"] = [1, 2, 2, 4, 5, 1]
    source = carya.coco(tmp_path, written(tmp_path, document), key_points=2)
    assert source[1]["keypoints"].tolist() == [[[1, 2, 2], [4, 5, 1]]]
    assert not source[2]["keypoints"].any()
    with pytest.raises(carya.InvalidArgument, match="3 times x, y"):
        carya.coco(tmp_path, tmp_path / "instances.json", key_points=3)


def test_any_change_of_an_annotation_file_is_read_or_refused(tmp_path: Path) -> None:
    """Drawn values in the place of any value: an error of ours, or a pipeline."""
    rng = np.random.default_rng(11)
    drawn = [None, True, -1, 1e300, 2**70, "a", "", [], [1, 2, 3, 4], {}, float("inf"), [None] * 4, "\0"]
    refused = 0
    for _ in range(400):
        document = instances(["0.png", "1.png", "2.png"])
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[rng.integers(len(keys))]
            if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.2:
                break
            place = place[key]
        place[key] = drawn[rng.integers(len(drawn))]
        try:
            carya.coco(tmp_path, written(tmp_path, document), key_points=[None, 1][rng.integers(2)])
        except carya.InvalidArgument:
            refused += 1
    assert refused > 100


def test_boxes_behind_what_moves_pixels_are_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    photos = carya.files(["a.jpg"], arrays={"boxes": [BOXES]}).decode_image()
    parts = carya.files(["a.jpg"], arrays={"boxes": [BOXES / 1000]}).decode_image()
    with pytest.warns(
        RuntimeWarning, match=r"boxes: it stands behind random_crop, .* right behind \.decode_image"
    ) as told:
        parts.random_crop(20).resize((9, 9)).boxes(relative=True)
    assert told[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="boxes: it stands behind resize"):
        photos.resize((9, 9)).boxes()
    with pytest.warns(RuntimeWarning, match="boxes: it stands behind pad"):  # where workers may have to make it
        photos.filter(len).pad(3).boxes()
    recwarn.clear()
    parts.resize((9, 9)).boxes(relative=True)  # parts of its sides are the same
    photos.color_jitter(0.2).boxes().random_crop(20).resize((9, 9))
    assert not recwarn


def test_boxes_in_other_units_than_told_are_refused() -> None:
    def of(boxes: Any) -> carya.Pipeline:
        return carya.files(["a.jpg", "b.jpg"], arrays={"boxes": boxes}).decode_image()

    none, parts = np.zeros((0, 4), np.float32), np.float32([[0.1, 0.2, 0.5, 1.0]])
    pixels = np.float32([[1, 2, 20, 30], [0, 0, 3, 3]])
    with pytest.raises(carya.InvalidArgument, match=r"boxes: relative: got False; give True: all boxes .* carya\.yolo"):
        of([none, parts]).boxes()
    with pytest.raises(carya.InvalidArgument, match=r"boxes: relative: got True; give False: .* reach 30"):
        of([pixels, none]).boxes(relative=True)
    of([none, parts]).boxes(relative=True)
    of([pixels, none]).boxes()
    of([parts, pixels]).boxes()  # a box of less than a pixel, among others
    for relative in (False, True):
        of(np.zeros((2, 3, 4), np.float32)).boxes(relative=relative)  # padding, and no box
    of([parts, np.float32([[0.5, 0.5, 3, 0.9]])]).boxes(relative=True)  # one that is bad data


def test_a_mask_that_a_resize_would_mix_is_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    photos = carya.files(["a.jpg"], extra={"mask": ["a.png"]}).decode_image()
    with pytest.warns(
        RuntimeWarning, match=r'resize: mask is resized .* by "bicubic", .* extra_interpolation="nearest"'
    ) as told:
        photos.resize((9, 9), interpolation="bicubic")
    assert told[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="random_resized_crop: mask is resized"):
        photos.random_resized_crop(9)
    recwarn.clear()
    photos.resize((9, 9), extra_interpolation="nearest").random_rotation(10).random_horizontal_flip()
    photos.resize((9, 9), extra_interpolation="bilinear").resize((8, 8), interpolation="nearest")
    carya.files(["a.jpg"], extra={"depth": ["a.png"]}).decode_image().resize((9, 9))
    assert not recwarn


def test_a_folder_in_place_of_the_file_of_coco_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        carya.InvalidArgument, match="it is a folder; give the folder of the pictures first, then the JSON"
    ):
        carya.coco("instances.json", tmp_path)
