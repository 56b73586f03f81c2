"""Requests to the API server of a Kubernetes cluster, by Python's standard library.

Who asks is looked up anew for every connection: the token of a service account is replaced every hour, certificates and
the authority now and then. docs/decisions/028 says why this is not the package `kubernetes`.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MERGE_PATCH = "application/merge-patch+json"
GONE = 410

_ANSWER_BYTES_MAX = 256 << 20  # a page of a list
_EVENT_BYTES_MAX = 8 << 20  # an object has 1.5 MiB at most
_RETRY_AFTER_S_MAX = 300.0
_PLUGIN_S = 60.0  # for a credential plugin
_PAGE = "500"


class ApiError(Exception):
    """A request that failed.

    Attributes:
        status: Of HTTP; 0: no answer came, or none that can be read.
        retry_after_s: How long the server wants to be left alone; 0: it did not say.
    """

    def __init__(self, status: int, message: str, retry_after_s: float = 0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass
class Cluster:
    """Where an API server is, and who asks.

    Attributes:
        server: "https://host:port", perhaps with a path; "http://..." for `kubectl proxy`.
        token: Said to the server; "": none.
        authority: PEM of the authority that signed the server's certificate; "": those of the system.
        certificate: Files of this side's certificate and key, PEM; None: none.
        server_name: The name that the server's certificate must have; "": the host's.
        verify: Whether the server's certificate is checked.
        namespace: Where the workload is looked for when none is named.
    """

    server: str
    token: str = ""
    authority: str = ""
    certificate: tuple[str, str] | None = None
    server_name: str = ""
    verify: bool = True
    namespace: str = "default"
    _kept: list[int] = field(default_factory=list)  # descriptors of a certificate that lies in memory

    def __del__(self) -> None:
        for descriptor in self._kept:
            os.close(descriptor)

    def in_memory(self, data: bytes) -> str:
        """A path, as long as this object lives, at which the bytes can be read; nothing lies on a disk."""
        descriptor = os.memfd_create("carya-kubernetes")
        self._kept.append(descriptor)
        with os.fdopen(os.dup(descriptor), "wb") as out:
            out.write(data)
        return f"/proc/self/fd/{descriptor}"

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority or None)
        # Authorities of many clusters have no key identifiers, which strict checking, Python 3.13's default, asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            context.load_cert_chain(*self.certificate)
        return context


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> Cluster:
    """By the service account of the pod that this process runs in. Errors: ApiError (this is no pod)."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    if not host or not port:
        raise ApiError(0, "this process is in no pod, and there is no kubeconfig; give kubeconfig=FILE")
    bracketed = f"[{host}]" if ":" in host else host
    try:
        return Cluster(
            f"https://{bracketed}:{port}",
            token=(folder / "token").read_text().strip(),
            authority=(folder / "ca.crt").read_text(),
            namespace=(folder / "namespace").read_text().strip(),
        )
    except OSError as error:
        raise ApiError(
            0, f"the pod's service account: {error}; let the pod have its token (automountServiceAccountToken)"
        ) from None


