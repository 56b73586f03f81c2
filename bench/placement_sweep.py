#!/usr/bin/env python3
"""Does the placement find the best number of unlike workers, how soon, and does it make what its model says?

Real workers on one machine cut into several (overflow.py), ImageNet photos with jitter and blur, trainers of several rates.
Ceiling: the best fixed placement, measured: the rates of every number of workers, the fastest first, at the cut that was
chosen, for a trainer that takes all, medians of three rounds over all numbers; a slower trainer gets what it takes of that.
The cost per sample must be at most 1.03 of the best's, the model's rate within 10 % of the measured one, the first workers
measured within 8 s of the start. "choice" is the cost of the chosen number by the same measurements as the best's, without
what differs from run to run. Shares of the CPU are scaled so that together they fit into the machine: what is unlike stays
so. Needs what overflow.py needs.

With --steady, photos of 64 pixels go through operations that take 1.2 ms of CPU time, however fast the core is meanwhile:
on a machine whose cores are now fast and now slow, what is compared is the decision and not the weather.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overflow import (
    STALL_MAX,
    Bench,
    Options,
    Result,
    World,
    answer,
    cost,
    find_photos,
    machines,
    rate_and_stall,
    watch,
)
from PIL import Image

import carya

# Shares of a core of the host and of its workers.
WORLDS: dict[str, tuple[float, list[float]]] = {
    "1": (0.4, [0.3]),
    "2": (0.4, [0.15, 0.4]),
    "3": (0.4, [0.15, 0.15, 0.3]),
    "4": (0.4, [0.1, 0.15, 0.25, 0.5]),
    "weak-host": (0.2, [0.15, 0.3, 0.5]),
    "strong-host": (0.8, [0.15, 0.15, 0.3]),
}
DEMANDS = (0.5, 1.0, 1.6, 2.5, 4.0, 0.0)  # of the trainer, in what the host makes alone; 0: all that it gets
ROWS = 32  # of a batch
ROUNDS = 3  # of measurements of fixed placements
WITHIN, MODEL_WITHIN, FIRST_S = 1.03, 0.1, 8.0

BURN = r"""
#include <cstdlib>
#include <cstring>
#include <ctime>
#include "carya_op.h"

static long long thread_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int plan(const char* parameters, const carya_tensor* in, carya_tensor* out, void** state, char*) {
  *out = *in;
  if (state != nullptr) {
    auto* ns = static_cast<long long*>(std::malloc(sizeof(long long)));
    *ns = 1000LL * std::atoi(std::strstr(parameters, "\"us\":") + 5);
    *state = ns;
  }
  return 0;
}

static int run(const void* state, const carya_tensor* in, const void* from, const carya_tensor*, void* to,
               carya_random*, char*) {
  const long long until = thread_ns() + *static_cast<const long long*>(state);
  long count = 1;
  for (int i = 0; i < in->dimensions; ++i) count *= in->shape[i];
  std::memcpy(to, from, static_cast<std::size_t>(count));
  while (thread_ns() < until) {
  }
  return 0;
}

static const carya_op kBurn = {CARYA_OP_INTERFACE, "burn", 1, 0, CARYA_OP_DIGEST, plan, run, std::free};

extern "C" const carya_op* carya_op_entry() { return &kBurn; }
"""


@dataclass
class Row:
    """One trainer in one world. Times in s since the loader's start; costs in $ per million samples."""

    world: str
    demand: float
    workers: int = 0
    ops_remote: int = 0
    changes: int = 0
    first_s: float | None = None  # when the first workers had been measured; None: none were asked for
    answered_s: float = 0.0  # since when it runs as in the end
    settled_s: float | None = None
    rate: float = 0.0
    stall: float = 0.0
    predicted: float = 0.0  # rate, by the model, at the end
    cost: float = 0.0
    best_workers: int = 0
    best_cost: float = 0.0
    choice_cost: float = 0.0  # of the chosen number, measured as the best
    same_bits: bool = False

    @property
    def of_best(self) -> float:
        return self.cost / self.best_cost if self.best_cost else 0.0

    @property
    def choice_of_best(self) -> float:
        return self.choice_cost / self.best_cost if self.best_cost else 0.0

    @property
    def of_measured(self) -> float:
        return self.predicted / self.rate if self.rate else 0.0


