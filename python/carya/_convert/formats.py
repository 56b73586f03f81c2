"""What a format that is written to is: how a record becomes bytes, a shard of them, and what is read back."""

from __future__ import annotations

import abc
import shutil
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from .._errors import invalid
from .._records.records import Records
from .plain import same
from .schema import Schema

COPIED = 1 << 20


class Format(abc.ABC):
    """Threads: one. It travels to worker processes. The bytes follow from records and schema alone."""

    name = ""
    suffix = ""
    shard_bytes_max: int | None = None  # that the format can say

    def __init__(self, records: Records, schema: Schema) -> None:
        self.schema = schema
        self.notes: list[str] = []  # what a user must know of how values are stored

    @abc.abstractmethod
    def stored(self, records: Records, index: int) -> dict[str, Any]:
        """What must come back of a record, by name in this format. Errors: SampleError, ValueError (it has no such values)."""

    @abc.abstractmethod
    def packed(self, records: Records, index: int, stored: dict[str, Any]) -> bytes:
        """The bytes of a record. Errors: ValueError."""

    def framed(self, packed: list[bytes]) -> list[bytes]:
        """The same records as they stand in a shard: of many at once, where that is cheaper."""
        return packed

    @abc.abstractmethod
    def overhead(self, count: int) -> int:
        """Bytes of a shard beside those of its records."""

    def write(self, out: BinaryIO, path: str, body: BinaryIO, sizes: Sequence[int]) -> None:
        """A shard: `body` has the bytes of its records, one behind the other."""
        shutil.copyfileobj(body, out, COPIED)

    def finish(self, folder: str, shards: Sequence[dict[str, Any]], put: Callable[[str, bytes], None]) -> None:
        """What the folder needs beside its shards, by `put(name, bytes)`."""
        return

    @abc.abstractmethod
    def reader(self, path: str, sizes: Sequence[int]) -> Any:
        """A shard as its records: `len`, and `read(index)`, which gives what `stored` gave. `sizes`: bytes of each, for formats
        that do not say where a record ends. Errors: SampleError."""

    def alike(self, stored: dict[str, Any], read: dict[str, Any]) -> str:
        """The name of a field that did not come back as it was; "" where all did."""
        names = [*stored, *(name for name in read if name not in stored)]
        return next(
            (name for name in names if name not in stored or name not in read or not same(stored[name], read[name])), ""
        )


NAMES = ("webdataset", "mds", "tfrecord", "array_record")


def format_of(name: str, records: Records, schema: Schema) -> Format:
    """Errors: InvalidArgument (no such format, a field that it cannot hold), Unsupported (array_record is missing)."""
    if name == "webdataset":
        from .webdataset import WebDataset

        return WebDataset(records, schema)
    if name == "mds":
        from .mds import Mds

        return Mds(records, schema)
    if name == "tfrecord":
        from .tfrecord import TfRecord

        return TfRecord(records, schema)
    if name == "array_record":
        from .array_record import ArrayRecord

        return ArrayRecord(records, schema)
    raise invalid("convert: --to", name, f"one of {', '.join(NAMES)}")
