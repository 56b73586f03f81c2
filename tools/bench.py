#!/usr/bin/env python3
"""bench.py [name...]: runs every bench (or those named), one after the other, and prints one table of all cases.

Google Benchmark's JSON files, and what each program printed, lie in build/bench; the JSON lines of the programs with a
main() of their own are in build/bench.jsonl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
OWN_MAIN = ("limit", "overflow_sim")  # bench/README.md says why


def programs() -> dict[str, list[str]]:
    """The command of each bench by its name."""
    found = {
        path.name.removeprefix("bench_"): [str(path)]
        for path in sorted((BUILD / "release/bench").glob("bench_*"))
        if path.is_file() and os.access(path, os.X_OK)
    }
    return found | {path.name: [sys.executable, str(path)] for path in sorted((ROOT / "bench").glob("*.py"))}


def rows_of_cases(name: str, report: Path) -> list[str]:
    """One line per case: its time, and what it counted."""
    rows = []
    for case in json.loads(report.read_text())["benchmarks"]:
        if "error_message" in case:
            rows.append(f"{name:16} {case['name']:52} {case['error_message']}")
            continue
        counters = [
            f"{key}={value:.4g}"
            for key, value in case.items()
            if isinstance(value, float) and key not in ("real_time", "cpu_time")
        ]
        times = f"{case['real_time']:12.4g} {case['cpu_time']:12.4g} {case['time_unit']}"
        rows.append(f"{name:16} {case['name']:52} {times}  {' '.join(counters)}")
    return rows


def rows_of_line(name: str, line: dict[str, Any]) -> list[str]:
    """What a program with a main() of its own says in its JSON line: the numbers, and one line per row or object."""
    plain = {key: value for key, value in line.items() if isinstance(value, (int, float))}
    rows = [f"{name:16} {' '.join(f'{key}={value:.4g}' for key, value in plain.items())}"] if plain else []
    nested = [(key, value) for key, value in line.items() if isinstance(value, dict) and key != "machine"]
    nested += [("", row) for row in line.get("rows", []) if isinstance(row, dict)]
    for key, values in nested:
        told = [f"{k}={v:.4g}" if isinstance(v, (int, float)) else f"{k}={v}" for k, v in values.items()]
        rows.append(f"{name:16} {key:52} {' '.join(told)}")
    return rows


def main() -> int:
    wanted = sys.argv[1:]
    out = BUILD / "bench"
    out.mkdir(parents=True, exist_ok=True)
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(BUILD / "release/python"), env.get("PYTHONPATH", ""))))
    table, lines, failed = [], [], []
    for name, command in programs().items():
        if wanted and name not in wanted and name.removesuffix(".py") not in wanted:
            continue
        print(f"carya  bench {name}", file=sys.stderr, flush=True)
        report, is_python = out / f"{name}.json", name.endswith(".py")
        report.unlink(missing_ok=True)
        if not is_python and name not in OWN_MAIN:
            command += [f"--benchmark_out={report}", "--benchmark_out_format=json"]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        (out / f"{name}.txt").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            failed.append(f"failed  bench {name}: ended with {done.returncode}; see {out / f'{name}.txt'}")
        if report.exists():
            table += rows_of_cases(name, report)
            continue
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                lines.append(line)
                table += rows_of_line(name, json.loads(line))
    (BUILD / "bench.jsonl").write_text("".join(line + "\n" for line in lines))
    print(f"{'bench':16} {'case':52} {'time':>12} {'CPU':>12}     counters")
    print("\n".join(table + failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
