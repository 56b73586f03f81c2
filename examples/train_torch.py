#!/usr/bin/env python3
"""Train a small model on a folder of photos with carya.torch.Loader, with checkpoints that resume exactly.

    python examples/train_torch.py --data photos --epochs 2
    python examples/train_torch.py --data photos --epochs 2 --stop-after 5   # then run it again without --stop-after

The folder has one folder of photos per class. The checkpoint holds the model and the loader's state (about 200 bytes),
and may be written after any step.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from torch import nn

import carya
import carya.torch

SIDE = 96


def pipeline(folder: str, batch_size: int = 64, side: int = SIDE) -> carya.Pipeline:
    """Random crops and flips, normalized, float32 CHW."""
    return (
        carya.image_folder(folder)
        .shuffle(seed=42)
        .decode_image()
        .random_resized_crop(side)
        .random_horizontal_flip()
        .normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
        .batch(batch_size)
    )


class SmallNet(nn.Module):
    """Three strided convolutions and a linear layer: milliseconds per batch on a CPU core."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=4, padding=2),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, classes),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image)


class Trainer:
    """A model, its optimizer, and one step."""

    def __init__(self, classes: int) -> None:
        torch.manual_seed(0)
        self.model = SmallNet(classes)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        self.loss_of = nn.CrossEntropyLoss()

    def step(self, image: torch.Tensor, label: torch.Tensor) -> float:
        """One update; the loss before it."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.model(image), label)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with one folder of photos per class")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--checkpoint", type=Path, default=Path("build/train_torch.pt"))
    parser.add_argument("--stop-after", type=int, default=0, help="end after this many steps, to resume later")
    options = parser.parse_args()

    train = pipeline(options.data)
    trainer = Trainer(len(train.class_names))
    checkpoint = None
    if options.checkpoint.exists():
        checkpoint = torch.load(options.checkpoint, weights_only=True)
        trainer.model.load_state_dict(checkpoint["model"])
        trainer.optimizer.load_state_dict(checkpoint["optimizer"])
        print(f"resuming at epoch {checkpoint['data']['epoch']}, position {checkpoint['data']['position']}")

    done = 0
    with carya.torch.Loader(train, state=checkpoint and checkpoint["data"]) as loader:
        while loader.epoch < options.epochs:
            for batch in loader:
                loss = trainer.step(batch["image"], batch["label"])
                done += 1
                print(f"epoch {batch.epoch} step {batch.step} loss {loss:.3f}")
                if done == options.stop_after:
                    save(options.checkpoint, trainer, batch.state_dict())
                    return
        save(options.checkpoint, trainer, loader.state_dict())


def save(path: Path, trainer: Trainer, state: dict) -> None:
    """Write the checkpoint beside the old one, then put it in its place: a kill in between loses nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    torch.save({"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict(), "data": state}, fresh)
    os.replace(fresh, path)


if __name__ == "__main__":
    main()
