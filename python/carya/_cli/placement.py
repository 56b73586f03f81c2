"""`carya placement`: where the samples of a daemon's jobs are made, and keeping that. `carya fleet`: who uses which worker."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .. import _core
from .._errors import Error, InvalidArgument, NotFound
from .._loading.remote import LOCAL, PRICES, Placement
from .._watching.view import duration
from .daemon import read_status
from .plan import write_file
from .shown import shown

_AT_ONCE = 32
_EVENTS_SHOWN = 3  # the newest; --json has all
_WORKER, _HOST = 22, 23  # columns


def register(app: Any, typer: Any) -> None:
    """Add the commands to the application."""
    _register_fleet(app, typer)
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
        for event in placement.get("events", [])[-_EVENTS_SHOWN:]:
            print(f"  lately: {shown(event)}")


def _register_fleet(app: Any, typer: Any) -> None:
    """Add the command to the application."""
    workers = typer.Argument(..., help="host:port, unix:/path, or dns://name:port for all of a name.")

    @app.command("fleet", epilog="Example: carya fleet dns://carya-worker.ml.svc:7070 --price 0.4273 --insecure")  # type: ignore[untyped-decorator]
    def fleet(
        workers: list[str] = workers,
        price: str = typer.Option("0", help="Of one worker: $ per hour, or a machine type such as n2-standard-8."),
        cert: str = typer.Option("", help="This host's certificate (PEM), with --key and --ca."),
        key: str = typer.Option("", help="Its key."),
        ca: str = typer.Option("", help="Authority of the workers' certificates."),
        server_name: str = typer.Option("", help="The name in their certificates; else the host that is asked."),
        token_file: str = typer.Option(None, help="File with the word that workers want to hear."),
        insecure: bool = typer.Option(False, "--insecure", help="Plain TCP also to other machines."),
        seconds: float = typer.Option(5.0, min=0.1, max=600.0, help="To wait for a worker."),
        as_json: bool = typer.Option(False, "--json", help="One JSON line."),
    ) -> None:
        """Who uses which worker, since when, how much of it, and at which price. Workers are asked, as a host would ask.

        A ? behind a user's name: the host says so, and proves it by no certificate or word.
        """
        if 0 < sum(map(bool, (cert, key, ca))) < 3:
            raise InvalidArgument("fleet: --cert, --key and --ca belong together; give all three or none")
        token = _token(token_file) if token_file else ""
        found = look(
            addresses(workers),
            _price(price),
            {
                "tls": (cert, key, ca),
                "server_name": server_name,
                "token": token,
                "insecure": insecure,
                "seconds": seconds,
            },
        )
        print(json.dumps(found) if as_json else "\n".join(table(shown(found))))
        if all(worker["error"] for worker in found["workers"]):
            raise typer.Exit(1)


def _token(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        raise NotFound(f"fleet: --token-file {path}: {error}; give a file with the word") from None


def _price(text: str) -> float:
    """$ per hour. Errors: InvalidArgument."""
    try:
        price = PRICES[text] if text in PRICES else float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < float("inf"):
        raise InvalidArgument(f"fleet: --price: got {text}; give $ per hour, or one of {', '.join(PRICES)}")
    return price


def addresses(workers: list[str]) -> list[str]:
    """Each once, names replaced by what they stand for. Errors: InvalidArgument, those of the lookup."""
    found = [one for name in workers for one in (_core.look_up_workers(name) if name.startswith("dns://") else [name])]
    return list(dict.fromkeys(found))


def _cure(error: str, ask: dict[str, Any]) -> str:
    """What to give where a worker has refused who asks."""
    if error.endswith("does not know the token"):
        return "; give it by --token-file"
    # One that wants TLS has no words for who speaks none.
    if error.endswith("the peer has ended the connection") and not any(ask["tls"]):
        return "; where it wants TLS, give --cert, --key and --ca"
    if error.endswith("the peer speaks no TLS"):
        return "; start it with --cert, --key and --ca, or give --insecure in place of them here"
    return ""


def look(workers: list[str], price: float, ask: dict[str, Any]) -> dict[str, Any]:
    """Each worker's answer, or why there is none; a host's part of the price of a worker that it uses."""

    def one(address: str) -> dict[str, Any]:
        try:
            usage = _core.worker_usage(address, **ask)
        except Error as error:
            return {"address": address, "error": f"{error}{_cure(str(error), ask)}", "clients": []}
        for client in usage["clients"]:
            client["cost_per_hour"] = price * client["share"] if client["asked_s"] is not None else 0.0
        return {"address": address, "error": "", **usage}

    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(workers)))) as threads:
        return {"price": price, "workers": list(threads.map(one, workers))}


def table(found: dict[str, Any]) -> list[str]:
    """Lines of at most 80 columns, but where a worker's error is longer."""
    lines = [f"{'WORKER':<{_WORKER}} {'HOST':<{_HOST}} {'SINCE':>8} {'SHARE':>5} {'$/H':>6} {'SAVES':>6} {'OUT':>3}"]
    hosts: set[str] = set()
    spent = 0.0
    for worker in found["workers"]:
        name = _cut(worker["address"], _WORKER)
        if worker["error"]:
            lines.append(f"{name:<{_WORKER}} {worker['error']}")
            continue
        if not worker["clients"]:
            lines.append(f"{name:<{_WORKER}} {'drains' if worker['drains'] else 'nobody'}")
        for client in worker["clients"]:
            host = client["client"].removeprefix("carya host ")
            if client["user"]:
                host = f"{client['user']}{'' if client['proven'] else '?'}@{host}"
            share = f"{100 * client['share']:.0f} %" if client["asked_s"] is not None else "-"
            lines.append(
                f"{name:<{_WORKER}} {_cut(host, _HOST):<{_HOST}} {duration(client['since_s']):>8} {share:>5} "
                f"{client['cost_per_hour']:6.3f} {client['saves_per_hour']:6.3f} {client['in_flight']:>3}"
            )
            name = ""
            hosts.add(host)
            spent += client["cost_per_hour"]
        if worker["clients_all"] > len(worker["clients"]):
            lines.append(f"{'':<{_WORKER}} and {worker['clients_all'] - len(worker['clients'])} more")
    up = sum(not worker["error"] for worker in found["workers"])
    lines.append(f"{up} of {len(found['workers'])} workers answer, {len(hosts)} hosts use them, ${spent:.3f} an hour")
    return lines


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 1] + "~"
