"""What `carya doctor` finds: facts of the machine and of the build, and problems with their fixes."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any, NamedTuple

from .. import _core
from .._pipeline.dataset import cache_dir

_MIB = 1 << 20


class Problem(NamedTuple):
    """Something that costs speed or may fail, and what to do about it."""

    subject: str
    finding: str
    fix: str


def examine() -> tuple[dict[str, Any], list[Problem]]:
    """Facts by name, and the problems seen in them."""
    facts = dict(_core.doctor())
    facts["simd_chosen"] = os.environ.get("CARYA_SIMD", "")
    facts["python"] = platform.python_version()
    facts["cache_dir"] = cache_dir()
    for package in ("numpy", "torch", "jax"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts, judge(facts)


def judge(facts: dict[str, Any]) -> list[Problem]:
    """The problems in `facts`. Pure, so that every rule has a test."""
    found: list[Problem] = []

    def problem(subject: str, finding: str, fix: str) -> None:
        found.append(Problem(subject, finding, fix))

    engine = str(facts.get("io_engine", ""))
    if "io_uring" not in engine.split(" ")[0]:
        problem(
            "io_uring",
            f"reads go through {engine or 'nothing'}",
            "allow io_uring: sysctl kernel.io_uring_disabled=0, and a seccomp profile that permits io_uring_setup "
            "(containers: --security-opt seccomp=...); without it more CPU goes into reads",
        )
    memlock = int(facts.get("memlock_bytes", 0))
    if memlock < 8 * _MIB:
        problem(
            "memlock",
            f"RLIMIT_MEMLOCK is {memlock // 1024} KiB",
            "raise it to 64 MiB (ulimit -l 65536, or memlock in limits.conf): read buffers can then be registered",
        )
    if int(facts.get("open_files_max", 1 << 20)) < 1024:
        problem("open files", f"RLIMIT_NOFILE is {facts['open_files_max']}", "raise it to 4096 (ulimit -n 4096)")
    if facts.get("simd_chosen") and facts["simd"] != facts["simd_targets"][0]:
        problem(
            "SIMD",
            f"CARYA_SIMD={facts['simd_chosen']}, though {facts['simd_targets'][0]} runs here",
            "unset CARYA_SIMD: the batches are the same bits, and decoding is faster",
        )
    online, allowed = float(facts.get("online_cores", 1)), float(facts.get("allowed_cores", 1))
    if allowed < online:
        source = facts.get("quota_source") or "CPU affinity"
        problem(
            "cores",
            f"{allowed:g} of {online:g} cores are allowed ({source})",
            "give the container or the job more CPU, if loading is what limits (see stall share of `carya run`)",
        )
    if int(facts.get("equal_weight_siblings", 0)) > 0:
        problem(
            "neighbours",
            f"{facts['equal_weight_siblings']} busy sibling cgroups have the same CPU weight as this one",
            "raise cpu.weight of the training job, else the kernel shares the cores evenly with them",
        )
    if facts.get("thp_shmem") in ("never", "deny"):
        problem(
            "huge pages",
            f"transparent huge pages for shared memory: {facts['thp_shmem']}",
            "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled: slots then cost fewer page faults",
        )
    if int(facts.get("memory_bytes", 1 << 40)) < 2 << 30:
        problem(
            "memory",
            f"{int(facts['memory_bytes']) // _MIB} MiB are allowed",
            "lower slots= and read_ahead= of the Loader, or raise the memory limit",
        )
    if not facts.get("cache_dir"):
        problem(
            "cache folder", "none can be written", "set CARYA_CACHE_DIR: without it every start lists the dataset anew"
        )
    return found


def _simd_line(facts: dict[str, Any]) -> str:
    """The SIMD target that runs, and why the next better one that is compiled in does not."""
    line = str(facts["simd"])
    if facts["simd_chosen"]:
        line += " (by CARYA_SIMD)"
    if facts["simd_missing"]:
        target, missing = list(facts["simd_missing"].items())[-1]  # best first
        line += f"; not {target}: this processor, or its kernel, lacks {', '.join(missing)}"
    return line


def show(facts: dict[str, Any], problems: list[Problem]) -> None:
    """Tables of the facts and of the problems."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(show_header=False)
    for name, value in {**facts, "simd": _simd_line(facts)}.items():
        if name in ("simd_targets", "simd_missing", "simd_chosen"):
            continue
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        if name.endswith("_bytes") and isinstance(value, int):
            text = "unlimited" if value >= 1 << 62 else f"{value / _MIB:,.0f} MiB"
        table.add_row(name.replace("_", " "), text)
    console.print(table)
    if not problems:
        console.print("no problems found")
    for problem in problems:
        console.print(
            f"[bold]{problem.subject}[/bold]: {problem.finding}\n    fix: {problem.fix}",
            highlight=False,
            soft_wrap=True,
        )
