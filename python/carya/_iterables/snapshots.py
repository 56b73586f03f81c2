"""States of iterators that have some, kept in the cache folder, so that a resumed stream need not read a shard from its start.

They only save time: where none is found, or what lies there is damaged, the iterator is passed over from its beginning. What
JSON cannot hold as it is, is not kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from .._stages.identity import identity

# A state is taken each so many samples, and written with every second of those before it once there are so many.
_EVERY = 1024
_STATES_MAX = 32
_FILE_MAX = 64 << 20


class Stateful:
    """The states of one shard's iterator in one epoch. Threads: one."""

    def __init__(self, made: Any, iterator: Any, folder: str, key: Sequence[Any]) -> None:
        self._made, self._iterator = made, iterator
        self._path = os.path.join(folder, f"{identity(list(key))}.json")
        self._every = _EVERY
        self._states: list[tuple[int, Any]] = []

    def sought(self, offset: int) -> tuple[int, Any]:
        """Where the iterator is, at `offset` or before it, and the iterator. Errors: those of `load_state_dict`."""
        self._states = self._kept()
        found = [(at, state) for at, state in self._states if at <= offset]
        if not found:
            return 0, self._iterator
        at, state = found[-1]
        if _has_states(self._iterator):
            self._iterator.load_state_dict(state)
        else:
            self._made.load_state_dict(state)
            self._iterator = iter(self._made)
        return at, self._iterator

    def note(self, offset: int) -> None:
        """Take the state where `offset` samples were given, if it is time for one."""
        if not offset or offset % self._every or (self._states and self._states[-1][0] >= offset):
            return
        try:
            holder = self._iterator if _has_states(self._iterator) else self._made
            state = holder.state_dict()
            if json.loads(json.dumps(state)) != state:
                return
        except (TypeError, ValueError, RecursionError):
            return
        self._states.append((offset, state))
        if len(self._states) > _STATES_MAX:
            self._states, self._every = self._states[1::2], self._every * 2
        self._write()

    def _kept(self) -> list[tuple[int, Any]]:
        try:
            if os.path.getsize(self._path) > _FILE_MAX:
                return []
            with open(self._path, encoding="utf-8") as file:
                listed = json.load(file)
            states = [(int(at), state) for at, state in listed["states"] if int(at) > 0]
            self._every = max(_EVERY, int(listed["every"]))
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return sorted(states, key=lambda one: one[0])

    def _write(self) -> None:
        name = ""
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            try:
                with tempfile.NamedTemporaryFile(
                    "w", dir=os.path.dirname(self._path), suffix=".json", delete=False, encoding="utf-8"
                ) as file:
                    name = file.name
                    json.dump({"every": self._every, "states": self._states}, file)
                os.replace(name, self._path)
            except OSError:
                os.unlink(name)


def stateful(made: Any, iterator: Any, folder: str, key: Sequence[Any]) -> Stateful | None:
    """Of what a function returned, and its iterator: None where neither has states."""
    return Stateful(made, iterator, folder, key) if _has_states(iterator) or _has_states(made) else None


def _has_states(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
