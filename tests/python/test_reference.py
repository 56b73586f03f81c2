"""Pixels beside those of the reference libraries: Pillow, and torchvision's arithmetic written out."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from conftest import picture
from PIL import Image

import carya


@pytest.fixture(scope="module")
def samples(real_photos: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Real photos, or larger ones made here."""
    if real_photos:
        return real_photos[::10]
    folder = tmp_path_factory.mktemp("large")
    paths = []
    for number in range(12):
        path = folder / f"{number}.jpg"
        Image.fromarray(picture(number, 240 + 17 * number, 500 - 13 * number)).save(
            path, quality=92, subsampling=number % 3
        )
        paths.append(str(path))
    return paths


def decoded(path: str) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def pillow_resize(image: Image.Image, size: tuple[int, int], mode: Image.Resampling) -> Image.Image:
    """Width first, then height, as Pillow always did before 12; newer ones take the cheaper order, and where bicubic
    overshoots and is cut between the passes the order shows."""
    return image.resize((size[1], image.height), mode).resize(size[::-1], mode)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(224, 224), (96, 160), (700, 640), (1000, 60)])
def test_resize_is_within_one_level_of_pillow(samples: list[str], interpolation: str, size: tuple[int, int]) -> None:
    mode = Image.Resampling[interpolation.upper()]
    chain = carya.files(samples).decode_image().resize(size, interpolation=interpolation)
    source = carya.files(samples).decode_image()
    close = total = 0
    for index in range(len(samples)):
        ours = chain[index]["image"].astype(np.int16)
        theirs = np.asarray(pillow_resize(Image.fromarray(source[index]["image"]), size, mode), np.int16)
        difference = np.abs(ours - theirs)
        assert difference.max() <= 2, samples[index]
        close += int((difference <= 1).sum())
        total += difference.size
    assert close / total >= 0.999


def test_resize_to_the_shorter_side_has_torchvision_s_shape(samples: list[str]) -> None:
    chain = carya.files(samples).decode_image()
    for index in range(len(samples)):
        height, width = chain[index]["image"].shape[:2]
        side = 128
        wanted = (side, int(side * width / height)) if height <= width else (int(side * height / width), side)
        assert chain.resize(side)[index]["image"].shape[:2] == wanted
        capped = chain.resize(side, max_size=140)[index]["image"].shape[:2]
        longer, shorter = max(height, width), min(height, width)
        if int(side * longer / shorter) > 140:
            assert max(capped) == 140
            assert min(capped) == int(140 * side / int(side * longer / shorter))


def test_decoding_is_libjpeg_turbo_s(samples: list[str]) -> None:
    """Pillow's wheels carry libjpeg-turbo too, but a newer one: nearly all values are equal, none is far off."""
    chain = carya.files(samples).decode_image()
    for index, path in enumerate(samples):
        ours, theirs = chain[index]["image"].astype(np.int16), np.asarray(decoded(path), np.int16)
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).mean() < 0.5


def test_png_is_exact_and_told_by_content(tmp_path: Path) -> None:
    pixels = picture(3, 40, 50)
    for mode in ("RGB", "L", "P", "RGBA", "1"):
        path = tmp_path / f"{mode}.jpg"  # the name lies
        image = Image.fromarray(pixels).convert(mode)
        image.save(path, "PNG")
        ours = carya.files([path]).decode_image()[0]["image"]
        if mode in ("RGB", "L"):
            assert np.array_equal(ours, np.asarray(image.convert("RGB")))
        assert ours.shape == (40, 50, 3)
    gray = carya.files([tmp_path / "L.jpg"]).decode_image(mode="L")[0]["image"]
    assert np.array_equal(gray[:, :, 0], np.asarray(Image.fromarray(pixels).convert("L")))


def test_other_formats_are_named(tmp_path: Path) -> None:
    for kind in ("WEBP", "GIF", "BMP", "TIFF"):
        buffer = io.BytesIO()
        Image.fromarray(picture(3, 40, 50)).save(buffer, kind)
        path = tmp_path / f"{kind}.jpg"
        path.write_bytes(buffer.getvalue())
        with pytest.raises(carya.SampleError, match=f"(?i){kind}"):
            carya.files([path]).decode_image()[0]


def test_exif_orientation_is_applied_when_asked(tmp_path: Path) -> None:
    from PIL import ImageOps

    for orientation in range(1, 9):
        path = tmp_path / f"{orientation}.jpg"
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(picture(orientation, 33, 47)).save(path, quality=95, exif=exif)
        plain = carya.files([path]).decode_image()[0]["image"]
        turned = carya.files([path]).decode_image(apply_exif=True)[0]["image"]
        reference = Image.fromarray(plain)
        reference.getexif()[0x0112] = orientation
        assert plain.shape == (33, 47, 3)
        assert np.array_equal(turned, np.asarray(ImageOps.exif_transpose(reference)))


