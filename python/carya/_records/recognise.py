"""What lies at a path, and the source for it."""

from __future__ import annotations

import builtins
import logging
import os
import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Any

from .. import _core
from .._containers.array_record import NAMED as ARRAY_RECORDS
from .._containers.array_record import SIGNATURE, array_record
from .._containers.beton import NAMED as BETONS
from .._containers.beton import beton
from .._containers.lance_rows import lance
from .._containers.litdata import litdata
from .._containers.lmdb_store import lmdb
from .._containers.video import NAMED as VIDEOS
from .._containers.video import video
from .._errors import Error, InvalidArgument, IoError, NotFound, Permission, Unsupported
from .._formats.csv_rows import csv
from .._formats.hdf5 import hdf5
from .._formats.jsonl import jsonl
from .._formats.lines import text
from .._formats.npy import npy, npz
from .._formats.parquet import parquet
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import PICTURES, arrow, hf_dataset, image_folder, mds, tfrecord, webdataset
from .._sources.objects import open_file
from .._sources.paths import TFRECORDS, PathLike, one_path, record_paths
from .._sources.stores import at_endpoint, bucket_of, check_url, is_listed, is_url, list_objects, url_paths
from .elsewhere import (
    SOUNDS,
    check_below,
    check_pointer,
    check_sounds,
    check_tokens,
    is_about,
    names_below,
    said_of,
)

_log = logging.getLogger("carya")
_SOURCES: dict[str, Callable[..., Pipeline]] = {
    "array_record": array_record, "arrow": arrow, "beton": beton, "csv": csv, "hdf5": hdf5, "hf_dataset": hf_dataset, "image_folder": image_folder, "jsonl": jsonl,
    "lance": lance, "litdata": litdata, "lmdb": lmdb, "mds": mds, "npy": npy, "npz": npz, "parquet": parquet, "text": text, "tfrecord": tfrecord, "video": video, "webdataset": webdataset,
}  # fmt: skip
_ALL = sorted({*_SOURCES, "audio_folder", "files", "token_blocks"})  # with those that a path alone does not open
_PACKED = r"(\.(gz|zst|bz2|xz))?$"
_SUFFIXES = {
    r"\.(parquet|parq|pq)$": "parquet",
    r"\.(jsonl|ndjson)" + _PACKED: "jsonl",
    r"\.(csv|tsv)" + _PACKED: "csv",
    r"\.(txt|text|md|tokens)" + _PACKED: "text",
    r"\.npy$": "npy",
    r"\.npz$": "npz",
    r"\.(h5|hdf5|hdf|he5)$": "hdf5",
    r"\.mdb$": "lmdb",
    r"\.arrow$": "arrow",
    ARRAY_RECORDS.pattern: "array_record",
    BETONS.pattern: "beton",
    f"(?i){VIDEOS.pattern}": "video",
    r"\.(tar|zip)$": "webdataset",
}
# (offset, bytes) at the beginning of a file; a name that says something else is then ambiguous.
_MAGIC = {
    (0, b"PAR1"): "parquet",
    (0, SIGNATURE): "array_record",
    (0, b"\x93NUMPY"): "npy",
    (0, b"\x89HDF\r\n\x1a\n"): "hdf5",
    (0, b"ARROW1"): "arrow",
    (16, b"\xde\xc0\xef\xbe"): "lmdb",
    (257, b"ustar"): "webdataset",
}
FILES_ONLY = ("lance",)
_MARKS = {"state.json": "hf_dataset", "data.mdb": "lmdb", "index.json": "mds", "_versions": "lance"}


def open(path: PathLike, **options: Any) -> Pipeline:
    """The source for what lies at `path`, told by its first bytes and names: `carya.open`.

    `path`: a file or URL, a glob pattern, braces, or a folder. Files are known by their first bytes, or by their names where those say
    nothing; folders by a file that only one format has (`data.mdb`, `index.json`, `state.json`), by the names in them, or, with
    pictures in their folders, as images in one folder per class. `options` are those of the source, such as `columns=`, which
    says what else it can do. What it was taken for is logged (logger "carya", level info); `carya.open` is no more than a
    shorter way to write the source, and the pipeline is the same.
    Errors: NotFound, InvalidArgument (nothing that is known, several formats, or what a path alone does not open, such as sounds:
    the message has what to call), those of the source.

    >>> import carya, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> size = name.write_text("x\\n1\\n2\\n")
    >>> carya.open(name)[1]["x"]
    array(2)
    """
    endpoint = options.get("endpoint")
    name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    name = at_endpoint(check_url("open: path", name), endpoint) if is_url(name) else one_path("open: path", path)
    kind, why = recognised(name)
    if is_url(name):
        options.pop("endpoint", None)  # the name has it now
        if kind in FILES_ONLY:
            raise Unsupported(
                f"open: {name}: {kind}, which is read from files only; copy it to this machine, or convert it (carya convert)"
            )
    options = {**options_of(kind, name), **options}
    _log.info("open: %s: taken for %s, by %s; call carya.%s to be sure of it", name, kind, why, kind)
    return _SOURCES[kind](name, **options)


def options_of(kind: str, path: str) -> dict[str, Any]:
    """What the name of a path says of how it is read: tabs in "*.tsv"."""
    return {"delimiter": "\t"} if kind == "csv" and re.search(r"\.tsv" + _PACKED, path) else {}


