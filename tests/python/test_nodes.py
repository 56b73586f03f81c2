"""Threads on the nodes of a machine that says it has two (NUMA), in a mount namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_daemon_namespaces import namespaces

from carya._loading.devices import node_of_pci

SCRIPT = """
import json, os
from contextlib import ExitStack
from pathlib import Path
import numpy as np
import carya
from daemons import running, until

class Beside(carya.Loader):
    pass

def computing(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text() == "carya-compute\\n":
            lines = (task / "status").read_text().splitlines()
            found.append(next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list")))
    return sorted(found)

def read(pid, *jobs):
    # On which cores the threads come to run that compute these jobs (a node, threads) at the same time, and what they make.
    pipeline = carya.arrays({"x": np.arange(6400).reshape(640, 10)}).shuffle(seed=3).batch(4)
    with ExitStack() as stack:
        loaders = []
        for i, (node, threads) in enumerate(jobs):
            Beside._node = node
            where = {"daemon": "embedded"} if pid == os.getpid() else {"daemon": daemon.socket, "job": f"job {i}"}
            loaders.append(stack.enter_context(Beside(pipeline, threads=threads, **where)))
        first = next(iter(loaders[0]))["x"].tolist()

        def bound():
            for loader in loaders:
                for _ in loader:
                    pass
            found = computing(pid)
            return len(found) == sum(threads for _, threads in jobs) and all(map(str.isdigit, found)) and found

        cores = until(bound, 60)
        slots = loaders[0].stats()["slots"]
    return {"cores": cores, "first": first, "node": slots["node"], "nodes": slots["nodes"]}

with running() as daemon:
    made = daemon.process.pid
    print(json.dumps([read(os.getpid(), (-1, 2)), read(made, (1001, 1)), read(made, (1001, 1), (1000, 1))]))
"""

pytestmark = pytest.mark.skipif(bool(namespaces()), reason=namespaces())


def test_threads_run_where_batches_are_wanted(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("one core")
    for node, core in enumerate(cores, 1000):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(f"{core}\n")
    enter = 'mount --bind "$0" /sys/devices/system/node && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", enter, str(tmp_path), sys.executable, "-c", SCRIPT]
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    embedded, one, two = json.loads(done.stdout)
    assert embedded["cores"] == two["cores"] == sorted(map(str, cores))
    assert one["cores"] == [str(cores[1])]
    assert embedded["first"] == one["first"] == two["first"]
    # No kernel has such a node: it was not to be had, and all pages are counted where they are.
    assert embedded["node"] is None
    assert one["node"] is None
    assert sum(one["nodes"].values()) == pytest.approx(1) or not one["nodes"]


def test_the_node_of_a_device_is_the_kernels(tmp_path: Path) -> None:
    about = tmp_path / "0000:c1:00.0"
    about.mkdir()
    for text, node in (("1\n", 1), ("-1\n", -1), ("-7\n", -1), ("", -1), ("x", -1)):
        (about / "numa_node").write_text(text)
        assert node_of_pci(0, 0xC1, 0, str(tmp_path)) == node
    assert node_of_pci(0, 0xC2, 0, str(tmp_path)) == -1
