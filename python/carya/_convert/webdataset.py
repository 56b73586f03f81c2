"""Tars of WebDataset."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from .._formats.kept import look_at
from .._records.records import Records
from .._records.tars import TarRecords
from .._records.values import picture_kind
from .formats import COPIED, Format
from .plain import as_json
from .schema import Schema

_SUFFIX = {"jpeg": "jpg", "tiff": "tif", "": "bin"}  # of bytes; other pictures by their kind
_END = 1024  # bytes of zeros behind the last member. Source: POSIX.1-2017, pax, "ustar Interchange Format"
_BLOCK = 512


class WebDataset(Format):
    """A member per picture, array and bytes; the label as `.cls`; texts, numbers and everything else together as `.json`.

    The only picture of a record is `.jpg` (`.png`, ...), another one `.NAME.jpg`. Of tars, members stay as they are.
    """

    name, suffix = "webdataset", "tar"

    def __init__(self, records: Records, schema: Schema) -> None:
        super().__init__(records, schema)
        self._raw = isinstance(records, TarRecords)

    def stored(self, records: Records, index: int) -> dict[str, Any]:
        sample = records.read(index)
        if self._raw:
            return sample
        found: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, value in sample.items():
            field, kept = self._member(name, value)
            if not field:
                rest[name] = as_json(value)
                continue
            if field in found:
                raise ValueError(f"two fields would be members called .{field}; rename {name!r}")
            found[field] = kept
        if rest:
            found["json"] = rest
        if not found:
            raise ValueError("it has no field")
        return found

    def _member(self, name: str, value: Any) -> tuple[str, Any]:
        """The extension of a field's member and what is in it; "" of a value that goes into the JSON."""
        if isinstance(value, bytes):
            kind = picture_kind(value)
            suffix = _SUFFIX.get(kind, kind)
            return suffix if name == self.schema.picture and kind else f"{_safe(name)}.{suffix}", value
        if name == self.schema.label and isinstance(value, int | np.integer):
            return "cls", int(value)
        if isinstance(value, np.ndarray) and value.ndim:
            if value.dtype.kind not in "biufc":
                raise ValueError(f"{name}: its values are {value.dtype}, and arrays of numbers are written")
            return f"{_safe(name)}.npy", value
        return "", None

    def packed(self, records: Records, index: int, stored: dict[str, Any]) -> bytes:
        key = self._key(records, index)
        out = bytearray()
        for field, value in stored.items():
            data = _bytes(field, value)
            info = tarfile.TarInfo(f"{key}.{field}")
            info.size, info.mode = len(data), 0o644
            out += info.tobuf(tarfile.PAX_FORMAT)
            out += data
            out += bytes(-len(data) % _BLOCK)
        return bytes(out)

    def _key(self, records: Records, index: int) -> str:
        """That of a record of tars, where the record in front has another one; else its number."""
        if not isinstance(records, TarRecords):
            return f"{index:09d}"
        parts = [part for part in records.key(index).split("/") if part not in ("", ".", "..")]
        key = "/".join(parts) or f"{index:09d}"
        return f"{key}-{index:09d}" if index and records.key(index - 1) == records.key(index) else key

    def overhead(self, count: int) -> int:
        return _END

    def write(self, out: BinaryIO, path: str, body: BinaryIO, sizes: Sequence[int]) -> None:
        shutil.copyfileobj(body, out, COPIED)
        out.write(bytes(_END))

    def reader(self, path: str, sizes: Sequence[int]) -> Any:
        return TarRecords([look_at("webdataset", path)], raw=self._raw)


def _bytes(field: str, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, np.ndarray):
        out = io.BytesIO()
        np.save(out, value, allow_pickle=False)
        return out.getvalue()
    return json.dumps(value, ensure_ascii=False).encode()


def _safe(name: str) -> str:
    """A name as an extension has it: small letters, and nothing that a path or a key would be cut at."""
    return re.sub(r"[^a-z0-9_.-]", "_", name.lower()).strip(".") or "_"
