"""One sample through a source and the functions behind it, in whichever process this is."""

from __future__ import annotations

import copy
import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._dtypes import numpy_dtype
from .._errors import InvalidArgument
from .._joined import ByColumns, as_lists
from .mix import MixSource
from .mixing import Mixing
from .native import NativeOps, NativeRunner, by_source, sounds_behind
from .padding import Pad
from .randomness import GlobalSeeds, StageRandom
from .regroup import REGROUPS, Pack, many
from .source import ArraysSource, NativeSource, Source
from .stage import Stage
from .tree import as_leaf, flatten, own, with_names

_RECORD, _STAGE = 1, 2  # of the cells
_TAKEN = object()


class _Step:
    """A stage with the state of its random numbers. `index`: 1 + its place among the stages."""

    def __init__(self, index: int, stage: Stage, seed: int) -> None:
        self.index, self.stage = index, stage
        self._fn: Any = stage.fn.sample if isinstance(stage.fn, Pad) and stage.per_sample else stage.fn
        key = _core.op_key(seed, stage.kind, stage.occurrence)
        self.random = StageRandom(key) if stage.takes_rng and stage.kind != "native" else None
        self._globals = GlobalSeeds(key) if stage.seed_globals and not stage.traits.deterministic else None
        self.native = NativeRunner(stage.fn, seed) if isinstance(stage.fn, NativeOps) else None
        self.of_record: Any = None  # the source that gives what it makes, whatever stands before it

    def call(self, arguments: Sequence[Any], place: tuple[int, int, int]) -> Any:
        """`place`: epoch, record and its occurrence."""
        if self._globals is not None:
            self._globals.set(*place)
        if self.random is not None:
            return self._fn(*arguments, rng=self.random.at(*place))
        return self._fn(*arguments)


def _tell_sounds(source: Any, steps: Sequence[_Step]) -> None:
    """Operations behind functions are told which arrays are sounds, by what was done before; functions of sounds see theirs.

    Errors: InvalidArgument of such a function.
    """
    fns: list[Any] = [step.stage.fn for step in steps]
    if not isinstance(source, NativeSource) or not any(
        fn.on_sounds if isinstance(fn, NativeOps) else hasattr(type(fn), "check_sounds") for fn in fns
    ):
        return
    known, encoded = source.sounds()
    returned: set[str] = set()  # fields that a function of the user's returned, perhaps at another rate
    for step, fn in zip(steps, fns, strict=True):
        fields, out = step.stage.fields, step.stage.out
        if step.native is not None:
            step.native.sounds = known if fn.on_sounds else {}
            known = sounds_behind(fn.documents, encoded, known)
            continue
        if hasattr(type(fn), "check_sounds"):
            told = {name: known[name] for name in fields or () if name in known}
            fn.check_sounds({name: {**sound, "rate": 0} if name in returned else sound for name, sound in told.items()})
        elif step.stage.kind == "map":
            returned |= {*(out or fields or known)}
        if fields and out and len(fields) == len(out):
            known = {**known, **{new: known[old] for old, new in zip(fields, out, strict=True) if old in known}}


def _asks(stage: Stage) -> bool:
    """Whether a stage asks records for their size."""
    return stage.kind in REGROUPS and getattr(stage.fn, "lengths", None) is None


def labels(source: str, stages: Sequence[Stage]) -> list[str]:
    """How persons know what runs: the source is 0, the stages follow."""
    return [source, *(stage.label for stage in stages)]


