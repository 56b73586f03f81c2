"""Turns, shifts, shears and blurs beside those of the reference libraries: Pillow, and torchvision v2 where installed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_torchvision
from conftest import picture
from PIL import Image

import carya

Array = np.ndarray[Any, np.dtype[Any]]
FILTERS: dict[Any, Image.Resampling] = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
}
FILL = (9, 100, 200)
ANGLES = [0, 30, -17.3, 45, 90, 180, 270, 359.9, 725]
# angle, translate, scale, shear
MOVES: list[tuple[float, tuple[float, float], float, tuple[float, float]]] = [
    (0, (0, 0), 1.0, (0, 0)),
    (0, (5, -7), 1.0, (0, 0)),
    (10, (5, -3), 1.2, (4, 0)),
    (-33, (20, 11), 0.7, (10, -20)),
    (0, (0, 0), 2.0, (0, 0)),
    (0, (3.5, 4.25), 0.37, (0, 0)),
    (0, (0, 0), 1.0, (17, 0)),
    (200, (0, 0), 5.0, (40, 30)),
]


@pytest.fixture(scope="module")
def samples(real_photos: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Real photos, and pictures made here: noise, structure, one color only."""
    folder = tmp_path_factory.mktemp("warps")
    noise = np.random.default_rng(3).integers(0, 256, (61, 70, 3), dtype=np.uint8)
    made = [picture(1, 90, 121), picture(2, 200, 150), noise, np.full((40, 30, 3), (250, 3, 128), np.uint8)]
    paths = []
    for number, pixels in enumerate(made):
        paths.append(str(folder / f"{number}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return [*paths, *real_photos[::40]]


def differences(
    samples: list[str], ours: Callable[[carya.Pipeline], carya.Pipeline], theirs: Callable[[Array], Array]
) -> Array:
    """How far each value of ours is from theirs, over all samples."""
    source = carya.files(samples).decode_image()
    chain = ours(source)
    all_of_them = []
    for index in range(len(samples)):
        made = chain[index]["image"]
        wanted = theirs(source[index]["image"])
        assert made.shape == wanted.shape
        assert made.dtype == np.uint8
        all_of_them.append(np.abs(made.astype(np.int16) - wanted.astype(np.int16)).ravel())
    return np.concatenate(all_of_them)


def expect_tolerance(difference: Array, interpolation: str) -> None:
    """The same pixels for 99.9 %; or within 1 level for 99.9 %, and the rest, places on the border, rarer still."""
    if interpolation == "nearest":
        assert (difference != 0).mean() < 1e-3
    else:
        assert (difference > 1).mean() < 1e-3
        assert (difference > 2).mean() < 1e-4


def inverse_matrix(
    center: tuple[float, float],
    angle: float,
    translate: tuple[float, float],
    scale: float,
    shear: tuple[float, float],
) -> tuple[float, ...]:
    """Shift, then center, turn, stretch and shear, all undone: by 3 x 3 matrices."""
    turn, shear_x, shear_y = (math.radians(x) for x in (angle, *shear))

    def shift(x: float, y: float) -> Array:
        return np.array([[1, 0, x], [0, 1, y], [0, 0, 1]])

    rotation = np.array([[math.cos(turn), -math.sin(turn), 0], [math.sin(turn), math.cos(turn), 0], [0, 0, 1]])
    along_y = np.array([[1, 0, 0], [-math.tan(shear_y), 1, 0], [0, 0, 1]])
    along_x = np.array([[1, -math.tan(shear_x), 0], [0, 1, 0], [0, 0, 1]])
    stretch = np.diag([scale, scale, 1])
    whole = shift(*translate) @ shift(*center) @ rotation @ stretch @ along_y @ along_x @ shift(-center[0], -center[1])
    return tuple(np.linalg.inv(whole)[:2].ravel())


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("angle", ANGLES)
def test_rotate_is_pillow_s(samples: list[str], angle: float, interpolation: Any) -> None:
    def theirs(pixels: Array) -> Array:
        return np.asarray(Image.fromarray(pixels).rotate(angle, FILTERS[interpolation], fillcolor=FILL))

    expect_tolerance(differences(samples, lambda p: p.rotate(angle, interpolation, fill=FILL), theirs), interpolation)


@pytest.mark.parametrize("interpolation", FILTERS)
def test_rotate_turns_around_the_center_it_is_given(samples: list[str], interpolation: Any) -> None:
    def theirs(pixels: Array) -> Array:
        return np.asarray(Image.fromarray(pixels).rotate(33, FILTERS[interpolation], center=(10, 20.5)))

    expect_tolerance(
        differences(samples, lambda p: p.rotate(33, interpolation, center=(10, 20.5)), theirs), interpolation
    )


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("move", MOVES)
def test_affine_is_pillow_s_by_the_reference_s_matrix(samples: list[str], move: Any, interpolation: Any) -> None:
    def theirs(pixels: Array) -> Array:
        height, width = pixels.shape[:2]
        matrix = inverse_matrix((width / 2, height / 2), *move)
        image = Image.fromarray(pixels)
        resample = FILTERS[interpolation]
        return np.asarray(
            image.transform(image.size, Image.Transform.AFFINE, matrix, resample, fillcolor=FILL)  # type: ignore[arg-type]
        )

    expect_tolerance(
        differences(samples, lambda p: p.affine(*move, interpolation=interpolation, fill=FILL), theirs), interpolation
    )


def torchvision_on_pil(name: str, interpolation: str, *arguments: Any, **named: Any) -> Callable[[Array], Array]:
    """A function of torchvision.transforms.v2.functional on a PIL image."""
    functional = reference_torchvision.module("transforms.v2.functional")
    modes = reference_torchvision.module("transforms").InterpolationMode
    mode = {"nearest": modes.NEAREST, "bilinear": modes.BILINEAR}[interpolation]

    def changed(pixels: Array) -> Array:
        return np.asarray(getattr(functional, name)(Image.fromarray(pixels), *arguments, interpolation=mode, **named))

    return changed


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("move", MOVES)
def test_affine_is_torchvision_s(samples: list[str], move: Any, interpolation: Any) -> None:
    theirs = torchvision_on_pil("affine", interpolation, *move, fill=7, center=[30, 20])
    made = differences(samples, lambda p: p.affine(*move, interpolation=interpolation, fill=7, center=(30, 20)), theirs)
    expect_tolerance(made, interpolation)


@pytest.mark.parametrize("interpolation", FILTERS)
def test_rotate_is_torchvision_s(samples: list[str], interpolation: Any) -> None:
    theirs = torchvision_on_pil("rotate", interpolation, -12.5, fill=list(FILL), center=[30, 20])
    made = differences(samples, lambda p: p.rotate(-12.5, interpolation, fill=FILL, center=(30, 20)), theirs)
    expect_tolerance(made, interpolation)


def blurred(pixels: Array, kernel_size: Sequence[int], sigma: float) -> Array:
    """Gaussian weights that add up to 1, mirrored borders, rounded: the reference's arithmetic in doubles."""
    values = pixels.astype(np.float64)
    for axis, size in ((1, kernel_size[0]), (0, kernel_size[1])):
        reach = size // 2
        distance = np.arange(-reach, reach + 1)
        weights = np.exp(-0.5 * (distance / sigma) ** 2)
        weights /= weights.sum()
        pads = [(reach, reach) if a == axis else (0, 0) for a in range(3)]
        padded = np.pad(values, pads, mode="reflect")
        count = values.shape[axis]
        values = sum(w * np.take(padded, np.arange(k, k + count), axis) for k, w in enumerate(weights))
    out: Array = np.rint(values)
    return out


@pytest.mark.parametrize("kernel_size", [(3, 3), (11, 11), (23, 23), (5, 9), (1, 7), (63, 41), (127, 127)])
@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 2.0, 30.0])
def test_blur_is_within_one_level(samples: list[str], kernel_size: tuple[int, int], sigma: float) -> None:
    made = differences(
        samples[:4], lambda p: p.gaussian_blur(kernel_size, sigma), lambda pixels: blurred(pixels, kernel_size, sigma)
    )
    assert made.max() <= 1
    assert (made != 0).mean() < 0.05


