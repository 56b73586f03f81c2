"""A dataset written in another format.

Records are read and packed by worker processes, in runs; the bytes come back in order, and this process cuts them into shards. So
where a shard ends follows from the records' bytes alone, whatever the number of workers, and a conversion that goes on after a
shard makes the same ones as one that was never ended.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from .._errors import InvalidArgument, IoError, SampleError, Unsupported, invalid
from .._formats.kept import place_of
from .._records.opening import open_records
from .._records.records import Records
from .._records.values import size_of, spread
from .._sources.stores import is_url
from .crew import Crew
from .formats import NAMES, Format, format_of
from .journal import Journal, system_errors
from .schema import schema_of
from .tokens import Tokens, TokenShards
from .worker import Check, Piece, Run

_IN_MEMORY = 256 << 20  # of a shard that is collected; what is more goes to a file
_RUN_BYTES, _RUN_RECORDS = 4 << 20, 1024
_MEASURED = 8  # records that say how long runs are
_UNCHECKED_MAX = 4  # shards that wait for being compared

Show = Callable[[int, int], None]


class Interrupted(KeyboardInterrupt):
    """By Ctrl-C, with what to do."""


@dataclass(frozen=True)
class Request:
    """What is to be done."""

    source: str
    folder: str
    to: str
    workers: int = 0  # 0: one per core that this process may use
    shard_bytes: int = 128 << 20
    verify: bool = True
    on_error: str = "raise"
    tokens: Tokens | None = None  # with `to="tokens"`, and only then


@dataclass
class Report:
    """What was done, by this run and those before it."""

    kind: str = ""
    records: int = 0
    shards: int = 0
    bytes: int = 0
    verified: int = 0  # shards
    before: int = 0  # shards that were there
    skipped: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def convert(request: Request, show: Show = lambda done, count: None) -> Report:
    """Do it. `show(done, count)` is told of records.

    Errors: InvalidArgument (the folder is somebody else's, no such format, a field that it cannot hold), SampleError (a broken
    record and `on_error="raise"`; no sound record), Exhausted (no room), WorkerDied, those of opening the source.
    """
    _check(request)
    raw = request.to == "webdataset"
    records = open_records(request.source, raw).records
    _check_apart(request, records)
    schema = schema_of(records)
    form = TokenShards(records, schema, request.tokens) if request.tokens else format_of(request.to, records, schema)
    if form.shard_bytes_max is not None and request.shard_bytes > form.shard_bytes_max:
        raise invalid(
            "convert: --shard-bytes", request.shard_bytes, f"at most {form.shard_bytes_max:,} for {request.to}"
        )
    about = {
        "version": 1, "source": place_of(request.source), "records": records.identity, "to": request.to,
        "shard_bytes": request.shard_bytes, "schema": schema.digest, **(request.tokens.about if request.tokens else {}),
    }  # fmt: skip
    journal = Journal(request.folder, about)
    try:
        return _run(request, records, form, journal, show)
    finally:
        journal.close()


def _run(request: Request, records: Records, form: Format, journal: Journal, show: Show) -> Report:
    report = Report(records.kind, notes=[*records.notes, *form.notes], before=len(journal.shards))
    if journal.done is None:
        start = journal.shards[-1]["end"] if journal.shards else 0
        workers = min(request.workers or len(os.sched_getaffinity(0)), max(len(records) - start, 1))
        crew = Crew(workers, records, form)
        try:
            with system_errors(request.folder):
                _Shards(request, form, journal, crew, start).write(_runs(records, start), len(records), show)
        except KeyboardInterrupt:
            done = sum(shard["records"] for shard in journal.shards)
            raise Interrupted(
                f"convert: it was interrupted, with {done:,} of {len(records):,} records written; run the same command again: "
                "it goes on where it was"
            ) from None
        finally:
            crew.close()
            journal.clear()
    for line in (*journal.shards, journal.done or {}):
        report.skipped += [(index, said) for index, said in line.get("skipped", ())]
    report.shards = len(journal.shards)
    report.records = sum(shard["records"] for shard in journal.shards)
    report.bytes = sum(shard["bytes"] for shard in journal.shards)
    report.verified = sum(shard["verified"] for shard in journal.shards)
    return report


class _Shards:
    """Cuts the bytes of records into shards, and brings those to the disk in order."""

    def __init__(self, request: Request, form: Format, journal: Journal, crew: Crew, start: int) -> None:
        self._request, self._form, self._journal, self._crew = request, form, journal, crew
        self._number = len(journal.shards)
        self._first = start
        self._skipped: list[tuple[int, str]] = []
        self._indices: list[int] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self._body: BinaryIO | None = None
        self._unchecked: deque[tuple[dict[str, Any], int]] = deque()

    def write(self, runs: Iterator[Run], count: int, show: Show) -> None:
        for piece, data in self._crew.pieces(runs):
            self._take(piece, data)
            self._name_checked(_UNCHECKED_MAX)
            show(max([self._first, *piece.indices[-1:]]), count)
        if self._indices:
            self._end_shard(count)
        self._name_checked(0)
        if not self._journal.shards:
            said = self._skipped[0][1] if self._skipped else "the source has none"
            raise SampleError(f"convert: no record could be written: {said}")
        self._form.finish(self._journal.folder, self._journal.shards, self._journal.put)
        done = {"skipped": self._skipped}
        self._journal.add({"done": done})
        self._journal.done = done
        show(count, count)

    def _take(self, piece: Piece, data: bytes) -> None:
        """The records and problems of a piece, in the order of their indices."""
        at = 0
        problems = deque(piece.problems)
        for index, size in zip(piece.indices, piece.sizes, strict=True):
            while problems and problems[0][0] < index:
                self._skip(*problems.popleft())
            self._add(index, data[at : at + size])
            at += size
        for index, said in problems:
            self._skip(index, said)

    def _skip(self, index: int, said: str) -> None:
        if self._request.on_error == "raise":
            raise SampleError(f"{said}, or --on-error skip")
        self._skipped.append((index, said))

    def _add(self, index: int, data: bytes) -> None:
        overhead = self._form.overhead(len(self._sizes) + 1)
        if self._indices and self._bytes + len(data) + overhead > self._request.shard_bytes:
            self._end_shard(self._indices[-1] + 1)
        maximum = self._form.shard_bytes_max
        if maximum is not None and len(data) + self._form.overhead(1) > maximum:
            self._skip(
                index,
                f"convert: record {index:,} has {len(data):,} B, more than {self._form.name} can say; give another --to",
            )
            return
        if self._body is None:
            self._body = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=self._journal.folder)  # type: ignore[assignment]  # noqa: SIM115
        self._body.write(data)  # type: ignore[union-attr]
        self._indices.append(index)
        self._sizes.append(len(data))
        self._bytes += len(data)

    def _end_shard(self, end: int) -> None:
        """Bring a shard to the disk under its temporary name, and have it compared. Of records up to `end`."""
        name = f"shard-{self._number:06d}.{self._form.suffix}"
        path = self._journal.temporary(name)
        body = self._body
        assert body is not None
        with body:
            body.seek(0)
            with open(path, "wb") as out:
                self._form.write(out, path, body, self._sizes)
                out.flush()
                os.fsync(out.fileno())
                # What is compared comes from the disk then, not from memory.
                os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        skipped = [one for one in self._skipped if one[0] < end]
        shard = {
            "name": name, "first": self._first, "end": end, "records": len(self._indices), "bytes": os.path.getsize(path),
            "verified": self._request.verify, "skipped": skipped,
        }  # fmt: skip
        check = self._crew.check(Check(path, self._indices, self._sizes)) if self._request.verify else -1
        self._unchecked.append((shard, check))
        self._number, self._first, self._skipped = self._number + 1, end, self._skipped[len(skipped) :]
        self._indices, self._sizes, self._bytes, self._body = [], [], 0, None

    def _name_checked(self, left_max: int) -> None:
        """Give shards that are as their source their names, in order; wait where more than `left_max` are left."""
        while self._unchecked:
            shard, number = self._unchecked[0]
            said = "" if number < 0 else self._crew.checked(number)
            if said is None:
                if len(self._unchecked) <= left_max:
                    return
                said = self._crew.wait_for_check(number)
            if said:
                raise IoError(
                    f"convert: {shard['name']}: it is not as its source: {said}; check the disk, or whether the source changed, "
                    "and run the same command again"
                )
            self._journal.name(shard["name"])
            self._journal.add_shard(shard)
            self._unchecked.popleft()


def _runs(records: Records, start: int) -> Iterator[Run]:
    """Runs of some megabytes. What is in a shard does not depend on them."""
    sizes = []
    for index in spread(len(records), _MEASURED, records.in_blocks):
        with contextlib.suppress(SampleError):
            sizes.append(size_of(records.read(index)))
    mean = max(sum(sizes) // max(len(sizes), 1), 1)
    count = min(max(_RUN_BYTES // mean, 1), _RUN_RECORDS)
    for first in range(start, len(records), count):
        yield Run(first, min(first + count, len(records)))


def _check(request: Request) -> None:
    if is_url(request.folder):
        raise Unsupported(
            f"convert: {request.folder}: stores are not written to; give a folder of this machine, and copy it with the store's own program"
        )
    if request.to not in NAMES and not (request.to == "tokens" and request.tokens):
        raise invalid("convert: --to", request.to, f"one of {', '.join(NAMES)}")
    if request.on_error not in ("raise", "skip"):
        raise invalid("convert: --on-error", request.on_error, "raise or skip")
    if request.shard_bytes < 1:
        raise invalid("convert: --shard-bytes", request.shard_bytes, "bytes of 1 or more")


def _check_apart(request: Request, records: Records) -> None:
    """Errors: InvalidArgument, where the folder lies among what is read."""
    if is_url(request.source):
        return
    folder = os.path.realpath(request.folder)
    sources = [os.path.realpath(file.path) for file in records.files] or [os.path.realpath(request.source)]
    inside = os.path.isdir(request.source) and (folder + os.sep).startswith(os.path.realpath(request.source) + os.sep)
    if inside or any(source == folder or os.path.dirname(source) == folder for source in sources):
        raise InvalidArgument(f"convert: {request.folder}: the source lies there too; give a folder of its own")
