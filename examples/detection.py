#!/usr/bin/env python3
"""Pictures and boxes of a COCO file to padded batches with RetinaNet's targets.

    python examples/detection.py [IMAGES ANNOTATIONS] [--size 512] [--batch-size 8] [--epochs 1]

IMAGES is the folder of the pictures, ANNOTATIONS such as instances_train2017.json. Without them, pictures of coloured rectangles are made.
Each line says what a training step would get: how many objects a batch has, how many anchors have one, and how far the boxes that the
targets stand for are from those of the batch.
"""

from __future__ import annotations

import argparse
import json
import struct
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import carya

STRIDES = (8, 16, 32, 64, 128)  # of RetinaNet's five levels
OCTAVES = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))


def make_pictures(root: Path, count: int = 24) -> Path:
    """PNG files of 240 x 320 with up to five rectangles, of a color for each of three categories; the file of their boxes."""
    random = np.random.default_rng(0)
    images, annotations = [], []
    for number in range(count):
        pixels = random.integers(0, 60, (240, 320, 3), dtype=np.uint8)
        for _ in range(int(random.integers(0, 6))):
            category = int(random.integers(3))
            width, height = (int(side) for side in random.integers(24, 120, 2))
            left, top = int(random.integers(0, 320 - width)), int(random.integers(0, 240 - height))
            pixels[top : top + height, left : left + width, category] = 220
            box = {"image_id": number, "category_id": category, "bbox": [left, top, width, height]}
            annotations.append({"id": len(annotations), **box})
        rows = np.pad(pixels.reshape(240, -1), ((0, 0), (1, 0)))  # each row begins with the number of its filter
        data = b"\x89PNG\r\n\x1a\n"
        header = struct.pack(">IIBBBBB", 320, 240, 8, 2, 0, 0, 0)
        for kind, chunk in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")):
            data += struct.pack(">I", len(chunk)) + kind + chunk + struct.pack(">I", zlib.crc32(kind + chunk))
        (root / f"{number}.png").write_bytes(data)
        images.append({"id": number, "file_name": f"{number}.png"})
    path = root / "instances.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations}))
    return path


def anchors_of(size: int) -> np.ndarray:
    """RetinaNet's anchors of a square picture: nine in each place of five levels."""
    levels = [(-(-size // stride), -(-size // stride)) for stride in STRIDES]
    return carya.detection.grid_anchors((size, size), levels, [[4 * stride * o for o in OCTAVES] for stride in STRIDES])


def boxes_of(targets: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """The boxes that codes of anchors stand for: what a detector does with its predictions."""
    sides = anchors[:, 2:] - anchors[:, :2]
    middles = anchors[:, :2] + sides / 2 + targets[:, :2] * sides
    half = np.exp(targets[:, 2:]) * sides / 2
    return np.concatenate([middles - half, middles + half], axis=1)


def told(batch: Mapping[str, Any], anchors: np.ndarray) -> tuple[int, int, float]:
    """Objects, anchors that have one, and how far their boxes are from the batch's, in pixels."""
    found, farthest = 0, 0.0
    for row, matches in enumerate(batch["matches"]):
        taken = matches >= 0
        made = boxes_of(batch["box_targets"][row][taken], anchors[taken])
        found += len(made)
        farthest = max(farthest, float(np.abs(made - batch["boxes"][row][matches[taken]]).max(initial=0)))
    return int(np.sum(batch["boxes_count"])), found, farthest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", nargs="?")
    parser.add_argument("annotations", nargs="?")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=1)
    given = parser.parse_args()
    if (given.images is None) != (given.annotations is None):
        parser.error("give both the folder of the pictures and the file of the annotations, or neither")
    anchors = anchors_of(given.size)
    with tempfile.TemporaryDirectory() as made:
        images, annotations = given.images or made, given.annotations or make_pictures(Path(made))
        train = (
            carya.coco(images, annotations, crowd=False, invalid="drop")
            .shuffle(seed=1)
            .decode_image()
            .boxes(invalid="drop")
            .random_horizontal_flip()
            .scale_jitter(given.size, (0.5, 1.5))
            .random_crop(given.size, pad_if_needed=True)
            .sanitize_boxes(min_size=2)
            .batch(given.batch_size)
            .map_batch(carya.detection.RetinaNetTargets(anchors))
        )
        pictures = objects = 0
        with carya.Loader(train, epochs=given.epochs, on_error="replace") as loader:
            for epoch in range(given.epochs):
                for number, batch in enumerate(loader):
                    many, found, farthest = told(batch, anchors)
                    shapes = f"{batch['image'].shape}, boxes {batch['boxes'].shape}"
                    said = f"{many} objects, {found} anchors, within {farthest:.3f} pixels"
                    print(f"epoch {epoch}, batch {number}: {shapes}, {said}")
                    pictures, objects = pictures + len(batch["image"]), objects + many
        print(f"{objects} objects in {pictures} pictures, {len(anchors)} anchors each")


if __name__ == "__main__":
    main()
