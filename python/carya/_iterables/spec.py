"""What a pipeline holds of an iterable, and the checks of what a user gave."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid
from .._options import integer
from .._stages.identity import identity
from .._stages.source import Sharded
from .._stages.stage import function_name

_SHARDS_MAX = 1 << 16
_SAMPLES_MAX = 1 << 40
# Parameters of the function that are given by name where it has them.
_NAMED = ("epoch", "start")


@dataclass(frozen=True)
class IterableSpec(Sharded):
    """`lengths`: of each shard, where they are given. `samples`: of an epoch of shards that begin anew. `takes`: of `_NAMED`."""

    fn: Callable[..., Any]
    shards: int
    lengths: tuple[int, ...] | None
    samples: int | None
    window: int
    names: tuple[str, ...] | None
    seed_globals: bool
    version: object
    takes: frozenset[str]

    @property
    def label(self) -> str:
        return f"iterable({function_name(self.fn)})"

    @property
    def count(self) -> int:
        if self.samples is not None:
            return self.samples
        return 1 if self.lengths is None else sum(self.lengths)

    @property
    def endless(self) -> bool:
        return self.samples is not None

    @property
    def known(self) -> bool:
        return self.lengths is not None

    @property
    def span(self) -> int:
        return self.count if self.lengths is None else max(self.lengths) * self.shards

    def fingerprint(self) -> str:
        said = [self.label, self.shards, self.lengths, self.samples, self.window, self.names, self.seed_globals]
        return identity([*said, identity(self.fn, self.version)])

    @property
    def unsaid(self) -> Any:
        return self.fn if self.version is None else None

    def has(self, record: int) -> bool:
        if record < 0 or self.lengths is None:
            return record >= 0
        return record // self.shards < self.lengths[record % self.shards]

    def where(self, record: int) -> str:
        return f"sample {record // self.shards} of shard {record % self.shards}"

    def open(self, seed: int, shuffle: bool, folder: str) -> Any:
        from .reading import IterableSource

        return IterableSource(self, seed, shuffle, folder)


def checked_iterable(
    fn: Any, shards: Any, lengths: Any, samples: Any, window: Any, names: Any, seed_globals: Any, version: object
) -> IterableSpec:
    """The spec of what a user gave to `carya.iterable`. Errors: InvalidArgument that names the parameter."""
    if not callable(fn) or isinstance(fn, type):
        wanted = "a function that gives an iterator of the samples of a shard: fn(shard)"
        if hasattr(fn, "__iter__"):
            wanted += ", since an iterator can be read once only; for an object that can be iterated anew, give a function that does it"
        raise invalid("iterable: fn", fn.__name__ if isinstance(fn, type) else fn, wanted)
    count = integer("iterable: shards", shards, 1, f"an integer of 1 to {_SHARDS_MAX}", _SHARDS_MAX)
    if lengths is not None and samples is not None:
        raise InvalidArgument(
            "iterable: samples: it is for shards whose lengths are not known, and lengths= is given; give one of the two"
        )
    if samples is not None:
        wanted = f"how many samples an epoch has, an integer of 1 to {_SAMPLES_MAX}"
        samples = integer("iterable: samples", samples, 1, wanted, _SAMPLES_MAX)
    listed = None if lengths is None else _lengths(lengths, count)
    wanted = f"how many neighbouring samples .shuffle(...) mixes, an integer of 1 to {1 << 24}"
    window = integer("iterable: window", window, 1, wanted, 1 << 24)
    if names is not None:
        named = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else ()
        if not named or not all(isinstance(name, str) and name for name in named) or len(set(named)) < len(named):
            raise invalid("iterable: names", names, "a different name for each element of the samples' tuples")
        names = named
    if not isinstance(seed_globals, bool):
        raise invalid("iterable: seed_globals", seed_globals, "True or False")
    return IterableSpec(fn, count, listed, samples, window, names, seed_globals, version, _takes(fn))


def _lengths(given: Any, shards: int) -> tuple[int, ...]:
    wanted = (
        f"how many samples each of the {shards} shards has: an integer, or {shards} of them, and more than 0 in all"
    )
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.zeros(0)
    if array.ndim == 0 and not isinstance(given, bool):
        array = np.full(shards, array)
    whole = array.dtype.kind in "iu" and array.ndim == 1 and len(array) == shards
    if not whole or int(array.min()) < 0 or not 0 < sum(map(int, array)) <= _SAMPLES_MAX:
        raise invalid("iterable: lengths", given, wanted)
    return tuple(array.tolist())


def _takes(fn: Callable[..., Any]) -> frozenset[str]:
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):  # a function of C
        return frozenset()
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    listed = list(parameters.values())
    if not any(one.kind in (*kinds[1:], one.POSITIONAL_ONLY, one.VAR_POSITIONAL) for one in listed):
        raise invalid("iterable: fn", function_name(fn), "a function of one argument, the number of the shard")
    return frozenset(name for name in _NAMED if name in parameters and parameters[name].kind in kinds)
