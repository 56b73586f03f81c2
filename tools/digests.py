#!/usr/bin/env python3
"""Compares the digests of whole epochs between builds: digests.py build/release build/gcc.

Both builds deliver the same pipelines over the same pictures (made here; also the real photos when CARYA_TEST_DATA is
set), with other thread counts. Every digest must be equal: the stream is a function of nothing but its pipeline.
A build for aarch64 (the preset `arm`) runs in qemu with the Python that tools/arm_root.sh unpacked. --made: only the
pictures made here.
tests/python/test_simd.py compares SIMD targets and emulated processors in the same way.
"""

from __future__ import annotations

import io
import os
import platform
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


ARM_ROOT = Path(__file__).resolve().parent.parent / "build" / "arm64-root"
ARM_EMULATOR = ("qemu-aarch64-static", "-L", str(ARM_ROOT))


def absurd(jpeg: bytes) -> bytes:
    """The JPEG with other quantisers than it was made with and bits of its scan turned over: coefficients that no encoder
    writes, where the forms of libjpeg-turbo differ."""
    made = bytearray(jpeg)
    at = 2
    while made[at + 1] != 0xDA:  # from marker to marker
        if made[at + 1] == 0xDB:
            made[at + 5 : at + 5 + 64] = bytes([255 - at % 100]) * 64
        at += 2 + int.from_bytes(made[at + 2 : at + 4], "big")
    for place in range(at + 100, len(made) - 2, 997):
        made[place] ^= 4
    return bytes(made)


def make_pictures(folder: Path, count: int = 36) -> None:
    """Seeded pictures, of which nine on end and the nine behind them are all kinds: of odd sizes, smooth and noisy, JPEG of three samplings, gray, progressive, damaged, PNG."""
    random = np.random.default_rng(5)
    for number in range(count):
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
        elif number % 9 >= 5:
            jpeg = io.BytesIO()
            picture.save(jpeg, "JPEG", quality=90, subsampling=number % 3, progressive=number % 9 == 6)
            whole = jpeg.getvalue()
            (target / f"{number}.jpg").write_bytes(whole if number < 9 else absurd(whole))
        else:
            picture.save(target / f"{number}.jpg", quality=80 + number % 15, subsampling=number % 3)


def python_of(build: Path) -> tuple[list[str], dict[str, str]]:
    """The command that runs Python for this build's package, and the environment that it wants."""
    package = build.resolve() / "python"
    if not any(package.glob("carya/_core*-aarch64-*")) or platform.machine() == "aarch64":
        return [sys.executable], {"PYTHONPATH": str(package)}
    command = [*ARM_EMULATOR, str(ARM_ROOT / "usr" / "bin" / "python3.11")]
    return command, {"PYTHONHOME": str(ARM_ROOT / "usr"), "PYTHONPATH": f"{package}:{ARM_ROOT / 'python'}"}


def digests(
    root: Path, threads: int, python: Sequence[str] = (sys.executable,), program: str = PROGRAM, **variables: str
) -> list[str]:
    """One line per pipeline over the pictures below `root`, computed in a process of its own by that Python (perhaps
    in an emulator), with these environment variables. Errors: SystemExit with what the process said."""
    command = [*python, "-c", program, str(root), str(threads)]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        how = " ".join([*python, *(f"{name}={value}" for name, value in variables.items())])
        raise SystemExit(f"carya: the stream of {how} failed:\n{done.stderr[-3000:]}")
    return done.stdout.splitlines()


def main() -> int:
    builds = [Path(name) for name in sys.argv[1:] if name != "--made"]
    different = 0
    with tempfile.TemporaryDirectory() as scratch:
        make_pictures(Path(scratch))
        roots = [Path(scratch)]
        real = Path(os.environ.get("CARYA_TEST_DATA", "")) / "images"
        if "--made" not in sys.argv and os.environ.get("CARYA_TEST_DATA") and (real / "imagenet_sample").is_dir():
            photos = Path(scratch) / "real"
            photos.mkdir()
            (photos / "imagenet").symlink_to((real / "imagenet_sample").resolve())
            roots = [Path(scratch), photos]
        for root in roots:
            results = []
            for threads, build in enumerate(builds, 1):
                python, environment = python_of(build)
                results.append(digests(root, threads, python, **environment))
            for lines in zip(*results, strict=True):
                equal = len(set(lines)) == 1
                different += not equal
                print("equal    " if equal else "DIFFERENT", "  ".join(dict.fromkeys(lines)))
    print(f"digests of {', '.join(map(str, builds))}: {'equal' if not different else f'{different} differ'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
