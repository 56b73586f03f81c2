"""The figures of a wrapped loader in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .headroom import shown

# Less than this share of waiting is not worth a change.
_LITTLE = 0.02


def written(stats: Mapping[str, Any], name: str) -> str:
    """What `Wrapped.report()` says of what `stats()` found of a loader of type `name`."""
    if not stats["batches"] or stats["step_seconds"] is None:
        return f"{name}: nothing is measured yet; take two batches or more of it."
    lines = [
        f"{name}: {stats['batches']} batches, {stats['batches_per_second']:.4g} per second; the trainer's own step takes "
        f"{shown(stats['step_seconds'])} (median).",
        f"The trainer waited {stats['stall_share']:.1%} of the time for data ({shown(stats['stall_seconds'])}, of which "
        f"{shown(stats['start_seconds'])} for the first batches of epochs).",
    ]
    if stats["make_seconds"] is not None:
        lines.append(
            f"The loader's own call takes {shown(stats['make_seconds'])} per batch, {shown(stats['make_cpu_seconds'])} of it CPU "
            f"of the trainer's process; {stats['slots']['ready_mean']:.1f} of {stats['slots']['count']} batches lay ready."
        )
    lines.append(_who_limits(stats))
    if stats["headroom"] is not None:
        lines.append(str(stats["headroom"]))
    return "\n".join(lines)


def _who_limits(stats: Mapping[str, Any]) -> str:
    late = stats["stall_seconds"] - stats["start_seconds"]
    total = stats["batches"] / stats["batches_per_second"]
    if stats["stall_share"] < _LITTLE:
        return "The trainer limits: another loader can gain only the cores that this one takes from it; headroom(step) measures it."
    if late < _LITTLE * total:
        return "The beginnings of epochs limit: a loader that goes on across epochs gains that time."
    gain = 1 / (1 - stats["stall_share"])
    return (
        f"The loader limits: without waiting training is {gain:.2f} times as fast, and more where the loader takes cores from the "
        "trainer; headroom(step) measures it."
    )
