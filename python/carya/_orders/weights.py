"""Weights of a mix as a user gives them, as a table of integers."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid
from .shares import Mix, Table, mixed

# Weights are integers of this sum at most, so that products of two of them have 60 bits.
_WEIGHTS_MAX = 1 << 30
_ROWS_MAX = 1 << 16
# Positions that the seed of a mix shuffles together. Source: loader/data/mix_order.h.
_BLOCK = 4096
_POSITIONS_MAX = 1 << 46


@dataclass(frozen=True)
class Remade:
    """The mix of counts that are known later. `table`: None where weights follow the counts."""

    table: Table | None
    temperature: float | None
    stop: str
    seed: int | None
    spans: tuple[int, ...]
    in_turn: bool

    def __call__(self, counts: Sequence[int]) -> Mix:
        table = table_of(None, counts, self.temperature, None, None) if self.table is None else self.table
        return mixed(counts, table, self.stop, self.seed, self.spans, self.in_turn)


def table_of(weights: Any, counts: Sequence[int], temperature: Any, every: Any, until: Any) -> Table:
    """`weights`: None (as many as there are records), numbers, pairs of position and numbers, or a function of the position that
    is asked each `every` positions up to `until`.

    >>> table_of([(0, [1, 0]), (100, [1, 3])], [5, 5], None, None, None)
    ((0, (1, 0)), (100, (1, 3)))
    >>> table_of(None, [100, 10_000], 2, None, None)
    ((0, (1, 10)),)

    Errors: InvalidArgument that names the parameter.
    """
    power = _power(temperature)
    if callable(weights):
        listed = _asked(weights, every, until)
    elif every is not None or until is not None:
        raise InvalidArgument(
            "mix: every: it says how often a function is asked; give weights= a function of the position"
        )
    elif weights is None:
        listed = [(0, counts)]
    elif _are_pairs(weights):
        listed = _positions(weights)
    else:
        return ((0, _integers("mix: weights", weights, len(counts), power, False)),)
    rows: list[tuple[int, tuple[int, ...]]] = []
    for at, given in listed:
        shares = _integers(f"mix: weights at position {at}", given, len(counts), power, weights is not None)
        if not rows or rows[-1][1] != shares:
            rows.append((at, shares))
    return tuple(rows)


def warn_of_samples_before_their_time(table: Table) -> None:
    """A change is spread over its block where that is shuffled, so that a pipeline of weight 0 is there before its position.

    Called by what a user calls.
    """
    for (_, before), (at, after) in itertools.pairwise(table):
        early = [number for number, (was, now) in enumerate(zip(before, after, strict=True)) if now and not was]
        if early and at % _BLOCK:
            warnings.warn(
                f"mix: pipeline {early[0]} has weight 0 up to position {at}, and samples of it come before, since seed= shuffles "
                f"within blocks of {_BLOCK} positions; give seed=None, which keeps changes sharp",
                RuntimeWarning, stacklevel=3,
            )  # fmt: skip
            return


def _are_pairs(weights: Any) -> bool:
    if not isinstance(weights, list | tuple) or not weights:
        return False
    return all(isinstance(one, list | tuple) and len(one) == 2 and hasattr(one[1], "__len__") for one in weights)


def _positions(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[int, Any]]:
    places = [place for place, _ in pairs]
    whole = all(isinstance(place, int | np.integer) and not isinstance(place, bool) for place in places)
    if not whole or places[0] != 0 or sorted(set(places)) != places or not places[-1] <= _POSITIONS_MAX:
        wanted = "pairs of a position and weights, whose positions begin with 0 and rise"
        raise invalid("mix: weights", pairs, wanted)
    if len(pairs) > _ROWS_MAX:
        raise invalid("mix: weights", f"{len(pairs)} pairs", f"at most {_ROWS_MAX}")
    return [(int(place), given) for place, given in pairs]


def _asked(fn: Callable[[int], Any], every: Any, until: Any) -> list[tuple[int, Any]]:
    for name, value in (("every", every), ("until", until)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 1 <= value <= _POSITIONS_MAX:
            told = (
                "how many positions weights= is asked anew"
                if name == "every"
                else "the position from which on they stay"
            )
            raise invalid(f"mix: {name}", value, f"an integer of 1 or more: {told}")
    if until // every >= _ROWS_MAX:
        raise invalid(
            "mix: every",
            every,
            f"at least {-(-until // (_ROWS_MAX - 1))}, since weights= is asked {_ROWS_MAX} times at most",
        )
    return [(at, fn(at)) for at in [*range(0, int(until), int(every)), int(until)]]


def _power(temperature: Any) -> Callable[[list[float]], list[float]]:
    if temperature is None:
        return lambda given: given
    number = isinstance(temperature, int | float | np.number) and not isinstance(temperature, bool)
    if not number or not temperature > 0:
        raise invalid(
            "mix: temperature",
            temperature,
            "a number of more than 0: 1 leaves weights as they are, more makes them more alike",
        )
    return lambda given: _tempered(given, float(temperature))


def _tempered(given: list[float], temperature: float) -> list[float]:
    """Weights to the power of 1 / temperature, the same bits everywhere: powers of libm are not."""
    import decimal

    if math.isinf(temperature):
        return [float(weight > 0) for weight in given]
    with decimal.localcontext(decimal.Context(prec=30)):
        power = 1 / decimal.Decimal(temperature)
        exact = [(decimal.Decimal(weight).ln() * power).exp() if weight > 0 else decimal.Decimal(0) for weight in given]
        largest = max(exact)
        return [float(weight / largest if largest > 1 << 53 else weight) for weight in exact]


def _integers(
    subject: str, given: Any, count: int, power: Callable[[list[float]], list[float]], zeros: bool
) -> tuple[int, ...]:
    some = "0 or more, and one of more than 0" if zeros else "more than 0"
    wanted = f"{count} numbers of {some}, one for each pipeline"
    try:
        floats = [float(weight) for weight in given]
    except (TypeError, ValueError):
        raise invalid(subject, given, wanted) from None
    fine = all(math.isfinite(weight) and (weight > 0 or (zeros and weight == 0)) for weight in floats)
    if len(floats) != count or not fine or not any(floats):
        raise invalid(subject, list(given), wanted)
    floats = power(floats)
    whole = [int(weight) for weight in floats]
    divisor = math.gcd(*whole)
    if whole == floats and sum(whole) // divisor <= _WEIGHTS_MAX:
        return tuple(weight // divisor for weight in whole)
    total = sum(floats)
    if min(weight for weight in floats if weight) / total < 1 / _WEIGHTS_MAX:
        least = f"{1 / _WEIGHTS_MAX:.2g} of their sum"
        raise invalid(subject, floats, f"weights of which none that is more than 0 is less than {least}")
    shares = [max(1, round(weight / total * (_WEIGHTS_MAX - count))) if weight else 0 for weight in floats]
    divisor = math.gcd(*shares)
    return tuple(share // divisor for share in shares)
