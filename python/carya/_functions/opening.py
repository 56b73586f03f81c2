"""What a host does before the first batch: the user's code, the survivors of filters, the fields of a first sample."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from .._orders.chosen import fingerprint
from .._processes.system import open_files, thread_count
from .._processes.transport import file_of, mapped_private, unpacked
from .._stages.chain import labels
from .._stages.mix import MixSpec
from .._stages.regroup import units_of
from .._stages.source import Sharded, Source
from .._stages.spec import StreamSpec
from .._stages.stage import Stage
from .code import import_main_script
from .counting import Counted, count_shards, counted, write_kept
from .faults import raised as raised_error
from .start import mark_host

_VERDICT_ROWS = 64
_PROBES = 16
_MEASURED = 8
_PROVEN = 2
_COMPARED = 2  # samples that another machine has to make alike

Ask = Callable[[list[tuple[Any, ...]]], list[Any]]
Tell = Callable[[tuple[Any, ...], int], None]


@dataclass
class Opened:
    """The user's code in this process. `source`: None where each worker opens its own."""

    spec: StreamSpec
    source: Source | None
    labels: list[str]
    why_spawned: str  # "" where workers are forked
    message: tuple[Any, ...]  # what opened it, for workers that are started by exec
    fds: list[int]

    @property
    def arrays(self) -> tuple[tuple[Any, ...], int]:
        """Arrays of the source as they travel, without the user's code, and the file with their bytes."""
        return self.message[2], self.fds[1]

    def again(self) -> StreamSpec:
        """The spec once more, with objects of its own."""
        return _unpacked(self.message, self.fds)


def open_payload(message: tuple[Any, ...], fds: list[int], dump: int) -> Opened:
    """Errors: those of the user's modules and objects. A hang ends the process after `function_timeout`, with a dump."""
    files, threads = open_files(), thread_count()
    timeout = message[3]
    if timeout is not None:  # by a thread of its own
        faulthandler.dump_traceback_later(timeout, exit=True, file=dump)
    mark_host()
    import_main_script(message[4])
    spec = _unpacked(message, fds)
    source = spec.open()
    faulthandler.cancel_dump_traceback_later()
    why = ""
    if thread_count() > threads:
        why = "importing the functions started threads"
    elif _cuda_is_up():
        why = "importing the functions started CUDA"
    # A file that is open here would have one position for all workers.
    own = spec.dataset is not None and bool(open_files() - files)
    return Opened(spec, None if own else source, labels(source.label, spec.stages), why, message, fds)


def _unpacked(message: tuple[Any, ...], fds: list[int]) -> StreamSpec:
    _, (code, code_places), (arrays, array_places), *_ = message
    spec: StreamSpec = unpacked(code, code_places, mapped_private(os.dup(fds[0])))
    memory = mapped_private(os.dup(fds[1])).toreadonly()
    spec.arrays = unpacked(arrays, array_places, memory)
    return spec


def _cuda_is_up() -> bool:
    torch = sys.modules.get("torch")
    try:
        return torch is not None and bool(torch.cuda.is_initialized())
    except Exception:  # of a torch that is half imported
        return False


@dataclass
class Kept:
    """What is known of records before the first batch. `records`: those that filters keep, None for all; `sizes`: of each of
    those, where a stage regroups them (`_stages/regroup.py`)."""

    records: np.ndarray[Any, Any] | None = None
    sizes: np.ndarray[Any, Any] | None = None
    raised: np.ndarray[Any, Any] | None = None  # of those, for which filters raised, and are asked again
    shards: Counted | None = None
    parts: dict[int, np.ndarray[Any, Any]] = field(
        default_factory=dict
    )  # of a mix: which records its filtered pipelines keep

    @property
    def digest(self) -> str:
        if self.parts:
            return fingerprint(np.concatenate([self.parts[number].astype(np.int64) for number in sorted(self.parts)]))
        if self.shards is not None:
            return self.shards.digest
        parts = [part for part in (self.records, self.sizes) if part is not None]
        return fingerprint(np.concatenate(parts)) if parts else ""


