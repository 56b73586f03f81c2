"""carya.fleet.kubernetes: its description, and its child process on an API server of the tests, with real workers as pods."""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import signal
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from daemons import until
from fleet_child import Child, child, greeted, listens
from kubernetes_server import (
    NAMESPACE,
    SELECTOR,
    Cluster,
    Refusal,
    Running,
    cluster_of,
    pods_of,
    write_kubeconfig,
)
from streams import digest, epoch_digest
from workers import make_certificates

import carya
from carya import fleet
from carya.fleet import _kubernetes_child as kubernetes_child
from carya.fleet._kubernetes_api import Api, ApiError, Kubeconfig, access, in_cluster


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with cluster_of(tmp_path) as running:
        yield running


def fleet_of(server: Running, **more: Any) -> fleet.ChildFleet:
    return carya.fleet.kubernetes("carya-worker", **{"kubeconfig": str(server.kubeconfig), "max_workers": 3, **more})


def add_pod(cluster: Cluster, number: int, **status: Any) -> None:
    """One that is ready, as an object only: nothing runs there."""
    ready = {"phase": "Running", "podIP": f"10.0.0.{number}", "conditions": [{"type": "Ready", "status": "True"}]}
    about = {"name": f"p-{number}", "labels": SELECTOR}
    cluster.put("pods", {"metadata": about, "spec": {"containers": []}, "status": {**ready, **status}}, "ADDED")


# What a user says --------------------------------------------------------------------------------------------------------


def test_a_description_is_data() -> None:
    made = carya.fleet.kubernetes("workers", namespace="ml", max_workers=3, price=0.4)
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.command == (sys.executable, "-m", "carya.fleet.kubernetes")
    assert made.price == 0.4
    assert json.loads(made.options) == {
        "name": "workers",
        "namespace": "ml",
        "kind": "deployment",
        "min_workers": 0,
        "max_workers": 3,
        "port": None,
        "kubeconfig": None,
        "context": None,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "No"},
        {"name": "a/../b"},
        {"name": ""},
        {"name": "x\n"},
        {"namespace": "a.b"},
        {"kind": "pod"},
        {"max_workers": 0},
        {"min_workers": 41},
        {"port": 0},
        {"price": -1.0},
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(carya.InvalidArgument, match=next(iter(wrong))):
        fleet.kubernetes(**{"name": "workers", **wrong})


# A loader, with kills ------------------------------------------------------------------------------------------------------


