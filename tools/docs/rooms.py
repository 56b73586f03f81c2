"""Draw the rooms of the source tree: their floors, sizes and includes, as docs/rooms.svg.

`python tools/docs/rooms.py` writes the picture; tests/architecture compares it with the tree.
"""

from __future__ import annotations

import sys
from collections import Counter
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "architecture"))
from tree import FLOORS, INCLUDE, sources, stems  # noqa: E402

PICTURE = ROOT / "docs" / "rooms.svg"
BOX_WIDTH, BOX_HEIGHT, GAP, FLOOR_HEIGHT, MARGIN, TITLE = 132, 34, 22, 74, 24, 34


def arrows(module: str) -> Counter[tuple[str, str]]:
    """Includes from one room of the module to another, by (from, to)."""
    found: Counter[tuple[str, str]] = Counter()
    for path in sources(module):
        room = str(path.parent.relative_to(ROOT))
        for mark, target in INCLUDE.findall(path.read_text()):
            other = target.rsplit("/", 1)[0]
            if mark == '"' and target.startswith(f"{module}/") and other != room:
                found[room, other] += 1
    return found


def draw_module(module: str, top: int, width: int) -> tuple[list[str], int]:
    """The module's floors from the highest to the lowest; the height that they take."""
    floors = FLOORS[module]
    lines = [f'<text class="module" x="{MARGIN}" y="{top + 18}">{module}/</text>']
    places: dict[str, tuple[float, float]] = {}
    for row, rooms in enumerate(reversed(floors)):
        y = top + TITLE + row * FLOOR_HEIGHT
        free = width - 2 * MARGIN - len(rooms) * BOX_WIDTH - (len(rooms) - 1) * GAP
        for column, room in enumerate(rooms):
            places[f"{module}/{room}"] = (MARGIN + free / 2 + column * (BOX_WIDTH + GAP), y)
    paths, boxes = [], []
    for (source, target), count in sorted(arrows(module).items()):
        (x1, y1), (x2, y2) = places[source], places[target]
        x1, y1, x2 = x1 + BOX_WIDTH / 2, y1 + BOX_HEIGHT, x2 + BOX_WIDTH / 2
        bend = (y2 - y1) / 2
        paths.append(
            f'<path d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}" '
            f'marker-end="url(#head)"><title>{source} includes {target}: {count}</title></path>'
        )
    for name, (x, y) in places.items():
        room = name.removeprefix(f"{module}/")
        boxes.append(
            f'<rect x="{x:.0f}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
            f'<text x="{x + BOX_WIDTH / 2:.0f}" y="{y + 15}">{escape(room)}</text>'
            f'<text class="size" x="{x + BOX_WIDTH / 2:.0f}" y="{y + 28}">{len(stems(name))} files</text>'
        )
    return lines + paths + boxes, TITLE + len(floors) * FLOOR_HEIGHT + MARGIN


def draw() -> str:
    widest = max(len(rooms) for floors in FLOORS.values() for rooms in floors)
    width = 2 * MARGIN + widest * BOX_WIDTH + (widest - 1) * GAP
    body: list[str] = []
    top = MARGIN
    for module in FLOORS:
        lines, height = draw_module(module, top, width)
        body += lines
        top += height
    style = (
        "text{font:12px sans-serif;text-anchor:middle;fill:#222}"
        ".size{font-size:10px;fill:#555}.module{font:bold 15px sans-serif;text-anchor:start}"
        "rect{fill:#eef3f8;stroke:#48637c}path{fill:none;stroke:#8a9aa9;stroke-width:1.1}"
        "path:hover{stroke:#c2410c;stroke-width:2.5}"
    )
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#8a9aa9;stroke:none"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}" '
        f'role="img" aria-label="Rooms of the source tree and the includes between them">\n'
        f"<style>{style}</style><defs>{head}</defs>\n"
        f'<rect x="0" y="0" width="{width}" height="{top}" style="fill:#fff;stroke:none"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw())
    print(f"{PICTURE.relative_to(ROOT)} is written")
