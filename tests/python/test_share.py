"""Jobs of one daemon that read the same slots: made once, the bits of a lone run, whoever comes, lags or dies."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import Daemon, running, until
from streams import numbers, records

import carya

TRAINER = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
import carya
from streams import numbers
task = json.loads(sys.argv[2])
seen = []
with carya.Loader(numbers(**task["pipeline"]), daemon=task["socket"], share=tuple(task["share"]), epochs=task["epochs"]) as loader:
    print("here", flush=True)
    for _ in range(task["epochs"]):
        for batch in loader:
            seen.append(batch.records.tolist())
            time.sleep(task.get("step_s", 0))
            if task.get("dies_after") == len(seen):
                os._exit(9)
            if task.get("pauses_at") == len(seen):
                print("pause", flush=True)
                sys.stdin.readline()
print(json.dumps(seen), flush=True)
"""

PIPELINE: dict[str, Any] = {"count": 400, "batch_size": 4}


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with running() as daemon:
        yield daemon


def trainer(daemon: Daemon, share: tuple[str, int], epochs: int = 2, **task: Any) -> subprocess.Popen[str]:
    """A process of its own, as the jobs of a sweep are."""
    words = {"socket": daemon.socket, "share": share, "epochs": epochs, "pipeline": PIPELINE, **task}
    return subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(Path(__file__).parent), json.dumps(words)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process: subprocess.Popen[str], line: str = "") -> Any:
    """The records of its batches, at its end; `line` ends its pause."""
    out, _ = process.communicate(line, timeout=300)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


def alone(epochs: int = 2) -> list[list[int]]:
    with carya.Loader(numbers(**PIPELINE), daemon="embedded", epochs=epochs) as loader:
        return [batch.records.tolist() for _ in range(epochs) for batch in loader]


def made(daemon: Daemon) -> int:
    """Batches of all streams that there are."""
    return sum(rank["batches"] for job in daemon.status()["jobs"] for rank in job["ranks"])


def test_jobs_of_a_sweep_make_each_batch_once(daemon: Daemon) -> None:
    jobs = [trainer(daemon, ("sweep", 4), pauses_at=200) for _ in range(4)]
    for job in jobs:
        assert job.stdout is not None
        assert [job.stdout.readline() for _ in range(2)] == ["here\n", "pause\n"]
    status = daemon.status()["jobs"]
    assert [job["share"] for job in status] == ["sweep"], "one stream for all"
    assert [len(rank["readers"]) for rank in status[0]["ranks"]] == [4]
    assert made(daemon) == 200
    assert [said(job, "go\n") for job in jobs] == [alone()] * 4


def test_who_lags_is_parted_and_sees_the_same(daemon: Daemon) -> None:
    fast = trainer(daemon, ("sweep", 2), step_s=0.01)
    slow = trainer(daemon, ("sweep", 2), pauses_at=20)
    assert slow.stdout is not None
    assert [slow.stdout.readline() for _ in range(2)] == ["here\n", "pause\n"]
    assert said(fast) == alone(), "it goes on without the other"
    assert said(slow, "go\n") == alone()


def test_one_that_dies_holds_nobody_up(daemon: Daemon) -> None:
    jobs = [trainer(daemon, ("sweep", 3), dies_after=after) for after in (30, 0, 0)]
    assert jobs[0].wait(300) == 9
    assert [said(job) for job in jobs[1:]] == [alone()] * 2


def test_one_that_comes_late_sees_all_from_the_beginning(daemon: Daemon) -> None:
    first = trainer(daemon, ("sweep", 1), pauses_at=100)
    assert first.stdout is not None
    assert [first.stdout.readline() for _ in range(2)] == ["here\n", "pause\n"]
    late = trainer(daemon, ("sweep", 1))
    assert said(late) == alone()
    assert said(first, "go\n") == alone()


