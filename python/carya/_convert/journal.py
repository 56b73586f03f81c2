"""What of a conversion is done: a file in its folder, a line of JSON for each shard, written behind the shard.

1. A shard is written under a temporary name and comes to the disk (fsync), and is compared with the source.
2. It gets its name, and the folder comes to the disk.
3. Its line is added here, and comes to the disk. A line that was cut off is none: the shard is written again, to the same bytes.

The first line says of what the conversion is; the last one, when all is done, that it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any

from .._errors import Exhausted, InvalidArgument, IoError, Permission

NAME = ".carya-convert.jsonl"
_PART = ".part"


class Journal:
    """The folder of one conversion, held by this process alone. Errors: InvalidArgument (somebody else's folder), IoError."""

    def __init__(self, folder: str, about: dict[str, Any]) -> None:
        self.folder = folder
        self.shards: list[dict[str, Any]] = []
        self.done: dict[str, Any] | None = None
        self._fd = -1
        with system_errors(folder):
            self._check_folder()
            os.makedirs(folder, exist_ok=True)
            self._path = os.path.join(folder, NAME)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with system_errors(folder):
                self._begin(about)
        except BaseException:
            self.close()
            raise

    def add(self, line: dict[str, Any]) -> None:
        """Keep a line for ever."""
        data = json.dumps(line, ensure_ascii=True).encode() + b"\n"
        written = 0
        while written < len(data):
            written += os.write(self._fd, data[written:])
        os.fsync(self._fd)

    def add_shard(self, shard: dict[str, Any]) -> None:
        """A shard that has its name."""
        self.add(shard)
        self.shards.append(shard)

    def temporary(self, name: str) -> str:
        return os.path.join(self.folder, f".{name}{_PART}")

    def put(self, name: str, data: bytes) -> None:
        """A file of the folder, as a whole."""
        with open(self.temporary(name), "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        self.name(name)

    def name(self, name: str) -> None:
        """Give a file that has come to the disk its name."""
        os.replace(self.temporary(name), os.path.join(self.folder, name))
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def clear(self) -> None:
        """Take away what has no name yet."""
        for entry in os.listdir(self.folder):
            if entry.startswith(".") and entry.endswith(_PART):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, entry))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _check_folder(self) -> None:
        if not os.path.lexists(self.folder):
            return
        if not os.path.isdir(self.folder):
            raise InvalidArgument(
                f"convert: {self.folder}: it is a file; give a folder that is not there yet, or an empty one"
            )
        names = os.listdir(self.folder)
        if names and NAME not in names:
            raise InvalidArgument(
                f"convert: {self.folder}: it holds {sorted(names)[0]!r} and no conversion of Carya's; give an empty folder"
            )

    def _begin(self, about: dict[str, Any]) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidArgument(
                f"convert: {self.folder}: another process converts into it; wait for it, or give another folder"
            ) from None
        lines, end = _lines(self._fd)
        os.ftruncate(self._fd, end)
        os.lseek(self._fd, end, os.SEEK_SET)
        if not lines:
            if [name for name in os.listdir(self.folder) if name != NAME and not name.endswith(_PART)]:
                raise InvalidArgument(f"convert: {self.folder}: its {NAME} is empty; give an empty folder")
            self.clear()
            self.add(about)
            return
        if lines[0] != about:
            changed = sorted(key for key in {*lines[0], *about} if lines[0].get(key) != about.get(key))
            raise InvalidArgument(
                f"convert: {self.folder}: it holds another conversion ({', '.join(changed)} differ); give its own source and "
                "options, or an empty folder"
            )
        self.clear()
        for line in lines[1:]:
            if "done" in line:
                self.done = line["done"]
            else:
                self._check_shard(line)
                self.shards.append(line)

    def _check_shard(self, shard: dict[str, Any]) -> None:
        path = os.path.join(self.folder, shard["name"])
        size = os.path.getsize(path) if os.path.isfile(path) else -1
        if size != shard["bytes"]:
            got = f"{size:,} B" if size >= 0 else "no such file"
            raise IoError(
                f"convert: {path}: wanted {shard['bytes']:,} B, got {got}; give an empty folder, and write all anew"
            )


def _lines(fd: int) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a journal, and where they end."""
    with open(os.dup(fd), "rb") as file:
        file.seek(0)
        data = file.read()
    found, end = [], 0
    for line in data.splitlines(keepends=True):
        try:
            value = json.loads(line)
        except ValueError:
            break
        if not line.endswith(b"\n") or not isinstance(value, dict):
            break
        found.append(value)
        end += len(line)
    return found, end


@contextlib.contextmanager
def system_errors(path: str) -> Any:
    """What the system says of writing, with what to do."""
    try:
        yield
    except PermissionError as error:
        raise Permission(
            f"convert: {error.filename or path}: this user may not write it; give another folder"
        ) from error
    except OSError as error:
        where = error.filename or path
        if error.errno in (28, 122):  # ENOSPC, EDQUOT
            raise Exhausted(
                f"convert: {where}: {error.strerror}; make room and run the same command again: it goes on where it was"
            ) from error
        raise IoError(
            f"convert: {where}: {error.strerror or error}; mend that and run the same command again"
        ) from error
