"""Samples of FFCV's files."""

from __future__ import annotations

import bisect
import io
import itertools
import json
import math
import os
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._errors import Error, SampleError, Unsupported, invalid
from .._formats.addresses import at_addresses, record_name
from .._formats.kept import File, digest, listed_files, of_each, source_files
from .._formats.needed import needed
from .._formats.values import checked_names, native_order
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import encoded_fields
from .._sources.paths import PathLike
from .._stages.source import checked_dataset
from .ranges import Ranges

NAMED = re.compile(r"^[^.].*\.beton$")
_VALUE_MAX = 1 << 30  # bytes of an image or array
_VERSION = 2
# Source: ffcv/types.py: version, fields, bytes of a page, samples, where the table of allocations is; of each field its type, its
# name and its arguments; of each allocation its sample, place and size.
_HEAD, _NAME, _ARGUMENTS = struct.Struct("<HHIQQ"), 16, 1024
_FIELD = 1 + _NAME + _ARGUMENTS
_ALLOCATION = np.dtype([("sample", "<u8"), ("at", "<u8"), ("size", "<u8")])
_ALLOCATIONS_LEAST = 1 << 10
_JPEG, _RAW = 0, 1
_IMAGE = np.dtype([("mode", "u1"), ("width", "<u2"), ("height", "<u2"), ("at", "<u8")])
_SPAN = np.dtype([("at", "<u8"), ("size", "<u8")])
_KINDS = {0: "float", 1: "int", 2: "image", 3: "bytes", 4: "array", 5: "json", 6: "array"}
_STORED = {
    "float": np.dtype("<f8"), "int": np.dtype("<i8"), "image": _IMAGE, "bytes": _SPAN, "array": np.dtype("<u8"), "json": _SPAN,
}  # fmt: skip
_AXES = 32
_ENCODED = "a field of images that were written as JPEG, or of bytes"

Array = np.ndarray[Any, Any]


def beton(
    paths: PathLike | Sequence[PathLike],
    *,
    image: str | None = None,
    label: str | None = None,
    encoded: Mapping[str, str] | None = None,
    fields: str | Sequence[str] | None = None,
    decode: bool = True,
    endpoint: str | None = None,
) -> Pipeline:
    """Samples of FFCV's files in any order, read in worker processes by a reader of our own; or their JPEGs, read natively.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.beton", bytewise), all with the fields of the first,
    their samples one behind the other. `fields`: only these; None: all. Images are uint8 (height, width, 3) in RGB, those that were
    written as JPEG decoded by Pillow (`pip install carya[augment]`), or with `decode=False` their bytes; integers and floats;
    arrays and tensors as arrays; bytes; JSON as lists and dicts.

    `image`: the field whose JPEGs become the field `image` for `decode_image`, read as the files of a folder are: by io_uring,
    without worker processes; `encoded`: further ones by field, which geometric ops treat alike, also fields of bytes; `label`: a
    field of integers, which becomes `label`. Other fields are left out. Where they lie is read when the pipeline is made.

    A sample whose image is cut off or cannot be decoded is a broken record (`Loader(on_error=)`), named by file, place and field.
    A file that changes while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Objects behind URLs are copied into the cache
    folder as a whole, once for each version; with `image` or `encoded` they stay in their store and are read by ranges.
    Errors: NotFound (also a field that there is not: those that there are are named), InvalidArgument (fields that differ, no
    sample, a field of another type), SampleError (no file of FFCV, one that was cut off), Unsupported (other versions, fields of
    types of one's own, raw pixels in the field of `image`).
    Reference: ffcv.reader.Reader, and PIL.Image.open for JPEG.

    >>> import carya, pathlib, struct, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.beton"
    >>> field = bytes([1]) + b"label".ljust(16, bytes(1)) + bytes(1024)
    >>> size = name.write_bytes(struct.pack("<HHIQQ", 2, 1, 1 << 21, 2, 0) + field + struct.pack("<qq", 5, 7))
    >>> carya.beton(name)[1]["label"]
    array(7)
    >>> carya.beton(name, image="label")
    Traceback (most recent call last):
    ...
    carya.InvalidArgument: beton: image, encoded: got {'label': 'int'}; give a field of images that were written as JPEG, or of bytes
    """
    if not isinstance(decode, bool):
        raise invalid("beton: decode", decode, "True or False")
    columns = encoded_fields(image, encoded)
    if (columns or label is not None) and (fields is not None or not decode or not columns):
        wanted = (
            'image="photo" or encoded={...}, which leave all other fields but label= out and take no fields= or decode='
        )
        raise invalid("beton: image, encoded, label, fields, decode", (image, encoded, label, fields, decode), wanted)
    files = (listed_files if columns else source_files)("beton", paths, NAMED, "*.beton", endpoint)
    rows = BetonSamples(files, checked_names("beton: fields", fields, "names of fields"), decode)
    if columns:
        return rows.native(columns, label)
    return Pipeline._of_dataset(checked_dataset(rows, None, False, rows.version))


