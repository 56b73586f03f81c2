"""`carya.op`: an operation of the user's own, from C++ sources or a shared library."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._errors import InvalidArgument, NotFound, invalid
from .compiling import compiled

# What this process found in each library that was given by its path.
_loaded: dict[str, bytes] = {}


class OwnOp:
    """An operation that this process has loaded. Called with parameters it gives the operation with these.

    `path`: its library, for `carya-worker --op`.
    """

    def __init__(self, name: str, digest: str, path: str, parameters: dict[str, Any] | None = None) -> None:
        self.name, self.digest, self.path = name, digest, path
        self.parameters = parameters or {}

    def __call__(self, *unnamed: Any, **parameters: Any) -> OwnOp:
        if unnamed:
            raise invalid(f"op: {self.name}", unnamed[0], f"each parameter by its name, as {self.name}(name=value)")
        return OwnOp(self.name, self.digest, self.path, {**self.parameters, **parameters})

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"carya.op({self.name!r})({given})"


def op(
    name: str,
    *,
    sources: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    library: str | os.PathLike[str] | None = None,
    flags: Sequence[str] = (),
) -> OwnOp:
    """An operation of your own, in C or C++, for `pipeline.op(...)`: as fast as a built-in one, and kept by all promises.

    The sources define `carya_op_entry()` as `carya_op.h` says (`carya/include`, which is in the compiler's path). They are
    compiled once with the compiler of this machine ($CXX, else c++, g++ or clang++; files called .c as C) and kept in the
    cache folder; or give `library=`, a shared library that is compiled already. `flags`: more for the compiler, such as
    "-mavx2": then the operation runs only where these instructions are. Its identity, which states and fingerprints have, is
    what it was compiled from: sources, flags, and the headers that lie beside them, in folders of `-I`, or that flags include.

    Its code runs in this process, in those of `Loader` that belong to it, and in workers that were started with `--op`; a
    daemon loads none. A crash in it ends the process.

    Errors: InvalidArgument (name, no sources, what the compiler says, a library that was compiled anew under its path),
    Unsupported (no compiler, another interface), NotFound, IoError (no room).

    >>> import carya
    >>> halve = carya.op("halve", sources=["halve.cc"])  # doctest: +SKIP
    >>> carya.image_folder("photos").decode_image().resize(64).op(halve(by=2)).batch(8)  # doctest: +SKIP
    """
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise invalid("op: name", name, "lower-case letters, digits and '_', as the library says")
    listed = _paths("sources", [sources] if isinstance(sources, str | os.PathLike) else sources)
    if not isinstance(flags, list | tuple) or not all(isinstance(flag, str) for flag in flags):
        raise invalid("op: flags", flags, 'a list of texts, such as ["-mavx2"]')
    if bool(listed) == (library is not None):
        raise InvalidArgument(f"op: {name}: give sources=[...], or library= of what is compiled already")
    path = compiled(name, listed, list(flags)) if library is None else _paths("library", [library])[0]
    path = os.path.abspath(path)
    if ":" in path:  # CARYA_OPS, which other processes read, has it between two paths
        raise InvalidArgument(f"op: {path}: got ':' in its path; give a library, or CARYA_CACHE_DIR, without one")
    if library is not None:
        _check_loaded(path)
    found, digest = _core.add_op(path)
    if found != name:
        raise InvalidArgument(f"op: {path}: its operation is {found!r}, not {name!r}; give that name")
    known = os.environ.get("CARYA_OPS", "").split(":")
    if path not in known:  # for the processes that this one starts
        os.environ["CARYA_OPS"] = ":".join([*filter(None, known), path])
    return OwnOp(name, digest, path)


def _paths(what: str, given: Any) -> list[str]:
    """Errors: InvalidArgument."""
    try:
        return [os.fsdecode(path) for path in given]
    except TypeError:
        shown = given[0] if what == "library" else given
        raise invalid(f"op: {what}", shown, "a path" if what == "library" else "a path, or a list of paths") from None


def _check_loaded(path: str) -> None:
    """The system loads a path once in a process: of one that was compiled anew it would run the old code, under the new name.

    Errors: NotFound, InvalidArgument.
    """
    try:
        with open(path, "rb") as file:
            content = hashlib.blake2b(file.read(), digest_size=16).digest()
    except FileNotFoundError:
        raise NotFound(f"op: {path}: no such file; give a library that was compiled against carya_op.h") from None
    except OSError:  # loading it says what is wrong
        return
    if _loaded.setdefault(path, content) != content:
        raise InvalidArgument(
            f"op: {path}: it was compiled anew since this process loaded it, and a process loads a path once; give the new "
            "one another path, or start the process anew"
        )
