"""Objects of stores as files: what is read of them is asked for in ranges, of one version."""

from __future__ import annotations

import builtins
import contextlib
import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from .. import _core
from .._errors import IoError
from .stores import is_url

_BLOCK_MIN, _BLOCK_MAX = 64 << 10, 8 << 20  # asked for at once: twice as much each time while reads follow each other
LOOK_REQUESTS, LOOK_BYTES = 64, 64 << 20  # of one object: a second or two
_GAP_MAX = 64 << 10  # takes less time to read over than another request
_T = TypeVar("_T")


class _Thread(threading.local):
    """What ends the questions of this thread; None: in the main thread Ctrl-C, in another nothing."""

    stop: _core.StoreStop | None = None


_thread = _Thread()


@contextlib.contextmanager
def asking(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that ask stores. What they ask ends soon after the block is left by an exception, Ctrl-C among them, which no
    thread but the main one is told of."""
    stop = _core.StoreStop()
    with ThreadPoolExecutor(count, "carya-objects", lambda: setattr(_thread, "stop", stop)) as threads:
        try:
            yield threads
        except BaseException:
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def interrupted(ask: Callable[[], _T]) -> _T:
    """`ask()`, which Ctrl-C ends also where a library asks by threads of its own and waits for them."""
    if threading.current_thread() is not threading.main_thread():
        return ask()
    with asking(1) as threads:
        return threads.submit(ask).result()


class ListedObject(NamedTuple):
    """An object as it was when the source was made; like `Listed` of a file, with its version in the place of the time."""

    path: str
    size: int
    version: str

    def check(self, kind: str) -> None:
        """Errors: IoError, when the object is another one by now."""
        if object_at(self.path) != self:
            raise IoError(f"{kind}: {self.path}: it changed since it was listed; run it again")

    def read(self, offset: int, size: int, stop: _core.StoreStop | None = None) -> bytes:
        """`stop`: what ends it; None: that of this thread. Errors: IoError (also: it changed), Closed (it was ended)."""
        return _core.store_read(self.path, self.size, self.version, offset, size, stop or _thread.stop)


def object_at(url: str) -> ListedObject:
    """Errors: NotFound, Permission, IoError, Unsupported (it has no version)."""
    return ListedObject(url, *_core.store_look_up(url, _thread.stop))


class ObjectFile(io.RawIOBase):
    """An object as a file that is read, for as long as the thread that opened it goes on (`asking`), whichever thread reads.
    `requests` and `asked_bytes`: what was asked of the store so far."""

    def __init__(self, listed: ListedObject) -> None:
        self._listed = listed
        self._stop = _thread.stop
        self._at = 0
        self._begin, self._block = 0, b""
        self._next = _BLOCK_MIN
        self.requests = self.asked_bytes = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._listed.size}[whence]
        if base + offset < 0:
            raise ValueError(f"seek to {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), max(self._listed.size - self._at, 0))
        done = 0
        while done < wanted:
            inside = self._at - self._begin
            if not 0 <= inside < len(self._block):
                self._ask(wanted - done)
                inside = 0
            part = self._block[inside : inside + wanted - done]
            view[done : done + len(part)] = part
            done += len(part)
            self._at += len(part)
        return done

    def _ask(self, least: int) -> None:
        """The block at the present place."""
        behind = self._at - (self._begin + len(self._block))
        follows = bool(self._block) and 0 <= behind <= _GAP_MAX
        self._next = min(2 * self._next, _BLOCK_MAX) if follows else _BLOCK_MIN
        size = min(max(self._next, least), self._listed.size - self._at)
        self._block, self._begin = self._listed.read(self._at, size, self._stop), self._at
        self.requests += 1
        self.asked_bytes += size


def open_file(given: str | tuple[str, int, Any], buffering: int = -1) -> BinaryIO:
    """A file, or an object of a store, to be read: by its path, or as it was listed. Errors: OSError; those of `object_at`."""
    path = given if isinstance(given, str) else given[0]
    if not is_url(path):
        return builtins.open(path, "rb", buffering)
    return cast(BinaryIO, ObjectFile(object_at(path) if isinstance(given, str) else ListedObject(*given)))


def enough(file: object) -> bool:
    """Whether so much was asked of an object that who only looks at it should go no further."""
    return isinstance(file, ObjectFile) and (file.requests >= LOOK_REQUESTS or file.asked_bytes >= LOOK_BYTES)
