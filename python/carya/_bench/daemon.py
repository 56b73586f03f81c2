"""The daemon against embedded mode, on the same cores, and what attaching, waking and idling cost.

Ceilings: samples per CPU second of both processes together >= 0.98 of embedded, wall >= 0.97; hand-off p50 <= 10 us,
p99 <= 50 us, wake-up of a reader that waits <= 60 us; attach -> first batch of 16 <= 30 ms, warm re-attachment <= 20 ms, daemon restart -> next batch <= 300 ms;
8 readers of one job and 16 jobs: sum of rates >= 0.95 of one job's, rates within 3 %, time between batches p99 <= 1.5 x
median; a trainer busy in Python: steps <= 1.02 x; idle: no wake-ups, proportional set size <= 20 MB.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import _core, _programs, files
from .._loading.loader import Loader
from .._pipeline.pipeline import Pipeline
from .handoff import ROWS, SLOTS, Rounds, two_tensors
from .measure import Rate, measure, median, percentile, process_tree_cpu_s
from .peers import TorchSamples
from .photos import find_photos, warm
from .report import Options, Report
from .vision import pipeline


def run(options: Options) -> Report:
    options = options.scaled()
    report = Report("daemon")
    with _scene(options) as (paths, socket):
        with _serving(socket):
            report.rows += _against_embedded(paths, socket, options)
            report.rows += _handoff(socket, options)
            report.rows += _waking(socket, options)
            report.rows += _attaching(paths, socket, options)
            report.rows += _many(paths, socket, options)
            report.rows += _busy(paths, socket, options)
        report.rows += _restarting(paths, socket, options)
        report.rows += _idle(socket, options)
    return report


def against_embedded(options: Options) -> Report:
    """The first rows alone: `carya bench vision --daemon`."""
    options = options.scaled()
    with _scene(options) as (paths, socket), _serving(socket):
        return Report("vision", rows=_against_embedded(paths, socket, options))


@contextlib.contextmanager
def _scene(options: Options) -> Iterator[tuple[list[str], str]]:
    """Photos that lie in memory, and where a daemon is to listen; a cache folder of their own."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["CARYA_CACHE_DIR"] = os.path.join(scratch, "cache")
        paths = find_photos(options, Path(scratch))
        warm(paths)
        yield paths, os.path.join(scratch, "caryad.sock")


def _row(what: str, value: float, unit: str, bar: str) -> dict[str, Any]:
    return {"what": what, "value": round(value, 3), "unit": unit, "bar": bar}


