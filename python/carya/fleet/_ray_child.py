"""Runs workers as actors of a Ray cluster, as lines of JSON on standard input say (remote/fleet/child_fleet.h has the protocol).

One loop, which waits for lines and looks after the actors twice a second. An actor starts the real carya-worker and tells
where it listens; a node that dies takes its actors along, and others are started in their place.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from ._child import serve

_LOOK_S = 2.0  # between two questions to an actor whether its worker lives
_START_S = 60.0  # from the start of carya-worker to its being ready
_RETRY_S = 5.0  # until an actor that died is replaced
_DRAIN_S = 60.0  # for a worker that is not wanted any more to finish what it has


class WorkerActor:
    """On a node: one carya-worker, which ends when this process does."""

    def __init__(self, arguments: list[str]) -> None:
        import ray

        from carya._programs import program

        host = ray.util.get_node_ip_address()
        listen = f"[{host}]:0" if ":" in host else f"{host}:0"
        self._worker = subprocess.Popen(
            [program("carya-worker"), "--listen", listen, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_die_with_parent,
            env={name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "JOURNAL_STREAM")},
        )
        self._address = f"{listen[:-1]}{self._port()}"

    def _port(self) -> int:
        """From the line that says that it is ready. Errors: RuntimeError, with what it said instead."""
        assert self._worker.stderr
        seen = ""
        until = time.monotonic() + _START_S
        os.set_blocking(self._worker.stderr.fileno(), False)
        while time.monotonic() < until:
            select.select([self._worker.stderr], [], [], 1.0)
            text = self._worker.stderr.read()
            seen += text or ""
            for line in seen.splitlines(keepends=True):
                if " ready listen=" in line and line.endswith("\n"):
                    self._keep_reading()
                    return int(line.split(" port=")[1].split()[0])
            if text == "" and self._worker.poll() is not None:
                break
        self._worker.kill()
        raise RuntimeError(f"carya-worker did not start: {seen.strip()}")

    def _keep_reading(self) -> None:
        """Its log goes to the actor's, which Ray keeps."""
        import threading

        assert self._worker.stderr
        os.set_blocking(self._worker.stderr.fileno(), True)
        log = self._worker.stderr

        def copy() -> None:
            for line in log:
                sys.stderr.write(line)

        threading.Thread(target=copy, daemon=True).start()

    def address(self) -> str:
        return self._address

    def alive(self) -> bool:
        return self._worker.poll() is None

    def drain(self) -> None:
        """End the worker when it has finished what it has."""
        self._worker.terminate()
        try:
            self._worker.wait(_DRAIN_S)
        except subprocess.TimeoutExpired:
            self._worker.kill()


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


@dataclass
class _Worker:
    actor: Any
    pending: Any  # what it was asked last
    asked_s: float
    address: str = ""  # "": not placed yet
    draining: bool = False


@dataclass
class Fleet:
    """The workers of one cluster. `ray` is the module, connected; `actor` the actor's class with its options."""

    ray: Any
    actor: Any
    arguments: list[str]
    most: int
    log: Any
    workers: list[_Worker] = field(default_factory=list)
    wanted: int = 0
    not_before_s: float = 0.0

    def want(self, count: int) -> None:
        self.wanted = count

    def members(self) -> list[str]:
        return [worker.address for worker in self.workers if worker.address and not worker.draining]

    def look(self) -> None:
        """Hear what actors have said, replace those that died, end those that are too many."""
        now = time.monotonic()
        for worker in list(self.workers):
            self._hear(worker, now)
        kept = [worker for worker in self.workers if not worker.draining]
        if len(kept) < self.wanted and now >= self.not_before_s:
            for _ in range(self.wanted - len(kept)):
                actor = self.actor.remote(self.arguments)
                self.workers.append(_Worker(actor, actor.address.remote(), now))
        # Those that wait for room first, then the youngest.
        kept.sort(key=lambda worker: not worker.address)
        for worker in kept[self.wanted :]:
            self._end(worker)

    def _hear(self, worker: _Worker, now: float) -> None:
        if worker.pending is None:
            if now - worker.asked_s < _LOOK_S:
                return
            worker.pending, worker.asked_s = worker.actor.alive.remote(), now
        if not self.ray.wait([worker.pending], timeout=0)[0]:
            return
        try:
            said = self.ray.get(worker.pending)
        except Exception as error:  # whatever Ray calls it: the node, the actor or its start
            self._forget(worker, "" if worker.draining else str(error).strip().splitlines()[-1])
            return
        worker.pending = None
        if worker.draining:
            self._forget(worker, "")
        elif said is False:
            self._forget(worker, "its carya-worker ended")
        elif isinstance(said, str):
            worker.address = said

    def _end(self, worker: _Worker) -> None:
        if not worker.address:
            self._forget(worker, "")
            return
        worker.draining = True
        worker.pending = worker.actor.drain.remote()

    def _forget(self, worker: _Worker, why: str) -> None:
        self.workers.remove(worker)
        with contextlib.suppress(Exception):
            self.ray.kill(worker.actor)
        if why:
            self.not_before_s = time.monotonic() + _RETRY_S
            self.log(f"worker {worker.address or '(not placed yet)'}: {why}")

    def close(self) -> None:
        for worker in list(self.workers):
            self._forget(worker, "")


def _connect(options: dict[str, Any], log: Any) -> Fleet:
    try:
        import ray
    except ImportError:
        raise SystemExit("carya.fleet.ray: Ray is not installed here; pip install ray") from None
    ray.init(address=options["address"], log_to_driver=False, configure_logging=False)
    actor = ray.remote(WorkerActor).options(
        num_cpus=options["cpus_per_worker"], resources=options["resources"] or None, max_restarts=0, max_concurrency=2
    )
    return Fleet(ray, actor, options["arguments"], options["max_workers"], log)


def main() -> None:
    """Serve until "stop", or the end of input."""
    serve(lambda options, _, log: _connect(options, log))
