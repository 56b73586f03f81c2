"""The same pipelines by torch's DataLoader, with the operations that the seeds took. One process for each.

Each form is a map-style dataset whose samples are made in the DataLoader's workers, and the function that makes a batch of them.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .data import Files
from .pipelines import ANGLE, CEDAR, IMAGES, MEANS, SHEAR, TEXTS, Draws


class Samples:
    """A map-style dataset of `items`; `make` is opened in the process that first asks for a sample."""

    def __init__(self, items: list[Any], opened: Callable[[], Callable[[Any], Any]]) -> None:
        self.items, self.opened = items, opened
        self.make: Callable[[Any], Any] | None = None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        if self.make is None:
            import torch

            torch.set_num_threads(1)
            self.make = self.opened()
        return self.make(self.items[index])


def loaded(samples: Samples, batch_size: int, cores: int, collate: Callable[[list[Any]], Any] | None) -> Iterator[int]:
    """Sizes of batches without end."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    loader: Any = DataLoader(
        samples,
        batch_size,
        shuffle=True,
        num_workers=cores,
        persistent_workers=True,
        collate_fn=collate,
        drop_last=True,
    )
    while True:
        for _ in loader:
            yield batch_size


def vision(name: str) -> Any:
    """The module torchvision.`name`.

    The wheel on PyPI is built for torch with CUDA; beside another torch its native library does not load. The transforms need
    none of it, but for two names.
    """
    try:
        return importlib.import_module(f"torchvision.{name}")
    except RuntimeError:
        import torch

        vision.declared = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[attr-defined]
        for operator in ("nms", "qnms"):
            vision.declared.define(f"{operator}(Tensor a, Tensor b, float c) -> Tensor")  # type: ignore[attr-defined]
    return importlib.import_module(f"torchvision.{name}")


def reader() -> Callable[[str], Any]:
    """A path to uint8 [3, h, w]: torchvision's read_image where its native library loads, else Pillow."""
    import torch

    def by_pillow(path: str) -> Any:
        from PIL import Image

        with Image.open(path) as opened:
            return torch.from_numpy(np.array(opened.convert("RGB"))).permute(2, 0, 1).contiguous()

    io = vision("io")

    def by_torchvision(path: str) -> Any:
        return io.read_image(path, io.image.ImageReadMode.RGB)

    return by_torchvision if hasattr(torch.ops.image, "decode_image") else by_pillow


class CedarCv:
    """Opened in a worker: a path to float32 [1, 244, 244], by the transforms that cedar names, on tensors."""

    def __init__(self, draws: Draws = CEDAR) -> None:
        self.draws = draws

    def __call__(self) -> Callable[[str], Any]:
        import torch

        of = vision("transforms")
        brightness, contrast, saturation, hue = self.draws.jitter
        made = of.Compose(
            [
                of.RandomResizedCrop(244, self.draws.scale, self.draws.ratio, antialias=False),
                of.RandomHorizontalFlip(self.draws.flip),
                of.ColorJitter(brightness, contrast, saturation, hue),
                of.Grayscale(1),
                of.GaussianBlur(11, self.draws.sigma),
                of.Normalize((0.1307,), (0.3081,)),
            ]
        )
        read = reader()
        return lambda path: made(read(path).to(torch.float32) / 255)


def cedar_cv(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(data["paths"], CedarCv()), IMAGES, cores, None)


class CedarNlp:
    """Opened in a worker: a line to int64 ids, by torchtext's transforms or by the same steps over `tokenizers`."""

    def __init__(self, data: Files, by: str) -> None:
        self.data, self.by = data, by

    def __call__(self) -> Callable[[str], Any]:
        import torch

        with open(self.data["roberta_vocabulary"]) as file:
            known: dict[str, int] = json.load(file)
        if self.by == "torchtext":
            of: Any = importlib.import_module("torchtext.transforms")
            vocabulary: Any = importlib.import_module("torchtext.vocab")
            ordered = sorted(known, key=lambda token: known[token])
            steps = of.Sequential(
                of.GPT2BPETokenizer(self.data["encoder"], self.data["merges"]),
                of.Truncate(254),
                of.VocabTransform(
                    vocabulary.vocab(dict.fromkeys(ordered, 1), specials=["<s>", "<pad>", "</s>", "<unk>"])
                ),
                of.AddToken(0, begin=True),
                of.AddToken(2, begin=False),
            )
            return lambda line: torch.tensor(steps(line))
        encoder: Any = importlib.import_module("tokenizers").Tokenizer.from_file(self.data["gpt2_tokenizer"])

        def ids(line: str) -> Any:
            tokens = [str(id) for id in encoder.encode(line).ids][:254]
            return torch.tensor([0, *[known[token] for token in tokens], 2])

        return ids


