"""What `carya run` and `carya index` do."""

from __future__ import annotations

import json
import resource
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from .._errors import SampleError
from .._loading.loader import Loader
from .._pipeline.pipeline import Pipeline

# Between two updates of the progress: asking for figures costs a batch of small samples' time.
SHOW_S = 0.1


@dataclass(frozen=True)
class Request:
    """How to iterate."""

    epochs: int
    steps: int | None
    threads: int | Literal["auto"]
    on_error: Any
    seed: int | None
    io_engine: Any
    reorder: Any


def run_pipeline(pipeline: Pipeline, request: Request, as_json: bool) -> None:
    """Iterate, show progress, print the final table or one JSON line."""
    cpu, start = _cpu_s(), time.perf_counter()
    samples = steps = 0
    shown = 0.0
    with Loader._create(
        pipeline,
        measuring={"trains": False},
        threads=request.threads,
        on_error=request.on_error,
        seed=request.seed,
        io_engine=request.io_engine,
        reorder=request.reorder,
        epochs=request.epochs,
    ) as loader:
        total = len(loader) * request.epochs if request.steps is None else request.steps
        with nullcontext() if as_json else progress_bar() as progress:
            task = None if progress is None else progress.add_task("", total=total, rate="", stall="", cpu="")
            try:
                for _ in range(request.epochs):
                    for batch in loader:
                        steps += 1
                        samples += len(batch.records)
                        wall = time.perf_counter() - start
                        if progress is not None and (wall >= shown + SHOW_S or steps == total):
                            shown = wall
                            _advance(progress, task, loader, steps, samples, wall, _cpu_s() - cpu)
                        if steps == request.steps:
                            break
                    if steps == request.steps:
                        break
            except SampleError as error:
                raise SampleError(f"{error} On the command line: --on-error replace, or --on-error mask.") from None
        wall, used = time.perf_counter() - start, _cpu_s() - cpu
        result = _result(loader, samples, steps, wall, used)
    if as_json:
        print(json.dumps(result))
    else:
        _show(result)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def progress_bar() -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[stall]}"),
        TextColumn("{task.fields[cpu]}"),
        TimeRemainingColumn(),
    )


def _advance(progress: Any, task: Any, loader: Loader, steps: int, samples: int, wall: float, cpu: float) -> None:
    stall = loader.stats()["stall_seconds"] / wall
    progress.update(
        task,
        completed=steps,
        rate=f"{samples / wall:,.0f} img/s",
        stall=f"stall {stall:.0%}",
        cpu=f"{cpu / wall:.1f} cores",
    )


def _result(loader: Loader, samples: int, steps: int, wall: float, cpu: float) -> dict[str, Any]:
    stats = loader.stats()
    return {
        "samples": samples,
        "steps": steps,
        "seconds": round(wall, 3),
        "samples_per_s": round(samples / wall, 1),
        "cpu_us_per_sample": round(cpu / max(samples, 1) * 1e6, 1),
        "cores_used": round(cpu / wall, 2),
        "stall_share": round(stats["stall_seconds"] / wall, 3),
        "quarantined": len(loader.quarantine()),
        "threads": stats["threads"],
        "io_engine": stats["io_engine"],
        "ops": stats["ops"],
        "state": loader.state_dict(),
    }


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(show_header=False)
    for key in (
        "samples",
        "steps",
        "seconds",
        "samples_per_s",
        "cpu_us_per_sample",
        "cores_used",
        "stall_share",
        "quarantined",
        "threads",
        "io_engine",
    ):
        value = result[key]
        table.add_row(key.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
    console.print(table)
    ops = Table("stage", "samples", "CPU us per sample")
    for op in result["ops"]:
        ops.add_row(escape(op["name"]), f"{op['samples']:,}", f"{op['cpu_ns_per_sample'] / 1000:,.1f}")
    console.print(ops)
