"""Ranges of files as they were listed."""

from __future__ import annotations

import bisect
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from .._errors import IoError
from .._formats.kept import File, Listed
from .._sources.fetched import Fetched, joined_ranges
from .._sources.objects import ListedObject, all_at_once

_FILES_MAX = 64  # that a process has open
_JOINED_MAX = 8 << 20  # bytes of one request for several ranges
_VIEW_MAX = 4 << 20  # bytes of the memory of `view`; larger ranges have their own


class Ranges:
    """Bytes of files by number, as they were listed: size and time of a file are compared behind each read. Threads: one.

    It travels to other processes, each of which opens files of its own.
    """

    def __init__(self, kind: str, files: Sequence[File]) -> None:
        self.kind, self.files = kind, list(files)
        self._fds: dict[int, int] = {}
        self._buffer = bytearray()
        self._fetched: Fetched | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fds": {}, "_buffer": bytearray()}

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Errors: IoError (there are fewer, the file changed since it was listed)."""
        listed = self.files[number]
        if isinstance(listed, ListedObject):
            if offset + size > listed.size:
                raise IoError(f"{self.kind}: {listed.path} @{offset}: it ends at {listed.size:,}; copy it again")
            if self._fetched is not None and size:
                return self._fetched.read((number, offset, offset + size))
            return listed.read(offset, size)
        fd = self._fds.get(number)
        if fd is None:
            fd = self._opened(number)
        try:
            data = os.pread(fd, size, offset)
            if len(data) != size:
                data = b"".join([data, *_rest(fd, size - len(data), offset + len(data))])
        except OSError as error:
            raise self._failed(number, offset, error) from error
        self._check(number, fd)
        if len(data) != size:
            raise self._short(number, offset, size, len(data))
        return data

    def expect(self, places: Sequence[tuple[int, int, int]]) -> None:
        """What is read next: the number of a file, where a range of it begins and where it ends. Of objects they are then asked for
        together."""
        if self._fetched is None:
            self._fetched = Fetched(self.files)
        self._fetched.expect(places)

    def each(self, number: int, places: Sequence[tuple[int, int]]) -> Iterator[bytes]:
        """The same of several offsets and sizes, in their order; of an object many at a time, and those that lie near each other by
        one request."""
        if not isinstance(self.files[number], ListedObject):
            yield from (self.read(number, offset, size) for offset, size in places)
            return
        joined = joined_ranges(sorted((number, offset, offset + size) for offset, size in places), _JOINED_MAX)
        found = all_at_once(lambda part: self.read(number, part[1], part[2] - part[1]), joined)
        for offset, size in places:
            part = bisect.bisect_right(joined, (number, offset, sys.maxsize)) - 1
            at = offset - joined[part][1]
            yield found[part][at : at + size]

    def view(self, number: int, offset: int, size: int) -> memoryview:
        """The same without new memory: it holds until the next call of `view`."""
        if size > _VIEW_MAX or isinstance(self.files[number], ListedObject):
            return memoryview(self.read(number, offset, size))
        if len(self._buffer) < size:
            self._buffer = bytearray(min(2 * size, _VIEW_MAX))
        found = memoryview(self._buffer)[:size]
        self.fill(number, offset, found)
        return found

    def fill(self, number: int, offset: int, out: memoryview) -> None:
        """Read as many bytes as `out` has to there. Errors: as of `read`."""
        size = out.nbytes
        if isinstance(self.files[number], ListedObject):
            out[:] = self.read(number, offset, size)
            return
        fd = self._fds.get(number)
        if fd is None:
            fd = self._opened(number)
        try:
            got = 0
            while got < size and (more := os.preadv(fd, [out[got:]], offset + got)):
                got += more
        except OSError as error:
            raise self._failed(number, offset, error) from error
        self._check(number, fd)
        if got != size:
            raise self._short(number, offset, size, got)

    def _check(self, number: int, fd: int) -> None:
        """Behind each read, so that no bytes of another version are given. Errors: IoError."""
        listed, found = self.files[number], os.fstat(fd)
        if (found.st_size, found.st_mtime_ns) != listed[1:]:
            raise IoError(f"{self.kind}: {listed.path}: it changed since it was listed; make the pipeline anew")

    def _failed(self, number: int, offset: int, error: OSError) -> IoError:
        where = f"{self.kind}: {self.files[number].path} @{offset}"
        return IoError(f"{where}: {error.strerror}; copy the file again, or look after its disk")

    def _short(self, number: int, offset: int, size: int, got: int) -> IoError:
        where = f"{self.kind}: {self.files[number].path} @{offset}"
        return IoError(f"{where}: wanted {size:,} B, got {got:,} B; copy the file again")

    def _opened(self, number: int) -> int:
        listed = self.files[number]
        assert isinstance(listed, Listed)
        listed.check(self.kind)
        if len(self._fds) >= _FILES_MAX:
            os.close(self._fds.pop(next(iter(self._fds))))
        fd = self._fds[number] = os.open(listed.path, os.O_RDONLY | os.O_CLOEXEC)
        return fd

    def descriptor(self, number: int) -> int:
        """Of a file that is open here, until `close` or 63 others are. Errors: IoError, NotFound (it is another file by now)."""
        return self._fds.get(number) or self._opened(number)

    def close(self) -> None:
        """Close what is open. What is read next looks anew whether its file is the same."""
        for fd in self._fds.values():
            with contextlib.suppress(OSError):
                os.close(fd)
        self._fds = {}

    def __del__(self) -> None:
        if hasattr(self, "_fds"):
            self.close()


def _rest(fd: int, size: int, offset: int) -> Iterator[bytes]:
    """What one `pread` did not give: it gives at most 2 GiB."""
    while size and (data := os.pread(fd, size, offset)):
        yield data
        size -= len(data)
        offset += len(data)
