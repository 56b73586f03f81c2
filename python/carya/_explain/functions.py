"""What `explain` says of Python functions: what each costs and where, what is said of it, and whether samples agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Nothing where there are none."""
    from .explanation import microseconds

    for one in report.get("functions", ()):
        line = f"{one['name']}: "
        if one["samples"]:
            line += f"{microseconds(one['us'])} us of CPU time, {one['share']:.0%} of a sample's"
            if one["wall_us"] > 1.5 * one["us"]:
                line += f", and {microseconds(one['wall_us'])} us by the clock"
        else:
            line += "not timed"
        kind = report["parallelism"].get("kind", "worker process")
        where = "before the first batch, in worker processes" if kind == "thread" else f"in {kind}es"
        yield f"{line}; {where}."
        yield from (f"  {text}" for text in _said(one))
    if "native_part" in report:
        yield f"Native operations before the functions: {report['native_part']}."
    for one in report.get("afar", ()):
        yield f"A process of {one['address']} made {one['rows']} rows" + (
            f", and makes none now: {one['away']}." if one["away"] else "."
        )


def _said(one: Mapping[str, Any]) -> Iterator[str]:
    for found in one["found"]:
        if found["against"]:
            yield f"REFUSED: {found['trait']} is not so: {found['against']}. A loader refuses it too."
        elif not found["tried"]:
            yield f"{found['trait']} is said, and was not tried: there was no sample to try it on."
        elif found["trait"] == "commutes_with":
            yield f"The order that runs gave the bits of what is written, {found['tried']} times of {found['tried']}."
        else:
            yield f"{found['trait']} is said, and so it was on {found['tried']} samples."
    if one["commutes_with"] and not one["moves"]:
        yield f"commutes_with is said of {', '.join(one['commutes_with'])}, and nothing has moved."
    if one["could_pass"]:
        ops = ", ".join(one["could_pass"])
        yield f"{ops} could run before it, if each pixel follows from itself: give elementwise=True."
