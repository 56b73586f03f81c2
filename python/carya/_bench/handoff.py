"""From a slot that is ready to a batch of two tensors in Python's hands, 38.5 MB batches.

Ceiling: nothing is copied, so the size must not matter: p50 <= 10 us for numpy and torch, <= 1.2 x a bare
`device_put` of such batches' own arrays for jax, interleaved. Beside it, in the same run: memcpy of the batch, and
a Unix socket. The first call after a pause runs code and data that the producers' copies have put out of the caches.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .._pipeline.sources import arrays
from .measure import percentile
from .report import Options, Report

ROWS, SHAPE = 256, (224, 224, 3)
SLOTS = 4


def run(options: Options) -> Report:
    options = options.scaled()
    rows = 8 if options.smoke else ROWS
    repeats = 5 if options.smoke else max(50, int(options.seconds * 30))
    images, pipeline = two_tensors(rows)
    report = Report("handoff", facts={"batch_bytes": rows * int(np.prod(SHAPE)), "repeats": repeats})
    for name in ("numpy", "torch", "jax"):
        if importlib.util.find_spec(name) is not None:
            report.rows += _framework(name, pipeline, repeats)
    report.rows.append(_row("memcpy of the batch", _memcpy(images[:rows], repeats)))
    report.rows.append(_row("socket", _socket(images[:rows], max(3, repeats // 5))))
    return report


def two_tensors(rows: int) -> tuple[np.ndarray[Any, Any], Any]:
    """Random images, and a pipeline of batches of `rows` of them with their labels."""
    images = np.random.default_rng(0).integers(0, 256, (6 * rows, *SHAPE), np.uint8)
    labels = np.arange(6 * rows, dtype=np.int32)
    return images, arrays({"image": images, "label": labels}).shuffle(seed=1).batch(rows)


def _row(what: str, values_us: list[float]) -> dict[str, Any]:
    return {"what": what, "p50_us": round(percentile(values_us, 50), 2), "p99_us": round(percentile(values_us, 99), 2)}


def _framework(name: str, pipeline: Any, repeats: int) -> list[dict[str, Any]]:
    import carya

    kind: Any = carya.Loader if name == "numpy" else getattr(carya, name).Loader
    with contextlib.ExitStack() as stack:
        rounds = {f"next() {name}": Rounds(stack.enter_context(kind(pipeline, slots=SLOTS)))}
        if name == "jax":
            rounds["bare device_put jax"] = _BareJax(stack.enter_context(_array_loader(pipeline)))
        gc.disable()
        stack.callback(gc.enable)
        for _ in range(repeats + repeats // 10):
            for each in rounds.values():
                each.run()
    rows = []
    for what, each in rounds.items():
        rows.append(_row(what, each.behind[repeats // 10 :]))
        rows.append(_row(f"{what}, first after a pause", each.first[repeats // 10 :]))
    if name == "jax":
        rows[0]["of_bare_p50"] = round(rows[0]["p50_us"] / rows[2]["p50_us"], 3)
    return rows


class Rounds:
    """Microseconds of the first batch after a pause, and of those right behind it. Epochs pass without a gap."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._iterator = iter(loader)
        self.first: list[float] = []
        self.behind: list[float] = []

    def run(self) -> None:
        """One pause, then three batches, which are held until the last of them was taken."""
        self._wait_ready()
        held = []
        for values in (self.first, self.behind, self.behind):
            taken = self._take()
            while taken is None:  # the epoch ended: this is still the same place after the pause
                self._iterator = iter(self._loader)
                taken = self._take()
            values.append(taken[0])
            held.append(taken[1])

    def _wait_ready(self) -> None:
        """Until all slots lie ready and the producers are idle: what is measured then neither waits nor competes."""
        while self._loader.stats()["slots"]["ready"] < SLOTS:
            time.sleep(0.001)
        time.sleep(0.005)  # the last producer thread goes to sleep

    def _take(self) -> tuple[float, Any] | None:
        """Microseconds, and what keeps the slot; None at the end of an epoch."""
        iterator = self._iterator
        start = time.perf_counter_ns()
        batch = next(iterator, None)
        if batch is None:
            return None
        pair = batch["image"], batch["label"]
        return (time.perf_counter_ns() - start) / 1000, (batch, pair)


class _BareJax(Rounds):
    """`device_put` alone, of the arrays of leased batches: the ceiling of what jax can be handed."""

    def _take(self) -> tuple[float, Any] | None:
        import jax

        batch = next(self._iterator, None)
        if batch is None:
            return None
        device_put = jax.device_put
        image, label = batch["image"], batch["label"]
        start = time.perf_counter_ns()
        pair = device_put(image, may_alias=True), device_put(label, may_alias=True)
        return (time.perf_counter_ns() - start) / 1000, (batch, pair)


def _array_loader(pipeline: Any) -> Any:
    """A jax loader that stops before jax: its batches hold the arrays of numpy themselves."""
    import carya.jax

    class Arrays(carya.jax.Loader):
        def _local(self, core: Any, name: str) -> Any:
            return core.numpy(name)

    return Arrays(pipeline, slots=SLOTS)


def _memcpy(source: np.ndarray[Any, Any], repeats: int) -> list[float]:
    target = np.zeros_like(source)
    return _times(lambda: np.copyto(target, source), repeats)


def _socket(source: np.ndarray[Any, Any], repeats: int) -> list[float]:
    left, right = socket.socketpair()
    target = np.zeros_like(source)
    view: Any = target.reshape(-1).data

    def send() -> None:
        for _ in range(repeats):
            left.sendall(source.data)
            left.recv(1)

    sender = threading.Thread(target=send)
    sender.start()

    def receive() -> None:
        got = 0
        while got < len(view):
            got += right.recv_into(view[got:])
        right.sendall(b"x")

    values = _times(receive, repeats)
    sender.join()
    left.close()
    right.close()
    return values


def _times(action: Callable[[], Any], repeats: int) -> list[float]:
    values = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        action()
        values.append((time.perf_counter_ns() - start) / 1000)
    return values
