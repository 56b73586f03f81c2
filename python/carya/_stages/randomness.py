"""Random numbers of a function for one sample: a numpy Generator, and the global generators, keyed by the record.

The key is that of native operations (DESIGN section 4): H(seed, op name, occurrence of the name) and epoch, record and
occurrence of the record. numpy's Philox has 64-bit words, so they stand in it side by side:
    key = (H, epoch), counter = (draw, record, occurrence, 0)
"""

from __future__ import annotations

import ctypes
import functools
import random
import sys
from typing import Any

import numpy as np

from .. import _core


class StageRandom:
    """Of one stage. Threads: one.

    >>> numbers = StageRandom(op_key=5)
    >>> first = numbers.at(epoch=0, record=7, occurrence=0).random()
    >>> other = numbers.at(epoch=1, record=7, occurrence=0).random()
    >>> first == numbers.at(epoch=0, record=7, occurrence=0).random(), first == other
    (True, False)
    """

    def __init__(self, op_key: int) -> None:
        self._bits = np.random.Philox(key=[op_key, 0])
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._counter, self._key = self._state["state"]["counter"], self._state["state"]["key"]
        self._state["buffer_pos"] = 4

    def at(self, epoch: int, record: int, occurrence: int) -> np.random.Generator:
        """The one generator there is, set to where the numbers of this sample begin."""
        self._counter[0], self._counter[1], self._counter[2], self._counter[3] = 0, record, occurrence, 0
        self._key[1] = epoch
        self._bits.state = self._state
        return self._generator


class GlobalSeeds:
    """Seeds `random`, `numpy.random` and, where it was imported, torch's CPU generator, for the calls of one stage. Threads: one.

    Never by `torch.manual_seed`, which takes a hundred times as long since it looks for devices; nor by `numpy.random.seed`
    where nobody has drawn since it was called, since the state can be written faster than it computes one.
    """

    __slots__ = ("_key", "_torch")

    def __init__(self, op_key: int) -> None:
        self._key = op_key
        self._torch: Any = None  # its generator's manual_seed

    def set(self, epoch: int, record: int, occurrence: int) -> None:
        """Before the call for this sample."""
        twister = _twister()
        if twister is None:
            seed, _ = _core.seed_twister(ctypes.addressof(_WORDS), self._key, epoch, record, occurrence)
            np.random.set_state(("MT19937", np.array(_WORDS[:624], np.uint32), 624, 0, 0.0))  # noqa: NPY002
        else:
            seed, used = _core.seed_twister(twister, self._key, epoch, record, occurrence)
            if used:
                np.random.seed(0)  # noqa: NPY002  # drops what a Gaussian draw has kept for the next
                _core.seed_twister(twister, self._key, epoch, record, occurrence)
        _seed_random(seed)
        if self._torch is None:
            if "torch" not in _MODULES:
                return
            self._torch = _MODULES["torch"].random.default_generator.manual_seed
        self._torch(seed & 0x7FFFFFFFFFFFFFFF)

    def missed(self) -> bool:
        """Whether the call has imported torch, whose generator had no seed: it has to be made again, after `set`."""
        return self._torch is None and "torch" in _MODULES


@functools.cache  # not while carya is imported, which would import numpy.random
def _twister() -> int | None:
    """Where numpy's global generator has its 624 words and the next one's number; None where it looks different."""
    try:
        bits = np.random.mtrand._rand._bit_generator
        address = int(bits.ctypes.state_address)
        words = (ctypes.c_uint32 * 625).from_address(address)
        state: Any = np.random.get_state()  # noqa: NPY002
        if type(bits) is np.random.MT19937 and list(words[:624]) == state[1].tolist() and words[624] == state[2]:
            return address
    except (AttributeError, TypeError, IndexError):
        pass
    return None


_MODULES = sys.modules
_seed_random = random.seed  # looked up anew by make_global_random_lazy
_WORDS = (ctypes.c_uint32 * 625)()  # in place of that memory


class LazyRandom(random.Random):
    """A Random that is seeded when its first number is asked for: seeding takes longer than most functions use it."""

    _due: int | None = None

    def seed(self, a: Any = None, version: int = 2) -> None:
        if type(a) is int:
            self._due = a
            self.gauss_next = None
        else:
            self._due = None
            super().seed(a, version)

    def _settle(self) -> None:
        due, self._due = self._due, None
        super().seed(due)

    def random(self) -> float:
        if self._due is not None:
            self._settle()
        return super().random()

    def getrandbits(self, k: int, /) -> int:
        if self._due is not None:
            self._settle()
        return super().getrandbits(k)

    def getstate(self) -> Any:
        if self._due is not None:
            self._settle()
        return super().getstate()

    def setstate(self, state: Any) -> None:
        self._due = None
        super().setstate(state)


def make_global_random_lazy() -> None:
    """Put a LazyRandom behind the functions of the module `random`, before a user's modules take them by name."""
    former = getattr(random, "_inst", None)
    if former is None or isinstance(former, LazyRandom):
        return
    lazy = LazyRandom()
    for name, value in list(vars(random).items()):
        if getattr(value, "__self__", None) is former:
            setattr(random, name, getattr(lazy, name))
    vars(random)["_inst"] = lazy
    global _seed_random
    _seed_random = lazy.seed
