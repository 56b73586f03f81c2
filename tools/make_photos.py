#!/usr/bin/env python3
"""Makes the demo's photos: about 1,000 JPEGs of ImageNet's sizes and spread, in twelve class folders.

    tools/make_photos.py OUT [--count 1000] [--seed 1] [--source FOLDER]

Source: the twelve nature photographs of Debian's package mate-backgrounds (GPL-2+, the authors are named in its
copyright file, which is copied beside the photos): redistributable, and in every Debian mirror. `apt-get download`
fetches the package without installing it and without root. Each photo is one class; a class's pictures are random
cuts of it, scaled, sometimes mirrored and toned, with sensor grain, and encoded with a quality that brings the file
near a size drawn from ImageNet's spread. The same seed gives the same pixels before encoding; the files' bytes also
depend on Pillow's libjpeg. What was made once is left alone.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

PACKAGE = "mate-backgrounds"
PHOTOS = "usr/share/backgrounds/mate/nature"
COPYRIGHT = f"usr/share/doc/{PACKAGE}/copyright"
DONE = "-made.txt"  # beside the folder, so that the folder holds photos only

# ImageNet's training photos, measured on a public sample of 371 of them: sides, bytes, sampling and quality.
LONG_SIDE = (500, 640)  # most have a long side of 500
SHORT_SIDE = (300, 480)
BYTES_MEAN = 170_000  # aimed at; what quality 96 cannot reach brings the mean to about 110 KB
BYTES_SIGMA = 0.60  # of the logarithm
QUALITIES = (75, 96)
SHARE_444, SHARE_GRAY = 0.76, 0.024  # the rest is 4:2:0

Job = tuple[str, str, int, int]  # source photo, file to write, seed, number


def fetch_source(folder: Path) -> Path:
    """Downloads and unpacks the Debian package below `folder`. Errors: SystemExit that says what to do."""
    advice = (
        f"The demo's photos come from Debian's package {PACKAGE}. With your own photos (one folder per class) it "
        "needs none:  make demo DATA=path/to/photos"
    )
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SystemExit(f"carya: apt-get and dpkg-deb are not here.\n       {advice}")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["apt-get", "download", "-qq", PACKAGE], cwd=folder, capture_output=True, text=True)
    packages = sorted(folder.glob(f"{PACKAGE}_*.deb"))
    if done.returncode != 0 or not packages:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SystemExit(
            f"carya: apt-get download {PACKAGE} failed: {last}\n       Check the network and run apt-get update. {advice}"
        )
    subprocess.run(["dpkg-deb", "-x", str(packages[-1]), str(folder)], check=True)
    return folder


def draw_size(random: np.random.Generator) -> tuple[int, int]:
    """Width and height: seven in ten are 500 x 375 or so, a quarter stands upright."""
    if random.random() < 0.7:
        long, short = 500, int(random.choice([375, 333, 375, 334, 400, 375]))
    else:
        long, short = int(random.integers(*LONG_SIDE)), int(random.integers(*SHORT_SIDE))
    return (short, long) if random.random() < 0.24 else (long, short)


def cut(photo: Image.Image, width: int, height: int, random: np.random.Generator) -> Image.Image:
    """A random part of the photo, one to three times as large as asked, scaled down to width x height."""
    most = min(photo.width / width, photo.height / height)
    scale = min(most, math.exp(random.uniform(0, math.log(3))))
    cut_width, cut_height = int(width * scale), int(height * scale)
    left = int(random.integers(0, photo.width - cut_width + 1))
    top = int(random.integers(0, photo.height - cut_height + 1))
    box = (left, top, left + cut_width, top + cut_height)
    part = photo.resize((width, height), Image.Resampling.BICUBIC, box=box)
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else part


def tone_and_grain(part: Image.Image, random: np.random.Generator) -> Image.Image:
    """Another exposure, another light and the grain of a sensor: the background blur of flower photos has none."""
    pixels = np.asarray(part, dtype=np.float32)
    gain = np.float32(random.uniform(0.75, 1.25)) * random.uniform(0.94, 1.06, 3).astype(np.float32)
    shape = pixels.shape[:2]
    luma = random.standard_normal(shape, dtype=np.float32) * np.float32(math.exp(random.normal(2.0, 0.6)))
    pixels = pixels * gain + luma[..., None]
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


def encode(part: Image.Image, random: np.random.Generator) -> bytes:
    """The JPEG whose size is nearest to one drawn from ImageNet's spread, within the qualities allowed."""
    target = BYTES_MEAN * math.exp(random.normal(-(BYTES_SIGMA**2) / 2, BYTES_SIGMA))
    kind = random.random()
    options: dict[str, object] = {"subsampling": "4:4:4" if kind < SHARE_444 else "4:2:0"}
    if kind > 1 - SHARE_GRAY:
        part, options = part.convert("L"), {}
    low, high = QUALITIES
    best: bytes | None = None
    while low <= high:
        quality = (low + high) // 2
        buffer = io.BytesIO()
        part.save(buffer, "JPEG", quality=quality, **options)
        data = buffer.getvalue()
        if best is None or abs(len(data) - target) < abs(len(best) - target):
            best = data
        if len(data) < target:
            low = quality + 1
        else:
            high = quality - 1
    assert best is not None
    return best


