"""The records of what lies at a path."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from .._formats.csv_rows import csv
from .._formats.hdf5 import hdf5
from .._formats.jsonl import jsonl
from .._formats.kept import look_at
from .._formats.lines import text
from .._formats.lmdb_store import lmdb
from .._formats.npy import npy, npz
from .._formats.parquet import Parquet
from .._formats.recognise import options_of, recognised
from .._pipeline.sources import ARROWS, mds_shards
from .._sources.huggingface import hf_files
from .._sources.paths import TARS, TFRECORDS, one_path, path_list, record_paths
from .images import FolderImages
from .library import LibraryRecords
from .records import Records

# Of the sources whose pipeline holds the object that reads: the function, and which names of a folder are files of it.
_OVER_LIBRARIES: dict[str, tuple[Any, str]] = {
    "csv": (csv, r"\.(csv|tsv)(\.(gz|zst|bz2|xz))?$"),
    "jsonl": (jsonl, r"\.(jsonl|ndjson|json)(\.(gz|zst|bz2|xz))?$"),
    "text": (text, r"\.(txt|text|md|tokens)(\.(gz|zst|bz2|xz))?$"),
    "npy": (npy, r"\.npy$"),
    "npz": (npz, r"\.npz$"),
    "hdf5": (hdf5, r"\.(h5|hdf5|hdf|he5)$"),
    "lmdb": (lmdb, r"$"),
}
_PARQUET = r"\.(parquet|parq|pq)$"


class Opened(NamedTuple):
    """Records, and why they were taken for what they are."""

    records: Records
    path: str
    why: str


def open_records(path: Any, raw: bool = False) -> Opened:
    """The records at a path, as `carya.open` takes it. `raw`: members of tars as bytes, whatever their names say.

    Errors: NotFound, InvalidArgument (unknown or ambiguous), Permission, those of the format.
    """
    name = one_path("path", path)
    kind, why = recognised(name)
    return Opened(_records(kind, name, raw), name, why)


def _records(kind: str, name: str, raw: bool) -> Records:
    if kind == "image_folder":
        return FolderImages(name)
    if kind == "webdataset":
        from .tars import TarRecords

        return TarRecords(_listed(kind, record_paths(name, TARS, "*.tar")), raw)
    if kind == "tfrecord":
        from .tfrecords import TfRecords

        return TfRecords(_listed(kind, record_paths(name, TFRECORDS)))
    if kind == "mds":
        from .mds_shards import MdsSamples

        return MdsSamples(_listed(kind, mds_shards(name)))
    if kind in ("arrow", "hf_dataset"):
        return _arrow(kind, name)
    if kind == "parquet":
        files = _listed(kind, _paths(name, _PARQUET))
        return LibraryRecords(kind, files, Parquet(files, None, {}, 0, keep_nulls=True), in_blocks=True)
    source, named = _OVER_LIBRARIES[kind]
    pipeline = source(name, **options_of(kind, name))
    if kind == "lmdb":
        inside = [os.path.join(one, "data.mdb") if os.path.isdir(one) else one for one in path_list("path", name)]
        return LibraryRecords(kind, _listed(kind, inside), pipeline.map_style)
    return LibraryRecords(kind, _listed(kind, _paths(name, named)), pipeline.map_style, in_blocks=kind == "hdf5")


def _arrow(kind: str, name: str) -> Records:
    from .arrow_files import ArrowRows

    if kind == "hf_dataset":
        found = hf_files(name)
        return ArrowRows(_listed(kind, found.paths), kind, found.rows)
    return ArrowRows(_listed(kind, record_paths(name, ARROWS, "*.arrow")), kind)


def _paths(name: str, named: str) -> list[str]:
    return record_paths(name, re.compile(rf"^[^.].*{named}"))


def _listed(kind: str, paths: list[str]) -> list[Any]:
    return [look_at(kind, path) for path in paths]
