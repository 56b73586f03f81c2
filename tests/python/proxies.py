"""A TCP proxy between a loader and its worker, that does to their bytes what bad networks do."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time


class Proxy:
    """Listens at `at` (a free port of the loopback) and passes bytes on to `target`, a port of the loopback, both ways.

    corrupt_every: one bit of every so many bytes from the worker is another one; 0: none.
    silent: what comes is taken and goes nowhere: a connection that is half open.
    """

    def __init__(self, target: int, at: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.corrupt_every = 0
        self.silent = False
        self.corrupted = 0
        self._target = target
        self._seen = 0
        self._cut = False
        self._ended = False
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(at)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, and each new one, until mend()."""
        self._cut = True
        self._end_all()

    def mend(self) -> None:
        self._cut = False

    def close(self) -> None:
        self._ended = True
        self._listening.close()
        self._end_all()

    def _end_all(self) -> None:
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self._cut:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            self._open |= {near, far}
            for source, sink, from_worker in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._pass, args=(source, sink, from_worker), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, from_worker: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                while self.silent and not self._cut and not self._ended:
                    time.sleep(0.01)
                sink.sendall(self._damaged(data) if from_worker else data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open -= {source}
        source.close()

    def _damaged(self, data: bytes) -> bytes:
        before, self._seen = self._seen, self._seen + len(data)
        if not self.corrupt_every or before // self.corrupt_every == self._seen // self.corrupt_every:
            return data
        self.corrupted += 1
        changed = bytearray(data)
        changed[len(data) // 2] ^= 0x04
        return bytes(changed)


if __name__ == "__main__":  # ADDRESS PORT TARGET CORRUPT_EVERY, until it is killed
    proxy = Proxy(int(sys.argv[3]), (sys.argv[1], int(sys.argv[2])))
    proxy.corrupt_every = int(sys.argv[4])
    threading.Event().wait()
