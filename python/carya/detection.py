"""What detectors are trained against: anchors, and the target of each anchor. Functions of batches behind `boxes()`.

`RetinaNetTargets` and `SsdTargets` are for `Pipeline.map_batches` (in worker processes) or `map_batch` (in the trainer's).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._errors import InvalidArgument, invalid

__all__ = ["RetinaNetTargets", "SsdTargets", "default_boxes", "grid_anchors", "iou", "masks", "objects"]

Array = np.ndarray[Any, Any]
BACKGROUND, IGNORED = -1, -2


def objects(batch: Mapping[str, Any], count: str = "boxes_count", fields: Sequence[str] | None = None) -> list[Any]:
    """The objects of each picture of a batch without the padding: a list of dicts of arrays, views of the batch's own.

    `fields`: those with a row for each object; None takes all whose second side is that of `boxes`, such as `labels`.
    Errors: InvalidArgument (no such field).

    >>> import carya, numpy as np
    >>> batch = {"boxes": np.zeros((2, 5, 4)), "labels": np.ones((2, 5)), "boxes_count": np.array([1, 3])}
    >>> [one["labels"].tolist() for one in carya.detection.objects(batch)]
    [[1.0], [1.0, 1.0, 1.0]]
    """
    for name in (*(fields or ("boxes",)), count):
        if name not in batch:
            raise InvalidArgument(
                f"objects: no field {name!r} in the batch; give a batch behind .boxes() and count=, fields= of its fields"
            )
    names = fields
    if not names:
        most = np.shape(batch["boxes"])[1]
        names = [name for name in batch if np.ndim(batch[name]) > 1 and np.shape(batch[name])[1] == most]
    counts = np.asarray(batch[count])
    return [{name: batch[name][row][: int(n)] for name in names} for row, n in enumerate(counts)]


def masks(
    batch: Mapping[str, Any], mask: str = "mask", values: str = "mask_values", count: str = "boxes_count"
) -> list[Array]:
    """The pixels of each object of each picture of a batch: a list of bool arrays (objects, height, width), without the padding.

    `mask`: pictures of numbers of objects, uint8 (rows, height, width, 1) or (..., 3), such as `carya.coco(masks=)` gives; with 3
    channels a pixel has a number where all are equal. `values`: the number of each object, (rows, most); one of 0 has no pixel. A
    pixel belongs to one object, that in front, so that masks of one picture share none.
    Errors: InvalidArgument (no such field, another shape or dtype).

    >>> import carya, numpy as np
    >>> batch = {"mask": np.uint8([[[[0], [1], [2]]]]), "mask_values": np.array([[2, 0]]), "boxes_count": np.array([1])}
    >>> [one.tolist() for one in carya.detection.masks(batch)]
    [[[[False, False, True]]]]
    """
    for name in (mask, values, count):
        if name not in batch:
            raise InvalidArgument(
                f"masks: no field {name!r} in the batch; give the fields of carya.coco(masks=...).boxes()"
            )
    pictures, numbers, counts = (np.asarray(batch[name]) for name in (mask, values, count))
    if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[3] not in (1, 3):
        raise invalid(f"masks: {mask}", (str(pictures.dtype), pictures.shape), "uint8 (rows, height, width, 1 or 3)")
    if (
        numbers.ndim != 2
        or not len(numbers) == len(counts) == len(pictures)
        or counts.max(initial=0) > numbers.shape[1]
    ):
        raise invalid(f"masks: {values}", numbers.shape, f"{len(pictures)} rows, one number for each object")
    found = []
    for picture, row, many in zip(pictures, numbers, counts, strict=True):
        number = row[: int(many), None, None]
        first = picture[..., 0]
        if picture.shape[2] == 3:
            gray = (picture == first[..., None]).all(axis=2)
            first = np.where(gray, first, 0)
        found.append((first[None] == number) & (number != 0))
    return found


def iou(one: Array, other: Array) -> Array:
    """Intersection over union of each of (n, 4) with each of (m, 4) boxes: (n, m). Reference: torchvision.ops.box_iou."""
    left, top, right, bottom = np.ascontiguousarray(other.T)
    area = (right - left) * (bottom - top)
    shares: Array = np.zeros((len(one), len(other)), np.result_type(one, other))
    for row, box in zip(shares, one, strict=True):  # one at a time: what is between fits into the cache
        inside = np.maximum(np.minimum(right, box[2]) - np.maximum(left, box[0]), 0)
        inside *= np.maximum(np.minimum(bottom, box[3]) - np.maximum(top, box[1]), 0)
        whole = ((box[2] - box[0]) * (box[3] - box[1]) + area) - inside
        sound = whole > 0
        if sound.all():  # the quick way
            np.divide(inside, whole, out=row)
        else:
            np.divide(inside, whole, out=row, where=sound)
    return shares


def grid_anchors(
    size: tuple[int, int],
    levels: Sequence[tuple[int, int]],
    sizes: Sequence[Sequence[float]],
    ratios: Sequence[float] = (0.5, 1.0, 2.0),
) -> Array:
    """RetinaNet's anchors of a picture of `size` (height, width): (anchors, 4) float32, left, top, right, bottom.

    `levels`: height and width of each feature map; `sizes`: of the anchors of each; `ratios`: of height to width. Level by level,
    row by row; in each place all sizes of the first ratio come first.
    Reference: torchvision.models.detection.anchor_utils.AnchorGenerator; exact.
    """
    if len(levels) != len(sizes) or not levels:
        raise invalid("grid_anchors: sizes", len(sizes), f"one list for each of {len(levels)} levels")
    high = np.sqrt(_floats(ratios))
    wide = np.float32(1) / high
    anchors = []
    for (rows, columns), of_level in zip(levels, sizes, strict=True):
        widths = (wide[:, None] * _floats(of_level)[None, :]).ravel()
        heights = (high[:, None] * _floats(of_level)[None, :]).ravel()
        around = np.rint(np.stack([-widths, -heights, widths, heights], axis=1) / np.float32(2))
        y, x = np.mgrid[:rows, :columns].reshape(2, -1) * np.array([[size[0] // rows], [size[1] // columns]])
        places = np.stack([x, y, x, y], axis=1).astype(np.float32)
        anchors.append((places[:, None] + around[None]).reshape(-1, 4))
    return np.concatenate(anchors)


def default_boxes(
    size: tuple[int, int],
    levels: Sequence[tuple[int, int]],
    ratios: Sequence[Sequence[float]],
    scales: Sequence[float],
    steps: Sequence[int] | None = None,
    clip: bool = True,
) -> Array:
    """SSD's default boxes of a picture of `size` (height, width): (boxes, 4) float32, left, top, right, bottom in pixels.

    `ratios`: of each level; `scales`: one more than levels, in parts of the picture; `steps`: pixels between two places of each level
    (None: by the feature map). `clip`: sides of at most the picture's.
    Reference: torchvision.models.detection.anchor_utils.DefaultBoxGenerator; 1e-6 of the picture.
    """
    if not len(levels) == len(ratios) == len(scales) - 1 or (steps is not None and len(steps) != len(levels)):
        raise invalid("default_boxes: scales", len(scales), f"{len(levels) + 1}, and one entry of the others per level")
    height, width = size
    boxes = []
    for k, (rows, columns) in enumerate(levels):
        middle = math.sqrt(scales[k] * scales[k + 1])
        pairs = [(scales[k], scales[k]), (middle, middle)]
        for ratio in ratios[k]:
            long, short = scales[k] * math.sqrt(ratio), scales[k] / math.sqrt(ratio)
            pairs += [(long, short), (short, long)]
        sides = _floats(pairs)
        if clip:
            sides = sides.clip(0, 1)
        along_x, along_y = (columns, rows) if steps is None else (width / steps[k], height / steps[k])
        x, y = np.float32((np.arange(columns) + 0.5) / along_x), np.float32((np.arange(rows) + 0.5) / along_y)
        middles = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 1, 2)
        half = np.float32(0.5) * sides[None]
        both = np.concatenate([middles - half, middles + half], axis=2) * _floats([width, height] * 2)
        boxes.append(both.reshape(-1, 4))
    return np.concatenate(boxes)


def _floats(values: Any) -> Array:
    return np.asarray(values, np.float32)


class _Targets:
    """What an anchor is trained against."""

    def __init__(self, anchors: Array, weights: Sequence[float], high: float, low: float, names: Sequence[str]) -> None:
        self._who = type(self).__name__
        self.anchors = np.ascontiguousarray(anchors, np.float32)
        of_boxes = self.anchors.ndim == 2 and self.anchors.shape[1] == 4 and len(self.anchors) > 0
        if not of_boxes or not (self.anchors[:, 2:] > self.anchors[:, :2]).all():
            raise invalid(f"{self._who}: anchors", np.shape(anchors), "boxes (n, 4) of left, top, right, bottom")
        if not 0 < low <= high <= 1:
            raise invalid(f"{self._who}: low, high", (low, high), "0 < low <= high <= 1")
        self._weights = _floats(weights)
        self._high, self._low = high, low
        self._boxes, self._labels, self._count = names

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The batch with `matches` int64 (rows, anchors), `class_targets` int64 and `box_targets` float32 (..., 4) beside it.
        Errors: InvalidArgument (no such field)."""
        for name in (self._boxes, self._labels, self._count):
            if name not in batch:
                raise InvalidArgument(f"{self._who}: no field {name!r} in the batch; put .boxes() into the pipeline")
        rows = len(batch[self._boxes])
        made: dict[str, Any] = {
            "matches": np.empty((rows, len(self.anchors)), np.int64),
            "class_targets": np.empty((rows, len(self.anchors)), np.int64),
            "box_targets": np.zeros((rows, len(self.anchors), 4), np.float32),
        }
        for row in range(rows):
            count = int(batch[self._count][row])
            boxes = np.asarray(batch[self._boxes][row][:count], np.float32)
            matches = made["matches"][row] = self.match(boxes)
            found = matches >= 0
            made["class_targets"][row] = np.where(found, 0, matches)
            made["class_targets"][row][found] = np.asarray(batch[self._labels][row])[matches[found]]
            made["box_targets"][row][found] = self.encode(boxes[matches[found]], self.anchors[found])
        return {**batch, **made}

    def match(self, boxes: Array) -> Array:
        """The box of each anchor, by its index; -1: background; -2: between the thresholds."""
        if not len(boxes):
            return np.full(len(self.anchors), BACKGROUND, np.int64)
        overlaps = iou(boxes, self.anchors)
        best, most = np.zeros(len(self.anchors), np.int64), overlaps[0].copy()
        for number, row in enumerate(overlaps):
            best[row > most] = number
            np.maximum(most, row, out=most)
        matches = np.where(most >= self._high, best, np.where(most < self._low, BACKGROUND, IGNORED))
        self._force(matches, best, overlaps)
        return matches

    def _force(self, matches: Array, best: Array, overlaps: Array) -> None:
        """Give anchors to boxes that may have none."""
        raise NotImplementedError

    def encode(self, boxes: Array, anchors: Array) -> Array:
        """Faster R-CNN's code of boxes by their anchors: (n, 4). Boxes of no area have no finite code."""
        one, two = np.float32(0.5), self._weights
        of_anchor, of_box = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
        apart = (boxes[:, :2] + one * of_box) - (anchors[:, :2] + one * of_anchor)
        with np.errstate(divide="ignore"):
            return np.concatenate([two[:2] * apart / of_anchor, two[2:] * np.log(of_box / of_anchor)], axis=1)


