"""The functions of `map_batch`: called one after the other in the trainer's thread, and timed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# As many steps as the trainer's own time is the median of.
_TIMES = 240


def function_name(fn: Callable[..., Any]) -> str:
    """How a person knows it."""
    return getattr(fn, "__qualname__", None) or repr(fn)


def median(values: Iterable[float]) -> float:
    """Of at least one. The module statistics is not loaded: a process that gave up its user's rights may not read it."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2


class BatchFunctions:
    """Threads: that of the trainer; `figures` from any.

    >>> functions = BatchFunctions([len])
    >>> functions([1, 2, 3]), functions.figures()[0]["name"]
    (3, 'len')
    """

    def __init__(self, functions: Sequence[Callable[[Any], Any]]) -> None:
        self._timed = [(fn, deque[float](maxlen=_TIMES)) for fn in functions]

    def __call__(self, batch: Any) -> Any:
        """What the last of them gives."""
        for fn, times in self._timed:
            begin = time.perf_counter()
            try:
                batch = fn(batch)
            except StopIteration as error:  # a `for` would take it for the end of the epoch
                raise RuntimeError(
                    f"map_batch: {fn!r} raised StopIteration; let it return or raise another error"
                ) from error
            times.append(time.perf_counter() - begin)
        return batch

    def figures(self) -> list[dict[str, Any]]:
        """Name and median seconds per batch of each that has run."""
        return [{"name": function_name(fn), "seconds": median(times)} for fn, times in self._timed if times]