class Kubeconfig:
    """A kubeconfig file's cluster and user, read anew each time, since tools write new tokens into it.

    Errors of cluster(): ApiError, with the file and what is wrong in it.
    """

    def __init__(self, path: str, context: str | None) -> None:
        self._path = Path(path)
        self._context = context
        self._plugin: tuple[float, str] = (0, "")  # until when (Unix time) its token holds, and the token

    def cluster(self, renewed: bool) -> Cluster:
        if renewed:
            self._plugin = (0, "")
        try:
            return self._read(self._document())
        except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise ApiError(0, f"kubeconfig {self._path}: {why}") from None

    def _document(self) -> dict[str, Any]:
        text = self._path.read_text()
        try:
            document = parsed(text)  # which is YAML too
        except ValueError:
            try:
                import yaml
            except ImportError:
                raise ValueError("it is YAML, and PyYAML is not installed; pip install pyyaml") from None
            try:
                document = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise ValueError(f"it is no YAML: {' '.join(str(error).split())}") from None
        if not isinstance(document, dict):
            raise ValueError("it is no document with clusters, users and contexts")
        return document

    def _read(self, document: dict[str, Any]) -> Cluster:
        name = self._context or document.get("current-context")
        context = _named(document, "contexts", "context", name)
        told = _named(document, "clusters", "cluster", context["cluster"])
        user = _named(document, "users", "user", context["user"]) if context.get("user") else {}
        cluster = Cluster(
            told["server"],
            authority=(self._bytes(told, "certificate-authority") or b"").decode(),
            server_name=told.get("tls-server-name") or "",
            verify=not told.get("insecure-skip-tls-verify"),
            namespace=context.get("namespace") or "default",
        )
        certificate, key = (self._bytes(user, f"client-{part}") for part in ("certificate", "key"))
        if certificate and key:
            cluster.certificate = cluster.in_memory(certificate), cluster.in_memory(key)
        cluster.token = self._token(user, cluster)
        return cluster

    def _bytes(self, told: Mapping[str, Any], name: str) -> bytes | None:
        """What lies in the file itself, or where it says."""
        if told.get(f"{name}-data"):
            return base64.b64decode(told[f"{name}-data"])
        return (self._path.parent / told[name]).read_bytes() if told.get(name) else None

    def _token(self, user: Mapping[str, Any], cluster: Cluster) -> str:
        if user.get("tokenFile"):
            return (self._path.parent / str(user["tokenFile"])).read_text().strip()
        if user.get("token"):
            return str(user["token"])
        if not user.get("exec"):
            return ""
        if time.time() >= self._plugin[0]:
            self._plugin = _ask_plugin(user["exec"], cluster)
        return self._plugin[1]


def _named(document: Mapping[str, Any], many: str, one: str, name: Any) -> Mapping[str, Any]:
    for item in document.get(many) or ():
        if item.get("name") == name:
            found: Mapping[str, Any] = item[one]
            return found
    raise ValueError(f"{many} has none that is called {name!r}")


