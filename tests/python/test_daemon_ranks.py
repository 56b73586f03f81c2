"""Ranks and replicas of one job in caryad."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import Daemon, running
from streams import numbers, records

import carya


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with running("--linger", "5") as started:
        yield started


RANK = """
import os, sys
import numpy as np
import carya
from streams import numbers
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with carya.Loader(numbers(100, global_size=10), rank=rank, world_size=world, daemon="required") as loader:
    iterator = iter(loader)
    seen = [next(iterator).records.tolist()]
    print("attached", flush=True)
    sys.stdin.readline()
    print(seen + [batch.records.tolist() for batch in iterator], flush=True)
"""


def test_ranks_of_one_launch_share_a_job(daemon: Daemon) -> None:
    launch = {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0", "WORLD_SIZE": "2"}
    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK],
            env={**os.environ, **launch, "RANK": str(rank), "CARYA_DAEMON_SOCKET": daemon.socket, "PYTHONPATH": here},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "attached\n"
    jobs = daemon.status()["jobs"]
    assert len(jobs) == 1, jobs
    assert [[reader["pid"] for reader in rank["readers"]] for rank in jobs[0]["ranks"]] == [[r.pid] for r in ranks]
    for number, rank in enumerate(ranks):
        out, _ = rank.communicate("go\n", timeout=300)
        assert rank.returncode == 0
        with carya.Loader(numbers(100, global_size=10), rank=number, world_size=2, daemon="embedded") as loader:
            assert out == f"{records(loader)}\n"


def test_replicas_read_the_same_slots(daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "job": "pair", "replicas": 2}
    with (
        carya.Loader(numbers(40, batch_size=4), replica=0, **options) as first,
        carya.Loader(numbers(40, batch_size=4), replica=1, **options) as second,
    ):
        steps = 0
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one["x"], other["x"])
            assert not one["x"].flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                one["x"][0] = 1
            steps += 1
        assert steps == 10
        status = daemon.status()["jobs"][0]["ranks"][0]
        assert len(status["readers"]) == 2


def test_status_shows_a_closed_replica_that_holds_slots(daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "job": "pair", "replicas": 2}
    with carya.Loader(numbers(40, batch_size=4), replica=0, **options) as first:
        second = carya.Loader(numbers(40, batch_size=4), replica=1, **options)
        kept = [batch for batch, _ in zip(second, range(2), strict=False)]
        next(iter(first))
        second.close()
        rank = daemon.status()["jobs"][0]["ranks"][0]
        assert [(one["pid"], one["replica"], one["held"]) for one in rank["closed"]] == [(os.getpid(), 1, len(kept))]
        assert [one["replica"] for one in rank["readers"]] == [0]
        shown = subprocess.run(
            [sys.executable, "-m", "carya", "status", "--socket", daemon.socket],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert f"closed, and holds 2 slots: replica 1 in process {os.getpid()}" in shown
        kept.clear()


def test_the_weight_of_a_job_is_shown_and_shared_by_its_replicas(daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "job": "heavy", "replicas": 2, "weight": 2.5}
    with carya.Loader(numbers(40, batch_size=4), replica=0, **options):
        with pytest.raises(carya.InvalidArgument, match="another weight"):
            carya.Loader(numbers(40, batch_size=4), replica=1, **{**options, "weight": 1})
        assert daemon.status()["jobs"][0]["weight"] == 2.5


def test_replicas_that_ask_for_different_places_are_told_both(daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "job": "pair", "replicas": 2}
    chain = numbers(40, batch_size=4)
    with carya.Loader(chain, daemon="embedded") as loader:
        next(iter(loader))
        state = loader.state_dict()
    with (
        carya.Loader(chain, replica=0, **options),
        pytest.raises(carya.InvalidArgument, match=r"epoch 0 position 4.*epoch 0 position 0"),
    ):
        carya.Loader(chain, replica=1, state=state, **options)
    with pytest.raises(carya.InvalidArgument, match="replicas need a daemon"):
        carya.Loader(chain, daemon="embedded", replicas=2)


def test_a_rank_is_read_by_one(daemon: Daemon) -> None:
    with carya.Loader(numbers(40, batch_size=4), daemon=daemon.socket, job="one") as loader:
        next(iter(loader))
        with pytest.raises(carya.InvalidArgument, match=f"read by process {os.getpid()} already"):
            carya.Loader(numbers(40, batch_size=4), daemon=daemon.socket, job="one")
        with pytest.raises(carya.InvalidArgument, match="another pipeline"):
            carya.Loader(numbers(40, batch_size=5), daemon=daemon.socket, job="one")


def test_replicas_that_work_in_place_disturb_nobody(daemon: Daemon) -> None:
    torch = pytest.importorskip("torch")
    import carya.torch

    options: dict[str, Any] = {"daemon": daemon.socket, "job": "pair", "replicas": 2, "slots": 3}
    with (
        carya.torch.Loader(numbers(40, batch_size=4), replica=0, **options) as first,
        carya.Loader(numbers(40, batch_size=4), replica=1, **options) as second,
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        for one, other in zip(first, second, strict=True):  # more batches than slots: no write outlives its batch
            assert one["x"].tolist() == other["x"].tolist() == other.records.tolist()
            one["x"].add_(1000)
            assert isinstance(one["x"], torch.Tensor)
            assert one["x"].tolist() == [value + 1000 for value in other["x"].tolist()]
