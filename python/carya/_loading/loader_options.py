"""What the parameters of a loader say: checked, and turned into one object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from .. import _core
from .._errors import invalid
from .._options import (
    REORDERS,
    byte_size,
    cache_options,
    choice,
    count_or_auto,
    decode_index_name,
    flag,
    real,
    seconds,
    whole,
)
from .._pipeline.dataset import cache_dir
from .._pipeline.pipeline import Pipeline
from .daemon import check_job_name, checked_replica, checked_share
from .function_options import FunctionOptions, only_for_functions
from .ranks import launched
from .remote import checked_prices, remote_options
from .state import Place, choose_order

OnError = Literal["raise", "replace", "mask"]
DecodeIndex = Literal["auto", "off", "rows", 8, 16]
ON_ERROR: tuple[OnError, ...] = ("raise", "replace", "mask")

_JOB, _REMOTE, _DAEMON = _core.JobOptions(), _core.RemoteOptions(), _core.DaemonOptions()

# What is taken where an option is not given. Only the first few are said here; the others are the native options'.
DEFAULTS: dict[str, Any] = {
    "hold_timeout": 10.0,
    "function_timeout": 300.0,
    "native": "auto",
    "daemon": "auto",
    "placement": "auto",
    **{name: getattr(_JOB, name) or "auto" for name in ("threads", "slots")},  # 0: automatic
    "weight": _JOB.weight,
    "read_ahead": f"{_JOB.read_ahead // 10**6}MB",
    **{name: getattr(_JOB, name) for name in ("on_error", "prefetch_epochs", "io_timeout", "io_engine")},
    **{name: getattr(_JOB, name) for name in ("decode_index", "cache", "reorder")},
    **{name: getattr(_DAEMON, name) for name in ("replica", "replicas", "reattach_timeout")},
    "on_daemon_loss": _DAEMON.on_loss,
    "objective": _REMOTE.objective,
}


class NotGiven:
    """Stands in a signature for an option that the user did not give; `help()` shows the default that is taken."""

    __slots__ = ("_default",)

    def __init__(self, default: Any) -> None:
        self._default = default

    def __repr__(self) -> str:
        return repr(self._default)


NOT_GIVEN: dict[str, Any] = {name: NotGiven(default) for name, default in DEFAULTS.items()}


def given_only(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `options` that the user gave. None is one that was not, where there is no default to refuse it for."""
    return {
        name: value
        for name, value in options.items()
        if not isinstance(value, NotGiven) and (value is not None or name in DEFAULTS)
    }


# How each option of the native job is read. Errors: InvalidArgument with what is allowed.
_READERS: dict[str, Callable[[str, Any], Any]] = {
    "rank": lambda name, value: whole(name, value, 0, "an integer of 0 or more"),
    "world_size": lambda name, value: whole(name, value, 1, "a count of 1 or more"),
    "epochs": lambda name, value: whole(name, value, 1, "a count of 1 or more, or None"),
    "threads": lambda name, value: count_or_auto(name, value, 1, 1024),
    "slots": lambda name, value: count_or_auto(name, value, 2, 256),
    "weight": lambda name, value: real(name, value, 0.01, 100),
    "read_ahead": byte_size,
    "on_error": lambda name, value: choice(name, value, ON_ERROR),
    "seed": lambda name, value: whole(name, value, 0, "an integer of 0 to 2^64 - 1, or None", 2**64 - 1),
    "prefetch_epochs": flag,
    "io_timeout": seconds,
    "io_engine": lambda name, value: choice(name, value, ("auto", "uring", "pread")),
    "decode_index": lambda _, value: decode_index_name(value),
}