def _ask_plugin(told: Mapping[str, Any], cluster: Cluster) -> tuple[float, str]:
    """The token of a credential plugin, and until when it holds, as client.authentication.k8s.io says.

    Errors: ValueError, OSError.
    """
    given = {item["name"]: item["value"] for item in told.get("env") or ()}
    asked = {"apiVersion": told["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    if told.get("provideClusterInfo"):
        authority = base64.b64encode(cluster.authority.encode()).decode()
        asked["spec"]["cluster"] = {"server": cluster.server, "certificate-authority-data": authority}
    command = [told["command"], *(told.get("args") or ())]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PLUGIN_S,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"its plugin {command[0]} did not end within {_PLUGIN_S:.0f} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()
        raise ValueError(f"its plugin {command[0]} failed: {said[-1] if said else error.returncode}") from None
    status = parsed(done.stdout)["status"]
    until = status.get("expirationTimestamp")
    ends = _unix_time(until) if until else float("inf")
    return ends, str(status["token"])


def _unix_time(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def access(kubeconfig: str | None, context: str | None) -> Callable[[bool], Cluster]:
    """Who asks, as the user said: a kubeconfig, else the pod's service account, else the kubeconfig of this user.

    The argument of what it gives: whether what was kept of a login is not to be used again.
    """
    if not kubeconfig and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return lambda _: in_cluster()
    files = kubeconfig or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0] or "~/.kube/config"
    path = os.path.expanduser(files)
    if not kubeconfig and not os.path.exists(path):
        return lambda _: in_cluster()
    return Kubeconfig(path, context).cluster


class Api:
    """An API server. Each request has a connection of its own. Threads: thread-safe."""

    def __init__(self, cluster: Callable[[bool], Cluster]) -> None:
        self._cluster = cluster

    def namespace(self) -> str:
        """The one that who asks is at home in. Errors: ApiError."""
        return self._cluster(False).namespace

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        content: str = "application/json",
        timeout_s: float = 5.0,
    ) -> dict[str, Any]:
        """One request, with its answer. Errors: ApiError."""
        with self._asked(method, path, query or {}, body, content, timeout_s) as answer:
            return _object(answer.read(_ANSWER_BYTES_MAX + 1), _ANSWER_BYTES_MAX)

    def items(self, path: str, query: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        """All objects of a list, which comes in pages, and the version that a watch of it begins at. Errors: ApiError."""
        found: list[dict[str, Any]] = []
        further = ""
        while True:
            page = self.request("GET", path, {**query, "limit": _PAGE, **({"continue": further} if further else {})})
            items, about = page.get("items") or [], page.get("metadata") or {}
            if not isinstance(items, list) or not isinstance(about, dict):
                raise ApiError(0, f"GET {path}: the answer is no list of objects")
            found += items
            further = about.get("continue") or ""
            if not further:
                return found, str(about.get("resourceVersion") or "")

    def watch(
        self, path: str, query: Mapping[str, str], seconds: int, opened: Callable[[], None]
    ) -> Iterator[dict[str, Any]]:
        """Events until the server ends the watch, after so many seconds. `opened` is called once it has begun.

        Errors: ApiError; GONE, where the watch would begin with changes that the server has forgotten.
        """
        asked = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        with self._asked("GET", path, asked, None, "", seconds + 15.0) as answer:
            opened()
            while line := answer.readline(_EVENT_BYTES_MAX + 1):
                event = _object(line, _EVENT_BYTES_MAX)
                if event.get("type") == "ERROR":
                    raise _error("watch", path, 0, event.get("object"))
                yield event

    @contextlib.contextmanager
    def _asked(
        self, method: str, path: str, query: Mapping[str, str], body: Any, content: str, timeout_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer to be read; a token that is refused is looked up once more."""
        try:
            answer = self._send(self._cluster(False), method, path, query, body, content, timeout_s)
            if answer.status == 401:
                answer.close()
                answer = self._send(self._cluster(True), method, path, query, body, content, timeout_s)
            with answer:
                if answer.status >= 300:
                    raise _refused(method, path, answer)
                yield answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(0, f"{method} {path}: {error or type(error).__name__}") from None

    @staticmethod
    def _send(
        cluster: Cluster,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        content: str,
        timeout_s: float,
    ) -> http.client.HTTPResponse:
        at = urlsplit(cluster.server)
        if at.scheme not in ("http", "https") or not at.hostname:
            raise ValueError(f'got "{cluster.server}"; give https://host:port')
        port = at.port or (443 if at.scheme == "https" else 80)
        plain = socket.create_connection((at.hostname, port), timeout_s)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = http.client.HTTPConnection(at.hostname, port, timeout=timeout_s)
        connection.sock = plain
        try:
            if at.scheme == "https":
                connection.sock = cluster.tls().wrap_socket(plain, server_hostname=cluster.server_name or at.hostname)
            headers = {"Accept": "application/json", "User-Agent": "carya-fleet", "Connection": "close"}
            if cluster.token:
                headers["Authorization"] = f"Bearer {cluster.token}"
            if body is not None:
                headers["Content-Type"] = content
            target = at.path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            return connection.getresponse()  # which closes the connection at its end
        except BaseException:
            connection.close()
            raise


def parsed(text: str | bytes) -> Any:
    """A JSON document that somebody else wrote. Errors: ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(data: bytes, most: int) -> dict[str, Any]:
    if len(data) > most:
        raise ValueError(f"the answer has more than {most >> 20} MiB")
    found = parsed(data)
    if not isinstance(found, dict):
        raise ValueError("the answer is no JSON object")
    return found


def _refused(method: str, path: str, answer: http.client.HTTPResponse) -> ApiError:
    try:
        said: Any = parsed(answer.read(1 << 20))
    except ValueError:
        said = None
    try:
        after = float(answer.getheader("Retry-After") or 0)
    except ValueError:  # a date
        after = 0.0
    return _error(method, path, answer.status, said, min(max(after, 0.0), _RETRY_AFTER_S_MAX))


def _error(method: str, path: str, status: int, said: Any, retry_after_s: float = 0) -> ApiError:
    """By the Status object that the server sent."""
    told = said if isinstance(said, dict) else {}
    code = status or (told["code"] if isinstance(told.get("code"), int) else 0)
    return ApiError(code, f"{method} {path}: {code} {str(told.get('message') or '')[:500]}".rstrip(), retry_after_s)
