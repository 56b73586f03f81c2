"""`carya status`, `top`, `logs`, `drain` and `job stop`: what a person wants of the daemon."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core
from .._errors import InvalidArgument, NotFound, Permission
from .._loading.daemon import no_socket
from .._pipeline.document import Document
from .._watching.users import AllUsers, Said
from .._watching.view import duration
from .shown import shown

_REFRESH_S = 1.0


def find(socket: str | None) -> str:
    """Errors: NotFound, when nobody listens; InvalidArgument, when no socket is there but something else."""
    place = socket or _core.daemon_socket()
    if not _core.daemon_listens(place):
        if why := no_socket(place):
            raise InvalidArgument(
                f"{place}: {why}; give the path that caryad listens at (--socket, or CARYA_DAEMON_SOCKET)"
            )
        raise NotFound(
            f'no daemon listens at {place}; start one with `caryad --socket {place}`, or by Loader(daemon="spawn")'
        )
    return place


def read_status(socket: str | None) -> Document:
    """What the daemon says of itself, its jobs, their ranks and readers. Errors: NotFound, Permission."""
    try:
        status: Document = json.loads(_core.daemon_status(find(socket)))
    except Permission as error:
        if os.geteuid() == 0 and "user 0 is not served here" in str(error):
            raise Permission(
                "the daemon here serves all users but root; `carya status --all-users` shows theirs"
            ) from None
        raise
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
        Console().print(_lines(shown(status)))


def show_all_users(socket: str | None, as_json: bool) -> None:
    """`carya status --all-users`. Errors: NotFound (no service for all users), Permission (not root)."""
    from rich.console import Console

    found = _documents(AllUsers(socket, read_status).read())
    if as_json:
        print(json.dumps({"users": found}))
    else:
        Console().print(_lines_of_users(found))


def _documents(found: list[Said[Document]]) -> list[Document]:
    late = {"late": True}
    return [{"user": one.user, **(one.answer or {"error": one.error}), **(late if one.late else {})} for one in found]


def _lines_of_users(found: list[Document]) -> Any:
    from rich.console import Group
    from rich.rule import Rule

    parts: list[Any] = []
    for status in found:
        late = ": no answer now, this is what it said last" if status.get("late") and "error" not in status else ""
        parts.append(Rule(f"user {shown(status['user'])}{late}", align="left", characters="-"))
        parts.append(shown(status["error"]) if "error" in status else _lines(shown(status)))
    return Group(*(parts or ["no user has a daemon now"]))


def top(socket: str | None, all_users: bool, once: bool, as_json: bool) -> None:
    """`carya top`: the status every second, until q or Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    if once or as_json:
        (show_all_users if all_users else show_status)(socket, as_json)
        return
    users = AllUsers(socket, read_status)

    def lines() -> Any:
        return _lines_of_users(_documents(users.read(_REFRESH_S))) if all_users else _lines(shown(read_status(socket)))

    first = lines()
    console = Console()
    signal.signal(signal.SIGTERM, _ended)
    with (
        _keys() as pressed,
        Live(first, console=console, screen=console.is_terminal, auto_refresh=False) as view,
    ):
        try:
            while pressed(_REFRESH_S) != "q":
                view.update(lines(), refresh=True)
        except KeyboardInterrupt:
            return


def _ended(number: int, _: object) -> None:
    """Ends so that the terminal is as it was before."""
    raise SystemExit(128 + number)


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
    found = _core.daemon_logs(find(socket), lines)
    if as_json:
        print(json.dumps({"lines": found}))
    else:
        for line in found:
            print(shown(line))


def drain(socket: str | None, as_json: bool) -> None:
    """`carya drain`."""
    place = find(socket)
    _core.daemon_drain(place)
    _say(as_json, {"draining": place}, f"{place} takes no new jobs and ends when nothing is leased")


def stop_job(socket: str | None, name: str, as_json: bool) -> None:
    """`carya job stop`. Errors: NotFound."""
    _core.daemon_stop_job(find(socket), name)
    _say(as_json, {"stopped": name}, f"job {name} was stopped")


def _say(as_json: bool, document: Document, text: str) -> None:
    print(json.dumps(document) if as_json else shown(text))


