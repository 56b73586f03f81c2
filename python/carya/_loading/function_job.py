"""The job behind a loader whose samples Python functions make."""

from __future__ import annotations

import os
from typing import Any

from .._errors import Unsupported
from .._functions.job import FunctionJob, JobSpec, no_mask
from .._pipeline.dataset import cache_dir
from .._pipeline.pipeline import Pipeline
from .._stages.identity import identity
from .._stages.mix import MixSpec
from .function_options import worker_count
from .loader_options import LoaderOptions


def start_function_job(pipeline: Pipeline, options: LoaderOptions, defer_release: bool) -> FunctionJob:
    """A host process with its workers. Errors: those of `FunctionJob`, and of opening the source."""
    asked, functions = options.job, options.functions
    assert functions is not None
    assert pipeline._batch is not None
    dataset = pipeline.open()
    spec = pipeline._stream_spec(asked.seed)
    spec.order = options.order
    spec.workers = worker_count(asked.threads)
    spec.function_timeout, spec.rss_max = functions.timeout, functions.rss_max
    if asked.on_error == "mask" and spec.collates:
        raise no_mask()
    folder = cache_dir(told=False)
    if (spec.filters or spec.asks_sizes or spec.asks_shards) and folder:
        filters = [stage.identity() for stage in spec.stages]
        of = [dataset.fingerprint, spec.dataset and spec.dataset.fingerprint(), spec.seed, filters]
        spec.survivors_path = os.path.join(folder, "filters", f"{identity(of)}.npz")
    if isinstance(spec.dataset, MixSpec) and folder:
        for number in spec.dataset.filtered:
            of = [spec.dataset.fingerprints[number], spec.dataset.mix.seed, spec.seed, number]
            spec.dataset.specs[number].survivors_path = os.path.join(folder, "filters", f"{identity(of)}.npz")
    batch: dict[str, Any] = pipeline._batch
    shape = {
        "batch_size": batch["batch_size"] or 0,
        "global_size": batch["global_size"] or 0,
        "world_size": asked.world_size,
        "rank": asked.rank,
        "drop_last": bool(batch["drop_last"]),
        "pad_last": bool(batch["pad_last"]) and not spec.collates,
    }
    if options.reorder not in ("exact", "off"):
        raise Unsupported(
            f'Loader: reorder: got {options.reorder!r} for a pipeline with Python functions; give "exact" or "off"'
        )
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
        )
    )
