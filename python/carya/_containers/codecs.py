"""What was compressed as one piece, unpacked to a size that is known, and never to more."""

from __future__ import annotations

import functools
from typing import Any

from .._formats.needed import needed
from .examples import read_varint

UNPACKED_MAX = 1 << 30  # bytes of one piece


def unpacked(kind: str, codec: str, data: bytes, size: int) -> bytes:
    """`data` by a codec of pyarrow's ("zstd", "brotli", "snappy"), which has to be `size` bytes.

    Errors: ValueError (it is damaged, or of another size), Unsupported (pyarrow is missing).

    >>> import pyarrow
    >>> unpacked("a", "zstd", pyarrow.compress(b"one" * 100, "zstd", asbytes=True), 300) == b"one" * 100
    True
    """
    if size > UNPACKED_MAX:
        raise ValueError(f"it says that it is {size:,} B unpacked, and at most {UNPACKED_MAX:,} B are read")
    try:
        known = codec_of(kind, codec)
        # Of a piece that is shorter than it says, pyarrow's other two codecs would give memory that nobody wrote.
        if codec == "brotli":
            with library(kind).CompressedInputStream(library(kind).BufferReader(data), codec) as stream:
                found: bytes = stream.read(size + 1)
        elif codec == "snappy" and read_varint(data, 0)[0] != size:
            found = b""
        else:
            found = known.decompress(data, decompressed_size=size, asbytes=True) if data else b""
    except OSError as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    if len(found) != size:
        raise ValueError(f"it says that it is {size:,} B unpacked, and is not")
    return found


@functools.cache
def codec_of(kind: str, codec: str) -> Any:
    return library(kind).Codec(codec)


@functools.cache
def library(kind: str) -> Any:
    return needed(kind, "pyarrow", "parquet")
