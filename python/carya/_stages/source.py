"""Where a stream of Python functions takes its samples from: a user's dataset, arrays, or a native pipeline."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .. import _core
from .._errors import InvalidArgument, invalid
from .._joined import ByColumns, Expecting
from .identity import identity
from .native import Sounds, fields_of_files, sounds_behind
from .randomness import GlobalSeeds


class Source(Protocol):
    """Samples by record."""

    label: str

    def sample(self, record: int, epoch: int, occurrence: int) -> Any:
        """The sample of a record (after the views)."""


class Placed(Source, Protocol):
    """A source that says itself which record has which position."""

    opening: bool  # what was raised last kept a shard from being begun, and says nothing about a record

    def rows(self, epoch: int, first: int, count: int) -> tuple[list[int], list[int]]:
        """The record of each of these positions, and the epoch that keys its random numbers."""

    def owners(self, records: np.ndarray[Any, Any], workers: int) -> np.ndarray[Any, Any]:
        """Which worker makes the sample of each record."""

    def substitute(self, seed: int, epoch: int, position: int, draw: int, record: int) -> int:
        """The record that takes the place of a broken one."""

    def heard_by(self, beat: Callable[[int], None]) -> None:
        """Call `beat(record)` before each sample that is taken of an iterator, also one that is passed over."""


class ShardEndedError(Exception):
    """There are no more samples in a shard whose length nobody has told."""


class Sharded:
    """What a pipeline holds of a source that can only be iterated, shard by shard (`_iterables`). Its own `open` gives a `Placed`."""

    names: tuple[str, ...] | None
    shards: int
    lengths: tuple[int, ...] | None  # of each shard, where they were given

    @property
    def label(self) -> str:
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Positions of an epoch; 1 where they have to be counted."""
        raise NotImplementedError

    @property
    def known(self) -> bool:
        """Whether the length of each shard was given."""
        raise NotImplementedError

    @property
    def endless(self) -> bool:
        """Shards begin anew when they end, and nothing is counted."""
        raise NotImplementedError

    @property
    def span(self) -> int:
        """Records have numbers below this, where lengths are known."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        raise NotImplementedError

    @property
    def unsaid(self) -> Any:
        """What decides its samples where no `version=` stands for it; None where one does."""
        raise NotImplementedError

    def has(self, record: int) -> bool:
        """Whether there is such a record, as far as that is known."""
        raise NotImplementedError

    def where(self, record: int) -> str:
        """How a person finds it."""
        raise NotImplementedError

    def open(self, seed: int, shuffle: bool, folder: str) -> Any:
        """`folder`: for what saves time when it is opened again; "" for none."""
        raise NotImplementedError


@dataclass(frozen=True)
class DatasetSpec:
    """A map-style dataset as a pipeline holds it."""

    dataset: Any
    count: int
    names: tuple[str, ...] | None
    seed_globals: bool
    version: object

    @property
    def label(self) -> str:
        return f"dataset({type(self.dataset).__qualname__})"

    def fingerprint(self) -> str:
        """Of its type, its length and what it says of itself: `version=`, or the fingerprint of Hugging Face's datasets."""
        own = getattr(self.dataset, "_fingerprint", None)
        kind = type(self.dataset)
        said = [f"{kind.__module__}.{kind.__qualname__}", self.count, self.names, self.seed_globals]
        return identity([*said, self.version if self.version is not None else own if isinstance(own, str) else None])


def checked_dataset(dataset: Any, names: Any, seed: Any, version: object) -> DatasetSpec:
    """The spec of what a user gave to `carya.dataset`. Errors: InvalidArgument."""
    if isinstance(dataset, type):
        raise invalid("dataset: dataset", f"the class {dataset.__name__}", f"an object of it: {dataset.__name__}(...)")
    count = _length(dataset)
    if not hasattr(type(dataset), "__getitem__"):
        raise invalid("dataset: dataset", type(dataset).__name__, "an object with __len__ and __getitem__")
    if names is not None:
        listed = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else ()
        if not listed or not all(isinstance(name, str) and name for name in listed) or len(set(listed)) < len(listed):
            raise invalid("dataset: names", names, "a different name for each element of the dataset's tuples")
        names = listed
    if not isinstance(seed, bool):
        raise invalid("dataset: seed_globals", seed, "True or False")
    return DatasetSpec(dataset, count, names, seed, version)


