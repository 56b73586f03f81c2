"""Loaders with workers: real carya-workers, whoever computes and whoever dies, the same bits; what they say of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
import workers
from daemons import running as running_daemon
from daemons import until
from proxies import Proxy
from streams import digest, epoch_digest
from workers import Worker

import carya
from carya import _core
from carya._loading import remote


@pytest.fixture
def worker() -> Iterator[Worker]:
    with workers.running("--insecure") as started:
        yield started


def vision(photos: Path, **batch: Any) -> carya.Pipeline:
    chain = carya.image_folder(photos).shuffle(seed=11).decode_image().random_resized_crop(48)
    return chain.random_horizontal_flip().normalize(0.5, 0.5).batch(**(batch or {"batch_size": 4}))


def at(*found: Worker) -> list[str]:
    return [f"127.0.0.1:{one.port}" for one in found]


def read_until_remote(loader: carya.Loader, chunks: int = 1) -> str:
    """Epoch 0 again and again until workers have computed so many chunks more; its digest, the same every time."""
    wanted = loader.stats()["remote_chunks"] + chunks
    loader.set_epoch(0)
    first = digest(loader)
    for _ in range(20_000):
        if loader.stats()["remote_chunks"] >= wanted:
            return first
        loader.set_epoch(0)
        assert digest(loader) == first
    raise AssertionError(str(loader.placement()))


@pytest.mark.parametrize("tier", ["memory", "disk"])
@pytest.mark.parametrize("room", [150_000, "64MB"], ids=["some", "all"])
def test_samples_are_kept_beside_workers(photos: Path, worker: Worker, tmp_path: Path, tier: str, room: Any) -> None:
    pipeline = carya.image_folder(photos).shuffle(seed=11).decode_image().resize((64, 64)).random_resized_crop(48)
    pipeline = pipeline.random_horizontal_flip().batch(4)
    cache = {tier: room if tier == "memory" else (tmp_path / "tier", room)}
    remote: dict[str, Any] = {"remote": at(worker), "placement": "remote:1", "threads": 1}
    with (
        carya.Loader(pipeline, threads=1) as plain,
        carya.Loader(pipeline, prefetch_epochs=False, cache=cache, **remote) as loader,
    ):

        def epoch() -> tuple[int, int]:
            """What it brought: chunks of the worker, and samples that were kept."""
            before = loader.stats()
            assert digest(loader) == digest(plain)
            after = loader.stats()
            hits = [
                figures["cache"]["hits"] + sum(tier["hits"] for tier in figures["cache"]["files"])
                for figures in (before, after)
            ]
            return after["remote_chunks"] - before["remote_chunks"], hits[1] - hits[0]

        seen = [epoch()]
        if room == "64MB":  # in the end the worker is not needed
            until(lambda: seen.append(epoch()) or (seen[-1][0] == 0 and seen[-1][1] > 0))
        else:
            until(lambda: seen.append(epoch()) or (seen[-1][0] > 0 and any(hits > 0 for _, hits in seen)))


# The same bits ---------------------------------------------------------------------------------------------------------


def test_fixed_workers_give_the_bits_of_the_host(photos: Path, worker: Worker) -> None:
    with carya.Loader(vision(photos), remote=at(worker), placement="remote:1", threads=1) as loader:
        assert read_until_remote(loader) == epoch_digest(vision(photos))
        placement = loader.placement()
        assert placement["phase"] == "fixed"
        assert placement["running"]["workers"] == 1
        assert placement["workers"][0]["state"] == "up"
        assert placement["workers"][0]["chunks"] > 0


def test_a_worker_that_is_killed_and_comes_back_changes_no_bit(photos: Path) -> None:
    with workers.running("--insecure") as first:
        (address,) = at(first)
    expected = epoch_digest(vision(photos))
    with carya.Loader(vision(photos), remote=[address], placement="remote:1", threads=1) as loader:
        for _ in range(3):
            with workers.running("--insecure", "--listen", address) as started:
                assert read_until_remote(loader) == expected
                loader.set_epoch(0)
                batches = iter(loader)
                next(batches)
                started.end(signal.SIGKILL)
                loader.set_epoch(0)
                assert digest(loader) == expected


@pytest.mark.parametrize("grace", ["25", "0"])
def test_a_worker_that_is_told_to_end_counts_as_no_fault(photos: Path, grace: str) -> None:
    """As before a spot machine ends: what it has comes home, or is given back; no bit changes."""
    expected = epoch_digest(vision(photos))
    with workers.running("--insecure", "--grace", grace) as first, workers.running("--insecure") as second:
        remote: dict[str, Any] = {"remote": at(first, second), "placement": "remote:2", "threads": 1}
        with carya.Loader(vision(photos), **remote) as loader:

            def chunks(number: int) -> int:
                loader.set_epoch(0)
                assert digest(loader) == expected
                return int(loader.placement()["workers"][number]["chunks"])

            until(lambda: chunks(0) > 0 and chunks(1) > 0)
            loader.set_epoch(0)
            next(iter(loader))
            first.process.send_signal(signal.SIGTERM)
            assert first.process.wait(300) == 0
            before = chunks(1)
            until(lambda: chunks(1) > before)
            worker = loader.placement()["workers"][0]
            assert worker["failed"] == 0
            assert worker["state"] in ("down", "connecting")  # it is looked for again, and is not parked for its end
            assert "goes away" in str(loader.placement()["events"])
            if grace != "0":
                assert worker["lost"] == 0


def test_a_fleet_that_gives_up_a_worker_waits_for_what_it_has(photos: Path, worker: Worker, tmp_path: Path) -> None:
    """A child that forgets a worker, and finds it again."""
    script = tmp_path / "child.py"
    wanted = tmp_path / "members"
    wanted.write_text(json.dumps(at(worker)))
    script.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked['command'] == 'start': print(json.dumps({'event': 'ready', 'most': 1}), flush=True)\n"
        "    if asked['command'] == 'stop': break\n"
        f"    print(json.dumps({{'event': 'members', 'members': json.load(open({str(wanted)!r}))}}), flush=True)\n"
    )
    fleet = carya.fleet.ChildFleet((sys.executable, str(script)), "{}")
    expected = epoch_digest(vision(photos))
    with carya.Loader(vision(photos), remote=fleet, placement="remote:1", threads=1) as loader:

        def there(count: int) -> bool:
            loader.set_epoch(0)
            assert digest(loader) == expected
            found = [one for one in loader.placement()["workers"] if one["state"] == "up"]
            assert not any(one["lost"] for one in found)
            return len(found) == count

        for _ in range(2):
            assert read_until_remote(loader) == expected
            wanted.write_text("[]")
            until(lambda: there(0))
            wanted.write_text(json.dumps(at(worker)))
            until(lambda: there(1))


def test_workers_that_are_not_there_are_not_missed(photos: Path, tmp_path: Path) -> None:
    with carya.Loader(vision(photos), remote=[f"unix:{tmp_path}/none"], placement="remote:1") as loader:
        assert digest(loader) == epoch_digest(vision(photos))
        assert loader.stats()["remote_chunks"] == 0


def test_a_name_stands_for_workers(photos: Path, worker: Worker) -> None:
    remote: dict[str, Any] = {"remote": f"dns://localhost:{worker.port}", "placement": "remote:1", "threads": 1}
    with carya.Loader(vision(photos), **remote) as loader:
        assert read_until_remote(loader) == epoch_digest(vision(photos))


def test_a_child_process_runs_the_workers(photos: Path, worker: Worker, tmp_path: Path) -> None:
    fleet = child_of_workers(tmp_path, *at(worker))
    with carya.Loader(vision(photos), remote=fleet, placement="remote:1", threads=1) as loader:
        assert read_until_remote(loader) == epoch_digest(vision(photos))
        assert loader.placement()["prices"]["worker"] == 0.7


def test_arrays_go_too(worker: Worker) -> None:
    x = np.arange(64 * 32, dtype=np.uint8).reshape(64, 32)
    pipeline = carya.arrays({"x": x}).shuffle(seed=3).to_dtype("float32", scale=True, fields=["x"]).batch(8)
    with carya.Loader(pipeline, remote=at(worker), placement="remote:1", threads=1) as loader:
        assert read_until_remote(loader) == epoch_digest(pipeline)


def test_a_state_goes_on_with_and_without_workers(photos: Path, worker: Worker) -> None:
    with carya.Loader(vision(photos), remote=at(worker), placement="remote:1", threads=1) as loader:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        state = loader.state_dict()
        rest = digest(batches)
    with carya.Loader(vision(photos), state=state) as alone:
        assert digest(alone) == rest


def test_a_daemon_uses_the_workers_of_its_file(photos: Path, worker: Worker, tmp_path: Path) -> None:
    config = tmp_path / "caryad.toml"
    config.write_text(f"[remote]\nworkers = {json.dumps(at(worker))}\n")
    with running_daemon("--config", str(config), "--metrics", str(tmp_path / "m.sock")) as daemon:
        options: dict[str, Any] = {"daemon": daemon.socket, "job": "train", "threads": 1, "cache": {"memory": "64MB"}}
        with carya.Loader(vision(photos), **options) as loader:
            assert digest(loader) == epoch_digest(vision(photos))
            assert loader.stats()["cache"]["after"] == "decode_image", "samples are kept beside them"
            assert until(lambda: loader.placement()["workers"][0]["state"] == "up")
            status = daemon.status()
            assert json.loads(status["jobs"][0]["ranks"][0]["placement"])["workers"][0]["address"] == at(worker)[0]
            shown = cli("placement", "show", "train", "--socket", daemon.socket)
            assert "job train, rank 0: " in shown.stdout
            assert at(worker)[0] in shown.stdout
            frozen = tmp_path / "placement.json"
            assert cli("placement", "freeze", "train", "-o", str(frozen), "--socket", daemon.socket).returncode == 0
            assert json.loads(frozen.read_text())["carya_placement"] == 1
            assert at(worker)[0] in cli("top", "--once", "--socket", daemon.socket).stdout
            page = metrics(tmp_path / "m.sock")
            assert f'carya_worker_chunks_total{{carya_job="train",rank="0",worker="{at(worker)[0]}"}} ' in page
            assert 'carya_workers_up{carya_job="train",rank="0"} 1' in page
            missing = cli("placement", "show", "other", "--socket", daemon.socket)
            assert missing.returncode == 1
            assert "no job 'other' runs in the daemon; its jobs: train" in missing.stderr


def test_no_job_has_workers_that_the_file_does_not_allow(photos: Path, worker: Worker, tmp_path: Path) -> None:
    """Also those that its loader names, and whatever placement it asks for."""
    config = tmp_path / "caryad.toml"
    config.write_text("[remote]\nworker_price = 0.5\nmax_cost_per_hour = 0.4\n")
    remote: dict[str, Any] = {"remote": at(worker), "placement": "remote:1", "threads": 1}
    with running_daemon("--config", str(config)) as daemon:
        with carya.Loader(vision(photos), daemon=daemon.socket, **remote) as loader:
            until(lambda: loader.placement()["workers"][0]["state"] == "up")
            made = digest(batch for _ in range(3) for batch in loader)
            assert made == epoch_digest(vision(photos), epochs=3)
            until(lambda: digest(loader) and "running" in loader.placement())  # the placement was decided
            assert digest(batch for _ in range(3) for batch in loader)
            found = loader.placement()
            assert found["running"]["workers"] == 0
            assert found["workers"][0]["chunks"] == 0
        config.write_text("[remote]\nworker_price = 0.5\nmax_cost_per_hour = 0.6\n")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: any("reloaded" in line for line in _core.daemon_logs(daemon.socket, 100)))
        with carya.Loader(vision(photos), daemon=daemon.socket, job="later", **remote) as loader:
            assert read_until_remote(loader) == epoch_digest(vision(photos))


def test_a_loader_of_a_daemon_brings_its_own_workers(photos: Path, worker: Worker) -> None:
    with running_daemon() as daemon:
        remote: dict[str, Any] = {"remote": at(worker), "placement": "remote:1", "threads": 1}
        with carya.Loader(vision(photos), daemon=daemon.socket, **remote) as loader:
            assert read_until_remote(loader) == epoch_digest(vision(photos))


def metrics(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.ended(*arguments, COLUMNS="240")


# Bad networks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(worker: Worker) -> Iterator[Proxy]:
    between = Proxy(worker.port)
    yield between
    between.close()


def through(proxy: Proxy) -> dict[str, Any]:
    return {"remote": [f"127.0.0.1:{proxy.port}"], "placement": "remote:1", "threads": 1}


def test_bytes_that_change_on_the_way_reach_no_batch(photos: Path, proxy: Proxy) -> None:
    with carya.Loader(vision(photos), **through(proxy)) as loader:
        expected = read_until_remote(loader)
        assert expected == epoch_digest(vision(photos))
        proxy.corrupt_every = 400_000
        for _ in range(20_000):
            loader.set_epoch(0)
            assert digest(loader) == expected
            if proxy.corrupted >= 5:
                break
        assert proxy.corrupted >= 5
        proxy.corrupt_every = 0
        events = " ".join(loader.placement()["events"])
        assert "changed on the way" in events or "frame" in events, events
        assert read_until_remote(loader) == expected


def test_a_link_that_is_cut_and_mended_changes_no_bit(photos: Path, proxy: Proxy) -> None:
    with carya.Loader(vision(photos), **through(proxy)) as loader:
        expected = read_until_remote(loader)
        for _ in range(3):
            proxy.cut()
            for _ in range(3):
                loader.set_epoch(0)
                assert digest(loader) == expected
            proxy.mend()
            assert read_until_remote(loader) == expected


def test_a_connection_that_is_half_open_is_given_up(photos: Path, proxy: Proxy) -> None:
    with carya.Loader(vision(photos), **through(proxy)) as loader:
        expected = read_until_remote(loader)
        proxy.silent = True
        until(lambda: loader.placement()["workers"][0]["state"] != "up")
        for _ in range(3):
            loader.set_epoch(0)
            assert digest(loader) == expected
        proxy.silent = False
        assert read_until_remote(loader) == expected


# The decision ----------------------------------------------------------------------------------------------------------


def test_it_decides_and_says_why(photos: Path, worker: Worker) -> None:
    with carya.Loader(vision(photos), remote=at(worker), threads=1, prices={"host": 5, "worker": 0.4}) as loader:
        expected = digest(loader)

        def decided() -> bool:
            loader.set_epoch(0)
            assert digest(loader) == expected
            return "choice" in loader.placement()

        until(decided)
        placement = loader.placement()
        assert placement["prices"] == {"host": 5.0, "worker": 0.4}
        assert placement["objective"] == "cost"
        assert placement["trouble"] == ""
        assert placement["cuts"][-1]["ops_remote"] == 4
        assert placement["cuts"][-1]["ops"][0] == "decode_image"
        assert {one["name"] for one in placement["beside"]} >= {"all remote"}
        text = str(placement)
        assert "trainer wants" in text
        assert "bill: $" in text
        assert at(worker)[0] in text


def test_the_next_run_begins_with_what_the_last_one_knew_of_workers(
    photos: Path, worker: Worker, tmp_path: Path
) -> None:
    pipeline = carya.image_folder(photos).shuffle(seed=11).decode_image().random_resized_crop(48).batch(4)
    options: dict[str, Any] = {"remote": at(worker), "threads": 1, "objective": "speed"}

    expected = epoch_digest(pipeline)
    answered = {"starting", "verifying", "settled"}

    def phases(loader: carya.Loader, chunks: int) -> set[str]:
        """Epochs until there is an answer and a worker has computed so many chunks; the phases that were seen."""
        seen: set[str] = set()

        def there() -> bool:
            loader.set_epoch(0)
            assert digest(loader) == expected
            placement = loader.placement()
            seen.add(placement["phase"])
            return placement["phase"] in answered and placement["workers"][0]["chunks"] >= chunks

        until(there)
        return seen

    with carya.Loader(pipeline, **options) as loader:
        phases(loader, chunks=1)
        assert "earlier" not in loader.placement()
    (kept,) = Path(os.environ["CARYA_CACHE_DIR"]).glob("profile-*.json")
    known = json.loads(kept.read_text())["overflow"]
    assert known["worker_cpu_s"] > 0

    def slots(samples_away: float) -> int:
        everything = json.loads(kept.read_text())
        kept.write_text(json.dumps({**everything, "overflow": {**known, "samples_away": samples_away}}))
        with carya.Loader(pipeline, **options) as loader:
            return int(loader.stats()["slots"]["count"])

    few = slots(0)
    assert slots(4 * (few + 2.5)) == few // 2 + few + 3  # batches of 4
    with carya.Loader(pipeline, **options) as loader:
        assert "first worker" not in phases(loader, chunks=0)  # one that is known is not tried alone again
        earlier = loader.placement()["earlier"]
        assert earlier == {"workers": known["workers"], "ops_remote": known["ops_remote"]}
    kept.write_text(kept.read_text().replace('"serves"', '"lies"'))
    with carya.Loader(pipeline, **options) as loader:
        until(lambda: digest(loader) and loader.placement()["phase"] != "connecting")
        assert "earlier" not in loader.placement()
        assert any("overflow" in line for line in loader.stats()["plan_log"])


def test_what_lies_beside_is_beside_what_runs_and_can_be(photos: Path, worker: Worker) -> None:
    with workers.running("--insecure") as second:
        options: dict[str, Any] = {"remote": at(worker, second), "threads": 1}
        with carya.Loader(vision(photos), placement="remote:2", **options) as loader:
            read_until_remote(loader)
            placement = loader.placement()
            assert placement["choice"]["workers"] == 2
            beside = {one["name"]: one["workers"] for one in placement["beside"]}
            assert "one worker more" not in beside  # there is none
            assert beside["one worker less"] == 1
            assert beside["no workers"] == 0
        with carya.Loader(vision(photos), placement="remote:1", **options) as loader:
            read_until_remote(loader)
            placement = loader.placement()
            assert placement["choice"]["workers"] == 1
            assert {one["name"]: one["workers"] for one in placement["beside"]}["one worker more"] == 2
        with carya.Loader(vision(photos), placement="remote:9", **options) as loader:
            read_until_remote(loader)
            assert loader.placement()["choice"]["workers"] == 2


def child_of_workers(folder: Path, *addresses: str) -> carya.fleet.ChildFleet:
    """A fleet that knows these, and gives as many as are wanted."""
    script = folder / "child.py"
    script.write_text(
        "import json, sys\n"
        f"known, wanted = {list(addresses)!r}, 0\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked['command'] == 'start': print(json.dumps({'event': 'ready', 'most': len(known)}), flush=True)\n"
        "    if asked['command'] == 'stop': break\n"
        "    wanted = asked.get('count', wanted)\n"
        "    print(json.dumps({'event': 'members', 'members': known[:wanted]}), flush=True)\n"
    )
    return carya.fleet.ChildFleet((sys.executable, str(script)), "{}", price=0.7)


def trouble(loader: carya.Loader) -> str:
    """What the placement says once it says something; it is printed, and nothing was paid."""
    said = str(until(lambda: loader.placement()["trouble"]))
    placement = until(lambda: (now := loader.placement()).get("bill", {}).get("seconds", 0) > 2 and now)
    assert f"trouble: {placement['trouble']}" in str(placement)
    assert placement["running"]["workers"] == 1  # it would have one
    assert placement["bill"]["workers"] == 0
    return said


def test_a_fleet_that_has_no_worker_says_so_and_bills_nothing(photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"placement": "remote:1", "threads": 1}
    with workers.running("--insecure", "--listen", "0.0.0.0:0") as open_to_all:
        # insecure on the workers' side only: 192.0.2.1 stands for a machine that is none of ours.
        fleet = child_of_workers(tmp_path, f"192.0.2.1:{open_to_all.port}")
        with carya.Loader(vision(photos), remote=fleet, **options) as loader:
            assert "is another machine: give certificates, or say insecure on this side too" in trouble(loader)
    files = workers.make_certificates(tmp_path / "ca", "127.0.0.1")
    with workers.running(
        "--cert", files["server.pem"], "--key", files["server.key"], "--ca", files["ca.pem"]
    ) as secured:
        # And on the host's only.
        options |= {"remote": at(secured), "remote_tls": {"insecure": True}}
        with carya.Loader(vision(photos), **options) as loader:
            assert trouble(loader).startswith(
                f"no worker is there, this machine makes all samples: worker {at(secured)[0]}"
            )


def test_a_daemon_says_that_it_has_no_worker_wherever_it_prints(photos: Path, tmp_path: Path) -> None:
    config = tmp_path / "caryad.toml"
    config.write_text(f'[remote]\nworkers = ["unix:{tmp_path}/none"]\n')
    with (
        running_daemon("--config", str(config)) as daemon,
        carya.Loader(vision(photos), daemon=daemon.socket, job="train", threads=1) as loader,
    ):
        assert digest(loader) == epoch_digest(vision(photos))
        until(lambda: loader.placement()["trouble"])
        for command in (["placement", "show", "train"], ["status"], ["top", "--once"]):
            shown = cli(*command, "--socket", daemon.socket).stdout
            assert "no worker is there" in " ".join(shown.split()), command


def test_local_says_so(photos: Path) -> None:
    with carya.Loader(vision(photos)) as loader:
        assert str(loader.placement()) == "local: no remote= was given: this machine makes all samples"
        with pytest.raises(carya.InvalidArgument, match="has no remote="):
            loader.placement().frozen()


def test_a_frozen_placement_is_kept_and_bound_to_its_pipeline(photos: Path, worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "placement.json"
    with carya.Loader(vision(photos), remote=at(worker), placement="remote:1", threads=1) as loader:
        expected = read_until_remote(loader)
        file.write_text(json.dumps(loader.placement().frozen()))
    document = json.loads(file.read_text())
    options: dict[str, Any] = {"remote": at(worker), "placement": f"frozen:{file}", "threads": 1}
    with carya.Loader(vision(photos), **options) as loader:
        assert read_until_remote(loader) == expected
        assert loader.placement()["running"]["ops_remote"] == document["ops_remote"]
    other = carya.image_folder(photos).decode_image().resize(32).center_crop(24).batch(4)
    with pytest.raises(carya.InvalidArgument, match="was made for another pipeline"):
        carya.Loader(other, **options)
    for text in ("[]", "{}", '{"carya_placement": 1, "pipeline": "x", "workers": -1, "ops_remote": 1}', "\x00"):
        file.write_text(text)
        with pytest.raises(carya.InvalidArgument, match="is no placement; make one with"):
            carya.Loader(vision(photos), **options)
    with pytest.raises(carya.NotFound, match="no file"):
        carya.Loader(vision(photos), remote=at(worker), placement=f"frozen:{tmp_path}/none")


# TLS -------------------------------------------------------------------------------------------------------------------


def test_workers_are_reached_by_tls_and_others_are_not(photos: Path, tmp_path: Path) -> None:
    files = workers.make_certificates(tmp_path / "ca", "127.0.0.1")
    others = workers.make_certificates(tmp_path / "other", "127.0.0.1")
    server = ["--cert", files["server.pem"], "--key", files["server.key"], "--ca", files["ca.pem"]]

    def tls(of: dict[str, str]) -> dict[str, str]:
        return {"cert": of["client.pem"], "key": of["client.key"], "ca": of["ca.pem"]}

    with workers.running(*server) as worker:
        options: dict[str, Any] = {"remote": at(worker), "placement": "remote:1", "threads": 1}
        with carya.Loader(vision(photos), remote_tls=tls(files), **options) as loader:
            assert read_until_remote(loader) == epoch_digest(vision(photos))
            assert loader.placement()["workers"][0]["connection"].startswith("TLSv1.3")
        with carya.Loader(vision(photos), remote_tls=tls(others), **options) as loader:
            assert until(lambda: loader.placement()["workers"][0]["reason"])
            assert digest(loader) == epoch_digest(vision(photos))
            assert loader.stats()["remote_chunks"] == 0


# Arguments -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"remote": 5}, "remote: got 5; give"),
        ({"remote": [""]}, "remote: got"),
        ({"remote": "dns://"}, "dns://"),
        ({"remote": ["w:1"], "prices": {"host": -1}}, "prices: got"),
        ({"remote": ["w:1"], "prices": {"gpu": 1}}, "prices: got"),
        ({"remote": ["w:1"], "prices": {"worker": "no-such-machine"}}, "n2-standard-8"),
        ({"remote": ["w:1"], "objective": "fun"}, 'objective: got \'fun\'; give "cost" or "speed"'),
        ({"remote": ["w:1"], "target": 5}, "only objective="),
        ({"remote": ["w:1"], "objective": "cost-at-target", "target": -5}, "target: got -5; give a number above 0"),
        ({"remote": ["w:1"], "max_workers": -1}, "max_workers: got -1"),
        ({"remote": ["w:1"], "max_cost_per_hour": 0}, "max_cost_per_hour: got 0"),
        ({"remote": ["w:1"], "verify": 1.5}, "verify: got 1.5; give a share of 0 to 1"),
        ({"remote": ["w:1"], "placement": "remote:x"}, "placement: got 'remote:x'"),
        ({"placement": "remote:2"}, "remote= names none"),
        ({"remote": ["w:1"], "remote_tls": {"cert": "x"}}, "remote_tls: got"),
        ({"remote": ["w:1"], "remote_tls": {"file": "x"}}, "remote_tls: got"),
        ({"remote": ["w:1"], "remote_tls": {"token": __file__}}, "token: got the name of a file; give the word in it"),
        ({"remote": ["no port"]}, "no port"),
        ({"remote": ["w.invalid:7070"]}, "w.invalid"),
        ({"remote": ["192.0.2.1:7070"]}, "is another machine: give certificates"),
    ],
)
def test_options_that_cannot_be_are_refused(photos: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=message):
        carya.Loader(vision(photos), **options)


def test_prices_of_machine_types() -> None:
    assert remote.checked_prices({"host": "v3-8"}) == {"host": 8.8, "worker": 0.427319}
    assert remote.checked_prices({"host": "p5.48xlarge", "worker": "m8i-flex.4xlarge"}) == {
        "host": 55.04,
        "worker": 0.8044,
    }
    assert remote.checked_prices(None) == {"host": 4.96, "worker": 0.427319}
