"""Records that come several times in an epoch, next to each other or apart: repeated augmentation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, invalid

Array = np.ndarray[Any, Any]

_TIMES_MAX = 1000
_WITHIN_MAX = 1 << 30


class Repeated:
    """What a user asked for. `within`: positions in which a record comes all its times, a multiple of `times`. `samples`: of an epoch;
    None: as many as there are records."""

    method = "repeated"
    is_native = True  # native streams can have this order

    def __init__(self, times: int, within: int, samples: int | None) -> None:
        self.times, self.within, self.samples = times, within, samples

    @property
    def __name__(self) -> str:
        return f"{self.times} times"

    def __call__(self, *_: Any) -> Any:
        raise TypeError("records are repeated by Repeats")

    def check(self, records: int) -> None:
        """Errors: InvalidArgument, where so many records do not give the samples that are wanted."""
        if self.samples is not None and self.samples > records * self.times:
            raise InvalidArgument(
                f"repeated: samples: got {self.samples}, and {records} records that come {self.times} times make "
                f"{records * self.times}; give at most that"
            )

    def positions(self, records: int) -> int:
        """Of an epoch."""
        return records if self.samples is None else self.samples

    def draws(self, seed: int, survivors: Array | None, records: int, shuffle: bool) -> Repeats:
        """Of all records, or of those that filters have left. Errors: InvalidArgument, when those are too few."""
        left = records if survivors is None else len(survivors)
        self.check(left)
        return Repeats(self, left, seed if shuffle else None)


class Repeats:
    """Threads: one.

    An epoch goes through the records in their order (of the shuffle, or as they are) in blocks. A block of `within` positions has
    `within / times` records one behind the other, then the same again, until they have come `times` times. The last block of an epoch
    may have fewer records, and may end before they have come so often.

    >>> repeats = Repeats(Repeated(3, 6, 10), 8, None)
    >>> repeats.at(0, 0, 10).tolist()
    [0, 1, 0, 1, 0, 1, 2, 3, 2, 3]
    """

    def __init__(self, of: Repeated, records: int, seed: int | None) -> None:
        """`records`: how many there are. `seed`: of the shuffle; None: none."""
        self._times = of.times
        self.count = of.positions(records)
        self.lowest = list(range(min(records, 64)))
        self._within, self._apart = of.within, of.within // of.times
        self._records, self._seed = records, seed
        self._order: tuple[int, Any] = (-1, None)

    def described(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a native stream is told (transforms/FORMAT.md), and that no numbers go beside it."""
        return {"repeated": {"times": self._times, "within": self._within, "positions": self.count}}, {}

    def at(self, epoch: int, first: int, count: int) -> Array:
        """The records at these positions, int64."""
        blocks, inside = np.divmod(np.arange(first, first + count, dtype=np.int64), self._within)
        begins = blocks * self._apart
        indices: Array = begins + inside % np.minimum(self._apart, self._records - begins)
        if self._seed is None or not count:
            return indices
        if self._order[0] != epoch:
            self._order = (epoch, _core.Permutation(self._seed, epoch, self._records))
        lowest, highest = int(indices.min()), int(indices.max())
        if highest - lowest >= 2 * count:  # the end of one round and the begin of the next
            each = [self._order[1].records(index, 1)[0] for index in indices.tolist()]
            return np.array(each, np.int64)
        records: Array = self._order[1].records(lowest, highest - lowest + 1)[indices - lowest]
        return records


def checked_repeated(times: Any, within: Any, samples: Any) -> Repeated:
    """What a user gave to `repeated`. Errors: InvalidArgument that names the parameter."""

    def whole(name: str, value: Any, highest: int, wanted: str) -> int:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 1 <= value <= highest:
            raise invalid(f"repeated: {name}", value, wanted)
        return int(value)

    times = whole("times", times, _TIMES_MAX, f"how often a record comes, an integer of 1 to {_TIMES_MAX}")
    wanted = f"a multiple of times={times}, as the global batch size often is, or None"
    within = times if within is None else whole("within", within, _WITHIN_MAX, wanted)
    if within % times:
        raise invalid("repeated: within", within, wanted)
    if samples is not None:
        samples = whole("samples", samples, 1 << 40, "how many samples an epoch has, an integer of 1 or more")
    return Repeated(times, within, samples)
