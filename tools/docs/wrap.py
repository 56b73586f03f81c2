"""Wrap Markdown at 120 columns, without a change of what it renders.

`python tools/docs/wrap.py FILE...` rewrites the paragraphs and list items that have a longer line; `--all` takes every
tracked file. Tables, code, headings, HTML, link definitions and words that are longer themselves stay as they are.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COLUMNS = 120
# Made from the help of the commands, whose lines a test compares.
GENERATED = {"docs/reference/cli.md"}

FENCE = re.compile(r"^\s*(?:```|~~~)")
ITEM = re.compile(r"^(\s*)((?:[-*+]|\d{1,9}[.)])\s+(?:\[[ x]\]\s+)?)(?=\S)")
# A line that is no prose: a heading, a table, a quotation, HTML, a link's definition, a rule, an admonition.
FIXED = re.compile(r"^\s*(?:#{1,6}\s|\||>|<|\[[^\]]+\]:|(?:[-*_]\s*){3,}$|!!!|\?\?\?|={3,}\s*$|:::)")
# What a line may not begin with behind a break: it would begin a block of its own.
OPENS_A_BLOCK = re.compile(r"^(?:[-*+]$|\d{1,9}[.)]$|#{1,6}$|[>|<=]|```|~~~|\[[^\]]+\]:|:|!!!|\?\?\?|[-*_]{3,}$)")


def fill(words: list[str], first: str, rest: str) -> list[str]:
    """The words in lines of at most COLUMNS, none of which opens a block."""
    lines: list[list[str]] = [[]]
    width = len(first)
    for word in words:
        room = width + len(word) + (1 if lines[-1] else 0)
        carried = [word]
        kept = len(lines[-1])
        while kept > 1 and OPENS_A_BLOCK.match(carried[0]):
            kept -= 1
            carried.insert(0, lines[-1][kept])
        if lines[-1] and room > COLUMNS and not OPENS_A_BLOCK.match(carried[0]):
            del lines[-1][kept:]
            lines.append(carried)
            width = len(rest) + len(" ".join(carried))
        else:
            lines[-1].append(word)
            width = room
    return [(rest if i else first) + " ".join(line) for i, line in enumerate(lines)]


def prose(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The paragraphs and list items, as (first line, line behind the last)."""
    at = 0
    if lines and lines[0] == "---":  # metadata of a page
        at = next((i + 1 for i, line in enumerate(lines[1:], 1) if line == "---"), len(lines))
    in_list = False
    while at < len(lines):
        line = lines[at]
        if FENCE.match(line):
            at += 1
            while at < len(lines) and not FENCE.match(lines[at]):
                at += 1
            at += 1
            continue
        if not line.strip():
            at += 1
            continue
        item = ITEM.match(line)
        if not item and not line.startswith(" "):
            in_list = False
        if FIXED.match(line) or (line.startswith("    ") and not item and not in_list):  # the latter is code
            at += 1
            # HTML goes on to the next empty line.
            while line.lstrip().startswith("<") and at < len(lines) and lines[at].strip():
                at += 1
            continue
        in_list = in_list or item is not None
        start = at
        at += 1
        while at < len(lines) and lines[at].strip() and not ITEM.match(lines[at]):
            if FIXED.match(lines[at]) or FENCE.match(lines[at]):
                break
            at += 1
        yield start, at


def wrapped(text: str) -> str:
    """The text with its long paragraphs wrapped anew."""
    lines = text.split("\n")
    out: list[str] = []
    done = 0
    for start, end in prose(lines):
        block = lines[start:end]
        if all(len(line) <= COLUMNS for line in block):
            continue
        if any(line.endswith(("  ", "\\")) for line in block[:-1]) or (
            end < len(lines) and lines[end].startswith("==")
        ):
            continue  # breaks that were meant; a heading's text
        item = ITEM.match(block[0])
        first = item.group(0) if item else re.match(r"\s*", block[0]).group(0)  # type: ignore[union-attr]
        hanging = re.match(r"\s*", block[1]).group(0) if len(block) > 1 else None  # type: ignore[union-attr]
        marker = re.sub(r"\[[ x]\]\s+$", "", first)
        rest = hanging if hanging is not None and (hanging or not item) else " " * len(marker)
        out += lines[done:start]
        out += fill([word for line in block for word in line.split()][len(first.split()) :], first, rest)
        done = end
    return "\n".join(out + lines[done:])


def long_lines(text: str) -> list[int]:
    """The numbers of lines that wrapped() would change."""
    after = wrapped(text)
    if after == text:
        return []
    return [number for number, line in enumerate(text.split("\n"), 1) if len(line) > COLUMNS]


def markdown_files() -> list[Path]:
    """All Markdown that git tracks, but for what is generated."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and name not in GENERATED]


def main(arguments: list[str]) -> None:
    """Rewrite the files."""
    for path in markdown_files() if arguments == ["--all"] else [Path(name) for name in arguments]:
        before = path.read_text()
        after = wrapped(before)
        if before.split() != after.split():
            raise SystemExit(f"{path}: its words would change; it stays as it is")
        if after != before:
            path.write_text(after)


if __name__ == "__main__":
    main(sys.argv[1:])
