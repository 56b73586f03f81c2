"""From nothing to the first batch, and the listing of a large folder.

Ceiling: after `import numpy`, `import carya` -> first batch of 16 on 1,000 files <= 120 ms; a manifest of 1,281,167
files reopens in <= 0.3 s and is listed first in <= 15 s (files empty, directory cache warm).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .measure import median
from .photos import find_photos, make_photos, warm
from .report import Options, Report

_FIRST_BATCH = """
import json, sys, time
import numpy
start = time.perf_counter()
import carya
imported = time.perf_counter()
p = (carya.image_folder(sys.argv[1]).shuffle(seed=1).decode_image().random_resized_crop(224)
     .random_horizontal_flip().batch(16))
with carya.Loader(p) as loader:
    made = time.perf_counter()
    batch = next(iter(loader))
    end = time.perf_counter()
print(json.dumps({"import carya": imported - start, "pipeline and Loader": made - imported,
                  "first batch": end - made, "all": end - start}))
"""

_LISTING = """
import json, sys, time
import carya
start = time.perf_counter()
dataset = carya.image_folder(sys.argv[1]).open()
print(json.dumps({"seconds": time.perf_counter() - start, "count": dataset.count, "cached": dataset.from_cache}))
"""


def run(options: Options) -> Report:
    options = options.scaled()
    report = Report("start", facts={"files": options.files})
    with tempfile.TemporaryDirectory() as scratch:
        folder = _thousand(options, Path(scratch))
        environment = {**os.environ, "CARYA_CACHE_DIR": os.path.join(scratch, "cache")}
        runs = [_child(_FIRST_BATCH, folder, environment) for _ in range(max(2, options.rounds + 2))][1:]
        for part in runs[0]:
            report.rows.append({"what": part, "ms": round(1000 * median([each[part] for each in runs]), 1)})
        _listing(report, options, Path(scratch), environment)
    return report


def _thousand(options: Options, scratch: Path) -> str:
    """1,000 photos in 10 class folders, as links to those at hand."""
    source = scratch / "source"
    source.mkdir()
    paths = make_photos(source, 24) if options.smoke else find_photos(options, source)
    warm(paths)
    for number in range(40 if options.smoke else 1000):
        target = scratch / "thousand" / f"class{number % 10}" / f"{number:04d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(os.path.abspath(paths[number % len(paths)]))
    return str(scratch / "thousand")


def _listing(report: Report, options: Options, scratch: Path, environment: dict[str, str]) -> None:
    folder = scratch / "many"
    classes = 1000 if options.files >= 100_000 else 10
    start = time.perf_counter()
    for number in range(classes):
        (folder / f"n{number:08d}").mkdir(parents=True)
    for number in range(options.files):
        name = folder / f"n{number % classes:08d}" / f"n{number % classes:08d}_{number}.JPEG"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644))
    report.facts["files_made_in_s"] = round(time.perf_counter() - start, 1)
    first = _child(_LISTING, str(folder), environment)
    report.rows.append({"what": f"first listing of {first['count']:,} files", "ms": round(1000 * first["seconds"], 1)})
    again = [_child(_LISTING, str(folder), environment) for _ in range(options.rounds)]
    seconds = median([each["seconds"] for each in again])
    report.rows.append({"what": "reopen", "ms": round(1000 * seconds, 1)})
    report.facts["reopened_from_cache"] = all(each["cached"] for each in again)


def _child(code: str, folder: str, environment: dict[str, str]) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, folder], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])