def test_those_that_keep_pace_stay_together_though_one_is_always_last(daemon: Daemon) -> None:
    """Batches are made faster than they are taken: who is last has all slots, and the others hardly wait for it."""
    jobs = [trainer(daemon, ("sweep", 3), 5, step_s=step_s, pauses_at=490) for step_s in (0.02, 0.02, 0.022)]
    for job in jobs:
        assert job.stdout is not None
        assert [job.stdout.readline() for _ in range(2)] == ["here\n", "pause\n"]
    status = daemon.status()["jobs"]
    assert [len(rank["readers"]) for job in status for rank in job["ranks"]] == [3], "one stream for all"
    assert [said(job, "go\n") for job in jobs] == [alone(5)] * 3


def test_trainers_of_unlike_speeds_part_and_see_the_same(daemon: Daemon) -> None:
    jobs = {step_s: trainer(daemon, ("sweep", 3), step_s=step_s) for step_s in (0.06, 0.03, 0.015)}
    assert said(jobs[0.015]) == alone()
    assert jobs[0.06].poll() is None, "who is fast is not held to the pace of who is slow"
    assert [said(jobs[step_s]) for step_s in (0.03, 0.06)] == [alone()] * 2


def photo_pipeline(photos: Path, *, blurred: bool = False) -> carya.Pipeline:
    chain = carya.image_folder(photos).shuffle(seed=3).decode_image().resize((48, 48)).random_horizontal_flip()
    return (chain.gaussian_blur(3) if blurred else chain).batch(4)


def test_one_that_comes_late_or_differs_later_takes_what_the_others_keep(daemon: Daemon, photos: Path) -> None:
    options: dict[str, Any] = {"share": "sweep", "epochs": 2, "cache": {"memory": "64MB", "after": "resize"}}
    with carya.Loader(photo_pipeline(photos), daemon=daemon.socket, **options) as first:
        made = pictures(first)
        for blurred in (False, True):
            pipeline = photo_pipeline(photos, blurred=blurred)
            with carya.Loader(pipeline, daemon=daemon.socket, **options) as later:
                assert len(daemon.status()["jobs"]) == 2
                seen = pictures(later)
                kept = later.stats()["cache"]
                assert kept["hits"] >= 27, "of the next epoch only what is ahead is looked up: fewer"
            with carya.Loader(pipeline, daemon="embedded", epochs=2) as lone:
                for a, b in zip(seen, pictures(lone), strict=True):
                    np.testing.assert_array_equal(a, b)
            if not blurred:
                np.testing.assert_array_equal(np.concatenate(seen), np.concatenate(made))


def pictures(loader: carya.Loader) -> list[np.ndarray[Any, Any]]:
    return [np.array(batch["image"]) for batch in loader]


def test_each_is_told_of_all_broken_records_of_its_batches(daemon: Daemon, damaged: list[str]) -> None:
    """Those that keep pace, one that keeps the others waiting until it is parted, and one that comes late."""
    pipeline = carya.files(damaged).shuffle(seed=3).decode_image().resize((48, 48)).batch(2)
    options: dict[str, Any] = {"on_error": "mask", "epochs": 2, "slots": 3}

    def told(share: tuple[str, int] | None, pause_s: float = 0) -> list[dict[str, Any]]:
        where = {"daemon": daemon.socket, "share": share} if share else {"daemon": "embedded"}
        with carya.Loader(pipeline, **where, **options) as loader:
            batches = 0
            for _ in range(2):
                for _batch in loader:
                    time.sleep(pause_s if batches == 1 else 0.02)
                    batches += 1
            return sorted(loader.quarantine(), key=lambda entry: (entry["epoch"], entry["position"]))

    with ThreadPoolExecutor(4) as pool:
        together = [pool.submit(told, ("sweep", 3), pause_s) for pause_s in (0.02, 0.02, 9.0)]
        until(lambda: any(rank["batches"] > 5 for job in daemon.status()["jobs"] for rank in job["ranks"]))
        late = pool.submit(told, ("sweep", 1))
        found = [one.result(300) for one in (*together, late)]
    assert found == [told(None)] * 4
    assert found[0]


