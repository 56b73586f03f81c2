"""`carya cache`: what lies in the cache folder or in one of samples, and is it whole. `carya index`: completing it ahead."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, Literal

from .. import _core
from .._errors import Error, InvalidArgument, NotFound, Permission, SampleError
from .._options import decode_index_name
from .._pipeline.dataset import NO_TAR, cache_dir, chosen_cache_dir
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import arrow, hf_dataset, image_folder, mds, names_records, tfrecord, webdataset
from .._records.elsewhere import NoSource
from .._records.recognise import open as open_source
from .._records.recognise import options_of, recognised
from .._sources.stores import is_url
from .shown import shown

# Names that Carya gives to manifests, the last two in older versions; other files are left alone.
_MANIFEST = re.compile(r"(photo-folder|whole-tar|folder|tar)-[0-9a-f]{32}\.manifest")
_RECORDS = re.compile(r"records-[0-9a-f]{32}\.index")  # of one file of records
_PROFILE = re.compile(r"profile-([0-9a-f]{32})\.json")
_UNPACKED = re.compile(r"unpacked-[0-9a-f]{32}")  # folders, of `_formats/kept.py`
_LINES = re.compile(
    r"(?:lines|video)-([0-9a-f]{32})\.npy"
)  # where records of a text begin, when frames of a video are shown
_WIDE = 10_000  # columns of a line that no terminal shows
_PASSES_MAX = 3  # of `warm`
_SETTLED_S = 1.5  # without a write: all is written; the sum of a folder's bytes is told once a second
_PROFILE_BYTES_MAX = 256 << 10  # as loader/plan/profile_file.cc keeps them


def _columns_of(path: str) -> str:
    """The format with columns that lies there; "" for none."""
    if os.path.isfile(os.path.join(path, "index.json")):
        return "mds"
    if names_records(path) != "arrow":
        return ""
    return "hf" if os.path.isfile(os.path.join(path, "state.json")) else "arrow"


def _source(path: str, image: str | None, label: str | None, kind: str) -> Pipeline:
    """What lies at `path`, told by its name and by the features or columns that were named."""
    if kind in _WITH_IMAGES:
        if image is None:
            raise InvalidArgument("index: --image: got none; give the column of the image too, such as --image image")
        return open_source(path, image=image, label=label)
    sources: dict[str | None, Callable[..., Pipeline]] = {"mds": mds, "hf": hf_dataset, "arrow": arrow}
    columns = sources.get(_columns_of(path))
    if columns is not None:
        if image is None:
            raise InvalidArgument("index: --image: got none; give the column of the image, such as --image image")
        return columns(path, image=image, label=label)
    if image is not None or label is not None or names_records(path) == "tfrecord":
        if image is None:
            raise InvalidArgument(
                "index: --image: got none; give the feature of the image, such as --image image/encoded"
            )
        return tfrecord(path, image=image, label=label)
    photos = os.path.isdir(path) or (is_url(path) and path.endswith("/") and recognised(path)[0] == "image_folder")
    return image_folder(path) if photos else webdataset(path)


_OVER_ROWS = (
    "parquet",
    "jsonl",
    "csv",
    "text",
    "npy",
    "npz",
    "hdf5",
    "lmdb",
    "array_record",
    "litdata",
    "video",
    "beton",
    "lance",
)
_WITH_IMAGES = ("parquet", "lmdb", "beton")  # their images are decoded natively: there is a decode index of them


# What is taken beside pictures, tars and zips.
_NAMED = ("tfrecord", "mds", "arrow", "hf_dataset", *_OVER_ROWS)


def _is_unknown(path: str) -> bool:
    """Whether neither the name nor the first bytes say what lies there."""
    try:
        recognised(path)
    except Error:
        return True
    return False


def _over_library(path: str) -> str:
    """The kind of source over a kept library that reads `path`; "" for none."""
    try:
        kind = recognised(path)[0]
    except NoSource:  # not an image_folder or tar either
        raise
    except Error:
        return ""
    return kind if kind in _OVER_ROWS else ""


def index_dataset(
    path: str,
    verify: bool,
    decode_index: str,
    threads: int,
    as_json: bool,
    image: str | None = None,
    label: str | None = None,
    columns: str | None = None,
) -> None:
    """List `path`, keep the manifest, complete the decode index, say what was found."""
    from .inspecting import told_of_waiting

    start = time.perf_counter()
    with told_of_waiting(path):
        kind = _over_library(path)
    if columns is not None and (kind != "parquet" or image is not None):
        raise InvalidArgument(
            f"index: --columns: got {columns!r}; give it of Parquet files alone, and not with --image"
        )
    if kind and (kind not in _WITH_IMAGES or (image is None and label is None)):
        if image is not None or label is not None:
            raise InvalidArgument(f"index: --image, --label: {kind} has no such columns; leave them out")
        _index_rows(kind, path, columns, start, as_json)
        return
    pipeline = _source(path, image, label, kind).decode_image()
    try:
        dataset = pipeline.open(verify=verify)
    except SampleError as error:
        if NO_TAR.match(str(error)) and _is_unknown(path):
            raise InvalidArgument(
                f"index: {path}: its name and its first bytes are of no format that is known, and it is no tar either; give a folder of "
                f"pictures in a folder for each class, tars, zips whose members are stored, or files of {', '.join(_NAMED)}"
            ) from None
        raise
    result: dict[str, Any] = {
        "path": path,
        "records": dataset.count,
        "classes": len(dataset.class_names),
        "skipped": dataset.skipped_count,
        "fingerprint": dataset.fingerprint,
        "from_cache": dataset.from_cache,
        "verified": verify,
        "cache": cache_dir(),
    }
    spacing = decode_index_name(int(decode_index) if decode_index.isdigit() else decode_index)
    if spacing == "off":
        result["decode_index"] = None
    else:
        result |= _complete(dataset, spacing, threads, as_json)
    result["seconds"] = round(time.perf_counter() - start, 3)
    if as_json:
        print(json.dumps(result))
    else:
        _show_lines(result)


def _index_rows(kind: str, path: str, columns: str | None, start: float, as_json: bool) -> None:
    """What a source over a kept library keeps: made, and said."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from .._formats.ahead import keep_ahead, why_nothing

    options = options_of(kind, path) if columns is None else {"columns": [name.strip() for name in columns.split(",")]}
    bars = ("unpack", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*bars, console=Console(stderr=True), disable=as_json or not sys.stderr.isatty()) as progress:
        task = progress.add_task("", total=None)
        rows = open_source(path, **options).map_style
        kept = keep_ahead(rows, lambda done, count: progress.update(task, completed=done, total=count))
    seconds = round(time.perf_counter() - start, 3)
    size = sum(one.bytes for one in kept)
    if as_json:
        listed = [one._asdict() for one in kept]
        about = {"path": path, "is": kind, "records": len(rows), "cache": cache_dir(), "seconds": seconds}
        print(
            json.dumps({**about, "kept": listed, "kept_bytes": size, "why_nothing": "" if kept else why_nothing(kind)})
        )
        return
    _show_lines({"path": shown(path), "is": kind, "records": len(rows), "kept_bytes": size, "seconds": seconds})
    for one in kept:
        print(f"keeps {shown(one.path)}, {one.bytes:,} B")
    if not kept:
        print(f"keeps nothing: {why_nothing(kind)}")


