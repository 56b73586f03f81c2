"""A real caryad for tests, in a folder of its own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from carya import _core, _programs


def until(done: Callable[[], Any], seconds: float = 300) -> Any:
    """What `done` gives, once that is true."""
    end = time.monotonic() + seconds
    while True:
        value = done()
        if value:
            return value
        assert time.monotonic() < end, f"still not so after {seconds} s"
        time.sleep(0.01)


class Daemon:
    """A caryad that is started, killed and started again at the same socket."""

    def __init__(self, socket: str, *arguments: str) -> None:
        self.socket = socket
        self._arguments = arguments
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [_programs.program(), "--socket", self.socket, *self._arguments], cwd="/", stderr=subprocess.DEVNULL
        )
        until(lambda: _core.daemon_listens(self.socket))

    def end(self, number: int = signal.SIGKILL) -> int:
        """Send the signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(60)

    def threads(self) -> list[str]:
        """The names of its threads, without those that end meanwhile."""
        names = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                names.append((task / "comm").read_text().strip())
        return names

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_core.daemon_status(self.socket))
        return found


@contextmanager
def running(*arguments: str) -> Iterator[Daemon]:
    """A daemon for a `with`; killed at its end. Its path is short: that of a socket has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="caryad-"))
    daemon = Daemon(str(folder / "caryad.sock"), *arguments)
    try:
        yield daemon
    finally:
        if daemon.process.poll() is None:
            daemon.end()
        shutil.rmtree(folder)
