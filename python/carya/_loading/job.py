"""The native job behind a loader: of a daemon or of this process, and its end."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from typing import Protocol

from .. import _core
from .._errors import Closed, Error, InvalidArgument, IoError, NotFound, Permission, Timeout, Unsupported
from .._pipeline.dataset import cache_dir, chosen_cache_dir
from .daemon import blind, find_daemon, job_name
from .loader_options import LoaderOptions

_log = logging.getLogger("carya")
_said_what_reads = False


class Startable(Protocol):
    """What a native job is made of: a `Pipeline`, or what is like one."""

    @property
    def native(self) -> _core.Pipeline: ...

    def open(self) -> _core.Dataset: ...

    def attach(self, daemon: _core.DaemonOptions, options: _core.JobOptions, defer_release: bool) -> _core.Job: ...


def start_job(pipeline: Startable, options: LoaderOptions, defer_release: bool, depth: int = 5) -> _core.Job:
    """A job of the daemon that the options say, or of this process. `depth`: so many calls below the user's line, which warnings name.

    Errors: those of either.
    """
    remote, asked = options.job.remote, options.asked
    # A daemon runs no command for a loader: a fleet that this process starts is this process's.
    own_fleet = remote is not None and bool(remote.fleet_command)
    here = options.daemon == "auto" and own_fleet
    asked.socket = "" if here else find_daemon(options.daemon)
    if asked.replicas > 1 and not asked.socket:
        raise InvalidArgument('Loader: replicas need a daemon that serves them all; give daemon="spawn"')
    if not asked.socket:
        return _core.Job(pipeline.native, pipeline.open(), options.job, defer_release=defer_release)
    fingerprint = pipeline.native.fingerprint(options.job.on_error, options.order)
    asked.job = job_name(options.name, options.job.world_size, fingerprint)
    asked.cache_dir = cache_dir(told=False) or chosen_cache_dir()  # the daemon may, or a service's start makes it
    return _attached(pipeline, options, defer_release, depth + 1)


def _attached(pipeline: Startable, options: LoaderOptions, defer_release: bool, depth: int) -> _core.Job:
    """A job of the daemon; of this process where that may be and the daemon is of another version, ends, or is mute."""
    may_do_without = options.daemon == "auto" and options.asked.replicas == 1
    why: Error
    try:
        return pipeline.attach(options.asked, options.job, defer_release)
    except (Unsupported, Closed, Timeout, NotFound, Permission, IoError) as error:
        if str(error).startswith(("control channel", "caryad", "daemon")):
            if not may_do_without or isinstance(error, Permission):
                raise
            why, dataset = error, pipeline.open()
        elif isinstance(error, NotFound | Permission | IoError):  # of the data
            try:
                dataset = pipeline.open()
            except Error:
                raise error from None  # it is so here too
            why = _own_ops(pipeline, options.asked.socket) or blind(error, options.asked.socket)
            if not may_do_without:
                raise why from error
        else:
            raise
    warnings.warn(f"carya: works without the daemon: {why}", RuntimeWarning, stacklevel=depth)
    return _core.Job(pipeline.native, dataset, options.job, defer_release=defer_release)


def _own_ops(pipeline: Startable, socket: str) -> NotFound | None:
    """Of a pipeline with operations of the user's own: what a daemon says no to."""
    import json

    names = {op["name"]: None for op in json.loads(pipeline.native.to_json())["ops"] if op["op"] == "user"}
    if not names:
        return None
    return NotFound(
        f"Loader: the daemon at {socket} loads no code of users, and the pipeline has operations of your own "
        f'({", ".join(names)}); give daemon="embedded"'
    )


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
