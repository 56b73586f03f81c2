"""Objects of stores as files: what is read of them is asked for in ranges, of one version."""

from __future__ import annotations

import builtins
import contextlib
import io
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from .. import _core
from .._errors import IoError
from .stores import is_url

_BLOCK_MIN, _BLOCK_MAX = 64 << 10, 8 << 20  # asked for at once: twice as much each time while reads follow each other
LOOK_REQUESTS, LOOK_BYTES = 64, 64 << 20  # of one object: a second or two
_PAGE, _PAGES_MAX = 128 << 10, 128  # of an object that is read here and there
GAP_MAX = 64 << 10  # takes less time to read over than another request
LEAP_MAX = 1 << 20  # where each request waits for the one before
_AT_ONCE = 16  # questions: a store is waited for
_T = TypeVar("_T")


class _Thread(threading.local):
    """What ends the questions of this thread; None: in the main thread Ctrl-C, in another nothing."""

    stop: _core.StoreStop | None = None


_thread = _Thread()


def stop_of_thread() -> _core.StoreStop | None:
    """What ends the questions of this thread, for one that asks in its place."""
    return _thread.stop


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


def all_at_once(ask: Callable[..., _T], *given: Iterable[Any]) -> list[_T]:
    """`map`, with many questions to stores at the same time."""
    with asking(_AT_ONCE) as threads:
        return list(threads.map(ask, *given))


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
    `leap`: bytes that are passed over and still are reading on. `requests` and `asked_bytes`: what was asked of the store so far."""

    def __init__(self, listed: ListedObject, leap: int = GAP_MAX) -> None:
        self._listed, self._leap = listed, leap
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
        follows = bool(self._block) and 0 <= behind <= self._leap
        self._next = min(2 * self._next, _BLOCK_MAX) if follows else _BLOCK_MIN
        size = min(max(self._next, least), self._listed.size - self._at)
        self._block, self._begin = self._read(self._at, size), self._at

    def _read(self, offset: int, size: int) -> bytes:
        self.requests += 1
        self.asked_bytes += size
        return self._listed.read(offset, size, self._stop)


class ObjectPages(ObjectFile):
    """The same for a reader that goes to and fro in it: the pages that were read last are kept. `begin`: its `first_page`, if known."""

    def __init__(self, listed: ListedObject, begin: bytes = b"") -> None:
        super().__init__(listed)
        self._pages = {0: begin} if begin else {}  # by number, the one that was read last behind the others

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), max(self._listed.size - self._at, 0))
        if wanted > _PAGE:
            view[:wanted] = self._read(self._at, wanted)
        else:
            done = 0
            while done < wanted:
                number, inside = divmod(self._at + done, _PAGE)
                part = self._page(number)[inside : inside + wanted - done]
                view[done : done + len(part)] = part
                done += len(part)
        self._at += wanted
        return wanted

    def _page(self, number: int) -> bytes:
        page = self._pages.pop(number, None)
        if page is None:
            page = self._read(number * _PAGE, min(_PAGE, self._listed.size - number * _PAGE))
            if len(self._pages) >= _PAGES_MAX:
                self._pages.pop(next(iter(self._pages)))
        self._pages[number] = page
        return page


def first_page(listed: ListedObject) -> bytes:
    """Errors: as of `ListedObject.read`."""
    return listed.read(0, min(_PAGE, listed.size)) if listed.size else b""


def open_file(given: str | tuple[str, int, Any], buffering: int = -1, leap: int = GAP_MAX) -> BinaryIO:
    """A file, or an object of a store, to be read: by its path, or as it was listed. `leap`: as of `ObjectFile`.

    Errors: OSError; those of `object_at`.
    """
    path = given if isinstance(given, str) else given[0]
    if not is_url(path):
        return builtins.open(path, "rb", buffering)
    return cast(BinaryIO, ObjectFile(object_at(path) if isinstance(given, str) else ListedObject(*given), leap))


def enough(file: object) -> bool:
    """Whether so much was asked of an object that who only looks at it should go no further."""
    return isinstance(file, ObjectFile) and (file.requests >= LOOK_REQUESTS or file.asked_bytes >= LOOK_BYTES)
