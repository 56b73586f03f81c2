"""Entries of LMDB databases."""

from __future__ import annotations

import array
import bisect
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import Error, IoError, SampleError, Unsupported, invalid
from .._formats.kept import Listed, digest, look_at
from .._formats.needed import needed
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import checked_label, encoded_fields
from .._sources.paths import PathLike, path_list
from .._stages.source import checked_dataset
from .addresses import at_addresses, record_name
from .lmdb_pages import LmdbPages
from .ranges import Ranges

_KEYS_MAX = 1 << 32  # bytes of the keys of a database
_MAGIC, _MAGIC_AT = (0xBEEFC0DE).to_bytes(4, "little"), 16


def lmdb(
    paths: PathLike | Sequence[PathLike],
    *,
    name: str | bytes | None = None,
    image: str | None = None,
    encoded: Mapping[str, str] | None = None,
    label: Callable[[bytes], int] | None = None,
) -> Pipeline:
    """Entries of LMDB databases in any order: fields `key` and `value`, both bytes; or values as encoded pictures, read natively.

    `paths`: folders with a "data.mdb", or the file itself; several are one behind the other. `name`: of a named database inside,
    None for the main one. Records are in the order of their keys, which are read once when the pipeline is made and kept in
    memory; values are read in worker processes, where each opens the database read only and without locks. What they mean is
    for a function to say: `.map(decode, fields="value")`. Pickles among them are never loaded. Needs lmdb: `pip install
    carya[lmdb]`.

    `image="value"`: each value is an encoded picture as a whole, and becomes the field `image` for `decode_image`;
    `encoded={"audio": "value"}`: the same under another name, as for sound. Then where values lie is found by a reader of the file's
    pages, and they are read as the files of a folder are: by io_uring, without worker processes and without lmdb. `label`: a
    function of a key, called for each when the pipeline is made, whose integer is the field `label`. An empty value, and one
    that cannot be decoded, is a broken record (`Loader(on_error=)`), named by file, offset, number and key.

    A database that was written to since is an IoError under every policy: with `image` or `encoded` no batch has anything that
    another transaction than the listed one wrote, also while a writer is there (decision 037); else each worker process looks
    when it opens the database.
    Errors: NotFound, InvalidArgument (no entry, also no such named database), SampleError (no LMDB database, a damaged one),
    Unsupported (lmdb is missing; several values per key; of `image`: a database of LMDB 1.0).
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
    inner = name.encode() if isinstance(name, str) else name
    if not fields:
        needed("lmdb", "lmdb", "lmdb")
        entries = LmdbEntries(_files(paths), inner)
        return Pipeline._of_dataset(checked_dataset(entries, None, False, entries.version))
    return _native(_files(paths), inner, list(fields), label)


def _files(paths: PathLike | Sequence[PathLike]) -> list[Listed]:
    files = []
    for path in path_list("lmdb: paths", paths):
        inside = os.path.join(path, "data.mdb")
        files.append(look_at("lmdb", inside if os.path.isdir(path) else path))
    return files


def _native(
    files: Sequence[Listed], name: bytes | None, fields: Sequence[str], label: Callable[[bytes], int] | None
) -> Pipeline:
    """Values as ranges of their files."""
    ranges = Ranges("lmdb", files)
    lies, labels = array.array("Q"), array.array("q")
    names: list[bytes] = []
    marks = []
    for number, file in enumerate(files):
        pages = LmdbPages(ranges, number, name)
        for row, entry in enumerate(pages.entries()):
            lies.extend((number, entry.at, entry.size))
            names.append(record_name(row, b"%r" % entry.key))
            if label is not None:
                labels.append(checked_label(label(entry.key), "lmdb", f"{entry.key!r} in {file.path}"))
        marks.append(pages.mark)
    ranges.close()
    if not names:
        raise invalid("lmdb: paths", [file.path for file in files], "databases with at least one entry")
    places = np.frombuffer(lies, np.uint64).reshape(-1, 3)
    return at_addresses(
        "lmdb",
        files,
        fields,
        np.hstack([places, *[places[:, 1:]] * (len(fields) - 1)]),
        np.array(names),
        labels=None if label is None else np.frombuffer(labels, np.int64),
        marks=marks,
    )


class LmdbEntries:
    """Entries of LMDB databases by index. Threads: one. It travels to worker processes, each of which opens them itself."""

    def __init__(self, files: Sequence[Listed], name: bytes | None) -> None:
        self._files, self._name = list(files), name
        read = [self._keys_of(file) for file in self._files]
        self._keys = [np.frombuffer(keys, np.uint8) for keys, _, _ in read]
        self._ends = [np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) for _, lengths, _ in read]
        self._transactions = [last for _, _, last in read]
        self._starts = [0, *itertools.accumulate(len(ends) - 1 for ends in self._ends)]
        if not len(self):
            raise invalid("lmdb: paths", [file.path for file in self._files], "databases with at least one entry")
        keys = [(len(ends), digest(found.tobytes())) for ends, found in zip(self._ends, self._keys, strict=True)]
        self.version = f"lmdb 1 {digest(keys, name)}"
        self._open: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, bytes]:
        import lmdb as library

        number = bisect.bisect_right(self._starts, index) - 1
        row = index - self._starts[number]
        begin, end = self._ends[number][row : row + 2]
        key = self._keys[number][begin:end].tobytes()
        try:
            transaction, database = self._open.get(number) or self._opened(number)
            value = transaction.get(key, db=database)
        except library.Error as error:
            raise SampleError(f"{self._place(number, row, key)}: {error}; copy the database again") from error
        if value is None:
            raise SampleError(f"{self._place(number, row, key)}: it is not there any more; copy the database again")
        return {"key": key, "value": value}

    def place(self, index: int) -> str:
        """Where an entry is, for people."""
        number = bisect.bisect_right(self._starts, index) - 1
        row = index - self._starts[number]
        begin, end = self._ends[number][row : row + 2]
        return self._place(number, row, self._keys[number][begin:end].tobytes())

    def _place(self, number: int, row: int, key: bytes) -> str:
        return f"lmdb: {self._files[number].path}, entry {row}, key {key!r}"

    def _opened(self, number: int) -> tuple[Any, Any]:
        file = self._files[number]
        env = _open(file.path)
        if env.info()["last_txnid"] != self._transactions[number]:
            raise IoError(f"lmdb: {file.path}: it was written to since it was listed; make the pipeline anew")
        database = None if self._name is None else env.open_db(self._name, create=False)
        opened = env.begin(buffers=False), database
        self._open[number] = opened
        return opened

    def _keys_of(self, file: Listed) -> tuple[bytes, list[int], int]:
        """Keys, their lengths, and the last transaction."""
        import lmdb as library

        try:
            with open(file.path, "rb") as raw:
                head = raw.read(_MAGIC_AT + 4)
            if head[_MAGIC_AT:] != _MAGIC:
                raise SampleError(
                    f"lmdb: {file.path}: it does not begin as LMDB does; give a folder that lmdb.open made"
                )
            with _open(file.path) as env, env.begin() as transaction:
                # Pages behind the end of the file would end the process when they are read.
                wanted = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
                if wanted > file.size:
                    raise SampleError(
                        f"lmdb: {file.path}: wanted {wanted:,} B, got {file.size:,} B; copy the database again"
                    )
                database = None if self._name is None else env.open_db(self._name, transaction, create=False)
                if database is not None and database.flags(transaction)["dupsort"]:
                    raise Unsupported(
                        f"lmdb: {file.path}: it has several values per key; write one with a key for each"
                    )
                keys, lengths = bytearray(), []
                with transaction.cursor(database) as cursor:
                    for key in cursor.iternext(values=False):
                        keys += key
                        lengths.append(len(key))
                        if len(keys) > _KEYS_MAX:
                            raise Unsupported(
                                f"lmdb: {file.path}: its keys have more than 4 GiB; give several databases"
                            )
                return bytes(keys), lengths, env.info()["last_txnid"]
        except library.NotFoundError:
            raise invalid(f"lmdb: {file.path}: name", self._name, "the name of a database that is there") from None
        except (library.Error, ValueError) as error:
            if isinstance(error, Error):
                raise
            raise SampleError(f"lmdb: {file.path}: {error}; copy the database again") from error


def _open(path: str) -> Any:
    import lmdb as library

    return library.open(path, subdir=False, readonly=True, lock=False, readahead=False, create=False, max_dbs=1)
