"""What fails beside a daemon's jobs: workers and folders of samples. No job fails with them, and the log says so."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workers
from daemons import Daemon, running, until
from streams import digest, numbers
from test_cache_files import crops, photos  # noqa: F401

import carya
from carya import _core, _programs


def chain() -> carya.Pipeline:
    return numbers(64, batch_size=4)


@pytest.fixture(scope="module")
def expected() -> str:
    with carya.Loader(chain(), epochs=1, threads=1, daemon="embedded") as loader:
        return digest(loader)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def configured(folder: Path, text: str) -> str:
    path = folder / "caryad.toml"
    path.write_text(text)
    return str(path)


def warnings(daemon: Daemon, about: str) -> list[str]:
    """The lines of the log about this, without their time."""
    lines = [re.sub(r"^\S+ ", "", line) for line in _core.daemon_logs(daemon.socket, 1000)]
    return [line for line in lines if about in line]


def test_a_name_that_nobody_knows_costs_no_job(expected: str, tmp_path: Path) -> None:
    file = configured(tmp_path, '[remote]\nworkers = ["no-such-host.invalid:7070"]\ninsecure = true\n')
    with running("--config", file) as daemon:
        for job in ("first", "second"):
            with carya.Loader(chain(), daemon=daemon.socket, job=job, epochs=1, threads=1) as loader:
                assert digest(loader) == expected
                (worker,) = loader.placement()["workers"]
                assert worker["state"] in ("down", "parked")
                assert worker["reason"].endswith("; give a name that this host can look up, or an IP address")
                until(lambda: warnings(daemon, "no-such-host.invalid:7070"))
        said = warnings(daemon, "no-such-host.invalid:7070")
        assert [line for line in said if "attached" not in line] == said
        (line,) = said
        assert line.startswith('warning worker is away address=no-such-host.invalid:7070 why="')


def test_names_of_a_fleet_are_looked_up_until_somebody_knows_them(
    photos: Path,  # noqa: F811
    short: Path,
) -> None:
    """A fleet may say its workers before its resolver knows them."""
    child = short / "child.py"
    child.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    event = {'event': 'ready', 'most': 1} if json.loads(line)['command'] == 'start' else\\\n"
        "        {'event': 'members', 'members': ['no-such-host.invalid:7070']}\n"
        "    print(json.dumps(event), flush=True)\n"
    )
    command = f'fleet_command = ["{sys.executable}", "{child}"]'
    file = configured(short, f"[remote]\n{command}\ninsecure = true\nworker_price = 0.001\n")
    # So much work that the loop is short of batches also where it waits for a core itself.
    costly = carya.image_folder(str(photos)).decode_image().resize((512, 512)).gaussian_blur(21).batch(4)
    with running("--config", file) as daemon, carya.Loader(costly, daemon=daemon.socket, threads=1) as loader:

        def said() -> list[str]:
            for _ in loader:  # as fast as it can, so that workers would help
                pass
            return [line for line in loader.placement()["events"] if "worker=no-such-host.invalid:7070 why=" in line]

        until(said)
        assert loader.placement()["workers"] == [], "it is added once its name is known"


def test_what_is_wrong_with_the_workers_of_the_file_names_the_file(tmp_path: Path) -> None:
    file = configured(tmp_path, '[remote]\nworkers = ["192.0.2.1:7070"]\n')
    with (
        running("--config", file) as daemon,
        pytest.raises(carya.InvalidArgument, match=r"\[remote\] in caryad.toml: worker 192.0.2.1:7070 is another"),
    ):
        carya.Loader(chain(), daemon=daemon.socket)


def test_a_worker_that_goes_and_comes_back_is_said(expected: str, short: Path) -> None:
    address = f"unix:{short}/w"
    file = configured(short, f'[remote]\nworkers = ["{address}"]\n')
    with running("--config", file) as daemon:
        with workers.running("--listen", address):
            loader = carya.Loader(chain(), daemon=daemon.socket, job="train", epochs=1, threads=1)
            until(lambda: loader.placement()["workers"][0]["state"] == "up")
        away = f"warning worker is away address={address} why="
        until(lambda: [line for line in warnings(daemon, address) if line.startswith(away)])
        with workers.running("--listen", address):
            until(lambda: f"warning worker is back address={address}" in warnings(daemon, address))
            assert digest(loader) == expected
        loader.close()


def test_a_folder_of_samples_that_cannot_be_used_is_said(
    photos: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    place = tmp_path / "file"
    place.write_text("")
    file = configured(tmp_path, f'[cache]\ndisk = "{place}"\ndisk_size = "16MB"\n')
    options: dict[str, Any] = {"job": "kept", "epochs": 2, "threads": 1, "cache": {"disk": "16MB"}}
    with running("--config", file) as daemon, carya.Loader(crops(photos), daemon=daemon.socket, **options) as loader:
        digest(loader)
        until(lambda: warnings(daemon, f"path={place}"))
        assert warnings(daemon, f"path={place}")[0].startswith(
            f"warning cache folder is not used for now path={place} why="
        )


def test_a_worker_takes_its_socket_along(short: Path) -> None:
    path = short / "w"
    with workers.running("--listen", f"unix:{path}") as worker:
        assert path.is_socket()
        assert worker.end() == 0
        assert not path.exists()


def test_quotes_stand_in_the_log(tmp_path: Path) -> None:
    """And make no field of a value."""
    with running() as daemon:
        with carya.Loader(chain(), daemon=daemon.socket, job='a "b" uid=0', threads=1):
            until(lambda: warnings(daemon, "attached"))
        assert r'job="a \"b\" uid=0"' in warnings(daemon, "attached")[0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('\nmetrics = "0.0.0.0:9464"', ":2: metrics: got '0.0.0.0:9464'; give an absolute path, or a port of"),
        ('[remote]\nworkers = ["w"]', ":2: remote.workers: got [ 'w' ]; give a list of addresses such as"),
        (
            '[remote]\nworkers = ["w:1"]\ndns = "dns://w:1"',
            ":3: remote.dns: got 'dns://w:1' beside workers; give one of",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text: str, error: str, tmp_path: Path) -> None:
    file = configured(tmp_path, text)
    command = [_programs.program(), "--socket", str(tmp_path / "s"), "--config", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert f"{file}{error}" in done.stderr


def test_tls_on_one_side_only_is_said_to_be_that(tmp_path: Path) -> None:
    files = workers.make_certificates(tmp_path / "ca", "127.0.0.1")
    server = ["--cert", files["server.pem"], "--key", files["server.key"], "--ca", files["ca.pem"]]
    own = {"cert": files["client.pem"], "key": files["client.key"], "ca": files["ca.pem"]}
    cases: list[tuple[list[str], dict[str, Any], str, str]] = [
        (server, {"insecure": True}, "where it wants TLS, this side needs it too; give certificates", "speaks no TLS"),
        ([], own, "the peer speaks no TLS; start the worker with --cert, --key and --ca", "the peer speaks TLS"),
    ]
    for arguments, tls, host_says, worker_says in cases:
        with workers.running(*arguments) as worker:
            address = f"127.0.0.1:{worker.port}"
            with carya.Loader(chain(), remote=[address], remote_tls=tls, threads=1) as loader:
                until(lambda loader=loader: loader.placement()["workers"][0]["reason"])
                assert host_says in loader.placement()["workers"][0]["reason"]
            until(lambda worker=worker, text=worker_says: text in worker.log())
