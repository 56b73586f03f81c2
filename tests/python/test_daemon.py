"""Loaders served by caryad: which one, the same bits, its death, what it says."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BROKEN
from daemons import Daemon, running, until
from streams import digest, epoch_digest, flat, numbers, records

import carya
from carya import _core


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with running("--linger", "5") as started:
        yield started


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The socket where a daemon is looked for, and where none is."""
    socket = str(tmp_path / "none.sock")
    monkeypatch.setenv("CARYA_DAEMON_SOCKET", socket)
    return socket


def vision(photos: Path | str, **batch: Any) -> carya.Pipeline:
    chain = carya.image_folder(photos).shuffle(seed=11).decode_image().random_resized_crop(48).normalize(0.5, 0.5)
    return chain.batch(**(batch or {"batch_size": 4}))


# Which daemon --------------------------------------------------------------------------------------------------------


def test_auto_works_without_a_daemon(nobody: str) -> None:
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        assert loader.stats()["place"] == "embedded"
        assert len(records(loader)) == 5


def test_auto_works_without_a_daemon_of_another_version(nobody: str) -> None:
    """It answers in a protocol that this package does not speak."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(nobody)
        listening.listen()

        def answer() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    if client.recv(65536):
                        client.send(b"CARY\x02\x00\x02\x00\x01\x00\x00\x00\x01\x00\x00\x00\xa0")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.warns(RuntimeWarning, match="without the daemon"):
            loader = carya.Loader(numbers(20, batch_size=4))
        with loader:
            assert loader.stats()["place"] == "embedded"
            assert len(records(loader)) == 5
        with pytest.raises(carya.Unsupported, match="protocol 2"):
            carya.Loader(numbers(20, batch_size=4), daemon="required")
        listening.shutdown(socket.SHUT_RDWR)


def test_auto_uses_the_daemon_of_the_environment(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_DAEMON_SOCKET", daemon.socket)
    with carya.Loader(numbers(20, batch_size=4)) as loader:
        assert loader.stats()["place"] == daemon.socket
        assert len(daemon.status()["jobs"]) == 1
    with carya.Loader(numbers(20, batch_size=4), daemon="embedded") as loader:
        assert loader.stats()["place"] == "embedded"


def test_required_says_what_to_do(nobody: str) -> None:
    with pytest.raises(carya.NotFound, match=r'start one \(caryad --socket .*none.sock\), use daemon="spawn"'):
        carya.Loader(numbers(20, batch_size=4), daemon="required")


def test_a_path_is_that_daemon_or_an_error(daemon: Daemon, nobody: str) -> None:
    with carya.Loader(numbers(20, batch_size=4), daemon=daemon.socket) as loader:
        assert loader.stats()["place"] == daemon.socket
    with pytest.raises(carya.NotFound, match="nobody listens"):
        carya.Loader(numbers(20, batch_size=4), daemon=nobody)
    with pytest.raises(carya.InvalidArgument, match='"auto", "embedded", "required", "spawn"'):
        carya.Loader(numbers(20, batch_size=4), daemon="maybe")


def test_spawn_starts_one_that_outlives_the_loader(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    socket = str(tmp_path_factory.mktemp("d") / "s")
    monkeypatch.setenv("CARYA_DAEMON_SOCKET", socket)
    with carya.Loader(numbers(20, batch_size=4), daemon="spawn") as loader:
        assert loader.stats()["place"] == socket
        assert len(records(loader)) == 5
    with carya.Loader(numbers(20, batch_size=4), daemon="required") as loader:
        assert loader.stats()["place"] == socket
    _core.daemon_drain(socket)
    until(lambda: not os.path.exists(socket))


def test_an_idle_daemon_ends_when_told_to() -> None:
    with running("--idle-exit", "0.3", "--linger", "0") as daemon:
        with carya.Loader(numbers(20, batch_size=4), daemon=daemon.socket) as loader:
            time.sleep(1)
            assert len(records(loader)) == 5
        assert daemon.process.wait(60) == 0


# The same bits -------------------------------------------------------------------------------------------------------


def test_the_stream_is_the_embedded_one(daemon: Daemon, photos: Path) -> None:
    wanted = epoch_digest(vision(photos), epochs=2, daemon="embedded")
    assert epoch_digest(vision(photos), epochs=2, daemon=daemon.socket) == wanted


def test_the_torch_stream_is_the_embedded_one(daemon: Daemon, photos: Path) -> None:
    pytest.importorskip("torch")
    import carya.torch

    with carya.torch.Loader(vision(photos), daemon="embedded") as loader:
        wanted = digest(loader)
    with carya.torch.Loader(vision(photos), daemon=daemon.socket) as loader:
        assert loader.stats()["place"] == daemon.socket
        assert digest(loader) == wanted


def test_jobs_of_one_thread_each_do_not_share_it(daemon: Daemon, photos: Path) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "threads": 1}
    with (
        carya.Loader(vision(photos), job="one", **options) as one,
        carya.Loader(vision(photos), job="other", **options),
    ):
        next(iter(one))
        # The cores of the daemon, which a quota may leave fewer of than there are.
        cores = min(2, _core.doctor()["auto_threads"])
        until(lambda: daemon.threads().count("carya-compute") == cores)


def test_jobs_have_no_more_threads_than_the_cores_of_the_configuration(tmp_path: Path, photos: Path) -> None:
    config = tmp_path / "caryad.toml"
    for cores in range(1, _core.doctor()["auto_threads"] + 1):
        config.write_text(f"[limits]\ncores = {cores}\n")
        with running("--config", str(config)) as own:
            options: dict[str, Any] = {"daemon": own.socket, "threads": 1}
            with (
                carya.Loader(vision(photos), job="one", **options) as one,
                carya.Loader(vision(photos), job="other", **options) as other,
            ):
                next(iter(one))
                next(iter(other))
                assert own.threads().count("carya-compute") == min(2, cores)


def test_arrays_travel_with_the_job(daemon: Daemon) -> None:
    random = np.random.default_rng(2)
    given = {"x": random.normal(size=(50, 3)).astype(np.float32), "y": np.arange(50)}
    chain = carya.arrays(given).shuffle(seed=4).batch(8)
    assert epoch_digest(chain, epochs=2, daemon=daemon.socket) == epoch_digest(chain, epochs=2, daemon="embedded")


def test_relative_paths_are_the_trainer_s(daemon: Daemon, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = epoch_digest(vision(photos), daemon="embedded")
    monkeypatch.chdir(photos.parent)
    assert epoch_digest(vision(photos.name), daemon=daemon.socket) == wanted


@pytest.mark.parametrize("way", ["daemon to daemon", "daemon to embedded", "embedded to daemon"])
def test_a_state_goes_on_elsewhere(daemon: Daemon, photos: Path, way: str) -> None:
    first, second = (daemon.socket if word == "daemon" else word for word in way.split(" to "))
    with carya.Loader(vision(photos), daemon="embedded") as loader:
        wanted = records(loader) + records(loader)
    with carya.Loader(vision(photos), daemon=first) as loader:
        iterator = iter(loader)
        seen = [next(iterator).records.tolist() for _ in range(3)]
        state = loader.state_dict()
    with carya.Loader(vision(photos), daemon=second, state=state) as loader:
        assert seen + records(loader) + records(loader) == wanted


def test_broken_records_are_told_as_embedded(daemon: Daemon, damaged: list[str]) -> None:
    chain = carya.files(damaged).decode_image().center_crop(32).batch(4)
    with carya.Loader(chain, daemon=daemon.socket) as loader, pytest.raises(carya.SampleError, match=r"03\.jpg"):
        records(loader)
    found = []
    for place in (daemon.socket, "embedded"):
        with carya.Loader(chain, daemon=place, on_error="mask") as loader:
            assert sorted(flat(records(loader))) == [n for n in range(12) if n not in BROKEN]
            found.append(loader.quarantine())
    assert found[0] == found[1]
    assert [entry["record"] for entry in found[0]] == list(BROKEN)


def test_skipped_files_are_named_as_embedded(daemon: Daemon, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "p")
    (tmp_path / "p" / "class_a" / "notes.txt").write_text("no picture")
    said = []
    for place in ("embedded", daemon.socket):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            carya.Loader(vision(tmp_path / "p"), daemon=place).close()
        said.append([str(each.message) for each in caught])
    assert said[0] == said[1]
    assert "skipped 1 files with other extensions: class_a/notes.txt" in said[1][0]


# Its death -----------------------------------------------------------------------------------------------------------


def test_a_killed_daemon_started_again_costs_no_bit(daemon: Daemon, photos: Path) -> None:
    wanted = epoch_digest(vision(photos), epochs=2, daemon="embedded")

    def disturbed(loader: carya.Loader) -> Iterator[Any]:
        for _ in range(2):
            for step, batch in enumerate(loader):
                yield batch
                if step in (1, 4):
                    daemon.end()
                    daemon.start()

    with carya.Loader(vision(photos), daemon=daemon.socket, slots=2) as loader:
        assert digest(disturbed(loader)) == wanted
        assert loader.stats()["place"] == daemon.socket
        assert loader.stats()["reattached"] == 4


def test_a_daemon_lost_for_good_is_said_once_and_replaced_by_this_process(daemon: Daemon, photos: Path) -> None:
    wanted = epoch_digest(vision(photos), epochs=2, daemon="embedded")

    def disturbed(loader: carya.Loader) -> Iterator[Any]:
        for epoch in range(2):
            for step, batch in enumerate(loader):
                yield batch
                if (epoch, step) == (0, 1):
                    daemon.end()

    with (
        warnings.catch_warnings(record=True) as caught,
        carya.Loader(vision(photos), daemon=daemon.socket, slots=2, reattach_timeout=0.05) as loader,
    ):
        warnings.simplefilter("always")
        assert digest(disturbed(loader)) == wanted
        assert loader.stats()["place"] == "embedded"
    said = [each for each in caught if issubclass(each.category, RuntimeWarning)]
    assert [daemon.socket in str(each.message) for each in said] == [True]
    assert said[0].filename == __file__


def test_a_daemon_lost_for_good_may_be_an_error(daemon: Daemon) -> None:
    with carya.Loader(
        numbers(400, batch_size=4), daemon=daemon.socket, slots=2, reattach_timeout=0.05, on_daemon_loss="raise"
    ) as loader:
        iterator = iter(loader)
        next(iterator)
        daemon.end()
        with pytest.raises(carya.Closed, match="make a new Loader from the state"):
            list(iterator)
        state = loader.state_dict()
    with carya.Loader(numbers(400, batch_size=4), daemon="embedded", state=state) as loader:
        assert len(flat(records(loader))) == 400 - state["position"]


def test_arrays_outlive_the_daemon(daemon: Daemon) -> None:
    with carya.Loader(numbers(40, batch_size=4), daemon=daemon.socket) as loader:
        batch = next(iter(loader))
        before = batch["x"].tolist()
        daemon.end()
        assert batch["x"].tolist() == before


# Processes -----------------------------------------------------------------------------------------------------------


def script(daemon: Daemon, code: str) -> list[str]:
    start = f"""
    import os, sys
    import numpy as np
    import carya
    loader = carya.Loader(
        carya.arrays({{"x": np.arange(4000)}}).batch(4), daemon={daemon.socket!r}, slots=2, hold_timeout=600
    )
    iterator = iter(loader)
    """
    return [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(code)]


def test_ctrl_c_ends_a_wait_at_once(daemon: Daemon) -> None:
    code = """
    held = [next(iterator), next(iterator)]
    print("waiting", flush=True)
    try:
        next(iterator)
    except KeyboardInterrupt:
        held.clear()
        print(next(iterator).records.tolist())
    """
    with subprocess.Popen(script(daemon, code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
    assert (out, err, child.returncode) == ("[8, 9, 10, 11]\n", "", 0)


def test_a_forked_child_is_told_and_the_parent_goes_on(daemon: Daemon) -> None:
    code = """
    batch = next(iterator)
    child = os.fork()
    if child == 0:
        try:
            next(iterator)
        except carya.ForkedError:
            del batch, iterator, loader
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    del batch
    print(4 + sum(len(each["x"]) for each in iterator))
    """
    done = subprocess.run(script(daemon, code), capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("4000\n", 0), done.stderr


def test_a_killed_trainer_is_succeeded_at_its_state(daemon: Daemon) -> None:
    code = """
    print([next(iterator).records.tolist() for _ in range(3)], flush=True)
    os.kill(os.getpid(), 9)
    """
    done = subprocess.run(script(daemon, code), capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (-9, "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]\n"), done.stderr
    until(lambda: daemon.status()["killed"] == 1)
    assert daemon.status()["jobs"][0]["state"] == "lingering"


def test_jobs_share_batches_of_the_same_arrays_only(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fingerprint looks at blocks of large arrays: what lies between them is another stream too."""
    monkeypatch.setattr("carya._pipeline.arrays._WHOLE_BYTES", 1 << 20)
    monkeypatch.setattr("carya._pipeline.arrays._BLOCKS", 2)
    ones = np.zeros((8, 1 << 18), np.uint8)
    others = ones.copy()
    others[3, 5] = 7
    first, second = (carya.arrays({"x": one}).batch(1) for one in (ones, others))
    assert first.dataset.fingerprint == second.dataset.fingerprint
    options: dict[str, Any] = {"daemon": daemon.socket, "share": "sweep", "epochs": 1, "threads": 1}
    with carya.Loader(first, **options) as one, carya.Loader(second, **options) as other:
        steps = zip(one, other, strict=True)
        assert [(int(a["x"].max()), int(b["x"].max())) for a, b in steps] == [(0, 7 * (step == 3)) for step in range(8)]
