"""`carya trace`: of a pipeline, a script, or a daemon that serves others."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import runpy
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Literal

from .. import _core
from .._errors import Exhausted, InvalidArgument, IoError, NotFound, Permission
from .._loading.loader import Loader
from .._pipeline.pipeline import Pipeline
from .._tracing.recording import Trace, write_trace


class _Told(Trace):
    """Whose file that cannot be written is one line for who gave the command. Errors: Exhausted, IoError."""

    def stop(self) -> None:
        with _errors_of(self._path):
            super().stop()


def trace_pipeline(
    pipeline: Pipeline, path: str, *, steps: int, threads: int | Literal["auto"], chrome: bool, events: int
) -> None:
    """Iterate at most so many steps of one epoch. Errors: those of the stream; the file is written also then."""
    measuring = {"trains": False}
    with (
        _Told(path, chrome=chrome, events=events),  # before the loader, so that its first batches are in it
        Loader._create(pipeline, measuring=measuring, threads=threads, epochs=1, daemon="embedded") as loader,
    ):
        for step, _ in enumerate(loader, 1):
            if step == steps:
                break


def trace_script(script: str, arguments: Sequence[str], path: str, *, chrome: bool, events: int) -> None:
    """Run the script as `python script arguments` does, traced to its end. Errors: the script's own; the file is written also
    then."""
    before = sys.argv, sys.path[0]
    sys.argv = [script, *arguments]
    sys.path[0] = script.rpartition("/")[0] or "."
    try:
        with _Told(path, chrome=chrome, events=events):
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[0] = before


def trace_daemon(socket: str, job: str, path: str, *, seconds: float, chrome: bool, events: int) -> None:
    """Record for so many seconds what the daemon's streams do, or those of one job. Errors: NotFound, Unsupported."""
    session = _core.daemon_trace_start(socket, min(events, 1 << 14))
    try:
        time.sleep(seconds)
    finally:  # also after Ctrl-C, which ends the wait early
        found = _core.daemon_trace_stop(socket, session, job)
        with _errors_of(path):
            write_trace(path, found, chrome)


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise Exhausted(f"trace: {path}: {error.strerror}; make room there, or name another file by -o") from None
        raise IoError(f"trace: {path}: {error.strerror}; name another file by -o") from None


def check_output(path: str | None, chrome: bool) -> str:
    """The file that is written, tried before anything is recorded. Errors: InvalidArgument, NotFound, Permission."""
    if path == "":
        raise InvalidArgument('trace: --output: got ""; give the name of a file')
    path = path or ("carya-trace.json" if chrome else "carya.pftrace")
    if os.path.isdir(path):
        raise InvalidArgument(f"trace: --output: {path} is a folder; give the name of a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise NotFound(f"trace: --output {path}: there is no folder {folder}; make it, or name another file by -o")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Permission(f"trace: --output {path}: this user may not write into {folder}; name another file by -o")
    return path


def written(path: str) -> tuple[int, int] | None:
    """What tells the file from one that is written in its place later; None: there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def say(path: str, before: tuple[int, int] | None, as_json: bool) -> None:
    """Say where the file is, if it was written since `before`, which `written` gave."""
    if written(path) in (None, before):
        return
    size = os.path.getsize(path)
    if as_json:
        print(json.dumps({"file": path, "bytes": size}))
    else:
        print(f"{path}: {size:,} bytes; open it in https://ui.perfetto.dev")
