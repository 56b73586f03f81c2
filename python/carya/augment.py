"""Augmentation policies over Pillow, as functions of a pipeline: `.map(carya.augment.TrivialAugmentWide(), fields="image")`.

Each takes a picture (uint8, height x width x 3) and the generator of its record, and gives one of the same shape, so that what is drawn
depends on seed, epoch and record only. Needs Pillow (`carya[augment]`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._errors import InvalidArgument, Unsupported, invalid
from ._options import integer

__all__ = ["RandAugment", "RandAugmentIncreasing", "TrivialAugmentWide"]

Array = np.ndarray[Any, Any]
_BINS = 31  # of magnitudes, in both of torchvision's policies
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic")


class _Policy:
    """`interpolation` of what is sheared, moved and turned; `fill`: the color of what comes in at the edges."""

    def __init__(self, interpolation: str, fill: int | Sequence[int]) -> None:
        self._who = type(self).__name__
        if interpolation not in _INTERPOLATIONS:
            raise invalid(
                f"{self._who}: interpolation", interpolation, " or ".join(f'"{one}"' for one in _INTERPOLATIONS)
            )
        colors = tuple(fill) if isinstance(fill, Sequence) else (fill,) * 3
        if len(colors) != 3:
            raise invalid(f"{self._who}: fill", fill, "a number of 0 to 255, or three")
        self._fill = tuple(
            integer(f"{self._who}: fill", one, 0, "a number of 0 to 255, or three", 255) for one in colors
        )
        self._interpolation = _INTERPOLATIONS.index(interpolation)

    def __call__(self, image: Array, rng: np.random.Generator) -> Array:
        """Errors: InvalidArgument (no uint8 picture of three channels), Unsupported (no Pillow)."""
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise InvalidArgument(
                f"{self._who}: got {image.dtype} {image.shape}; give pictures of uint8 (height, width, 3), as decode_image makes them"
            )
        picture = _pillow().fromarray(image)
        for name, magnitude in self._drawn(rng, picture.size):
            picture = applied(picture, name, magnitude, self._interpolation, self._fill)
        return np.asarray(picture)

    def _drawn(self, rng: np.random.Generator, size: tuple[int, int]) -> list[tuple[str, float]]:
        """Operations and their magnitudes, for a picture of width and height."""
        raise NotImplementedError


class TrivialAugmentWide(_Policy):
    """One of 14 operations, with one of 31 magnitudes from none to strong.

    Reference: torchvision.transforms.v2.TrivialAugmentWide; the same pixels for the same operation and magnitude, own random numbers.

    >>> import carya
    >>> image = np.zeros((4, 4, 3), np.uint8)
    >>> carya.augment.TrivialAugmentWide()(image, np.random.default_rng(0)).shape
    (4, 4, 3)
    """

    def __init__(self, interpolation: str = "nearest", fill: int | Sequence[int] = 0) -> None:
        super().__init__(interpolation, fill)

    def _drawn(self, rng: np.random.Generator, size: tuple[int, int]) -> list[tuple[str, float]]:
        return [_one_of(_SPACE_WIDE, rng, int(rng.integers(_BINS)), size)]


class RandAugment(_Policy):
    """`num_ops` of 14 operations, one behind the other, each with `magnitude` of 0 to 30.

    Reference: torchvision.transforms.v2.RandAugment with 31 magnitudes; the same pixels for the same operations, own random numbers.
    """

    def __init__(
        self, num_ops: int = 2, magnitude: int = 9, interpolation: str = "nearest", fill: int | Sequence[int] = 0
    ) -> None:
        super().__init__(interpolation, fill)
        self._count = integer("RandAugment: num_ops", num_ops, 1, "an integer of 1 to 100", 100)
        self._magnitude = integer("RandAugment: magnitude", magnitude, 0, "an integer of 0 to 30", _BINS - 1)

    def _drawn(self, rng: np.random.Generator, size: tuple[int, int]) -> list[tuple[str, float]]:
        return [_one_of(_SPACE, rng, self._magnitude, size) for _ in range(self._count)]


class RandAugmentIncreasing(_Policy):
    """timm's RandAugment whose operations all grow with the magnitude: its "rand-m9-mstd0.5-inc1", which DeiT trains with.

    `num_ops` of 15 operations, each with probability `p` and a magnitude from a normal distribution of mean `magnitude` and deviation
    `std`, cut to 0 to 10. Own random numbers.
    """

    def __init__(
        self,
        magnitude: float = 9,
        std: float = 0.5,
        num_ops: int = 2,
        p: float = 0.5,
        interpolation: str = "bicubic",
        fill: int | Sequence[int] = (124, 116, 104),
    ) -> None:
        super().__init__(interpolation, fill)
        for name, value, highest in (("magnitude", magnitude, 10.0), ("std", std, 100.0), ("p", p, 1.0)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
                raise invalid(f"RandAugmentIncreasing: {name}", value, f"a number of 0 to {highest:g}")
        self._count = integer("RandAugmentIncreasing: num_ops", num_ops, 1, "an integer of 1 to 100", 100)
        self._mean, self._std, self._p = float(magnitude), float(std), float(p)

    def _drawn(self, rng: np.random.Generator, size: tuple[int, int]) -> list[tuple[str, float]]:
        found = []
        for _ in range(self._count):
            name, magnitude_of = _INCREASING[int(rng.integers(len(_INCREASING)))]
            level = min(10.0, max(0.0, rng.normal(self._mean, self._std))) / 10
            sign = -1.0 if rng.random() < 0.5 else 1.0
            if rng.random() < self._p:
                found.append((name, magnitude_of(level, sign, size)))
        return found


# Magnitudes by bin (0 to 30) and the size of the picture; whether a sign is drawn.
_Space = Sequence[tuple[str, Callable[[int, tuple[int, int]], float], bool]]


def _even(last: float) -> Callable[[int, tuple[int, int]], float]:
    return lambda number, _: last * number / (_BINS - 1)


def _posterize(bits: int) -> Callable[[int, tuple[int, int]], float]:
    return lambda number, _: 8 - round(number / ((_BINS - 1) / bits))


def _no(number: int, size: tuple[int, int]) -> float:
    return 0.0


def _solarize(number: int, _: tuple[int, int]) -> float:
    return 255.0 - 255.0 * number / (_BINS - 1)


def _space(shear: float, move_x: Any, move_y: Any, turn: float, enhance: float, bits: int) -> _Space:
    return [
        ("identity", _no, False),
        ("shear_x", _even(shear), True),
        ("shear_y", _even(shear), True),
        ("translate_x", move_x, True),
        ("translate_y", move_y, True),
        ("rotate", _even(turn), True),
        *((name, _even(enhance), True) for name in ("brightness", "color", "contrast", "sharpness")),
        ("posterize", _posterize(bits), False),
        ("solarize", _solarize, False),
        ("autocontrast", _no, False),
        ("equalize", _no, False),
    ]


_SPACE_WIDE = _space(0.99, _even(32.0), _even(32.0), 135.0, 0.99, 6)
_SPACE = _space(
    0.3,
    lambda number, size: 150.0 / 331.0 * size[0] * number / (_BINS - 1),
    lambda number, size: 150.0 / 331.0 * size[1] * number / (_BINS - 1),
    30.0,
    0.9,
    4,
)


def _one_of(space: _Space, rng: np.random.Generator, number: int, size: tuple[int, int]) -> tuple[str, float]:
    name, magnitude_of, signed = space[int(rng.integers(len(space)))]
    magnitude = magnitude_of(number, size)
    return name, -magnitude if signed and rng.random() < 0.5 else magnitude


# timm's operations that grow with the level (0 to 1): name, and magnitude by level, sign and size.
_INCREASING: Sequence[tuple[str, Callable[[float, float, tuple[int, int]], float]]] = [
    ("autocontrast", lambda level, sign, size: 0.0),
    ("equalize", lambda level, sign, size: 0.0),
    ("invert", lambda level, sign, size: 0.0),
    ("rotate", lambda level, sign, size: sign * 30 * level),
    ("posterize", lambda level, sign, size: 4 - int(4 * level)),
    ("solarize", lambda level, sign, size: 256 - int(256 * level)),
    ("solarize_add", lambda level, sign, size: min(128, int(110 * level))),
    *(
        (name, lambda level, sign, size: sign * 0.9 * level)
        for name in ("color", "contrast", "brightness", "sharpness")
    ),
    ("shear_x", lambda level, sign, size: sign * 0.3 * level),
    ("shear_y", lambda level, sign, size: sign * 0.3 * level),
    ("translate_x", lambda level, sign, size: sign * 0.45 * level * size[0]),
    ("translate_y", lambda level, sign, size: sign * 0.45 * level * size[1]),
]


def applied(picture: Any, name: str, magnitude: float, interpolation: int, fill: tuple[int, ...]) -> Any:
    """A picture of Pillow behind one operation. `interpolation`: a place in nearest, bilinear, bicubic."""
    _pillow()
    from PIL import Image, ImageEnhance, ImageOps

    resampling = (Image.Resampling.NEAREST, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)[interpolation]
    matrices = {
        "shear_x": (1, magnitude, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, magnitude, 1, 0),
        "translate_x": (1, 0, -int(magnitude), 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, -int(magnitude)),
    }
    enhancers = {
        "brightness": ImageEnhance.Brightness,
        "color": ImageEnhance.Color,
        "contrast": ImageEnhance.Contrast,
        "sharpness": ImageEnhance.Sharpness,
    }
    if name in matrices:
        return picture.transform(picture.size, Image.Transform.AFFINE, matrices[name], resampling, fillcolor=fill)
    if name in enhancers:
        return enhancers[name](picture).enhance(1.0 + magnitude)
    if name == "rotate":
        return picture.rotate(magnitude, resampling, fillcolor=fill)
    if name == "posterize":
        return ImageOps.posterize(picture, int(magnitude))
    if name == "solarize":
        return ImageOps.solarize(picture, magnitude)
    if name == "solarize_add":
        return picture.point([min(255, one + int(magnitude)) if one < 128 else one for one in range(256)] * 3)
    others = {"autocontrast": ImageOps.autocontrast, "equalize": ImageOps.equalize, "invert": ImageOps.invert}
    return others[name](picture) if name in others else picture


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise Unsupported("augment: it needs Pillow; call pip install 'carya[augment]'") from None
    return Image
