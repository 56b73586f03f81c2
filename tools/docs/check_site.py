#!/usr/bin/env python3
"""check_site.py SITE: what the built reference must have, or the names of what it lacks and status 1. `make docs` runs it.

Every public name of the package, and every method of what the reference names, has an entry with its signature; every option
of a loader has a row of a table, examples are code, and nothing is a quotation inside another (which is what `>>>` is for
Markdown).
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


class Page(HTMLParser):
    """What is looked for in one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.identifiers: set[str] = set()
        self.signatures: dict[str, str] = {}  # by the heading before them
        self.cells: set[str] = set()
        self.code = self.prose = ""
        self.depth = self.deepest = self._pre = self._signature = self._cell = 0
        self._heading = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if identifier := found.get("id"):
            self.identifiers.add(identifier)
            if tag in ("h1", "h2", "h3", "h4", "a"):
                self._heading = identifier
        self.depth += tag == "blockquote"
        self.deepest = max(self.deepest, self.depth)
        self._pre += tag == "pre"
        self._cell += tag == "td"
        if tag == "div" and (self._signature or "doc-signature" in (found.get("class") or "")):
            self._signature += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "blockquote"
        self._pre -= tag == "pre"
        self._cell -= tag == "td"
        self._signature -= bool(self._signature) and tag == "div"

    def handle_data(self, data: str) -> None:
        if self._signature:
            self.signatures[self._heading] = self.signatures.get(self._heading, "") + data
        if self._cell:
            self.cells.add(data.strip())
        if self._pre:
            self.code += data
        else:
            self.prose += data


DOCS = Path(__file__).resolve().parents[2] / "docs"
LOADERS = ("carya.Loader", "carya.torch.Loader", "carya.jax.Loader", "carya.torch.DataLoader")
# Methods that the reference leaves out (mkdocs.yml).
HIDDEN = re.compile("_|(native|open|attach)$")


def found_at(name: str) -> Any:
    """What a dotted name stands for: an attribute of the longest module in it."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            thing = getattr(thing, part)
        return thing
    raise ModuleNotFoundError(name)


def public() -> dict[str, Any]:
    """Names that users import or the reference shows, and the methods of the classes that it shows."""
    import carya

    entries = re.compile(r"^::: (\S+)\n((?:[ ]+.*\n)*)", re.MULTILINE)
    shown = {name: options for page in DOCS.rglob("*.md") for name, options in entries.findall(page.read_text() + "\n")}
    names = {name: found_at(name) for name in {*shown, *(f"carya.{name}" for name in carya.__all__)}}
    for name, thing in list(names.items()):
        if not inspect.isclass(thing) or "members: false" in shown.get(name, "members: false"):
            continue
        keys = dir(thing) if "inherited_members: true" in shown[name] else vars(thing)
        methods = {key: inspect.getattr_static(thing, key) for key in keys if not HIDDEN.match(key)}
        names |= {f"{name}.{key}": getattr(thing, key) for key, one in methods.items() if inspect.isroutine(one)}
    return {name: thing for name, thing in sorted(names.items()) if callable(thing)}


def lacks(site: Path) -> list[str]:
    """One line per thing that is missing or wrong."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = [f"{path}: quotations in quotations" for path, page in pages.items() if page.deepest > 1]
    found += [f"{path}: an example outside of code" for path, page in pages.items() if ">>> " in page.prose]
    signatures = {name: text for page in pages.values() for name, text in page.signatures.items()}
    identifiers = {name for page in pages.values() for name in page.identifiers}
    cells = {cell for page in pages.values() for cell in page.cells}
    for name, thing in public().items():
        is_made = not inspect.isclass(thing) or "__init__" in vars(thing)  # errors and the like are not, by users
        if name not in identifiers:
            found.append(f"{name}: no entry")
        elif is_made and "(" not in signatures.get(name, ""):
            found.append(f"{name}: no signature")
    for name in LOADERS:
        parameters = inspect.signature(public()[name]).parameters.values()
        found += [
            f"{name}: no row for the option {one.name}"
            for one in list(parameters)[1:]
            if one.kind is not one.VAR_KEYWORD and one.name not in cells
        ]
    return found


def main() -> None:
    wrong = lacks(Path(sys.argv[1]))
    for line in wrong:
        print(f"docs: {line}", file=sys.stderr)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