@pytest.mark.parametrize("kernel_size", [3, 11, 23])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_blur_is_within_one_level_of_torchvision(samples: list[str], kernel_size: int, sigma: float) -> None:
    torch = pytest.importorskip("torch")
    functional = reference_torchvision.module("transforms.v2.functional")

    def theirs(pixels: Array) -> Array:
        planes = torch.from_numpy(pixels.transpose(2, 0, 1).copy())
        out: Array = functional.gaussian_blur(planes, [kernel_size] * 2, [sigma] * 2).numpy().transpose(1, 2, 0)
        return out

    assert differences(samples, lambda p: p.gaussian_blur(kernel_size, sigma), theirs).max() <= 1


def test_blur_of_an_image_smaller_than_its_kernel() -> None:
    pixels = picture(4, 3, 2)[None]
    made = carya.arrays({"image": pixels}).gaussian_blur(9, 2.0)[0]["image"]
    assert np.abs(made - blurred(pixels[0], (9, 9), 2.0)).max() <= 1


def test_random_ones_with_one_choice_are_the_plain_ones() -> None:
    source = carya.arrays({"image": picture(5, 50, 60)[None]})
    move = {"interpolation": "bilinear", "fill": (1, 2, 3), "center": (20, 30)}
    pairs = [
        (source.random_rotation((30, 30), **move), source.rotate(30, **move)),
        (
            source.random_affine((7, 7), scale=(1.2, 1.2), shear=(3, 3, -2, -2), **move),
            source.affine(7, (0, 0), 1.2, (3, -2), **move),
        ),
        (source.random_affine((7, 7), shear=(3, 3), **move), source.affine(7, (0, 0), 1, 3, **move)),
        (source.gaussian_blur(5, (2.0, 2.0)), source.gaussian_blur((5, 5), 2.0)),
    ]
    for random, plain in pairs:
        assert np.array_equal(random[0]["image"], plain[0]["image"])


