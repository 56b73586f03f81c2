"""Entries of LMDB databases."""

from __future__ import annotations

import array
import bisect
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import Unsupported, invalid
from .._formats.addresses import at_addresses, record_name
from .._formats.kept import File, digest, listed_files, look_at, source_files
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import checked_label, encoded_fields
from .._sources.paths import PathLike, path_list
from .._sources.stores import is_url
from .._stages.source import checked_dataset
from .lmdb_pages import LmdbPages, check_mark
from .ranges import Ranges

LMDBS = re.compile(r"^data\.mdb$")  # of a folder
_KEYS_MAX = 1 << 32  # bytes of the keys of a database

Array = np.ndarray[Any, Any]


def lmdb(
    paths: PathLike | Sequence[PathLike],
    *,
    name: str | bytes | None = None,
    image: str | None = None,
    encoded: Mapping[str, str] | None = None,
    label: Callable[[bytes], int] | None = None,
    endpoint: str | None = None,
) -> Pipeline:
    """Entries of LMDB databases in any order: fields `key` and `value`, both bytes; or values as encoded pictures, read natively.

    `paths`: folders with a "data.mdb", or the file itself; several are one behind the other. Of a store: URLs of such files, or of
    one folder, which ends with "/". `name`: of a named database inside, None for the main one. Records are in the order of their keys. Where they lie is found by a reader of the file's pages, once when
    the pipeline is made, and kept in memory; the library is not needed. Values are read in worker processes. What they mean is
    for a function to say: `.map(decode, fields="value")`. Pickles among them are never loaded.

    `image="value"`: each value is an encoded picture as a whole, and becomes the field `image` for `decode_image`;
    `encoded={"audio": "value"}`: the same under another name, as for sound. They are read as the members of tars are: by
    io_uring, without worker processes. `label`: a function of a key, called for each when the pipeline is made, whose integer is
    the field `label`. An empty value, and one that cannot be decoded, is a broken record (`Loader(on_error=)`), named by file,
    offset, number and key.

    A database that was written to since is an IoError under every policy: no batch has anything that another transaction than the
    listed one wrote, also while a writer is there (decision 037).
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Objects behind URLs are copied into the cache
    folder as a whole, once for each version; with `image` or `encoded` they stay in their store: pages with keys are read when the
    pipeline is made, and values by ranges.
    Errors: NotFound, InvalidArgument (no entry, also no such named database), SampleError (no LMDB database, a damaged one),
    Unsupported (several values per key; a database of LMDB 1.0).
    Reference: lmdb.Transaction.cursor.

    >>> import carya, lmdb, pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with lmdb.open(folder) as env, env.begin(write=True) as transaction:
    ...     [transaction.put(key, key * 2) for key in (b"b", b"a")]
    [True, True]
    >>> carya.lmdb(folder)[1]
    {'key': b'b', 'value': b'bb'}
    >>> carya.lmdb(folder, image="value", label=lambda key: ord(key)).outputs
    [('image', 'uint8', (None,)), ('label', 'int64', ())]
    """
    if name is not None and not isinstance(name, str | bytes):
        raise invalid("lmdb: name", name, "the name of a database, or None")
    fields = encoded_fields(image, encoded)
    if set(fields.values()) - {"value"}:
        raise invalid("lmdb: image, encoded", fields, '"value": the whole value of an entry is the picture')
    if label is not None and not (fields and callable(label)):
        raise invalid("lmdb: label", label, 'a function of a key, beside image="value"; else .map(...) may make labels')
    entries = LmdbEntries(_files(paths, endpoint, bool(fields)), name.encode() if isinstance(name, str) else name)
    if fields:
        return entries.native(list(fields), label)
    return Pipeline._of_dataset(checked_dataset(entries, None, False, entries.version))


def _files(paths: PathLike | Sequence[PathLike], endpoint: str | None, native: bool) -> Sequence[File]:
    given = path_list("lmdb: paths", paths) if not isinstance(paths, str) or not is_url(paths) else [paths]
    if endpoint is not None or any(map(is_url, given)):
        return (listed_files if native else source_files)("lmdb", paths, LMDBS, "data.mdb", endpoint)
    files = []
    for path in given:
        inside = os.path.join(path, "data.mdb")
        files.append(look_at("lmdb", inside if os.path.isdir(path) else path))
    return files


