"""The daemon's pages for Prometheus: what they say, that documents agree, that rubbish harms nothing."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemons import Daemon, running, until
from streams import numbers, records
from test_dashboard import panels

import carya
from carya import _core, _programs

ROOT = Path(__file__).parents[2]
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\["\\n])*",?)+)\})? (\S+)')


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with running("--metrics", "127.0.0.1:0") as started:
        yield started


def port(daemon: Daemon) -> int:
    line = until(lambda: [line for line in _core.daemon_logs(daemon.socket, 1000) if "metrics address=" in line])
    return int(line[0].rsplit(":", 1)[1])


def fetch(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def get(daemon: Daemon, path: str, method: str = "GET") -> tuple[int, str]:
    return fetch(port(daemon), path, method)


def samples(text: str) -> dict[str, dict[str, float]]:
    """Values by name and labels; every line must be one of the format's."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match, line
            found.setdefault(match[1], {})[match[2] or ""] = float(match[3])
    return found


def documented(part: int) -> list[tuple[str, str]]:
    """Names and types of docs/metrics.md: 0: of the daemon, 1: of a worker."""
    text = (ROOT / "docs" / "metrics.md").read_text().split("\n## Of a worker")[part]
    return re.findall(r"^\| `((?:carya|process)_\w+)` \| (\w+) \|", text, re.MULTILINE)


# Of the page of all users alone (test_users.py).
JOINED = {"carya_user_up": "gauge"}


