"""`transcode`: smaller JPEGs before everything else, the same bytes anywhere, which a cache may keep."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import workers
from daemons import running, until
from PIL import Image
from streams import digest

import carya
from carya import _core

SIDE = 100


def bytes_of(path: Path, **options: Any) -> bytes:
    """The file that the operation makes of one."""
    return bytes(carya.files([str(path)]).transcode(**options).sample(0)["image"])


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def chain(photos: Path, **options: Any) -> carya.Pipeline:
    source = carya.image_folder(photos).shuffle(seed=5).transcode(**{"max_side": 64, **options})
    return source.decode_image().random_resized_crop(40).random_horizontal_flip().batch(4)


def stream(pipeline: carya.Pipeline, epochs: int = 3, **options: Any) -> str:
    with carya.Loader(pipeline, epochs=epochs, **{"daemon": "embedded", "threads": 1} | options) as loader:
        return digest(batch for _ in range(epochs) for batch in loader)


def noise(height: int, width: int, channels: int = 3) -> Image.Image:
    levels = np.random.default_rng(height * width).integers(
        0, 255, (height // 8 + 1, width // 8 + 1, channels), np.uint8
    )
    return Image.fromarray(levels[..., 0] if channels == 1 else levels).resize(
        (width, height), Image.Resampling.BICUBIC
    )


@pytest.mark.parametrize("quality", [1, 50, 90, 100])
def test_what_fits_is_pillow_s_encoding(tmp_path: Path, quality: int) -> None:
    image = noise(61, 90)
    image.save(tmp_path / "one.png")
    told = io.BytesIO()
    image.save(told, "JPEG", quality=quality, subsampling="4:2:0", optimize=True)
    made = opened(bytes_of(tmp_path / "one.png", max_side=90, quality=quality))
    assert (made.format, made.size, made.mode) == ("JPEG", (90, 61), "RGB")
    np.testing.assert_array_equal(np.asarray(made), np.asarray(opened(told.getvalue())))


@pytest.mark.parametrize(("height", "width"), [(240, 320), (320, 240), (101, 101), (400, 3), (3, 1000)])
@pytest.mark.parametrize("kind", ["jpg", "gray.jpg", "png"])
def test_what_is_larger_becomes_pillow_s_smaller_one(tmp_path: Path, kind: str, height: int, width: int) -> None:
    image = noise(height, width, 1 if "gray" in kind else 3)
    path = tmp_path / f"one.{kind}"
    image.save(path, **({"quality": 95} if "jpg" in kind else {}))
    made = opened(bytes_of(path, max_side=SIDE))
    longer = max(height, width)
    size = (max(1, round(width * SIDE / longer)), max(1, round(height * SIDE / longer)))
    assert made.size == size
    assert made.mode == ("L" if "gray" in kind else "RGB")
    wanted = opened(path.read_bytes()).resize(size, Image.Resampling.BILINEAR)
    told = io.BytesIO()
    wanted.save(told, "JPEG", quality=90, subsampling="4:2:0", optimize=True)
    found, exact = (np.asarray(one, np.float64) for one in (made, wanted))
    lost = np.abs(np.asarray(opened(told.getvalue()), np.float64) - exact).mean()
    assert np.abs(found - exact).mean() <= 1.05 * lost + 0.1, "as far from the smaller picture as Pillow's file of it"


def test_a_jpeg_that_fits_stays_as_it_is(tmp_path: Path) -> None:
    noise(60, 80).save(tmp_path / "one.jpg", quality=30, subsampling=0, progressive=True)
    assert bytes_of(tmp_path / "one.jpg", max_side=80, quality=95) == (tmp_path / "one.jpg").read_bytes()
    assert bytes_of(tmp_path / "one.jpg", max_side=79) != (tmp_path / "one.jpg").read_bytes()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_stay_turned_as_they_were(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    noise(150, 240).save(tmp_path / "one.jpg", quality=95, exif=exif)
    made = bytes_of(tmp_path / "one.jpg", max_side=SIDE)
    assert opened(made).getexif().get(0x0112, 1) == orientation
    turned = carya.files([str(tmp_path / "one.jpg")]).transcode(max_side=SIDE).decode_image(apply_exif=True)
    swaps = orientation > 4
    assert turned.sample(0)["image"].shape == ((100, 63, 3) if swaps else (63, 100, 3))


PRINT = """
import hashlib, sys, carya
pipeline = carya.image_folder(sys.argv[1]).transcode(max_side=64, quality=80)
made = hashlib.sha256()
for index in range(27):
    made.update(bytes(pipeline.sample(index)["image"]))