class LmdbEntries:
    """Entries of LMDB databases by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(self, files: Sequence[File], name: bytes | None) -> None:
        self._files, self._name = list(files), name
        self._ranges = Ranges("lmdb", files)
        self._keys: list[bytes] = []  # of each file all keys, one behind the other
        self._ends: list[Array] = []
        self._lies: list[Array] = []  # place and size of each value
        self._marks: list[tuple[int, int]] = []
        self._databases: dict[int, bytes] = {}  # the first entry of a file that is one
        for number in range(len(files)):
            self._walk(number)
        self._ranges.close()
        self._starts = [0, *itertools.accumulate(map(len, self._lies))]
        if not len(self):
            raise invalid("lmdb: paths", [file.path for file in files], "databases with at least one entry")
        keys = [(len(ends), digest(found)) for ends, found in zip(self._ends, self._keys, strict=True)]
        self.version = f"lmdb 1 {digest(keys, name)}"

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, bytes]:
        number, row = self._at(index)
        lies = self._lies[number]
        value = self._ranges.read(number, lies.item(row, 0), lies.item(row, 1))
        check_mark(self._ranges, number, self._marks[number])
        return {"key": self._key(number, row), "value": value}

    def place(self, index: int) -> str:
        """Where an entry is, for people."""
        number, row = self._at(index)
        key = self._key(number, row)
        return f"lmdb: {self._files[number].path} @{self._lies[number][row, 0]}, entry {row}, key {key!r}"

    def sizes(self) -> Array:
        """Bytes of each value."""
        return np.concatenate(self._lies)[:, 1]

    def native(self, fields: Sequence[str], label: Callable[[bytes], int] | None) -> Pipeline:
        """Values as ranges of their files. Errors: InvalidArgument (a database among them, a label that is none)."""
        names, labels = [], array.array("q")
        for number, file in enumerate(self._files):
            if number in self._databases:
                inside = f"that of a database inside, such as {self._databases[number]!r}"
                raise invalid(f"lmdb: {file.path}: name", self._name, inside)
            for row in range(len(self._lies[number])):
                key = self._key(number, row)
                names.append(record_name(row, b"%r" % key))
                if label is not None:
                    labels.append(checked_label(label(key), "lmdb", f"{key!r} in {file.path}"))
        numbers = np.repeat(np.arange(len(self._files), dtype=np.uint64), list(map(len, self._lies)))
        return at_addresses(
            "lmdb",
            self._files,
            fields,
            np.stack([np.hstack([numbers[:, None], np.concatenate(self._lies)])] * len(fields), axis=1),
            np.array(names),
            labels=None if label is None else np.frombuffer(labels, np.int64),
            marks=self._marks,
        )

    def _at(self, index: int) -> tuple[int, int]:
        """File, and number in the file."""
        number = bisect.bisect_right(self._starts, index) - 1
        return number, index - self._starts[number]

    def _key(self, number: int, row: int) -> bytes:
        ends = self._ends[number]
        return self._keys[number][ends.item(row) : ends.item(row + 1)]

    def _walk(self, number: int) -> None:
        """Read where the entries of a file lie. Errors: of `LmdbPages`; Unsupported (too many keys)."""
        pages = LmdbPages(self._ranges, number, self._name)
        keys, ends, lies = bytearray(), array.array("q", [0]), array.array("Q")
        for key, at, size, is_database in pages.entries():
            keys += key
            ends.append(len(keys))
            lies.append(at)
            lies.append(size)
            if is_database:
                self._databases.setdefault(number, key)
            if len(keys) > _KEYS_MAX:
                raise Unsupported(f"lmdb: {pages.path}: its keys have more than 4 GiB; give several databases")
        self._keys.append(bytes(keys))
        self._ends.append(np.array(ends, np.int64))
        self._lies.append(np.array(lies, np.uint64).reshape(-1, 2))
        self._marks.append(pages.mark)
