"""Opening a dataset: where manifests are kept, progress of a long listing, what was left out."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, SampleError
from .._sources.progress import ListingProgress
from .._sources.stores import is_url
from .arrays import family
from .document import Document

_log = logging.getLogger("carya")
_said_no_cache: set[str] = set()
NO_TAR = re.compile(r"(?s)tar (.+) @0: not a tar header")  # what is said of a file that does not begin as a tar


def chosen_cache_dir() -> str:
    """Folder for manifests and indexes: $CARYA_CACHE_DIR, else carya/ in $XDG_CACHE_HOME or ~/.cache.

    It may not be there yet: that of a system service is made when the service starts.
    """
    chosen = os.environ.get("CARYA_CACHE_DIR")
    if not chosen:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        chosen = os.path.join(base, "carya")
    return os.path.abspath(chosen)


def cache_dir(told: bool = True) -> str:
    """The chosen folder, made for this user alone if it is missing; "" (nothing is kept) when this process cannot make or write it, which is
    logged once unless `told` is false."""
    chosen = chosen_cache_dir()
    why = "not writable for this user"
    try:
        os.makedirs(chosen, mode=0o700, exist_ok=True)
        if os.access(chosen, os.W_OK):
            return chosen
    except OSError as error:
        why = error.strerror or str(error)
    if told and chosen not in _said_no_cache:
        _said_no_cache.add(chosen)
        _log.warning(
            "no cache: %s: %s; listings and decode indexes are made anew in every run; "
            "give CARYA_CACHE_DIR a folder that this user can write",
            chosen, why,
        )  # fmt: skip
    return ""


def say_cache_trouble(folder: str, reason: str) -> None:
    """Log, once per folder, why decode indexes are not kept in it. `reason`: of `stats()["decode_index"]`."""
    if folder not in reason or folder in _said_no_cache:  # other reasons are of the data, and no trouble
        return
    _said_no_cache.add(folder)
    _log.warning(
        "the cache folder keeps no decode index: %s; make room in it, or give CARYA_CACHE_DIR a folder that this user "
        "can write",
        reason,
    )  # fmt: skip


def say_tier_trouble(cache: Document | None) -> None:
    """Log, once per message, what storage did to samples kept in files. `cache`: of `stats()`."""
    for tier in (cache or {}).get("files", []):
        if tier["trouble"] and tier["trouble"] not in _said_no_cache:
            _said_no_cache.add(tier["trouble"])
            _log.warning(
                "samples in files (%s, %s): %s; the stream goes on without", tier["tier"], tier["path"], tier["trouble"]
            )


def open_dataset(
    pipeline: _core.Pipeline,
    source: Document,
    arrays: dict[str, np.ndarray[Any, Any]] | None,
    verify: bool,
    threads: int,
) -> _core.Dataset:
    """Open the source of `pipeline` and apply its views; name files that were skipped."""
    _check_memory(source, arrays)
    with ListingProgress(str(source.get("path", source["type"]))) as progress, _telling_zips():
        dataset = _core.Dataset.open(
            pipeline, arrays=arrays, cache_dir=cache_dir(), verify=verify, threads=threads, progress=progress
        )
    _warn_of_skipped(source, dataset.skipped_count, dataset.skipped_examples)
    return dataset


def attach_job(
    pipeline: _core.Pipeline,
    source: Document,
    arrays: dict[str, np.ndarray[Any, Any]] | None,
    daemon: _core.DaemonOptions,
    options: _core.JobOptions,
    defer_release: bool,
) -> _core.Job:
    """A job that a daemon makes: it opens the source of `pipeline`, and reports how far a long listing is."""
    _check_memory(source, arrays)
    found = _absolute(source)
    if found != source:  # the daemon is somewhere else
        pipeline = _core.Pipeline.parse(json.dumps({**json.loads(pipeline.to_json()), "source": found}))
    if daemon.share and arrays:
        daemon.share = family(daemon.share, arrays)
    with ListingProgress(str(source.get("path", source["type"]))) as progress, _telling_zips():
        daemon.arrays, daemon.progress = arrays, progress
        job = _core.Job(pipeline, None, options, daemon=daemon, defer_release=defer_release)
    _warn_of_skipped(source, *job.skipped)
    return job


def users_line() -> int:
    """The `stacklevel` of a warning by the caller that names the line outside of this package from which all of it was called: a source
    is opened from many places."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "carya":
        level, frame = level + 1, frame.f_back
    return level


def _warn_of_skipped(source: Document, count: int, examples: list[str]) -> None:
    if not count:
        return
    names = ", ".join(examples[:8]) + (", ..." if count > 8 else "")
    if source["type"] == "webdataset":
        text = (
            f"webdataset: {count} of {len(source['tars'])} tars have no end mark: {names}; each may have been cut off "
            "between two members, with records missing: compare its size with the original's, and copy or write it anew"
        )
    else:
        text = (
            f"{source['type']}({source.get('path', '')}): skipped {count} files with other extensions: {names}; "
            "convert them to JPEG or PNG if they are meant to be records"
        )
    warnings.warn(text, stacklevel=users_line())


@contextlib.contextmanager
def _telling_zips() -> Iterator[None]:
    """Say of a file that begins as no tar does, and is a zip behind other bytes, what it is. Zips are told by their first bytes."""
    try:
        yield
    except SampleError as error:
        import zipfile  # of mistakes only

        found = NO_TAR.match(str(error))
        if found is None or is_url(found[1]) or not zipfile.is_zipfile(found[1]):
            raise
        raise SampleError(
            f"zip {found[1]}: other bytes stand in front of it, as in an archive that unpacks itself, and its members are taken where "
            "the zip says that they lie; take those bytes off (zip -J FILE), or pack the files anew, as they are: zip -0"
        ) from None


def _absolute(source: Document) -> Document:
    """The source with its paths from the root."""
    found = dict(source)

    def absolute(path: str) -> str:
        return path if is_url(path) else os.path.abspath(path)

    if "path" in found:
        found["path"] = os.path.abspath(found["path"])
    for key in ("paths", "tars"):
        if key in found:
            found[key] = [absolute(path) for path in found[key]]
    if found.get("extra"):
        found["extra"] = {name: [absolute(path) for path in paths] for name, paths in found["extra"].items()}
    return found


def _check_memory(source: Document, arrays: dict[str, np.ndarray[Any, Any]] | None) -> None:
    if source.get("arrays") and arrays is None:
        if source["type"] == "ranges":
            raise InvalidArgument(
                f"{source['kind']}: the document does not say where the records lie; make the pipeline by carya.{source['kind']}, or "
                "write it as a pickle"
            )
        raise InvalidArgument(
            "arrays: the document has no memory of its own; give it with Pipeline.from_json(text, arrays={...})"
        )
