"""torchvision as a reference: its transforms, without its native operators.

The wheel on PyPI is built for torch with CUDA, and its native library does not load beside a torch without. The
transforms need none of it; the two operators that torchvision asks for while it is imported are declared here. `make test`
puts the package into build/torchvision, where libraries that import whatever they find do not see it.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_FOLDER = Path(__file__).resolve().parents[2] / "build" / "torchvision"


@cache
def _declared() -> Any:
    """The operators stay declared as long as this object lives."""
    library = importlib.import_module("torch").library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def module(name: str) -> ModuleType:
    """The module torchvision.`name`; skips the test where there is no torchvision."""
    pytest.importorskip("torch").set_num_threads(1)  # as conftest.py has it where torch was imported before the test
    try:
        return importlib.import_module(f"torchvision.{name}")  # one that fits this torch
    except (ImportError, RuntimeError):
        pass
    if not (_FOLDER / "torchvision").is_dir():
        why = "no torchvision: `make test` puts it into build/torchvision"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    for left in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[left]
    _declared()
    sys.path.insert(0, str(_FOLDER))
    try:
        return importlib.import_module(f"torchvision.{name}")
    finally:
        sys.path.remove(str(_FOLDER))