def _complete(dataset: _core.Dataset, spacing: str, threads: int, as_json: bool) -> dict[str, Any]:
    """The decode index of all files, completed; why not, where there can be none."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(
        "decode index", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, disable=as_json
    ) as progress:
        task = progress.add_task("", total=dataset.count)

        def show(done: int) -> bool:
            progress.update(task, completed=done)
            return True

        try:
            report = _core.complete_index(
                dataset, decode_index=spacing, cache_dir=cache_dir(), threads=threads, progress=show
            )
        except _core.Unsupported as error:
            return {"decode_index": None, "decode_index_reason": str(error)}
        progress.update(task, completed=dataset.count)
    stats = report.pop("decode_index")
    return {
        "decode_index": stats["spacing"],
        **{f"index_{name}": count for name, count in report.items()},
        "index_entries": stats["entries"],
        "index_points_known_share": round(stats["points_known_share"], 4),
        "index_bytes": stats["bytes"],
    }


def _folder(given: str | None) -> str:
    """The folder that was given, else the cache folder, which may not be there yet: who looks makes nothing."""
    if given is not None:
        if not os.path.isdir(given):
            raise NotFound(f"cache: --folder: {given} is no folder; give the one that `cache=` of the loader names")
        if not os.access(given, os.R_OK | os.X_OK):
            raise Permission(f"cache: --folder: {given}: this user may not read it; ask its owner, or give another one")
        return os.path.abspath(given)
    folder = chosen_cache_dir()
    if os.path.exists(folder) and not (os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)):
        raise NotFound(f"cache: {folder} is no folder that this user can read; set CARYA_CACHE_DIR to one")
    return folder


def files(folder: str) -> list[dict[str, Any]]:
    """Manifests, stores, profiles, what was unpacked and samples in a folder, by name within their kind. Other users' that
    this one may not read are left out."""
    found: list[dict[str, Any]] = []
    if not os.path.exists(folder):
        return found
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        kind = "manifest" if _MANIFEST.fullmatch(name) else "records" if _RECORDS.fullmatch(name) else ""
        if not kind or not os.path.isfile(path) or not os.access(path, os.R_OK):
            continue
        line = {"name": name, "kind": kind, "bytes": os.path.getsize(path), "path": path}
        try:
            found.append({**line, **_kept(line), "valid": True})
        except Error:
            found.append({**line, "fingerprint": "", "records": 0, "root": "", "valid": False})
    roots = {line["fingerprint"]: line["root"] for line in found if line["valid"] and line["fingerprint"]}
    for store in _core.list_stores(folder):
        root = roots.get(store["fingerprint"], "")
        found.append({"name": os.path.basename(store["path"]), "root": root, **store})
    return found + _unpacked(folder) + _profiles(folder) + _samples(folder)


def _samples(folder: str) -> list[dict[str, Any]]:
    """Samples that loaders keep in files, by the operations behind which they are. `records`: None, since only reading
    all of it tells; `bytes`: lengths of the files, `disk_bytes`: what they take; `used`: when a loader last had them."""
    found = []
    for place in _core.list_places(folder):
        name = os.path.basename(place["path"])
        line = {"name": name, "kind": "samples", "records": None, "root": "", "fingerprint": name.split("-")[1]}
        try:
            after = json.loads(place.pop("about"))["after"]
        except (ValueError, LookupError, TypeError, RecursionError):
            after = None
        used = _moment(place.pop("used_s"))
        found.append({**line, **place, "after": after if isinstance(after, str) else "", "used": used, "valid": True})
    return found


def _moment(seconds: float) -> str:
    """The time as text; "" for none, and for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat() if seconds > 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _unpacked(folder: str) -> list[dict[str, Any]]:
    """Folders with what was unpacked of compressed files, `records` files in them; indexes of text files."""
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not os.access(path, os.R_OK):
            continue
        if _UNPACKED.fullmatch(name) and os.path.isdir(path):
            sizes = [entry.stat().st_size for entry in os.scandir(path)]
            line = {"name": name, "kind": "unpacked", "bytes": sum(sizes), "path": path, "root": ""}
            found.append({**line, "fingerprint": name.split("-")[1], "records": len(sizes), "valid": True})
        elif (named := _LINES.fullmatch(name)) and os.path.isfile(path):
            size = os.path.getsize(path)
            line = {"name": name, "kind": "lines", "bytes": size, "path": path, "root": "", "fingerprint": named[1]}
            count = max(size - 128, 0) // 16 - 2 if name.startswith("video-") else max(size - 128, 0) // 8 - 1
            found.append({**line, "records": count, "valid": True})
    return found


