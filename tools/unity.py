#!/usr/bin/env python3
"""unity.py COMPILER ARGUMENT...: runs the compiler; CMake's launcher in builds that join sources (CARYA_UNITY).

A joined source includes many others, and the compiler reads their headers once instead of many times. Two of them may
use one name for different things, each rightly so. Where the joined source does not compile, those that the compiler's
errors name are compiled apart from the others; where they name none or all, it is halved; down to single sources. The
objects are joined to the one that was asked for. So what compiles alone compiles here, and what fails alone fails here,
with its own message.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def joined_sources(command: list[str]) -> list[str]:
    """What the source of this command includes, when it is one of CMake's joined ones; else nothing."""
    source = command[command.index("-c") + 1] if "-c" in command else ""
    return INCLUDE.findall(Path(source).read_text()) if re.search(r"/Unity/unity_\d+_cxx\.cxx$", source) else []


def with_values(command: list[str], **values: str) -> list[str]:
    """The command with other values of some of its options; "MF" is that of -MF."""
    changed = list(command)
    for option, value in values.items():
        if f"-{option}" in changed:
            changed[changed.index(f"-{option}") + 1] = value
    return changed


def parted(sources: list[str], errors: str) -> tuple[list[str], list[str]]:
    """Two parts of these two or more sources, of which the errors say that they do not go together."""
    named = {
        line.split(":", 1)[0] for line in errors.splitlines() if re.match(r"[^:]+:\d+:\d+: (fatal )?error: ", line)
    }
    apart = [source for source in sources if source in named]
    if apart and len(apart) < len(sources):
        return [source for source in sources if source not in named], apart
    half = len(sources) // 2
    return sources[:half], sources[half:]


def compile_parts(command: list[str], sources: list[str], place: str) -> tuple[list[str], str]:
    """The objects of these sources, and what the compiler said where it made none of one. `place` begins their names."""
    part = Path(f"{place}.cxx")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text("".join(f'#include "{source}"\n' for source in sources))
    done = subprocess.run(
        with_values(command, c=str(part), o=f"{place}.o", MF=f"{place}.d"), capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return [f"{place}.o"], ""
    if len(sources) == 1:
        return [], done.stdout + done.stderr
    return compile_apart(command, sources, done.stderr, place)


def compile_apart(command: list[str], sources: list[str], errors: str, place: str) -> tuple[list[str], str]:
    """As compile_parts, of sources that gave these errors together."""
    one, other = parted(sources, errors)
    first, said_first = compile_parts(command, one, f"{place}0")
    second, said_second = compile_parts(command, other, f"{place}1")
    return first + second, said_first + said_second


def main() -> int:
    command = sys.argv[1:]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sources = joined_sources(command) if done.returncode != 0 else []
    if len(sources) < 2:
        sys.stderr.write(done.stdout + done.stderr)
        return done.returncode
    out = command[command.index("-o") + 1]
    objects, said = compile_apart(command, sources, done.stderr, f"{out}.parts/")
    if said:
        sys.stderr.write(said)
        return 1
    clash = next((line for line in done.stderr.splitlines() if "error:" in line), "")
    print(f"unity: {out} is made of {len(objects)} parts, as its sources do not go together: {clash}")
    subprocess.run(["ld.lld-19", "-r", "-o", out, *objects], check=True)
    if "-MF" in command:  # all that was read, as what the joined source depends on
        read = [Path(name).with_suffix(".d").read_text().split(":", 1)[1] for name in objects]
        target = command[command.index("-MT") + 1] if "-MT" in command else out
        source = command[command.index("-c") + 1]
        words = [word for one in read for word in one.replace("\\\n", " ").split()]
        # ninja takes what is younger than the start of a command for a reason to run it again.
        text = " ".join([source, *(word for word in words if not word.startswith(f"{out}.parts/"))])
        Path(command[command.index("-MF") + 1]).write_text(f"{target}: {text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