def find_kept(spec: StreamSpec, ask: Ask, tell: Tell) -> Kept:
    """What filters keep, and sizes: looked up, or found by calling their functions on every record.

    Errors: InvalidArgument, when nothing is left; the user's own, of a record whose length cannot be told.
    """
    if isinstance(spec.dataset, Sharded):
        return Kept(shards=count_shards(spec, ask, tell)) if spec.asks_shards else Kept()
    if isinstance(spec.dataset, MixSpec):
        return Kept(
            parts={number: _part(spec.dataset.specs[number], number, ask, tell) for number in spec.dataset.filtered}
        )
    if spec.weighted is not None:
        spec.weighted.check(spec.count)
    if spec.kept is not None:
        raised = np.zeros(0, np.int64) if spec.raised is None else spec.raised
        tell(("survivors_are", len(spec.kept), len(raised), -1), file_of("survivors", spec.kept, raised))
        return Kept(spec.kept)
    regroup = spec.regroup
    if not spec.filters and regroup is None:
        return Kept()
    sizes, raised = np.ones(spec.count, np.int64), np.zeros(0, np.int64)
    if spec.filters or spec.asks_sizes:
        sizes, raised = _asked(spec, ask)
    records = np.ascontiguousarray(np.flatnonzero(sizes >= 0), np.int64) if spec.filters else None
    if records is not None and not len(records):
        raise InvalidArgument("filter: it keeps none of the records; give a predicate that is true for some")
    of = None
    if regroup is not None:
        of = sizes if spec.asks_sizes else _given(regroup, spec.count)
        of = np.ascontiguousarray(of if records is None else of[records], np.int64)
        if spec.budget is not None:
            spec.budget.check(of, records)
        if regroup.kind != "bucket_by_length" and not of.any():
            raise InvalidArgument(
                f"{regroup.label}: nothing is left of the records; give a dataset with samples that are not empty"
            )
    kept = Kept(records, of, raised)
    fd = file_of("survivors", *(part for part in (records, raised, of) if part is not None))
    counts = (-1 if records is None else len(records), len(raised), -1 if of is None else len(of))
    tell(("survivors_are", *counts), fd)
    return kept


def _part(spec: StreamSpec, number: int, ask: Ask, tell: Tell) -> np.ndarray[Any, Any]:
    """Which records the filters of pipeline `number` of a mix keep. Errors: InvalidArgument, when that is none."""
    if isinstance(spec.dataset, Sharded):
        found, raised = counted(spec, ask, number)
        assert found.kept is not None
        kept = found.kept
    else:
        sizes, raised = _asked(spec, ask, number)
        kept = sizes > 0
    if not kept.any():
        raise InvalidArgument(
            f"filter: it keeps none of the records of pipeline {number} of the mix; give a predicate that is true for some"
        )
    fd = file_of("part", raised, kept)
    tell(("part_is", number, len(kept), len(raised)), fd)
    return kept


def _given(regroup: Stage, count: int) -> np.ndarray[Any, Any]:
    lengths: np.ndarray[Any, Any] = regroup.fn.lengths  # type: ignore[attr-defined]
    if len(lengths) != count:
        raise InvalidArgument(
            f"{regroup.kind}: lengths: got {len(lengths)} for {count} records; give one for each record after the views"
        )
    return lengths


