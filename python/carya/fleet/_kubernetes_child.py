"""Scales a Deployment or StatefulSet of carya-worker pods, as lines of JSON on standard input say.

Several fleets, of several hosts, share one workload. Each keeps a Lease beside it that says how many workers it wants (its
claim); each sets the replicas to the sum of all claims that are renewed. A host that dies without a word stops renewing
its Lease, and the others no longer count it. Nobody leads, and none needs the right to change the workload itself.

The steps of a fleet, and why in this order:
 1. Write the own claim. Whoever lists claims from now on sees it.
 2. Read the replicas with their version.
 3. List all claims.
 4. If the replicas are their sum, it is done. Else set them to it, if they still have that version, and go back to 2 in any
    case: who finds the sum right changes no version, so another one may set what it had listed before. The last one who sets
    the replicas lists once more after that, and whoever claims later than it lists finds what it set.

Pods are shared out in the order of their age, by the claims in the order of theirs: all fleets come to the same answer.

Threads: one speaks with the host, one watches pods, one keeps the claim and the replicas. None ends by an error of the API.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ._child import Log, serve
from ._kubernetes_api import GONE, MERGE_PATCH, Api, ApiError, access, parsed

PORT = 7070  # where nobody says otherwise: carya-worker.service, the chart
PORT_NAME = "carya"

_WATCH_S = 240
_RENEW_S = 15.0
_CLAIM_S = 60  # without being renewed a claim counts for so long
_RETRY_S_MIN, _RETRY_S_MAX = 1.0, 30.0
_TRIES_MAX = 10
_END_S = 8.0  # the host kills this process 10 s after it said stop
_WORKERS_MAX = 10_000
_CLAIM_LABEL = "carya/workload"
_CLAIM_NOTE = "carya/claim"


class Troubles:
    """Says each trouble once, and once that it is over. Threads: thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._mutex = threading.Lock()
        self._kinds: dict[str, int] = {}

    def note(self, subject: str, error: ApiError) -> None:
        """A trouble is the same as the last one of its subject when its status is, whatever else it says."""
        with self._mutex:
            if self._kinds.get(subject) == error.status:
                return
            self._kinds[subject] = error.status
        self._log(f"{subject}: {error}{_cure(error)}")

    def over(self, subject: str) -> None:
        with self._mutex:
            if self._kinds.pop(subject, None) is None:
                return
        self._log(f"{subject}: it works again")


_CURES = {
    401: "the API server does not know this token; give a kubeconfig or a service account that is valid",
    403: "give its service account the right to do this (docs: Workers on other machines, Fleets)",
    404: "give the name and the namespace of one that exists",
}


def _cure(error: ApiError) -> str:
    return f"; {_CURES[error.status]}" if error.status in _CURES else ""


class Backoff:
    """How long to wait after each further failure. Threads: owner only."""

    def __init__(self) -> None:
        self._next_s = _RETRY_S_MIN

    def failed(self, error: ApiError) -> float:
        wait_s = max(self._next_s, error.retry_after_s)
        self._next_s = min(2 * self._next_s, _RETRY_S_MAX)
        return wait_s

    def worked(self) -> None:
        self._next_s = _RETRY_S_MIN


@dataclass(frozen=True)
class Workload:
    """The paths of a Deployment or StatefulSet, of its pods and its claims.

    Attributes:
        kind: The plural, in small letters.
        home: Its namespace. Errors: ApiError.
    """

    kind: str
    name: str
    home: Callable[[], str]

    @property
    def scale(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.home()}/{self.kind}/{self.name}/scale"

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.home()}/pods"

    @property
    def leases(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.home()}/leases"

    @property
    def label(self) -> str:
        """The value of a label, of at most 63 characters, that the claims of this workload have."""
        text = f"{self.kind}.{self.name}"
        return text if len(text) <= 63 else hashlib.sha256(text.encode()).hexdigest()[:40]


@dataclass(frozen=True, order=True)
class Pod:
    """One that is ready. Ordered by age."""

    made: str
    name: str
    address: str


