"""`carya convert` and `carya tokenize`: a dataset written in another format, and text as token ids."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from .._errors import invalid
from .shown import shown

_SKIPPED_SHOWN = 20  # broken records that are named one by one
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def register(app: Any, typer: Any) -> None:
    """Add the command to the application."""

    @app.command("convert", epilog="Example: carya convert photos/train train-mds --to mds --workers 8")  # type: ignore[untyped-decorator]
    def convert(
        source: str = typer.Argument(
            ..., help="A file, a URL, a pattern, or a folder of any format that carya.open knows."
        ),
        folder: str = typer.Argument(..., help="The folder to write: a new or empty one, or one to go on with."),
        to: str = typer.Option(..., "--to", help="webdataset, mds, tfrecord, or array_record (needs that package)."),
        workers: int = typer.Option(0, min=0, help="Processes that read; 0 is one per allowed core."),
        shard_bytes: str = typer.Option(
            "128Mi", help="The most bytes of a shard: 500M, 1Gi; a larger record is alone."
        ),
        verify: bool = typer.Option(
            True, "--verify/--no-verify", help="Read each shard back and compare it with the source."
        ),
        on_error: str = typer.Option("raise", help="Of a broken record: raise, or skip it and name it."),
        as_json: bool = typer.Option(False, "--json", help="One JSON line and no progress bar."),
    ) -> None:
        """Write a dataset as WebDataset, MDS, TFRecord or ArrayRecord, in the same order, by all cores.

        Run again after whatever ended it, the same command goes on where it was. The bytes are the same whatever the number of
        workers and however often it was ended. Shards appear whole, compared with the source. Objects behind a URL are read where
        they lie; Arrow files, arrays and what is compressed are copied into the cache folder first.
        """
        convert_dataset(source, folder, to, workers, shard_bytes, verify, on_error, as_json)

    @app.command(  # type: ignore[untyped-decorator]
        "tokenize",
        epilog='Example: carya tokenize "corpus/*.jsonl.zst" corpus-ids --tokenizer llama-3 --end "<|end_of_text|>"',
    )
    def tokenize(
        source: str = typer.Argument(
            ..., help="A file, a URL, a pattern, or a folder of any format that carya.open knows."
        ),
        folder: str = typer.Argument(..., help="The folder to write: a new or empty one, or one to go on with."),
        tokenizer: str = typer.Option(..., help="A tokenizer.json, or a folder with one."),
        field: str = typer.Option("text", help="The field that has the text."),
        end: str = typer.Option(None, help="A token, or its id, to put behind each text, such as <|endoftext|>."),
        special: bool = typer.Option(
            False, "--special/--no-special", help="With the ids that the tokenizer's file puts around texts."
        ),
        workers: int = typer.Option(0, min=0, help="Processes that encode; 0 is one per allowed core."),
        shard_bytes: str = typer.Option("128Mi", help="The most bytes of a file: 500M, 1Gi; a larger text is alone."),
        verify: bool = typer.Option(
            True, "--verify/--no-verify", help="Read each file back and compare it with the texts, encoded again."
        ),
        on_error: str = typer.Option("raise", help="Of a text that is none: raise, or skip it and name it."),
        as_json: bool = typer.Option(False, "--json", help="One JSON line and no progress bar."),
    ) -> None:
        """Write the texts of a dataset as token ids, one behind the other, for carya.token_blocks, by all cores.

        Files are uint16 where the vocabulary fits, else uint32, as nanoGPT reads them; index.json says which. Run again after
        whatever ended it, the same command goes on where it was, and the bytes are the same whatever the number of workers.
        """
        tokens = tokens_of(tokenizer, field, end, special)
        convert_dataset(source, folder, "tokens", workers, shard_bytes, verify, on_error, as_json, tokens)


def tokens_of(tokenizer: str, field: str, end: str | None, special: bool) -> Any:
    """What `carya tokenize` is told. Errors: those of `carya.Tokenizer`, InvalidArgument: no such token."""
    from .._convert.tokens import Tokens
    from .._text.tokenizer import Tokenizer

    found = Tokenizer(tokenizer, add_special_tokens=special)
    if end is None:
        return Tokens(found, field)
    behind = int(end) if end.isdecimal() else found.token_id(end)
    if behind >= found.vocab_size:  # a model has no row for it
        raise invalid(
            "tokenize: --end", behind, f"a token, or an id below {found.vocab_size:,}, the size of the vocabulary"
        )
    return Tokens(found, field, behind)


def convert_dataset(
    source: str,
    folder: str,
    to: str,
    workers: int,
    shard_bytes: str,
    verify: bool,
    on_error: str,
    as_json: bool,
    tokens: Any = None,
) -> None:
    """Convert, show how far it is, say what was done."""
    from .._convert.conversion import Interrupted, Request, convert

    request = Request(source, folder, to, workers, bytes_of(shard_bytes), verify, on_error, tokens)
    start = time.perf_counter()
    with _progress(as_json) as progress:
        task = progress.add_task("", total=None)
        try:
            report = convert(request, lambda done, count: progress.update(task, completed=done, total=count))
        except Interrupted as error:
            progress.stop()
            print(f"carya: {shown(str(error))}", file=sys.stderr)
            raise SystemExit(130) from None
    seconds = round(time.perf_counter() - start, 3)
    if as_json:
        about = {"source": source, "folder": folder, "is": report.kind, "to": to, "records": report.records}
        about |= {"shards": report.shards, "shards_before": report.before, "shards_verified": report.verified}
        skipped = [{"record": index, "problem": said} for index, said in report.skipped]
        print(
            json.dumps({**about, "bytes": report.bytes, "seconds": seconds, "skipped": skipped, "notes": report.notes})
        )
        return
    before = f", {report.before:,} of them there before" if report.before else ""
    print(f"{report.records:,} records of {shown(source)} ({report.kind}) in {shown(folder)} ({to})")
    print(
        f"{report.shards:,} shards{before}, {report.bytes:,} B, {report.verified:,} compared with the source, {seconds:,.1f} s"
    )
    for note in report.notes:
        print(f"note: {shown(note)}")
    _show_skipped(report.skipped)


def bytes_of(text: str) -> int:
    """A number of bytes as it is written. Errors: InvalidArgument.

    >>> bytes_of("500M"), bytes_of("1.5Gi"), bytes_of("4096")
    (500000000, 1610612736, 4096)
    """
    import re

    from .._errors import invalid

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]i?)?b?", text.strip().lower())
    if not found:
        raise invalid("convert: --shard-bytes", text, "bytes, as 500M, 1Gi or 4096")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def _progress(as_json: bool) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("records"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=as_json or not console.is_terminal)


def _show_skipped(skipped: list[tuple[int, str]]) -> None:
    """On stderr, so that a pipe of the rest sees them too."""
    for index, said in skipped[:_SKIPPED_SHOWN]:
        print(f"skipped: record {index:,}: {shown(said)}", file=sys.stderr)
    if len(skipped) > _SKIPPED_SHOWN:
        print(f"skipped: {len(skipped) - _SKIPPED_SHOWN:,} more; --json names all of them", file=sys.stderr)
