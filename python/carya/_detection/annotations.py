"""Objects of all pictures of a dataset: collected record by record, then a pipeline's arrays beside its files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .._errors import InvalidArgument, invalid
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
        self._counts: list[int] = []
        self._boxes: list[Sequence[float]] = []
        self._values: dict[str, list[Any]] = {name: [] for name in fields}

    def begin(self, path: str) -> None:
        """A picture; the objects that are added from here on are its own."""
        self._paths.append(path)
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
        if not self._paths:
            raise InvalidArgument(f"{self._kind}: no picture is left; give annotations of at least one")
        if not self._boxes:
            raise InvalidArgument(f"{self._kind}: no picture has an object; use carya.files for pictures alone")
        offsets = np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int64)
        arrays = {"boxes": Ragged(np.asarray(self._boxes, np.float32).reshape(-1, 4), offsets)}
        for name, (dtype, shape) in self._fields.items():
            arrays[name] = Ragged(np.asarray(self._values[name], dtype).reshape(-1, *shape), offsets)
        return files(self._paths, arrays=arrays)


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
        wanted = 'a box that ends behind where it begins, or leave such objects out with invalid="drop"'
        raise invalid(where, [f"{one:g}" for one in xyxy], wanted)
    return xyxy


def below(folder: str, name: str, where: str) -> str:
    """The path of a picture in a folder. Errors: InvalidArgument (a name that leads out of it)."""
    if not isinstance(name, str) or not name or os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
        raise invalid(where, name, "the name of a file below the folder of pictures")
    return os.path.join(folder, name)
