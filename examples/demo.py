#!/usr/bin/env python3
"""The demo behind `make demo`: trains on real photos, stops and resumes, and says what loading cost.

    python examples/demo.py --data build/demo/photos --out build/demo

1. Two epochs through carya.torch.Loader, with a progress bar; a digest of every batch is kept.
2. The same two epochs again, stopped in the middle and resumed from the 200-byte state in a new loader: same digest.
3. The same training loop with torch's own DataLoader (Pillow, best settings for the cores at hand).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from torch.utils.data import DataLoader, Dataset
from train_torch import Trainer, pipeline

import carya
import carya.torch
from carya._bench.measure import process_tree_cpu_s
from carya._bench.peers import crop_box

EPOCHS, BATCH, SIDE = 2, 64, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
console = Console()


@dataclass
class Run:
    """What one training run cost. Loading's CPU is all CPU less what the training steps used."""

    name: str
    samples: int = 0
    wall_s: float = 0
    cpu_s: float = 0
    step_cpu_s: float = 0
    stall_s: float = 0
    loss: float = 0

    def row(self) -> tuple[str, ...]:
        load_us = (self.cpu_s - self.step_cpu_s) / self.samples * 1e6
        return (
            self.name,
            f"{self.samples / self.wall_s:,.0f}",
            f"{load_us:,.0f} us",
            f"{self.stall_s / self.wall_s:.0%}",
            f"{self.loss:.2f}",
        )


def train(
    name: str, classes: int, total: int, epochs: Iterable[Iterable[Any]], watch: Callable[[Any], None] | None = None
) -> Run:
    """The training loop, the same for every loader; `watch` sees each batch and is not counted."""
    trainer, run, warm = Trainer(classes), Run(name), False
    cpu, start, unseen = process_tree_cpu_s(), time.perf_counter(), 0.0
    columns = (TextColumn(f"{name:>24}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[facts]}"))
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=total, facts="")
        for batches in epochs:
            iterator = iter(batches)
            while True:
                waited = time.perf_counter()
                batch = next(iterator, None)
                run.stall_s += time.perf_counter() - waited
                if batch is None:
                    break
                if not warm:  # starting up is not what is compared
                    cpu, start, run.stall_s, warm = process_tree_cpu_s(), time.perf_counter(), 0.0, True
                    run.samples = -len(batch["label"])
                before = time.thread_time()
                run.loss = trainer.step(batch["image"], batch["label"])
                run.step_cpu_s += time.thread_time() - before
                run.samples += len(batch["label"])
                if watch is not None:
                    watching = time.perf_counter()
                    watching_cpu = time.thread_time()
                    watch(batch)
                    unseen += time.perf_counter() - watching
                    cpu += time.thread_time() - watching_cpu
                rate = run.samples / (time.perf_counter() - start - unseen)
                progress.update(task, advance=1, facts=f"{rate:,.0f} samples/s, loss {run.loss:.2f}")
    run.wall_s = time.perf_counter() - start - unseen
    run.cpu_s = process_tree_cpu_s() - cpu
    return run


class Digest:
    """A digest of every byte of every batch, and the first batch for the picture."""

    def __init__(self) -> None:
        self._state = hashlib.blake2b(digest_size=16)
        self.first: np.ndarray | None = None

    def __call__(self, batch: Any) -> None:
        if self.first is None:
            self.first = batch["image"].numpy().copy()
        for name in sorted(batch):
            self._state.update(memoryview(batch[name].numpy()).cast("B"))

    def hex(self) -> str:
        return self._state.hexdigest()


def resumed_digest(chain: carya.Pipeline, steps: int) -> tuple[str, int]:
    """The stream again, broken off in the middle of it and resumed by a new loader; the size of the state."""
    digest, state, seen = Digest(), "", 0
    with carya.torch.Loader(chain, epochs=EPOCHS) as loader:
        for batch in epochs_of(loader):
            digest(batch)
            seen += 1
            if seen == steps // 2 + 1:
                state = json.dumps(batch.state_dict())
                break
    with carya.torch.Loader(chain, epochs=EPOCHS, state=json.loads(state)) as loader:
        for batch in epochs_of(loader):
            digest(batch)
    return digest.hex(), len(state)


def epochs_of(loader: Any) -> Iterator[Any]:
    while loader.epoch < EPOCHS:
        yield from loader


class PillowFolder(Dataset):
    """The same photos, labels and augmentation by Pillow, as torch's users write it."""

    def __init__(self, chain: carya.Pipeline) -> None:
        records = [chain.address(index) for index in range(len(chain))]
        self._items = [(record["path"], record["label"]) for record in records]
        self._random: np.random.Generator | None = None

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        path, label = self._items[index]
        if self._random is None:
            self._random = np.random.default_rng()
        with Image.open(path) as opened:
            image = opened.convert("RGB")
        left, top, width, height = crop_box(self._random, image.height, image.width)
        box = (left, top, left + width, top + height)
        pixels = np.array(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box))
        return (np.ascontiguousarray(pixels[:, ::-1]) if self._random.random() < 0.5 else pixels), label


