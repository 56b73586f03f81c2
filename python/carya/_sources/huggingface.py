"""The files in which a dataset of Hugging Face's `datasets` lies, and which of their rows it has."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import numpy as np

from .._errors import Error, InvalidArgument, NotFound, Permission, invalid
from .objects import object_at, open_file
from .stores import is_listed, is_url, list_objects

_STATE_MAX = 64 << 20  # bytes of a state.json
_SAVED = "dataset.save_to_disk(folder), then carya.hf_dataset(folder)"


class HfFiles(NamedTuple):
    """Arrow files in the order of their rows, and the rows that are meant: int64 indices over all files, or None for all."""

    paths: list[str]
    rows: Any


def hf_files(folder: str) -> HfFiles:
    """Those of a folder that `save_to_disk` wrote, or of its URL. Errors: NotFound, InvalidArgument (a folder of several splits, no such
    folder); those of a store.

    >>> hf_files("/nowhere")
    Traceback (most recent call last):
    carya.NotFound: hf_dataset: /nowhere has no state.json; give a folder that save_to_disk wrote
    """
    name = os.path.join(folder, "state.json")
    if not is_url(folder):
        _check_split(folder)
    try:
        with open_file(name) as file:
            listed = json.loads(file.read(_STATE_MAX))["_data_files"]
        names = [entry["filename"] for entry in listed]
        sound = all(isinstance(one, str) and os.path.basename(one) == one and one not in ("", "..") for one in names)
        sound = sound and not (is_url(folder) and any(set(one) & set("%?#") for one in names))
    except FileNotFoundError:  # also NotFound
        if is_url(folder):
            _check_split(folder)
        raise NotFound(f"hf_dataset: {folder} has no state.json; give a folder that save_to_disk wrote") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, Error):  # of a store
            raise
        raise invalid(f"hf_dataset: {name}", repr(error), "a state.json that save_to_disk wrote") from None
    if not sound or not names:
        raise invalid(f"hf_dataset: {name}: _data_files", names, "names of files that lie in the folder")
    return HfFiles([os.path.join(folder, one) for one in names], None)


def _check_split(folder: str) -> None:
    """Errors: InvalidArgument, where splits lie in the folder; NotFound, where it is one of Parquet files."""
    if not is_url(folder):
        found = os.path.isfile(os.path.join(folder, "dataset_dict.json"))
        tables = False
    else:
        try:
            object_at(f"{folder}/dataset_dict.json")
            found = True
        except (NotFound, Permission):
            found = False
        try:
            tables = not found and is_listed(folder) and any(".parquet" in one for one in list_objects(f"{folder}/"))
        except Permission:
            tables = False
    if found:
        raise invalid("hf_dataset: dataset", folder, "one of its splits, a folder in it")
    if tables:
        raise NotFound(f"hf_dataset: {folder} has no state.json, but Parquet files; call carya.parquet on them")


def hf_table(dataset: Any) -> HfFiles:
    """Those of a `datasets.Dataset`, as far as its table is what lies in them. Errors: InvalidArgument."""
    files = getattr(dataset, "cache_files", None)
    table = getattr(dataset, "data", None)
    if not isinstance(files, list) or table is None:
        wanted = "a datasets.Dataset (one split of it), or the folder that its save_to_disk wrote"
        raise invalid("hf_dataset: dataset", dataset, wanted)
    rows = getattr(dataset, "_indices", None)
    # The rows that were chosen may lie in a file of their own, which is listed behind those of the table.
    paths = [str(file["filename"]) for file in files if file["filename"] != getattr(rows, "path", None)]
    if not paths:
        raise InvalidArgument(f"hf_dataset: dataset: it lies in memory; give {_SAVED}")
    if len(set(paths)) != len(paths) or not _as_in_files(table, paths):
        raise InvalidArgument(f"hf_dataset: dataset: its table is not that of its files; give {_SAVED}")
    return HfFiles(paths, None if rows is None else np.asarray(rows.column(0).to_numpy(), dtype=np.int64))


def _as_in_files(table: Any, paths: list[str]) -> bool:
    """Whether the table has the columns and rows of its files: nothing sliced, renamed or put beside, as far as numbers of rows, names
    and three rows of each file say it."""
    import pyarrow  # datasets is here, so it is too

    schemas, count = set(), 0
    for path in paths:
        with pyarrow.memory_map(path) as file:
            try:
                found = pyarrow.ipc.open_stream(file).read_all()
            except pyarrow.ArrowInvalid:
                found = pyarrow.ipc.open_file(file).read_all()
        rows = found.num_rows
        schemas.add(tuple(found.schema.names))
        if count + rows > table.num_rows or schemas != {tuple(table.column_names)}:
            return False
        if any(not _alike(found, row, table, count + row) for row in {0, rows // 2, rows - 1} if rows):
            return False
        count += rows
    return bool(count == table.num_rows)


def _alike(one: Any, row: int, other: Any, place: int) -> bool:
    """Whether rows have the same values in columns of the same type: what a cast changed is what lies in the files."""
    pairs = [(one.column(i), other.column(i)) for i in range(len(one.column_names))]
    try:
        # Text, since no NaN is equal to another one.
        return all(repr(mine[row].as_py()) == repr(its[place].as_py()) for mine, its in pairs if mine.type == its.type)
    except ValueError:  # Python has not all values, such as times in nanoseconds
        return True
