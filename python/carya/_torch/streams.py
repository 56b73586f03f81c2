"""torch's IterableDataset with a state: which samples of which worker were delivered, and how to go on behind them.

torch's own engine runs. It gives the batches of its workers in turn, and one that has no more is passed over. So a state is, of
each worker, how far it was with the last batch of its that was delivered, and whose turn it is:

1. What stands for the dataset in a worker counts the samples that it gave; its `collate` is called right behind the last sample of a
   batch, and puts beside the batch how far that was. What workers make ahead is in no state until it is delivered.
2. A worker goes on by the dataset's own state, where it (or its iterator) has `state_dict` and `load_state_dict`; else by passing
   over so many samples, with the random generators seeded as they were.
3. torch begins with worker 0. Where it is another one's turn, those before it first give a batch of nothing, which is left out.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.utils.data
from torch.utils.data._utils import worker as torch_worker

from .._errors import InvalidArgument, invalid
from .._loading.dataloader_attributes import TAKING, taken_ahead
from .._loading.state import foreign

VERSION = 1


class Void:
    """In place of a sample: nothing."""


class Streamed(torch.utils.data.IterableDataset[Any]):  # type: ignore[misc]
    """A user's dataset in each process that iterates over it. `resume`: the state to go on from, once."""

    def __init__(
        self,
        dataset: Any,
        collate: Callable[[Any], Any],
        init: Callable[[int], None] | None,
        batch_size: int | None,
        resume: dict[str, Any] | None,
    ) -> None:
        self.dataset, self._collate, self._init = dataset, collate, init
        self._batch_size, self._resume = batch_size, resume
        self._samples, self._ended, self._base = 0, False, 0
        self._holder: Any = None  # who has a state: the iterator, or the dataset

    def __repr__(self) -> str:
        return repr(self.dataset)

    def start(self, number: int) -> None:
        """In a worker of torch's: what its `worker_init_fn` is to see and do."""
        info = torch_worker._worker_info
        assert info is not None
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=info.id, num_workers=info.num_workers, seed=info.seed, dataset=self.dataset
        )
        if self._init is not None:
            self._init(number)

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        number, resume, self._resume = (0 if info is None else info.id), self._resume, None
        mine: dict[str, Any] = (resume and resume["workers"][number]) or {"samples": 0, "ended": False, "state": None}
        if resume is not None and number < resume["next"]:
            for _ in range(self._batch_size or 1):
                yield Void()
        self._base = 0 if info is None else info.seed - number
        self._samples, self._ended = mine["samples"], mine["ended"]
        if self._ended:
            return
        if resume is not None and info is not None and mine["state"] is None:
            self._base = resume["seed"]
            _seed(self._base, number)
        iterator = self._begun(mine)
        for sample in iterator:
            self._samples += 1
            yield sample
        self._ended = True

    def _begun(self, mine: dict[str, Any]) -> Any:
        """The dataset's iterator, behind the samples that were delivered. Errors: InvalidArgument, where it has fewer."""
        state = mine["state"]
        if state is not None and _has_state(self.dataset):
            self.dataset.load_state_dict(state)
        iterator: Any = iter(self.dataset)
        self._holder = iterator if _has_state(iterator) else self.dataset if _has_state(self.dataset) else None
        if state is not None:
            if self._holder is iterator:
                iterator.load_state_dict(state)
            return iterator
        for passed in range(self._samples):
            try:
                next(iterator)
            except StopIteration:
                raise InvalidArgument(
                    f"DataLoader: load_state_dict: the dataset gave {passed} samples, and {self._samples} where the state was taken; "
                    "give the same dataset, or one that has state_dict() and load_state_dict()"
                ) from None
        return iterator

    def collate(self, samples: Any) -> tuple[Any, ...]:
        """The batch, and how far this worker is with it: what `Stream` takes apart."""
        if isinstance(samples[0] if self._batch_size is not None else samples, Void):
            return ()
        value = self._collate(samples)
        state = b"" if self._holder is None else pickle.dumps(self._holder.state_dict())
        info = torch.utils.data.get_worker_info()
        return value, (0 if info is None else info.id), self._base, self._samples, self._ended, state


