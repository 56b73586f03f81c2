"""The native job behind a loader: of a daemon or of this process, and its end."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

from .. import _core
from .._errors import Closed, Error, InvalidArgument, NotFound, Permission, Timeout, Unsupported
from .._options import choice, seconds
from .._pipeline.dataset import cache_dir, chosen_cache_dir
from .._pipeline.pipeline import Pipeline
from .daemon import blind, check_job_name, checked_replica, find_daemon, job_name

_log = logging.getLogger("carya")
_said_what_reads = False


def start_job(
    pipeline: Pipeline,
    order: list[int],
    options: dict[str, Any],
    *,
    daemon: str,
    job: str | None,
    replica: int,
    replicas: int,
    reattach_timeout: float,
    on_daemon_loss: str,
) -> _core.Job:
    """A job of the daemon that `daemon` says, or of this process. `order`: of operations that give other bits."""
    replica, replicas = checked_replica(replica, replicas)
    check_job_name(job)
    reattach_s = seconds("reattach_timeout", reattach_timeout)
    goes_on = choice("on_daemon_loss", on_daemon_loss, ("embedded", "raise")) == "embedded"
    # A daemon runs no command for a loader: a fleet that this process starts is this process's.
    own_fleet = daemon == "auto" and bool((options.get("remote") or {}).get("fleet_command"))
    socket = "" if own_fleet else find_daemon(daemon)
    if replicas > 1 and not socket:
        raise InvalidArgument('Loader: replicas need a daemon that serves them all; give daemon="spawn"')
    if not socket:
        return _core.Job(pipeline.native, pipeline.open(), **options)
    fingerprint = pipeline.native.fingerprint(options["on_error"], order)
    asked = {
        "socket": socket,
        "job": job_name(job, options["world_size"], fingerprint),
        "replica": replica,
        "replicas": replicas,
        "reattach_timeout": reattach_s,
        "embedded": goes_on,
        "cache_dir": cache_dir(told=False) or chosen_cache_dir(),  # the daemon may, or a service's start makes it
    }
    return _attached(pipeline, asked, options, daemon == "auto" and replicas == 1)


def _attached(pipeline: Pipeline, asked: dict[str, Any], options: dict[str, Any], may_do_without: bool) -> _core.Job:
    """A job of the daemon; of this process where that may be and the daemon is of another version, ends, or is mute."""
    why: Error
    try:
        return pipeline.attach(asked, options)
    except (Unsupported, Closed, Timeout, NotFound, Permission) as error:
        if str(error).startswith(("control channel", "caryad", "daemon")):
            if not may_do_without or isinstance(error, Permission):
                raise
            why, dataset = error, pipeline.open()
        elif isinstance(error, NotFound | Permission):  # of the data
            try:
                dataset = pipeline.open()
            except Error:
                raise error from None  # it is so here too
            why = blind(error, asked["socket"])
            if not may_do_without:
                raise why from error
        else:
            raise
    warnings.warn(f"carya: works without the daemon: {why}", RuntimeWarning, stacklevel=5)
    return _core.Job(pipeline.native, dataset, **options)


def say_what_reads(engine: str) -> None:
    """Log, once per process, that io_uring was refused and reads cost more."""
    global _said_what_reads
    if engine.startswith("pread (") and not _said_what_reads:
        _said_what_reads = True
        cure = "`carya doctor` says how to allow io_uring"
        if "EMFILE" in engine:
            cure = "this process has no file descriptor left for io_uring: raise its limit of open files (ulimit -n)"
        elif "ENOMEM" in engine:
            cure = "io_uring got no memory: raise the limit of locked memory (ulimit -l)"
        _log.warning("reads go through %s, which costs more CPU; %s", engine, cure)


def close_job(job: _core.Job, pid: int, drain: Callable[[], None] | None) -> None:
    # A forked child inherits the finalizer but not the engine's threads: it must not touch them.
    if os.getpid() != pid:
        return
    if drain is not None:
        drain()
    job.close()
