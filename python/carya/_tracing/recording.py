"""One trace: begun, ended, and written to a file."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from .. import _core
from .._errors import Error, InvalidArgument, NotFound
from .chrome import to_chrome
from .whole_file import write_whole

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger("carya")

THREAD_EVENTS = 1 << 16
# A daemon sends its trace in one message.
_DAEMON_THREAD_EVENTS = 1 << 14


class Trace:
    """What this process does, and the daemon that makes its batches, from `start()` to `stop()`, which writes the file.

    Use it as a context manager, or call both. Each thread keeps its newest `events`; older ones are dropped and counted in
    the name of the process. There is one trace of a process at a time.

    Errors: InvalidArgument (another trace runs; events), NotFound (the folder of the file), Closed (`stop()` without
    `start()`).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        events: int = THREAD_EVENTS,
        chrome: bool = False,
        daemon: Callable[[], tuple[str, str] | None] = lambda: None,
    ) -> None:
        """`daemon`: asked at the start for the socket of a daemon that is to be traced too, and the name of the job there."""
        self._path, self._events, self._chrome, self._daemon = os.fspath(path), events, chrome, daemon
        self._session = 0
        self._there: tuple[str, str, int] | None = None  # socket, job, session

    def start(self) -> Self:
        """Begin to record."""
        folder = os.path.dirname(self._path) or "."
        if not os.path.isdir(folder):
            raise NotFound(f"trace: there is no folder {folder}; make it, or give another path")
        if _core.trace_on():
            raise InvalidArgument("trace: another one of this process runs; stop it first")
        if (there := self._daemon()) is not None:
            with _said("the daemon takes no part in this trace"):
                self._there = (*there, _core.daemon_trace_start(there[0], min(self._events, _DAEMON_THREAD_EVENTS)))
        self._session = _core.trace_start(self._events)
        return self

    def stop(self) -> None:
        """End it and write the file, whole or not at all."""
        found = _core.trace_stop(self._session, "carya: trainer")
        if self._there is not None:
            socket, job, session = self._there
            self._there = None
            with _said("the daemon's part of this trace is lost"):
                found += _core.daemon_trace_stop(socket, session, job)
        write_trace(self._path, found, self._chrome)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    """A daemon of an earlier version, or one that ended, is no reason to fail the training."""
    try:
        yield
    except Error as error:
        _log.warning("%s: %s", what, error)


def write_trace(path: str, perfetto: bytes, chrome: bool) -> None:
    """Write the file, as Perfetto's packets or as Chrome's JSON, whole or not at all. Errors: OSError."""
    if chrome:
        perfetto = json.dumps(to_chrome(perfetto), separators=(",", ":")).encode()
    write_whole(path, perfetto)