def _length(dataset: Any) -> int:
    if isinstance(dataset, str | bytes | Mapping) or not hasattr(type(dataset), "__len__"):
        wanted = "an object with __len__ and __getitem__, as a torch Dataset or a list of samples"
        if isinstance(dataset, Mapping):
            wanted += "; arrays by name are carya.arrays({...})"
        elif hasattr(type(dataset), "__iter__"):
            wanted += "; what can only be iterated is carya.iterable(fn, shards=n)"
        shown = type(dataset).__name__ if not isinstance(dataset, str | bytes) else dataset
        raise invalid("dataset: dataset", shown, wanted)
    try:
        count = operator.index(len(dataset))
    except Exception as error:
        raise InvalidArgument(
            f"dataset: len(dataset) raised {type(error).__name__}: {error}; give a dataset that knows its length"
        ) from error
    if count < 1:
        raise invalid("dataset: len(dataset)", count, "a dataset with at least one sample")
    return count


class DatasetSource:
    """A user's dataset, read by index."""

    def __init__(self, spec: DatasetSpec, views: _core.Dataset | None, seed: int) -> None:
        self.label = spec.label
        self._dataset, self._views, self._names = spec.dataset, views, spec.names
        self._seeds = GlobalSeeds(_core.op_key(seed, "dataset", 0)) if spec.seed_globals else None
        self.by_columns = isinstance(spec.dataset, ByColumns) and not spec.seed_globals and not spec.names
        self.expects = isinstance(spec.dataset, Expecting) and spec.dataset.expects

    def expect(self, records: Sequence[int]) -> None:
        """As of `Expecting`, where `expects` says so."""
        views = self._views
        self._dataset.expect(records if views is None else [*map(views.source_index, records)])

    def columns(self, records: Sequence[int]) -> Any:
        """As of `ByColumns`, where `by_columns` says so."""
        views = self._views
        return self._dataset.columns(records if views is None else [*map(views.source_index, records)])

    def sample(self, record: int, epoch: int, occurrence: int) -> Any:
        if self._seeds is not None:
            self._seeds.set(epoch, record, occurrence)
        return self._dataset[record if self._views is None else self._views.source_index(record)]


def row_of(array: np.ndarray[Any, Any], index: int) -> np.ndarray[Any, Any]:
    """A view of one row, also where that is a number."""
    row: np.ndarray[Any, Any] = array[index : index + 1].reshape(array.shape[1:])  # array[index] would be a scalar
    return row


class ArraysSource:
    """Rows of arrays: views that cannot be written."""

    label = "arrays"

    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]], views: _core.Dataset | None) -> None:
        self._arrays = {name: array.view() for name, array in arrays.items()}
        for array in self._arrays.values():
            array.flags.writeable = False
        self._views = views

    def sample(self, record: int, epoch: int, occurrence: int) -> Any:
        index = record if self._views is None else self._views.source_index(record)
        return {name: row_of(array, index) for name, array in self._arrays.items()}


class NativeSource:
    """Samples of a native pipeline, with the bits of a stream's rows. Their arrays are the function's to write."""

    label = "native"

    def __init__(self, pipeline: _core.Pipeline, dataset: _core.Dataset, seed: int, order: Sequence[int]) -> None:
        self._given = pipeline, dataset, seed, order
        self._sampler = _core.Sampler(pipeline, dataset, seed, order)
        self.in_memory = frozenset(self._sampler.in_memory)
        self.facts = self._sampler.facts  # fields of `in_memory`: a record's bytes are not read for them

    def sample(self, record: int, epoch: int, occurrence: int) -> Any:
        return self._sampler.compute(record, epoch, occurrence)

    @functools.cached_property
    def names_of_ops(self) -> set[str]:
        """The operations that its samples have been through."""
        return {str(document["op"]) for document in json.loads(self._given[0].to_json())["ops"]}

    def sounds(self) -> tuple[Sounds, list[str]]:
        """What is known of sounds behind its operations, and which fields were bytes of files."""
        document = json.loads(self._given[0].to_json())
        encoded = fields_of_files(document["source"])
        return sounds_behind(document["ops"], encoded, {}), encoded

    def behind(self, documents: Sequence[Mapping[str, Any]]) -> NativeSource:
        """The same with more operations, which stand behind filters: one has left the record as it is."""
        pipeline, dataset, seed, order = self._given
        document = json.loads(pipeline.to_json())
        more = _core.Pipeline.parse(json.dumps(document | {"ops": [*document["ops"], *documents]}))
        return NativeSource(more, dataset, seed, order and [*order, *range(len(order), len(more.draws()))])
