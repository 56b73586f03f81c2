"""cedar's and Pecan's pipelines: Carya beside what the seeds took, on the same files, in turns.

Ceiling: the other side's samples per CPU-second, times the bar of its row. Every side has a process of its own, which is asked for
a stretch of batches in turn; the CPU seconds are those of the process and all that it started. `x_side` is the median, over the
rounds, of the side's CPU per sample to Carya's; `x_written` the same of Carya's order as written to the order of the row. `spread`
is from the least to the most, as a share of the median. A side that cannot run has a row that says why. `published`: samples per
second of the authors' machine of 8 vCPUs, for the order of magnitude, or what Pecan's order gains.
Carya decodes without an index, and keeps no sample.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core
from .._errors import invalid
from .._loading.loader import Loader
from .._seeds import pipelines
from .._seeds.data import Files, find
from .._seeds.table import SEEDS, Order, Seed, Side, form_of, named
from .measure import Rate, measure, median, process_tree_cpu_s
from .report import Options, Report

_START_S = 300  # TensorFlow's import on a busy machine, and a first batch
_LATE = 60  # times as long as asked for
_WARM_BATCHES = 4  # for each core: what lies ready from the pause before is not counted


class SideFailed(Exception):
    """A side ended without a figure; the text is the last line that it said."""


class Runner:
    """A side in a process of its own, which makes batches while it is asked.

    Threads: owner only.
    """

    def __init__(self, python: str, request: dict[str, Any], scratch: str) -> None:
        with contextlib.ExitStack() as stack:
            self._said = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._process = subprocess.Popen(
                [python, "-m", "carya._bench.seeds"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                env={**os.environ, "CARYA_CACHE_DIR": scratch},
            )
            stack.pop_all()
        try:
            self.versions = dict(self._ask(request, _START_S))
        except BaseException:  # Ctrl-C too: what it writes when it ends would come behind the folder's removal
            self.close()
            raise

    def measure(self, seconds: float) -> Rate:
        """Errors: SideFailed."""
        return Rate(**self._ask({"seconds": seconds}, _START_S + _LATE * seconds))

    def _ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        late = threading.Timer(limit_s, self._process.kill)
        late.start()
        try:
            while line := self._process.stdout.readline():
                if line.startswith("{"):  # libraries print too
                    answer: dict[str, Any] = json.loads(line)
                    return answer
        finally:
            late.cancel()
        if self._process.wait() == -signal.SIGKILL:
            raise SideFailed(f"killed: it had no answer within {limit_s:.0f} s, or no memory")
        self._said.seek(0)
        said = self._said.read().strip().splitlines()
        raise SideFailed(said[-1][:200] if said else f"ended with {self._process.returncode} without a word")

    def close(self) -> None:
        """It ends when its input does; what it started ends with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()


class _Measured(NamedTuple):
    side: Side | None  # None: Carya
    order: Order
    versions: dict[str, str]
    rates: list[Rate]
    failed: str = ""


def run(options: Options) -> Report:
    only = options.only or tuple(seed.name for seed in SEEDS)
    for name in only:
        if name not in {seed.name for seed in SEEDS}:
            raise invalid("bench seeds: --only", name, " or ".join(repr(seed.name) for seed in SEEDS))
    with_sides = options.peers or not options.smoke
    options = options.scaled()
    root = options.data or os.environ.get("CARYA_TEST_DATA")
    cores = len(os.sched_getaffinity(0))
    report = Report("seeds", facts={"cores": cores, "target": _core.simd_target()})
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Files] = {}  # by kind: some pipelines share theirs
        for name in only:
            seed = named(name)
            if seed.files not in found:
                found[seed.files] = find(seed.files, Path(root) if root else None, Path(folder), options.smoke)
            files = found[seed.files]
            report.facts[f"files of {name}"] = files["what"]
            measured = turns(seed, files, cores, with_sides, options, folder)
            report.rows += [row(seed, one, measured) for one in measured]
    return report


