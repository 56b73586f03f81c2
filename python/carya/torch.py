"""The loader for torch: tensors that lie in the slot, pinned memory, copies to a device on a stream of its own."""

from __future__ import annotations

import contextlib
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.utils._pytree
import torch.utils.data

from . import _core
from ._dtypes import BFLOAT16
from ._errors import Error, InvalidArgument
from ._loading.batch import Batch
from ._loading.dataloader_attributes import Sampler
from ._loading.delivery import Taken
from ._loading.devices import Backend, CopiesUnderWay, Event, RetiredLeases, node_of_pci
from ._loading.loader import Loader as _Loader
from ._loading.state import Place
from ._pipeline.pipeline import Pipeline
from ._torch.dataloader import DataLoader

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DataLoader", "Loader"]

_NO_CUDA = "torch finds no CUDA device here"


class Loader(_Loader):
    """`carya.Loader` that yields torch tensors; everything else is the same.

    rank, world_size: None takes them from `torch.distributed` when it is initialised, else from the launcher's
        environment as `carya.Loader` does; a process group that is made later and disagrees is a warning.
    pin_memory: register the slots as pinned memory, so that `tensor.to("cuda", non_blocking=True)` runs beside the
        computation. A slot is not rewritten before the streams that used it have passed; name streams other than the
        current one with `batch.record_stream(stream)`. Without CUDA it stays unpinned and says why.
    device: copy every batch to this device on the loader's own stream, one batch ahead; tensors are on the device. The
        slots are pinned for it, where they can be, unless `pin_memory` is False.
    device_backend: another kind of device, as an object with the methods of `carya._loading.devices.Backend`.

    >>> import carya, numpy as np
    >>> import carya.torch
    >>> with carya.torch.Loader(carya.arrays({"x": np.arange(4)}).batch(2)) as loader:
    ...     [batch["x"] for batch in loader]
    [tensor([0, 1]), tensor([2, 3])]
    """

    _takes_bfloat16 = True

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        pin_memory: bool | None = None,
        device: torch.device | str | None = None,
        device_backend: Backend | None = None,
        **options: Any,
    ) -> None:
        self._found = rank is None and world_size is None
        group = _group() or (None, None)
        chosen = None if device is None else torch.device(device)
        self._backend = device_backend
        if self._backend is None and chosen is not None and chosen.type != "cpu":
            self._backend = CudaBackend(chosen)
        elif self._backend is None and pin_memory:
            self._backend = _cuda_or_say_why()
        self._copies = chosen is not None and self._backend is not None and chosen.type != "cpu"
        self._copies = self._copies or (device_backend is not None and not pin_memory)
        self._pins = self._backend is not None and (self._copies if pin_memory is None else pin_memory)
        self._pin_asked = bool(pin_memory)
        self._pin_reason = _NO_CUDA if pin_memory and self._backend is None else ""
        self._defer_release = self._pins and not self._copies
        self._retired = RetiredLeases(self._backend) if self._backend is not None else None
        self._under_way = CopiesUnderWay()
        self._staged: deque[_Staged] = deque()
        if self._backend is not None:
            self._drain = self._backend.close
            self._node = getattr(self._backend, "node", -1)
        super().__init__(
            pipeline,
            rank=group[0] if rank is None else rank,
            world_size=group[1] if world_size is None else world_size,
            **options,
        )
        bfloats = pipeline.has_functions or any(dtype == BFLOAT16 for _, dtype, _ in pipeline.native.outputs())
        self._tensor = _tensor if bfloats else torch.from_numpy

    def _prepare_epoch(self) -> None:
        group = _group() if self._found else None
        if group is not None and group != (self._rank, self._world_size):
            self._found = False  # said once
            warnings.warn(
                f"carya: this loader is rank {self._rank} of {self._world_size}, and the process group that was made after "
                f"it says rank {group[0]} of {group[1]}: ranks may read the same records; make the loader after "
                "init_process_group, or give it rank= and world_size=",
                RuntimeWarning,
                stacklevel=5,
            )

    def _take(self) -> Taken:
        if self._retired is None:
            return super()._take()
        self._poll()
        if not self._copies:
            return self._next_with_polls()
        staged = self._staged.popleft() if self._staged else self._stage(self._next_with_polls())
        self._stage_ahead()
        return staged

    def _poll(self) -> None:
        assert self._retired is not None
        self._under_way.poll()
        if self._defer_release:
            self._retired.poll(self._job.take_retired())

    def _next_with_polls(self) -> _core.Batch:
        """As the base class waits, but leases whose events come to pass meanwhile go back."""
        core = self._job.next(0.0)
        while core is None:
            core = self._job.next(0.001)
            self._poll()
            if core is None and self._held_back() == 0:
                return self._next_batch()
        return core

    def _held_back(self) -> int:
        assert self._retired is not None
        return self._under_way.poll() + self._retired.poll([])

    def _stage(self, core: _core.Batch) -> _Staged:
        assert self._backend is not None
        if type(core) is _core.Batch:
            host = [self._tensor(array) for array in core.arrays()]
        else:
            host = []
            self._wrap_made(core, lambda array: host.append(self._tensor(array)))
        self._pin(core, host)
        tensors, event = self._backend.copy(host)
        self._under_way.add(event, core)
        if type(core) is _core.Batch:
            batch = Batch(zip(self._fields, tensors, strict=True))
        else:
            copied = iter(tensors)
            batch = self._wrap_made(core, lambda _: next(copied))
            batch._core = None  # the batch does not keep the slot; the copy does, while it is under way
        batch._records = core.records.copy()
        batch._valid = torch.from_numpy(core.valid.copy())
        return _Staged(core.place, batch, tensors, event)

    def _stage_ahead(self) -> None:
        """Start the copy of the next batch, if it is ready and belongs to this epoch."""
        if self._steps_left - len(self._staged) > 1 and not self._staged:
            try:
                core = self._job.next(0.0)
            except Error:
                return  # raised again, in its turn, when that batch is asked for
            if core is not None:
                self._staged.append(self._stage(core))

    def _seek(self, place: Place) -> None:
        self._staged.clear()  # copies under way keep their slots until they are done
        super()._seek(place)

    def _wrap(self, taken: Any) -> Batch:
        if self._copies:
            assert self._backend is not None
            self._backend.make_visible(taken.tensors, taken.event)
            staged: Batch = taken.batch
            return staged
        core: _core.Batch = taken
        if type(core) is not _core.Batch:
            batch = self._wrap_made(core, self._tensor)
            if self._backend is not None:
                self._after_wrap(core, batch)
            batch._valid_as = torch.from_numpy
            return batch
        batch = Batch(zip(self._fields, map(self._tensor, core.arrays()), strict=True))
        if self._backend is not None:
            self._after_wrap(core, batch)
        batch._core = core
        batch._valid_as = torch.from_numpy
        return batch

    def _after_wrap(self, core: _core.Batch, batch: Batch) -> None:
        assert self._retired is not None
        self._pin(core, [value for value in batch.values() if isinstance(value, torch.Tensor)])
        batch._streams = self._retired.add_stream

    def _pin(self, core: _core.Batch, host: list[torch.Tensor]) -> None:
        """Register the slot's pages once; the first reason why they cannot be is kept and said."""
        if not self._pins or self._pin_reason or not host:
            return
        assert self._backend is not None
        # Pages of a private mapping that a device holds would not show what is written for the next batch.
        shared = not all(array.flags.writeable for array in core.arrays() if isinstance(array, np.ndarray))
        if getattr(core, "value", None) is not None:
            reason = "a function of whole batches makes what they hold"
        else:
            reason = "others read them too" if shared else self._backend.pin(host)
        if reason:
            self._pin_reason = reason
            if self._pin_asked:
                warnings.warn(f"pin_memory: the slots stay unpinned: {reason}", RuntimeWarning, stacklevel=5)

    @property
    def sampler(self) -> Sampler:
        """As `carya.Loader.sampler`; a `SequentialSampler` where each epoch has the records in their order, for who asks for that."""
        pipeline = self._pipeline
        shuffled = pipeline._shuffle is not None or pipeline._source.mix is not None
        shuffled = shuffled or any(stage.kind in ("order", "weighted") for stage in pipeline._stages)
        return Sampler(self) if shuffled else _InOrder(self)

    def stats(self) -> dict[str, Any]:
        """As `carya.Loader.stats`, with `pinned`: True, False or why not."""
        return {**super().stats(), "pinned": self._pin_reason or self._pins}

    def __enter__(self) -> Self:
        return self


