"""The operations of a pipeline that turn, shift, stretch and shear, and those of detection, which know boxes.

Names, defaults and meaning are torchvision's.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._errors import invalid
from .document import filled, pair, plain

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .order import OrderHints

Array = np.ndarray[Any, Any]
WarpInterpolation = Literal["nearest", "bilinear"]
ResizeInterpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]


def warn_of_what_is_rarely_meant(
    op: str, parameters: Mapping[str, Any], before: Sequence[Mapping[str, Any]], extra: Collection[str]
) -> None:
    """Boxes of the files' pictures behind what has moved the pixels, and a mask whose numbers a resize would mix.

    Both may be meant, and give wrong labels in silence where they are not. `before`: the operations so far; `extra`: fields of images
    beside the main one. Called by what a method of an operation calls.
    """
    if op == "boxes":
        from .._stages.native import MOVES, RESIZES

        harmless = RESIZES if parameters["relative"] else frozenset()
        moved = next((one["op"] for one in before if one["op"] in MOVES - harmless), None)
        if moved is not None:
            warnings.warn(
                f"boxes: it stands behind {moved}, so that the boxes are taken as those of a picture which has been through it; "
                "where they are those of the files' pictures, put .boxes() right behind .decode_image()",
                RuntimeWarning, stacklevel=4,
            )  # fmt: skip
    how = parameters.get("interpolation", "bilinear")
    if how != "nearest" and parameters.get("extra_interpolation", how) is None:
        mask = next((name for name in extra if "mask" in name.lower()), None)
        if mask is not None:
            warnings.warn(
                f'{op}: {mask} is resized as the picture is, by "{how}", which makes numbers between those of two classes; give '
                f'extra_interpolation="nearest", or "{how}" where that is meant',
                RuntimeWarning, stacklevel=4,
            )  # fmt: skip


def check_units_of_boxes(parameters: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Errors: InvalidArgument for boxes of memory that are in parts of the picture's sides and told to be in pixels, or the other way
    round. `parameters`: those of `boxes`; `arrays`: those of the source, by field."""
    known = arrays.get(parameters["field"])
    if known is None or known.dtype.kind != "f" or known.shape[-1:] != (4,):
        return
    values = known.reshape(-1, 4)
    if not values.any():
        return
    if parameters["relative"] and np.mean(values[values.any(axis=1), 2:] > 2) > 0.5:
        raise invalid(
            "boxes: relative",
            True,
            f"False: the boxes of {parameters['field']!r} reach {np.nanmax(values):g}, so that they are in pixels",
        )
    if not parameters["relative"] and values.min() >= 0 and values.max() <= 1:
        raise invalid(
            "boxes: relative", False,
            f"True: all boxes of {parameters['field']!r} are within 0 to 1, in parts of the picture's sides, as carya.yolo and "
            "carya.open_images have them",
        )  # fmt: skip


def _taken(
    interpolation: WarpInterpolation,
    extra_interpolation: WarpInterpolation | None,
    center: Sequence[float] | None,
    fill: int | Sequence[int],
    extra_fill: int | Sequence[int] | None,
) -> dict[str, Any]:
    """How all of them take their pixels."""
    return {
        "interpolation": interpolation,
        "extra_interpolation": extra_interpolation,
        "center": plain(center),
        **filled(fill, extra_fill),
    }


