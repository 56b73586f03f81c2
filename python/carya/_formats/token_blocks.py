"""Blocks of token ids in files that a tokenizer wrote earlier."""

from __future__ import annotations

import bisect
import itertools
import json
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._errors import SampleError, invalid
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike, record_paths
from .._stages.source import checked_dataset
from .kept import Listed, digest, look_at

_NAMED = re.compile(r"^[^.].*\.(bin|npy)$")
_OPEN_MAX = 256  # files that a process has mapped
_DTYPES = ("uint16", "uint32", "int32", "int64", "uint8", "int8", "int16", "uint64")
# Source: megatron/core/datasets/indexed_dataset.py: a magic, version 1, the code of a dtype.
_MEGATRON, _MEGATRON_HEAD = b"MMIDIDX\x00\x00", 9 + 8 + 1
_MEGATRON_DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
# Source: llm.c, dev/data/data_common.py: 256 int32, of which the first are magic, version, number of tokens.
_LLMC_HEAD = 1024
_LLMC = {(20240520, 1): "uint16", (20240801, 7): "uint32"}


def token_blocks(
    paths: PathLike | Sequence[PathLike], length: int, *, stride: int | None = None, dtype: str | None = None
) -> Pipeline:
    """Blocks of `length` token ids of files that have nothing but ids, in any order: samples are `{"ids": int32 [length]}`.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.bin" or "*.npy", bytewise). A block lies in one file;
    the next one begins `stride` ids later (default: `length`), and the ids behind a file's last block are left out. For inputs
    and labels that are shifted by one, give `length` one more than the context, and `batch["ids"][:, :-1]` and `[:, 1:]`.

    What a file is, is told by what it has: `.npy` of one axis of integers; `.bin` beside an `.idx` of Megatron-LM, whose documents
    are read as one row of ids; `.bin` with the header of llm.c; `.bin` of `carya tokenize`, beside its `index.json`; else a `.bin`
    of ids alone in `dtype` (default: "uint16"), little-endian, as nanoGPT writes it. Files are mapped, not read.

    An id beyond int32 makes its block a broken record (`Loader(on_error=)`). A file that changes while it is used is an IoError.
    Errors: NotFound, InvalidArgument (no block, a length or stride below 1, a dtype of no integers), SampleError (a header that
    cannot be, a size that is no whole number of ids).
    Reference: numpy.memmap of the file.

    >>> import carya, numpy as np, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "train.bin"
    >>> np.arange(10, dtype=np.uint16).tofile(name)
    >>> carya.token_blocks(name, 4)[1]
    {'ids': array([4, 5, 6, 7], dtype=int32)}
    """
    for name, given in (("length", length), ("stride", 1 if stride is None else stride)):
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise invalid(f"token_blocks: {name}", given, "a number of ids from 1 on")
    if dtype is not None and dtype not in _DTYPES:
        raise invalid("token_blocks: dtype", dtype, f"one of {', '.join(_DTYPES)}")
    files = [look_at("token_blocks", path) for path in record_paths(paths, _NAMED, "*.bin or *.npy")]
    blocks = TokenBlocks([_ids_of(file, dtype) for file in files], length, stride or length)
    return Pipeline._of_dataset(checked_dataset(blocks, None, False, blocks.version))


class Ids(NamedTuple):
    """The ids of a file."""

    file: Listed
    dtype: np.dtype[Any]
    offset: int  # bytes
    ids: int


