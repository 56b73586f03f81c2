"""What a bench is asked and what it answers."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Options:
    """Choices of all benches; each reads those that it has."""

    data: str | None = None  # folder of photos (vision, start); seeds: one with folders as those of the test data
    seconds: float = 5.0  # per measured configuration
    rounds: int = 3  # interleaved; the median counts
    peers: bool = False  # vision: also other loaders; ops: also OpenCV and torchvision; orders: also Pillow
    daemon: bool = False  # vision: a daemon against embedded mode
    smoke: bool = False  # a short run that shows that the bench works; its figures mean nothing
    files: int = 1_281_167  # start: empty files for the listing
    only: tuple[str, ...] = ()  # seeds: these pipelines; cache: these kinds of data and storages
    python: tuple[str, ...] = ()  # seeds: other interpreters, with Carya and what sides need
    epochs: tuple[int, ...] = ()  # cache: of the runs
    svg: str | None = None  # cache: a file for the plots

    def scaled(self) -> Options:
        """Short runs when it is only smoke."""
        if not self.smoke:
            return self
        return replace(self, seconds=0.05, rounds=1, peers=False, files=min(self.files, 500))


@dataclass
class Report:
    """Rows of a table (one dict each, same keys) and facts about the run."""

    bench: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line."""
        return json.dumps({"bench": self.bench, **self.facts, "machine": machine(), "rows": self.rows})

    def table(self) -> str:
        """Plain text, aligned."""
        if not self.rows:
            return "(nothing measured)"
        keys = list(self.rows[0])
        cells = [keys] + [[_cell(row.get(key)) for key in keys] for row in self.rows]
        widths = [max(len(line[column]) for line in cells) for column in range(len(keys))]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
        text += [f"{key}: {value}" for key, value in self.facts.items()]
        return "\n".join(text)


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    model = platform.processor()
    try:
        with open("/proc/cpuinfo") as info:
            model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), model)
    except OSError:
        pass
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def main(name: str) -> None:
    """The command line of one bench: a table, then one JSON line; `--json` leaves out the table."""
    from . import run

    parser = argparse.ArgumentParser(description=f"carya bench {name}")
    parser.add_argument("--data", help="folder of photos; seeds: a folder with images, speech and text")
    parser.add_argument("--seconds", type=float, default=Options.seconds, help="per measured configuration")
    parser.add_argument("--rounds", type=int, default=Options.rounds)
    parser.add_argument("--files", type=int, default=Options.files, help="start: empty files for the listing")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="vision: also other loaders that are installed; ops: also OpenCV and torchvision; orders: also Pillow",
    )
    parser.add_argument("--only", action="append", help="seeds: a pipeline; cache: data or storage; several times")
    parser.add_argument(
        "--python", action="append", help="seeds: another interpreter, with Carya and what a side needs"
    )
    parser.add_argument("--epochs", action="append", type=int, help="cache: of a run; several times for several")
    parser.add_argument("--svg", help="cache: a file for the plots")
    parser.add_argument("--daemon", action="store_true", help="vision: through a daemon, beside embedded mode")
    parser.add_argument("--smoke", action="store_true", help="a short run; its figures mean nothing")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    given = vars(parser.parse_args())
    only_json = given.pop("json")
    given |= {name: tuple(given[name] or ()) for name in ("only", "python", "epochs")}
    report = run(name, Options(**given))
    if not only_json:
        print(report.table())
    print(report.to_json())
    sys.stdout.flush()
