"""What the system does for processes: ending with a parent, memory that is one's own, what a process has open."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Threads of libraries: a worker process has one core, as every library that is forked after its threads began is broken.
_THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent(parent: int | None, wanted: bool = True) -> None:
    """Be killed when the thread that made this process ends, or, where it has ended already, end now."""
    _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL if wanted else 0), 0, 0, 0)
    if wanted and parent is not None and os.getppid() != parent:
        os._exit(1)


def keep_freed_memory() -> None:
    """Let malloc keep what is freed, so that arrays of every sample do not fault their pages in anew.

    Blocks of more than 128 KiB are given back to the system otherwise: 37 faults for each picture of 150 KB.
    """
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)


def environment() -> dict[str, str]:
    """That of a host: the trainer's, with one thread for each numeric library unless the user said how many."""
    return {**dict.fromkeys(_THREAD_COUNTS, "1"), **os.environ}


def _text(path: str) -> str:
    with open(path) as file:  # not by pathlib, which nothing else here needs and whose import takes time
        return file.read()


def own_bytes(pid: int | str = "self") -> int:
    """Memory of a process that no other shares; 0 when it is gone."""
    try:
        fields = _text(f"/proc/{pid}/statm").split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE if len(fields) > 2 else 0


def thread_count() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def open_files() -> set[str]:
    """Regular files that this process has open, by path."""
    found = set()
    try:
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                continue
            if target.startswith("/") and not target.startswith(("/dev/", "/proc/", "/memfd:")):
                found.add(target)
    except OSError:
        pass
    return found


def memory_kills() -> int:
    """How often the kernel has ended a process of this cgroup for want of memory."""
    try:
        line = _text("/proc/self/cgroup").split("::", 1)
        events = _text(f"/sys/fs/cgroup/{line[1].strip().strip('/')}/memory.events")
        return int(events.split("oom_kill ")[1].split()[0])
    except (OSError, IndexError, ValueError):
        return 0


def be_nicer(steps: int) -> None:
    """This process, and what it starts from now on. Where the system shares the cores among sessions first (autogroups, without
    cgroups), also the session, which this process has to lead."""
    if steps <= 0:
        return
    os.nice(steps)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:  # no autogroups, or not for us
            group.write(str(min(19, steps)))


def how_it_ended(status: int, killed_for_memory: bool) -> str:
    """Of waitpid's status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = str(number)
        if number == signal.SIGKILL and killed_for_memory:
            return "was killed by the system, which had no memory left"
        return f"was killed by {name}"
    return f"ended with status {os.waitstatus_to_exitcode(status)}"
