"""carya.fleet.ray: its description, and its child process on a real local Ray cluster."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from daemons import until
from fleet_child import child, greeted, listens
from streams import digest, epoch_digest

import carya
from carya import fleet


def test_a_description_is_data() -> None:
    made = carya.fleet.ray(address="head:6379", max_workers=3, cpus_per_worker=2, price=0.4, insecure=True)
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.command == (sys.executable, "-m", "carya.fleet.ray")
    assert json.loads(made.options) == {
        "address": "head:6379",
        "max_workers": 3,
        "cpus_per_worker": 2,
        "resources": {},
        "arguments": ["--insecure", "--threads", "2"],
    }
    secured = json.loads(fleet.ray(cert="/a", key="/b", ca="/c", cpus_per_worker=1).options)["arguments"]
    assert secured == ["--cert", "/a", "--key", "/b", "--ca", "/c", "--threads", "1"]


@pytest.mark.parametrize(
    "wrong",
    [{"address": ""}, {"max_workers": 0}, {"cpus_per_worker": 0}, {"price": -1.0}, {"cert": "/a"}],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(carya.InvalidArgument, match=next(iter(wrong))):
        fleet.ray(**wrong)


@contextmanager
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without room for workers."""
    pytest.importorskip("ray", reason="Ray is not installed: the fleet on Ray is not tested")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        yield cluster
    finally:
        cluster.shutdown()


def test_a_loader_s_workers_on_a_ray_cluster(monkeypatch: pytest.MonkeyPatch, photos: Path) -> None:
    pipeline = carya.image_folder(photos).shuffle(seed=11).decode_image().random_resized_crop(48).batch(4)
    expected = epoch_digest(pipeline)
    with ray_cluster(monkeypatch) as cluster:
        first = cluster.add_node(num_cpus=1)
        cluster.add_node(num_cpus=1)
        made = carya.fleet.ray(address=cluster.address, max_workers=2, cpus_per_worker=1, insecure=True)
        options: dict[str, Any] = {"remote": made, "placement": "remote:2", "remote_tls": {"insecure": True}}
        with carya.Loader(pipeline, threads=1, daemon="embedded", **options) as loader:

            def chunks(workers: int) -> list[int]:
                loader.set_epoch(0)
                assert digest(loader) == expected
                up = [one["chunks"] for one in loader.placement()["workers"] if one["state"] == "up"]
                return up if len(up) == workers else [0]

            until(lambda: min(chunks(2)) > 0)
            cluster.remove_node(first, allow_graceful=False)
            until(lambda: min(chunks(1)) > 0)
            cluster.add_node(num_cpus=1)
            until(lambda: min(chunks(2)) > 0)


def test_workers_on_a_ray_cluster_come_go_and_survive_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    with ray_cluster(monkeypatch) as cluster:
        first = cluster.add_node(num_cpus=1)
        cluster.add_node(num_cpus=1)
        made = carya.fleet.ray(address=cluster.address, max_workers=3, cpus_per_worker=1, insecure=True)
        with child(made) as ray:
            assert ray.hear("ready")["most"] == 3
            assert ray.members(lambda found: True) == []
            ray.say(command="scale", count=2)
            two = ray.members(lambda found: len(found) == 2)
            assert all(greeted(member) for member in two)
            ray.say(command="scale", count=1)
            one = ray.members(lambda found: len(found) == 1)
            assert one[0] in two
            assert greeted(one[0])
            (ended,) = set(two) - set(one)
            until(lambda: not listens(ended))
            ray.say(command="scale", count=2)
            two = ray.members(lambda found: len(found) == 2)
            # A node is lost: its worker goes, and another is started when there is room again.
            cluster.remove_node(first, allow_graceful=False)
            left = ray.members(lambda found: len(found) == 1)
            assert left[0] in two
            assert any(line["event"] == "log" for line in ray.seen)
            cluster.add_node(num_cpus=1)
            two = ray.members(lambda found: len(found) == 2)
            assert all(greeted(member) for member in two)
            # A child that is killed takes its actors along: Ray ends those whose owner is gone.
            with child(made) as other:
                other.hear("ready")
                cluster.add_node(num_cpus=1)
                other.say(command="scale", count=1)
                third = other.members(lambda found: len(found) == 1)
                other.process.kill()
                until(lambda: not any(listens(member) for member in third))
            # The end of its input ends it and all workers.
            assert ray.process.stdin
            ray.process.stdin.close()
            assert ray.process.wait(300) == 0
            until(lambda: not any(listens(member) for member in two))
