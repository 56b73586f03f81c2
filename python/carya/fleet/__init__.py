"""Workers that somebody else starts and stops: descriptions for `carya.Loader(remote=...)`.

A list of addresses and a DNS name need no description: `remote=["w1:7070", "w2:7070"]`, `remote="dns://carya.svc:7070"`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .._errors import InvalidArgument, invalid
from .._options import integer

__all__ = ["ChildFleet", "kubernetes", "ray"]


@dataclass(frozen=True)
class ChildFleet:
    """A fleet that a child process runs (remote/fleet/child_fleet.h): what is started, and what it is told. Can be pickled.

    Attributes:
        command: The program and its arguments.
        options: What it is told at its start, as JSON.
        price: Of one worker, in dollars per hour; 0: unknown.
    """

    command: tuple[str, ...]
    options: str
    price: float = 0.0


# Names of objects: DNS subdomains, and labels for namespaces. Source: kubernetes.io, "Object Names and IDs".
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


def kubernetes(
    name: str,
    *,
    namespace: str | None = None,
    kind: Literal["deployment", "statefulset"] = "deployment",
    min_workers: int = 0,
    max_workers: int = 40,
    port: int | None = None,
    price: float = 0.0,
    kubeconfig: str | None = None,
    context: str | None = None,
) -> ChildFleet:
    """Workers as pods of a Deployment (or StatefulSet) of carya-worker that the loader scales.

    The workload exists already; packaging/helm has a chart for it. Loaders of any number of hosts may share it: its
    replicas are the sum of what they want, and each uses pods of its own first. From the first loader on the replicas
    belong to the loaders: who else changes them is overruled. They go back to `min_workers` when the last loader
    closes; where its host died without a word, the loaders that are left (or the next one) see it after a minute.

    A process of its own does it, over HTTPS with the standard library. Errors of the API server (rights that are
    missing, a server that is busy or away) are said once in `loader.placement()["events"]`; the stream goes on with
    the pods that are known.

    Needed rights, in the workload's namespace: `get` and `patch` of `deployments/scale` (or `statefulsets/scale`),
    `list` and `watch` of `pods`, `list`, `create`, `patch` and `delete` of `leases`. Certificates of pods are best
    for one name that all of them have, which `remote_tls={"server_name": ...}` gives.

    Args:
        name: Of the workload.
        namespace: Of the workload; None: that of the pod's service account, or of the kubeconfig's context.
        kind: "deployment" or "statefulset".
        min_workers: So many stay without a loader. Give the same in all loaders.
        max_workers: So many at most; for all loaders together it is the largest that one gives.
        port: Where the pods listen; None: their container port that is called `carya`, else 7070.
        price: Of one worker, in dollars per hour; 0: unknown.
        kubeconfig: A kubeconfig file, read anew for each request. None: the service account of the pod that this
            process runs in; outside of pods `$KUBECONFIG`, or `~/.kube/config`. YAML needs PyYAML (`pip install
            carya[kubernetes]`).
        context: Of the kubeconfig; None: its current one.

    Errors: InvalidArgument.

    >>> import carya
    >>> fleet = carya.fleet.kubernetes("carya-worker", namespace="ml", max_workers=16, price=0.4273)
    >>> fleet.command[1:]
    ('-m', 'carya.fleet.kubernetes')
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid("fleet.kubernetes: name", name, "the name of a Deployment or StatefulSet")
    if namespace is not None and not (isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace)):
        raise invalid("fleet.kubernetes: namespace", namespace, "the name of a namespace, or None")
    if kind not in ("deployment", "statefulset"):
        raise invalid("fleet.kubernetes: kind", kind, '"deployment" or "statefulset"')
    integer("fleet.kubernetes: max_workers", max_workers, 1, "an integer of 1 to 10000", 10_000)
    integer("fleet.kubernetes: min_workers", min_workers, 0, "an integer of 0 to max_workers", max_workers)
    if port is not None:
        integer("fleet.kubernetes: port", port, 1, "a port of 1 to 65535, or None", 65_535)
    if not price >= 0:
        raise invalid("fleet.kubernetes: price", price, "dollars per hour and worker")
    options = {
        "name": name,
        "namespace": namespace,
        "kind": kind,
        "min_workers": min_workers,
        "max_workers": max_workers,
        "port": port,
        "kubeconfig": None if kubeconfig is None else os.path.abspath(os.path.expanduser(os.fspath(kubeconfig))),
        "context": context,
    }
    return ChildFleet((sys.executable, "-m", "carya.fleet.kubernetes"), json.dumps(options), price)


def ray(
    *,
    address: str = "auto",
    max_workers: int = 40,
    cpus_per_worker: int = 8,
    price: float = 0.0,
    resources: dict[str, float] | None = None,
    insecure: bool = False,
    cert: str | None = None,
    key: str | None = None,
    ca: str | None = None,
    arguments: Sequence[str] = (),
) -> ChildFleet:
    """Workers on a Ray cluster: an actor for each, that runs `carya-worker` where Ray has room.

    Ray is not imported here but in a process of its own, with this Python. Carya must be installed on the nodes, in the
    same release. Workers start when the placement wants them, and end when it does not, or when the loader closes.

    Args:
        address: Of the cluster, as `ray.init` takes it; "auto": the one of this machine.
        max_workers: So many at most.
        cpus_per_worker: Cores that Ray reserves for each, and its threads.
        price: Of one worker, in dollars per hour; 0: unknown.
        resources: Further resources of Ray's that each needs, such as `{"spot": 1}`.
        insecure: Plain TCP also between machines. Without it, and without certificates, workers are found on this
            machine only.
        cert: Certificate of the workers, a path on the nodes; with `key` and `ca`. It must be for the nodes' addresses.
        key: Its key.
        ca: Authority of the hosts' certificates.
        arguments: Further arguments of carya-worker, such as `["--memory", "8GiB"]`.

    Errors: InvalidArgument.

    >>> import carya
    >>> fleet = carya.fleet.ray(address="ray-head:6379", max_workers=40, cpus_per_worker=8, price=0.4273, insecure=True)
    >>> fleet.command[1:]
    ('-m', 'carya.fleet.ray')
    """
    if not isinstance(address, str) or not address:
        raise invalid("fleet.ray: address", address, 'the address of a Ray cluster, or "auto"')
    integer("fleet.ray: max_workers", max_workers, 1, "an integer of 1 to 10000", 10_000)
    integer("fleet.ray: cpus_per_worker", cpus_per_worker, 1, "an integer of 1 to 1024", 1024)
    if not price >= 0:
        raise invalid("fleet.ray: price", price, "dollars per hour and worker")
    files = {"--cert": cert, "--key": key, "--ca": ca}
    if 0 < sum(path is not None for path in files.values()) < len(files):
        raise InvalidArgument("fleet.ray: cert, key and ca belong together; give all three or none")
    words = [word for name, path in files.items() if path is not None for word in (name, path)]
    words += ["--insecure"] * insecure + ["--threads", str(cpus_per_worker), *arguments]
    options = {
        "address": address,
        "max_workers": max_workers,
        "cpus_per_worker": cpus_per_worker,
        "resources": resources or {},
        "arguments": words,
    }
    return ChildFleet((sys.executable, "-m", "carya.fleet.ray"), json.dumps(options), price)
