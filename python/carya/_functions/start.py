"""How hosts and workers are started: a clean interpreter, with the trainer's paths, flags and environment."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from .._errors import Unsupported
from .processes import environment
from .transport import Channel

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


def channel_of(fd: int) -> Channel:
    """The end that a process was started with."""
    return Channel(socket.socket(fileno=fd))
