"""Cachew's Fig. 6a (how many workers) and Fig. 10 (two jobs with one input pipeline), by Cachew's policy and by the code that
decides in a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from . import cachew, caching

# Fig. 6a: ResNet-50 on 4 V100, batches of 4 x 312, workers of 8 cores. Seconds of an epoch at 1 to 8 workers.
FIG6A_PUBLISHED = (1730, 870, 645, 550, 512, 503, 495, 495)
_IMAGES = 1_281_167
_WORKER_RATE, _MODEL_RATE = 740.0, 2588.0  # images/s, implied by the figure
# Its curve bends before it ends: the mean of this power, fitted to it.
_BEND = 4
_HOST_PRICE, _WORKER_PRICE = 11.44, 0.427319  # $/h: 4 V100 with 32 cores (assumed, list prices), n2-standard-8

# Fig. 10: 640,583 images, batches of 256, trainers that take 100 and 50 ms for one, 10 workers.
_FIG10_IMAGES, _BATCH, _POOL = 640_583, 256, 10
_COMPUTING, _READING = 583.0, 1250.0  # images/s of one of Cachew's workers
_EPOCHS = 4
# Of Cachew, as published: workers over time, read off the figure, so that the sum is right to a tenth.
FIG10_PUBLISHED: dict[str, dict[str, Any]] = {
    "job 1": {"epoch_s": [366, 363, 266, 253], "workers": [3, 3, 2, 2], "worker_s": 2570.0},
    "job 2": {"epoch_s": [158, 129, 129, 129], "workers": [4, 4, 4, 4], "worker_s": 2010.0},
}
_CORES = 8.0  # of a trainer's host that Carya may use, as many as a worker has
_LINK = 2e9 / (2 * 3 * 224 * 224)  # images/s of float16 that 16 Gbit/s bring to one host
_READ_CPU_S = 0.5e-3  # to take one from files, its checksum included
_START_S = 2.5  # from asking for a worker that waits in the pool until it works: half a heartbeat


def _bent(made: float, wanted: float) -> float:
    return wanted * (1 + (wanted / made) ** _BEND) ** (-1 / _BEND) if made > 0 else 0.0


def _least(made: float, wanted: float) -> float:
    return min(made, wanted)


@dataclass
class Line:
    """A job over time: its workers, its epochs."""

    policy: str
    job: str
    epoch_s: list[float] = field(default_factory=list)
    moments: list[tuple[float, int]] = field(default_factory=list)  # (second, workers) at each change
    worker_s: float = 0.0
    modes: list[str] = field(default_factory=list)

    def changes(self) -> int:
        """Of the workers, after the start; a first worker that is measured alone is a trial and none."""
        return max(0, len(self.moments) - 1)

    def run(self, now_s: float, workers: int) -> None:
        self.worker_s += workers
        if not self.moments or self.moments[-1][1] != workers:
            self.moments.append((now_s, workers))

    def report(self) -> dict[str, Any]:
        return {
            "policy": self.policy, "job": self.job, "epoch_s": self.epoch_s, "worker_s": self.worker_s, "changes": self.changes(),
            "workers": self.moments[-1][1] if self.moments else 0, "moments": self.moments, "modes": self.modes,
        }  # fmt: skip


class _Trainer:
    """What a trainer takes, by a rate; its epochs."""

    def __init__(self, line: Line, images: float, demand: float, epochs: int) -> None:
        self.line, self.demand, self.epochs = line, demand, epochs
        self._images = images
        self.made = 0.0
        self._began_s: float | None = None

    @property
    def epoch(self) -> int:
        return len(self.line.epoch_s)

    @property
    def ended(self) -> bool:
        return self.epoch >= self.epochs

    def second(self, now_s: float, rate: float) -> bool:
        """Whether an epoch ended in it."""
        if self._began_s is None:
            self._began_s = now_s
        self.made += rate
        if self.made < self._images:
            return False
        at = now_s + 1 - (self.made - self._images) / rate
        self.line.epoch_s.append(at - self._began_s)
        self._began_s, self.made = at, self.made - self._images
        return True


class CachewJob:
    """A job of Cachew's: no sample is made on its host."""

    def __init__(
        self, job: str, demand: float, modes: list[str], images: float, rates: dict[str, float], workers_max: int
    ) -> None:
        self.line = Line("Cachew", job, modes=modes)
        self.trainer = _Trainer(self.line, images, demand, len(modes))
        self.scaling = cachew.Scaling(workers_max=workers_max)
        self._rates = rates
        self._left = float(self.scaling.left_out)
        self._elements = self._seconds = 0.0
        self._ready_s = 0.0

    def second(self, now_s: float) -> None:
        mode = self.trainer.line.modes[self.trainer.epoch]
        workers = self.scaling.workers
        rate = _least(workers * self._rates[mode], self.trainer.demand)
        self.line.run(now_s, workers)
        if self.trainer.second(now_s, rate):
            if not self.trainer.ended and self.line.modes[self.trainer.epoch] != mode:
                self.scaling.restart()
                self._left, self._elements, self._seconds = float(self.scaling.left_out), 0.0, 0.0
            return
        elements = rate / _BATCH
        if self._left > 0:
            self._left -= elements
            return
        self._elements += elements
        self._seconds += 1
        if self._elements >= self.scaling.report:
            self.scaling.take(self._seconds / self._elements)
            self._elements = self._seconds = 0.0
            if self.scaling.workers != workers:
                self._left = float(self.scaling.left_out)


