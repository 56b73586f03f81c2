"""`carya explain` and `carya plan`: how a pipeline runs, and keeping that."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

from .._errors import IoError
from .._tracing.whole_file import is_written_to, write_whole

TARGET = "A pipeline document (JSON), train.py:pipeline, or the word demo."
REORDER = "exact (same bits), rounding (within a level), relaxed (same distribution by kind) or off."
DATA = "This folder, with one folder of photos per class, in place of the pipeline's own."


def register(app: Any, typer: Any) -> None:
    """Add the commands to the application."""
    target = typer.Argument(..., help=TARGET)
    data = typer.Option(None, help=DATA)
    reorder = typer.Option("exact", help=REORDER)
    in_json = typer.Option(False, "--json", help="One JSON line.")

    @app.command("explain", epilog="Example: carya explain train.py:pipeline --svg plan.svg")  # type: ignore[untyped-decorator]
    def explain(
        target: str = target,
        svg: str = typer.Option(None, help="Write a picture of the plan to this file."),
        data: str = data,
        reorder: str = reorder,
        as_json: bool = in_json,
    ) -> None:
        """In which order a pipeline's operations run, what each costs, what each move saves, what came close.

        The name of a job of the daemon shows where its samples are made, as `carya placement show` does.
        """
        from .pipeline_file import load_pipeline

        if is_job(target):
            from .placement import placements, print_placements

            print_placements(target, placements(None, target), as_json)
            return
        sense: Any = reorder  # checked there
        report = load_pipeline(target, data).explain(sense, data=None if target == "demo" else data)
        if svg is not None:
            write_file(svg, report.svg())
        print(json.dumps(report) if as_json else report)

    plan = typer.Typer(
        name="plan",
        help="Plans as files: the order in which a pipeline's operations run, kept.",
        epilog="Example: carya plan freeze train.py:pipeline -o plan.json",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(plan)

    @plan.callback()  # type: ignore[untyped-decorator]
    def plans() -> None:
        """Plans as files."""

    @plan.command("freeze", epilog="Example: carya plan freeze train.py:pipeline -o plan.json")  # type: ignore[untyped-decorator]
    def freeze(
        target: str = target,
        output: str = typer.Option(None, "-o", "--output", help="The file to write; else it goes to stdout."),
        data: str = data,
        reorder: str = reorder,
        as_json: bool = in_json,
    ) -> None:
        """Write the plan that a loader would choose here and now; `carya.Loader(p, plan="plan.json")` keeps to it."""
        from .._loading.plan_file import plan_text
        from .._options import REORDERS, choice
        from .pipeline_file import load_pipeline

        text = plan_text(load_pipeline(target, data), reorder=choice("reorder", reorder, REORDERS))
        written = json.loads(text)
        if not output:
            print(json.dumps(written) if as_json else text, end="\n" if as_json else "")
            return
        write_file(output, text)
        if as_json:
            print(json.dumps({"file": output, **written}))
        else:
            order = " > ".join(step["op"] for step in written["order"])
            print(f"{output}: {order}\nUse it: carya.Loader(pipeline, plan={output!r})")


def is_job(target: str) -> bool:
    """Whether this user's daemon runs a job of that name."""
    from .. import _core

    if os.path.exists(target) or not _core.daemon_listens(_core.daemon_socket()):
        return False
    status = json.loads(_core.daemon_status(_core.daemon_socket()))
    return any(job["job"] == target for job in status["jobs"])


def check_file(path: str | None) -> None:
    """Before work that takes long: whether its file can come to be there. Errors: IoError, as of `write_file`."""
    if path is None:
        return
    folder = os.path.dirname(os.path.realpath(path))
    why = errno.EISDIR if os.path.isdir(path) else 0 if os.path.isdir(folder) else errno.ENOENT
    if not why and not os.access(path if is_written_to(path) else folder, os.W_OK):
        why = errno.EACCES
    if why:
        raise IoError(f"{path}: {os.strerror(why)}; give a path that this user may write")


def write_file(path: str, text: str) -> None:
    """All of it or nothing. Errors: IoError."""
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise IoError(f"{path}: {error.strerror}; give a path that this user may write") from None
