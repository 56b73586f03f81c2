"""`carya trace`: of a pipeline, a script, or a daemon that serves others."""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from collections.abc import Sequence
from typing import Literal

from .. import _core
from .._errors import InvalidArgument
from .._loading.loader import Loader
from .._pipeline.pipeline import Pipeline
from .._tracing.recording import Trace, write_trace


def trace_pipeline(
    pipeline: Pipeline, path: str, *, steps: int, threads: int | Literal["auto"], chrome: bool, events: int
) -> None:
    """Iterate at most so many steps of one epoch. Errors: those of the stream; the file is written also then."""
    measuring = {"trains": False}
    with (
        Trace(path, chrome=chrome, events=events),  # before the loader, so that its first batches are in it
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
        with Trace(path, chrome=chrome, events=events):
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[0] = before


def trace_daemon(socket: str, job: str, path: str, *, seconds: float, chrome: bool, events: int) -> None:
    """Record for so many seconds what the daemon's streams do, or those of one job. Errors: NotFound, Unsupported."""
    session = _core.daemon_trace_start(socket, min(events, 1 << 14))
    try:
        time.sleep(seconds)
    finally:  # also after Ctrl-C, which ends the wait early
        write_trace(path, _core.daemon_trace_stop(socket, session, job), chrome)


def check_output(path: str | None, chrome: bool) -> str:
    """The file that is written. Errors: InvalidArgument."""
    if path == "":
        raise InvalidArgument('trace: --output: got ""; give the name of a file')
    return path or ("carya-trace.json" if chrome else "carya.pftrace")


def say(path: str, as_json: bool) -> None:
    """Say where the file is, if it was written."""
    if not os.path.isfile(path):
        return
    size = os.path.getsize(path)
    if as_json:
        print(json.dumps({"file": path, "bytes": size}))
    else:
        print(f"{path}: {size:,} bytes; open it in https://ui.perfetto.dev")