def ready_pod(pod: dict[str, Any], port: int | None) -> Pod | None:
    """The pod, if it can be given work: it is ready, and nobody deletes it. Errors: LookupError, TypeError, ValueError."""
    about, status = pod["metadata"], pod.get("status") or {}
    if about.get("deletionTimestamp") or status.get("phase") != "Running":
        return None
    if not any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ()):
        return None
    ip = ipaddress.ip_address(str(status["podIP"]))
    number = port or _named_port(pod) or PORT
    return Pod(
        str(about.get("creationTimestamp")),
        str(about["name"]),
        f"[{ip}]:{number}" if ip.version == 6 else f"{ip}:{number}",
    )


def _named_port(pod: dict[str, Any]) -> int | None:
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == PORT_NAME and 0 < int(port["containerPort"]) < 65_536:
                return int(port["containerPort"])
    return None


class Pods:
    """The ready pods of a workload: a list, and a watch from there on. What is known stays known while the API fails.

    Threads: one in run(); ready() is thread-safe.
    """

    def __init__(self, api: Api, workload: Workload, port: int | None, troubles: Troubles) -> None:
        self._api = api
        self._workload = workload
        self._port = port
        self._troubles = troubles
        self._mutex = threading.Lock()
        self._ready: dict[str, Pod] = {}  # by name
        self._selector = ""
        self._version = ""  # of the last event; "": a list is due

    def ready(self) -> list[Pod]:
        """Oldest first."""
        with self._mutex:
            return sorted(self._ready.values())

    def run(self) -> None:
        backoff = Backoff()
        while True:
            began = time.monotonic()
            try:
                self.follow()
                backoff.worked()
                time.sleep(max(0.0, began + _RETRY_S_MIN - time.monotonic()))  # where each watch ends at once
            except ApiError as error:
                if error.status == GONE:  # the server keeps a few minutes of changes
                    self._version = ""
                else:
                    self._troubles.note("pods", error)
                time.sleep(backoff.failed(error))

    def follow(self) -> None:
        """List, where that is due, and watch until the server ends the watch. Errors: ApiError."""
        if not self._version:
            self._list()
        asked = {"labelSelector": self._selector, "resourceVersion": self._version}
        for event in self._api.watch(self._workload.pods, asked, _WATCH_S, lambda: self._troubles.over("pods")):
            self._take(event)

    def _list(self) -> None:
        status = self._api.request("GET", self._workload.scale).get("status")
        selector = status.get("selector") if isinstance(status, dict) else None
        if not isinstance(selector, str) or not selector:
            raise ApiError(0, f"{self._workload.scale}: it selects no pods")
        pods, version = self._api.items(self._workload.pods, {"labelSelector": selector})
        found = {}
        for pod in pods:
            name, ready = self._read(pod)
            if ready:
                found[name] = ready
        with self._mutex:
            self._ready = found
        self._selector, self._version = selector, version

    def _take(self, event: dict[str, Any]) -> None:
        pod = event.get("object")
        if not isinstance(pod, dict):
            raise ApiError(0, f"{self._workload.pods}: an event without an object")
        if event.get("type") != "BOOKMARK":
            name, ready = self._read(pod)
            with self._mutex:
                if ready and event.get("type") != "DELETED":
                    self._ready[name] = ready
                else:
                    self._ready.pop(name, None)
        about = pod.get("metadata")
        version = about.get("resourceVersion") if isinstance(about, dict) else None
        self._version = version if isinstance(version, str) else self._version

    def _read(self, pod: Any) -> tuple[str, Pod | None]:
        """Its name, and the pod where it can be given work. One that is not as expected cannot, which is said."""
        try:
            return str(pod["metadata"]["name"]), ready_pod(pod, self._port)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._troubles.note("a pod", ApiError(0, f"it is not as expected: {error}"))
        about = pod.get("metadata") if isinstance(pod, dict) else None
        return (str(about.get("name")) if isinstance(about, dict) else ""), None


@dataclass(frozen=True, order=True)
class Claim:
    """What one fleet wants of a workload. Ordered by age."""

    made: str
    name: str  # of its Lease
    workers: int
    least: int
    most: int


def read_claim(lease: dict[str, Any]) -> Claim:
    """The claim that a Lease says. Errors: LookupError, TypeError, ValueError, AttributeError."""
    about = lease["metadata"]
    said = parsed(about["annotations"][_CLAIM_NOTE])
    numbers = [said[key] for key in ("workers", "least", "most")]
    if any(not isinstance(one, int) or isinstance(one, bool) or not 0 <= one <= _WORKERS_MAX for one in numbers):
        raise ValueError(f"{_CLAIM_NOTE} has {numbers}")
    return Claim(str(about.get("creationTimestamp")), str(about["name"]), *numbers)


