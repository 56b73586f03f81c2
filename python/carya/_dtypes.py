"""Types of values that numpy has not by itself: bfloat16 is that of the package ml_dtypes, which comes with jax."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ._errors import Unsupported

BFLOAT16 = "bfloat16"


def numpy_dtype(given: Any) -> np.dtype[Any]:
    """What `np.dtype` makes of it, and ml_dtypes' type of "bfloat16", whether or not something has imported that package.

    Errors: TypeError (no type), Unsupported (bfloat16 without ml_dtypes).

    >>> numpy_dtype("uint8"), numpy_dtype("bfloat16").itemsize
    (dtype('uint8'), 2)
    """
    if isinstance(given, str) and given == BFLOAT16:
        try:
            given = importlib.import_module("ml_dtypes").bfloat16
        except ImportError as error:
            raise Unsupported(
                "bfloat16: numpy has no such type without the package ml_dtypes; pip install ml_dtypes, or take the batches by "
                "carya.torch.Loader, which needs none"
            ) from error
    found: np.dtype[Any] = np.dtype(given)
    return found


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether it is ml_dtypes' type.

    >>> is_bfloat16(numpy_dtype("bfloat16")), is_bfloat16(np.dtype("V2"))
    (True, False)
    """
    return dtype.kind == "V" and dtype.name == BFLOAT16
