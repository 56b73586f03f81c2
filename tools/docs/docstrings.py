"""For `make docs`: brings docstrings, as they are written for `help()`, into a form that the site shows well.

Examples become code, a paragraph of `name: what it is` a table with the defaults, `Errors:` a heading of its own.
An extension of griffe, which reads the sources for mkdocstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import griffe

# What may follow options in one paragraph.
_AFTER = re.compile(r"((?:^|(?<=[.;]))\s*(?:Fields|Errors|Reference|Shape)(?: \([^)]*\))?: )", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring of the package once it is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for thing in list(_things(pkg)):
            if thing.docstring is not None:
                thing.docstring.value = page_text(thing.docstring.value, _defaults(thing))


def _things(owner: Any) -> Iterator[Any]:
    yield owner
    for member in owner.members.values():
        if not member.is_alias and (member.is_module or member.is_class or member.is_function or member.is_attribute):
            yield from _things(member)


def _defaults(thing: Any) -> dict[str, str | None]:
    """The parameters of a function, or of a class's __init__, with their defaults; None where there is none.

    Where the sources only name the native module's default, the docstring says it: "Defaults: threads="auto", ...".
    """
    function = thing.members.get("__init__") if thing.is_class else thing
    parameters = getattr(function, "parameters", None) or ()
    said = dict(said_defaults(thing.docstring.value))
    for one in parameters:
        one.default = said.get(one.name, one.default)  # the page's signature shows it too
    return {one.name: one.default and str(one.default) for one in parameters if one.name != "self"}


def said_defaults(text: str) -> list[tuple[str, str]]:
    """Names and values of a docstring's "Defaults: name=value, name=value." """
    said = re.search(r"\bDefaults: (.*?)\.(?:\n\n|\s*$)", text, re.DOTALL)
    return re.findall(r'(\w+)=("[^"]*"|[^,\s]+)', said[1]) if said else []


def page_text(text: str, defaults: Mapping[str, str | None]) -> str:
    """The docstring as Markdown. Paragraphs stay, but for examples, errors and lists of options."""
    paragraphs = [_paragraph(one, defaults) for one in re.split(r"\n{2,}", text.strip("\n"))]
    return "\n\n".join(paragraphs)


def _paragraph(text: str, defaults: Mapping[str, str | None]) -> str:
    if text.lstrip().startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if text.startswith("Errors: "):
        return f"**Errors:** {text.removeprefix('Errors: ')}"
    text, mark, rest = _AFTER.split(text, maxsplit=1) if _AFTER.search(text) else (text, "", "")
    rows = list(_rows(text, defaults))
    if not rows:
        return f"{text}{mark}{rest}"
    lead, rows = rows[0][1], rows[1:]
    told = {name for names, _ in rows for name in names}
    for name in defaults:  # options that the text of another one explains
        inside = next((names[0] for names, what in rows if re.search(rf"\b{name}\b=?", what)), None)
        if name not in told and inside and len(rows) > 5:
            rows.append(((name,), f"see `{inside}`"))
    lines = ["| option | what | default |", "|---|---|---|"]
    for names, what in rows:
        shown = ", ".join(f"`{name}`" for name in names)
        values = ", ".join(f"`{default}`" for name in names if (default := defaults[name]) is not None)
        lines.append(f"| {shown} | {_cell(what)} | {_cell(values)} |")
    return "\n".join([*([lead, ""] if lead else []), *lines, *(["", f"{mark.strip()} {rest}"] if rest else [])])


def _rows(text: str, defaults: Mapping[str, str | None]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What stands before the first option, with no names; then each option or several with one text."""
    begins = [
        (match, match[1].replace("`", "").split(", "))
        for match in re.finditer(r"(?:^ *|(?<=[;.] )|(?<=\) ))(`?\w+`?(?:, `?\w+`?)*): ", text, re.MULTILINE)
        if all(name in defaults for name in match[1].replace("`", "").split(", "))
    ]
    if not begins:
        return
    yield (), text[: begins[0][0].start()].strip()
    ends = [match.start() for match, _ in begins[1:]] + [len(text)]
    for (match, names), end in zip(begins, ends, strict=True):
        yield tuple(names), text[match.end() : end].strip().rstrip(";")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
