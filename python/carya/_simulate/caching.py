"""Worlds in which samples can be kept, what each choice costs in them, and who chooses what: Cachew and Carya.

A world's time is its own code and not the planner's: parts that go on beside each other do not overlap perfectly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from .. import _core
from . import cachew

# Two parts that each take 300 ms take 307 together in Cachew's Fig. 7: the mean of so high a power has it.
_OVERLAP = 26


@dataclass(frozen=True)
class Kept:
    """A place where a record can be kept, in one tier. Times are of one record, CPU times of one core."""

    name: str
    before_s: float  # CPU time of what makes it, as a pass of its own: nothing behind it is fused with it
    behind_s: float  # of what comes after it
    bytes: float
    copy_s: float = 0.0  # CPU time to put it there, or to take it
    fetch_s: float = 0.0  # of the tier, while it is fetched, at its best rate
    put_s: float = 0.0
    capacity: float = math.inf
    legal: bool = True  # what makes it has nothing random


@dataclass(frozen=True)
class Caching:
    """A world: how a record is made, and where it can be kept."""

    name: str
    compute_s: float  # CPU time of one record where nothing is kept
    source_s: float  # of the storage, while it is read
    cores: float
    records: float
    epochs: int
    kept: tuple[Kept, ...]
    noise: float = 0.0  # what is measured of it is wrong by so much
    seed: int = 0
    cachew: dict[str, int | None] = field(default_factory=dict)  # which place Cachew's words stand for


def epoch_s(world: Caching, place: int | None, epoch: int) -> float:
    """Seconds of an epoch for a record, in the mean, where a place is filled in the first one."""
    at = None if place is None else world.kept[place]
    share = 0.0 if at is None else min(1.0, at.capacity / (world.records * at.bytes))
    hit = share if epoch > 0 else 0.0
    put = share - hit
    compute = (1 - hit - put) * world.compute_s
    stored = 0.0
    if at is not None:
        compute += put * (at.before_s + at.copy_s + at.behind_s) + hit * (at.copy_s + at.behind_s)
        stored = put * at.put_s + hit * at.fetch_s
    return together(compute / world.cores, (1 - hit) * world.source_s, stored)


def together(*seconds: float) -> float:
    """Of parts that go on beside each other.

    >>> round(together(300, 298)), round(together(200, 298))
    (307, 298)
    """
    most = max(seconds)
    return most * math.fsum((one / most) ** _OVERLAP for one in seconds) ** (1 / _OVERLAP) if most > 0 else 0.0


def run_s(world: Caching, place: int | None) -> float:
    """Seconds of all epochs for a record, what filling costs included."""
    return math.fsum(epoch_s(world, place, epoch) for epoch in range(world.epochs))


def ours(world: Caching) -> int | None:
    """What the code that decides in a loader (autotune/cache) chooses, of legal places, by what it measured."""
    draw = random.Random(f"measured {world.seed}")

    def measured(value: float) -> float:
        return value * max(0.5, draw.gauss(1, world.noise)) if world.noise else value

    cores = world.cores
    legal = [index for index, at in enumerate(world.kept) if at.legal]
    places = []
    for index in legal:
        at = world.kept[index]
        behind, copy = measured(at.behind_s), measured(at.copy_s)
        places.append(
            {
                "fill_s": measured(at.before_s) + copy + behind,
                "hit_s": copy + behind,
                "bytes": at.bytes,
                "fetch_s": measured(at.fetch_s) * cores,
                "put_s": measured(at.put_s) * cores,
                "capacity_bytes": min(at.capacity, 1e300),
            }
        )
    facts = {
        "sample_s": measured(world.compute_s),
        "wait_s": measured(world.source_s) * cores,
        "places": places,
        "records": world.records,
        "epochs_left": world.epochs,
    }
    chosen = _core.choose_cache(facts)["place"]
    return None if chosen is None else legal[chosen]


# Fig. 7: one worker, 5 epochs of 556 elements of 900 records, which are inflated 2.5 times; a sleep of so many ms.
FIG7_MS = (200, 250, 300, 350, 400, 450, 500, 550)
FIG7_PUBLISHED = {  # ms of an element, as the figure shows them
    "compute": (309, 298, 307, 353, 408, 454, 506, 554),
    "source": (267, 267, 304, 352, 402, 452, 501, 552),
    "full": (436, 431, 433, 434, 431, 434, 427, 439),
}
_ROW, _ROWS, _INFLATED = 112.6e3, 900, 2.5
_SOURCE_RATE, _SOURCE_CACHE_RATE, FULL_CACHE_RATE = 340e6, 380e6, 588e6  # B/s of one worker, implied by the figure


def fig7_world(sleep_ms: float) -> Caching:
    """One of its points."""
    source, full = _ROW * _ROWS, _ROW * _ROWS * _INFLATED
    sleep_s = sleep_ms / 1000
    kept = (
        Kept("source", 0, sleep_s, source, fetch_s=source / _SOURCE_CACHE_RATE, put_s=source / _SOURCE_CACHE_RATE),
        Kept("full", sleep_s, 0, full, copy_s=1e-6, fetch_s=full / FULL_CACHE_RATE, put_s=full / FULL_CACHE_RATE),
    )
    return Caching(
        f"{sleep_ms:g} ms", sleep_s, source / _SOURCE_RATE, 1, 556, 5, kept, cachew={"compute": None, "source": 0, "full": 1}
    )  # fmt: skip


def fig7() -> list[dict[str, Any]]:
    """Each point: the published times, what Cachew's formula says, what ours says, and both costs beside the best."""
    rows = []
    for index, sleep_ms in enumerate(FIG7_MS):
        published = {place: times[index] for place, times in FIG7_PUBLISHED.items()}
        world = fig7_world(sleep_ms)
        read_ms = 1000 * world.source_s
        theirs = cachew.decide(
            compute_ms=read_ms + sleep_ms,
            row_bytes=_ROW * _ROWS * _INFLATED,
            marked_ms=read_ms,
            marked_rows=_ROWS,
            marked_bytes=_ROW,
        )
        place = ours(world)
        mine = "compute" if place is None else world.kept[place].name
        best = min(published.values())
        rows.append(
            {
                "sleep_ms": sleep_ms,
                "published_ms": published,
                "world_ms": {
                    name: 1000 * epoch_s(world, at, 1) for name, at in (("compute", None), ("source", 0), ("full", 1))
                },
                "cachew": theirs,
                "cachew_cost": published[theirs] / best,
                "carya": mine,
                "carya_cost": published[mine] / best,
            }
        )
    return rows


