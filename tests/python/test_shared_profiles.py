"""Hosts that share a cache folder: a job on one of them begins with what a job on another one found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workers
from workers import Worker

# One job of one host: it reads epochs until its placement is answered, or a number of them, and says what it began with.
JOB = """
import json, socket, sys, time
import carya

photos, worker, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
pipeline = carya.image_folder(photos).shuffle(seed=11).decode_image().random_resized_crop(48).batch(4)
options = {"remote": [worker], "threads": 1, "objective": "speed", "daemon": "embedded"}
phases, seen = set(), 0
with carya.Loader(pipeline, **options) as loader:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        loader.set_epoch(0)
        for batch in loader:
            pass
        seen += 1
        placement = loader.placement()
        phases.add(placement["phase"])
        answered = placement["phase"] in ("starting", "verifying", "settled") and placement["workers"][0]["chunks"] > 0
        if answered if epochs == 0 else seen >= epochs and placement["phase"] != "connecting":
            break
    print(json.dumps({
        "host": socket.gethostname(),
        "phases": sorted(phases),
        "earlier": loader.placement().get("earlier"),
        "log": loader.stats()["plan_log"],
    }))
"""


@pytest.fixture
def worker() -> Iterator[Worker]:
    with workers.running("--insecure") as started:
        yield started


class Host:
    """A host of its own name, where this system lets one be made, with the shared folder at its cache folder."""

    def __init__(self, name: str, shared: Path, home: Path) -> None:
        home.mkdir()
        self._command = [sys.executable, "-c", JOB]
        if os.geteuid() == 0 and shutil.which("unshare"):
            named = ["unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh"]
            if subprocess.run([*named, "true"], capture_output=True, check=False).returncode == 0:
                self._command = [*named, *self._command]
        self._environment = {**os.environ, "CARYA_CACHE_DIR": str(shared), "HOME": str(home)}

    def start(self, photos: Path, worker: Worker, epochs: int = 0) -> subprocess.Popen[str]:
        arguments = [str(photos), f"127.0.0.1:{worker.port}", str(epochs)]
        return subprocess.Popen([*self._command, *arguments], env=self._environment, stdout=subprocess.PIPE, text=True)

    def run(self, photos: Path, worker: Worker, epochs: int = 0) -> dict[str, Any]:
        return said(self.start(photos, worker, epochs))


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_job_on_another_host_begins_with_the_answer_of_the_first(
    photos: Path, worker: Worker, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    one, two = (Host(name, shared, tmp_path / name) for name in ("host-one", "host-two"))
    first = one.run(photos, worker)
    assert first["earlier"] is None
    (kept,) = shared.glob("profile-*.json")
    known = json.loads(kept.read_text())["overflow"]
    second = two.run(photos, worker)
    assert second["earlier"] == {"workers": known["workers"], "ops_remote": known["ops_remote"]}
    assert "first worker" not in second["phases"]
    whole = kept.read_text()
    # What a host that died in the middle, or one that lies, may have left there holds nobody up.
    for bad in (whole[: len(whole) // 2], "", "[" * 10_000, whole.replace('"workers":', '"workers": -'), "\0" * 4096):
        kept.write_text(bad)
        again = two.run(photos, worker, epochs=1)
        assert again["earlier"] is None
        assert any("profile" in line for line in again["log"])
    # Hosts that write at once leave one whole profile, and nothing else beside it.
    for process in [host.start(photos, worker, epochs=3) for host in (one, two) for _ in range(2)]:
        said(process)
    (left,) = shared.glob("*profile*")
    assert left == kept
    assert json.loads(kept.read_text())["carya_profile"] == 1