def play(world: World, bench: Bench, row: Row, step_s: float, result: Result) -> dict[str, Any]:
    """A loader that decides; its last words."""
    trainer = world.trainer(step_s)
    end_s = bench.limit_s
    while row.settled_s is None:
        line = trainer.read(bench.limit_s)
        if line is None or line["at_s"] > end_s:
            break
        if line["placement"]["phase"] == "settled":
            row.settled_s = line["at_s"]
    watch(trainer, bench.hold_s)
    last = trainer.lines[-1]
    row.workers, row.ops_remote = answer(last)
    tried = [line["at_s"] for line in trainer.lines if line["placement"]["phase"] == "first worker"]
    row.first_s = max(tried) if tried else None
    others = [line["at_s"] for line in trainer.lines if answer(line) != answer(last)]
    row.answered_s = max([*others, *tried], default=0.0)
    row.changes = last["placement"].get("changes", 0)
    row.rate, row.stall = rate_and_stall(trainer, bench.hold_s)
    row.predicted = last["placement"]["choice"]["samples_per_s"] or 0.0
    row.cost = cost(row.rate, row.workers)
    return {"line": last, **world.finish(trainer, result)}


def capacities(world: World, bench: Bench, frozen: dict[str, Any], cut: int, result: Result) -> list[float]:
    """Samples/s of a trainer that takes all, by the number of workers, the fastest first: medians of rounds over all numbers,
    so that a machine which is slower for a while is so for all of them."""
    cores = world.machines.cores_of_workers
    fastest = [address for _, address in sorted(zip(cores, world.addresses(), strict=True), reverse=True)]
    rates: list[list[float]] = [[] for _ in range(len(fastest) + 1)]
    for _ in range(ROUNDS):
        for count, measured in enumerate(rates):
            placement = {**frozen, "workers": count, "ops_remote": cut} if count else "local"
            remote = {"remote": fastest[:count]} if count else {}
            measured.append(world.fixed(bench.hold_s / 2, result, placement, 0.0, **remote)[0])
    spreads = ", ".join(f"{min(measured):.0f} to {max(measured):.0f}" for measured in rates)
    print(f"cut after {cut}: samples/s by number of workers: {spreads}", flush=True)
    return [statistics.median(measured) for measured in rates]


def judge(row: Row, rates: list[float]) -> None:
    """Beside the number of workers with the least cost per sample, among those that make the trainer wait little if some do."""
    # A trainer has work of its own for each batch beside its pause: what it takes is what it took while it did not wait.
    demand = row.rate / (1 - row.stall) if row.demand else 0.0
    made = [min(rate, demand) if demand else rate for rate in rates]
    costs = [cost(rate, count) for count, rate in enumerate(made)]
    fits = [count for count, rate in enumerate(made) if demand and rate >= (1 - STALL_MAX) * demand]
    row.best_workers = min(fits or range(len(made)), key=lambda count: costs[count])
    row.best_cost, row.choice_cost = costs[row.best_workers], costs[row.workers]


