"""Where native operations pass functions of which a user has said that they may.

In the sense "exact" with the same bits; under "rounding" and "relaxed" also operations that compute pixels, such as a resize,
which pass a function of pixels as far as they pass a color of the core's own. Chosen from the pipeline alone, by no measurement: every rank, resume and run has the same chain, so that the stream would be
one stream even where what was said is not so and samples did not show it.
"""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._dtypes import numpy_dtype
from .._errors import Error
from .._stages.native import NativeOps, part_mark
from .._stages.spec import StreamSpec
from .._stages.stage import Stage

# An operation is tried on a picture, or else on a row of numbers, to see what it makes of a size.
_TRIED: tuple[tuple[int, ...], ...] = ((1024, 1024, 3), (1024,))


# Entries of a document that are no operations.
_ENTRIES = ("barrier", "reuse_augmentation", "part")
# What each sense allows.
_SENSES = {"exact": ("exact",), "rounding": ("exact", "rounding"), "relaxed": ("exact", "rounding", "relaxed")}


class _Op:
    """A native operation on its way. `part`: whose random numbers it has, None for those of the chain before all functions."""

    def __init__(self, document: Mapping[str, Any], part: int | None) -> None:
        self.document, self.part = document, part
        self.name = str(document["op"])
        self.entry = self.name in _ENTRIES
        # What it does by itself: not known of one that takes what is no array yet. Such a one passes nothing.
        self.tried = False
        self.draws = self.grows = False
        self.passes = "never"  # how far it may change places with a function of pixels
        for shape in () if self.entry else _TRIED:
            described = {"dtype": "uint8", "shape": list(shape), "fingerprint": "0" * 32}
            source = {
                "type": "arrays",
                "count": 1,
                "arrays": dict.fromkeys(document.get("fields") or ["image"], described),
            }
            try:
                alone = _core.Pipeline.parse(json.dumps({"version": 1, "source": source, "ops": [dict(document)]}))
            except Error:
                continue
            self.tried = True
            (self.draws,) = alone.draws()
            (self.passes,) = alone.passes_pixelwise()
            _, dtype, sides = alone.outputs()[0]
            known = [side for side in sides if side is not None]
            self.grows = len(known) == len(sides) and math.prod(known) * numpy_dtype(dtype).itemsize > math.prod(shape)
            return


class Move(NamedTuple):
    """`op` of a part runs on the other side of the function `stage`, of that number among those written, than it is written.
    `before`: before it. `why`: the trait that allows it."""

    op: str
    part: int | None
    stage: str
    number: int
    before: bool
    why: str


class Declared(NamedTuple):
    """Of a chain in which operations have passed functions: what was written, what has moved, and in which sense."""

    native: str
    stages: tuple[Stage, ...]
    has_ops: bool
    moves: tuple[Move, ...]
    sense: str


class Orders:
    """In which orders the operations and functions of a pipeline may run. `native`: its native part, None where the samples are
    Python's. Its document is looked at when an order is asked for: it may list millions of files."""

    def __init__(self, native: _core.Pipeline | None, stages: Sequence[Stage]) -> None:
        self._native, self._stages = native, tuple(stages)

    def fixed(self, sense: str) -> list[int]:
        """That of a stream in this sense, as numbers of what is written; empty where it gives the bits of what is written."""
        if sense not in _SENSES or sense == "exact":
            return []
        written = self._chain()
        own = self._run(written, sense)
        return [] if own == self._run(written, "exact") else own

    @functools.cached_property
    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"ops": []} if self._native is None else json.loads(self._native.to_json())
        return document

    @property
    def labels(self) -> list[str]:
        return [one.name if isinstance(one, _Op) else one.label for one in self._chain()]

    def _run(self, written: list[_Op | Stage], sense: str) -> list[int]:
        chain = list(written)
        _move(chain, self._stages, self._native is not None, sense)
        at = next((i for i, one in enumerate(chain) if isinstance(one, Stage)), len(chain))
        first = [one for one in chain[:at] if isinstance(one, _Op)]
        if self._native is not None and first and sense != "exact":
            ops = _marked(first, None)
            order = _core.Pipeline.parse(json.dumps(self._document | {"ops": ops})).fixed_order(sense)
            chain[:at] = [first[number] for number in order] if order else first
        place = {id(one): number for number, one in enumerate(written)}
        return [place[id(one)] for one in chain]

    def _chain(self) -> list[_Op | Stage]:
        """Without what is no operation, since that is no part of an order."""
        return [one for one in _chain(self._document["ops"], self._stages) if not isinstance(one, _Op) or not one.entry]


