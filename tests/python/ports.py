"""Ports for the servers of tests."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket

_NUMBERS = itertools.count(random.SystemRandom().randrange(12_000))


def free_port() -> int:
    """A port at which nobody listens, below those of outgoing connections: one of them could take it before a server does."""
    for number in _NUMBERS:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", 20_000 + number % 12_000))
            return int(probe.getsockname()[1])
    raise AssertionError("the numbers do not end")
