"""Records drawn by weights, with and without replacement: which one is at a position follows from seed, epoch and position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, invalid
from .chosen import fingerprint

Array = np.ndarray[Any, Any]

# Weights become integers of about this sum, so that sums of them are exact.
_SUM = 1 << 52
_WORD = 4  # random words of a count of Philox
_TERMS = 13  # of the series of a logarithm, past which nothing is added to 53 bits


class Weighted:
    """What a user asked for. `samples`: of an epoch; None: as many as there are records, or can be drawn."""

    _of_no_identity = ("method",)

    def __init__(self, weights: Array, samples: int | None, replacement: bool, method: str = "weighted") -> None:
        self.weights, self.samples, self.replacement = weights, samples, replacement
        self.method = method  # what the user called
        self.digest = fingerprint(weights)

    @property
    def is_native(self) -> bool:
        """Whether native streams can have this order: without replacement an epoch's is made as a whole."""
        return self.replacement

    @property
    def __name__(self) -> str:
        return "with replacement" if self.replacement else "without replacement"

    def __call__(self, *_: Any) -> Any:
        raise TypeError("records are drawn by Draws")

    def check(self, records: int) -> None:
        """Errors: InvalidArgument, where there are more or fewer weights, or labels that they are from, than records."""
        if len(self.weights) != records:
            raise InvalidArgument(
                f"{self.method}: {'labels' if self.method == 'balanced' else 'weights'}: got {len(self.weights)} for {records} records; give one for each record after the views, "
                "also of those that a filter drops"
            )

    def positions(self, records: int) -> int:
        """Of an epoch, where no filter leaves records out."""
        if self.samples is not None:
            return self.samples
        return records if self.replacement else int(np.count_nonzero(self.weights))

    def draws(self, seed: int, survivors: Array | None, records: int = 0, shuffle: bool = False) -> Draws:
        """Of all records, or of those that filters have left, whose order is of no account.
        Errors: InvalidArgument, when none can be drawn."""
        weights = self.weights if survivors is None else self.weights[survivors]
        return Draws(weights, self.samples, self.replacement, seed)


