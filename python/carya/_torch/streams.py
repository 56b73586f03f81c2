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

import contextlib
import copy
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.utils.data
from torch.utils.data._utils import worker as torch_worker

from .._errors import InvalidArgument, Unsupported, invalid
from .._loading.dataloader_attributes import TAKING, taken_ahead
from .._loading.state import foreign

VERSION = 1
# Whose the state is: that of the dataset, of its iterator, or of both as they are the same object.
_DATASET, _ITERATOR, _BOTH = "dataset", "iterator", "both"


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
        self.batch_size, self._resume = batch_size, resume
        self._samples, self._ended = 0, False
        self._holder: Any = None  # who has a state: the iterator, or the dataset
        self._of = _DATASET

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

    def __iter__(self) -> _Samples:
        samples = _Samples(self)
        if torch.utils.data.get_worker_info() is None:
            samples.begin()  # in the trainer, torch calls the dataset's `__iter__` when a `for` begins
        return samples

    def begin(self) -> tuple[int, Any]:
        """How many batches of nothing come first, and the dataset's iterator; None where it had ended."""
        info = torch.utils.data.get_worker_info()
        number, resume, self._resume = (0 if info is None else info.id), self._resume, None
        mine: dict[str, Any] = (resume and resume["workers"][number]) or {"samples": 0, "ended": False, "state": None}
        voids = int(resume is not None and number < resume["next"])
        self._samples, self._ended = mine["samples"], mine["ended"]
        if self._ended:
            return voids, None
        if resume is not None and info is not None and mine["state"] is None:
            _seed(resume["seed"], number)
        return voids, self._begun(mine)

    def counted(self, iterator: Any) -> Any:
        """The next sample. One that raises counts too: torch goes on behind it."""
        try:
            sample = next(iterator)
        except StopIteration:
            self._ended = True
            raise
        except Exception:
            self._samples += 1
            raise
        self._samples += 1
        return sample

    def _begun(self, mine: dict[str, Any]) -> Any:
        """The dataset's iterator, behind the samples that were delivered. Errors: InvalidArgument, where it has fewer."""
        state, of = copy.deepcopy(mine["state"]), mine.get("of")  # a copy, which the dataset may go on changing
        if state is not None and of != _ITERATOR and _has_state(self.dataset):
            # One that is its own iterator may be ready for a state only while it is iterated over, and is given it again then.
            with contextlib.suppress(Exception) if of == _BOTH else contextlib.nullcontext():
                self.dataset.load_state_dict(state)
        if mine.get("dataset") is not None and _has_state(self.dataset):
            self.dataset.load_state_dict(copy.deepcopy(mine["dataset"]))
        iterator: Any = iter(self.dataset)
        self._holder = iterator if _has_state(iterator) else self.dataset if _has_state(self.dataset) else None
        self._of = _BOTH if iterator is self.dataset else _ITERATOR if self._holder is iterator else _DATASET
        if state is not None:
            if self._holder is iterator and of != _DATASET:
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
            except Exception:  # it was raised, and gone on behind, where the state was taken
                continue
        return iterator

    def collate(self, samples: Any) -> tuple[Any, ...]:
        """The batch, and how far this worker is with it: what `Stream` takes apart."""
        if isinstance(samples[0] if self.batch_size is not None else samples, Void):
            return ()
        value = self._collate(samples)
        info = torch.utils.data.get_worker_info()
        return value, (0 if info is None else info.id), self.mark()

    def first(self) -> bytes:
        """The mark in front of the first sample, of an iterator with a state; else none: a dataset may only say where it ended before."""
        return b"" if self._holder is None or self._of == _DATASET else self.mark()

    def mark(self) -> bytes:
        """How far this process is, with the dataset's own state, pickled: a copy, which the dataset cannot go on changing."""
        at: dict[str, Any] = {"samples": self._samples, "ended": self._ended, "state": None}
        if self._holder is None:
            return pickle.dumps(at)
        try:
            own: dict[str, Any] = {"state": self._holder.state_dict(), "of": self._of}
            if self._of == _ITERATOR and _has_state(self.dataset):
                own["dataset"] = self.dataset.state_dict()
            return pickle.dumps(at | own)
        except Exception as error:  # said to who asks for a state, and to nobody else
            return pickle.dumps(at | {"refused": f"{type(self._holder).__name__}: {type(error).__name__}: {error}"})


class _Samples:
    """One iteration over a dataset in one process. An iterator that raises is asked again, as torch does it."""

    def __init__(self, of: Streamed) -> None:
        self._of, self._voids, self._begun = of, 0, False
        self._iterator: Any = None

    def begin(self) -> None:
        self._begun = True
        voids, self._iterator = self._of.begin()
        self._voids = voids * (self._of.batch_size or 1)

    def __iter__(self) -> _Samples:
        return self

    def __next__(self) -> Any:
        if not self._begun:
            self.begin()
        if self._voids:
            self._voids -= 1
            return Void()
        if self._iterator is None:
            raise StopIteration
        return self._of.counted(self._iterator)


class Stream:
    """One `for` over an iterable dataset: batches of torch's iterator, and the state behind the last of them."""

    def __init__(
        self,
        batches: Iterator[Any],
        workers: int,
        resume: dict[str, Any] | None,
        generator: str | None,
        first: bytes,
    ) -> None:
        self._batches, self._count, self._generator = batches, max(1, workers), generator
        self._workers: list[dict[str, Any] | None] = [None] * self._count
        self._next, self._seed = 0, int(batches._base_seed) if workers else 0  # type: ignore[attr-defined]
        self._waiting: list[Any] | None = None  # batches that were given and that a trainer keeps for later
        self._before: dict[str, Any] | None = None  # the state in front of the last batch
        self.ended = False
        if resume is not None:
            self._workers, self._next, self._seed = list(resume["workers"]), resume["next"], resume["seed"]
        elif first:
            self._workers = [pickle.loads(first)]

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
                self.ended = True
                raise
            if not given:
                continue
            value, number, mark = given
            self._before = self._state()
            self._workers[number] = pickle.loads(mark)
            self._next = (number + 1) % self._count
            return value

    def state(self) -> dict[str, Any]:
        """Errors: Unsupported, where the dataset could not say its own state."""
        state = self._before if self._waiting and self._before is not None else self._state()
        for mark in state["workers"]:
            if mark is not None and "refused" in mark:
                raise Unsupported(
                    f"DataLoader: state_dict: the dataset's own state cannot be had: {mark['refused']}; mend its state_dict(), whose "
                    "result must be one that pickle takes, or leave it out: samples are then passed over"
                )
        return state

    def _state(self) -> dict[str, Any]:
        return state_of(self._workers, self._next, self._seed, self._generator)


def state_of(workers: list[dict[str, Any] | None], following: int, seed: int, generator: str | None) -> dict[str, Any]:
    """`seed`: of the workers' generators; worker i has seed + i. 0: not begun. `next`: whose turn it is. `generator`: that of the loader
    as it was when the `for` began, or is where none has."""
    known = {} if generator is None else {"generator": generator}
    return {"version": VERSION, "workers": list(workers), "next": following, "seed": seed, **known}


def between(workers: int, generator: str | None) -> dict[str, Any]:
    """The state where no `for` has begun, or one has ended: the next one begins anew."""
    return state_of([None] * max(1, workers), 0, 0, generator)


def begun(state: dict[str, Any]) -> bool:
    """Whether a state is of inside of a `for`."""
    return bool(state["seed"] or state["next"] or any(state["workers"]))


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
