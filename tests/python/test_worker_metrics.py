"""What a carya-worker says of itself to Prometheus: `--metrics`."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import workers
from chunk_client import Host
from daemons import until
from fleet_child import FACTS
from test_metrics import documented, families, fetch, samples
from test_worker_users import chunks_come, options, vision
from workers import Worker

import carya
from carya import _programs


def get(worker: Worker, path: str) -> tuple[int, str]:
    found = re.search(r"metrics address=127\.0\.0\.1:(\d+)", worker.log())
    assert found
    return fetch(int(found[1]), path)


def figures(worker: Worker) -> dict[str, float]:
    return {name: values[""] for name, values in samples(get(worker, "/metrics")[1]).items()}


def test_the_figures_follow_what_a_worker_does(photos: Path) -> None:
    with workers.running("--metrics", "127.0.0.1:0") as worker:
        before = figures(worker)
        assert before["carya_serving_threads"] == 1
        assert before["carya_serving_connections"] == before["carya_serving_chunks_total"] == 0
        assert get(worker, "/healthz") == (200, "ok\n")
        assert get(worker, "/readyz") == (200, "ready\n")
        with carya.Loader(vision(photos), **options(worker, {}, daemon="embedded")) as loader:
            chunks_come(loader)
            came = loader.stats()["remote_chunks"]
            now = figures(worker)
            assert now["carya_serving_connections"] == now["carya_serving_connections_total"] == 1
            assert now["carya_serving_chunks_total"] >= came > 0
            assert now["process_cpu_seconds_total"] > before["process_cpu_seconds_total"]


def test_one_that_drains_is_not_ready() -> None:
    """It waits until its hosts leave; meanwhile it answers."""
    with workers.running("--metrics", "127.0.0.1:0", "--grace", "600") as worker, Host(worker.address) as host:
        assert host.hello(facts=FACTS)[0] == "Welcome"
        until(lambda: figures(worker)["carya_serving_connections"] == 1)
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: get(worker, "/readyz") == (503, "draining\n"))
        assert figures(worker)["carya_serving_draining"] == 1


def test_documents_name_what_a_worker_exports() -> None:
    with workers.running("--metrics", "127.0.0.1:0") as worker:
        assert dict(documented(1)) == families(get(worker, "/metrics")[1])


def test_addresses_that_others_reach_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for address, why in (("0.0.0.0:9465", "a port of the loopback"), (str(file), "exists and is no socket")):
        command = [_programs.program("carya-worker"), "--listen", "127.0.0.1:0", "--metrics", address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode in (1, 2)
        assert why in done.stderr.splitlines()[-1]
