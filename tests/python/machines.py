"""One machine as several: a host and its workers in network namespaces, with a link and shares of the CPU of their own.

Needs root, `ip` and `tc`; refused() says what is missing. Shares of the CPU need cgroup v1 with a writable cpu controller.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

_CPU = Path("/sys/fs/cgroup/cpu")
_PERIOD_US = 20_000  # short: what is used up early in a period waits for the next one
_QUOTA_US_MIN = 1_000  # of the kernel
_PREFIX = "10.213.7."


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def refused(shares: bool = False) -> str:
    """Why there can be no such machines here, as in most containers; "" where there can."""
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        return "needs root" + "".join(f", {name}" for name in missing)
    try:
        with Machines(1, host_cores=0.5 if shares else 0) as machines:
            machines.shape(1e6)
    except subprocess.CalledProcessError as error:
        return f"no network namespaces with tbf here: {str(error.stderr).strip()}"
    except OSError as error:
        return f"no shares of the CPU here: {error}"
    return ""


class Machine:
    """A network namespace and, if `cores` is above 0, a group that gets so many cores and no more."""

    def __init__(self, name: str, address: str, cores: float) -> None:
        self.name = name
        self.address = address
        self._cores = cores
        self._group = _CPU / name if cores > 0 else None

    def make(self) -> None:
        _run("ip", "netns", "add", self.name)
        _run("ip", "-n", self.name, "link", "set", "lo", "up")
        if self._group:
            self._group.mkdir()
            (self._group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            self.set_cores(self._cores)

    def set_cores(self, cores: float) -> None:
        assert self._group is not None
        (self._group / "cpu.cfs_quota_us").write_text(str(max(_QUOTA_US_MIN, round(cores * _PERIOD_US))))

    def set_weight(self, weight: int) -> None:
        """Beside what else this machine does: a task of its own has 1,024."""
        assert self._group is not None
        (self._group / "cpu.shares").write_text(str(weight))

    def inside(self, *command: str) -> list[str]:
        """The command line that runs `command` there."""
        netns = ["ip", "netns", "exec", self.name, *command]  # it hides the groups from what it runs
        return ["sh", "-c", f'echo $$ > {self._group}/cgroup.procs; exec "$@"', "sh", *netns] if self._group else netns

    def close(self) -> None:
        subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)
        if self._group and self._group.exists():
            self._group.rmdir()


class Machines:
    """A host and `workers` behind a switch; the host's link to the switch is what shape() speaks of.

    host_cores, worker_cores: 0: as many as there are. worker_cores may be one for each. Gone at the end of the `with`, by
    when what runs on them must have ended.
    """

    def __init__(self, workers: int, host_cores: float = 0, worker_cores: float | Sequence[float] = 0) -> None:
        each = [worker_cores] * workers if isinstance(worker_cores, int | float) else list(worker_cores)
        self.cores_of_workers = each
        self._cores = [host_cores, *each]
        self._all: list[Machine] = []

    def __enter__(self) -> Machines:
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError):
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _make(self) -> None:
        mark = f"carya-{os.getpid()}"
        self._switch = self._add(f"{mark}-switch", "", 0)
        _run("ip", "-n", self._switch.name, "link", "add", "bridge0", "type", "bridge")
        _run("ip", "-n", self._switch.name, "link", "set", "bridge0", "up")
        made = [self._add(f"{mark}-{i}", f"{_PREFIX}{i + 1}", cores) for i, cores in enumerate(self._cores)]
        for i, machine in enumerate(made):
            self._connect(machine, f"port{i}")
        self.host, self.workers = made[0], made[1:]

    def _add(self, name: str, address: str, cores: float) -> Machine:
        machine = Machine(name, address, cores)
        self._all.append(machine)  # also if it fails half way
        machine.make()
        return machine

    def _connect(self, machine: Machine, port: str) -> None:
        switch = self._switch.name
        _run("ip", "link", "add", "uplink", "netns", machine.name, "type", "veth", "peer", port, "netns", switch)
        _run("ip", "-n", machine.name, "address", "add", f"{machine.address}/24", "dev", "uplink")
        _run("ip", "-n", machine.name, "link", "set", "uplink", "up")
        _run("ip", "-n", switch, "link", "set", port, "master", "bridge0", "up")

    def shape(self, bytes_per_s: float) -> None:
        """So much and no more goes over the host's link, in each direction."""
        rate = ("root", "tbf", "rate", f"{round(bytes_per_s * 8)}bit", "burst", "64kb", "latency", "100ms")
        for space, device in ((self.host.name, "uplink"), (self._switch.name, "port0")):
            _run("tc", "-n", space, "qdisc", "replace", "dev", device, *rate)

    def cut(self, machine: Machine) -> None:
        """Nothing passes its link any more, and nobody is told: connections stay half open."""
        _run("ip", "-n", self._switch.name, "link", "set", self._port(machine), "nomaster")

    def mend(self, machine: Machine) -> None:
        _run("ip", "-n", self._switch.name, "link", "set", self._port(machine), "master", "bridge0")

    def _port(self, machine: Machine) -> str:
        return f"port{[self.host, *self.workers].index(machine)}"

    def close(self) -> None:
        for machine in self._all:
            machine.close()
        self._all.clear()
