"""One `for` over a loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._errors import Closed, InvalidArgument
from .dataloader_attributes import TAKING, taken_ahead
from .state import Place

if TYPE_CHECKING:
    from .loader import Loader


class Epoch:
    """One `for` over a loader. Taking the first batch makes it the loader's only live iterator."""

    __slots__ = ("_loader", "_turn")

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._turn = 0

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        lock = self._loader._lock()
        try:
            return self._following()
        finally:
            lock.release()

    def _following(self) -> Any:
        loader = self._loader
        if self._turn != loader._turn or not self._turn:
            self._start()
        if loader._steps_left:
            return loader._yield()
        if self._turn > 0:
            following = Place(loader._next.epoch + 1, 0)
            loader._next, loader._before, self._turn = following, None, -1
            loader._look_at_cache()
        raise StopIteration

    def _start(self) -> None:
        if not self._loader._close.alive:
            raise Closed("Loader: it is closed; make a new one")
        if self._turn == -1:
            raise StopIteration
        if self._turn:
            raise InvalidArgument(
                "Loader: this iterator was overtaken by a newer one (or by load_state_dict); "
                "keep one `for` at a time, or make a second Loader"
            )
        self._loader._begin()
        self._loader._before, self._loader._waiting = None, taken_ahead(TAKING)
        self._turn = self._loader._turn