class CaryaJob:
    """A job of Carya's: its host's cores first, workers for what they cannot do; later epochs from what is kept."""

    def __init__(
        self, job: str, demand: float, images: float, epochs: int, *, filled: bool, local_s: float, worker_s: float, keeps: bool = True,
        cores: float = _CORES, host_price: float = _HOST_PRICE, meet: Callable[[float, float], float] = _least,
    ) -> None:  # fmt: skip
        self.line = Line("Carya", job)
        self.trainer = _Trainer(self.line, images, demand, epochs)
        self._filled, self._keeps, self._local_s, self._worker_s = filled, keeps, local_s, worker_s
        self._cores, self._meet = cores, meet
        model = {
            "local_cpu_s": local_s,
            "host_cpu_s": 1e-4,
            "worker_cpu_s": worker_s,
            "cores": cores,
            "worker_cores": 8.0,
        }
        self.controller = _core.SimulatedController(model, host_price, _WORKER_PRICE, _POOL, _START_S)
        self.workers = 0
        self._ready: list[float] = []  # when each of them works

    def second(self, now_s: float) -> None:
        kept = self._filled or (self._keeps and self.trainer.epoch > 0)
        local_s = _READ_CPU_S if kept else self._local_s
        while len(self._ready) < self.workers:
            self._ready.append(now_s + _START_S)
        del self._ready[self.workers :]
        ready = sum(at <= now_s for at in self._ready)
        local = min(self._cores / local_s, _LINK if kept else float("inf"))
        remote = ready * 8.0 / self._worker_s
        rate = self._meet(local + remote, self.trainer.demand)
        here = min(local, rate)
        there = rate - here
        if ready and not there:
            there = 1.0  # a first worker gets work in any case
        self.line.run(now_s, self.workers)
        if self.trainer.second(now_s, rate) and self.trainer.ended:
            return
        seen = {
            "seconds": 1.0, "samples": rate, "demand": self.trainer.demand, "stall_s": max(0.0, 1 - rate / self.trainer.demand),
            "local_samples": here, "local_thread_s": here * local_s, "remote_samples": there, "remote_host_s": there * 1e-4,
            "worker_thread_s": there * self._worker_s, "workers_ready": ready,
        }  # fmt: skip
        self.workers = self.controller.observe(seen, now_s + 1)["workers"]


def fig6a() -> dict[str, Any]:
    """Workers and epochs: what was published, the world that stands for it, where Cachew's policy and ours end."""
    world = [_IMAGES / _bent(count * _WORKER_RATE, _MODEL_RATE) for count in range(1, 9)]
    steps = list(cachew.settled({count: _bent(count * _WORKER_RATE, _MODEL_RATE) for count in range(1, 9)}, 4 * 312))
    job = CaryaJob(
        "job",
        _MODEL_RATE,
        _IMAGES,
        2,
        filled=False,
        local_s=1.0,
        worker_s=8 / _WORKER_RATE,
        cores=1.0,
        meet=_bent,
        keeps=False,
    )
    now_s = 0
    while now_s < 1200:
        job.second(now_s)
        now_s += 1
    ours = job.line.moments[-1][1]
    return {
        "published_s": list(FIG6A_PUBLISHED),
        "world_s": world,
        "cachew": steps[-1][0],
        "kubernetes": 1,
        "carya": ours,
        "carya_moments": job.line.moments,
        "cost": [(_HOST_PRICE + count * _WORKER_PRICE) * seconds / 3600 for count, seconds in enumerate(world, 1)],
    }


