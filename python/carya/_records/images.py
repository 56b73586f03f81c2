"""Images in one folder per class."""

from __future__ import annotations

import os
import posixpath
import warnings
from typing import Any

import numpy as np

from .. import _core
from .._errors import IoError, NotFound, Permission
from .._formats.kept import digest
from .._pipeline.sources import image_folder
from .._sources.objects import open_file
from .._sources.stores import is_url
from .records import Array, Records


class FolderImages(Records):
    """Fields `image`, `label`, and `class`, its name; in the order of `carya.image_folder`."""

    kind = "image_folder"

    def __init__(self, path: str) -> None:
        super().__init__([])
        self.path = path
        self._opened: _core.Dataset | None = None
        self._classes = self._dataset.class_names
        if self._dataset.skipped_count:
            names = ", ".join(self._dataset.skipped_examples[:8])
            self.notes.append(f"{self._dataset.skipped_count:,} files with other extensions are no records: {names}")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_opened": None}

    def __len__(self) -> int:
        return self._dataset.count

    def read(self, index: int) -> dict[str, Any]:
        address = self._dataset.address(index)
        try:
            with open_file(address["path"]) as file:
                data = file.read()
        except FileNotFoundError:
            raise NotFound(f"image_folder: {address['path']}: it is gone since it was listed; list it again") from None
        except PermissionError:
            raise Permission(
                f"image_folder: {address['path']}: this user may not read it; give read permission"
            ) from None
        if len(data) != address["bytes"]:
            raise IoError(f"image_folder: {address['path']}: it changed since it was listed; run it again")
        label = int(address["label"])
        # The listing of a bucket has no folders beside the names of its objects.
        name = self._classes[label] if self._classes else posixpath.basename(posixpath.dirname(address["path"]))
        return {"image": data, "label": label, "class": name}

    def place(self, index: int) -> str:
        return str(self._dataset.address(index)["path"])

    def sizes(self) -> Array:
        return np.fromiter((self._dataset.address(i)["bytes"] for i in range(len(self))), np.int64, len(self))

    @property
    def classes(self) -> list[str]:
        return self._classes

    @property
    def file_bytes(self) -> int:
        return int(self.sizes().sum())

    @property
    def identity(self) -> str:
        # Pictures that others of their sizes took the place of are other records: a fingerprint knows names and sizes.
        paths = (self._dataset.address(index)["path"] for index in range(len(self)))
        times = [None if is_url(path) else os.stat(path).st_mtime_ns for path in paths]
        return digest(self._dataset.fingerprint, times)

    @property
    def _dataset(self) -> _core.Dataset:
        if self._opened is None:
            with warnings.catch_warnings():  # what was skipped is among the notes
                warnings.simplefilter("ignore", UserWarning)
                self._opened = image_folder(self.path).open(verify=True)
        return self._opened