def test_every_record_and_epoch_draws_anew() -> None:
    images = np.repeat(picture(5, 50, 60)[None], 8, axis=0)
    chain = carya.arrays({"image": images}).random_affine(20, translate=(0.1, 0.1)).batch(8)
    with carya.Loader(chain) as loader:
        made = [batch["image"][k].tobytes() for _ in range(2) for batch in loader for k in range(8)]
    assert len(set(made)) == 16


def test_masks_move_with_their_image_by_their_own_filter() -> None:
    images = np.random.default_rng(5).integers(0, 256, (4, 40, 30, 1), np.uint8)
    source = carya.arrays({"image": images, "mask": images})
    alike = source.random_affine(30, (0.2, 0.2), (0.7, 1.3), 10)
    mixed = source.random_affine(30, (0.2, 0.2), (0.7, 1.3), 10, "bilinear", extra_interpolation="nearest")
    for index in range(4):
        assert np.array_equal(alike[index]["image"], alike[index]["mask"])
        assert np.array_equal(mixed[index]["mask"], alike[index]["mask"])
        assert not np.array_equal(mixed[index]["image"], alike[index]["image"])
    blur = source.gaussian_blur(5, 2.0)[1]
    assert np.array_equal(blur["mask"], images[1])
    assert not np.array_equal(blur["image"], images[1])


FILLED: dict[str, Callable[..., carya.Pipeline]] = {
    "pad": lambda p, **fill: p.pad((1, 2, 3, 4), **fill),
    "random_crop": lambda p, **fill: p.random_crop((50, 20), pad_if_needed=True, **fill),
    "random_zoom_out": lambda p, **fill: p.random_zoom_out(side_range=(2, 3), p=1.0, **fill),
    "rotate": lambda p, **fill: p.rotate(30, "bilinear", **fill),
    "random_rotation": lambda p, **fill: p.random_rotation((20, 40), **fill),
    "affine": lambda p, **fill: p.affine(5, (3, 4), 0.5, 6, **fill),
    "random_affine": lambda p, **fill: p.random_affine(20, (0.4, 0.4), (0.5, 0.9), interpolation="bilinear", **fill),
    "two in a row": lambda p, **fill: p.rotate(30, **fill).pad(5, **fill).affine(5, (3, 4), 0.5, 6, **fill),
}


@pytest.mark.parametrize("as_floats", [False, True])
@pytest.mark.parametrize("change", FILLED.values(), ids=FILLED.keys())
def test_what_fills_extra_images_is_their_own(change: Callable[..., carya.Pipeline], as_floats: bool) -> None:
    """The pixels of each image are those that it has where all are filled as it is."""
    images = np.random.default_rng(7).integers(100, 256, (3, 40, 30, 3), np.uint8)
    grays = np.ascontiguousarray(images[..., :1])
    source = carya.arrays({"image": images, "other": images, "mask": grays})
    source = source.to_dtype("float32") if as_floats else source
    own = change(source, fill=(1, 2, 3), extra_fill=9)
    main, others = change(source, fill=(1, 2, 3), extra_fill=0), change(source, fill=9)

    def made(p: carya.Pipeline) -> list[dict[str, Array]]:
        """Each sample by itself, operation by operation, and then by a loader's plan."""
        with carya.Loader(p.crop(0, 0, 120, 100).batch(3), epochs=1, threads=1) as loader:
            (batch,) = [{name: value.copy() for name, value in one.items()} for one in loader]
        return [
            *(p.sample(index) for index in range(3)),
            *({name: value[index] for name, value in batch.items()} for index in range(3)),
        ]

    for found, by_main, by_others in zip(made(own), made(main), made(others), strict=True):
        assert np.array_equal(found["image"], by_main["image"])
        for name in ("other", "mask"):
            assert np.array_equal(found[name], by_others[name])
        assert not np.array_equal(found["other"], found["image"])
    assert carya.Pipeline.from_json(own.to_json()) == own