class Draws:
    """Threads: one.

    >>> draws = Draws(np.array([1.0, 0.0, 3.0]), 8, True, seed=1)
    >>> set(draws.at(0, 0, 8).tolist()) == {0, 2}, draws.at(0, 2, 3).tolist() == draws.at(0, 0, 8)[2:5].tolist()
    (True, True)

    Cost: with replacement some microseconds per call; without, an epoch's order is made when it is first asked, some 100 ns per
    record, and kept.
    """

    def __init__(self, weights: Array, samples: int | None, replacement: bool, seed: int) -> None:
        able = int(np.count_nonzero(weights))
        if not able:
            raise InvalidArgument(
                "weighted: weights: all of what filters keep have weight 0; give some of it more than 0"
            )
        if samples is not None and not replacement and samples > able:
            raise InvalidArgument(
                f"weighted: samples: got {samples}, and {able} records have a weight of more than 0; give at most {able}, or "
                "replacement=True"
            )
        self.count = samples or (len(weights) if replacement else able)
        self.lowest = np.flatnonzero(weights)[:64].tolist()  # records that can be drawn
        self._replacement, self._key = replacement, _core.op_key(seed, "carya.weighted", 0)
        self._weights = weights
        whole = np.rint(weights / math.fsum(weights.tolist()) * _SUM).astype(np.int64)
        self._ends = np.cumsum(np.where(weights > 0, np.maximum(whole, 1), 0))
        self._order: tuple[int, Array] = (-1, np.zeros(0, np.int64))

    def described(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a native stream is told (transforms/FORMAT.md), and the numbers beside it. With replacement only."""
        key = np.random.Philox(key=[self._key, 0]).state["state"]["key"][0]  # numpy rounds what is 2^63 or more
        drawn = {"positions": self.count, "key": int(key), "fingerprint": fingerprint(self._ends)}
        return {"drawn": drawn}, {":drawn": self._ends}

    def at(self, epoch: int, first: int, count: int) -> Array:
        """The records at these positions, int64."""
        if not self._replacement:
            if self._order[0] != epoch:
                self._order = (epoch, self._ordered(epoch))
            part: Array = self._order[1][first : first + count]
            return part
        places = np.floor(self._uniform(epoch, first, count) * float(self._ends[-1])).astype(np.int64)
        found: Array = np.searchsorted(self._ends, np.minimum(places, self._ends[-1] - 1), "right").astype(np.int64)
        return found

    def _uniform(self, epoch: int, first: int, count: int) -> Array:
        """Numbers of 0 to 1, without 1, of 53 bits: that of a position depends on no other."""
        begin = first // _WORD
        bits = np.random.Philox(key=[self._key, epoch], counter=[begin, 0, 0, 0])
        words: Array = bits.random_raw(count + first - begin * _WORD)[first - begin * _WORD :]
        uniform: Array = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return uniform

    def _ordered(self, epoch: int) -> Array:
        """Those that are drawn, in the order in which they are: by exponential numbers with the weights as their rates.

        Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
        """
        able = np.flatnonzero(self._weights)
        uniform = self._uniform(epoch, 0, len(self._weights))[able]
        waits = -logarithm(1.0 - uniform) / self._weights[able]
        order: Array = able[np.argsort(waits, kind="stable")[: self.count]]
        return order


def logarithm(values: Array) -> Array:
    """Natural logarithms of numbers of more than 0, the same bits on every machine: libm's and numpy's differ by some.

    >>> bool(np.allclose(logarithm(np.array([0.1, 1.0, 7.0])), np.log([0.1, 1.0, 7.0]), rtol=1e-15))
    True
    """
    mantissa, exponent = np.frexp(values)
    low = mantissa < math.sqrt(0.5)
    mantissa, exponent = np.where(low, mantissa * 2.0, mantissa), exponent - low
    ratio = (mantissa - 1.0) / (mantissa + 1.0)  # ln m = 2 artanh of this
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for term in range(2 * _TERMS - 1, 0, -2):
        series = series * square + 1.0 / term
    made: Array = 2.0 * ratio * series + exponent * 0.6931471805599453
    return made


def checked_weighted(weights: Any, samples: Any, replacement: Any, method: str = "weighted") -> Weighted:
    """What a user gave to `weighted`. Errors: InvalidArgument that names the parameter."""
    wanted = "a number of 0 or more for each record, and one of more than 0"
    try:
        array = np.ascontiguousarray(weights, np.float64)
    except (TypeError, ValueError):
        raise invalid("weighted: weights", weights, wanted) from None
    fine = array.ndim == 1 and len(array) and bool(np.isfinite(array).all()) and float(array.min()) >= 0
    if not fine or not array.any() or not math.isfinite(float(array.max()) * len(array)):
        raise invalid("weighted: weights", weights, wanted)
    least = float(array[array > 0].min())
    if least / math.fsum(array.tolist()) < 1 / _SUM:
        raise invalid(
            "weighted: weights",
            least,
            f"weights of which none that is more than 0 is less than {1 / _SUM:.2g} of their sum",
        )
    if samples is not None:
        whole = isinstance(samples, int | np.integer) and not isinstance(samples, bool)
        if not whole or not 1 <= samples <= 1 << 40:
            raise invalid(f"{method}: samples", samples, "how many samples an epoch has, an integer of 1 or more")
        samples = int(samples)
    if not isinstance(replacement, bool):
        raise invalid(f"{method}: replacement", replacement, "True or False")
    made = Weighted(array, samples, replacement, method)
    if not replacement and samples is not None:
        made.draws(0, None)
    return made


def balanced_weights(labels: Any) -> Array:
    """Weights that make all classes equally likely. Errors: InvalidArgument."""
    try:
        array = np.asarray(labels)
    except ValueError:
        array = np.zeros((0, 0))
    if array.ndim != 1 or array.dtype.kind not in "iubUS" or not len(array):
        raise invalid("balanced: labels", labels, "the class of each record: integers, or names")
    _, classes, counts = np.unique(array, return_inverse=True, return_counts=True)
    weights: Array = 1.0 / counts[classes]
    return weights
