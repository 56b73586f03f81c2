"""Plots of `carya simulate`: workers and cost per epoch over time, one row of two plots per scenario."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import Any

# In pixels of the viewBox.
_WIDTH, _PLOT_W, _PLOT_H, _ROW = 980, 400, 170, 262
_LEFT, _TOP = 62, 46
# Far apart for everyone, also with each kind of color blindness, and three to one beside white and the dark paper: found by
# a search over hues, saturations and values; tests/python/test_simulate.py computes both.
COLORS = ("#ff2626", "#2693ff", "#73654b", "#9326ff", "#17992d", "#bf7cbf", "#4b6c73", "#bf00bf")
_THIN, _THINNER = 1.5, 1.1  # widths of lines
STYLE = """
text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2933; } .title { font-weight: 600; font-size: 15px; }
.soft { fill: #61707f; } .paper { fill: #ffffff; } .axis { stroke: #b5c0ca; fill: none; } .line { fill: none; }
@media (prefers-color-scheme: dark) { text { fill: #e6ebf0; } .soft { fill: #9aa8b5; } .paper { fill: #14191f; } .axis { stroke: #4a5866; } }
"""


def draw(groups: list[dict[str, Any]]) -> str:
    """The text of an SVG file."""
    height = _ROW * len(groups) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">',
        "<title>carya simulate: workers and cost per epoch over time</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>',
    ]
    for number, group in enumerate(groups):
        lines += _row(group, number * _ROW)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _row(group: dict[str, Any], top: float) -> Iterator[str]:
    end = max([row["moments"][-1]["at_s"] for row in group["policies"] if row["moments"]] + [1.0])
    settled = max([row["settled_s"] for row in group["policies"]] + [0.0])
    if "epochs" in group:  # what comes after the last change is flat
        end = min(end, 1.25 * max(settled, 60.0))
    yield f'<text class="title" x="20" y="{top + 24:g}">{escaped(group["name"])}</text>'
    yield from _plot(group, "workers", "workers", _LEFT, top + _TOP, end)
    yield from _plot(group, "cost_per_epoch", "$ per epoch", _LEFT + _PLOT_W + 90, top + _TOP, end)
    x = 20.0
    for index, row in enumerate(group["policies"]):
        color = COLORS[index % len(COLORS)]
        yield f'<rect x="{x:g}" y="{top + _ROW - 20.5 - _width(index, group) / 2:g}" width="14" height="{_width(index, group):g}" fill="{color}"/>'
        yield f'<text class="soft" x="{x + 20:g}" y="{top + _ROW - 16:g}">{escaped(row["policy"])}</text>'
        x += 32 + 7 * len(row["policy"])


def _ticks(top: float, steps: tuple[float, ...], whole: bool = False) -> list[float]:
    """Round numbers from 0 to at most `top`, three to six of them: steps of these times a power of ten.

    >>> _ticks(3, (1, 2, 5), whole=True), _ticks(30.1, (1, 2, 5))
    ([0.0, 1.0, 2.0, 3.0], [0.0, 10.0, 20.0, 30.0])
    """
    unit = 10.0 ** math.floor(math.log10(top / 5))
    if whole:
        unit = max(unit, 1.0)
    step = next(size * unit for size in (*steps, 10) if top / (size * unit) <= 5)
    return [step * number for number in range(math.floor(top / step * (1 + 1e-9)) + 1)]


def _plot(group: dict[str, Any], key: str, label: str, x: float, y: float, end: float) -> Iterator[str]:
    top = max([m[key] or 0 for row in group["policies"] for m in row["moments"] if m["at_s"] <= end] + [1e-9])
    ticks = _ticks(top, (1, 2, 5), whole=key == "workers")
    if ticks[-1] < top * (1 - 1e-9):
        ticks.append(ticks[-1] + ticks[1] if len(ticks) > 1 else 1.0)
    top = max(ticks[-1], 1e-9)
    yield f'<path class="axis" d="M{x:g} {y:g}V{y + _PLOT_H:g}H{x + _PLOT_W:g}"/>'
    yield f'<text class="soft" x="{x:g}" y="{y - 6:g}">{label}</text>'
    for tick in ticks:
        at = y + _PLOT_H * (1 - tick / top) + 4
        yield f'<text class="soft" x="{x - 6:g}" y="{at:g}" text-anchor="end">{tick:g}</text>'
    for minute in _ticks(end / 60, (1, 2, 5)):
        at = x + _PLOT_W * minute * 60 / end
        yield f'<text class="soft" x="{at:g}" y="{y + _PLOT_H + 16:g}" text-anchor="middle">{minute:g} min</text>'
    for index, row in enumerate(group["policies"]):
        path = _path(row["moments"], key, x, y, end, top)
        if path:
            gaps = ' stroke-dasharray="9 5"' if 0 < index == len(group["policies"]) - 1 else ""
            yield (
                f'<path class="line" stroke="{COLORS[index % len(COLORS)]}" stroke-width="{_width(index, group):g}"{gaps} d="{path}">'
                f"<title>{escaped(row['policy'])}</title></path>"
            )


def _width(index: int, group: dict[str, Any]) -> float:
    """Later lines lie above earlier ones and are thinner, the last has gaps: of lines in one place all are seen."""
    return _THIN + _THINNER * (len(group["policies"]) - 1 - index)


def _path(moments: list[dict[str, Any]], key: str, x: float, y: float, end: float, top: float) -> str:
    """Steps: what holds at a moment holds until the next."""
    path, last = "", None
    for moment in moments:
        if moment[key] is None:
            continue
        at = x + _PLOT_W * min(moment["at_s"], end) / end
        level = y + _PLOT_H * (1 - min(moment[key] / top, 1))
        path += f"M{x:.1f} {level:.1f}H{at:.1f}" if last is None else f"H{at:.1f}V{level:.1f}"
        last = level
        if moment["at_s"] >= end:
            return path
    return path + (f"H{x + _PLOT_W:.1f}" if path else "")


def escaped(text: str) -> str:
    return escape("".join(c if ord(c) >= 32 else "\N{REPLACEMENT CHARACTER}" for c in text))
