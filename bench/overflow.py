#!/usr/bin/env python3
"""Real loaders with real workers on one machine cut into several: is the decision right, and what do faults do?

Network namespaces behind a switch are the machines, groups with a share of the CPU their cores, tbf their link. In each case
the stream must be the local run's to the bit, each record once an epoch. Ceiling: the best of an exhaustive measured sweep
over workers and cuts; the decision's cost per sample must be at most 1.05 of it, with at most 3 changes, within 30 s. Needs
root, `ip`, `tc` and cgroup v1; says so and ends well where they are missing. The machine must have nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))

import machines  # noqa: E402
import proxies  # noqa: E402
from trainer import Trainer  # noqa: E402

from carya import _programs  # noqa: E402
from carya._bench.photos import find_photos, warm  # noqa: E402
from carya._bench.report import Options  # noqa: E402

PRICES = {"host": 4.96, "worker": 0.427319}
STALL_MAX = 0.02
PORT, PROXY_PORT = 7070, 7071
HOST_CORES, WORKER_CORES = 0.4, 0.15  # of a core: all together less than a shared machine gives for long


@dataclass
class Result:
    """What a case showed. Times in s since the trainer's start, or since what befell it."""

    case: str
    workers: int = 0
    ops_remote: int = 0
    changes: int = 0
    answered_s: float = 0.0  # since when it runs as it did in the end
    settled_s: float | None = None
    rate: float = 0.0  # samples/s, of the last seconds
    stall: float = 0.0  # share of the time, of the last seconds
    longest_wait_s: float = 0.0  # after what befell it
    same_bits: bool = False
    once: bool = False
    cost: float = 0.0  # $ per million
    of_best: float | None = None  # the cost over that of the sweep's best
    choice_of_best: float | None = None  # the same of the sweep's own figure for this choice
    best: str = ""
    more: dict[str, Any] = field(default_factory=dict)


class Bench:
    """What the cases share: photos, their caches, the stream that a local run has."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.smoke: bool = options.smoke
        self.hold_s = 0.5 if self.smoke else 8.0  # what rates are taken over
        self.limit_s = 6.0 if self.smoke else options.seconds
        self.photos = find_photos(Options(smoke=self.smoke, data=options.data), scratch)
        warm(self.photos)
        self.env = {**os.environ, "CARYA_CACHE_DIR": str(scratch / "cache")}
        self._local: dict[str, list[int]] = {}
        self.local({}, 2 * len(self.photos) // 32)  # decode indexes are made by now

    def local(self, pipeline: dict[str, Any], batches: int) -> list[int]:
        """The digests of so many batches of a loader without workers, on the whole machine."""
        key = json.dumps(pipeline)
        if len(self._local.get(key, [])) < batches:
            task = {"photos": self.photos, "pipeline": pipeline, "loader": {}, "batches": batches + 200}
            trainer = Trainer(lambda *command: list(command), task, self.env)
            try:
                self._local[key] = trainer.until(lambda line: "digests" in line, 600)["digests"]
            finally:
                trainer.kill()
        return self._local[key][:batches]


class World:
    """The machines of one case, their workers, and trainers that come and go."""

    def __init__(
        self,
        bench: Bench,
        workers: int = 2,
        cores: float | list[float] = WORKER_CORES,
        corrupt_every: int = 0,
        host_cores: float = HOST_CORES,
        **pipeline: Any,
    ) -> None:
        self.bench = bench
        self.pipeline = pipeline
        self._corrupt_every = corrupt_every
        self._proxies: list[subprocess.Popen[bytes]] = []
        self.machines = machines.Machines(workers, host_cores, cores)
        self.workers: list[subprocess.Popen[bytes] | None] = [None] * workers
        self._trainers: list[Trainer] = []

    def __enter__(self) -> World:
        self.machines.__enter__()
        for number in range(len(self.workers)):
            self.start_worker(number)
        for machine in self.machines.workers if self._corrupt_every else ():
            way = (machine.address, str(PROXY_PORT), str(PORT), str(self._corrupt_every))
            self._proxies.append(subprocess.Popen(machine.inside(sys.executable, proxies.__file__, *way)))
        return self

    def __exit__(self, *error: Any) -> None:
        for running in (*self._trainers, *self._proxies):
            running.kill()
        for proxy in self._proxies:
            proxy.wait()
        for number in range(len(self.workers)):
            self.kill_worker(number)
        self.machines.__exit__(*error)

    def start_worker(self, number: int) -> None:
        machine = self.machines.workers[number]
        program = (_programs.program("carya-worker"), "--listen", f"0.0.0.0:{PORT}", "--insecure", "--threads", "1")
        program += ("--op", self.pipeline["burn"]) if "burn" in self.pipeline else ()
        self.workers[number] = subprocess.Popen(machine.inside(*program), stderr=subprocess.DEVNULL)

    def kill_worker(self, number: int) -> None:
        worker = self.workers[number]
        if worker is not None:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        self.workers[number] = None

    def addresses(self) -> list[str]:
        port = PROXY_PORT if self._corrupt_every else PORT
        return [f"{machine.address}:{port}" for machine in self.machines.workers]

    def trainer(self, step_s: float = 0.0, **loader: Any) -> Trainer:
        common = {"remote": self.addresses(), "prices": PRICES, "threads": 1, "remote_tls": {"insecure": True}}
        options = {**common, **loader}
        task = {"photos": self.bench.photos, "pipeline": self.pipeline, "loader": options, "step_s": step_s}
        self._trainers.append(Trainer(self.machines.host.inside, task, self.bench.env))
        return self._trainers[-1]

    def finish(self, trainer: Trainer, result: Result) -> dict[str, Any]:
        """Ends it; judges its stream."""
        last = trainer.end()
        self._trainers.remove(trainer)
        digests = last["digests"]
        result.same_bits = result.same_bits and digests == self.bench.local(self.pipeline, len(digests))
        result.once = result.once and last["not_once"] == 0
        return last

    def fixed(
        self, seconds: float, result: Result, placement: Any, step_s: float, **loader: Any
    ) -> tuple[float, float]:
        """Rate and stall of a placement that is not decided."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            if not isinstance(placement, str):
                json.dump(placement, file)
                file.flush()
                placement = f"frozen:{file.name}"
            trainer = self.trainer(step_s, placement=placement, **loader)
            trainer.until(lambda line: line["at_s"] > 3, 300)  # workers are welcomed, and work
            watch(trainer, seconds)
            self.finish(trainer, result)
        return rate_and_stall(trainer, seconds)


