"""Functions of pictures for tests, in a module of their own: what unpickles them imports no test."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

GAMMA = (np.linspace(0, 1, 256) ** 0.6 * 255).astype(np.uint8)


def marked(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """In place, and with numbers of its own, as users write functions."""
    image[0] = rng.integers(0, 256, image[0].shape)
    return image


def slow(image: np.ndarray) -> np.ndarray:
    time.sleep(0.002)
    return image


def cut(image: np.ndarray) -> np.ndarray:
    return image[:8, :8]


def mean_of(batch: dict[str, np.ndarray]) -> dict[str, Any]:
    return {"mean": batch["image"].mean((1, 2, 3)), "label": batch["label"]}


def bright(sample: dict[str, Any]) -> bool:
    return bool(sample["image"].mean() > 1)


def gamma(image: np.ndarray) -> np.ndarray:
    return GAMMA[image]


def brighter(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One number for the whole picture, so that each pixel follows from itself."""
    return (image.astype(np.uint16) + rng.integers(0, 60)).clip(0, 255).astype(np.uint8)


def inverted(sample: dict[str, Any]) -> dict[str, Any]:
    return sample | {"image": 255 - sample["image"]}


def mirrored(image: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(image[:, ::-1])


def lit_from_the_left(image: np.ndarray) -> np.ndarray:
    return (image * np.linspace(0, 1, image.shape[1])[:, None]).astype(np.uint8)


def less_its_mean(image: np.ndarray) -> np.ndarray:
    return (image - image.mean()).astype(np.float32)


def at_random(image: np.ndarray) -> np.ndarray:
    return image + np.random.randint(0, 2, image.shape, np.uint8)  # noqa: NPY002


def halved(image: np.ndarray) -> np.ndarray:
    return image[::2, ::2].copy()


def fussy(image: np.ndarray) -> np.ndarray:
    if image.shape[0] < 42:
        raise ValueError("a picture is too small")
    return image


def not_the_last_class(label: np.ndarray) -> bool:
    return int(label) < 2


def label_or_raises(label: np.ndarray) -> bool:
    if label == 1:
        raise ValueError(f"the class {label}")
    return label == 0


def two_of(sample: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    return [sample, sample]


def narrow(image: np.ndarray) -> bool:
    return image.shape[1] < 130


def twice(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return [sample, sample]


def narrow_or_raises(sample: dict[str, Any]) -> bool:
    if sample["label"] == 1:
        raise ValueError("a label that it does not know")
    return True


class Marking:
    """A filter that raises, and leaves a byte in a file for each call."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, sample: dict[str, Any]) -> bool:
        with open(self.path, "ab") as file:
            file.write(b"x")
        return narrow_or_raises(sample)