def test_crops_flips_and_pads_are_exact(samples: list[str]) -> None:
    chain = carya.files(samples[:4]).decode_image()
    for index in range(4):
        whole = chain[index]["image"]
        height, width = whole.shape[:2]
        assert np.array_equal(chain.crop(5, 7, 50, 60)[index]["image"], whole[5:55, 7:67])
        top, left = round((height - 100) / 2), round((width - 90) / 2)
        assert np.array_equal(chain.center_crop((100, 90))[index]["image"], whole[top : top + 100, left : left + 90])
        assert np.array_equal(chain.random_horizontal_flip(p=1)[index]["image"], whole[:, ::-1])
        assert np.array_equal(chain.random_vertical_flip(p=1)[index]["image"], whole[::-1])
        assert np.array_equal(chain.random_horizontal_flip(p=0)[index]["image"], whole)
        for ours, theirs in (
            ("constant", "constant"),
            ("edge", "edge"),
            ("reflect", "reflect"),
            ("symmetric", "symmetric"),
        ):
            padded = chain.pad((1, 2, 3, 4), padding_mode=ours)[index]["image"]
            assert np.array_equal(padded, np.pad(whole, ((2, 4), (1, 3), (0, 0)), mode=theirs))
        assert np.array_equal(chain.to_layout("CHW")[index]["image"], whole.transpose(2, 0, 1))


def test_normalize_is_two_roundings_of_the_pixel(samples: list[str]) -> None:
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    chain = carya.files(samples[:3]).decode_image().resize((50, 60))
    for index in range(3):
        pixels = chain[index]["image"].astype(np.float32).transpose(2, 0, 1)
        scale = (1 / (255 * std)).astype(np.float32)[:, None, None]
        offset = (-mean / std).astype(np.float32)[:, None, None]
        ours = chain.normalize(mean, std)[index]["image"]
        assert ours.dtype == np.float32
        assert np.array_equal(ours, (pixels * scale).astype(np.float32) + offset)
        reference = (chain[index]["image"] / 255 - mean) / std
        assert np.abs(ours - reference.transpose(2, 0, 1)).max() < 1e-5
        assert np.array_equal(chain.normalize(mean, std, layout="HWC")[index]["image"], ours.transpose(1, 2, 0))
        scaled = chain.to_dtype("float32", scale=True)[index]["image"]
        assert np.abs(scaled - chain[index]["image"] / 255).max() < 1e-7


def test_float_arithmetic_is_numpy_s(samples: list[str]) -> None:
    mean = np.array([123.68, 116.78, 103.94], np.float32)
    chain = carya.files(samples[:3]).decode_image().resize((50, 60)).to_dtype("float32")
    for index in range(3):
        values = chain[index]["image"]
        assert np.array_equal(chain.subtract_mean(mean)[index]["image"], values - mean)
        assert np.array_equal(
            chain.scale((0.1, 2, 1 / 3))[index]["image"], values * np.array([0.1, 2, 1 / 3], np.float32)
        )
        planes = chain.to_layout("CHW").subtract_mean(mean)[index]["image"]
        assert np.array_equal(planes, (values - mean).transpose(2, 0, 1))


def test_random_resized_crops_have_torchvision_s_distribution(tmp_path: Path) -> None:
    """Area uniform in `scale`, aspect log-uniform in `ratio`: read off a picture that shows its own coordinates."""
    side = 256
    ramp = np.zeros((side, side, 3), np.uint8)
    ramp[:, :, 0] = np.arange(side)[:, None]
    ramp[:, :, 1] = np.arange(side)[None, :]
    path = tmp_path / "ramp.png"
    Image.fromarray(ramp).save(path)
    chain = carya.files([path]).decode_image().random_resized_crop(64, antialias=False, interpolation="nearest")
    heights, widths = [], []
    for epoch in range(600):
        crop = chain.sample(0, epoch=epoch)["image"].astype(int)
        heights.append((crop[-1, 0, 0] - crop[0, 0, 0]) * 64 / 63)
        widths.append((crop[0, -1, 1] - crop[0, 0, 1]) * 64 / 63)
    area = np.array(heights) * np.array(widths) / side**2
    aspect = np.log(np.array(widths) / np.array(heights))
    inside = area < 0.7  # above it crops that do not fit are drawn again, which bends the distribution
    assert 0.05 < area.min() < 0.15
    assert abs(np.median(area[inside]) - 0.39) < 0.06
    assert abs(aspect[inside].mean()) < 0.03
    assert np.abs(aspect).max() < np.log(4 / 3) + 0.1


def test_random_draws_are_fair_and_unrelated() -> None:
    pixels = np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1).repeat(400, axis=0)
    chain = carya.arrays({"image": pixels}).random_horizontal_flip().random_vertical_flip().batch(400)
    with carya.Loader(chain, seed=1) as loader:
        image = next(iter(loader))["image"]
    horizontal = image[:, 0, 0, 0] % 2 == 1
    vertical = image[:, 0, 0, 0] >= 2
    assert 150 < horizontal.sum() < 250
    assert 150 < vertical.sum() < 250
    assert abs(np.corrcoef(horizontal, vertical)[0, 1]) < 0.2
