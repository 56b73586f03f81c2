"""The picture of a plan: the operations as written on the left, as they run on the right."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from .explanation import microseconds, moves_of, origin, size

# In pixels of the viewBox.
_WIDTH, _COLUMN, _LEFT, _RIGHT = 880, 330, 20, 530
_TOP, _BOX, _CUT = 84, 38, 26
_LABEL_MAX = 30
_MOVES_MAX = 4

_STYLE = """
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2933; }
.paper { fill: #ffffff; } .title { font-weight: 600; font-size: 15px; } .soft { fill: #61707f; font-size: 12px; }
.box { fill: #f3f6f8; stroke: #b5c0ca; } .cost { fill: #8fd0c6; } .pass { fill: none; stroke: #0f766e; stroke-width: 2; }
.link { fill: none; stroke: #c5ced6; stroke-width: 1.5; } .moved { fill: none; stroke: #d9480f; stroke-width: 2.5; }
.tip { fill: #d9480f; } .cut { stroke: #b5c0ca; stroke-width: 1.5; } .turned { fill: #d9480f; }
"""
_DARK = """
text { fill: #e6ebf0; }
.paper { fill: #14191f; } .soft { fill: #9aa8b5; }
.box { fill: #1f2730; stroke: #4a5866; } .cost { fill: #17645c; } .pass { stroke: #4fd1c0; }
.link { stroke: #44515e; } .moved { stroke: #ff8f5a; } .tip { fill: #ff8f5a; } .cut { stroke: #4a5866; }
.turned { fill: #ff8f5a; }
"""


class _Box(NamedTuple):
    op: dict[str, Any]
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.y + _BOX / 2


def draw(report: dict[str, Any]) -> str:
    """The text of an SVG file."""
    left = _placed(report["declared_ops"], _LEFT)
    right = _placed(report["ops"], _RIGHT)
    moved = {move["op"] for move in moves_of(report)}
    dearest = max([op["us"] for op in (*report["declared_ops"], *report["ops"])] + [1e-9])
    assumed = any(op["source"] == "assumed" for op in report["ops"])
    notes = list(_notes(report, assumed))
    bottom = max([box.y + _BOX for box in (*left, *right)] + [_TOP])
    height = bottom + _CUT + 12 + 18 * len(notes) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" height="{height:g}" '
        'role="img">',
        f"<title>{_text(' > '.join(report['order']))}</title>",
        f"<style>{_STYLE}@media (prefers-color-scheme: dark) {{{_DARK}}}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height:g}" rx="8"/>',
        *_heading(_LEFT, "As written", report["declared_us"], ""),
        *_heading(_RIGHT, "As it runs", report["us"], _gain(report)),
        *_links(left, right, moved),
        *_column(left, dearest, set()),
        *_column(right, dearest, moved),
    ]
    for number, note in enumerate(notes):
        lines.append(f'<text class="soft" x="{_LEFT}" y="{bottom + _CUT + 24 + 18 * number:g}">{_text(note)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _placed(ops: list[dict[str, Any]], x: float) -> list[_Box]:
    boxes: list[_Box] = []
    for op in ops:
        y = _TOP + _CUT if not boxes else boxes[-1].y + _BOX + (0 if op["fused"] else _CUT)
        boxes.append(_Box(op, x, y))
    return boxes


def _gain(report: dict[str, Any]) -> str:
    ratio = report["us"] / report["declared_us"] if report["declared_us"] > 0 else 1.0
    return f" ({ratio:.0%} of that)" if abs(ratio - 1) >= 0.005 else ""


def _heading(x: float, title: str, us: float, gain: str) -> Iterator[str]:
    yield f'<text class="title" x="{x:g}" y="34">{_text(title)}</text>'
    yield f'<text class="soft" x="{x:g}" y="54">{microseconds(us)} us of CPU time per sample, as estimated{_text(gain)}</text>'


def _column(boxes: list[_Box], dearest: float, moved: set[str]) -> Iterator[str]:
    for box in boxes:
        if not box.op["fused"]:
            yield from _cut(box.x, box.y - _CUT, box.op["bytes_in"])
        yield from _drawn(box, dearest, box.op["op"] in moved)
    if boxes:
        yield from _cut(boxes[-1].x, boxes[-1].y + _BOX, boxes[-1].op["bytes_out"])
    for first, last in _passes(boxes):
        height = last.y + _BOX - first.y
        yield f'<rect class="pass" x="{first.x:g}" y="{first.y:g}" width="{_COLUMN}" height="{height:g}" rx="5"/>'


def _cut(x: float, y: float, count: float) -> Iterator[str]:
    """The size of a sample between two passes."""
    middle = x + 22
    yield f'<line class="cut" x1="{middle:g}" y1="{y + 3:g}" x2="{middle:g}" y2="{y + _CUT - 3:g}"/>'
    yield f'<text class="soft" x="{middle + 9:g}" y="{y + _CUT / 2 + 4:g}">{_text(size(count))}</text>'


def _drawn(box: _Box, dearest: float, moved: bool) -> Iterator[str]:
    op, x, y = box
    width = _COLUMN * op["us"] / dearest
    mark = " *" if op["source"] == "assumed" else ""
    turned = ' class="turned"' if moved else ""
    yield f"<g><title>{_text(op.get('text', op['op']))}: {_text(origin(op))}</title>"
    yield f'<rect class="box" x="{x:g}" y="{y:g}" width="{_COLUMN}" height="{_BOX}" rx="5"/>'
    if width >= 1:
        yield f'<rect class="cost" x="{x + 1:g}" y="{y + 1:g}" width="{max(width - 2, 1):.1f}" height="{_BOX - 2}" rx="4"/>'
    yield f'<text{turned} x="{x + 12:g}" y="{y + _BOX / 2 + 5:g}">{_text(_short(op["op"]))}</text>'
    yield (
        f'<text x="{x + _COLUMN - 12:g}" y="{y + _BOX / 2 + 5:g}" text-anchor="end">'
        f"{microseconds(op['us'])} us{mark}</text></g>"
    )


def _passes(boxes: list[_Box]) -> Iterator[tuple[_Box, _Box]]:
    """First and last box of each pass of several operations."""
    for number, box in enumerate(boxes):
        last = number
        while last + 1 < len(boxes) and boxes[last + 1].op["fused"]:
            last += 1
        if not box.op["fused"] and last > number:
            yield box, boxes[last]


def _links(left: list[_Box], right: list[_Box], moved: set[str]) -> Iterator[str]:
    """Each operation from where it is written to where it runs; the moved ones last, above the others."""
    ends = {box.op["op"]: box for box in right}
    start, end = _LEFT + _COLUMN, _RIGHT
    bend = (start + end) / 2
    for box in sorted(left, key=lambda one: one.op["op"] in moved):
        name = box.op["op"]
        a, b = box.middle, ends[name].middle
        tip = end - (9 if name in moved else 0)
        kind = "moved" if name in moved else "link"
        yield f'<path class="{kind}" d="M{start:g} {a:g}C{bend:g} {a:g} {bend:g} {b:g} {tip:g} {b:g}"/>'
        if name in moved:
            yield f'<path class="tip" d="M{end:g} {b:g}l-11 -5.5v11z"/>'


def _notes(report: dict[str, Any], assumed: bool) -> Iterator[str]:
    moves = sorted(moves_of(report), key=lambda move: float(move["saved_us"]), reverse=True)
    for move in moves[:_MOVES_MAX]:
        least = "at least " if move["at_least"] else ""
        yield f"{move['op']} before {move['passes']} saves {least}{microseconds(move['saved_us'])} us."
    if report["order"] != report["declared"]:
        yield "The bits are the same as written." if report["same_bits"] else "The bits are others than as written."
    if any(op["fused"] for op in report["ops"]):
        yield "Boxes in one frame: one pass over the picture. Between boxes: the size of a sample in memory."
    yield "The filled part of a box is its share of the dearest operation." + (
        " * assumed: not measured on this machine." if assumed else ""
    )


def _short(name: str) -> str:
    return name if len(name) <= _LABEL_MAX else name[: _LABEL_MAX - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _text(text: str) -> str:
    """For XML: escaped, and without the characters that it has no form for."""
    return escape("".join(c if c in "\t\n" or ord(c) >= 32 else "\N{REPLACEMENT CHARACTER}" for c in text))
