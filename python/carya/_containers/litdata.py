"""Samples of LitData's chunks."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import os
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np

from .._errors import Error, Exhausted, InvalidArgument, NotFound, Permission, SampleError, Unsupported, invalid
from .._formats.kept import NAME_MAX, File, Listed, digest, has_room, kept_name, look_at, make_once
from .._formats.token_blocks import Ids, TokenBlocks, check_mapped
from .._pipeline.dataset import cache_dir
from .._pipeline.pipeline import Pipeline
from .._sources.objects import ListedObject, all_at_once, object_at, open_file
from .._sources.paths import PathLike, path_list
from .._sources.stores import is_listed, is_url, list_objects, url_paths
from .._stages.source import checked_dataset
from .codecs import UNPACKED_MAX, library, unpacked, zstd_size
from .litdata_rows import MAGIC, ArrowRows
from .litdata_values import Decode, Tree, decoder, flat_dtype
from .ranges import Ranges

_INDEX_MAX = 1 << 30  # bytes of an index.json
_OPEN_MAX = 256  # chunks that a process knows the offsets of
_BLOCK = 8 << 20
_LISTED_MIN = 1000  # of a folder: fewer are looked up one by one, since a listing has all that lies below it
_CHUNK_MAX = 1 << 32  # its offsets have 32 bits
# Source: litdata/streaming/framed_zstd.py: magic, version, flags, items, items per frame, frames; of each frame its first item,
# items, offset, bytes, and bytes unpacked.
_FRAMED, _FRAMED_HEAD, _FRAME = b"LDFZ01\0\0", struct.Struct("<8sHHIII"), struct.Struct("<IIQII")
_PACKED = re.compile(r"\.zstd(:\d+)?\.bin$")  # compression="zstd" or "zstd:3"

Array = np.ndarray[Any, Any]


def litdata(
    folders: PathLike | Sequence[PathLike],
    *,
    block: int | None = None,
    native: bool = False,
    pickles: Literal["refuse", "bytes"] = "refuse",
    endpoint: str | None = None,
) -> Pipeline:
    """Samples of LitData's chunks (`litdata.optimize`) in any order, read in worker processes by a reader of our own.

    `folders`: one with an `index.json`, or several, one behind the other; or URLs of such folders. Samples have the structure that
    was written. Their leaves are what LitData reads, with arrays in place of tensors: text as `str`, numbers, bools, bytes, arrays,
    JSON as lists and dicts, pictures of Pillow's as arrays (height, width, values). Files are their bytes: JPEG and other pictures, video, audio, PDF
    and the like, to be decoded by a function: `.map(decode, fields="image")`.
    `block`: of folders that were written for `TokensLoader`, as many ids as a sample has: `{"ids": int32 [block]}`, and what is
    left behind a chunk's last block is left out, as LitData does it. `native=True`: such blocks are read by native threads, without
    worker processes, in the dtype that was written, as by `carya.token_blocks(native=True)`; behind URLs they are read so only.
    `pickles`: leaves that LitData knew no better form for, and graphs, are pickles, which can run any code when they are loaded, so
    such folders are refused; "bytes" gives these leaves as bytes, which a function of yours may load, if you trust who wrote them.

    One range of a file is read for each sample. Chunks that are compressed as a whole or in frames are unpacked once into the
    cache folder, as long as a tenth of the disk stays free, by pyarrow: `pip install carya[parquet]`. So are chunks of Arrow rows,
    which LitData writes where samples are dicts of numbers, text, bytes and lists: mapped from where they lie, and of a store from a
    copy in the cache folder. `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Behind URLs a sample is a request, of one worker process after the other, so that
    a store far away wants more of them (`threads=`).

    A sample that cannot be decoded is a broken record (`Loader(on_error=)`), named by file, offset and leaf; of a chunk that
    cannot be unpacked all are. A file that changes while it is used is an IoError.
    Errors: NotFound (also a chunk), InvalidArgument (no sample; `block` is missing, or too much), SampleError (an index that is none),
    Unsupported (encrypted chunks, pyarrow is missing, loaders of other formats, pickles, bfloat16), Exhausted (no room to unpack).
    Reference: litdata.StreamingDataset.__getitem__.

    >>> import carya, json, pathlib, struct, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> items = [struct.pack("<Iq", 8, n) for n in (5, 7)]
    >>> _ = (folder / "chunk-0-0.bin").write_bytes(struct.pack("<IIII", 2, 16, 28, 40) + b"".join(items))
    >>> config = {"data_format": ["int"], "data_spec": json.dumps([1, {"type": None, "context": None, "children_spec": []}])}
    >>> chunks = [{"filename": "chunk-0-0.bin", "chunk_size": 2, "chunk_bytes": 40, "dim": None}]
    >>> _ = (folder / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))
    >>> carya.litdata(folder)[1]
    {'value': array(7)}
    """
    if pickles not in ("refuse", "bytes"):
        raise invalid("litdata: pickles", pickles, '"refuse" or "bytes"')
    if block is not None and (not isinstance(block, int) or isinstance(block, bool) or block < 1):
        raise invalid("litdata: block", block, "a number of ids from 1 on")
    if not isinstance(native, bool) or (native and block is None):
        raise invalid("litdata: native", native, "True or False, and True beside block= only")
    indexes = [_index(folder, pickles) for folder in _folders(folders, endpoint)]
    rows: Any = LitDataSamples(indexes) if block is None else _blocks(indexes, block, native)
    if native:
        return cast(TokenBlocks, rows).native()
    return Pipeline._of_dataset(checked_dataset(rows, None, False, rows.version))


class _Chunk(NamedTuple):
    """A chunk as the index names it."""

    file: File
    samples: int
    ids: int | None
    level: str  # what was compressed: "", "chunk", "batch" or "sample"


class _Index(NamedTuple):
    """What an index.json says."""

    path: str
    chunks: list[_Chunk]
    format: list[str]  # of each leaf
    spec: Any
    tokens: bool
    pickled_as_bytes: bool


class _Opened(NamedTuple):
    """A chunk that samples can be read of."""

    ranges: Ranges
    offsets: Array  # int64
    packed: bool  # each sample is
    rows: ArrowRows | None = None  # which are its samples


class LitDataSamples:
    """Samples by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(self, indexes: Sequence[_Index]) -> None:
        self._folder = cache_dir()
        self._indexes = list(indexes)
        for index in indexes:
            if index.tokens:
                raise InvalidArgument(
                    f"litdata: {index.path}: it was written for TokensLoader; give block=, the ids of a sample"
                )
        self._trees, self._decoders = [], []
        for index in indexes:
            tree, decoders = _leaves(index)
            self._trees.append(tree)
            self._decoders.append(decoders)
        self._chunks = [(number, chunk) for number, index in enumerate(indexes) for chunk in index.chunks]
        self._starts = [0, *itertools.accumulate(chunk.samples for _, chunk in self._chunks)]
        if not len(self):
            raise invalid("litdata: folders", [index.path for index in indexes], "folders with at least one sample")
        about = [(os.path.basename(chunk.file.path), chunk.file.size, chunk.samples) for _, chunk in self._chunks]
        how = [(len(index.chunks), index.format, index.spec) for index in indexes]
        self.version = f"litdata 1 {digest(about, how)}"
        self._open: dict[int, _Opened] = {}
        self._failed: dict[int, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Decoders are made anew, since some are functions that cannot travel.
        return {**self.__dict__, "_open": {}, "_decoders": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._decoders = [_leaves(index)[1] for index in self._indexes]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Any:
        part = bisect.bisect_right(self._starts, index) - 1
        row = index - self._starts[part]
        opened = self._open.get(part) or self._opened(part, index)
        if opened.rows is not None:
            try:
                return opened.rows.row(row)
            except ValueError as error:
                raise SampleError(
                    f"{self.place(index)}: {error}; copy the file again, or leave the sample out"
                ) from error
        try:
            data = self._bytes_of(part, row, index)
        except OSError:
            if part not in self._open or self._chunks[part][1].level not in ("chunk", "batch"):
                raise
            # The cache folder was emptied, and filled again by another process perhaps.
            del self._open[part]
            data = self._bytes_of(part, row, index)
        opened = self._open[part]
        number = self._chunks[part][0]
        tree, decoders = self._trees[number], self._decoders[number]
        i = 0
        try:
            if opened.packed:
                data = _unpacked_sample(data)
            sizes = struct.unpack_from(f"<{len(decoders)}I", data)
            at = 4 * len(sizes)
            if at + sum(sizes) != len(data):
                raise ValueError(f"its leaves are {sum(sizes):,} B, and it has {len(data) - at:,} B")
            leaves = []
            for i, (size, decode) in enumerate(zip(sizes, decoders, strict=True)):  # noqa: B007
                leaves.append(decode(data[at : at + size]))
                at += size
        except (ValueError, IndexError, KeyError, struct.error, RecursionError, OverflowError) as error:
            name = f"{tree.names[i]}: " if tree.names[i] else ""
            wanted = "copy the file again, or leave the sample out"
            raise SampleError(f"{self.place(index)}: {name}{error}; {wanted}") from error
        return tree.sample(leaves)

    def _bytes_of(self, part: int, row: int, index: int) -> bytes:
        """Errors: SampleError, Unsupported, Exhausted; IoError, NotFound."""
        opened = self._open.get(part) or self._opened(part, index)
        begin, end = opened.offsets.item(row), opened.offsets.item(row + 1)
        if end - begin > UNPACKED_MAX:
            raise SampleError(
                f"{self.place(index)}: it has {end - begin:,} B, and at most {UNPACKED_MAX:,} B are read; leave it out"
            )
        return opened.ranges.read(0, begin, end - begin)

    def place(self, index: int) -> str:
        """Where a sample is, for people."""
        part = bisect.bisect_right(self._starts, index) - 1
        row = index - self._starts[part]
        opened = self._open.get(part)
        packed = self._chunks[part][1].level in ("chunk", "batch")
        at = "" if opened is None or packed or opened.rows is not None else f" @{opened.offsets.item(row)}"
        return f"litdata: {self._chunks[part][1].file.path}{at}, sample {row}"

    @property
    def files(self) -> list[File]:
        """The chunks."""
        return [chunk.file for _, chunk in self._chunks]

    def unpack(self, show: Callable[[int, int], None] = lambda done, count: None) -> None:
        """Unpack what is compressed. `show(done, count)` is told of chunks. Errors: SampleError, Exhausted."""
        for part in range(len(self._chunks)):
            self._opened(part, self._starts[part])
            show(part + 1, len(self._chunks))

    def kept_paths(self) -> list[str]:
        """What is in the cache folder of it."""
        paths = {
            os.path.dirname(self._kept(chunk.file))
            for _, chunk in self._chunks
            if chunk.level in ("chunk", "batch") or isinstance(chunk.file, ListedObject)
        }
        return sorted(path for path in paths if self._folder and os.path.isdir(path))

    def _kept(self, file: File) -> str:
        return os.path.join(self._folder, kept_name("unpacked", [file], "litdata", 1), "chunk")

    def _opened(self, part: int, index: int) -> _Opened:
        chunk = self._chunks[part][1]
        try:
            if part in self._failed:
                raise ValueError(self._failed[part])
            _check(chunk.file)
            try:
                found = self._open_chunk(chunk)
            except ValueError:
                if not os.path.exists(self._kept(chunk.file)):
                    raise
                os.unlink(self._kept(chunk.file))  # it may have been damaged there
                found = self._open_chunk(chunk)
        except (ValueError, struct.error) as error:
            if isinstance(error, Error):
                raise  # of a store
            _check(chunk.file)
            self._failed[part] = str(error)
            raise SampleError(
                f"{self.place(index)}: its chunk cannot be read: {error}; copy the file again, or leave its samples out"
            ) from error
        if len(self._open) >= _OPEN_MAX:
            self._open.pop(next(iter(self._open)))
        self._open[part] = found
        return found

    def _open_chunk(self, chunk: _Chunk) -> _Opened:
        """Errors: ValueError, Unsupported, Exhausted."""
        ranges = Ranges("litdata", [chunk.file])
        if chunk.level == "chunk":
            return self._classic(chunk, self._unpacked(chunk, lambda out: _copy_zstd(chunk.file, out)))
        if ranges.read(0, 0, min(8, chunk.file.size)) == _FRAMED:
            offsets, frames = _frames(ranges, chunk)
            kept = self._unpacked(chunk, lambda out: _copy_frames(ranges, frames, out))
            return _Opened(kept, _checked(offsets, 0, kept.files[0].size), False)
        return self._classic(chunk, ranges)

    def _classic(self, chunk: _Chunk, ranges: Ranges) -> _Opened:
        """A chunk with its offsets in front."""
        size = ranges.files[0].size
        begin = 4 + 4 * (chunk.samples + 1)
        head = np.frombuffer(ranges.read(0, 0, min(begin, size)), "<u4")
        if begin > size or head[0] != chunk.samples:
            raise ValueError(f"it has {size:,} B and other samples than the {chunk.samples:,} of index.json")
        if size >= 12 and head[-1] == begin and ranges.read(0, size - 8, 8) == MAGIC:
            if isinstance(chunk.file, ListedObject):
                ranges = self._unpacked(chunk, lambda out: _copy(chunk.file, out))
            return _Opened(ranges, np.zeros(0, np.int64), False, ArrowRows(ranges, chunk.samples))
        return _Opened(ranges, _checked(head[1:].astype(np.int64), begin, size), chunk.level == "sample")

    def _unpacked(self, chunk: _Chunk, copy: Callable[[BinaryIO], None]) -> Ranges:
        """The chunk, unpacked into the cache folder."""
        if not self._folder:
            raise Unsupported(f"litdata: {chunk.file.path}: it is compressed; give CARYA_CACHE_DIR a folder for it")
        path = self._kept(chunk.file)

        def write(temporary: str) -> None:
            with open(temporary, "wb") as out:
                copy(out)
            _check(chunk.file)

        make_once(path, write, [chunk.file])
        return Ranges("litdata", [look_at("litdata", path)])


def _check(file: File) -> None:
    """Errors: IoError, when a file is another one by now. Each range of an object is of the version that was listed."""
    if isinstance(file, Listed):
        file.check("litdata")


def _checked(offsets: Array, begin: int, end: int) -> Array:
    if offsets[0] < begin or offsets[-1] > end or np.any(np.diff(offsets) < 0):
        raise ValueError(f"its samples lie at other places than {begin:,} to {end:,}")
    return offsets


def _frames(ranges: Ranges, chunk: _Chunk) -> tuple[Array, Array]:
    """Where samples lie among unpacked ones, and frames: offset, bytes, bytes unpacked. Errors: ValueError."""
    size = ranges.files[0].size
    _, version, _, samples, _, count = _FRAMED_HEAD.unpack(ranges.read(0, 0, min(_FRAMED_HEAD.size, size)))
    begin = _FRAMED_HEAD.size + 4 * (samples + 1)
    end = begin + _FRAME.size * count
    if version != 1 or samples != chunk.samples or end > size:
        raise ValueError(
            f"its frames have version {version} and {samples:,} samples, not the {chunk.samples:,} of index.json"
        )
    head = ranges.read(0, 0, end)
    offsets = np.frombuffer(head, "<u4", samples + 1, _FRAMED_HEAD.size).astype(np.int64)
    table = np.array([_FRAME.unpack_from(head, begin + _FRAME.size * i)[2:] for i in range(count)], np.uint64)
    if not count or np.any(table[:, 0] > size) or int(table[:, 2].sum()) != offsets[-1]:
        raise ValueError("its frames are not those of its samples")
    found = table.astype(np.int64)
    if np.any(found[:, 0] < end) or np.any(found[:, 0] + found[:, 1] > size):
        raise ValueError("a frame of it ends behind it")
    return offsets, found


def _copy(file: File, out: BinaryIO) -> None:
    """Errors: Exhausted."""
    with open_file(file) as source:
        while data := source.read(_BLOCK):
            _write(file.path, out, data)


def _copy_frames(ranges: Ranges, frames: Array, out: BinaryIO) -> None:
    """Errors: ValueError, Exhausted."""
    for offset, size, whole in frames.tolist():
        _write(ranges.files[0].path, out, unpacked("litdata", "zstd", ranges.read(0, offset, size), whole))


def _copy_zstd(file: File, out: BinaryIO) -> None:
    """A file that is compressed as a whole. Errors: ValueError, Exhausted."""
    try:
        packed = open_file(file) if isinstance(file, ListedObject) else file.path
        with library("litdata").input_stream(packed, compression="zstd") as source:
            while data := source.read(_BLOCK):
                if out.tell() + len(data) > _CHUNK_MAX:
                    raise ValueError(f"unpacked, it has more than {_CHUNK_MAX:,} B")
                _write(file.path, out, data)
    except OSError as error:
        if isinstance(error, Error) or error.errno is not None:  # of a store, or of the system
            raise
        raise ValueError(str(error)) from error


def _write(path: str, out: BinaryIO, data: bytes) -> None:
    if not has_room(os.path.dirname(out.name), len(data)):
        wanted = "make room, or give CARYA_CACHE_DIR a folder on a larger disk"
        raise Exhausted(f"litdata: {path}: unpacked, it leaves less than a tenth of the disk free; {wanted}")
    out.write(data)


def _unpacked_sample(data: bytes) -> bytes:
    return unpacked("litdata", "zstd", data, zstd_size(data))


def _leaves(index: _Index) -> tuple[Tree, list[Decode]]:
    """How samples are made, and what makes each leaf. Errors: SampleError, Unsupported."""
    try:
        tree = Tree(index.spec)
        if len(tree.names) != len(index.format):
            raise ValueError(f"{len(index.format)} leaves have formats, and samples have {len(tree.names)}")
        return tree, [decoder(name, index.pickled_as_bytes) for name in index.format]
    except Unsupported as error:
        raise Unsupported(f"litdata: {index.path}: {error}") from None
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _no_index(index.path, error) from error


def _no_index(path: str, error: Exception) -> SampleError:
    return SampleError(
        f"litdata: {path}: {type(error).__name__}: {error}; give a folder of litdata.optimize, or copy it again"
    )


def _folders(given: PathLike | Sequence[PathLike], endpoint: str | None) -> list[str]:
    """Paths of folders, or URLs without "/" at the end."""
    urls = url_paths("litdata: folders", given, endpoint)
    if urls is None:
        return path_list("litdata: folders", given)
    return [url.rstrip("/") for url in urls]


def _files(folder: str, names: Sequence[str]) -> Sequence[File]:
    """Errors: NotFound; those of a store."""
    paths = [os.path.join(folder, name) for name in names]
    if not is_url(folder):
        return [look_at("litdata", path) for path in paths]
    if any(set(name) & set("%?#") for name in names):
        raise invalid("litdata: folders", folder, "a folder whose chunks have names without %, ? and #")
    if len(paths) > _LISTED_MIN and is_listed(folder):
        with contextlib.suppress(Permission):  # then each is asked for alone
            list_objects(f"{folder}/")  # which has what is asked for below, and what the index was listed as
            object_at(f"{folder}/index.json")
    return all_at_once(object_at, paths)


def _index(folder: str, pickles: str) -> _Index:
    """Errors: NotFound, SampleError, Unsupported."""
    (file,) = _files(folder, ["index.json"])
    path = file.path
    if file.size > _INDEX_MAX:
        raise SampleError(f"litdata: {path}: it has more than {_INDEX_MAX:,} B; give a folder of litdata.optimize")
    with open_file(file) as raw:
        text = raw.read()
    try:
        said = json.loads(text)
        config, listed = said["config"], said["chunks"]
        _check_config(path, config)
        level = config.get("compression_level") or "chunk" if config.get("compression") else ""
        if level not in ("", "chunk", "batch", "sample"):
            raise ValueError(f"its compression_level is {level!r:.40}")
        spec = config["data_spec"]
        spec = (json.loads(spec) if isinstance(spec, str) else spec)[1]
        format_ = config["data_format"]
        if not isinstance(format_, list) or not format_ or not all(isinstance(name, str) for name in format_):
            raise ValueError("its data_format is no list of names")
        checked = [_chunk(one, level) for one in listed]
        files = _files(folder, [name for name, *_ in checked])
        chunks = [_Chunk(one, *about[1:]) for one, about in zip(files, checked, strict=True)]
    except NotFound as error:
        raise NotFound(f"{error}: {path} names it") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, Error):
            raise
        raise _no_index(path, error) from error
    return _Index(path, chunks, format_, spec, config.get("item_loader") == "TokensLoader", pickles == "bytes")


def _check_config(path: str, config: Any) -> None:
    """Errors: Unsupported."""
    loader = config.get("item_loader") or "PyTreeLoader"
    if loader == "ParquetLoader":
        raise Unsupported(f"litdata: {path}: its chunks are Parquet files; call carya.parquet on them")
    if loader not in ("PyTreeLoader", "TokensLoader"):
        raise Unsupported(f"litdata: {path}: it was written for {loader!r:.60}; write it for PyTreeLoader")
    if config.get("encryption"):
        raise Unsupported(f"litdata: {path}: it is encrypted; write it without encryption")
    if config.get("compression") and not str(config["compression"]).startswith("zstd"):
        raise Unsupported(f"litdata: {path}: it is compressed by {config['compression']!r:.60}; write it with zstd")


def _chunk(said: Any, level: str) -> tuple[str, int, int | None, str]:
    """The name of a chunk, and what else the index says of it. Errors: ValueError."""
    name, samples, ids = said["filename"], said["chunk_size"], said.get("dim")
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"a chunk is called {name!r:.80}")
    if len(os.fsencode(name)) > NAME_MAX:
        raise ValueError(f"a chunk is called {name!r:.40}..., which is longer than {NAME_MAX} B")
    for number in (samples, ids):
        if number is not None and (
            not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 32
        ):
            raise ValueError(f"{name} has {number!r:.40} samples or ids")
    if samples is None:
        raise ValueError(f"{name} has no number of samples")
    # Chunks that are compressed as a whole are called so; an index may have others beside them.
    level = "" if level == "chunk" and not _PACKED.search(name) else level
    return name, samples, ids, level


def _blocks(indexes: Sequence[_Index], block: int, native: bool) -> TokenBlocks:
    """Errors: InvalidArgument, SampleError, Unsupported."""
    parts = []
    for index in indexes:
        kind, _, number = index.format[0].partition(":")
        if len(index.format) != 1 or kind not in ("no_header_numpy", "no_header_tensor") or not index.tokens:
            raise InvalidArgument(f"litdata: {index.path}: block: it was not written for TokensLoader; leave block out")
        try:
            dtype = flat_dtype(kind, int(number))
        except ValueError as error:
            raise Unsupported(f"litdata: {index.path}: {error}; write ids as integers") from None
        if dtype.kind not in "iu":
            raise Unsupported(f"litdata: {index.path}: its ids are {dtype}; write integers")
        check_mapped("litdata", [chunk.file for chunk in index.chunks], native)
        for chunk in index.chunks:
            if chunk.level:
                raise Unsupported(f"litdata: {chunk.file.path}: its ids are compressed; write them without compression")
            begin, ids = 4 * (chunk.samples + 2), chunk.ids or 0
            if begin + ids * dtype.itemsize > chunk.file.size:
                wanted, got = f"{begin + ids * dtype.itemsize:,} B", f"{chunk.file.size:,} B"
                raise SampleError(f"litdata: {chunk.file.path}: wanted {wanted}, got {got}; copy it again")
            parts.append(Ids(chunk.file, dtype, begin, ids))
    return TokenBlocks(parts, block, block)
