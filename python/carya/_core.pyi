"""Surface of the native module. Everything that decides bits is behind it; the Python side only composes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

TensorFacts = tuple[str, str, tuple[int | None, ...]]  # name, dtype, shape (None: not known before the sample is seen)

version: str
compiler: str  # name and version of the C++ compiler that built this

class Error(Exception):
    """Base of everything Carya raises; `code` is the kind in one word."""

    code: str

class InvalidArgument(Error, ValueError): ...
class NotFound(Error, FileNotFoundError): ...
class Permission(Error, PermissionError): ...

class SampleError(Error):
    """A record is broken and `on_error="raise"`."""

    record: int
    path: str
    member: str
    offset: int
    stage: str
    reason: str

class IoError(Error, OSError): ...
class Timeout(Error, TimeoutError): ...
class Exhausted(Error, MemoryError): ...
class Unsupported(Error): ...
class Closed(Error): ...
class ForkedError(Error): ...

class Pipeline:
    @staticmethod
    def parse(text: str | bytes) -> Pipeline: ...
    def to_json(self) -> str: ...
    def lines(self) -> list[tuple[str, list[TensorFacts]]]: ...
    def outputs(self) -> list[TensorFacts]: ...
    def fingerprint(self, on_error: str, order: Sequence[int] = ()) -> str: ...
    def explain(self, cache_dir: str, running: Sequence[int] = (), reorder: str = "exact") -> str:
        """JSON: the order in which its ops run (or `running`), and why (loader/plan/order_report.h), by the profile that is kept there."""
    def fixed_order(self, reorder: str) -> list[int]:
        """The order of a stream with other bits than declared; empty where none is cheaper (loader/plan/planner_input.h)."""
    def check_order(self, order: Sequence[int], reorder: str) -> None: ...
    def op_labels(self) -> list[str]: ...
    def draws(self) -> list[bool]:
        """Of each operation whether it draws random numbers."""

    def passes_pixelwise(self) -> list[str]:
        """Of each operation how far it may change places with a function of single pixels: "never", "exact", "rounding",
        "relaxed"."""

    def freeze_plan(self, *, reorder: str, order: Sequence[int]) -> str:
        """JSON: what binds a plan file to this pipeline (loader/plan/PLAN.md)."""
    def read_plan(self, text: str | bytes) -> tuple[str, list[int]]:
        """`reorder` and the order of a plan file's text, checked against this pipeline."""

class Dataset:
    @staticmethod
    def open(
        pipeline: Pipeline,
        *,
        arrays: dict[str, np.ndarray[Any, Any]] | None,
        cache_dir: str,
        verify: bool,
        threads: int,
        progress: Callable[[int], bool] | None,
    ) -> Dataset: ...
    @property
    def count(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def class_names(self) -> list[str]: ...
    @property
    def labels(self) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        """Of all records, after the views; -1: none, or no integer. None where records of this source have no label."""

    @property
    def skipped_count(self) -> int: ...
    @property
    def skipped_examples(self) -> list[str]: ...
    @property
    def from_cache(self) -> bool: ...
    def choose(self, pipeline: Pipeline, arrays: dict[str, np.ndarray[Any, Any]] | None = None) -> Dataset:
        """The same, whose streams go through records as the document says. `arrays`: the numbers beside it. Errors: InvalidArgument."""

    @property
    def kept_count(self) -> int: ...
    def address(self, index: int) -> dict[str, Any]: ...
    def source_index(self, index: int) -> int:
        """The record's index in the source, before the views."""

def sample(
    pipeline: Pipeline, dataset: Dataset, index: int, epoch: int, seed: int | None, order: Sequence[int] = ()
) -> dict[str, np.ndarray[Any, Any]]: ...

class StreamShape:
    """Positions, steps and the parts of ranks (loader/stream/stream_shape.h)."""

    def __init__(
        self,
        *,
        records: int,
        batch_size: int,
        global_size: int,
        world_size: int,
        rank: int,
        drop_last: bool,
        pad_last: bool,
    ) -> None: ...
    @property
    def records(self) -> int: ...
    @property
    def global_size(self) -> int: ...
    @property
    def rank_rows_max(self) -> int: ...
    def steps_from(self, position: int) -> int: ...
    def step_positions(self, position: int) -> int: ...
    def part(self, position: int) -> tuple[int, int, int, bool]:
        """First position, positions and rows of this rank's part of the step, and whether its row is another rank's."""

class Permutation:
    """The record at each position (base/permutation.h)."""

    def __init__(self, seed: int, epoch: int, count: int) -> None: ...
    def record(self, position: int) -> int: ...
    def records(self, first: int, count: int) -> np.ndarray[Any, Any]:
        """int64 (count,), of the positions from `first` on."""

class MixOrder:
    """Which source of a mix has which position (loader/data/mix_order.h). Threads: one.

    `sources`: of each how many samples an epoch of its own has, and the seed of its order, None where it is not shuffled.
    Errors: InvalidArgument, also of positions past the end."""

    def __init__(
        self,
        *,
        sources: Sequence[tuple[int, int | None]],
        table: Sequence[tuple[int, Sequence[int]]],
        length: int,
        seed: int | None,
        in_turn: bool,
    ) -> None: ...
    def given(self, position: int) -> list[int]:
        """How many samples each source has given before a position of the whole stream."""

    def places(self, epoch: int, first: int, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """int64 (count,) twice: the source at each position, and how many samples it has given before."""

    def rows(
        self, epoch: int, first: int, count: int
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """int64 (count,) three times: the source, its own epoch, and the sample of that by the source's order."""

unicode_source: str

class Bpe:
    """Byte-level byte-pair encoding. Threads: they take turns. Errors: InvalidArgument: tables that cannot be."""

    def __init__(
        self,
        *,
        pretokens: str,
        byte_ids: np.ndarray[Any, np.dtype[np.uint32]],
        merges: np.ndarray[Any, np.dtype[np.uint32]],
        whole: bytes,
        whole_ends: np.ndarray[Any, np.dtype[np.uint64]],
        whole_ids: np.ndarray[Any, np.dtype[np.uint32]],
    ) -> None: ...
    def encode(
        self, texts: Sequence[str | Sequence[str | int]], most: int, before: Sequence[int], behind: Sequence[int]
    ) -> tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.int64]]]:
        """The ids of all texts one behind the other, and where those of each end.

        A text is a str, or a list of what it is cut into: str, and ids. Of each at most `most` ids, between `before` and `behind`.
        Errors: Exhausted: more than 1 GiB; UnicodeEncodeError: lone surrogates.
        """

    def encode_joined(
        self,
        texts: bytes,
        ends: np.ndarray[Any, np.dtype[np.int64]],
        most: int,
        before: Sequence[int],
        behind: Sequence[int],
    ) -> tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.int64]]]:
        """The same of texts of UTF-8 one behind the other, text i ending at `ends[i]`; nothing is cut out of them.

        Errors: InvalidArgument: ends that fall or lie outside; SampleError: no UTF-8; Exhausted.
        """

