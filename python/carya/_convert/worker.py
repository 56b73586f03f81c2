"""The process that reads records, packs them, and compares what was written with its source."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .._errors import Error, NotFound, SampleError
from .._processes.system import end_with_parent
from .._records.records import Records
from .formats import Format

_PIECE = 4 << 20  # bytes that are sent together


class Run(NamedTuple):
    """Records to pack: from `first` on, without `stop`."""

    first: int
    stop: int


class Check(NamedTuple):
    """A shard to compare with the records that are in it."""

    path: str
    indices: Sequence[int]
    sizes: Sequence[int]  # bytes of each


class Piece(NamedTuple):
    """A part of a run: the bytes of records one behind the other, and those that cannot be written, with why."""

    indices: list[int]
    sizes: list[int]
    problems: list[tuple[int, str]]
    last: bool


def serve(connection: Any, parent: int, records: Records, form: Format) -> None:
    """Answer tasks until the other side is gone. A task that fails is answered by the error, as text with its class."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        try:
            if isinstance(task, Check):
                connection.send(compared(records, form, task))
                continue
            for piece, data in packed(records, form, task):
                connection.send(piece)
                connection.send_bytes(data)
        except BrokenPipeError:
            return
        except (Error, OSError, MemoryError) as error:
            connection.send(error if isinstance(error, Error) else Failed(type(error).__name__, str(error)))


class Failed(NamedTuple):
    """An error of the system in a worker."""

    kind: str
    said: str


def packed(records: Records, form: Format, run: Run) -> Iterator[tuple[Piece, bytes]]:
    """The records of a run in order."""
    data, indices, size = list[bytes](), list[int](), 0
    problems: list[tuple[int, str]] = []
    records.expect(range(run.first, run.stop))
    for index in range(run.first, run.stop):
        try:
            one = form.packed(records, index, form.stored(records, index))
        except (SampleError, NotFound) as error:
            problems.append((index, str(error)))
        except (ValueError, RecursionError) as error:
            if isinstance(error, Error):
                raise
            problems.append((index, f"{records.place(index)}: {error}; give another --to"))
        else:
            data.append(one)
            indices.append(index)
            size += len(one)
        if size >= _PIECE:
            framed = form.framed(data)
            yield Piece(indices, [len(one) for one in framed], problems, False), b"".join(framed)
            data, indices, size, problems = [], [], 0, []
    framed = form.framed(data)
    yield Piece(indices, [len(one) for one in framed], problems, True), b"".join(framed)


def compared(records: Records, form: Format, check: Check) -> str:
    """What differs between a shard and its source; "" for nothing."""
    try:
        reader = form.reader(check.path, check.sizes)
        if len(reader) != len(check.indices):
            return f"it has {len(reader):,} records, and {len(check.indices):,} were written"
        records.expect(check.indices)
        for row, index in enumerate(check.indices):
            field = form.alike(form.stored(records, index), reader.read(row))
            if field:
                return f"record {row}, {field}: it is not that of {records.place(index)}"
    except (SampleError, ValueError) as error:
        return str(error)
    return ""
