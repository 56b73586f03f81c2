"""Files as they were listed, and what is kept in the cache folder: objects of stores, unpacked data, indexes. All of it can
be made anew."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from .. import _core
from .._errors import Exhausted, IoError, NotFound, Permission, Unsupported, invalid
from .._pipeline.dataset import cache_dir
from .._sources.objects import ListedObject, all_at_once, object_at
from .._sources.paths import PathLike, record_paths
from .._sources.stores import is_url, scheme_of, url_paths

_BLOCK = 8 << 20
NAME_MAX = 255  # bytes of a file's name
_T = TypeVar("_T")


class Listed(NamedTuple):
    """A file as it was when the source was made."""

    path: str
    size: int
    mtime_ns: int

    def check(self, kind: str) -> None:
        """Errors: IoError (under every policy), when the file is another one by now."""
        if look_at(kind, self.path) != self:
            raise IoError(f"{kind}: {self.path}: it changed since it was listed; make the pipeline anew")


File = Listed | ListedObject


def look_at(kind: str, path: str) -> Listed:
    """Errors: NotFound, Permission, InvalidArgument (no file)."""
    try:
        found = os.stat(path)
        if not os.path.isfile(path):
            raise invalid(f"{kind}: paths", path, "files, or a folder or glob pattern of them")
        if not os.access(path, os.R_OK):
            raise PermissionError
    except PermissionError:
        raise Permission(f"{kind}: {path}: this user may not read it; give read permission") from None
    except FileNotFoundError:
        raise NotFound(f"{kind}: {path}: there is no such file; give a path that exists") from None
    return Listed(path, found.st_size, found.st_mtime_ns)


def digest(*parts: object) -> str:
    """32 hexadecimal digits of what `repr` says of the parts."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def kept_name(kind: str, files: Sequence[File], *how: object) -> str:
    """The name in the cache folder of what is made of these files, as they are now, in this way.

    What is made of objects, or of files that not everybody may read, is for this user alone, by name too: where users share
    a cache folder each has their own.
    """
    owner = () if _for_everybody(files) else (os.getuid(),)
    return f"{kind}-{digest([(place_of(path), size, version) for path, size, version in files], how, *owner)}"


def place_of(path: str) -> str:
    """A path as it is called from everywhere; a URL is already."""
    return path if is_url(path) else os.path.abspath(path)


def has_room(folder: str, size: int) -> bool:
    """Whether a tenth of the disk is still free with so many bytes more."""
    disk = shutil.disk_usage(folder)
    return disk.free - size >= disk.total // 10


def make_once(path: str, write: Callable[[str], None], files: Sequence[File]) -> None:
    """`write(temporary)`, unless `path` is there. One process at a time writes, and the others wait for it.

    `files`: what it is made of. Where not everybody may read all of those, it is this user's alone, with a folder of its own.
    What appears at `path` is whole and on the disk. A process that is killed meanwhile leaves a temporary file that the
    next one writes over.
    """
    if os.path.exists(path):
        return
    shared = _for_everybody(files)
    os.makedirs(os.path.dirname(path), 0o777 if shared else 0o700, exist_ok=True)
    with _locked(f"{path}.lock"):
        if os.path.exists(path):
            return
        temporary = f"{path}.part"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        try:
            os.close(
                os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644 if shared else 0o600)
            )
            write(temporary)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        # Who waits for the lock, or makes a new one, finds `path`.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.lock")


def _for_everybody(files: Sequence[File]) -> bool:
    return all(not isinstance(file, ListedObject) and _core.is_for_everybody(os.fsencode(file.path)) for file in files)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def source_files(
    kind: str,
    given: PathLike | Sequence[PathLike],
    named: re.Pattern[str],
    shown: str,
    endpoint: str | None = None,
) -> list[Listed]:
    """The files of a source, as `record_paths` finds them; of URLs their copies, which are made before this returns.

    A copy is of the version that the object has now: one that is overwritten later is copied anew when the source is made anew.
    Errors: those of `record_paths`, `url_paths` and `look_at`; of URLs those of the store, Exhausted (no room for the copies),
    Unsupported (no cache folder).
    """
    return _found(kind, given, named, shown, endpoint, lambda url: copied(kind, object_at(url)))


def listed_files(
    kind: str,
    given: PathLike | Sequence[PathLike],
    named: re.Pattern[str],
    shown: str,
    endpoint: str | None = None,
) -> Sequence[File]:
    """The same for a source that reads objects by ranges: they stay in their store."""
    return _found(kind, given, named, shown, endpoint, object_at)


def text_files(
    kind: str,
    given: PathLike | Sequence[PathLike],
    named: re.Pattern[str],
    shown: str,
    endpoint: str | None,
    copy: bool,
) -> Sequence[File]:
    """One or the other. Errors: theirs; InvalidArgument (`copy`)."""
    if not isinstance(copy, bool):
        raise invalid(f"{kind}: copy", copy, "True, or False to leave objects in their store")
    return (source_files if copy else listed_files)(kind, given, named, shown, endpoint)


def of_each(look: Callable[..., _T], files: Sequence[File], *beside: Sequence[Any]) -> list[_T]:
    """`look(file, ...)` for each file in turn; of objects many at a time, since a store is waited for."""
    if not any(isinstance(file, ListedObject) for file in files):
        return list(map(look, files, *beside))
    return all_at_once(look, files, *beside)


def _found(
    kind: str,
    given: PathLike | Sequence[PathLike],
    named: re.Pattern[str],
    shown: str,
    endpoint: str | None,
    of_url: Callable[[str], _T],
) -> list[Listed] | list[_T]:
    urls = url_paths("paths", given, endpoint, named, shown)
    if urls is None:
        return [look_at(kind, path) for path in record_paths(given, named, shown)]
    return all_at_once(of_url, urls)


def file_name(path: str) -> str:
    """What a file or object is called, wherever it lies: a state of the files goes on in the store."""
    last = posixpath.basename(path)
    return unquote(last) if is_url(path) and scheme_of(path).startswith("http") else last


def copied(kind: str, listed: ListedObject) -> Listed:
    """An object's copy, which has its name: what a stream is called by is that of the file."""
    url, size, _ = listed
    folder = cache_dir()
    if not folder:
        raise Unsupported(f"{kind}: {url}: no cache folder can be written; give CARYA_CACHE_DIR one")
    name = file_name(url)
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > NAME_MAX:
        raise invalid(f"{kind}: paths", url, "the URL of an object whose name a file can have")
    path = os.path.join(folder, kept_name("unpacked", [listed], "object"), name)

    def write(temporary: str) -> None:
        if not has_room(os.path.dirname(temporary), size):
            wanted = "make room, or give CARYA_CACHE_DIR a folder on a larger disk"
            raise Exhausted(f"{kind}: {url}: copied, it leaves less than a tenth of the disk free; {wanted}")
        with open(temporary, "wb") as out:
            for begin in range(0, size, _BLOCK):
                out.write(listed.read(begin, min(_BLOCK, size - begin)))

    make_once(path, write, [listed])
    if os.path.getsize(path) != size:  # damaged
        os.unlink(path)
        make_once(path, write, [listed])
    return look_at(kind, path)