def watch(trainer: Trainer, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        trainer.read(left)


def rate_and_stall(trainer: Trainer, seconds: float) -> tuple[float, float]:
    last = trainer.lines[-1]
    first = next(line for line in trainer.lines if line["at_s"] >= last["at_s"] - seconds)
    took = max(1e-9, last["at_s"] - first["at_s"])
    return (last["samples"] - first["samples"]) / took, (last["waited_s"] - first["waited_s"]) / took


def cost(rate: float, workers: int) -> float:  # $ per million samples
    return (PRICES["host"] + workers * PRICES["worker"]) / 3600 / max(rate, 1e-9) * 1e6


def answer(line: dict[str, Any]) -> tuple[int, int]:
    """Workers and how many ops they run."""
    running = line["placement"].get("running") or {"workers": 0, "ops_remote": 0}
    return running["workers"], running["ops_remote"] if running["workers"] else 0


def settle(world: World, trainer: Trainer, result: Result) -> None:
    """Waits until it is settled, at most for the limit; then for as long as rates are taken over."""
    end = time.monotonic() + world.bench.limit_s
    while result.settled_s is None and (left := end - time.monotonic()) > 0:
        line = trainer.read(left)
        if line and line["placement"]["phase"] == "settled":
            result.settled_s = line["at_s"]
    watch(trainer, world.bench.hold_s)
    judge(trainer, result, world.bench.hold_s)


def judge(trainer: Trainer, result: Result, seconds: float, since_s: float = 0.0) -> None:
    """What it runs as, since when, and how fast."""
    last = trainer.lines[-1]
    result.workers, result.ops_remote = answer(last)
    other = [
        line["at_s"]
        for line in trainer.lines
        if answer(line) != answer(last) or line["placement"]["phase"] == "first worker"
    ]
    result.answered_s = max(0.0, max(other, default=since_s) - since_s)
    result.changes = max(line["placement"].get("changes", 0) for line in trainer.lines)
    result.rate, result.stall = rate_and_stall(trainer, seconds)
    result.cost = cost(result.rate, result.workers)
    history = [(line["at_s"], line["placement"]["phase"], *answer(line)) for line in trainer.lines]
    result.more["history"] = [
        f"{now[0]:.1f} s {now[1]}, {now[2]} workers, {now[3]} ops"
        for before, now in zip([(0, "", -1, -1), *history], history, strict=False)
        if now[1:] != before[1:]
    ]


# The decision ----------------------------------------------------------------------------------------------------------


Rates = dict[tuple[int, int], list[tuple[float, float]]]  # and stalls, of (workers, ops that they run)


def sweep(world: World, result: Result, cuts: list[int], step_s: float) -> None:
    """Every number of workers at every cut, measured; those that might be the best and the result's choice in turns again."""
    frozen = result.more.pop("frozen")
    found: Rates = {}

    def measure(choice: tuple[int, int]) -> None:
        placement = {**frozen, "workers": choice[0], "ops_remote": choice[1]} if choice[0] else "local"
        found.setdefault(choice, []).append(world.fixed(world.bench.hold_s, result, placement, step_s))

    for workers in range(len(world.workers) + 1):
        for cut in cuts if workers else [0]:
            measure((workers, cut))
    ours = (result.workers, result.ops_remote)
    near = 1.15 * costs(found)[cheapest(found)]
    finalists = [choice for choice, each in costs(found).items() if each <= near and fits(found, choice)]
    for _ in range(0 if world.bench.smoke else 2):
        for choice in {*finalists[:4], cheapest(found), ours}:
            measure(choice)
    best = cheapest(found)
    least = costs(found)[best]
    rate, stall = middle(found[best])
    result.best = f"{best[0]} workers, {best[1]} ops: {rate:.0f}/s, waits {100 * stall:.1f} %"
    result.of_best = result.cost / least
    result.choice_of_best = costs(found)[ours] / least
    result.more["sweep"] = {
        f"{n} workers, {cut} ops": [[round(r, 1), round(s, 4)] for r, s in each] for (n, cut), each in found.items()
    }


def middle(measured: list[tuple[float, float]]) -> tuple[float, float]:
    """The medians of rate and stall."""
    return statistics.median(rate for rate, _ in measured), statistics.median(stall for _, stall in measured)


def costs(found: Rates) -> dict[tuple[int, int], float]:
    return {choice: cost(middle(measured)[0], choice[0]) for choice, measured in found.items()}


def fits(found: Rates, choice: tuple[int, int]) -> bool:
    """It is among those that the goal allows: a trainer that waits little, if that can be had."""
    some = [each for each in found if middle(found[each])[1] <= STALL_MAX]
    return not some or choice in some


def cheapest(found: Rates) -> tuple[int, int]:
    return min((choice for choice in found if fits(found, choice)), key=lambda choice: costs(found)[choice])


def steady(name: str, demand: float | None, link: float = 0, **world: Any) -> Callable[[Bench], Result]:
    """A case in which nothing changes. demand: of the trainer, as a multiple of what the host makes; None: all it gets.
    link: bytes/s."""

    def run(bench: Bench) -> Result:
        result = Result(name, same_bits=True, once=True)
        with World(bench, **world) as made:
            if link:
                made.machines.shape(link)
            step_s = 32 / (demand * made.fixed(bench.hold_s, result, "local", 0.0)[0]) if demand else 0.0
            trainer = made.trainer(step_s)
            settle(made, trainer, result)
            last = made.finish(trainer, result)
            result.more |= {"frozen": last["frozen"], "step_s": step_s, "why": last["placement"]["why"]}
            cuts = sorted({cut["ops_remote"] for cut in last["placement"].get("cuts", [])})
            sweep(made, result, cuts[-1:] if bench.smoke else cuts, step_s)
        return result

    return run


# What befalls it -------------------------------------------------------------------------------------------------------

Deed = Callable[[World, Trainer, Result], None]


def befallen(
    name: str, deed: Deed, demand: float | None = None, other_answer: bool = False, **world: Any
) -> Callable[[Bench], Result]:
    """A case in which, once it has settled, something is done to it; and what it does then. other_answer: another
    placement may be the best then, which a sweep tells."""

    def run(bench: Bench) -> Result:
        result = Result(name, same_bits=True, once=True)
        with World(bench, **world) as made:
            alone = made.fixed(bench.hold_s, result, "local", 0.0)[0]
            step_s = 32 / (demand * alone) if demand else 0.0
            trainer = made.trainer(step_s)
            settle(made, trainer, result)
            before = [*answer(trainer.lines[-1]), round(result.rate, 1)]
            result.more |= {"alone": alone, "before": before, "step_s": step_s}
            at = len(trainer.lines)
            since_s = trainer.lines[-1]["at_s"]
            deed(made, trainer, result)
            judge(trainer, result, bench.hold_s, since_s)
            result.longest_wait_s = max(line["longest_wait_s"] for line in trainer.lines[at:])
            last = made.finish(trainer, result)
            if other_answer:
                result.more["frozen"] = last["frozen"]
                cuts = sorted({cut["ops_remote"] for cut in last["placement"].get("cuts", [])})
                sweep(made, result, cuts, result.more["step_s"])
        return result

    return run


def rate_now(trainer: Trainer, result: Result, name: str, seconds: float) -> None:
    watch(trainer, seconds)
    rate, stall = rate_and_stall(trainer, seconds)
    result.more[name] = [*answer(trainer.lines[-1]), round(rate, 1), round(stall, 3)]


def kill_one_often(world: World, trainer: Trainer, result: Result) -> None:
    for _ in range(1 if world.bench.smoke else 8):
        world.kill_worker(0)
        world.start_worker(0)
        watch(trainer, 2)
    rate_now(trainer, result, "afterwards", world.bench.hold_s)


def kill_all(world: World, trainer: Trainer, result: Result) -> None:
    for number in range(len(world.workers)):
        world.kill_worker(number)
    rate_now(trainer, result, "without", world.bench.hold_s)
    for number in range(len(world.workers)):
        world.start_worker(number)
    watch(trainer, world.bench.hold_s)
    rate_now(trainer, result, "again", world.bench.hold_s)


def half_open(world: World, trainer: Trainer, result: Result) -> None:
    world.machines.cut(world.machines.workers[0])
    rate_now(trainer, result, "half open", 2 * world.bench.hold_s)


def cut_link(world: World, trainer: Trainer, result: Result) -> None:
    world.machines.cut(world.machines.host)
    rate_now(trainer, result, "cut", 2 if world.bench.smoke else 10)
    world.machines.mend(world.machines.host)
    watch(trainer, world.bench.hold_s)
    rate_now(trainer, result, "again", world.bench.hold_s)


def wait(world: World, trainer: Trainer, result: Result) -> None:
    watch(trainer, 2 * world.bench.hold_s)
    result.more["events"] = trainer.lines[-1]["placement"].get("events", [])[-3:]


def three_times_faster(world: World, trainer: Trainer, result: Result) -> None:
    result.more["step_s"] /= 3
    trainer.order(step_s=result.more["step_s"])
    watch(trainer, world.bench.limit_s)


def noisy_neighbour(world: World, trainer: Trainer, result: Result) -> None:
    """Half of the host is gone."""
    world.machines.host.set_cores(HOST_CORES / 2)
    watch(trainer, world.bench.limit_s)


CASES: dict[str, Callable[[Bench], Result]] = {
    "local": steady("local", 0.7),
    "accelerator": steady("accelerator", 0.2),
    "cpu": steady("cpu", 1.6, workers=3),
    "cpu-all": steady("cpu-all", None),
    "link": steady("link", 2.0, link=5e6, floats=True),
    "slow-worker": steady("slow-worker", None, cores=[WORKER_CORES, 0.05]),
    "killed-often": befallen("killed-often", kill_one_often),
    "all-killed": befallen("all-killed", kill_all),
    "half-open": befallen("half-open", half_open),
    "cut-10s": befallen("cut-10s", cut_link),
    "corrupt": befallen("corrupt", wait, corrupt_every=50_000_000),
    "faster": befallen("faster", three_times_faster, 0.6, other_answer=True),
    "neighbour": befallen("neighbour", noisy_neighbour, 0.8, other_answer=True),
}


def report(results: list[Result]) -> None:
    print(
        f"{'case':14} {'n':>2} {'cut':>3} {'changes':>7} {'answer':>7} {'settled':>8} {'rate':>7} {'waits':>7} {'of best':>8}  best"
    )
    for one in results:
        settled = "-" if one.settled_s is None else f"{one.settled_s:.1f} s"
        share = "-" if one.of_best is None else f"{one.of_best:.3f}"
        bits = "" if one.same_bits and one.once else "  OTHER BITS"
        print(
            f"{one.case:14} {one.workers:2} {one.ops_remote:3} {one.changes:7} {one.answered_s:6.1f}s {settled:>8} "
            f"{one.rate:6.0f}/s {100 * one.stall:5.1f} % {share:>8}  {one.best}{bits}"
        )
    print(json.dumps({"bench": "overflow", "cases": [asdict(one) for one in results]}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--case", action="append", default=[], choices=list(CASES), help="only this one; may be repeated"
    )
    parser.add_argument("--seconds", type=float, default=45, help="to wait for a decision at most (default 45)")
    parser.add_argument("--data", help="a folder of JPEGs (default: those of $CARYA_TEST_DATA)")
    parser.add_argument("--smoke", action="store_true", help="one case for seconds; its figures mean nothing")
    options = parser.parse_args()
    refused = machines.refused(shares=True)
    if refused:
        print(f"overflow: left out: {refused}")
        return 0
    if options.smoke:
        options.case = ["all-killed"]
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options, Path(scratch))
        for name in options.case or CASES:
            started = time.monotonic()
            results.append(CASES[name](bench))
            print(f"{name}: {time.monotonic() - started:.0f} s, {json.dumps(results[-1].more)}", flush=True)
    report(results)
    return 0 if all(one.same_bits and one.once for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
