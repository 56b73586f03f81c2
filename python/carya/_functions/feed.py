"""The process whose native threads make what stands before the functions, ahead of the workers (`ahead.py`)."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from typing import Any

from .. import _core
from .._orders.chosen import with_records
from .._processes.system import end_with_parent
from .._processes.transport import Channel, mapped_private, unpacked
from .ahead import AheadSpec
from .start import channel_of

# How long it waits for a batch before it looks whether another place is wanted.
_SLICE_S = 0.05
# Its host is told of figures not more often.
_FIGURES_S = 0.25


def main(control: int, host: int) -> None:
    """Until the host closes its end or is gone."""
    end_with_parent(host)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(control, False)
    link = channel_of(control)
    try:
        got = link.receive()
        if got is not None:
            _serve(link, *got)
    except ConnectionError:
        pass  # the host is gone
    finally:
        os._exit(0)  # the host ends it by SIGKILL anyway: nothing is left to be saved


def _serve(link: Channel, message: tuple[Any, ...], fds: list[int]) -> None:
    _, spec, *parts = message
    try:
        arrays, order = (
            unpacked(text, places, mapped_private(fd).toreadonly())
            for (text, places), fd in zip(parts, fds, strict=True)
        )
        job = _open(spec, arrays, order)
        feed = _Feed(link, job)
    except Exception as error:  # the workers make everything, and raise what there is to be raised
        link.send(("failed", f"{type(error).__name__}: {error}"))
        link.receive()
        return
    feed.run()


def _open(spec: AheadSpec, arrays: Any, order: Any) -> _core.Job:
    options = _core.JobOptions()
    for name, value in spec.job.items():
        setattr(options, name, value)
    if spec.remote is not None:
        options.remote = _core.RemoteOptions()
        for name, value in spec.remote.items():
            setattr(options.remote, name, value)
    document, numbers = with_records(spec.document, *order)
    pipeline = _core.Pipeline.parse(document)
    memory = {**(arrays or {}), **numbers} or None
    dataset = _core.Dataset.open(
        pipeline, arrays=memory, cache_dir=options.cache_dir, verify=False, threads=0, progress=None
    )
    if dataset.fingerprint != spec.fingerprint:
        raise RuntimeError("the data are not what they were when the loader was made")
    return _core.Job(pipeline, dataset, options)


class _Feed:
    """Threads: one receives, one waits for batches."""

    def __init__(self, link: Channel, job: _core.Job) -> None:
        self._link, self._job = link, job
        self._held: dict[int, _core.Batch] = {}  # lent to the workers
        self._seeks: queue.SimpleQueue[tuple[int, int, int]] = queue.SimpleQueue()  # session, epoch, position
        files = job.slot_files()
        self._link.send(("opened", tuple(files["tensors"]), files["rows"], files["bytes"]), files["descriptors"])

    def run(self) -> None:
        """Serve until the host wants no more."""
        threading.Thread(target=self._deliver, name="carya-feed", daemon=True).start()
        while (got := self._link.receive()) is not None:
            kind, *rest = got[0]
            if kind == "seek":
                self._seeks.put((rest[0], rest[1], rest[2]))
            else:
                for slot in rest[0]:
                    del self._held[slot]

    def _deliver(self) -> None:
        told_at, told = 0.0, True  # when the host was told of figures, and whether it knows of the last batch
        session = None
        try:
            while True:
                while session is None or not self._seeks.empty():
                    session, *place = self._seeks.get()
                    self._job.seek(*place)
                batch = self._job.next(_SLICE_S)
                if batch is not None:
                    self._held[batch.slot] = batch
                    self._link.send(("ready", session, batch.epoch, batch.position, batch.slot))
                    told = False
                if not told and (now := time.monotonic()) - told_at >= _FIGURES_S:
                    told_at, told = now, True
                    self._link.send(("figures", self._job.stats() | {"placement": self._job.placement()}))
        except ConnectionError:
            pass  # the host is gone
        except Exception as error:
            self._link.send(("failed", f"{type(error).__name__}: {error}"))
