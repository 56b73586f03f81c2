"""`carya placement`: where the samples of a daemon's jobs are made, and keeping that."""

from __future__ import annotations

import json
from typing import Any

from .._errors import NotFound
from .._loading.remote import LOCAL, Placement
from .daemon import read_status
from .plan import write_file
from .shown import shown


def register(app: Any, typer: Any) -> None:
    """Add the commands to the application."""
    job = typer.Argument(..., help="A job of the daemon, as `carya status` names it.")
    socket = typer.Option(None, help="Path of the daemon's socket.")
    placement = typer.Typer(
        name="placement",
        help="Where the samples of a job are made: on this host, by which workers, and why.",
        epilog="Example: carya placement show train",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(placement)

    @placement.command("show", epilog="Example: carya placement show train --rank 0")  # type: ignore[untyped-decorator]
    def show(
        job: str = job,
        rank: int = typer.Option(None, min=0, help="This rank only."),
        socket: str = socket,
        as_json: bool = typer.Option(False, "--json", help="One JSON line."),
    ) -> None:
        """The decision in words and numbers, what lies beside it, the workers and the bill."""
        print_placements(job, placements(socket, job, rank), as_json)

    @placement.command("freeze", epilog="Example: carya placement freeze train -o placement.json")  # type: ignore[untyped-decorator]
    def freeze(
        job: str = job,
        output: str = typer.Option(None, "-o", "--output", help="The file to write; else it goes to stdout."),
        rank: int = typer.Option(0, min=0, help="The rank whose placement is kept."),
        socket: str = socket,
    ) -> None:
        """Keep what was decided: `carya.Loader(p, remote=[...], placement="frozen:placement.json")` decides nothing."""
        text = json.dumps(placements(socket, job, rank)[rank].frozen()) + "\n"
        if not output:
            print(text, end="")
            return
        write_file(output, text)
        print(f'{output}: use it: carya.Loader(pipeline, remote=[...], placement="frozen:{output}")')


def placements(socket: str | None, name: str, rank: int | None = None) -> dict[int, Placement]:
    """By rank. Errors: NotFound, when no daemon listens or none of its jobs is called so."""
    jobs = {job["job"]: job for job in read_status(socket)["jobs"]}
    if name not in jobs:
        known = ", ".join(jobs) or "none"
        raise NotFound(f"no job {name!r} runs in the daemon; its jobs: {known}")
    found = {line["rank"]: line for line in jobs[name]["ranks"] if rank in (None, line["rank"])}
    if not found:
        raise NotFound(f"job {name!r} has no rank {rank} in this daemon")
    return {
        number: Placement(json.loads(line["placement"]) if line["placement"] else LOCAL)
        for number, line in found.items()
    }


def print_placements(name: str, found: dict[int, Placement], as_json: bool) -> None:
    """For a person, or as one JSON line."""
    if as_json:
        print(json.dumps({"job": name, "ranks": found}))
        return
    for number, placement in found.items():
        print(f"job {shown(name)}, rank {number}: {shown(placement)}")
