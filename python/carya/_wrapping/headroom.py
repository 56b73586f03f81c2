"""What a loader costs a training loop: the same steps with its batches, with a few that are given again, and with Carya's."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import Error, InvalidArgument
from .._loading.loader import Loader
from .._pipeline.sources import arrays
from .._stages.tree import as_leaf
from .feeder import leaves

if TYPE_CHECKING:
    from .wrapper import Wrapped

# Batches of Carya's that are not counted: the first ones, whose slots are new.
_CARYA_LEAD = 4
# How long the loader is given at most to fill its queues.
_SETTLE_S = 2.0


class Headroom(dict[str, Any]):
    """What `headroom()` of a wrapped loader found; its keys are said there."""

    def __str__(self) -> str:
        present, replayed, carya = self["present_seconds"], self["replayed_seconds"], self["carya_seconds"]
        lines = [
            f"A step took {shown(present)} with this loader and {shown(replayed)} with batches that lay in memory "
            f"(means of {self['steps']} steps each, in turn).",
            f"A loader that never makes the trainer wait gains {self['gain']:.2f} times."
            if self["gain"] > 1.02
            else "No loader can gain anything here that could be measured.",
        ]
        if carya is None:
            lines.append(f"What Carya costs here was not measured: {self['reason']}.")
        else:
            lines.append(
                f"A step took {shown(carya)} with batches that Carya made of the same arrays; handing one over took "
                f"{shown(self['hand_over_seconds'])}{_made(self['carya_cpu_seconds'])}."
            )
            lines.append(
                f"What reading and decoding your records costs it is not in that: to gain as much it must make a batch in "
                f"{shown(replayed)}."
            )
        return "\n".join(lines)


def _made(cpu: float | None) -> str:
    return "" if cpu is None else f", and making it {shown(cpu)} of CPU on threads of its own"


class _Times:
    """Steps of one kind."""

    def __init__(self) -> None:
        self.seconds, self.steps, self.waited = 0.0, 0, 0.0

    def run(self, batches: Iterator[Any], step: Callable[[Any], Any], lead: int, steps: int) -> None:
        for _ in range(lead):
            step(next(batches))
        begun = time.perf_counter()
        for _ in range(steps):
            asked = time.perf_counter()
            batch = next(batches)
            self.waited += time.perf_counter() - asked
            step(batch)
        self.seconds += time.perf_counter() - begun
        self.steps += steps

    def mean(self) -> float:
        return self.seconds / self.steps


def compared(
    of: Wrapped, step: Callable[[Any], Any], steps: int, cached: int, rounds: int, *, carya: bool, lead: int
) -> Headroom:
    """`rounds` times each kind, in turn. `lead`: steps until what lies ready is used up. Errors: those of `Wrapped.headroom`."""
    present, replayed, made = _Times(), _Times(), _Times()
    batches = _without_end(of)
    kept = [next(batches) for _ in range(cached)]
    for batch in kept:
        step(batch)
    reason, loader, hidden = "carya=False", None, None
    if carya:
        try:
            loader, hidden = _of_arrays(kept)
        except (Error, ValueError, TypeError) as error:
            reason = str(error)
    again = itertools.cycle(kept)
    for _ in range(rounds):
        present.run(batches, step, lead, steps)
        time.sleep(
            min(_SETTLE_S, lead * present.mean())
        )  # else the loader would fill its queues beside the replayed steps
        replayed.run(again, step, lead, steps)
        if hidden is not None:
            made.run(hidden, step, _CARYA_LEAD, steps)
    found = Headroom(steps=present.steps, present_seconds=present.mean(), replayed_seconds=replayed.mean())
    found |= {"gain": found["present_seconds"] / found["replayed_seconds"], "carya_seconds": None, "reason": reason}
    if loader is not None:
        stats = loader.stats()
        cpu = sum(op["cpu_ns_per_sample"] for op in stats["ops"]) * 1e-9 * loader.batch_size or None
        found |= {"carya_seconds": made.mean(), "hand_over_seconds": made.waited / made.steps, "carya_cpu_seconds": cpu}
        found["reason"] = ""
        loader.close()
    return found


def _without_end(of: Wrapped) -> Iterator[Any]:
    """The batches of one epoch after the other."""
    while True:
        empty = True
        for batch in of:
            empty = False
            yield batch
        if empty:
            raise InvalidArgument(
                "wrap: headroom: the loader has no batches left; give one that can be iterated again, or fewer steps"
            )


def _of_arrays(kept: list[Any]) -> tuple[Loader, Iterator[Any]]:
    """A loader of the rows of the batches, and its batches in their form. Errors: InvalidArgument that says why there is none."""
    named = [{str(number): as_leaf(leaf) for number, leaf in enumerate(leaves(batch))} for batch in kept]
    rows = {len(leaf) if isinstance(leaf, np.ndarray) and leaf.ndim else 0 for leaf in named[0].values()}
    if len(rows) != 1 or 0 in rows or type(kept[0]) not in (dict, list, tuple):
        raise InvalidArgument("batches are no dicts, lists or tuples of arrays with one row per sample")
    count = rows.pop()
    same = [one for one in named if _like(one, named[0])]
    joined = {name: np.concatenate([one[name] for one in same]) for name in named[0]}
    loader = Loader(arrays(joined).batch(count), threads=1)
    return loader, (_as(kept[0], batch) for batch in itertools.chain.from_iterable(itertools.repeat(loader)))


def _like(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        isinstance(leaf, np.ndarray) and (leaf.dtype, leaf.shape) == (other[name].dtype, other[name].shape)
        for name, leaf in one.items()
    )


def _as(like: Any, batch: Mapping[str, Any]) -> Any:
    """The arrays of a batch as arrays or tensors in the form of `like`."""
    values = []
    for leaf, value in zip(leaves(like), batch.values(), strict=True):
        if hasattr(leaf, "detach"):
            import torch

            values.append(torch.from_numpy(value))
        else:
            values.append(value)
    return dict(zip(like, values, strict=True)) if isinstance(like, dict) else type(like)(values)


def shown(seconds: float) -> str:
    """A time as people write it.

    >>> shown(0.0000123), shown(0.0123), shown(1.23)
    ('12.3 us', '12.3 ms', '1.23 s')
    """
    for unit, scale in (("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"