def fleet_process() -> int:
    """The child that this process's loader has started."""

    def found() -> list[int]:
        pids = []
        for task in Path("/proc/self/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # what ends meanwhile is not looked for
                pids += [
                    pid
                    for pid in map(int, (task / "children").read_text().split())
                    if b"carya.fleet.kubernetes" in Path(f"/proc/{pid}/cmdline").read_bytes()
                ]
        return pids

    (pid,) = until(found)
    return int(pid)


def test_a_loader_s_workers_are_pods_whatever_is_killed(server: Running, photos: Path) -> None:
    pipeline = carya.image_folder(photos).shuffle(seed=11).decode_image().random_resized_crop(48).batch(4)
    expected = epoch_digest(pipeline)
    options: dict[str, Any] = {"placement": "remote:2", "remote_tls": {"insecure": True}, "threads": 1}
    with pods_of(server.cluster) as kubelet:
        with carya.Loader(pipeline, remote=fleet_of(server), daemon="embedded", **options) as loader:
            most = 0

            def chunks(workers: int) -> list[int]:
                nonlocal most
                loader.set_epoch(0)
                assert digest(loader) == expected
                most = max(most, server.cluster.replicas())
                up = [one["chunks"] for one in loader.placement()["workers"] if one["state"] == "up"]
                return up if len(up) == workers else [0]

            until(lambda: min(chunks(2)) > 0)
            # A pod's process: the same pod has another one soon.
            next(iter(kubelet.processes.values())).kill()
            until(
                lambda: any(one["status"]["containerStatuses"][0]["restartCount"] for one in server.cluster.all("pods"))
            )
            until(lambda: min(chunks(2)) > 0)
            # A pod that an administrator deletes: another one comes.
            gone = sorted(kubelet.processes)[0]
            kubelet.delete(gone)
            until(lambda: gone not in kubelet.processes and min(chunks(2)) > 0)
            # The fleet's own process: its successor has the same claim.
            killed = fleet_process()
            os.kill(killed, signal.SIGKILL)
            until(lambda: "it ended; started again" in str(loader.placement()["events"]))
            until(lambda: fleet_process() != killed and min(chunks(2)) > 0)
            assert most == 2
            assert len(server.cluster.all("leases")) == 1
            # Once more, and the loader closes before there is a successor.
            os.kill(fleet_process(), signal.SIGKILL)
        until(lambda: server.cluster.replicas() == 0 and not kubelet.processes)
        assert server.cluster.all("leases") == []


def test_pods_with_certificates_have_one_name(tmp_path: Path, photos: Path) -> None:
    files = make_certificates(tmp_path / "ca", "carya-worker.ml.svc")
    pipeline = carya.image_folder(photos).decode_image().center_crop(40).batch(4)
    tls = {"cert": files["client.pem"], "key": files["client.key"], "ca": files["ca.pem"]}
    workers = ("--cert", files["server.pem"], "--key", files["server.key"], "--ca", files["ca.pem"])
    with cluster_of(tmp_path) as server, pods_of(server.cluster, *workers):
        options: dict[str, Any] = {"placement": "remote:1", "threads": 1, "daemon": "embedded"}
        options["remote_tls"] = {**tls, "server_name": "carya-worker.ml.svc"}
        with carya.Loader(pipeline, remote=fleet_of(server), **options) as loader:

            def chunks() -> int:
                loader.set_epoch(0)
                digest(loader)
                return int(loader.stats()["remote_chunks"])

            until(chunks)
            assert loader.placement()["workers"][0]["connection"].startswith("TLSv1.3")


# The child alone -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_pods_come_go_and_end_with_the_host(tmp_path: Path, kind: str) -> None:
    with (
        cluster_of(tmp_path, kind=kind + "s") as server,
        pods_of(server.cluster, kind=kind + "s") as kubelet,
        child(fleet_of(server, kind=kind, min_workers=1)) as host,
    ):
        assert host.hear("ready")["most"] == 3
        assert host.members(lambda found: True) == []
        assert server.cluster.replicas(kind=kind + "s") == 0  # nobody has asked for any
        host.say(command="scale", count=2)
        two = host.members(lambda found: len(found) == 2)
        assert all(greeted(member) for member in two)
        assert all(member.endswith(f":{kubelet.port}") for member in two)
        host.say(command="scale", count=1)
        one = host.members(lambda found: len(found) == 1)
        assert one == two[:1]
        (ended,) = set(two) - set(one)
        until(lambda: not listens(ended))
        host.say(command="scale", count=9)
        host.members(lambda found: len(found) == 3)
        assert server.cluster.replicas(kind=kind + "s") == 3
        assert host.process.stdin
        host.process.stdin.close()
        assert host.process.wait(300) == 0
        assert server.cluster.replicas(kind=kind + "s") == 1
        assert server.cluster.all("leases") == []


def test_a_pod_that_is_being_deleted_is_no_member_though_it_still_runs(server: Running) -> None:
    with pods_of(server.cluster) as kubelet, child(fleet_of(server)) as host:
        host.say(command="scale", count=2)
        two = host.members(lambda found: len(found) == 2)
        first = sorted(kubelet.processes)[0]
        process = kubelet.processes[first]
        process.send_signal(signal.SIGSTOP)  # it takes its time
        try:
            kubelet.delete(first)
            host.members(lambda found: two[0] not in found)
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGCONT)
        replaced = host.members(lambda found: len(found) == 2)
        assert replaced[0] == two[1]


def test_a_killed_host_s_child_gives_back_what_it_has(server: Running) -> None:
    """Its child sees the end of its input, whatever ended the host."""
    with pods_of(server.cluster), child(fleet_of(server)) as host:
        host.say(command="scale", count=1)
        host.members(lambda found: len(found) == 1)
        host.process.terminate()
        assert host.process.wait(300) == 0
        assert server.cluster.replicas() == 0


