"""The files in which a dataset of Hugging Face's `datasets` lies, and which of their rows it has."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import numpy as np

from .._errors import InvalidArgument, NotFound, invalid

_SAVED = "dataset.save_to_disk(folder), then carya.hf_dataset(folder)"


class HfFiles(NamedTuple):
    """Arrow files in the order of their rows, and the rows that are meant: int64 indices over all files, or None for all."""

    paths: list[str]
    rows: Any


def hf_files(folder: str) -> HfFiles:
    """Those of a folder that `save_to_disk` wrote. Errors: NotFound, InvalidArgument (a folder of several splits, no such folder).

    >>> hf_files("/nowhere")
    Traceback (most recent call last):
    carya.NotFound: hf_dataset: /nowhere has no state.json; give a folder that save_to_disk wrote
    """
    name = os.path.join(folder, "state.json")
    if os.path.isfile(os.path.join(folder, "dataset_dict.json")):
        raise invalid("hf_dataset: dataset", folder, "one of its splits, a folder in it")
    try:
        with open(name, "rb") as file:
            listed = json.load(file)["_data_files"]
        names = [entry["filename"] for entry in listed]
        sound = all(isinstance(one, str) and os.path.basename(one) == one and one not in ("", "..") for one in names)
    except FileNotFoundError:
        raise NotFound(f"hf_dataset: {folder} has no state.json; give a folder that save_to_disk wrote") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise invalid(f"hf_dataset: {name}", repr(error), "a state.json that save_to_disk wrote") from None
    if not sound or not names:
        raise invalid(f"hf_dataset: {name}: _data_files", names, "names of files that lie in the folder")
    return HfFiles([os.path.join(folder, one) for one in names], None)


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
    """Whether the table has the columns and rows of its files: nothing sliced, renamed or put beside."""
    import pyarrow  # datasets is here, so it is too

    schemas, count = set(), 0
    for path in paths:
        with pyarrow.memory_map(path) as file:
            try:
                stream = pyarrow.ipc.open_stream(file)
                count += sum(batch.num_rows for batch in stream)
            except pyarrow.ArrowInvalid:
                stream = pyarrow.ipc.open_file(file)
                count += sum(stream.get_batch(i).num_rows for i in range(stream.num_record_batches))
            schemas.add(tuple(stream.schema.names))
    return count == table.num_rows and schemas == {tuple(table.column_names)}
