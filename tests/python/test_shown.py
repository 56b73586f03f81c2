"""What somebody else wrote never steers a terminal."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from carya import _core
from carya._cli import daemon
from carya._cli import placement as placement_command
from carya._cli.shown import shown
from carya._loading.remote import LOCAL, Placement

HOSTILE = "a\x1b[2J\x1b]0;title\x07\n\x9b31m\u202e[red]\ud800"


def harmless(text: str) -> bool:
    return all(c in "\n\t" or (ord(c) >= 32 and not 0x7F <= ord(c) < 0xA0 and c != "\u202e") for c in text)


def test_texts_of_a_document_are_escaped_and_the_rest_stays() -> None:
    assert shown({"n": 1, "x": None, "l": [HOSTILE, 0.5]}) == {
        "n": 1,
        "x": None,
        "l": ["a\\x1b[2J\\x1b]0;title\\x07\\x0a\\x9b31m\\u202e[red]\\xed\\xa0\\x80", 0.5],
    }
    assert shown("K\u00f6ln \u20ac \U0001f600") == "K\u00f6ln \u20ac \U0001f600"
    assert _core.escaped(b"\xff") == "\\xff"
    assert shown("a\udcff\udcc2\udc9b") == "a\\xff\\x9b"  # the bytes of a file's name, which may be a control together


def status() -> dict[str, object]:
    worker = {"address": HOSTILE, "state": HOSTILE, "chunks": 1, "chunks_per_s": 1.0, "received_bytes": 1}
    worker |= {"bytes_per_s": 1.0, "in_flight": 0, "credits": 1, "hedged": 0, "lost": 0}
    rank = dict.fromkeys(("rank", "epoch", "position", "samples", "samples_per_s", "bytes_read", "free", "filling"), 0)
    rank |= dict.fromkeys(("ready", "held", "slots", "slot_bytes", "threads", "threads_used", "quarantined"), 0)
    placement = json.dumps({"phase": HOSTILE, "workers": [worker]})
    ranks = [{**rank, "lingers_s": 0.0, "readers": [], "placement": placement}]
    job = {"job": HOSTILE, "state": "running", "source": HOSTILE, "records": 1, "world_size": 1, "ranks": ranks}
    numbers = ("pid", "threads", "memory_bytes", "shared_bytes", "shared_bytes_limit", "descriptors")
    head = dict.fromkeys((*numbers, "descriptors_limit", "attached", "detached", "killed"), 0)
    return {**head, "daemon": HOSTILE, "state": "ready", "up_s": 0.0, "socket": HOSTILE, "cpu_s": 0.0, "jobs": [job]}


def test_status_and_placement_of_hostile_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(daemon, "read_status", lambda _socket: status())
    daemon.show_status(None, as_json=False)
    placement = Placement(LOCAL | {"why": HOSTILE})
    placement_command.print_placements(HOSTILE, {0: placement}, as_json=False)
    out = capsys.readouterr().out
    assert "\\x1b[2J" in out
    assert harmless(out), [c for c in out if not harmless(c)]
    assert Console  # the tables are rich's
