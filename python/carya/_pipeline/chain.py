"""Operations without a source: what an operation on operations is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .document import Document
from .ops import Ops
from .order import OrderHints, described

if TYPE_CHECKING:
    from typing_extensions import Self


class OpChain(Ops):
    """Operations in their order that belong to no pipeline. Made by `carya.ops`; every method returns a new chain.

    Parameters and shapes are checked when a pipeline takes it.
    """

    __slots__ = ("_listed",)

    _listed: tuple[Document, ...]

    def __init__(self) -> None:
        self._listed = ()

    def _with_op(self, op: str, order: OrderHints, **parameters: Any) -> Self:
        made = type(self)()
        made._listed = (*self._listed, described(op, parameters, order))
        return made

    def _op_documents(self) -> list[Document]:
        return list(self._listed)

    def __repr__(self) -> str:
        return "carya.ops()" + "".join(f".{_call(op)}" for op in self._listed)


def _call(op: Document) -> str:
    given = [f"{key}={value!r}" for key, value in op.items() if key != "op" and value is not None]
    return f"{op['op']}({', '.join(given)})"


def ops() -> OpChain:
    """An empty chain of operations, to append some and give them to `Pipeline.random_apply` or `two_views`.

    >>> import carya
    >>> carya.ops().color_jitter(0.4, hue=0.1).random_horizontal_flip()
    carya.ops().color_jitter(brightness=0.4, hue=0.1).random_horizontal_flip(p=0.5)
    """
    return OpChain()
