"""Pictures of records: decoded by Carya itself, small, and written as PNG."""

from __future__ import annotations

import os
import struct
import zlib
from typing import Any

import numpy as np

from .._errors import Error
from .._pipeline.sources import files
from .._records.values import picture_kind, picture_shape

_PIXELS_MAX = 64 << 20  # that are decoded to be looked at
_SIDE_MIN = 8  # of an array that is taken for a picture

Array = np.ndarray[Any, Any]


def pixels_of(value: Any, side: int) -> tuple[Array | None, str]:
    """RGB uint8 (h, w, 3) of an encoded picture or of an array that looks like one, with sides of at most `side`; and why not.

    None and "" of what is no picture.
    """
    if isinstance(value, bytes) and picture_kind(value) in ("jpeg", "png"):
        shape = picture_shape(value)
        if shape is None or not 0 < shape[0] * shape[1] <= _PIXELS_MAX:
            return None, "its header says no size that is shown"
        try:
            return shrunk(_decoded(value), side), ""
        except Error as error:
            return None, getattr(error, "reason", "") or str(error)
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and min(value.shape[:2], default=0) >= _SIDE_MIN:
        if value.ndim == 2:
            value = value[:, :, None]
        if value.ndim == 3 and value.shape[2] in (1, 3):
            return shrunk(np.broadcast_to(value, (*value.shape[:2], 3)), side), ""
    return None, ""


def shrunk(pixels: Array, side: int) -> Array:
    """The mean of whole blocks of pixels, so that no side is longer than `side`."""
    factor = -(-max(pixels.shape[:2]) // side)
    if factor <= 1:
        return np.ascontiguousarray(pixels)
    height, width = (max(pixels.shape[0] // factor, 1), max(pixels.shape[1] // factor, 1))
    across = (min(factor, pixels.shape[0]), min(factor, pixels.shape[1]))
    whole = pixels[: height * across[0], : width * across[1]]
    blocks = whole.reshape(height, across[0], width, across[1], 3)
    small: Array = blocks.mean(axis=(1, 3)).round().astype(np.uint8)
    return small


def png(pixels: Array) -> bytes:
    """RGB uint8 (h, w, 3) as PNG. Source: the PNG specification, chapters 5 and 11."""
    height, width = pixels.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _decoded(data: bytes) -> Array:
    """Errors: SampleError."""
    fd = os.memfd_create("picture")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        return files([f"/proc/{os.getpid()}/fd/{fd}"]).decode_image()[0]["image"]
    finally:
        os.close(fd)