class Chain:
    """Threads: one. `cells[STAGE]` says what runs, an index of `labels`, where other processes see it.

    `seconds` sums what each took in the samples made while `timing` is set, and `timed` counts those.
    """

    STAGE = _STAGE

    def __init__(self, source: Source, stages: Sequence[Stage], seed: int, names: Sequence[str] | None = None) -> None:
        self._source = source
        self._names = names
        steps = [_Step(1 + i, stage, seed) for i, stage in enumerate(stages)]
        for i, made in by_source(source, stages).items() if isinstance(source, NativeSource) else ():
            steps[i].of_record = made
        _tell_sounds(source, steps)
        if not steps and names is None and isinstance(source, MixSource):
            source.for_no_function()
        # What a user's source gives may be its own, which functions write into. Arrays are lent to functions of one sample, as ones
        # that refuse to be written, until one of them wants to write.
        self._of_others = bool(steps) and not isinstance(source, ArraysSource | NativeSource)
        self._lends = self._of_others and not any(step.stage.whole for step in steps)
        self._steps = [step for step in steps if step.stage.per_sample]
        at = next((i for i, step in enumerate(self._steps) if step.stage.kind in ("flat_map", "pack")), -1)
        self._regroup = self._steps[at] if at >= 0 else None
        mapped = [step.stage.kind not in ("filter", "bucket_by_length") for step in self._steps]
        self._head = [step for i, step in enumerate(self._steps) if i < at and mapped[i]]
        self._maps = [step for i, step in enumerate(self._steps) if i > at and mapped[i]]
        self._made: tuple[Any, Any] = (None, None)  # what the head made last, and of which record
        self._collate = next((step for step in steps if step.stage.kind == "collate"), None)
        self._batch_steps = [step for step in steps if step.stage.whole and step.stage.kind != "collate"]
        asked = [i for i, step in enumerate(self._steps) if step.stage.kind == "filter" or _asks(step.stage)]
        self._last_asked = max(asked, default=-1)
        self._by_facts, self._facts = self._known_early(source)
        functions: list[Any] = [step.stage.fn for step in self._maps]
        self._by_columns = (
            at < 0
            and names is None
            and getattr(source, "by_columns", False)
            and all(isinstance(fn, ByColumns) for fn in functions)
        )
        self.expects: bool = getattr(source, "expects", False)
        self.asked_again: frozenset[int] = frozenset()  # records whose filters raised
        self.collates = self._collate is not None
        self.labels = labels(source.label, stages)
        self.cells: Any = [0] * 4
        self.timing = False
        self._since = 0.0
        self.seconds = [0.0] * len(self.labels)
        self.timed = 0

    def _known_early(self, source: Any) -> tuple[int, list[str]]:
        """How many filters at the beginning ask for no more of a sample than what its source has in memory, and for what."""
        in_memory: frozenset[str] = getattr(source, "in_memory", frozenset())
        fields: list[str] = []
        for number, step in enumerate(self._steps):
            asked = step.stage.fields
            if step.stage.kind != "filter" or self._names is not None or not asked or not in_memory.issuperset(asked):
                return number, fields
            fields += [name for name in asked if name not in fields]
        return len(self._steps), fields

    def _mark(self, index: int) -> None:
        if self.timing:
            now = time.perf_counter()
            self.seconds[self.cells[_STAGE]] += now - self._since
            self._since = now
        self.cells[_STAGE] = index

    def _begin(self) -> None:
        self._since = time.perf_counter() if self.timing else 0.0
        self.cells[_STAGE] = 0

    def _end(self) -> None:
        self._mark(self.cells[_STAGE])
        self.timed += 1

    def guessed(self, leaves: Mapping[str, Any]) -> bool:
        """Whether a sample has something to pad whose dtype nothing tells: a list without elements."""
        found = False
        for pad in self._pads():
            if pad.to is None:
                found = found or (pad.dtype is None and any(isinstance(leaves.get(name), list) for name in pad.fields))
            found, pad.guesses = found or pad.guesses, False
        return found

    def likes_are(self, likes: Mapping[str, np.ndarray[Any, Any]], as_lists: bool) -> None:
        """What fields of the first sample are like, for what pads samples without elements, also in the pipelines of a mix.
        `as_lists`: for what pads batches."""
        steps = self._batch_steps if as_lists else self._maps
        for step in reversed(steps):
            if isinstance(step.stage.fn, Pad):
                known = {name: likes[name] for name in step.stage.fn.fields if name in likes}
                step.stage.fn.likes = {**step.stage.fn.likes, **known}
            elif not as_lists:
                # What stands behind may have made another field of it. One with a single side is likely to be what was padded.
                likes = {name: like for name, like in likes.items() if like.ndim == 1}
        if not as_lists:
            for chain in self._inner():
                chain.likes_are(likes, as_lists)

    def _pads(self) -> list[Pad]:
        own = [step.stage.fn for step in (*self._maps, *self._batch_steps) if isinstance(step.stage.fn, Pad)]
        return [*own, *(pad for chain in self._inner() for pad in chain._pads())]

    def _inner(self) -> Sequence[Chain]:
        """Those of the pipelines of a mix."""
        return self._source.chains if isinstance(self._source, MixSource) else ()

    @property
    def label(self) -> str:
        """Of what runs, or ran last."""
        return self.labels[int(self.cells[_STAGE])]

    @property
    def direct(self) -> Callable[[int, int, int], Any]:
        """`sample`, or that of the source where nothing stands behind it: then a call is saved."""
        return self.sample if self._steps or self._names is not None else self._source.sample

    def sample(self, record: int, epoch: int, occurrence: int = 0, part: Any = None, of_source: Any = None) -> Any:
        """The sample after all functions; filters have had their say before the stream began, unless they raised.

        It is made anew where a function wanted to write into an array that was lent to it: random numbers are those of the place.
        `part`: which one of the record (`units.Unit`); without it the first of a `flat_map`, or the record as a row of `pack`.
        `of_source`: what the source makes of the record, where that is known.
        """
        try:
            return self._sample(record, epoch, occurrence, part, of_source)
        except Exception as error:
            if not self._lends or not _is_refused_write(error):
                raise
            self._lends = False
            return self._sample(record, epoch, occurrence, part, of_source)

    def _sample(self, record: int, epoch: int, occurrence: int, part: Any, of_source: Any) -> Any:
        timing = self.timing
        if timing:
            self._begin()
        else:
            self.cells[_STAGE] = 0
        place = (epoch, record, occurrence)
        if self._regroup is not None:
            value, place = self._regrouped(self._regroup, place, part)
        elif self._maps and self._maps[0].of_record is not None:
            value = None
        else:
            lends = self._lends and "torch" not in sys.modules  # whose tensors write whatever an array says
            value = self._from_source(record, epoch, occurrence, lends) if of_source is None else of_source
        if self._maps:
            for step in self._maps:
                value = self._mapped(step, value, place)
        if record in self.asked_again:
            self.survives(record)
        if timing:
            self._end()
        return value

    def expect(self, records: Sequence[int]) -> None:
        """The samples of these are asked for next, where `expects` says that the source wants to know."""
        source: Any = self._source
        source.expect(records)

    def columns(self, records: Sequence[int]) -> dict[str, Any] | None:
        """The samples of some records, made at once; None where only one by one will do.

        That is where a source or function is the user's or draws, where samples are large, and where one of them is broken.
        """
        if not self._by_columns or self.asked_again:
            return None
        source: Any = self._source
        self._begin()
        try:
            given: dict[str, Any] | None = source.columns(records)
            for step in self._maps if given is not None else ():
                self._mark(step.index)
                maker: Any = step.stage.fn
                given = maker.columns(given)
        except Exception:
            return None
        self._end()
        self.timed += len(records) - 1
        return given

    def _from_source(self, record: int, epoch: int, occurrence: int, lends: bool = False) -> Any:
        value = self._source.sample(record, epoch, occurrence)
        if self._names is not None:
            value = with_names(value, self._names)
        if self._of_others:
            given = [value]
            del value  # nobody but `given` has it for us
            return own(given, lends)
        return value

    def _regrouped(self, step: _Step, place: tuple[int, int, int], part: Any) -> tuple[Any, tuple[int, int, int]]:
        """A sample of a `flat_map` or a row of `pack`, and what keys the random numbers behind it."""
        epoch, record, occurrence = place
        pack = step.stage.fn
        if not isinstance(pack, Pack):
            number, count = part or (0, None)
            items = self._of_record(step, place)
            if count is None:
                count = len(items)
                if not items:
                    raise InvalidArgument(
                        f"{step.stage.label}: it makes no sample of record {record}; ask for another record"
                    )
            if len(items) != count or items[number] is _TAKEN:
                self._made = (None, None)
                items = self._of_record(step, place)
            if len(items) != count:
                raise InvalidArgument(
                    f"{step.stage.label}: it makes {len(items)} samples of record {record}, and made {count} before the first batch; "
                    "let their number depend on nothing but the record"
                )
            given, items[number] = [items[number]], _TAKEN  # a function behind it may write into it
            return own(given), (epoch, record, occurrence + (number << 32))
        row, spans = part or (record, None)
        pieces = []
        for one, begin, end, size in spans or [(record, 0, pack.length, None)]:
            self.cells[_RECORD] = one
            arrays = self._of_record(step, (epoch, one, 0))
            if size is not None and len(arrays[0]) != size:
                raise InvalidArgument(
                    f"{step.stage.label}: record {one} has {len(arrays[0])} elements, and {size} were told before the first batch; let "
                    "its length depend on nothing but the record, and lengths= be right"
                )
            pieces.append(([array[begin:end] for array in arrays], begin))
        self.cells[_RECORD] = record
        return pack.row(pieces), (epoch, row, occurrence)

    def _of_record(self, step: _Step, place: tuple[int, int, int]) -> Any:
        """What a `flat_map` makes of a record, or the fields to pack; the last one is kept."""
        if self._made[0] != place:
            epoch, record, occurrence = place
            value = self._from_source(record, epoch, occurrence)
            for before in self._head:
                value = self._mapped(before, value, place)
            self._mark(step.index)
            pack = step.stage.fn
            self._made = (place, pack.arrays(value) if isinstance(pack, Pack) else self._many(step, value, place))
        return self._made[1]

    @staticmethod
    def _many(step: _Step, value: Any, place: tuple[int, int, int]) -> list[Any]:
        return many(step.stage.label, step.call((value,), place))

    def survives(self, record: int) -> bool:
        """Whether all filters keep the record, by the numbers of epoch 0."""
        return self.size(record) >= 0

    def size(self, record: int) -> int:
        """By the numbers of epoch 0: -1 where a filter drops the record, else what the stage that regroups asks for, else 1."""
        self._begin()
        place = (0, record, 0)
        if self._by_facts:
            source: Any = self._source
            value = source.facts(record, self._facts)
            for step in self._steps[: self._by_facts]:
                self._mark(step.index)
                if not step.call(self._arguments(step.stage, value), place):
                    return -1
            if self._by_facts > self._last_asked:
                return 1
            self._mark(0)
        value = self._from_source(record, 0, 0)
        for step in self._steps[self._by_facts : self._last_asked + 1]:
            self._mark(step.index)
            if step.stage.kind == "flat_map":
                return len(self._many(step, value, place))
            if step.stage.kind in REGROUPS:
                return int(step.call((value,), place))
            if step.stage.kind != "filter":
                value = self._mapped(step, value, place)
            elif not step.call(self._arguments(step.stage, value), place):
                return -1
        return 1

    def walk(self, record: int) -> Iterator[tuple[int | None, Any]]:
        """What there is of a record of epoch 0 behind the source (None) and behind each stage that makes samples of it, by its
        number; where samples are no single records, behind the source only."""
        value, place = self._from_source(record, 0, 0), (0, record, 0)
        yield None, value
        for step in self._maps if self._regroup is None else ():
            value = self._mapped(step, value, place)
            yield step.index - 1, value

    def calls(self, record: int) -> Iterator[tuple[int, Any, tuple[int, int, int], Callable[..., Any]]]:
        """Each call of a function of which a user says something, for a record in epoch 0: which stage it is, a copy of what it
        is given, its place, and how to call it again with both. None where samples are no single records."""
        if self._regroup is not None:
            return
        place = (0, record, 0)
        value = self._from_source(record, 0, 0)
        for step in self._maps:
            given = copy.deepcopy(value) if step.stage.traits.said else None
            value = self._mapped(step, value, place)
            if step.stage.traits.said:
                yield step.index - 1, given, place, functools.partial(self._mapped, step)

    def leaves(self, sample: Any) -> dict[str, Any]:
        """A sample as named arrays, and objects that are none."""
        if sample is None:
            raise InvalidArgument(
                f"{self.label}: it returned None; return the sample: an array, a dict or a tuple of them"
            )
        return {name: as_leaf(value) for name, value in flatten(sample).items()}

    def batch(self, samples: list[Any] | dict[str, Any], place: tuple[int, int, int], count: int) -> Any:
        """What the collate function and those of whole batches make of it. `count`: rows of the batch that are samples."""
        value: Any = samples
        for step in ([self._collate] if self._collate else []) + self._batch_steps:
            self._mark(step.index)
            mixing, random = step.stage.fn, step.random
            if not isinstance(mixing, Pad):
                value = as_lists(value)
            if isinstance(mixing, Mixing) and random is not None:
                value = mixing(value, place, random.at, count)
            else:
                value = step.call((value,), place)
        return as_lists(value)

    def _arguments(self, stage: Stage, value: Any) -> tuple[Any, ...]:
        if stage.fields is None:
            return (value,)
        named = flatten(value)
        missing = [name for name in stage.fields if name not in named]
        if missing:
            raise InvalidArgument(
                f"{stage.label}: fields: the sample has no {missing[0]!r}; give one of {tuple(named)}"
            )
        return tuple(named[name] for name in stage.fields)

    def _mapped(self, step: _Step, value: Any, place: tuple[int, int, int]) -> Any:
        stage = step.stage
        if self.timing:
            self._mark(step.index)
        else:
            self.cells[_STAGE] = step.index
        if step.of_record is not None:
            epoch, record, occurrence = place
            return step.of_record.sample(record, epoch, occurrence)
        if step.native is not None:
            return step.native(value, place)
        if stage.fields is None:
            result = step.call((value,), place)
            if stage.declared is not None:
                _check_declared(stage, flatten(result))
            return result
        result = step.call(self._arguments(stage, value), place)
        out = stage.out or stage.fields
        if len(out) == 1:
            made = {out[0]: result}
        elif isinstance(result, tuple) and len(result) == len(out):
            made = dict(zip(out, result, strict=True))
        else:
            given = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
            raise InvalidArgument(
                f"{stage.label}: it returned {given}; return a tuple of {len(out)} values, for {', '.join(out)}"
            )
        if stage.declared is not None:
            _check_declared(stage, made)
        return {**flatten(value), **made}


