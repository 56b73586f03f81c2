"""A trace of Carya's in Perfetto's format, as the JSON that chrome://tracing and older tools read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

Fields = list[tuple[int, Any]]

# The types of a TrackEvent, and Chrome's phases of them.
_PHASES = {1: "B", 2: "E", 3: "i", 4: "C"}


def to_chrome(perfetto: bytes) -> dict[str, Any]:
    """The document: times in µs of CLOCK_MONOTONIC; a track is a thread of its process.

    Flows go from the event that begins one to each that it leads to. Only what Carya writes is understood.
    """
    events: list[dict[str, Any]] = []
    names: dict[tuple[int, int], str] = {}
    arguments: dict[tuple[int, int], str] = {}
    tracks: dict[int, _Track] = {}
    flows: dict[int, list[tuple[float, int, int]]] = defaultdict(list)  # time, process and thread of their events
    for packet in (fields(value) for number, value in fields(perfetto) if number == 1):
        found = dict(packet)
        writer = found.get(10, 0)
        for number, value in fields(found.get(12, b"")):
            named = dict(fields(value))
            (names if number == 2 else arguments)[writer, named[1]] = named[2].decode()
        if 60 in found:
            track = _Track(dict(fields(found[60])), tracks)
            tracks[track.uuid] = track
            events += track.described()
        if 11 not in found:
            continue
        event = fields(found[11])
        said = dict(event)
        track, at = tracks[said[11]], found[8] / 1000
        one: dict[str, Any] = {"ph": _PHASES[said[9]], "ts": at, "pid": track.process, "tid": track.thread}
        if said[9] == 4:
            events.append(one | {"name": track.name, "args": {track.name: said.get(30, 0)}})
            continue
        if said[9] != 2:
            one |= {"name": names[writer, said[10]], "cat": "carya", "args": dict(_arguments(event, writer, arguments))}
        events.append(one | ({"s": "t"} if said[9] == 3 else {}))
        for flow in (value for number, value in event if number in (47, 48)):
            flows[flow].append((at, track.process, track.thread))
    for flow, points in flows.items():
        points.sort()  # processes are written one behind the other
        for before, here in pairwise(points):
            for phase, (at, process, thread) in (("s", before), ("f", here)):
                step = {"ph": phase, "id": f"{flow:x}", "ts": at, "pid": process, "tid": thread}
                events.append(step | {"name": "flow", "cat": "carya"} | ({"bp": "e"} if phase == "f" else {}))
    return {"traceEvents": events, "displayTimeUnit": "ns"}


class _Track:
    """A track as a thread of Chrome's: its own ID where it is one of the system, else a number."""

    def __init__(self, said: dict[int, Any], known: dict[int, _Track]) -> None:
        self.uuid: int = said[1]
        parent = known.get(said.get(5, 0))
        system = dict(fields(said.get(4, b"")))
        self.process: int = parent.process if parent else system[1] if system else dict(fields(said[3]))[1]
        self.thread = system.get(2, len(known) + (1 << 23))  # behind all IDs of Linux
        if 3 in said:
            self.name = dict(fields(said[3]))[6].decode()
        else:
            self.name = (system[5] if system else said[2]).decode()
        self._is_process = 3 in said

    def described(self) -> list[dict[str, Any]]:
        kind = "process_name" if self._is_process else "thread_name"
        return [{"ph": "M", "name": kind, "pid": self.process, "tid": self.thread, "args": {"name": self.name}}]


def _arguments(event: Fields, writer: int, names: dict[tuple[int, int], str]) -> Iterator[tuple[str, Any]]:
    for number, value in event:
        if number == 4:
            said = dict(fields(value))
            yield names[writer, said[1]], said[6].decode() if 6 in said else said[3]


def fields(message: bytes) -> Fields:
    """The fields of a protobuf message: numbers of varints and fixed64, bytes of what has a length.

    >>> fields(b"\\x08\\x96\\x01\\x12\\x02hi")
    [(1, 150), (2, b'hi')]
    """
    found: Fields = []
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            value, at = _varint(message, at)
            found.append((key >> 3, value))
        elif key & 7 == 1:
            found.append((key >> 3, int.from_bytes(message[at : at + 8], "little")))
            at += 8
        elif key & 7 == 2:
            length, at = _varint(message, at)
            found.append((key >> 3, message[at : at + length]))
            at += length
        else:
            raise ValueError(f"trace: wire type {key & 7} at byte {at}: this is no trace of Carya's")
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
