"""The examples in the docstrings are run: those of every module of the package that has some."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import carya

PACKAGE = Path(carya.__file__).resolve().parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text()
)

# What the examples of a module need, beside numpy.
NEEDED = {"carya.torch": "torch", "carya.jax": "jax", "carya._formats.parquet": "pyarrow"}
NEEDED |= {"carya._torch.dataloader": "torch", "carya._torch.orders": "torch"}
NEEDED |= {"carya._containers.codecs": "pyarrow", "carya._containers.array_record": "array_record"}
NEEDED |= {"carya._containers.video": "av", "carya._containers.lance_rows": "lance"}
NEEDED |= {"carya._formats.hdf5": "h5py", "carya._containers.lmdb_store": "lmdb"}


def test_most_modules_have_examples() -> None:
    assert len(MODULES) > 90


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    pytest.importorskip(NEEDED.get(name, "numpy"))
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.attempted > 0
    assert result.failed == 0