class TokenBlocks:
    """Blocks by index. Threads: one. It travels to worker processes, each of which maps files of its own."""

    def __init__(self, parts: Sequence[Ids], length: int, stride: int) -> None:
        self._parts, self._length, self._stride = list(parts), length, stride
        counts = [max(0, (part.ids - length) // stride + 1) for part in parts]
        self._starts = [0, *itertools.accumulate(counts)]
        if not len(self):
            paths = [part.file.path for part in parts]
            raise invalid("token_blocks: paths", paths, f"files with at least {length:,} ids, or a smaller length")
        about = [(os.path.basename(file.path), file.size, dtype.str, offset) for file, dtype, offset, _ in parts]
        self.version = f"token_blocks 1 {digest(about, length, stride)}"
        self._open: dict[int, np.ndarray[Any, Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, np.ndarray[Any, Any]]:
        part, first = self._at(index)
        ids = self._open.get(part)
        if ids is None:
            ids = self._mapped(part)
        block = ids[first : first + self._length]
        found = block.astype(np.int32)
        if block.dtype.itemsize >= 4 and (found != block).any():
            raise SampleError(f"{self.place(index)}: an id of it is beyond int32; give the dtype that was written")
        return {"ids": found}

    def place(self, index: int) -> str:
        """Where a block is, for people."""
        part, first = self._at(index)
        return f"token_blocks: {self._parts[part].file.path}, ids from {first:,} on"

    def _at(self, index: int) -> tuple[int, int]:
        part = bisect.bisect_right(self._starts, index) - 1
        return part, (index - self._starts[part]) * self._stride

    def _mapped(self, part: int) -> np.ndarray[Any, Any]:
        one = self._parts[part]
        one.file.check("token_blocks")
        if len(self._open) >= _OPEN_MAX:
            self._open.pop(next(iter(self._open)))
        self._open[part] = np.memmap(one.file.path, one.dtype, "r", one.offset, (one.ids,))
        return self._open[part]


def _ids_of(file: Listed, dtype: str | None) -> Ids:
    subject = f"token_blocks: {file.path}"
    if file.path.endswith(".npy"):
        return _npy(file, subject)
    with open(file.path, "rb") as head:
        words = np.frombuffer(head.read(12), "<i4")
    index = file.path.removesuffix(".bin") + ".idx"
    if file.path.endswith(".bin") and os.path.isfile(index):
        return _whole(file, subject, _megatron_dtype(index), 0)
    if len(words) == 3 and tuple(words[:2].tolist()) in _LLMC:
        found = _whole(file, subject, _LLMC[words[0].item(), words[1].item()], _LLMC_HEAD)
        if found.ids != words[2]:
            raise SampleError(f"{subject}: its header says {words[2]:,} ids, and it has {found.ids:,}; copy it again")
        return found
    return _whole(file, subject, dtype or _written_dtype(file.path), 0)


def _written_dtype(path: str) -> str:
    """What `carya tokenize` says of a file of its folder; "uint16" of any other one."""
    try:
        with open(os.path.join(os.path.dirname(path), "index.json"), "rb") as file:
            about = json.loads(file.read(1 << 26))
        found = about["dtype"] if about["format"] == "carya tokens 1" else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "uint16"
    return found if found in _DTYPES else "uint16"


def _whole(file: Listed, subject: str, dtype: str, offset: int) -> Ids:
    """All that is behind the offset."""
    kind = np.dtype(dtype).newbyteorder("<")
    if (file.size - offset) % kind.itemsize:
        raise SampleError(
            f"{subject}: it has {file.size:,} B, no whole number of {dtype}; give the dtype that was written, or copy it again"
        )
    return Ids(file, kind, offset, (file.size - offset) // kind.itemsize)


def _npy(file: Listed, subject: str) -> Ids:
    try:
        mapped = np.load(file.path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise SampleError(f"{subject}: {error}; write it by numpy.save") from None
    if mapped.ndim != 1 or mapped.dtype.kind not in "iu":
        raise SampleError(f"{subject}: it has {mapped.dtype} {list(mapped.shape)}; give one axis of integers")
    return Ids(file, mapped.dtype, int(getattr(mapped, "offset", 0)), len(mapped))


def _megatron_dtype(path: str) -> str:
    with open(path, "rb") as file:
        head = file.read(_MEGATRON_HEAD)
    if head[:9] != _MEGATRON or head[9:17] != (1).to_bytes(8, "little") or head[17:18] == b"":
        raise SampleError(f"token_blocks: {path}: no index of Megatron-LM of version 1; rename it, or give other files")
    if head[17] not in _MEGATRON_DTYPES:
        raise SampleError(f"token_blocks: {path}: its ids have the code {head[17]}, which is none of integers")
    return _MEGATRON_DTYPES[head[17]]
