"""The memory of an `arrays` source, and of arrays beside files: checked, and described for the pipeline's document."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument, NotFound, invalid
from .document import Document

Array = np.ndarray[Any, Any]

# Arrays up to this size are fingerprinted whole; of larger ones, which may be mapped files of terabytes, evenly spaced
# blocks are read (and dtype, shape and name always count).
_WHOLE_BYTES = 64 << 20
_BLOCKS = 256
_BLOCK_BYTES = 64 << 10


def array_memory(data: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays of an `arrays` source, checked: C-contiguous, equal lengths; paths are mapped."""
    if not isinstance(data, Mapping) or not data:
        raise invalid("arrays: data", data, "a mapping of names to arrays or .npy paths")
    memory: dict[str, Array] = {}
    for name, value in data.items():
        if isinstance(value, str | os.PathLike):
            try:
                value = np.load(value, mmap_mode="r", allow_pickle=False)
            except FileNotFoundError as error:
                raise NotFound(f"arrays: {name}: no file {os.fspath(value)!r}; give the path of a .npy file") from error
            except (ValueError, OSError) as error:
                raise InvalidArgument(f"arrays: {name}: {error}; give a .npy file of plain numbers") from error
        try:
            value = np.asarray(value)
        except ValueError:
            raise InvalidArgument(
                f"arrays: {name}: rows differ in shape; give rows of one shape: pad them, or write them as files"
            ) from None
        if value.ndim == 0:
            raise invalid(f"arrays: {name}", value, "an array whose first axis counts the records")
        if value.dtype.kind not in "biuf" or not value.dtype.isnative or value.dtype.itemsize > 8:
            raise invalid(f"arrays: {name}: dtype", str(value.dtype), "bool, an integer or float16/32/64")
        memory[str(name)] = np.ascontiguousarray(value)
    counts = {name: len(value) for name, value in memory.items()}
    if len(set(counts.values())) > 1:
        raise invalid("arrays: lengths", counts, "arrays with one row per record, all of the same length")
    return memory


class Ragged:
    """Arrays with a number of rows for each record: `values` of all, one behind the other, and `offsets` (int64, one more than
    records) of where each begins."""

    def __init__(self, values: Array, offsets: Array) -> None:
        self.values, self.offsets = values, offsets

    @classmethod
    def of(cls, name: str, rows: Sequence[Any]) -> Ragged:
        """Of one array for each record. Errors: InvalidArgument (arrays that differ in more than their first side)."""
        try:
            arrays = [np.asarray(row) for row in rows]
            values = np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
        except ValueError:
            raise InvalidArgument(
                f"files: arrays[{name!r}]: rows differ in shape; give arrays that differ in their first side only"
            ) from None
        return cls(values, np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64))


def offsets_key(name: str) -> str:
    """The key of a ragged array's offsets in the memory that is handed over."""
    return f"{name}.offsets"


def file_arrays(data: Mapping[str, Any], count: int) -> tuple[dict[str, Array], Document]:
    """The arrays beside `count` files: their memory, and the document's object of them.

    Each is an array with one row for each file, or a list of one array for each, which differ in their first side.
    Errors: InvalidArgument.
    """
    memory: dict[str, Array] = {}
    document: Document = {}
    for name, given in data.items():
        ragged = Ragged.of(name, given) if isinstance(given, list | tuple) else given
        records = len(ragged.offsets) - 1 if isinstance(ragged, Ragged) else len(given)
        if records != count:
            raise invalid(f"files: arrays[{name!r}]", f"{records} rows", f"one per path ({count})")
        if not isinstance(ragged, Ragged):
            checked = array_memory({name: given})
            memory |= checked
            document |= arrays_document(checked)["arrays"]
            continue
        if len(ragged.values) == 0:
            raise invalid(f"files: arrays[{name!r}]", "no row", "rows in one record or more")
        checked = array_memory({name: ragged.values})
        described = arrays_document(checked)["arrays"][name]
        described["fingerprint"] = _fingerprint(
            np.frombuffer(f"{described['fingerprint']} {_fingerprint(ragged.offsets)}".encode(), np.uint8)
        )
        document[name] = {**described, "rows_max": int(np.diff(ragged.offsets).max(initial=0))}
        memory |= {**checked, offsets_key(name): np.ascontiguousarray(ragged.offsets, np.int64)}
    return memory, document


def arrays_document(memory: Mapping[str, Array]) -> Document:
    """The source object of arrays: names, dtypes, row shapes and a fingerprint of the bytes."""
    described = {
        name: {"dtype": str(value.dtype), "shape": list(value.shape[1:]), "fingerprint": _fingerprint(value)}
        for name, value in memory.items()
    }
    return {"type": "arrays", "count": len(next(iter(memory.values()))), "arrays": described}


def family(share: str, memory: Mapping[str, Array]) -> str:
    """The name under which jobs share batches: one for each content of large arrays, of whose bytes a fingerprint looks at some only."""
    large = {name: value for name, value in sorted(memory.items()) if value.nbytes > _WHOLE_BYTES}
    if not large:
        return share
    import hashlib

    digest = hashlib.blake2b(share.encode(), digest_size=16)
    for name, value in large.items():
        digest.update(f"{name}\0".encode())
        digest.update(value.reshape(-1).view(np.uint8).data)
    return f"{share[:30]}~{digest.hexdigest()}"


def _fingerprint(value: Array) -> str:
    import hashlib

    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{value.dtype} {value.shape}".encode())
    flat = value.reshape(-1).view(np.uint8) if value.size else np.zeros(0, np.uint8)
    if flat.nbytes <= _WHOLE_BYTES:
        digest.update(flat.data)
    else:
        last = flat.nbytes - _BLOCK_BYTES
        for block in range(_BLOCKS):
            start = last * block // (_BLOCKS - 1)
            digest.update(flat[start : start + _BLOCK_BYTES].data)
    return digest.hexdigest()
