"""How far a pipeline's results lie apart when its operations run in another order: measured, over real samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._errors import SampleError

if TYPE_CHECKING:
    from .pipeline import Pipeline

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
    dataset = pipeline.dataset
    count = min(RECORDS, dataset.count)
    dtypes = {name: dtype for name, dtype, _ in pipeline.outputs if dtype in ("uint8", "float32")}
    sums = {name: _Sums() for name in dtypes}
    broken = 0
    for number in range(count):
        record = number * dataset.count // count
        try:
            declared = _core.sample(pipeline.native, dataset, record, 0, None)
            chosen = _core.sample(pipeline.native, dataset, record, 0, None, order)
        except SampleError:
            broken += 1
            continue
        for name, total in sums.items():
            total.add(declared[name], chosen[name])
    tensors = {name: total.result(dtypes[name]) for name, total in sums.items()}
    return {"records": count - broken, "broken": broken, "tensors": tensors}