print(made.hexdigest())
"""


def test_bytes_depend_on_no_machine(photos: Path) -> None:
    """Not on our targets, not on libjpeg-turbo's own code for processors."""
    made = hashlib.sha256()
    pipeline = carya.image_folder(photos).transcode(max_side=64, quality=80)
    for index in range(27):
        made.update(bytes(pipeline.sample(index)["image"]))
    forced = [{"CARYA_SIMD": target} for target in (_core.simd_targets()[0], _core.simd_targets()[-1])]
    for environment in [*forced, {"JSIMD_FORCENONE": "1"}, {"JSIMD_FORCESSE2": "1"}]:
        told = subprocess.check_output(
            [sys.executable, "-c", PRINT, photos], env={**os.environ, **environment}, text=True
        )
        assert told.strip() == made.hexdigest(), environment


def test_threads_daemons_workers_and_orders_give_the_same(photos: Path) -> None:
    wanted = stream(chain(photos))
    assert stream(chain(photos), threads=2) == wanted
    assert stream(chain(photos), reorder="off", decode_index="off") == wanted
    with running() as daemon:
        assert stream(chain(photos), daemon=daemon.socket) == wanted
    with workers.running("--insecure") as worker:
        remote = {"remote": [f"127.0.0.1:{worker.port}"], "placement": "remote:1"}
        assert stream(chain(photos), **remote) == wanted
    assert stream(chain(photos, quality=89)) != wanted


@pytest.mark.parametrize("form", [None, "records", "after"])
def test_what_is_kept_changes_no_bit_and_serves_later_runs(photos: Path, tmp_path: Path, form: str | None) -> None:
    wanted = stream(chain(photos))
    choice = {None: {}, "records": {"form": "records"}, "after": {"after": "transcode"}}[form]
    cache = {"disk": (tmp_path / "tier", "64MB"), **choice}
    assert stream(chain(photos), cache={"memory": "64MB", **choice}) == wanted
    with carya.Loader(chain(photos), epochs=3, daemon="embedded", threads=1, cache=cache) as loader:
        assert digest(batch for _ in range(3) for batch in loader) == wanted
        until(lambda: loader.stats()["cache"]["files"][0]["written"] == 27)
    with carya.Loader(chain(photos), epochs=3, daemon="embedded", threads=2, cache=cache) as loader:
        assert digest(batch for _ in range(3) for batch in loader) == wanted
        told = loader.stats()
        assert told["cache"]["files"][0]["hits"] == 3 * 27
        assert told["bytes_read"] == 0
        assert told["cache"]["after"] == ("transcode" if form == "after" else told["cache"]["after"])
    other = carya.Loader(chain(photos, quality=20), epochs=3, daemon="embedded", threads=1, cache=cache)
    with other as loader:
        assert digest(batch for _ in range(3) for batch in loader) == stream(chain(photos, quality=20))
        assert (loader.stats()["cache"]["files"][0]["hits"] > 2 * 27) == (form == "records")


def test_kept_files_that_are_damaged_are_made_again(photos: Path, tmp_path: Path) -> None:
    cache = {"disk": (tmp_path / "tier", "64MB"), "after": "transcode"}
    wanted = stream(chain(photos), cache=cache)
    (segment,) = (tmp_path / "tier").rglob("*.segment")
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2 :: 97] = bytes(len(damaged[len(damaged) // 2 :: 97]))
    segment.write_bytes(damaged)
    assert stream(chain(photos), cache=cache) == wanted


def test_a_broken_record_is_broken_here(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "own")
    (tmp_path / "own" / "class_a" / "00.jpg").write_bytes(b"no picture at all")
    with pytest.raises(carya.SampleError, match="transcode: not a JPEG or PNG"):
        stream(chain(tmp_path / "own"))
    with carya.Loader(chain(tmp_path / "own"), epochs=1, daemon="embedded", on_error="mask") as loader:
        assert sum(int((~batch.valid).sum()) for batch in loader) == 1


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda p: p.transcode(0), "max_side"),
        (lambda p: p.transcode(70_000), "max_side"),
        (lambda p: p.transcode(quality=0), "quality"),
        (lambda p: p.transcode(quality=101), "quality"),
        (lambda p: p.transcode(fields=["nothing"]), "nothing"),
        (lambda p: p.transcode().transcode(), "put it first, once"),
        (lambda p: p.decode_image().transcode(), "put it first, once"),
        (lambda p: p.transcode().batch(4), "no fixed shape"),
    ],
)
def test_what_cannot_be_is_said(photos: Path, build: Any, words: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=words):
        _ = build(carya.image_folder(photos)).outputs
    with pytest.raises(carya.InvalidArgument, match="encoded"):
        _ = carya.arrays({"x": np.zeros((3, 2), np.uint8)}).transcode().outputs


def test_it_is_written_and_read(photos: Path) -> None:
    assert carya.Pipeline.from_json(chain(photos).to_json()) == chain(photos)
    assert "transcode(max_side=64, quality=90)" in repr(chain(photos))