class Normalized:
    """The batches of a loader of uint8 samples, normalized in the trainer's process.

    This is the cheapest form known for torch: its workers stack a quarter of the bytes into shared memory, and a whole
    batch is normalized at once.
    """

    def __init__(self, batches: DataLoader) -> None:
        self._batches = batches
        self._scale = torch.tensor([1 / (255 * value) for value in STD]).view(1, 3, 1, 1)
        self._offset = torch.tensor([-m / s for m, s in zip(MEAN, STD, strict=True)]).view(1, 3, 1, 1)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for images, labels in self._batches:
            pixels = images.permute(0, 3, 1, 2).float(memory_format=torch.contiguous_format)
            yield {"image": pixels.mul_(self._scale).add_(self._offset), "label": labels}


def write_grid(images: np.ndarray, path: Path, columns: int = 8, rows: int = 4) -> None:
    """A grid of the first pictures of a normalized batch, as they look."""
    pixels = images[: columns * rows].transpose(0, 2, 3, 1) * np.array(STD) + np.array(MEAN)
    pixels = np.clip(pixels * 255 + 0.5, 0, 255).astype(np.uint8)
    rows = -(-len(pixels) // columns)
    sheet = Image.new("RGB", (columns * (SIDE + 4), rows * (SIDE + 4)), "white")
    for number, picture in enumerate(pixels):
        sheet.paste(Image.fromarray(picture), (number % columns * (SIDE + 4) + 2, number // columns * (SIDE + 4) + 2))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with one folder of photos per class")
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    options = parser.parse_args()

    torch.set_num_threads(1)
    cores = len(os.sched_getaffinity(0))
    chain = pipeline(options.data, BATCH, SIDE)
    classes, steps = len(chain.class_names), -(-len(chain) // BATCH) * EPOCHS
    console.print(
        f"[bold]{len(chain):,} photos in {classes} classes, {EPOCHS} epochs, {cores} cores[/bold]\n{chain!r}\n"
    )
    for index in range(len(chain)):  # both loaders find the photos in the page cache
        Path(chain.address(index)["path"]).read_bytes()

    digest = Digest()
    with carya.torch.Loader(chain, epochs=EPOCHS) as loader:
        ours = train("carya", classes, steps, (loader for _ in range(EPOCHS)), digest)
        stats = loader.stats()
    assert digest.first is not None
    write_grid(digest.first, options.out / "batch.png")

    again, state_bytes = resumed_digest(chain, steps)

    peer: DataLoader = DataLoader(
        PillowFolder(chain),
        batch_size=BATCH,
        shuffle=True,
        num_workers=cores,
        persistent_workers=True,
        prefetch_factor=4,
    )
    theirs = train("torch DataLoader + Pillow", classes, steps, (Normalized(peer) for _ in range(EPOCHS)))

    report(ours, theirs, stats, digest.hex(), again, state_bytes, options.out)


def report(ours: Run, theirs: Run, stats: dict[str, Any], digest: str, again: str, state_bytes: int, out: Path) -> None:
    table = Table("loader", "samples/s", "loading CPU per sample", "time stalled", "last loss")
    table.add_row(*ours.row())
    table.add_row(*theirs.row())
    console.print(table)
    equal = "equal" if digest == again else "DIFFERENT"
    console.print(f"stopped in the middle and resumed from a state of {state_bytes} bytes: digests {equal} ({digest})")
    for op in stats["ops"]:
        console.print(f"  {op['name']}: {op['cpu_ns_per_sample'] / 1000:,.0f} us of CPU per sample", markup=False)
    console.print(f"an augmented batch: {out / 'batch.png'}")
    result = {
        "samples_per_s": ours.samples / ours.wall_s,
        "loading_cpu_us_per_sample": (ours.cpu_s - ours.step_cpu_s) / ours.samples * 1e6,
        "stall_share": ours.stall_s / ours.wall_s,
        "digest": digest,
        "digest_resumed": again,
        "torch_samples_per_s": theirs.samples / theirs.wall_s,
        "torch_loading_cpu_us_per_sample": (theirs.cpu_s - theirs.step_cpu_s) / theirs.samples * 1e6,
    }
    (out / "report.json").write_text(json.dumps(result, indent=1) + "\n")
    if digest != again:
        raise SystemExit("demo: the resumed stream differs")


if __name__ == "__main__":
    main()
