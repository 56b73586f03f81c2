"""Whether what a user says of functions is so: tried on samples, with the first difference where it is not."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._stages.chain import Chain
from .._stages.stage import Stage
from .._stages.tree import as_leaf, flatten, rebuild, shape_of

Array = np.ndarray[Any, Any]
Leaves = dict[str, Any]
# A part of a picture is without so many elements at the ends of a side, where that has more: not as many at both.
_ENDS = (1, 3)


@dataclass(frozen=True)
class Found:
    """What samples say of a trait. `against`: the counter-example; "" where there is none. `tried`: on how many samples."""

    function: str
    trait: str
    tried: int
    against: str = ""

    @property
    def refusal(self) -> str:
        """What a loader raises."""
        said = (
            "commutes_with names operations that it"
            if self.trait == "commutes_with"
            else f"{self.trait}=True, which it"
        )
        return (
            f"{self.function}: {said} does not keep to: {self.against}; leave {self.trait} out, or make the function so"
        )


def _unheard(record: int) -> None:
    """Nobody looks how long a call takes."""


def tried(
    chain: Chain, stages: Sequence[Stage], records: Sequence[int], beat: Callable[[int], None] = _unheard
) -> list[Found]:
    """What is said of each function alone, on what comes to it of these records. Records that raise are passed over.

    `beat(record)` is called before each call, so that each has the time that one may take.
    """
    seen: dict[tuple[int, str], int] = {}
    against: dict[tuple[int, str], str] = {}
    for record in records:
        beat(record)
        try:
            for number, value, place, again in chain.calls(record):
                call = _heard(again, functools.partial(beat, record))
                for trait, probe in _PROBES.items():
                    key = (number, trait)
                    if trait not in stages[number].traits.said or key in against:
                        continue
                    seen[key] = seen.get(key, 0) + 1
                    try:
                        difference = probe(stages[number], value, place, call)
                    except Exception as error:  # it has made something of the same sample before
                        difference = f"it raises {type(error).__name__}: {error}"
                    if difference:
                        against[key] = f"record {record}, {difference}"
                beat(record)
        except Exception:  # of a record that is bad data: the stream will say so
            continue
    return [
        Found(stage.label, trait, seen.get((number, trait), 0), against.get((number, trait), ""))
        for number, stage in enumerate(stages)
        for trait in stage.traits.said
        if trait in _PROBES
    ]


def compared(
    written: Chain,
    runs: Chain,
    functions: Sequence[str],
    records: Sequence[int],
    epochs: Sequence[int] = (0,),
    beat: Callable[[int], None] = _unheard,
) -> list[Found]:
    """Whether the chain that runs makes what the one that is written makes. `functions`: those that were passed."""
    seen = 0
    for record in records:
        for epoch in epochs:
            beat(record)
            try:
                as_written = written.leaves(written.sample(record, epoch))
            except Exception:  # bad data
                continue
            beat(record)
            try:
                as_run = runs.leaves(runs.sample(record, epoch))
            except Exception as error:
                difference = f"the other order raises {type(error).__name__}: {error}"
            else:
                difference = first_difference(as_run, as_written, "in the order that runs", "as written")
            seen += 1
            if difference:
                where = f"record {record}, {difference}"
                return [Found(label, "commutes_with", seen, where) for label in functions]
    return [Found(label, "commutes_with", seen) for label in functions]


def first_difference(one: Leaves, other: Leaves, of_one: str, of_other: str) -> str:
    """Where two samples differ in a bit: field, place and both values; "" where they do not."""
    if list(one) != list(other):
        return f"fields {', '.join(one)} {of_one} and {', '.join(other)} {of_other}"
    for name, value in one.items():
        a, b = value, other[name]
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            if type(a) is not type(b) or (isinstance(a, str | bytes | int | float | bool) and a != b):
                return f"{name}: {a!r} {of_one} and {b!r} {of_other}"
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{name}: {a.dtype} {a.shape} {of_one} and {b.dtype} {b.shape} {of_other}"
        if a.dtype.hasobject:
            continue
        apart = np.frombuffer(np.ascontiguousarray(a).tobytes(), np.uint8) != np.frombuffer(
            np.ascontiguousarray(b).tobytes(), np.uint8
        )
        if apart.any():
            at = np.unravel_index(int(np.argmax(apart)) // a.itemsize, a.shape)
            index = ", ".join(str(int(side)) for side in at)
            return f"{name}[{index}]: {a[at]} {of_one} and {b[at]} {of_other}"
    return ""


# Of one trait -------------------------------------------------------------------------------------------------------------

Place = tuple[int, int, int]
Call = Callable[[Any, Place], Any]


def _heard(call: Call, beat: Callable[[], None]) -> Call:
    def heard(value: Any, place: Place) -> Any:
        beat()
        return call(value, place)

    return heard


def _leaves(value: Any) -> Leaves:
    return {name: as_leaf(leaf) for name, leaf in flatten(value).items()}


def _made(call: Call, value: Any, place: Place) -> Leaves:
    return _leaves(call(copy.deepcopy(value), place))


def _deterministic(_: Stage, value: Any, place: Place, call: Call) -> str:
    epoch, record, occurrence = place
    first, again = _made(call, value, place), _made(call, value, (epoch + 1, record, occurrence))
    return first_difference(first, again, "at one call", "at the next one")


def _shape_preserving(stage: Stage, value: Any, place: Place, call: Call) -> str:
    made = _made(call, value, place)
    for name, leaf in _given(stage, value).items():
        other = made.get(name)
        if not isinstance(other, np.ndarray) or other.shape != leaf.shape:
            shape = other.shape if isinstance(other, np.ndarray) else "no array"
            return f"{name}: {leaf.shape} before it and {shape} behind it"
    return ""


def _elementwise(stage: Stage, value: Any, place: Place, call: Call) -> str:
    """Elements are taken from what it is given, and from what it makes: mirrored along a side, or without its ends."""
    given = _given(stage, value)
    sides: Sequence[int] = max((leaf.shape[:2] for leaf in given.values()), key=len, default=())
    if not sides:
        return ""
    whole, before = _made(call, value, place), _leaves(value)
    parted = {name for name, leaf in given.items() if leaf.shape[: len(sides)] == sides}
    for what, taken in _takings(sides):
        expected = {
            name: leaf[taken]
            if isinstance(leaf, np.ndarray)
            and leaf.shape[: len(sides)] == sides
            and (name in parted or name not in before)
            else leaf
            for name, leaf in whole.items()
        }
        made = _made(call, _with_part(value, parted, taken), place)
        if difference := first_difference(made, expected, f"of its input {what}", f"of its output {what}"):
            return difference
    return ""


def _takings(sides: Sequence[int]) -> Iterator[tuple[str, tuple[slice, ...]]]:
    for axis in range(len(sides)):
        yield f"mirrored along side {axis}", (slice(None),) * axis + (slice(None, None, -1),)
    yield (
        "without its ends",
        tuple(slice(_ENDS[0], side - _ENDS[1]) if side > sum(_ENDS) else slice(side) for side in sides),
    )


def _given(stage: Stage, value: Any) -> dict[str, Array]:
    """The arrays that a function is given."""
    return {
        name: leaf
        for name, leaf in _leaves(value).items()
        if isinstance(leaf, np.ndarray) and (stage.fields is None or name in stage.fields)
    }


def _with_part(value: Any, names: set[str], taken: tuple[slice, ...]) -> Any:
    """The same sample with a part of some of its arrays."""
    leaves = []
    for name, leaf in flatten(value).items():
        part = np.ascontiguousarray(as_leaf(leaf)[taken]) if name in names else leaf
        # A function of tensors is given tensors.
        leaves.append(leaf.new_tensor(part) if part is not leaf and hasattr(leaf, "new_tensor") else part)
    made = rebuild(shape_of(value), iter(leaves))
    return tuple(made) if type(value) is tuple else made


_PROBES: dict[str, Callable[[Stage, Any, Place, Call], str]] = {
    "elementwise": _elementwise,
    "deterministic": _deterministic,
    "shape_preserving": _shape_preserving,
}