def read_lines(
    files: np.ndarray[Any, np.dtype[np.int64]],
    begins: np.ndarray[Any, np.dtype[np.int64]],
    ends: np.ndarray[Any, np.dtype[np.int64]],
) -> tuple[bytes, np.ndarray[Any, np.dtype[np.int64]]] | None:
    """The line that each record of text begins with, one behind the other without LF or CR LF, and where each ends.

    Record i is the bytes `begins[i]` to `ends[i]` of the descriptor `files[i]`. None: one is not there as a whole, is no UTF-8, or
    all of them are more than 1 GiB. Errors: InvalidArgument: arrays of different lengths.
    """

def pad_rows(
    values: np.ndarray[Any, Any],
    ends: np.ndarray[Any, np.dtype[np.int64]],
    to: int,
    multiple_of: int,
    filling: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, np.dtype[np.int64]]]:
    """Arrays that lie one behind the other, the i-th ending at `ends[i]`, as rows with `filling` behind them, and their lengths.

    Rows have `to` elements, at which they are cut; 0: as many as the longest, at least one, rounded up to a multiple.
    Errors: InvalidArgument: ends that fall or lie outside, objects, a filling of another size.
    """

class Sampler:
    """Single samples of a native pipeline, one after the other. Threads: one at a time."""

    def __init__(self, pipeline: Pipeline, dataset: Dataset, seed: int, order: Sequence[int] = ()) -> None: ...
    def compute(self, record: int, epoch: int, occurrence: int) -> dict[str, np.ndarray[Any, Any]]: ...
    @property
    def in_memory(self) -> list[str]:
        """The fields of a sample that are in memory and that no operation takes."""

    def facts(self, record: int, names: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Some of those of a record, whose bytes are not read. Errors: SampleError, of a record that is broken whatever they are."""

class Part:
    """Operations of a pipeline whose source is one row of arrays, on arrays that are given. Threads: one at a time."""

    def __init__(self, pipeline: Pipeline, seed: int) -> None: ...
    def compute(
        self, inputs: Sequence[np.ndarray[Any, Any]], record: int, epoch: int, occurrence: int
    ) -> dict[str, np.ndarray[Any, Any]]:
        """`inputs`: C-contiguous, in the order of the source's arrays. Errors: SampleError of a picture that is bad data."""

def op_key(seed: int, name: str, occurrence: int) -> int:
    """64 bits: the key of an operation's random numbers (base/philox.h)."""

def sample_seed(key: int, epoch: int, record: int, occurrence: int) -> int:
    """64 bits of the sample's random numbers under an `op_key`."""

def seed_twister(address: int, key: int, epoch: int, record: int, occurrence: int) -> tuple[int, bool]:
    """`sample_seed`, with numpy's Mersenne Twister at `address` set from it, and whether that one was used before."""

def substitute(seed: int, epoch: int, position: int, draw: int, count: int) -> int:
    """The record that takes the place of a broken one: draw 0 to 15 of the position's own."""

def auto_threads() -> int: ...
def available_slot_bytes() -> int:
    """What shared memory may take before the kernel ends processes for want of it (shm/memory_limit.h)."""

class Retired:
    """A lease whose last view is gone, not yet given back to the ring."""

    def release(self) -> None: ...

class Batch:
    """One slot, leased: arrays are views into it and keep it."""

    @property
    def step(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def place(self) -> tuple[int, int, int]:
        """step, epoch, position"""
    @property
    def records(self) -> np.ndarray[Any, Any]: ...
    @property
    def valid(self) -> np.ndarray[Any, Any]: ...
    @property
    def slot(self) -> int:
        """Which one of the job's slots it lies in."""
    def names(self) -> list[str]: ...
    def numpy(self, name: str) -> np.ndarray[Any, Any]: ...
    def arrays(self) -> tuple[np.ndarray[Any, Any], ...]:
        """All the user's tensors, in the order of `names()`."""
    def dlpack(self, name: str) -> object: ...

class JobOptions:
    """How one rank's stream is made (loader/job/job_options.h). A new one has the defaults, the only ones there are."""

    rank: int
    world_size: int
    epochs: int | None
    threads: int  # 0: automatic
    slots: int  # 0: automatic
    weight: float
    node: int  # the NUMA node on which batches are wanted; -1: by the cores that this process may use
    read_ahead: int  # bytes
    on_error: str
    seed: int | None
    prefetch_epochs: bool
    io_timeout: float  # seconds
    io_engine: str
    epoch: int
    position: int
    label_dtype: str
    decode_index: str  # "auto", "off", "rows", "8", "16"
    cache_dir: str
    reorder: str
    order: Sequence[int]
    fuse: bool
    trains: bool
    remote: RemoteOptions | None
    cache: str  # "off", "auto", "on"
    cache_bytes: int  # 0: by the share
    cache_share: float  # of the memory that is free
    cache_disk: tuple[str, int]  # a folder and the most bytes in it; "": none
    cache_shared: tuple[str, int]
    cache_write_budget: int  # bytes a day; 0: no limit
    cache_after: str  # the label of an operation; "": where it pays most
    cache_form: str  # "any", "raw", "coefficients" or "records"
    host_price: float  # $ per hour, which what stores charge is compared with
    request_price: float | None  # $ per 1,000 requests to a store; None: list prices
    gb_price: float | None

class RemoteOptions:
    """Workers that a stream may use (loader/overflow/remote_options.h), with the defaults."""

    workers: list[str]
    dns: str
    fleet_command: list[str]
    fleet_options: str
    certificate: str
    key: str
    authority: str
    server_name: str
    insecure: bool
    token: str
    user: str
    host_price: float  # $ per hour
    worker_price: float
    objective: str
    target: float
    max_workers: int
    max_cost_per_hour: float
    verify: float
    workers_fixed: int | None
    cut_fixed: int | None

class DaemonOptions:
    """Which daemon makes the batches, and for whom (loader/control/daemon_stream.h)."""

    socket: str
    job: str
    replica: int
    replicas: int
    share: str  # "": the slots are this job's alone
    share_jobs: int
    cache_dir: str
    reattach_timeout: float  # seconds
    on_loss: str  # "embedded" or "raise"
    arrays: dict[str, np.ndarray[Any, Any]] | None
    progress: Callable[[int], bool] | None

class Job:
    def __init__(
        self,
        pipeline: Pipeline,
        dataset: Dataset | None,
        options: JobOptions,
        *,
        daemon: DaemonOptions | None = None,
        defer_release: bool = False,
    ) -> None: ...
    @property
    def dataset_fingerprint(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def io_engine(self) -> str:
        """What reads, where this process makes the batches; else ""."""
    @property
    def skipped(self) -> tuple[int, list[str]]: ...
    @property
    def reattached(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def global_size(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def threads(self) -> int: ...
    def steps_from(self, position: int) -> int: ...
    def seek(self, epoch: int, position: int) -> None: ...
    def next(self, timeout: float) -> Batch | None: ...
    def set_on_error(self, policy: str) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def explain(self, pipeline: Pipeline, reorder: str) -> str:
        """As `Pipeline.explain`, with what this stream measured."""
    def placement(self) -> str: ...
    def quarantine(self) -> list[dict[str, Any]]: ...
    def held(self) -> int: ...
    def slot_files(self) -> dict[str, Any]:
        """For processes that read leased slots beside this one: `descriptors` (the job's own; none where a daemon makes the
        batches), `bytes` and `rows` of each file, and `tensors`: (name, dtype, shape of a row, offset), whose last two are the
        records and whether they are valid."""
    def take_retired(self) -> list[Retired]: ...
    def close(self) -> None: ...

def add_op(path: str) -> tuple[str, str]:
    """Load a library of an operation of the user's own (transforms/user/carya_op.h); its name and digest."""

def escaped(text: bytes) -> str: ...
def store_head(url: str, bytes_max: int) -> bytes: ...
def says_how_stores_are_asked(name: str) -> bool: ...

class StoreStop:
    def __init__(self) -> None: ...
    def set(self) -> None: ...

def store_look_up(url: str, stop: StoreStop | None = None) -> tuple[int, str]: ...
def store_remember(listed: Sequence[tuple[str, int, str]]) -> None: ...
def store_read(url: str, size: int, version: str, offset: int, count: int, stop: StoreStop | None = None) -> bytes: ...
def store_page(url: str, query: Sequence[tuple[str, str]], bytes_max: int) -> bytes: ...
def daemon_socket() -> str: ...
def daemon_listens(socket: str) -> bool: ...
def trace_on() -> bool: ...
def trace_start(thread_events: int) -> int: ...
def trace_stop(session: int, process: str) -> bytes: ...
def trace_calls(made_by: int, calls: Sequence[Sequence[int]]) -> None: ...
def trace_next(made_by: int, returned_ns: int, asked_ns: int, batch: int, step: int, rows: int, epoch: int) -> None: ...
def daemon_watch(socket: str, job: str) -> list[dict[str, Any]]: ...
def daemon_trace_start(socket: str, thread_events: int) -> int: ...
def daemon_trace_stop(socket: str, session: int, job: str) -> bytes: ...
def worker_usage(
    address: str, tls: tuple[str, str, str], server_name: str, token: str, insecure: bool, seconds: float
) -> dict[str, Any]: ...
def look_up_workers(name: str) -> list[str]: ...

class TurnSeat:
    def __init__(self, socket: str) -> None: ...
    def report(self, weight: float, used_ns: int, wants: int) -> tuple[int, bool]: ...

def daemon_status(socket: str) -> str: ...
def daemon_logs(socket: str, lines: int) -> list[str]: ...
def daemon_drain(socket: str) -> None: ...
def daemon_stop_job(socket: str, job: str) -> None: ...
def complete_index(
    dataset: Dataset,
    *,
    decode_index: str,
    cache_dir: str,
    threads: int,
    progress: Callable[[int], bool] | None = None,
) -> dict[str, Any]: ...
def list_stores(folder: str) -> list[dict[str, Any]]: ...
def is_for_everybody(path: bytes) -> bool:
    """Whether every user may read the file: by its mode, without an ACL, with all folders on its real path."""

def let_read(path: bytes, source: bytes) -> None:
    """Let those read a file of this user's who may read `source`, as far as the umask lets. Errors: Unsupported (the file
    system lets more read it), those of opening it."""

def verify_store(path: str) -> dict[str, Any]: ...
def remove_store(path: str) -> None: ...
def list_places(folder: str) -> list[dict[str, Any]]: ...
def verify_place(path: str) -> dict[str, Any]: ...
def remove_place(path: str) -> None: ...
def read_manifest(path: str) -> dict[str, Any]: ...
def read_record_index(path: str) -> int: ...
def simulate(scenario: dict[str, Any], progress: Callable[[int], bool] | None = None) -> list[dict[str, Any]]: ...
def simulate_fleet(
    hosts: int,
    workers: int,
    minutes: int,
    preempted_per_hour: float,
    seed: int,
    progress: Callable[[int], bool] | None = None,
    by_weight: bool = True,
) -> dict[str, Any]: ...
def choose_cache(facts: dict[str, Any]) -> dict[str, Any]: ...
def share_workers(jobs: list[SimulatedController], workers: int) -> list[int]: ...

class SimulatedController:
    def __init__(
        self, model: dict[str, float], host_price: float, worker_price: float, workers_max: int, worker_start_s: float
    ) -> None: ...
    def observe(self, seen: dict[str, float], now_s: float) -> dict[str, Any]: ...
    def set_workers_max(self, count: int) -> None: ...

def simulate_pecan(epochs: float, seed: int, progress: Callable[[int], bool] | None = None) -> list[dict[str, Any]]: ...
def doctor() -> dict[str, Any]: ...
def simd_targets() -> list[str]: ...
def simd_target() -> str: ...
def simd_needs() -> dict[str, list[str]]: ...
def force_simd_target(name: str) -> None: ...
