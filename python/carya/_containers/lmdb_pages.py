"""Where the values of an LMDB database lie in its file: a reader of its pages, without its library."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .._errors import Error, IoError, SampleError, Unsupported, invalid
from .._sources.objects import ListedObject
from .ranges import Ranges

# Source: liblmdb/mdb.c of LMDB 0.9, on machines of 64 bits, little-endian. A page begins with its number, pad, flags, and where its
# free space begins and ends; numbers of 16 bits behind that say where its nodes are.
_PAGE = struct.Struct("<QHHHH")
_BRANCH, _LEAF, _META, _KINDS = 1, 2, 8, 1 | 2 | 4 | 8 | 0x20
# A node: low and high half of a size (of a branch: with the flags, the number of a page), flags, bytes of its key.
_NODE = struct.Struct("<HHHH")
_FAR, _DATABASE, _MANY = 1, 2, 4  # the value has pages of its own; it is a database; it is several values
# A database: pad (of the first: bytes of a page), flags, depth, pages of each kind, entries, first page.
_TREE = struct.Struct("<IHHQQQQQ")
_DUPSORT, _NO_PAGE = 4, (1 << 64) - 1
# What the first two pages hold: magic, version, two numbers that are not used here, the free list, the main database, last page,
# transaction.
_META_AT, _TREES_AT, _LAST_AT = _PAGE.size, _PAGE.size + 24, _PAGE.size + 24 + 2 * _TREE.size
_TRANSACTION_AT = _LAST_AT + 8
_META_BYTES = _TRANSACTION_AT + 8
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_PAGE_MIN, _PAGE_MAX, _DEPTH_MAX = 512, 1 << 16, 32
_AT_ONCE = 1 << 20  # bytes of pages


# Key, place of the value in the file, its size, and whether it is a named database, which the value describes.
Entry = tuple[bytes, int, int, bool]


class _Tree(NamedTuple):
    flags: int
    depth: int
    entries: int
    root: int


class _Meta(NamedTuple):
    transaction: int
    page_bytes: int
    last_page: int
    main: _Tree


class LmdbPages:
    """The entries of the version of a database that was committed last, in the order of its keys.

    `mark`: where the file has eight bytes, and what they are, that the next writer changes when it commits: the number of the
    transaction in the older of the two first pages. Pages of this version are written over by later transactions only, so whoever
    finds the mark as it was behind a read has read this version.

    No memory is mapped and every number is compared with the file's size, so that any bytes are entries or an error.
    Errors: SampleError (no LMDB, damaged, cut off), Unsupported (another version of the format, several values per key),
    InvalidArgument (no such named database), IoError (a writer was there meanwhile).
    """

    def __init__(self, ranges: Ranges, number: int, name: bytes | None) -> None:
        self._ranges, self._number = ranges, number
        self.path, self._size = ranges.files[number][:2]
        try:
            self._meta, self.mark = self._newest()
        except ValueError as error:
            if isinstance(error, Error):
                raise
            raise self._damaged(error) from error
        self._name = name

    def entries(self) -> Iterator[Entry]:
        try:
            tree = self._meta.main if self._name is None else self._named(self._name)
            if tree.flags & _DUPSORT:
                raise Unsupported(f"lmdb: {self.path}: it has several values per key; write one with a key for each")
            found = 0
            for leaf in self._leaves(tree):
                found += len(leaf)
                yield from leaf
            if found != tree.entries:
                raise ValueError(f"wanted {tree.entries:,} entries, got {found:,}")
        except ValueError as error:
            if isinstance(error, Error):
                raise
            check_mark(self._ranges, self._number, self.mark)  # a writer that is there explains it better
            raise self._damaged(error) from error
        check_mark(self._ranges, self._number, self.mark)

    def _damaged(self, error: ValueError) -> SampleError:
        return SampleError(f"lmdb: {self.path}: {error}; copy the database again")

    def _newest(self) -> tuple[_Meta, tuple[int, int]]:
        """What the newer of the first pages says, and the mark. Errors: ValueError, Unsupported."""
        first = self._meta_of(0, 0)
        metas = [first, self._meta_of(1, first.page_bytes)]
        if metas != [
            self._meta_of(page, page * first.page_bytes) for page in range(2)
        ]:  # one was read while it was written
            raise IoError(f"lmdb: {self.path}: it is being written to; make the pipeline when the writer is done")
        newest = metas[metas[0].transaction < metas[1].transaction]
        # The transaction behind it takes the place of the other.
        older = (newest.transaction + 1) % 2
        mark = older * first.page_bytes + _TRANSACTION_AT, metas[older].transaction
        return newest, mark

    def _meta_of(self, page: int, at: int) -> _Meta:
        if at + _META_BYTES > self._size:
            raise ValueError(f"it does not begin as LMDB does: it has {self._size:,} B")
        data = self._ranges.read(self._number, at, _META_BYTES)
        magic, version = struct.unpack_from("<II", data, _META_AT)
        if magic != _MAGIC or not _PAGE.unpack_from(data)[2] & _META:
            raise ValueError("it does not begin as LMDB does; give a folder that lmdb.open made")
        if version != _VERSION:
            raise Unsupported(f"lmdb: {self.path}: the version of its format is {version}; write it by LMDB 0.9")
        page_bytes = _TREE.unpack_from(data, _TREES_AT)[0]
        if page_bytes & (page_bytes - 1) or not _PAGE_MIN <= page_bytes <= _PAGE_MAX:
            raise ValueError(f"it says pages of {page_bytes:,} B")
        last, transaction = struct.unpack_from("<QQ", data, _LAST_AT)
        return _Meta(transaction, page_bytes, last, _tree(data, _TREES_AT + _TREE.size))

    def _named(self, name: bytes) -> _Tree:
        for key, at, size, is_database in itertools.chain.from_iterable(self._leaves(self._meta.main)):
            if key == name and is_database:
                if size != _TREE.size:
                    raise ValueError(f"its database {name!r} is described by {size:,} B")
                return _tree(self._ranges.read(self._number, at, size), 0)
        raise invalid(f"lmdb: {self.path}: name", name, "the name of a database that is there")

    def _leaves(self, tree: _Tree) -> Iterator[list[Entry]]:
        """The entries of each page that has some. Errors: ValueError, IoError."""
        if tree.root == _NO_PAGE:
            return
        if not 0 < tree.depth <= _DEPTH_MAX:
            raise ValueError(f"its tree is {tree.depth:,} pages deep")
        pages = min(self._meta.last_page + 1, self._size // self._meta.page_bytes)
        visited = 0
        path = [self._pages([tree.root])]  # of each level, the pages that are still to be visited
        while path:
            number, page = next(path[-1], (_NO_PAGE, b""))
            if number == _NO_PAGE:
                path.pop()
                continue
            visited += 1
            if visited > pages:
                raise ValueError(f"its tree has a page twice: {number:,}, of {pages:,}")
            said, _, kind, lower, _ = _PAGE.unpack_from(page)
            if said != number or not _PAGE.size <= lower <= self._meta.page_bytes:
                raise ValueError(f"page {number:,} has a damaged head")
            if kind & _KINDS == _LEAF and len(path) == tree.depth:
                yield self._of_leaf(page, number, lower)
            elif kind & _KINDS == _BRANCH and len(path) < tree.depth:
                path.append(self._pages(_children(page, lower)))
            else:
                raise ValueError(f"page {number:,} is of another kind than its place in the tree")

    def _pages(self, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Pages with their numbers, as many at a time as a store is asked for at once. Errors: ValueError, IoError."""
        size, pages = self._meta.page_bytes, self._meta.last_page + 1
        for number in numbers:
            # Pages that one transaction took and gave back are not written, so the file may end before the last one.
            if self._size // size <= number < pages:
                raise ValueError(f"wanted {(number + 1) * size:,} B, got {self._size:,} B")
            if number >= pages:
                raise ValueError(f"its tree has a page {number:,} of {pages:,}")
        at_once = _AT_ONCE // size
        for begin in range(0, len(numbers), at_once):
            some = numbers[begin : begin + at_once]
            yield from zip(
                some, self._ranges.each(self._number, [(number * size, size) for number in some]), strict=True
            )

    def _of_leaf(self, page: bytes, number: int, lower: int) -> list[Entry]:
        page_bytes, limit = len(page), (self._meta.last_page + 1) * len(page)
        entries = []
        for node in _places(page, lower):
            low, high, flags, key_bytes = _NODE.unpack_from(page, node)
            key, size = node + _NODE.size, low | high << 16
            value = key + key_bytes
            at, last = number * page_bytes + value, value + size
            if flags & _FAR:
                at, last = int.from_bytes(page[value : value + 8], "little") * page_bytes + _PAGE.size, value + 8
            if last <= page_bytes and self._size < at + size <= limit:
                raise ValueError(f"wanted {at + size:,} B, got {self._size:,} B")
            if last > page_bytes or at + size > limit:
                raise ValueError(f"page {number:,} has an entry that leads out of it, or out of the file")
            if flags & _MANY:
                raise ValueError(f"page {number:,} has several values per key")
            entries.append((page[key:value], at, size, flags & _DATABASE != 0))
        return entries


