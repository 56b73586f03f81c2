"""`carya profile` and `carya tune`: measure a pipeline before a long training."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._options import INEXACT, REORDERS, choice
from .plan import DATA, REORDER, TARGET, check_file, write_file

_INTERRUPTED = 130  # as shells count a process that SIGINT ended


def register(app: Any, typer: Any) -> None:
    """Add the commands to the application."""
    target = typer.Argument(..., help=TARGET)
    data = typer.Option(None, help=DATA)
    in_json = typer.Option(False, "--json", help="One JSON line and no progress bar.")

    @app.command("profile", epilog="Example: carya profile train.py:pipeline --data photos --seconds 3")  # type: ignore[untyped-decorator]
    def profile_command(
        target: str = target,
        seconds: float = typer.Option(5.0, min=0.1, max=60.0, help="How long to measure."),
        data: str = data,
        as_json: bool = in_json,
    ) -> None:
        """Run a pipeline on its own data for some seconds: CPU time, bytes in and out of each operation.

        The operations run as they are written, on all threads that a loader takes, and one sample in 32 is timed. What was
        measured is kept: `carya explain` and the next loaders of these operations on this machine go by it.
        """
        from .measuring import profile
        from .pipeline_file import load_pipeline

        with _stopped_by_hand(), _progress("profile", as_json) as progress:
            report = profile(load_pipeline(target, data), seconds, progress)
        if as_json:
            print(json.dumps(report))
            return
        print(report)
        ran = report["run"]
        print(
            f"\nMeasured: {ran['samples']:,} samples in {ran['seconds']:g} s, {ran['samples_per_s']:,.0f} samples/s, "
            f"{ran['cpu_us_per_sample']:,.0f} us of CPU time each, reading and batching included."
        )

    @app.command("tune", epilog="Example: carya tune train.py:pipeline -o plan.json")  # type: ignore[untyped-decorator]
    def tune_command(
        target: str = target,
        seconds: float = typer.Option(1.0, min=0.05, max=60.0, help="Length of one turn of one setting."),
        rounds: int = typer.Option(5, min=1, max=1000, help="Turns of each; the median counts."),
        output: str = typer.Option(None, "-o", "--output", help="Write the order of the best as a plan file."),
        reorder: str = typer.Option("exact", help=REORDER),
        data: str = data,
        as_json: bool = in_json,
    ) -> None:
        """What each technique brings for a pipeline here: order, fusion, threads, in an ablation table.

        Before a long training: the settings run in turns on the pipeline's own data, so that what else the machine does
        meets all of them alike; the table has the median of each and its spread. Loaders do all of this by themselves, so
        that the table is for you to see; a plan file (-o) keeps the order for ever. Ctrl-C shows what is known so far.
        --reorder relaxed also tries the order with other pixels that a loader with this `reorder` runs.
        """
        from .._loading.plan_file import plan_text
        from .measuring import tune
        from .pipeline_file import load_pipeline

        check_file(output)
        with _stopped_by_hand(), _progress("tune", as_json) as progress:
            pipeline = load_pipeline(target, data)
            result = tune(pipeline, seconds, rounds, progress, choice("reorder", reorder, REORDERS))
        if output is not None and result["finished"]:
            sense = result["reorder"] if result["reorder"] in INEXACT else "exact"
            write_file(output, plan_text(pipeline, result["indices"], sense))
            result["file"] = output
        if as_json:
            print(json.dumps(result))
        else:
            _show(result)
        if not result["finished"]:
            raise SystemExit(_INTERRUPTED)


@contextmanager
def _stopped_by_hand() -> Iterator[None]:
    """Ctrl-C ends with one line."""
    try:
        yield
    except KeyboardInterrupt:
        print("carya: stopped before there was anything to show", file=sys.stderr)
        raise SystemExit(_INTERRUPTED) from None


@contextmanager
def _progress(name: str, as_json: bool) -> Iterator[Any]:
    if as_json:
        yield lambda done, whole, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(f"carya {name}"), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda done, whole, text: bar.update(task, completed=done, total=whole, description=text)


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("setting", "samples/s", "spread", "times", "CPU us")
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for line in result["settings"]:
        name = f"[bold]{line['setting']}[/bold]" if line["setting"] == result["best"] else line["setting"]
        table.add_row(
            name,
            f"{line['samples_per_s']:,.0f}",
            f"{line['lowest']:,.0f} - {line['highest']:,.0f}",
            f"{line['times']:.2f}",
            f"{line['cpu_us_per_sample']:,.0f}",
        )
    console.print(table)
    for text in _words(result):
        console.print(text, highlight=False, soft_wrap=True, markup=False)


def _words(result: dict[str, Any]) -> Iterator[str]:
    yield (
        "One thread where no other number stands; times: of the first in the same round, the median; CPU us: of a sample, all "
        "threads together."
    )
    yield f"Best here: {result['best']} (medians of {result['rounds']} rounds of {result['seconds']:g} s)."
    written = " as written" if result["order"] == result["declared"] else ""
    yield f"Its order{written}: {' > '.join(result['order'])}."
    if result["reorder"] in INEXACT:
        yield f"It gives other bits: carya explain --reorder {result['reorder']} measures how far they lie from what is written."
    if "file" in result:
        sense = f', reorder="{result["reorder"]}"' if result["reorder"] in INEXACT else ""
        yield f"Kept in {result['file']}: carya.Loader(pipeline, plan={result['file']!r}{sense})"
    if not result["finished"]:
        yield "Stopped by Ctrl-C: from the rounds that were finished."
