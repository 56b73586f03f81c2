"""Datasets that give their own objects, and functions that write into what they are given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np


def plus_one(x: Any) -> Any:
    x += 1
    return x


def replaced(sample: dict[str, Any]) -> dict[str, Any]:
    sample["x"] = sample["x"] + 1
    sample["seen"].append(1)
    return {"x": sample["x"], "seen": len(sample["seen"])}


def thrice(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Samples that share an array."""
    for part in range(3):
        yield {"x": sample["x"], "part": part}


def windows(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Samples whose arrays lie in each other."""
    for part in range(3):
        yield {"x": sample["x"][part : part + 2], "part": part}


def popped(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """A collate function as there are many: it takes the field out that it treats in another way."""
    return {"x": np.stack([sample.pop("x") for sample in samples]), "fields": [sorted(sample) for sample in samples]}


@dataclasses.dataclass(frozen=True)
class Sample:
    x: Any


class Rows:
    """Rows of one array: views of it, in a class of their own."""

    def __init__(self, count: int) -> None:
        self.data = np.arange(4.0 * count).reshape(count, 4)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Sample:
        return Sample(self.data[index])


class Fresh:
    """A new array for each sample."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(4, index, np.float64)}


def same(sample: Any) -> Any:
    return sample


def looked_at(x: Any) -> Any:
    return x


def sorted_here(x: Any) -> Any:
    x[::-1].sort()
    return x


def filled(x: Any) -> Any:
    x.fill(7)
    return x


def jittered(x: Any, rng: np.random.Generator) -> Any:
    noise = rng.random(4)
    x += noise
    return x


def jittered_anew(x: Any, rng: np.random.Generator) -> Any:
    return x + rng.random(4)
