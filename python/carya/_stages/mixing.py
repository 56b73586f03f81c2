"""`label`, and `one_hot`, `mixup`, `cutmix`, `mosaic`: operations on whole batches, whose groups do not depend on batches or ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid
from .stage import function_name

Array = np.ndarray[Any, Any]
# A generator for the epoch, the number of a group, and 0.
Numbers = Callable[[int, int, int], "np.random.Generator"]  # in quotes: numpy.random is loaded by who draws


class Labelled:
    """A sample with what a function says of it as its label."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    @property
    def __name__(self) -> str:
        return function_name(self.fn)

    def __call__(self, sample: Any) -> dict[str, Any]:
        return self.beside(sample, self.fn(sample))

    def beside(self, sample: Any, label: Any) -> dict[str, Any]:
        """Errors: InvalidArgument (the sample has no names)."""
        if not isinstance(sample, dict):
            raise InvalidArgument(
                f"label: fn: the sample is a {type(sample).__name__}; give a label to samples that are dicts, or use map"
            )
        return {**sample, "label": label}


class LabelledByNumbers(Labelled):
    """The same for a function that draws."""

    def __call__(self, sample: Any, *, rng: np.random.Generator) -> dict[str, Any]:  # type: ignore[override]
        return self.beside(sample, self.fn(sample, rng=rng))


