"""The programs of this package: where `caryad` and `carya-worker` lie, and the scripts that become them."""

from __future__ import annotations

import os

from ._errors import NotFound


def _own_program(name: str) -> str:
    return os.path.join(os.path.dirname(__file__), "bin", name)


def program(name: str = "caryad") -> str:
    """The path of caryad or carya-worker: of this package, else of the system. Errors: NotFound."""
    import shutil

    own = _own_program(name)
    found = own if os.path.exists(own) else shutil.which(name)
    if not found:
        raise NotFound(f"{name}: not in this package and not in PATH; install carya with its programs")
    return found


def main(name: str = "caryad") -> None:
    """The script `caryad` of an installed package: becomes the program, with the same process number."""
    import sys

    try:
        # Of the package only: what PATH has may be this script.
        os.execv(_own_program(name), [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {_own_program(name)}: {error.strerror}; install carya with its programs")


def worker_main() -> None:
    """The script `carya-worker`."""
    main("carya-worker")
