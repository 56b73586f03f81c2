"""Moving batches to a device without ever letting a slot be rewritten under a copy (DESIGN section 5, Devices).

Two ways, one rule: a lease goes back to the ring only when the last view is gone AND what the device was told to do
with the slot is done.

* `device=`: the loader copies on its own stream and keeps the batch until the event behind the copy is done.
* `pin_memory=`: the trainer copies by itself. When the last view of a batch is gone its lease is "retired"; an event is
  recorded then on the trainer's current stream (and on those named by `batch.record_stream`), and the lease goes back
  when all of them are done.

Events are polled when the next batch is asked for; nothing here ever blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from .. import _core


class Event(Protocol):
    """Something a device will have passed one day."""

    def query(self) -> bool:
        """True when all work before the event is done. Never blocks."""
        ...


class Backend(Protocol):
    """What a kind of device must offer. Called by the trainer's thread only. One that has a `node: int` says on which NUMA node
    the device is; -1: nobody knows."""

    def copy(self, tensors: Sequence[Any]) -> tuple[list[Any], Event]:
        """Start copies on the loader's own stream; tensors on the device, and the event behind them."""
        ...

    def make_visible(self, tensors: Sequence[Any], event: Event) -> None:
        """Let the current stream wait for `event` before it uses `tensors`. Does not block the host."""
        ...

    def record(self, stream: Any | None) -> Event:
        """An event at this moment on `stream`, None for the current one."""
        ...

    def pin(self, tensors: Sequence[Any]) -> str:
        """Register the slot that holds these host tensors as pinned memory, once. "" or why it cannot be."""
        ...

    def close(self) -> None:
        """Wait for what is under way and unregister what was pinned."""
        ...


def node_of_pci(domain: int, bus: int, device: int, folder: str = "/sys/bus/pci/devices") -> int:
    """The NUMA node of a PCI device; -1 where the kernel does not say, or has one node only.

    >>> node_of_pci(0xFFFF, 0xFF, 0x1F)
    -1
    """
    try:
        with open(f"{folder}/{domain:04x}:{bus:02x}:{device:02x}.0/numa_node") as file:
            return max(-1, int(file.read()))
    except (OSError, ValueError):
        return -1


class RetiredLeases:
    """Leases that wait for events. Threads: the trainer's thread only."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._streams: list[Any] = []
        self._waiting: deque[tuple[list[Event], _core.Retired]] = deque()

    def add_stream(self, stream: Any) -> None:
        """From now on an event is recorded on this stream too. All streams count for all leases: more than needed,
        never less."""
        if stream not in self._streams:
            self._streams.append(stream)

    def poll(self, retired: Sequence[_core.Retired]) -> int:
        """Record events for newly retired leases, give back those whose events are done; how many still wait."""
        if retired:
            events = [self._backend.record(None), *(self._backend.record(stream) for stream in self._streams)]
            self._waiting.extend((events, lease) for lease in retired)
        still: deque[tuple[list[Event], _core.Retired]] = deque()
        for events, lease in self._waiting:
            if all(event.query() for event in events):
                lease.release()
            else:
                still.append((events, lease))
        self._waiting = still
        return len(still)


class CopiesUnderWay:
    """Batches whose copy to the device may still read the slot. Threads: the trainer's thread only."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Event, _core.Batch]] = deque()

    def add(self, event: Event, core: _core.Batch) -> None:
        self._waiting.append((event, core))

    def poll(self) -> int:
        """Let go of batches whose copy is done; copies of one stream end in order. How many still wait."""
        while self._waiting and self._waiting[0][0].query():
            self._waiting.popleft()
        return len(self._waiting)
