"""Scenario files of `carya simulate`: what may stand in them, and what is taken where nothing stands."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from .._errors import InvalidArgument, IoError

_EVENTS = ("demand", "host_time", "worker_time", "link", "worker_price", "lose_workers")
_MAX_EVENTS, _MAX_CUTS, _MAX_BYTES = 1000, 16, 1 << 20


class _Number(NamedTuple):
    otherwise: float | None  # None: it must be given
    least: float
    most: float
    above: bool = False  # `least` itself is too little


_POSITIVE = _Number(None, 0, 1e15, above=True)
_UNKNOWN = _Number(0, 0, 1e15)  # 0: no limit

_PARTS: dict[str, dict[str, _Number]] = {
    "host": {
        "cores": _Number(None, 0, 1e4, above=True),
        "sample_cpu_s": _Number(None, 0, 1e4, above=True),
        "price": _Number(None, 0, 1e6),
    },
    "trainer": {"samples_per_s": _POSITIVE, "samples_per_epoch": _Number(1e6, 1, 1e15)},
    "workers": {
        "cores": _Number(None, 0, 1e4, above=True),
        "price": _Number(None, 0, 1e6),
        "max": _Number(64, 0, 1000),
        "start_s": _Number(30, 0, 3600),
        "billed_s_min": _Number(0, 0, 86400),
        "fails_per_hour": _Number(0, 0, 3600),
        "scaling_loss": _Number(0, 0, 1),
    },
    "link": {"in_bytes_per_s": _UNKNOWN, "out_bytes_per_s": _UNKNOWN},
    "source": {"record_bytes": _UNKNOWN, "bytes_per_s": _UNKNOWN},
    "assumed": {"host": _Number(1, 0.01, 100), "workers": _Number(1, 0.01, 100)},
}
_CUT = {
    "worker_cpu_s": _Number(None, 0, 1e4, above=True),
    "host_cpu_s": _Number(None, 0, 1e4),
    "bytes_in": _Number(0, 0, 1e15),
    "bytes_out": _Number(0, 0, 1e15),
}
_WHOLE = {"noise": _Number(0.05, 0, 0.5), "hours": _Number(1, 0.05, 200), "seed": _Number(1, 0, 2**53)}
_INTEGERS = {"workers.max", "seed"}


def load_scenario(path: str) -> dict[str, Any]:
    """The file's scenario, checked and complete. Errors: IoError, InvalidArgument with the field."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise IoError(
            f"{path}: {error.strerror}; give a scenario file (examples/overflow.json) or the word pecan, cachew or fleet"
        ) from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path}: this is no text; give a scenario as JSON (examples/overflow.json)") from None
    if len(text) > _MAX_BYTES:
        raise InvalidArgument(f"{path}: over 1 MiB; a scenario is a page of JSON (examples/overflow.json)")
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path}: no JSON: {error}; compare it with examples/overflow.json") from None
    try:
        return complete(read)
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from None


def complete(read: Any) -> dict[str, Any]:
    """A scenario with every field. Errors: InvalidArgument with the field and what it must be."""
    given = _object(read, "the scenario")
    _known(given, "", ("name", "cuts", "events", *_PARTS, *_WHOLE))
    name = given.get("name", "scenario")
    if not isinstance(name, str) or not 0 < len(name) <= 80:
        raise InvalidArgument(f"name: got {_given(name)}; give a text of 1 to 80 characters")
    made: dict[str, Any] = {"name": name}
    for part, fields in _PARTS.items():
        made[part] = _numbers(_object(given.get(part, {}), part), fields, part + ".")
    made["cuts"] = [
        _numbers(_object(cut, f"cuts[{i}]"), _CUT, f"cuts[{i}].")
        for i, cut in enumerate(_list(given, "cuts", _MAX_CUTS))
    ]
    made.update(_numbers({key: given[key] for key in _WHOLE if key in given}, _WHOLE, ""))
    seconds = made["hours"] * 3600
    made["events"] = [
        _event(event, f"events[{i}]", seconds) for i, event in enumerate(_list(given, "events", _MAX_EVENTS))
    ]
    made["events"].sort(key=lambda event: event["at_s"])
    return made


def _event(read: Any, name: str, seconds: float) -> dict[str, Any]:
    given = dict(_object(read, name))
    what = given.pop("what", None)
    if what not in _EVENTS:
        raise InvalidArgument(f"{name}.what: got {_given(what)}; give one of {', '.join(_EVENTS)}")
    fields = {"at_s": _Number(None, 0, seconds), "factor": _Number(1 if what == "lose_workers" else None, 0.01, 100)}
    return {**_numbers(given, fields, name + "."), "kind": _EVENTS.index(what)}


def _numbers(given: Mapping[str, Any], fields: Mapping[str, _Number], where: str) -> dict[str, Any]:
    _known(given, where, tuple(fields))
    made: dict[str, Any] = {}
    for key, rule in fields.items():
        value = given.get(key, rule.otherwise)
        name = where + key
        bound = f"a number {'above' if rule.above else 'from'} {rule.least:g} {'and at most' if rule.above else 'to'} {rule.most:g}"
        if value is None:
            raise InvalidArgument(f"{name}: it is missing; give {bound}")
        right = isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
        if not right or not rule.least <= value <= rule.most or (rule.above and value == rule.least):
            raise InvalidArgument(f"{name}: got {_given(value)}; give {bound}")
        if name in _INTEGERS and value != int(value):
            raise InvalidArgument(f"{name}: got {_given(value)}; give a whole number")
        made[key] = int(value) if name in _INTEGERS else float(value)
    return made


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{name}: got {_given(value)}; give an object {{...}} with named fields")
    return value


def _list(given: Mapping[str, Any], name: str, most: int) -> list[Any]:
    value = given.get(name, [])
    if not isinstance(value, list) or len(value) > most:
        raise InvalidArgument(f"{name}: got {_given(value)}; give a list [...] of at most {most}")
    return value


def _known(given: Mapping[str, Any], where: str, names: tuple[str, ...]) -> None:
    for key in given:
        if key not in names:
            raise InvalidArgument(f"{_shown(where + key)}: there is no such field; give one of {', '.join(names)}")


def _shown(name: str) -> str:
    return ascii(name[:60])[1:-1] + ("" if len(name) <= 60 else "...")


def _given(value: Any) -> str:
    """A value as Python shows it: 8 and '8' are not the same."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "..."
