"""A host as a worker sees one, byte by byte (remote/PROTOCOL.md): for tests that say what no loader would."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Any

HEADER = struct.Struct("<4sBBHIIQQ")
TYPES = (
    *("", "Hello", "Welcome", "Register", "Registered", "UnknownPlan", "Request", "Result", "ChunkFailed"),
    *("Credit", "Ping", "Pong", "Drain", "Error", "Cancel"),
)
HASHED = 1  # a flag: a hash follows the payload
SLACK = bytes(64)  # behind each encoded input


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << 8 * size:
            return bytes([major << 5 | code]) + number.to_bytes(size, "big")
    raise OverflowError(number)


def to_cbor(value: Any) -> bytes:
    """Of the few kinds that the protocol has. Source: RFC 8949."""
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _head(0, value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, (list, tuple)):
        return _head(4, len(value)) + b"".join(map(to_cbor, value))
    assert isinstance(value, dict)
    return _head(5, len(value)) + b"".join(to_cbor(name) + to_cbor(item) for name, item in value.items())


def from_cbor(data: bytes) -> Any:
    value, end = _read(data, 0)
    assert end == len(data)
    return value


def _read(data: bytes, at: int) -> tuple[Any, int]:
    major, number = data[at] >> 5, data[at] & 31
    at += 1
    if number >= 24 and major != 7:
        size = 1 << (number - 24)
        number, at = int.from_bytes(data[at : at + size], "big"), at + size
    if major == 0:
        return number, at
    if major == 1:
        return -1 - number, at
    if major in (2, 3):
        raw = data[at : at + number]
        return (raw if major == 2 else raw.decode()), at + number
    if major == 4:
        items = []
        for _ in range(number):
            item, at = _read(data, at)
            items.append(item)
        return items, at
    if major == 5:
        pairs = {}
        for _ in range(number):
            name, at = _read(data, at)
            pairs[name], at = _read(data, at)
        return pairs, at
    return {20: False, 21: True, 22: None}[number], at


class Host:
    """One connection to a worker. Frames are (type, body, payload, request)."""

    def __init__(self, address: tuple[str, int] | str, context: ssl.SSLContext | None = None, name: str = "localhost"):
        kind = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        plain = socket.socket(kind, socket.SOCK_STREAM)
        plain.settimeout(300)
        plain.connect(address)
        self.socket = context.wrap_socket(plain, server_hostname=name) if context else plain

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, kind: str, body: dict[str, Any], payload: bytes = b"", request: int = 0) -> None:
        data = to_cbor(body)
        self.socket.sendall(
            HEADER.pack(b"CAYR", 1, 0, TYPES.index(kind), 0, len(data), request, len(payload)) + data + payload
        )

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError("the worker closed the connection")
            data += piece
        return bytes(data)

    def hear(self, *kinds: str) -> tuple[str, dict[str, Any], bytes, int]:
        """The next frame of one of the kinds; Pings are answered on the way. Errors: EOFError, OSError."""
        while True:
            _, _, _, kind, flags, body, request, payload = HEADER.unpack(self._exactly(HEADER.size))
            frame = TYPES[kind], from_cbor(self._exactly(body)), self._exactly(payload), request
            self._exactly(8 * (flags & HASHED))
            if frame[0] == "Ping":
                self.say("Pong", {}, request=request)
            if frame[0] in kinds:
                return frame

    def hello(
        self, token: str = "", facts: list[dict[str, str]] | None = None, user: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Welcome, or the Error that refuses. Without `user`: as a host of before, which had none."""
        said = {} if user is None else {"user": user}
        self.say("Hello", {"client": "test", "facts": facts or [], "token": token, **said})
        return self.hear("Welcome", "Error")[:2]


def table(rows: int, inputs: list[bytes], fields_encoded: list[bool]) -> bytes:
    """The payload of a chunk (loader/wire/FORMAT.md): rows, lengths, inputs row by row; no index entries."""
    parts = [struct.pack("<QQ", row, 0) for row in range(rows)]
    encoded = [fields_encoded[i % len(fields_encoded)] for i in range(len(inputs))]
    for item, is_encoded in zip(inputs, encoded, strict=True):
        parts.append(struct.pack("<QQ", len(item), 0) if is_encoded else struct.pack("<Q", len(item)))
    for item, is_encoded in zip(inputs, encoded, strict=True):
        parts.append(item + (SLACK if is_encoded else b""))
    return b"".join(parts)
