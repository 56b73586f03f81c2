"""Native operations behind a function: run by the same plans as those of a stream, on what the function returned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument
from .tree import as_leaf, flatten

# Pictures may all have shapes of their own: plans of so many are kept.
_PLANS_MAX = 64


class NativeOps:
    """Operations at one place of a chain. `documents`: theirs (transforms/FORMAT.md); `number`: of the place, from 0."""

    def __init__(self, documents: Sequence[Mapping[str, Any]], number: int) -> None:
        self.documents, self.number = tuple(documents), number

    @property
    def __name__(self) -> str:
        return "+".join(str(document["op"]) for document in self.documents if document["op"] != "part")

    def __call__(self, *_: Any) -> Any:
        raise TypeError("operations are run by NativeRunner")

    def also(self, document: Mapping[str, Any]) -> NativeOps:
        """With one more operation behind them."""
        return NativeOps((*self.documents, document), self.number)


def part_mark(number: int) -> dict[str, Any]:
    """The entry of a document behind which operations have the random numbers of a place behind a function."""
    return {"op": "part", "number": number}


class NativeRunner:
    """Runs them in this process. Threads: one.

    Their random numbers are keyed as all native ones, by op, epoch and record, under a seed of the place (`part_mark`): the same
    operation before and behind a function draws different numbers. Plans are made for the dtypes and shapes that come.
    """

    def __init__(self, ops: NativeOps, seed: int) -> None:
        self._documents, self._label = [part_mark(ops.number), *ops.documents], ops.__name__
        self._seed = seed
        self._plans: dict[tuple[Any, ...], _core.Part] = {}

    def __call__(self, value: Any, place: tuple[int, int, int]) -> dict[str, Any]:
        """A dict of what the operations make of the arrays and numbers in `value`; what has no native form stays as it is.

        Errors: InvalidArgument (the operation, what it was given), SampleError of a picture that is bad data.
        """
        named = flatten(value)
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for name, inner in named.items():
            leaf = as_leaf(inner)
            if isinstance(leaf, np.ndarray) and _is_native(leaf):
                arrays[name] = leaf if leaf.flags.c_contiguous else leaf.copy()
        if not arrays:
            raise InvalidArgument(
                f"{self._label}: the sample has no array, only {', '.join(named) or 'nothing'}; return one, such as a decoded picture"
            )
        key = tuple([(name, array.dtype, array.shape) for name, array in arrays.items()])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._planned(key, arrays)
        epoch, record, occurrence = place
        made: dict[str, Any] = plan.compute(list(arrays.values()), record, epoch, occurrence)
        if len(arrays) < len(named):
            made |= {name: inner for name, inner in named.items() if name not in arrays}
        return made

    def _planned(self, key: tuple[Any, ...], arrays: Mapping[str, np.ndarray[Any, Any]]) -> _core.Part:
        described = {
            name: {"dtype": str(array.dtype), "shape": list(array.shape), "fingerprint": "0" * 32}
            for name, array in arrays.items()
        }
        source = {"type": "arrays", "count": 1, "arrays": described}
        pipeline = _core.Pipeline.parse(json.dumps({"version": 1, "source": source, "ops": self._documents}))
        if len(self._plans) >= _PLANS_MAX:
            self._plans.clear()
        plan = self._plans[key] = _core.Part(pipeline, self._seed)
        return plan


def _is_native(array: np.ndarray[Any, Any]) -> bool:
    dtype = array.dtype
    return dtype.kind in "biuf" and dtype.isnative and dtype.itemsize <= 8 and array.ndim <= 8 and array.size > 0
