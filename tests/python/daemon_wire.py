"""A client of caryad that says what a loader would not: messages by hand, and those of a loader that were taken down."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
import threading
from pathlib import Path
from typing import Any

import carya

HELLO, ATTACH, ATTACHED, STATUS, DONE, ERROR, PROGRESS, LEND, WANT_GRANTS = 1, 3, 4, 13, 19, 20, 22, 31, 32
MESSAGE_MAX = 1 << 17
_HEADER = struct.Struct("<4sBBHII")


def cbor(value: Any) -> bytes:
    """One of the few kinds that messages have."""
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _head(0, value)
    if isinstance(value, str):
        return _head(0x60, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return _head(0x80, len(value)) + b"".join(cbor(item) for item in value)
    return _head(0xA0, len(value)) + b"".join(cbor(key) + cbor(item) for key, item in value.items())


def _head(kind: int, number: int) -> bytes:
    if number < 24:
        return bytes([kind + number])
    return bytes([kind + 27]) + struct.pack(">Q", number)


def terms(region: str = "us-east-1", endpoint: str = "", proxy: str = "", authority: str = "") -> dict[str, Any]:
    """io::StoreTerms: what a client says of how stores are asked."""
    way = {"authority": authority, "proxy": proxy, "no_proxy": ""}
    settings = {"region": region, "endpoint": endpoint, "google_endpoint": "", "azure_endpoint": ""}
    return {"settings": settings, "plain": way, "tls": way}


def grant(access: str = "", secret: str = "", token: str = "", **said: Any) -> dict[str, Any]:
    """io::LentGrant."""
    keys = {"access_key": access, "secret_key": secret, "token": token, "expires_s": 0, "in_query": False}
    return {"account": "s3", "grant": keys, "why": "", "for_now": False} | said


class Client:
    """A connection that has said hello."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.send(HELLO, {"client": "a test"})
        self.receive()

    def send(self, kind: int, body: Any = None, request: int = 1, descriptors: list[int] | None = None) -> None:
        data = body if isinstance(body, bytes) else cbor(body or {})
        message = _HEADER.pack(b"CARY", 1, 3, kind, request, len(data)) + data
        socket.send_fds(self.socket, [message], descriptors or [])

    def receive(self) -> tuple[int, bytes]:
        """The kind and body of the next message; kind 0: the daemon has closed the connection."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.socket, MESSAGE_MAX, 64)
        except ConnectionResetError:
            return 0, b""
        for number in descriptors:
            os.close(number)
        return (_HEADER.unpack(data[:16])[3], data[16:]) if data else (0, b"")

    def wait_for(self, *kinds: int) -> tuple[int, bytes]:
        """The next message of one of these kinds, or 0."""
        while True:
            kind, body = self.receive()
            if kind in (*kinds, 0):
                return kind, body

    def lend(self, said: dict[str, Any], *grants: dict[str, Any]) -> tuple[int, bytes]:
        self.send(LEND, {"terms": said, "grants": list(grants)})
        return self.wait_for(DONE, ERROR)

    def attach(self, taken: Taken) -> None:
        self.send(ATTACH, taken.body, 2, taken.descriptors)

    def close(self) -> None:
        self.socket.close()


class Taken:
    """The message by which a loader of that pipeline asks the daemon to attach."""

    def __init__(self, pipeline: carya.Pipeline, daemon: str, **options: Any) -> None:
        self.body = b""
        self.descriptors: list[int] = []
        folder = tempfile.TemporaryDirectory(prefix="caryad-")
        with folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            path = str(Path(folder.name) / "taker.sock")
            listening.bind(path)
            listening.listen(4)
            taker = threading.Thread(target=self._take, args=(listening, daemon))
            taker.start()
            with contextlib.suppress(carya.Error):
                carya.Loader(pipeline, daemon=path, **options)
            taker.join()

    def _take(self, listening: socket.socket, daemon: str) -> None:
        """Answer as the daemon does, up to the message, then close."""
        while not self.body:
            with listening.accept()[0] as loader, contextlib.closing(Client(daemon)) as real:
                while not self.body:
                    data, descriptors, _, _ = socket.recv_fds(loader, MESSAGE_MAX, 64)
                    if not data:
                        break
                    _, _, _, kind, request, _ = _HEADER.unpack(data[:16])
                    if kind == ATTACH:
                        self.body, self.descriptors = data[16:], descriptors
                        said = {"error": {"code": 1, "message": "taken", "errno": 0}}
                        answer = (ERROR, cbor(said))
                    elif kind == LEND:
                        answer = (DONE, cbor({}))
                    else:
                        real.send(kind, data[16:], request)
                        answer = real.receive()
                    loader.send(_HEADER.pack(b"CARY", 1, 3, answer[0], request, len(answer[1])) + answer[1])

    def close(self) -> None:
        for number in self.descriptors:
            os.close(number)
