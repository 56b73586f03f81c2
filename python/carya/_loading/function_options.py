"""Options of a loader whose samples Python functions make, and those that say nothing there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from .._errors import InvalidArgument, Unsupported, invalid
from .._options import byte_size, seconds

TIMEOUT_S = 300.0

# What is a native engine's business. Each is refused where it was given, since it would be ignored.
_NOT_HERE = {
    "read_ahead": "leave it out: the functions read by themselves",
    "io_engine": "leave it out: the functions read by themselves",
    "decode_index": "leave it out: worker processes decode without indexes",
    "cache": "leave it out: samples of worker processes are not kept",
    "plan": "leave it out: Python functions run in the order in which they are written",
    "job": "leave it out: no daemon runs a user's Python functions",
    "remote": "leave it out: workers of other machines run no Python functions",
    "prices": "leave it out: workers of other machines run no Python functions",
    "remote_tls": "leave it out: workers of other machines run no Python functions",
    "verify": "leave it out: workers of other machines run no Python functions",
    "max_workers": "give threads=, the number of worker processes",
    "target": "leave it out: workers of other machines run no Python functions",
    "max_cost_per_hour": "leave it out: workers of other machines run no Python functions",
}


class FunctionOptions:
    """timeout: seconds that one call may take, None without a limit. rss_max: bytes of a worker's own memory, or None.

    Errors: InvalidArgument, Unsupported, which name the option.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        for name, told in _NOT_HERE.items():
            if name in given:
                raise Unsupported(f"Loader: {name}: got {given[name]!r} for a pipeline with Python functions; {told}")
        if given.get("daemon", "auto") not in ("auto", "embedded"):
            raise Unsupported(
                f"Loader: daemon: got {given['daemon']!r} for a pipeline with Python functions, which no daemon runs; give "
                '"auto" or "embedded"'
            )
        if given.get("replicas", 1) != 1:
            raise Unsupported("Loader: replicas: a pipeline with Python functions has none; leave it out")
        if given.get("placement", "auto") not in ("auto", "local"):
            raise Unsupported(
                f"Loader: placement: got {given['placement']!r} for a pipeline with Python functions, which run on this "
                'machine; give "auto" or "local"'
            )
        self.timeout: float | None = checked_timeout(given.get("function_timeout", TIMEOUT_S))
        self.rss_max: int | None = byte_size("max_rss", given["max_rss"]) if "max_rss" in given else None


def checked_timeout(value: Any) -> float | None:
    """Seconds of more than 0; infinity is no limit."""
    timeout = seconds("function_timeout", value)
    if timeout <= 0:
        raise invalid("Loader: function_timeout", value, "seconds of more than 0, or math.inf for no limit")
    return None if timeout > 1e8 else timeout


def only_for_functions(given: Mapping[str, Any]) -> None:
    """Errors: InvalidArgument, when a pipeline without functions is given their options."""
    for name in ("function_timeout", "max_rss"):
        if name in given and given[name] != TIMEOUT_S:
            raise InvalidArgument(
                f"Loader: {name}: got {given[name]!r} for a pipeline without Python functions; leave it out, or call "
                ".map(fn), .map_batches(fn) or carya.dataset(...)"
            )


def worker_count(threads: int) -> int:
    """Processes for `threads`, where 0 is automatic."""
    return threads or max(1, _core.auto_threads())