def replicas_for(claims: list[Claim]) -> int:
    """How many pods fulfil all claims, within the widest of the bounds that somebody set: all fleets agree on it."""
    wanted = sum(claim.workers for claim in claims)
    least = max((claim.least for claim in claims), default=0)
    return min(max(wanted, least), max((claim.most for claim in claims), default=0))


def own_share(pods: list[Pod], claims: list[Claim], name: str) -> list[Pod]:
    """The pods that the claim `name` is to use first. With too few pods for all, neighbours share some."""
    claims = sorted(claims)
    mine = next((claim for claim in claims if claim.name == name), None)
    if mine is None or not pods:
        return []
    before = sum(claim.workers for claim in claims if claim < mine)
    total = sum(claim.workers for claim in claims)
    start = before if total <= len(pods) else before * len(pods) // total
    start %= len(pods)
    return (pods[start:] + pods[:start])[: mine.workers]


class Claims:
    """This fleet's claim on a workload, those of others, and the replicas that follow from all.

    Threads: one in run(); the rest is thread-safe.
    """

    def __init__(self, api: Api, workload: Workload, name: str, bounds: tuple[int, int], troubles: Troubles) -> None:
        self.name = name
        self._api = api
        self._workload = workload
        self._bounds = bounds
        self._troubles = troubles
        self._changed = threading.Condition()
        self._wanted: int | None = None  # None: nobody has asked for any yet, and nothing is touched
        self._ending_s: float | None = None  # by when it must be at its end
        self._known: list[Claim] = []
        # Of each Lease, the version in which it was seen first, and when: clocks of hosts need not agree.
        self._seen: dict[str, tuple[str, float]] = {}

    def want(self, count: int) -> None:
        with self._changed:
            self._wanted = count
            self._changed.notify()

    def known(self) -> list[Claim]:
        with self._changed:
            return list(self._known)

    def end(self) -> None:
        """Let run() give the claim up, and return."""
        with self._changed:
            self._ending_s = time.monotonic() + _END_S
            self._changed.notify()

    def run(self) -> None:
        backoff = Backoff()
        while True:
            with self._changed:
                asked, ending_s = self._wanted, self._ending_s
            wanted = 0 if asked and ending_s is not None else asked
            wait_s: float | None = _RENEW_S if wanted else None  # who claims nothing has nothing to keep
            failed = False
            try:
                if wanted is not None:
                    self.step(wanted)
                    self._troubles.over("replicas")
                backoff.worked()
            except ApiError as error:
                self._troubles.note("replicas", error)
                failed, wait_s = True, backoff.failed(error)
            if ending_s is not None and (not failed or time.monotonic() + (wait_s or 0) > ending_s):
                return
            with self._changed:
                self._changed.wait_for(self._news(asked, ending_s, failed), wait_s)

    def _news(self, asked: int | None, ending_s: float | None, failed: bool) -> Callable[[], bool]:
        """Whether there is something to be done before its time. What failed is left alone until then."""
        return lambda: self._ending_s != ending_s or (not failed and self._wanted != asked)

    def step(self, wanted: int) -> None:
        """The steps that this module begins with. Errors: ApiError."""
        if wanted > 0:
            self._renew(wanted)
        else:
            self._withdraw()
        for _ in range(_TRIES_MAX):
            replicas, version = self._read_scale()
            claims = self._live()
            with self._changed:
                self._known = claims
            due = replicas_for(claims) if claims else self._bounds[0]
            if replicas == due:
                return
            self._set_scale(due, version)
        raise ApiError(409, f"{self._workload.scale}: others change it all the time")

    def _request(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        with self._changed:
            ending_s = self._ending_s
        left_s = 5.0 if ending_s is None else min(3.0, ending_s - time.monotonic())
        if left_s <= 0:
            raise ApiError(0, f"{method} {path}: there is no time left")
        return self._api.request(method, path, body=body, timeout_s=left_s, **more)

    def _renew(self, wanted: int) -> None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        least, most = self._bounds
        claim = json.dumps({"workers": wanted, "least": least, "most": most})
        about = {"annotations": {_CLAIM_NOTE: claim}, "labels": {_CLAIM_LABEL: self._workload.label}}
        spec = {
            "holderIdentity": f"{socket.gethostname()} pid {os.getppid()}",
            "leaseDurationSeconds": _CLAIM_S,
            "renewTime": now,
        }
        path = f"{self._workload.leases}/{self.name}"
        try:
            self._request("PATCH", path, {"metadata": about, "spec": spec}, content=MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, **about},
                "spec": {**spec, "acquireTime": now},
            }
            self._request("POST", self._workload.leases, lease)

    def _withdraw(self) -> None:
        try:
            self._request("DELETE", f"{self._workload.leases}/{self.name}")
        except ApiError as error:
            if error.status != 404:
                raise

    def _live(self) -> list[Claim]:
        """Of all fleets, those that are renewed. One that is not is removed, unless it was renewed just then."""
        leases, _ = self._api.items(self._workload.leases, {"labelSelector": f"{_CLAIM_LABEL}={self._workload.label}"})
        now = time.monotonic()
        seen: dict[str, tuple[str, float]] = {}
        claims = []
        for lease in leases:
            try:
                claim, version, uid = (
                    read_claim(lease),
                    str(lease["metadata"]["resourceVersion"]),
                    str(lease["metadata"]["uid"]),
                )
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                self._troubles.note("claims", ApiError(0, f"a Lease of another fleet is not as expected: {error}"))
                continue
            first = self._seen.get(uid)
            seen[uid] = first if first and first[0] == version else (version, now)
            if now - seen[uid][1] <= _CLAIM_S or claim.name == self.name:
                claims.append(claim)
            else:
                self._remove(claim.name, version)
        self._seen = seen
        return sorted(claims)

    def _remove(self, name: str, version: str) -> None:
        only = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": version}}
        try:
            self._request("DELETE", f"{self._workload.leases}/{name}", only)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _read_scale(self) -> tuple[int, Any]:
        """The replicas that are asked for now, and their version."""
        scale = self._request("GET", self._workload.scale)
        about, spec = scale.get("metadata"), scale.get("spec") or {}
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None  # 0 is left out
        if not isinstance(about, dict) or not isinstance(replicas, int):
            raise ApiError(0, f"{self._workload.scale}: it is not as expected")
        return replicas, about.get("resourceVersion")

    def _set_scale(self, replicas: int, version: Any) -> None:
        """Nothing is set where it has another version by now."""
        change = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        try:
            self._request("PATCH", self._workload.scale, change, content=MERGE_PATCH)
        except ApiError as error:
            if error.status != 409:
                raise


