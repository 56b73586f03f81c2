#!/usr/bin/env python3
"""Do unlike jobs of one daemon get thread time by their weights, how long do they wait, and do equal jobs cost one?

Jobs of a real caryad, each a trainer process that takes all it can get: photos (decode, crop, resize), photos with blur,
and small arrays, whose chunks take microseconds. Ceiling: each job's part of all thread time is its weight's, within 5 %
over 10 s. "gap p99": of the time between two batches of a job, beside the mean that its share says; "of alone": beside the
p99 that the job has alone with the daemon, over its share, since batches of unlike photos come unevenly in any case; at most
twice that. `--functions`:
jobs of Python functions, by the CPU time of their processes: with no daemon, by how nice they are, and in turns with native
jobs of a daemon, whose CPU time is parted among them as the time of their threads is. `--sweep`: equal jobs that share their
batches (`Loader(share=)`): the daemon's CPU time beside that for one job in the same round, the median of nine; at most
1.05 of it. `--paces`: such jobs which are slower than batches are made: at equal paces, of which at most 1.05 of what one
takes is made, at paces of 1 : 2 : 4, and others of which one pauses, one dies and one comes late; each has the bits of a lone
run, and waits for a batch 7 s at most, since who stands still is parted after 5. (Their CPU time beside one job's is shown and
is no bar: trainers that compute beside it make the same work of the daemon dearer.) The exit status is 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import carya

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))

from daemons import Daemon, running  # noqa: E402

from carya._bench.photos import find_photos, warm  # noqa: E402
from carya._bench.report import Options  # noqa: E402

KINDS = ("photos", "blur", "small")
WEIGHTS = (1.0, 2.0, 3.0, 0.5)
# Native jobs, by kind and weight, and weights of jobs with functions beside them.
MIXED: tuple[tuple[list[tuple[str, float]], list[float]], ...] = (
    ([("photos", 1.0), ("small", 1.0)], [1.0]),
    ([("photos", 1.0)], [3.0]),
    ([("photos", 2.0), ("blur", 1.0)], [1.0, 0.5]),
    ([(KINDS[i % 3], WEIGHTS[i % 4]) for i in range(12)], [1.0, 2.0, 3.0, 0.5]),
)
WITHIN, GAP_MAX, WAIT_MAX_S = 0.05, 2.0, 7.0
STEP_S = 0.02  # of trainers that keep a pace
TOGETHER = ("equal", "up to 3 % slower")  # groups of trainers that make each batch once


def pipeline(kind: str, photos: list[str]) -> carya.Pipeline:
    if kind == "small":
        rows = np.random.default_rng(1).integers(0, 256, (20_000, 28, 28, 1), np.uint8)
        return carya.arrays({"image": rows}).shuffle(seed=1).gaussian_blur(3).normalize([0.5], [0.5]).batch(256)
    chain = carya.files(photos).shuffle(seed=1).decode_image().random_resized_crop(96)
    return (chain.gaussian_blur(9) if kind == "blur" else chain).batch(16)


def sweep(counts: list[int], batches: int, photos: list[str], rounds: int) -> bool:
    """Trainers of one job's batches, which take a fixed number of them; CPU seconds of the daemon beside those for one in the
    same round, medians of rounds over all counts. Whether the bar is kept."""
    spent: dict[int, list[tuple[float, int]]] = {count: [] for count in counts}
    for _ in range(rounds):
        for count, seen in spent.items():
            seen.append(shared(count, batches, photos))
    kept = True
    for count, seen in spent.items():
        ratios = [each_s / lone_s for (each_s, _), (lone_s, _) in zip(seen, spent[counts[0]], strict=True)]
        spent_s, of_one = statistics.median(each_s for each_s, _ in seen), statistics.median(ratios)
        made = max(each for _, each in seen)
        told = ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
        row = {"cpu_s": spent_s, "of_one": of_one, "ratios": ratios, "made": made, "made_of_taken": made / batches}
        print(
            f"{count:3} equal jobs of {batches} batches each: {made} were made, in {spent_s:.2f} CPU s, {of_one:.3f} of one "
            f"job's ({told})"
        )
        print(json.dumps({"bench": "fair_shares", "sweep": count, **row}), flush=True)
        kept = kept and of_one <= 1 + WITHIN
    return kept


def shared(count: int, batches: int, photos: list[str]) -> tuple[float, int]:
    """So many trainers of one job's batches: CPU seconds of the daemon, and how many batches it made."""
    with running() as daemon:
        task = {"photos": photos, "socket": daemon.socket, "share": count, "batches": batches}
        trainers = [started(task) for _ in range(count)]
        for trainer in trainers:
            assert first_line(trainer) == "done\n"
        spent = cpu_s(daemon.process.pid), batches_made(daemon)
        for trainer in trainers:
            trainer.communicate("end\n")
    return spent


