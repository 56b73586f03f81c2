"""What was made of a file once and is kept in the cache folder: unpacked data, indexes. All of it can be made anew."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .._errors import IoError, NotFound, Permission, invalid


class Listed(NamedTuple):
    """A file as it was when the source was made."""

    path: str
    size: int
    mtime_ns: int

    def check(self, kind: str) -> None:
        """Errors: IoError (under every policy), when the file is another one by now."""
        if look_at(kind, self.path) != self:
            raise IoError(f"{kind}: {self.path}: it changed since it was listed; make the pipeline anew")


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


def kept_name(kind: str, files: Sequence[Listed], *how: object) -> str:
    """The name in the cache folder of what is made of these files, as they are now, in this way."""
    return f"{kind}-{digest([(os.path.abspath(path), size, time) for path, size, time in files], how)}"


def has_room(folder: str, size: int) -> bool:
    """Whether a tenth of the disk is still free with so many bytes more."""
    disk = shutil.disk_usage(folder)
    return disk.free - size >= disk.total // 10


def make_once(path: str, write: Callable[[str], None]) -> None:
    """`write(temporary)`, unless `path` is there. One process at a time writes, and the others wait for it.

    What appears at `path` is whole and on the disk. A process that is killed meanwhile leaves a temporary file that the
    next one writes over.
    """
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _locked(f"{path}.lock"):
        if os.path.exists(path):
            return
        temporary = f"{path}.part"
        try:
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


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
