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

from . import _pickled as _pickled
from ._core import version as __version__
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
)
from ._loading.batch import Batch
from ._loading.loader import Loader
from ._loading.remote import Placement
from ._pipeline.chain import OpChain, ops
from ._pipeline.pipeline import Pipeline
from ._pipeline.sources import arrays, files, image_folder, webdataset

if TYPE_CHECKING:
    from . import fleet as fleet
    from . import jax as jax
    from . import torch as torch

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
    "Unsupported",
    "__version__",
    "arrays",
    "files",
    "image_folder",
    "ops",
    "webdataset",
]


def __getattr__(name: str) -> Any:
    if name in ("torch", "jax", "fleet"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'carya' has no attribute {name!r}")
