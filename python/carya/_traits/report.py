"""Why a chain with functions runs as it does, and what each part costs: what `explain` gives (`_explain/`)."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .. import _core
from .._stages.chain import Chain
from .._stages.mix import MixSpec
from .._stages.native import NativeOps, name_of
from .._stages.source import Sharded
from .._stages.spec import StreamSpec
from .._stages.tree import as_leaf, flatten
from .moves import Orders, as_written, could_pass, keeps_bits, moved, moves_of, passed
from .proof import Found, compared, tried

# `Pipeline.explain()` makes so many samples, spread over the records, or for so long.
_SAMPLES, _SECONDS = 8, 2.0
# Stages that are no part of a sample's way.
_BESIDE = ("start", "order", "budget", "weighted")


@dataclass
class Cost:
    """Of a stage, in the mean of `samples`: microseconds on a core and by the clock, bytes that come and go."""

    us: float = 0.0
    wall_us: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    samples: int = 0


@dataclass(frozen=True)
class _Item:
    """An operation or function in its chain. `key`: what it is in every order. `stage`: whose cost it has, None before all stages;
    `fused`: one of several operations of a stage, which are timed as one."""

    key: tuple[Any, ...]
    name: str
    text: str
    stage: int | None = None
    fused: bool = False


@dataclass
class Measured:
    """Costs by stage of a chain, and of making samples of records before them."""

    stages: dict[int, Cost] = field(default_factory=dict)
    source: Cost = field(default_factory=Cost)


def explained(spec: StreamSpec, reorder: str, cache_dir: str) -> dict[str, Any]:
    """What a loader would do, by samples that are made here and now."""
    runs = spec if reorder == "off" else moved(spec, reorder)
    records = _records(spec)
    chain, written = runs.chain(runs.open()), spec.chain(spec.open())
    found = tried(written, spec.stages, records)
    if keeps_bits(runs):
        found += compared(written, chain, passed(runs), records, (0, 1))
    costs = _timed(chain, records)
    before = costs if runs is spec else _timed(written, records)
    return assembled(runs, costs, before, found, reorder, cache_dir)


def assembled(
    runs: StreamSpec, costs: Measured, before: Measured | None, found: Sequence[Found], reorder: str, cache_dir: str
) -> dict[str, Any]:
    """The report of a chain that runs. `costs`: of it; `before`: of the one that is written, None where that never ran."""
    spec = as_written(runs)
    if before is None:
        here = {item.key: costs.stages.get(item.stage, Cost()) for item, _ in _items(runs) if item.stage is not None}
        before = Measured(
            {item.stage: here.get(item.key, Cost()) for item, _ in _items(spec) if item.stage is not None}
        )
    names = _names([item for item, _ in _items(spec)])
    report, ops = _rows(runs, costs, names, cache_dir, reorder)
    _, declared_ops = _rows(spec, before, names, cache_dir, reorder)
    place = {names[item.key]: number for number, (item, _) in enumerate(_items(spec))}
    report |= {
        "declared": list(place),
        "order": [op["op"] for op in ops],
        "indices": [place[op["op"]] for op in ops],
        "ops": ops,
        "declared_ops": sorted(declared_ops, key=lambda op: place[op["op"]]),
        "us": sum(op["us"] for op in ops),
        "declared_us": sum(op["us"] for op in declared_ops),
        "alternatives": [],
        "relaxed": None,
        "reorder": reorder,
        "same_bits": reorder == "off"
        or not Orders(_core.Pipeline.parse(spec.native) if spec.dataset is None else None, spec.stages).fixed(reorder),
        "difference": None,
    }
    report["best"] = {"order": report["order"], "indices": report["indices"], "us": report["us"]}
    report["assumed"] = [op["op"] for op in ops if op["source"] == "assumed"]
    report["functions"] = list(_functions(runs, spec, names, costs, before, found, report["us"]))
    report["moves"] += [line for one in report["functions"] for line in _saved(one, {op["op"]: op for op in ops})]
    return report


# The chain ---------------------------------------------------------------------------------------------------------------


def _items(spec: StreamSpec) -> Iterator[tuple[_Item, Mapping[str, Any] | None]]:
    """What a chain has, in its order, with the documents of native operations."""
    seen: Counter[tuple[Any, ...]] = Counter()

    def item(key: tuple[Any, ...], name: str, text: str, stage: int | None, fused: bool) -> _Item:
        seen[key] += 1
        return _Item((*key, seen[key]), name, text, stage, fused)

    documents = json.loads(spec.native)["ops"] if spec.dataset is None else []
    for part, document in _parts(documents, None):
        name = name_of(document)
        yield item((part, document["op"]), name, name, None, False), document
    for number, stage in enumerate(spec.stages):
        if stage.kind in _BESIDE:
            continue
        if isinstance(stage.fn, NativeOps):
            for at, (part, document) in enumerate(_parts(stage.fn.documents, stage.fn.number)):
                name = name_of(document)
                yield item((part, document["op"]), name, name, number, at > 0), document
        else:
            yield item(("function", stage.label), stage.label, stage.label, number, False), None


def _parts(documents: Sequence[Mapping[str, Any]], part: int | None) -> Iterator[tuple[int | None, Mapping[str, Any]]]:
    """Operations with the part that each belongs to."""
    for document in documents:
        if document["op"] == "part":
            part = document["number"]
        elif document["op"] not in ("barrier", "reuse_augmentation"):
            yield part, document


def _names(items: Sequence[_Item]) -> dict[tuple[Any, ...], str]:
    """A name for each that no other one has: "crop", or "crop#1" for the second of several."""
    counts, seen = Counter(item.name for item in items), Counter[str]()
    names = {}
    for item in items:
        several = counts[item.name] > 1
        names[item.key] = f"{item.name}#{seen[item.name]}" if several else item.name
        seen[item.name] += 1
    return names


def _rows(
    spec: StreamSpec, costs: Measured, names: Mapping[tuple[Any, ...], str], cache_dir: str, reorder: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the planner says of the native part, and the table of the whole chain with it."""
    native = _core.Pipeline.parse(spec.native)
    report: dict[str, Any] = json.loads(native.explain(cache_dir, spec.order, reorder if spec.order else "exact"))
    native_names = {}
    items = [item for item, _ in _items(spec)]
    if spec.dataset is None:
        own = [item for item in items if item.stage is None]
        native_names = {label: names[item.key] for label, item in zip(native.op_labels(), own, strict=True)}
    listed = report["declared_ops"] if reorder == "off" else report["ops"]
    rows = [op | {"op": native_names[op["op"]], "place": "native"} for op in listed]
    for name in ("moves", "fusions"):
        for line in report[name]:
            for key in {"op", "passes", "with"} & line.keys():
                line[key] = native_names[line[key]]
    report["measured"] = [
        ran | {"order": [native_names.get(name, name) for name in ran["order"]]} for ran in report["measured"]
    ]
    report["stages"] = [[native_names.get(name, name) for name in stage] for stage in report["stages"]]
    for item in items:
        if item.stage is not None:
            rows.append(_row(item, names[item.key], costs.stages.get(item.stage, Cost())))
            report["stages"] += [] if item.fused else [[]]
            report["stages"][-1].append(names[item.key])
    return report, rows