class Stream:
    """One `for` over an iterable dataset: batches of torch's iterator, and the state behind the last of them."""

    def __init__(self, batches: Iterator[Any], workers: int, resume: dict[str, Any] | None) -> None:
        self._batches, self._count = batches, max(1, workers)
        self._workers: list[dict[str, Any] | None] = [None] * self._count
        self._next, self._seed = 0, 0
        self._waiting: list[Any] | None = None  # batches that were given and that a trainer keeps for later
        self._before: dict[str, Any] | None = None  # the state in front of the last batch
        self._begun = resume is not None  # whether the seed is known
        if resume is not None:
            self._workers, self._next, self._seed = list(resume["workers"]), resume["next"], resume["seed"]

    def __iter__(self) -> Stream:
        return self

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """Of torch's iterator, which some look into."""
        if name == "_batches":
            raise AttributeError(name)
        return getattr(self._batches, name)

    def __next__(self) -> Any:
        if self._waiting is None:
            self._waiting = taken_ahead(TAKING)
        while True:
            try:
                given = next(self._batches)
            except StopIteration:
                self._workers, self._next, self._before = [None] * self._count, 0, None
                raise
            if not given:
                continue
            value, number, seed, samples, ended, state = given
            self._before = state_of(self._workers, self._next, self._seed if self._begun else seed)
            self._seed, self._begun = seed, True
            self._workers[number] = {
                "samples": samples,
                "ended": ended,
                "state": pickle.loads(state) if state else None,
            }
            self._next = (number + 1) % self._count
            return value

    def state(self) -> dict[str, Any]:
        if self._waiting and self._before is not None:
            return self._before
        return state_of(self._workers, self._next, self._seed)


def state_of(workers: list[dict[str, Any] | None], following: int, seed: int) -> dict[str, Any]:
    """`seed`: of the workers' generators; worker i has seed + i. `next`: whose turn it is."""
    return {"version": VERSION, "workers": list(workers), "next": following, "seed": seed}


def checked_state(state: Any, workers: int) -> dict[str, Any]:
    """A state that was given. Errors: InvalidArgument that says what differs."""
    count = max(1, workers)
    known = isinstance(state, dict) and state.keys() >= {"version", "workers", "next", "seed"}
    if not known and (of := foreign(state)):
        raise InvalidArgument(of)
    if not known or state["version"] != VERSION or not isinstance(state["workers"], list):
        raise invalid(
            "DataLoader: load_state_dict: state", state, "what state_dict() of a loader of an iterable dataset returned"
        )
    if len(state["workers"]) != count:
        raise InvalidArgument(
            f"DataLoader: load_state_dict: the state is of {len(state['workers'])} workers, each with a part of the dataset; give "
            f"num_workers={len(state['workers'])} in place of {workers}"
        )
    whole = all(type(state[name]) is int for name in ("next", "seed")) and 0 <= state["next"] < count
    marks = [one for one in state["workers"] if one is not None]
    if not whole or not all(isinstance(one, dict) and one.keys() >= {"samples", "ended", "state"} for one in marks):
        raise invalid("DataLoader: load_state_dict: state", state, "what state_dict() returned, unchanged")
    return dict(state)


def _has_state(of: Any) -> bool:
    return callable(getattr(of, "state_dict", None)) and callable(getattr(of, "load_state_dict", None))


def _seed(base: int, number: int) -> None:
    """The global generators, as torch seeds those of a worker."""
    random.seed(base + number)
    torch.manual_seed(base + number)
    np.random.seed(torch_worker._generate_state(base, number))  # noqa: NPY002 - the global one is what datasets draw from
