"""Another user of this host, in tests that run as root: a process with that user's rights that does as it is told.

Run as a program, it takes the rights and then runs what comes as lines of JSON: Python source, whose `result` it answers.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class Refused(Exception):
    """What a user's code raised, by its type and text."""


class User:
    """A process of that user, for a `with`."""

    def __init__(
        self, uid: int, groups: tuple[int, ...], socket: str, home: str, modules: tuple[str, ...] = ()
    ) -> None:
        """`modules`: paths of Python files that its code imports."""
        self.uid = uid
        environment = {"HOME": home, "CARYA_CACHE_DIR": f"{home}/cache", "CARYA_DAEMON_SOCKET": socket}
        self._task = {"uid": uid, "gid": uid, "groups": groups, "environment": environment, "modules": modules}
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, __file__, json.dumps(self._task)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def restart(self) -> None:
        self.kill()
        self._process = self._started()

    def ask(self, source: str, **given: Any) -> None:
        """Have it run, without its answer."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([source, given]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """That of what was asked first. Errors: Refused."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, f"the process of user {self.uid} has ended: {self._process.wait(60)}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def do(self, source: str, **given: Any) -> Any:
        """What the source sets `result` to. `given` are names in it, which stay. Errors: Refused."""
        self.ask(source, **given)
        return self.answer()


def _serve(task: dict[str, Any]) -> None:
    sys.path[:0] = [str(Path(__file__).parent), *(str(Path(path).parent) for path in task["modules"])]
    import encodings.idna  # noqa: F401 - of addresses
    import secrets  # noqa: F401 - of numpy.random

    import rich.console  # noqa: F401
    import streams

    import carya
    from carya import _core
    from carya._cli import daemon as commands

    # What is imported late lies where this user may not look.
    for path in task["modules"]:
        importlib.import_module(Path(path).stem)
    with carya.Loader(streams.numbers(4, batch_size=2), daemon="embedded") as loader:
        list(streams.records(loader))
    os.setgroups(task["groups"])
    os.setresgid(*(task["gid"],) * 3)
    os.setresuid(*(task["uid"],) * 3)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as for a program that this user started
    os.environ.update(task["environment"])
    names: dict[str, Any] = {"carya": carya, "_core": _core, "streams": streams, "json": json, "os": os, "time": time}
    names |= {"commands": commands, "signal": signal, "socket": socket, "subprocess": subprocess}
    for line in sys.stdin:
        source, given = json.loads(line)
        names.update(given)
        names.pop("result", None)
        try:
            exec(source, names)
            answer = {"result": names.get("result")}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