def lines_of(data: Files) -> list[str]:
    """The lines that Carya's source gives: those that are not empty."""
    with open(data["lines"], encoding="utf-8", newline="\n") as file:
        return [line for line in file.read().split("\n") if line]


def padded(value: int) -> Callable[[list[Any]], Any]:
    from functools import partial

    return partial(_padded, value)


def _padded(value: int, samples: list[Any]) -> Any:
    import torch

    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True, padding_value=value)


def cedar_nlp_torchtext(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(lines_of(data), CedarNlp(data, "torchtext")), TEXTS, cores, padded(1))


def cedar_nlp_tokenizers(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(lines_of(data), CedarNlp(data, "tokenizers")), TEXTS, cores, padded(1))


class HfSingle:
    """Lines to padded ids by `tokenizers` in one thread, without a loader around it."""

    def __init__(self, data: Files) -> None:
        self.encoder: Any = importlib.import_module("tokenizers").Tokenizer.from_file(data["gpt2_tokenizer"])

    def __call__(self, line: str) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.array(self.encoder.encode(line).ids[:254], np.int32)


def cedar_nlp_hf(data: Files, cores: int) -> Iterator[int]:
    lines, encode = lines_of(data), HfSingle(data)
    order = np.random.default_rng(1)
    while True:
        for chosen in order.permutation(len(lines))[: len(lines) // TEXTS * TEXTS].reshape(-1, TEXTS):
            found = [encode(lines[index]) for index in chosen]
            batch = np.zeros((TEXTS, max(len(ids) for ids in found)), np.int32)
            for row, ids in zip(batch, found, strict=True):
                row[: len(ids)] = ids
            yield TEXTS


class PecanResNet50:
    """Opened in a worker: a path to float16 [224, 224, 3], by the operations of Pecan's graph."""

    def __init__(self, drawn: bool = True) -> None:
        self.drawn = drawn

    def __call__(self) -> Callable[[str], Any]:
        import torch

        of, functional = vision("transforms"), vision("transforms.functional")
        area = (0.05, 1.0) if self.drawn else (1.0, 1.0)
        flip = of.RandomHorizontalFlip(0.5 if self.drawn else 1.0)
        read, means = reader(), torch.tensor(MEANS)[:, None, None]

        def make(path: str) -> Any:
            image = read(path)
            top, left, height, width = of.RandomResizedCrop.get_params(image, area, (0.75, 1.34))
            image = flip(image[:, top : top + height, left : left + width].to(torch.float32))
            image = functional.rotate(image, ANGLE)
            image = functional.affine(image, 0.0, [0, 0], 1.0, [SHEAR, 0.0])
            image = torch.nn.functional.interpolate(image[None], (224, 224), mode="bilinear", align_corners=False)[0]
            return (image - means).permute(1, 2, 0).to(torch.float16)

        return make


def pecan_resnet50(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(data["paths"], PecanResNet50()), IMAGES, cores, None)


class PecanSimClr:
    """Opened in a worker: a path to two views, float32 [3, 224, 224]."""

    def __call__(self) -> Callable[[str], Any]:
        import torch

        of = vision("transforms")
        cubic = of.InterpolationMode.BICUBIC
        view = of.Compose(
            [
                of.RandomResizedCrop(224, interpolation=cubic, antialias=False),
                of.RandomHorizontalFlip(),
                of.RandomApply([of.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
                of.RandomGrayscale(0.2),
                of.RandomApply([of.GaussianBlur(23, (0.1, 2.0))], 0.5),
            ]
        )
        read = reader()

        def make(path: str) -> Any:
            image = read(path).to(torch.float32) / 255
            return view(image).clamp(0, 1), view(image).clamp(0, 1)

        return make


def pecan_simclr(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(data["paths"], PecanSimClr()), IMAGES, cores, None)
