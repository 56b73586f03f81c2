"""The trainer's side of a stream of Python functions: what `_core.Job` is for a native one."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import statistics
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._errors import Closed, ForkedError, InvalidArgument, Timeout, WorkerDied
from .._processes.transport import Channel, Packed, file_of, mapped_private
from .._processes.wire import Place
from .._sources.progress import Progress
from .._stages.identity import identity
from .._stages.mix import MixSpec
from .._stages.mixing import Mixing
from .._stages.source import Sharded
from .._stages.spec import StreamSpec
from .._tracing.calls import CallTrace
from .._traits.proof import Found
from .._traits.report import Cost, Measured, assembled
from .ahead import AheadSpec
from .code import dumps_code, main_script, needs_main_script
from .faults import Fault, raised
from .layout import Field, Layout
from .leases import GiveBack, Retired, Ring, SlotBatch
from .start import in_host, start_host
from .steps import ListedSteps, Order, Steps, budget_steps

_SLICE_S = 0.2
_QUARANTINE_MAX = 10_000
_CLOSE_S = 1.0
_ARENA_MAX = 1 << 30
_OPENING_S = 60.0
_STEPS_TIMED = 240
# Figures of native threads that make what is before the functions.
_OF_NATIVE = (
    "bytes_read", "reads", "cached_reads", "cached_bytes", "read_retries", "read_latency_seconds", "read_bytes_per_second",
    "jpeg_decodes", "decode_index", "io_engine", "order", "plan_switches", "plan_log", "ahead_chunks", "cache", "remote_chunks",
    "remote_bytes", "store",
)  # fmt: skip
# Bytes of slots of which there are some more, so that one message speaks of several; and of those of which there are many.
_SLOT_SMALL, _SLOT_TINY = 1 << 19, 1 << 17


@dataclass
class JobSpec:
    """What is asked for beyond what decides a bit."""

    stream: StreamSpec
    dataset: _core.Dataset  # with the views applied, for addresses and the fingerprint
    shape: dict[str, Any]  # arguments of StreamShape but for `records`
    slots: int  # 0: automatic
    epochs: int | None
    prefetch_epochs: bool
    on_error: str
    epoch: int
    position: int
    defer_release: bool
    order: Callable[[int], Order] | None = None  # of an epoch; None: all records, as the pipeline has them
    places: tuple[Place, ...] = ()  # other machines that make rows while all workers here are busy
    ahead: AheadSpec | str = ""  # what native threads make before the functions; or why they do not


class FunctionJob:
    """A stream that a host process and its workers make. Threads: one at a time; leases end in any.

    Errors of the constructor: InvalidArgument (what cannot be sent, filters that keep nothing, shapes), the user's own
    exceptions of importing the functions and of the first sample, Timeout, WorkerDied, Exhausted.
    """

    place, io_engine, reattached = "embedded", "", 0

    def __init__(self, asked: JobSpec) -> None:
        self._asked, spec = asked, asked.stream
        self._pid = os.getpid()
        self._spec = spec
        self.on_error = asked.on_error
        self.seed = spec.seed
        self._session = 0
        self._failure: Exception | None = None
        self._ready: deque[tuple[Any, ...]] = deque()  # told by the host, and not yet asked for
        self._quarantine: deque[dict[str, Any]] = deque(maxlen=_QUARANTINE_MAX)
        self._entries = self._replaced = self._masked = self._batches = 0
        self._figures: dict[str, Any] = {}
        self._stalled = 0.0
        self._steps: deque[float] = deque(maxlen=_STEPS_TIMED)
        self._began = time.monotonic()
        self._returned: float | None = None
        self._trace = CallTrace()
        self._ring: Ring | None = None
        self._sizes = np.zeros(0, np.int64)
        self._turned = -1  # the epoch whose steps `shape` has
        if in_host():
            raise InvalidArgument(
                "Loader: a worker process came to make it, since it runs the script to find the functions in it; put what makes "
                'loaders and trains under `if __name__ == "__main__":`, or install cloudpickle'
            )
        self.kept = self.raised = np.zeros(0, np.int64)  # of `asks_only`: as of `StreamSpec`
        self._start(asked.epoch)
        if spec.asks_only:
            return
        try:
            self.seek(asked.epoch, asked.position)
        except BaseException:
            self.close()
            raise

    # Beginning ---------------------------------------------------------------------------------------------------------

    def _start(self, epoch: int) -> None:
        """A host, its workers, and slots for steps of the size of this epoch's."""
        spec = self._spec
        if self._asked.order is not None:
            self._asked.order(epoch)  # one that is refused is told before a process is started
        code = Packed(spec.without_arrays(), dumps_code)
        self._main = main_script() if needs_main_script() else {}
        arrays = Packed(spec.arrays, dumps_code)
        self._dump = os.memfd_create("carya-dump", os.MFD_CLOEXEC)
        self._process, self._link = start_host(self._dump)
        self._end = weakref.finalize(self, _end_host, self._process, self._link, self._dump, self._pid)
        try:
            self._open(code, arrays)
            if spec.asks_only:
                return
            self.shape, self._turned = self._shape_of(epoch), epoch
            self._check_groups()
            self._make_slots()
        except BaseException:
            self.close()
            raise

    def _shape_of(self, epoch: int) -> Steps:
        if self._spec.budget is not None:
            return budget_steps(self._spec, self._sizes, epoch, self._asked.shape)
        if self._asked.order is None:
            return _core.StreamShape(records=self._records, **self._asked.shape)
        order = self._asked.order(epoch)
        if order.ends is not None:
            return ListedSteps(order.ends)
        return _core.StreamShape(records=order.places.shape[1], **self._asked.shape)

    def _check_groups(self) -> None:
        """Errors: InvalidArgument, where a step of this rank's would cut through a group that is mixed."""
        shape, size = self.shape, self.shape.global_size
        begins = {0, min(size, shape.records), max(0, shape.records - 1) // size * size}
        for mixing in [stage.fn for stage in self._spec.stages if isinstance(stage.fn, Mixing)]:
            for position in sorted(begin for begin in begins if shape.steps_from(begin)):
                mixing.check(shape.part(position)[0])

    def turn_to(self, epoch: int) -> None:
        """Steps are from now on those of this epoch, where each has its own. Errors: those of the order."""
        if self._asked.order is None and (self._spec.budget is None or epoch == self._turned):
            return
        self.shape, self._turned = self._shape_of(epoch), epoch
        if self._ring is not None and self.shape.rank_rows_max > self._ring.layout.rows:
            self.close()
            self._ready.clear()
            self._start(epoch)

    def _open(self, code: Packed, arrays: Packed) -> None:
        files = [code.to_file("code"), arrays.to_file("arrays")]
        try:
            timeout = self._opening_timeout
            message = ("open", (code.text, code.places), (arrays.text, arrays.places), timeout, self._main)
            self._link.send(message, files)
        except OSError:
            raise self._host_is_gone() from None
        finally:
            for fd in files:
                os.close(fd)
        (kind, told), fds = self._wait_for()
        with Progress() as progress:
            while kind == "progress":
                progress.show(f"asking {self._spec.asks} before the first batch: {told:.0%}")
                (kind, told), fds = self._wait_for()
        if kind == "failed":
            raise raised(told, "opening")
        if self._spec.asks_only:
            self.kept, self.raised = np.split(np.frombuffer(mapped_private(fds[0]), np.int64), [told["kept"]])
            return
        if told["fields"] is None:
            raise InvalidArgument("functions: no sample could be made")
        for fd in fds:  # where sizes of records say where a batch ends
            self._sizes = np.array(np.frombuffer(mapped_private(fd), np.int64, told["count"]))
        self.fields: tuple[Field, ...] = told["fields"]
        self.tree: Any = pickle.loads(told["tree"]) if told["tree"] else ()
        self.kinds: tuple[str, ...] = told["kinds"]
        self.labels: list[str] = told["labels"]
        self.spawned: str = told["spawned"]
        self._row_bytes: int = told["row_bytes"]
        self.proven: list[Found] = told["proven"]
        self._records = told["count"]
        base = self._asked.dataset.fingerprint
        said = [base, told["survivors"]]
        if self._spec.dataset is not None:
            said.append(self._spec.dataset.fingerprint())
        self.dataset_fingerprint = base if len(said) == 2 and not said[1] else identity(said)

    @property
    def _opening_timeout(self) -> float | None:
        """Seconds that importing the user's modules may take: a call may be short, and importing torch never is."""
        limit = self._spec.function_timeout
        return None if limit is None else max(limit, _OPENING_S)

    def _make_slots(self) -> None:
        spec, rows = self._spec, self.shape.rank_rows_max
        workers = spec.workers + len(self._asked.places)
        if isinstance(self.shape, ListedSteps):
            rows += rows // 4  # other epochs may have larger ones
        if spec.whole:
            likely = (
                rows if spec.budget is None else min(rows, 2 * int(getattr(self.shape, "rank_rows_mean", rows)) + 1)
            )
            arena = min(self._row_bytes * likely * 3 // 2 + 4096, _ARENA_MAX) if self._row_bytes else 0
            layout = Layout((), rows, arena)
        else:
            layout = Layout(self.fields, rows)
        is_small = layout.size <= _SLOT_SMALL and not (spec.whole and not arena)
        is_tiny = is_small and layout.size <= _SLOT_TINY
        least = (16 if is_tiny else 4) * workers + 8 if is_small else workers + 4
        slots = self._asked.slots or min(256, least if spec.whole else max(6, least))
        self._give_back = GiveBack(self._link, min(8 if is_tiny else 4, max(1, slots // 3)))
        self._ring = Ring(layout, slots, self._give_back, self._asked.defer_release)
        self.slots = slots
        epochs = {"epochs": self._asked.epochs, "prefetch_epochs": self._asked.prefetch_epochs}
        shape = {"records": self.shape.records, **self._asked.shape}
        self._link.send(
            ("slots", self.fields, layout, slots, shape, epochs, self._asked.ahead, self._asked.places), [self._ring.fd]
        )

    def _wait_for(self) -> tuple[tuple[Any, ...], list[int]]:
        """The next message, however long it takes."""
        while True:
            if self._link.readable(_SLICE_S):
                got = self._link.receive()
                if got is None:
                    raise self._host_is_gone()
                return got

    def _host_is_gone(self) -> Exception:
        """What ended it, as an exception."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_S)
        dump = os.pread(self._dump, 64 << 10, 0).decode(errors="replace").strip() if self._dump >= 0 else ""
        told = f"\nWhere it was:\n{dump}" if dump else ""
        if dump.startswith("Timeout"):
            return Timeout(
                f"functions: importing and opening them took more than {self._opening_timeout:g} s; give "
                f"function_timeout= more seconds if they need it{told}"
            )
        status = self._process.returncode
        how = "is still there" if status is None else f"ended with status {status}"
        return WorkerDied(
            f"functions: the host process of the workers {how}; make a new Loader from the state_dict() of this one{told}"
        )

    # Reading -----------------------------------------------------------------------------------------------------------

    @property
    def global_size(self) -> int:
        return self.shape.global_size

    @property
    def count(self) -> int:
        return self.shape.records

    @property
    def threads(self) -> int:
        """Worker processes."""
        return self._spec.workers

    def steps_from(self, position: int) -> int:
        return self.shape.steps_from(position)

    def seek(self, epoch: int, position: int) -> None:
        self._check()
        self._session += 1
        self._failure = None
        self.turn_to(epoch)
        if self._asked.order is not None:
            self._send_order(epoch, self._asked.order(epoch))
        self._send(("seek", self._session, epoch, position, self.on_error))

    def _send_order(self, epoch: int, order: Order) -> None:
        records, positions = order.places[0], order.places.shape[1]
        if positions and not 0 <= int(records.min()) <= int(records.max()) < self._records:
            name = "sampler" if order.ends is None else "batch_sampler"
            raise InvalidArgument(
                f"DataLoader: {name}: it gave indices of {records.min()} to {records.max()}; give 0 to {self._records - 1}"
            )
        steps = 0 if order.ends is None else len(order.ends)
        fd = file_of("order", order.places.tobytes(), b"" if order.ends is None else order.ends.tobytes())
        try:
            shape = {"records": positions, **self._asked.shape} if order.ends is None else steps
            self._link.send(("order", epoch, positions, shape), [fd])
        except OSError:
            self._failure = self._host_is_gone()
        finally:
            os.close(fd)

    def next(self, timeout: float) -> SlotBatch | None:
        """The next batch; None when it did not come in `timeout` seconds.

        Errors: the user's own exceptions, SampleError, Timeout, WorkerDied; again each time, until `seek`.
        """
        self._check()
        asked = time.monotonic()
        if self._returned is not None:
            self._steps.append(asked - self._returned)
            self._returned = None
        until = asked + timeout
        if self._trace.turned():
            self._send(("trace", self._trace.on))
        self._trace.asked()
        while True:
            if self._failure is not None:
                raise self._failure
            if not self._ready:
                if not self._receive():
                    self._give_back.tell()
                    if not self._link.readable(max(0.0, until - time.monotonic())):
                        self._stalled += time.monotonic() - asked
                        return None
                continue
            batch = self._taken()
            if batch is not None:
                now = time.monotonic()
                self._stalled += now - asked
                self._returned = now
                self._batches += 1
                self._trace.took(batch.place, batch.rows)
                return batch

    def _receive(self) -> bool:
        """One message; False when none has come. Errors: WorkerDied."""
        try:
            got = self._link.receive(wait=False)
        except BlockingIOError:
            return False
        if got is None:
            self._failure = self._host_is_gone()
            raise self._failure
        (kind, *rest), fds = got
        if kind == "batches":
            batches, figures = rest
            if figures is not None:
                if calls := figures.pop("calls", None):
                    self._trace.called(calls)
                self._figures = figures
            files = iter(fds)
            for session, slot, place, rows, entries, parts in batches:
                where = [(text, places, next(files) if in_file else -1) for text, places, in_file in parts]
                self._ready.append((session, slot, place, rows, entries, where))
        elif kind == "fault":
            session, fault, epoch, position = rest
            if session == self._session:
                self._ready.append((session, fault, epoch, position))
        return True

    def _taken(self) -> SlotBatch | None:
        """The next of what has come; None where it is of before a seek."""
        session, *told = self._ready.popleft()
        if len(told) == 3:
            fault, epoch, position = told
            if session == self._session:
                self._failure = self._told(fault, epoch, position)
                raise self._failure
            return None
        slot, (epoch, position, after), rows, entries, where = told
        ring = self._ring
        assert ring is not None
        if session != self._session:
            for _, _, fd in where:
                if fd >= 0:
                    os.close(fd)
            ring.release(slot)
            return None
        if entries:
            self._note(entries)
        shape = self.shape
        step = position // shape.global_size if isinstance(shape, _core.StreamShape) else shape.step(position)
        place = (step, epoch, after)
        return SlotBatch(ring, slot, place, rows, where, self._spec.whole)

    def _told(self, fault: Fault, epoch: int, position: int) -> Exception:
        where = self._where(fault.record)
        error = raised(fault, where)
        address = self.address(fault.record)
        for name, value in {**address, "epoch": epoch, "position": position}.items():
            with contextlib.suppress(AttributeError):
                setattr(error, name, value)
        return error

    def address(self, record: int) -> dict[str, Any]:
        """Where a record is, as far as its source says: record, path, member, offset."""
        if 0 <= record < self._asked.dataset.count and not isinstance(self._spec.dataset, Sharded):
            found = self._asked.dataset.address(record)
            return {name: found[name] for name in ("record", "path", "member", "offset")}
        return {"record": record, "path": "", "member": "", "offset": 0}

    def _where(self, record: int) -> str:
        if record < 0:
            return "the start of a worker"
        of = self._spec.dataset
        if isinstance(of, MixSpec | Sharded):
            return f"record {record} ({of.where(record)})"
        path = self.address(record)["path"]
        index = ""
        if self._spec.dataset is not None and self._spec.views and 0 <= record < self._asked.dataset.count:
            index = f" (index {self._asked.dataset.source_index(record)} of the dataset)"
        return f"record {record}{f' ({path})' if path else index}"

    def _note(self, entries: Sequence[dict[str, Any]]) -> None:
        for entry in entries:
            self._quarantine.append({**self.address(entry["record"]), **entry})
            self._entries += 1
            self._replaced += entry["substitute"] is not None
            self._masked += entry["substitute"] is None

    def set_on_error(self, policy: str) -> None:
        if policy == "mask" and self._spec.collates:
            raise no_mask()
        self.on_error = policy

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError(
                "loader: used in a forked child; make a Loader of its own there, or start processes with spawn"
            )
        if not self._end.alive:
            raise Closed("Loader: it is closed; make a new one")

    def _send(self, message: tuple[Any, ...]) -> None:
        try:
            self._link.send(message)
        except OSError:
            self._failure = self._host_is_gone()

    # Looking -----------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """The keys of a native job's, as far as there is something to say, and `workers`: processes, and how many died."""
        self._check()
        assert self._ring is not None
        step = statistics.median(self._steps) if len(self._steps) >= 16 else None
        held = self._ring.held
        life = max(time.monotonic() - self._began, 1e-9)
        figures = self._figures
        rows = max(figures.get("rows", 0), 1)
        ahead = figures.get("ahead", {})
        return {
            "batches": self._batches,
            "samples_produced": figures.get("rows", 0),
            "bytes_read": 0,
            "read_latency_seconds": None,
            "read_bytes_per_second": None,
            "replaced": self._replaced,
            "masked": self._masked,
            "quarantine_left_out": self._entries - len(self._quarantine),
            "stall_seconds": self._stalled,
            "stall_share": min(1.0, self._stalled / life),
            "step_seconds": step,
            "demand_per_second": None
            if not step
            else getattr(self.shape, "rank_rows_mean", self.shape.rank_rows_max) / step,
            "slots": {
                "count": self.slots,
                "held": held,
                "bytes": self._ring.layout.size * self.slots,
                "ready_mean": None,
            },
            "decode_index": {"spacing": None, "reason": ""},
            "io_engine": "",
            "threads": self.threads,
            "threads_used": self.threads,
            "ops": self._stages(),
            "order": [],
            "plan_switches": 0,
            "plan_log": [],
            "chunk_rows": figures.get("chunk_rows", 0),
            "ahead_chunks": 0,
            "place": self.place,
            "reattached": 0,
            **{name: ahead["stats"][name] for name in _OF_NATIVE if name in ahead.get("stats", ())},
            "native": {
                "by": "workers" if "pid" not in ahead else "threads",
                "why": ahead.get("why_not", ""),
                "pid": ahead.get("pid"),
            },
            "workers": {
                "processes": self.threads,
                "died": figures.get("died", 0),
                "recycled": figures.get("recycled", 0),
                "skipped": figures.get("skipped", 0),
                "held_seconds": figures.get("held_seconds", 0.0),
                "started_by": "exec: " + self.spawned if self.spawned else "fork",
                "seconds_per_sample": figures.get("seconds", 0.0) / rows,
                "cpu_seconds_per_sample": figures.get("cpu_seconds", 0.0) / rows,
                "afar": figures.get("afar", []),
            },
        }

    def _stages(self) -> list[dict[str, Any]]:
        """What each part takes; where native threads make what is before the functions, its operations as they measured them."""
        timed = self._figures.get("timed", 0)
        stages = [
            {"name": label, "timed_samples": timed, "seconds_per_sample": seconds / max(timed, 1)}
            for label, seconds in zip(self.labels, self._figures.get("stages", []), strict=False)
        ]
        native = self._figures.get("ahead", {}).get("stats", {}).get("ops")
        return stages if native is None else [*native, *stages[1:]]

    def explain(self, pipeline: Any, reorder: str) -> str:
        """The report of `_traits/report.py` by what the workers have measured; no function runs for it."""
        figures, stats = self._figures, self.stats()
        timed = figures.get("timed", 0)
        by_stage = [seconds * 1e6 / max(timed, 1) for seconds in figures.get("stages", [])][1:]
        costs = Measured({i: Cost(us, us, samples=timed) for i, us in enumerate(by_stage) if timed})
        report = assembled(self._spec, costs, None, self.proven, reorder, self._spec.cache_dir)
        by, why = stats["native"]["by"], stats["native"]["why"]
        report["native_part"] = f"made by {by}" + (f", since {why}" if why else "")
        report["afar"] = stats["workers"]["afar"]
        report["parallelism"]["kind"] = "worker process"
        report["timed_us"] = stats["workers"]["seconds_per_sample"] * 1e6
        report["stream"] |= {"demand_per_s": stats["demand_per_second"], "demand_age_s": 0.0}
        return json.dumps(report)

    def placement(self) -> str:
        return str(self._figures.get("ahead", {}).get("stats", {}).get("placement", ""))

    def quarantine(self) -> list[dict[str, Any]]:
        return list(self._quarantine)

    def held(self) -> int:
        return 0 if self._ring is None else self._ring.held

    def take_retired(self) -> list[Retired]:
        if self._ring is None or os.getpid() != self._pid:
            return []
        retired = self._ring.retired
        return [retired.popleft() for _ in range(len(retired))]

    def close(self) -> None:
        """End the host and its workers. Arrays that were handed out stay."""
        if os.getpid() != self._pid:
            return
        self._failure = None  # its frames hold this job, and the memory of the slots with it
        if self._ring is not None:
            self._ring.close()
        self._end()


def _end_host(process: subprocess.Popen[bytes], link: Channel, dump: int, pid: int) -> None:
    if os.getpid() != pid:  # a forked child's copy: the processes are its parent's
        return
    # Before it is waited for, since its number is its own until then. The group: also what the functions have left behind.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    link.close()
    os.close(dump)


def no_mask() -> InvalidArgument:
    return InvalidArgument(
        'Loader: on_error: got "mask" with a collate function, which has no row to mask; give "replace" or "raise"'
    )
