"""The benches behind `carya bench`: ratios inside one run, CPU seconds beside wall time.

Each module has `run(options)`, which returns a report: rows for a table, and the same figures for one JSON line.
"""

from __future__ import annotations

from .report import Options, Report, main

__all__ = ["NAMES", "Options", "Report", "main", "run"]

NAMES = ("vision", "handoff", "raw", "small", "ops", "orders", "start", "daemon", "functions", "seeds", "cache")
# Benches whose module has another name, or several.
_PLACES = {"raw": ("rows", "raw"), "small": ("rows", "small")}


def run(name: str, options: Options) -> Report:
    """Run one bench by name. Errors: InvalidArgument for a name or a choice that it has not, NotFound for an input."""
    import importlib
    import os
    import shutil

    from .._errors import NotFound, invalid

    if name not in NAMES:
        raise invalid("bench: name", name, " or ".join(NAMES))
    if options.daemon and name != "vision":
        raise invalid("bench: --daemon", name, "it for the bench vision only")
    if name not in ("seeds", "cache") and options.only:
        raise invalid("bench: --only", name, "it for the benches seeds and cache only")
    if name != "seeds" and options.python:
        raise invalid("bench: --python", name, "it for the bench seeds only")
    if name != "cache" and (options.svg is not None or options.epochs):
        raise invalid(f"bench: --{'epochs' if options.epochs else 'svg'}", name, "it for the bench cache only")
    if not 0 < options.seconds < float("inf"):
        raise invalid("bench: --seconds", options.seconds, "a number above 0")
    if options.data is not None and not os.path.isdir(options.data):
        raise NotFound(f"bench: --data: no folder {options.data!r}; give one that exists")
    for python in options.python:
        if shutil.which(python) is None:
            raise NotFound(f"bench seeds: --python: no program {python!r}; give the path of an interpreter")
    module, function = ("daemon", "against_embedded") if options.daemon else _PLACES.get(name, (name, "run"))
    report: Report = getattr(importlib.import_module(f"{__name__}.{module}"), function)(options)
    return report