def moved(spec: StreamSpec, sense: str = "exact") -> StreamSpec:
    """The chain as it runs. `declared` of it has the one that was written, where it is another one; `order` is that of the native
    operations before all functions, where it gives other bits."""
    native, says = spec.dataset is None, any(stage.traits.said for stage in spec.stages)
    if not says and sense == "exact":
        return spec
    document = json.loads(spec.native)
    moves: list[Move] = []
    if says:
        chain = _chain(document["ops"] if native else (), spec.stages)
        moves = _move(chain, spec.stages, native, sense)
    if moves:
        before, stages = _rebuilt(chain, native)
        rewritten: dict[str, Any] = (
            {"native": json.dumps(document | {"ops": before}), "has_ops": bool(before)} if native else {}
        )
        declared = Declared(spec.native, spec.stages, spec.has_ops, tuple(moves), sense)
        spec = replace(spec, stages=tuple(stages), declared=declared, **rewritten)
    if native and sense != "exact":
        spec.order = _core.Pipeline.parse(spec.native).fixed_order(sense)
    return spec


def settled(spec: StreamSpec, kept: np.ndarray[Any, Any] | None) -> StreamSpec:
    """The chain of the records that its filters keep: it needs no filter, and operations behind filters and samplers stand before
    the functions. `kept`: None where there are no filters."""
    document = json.loads(spec.native)
    aside = ("filter", "weighted")
    chain = [one for one in _chain(document["ops"], spec.stages) if isinstance(one, _Op) or one.kind not in aside]
    before, stages = _rebuilt(chain, native=True)
    samplers = [stage for stage in spec.stages if stage.kind == "weighted"]
    order = spec.order and [*spec.order, *range(len(spec.order), sum(one["op"] not in _ENTRIES for one in before))]
    native = json.dumps(document | {"ops": before})
    return replace(
        spec, native=native, has_ops=bool(before), stages=(*stages, *samplers), order=order, kept=kept, settled=True
    )


def as_written(spec: StreamSpec) -> StreamSpec:
    """The chain that was written, of one that runs."""
    if spec.declared is None:
        return replace(spec, order=[]) if spec.order else spec
    of = spec.declared
    return replace(spec, native=of.native, stages=of.stages, has_ops=of.has_ops, declared=None, order=[])


def moves_of(spec: StreamSpec) -> tuple[Move, ...]:
    """What has moved in a chain that runs."""
    return () if spec.declared is None else spec.declared.moves


def keeps_bits(spec: StreamSpec) -> bool:
    """Whether operations have passed functions of which the user says that this changes no bit."""
    return spec.declared is not None and spec.declared.sense == "exact"


def passed(spec: StreamSpec) -> list[str]:
    """The functions that operations have passed."""
    return list(dict.fromkeys(move.stage for move in moves_of(spec)))


def _chain(ops: Sequence[Mapping[str, Any]], stages: Sequence[Stage]) -> list[_Op | Stage]:
    """What is written, one after the other. `ops`: before all stages."""
    chain: list[_Op | Stage] = [_Op(one, None) for one in ops]
    for stage in stages:
        own = stage.fn if isinstance(stage.fn, NativeOps) else None
        chain += [stage] if own is None else [_Op(one, own.number) for one in own.documents]
    return chain


def _move(chain: list[_Op | Stage], stages: Sequence[Stage], native: bool, sense: str) -> list[Move]:
    """Bring a chain into the order in which it runs; what has moved."""
    numbers = {id(stage): number for number, stage in enumerate(stages)}
    passable = _passable(chain, native)
    return [
        Move(op.name, op.part, stage.label, numbers[id(stage)], before, why)
        for op, stage, before, why in [*_forward(chain, passable, sense), *_back(chain, passable)]
    ]


def _passable(chain: Sequence[_Op | Stage], native: bool) -> set[int]:
    """Functions, by `id`, that get the same form of a sample wherever operations run: these make a dict of it."""
    found, is_dict = set(), native
    for one in chain:
        if isinstance(one, Stage) and one.kind == "map":
            is_dict = is_dict or one.fields is not None
            # What is made under other names is not there yet where an operation runs before.
            if is_dict and one.out in (None, one.fields) and not one.traits.held:
                found.add(id(one))
            is_dict = one.fields is not None
        elif isinstance(one, Stage):
            is_dict = is_dict and one.kind != "flat_map"
        else:
            is_dict = True
    return found