# What goes wrong -----------------------------------------------------------------------------------------------------------


def logged(host: Child, text: str) -> list[str]:
    """Lines of the log with this, once there is one."""
    while not (found := [one["text"] for one in host.seen if one["event"] == "log" and text in one["text"]]):
        host.say(command="members")
        host.hear("members")
    return found


BUSY = {"Retry-After": "1"}
TROUBLES: dict[str, tuple[Refusal | None, str]] = {
    "busy": (
        Refusal(429, "TooManyRequests", "too many requests, please try again later", BUSY),
        "429 too many requests",
    ),
    "broken": (Refusal(500, "InternalError", "etcdserver: leader changed"), "500 etcdserver: leader changed"),
    "away": (Refusal(503, "ServiceUnavailable", "apiserver not ready"), "503 apiserver not ready"),
    "cut": (None, "Remote end closed connection"),
}


ASKED = ["patch deployments/scale", "get deployments/scale", "list leases", "create leases", "list pods", "watch pods"]


@pytest.mark.parametrize(("asked", "trouble"), [(one, list(TROUBLES)[n % 4]) for n, one in enumerate(ASKED)])
def test_a_server_in_trouble_is_asked_again_and_said_once(server: Running, asked: str, trouble: str) -> None:
    refusal, text = TROUBLES[trouble]
    verb, resource = asked.split()
    fault = server.cluster.fault(verb, resource, refusal, times=2)
    add_pod(server.cluster, 1)
    with child(fleet_of(server)) as host:
        host.say(command="scale", count=1)
        said = logged(host, text)
        host.members(lambda found: found == ["10.0.0.1:7070"])
        until(lambda: server.cluster.replicas() == 1)
        logged(host, "it works again")
        assert fault.seen == 2
        subjects = [line.split(":")[0] for line in logged(host, text)]
        assert len(set(subjects)) == len(subjects)
        assert said[0].split(":")[0] in ("pods", "replicas")


def test_a_right_that_is_missing_is_named(server: Running) -> None:
    rights = server.cluster.rights
    rights.discard(("patch", "deployments/scale"))
    with child(fleet_of(server)) as host:
        host.say(command="scale", count=1)
        (said,) = logged(host, "cannot patch")
        assert 'cannot patch resource "deployments/scale" in API group "apps" in the namespace "ml"' in said
        assert "give its service account the right" in said
        rights.add(("patch", "deployments/scale"))
        until(lambda: server.cluster.replicas() == 1)


def test_a_token_that_expired_is_read_anew(server: Running) -> None:
    add_pod(server.cluster, 1)
    with child(fleet_of(server)) as host:
        host.say(command="scale", count=1)
        host.members(lambda found: found == ["10.0.0.1:7070"])
        server.cluster.tokens = {"fresh"}
        host.say(command="scale", count=2)
        (said,) = logged(host, "replicas: ")
        assert "401" in said
        assert "give a kubeconfig or a service account that is valid" in said
        server.token.write_text("fresh")
        until(lambda: server.cluster.replicas() == 2)


def test_a_workload_that_is_not_there_is_named_and_found_later(tmp_path: Path) -> None:
    cluster = Cluster()
    running = Running(cluster, tmp_path)
    try:
        with child(fleet_of(running)) as host:
            host.say(command="scale", count=1)
            (said,) = logged(host, "replicas: ")
            assert 'deployments "carya-worker" not found; give the name' in said
            cluster.add_workload()
            until(lambda: cluster.replicas() == 1)
    finally:
        running.stop()


def test_a_server_that_is_away_keeps_the_pods_that_are_known(server: Running) -> None:
    add_pod(server.cluster, 1)
    server.cluster.rewatch = True
    with child(fleet_of(server)) as host:
        host.say(command="scale", count=1)
        host.members(lambda found: found == ["10.0.0.1:7070"])
        server.stop()
        logged(host, "pods: ")
        assert host.members(lambda found: True) == ["10.0.0.1:7070"]
        add_pod(server.cluster, 2)
        server.cluster.forget()  # it has been away for so long that what happened meanwhile is not told
        server.start()
        host.say(command="scale", count=2)
        host.members(lambda found: found == ["10.0.0.1:7070", "10.0.0.2:7070"])


