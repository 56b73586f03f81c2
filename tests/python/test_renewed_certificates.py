"""Certificates whose files are renewed while workers and loaders run: no program is started anew for that."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
import workers
from daemons import until
from fleet_child import FACTS
from streams import epoch_digest
from test_remote import read_until_remote
from test_worker_users import vision, with_certificate
from workers import Worker, make_certificates

import carya


class Mounted:
    """A folder with the certificate of a side, its key and its authority, as a cluster mounts a secret."""

    def __init__(self, folder: Path, side: str, files: dict[str, str]) -> None:
        self._side = side
        self.cert, self.key, self.ca = (folder / name for name in ("tls.crt", "tls.key", "ca.crt"))
        folder.mkdir()
        self.become(files)

    def become(self, files: dict[str, str]) -> None:
        of = {self.key: f"{self._side}.key", self.ca: "ca.pem", self.cert: f"{self._side}.pem"}
        for path, name in of.items():
            shutil.copy(files[name], f"{path}.new")
            os.replace(f"{path}.new", path)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_certificates(tmp_path_factory.mktemp("first"), "127.0.0.1")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_certificates(tmp_path_factory.mktemp("second"), "127.0.0.1")


def comes_in(worker: Worker, files: dict[str, str]) -> bool:
    try:
        with with_certificate(worker.address, files, "client") as host:
            return bool(host.hello(facts=FACTS)[0] == "Welcome")
    except (OSError, EOFError):
        return False


def test_workers_and_loaders_take_renewed_certificates(
    photos: Path, tmp_path: Path, first: dict[str, str], second: dict[str, str]
) -> None:
    served, own = Mounted(tmp_path / "worker", "server", first), Mounted(tmp_path / "host", "client", first)
    arguments = ("--cert", str(served.cert), "--key", str(served.key), "--ca", str(served.ca))
    expected = epoch_digest(vision(photos))
    with workers.running(*arguments) as worker:
        tls = {"cert": str(own.cert), "key": str(own.key), "ca": str(own.ca)}
        at = f"127.0.0.1:{worker.port}"
        with carya.Loader(
            vision(photos), remote=[at], placement="remote:1", remote_tls=tls, threads=1, daemon="embedded"
        ) as loader:
            assert read_until_remote(loader) == expected
            served.become(second)
            assert not comes_in(worker, first)
            assert comes_in(worker, second)
            assert read_until_remote(loader) == expected  # its connection goes on
            own.become(second)
            worker.end(signal.SIGKILL)
            with workers.running(*arguments, "--listen", at):
                assert read_until_remote(loader) == expected  # a connection of its own, by the new ones


def test_a_worker_that_cannot_use_new_certificates_says_so_and_keeps_its_own(
    tmp_path: Path, first: dict[str, str]
) -> None:
    served = Mounted(tmp_path / "worker", "server", first)
    with workers.running("--cert", str(served.cert), "--key", str(served.key), "--ca", str(served.ca)) as worker:
        served.key.write_text("half a ke")
        assert comes_in(worker, first)
        until(lambda: "new certificates are not used" in worker.log() and str(served.key) in worker.log())
        served.become(first)
        assert comes_in(worker, first)
        assert worker.log().count("new certificates are not used") == 1
