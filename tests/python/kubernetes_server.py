"""A Kubernetes cluster for tests: an API server with the semantics that a fleet relies on, and real carya-workers as its pods.

What it keeps: one growing resourceVersion for all objects, lists in pages, watches from a version on (with bookmarks, an end
after timeoutSeconds, and 410 for versions that were forgotten), merge patches that are refused with 409 where they name an
older version, the scale subresource, names that are taken, preconditions of deletes, deletionTimestamp while a pod ends,
tokens, client certificates, and rights by verb and resource. Source: kubernetes.io, "Kubernetes API Concepts".
"""

from __future__ import annotations

import contextlib
import copy
import json
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from workers import Worker

GROUPS = {"deployments": "apps", "statefulsets": "apps", "pods": "", "leases": "coordination.k8s.io"}
ALL_RIGHTS = frozenset(
    {("get", "deployments/scale"), ("patch", "deployments/scale"), ("get", "statefulsets/scale")}
    | {("patch", "statefulsets/scale"), ("list", "pods"), ("watch", "pods")}
    | {(verb, "leases") for verb in ("list", "create", "patch", "delete")}
)
NAMESPACE = "ml"
SELECTOR = {"app": "carya-worker"}


class Refusal(Exception):
    """An answer that is no success: a Status object."""

    def __init__(self, status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": status,
            "reason": reason,
            "message": message,
        }


