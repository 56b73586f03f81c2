"""The benches behind `carya bench`: ratios inside one run, CPU seconds beside wall time.

Each module has `run(options)`, which returns a report: rows for a table, and the same figures for one JSON line.
"""

from __future__ import annotations

from .report import Options, Report, main

__all__ = ["NAMES", "Options", "Report", "main", "run"]

NAMES = ("vision", "handoff", "raw", "small", "ops", "orders", "start", "daemon", "functions", "seeds")


def run(name: str, options: Options) -> Report:
    """Run one bench by name. Errors: InvalidArgument for a name or an input that is not there."""
    import importlib

    from .._errors import invalid

    if name not in NAMES:
        raise invalid("bench: name", name, " or ".join(NAMES))
    if options.daemon and name != "vision":
        raise invalid("bench: --daemon", name, "it for the bench vision only")
    module = importlib.import_module(f"{__name__}.{'daemon' if options.daemon else name}")
    report: Report = module.against_embedded(options) if options.daemon else module.run(options)
    return report
