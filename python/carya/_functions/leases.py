"""Slots in the trainer: shared memory that its arrays are views of, given back when the last of them is gone."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._processes.transport import Channel, mapped_private, memory_file, unpacked
from .layout import Layout, SlotViews

Array = np.ndarray[Any, Any]


class Ring:
    """`slots` slots of a layout in one memory file.

    `give_back(slot)` is called, from whatever thread drops the last view, when a slot is nobody's any more. With
    `defer_release` its lease is kept in `retired` for whoever knows when a device has read it.
    Errors: Exhausted, when there is not so much shared memory.
    """

    def __init__(self, layout: Layout, slots: int, give_back: Callable[[int], None], defer_release: bool) -> None:
        self.layout, self.slots = layout, slots
        self.fd = memory_file("slots", layout.size * slots)
        self._memory = mmap.mmap(self.fd, layout.size * slots)
        # For good: the mapping lives as long as the ring, which every lease keeps.
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._give_back = give_back
        self._pid = os.getpid()
        self._defers = defer_release
        self.retired: deque[Retired] = deque()
        self._held: set[int] = set()  # changed by single calls: by any thread
        self.open = True

    @property
    def held(self) -> int:
        """Slots in the trainer's hands."""
        return len(self._held)

    def lease(self, slot: int) -> _Lease:
        self._held.add(slot)
        return _Lease(self, slot, self._address + slot * self.layout.size)

    def ended(self, slot: int) -> None:
        """The last view of a slot is gone."""
        if os.getpid() != self._pid:  # a forked child's copies of the views
            return
        if self._defers and self.open:
            self.retired.append(Retired(self, slot))
        else:
            self.release(slot)

    def release(self, slot: int) -> None:
        self._held.discard(slot)
        if self.open:
            self._give_back(slot)

    def close(self) -> None:
        """No slot is written any more: leases that end tell nobody."""
        self.open = False
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class GiveBack:
    """Tells the host that slots are free, from whatever thread, and never waits.

    Not of each one, since every message wakes a process: of several, or when the trainer is about to wait.
    """

    def __init__(self, link: Channel, several: int) -> None:
        self._link, self._several = link, several
        self._untold: deque[int] = deque()

    def __call__(self, slot: int) -> None:
        self._untold.append(slot)
        if len(self._untold) >= self._several:
            self.tell()

    def tell(self) -> None:
        """Say what has not been said."""
        untold, slots = self._untold, []
        with contextlib.suppress(IndexError):  # two threads may take from it
            while untold:
                slots.append(untold.popleft())
        if not slots:
            return
        try:
            self._link.send(("free", slots), wait=False)
        except BlockingIOError:
            untold.extend(slots)
        except OSError:
            pass  # the host is gone


class Retired:
    """A lease whose last view is gone, not yet given back."""

    __slots__ = ("_ring", "_slot")

    def __init__(self, ring: Ring, slot: int) -> None:
        self._ring, self._slot = ring, slot

    def release(self) -> None:
        self._ring.release(self._slot)


class _Lease:
    """The base of all arrays of a batch: numpy keeps it as long as any view of them lives."""

    __slots__ = ("__array_interface__", "__weakref__", "_ring", "_slot")

    def __init__(self, ring: Ring, slot: int, address: int) -> None:
        self._ring, self._slot = ring, slot
        shape = (ring.layout.size,)
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        # With no name of this module: while the interpreter ends, it may be empty.
        try:  # noqa: SIM105
            self._ring.ended(self._slot)
        except Exception:
            pass


class SlotBatch:
    """One batch: as `_core.Batch`, with objects too, or with what a function of whole batches made (`value`)."""

    __slots__ = ("_bytes", "_fields", "_layout", "_views", "place", "rows", "value")

    def __init__(
        self,
        ring: Ring,
        slot: int,
        place: tuple[int, int, int],
        rows: int,
        parts: Sequence[tuple[Any, Sequence[tuple[int, int]], int]],
        whole: bool,
    ) -> None:
        """`parts`: the `text` of what was packed, where its buffers lie, and the memory file that has them (-1: the slot's arena)."""
        self.place, self.rows = place, rows
        self._bytes: Array = np.asarray(ring.lease(slot))
        self._layout = layout = ring.layout
        self._views: SlotViews | None = None
        self.value: Any = None
        self._fields: dict[str, Any]
        if whole:
            ((text, places, fd),) = parts
            memory: Any = self._bytes if fd < 0 else mapped_private(fd)
            self.value = unpacked(text, places, memory, layout.arena_at if fd < 0 else 0)
            self._fields = dict(self.value) if isinstance(self.value, Mapping) else {}
            return
        self._fields = {name: view[:rows] for name, view in self._own().fields.items()}
        if layout.objects:
            columns: dict[str, list[Any]] = {name: [] for name in layout.objects}
            for text, places, fd in parts:
                made, at = unpacked(text, places, mapped_private(fd))
                for name, listed in made.items():
                    if at is None:
                        columns[name] += listed
                        continue
                    columns[name] = columns[name] or [None] * rows
                    for row, value in zip(at, listed, strict=True):
                        columns[name][row] = value
            self._fields |= columns
            self._fields = {field.name: self._fields[field.name] for field in layout.fields}

    def _own(self) -> SlotViews:
        """Made when they are asked for, which those of a batch that a function made as a whole seldom are."""
        if self._views is None:
            self._views = self._layout.views(self._bytes, 0)
        return self._views

    @property
    def step(self) -> int:
        return self.place[0]

    @property
    def epoch(self) -> int:
        return self.place[1]

    @property
    def position(self) -> int:
        return self.place[2]

    @property
    def records(self) -> Array:
        return self._own().records[: self.rows]

    @property
    def valid(self) -> Array:
        return self._own().valid[: self.rows]

    def names(self) -> list[str]:
        return list(self._fields)

    def numpy(self, name: str) -> Any:
        return self._fields[name]

    def arrays(self) -> tuple[Any, ...]:
        """Of all fields; a field of objects is a list."""
        return tuple(self._fields.values())

    def dlpack(self, name: str) -> Any:
        return self._fields[name].__dlpack__()

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)