class OneHot:
    """Class numbers as rows of `count` float32: 1 - smoothing + smoothing / count, and smoothing / count elsewhere."""

    def __init__(self, count: int, field: str, smoothing: float) -> None:
        self.count, self.field, self.smoothing = count, field, smoothing

    @property
    def __name__(self) -> str:
        return self.field

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Errors: InvalidArgument (no such field, what is no class number)."""
        return {**batch, self.field: self.rows("one_hot", _column("one_hot", batch, self.field))}

    def rows(self, who: str, labels: Array) -> Array:
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise InvalidArgument(
                f"{who}: {self.field}: got {labels.dtype} {labels.shape[1:]}; give one class number per sample"
            )
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < self.count:
            raise InvalidArgument(
                f"{who}: {self.field}: got classes {labels.min()} to {labels.max()}; give num_classes= of at least {int(labels.max()) + 1}, "
                "and numbers of 0 or more"
            )
        made = np.full((len(labels), self.count), self.smoothing / self.count, np.float32)
        made[np.arange(len(labels)), labels] = 1 - self.smoothing + self.smoothing / self.count
        return made


class Mixing:
    """Each sample with the one before it in its group, the first with the last. `cut`: a rectangle of it (cutmix), else a weighted
    sum (mixup). Groups are `group` positions of the epoch, each with numbers of its own. `cutmix`: its alpha, where groups of a mixup
    are cut in place of it with probability `switch`; not set where they are not, so that it is in no identity."""

    cutmix: float | None = None
    switch: float = 0.0

    def __init__(self, cut: bool, alpha: float, p: float, group: int, image: str, labels: OneHot | str) -> None:
        self.cut, self.alpha, self.p, self.group, self.image, self.labels = cut, alpha, p, group, image, labels
        self.who = "cutmix" if cut else "mixup"

    @property
    def __name__(self) -> str:
        return self.image

    def __call__(
        self, batch: dict[str, Any], place: tuple[int, int, int], numbers: Numbers, count: int
    ) -> dict[str, Any]:
        """`place`: epoch and first position of the batch, of which `count` rows are samples. Errors: InvalidArgument (fields; a batch that cuts through a group)."""
        images = _column(self.who, batch, self.image)
        name = self.labels if isinstance(self.labels, str) else self.labels.field
        labels = _column(self.who, batch, name)
        if not isinstance(self.labels, str) and labels.ndim == 1:
            labels = self.labels.rows(self.who, labels)
        if labels.dtype.kind != "f" or labels.ndim != 2:
            raise InvalidArgument(
                f"{self.who}: {name}: got {labels.dtype} {labels.shape[1:]}; give num_classes=, or call .one_hot(...) before it"
            )
        if images.ndim != 4 or (not self.cut and images.dtype.kind != "f"):
            wanted = (
                "pictures" if self.cut else "pictures of floats: .normalize(...) or .to_dtype(...) before .batch(...)"
            )
            raise InvalidArgument(f"{self.who}: {self.image}: got {images.dtype} {images.shape[1:]}; give {wanted}")
        epoch, first, _ = place
        self.check(first)
        images, labels = images.copy(), labels.copy()
        for begin in range(0, count, self.group):
            rows = slice(begin, min(begin + self.group, count))
            rng = numbers(epoch, (first + begin) // self.group, 0)
            if rng.random() < self.p and rows.stop - rows.start > 1:
                self._mix(images[rows], labels[rows], rng)
        return {**batch, self.image: images, name: labels}

    def check(self, first: int) -> None:
        """Errors: InvalidArgument, where a batch that begins at position `first` cuts through a group."""
        if first % self.group:
            raise InvalidArgument(
                f"{self.who}: group: a batch of this rank begins at position {first}, inside of a group of {self.group}; give a batch size "
                f"per rank that is a multiple of {self.group}, and drop_last=True where the last step is shared by several ranks"
            )

    def _mix(self, images: Array, labels: Array, rng: np.random.Generator) -> None:
        cut = self.cut or (self.cutmix is not None and rng.random() < self.switch)
        alpha = self.cutmix if cut and self.cutmix is not None else self.alpha
        kept = rng.beta(alpha, alpha)
        others = np.roll(images, 1, 0)
        if cut:
            height, width = _sides(images.shape[1:])
            top, bottom = _span(height, kept, rng)
            left, right = _span(width, kept, rng)
            here = (slice(None), slice(top, bottom), slice(left, right))
            if _channels_first(images.shape[1:]):
                here = (slice(None), slice(None), *here[1:])  # type: ignore[assignment]
            images[here] = others[here]
            kept = 1 - (bottom - top) * (right - left) / (height * width)
        else:
            share = images.dtype.type(kept)
            images *= share
            images += others * (1 - share)
        share = labels.dtype.type(kept)
        labels[:] = labels * share + np.roll(labels, 1, 0) * (1 - share)


class Mosaic(Mixing):
    """Each picture in one quarter of a canvas of its size, about a drawn point; the next three of its group in the others.

    Boxes go with their pictures and are cut off at the edges of their quarter; of those that are left with less than `kept` of
    their area nothing stays. `rows`: fields that have one row for each box.
    """

    who = "mosaic"

    def __init__(self, p: float, kept: float, image: str, boxes: str, rows: tuple[str, ...]) -> None:
        self.p, self.group, self.kept, self.image, self.boxes, self.rows = p, 4, kept, image, boxes, rows

    def __call__(
        self, batch: dict[str, Any], place: tuple[int, int, int], numbers: Numbers, count: int
    ) -> dict[str, Any]:
        """Boxes become four times as many rows as they were. Errors: InvalidArgument (fields; a batch that cuts through a group)."""
        images, boxes = _column(self.who, batch, self.image), _column(self.who, batch, self.boxes)
        counts = _column(self.who, batch, f"{self.boxes}_count")
        if images.ndim != 4 or boxes.ndim != 3 or boxes.shape[2] != 4:
            raise InvalidArgument(
                f"mosaic: got pictures of {images.shape[1:]} and boxes of {boxes.shape[1:]}; resize pictures to one size, and call "
                ".boxes() before .batch(...)"
            )
        self._check_left_behind(batch, images, boxes, counts)
        epoch, first, _ = place
        self.check(first)
        rows = {name: np.asarray(batch[name]) for name in (*self.rows, self.boxes) if name in batch}
        made = {
            name: np.zeros((len(each), 4 * each.shape[1], *each.shape[2:]), each.dtype) for name, each in rows.items()
        }
        pictures, left = images.copy(), np.zeros_like(counts)
        for begin in range(0, len(images), self.group):
            here = range(begin, min(begin + self.group, len(images)))
            rng = numbers(epoch, (first + begin) // self.group, 0)
            drawn = rng.random() < self.p and here.stop <= count and len(here) == self.group
            points = rng.uniform(0.25, 0.75, (self.group, 2))
            for row in here:
                if drawn:
                    others = [begin + (row - begin + turn) % self.group for turn in range(self.group)]
                    found = self._put_together(pictures[row], images, boxes, counts, others, points[row - begin])
                else:
                    found = [(row, at, boxes[row, at]) for at in range(int(counts[row]))]
                left[row] = len(found)
                for at, (of, box, moved) in enumerate(found):
                    for name, each in made.items():
                        each[row, at] = moved if name == self.boxes else rows[name][of, box]
        return {**batch, **made, self.image: pictures, f"{self.boxes}_count": left}

    def _check_left_behind(self, batch: dict[str, Any], images: Array, boxes: Array, counts: Array) -> None:
        """Errors: InvalidArgument (a picture beside the pictures, or rows beside the boxes, that would be those of before)."""
        known = {self.image, self.boxes, *self.rows}
        none = np.arange(boxes.shape[1]) >= counts[:, None]  # of each picture, the places without a box
        for name, given in batch.items():
            if name in known or not isinstance(given, np.ndarray):
                continue
            sides = given.shape
            if len(sides) == 4 and _sides(sides[1:]) == _sides(images.shape[1:]):
                raise InvalidArgument(
                    f"mosaic: {name} is a picture beside {self.image}, and does not follow; make the pipeline without it, or leave it out "
                    "before .batch (.map)"
                )
            # Numbers of that size that are no rows of boxes, such as (height, width) beside two, are no zeros where there is no box.
            if sides[1:2] == boxes.shape[1:2] and (len(sides) > 2 or (none.any() and not given[none].any())):
                raise InvalidArgument(
                    f"mosaic: {name} has a row for each of {boxes.shape[1]} boxes, and is not in rows=; name it there, or where it has "
                    "places in the picture, as key points, leave it out before .batch (.map)"
                )

    def _put_together(
        self, canvas: Array, images: Array, boxes: Array, counts: Array, others: list[int], point: Array
    ) -> list[tuple[int, int, Array]]:
        """Write four pictures into `canvas`; the boxes that are left: the picture, the place in it, and where it is now."""
        first = _channels_first(canvas.shape)
        height, width = _sides(canvas.shape)
        middle, centre = round(float(point[0]) * height), round(float(point[1]) * width)
        found = []
        for quarter, of in enumerate(others):
            # A quarter has the corner of its picture that lies at the point: above and left of it the lower right one.
            top, bottom = (0, middle) if quarter < 2 else (middle, height)
            left, right = (0, centre) if quarter % 2 == 0 else (centre, width)
            down, across = middle - height if quarter < 2 else middle, centre - width if quarter % 2 == 0 else centre
            there = (slice(top - down, bottom - down), slice(left - across, right - across))
            here = (slice(top, bottom), slice(left, right))
            if first:
                canvas[:, here[0], here[1]] = images[of][:, there[0], there[1]]
            else:
                canvas[here] = images[of][there]
            edges = np.array([left, top, right, bottom], boxes.dtype)
            for at in range(int(counts[of])):
                moved = boxes[of, at] + np.array([across, down, across, down], boxes.dtype)
                cut = np.concatenate([np.maximum(moved[:2], edges[:2]), np.minimum(moved[2:], edges[2:])])
                if (cut[2:] > cut[:2]).all() and _area(cut) >= self.kept * _area(moved):
                    found.append((of, at, cut))
        return found


def _area(box: Array) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))


def _span(side: int, kept: float, rng: np.random.Generator) -> tuple[int, int]:
    """Of a rectangle whose sides are sqrt(1 - kept) of the picture's, cut off at its edges, about a point of it."""
    middle, half = int(rng.integers(side)), int(side * np.sqrt(1 - kept) / 2)
    return max(0, middle - half), min(side, middle + half)