def families(text: str) -> dict[str, str]:
    """Types by name; each has a meaning."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert list(types) == re.findall(r"^# HELP (\S+) \S.*\.$", text, re.MULTILINE)
    return types


def test_figures_are_those_of_the_stream(daemon: Daemon, photos: Path) -> None:
    chain = carya.image_folder(photos).decode_image().center_crop(32).batch(4)
    with carya.Loader(chain, daemon=daemon.socket, job="figures", epochs=1) as loader:
        assert len(records(loader)) == 7
        found = samples(get(daemon, "/metrics")[1])
        here = 'carya_job="figures",rank="0"'
        assert found["carya_samples_total"][here] == 27
        assert found["carya_batches_total"][here] == 7
        assert found["carya_bytes_read_total"][here] == sum(p.stat().st_size for p in photos.rglob("*.*"))
        assert found["carya_reader_stall_seconds_total"][f'{here},replica="0"'] >= 0
        states = {key: value for key, value in found["carya_slots"].items() if key.startswith(here)}
        assert sum(states.values()) == loader.stats()["slots"]["count"]
        ops = [key for key in found["carya_op_cpu_seconds_total"] if key.startswith(here)]
        assert any("decode_image" in key for key in ops), ops
        buckets = [v for key, v in found["carya_read_latency_seconds_bucket"].items() if key.startswith(here)]
        assert buckets == sorted(buckets)
        assert buckets[-1] == found["carya_read_latency_seconds_count"][here] == loader.stats()["reads"]
        assert found["carya_read_latency_seconds_sum"][here] > 0
        assert found["carya_shared_memory_bytes"][""] == loader.stats()["slots"]["bytes"]
        assert found["process_open_fds"][""] > 0


def test_what_is_kept_is_told_by_tier(daemon: Daemon, photos: Path, tmp_path: Path) -> None:
    chain = carya.image_folder(photos).decode_image().random_crop(32, pad_if_needed=True).batch(4)
    cache = {"memory": "64MB", "disk": (tmp_path, "32MB"), "after": "decode_image"}
    with carya.Loader(chain, daemon=daemon.socket, job="kept", epochs=2, cache=cache) as loader:
        for _ in range(2):
            records(loader)
        told = loader.stats()["cache"]
        found = samples(get(daemon, "/metrics")[1])
        here = 'carya_job="kept",rank="0"'
        assert found["carya_cache_looked_total"][here] == told["looked"] > 0
        for tier, figures in {"memory": told, "disk": told["files"][0]}.items():
            labels = f'{here},tier="{tier}"'
            assert found["carya_cache_hits_total"][labels] == figures["hits"]
            assert found["carya_cache_capacity_bytes"][labels] == figures["capacity_bytes"]
        assert found["carya_cache_hits_total"][f'{here},tier="memory"'] > 0
        assert found["carya_cache_written_total"][f'{here},tier="memory"'] == told["filled"]
        assert found["carya_cache_damaged_total"] == {f'{here},tier="disk"': 0}
        assert f'{here},tier="shared"' not in found["carya_cache_bytes"]


def test_jobs_of_functions_are_counted_and_their_time_stays(daemon: Daemon) -> None:
    before = samples(get(daemon, "/metrics")[1])["carya_function_cpu_seconds_total"][""]
    seats = [_core.TurnSeat(daemon.socket) for _ in range(2)]
    for seat in seats:
        seat.report(1.0, 1_500_000_000, 4)
    assert samples(get(daemon, "/metrics")[1])["carya_function_jobs"][""] == 2
    seats.clear()
    found = until(lambda: [one for one in [samples(get(daemon, "/metrics")[1])] if not one["carya_function_jobs"][""]])
    assert found[0]["carya_function_cpu_seconds_total"][""] == before + 3


def test_labels_of_a_client_cannot_break_the_page(daemon: Daemon) -> None:
    name = 'a"b\\c\nd\x01é'
    with carya.Loader(numbers(40, batch_size=4), daemon=daemon.socket, job=name) as loader:
        next(iter(loader))
        labels = samples(get(daemon, "/metrics")[1])["carya_batches_total"]
        assert 'carya_job="a\\"b\\\\c?d?é",rank="0"' in labels


def test_pages_and_methods(daemon: Daemon) -> None:
    assert get(daemon, "/healthz") == (200, "ok\n")
    assert get(daemon, "/readyz") == (200, "ready\n")
    assert get(daemon, "/readyz?x=1")[0] == 200
    assert get(daemon, "/other")[0] == 404
    assert get(daemon, "/metrics", "HEAD") == (200, "")
    assert get(daemon, "/metrics", "POST")[0] == 405


def test_a_unix_socket_is_of_this_user_alone() -> None:
    with running() as first:
        path = Path(first.socket).parent / "metrics.sock"
        for _ in range(2):  # the second finds what the first, killed, left
            with running("--metrics", str(path)), socket.socket(socket.AF_UNIX) as client:
                until(lambda: client.connect_ex(str(path)) == 0)  # after the control socket
                assert path.stat().st_mode & 0o777 == 0o600
                client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert b"200 OK" in client.recv(1000)


@pytest.mark.parametrize(
    "address", ["0.0.0.0:9464", "192.0.2.1:80", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "x"]
)
def test_other_addresses_are_refused(address: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [_programs.program(), "--socket", str(tmp_path / "s"), "--metrics", address],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "give an absolute path, or a port of the loopback" in done.stderr


def test_a_file_in_the_place_of_the_socket_is_named(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("kept")
    command = [_programs.program(), "--socket", str(tmp_path / "s"), "--metrics", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert done.stderr == f"metrics: {file} exists and is no socket; remove it, or give another path\n"
    assert file.read_text() == "kept"
    config = tmp_path / "caryad.toml"
    config.write_text(f'metrics = "{file}"\n')
    command = [_programs.program(), "--socket", str(tmp_path / "s"), "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"{config}: metrics: {file} exists and is no socket; remove it")


def test_documents_name_what_is_exported(daemon: Daemon) -> None:
    types = families(get(daemon, "/metrics")[1]) | JOINED
    rows = documented(0)
    assert dict(rows) == types
    assert len(rows) == len(types)


def test_the_dashboard_uses_what_is_exported(daemon: Daemon) -> None:
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    used = {name for query in queries for name in re.findall(r"\b(?:carya|process)_[a-z_]+\b(?!\))(?=\{)", query)}
    exported = set()
    for name, kind in (families(get(daemon, "/metrics")[1]) | JOINED).items():
        exported |= {name + suffix for suffix in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    assert used <= exported, used - exported
    assert exported <= used, exported - used  # and each of them is shown


HOSTILE = {
    "garbage": b"\x00\xff\x16\x03\x01" * 200,
    "no end": b"GET /metrics HTTP/1.1\r\nX: ",
    "huge header": b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    "huge target": b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "lying length": b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\nx",
    "nothing": b"",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_rubbish_harms_nobody_else(daemon: Daemon, kind: str) -> None:
    with socket.create_connection(("127.0.0.1", port(daemon))) as client:
        with contextlib.suppress(OSError):  # closed while it was sent
            client.sendall(HOSTILE[kind])
        assert get(daemon, "/healthz")[0] == 200
        if kind not in ("no end", "nothing"):
            client.settimeout(60)
            with contextlib.suppress(ConnectionResetError):
                assert not client.recv(100_000).startswith(b"HTTP/1.1 200")
    assert get(daemon, "/metrics")[0] == 200


def test_two_hundred_connections_harm_nobody(daemon: Daemon) -> None:
    before = daemon.status()["descriptors"]
    clients = [socket.create_connection(("127.0.0.1", port(daemon))) for _ in range(200)]
    for client in clients[::2]:
        with contextlib.suppress(OSError):
            client.sendall(b"GET /metrics HT")
    with carya.Loader(numbers(400, batch_size=4), daemon=daemon.socket) as loader:
        assert len(records(loader)) == 100
    assert get(daemon, "/metrics")[0] == 200
    assert daemon.status()["descriptors"] < before + 60
    for client in clients:
        client.close()
    time.sleep(0.1)
    until(lambda: daemon.status()["descriptors"] <= before)
