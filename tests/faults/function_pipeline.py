"""The stream of `functions.py`: a dataset, functions with random numbers, operations between them; in a module that worker processes
can import."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import carya

RECORDS, ROWS = 240, 8


class Pictures:
    """Small pictures; a record is some 3 KB."""

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> dict[str, Any]:
        rng = np.random.default_rng(index)
        return {"image": rng.integers(0, 256, (32, 32, 3), np.uint8), "number": index}


def wanted(sample: dict[str, Any]) -> bool:
    return sample["number"] % 7 != 3


def noisy(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some 1 ms of work."""
    for _ in range(4):
        image = image + rng.integers(0, 2, image.shape, np.uint8)
    return np.sort(image, axis=0)


def halved(image: np.ndarray) -> np.ndarray:
    return image / np.float32(2)


def pipeline() -> carya.Pipeline:
    p = carya.dataset(Pictures()).filter(wanted).shuffle(seed=5).map(noisy, fields="image")
    return p.random_crop(24).random_horizontal_flip().map(halved, fields="image").batch(ROWS)


def digest(batch: Any) -> str:
    state = hashlib.sha256(batch.records.tobytes())
    for name in ("image", "number"):
        state.update(np.ascontiguousarray(batch[name]).tobytes())
    return state.hexdigest()[:16]
