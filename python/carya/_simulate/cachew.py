"""Cachew's own policies (USENIX ATC 2022), as its code has them: what is cached, the life of a cache, how many workers.

Source: the stored files of its code (cache_model.cc, cache_utils.cc, scaling_utils.cc), by their constants and formulas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

# Milliseconds to take a row of so many bytes from the cache, measured once in August 2021.
TABLE = (
    (100e3, 0.00376275), (1e6, 0.25485525), (5e6, 5.626863), (10e6, 11.9417165), (15e6, 13.67782825), (20e6, 22.25248125),
    (25e6, 26.33922275), (30e6, 30.49620075), (50e6, 75.096286), (75e6, 112.799945), (100e6, 155.009453),
    (200e6, 306.62446275), (400e6, 624.65508275),
)  # fmt: skip


def row_ms(row_bytes: float) -> float:
    """The table, linear between its points and beyond both ends: below 86.5 kB it is negative.

    >>> row_ms(1e6), round(row_ms(20e3), 3)
    (0.25485525, -0.019)
    """
    pairs = list(pairwise(TABLE))
    (x0, y0), (x1, y1) = next((pair for pair in pairs if row_bytes <= pair[1][0]), pairs[-1])
    return y0 + (row_bytes - x0) * (y1 - y0) / (x1 - x0)


def decide(*, compute_ms: float, row_bytes: float, marked_ms: float, marked_rows: float, marked_bytes: float) -> str:
    """ "source", "full" or "compute", by what one element costs.

    `compute_ms`: of an element, all of it; `row_bytes` has it. At the marker it is `marked_rows` rows of `marked_bytes`,
    which took `marked_ms`. Ties go in this order.
    """
    costs = {
        "source": compute_ms - marked_ms + row_ms(marked_bytes) * marked_rows,
        "full": row_ms(row_bytes),
        "compute": compute_ms,
    }
    return min(costs, key=lambda place: costs[place])


def modes(choice: str, epochs: int) -> list[str]:
    """What each epoch of a job does: the decision is noted in the first and acted on in the second.

    >>> modes("full", 4), modes("compute", 2)
    (['profile', 'put', 'get', 'get'], ['profile', 'compute'])
    """
    later = {"full": ("put", "get"), "source": ("put_source", "get_source"), "compute": ("compute", "compute")}[choice]
    return (["profile", later[0]] + [later[1]] * epochs)[:epochs]


@dataclass
class Scaling:
    """How many workers a job asks for: one more while that makes it faster by 7 %, one fewer while it costs less than 3 %.

    A report is the time of `report` elements, after `left_out` that are not counted since the last change.
    """

    workers_max: int
    report: int = 100
    left_out: int = 100
    workers: int = 1
    stable: bool = False
    changes: int = 0
    _history: list[tuple[int, float]] = field(default_factory=list)
    _direction: int = 1
    _settled: float = 0.0

    def restart(self) -> None:
        """As each change of mode does."""
        if self.workers != 1:
            self.changes += 1
        self.workers, self.stable, self._direction = 1, False, 1
        self._history.clear()

    def take(self, batch_s: float) -> None:
        """A report."""
        before = next(((n, s) for n, s in reversed(self._history) if n != self.workers), None)
        self._history = [*self._history, (self.workers, batch_s)][-20:]
        if self.stable:
            if len(self._history) == 20 and batch_s > 1.5 * self._settled:
                self.stable, self._direction = False, 1
                self._ask(self.workers + 1)
            return
        if before is None:
            self._ask(self.workers + 1)
            return
        better = 1 - batch_s / before[1]
        if abs(better) > 1.2:
            return
        grows = self._direction > 0 and better > 0.07
        shrinks = self._direction < 0 and better > -0.03 and self.workers > 1
        if (grows and self.workers < self.workers_max) or shrinks:
            self._ask(self.workers + self._direction)
            return
        self.stable = True
        self._settled = batch_s if grows else before[1]
        if not grows:
            self._ask(before[0])

    def _ask(self, workers: int) -> None:
        workers = max(1, min(workers, self.workers_max))
        self.changes += workers != self.workers
        self.workers = workers


def settled(rates: dict[int, float], elements_of: float = 1) -> Iterator[tuple[int, float]]:
    """The workers and the time of a report at each of its steps, where so many workers make so many samples a second."""
    scaling = Scaling(workers_max=max(rates))
    while not scaling.stable:
        seconds = scaling.report * elements_of / rates[scaling.workers]
        yield scaling.workers, seconds
        scaling.take(seconds)
    yield scaling.workers, scaling.report * elements_of / rates[scaling.workers]
