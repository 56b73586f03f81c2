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
            raise ValueError(f"it says that it is {size:,} B unpacked, and is not")
        else:
            found = known.decompress(data, decompressed_size=size, asbytes=True) if data else b""
    except OSError as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    if len(found) != size:
        raise ValueError(f"it says that it is {size:,} B unpacked, and is not")
    return found


def zstd_size(data: bytes) -> int:
    """How large the first frame of zstd says that it is unpacked. Errors: ValueError (none, one that does not say it).

    Source: RFC 8878, 3.1.1.1.
    """
    if not data.startswith(b"\x28\xb5\x2f\xfd") or len(data) < 5:
        raise ValueError("it is no frame of zstd")
    flags = data[4]
    alone = flags >> 5 & 1
    width = (1 if alone else 0, 2, 4, 8)[flags >> 6]
    at = 5 + (1 - alone) + (0, 1, 2, 4)[flags & 3]
    if not width or at + width > len(data):
        raise ValueError("its frame of zstd does not say how large it is")
    return int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)


@functools.cache
def codec_of(kind: str, codec: str) -> Any:
    return library(kind).Codec(codec)


@functools.cache
def library(kind: str) -> Any:
    return needed(kind, "pyarrow", "parquet")
