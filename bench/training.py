#!/usr/bin/env python3
"""How long does an accelerator wait for photos while it trains, and what do copies to it cost?

Ceilings: the same training step on one batch that stays on the device; for copies, a pinned tensor of torch's own that
is copied again and again. A step is forward, backward and update of a torchvision model in bfloat16 (a small one of
this file with --smoke or without torchvision); the device normalizes what comes as uint8. Beside Carya stands torch's
DataLoader with Pillow, OpenCV and simplejpeg where they are installed, a worker for each core, pinned memory. All in
turns, in this process, on the same photos, from a warm page cache. `--device cpu` shows that it works where there is
no other device. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import carya
import carya.torch
from carya._bench.measure import median, process_tree_cpu_s
from carya._bench.peers import TorchSamples, missing
from carya._bench.photos import MEAN, SIDE, STD, find_photos, warm
from carya._bench.report import Options, Report, machine

CLASSES = 1000
DECODERS = {"torch+pillow": "pillow", "torch+opencv": "opencv", "torch+simplejpeg": "simplejpeg"}


class Trainer:
    """One model on one device; `step` gives it a batch of uint8 pictures, [rows, height, width, 3]."""

    def __init__(self, name: str, device: torch.device) -> None:
        torch.manual_seed(0)
        self.device = device
        self._model = _model(name).to(device, memory_format=torch.channels_last)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01, momentum=0.9)
        self._mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1) * 255
        self._scale = 1 / (torch.tensor(STD, device=device).view(1, 3, 1, 1) * 255)

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        images = (images.permute(0, 3, 1, 2).float() - self._mean) * self._scale
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self._model(images), labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()


def _model(name: str) -> torch.nn.Module:
    if name != "small":
        import torchvision

        model: torch.nn.Module = getattr(torchvision.models, name)(num_classes=CLASSES)
        return model
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 7, stride=8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(8, CLASSES),
    )  # fmt: skip


@contextlib.contextmanager
def by_carya(paths: list[str], batch: int, device: torch.device) -> Iterator[Iterator[torch.Tensor]]:
    """Batches on the device."""
    pipeline = carya.files(paths).shuffle(seed=1).decode_image().random_resized_crop(SIDE).random_horizontal_flip()
    with carya.torch.Loader(pipeline.batch(batch, drop_last=True), device=device) as loader:

        def batches() -> Iterator[torch.Tensor]:
            while True:
                for found in loader:
                    yield found["image"]

        yield batches()


@contextlib.contextmanager
def by_torch(paths: list[str], batch: int, device: torch.device, decode: str) -> Iterator[Iterator[torch.Tensor]]:
    cores = len(os.sched_getaffinity(0))
    loader: Any = torch.utils.data.DataLoader(
        TorchSamples(paths, decode), batch_size=batch, shuffle=True, num_workers=cores, persistent_workers=True,
        prefetch_factor=4, drop_last=True, pin_memory=device.type == "cuda",
    )  # fmt: skip

    def batches() -> Iterator[torch.Tensor]:
        while True:
            for images in loader:
                yield images.to(device, non_blocking=True)

    yield batches()


@contextlib.contextmanager
def synthetic(_: list[str], batch: int, device: torch.device) -> Iterator[Iterator[torch.Tensor]]:
    images = torch.randint(0, 256, (batch, SIDE, SIDE, 3), dtype=torch.uint8, device=device)
    yield itertools.repeat(images)


def trained(
    trainer: Trainer, side: Callable[..., Any], paths: list[str], batch: int, seconds: float
) -> dict[str, float]:
    """Samples a second, the share of the time that the loop waits for a batch, and CPU of all processes per sample."""
    labels = torch.randint(0, CLASSES, (batch,), device=trainer.device)
    with side(paths, batch, trainer.device) as batches:
        for _ in range(5):
            trainer.step(next(batches), labels)
        _synchronize(trainer.device)
        steps, waited, cpu, begun = 0, 0.0, process_tree_cpu_s(), time.perf_counter()
        while time.perf_counter() - begun < seconds:
            asked = time.perf_counter()
            images = next(batches)
            waited += time.perf_counter() - asked
            trainer.step(images, labels)
            steps += 1
        _synchronize(trainer.device)
        wall = time.perf_counter() - begun
        return {
            "samples_per_s": steps * batch / wall,
            "waited": waited / wall,
            "cpu_us_per_sample": (process_tree_cpu_s() - cpu) / (steps * batch) * 1e6,
        }


def steps_beside(options: argparse.Namespace, paths: list[str], device: torch.device) -> Report:
    sides: dict[str, Callable[..., Any]] = {"on the device": synthetic, "carya": by_carya}
    for name, decode in DECODERS.items():
        if missing(name) is None:
            sides[name] = lambda *of, decode=decode: by_torch(*of, decode)
    report = Report("training", facts={"photos": len(paths), "batch": options.batch})
    for model in options.model:
        trainer = Trainer(model, device)
        found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        for _ in range(options.rounds):
            for name, side in sides.items():
                found[name].append(trained(trainer, side, paths, options.batch, options.seconds))
        best = median([one["samples_per_s"] for one in found["on the device"]])
        for name, runs in found.items():
            row = {key: median([one[key] for one in runs]) for key in runs[0]}
            report.rows.append(
                {
                    "model": model,
                    "batches": name,
                    "samples_per_s": round(row["samples_per_s"]),
                    "of_the_device": round(row["samples_per_s"] / best, 3),
                    "waited": round(row["waited"], 3),
                    "cpu_us_per_sample": round(row["cpu_us_per_sample"]),
                }
            )
    return report


def copies(options: argparse.Namespace, device: torch.device) -> Report:
    """Rows of 150 KB from memory to the device: what arrives a second, and how long the loop is held up by a batch."""
    rows = 32 if options.smoke else 2048
    data = np.random.default_rng(0).integers(0, 256, (rows, SIDE, SIDE, 3), np.uint8)
    pipeline = carya.arrays({"image": data}).shuffle(seed=1).batch(options.batch, drop_last=True)
    ways: dict[str, dict[str, Any]] = {
        "tensor.to()": {},
        "pin_memory": {"pin_memory": True},
        "device": {"device": device},
        "device, not pinned": {"device": device, "pin_memory": False},
    }
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        found.setdefault("a pinned tensor again and again", []).append(_bare(data[: options.batch], device, options))
        for name, given in ways.items():
            with carya.torch.Loader(pipeline, **given) as loader:
                found.setdefault(name, []).append(_arriving(loader, device, options.seconds))
    bound = median([rate for rate, _ in found["a pinned tensor again and again"]])
    report = Report("copies", facts={"batch": options.batch, "bytes": int(data[0].nbytes * options.batch)})
    for name, runs in found.items():
        rate = median([rate for rate, _ in runs])
        held = median([held for _, held in runs])
        report.rows.append(
            {"way": name, "GB_per_s": round(rate, 2), "of_bound": round(rate / bound, 3), "held_up_us": round(held)}
        )
    return report


def _bare(data: Any, device: torch.device, options: argparse.Namespace) -> tuple[float, float]:
    host = torch.from_numpy(np.ascontiguousarray(data))
    host = host.pin_memory() if device.type == "cuda" else host
    target = torch.empty_like(host, device=device)
    _synchronize(device)
    copied, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < options.seconds / 2:
        target.copy_(host, non_blocking=True)
        copied += host.numel()
        _synchronize(device)
    return copied / (time.perf_counter() - begun) / 1e9, 0.0


def _arriving(loader: Any, device: torch.device, seconds: float) -> tuple[float, float]:
    """Gigabytes a second on the device, and microseconds in which the loop waits for a batch and gives its copy away."""
    total, count, held = 0, 0, 0.0
    begun = None
    while begun is None or time.perf_counter() - begun < seconds:
        asked = time.perf_counter()
        for batch in loader:
            image = batch["image"].to(device, non_blocking=True)
            taken = time.perf_counter() - asked
            if begun is not None:
                total += image.numel()
                count += 1
                held += taken
            asked = time.perf_counter()
        begun = begun or time.perf_counter()  # the first epoch warms up
    _synchronize(device)
    return total / (time.perf_counter() - begun) / 1e9, held / max(1, count) * 1e6


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of photos")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", action="append", help="of torchvision, or small; several times for several")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0, help="per measured configuration")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=1, help="each photo so many times in an epoch")
    parser.add_argument("--smoke", action="store_true", help="a short run; its figures mean nothing")
    options = parser.parse_args()
    if options.smoke:
        options.seconds, options.rounds, options.batch = 0.05, 1, 8
    small = options.smoke or importlib.util.find_spec("torchvision") is None
    options.model = options.model or (["small"] if small else ["resnet50", "resnet18"])
    device = torch.device(options.device)
    with tempfile.TemporaryDirectory() as scratch:
        paths = find_photos(Options(data=options.data, smoke=options.smoke), Path(scratch)) * options.repeat
        warm(paths)
        reports = [copies(options, device), steps_beside(options, paths, device)]
    for report in reports:
        print(report.table())
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    whole = {"device": name, "machine": machine(), **{report.bench: report.rows for report in reports}}
    print(json.dumps({"bench": "training", **whole}))


if __name__ == "__main__":
    main()
