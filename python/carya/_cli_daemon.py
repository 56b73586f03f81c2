"""`carya status`, `top`, `logs`, `drain` and `job stop`: what a person wants of the daemon."""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import _core
from ._document import Document
from ._errors import NotFound
from ._shown import shown

_REFRESH_S = 1.0


def _find(socket: str | None) -> str:
    """Errors: NotFound, when nobody listens."""
    place = socket or _core.daemon_socket()
    if not _core.daemon_listens(place):
        raise NotFound(
            f'no daemon listens at {place}; start one with `caryad --socket {place}`, or by Loader(daemon="spawn")'
        )
    return place


def read_status(socket: str | None) -> Document:
    """What the daemon says of itself, its jobs, their ranks and readers. Errors: NotFound."""
    status: Document = json.loads(_core.daemon_status(_find(socket)))
    for job in status["jobs"]:
        for rank in job["ranks"]:
            for reader in rank["readers"]:
                reader["stall_share"] = reader["stall_s"] / reader["attached_s"] if reader["attached_s"] > 0 else 0.0
    return status


def show_status(socket: str | None, as_json: bool) -> None:
    """`carya status`."""
    from rich.console import Console

    status = read_status(socket)
    if as_json:
        print(json.dumps(status))
    else:
        Console().print(_tables(shown(status)))


def top(socket: str | None, once: bool, as_json: bool) -> None:
    """`carya top`: the status every second, until q or Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    if once or as_json:
        show_status(socket, as_json)
        return
    status = read_status(socket)
    console = Console()
    with (
        _keys() as pressed,
        Live(_tables(shown(status)), console=console, screen=console.is_terminal, auto_refresh=False) as view,
    ):
        try:
            while pressed(_REFRESH_S) != "q":
                view.update(_tables(shown(read_status(socket))), refresh=True)
        except KeyboardInterrupt:
            return


@contextmanager
def _keys() -> Iterator[Any]:
    """Waits for a key at most so many seconds; where there is no keyboard it only waits."""
    if not sys.stdin.isatty():
        yield lambda seconds: time.sleep(seconds)
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def pressed(seconds: float) -> str:
        return sys.stdin.read(1) if select.select([sys.stdin], [], [], seconds)[0] else ""

    try:
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def logs(socket: str | None, lines: int, as_json: bool) -> None:
    """`carya logs`."""
    found = _core.daemon_logs(_find(socket), lines)
    if as_json:
        print(json.dumps({"lines": found}))
    else:
        for line in found:
            print(shown(line))


def drain(socket: str | None, as_json: bool) -> None:
    """`carya drain`."""
    place = _find(socket)
    _core.daemon_drain(place)
    _say(as_json, {"draining": place}, f"{place} takes no new jobs and ends when nothing is leased")


def stop_job(socket: str | None, name: str, as_json: bool) -> None:
    """`carya job stop`. Errors: NotFound."""
    _core.daemon_stop_job(_find(socket), name)
    _say(as_json, {"stopped": name}, f"job {name} was stopped")


def _say(as_json: bool, document: Document, text: str) -> None:
    print(json.dumps(document) if as_json else shown(text))


def _tables(status: Document) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shared, limit = _bytes(status["shared_bytes"]), _bytes(status["shared_bytes_limit"])
    head = Text(
        f"{status['daemon']}, {status['state']}, pid {status['pid']}, up {_duration(status['up_s'])}, at {status['socket']}\n"
        f"cpu {status['cpu_s']:.1f} s, threads {status['threads']}, memory {_bytes(status['memory_bytes'])}, "
        f"slots {shared} of {limit}, descriptors {status['descriptors']} of {status['descriptors_limit']}\n"
        f"readers: {status['attached']} attached, {status['detached']} left, {status['killed']} killed so far"
    )
    if not status["jobs"]:
        return Group(head, Text("no jobs"))
    jobs = Table("job", "state", "source", "records", "world", title="jobs", title_justify="left")
    ranks = Table(
        *("job", "rank", "epoch", "position", "samples", "samples/s", "read", "free", "filling", "ready", "held"),
        *("slots", "threads", "quarantine", "readers (stalled)"),
        title="ranks",
        title_justify="left",
    )
    for job in status["jobs"]:
        jobs.add_row(
            Text(job["job"], overflow="fold"),
            job["state"],
            Text(job["source"], overflow="fold"),
            f"{job['records']:,}",
            str(job["world_size"]),
        )
        for rank in job["ranks"]:
            ranks.add_row(Text(job["job"], overflow="fold"), *_rank_cells(rank))
    workers = _workers(status)
    return Group(head, jobs, ranks, workers) if workers.row_count else Group(head, jobs, ranks)


def _workers(status: Document) -> Any:
    """Who computes elsewhere for the jobs, and the bill so far."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        *("job", "rank", "worker", "state", "chunks", "chunks/s", "received", "MB/s", "in flight", "hedged", "lost"),
        *("placement", "bill: workers, all (all local, all remote)"),
        title="workers",
        title_justify="left",
    )
    for job in status["jobs"]:
        for rank in job["ranks"]:
            placement = shown(json.loads(rank.get("placement") or "{}"))
            for number, worker in enumerate(placement.get("workers", [])):
                table.add_row(
                    Text(job["job"], overflow="fold"),
                    str(rank["rank"]),
                    Text(worker["address"], overflow="fold"),
                    worker["state"],
                    f"{worker['chunks']:,}",
                    f"{worker['chunks_per_s']:.0f}",
                    _bytes(worker["received_bytes"]),
                    f"{worker['bytes_per_s'] / 1e6:.1f}",
                    f"{worker['in_flight']} of {worker['credits']}",
                    str(worker["hedged"]),
                    str(worker["lost"]),
                    *(_decision_cells(placement) if number == 0 else ["", ""]),
                )
    return table


def _decision_cells(placement: Document) -> list[str]:
    if "bill" not in placement:
        return [placement["phase"], ""]
    bill = placement["bill"]
    return [
        f"{placement['phase']}, {placement['running']['workers']} at work",
        f"${bill['workers']:.4g}, ${bill['host'] + bill['workers']:.4g} "
        f"(${bill['all_local']:.4g}, ${bill['all_remote']:.4g})",
    ]


def _rank_cells(rank: Document) -> list[str]:
    readers = [f"{reader['pid']} ({reader['stall_share']:.0%})" for reader in rank["readers"]]
    return [
        str(rank["rank"]),
        str(rank["epoch"]),
        f"{rank['position']:,}",
        f"{rank['samples']:,}",
        f"{rank['samples_per_s']:,.0f}",
        _bytes(rank["bytes_read"]),
        *(str(rank[state]) for state in ("free", "filling", "ready", "held")),
        f"{rank['slots']} = {_bytes(rank['slot_bytes'])}",
        f"{rank['threads_used']} of {rank['threads']}",
        str(rank["quarantined"]),
        ", ".join(readers) or f"none; kept {rank['lingers_s']:.0f} s more",
    ]


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
