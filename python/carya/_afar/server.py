"""`carya function-worker`: listens for trainers that hold the token, and forks a process for each of their workers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import select
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .._errors import InvalidArgument, IoError
from .._processes.system import end_with_parent
from .._processes.wire import accepted, host_and_port, is_loopback, read_token, server_context
from .session import serve

_UNKNOWN_MAX = 64  # connections beyond the processes, which have not proven anything yet
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HELLO_S = 10.0  # all of it, which those have for that


def run(listen: str, token_file: str, certificate: str, key: str, insecure: bool, processes: int) -> int:
    """Until SIGINT, SIGTERM or SIGHUP; the exit status. Errors: InvalidArgument, IoError, NotFound, Permission."""
    host, port = host_and_port(listen)
    if bool(certificate) != bool(key):
        raise InvalidArgument("--tls-cert, --tls-key: got one of them; give both")
    if not is_loopback(host) and not certificate and not insecure:
        raise InvalidArgument(
            f"--listen {listen}: other machines can reach it, and code would travel unprotected; give --tls-cert and --tls-key, or "
            "--insecure where the network is yours alone"
        )
    token = read_token(token_file)
    context = server_context(certificate, key) if certificate else None
    try:
        listener = socket.create_server((host, port), family=_family(host, port), backlog=64)
    except OSError as error:
        raise IoError(f"--listen {listen}: {error.strerror or error}; give another port or address") from None
    at = listener.getsockname()
    user = str(os.geteuid())
    with contextlib.suppress(KeyError):  # it has no name
        user = pwd.getpwuid(os.geteuid()).pw_name
    print(
        f"listening on {at[0]}:{at[1]}: {processes} processes; whoever has the token may run any code as {user}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="carya-afar-") as folder, _until_told() as told, listener:
        places = [Path(folder) / str(number) for number in range(processes)]
        for place in places:
            place.touch()
        children: set[int] = set()
        listener.setblocking(False)
        while not told:
            with contextlib.suppress(InterruptedError):
                select.select([listener], [], [], 0.2)
            children -= _ended(children)
            with contextlib.suppress(OSError):  # nobody has come, or is gone again
                connected, _ = listener.accept()
                with connected:
                    if len(children) < processes + _UNKNOWN_MAX:
                        if context is not None:
                            with contextlib.suppress(IoError):  # what is no good yet leaves the one from before
                                context = server_context(certificate, key)  # it may have been renewed
                        children |= _forked(connected, listener, token, context, places)
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)
    return 130 if signal.SIGINT in told else 0


def _family(host: str, port: int) -> socket.AddressFamily:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise InvalidArgument(f"--listen {host}: {error.strerror or error}; give an address of this machine") from None


@contextlib.contextmanager
def _until_told() -> Iterator[list[int]]:
    """The signals that have asked it to end; of a terminal that was closed only where `nohup` does not ignore it."""
    told: list[int] = []
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: told.append(number))
    yield told


def _ended(children: set[int]) -> set[int]:
    return {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0]}


def _forked(
    connected: socket.socket, listener: socket.socket, token: bytes, context: ssl.SSLContext | None, places: list[Path]
) -> set[int]:
    """The process that serves a connection; none where none can be made."""
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        print(f"carya function-worker: no process for a connection: {error}", file=sys.stderr, flush=True)
        return set()
    if pid:
        with contextlib.suppress(OSError):  # it has done so itself
            os.setpgid(pid, pid)
        return {pid}
    try:
        end_with_parent(parent)
        os.setpgid(0, 0)
        for number in _ENDING:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        listener.close()
        connected.setblocking(True)
        signal.setitimer(signal.ITIMER_REAL, _HELLO_S)  # SIGALRM ends who has not proven anything by then
        wire = accepted(connected, token, context)
        signal.setitimer(signal.ITIMER_REAL, 0)
        serve(wire, lambda: _take(places))
    except (OSError, EOFError, ValueError) as error:
        print(f"carya function-worker: a connection ended: {error}", file=sys.stderr, flush=True)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os.killpg(0, signal.SIGKILL)  # with its worker, and what functions have started
    return set()  # which nobody sees


def _take(places: list[Path]) -> bool:
    """A place that is this process's until it ends."""
    for place in places:
        fd = os.open(place, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            continue
        return True
    return False