def fig10() -> dict[str, Any]:
    """Both jobs by both policies, and the bars of the comparison."""
    demands = {"job 1": _BATCH / 0.1, "job 2": _BATCH / 0.05}
    ideal = {job: _FIG10_IMAGES / demand for job, demand in demands.items()}
    lines = [line.report() for line in (*_cachew_fig10(demands), *_carya_fig10(demands))]
    total: dict[str, float] = {}
    for line in lines:
        total[line["policy"]] = total.get(line["policy"], 0.0) + line["worker_s"]
    total["published"] = sum(one["worker_s"] for one in FIG10_PUBLISHED.values())
    return {"ideal_s": ideal, "published": FIG10_PUBLISHED, "lines": lines, "worker_s": total}


def fig10_by_cachew(of_trainer: float) -> tuple[float, float]:
    """Fig. 10 by Cachew's policy in a world where one worker makes that share of what job 1's trainer takes, and reads in the
    published proportion: worker-seconds of both jobs, and how long job 1's epoch would be."""
    demands = {"job 1": _BATCH / 0.1, "job 2": _BATCH / 0.05}
    lines = _cachew_fig10(demands, computing=of_trainer * demands["job 1"])
    return sum(line.worker_s for line in lines), _FIG10_IMAGES / demands["job 1"]


def _cachew_fig10(demands: dict[str, float], computing: float = _COMPUTING) -> Iterator[Line]:
    rates = {"profile": computing, "put": computing, "get": computing * _READING / _COMPUTING}
    first = CachewJob("job 1", demands["job 1"], cachew.modes("full", _EPOCHS), _FIG10_IMAGES, rates, _POOL)
    second = CachewJob("job 2", demands["job 2"], ["get"] * _EPOCHS, _FIG10_IMAGES, rates, _POOL)
    return _together(first, second)


def _carya_fig10(demands: dict[str, float]) -> Iterator[Line]:
    cpu_s = 8 / _COMPUTING
    first = CaryaJob("job 1", demands["job 1"], _FIG10_IMAGES, _EPOCHS, filled=False, local_s=cpu_s, worker_s=cpu_s)
    second = CaryaJob("job 2", demands["job 2"], _FIG10_IMAGES, _EPOCHS, filled=True, local_s=cpu_s, worker_s=cpu_s)
    return _together(first, second)


def _together(first: Any, second: Any) -> Iterator[Line]:
    """The second job begins with the third epoch of the first one. They share the pool by what is decided for hosts."""
    now_s = 0
    while not (first.trainer.ended and second.trainer.ended):
        running = [first] if not first.trainer.ended else []
        if first.trainer.epoch >= 2 and not second.trainer.ended:
            running.append(second)
        if len(running) == 2 and isinstance(first, CaryaJob):
            given = _core.share_workers([job.controller for job in running], _POOL)
            spare = _POOL - sum(given)  # what nobody needs may be used by whoever comes to need it
            for job, count in zip(running, given, strict=True):
                job.controller.set_workers_max(count + spare // 2)
        for job in running:
            job.second(now_s)
        now_s += 1
    yield first.line
    yield second.line


def ours_keeps() -> str:
    """What the code that decides keeps of Fig. 10's pipeline under `.reuse_augmentation(epochs=4)`: after all of it."""
    record, finished, cpu_s = 110e3, 2 * 3 * 224 * 224.0, 8 / _COMPUTING
    rate = 5 * caching.FULL_CACHE_RATE
    kept = (
        caching.Kept("source", 0, cpu_s, record, fetch_s=record / rate, put_s=record / rate),
        caching.Kept("full", cpu_s, 0, finished, copy_s=_READ_CPU_S, fetch_s=finished / rate, put_s=finished / rate),
    )
    world = caching.Caching("Fig. 10", cpu_s, record / 10e9, _CORES, _FIG10_IMAGES, _EPOCHS, kept)
    place = caching.ours(world)
    return "nothing" if place is None else kept[place].name
