"""Commands of carya, run as a user runs them, and what they leave.

A command is a process of its own, forked from one that has imported what commands need: the start of Python and its
imports would cost more than most commands do. Starts from nothing are tested by test_cli.py.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

# Beyond what the command line imports in any case. None of these starts a thread.
MODULES = (
    *("typer", "rich.console", "rich.table", "rich.progress", "numpy", "PIL.Image"),
    *("carya", "carya._cli.main", "carya._cli.converting", "carya._cli.inspecting", "carya._cli.cache"),
)
MESSAGE_MAX = 200_000
Link = socket.socket


def run(command: str, *words: str | Path, code: int = 0, **environment: str) -> str:
    """What `carya COMMAND WORDS` prints; of one that is to fail, what it says on stderr."""
    done = ended(command, *words, **environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def ended(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line `carya WORDS` when it has ended, with these variables beside those that the test has."""
    command = ["carya", *map(str, words)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        link = _template()
        message = json.dumps([command, os.getcwd(), {**os.environ, **environment}]).encode()
        assert len(message) < MESSAGE_MAX
        socket.send_fds(link, [message], [out.fileno(), error.fileno()])
        status = int(link.recv(64) or b"255")
        return subprocess.CompletedProcess(command, status, _text(out.fileno()), _text(error.fileno()))


def _text(fd: int) -> str:
    return os.pread(fd, os.fstat(fd).st_size, 0).decode().replace("\r\n", "\n")


_templates: dict[int, Link] = {}  # by the process that uses it: a fork of the tests' process has none


def _template() -> Link:
    if os.getpid() not in _templates:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            words = [sys.executable, __file__, str(its.fileno())]
            process = subprocess.Popen(words, pass_fds=[its.fileno()], stdout=subprocess.DEVNULL)
        _templates[os.getpid()] = mine
        atexit.register(_end, os.getpid(), process)
    return _templates[os.getpid()]


def _end(owner: int, process: subprocess.Popen[bytes]) -> None:
    if owner == os.getpid():
        _templates.pop(owner).close()
        process.wait()


def _serve(link: Link) -> None:
    """Fork a process for each command line, and say its status. Returns in that process, and never in this one."""
    for name in MODULES:
        with contextlib.suppress(ImportError):  # where typer is not installed, the command says so
            __import__(name)
    while True:
        message, fds, _, _ = socket.recv_fds(link, MESSAGE_MAX, 2)
        if not message:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            command, folder, environment = json.loads(message)
            link.close()
            for fd, place in zip(fds, (1, 2), strict=True):
                os.dup2(fd, place)
                os.close(fd)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv[:] = command
            return
        for fd in fds:
            os.close(fd)
        link.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a conversion, without its journal."""
    from carya._convert.journal import NAME

    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != NAME}


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    del sys.path[0]  # this folder, where Python found this file
    runpy.run_module("carya", run_name="__main__", alter_sys=True)