def _is_refused_write(error: Exception) -> bool:
    """Whether a library says that an array is not to be written: numpy "is read-only", others "readonly"."""
    return "read-only" in str(error) or "readonly" in str(error)


def _check_declared(stage: Stage, made: Mapping[str, Any]) -> None:
    for name, (dtype, shape) in (stage.declared or {}).items():
        if name not in made:
            raise InvalidArgument(f"{stage.label}: it returned no {name!r}, which out= declares; return {name!r} too")
        leaf = as_leaf(made[name])
        if not isinstance(leaf, np.ndarray):
            raise InvalidArgument(
                f"{stage.label}: {name}: it returned an object of type {type(leaf).__name__}; out= declares "
                f"{numpy_dtype(dtype)} {shape}: return an array"
            )
        check_like(f"{stage.label}: {name}", leaf, numpy_dtype(dtype), shape, "out= declares")


def check_like(
    subject: str, leaf: np.ndarray[Any, Any], dtype: np.dtype[Any], shape: tuple[int, ...], who: str
) -> None:
    """Errors: InvalidArgument, when a leaf has another dtype or shape than it should."""
    if leaf.dtype != dtype or leaf.shape != shape:
        raise InvalidArgument(
            f"{subject}: got {leaf.dtype} {leaf.shape}, and {who} {dtype} {shape}; return arrays of one dtype and shape, or "
            f'give .batch(n, lists=("{subject.rsplit(": ", 1)[-1]}",)) to have a list of them'
        )
