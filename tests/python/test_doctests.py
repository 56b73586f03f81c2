"""The examples in the docstrings are run."""

from __future__ import annotations

import doctest
import importlib
import importlib.util

import pytest

MODULES = [
    "carya._loading.batch",
    "carya._pipeline.batch_functions",
    "carya._pipeline.chain",
    "carya._pipeline.color_ops",
    "carya._pipeline.document",
    "carya._errors",
    "carya._explain.explanation",
    "carya._loading.loader",
    "carya._pipeline.ops",
    "carya._options",
    "carya._pipeline.pipeline",
    "carya._loading.plan_file",
    "carya._simulate.svg",
    "carya._pipeline.sources",
    "carya._pipeline.warp_ops",
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
