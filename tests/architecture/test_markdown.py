"""Markdown is wrapped at 120 columns, so that a change shows as the lines that it changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tree import ROOT

sys.path.insert(0, str(ROOT / "tools" / "docs"))
from wrap import COLUMNS, long_lines, markdown_files, wrapped


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_markdown_is_wrapped(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    long = long_lines(path.read_text())
    assert not long, f"{name}: lines {long} have more than {COLUMNS} columns; run tools/docs/wrap.py on it"


def test_wrapping_keeps_what_is_no_prose() -> None:
    words = "word " * 40
    kept = (
        f"# {words}\n\n| {words} |\n|---|\n\n```\n{words}\n```\n\n    {words}\n\n[a]: {words}\n\n<p>\n{words}\n</p>\n"
    )
    assert wrapped(kept) == kept


def test_wrapping_opens_no_block() -> None:
    after = wrapped(f"1. {'x ' * 58} - 2. # {'y ' * 40}\n   {'z ' * 60}\n")
    lines = after.splitlines()
    assert len(lines) > 1
    assert all(line.startswith("   ") for line in lines[1:])
    assert not any(line.strip().startswith(("- ", "2. ", "# ")) for line in lines)
    assert wrapped(after) == after
