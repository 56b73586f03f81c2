"""Records of WebDataset tars and zips: every member of each key."""

from __future__ import annotations

import io
import itertools
import json
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._errors import Error, IoError, SampleError
from .._formats.kept import of_each
from .._sources.objects import GAP_MAX, LEAP_MAX, ListedObject, enough, open_file
from .records import Array, File, Records

# What the last extension of a member says its bytes are; the readers of webdataset go by the same ones.
_TEXT, _NUMBER, _JSON = (
    {"txt", "text", "transcript"},
    {"cls", "cls2", "class", "count", "index", "inx", "id"},
    {"json", "jsn"},
)
_BLOCK = 512
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError)


class _Member(NamedTuple):
    file: int
    key: str
    field: str
    offset: int  # of its bytes; in a zip its place in the list of members
    size: int
    problem: str  # why it cannot be read; "" for none


class TarRecords(Records):
    """A record is a key, its fields the extensions of its members. `raw`: all of them as bytes. `whole`: also of objects, of which else
    the beginning is looked at."""

    kind = "webdataset"

    def __init__(self, files: Sequence[File], raw: bool = False, whole: bool = False) -> None:
        super().__init__(files)
        self._raw, self._whole = raw, whole
        self._zips: dict[int, zipfile.ZipFile] = {}
        self._zipped = of_each(lambda file: not _is_tar(file) and _is_zip(file), self.files)
        self._records: list[list[_Member]] = []
        for members in of_each(lambda _, number: [*self._listed(number)], self.files, range(len(self.files))):
            self._records += [list(group) for _, group in itertools.groupby(members, lambda member: member.key)]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_zips": {}}

    def __len__(self) -> int:
        return len(self._records)

    def key(self, index: int) -> str:
        """What the names of a record's members have in common."""
        return self._records[index][0].key

    def read(self, index: int) -> dict[str, Any]:
        sample: dict[str, Any] = {}
        for member in self._records[index]:
            if member.problem:
                raise SampleError(f"{self.place(index)}: {member.field}: {member.problem}; copy the file again")
            if member.field in sample:
                raise SampleError(f"{self.place(index)}: two members are called .{member.field}; rename one")
            data = self._data(member)
            try:
                sample[member.field] = data if self._raw else meaning(member.field, data)
            except ValueError as error:
                raise SampleError(f"{self.place(index)}: {member.field}: {error}; mend it, or leave it out") from error
        return sample

    def expect(self, indices: Sequence[int]) -> None:
        members = (member for index in indices for member in self._records[index])
        self._expect(
            (one.file, one.offset, one.offset + one.size)
            for one in members
            if not (one.problem or self._zipped[one.file])
        )

    def place(self, index: int) -> str:
        first = self._records[index][0]
        at = "" if self._zipped[first.file] else f" @{first.offset}"
        return f"{self.kind}: {self.files[first.file].path}{at}, key {first.key}"

    def sizes(self) -> Array:
        return np.array([sum(member.size for member in record) for record in self._records], np.int64)

    def _data(self, member: _Member) -> bytes:
        if not self._zipped[member.file]:
            return self._bytes(member.file, member.offset, member.size)
        archive = self._zips.get(member.file)
        if archive is None:
            self.files[member.file].check(self.kind)
            archive = self._zips[member.file] = zipfile.ZipFile(open_file(self.files[member.file]))
        try:
            with archive.open(archive.infolist()[member.offset]) as source:
                return source.read(member.size + 1)
        except Error:  # of a store
            raise
        except _DAMAGED as error:
            where = f"{self.kind}: {self.files[member.file].path}, {member.key}.{member.field}"
            raise SampleError(f"{where}: {error}; copy the file again") from error

    def _listed(self, number: int) -> Iterator[_Member]:
        file = self.files[number]
        try:
            yield from self._of_zip(number) if self._zipped[number] else self._of_tar(number)
        except Error:  # of a store
            raise
        except (tarfile.TarError, *_DAMAGED) as error:
            if isinstance(error, tarfile.TarError) and not _is_tar(file):
                wanted = "give tars, not compressed, or zips; copy it again if it was cut off"
                raise SampleError(f"{self.kind}: {file.path}: it does not begin as a tar does; {wanted}") from error
            self.notes.append(f"{file.path}: {error}; what is behind that is not read: copy it again")
        except OSError as error:
            raise IoError(
                f"{self.kind}: {file.path}: {error.strerror or error}; give a file that can be read"
            ) from error

    def _of_zip(self, number: int) -> Iterator[_Member]:
        with open_file(self.files[number]) as file, zipfile.ZipFile(file) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED and not info.is_dir() for info in archive.infolist()):
                self.notes.append(
                    f"{self.files[number].path}: members are compressed, and carya.webdataset reads those that lie there as they are: "
                    "pack them by zip -0, or write them anew by carya convert"
                )
            for place, info in enumerate(archive.infolist()):
                key, field = _split(info.filename)
                if field and not info.is_dir():
                    problem = "it is encrypted" if info.flag_bits & 1 else ""
                    yield _Member(number, key, field, place, info.file_size, problem)

    def _of_tar(self, number: int) -> Iterator[_Member]:
        file = self.files[number]
        end = 0
        # Tars that were appended to a tar are read with it.
        with (
            open_file(file, leap=LEAP_MAX if self._whole else GAP_MAX) as source,
            tarfile.open(fileobj=source, mode="r:", ignore_zeros=True, errorlevel=0) as archive,
        ):
            for info in archive:
                if not self._whole and enough(source):
                    self.notes.append(
                        f"{file.path}: looked at the first {end:,} B of {file.size:,}; records are those of them"
                    )
                    return
                if info.offset > end and self._holds_something(number, end, info.offset):
                    self.notes.append(f"{file.path}: bytes {end:,} to {info.offset:,} are no members")
                end = info.offset_data + (-(-info.size // _BLOCK) * _BLOCK if info.isreg() else 0)
                archive.members = []  # type: ignore[attr-defined]  # else each is kept
                key, field = _split(info.name)
                if info.isreg() and field:
                    there = file.size - info.offset_data
                    cut = f"wanted {info.size:,} B, got {max(there, 0):,} B: it was cut off"
                    sparse = "it is sparse" if info.issparse() else ""
                    yield _Member(number, key, field, info.offset_data, info.size, cut if there < info.size else sparse)
        if end + 2 * _BLOCK > file.size:
            self.notes.append(f"{file.path}: it has no end mark: it may have been cut off between two members")
        elif self._holds_something(number, end, file.size):
            self.notes.append(f"{file.path}: bytes {end:,} to {file.size:,} are no members")

    def _holds_something(self, number: int, begin: int, end: int) -> bool:
        if isinstance(self.files[number], ListedObject):
            return False  # it would be read for nothing else
        with open(self.files[number].path, "rb") as raw:
            raw.seek(begin)
            left = end - begin
            while left > 0 and (block := raw.read(min(left, 1 << 20))):
                if block.count(0) != len(block):
                    return True
                left -= len(block)
        return False


def meaning(field: str, data: bytes) -> Any:
    """What the bytes of a member are, by its last extension: text, an integer, JSON, an array; else bytes. Errors: ValueError."""
    last = field.rpartition(".")[2]
    if last in _TEXT:
        return data.decode()
    if last in _NUMBER:
        return int(data)
    if last in _JSON:
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("it is nested too deep") from error
    if last == "npy":
        try:
            return np.load(io.BytesIO(data), allow_pickle=False)
        except (OSError, EOFError, SyntaxError) as error:
            raise ValueError(str(error)) from error
    return data


def _split(name: str) -> tuple[str, str]:
    """Key and extension of a member: the name up to its first dot, and the rest in lower case; "" for none."""
    folder, base = os.path.split(name)
    stem, _, field = base.partition(".")
    if not stem or not field:
        return name, ""
    return os.path.join(folder, stem), field.lower()


def _is_zip(listed: File) -> bool:
    with open_file(listed) as file:
        return zipfile.is_zipfile(file)


def _is_tar(listed: File) -> bool:
    with open_file(listed) as file:
        return file.read(262)[257:] == b"ustar"
