"""`carya.torch.DataLoader`: torch's class and signature, its batches made by Carya's worker processes."""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.utils.data
from torch.utils.data import RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data._utils import pin_memory as pinning
from torch.utils.data.distributed import DistributedSampler

from .._errors import Error, InvalidArgument, SampleError, Unsupported
from .._loading.dataloader_attributes import fit_loop
from .._loading.state import Place, plain
from .._stages.tree import rebuild
from . import here
from .in_worker import Single, WorkerStart
from .orders import Orders
from .samplers import InOrder, Shuffled
from .streams import Stream, Streamed, begun, between, checked_state

if TYPE_CHECKING:
    from ..torch import Loader

_log = logging.getLogger("carya")
# Leaves of samples that are stacked here as torch's default_collate stacks them; others are left to it.
_STACKED = frozenset({"ndarray", "Tensor", "int", "float", "bool", "bool_"}) | frozenset(
    f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)
)


_CALLS = 16  # between Lightning's loop and the first batch of an epoch: 9 in its version 2.6
_T_co = TypeVar("_T_co", covariant=True)
# Samplers that give integers, not lists of them for a dataset that is asked for several at once.
_OF_INDICES = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)


class DataLoader(torch.utils.data.DataLoader[_T_co]):  # type: ignore[misc]
    """torch's `DataLoader`, with torch's signature and attributes, over Carya's worker processes: a drop-in that is faster.

    The same batches in the same types: what `default_collate` or `collate_fn` makes. What is better: workers that die or hang are
    replaced, exceptions name the record, augmentation depends on seed, epoch and record and not on workers, `state_dict()` and
    `load_state_dict()` resume at any step. What each argument means here:

    dataset: map-style. It and `collate_fn` travel to the workers as for `carya.dataset`. Samples are asked for one by one, also of a
        dataset that has `__getitems__`.
    batch_size, drop_last: the same.
    shuffle: by Carya's permutation, keyed by the seed of `generator`, or else of torch (`torch.manual_seed`), and the epoch:
        another order than torch's own. `sampler` is of torch's classes and gives this order.
    sampler: a `DistributedSampler` of the dataset gives rank, replicas, seed and epoch (`set_epoch`); a record comes twice only where
        the last batch has fewer than there are ranks. A `RandomSampler` without a generator is `shuffle`. Any other is iterated once for each epoch, when its `for` begins, and is the
        order; records that it gives several times have other random numbers each time.
    batch_sampler: iterated as a sampler is; each of its lists is a batch. batch_size=None: each sample is a batch, and `collate_fn`
        or `default_convert` gets it as it is.
    num_workers: processes. They live as long as this object, whatever `persistent_workers` says.
    collate_fn: called in the workers.
    pin_memory, pin_memory_device: as torch does it, by a copy, where there is a device.
    timeout: seconds that one call of the dataset may take; the process is then ended, and the record tried once more. 0: no limit.
    worker_init_fn: called in each process with its number; `get_worker_info()` answers there. Random numbers are seeded by record.
    multiprocessing_context: taken, and not needed: workers are forked from a clean process that has no device and no threads.
    generator: its `initial_seed()` is the seed. prefetch_factor: batches ahead per worker (by their size). in_order: always.

    Where Carya has no engine for what is asked, torch's own runs, and `engine` says why: `num_workers=0`, an iterable dataset
    (torch hands its iterators to workers, whose samples have no index: `carya.iterable` has shards for that), `batch_size=None` with a
    sampler that may give lists. One iterator at a time is live: a second one ends the first.

    An iterable dataset has a state too, of each worker: its own, where the dataset or its iterator has `state_dict` and
    `load_state_dict` (the iterator's, and the dataset's beside it, where both have them); else the number of its samples that were
    delivered, which are passed over to go on, with the generators of `random`, numpy and torch seeded as they were (in workers; with
    `persistent_workers` in the first epoch only). A state behind the end of an epoch is the begin of the next one: what the dataset says
    of itself there is not in it, so that a count of epochs is the user's to set, by `set_epoch`. A state needs the
    same `num_workers`, and `in_order`. With `num_workers=0` a state of a map-style dataset is where its sampler is, with the generators
    that it drew from (some kilobytes); numbers that the dataset draws itself are of the trainer's generators, whose states are the
    trainer's to keep. A sampler that is not torch's is iterated as often as there were epochs.
    Tensors lie in memory that is used again when they are gone; who keeps many gets copies, so that `list(loader)` works.

    >>> import carya.torch
    >>> loader = carya.torch.DataLoader([(float(i), i) for i in range(5)], batch_size=2, num_workers=1)
    >>> [label.tolist() for value, label in loader], loader.engine
    ([[0, 1], [2, 3], [4]], 'carya')
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        **others: Any,
    ) -> None:
        super().__init__(
            dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout,
            worker_init_fn, multiprocessing_context, generator, prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers, pin_memory_device=pin_memory_device, **others,
        )  # fmt: skip
        self._ahead, self._others = prefetch_factor, others
        self._here: here.Here | None = None  # the last `for` with num_workers=0
        self._begun_epochs = 0  # and how many there were
        self._stream: Stream | None = None  # the last `for` over an iterable dataset
        self._streaming: torch.utils.data.DataLoader[Any] | None = None  # whose workers live on
        single = batch_sampler is None and batch_size is None
        self._given_collate = Single(self.collate_fn) if single else collate_fn
        self._why_not = self._why_torch(single)
        self._check_known(others)
        own = _is_our_order(self.sampler, dataset, sampler is not None)
        self._chosen: int | None = None  # the epoch of the next `for`, until the stream is open
        if sampler is None and batch_sampler is None and not self._why_not:
            self._take_over(Shuffled(self) if shuffle else InOrder(self))
        self._orders: Orders | None = None
        if batch_sampler is not None:
            self._orders = Orders(batch_sampler, batches=True)
        elif not own:
            self._orders = Orders(self.sampler)
        self._loader: Loader | None = None
        self._restored: dict[str, Any] | None = None
        # Where torch's `default_collate` runs in place of ours: what states say of the pipeline without it and with it, and whether it
        # began to after the first sample.
        self._forms: tuple[str, str] | None = None
        self._turned = False
        if self._why_not and num_workers > 0:
            _log.info("carya.torch.DataLoader: torch's own engine runs: %s", self._why_not)

    @property
    def engine(self) -> str:
        """ "carya", or "torch: " and why."""
        return f"torch: {self._why_not}" if self._why_not else "carya"

    def _why_torch(self, single: bool) -> str:
        if self.num_workers == 0:
            return "num_workers=0"
        if isinstance(self.dataset, torch.utils.data.IterableDataset):
            return "the dataset is an IterableDataset"
        if single and not _gives_indices(self.sampler):
            return "batch_size=None with a sampler that may give lists"
        if not hasattr(type(self.dataset), "__len__"):
            return "the dataset has no length"
        return ""

    def _check_known(self, others: dict[str, Any]) -> None:
        """Errors: Unsupported, where a newer torch has an argument that only its own engine knows the meaning of."""
        known = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
        for name, value in others.items():
            if name != "in_order" and not self._why_not and value != known[name].default:
                raise Unsupported(
                    f"DataLoader: {name}={value!r}: this version of carya does not know what torch {torch.__version__} means by it; leave "
                    "it out, or give num_workers=0, by which torch's own engine runs"
                )

    def _take_over(self, sampler: Shuffled | InOrder) -> None:
        """Put the stream's own sampler in the place of the one that torch made. Its class lets nobody assign one."""
        self.__dict__["sampler"] = sampler
        if self.batch_sampler is not None:
            self.batch_sampler.sampler = sampler

    # Iterating ------------------------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """The next `for` is epoch `epoch`, as of `carya.Loader`; of a sampler or an iterable dataset, what its `set_epoch` does."""
        if isinstance(self.sampler, Shuffled | InOrder):
            self.sampler.set_epoch(epoch)
            return
        asked: list[Any] = [
            self.batch_sampler,
            self.sampler,
            getattr(self.batch_sampler, "sampler", None),
            self.dataset,
        ]
        found = next((one for one in asked if callable(getattr(one, "set_epoch", None))), None)
        if found is not None:
            found.set_epoch(epoch)

    def _epoch_asked(self, epoch: int) -> None:
        """By a trainer, through the sampler."""
        if self._loader is not None or self._restored is not None:
            self._opened().sampler.set_epoch(epoch)
        else:
            self._chosen = epoch

    def _epoch_to_come(self) -> int:
        if self._chosen is not None:
            return self._chosen
        if self._loader is None:
            return 0 if self._restored is None else int(self._restored["epoch"])
        loader = self._loader
        if loader._chosen_epoch is not None:
            return loader._chosen_epoch
        return loader._next.epoch + int(loader._next.position > 0 and not loader._inside)

    def __iter__(self) -> Any:
        if self._streams:
            return self._streamed()
        if self._in_trainer:
            return self._counted()
        if self._why_not:
            return super().__iter__()
        if (
            self._orders is None and len(self) == 0
        ):  # an empty dataset, or one that is smaller than the one batch to drop
            return iter(())
        return _Batches(self)

    @property
    def _streams(self) -> bool:
        """Whether torch's engine runs over a dataset whose place can be told."""
        piped = getattr(torch.utils.data, "IterDataPipe", ())
        return isinstance(self.dataset, torch.utils.data.IterableDataset) and not isinstance(self.dataset, piped)

    @property
    def _in_trainer(self) -> bool:
        """Whether torch's engine runs in this process over samples by index."""
        return self.num_workers == 0 and not isinstance(self.dataset, torch.utils.data.IterableDataset)

    def _counted(self) -> here.Here:
        restored, self._restored = self._restored, None
        epoch = self._begun_epochs
        if restored is not None:
            here.pass_over(self, restored["epoch"] - epoch)
            epoch = restored["epoch"]
            # Lightning asks for no rest that is empty.
            if restored["batches"] == self._steps() and fit_loop(_CALLS) is not None:
                here.Here(self, epoch, restored)  # draws the order that is done
                restored, epoch = None, epoch + 1
        if restored is not None and not restored["batches"]:
            here.restore(self, restored["generators"])
        self._here = here.Here(self, epoch, restored)
        self._begun_epochs = epoch + 1
        return self._here

    def _steps(self) -> int | None:
        """Of an epoch; None where the sampler has no length."""
        try:
            return len(self)
        except TypeError:
            return None

    def _streamed(self) -> Stream:
        restored, self._restored = self._restored, None
        if restored is not None and restored.get("generator") is not None and self.generator is not None:
            here.restore_one(self.generator, restored["generator"])
        if restored is not None and not begun(restored):
            restored = None
        inner, generator = self._streaming, self._generator_kept()
        if inner is None or restored is not None:
            dataset = Streamed(self.dataset, self.collate_fn, self.worker_init_fn, self.batch_size, restored)
            inner = torch.utils.data.DataLoader(
                dataset, self.batch_size, num_workers=self.num_workers, collate_fn=dataset.collate,
                pin_memory=self.pin_memory, drop_last=self.drop_last, timeout=self.timeout,
                worker_init_fn=dataset.start if self.num_workers else None,
                multiprocessing_context=self.multiprocessing_context, generator=self.generator,
                prefetch_factor=self._ahead, persistent_workers=self.persistent_workers,
                pin_memory_device=self.pin_memory_device, **self._others,
            )  # fmt: skip
            self._streaming = inner if self.persistent_workers else None
        inner._IterableDataset_len_called = (
            self._IterableDataset_len_called
        )  # torch warns of a length that does not hold
        batches = iter(inner)
        first = b"" if self.num_workers else inner.dataset.first()
        self._stream = Stream(batches, self.num_workers, restored, generator, first)
        return self._stream

    def _generator_kept(self) -> str | None:
        return None if self.generator is None else here.encoded(self.generator)

    def _begun(self) -> Iterator[Any]:
        """Batches of the loader for one epoch."""
        if (
            self._orders is not None
            and self._restored is None
            and self._orders.is_empty(epoch := self._epoch_to_come())
        ):
            if self._loader is None:
                self._chosen = self._orders.least = epoch + 1
            else:
                self._loader.set_epoch(epoch + 1)
            return iter(())
        loader = self._opened()
        distributed = type(self.sampler) is DistributedSampler and self._orders is None
        if not loader._restored:
            if distributed:
                loader.set_epoch(self.sampler.epoch)
        elif loader._chosen_epoch is None and loader._job.steps_from(loader._next.position) == 0:
            following = loader._next.epoch + 1
            # Lightning asks for no rest that is empty.
            if (distributed and self.sampler.epoch == following) or fit_loop(_CALLS) is not None:
                loader.set_epoch(following)
        chosen, self._chosen = self._chosen, None
        if chosen is not None:
            loader.set_epoch(chosen)
        return iter(loader)

    def _value(self, batch: Any) -> Any:
        """What torch would yield, of what the loader did."""
        assert self._loader is not None
        job: Any = self._loader._job
        value = rebuild(job.tree, iter(batch.values())) if job.fields else batch  # stacked here, or by a function
        if job.held() > job.slots - 3:  # somebody keeps them: what is left goes round
            value = _copied(value)
        return self._pinned(value)

    def _skip(self) -> None:
        """Leave out the step that failed: the next batch is the one behind it."""
        loader = self._loader
        if loader is not None and loader._steps_left:
            job: Any = loader._job
            epoch, position = loader._next
            loader._next = Place(epoch, position + job.shape.step_positions(position))
            loader._job_at, loader._steps_left, loader._inside = None, loader._steps_left - 1, False

    def _pinned(self, value: Any) -> Any:
        if self.pin_memory and torch.cuda.is_available():
            return pinning.pin_memory(value, self.pin_memory_device or None)
        return value

    def _opened(self) -> Loader:
        if self._loader is None:
            try:
                self._loader = self._made(self._given_collate)
            except InvalidArgument:  # tensors without a form in numpy, as bfloat16 and nested ones
                if self._given_collate is not None:
                    raise
                self._loader = self._made(torch.utils.data.default_collate)
            job: Any = self._loader._job
            if self._stacks and not _STACKED.issuperset(job.kinds):
                self._turn_to_torchs_collate()
            self._loader._otherwise = ""
            if self._restored is not None:
                restored, self._restored = self._restored, None
                self.load_state_dict(restored)
        return self._loader

    @property
    def _stacks(self) -> bool:
        """Whether batches are made by Carya in the place of torch's `default_collate`."""
        job: Any = None if self._loader is None else self._loader._job
        return job is not None and self._given_collate is None and bool(job.fields)

    def _turn_to_torchs_collate(self) -> None:
        """Make a new loader, at the same place, where what the dataset gives is nothing that is stacked here."""
        assert self._loader is not None
        stacked = self._loader.state_dict()
        self._loader.close()
        if self._orders is not None:  # a sampler does not go back, and a new loader asks for the first epoch
            self._orders.least = stacked["epoch"]
        self._loader = self._made(torch.utils.data.default_collate)
        if self._orders is not None:
            self._orders.least = 0
        self._loader._otherwise = ""
        self._forms = (stacked["pipeline"], self._loader.state_dict()["pipeline"])

    def _goes_on(self) -> bool:
        """Whether an error of a batch was one of being stacked: samples are of several dtypes, shapes or names, which torch's collate may
        take, batch by batch. The next `_begun()` then has the batch that failed."""
        if not self._stacks:
            return False
        assert self._loader is not None
        state = self._loader.state_dict()
        self._turn_to_torchs_collate()
        self._turned = True
        self.load_state_dict(state)
        _log.info(
            "carya.torch.DataLoader: samples differ in form: batches are made by torch's default_collate from here on"
        )
        return True

    def _made(self, collate: Callable[[list[Any]], Any] | None) -> Loader:
        from .. import dataset as carya_dataset
        from .engine import Engine

        pipeline = carya_dataset(self.dataset)
        rank, world, seed = 0, 1, self._seed()
        shuffle = type(self.sampler) in (RandomSampler, Shuffled) and self._orders is None
        if type(self.sampler) is DistributedSampler and self._orders is None:
            rank, world, seed = self.sampler.rank, self.sampler.num_replicas, self.sampler.seed
            shuffle = self.sampler.shuffle
        if shuffle:
            pipeline = pipeline.shuffle(seed=seed)
        if self._orders is not None:
            pipeline = pipeline._ordered_by(self._orders)
        pipeline = pipeline.batch(self.batch_size or 1, drop_last=self.drop_last, collate=collate)
        start = WorkerStart(self.worker_init_fn, self.num_workers, seed, self.dataset)
        # torch's own value of what was not given is 2, which is few where batches are small.
        ahead = {} if self._ahead is None else {"slots": min(256, self._ahead * self.num_workers + 4)}
        return Engine(
            pipeline._started_by(start),
            rank=rank,
            world_size=world,
            seed=seed,
            threads=self.num_workers,
            **ahead,
            function_timeout=self.timeout if self.timeout > 0 else math.inf,
            prefetch_epochs=self._orders is None,
        )

    def _seed(self) -> int:
        seed = torch.initial_seed() if self.generator is None else self.generator.initial_seed()
        return int(seed) % 2**63

    # State ----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is after the last batch that was taken: some hundred bytes."""
        self._check_engine("state_dict")
        if self._restored is not None:
            return self._restored
        if self._streams:
            if self._stream is None or self._stream.ended:
                return between(self.num_workers, self._generator_kept())
            return self._stream.state()
        if self._in_trainer:
            if self._here is None or self._here.ended:
                return here.between(self, self._begun_epochs)
            return self._here.state()
        state = self._opened().state_dict()
        if self._turned and self._forms is not None:
            state["pipeline"] = self._forms[0]  # that of a loader that begins
        return state if self._orders is None else {**state, **self._orders.state(state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next `for` goes on where `state` was taken."""
        self._check_engine("load_state_dict")
        if self._streams:
            self._restored = checked_state(state, self.num_workers)
            return
        if self._in_trainer:
            self._restored = here.checked(state)
            return
        if self._loader is None:
            self._restored = dict(state)
            return
        state = plain(state)
        if self._forms is not None and isinstance(state, dict) and state.get("pipeline") == self._forms[0]:
            state = {**state, "pipeline": self._forms[1]}
        job: Any = self._loader._job
        if self._orders is not None and isinstance(state.get("epoch"), int):
            job.turn_to(state["epoch"])
            self._orders.check(state)
        self._loader.load_state_dict(state)

    def _check_engine(self, what: str) -> None:
        if self._streams:
            if not getattr(self, "in_order", True):
                raise Unsupported(
                    f"DataLoader: {what}: in_order=False, so that whose batch comes next is not known; leave in_order out"
                )
            return
        if isinstance(self.dataset, torch.utils.data.IterableDataset):
            raise Unsupported(
                f"DataLoader: {what}: the dataset is a graph of DataPipes, which torch seeds and shards itself; give "
                "carya.torch.Loader a pipeline of carya.iterable(fn, shards=n), where fn(shard) iterates over that part of it"
            )
        if self._why_not and not self._in_trainer:
            raise Unsupported(
                f"DataLoader: {what}: torch's own engine runs ({self._why_not}), which has no state; give num_workers= of 1 or more, "
                "a map-style dataset, and shuffle= in place of a sampler"
            )

    def close(self) -> None:
        """End the worker processes; a next `for` starts new ones, from the first epoch on."""
        self._streaming = self._stream = self._here = self._forms = None
        self._turned = False
        loader, self._loader = self._loader, None
        if loader is not None:
            loader.close()


class _Batches:
    """One `for` over a DataLoader. Behind an exception of the dataset's or of `collate_fn` the next batch follows, as torch has it."""

    def __init__(self, of: DataLoader[Any]) -> None:
        self._of = of
        self._epoch: Iterator[Any] | None = None  # begun when the first batch is asked for
        self._broken: Exception | None = None  # why it could not: no sample can be made
        self._left = 0  # batches that end so

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        return len(self._of)

    def __next__(self) -> Any:
        if self._epoch is None:
            self._epoch = self._begin()
        try:
            batch = next(self._epoch)
        except StopIteration:
            raise
        except Exception as error:
            if isinstance(error, InvalidArgument) and self._of._goes_on():
                self._epoch = self._of._begun()
                return next(self)
            if not isinstance(error, Error) or isinstance(error, SampleError):
                self._of._skip()
            raise
        return self._of._value(batch)

    def _begin(self) -> Iterator[Any]:
        """Errors: those of opening the stream, again for each batch that there would have been; then StopIteration."""
        if self._broken is None:
            try:
                return self._of._begun()
            except Exception as error:
                self._broken = error
                with contextlib.suppress(TypeError):  # a sampler without a length
                    self._left = len(self._of)
        elif self._left <= 1:
            raise StopIteration
        else:
            self._left -= 1
        raise self._broken


def _is_our_order(sampler: Any, dataset: Any, given: bool) -> bool:
    """Whether Carya's own permutation, or none, stands for a sampler of torch's: one of all records of the dataset. `given`: by the user,
    whose generator then says the order."""
    if type(sampler) is RandomSampler:
        if sampler.replacement or sampler._num_samples is not None or (given and sampler.generator is not None):
            return False
    elif type(sampler) not in (SequentialSampler, DistributedSampler):
        return False
    of = sampler.dataset if type(sampler) is DistributedSampler else sampler.data_source
    return of is dataset or (hasattr(dataset, "__len__") and len(of) == len(dataset))


def _gives_indices(sampler: Any) -> bool:
    """Whether a sampler is known to give integers, not lists of them for a dataset that is asked for several at once."""
    if isinstance(sampler, list | tuple | range):
        return all(isinstance(index, int) for index in sampler)
    return type(sampler) in _OF_INDICES


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) is dict:
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_copied, value))
    if type(value) is list or type(value) is tuple:
        return type(value)(map(_copied, value))
    try:
        return copy.deepcopy(value)
    except Exception:  # an object of the user's: it may keep a slot, which is said where there are no more
        return value
