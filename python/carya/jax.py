"""The loader for jax: arrays that lie in the slot, or global arrays over a sharding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from . import _core
from ._errors import InvalidArgument
from ._loading.batch import Batch
from ._loading.loader import Loader as _Loader
from ._pipeline.pipeline import Pipeline

__all__ = ["Loader"]


class Loader(_Loader):
    """`carya.Loader` that yields jax arrays; everything else is the same.

    Labels are int32, since jax without 64 bit would copy int64. The last step keeps its full shape (`pad_last`) unless
    the pipeline says `drop_last`: compiled functions see one shape, and `batch.valid` says which rows count.

    rank, world_size: None takes `jax.process_index()` and `jax.process_count()` when `jax.distributed` is initialized (or
        jax knows of several processes without it), else the launcher's environment, as `carya.Loader` does.
    sharding: a `jax.sharding.Sharding`; arrays are then global, made of the rows of all processes that jax knows.

    >>> import carya, numpy as np
    >>> import carya.jax
    >>> with carya.jax.Loader(carya.arrays({"x": np.arange(3, dtype=np.int32)}).batch(2)) as loader:
    ...     [(batch["x"].tolist(), batch.valid.tolist()) for batch in loader]
    [([0, 1], [True, True]), ([2, 0], [True, False])]
    """

    _label_dtype = "int32"

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        sharding: Any = None,
        **options: Any,
    ) -> None:
        if (
            isinstance(pipeline, Pipeline)
            and pipeline._batch is not None
            and not pipeline._batch["drop_last"]
            and "tokens" not in pipeline._batch
        ):
            pipeline = pipeline._with(batch={**pipeline._batch, "pad_last": True})
        self._sharding = sharding
        # jax on a CPU takes the slot's memory as it is; any other device copies from it, and keeps it until then.
        self._in_place = sharding is None and jax.default_backend() == "cpu"
        known = _processes()
        super().__init__(
            pipeline,
            rank=known[0] if rank is None else rank,
            world_size=known[1] if world_size is None else world_size,
            **options,
        )
        if sharding is not None and self._world_size != jax.process_count():
            self.close()
            raise InvalidArgument(
                f"Loader: sharding: this is rank {self._rank} of {self._world_size}, and jax knows {jax.process_count()} "
                "process(es), so that no global array can be made; call jax.distributed.initialize() before the loader, or "
                "give rank=0, world_size=1 where each process trains by itself"
            )
        self._narrows = jax.dtypes.canonicalize_dtype(np.int64) != np.int64
        self._narrowed: frozenset[str] | None = (
            None  # fields that jax cannot hold without a copy; known at the first batch
        )

    def _wrap(self, taken: Any) -> Batch:
        core: _core.Batch = taken
        if type(core) is not _core.Batch:
            return self._wrap_functions(core)
        batch = Batch()
        for name in self._fields:
            if self._in_place:
                batch[name] = self._local(core, name)
            else:
                batch[name] = self._placed(core.numpy(name))
        batch._core = core
        batch._valid_as = self._place_valid
        return batch

    def _wrap_functions(self, made: Any) -> Batch:
        batch = self._wrap_made(made, self._array if self._sharding is None else self._placed)
        batch._valid_as = self._place_valid
        return batch

    def _array(self, values: np.ndarray[Any, Any]) -> Any:
        wide = self._narrows and values.dtype.itemsize == 8
        if self._in_place and not wide and values.flags.c_contiguous:
            return _shown(values)
        return jax.numpy.array(values) if self._in_place else self._placed(values)

    def _local(self, core: _core.Batch, name: str) -> Any:
        if self._narrowed is None:
            wide = [field for field in self._fields if core.numpy(field).dtype.itemsize == 8]
            self._narrowed = frozenset(wide if self._narrows else ())
        if name in self._narrowed:
            return jax.numpy.asarray(core.numpy(name))
        return _shown(core.numpy(name))

    def _placed(self, values: np.ndarray[Any, Any]) -> Any:
        if self._sharding is None:
            return jax.device_put(values)
        shape = (values.shape[0] * self._world_size, *values.shape[1:])
        return jax.make_array_from_process_local_data(self._sharding, values, shape)

    def _place_valid(self, valid: np.ndarray[Any, Any]) -> Any:
        return jax.numpy.asarray(valid) if self._in_place else self._placed(valid)


def _processes() -> tuple[int, int] | tuple[None, None]:
    """Rank and world size that jax knows; Nones where it was told nothing, so that the launcher is asked."""
    if jax.process_count() > 1 or _is_initialized():
        return jax.process_index(), jax.process_count()
    return None, None


def _is_initialized() -> bool:
    asked = getattr(jax.distributed, "is_initialized", None)  # jax 0.5 and later
    if asked is not None:
        return bool(asked())
    from jax._src import distributed

    return distributed.global_state.client is not None


def _shown(values: np.ndarray[Any, Any]) -> Any:
    """The slot's memory as it is, on a CPU; jax keeps the array, which keeps its lease.

    What comes by DLPack is committed to its device, and so are the results of a step, weights among them: the second step, with
    committed weights, would compile once more.
    """
    return jax.device_put(values, may_alias=True)


def _flattened(batch: Batch) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    return [(jax.tree_util.DictKey(name), value) for name, value in batch.items()], tuple(batch)


def _unflattened(names: tuple[str, ...], values: Iterable[Any]) -> Batch:
    return Batch(zip(names, values, strict=True))


# A batch is a tree of its arrays, as a dict is; what a function made of it has no place in the stream.
jax.tree_util.register_pytree_with_keys(
    Batch, _flattened, _unflattened, lambda batch: (tuple(batch.values()), tuple(batch))
)
