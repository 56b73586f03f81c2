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

from .._errors import InvalidArgument, NotFound, Permission, SampleError, Unsupported, invalid
from .._pipeline.pipeline import Pipeline
from .._sources.objects import ListedObject, object_at, open_file
from .._sources.paths import PathLike
from .._stages.source import checked_dataset
from .addresses import RawRows, row_names, row_places, rows_at_addresses, why_not_raw
from .kept import File, digest, listed_files, of_each
from .npy import npy_array

_NAMED = re.compile(r"^[^.].*\.(bin|npy)$")
_OPEN_MAX = 256  # files that a process has mapped
_DTYPES = ("uint16", "uint32", "int32", "int64", "uint8", "int8", "int16", "uint64")
# Source: megatron/core/datasets/indexed_dataset.py: a magic, version 1, the code of a dtype.
_MEGATRON, _MEGATRON_HEAD = b"MMIDIDX\x00\x00", 9 + 8 + 1
_MEGATRON_DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
# Source: llm.c, dev/data/data_common.py: 256 int32, of which the first are magic, version, number of tokens.
_LLMC_HEAD = 1024
_HEAD = 8192  # bytes of a file without a header that tell how wide its ids are
_UPPER_MAX = 15  # what the upper half of an id of 32 bits is at most: of a vocabulary of a million
_LLMC = {(20240520, 1): "uint16", (20240801, 7): "uint32"}


def token_blocks(
    paths: PathLike | Sequence[PathLike],
    length: int,
    *,
    stride: int | None = None,
    dtype: str | None = None,
    native: bool = False,
    endpoint: str | None = None,
) -> Pipeline:
    """Blocks of `length` token ids of files that have nothing but ids, in any order: samples are `{"ids": int32 [length]}`.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.bin" or "*.npy", bytewise). A block lies in one file;
    the next one begins `stride` ids later (default: `length`), and the ids behind a file's last block are left out. For inputs
    and labels that are shifted by one, give `length` one more than the context, and `batch["ids"][:, :-1]` and `[:, 1:]`.

    What a file is, is told by what it has: `.npy` of one axis of integers; `.bin` beside an `.idx` of Megatron-LM, whose documents
    are read as one row of ids; `.bin` with the header of llm.c; `.bin` of `carya tokenize`, beside its `index.json`; else a `.bin`
    of ids alone in `dtype` (default: "uint16"), little-endian, as nanoGPT writes it; without `dtype` one that looks like wider ids is
    refused. Files are mapped, not read.

    Negative numbers, as for what no loss is taken of, stay as they are. An id beyond int32 makes its block a broken record (`Loader(on_error=)`). A file that changes while it is used is an IoError.

    `native=True`: blocks are read by io_uring where they lie, without worker processes, by daemons and remote workers too, and have
    the dtype of the files, one for all of them: uint16 is half of what int32 moves. Where each block lies takes some 90 bytes of
    memory. So files may lie behind URLs (s3://, gs://, az://, https://), of which blocks are read by ranges; `endpoint`: of another
    server than the cloud's.
    Errors: NotFound, InvalidArgument (no block, a length or stride below 1, a dtype of no integers), SampleError (a header that
    cannot be, a size that is no whole number of ids), Unsupported (URLs without `native`).
    Reference: numpy.memmap of the file.

    >>> import carya, numpy as np, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "train.bin"
    >>> np.arange(10, dtype=np.uint16).tofile(name)
    >>> carya.token_blocks(name, 4)[1]["ids"].tolist()
    [4, 5, 6, 7]
    >>> carya.token_blocks(name, 4, native=True).outputs
    [('ids', 'uint16', (4,))]
    """
    for name, given in (("length", length), ("stride", 1 if stride is None else stride)):
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise invalid(f"token_blocks: {name}", given, "a number of ids from 1 on")
    if dtype is not None and dtype not in _DTYPES:
        raise invalid("token_blocks: dtype", dtype, f"one of {', '.join(_DTYPES)}")
    if not isinstance(native, bool):
        raise invalid("token_blocks: native", native, "True or False")
    files = listed_files("token_blocks", paths, _NAMED, "*.bin or *.npy", endpoint)
    check_mapped("token_blocks", files, native)
    blocks = TokenBlocks(of_each(lambda file: _ids_of(file, dtype), files), length, stride or length)
    if native:
        return blocks.native()
    return Pipeline._of_dataset(checked_dataset(blocks, None, False, blocks.version))


def check_mapped(kind: str, files: Sequence[File], native: bool) -> None:
    """Errors: Unsupported, for objects that worker processes would have to map."""
    if not native and (url := next((file.path for file in files if isinstance(file, ListedObject)), "")):
        raise Unsupported(f"{kind}: {url}: worker processes map files; give native=True, which reads URLs by ranges")


