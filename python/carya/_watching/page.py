"""A view as one HTML page: nothing outside of it, no script, nothing in it that a name or a record could start."""

from __future__ import annotations

import base64
import html
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from .._explain.explanation import microseconds, timed_order
from .style import STYLE
from .thumbnails import Thumbnail, Thumbnails
from .view import Stream, View, size

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_REFRESH_S = 5
_BROKEN_MAX = 12
_LIMITS = {
    "trainer": "The trainer limits: the loader has nothing to gain.",
    "cores": "The cores limit: the trainer takes more than the threads can make.",
    "map_batch": "The functions of map_batch limit, which run in the trainer's own thread.",
    "other": "The trainer waits though the cores could do it: for storage, other work on the cores, or slots that it holds.",
}


def page(view: View, thumbnails: Thumbnails, *, refresh: bool = True) -> str:
    """The page. With `refresh` the browser asks for it again every few seconds."""
    again = f'<meta http-equiv="refresh" content="{_REFRESH_S}">' if refresh else ""
    # A browser takes frame-ancestors from a header only, and complains of it here.
    policy = POLICY.rpartition(";")[0]
    shown = "".join(_user(user, thumbnails) for user in view.users) if view.users else _content(view, thumbnails)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(view.at))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">{again}
<title>Carya: {_text(view.title)}</title><link rel="icon" href="data:,"><style>{STYLE}</style></head><body>
<header><h1>{_text(view.title)}</h1><p class=soft>{at}{f", again every {_REFRESH_S} s" if refresh else ""}</p></header>
<main>{_facts(view.facts)}
{shown}</main>
</body></html>
"""


def _user(view: View, thumbnails: Thumbnails) -> str:
    """Of one user of several, whose daemon may say anything: it hides no other."""
    try:
        content = _facts(view.facts) + _content(view, thumbnails)
    except Exception as error:
        content = f"<p class=bad>{_text(f'what it said cannot be drawn: {type(error).__name__}')}</p>"
    return f"<h2 class=user>{_text(view.title)}</h2>{content}\n"


def _content(view: View, thumbnails: Thumbnails) -> str:
    streams = "".join(_stream(stream, thumbnails if view.own else None) for stream in view.streams)
    if not view.streams:
        streams = "<p class=soft>No streams: nothing is read at the moment.</p>"
    if view.left_out:
        streams += f"<p class=soft>{view.left_out:,} more streams are not shown.</p>"
    return streams


def _stream(stream: Stream, thumbnails: Thumbnails | None) -> str:
    state = f' <span class="state">{_text(stream.state)}</span>' if stream.state else ""
    trouble = f"<p class=bad>{_text(stream.trouble)}</p>" if stream.trouble else ""
    blocks = [
        _block("Where time goes", _waiting(stream) + _stages(stream)),
        _block("Slots", _slots(stream.stats.get("slots") or {})),
        _block("Reads", _reads(stream.stats)),
        _block("Plan", _picture(stream)),
        _block("Workers", _workers(stream.placement)),
        _block("Cache and index", _cache(stream.cache) + _index(stream.stats.get("decode_index") or {})),
        _block("Quarantine", _quarantine(stream, thumbnails)),
    ]
    return f"<section><h2>{_text(stream.name)}{state}</h2>{_facts(stream.facts)}{trouble}{''.join(blocks)}</section>\n"


def _block(title: str, content: str) -> str:
    return f"<h3>{title}</h3>{content}" if content else ""


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return (
        "<dl>" + "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(said)}</dd></div>" for name, said in facts) + "</dl>"
    )


def _waiting(stream: Stream) -> str:
    stats = stream.stats
    limit = stream.explanation["stream"]["limit"] if stream.explanation is not None else None
    said = f"<p>{_LIMITS[limit]}</p>" if limit else ""
    share = stats.get("stall_share")
    if share is None or not stats.get("batches"):
        return said
    return said + _bars([("trainer waits", share, f"{share:.0%}"), ("trainer works", 1 - share, f"{1 - share:.0%}")])


def _stages(stream: Stream) -> str:
    """CPU time by pass: as they were timed in this stream, else as it is estimated."""
    report = stream.explanation
    rows: list[tuple[str, float]] = []
    if report is not None and (timed := timed_order(report)):
        rows = [(" + ".join(one.get("ops") or [one.get("name", "?")]), one["us"]) for one in timed.get("stages", [])]
    rows = rows or [
        (one["name"], one.get("cpu_ns_per_sample", one.get("seconds_per_sample", 0) * 1e9) / 1000)
        for one in stream.stats.get("ops", [])
    ]
    most = max((us for _, us in rows), default=0)
    if most <= 0:
        return ""
    return "<p class=soft>CPU time of a sample, in µs:</p>" + _bars(
        (name, us / most, microseconds(us)) for name, us in rows
    )


def _bars(rows: Iterable[tuple[str, float, str]]) -> str:
    lines = "".join(
        f'<tr><th scope=row>{_text(name)}</th><td class=bar><div style="width:{max(0.0, min(share, 1.0)) * 100:.1f}%"></div></td>'
        f"<td class=number>{_text(said)}</td></tr>"
        for name, share, said in rows
    )
    return f"<table class=bars>{lines}</table>"


def _slots(slots: Mapping[str, Any]) -> str:
    if not slots.get("count"):
        return ""
    parts = [(name, slots[name]) for name in ("ready", "held", "filling", "free") if slots.get(name) is not None]
    drawn = "".join(
        f'<div class="{name}" style="flex-grow:{count}" title="{count} {name}"></div>' for name, count in parts if count
    )
    said = ", ".join(f"<span class=key><i class={name}></i>{count} {name}</span>" for name, count in parts)
    ready = slots.get("ready_mean")
    mean = f"; {ready:.1f} ready when the trainer came, in the mean" if ready is not None else ""
    return (
        f'<div class=slots role=img aria-label="{slots["count"]} slots">{drawn}</div>'
        f"<p class=soft>{slots['count']} batches of shared memory, {size(slots['bytes'])}: {said}{mean}</p>"
    )


def _reads(stats: Mapping[str, Any]) -> str:
    if not stats.get("reads"):
        return ""
    facts = [("reads", f"{stats['reads']:,}, {stats['cached_reads']:,} of them from the page cache")]
    if stats.get("read_bytes_per_second"):
        facts.append(("storage", f"{size(stats['read_bytes_per_second'])}/s while reads are under way"))
    if stats.get("read_latency_seconds"):
        facts.append(("latency", f"{stats['read_latency_seconds'] * 1e3:,.2f} ms"))
    if stats.get("read_retries"):
        facts.append(("tried again", f"{stats['read_retries']:,}"))
    for store in stats.get("store", []):
        asked = f"{store['requests']:,} requests and {size(store['bytes'])}, {store['retries']:,} failed, ${store['cost']:.3g}"
        facts.append((store["source"], asked))
    return _facts(facts)


def _picture(stream: Stream) -> str:
    """As an image: its styles are its own, and nothing in it is started."""
    if stream.explanation is None:
        return ""
    order = " > ".join(stream.explanation["order"]) or "no operations"
    drawn = base64.b64encode(stream.explanation.svg().encode("utf-8", "replace")).decode()
    return f'<div class=wide><img class=plan alt="{_text(order)}" src="data:image/svg+xml;base64,{drawn}"></div>'


def _workers(placement: Mapping[str, Any]) -> str:
    workers = placement.get("workers") or []
    if not workers and placement.get("phase") in (None, "", "local"):
        return ""
    said = f"<p>{_text(str(placement.get('phase', '')))}</p>"
    if placement.get("trouble"):
        said += f"<p class=bad>{_text(str(placement['trouble']))}</p>"
    if not workers:
        return said
    head = ("worker", "state", "chunks/s", "MB/s", "in flight", "chunks", "received", "hedged", "lost")
    rows = [
        (
            one["address"], one["state"], f"{one['chunks_per_s']:,.0f}", f"{one['bytes_per_s'] / 1e6:,.1f}",
            f"{one['in_flight']} of {one['credits']}", f"{one['chunks']:,}", size(one["received_bytes"]),
            f"{one['hedged']:,}", f"{one['lost']:,}",
        )
        for one in workers
    ]  # fmt: skip
    return said + _table(head, rows)


def _cache(cache: Mapping[str, Any]) -> str:
    if not cache:
        return ""
    after = f"kept behind {cache['after']}" if cache.get("after") else "nothing is kept"
    facts = [("samples in memory", f"{after}: {cache.get('why', '')}")]
    if cache.get("after"):
        share = cache["hits"] / cache["looked"] if cache.get("looked") else 0.0
        facts += [
            ("in it", f"{cache['records']:,} samples, {size(cache['bytes'])} of {size(cache['capacity_bytes'])}"),
            ("found", f"{cache['hits']:,} of {cache['looked']:,} ({share:.0%})"),
        ]
    return _facts(facts)


def _index(index: Mapping[str, Any]) -> str:
    if not index.get("entries"):
        return ""
    facts = [
        ("decode index", f"{index['entries']:,} records, {size(index['bytes'])} on disk"),
        ("used", f"{index.get('hits', 0):,} times, made {index.get('made', 0):,}"),
    ]
    return _facts(facts)


def _quarantine(stream: Stream, thumbnails: Thumbnails | None) -> str:
    if not stream.quarantine:
        return ""
    times = Counter(entry["record"] for entry in stream.quarantine)
    last = {entry["record"]: entry for entry in stream.quarantine}  # each record once, as it was last met
    shown = sorted(last.values(), key=lambda entry: (-entry.get("epoch", 0), entry["record"]))
    more = len(shown) - _BROKEN_MAX
    note = f"<p class=soft>and {more:,} others</p>" if more > 0 else ""
    drawn = "".join(_broken(entry, times[entry["record"]], thumbnails) for entry in shown[:_BROKEN_MAX])
    return f"<ul class=broken>{drawn}</ul>{note}"


def _broken(entry: Mapping[str, Any], times: int, thumbnails: Thumbnails | None) -> str:
    found = thumbnails.of(dict(entry)) if thumbnails is not None else Thumbnail("", "the user's file")
    picture = f'<img alt="" src="{found.picture}">' if found.picture else f"<span class=none>{_text(found.said)}</span>"
    place = "".join(_place(entry))
    often = f", {times:,} times of late" if times > 1 else ""
    fate = "masked" if entry.get("substitute") is None else f"record {entry['substitute']:,} in its place"
    return (
        f"<li><div class=thumb>{picture}</div><div><p class=name>{_text(place)}</p>"
        f"<p class=bad>{_text(str(entry.get('stage', '')))}: {_text(str(entry.get('reason', '')))}</p>"
        f"<p class=soft>record {entry['record']:,}, epoch {entry.get('epoch', 0):,}{often}, {fate}</p></div></li>"
    )


def _place(entry: Mapping[str, Any]) -> Iterator[str]:
    yield str(entry["path"])
    if entry.get("member"):
        yield f" › {entry['member']}"
    if entry.get("offset"):
        yield f" @{entry['offset']:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    columns = "".join(f"<th>{_text(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><tr>{columns}</tr>{lines}</table></div>"


def _text(text: str) -> str:
    """What steers a terminal, or the direction of letters, is escaped as there."""
    try:
        known = text.encode("utf-8", "surrogateescape")  # the bytes of a file's name
    except UnicodeEncodeError:
        known = text.encode("utf-8", "surrogatepass")
    return html.escape(_core.escaped(known))
