"""Records of the sources over kept libraries: Parquet, lines of JSON, CSV, arrays, HDF5, LMDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._joined import Expecting
from .records import Array, File, Records


class LibraryRecords(Records):
    """What a map-style object of `_formats` gives; a sample that is no dict is the field `value`."""

    def __init__(self, kind: str, files: Sequence[File], rows: Any, in_blocks: bool = False) -> None:
        super().__init__(files)
        self.kind, self.in_blocks, self._rows = kind, in_blocks, rows

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, index: int) -> dict[str, Any]:
        sample = self._rows[index]
        return sample if isinstance(sample, dict) else {"value": sample}

    def expect(self, indices: Sequence[int]) -> None:
        if isinstance(self._rows, Expecting):
            self._rows.expect(indices)

    def place(self, index: int) -> str:
        return str(self._rows.place(index))

    def sizes(self) -> Array | None:
        return self._rows.sizes() if hasattr(self._rows, "sizes") else None
