"""Pictures with the objects of a JSON file of COCO."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._errors import InvalidArgument, NotFound, invalid
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike, one_path
from .annotations import Annotations, Invalid, below, checked_box, checked_invalid, four_numbers
from .mask_pictures import OBJECTS_MAX, MaskPictures, Outline

_FIELDS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "labels": (np.int64, ()),
    "areas": (np.float32, ()),
    "crowd": (np.bool_, ()),
    "object_ids": (np.int64, ()),
}


def coco(
    images: PathLike,
    annotations: PathLike,
    *,
    key_points: int | None = None,
    crowd: bool = True,
    empty: bool = True,
    masks: PathLike | None = None,
    invalid: Invalid = "raise",
) -> Pipeline:
    """Pictures with the boxes of a JSON file of COCO, in the order of the file's list of pictures.

    `images`: the folder of the pictures. `annotations`: the file, such as "instances_val2017.json". `key_points`: as many of each
    object, 17 of "person_keypoints_val2017.json". `crowd=False` leaves out the boxes of crowds, `empty=False` pictures without a box.
    The file is read once, when the pipeline is made; `.decode_image().boxes()` makes the objects follow the picture.
    Fields: `image` encoded; of each object `boxes` float32 (any, 4) of left, top, right, bottom in pixels, `labels` int64 (the
    category's id), `areas` float32 (its "area", else that of the box), `crowd` bool, `object_ids` int64 (the annotation's id),
    `keypoints` float32 (any, key_points, 3).

    `masks`: a folder for pictures of the objects' pixels, made from "segmentation" (outlines and run lengths) where they are not there
    yet, and found again by what is in the file. They are the field `mask`, encoded: in each pixel the number of the object in
    front, 0 for none. The object with fewer pixels is in front of one with more, of equal ones the later, and crowds are behind
    all. `mask_values` int64 has the number of each object, 1 to 255. The mask follows the picture, by nearest neighbour where it
    is told so, and `carya.detection.masks` takes it apart.

    Two pictures or two annotations of one id, and an annotation of no picture, are errors. So are boxes that are not four finite
    numbers or have a negative side, and key points of another number; with `invalid="drop"` such objects are left out. With `masks`, a
    picture without height and width is an error; so are a segmentation that cannot be or is not there, which is empty with
    `invalid="drop"` (an empty list is an object without pixels), and more than 255 objects, of which those behind have the number 0
    then. A picture that is missing is an error when the pipeline is
    opened, and one of another size than its mask is bad data.
    Errors: NotFound (no such file), InvalidArgument (no such JSON, and the above; each names the annotation or picture by its id),
    IoError (a folder of masks that cannot be written).

    >>> import carya, json, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "instances.json"
    >>> found = [{"id": 5, "image_id": 1, "category_id": 3, "bbox": [10, 20, 30, 40]}]
    >>> size = name.write_text(json.dumps({"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": found}))
    >>> carya.coco("photos", name).decode_image().boxes().outputs[1:3]
    [('boxes', 'float32', (1, 4)), ('labels', 'int64', (1,))]
    """
    folder, path = one_path("coco: images", images), one_path("coco: annotations", annotations)
    if key_points is not None and (type(key_points) is not int or not 1 <= key_points <= 1024):
        raise _invalid("coco: key_points", key_points, "None, or a number of 1 to 1024")
    drop = checked_invalid("coco", invalid)
    document = _read(path)
    names = _names(path, document, folder)
    of_picture: dict[Any, list[dict[str, Any]]] = {one: [] for one in names}
    for annotation in _annotations(path, document, of_picture):
        of_picture[annotation["image_id"]].append(annotation)
    fields = dict(_FIELDS)
    if key_points is not None:
        fields["keypoints"] = (np.float32, (key_points, 3))
    kept = None
    if masks is not None:
        fields["mask_values"] = (np.int64, ())
        kept = MaskPictures("coco", one_path("coco: masks", masks), drop)
    found = Annotations("coco", fields)
    for number, (identity, name) in enumerate(names.items()):
        objects = list(_objects(path, of_picture[identity], key_points, crowd, drop))
        if not objects and not empty:
            continue
        if kept is None:
            found.begin(name)
        else:
            image = document["images"][number]
            where = f"coco: {path}: images[{number}]"
            outlines = [
                Outline(f"coco: {path}: annotation {one['id']!r}", one.get("segmentation"), values["crowd"])
                for one, _, values in objects
            ]
            found.begin(name, kept.path(path, where, image.get("height"), image.get("width"), outlines))
            for place, (_, _, values) in enumerate(objects, 1):
                values["mask_values"] = place if place <= OBJECTS_MAX else 0
        for _, box, values in objects:
            found.add(box, **values)
    return found.pipeline()


_invalid = invalid


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            document = json.load(file)
    except FileNotFoundError:
        raise NotFound(f"coco: {path}: no such file; give the JSON file of the annotations") from None
    except IsADirectoryError:
        raise InvalidArgument(
            f"coco: {path}: it is a folder; give the folder of the pictures first, then the JSON file of the annotations"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"coco: {path}: {error}; give a JSON file of COCO") from None
    if not isinstance(document, dict):
        document = {}
    for key in ("images", "annotations"):
        listed = document.get(key)
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise InvalidArgument(f"coco: {path}: no list of objects {key!r}; give a JSON file of COCO")
    return document


def _identity(where: str, given: Any) -> Any:
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise _invalid(f"{where}: id", given, "an integer or a text")
    return given


def _names(path: str, document: dict[str, Any], folder: str) -> dict[Any, str]:
    names: dict[Any, str] = {}
    for number, image in enumerate(document["images"]):
        where = f"coco: {path}: images[{number}]"
        identity = _identity(where, image.get("id"))
        if identity in names:
            raise InvalidArgument(f"{where}: id {identity!r} is there twice; give each picture an id of its own")
        names[identity] = below(folder, image.get("file_name"), f"{where}: file_name")
    return names


def _annotations(path: str, document: dict[str, Any], pictures: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    seen: set[Any] = set()
    for number, annotation in enumerate(document["annotations"]):
        where = f"coco: {path}: annotations[{number}]"
        identity = _identity(where, annotation.get("id"))
        if identity in seen:
            raise InvalidArgument(f"{where}: id {identity!r} is there twice; give each annotation an id of its own")
        seen.add(identity)
        if _identity(f"{where}: image_id", annotation.get("image_id")) not in pictures:
            raise _invalid(f"{where}: image_id", annotation["image_id"], "the id of one of the images")
        yield annotation


def _objects(
    path: str, annotations: list[dict[str, Any]], key_points: int | None, crowd: bool, drop: bool
) -> Iterator[tuple[dict[str, Any], Any, dict[str, Any]]]:
    """Each annotation that is taken, its box, and its values."""
    for annotation in annotations:
        in_crowd = bool(annotation.get("iscrowd", 0))
        if in_crowd and not crowd:
            continue
        where = f"coco: {path}: annotation {annotation['id']!r}"
        try:
            box, values = _object(where, annotation, in_crowd, key_points)
        except InvalidArgument:
            if not drop:
                raise
            continue
        yield annotation, box, values


def _object(
    where: str, annotation: dict[str, Any], in_crowd: bool, key_points: int | None
) -> tuple[Any, dict[str, Any]]:
    left, top, width, height = four_numbers(f"{where}: bbox", annotation.get("bbox"))
    box = checked_box(f"{where}: bbox", (left, top, left + width, top + height))
    area = annotation.get("area", width * height)
    if isinstance(area, bool) or not isinstance(area, int | float) or not abs(area) < 1e30:
        raise _invalid(f"{where}: area", area, "a number")
    values: dict[str, Any] = {"areas": area, "crowd": in_crowd}
    for name, key in (("labels", "category_id"), ("object_ids", "id")):
        number = annotation.get(key)
        if name == "object_ids" and isinstance(number, str):
            number = -1
        if isinstance(number, bool) or not isinstance(number, int) or not -(2**63) <= number < 2**63:
            raise _invalid(f"{where}: {key}", number, "an integer of 64 bits")
        values[name] = number
    if key_points is not None:
        values["keypoints"] = _key_points(f"{where}: keypoints", annotation.get("keypoints"), key_points)
    return box, values


def _key_points(where: str, given: Any, count: int) -> list[float]:
    if given is None:
        return [0.0] * (3 * count)  # of a category that has none
    try:
        points = [float(one) for one in given]
    except (TypeError, ValueError, OverflowError):
        points = []
    if len(points) != 3 * count or not all(abs(one) < 1e9 for one in points):
        raise _invalid(where, given, f"{count} times x, y and visibility")
    return points
