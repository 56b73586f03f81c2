"""What `carya bench seeds` measures: a row for each pipeline, with the sides that may stand beside Carya."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from .data import Files

Order = Literal["exact", "relaxed", "off"]


class Side(NamedTuple):
    """Somebody else's form of a pipeline."""

    name: str
    form: str  # module:function of this package, which gives sizes of batches for files and a number of cores
    needs: tuple[str, ...]  # modules
    bar: float | None = None  # samples per CPU-second, Carya's to its
    published: str | None = None  # by the seed's authors: samples per second of a machine with 8 vCPUs


class Seed(NamedTuple):
    name: str
    files: str  # the kind of its data
    form: str  # of pipelines.py
    sides: tuple[Side, ...]
    orders: tuple[Order, ...] = ()  # that are measured of operations on native threads; the first one is compared
    published: str | None = None  # of the seed itself; of Pecan what its order gains


ORDERS: tuple[Order, ...] = ("exact", "off", "relaxed")
_TORCHVISION = ("torch", "torchvision", "PIL")

SEEDS = (
    Seed(
        "cedar cv", "photos", "cedar_cv",
        (
            Side("torch+torchvision", "torch_forms:cedar_cv", _TORCHVISION, 5.0, "165"),
            Side("tf.data", "tf_forms:cedar_cv", ("tensorflow",), 2.0, "435"),
        ),
        ORDERS, "339",
    ),
    Seed(
        "cedar nlp torch", "lines", "cedar_nlp_torch",
        (
            Side("torch+torchtext", "torch_forms:cedar_nlp_torchtext", ("torch", "torchtext"), 10.0, "1564"),
            Side("torch+tokenizers", "torch_forms:cedar_nlp_tokenizers", ("torch", "tokenizers"), 10.0),
        ),
        published="2960",
    ),
    Seed(
        "cedar nlp hf", "lines", "cedar_nlp_hf",
        (Side("tokenizers, one thread", "torch_forms:cedar_nlp_hf", ("tokenizers",), 20.0, "634 (tf.data)"),),
        published="1205",
    ),
    Seed(
        "cedar asr", "clips", "cedar_asr",
        (
            Side("torch+torchaudio", "sound_forms:cedar_asr_torchaudio", ("torch", "torchaudio", "soundfile"), 4.0, "24.7"),
            Side("torch.stft+soxr", "sound_forms:cedar_asr_plain", ("torch", "soundfile", "soxr"), 4.0),
        ),
        ("exact",), "105.7",
    ),
    Seed(
        "cedar ssd", "objects", "cedar_ssd",
        (Side("torch+torchvision", "object_forms:cedar_ssd", _TORCHVISION, 4.0, "19.9"),),
        ORDERS, "58.4",
    ),
    Seed(
        "pecan resnet50", "photos", "pecan_resnet50",
        (
            Side("tf.data", "tf_forms:pecan_resnet50", ("tensorflow",), 3.0, "148 a worker, 316 by AutoOrder"),
            Side("torch+torchvision", "torch_forms:pecan_resnet50", _TORCHVISION),
        ),
        ORDERS, "order: x 2.1, 19 to 12.2 workers",
    ),
    Seed(
        "pecan simclr", "photos", "pecan_simclr",
        (
            Side("tf.data", "tf_forms:pecan_simclr", ("tensorflow",), 3.0),
            Side("torch+torchvision", "torch_forms:pecan_simclr", _TORCHVISION),
        ),
        ORDERS, "order: 12.2 to 7.6 workers",
    ),
    Seed(
        "pecan retinanet", "objects", "pecan_retinanet",
        (Side("torch+torchvision", "object_forms:pecan_retinanet", _TORCHVISION, 3.0),),
        ORDERS, "order: 2.6 to 2.6 workers",
    ),
    Seed(
        "pecan asr", "utterances", "pecan_speech",
        (Side("torch+torchaudio", "sound_forms:pecan_speech", ("torch", "torchaudio", "soundfile"), 3.0),),
        ("exact",), "order: 3.7 to 3 workers",
    ),
)  # fmt: skip


def named(name: str) -> Seed:
    return next(seed for seed in SEEDS if seed.name == name)


def form_of(form: str) -> Callable[[Files, int], Iterator[int]]:
    """The function of a side."""
    module, _, function = form.partition(":")
    found: Any = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return found  # type: ignore[no-any-return]