def test_channels_are_treated_alike() -> None:
    pixels = np.random.default_rng(6).integers(0, 256, (1, 41, 37, 4), np.uint8)

    def change(p: carya.Pipeline) -> Array:
        out: Array = p.rotate(20, "bilinear").affine(0, (2, 3), 1.3, 9).gaussian_blur(7, 1.1)[0]["image"]
        return out

    together = change(carya.arrays({"image": pixels}))
    for channel in range(4):
        alone = change(carya.arrays({"image": np.ascontiguousarray(pixels[..., channel : channel + 1])}))
        assert np.array_equal(together[..., channel : channel + 1], alone)


def every_op(p: carya.Pipeline) -> carya.Pipeline:
    p = p.rotate(10).random_rotation(15, "bilinear", center=(3, 4)).affine(1, (2, 3), 1.1, 4)
    return p.random_affine((-3, 9), (0.1, 0.2), (0.9, 1.1), (1, 2), fill=(1, 2, 3)).gaussian_blur(5)


def test_they_survive_json_and_show_their_parameters() -> None:
    chain = every_op(carya.arrays({"image": picture(1, 20, 30)[None]}))
    assert chain.outputs[0] == ("image", "uint8", (20, 30, 3))
    again = carya.Pipeline.from_json(chain.to_json())
    assert again == chain
    shown = repr(chain).splitlines()
    assert 'rotate(angle=10.0, expand=False, interpolation="nearest", fill=[0])' in shown
    assert "gaussian_blur(kernel_size=[5, 5], sigma=[0.1, 2.0])" in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.rotate(5, expand=True), r"rotate: expand: got True; give False: the size stays \(pad before it"),
        (lambda p: p.rotate("x"), r"rotate: angle: got 'x'; give a number, -36000.0 to 36000.0"),
        (
            lambda p: p.rotate(5, "bicubic"),
            r"rotate: interpolation: got 'bicubic'; give one of \"nearest\", \"bilin",
        ),
        (lambda p: p.rotate(5, fill=(1, 2)), r"rotate: fill has 2 values and an image 3 channels"),
        (lambda p: p.rotate(5, extra_fill=256), r"rotate: extra_fill: got 256; give one value, or one per channel"),
        (
            lambda p: p.random_rotation(-5),
            r"random_rotation: degrees: got -5; give one number from 0 or \[low, high\]",
        ),
        (lambda p: p.affine(0, (0, 0), -1, 0), r"affine: scale: got -1; give a number, 0.001 to 1000.0"),
        (lambda p: p.affine(0, 3, 1, 0), r"affine: translate: got 3; give \[x, y\] in pixels"),
        (
            lambda p: p.random_affine(5, translate=(0, 2)),
            r"random_affine: translate: got \[0, 2\]; give None or \[x, y\]",
        ),
        (lambda p: p.random_affine(5, shear=(2, 1)), r"random_affine: shear: got \[2, 1\]; give None, one number"),
        (lambda p: p.gaussian_blur(4), r"gaussian_blur: kernel_size: got 4; give odd numbers up to 127"),
        (lambda p: p.gaussian_blur(3, (2, 1)), r"gaussian_blur: sigma: got \[2, 1\]; give one number or \[low, high\]"),
        (lambda p: p.to_dtype("int64").rotate(5), r"rotate: image is int64.*; give uint8 HWC images"),
    ],
)
def test_errors_name_op_parameter_given_and_allowed(
    change: Callable[[carya.Pipeline], carya.Pipeline], message: str
) -> None:
    with pytest.raises(carya.InvalidArgument, match=message):
        change(carya.arrays({"image": picture(1, 20, 30)[None]}))


def test_an_encoded_image_is_refused(tmp_path: Path) -> None:
    Image.fromarray(picture(1, 8, 9)).save(tmp_path / "a.png")
    source = carya.files([tmp_path / "a.png"])
    with pytest.raises(carya.InvalidArgument, match="put decode_image before"):
        source.rotate(5)
    with pytest.raises(carya.InvalidArgument, match="put decode_image before"):
        source.gaussian_blur(3)
