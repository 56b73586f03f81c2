"""Functions and datasets of the tests of `carya function-worker`: importable there too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np


class Numbered:
    """Samples that depend on a file, which another machine may have otherwise."""

    def __init__(self, count: int, file: str) -> None:
        self.count, self.file = count, file

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(300, index + int(Path(self.file).read_text()), np.int32), "y": index}


def costs() -> None:
    """Waits as a function computes, so that other machines get rows on any host; not where only bits are compared."""
    if not os.environ.get("CARYA_TEST_CHEAP"):
        time.sleep(0.004)


def slow(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    costs()
    return {"x": sample["x"] + rng.integers(0, 1000, 300, np.int32), "y": sample["y"], "name": f"n{sample['y']}"[:3]}


def slow_numbers(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    made = slow(sample, rng)
    return {"x": made["x"], "y": made["y"]}


def slowly(sample: dict[str, Any]) -> dict[str, Any]:
    costs()
    return sample


def cheap(sample: dict[str, Any]) -> dict[str, Any]:
    return sample


def is_even(sample: dict[str, Any]) -> bool:
    return bool(sample["y"] % 2 == 0)


def only_here(sample: dict[str, Any]) -> dict[str, Any]:
    """Raises in every process but those of the trainer's machine, once there were some samples."""
    costs()
    if os.environ.get("CARYA_TEST_AFAR") and sample["y"] > 20 and sample["y"] % 5 == 0:
        raise ValueError("not here")
    return sample


def deadly(sample: dict[str, Any]) -> dict[str, Any]:
    """Ends other machines' workers now and then."""
    costs()
    if os.environ.get("CARYA_TEST_AFAR") and sample["y"] % 97 == 60:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


def lengthened(batch: dict[str, Any]) -> dict[str, Any]:
    """Now and then a batch that no slot has room for, among those that fit."""
    first = int(np.asarray(batch["x"]).ravel()[0])
    return batch | {"many": np.full((len(batch["x"]), 20_000 if first % 3 == 0 else 1), first)}


def summed(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": batch["x"].sum(axis=1), "y": batch["y"], "all": np.array([batch["y"].sum()])}


def late_here(sample: dict[str, Any]) -> dict[str, Any]:
    """Takes long on the trainer's machine only, for the first records."""
    if not os.environ.get("CARYA_TEST_AFAR") and sample["y"] < 2:
        time.sleep(3)
    costs()
    return sample


def starts_a_process(sample: dict[str, Any]) -> dict[str, Any]:
    costs()
    if os.environ.get("CARYA_TEST_AFAR") and sample["y"] % 50 == 3:
        subprocess.Popen(["sleep", "600"])
    return sample


def never_afar(sample: dict[str, Any]) -> dict[str, Any]:
    costs()
    if os.environ.get("CARYA_TEST_AFAR") and sample["y"] > 1:
        raise ValueError("not here")
    return sample
