"""Python functions take turns with the jobs of a daemon: how many of their processes may be busy at a moment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
from daemons import Daemon, running, until

import carya
from carya import _core
from carya._processes.turns import Turns

ROWS = {"x": np.arange(4096, dtype=np.float32).reshape(512, 8)}
WANTS_ALL = 64


def twice(x: np.ndarray) -> np.ndarray:
    return x * 2


def busy(x: np.ndarray) -> np.ndarray:
    sum(range(2000))
    return x * 2


def rows(loader: carya.Loader) -> list[list[float]]:
    return [batch["x"].tolist() for batch in loader]


def pipeline(function: object = twice) -> carya.Pipeline:
    return carya.arrays(ROWS).shuffle(seed=3).map(function, fields="x").batch(16)  # type: ignore[arg-type]


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    with running() as one:
        monkeypatch.setenv("CARYA_DAEMON_SOCKET", one.socket)
        yield one


def after(other: _core.TurnSeat, one: _core.TurnSeat) -> tuple[int, bool]:
    """What the one is told that has used much, while the other wants all."""
    other.report(1.0, 0, WANTS_ALL)
    return one.report(1.0, 2_000_000_000, 2)


def test_who_has_had_more_waits_for_the_others_and_goes_on_when_they_have_left(daemon: Daemon) -> None:
    one, others = _core.TurnSeat(daemon.socket), [_core.TurnSeat(daemon.socket)]
    threads, alone = one.report(1.0, 0, 2)
    assert (threads > 0, alone) == (True, True)
    until(lambda: after(others[0], one) == (0, False))
    until(lambda: others[0].report(1.0, 0, WANTS_ALL)[0] > 0)
    others.clear()
    until(lambda: one.report(1.0, 0, 2) == (1024, True))


def test_a_seat_refuses_numbers_that_are_none(daemon: Daemon) -> None:
    with pytest.raises(carya.InvalidArgument, match="weight: got 1000"):
        _core.TurnSeat(daemon.socket).report(1000.0, 0, 2)
    assert _core.daemon_listens(daemon.socket)


def test_without_a_daemon_nobody_waits(tmp_path: object) -> None:
    turns = Turns(f"{tmp_path}/none.sock", 1.0)
    turns.look([os.getpid()], 2)
    assert turns.allowed == float("inf")
    assert turns.wait_s(0.2) == 0.2


def test_the_batches_are_those_of_a_lone_loader_whoever_else_wants_the_cores(daemon: Daemon) -> None:
    with carya.Loader(pipeline(), daemon="embedded", epochs=2) as loader:
        expected = [rows(loader), rows(loader)]
    other = _core.TurnSeat(daemon.socket)
    with carya.Loader(pipeline(), threads=2, epochs=2) as loader:
        got = []
        for _ in range(2):
            batches = []
            for batch in loader:
                batches.append(batch["x"].tolist())
                other.report(4.0, 5_000_000, WANTS_ALL)
            got.append(batches)
    assert got == expected


def test_a_greedy_neighbour_that_uses_nothing_starves_no_function(daemon: Daemon) -> None:
    greedy = _core.TurnSeat(daemon.socket)
    with carya.Loader(pipeline(), threads=2, epochs=1) as loader:
        count = 0
        for _ in loader:
            greedy.report(100.0, 0, 1024)
            count += 1
    assert count == len(loader)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_daemon_that_ends_or_hangs_holds_nobody_up(daemon: Daemon, how: signal.Signals) -> None:
    with carya.Loader(pipeline(busy), threads=2, epochs=3) as loader:
        first = sorted(row for batch in rows(loader) for row in batch)
        _core.TurnSeat(daemon.socket).report(4.0, 0, WANTS_ALL)
        daemon.process.send_signal(how)
        for _ in range(2):
            assert sorted(row for batch in rows(loader) for row in batch) == first


def test_the_loader_says_how_long_its_workers_were_held(daemon: Daemon) -> None:
    other = _core.TurnSeat(daemon.socket)
    with carya.Loader(pipeline(busy), threads=2) as loader:
        end = time.monotonic() + 60
        while loader.stats()["workers"]["held_seconds"] == 0:
            assert time.monotonic() < end
            for _ in loader:
                other.report(10.0, 0, WANTS_ALL)


def test_the_status_lists_jobs_of_functions(daemon: Daemon) -> None:
    seat = _core.TurnSeat(daemon.socket)
    for _ in range(2):
        threads, _ = seat.report(0.5, 1_500_000_000, 4)
    found = daemon.status()["guests"]
    assert found == [{"pid": os.getpid(), "weight": 0.5, "wants": 4, "threads": threads, "cpu_s": 3.0}]
    del seat
    with carya.Loader(pipeline(busy), threads=2, weight=2.0) as loader:

        def counted() -> list[dict[str, Any]]:
            rows(loader)  # until time that its functions took was reported
            return [one for one in daemon.status()["guests"] if one["weight"] == 2.0 and one["cpu_s"] > 0]

        (guest,) = until(counted)
        shown = commands.run("status", "--socket", daemon.socket)
        assert f"functions of process {guest['pid']}, weight 2" in shown
        assert "no jobs" not in shown
    until(lambda: not daemon.status()["guests"])
    assert 3.0 < daemon.status()["guests_cpu_s"] < 300


def sockets(pid: int | str) -> set[str]:
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(fd))
    return {name for name in found if name.startswith("socket:")}


def test_a_replaced_worker_keeps_no_seat_of_its_host(daemon: Daemon) -> None:
    with carya.Loader(pipeline(), threads=2) as loader:
        rows(loader)
        host = loader._job._process.pid  # type: ignore[attr-defined]
        children = Path(f"/proc/{host}/task/{host}/children")
        killed = children.read_text().split()
        for child in killed:
            os.kill(int(child), signal.SIGKILL)

        def others() -> list[str]:
            return [child for child in children.read_text().split() if child not in killed]

        until(lambda: len(others()) == len(killed))
        until(lambda: all(not sockets(child) & sockets(host) for child in others()))


def test_a_weight_above_one_wants_a_daemon_to_take_turns_with(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with carya.Loader(pipeline(), weight=4.0) as loader:
        assert len(rows(loader)) == len(loader)
    with pytest.raises(carya.Unsupported, match="no daemon to take turns with"):
        carya.Loader(pipeline(), weight=4.0, daemon="embedded")
    monkeypatch.setenv("CARYA_DAEMON_SOCKET", "/nowhere/caryad.sock")
    with pytest.raises(carya.Unsupported, match="Or start caryad"):
        carya.Loader(pipeline(), weight=4.0)
