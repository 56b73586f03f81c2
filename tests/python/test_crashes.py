"""A crash inside of one job ends that job, and not its host: the daemon that follows refuses the pipeline which ended the
one before, and the other jobs go on with the same bits."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import host_user
import pytest
import test_users
from daemons import Daemon, running, until

import carya

TRAIN = """
import threading
import time
def made():
    pipeline = carya.image_folder(folder).decode_image().resize((1024, 1024))
    for _ in range(8):
        pipeline = pipeline.random_rotation(30)
    return carya.Loader(pipeline.batch(16), daemon=os.environ["CARYA_DAEMON_SOCKET"], threads=1)
loader, told = made(), []
def train():
    try:
        while True:
            for _ in loader:
                pass
    except carya.Error as error:
        told.append(error)
thread = threading.Thread(target=train, daemon=True)
thread.start()
"""


def slow(folder: Path) -> carya.Pipeline:
    """Work that keeps a thread busy without a gap."""
    made = carya.image_folder(folder).decode_image().resize((1024, 1024))
    for _ in range(8):
        made = made.random_rotation(30)
    return made.batch(16)


def forever(loader: carya.Loader) -> Iterator[carya.Batch]:
    while True:
        yield from loader


def computing(pid: int) -> int:
    """A thread of the daemon that has computed for a while without a pause, or 0: one that runs may be between two chunks."""

    def running() -> dict[str, list[int]]:
        """By thread, how often it slept, and its CPU time in ticks."""
        found = {}
        for task in Path(f"/proc/{pid}/task").iterdir():
            name, _, fields = (task / "stat").read_text().rpartition(")")
            if name.endswith("(carya-compute") and fields.split()[0] == "R":
                slept = (task / "status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0]
                found[task.name] = [int(slept), int(fields.split()[11])]
        return found

    before = running()
    time.sleep(0.03)
    for thread, (slept, ticks) in running().items():
        if thread in before and slept == before[thread][0] and ticks > before[thread][1]:
            return int(thread)
    return 0


def send(pid: int) -> None:
    """What a failed CHECK of a thread that computes sends."""
    # Neither by os nor by signal: those send to a process, and the kernel chooses the thread.
    tgkill = ctypes.CDLL(None).tgkill
    assert tgkill(pid, until(lambda: computing(pid)), signal.SIGABRT) == 0


def nothing_to_do(daemon: Daemon) -> bool:
    """Whether all slots of its one job are full."""
    (rank,) = daemon.status()["jobs"][0]["ranks"]
    return bool(rank["ready"] + rank["held"] == rank["slots"])


def crash(daemon: Daemon) -> None:
    send(daemon.process.pid)
    assert daemon.process.wait(60) == -signal.SIGABRT


def test_a_crash_ends_its_own_job_alone(photos: Path) -> None:
    quick = carya.image_folder(photos).decode_image().resize((32, 32)).batch(4)
    with carya.Loader(quick, epochs=3, daemon="embedded", threads=1) as alone:
        expected = [batch["image"].tobytes() for batch in alone]
    with running() as daemon:
        healthy = carya.Loader(quick, epochs=3, daemon=daemon.socket, threads=1)
        batches = iter(healthy)
        seen = [next(batches)["image"].tobytes()]
        until(lambda: nothing_to_do(daemon))  # a thread that computes from now on does so for the other job
        doomed = carya.Loader(slow(photos), epochs=1000, daemon=daemon.socket, threads=1)
        told: list[BaseException] = []

        def train() -> None:
            try:
                for _ in forever(doomed):
                    pass
            except carya.Error as error:
                told.append(error)

        trainer = threading.Thread(target=train)
        trainer.start()
        crash(daemon)
        daemon.start()
        trainer.join(120)
        assert not trainer.is_alive()
        for word in ("signal 6", "this pipeline", 'daemon="embedded"', "UTC", f"{daemon.socket}.crashes"):
            assert word in str(told[0])
        # The other one goes on where it was, through the daemon.
        seen += [batch["image"].tobytes() for batch in batches]
        assert seen == expected
        assert healthy.stats()["place"] == daemon.socket
        # A successor hears the same at once, also where it may do without a daemon: in this process it would end this process.
        with pytest.raises(carya.Error, match="ended by signal 6"):
            carya.Loader(slow(photos), daemon=daemon.socket)
        os.environ["CARYA_DAEMON_SOCKET"], before = daemon.socket, os.environ["CARYA_DAEMON_SOCKET"]
        try:
            with pytest.raises(carya.Error, match="ended by signal 6"):
                carya.Loader(slow(photos))
        finally:
            os.environ["CARYA_DAEMON_SOCKET"] = before
        with carya.Loader(slow(photos), daemon="embedded", epochs=1) as own:
            next(iter(own))
        # As it says: the notes are removed, and the daemon is started again.
        daemon.end(signal.SIGTERM)
        Path(f"{daemon.socket}.crashes").unlink()
        daemon.start()
        with carya.Loader(slow(photos), daemon=daemon.socket, epochs=1) as again:
            next(iter(again))
        healthy.close()


def test_a_daemon_that_is_killed_blames_nobody(photos: Path) -> None:
    with running() as daemon, carya.Loader(slow(photos), epochs=1000, daemon=daemon.socket, threads=1) as loader:
        batches = forever(loader)
        next(batches)
        for number in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV):
            assert daemon.end(number) == -number
            daemon.start()
            next(batches)
        assert loader.stats()["reattached"] == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")
def test_a_users_crash_is_known_to_the_next_daemon_of_that_user_alone(photos: Path) -> None:
    with test_users.running() as host:
        folder = test_users.data(host, photos, "photos", test_users.ALICE, test_users.GROUP, 0o755)
        with test_users.user(host, test_users.ALICE) as alice, test_users.user(host, test_users.BOB) as bob:
            bob.do(test_users.JOB, job="quiet")
            alice.do(TRAIN, folder=str(folder))
            first = host.daemons()
            time.sleep(0.5)  # then what is known of users who did nothing odd is forgotten as another one comes
            with test_users.user(host, test_users.MALLORY) as mallory:
                mallory.do(test_users.JOB, job="late")
            send(first[test_users.ALICE])
            assert "ended by signal 6" in alice.do("thread.join(60); result = str(told[0])")
            for _ in range(2):  # also by a daemon that has not crashed itself
                with pytest.raises(host_user.Refused, match="ended by signal 6"):
                    alice.do("result = next(iter(made()))")
                quiet = host.daemons()[test_users.ALICE]
                os.kill(quiet, signal.SIGKILL)
                until(lambda pid=quiet: f"ended uid={test_users.ALICE} pid={pid}" in host.log())
            alice.do(test_users.JOB, job="another")
            assert host.daemons()[test_users.BOB] == first[test_users.BOB]
            # The same pipeline of somebody else has crashed nothing.
            bob.do(TRAIN + "result = next(iter(made())).records.tolist() and None", folder=str(folder))