def paces(batches: int, pause_s: float, photos: list[str]) -> bool:
    """Trainers of one job's batches, each at a pace of its own. Whether the bars are kept."""
    lone, _ = keep_pace({"photos": photos, "socket": "", "pace": 0.0, "batches": batches})
    lone_s = lone_cpu_s(batches, photos)
    middle = batches // 2
    groups: dict[str, list[tuple[str, dict[str, float]]]] = {
        "equal": [(f"{number + 1}", {}) for number in range(4)],
        "up to 3 % slower": [
            (f"{STEP_S * 1000 * slow:g} ms a step", {"pace": STEP_S * slow}) for slow in (1, 1.01, 1.02, 1.03)
        ],
        "1 : 2 : 4": [(f"{STEP_S * 1000 * slow:g} ms a step", {"pace": STEP_S * slow}) for slow in (4, 2, 1)],
        "a pause, a death, a late one": [
            ("steady", {}),
            (f"pauses {pause_s:g} s", {"pauses": middle, "pause_s": pause_s}),
            ("dies", {"dies": middle}),
            ("comes late", {"late_s": middle * STEP_S}),
        ],
    }
    kept = True
    for group, jobs in groups.items():
        with running() as daemon:
            count = sum("late_s" not in job for _, job in jobs)
            trainers = []
            for _, job in sorted(jobs, key=lambda one: one[1].get("late_s", 0)):
                time.sleep(job.get("late_s", 0))
                task = {"photos": photos, "socket": daemon.socket, "pace": STEP_S, "batches": batches, **job}
                trainers.append(started({**task, "share": 1 if "late_s" in job else count}))
            answers = [first_line(trainer) for trainer in trainers]
            spent_s, made = cpu_s(daemon.process.pid), batches_made(daemon)
            for trainer in trainers:
                trainer.communicate("end\n")
        of_one = {"cpu_s": spent_s, "of_one": spent_s / lone_s, "made": made, "made_of_taken": made / batches}
        print(
            f"{group}: {made} batches of {batches} were made, in {spent_s:.2f} CPU s of the daemon, {spent_s / lone_s:.3f} "
            f"of those for one job of that pace"
        )
        print(json.dumps({"bench": "fair_shares", "paces": group, **of_one}), flush=True)
        # Those that keep pace stay together: made once for all.
        kept = kept and (group not in TOGETHER or made <= (1 + WITHIN) * batches)
        for (name, job), answer in zip(jobs, answers, strict=True):
            if "dies" in job:
                continue
            digest, seen = json.loads(answer)
            seen |= {"job": name, "same_bits": digest == lone}
            kept = kept and seen["same_bits"] and seen["longest_wait_s"] <= WAIT_MAX_S
            print(
                f"  {name:14} {seen['took_s']:6.1f} s, by its own pace {seen['own_s']:6.1f}; longest wait "
                f"{seen['longest_wait_s']:.2f} s; {'the bits of a lone run' if seen['same_bits'] else 'OTHER BITS'}"
            )
            print(json.dumps({"bench": "fair_shares", "paces": group, **seen}), flush=True)
    return kept


def lone_cpu_s(batches: int, photos: list[str]) -> float:
    """CPU seconds of the daemon for one such trainer."""
    with running() as daemon:
        task = {"photos": photos, "socket": daemon.socket, "share": 1, "pace": STEP_S, "batches": batches}
        trainer = started(task)
        first_line(trainer)
        spent_s = cpu_s(daemon.process.pid)
        trainer.communicate("end\n")
    return spent_s