def drawn(seed: int) -> Caching:
    """A world by chance: a pipeline of up to six operations of which a random one may be any, its storage and its tiers."""
    draw = random.Random(f"world {seed}")

    def between(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    count = draw.randint(2, 6)
    cores = between(1, 64)
    record = between(5e3, 2e6)
    ops = [between(2e-5, 5e-3) for _ in range(count)]
    sizes, size = [], record
    for _ in range(count):
        size *= between(0.25, 6)
        sizes.append(size)
    first_random = draw.randint(1, count)  # count: none is
    fused = draw.random() < 0.5  # the first two cost less together than apart
    whole = math.fsum(ops)
    compute = whole - (0.4 * ops[0] if fused and first_random <= 1 else 0)
    records = between(1e3, 1e7)
    source_rate = between(50e6, 10e9)
    disk_read, disk_write = between(100e6, 8e9), between(80e6, 5e9)
    memory, disk = between(1e9, 1e12), between(1e10, 1e13)
    kept = []
    for name, capacity, read_rate, write_rate in (
        ("memory", memory, math.inf, math.inf),
        ("disk", disk, disk_read, disk_write),
    ):
        for done in range(count + 1):
            size = record if done == 0 else sizes[done - 1]
            kept.append(
                Kept(
                    f"{'source' if done == 0 else f'after {done}'} in {name}",
                    math.fsum(ops[:done]),
                    math.fsum(ops[done:]) if done else compute,
                    size,
                    copy_s=size / 6e9 + 2e-6,
                    fetch_s=size / read_rate,
                    put_s=size / write_rate,
                    capacity=capacity,
                    legal=done <= first_random,
                )
            )
    on_disk = count + 1
    return Caching(
        f"world {seed}", compute, record / source_rate, cores, records, draw.randint(1, 50), tuple(kept), noise=0.05, seed=seed,
        cachew={"compute": None, "source": on_disk, "full": on_disk + count},
    )  # fmt: skip


def theirs_of(world: Caching) -> tuple[str, float]:
    """What Cachew chooses in a world, and the seconds of its run for a record: an epoch to look, one to write, the rest."""
    source, full = (world.kept[world.cachew[name] or 0] for name in ("source", "full"))
    choice = cachew.decide(
        compute_ms=1000 * (world.source_s + world.compute_s / world.cores),
        row_bytes=full.bytes,
        marked_ms=1000 * world.source_s,
        marked_rows=1,
        marked_bytes=source.bytes,
    )
    place = world.cachew[choice]
    seconds = 0.0
    for mode in cachew.modes(choice, world.epochs):
        if mode in ("profile", "compute"):
            seconds += epoch_s(world, None, 0)
        else:
            seconds += epoch_s(replace(world, kept=_unlimited(world)), place, 0 if mode.startswith("put") else 1)
    return choice, seconds


def _unlimited(world: Caching) -> tuple[Kept, ...]:
    """As Cachew sees them: its caches have no capacity."""
    return tuple(replace(at, capacity=math.inf) for at in world.kept)


def grid(worlds: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Drawn worlds: what ours and Cachew's choice cost, beside the best fixed choice that is legal."""
    for seed in range(first, first + worlds):
        world = drawn(seed)
        legal = [None, *(index for index, at in enumerate(world.kept) if at.legal)]
        costs = {place: run_s(world, place) for place in legal}
        best = min(legal, key=lambda place: costs[place])
        place = ours(world)
        choice, seconds = theirs_of(world)
        their_place = world.cachew[choice]
        yield {
            "world": seed,
            "epochs": world.epochs,
            "best": _name(world, best),
            "carya": _name(world, place),
            "carya_cost": costs[place] / costs[best],
            "cachew": choice,
            "cachew_cost": seconds / costs[best],
            "cachew_freezes": their_place is not None and not world.kept[their_place].legal,
            "nothing_cost": costs[None] / costs[best],
        }


def _name(world: Caching, place: int | None) -> str:
    return "nothing" if place is None else world.kept[place].name