_photos: dict[str, Image.Image] = {}


def make_one(job: Job) -> int:
    source, target, seed, number = job
    if source not in _photos:
        _photos.clear()  # one at a time: jobs come in order of their source
        with Image.open(source) as image:
            _photos[source] = image.convert("RGB")
    random = np.random.default_rng([seed, number])
    width, height = draw_size(random)
    data = encode(tone_and_grain(cut(_photos[source], width, height, random), random), random)
    Path(target).write_bytes(data)
    return len(data)


def show_progress(done: int, total: int) -> None:
    if sys.stdout.isatty() and not os.environ.get("CI"):
        print(f"\r\033[1mcarya\033[0m  photos {done}/{total}", end="" if done < total else "\n", flush=True)


def make_all(sources: list[Path], out: Path, count: int, seed: int) -> None:
    """Writes into a folder beside `out` and renames it, so that an interrupted run leaves nothing half made."""
    start = time.monotonic()
    print(f"\033[1mcarya\033[0m  making {count} photos of {len(sources)} classes in {out}", flush=True)
    half_made = out.with_name(out.name + ".part")
    shutil.rmtree(half_made, ignore_errors=True)
    jobs: list[Job] = []
    for number in range(count):
        source = sources[number * len(sources) // count]
        folder = half_made / source.stem.lower()
        folder.mkdir(parents=True, exist_ok=True)
        jobs.append((str(source), str(folder / f"{source.stem.lower()}_{number:04d}.jpg"), seed, number))
    sizes = []
    with ProcessPoolExecutor(max_workers=min(8, len(os.sched_getaffinity(0)))) as pool:
        for size in pool.map(make_one, jobs, chunksize=8):
            sizes.append(size)
            show_progress(len(sizes), count)
    mean = sum(sizes) / len(sizes)
    note = f"{count} photos, seed {seed}, mean {mean:.0f} bytes, from Debian's {PACKAGE}\n"
    shutil.rmtree(out, ignore_errors=True)
    half_made.rename(out)
    out.with_name(out.name + DONE).write_text(note)
    print(f"\033[1mcarya\033[0m  {count} photos, mean {mean / 1000:.0f} KB, made in {time.monotonic() - start:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--source", type=Path, help="a folder of large photos to cut, one class each")
    options = parser.parse_args()
    if options.out.with_name(options.out.name + DONE).is_file() and options.out.is_dir():
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out.parent) as scratch:
        folder = options.source or fetch_source(Path(scratch)) / PHOTOS
        sources = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        if not sources:
            raise SystemExit(f"carya: no photos in {folder}.\n       Try:  make demo DATA=path/to/photos")
        make_all(sources, options.out, options.count, options.seed)
        licence = Path(scratch) / COPYRIGHT
        if licence.is_file():
            shutil.copyfile(licence, options.out.parent / f"{options.out.name}.copyright")


if __name__ == "__main__":
    main()
