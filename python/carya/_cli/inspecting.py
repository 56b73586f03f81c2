"""`carya inspect`: what lies at a path, on the terminal, as a page, or as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from .._errors import invalid
from .._sources.stores import is_url
from .shown import shown

PATIENCE_S = 5.0  # without a word of what a store does
_NAME_MAX = 28  # letters of a field's name that its column of values is moved for


def register(app: Any, typer: Any) -> None:
    """Add the command to the application."""

    @app.command("inspect", epilog="Example: carya inspect train.parquet --records 2 --html train.html")  # type: ignore[untyped-decorator]
    def inspect(
        path: str = typer.Argument(
            ..., help="A file, a URL, a pattern, or a folder of any format that carya.open knows."
        ),
        records: int = typer.Option(3, min=0, max=1000, help="How many records are shown."),
        at: int = typer.Option(None, min=0, help="Show those from this position on; else some from everywhere."),
        pictures: str = typer.Option("auto", help="On the terminal: auto, kitty, iterm2, blocks or off."),
        html: str = typer.Option(None, help="Write it as one HTML page to this file, its pictures in it."),
        as_json: bool = typer.Option(False, "--json", help="One JSON line."),
    ) -> None:
        """What is this: format, records, sizes, fields, some records with their pictures, the line of Python that opens it.

        Compressed text and arrays are unpacked into the cache folder, as by carya index. Of objects behind a URL parts are read: enough to say what they are. A broken record is shown as what it is, with its address.
        """
        inspect_dataset(path, records, at, pictures, html, as_json)


def inspect_dataset(path: str, records: int, at: int | None, pictures: str, html: str | None, as_json: bool) -> None:
    """Survey `path` and show what was found."""
    from .._inspect.survey import survey
    from .._inspect.terminal import PROTOCOLS, protocol_of

    if pictures not in PROTOCOLS:
        raise invalid("inspect: --pictures", pictures, f"one of {', '.join(PROTOCOLS)}")
    with told_of_waiting(path):
        found = survey(path, records, at)
    if html is not None:
        from .._inspect.page import page
        from .plan import write_file

        write_file(html, page(found, _figures(found)))
    if as_json:
        print(json.dumps(_document(found, html), ensure_ascii=True))
        return
    protocol: Any = protocol_of(os.environ, sys.stdout.isatty()) if pictures == "auto" else pictures
    _show(found, protocol)
    if html is not None:
        print(f"written to {shown(html)}\n")
    print(shown(found.line))


@contextlib.contextmanager
def told_of_waiting(path: str) -> Iterator[None]:
    """Say on stderr when a store takes long: a host that is misspelt is asked again for a minute, in which nothing else is seen."""
    said = f"carya: {shown(path)} takes more than {PATIENCE_S:g} s; what fails is tried again for up to a minute, Ctrl-C ends it"
    timer = threading.Timer(PATIENCE_S, lambda: print(said, file=sys.stderr))
    timer.daemon = True
    if is_url(path):
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _figures(found: Any) -> list[tuple[str, str]]:
    """What is known of the whole."""
    plural = "" if found.files == 1 else "s"
    figures = [
        ("is", f"{found.kind}, by {found.why}"),
        ("records", f"{found.records:,}"),
        ("bytes", f"{found.file_bytes:,} in {found.files:,} file{plural}"),
    ]
    if found.sizes:
        sizes = ", ".join(f"{name} {size:,}" for name, size in found.sizes.items())
        figures.append(("bytes of a record", f"{sizes} ({found.sizes_are})"))
    if found.broken:
        figures.append(("broken", f"{found.broken:,} of the {found.looked_at:,} records that were looked at"))
    return figures


def _show(found: Any, protocol: Any) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    console = Console()
    print(shown(found.path))
    for name, value in _figures(found):
        print(f"{name:18} {shown(value)}")
    for note in found.notes:
        print(f"{'note':18} {shown(note)}")
    if found.fields:
        table = Table(
            *(Column(name, overflow="fold") for name in ("field", "dtype", "shape")), Column("seen", justify="right")
        )
        for one in found.fields:
            cells = (one.name, one.dtype, one.shape, f"{one.seen:,} of {found.looked_at:,}")
            table.add_row(*(Text(shown(cell)) for cell in cells))
        console.print(table)
    for record in found.shown:
        _show_record(record, protocol, console.width)
    print()


def _show_record(record: Any, protocol: Any, width: int) -> None:
    from .._inspect.pictures import pixels_of
    from .._inspect.terminal import SIDE, picture
    from .._inspect.texts import short

    print(f"\nrecord {record.index:,}   {shown(record.place)}")
    if record.problem:
        print(f"  broken: {shown(record.problem)}")
        return
    names = [shown(str(name)) for name in record.values]
    column = min(max(map(len, names), default=0), _NAME_MAX)
    for name, value in zip(names, record.values.values(), strict=True):
        print(f"  {name:{column}}  {shown(short(value, max(width - column - 4, 20)))}")
        if protocol == "off":
            continue
        pixels, problem = pixels_of(value, SIDE)
        if pixels is not None:
            print(picture(pixels, protocol, width), end="")
        elif problem:
            print(f"  {'':{column}}  {shown(problem)}")


def _document(found: Any, html: str | None) -> dict[str, Any]:
    from .._inspect.texts import for_json

    records = [
        {
            "record": one.index,
            "place": one.place,
            **({"problem": one.problem} if one.problem else {}),
            "fields": {str(name): for_json(value) for name, value in one.values.items()},
        }
        for one in found.shown
    ]
    return {
        "path": found.path, "is": found.kind, "by": found.why, "files": found.files, "bytes": found.file_bytes,
        "records": found.records, "record_bytes": found.sizes, "record_bytes_are": found.sizes_are,
        "looked_at": found.looked_at, "broken": found.broken, "notes": found.notes,
        "fields": [one.as_dict() for one in found.fields], "shown": records, "python": found.line,
        **({"html": html} if html is not None else {}),
    }  # fmt: skip
