#!/usr/bin/env python3
"""Compares the digests of whole epochs between builds: digests.py build/release build/gcc.

Both builds deliver the same pipelines over the same pictures (made here; also the real photos when CARYA_TEST_DATA is
set), with other thread counts. Every digest must be equal: the stream is a function of nothing but its pipeline.
tests/python/test_simd.py compares SIMD targets and emulated processors in the same way.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

PROGRAM = """
import hashlib, sys
import carya
root, threads = sys.argv[1], int(sys.argv[2])
base = carya.image_folder(root).shuffle(seed=7).decode_image()
mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
chains = {
    "crop, flip, normalize": base.random_resized_crop(96).random_horizontal_flip().normalize(mean=mean, std=std),
    "crop, flip, uint8": base.random_resized_crop(64).random_horizontal_flip(),
    "resize bicubic, center": base.resize(120, interpolation="bicubic").center_crop(112).to_layout("CHW"),
    "colors": base.equalize().random_resized_crop(64).color_jitter(0.4, 0.4, 0.4, 0.1).adjust_sharpness(1.7)
        .random_erasing(value="random").random_grayscale(0.2)
        .random_apply(carya.ops().invert().random_vertical_flip(), p=0.3)
        .autocontrast().to_dtype("float32").subtract_mean((123.7, 116.3, 103.5)).scale(1 / 58),
    "warps": base.random_rotation(30, "bilinear").random_resized_crop(64).random_affine(
        9, (0.1, 0.1), (0.8, 1.2), (-9, 9, -5, 5), "bilinear", fill=(1, 2, 3)).rotate(10).gaussian_blur((5, 23)),
    "two views": base.two_views(carya.ops().random_resized_crop(48).random_horizontal_flip()
        .random_apply(carya.ops().color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8).normalize(mean=mean, std=std)),
}
for name, chain in chains.items():
    digest = hashlib.sha256()
    with carya.Loader(chain.batch(8, drop_last=False), threads=threads, on_error="mask") as loader:
        for epoch in range(2):
            for batch in loader:
                for key in sorted(batch):
                    digest.update(key.encode() + bytes(memoryview(batch[key]).cast("B")))
    print(name, digest.hexdigest()[:32], sep="|")
"""


def make_pictures(folder: Path) -> None:
    """Seeded pictures of odd sizes: smooth and noisy, JPEG of three samplings, gray, PNG."""
    random = np.random.default_rng(5)
    for number in range(36):
        height, width = random.integers(100, 260, 2)
        ramp = np.linspace(0, 255, height * width * 3).reshape(height, width, 3)
        noise = random.normal(0, 40, (height, width, 3))
        picture = Image.fromarray(np.clip(ramp + noise * (number % 3), 0, 255).astype(np.uint8))
        target = folder / f"class{number % 3}"
        target.mkdir(exist_ok=True)
        if number % 9 == 8:
            picture.save(target / f"{number}.png")
        elif number % 9 == 7:
            picture.convert("L").save(target / f"{number}.jpg", quality=88)
        else:
            picture.save(target / f"{number}.jpg", quality=80 + number % 15, subsampling=number % 3)


def digests(root: Path, threads: int, emulator: Sequence[str] = (), **variables: str) -> list[str]:
    """One line per pipeline over the pictures below `root`, computed in a process of its own, below the emulator if
    one is given, with these environment variables. Errors: SystemExit with what the process said."""
    command = [*emulator, sys.executable, "-c", PROGRAM, str(root), str(threads)]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        how = " ".join([*emulator, *(f"{name}={value}" for name, value in variables.items())])
        raise SystemExit(f"carya: the stream of {how} failed:\n{done.stderr[-3000:]}")
    return done.stdout.splitlines()


def main() -> int:
    builds = [Path(name) for name in sys.argv[1:]]
    different = 0
    with tempfile.TemporaryDirectory() as scratch:
        make_pictures(Path(scratch))
        roots = [Path(scratch)]
        real = Path(os.environ.get("CARYA_TEST_DATA", "")) / "images"
        if os.environ.get("CARYA_TEST_DATA") and (real / "imagenet_sample").is_dir():
            photos = Path(scratch) / "real"
            photos.mkdir()
            (photos / "imagenet").symlink_to((real / "imagenet_sample").resolve())
            roots = [Path(scratch), photos]
        for root in roots:
            results = [
                digests(root, threads, PYTHONPATH=str(build.resolve() / "python"))
                for threads, build in enumerate(builds, 1)
            ]
            for lines in zip(*results, strict=True):
                equal = len(set(lines)) == 1
                different += not equal
                print("equal    " if equal else "DIFFERENT", "  ".join(dict.fromkeys(lines)))
    print(f"digests of {', '.join(map(str, builds))}: {'equal' if not different else f'{different} differ'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
