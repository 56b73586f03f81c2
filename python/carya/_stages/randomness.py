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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


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
    """Seeds `random`, `numpy.random` and torch's CPU generator, for the calls of one stage. Threads: one.

    torch's where it was imported, or as soon as the call imports it (`prepare_global_random`). Never by `torch.manual_seed`, which takes a hundred times as long since it looks for devices; nor by `numpy.random.seed`
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
                _finder.seed = seed
                return
            self._torch = _MODULES["torch"].random.default_generator.manual_seed
        self._torch(seed & _SEED_MASK)


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


class _TorchFinder:
    """Finds torch as the others do, once. Behind its import, before whoever imports it can draw a number, its generator has the
    seed of the call that is under way."""

    def __init__(self) -> None:
        self.then: list[Callable[[], None]] = []
        self.seed: int | None = None

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            run = loader.exec_module

            def run_then(module: ModuleType) -> None:
                run(module)
                for then in self.then:
                    then()
                if self.seed is not None:
                    vars(module)["random"].default_generator.manual_seed(self.seed & _SEED_MASK)

            loader.exec_module = run_then
        return spec


def when_torch_is_imported(then: Callable[[], None]) -> None:
    """Calls `then` now, or, in a host or worker, behind the import that is yet to come."""
    if "torch" in _MODULES:
        then()
    else:
        _finder.then.append(then)


_finder = _TorchFinder()
_SEED_MASK = 0x7FFFFFFFFFFFFFFF
_MODULES = sys.modules
_seed_random = random.seed  # looked up anew by prepare_global_random
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


def prepare_global_random() -> None:
    """In a host or worker, before a user's modules are imported: put a LazyRandom behind the functions of the module `random`, and
    be told when torch is imported."""
    if "torch" not in _MODULES and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
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
