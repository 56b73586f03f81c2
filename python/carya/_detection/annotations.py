"""Objects of all pictures of a dataset: collected record by record, then a pipeline's arrays beside its files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .._errors import InvalidArgument, NotFound, invalid
from .._pipeline.arrays import Ragged
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import files

Array = np.ndarray[Any, Any]
_FAR = 1e9  # pixels; nothing is meant that lies farther away
Invalid = Literal["raise", "drop"]


class Annotations:
    """The objects of pictures, which are added in the order of the records. `fields`: what each object has beside its box:
    {name: (dtype, shape)}."""

    def __init__(self, kind: str, fields: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
        self._kind = kind
        self._fields = dict(fields)
        self._paths: list[str] = []
        self._masks: list[str] = []
        self._counts: list[int] = []
        self._boxes: list[Sequence[float]] = []
        self._values: dict[str, list[Any]] = {name: [] for name in fields}

    def begin(self, path: str, mask: str | None = None) -> None:
        """A picture; the objects that are added from here on are its own. `mask`: the picture of their numbers, of all or of none."""
        self._paths.append(path)
        if mask is not None:
            self._masks.append(mask)
        self._counts.append(0)

    def add(self, box: Sequence[float], **values: Any) -> None:
        """An object of the last picture."""
        self._boxes.append(box)
        self._counts[-1] += 1
        for name, given in values.items():
            self._values[name].append(given)

    def __len__(self) -> int:
        return len(self._paths)

    def pipeline(self) -> Pipeline:
        """Errors: InvalidArgument (no picture, no object in any)."""
        boxes = np.asarray(self._boxes, np.float32).reshape(-1, 4)
        values = {
            name: np.asarray(self._values[name], dtype).reshape(-1, *shape)
            for name, (dtype, shape) in self._fields.items()
        }
        return pictures(self._kind, self._paths, self._counts, {"boxes": boxes, **values}, self._masks)


def pictures(
    kind: str, paths: Sequence[str], counts: Sequence[int], fields: Mapping[str, Array], masks: Sequence[str] = ()
) -> Pipeline:
    """Pictures with `counts` objects each, of which `fields` have one row for each, one picture's behind the other's.
    `masks`: further pictures, one for each (none: no field `mask`).
    Errors: InvalidArgument (no picture, no object in any)."""
    if not paths:
        raise InvalidArgument(f"{kind}: no picture is left; give annotations of at least one")
    if not len(fields["boxes"]):
        raise InvalidArgument(f"{kind}: no picture has an object; use carya.files for pictures alone")
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    extra = {"mask": masks} if masks else None
    return files(paths, extra=extra, arrays={name: Ragged(values, offsets) for name, values in fields.items()})


def checked_flags(kind: str, **given: Any) -> None:
    """Errors: InvalidArgument (one that is neither True nor False)."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise invalid(f"{kind}: {name}", value, "True or False")


def class_numbers(kind: str, given: Sequence[str]) -> dict[str, int]:
    """The label of each name: its place in the list. Errors: InvalidArgument (no name, a name twice, a value that is no text)."""
    names = [given] if isinstance(given, str) else list(given)
    if not names or isinstance(given, str) or not all(isinstance(name, str) and name for name in names):
        raise invalid(f"{kind}: classes", given, "a list of names, of which each is no empty text")
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) < len(names):
        twice = next(name for number, name in enumerate(names) if numbers[name] != number)
        raise InvalidArgument(f"{kind}: classes: {twice!r} is there twice; give each class a name of its own")
    return numbers


def whole_text(kind: str, path: str, bytes_max: int, what: str) -> bytes:
    """A file of annotations. Errors: NotFound (no such file), InvalidArgument (a larger file, a folder)."""
    try:
        with open(path, "rb") as file:
            data = file.read(bytes_max + 1)
    except FileNotFoundError:
        raise NotFound(f"{kind}: {path}: no such file; give {what}") from None
    except IsADirectoryError:
        raise InvalidArgument(f"{kind}: {path}: it is a folder; give {what}") from None
    if len(data) > bytes_max:
        raise InvalidArgument(f"{kind}: {path}: more than {bytes_max} bytes; give {what}")
    return data


def checked_invalid(kind: str, given: Any) -> bool:
    """Whether what is wrong with an annotation leaves it out. Errors: InvalidArgument."""
    if given not in ("raise", "drop"):
        raise invalid(f"{kind}: invalid", given, '"raise" or "drop"')
    return bool(given == "drop")


def four_numbers(where: str, given: Any) -> tuple[float, float, float, float]:
    """Errors: InvalidArgument that names `where` (not four finite numbers)."""
    try:
        values = tuple(float(one) for one in given) if not isinstance(given, str | bytes) else ()
    except (TypeError, ValueError, OverflowError):
        values = ()
    if len(values) != 4 or not all(abs(one) < _FAR for one in values):  # also of NaN
        raise invalid(where, given, 'four finite numbers, or leave such objects out with invalid="drop"')
    return values


def checked_box(where: str, xyxy: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """Errors: InvalidArgument that names `where` (a box that ends before it begins)."""
    if xyxy[2] < xyxy[0] or xyxy[3] < xyxy[1]:
        left, top, right, bottom = (f"{one:g}" for one in xyxy)
        raise InvalidArgument(
            f"{where}: left {left}, top {top}, right {right}, bottom {bottom}; give a box that ends behind where it begins, or leave such "
            'objects out with invalid="drop"'
        )
    return xyxy


def below(folder: str, name: str, where: str) -> str:
    """The path of a picture in a folder. Errors: InvalidArgument (a name that leads out of it)."""
    if not isinstance(name, str) or not name or os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
        raise invalid(where, name, "the name of a file below the folder of pictures")
    return os.path.join(folder, name)
