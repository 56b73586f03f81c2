"""Native operations before the functions, made by a process of native threads ahead of the workers: the host's end of it.

The process reads by io_uring, decodes with indexes, plans the order of operations and may use remote workers, as any native
stream. Its steps are the steps of this stream, and it lends each one to the workers as long as they make rows of it. What it
cannot make, the workers make by themselves, with the same bits: a broken record, all records when the process has ended.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._dtypes import numpy_dtype
from .._processes.transport import Channel, Packed
from .._stages.source import row_of
from .code import dumps_result
from .start import command

if TYPE_CHECKING:
    from .._orders.draws import Draws
    from .._orders.repeated import Repeats

Tensors = tuple[tuple[str, str, tuple[int, ...], int], ...]


@dataclass(frozen=True)
class AheadSpec:
    """What the process makes: a native pipeline with its batch. `job`: attributes of JobOptions; `remote`: of RemoteOptions."""

    document: str
    fingerprint: str  # of the dataset that this stream's trainer has opened
    job: dict[str, Any]
    remote: dict[str, Any] | None


class Feeder:
    """The process, as its host knows it. No error leaves it: `why` says why it makes nothing any more."""

    def __init__(
        self,
        spec: AheadSpec,
        arrays: tuple[tuple[Any, ...], int],
        order: tuple[np.ndarray[Any, Any] | None, Draws | Repeats | None],
        told: Callable[[tuple[Any, ...], int], None],
        ready: Callable[[int, int, int, int], None],
    ) -> None:
        """`order`: the records that the stream goes through, None for all, and how they are drawn of those. `told`: tells every worker something. `ready`: session, epoch, first position behind the step, and slot of what was made."""
        self._told, self._ready = told, ready
        self.why = ""
        self.stats: dict[str, Any] = {}
        mine, its = Channel.pair()
        try:
            self._process = subprocess.Popen(
                command("feed", its.fileno(), os.getpid()), pass_fds=[its.fileno()], stdin=subprocess.DEVNULL
            )
        finally:
            its.close()
        self.link = Channel(mine)
        packed = Packed(order, dumps_result)
        fd = packed.to_file("order")
        self._say(("open", spec, arrays[0], (packed.text, packed.places)), [arrays[1], fd])
        os.close(fd)

    @property
    def figures(self) -> dict[str, Any]:
        """Its process, and `stats()` of its stream."""
        return {"pid": self._process.pid, "stats": self.stats}

    def close_in_child(self) -> None:
        """A forked worker has nothing to do with it."""
        self.link.close()

    def _say(self, message: tuple[Any, ...], fds: list[int] | None = None) -> None:
        with contextlib.suppress(OSError):  # it is gone, which its link says
            self.link.send(message, fds or [])

    def seek(self, session: int, epoch: int, position: int) -> None:
        self._say(("seek", session, epoch, position))

    def free(self, slots: list[int]) -> None:
        """Nobody reads these any more."""
        self._say(("free", slots))

    def hear(self) -> bool:
        """Take one message; False when the process makes nothing any more."""
        got = self.link.receive()
        if got is None:
            self.end("its process has ended")
            return False
        (kind, *rest), fds = got
        if kind == "failed":
            self.end(rest[0])
            return False
        if kind == "opened":
            for number, fd in enumerate(fds):
                self._told(("ahead_is", number, *rest), fd)
        elif kind == "figures":
            self.stats = rest[0]
        else:
            self._ready(*rest)
        return True

    def end(self, why: str) -> None:
        """End it. Workers keep what they have mapped."""
        self.why = why
        self._process.kill()
        self._process.wait()


class AheadRows:
    """What native threads have made, as a worker reads it. Threads: one."""

    def __init__(self) -> None:
        self._slots: dict[int, tuple[Any, Any, list[tuple[str, np.ndarray[Any, Any]]]]] = {}

    def slot_is(self, number: int, tensors: Tensors, rows: int, memory: Any) -> None:
        """Slot `number` lies in `memory`."""
        views = [
            (name, np.ndarray((rows, *shape), numpy_dtype(dtype), memory, at)) for name, dtype, shape, at in tensors
        ]
        *fields, (_, records), (_, valid) = views
        self._slots[number] = (records, valid, fields)

    def sample(self, slot: int, row: int, record: int) -> dict[str, np.ndarray[Any, Any]] | None:
        """A copy of the row, if it is this record's and no broken one's."""
        records, valid, fields = self._slots[slot]
        if records[row] != record or not valid[row]:
            return None
        return {name: row_of(data, row).copy() for name, data in fields}
