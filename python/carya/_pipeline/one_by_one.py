"""Samples taken one by one (`pipeline[i]`), which tells no epoch: refused or told where the augmentation would stand still.

A DataLoader that a framework makes of a loader asks one by one too, and gets the loader's own batches (`Delivered`).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._errors import Unsupported

_FROZEN = (
    "{}: it does not tell the epoch, so that all epochs have the same augmentation; use "
    "carya.torch.Loader(pipeline.batch(n)) (carya.Loader, carya.jax.Loader), or pipeline.sample(i, epoch=epoch)"
)
# Operations that draw, though their names do not say so: always, and by a parameter of several values.
_ALWAYS = frozenset({"color_jitter", "scale_jitter", "spec_augment", "time_shift"})
_RANGES = {"gaussian_blur": "sigma", "gain": "db", "speed_perturb": "factors"}


class Delivered(list[Any]):
    """A batch of a loader on its way through a DataLoader that a framework made of the loader's parts."""

    def __init__(self, batch: Any) -> None:
        super().__init__()
        self.batch = batch


def draws(ops: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the operations draws random numbers, so that epochs differ."""
    return any(map(_draws, ops))


def _draws(op: Mapping[str, Any]) -> bool:
    name, ranged = op["op"], _RANGES.get(op["op"])
    if ranged is not None:
        given = op.get(ranged)
        return isinstance(given, Sequence) and len(set(given)) > 1
    return (
        name.startswith("random_")
        or name in _ALWAYS
        or (name == "crop_audio" and bool(op.get("random", True)))
        or draws(op.get("ops") or [])
    )


def frozen(caller: str) -> Unsupported:
    """What to raise where a DataLoader asks."""
    return Unsupported(_FROZEN.format(caller))


def asked_by_torch(depth: int) -> bool:
    """Whether the function `depth` calls above the caller is torch's: a DataLoader's, or a Subset's inside of one."""
    return str(sys._getframe(depth + 1).f_globals.get("__name__")).startswith("torch.utils.data.")


def after_taking(taken: int, count: int) -> int | None:
    """The number of samples taken so far; None once it was told (on behalf of the caller's caller) that some came twice.

    A worker of a torch DataLoader is told at once: it may live for one epoch, and counts no others.
    """
    data = sys.modules.get("torch.utils.data")
    if taken < count and (data is None or data.get_worker_info() is None):
        return taken + 1
    warnings.warn(f"carya: {_FROZEN.format('pipeline[i]')}", RuntimeWarning, stacklevel=3)
    return None