@dataclass
class Fault:
    """What happens to requests that it fits to, in place of an answer, `times` times."""

    fits: Callable[[str, str], bool]  # of (verb, resource)
    refusal: Refusal | None  # None: the connection ends
    times: int = 1
    seen: int = 0


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@dataclass
class Cluster:
    """Objects, and who may do what with them. Threads: thread-safe, by `changed`."""

    tokens: set[str] = field(default_factory=lambda: {"secret"})
    rights: set[tuple[str, str]] = field(default_factory=lambda: set(ALL_RIGHTS))
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    page_max: int = 500
    rewatch: bool = False  # watches end after a moment

    def __post_init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = 100
        self.forgotten = 0  # changes up to this version are not known any more
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []

    def put(self, resource: str, made: dict[str, Any], event: str = "MODIFIED") -> dict[str, Any]:
        """Store an object as a new version of itself; "ADDED": it is new; "DELETED": it is no more."""
        with self.changed:
            self.version += 1
            made = copy.deepcopy(made)
            about = made["metadata"]
            about["resourceVersion"] = str(self.version)
            if event == "ADDED":
                about.setdefault("namespace", NAMESPACE)
                about["uid"] = f"uid-{self.version}"
                about["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            key = resource, about["name"]
            if event == "DELETED":
                del self.objects[key]
            else:
                self.objects[key] = made
            self.history.append((self.version, resource, event, copy.deepcopy(made)))
            self.changed.notify_all()
            return copy.deepcopy(made)

    def get(self, resource: str, name: str) -> dict[str, Any]:
        with self.changed:
            if (resource, name) not in self.objects:
                raise Refusal(404, "NotFound", f'{resource} "{name}" not found')
            return copy.deepcopy(self.objects[resource, name])

    def all(self, resource: str) -> list[dict[str, Any]]:
        with self.changed:
            return [copy.deepcopy(made) for (kind, _), made in self.objects.items() if kind == resource]

    def forget(self) -> None:
        """As a server does after some minutes: all that has happened."""
        with self.changed:
            self.forgotten = self.version
            self.history.clear()
            self.changed.notify_all()

    def replicas(self, name: str = "carya-worker", kind: str = "deployments") -> int:
        found: int = self.get(kind, name)["spec"].get("replicas", 0)
        return found

    def fault(self, verb: str, resource: str, refusal: Refusal | None, times: int = 1) -> Fault:
        made = Fault(lambda *asked: asked == (verb, resource), refusal, times)
        with self.changed:
            self.faults.append(made)
        return made

    def checked(self, verb: str, resource: str, token: str) -> None:
        """Errors: Refusal; ConnectionError, where a fault ends the connection."""
        with self.changed:
            self.requests.append((verb, resource))
            if token not in self.tokens:
                raise Refusal(401, "Unauthorized", "Unauthorized")
            for one in self.faults:
                if one.seen < one.times and one.fits(verb, resource):
                    one.seen += 1
                    if one.refusal is None:
                        raise ConnectionError
                    raise one.refusal
            if (verb, resource) not in self.rights:
                group = GROUPS[resource.split("/")[0]]
                raise Refusal(
                    403,
                    "Forbidden",
                    f'User "system:serviceaccount:{NAMESPACE}:trainer" cannot {verb} resource "{resource}" in API group '
                    f'"{group}" in the namespace "{NAMESPACE}"',
                )

    def add_workload(self, kind: str = "deployments", replicas: int = 0, name: str = "carya-worker") -> None:
        spec = {"replicas": replicas, "selector": {"matchLabels": SELECTOR}}
        self.put(kind, {"metadata": {"name": name}, "spec": spec}, "ADDED")


def fits(made: dict[str, Any], selector: str) -> bool:
    labels = made["metadata"].get("labels") or {}
    return all(
        labels.get(name) == value for name, value in (part.split("=", 1) for part in selector.split(",") if part)
    )


class Handler(BaseHTTPRequestHandler):
    """One connection. `cluster` is set by the server's subclass."""

    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("get")

    def do_POST(self) -> None:
        self._serve("create")

    def do_PATCH(self) -> None:
        self._serve("patch")

    def do_DELETE(self) -> None:
        self._serve("delete")

    def _serve(self, verb: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            self._dispatch(verb, body)
        except Refusal as refusal:
            self._answer(refusal.status, refusal.body, refusal.headers)
        except ConnectionError:
            self.close_connection = True

    def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _token(self) -> str:
        if isinstance(self.connection, ssl.SSLSocket) and self.connection.getpeercert():
            return next(iter(self.cluster.tokens))  # who has a certificate needs no token
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _dispatch(self, verb: str, body: Any) -> None:
        at = urlsplit(self.path)
        query = dict(parse_qsl(at.query))
        parts = at.path.split("/")
        where = parts.index("namespaces")
        namespace, resource, *rest = parts[where + 1 :]
        name = rest[0] if rest else ""
        sub = "/".join([resource, *rest[1:]])
        if verb == "get" and not name:
            verb = "watch" if query.get("watch") == "true" else "list"
        self.cluster.checked(verb, sub, self._token())
        if namespace != NAMESPACE:
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        if sub.endswith("/scale"):
            self._scale(verb, resource, name, body)
        elif verb == "list":
            self._list(resource, query)
        elif verb == "watch":
            self._watch(resource, query)
        elif verb == "create":
            self._create(resource, body)
        elif verb == "patch":
            self._patch(resource, name, body)
        elif verb == "delete":
            self._delete(resource, name, body)
        else:
            raise Refusal(405, "MethodNotAllowed", f"{verb} {sub}")

    def _check_version(self, about: dict[str, Any], asked: Any, what: str) -> None:
        if asked and asked != about["resourceVersion"]:
            raise Refusal(
                409,
                "Conflict",
                f"{what}: the object has been modified; please apply your changes to the latest version",
            )

    def _scale(self, verb: str, resource: str, name: str, body: Any) -> None:
        with self.cluster.changed:
            made = self.cluster.get(resource, name)
            if verb == "patch":
                assert self.headers["Content-Type"] == "application/merge-patch+json"
                self._check_version(made["metadata"], body["metadata"].get("resourceVersion"), f'{resource} "{name}"')
                made["spec"]["replicas"] = body["spec"]["replicas"]
                made = self.cluster.put(resource, made)
        replicas = made["spec"].get("replicas", 0)
        selector = ",".join(f"{key}={value}" for key, value in made["spec"]["selector"]["matchLabels"].items())
        self._answer(
            200,
            {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": {key: made["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")},
                "spec": {"replicas": replicas} if replicas else {},
                "status": {"replicas": replicas, "selector": selector},
            },
        )

    def _list(self, resource: str, query: dict[str, str]) -> None:
        with self.cluster.changed:
            found = [one for one in self.cluster.all(resource) if fits(one, query.get("labelSelector", ""))]
            version, start = self.cluster.version, 0
            if query.get("continue"):
                version, start = map(int, query["continue"].split(":"))
                if version < self.cluster.forgotten:
                    raise Refusal(410, "Expired", "The provided continue parameter is too old")
            page = min(int(query.get("limit") or self.cluster.page_max), self.cluster.page_max)
            about = {"resourceVersion": str(version)}
            if start + page < len(found):
                about["continue"] = f"{version}:{start + page}"
        self._answer(200, {"kind": "List", "metadata": about, "items": found[start : start + page]})

    def _watch(self, resource: str, query: dict[str, str]) -> None:
        seen = int(query["resourceVersion"])
        if seen < self.cluster.forgotten:
            raise Refusal(410, "Expired", f"too old resource version: {seen}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = time.monotonic() + (0.05 if self.cluster.rewatch else int(query["timeoutSeconds"]))
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            while time.monotonic() < end:
                with self.cluster.changed:
                    if seen < self.cluster.forgotten:
                        self._event("ERROR", Refusal(410, "Expired", f"too old resource version: {seen}").body)
                        break
                    news = [one for one in self.cluster.history if one[0] > seen and one[1] == resource]
                    now = self.cluster.version
                    if not news and now == seen:
                        self.cluster.changed.wait(min(1.0, max(0.0, end - time.monotonic())))
                        continue
                for _, _, event, made in news:
                    if fits(made, query.get("labelSelector", "")):
                        self._event(event, made)
                seen = now
                self._event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(seen)}})
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _event(self, kind: str, made: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": made}).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _create(self, resource: str, body: Any) -> None:
        with self.cluster.changed:
            name = body["metadata"]["name"]
            if (resource, name) in self.cluster.objects:
                raise Refusal(409, "AlreadyExists", f'{resource} "{name}" already exists')
            made = self.cluster.put(resource, body, "ADDED")
        self._answer(201, made)

    def _patch(self, resource: str, name: str, body: Any) -> None:
        with self.cluster.changed:
            made = self.cluster.get(resource, name)
            self._check_version(made["metadata"], (body.get("metadata") or {}).get("resourceVersion"), name)
            made = self.cluster.put(resource, merged(made, body))
        self._answer(200, made)

    def _delete(self, resource: str, name: str, body: Any) -> None:
        with self.cluster.changed:
            made = self.cluster.get(resource, name)
            self._check_version(
                made["metadata"], ((body or {}).get("preconditions") or {}).get("resourceVersion"), name
            )
            self.cluster.put(resource, made, "DELETED")
        self._answer(200, {"kind": "Status", "status": "Success"})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """TLS in the connection's own thread."""
        with contextlib.suppress(OSError):  # also of TLS
            if self.context:
                request = self.context.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)

    def handle_error(self, *_: Any) -> None:
        """A client that went away."""


