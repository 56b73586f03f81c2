"""Which daemon serves a loader, under which name its ranks find each other, and starting one."""

from __future__ import annotations

import logging
import os
import stat
import time
from typing import Any

from .. import _core
from .._errors import Error, InvalidArgument, NotFound, invalid
from .._options import integer
from .._programs import program

# Loaders of the same pipeline that this process has made: the second is another job than the first.
_made: dict[str, int] = {}

_said_unused: set[str] = set()
_log = logging.getLogger("carya")

_SPAWN_WAIT_S = 10.0


def find_daemon(daemon: str) -> str:
    """The socket of the daemon that is to be used, or "" for none.

    Errors: InvalidArgument; NotFound when one is required and none listens, or none can be started.
    """
    if not isinstance(daemon, str) or not daemon:
        raise invalid("Loader: daemon", daemon, '"auto", "embedded", "required", "spawn", or the path of a socket')
    if daemon == "embedded":
        return ""
    named = "/" in daemon
    if not named and daemon not in ("auto", "required", "spawn"):
        raise invalid("Loader: daemon", daemon, '"auto", "embedded", "required", "spawn", or the path of a socket')
    socket = daemon if named else _core.daemon_socket()
    if _core.daemon_listens(socket):
        return socket
    if daemon == "auto":
        _say_unused(socket)
        return ""
    if why := no_socket(socket):
        raise InvalidArgument(f"Loader: daemon={daemon!r}: {socket}: {why}; give the path that caryad listens at")
    if daemon == "spawn":
        spawn(socket)
        return socket
    raise NotFound(
        f'Loader: daemon={daemon!r}: nobody listens at {socket}; start one (caryad --socket {socket}), use daemon="spawn", '
        'or daemon="embedded" to work without'
    )


