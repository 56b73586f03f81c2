#!/usr/bin/env python3
"""Writes the part of docs/reference/cli.md that --help says too: each command with its arguments and options.

tests/python/test_cli.py compares the document with `section()`; run this after a change of the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "docs"))
from wrap import wrapped

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
MARK = "<!-- From here on tools/cli_reference.py writes. -->\n"


def section() -> str:
    """The text after MARK."""
    import typer

    from carya._cli import main

    text = "\n".join(line for name, command in commands(_app(main, typer)) for line in _described(name, command))
    return wrapped(text)


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its full name, in the order of --help."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


def _app(cli: Any, typer: Any) -> Any:
    return typer.main.get_command(cli.make_app(typer))


def _described(name: str, command: Any) -> Iterator[str]:
    shown = [param for param in command.params if param.name != "help"]
    words = [_word(param) for param in shown if param.param_type_name == "argument"]
    yield f"## carya {name}\n"
    yield f"`{' '.join(['carya', name, *words])}`\n"
    yield f"{_one_line(command.help)}\n"
    if shown:
        yield "| argument or option | what | default |"
        yield "|---|---|---|"
        yield from (_row(param) for param in shown)
        yield ""
    yield f"```\n{command.epilog.removeprefix('Example: ')}\n```\n"


def _word(param: Any) -> str:
    word = param.name.upper() + ("..." if param.nargs == -1 else "")
    return word if param.required else f"[{word}]"


def _row(param: Any) -> str:
    is_argument = param.param_type_name == "argument"
    names = param.name.upper() if is_argument else ", ".join(sorted(param.opts, key=len))
    value = "" if is_argument or param.is_flag else " VALUE"  # the names of types differ between versions of typer
    default = (
        "" if param.required or param.default in (None, False, "") or callable(param.default) else f"`{param.default}`"
    )
    help_text = _one_line(param.help or "").replace("|", "\\|")
    return f"| `{names}{value}` | {help_text} | {default} |"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    head = DOCUMENT.read_text().split(MARK)[0]
    DOCUMENT.write_text(head + MARK + "\n" + section())


if __name__ == "__main__":
    main()