class WarpOps:
    """Methods that append an operation which takes the pixels of uint8 (height, width, channels) images, or of such
    cast to float32, from elsewhere.

    Shape and dtype stay. All images of a sample move alike, by one draw; extra images take their pixels by
    `extra_interpolation` (None: as the main image; give "nearest" for masks when that is "bilinear"). `center`:
    (x, y) in pixels from the upper left corner; None is the middle. `fill`, one value 0..255 or one per channel,
    is what comes from outside the image, `extra_fill` what does in extra images (None: as the main image; give 0 for masks).
    Every channel is treated alike, an alpha channel too.

    Reference: torchvision on PIL images. "nearest" takes the same pixels as Pillow for 99.9 % of them, "bilinear" is
    within 1 level of it but where the border of the fill falls between two pixels.
    """

    def _with_op(self, op: str, order: OrderHints, **parameters: Any) -> Self:
        raise NotImplementedError

    def rotate(
        self,
        angle: float,
        interpolation: WarpInterpolation = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: int | Sequence[int] = 0,
        extra_interpolation: WarpInterpolation | None = None,
        extra_fill: int | Sequence[int] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Turn by `angle` degrees, counter-clockwise.

        Shape and dtype stay; `expand=True` is refused (`pad` before it to keep the corners).
        Errors: InvalidArgument (angle beyond 36,000, expand, fill of another number of channels).
        Reference: torchvision.transforms.v2.functional.rotate.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().rotate(30, interpolation="bilinear").outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op(
            "rotate",
            order,
            angle=plain(angle),
            expand=plain(expand),
            **_taken(interpolation, extra_interpolation, center, fill, extra_fill),
        )

    def random_rotation(
        self,
        degrees: float | Sequence[float],
        interpolation: WarpInterpolation = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: int | Sequence[int] = 0,
        extra_interpolation: WarpInterpolation | None = None,
        extra_fill: int | Sequence[int] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Turn by an angle uniform in `degrees`: (low, high), or x for (-x, x); counter-clockwise.

        Shape and dtype stay; `expand=True` is refused. Errors: InvalidArgument.
        Reference: torchvision.transforms.v2.RandomRotation; own random numbers.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().random_rotation(15).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op(
            "random_rotation",
            order,
            degrees=plain(degrees),
            expand=plain(expand),
            **_taken(interpolation, extra_interpolation, center, fill, extra_fill),
        )

    def affine(
        self,
        angle: float,
        translate: Sequence[float],
        scale: float,
        shear: float | Sequence[float],
        interpolation: WarpInterpolation = "nearest",
        fill: int | Sequence[int] = 0,
        center: Sequence[float] | None = None,
        extra_interpolation: WarpInterpolation | None = None,
        extra_fill: int | Sequence[int] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Turn clockwise by `angle` degrees, stretch by `scale`, shear, and then shift by `translate` (x, y) pixels.

        Shape and dtype stay. `shear`: degrees along x, or along (x, y), each within -89..89; `scale`: 0.001 to 1000.
        Errors: InvalidArgument. Reference: torchvision.transforms.v2.functional.affine.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().affine(10, (5, -3), 1.2, (4, 0)).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op(
            "affine",
            order,
            angle=plain(angle),
            translate=plain(translate),
            scale=plain(scale),
            shear=plain(shear),
            **_taken(interpolation, extra_interpolation, center, fill, extra_fill),
        )

    def random_affine(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: WarpInterpolation = "nearest",
        fill: int | Sequence[int] = 0,
        center: Sequence[float] | None = None,
        extra_interpolation: WarpInterpolation | None = None,
        extra_fill: int | Sequence[int] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """`affine` by random numbers, each uniform in its range.

        Shape and dtype stay. `degrees`: (low, high), or x for (-x, x). `translate`: the most, as parts (0..1) of
        (width, height); whole pixels. `scale`: (low, high). `shear`: x for (-x, x) along x, (low, high) along x, or
        (low, high, low, high) along x and y. None leaves it out. Errors: InvalidArgument.
        Reference: torchvision.transforms.v2.RandomAffine; own random numbers.

        >>> import carya
        >>> photos = carya.image_folder("photos").decode_image()
        >>> photos.random_affine(10, translate=(0.1, 0.1), scale=(0.9, 1.1), shear=5).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op(
            "random_affine",
            order,
            degrees=plain(degrees),
            translate=plain(translate),
            scale=plain(scale),
            shear=plain(shear),
            **_taken(interpolation, extra_interpolation, center, fill, extra_fill),
        )


class BoxOps:
    """Methods that append an operation of object detection.

    `boxes` tells which fields are boxes, labels and key points. From there on they follow every operation that moves pixels, by
    the same draws as the picture: flips, crops, `resize`, `pad`, the warps, and those below. Images beside `image`, such as
    masks, follow too: give them `extra_interpolation="nearest"`.

    Reference: torchvision v2 on `tv_tensors`: boxes within 0.01 pixel of it for the same windows and angles.
    """

    def _with_op(self, op: str, order: OrderHints, **parameters: Any) -> Self:
        raise NotImplementedError

    def boxes(
        self,
        max_objects: int | None = None,
        format: Literal["xyxy", "xywh", "cxcywh"] = "xyxy",
        relative: bool = False,
        field: str = "boxes",
        rows: str | Sequence[str] | None = None,
        key_points: str | None = None,
        flip_pairs: Sequence[Sequence[int]] | None = None,
        count: str | None = None,
        invalid: Literal["raise", "drop"] = "raise",
        truncate: bool = False,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Make boxes of a field, which follow the picture from here on. Behind `decode_image`, once in a pipeline.

        Shape: `field` (any, 4) float32 in `format`, in pixels, or in parts of the picture's sides if `relative` ->
        (max_objects, 4) float32 of left, top, right, bottom in pixels. `rows`: fields with one row for each box, such as labels;
        None means all such fields of `carya.files(arrays=)`, and none of what a function returns, where they are named, as is
        `max_objects` where numbers differ; they become (max_objects, ...). `key_points`: a field (any, points,
        3) float32 of x, y and visibility, of which `flip_pairs` change places in a picture that is mirrored left to right; a point
        that leaves the picture has visibility 0. What lies behind the objects is 0; a field `boxes_count` (NAME_count; int64)
        says how many there are. `max_objects`: None is the most of any record. `count`: a field that says how many rows there
        are where they are padded already; it stays in place of `boxes_count`.

        A box that is not finite, ends before it begins or lies beside the picture makes the record bad data (`on_error`), or
        is left out with `invalid="drop"`; what reaches over the border is cut off. More than `max_objects` are bad data, unless
        `truncate` keeps the first ones.
        Errors: InvalidArgument (no such field, another dtype or shape; boxes that are all within 0 to 1 without `relative`, or
        in pixels with it).

        >>> import carya, numpy as np
        >>> found = {"boxes": [np.float32([[0, 0, 9, 9]]), np.zeros((0, 4), np.float32)], "labels": [[3], []]}
        >>> p = carya.files(["a.jpg", "b.jpg"], arrays=found).decode_image().boxes()
        >>> p.outputs[1:]
        [('boxes', 'float32', (1, 4)), ('labels', 'float64', (1,)), ('boxes_count', 'int64', ())]
        """
        return self._with_op(
            "boxes",
            order,
            format=format,
            relative=relative,
            max_objects=plain(max_objects),
            truncate=truncate,
            invalid=invalid,
            field=field,
            rows=_names(rows),
            key_points=_names(key_points),
            flip_pairs=plain(flip_pairs),
            count=_names(count),
        )

    def sanitize_boxes(self, min_size: float = 1.0, min_area: float = 1.0, **order: Unpack[OrderHints]) -> Self:
        """Leave out objects whose box is narrower or lower than `min_size` pixels, or smaller than `min_area` square pixels.

        Shape: stays; `boxes_count` says how many objects are left. Boxes of which a crop left nothing stay until here.
        Errors: InvalidArgument (no `boxes` before). Reference: torchvision.transforms.v2.SanitizeBoundingBoxes.

        >>> import carya, numpy as np
        >>> found = {"boxes": [np.float32([[0, 0, 9, 9]])]}
        >>> carya.files(["a.jpg"], arrays=found).decode_image().boxes().sanitize_boxes().outputs[1]
        ('boxes', 'float32', (1, 4))
        """
        return self._with_op("sanitize_boxes", order, min_size=plain(min_size), min_area=plain(min_area))

    def random_iou_crop(
        self,
        scale: Sequence[float] = (0.3, 1.0),
        ratio: Sequence[float] = (0.5, 2.0),
        overlaps: Sequence[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
        trials: int = 40,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Cut a window that overlaps a box by one of `overlaps`, as for SSD; 1 or more leaves the picture as it is.

        Shape: (h, w, c) -> any size. The window's sides are `scale` of the picture's, its width is `ratio` of its height, the
        centre of a box is in it, and of one of those the intersection over union with the window is at least the overlap that
        was drawn; after `trials` windows another overlap is drawn. Objects whose centre is outside are left out.
        A picture without objects stays as it is.
        Errors: InvalidArgument (no `boxes` before). Reference: torchvision.transforms.v2.RandomIoUCrop, own random numbers.

        >>> import carya, numpy as np
        >>> found = {"boxes": [np.float32([[0, 0, 9, 9]])]}
        >>> p = carya.files(["a.jpg"], arrays=found).decode_image().boxes().random_iou_crop().resize((300, 300))
        >>> p.outputs[0]
        ('image', 'uint8', (300, 300, 3))
        """
        return self._with_op(
            "random_iou_crop",
            order,
            scale=plain(scale),
            ratio=plain(ratio),
            overlaps=plain(overlaps),
            trials=plain(trials),
        )

    def random_zoom_out(
        self,
        fill: int | Sequence[int] = 0,
        side_range: Sequence[float] = (1.0, 4.0),
        p: float = 0.5,
        extra_fill: int | Sequence[int] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Put the picture at a random place on a canvas of `fill` whose sides are longer by a factor of `side_range`.

        Shape: (h, w, c) -> any size. `fill`: one value 0..255, or one per channel; `extra_fill`: that of extra images (None: as
        the main image; give 0 for masks). With probability `p`.
        Errors: InvalidArgument. Reference: torchvision.transforms.v2.RandomZoomOut, own random numbers.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().random_zoom_out(fill=(123, 117, 104)).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op(
            "random_zoom_out", order, **filled(fill, extra_fill), side_range=plain(side_range), p=plain(p)
        )

    def random_shortest_size(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: ResizeInterpolation = "bilinear",
        antialias: bool = True,
        extra_interpolation: ResizeInterpolation | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Resize so that the shorter side has one of the lengths `min_size`, and the longer one at most `max_size`.

        Shape: (h, w, c) -> any size; `crop(0, 0, height, width)` behind it pads to one size at the right and at the bottom.
        Errors: InvalidArgument. Reference: torchvision.transforms.v2.RandomShortestSize, own random numbers.

        >>> import carya
        >>> photos = carya.image_folder("photos").decode_image().random_shortest_size([480, 512, 544], max_size=800)
        >>> photos.crop(0, 0, 800, 800).outputs[0]
        ('image', 'uint8', (800, 800, 3))
        """
        return self._with_op(
            "random_shortest_size",
            order,
            min_size=_numbers(min_size),
            max_size=plain(max_size),
            interpolation=interpolation,
            antialias=antialias,
            extra_interpolation=extra_interpolation,
        )

    def scale_jitter(
        self,
        target_size: int | Sequence[int],
        scale_range: Sequence[float] = (0.1, 2.0),
        interpolation: ResizeInterpolation = "bilinear",
        antialias: bool = True,
        extra_interpolation: ResizeInterpolation | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Resize to a share of `scale_range` of the size at which the picture just fits into `target_size` (height, width).

        Shape: (h, w, c) -> any size; `random_crop(size, pad_if_needed=True)` behind it makes one size of all.
        Errors: InvalidArgument. Reference: torchvision.transforms.v2.ScaleJitter for square targets, own random numbers.

        >>> import carya
        >>> photos = carya.image_folder("photos").decode_image().scale_jitter(1024)
        >>> photos.random_crop(1024, pad_if_needed=True).outputs[0]
        ('image', 'uint8', (1024, 1024, 3))
        """
        return self._with_op(
            "scale_jitter",
            order,
            target_size=pair(target_size),
            scale_range=plain(scale_range),
            interpolation=interpolation,
            antialias=antialias,
            extra_interpolation=extra_interpolation,
        )


def _names(given: Any) -> Any:
    """One name as a list of one."""
    return [given] if isinstance(given, str) else plain(given)


def _numbers(given: Any) -> Any:
    """One number as a list of one."""
    value = plain(given)
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value
