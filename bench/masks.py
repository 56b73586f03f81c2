#!/usr/bin/env python3
"""What do masks cost beside their photos? Ceiling: 1.05 of the photos with boxes alone.

Each photo has seven drawn objects (COCO's mean), whose outlines `carya.coco(masks=)` keeps as pictures of numbers;
the detection guide's chain flips and resizes all to 300 x 300, with masks decoded as one channel and as three. CPU
time of the process per sample, one thread, the page cache warm, each case in turns with all others; quotients of the
medians. Run: `--data FOLDER` with JPEGs, `--rounds N`, `--smoke` for a second; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import carya
from carya._bench.measure import cached_in, median
from carya._bench.photos import find_photos, warm
from carya._bench.report import Options

OBJECTS = 7
CORNERS = 24


def annotated(paths: list[str], folder: Path) -> tuple[str, str]:
    """A folder of links to the photos, and a file of COCO with their drawn objects."""
    random = np.random.default_rng(0)
    photos = folder / "photos"
    photos.mkdir()
    images, annotations = [], []
    for number, path in enumerate(paths, 1):
        name = f"{number:06d}.jpg"
        os.symlink(os.path.abspath(path), photos / name)
        height, width, _ = carya.files([path]).decode_image()[0]["image"].shape
        images.append({"id": number, "file_name": name, "height": height, "width": width})
        for _ in range(OBJECTS):
            angle = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
            radius = random.uniform(0.05, 0.25) * random.uniform(0.7, 1.0, CORNERS)
            x = np.clip((random.uniform(0.1, 0.9) + radius * np.cos(angle)) * width, 0, width)
            y = np.clip((random.uniform(0.1, 0.9) + radius * np.sin(angle)) * height, 0, height)
            outline = np.stack([x, y], 1).round(1).ravel().tolist()
            box = [float(v) for v in (x.min(), y.min(), np.ptp(x) + 1, np.ptp(y) + 1)]
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": 1,
                    "bbox": box,
                    "area": box[2] * box[3],
                    "iscrowd": 0,
                    "segmentation": [outline],
                }
            )
    file = folder / "instances.json"
    file.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "thing"}]})
    )
    return str(photos), str(file)


def chain(source: Any) -> Any:
    return source.boxes().random_horizontal_flip().resize((300, 300)).batch(16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.7, help="of one case in one round")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    rounds, seconds = (2, 0.02) if given.smoke else (given.rounds, given.seconds)
    with tempfile.TemporaryDirectory() as name, cached_in(name):
        folder = Path(name)
        paths = find_photos(Options(data=given.data, smoke=given.smoke), folder)
        photos, file = annotated(paths, folder)
        pictures = str(folder / "masks")
        alone = carya.coco(photos, file)
        both = carya.coco(photos, file, masks=pictures)
        chains = {
            "photos": chain(alone.decode_image("RGB")),
            "masks": chain(both.decode_image()),
            "masks as RGB": chain(both.decode_image("RGB")),
        }
        warm(paths)
        mean = warm([str(path) for path in Path(pictures).rglob("*.png")])
        loaders = {
            case: carya.Loader(one, threads=1, daemon="embedded", prefetch_epochs=False) for case, one in chains.items()
        }
        took: dict[str, list[float]] = {case: [] for case in chains}
        for turn in range(rounds + 2):
            for case, loader in loaders.items():
                begun, samples, until = time.process_time(), 0, time.monotonic() + seconds
                while samples == 0 or time.monotonic() < until:
                    samples += sum(len(batch.records) for batch in loader)
                if turn > 1:  # the first ones make indexes
                    took[case].append((time.process_time() - begun) / samples * 1e6)
        for loader in loaders.values():
            loader.close()
    us = {case: median(times) for case, times in took.items()}
    over = {case: value / us["photos"] - 1 for case, value in us.items()}
    print(f"{len(paths)} photos, {OBJECTS} objects each, {mean:,.0f} bytes a mask picture")
    for case, value in us.items():
        print(f"  {case:14} {value:8,.1f} us per sample ({over[case]:+.1%} over the photos alone)")
    print(json.dumps({"bench": "masks", "photos": len(paths), "mask_bytes": mean, "us_per_sample": us, "over": over}))


if __name__ == "__main__":
    main()
