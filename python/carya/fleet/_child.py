"""A fleet's child process: lines of JSON on standard input and output, as remote/fleet/child_fleet.h says."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

_TICK_S = 0.5

Log = Callable[[str], None]


class Fleet(Protocol):
    """What a child runs. Threads: all calls come from one thread."""

    most: int  # how many workers there can be

    def want(self, count: int) -> None:
        """So many workers are wanted from now on, 0 to `most`."""

    def look(self) -> None:
        """Called twice a second: hear what has happened, do what is due. Never waits for long."""

    def members(self) -> list[str]:
        """Addresses of the workers that are there, the ones to be used first in front."""

    def close(self) -> None:
        """End the workers that only this fleet wanted, within some seconds."""


class Lines:
    """Whole lines of a descriptor, without ever waiting for the rest of one."""

    def __init__(self, source: BinaryIO) -> None:
        self._fd = source.fileno()
        self._rest = b""

    def wait(self, seconds: float) -> list[str] | None:
        """Those that came; None: the end."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return []
        data = os.read(self._fd, 65_536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode() for line in lines] if data or lines else None


def serve(open_fleet: Callable[[dict[str, Any], str, Log], Fleet]) -> None:
    """Serve until "stop", the end of input, or SIGTERM. `open_fleet` gets the options, the fleet's name and the log."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no line of the protocol
    saying = threading.Lock()

    def say(event: str, **fields: Any) -> None:
        with saying, contextlib.suppress(BrokenPipeError):  # the end of input follows
            out.write(json.dumps({"event": event, **fields}) + "\n")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    lines = Lines(sys.stdin.buffer)
    fleet: Fleet | None = None
    told: list[str] | None = None
    try:
        while (came := lines.wait(_TICK_S)) is not None:
            asked = False
            for line in came:
                command = json.loads(line)
                if command["command"] == "start":
                    fleet = open_fleet(command["options"], command.get("fleet", ""), lambda text: say("log", text=text))
                    say("ready", most=fleet.most)
                elif command["command"] == "scale" and fleet:
                    fleet.want(max(0, min(command["count"], fleet.most)))
                elif command["command"] == "stop":
                    return
                asked = asked or command["command"] == "members"
            if fleet:
                fleet.look()
                if asked or fleet.members() != told:
                    told = fleet.members()
                    say("members", members=told)
    finally:
        if fleet:
            fleet.close()