def recognised(path: str) -> tuple[str, str]:
    """The name of the source, and what told it. Errors: NotFound, Permission, InvalidArgument (unknown or ambiguous)."""
    try:
        if is_url(path):
            return _in_store(path)
        if os.path.isdir(path):
            return _folder(path)
        paths = [path] if os.path.lexists(path) else record_paths(path)
        return _agreed(path, {_file(one) for one in paths[:100]}, said_of(paths[0], _head(paths[0])))
    except Error:  # some are errors of the system too, and a store's refusal says which credentials to give
        raise
    except PermissionError as error:
        raise Permission(f"open: {error.filename}: this user may not read it; give read permission") from None
    except OSError as error:
        raise IoError(f"open: {error.filename or path}: {error.strerror}; give a path that can be read") from error


def _agreed(path: str, found: set[tuple[str, str]], hint: str = "") -> tuple[str, str]:
    kinds = sorted({kind for kind, _ in found if kind})
    if len(kinds) > 1:
        raise InvalidArgument(
            f"open: {path}: it could be {' or '.join(kinds)}; call carya.{kinds[0]} or the other, or give a pattern of one kind"
        )
    if not kinds:
        raise InvalidArgument(
            f"open: {path}: {hint}"
            if hint
            else f"open: {path}: got nothing that is known; call one of carya.{', carya.'.join(_ALL)}"
        )
    return kinds[0], next(why for kind, why in sorted(found) if kind)


def _folder(path: str) -> tuple[str, str]:
    entries = [entry for entry in os.scandir(path) if not entry.name.startswith(".")]
    if marks := _marks(path, [entry.name for entry in entries]):
        return _agreed(path, {(kind, "a file that only it has") for kind in marks})
    files = [entry.name for entry in entries if entry.is_file()]
    found = {_by_name(name) for name in files if not is_about(name)}
    if others := {one for one in found if one[0] not in ("", "text")}:  # beside these, a text explains them
        found = others
    pictures = sum(name.lower().endswith(PICTURES) for name in files)
    if not others and not pictures:
        check_sounds(path, any(name.lower().endswith(SOUNDS) for name in files))
        if len(files) < len(entries):
            texts = any(kind for kind, _ in found)
            if check_below(path, names_below(path), _kind_of, _MARKS, texts=not texts) or not texts:
                return "image_folder", "its folders"
    if pictures and not others:
        raise InvalidArgument(
            f"open: {path}: it has {pictures} pictures and no folder for each class; give carya.files() their paths in an order of "
            "yours, with labels= if there are any"
        )
    return _agreed(path, found)


def _marks(folder: str, names: Iterable[str]) -> set[str]:
    """The formats whose own files are among those of a folder. Errors: NoSource (of `carya tokenize`)."""
    marks = {_MARKS[name] for name in names if name in _MARKS}
    if "mds" in marks:
        index = os.path.join(folder, "index.json")
        check_tokens(folder, index)
        with open_file(index) as file:
            head = file.read(1 << 16)
        if b'"chunks"' in head and b'"shards"' not in head:
            marks = marks - {"mds"} | {"litdata"}
    return marks


def _in_store(url: str) -> tuple[str, str]:
    """The same of a URL: an object, a pattern, or a folder of a bucket, by the names below it."""
    if url.endswith("/"):
        depth = url.count("/")
        objects = list_objects(url)
        names = [one.rsplit("/", 1)[1] for one in objects if one.count("/") == depth]
        if not objects:
            raise NotFound(f"open: {url}: no object lies below it; give a folder that has some, or look at the name")
        if not names:
            check_below(url, (one[len(url) :] for one in objects), _kind_of, _MARKS, texts=True)
            return "image_folder", "its folders"
        marks = _marks(url, names)
        return _agreed(url, {(kind, "a file that only it has") for kind in marks} or {_by_name(name) for name in names})
    urls = url_paths("open: path", url) or [url]
    first = _first_bytes(urls[0])
    found = {_by_bytes(urls[0], first), *(_by_name(posixpath.basename(one)) for one in urls[1:])}
    return _agreed(url, found, said_of(urls[0], first))


def _first_bytes(url: str) -> bytes:
    folder = is_listed(url) and not bucket_of(url)[1]  # no object can be called so
    try:
        if not folder:
            return _core.store_head(url, 512)
    except NotFound:
        if not _has_objects(url + "/"):
            raise
    raise NotFound(f"open: {url}: it is a folder; give it with / at its end")


def _has_objects(folder: str) -> bool:
    try:
        return is_listed(folder) and bool(list_objects(folder))
    except Error:  # what the store said of the object is what counts
        return False


def _file(path: str) -> tuple[str, str]:
    return ("", "") if _is_special(path) else _by_bytes(path, _head(path))


def _is_special(path: str) -> bool:
    """Whether it is a pipe or a device, which would wait for somebody who writes."""
    return os.path.exists(path) and not os.path.isfile(path)


def _head(path: str) -> bytes:
    if _is_special(path):
        return b""
    try:
        with builtins.open(path, "rb") as file:
            return file.read(512)
    except FileNotFoundError:
        raise NotFound(f"open: {path}: there is no such file; give a path that exists") from None


def _by_bytes(path: str, head: bytes) -> tuple[str, str]:
    check_pointer(path, head)
    named = _by_name(os.path.basename(path))
    for (offset, magic), kind in _MAGIC.items():
        if head[offset : offset + len(magic)] == magic:
            if named[0] not in ("", kind):
                raise InvalidArgument(
                    f"open: {path}: its name says {named[0]} and its first bytes {kind}; call carya.{kind}, or rename it"
                )
            return kind, "its first bytes"
    return named


def _kind_of(name: str) -> str:
    return _MARKS.get(name) or _by_name(name)[0]


def _by_name(name: str) -> tuple[str, str]:
    """The kind of a file by its name; "" for none."""
    found = next((kind for suffix, kind in _SUFFIXES.items() if re.search(suffix, name)), "")
    if not found and TFRECORDS.search(name):
        found = "tfrecord"
    return found, "its name" if found else ""