def keep_pace(task: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A trainer of a sweep with a step of so many s; without a socket in this process, alone. Of what it took: a digest, and
    how long it took beside what its steps and its pause take, and the longest that it waited for a batch. A process of its
    own prints them, and stays until it is told to end."""
    served = {"daemon": task["socket"], "share": ("paces", task["share"])} if task["socket"] else {"daemon": "embedded"}
    bits, taken, longest_s, own_s = hashlib.blake2b(), 0, 0.0, 0.0
    with carya.Loader(pipeline("photos", [str(path) for path in task["photos"]]), **served) as loader:
        begun = asked = 0.0
        while taken < task["batches"]:
            for batch in loader:
                now = time.monotonic()
                longest_s = max(longest_s, now - asked) if taken else 0.0  # the first one waits for all
                begun = begun or now
                bits.update(np.ascontiguousarray(batch["image"]))
                taken += 1
                if taken == task.get("dies"):
                    os._exit(9)
                step_s = task["pace"] + (task["pause_s"] if taken == task.get("pauses") else 0)
                time.sleep(step_s)
                own_s += step_s
                asked = time.monotonic()
                if taken == task["batches"]:
                    break
        answer = bits.hexdigest(), {"took_s": asked - begun, "own_s": own_s, "longest_wait_s": longest_s}
        if task["socket"]:
            print(json.dumps(answer), flush=True)
            sys.stdin.readline()  # what it had made is counted until it ends
    return answer


def follow(task: dict[str, object]) -> None:
    """A trainer of a sweep: takes so many batches, and stays until it is told to end."""
    count, batches = int(str(task["share"])), int(str(task["batches"]))
    chain = pipeline("photos", [str(path) for path in task["photos"]])  # type: ignore[attr-defined]
    with carya.Loader(chain, daemon=str(task["socket"]), share=("sweep", count)) as loader:
        taken = 0
        while taken < batches:
            for _ in loader:
                time.sleep(0.002)
                taken += 1
                if taken == batches:
                    break
        print("done", flush=True)
        sys.stdin.readline()


def train(task: dict[str, object]) -> None:
    """The trainer's process: takes batches until its input ends; then says when they came, in s."""
    photos = [str(path) for path in task["photos"]]  # type: ignore[attr-defined]
    came: list[float] = []
    with carya.Loader(
        pipeline(str(task["kind"]), photos),
        daemon=str(task["socket"]),
        job=str(task["job"]),
        weight=float(str(task["weight"])),
        slots=16,
    ) as loader:
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.monotonic() + float(str(task["seconds"]))
        while time.monotonic() < end:
            for _ in loader:
                came.append(time.monotonic())
                if came[-1] >= end:
                    break
    print(json.dumps(came), flush=True)


def burn(x: np.ndarray) -> np.ndarray:
    """A function that computes: some 100 us."""
    sum(range(5000))
    return x


def call(task: dict[str, object]) -> None:
    """A trainer with a Python function: says which process is its workers' host, then takes batches until its input ends."""
    rows = carya.arrays({"x": np.zeros((4096, 8), np.float32)}).map(burn, fields="x").batch(32)
    with carya.Loader(rows, threads=os.cpu_count() or 1, weight=float(str(task["calls"]))) as loader:
        print(loader._job._process.pid, flush=True)  # type: ignore[attr-defined]
        while not select.select([sys.stdin], [], [], 0)[0]:
            for _ in loader:
                if select.select([sys.stdin], [], [], 0)[0]:
                    break


def of_session(leader: int) -> float:
    """CPU seconds of all processes of a session."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[3]) == leader else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def batches_made(daemon: Daemon) -> int:
    """By all streams of the jobs that are there; by a stream that several of them share once."""
    return sum(rank["batches"] for job in daemon.status()["jobs"] for rank in job["ranks"])


def cpu_s(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started(task: dict[str, object], socket: str = "") -> subprocess.Popen[str]:
    """A trainer's process. `socket`: of the daemon that its functions take turns with."""
    command = [sys.executable, __file__, "--train", json.dumps(task)]
    environment = {**os.environ, "CARYA_DAEMON_SOCKET": socket or "/nowhere/caryad.sock"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def first_line(trainer: subprocess.Popen[str]) -> str:
    assert trainer.stdout is not None
    return trainer.stdout.readline()


def begin(trainers: list[subprocess.Popen[str]]) -> None:
    """Of trainers that say when they are ready: all of them at once."""
    for trainer in trainers:
        first_line(trainer)
    for trainer in trainers:
        assert trainer.stdin is not None
        trainer.stdin.write("go\n")
        trainer.stdin.flush()


def functions(
    weights: list[float],
    seconds: float,
    natives: list[tuple[str, float]] | None = None,
    photos: list[str] | None = None,
) -> None:
    """Jobs with Python functions, which take all that they can get. `natives`: kinds and weights of native jobs of a daemon that
    they take turns with; None: there is no daemon."""
    with running() if natives is not None else contextlib.nullcontext() as daemon:
        socket = "" if daemon is None else daemon.socket
        own = [
            started({"photos": photos, "kind": kind, "weight": weight, "job": f"job-{i}", "socket": socket, "seconds": seconds + 5})
            for i, (kind, weight) in enumerate(natives or [])
        ]  # fmt: skip
        callers = [started({"calls": weight}, socket) for weight in weights]
        hosts = [int(first_line(trainer)) for trainer in callers]
        begin(own)

        def spent() -> list[float]:
            """CPU s of each job with functions, and of the daemon; then thread s of each native job."""
            of_hosts = [of_session(host) for host in hosts]
            if daemon is None:
                return of_hosts
            threads = had(daemon)
            return [*of_hosts, cpu_s(daemon.process.pid), *(threads[f"job-{i}"] for i in range(len(own)))]

        time.sleep(2)
        before = spent()
        time.sleep(seconds)
        passed = [after - begun for begun, after in zip(before, spent(), strict=True)]
        for trainer in callers:
            trainer.communicate("end\n")
        for trainer in own:
            trainer.communicate()
    count = len(weights)
    of_daemon, threads = sum(passed[count : count + 1]), passed[count + 1 :]
    took = [*(of_daemon * one / sum(threads) for one in threads), *passed[:count]]
    rows = []
    for (kind, weight), one in zip(
        [*(natives or []), *(("a function", weight) for weight in weights)], took, strict=True
    ):
        of_share = one / sum(took) / (weight / (sum(weights) + sum(each for _, each in natives or [])))
        rows.append({"kind": kind, "weight": weight, "cpu_s": one, "of_share": of_share})
        print(f"{kind:10}, weight {weight:5}: {one:6.2f} CPU s, {of_share:.3f} of its share")
    print(json.dumps({"bench": "fair_shares", "daemon": daemon is not None, "functions": rows}), flush=True)


def had(daemon: Daemon) -> dict[str, float]:
    """Thread seconds so far, by job."""
    return {job["job"]: sum(rank["compute_s"] for rank in job["ranks"]) for job in daemon.status()["jobs"]}


def play(jobs: list[tuple[str, float]], seconds: float, photos: list[str]) -> list[dict[str, object]]:
    """`jobs`: their kinds and weights."""
    rows: list[dict[str, object]] = []
    # Trainers that start take the cores from chunks that are under way, for which their jobs wait some seconds.
    settle_s = 1 + len(jobs) / 4
    with running() as daemon:
        trainers = []
        for number, (kind, weight) in enumerate(jobs):
            task = {"photos": photos, "kind": kind, "weight": weight, "job": f"job-{number}", "socket": daemon.socket}
            trainers.append(started({**task, "seconds": seconds + settle_s + 1}))
        begin(trainers)
        time.sleep(settle_s)
        before, begun = had(daemon), time.monotonic()
        time.sleep(seconds)
        after, end = had(daemon), time.monotonic()
        times = [json.loads(trainer.communicate()[0]) for trainer in trainers]
    total = sum(after[name] - before[name] for name in after)
    weights = sum(weight for _, weight in jobs)
    for number, (kind, weight) in enumerate(jobs):
        name = f"job-{number}"
        came = [at for at in times[number] if begun <= at <= end]
        gaps = np.diff(came) if len(came) > 2 else np.zeros(1)
        rows.append(
            {
                "job": name, "kind": kind, "weight": weight, "thread_s": after[name] - before[name],
                "of_share": (after[name] - before[name]) / total / (weight / weights),
                "gap_p99": float(np.quantile(gaps, 0.99) / max(float(gaps.mean()), 1e-9)), "batches": len(came),
            }
        )  # fmt: skip
    return rows


def say(rows: list[dict[str, object]], alone: dict[str, float]) -> bool:
    """A table. `alone`: gap_p99 of a lone job, by kind. Whether the bars are kept."""
    print(
        f"{len(rows)} jobs\n{'job':8} {'kind':8} {'weight':>6} {'thread s':>9} {'of share':>9} {'gap p99':>8} {'of alone':>9} {'batches':>8}"
    )
    for row in rows:
        row["gap_of_alone"] = float(str(row["gap_p99"])) / max(alone[str(row["kind"])], 1.0)
        print(
            f"{row['job']:8} {row['kind']:8} {row['weight']:6} {row['thread_s']:9.2f} {row['of_share']:9.3f} "
            f"{row['gap_p99']:7.1f}x {row['gap_of_alone']:8.2f}x {row['batches']:8}"
        )
    off = [abs(float(str(row["of_share"])) - 1) for row in rows]
    gap = max(float(str(row["gap_of_alone"])) for row in rows)
    print(
        f"worst {max(off):.1%}, median {statistics.median(off):.1%}; allowed {WITHIN:.0%}; gap {gap:.2f}x of a lone job's; allowed {GAP_MAX}x"
    )
    print(json.dumps({"bench": "fair_shares", "jobs": len(rows), "alone": alone, "rows": rows}), flush=True)
    return max(off) <= WITHIN and gap <= GAP_MAX


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", action="append", type=int, default=[], help="number of jobs (default 2, 4, 16)")
    parser.add_argument("--sweep", action="store_true", help="only equal jobs that share their batches")
    parser.add_argument("--paces", action="store_true", help="only jobs that share their batches, at unlike paces")
    parser.add_argument("--functions", action="store_true", help="only jobs with Python functions")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--data", help="a folder of JPEGs (default: those of $CARYA_TEST_DATA)")
    parser.add_argument("--smoke", action="store_true", help="two jobs for a moment; the figures mean nothing")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        task = json.loads(options.train)
        if "pace" in task:
            keep_pace(task)
            return 0
        call(task) if "calls" in task else follow(task) if "share" in task else train(task)
        return 0
    seconds = 0.5 if options.smoke else options.seconds
    if options.functions or options.smoke:
        for weights in [[1.0, 0.5]] if options.smoke else [[1.0, 1.0], [1.0, 0.5], [1.0, 0.5, 0.25, 0.1]]:
            functions(weights, seconds)
    counts = options.jobs or ([2] if options.smoke else [2, 4, 16])
    with tempfile.TemporaryDirectory() as scratch:
        photos = [str(path) for path in find_photos(Options(smoke=options.smoke, data=options.data), Path(scratch))]
        warm(photos)
        if options.functions or options.smoke:
            for natives, weights in MIXED[:1] if options.smoke else MIXED:
                functions(weights, seconds, natives, photos)
        if options.functions:
            return 0
        kept = True
        if options.sweep or options.smoke:
            few = options.smoke
            kept = sweep([1, 2] if few else [1, 4, 16], 20 if few else 1000, photos, 1 if few else 9)
        if options.paces or options.smoke:
            kept = paces(10 if options.smoke else 1000, 0.1 if options.smoke else 60, photos) and kept
        counts = [] if options.sweep or options.paces else counts
        kinds = KINDS[: max(counts, default=0)]
        alone = {kind: float(str(play([(kind, 1.0)], seconds, photos)[0]["gap_p99"])) for kind in kinds}
        for count in counts:
            jobs = [(KINDS[i % len(KINDS)], WEIGHTS[i % len(WEIGHTS)]) for i in range(count)]
            kept = say(play(jobs, seconds, photos), alone) and kept
    return 0 if kept or options.smoke else 1


if __name__ == "__main__":
    sys.exit(main())
