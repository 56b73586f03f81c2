"""The daemons of all users of a host, asked by root."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Generic, TypeVar

from .. import _core
from .._errors import Error, NotFound, Permission

Answer = TypeVar("Answer")


@dataclass
class Said(Generic[Answer]):
    """Of one user's daemon. `late`: what it said before, since it does not answer now."""

    user: str
    answer: Answer | None = None
    error: str = ""  # where there is no answer
    late: bool = False


class AllUsers(Generic[Answer]):
    """The daemons of all users. Each is asked in a thread of its own: one that is stopped holds up no other.

    Errors of read(): NotFound (no service for all users), Permission (not root).
    """

    def __init__(self, socket: str | None, ask: Callable[[str], Answer]) -> None:
        """`socket`: of the service. `ask`: what one of them says, by its socket."""
        self._place = Path(socket or _core.daemon_socket())
        self._ask_one = ask
        self._asked: dict[Path, Thread] = {}
        self._said: dict[Path, Said[Answer] | None] = {}  # None: it has just ended

    def read(self, seconds: float | None = None) -> list[Said[Answer]]:
        """What each says, by user; what it said before, and that it is late, where it takes longer than `seconds`."""
        own = self._sockets()
        for path in own:
            if path not in self._asked:
                self._asked[path] = Thread(target=self._ask, args=(path,), daemon=True)
                self._asked[path].start()
        end = None if seconds is None else time.monotonic() + seconds
        found = []
        for path in own:
            self._asked[path].join(None if end is None else max(0.0, end - time.monotonic()))
            late = self._asked[path].is_alive()
            if not late:
                del self._asked[path]
            said = self._said.get(path, Said[Answer](user_of(path), error="no answer yet") if late else None)
            if said is not None:
                found.append(Said(said.user, said.answer, said.error, late))
        return found

    def _sockets(self) -> list[Path]:
        folder = self._place.parent / "users"
        try:
            return sorted(folder / name for name in os.listdir(folder) if name.endswith(".sock"))
        except PermissionError:
            raise Permission(f"carya: {folder} is root's; run it as root, or leave --all-users out") from None
        except FileNotFoundError:
            raise NotFound(
                f"carya: {self._place} is no service for all users (caryad --all-users), or had no user yet; name its "
                "socket by --socket, or leave --all-users out"
            ) from None

    def _ask(self, path: Path) -> None:
        try:
            self._said[path] = Said(user_of(path), self._ask_one(str(path)))
        except NotFound:
            self._said[path] = None
        except Error as error:  # one user's daemon does not hide the others'
            self._said[path] = Said(user_of(path), error=str(error))
        except Exception as error:  # it runs with the user's rights, and may say anything
            self._said[path] = Said(user_of(path), error=f"what it said is no status: {type(error).__name__}: {error}")


def user_of(path: Path) -> str:
    """The name of the user whose daemon the socket is for, or the number."""
    import pwd

    number = path.stem.split("-")[0]
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, ValueError):
        return number
