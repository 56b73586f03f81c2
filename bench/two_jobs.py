#!/usr/bin/env python3
"""Cachew's Fig. 10 for real, scaled to two cores: two jobs with one input pipeline, one caryad, workers, samples kept.

Job 2 takes twice what job 1 takes, and begins with its third epoch; the host makes less than job 1 wants. Ceiling: trainers
that never wait. Bars: each first epoch at most 1.05 of its ideal, at most 3 changes each, workers not begun anew when epochs
are served from what is kept, worker-seconds at most 0.7 of what Cachew's policy takes (simulated, in the same ratios), all
batches those of a run alone. Network namespaces are the machines, groups with a share of the CPU their cores (overflow.py); a
weight keeps what else the machine does from them, as far as it can. A trainer shares its host's group, and wakes late where
that has used its share: its device has a step in hand, so that only waits for batches, and what is later than a step, hold it
up. Needs what overflow.py needs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from overflow import PRICES, Bench, World, machines
from trainer import EVERY_S, Digest, Trainer

import carya
from carya import _core, _programs
from carya._simulate import pool

HOST_CORES, WORKER_CORES, WORKERS = 0.3, 0.15, 3
WEIGHT = 20_000  # of the groups, where a task has 1,024
DEMAND = 1.8  # of job 1, in what the host makes alone; job 2 takes twice that
EPOCHS, JOIN = 4, 2  # job 2 begins when so many epochs of job 1 are over
ROWS, SIDE = 32, 96
KEPT = {"memory": "2GB"}
MARKED = {**KEPT, "after": "resize#1"}  # Cachew's user marks the place, too
WITHIN, CHANGES_MAX, OF_CACHEW = 1.05, 3, 0.7


def pipeline(photos: list[str]) -> carya.Pipeline:
    """What is dear comes before what is random, so that it can be kept: 27 KB a sample."""
    chain = carya.files(photos).shuffle(seed=11).decode_image().resize((448, 448)).resize((SIDE, SIDE))
    return chain.random_horizontal_flip().batch(ROWS)


def train(task: dict[str, Any]) -> None:
    """A job, as a process: a line of JSON now and then, and one with all digests at its end."""
    digest = Digest()
    photos = sorted(str(path) for path in Path(task["folder"]).iterdir())
    step_s, samples, waited_s, not_once = task["step_s"], 0, 0.0, 0
    epochs: list[float] = []
    with carya.Loader(pipeline(photos), epochs=task["epochs"], **task["loader"]) as loader:
        begin = said = time.monotonic()

        def say(**more: Any) -> None:
            state = {"at_s": time.monotonic() - begin, "samples": samples, "waited_s": waited_s, "epochs": epochs}
            print(json.dumps({**state, "placement": loader.placement(), **more}), flush=True)

        busy_until = asked = begin  # of the device, which has a step in hand
        for _ in range(task["epochs"]):
            epoch_s, seen = busy_until, []
            for batch in loader:
                came = time.monotonic()
                waited_s += came - asked
                busy_until = max(busy_until + came - asked, came - step_s) + step_s
                seen += batch.records.tolist()
                samples += len(batch.records)
                digest.add(batch)
                if time.monotonic() - said >= EVERY_S:
                    said = time.monotonic()
                    say()
                time.sleep(max(0.0, busy_until - time.monotonic()))
                asked = time.monotonic()
            epochs.append(busy_until - epoch_s)
            not_once += sorted(seen) != list(range(len(photos)))
            say()
        kept = loader.stats().get("cache")
        say(digests=digest.all, not_once=not_once, kept=kept)


@dataclass
class Job:
    """What a job showed."""

    name: str
    ideal_s: float
    epoch_s: list[float] = field(default_factory=list)
    changes: int = 0  # of the number of workers, after the first one was measured
    begun_anew: int = 0  # how often workers came back after some had gone
    worker_s: float = 0.0
    moments: list[tuple[float, int]] = field(default_factory=list)  # (s since it began, workers) at each change
    waited: float = 0.0  # share of the time
    same_bits: bool = False
    once: bool = False
    kept: str = ""  # what its samples are kept behind, how many, how many were found

    @property
    def of_ideal(self) -> float:
        return self.epoch_s[0] / self.ideal_s


def running(line: dict[str, Any]) -> int:
    """Workers that it uses."""
    now = line["placement"].get("running")
    return int(now["workers"]) if now else 0


def begun_anew(workers: list[int]) -> int:
    """How often they came back after some had gone.

    >>> begun_anew([0, 3, 2, 0, 0]), begun_anew([0, 2, 1, 2, 0, 1])
    (0, 2)
    """
    ways = [b > a for a, b in itertools.pairwise(workers) if a != b]
    return sum(up and not before for before, up in itertools.pairwise(ways))


def judge(job: Job, trainer: Trainer, digests: list[int]) -> None:
    last = trainer.lines[-1]
    job.epoch_s = [round(seconds, 2) for seconds in last["epochs"]]
    job.waited = last["waited_s"] / last["at_s"]
    before: dict[str, Any] | None = None
    answers = []
    for line in trainer.lines:
        if before is not None:
            job.worker_s += running(before) * (line["at_s"] - before["at_s"])
        if not job.moments or job.moments[-1][1] != running(line):
            job.moments.append((round(line["at_s"], 1), running(line)))
        if line["placement"].get("phase") not in ("measuring", "first worker"):
            answers.append(running(line))
        before = line
    job.changes = sum(a != b for a, b in itertools.pairwise(answers))
    job.begun_anew = begun_anew(answers)
    job.same_bits = last["digests"] == digests[: len(last["digests"])] and bool(last["digests"])
    job.once = last["not_once"] == 0
    kept = last["kept"] or {}
    job.kept = (
        f"after {kept.get('after')}: {kept.get('records')} kept, {kept.get('hits')} of {kept.get('looked')} found"
    )


class Fig10:
    """The world, its daemon, and its two jobs."""

    def __init__(self, bench: Bench, scratch: Path, epoch_s: float, kept: dict[str, str]) -> None:
        self._bench, self._scratch, self._epoch_s, self._kept = bench, scratch, epoch_s, kept

    def task(self, folder: Path, epochs: int, step_s: float = 0.0, **loader: Any) -> dict[str, Any]:
        return {"folder": str(folder), "epochs": epochs, "step_s": step_s, "loader": loader}

    def trainer(self, inside: Callable[..., list[str]], task: dict[str, Any]) -> Trainer:
        return Trainer(lambda python, _, text: inside(python, __file__, "--job", text), task, self._bench.env)

    def done(self, inside: Callable[..., list[str]], task: dict[str, Any]) -> Trainer:
        trainer = self.trainer(inside, task)
        try:
            trainer.until(lambda line: "digests" in line, 1800)
        finally:
            trainer.kill()
        return trainer

    def rate(self, world: World, folder: Path, cores: float) -> float:
        """Samples/s of so many cores, computing all: of the host, whose share is set for it."""
        world.machines.host.set_cores(cores)
        trainer = self.trainer(world.machines.host.inside, self.task(folder, 1000, daemon="embedded", threads=1))
        try:
            first = trainer.until(lambda line: line["samples"] >= 2 * ROWS, 300)
            last = trainer.until(lambda line: line["at_s"] >= first["at_s"] + self._bench.hold_s, 300)
        finally:
            trainer.kill()
            world.machines.host.set_cores(HOST_CORES)
        return float((last["samples"] - first["samples"]) / (last["at_s"] - first["at_s"]))

    def records(self, count: int) -> Path:
        """A folder of so many files, each with a name of its own."""
        photos = [shutil.copy(path, self._scratch / f"photo{i}.jpg") for i, path in enumerate(self._bench.photos)]
        folder = self._scratch / f"records-{count}"
        folder.mkdir()
        for number in range(count):
            os.link(photos[number % len(photos)], folder / f"{number:06d}.jpg")
        return folder

    def play(self) -> tuple[list[Job], dict[str, float]]:
        with World(self._bench, workers=WORKERS, cores=WORKER_CORES, host_cores=HOST_CORES) as world:
            for machine in (world.machines.host, *world.machines.workers):
                machine.set_weight(WEIGHT)
            few = self.records(len(self._bench.photos))
            alone, worker = (self.rate(world, few, cores) for cores in (HOST_CORES, WORKER_CORES))
            step_s = ROWS / (DEMAND * alone)
            batches = max(2, round(self._epoch_s / step_s))
            folder = self.records(batches * ROWS)
            host = world.machines.host
            host.set_cores(os.cpu_count() or 1)
            alone_task = self.task(folder, EPOCHS, daemon="embedded", cache=MARKED)
            digests = self.done(host.inside, alone_task).lines[-1]["digests"]
            host.set_cores(HOST_CORES)
            jobs = self.jobs(world, folder, batches * step_s, step_s, digests)
        cachew_s, cachew_epoch_s = pool.fig10_by_cachew(worker / (DEMAND * alone))
        figures = {
            "alone": alone,
            "worker": worker,
            "records": float(batches * ROWS),
            "worker_s": sum(job.worker_s for job in jobs),
            "cachew_worker_s": cachew_s * jobs[0].ideal_s / cachew_epoch_s,
        }
        return jobs, figures

    def jobs(self, world: World, folder: Path, ideal_s: float, step_s: float, digests: list[int]) -> list[Job]:
        socket, config = self._scratch / "caryad.sock", self._scratch / "caryad.toml"
        config.write_text(
            f'roots = ["/"]\n[remote]\nworkers = {json.dumps(world.addresses())}\ninsecure = true\n'
            f'host_price = {PRICES["host"]}\nworker_price = {PRICES["worker"]}\n[cache]\nmemory = "2GB"\n'
        )
        daemon = subprocess.Popen(
            world.machines.host.inside(_programs.program(), "--socket", str(socket), "--config", str(config)),
            env=self._bench.env,
            stderr=subprocess.DEVNULL,
        )
        found = [Job("job 1", ideal_s), Job("job 2", ideal_s / 2)]
        trainers: list[Trainer] = []
        try:
            while not _core.daemon_listens(str(socket)):
                time.sleep(0.05)

            def begin(job: str, step_s: float) -> Trainer:
                loader = {"daemon": str(socket), "job": job, "threads": 1, "cache": self._kept}
                trainers.append(self.trainer(world.machines.host.inside, self.task(folder, EPOCHS, step_s, **loader)))
                return trainers[-1]

            first = begin("one", step_s)
            first.until(lambda line: len(line["epochs"]) >= JOIN, 1800)
            second = begin("two", step_s / 2)
            for trainer in (first, second):
                trainer.until(lambda line: "digests" in line, 1800)
        finally:
            for trainer in trainers:
                trainer.kill()
            daemon.kill()
            daemon.wait()
        for job, trainer in zip(found, (first, second), strict=True):
            judge(job, trainer, digests)
        return found


def report(jobs: list[Job], figures: dict[str, float]) -> bool:
    """Whether all bars are kept."""
    print(f"{'job':6} {'ideal':>7} {'epochs':>32} {'first/ideal':>11} {'changes':>7} {'worker-s':>9} {'waits':>7}")
    for job in jobs:
        epochs = " ".join(f"{seconds:7.2f}" for seconds in job.epoch_s)
        print(
            f"{job.name:6} {job.ideal_s:6.1f}s {epochs:>32} {job.of_ideal:11.3f} {job.changes:7} {job.worker_s:9.1f} "
            f"{100 * job.waited:5.1f} %{'' if job.same_bits and job.once else '  OTHER BITS'}  {job.moments} {job.kept}"
        )
    of_cachew = figures["worker_s"] / figures["cachew_worker_s"]
    load = os.getloadavg()[1]
    bars = {
        f"first epochs within {WITHIN}": all(job.of_ideal <= WITHIN for job in jobs),
        f"at most {CHANGES_MAX} changes": all(job.changes <= CHANGES_MAX for job in jobs),
        "no workers begun anew": all(job.begun_anew == 0 for job in jobs),
        f"worker-seconds within {OF_CACHEW} of Cachew's": of_cachew <= OF_CACHEW,
        "the bits of a run alone": all(job.same_bits and job.once for job in jobs),
    }
    print(
        f"host alone {figures['alone']:.1f}/s, a worker {figures['worker']:.1f}/s; {figures['records']:.0f} records; "
        f"worker-seconds {figures['worker_s']:.0f} of Cachew's {figures['cachew_worker_s']:.0f}: {of_cachew:.3f}; load {load:.1f}; "
        + "; ".join(f"{bar}: {'yes' if met else 'no'}" for bar, met in bars.items())
    )
    print(json.dumps({"bench": "two_jobs", "jobs": [asdict(job) for job in jobs], **figures, "load": load}))
    return all(bars.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epoch", type=float, default=80, help="seconds of job 1's ideal epoch (default 80)")
    parser.add_argument("--unmarked", action="store_true", help="each job chooses by itself where samples are kept")
    parser.add_argument("--data", help="a folder of JPEGs (default: those of $CARYA_TEST_DATA)")
    parser.add_argument("--smoke", action="store_true", help="epochs of a second; its figures mean nothing")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        train(json.loads(options.job))
        return 0
    refused = machines.refused(shares=True)
    if refused:
        print(f"two_jobs: left out: {refused}")
        return 0
    options.seconds = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options, Path(scratch))
        epoch_s = 1.0 if options.smoke else options.epoch
        jobs, figures = Fig10(bench, Path(scratch), epoch_s, KEPT if options.unmarked else MARKED).play()
    kept = report(jobs, figures)
    # The figures of a smoke run mean nothing, but for its bits.
    return 0 if kept or (options.smoke and all(job.same_bits and job.once for job in jobs)) else 1


if __name__ == "__main__":
    sys.exit(main())
