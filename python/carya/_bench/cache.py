"""Samples kept in memory, over capacity, data, epochs and storage: is cache "auto" as good as the best fixed choice?

Ceiling: of each cell the best of what can be chosen by hand with the same room: nothing, pictures or features after each operation
that draws nothing, packed coefficients, records as they were read. "auto" must be within 0.95 of it over the whole run, and one
epoch must cost at most 1.01 of one without a cache. All choices of a cell run in turns, with one thread: "warm" is compared by CPU
time per sample, "cold" (every file is dropped from the page cache before each epoch) and "slow" (a server that answers 20 ms
late) by wall time. A quotient is the median over the rounds of that of one round, since machines are now fast and now slow.
Capacities are shares of what the last place of all samples takes.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core
from .._errors import IoError, invalid
from .._loading.loader import Loader
from .._pipeline.sources import files
from .._seeds.data import find
from .measure import cached_in, median
from .photos import find_photos, warm
from .report import Options, Report

CAPACITIES = (10, 25, 50, 100)  # percent
EPOCHS = (1, 2, 10)
STORAGES = ("warm", "cold", "slow")
LATE_S = 0.02
OF_BEST, OF_NOTHING = 0.95, 1.01
_RECORDS = 1536  # of photos, in copies where there are fewer: an epoch takes half a second


class Data(NamedTuple):
    """A pipeline behind its source, and after which operations it can be kept."""

    kind: str  # of files
    pipeline: Any
    places: tuple[str, ...]
    forms: tuple[str, ...] = ()


DATA = {
    "photos": Data(
        "photos",
        lambda source: source.decode_image().random_resized_crop(224).random_horizontal_flip().batch(32),
        ("decode_image",),
        ("coefficients",),
    ),
    "heavy": Data(
        "photos",
        lambda source: source.decode_image().resize(256).grayscale(3).gaussian_blur(9).random_crop(224).batch(32),
        ("decode_image", "grayscale"),
        ("coefficients",),
    ),
    "speech": Data(
        "utterances",
        lambda source: source.decode_audio(rate=16000).pad_audio(16000 * 8).log_mel("whisper").spec_augment().batch(16),
        ("pad_audio", "log_mel"),
    ),
}


class Storage:
    """Where the files lie, for a `with`."""

    def __init__(self, name: str, paths: list[str]) -> None:
        self.name, self.paths = name, paths
        self._server: subprocess.Popen[str] | None = None
        self.sources = paths

    def __enter__(self) -> Storage:
        warm(self.paths)
        if self.name == "slow":
            root = os.path.commonpath(self.paths)
            command = [sys.executable, "-m", "carya._bench.cache", root]
            self._server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert self._server.stdout is not None
            port = int(self._server.stdout.readline())
            names = (urllib.parse.quote(os.path.relpath(path, root)) for path in self.paths)
            self.sources = [f"http://127.0.0.1:{port}/{name}" for name in names]
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.communicate()

    def clock(self) -> float:
        """Seconds of what is compared."""
        return time.process_time() if self.name == "warm" else time.monotonic()

    def begin_epoch(self) -> None:
        if self.name != "cold":
            return
        for path in self.paths:
            file = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def run(options: Options) -> Report:
    """The grid, or what `only` names of it. Errors: InvalidArgument: a name that is none; NotFound: no files."""
    options = options.scaled()
    for name in options.only:
        if name not in DATA and name not in STORAGES:
            raise invalid("bench cache: --only", name, " or ".join([*DATA, *STORAGES]))
    few = options.smoke and not options.only
    data_names = [name for name in DATA if name in options.only] or list(DATA)[: 1 if few else None]
    storages = [name for name in STORAGES if name in options.only] or STORAGES[: 1 if few else None]
    for count in options.epochs:
        if count < 1:
            raise invalid("bench cache: --epochs", count, "a number of 1 or more")
    epochs = tuple(options.epochs) or ((2,) if options.smoke else EPOCHS)
    report = Report("cache", facts={"rounds": options.rounds})
    with tempfile.TemporaryDirectory() as scratch, cached_in(f"{scratch}/cache"):
        for data in data_names:
            paths = _paths(data, options, Path(scratch))
            for storage in storages:
                with Storage(storage, paths) as store:
                    report.rows += _sheet(data, store, epochs, options)
    _judge(report)
    if options.svg is not None:
        try:
            Path(options.svg).write_text(draw(report.rows))
        except OSError as error:
            raise IoError(f"bench cache: --svg: {error}") from None
        report.facts["svg"] = options.svg
    return report


def _paths(data: str, options: Options, scratch: Path) -> list[str]:
    if DATA[data].kind == "photos":
        return _copied(find_photos(options, scratch), scratch, 24 if options.smoke else _RECORDS)
    root = options.data or os.environ.get("CARYA_TEST_DATA")
    found: list[str] = find("utterances", None if root is None else Path(root), scratch, options.smoke)["paths"]
    return found


def _copied(paths: list[str], scratch: Path, count: int) -> list[str]:
    """So many files, each of its own: a short run says little of a decision that takes a tenth of a second."""
    folder = scratch / "copies"
    folder.mkdir(exist_ok=True)
    copies = []
    for number in range(count):
        copies.append(str(folder / f"{number:06}{Path(paths[number % len(paths)]).suffix}"))
        if not os.path.exists(copies[-1]):
            shutil.copy(paths[number % len(paths)], copies[-1])
    return copies


def _sheet(data: str, store: Storage, epochs: tuple[int, ...], options: Options) -> list[dict[str, Any]]:
    """The rows of one kind of data in one storage."""
    pipeline = DATA[data].pipeline(files(store.sources, field=_field(data)).shuffle(seed=1))
    if store.name != "slow" and DATA[data].kind == "photos":
        _core.complete_index(
            files(store.paths).open(), decode_index="8", cache_dir=os.environ["CARYA_CACHE_DIR"], threads=0
        )
    whole = _play(pipeline, 2, {"memory": "60%", "after": DATA[data].places[-1]}, store)[1]["bytes"]
    rows = []
    for count in epochs:
        for percent in CAPACITIES[-2:] if options.smoke else CAPACITIES:
            took: dict[str, list[float]] = {}
            told: dict[str, Any] = {}
            choices = _choices(data, store, int(whole * percent / 100 * 1.02))
            for number in range(options.rounds):
                for choice in _turned(list(choices), number):
                    us, told[choice] = _play(pipeline, count, choices[choice], store)
                    took.setdefault(choice, []).append(us)
            row = _row(took, {"data": data, "storage": store.name, "epochs": count, "capacity": percent})
            row["kept_after"] = told["auto"].get("after") or "nothing"
            rows.append(row)
            said = f"of best {row['of_best']:.2f} ({row['best']}), of nothing {row['of_nothing']:.2f}"
            print(f"{data}, {store.name}, {count} epochs, {percent} %: {said}", file=sys.stderr, flush=True)
    return rows


def _field(data: str) -> str:
    return "audio" if DATA[data].kind == "utterances" else "image"


def _turned(names: list[str], number: int) -> list[str]:
    """Another one first in each round."""
    number %= len(names)
    return names[number:] + names[:number]


def _choices(data: str, store: Storage, room: int) -> dict[str, Any]:
    """By name, what is given as cache=."""
    fixed: dict[str, Any] = {f"after {place}": {"memory": room, "after": place} for place in DATA[data].places}
    fixed |= {form: {"memory": room, "form": form} for form in DATA[data].forms if store.name != "slow"}
    if store.name != "warm":
        fixed["records"] = {"memory": room, "form": "records"}
    return {"nothing": "off", **fixed, "auto": {"memory": room, "place": "auto"}}


def _play(pipeline: Any, epochs: int, cache: Any, store: Storage) -> tuple[float, dict[str, Any]]:
    """Microseconds per sample of a whole run, and what the loader says of its cache."""
    # Without batches of the next epoch, whose files would be read before they are dropped.
    with Loader(
        pipeline, epochs=epochs, threads=1, daemon="embedded", cache=cache, prefetch_epochs=store.name != "cold"
    ) as loader:
        taken, samples = 0.0, 0
        for _ in range(epochs):
            store.begin_epoch()
            begun = store.clock()
            samples += sum(len(batch.records) for batch in loader)
            taken += store.clock() - begun
        return taken / samples * 1e6, loader.stats()["cache"] or {}


def _row(took: dict[str, list[float]], cell: dict[str, Any]) -> dict[str, Any]:
    def times_as_fast(choice: str) -> float:
        """As "auto"."""
        return median([auto / one for auto, one in zip(took["auto"], took[choice], strict=True)])

    best = max((choice for choice in took if choice != "auto"), key=times_as_fast)
    us = {choice: round(median(all_us), 1) for choice, all_us in took.items()}
    return {
        **cell,
        "nothing_us": us["nothing"],
        "auto_us": us["auto"],
        "best": best,
        "best_us": us[best],
        "of_best": round(1 / times_as_fast(best), 3),
        "of_nothing": round(times_as_fast("nothing"), 3),  # the time of "auto" over that of no cache
    }


def _judge(report: Report) -> None:
    rows = report.rows
    report.facts["below_0.95_of_best"] = sum(row["of_best"] < OF_BEST for row in rows)
    report.facts["one_epoch_above_1.01_of_nothing"] = sum(
        row["of_nothing"] > OF_NOTHING for row in rows if row["epochs"] == 1
    )
    report.facts["cells"] = len(rows)


def draw(rows: list[dict[str, Any]]) -> str:
    """The text of an SVG file: a plot for each kind of data and storage, time by capacity, a line for each number of epochs."""
    from .._simulate.experiments import plots

    drawn: list[Any] = []
    for data, storage in dict.fromkeys((row["data"], row["storage"]) for row in rows):
        series: list[Any] = []
        own = [row for row in rows if (row["data"], row["storage"]) == (data, storage)]
        for count in dict.fromkeys(row["epochs"] for row in own):
            line = [row for row in own if row["epochs"] == count]
            nothing = (0.0, float(line[0]["nothing_us"]))
            for name, key in (("auto", "auto_us"), ("best", "best_us")):
                series.append(
                    (f"{name}, {count}", [nothing, *((float(row["capacity"]), float(row[key])) for row in line)])
                )
        drawn.append((f"{data}, {storage}: us of a sample by room in %, epochs", "us", series))
    return plots("carya bench cache: time of a sample by room", [drawn[at : at + 2] for at in range(0, len(drawn), 2)])


class _Late(http.server.BaseHTTPRequestHandler):
    """Answers LATE_S late, ranges too."""

    protocol_version = "HTTP/1.1"

    def __init__(self, root: str, *rest: Any) -> None:
        self.root = root
        super().__init__(*rest)

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        time.sleep(LATE_S)
        try:
            body = Path(self.root, urllib.parse.unquote(self.path).lstrip("/")).read_bytes()
        except OSError:
            self.send_error(404)
            return
        whole, status = len(body), 200
        if (asked := self.headers.get("Range")) is not None:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last or whole - 1), whole - 1)
            body, status = body[begin : end + 1], 206
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{end}/{whole}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{whole}"')
        self.end_headers()
        if self.command == "GET":
            with contextlib.suppress(OSError):
                self.wfile.write(body)


def serve(root: str) -> None:
    """A server of a folder's files on the loopback; its port is the line that it says."""

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 256

    with Server(("127.0.0.1", 0), functools.partial(_Late, root)) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1])
