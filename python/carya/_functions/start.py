"""How hosts and workers are started: a clean interpreter, with the trainer's paths, flags and environment."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
import traceback

from .._errors import Unsupported
from .._processes.system import end_with_parent, environment
from .._processes.transport import Channel
from .._stages.randomness import prepare_global_random

_TOLD_MAX = 8 << 10  # bytes of a traceback
_CODE = "import sys; sys.path[:] = {path!r}; from carya._functions.{module} import main; main({arguments})"


_marks: set[str] = set()


def mark_host() -> None:
    """Say that this process is a host or a worker."""
    _marks.add("host")


def in_host() -> bool:
    return bool(_marks)


def command(module: str, *arguments: int) -> list[str]:
    """The command line of a process that runs `main` of a module of this room."""
    if not sys.executable:
        raise Unsupported("functions: this Python does not know its own program; start it by python, not embedded")
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = _CODE.format(path=sys.path, module=module, arguments=", ".join(map(str, arguments)))
    return [sys.executable, *flags, "-c", code]


def start_host(dump: int) -> tuple[subprocess.Popen[bytes], Channel]:
    """A host that waits for its first message, in a session of its own, so that no Ctrl-C of a terminal reaches it."""
    mine, its = Channel.pair()
    try:
        process = subprocess.Popen(
            command("host", its.fileno(), dump, os.getpid()),
            pass_fds=[its.fileno(), dump],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment(),
        )
    except BaseException:
        mine.close()
        raise
    finally:
        its.close()
    return process, Channel(mine)


def start_worker(its: socket.socket, dump: int, cells: int, number: int, env: dict[str, str] | None = None) -> int:
    """A worker by exec, in place `number` of the cells: its process, which the caller waits for."""
    fds = [its.fileno(), dump, cells]
    process = subprocess.Popen(
        command("start", *fds, number, os.getpid()), pass_fds=fds, stdin=subprocess.DEVNULL, env=env
    )
    process.returncode = 0
    return process.pid


def channel_of(fd: int) -> Channel:
    """The end that a process was started with."""
    return Channel(socket.socket(fileno=fd))


def main(link: int, dump: int, cells: int, number: int, host: int) -> None:
    """A worker that was started by exec, since its host could not be forked: in place `number`, until its host closes the link."""
    from . import worker  # here, since both need this module
    from .opening import open_payload

    end_with_parent(host)
    for fd in (link, dump, cells):
        os.set_inheritable(fd, False)
    prepare_global_random()
    channel = channel_of(link)
    got = channel.receive()
    if got is None:
        return
    try:
        opened = open_payload(*got, dump)
    except BaseException:
        os.pwrite(dump, traceback.format_exc().encode()[-_TOLD_MAX:], 0)
        raise
    size = 8 * worker.CELLS
    mapped = mmap.mmap(cells, os.fstat(cells).st_size)
    own = memoryview(mapped)[number * size : (number + 1) * size].cast("q")
    spec = opened.spec if opened.source is not None else opened.again()
    worker.serve(channel, spec, opened.source or spec.open(), own, dump, number)
    sys.stdout.flush()