def _row(item: _Item, name: str, cost: Cost) -> dict[str, Any]:
    return {
        "op": name,
        "text": item.text,
        "us": 0.0 if item.fused else cost.us,
        "bytes_in": cost.bytes_out if item.fused else cost.bytes_in,
        "bytes_out": cost.bytes_out,
        "fused": item.fused,
        "source": "shared" if item.fused else "measured" if cost.samples else "untimed",
        "samples": cost.samples,
        "age_s": 0.0,
        "place": "worker",
    }


def _functions(
    runs: StreamSpec,
    spec: StreamSpec,
    names: Mapping[tuple[Any, ...], str],
    costs: Measured,
    before: Measured,
    found: Sequence[Found],
    total: float,
) -> Iterator[dict[str, Any]]:
    """Of each function what it costs, what is said of it, what samples say, and what passes it."""
    written = {item.stage: names[item.key] for item, document in _items(spec) if document is None}
    now = {item.key: item.stage for item, document in _items(runs) if document is None}
    by_op = {item.key[:2]: names[item.key] for item, document in _items(spec) if document is not None}
    for item, document in _items(spec):
        if document is not None or item.stage is None:
            continue
        stage, cost = spec.stages[item.stage], costs.stages.get(now[item.key] or 0, Cost())
        name = written[item.stage]
        passing = [move for move in moves_of(runs) if move.number == item.stage]
        yield {
            "name": name,
            **asdict(cost),
            "share": cost.us / total if total else 0.0,
            "saved_us": max(0.0, before.stages.get(item.stage, Cost()).us - cost.us) if passing else 0.0,
            "said": stage.traits.said,
            "commutes_with": list(stage.traits.commutes_with),
            "found": [asdict(one) for one in found if one.function == stage.label],
            "moves": [
                [by_op[move.part, move.op], name] if move.before else [name, by_op[move.part, move.op]]
                for move in passing
            ],
            "could_pass": could_pass(spec, item.stage),
        }


def _saved(function: Mapping[str, Any], ops: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What each move about a function saves: of what they save together the part that it makes arrays smaller."""
    pairs = function["moves"]
    other = [ops[first if then == function["name"] else then] for first, then in pairs]
    less = [abs(op["bytes_in"] - op["bytes_out"]) for op in other]
    for (first, then), part in zip(pairs, less, strict=True):
        share = part / sum(less) if any(less) else 1 / len(pairs)
        yield {"op": first, "passes": then, "saved_us": function["saved_us"] * share, "at_least": False}


# Measuring ---------------------------------------------------------------------------------------------------------------


def _records(spec: StreamSpec) -> list[int]:
    if isinstance(spec.dataset, Sharded):
        return []  # which there are is known when they are counted
    count = spec.records if not isinstance(spec.dataset, MixSpec) else sum(spec.dataset.mix.spans)
    return sorted({number * count // _SAMPLES for number in range(_SAMPLES)})


def _timed(chain: Chain, records: Sequence[int]) -> Measured:
    """The mean cost of each stage over these records; those that cannot be made are passed over."""
    made = Measured()
    until = time.monotonic() + _SECONDS
    for number, record in enumerate(records):
        if number and time.monotonic() > until:
            break
        try:
            size, former = 0, _clocks()
            for stage, value in chain.walk(record):
                now = _clocks()
                after = _bytes(value)
                cost = made.source if stage is None else made.stages.setdefault(stage, Cost())
                cost.us += (now[0] - former[0]) * 1e6
                cost.wall_us += (now[1] - former[1]) * 1e6
                cost.bytes_in, cost.bytes_out = cost.bytes_in + size, cost.bytes_out + after
                cost.samples += 1
                size, former = after, _clocks()
        except Exception:  # bad data, which a stream will tell
            continue
    for cost in [made.source, *made.stages.values()]:
        for name in ("us", "wall_us", "bytes_in", "bytes_out"):
            setattr(cost, name, getattr(cost, name) / max(cost.samples, 1))
    return made


def _clocks() -> tuple[float, float]:
    return time.thread_time(), time.perf_counter()


def _bytes(value: Any) -> int:
    leaves = [as_leaf(leaf) for leaf in flatten(value).values()]
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, np.ndarray))
