"""The examples in the docstrings are run."""

from __future__ import annotations

import doctest
import importlib
import importlib.util

import pytest

MODULES = [
    "carya._batch",
    "carya._batch_functions",
    "carya._chain",
    "carya._color_ops",
    "carya._document",
    "carya._errors",
    "carya._explanation",
    "carya._loader",
    "carya._ops",
    "carya._options",
    "carya._pipeline",
    "carya._plan",
    "carya._simulate_svg",
    "carya._sources",
    "carya._warp_ops",
    "carya.jax",
    "carya.torch",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    extra = name.partition(".")[2]
    if extra in ("torch", "jax") and importlib.util.find_spec(extra) is None:
        pytest.skip(f"{extra} is not installed")
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.attempted > 0
    assert result.failed == 0