def test_one_that_never_gives_back_costs_the_others_a_stream_and_no_more(daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "share": ("sweep", 2), "slots": 2, "epochs": 1}
    found: list[list[list[int]]] = []

    def work() -> None:
        with carya.Loader(numbers(40, batch_size=4), **options) as loader:
            found.append(records(loader))

    thread = threading.Thread(target=work)
    thread.start()
    with carya.Loader(numbers(40, batch_size=4), hold_timeout=300, **options) as greedy:
        batches = iter(greedy)
        held = [next(batches) for _ in range(2)]
        thread.join(300)
        del held
    with carya.Loader(numbers(40, batch_size=4), daemon="embedded", epochs=1) as lone:
        assert found == [records(lone)]


@pytest.mark.parametrize("share", ["sweep", "auto"])
def test_other_batches_are_another_stream(daemon: Daemon, share: str) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "share": share, "epochs": 1}
    with (
        carya.Loader(numbers(40, batch_size=4), **options) as one,
        carya.Loader(numbers(40, batch_size=5), **options) as other_batch,
        carya.Loader(numbers(40, batch_size=4), seed=3, **options) as other_seed,
        carya.Loader(numbers(40, batch_size=4), weight=2, **options) as same,
    ):
        assert len(daemon.status()["jobs"]) == 3
        assert not next(iter(one))["x"].flags.writeable
        for loader in (other_batch, other_seed):
            with carya.Loader(loader.pipeline, daemon="embedded", seed=loader.state_dict()["seed"], epochs=1) as lone:
                assert records(loader) == records(lone)
        del same


def test_a_break_leads_elsewhere_and_back_together(daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "share": ("sweep", 2)}
    loaders: list[carya.Loader] = []

    with carya.Loader(numbers(40, batch_size=4), daemon="embedded") as lone:
        wanted = [first_then_all(lone) for _ in range(2)]

    found: list[Any] = [None, None]

    def work(number: int) -> None:
        with carya.Loader(numbers(40, batch_size=4), **options) as loader:
            loaders.append(loader)
            found[number] = [first_then_all(loader) for _ in range(2)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert found == [wanted, wanted]


def first_then_all(loader: carya.Loader) -> list[list[int]]:
    """Three batches of an epoch, which is then left, and all of the next one."""
    seen = []
    for step, batch in enumerate(loader):
        seen.append(batch.records.tolist())
        if step == 2:
            break
    return seen + [batch.records.tolist() for batch in loader]


def test_what_is_held_over_a_break_stays_as_it_is(daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "share": ("sweep", 2), "slots": 3}
    done = threading.Event()

    def work() -> None:
        with carya.Loader(numbers(40, batch_size=4), **options) as loader:
            while not done.is_set():
                for _ in loader:
                    time.sleep(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    with carya.Loader(numbers(40, batch_size=4), **options) as loader:
        held = next(iter(loader))
        before = held["x"].copy()
        assert next(iter(loader)).epoch == 1  # the rest of the epoch is left: it was sent away, and came again
        time.sleep(3.5)  # the daemon looks after its readers once a second
        np.testing.assert_array_equal(held["x"], before)
    done.set()
    thread.join(300)


def test_without_a_daemon_each_makes_its_own() -> None:
    with carya.Loader(numbers(40, batch_size=4), daemon="embedded", share="sweep", epochs=1) as loader:
        assert np.concatenate([batch.records for batch in loader]).size == 40


def test_the_first_batch_waits_for_as_many_as_are_asked_for(daemon: Daemon) -> None:
    with carya.Loader(numbers(40, batch_size=4), daemon=daemon.socket, share=("sweep", 2), epochs=1) as one:
        time.sleep(0.3)
        assert made(daemon) == 0
        with carya.Loader(numbers(40, batch_size=4), daemon=daemon.socket, share=("sweep", 2), epochs=1) as other:
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a["x"], b["x"])
