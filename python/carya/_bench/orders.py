"""The order that the optimizer chooses, beside every other legal one, measured: cedar's, Pecan's and SimCLR's pipelines.

Ceiling: the best of a measured sweep over the legal orders (all of them, or as many as SWEPT drawn at random), which is
narrowed round by round: the runs of a round have the same photos, and the least of an order's runs counts. What is left
as the best then runs against the chosen order and the declared one, turn by turn: the median of the turns' ratios is
the answer, so that neither luck in the sweep nor a machine that is slow for a while decides. Must reach 0.98 of the
best. With `peers` also cedar's pipeline by Pillow.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .._errors import InvalidArgument
from .._loading.loader import Loader
from .._pipeline.chain import ops as chain
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import files
from .measure import Rate, cached_in, measure, median
from .peers import crop_box
from .photos import find_photos, warm
from .report import Options, Report

SWEPT = 48
_LAST = 4
_TURNS = 4  # of the last ones
_DUELS = 8  # for each round that is asked for
_BATCH = 16
Sense = Literal["exact", "relaxed"]
_SENSES: tuple[Sense, ...] = ("exact", "relaxed")


class Case(NamedTuple):
    """A pipeline of photos, without its batch."""

    name: str
    ops: Callable[[Pipeline], Pipeline]


def _cedar(p: Pipeline) -> Pipeline:
    p = p.to_dtype("float32", scale=True).random_resized_crop(244).random_horizontal_flip()
    return p.color_jitter(0.1, 0.1, 0.1, 0.1).grayscale().gaussian_blur(11).normalize(0.1307, 0.3081)


def _pecan(p: Pipeline) -> Pipeline:
    p = (
        p.random_horizontal_flip()
        .random_rotation((0, 5), "bilinear")
        .random_affine(0, shear=5.7, interpolation="bilinear")
    )
    return p.random_resized_crop(224, scale=(0.05, 1.0)).to_dtype("float32").subtract_mean((123.68, 116.78, 103.94))


def _simclr(p: Pipeline) -> Pipeline:
    views = (
        chain()
        .random_resized_crop(224)
        .random_horizontal_flip()
        .random_apply(chain().color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8)
        .random_grayscale(0.2)
        .random_apply(chain().gaussian_blur(23), p=0.5)
    )
    return p.two_views(views).to_dtype("float32", scale=True, fields=["view_0", "view_1"])


_POOL: tuple[Callable[[Pipeline], Pipeline], ...] = (
    lambda p: p.random_horizontal_flip(),
    lambda p: p.color_jitter(0.4, saturation=0.4, hue=0.1),
    lambda p: p.color_jitter(contrast=0.5),
    lambda p: p.random_grayscale(0.2),
    lambda p: p.invert(),
    lambda p: p.posterize(4),
    lambda p: p.solarize(128),
    lambda p: p.autocontrast(),
    lambda p: p.gaussian_blur(7),
    lambda p: p.random_rotation(15, "bilinear"),
    lambda p: p.pad(8, padding_mode="reflect"),
    lambda p: p.random_crop(256, pad_if_needed=True),
    lambda p: p.resize((256, 256)),
)


def _drawn(seed: int) -> Case:
    draw = random.Random(seed)
    picked = draw.sample(_POOL, 3 + draw.randrange(3))
    last = draw.randrange(2)

    def ops(p: Pipeline) -> Pipeline:
        for op in picked:
            p = op(p)
        return (p.center_crop(224) if last else p.random_resized_crop(224)).normalize(0.5, 0.25)

    return Case(f"random {seed}", ops)


def cases(drawn: int) -> list[Case]:
    """The three pipelines of the literature, and so many drawn ones."""
    named = [Case("cedar cv", _cedar), Case("pecan resnet50", _pecan), Case("simclr", _simclr)]
    return named + [_drawn(seed) for seed in range(drawn)]


def run(options: Options) -> Report:
    options = options.scaled()
    report = Report("orders")
    with tempfile.TemporaryDirectory() as scratch:
        paths = find_photos(options, Path(scratch))
        warm(paths)
        report.facts = {"photos": len(paths), "batch": _BATCH}
        picked = [Case("cedar cv", _cedar), _drawn(0)] if options.smoke else cases(20)
        for case in picked:
            pipeline = case.ops(files(paths).shuffle(seed=1).decode_image()).batch(_BATCH)
            for sense in _SENSES:
                report.rows.append(_row(case.name, pipeline, sense, len(paths), options, scratch))
        if options.peers:
            report.facts["cedar_pillow_us"] = round(_pillow(paths, options.seconds).cpu_us, 1)
    return report


def _row(name: str, pipeline: Pipeline, sense: Sense, photos: int, options: Options, scratch: str) -> dict[str, Any]:
    orders = list(itertools.islice(legal_orders(pipeline, sense), 3 if options.smoke else 20_000))
    whole = 4 if options.smoke else max(1, photos // _BATCH)
    chosen = _chosen(pipeline, sense, options, scratch)
    declared = tuple(range(len(chosen)))
    swept = orders if len(orders) <= SWEPT else random.Random(1).sample(orders, SWEPT)
    left = list({*swept, chosen, declared})
    batches, turns = max(1, whole // 8), 2
    while len(left) > 1 and turns <= _TURNS:
        costs = _least(pipeline, sense, left, batches, turns, scratch)
        left = sorted(left, key=lambda order: costs[order])[: max(_LAST, len(left) // 4)]
        batches, turns = min(batches * 2, whole), turns * 2 if len(left) <= _LAST else turns
    best = left[0]
    costs, of_best, gain = _duel(pipeline, sense, (chosen, best, declared), whole // 3 + 1, options, scratch)
    return {
        "pipeline": name,
        "reorder": sense,
        "orders": len(orders),
        "swept": len(swept),
        "written_us": round(costs[declared], 1),
        "chosen_us": round(costs[chosen], 1),
        "best_us": round(costs[best], 1),
        "of_best": round(of_best, 3),
        "gain": round(gain, 2),
        "chosen": " ".join(map(str, chosen)),
        "best": " ".join(map(str, best)),
    }


def _duel(
    pipeline: Pipeline,
    sense: Sense,
    orders: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    batches: int,
    options: Options,
    scratch: str,
) -> tuple[dict[tuple[int, ...], float], float, float]:
    """The chosen order, the best and the declared one, in turns: the median costs, and those of the second's and the
    third's ratios to the first.
    """
    runs: dict[tuple[int, ...], list[float]] = {order: [] for order in orders}
    for turn in range((1 if options.smoke else _DUELS) * options.rounds):
        for order in list(runs) if turn % 2 else reversed(list(runs)):
            runs[order].append(_cpu_us(pipeline, sense, order, batches, scratch))
    chosen, best, declared = (runs[order] for order in orders)
    of_best, gain = (median([b / a for a, b in zip(chosen, other, strict=True)]) for other in (best, declared))
    return {order: median(costs) for order, costs in runs.items()}, of_best, gain


def _least(
    pipeline: Pipeline, sense: Sense, orders: list[tuple[int, ...]], batches: int, turns: int, scratch: str
) -> dict[tuple[int, ...], float]:
    """CPU microseconds per sample of each order: the least of so many runs, in turns."""
    costs = dict.fromkeys(orders, float("inf"))
    for _ in range(turns):
        for order in orders:
            costs[order] = min(costs[order], _cpu_us(pipeline, sense, order, batches, scratch))
    return costs


def legal_orders(pipeline: Pipeline, sense: str) -> Iterator[tuple[int, ...]]:
    """All orders that exchanges of neighbours reach from the declared one, nearest first."""
    count = len(pipeline.native.op_labels())
    seen = {tuple(range(count))}
    reached = list(seen)
    for order in reached:
        yield order
        for at in range(count - 1):
            other = (*order[:at], order[at + 1], order[at], *order[at + 2 :])
            if other in seen:
                continue
            seen.add(other)
            try:
                pipeline.native.check_order(other, sense)
            except InvalidArgument:
                continue
            reached.append(other)


def _chosen(pipeline: Pipeline, sense: Sense, options: Options, scratch: str) -> tuple[int, ...]:
    """What a loader runs after it has looked at what it measures."""
    with (
        cached_in(tempfile.mkdtemp(dir=scratch)),
        Loader(pipeline, threads=1, daemon="embedded", decode_index="off", reorder=sense) as loader,
    ):
        measure(_sizes(loader), options.seconds)
        return tuple(loader.explain()["indices"])


def _cpu_us(pipeline: Pipeline, sense: Sense, order: tuple[int, ...], batches: int, scratch: str) -> float:
    path = Path(scratch) / "plan.json"
    path.write_text(pipeline.native.freeze_plan(reorder=sense, order=order))
    with (
        cached_in(scratch),
        Loader(pipeline, threads=1, daemon="embedded", decode_index="off", reorder=sense, plan=path) as loader,
    ):
        return measure(_sizes(loader), 0, batches_min=batches).cpu_us


def _sizes(loader: Loader) -> Iterator[int]:
    while True:
        for batch in loader:
            yield len(batch.records)


def _pillow(paths: list[str], seconds: float) -> Rate:
    """cedar's pipeline by Pillow and numpy, one sample after the other in this thread: less than a DataLoader does."""
    from PIL import Image, ImageEnhance, ImageFilter

    draw = np.random.default_rng(1)

    def sample(path: str) -> Any:
        with Image.open(path) as opened:
            image = opened.convert("RGB")
        left, top, width, height = crop_box(draw, image.height, image.width)
        image = image.resize((244, 244), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
        if draw.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            image = change(image).enhance(draw.uniform(0.9, 1.1))
        planes = np.array(image.convert("HSV"))
        planes[:, :, 0] += np.uint8(int(draw.uniform(-0.1, 0.1) * 255) % 256)
        image = Image.fromarray(planes, "HSV").convert("RGB").convert("L")
        image = image.filter(ImageFilter.GaussianBlur(draw.uniform(0.1, 2.0)))
        return (np.asarray(image, np.float32) * np.float32(1 / 255) - 0.1307) / 0.3081

    def samples() -> Iterator[int]:
        for path in itertools.cycle(paths):
            sample(path)
            yield 1

    return measure(samples(), seconds)
