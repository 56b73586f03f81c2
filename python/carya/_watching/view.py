"""What is shown of streams: asked of a daemon, or of a loader of this process."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import _core
from .._errors import Error
from .._explain.explanation import Explanation
from .._explain.stream import add_stream
from .users import Said

if TYPE_CHECKING:
    from .._loading.loader import Loader

_STREAMS_MAX = 32  # that are shown in full


@dataclass
class Stream:
    """One rank's stream. What nobody knows is empty."""

    name: str
    state: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    stats: Mapping[str, Any] = field(default_factory=dict)
    explanation: Explanation | None = None
    placement: Mapping[str, Any] = field(default_factory=dict)
    cache: Mapping[str, Any] = field(default_factory=dict)
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    trouble: str = ""  # why some of it is missing


@dataclass
class View:
    """One moment."""

    title: str
    facts: list[tuple[str, str]]
    streams: list[Stream]
    left_out: int = 0  # streams that are not among them
    users: list[View] = field(default_factory=list)  # a view of each, where it is of all of them
    own: bool = True  # of who looks: their files may be opened
    at: float = field(default_factory=time.time)


def view_of_daemon(socket: str) -> View:
    """Errors: NotFound, when nobody listens, Timeout and others of the daemon."""
    status = json.loads(_core.daemon_status(socket))
    shared, limit = status["shared_bytes"], status["shared_bytes_limit"]
    facts = [
        ("state", f"{status['state']}, up {duration(status['up_s'])}"),
        ("process", f"{status['pid']} at {status['socket']}"),
        ("reads by", status["io_engine"] or "nothing yet"),
        ("CPU time", f"{status['cpu_s']:,.1f} s"),
        ("memory", f"{size(status['memory_bytes'])}, and {size(shared)} shared of {size(limit)}"),
        ("descriptors", f"{status['descriptors']:,} of {status['descriptors_limit']:,}"),
        ("readers", f"{status['attached']:,} attached, {status['detached']:,} left, {status['killed']:,} killed"),
    ]
    streams: list[Stream] = []
    count = 0
    for job in status["jobs"]:
        count += len(job["ranks"])
        if len(streams) < _STREAMS_MAX:
            streams += _ranks_of(socket, job)
    del streams[_STREAMS_MAX:]
    return View(status["daemon"], facts, streams, max(0, count - len(streams)))


def view_of_users(found: list[Said[View]]) -> View:
    """The daemons of all users on one page. Their files are not opened: they are theirs."""
    each = max(1, _STREAMS_MAX // max(1, len(found)))
    users = []
    for said in found:
        facts = said.answer.facts if said.answer is not None else [("trouble", said.error)]
        if said.late and said.answer is not None:
            facts = [("late", "no answer now, this is what it said last"), *facts]
        streams = said.answer.streams if said.answer is not None else []
        left_out = said.answer.left_out if said.answer is not None else 0
        left_out += max(0, len(streams) - each)
        users.append(View(f"user {said.user}", facts, streams[:each], left_out, own=False))
    return View("all users", [("users with a daemon", f"{len(users)}")], [], users=users, own=False)


def _ranks_of(socket: str, job: Mapping[str, Any]) -> list[Stream]:
    watched: dict[int, Mapping[str, Any]] = {}
    trouble = ""
    try:
        watched = {one["rank"]: one for one in _core.daemon_watch(socket, job["job"])}
    except Error as error:  # it has ended since, or the daemon is of an earlier version
        trouble = str(error)
    return [_rank_of(job, rank, watched.get(rank["rank"]), trouble) for rank in job["ranks"]]


def _rank_of(
    job: Mapping[str, Any], rank: Mapping[str, Any], watched: Mapping[str, Any] | None, trouble: str
) -> Stream:
    readers = ", ".join(
        f"{one['pid']} ({one['stall_s'] / max(one['attached_s'], 1e-9):.0%} of its time waiting)"
        for one in rank["readers"]
    )
    facts = [
        ("data", f"{job['source']}, {job['records']:,} records"),
        ("rate", f"{rank['samples_per_s']:,.0f} samples/s"),
        ("place", f"epoch {rank['epoch']:,}, position {rank['position']:,} of {job['records']:,}"),
        ("so far", f"{rank['samples']:,} samples, {size(rank['bytes_read'])} read"),
        ("threads", f"{rank['threads_used']} at work of {rank['threads']}"),
        ("read by", readers or f"nobody; kept for {rank['lingers_s']:.0f} s more"),
    ]
    stream = Stream(f"{job['job']}, rank {rank['rank']} of {job['world_size']}", job["state"], facts, trouble=trouble)
    slots = {"count": rank["slots"], "bytes": rank["slot_bytes"]}
    slots |= {state: rank[state] for state in ("free", "filling", "ready", "held")}
    stream.stats = {"slots": slots}
    attached = max((one["attached_s"] for one in rank["readers"]), default=0.0)
    stalled = max((one["stall_s"] for one in rank["readers"]), default=0.0)
    if watched is not None:
        # How long a trainer waits is told by its reader, and not by the stream.
        share = stalled / attached if attached > 0 else None
        stream.stats = {**watched["stats"], "stall_share": share, "batches": rank["batches"], "slots": slots}
        stream.placement = json.loads(watched["placement"] or "{}")
        stream.cache = json.loads(watched["stats"].get("cache") or "null") or {}
        stream.quarantine = watched["quarantine"]
        stream.explanation = _explained(watched["explanation"], stream.stats)
    return stream


def view_of_loader(loader: Loader) -> View:
    """Errors: Closed."""
    stats = loader.stats()
    facts = [
        ("made by", stats["place"] if stats["place"] == "embedded" else f"the daemon at {stats['place']}"),
        ("reads by", stats["io_engine"] or "the makers of the batches"),
    ]
    shown = [
        ("data", f"{loader._job.count:,} records"),
        ("place", f"epoch {loader.epoch:,}, position {loader.state_dict()['position']:,}"),
        ("so far", f"{stats['samples_produced']:,} samples, {size(stats['bytes_read'])} read"),
        ("threads", f"{stats['threads_used']} at work of {stats['threads']}"),
    ]
    stream = Stream(f"rank {loader.rank} of {loader.world_size}", "running", shown, stats)
    stream.placement = dict(loader.placement())
    stream.cache = stats.get("cache") or {}
    stream.quarantine = loader.quarantine()[-24:]
    try:
        stream.explanation = loader.explain()
    except Error as error:
        stream.trouble = str(error)
    return View("loader", facts, [stream])


def _explained(text: str, stats: Mapping[str, Any]) -> Explanation | None:
    if not text:
        return None
    report = Explanation(json.loads(text))
    given = {"threads": stats["threads"], "slots": stats["slots"]["count"]}
    report["parallelism"] |= given | {name: stats[name] for name in ("chunk_rows", "ahead_chunks")}
    add_stream(report, stats)
    report |= {"plan": None, "same_bits": True, "cache": None}
    return report


def size(count: float) -> str:
    """Bytes for a person; a limit that is none.

    >>> size(900), size(5 << 20), size(2**64 - 1)
    ('900 B', '5.0 MiB', 'no limit')
    """
    if count >= 1 << 60:
        return "no limit"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
