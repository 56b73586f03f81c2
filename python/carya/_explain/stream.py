"""What `explain` says of the stream as a whole: what the trainer takes, what the loader can make, and which of them limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# A trainer that waits less is not held up.
_STALL_SHARE = 0.1
# Functions of map_batch that take more of the trainer's own time are what limits it.
_FUNCTIONS_SHARE = 0.5


def add_stream(report: dict[str, Any], stats: Mapping[str, Any] | None) -> None:
    """Complete `report["stream"]`. `stats`: of the loader that runs; None: what is known is of earlier ones."""
    stream: dict[str, Any] = report["stream"]
    given = report["parallelism"]
    cost = _cost_us(report)
    running = stats or {}
    slots = running.get("slots", {})
    stream["make_per_s"] = min(given["threads"], given["cores"]) * 1e6 / cost if cost else None
    stream["step_s"] = running.get("step_seconds")
    stream["stall_share"] = running.get("stall_share") if running.get("batches") else None
    stream["ready_slots"] = slots.get("ready_mean")
    stream["slots"] = slots.get("count")
    stream["pressure"] = running.get("pressure")
    stream["functions"] = running.get("functions", [])
    stream["limit"] = _limit(stream, report)


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The same as text, without what nobody measured."""
    stream = report["stream"]
    yield from _rates(stream, report["parallelism"])
    yield from _functions(stream)
    yield from _waiting(stream)
    yield from _reads(stream)
    yield from _pressure(stream["pressure"])


def workers(count: int, parallelism: Mapping[str, Any]) -> str:
    """Who computes: "thread", "threads", "worker processes"."""
    kind = parallelism.get("kind", "thread")
    return str(kind if count == 1 else f"{kind}es" if kind.endswith("s") else f"{kind}s")


def _cost_us(report: Mapping[str, Any]) -> float | None:
    """CPU time of a sample in the order that runs: as it was timed, else by costs of which none is assumed."""
    from .explanation import timed_order

    if report.get("timed_us"):  # by processes that run functions
        return float(report["timed_us"])
    if timed := timed_order(report):
        return float(timed["us"])
    return float(report["us"]) if report["us"] > 0 and not report["assumed"] else None


def _limit(stream: Mapping[str, Any], report: Mapping[str, Any]) -> str | None:
    demand, made, stall = stream["demand_per_s"], stream["make_per_s"], stream["stall_share"]
    if demand is None or made is None:
        return None
    if demand > made:
        python = sum(one["share"] for one in report.get("functions", ()))
        return "functions" if python > _FUNCTIONS_SHARE else "cores"
    if stall is not None and stall > _STALL_SHARE:
        return "other"
    taken = sum(one["seconds"] for one in stream["functions"])
    return "map_batch" if stream["step_s"] and taken > _FUNCTIONS_SHARE * stream["step_s"] else "trainer"


def _rates(stream: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    demand, made = stream["demand_per_s"], stream["make_per_s"]
    if demand is None:
        return
    when = _when(stream["demand_age_s"])
    step = f", {_time(stream['step_s'])} a step" if stream["step_s"] else ""
    line = f"The trainer takes {demand:,.0f} samples/s{step}{when}"
    if made is None:
        yield line + "."
        return
    threads = given["threads"]
    line += f"; {threads} {workers(threads, given)} can make {made:,.0f} as measured: "
    yield (
        line
        + {
            "trainer": "the trainer limits.",
            "cores": "the cores limit.",
            "map_batch": "the functions of map_batch limit.",
            "functions": "the Python functions limit.",
            "other": "it waits all the same, for storage, for other work on the cores, or for slots that it holds.",
        }[stream["limit"]]
    )


def _functions(stream: Mapping[str, Any]) -> Iterator[str]:
    for one in stream["functions"]:
        share = f", {min(one['seconds'] / stream['step_s'], 1):.0%} of its step" if stream["step_s"] else ""
        yield f"map_batch({one['name']}) takes {_time(one['seconds'])} of each batch in the trainer's own thread{share}."


def _waiting(stream: Mapping[str, Any]) -> Iterator[str]:
    if stream["stall_share"] is not None and stream["ready_slots"] is not None:
        yield (
            f"It waited {stream['stall_share']:.0%} of the time; {stream['ready_slots']:.1f} of {stream['slots']} slots "
            "were ready when it came."
        )


def _reads(stream: Mapping[str, Any]) -> Iterator[str]:
    if stream["read_latency_s"] is not None and stream["read_bytes_per_s"] is not None:
        rate = stream["read_bytes_per_s"] / 1e6
        when = _when(stream["read_age_s"])
        yield f"Reads: {rate:,.1f} MB/s while under way, {_time(stream['read_latency_s'])} each{when}."


def _pressure(pressure: Mapping[str, Any] | None) -> Iterator[str]:
    if pressure is None:
        return
    waited = [f"{what} {pressure[key]:.0%}" for key, what in _WAITED.items() if pressure[key] is not None]
    said = [f"something waited in the last 10 s: {', '.join(waited)}"] if waited else []
    if pressure["runnable"] is not None:
        said.append(f"{pressure['runnable']} tasks run or could, on {pressure['cores']} cores")
    if pressure["throttled_share"]:
        said.append(f"the CPU quota was used up in {pressure['throttled_share']:.1%} of its periods")
    if said:
        yield f"Pressure: {'; '.join(said)}."


_WAITED = {"cpu": "for a core", "io": "for storage", "memory": "for memory"}


def _when(age_s: float | None) -> str:
    from .explanation import age

    return f" ({age(age_s)})" if age_s is not None and age_s >= 1 else ""


def _time(seconds: float) -> str:
    """Three digits or so.

    >>> _time(2.5), _time(0.0123), _time(0.000004)
    ('2.50 s', '12.3 ms', '4.00 us')
    """
    unit, factor = ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    number = seconds * factor
    return (
        f"{number:.2f} {unit}" if number < 10 else f"{number:.3g} {unit}" if number < 1000 else f"{number:,.0f} {unit}"
    )
