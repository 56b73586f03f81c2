"""The exceptions of the native module under their public names, and the one way Python raises them."""

from __future__ import annotations

from ._core import (
    Closed,
    Error,
    Exhausted,
    ForkedError,
    InvalidArgument,
    IoError,
    NotFound,
    Permission,
    SampleError,
    Timeout,
    Unsupported,
)

__all__ = [
    "Closed",
    "Error",
    "Exhausted",
    "ForkedError",
    "InvalidArgument",
    "IoError",
    "NotFound",
    "Permission",
    "SampleError",
    "Timeout",
    "Unsupported",
    "WorkerDied",
    "invalid",
]


class WorkerDied(Error):
    """The process that ran a Python function ended, and so did another one on the same record (`record`).

    Where a SIGKILL ended it, which anybody may have sent, three others did so.
    """

    code = "worker_died"
    record: int = -1


def invalid(subject: str, given: object, allowed: str) -> InvalidArgument:
    """An InvalidArgument that names its subject, what was given and what is allowed.

    >>> str(invalid("shuffle: seed", -1, "an integer of 0 or more"))
    'shuffle: seed: got -1; give an integer of 0 or more'
    """
    shown = repr(given)
    if len(shown) > 200:
        shown = shown[:200] + "..."
    return InvalidArgument(f"{subject}: got {shown}; give {allowed}")