class _InOrder(Sampler, torch.utils.data.SequentialSampler):  # type: ignore[misc]
    """What Lightning wants of a loader whose first batches are to be the same in each epoch (`overfit_batches`)."""

    def __init__(self, loader: Loader) -> None:
        Sampler.__init__(self, loader)
        torch.utils.data.SequentialSampler.__init__(self, loader.dataset)


class _Staged:
    """A batch on its way to the device: what `_take` gives where the loader copies."""

    __slots__ = ("batch", "event", "place", "tensors")

    def __init__(self, place: tuple[int, int, int], batch: Batch, tensors: list[Any], event: Event) -> None:
        self.place = place
        self.batch = batch
        self.tensors = tensors
        self.event = event


class CudaBackend:
    """CUDA streams and events. `pin` registers the pages of a slot with cudaHostRegister."""

    def __init__(self, device: torch.device) -> None:
        if device.type != "cuda":
            raise InvalidArgument(
                f'Loader: device: got {str(device)!r}; give "cpu" or "cuda", or a device_backend= for other devices '
                f"(without one: tensor.to({str(device)!r}) in the training loop)"
            )
        if not torch.cuda.is_available():
            raise InvalidArgument(
                f"Loader: device: got {str(device)!r}, but torch finds no CUDA device here; "
                'give device="cpu", or install a CUDA build of torch'
            )
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pinned: dict[int, int] = {}
        about: Any = torch.cuda.get_device_properties(device)
        self.node = -1
        if hasattr(about, "pci_bus_id"):  # older torch does not say
            self.node = node_of_pci(about.pci_domain_id, about.pci_bus_id, about.pci_device_id)

    def copy(self, tensors: Sequence[Any]) -> tuple[list[Any], Event]:
        with torch.cuda.stream(self._stream):
            copied = [tensor.to(self._device, non_blocking=True) for tensor in tensors]
            event = torch.cuda.Event()
            event.record(self._stream)
        return copied, event

    def make_visible(self, tensors: Sequence[Any], event: Event) -> None:
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(current)  # its memory is not reused before this stream has passed

    def record(self, stream: Any | None) -> Event:
        event: Any = torch.cuda.Event()
        event.record(stream if stream is not None else torch.cuda.current_stream(self._device))
        return event  # type: ignore[no-any-return]

    def pin(self, tensors: Sequence[Any]) -> str:
        # One range of whole pages from the first tensor to the last: they lie in one slot (shm/FORMAT.md).
        page = 4096
        start = min(tensor.data_ptr() for tensor in tensors) // page * page
        end = max(tensor.data_ptr() + tensor.numel() * tensor.element_size() for tensor in tensors)
        if start in self._pinned or end == start:
            return ""
        size = -(-(end - start) // page) * page
        error = int(torch.cuda.cudart().cudaHostRegister(start, size, 0))
        if error:
            # The runtime keeps the error for whoever starts the next kernel; it is taken here, so that it is not the trainer.
            with contextlib.suppress(RuntimeError):
                torch.ones(1, device=self._device)
            return f"cudaHostRegister of {size} bytes: error {error}"
        self._pinned[start] = size
        return ""

    def close(self) -> None:
        if self._pinned:
            torch.cuda.synchronize(self._device)
        for start in self._pinned:
            torch.cuda.cudart().cudaHostUnregister(start)
        self._pinned.clear()


def _tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """`torch.from_numpy`, and a bfloat16 by its two bytes: a type of ml_dtypes, or of nobody's where that is missing."""
    if array.dtype.kind == "V":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _cuda_or_say_why() -> Backend | None:
    if torch.cuda.is_available():
        return CudaBackend(torch.device("cuda", torch.cuda.current_device()))
    warnings.warn(f"pin_memory: the slots stay unpinned: {_NO_CUDA}", RuntimeWarning, stacklevel=4)
    return None


def _group() -> tuple[int, int] | None:
    """Rank and world size of the default process group, where it has been made."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None


def _unflattened(values: Iterable[Any], names: list[str]) -> Batch:
    return Batch(zip(names, values, strict=True))


# A batch is a tree of its tensors, as a dict is; what a function made of it has no place in the stream.
torch.utils._pytree.register_pytree_node(Batch, lambda batch: (list(batch.values()), list(batch)), _unflattened)