class RetinaNetTargets(_Targets):
    """Targets of RetinaNet: adds `matches`, `class_targets` (int64) and `box_targets` (float32) of all anchors to a batch.

    `anchors`: such as `grid_anchors` gives. An anchor that overlaps a box by `high` or more has its label, by less than `low` is
    background (-1), between them it is ignored (-2); the anchors that overlap a box the most have a box in any case.
    `boxes`, `labels`, `count`: the fields.
    Reference: torchvision's RetinaNet (Matcher, BoxCoder); matches exact, codes 1e-6. Needs `sanitize_boxes` before it.

    >>> import carya, numpy as np
    >>> anchors = carya.detection.grid_anchors((64, 64), [(2, 2)], [(32,)], ratios=(1.0,))
    >>> batch = {"boxes": np.float32([[[20, 20, 40, 50]]]), "labels": np.array([[7]]), "boxes_count": np.array([1])}
    >>> carya.detection.RetinaNetTargets(anchors)(batch)["class_targets"].tolist()
    [[-1, -1, -1, 7]]
    """

    def __init__(
        self,
        anchors: Array,
        high: float = 0.5,
        low: float = 0.4,
        boxes: str = "boxes",
        labels: str = "labels",
        count: str = "boxes_count",
    ) -> None:
        super().__init__(anchors, (1, 1, 1, 1), high, low, (boxes, labels, count))

    def _force(self, matches: Array, best: Array, overlaps: Array) -> None:
        for row in overlaps:
            forced = row == row.max()
            matches[forced] = best[forced]


