"""The Helm chart: rendered by Helm's engine, checked by the API's schemas, and what it says run for real."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from daemons import until
from kubernetes_server import ALL_RIGHTS
from ports import free_port
from test_worker_users import secret
from workers import make_certificates

from carya import _core, _programs

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "packaging" / "helm" / "carya"
TOOLS = ROOT / "build" / "helm"
VERSIONS = ("1.25", "1.37")
DATA = {"name": "photos", "mountPath": "/data", "source": {"hostPath": {"path": "/srv/photos"}}}

needs_helm = pytest.mark.skipif(
    not (TOOLS / "helm_python").is_dir(), reason="build/helm is not there (tools/setup.sh): the chart is not rendered"
)


@cache
def rendered(values: str) -> str:
    command = [sys.executable, str(Path(__file__).with_name("helm_render.py")), str(TOOLS), str(CHART)]
    done = subprocess.run([*command, values, *VERSIONS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def render(**values: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rendered(json.dumps(values)))
    return found


def one(found: dict[str, Any], kind: str, name: str = "") -> dict[str, Any]:
    (document,) = (one for one in found["documents"] if one["kind"] == kind and name in one["metadata"]["name"])
    return dict(document)


CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no daemon": {"daemon": {"enabled": False}},
    "no workers": {"worker": {"enabled": False}},
    "no fleet": {"fleet": {"enabled": False}, "worker": {"replicas": 7}},
    "accounts": {"fleet": {"serviceAccounts": [{"name": "trainer"}, {"name": "other", "namespace": "lab"}]}},
    "cert-manager": {"worker": {"tls": {"mode": "cert-manager", "issuer": {"name": "ours", "kind": "ClusterIssuer"}}}},
    "mesh": {"worker": {"tls": {"mode": "none"}, "disruptionBudget": {"enabled": False}}},
    "memory": {"daemon": {"cache": {"kind": "memory", "size": "2Gi"}, "metrics": {"enabled": False}}},
    "empty folder": {"daemon": {"cache": {"kind": "emptyDir"}}},
    "claim": {"daemon": {"cache": {"kind": "persistentVolumeClaim", "path": "cache"}}},
    "everything": {
        "image": {"repository": "registry.example/carya", "tag": "9"},
        "imagePullSecrets": [{"name": "pull"}],
        "daemon": {
            "data": [DATA, {**DATA, "name": "out", "mountPath": "/out", "readOnly": False}],
            "nodeSelector": {"gpu": "yes"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "seccompProfile": {"type": "Localhost", "localhostProfile": "io-uring.json"},
        },
        "worker": {
            "data": [DATA],
            "arguments": ["--max-seconds", "30"],
            "tls": {"clients": ["host.example"]},
            "tokens": {"secretName": "words"},
            "nodeSelector": {"spot": "yes"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
        },
    },
}


@needs_helm
@pytest.mark.parametrize("case", CASES)
def test_every_document_is_one_of_the_api(case: str) -> None:
    found = render(**CASES[case])
    assert [said for said in found["lint"]["messages"] if said["severity"] > 1] == []
    assert found["wrong"] == []
    assert set(found["unknown"]) <= ({"Certificate"} if case == "cert-manager" else set())
    names = [(made["kind"], made["metadata"]["name"]) for made in found["documents"]]
    assert len(set(names)) == len(names)
    for made in found["documents"]:
        if made["kind"] in ("Deployment", "DaemonSet"):
            labels = made["spec"]["template"]["metadata"]["labels"]
            assert made["spec"]["selector"]["matchLabels"].items() <= labels.items()
            assert labels["app.kubernetes.io/component"] in made["metadata"]["name"]
        if made["kind"] in ("Service", "PodDisruptionBudget"):
            part = "worker" if "worker" in made["metadata"]["name"] else "daemon"
            selector = made["spec"]["selector"]
            assert selector.get("matchLabels", selector)["app.kubernetes.io/component"] == part


@needs_helm
@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"worker": {"tls": {"mode": "maybe"}}}, "mode"),
        ({"worker": {"tls": {"mode": "cert-manager"}}}, "give the name of the issuer"),
        ({"daemon": {"cache": {"kind": "disk"}}}, "kind"),
        ({"worker": {"port": 0}}, "port"),
        ({"worker": {"tokens": {"key": "../x"}}}, "key"),
        ({"fleet": {"serviceAccounts": [{}]}}, "name"),
    ],
)
def test_values_that_are_wrong_are_named(values: dict[str, Any], word: str) -> None:
    assert word in render(**values)["error"]


@needs_helm
@pytest.mark.parametrize("enabled", [True, False])
def test_workers_have_a_page_for_prometheus(enabled: bool) -> None:
    found = render(worker={"metrics": {"enabled": enabled, "port": 9999}})
    pod = one(found, "Deployment")["spec"]["template"]
    command = pod["spec"]["containers"][0]["command"]
    assert ("--metrics" in command) == ("prometheus.io/port" in pod["metadata"].get("annotations", {})) == enabled
    services = [made["metadata"]["name"] for made in found["documents"] if made["kind"] == "Service"]
    assert any(name.endswith("-worker-metrics") for name in services) == enabled
    if enabled:
        page = pod["spec"]["containers"][1]
        assert page["command"][-2:] == ["9999", command[command.index("--metrics") + 1].rsplit(":")[1]]
        mounted = {volume["name"]: volume for volume in pod["spec"]["volumes"]}["config"]["configMap"]["name"]
        assert "metrics_page.py" in one(found, "ConfigMap", mounted)["data"]


@needs_helm
def test_what_values_say_is_what_is_rendered() -> None:
    found = render(**CASES["everything"])
    daemon, worker = (one(found, kind)["spec"]["template"]["spec"] for kind in ("DaemonSet", "Deployment"))
    mounts = {mount["name"]: mount for mount in daemon["containers"][0]["volumeMounts"]}
    assert (mounts["photos"]["readOnly"], mounts["out"]["readOnly"]) == (True, False)
    assert worker["containers"][0]["command"][-6:] == ["--root", "/data", "--grace", "70", "--max-seconds", "30"]
    assert worker["containers"][0]["image"] == "registry.example/carya:9"
    assert "replicas" not in one(found, "Deployment")["spec"]  # they belong to the loaders
    assert one(render(**CASES["no fleet"]), "Deployment")["spec"]["replicas"] == 7
    volumes = {
        volume["name"]: volume
        for volume in one(render(**CASES["memory"]), "DaemonSet")["spec"]["template"]["spec"]["volumes"]
    }
    assert volumes["cache"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
    binding = one(render(**CASES["accounts"]), "RoleBinding")
    assert [(who["name"], who["namespace"]) for who in binding["subjects"]] == [("trainer", "ml"), ("other", "lab")]
    volumes = {volume["name"]: volume for volume in worker["volumes"]}
    assert volumes["tokens"]["secret"] == {"secretName": "words", "defaultMode": 0o440}
    assert "insecure" in render(**CASES["mesh"])["notes"]
    assert "token" in render(worker={"tls": {"mode": "none"}, "tokens": {"secretName": "words"}})["notes"]
    assert 'namespace="ml"' in found["notes"]


def rights_of(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}


NEEDED = {right for right in ALL_RIGHTS if not right[1].startswith("statefulsets")}


@needs_helm
def test_a_fleet_has_the_rights_that_it_uses_and_no_other() -> None:
    """Those that the API server of the tests asks for (test_fleet_kubernetes.py), of the workload by its name."""
    found = render()
    rules = one(found, "Role")["rules"]
    assert rights_of(rules) == NEEDED
    assert [rule["resourceNames"] for rule in rules if "resourceNames" in rule] == [["train-carya-worker"]]
    assert one(found, "Deployment")["metadata"]["name"] == "train-carya-worker"


def test_the_documented_role_has_the_same_rights() -> None:
    text = (ROOT / "docs" / "remote.md").read_text()
    rules = re.findall(r"- \{apiGroups: .*resources: \[(.*?)\].*verbs: \[(.*?)\]\}", text)
    assert {(verb, name) for name, verbs in rules for verb in verbs.split(", ")} == NEEDED


# What the chart starts, started ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def fetched(port: int, page: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_page_for_prometheus_passes_on_what_the_daemon_says(tmp_path: Path) -> None:
    inner, outer = free_port(), free_port()
    with started(sys.executable, str(CHART / "files" / "metrics_page.py"), str(outer), str(inner)) as page:

        def listens() -> bool:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", outer)).close()
                return True
            return False

        until(listens)
        assert fetched(outer, "/metrics")[0] == 503
        config = tmp_path / "caryad.toml"
        config.write_text(f'metrics = "127.0.0.1:{inner}"\n')
        at = str(tmp_path / "s")
        with started(_programs.program(), "--socket", at, "--config", str(config)):
            until(lambda: fetched(outer, "/metrics")[0] == 200)  # some time after its socket is there
            assert _core.daemon_listens(at)
            assert "carya_" in fetched(outer, "/metrics")[1]
            assert fetched(outer, "/healthz")[0] == 200
            assert fetched(outer, "/etc/passwd")[0] == 404
        assert page.poll() is None
        page.terminate()
        assert page.wait(60) == 0  # by its own will: as the first process of a container it would ignore the signal


@needs_helm
def test_the_daemon_takes_its_configuration_and_its_arguments(tmp_path: Path) -> None:
    found = render()
    config = tmp_path / "caryad.toml"
    config.write_text(one(found, "ConfigMap", "daemon")["data"]["caryad.toml"].replace("9464", str(free_port())))
    container = one(found, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    at = str(tmp_path / "caryad.sock")
    paths = {"caryad": _programs.program(), "/run/carya/caryad.sock": at, "/etc/carya/caryad.toml": str(config)}
    with started(*(paths.get(word, word) for word in container["command"])):
        until(lambda: _core.daemon_listens(at))
        probe = container["startupProbe"]["exec"]["command"]
        words = [sys.executable, "-m", "carya", *(paths.get(word, word) for word in probe[1:])]
        assert json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["jobs"] == []


@needs_helm
@pytest.mark.parametrize("case", ["defaults", "mesh", "everything"])
def test_a_worker_takes_its_arguments(tmp_path: Path, case: str) -> None:
    files = make_certificates(tmp_path / "ca")
    command = one(render(**CASES[case]), "Deployment")["spec"]["template"]["spec"]["containers"][0]["command"]
    (tmp_path / "data").mkdir()
    paths = {
        "carya-worker": _programs.program("carya-worker"),
        "0.0.0.0:7070": "127.0.0.1:0",
        "127.0.0.1:9466": "127.0.0.1:0",
        "/etc/carya/tls/tls.crt": files["server.pem"],
        "/etc/carya/tls/tls.key": files["server.key"],
        "/etc/carya/tls/ca.crt": files["ca.pem"],
        "/etc/carya/tokens/tokens": str(tmp_path / "words"),
        "/data": str(tmp_path / "data"),
    }
    assert ("--token-file" in command) == (case == "everything")
    secret(tmp_path / "words", "ann:word of ann\n")
    with started(*(paths.get(word, word) for word in command)) as process:
        assert process.stderr
        line = process.stderr.readline()
        assert " ready listen=" in line
        assert ("tls=none" in line) == (case == "mesh")
        os.kill(process.pid, 15)
        assert process.wait(300) == 0