def _kept(line: dict[str, Any]) -> dict[str, Any]:
    """What a manifest or an index of records says; raises when it is damaged."""
    if line["kind"] == "manifest":
        return _core.read_manifest(line["path"])
    return {"fingerprint": "", "records": _core.read_record_index(line["path"]), "root": ""}


def _profiles(folder: str) -> list[dict[str, Any]]:
    """What pipelines were measured to cost; `records`: samples that this is of."""
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        named = _PROFILE.fullmatch(name)
        if not named or not os.path.isfile(path):
            continue
        line = {"name": name, "kind": "profile", "bytes": os.path.getsize(path), "path": path, "root": ""}
        found.append({**line, "fingerprint": named[1], **_profile_facts(path)})
    return found


def _profile_facts(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            orders = json.loads(file.read(_PROFILE_BYTES_MAX))["orders"]
        samples = sum(int(order["stages"][0]["samples"]) for order in orders if order["stages"])
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return {"records": 0, "valid": False}
    return {"records": samples, "valid": True}


def _chosen(names: list[str], folder: str) -> list[dict[str, Any]]:
    """The files with these names, or whose fingerprint begins with one of them; all without names."""
    known = files(folder)
    if not names:
        return known
    chosen = []
    for name in names:
        hits = [
            line for line in known if line["name"] == name or (len(name) >= 6 and line["fingerprint"].startswith(name))
        ]
        if not hits:
            raise NotFound(f"cache: {name} is not in {folder}; `carya cache ls --folder {folder}` shows what is")
        chosen += [line for line in hits if line not in chosen]
    return chosen


def show(given: str | None, as_json: bool) -> None:
    """`carya cache ls`."""
    folder = _folder(given)
    found = files(folder)
    size = sum(line["bytes"] for line in found)
    if as_json:
        print(json.dumps({"cache": folder, "bytes": size, "files": found}))
        return
    samples = [line for line in found if line["kind"] == "samples"]
    others = [line for line in found if line["kind"] != "samples"]
    if others or not samples:
        _table(others, ("kind", "records", "bytes", "valid", "name", "root"))
    if samples:
        _table(samples, ("kind", "after", "segments", "bytes", "disk_bytes", "used", "name"))
    print(
        f"{len(found)} files, {size:,} B in {shown(folder)}"
        + ("" if os.path.exists(folder) else ", which is not there")
    )


def remove(names: list[str], everything: bool, given: str | None, as_json: bool) -> None:
    """`carya cache rm`."""
    if bool(names) == everything:
        raise InvalidArgument("cache rm: give names or the beginning of a fingerprint, or --all, not both")
    chosen = _chosen(names, _folder(given))
    for line in chosen:
        if line["kind"] in ("manifest", "records", "profile", "lines"):
            os.unlink(line["path"])
        elif line["kind"] == "unpacked":
            shutil.rmtree(line["path"])
        elif line["kind"] == "samples":
            _core.remove_place(line["path"])
        else:
            _core.remove_store(line["path"])
    removed = [line["name"] for line in chosen]
    freed = sum(line["bytes"] for line in chosen)
    if as_json:
        print(json.dumps({"removed": removed, "bytes": freed}))
    else:
        print("\n".join([*removed, f"{len(removed)} files, {freed:,} B removed"]))


def verify(names: list[str], given: str | None, as_json: bool) -> None:
    """`carya cache verify`: reads and checks every byte; exit status 1 when something is damaged."""
    lines = [_checked(line) for line in _chosen(names, _folder(given))]
    whole = all(line["ok"] for line in lines)
    if as_json:
        print(json.dumps({"ok": whole, "files": lines}))
    else:
        _table(lines, ("ok", "kind", "records", "entries", "damaged_count", "name", "problem"))
    if not whole:
        print(
            "carya: damaged files cost time and nothing else; `carya cache rm NAME` removes them, and they are made anew",
            file=sys.stderr,
        )
        raise SystemExit(1)


def _checked(line: dict[str, Any]) -> dict[str, Any]:
    try:
        if line["kind"] in ("unpacked", "lines"):  # read and checked where it is used, and made anew when it is damaged
            return {**line, "ok": True, "problem": ""}
        if line["kind"] == "profile":
            return {**line, "ok": line["valid"], "problem": "" if line["valid"] else "no profile"}
        if line["kind"] in ("manifest", "records"):
            _kept(line)
            return {**line, "ok": True, "problem": ""}
        if line["kind"] == "samples":
            place = _core.verify_place(line["path"])
            damaged, others = place["damaged_count"], place["others_count"]
            said = [f"{damaged} damaged places"] if damaged else []
            said += [f"{others} files are another user's, and not checked"] if others else []
            return {**line, **place, "ok": damaged == 0, "problem": "; ".join(said)}
        check = _core.verify_store(line["path"])
    except Error as error:
        return {**line, "ok": False, "problem": str(error)}
    damaged = check["damaged_count"]
    # How many records have an entry is the check's; how many there could be is the header's.
    facts = {"entries": check["records"], "damaged_count": damaged, "damaged_bytes": check["damaged_bytes"]}
    return {**line, **facts, "ok": damaged == 0, "problem": f"{damaged} damaged places" if damaged else ""}


def _show_lines(result: dict[str, Any]) -> None:
    width = max(map(len, result))
    for key, value in result.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        print(f"{key:{width}} {shown}")


def _table(lines: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    table = Table(*(Column(name.replace("_", " "), overflow="fold") for name in columns))
    for line in lines:
        values = ["" if line.get(name) is None else line[name] for name in columns]
        table.add_row(
            *(f"{v:,}" if isinstance(v, int) and not isinstance(v, bool) else escape(shown(str(v))) for v in values)
        )
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:  # programs and files take names in one piece
        console.width = max(
            console.width, console.measure(table, options=console.options.update(max_width=_WIDE)).maximum
        )
    console.print(table)


def warm(pipeline: Pipeline, place: dict[str, Any], threads: int | Literal["auto"], as_json: bool) -> None:
    """`carya cache warm`: run the pipeline until the folder of `place`, as `Loader(cache=)` takes it, has what it has room for.

    What storage was too slow to write in one pass is made again in the next. Errors: those of the loader.
    """
    from .._loading.loader import Loader
    from .run import SHOW_S, progress_bar

    start, used = time.perf_counter(), os.times()
    with Loader(pipeline, threads=threads, on_error="mask", cache=place, daemon="embedded") as loader:
        with contextlib.nullcontext() if as_json else progress_bar() as shown:
            steps = len(loader)
            for number in range(_PASSES_MAX):
                before = _tier(loader)
                task = None if shown is None else shown.add_task("", total=steps, rate="", stall="", cpu="")
                told = 0.0
                for step, _ in enumerate(loader):
                    if shown is not None and (time.monotonic() >= told + SHOW_S or step + 1 == steps):
                        told = time.monotonic()
                        rate = f"{_tier(loader)['records']:,} samples kept"
                        shown.update(task, completed=step + 1, rate=rate, stall="", cpu=f"pass {number + 1}")
                tier = _written(loader)
                if tier["full"] or not tier["open"] or tier["written"] == before["written"]:
                    break
                if tier["records"] >= pipeline.open().count - len(loader.quarantine()):
                    break
        after = loader.stats()["cache"]["after"]
    now = os.times()
    result = {
        "folder": tier["path"], "after": after, "records": tier["records"], "written": tier["written"], "bytes": tier["bytes"],
        "full": tier["full"], "trouble": tier["trouble"], "seconds": round(time.perf_counter() - start, 3),
        "cpu_seconds": round(now.user + now.system - used.user - used.system, 3),
    }  # fmt: skip
    if as_json:
        print(json.dumps(result))
    else:
        _show_lines(result)


def _tier(loader: Any) -> dict[str, Any]:
    """What the loader says of its one folder. Errors: InvalidArgument, where it keeps nothing there."""
    said = loader.stats()["cache"]
    if not said.get("files"):
        raise InvalidArgument(
            f"cache warm: nothing of this pipeline is kept in files ({said.get('why', 'no place for it')}); give --after "
            "an operation behind which samples may lie in files (docs/cache.md says which may not), or leave it out"
        )
    tier: dict[str, Any] = said["files"][0]
    return tier


def _written(loader: Any) -> dict[str, Any]:
    """The same once nothing is written any more."""
    tier = _tier(loader)
    until = time.monotonic() + _SETTLED_S
    while time.monotonic() < until:
        time.sleep(0.05)
        now = _tier(loader)
        if now["written"] != tier["written"]:
            until = time.monotonic() + _SETTLED_S
        tier = now
    return tier