@pytest.mark.parametrize("rewatch", [False, True])
def test_changes_that_the_server_forgot_are_listed(server: Running, rewatch: bool) -> None:
    """410, in the middle of a watch, and at the start of one."""
    cluster = server.cluster
    cluster.rewatch = rewatch
    with child(fleet_of(server)) as host:
        host.say(command="scale", count=3)
        for number in range(1, 4):
            with cluster.changed:
                add_pod(cluster, number)
                if number == 3:
                    cluster.put("pods", cluster.get("pods", "p-1"), "DELETED")
                cluster.forget()
            wanted = [f"10.0.0.{one}:7070" for one in range(1 + (number == 3), number + 1)]
            host.members(lambda found, wanted=wanted: found == wanted)  # type: ignore[misc]
        assert not [one for one in host.seen if one["event"] == "log"]  # an ordinary thing


def test_lists_come_in_pages(server: Running) -> None:
    server.cluster.page_max = 2
    for number in range(1, 8):
        add_pod(server.cluster, number)
    with child(fleet_of(server, max_workers=7)) as host:
        host.say(command="scale", count=7)
        assert len(host.members(lambda found: len(found) == 7)) == 7


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending"},
        {"phase": "Succeeded"},
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": []},
        {"conditions": None},
    ],
)
def test_a_pod_that_is_not_ready_is_no_member(server: Running, status: dict[str, Any]) -> None:
    add_pod(server.cluster, 1, **status)
    add_pod(server.cluster, 2, podIP="fd00::2")
    with child(fleet_of(server, port=9000)) as host:
        host.say(command="scale", count=2)
        assert host.members(bool) == ["[fd00::2]:9000"]


@pytest.mark.parametrize("odd", [{"podIP": 7}, {"podIP": "10.0.0.1:80,"}, {"conditions": [{}]}, {"podIP": None}])
def test_a_pod_that_is_not_as_expected_is_said_once_and_hides_no_other(server: Running, odd: dict[str, Any]) -> None:
    with child(fleet_of(server)) as host:
        for number in (1, 3):  # as part of the list, and as an event
            add_pod(server.cluster, number, **odd)
            add_pod(server.cluster, number + 1)
            host.say(command="scale", count=2)
            host.members(lambda found, last=f"10.0.0.{number + 1}:7070": last in found)  # type: ignore[misc]
        assert len(logged(host, "a pod: it is not as expected")) == 1


# Several hosts -------------------------------------------------------------------------------------------------------------


class Host:
    """The claim of one host on the workload of `server`, without a process."""

    def __init__(self, server: Running, name: str, least: int = 0, most: int = 40) -> None:
        self.said: list[str] = []
        api = Api(access(str(server.kubeconfig), None))
        workload = kubernetes_child.Workload("deployments", "carya-worker", api.namespace)
        troubles = kubernetes_child.Troubles(self.said.append)
        self.claims = kubernetes_child.Claims(api, workload, name, (least, most), troubles)


def test_replicas_are_the_sum_of_what_hosts_want(server: Running) -> None:
    one, two = Host(server, "one", most=4), Host(server, "two", least=2, most=6)
    one.claims.step(3)
    assert server.cluster.replicas() == 3
    two.claims.step(1)
    assert server.cluster.replicas() == 4
    one.claims.step(4)
    two.claims.step(4)
    assert server.cluster.replicas() == 6  # the larger of both bounds
    one.claims.step(0)
    assert server.cluster.replicas() == 4
    two.claims.step(0)
    assert server.cluster.replicas() == 2
    assert server.cluster.all("leases") == []