def check_mark(ranges: Ranges, number: int, mark: tuple[int, int]) -> None:
    """Behind a read. Errors: IoError, when a writer has committed since the mark was read."""
    if isinstance(ranges.files[number], ListedObject):
        return  # whose every range was of the version that was listed
    at, value = mark
    if int.from_bytes(ranges.read(number, at, 8), "little") != value:
        path = ranges.files[number].path
        raise IoError(f"lmdb: {path}: it was written to since it was listed; make the pipeline anew")


def _places(page: bytes, lower: int) -> tuple[int, ...]:
    """Where each node of a page begins. Errors: ValueError."""
    count = (lower - _PAGE.size) // 2
    places: tuple[int, ...] = struct.unpack_from(f"<{count}H", page, _PAGE.size)
    if places and not lower <= min(places) <= max(places) <= len(page) - _NODE.size:
        raise ValueError(f"a page has an entry at {min(places):,} or {max(places):,} of {len(page):,} B")
    return places


def _children(page: bytes, lower: int) -> list[int]:
    nodes = [_NODE.unpack_from(page, at) for at in _places(page, lower)]
    return [low | high << 16 | flags << 32 for low, high, flags, _ in nodes]


def _tree(data: bytes, at: int) -> _Tree:
    _, flags, depth, _, _, _, entries, root = _TREE.unpack_from(data, at)
    return _Tree(flags, depth, entries, root)
