#!/usr/bin/env python3
"""Writes transforms/text/unicode_runs.cc: the class of each code point as the regular expressions of `tokenizers` see it.

The Unicode version of the reference is part of what ids mean, so the classes are asked of the reference itself: each is
a Split of a text of all code points. `--check` compares the file with what would be written, and says so.

  tools/unicode_classes.py --check
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "transforms" / "text" / "unicode_runs.cc"
# The order of CharClass in transforms/text/char_class.h, from its lowest bit on.
CLASSES = (r"[\p{Lu}\p{Lt}]", r"\p{Ll}", r"[\p{Lm}\p{Lo}]", r"\p{M}", r"\p{N}", r"\s")
LINE = 118
PART = 1 << 14  # code points at a time: the reference takes more than twice as long for twice the text
HEAD = """\
#include "transforms/text/char_class.h"

// Written by tools/unicode_classes.py from the regular expressions of tokenizers {version}. Each entry is the last code
// point of a run, shifted by 3, with its class below.
namespace carya::text {{

const std::string_view kUnicodeSource = "tokenizers {version}";

// clang-format off
const std::uint32_t kUnicodeRuns[] = {{
"""
TAIL = """\
}};
// clang-format on
const std::size_t kUnicodeRunCount = {count};

}}  // namespace carya::text
"""


def classes() -> list[int]:
    """The class of each code point; 0 for all that is in none, such as the halves of surrogate pairs."""
    from tokenizers import Regex, pre_tokenizers

    points = [i for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    found = [0] * 0x110000
    for number, pattern in enumerate(CLASSES, 1):
        of_class = pre_tokenizers.Split(Regex(f"(?:{pattern})+"), "removed")
        for first in range(0, len(points), PART):
            part = points[first : first + PART]
            inside = [True] * len(part)  # what is left of the text is not of the class
            for _, (begin, end) in of_class.pre_tokenize_str("".join(map(chr, part))):
                inside[begin:end] = [False] * (end - begin)
            for point in itertools.compress(part, inside):
                if found[point]:
                    raise SystemExit(f"U+{point:04X} is of two classes")
                found[point] = number
    return found


def source() -> str:
    import tokenizers

    found = classes()
    runs = [i << 3 | kind for i, kind in enumerate(found) if i + 1 == len(found) or found[i + 1] != kind]
    lines, line = [], "   "
    for run in runs:
        if len(line) + len(f" {run},") > LINE:
            lines.append(line)
            line = "   "
        line += f" {run},"
    text = HEAD.format(version=tokenizers.__version__) + "\n".join([*lines, line]) + "\n"
    return text + TAIL.format(count=len(runs))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if the file differs")
    if not parser.parse_args().check:
        TARGET.write_text(source())
        return 0
    same = TARGET.read_text() == source()
    print("equal" if same else "differs: run tools/unicode_classes.py")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