def could_pass(spec: StreamSpec, number: int) -> list[str]:
    """Operations that would run before a function if it were said to be elementwise, which it is not."""
    stage = spec.stages[number]
    if stage.kind != "map" or stage.traits.elementwise:
        return []
    said = replace(stage, traits=replace(stage.traits, elementwise=True))
    stages = (*spec.stages[:number], said, *spec.stages[number + 1 :])
    there = {move.op for move in moves_of(moved(spec)) if move.number == number}
    others = moves_of(moved(replace(spec, stages=stages)))
    return [move.op for move in others if move.number == number and move.op not in there]


def _forward(chain: list[_Op | Stage], passable: set[int], sense: str) -> Iterator[tuple[_Op, Stage, bool, str]]:
    """Operations that make arrays no larger go before functions."""
    alone = _alone(chain)
    for start in range(1, len(chain)):
        at, op = start, chain[start]
        if not isinstance(op, _Op) or (op.part, op.name) not in alone or op.grows:
            continue
        while at > 0 and isinstance(stage := chain[at - 1], Stage) and id(stage) in passable:
            if not (why := _allowed(op, stage, sense)):
                break
            chain[at - 1], chain[at] = op, stage
            at -= 1
            yield op, stage, True, why


def _back(chain: list[_Op | Stage], passable: set[int]) -> Iterator[tuple[_Op, Stage, bool, str]]:
    """Operations that make arrays larger, and draw nothing, go behind functions that say so of them."""
    alone = _alone(chain)
    for start in reversed(range(len(chain) - 1)):
        at, op = start, chain[start]
        if not isinstance(op, _Op) or (op.part, op.name) not in alone or op.draws or not op.grows:
            continue
        while at + 1 < len(chain) and isinstance(stage := chain[at + 1], Stage):
            if (
                id(stage) not in passable
                or op.name not in stage.traits.commutes_with
                or not _allowed(op, stage, "exact")
            ):
                break
            chain[at], chain[at + 1] = stage, op
            at += 1
            yield op, stage, False, "commutes_with"


def _allowed(op: _Op, stage: Stage, sense: str) -> str:
    """The trait by which the two may change places; "" for none."""
    said = stage.traits
    if not op.tried or "keep_position" in op.document or "depends_on" in op.document:
        return ""
    if said.elementwise and op.passes in _SENSES[sense]:
        return "elementwise"
    # The random numbers of an operation may follow the size of what it is given.
    if op.name in said.commutes_with and (not op.draws or said.elementwise or said.shape_preserving):
        return "commutes_with"
    return ""


def _alone(chain: Sequence[_Op | Stage]) -> set[tuple[int | None, str]]:
    """Operations that are the only one of their name in their part: of several, the number of one is part of its key. Nor are
    those that another one has to run behind, which knows them by name."""
    ops = [op for op in chain if isinstance(op, _Op)]
    counts = Counter((op.part, name) for op in ops for name in _names(op.document))
    needed = {str(name).split("#")[0] for op in ops for name in op.document.get("depends_on") or ()}
    return {
        (op.part, op.name)
        for op in ops
        if op.name not in needed and all(counts[op.part, name] == 1 for name in _names(op.document))
    }


def _names(document: Mapping[str, Any]) -> list[str]:
    """Of an operation and those inside of it."""
    return [str(document["op"]), *(name for one in document.get("ops") or () for name in _names(one))]


def _rebuilt(chain: Sequence[_Op | Stage], native: bool) -> tuple[list[Mapping[str, Any]], list[Stage]]:
    """The documents before the first function, where the source is native, and the stages."""
    before: list[Mapping[str, Any]] = []
    stages: list[Stage] = []
    group: list[_Op] = []

    def close() -> None:
        if not group:
            return
        if native and not stages:
            before.extend(_marked(group, None))
        else:
            number = next((op.part for op in group if op.part is not None), 0)
            made = NativeOps(_marked(group, number), number)
            stages.append(Stage("native", made, seed_globals=False, takes_rng=any(op.draws for op in group)))
        group.clear()

    for one in chain:
        if isinstance(one, _Op):
            group.append(one)
        else:
            close()
            stages.append(one)
    close()
    return before, stages


def _marked(group: Sequence[_Op], part: int | None) -> list[Mapping[str, Any]]:
    """Their documents, with a mark wherever the part changes. One of no part draws nothing behind a function."""
    documents: list[Mapping[str, Any]] = []
    for op in group:
        if op.part is not None and op.part != part:
            documents.append(part_mark(op.part))
            part = op.part
        documents.append(op.document)
    return documents
