"""The operations of a pipeline that turn, shift, stretch and shear, with torchvision's names, defaults and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from .document import plain

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .order import OrderHints

WarpInterpolation = Literal["nearest", "bilinear"]


def _taken(
    interpolation: WarpInterpolation,
    extra_interpolation: WarpInterpolation | None,
    center: Sequence[float] | None,
    fill: int | Sequence[int],
) -> dict[str, Any]:
    """How all of them take their pixels."""
    return {
        "interpolation": interpolation,
        "extra_interpolation": extra_interpolation,
        "center": plain(center),
        "fill": plain(fill),
    }


class WarpOps:
    """Methods that append an operation which takes the pixels of uint8 (height, width, channels) images, or of such
    cast to float32, from elsewhere.

    Shape and dtype stay. All images of a sample move alike, by one draw; extra images take their pixels by
    `extra_interpolation` (None: as the main image; give "nearest" for masks when that is "bilinear"). `center`:
    (x, y) in pixels from the upper left corner; None is the middle. `fill`, one value 0..255 or one per channel,
    is what comes from outside the image. Every channel is treated alike, an alpha channel too.

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
            **_taken(interpolation, extra_interpolation, center, fill),
        )

    def random_rotation(
        self,
        degrees: float | Sequence[float],
        interpolation: WarpInterpolation = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: int | Sequence[int] = 0,
        extra_interpolation: WarpInterpolation | None = None,
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
            **_taken(interpolation, extra_interpolation, center, fill),
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
            **_taken(interpolation, extra_interpolation, center, fill),
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
            **_taken(interpolation, extra_interpolation, center, fill),
        )
