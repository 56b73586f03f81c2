"""The bound that a loader is compared with: bench_limit, the bare loop in C++."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

_PACKAGE = Path(__file__).absolute().parent.parent  # in a build folder its files are links into the source tree


def find_program() -> Path | None:
    """The bench_limit of the wheel, or of the build folder that the package lies in; Debian's package has none."""
    places = (_PACKAGE / "bin" / "bench_limit", _PACKAGE.parent.parent / "bench" / "bench_limit")
    return next((place for place in places if os.access(place, os.X_OK)), None)


def bounds(folder: str, smoke: bool) -> dict[str, dict[str, float]]:
    """`cpu_us` and `per_second` of each bare loop; empty where there is no bench_limit.

    Keys: bound A "uint8_threads_1", ...; bound B "own_uint8_threads_1", ... without an index, "own_rows_..." and
    "own_8_..." with complete ones.
    """
    program = find_program()
    if program is None:
        return {}
    command = [str(program), "--bounds", "--photos", folder, *(["--smoke"] if smoke else ["--rounds", "4"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return {key: value for key, value in json.loads(line).items() if "_threads_" in key}
    return {}
