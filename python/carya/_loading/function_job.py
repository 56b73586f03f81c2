"""The job behind a loader whose samples Python functions make."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._dtypes import numpy_dtype
from .._errors import Error, Unsupported
from .._functions.ahead import AheadSpec
from .._functions.job import FunctionJob, JobSpec, no_mask
from .._functions.opening import known_records
from .._orders.chosen import fingerprint, with_records
from .._pipeline.dataset import attach_job, cache_dir
from .._pipeline.document import dump
from .._pipeline.pipeline import Pipeline
from .._sources.objects import all_at_once, object_at
from .._sources.stores import is_url
from .._stages.identity import content, identity, marks_of
from .._stages.mix import MixSpec
from .._stages.source import DatasetSpec, Sharded
from .._stages.spec import StreamSpec
from .._traits.moves import moved, settled
from .function_options import FunctionOptions, worker_count
from .job import start_job
from .loader_options import LoaderOptions


class FilteredJob:
    """A native job of the records that filters keep and samplers draw, with what a loader asks of a `FunctionJob` beside."""

    def __init__(self, job: _core.Job, native: _core.Pipeline, kept: np.ndarray[Any, Any] | None) -> None:
        self._job, self._native = job, native
        self.next = job.next  # asked for each batch
        self.fields = [NamedField(name) for name, _, _ in native.outputs()]
        base = job.dataset_fingerprint
        self.dataset_fingerprint = base if kept is None else identity([base, fingerprint(kept)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job, name)

    def stats(self) -> dict[str, Any]:
        return {**self._job.stats(), "native": {"by": "threads", "why": "", "pid": None}}

    def explain(self, _: Any, reorder: str) -> str:
        return str(self._job.explain(self._native, reorder))


class NamedField(NamedTuple):
    name: str


class ChosenRecords(NamedTuple):
    """A native pipeline whose document says which records of `dataset` it goes through; `numbers` go beside that."""

    native: _core.Pipeline
    numbers: dict[str, np.ndarray[Any, Any]]
    dataset: _core.Dataset  # all of them
    pipeline: Pipeline  # with the functions that chose

    def open(self) -> _core.Dataset:
        return self.dataset.choose(self.native, self.numbers)

    def attach(self, daemon: _core.DaemonOptions, options: _core.JobOptions, defer_release: bool) -> _core.Job:
        source = self.pipeline._source
        memory = {**(source.arrays or {}), **self.numbers} or None
        return attach_job(self.native, source.document, memory, daemon, options, defer_release)


def start_function_job(pipeline: Pipeline, options: LoaderOptions, defer_release: bool) -> FunctionJob | FilteredJob:
    """A host process with its workers; or native threads alone, where filters and samplers are all that is not native.

    Errors: those of `FunctionJob`, and of opening the source.
    """
    asked, functions = options.job, options.functions
    assert functions is not None
    assert pipeline._batch is not None
    dataset = pipeline.open()
    spec = pipeline._stream_spec(asked.seed)
    spec.fingerprint = dataset.fingerprint
    spec.workers = worker_count(asked.threads)
    spec.function_timeout, spec.rss_max = functions.timeout, functions.rss_max
    spec.niceness, spec.turns = functions.niceness, functions.turns
    if asked.on_error == "mask" and spec.collates:
        raise no_mask()
    if functions.places and spec.sharded:
        raise Unsupported(
            "Loader: function_workers: got some for a source that is iterated shard by shard, which the workers of one machine share; "
            "leave them out"
        )
    folder = cache_dir(told=False)
    if (spec.filters or spec.asks_sizes or spec.asks_shards) and folder:
        spec.survivors_path = _survivors_path(folder, spec, dataset, [])
    if isinstance(spec.dataset, MixSpec) and folder:
        for number in spec.dataset.filtered:
            part = spec.dataset.specs[number]
            of = [spec.dataset.fingerprints[number], spec.dataset.mix.seed, spec.seed, number]
            part.survivors_path = _survivors_path(folder, part, None, of)
    if options.reorder != "off":
        spec = moved(spec, options.reorder if options.order else "exact")
    if not spec.only_chooses:
        functions.check()
    spec = _settled(pipeline, options, spec, dataset)
    if spec.settled and not spec.lists and spec.drawn_natively and spec.has_no_functions:
        document = dump(json.loads(spec.native) | {"batch": pipeline._batch})
        document, numbers = with_records(document, spec.kept, spec.draws(spec.kept))
        native = _core.Pipeline.parse(document)
        if not _ragged(native):
            asked.order, asked.reorder = spec.order, _sense(options, spec)
            job = start_job(ChosenRecords(native, numbers, dataset, pipeline), options, defer_release, depth=6)
            return FilteredJob(job, native, spec.kept)
    functions.check()
    batch: dict[str, Any] = pipeline._batch
    shape = {
        "batch_size": batch["batch_size"] or 0,
        "global_size": batch["global_size"] or 0,
        "world_size": asked.world_size,
        "rank": asked.rank,
        "drop_last": bool(batch["drop_last"]),
        "pad_last": bool(batch["pad_last"]) and not spec.collates,
    }
    return FunctionJob(
        JobSpec(
            stream=spec,
            dataset=dataset,
            shape=shape,
            slots=asked.slots,
            epochs=asked.epochs,
            prefetch_epochs=asked.prefetch_epochs and spec.budget is None,  # each epoch has steps of its own
            on_error=asked.on_error,
            epoch=options.start.epoch,
            position=options.start.position,
            defer_release=defer_release,
            order=pipeline._order,
            places=functions.places,
            ahead=_chosen_ahead(pipeline, options, spec, dataset, shape),
        )
    )


def _survivors_path(folder: str, spec: StreamSpec, dataset: _core.Dataset | None, of: list[Any]) -> str:
    """Where what filters keep, and sizes, are kept: by everything that decides them; "" for nowhere, where that cannot be told.

    `dataset`: of a native source or views; None: it is opened where it is needed. `of`: what decides them beside.
    """
    document = json.loads(spec.native)  # filters see what the operations before them make
    stages: list[Any] = []
    for stage in spec.stages:
        found = content(stage.fn, stage.version)
        if found is None:
            return ""
        stages.append([stage.identity(), found])
    source: Any = spec.dataset
    if isinstance(source, DatasetSpec):
        # What files have in them is no part of a version of ours, nor is it known of a dataset of the user's that has none.
        ours = type(source.dataset).__module__.partition(".")[0] == "carya"
        said = source.version is not None or isinstance(getattr(source.dataset, "_fingerprint", None), str)
        source = [source.fingerprint(), None if said and not ours else source.dataset]
    elif isinstance(source, Sharded):
        source = [source.fingerprint(), source.unsaid]
    elif source is None:
        dataset = dataset or _core.Dataset.open(
            _core.Pipeline.parse(spec.native),
            arrays=spec.arrays,
            cache_dir=spec.cache_dir,
            verify=False,
            threads=1,
            progress=None,
        )
        source = _files_of(dataset, document["source"])
        if source is None:
            return ""
    fingerprint = "" if dataset is None else dataset.fingerprint
    document.pop("batch", None)
    name = content([fingerprint, document, source, spec.arrays, spec.seed, stages, of], files=True)
    return "" if name is None else os.path.join(folder, "filters", f"{name}.npz")


# Of more files, and of more objects, only their places count beside names and sizes: looking at each would take minutes.
_LOOKED_AT, _OBJECTS_LOOKED_AT = 2_000_000, 4096


def _files_of(dataset: _core.Dataset, source: Mapping[str, Any]) -> list[Any] | None:
    """What files and objects are, those that a document does not name too: files by their marks, objects with their versions; None
    where the store tells none."""
    if source["type"] in ("arrays", "ranges") or dataset.count > _LOOKED_AT:
        return []
    paths = sorted({dataset.address(index)["path"] for index in range(dataset.count)})
    urls = [path for path in paths if is_url(path)]
    try:
        return [marks_of(paths), all_at_once(object_at, urls) if 0 < len(urls) <= _OBJECTS_LOOKED_AT else []]
    except Error:  # whoever reads them says it, if it is in the way
        return None


def _settled(pipeline: Pipeline, options: LoaderOptions, spec: StreamSpec, dataset: _core.Dataset) -> StreamSpec:
    """The same behind its filters and samplers, where native threads could make of it what is native: which record has which
    position is known before.

    Filters stay in the workers where one of them raises, which is to happen at the record's place in the stream.
    """
    assert options.functions is not None
    plain = spec.dataset is None and spec.regroup is None and spec.budget is None and pipeline._order is None
    if not plain or not (spec.filters or spec.weighted) or options.functions.native == "workers":
        return spec
    if spec.weighted is not None:
        spec.weighted.check(spec.count)
    if not spec.filters:
        return settled(spec, None)
    kept = known_records(spec)
    if kept is None:
        asking = replace(spec, asks_only=True)
        job = FunctionJob(JobSpec(asking, dataset, {}, 0, None, False, "raise", 0, 0, False))
        job.close()
        kept = job.kept
        if len(job.raised):
            return replace(spec, kept=kept, raised=job.raised)
    return settled(spec, kept) if len(kept) else spec


def _sense(options: LoaderOptions, spec: StreamSpec) -> str:
    """In which operations of the native part may change places: where they run in an order with other bits, that of it."""
    return options.reorder if spec.order or options.reorder == "off" else "exact"


def _ragged(native: _core.Pipeline) -> list[str]:
    """Outputs that have a size of their own in each record, as far as is known before any is made."""
    return [name for name, _, sizes in native.outputs() if None in sizes]


# What native threads before the functions are told of what was asked for; the rest is of the stream behind the functions.
_PASSED_ON = (
    "rank", "world_size", "epochs", "read_ahead", "seed", "prefetch_epochs", "io_timeout", "io_engine", "decode_index",
    "cache_dir", "reorder", "order", "cache", "cache_bytes", "cache_share", "cache_after", "cache_form", "cache_disk", "cache_shared",
    "cache_write_budget",
)  # fmt: skip
_PASSED_ON_REMOTE = [name for name in dir(_core.RemoteOptions) if not name.startswith("_")]
# The slots of native threads take this part of the memory that is left, at most.
_MEMORY_PARTS, _SLOTS_MIN, _SLOTS_MANY = 4, 2, 16


def _chosen_ahead(
    pipeline: Pipeline, options: LoaderOptions, spec: StreamSpec, dataset: _core.Dataset, shape: dict[str, Any]
) -> AheadSpec | str:
    """What native threads make before the functions; or why they make nothing. Errors: Unsupported, where they were asked for."""
    functions, batch = options.functions, pipeline._batch
    assert functions is not None
    assert batch is not None
    if functions.native == "workers":
        return 'native="workers" was given'
    why = _not_ahead(pipeline, functions, spec)
    as_written = spec.declared is None and not spec.settled
    written = pipeline._document() if as_written else json.loads(spec.native)
    document = dump(written | {"batch": {**batch, "pad_last": shape["pad_last"]}})
    job = {name: getattr(options.job, name) for name in _PASSED_ON}
    job |= {"threads": spec.workers, "on_error": "mask", "trains": False, "order": spec.order}
    job["reorder"] = _sense(options, spec)
    if not why:
        rows = _core.StreamShape(records=1 << 40, **shape).rank_rows_max
        why, job["slots"] = _slots_ahead(document, rows)
    if why:
        if name := functions.asked_native:
            raise Unsupported(
                f"Loader: {name}: it is for native threads, which cannot work before these Python functions: {why}; leave {name} out"
            )
        return why
    remote = options.job.remote
    told = None if remote is None else {name: getattr(remote, name) for name in _PASSED_ON_REMOTE}
    return AheadSpec(document, dataset.fingerprint, job, told)


def _not_ahead(pipeline: Pipeline, options: FunctionOptions, spec: StreamSpec) -> str:
    """Why native threads cannot make the steps before the functions; "" where they can."""
    if spec.dataset is not None:
        return "Python makes the samples"
    if not spec.has_ops:
        return "no native operation stands before the functions"
    in_memory = spec.arrays is not None and pipeline._document()["source"]["type"] != "ranges"
    if in_memory and not options.asked_native:
        return "the arrays are in memory, where the workers take them for less than a row of another process costs"
    if spec.filters or spec.regroup is not None or spec.budget is not None:
        return "a filter or a stage that regroups samples says which record has which position"
    if pipeline._order is not None or not spec.drawn_natively:
        return "a sampler says which record has which position"
    return ""


def _slots_ahead(document: str, rows: int) -> tuple[str, int]:
    """Why there can be no slots of so many rows, and how many there are: 0 for as many as they choose."""
    try:
        native = _core.Pipeline.parse(document)
    except Error as error:  # such as a size that is another one in each record
        return str(error), 0
    if ragged := _ragged(native):
        return f"{ragged[0]} has a size of its own in each record", 0
    row = sum(
        numpy_dtype(dtype).itemsize * math.prod(size or 0 for size in sizes) for _, dtype, sizes in native.outputs()
    )
    fit = _core.available_slot_bytes() // _MEMORY_PARTS // max(1, row * rows)
    if fit < _SLOTS_MIN:
        return f"a batch has {row * rows >> 20} MiB before them, too much for this machine's memory", 0
    return "", 0 if fit >= _SLOTS_MANY else int(fit)
