"""Loaders and workers on machines of their own, in network namespaces: whatever befalls the network, the stream is the local one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import machines
import numpy as np
import proxies
import pytest
from machines import Machine, Machines
from PIL import Image
from trainer import Digest, Trainer, pipeline

import carya
from carya import _programs

PORT, PROXY_PORT = 7070, 7071
WAIT_S = 400  # the end of a hang
SHAPE = {"side": 48, "batch_size": 4}


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    why = machines.refused()
    if why:
        pytest.skip(f"network namespaces: {why}")


class World:
    """A host with a trainer, two other machines with a worker each."""

    def __init__(self, photos: Path, made: Machines, corrupt_every: int = 0) -> None:
        self.machines = made
        self.photos = sorted(str(path) for path in photos.rglob("*.*"))
        self._workers: dict[Machine, subprocess.Popen[bytes]] = {}
        self._proxies: list[subprocess.Popen[bytes]] = []
        for machine in made.workers:
            self.start(machine)
            if corrupt_every:
                places = (machine.address, str(PROXY_PORT), str(PORT), str(corrupt_every))
                self._proxies.append(subprocess.Popen(machine.inside(sys.executable, proxies.__file__, *places)))
        port = PROXY_PORT if corrupt_every else PORT
        loader = {
            "remote": [f"{machine.address}:{port}" for machine in made.workers],
            "placement": "remote:2",
            "threads": 1,
            "remote_tls": {"insecure": True},
        }
        # A trainer without steps takes more than one thread makes, on whatever machine. Beside a slower one the host is
        # idle, makes the chunks itself before they would be home, and the workers that are waited for get none.
        task = {"photos": self.photos, "pipeline": SHAPE, "loader": loader, "step_s": 0.0}
        self.trainer = Trainer(made.host.inside, task, dict(os.environ))

    def start(self, machine: Machine) -> None:
        program = _programs.program("carya-worker")
        command = machine.inside(program, "--listen", f"0.0.0.0:{PORT}", "--threads", "1", "--insecure")
        self._workers[machine] = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self, machine: Machine) -> None:
        worker = self._workers.pop(machine)
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def close(self) -> None:
        self.trainer.kill()
        for machine in list(self._workers):
            self.kill(machine)
        for proxy in self._proxies:
            proxy.kill()
            proxy.wait()

    def worked(self, *numbers: int) -> None:
        """Waits until those workers, or all, have each computed a chunk from now on."""
        wanted = numbers or range(len(self.machines.workers))
        before = self._chunks(self.trainer.until(lambda _: True, WAIT_S))
        self.trainer.until(lambda line: all(self._chunks(line)[i] > before[i] for i in wanted), WAIT_S)

    def goes_on(self, batches: int = 50) -> None:
        """Waits until the trainer got so many more."""
        before = self.trainer.until(lambda _: True, WAIT_S)["samples"]
        self.trainer.until(lambda line: line["samples"] >= before + batches * SHAPE["batch_size"], WAIT_S)

    def noticed(self, number: int) -> None:
        """Waits until the host no longer counts on that worker."""
        self.trainer.until(lambda line: self._workers_of(line)[number]["state"] != "up", WAIT_S)

    def is_the_local_stream(self) -> None:
        last = self.trainer.end(WAIT_S)
        digest = Digest()
        with carya.Loader(pipeline(self.photos, **SHAPE)) as loader:
            while len(digest.all) < len(last["digests"]):
                for batch in loader:
                    digest.add(batch)
        assert last["digests"] == digest.all[: len(last["digests"])]
        assert last["not_once"] == 0

    @staticmethod
    def _workers_of(line: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = sorted(line["placement"]["workers"], key=lambda one: one["address"])
        return found

    def _chunks(self, line: dict[str, Any]) -> list[int]:
        return [worker["chunks"] for worker in self._workers_of(line)]


@contextmanager
def network(photos: Path, corrupt_every: int = 0) -> Iterator[World]:
    with Machines(2) as made:
        world = World(photos, made, corrupt_every)
        try:
            world.worked()
            yield world
        finally:
            world.close()


@pytest.fixture
def world(photos: Path) -> Iterator[World]:
    with network(photos) as made:
        yield made


def test_workers_on_other_machines_compute_the_stream(world: World) -> None:
    world.worked()
    world.is_the_local_stream()


def test_a_worker_that_is_killed_again_and_again(world: World) -> None:
    for _ in range(4):
        world.kill(world.machines.workers[0])
        world.start(world.machines.workers[0])
        world.goes_on(5)
    world.worked()
    world.is_the_local_stream()


def test_all_workers_are_killed_and_come_back(world: World) -> None:
    for machine in world.machines.workers:
        world.kill(machine)
    world.goes_on()
    for machine in world.machines.workers:
        world.start(machine)
    world.worked()
    world.is_the_local_stream()


def test_a_connection_that_is_half_open(world: World) -> None:
    """Nothing comes from one worker any more, and no end of its connection either."""
    world.machines.cut(world.machines.workers[0])
    world.noticed(0)
    world.worked(1)
    world.machines.mend(world.machines.workers[0])
    world.worked()
    world.is_the_local_stream()


def test_the_hosts_link_is_cut_and_mended(world: World) -> None:
    world.machines.cut(world.machines.host)
    for number in range(len(world.machines.workers)):
        world.noticed(number)
    world.goes_on()
    world.machines.mend(world.machines.host)
    world.worked()
    world.is_the_local_stream()


def test_a_link_that_is_too_narrow(world: World) -> None:
    """Chunks come late, or too late: then they are computed here."""
    world.machines.shape(50_000)
    world.goes_on(200)
    world.is_the_local_stream()


def test_a_trainer_that_changes_its_speed(world: World) -> None:
    for step_s in (0.03, 0.0, 0.01):
        world.trainer.order(step_s=step_s)
        world.goes_on()
    world.is_the_local_stream()


def test_bytes_that_are_changed_on_their_way(photos: Path) -> None:
    """The frame is refused, its connection ended, its chunks computed elsewhere."""
    with network(photos, corrupt_every=300_000) as world:
        for _ in range(3):
            world.worked()
        world.trainer.until(lambda line: any("down" in event for event in line["placement"]["events"]), WAIT_S)
        world.is_the_local_stream()


def test_the_link_to_workers_is_measured_where_it_is_what_limits(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for number in range(24):  # a quarter of a MiB each, for noise does not compress
        Image.fromarray(random.integers(0, 256, (480, 480, 3), np.uint8)).save(tmp_path / f"{number}.jpg", quality=95)
    with network(tmp_path) as world:
        world.machines.shape(2e6)
        # Packets are lost as the link becomes narrow: the first looks see how TCP gets over that.
        world.trainer.until(lambda line: 1e6 < (line["placement"].get("link_out_bytes_per_s") or 0) < 4e6, WAIT_S)
        world.is_the_local_stream()
