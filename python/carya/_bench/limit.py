"""The bound that a loader is compared with: bench_limit, the bare loop in C++, when it was built."""

from __future__ import annotations

import glob
import json
import os
import subprocess


def find_program() -> str | None:
    """$CARYA_BENCH_LIMIT, else the newest bench_limit under build/."""
    chosen = os.environ.get("CARYA_BENCH_LIMIT")
    if chosen:
        return chosen
    found = [path for path in glob.glob("build/*/bench/bench_limit") if os.access(path, os.X_OK)]
    return max(found, key=os.path.getmtime, default=None)


def bounds(folder: str, smoke: bool) -> dict[str, dict[str, float]]:
    """`cpu_us` and `per_second` of each bare loop; empty when bench_limit was not built.

    Keys: bound A "uint8_threads_1", ...; bound B "own_uint8_threads_1", ... without an index, "own_rows_..." and
    "own_8_..." with complete ones.
    """
    program = find_program()
    if program is None:
        return {}
    command = [program, "--bounds", "--photos", folder, *(["--smoke"] if smoke else ["--rounds", "4"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return {key: value for key, value in json.loads(line).items() if "_threads_" in key}
    return {}
