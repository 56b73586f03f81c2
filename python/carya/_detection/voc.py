"""Pictures with the objects of Pascal VOC's XML documents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from .._errors import InvalidArgument, NotFound, invalid
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike, one_path
from .annotations import (
    Annotations,
    Invalid,
    below,
    checked_box,
    checked_flags,
    checked_invalid,
    class_numbers,
    four_numbers,
    whole_text,
)
from .mask_pictures import MaskPictures

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_FIELDS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "labels": (np.int64, ()),
    "areas": (np.float32, ()),
    "crowd": (np.bool_, ()),
    "object_ids": (np.int64, ()),
    "difficult": (np.bool_, ()),
}
_BORDER = 255  # in masks: around objects
_BYTES_MAX = 16 << 20  # of a document; those of VOC have a few KB
_DEPTH_MAX = 16  # of elements in one another; VOC has 5


def voc(
    images: PathLike,
    annotations: PathLike | None = None,
    *,
    split: str | None = None,
    classes: Sequence[str] = VOC_CLASSES,
    one_based: bool = True,
    difficult: bool = True,
    empty: bool = True,
    masks: PathLike | None = None,
    invalid: Invalid = "raise",
) -> Pipeline:
    """Pictures with the boxes of Pascal VOC's XML documents, in the bytewise order of the documents' names.

    `images`: a folder such as "VOCdevkit/VOC2012", with "JPEGImages" and "Annotations" in it; or the folder of the pictures, with
    `annotations` as that of the documents. `split`: "train" takes the documents that "ImageSets/Main/train.txt" names, in its order,
    "Segmentation/train" those of that list (of a folder such as VOC2012 only). `classes`: the names, of which a label is the index. `one_based`: VOC counts pixels from 1
    and names the last one that is inside, so that left and top become 1 less; False takes the numbers as they are.
    `difficult=False` leaves out objects that are marked so, `empty=False` pictures without a box.
    The documents are read once, when the pipeline is made; `.decode_image().boxes()` makes the objects follow the picture.
    Fields: `image` encoded; of each object `boxes` float32 (any, 4) of left, top, right, bottom in pixels, `labels` int64, `areas`
    float32 (of the box), `crowd` bool (False), `object_ids` int64 (its place in its document, from 1), `difficult` bool.

    `masks`: a folder for copies of the PNG files of "SegmentationObject" without their palette, which are the field `mask`, encoded: in
    each pixel the number of an object, 0 for none, 255 for a border. `mask_values` int64 has the number of each object. They are made
    where they are not there yet, of a folder such as VOC2012 only; `carya.detection.masks` takes them apart.

    A document that has a type declaration or an entity, or that names another document's picture, is an error. So are a class that
    is not listed, and boxes that are not four finite numbers or end before they begin; with `invalid="drop"` such objects are left
    out. A picture that is missing is an error when the pipeline is opened.
    Errors: NotFound (no such folder, file or document, no PNG file of a picture), InvalidArgument (no such XML or PNG, and the above;
    each names the document and the object by its number), IoError (a folder of masks that cannot be written).

    >>> import carya, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> box = "<bndbox><xmin>11</xmin><ymin>21</ymin><xmax>40</xmax><ymax>60</ymax></bndbox>"
    >>> found = f"<annotation><filename>a.jpg</filename><object><name>dog</name>{box}</object></annotation>"
    >>> size = (folder / "a.xml").write_text(found)
    >>> carya.voc("photos", folder).decode_image().boxes().outputs[1:3]
    [('boxes', 'float32', (1, 4)), ('labels', 'int64', (1,))]
    """
    folder = one_path("voc: images", images)
    drop = checked_invalid("voc", invalid)
    checked_flags("voc", one_based=one_based, difficult=difficult, empty=empty)
    numbers = class_numbers("voc", classes)
    fields, kept = dict(_FIELDS), None
    if masks is not None:
        if annotations is not None:
            raise _invalid(
                "voc: masks", masks, "it with a folder that has SegmentationObject in it, and no annotations"
            )
        fields["mask_values"] = (np.int64, ())
        kept = MaskPictures("voc", one_path("voc: masks", masks), drop)
    found = Annotations("voc", fields)
    seen: dict[str, str] = {}
    pictures, documents = _documents(folder, annotations, split)
    for path in documents:
        root = _parsed(path)
        name = below(pictures, _text(root, "filename"), f"voc: {path}: filename")
        if name in seen:
            raise InvalidArgument(
                f"voc: {path}: {seen[name]} has its picture {name}; give one document for each picture"
            )
        seen[name] = path
        objects = list(_objects(path, root, numbers, one_based, difficult, drop))
        if not objects and not empty:
            continue
        mask = None
        if kept is not None:
            stem = os.path.splitext(os.path.basename(path))[0]
            mask = kept.gray(os.path.join(folder, "SegmentationObject", f"{stem}.png"))
            for _, values in objects:
                values["mask_values"] = values["object_ids"] if values["object_ids"] < _BORDER else 0
        found.begin(name, mask)
        for box, values in objects:
            found.add(box, **values)
    return found.pipeline()


_invalid = invalid


def _documents(folder: str, annotations: PathLike | None, split: str | None) -> tuple[str, list[str]]:
    """The folder of the pictures, and the documents in their order."""
    if annotations is not None:
        if split is not None:
            raise _invalid("voc: split", split, "it with a folder that has ImageSets in it, and no annotations")
        pictures, written = folder, one_path("voc: annotations", annotations)
    else:
        pictures, written = os.path.join(folder, "JPEGImages"), os.path.join(folder, "Annotations")
    if split is not None:
        named = split if isinstance(split, str) and "/" in split else f"Main/{split}"
        listing = below(os.path.join(folder, "ImageSets"), f"{named}.txt", "voc: split")
        return pictures, [below(written, f"{name}.xml", f"voc: {listing}") for name in _listed(listing)]
    try:
        names = sorted((name for name in os.listdir(written) if name.lower().endswith(".xml")), key=os.fsencode)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"voc: {written}: no such folder; give that of the XML documents as annotations") from None
    if not names:
        raise NotFound(f"voc: {written}: no file that ends with .xml; give the folder of the XML documents")
    return pictures, [os.path.join(written, name) for name in names]


def _listed(path: str) -> Iterator[str]:
    data = whole_text("voc", path, _BYTES_MAX, "the name of a list in ImageSets/Main")
    seen: set[str] = set()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if len(words) > 1:
            raise _invalid(f"voc: {path}: line {number}", line, "a list with one name in a line, such as train or val")
        if words and words[0] in seen:
            raise InvalidArgument(f"voc: {path}: line {number}: {words[0]} is there twice; give each name once")
        seen.update(words)
        yield from words


class _Refused(Exception):
    """What a document of annotations does not need, and what could make it large or make it read other files."""


def _parsed(path: str) -> Element:
    """Errors: NotFound, InvalidArgument (no XML, another document, a type declaration)."""
    data = whole_text("voc", path, _BYTES_MAX, "XML documents of Pascal VOC")
    builder, parser, depth = TreeBuilder(), expat.ParserCreate(), 0

    def refuse(*_: Any) -> NoReturn:
        raise _Refused("a document type or an entity")

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEPTH_MAX:
            raise _Refused(f"more than {_DEPTH_MAX} elements in one another")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = parser.ExternalEntityRefHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    try:
        parser.Parse(data, True)
        root = builder.close()
    except _Refused as error:
        raise InvalidArgument(f"voc: {path}: {error}; give a plain document") from None
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two: of an encoding
        raise InvalidArgument(f"voc: {path}: {error}; give an XML document of Pascal VOC") from None
    if root.tag != "annotation":
        raise _invalid(f"voc: {path}: root", root.tag, "a document whose root is an annotation")
    return root


def _text(element: Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _objects(
    path: str, root: Element, numbers: dict[str, int], one_based: bool, difficult: bool, drop: bool
) -> Iterator[tuple[Any, dict[str, Any]]]:
    for place, element in enumerate(root.findall("object"), 1):
        where = f"voc: {path}: object {place}"
        try:
            hard = _flag(f"{where}: difficult", _text(element, "difficult"))
            if hard and not difficult:
                continue
            name = _text(element, "name")
            if name not in numbers:
                raise _invalid(f"{where}: name", name, "one of classes")
            box = _box(f"{where}: bndbox", element.find("bndbox"), one_based)
        except InvalidArgument:
            if not drop:
                raise
            continue
        area = (box[2] - box[0]) * (box[3] - box[1])
        yield box, {
            "labels": numbers[name], "areas": area, "crowd": False, "object_ids": place, "difficult": hard
        }  # fmt: skip


def _flag(where: str, given: str) -> bool:
    if given.lower() not in ("", "0", "1", "false", "true"):
        raise _invalid(where, given, "0 or 1")
    return given.lower() in ("1", "true")


def _box(where: str, element: Element | None, one_based: bool) -> tuple[float, float, float, float]:
    corners = [_text(element, name) if element is not None else "" for name in ("xmin", "ymin", "xmax", "ymax")]
    left, top, right, bottom = four_numbers(where, corners)
    return checked_box(where, (left - one_based, top - one_based, right, bottom))
