"""Python functions in worker processes: what a sample costs beside its function, and beside torch's DataLoader.

Samples of 150 KB that lie in memory, batches of 64, functions that take 0, 50 and 500 us of CPU. Ceiling: the bare function.
`own_us`: CPU of all processes per sample, less the function's. `of_bare`: samples per CPU second of what the function alone makes.
Then photos with a recipe of torchvision v2 and of albumentations as a function on decoded pictures, where these are installed: here
behind Carya's decoder, in torch's DataLoader behind simplejpeg.
Then items of 1 KB without a function, read one by one, by `carya.torch.DataLoader` where torch is there. Last: a mix of 8 sources,
a filter that keeps half, and batches by a budget of tokens, over items of 1 KB: `of_plain_cpu` is the CPU per sample beside the plain
stream of the same items, measured in turn; their passes before the first batch are not in it.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._loading.loader import Loader
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import dataset, files, mix
from .measure import median
from .photos import MEAN, STD, find_photos
from .report import Options, Report

_SIDE = 224
_BATCH = 64
_WORKERS = 2


class Pictures:
    """150 KB each, of 64 that there are."""

    def __init__(self, count: int, side: int = _SIDE) -> None:
        self.count = count
        self.pictures = np.random.default_rng(0).integers(0, 256, (64, side, side, 3), np.uint8)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return {"image": self.pictures[index % 64], "label": index}


class Rows:
    """1 KB each."""

    def __init__(self, count: int) -> None:
        self.values = np.zeros((count, 128), np.float64)
        self.values[1::2, 0] = 1

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.values[index]


class Busy:
    """A function that takes so many microseconds of CPU, whoever else is on the machine."""

    def __init__(self, microseconds: float) -> None:
        self.microseconds = microseconds

    def __call__(self, sample: Any) -> Any:
        if self.microseconds:
            until = time.thread_time_ns() + int(self.microseconds * 1000)
            while time.thread_time_ns() < until:
                pass
        return sample


class Decoded:
    """Photos by simplejpeg, each path several times in an epoch."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        import simplejpeg

        with open(self.paths[index], "rb") as file:
            picture: np.ndarray[Any, Any] = simplejpeg.decode_jpeg(file.read(), "RGB")
        return picture


