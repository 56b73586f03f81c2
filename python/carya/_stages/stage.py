"""One Python function of a pipeline: what it is given, what it makes, and how errors name it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._dtypes import BFLOAT16, is_bfloat16, numpy_dtype
from .._errors import invalid
from .identity import identity
from .padding import Pad
from .regroup import REGROUPS

Declared = dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype and shape of one sample


@dataclass(frozen=True)
class Traits:
    """What a user says of a function, for where it may stand (`_traits/`). It changes no bit, and is part of no identity."""

    elementwise: bool = False
    deterministic: bool = False
    shape_preserving: bool = False
    commutes_with: tuple[str, ...] = ()
    held: bool = False  # a barrier stands somewhere behind it

    @property
    def said(self) -> list[str]:
        """The names of those that are said."""
        named = [name for name in ("elementwise", "deterministic", "shape_preserving") if getattr(self, name)]
        return [*named, *(["commutes_with"] if self.commutes_with else [])]


_NOTHING = Traits()


@dataclass(frozen=True)
class Stage:
    """A function at its place in the chain. `kind`: "map", "filter", "map_batches", "collate", "native" (`fn`: NativeOps),
    "pad_sequences" (Pad), "flat_map", "bucket_by_length" (Bucket), "pack" (Pack), "one_hot" (OneHot), "mixup", "cutmix", "mosaic" (Mixing);
    "weighted" (Weighted or Repeated: the order of an epoch), "budget" (Budget: where batches end);
    beside the samples "start" (called in each worker) and "order" (called in the trainer with an epoch: its records in their
    order)."""

    kind: str
    fn: Callable[..., Any]
    fields: tuple[str, ...] | None = None  # given one by one; None: the whole sample
    out: tuple[str, ...] | None = None  # names of what it returns; None: a whole sample, or the fields themselves
    declared: Declared | None = None
    version: object = None
    seed_globals: bool = True
    takes_rng: bool = False
    occurrence: int = 0  # of its kind in the chain: part of the key of its random numbers
    traits: Traits = _NOTHING

    @property
    def label(self) -> str:
        """How a person knows it: `map(augment)`; of native operations their names."""
        if self.kind == "native":
            return function_name(self.fn)
        return f"{self.kind}({function_name(self.fn)})"

    @property
    def whole(self) -> bool:
        """Whether it makes batches as a whole."""
        if isinstance(self.fn, Pad):
            return self.fn.to is None
        return self.kind in ("collate", "map_batches", "one_hot", "mixup", "cutmix", "mosaic")

    @property
    def per_sample(self) -> bool:
        """Whether it is called for each sample."""
        return self.kind in ("map", "filter", "native", *REGROUPS) or (self.kind == "pad_sequences" and not self.whole)

    def identity(self) -> str:
        """What of it belongs to the fingerprint of a pipeline."""
        parts = (self.kind, self.fields, self.out, self.seed_globals, self.takes_rng, identity(self.fn, self.version))
        return identity([*parts, sorted((self.declared or {}).items())])


def held(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """With a barrier behind them: nothing passes the last function, and operations behind one run as they are written."""
    *before, last = stages
    if last.kind == "native" and before:
        return (*held(tuple(before)), last)
    return (*before, replace(last, traits=replace(last.traits, held=True)))


def function_name(fn: Callable[..., Any]) -> str:
    """How a person knows a function, a partial, or an object that is called."""
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None)
    inner = getattr(fn, "func", None)
    if name is None and inner is not None:
        return f"partial({function_name(inner)})"
    return str(name or type(fn).__qualname__).replace("<locals>.", "")


def made(
    kind: str,
    fn: Callable[..., Any],
    *,
    fields: Any = None,
    out: Any = None,
    version: object = None,
    seed_globals: bool = True,
    occurrence: int = 0,
    said: Traits = _NOTHING,
) -> Stage:
    """A stage of what a user gave. Errors: InvalidArgument that names the parameter."""
    if not callable(fn):
        raise invalid(f"{kind}: fn", fn, "a function")
    if not isinstance(seed_globals, bool):
        raise invalid(f"{kind}: seed_globals", seed_globals, "True or False")
    named = _names(f"{kind}: fields", fields)
    declared, names = None, None
    if isinstance(out, Mapping):
        declared = {str(name): _declared(f"{kind}: out[{name!r}]", one) for name, one in out.items()}
        names = tuple(declared)
    else:
        names = _names(f"{kind}: out", out)
    if declared is None and names is not None and named is None:
        raise invalid(f"{kind}: out", out, "fields= too, the names of what the function is given")
    return Stage(
        kind,
        fn,
        named,
        names if named is not None else None,
        declared,
        version,
        seed_globals,
        takes_rng(fn),
        occurrence,
        said,
    )


def checked_traits(fn: Any, elementwise: Any, deterministic: Any, shape_preserving: Any, commutes_with: Any) -> Traits:
    """What a user said of a function given to `map`. Errors: InvalidArgument that names the parameter."""
    flags = {"elementwise": elementwise, "deterministic": deterministic, "shape_preserving": shape_preserving}
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise invalid(f"map: {name}", value, "True or False")
    if deterministic and callable(fn) and takes_rng(fn):
        raise invalid("map: deterministic", True, "False for a function with a parameter rng, which draws")
    named = () if isinstance(commutes_with, tuple | list) and not commutes_with else commutes_with
    return Traits(elementwise, deterministic, shape_preserving, _names("map: commutes_with", named or None) or ())


def _names(subject: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise invalid(subject, given, "a name or several different ones")
    return names


def _declared(subject: str, given: Any) -> tuple[str, tuple[int, ...]]:
    wanted = 'a pair of dtype and shape of one sample, as ("float32", (3, 224, 224))'
    try:
        dtype, shape = given
        kind = numpy_dtype(dtype)
        sides = tuple(int(side) for side in shape)
    except (TypeError, ValueError):
        raise invalid(subject, given, wanted) from None
    if kind.hasobject or any(side < 0 for side in sides):
        raise invalid(subject, given, wanted)
    return BFLOAT16 if is_bfloat16(kind) else kind.str, sides


def takes_rng(fn: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `rng`."""
    try:
        parameter = inspect.signature(fn).parameters.get("rng")
    except (TypeError, ValueError):  # a function of C
        return False
    return parameter is not None and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
