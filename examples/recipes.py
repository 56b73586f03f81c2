#!/usr/bin/env python3
"""Three published training recipes as pipelines of Carya, each line beside the original's.

    python examples/recipes.py FOLDER [--recipe resnet50|deit|timm] [--batch-size 128] [--steps 20]

FOLDER has one folder of photos per class. Prints how many batches per second come, and a digest of what came: the same in every run,
with any number of threads. Needs Pillow, for the policies of augmentation, which run in worker processes.

`world_size` is the number of GPUs: repeated augmentation spreads a record's samples over the ranks of a step. What has no counterpart
here belongs to the trainer (schedules, weight decay, averages of weights, label smoothing inside of a loss). Mixing takes neighbouring
pairs, where the originals mix a batch with itself reversed or shifted by one.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import time
from pathlib import Path

import numpy as np

import carya
from carya.augment import RandAugmentIncreasing, RandomErasing, TrivialAugmentWide

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def within(times: int, batch_size: int, world_size: int) -> int:
    """A step's positions, down to a multiple of the times that a record comes."""
    return max(batch_size * world_size // times, 1) * times


def resnet50(
    folder: str | Path, classes: int, batch_size: int = 128, seed: int = 0, world_size: int = 1
) -> carya.Pipeline:
    """torchvision's reference recipe for ResNet-50 of 2021 (references/classification, weights IMAGENET1K_V2), training."""
    return (
        carya.image_folder(folder)                                   # ImageFolder(traindir, ...)
        .shuffle(seed=seed)                                          # RASampler(train, shuffle=True)
        .repeated(4, within=within(4, batch_size, world_size))       # --ra-sampler --ra-reps 4
        .decode_image()                                              # default_loader: PIL's convert("RGB")
        .random_resized_crop(176, interpolation="bilinear")          # --train-crop-size 176: RandomResizedCrop
        .random_horizontal_flip(0.5)                                 # RandomHorizontalFlip(hflip_prob=0.5)
        .map(TrivialAugmentWide("bilinear"), fields="image")         # --auto-augment ta_wide
        .normalize(MEAN, STD)                                        # PILToTensor, ConvertImageDtype, Normalize
        .map(RandomErasing(0.1), fields="image")                     # --random-erase 0.1
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


def deit(folder: str | Path, classes: int, batch_size: int = 64, seed: int = 0, world_size: int = 1) -> carya.Pipeline:
    """DeiT's training (main.py of 2021): timm's create_transform and Mixup as it calls them."""
    return (
        carya.image_folder(folder)                                   # datasets.ImageFolder(root, transform)
        .shuffle(seed=seed)                                          # RASampler(train, shuffle=True)
        .repeated(3, within=within(3, batch_size, world_size))       # --repeated-aug: three times
        .decode_image()
        .random_resized_crop(224, interpolation="bicubic")           # input_size=224, interpolation="bicubic"
        .random_horizontal_flip(0.5)                                 # timm's hflip=0.5
        .map(RandAugmentIncreasing(9, 0.5), fields="image")          # auto_augment="rand-m9-mstd0.5-inc1"; no color_jitter then
        .normalize(MEAN, STD)                                        # ToTensor, Normalize
        .map(RandomErasing(0.25, (0.02, 1 / 3), (0.3, 1 / 0.3), "random"), fields="image")  # re_prob=0.25, re_mode="pixel", re_count=1
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


def timm(folder: str | Path, classes: int, batch_size: int = 512, seed: int = 0, world_size: int = 1) -> carya.Pipeline:
    """timm's procedure A1 for ResNet-50 ("ResNet strikes back", 2021), training. timm draws bilinear or bicubic for each picture."""
    return (
        carya.image_folder(folder)                                   # create_dataset
        .shuffle(seed=seed)                                          # RepeatAugSampler(dataset, num_repeats=3)
        .repeated(3, within=within(3, batch_size, world_size))       # --aug-repeats 3
        .decode_image()
        .random_resized_crop(224, interpolation="bicubic")           # --img-size 224; --train-interpolation bicubic
        .random_horizontal_flip(0.5)                                 # --hflip 0.5
        .map(RandAugmentIncreasing(7, 0.5), fields="image")          # --aa rand-m7-mstd0.5-inc1; no --reprob
        .normalize(MEAN, STD)
        .batch(batch_size, drop_last=True)                           # --batch-size 512, per GPU of four
        .one_hot(classes, smoothing=0.1)                             # --smoothing 0.1
        .mixup(0.2, cutmix=1.0, switch=0.5)                          # --mixup 0.2 --cutmix 1.0
    )  # fmt: skip


def timm_eval(folder: str | Path, batch_size: int = 512) -> carya.Pipeline:
    """The same procedure, evaluation: --crop-pct 0.95."""
    return (
        carya.image_folder(folder)
        .decode_image()
        .resize(235, interpolation="bicubic")                        # Resize(floor(224 / 0.95))
        .center_crop(224)
        .normalize(MEAN, STD)
        .batch(batch_size)
    )  # fmt: skip


RECIPES = {"resnet50": resnet50, "deit": deit, "timm": timm}


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
