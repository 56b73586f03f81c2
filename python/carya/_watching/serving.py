"""The page of a loader, and that of a daemon: `carya.watch` and `carya top --web`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from .._loading.loader import Loader
from .page import page
from .server import PageServer
from .thumbnails import Thumbnails
from .users import AllUsers
from .view import View, view_of_daemon, view_of_loader, view_of_users

_ANSWER_S = 2.0  # that a page waits for the daemons of users


def watch(loader: Loader, address: str = "127.0.0.1:0") -> PageServer:
    """A page for a browser that says how this loader does, until `close()` of what is returned, or the end of its `with`.

    Its `url` is what to open: on a port of the loopback, behind a token that the address has; or give the absolute path of a
    Unix socket of this user alone. The page needs no script and nothing from elsewhere, and asks anew every 5 s.

    Errors: InvalidArgument, IoError (it cannot listen there).

    >>> import carya, numpy as np
    >>> with carya.Loader(carya.arrays({"x": np.arange(6)}).batch(2)) as loader, carya.watch(loader) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    return PageServer(address, lambda: view_of_loader(loader))


def serve_daemon(socket: str, address: str, once: bool, as_json: bool) -> None:
    """Print the address and answer until Ctrl-C; with `once` print the page itself. Errors: those of PageServer."""
    _serve(lambda: view_of_daemon(socket), address, once, as_json)


def serve_all_users(socket: str | None, address: str, once: bool, as_json: bool) -> None:
    """The same of the daemons of all users. Errors: also those of AllUsers.read()."""
    users = AllUsers(socket, view_of_daemon)
    users.read(0)  # whether there are any to be asked, and by root
    _serve(lambda: view_of_users(users.read(_ANSWER_S)), address, once, as_json)


def _serve(ask: Callable[[], View], address: str, once: bool, as_json: bool) -> None:
    if once:
        print(page(ask(), Thumbnails(), refresh=False), end="")
        return
    with PageServer(address, ask) as server:
        print(json.dumps({"url": server.url}) if as_json else f"{server.url}  (Ctrl-C ends)", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return