class LoaderOptions:
    """The parameters of one loader. `given`: those that the user gave, by name; the others have the one default there is.

    job: the native options; `job.reorder` is in which sense operations may still move.
    reorder: in which sense the user allowed it; order: of the operations, where it gives other bits than declared, else empty.
    start: where the job begins. asked: what a daemon is asked for, if there is one.

    Errors: InvalidArgument that names the parameter; NotFound, Permission and IoError of a plan file.
    """

    def __init__(self, pipeline: Pipeline, given: Mapping[str, Any], label_dtype: str) -> None:
        native = pipeline.native
        self.job = _core.JobOptions()
        if "rank" not in given or "world_size" not in given:
            rank, world_size = launched()
            given = {"rank": rank, "world_size": world_size, **given}
        for name, read in _READERS.items():
            if name in given:
                setattr(self.job, name, read(name, given[name]))
        self.hold_timeout = seconds("hold_timeout", given.get("hold_timeout", DEFAULTS["hold_timeout"]))
        self.fields = [name for name, _, _ in native.outputs()]
        self.as_tuple: tuple[str, ...] | None = None
        self.functions: FunctionOptions | None = None
        if pipeline.has_functions:
            self.functions = FunctionOptions(given)
        else:
            self.as_tuple = checked_tuple(given.get("as_tuple"), self.fields)
            only_for_functions(given)
        self.start = _restored_start(given.get("state"), self.job.epochs)
        self.job.epoch, self.job.position = self.start
        self.job.cache_dir = cache_dir()
        self.job.label_dtype = label_dtype
        for name, value in cache_options(given.get("cache", DEFAULTS["cache"])).items():
            setattr(self.job, name, value)
        self._choose_order(native, given)
        prices = checked_prices(given.get("prices"))
        self.job.host_price = prices["host"]
        self.job.request_price, self.job.gb_price = prices.get("request"), prices.get("gb")
        self.job.remote = remote_options(given, given.get("placement", DEFAULTS["placement"]), native)
        self._choose_daemon(given)

    def _choose_order(self, native: _core.Pipeline, given: Mapping[str, Any]) -> None:
        self.reorder: str = choice("reorder", given.get("reorder", self.job.reorder), REORDERS)
        plan, kept = given.get("plan"), None
        if plan is not None:
            from .plan_file import read_plan  # few loaders have one

            self.reorder, kept = read_plan(plan, native, self.reorder)
        self.plan = None if plan is None else str(plan)
        # Where the bits are not the declared ones. Inside of such an order nothing moves; where there is none, what keeps
        # the bits may.
        self.order = choose_order(native, self.reorder, given.get("state"), kept)
        self.job.reorder = self.reorder if self.order or self.reorder == "off" else "exact"
        self.job.order = self.order or kept or []

    def _choose_daemon(self, given: Mapping[str, Any]) -> None:
        self.daemon: str = given.get("daemon", DEFAULTS["daemon"])
        self.asked = asked = _core.DaemonOptions()
        asked.replica, asked.replicas = checked_replica(
            given.get("replica", asked.replica), given.get("replicas", asked.replicas)
        )
        asked.share, asked.share_jobs = checked_share(given.get("share"), asked.replicas)
        self.name: str | None = given.get("job")
        check_job_name(self.name)
        if "reattach_timeout" in given:
            asked.reattach_timeout = seconds("reattach_timeout", given["reattach_timeout"])
        if "on_daemon_loss" in given:
            asked.on_loss = choice("on_daemon_loss", given["on_daemon_loss"], ("embedded", "raise"))


def checked_tuple(names: Any, fields: list[str]) -> tuple[str, ...] | None:
    if names is None:
        return None
    listed = not isinstance(names, str) and isinstance(names, Iterable)
    names = tuple(names) if listed else names
    if not listed or any(name not in fields for name in names):
        raise invalid("Loader: as_tuple", names, f"a sequence of the pipeline's outputs {tuple(fields)}")
    return tuple(names)


def _restored_start(state: Any, epochs: int | None) -> Place:
    """Where the job starts, so that a restored one prefetches what is needed; checked later, on load."""
    if isinstance(state, dict):
        epoch, position = state.get("epoch"), state.get("position")
        exists = isinstance(epoch, int) and epoch >= 0 and (epochs is None or epoch < epochs)
        if exists and isinstance(position, int) and position >= 0:
            return Place(int(epoch or 0), int(position or 0))
    return Place(0, 0)