class _Field(NamedTuple):
    """What a file says of a field."""

    name: str
    kind: str
    dtype: str  # of an array
    shape: tuple[int, ...]


class _Head(NamedTuple):
    """What a file says of itself."""

    fields: list[_Field]
    samples: int
    begin: int  # of what is stored of each sample
    allocations: int  # where their table begins


class BetonSamples:
    """Samples by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(self, files: Sequence[File], names: tuple[str, ...] | None, decode: bool) -> None:
        self._ranges, self._decode = Ranges("beton", files), decode
        self._heads = of_each(lambda _file, number: self._head(number), files, range(len(files)))
        self._ranges.close()
        self._fields = self._heads[0].fields
        for file, head in zip(files, self._heads, strict=True):
            if head.fields != self._fields:
                raise invalid(f"beton: {file.path}: fields", head.fields, f"those of {files[0].path}")
        there = [field.name for field in self._fields]
        if missing := [name for name in names or () if name not in there]:
            raise invalid("beton: fields", missing, f"some of {', '.join(there)}")
        self._wanted = [(i, field) for i, field in enumerate(self._fields) if names is None or field.name in names]
        self._row = _row(self._fields)
        self._starts = [0, *itertools.accumulate(head.samples for head in self._heads)]
        if not len(self):
            raise invalid("beton: paths", [file.path for file in files], "files with at least one sample")
        about = [(os.path.basename(file.path), file.size, head) for file, head in zip(files, self._heads, strict=True)]
        self.version = f"beton 1 {digest(about, names, decode)}"
        self._sizes: dict[int, tuple[Array, Array]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sizes": {}}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = bisect.bisect_right(self._starts, index) - 1
        at = self._heads[number].begin + (index - self._starts[number]) * self._row.itemsize
        row = np.frombuffer(self._ranges.read(number, at, self._row.itemsize), self._row)[0]
        sample, name = {}, ""
        try:
            for i, field in self._wanted:
                name = field.name
                sample[name] = self._value(number, field, row[i])
        except (ValueError, OverflowError, RecursionError) as error:
            wanted = "copy the file again, or leave the sample out"
            raise SampleError(f"{self.place(index)}: {name}: {error}; {wanted}") from error
        return sample

    def place(self, index: int) -> str:
        """Where a sample is, for people: its number, and where what is stored of it is."""
        number = bisect.bisect_right(self._starts, index) - 1
        row = index - self._starts[number]
        return f"beton: {self._ranges.files[number].path} @{self._heads[number].begin + row * self._row.itemsize}, sample {row}"

    def native(self, columns: Mapping[str, str | None], label: str | None) -> Pipeline:
        """Images and bytes as ranges of their files. Errors: InvalidArgument, NotFound, Unsupported."""
        wanted = [self._column(column, ("image", "bytes"), _ENCODED) for column in columns.values()]
        labelled = None if label is None else self._column(label, ("int",), "a field of integers")
        places, names, labels = [], [], []
        for number, head in enumerate(self._heads):
            at, size = head.begin, head.samples * self._row.itemsize
            rows = np.frombuffer(self._ranges.read(number, at, size), self._row)
            lies: list[Array] = []
            broken: dict[int, bytes] = {}
            for field in wanted:
                lies.append(self._lies(number, self._fields[field], rows[f"f{field}"], broken))
            for lie in lies:
                lie[list(broken)] = 0
            numbers = np.full((len(rows), 1), number, np.uint64)
            places.append(np.stack([np.hstack([numbers, lie]) for lie in lies], axis=1))
            names += [record_name(row, broken.get(row, b"")) for row in range(len(rows))]
            if labelled is not None:
                labels.append(rows[f"f{labelled}"])
        self._ranges.close()
        found = None if labelled is None else np.concatenate(labels)
        return at_addresses(
            "beton", self._ranges.files, list(columns), np.concatenate(places), np.array(names), labels=found
        )

    def _value(self, number: int, field: _Field, stored: Any) -> Any:
        """Errors: ValueError, Unsupported (Pillow is missing), IoError."""
        if field.kind in ("int", "float"):
            return stored.item()
        if field.kind in ("bytes", "json"):
            data = self._data(number, int(stored["at"]), int(stored["size"]))
            return data if field.kind == "bytes" else json.loads(data.partition(b"\0")[0])
        if field.kind == "array":
            dtype = np.dtype(field.dtype)
            data = self._data(number, int(stored), math.prod(field.shape) * dtype.itemsize)
            return native_order(np.frombuffer(data, dtype).reshape(field.shape)).copy()
        mode, width, height, at = stored.tolist()
        if width * height * 3 > _VALUE_MAX:
            raise ValueError(f"its image of {width} x {height} has more than {_VALUE_MAX:,} B")
        if mode == _RAW:
            self._check(number, at, width * height * 3)
            pixels = np.empty((height, width, 3), np.uint8)
            if pixels.size:
                self._ranges.fill(number, at, pixels.data.cast("B"))
            return pixels
        if mode != _JPEG:
            raise ValueError(f"its image has the mode {mode}, and is neither JPEG nor raw")
        data = self._data(number, at, self._size_of(number, at))
        return _decoded(data, width, height) if self._decode else data

    def _column(self, name: Any, kinds: Sequence[str], wanted: str) -> int:
        """The number of a field. Errors: InvalidArgument (no such field, one of another kind)."""
        subject = "beton: label" if "int" in kinds else "beton: image, encoded"
        found = [i for i, field in enumerate(self._fields) if field.name == name]
        if not found:
            raise invalid(subject, name, f"one of {', '.join(field.name for field in self._fields)}")
        if (kind := self._fields[found[0]].kind) not in kinds:
            raise invalid(subject, {name: kind}, wanted)
        return found[0]

    def _lies(self, number: int, field: _Field, stored: Array, broken: dict[int, bytes]) -> Array:
        """Where each value lies and its size, 0 of what is broken, whose reason is put there. Errors: Unsupported, SampleError."""
        file = self._ranges.files[number]
        at = stored["at"].astype(np.uint64)
        good = np.ones(len(at), bool)
        if field.kind == "bytes":
            size = stored["size"].astype(np.uint64)
        else:
            if (raw := np.flatnonzero(stored["mode"] == _RAW)).size:
                raise Unsupported(
                    f"beton: {file.path}: {field.name} of sample {raw[0]} is raw pixels, and no JPEG; leave image= out, or write it "
                    'with RGBImageField(write_mode="jpg")'
                )
            good &= stored["mode"] == _JPEG
            try:
                all_places, all_sizes = self._allocated(number)
            except Error:  # of a store; some are ValueErrors too
                raise
            except ValueError as error:
                raise SampleError(f"beton: {file.path}: {error}; copy the file again") from error
            found = np.minimum(np.searchsorted(all_places, at), max(len(all_places) - 1, 0))
            good &= len(all_places) > 0
            size = np.zeros_like(at)
            if len(all_places):
                good &= all_places[found] == at
                size = all_sizes[found].astype(np.uint64)
        end = np.uint64(file.size)
        good &= (size <= end) & (at <= end - np.minimum(size, end))
        for row in np.flatnonzero(~good).tolist():
            broken.setdefault(row, f"({field.name} lies nowhere)".encode())
        return np.stack([at, size], axis=1)

    def _data(self, number: int, at: int, size: int) -> bytes:
        self._check(number, at, size)
        return self._ranges.read(number, at, size)

    def _check(self, number: int, at: int, size: int) -> None:
        end = self._ranges.files[number].size
        if size > _VALUE_MAX or at + size > end:
            raise ValueError(f"{size:,} B at {at:,} are too many, or end behind the file's {end:,} B")

    def _size_of(self, number: int, at: int) -> int:
        """Bytes of what was allocated at a place. Errors: ValueError."""
        places, sizes = self._allocated(number)
        found = int(np.searchsorted(places, np.uint64(at)))
        if found == len(places) or places[found] != at:
            raise ValueError(f"nothing was allocated at {at:,}, where its image begins")
        return int(sizes[found])

    def _allocated(self, number: int) -> tuple[Array, Array]:
        """Places in ascending order, and bytes of each. Errors: ValueError."""
        if number not in self._sizes:
            head, size = self._heads[number], self._ranges.files[number].size
            begin, end = head.allocations, head.begin + head.samples * self._row.itemsize
            count = max(size - begin, 0) // _ALLOCATION.itemsize
            # FFCV writes one for each value that lies outside of the rows, and nothing behind them.
            most = _ALLOCATIONS_LEAST + 2 * head.samples * len(head.fields)
            if begin < end or count > most:
                raise ValueError(
                    f"its table of {count:,} allocations begins at {begin:,}, where rows end at {end:,}; at most {most:,} are read"
                )
            table = np.frombuffer(
                self._ranges.read(number, begin, count * _ALLOCATION.itemsize) if count else b"", _ALLOCATION
            )
            order = np.argsort(table["at"], kind="stable")
            self._sizes[number] = table["at"][order], table["size"][order]
        return self._sizes[number]

    def _head(self, number: int) -> _Head:
        """Errors: SampleError, Unsupported."""
        path, size, _ = self._ranges.files[number]
        try:
            if size < _HEAD.size:
                raise ValueError(f"it has {size:,} B")
            version, count, page, samples, allocations = _HEAD.unpack(self._ranges.read(number, 0, _HEAD.size))
            if page & (page - 1) or not page or not count:
                raise ValueError("it does not begin as FFCV's files do")
            if version != _VERSION:
                raise Unsupported(
                    f"beton: {path}: its version is {version}; write it by FFCV 1, whose version is {_VERSION}"
                )
            begin = _HEAD.size + count * _FIELD
            if begin > size:
                raise ValueError(f"it has {size:,} B, and its fields end at {begin:,}")
            raw = self._ranges.read(number, _HEAD.size, count * _FIELD)
            fields = [_field(path, raw[at : at + _FIELD]) for at in range(0, len(raw), _FIELD)]
            names = [field.name for field in fields]
            if len(set(names)) != len(names):
                raise Unsupported(
                    f"beton: {path}: two fields are called alike within 16 letters: {', '.join(names)}; rename one"
                )
            end = begin + samples * _row(fields).itemsize
            if end > size:
                raise ValueError(f"wanted {end:,} B for {samples:,} samples, got {size:,} B")
        except Error:
            raise
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise SampleError(
                f"beton: {path}: {error}; give files of FFCV's DatasetWriter, or copy it again if it was cut off"
            ) from error
        return _Head(fields, samples, begin, allocations)


def _row(fields: Sequence[_Field]) -> np.dtype[Any]:
    """What is stored of a sample in one place."""
    return np.dtype([("", _STORED[field.kind]) for field in fields], align=True)


def _field(path: str, raw: bytes) -> _Field:
    """Errors: ValueError, Unsupported."""
    name = raw[1 : 1 + _NAME].partition(b"\0")[0].decode("ascii")
    kind = _KINDS.get(raw[0])
    if kind is None:
        raise Unsupported(
            f"beton: {path}: its field {name!r} has a type of somebody's own ({raw[0]}); write it as bytes or array"
        )
    if kind != "array":
        return _Field(name, kind, "", ())
    said = struct.unpack_from(f"<{_AXES + 1}Q", raw, 1 + _NAME)
    begin = 1 + _NAME + 8 * (_AXES + 1)
    if begin + said[_AXES] > len(raw):
        raise ValueError(f"its field {name!r} says a dtype of {said[_AXES]:,} B")
    ((_, dtype),) = json.loads(raw[begin : begin + said[_AXES]])
    try:
        found = np.dtype(dtype) if isinstance(dtype, str) else None
    except (SyntaxError, TypeError):
        found = None
    if found is None or found.kind not in "biufc":
        raise ValueError(f"its field {name!r} has the dtype {dtype!r:.40}")
    shape = said[:_AXES]
    while shape and not shape[-1]:
        shape = shape[:-1]
    if math.prod(shape) * found.itemsize > _VALUE_MAX:
        raise ValueError(f"its field {name!r} has the shape {shape}")
    return _Field(name, kind, found.str, shape)


def _decoded(data: bytes, width: int, height: int) -> Array:
    """A JPEG's pixels. Errors: ValueError, Unsupported."""
    image = needed("beton", "PIL.Image", "augment")
    try:
        with image.open(io.BytesIO(data), formats=["JPEG"]) as opened:
            if opened.size != (width, height):
                raise ValueError(f"its JPEG is {opened.size[0]} x {opened.size[1]}, and {width} x {height} are listed")
            return np.array(opened.convert("RGB"))
    except (OSError, SyntaxError, image.DecompressionBombError) as error:
        raise ValueError(f"its JPEG cannot be decoded: {error}") from error