def test_hosts_that_step_at_once_miss_nobody(server: Running) -> None:
    """Whatever their requests' order was, the replicas are the sum when all are done."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    hosts = [Host(server, f"host-{number}", most=1000) for number in range(6)]
    for _ in range(5):
        wanted = [draw.randrange(5) for _ in hosts]

        def step(host: Host, count: int) -> None:
            while True:  # as run() does
                try:
                    return host.claims.step(count)
                except ApiError as error:
                    if error.status != 409:
                        raise

        threads = [threading.Thread(target=step, args=pair) for pair in zip(hosts, wanted, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.cluster.replicas() == sum(wanted)


def test_a_host_that_comes_between_two_steps_of_another_is_counted(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Host(server, "one"), Host(server, "two")
    live = one.claims._live

    def listed_too_early() -> list[kubernetes_child.Claim]:
        found = live()
        monkeypatch.undo()
        two.claims.step(5)
        return found

    set_scale, seen = one.claims._set_scale, []

    def set_and_seen(replicas: int, version: Any) -> None:
        set_scale(replicas, version)
        seen.append(server.cluster.replicas())

    vars(one.claims)["_set_scale"] = set_and_seen
    monkeypatch.setattr(one.claims, "_live", listed_too_early)
    one.claims.step(1)
    assert seen == [6], "nobody's workers end in between"
    assert server.cluster.replicas() == 6


def test_a_host_that_finds_the_sum_right_is_counted_by_one_that_listed_before(server: Running) -> None:
    """Who has nothing to change leaves the version as it is, by which the other one would have seen it."""
    one, two = Host(server, "one"), Host(server, "two")
    one.claims.step(2)
    two.claims.step(3)
    set_scale, others = two.claims._set_scale, [lambda: one.claims.step(3)]

    def set_too_late(replicas: int, version: Any) -> None:
        if others:
            others.pop()()
        set_scale(replicas, version)

    vars(two.claims)["_set_scale"] = set_too_late
    two.claims.step(2)  # listed when the first one still wanted 2
    assert server.cluster.replicas() == 5


def test_a_host_that_died_without_a_word_is_counted_until_its_claim_ends(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(kubernetes_child.time, "monotonic", lambda: now)
    one, dead = Host(server, "one"), Host(server, "dead")
    dead.claims.step(5)
    one.claims.step(1)
    for _ in range(4):  # its clock, and those of its neighbours, do not matter: only whether it is renewed
        now += 50
        dead.claims.step(5)
        one.claims.step(1)
        assert server.cluster.replicas() == 6
    now += 61
    one.claims.step(1)
    assert server.cluster.replicas() == 1
    assert [lease["metadata"]["name"] for lease in server.cluster.all("leases")] == ["one"]
    dead.claims.step(5)  # it was cut off only
    assert server.cluster.replicas() == 6


def test_a_claim_that_is_renewed_while_it_is_removed_stays(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(kubernetes_child.time, "monotonic", lambda: now)
    one, slow = Host(server, "one"), Host(server, "slow")
    slow.claims.step(5)
    one.claims.step(1)
    now += 61
    remove = one.claims._remove

    def late(name: str, version: str) -> None:
        slow.claims._renew(5)
        remove(name, version)

    monkeypatch.setattr(one.claims, "_remove", late)
    one.claims.step(1)
    assert {lease["metadata"]["name"] for lease in server.cluster.all("leases")} == {"one", "slow"}
    assert server.cluster.replicas() == 6


@pytest.mark.parametrize(
    "note",
    [
        None,
        "",
        "[]",
        "7",
        "{}",
        '{"workers": -1, "least": 0, "most": 9}',
        '{"workers": 1e9, "least": 0, "most": 9}',
        '{"workers": true, "least": 0, "most": 9}',
        '{"workers": 100000, "least": 0, "most": 9}',
        "[" * 2000,
    ],
)
def test_a_lease_that_is_no_claim_counts_nothing_and_is_said_once(server: Running, note: str | None) -> None:
    label = {"carya/workload": "deployments.carya-worker"}
    about: dict[str, Any] = {"name": "odd", "labels": label}
    if note is not None:
        about["annotations"] = {"carya/claim": note}
    server.cluster.put("leases", {"metadata": about, "spec": {}}, "ADDED")
    host = Host(server, "one")
    for _ in range(2):
        host.claims.step(2)
        assert server.cluster.replicas() == 2
    assert len(host.said) == 1
    assert "a Lease of another fleet is not as expected" in host.said[0]


def test_a_server_that_names_objects_oddly_ends_no_fleet(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(server, "one")
    host.claims.step(1)
    lease = server.cluster.get("leases", "one")
    for odd in ([], {}, None, 7):
        lease["metadata"]["uid"] = lease["metadata"]["resourceVersion"] = odd
        monkeypatch.setattr(host.claims._api, "items", lambda *_, found=lease: ([found, 7, None, found], ""))
        host.claims.step(2)  # whatever it counts


def test_shares_of_pods_are_disjoint_where_there_are_enough(server: Running) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(300):
        claims = [
            kubernetes_child.Claim(str(draw.randrange(3)), f"c{number}", draw.randrange(1, 5), 0, 40)
            for number in range(draw.randrange(1, 6))
        ]
        pods = [
            kubernetes_child.Pod(str(draw.randrange(3)), f"p{number}", f"a:{number + 1}")
            for number in range(draw.randrange(12))
        ]
        pods.sort()
        shares = {claim.name: kubernetes_child.own_share(pods, claims, claim.name) for claim in claims}
        total = sum(claim.workers for claim in claims)
        for claim in claims:
            assert len(shares[claim.name]) == min(claim.workers, len(pods))
            assert len(set(shares[claim.name])) == len(shares[claim.name])
        used = {pod for share in shares.values() for pod in share}
        assert len(used) == min(total, len(pods))  # nobody's share is left to idle
    assert kubernetes_child.own_share([], [], "nobody") == []


def test_two_loaders_of_two_hosts_have_pods_of_their_own(server: Running) -> None:
    with pods_of(server.cluster), child(fleet_of(server)) as one, child(fleet_of(server)) as two:
        one.say(command="scale", count=1)
        one.members(lambda found: len(found) == 1)
        two.say(command="scale", count=2)
        # Each knows the claim of the other after a while.
        two.members(lambda found: len(found) == 2 and not set(found) & set(one.members(bool)))
        assert server.cluster.replicas() == 3
        assert one.process.stdin
        one.process.stdin.close()
        assert one.process.wait(300) == 0
        assert server.cluster.replicas() == 2
        two.members(lambda found: len(found) == 2 and all(map(listens, found)))


# Who asks ------------------------------------------------------------------------------------------------------------------


def test_a_certificate_in_a_kubeconfig_and_an_authority_are_used(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["server.pem"], files["server.key"])
    context.load_verify_locations(files["ca.pem"])
    context.verify_mode = ssl.CERT_OPTIONAL
    with cluster_of(tmp_path, context) as server:

        def data(name: str) -> str:
            return base64.b64encode(Path(files[name]).read_bytes()).decode()

        user = {"client-certificate-data": data("client.pem"), "client-key-data": data("client.key")}
        trusted = {"certificate-authority-data": data("ca.pem")}
        config = write_kubeconfig(tmp_path / "one", server.url, user, trusted)
        add_pod(server.cluster, 1)
        with child(fleet_of(server, kubeconfig=str(config))) as host:
            host.say(command="scale", count=1)
            host.members(lambda found: found == ["10.0.0.1:7070"])

        def why(cluster: dict[str, Any], user: dict[str, Any]) -> str:
            made = write_kubeconfig(tmp_path / "two", server.url, user, cluster)
            with pytest.raises(ApiError) as error:
                Api(access(str(made), None)).request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")
            return str(error.value)

        assert "CERTIFICATE_VERIFY_FAILED" in why({}, user)
        assert "CERTIFICATE_VERIFY_FAILED" in why({**trusted, "tls-server-name": "other.example"}, user)
        assert "401" in why({**trusted, "tls-server-name": "localhost"}, {"token": "wrong"})
        assert "401" in why({"insecure-skip-tls-verify": True}, {"token": "wrong"})
        by_file = {"client-certificate": files["client.pem"], "client-key": "ca/client.key"}
        config = write_kubeconfig(tmp_path / "three", server.url, by_file, {"certificate-authority": "ca/ca.pem"})
        assert Api(access(str(config), None)).items(f"/api/v1/namespaces/{NAMESPACE}/pods", {})[0]


def test_a_plugin_gives_tokens_until_they_end(server: Running, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    count = tmp_path / "count"
    plugin.write_text(
        "import json, os, pathlib, sys\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "n = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(n + 1))\n"
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        "if sys.argv[1] == 'fails': sys.exit('no login\\nlog in first')\n"
        "print(json.dumps({'status': {'token': os.environ['WORD'] + str(n),\n"
        "                             'expirationTimestamp': os.environ['UNTIL']}}))\n"
    )

    def api(until: str, *arguments: str) -> Api:
        told = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin), *(arguments or ("works",))],
            "env": [{"name": "WORD", "value": "t"}, {"name": "UNTIL", "value": until}],
        }
        return Api(access(str(write_kubeconfig(tmp_path / "plug", server.url, {"exec": told})), None))

    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    server.cluster.tokens = {"t0", "t1"}
    lasting = api("2999-01-01T00:00:00Z")
    lasting.items(path, {})
    lasting.items(path, {})
    assert count.read_text() == "1"
    server.cluster.tokens = {"t1"}
    lasting.items(path, {})  # refused, and asked for once more
    assert count.read_text() == "2"
    server.cluster.tokens = {"t2", "t3"}
    ended = api("2001-01-01T00:00:00Z")
    ended.items(path, {})
    ended.items(path, {})
    assert count.read_text() == "4"
    with pytest.raises(ApiError, match="failed: log in first"):
        api("", "fails").items(path, {})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("clusters: [", "it is no YAML"),
        ("7", "it is no document"),
        ("{}", "contexts has none that is called None"),
        ('{"current-context": "a", "contexts": [{"name": "a", "context": {}}]}', "it has no 'cluster'"),
        ('{"current-context": "a", "contexts": [{"name": "a"}]}', "it has no 'context'"),
        ('{"current-context": "a", "contexts": {"a": 1}}', "kubeconfig"),
        ("\x00", "kubeconfig"),
    ],
)
def test_a_kubeconfig_that_is_none_is_said(tmp_path: Path, text: str, why: str) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ApiError, match=why) as error:
        Kubeconfig(str(path), None).cluster(False)
    assert str(path) in str(error.value)
    with pytest.raises(ApiError, match="No such file"):
        Kubeconfig(str(tmp_path / "none"), None).cluster(False)


def test_a_kubeconfig_in_yaml_has_contexts(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "contexts:\n- {name: a, context: {cluster: one, user: me}}\n- name: b\n  context: {cluster: two, namespace: other}\n"
        "clusters:\n- {name: one, cluster: {server: 'https://one:6443'}}\n- {name: two, cluster: {server: 'http://two'}}\n"
        "users:\n- {name: me, user: {token: abc}}\n"
    )
    one, two = (Kubeconfig(str(path), name).cluster(False) for name in (None, "b"))
    assert (one.server, one.token, one.namespace) == ("https://one:6443", "abc", "default")
    assert (two.server, two.token, two.namespace) == ("http://two", "", "other")


def test_a_pod_s_service_account_is_read_anew(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "account"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ApiError, match="this process is in no pod"):
        in_cluster(folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ApiError, match="automountServiceAccountToken"):
        in_cluster(folder)
    folder.mkdir()
    for name, text in (("token", "one\n"), ("ca.crt", "pem"), ("namespace", "ml")):
        (folder / name).write_text(text)
    assert in_cluster(folder).server == "https://[fd00::1]:443"
    assert in_cluster(folder).token == "one"
    (folder / "token").write_text("two")
    assert in_cluster(folder).token == "two"
    assert in_cluster(folder).namespace == "ml"


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b"not json", b'{"items": 7}', b'{"items": [], "metadata": 7}', b"\xff" * 100, b"[" * 100_000],
)
def test_answers_that_make_no_sense_are_errors_and_nothing_else(tmp_path: Path, answer: bytes) -> None:
    class Always(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Always) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        port = server.server_address[1]
        config = write_kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}", {})
        with pytest.raises(ApiError):
            Api(access(str(config), None)).items("/api/v1/namespaces/ml/pods", {})
