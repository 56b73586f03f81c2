"""Files that a command writes where the user says: whole or not at all, and nothing else is replaced."""

from __future__ import annotations

import os
import stat


def write_whole(path: str, content: bytes) -> None:
    """Write a file, so that nobody sees a part of it. A link goes on as one: the file that it names is replaced.

    Devices, pipes and what has its name under /dev or /proc are written to: a file that takes the place of /dev/null would
    be one for the whole machine. Errors: OSError.
    """
    import tempfile  # not at the top: `import carya` would wait for it

    if is_written_to(path):
        with open(path, "wb") as file:
            file.write(content)
        return
    place = os.path.realpath(path)
    handle, partial = tempfile.mkstemp(prefix=".carya-", dir=os.path.dirname(place))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(partial, 0o666 & ~umask)
        os.replace(partial, place)
    except BaseException:
        os.unlink(partial)
        raise


def is_written_to(path: str) -> bool:
    """Whether what lies there is opened and written to; else a new file takes its place, for which its folder is written to."""
    if os.path.abspath(path).startswith(("/dev/", "/proc/")):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
