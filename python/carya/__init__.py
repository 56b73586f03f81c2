"""Carya: a shared-memory data loader for machines that train on accelerators.

    train = (carya.image_folder("imagenet/train").shuffle(seed=42).decode_image()
             .random_resized_crop(224).random_horizontal_flip()
             .normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)).batch(128, drop_last=True))
    with carya.Loader(train) as loader:
        for batch in loader:
            step(batch["image"], batch["label"])

`carya.Loader` yields numpy arrays, `carya.torch.Loader` torch tensors, `carya.jax.Loader` jax arrays; torch and jax
are imported only when those are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _starting

try:
    from ._core import version as __version__
except ImportError as error:
    _starting.explain(error)
    raise

from . import _pickled as _pickled
from ._errors import (
    Closed,
    Error,
    Exhausted,
    ForkedError,
    InvalidArgument,
    IoError,
    NotFound,
    Permission,
    SampleError,
    Timeout,
    Unsupported,
    WorkerDied,
)
from ._loading.batch import Batch
from ._loading.loader import Loader
from ._loading.remote import Placement
from ._pipeline.chain import OpChain, ops
from ._pipeline.pipeline import Pipeline
from ._pipeline.sources import (
    arrays,
    arrow,
    audio_folder,
    dataset,
    files,
    hf_dataset,
    image_folder,
    mds,
    mix,
    tfrecord,
    webdataset,
)

if TYPE_CHECKING:
    from . import augment as augment
    from . import detection as detection
    from . import fleet as fleet
    from . import jax as jax
    from . import language as language
    from . import sound as sound
    from . import torch as torch
    from ._containers.array_record import array_record
    from ._containers.beton import beton
    from ._containers.lance_rows import lance
    from ._containers.litdata import litdata
    from ._containers.lmdb_store import lmdb
    from ._containers.video import video
    from ._detection.coco import coco
    from ._detection.open_images import open_images
    from ._detection.voc import voc
    from ._detection.yolo import yolo
    from ._formats.csv_rows import csv
    from ._formats.hdf5 import hdf5
    from ._formats.jsonl import jsonl
    from ._formats.lines import text
    from ._formats.npy import npy, npz
    from ._formats.parquet import parquet
    from ._formats.token_blocks import token_blocks
    from ._iterables.iterable import iterable
    from ._own_ops.op import op
    from ._records.recognise import open as open  # not in __all__: `import *` would hide the builtin
    from ._text.tokenizer import Tokenizer
    from ._watching.serving import watch
    from ._wrapping.wrapper import wrap

__all__ = [
    "Batch",
    "Closed",
    "Error",
    "Exhausted",
    "ForkedError",
    "InvalidArgument",
    "IoError",
    "Loader",
    "NotFound",
    "OpChain",
    "Permission",
    "Pipeline",
    "Placement",
    "SampleError",
    "Timeout",
    "Tokenizer",
    "Unsupported",
    "WorkerDied",
    "__version__",
    "array_record",
    "arrays",
    "arrow",
    "audio_folder",
    "beton",
    "coco",
    "csv",
    "dataset",
    "files",
    "hdf5",
    "hf_dataset",
    "image_folder",
    "iterable",
    "jsonl",
    "lance",
    "litdata",
    "lmdb",
    "mds",
    "mix",
    "npy",
    "npz",
    "op",
    "open_images",
    "ops",
    "parquet",
    "text",
    "tfrecord",
    "token_blocks",
    "video",
    "voc",
    "watch",
    "webdataset",
    "wrap",
    "yolo",
]


# Loaded when they are asked for: their libraries, and frameworks, are many modules that few scripts need together.
_LATER = {
    "coco": "_detection.coco",
    "open_images": "_detection.open_images",
    "voc": "_detection.voc",
    "yolo": "_detection.yolo",
    "array_record": "_containers.array_record",
    "beton": "_containers.beton",
    "lance": "_containers.lance_rows",
    "litdata": "_containers.litdata",
    "video": "_containers.video",
    "csv": "_formats.csv_rows",
    "hdf5": "_formats.hdf5",
    "iterable": "_iterables.iterable",
    "jsonl": "_formats.jsonl",
    "lmdb": "_containers.lmdb_store",
    "npy": "_formats.npy",
    "npz": "_formats.npy",
    "text": "_formats.lines",
    "op": "_own_ops.op",
    "open": "_records.recognise",  # not in __all__: `import *` would hide the builtin
    "parquet": "_formats.parquet",
    "Tokenizer": "_text.tokenizer",
    "token_blocks": "_formats.token_blocks",
    "watch": "_watching.serving",
    "wrap": "_wrapping.wrapper",
}
_MODULES = ("augment", "detection", "language", "sound", "torch", "jax", "fleet")


def __getattr__(name: str) -> Any:
    if name not in _LATER and name not in _MODULES:
        raise AttributeError(f"module 'carya' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"{__name__}.{_LATER.get(name, name)}")
    found = getattr(module, name) if name in _LATER else module
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