def _asked(spec: StreamSpec, ask: Ask, part: int = -1) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The size of every record, -1 for what filters drop, and the records whose functions raised, which have size 1.

    `part`: the number of the pipeline in a mix that `spec` is of.
    """
    sizes, raised = _known_before(spec), np.zeros(0, np.int64)
    if sizes is None:
        tasks = [
            ("verdicts", first, min(_VERDICT_ROWS, spec.count - first), part)
            for first in range(0, spec.count, _VERDICT_ROWS)
        ]
        answers = ask(tasks)
        sizes = np.concatenate([answer["verdicts"][1] for answer in answers])
        faults = [fault for answer in answers for fault in answer["raised"]]
        if faults and spec.regroup is not None and spec.regroup.kind != "flat_map" and spec.asks_sizes:
            raise raised_error(faults[0], f"record {faults[0].record}")  # where it stands would be anybody's guess
        raised = np.array([fault.record for fault in faults], np.int64)
        if not len(raised):  # else the next loader asks anew
            _keep(spec, sizes)
    return sizes, raised


def known_records(spec: StreamSpec) -> np.ndarray[Any, Any] | None:
    """Those that filters keep, where an earlier loader has asked them; None elsewhere."""
    sizes = _known_before(spec)
    return None if sizes is None else np.flatnonzero(sizes >= 0)


def _known_before(spec: StreamSpec) -> np.ndarray[Any, Any] | None:
    """What an earlier loader found; None when it was not the same number of records, or is damaged."""
    if not spec.survivors_path:
        return None
    import zipfile

    try:
        with np.load(spec.survivors_path, allow_pickle=False) as file:
            if spec.asks_sizes:
                sizes = np.array(file["sizes"], np.int64)
            else:
                sizes = np.unpackbits(file["verdicts"], count=spec.count).astype(np.int64) * 2 - 1
            if len(sizes) != spec.count or str(file["digest"]) != fingerprint(sizes):
                return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return sizes


def _keep(spec: StreamSpec, sizes: np.ndarray[Any, Any]) -> None:
    if not spec.survivors_path:
        return
    told = {"sizes": sizes} if spec.asks_sizes else {"verdicts": np.packbits(sizes > 0)}
    write_kept(spec.survivors_path, count=len(sizes), digest=fingerprint(sizes), **told)


def _in_order(_: int, first: int, count: int) -> np.ndarray[Any, Any]:
    return np.arange(first, first + count)


def probe(spec: StreamSpec, kept: Kept, ask: Ask) -> dict[str, Any]:
    """Fields and tree of the first sample that can be made, and how much memory a row of a whole batch takes.

    The first by record, so that every rank and every resumed stream finds the same. Errors: the user's own of the first
    record, when none of the first 16 can be made.
    """
    count = spec.count if kept.records is None else len(kept.records)
    if isinstance(spec.dataset, Sharded):
        return _probed(spec, kept, *_of_shards(spec, spec.dataset, kept), ask)
    if kept.parts and isinstance(spec.dataset, MixSpec):
        return _probed(spec, kept, *_of_parts(spec, spec.dataset, kept), ask)
    known: Sequence[int] = range(min(_PROBES, spec.records if kept.records is None else count))
    draws = spec.draws(kept.records)
    if draws is not None:
        count, known = draws.count, draws.lowest[:_PROBES]
    if kept.sizes is not None and spec.regroup is not None:
        count = units_of(spec.regroup.fn, kept.sizes, spec.seed, spec.shuffle, _in_order).count
        if spec.regroup.kind != "bucket_by_length":
            known = np.flatnonzero(kept.sizes)[:_PROBES].tolist()
    candidates = [i if kept.records is None else int(kept.records[i]) for i in known]
    return _probed(spec, kept, count, candidates, ask)


def _of_parts(spec: StreamSpec, of: MixSpec, kept: Kept) -> tuple[int, list[int]]:
    """Positions of an epoch of a mix, and its lowest records."""
    count = of.settled({number: int(part.sum()) for number, part in kept.parts.items()}).length
    first, part = of.specs[0], kept.parts.get(0)
    if isinstance(first.dataset, Sharded):
        source = first.dataset.open(spec.seed, False, "")
        if part is not None:
            source.lengths_are(np.array(first.dataset.lengths, np.int64), part)
        return count, source.candidates(_PROBES)
    return count, list(range(min(_PROBES, first.count))) if part is None else np.flatnonzero(part)[:_PROBES].tolist()


def _of_shards(spec: StreamSpec, of: Sharded, kept: Kept) -> tuple[int, list[int]]:
    """Positions of an epoch, and its lowest records."""
    source = of.open(spec.seed, spec.shuffle, "")
    if kept.shards is not None:
        source.lengths_are(kept.shards.lengths, kept.shards.kept)
    return source.count, source.candidates(_PROBES)


def _probed(spec: StreamSpec, kept: Kept, count: int, candidates: list[int], ask: Ask) -> dict[str, Any]:
    (found,) = ask([("probe", candidates)])
    if found["fields"] is None:
        fault = found["faults"][0]
        raise raised_error(fault, f"record {fault.record}" if fault.record >= 0 else "the start of a worker")
    proven = _proven(spec, candidates, ask)
    row_bytes = 0
    if spec.whole:
        (measured,) = ask([("measure", found["fields"], candidates[:_MEASURED])])
        row_bytes = measured["row_bytes"]
    return {
        "count": count,
        "survivors": kept.digest,
        "fields": found["fields"],
        "tree": found["tree"],
        "kinds": found["kinds"],
        "row_bytes": row_bytes,
        "proven": proven,
        "compared": candidates[:_COMPARED],
    }


def _proven(spec: StreamSpec, candidates: list[int], ask: Ask) -> list[Any]:
    """What samples say of what the user says of functions. Errors: InvalidArgument, where one is against it."""
    if not any(stage.traits.said for stage in spec.stages):
        return []
    (answer,) = ask([("prove", candidates[:_PROVEN])])
    for found in answer["found"]:
        if found.against:
            raise InvalidArgument(found.refusal)
    return list(answer["found"])