class Kubelet:
    """Makes pods of what workloads ask for, each a carya-worker at an address of its own, and ends the youngest first."""

    def __init__(
        self, cluster: Cluster, *arguments: str, kind: str = "deployments", name: str = "carya-worker"
    ) -> None:
        self._cluster = cluster
        self._arguments = arguments
        self._workload = kind, name
        self._folder = tempfile.TemporaryDirectory(prefix="carya-pods-")
        self._count = 0
        self._ended = False
        self._lives: list[threading.Thread] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.create_server(("", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._thread = threading.Thread(target=self._reconcile, daemon=True)
        self._thread.start()

    def _wanted(self) -> int:
        return 0 if self._ended else self._cluster.replicas(self._workload[1], self._workload[0])

    def _reconcile(self) -> None:
        while not self._ended:
            with self._cluster.changed:
                pods = [one for one in self._cluster.all("pods") if "deletionTimestamp" not in one["metadata"]]
                for _ in range(self._wanted() - len(pods)):
                    self._start()
                for pod in sorted(pods, key=lambda one: -int(one["metadata"]["uid"].split("-")[1]))[
                    : len(pods) - self._wanted()
                ]:
                    self.delete(pod["metadata"]["name"])
                self._cluster.changed.wait(0.2)

    def delete(self, name: str) -> None:
        """As `kubectl delete pod`: it is marked, told, and gone when its process is."""
        pod = self._cluster.get("pods", name)
        pod["metadata"]["deletionTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._cluster.put("pods", pod)
        if name in self.processes:
            self.processes[name].send_signal(signal.SIGTERM)

    def _start(self) -> None:
        self._count += 1
        name, ip = f"carya-worker-{self._count:04d}", f"127.0.{self._count // 250 + 1}.{self._count % 250 + 1}"
        port = {"name": "carya", "containerPort": self.port}
        pod = {
            "metadata": {"name": name, "labels": dict(SELECTOR)},
            "spec": {"containers": [{"name": "worker", "ports": [{"containerPort": 9090}, port]}]},
            "status": {"phase": "Pending"},
        }
        self._cluster.put("pods", pod, "ADDED")
        self._lives.append(threading.Thread(target=self._live, args=(name, ip), daemon=True))
        self._lives[-1].start()

    def _live(self, name: str, ip: str) -> None:
        """Its process runs, is started again when it dies, and is not when the pod is deleted."""
        restarts = 0
        while not self._is_deleted(name):
            log = Path(self._folder.name) / f"{name}-{restarts}"
            worker = Worker(log, "--listen", f"{ip}:{self.port}", *self._arguments)
            self.processes[name] = worker.process
            self._note(name, ip, True, restarts)
            if self._is_deleted(name):
                worker.process.terminate()
            worker.process.wait()
            restarts += 1
            self._note(name, ip, False, restarts)
        with self._cluster.changed:
            self._cluster.put("pods", self._cluster.get("pods", name), "DELETED")
            self.processes.pop(name, None)

    def _is_deleted(self, name: str) -> bool:
        return self._ended or "deletionTimestamp" in self._cluster.get("pods", name)["metadata"]

    def _note(self, name: str, ip: str, ready: bool, restarts: int) -> None:
        with self._cluster.changed:
            pod = self._cluster.get("pods", name)
            pod["status"] = {
                "phase": "Running",
                "podIP": ip,
                "conditions": [{"type": "Ready", "status": str(ready)}],
                "containerStatuses": [{"name": "worker", "restartCount": restarts}],
            }
            self._cluster.put("pods", pod)

    def end(self) -> None:
        self._ended = True
        self._thread.join()
        for process in list(self.processes.values()):
            process.kill()
        for life in self._lives:
            life.join()
        self._folder.cleanup()


def write_kubeconfig(path: Path, server: str, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Path:
    """JSON, which is YAML too."""
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me", "namespace": NAMESPACE}}],
                "clusters": [{"name": "one", "cluster": {"server": server, **(cluster or {})}}],
                "users": [{"name": "me", "user": user}],
            }
        )
    )
    return path


class Running:
    """A cluster whose API server listens, with a kubeconfig for it whose token lies in a file."""

    def __init__(self, cluster: Cluster, folder: Path, context: ssl.SSLContext | None = None) -> None:
        self.cluster = cluster
        self._context = context
        self.port = 0
        self.start()
        self.token = folder / "token"
        self.token.write_text("secret\n")
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.kubeconfig = write_kubeconfig(folder / "config", self.url, {"tokenFile": "token"})

    def start(self) -> None:
        handler = type("ThisHandler", (Handler,), {"cluster": self.cluster})
        self._server = Server(("127.0.0.1", self.port), handler)
        self._server.context = self._context
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """It does not listen any more. Watches that are open go on."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def cluster_of(folder: Path, context: ssl.SSLContext | None = None, kind: str = "deployments") -> Iterator[Running]:
    """A cluster with one empty workload, and no kubelet."""
    cluster = Cluster()
    cluster.add_workload(kind)
    running = Running(cluster, folder, context)
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def pods_of(cluster: Cluster, *arguments: str, kind: str = "deployments") -> Iterator[Kubelet]:
    """Real workers for the workload of the cluster."""
    kubelet = Kubelet(cluster, *arguments, kind=kind)
    try:
        yield kubelet
    finally:
        kubelet.end()
