"""`carya simulate`: what the decision about remote workers would cost, on simulated time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from .plan import check_file, write_file
from .tune import _progress, _stopped_by_hand

_EPOCHS = 20.0
_WORLDS = 200  # drawn, for caches
_ROWS = 8 * 6  # of Pecan's workloads, for the progress bar


def register(app: Any, typer: Any) -> None:
    """Add the command to the application."""

    @app.command("simulate", epilog="Example: carya simulate examples/overflow.json --svg overflow.svg")  # type: ignore[untyped-decorator]
    def simulate(
        target: str = typer.Argument(
            ..., help="A scenario (JSON; docs: Simulating remote workers), or the word pecan, cachew or fleet."
        ),
        svg: str = typer.Option(
            None, "--svg", "--plot", help="Write plots of workers and cost over time to this file."
        ),
        seed: int = typer.Option(None, min=0, max=2**53, help="Of the noise, in place of the scenario's."),
        as_json: bool = typer.Option(False, "--json", help="One JSON line and no progress bar."),
    ) -> None:
        """What would remote workers cost a training, and how many would Carya take?

        The code that decides in a loader, on simulated time: hours in milliseconds, no worker needed. A scenario says what is
        true of host, trainer, workers, link and prices, and what changes when; the table has Carya beside a host alone and an
        oracle that knows all. `pecan` plays the five workloads that Pecan was published with, beside Pecan's own policy;
        `cachew` the experiments of Cachew about caches, workers and two jobs, beside Cachew's; `fleet` an hour of 1,000 hosts
        with jobs of 20 users of different weights that share 10,000, 2,000 or 1,500 workers, each taken away once an hour.
        """
        from .._simulate.scenario import load_scenario

        check_file(svg)
        if target == "fleet":
            with _stopped_by_hand(), _progress("simulate", as_json) as progress:
                _fleet(1 if seed is None else seed, svg, as_json, progress)
            return

        if target == "cachew":
            _cachew(seed or 0, svg, as_json)
            return
        scenario = None if target == "pecan" else load_scenario(target)
        with _stopped_by_hand(), _progress("simulate", as_json) as progress:
            groups = _pecan(seed, progress) if scenario is None else [_play(scenario, seed, progress)]
        if svg is not None:
            from .._simulate.svg import draw

            write_file(svg, draw(groups))
        if as_json:
            print(json.dumps({"scenarios": groups, **({"svg": svg} if svg is not None else {})}))
        else:
            _show(groups)
            if svg is not None:
                print(f"Plots: {svg}")


def _cachew(seed: int, svg: str | None, as_json: bool) -> None:
    from .._simulate import caching, pool
    from .._simulate.experiments import draw, tables

    found = {
        "fig7": caching.fig7(),
        "grid": list(caching.grid(_WORLDS, seed)),
        "fig6a": pool.fig6a(),
        "fig10": {**pool.fig10(), "carya_keeps": pool.ours_keeps()},
    }
    if svg is not None:
        write_file(svg, draw(found))
    if as_json:
        print(json.dumps({**found, **({"svg": svg} if svg is not None else {})}))
        return
    _show_tables(tables(found), svg)


def _fleet(seed: int, svg: str | None, as_json: bool, progress: Callable[[float, float, str], Any]) -> None:
    from .._simulate import fleet

    found = fleet.play(seed, progress)
    if svg is not None:
        write_file(svg, fleet.draw(found))
    if as_json:
        print(json.dumps({"fleets": found, **({"svg": svg} if svg is not None else {})}))
        return
    _show_tables(fleet.tables(found), svg)


def _show_tables(tables: Iterable[tuple[str, list[str], list[list[str]], str]], svg: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for title, heads, rows, said in tables:
        table = Table(*heads, title=title)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows:
            table.add_row(*row)
        console.print(table)
        console.print(said, highlight=False, soft_wrap=True)
    if svg is not None:
        print(f"Plots: {svg}")


def _play(scenario: dict[str, Any], seed: int | None, progress: Callable[[float, float, str], Any]) -> dict[str, Any]:
    from .. import _core

    if seed is not None:
        scenario["seed"] = seed
    whole = 3 * scenario["hours"] * 3600
    lines = _core.simulate(scenario, lambda seconds: progress(seconds, whole, scenario["name"]) or True)
    epoch = scenario["trainer"]["samples_per_epoch"]
    rows = []
    for line in lines:
        rate = line["samples"] / (scenario["hours"] * 3600)
        row = {
            key: line[key]
            for key in ("policy", "workers", "changes", "settled_s", "cost_host", "cost_workers", "stall_s")
        }
        rows.append(
            {
                **row,
                "epoch_s": _finite(epoch / rate) if rate else None,
                "cost_per_epoch": _finite(line["cost_per_sample"] * epoch),
                "moments": _moments(line["moments"], epoch),
            }
        )
    return {"name": scenario["name"], "hours": scenario["hours"], "policies": rows}


def _pecan(seed: int | None, progress: Callable[[float, float, str], Any]) -> list[dict[str, Any]]:
    from .. import _core

    groups = []
    for one in _core.simulate_pecan(
        _EPOCHS, 1 if seed is None else seed, lambda done: progress(done, _ROWS, "Pecan's workloads") or True
    ):
        epoch = one["samples_per_epoch"]
        rows = [{**row, "moments": _moments(row["moments"], epoch)} for row in one["policies"]]
        published = {"workers": one["published_workers"], "cost_per_epoch": one["published_cost"]}
        groups.append({"name": one["workload"], "epochs": _EPOCHS, "published": published, "policies": rows})
    return groups


def _moments(moments: list[tuple[float, int, float]], epoch: float) -> list[dict[str, Any]]:
    """Cost per epoch at the rate of each moment; None where nothing was made."""
    return [{"at_s": at, "workers": workers, "cost_per_epoch": _finite(cost * epoch)} for at, workers, cost in moments]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _show(groups: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for group in groups:
        table = Table("policy", "$ / epoch", "workers", "changes", "settled in s", "s / epoch", title=group["name"])
        table.columns[0].no_wrap = True
        for column in table.columns[1:]:
            column.justify = "right"
        for row in group["policies"]:
            name = f"[bold]{row['policy']}[/bold]" if row["policy"] == "Carya" else row["policy"]
            table.add_row(
                name,
                _text(row["cost_per_epoch"], ".4g"),
                str(row["workers"]),
                str(row["changes"]),
                _text(row["settled_s"], ",.0f"),
                _text(row["epoch_s"], ",.0f"),
            )
        console.print(table)
        if "published" in group:
            told = group["published"]
            console.print(
                f"Published of Pecan: {told['workers']:g} workers, ${told['cost_per_epoch']:.3f} an epoch.",
                highlight=False,
            )
    console.print(
        "Costs: host and workers, the way to the answer included; workers: in the end. The oracle knows what is true and "
        "when it changes.",
        highlight=False,
        soft_wrap=True,
    )


def _text(number: float | None, form: str) -> str:
    return "-" if number is None else format(number, form)
