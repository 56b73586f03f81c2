"""The child process of a fleet as its host speaks to it, and whether a carya-worker listens where it says."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chunk_client import Host

from carya import _core, fleet

FACTS = [{"name": "chunks", "value": "2"}, *({"name": "codec", "value": one} for one in _core.doctor()["codecs"])]


class Child:
    """`python -m carya.fleet.NAME` as the host speaks to it."""

    def __init__(self, made: fleet.ChildFleet) -> None:
        self.process = subprocess.Popen(made.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.say(command="start", options=json.loads(made.options), fleet=secrets.token_hex(8))
        self.seen: list[dict[str, Any]] = []

    def say(self, **line: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def hear(self, event: str) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            self.seen.append(json.loads(line))
            if self.seen[-1]["event"] == event:
                return self.seen[-1]
        raise AssertionError(f"it ended: {self.seen}")

    def members(self, are: Callable[[list[str]], bool]) -> list[str]:
        """Those that there are once this holds."""
        while True:
            self.say(command="members")
            found: list[str] = self.hear("members")["members"]
            if are(found):
                return found
            time.sleep(0.02)


@contextmanager
def child(made: fleet.ChildFleet) -> Iterator[Child]:
    started = Child(made)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def greeted(member: str) -> bool:
    """A real carya-worker listens there."""
    host, port = member.rsplit(":", 1)
    with Host((host, int(port))) as client:
        return client.hello(facts=FACTS)[0] == "Welcome"


def listens(member: str) -> bool:
    try:
        return greeted(member)
    except OSError:
        return False
