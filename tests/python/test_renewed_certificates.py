"""Certificates and tokens whose files are renewed while workers and loaders run: no program is started anew for that."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import daemons
import pytest
import workers
from chunk_client import Host
from daemons import until
from fleet_child import FACTS
from streams import epoch_digest
from test_remote import read_until_remote
from test_worker_users import secret, told, usage, vision, with_certificate
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
        until(lambda: "those from before stay" in worker.log() and str(served.key) in worker.log())
        served.become(first)
        assert comes_in(worker, first)
        assert worker.log().count("those from before stay") == 1


def words(path: Path, text: str) -> Path:
    """A file with tokens, put in the place of the one before as a cluster does."""
    return secret(path.with_name("new"), text).replace(path)


def knows(worker: Worker, word: str) -> bool:
    return told(Host(worker.address), None, word) == ""


def test_workers_and_daemons_take_renewed_tokens(photos: Path, tmp_path: Path) -> None:
    served, own = words(tmp_path / "served", "first\n"), words(tmp_path / "own", "first\n")
    config = tmp_path / "caryad.toml"
    with workers.running("--token-file", str(served)) as worker:
        at = f"127.0.0.1:{worker.port}"
        config.write_text(f'[remote]\nworkers = ["{at}"]\ntoken_file = "{own}"\n')
        with (
            daemons.running("--config", str(config)) as daemon,
            carya.Loader(vision(photos), daemon=daemon.socket, threads=1, placement="auto"),
        ):
            until(lambda: usage(worker, "--token-file", str(own)))
            words(served, "ann:second\nthird\n")
            assert not knows(worker, "first")
            assert knows(worker, "second")
            assert knows(worker, "third")
            assert usage(worker, "--token-file", str(words(tmp_path / "third", "third")))  # its connection goes on
            words(own, "third")
            worker.end(signal.SIGKILL)
            with workers.running("--token-file", str(served), "--listen", at) as again:
                until(lambda: usage(again, "--token-file", str(own)))  # a connection of its own, by the new word


def test_a_worker_that_cannot_use_new_tokens_says_so_and_keeps_its_own(tmp_path: Path) -> None:
    served = words(tmp_path / "served", "first\n")
    with workers.running("--token-file", str(served)) as worker:
        for text, mode, why in (("", 0o600, "give 1 to"), ("ann:\n", 0o600, "line 1"), ("second", 0o644, "chmod 600")):
            words(served, text).chmod(mode)
            assert knows(worker, "first")
            assert not knows(worker, "second")
            until(lambda why=why: why in worker.log())
        served.unlink()
        assert knows(worker, "first")
        until(lambda: "No such file" in worker.log())
        assert worker.log().count("those from before stay") == 4
        words(served, "second")
        assert knows(worker, "second")
        assert not knows(worker, "first")