def turns(seed: Seed, files: Files, cores: int, with_sides: bool, options: Options, scratch: str) -> list[_Measured]:
    """All sides of a pipeline in turns, then those that do not run."""
    wanted: list[tuple[Side | None, Order, tuple[str, ...]]]
    few = options.smoke and not options.only  # a smoke run of all of them takes one order of each
    orders: tuple[Order, ...] = ("off",) if few else seed.orders or ("off",)
    wanted = [(None, order, (sys.executable,)) for order in orders]
    wanted += [(side, "off", (sys.executable, *options.python)) for side in seed.sides if with_sides]
    found: list[_Measured] = []
    with contextlib.ExitStack() as stack:
        runners: list[Runner] = []
        failed: list[_Measured] = []
        for side, order, pythons in wanted:
            request = {"seed": seed.name, "side": side and side.name, "order": order, "files": files, "cores": cores}
            reasons = []
            for python in pythons:
                try:
                    runner = Runner(python, request, scratch)
                except (SideFailed, OSError) as error:
                    reasons.append(str(error))
                    continue
                stack.callback(runner.close)
                if any(one.side == side and one.order == order and one.versions == runner.versions for one in found):
                    continue  # another interpreter with the same
                runners.append(runner)
                found.append(_Measured(side, order, runner.versions, []))
            if len(reasons) == len(pythons):
                failed.append(_Measured(side, order, {}, [], "; ".join(dict.fromkeys(reasons))))
        for turn in range(options.rounds + 1):  # the first one warms up
            for at, runner in enumerate(runners):
                if found[at].failed:
                    continue
                try:
                    rate = runner.measure(options.seconds)
                except SideFailed as error:
                    found[at] = found[at]._replace(failed=str(error), rates=[])
                    continue
                if turn:
                    found[at].rates.append(rate)
    return found + failed


def row(seed: Seed, one: _Measured, all_of_it: list[_Measured]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "pipeline": seed.name,
        "side": one.side.name if one.side else "carya",
        "order": None if one.side or not seed.orders else one.order,
        "samples_per_cpu_s": None,
        "spread": None,
        "cpu_us_per_sample": None,
        "samples_per_s": None,
        "x_side": None,
        "bar": one.side.bar if one.side else None,
        "x_written": None,
        "published": one.side.published if one.side else seed.published,
        "note": one.failed or ", ".join(f"{name} {version}" for name, version in one.versions.items()),
    }
    if not one.rates:
        return found
    costs = [rate.cpu_us for rate in one.rates]
    found["cpu_us_per_sample"] = round(median(costs), 1)
    found["samples_per_cpu_s"] = round(1e6 / median(costs), 1)
    found["spread"] = round((max(costs) - min(costs)) / median(costs), 3)
    found["samples_per_s"] = round(median([rate.per_second for rate in one.rates]), 1)
    if one.side:
        found["x_side"] = _ratio(one, next(other for other in all_of_it if other.side is None))
    else:
        written = [other for other in all_of_it if other.side is None and other.order == "off"]
        found["x_written"] = _ratio(written[0], one) if written and seed.orders else None
    return found


def _ratio(above: _Measured, below: _Measured) -> float | None:
    if not above.rates or not below.rates:
        return None
    return round(median([a.cpu_us / b.cpu_us for a, b in zip(above.rates, below.rates, strict=True)]), 2)


def carya_batches(seed: Seed, files: Files, order: Order, cores: int) -> Iterator[int]:
    """Sizes of Carya's batches without end."""
    pipeline = getattr(pipelines, seed.form)(files)
    native: dict[str, Any] = {"decode_index": "off", "reorder": order} if seed.orders else {}
    with Loader(pipeline, threads=cores, daemon="embedded", **native) as loader:
        while True:
            for batch in loader:
                yield len(next(iter(batch.values())))


def _opened(request: dict[str, Any]) -> tuple[Iterator[int], dict[str, str]]:
    """Batches of the side that is asked for, of which one has been made, and the versions of what it takes."""
    seed = named(request["seed"])
    side = next((side for side in seed.sides if side.name == request["side"]), None)
    if side is None:
        batches = carya_batches(seed, request["files"], request["order"], request["cores"])
    else:
        batches = form_of(side.form)(request["files"], request["cores"])
    next(batches)
    packages = metadata.packages_distributions()
    found = [packages[name][0] for name in side.needs if name in packages] if side else []
    return batches, {name: metadata.version(name) for name in found}


def main() -> None:
    """A side: reads requests as lines of JSON from its input, answers each by one."""
    request = json.loads(sys.stdin.readline())
    batches, versions = _opened(request)
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        rate = measure(batches, json.loads(line)["seconds"], process_tree_cpu_s, _WARM_BATCHES * request["cores"])
        answer = {"samples": rate.samples, "wall_s": rate.wall_s, "cpu_s": rate.cpu_s}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # worker processes of the sides need no orderly end