@contextlib.contextmanager
def _serving(socket: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon of this bench, killed at its end."""
    with subprocess.Popen([_programs.program(), "--socket", socket], stderr=subprocess.DEVNULL) as daemon:
        try:
            while not _core.daemon_listens(socket):
                time.sleep(0.001)
            yield daemon
        finally:
            daemon.kill()


def _sizes(loader: Loader) -> Iterator[int]:
    while True:
        for batch in loader:
            yield len(batch["label"]) if "label" in batch else len(batch["image"])


def _rate(paths: list[str], form: str, place: str, seconds: float, threads: int, job: str | None = None) -> Rate:
    with Loader(pipeline(paths, form), daemon=place, threads=threads, job=job) as loader:
        return measure(_sizes(loader), seconds, process_tree_cpu_s)


def _against_embedded(paths: list[str], socket: str, options: Options) -> list[dict[str, Any]]:
    cores = len(os.sched_getaffinity(0))
    _rate(paths, "uint8", "embedded", options.seconds, cores)  # completes most of the decode index, for both alike
    rows = []
    for form in ("uint8", "float32"):
        pairs = []
        for _ in range(options.rounds):
            pairs.append([_rate(paths, form, place, options.seconds, cores) for place in ("embedded", socket)])
        cpu = median([embedded.cpu_us / daemon.cpu_us for embedded, daemon in pairs])
        wall = median([daemon.per_second / embedded.per_second for embedded, daemon in pairs])
        rows.append(_row(f"vision {form}: samples per CPU-s, of embedded", cpu, "ratio", ">= 0.98"))
        rows.append(_row(f"vision {form}: wall, of embedded", wall, "ratio", ">= 0.97"))
    return rows


def _handoff(socket: str, options: Options) -> list[dict[str, Any]]:
    repeats = 5 if options.smoke else 100
    _, chain = two_tensors(8 if options.smoke else ROWS)
    with Loader(chain, daemon=socket, slots=SLOTS) as loader:
        rounds = Rounds(loader)
        for _ in range(repeats):
            rounds.run()
    return [
        _row("hand-off, ready, p50", percentile(rounds.behind, 50), "us", "<= 10"),
        _row("hand-off, ready, p99", percentile(rounds.behind, 99), "us", "<= 50"),
    ]


def _waking(socket: str, options: Options) -> list[dict[str, Any]]:
    """How much later a reader that sleeps has a batch than one that never stops looking: two replicas of one rank.

    The looker holds both slots and gives the older one back every 2 ms, so that the sleeper always waits for the next.
    """
    count = 10 if options.smoke else 400
    _, chain = two_tensors(1)
    seen, sight = os.pipe()
    child = os.fork()
    if child == 0:
        lines = ",".join(str(at) for at in _sights(chain, socket, count))
        with open(sight, "w") as report:
            report.write(lines)
        os._exit(0)
    os.close(sight)
    with Loader(chain, daemon=socket, job="waking", replica=1, replicas=2, slots=2) as loader:
        batches = (batch for _ in itertools.count() for batch in loader)
        woken = []
        for _ in range(count):
            next(batches)
            woken.append(time.perf_counter_ns())
    with open(seen) as report:
        looked = [int(at) for at in report.read().split(",")]
    os.waitpid(child, 0)
    late = [(slept - saw) / 1000 for slept, saw in zip(woken, looked, strict=True)][count // 10 :]
    return [_row("wake-up of a reader that waits, p50", percentile(late, 50), "us", "<= 60")]


def _sights(chain: Pipeline, socket: str, count: int) -> list[int]:
    """When the next batch could be seen, `count` times."""
    sights: list[int] = []
    held: list[Any] = []
    with Loader(chain, daemon=socket, job="waking", replica=0, replicas=2, slots=2) as loader:
        loader._begin()
        while len(sights) < count:
            if len(held) == 2:
                time.sleep(0.002)
                held.pop(0)
            batch = None
            while batch is None:
                batch = loader._job.next(0.0)
            sights.append(time.perf_counter_ns())
            held.append(batch)
            del batch
    return sights


def _first_batch_ms(paths: list[str], socket: str, job: str | None = None) -> float:
    chain = _of_16(paths)
    start = time.perf_counter()
    with Loader(chain, daemon=socket, job=job) as loader:
        batch = next(iter(loader))
        took = time.perf_counter() - start
        del batch
    return took * 1000


def _of_16(paths: list[str], seed: int = 1) -> Pipeline:
    return files(paths).shuffle(seed=seed).decode_image().random_resized_crop(224).random_horizontal_flip().batch(16)


def _attaching(paths: list[str], socket: str, options: Options) -> list[dict[str, Any]]:
    repeats = 2 if options.smoke else 15
    cold = [_first_batch_ms(paths, socket) for _ in range(repeats + 1)][1:]
    warm_ms = [_reattached_ms(paths, socket, f"warm{number}") for number in range(repeats)]
    return [
        _row("attach -> first batch of 16", median(cold), "ms", "<= 30"),
        _row("re-attach, warm -> batch of 16", median(warm_ms), "ms", "<= 20"),
    ]


def _reattached_ms(paths: list[str], socket: str, job: str) -> float:
    """A successor of a trainer that was killed: from its Loader(...) to its first batch."""
    chain = _of_16(paths)
    child = os.fork()
    if child == 0:
        loader = Loader(chain, daemon=socket, job=job)
        next(iter(loader))
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    time.sleep(0.1)  # the daemon has seen it
    return _first_batch_ms(paths, socket, job)


def _many(paths: list[str], socket: str, options: Options) -> list[dict[str, Any]]:
    """Rates of many readers at once, in threads of this process: they wait without the GIL."""
    kinds = {"8 readers of one job": (8, 1), "16 jobs": (1, 16)}
    found: dict[str, list[tuple[float, float, float]]] = {what: [] for what in kinds}
    for _ in range(options.rounds):
        alone = sum(_rates(paths, socket, 1, 1, options)[0])
        for what, (readers, jobs) in kinds.items():
            rates, uneven = _rates(paths, socket, readers, jobs, options)
            spread = _ratio(max(rates) - min(rates), max(rates))
            found[what].append((_ratio(sum(rates), alone), spread, uneven))
    rows = []
    for what, rounds in found.items():
        total, spread, uneven = (median(list(values)) for values in zip(*rounds, strict=True))
        rows.append(_row(f"{what}: sum of rates, of one", total, "ratio", ">= 0.95"))
        rows.append(_row(f"{what}: spread of rates", spread, "ratio", "<= 0.03"))
        rows.append(_row(f"{what}: time between batches, p99 of p50", uneven, "ratio", "<= 1.5"))
    return rows


def _ratio(part: float, whole: float) -> float:
    """0 where nothing was measured: in a smoke run on a busy machine a reader may see no batch in its time."""
    return part / whole if whole > 0 else 0.0


def _rates(paths: list[str], socket: str, readers: int, jobs: int, options: Options) -> tuple[list[float], float]:
    """Samples per second of each reader; and p99 / p50 of the time between batches, of the reader where that is worst.

    Each job has an order of its own: else a batch of large photos comes to all of them at the same time.
    """
    counts = [0] * (readers * jobs)
    times: list[list[float]] = [[] for _ in counts]
    go, stop = threading.Event(), threading.Event()

    def read(number: int) -> None:
        job, rank = divmod(number, readers)
        name, chain = f"many-{readers}-{jobs}-{job}", _of_16(paths, seed=job)
        with Loader(chain, daemon=socket, job=name, rank=rank, world_size=readers, slots=SLOTS) as loader:
            sizes = _sizes(loader)
            next(sizes)
            go.wait()
            while not stop.is_set():
                counts[number] += next(sizes)
                times[number].append(time.perf_counter())

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(counts))]
    for thread in threads:
        thread.start()
    time.sleep(0.3 if options.smoke else 1.0)
    go.set()
    time.sleep(options.seconds * 0.2)
    before, start = list(counts), time.perf_counter()
    time.sleep(options.seconds * 2)
    after, took = list(counts), time.perf_counter() - start
    stop.set()
    for thread in threads:
        thread.join()
    uneven = []
    for each in times:
        gaps = [later - at for at, later in itertools.pairwise(each) if start <= at < start + took]
        uneven.append(percentile(gaps, 99) / percentile(gaps, 50) if gaps else 1.0)
    return [(b - a) / took for a, b in zip(before, after, strict=True)], max(uneven)


def _busy(paths: list[str], socket: str, options: Options) -> list[dict[str, Any]]:
    """How much longer the steps of a trainer take that computes in Python, when its batches are made beside it."""
    chain = _of_16(paths)
    kinds: dict[str, Any] = {"alone": None, "daemon": socket, "embedded": "embedded"}
    if importlib.util.find_spec("torch") is not None:
        kinds["torch DataLoader"] = "torch"
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind, place in kinds.items():
            with contextlib.ExitStack() as stack:
                took[kind] += _steps(_batches(chain, place, paths, stack), 5 if options.smoke else 150)
    alone = median(took.pop("alone"))
    bars = {"daemon": "<= 1.02"}
    return [
        _row(f"busy Python trainer: step time, {kind}, of alone", median(times) / alone, "ratio", bars.get(kind, "-"))
        for kind, times in took.items()
    ]


def _batches(chain: Pipeline, place: str | None, paths: list[str], stack: contextlib.ExitStack) -> Iterator[Any]:
    """Batches without end; nothing at all when there is no place for them to be made."""
    if place is None:
        return itertools.repeat(None)
    if place == "torch":
        from torch.utils.data import DataLoader

        cores = len(os.sched_getaffinity(0))
        samples: Any = TorchSamples(paths, "pillow")
        peer: Any = DataLoader(
            samples,
            batch_size=16,
            shuffle=True,
            num_workers=cores,
            persistent_workers=True,
            worker_init_fn=lambda _: warnings.simplefilter("ignore"),  # of arrays that are not writable
        )
        return (batch for _ in itertools.count() for batch in peer)
    loader = stack.enter_context(Loader(chain, daemon=place))
    return (batch for _ in itertools.count() for batch in loader)


def _steps(batches: Iterator[Any], count: int) -> list[float]:
    """Milliseconds of each step's own computing."""
    took = []
    for _ in range(count + 5):
        next(batches)
        start = time.perf_counter()
        total = 0
        for number in range(200_000):
            total += number & 7
        took.append((time.perf_counter() - start) * 1000)
    return took[5:]


def _restarting(paths: list[str], socket: str, options: Options) -> list[dict[str, Any]]:
    """From the start of a new daemon, its predecessor killed, to the next batch that it made."""
    took = []
    for _ in range(1 if options.smoke else 5):
        with _serving(socket) as first, Loader(_of_16(paths), daemon=socket, slots=2) as loader:
            sizes = _sizes(loader)
            next(sizes)
            first.kill()
            first.wait()
            start = time.perf_counter()
            with _serving(socket):
                while loader.stats()["reattached"] == 0:
                    next(sizes)
                took.append((time.perf_counter() - start) * 1000)
    return [_row("daemon restart -> next batch", median(took), "ms", "<= 300")]


def _idle(socket: str, options: Options) -> list[dict[str, Any]]:
    with _serving(socket) as daemon:
        time.sleep(0.5)
        before = _switches(daemon.pid)
        seconds = 0.2 if options.smoke else 5.0
        time.sleep(seconds)
        wake_ups = (_switches(daemon.pid) - before) / seconds
        pss = next(line for line in Path(f"/proc/{daemon.pid}/smaps_rollup").read_text().splitlines() if "Pss:" in line)
    return [
        _row("idle: wake-ups", wake_ups, "1/s", "0"),
        _row("idle: proportional set size", int(pss.split()[1]) / 1000, "MB", "<= 20"),
    ]


def _switches(pid: int) -> int:
    """Context switches of all threads so far."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends meanwhile
            total += sum(int(line.split()[1]) for line in status.read_text().splitlines() if "ctxt_switches" in line)
    return total