class Fleet:
    """The workers of one workload, as `_child.Fleet` says."""

    def __init__(self, pods: Pods, claims: Claims, most: int) -> None:
        self.most = most
        self._pods = pods
        self._claims = claims
        self._keeper = threading.Thread(target=claims.run, daemon=True, name="claims")
        self._keeper.start()
        threading.Thread(target=pods.run, daemon=True, name="pods").start()

    def want(self, count: int) -> None:
        self._claims.want(count)

    def look(self) -> None:
        """The threads do it."""

    def members(self) -> list[str]:
        share = own_share(self._pods.ready(), self._claims.known(), self._claims.name)
        return list(dict.fromkeys(pod.address for pod in share))

    def close(self) -> None:
        self._claims.end()
        self._keeper.join(_END_S + 1)


def claim_name(workload: Workload, fleet: str) -> str:
    """Of a Lease: the same for all children of one fleet, so that one that was killed leaves nothing behind."""
    text = fleet or f"{socket.gethostname()}-{os.getppid()}"
    mark = hashlib.sha256(f"{workload.label} {text}".encode()).hexdigest()[:16]
    readable = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower()).strip("-")[:40]
    return f"carya-{readable}-{mark}" if readable else f"carya-{mark}"


def open_fleet(options: dict[str, Any], name: str, log: Log) -> Fleet:
    troubles = Troubles(log)
    api = Api(access(options["kubeconfig"], options["context"]))
    workload = Workload(options["kind"] + "s", options["name"], lambda: options["namespace"] or api.namespace())
    bounds = options["min_workers"], options["max_workers"]
    claims = Claims(api, workload, claim_name(workload, name), bounds, troubles)
    return Fleet(Pods(api, workload, options["port"], troubles), claims, options["max_workers"])


def main() -> None:
    """Serve until "stop", or the end of input."""
    serve(open_fleet)
