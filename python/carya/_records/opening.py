"""The records of what lies at a path."""

from __future__ import annotations

import functools
import os
import re
from typing import Any, NamedTuple

from .._containers.array_record import NAMED as ARRAY_RECORDS
from .._containers.array_record import array_record
from .._containers.beton import NAMED as BETONS
from .._containers.beton import beton
from .._containers.examples import parsed
from .._containers.lance_rows import lance
from .._containers.litdata import litdata
from .._containers.lmdb_store import LMDBS, LmdbEntries, lmdb
from .._containers.video import NAMED as VIDEOS
from .._containers.video import video
from .._errors import SampleError, Unsupported
from .._formats.csv_rows import csv
from .._formats.hdf5 import hdf5
from .._formats.jsonl import jsonl
from .._formats.kept import copied, look_at
from .._formats.lines import text
from .._formats.npy import npy, npz
from .._formats.parquet import Parquet
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import ARROWS, mds_shards
from .._sources.huggingface import hf_files
from .._sources.objects import ListedObject, all_at_once, object_at
from .._sources.paths import TARS, TFRECORDS, one_path, path_list, record_paths
from .._sources.stores import check_url, is_url, url_paths
from .images import FolderImages
from .library import LibraryRecords
from .recognise import FILES_ONLY, options_of, recognised
from .records import Records


def _array_records(path: str) -> Pipeline:
    """The features of Examples, where the first record is one."""
    found = array_record(path)
    try:
        are_examples = bool(parsed(found.map_style[0]["record"]))
    except (ValueError, SampleError):
        are_examples = False
    return array_record(path, record="example") if are_examples else found


def _raw_betons(path: str) -> Pipeline:
    """Images as they lie there."""
    return beton(path, decode=False)


# Of the sources whose pipeline holds the object that reads: the function, and which names of a folder are files of it.
_OVER_LIBRARIES: dict[str, tuple[Any, str]] = {
    "array_record": (_array_records, ARRAY_RECORDS.pattern.removeprefix("^[^.].*")),
    "beton": (_raw_betons, BETONS.pattern.removeprefix("^[^.].*")),
    "csv": (csv, r"\.(csv|tsv)(\.(gz|zst|bz2|xz))?$"),
    "jsonl": (jsonl, r"\.(jsonl|ndjson|json)(\.(gz|zst|bz2|xz))?$"),
    "text": (text, r"\.(txt|text|md|tokens)(\.(gz|zst|bz2|xz))?$"),
    "npy": (npy, r"\.npy$"),
    "npz": (npz, r"\.npz$"),
    "hdf5": (hdf5, r"\.(h5|hdf5|hdf|he5)$"),
    "lance": (lance, r"$"),
    "litdata": (litdata, r"$"),
    "lmdb": (lmdb, r"$"),
    "video": (video, "(?i:" + VIDEOS.pattern.removeprefix("^[^.].*") + ")"),
}
_PARQUET = r"\.(parquet|parq|pq)$"
# Of which parts of an object are read, and what its objects in a folder of a bucket are called.
_BY_RANGES = {
    "webdataset": TARS, "tfrecord": TFRECORDS, "mds": re.compile(""), "arrow": ARROWS, "parquet": re.compile(rf"^[^.].*{_PARQUET}"), "lmdb": LMDBS,
}  # fmt: skip
_OBJECTS_MAX = 8


class Opened(NamedTuple):
    """Records, and why they were taken for what they are."""

    records: Records
    path: str
    why: str


def open_records(path: Any, raw: bool = False, partly: bool = False) -> Opened:
    """The records at a path or URL, as `carya.open` takes it. `raw`: members of tars as bytes, whatever their names say. `partly`: of
    objects behind a URL those that are found soon, with a note in `notes`.

    Errors: NotFound, InvalidArgument (unknown or ambiguous), Permission, those of the format and of the store.
    """
    if not is_url(path):
        name = one_path("path", path)
        kind, why = recognised(name)
        return Opened(_records(kind, name, raw), name, why)
    name = check_url("path", path)
    kind, why = recognised(name)
    if kind in FILES_ONLY:
        raise Unsupported(f"{name}: {kind}, which is read from files only; copy it to this machine")
    return Opened(_looked_at(kind, name) if partly else _of_store(kind, name, raw), name, why)


def _of_store(kind: str, url: str, raw: bool) -> Records:
    """Of all objects, each of the version that it has now. What is read as lines stays in the store."""
    if kind == "image_folder":
        return FolderImages(url)
    if kind in _OVER_LIBRARIES and kind not in _BY_RANGES:
        return _by_library(kind, url, {"copy": False} if kind in ("csv", "jsonl", "text") else {})
    files = all_at_once(object_at, _urls(kind, url))
    if kind in ("arrow", "hf_dataset"):
        from .arrow_files import ArrowRows

        return ArrowRows(all_at_once(functools.partial(copied, kind), files), kind)
    if kind == "parquet":
        return LibraryRecords(kind, files, Parquet(files, None, {}, 0, keep_nulls=True), in_blocks=True)
    return _read_by_ranges(kind, files, raw, whole=True)


def _by_library(kind: str, url: str, options: dict[str, Any]) -> Records:
    source, _ = _OVER_LIBRARIES[kind]
    pipeline = source(url, **options_of(kind, url), **options)
    if kind == "litdata":
        return LibraryRecords(kind, pipeline.map_style.files, pipeline.map_style)
    return LibraryRecords(kind, all_at_once(object_at, _urls(kind, url)), pipeline.map_style, kind == "hdf5")


def _looked_at(kind: str, url: str) -> Records:
    """Of some files, since each is a request or more."""
    if kind == "image_folder":
        return FolderImages(url)
    if kind in _OVER_LIBRARIES and kind not in _BY_RANGES:
        return _by_library(kind, url, {})  # which copies most
    urls = _urls(kind, url)
    files = [object_at(one) for one in urls[:_OBJECTS_MAX]]
    records: Records
    if kind == "parquet":
        records = LibraryRecords(kind, files, Parquet(files, None, {}, 0, keep_nulls=True), in_blocks=True)
    elif kind in ("arrow", "hf_dataset"):
        from .arrow_files import ArrowRows

        records = ArrowRows(files, kind)
    else:
        records = _read_by_ranges(kind, files)
    if len(urls) > len(files):
        records.notes.insert(0, f"looked at the first {len(files)} of {len(urls):,} objects; records are those of them")
    return records


def _read_by_ranges(kind: str, files: list[ListedObject], raw: bool = False, whole: bool = False) -> Records:
    if kind == "webdataset":
        from .tars import TarRecords

        return TarRecords(files, raw, whole)
    if kind == "tfrecord":
        from .tfrecords import TfRecords

        return TfRecords(files, whole)
    if kind == "lmdb":
        return LibraryRecords(kind, files, LmdbEntries(files, None))
    from .mds_shards import MdsSamples

    return MdsSamples(files)


def _urls(kind: str, url: str) -> list[str]:
    if kind == "mds":
        return mds_shards(url)
    if kind == "hf_dataset":
        return hf_files(url.rstrip("/")).paths
    named = _BY_RANGES.get(kind) or re.compile(rf"^[^.].*{_OVER_LIBRARIES[kind][1]}")
    return url_paths("path", url, None, named, "as files of its format are") or [url]


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
    if kind in ("litdata", "lance"):
        return LibraryRecords(kind, pipeline.map_style.files, pipeline.map_style)
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
