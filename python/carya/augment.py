"""Augmentation policies over Pillow, as functions of a pipeline: `.map(carya.augment.TrivialAugmentWide(), fields="image")`.

Each takes a picture (uint8, height x width x 3) and the generator of its record, and gives one of the same shape, so that what is drawn
depends on seed, epoch and record only. Needs Pillow (`carya[augment]`). `RandomErasing` is for normalized floats and needs no Pillow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._errors import InvalidArgument, Unsupported, invalid
from ._options import integer

__all__ = ["AugMix", "AutoAugment", "RandAugment", "RandAugmentIncreasing", "RandomErasing", "TrivialAugmentWide"]

Array = np.ndarray[Any, Any]
_BINS = 31  # of magnitudes, in torchvision's TrivialAugmentWide and RandAugment
_FEW_BINS = 10  # in its AutoAugment and AugMix
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
        picture = self._picture(image)
        return np.asarray(self._behind(picture, self._drawn(rng, picture.size)))

    def _picture(self, image: Array) -> Any:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise InvalidArgument(
                f"{self._who}: got {image.dtype} {image.shape}; give pictures of uint8 (height, width, 3), as decode_image makes them"
            )
        return _pillow().fromarray(image)

    def _behind(self, picture: Any, steps: Sequence[tuple[str, float]]) -> Any:
        for name, magnitude in steps:
            picture = applied(picture, name, magnitude, self._interpolation, self._fill)
        return picture

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


class AutoAugment(_Policy):
    """One of 25 pairs of operations, learned on a dataset, each operation with a probability and a magnitude of its own.

    `policy`: "imagenet", "cifar10" or "svhn".
    Reference: torchvision.transforms.v2.AutoAugment; the same pixels for the same operations, own random numbers.
    """

    def __init__(self, policy: str = "imagenet", interpolation: str = "nearest", fill: int | Sequence[int] = 0) -> None:
        super().__init__(interpolation, fill)
        if not isinstance(policy, str) or policy not in _LEARNED:
            raise invalid("AutoAugment: policy", policy, " or ".join(f'"{one}"' for one in _LEARNED))
        self._pairs = _pairs(_LEARNED[policy])

    def _drawn(self, rng: np.random.Generator, size: tuple[int, int]) -> list[tuple[str, float]]:
        pair = int(rng.integers(len(self._pairs)))
        return self._steps(pair, rng.random(2).tolist(), rng.integers(2, size=2).tolist(), size)

    def _steps(
        self, pair: int, chances: Sequence[float], signs: Sequence[int], size: tuple[int, int]
    ) -> list[tuple[str, float]]:
        """Of a pair, what comes by two numbers of 0 to 1, which way by two of 0 (against) and 1."""
        steps = []
        for (name, p, number), chance, sign in zip(self._pairs[pair], chances, signs, strict=True):
            if chance <= p:
                magnitude_of, signed = _LEARNED_SPACE[name]
                magnitude = magnitude_of(number, size)
                steps.append((name, -magnitude if signed and not sign else magnitude))
        return steps


class AugMix(_Policy):
    """The picture mixed with several chains of operations on it.

    `mixture_width` chains of `chain_depth` operations each (-1: of one to three), mixed by weights from a Dirichlet distribution of
    `alpha`; the mix and the picture by weights from a second one. `severity` of 1 to 10: magnitudes up to that of ten.
    `all_ops=False`: without brightness, color, contrast and sharpness, in which test sets of corrupted pictures differ.
    Reference: torchvision.transforms.v2.AugMix for its magnitudes and its mixing in float32. It makes a tensor of the picture before;
    here the operations are those on pictures of Pillow, as in the other policies and in Hendrycks et al., 2020. Own random numbers.
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: str = "bilinear",
        fill: int | Sequence[int] = 0,
    ) -> None:
        super().__init__(interpolation, fill)
        self._severity = integer("AugMix: severity", severity, 1, "an integer of 1 to 10", _FEW_BINS)
        self._width = integer("AugMix: mixture_width", mixture_width, 1, "an integer of 1 to 100", 100)
        depth = "an integer of 1 to 100, or -1"
        self._depth = -1 if chain_depth == -1 else integer("AugMix: chain_depth", chain_depth, 1, depth, 100)
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha <= 1e6:
            raise invalid("AugMix: alpha", alpha, "a number of more than 0, up to 1e6")
        if not isinstance(all_ops, bool):
            raise invalid("AugMix: all_ops", all_ops, "True or False")
        self._alpha, self._all_ops = float(alpha), all_ops

    def __call__(self, image: Array, rng: np.random.Generator) -> Array:
        """Errors: InvalidArgument (no uint8 picture of three channels), Unsupported (no Pillow)."""
        picture = self._picture(image)
        own, others = rng.dirichlet([self._alpha] * 2)
        weights = rng.dirichlet([self._alpha] * self._width) * others
        chains = [self._drawn(rng, picture.size) for _ in range(self._width)]
        return self._mixed(image, picture, [own, *weights], chains)

    def _drawn(self, rng: np.random.Generator, size: tuple[int, int]) -> list[tuple[str, float]]:
        depth = self._depth if self._depth > 0 else int(rng.integers(1, 4))
        space = _SPACE_MIX if self._all_ops else _SPACE_MIX_PARTIAL
        return [_one_of(space, rng, int(rng.integers(self._severity)), size) for _ in range(depth)]

    def _mixed(
        self, image: Array, picture: Any, weights: Sequence[float], chains: Sequence[list[tuple[str, float]]]
    ) -> Array:
        """`weights`: of the picture itself, then of each chain; their sum is 1."""
        mix: Array = np.float32(weights[0]) * image.astype(np.float32)
        for weight, chain in zip(weights[1:], chains, strict=True):
            mix += np.float32(weight) * np.asarray(self._behind(picture, chain)).astype(np.float32)
        return mix.astype(
            np.uint8
        )  # cut off, as the reference does; float32 weights that add up to more than 1 make no 256 of 255


