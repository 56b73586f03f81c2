"""The photos of a bench: found, or made for a smoke run; and what every loader makes of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .._errors import NotFound
from .report import Options

# A random resized crop to SIDE and a flip, in batches; float32 is normalized and CHW.
SIDE = 224
BATCH = 128
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

_PLACES = ("build/demo/photos", "build/photos")


def find_photos(options: Options, scratch: Path) -> list[str]:
    """JPEGs under --data; without it, under $CARYA_BENCH_DATA, the shared test data or what `make demo` made; sorted.

    Errors: NotFound that says what to give.
    """
    if options.data is not None:  # figures of other photos would be taken for those of this folder
        found = _jpegs(options.data)
        if not found:
            raise NotFound(f"bench: --data: no JPEG (.jpg, .jpeg) in {options.data!r}; give a folder of photos")
        return found
    if options.smoke:
        return make_photos(scratch, 24)
    candidates = [os.environ.get("CARYA_BENCH_DATA")]
    if os.environ.get("CARYA_TEST_DATA"):
        candidates.append(os.path.join(os.environ["CARYA_TEST_DATA"], "images", "imagenet_sample"))
    for folder in [*candidates, *_PLACES]:
        if folder and os.path.isdir(folder) and (found := _jpegs(folder)):
            return found
    raise NotFound("bench: no photos: give --data FOLDER with JPEGs, or run `make demo` once, which makes some")


def _jpegs(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def warm(paths: list[str]) -> float:
    """Read all once, so that they are in the page cache; the mean size in bytes."""
    total = 0
    for path in paths:
        with open(path, "rb") as file:
            total += len(file.read())
    return total / len(paths)


def make_photos(folder: Path, count: int) -> list[str]:
    """Small JPEGs with some structure, by Pillow. For smoke runs."""
    from PIL import Image

    random = np.random.default_rng(0)
    paths = []
    for number in range(count):
        small = random.integers(0, 256, (12, 16, 3), np.uint8)
        path = folder / f"{number:03d}.jpg"
        Image.fromarray(small).resize((320, 240), Image.Resampling.BICUBIC).save(path, quality=90)
        paths.append(str(path))
    return paths
