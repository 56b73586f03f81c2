"""Small pictures of broken records: what can still be decoded of them."""

from __future__ import annotations

import base64
import os
import stat
from collections import OrderedDict
from typing import Any, NamedTuple

from .._inspect.pictures import pixels_of, png

_BYTES_MAX = 32 << 20
_SIDE = 96
_KEPT = 256
_HEAD = 8  # bytes that are shown of what is no picture
_END_OF_JPEG = b"\xff\xd9"


class Thumbnail(NamedTuple):
    """`picture`: a data URI of a PNG, or "". `said`: what lies there, where there is no picture."""

    picture: str
    said: str


class Thumbnails:
    """Of records by their addresses; the last ones are kept. Threads: one at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], Thumbnail] = OrderedDict()

    def of(self, entry: dict[str, Any]) -> Thumbnail:
        """Of an entry of the quarantine. What cannot be read is said, and never raised."""
        try:
            return self._looked_up(entry)
        except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
            return Thumbnail("", f"cannot be read: {getattr(error, 'strerror', None) or error}")

    def _looked_up(self, entry: dict[str, Any]) -> Thumbnail:
        # A path may have become anything since: a FIFO would wait for a writer.
        fd = os.open(entry["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                return Thumbnail("", "no regular file")
            key = (entry["path"], entry["offset"], status.st_ino, status.st_size, status.st_mtime_ns)
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            made = _made(_bytes_of(fd, status.st_size, entry))
        finally:
            os.close(fd)
        self._kept[key] = made
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return made


def _bytes_of(fd: int, size: int, entry: dict[str, Any]) -> bytes:
    """The record: a whole file, a member of a tar by its header, else only its first bytes."""
    if not entry["offset"] and not entry["member"]:
        return _read(fd, min(size, _BYTES_MAX), 0)
    length = _HEAD
    if entry["member"] and entry["offset"] >= 512:
        digits = _read(fd, 12, entry["offset"] - 512 + 124).strip(b"\0 ")  # the field `size` of a tar header
        if digits and all(digit in b"01234567" for digit in digits):
            length = int(digits, 8)
    return _read(fd, min(length, _BYTES_MAX), entry["offset"])


def _read(fd: int, count: int, offset: int) -> bytes:
    """Fewer bytes only at the end of the file: one read may give less than is there."""
    parts: list[bytes] = []
    while count > 0 and (part := os.pread(fd, count, offset)):
        parts.append(part)
        count, offset = count - len(part), offset + len(part)
    return b"".join(parts)


def _made(data: bytes) -> Thumbnail:
    if not data:
        return Thumbnail("", "empty")
    for tried in (data, data + _END_OF_JPEG):  # of a JPEG that was cut off the rest is grey
        pixels, _ = pixels_of(tried, _SIDE)
        if pixels is not None:
            return Thumbnail("data:image/png;base64," + base64.b64encode(png(pixels)).decode(), "")
    return Thumbnail("", f"no picture; begins with {data[:_HEAD].hex(' ')}")
