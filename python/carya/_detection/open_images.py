"""Pictures with the objects of a CSV file of Open Images."""

from __future__ import annotations

import array
import csv as csv_module
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument, NotFound, invalid
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike, one_path
from .annotations import (
    Invalid,
    below,
    checked_box,
    checked_flags,
    checked_invalid,
    class_numbers,
    four_numbers,
    pictures,
)

_COLUMNS = ("ImageID", "LabelName", "XMin", "YMin", "XMax", "YMax", "IsGroupOf")
_BEYOND = 1e-3  # what rounding may put beyond the picture's border, in parts of its side


def open_images(
    images: PathLike,
    csv: PathLike,
    *,
    classes: Sequence[str] | PathLike | None = None,
    crowd: bool = True,
    extension: str = ".jpg",
    invalid: Invalid = "raise",
) -> Pipeline:
    """Pictures with the boxes of a CSV file of Open Images, in the order in which the file first names them.

    `images`: the folder of the pictures, which are called as their "ImageID" with `extension`. `csv`: the file, such as
    "validation-annotations-bbox.csv"; its rows may be in any order. `classes`: label names ("/m/01g317"), of which a label is the index,
    or the file "class-descriptions-boxable.csv", whose first column has them; None takes those of `csv` in bytewise order, which may
    be others in another file. `crowd=False` leaves out boxes of groups ("IsGroupOf"), and pictures that have no others.
    The file is read once, when the pipeline is made. The size of a picture is not known before it is decoded, so the boxes are
    in parts of it: `.decode_image().boxes(relative=True)` makes pixels of them, and makes the objects follow the picture.
    Fields: `image` encoded; of each object `boxes` float32 (any, 4) of left, top, right, bottom in parts of the picture, `labels`
    int64, `areas` float32 (of the box, in parts of the picture's area), `crowd` bool, `object_ids` int64 (its line in the file; the
    line with the columns' names is 1).

    Rows of another number of values than there are columns are errors. So are a class that is not listed, numbers that are not finite or
    not 0 to 1, and boxes that end before they begin; with `invalid="drop"` such objects are left out. A picture that is missing is
    an error when the pipeline is opened.
    Errors: NotFound (no such file), InvalidArgument (no such CSV, and the above; each names the file and the line).

    >>> import carya, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "boxes.csv"
    >>> columns = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf"
    >>> size = name.write_text(f"{columns}\\n0001eeaf4aed83f9,/m/0cmf2,0.02,0.96,0.07,0.8,0\\n")
    >>> carya.open_images("photos", name).decode_image().boxes(relative=True).outputs[1:3]
    [('boxes', 'float32', (1, 4)), ('labels', 'int64', (1,))]
    """
    folder, path = one_path("open_images: images", images), one_path("open_images: csv", csv)
    drop = checked_invalid("open_images", invalid)
    checked_flags("open_images", crowd=crowd)
    if not isinstance(extension, str) or not extension.startswith(".") or "/" in extension:
        raise _invalid("open_images: extension", extension, 'the end of a file\'s name, such as ".jpg"')
    numbers = _classes(classes)
    listed, found = numbers is not None, {} if numbers is None else numbers
    rows = _Rows()
    of_name: dict[str, int] = {}
    for line, row in _read(path):
        where = f"open_images: {path}: line {line}"
        name = row[0]
        if name not in of_name:
            below(folder, name, f"{where}: ImageID")
        try:
            in_crowd = _flag(f"{where}: IsGroupOf", row[6])
            if in_crowd and not crowd:
                continue
            if not row[1] or (listed and row[1] not in found):
                raise _invalid(f"{where}: LabelName", row[1], "one of classes")
            box = _box(where, row[2:6])
        except InvalidArgument:
            if not drop:
                raise
            continue
        number = of_name.setdefault(name, len(of_name))
        rows.add(number, box, found.setdefault(row[1], len(found)), in_crowd, line)
    fields = rows.fields(None if listed else found)
    paths = [below(folder, name + extension, f"open_images: {path}") for name in of_name]
    return pictures("open_images", paths, rows.counts(len(paths)), fields)


_invalid = invalid


class _Rows:
    """The objects in the order of the file, in 50 bytes each: the training set has 14.6 million."""

    def __init__(self) -> None:
        self._pictures, self._labels, self._lines = array.array("q"), array.array("q"), array.array("q")
        self._boxes, self._crowd = array.array("f"), array.array("b")

    def add(self, picture: int, box: Sequence[float], label: int, crowd: bool, line: int) -> None:
        self._pictures.append(picture)
        self._boxes.extend(box)
        self._labels.append(label)
        self._crowd.append(crowd)
        self._lines.append(line)

    def counts(self, count: int) -> list[int]:
        listed: list[int] = np.bincount(np.asarray(self._pictures, np.int64), minlength=count).tolist()
        return listed

    def fields(self, found: dict[str, int] | None) -> dict[str, Any]:
        """The fields, picture by picture. `found`: the labels that names were given, which become their bytewise order."""
        order = np.argsort(np.asarray(self._pictures, np.int64), kind="stable")
        labels = np.asarray(self._labels, np.int64)
        if found:
            places = np.empty(len(found), np.int64)
            places[[found[name] for name in sorted(found, key=str.encode)]] = np.arange(len(found))
            labels = places[labels]
        boxes = np.asarray(self._boxes, np.float32).reshape(-1, 4)[order]
        return {
            "boxes": boxes,
            "labels": labels[order],
            "areas": (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]),
            "crowd": np.asarray(self._crowd, np.bool_)[order],
            "object_ids": np.asarray(self._lines, np.int64)[order],
        }


def _classes(given: Any) -> dict[str, int] | None:
    if given is None:
        return None
    try:
        path = one_path("open_images: classes", given)
    except InvalidArgument:  # no path, but names
        return class_numbers("open_images", given if hasattr(given, "__iter__") else [])
    names = [row[0] for _, row in _values(path) if row]
    if names and names[0] == "LabelName":
        names = names[1:]
    return class_numbers("open_images", names)


def _values(path: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file, each with the line on which it ends."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv_module.reader(file)
            for row in reader:
                yield reader.line_num, row
    except FileNotFoundError:
        raise NotFound(f"open_images: {path}: no such file; give a CSV file of Open Images") from None
    except (csv_module.Error, UnicodeDecodeError, IsADirectoryError) as error:
        raise InvalidArgument(f"open_images: {path}: {error}; give a CSV file of Open Images") from None


def _read(path: str) -> Iterator[tuple[int, list[str]]]:
    """The values of `_COLUMNS` of each row, and its line."""
    rows = _values(path)
    _, names = next(rows, (0, []))
    missing = [name for name in _COLUMNS if names.count(name) != 1]
    if missing:
        raise _invalid(f"open_images: {path}: columns", names, f"a file with one column {missing[0]}")
    places = [names.index(name) for name in _COLUMNS]
    for line, row in rows:
        if not row:
            continue
        if len(row) != len(names):
            raise _invalid(f"open_images: {path}: line {line}", f"{len(row)} values", f"one per column ({len(names)})")
        yield line, [row[place] for place in places]


def _flag(where: str, given: str) -> bool:
    if given not in ("0", "1", "-1"):
        raise _invalid(where, given, "0, 1, or -1 where it is not known")
    return given == "1"


def _box(where: str, given: Sequence[str]) -> tuple[float, float, float, float]:
    box = four_numbers(where, given)
    if not all(-_BEYOND <= value <= 1 + _BEYOND for value in box):
        raise _invalid(where, list(given), 'numbers of 0 to 1, in parts of the picture, or use invalid="drop"')
    return checked_box(where, box)
