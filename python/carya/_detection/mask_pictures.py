"""Pictures of the numbers of objects, kept in a folder as PNG files."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._errors import InvalidArgument, IoError
from .annotations import whole_text
from .outlines import Array, checked_size, object_mask

OBJECTS_MAX = 255  # that one picture can number, in 8 bits
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BYTES_MAX = 64 << 20  # of a PNG file that is given
_VERSION = 1  # of what is in a file; another one makes other names


class Outline(NamedTuple):
    """What a file says of an object's pixels: its address for errors, COCO's "segmentation" or None, and whether it is a crowd's."""

    where: str
    given: Any
    crowd: bool


class MaskPictures:
    """Files with the objects of one picture each, named by a digest of what they are made from: one that is there is right.

    `drop`: objects whose outline cannot be have no pixel, and those behind the 255th have none; else either is an error.
    """

    def __init__(self, kind: str, folder: str, drop: bool) -> None:
        self._kind, self._folder, self._drop = kind, folder, drop

    def path(self, source: str, where: str, height: Any, width: Any, outlines: Sequence[Outline]) -> str:
        """The file, which is written where it is not there, for those who may read `source`, the file of the outlines.
        Errors: InvalidArgument (a size, an outline), IoError."""
        height, width = checked_size(f"{where}: height, width", height, width)
        if len(outlines) > OBJECTS_MAX and not self._drop:
            raise InvalidArgument(
                f'{where}: {len(outlines)} objects; give at most {OBJECTS_MAX}, or use invalid="drop"'
            )
        outlines = outlines[:OBJECTS_MAX]
        made_from = [_VERSION, height, width, self._drop, [[one.crowd, one.given] for one in outlines]]
        try:
            text = json.dumps(made_from)
        except RecursionError:
            raise InvalidArgument(f"{where}: a segmentation of too many lists in lists; give one of COCO") from None
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        path = os.path.join(self._folder, digest[:2], f"{digest}.png")
        if not os.path.exists(path):
            self._keep(source, path, gray_png(self._painted(height, width, outlines)))
        return path

    def _painted(self, height: int, width: int, outlines: Sequence[Outline]) -> Array:
        """The number of the object in front in each pixel: (height, width) uint8."""
        painted = np.zeros((width, height), np.uint8)  # columns one behind the other, as masks have them
        behind = np.full(len(outlines) + 1, 4 * height * width)  # how far behind each number is; 0 is behind all
        for number, outline in enumerate(outlines, 1):
            if outline.given is not None and not outline.given:  # an empty list: an object without pixels
                continue
            try:
                mask = object_mask(f"{outline.where}: segmentation", _there(outline), height, width).T
            except InvalidArgument:
                if not self._drop:
                    raise
                continue
            behind[number] = np.count_nonzero(mask) + outline.crowd * height * width
            under = painted[mask]
            painted[mask] = np.where(behind[number] <= behind[under], number, under)
        numbers: Array = painted.T
        return numbers

    def gray(self, path: str) -> str:
        """A PNG file whose samples are the indexes of the palette of `path`, which becomes none; `path` where it is gray already.
        Errors: NotFound, InvalidArgument (no PNG file of 8 bits with a palette or gray), IoError (none that can be written)."""
        data = whole_text(
            self._kind, path, _BYTES_MAX, "PNG files of the objects' numbers, in a folder SegmentationObject"
        )
        chunks = _chunks(data)
        kinds = [kind for kind, _ in chunks]
        header = chunks[0][1] if kinds[:1] == [b"IHDR"] and len(chunks[0][1]) == 13 else bytes(13)
        if header[8] != 8 or header[9] not in (0, 3) or b"IDAT" not in kinds or kinds[-1] != b"IEND":
            raise InvalidArgument(f"{self._kind}: {path}: no such PNG file; give one of 8 bits with a palette, or gray")
        if header[9] == 0:
            return path
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        made = os.path.join(self._folder, digest[:2], f"{digest}.png")
        if not os.path.exists(made):
            plain = [(b"IHDR", header[:9] + b"\0" + header[10:])]  # gray; the packed samples stay as they are
            self._keep(path, made, _png(plain + [chunk for chunk in chunks if chunk[0] in (b"IDAT", b"IEND")]))
        return made

    def _keep(self, source: str, path: str, data: bytes) -> None:
        try:
            _write(source, path, data)
        except OSError as error:
            what = f"{path}: {error.strerror}; give a folder for mask pictures that can be written"
            raise IoError(f"{self._kind}: masks: {what}") from None


def _there(outline: Outline) -> Any:
    """The "segmentation". Errors: InvalidArgument: there is none."""
    if outline.given is None:
        raise InvalidArgument(
            f"{outline.where}: segmentation: there is none, and masks= asks for the pixels of each object; give one, leave masks= out "
            'where the file has boxes alone, or give invalid="drop" to leave the masks of such objects empty'
        )
    return outline.given


def gray_png(pixels: Array) -> bytes:
    """A PNG file of (height, width) uint8."""
    height, width = pixels.shape
    rows = np.zeros((height, width + 1), np.uint8)  # each row begins with the number of its filter
    rows[:, 1:] = pixels
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return _png([(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")])


def _png(chunks: Sequence[tuple[bytes, bytes]]) -> bytes:
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """The chunks of a PNG file, as far as they are whole."""
    found: list[tuple[bytes, bytes]] = []
    at = len(_SIGNATURE)
    while data.startswith(_SIGNATURE) and at + 12 <= len(data) and (not found or found[-1][0] != b"IEND"):
        (size,) = struct.unpack_from(">I", data, at)
        kind, inside = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        if data[at + 8 + size : at + 12 + size] != struct.pack(">I", zlib.crc32(kind + inside)):
            break
        found.append((kind, inside))
        at += 12 + size
    return found


def _write(source: str, path: str, data: bytes) -> None:
    """All of the file or nothing, also where several processes make it; for those who may read `source`."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=os.path.dirname(path), suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        _core.let_read(os.fsencode(name), os.fsencode(source))
        os.replace(name, path)
    except Exception:
        os.unlink(name)
        raise
