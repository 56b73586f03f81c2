#!/usr/bin/env python3
"""Two published training recipes as pipelines of Carya, each line beside the original's.

    python examples/recipes.py FOLDER [--recipe resnet50|deit] [--batch-size 128] [--steps 20]

FOLDER has one folder of photos per class. Prints how many batches per second come, and a digest of what came: the same in every run,
with any number of threads. Needs Pillow, for the policies of augmentation, which run in worker processes.

What has no counterpart here: repeated augmentation (`--ra-sampler`, `--repeated-aug`), by which a record comes three or four times in
a row of ranks, and what belongs to the trainer (schedules, weight decay, averages of weights, label smoothing inside of a loss).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import time
from pathlib import Path

import numpy as np

import carya
from carya.augment import RandAugmentIncreasing, TrivialAugmentWide

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MEAN_COLOR = (124, 116, 104)  # MEAN in 0 to 255: what is 0 behind normalize


def resnet50(folder: str | Path, classes: int, batch_size: int = 128, seed: int = 0) -> carya.Pipeline:
    """torchvision's reference recipe for ResNet-50 of 2021 (references/classification, weights IMAGENET1K_V2), training."""
    return (
        carya.image_folder(folder)                                   # ImageFolder(traindir, ...)
        .shuffle(seed=seed)                                          # RASampler(..., shuffle=True, repetitions=4)
        .decode_image()                                              # default_loader: PIL's convert("RGB")
        .random_resized_crop(176, interpolation="bilinear")          # --train-crop-size 176: RandomResizedCrop
        .random_horizontal_flip(0.5)                                 # RandomHorizontalFlip(hflip_prob=0.5)
        .map(TrivialAugmentWide("bilinear"), fields="image")         # --auto-augment ta_wide
        .random_erasing(p=0.1, value=MEAN_COLOR)                     # --random-erase 0.1: zeros behind Normalize
        .normalize(MEAN, STD)                                        # PILToTensor, ConvertImageDtype, Normalize
        .batch(batch_size, drop_last=True)                           # --batch-size 128, per GPU
        .one_hot(classes, smoothing=0.1)                             # --label-smoothing 0.1
        .mixup(0.2, cutmix=1.0, switch=0.5)                          # --mixup-alpha 0.2 --cutmix-alpha 1.0: RandomChoice
    )  # fmt: skip


def resnet50_eval(folder: str | Path, batch_size: int = 128) -> carya.Pipeline:
    """The same recipe, evaluation."""
    return (
        carya.image_folder(folder)                                   # ImageFolder(valdir, ...)
        .decode_image()
        .resize(232, interpolation="bilinear")                       # --val-resize-size 232
        .center_crop(224)                                            # --val-crop-size 224
        .normalize(MEAN, STD)
        .batch(batch_size)
    )  # fmt: skip


def deit(folder: str | Path, classes: int, batch_size: int = 64, seed: int = 0) -> carya.Pipeline:
    """DeiT's training (main.py of 2021): timm's create_transform and Mixup as it calls them."""
    return (
        carya.image_folder(folder)                                   # datasets.ImageFolder(root, transform)
        .shuffle(seed=seed)                                          # RASampler, or DistributedSampler(shuffle=True)
        .decode_image()
        .random_resized_crop(224, interpolation="bicubic")           # input_size=224, interpolation="bicubic"
        .random_horizontal_flip(0.5)                                 # timm's hflip=0.5
        .map(RandAugmentIncreasing(9, 0.5), fields="image")          # auto_augment="rand-m9-mstd0.5-inc1"; no color_jitter then
        .random_erasing(p=0.25, scale=(0.02, 1 / 3), ratio=(0.3, 1 / 0.3), value="random")  # re_prob=0.25, re_mode="pixel": here uniform noise
        .normalize(MEAN, STD)                                        # ToTensor, Normalize
        .batch(batch_size, drop_last=True)                           # --batch-size 64, per GPU
        .one_hot(classes, smoothing=0.1)                             # --smoothing 0.1
        .mixup(0.8, cutmix=1.0, switch=0.5)                          # --mixup 0.8 --cutmix 1.0 --mixup-switch-prob 0.5
    )  # fmt: skip


def deit_eval(folder: str | Path, batch_size: int = 96) -> carya.Pipeline:
    """The same recipe, evaluation: --eval-crop-ratio 0.875."""
    return (
        carya.image_folder(folder)
        .decode_image()
        .resize(256, interpolation="bicubic")                        # Resize(int(224 / 0.875), interpolation=3)
        .center_crop(224)
        .normalize(MEAN, STD)
        .batch(batch_size)
    )  # fmt: skip


RECIPES = {"resnet50": resnet50, "deit": deit}


def run(pipeline: carya.Pipeline, steps: int, threads: int | None = None) -> tuple[str, float]:
    """A digest of so many batches, and batches per second."""
    state = hashlib.sha256()
    with carya.Loader(pipeline, threads="auto" if threads is None else threads) as loader:
        began = time.perf_counter()
        epochs = itertools.chain.from_iterable(itertools.repeat(loader))
        for batch in itertools.islice(epochs, steps):
            state.update(np.ascontiguousarray(batch["image"]).tobytes())
            state.update(np.ascontiguousarray(batch["label"]).tobytes())
        seconds = time.perf_counter() - began
    return state.hexdigest()[:16], steps / seconds


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--recipe", choices=sorted(RECIPES), default="resnet50")
    asked.add_argument("--batch-size", type=int, default=128)
    asked.add_argument("--steps", type=int, default=20)
    given = asked.parse_args()
    classes = sum(entry.is_dir() for entry in given.folder.iterdir())
    digest, rate = run(RECIPES[given.recipe](given.folder, classes, given.batch_size), given.steps)
    print(f"{given.recipe}: {rate:.1f} batches of {given.batch_size} per second, digest {digest}")


if __name__ == "__main__":
    main()
