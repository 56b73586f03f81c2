"""Cachew's experiments as tables and as a plot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .svg import COLORS, STYLE, escaped

Table = tuple[str, list[str], list[list[str]], str]
Series = list[tuple[str, list[tuple[float, float]]]]  # names and points
Plot = tuple[str, str, Series]  # title, label of the upright axis, lines
_COST_MAX = 1.05  # of the best: so near it counts as right
_WIDTH, _ROW, _LEFT, _TOP, _PLOT_W, _PLOT_H = 1000, 300, 70, 50, 400, 180


def counts(grid: list[dict[str, Any]]) -> dict[str, int]:
    """Of the drawn worlds: in how many a choice costs at most 1.05 of the best one."""
    return {
        "worlds": len(grid),
        "carya": sum(row["carya_cost"] <= _COST_MAX for row in grid),
        "cachew": sum(row["cachew_cost"] <= _COST_MAX and not row["cachew_freezes"] for row in grid),
        "cachew_freezes": sum(row["cachew_freezes"] for row in grid),
        "nothing": sum(row["nothing_cost"] <= _COST_MAX for row in grid),
    }


def tables(found: dict[str, Any]) -> Iterator[Table]:
    """Title, heads, rows, and what is to be said of it."""
    rows = []
    for row in found["fig7"]:
        told = row["published_ms"]
        rows.append(
            [
                f"{row['sleep_ms']}", *(f"{told[place]}" for place in ("compute", "source", "full")),
                f"{row['cachew']} ({row['cachew_cost']:.3f})", f"{row['carya']} ({row['carya_cost']:.3f})",
            ]
        )  # fmt: skip
    yield (
        "Fig. 7: what is kept",
        ["sleep in ms", "compute", "source cache", "full cache", "Cachew", "Carya"],
        rows,
        "Published ms of an element; in brackets what the choice costs, by them, of the best one.",
    )
    grid = found["grid"]
    many = counts(grid)
    each = [("Carya", "carya_cost", many["carya"]), ("Cachew", "cachew_cost", many["cachew"]), ("nothing kept", "nothing_cost", many["nothing"])]  # fmt: skip
    rows = []
    for name, key, right in each:
        costs = sorted(row[key] for row in grid)
        rows.append([name, f"{right}", f"{costs[len(costs) // 2]:.3f}", f"{costs[-1]:.3f}"])
    yield (
        f"{many['worlds']} drawn worlds: the whole run beside the best choice that changes no bit",
        ["", "within 1.05", "median", "worst"],
        rows,
        f"Cachew keeps what is random in {many['cachew_freezes']} of them, which every epoch then repeats: not counted as right.",
    )
    six = found["fig6a"]
    rows = [
        [f"{count}", f"{told:,}", f"{world:,.0f}", f"{cost:.3f}", ", ".join(name for name, key in (("Kubernetes", "kubernetes"), ("Cachew", "cachew"), ("Carya", "carya")) if six[key] == count)]
        for count, (told, world, cost) in enumerate(zip(six["published_s"], six["world_s"], six["cost"], strict=True), 1)
    ]  # fmt: skip
    yield (
        "Fig. 6a: ResNet-50 on 4 V100",
        ["workers", "published s", "simulated s", "$ / epoch", "who ends there"],
        rows,
        "Seconds of an epoch.",
    )
    ten = found["fig10"]
    rows = []
    for job, told in ten["published"].items():
        rows.append(
            ["published", job, *(f"{seconds:.0f}" for seconds in told["epoch_s"]), "-", f"{told['worker_s']:,.0f}"]
        )
    for line in ten["lines"]:
        epochs = [f"{seconds:.0f}" for seconds in line["epoch_s"]]
        rows.append([line["policy"], line["job"], *epochs, f"{line['changes']}", f"{line['worker_s']:,.0f}"])
    total, ideal = ten["worker_s"], ten["ideal_s"]
    yield (
        "Fig. 10: two jobs with one input pipeline",
        ["policy", "job", "epoch 1", "2", "3", "4", "changes", "worker-seconds"],
        rows,
        f"Ideal epochs: {ideal['job 1']:.0f} and {ideal['job 2']:.0f} s. Carya's worker-seconds are "
        f"{total['Carya'] / total['Cachew']:.2f} of those of Cachew's policy, {total['Carya'] / total['published']:.2f} of what "
        "the published figure shows. Carya keeps what is finished only under .reuse_augmentation(epochs=4), as "
        "Cachew does unasked.",
    )


def draw(found: dict[str, Any]) -> str:
    """The text of an SVG file: Fig. 7, the drawn worlds, Fig. 6a, Fig. 10."""
    fig7 = found["fig7"]
    xs = [float(row["sleep_ms"]) for row in fig7]
    chosen = [("Cachew", "cachew"), ("Carya", "carya")]
    sleeps = (
        "Fig. 7: ms of an element by sleep in ms", "ms",
        [(place, [(x, float(row["published_ms"][place])) for x, row in zip(xs, fig7, strict=True)]) for place in ("compute", "source", "full")]
        + [(f"{name}'s choice", [(x, float(row["published_ms"][row[key]])) for x, row in zip(xs, fig7, strict=True)]) for name, key in chosen],
    )  # fmt: skip
    grid = found["grid"]
    keys = [("nothing kept", "nothing_cost"), ("Cachew", "cachew_cost"), ("Carya", "carya_cost")]
    drawn = (
        "Drawn worlds by cost: beside the best, up to 3", "x best",
        [(name, [(float(at), min(cost, 3.0)) for at, cost in enumerate(sorted(row[key] for row in grid))]) for name, key in keys],
    )  # fmt: skip
    six = found["fig6a"]
    epochs = (
        "Fig. 6a: seconds of an epoch by workers", "s",
        [(name, [(float(count), float(s)) for count, s in enumerate(six[key], 1)]) for name, key in (("published", "published_s"), ("simulated", "world_s"))],
    )  # fmt: skip
    series = []
    for line in found["fig10"]["lines"]:
        points: list[tuple[float, float]] = []
        for at, workers in line["moments"]:
            points += [(float(at), points[-1][1] if points else 0.0), (float(at), float(workers))]
        if points:
            end = points[0][0] + sum(line["epoch_s"])
            series.append((f"{line['policy']}, {line['job']}", [*points, (max(end, points[-1][0]), points[-1][1])]))
    jobs = ("Fig. 10: workers over time in s", "workers", series)
    return plots("carya simulate cachew: what is kept, how many workers, two jobs", [[sleeps, drawn], [epochs, jobs]])


def plots(title: str, rows: list[list[Plot]]) -> str:
    """The text of an SVG file with two plots in a row."""
    height = len(rows) * _ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">',
        f"<title>{escaped(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>',
    ]
    for row, both in enumerate(rows):
        for column, (name, label, series) in enumerate(both):
            lines += _plot(column, row, name, label, series)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _plot(column: int, row: int, title: str, label: str, series: Series) -> Iterator[str]:
    x, y = _LEFT + column * (_PLOT_W + 90), _TOP + row * _ROW
    points = [point for _, line in series for point in line]
    left, right = min(px for px, _ in points), max(px for px, _ in points)
    top = max(py for _, py in points) or 1.0
    yield f'<text class="title" x="{x - 50}" y="{y - 26}">{escaped(title)}</text>'
    yield f'<path class="axis" d="M{x} {y}V{y + _PLOT_H}H{x + _PLOT_W}"/>'
    yield f'<text class="soft" x="{x}" y="{y - 6}">{escaped(label)}</text>'
    for value, at in ((top, y), (0.0, y + _PLOT_H)):
        yield f'<text class="soft" x="{x - 6}" y="{at + 4}" text-anchor="end">{value:.4g}</text>'
    for value, at in ((left, x), (right, x + _PLOT_W)):
        yield f'<text class="soft" x="{at}" y="{y + _PLOT_H + 16}" text-anchor="middle">{value:.4g}</text>'
    name_x = x - 50.0
    for index, (name, line) in enumerate(series):
        color = COLORS[index % len(COLORS)]
        spots = [(x + _PLOT_W * (px - left) / ((right - left) or 1), y + _PLOT_H * (1 - py / top)) for px, py in line]
        path = "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in spots)
        width = 2 + 1.5 * (len(series) - 1 - index)
        yield f'<path class="line" stroke="{color}" stroke-width="{width:g}" d="{path}"><title>{escaped(name)}</title></path>'
        yield f'<rect x="{name_x:g}" y="{y + _PLOT_H + 30}" width="14" height="4" fill="{color}"/>'
        yield f'<text class="soft" x="{name_x + 18:g}" y="{y + _PLOT_H + 36}">{escaped(name)}</text>'
        name_x += 30 + 6.6 * len(name)