class Torchvision:
    """The training recipe of torchvision's references on one picture, by transforms v2 on tensors."""

    def __init__(self) -> None:
        self.made: Any = None

    def __call__(self, picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        import torch

        if self.made is None:  # in the process that runs it
            from torchvision.transforms import v2

            torch.set_num_threads(1)
            self.made = v2.Compose(
                [
                    v2.RandomResizedCrop(_SIDE, antialias=True),
                    v2.RandomHorizontalFlip(),
                    v2.ColorJitter(0.4, 0.4, 0.4),
                    v2.ToDtype(torch.float32, scale=True),
                    v2.Normalize(MEAN, STD),
                ]
            )
        result: np.ndarray[Any, Any] = self.made(torch.from_numpy(picture).permute(2, 0, 1)).numpy()
        return result


class Albumentations:
    """A recipe as users of albumentations write it: crop, flip, brightness, a shift of hues, normalized.

    Its generator is its own, so Carya's form seeds it for each record, which takes 75 us and makes the stream exact.
    """

    def __init__(self) -> None:
        self.made: Any = None

    def __call__(self, picture: np.ndarray[Any, Any], rng: np.random.Generator | None = None) -> np.ndarray[Any, Any]:
        if self.made is None:
            import albumentations as A
            import cv2

            cv2.setNumThreads(1)
            self.made = A.Compose(
                [
                    A.RandomResizedCrop((_SIDE, _SIDE)),
                    A.HorizontalFlip(),
                    A.RandomBrightnessContrast(),
                    A.HueSaturationValue(),
                    A.Normalize(MEAN, STD),
                ]
            )
        if rng is not None:
            self.made.set_random_seed(int(rng.integers(2**31)))
        result: np.ndarray[Any, Any] = self.made(image=picture)["image"]
        return result


_RECIPES: dict[str, tuple[type[Torchvision] | type[Albumentations], str]] = {
    "torchvision v2": (Torchvision, "torchvision"),
    "albumentations": (Albumentations, "albumentations"),
}


class Mapped:
    """A dataset with a function, as torch's users write it."""

    def __init__(self, inner: Any, fn: Any) -> None:
        self.inner, self.fn = inner, fn

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Any:
        return self.fn(self.inner[index])


def run(options: Options) -> Report:
    options = options.scaled()
    report = Report("functions", facts={"batch": _BATCH, "workers": _WORKERS, "bytes": _SIDE * _SIDE * 3})
    count = _BATCH * (4 if options.smoke else 400)
    cases: list[tuple[str, Any, float | None]] = [("150 KB", Pictures(count), us) for us in (0.0, 50.0, 500.0)]
    cases.append(("1 KB", Rows(count * 8), None))
    for what, data, microseconds in cases:
        ours: list[tuple[float, float]] = []
        theirs: list[tuple[float, float]] = []
        for _ in range(options.rounds):
            with_torch = importlib.util.find_spec("torch") is not None
            drop_in = with_torch and microseconds is None
            ours.append(_drop_in(data, options.seconds) if drop_in else _carya(data, microseconds, options.seconds))
            if with_torch:
                theirs.append(_torch(data, microseconds, options.seconds))
        report.rows.append(_row(what, microseconds, ours, theirs))
    report.rows += _photo_rows(options)
    rows = count * 8
    plain = dataset(Rows(rows))
    others = {
        "mix of 8": mix([dataset(Rows(rows // 8)).shuffle(seed=number) for number in range(8)]),
        "filter of half": dataset(Rows(2 * rows)).filter(is_even).shuffle(seed=1),
        "budget": plain.shuffle(seed=1).batch(tokens=_BATCH, length=np.ones(rows, np.int64)),
    }
    for what, pipeline in others.items():
        pairs = []
        for _ in range(options.rounds):
            beside = _stream(plain.shuffle(seed=1).batch(_BATCH, drop_last=True), options.seconds)
            asked = pipeline if what == "budget" else pipeline.batch(_BATCH, drop_last=True)
            pairs.append((_stream(asked, options.seconds), beside))
        ratio = round(median([one[1] / other[1] for one, other in pairs]), 3)
        report.rows.append({**_row(what, None, [one for one, _ in pairs], []), "of_plain_cpu": ratio})
    return report


def _photo_rows(options: Options) -> list[dict[str, Any]]:
    """Recipes on photos, beside torch's DataLoader with the same function; those that are installed."""
    rows = []
    needed = ("torch", "simplejpeg")
    for what, (recipe, module) in _RECIPES.items():
        if any(importlib.util.find_spec(name) is None for name in (*needed, module)):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            paths = find_photos(options, Path(scratch))
            paths *= -(-2 * _BATCH // len(paths))
            ours, theirs = [], []
            for _ in range(options.rounds):
                pipeline = files(paths).decode_image().map(recipe(), fields="image").shuffle(seed=1)
                ours.append(_stream(pipeline.batch(_BATCH, drop_last=True), options.seconds))
                theirs.append(_torch_over(Decoded(paths), recipe(), options.seconds))
        rows.append(_row(what, None, ours, theirs))
    return rows


def is_even(sample: np.ndarray[Any, Any]) -> bool:
    return bool(sample[0] == 0)


def _row(
    what: str, microseconds: float | None, ours: list[tuple[float, float]], theirs: list[tuple[float, float]]
) -> dict[str, Any]:
    function = microseconds or 0.0
    cpu = median([cpu_us for _, cpu_us in ours])
    row = {
        "sample": what,
        "function_us": microseconds,
        "samples_per_s": round(median([rate for rate, _ in ours])),
        "own_us": round(cpu - function, 2),
        "of_bare": round(function / cpu, 3) if function else None,
        "torch_samples_per_s": None,
        "torch_own_us": None,
        "of_torch_rate": None,
        "of_torch_cpu": None,
        "of_plain_cpu": None,
    }
    if theirs:
        other = median([cpu_us for _, cpu_us in theirs])
        row["torch_samples_per_s"] = round(median([rate for rate, _ in theirs]))
        row["torch_own_us"] = round(other - function, 2)
        row["of_torch_rate"] = round(median([a[0] / b[0] for a, b in zip(ours, theirs, strict=True)]), 2)
        row["of_torch_cpu"] = round(median([b[1] / a[1] for a, b in zip(ours, theirs, strict=True)]), 2)
    return row


def _carya(data: Any, microseconds: float | None, seconds: float) -> tuple[float, float]:
    pipeline = dataset(data)
    if microseconds is not None:
        pipeline = pipeline.map(Busy(microseconds))
    return _stream(pipeline.shuffle(seed=1).batch(_BATCH, drop_last=True), seconds)


def _stream(pipeline: Pipeline, seconds: float) -> tuple[float, float]:
    with Loader(pipeline, threads=_WORKERS) as loader:
        job: Any = loader._job

        def sizes() -> Iterator[int]:
            while True:
                for batch in loader:
                    yield len(batch.records)

        return _measured(sizes(), seconds, lambda: [job._process.pid, *job._figures["pids"]])


def _drop_in(data: Any, seconds: float) -> tuple[float, float]:
    from ..torch import DataLoader

    loader = DataLoader[Any](data, _BATCH, shuffle=True, num_workers=_WORKERS, drop_last=True)

    def sizes() -> Iterator[int]:
        while True:
            for batch in loader:
                yield len(batch)

    def others() -> list[int]:
        job: Any = loader._opened()._job
        return [job._process.pid, *job._figures["pids"]]

    try:
        return _measured(sizes(), seconds, others)
    finally:
        loader.close()


def _torch(data: Any, microseconds: float | None, seconds: float) -> tuple[float, float]:
    return _torch_over(data, None if microseconds is None else Busy(microseconds), seconds)


def _torch_over(data: Any, fn: Callable[[Any], Any] | None, seconds: float) -> tuple[float, float]:
    import torch.utils.data

    given = data if fn is None else Mapped(data, fn)
    torch.set_num_threads(1)
    loader: Any = torch.utils.data.DataLoader(
        given, _BATCH, shuffle=True, num_workers=_WORKERS, drop_last=True, persistent_workers=True
    )
    iterator = iter(loader)

    def sizes() -> Iterator[int]:
        running = iterator
        while True:
            for _ in running:
                yield _BATCH
            running = iter(loader)

    return _measured(sizes(), seconds, lambda: [worker.pid for worker in loader._iterator._workers])


def _measured(sizes: Iterator[int], seconds: float, others: Any) -> tuple[float, float]:
    """Samples per second, and CPU microseconds per sample of this process and the others."""
    for _ in range(8):
        next(sizes)
    pids = others()
    begin, cpu, samples = time.perf_counter(), _cpu(pids), 0
    while time.perf_counter() - begin < seconds or samples < 16 * _BATCH:
        samples += next(sizes)
    wall, used = time.perf_counter() - begin, _cpu(pids) - cpu
    return samples / wall, used / samples * 1e6


def _cpu(pids: list[int]) -> float:
    """Seconds on a core, to the nanosecond."""
    each = [int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids]
    return sum(each) * 1e-9 + time.process_time()
