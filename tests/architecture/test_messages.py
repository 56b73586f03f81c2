"""Messages speak one dialect (CONTRIBUTING.md): `got X; give Y`, in Python's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tree import MODULES, ROOT, sources

LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"')
# The other dialect that there was, and sentences for all cases, which are wrong for most.
FOREIGN = re.compile(
    r"\ballowed(?: here)?: |\ballowed are |: want |; want |\bnull or\b|Check the path|Correct what was given|"
    r"right to read it\.|Lower `slots`|Make a new Loader\."
)


def literals() -> Iterator[tuple[Path, str]]:
    files = [*sources(*MODULES), *sorted((ROOT / "python" / "carya").rglob("*.py"))]
    for path in files:
        for line in path.read_text().splitlines():
            if not line.lstrip().startswith(("//", "#")):
                yield from ((path, found.group()) for found in LITERAL.finditer(line))


def test_messages_speak_one_dialect() -> None:
    wrong = [f"{path.relative_to(ROOT)}: {text}" for path, text in literals() if FOREIGN.search(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "foreign"),
    [('"p = 2; allowed: 0 to 1"', True), ('": want host:port"', True), ('"p: got 2; give a number, 0 to 1"', False)],
)
def test_the_rule_itself(text: str, foreign: bool) -> None:
    assert bool(FOREIGN.search(text)) == foreign
