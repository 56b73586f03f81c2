"""Messages to a program of another machine that runs this user's functions: proof of a token on both sides, TLS, pickles.

Each side runs what the other one sends, so that nothing is unpickled before both have proven that they hold the token.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pickle
import socket
import stat
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import _core
from .._errors import InvalidArgument, IoError, NotFound, Permission

# What only another machine is needed for is imported where it is: every process that imports carya would pay for it.
if TYPE_CHECKING:
    import ssl

_MAGIC = b"carya functions 1\n"
_NONCE, _PROOF = 32, 32
_HEAD = struct.Struct("<IQ")  # blobs; bytes of the pickle
_BLOBS_MAX, _BYTES_MAX = 1 << 20, 1 << 40
TOKEN_MIN = 16
_HELLO_S = 10.0
_PIECE = 1 << 20
_LOST_MS = 30_000  # without an answer of the other machine's system


def check_authority(path: str) -> None:
    """Errors: InvalidArgument: no file of certificates."""
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument(f"function_tls: ca: {path}: {error}; give certificates in PEM") from None


class UnreachableError(Exception):
    """Why a place cannot be used now."""


@dataclass(frozen=True)
class Place:
    """Where functions may run, and how it is proven. `ca`: a file of certificates; "" without TLS."""

    address: str
    token: bytes = field(repr=False)
    ca: str = ""
    server_name: str = ""


def host_and_port(address: str) -> tuple[str, int]:
    """Errors: InvalidArgument."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidArgument(f'got "{address}"; give "host:port", such as "10.0.0.7:7071"')
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether nobody beside this machine is behind a host. Names but localhost are not looked up."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(path: str) -> bytes:
    """The token of a file that only its owner can read, or its group where another user owns it, as a cluster hands out its
    secrets. Errors: NotFound, Permission, InvalidArgument."""
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            token = file.read(1 << 16).strip()
    except FileNotFoundError:
        raise NotFound(f"token: {path}: it does not exist; make one: openssl rand -hex 32 > {path}") from None
    except OSError as error:
        raise Permission(f"token: {path}: {error.strerror}; give a file that this user may read") from None
    if stat.S_IMODE(facts.st_mode) & (0o077 if facts.st_uid == os.geteuid() else 0o037):
        raise Permission(f"token: {path}: others can read it; call chmod 600 {path}")
    if len(token) < TOKEN_MIN:
        raise InvalidArgument(
            f"token: {path}: got {len(token)} bytes; give {TOKEN_MIN} or more: openssl rand -hex 32 > {path}"
        )
    return token


def versions(packages: Sequence[str]) -> dict[str, str]:
    """What has to be equal on both machines, or bits might not be. A package that is not installed is left out."""
    import platform
    from importlib import metadata

    found = {"carya": _core.version, "machine": platform.machine(), "python": "{}.{}".format(*sys.version_info)}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


class Wire:
    """One connection after the proof. Threads: one.

    Errors: OSError, EOFError (the other side is gone), ValueError (what came is none of its messages).
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def fileno(self) -> int:
        return self._socket.fileno()

    def pending(self) -> bool:
        """Whether bytes have been read off the socket that `receive` has not taken yet, which no poll sees."""
        of_tls = getattr(self._socket, "pending", None)
        return of_tls is not None and of_tls() > 0

    def timeout(self, seconds: float | None) -> None:
        """How long a call may wait for the other side."""
        self._socket.settimeout(seconds)

    def send(self, message: Any, blobs: Sequence[Any] = ()) -> None:
        text = pickle.dumps(message, protocol=5)
        views = [memoryview(blob).cast("B") for blob in blobs]
        sizes = struct.pack(f"<{len(views)}Q", *(len(view) for view in views))
        head = memoryview(_HEAD.pack(len(views), len(text)) + sizes + text)
        views.insert(0, head)
        for view in views:
            for at in range(0, len(view), _PIECE):  # each within the time-out, however slow the way is
                self._socket.sendall(view[at : at + _PIECE])

    def receive(self) -> tuple[Any, list[bytearray]]:
        count, size = _HEAD.unpack(self._exactly(_HEAD.size))
        if count > _BLOBS_MAX or size > _BYTES_MAX:
            raise ValueError(f"a message of {count} parts and {size} bytes")
        sizes = struct.unpack(f"<{count}Q", self._exactly(8 * count))
        if sum(sizes) > _BYTES_MAX:
            raise ValueError(f"a message of {sum(sizes)} bytes")
        message = pickle.loads(self._exactly(size))
        return message, [self._exactly(one) for one in sizes]

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(min(size, 1 << 20))
        at = 0
        while at < size:
            if at == len(data):  # as much is taken as has come
                data.extend(bytes(min(size - at, len(data))))
            with memoryview(data) as view:
                got = self._socket.recv_into(view[at:])
            if not got:
                raise EOFError("the other side has closed the connection")
            at += got
        return data

    def close(self) -> None:
        self._socket.close()


def connect(place: Place, seconds: float) -> Wire:
    """Errors: UnreachableError, with the reason: nobody listens, another token, a certificate that is not trusted."""
    host, port = host_and_port(place.address)
    try:
        plain = socket.create_connection((host, port), seconds)
    except OSError as error:
        raise UnreachableError(
            f"{place.address}: {error.strerror or error}; start carya function-worker there"
        ) from None
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _LOST_MS)
        plain.settimeout(_HELLO_S)
        joined = plain
        if place.ca:
            import ssl

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_verify_locations(place.ca)
            joined = context.wrap_socket(plain, server_hostname=place.server_name or host)
        wire = Wire(joined)
        _prove(wire, place.token, asked=False)
        return wire
    except (OSError, EOFError, ValueError) as error:
        plain.close()
        raise UnreachableError(f"{place.address}: {_told(error)}") from None


def accepted(plain: socket.socket, token: bytes, context: ssl.SSLContext | None) -> Wire:
    """The other end of `connect`. Errors: OSError, EOFError, ValueError: who connects holds no such token."""
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _LOST_MS)
    plain.settimeout(_HELLO_S)
    wire = Wire(plain if context is None else context.wrap_socket(plain, server_side=True))
    _prove(wire, token, asked=True)
    return wire


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Errors: IoError."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise IoError(f"{certificate}, {key}: {error}; give a certificate and its key in PEM") from None
    return context


def _prove(wire: Wire, token: bytes, asked: bool) -> None:
    """Both sides show that they hold the token, over numbers that both have drawn. Who is asked answers second."""
    own = os.urandom(_NONCE)
    wire._socket.sendall(_MAGIC + own)
    if wire._exactly(len(_MAGIC)) != _MAGIC:
        raise ValueError("what is there is no carya function-worker of this version")
    other = bytes(wire._exactly(_NONCE))
    numbers = other + own if asked else own + other
    proofs = {side: hmac.digest(token, side + numbers, hashlib.sha256) for side in (b"asks", b"asked")}
    if not asked:
        wire._socket.sendall(proofs[b"asks"])
    expected = proofs[b"asks" if asked else b"asked"]
    if not hmac.compare_digest(bytes(wire._exactly(_PROOF)), expected):
        raise ValueError("it holds another token")
    if asked:
        wire._socket.sendall(proofs[b"asked"])


def _told(error: Exception) -> str:
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}; give its authority as ca=, and server_name="
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}; give ca= where it has --tls-cert, and leave it out where not"
    if isinstance(error, EOFError | ConnectionError):
        return "it closed the connection before it had proven who it is: it has another token, TLS, or no place left"
    return str(error)