class RandomErasing:
    """Fills a rectangle of random area, shape and place with probability `p`, in normalized pictures of floats.

    `scale`: range of the area as a fraction of the picture's; `ratio`: range of height / width, drawn evenly in its logarithm. `value`: a
    number, one for each channel, "random" (a number of the normal distribution of mean 0 and deviation 1 for each value, timm's "pixel") or
    "color" (one for each channel, timm's "rand"). `layout`: "CHW", as `normalize` makes it, or "HWC". Ten tries at a rectangle that is
    smaller than the picture, then none. On uint8 the native `random_erasing` does it, without normal noise, which means nothing there.
    Reference: torchvision.transforms.v2.RandomErasing, whose defaults these are, and timm's; own random numbers.

    >>> erase = RandomErasing(p=1.0, value="random")
    >>> image = np.zeros((3, 8, 8), np.float32)
    >>> erase(image, np.random.default_rng(0)).shape, bool(image.any())
    ((3, 8, 8), False)
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
        layout: str = "CHW",
    ) -> None:
        if not _is_number(p) or not 0 <= p <= 1:
            raise invalid("RandomErasing: p", p, "a number of 0 to 1")
        self._p = float(p)
        self._scale = _range("scale", scale, 0.0, 1.0)
        low, high = _range("ratio", ratio, 1e-3, 1e3)
        self._log_ratio = math.log(low), math.log(high)
        if layout not in ("CHW", "HWC"):
            raise invalid("RandomErasing: layout", layout, '"CHW" or "HWC"')
        self._first = layout == "CHW"
        wanted = 'a number, one for each channel, "random" or "color"'
        self._noise = value if isinstance(value, str) else ""
        if self._noise not in ("", "random", "color"):
            raise invalid("RandomErasing: value", value, wanted)
        given: tuple[Any, ...] = () if self._noise else tuple(value) if isinstance(value, Sequence) else (value,)
        if not self._noise and not (given and all(_is_number(one) for one in given)):
            raise invalid("RandomErasing: value", value, wanted)
        self._value = tuple(float(one) for one in given)

    def __call__(self, image: Array, rng: np.random.Generator) -> Array:
        """The picture itself where nothing is erased, else a new one. Errors: InvalidArgument (no picture of floats, another number of
        channels than of values)."""
        if image.ndim != 3 or image.dtype not in (np.float16, np.float32, np.float64):
            raise InvalidArgument(
                f"RandomErasing: got {image.dtype} {image.shape}; give pictures of floats with three dimensions, as normalize makes them, "
                "or call .random_erasing(...) on those of uint8"
            )
        planes = image if self._first else image.transpose(2, 0, 1)
        if len(self._value) not in (0, 1, len(planes)):
            raise InvalidArgument(
                f"RandomErasing: value: got {len(self._value)} for {len(planes)} channels; give one number, or one for each"
            )
        box = self._box(rng, planes.shape[1], planes.shape[2])
        if box is None:
            return image
        top, left, height, width = box
        erased: Array = image.copy()
        region = (erased if self._first else erased.transpose(2, 0, 1))[:, top : top + height, left : left + width]
        if self._noise:
            shape = region.shape if self._noise == "random" else (len(planes), 1, 1)
            region[...] = rng.standard_normal(shape, np.float32)
        else:
            region[...] = np.array(self._value)[:, None, None]
        return erased

    def _box(self, rng: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int] | None:
        """Top, left, height and width of what is erased; None: nothing."""
        if rng.random() >= self._p:
            return None
        for _ in range(10):
            area = height * width * rng.uniform(*self._scale)
            aspect = math.exp(rng.uniform(*self._log_ratio))
            tall, wide = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if tall < height and wide < width:
                return int(rng.integers(height - tall + 1)), int(rng.integers(width - wide + 1)), tall, wide
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _range(name: str, given: Any, lowest: float, highest: float) -> tuple[float, float]:
    both = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if len(both) != 2 or not all(_is_number(one) for one in both) or not lowest <= both[0] <= both[1] <= highest:
        raise invalid(f"RandomErasing: {name}", given, f"two numbers of {lowest:g} to {highest:g}, the lower one first")
    return float(both[0]), float(both[1])


# Magnitudes by bin (from 0) and the size of the picture; whether a sign is drawn.
_Space = Sequence[tuple[str, Callable[[int, tuple[int, int]], float], bool]]


def _spaced(first: float, last: float, number: int, bins: int) -> float:
    """The magnitude of a bin in float32, from the nearer end and rounded once, as torch.linspace has it on processors that multiply and
    add in one step: with another last bit some pixels have another level, and a translation may be a pixel less."""
    begin, end = float(np.float32(first)), float(np.float32(last))
    step = float(np.float32(end - begin) / np.float32(bins - 1))
    return float(np.float32(begin + step * number if number < bins // 2 else end - step * (bins - 1 - number)))


def _even(last: float, bins: int = _BINS) -> Callable[[int, tuple[int, int]], float]:
    return lambda number, _: _spaced(0.0, last, number, bins)


def _of_side(side: int, part: float, bins: int) -> Callable[[int, tuple[int, int]], float]:
    return lambda number, size: _spaced(0.0, part * size[side], number, bins)


def _posterize(bits: int, bins: int, most: int = 8) -> Callable[[int, tuple[int, int]], float]:
    return lambda number, _: most - round(number / ((bins - 1) / bits))


def _no(number: int, size: tuple[int, int]) -> float:
    return 0.0


def _solarize(bins: int) -> Callable[[int, tuple[int, int]], float]:
    return lambda number, _: _spaced(255.0, 0.0, number, bins)


def _space(
    shear: float, move_x: Any, move_y: Any, turn: float, enhance: float, posterize: Any, bins: int = _BINS
) -> _Space:
    return [
        ("identity", _no, False),
        ("shear_x", _even(shear, bins), True),
        ("shear_y", _even(shear, bins), True),
        ("translate_x", move_x, True),
        ("translate_y", move_y, True),
        ("rotate", _even(turn, bins), True),
        *((name, _even(enhance, bins), True) for name in _ENHANCERS),
        ("posterize", posterize, False),
        ("solarize", _solarize(bins), False),
        ("autocontrast", _no, False),
        ("equalize", _no, False),
    ]


_ENHANCERS = ("brightness", "color", "contrast", "sharpness")
_SPACE_WIDE = _space(0.99, _even(32.0), _even(32.0), 135.0, 0.99, _posterize(6, _BINS))


def _smaller(part: float, posterize: Any, bins: int) -> _Space:
    return _space(0.3, _of_side(0, part, bins), _of_side(1, part, bins), 30.0, 0.9, posterize, bins)


_SPACE = _smaller(150.0 / 331.0, _posterize(4, _BINS), _BINS)
_SPACE_MIX = [
    one for one in _smaller(1 / 3, _posterize(4, _FEW_BINS, 4), _FEW_BINS) if one[0] != "identity"
]  # AugMix has none: a chain of it would be the picture
_SPACE_MIX_PARTIAL = [one for one in _SPACE_MIX if one[0] not in _ENHANCERS]
_LEARNED_SPACE = {
    "invert": (_no, False),
    **{
        name: (magnitude_of, signed)
        for name, magnitude_of, signed in _smaller(150.0 / 331.0, _posterize(4, _FEW_BINS), _FEW_BINS)
    },
}

# AutoAugment's 25 pairs for each dataset: an operation, its probability in tenths and its magnitude of 0 to 9 (none: no magnitude).
# Source: Cubuk et al., "AutoAugment: learning augmentation policies from data", 2019, appendix, as torchvision has it.
_LEARNED = {
    "imagenet": (
        "posterize 4 8, rotate 6 9; solarize 6 5, autocontrast 6; equalize 8, equalize 6; posterize 6 7, posterize 6 6; "
        "equalize 4, solarize 2 4; equalize 4, rotate 8 8; solarize 6 3, equalize 6; posterize 8 5, equalize 10; "
        "rotate 2 3, solarize 6 8; equalize 6, posterize 4 6; rotate 8 8, color 4 0; rotate 4 9, equalize 6; "
        "equalize 0, equalize 8; invert 6, equalize 10; color 6 4, contrast 10 8; rotate 8 8, color 10 2; "
        "color 8 8, solarize 8 7; sharpness 4 7, invert 6; shear_x 6 5, equalize 10; color 4 0, equalize 6; "
        "equalize 4, solarize 2 4; solarize 6 5, autocontrast 6; invert 6, equalize 10; color 6 4, contrast 10 8; "
        "equalize 8, equalize 6"
    ),
    "cifar10": (
        "invert 1, contrast 2 6; rotate 7 2, translate_x 3 9; sharpness 8 1, sharpness 9 3; "
        "shear_y 5 8, translate_y 7 9; autocontrast 5, equalize 9; shear_y 2 7, posterize 3 7; "
        "color 4 3, brightness 6 7; sharpness 3 9, brightness 7 9; equalize 6, equalize 5; contrast 6 7, sharpness 6 5; "
        "color 7 7, translate_x 5 8; equalize 3, autocontrast 4; translate_y 4 3, sharpness 2 6; "
        "brightness 9 6, color 2 8; solarize 5 2, invert 0; equalize 2, autocontrast 6; equalize 2, equalize 6; "
        "color 9 9, equalize 6; autocontrast 8, solarize 2 8; brightness 1 3, color 7 0; solarize 4 5, autocontrast 9; "
        "translate_y 9 9, translate_y 7 9; autocontrast 9, solarize 8 3; equalize 8, invert 1; "
        "translate_y 7 9, autocontrast 9"
    ),
    "svhn": (
        "shear_x 9 4, invert 2; shear_y 9 8, invert 7; equalize 6, solarize 6 6; invert 9, equalize 6; "
        "equalize 6, rotate 9 3; shear_x 9 4, autocontrast 8; shear_y 9 8, invert 4; shear_y 9 5, solarize 2 6; "
        "invert 9, autocontrast 8; equalize 6, rotate 9 3; shear_x 9 4, solarize 3 3; shear_y 8 8, invert 7; "
        "equalize 9, translate_y 6 6; invert 9, equalize 6; contrast 3 3, rotate 8 4; invert 8, translate_y 0 2; "
        "shear_y 7 6, solarize 4 8; invert 6, rotate 8 4; shear_y 3 7, translate_x 9 3; shear_x 1 6, invert 6; "
        "solarize 7 2, translate_y 6 7; shear_y 8 4, invert 8; shear_x 7 9, translate_y 8 3; "
        "shear_y 8 5, autocontrast 7; shear_x 7 2, invert 1"
    ),
}


def _pairs(text: str) -> list[tuple[tuple[str, float, int], ...]]:
    """The table of a policy, as text."""

    def one(said: str) -> tuple[str, float, int]:
        name, tenths, *number = said.split()
        return name, int(tenths) / 10, int(number[0]) if number else 0

    return [tuple(one(said) for said in pair.split(", ")) for pair in text.split("; ")]


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
        if not int(magnitude):  # which Pillow refuses since version 13
            return Image.new("RGB", picture.size)
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
