"""Ops on images cast to float32 before, beside torch on float tensors and definitions in float64."""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import picture
from PIL import Image

import carya

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> carya.Pipeline:
    """Two images, decoded, in 0..1."""
    folder = tmp_path_factory.mktemp("floats")
    return carya.files(pictures_in(folder)).decode_image().to_dtype("float32", scale=True)


def pictures_in(folder: Path) -> list[Path]:
    paths: list[Path] = []
    for number, pixels in enumerate(
        [picture(1, 61, 83), np.random.default_rng(2).integers(0, 256, (40, 33, 3), np.uint8)]
    ):
        paths.append(folder / f"{number}.png")
        Image.fromarray(np.asarray(pixels, np.uint8)).save(paths[-1])
    return paths


def luma(pixels: Array) -> Array:
    return pixels.astype(np.float64) @ np.array([0.299, 0.587, 0.114])


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [(20, 30), (90, 100)])
def test_resize_is_torch_s(floats: carya.Pipeline, interpolation: Any, antialias: bool, size: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    resized = floats.resize(size, interpolation=interpolation, antialias=antialias)
    for index in range(2):
        before = torch.from_numpy(floats[index]["image"].transpose(2, 0, 1).copy())[None]
        wanted = torch.nn.functional.interpolate(
            before, size, mode=interpolation, antialias=antialias, align_corners=False
        )
        difference = np.abs(resized[index]["image"] - wanted[0].numpy().transpose(1, 2, 0)).max()
        assert difference < 5e-6


def test_a_blur_is_its_definition(floats: carya.Pipeline) -> None:
    blurred = floats.gaussian_blur((7, 5), sigma=1.3)
    for index in range(2):
        wanted = floats[index]["image"].astype(np.float64)
        for axis, size in ((1, 7), (0, 5)):
            places = np.arange(size) - size // 2
            weights = np.exp(-0.5 * (places / 1.3) ** 2)
            beside = [(0, 0)] * 3
            beside[axis] = (size // 2, size // 2)
            padded = np.pad(wanted, beside, mode="reflect")
            windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=axis)
            wanted = windows @ (weights / weights.sum())
        assert np.abs(blurred[index]["image"] - wanted).max() < 1e-4


@pytest.mark.parametrize("factor", [0.3, 1.0, 1.9])
def test_a_jitter_of_one_factor_is_its_definition(floats: carya.Pipeline, factor: float) -> None:
    only = (factor, factor)
    for index in range(2):
        before = floats[index]["image"].astype(np.float64)
        gray = luma(before)[:, :, None]
        bases = {"brightness": np.zeros_like(gray), "contrast": np.full_like(gray, gray.mean()), "saturation": gray}
        for name, base in bases.items():
            wanted = np.clip(base + (before - base) * factor, 0, 1)
            made = floats.color_jitter(**{name: only})[index]["image"]  # type: ignore[arg-type]
            assert np.abs(made - wanted).max() < 2e-6, name


@pytest.mark.parametrize("turn", [-0.4, 0.1, 0.5])
def test_a_turned_hue_is_colorsys_s(floats: carya.Pipeline, turn: float) -> None:
    made = floats.color_jitter(hue=(turn, turn))[1]["image"]
    for y, x in np.ndindex(8, 33):
        hue, saturation, value = colorsys.rgb_to_hsv(*floats[1]["image"][y, x].tolist())
        wanted = colorsys.hsv_to_rgb((hue + turn) % 1.0, saturation, value)
        assert made[y, x] == pytest.approx(wanted, abs=1e-5)


def test_gray_and_inverted(floats: carya.Pipeline) -> None:
    before = floats[0]["image"]
    gray = floats.grayscale()[0]["image"]
    assert gray.shape == (*before.shape[:2], 1)
    assert np.abs(gray[:, :, 0] - luma(before)).max() < 1e-6
    assert np.array_equal(floats.invert()[0]["image"], 1 - before)


def test_moved_pixels_are_the_same_values(floats: carya.Pipeline) -> None:
    before = floats[0]["image"]
    assert np.array_equal(floats.crop(5, 7, 20, 30)[0]["image"], before[5:25, 7:37])
    assert np.array_equal(floats.random_horizontal_flip(p=1.0)[0]["image"], before[:, ::-1])
    padded = floats.pad((1, 2, 3, 4), fill=51)[0]["image"]
    assert np.array_equal(padded[2:-4, 1:-3], before)
    assert padded[0, 0] == pytest.approx(0.2)
    turned = floats.crop(0, 0, 33, 33).rotate(90)[0]["image"]
    assert np.array_equal(turned, np.rot90(before[:33, :33]))


def test_a_loader_gives_what_an_index_gives(floats: carya.Pipeline) -> None:
    pipeline = (
        floats.random_resized_crop(24).random_horizontal_flip().color_jitter(0.2, 0.2, 0.2, 0.1).normalize(0.5, 0.5)
    )
    with carya.Loader(pipeline.batch(2), daemon="embedded") as loader:
        batch = next(iter(loader))
        rows = [np.array(row) for row in batch["image"]]
    for index in range(2):
        assert np.array_equal(rows[index], pipeline[index]["image"])


def test_colors_want_values_up_to_one(floats: carya.Pipeline) -> None:
    photos = carya.image_folder("photos").decode_image()
    with pytest.raises(carya.InvalidArgument, match=r'to_dtype\("float32", scale=True\) may come before'):
        photos.to_dtype("float32").gaussian_blur(3)
    with pytest.raises(carya.InvalidArgument, match="uint8 HWC images: put it before normalize, to_dtype"):
        floats.equalize()
    with pytest.raises(carya.InvalidArgument, match="float32"):
        floats.normalize(0.5, 0.5).random_horizontal_flip()


def test_halves_are_those_of_numpy(tmp_path: Path) -> None:
    paths = pictures_in(tmp_path)
    for chain in (
        carya.files(paths).decode_image().resize((40, 50)).normalize(0.5, 0.25),
        carya.files(paths).decode_image().resize((40, 50)).to_dtype("float32").subtract_mean((123.68, 116.78, 103.94)),
        carya.files(paths).decode_image().to_dtype("float32", scale=True).resize((40, 50)).to_layout("CHW"),
    ):
        halves = chain.to_dtype("float16")
        assert halves.outputs[0][1] == "float16"
        for index in range(len(paths)):
            wanted = chain[index]["image"].astype(np.float16)
            np.testing.assert_array_equal(halves[index]["image"].view(np.uint16), wanted.view(np.uint16))
    with carya.Loader(halves.batch(len(paths)), threads=1, epochs=1) as loader:
        for batch in loader:
            assert batch["image"].dtype == np.float16
            np.testing.assert_array_equal(batch["image"][0], halves[int(batch.records[0])]["image"])


def test_halves_of_any_number_are_those_of_numpy() -> None:
    draw = np.random.default_rng(0)
    bits = draw.integers(0, 2**32, 100_000, np.uint32)
    near = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)  # and half way
    values = np.concatenate([bits, near, near + 0x1000, near - 1, near + 0xFFF, near + 1]).view(np.float32)
    values = np.concatenate(
        [values, np.float32([0, -0.0, 65504, 65519.99, 65520, 1e30, 2**-24, 2**-25, 2**-26, np.inf])]
    )
    half = carya.arrays({"x": values[None]}).to_dtype("float16", fields=["x"])[0]["x"]
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = values.astype(np.float16)
    odd = np.isnan(values)
    np.testing.assert_array_equal(np.isnan(half), odd)
    np.testing.assert_array_equal(half.view(np.uint16)[~odd], wanted.view(np.uint16)[~odd])
    levels = np.arange(256, dtype=np.uint8).repeat(3)
    array = carya.arrays({"x": levels[None]}).normalize(0.4, 0.3, layout="keep", fields=["x"])
    halves = array.to_dtype("float16", fields=["x"])[0]["x"]
    np.testing.assert_array_equal(halves, array[0]["x"].astype(np.float16))


def test_what_has_no_halves_is_refused() -> None:
    photos = carya.image_folder("photos").decode_image()
    with pytest.raises(carya.InvalidArgument, match=r"float32 \(for dtype"):
        photos.to_dtype("float16")
    with pytest.raises(carya.InvalidArgument, match="scale"):
        photos.to_dtype("float32").to_dtype("float16", scale=True)
    with pytest.raises(carya.InvalidArgument, match="normalize"):
        photos.to_dtype("float32").to_dtype("float16").normalize(0.5, 0.5)
