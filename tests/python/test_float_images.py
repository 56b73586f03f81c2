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
    paths: list[Path] = []
    for number, pixels in enumerate(
        [picture(1, 61, 83), np.random.default_rng(2).integers(0, 256, (40, 33, 3), np.uint8)]
    ):
        paths.append(folder / f"{number}.png")
        Image.fromarray(np.asarray(pixels, np.uint8)).save(paths[-1])
    return carya.files(paths).decode_image().to_dtype("float32", scale=True)


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
