"""What the records of every format have in common."""

from __future__ import annotations

import abc
import bisect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._containers.ranges import Ranges
from .._formats.kept import File as File
from .._formats.kept import digest, place_of
from .._sources.objects import ListedObject

Array = np.ndarray[Any, Any]


class Records(abc.ABC):
    """The records of files, by index. Threads: one. It travels to other processes, each of which opens files of its own."""

    kind = ""  # the name of the source: "webdataset" is `carya.webdataset`
    in_blocks = False  # reading one record decodes its neighbours too

    def __init__(self, files: Sequence[File]) -> None:
        self.files = list(files)
        self.notes: list[str] = []  # what is wrong with the files, beside single records
        self._ranges: Ranges | None = None

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def read(self, index: int) -> dict[str, Any]:
        """All fields of a record: numbers, `str`, `bytes`, arrays, lists and dicts of them, None.

        Errors: SampleError (a broken record), IoError (the file is another one by now).
        """

    @abc.abstractmethod
    def place(self, index: int) -> str:
        """Where a record is, for people: file, and offset, row or key."""

    def expect(self, indices: Sequence[int]) -> None:  # noqa: B027  (most formats need not know)
        """These are read next. Of objects their bytes are then asked for together."""

    def sizes(self) -> Array | None:
        """Bytes of each record as it lies in its file, int64 (count,); None where that is not known without decoding."""
        return None

    @property
    def file_bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def identity(self) -> str:
        """What says that these are the same records in the same order."""
        files = [(place_of(path), size, version) for path, size, version in self.files]
        return digest(self.kind, files, len(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ranges": None}

    def _expect(self, places: Iterable[tuple[int, int, int]]) -> None:
        """Where what is read next begins and ends in which file: for objects."""
        if any(isinstance(file, ListedObject) for file in self.files):
            self._ranges = self._ranges or Ranges(self.kind, self.files)
            self._ranges.expect([*places])

    def _bytes(self, file: int, offset: int, size: int) -> bytes:
        """Errors: IoError (there are fewer, the file changed since it was listed)."""
        if self._ranges is None:
            self._ranges = Ranges(self.kind, self.files)
        return self._ranges.read(file, offset, size)


def part_of(starts: Sequence[int] | Array, index: int) -> tuple[int, int]:
    """In which part a record is, and its number there; `starts` has the first record of each part, and the end.

    >>> part_of([0, 3, 3, 5], 3)
    (2, 0)
    """
    part = bisect.bisect_right(starts, index) - 1
    return part, index - int(starts[part])
