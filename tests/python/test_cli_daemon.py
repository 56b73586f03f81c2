"""The commands that speak with the daemon."""

from __future__ import annotations

import functools
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import commands
import pytest
from daemons import Daemon, running, until
from streams import numbers

import carya

run = functools.partial(commands.run, COLUMNS="160")


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with running() as started:
        yield started


def test_status_shows_jobs_ranks_and_readers(daemon: Daemon) -> None:
    with carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="shown", slots=3) as loader:
        held = next(iter(loader))
        time.sleep(0.1)
        status = json.loads(run("status", "--socket", daemon.socket, "--json"))
        assert (status["pid"], status["state"], status["socket"]) == (daemon.process.pid, "ready", daemon.socket)
        (job,) = status["jobs"]
        assert (job["job"], job["state"], job["records"]) == ("shown", "running", 80)
        (rank,) = job["ranks"]
        assert (rank["slots"], rank["held"]) == (3, 1)
        assert rank["free"] + rank["filling"] + rank["ready"] + rank["held"] == 3
        assert status["shared_bytes"] == rank["slot_bytes"] + held["x"].nbytes * 20 > 0  # the slots, and the array
        (reader,) = rank["readers"]
        assert (reader["pid"], reader["held"]) == (os.getpid(), 1)
        assert 0 <= reader["stall_share"] <= 1
        table = run("status", "--socket", daemon.socket)
        for word in ("shown", "ready", "arrays", f"{os.getpid()} (", "slots: 3 ("):
            assert word in table
        assert "shown" in run("top", "--once", "--socket", daemon.socket)
        del held


@pytest.mark.parametrize("words", [["status"], ["top", "--once"]], ids=str)
def test_eighty_columns_are_enough(daemon: Daemon, words: list[str]) -> None:
    """A name as loaders make them stands in one line, and so does every figure with what it is."""
    with carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, slots=3) as loader:
        next(iter(loader))
        name = daemon.status()["jobs"][-1]["job"]
        assert len(name) > 30
        lines = [line.rstrip() for line in run(*words, "--socket", daemon.socket, COLUMNS="80").splitlines()]
        assert max(len(line) for line in lines) <= 80
        assert f"job {name}" in lines
        for text in (r"  rank 0: \S+ samples/s, epoch 0 at \d+", r"    slots: 3 \(\S+ \S+\), \d ready, .*free"):
            assert any(re.fullmatch(text, line) for line in lines), lines
        assert any(f"{os.getpid()} (" in line and "stalled)" in line for line in lines)


def test_a_reader_s_stall_is_what_it_waited(daemon: Daemon) -> None:
    with carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="stalled", slots=2) as loader:
        iterator = iter(loader)
        held = [next(iterator), next(iterator)]
        assert loader._job.next(0.5) is None  # nothing can come
        status = json.loads(run("status", "--socket", daemon.socket, "--json"))
        (reader,) = next(job for job in status["jobs"] if job["job"] == "stalled")["ranks"][0]["readers"]
        assert 0.45 <= reader["stall_s"] <= reader["attached_s"]
        assert reader["stall_share"] == pytest.approx(reader["stall_s"] / reader["attached_s"])
        held.clear()


def test_jobs_share_the_cores() -> None:
    with running() as daemon:

        def threads() -> list[int]:
            return [rank["threads"] for job in daemon.status()["jobs"] for rank in job["ranks"]]

        with carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="one") as one:
            next(iter(one))
            (cores,) = threads()
            with carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="two") as two:
                next(iter(two))
                until(lambda: len(threads()) == 2 and sum(threads()) == max(cores, 2))
                assert min(threads()) >= 1
            until(lambda: threads() == [cores])


@pytest.mark.parametrize("way", ["q", "SIGINT", "SIGTERM"])
def test_top_is_live_until_it_is_ended(daemon: Daemon, way: str) -> None:
    with carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="live"):
        keyboard, terminal = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "carya", "top", "--socket", daemon.socket],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, "COLUMNS": "160", "LINES": "50", "TERM": "xterm"},
        ) as child:
            shown = b""
            end = time.monotonic() + 300
            while shown.count(b"live") < 3 and time.monotonic() < end:  # drawn anew
                if select.select([keyboard], [], [], 1)[0]:
                    shown += os.read(keyboard, 65536)
            assert shown.count(b"live") >= 3, shown
            if way == "q":
                os.write(keyboard, b"q")
            else:
                child.send_signal(signal.Signals[way])
            until = time.monotonic() + 300
            while child.poll() is None and time.monotonic() < until:  # the terminal is read on, or its end would block
                if select.select([keyboard], [], [], 0.1)[0]:
                    shown += os.read(keyboard, 65536)
            assert child.returncode == (143 if way == "SIGTERM" else 0), shown
            while select.select([keyboard], [], [], 0)[0]:
                shown += os.read(keyboard, 65536)
            assert shown.rstrip().endswith(b"\x1b[?1049l")  # the screen that was there before
        os.close(keyboard)
        os.close(terminal)


