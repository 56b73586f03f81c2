"""Workers that somebody else starts and stops: descriptions for `carya.Loader(remote=...)`.

A list of addresses and a DNS name need no description: `remote=["w1:7070", "w2:7070"]`, `remote="dns://carya.svc:7070"`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from .._errors import InvalidArgument, invalid
from .._options import integer

__all__ = ["ChildFleet", "ray"]


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
