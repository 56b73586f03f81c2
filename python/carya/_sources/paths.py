"""Paths as users give them: one, a list, a glob pattern, braces, a folder of files of one format."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .._errors import NotFound, invalid

# Files of a folder that are read: a data set of TensorFlow Datasets has JSON files beside them.
TFRECORDS = re.compile(r"^[^.].*(\.tfrec(ord)?s?\b|-\d{5}-of-\d{5}$)|^[^.].*\.record$")
TARS = re.compile(r"^[^.].*\.(tar|zip)$")

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def record_paths(
    given: PathLike | Sequence[PathLike],
    named: re.Pattern[str] = TFRECORDS,
    shown: str = "*.tfrecord*, *.tfrec* or *-00000-of-00001",
) -> list[str]:
    single = isinstance(given, str | bytes | os.PathLike) and not has_braces(given)
    folder = one_path("paths", given) if single else ""
    if not os.path.isdir(folder):
        return braced_list("paths", given)
    found = sorted((entry.path for entry in os.scandir(folder) if named.search(entry.name)), key=os.fsencode)
    if not found:
        raise NotFound(f"paths: no file in {folder} is called {shown}; give a glob pattern of the files")
    return found


def has_braces(given: Any) -> bool:
    """Whether it is a pattern with braces, and no file that is called so."""
    return isinstance(given, str) and "{" in given and not os.path.lexists(given)


def braced_list(name: str, given: PathLike | Sequence[PathLike]) -> list[str]:
    """As `path_list`, with braces in a single pattern expanded."""
    patterns = expand_braces(str(given)) if has_braces(given) else [given]
    return [path for pattern in patterns for path in path_list(name, pattern)]


def path_list(name: str, given: PathLike | Sequence[PathLike]) -> list[str]:
    if isinstance(given, str | bytes | os.PathLike):
        path = one_path(name, given)
        if not glob.has_magic(path) or os.path.lexists(path):  # a file may be called "a[1].jpg"
            return [path]
        matches = glob.iglob(path, recursive=True)
        found = sorted((match for match in matches if not os.path.isdir(match)), key=os.fsencode)
        if not found:
            raise NotFound(f"{name}: nothing matches {path!r}; give a pattern that matches files")
        return found
    if not isinstance(given, Iterable):
        raise invalid(name, given, "a path, a glob pattern or a sequence of paths")
    return [one_path(name, path) for path in given]


def files_below(root: str) -> Iterator[str]:
    """Every file of a folder and of the folders in it; links to folders are followed, and each folder is seen once."""
    seen: set[tuple[int, int]] = set()
    for folder, inner, names in os.walk(root, followlinks=True):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            inner.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        inner.sort()  # which of two links to one folder comes first
        yield from (os.path.join(folder, name) for name in names)


def one_path(name: str, given: Any) -> str:
    if not isinstance(given, str | bytes | os.PathLike):
        raise invalid(name, given, "a path: a string, bytes or os.PathLike")
    path = os.fsdecode(given)
    if not path:
        raise invalid(name, given, 'a path that is not empty, or "." for the working folder')
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", path)
    if scheme and not os.path.lexists(path):
        raise invalid(
            name,
            path,
            f"a path on this machine: {scheme.group(1)}:// is not read here, but by most sources (docs/guides/stores.md), of "
            "s3://, gs://, az:// and https://; copy the data, or mount it as a folder",
        )
    if path.startswith("~") and not os.path.lexists(path):  # as shells do
        path = os.path.expanduser(path)
    if "$" in path and not os.path.lexists(path) and os.path.expandvars(path) != path:
        raise invalid(name, path, f"the path with its variables replaced: {os.path.expandvars(path)!r}")
    try:
        path.encode()
    except UnicodeEncodeError:
        allowed = "a path in UTF-8, or rename it; only files and classes inside an image_folder may have other names"
        raise invalid(name, path, allowed) from None
    return path


def expand_braces(pattern: str) -> list[str]:
    """Expand "{000..146}" and "{a,b}" as shells do.

    >>> expand_braces("s-{08..10}.{tar,tgz}")[:3]
    ['s-08.tar', 's-08.tgz', 's-09.tar']
    """
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    inner = found.group(1)
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", inner)
    if numbers:
        width = len(numbers.group(1)) if numbers.group(1).startswith("0") else 0
        choices = [f"{number:0{width}d}" for number in range(int(numbers.group(1)), int(numbers.group(2)) + 1)]
    else:
        choices = inner.split(",")
    tails = expand_braces(pattern[found.end() :])
    return [pattern[: found.start()] + choice + tail for choice in choices for tail in tails]