def test_logs_are_the_last_lines(daemon: Daemon) -> None:
    carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="logged").close()
    assert "job=logged" in run("logs", "--socket", daemon.socket)
    lines = json.loads(run("logs", "-n", "2", "--socket", daemon.socket, "--json"))["lines"]
    assert len(lines) == 2


def test_placement_shows_why_a_fleet_does_not_start(tmp_path: Path) -> None:
    config = tmp_path / "caryad.toml"
    config.write_text('[remote]\nfleet_command = ["/no/fleet"]\n')
    with (
        running("--config", str(config)) as started,
        carya.Loader(numbers(80, batch_size=8), daemon=started.socket, job="away") as loader,
    ):
        next(iter(loader))
        said = until(
            lambda: "lately" in (shown := run("placement", "show", "away", "--socket", started.socket)) and shown
        )
    assert "  lately: fleet /no/fleet: start /no/fleet: No such file or directory; started again in" in said


def test_the_log_says_what_a_reload_leaves_for_the_next_start(tmp_path: Path) -> None:
    config = tmp_path / "caryad.toml"
    config.write_text("drain_seconds = 4\n")
    with running("--config", str(config)) as started:
        config.write_text('drain_seconds = 5\nlinger_seconds = 1\nmetrics = "127.0.0.1:0"\n[limits]\nconnections = 9\n')
        started.process.send_signal(signal.SIGHUP)
        log = until(lambda: "info reloaded" in (log := run("logs", "--socket", started.socket)) and log)
    assert re.findall(r"warning counts from the next start on key=(\S+)", log) == [
        "metrics",
        "drain_seconds",
        "limits.connections",
    ]


def test_a_token_that_every_user_can_read_is_said(tmp_path: Path) -> None:
    config = tmp_path / "caryad.toml"
    config.write_text('[remote]\ntoken = "a-word-for-workers"\n')
    for mode, told in ((0o644, True), (0o640, False)):
        config.chmod(mode)
        with running("--config", str(config)) as started:
            log = run("logs", "--socket", started.socket)
        assert (f"can read the token of [remote]; chmod o= {config}" in log) == told
        assert "a-word-for-workers" not in log


def test_a_job_is_stopped_by_name(daemon: Daemon) -> None:
    with carya.Loader(
        numbers(8000, batch_size=4),
        daemon=daemon.socket,
        job="doomed",
        slots=2,
        reattach_timeout=0,
        on_daemon_loss="raise",
    ) as loader:
        next(iter(loader))
        assert json.loads(run("job", "stop", "doomed", "--socket", daemon.socket, "--json")) == {"stopped": "doomed"}
        assert all(job["job"] != "doomed" for job in daemon.status()["jobs"])
    assert "job doomed: not here" in run("job", "stop", "doomed", "--socket", daemon.socket, code=1)


def test_drain_ends_the_daemon() -> None:
    with running() as daemon:
        assert "takes no new jobs" in run("drain", "--socket", daemon.socket)
        assert daemon.process.wait(60) == 0


def test_who_comes_while_it_drains_is_told_so(tmp_path: Path) -> None:
    config = tmp_path / "caryad.toml"
    config.write_text("drain_seconds = 600\n")
    with running("--config", str(config)) as started:
        loader = carya.Loader(numbers(80, batch_size=8), daemon=started.socket, reattach_timeout=0)
        batch = next(iter(loader))  # held, so that it goes on draining
        run("drain", "--socket", started.socket)
        for command in ("status", "logs", "drain"):
            assert "it is draining, and answers nobody new" in run(command, "--socket", started.socket, code=1)
        with pytest.raises(carya.Closed, match="it is draining"):
            carya.Loader(numbers(80, batch_size=8), daemon=started.socket)
        assert batch["x"].shape == (8,)
        loader.close()


@pytest.mark.parametrize("words", [["status"], ["top"], ["logs"], ["drain"], ["job", "stop", "x"]], ids=str)
def test_without_a_daemon_it_says_how_to_start_one(words: list[str], tmp_path: Path) -> None:
    socket = str(tmp_path / "none.sock")
    said = run(*words, "--socket", socket, code=1)
    assert said.startswith(f"carya: no daemon listens at {socket}; start one with `caryad --socket {socket}`")
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", [["status"], ["top"], ["logs"], ["drain"], ["job", "stop"]], ids=str)
def test_each_command_has_help_with_an_example(words: list[str]) -> None:
    assert "Example: carya " + " ".join(words) in run(*words, "--help")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_socket_is_said_to_be_none(kind: str, tmp_path: Path) -> None:
    """Starting a daemon there would not help."""
    place = tmp_path / "there"
    if kind == "file":
        place.write_text("")
    else:
        place.mkdir()
    told = run("status", "--socket", str(place), code=1)
    assert told == (
        f"carya: {place}: it is a {kind} and no socket; give the path that caryad listens at (--socket, or "
        "CARYA_DAEMON_SOCKET)\n"
    )
    with pytest.raises(carya.InvalidArgument, match=f"it is a {kind} and no socket; give the path that caryad listens"):
        carya.Loader(numbers(8, batch_size=4), daemon=str(place))