class SsdTargets(_Targets):
    """Targets of SSD: adds `matches`, `class_targets` (int64) and `box_targets` (float32) of all default boxes to a batch.

    `anchors`: such as `default_boxes` gives. One that overlaps a box by `threshold` or more has its label, others are background
    (-1); each box has the one that overlaps it the most.
    Reference: torchvision's SSD (SSDMatcher, BoxCoder); matches exact, codes 1e-5 (their weights are 10 and 5). Needs
    `sanitize_boxes` before it.

    >>> import carya, numpy as np
    >>> anchors = carya.detection.default_boxes((64, 64), [(2, 2)], [[]], [0.5, 0.7])
    >>> batch = {"boxes": np.float32([[[0, 0, 30, 32]]]), "labels": np.array([[7]]), "boxes_count": np.array([1])}
    >>> carya.detection.SsdTargets(anchors)(batch)["class_targets"].tolist()
    [[7, 7, -1, -1, -1, -1, -1, -1]]
    """

    def __init__(
        self,
        anchors: Array,
        threshold: float = 0.5,
        boxes: str = "boxes",
        labels: str = "labels",
        count: str = "boxes_count",
    ) -> None:
        super().__init__(anchors, (10, 10, 5, 5), threshold, threshold, (boxes, labels, count))

    def _force(self, matches: Array, best: Array, overlaps: Array) -> None:
        matches[overlaps.argmax(axis=1)] = np.arange(len(overlaps))
