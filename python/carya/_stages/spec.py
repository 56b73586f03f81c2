"""What a host and its workers are told of a stream."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import _core
from .._errors import InvalidArgument, NotFound
from .chain import Chain
from .mix import MixSource, MixSpec
from .padding import Pad
from .regroup import REGROUPS
from .source import ArraysSource, DatasetSource, DatasetSpec, NativeSource, Sharded, Source
from .stage import Stage

if TYPE_CHECKING:
    from .._orders.budget import Budget
    from .._orders.draws import Draws, Weighted
    from .._orders.repeated import Repeated, Repeats


@dataclass
class StreamSpec:
    """Everything that decides a bit, and how long one may take. Travels as a pickle (`code.dumps_code`)."""

    native: str  # document of the native source, views and operations; of a surrogate where the source is Python's
    order: list[int]
    cache_dir: str
    seed: int
    shuffle: bool
    stages: tuple[Stage, ...]
    dataset: DatasetSpec | MixSpec | Sharded | None
    arrays: dict[str, np.ndarray[Any, Any]] | None  # travels apart: it is mapped, and nobody writes it
    count: int  # records after the views
    lists: tuple[str, ...]
    workers: int
    function_timeout: float | None  # seconds that one call may take
    rss_max: int | None
    survivors_path: str = ""  # where the verdicts of filters are kept; "" for nowhere
    has_ops: bool = False  # native operations run before the functions
    views: bool = False
    declared: Any = None  # what was written, where operations have passed functions (`Declared` of _traits/moves.py)
    fingerprint: str = ""  # of the native dataset, as the trainer has opened it; "": it is not asked for
    # Filters have had their say, and are no stages any more (`settled` of _traits/moves.py).
    settled: bool = False
    kept: np.ndarray[Any, Any] | None = (
        None  # records that filters have left, where they were asked before; None elsewhere
    )
    raised: np.ndarray[Any, Any] | None = None  # of those, for which they raised, and are asked again
    niceness: int = 0  # by how much its processes are nicer than the trainer
    turns: tuple[str, float] | None = None  # the daemon with whose jobs they take turns, by its socket, and the weight
    asks_only: bool = False  # the host asks filters, says what they keep, and makes nothing

    @property
    def filters(self) -> bool:
        return any(stage.kind == "filter" for stage in self.stages)

    @property
    def regroup(self) -> Stage | None:
        """The stage behind which positions are no single records."""
        return next((stage for stage in self.stages if stage.kind in REGROUPS), None)

    @functools.cached_property
    def weighted(self) -> Weighted | Repeated | None:
        """How the records of an epoch are drawn or repeated, where they are."""
        found: Any = next((stage.fn for stage in self.stages if stage.kind == "weighted"), None)
        return cast("Weighted | Repeated | None", found)

    def draws(self, survivors: np.ndarray[Any, Any] | None) -> Draws | Repeats | None:
        """What says which record is at a position, of all or of those that filters have left; None: the shuffle does.

        Errors: InvalidArgument, when they are too few.
        """
        found = self.weighted
        return None if found is None else found.draws(self.seed, survivors, self.records, bool(self.shuffle))

    @property
    def drawn_natively(self) -> bool:
        """Whether native streams can have the order of the records."""
        return self.weighted is None or self.weighted.is_native

    @property
    def only_chooses(self) -> bool:
        """Whether filters and samplers are all that is not native: functions that choose records and make nothing."""
        return self.dataset is None and all(stage.kind in ("filter", "weighted", "native") for stage in self.stages)

    @property
    def has_no_functions(self) -> bool:
        """Whether nothing but what says which record has which position is left of the stages."""
        return all(stage.kind == "weighted" for stage in self.stages)

    @property
    def budget(self) -> Budget | None:
        """How many tokens a batch has, where that says where it ends."""
        found: Any = next((stage.fn for stage in self.stages if stage.kind == "budget"), None)
        return cast("Budget | None", found)

    @property
    def asks_sizes(self) -> bool:
        """Whether records are asked for their size before the first batch."""
        return self.regroup is not None and getattr(self.regroup.fn, "lengths", None) is None

    @property
    def asks(self) -> str:
        """The stages that are asked of every record before the first batch, for persons."""
        return ", ".join(stage.label for stage in self.stages if stage.kind in ("filter", *REGROUPS)) or "functions"

    @property
    def asks_shards(self) -> bool:
        """Whether the samples of shards are counted, or asked of filters, before the first batch."""
        of = self.dataset
        return isinstance(of, Sharded) and not of.endless and (self.filters or not of.known)

    @property
    def placed(self) -> bool:
        """The source says itself which record has which position."""
        return isinstance(self.dataset, MixSpec | Sharded)

    @property
    def sharded(self) -> bool:
        """Whether each shard is to be read by one worker."""
        of = self.dataset
        return isinstance(of, Sharded) or (isinstance(of, MixSpec) and any(one.sharded for one in of.specs))

    @property
    def collates(self) -> bool:
        return any(stage.kind == "collate" for stage in self.stages)

    @functools.cached_property
    def whole(self) -> bool:
        """A function makes each step as a whole."""
        return any(stage.whole for stage in self.stages)

    def lister(self, name: str) -> str:
        """Who asks for a list of a field."""
        padded = [stage for stage in self.stages if isinstance(stage.fn, Pad) and name in stage.fn.fields]
        return "pad_sequences: fields" if padded else "batch: lists"

    @property
    def records(self) -> int:
        """How many records there are: as many as positions of an epoch, but for a mix."""
        return sum(self.dataset.mix.spans) if isinstance(self.dataset, MixSpec) else self.count

    @property
    def span(self) -> int:
        """How many numbers the records take."""
        return self.dataset.span if isinstance(self.dataset, Sharded) else self.count

    @property
    def names(self) -> tuple[str, ...] | None:
        return None if self.dataset is None else self.dataset.names

    def without_arrays(self) -> StreamSpec:
        """The same, whose arrays travel apart."""
        return replace(self, arrays=None)

    def open(self) -> Source:
        """The source, opened in this process. Errors: those of opening a native one; the dataset's own of `len`."""
        if isinstance(self.dataset, MixSpec):
            return MixSource(self.dataset, self.seed)
        if isinstance(self.dataset, Sharded):
            folder = os.path.join(self.cache_dir, "iterables") if self.cache_dir else ""
            placed: Source = self.dataset.open(self.seed, self.shuffle, folder)
            return placed
        pipeline = _core.Pipeline.parse(self.native)
        if self.dataset is not None:
            self._check_length()
            memory = {"index": np.zeros(self.dataset.count, np.uint8)}
            views = self._dataset(pipeline, memory) if self.views else None
            return DatasetSource(self.dataset, views, self.seed)
        all_in_memory = self.arrays is not None and self.arrays.keys() == {name for name, _, _ in pipeline.outputs()}
        if self.arrays is not None and all_in_memory and not self.has_ops:
            return ArraysSource(self.arrays, self._dataset(pipeline, self.arrays) if self.views else None)
        dataset = self._dataset(pipeline, self.arrays)
        if self.fingerprint not in ("", dataset.fingerprint):
            raise NotFound(
                "Loader: the data changed while it was made: this process finds other records than the pipeline has; make the "
                "pipeline and the Loader anew"
            )
        return NativeSource(pipeline, dataset, self.seed, self.order)

    def chain(self, source: Source) -> Chain:
        return Chain(source, self.stages, self.seed, self.names)

    def _dataset(self, pipeline: _core.Pipeline, arrays: dict[str, np.ndarray[Any, Any]] | None) -> _core.Dataset:
        return _core.Dataset.open(
            pipeline, arrays=arrays, cache_dir=self.cache_dir, verify=False, threads=1, progress=None
        )

    def _check_length(self) -> None:
        assert isinstance(self.dataset, DatasetSpec)
        found = len(self.dataset.dataset)
        if found != self.dataset.count:
            raise InvalidArgument(
                f"dataset: len(dataset) was {self.dataset.count} in the trainer and is {found} in a worker process; give a "
                "dataset whose length does not change"
            )
