"""What a sampler or batch sampler of torch's kind gives, epoch by epoch."""

from __future__ import annotations

import hashlib
import operator
from typing import Any

import numpy as np

from .._errors import InvalidArgument, Unsupported
from .._functions.steps import Order


class Orders:
    """Iterated once for each epoch, as torch does when a `for` begins. `batches`: it gives lists of indices, each a step."""

    def __init__(self, sampler: Any, batches: bool = False) -> None:
        self._sampler, self._batches = sampler, batches
        self._name = "batch_sampler" if batches else "sampler"
        self._drawn, self._order = 0, Order(np.empty((2, 0), np.int64))
        self.least = 0  # an epoch before this one is asked for by a loader that then turns to this one

    def __call__(self, epoch: int) -> Order:
        """Errors: InvalidArgument (what is no index, a batch without one), Unsupported (an epoch that is past); the sampler's own."""
        epoch = max(epoch, self.least)
        if epoch + 1 < self._drawn:
            raise Unsupported(
                f"DataLoader: {self._name}: epoch {epoch} is past, and a sampler does not go back; make a new DataLoader"
            )
        while self._drawn <= epoch:
            given = list(iter(self._sampler))  # whose length nobody needs
            ends = self._ends(given) if self._batches else None
            listed = [index for batch in given for index in batch] if self._batches else given
            try:
                order = np.array([operator.index(index) for index in listed], np.int64)
            except (TypeError, OverflowError):
                raise self._no_index(listed) from None
            self._drawn, self._order = self._drawn + 1, Order(np.stack([order, _repeats(order)]), ends)
        return self._order

    def is_empty(self, epoch: int) -> bool:
        """Whether the sampler gives nothing. Errors: as of a call."""
        return self(epoch).places.size == 0

    def _ends(self, given: list[Any]) -> np.ndarray[Any, Any]:
        sizes = [len(batch) if hasattr(batch, "__len__") else 0 for batch in given]
        if 0 in sizes:
            at = sizes.index(0)
            raise InvalidArgument(
                f"DataLoader: batch_sampler: batch {at} of epoch {self._drawn} is {given[at]!r}; give lists of at least one index"
            )
        return np.cumsum(np.array(sizes, np.int64))

    def _no_index(self, listed: list[Any]) -> InvalidArgument:
        found = next((index for index in listed if not isinstance(index, int)), None)
        of = "lists of integers" if self._batches else "integers"
        return InvalidArgument(
            f"DataLoader: {self._name}: it gave {found!r}; give a sampler of {of} of 0 or more, or num_workers=0, which asks for any keys"
        )

    def state(self, state: dict[str, Any]) -> dict[str, Any]:
        """What a state has of it: a digest of the order that it is inside of."""
        return {"sampler": self._digest(state["epoch"])} if state["position"] else {}

    def check(self, state: dict[str, Any]) -> None:
        """Errors: InvalidArgument, when the sampler gives another order than where the state was taken."""
        if state.get("sampler") is not None and state["sampler"] != self._digest(state["epoch"]):
            raise InvalidArgument(
                f"load_state_dict: {self._name}: for epoch {state['epoch']} it gives another order than where the state was taken; "
                "give it the same generator, seeded alike, or the same set_epoch"
            )

    def _digest(self, epoch: int) -> str:
        order = self(epoch)
        ends = b"" if order.ends is None else order.ends.tobytes()
        return hashlib.blake2b(order.places[0].tobytes() + ends, digest_size=8).hexdigest()


def _repeats(order: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How often each index stands before in the order.

    >>> _repeats(np.array([3, 1, 3, 3, 1])).tolist(), _repeats(np.array([], np.int64)).tolist()
    ([0, 0, 1, 2, 1], [])
    """
    by = np.argsort(order, kind="stable")
    listed = order[by]
    begins = np.flatnonzero(np.concatenate([np.ones(min(1, len(order)), np.bool_), listed[1:] != listed[:-1]]))
    found = np.empty(len(order), np.int64)
    found[by] = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return found
