"""`carya.op`: an operation of the user's own, from C++ sources or a shared library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._errors import InvalidArgument, invalid
from .compiling import compiled


class OwnOp:
    """An operation that this process has loaded. Called with parameters it gives the operation with these.

    `path`: its library, for `carya-worker --op`.
    """

    def __init__(self, name: str, digest: str, path: str, parameters: dict[str, Any] | None = None) -> None:
        self.name, self.digest, self.path = name, digest, path
        self.parameters = parameters or {}

    def __call__(self, **parameters: Any) -> OwnOp:
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
    compiled once with the compiler of this machine ($CXX, else c++, g++ or clang++) and kept in the cache folder; or give
    `library=`, a shared library that is compiled already. `flags`: more for the compiler, such as "-mavx2": then the
    operation runs only where these instructions are. Its identity, which states and fingerprints have, is what it was
    compiled from.

    Its code runs in this process, in those of `Loader` that belong to it, and in workers that were started with `--op`; a
    daemon loads none. A crash in it ends the process.

    Errors: InvalidArgument (name, no sources, what the compiler says), Unsupported (no compiler, another interface),
    NotFound.

    >>> import carya
    >>> halve = carya.op("halve", sources=["halve.cc"])  # doctest: +SKIP
    >>> carya.image_folder("photos").decode_image().resize(64).op(halve(by=2)).batch(8)  # doctest: +SKIP
    """
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise invalid("op: name", name, "lower-case letters, digits and '_', as the library says")
    listed = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if bool(listed) == (library is not None):
        raise InvalidArgument(f"op: {name}: give sources=[...], or library= of what is compiled already")
    path = compiled(name, [os.fspath(source) for source in listed], list(flags)) if library is None else library
    path = os.path.abspath(os.fspath(path))
    if ":" in path:  # CARYA_OPS, which other processes read, has it between two paths
        raise InvalidArgument(f"op: {path}: got ':' in its path; give a library, or CARYA_CACHE_DIR, without one")
    found, digest = _core.add_op(path)
    if found != name:
        raise InvalidArgument(f"op: {path}: its operation is {found!r}, not {name!r}; give that name")
    known = os.environ.get("CARYA_OPS", "").split(":")
    if path not in known:  # for the processes that this one starts
        os.environ["CARYA_OPS"] = ":".join([*filter(None, known), path])
    return OwnOp(name, digest, path)