def _lines(status: Document) -> Any:
    """Lines that are wrapped where the terminal ends, so that 80 columns are enough; a table of all figures wants 200."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    shared, limit = _bytes(status["shared_bytes"]), _bytes(status["shared_bytes_limit"])
    lines = [
        (0, f"{status['daemon']}, {status['state']}, pid {status['pid']}, up {duration(status['up_s'])}"),
        (0, f"at {status['socket']}"),
        (0, f"cpu {status['cpu_s']:.1f} s, threads {status['threads']}, memory {_bytes(status['memory_bytes'])}"),
        (0, f"slots {shared} of {limit}, descriptors {status['descriptors']} of {status['descriptors_limit']}"),
        (0, f"readers: {status['attached']} attached, {status['detached']} left, {status['killed']} killed so far"),
    ]
    lines += [(0, line) for line in _cache_lines(status)]
    for job in status["jobs"]:
        lines += [(0, ""), (0, f"job {job['job']}"), (2, _job_line(job))]
        for rank in job["ranks"]:
            lines += [(2, f"rank {rank['rank']}: {_progress_line(rank)}"), *((4, line) for line in _rank_lines(rank))]
    lines += [(0, line) for line in _function_lines(status)]
    if not (status["jobs"] or status.get("guests")):
        lines.append((0, "no jobs"))
    return Group(*(Padding(Text(text, overflow="fold"), (0, 0, 0, indent)) for indent, text in lines))


def _function_lines(status: Document) -> Iterator[str]:
    """Jobs whose work the processes of their functions do; an older daemon does not say."""
    for guest in status.get("guests", []):
        weight = f", weight {guest['weight']:g}" if guest["weight"] != 1 else ""
        yield ""
        yield f"functions of process {guest['pid']}{weight}"
        busy = f"{guest['wants']} workers have work, {min(guest['threads'], guest['wants'])} may compute now"
        yield f"  {busy if guest['wants'] else 'no work now'}; cpu {guest['cpu_s']:.1f} s"


def _cache_lines(status: Document) -> Iterator[str]:
    """What all jobs keep of their samples; an older daemon does not say."""
    if not (status.get("cache_bytes") or status.get("cache_written_bytes")):
        return
    budget = status.get("cache_write_budget")
    yield (
        f"samples kept: memory {_bytes(status['cache_bytes'])} of {_bytes(status['cache_bytes_limit'])}, "
        f"{_bytes(status['cache_written_bytes'])} written to files in 24 h"
        + (f" of {_bytes(budget)}" if budget else "")
    )


def _tier_line(name: str, tier: Document, looked: int) -> str:
    share = f" ({tier['hits'] / looked:.0%})" if looked else ""
    written = tier["filled"] if name == "memory" else tier["written"]
    age = f", since {duration(tier['age_s'])}" if tier.get("age_s") else ""
    trouble = f"; {tier['trouble']}" if tier.get("trouble") else ""
    return (
        f"kept in {name}: {_bytes(tier['bytes'])} of {_bytes(tier['capacity_bytes'])}, {tier['records']:,} samples, "
        f"{tier['hits']:,} hits{share}, {written:,} written{age}{trouble}"
    )


def _job_line(job: Document) -> str:
    weight = f", weight {job['weight']:g}" if job.get("weight", 1) != 1 else ""  # an older daemon knows none
    return f"{job['state']}, {job['source']}, {job['records']:,} records, world {job['world_size']}{weight}"


def _progress_line(rank: Document) -> str:
    return f"{rank['samples_per_s']:,.0f} samples/s, epoch {rank['epoch']} at {rank['position']:,}"


def _rank_lines(rank: Document) -> Iterator[str]:
    states = ", ".join(f"{rank[state]} {state}" for state in ("ready", "held", "filling", "free"))
    readers = ", ".join(f"{reader['pid']} ({reader['stall_share']:.0%} stalled)" for reader in rank["readers"])
    yield f"slots: {rank['slots']} ({_bytes(rank['slot_bytes'])}), {states}"
    yield (
        f"threads {rank['threads_used']} of {rank['threads']}, {rank['samples']:,} samples, "
        f"{_bytes(rank['bytes_read'])} read, {rank['quarantined']} quarantined"
    )
    yield f"readers: {readers or 'none; kept ' + format(rank['lingers_s'], '.0f') + ' s more'}"
    for one in rank.get("closed", []):
        yield f"closed, and holds {one['held']} slots: replica {one['replica']} in process {one['pid']}"
    cache = shown(json.loads(rank.get("cache") or "{}"))
    if cache and cache["capacity_bytes"]:
        yield _tier_line("memory", cache, cache["looked"])
    for tier in cache.get("files", []):
        yield _tier_line(f"{tier['tier']} {tier['path']}", tier, cache["looked"])
    placement = shown(json.loads(rank.get("placement") or "{}"))
    if placement:
        yield f"placement: {_decision(placement)}"
    for worker in placement.get("workers", []):
        yield (
            f"worker {worker['address']}, {worker['state']}: {worker['chunks_per_s']:.0f} chunks/s, "
            f"{worker['bytes_per_s'] / 1e6:.1f} MB/s, in flight {worker['in_flight']} of {worker['credits']}, "
            f"{worker['chunks']:,} chunks, {_bytes(worker['received_bytes'])} received, {worker['hedged']} hedged, {worker['lost']} lost"
        )


def _decision(placement: Document) -> str:
    """Who computes elsewhere for the job, and the bill so far."""
    trouble = f"; {placement['trouble']}" if placement.get("trouble") else ""
    if "bill" not in placement:
        return str(placement["phase"]) + trouble
    bill, running = placement["bill"], placement["running"]
    return (
        f"{placement['phase']}, {running['workers_ready']} of {running['workers']} workers at work; "
        f"bill ${bill['host'] + bill['workers']:.4g}, workers' part ${bill['workers']:.4g} "
        f"(all local ${bill['all_local']:.4g}, all remote ${bill['all_remote']:.4g}){trouble}"
    )


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