class Ids(NamedTuple):
    """The ids of a file."""

    file: File
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

    def native(self) -> Pipeline:
        """Blocks as ranges of their files. Errors: InvalidArgument (several dtypes)."""
        kinds = {part.dtype.str: part.file.path for part in self._parts}
        kind = self._parts[0].dtype
        if why := why_not_raw(kind, (self._length,)) or (f"its ids are {' or '.join(kinds)}" if len(kinds) > 1 else ""):
            wanted = "files with ids of one dtype, little-endian, or leave native= out"
            raise InvalidArgument(f"token_blocks: {self._parts[0].file.path}: native=True: {why}; give {wanted}")
        counts = [end - begin for begin, end in itertools.pairwise(self._starts)]
        size, step = self._length * kind.itemsize, self._stride * kind.itemsize
        places = [
            row_places(number, part.offset, count, size, step)
            for number, (part, count) in enumerate(zip(self._parts, counts, strict=True))
        ]
        ids = RawRows("ids", kind, (self._length,), np.concatenate(places))
        return rows_at_addresses("token_blocks", [part.file for part in self._parts], [ids], row_names(counts))

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


def _ids_of(file: File, dtype: str | None) -> Ids:
    subject = f"token_blocks: {file.path}"
    if file.path.endswith(".npy"):
        array = npy_array(file, "token_blocks")
        if len(array.shape) != 1 or array.dtype.kind not in "iu":
            raise SampleError(f"{subject}: it has {array.dtype} {list(array.shape)}; give one axis of integers")
        return Ids(file, array.dtype, array.offset, array.shape[0])
    with open_file(file) as head:
        begin = head.read(_HEAD)
    words = np.frombuffer(begin[: min(len(begin), 12) & ~3], "<i4")
    index = None
    if file.path.endswith(".bin"):
        index = _beside(file, file.path.removesuffix(".bin") + ".idx", _MEGATRON_HEAD, dtype)
    if index is not None:
        return _whole(file, subject, _megatron_dtype(f"{subject}: its .idx", index), 0)
    if len(words) == 3 and tuple(words[:2].tolist()) in _LLMC:
        found = _whole(file, subject, _LLMC[words[0].item(), words[1].item()], _LLMC_HEAD)
        if found.ids != words[2]:
            raise SampleError(f"{subject}: its header says {words[2]:,} ids, and it has {found.ids:,}; copy it again")
        return found
    found_dtype = dtype or _written_dtype(file)
    if found_dtype is None and (wider := _wider(begin)):
        raise InvalidArgument(
            f'{subject}: its bytes look like ids of {wider} bits, and nothing says what they are; give dtype="int{wider}", or '
            'dtype="uint16" where that is what was written'
        )
    return _whole(file, subject, found_dtype or "uint16", 0)


def _wider(begin: bytes) -> int:
    """32 or 64 where numbers of 16 bits at the beginning of a file are halves or quarters of larger ones, whose upper ones have next
    to nothing in them; 0 elsewhere, also where ids are so small that nothing can be told."""
    halves = np.frombuffer(begin[: len(begin) & ~7], "<u2").reshape(-1, 4)
    if len(halves) < 16 or len(np.unique(halves[:, 0][halves[:, 0] > _UPPER_MAX])) < 8:
        return 0
    upper = (halves <= _UPPER_MAX) | (halves == 0xFFFF)  # of ids, and of negative numbers
    if not upper[:, [1, 3]].all():
        return 0
    return 64 if upper[:, 2].all() else 32


def _beside(file: File, path: str, size: int, dtype: str | None = None) -> bytes | None:
    """The first bytes of a file that lies beside another one; None: there is none. S3 answers "forbidden" of what there is not to whom
    it does not let list: with a `dtype` there is none then."""
    try:
        if isinstance(file, ListedObject):
            found = object_at(path)
            return found.read(0, min(size, found.size)) if found.size else b""
        with open(path, "rb") as beside:
            return beside.read(size)
    except (FileNotFoundError, IsADirectoryError, NotFound):
        return None
    except PermissionError as error:
        if dtype is not None:
            return None
        wanted = f"give dtype=, if {file.path} has ids alone"
        raise Permission(
            f"token_blocks: {path}: it may say what the ids are, and cannot be read: {error}; {wanted}"
        ) from None


def _written_dtype(file: File) -> str | None:
    """What `carya tokenize` says of a file of its folder; None of any other one."""
    written = _beside(file, os.path.join(os.path.dirname(file.path), "index.json"), 1 << 26)
    try:
        about = json.loads(written or b"")
        found = about["dtype"] if about["format"] == "carya tokens 1" else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if found in _DTYPES else None


def _whole(file: File, subject: str, dtype: str, offset: int) -> Ids:
    """All that is behind the offset."""
    kind = np.dtype(dtype).newbyteorder("<")
    if (file.size - offset) % kind.itemsize:
        raise SampleError(
            f"{subject}: it has {file.size:,} B, no whole number of {dtype}; give the dtype that was written, or copy it again"
        )
    return Ids(file, kind, offset, (file.size - offset) // kind.itemsize)


def _megatron_dtype(subject: str, head: bytes) -> str:
    if head[:9] != _MEGATRON or head[9:17] != (1).to_bytes(8, "little") or head[17:18] == b"":
        raise SampleError(f"{subject} is no index of Megatron-LM of version 1; rename it, or give other files")
    if head[17] not in _MEGATRON_DTYPES:
        raise SampleError(f"{subject} says ids of the code {head[17]}, which is none of integers")
    return _MEGATRON_DTYPES[head[17]]
