"""torch's own engine in the trainer's process (`num_workers=0`) over a map-style dataset, with a state.

An order is drawn when a `for` takes its first batch. So a state is the generators as they were when the `for` began, how many batches
were taken since, and a digest of their indices: to go on, the order is drawn once more and those batches are passed over, without a
call of the dataset. What the dataset itself draws comes from the trainer's generators, whose states are the trainer's to keep.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from typing import Any

import torch
from torch.utils.data import BatchSampler
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from .._errors import InvalidArgument, invalid
from .._loading.dataloader_attributes import TAKING, taken_ahead
from .._loading.state import foreign, plain

VERSION = 1
_KEYS = {"version", "epoch", "batches", "indices", "generators"}


class Here(_SingleProcessDataLoaderIter):  # type: ignore[misc]
    """One `for`. `epoch`: how many were begun before it; `resume`: a state to go on from.

    Errors: InvalidArgument, when the sampler gives other indices than where the state was taken.
    """

    def __init__(self, loader: Any, epoch: int, resume: dict[str, Any] | None) -> None:
        self.epoch, self.batches, self.ended = epoch, 0, False
        self._digest = hashlib.blake2b(digest_size=8)
        self._waiting: list[Any] | None = None  # batches that were given and that a trainer keeps for later
        self._before = (0, self._digest.hexdigest())  # in front of the last batch
        if resume is None or not resume["batches"]:
            self.generators = kept(loader)
            super().__init__(loader)
            return
        present = torch.get_rng_state()
        try:
            restore(loader, resume["generators"])
            self.generators = kept(loader)
            super().__init__(loader)
            with contextlib.suppress(StopIteration):
                for _ in range(resume["batches"]):
                    self._next_index()
        finally:
            torch.set_rng_state(present)  # the trainer's own, which was lent for the order
        if self.state()["indices"] != resume["indices"]:
            raise InvalidArgument(
                f"load_state_dict: the sampler gives other indices for the {resume['batches']} batches of epoch {epoch} than where the "
                "state was taken; give the same dataset, batch_size and sampler, with its generator seeded alike or the same set_epoch"
            )

    def __next__(self) -> Any:
        if self._waiting is None:
            self._waiting = taken_ahead(TAKING)
        return super().__next__()

    def _next_index(self) -> Any:
        self._before = (self.batches, self._digest.hexdigest())
        try:
            index = super()._next_index()
        except StopIteration:
            self.ended = True
            raise
        self.batches += 1
        self._digest.update(repr(index).encode() + b";")
        return index

    def state(self) -> dict[str, Any]:
        batches, indices = self._before if self._waiting else (self.batches, self._digest.hexdigest())
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "batches": batches,
            "indices": indices,
            "generators": self.generators,
        }


def between(loader: Any, epoch: int) -> dict[str, Any]:
    """The state where `epoch` has not begun: the generators that it will be drawn from, but for the trainer's."""
    generators = {name: value for name, value in kept(loader).items() if name != "torch"}
    return {"version": VERSION, "epoch": epoch, "batches": 0, "indices": "", "generators": generators}


def kept(loader: Any) -> dict[str, str]:
    """The states of the generators that an order may be drawn from, by whose they are: base64, which JSON takes too."""
    return {name: encoded(one) for name, one in _generators(loader).items()}


def encoded(generator: torch.Generator) -> str:
    """Its state."""
    return base64.b64encode(generator.get_state().numpy().tobytes()).decode()


def restore(loader: Any, states: dict[str, str | bytes]) -> None:
    """Errors: InvalidArgument, where a generator was given to the loader of the state and not to this one, or the other way."""
    mine = _generators(loader)
    for name in {"loader", "sampler"} & (mine.keys() ^ states.keys()):
        raise InvalidArgument(
            f"load_state_dict: the generator of the {name} is one of {'this loader' if name in mine else 'the state'} only; give a "
            "generator as where the state was taken"
        )
    for name, state in states.items():
        restore_one(mine[name], state)


def restore_one(generator: torch.Generator, state: str | bytes) -> None:
    """Errors: InvalidArgument."""
    try:
        # Bytes are those of older versions.
        known = state if isinstance(state, bytes) else base64.b64decode(state, validate=True)
        generator.set_state(torch.frombuffer(bytearray(known), dtype=torch.uint8))
    except (RuntimeError, TypeError, ValueError):
        raise invalid(
            "DataLoader: load_state_dict: generators",
            f"{len(state)} characters",
            "what state_dict() returned, unchanged",
        ) from None


def pass_over(loader: Any, epochs: int) -> None:
    """Iterate over a sampler that is not torch's, whose random numbers are its own, as so many epochs did."""
    if type(_sampler(loader)).__module__.startswith("torch.utils.data"):
        return
    for _ in range(epochs):
        for _ in loader._index_sampler:
            pass


def checked(state: Any) -> dict[str, Any]:
    """A state that was given. Errors: InvalidArgument."""
    wanted = "what state_dict() of a loader with num_workers=0 returned"
    state = plain(state)
    if isinstance(state, dict) and not state.keys() >= _KEYS and (of := foreign(state)):
        raise InvalidArgument(of)
    if not isinstance(state, dict) or not state.keys() >= _KEYS or state["version"] != VERSION:
        raise invalid("DataLoader: load_state_dict: state", state, wanted)
    whole = all(type(state[name]) is int and state[name] >= 0 for name in ("epoch", "batches"))
    generators = state["generators"]
    if (
        not whole
        or not isinstance(generators, dict)
        or not all(isinstance(one, str | bytes) for one in generators.values())
    ):
        raise invalid("DataLoader: load_state_dict: state", state, f"{wanted}, unchanged")
    if not generators.keys() <= {"torch", "loader", "sampler"}:
        raise invalid("DataLoader: load_state_dict: state", state, f"{wanted}, unchanged")
    return dict(state)


def _sampler(loader: Any) -> Any:
    """What says the order of the indices."""
    found = loader._index_sampler
    return found.sampler if type(found) is BatchSampler else found


def _generators(loader: Any) -> dict[str, torch.Generator]:
    found = {"torch": torch.default_generator, "loader": loader.generator}
    own = getattr(_sampler(loader), "generator", None)
    if own is not loader.generator:
        found["sampler"] = own
    return {name: one for name, one in found.items() if isinstance(one, torch.Generator)}
