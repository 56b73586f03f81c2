"""Rows of Arrow IPC files and streams, all columns: also those of Hugging Face's datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import SampleError
from .._formats.arrow_rows import TableRows
from .._formats.needed import needed
from .._sources.objects import open_file
from .._sources.stores import is_url
from .records import File, Records, part_of

_OPEN_MAX = 16  # files that a process has mapped


class ArrowRows(Records):
    """Rows of files; `rows`: which of them, in which order. Fields of structs are taken apart ("image.bytes").

    Errors: SampleError (no Arrow file), Unsupported (pyarrow is missing).
    """

    def __init__(self, files: Sequence[File], kind: str, rows: Any = None) -> None:
        super().__init__(files)
        needed(kind, "pyarrow", "parquet")
        self.kind = kind
        self._rows = rows
        counts = [self._table(number).num_rows for number in range(len(self.files))]
        self._starts = [0, *np.cumsum(counts, dtype=np.int64).tolist()]
        self._open: dict[int, TableRows] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_open": {}}

    def __len__(self) -> int:
        return int(self._starts[-1]) if self._rows is None else len(self._rows)

    def read(self, index: int) -> dict[str, Any]:
        number, row = self._found(index)
        rows = self._open.get(number)
        if rows is None:
            self.files[number].check(self.kind)
            if len(self._open) >= _OPEN_MAX:
                self._open.pop(next(iter(self._open)))
            subject = f"{self.kind}: {self.files[number].path}"
            rows = self._open[number] = TableRows(self._table(number), subject, {}, keep_nulls=True)
        return rows(row)

    def place(self, index: int) -> str:
        number, row = self._found(index)
        return f"{self.kind}: {self.files[number].path}, row {row}"

    def _found(self, index: int) -> tuple[int, int]:
        return part_of(self._starts, index if self._rows is None else int(self._rows[index]))

    def _table(self, number: int) -> Any:
        import pyarrow as pa

        path = self.files[number].path
        if is_url(path):
            return self._first_batch(number)
        try:
            with pa.memory_map(path) as file:
                try:
                    return pa.ipc.open_file(file).read_all()
                except pa.ArrowInvalid:
                    file.seek(0)
                    return pa.ipc.open_stream(file).read_all()
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            wanted = "give Arrow files, or copy it again if it was cut off"
            raise SampleError(f"{self.kind}: {path}: {' '.join(str(error).split())}; {wanted}") from error

    def _first_batch(self, number: int) -> Any:
        """Of an object of a store, which is not read as a whole to be looked at."""
        import pyarrow as pa

        path = self.files[number].path
        try:
            with open_file(self.files[number]) as file:
                try:
                    reader = pa.ipc.open_file(file)
                    batches = [reader.get_batch(0)] if reader.num_record_batches else []
                    left = reader.num_record_batches - 1
                    note = f"{path}: looked at the first of {left + 1:,} record batches; records are those of it"
                except pa.ArrowInvalid:
                    file.seek(0)
                    reader = pa.ipc.open_stream(file)
                    batches, left = [next(iter(reader))], 1
                    note = f"{path}: a stream, whose first record batch was looked at; records are those of it"
                if left > 0 and note not in self.notes:
                    self.notes.append(note)
                return pa.Table.from_batches(batches, reader.schema)
        except (pa.ArrowException, StopIteration) as error:
            wanted = "give Arrow files, or copy it again if it was cut off"
            raise SampleError(f"{self.kind}: {path}: {' '.join(str(error).split())}; {wanted}") from error
