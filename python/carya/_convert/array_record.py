"""ArrayRecord files of `tf.train.Example`, written and read by the package array_record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from .._containers.examples import parsed
from .._errors import SampleError
from .._formats.needed import needed
from .._records.records import Records
from .schema import Schema
from .tfrecord import Examples

_MODULE = "array_record.python.array_record_module"
_OPTIONS = "group_size:1"  # Source: array_record's README: for random access


class ArrayRecord(Examples):
    """The package writes whole files, so a shard's records are read from `body` and given to it."""

    name, suffix = "array_record", "array_record"

    def __init__(self, records: Records, schema: Schema) -> None:
        needed("convert", _MODULE, "array_record")
        super().__init__(records, schema)

    def overhead(self, count: int) -> int:
        return 1 << 16  # its last block

    def write(self, out: BinaryIO, path: str, body: BinaryIO, sizes: Sequence[int]) -> None:
        writer = needed("convert", _MODULE, "array_record").ArrayRecordWriter(path, _OPTIONS)
        for size in sizes:
            writer.write(body.read(size))
        writer.close()

    def reader(self, path: str, sizes: Sequence[int]) -> Any:
        return _Read(path, self._raw)


class _Read:
    def __init__(self, path: str, raw: bool) -> None:
        self._reader = needed("convert", _MODULE, "array_record").ArrayRecordReader(path)
        self._path, self._raw = path, raw

    def __len__(self) -> int:
        return int(self._reader.num_records())

    def read(self, index: int) -> dict[str, Any]:
        try:
            data = self._reader.read([index])[0]
            return {"record": data} if self._raw else parsed(data)
        except (ValueError, RuntimeError, IndexError) as error:
            raise SampleError(f"array_record: {self._path}, record {index}: {error}; write it again") from error