def no_socket(path: str) -> str:
    """What lies there in place of a socket, in words; "" where a socket is, or nothing that this user can see."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISSOCK(mode):
        return ""
    return f"it is a {'folder' if stat.S_ISDIR(mode) else 'file'} and no socket"


def _say_unused(socket: str) -> None:
    """Log, once per socket, that the daemon which the user named is not used."""
    if not os.environ.get("CARYA_DAEMON_SOCKET") or socket in _said_unused:
        return
    _said_unused.add(socket)
    if not os.path.exists(socket):
        why = "there is no such socket, or this user cannot see it"
    elif not os.access(socket, os.W_OK):
        why = "this user may not connect to it: run caryad as this user, or join the group that owns the socket"
    else:
        why = no_socket(socket) or "nobody listens there; start caryad"
    _log.warning(
        'works without the daemon: CARYA_DAEMON_SOCKET=%s: %s; unset the variable or give daemon="embedded" '
        "to work without one",
        socket, why,
    )  # fmt: skip


def blind(error: Exception, socket: str) -> NotFound:
    """What to raise when the daemon cannot open a dataset that this process can open."""
    import json

    where, pid = "", "?"
    try:
        status = json.loads(_core.daemon_status(socket))
        pid = status["pid"]
        here = os.readlink("/proc/self/ns/mnt")
        if status["mount_namespace"] not in ("", here):
            where = ", in another mount namespace (another container, or a service with folders of its own)"
    except (Error, OSError, KeyError):  # it has ended, or is of an earlier version
        pass
    return NotFound(
        f"Loader: the daemon at {socket} (caryad, process {pid}{where}) does not see data that this process sees: {error}; "
        'mount the same folder at the same path for both and let its user read it, or give daemon="embedded" (of a store: let '
        "it use the network, IPAddressAllow= of its unit)"
    )


def spawn(socket: str) -> None:
    """Start a daemon that outlives this process, and wait until it listens. Errors: NotFound.

    It gets none of this process's credentials: those that a job needs are lent to it for as long as the job runs.
    """
    import subprocess  # not at the top: `import carya` would take a sixth longer

    with subprocess.Popen(  # when two do this at once, the second daemon sees the first and ends
        [program(), "--socket", socket, "--idle-exit", "600"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={name: value for name, value in os.environ.items() if not _core.says_how_stores_are_asked(name)},
    ) as child:
        child.returncode = 0  # it is not waited for
        until = time.monotonic() + _SPAWN_WAIT_S
        while not _core.daemon_listens(socket):
            if time.monotonic() > until:
                raise NotFound(f"caryad: was started and does not listen at {socket}; run it by hand to see why")
            time.sleep(0.005)


def _is_name(name: Any, bytes_max: int) -> bool:
    """Whether it is text of 1 to so many bytes of UTF-8; text with lone surrogates has none."""
    try:
        return isinstance(name, str) and 1 <= len(name.encode()) <= bytes_max
    except UnicodeEncodeError:
        return False


def check_job_name(job: str | None) -> None:
    """Errors: InvalidArgument."""
    if job is not None and not _is_name(job, 200):
        raise invalid("Loader: job", job, "a name of 1 to 200 bytes, or None")


def job_name(job: str | None, world_size: int, fingerprint: str) -> str:
    """The name that all ranks of a job give: `job`, or one made of what their launcher tells all of them."""
    if job is not None:
        return job
    number = _made.get(fingerprint, 0)
    _made[fingerprint] = number + 1
    return f"{os.getuid()}-{_launch(world_size)}-{world_size}-{fingerprint[:16]}-{number}"


def _launch(world_size: int) -> str:
    """What the ranks of one launch have in common and other launches have not."""
    found = os.environ.get
    restart = found("TORCHELASTIC_RESTART_COUNT", "0")
    torchrun = found("TORCHELASTIC_RUN_ID")
    if torchrun is not None:  # without --rdzv-id all runs are called "none"; their agent tells them apart
        return f"torchrun-{torchrun}-{os.getppid()}-{restart}"
    if "SLURM_JOB_ID" in os.environ:
        return f"slurm-{found('SLURM_JOB_ID')}-{found('SLURM_STEP_ID', '0')}-{found('SLURM_RESTART_COUNT', '0')}"
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        return f"mpi-{found('PMIX_NAMESPACE', found('OMPI_MCA_ess_base_jobid', str(os.getppid())))}"
    if world_size > 1:
        return f"parent-{os.getppid()}"
    return f"process-{os.getpid()}"


def checked_share(share: Any, replicas: int) -> tuple[str, int]:
    """A name ("" where there is none) and how many jobs the first batch waits for. Errors: InvalidArgument.

    >>> checked_share("sweep", 1), checked_share(("sweep", 4), 1), checked_share(None, 1)
    (('sweep', 1), ('sweep', 4), ('', 1))
    """
    if share is None:
        return "", 1
    name, jobs = share if isinstance(share, tuple) and len(share) == 2 else (share, 1)
    if not _is_name(name, 190):
        raise invalid(
            "Loader: share", share, 'a name of 1 to 190 bytes, a pair of it and a number of jobs ("sweep", 4), or None'
        )
    jobs = integer("Loader: share: the number of jobs", jobs, 1, "an integer of 1 to 32", 32)
    if replicas > 1:
        raise InvalidArgument(
            f"Loader: got share={share!r} and replicas={replicas}; give one of them: replicas always read together, jobs that "
            "share as long as they keep pace"
        )
    return name, jobs


def checked_replica(replica: int, replicas: int) -> tuple[int, int]:
    """Errors: InvalidArgument."""
    replica, replicas = (
        integer(f"Loader: {name}", value, 0, "an integer of 0 to 32", 32)
        for name, value in (("replica", replica), ("replicas", replicas))
    )
    if not 1 <= replicas <= 32 or not 0 <= replica < replicas:
        raise InvalidArgument(
            f"Loader: got replica={replica} of replicas={replicas}; give 1 to 32 replicas, counted from 0"
        )
    return replica, replicas
