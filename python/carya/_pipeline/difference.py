"""How far a pipeline's results lie apart when its operations run in another order: measured, over real samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._errors import SampleError

if TYPE_CHECKING:
    from .._stages.chain import Chain
    from .pipeline import Pipeline

_Sample = Callable[[int], dict[str, Any]]

RECORDS = 32


class _Sums:
    """Of one tensor over the samples seen."""

    def __init__(self) -> None:
        self.values = 0
        self.absolute = self.squared = self.most = 0.0
        self.low, self.high = math.inf, -math.inf

    def add(self, declared: np.ndarray[Any, Any], chosen: np.ndarray[Any, Any]) -> None:
        if not declared.size:
            return
        apart = np.abs(declared.astype(np.float64) - chosen.astype(np.float64))
        self.values += apart.size
        self.absolute += float(apart.sum())
        self.squared += float(np.square(apart).sum())
        self.most = max(self.most, float(apart.max()))
        self.low, self.high = min(self.low, float(declared.min())), max(self.high, float(declared.max()))

    def result(self, dtype: str) -> dict[str, float | None]:
        peak = 255.0 if dtype == "uint8" else self.high - self.low
        noise = self.squared / max(self.values, 1)
        psnr = 10 * math.log10(peak * peak / noise) if noise > 0 and peak > 0 else None
        return {"mean": self.absolute / max(self.values, 1), "max": self.most, "psnr": psnr}


def measure(pipeline: Pipeline, order: list[int]) -> dict[str, Any]:
    """The difference between samples as declared and in `order`, over RECORDS records spread over the dataset.

    Keys: `records`, `broken` (records that are bad data, left out), `tensors`: per image or array of values `mean` and
    `max` of the absolute difference in the tensor's own units, and `psnr` in dB (peak: 255 for uint8, else the range of
    the declared values; None when nothing differs). Errors: those of opening and reading the dataset.
    """
    dataset, native = pipeline.dataset, pipeline.native
    return _over(
        dataset.count,
        lambda record: _core.sample(native, dataset, record, 0, None),
        lambda record: _core.sample(native, dataset, record, 0, None, order),
        SampleError,
    )


def measure_chains(declared: Chain, chosen: Chain, count: int) -> dict[str, Any]:
    """The same between two chains with functions, over some of `count` records; those that raise are left out as broken."""
    return _over(
        count,
        lambda record: declared.leaves(declared.sample(record, 0)),
        lambda record: chosen.leaves(chosen.sample(record, 0)),
        Exception,
    )


def _over(count: int, declared: _Sample, chosen: _Sample, bad: type[Exception]) -> dict[str, Any]:
    tried = min(RECORDS, count)
    sums: dict[str, _Sums] = {}
    dtypes: dict[str, str] = {}
    broken = 0
    for number in range(tried):
        record = number * count // tried
        try:
            one, other = declared(record), chosen(record)
        except bad:
            broken += 1
            continue
        for name, tensor in one.items():
            if isinstance(tensor, np.ndarray) and str(tensor.dtype) in ("uint8", "float32"):
                dtypes[name] = str(tensor.dtype)
                sums.setdefault(name, _Sums()).add(tensor, other[name])
    tensors = {name: total.result(dtypes[name]) for name, total in sums.items()}
    return {"records": tried - broken, "broken": broken, "tensors": tensors}
