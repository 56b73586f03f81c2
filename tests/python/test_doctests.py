"""The examples in the docstrings are run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "carya._loading.batch",
    "carya._pipeline.batch_functions",
    "carya._pipeline.chain",
    "carya._pipeline.color_ops",
    "carya._pipeline.document",
    "carya._detection.coco",
    "carya._detection.open_images",
    "carya._detection.voc",
    "carya._detection.yolo",
    "carya._errors",
    "carya._explain.explanation",
    "carya._formats.csv_rows",
    "carya._formats.hdf5",
    "carya._formats.jsonl",
    "carya._containers.lmdb_store",
    "carya._formats.npy",
    "carya._formats.parquet",
    "carya._records.elsewhere",
    "carya._records.recognise",
    "carya._formats.values",
    "carya._cli.converting",
    "carya._convert.mds",
    "carya._convert.plain",
    "carya._convert.schema",
    "carya._inspect.terminal",
    "carya._inspect.texts",
    "carya._records.crc32c",
    "carya._formats.addresses",
    "carya._containers.array_record",
    "carya._containers.beton",
    "carya._containers.codecs",
    "carya._containers.examples",
    "carya._containers.lance_rows",
    "carya._containers.litdata",
    "carya._containers.litdata_values",
    "carya._containers.video",
    "carya._records.mds_shards",
    "carya._records.records",
    "carya._records.values",
    "carya._sources.paths",
    "carya._loading.loader",
    "carya._loading.function_options",
    "carya._orders.budget",
    "carya._orders.chosen",
    "carya._pipeline.ops",
    "carya._options",
    "carya._pipeline.pipeline",
    "carya._loading.plan_file",
    "carya._simulate.svg",
    "carya._stages.functions",
    "carya._stages.identity",
    "carya._stages.randomness",
    "carya._stages.tree",
    "carya._stages.units",
    "carya._functions.steps",
    "carya._torch.dataloader",
    "carya._wrapping.headroom",
    "carya._wrapping.wrapper",
    "carya._torch.orders",
    "carya._functions.layout",
    "carya._pipeline.audio_ops",
    "carya._pipeline.sources",
    "carya._pipeline.warp_ops",
    "carya.augment",
    "carya.detection",
    "carya.jax",
    "carya.torch",
]


# What the examples of a module need, beside numpy.
NEEDED = {"carya.torch": "torch", "carya.jax": "jax", "carya._formats.parquet": "pyarrow"}
NEEDED |= {"carya._torch.dataloader": "torch", "carya._torch.orders": "torch"}
NEEDED |= {"carya._containers.codecs": "pyarrow", "carya._containers.array_record": "array_record"}
NEEDED |= {"carya._containers.video": "av", "carya._containers.lance_rows": "lance"}
NEEDED |= {"carya._formats.hdf5": "h5py", "carya._containers.lmdb_store": "lmdb"}


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    pytest.importorskip(NEEDED.get(name, "numpy"))
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.attempted > 0
    assert result.failed == 0
