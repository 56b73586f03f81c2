"""A fleet of workers that the jobs of several users share: tables and a plot of what `autotune/simulator/fleet.h` found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .experiments import Table, plots

HOSTS, MINUTES, PREEMPTED = 1000, 60, 1.0  # preempted: times an hour that each worker is taken away
FLEETS = (10_000, 2000, 1500)  # workers: more than are wanted, fewer, far fewer


def play(seed: int, progress: Callable[[float, float, str], Any]) -> list[dict[str, Any]]:
    """The same jobs with each of the fleets."""

    def one(workers: int) -> dict[str, Any]:
        name = f"{workers:,} workers"
        found: dict[str, Any] = _core.simulate_fleet(
            HOSTS, workers, MINUTES, PREEMPTED, seed, lambda minute: progress(minute, MINUTES, name) or True
        )
        return found

    return [one(workers) for workers in FLEETS]


def tables(fleets: list[dict[str, Any]]) -> list[Table]:
    """Title, heads, rows, and what is to be said of it."""
    heads = ["workers", "in use", "$", "beside who knows all", "and owes nobody", "of each job", "beside no workers", "starved s", "Jain", "Jain of limited"]  # fmt: skip
    rows = [
        [
            f"{one['workers']:,}",
            f"{one['workers_used']:,.0f}",
            f"{one['cost']:,.0f}",
            f"{one['cost'] / one['cost_best']:.4f}",
            f"{one['cost'] / one['cost_best_money']:.4f}",
            f"{one['cost'] / one['cost_best_jobs']:.4f}",
            f"{one['cost'] / one['cost_local']:.3f}",
            f"{one['starved_s']:.0f}",
            f"{one['jain']:.4f}",
            f"{one['jain_limited']:.4f} ({sum(user['limited'] for user in one['users'])})",
        ]
        for one in fleets
    ]
    first = fleets[0]
    said = (
        f"{first['hosts']:,} hosts, {first['jobs']:,} jobs of {len(first['users'])} users in an hour, {first['jobs_kept']:,} "
        "keep samples. Workers share themselves as real ones do. Who knows all pays no start, loses no worker, and gives each "
        "user its part by weight; beside it one who owes users nothing, and one who gives each job the worker-hours that it "
        "had: the rest comes of sharing. Starved: the longest time that a job which gains by a "
        "worker asked, and had less than a tenth of one. Jain's index of worker-hours by each user's part; of users that always "
        "wanted more, by weight."
    )
    scarce = fleets[-1]
    of_users = [
        [
            f"{number}",
            f"{user['weight']:g}",
            f"{user['jobs']}",
            f"{user['worker_hours']:,.1f}",
            f"{user['worker_hours'] / user['part_hours']:.3f}" if user["part_hours"] else "-",
            f"{user['worker_hours'] / user['weight']:,.1f}" + ("" if user["limited"] else " *"),
            f"{user['cost']:,.0f}",
            f"{user['cost'] / user['cost_best']:.4f}" if user["cost_best"] else "-",
        ]
        for number, user in enumerate(scarce["users"], 1)
    ]
    return [
        ("A fleet that hosts and users share", heads, rows, said),
        (
            f"Its users, {scarce['workers']:,} workers",
            ["user", "weight", "jobs", "worker-hours", "of its part", "by weight", "$", "beside who knows all"],
            of_users,
            "*: wanted no more than its part for some time, and left the rest to others.",
        ),
    ]


def draw(fleets: list[dict[str, Any]]) -> str:
    """The text of an SVG file: of each fleet the workers of a user over time by weight, and what each had of its part."""
    rows = []
    for one in fleets:
        weights = sorted({user["weight"] for user in one["users"]})
        over_time = []
        for weight in weights:
            those = [user["workers"] for user in one["users"] if user["weight"] == weight]
            means = [sum(minute) / len(those) for minute in zip(*those, strict=True)]
            over_time.append((f"weight {weight:g}", [(float(at), mean) for at, mean in enumerate(means)]))
        shares = sorted(user["worker_hours"] / user["part_hours"] for user in one["users"] if user["part_hours"])
        costs = sorted(user["cost"] / user["cost_best"] for user in one["users"] if user["cost_best"])
        rows.append(
            [
                (f"{one['workers']:,} workers: of a user, by minute", "workers", over_time),
                (
                    "Users: of its part, and cost beside who knows all",
                    "x",
                    [
                        ("worker-hours of its part", [(float(at), share) for at, share in enumerate(shares)]),
                        ("cost", [(float(at), cost) for at, cost in enumerate(costs)]),
                    ],
                ),
            ]
        )
    return plots("carya simulate fleet: workers of each user, and what they cost", rows)
