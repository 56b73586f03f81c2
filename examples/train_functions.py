#!/usr/bin/env python3
"""Train on a dataset and functions of your own: Python runs in worker processes, and a checkpoint resumes exactly.

    python examples/train_functions.py --epochs 3
    python examples/train_functions.py --epochs 3 --stop-after 20   # then run it again without --stop-after

The data are noisy sine waves of two frequencies, made by the dataset itself, so that nothing has to be downloaded.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import carya
import carya.torch

POINTS = 64


class Waves:
    """A map-style dataset: sample i is a wave of one of two frequencies."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        label = index % 2
        time = np.linspace(0, 1, POINTS, dtype=np.float32)
        return {"wave": np.sin(2 * np.pi * (3 + label) * time + index).astype(np.float32), "label": label}


def add_noise(wave: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other noise for every record and epoch, the same in every run."""
    return wave + rng.normal(0, 0.5, wave.shape).astype(np.float32)


def pipeline(count: int = 2048, batch_size: int = 64) -> carya.Pipeline:
    """Shuffled waves with noise."""
    return carya.dataset(Waves(count)).shuffle(seed=1).map(add_noise, fields="wave").batch(batch_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint", default="waves.pt")
    parser.add_argument("--stop-after", type=int, default=0, help="steps; 0: to the end")
    given = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(POINTS, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    state, steps = None, 0
    if Path(given.checkpoint).exists():
        saved = torch.load(given.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        state = saved["data"]
    with carya.torch.Loader(pipeline(), epochs=given.epochs, state=state) as loader:
        while loader.epoch < given.epochs:
            losses = []
            for batch in loader:
                loss = nn.functional.cross_entropy(model(batch["wave"]), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
                steps += 1
                if steps == given.stop_after:
                    torch.save(
                        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": loader.state_dict()},
                        given.checkpoint,
                    )
                    print(f"stopped after {steps} steps; {given.checkpoint} goes on from here")
                    return
            print(f"epoch {loader.epoch - 1}: loss {np.mean(losses):.4f}, last {losses[-1]:.6f}")


if __name__ == "__main__":
    main()
