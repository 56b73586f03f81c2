"""The loader: the stream of a pipeline's batches, epoch by epoch, with its state."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from .. import _core
from .._dtypes import numpy_dtype
from .._errors import (
    Closed,
    Error,
    Exhausted,
    ForkedError,
    InvalidArgument,
    invalid,
)
from .._explain.explanation import Explanation
from .._explain.stores import store_costs
from .._explain.stream import add_stream
from .._options import Reorder, choice, whole
from .._pipeline.arguments import named_options, not_a_pipeline
from .._pipeline.batch_functions import BatchFunctions
from .._pipeline.dataset import say_cache_trouble, say_tier_trouble
from .._pipeline.pipeline import Pipeline
from .dataloader_attributes import DataLoaderAttributes
from .delivery import SLICE_S, Delivery
from .epoch import Epoch
from .job import close_job, say_what_reads, start_job
from .loader_options import (
    NOT_GIVEN,
    ON_ERROR,
    DecodeIndex,
    LoaderOptions,
    OnError,
    checked_tuple,
    given_only,
)
from .remote import LOCAL, Objective, Placement
from .state import OTHERWISE, Place, check, plain, stamp

if TYPE_CHECKING:
    from typing_extensions import Self

    from .._tracing.recording import Trace
    from ..fleet import ChildFleet


class Loader(Delivery, DataLoaderAttributes):
    """Delivers the batches of a pipeline as numpy arrays that lie in shared memory.

    Each `for` is one epoch, and the next `for` is the next epoch, without a gap. A `break` abandons the rest of the
    epoch, except directly after `load_state_dict`, which goes on inside it. Use it as a context manager or call
    `close()`; a loader that is garbage-collected closes itself. `torch` and `jax` users: `carya.torch.Loader`,
    `carya.jax.Loader`.

    rank, world_size: this process's part of every global batch. None takes what the launcher says in the environment
    (torchrun, srun, mpirun), else 0 and 1; where every process is to read all, give rank=0, world_size=1.
    epochs: epochs 0 to epochs - 1 exist; None is endless.
    state: what `state_dict()` returned; the same as `load_state_dict(state)`.
    threads: CPU threads that decode and transform; "auto" is the cores allowed divided by the local ranks. A trainer that
    needs fewer has the others asleep.
    weight: this job's part of the cores beside the other jobs of the daemon (or of the process), 0.01 to 100: with 2
    beside 1 it gets twice the thread time where both want more than there is. With Python functions 0.01 to 1, beside other jobs
    with functions, whose processes are 1 by default.
    slots: batches of shared memory; read_ahead: bytes read ahead of the threads ("64MB");
    what they decode at the moment comes on top.
    on_error: what a broken record does: "raise" SampleError, "replace" by another record, "mask" (zeros, valid=False).
    seed: overrides the pipeline's seed, for order and ops.
    as_tuple: ("image", "label") yields tuples of arrays in place of a mapping.
    prefetch_epochs: False stops the work at the end of an epoch until the next `for`.
    io_timeout: seconds that a failing read is retried before IoError. io_engine: "uring" (io_uring),
    "pread" (threads), or "auto": io_uring, and threads where the kernel refuses it or another machine or process answers (NFS, FUSE;
    with "uring" an open there can hold up the reads behind it).
    decode_index: points inside JPEGs where decoding may begin, kept in the cache folder and shared by jobs; they change
    no bit. "auto" takes the finest that fits 2 % of the dataset's bytes; "rows", 16 and 8 are finer and finer; "off".
    cache: samples kept for later epochs, behind operations that give the same in each; they change no bit. "off";
    "auto" keeps what pays by what was measured; {"memory": "20%"} (of what is free) or {"memory": "4GB"} keeps from the first
    batch on, where it pays most, or {"memory": ..., "after": "decode_image"}, or with "form": "coefficients" the JPEGs
    without their entropy coding, at 1.1 times their bytes, or "records" as they were read, so that nothing is asked of a store again. "disk": ("/nvme/carya", "500GB") and "shared" keep them in files of a folder, also for later runs and other processes; a size alone, "500GB", where the daemon keeps them, else in the cache folder; with "place": "auto" where that pays by the rates that they have. "write_budget": "2TB/day" bounds what is written to files. Beside `remote` workers, what this machine computes is kept, and chunks of which most was kept stay here.
    reorder: "exact" runs the operations in the cheapest order that gives the same bits (`Pipeline.explain()`, `carya
    explain`), by what they were measured to cost here, also while it runs; "off" as they are written. "rounding" also
    exchanges neighbours that differ by at most one level, "relaxed" those that keep the distribution by kind and change
    the pixels. Such an order is chosen before the first batch, from the pipeline alone, and never changes: it is part of
    `state_dict()`, and a restored loader runs the state's.
    plan: a file that `carya plan freeze` wrote. Its order is kept and never changed; it is refused, with the difference
    named, when the pipeline, a parameter or the version of an operation is another one.
    hold_timeout: seconds without a batch, while this process holds all slots (as `list(loader)` does), until Exhausted.
    function_timeout, max_rss: of pipelines with Python functions, whose `threads` are worker processes: seconds that one call may
    take (then its process is ended and the record tried once more, then Timeout; importing them: 60 at least), and a worker's own memory ("2GB"), past which
    it is replaced by a new one.
    native: of the same pipelines, where the native operations before the functions run: "threads" (a process whose native threads
    read ahead, decode with indexes, and may use `cache` and `remote`), "workers" (in the worker processes, beside the functions),
    or "auto": by threads where records are read from files or a store. The batches are the same bits.
    function_workers: of the same pipelines: processes of other machines that make rows while all workers here are busy:
    ["host:7071", ...] (`carya function-worker` runs there), once for each of its processes. The batches are the same bits,
    whoever makes them and whoever dies; one whose first samples differ makes none (`stats()["workers"]["afar"]`).
    function_tls: {"token": FILE, "ca": FILE}: the token that both sides hold, and whose certificates are trusted; also
    "server_name", and "insecure": True for plain TCP. Each side may run code on the other.
    daemon: who makes the batches: "auto" (a running caryad of this user, else this process), "embedded" (this process),
    "required", "spawn" (start one when none runs), or the path of its socket. The batches are the same bits.
    job: the name under which the ranks of a host share a job in the daemon, and find it again after a restart; made
    from what the launcher says when None. replica, replicas: of tensor- or pipeline-parallel processes that need the
    same batches: they lease the same slots, read-only.
    share: a name: jobs of the daemon that give the same one ("auto" where none is needed) and whose batches are the same (a
    sweep of learning rates) lease the same slots, read-only, so that these are made once; ("sweep", 4) has the first batch wait for 4 such jobs, at most
    a minute. Who falls behind the others goes on by itself. Without a daemon each makes its own.
    reattach_timeout: seconds that a lost daemon is waited for; then on_daemon_loss: "embedded" (go on in this process)
    or "raise".
    remote: workers that may take what this host's cores cannot do: ["host:7070", ...] (`carya-worker` runs there),
    "dns://name:7070", `carya.fleet.ray(...)` or `carya.fleet.kubernetes(...)`. How many get work, and which part of the operations, is decided while it runs (`placement()`), by prices= ($ per hour of "host" and
    "worker", or machine types; and what stores charge: "request" in $ per 1,000, "gb" in $ per GB, else list prices, docs/cache.md) and objective=: "cost" (least cost per sample, of what makes the trainer wait at most 2 %),
    "speed", or "cost-at-target" (target= samples/s; without it what the trainer takes); at most max_workers, and
    max_cost_per_hour $ for all of them. The batches are the same bits, whoever makes them and whoever dies.
    placement: "auto"; "local"; "remote:4" (always four workers); "frozen:FILE" (what `carya placement freeze` wrote).
    verify: share of what workers send that this host computes too and compares, 0 to 1; None: 0.01. Which chunks these are is secret.
    remote_tls: {"cert": FILE, "key": FILE, "ca": FILE} of this host, needed to workers on other machines; also "token"
    (the word itself, not a file), "server_name", "insecure": True for plain TCP, and "user": whose work it is, which workers may want
    that certificate or token to say too (docs/remote.md); without it the user's name on this host.

    Defaults: threads="auto", slots="auto", weight=1.0, read_ahead="64MB", on_error="raise", prefetch_epochs=True, io_timeout=30.0,
    io_engine="auto", decode_index="auto", cache="off", reorder="exact", hold_timeout=10.0, function_timeout=300.0, native="auto", daemon="auto", replica=0, replicas=1,
    reattach_timeout=30.0, on_daemon_loss="embedded", objective="cost", placement="auto".

    Errors: InvalidArgument, NotFound, Permission, Exhausted (memory for the slots); while iterating SampleError and
    IoError, which `next()` raises again until the loader is closed or the policy changes (`loader.on_error = "mask"`).

    >>> import carya, numpy as np
    >>> p = carya.arrays({"x": np.arange(6)}).batch(4)
    >>> with carya.Loader(p) as loader:
    ...     [batch["x"].tolist() for batch in loader], len(loader)
    ([[0, 1, 2, 3], [4, 5]], 2)
    """

    @named_options
    def __init__(
        self,
        pipeline: Pipeline,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        epochs: int | None = None,
        state: dict[str, Any] | None = None,
        threads: int | Literal["auto"] = NOT_GIVEN["threads"],
        slots: int | Literal["auto"] = NOT_GIVEN["slots"],
        weight: float = NOT_GIVEN["weight"],
        read_ahead: int | str = NOT_GIVEN["read_ahead"],
        on_error: OnError = NOT_GIVEN["on_error"],
        seed: int | None = None,
        as_tuple: Sequence[str] | None = None,
        prefetch_epochs: bool = NOT_GIVEN["prefetch_epochs"],
        io_timeout: float = NOT_GIVEN["io_timeout"],
        io_engine: Literal["auto", "uring", "pread"] = NOT_GIVEN["io_engine"],
        decode_index: DecodeIndex = NOT_GIVEN["decode_index"],
        cache: str | Mapping[str, Any] = NOT_GIVEN["cache"],
        reorder: Reorder = NOT_GIVEN["reorder"],
        plan: str | os.PathLike[str] | None = None,
        hold_timeout: float = NOT_GIVEN["hold_timeout"],
        function_timeout: float = NOT_GIVEN["function_timeout"],
        max_rss: int | str | None = None,
        native: Literal["auto", "threads", "workers"] = NOT_GIVEN["native"],
        function_workers: str | Sequence[str] | None = None,
        function_tls: Mapping[str, Any] | None = None,
        daemon: str = NOT_GIVEN["daemon"],
        job: str | None = None,
        replica: int = NOT_GIVEN["replica"],
        replicas: int = NOT_GIVEN["replicas"],
        share: str | tuple[str, int] | None = None,
        reattach_timeout: float = NOT_GIVEN["reattach_timeout"],
        on_daemon_loss: Literal["embedded", "raise"] = NOT_GIVEN["on_daemon_loss"],
        remote: str | Sequence[str] | ChildFleet | None = None,
        prices: Mapping[str, float | str] | None = None,
        objective: Objective = NOT_GIVEN["objective"],
        target: float | None = None,
        max_workers: int | None = None,
        max_cost_per_hour: float | None = None,
        placement: str = NOT_GIVEN["placement"],
        remote_tls: Mapping[str, Any] | None = None,
        verify: float | None = None,
    ) -> None:
        given = dict(locals())
        del given["self"], given["pipeline"]
        self._open(pipeline, given, {})

    @classmethod
    def _create(cls, pipeline: Pipeline, *, measuring: Mapping[str, Any], **options: Any) -> Self:
        """A loader for who measures or only looks: `measuring` has attributes of the native options that users have none of.

        `trains=False`: how fast it takes batches is no demand, and not kept, as of `carya run`.
        """
        inspect.signature(cls.__init__).bind(None, pipeline, **options)  # TypeError for one that there is not
        loader = cls.__new__(cls)
        loader._open(pipeline, options, measuring)
        return loader

    def _open(self, pipeline: Pipeline, given: Mapping[str, Any], measuring: Mapping[str, Any]) -> None:
        """`given`: options by name, also those that the user did not give."""
        if not isinstance(pipeline, Pipeline):
            raise not_a_pipeline(pipeline)
        if pipeline._batch is None:
            raise InvalidArgument("Loader: pipeline: it has no batch; give one that ends with .batch(n)")
        given = given_only(given)
        if "state" in given:
            given = {**given, "state": plain(given["state"])}
        if not self._takes_bfloat16 and not pipeline.has_functions:
            for _, dtype, _ in pipeline.native.outputs():
                numpy_dtype(dtype)  # before the work begins
        options = LoaderOptions(pipeline, given, self._label_dtype)
        # A daemon may have a disk for "auto".
        self._has_tiers = bool(options.job.cache_disk[1] or options.job.cache_shared[1]) or options.job.cache == "auto"
        self._cache_dir: str | None = options.job.cache_dir  # None once its trouble was looked for
        self._pipeline, self._native = pipeline, pipeline.native
        self._functions = BatchFunctions(pipeline._maps)
        self._order, self._reorder, self._plan = options.order, options.reorder, options.plan
        self._sense, self._on_error = options.job.reorder, options.job.on_error
        self._epochs = options.job.epochs
        self._prefetch_epochs = options.job.prefetch_epochs and not pipeline._own_steps
        self._rank, self._world_size = options.job.rank, options.job.world_size
        self._hold_timeout, self._fields, self._tuple = options.hold_timeout, options.fields, options.as_tuple
        for name, value in measuring.items():
            setattr(options.job, name, value)
        options.job.node = self._node
        if pipeline.has_functions:
            from .function_job import start_function_job  # most loaders have none

            job = start_function_job(pipeline, options, self._defer_release)
            self._job = cast(_core.Job, job)  # it has its methods
            if not pipeline._makes_batches:
                self._fields = [field.name for field in job.fields]
                self._tuple = checked_tuple(given.get("as_tuple"), self._fields)
        else:
            self._job = start_job(pipeline, options, self._defer_release)
        self._daemon_job = options.asked.job
        self._place, self._reattached = self._job.place, self._job.reattached
        say_what_reads(self._job.io_engine)
        self._close = weakref.finalize(self, close_job, self._job, os.getpid(), self._drain)
        self._close.atexit = self._drain is not None  # else the native side closes, and tells waiting threads nothing
        self._stamp = stamp(
            self._native,
            options.order,
            self._job.dataset_fingerprint,
            self._on_error,
            self._job.seed,
            self._job.global_size,
        )
        self._job_at = options.start
        self._next = Place(0, 0)  # first position not yet yielded
        self._otherwise = OTHERWISE  # how a user accepts the state of another stream
        self._before: Place | None = None  # that of the batch that was yielded last
        self._waiting: list[Any] = []  # batches that were yielded and that a trainer keeps for later
        self._inside = False  # the next `for` goes on inside the epoch: after a restore or an error
        self._restored = False  # since the restore nothing was yielded
        self._chosen_epoch: int | None = None
        self._ahead = 0  # epochs that a trainer counts ahead of the stream
        self._turn = 0  # number of the iterator that may take batches
        self._steps_left = 0
        self._taking = threading.RLock()  # of the thread that takes a batch; map_batch may take another
        self._pid = os.getpid()
        if "state" in given:
            self.load_state_dict(given["state"])
            if pipeline.has_functions and self._next == options.start:
                self._job_at = options.start  # it was begun there: a second seek would make its first batches twice

    # Iterating ------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        if not self._close.alive:
            raise Closed("Loader: it is closed; make a new one")
        return Epoch(self)

    def _begin(self) -> None:
        """Choose the epoch of a new iterator and point the job at it."""
        self._prepare_epoch()
        self._turn += 1
        place = self._next
        if self._chosen_epoch is not None:
            same = self._inside and self._chosen_epoch == place.epoch
            place = place if same else Place(self._chosen_epoch, 0)
        elif place.position > 0 and not self._inside:
            place = Place(place.epoch + 1, 0)  # a break abandoned the rest
        if self._epochs is not None and place.epoch >= self._epochs:
            raise Closed(
                f"Loader: epoch {place.epoch} does not exist, epochs={self._epochs}; "
                "give more epochs, or go back with set_epoch(e)"
            )
        self._chosen_epoch = None
        self._inside = self._restored = False
        self._next = place
        if self._pipeline._own_steps:  # its epochs have steps of their own
            cast(Any, self._job).turn_to(place.epoch)
        self._steps_left = self._job.steps_from(place.position)
        # A job that does not prefetch across epochs waits at the end of one until it is told to go on.
        if self._steps_left > 0 and (place != self._job_at or not self._prefetch_epochs):
            self._seek(place)

    def _lock(self) -> Any:
        """Acquired: one thread at a time takes a batch, so that several that share an iterator share its batches."""
        lock = self._taking
        while not lock.acquire(timeout=SLICE_S):
            if os.getpid() != self._pid:  # forked while another thread had it, which is not here
                raise ForkedError("Loader: used in a forked child; make a Loader of its own there")
        return lock

    def _look_at_cache(self) -> None:
        """After the first epoch: say when what it learned could not be kept. After each: trouble with samples in files."""
        folder, self._cache_dir = self._cache_dir, None
        if folder and self._close.alive:
            with contextlib.suppress(Error):  # a daemon that is lost at this moment is the next step's business
                say_cache_trouble(folder, self._job.stats()["decode_index"]["reason"])
        if self._has_tiers and self._close.alive:
            with contextlib.suppress(Error):
                say_tier_trouble(self.stats()["cache"])

    def _yield(self) -> Any:
        if self._job_at is None:
            self._seek(self._next)  # what Ctrl-C or an error of map_batch kept from being yielded comes again
        self._job_at = None
        try:
            item = self._take()
        except Exception as error:  # also a user's own, of a function
            # The epoch goes on here, should the policy change. Who held all batches begins anew, as after a break.
            self._inside = not isinstance(error, Exhausted)
            self._job_at = self._next
            raise
        batch = self._wrap(item)
        batch._stamp = self._stamp
        step, epoch, position = item.place
        batch.step, batch.epoch, batch.position = step, epoch, position
        result: Any = batch if self._tuple is None else tuple([batch[name] for name in self._tuple])
        if batch._whole is not None:  # what a function made, and no mapping
            result = batch._whole.value
        result = self._functions(result)
        left, place = self._steps_left - 1, Place(epoch, position)
        after = place if left else Place(epoch + 1, 0)
        # All at once, without a call in between: Python takes Ctrl-C only at calls and jumps back.
        before = self._next
        self._steps_left, self._before, self._next, self._job_at, self._inside = left, before, place, after, False
        return result

    def __len__(self) -> int:
        """Steps of a whole epoch, the same on all ranks; with the last, shorter one unless `drop_last`."""
        return self._job.steps_from(0)

    def __repr__(self) -> str:
        steps = len(self)
        done = steps - self._job.steps_from(self._next.position)
        of_ranks = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        return f"<carya.Loader: epoch {self._next.epoch}, {done} of {steps} steps{of_ranks}>"

    # State ----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state after the last yielded batch: a small dict of numbers and strings, free at every step.

        It belongs to no rank: every rank may restore it, also with another world size or global batch size.
        After an epoch has ended it is the start of the next one.
        """
        epoch, position = self._before if self._waiting and self._before is not None else self._next
        return {**self._stamp, "epoch": epoch, "position": position}

    def load_state_dict(self, state: dict[str, Any], *, strict: bool = True) -> None:
        """Go on where `state` was taken: the next `for` continues inside its epoch, which is empty behind its last batch.

        Errors: InvalidArgument that says what differs (dataset, pipeline, order of operations, on_error, seed).
        `strict=False` accepts what can be accepted. Another global batch size is always accepted, and logged. An order
        that is not this loader's needs `Loader(state=...)`, which runs the state's where `reorder` allows it.
        """
        own = self._stamp, self._native, self._reorder, self._on_error, self._job.count
        place = check(state, *own, strict, self._otherwise)
        self._turn += 1  # an iterator from before the restore may not go on
        self._next, self._before = place, None
        self._job_at = None  # a stream that stopped at an error is asked anew
        self._inside = self._restored = True
        self._chosen_epoch = None

    def set_epoch(self, epoch: int) -> None:
        """The next `for` is epoch `epoch`, from its start.

        After a restore the epoch of the state is harmless (it goes on inside), another one is an InvalidArgument.
        """
        epoch = whole("set_epoch", epoch, 0, "an integer of 0 to 2^62")
        if self._restored:
            at_end = self._job.steps_from(self._next.position) == 0
            if epoch != self._next.epoch and not (at_end and epoch == self._next.epoch + 1):
                raise invalid(
                    "set_epoch after load_state_dict",
                    epoch,
                    f"{self._next.epoch}, the epoch of the state, or do not call it",
                )
        self._chosen_epoch = epoch

    # What frameworks look at ----------------------------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        return self._pipeline

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size

    @property
    def global_size(self) -> int:
        """Records of a full step over all ranks."""
        return self._job.global_size

    @property
    def seed(self) -> int:
        return self._job.seed

    @property
    def threads(self) -> int:
        """CPU threads in use."""
        return self._job.threads

    @property
    def epoch(self) -> int:
        """Epoch of the next batch."""
        return self._next.epoch

    @property
    def on_error(self) -> str:
        """The policy for broken records; setting it takes effect with the next batch and changes the fingerprint."""
        return self._on_error

    @on_error.setter
    def on_error(self, policy: OnError) -> None:
        checked = choice("on_error", policy, ON_ERROR)
        self._job.set_on_error(checked)
        self._on_error = checked
        self._job_at = None  # also what a device was given ahead was made under the old policy
        self._stamp = {**self._stamp, "pipeline": self._native.fingerprint(checked, self._order)}

    def stats(self) -> dict[str, Any]:
        """Counters since the start: samples, bytes read, seconds the trainer waited, slots, CPU time per op.

        Of the stream as a whole; None where nobody could measure it yet:
        `step_seconds`: the trainer's own time per step, from one batch to asking for the next (with `map_batch`); waiting is not
        in it. `demand_per_second`: the samples that it takes when it never waits. Both are medians of the last 15 times 16 steps,
        so that a checkpoint or an evaluation does not count, and known after 16. `functions`: name and median `seconds` per
        batch of each function of `map_batch`, which runs in the trainer's thread. `stall_seconds`, `stall_share`: what it waited
        inside. `slots["ready_mean"]`: how many batches lay ready when it came for one.
        `read_latency_seconds`: mean of a read, from its start to its bytes; `read_bytes_per_second`: while reads were under way.
        `store`: of each store that records are read from its `source`, `requests` and `bytes` so far, `reads` that they served,
        `retries` (requests that failed), `throttled` (refused as too many), `hedged` (asked twice, being late), `request_seconds` (mean),
        `cpu_seconds`, `requests_allowed` at the same time, `epoch_reads` and `epoch_bytes` without a cache, `prices` and `cost` in $.
        `cached_reads`, `cached_bytes`: those of `reads` and `bytes_read` that the computing threads took from the page cache.
        `pressure`, of who makes the batches, read now: `cpu`, `io`, `memory` (share of the last ten seconds in which something
        waited for them, in its cgroup where the kernel says so, else on the machine), `runnable` (tasks of the machine that run
        or could) beside `cores` (allowed here), `throttled_share` (of the periods of a CPU quota, those in which it was used up)
        and `throttled_seconds` since the cgroup began.

        `order`: the operations as they run now; `plan_switches`: how often a better order was turned to; `plan_log`: why
        (which operations moved, CPU time of a sample before and after, timed samples), and what kept the loader from
        planning or from keeping its profile: the last 8 lines. `chunk_rows`: samples of one task, about 8 ms of work;
        `ahead_chunks`: tasks being read or waiting for a thread, at most. `threads_used`: how many of the `threads` work at the
        same time now: those that the trainer's rate needs.

        `cache`: what is kept for later epochs; None with `cache="off"`. `after`: the operation behind which, or None, and `why`;
        `period_epochs`: for so many epochs only, those of `reuse_augmentation`; None: for all; `form`:
        "raw", or "coefficients" and "records", which are kept after "reading"; `read`: what reading a record from its store counts as,
        in us of CPU time (`cpu_us`, `money_us`, `wait_us`); `damaged_records`: whose coefficients were not whole;
        `bytes` of `capacity_bytes` (less, `limit_bytes`, while memory is short) and `records` in it; `looked`, `hits`, `filled`,
        `given_up` (filled, and gone again for want of room); `admitted_share` of all records; `sample_us`, `hit_us`, `fill_us`:
        CPU time of a sample without, from the cache, and on its way into it; `saved_cpu_s` in all; `expected_share`,
        `bounded`: what was asked for and the daemon does not give, in words; `asked_bytes` of memory; `age_s`: since its first sample.
        `files`: each tier of files, with `age_s` (of its oldest file), `over_budget` (nothing more is written today), `past_page_cache` (it is read with O_DIRECT), and `bytes` of `capacity_bytes`, `hits`, `hit_share`, `written`, `damaged`, `saved_cpu_s`,
        `trouble` and others; `found_share`: of all samples, that were there already when it turned to the place; `epochs_expected` and `choices`: nothing, and each place, with its `bytes`, `share`, `kept_share` (of all samples that are there already, by whoever), costs and `pays_back_epochs`.
        """
        stats = self._job.stats()
        cache = json.loads(stats["cache"]) if stats.get("cache") else None
        return stats | {"functions": self._functions.figures(), "cache": cache, "store": stats.get("store", [])}

    def explain(self) -> Explanation:
        """Why the operations run in this order and what each costs, measured by this loader: a dict that prints as a text and
        draws itself (`.svg()`).

        Keys as `Pipeline.explain()`, of the order that runs; each of `ops` has the `source` of its cost ("measured"; "shared":
        timed together with others of its pass; "assumed"), `samples` and `age_s`; `measured` has the orders that ran, each with
        its passes as they were timed (one sample in 32). `plan` is the file that was given, or None.
        `stream`: `demand_per_s` (samples that the trainer takes when it never waits) and its `demand_age_s`, `step_s`; `make_per_s`
        (samples that the threads can make by the measured cost); `functions` of `map_batch`; `limit` ("trainer"; "map_batch", when
        they take more than half of a step; "cores"; "other", when the trainer waits
        though the cores could do it; None while a side is not known); `stall_share`; `ready_slots` (mean) of `slots`;
        `read_latency_s`, `read_bytes_per_s` and `read_age_s`; `pressure`. The terms are those of `stats()`; what this loader has
        not measured yet is of an earlier one on this machine, as the ages say, or None.
        `store`: of each store, what was asked of it so far (`requests`, `bytes`, `cost` in $), and the same of an `epoch` for which nothing
        is kept and of a `later_epoch` with what `cache` keeps, by the `prices`.
        With Python functions `functions` has what each takes by the clock of its worker, and what was tried of what is said of it when
        the loader was made; `native_part` says who makes what is before them, and `limit` may be "functions".

        >>> import carya, numpy as np
        >>> p = carya.arrays({"x": np.zeros((64, 8), np.uint8)}).to_dtype("float32", scale=True, fields=["x"]).batch(8)
        >>> with carya.Loader(p, epochs=1) as loader:
        ...     for batch in loader:
        ...         pass
        ...     loader.explain()["order"]
        ['to_dtype']
        """
        return self._explained(self._sense)

    def _explained(self, reorder: str) -> Explanation:
        """With what would be cheapest under `reorder`."""
        report = Explanation(json.loads(self._job.explain(self._native, reorder)))
        stats = self.stats()
        report["parallelism"] |= {
            "threads": stats["threads"],
            "slots": stats["slots"]["count"],
            "chunk_rows": stats["chunk_rows"],
            "ahead_chunks": stats["ahead_chunks"],
        }
        add_stream(report, stats)
        report["store"] = store_costs(stats)
        report |= {"plan": self._plan, "same_bits": not self._order, "cache": stats["cache"]}
        return report

    def placement(self) -> Placement:
        """Where the samples are made, here or by workers, and why: a dict that prints as a text (see `carya.Placement`)."""
        text = self._job.placement()
        return Placement(json.loads(text) if text else LOCAL)

    def quarantine(self) -> list[dict[str, Any]]:
        """Broken records of delivered batches: record, path, member, offset, stage, reason, substitute and place."""
        return self._job.quarantine()

    def trace(self, path: str | os.PathLike[str], *, events: int = 65_536, chrome: bool = False) -> Trace:
        """A trace of what this process does, and the daemon of this loader: `with loader.trace("run.pftrace"):`, or `start()` and
        `stop()` of what it returns. ui.perfetto.dev opens the file; `chrome=True` writes JSON for chrome://tracing.

        It shows reads, chunks, slots, `next()`, the trainer's steps, workers and functions, and how they lead to each other;
        each thread keeps its newest `events` of 64 B. See docs/guides/trace.md.
        """
        from .._tracing.recording import Trace  # few trace

        def daemon() -> tuple[str, str] | None:
            return None if self._job.place == "embedded" else (self._job.place, self._daemon_job)

        return Trace(path, events=events, chrome=chrome, daemon=daemon)

    # End ------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the engine. Arrays that were handed out stay valid. Twice is harmless."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            f"cannot pickle {type(self).__module__}.Loader: it owns threads and shared memory; "
            "pickle loader.pipeline and loader.state_dict(), and make a new Loader from them"
        )
