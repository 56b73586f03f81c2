"""Where records come from: a folder of images, files, tars of a WebDataset, arrays in memory."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._errors import NotFound, invalid
from .arrays import Array, array_memory, arrays_document
from .document import plain
from .pipeline import Pipeline

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def image_folder(path: PathLike) -> Pipeline:
    """Images in one folder per class; label = index of the sorted class names.

    Fields: `image` encoded, `label` int64. Order: class, then path, bytewise. Symbolic links are followed; files with
    other extensions are skipped and named. The listing is kept on disk, so the next start is instant.
    Errors (when it is opened): NotFound (no such folder, no class folder, a class without a file), Permission.
    Reference: torchvision.datasets.ImageFolder (classes and indices).

    >>> import carya
    >>> carya.image_folder("photos").outputs[1]
    ('label', 'int64', ())
    """
    return Pipeline._start({"type": "image_folder", "path": _path("image_folder: path", path)})


def files(
    paths: PathLike | Sequence[PathLike],
    labels: Sequence[int] | Array | Callable[[str], int] | None = None,
    *,
    extra: Mapping[str, PathLike | Sequence[PathLike]] | None = None,
) -> Pipeline:
    """Images by path: a sequence in its order, or a glob pattern ("photos/**/*.jpg") in bytewise order.

    `labels`: one integer per path, or a function from path to integer. `extra`: further images of each record by field
    name ({"mask": paths}); geometric ops treat them like the image, with the same random numbers.
    Fields: `image` encoded, each extra encoded, `label` int64 if given.
    Errors: NotFound (a glob that matches nothing; a missing path when it is opened), InvalidArgument (lengths).

    >>> import carya
    >>> p = carya.files(["a.jpg", "b.jpg"], labels=lambda path: int(path.startswith("b")))
    >>> p.outputs[1]
    ('label', 'int64', ())
    """
    listed = _path_list("paths", paths)
    values: list[int] | None = None
    if callable(labels):
        values = [_label(labels(path), path) for path in listed]
    elif labels is not None:
        given = plain(labels)
        if not isinstance(given, list):
            raise invalid(
                "files: labels", labels, "a sequence of one integer per path, or a function from path to integer"
            )
        if len(given) != len(listed):
            raise invalid("files: labels", f"{len(given)} labels", f"one per path ({len(listed)})")
        values = [_label(value, path) for value, path in zip(given, listed, strict=True)]
    columns = {}
    for name, column in (extra or {}).items():
        columns[name] = _path_list(f"extra[{name!r}]", column)
        if len(columns[name]) != len(listed):
            raise invalid(f"files: extra[{name!r}]", f"{len(columns[name])} paths", f"one per image ({len(listed)})")
    return Pipeline._start({"type": "files", "paths": listed, "labels": values, "extra": columns})


def webdataset(
    tars: PathLike | Sequence[PathLike],
    *,
    fields: Mapping[str, Sequence[str]] | None = None,
    label: str | Sequence[str] | None = "cls",
) -> Pipeline:
    """Records of WebDataset tars: members "key.ext" that lie side by side and share a key.

    `tars`: paths, a glob pattern, or braces ("train-{000..146}.tar"). `fields`: extensions of each image field, the
    first that a key has counts (default {"image": ["jpg", "jpeg", "png"]}). `label`: extension of the member that holds
    the label as a decimal integer, None for none. An index is built once and verified by size and time.
    Fields: each field encoded, `label` int64. A key that lacks a field or its label, as the last one of a tar that was cut
    off, is a broken record: `Loader(on_error=)`. Tars that were appended to a tar are read with it.
    Errors: NotFound (also a field that no key has), InvalidArgument.

    >>> import carya
    >>> [name for name, _, _ in carya.webdataset("shard-{0..1}.tar", fields={"image": ["png"]}).outputs]
    ['image', 'label']
    """
    if isinstance(tars, str) and "{" in tars and not os.path.lexists(tars):
        listed = [path for pattern in _expand_braces(tars) for path in _path_list("tars", pattern)]
    else:
        listed = _path_list("tars", tars)
    wanted = {name: _extensions(given) for name, given in (fields or {"image": ["jpg", "jpeg", "png"]}).items()}
    return Pipeline._start({"type": "webdataset", "tars": listed, "fields": wanted, "label": _extensions(label or [])})


def arrays(data: Mapping[str, Any]) -> Pipeline:
    """Arrays in memory, or `.npy` files (mapped, not read): record i is row i of each. Nothing is decoded.

    Fields: one tensor per array, dtype and row shape as given. The memory stays yours and must not
    change while it is used; a mapped file that is truncated or rewritten is an IoError at the next batch. (Truncated in
    the very moment in which it is read, the system ends the process: SIGBUS.)
    Arrays that are not C-contiguous are copied once.
    Errors: InvalidArgument (no array, lengths differ, a dtype that is no plain number), NotFound.

    >>> import carya, numpy as np
    >>> carya.arrays({"image": np.zeros((10, 28, 28, 1), np.uint8), "label": np.arange(10)}).outputs
    [('image', 'uint8', (28, 28, 1)), ('label', 'int64', ())]
    """
    memory = array_memory(data)
    return Pipeline._start(arrays_document(memory), memory)


def _label(value: Any, path: str) -> int:
    try:
        if isinstance(value, bool | float | str):
            raise TypeError
        number = int(value.__index__())
        if not -(2**63) <= number < 2**63:
            raise TypeError
        return number
    except (TypeError, AttributeError):
        raise invalid(
            f"files: label of {path}", value, "an integer of 64 bits; map class names to numbers first"
        ) from None


def _extensions(given: str | Sequence[str]) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    return [name.lstrip(".").lower() if isinstance(name, str) else name for name in names]


def _path_list(name: str, given: PathLike | Sequence[PathLike]) -> list[str]:
    if isinstance(given, str | bytes | os.PathLike):
        path = _path(name, given)
        if not glob.has_magic(path) or os.path.lexists(path):  # a file may be called "a[1].jpg"
            return [path]
        matches = glob.iglob(path, recursive=True)
        found = sorted((match for match in matches if not os.path.isdir(match)), key=os.fsencode)
        if not found:
            raise NotFound(f"{name}: nothing matches {path!r}; give a pattern that matches files")
        return found
    if not isinstance(given, Iterable):
        raise invalid(name, given, "a path, a glob pattern or a sequence of paths")
    return [_path(name, path) for path in given]


def _path(name: str, given: Any) -> str:
    if not isinstance(given, str | bytes | os.PathLike):
        raise invalid(name, given, "a path: a string, bytes or os.PathLike")
    path = os.fsdecode(given)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", path)
    if scheme and not os.path.lexists(path):
        raise invalid(
            name,
            path,
            f"a path on this machine: {scheme.group(1)}:// is not read; copy the data, or mount it as a folder",
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


def _expand_braces(pattern: str) -> list[str]:
    """Expand "{000..146}" and "{a,b}" as shells do.

    >>> _expand_braces("s-{08..10}.{tar,tgz}")[:3]
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
    tails = _expand_braces(pattern[found.end() :])
    return [pattern[: found.start()] + choice + tail for choice in choices for tail in tails]
