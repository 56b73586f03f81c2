"""Color ops beside those of the reference libraries: Pillow, and torchvision v2 on uint8 tensors where it is installed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_torchvision
from conftest import picture
from PIL import Image, ImageEnhance, ImageOps

import carya

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module")
def samples(real_photos: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Real photos, and pictures made here: noise, little contrast, one color only."""
    folder = tmp_path_factory.mktemp("colors")
    noise = np.random.default_rng(3).integers(0, 256, (60, 70, 3), dtype=np.uint8)
    gray = np.repeat(noise[:, :, :1], 3, axis=2)
    made = [picture(1, 90, 120), noise, noise // 4 + 80, gray, np.full((40, 30, 3), (250, 3, 128), np.uint8)]
    paths = []
    for number, pixels in enumerate(made):
        paths.append(str(folder / f"{number}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return [*paths, *real_photos[::40]]


@functools.cache
def decoded(path: str) -> Array:
    """What every reference begins with; read-only."""
    pixels: Array = carya.files([path]).decode_image()[0]["image"]
    pixels.flags.writeable = False
    return pixels


def furthest(
    samples: list[str], ours: Callable[[carya.Pipeline], carya.Pipeline], theirs: Callable[[Array], Array]
) -> int:
    """The largest difference between a value of ours and one of theirs, over all samples."""
    chain = ours(carya.files(samples).decode_image())
    largest = 0
    for index, path in enumerate(samples):
        made = chain[index]["image"]
        wanted = theirs(decoded(path))
        assert made.shape == wanted.shape
        assert made.dtype == np.uint8
        largest = max(largest, int(np.abs(made.astype(np.int16) - wanted.astype(np.int16)).max()))
    return largest


def pillow(change: Callable[[Image.Image], Image.Image]) -> Callable[[Array], Array]:
    def changed(pixels: Array) -> Array:
        out = np.asarray(change(Image.fromarray(pixels)))
        return out if out.ndim == 3 else out[:, :, None]

    return changed


def torchvision(name: str, *arguments: Any) -> Callable[[Array], Array]:
    """A function of torchvision.transforms.v2.functional on a uint8 tensor."""
    torch = pytest.importorskip("torch")
    functional = reference_torchvision.module("transforms.v2.functional")

    def changed(pixels: Array) -> Array:
        planes = torch.from_numpy(pixels.transpose(2, 0, 1).copy())
        out: Array = getattr(functional, name)(planes, *arguments).numpy().transpose(1, 2, 0)
        return out

    return changed


def test_invert_is_exact(samples: list[str]) -> None:
    assert furthest(samples, lambda p: p.invert(), pillow(ImageOps.invert)) == 0


def test_invert_is_torchvision_s(samples: list[str]) -> None:
    assert furthest(samples, lambda p: p.invert(), torchvision("invert")) == 0


@pytest.mark.parametrize("threshold", [0, 100.5, 128, 255])
def test_solarize_is_exact(samples: list[str], threshold: float) -> None:
    assert furthest(samples, lambda p: p.solarize(threshold), pillow(lambda i: ImageOps.solarize(i, threshold))) == 0
    assert furthest(samples, lambda p: p.solarize(threshold), torchvision("solarize", threshold)) == 0


@pytest.mark.parametrize("bits", range(1, 9))
def test_posterize_is_exact(samples: list[str], bits: int) -> None:
    assert furthest(samples, lambda p: p.posterize(bits), pillow(lambda i: ImageOps.posterize(i, bits))) == 0


@pytest.mark.parametrize("bits", [0, 1, 5, 8])
def test_posterize_is_torchvision_s(samples: list[str], bits: int) -> None:
    assert furthest(samples, lambda p: p.posterize(bits), torchvision("posterize", bits)) == 0


@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale_is_pillow_s_luma(samples: list[str], channels: int) -> None:
    mode = {1: "L", 3: "RGB"}[channels]
    assert furthest(samples, lambda p: p.grayscale(channels), pillow(lambda i: i.convert("L").convert(mode))) == 0


@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale_is_within_one_level_of_torchvision(samples: list[str], channels: int) -> None:
    assert furthest(samples, lambda p: p.grayscale(channels), torchvision("rgb_to_grayscale", channels)) <= 1


def test_random_grayscale_is_all_or_nothing(samples: list[str]) -> None:
    assert furthest(samples, lambda p: p.random_grayscale(p=0), lambda pixels: pixels) == 0
    assert furthest(samples, lambda p: p.random_grayscale(p=1), pillow(lambda i: i.convert("L").convert("RGB"))) == 0


def test_autocontrast_is_within_one_level_of_pillow(samples: list[str]) -> None:
    assert furthest(samples, lambda p: p.autocontrast(), pillow(ImageOps.autocontrast)) <= 1


def test_autocontrast_is_within_one_level_of_torchvision(samples: list[str]) -> None:
    assert furthest(samples, lambda p: p.autocontrast(), torchvision("autocontrast")) <= 1


def test_equalize_is_torchvision_s(samples: list[str]) -> None:
    assert furthest(samples, lambda p: p.equalize(), torchvision("equalize")) == 0


def test_equalize_is_pillow_s(samples: list[str]) -> None:
    assert furthest(samples, lambda p: p.equalize(), pillow(ImageOps.equalize)) == 0


@pytest.mark.parametrize("factor", [0, 0.4, 1, 1.7, 5])
def test_adjust_sharpness_is_pillow_s(samples: list[str], factor: float) -> None:
    enhanced = pillow(lambda i: ImageEnhance.Sharpness(i).enhance(factor))
    assert furthest(samples, lambda p: p.adjust_sharpness(factor), enhanced) == 0


@pytest.mark.parametrize("factor", [0, 0.4, 1, 1.7, 5])
def test_adjust_sharpness_is_within_one_level_of_torchvision(samples: list[str], factor: float) -> None:
    assert furthest(samples, lambda p: p.adjust_sharpness(factor), torchvision("adjust_sharpness", factor)) <= 1


@pytest.mark.parametrize("factor", [0, 0.3, 0.77, 1, 1.25, 2, 7])
@pytest.mark.parametrize(
    ("name", "enhancer"),
    [("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast), ("saturation", ImageEnhance.Color)],
)
def test_color_jitter_is_pillow_s(samples: list[str], name: str, enhancer: Any, factor: float) -> None:
    ours: dict[str, Any] = {name: (factor, factor)}
    assert furthest(samples, lambda p: p.color_jitter(**ours), pillow(lambda i: enhancer(i).enhance(factor))) == 0


@pytest.mark.parametrize("factor", [0, 0.3, 0.77, 1, 1.25, 2])
@pytest.mark.parametrize(("name", "levels"), [("brightness", 0), ("contrast", 2), ("saturation", 1)])
def test_color_jitter_is_near_torchvision(samples: list[str], name: str, levels: int, factor: float) -> None:
    """On tensors the mean luma of contrast is neither rounded nor of rounded lumas. An integer factor would make the
    reference multiply in uint8."""
    ours: dict[str, Any] = {name: (factor, factor)}
    assert furthest(samples, lambda p: p.color_jitter(**ours), torchvision(f"adjust_{name}", float(factor))) <= levels


TURNS = [-0.5, -0.31, -1 / 6, -0.05, 0, 0.01, 0.1, 1 / 3, 0.5]


def turned(pixels: Array, turn: float) -> Array:
    """torchvision's adjust_hue on tensors, written out: to hue, saturation and value in float32, and back."""
    values = pixels.astype(np.float32) / np.float32(255)
    most, least = values.max(axis=2), values.min(axis=2)
    spread = most - least
    saturation = spread / np.where(spread == 0, 1, most).astype(np.float32)
    divisor = np.where(spread == 0, 1, spread).astype(np.float32)
    red, green, blue = np.moveaxis((most[:, :, None] - values) / divisor[:, :, None], 2, 0)
    is_red, is_green = most == values[:, :, 0], most == values[:, :, 1]
    hue = np.where(is_red, blue - green, np.where(is_green, 2 + red - blue, 4 + green - red))
    hue = np.fmod(hue * np.float32(1 / 6) + 1, np.float32(1))
    sixth = np.remainder(hue + np.float32(turn), np.float32(1)) * 6
    sector = np.floor(sixth)
    part = sixth - sector
    falling, rising, floor = ((1 - x) * most for x in (saturation * part, saturation * (1 - part), saturation))
    order = np.array(["vtp", "qvp", "pvt", "pqv", "tpv", "vpq"])[sector.astype(int) % 6]
    parts = {"v": most, "q": falling, "t": rising, "p": floor}
    chosen = [
        np.select(
            [order.astype("U3").view("U1").reshape(*order.shape, 3)[:, :, c] == k for k in parts], list(parts.values())
        )
        for c in range(3)
    ]
    return (np.clip(np.stack(chosen, axis=2), 0, 1) * np.float32(255.999)).astype(np.uint8)


@pytest.mark.parametrize("turn", TURNS[::2])
def test_hue_is_within_one_level_of_its_definition(samples: list[str], turn: float) -> None:
    assert furthest(samples, lambda p: p.color_jitter(hue=(turn, turn)), lambda pixels: turned(pixels, turn)) <= 1


@pytest.mark.parametrize("turn", TURNS)
def test_hue_is_within_one_level_of_torchvision(samples: list[str], turn: float) -> None:
    assert furthest(samples, lambda p: p.color_jitter(hue=(turn, turn)), torchvision("adjust_hue", turn)) <= 1


def test_random_erasing_fills_one_rectangle(samples: list[str]) -> None:
    source = carya.files(samples).decode_image().resize((90, 100))
    for index in range(len(samples)):
        before = source[index]["image"]
        one, other = (source.random_erasing(p=1, value=value)[index]["image"] for value in ((1, 2, 3), (4, 5, 6)))
        rows, columns = np.nonzero((one != other).any(axis=2))
        assert len(rows)
        top, left, bottom, right = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
        assert 0.015 < (bottom - top) * (right - left) / 9000 < 0.35
        for made, value in ((one, (1, 2, 3)), (other, (4, 5, 6))):
            wanted = before.copy()
            wanted[top:bottom, left:right] = value
            assert np.array_equal(made, wanted)


def test_color_ops_name_what_they_refuse(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(picture(1, 8, 9)).save(path)
    with pytest.raises(carya.InvalidArgument, match="put decode_image before"):
        carya.files([path]).invert()
    with pytest.raises(carya.InvalidArgument, match="uint8 HWC images"):
        carya.files([path]).decode_image().to_dtype("float32").invert()


def arrays_with_mask() -> tuple[Array, Array]:
    random = np.random.default_rng(5)
    return random.integers(0, 256, (3, 20, 30, 3), np.uint8), random.integers(0, 256, (3, 20, 30, 1), np.uint8)


def every_color_op(p: carya.Pipeline) -> carya.Pipeline:
    p = p.invert().solarize(100.5).posterize(4).autocontrast().equalize().adjust_sharpness(1.5)
    p = (
        p.color_jitter(0.4, (0.5, 1.5), None, hue=0.1)
        .random_erasing(p=1, value="random")
        .random_erasing(value=(1, 2, 3))
    )
    return p.random_grayscale(0.3).grayscale(num_output_channels=3)


def test_color_ops_leave_masks_alone() -> None:
    images, masks = arrays_with_mask()
    chain = every_color_op(carya.arrays({"image": images, "mask": masks}))
    for index in range(3):
        made = chain[index]
        assert np.array_equal(made["mask"], masks[index])
        assert not np.array_equal(made["image"], images[index])


def test_color_ops_take_the_fields_they_are_given() -> None:
    images, masks = arrays_with_mask()
    made = carya.arrays({"image": images, "mask": masks}).invert(fields=["mask"])[1]
    assert np.array_equal(made["image"], images[1])
    assert np.array_equal(made["mask"], 255 - masks[1])


def test_a_jitter_of_nothing_changes_nothing() -> None:
    images, _ = arrays_with_mask()
    source = carya.arrays({"image": images})
    for chain in (source.color_jitter(), source.color_jitter(0, 0, 0, 0)):
        assert np.array_equal(chain[2]["image"], images[2])


def test_color_ops_survive_json_and_show_their_parameters() -> None:
    images, _ = arrays_with_mask()
    chain = every_color_op(carya.arrays({"image": images}))
    again = carya.Pipeline.from_json(chain.to_json())
    assert again == chain
    assert repr(again) == repr(chain)
    shown = repr(chain).splitlines()
    assert "color_jitter(brightness=[0.6, 1.4], contrast=[0.5, 1.5], hue=[-0.1, 0.1])" in shown
    assert 'random_erasing(p=1.0, scale=[0.02, 0.33], ratio=[0.3, 3.3], value="random")' in shown
    assert "solarize(threshold=100.5)" in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.solarize(300), r"solarize: threshold: got 300; give a number, 0.0 to 255.0"),
        (lambda p: p.posterize(2.5), r"posterize: bits: got 2.5; give an integer, 0 to 8"),
        (lambda p: p.grayscale(2), r"grayscale: num_output_channels: got 2; give 1 or 3"),
        (lambda p: p.random_grayscale(1.5), r"random_grayscale: p: got 1.5; give a number, 0.0 to 1.0"),
        (lambda p: p.adjust_sharpness(-1), r"adjust_sharpness: sharpness_factor: got -1; give a number, 0.0 to 1000"),
        (lambda p: p.color_jitter(-0.1), r"color_jitter: brightness: got -0.1; give None, one number from 0 or"),
        (lambda p: p.color_jitter(contrast=(2, 1)), r"color_jitter: contrast: got \[2, 1\]; give .* low <= high"),
        (lambda p: p.color_jitter(hue=0.7), r"color_jitter: hue: got 0.7; give .* each -0.5 to 0.5"),
        (lambda p: p.random_erasing(scale=(0.5, 0.1)), r"random_erasing: scale: got \[0.5, 0.1\]; give \[low, high\]"),
        (lambda p: p.random_erasing(value="x"), r"random_erasing: value: got 'x'; give \"random\", one value"),
        (
            lambda p: p.random_erasing(value=(1, 2)),
            r"random_erasing: image is uint8.* one for each of 3 channels \(given 2",
        ),
        (lambda p: p.equalize(fields=["nope"]), r"equalize: fields: got 'nope'; give names among image"),
        (lambda p: p.autocontrast(fields="image"), r"autocontrast: fields: got 'image'; give a list of strings"),
    ],
)
def test_errors_name_op_parameter_given_and_allowed(
    change: Callable[[carya.Pipeline], carya.Pipeline], message: str
) -> None:
    with pytest.raises(carya.InvalidArgument, match=message):
        change(carya.arrays({"image": arrays_with_mask()[0]}))
