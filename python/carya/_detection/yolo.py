"""Pictures with the objects of YOLO's text files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._errors import InvalidArgument, NotFound, invalid
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike, files_below, one_path
from .annotations import Annotations, Invalid, checked_flags, checked_invalid, whole_text

_FIELDS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "labels": (np.int64, ()),
    "areas": (np.float32, ()),
    "crowd": (np.bool_, ()),
    "object_ids": (np.int64, ()),
}
_PICTURES = (".jpg", ".jpeg", ".png")
_NAMES = "classes.txt"  # the names of the classes, which tools put beside the label files
_BYTES_MAX = 64 << 20  # of a label file
_BEYOND = 1e-3  # what rounding may put beyond the picture's border, in parts of its side


def yolo(images: PathLike, labels: PathLike, *, empty: bool = True, invalid: Invalid = "raise") -> Pipeline:
    """Pictures with the boxes of YOLO's text files, in the bytewise order of the pictures' paths.

    `images`: the folder of the pictures (".jpg", ".jpeg", ".png"; in folders in it too). `labels`: the folder of the text files, one
    for each picture, at the same place below it: "train/a.txt" of "train/a.jpg". A picture that has none has no object; `empty=False`
    leaves it out. A line is a class and a box, "3 0.5 0.5 0.2 0.1": centre, width and height in parts of the picture. A line of a class
    and three or more corners, "3 0.1 0.1 0.5 0.1 0.5 0.3", is an outline, and its box is what it spans.
    The files are read once, when the pipeline is made. The size of a picture is not known before it is decoded, so the boxes are
    in parts of it: `.decode_image().boxes(relative=True)` makes pixels of them, and makes the objects follow the picture.
    Fields: `image` encoded; of each object `boxes` float32 (any, 4) of left, top, right, bottom in parts of the picture, `labels`
    int64 (the class), `areas` float32 (of the box, in parts of the picture's area), `crowd` bool (False), `object_ids` int64 (its
    line, from 1).

    A text file of no picture, except "classes.txt", and two pictures of one text file are errors. So are lines that are neither of
    the above, and numbers that are not finite or not 0 to 1; with `invalid="drop"` such objects are left out.
    Errors: NotFound (no such folder, no picture), InvalidArgument (the above; each names the file and the line).

    >>> import carya, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> size = (folder / "a.jpg").write_bytes(b""), (folder / "a.txt").write_text("3 0.5 0.5 0.2 0.1")
    >>> carya.yolo(folder, folder).decode_image().boxes(relative=True).outputs[1:3]
    [('boxes', 'float32', (1, 4)), ('labels', 'int64', (1,))]
    """
    folder, written = one_path("yolo: images", images), one_path("yolo: labels", labels)
    drop = checked_invalid("yolo", invalid)
    checked_flags("yolo", empty=empty)
    pictures = _pictures(folder)
    texts = {os.path.relpath(path, written) for path in files_below(written) if path.lower().endswith(".txt")}
    if not texts:
        what = "no file that ends with .txt" if os.path.isdir(written) else "no such folder"
        raise NotFound(f"yolo: {written}: {what}; give the folder of the text files")
    left = sorted(text for text in texts - pictures.keys() if os.path.basename(text) != _NAMES)
    if left:
        raise InvalidArgument(
            f"yolo: {os.path.join(written, left[0])}: no picture in {folder} is called so; give its picture"
        )
    found = Annotations("yolo", _FIELDS)
    for text, picture in pictures.items():
        objects = list(_objects(os.path.join(written, text), drop)) if text in texts else []
        if objects or empty:
            found.begin(picture)
        for box, values in objects:
            found.add(box, **values)
    return found.pipeline()


_invalid = invalid


def _pictures(folder: str) -> dict[str, str]:
    """The pictures, by the name of their text file."""
    found = sorted((path for path in files_below(folder) if path.lower().endswith(_PICTURES)), key=os.fsencode)
    if not found:
        what = f"no file that ends with {', '.join(_PICTURES)}" if os.path.isdir(folder) else "no such folder"
        raise NotFound(f"yolo: {folder}: {what}; give the folder of the pictures")
    named: dict[str, str] = {}
    for path in found:
        text = os.path.splitext(os.path.relpath(path, folder))[0] + ".txt"
        if text in named:
            raise InvalidArgument(
                f"yolo: {path}: {named[text]} has its text file too; give pictures of different names"
            )
        named[text] = path
    return named


def _objects(path: str, drop: bool) -> Iterator[tuple[Any, dict[str, Any]]]:
    data = whole_text("yolo", path, _BYTES_MAX, "text files of YOLO")
    for number, line in enumerate(data.split(b"\n"), 1):
        words = line.split()
        if not words:
            continue
        try:
            label, (left, top, right, bottom) = _object(f"yolo: {path}: line {number}", line, words)
        except InvalidArgument:
            if not drop:
                raise
            continue
        area = (right - left) * (bottom - top)
        yield (left, top, right, bottom), {"labels": label, "areas": area, "crowd": False, "object_ids": number}


def _object(where: str, line: bytes, words: list[bytes]) -> tuple[int, tuple[float, float, float, float]]:
    try:
        label, values = int(words[0]), [float(word) for word in words[1:]]
    except ValueError:
        label, values = -1, []
    outline = len(values) >= 6 and len(values) % 2 == 0
    if not 0 <= label < 2**63 or not (len(values) == 4 or outline):
        shown = line.decode("utf-8", "replace").strip()
        raise _invalid(where, shown, "a class of 0 or more, and a box of four numbers or three corners or more")
    if not all(-_BEYOND <= value <= 1 + _BEYOND for value in values):  # also of NaN
        raise _invalid(where, values, 'numbers of 0 to 1, in parts of the picture, or use invalid="drop"')
    if outline:
        return label, (min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2]))
    x, y, width, height = values
    if width < 0 or height < 0:
        raise _invalid(where, values, 'a width and a height of 0 or more, or use invalid="drop"')
    return label, (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