class SweepBench(Bench):
    """With the pipeline of all rows."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.pipeline: dict[str, Any] = {"colors": True}
        if options.steady:
            self.pipeline = {"side": 64, "burn": self._burn(scratch)}
            photos = find_photos(Options(smoke=options.smoke, data=options.data), scratch)
            options.data = str(small := scratch / "small")
            small.mkdir()
            for number, path in enumerate(photos):
                Image.open(path).convert("RGB").resize((64, 64)).save(small / f"{number:06}.jpg")
        super().__init__(options, scratch)

    @staticmethod
    def _burn(scratch: Path) -> str:
        source = scratch / "burn.cc"
        source.write_text(BURN)
        return str(carya.op("burn", sources=[str(source)]).path)


def sweep(name: str, bench: SweepBench, demands: list[float], base: Path) -> list[Row]:
    """All trainers in one world."""
    host, workers = WORLDS[name]
    rows = []
    result = Result(name, same_bits=True, once=True)
    with World(bench, workers=len(workers), cores=list(workers), host_cores=host, **bench.pipeline) as world:
        alone = world.fixed(bench.hold_s, result, "local", 0.0)[0]
        caps: dict[int, list[float]] = {}  # by cut
        for demand in demands:
            # Every loader is the first one on this machine: nobody has measured a worker.
            fresh = base.with_name("cache-fresh")
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.copytree(base, fresh)
            bench.env["CARYA_CACHE_DIR"] = str(fresh)
            row = Row(name, demand)
            rows.append(row)
            last = play(world, bench, row, ROWS / (demand * alone) if demand else 0.0, result)
            cuts = last["line"]["placement"].get("cuts", [])
            cut = row.ops_remote or (cuts[-1]["ops_remote"] if cuts else 0)
            if cut and cut not in caps:
                caps[cut] = capacities(world, bench, last["frozen"], cut, result)
            judge(row, caps[cut])
            row.same_bits = result.same_bits and result.once
            print(
                f"{name} x {demand}: {json.dumps(asdict(row))} capacities {caps[cut]} {last['line']['placement']['why']}",
                flush=True,
            )
    return rows


def report(rows: list[Row]) -> bool:
    """Prints a table; whether every row is as it must be."""
    print(
        f"{'world':12} {'trainer':>7} {'n':>2} {'best':>4} {'cut':>3} {'changes':>7} {'first':>7} {'answer':>7} {'settled':>8} "
        f"{'rate':>7} {'waits':>7} {'of best':>8} {'choice':>7} {'model':>6}"
    )
    for row in rows:
        first, settled = ("-" if at is None else f"{at:.1f} s" for at in (row.first_s, row.settled_s))
        print(
            f"{row.world:12} {f'{row.demand:g} x' if row.demand else 'all':>7} {row.workers:2} {row.best_workers:4} "
            f"{row.ops_remote:3} {row.changes:7} {first:>7} {row.answered_s:5.1f} s {settled:>8} {row.rate:5.0f}/s "
            f"{100 * row.stall:5.1f} % {row.of_best:8.3f} {row.choice_of_best:7.3f} {row.of_measured:6.2f}{'' if row.same_bits else '  OTHER BITS'}"
        )
    far = [row for row in rows if row.choice_of_best > WITHIN]
    off = [row for row in rows if abs(row.of_measured - 1) > MODEL_WITHIN]
    late = [row for row in rows if row.first_s is not None and row.first_s > FIRST_S]
    print(
        f"{len(rows)} rows; cost above {WITHIN} of the best: {len(far)}; model off by more than {MODEL_WITHIN:.0%}: {len(off)}; "
        f"first worker after {FIRST_S:g} s: {len(late)}"
    )
    print(json.dumps({"bench": "placement_sweep", "rows": [asdict(row) for row in rows]}))
    return not (far or off or late) and all(row.same_bits for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", action="append", default=[], choices=list(WORLDS), help="only this; may be repeated")
    parser.add_argument(
        "--demand", action="append", default=[], type=float, help="only this rate, in the host's; 0: all"
    )
    parser.add_argument("--seconds", type=float, default=25, help="to wait for a decision at most (default 25)")
    parser.add_argument("--hold", type=float, default=8, help="seconds that rates are taken over (default 8)")
    parser.add_argument("--steady", action="store_true", help="operations that take a fixed CPU time, see above")
    parser.add_argument("--data", help="a folder of JPEGs (default: those of $CARYA_TEST_DATA)")
    parser.add_argument("--smoke", action="store_true", help="one row for seconds; its figures mean nothing")
    options = parser.parse_args()
    refused = machines.refused(shares=True)
    if refused:
        print(f"placement_sweep: left out: {refused}")
        return 0
    names = options.world or (["1"] if options.smoke else list(WORLDS))
    demands = options.demand or ([1.6] if options.smoke else list(DEMANDS))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        bench = SweepBench(options, Path(scratch))
        if not options.smoke:
            bench.hold_s = options.hold
        base = Path(scratch) / "cache"
        for name in names:
            rows += sweep(name, bench, demands, base)
    kept = report(rows)
    # The figures of a smoke run mean nothing, but for its bits.
    return 0 if kept or (options.smoke and all(row.same_bits for row in rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
