"""Options of a loader whose samples Python functions make, and those that say nothing there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from .._errors import InvalidArgument, Unsupported, invalid
from .._options import byte_size, choice, seconds

TIMEOUT_S = 300.0

# What is refused where it was given, since it would be ignored.
_NOT_HERE = {
    "plan": "leave it out: Python functions run in the order in which they are written",
    "weight": "leave it out: Python functions run in processes, which share the cores as the system has it",
    "share": "leave it out: no daemon runs a user's Python functions",
    "job": "leave it out: no daemon runs a user's Python functions",
}
# What speaks of native threads, which make the samples that the functions get.
_OF_NATIVE = (
    "read_ahead", "io_engine", "decode_index", "cache", "remote", "prices", "remote_tls", "verify", "max_workers", "target",
    "max_cost_per_hour",
)  # fmt: skip
NATIVE = ("auto", "threads", "workers")


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
    for name in ("function_timeout", "max_rss", "native"):
        if name in given and given[name] not in (TIMEOUT_S, "auto"):
            raise InvalidArgument(
                f"Loader: {name}: got {given[name]!r} for a pipeline without Python functions; leave it out, or call "
                ".map(fn), .map_batches(fn) or carya.dataset(...)"
            )


def worker_count(threads: int) -> int:
    """Processes for `threads`, where 0 is automatic."""
    return threads or max(1, _core.auto_threads())
