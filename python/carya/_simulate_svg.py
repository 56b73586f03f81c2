"""Plots of `carya simulate`: workers and cost per epoch over time, one row of two plots per scenario."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import Any

# In pixels of the viewBox.
_WIDTH, _PLOT_W, _PLOT_H, _ROW = 980, 400, 170, 262
_LEFT, _TOP = 62, 46
_COLORS = ("#0f766e", "#d9480f", "#5f3dc4", "#1971c2", "#868e96", "#e8590c", "#2f9e44", "#c2255c")
_STYLE = """
text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2933; } .title { font-weight: 600; font-size: 15px; }
.soft { fill: #61707f; } .paper { fill: #ffffff; } .axis { stroke: #b5c0ca; fill: none; } .line { fill: none; stroke-width: 1.6; }
@media (prefers-color-scheme: dark) { text { fill: #e6ebf0; } .soft { fill: #9aa8b5; } .paper { fill: #14191f; } .axis { stroke: #4a5866; } }
"""


def draw(groups: list[dict[str, Any]]) -> str:
    """The text of an SVG file."""
    height = _ROW * len(groups) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">',
        "<title>carya simulate: workers and cost per epoch over time</title>",
        f"<style>{_STYLE}</style>",
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
    yield f'<text class="title" x="20" y="{top + 24:g}">{_xml(group["name"])}</text>'
    yield from _plot(group, "workers", "workers", _LEFT, top + _TOP, end)
    yield from _plot(group, "cost_per_epoch", "$ per epoch", _LEFT + _PLOT_W + 90, top + _TOP, end)
    x = 20.0
    for index, row in enumerate(group["policies"]):
        color = _COLORS[index % len(_COLORS)]
        yield f'<rect x="{x:g}" y="{top + _ROW - 22:g}" width="12" height="3" fill="{color}"/>'
        yield f'<text class="soft" x="{x + 16:g}" y="{top + _ROW - 16:g}">{_xml(row["policy"])}</text>'
        x += 28 + 7 * len(row["policy"])


def _plot(group: dict[str, Any], key: str, label: str, x: float, y: float, end: float) -> Iterator[str]:
    top = max([m[key] or 0 for row in group["policies"] for m in row["moments"] if m["at_s"] <= end] + [1e-9])
    top = _round_up(top)
    yield f'<path class="axis" d="M{x:g} {y:g}V{y + _PLOT_H:g}H{x + _PLOT_W:g}"/>'
    yield f'<text class="soft" x="{x:g}" y="{y - 6:g}">{label}</text>'
    for share in (0.0, 0.5, 1.0):
        at = y + _PLOT_H * (1 - share) + 4
        yield f'<text class="soft" x="{x - 6:g}" y="{at:g}" text-anchor="end">{top * share:.3g}</text>'
        time = f"{end * share / 60:.3g} min"
        yield f'<text class="soft" x="{x + _PLOT_W * share:g}" y="{y + _PLOT_H + 16:g}" text-anchor="middle">{time}</text>'
    for index, row in enumerate(group["policies"]):
        path = _path(row["moments"], key, x, y, end, top)
        if path:
            color = _COLORS[index % len(_COLORS)]
            yield f'<path class="line" stroke="{color}" d="{path}"><title>{_xml(row["policy"])}</title></path>'


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


def _round_up(number: float) -> float:
    unit = 10.0 ** math.floor(math.log10(number))
    return next(step * unit for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * unit >= number * (1 - 1e-9))


def _xml(text: str) -> str:
    return escape("".join(c if ord(c) >= 32 else "\N{REPLACEMENT CHARACTER}" for c in text))
