"""What is measured of a wrapped loader, in the words of `carya.Loader.stats()`."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from .._pipeline.batch_functions import median

# Steps whose median says how long the trainer takes: a checkpoint or an evaluation does not count.
_STEPS = 240


class Figures:
    """Times of the trainer's side, by `asked` and `given`, and of the loader's, by `made`. Threads: one of each side."""

    def __init__(self) -> None:
        self.batches = self.rows = 0
        self.stall_seconds = self.start_seconds = self.inside_seconds = 0.0
        self.idle_seconds = self.state_seconds = 0.0
        self._steps: deque[float] = deque(maxlen=_STEPS)
        self._asked = self._given = 0.0
        self._ready = 0
        self._makes, self._made_seconds, self._made_cpu = 0, 0.0, 0.0

    def begun(self) -> None:
        """An epoch begins: the time since the last batch is no step."""
        self._given = 0.0

    def asked(self, ready: int) -> None:
        """The trainer wants a batch, and `ready` lie there."""
        self._asked = time.perf_counter()
        self._ready += ready
        if self._given:
            self._steps.append(self._asked - self._given)
            self.inside_seconds += self._asked - self._given

    def given(self, rows: int) -> None:
        """It has one, of `rows` samples (0: not known)."""
        now = time.perf_counter()
        waited = now - self._asked
        self.stall_seconds += waited
        self.inside_seconds += waited
        self.start_seconds += 0.0 if self._given else waited
        self.batches, self.rows, self._given = self.batches + 1, self.rows + rows, now

    def made(self, seconds: float, cpu_seconds: float) -> None:
        """The loader took `seconds` for a batch, and its thread `cpu_seconds` of them."""
        self._makes, self._made_seconds = self._makes + 1, self._made_seconds + seconds
        self._made_cpu += cpu_seconds

    def all(self) -> dict[str, Any]:
        """Of `Wrapped.stats()`, which says what each is."""
        step = median(self._steps) if self._steps else None
        rows = self.rows / self.batches if self.batches else 0
        inside = self.inside_seconds
        return {
            "batches": self.batches,
            "samples": self.rows or None,
            "batches_per_second": self.batches / inside if inside > 0 else None,
            "step_seconds": step,
            "demand_per_second": rows / step if step and rows else None,
            "stall_seconds": self.stall_seconds,
            "stall_share": self.stall_seconds / inside if inside > 0 else 0.0,
            "start_seconds": self.start_seconds,
            "make_seconds": self._made_seconds / self._makes if self._makes else None,
            "make_cpu_seconds": self._made_cpu / self._makes if self._makes else None,
            "idle_seconds": self.idle_seconds,
            "state_seconds": self.state_seconds,
            "ready_mean": self._ready / self.batches if self.batches else None,
        }
