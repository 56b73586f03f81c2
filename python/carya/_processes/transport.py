"""Messages between the processes of one stream: small ones over a socket, large ones and arrays through memory files.

Nothing has a name: memory files (memfd) travel as descriptors. All processes are of one user and one program, so a message
is a pickle; that of a user's exception is a pickle inside of it, read only by who shows it.
"""

from __future__ import annotations

import array
import errno
import fcntl
import mmap
import os
import pickle
import select
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._errors import Exhausted

# A message of a SOCK_SEQPACKET arrives whole; one that is larger goes into a memory file.
_INLINE_BYTES = 32 << 10
_RECEIVE_BYTES = _INLINE_BYTES + 4096
_FDS_ROOM = socket.CMSG_LEN(128 * 4)
_IN_FILE = ord("f")
_WAIT = int(socket.MSG_CMSG_CLOEXEC)
_DO_NOT_WAIT = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
_ALIGN = 64
# Of larger files it is asked whether there is so much.
_CHECKED_BYTES = 1 << 20
_ADD_SEALS, _SEAL_SHRINK, _SEAL_GROW = 1033, 2, 4


def memory_file(name: str, size: int) -> int:
    """A descriptor of `size` bytes of shared memory that cannot shrink under its readers.

    Errors: Exhausted, when there is not so much. Asked before it is taken: the system would end processes, and tell nobody.
    """
    if size > _CHECKED_BYTES and size > (left := _core.available_slot_bytes()):
        raise Exhausted(
            f"functions: {size} bytes of shared memory are needed, and {left} are left; give fewer slots=, a smaller batch, or raise "
            "the memory limit"
        )
    try:
        fd = os.memfd_create(f"carya-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise Exhausted(
            f"functions: memory file: {error.strerror}; raise the limit of open files (ulimit -n)"
        ) from None
    try:
        if size:
            os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, _ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW)
    except OSError as error:
        os.close(fd)
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise
        raise Exhausted(
            f"functions: {size} bytes of shared memory: {error.strerror}; give fewer slots=, a smaller batch, or raise the "
            "memory limit"
        ) from None
    return fd


def file_of(name: str, *parts: Any) -> int:
    """A memory file with the bytes of some buffers, one behind the other. Errors: as of `memory_file`."""
    views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
    fd, end = memory_file(name, max(sum(map(len, views)), 1)), 0
    for view in views:
        at = 0
        while at < len(view):  # one call writes 2 GiB at most
            at += os.pwrite(fd, view[at:], end + at)
        end += at
    return fd


class Packed:
    """A value taken apart: what it is, and the bytes of its arrays, which that does not have.

    `text`: a pickle; or, where that is `plain` enough, of a dict of arrays of numbers their names, dtypes and shapes, which takes
    a tenth of the time.
    """

    __slots__ = ("buffers", "places", "size", "text")

    def __init__(self, value: Any, pickler: Any = None, plain: bool = False) -> None:
        self.text: bytes | tuple[tuple[str, str, tuple[int, ...]], ...]
        self.buffers: list[Any]
        if plain and _is_plain(value):
            self.text = tuple([(name, array.dtype.str, array.shape) for name, array in value.items()])
            self.buffers = [array.reshape(-1).view(np.uint8) for array in value.values()]
        else:
            kept: list[pickle.PickleBuffer] = []
            dumps = pickle.dumps if pickler is None else pickler
            self.text = dumps(value, protocol=5, buffer_callback=kept.append)
            self.buffers = [buffer.raw() for buffer in kept]
        self.places: list[tuple[int, int]] = []
        at = 0
        for buffer in self.buffers:
            self.places.append((at, buffer.nbytes))
            at += -(-buffer.nbytes // _ALIGN) * _ALIGN
        self.size = at

    def write(self, memory: Any, offset: int = 0) -> None:
        """The buffers into `memory`, a writable buffer, from `offset` on."""
        view = memoryview(memory)
        for (at, size), buffer in zip(self.places, self.buffers, strict=True):
            view[offset + at : offset + at + size] = buffer

    def to_file(self, name: str) -> int:
        """A memory file with the buffers."""
        fd = memory_file(name, max(self.size, 1))
        if self.size:
            with mmap.mmap(fd, self.size) as memory:
                self.write(memory)
        return fd


def _is_plain(value: Any) -> bool:
    """Whether it is a dict of arrays of numbers by name, each of them in one piece and in this machine's order of bytes."""
    return type(value) is dict and all(
        type(name) is str
        and type(array) is np.ndarray
        and array.dtype.isbuiltin == 1
        and array.dtype.kind in "biufc"
        and array.flags.c_contiguous
        for name, array in value.items()
    )


def unpacked(
    text: bytes | tuple[tuple[str, str, tuple[int, ...]], ...],
    places: Sequence[tuple[int, int]],
    memory: Any,
    offset: int = 0,
) -> Any:
    """The value of a `Packed`, its arrays views of `memory`: a buffer, or an array of bytes that keeps a lease."""
    if isinstance(text, tuple):
        return {
            name: np.ndarray(shape, dtype, memory, offset + at)
            for (name, dtype, shape), (at, _) in zip(text, places, strict=True)
        }
    buffers = [memory[offset + at : offset + at + size] for at, size in places]
    return pickle.loads(text, buffers=buffers)


def mapped_private(fd: int) -> memoryview:
    """The bytes of a memory file, copied when they are written; the mapping lives as long as any view. Closes `fd`."""
    size = os.fstat(fd).st_size
    try:
        return memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_COPY)) if size else memoryview(b"")
    finally:
        os.close(fd)


class Channel:
    """One end of a SOCK_SEQPACKET. Threads: one that receives; `send` from any, since a message is one call.

    Errors: OSError. After the other end is gone, `receive` gives None and `send` raises.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._bytes = memoryview(self._buffer)
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        """Both ends, with room for some hundred messages."""
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        return ends

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: tuple[Any, ...], fds: Sequence[int] = (), wait: bool = True) -> None:
        """Without `wait`: BlockingIOError where there is no room; only of small messages without descriptors."""
        text = pickle.dumps(message, protocol=5)
        if len(text) <= _INLINE_BYTES:
            if fds:
                socket.send_fds(self.socket, [b"i" + text], list(fds))
            else:
                self.socket.send(b"i" + text, 0 if wait else socket.MSG_DONTWAIT)
            return
        fd = file_of("message", text)
        try:
            socket.send_fds(self.socket, [b"f"], [fd, *fds])
        finally:
            os.close(fd)

    def receive(self, wait: bool = True) -> tuple[tuple[Any, ...], list[int]] | None:
        """The next message and its descriptors, which are the caller's to close; None at the end.

        Without `wait`: BlockingIOError where there is none.
        """
        try:
            size, beside, _, _ = self.socket.recvmsg_into([self._buffer], _FDS_ROOM, _WAIT if wait else _DO_NOT_WAIT)
        except ConnectionError:
            return None
        fds = _descriptors(beside) if beside else []
        if not size:
            return None
        if self._buffer[0] == _IN_FILE:
            fd = fds.pop(0)
            try:
                return pickle.loads(os.pread(fd, os.fstat(fd).st_size, 0)), fds
            finally:
                os.close(fd)
        return pickle.loads(self._bytes[1:size]), fds

    def readable(self, timeout: float = 0.0) -> bool:
        """Whether `receive` would not wait, within so many seconds."""
        return bool(self._poll.poll(timeout * 1000))

    def close(self) -> None:
        self.socket.close()


def _descriptors(beside: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in beside:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)