def _channels_first(shape: tuple[int, ...]) -> bool:
    return shape[0] in (1, 3, 4) or shape[2] not in (1, 3, 4)


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[1:] if _channels_first(shape) else shape[:2]  # type: ignore[return-value]


def _column(who: str, batch: Any, name: str) -> Array:
    if not isinstance(batch, dict) or name not in batch:
        have = tuple(batch) if isinstance(batch, dict) else type(batch).__name__
        raise InvalidArgument(f"{who}: the batch has no {name!r}; give the name of one of {have}")
    return np.asarray(batch[name])


def checked_one_hot(num_classes: Any, field: Any, smoothing: Any, who: str = "one_hot") -> OneHot:
    """Errors: InvalidArgument that names the parameter."""
    if not isinstance(num_classes, int) or isinstance(num_classes, bool) or num_classes < 1:
        raise invalid(f"{who}: num_classes", num_classes, "an integer of 1 or more")
    if not isinstance(field, str) or not field:
        raise invalid(f"{who}: label", field, "the name of a field")
    return OneHot(num_classes, field, _share(f"{who}: smoothing", smoothing))


def checked_mixing(who: str, alpha: Any, p: Any, group: Any, image: Any, label: Any, num_classes: Any) -> Mixing:
    """Errors: InvalidArgument that names the parameter."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1e6:
        raise invalid(f"{who}: alpha", alpha, "a number of more than 0")
    if not isinstance(group, int) or isinstance(group, bool) or group < 2:
        raise invalid(f"{who}: group", group, "an integer of 2 or more")
    for name, field in (("image", image), ("label", label)):
        if not isinstance(field, str) or not field:
            raise invalid(f"{who}: {name}", field, "the name of a field")
    labels: OneHot | str = label if num_classes is None else checked_one_hot(num_classes, label, 0.0, who)
    return Mixing(who == "cutmix", float(alpha), _share(f"{who}: p", p), group, image, labels)


def checked_mosaic(p: Any, min_kept: Any, image: Any, boxes: Any, rows: Any) -> Mosaic:
    """Errors: InvalidArgument that names the parameter."""
    for name, field in (("image", image), ("boxes", boxes)):
        if not isinstance(field, str) or not field:
            raise invalid(f"mosaic: {name}", field, "the name of a field")
    listed = tuple(rows) if isinstance(rows, tuple | list) else ()
    if not isinstance(rows, tuple | list) or not all(isinstance(one, str) and one for one in listed):
        raise invalid("mosaic: rows", rows, "names of fields with one row for each box")
    return Mosaic(_share("mosaic: p", p), _share("mosaic: min_kept", min_kept), image, boxes, listed)


def also_cut(mixing: Mixing, cutmix: Any, switch: Any) -> Mixing:
    """A mixup that is a cutmix for some groups. Errors: InvalidArgument that names the parameter."""
    if isinstance(cutmix, bool) or not isinstance(cutmix, int | float) or not 0 < cutmix < 1e6:
        raise invalid("mixup: cutmix", cutmix, "alpha of cutmix, a number of more than 0, or None")
    mixing.cutmix, mixing.switch = float(cutmix), _share("mixup: switch", switch)
    return mixing


def _share(subject: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise invalid(subject, value, "a number of 0 to 1")
    return float(value)
