"""What stands for a pipeline with Python functions where a native one is asked: its fingerprint, and what it has not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._errors import InvalidArgument, Unsupported
from .identity import identity
from .mix import MixSpec
from .source import DatasetSpec, Sharded
from .stage import Stage

_NO_FORM = "{}: {} is a Python function and has no such form; write the pipeline without it and add it after reading it"


class FunctionPipeline:
    """The methods of `_core.Pipeline` that loaders call. `native`: the source, views and operations before the functions; `orders`:
    those in which operations and functions may run (`Orders` of _traits/moves.py)."""

    def __init__(
        self,
        native: _core.Pipeline,
        stages: Sequence[Stage],
        dataset: DatasetSpec | MixSpec | Sharded | None,
        batch: dict[str, Any] | None,
        lists: tuple[str, ...],
        orders: Any = None,
    ) -> None:
        self.native, self.dataset, self.lists = native, dataset, lists
        self._orders = orders
        self.stages = stages = tuple(stage for stage in stages if stage.kind not in ("start", "order", "budget"))
        self._identity = identity(
            [
                [stage.identity() for stage in stages],
                None if dataset is None else dataset.fingerprint(),
                lists,
                {key: value for key, value in (batch or {}).items() if key in ("drop_last", "pad_last")},
            ]
        )

    def fingerprint(self, on_error: str, order: Sequence[int] = ()) -> str:
        said = [self.native.fingerprint(on_error), self._identity]
        return identity([*said, list(order)] if order else said)

    def outputs(self) -> list[Any]:
        return []

    def fixed_order(self, reorder: str) -> list[int]:
        found: list[int] = self._orders.fixed(reorder)
        return found

    def check_order(self, order: Sequence[int], reorder: str) -> None:
        if list(order) != self.fixed_order(reorder):
            raise InvalidArgument(
                f"order: operations and functions of this pipeline do not run so under reorder={reorder!r}"
            )

    def op_labels(self) -> list[str]:
        found: list[str] = self._orders.labels
        return found

    def to_json(self) -> str:
        raise self._refused("to_json")

    def explain(self, *_: Any) -> str:
        raise self._refused("explain")

    def freeze_plan(self, **_: Any) -> str:
        raise self._refused("plan")

    def read_plan(self, _: Any) -> Any:
        raise self._refused("plan")

    def lines(self) -> list[tuple[str, list[Any]]]:
        """As a native pipeline's, for printing."""
        found: list[tuple[str, list[Any]]] = [] if self.dataset is not None else list(self.native.lines())
        shown = found[-1][1] if found else []
        if self.dataset is not None:
            found = [(self.dataset.label, [])]
            found += [(text, []) for text, _ in self.native.lines()[1:]]
        return found + [(stage.label, shown if stage.kind == "filter" else []) for stage in self.stages]

    def _refused(self, subject: str) -> Unsupported:
        name = self.stages[0].label if self.stages else self.dataset.label if self.dataset is not None else "it"
        return Unsupported(_NO_FORM.format(subject, name))
