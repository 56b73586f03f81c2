"""A store that drips: whoever stops, or goes away, does not wait for the answer."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemons import running, until
from store_data import BUCKET, forget_credentials
from stores import FaultStore

# Of one member, behind which the index looks for the next: 64 KiB come in 51 s, and another block in 102 s.
LARGE = 200_000

OPENING = """
import carya, sys
url, daemon = sys.argv[1:]
pipeline = carya.webdataset(f"{url}/train-{{0000..0001}}.tar").decode_image().resize((32, 32)).batch(4)
try:
    carya.Loader(pipeline, daemon=daemon)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def large_tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("0.jpg")
        member.size = LARGE
        tar.addfile(member, io.BytesIO(bytes(LARGE)))
    return buffer.getvalue()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultStore]:
    """The first tar is whole, and the second one never comes."""
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    objects = {f"/{BUCKET}/train-{number:04}.tar": large_tar() for number in range(2)}
    with FaultStore(objects) as made:
        made.fault = lambda path, count: "drip" if "0001" in path else ""
        yield made


def opens(store: FaultStore, daemon: str) -> subprocess.Popen[str]:
    """A process that opens a loader, and waits for the store."""
    child = subprocess.Popen(
        [sys.executable, "-c", OPENING, f"{store.url}/{BUCKET}", daemon], stdout=subprocess.PIPE, text=True
    )
    until(lambda: store.dripping)
    return child


def asked(store: FaultStore) -> int:
    """The requests for the tar that never comes."""
    return sum(method == "GET" and "0001" in path for method, path, _ in store.seen)


def test_a_daemon_that_stops_waits_for_no_drip(store: FaultStore) -> None:
    with running() as daemon:
        child = opens(store, daemon.socket)
        assert daemon.end(signal.SIGTERM) == 0
        until(lambda: store.cut)
        child.kill()
        child.wait()


def test_a_daemon_waits_for_nobody_who_is_gone(store: FaultStore) -> None:
    with running() as daemon:
        child = opens(store, daemon.socket)
        child.kill()
        child.wait()
        until(lambda: store.cut)
        assert asked(store) == 1


def test_ctrl_c_ends_an_opening(store: FaultStore) -> None:
    child = opens(store, "embedded")
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=300)[0] == "interrupted\n"
    until(lambda: store.cut)
    assert asked(store) == 1
