"""What a loader yields: a mapping of arrays that lie in the slot, with the place of the batch in the stream."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import _core

_UNPACKS = frozenset(dis.opmap[name] for name in ("UNPACK_SEQUENCE", "UNPACK_EX"))


class Whole:
    """What a function of whole batches made that is no mapping."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Batch(dict[str, Any]):
    """A mapping from field names to arrays without copies: views into shared memory that keep their slot.

    The slot is given back when the last array, view or batch of it is gone; nothing is rewritten before.

    `step`: step of the epoch, from 0. `epoch`. `position`: first position of the epoch after this batch.
    `records`: int64 (rows,), index of each row's record (a substitute under `on_error="replace"` is named here).
    `valid`: bool (rows,), False for rows that hold nothing (`pad_last`, `on_error="mask"`) or repeat another rank's.

    >>> import carya, numpy as np
    >>> with carya.Loader(carya.arrays({"x": np.arange(4)}).batch(2)) as loader:
    ...     batch = next(iter(loader))
    >>> batch["x"].tolist(), batch.records.tolist(), batch.valid.tolist(), batch.step
    ([0, 1], [0, 1], [True, True], 0)
    """

    # `_core` is the leased slot (None for a batch that was copied), `_stamp` what all states of the loader share,
    # `_valid_as` turns the valid bits into the loader's kind of array, `_whole` has what is yielded in place of the batch.
    __slots__ = (
        "_core",
        "_records",
        "_stamp",
        "_streams",
        "_valid",
        "_valid_as",
        "_whole",
        "epoch",
        "position",
        "step",
    )

    step: int
    epoch: int
    position: int

    def __init__(self, data: Mapping[str, Any] | Any = (), /, *, like: Batch | None = None) -> None:
        """Also how frameworks rebuild mappings: `type(batch)({...})`. `like` keeps the place in the stream."""
        super().__init__(data)
        self._core: _core.Batch | None = None
        self._stamp: dict[str, Any] | None = None
        self._records: Any = None
        self._valid: Any = None
        self._valid_as: Callable[[Any], Any] | None = None
        self._streams: Callable[[Any], None] | None = None
        self._whole: Whole | None = None
        self.step = self.epoch = self.position = -1
        if like is not None:
            self._stamp, self._streams = like._stamp, like._streams
            self._records, self._valid = like.records, like.valid
            self.step, self.epoch, self.position = like.step, like.epoch, like.position

    def __iter__(self) -> Iterator[str]:
        """The names of the fields. `x, y = batch` is a TypeError: it would unpack the names."""
        caller = sys._getframe(1)
        if caller.f_lasti >= 0 and caller.f_code.co_code[caller.f_lasti] in _UNPACKS:
            names = ", ".join(map(repr, self.keys()))
            raise TypeError(
                f"a carya.Batch is a mapping, and unpacking it gives its names ({names}); "
                f"make the loader with Loader(..., as_tuple=({names},)) to unpack its arrays"
            )
        return super().__iter__()

    def __missing__(self, name: object) -> Any:
        raise KeyError(f"{name!r}: the batch has no such field; give one of {', '.join(map(repr, self.keys()))}")

    def __getattr__(self, name: str) -> Any:
        given = f"; give batch[{name!r}]" if name in self else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{given}")

    @property
    def records(self) -> Any:
        """Index of each row's record, int64 (rows,); -1 where `pad_last` left a row empty."""
        if self._records is None and self._core is not None:
            self._records = self._core.records.copy()  # small, and often kept: it must not hold the slot
        return self._records

    @property
    def valid(self) -> Any:
        """Which rows hold a good sample, bool (rows,), in the loader's kind of array."""
        if self._valid is None and self._core is not None:
            valid = self._core.valid.copy()
            self._valid = valid if self._valid_as is None else self._valid_as(valid)
        return self._valid

    def state_dict(self) -> dict[str, Any]:
        """The state after this very batch: right even when a device prefetcher has asked for later ones."""
        if self._stamp is None:
            raise TypeError("this batch was rebuilt from a mapping and lost its place; use loader.state_dict()")
        return {**self._stamp, "epoch": self.epoch, "position": self.position}

    def to(self, device: Any, non_blocking: bool = False) -> Batch:
        """A batch of `value.to(device)` for the values that have it (torch tensors); keeps its place in the stream."""
        moved = {}
        for name, value in self.items():
            moved[name] = value.to(device, non_blocking=non_blocking) if hasattr(value, "to") else value
        return Batch(moved, like=self)

    def record_stream(self, stream: Any) -> None:
        """Say that `stream` uses this batch: its slot is not rewritten before what `stream` was given is done."""
        if self._streams is not None:
            self._streams(stream)

    def __reduce__(self) -> tuple[Any, ...]:
        place = (self._stamp, self.records, self.valid, self.step, self.epoch, self.position)
        return _rebuild, (dict(self), place)


def _rebuild(data: dict[str, Any], place: tuple[Any, ...]) -> Batch:
    batch = Batch(data)
    batch._stamp, batch._records, batch._valid, batch.step, batch.epoch, batch.position = place
    return batch
