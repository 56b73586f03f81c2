"""The page by HTTP: on the loopback behind a token, or on a Unix socket of this user alone."""

from __future__ import annotations

import contextlib
import http.server
import os
import secrets
import socket
import socketserver
import stat
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._errors import Error, IoError, invalid
from .page import POLICY, page
from .thumbnails import Thumbnails
from .view import View

if TYPE_CHECKING:
    from typing_extensions import Self

_CONNECTIONS_MAX = 16
_REQUEST_S = 10
_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_ALLOWED = '"127.0.0.1:PORT", "[::1]:PORT" or "localhost:PORT" (0: a free port), or the absolute path of a socket'


class PageServer:
    """Answers until `close()`. `url`: what to open; of a socket, its path.

    Errors of the constructor: InvalidArgument (an address of another kind), IoError (it cannot listen there).
    """

    def __init__(self, address: str, ask: Callable[[], View]) -> None:
        """`ask`: makes a view, one at a time."""
        self._token = secrets.token_urlsafe(24)
        handler = type("Handler", (_Handler,), {"server_of": self, "timeout": _REQUEST_S})
        self.ask, self.thumbnails, self.asking = ask, Thumbnails(), threading.Lock()
        self.root = "/"
        self.hosts: tuple[str, ...] = ()
        self.path = address if address.startswith("/") else ""
        try:
            if self.path:
                self._server: _Server = _on_socket(self.path, handler)
                self.url = self.path
            else:
                host, port = _checked(address)
                kind = _ServerOf6 if ":" in host else _Server
                self._server = kind((host, port), handler)
                port = self._server.server_address[1]
                self.hosts = tuple(f"{name}:{port}" for name in _HOSTS)
                self.root = f"/{self._token}/"
                self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}{self.root}"
        except OSError as error:
            raise IoError(f"page: cannot listen at {address}: {error.strerror}; give another address") from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="carya-page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more. Twice is harmless."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self.path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A thread for each connection, of which there are few: the next one is closed at once."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, address: Any, handler: Any) -> None:
        self._places = threading.Semaphore(_CONNECTIONS_MAX)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def server_bind(self) -> None:  # without asking for the name of this host
        socketserver.TCPServer.server_bind(self)


class _ServerOf6(_Server):
    address_family = socket.AF_INET6


class _ServerOfSocket(_Server):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        before = os.umask(0o177)  # for this user alone, from its first moment on
        try:
            self.socket.bind(self.server_address)
        finally:
            os.umask(before)

    def get_request(self) -> tuple[Any, Any]:
        request, _ = self.socket.accept()
        return request, ("this user", 0)


def _on_socket(path: str, handler: Any) -> _Server:
    """A socket that nobody listens at any more is replaced; any other file is not."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            with socket.socket(socket.AF_UNIX) as tried:
                tried.settimeout(1)
                tried.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
    except FileNotFoundError:
        pass
    return _ServerOfSocket(path, handler)


def _checked(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or host not in _HOSTS or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise invalid("page: address", address, _ALLOWED)
    return host.strip("[]"), int(port)


class _Handler(http.server.BaseHTTPRequestHandler):
    server_of: PageServer
    server_version, sys_version = "carya", ""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        of = self.server_of
        # A page of another site that got its name to lead here (DNS rebinding) says that name.
        if of.hosts and self.headers.get("Host") not in of.hosts:
            self._send(403, "text/plain", "this page is of this host only\n", body)
            return
        if not secrets.compare_digest(self.path.encode("latin-1", "replace"), of.root.encode()):
            self._send(404, "text/plain", "give the whole address, with its token, that the command printed\n", body)
            return
        try:
            with of.asking:
                text = page(of.ask(), of.thumbnails)
        except Error as error:
            self._send(503, "text/plain", f"{error}\n", body)
            return
        self._send(200, "text/html", text, body)

    def _send(self, status: int, kind: str, text: str, body: bool) -> None:
        data = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(data)),
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the token would stand in a log."""
