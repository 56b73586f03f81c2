"""A progress line for what a loader does before its first batch, where that takes over a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class Progress:
    """Shows nothing for the first second, and nothing without a terminal. Uses rich when it is installed, else one plain line on
    stderr."""

    def __init__(self, delay_s: float = 1.0) -> None:
        self._due = time.monotonic() + delay_s
        self._shown = False
        self._status: Any = None

    def __enter__(self) -> Self:
        return self

    def show(self, text: str) -> None:
        """How far it is."""
        now = time.monotonic()
        if now < self._due or not sys.stderr.isatty():
            return
        self._due = now + 0.1
        if not self._shown:
            self._shown = True
            try:
                from rich.console import Console

                self._status = Console(stderr=True).status(text)
                self._status.start()
            except ImportError:
                self._status = None
        if self._status is not None:
            self._status.update(text)
        else:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
        elif self._shown:
            print(file=sys.stderr)


class ListingProgress(Progress):
    """Called with the number of entries seen."""

    def __init__(self, subject: str) -> None:
        super().__init__()
        self._subject = subject

    def __call__(self, seen: int) -> bool:
        self.show(f"listing {self._subject}: {seen:,} files")
        return True
