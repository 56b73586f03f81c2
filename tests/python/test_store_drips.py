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


LIBRARIES = """
import carya, sys, threading
kind, url = sys.argv[1:]
try:
    if kind == "rows":
        rows = carya.parquet(f"{url}/a.parquet", unpack_max=0)
        print("made", flush=True)
        sys.stdin.readline()
        rows[0]
    elif kind == "parquet":
        carya.parquet(f"{url}/{{a,b}}.parquet")
    else:
        carya.text(f"{url}/{{a,b}}.txt", copy=kind == "text")
except KeyboardInterrupt:
    # A thread of pyarrow's that logged something counts as a dummy for good: it is none that Python waits for.
    ours = [one.name for one in threading.enumerate() if not isinstance(one, threading._DummyThread)]
    print("interrupted", *ours, flush=True)
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


@pytest.mark.parametrize("kind", ["text", "lines", "parquet", "rows"])
def test_ctrl_c_ends_what_other_threads_ask(store: FaultStore, kind: str) -> None:
    """Copies, blocks of streamed lines, footers, and row groups, of which threads of pyarrow ask."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    noise = io.BytesIO()
    table = arrow.table({"x": [number * 0x9E3779B97F4A7C15 % 2**63 for number in range(LARGE // 8)]})
    parquet.write_table(table, noise, compression="none", use_dictionary=False)
    for name in "ab":
        store.objects[f"/{BUCKET}/{name}.parquet"] = noise.getvalue()
        store.objects[f"/{BUCKET}/{name}.txt"] = bytes(LARGE)
    sound = {"lines": 2, "rows": 1 << 30}.get(
        kind, 0
    )  # answers: the beginnings of two texts, or all until the child is ready
    store.fault = lambda path, count: "" if count <= sound and not child_is_ready else "drip"
    child_is_ready = False
    child = subprocess.Popen(
        [sys.executable, "-c", LIBRARIES, kind, f"{store.url}/{BUCKET}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    if kind == "rows":
        assert child.stdout.readline() == "made\n"
        child_is_ready = True
        child.stdin.write("\n")
        child.stdin.flush()
    until(lambda: store.dripping)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=300)[0] == "interrupted MainThread\n"
    until(lambda: store.cut)
