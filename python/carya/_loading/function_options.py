"""Options of a loader whose samples Python functions make, and those that say nothing there."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from .. import _core
from .._errors import InvalidArgument, Unsupported, invalid
from .._options import byte_size, choice, flag, seconds
from .._processes.wire import Place, check_authority, host_and_port, is_loopback, read_token

TIMEOUT_S = 300.0

# What speaks of native threads, which make the samples that the functions get.
_OF_NATIVE = (
    "read_ahead", "io_engine", "decode_index", "cache", "remote", "prices", "remote_tls", "verify", "max_workers", "target",
    "max_cost_per_hour",
)  # fmt: skip
NATIVE = ("auto", "threads", "workers")


class FunctionOptions:
    """timeout: seconds that one call may take, None without a limit. rss_max: bytes of a worker's own memory, or None. niceness: of the
    job's processes.

    Errors: InvalidArgument, Unsupported, which name the option.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        if "plan" in given:
            raise Unsupported(
                f"Loader: plan: got {given['plan']!r} for a pipeline with Python functions; leave it out: Python functions run in the "
                "order in which they are written"
            )
        self._given = given
        self.native: str = choice("native", given.get("native", "auto"), NATIVE)
        # Who asks for native threads before the functions: the name of an option; "" where nobody does.
        self.asked_native = next((name for name in _OF_NATIVE if name in given), "")
        if given.get("placement", "auto") not in ("auto", "local"):
            self.asked_native = self.asked_native or "placement"
        if self.native == "threads":
            self.asked_native = self.asked_native or "native"
        if self.native == "workers" and self.asked_native:
            raise InvalidArgument(
                f'Loader: {self.asked_native}: got {given[self.asked_native]!r} beside native="workers", which does without native '
                "threads; leave one of them out"
            )
        weight = given.get("weight", 1.0)
        socket = "" if given.get("daemon", "auto") == "embedded" else _core.daemon_socket()
        # The daemon with whose jobs the workers take turns, also one that starts later; and whether there is one now, where the
        # weight asks for it.
        self.turns: tuple[str, float] | None = (socket, weight) if socket else None
        self._takes_turns = bool(socket) and weight != 1 and _core.daemon_listens(socket)
        self.niceness = 0 if self._takes_turns else niceness_of(weight)
        self.timeout: float | None = checked_timeout(given.get("function_timeout", TIMEOUT_S))
        self.places = _places(given.get("function_workers", ()), given.get("function_tls"))
        self.rss_max: int | None = byte_size("max_rss", given["max_rss"]) if "max_rss" in given else None

    def check(self) -> None:
        """Of a pipeline whose functions do more than to choose records. Errors: Unsupported, where something was given that is for a
        daemon, which runs no Python functions, or for native threads alone."""
        given = self._given
        if given.get("weight", 1.0) > 1 and not self._takes_turns:
            raise Unsupported(
                f"Loader: weight: got {given['weight']!r} for a pipeline with Python functions, and no daemon to take turns with; give 0.01 "
                "to 1, so that the job that is to have most says 1: processes can have less of the cores than others. Or start caryad"
            )
        for name in ("share", "job"):
            if name in given:
                raise Unsupported(
                    f"Loader: {name}: got {given[name]!r} for a pipeline with Python functions; leave it out: no daemon runs a user's "
                    "Python functions"
                )
        if given.get("daemon", "auto") not in ("auto", "embedded"):
            raise Unsupported(
                f"Loader: daemon: got {given['daemon']!r} for a pipeline with Python functions, which no daemon runs; give "
                '"auto" or "embedded"'
            )
        if given.get("replicas", 1) != 1:
            raise Unsupported("Loader: replicas: a pipeline with Python functions has none; leave it out")


def _places(addresses: Any, proof: Any) -> tuple[Place, ...]:
    """Other machines that make rows, one for each of their processes that is used. Errors: those of reading the token; InvalidArgument."""
    listed = [addresses] if isinstance(addresses, str) else addresses
    if not isinstance(listed, list | tuple) or not all(isinstance(one, str) for one in listed):
        raise invalid("Loader: function_workers", addresses, '["host:7071", ...], once for each process there')
    if not listed:
        if proof is not None:
            raise invalid("Loader: function_tls", proof, "function_workers= too, or leave it out")
        return ()
    allowed = '{"token": FILE, "ca": FILE}, with "server_name" or "insecure": True beside them'
    if (
        not isinstance(proof, Mapping)
        or "token" not in proof
        or not set(proof) <= {"token", "ca", "server_name", "insecure"}
    ):
        raise invalid("Loader: function_tls", proof, allowed)
    insecure = flag("function_tls: insecure", proof.get("insecure", False))
    named = {name: proof[name] for name in ("token", "ca") if name in proof}
    if not all(isinstance(path, str | os.PathLike) and path for path in named.values()):
        raise invalid("Loader: function_tls", proof, allowed)
    ca = os.fspath(named.get("ca", ""))
    if ca:
        check_authority(ca)
    for address in listed:
        try:
            host, _ = host_and_port(address)
        except InvalidArgument as error:
            raise InvalidArgument(f"Loader: function_workers: {error}") from None
        if not ca and not insecure and not is_loopback(host):
            raise InvalidArgument(
                f'Loader: function_tls: {address} is another machine, and code would travel unprotected; give "ca", the file with its '
                'certificate\'s authority, or "insecure": True where the network is yours alone'
            )
    token = read_token(os.fspath(proof["token"]))
    return tuple(Place(address, token, ca, str(proof.get("server_name", ""))) for address in listed)


def niceness_of(weight: float) -> int:
    """How much nicer the processes of a job of this weight are: the system gives 1.25 times the time for each step. They cannot be
    less nice, which users may not.

    >>> niceness_of(0.5), niceness_of(2)
    (3, 0)
    """
    return max(0, round(-math.log(weight) / math.log(1.25)))


def checked_timeout(value: Any) -> float | None:
    """Seconds of more than 0; infinity is no limit."""
    timeout = seconds("function_timeout", value)
    if timeout <= 0:
        raise invalid("Loader: function_timeout", value, "seconds of more than 0, or math.inf for no limit")
    return None if timeout > 1e8 else timeout


def only_for_functions(given: Mapping[str, Any]) -> None:
    """Errors: InvalidArgument, when a pipeline without functions is given their options."""
    for name in ("function_timeout", "max_rss", "native", "function_workers", "function_tls"):
        if name in given and given[name] not in (TIMEOUT_S, "auto"):
            raise InvalidArgument(
                f"Loader: {name}: got {given[name]!r} for a pipeline without Python functions; leave it out, or call "
                ".map(fn), .map_batches(fn) or carya.dataset(...)"
            )


def worker_count(threads: int) -> int:
    """Processes for `threads`, where 0 is automatic."""
    return threads or max(1, _core.auto_threads())
