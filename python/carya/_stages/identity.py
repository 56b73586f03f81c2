"""Identity of functions and objects: what tells whether a resumed stream is still computed by the same code.

A pickle is no hash (sets, memo and dict order differ between runs), so values are walked and digested by what they say.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import enum
import functools
import hashlib
import os
import stat
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

# Deeper than this, and past this many values, an object counts by its type: a cycle, or a model.
_DEPTH = 12
_VALUES = 10_000
# Of larger arrays the first and last bytes count, as of the arrays of a source evenly spaced blocks do.
_ARRAY_BYTES = 1 << 20


# What `content` looks at, at most: of more nothing is kept, since looking would take as long as what it saves.
_CONTENT_DEPTH = 60
_CONTENT_VALUES = 5_000_000
_CONTENT_BYTES = 1 << 31
_PATH_MAX = 4096

OF_NO_IDENTITY = "_of_no_identity"  # of a class: names of attributes that say nothing of what its objects do


def identity(value: Any, version: object = None) -> str:
    """32 hexadecimal digits: equal in every process for equal code and equal plain values, else different.

    Of a function: its module and name, its code with constants, defaults, and what it closes over. Of an object: its type
    and attributes. What cannot be looked into (an extension's object) counts by its type. A `version` that is not None
    counts in place of all that, beside the name.

    >>> identity(lambda x: x + 1) == identity(lambda x: x + 1), identity(lambda x: x + 1) == identity(lambda x: x + 2)
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    if version is not None:
        digest.update(f"{_name(value)}\0{version!r}".encode())
    else:
        for part in _Walk().parts(value, 0):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()


def content(value: Any, version: object = None, files: bool = False) -> str | None:
    """As `identity`, for the name of what is kept on a disk and found again by other processes; None: it cannot be told, keep nothing.

    An identity is what a state is refused by, and has to be the same wherever the data lies. What is kept has to be asked anew whenever
    it could have become something else, so here arrays and lists count as a whole, functions with the globals and functions that they
    use, and objects with the methods of their classes; of modules of libraries the version counts. `files`: text that is the path of a
    file counts with the size and time of that file, as is right of what reads it, and not of what may write it.

    >>> content([{1, 2}, {3}]) == content([{1}, {2, 3}]), content(object()) is None
    (False, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    if version is not None:
        value = (_name(value), repr(version))
    try:
        for part in _Content(files).parts(value, 0):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    except (_UntoldError, RecursionError):
        return None
    return digest.hexdigest()


def _name(value: Any) -> str:
    of = value if hasattr(value, "__qualname__") else type(value)
    name = of.__qualname__
    # Where a lambda or local function stands in its file is no part of it: another line above would be another stream.
    return f"{getattr(of, '__module__', '')}.{name}"


class _Walk:
    def __init__(self) -> None:
        self._left = _VALUES
        self._inside: set[int] = set()

    def parts(self, value: Any, depth: int) -> Iterator[bytes]:
        self._left -= 1
        if depth > _DEPTH or self._left < 0 or id(value) in self._inside:
            yield f"...{type(value).__qualname__}".encode()
            return
        self._inside.add(id(value))
        try:
            yield from self._parts(value, depth + 1)
        finally:
            self._inside.discard(id(value))

    def _parts(self, value: Any, depth: int) -> Iterator[bytes]:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
            yield f"{type(value).__qualname__} {value!r}".encode(errors="backslashreplace")
        elif isinstance(value, enum.Enum):
            yield f"{_name(value)} {value.name}".encode()
        elif isinstance(value, type | types.BuiltinFunctionType | types.ModuleType | np.ufunc):
            yield f"{getattr(value, '__module__', '')} {getattr(value, '__qualname__', value.__name__)}".encode()
        elif isinstance(value, types.FunctionType):
            yield from self._function(value, depth)
        elif isinstance(value, types.MethodType):
            yield from self._all([value.__func__, value.__self__], depth)
        elif isinstance(value, types.CodeType):
            yield value.co_code
            yield from self._all([value.co_names, value.co_varnames, value.co_consts], depth)
        elif isinstance(value, functools.partial):
            yield from self._all([value.func, value.args, value.keywords], depth)
        elif isinstance(value, list | tuple):
            yield f"{type(value).__qualname__} {len(value)}".encode()
            yield from self._all(value, depth)
        elif isinstance(value, dict):
            yield f"{type(value).__qualname__} {len(value)}".encode()
            for key in value:
                yield from self._all([key, value[key]], depth)
        elif isinstance(value, set | frozenset):
            yield from sorted(b"".join(_Walk().parts(item, depth)) for item in value)
        elif isinstance(value, np.ndarray):
            yield from _array(value)
        else:
            yield from self._object(value, depth)

    def _all(self, values: Any, depth: int) -> Iterator[bytes]:
        for value in values:
            yield from self.parts(value, depth)

    def _function(self, value: types.FunctionType, depth: int) -> Iterator[bytes]:
        yield value.__module__.encode() if value.__module__ else b""
        yield value.__qualname__.encode()
        cells = [cell.cell_contents if cell != types.CellType() else None for cell in value.__closure__ or ()]
        yield from self._all([value.__code__, value.__defaults__, value.__kwdefaults__, cells], depth)

    def _object(self, value: Any, depth: int) -> Iterator[bytes]:
        yield _name(value).encode()
        if hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor of torch
            try:
                yield from _array(value.detach().cpu().numpy())
            except (TypeError, RuntimeError):
                yield repr(getattr(value, "shape", None)).encode()
            return
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            left_out = getattr(type(value), OF_NO_IDENTITY, ())
            yield from self.parts(
                {key: attributes[key] for key in sorted(attributes, key=str) if key not in left_out}, depth
            )
        for slot in getattr(type(value), "__slots__", ()):
            if isinstance(slot, str) and hasattr(value, slot):
                yield from self._all([slot, getattr(value, slot)], depth)


def _array(value: np.ndarray[Any, Any]) -> Iterator[bytes]:
    yield f"array {value.dtype} {value.shape}".encode()
    if value.dtype.hasobject:
        return
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8) if value.nbytes <= _ARRAY_BYTES else None
    if flat is not None:
        yield flat.tobytes()
    else:
        plain = value.reshape(-1) if value.flags.c_contiguous else value.ravel()[:_ARRAY_BYTES]
        yield plain[: _ARRAY_BYTES // 16].tobytes() + plain[-(_ARRAY_BYTES // 16) :].tobytes()


class _UntoldError(Exception):
    """A value does not say what it is."""


class _Content(_Walk):
    """Everything that decides what a value is and does."""

    def __init__(self, files: bool) -> None:
        super().__init__()
        self._files = files
        self._left, self._bytes = _CONTENT_VALUES, _CONTENT_BYTES
        self._folders: dict[str, str] = {}  # of files that were looked at, as `file_mark` has them
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # no other object gets the id of one that was seen

    def parts(self, value: Any, depth: int) -> Iterator[bytes]:
        self._left -= 1
        if depth > _CONTENT_DEPTH or self._left < 0:
            raise _UntoldError
        if value is None or type(value) in (bool, int, float, complex):
            yield f"{type(value).__name__} {value!r}".encode()
        elif type(value) in (str, bytes):
            yield from self._text(value)
        elif id(value) in self._seen:  # once more, or inside of itself
            yield f"seen {self._seen[id(value)]}".encode()
        else:
            self._seen[id(value)] = len(self._seen)
            self._alive.append(value)
            yield from self._parts(value, depth + 1)

    def _text(self, value: str | bytes) -> Iterator[bytes]:
        text = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        yield type(value).__name__.encode()
        yield text
        if self._files and isinstance(value, str) and len(text) < _PATH_MAX:
            yield from self._file(value)

    def _parts(self, value: Any, depth: int) -> Iterator[bytes]:
        if isinstance(value, np.generic):
            yield f"{type(value).__name__} {value.dtype}".encode() + value.tobytes()
        elif isinstance(value, enum.Enum):
            yield from self._all([_name(value), value.name, value.value], depth)
        elif isinstance(value, types.ModuleType):
            yield f"module {value.__name__} {_version(value.__name__)}".encode()
        elif isinstance(value, np.ndarray):
            yield from self._array(value, depth)
        elif isinstance(value, type):
            yield from self._class(value, depth)
        elif isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            yield f"builtin {value.__qualname__} {getattr(value, '__module__', '')}".encode()
            if not isinstance(value.__self__, types.ModuleType | type | None):
                yield from self.parts(value.__self__, depth)
        elif isinstance(value, np.ufunc) and value.__name__.endswith(
            " (vectorized)"
        ):  # of a function that it does not tell
            raise _UntoldError
        elif isinstance(value, _DESCRIPTORS):
            yield f"descriptor {_name(value.__objclass__)} {value.__name__}".encode()
        elif isinstance(value, staticmethod | classmethod):
            yield from self._all([type(value).__name__, value.__func__], depth)
        elif isinstance(value, property):
            yield from self._all(["property", value.fget, value.fset, value.fdel], depth)
        elif isinstance(value, functools.cached_property):
            yield from self._all(["cached_property", value.func], depth)
        elif isinstance(value, set | frozenset):
            yield f"{type(value).__qualname__} {len(value)}".encode()
            yield from sorted(self._alone(item, depth) for item in value)
        elif isinstance(value, types.MappingProxyType):
            yield from self._all(["mappingproxy", dict(value)], depth)
        else:
            if isinstance(value, list | tuple | dict) and type(value) not in (list, tuple, dict):
                yield from self.parts(type(value), depth)
            yield from super()._parts(value, depth)

    def _alone(self, item: Any, depth: int) -> bytes:
        """An item of a set, whose order is another one in each process: by itself."""
        digest, seen = hashlib.blake2b(digest_size=16), self._seen
        self._seen = {}
        for part in self.parts(item, depth):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        self._seen = seen
        return digest.digest()

    def _function(self, value: types.FunctionType, depth: int) -> Iterator[bytes]:
        yield f"function {value.__module__} {value.__qualname__}".encode()
        if _is_library(value.__module__) and _is_found(value):
            yield _version(value.__module__).encode()
            return
        yield from super()._function(value, depth)
        yield from self.parts(value.__dict__, depth)
        if not _is_library(value.__globals__.get("__name__")):
            yield from self._used(value.__code__, value.__globals__, depth)

    def _used(self, code: types.CodeType, known: Mapping[str, Any], depth: int) -> Iterator[bytes]:
        """What code takes from its module, and from those of the user's modules that it names."""
        names, attributes, modules = _names_in(code)
        for name in sorted(names):
            if name in known:
                yield from self._all([name, known[name]], depth)
            elif not hasattr(builtins, name):
                yield f"no {name}".encode()
        found = [known.get(name) for name in sorted(names)] + [sys.modules.get(name) for name in sorted(modules)]
        for module in found:
            if isinstance(module, types.ModuleType) and not _is_library(module.__name__):
                for name in sorted(attributes & vars(module).keys()):
                    yield from self._all([module.__name__, name, getattr(module, name)], depth)

    def _class(self, value: type, depth: int) -> Iterator[bytes]:
        yield f"class {_name(value)}".encode()
        if _is_library(value.__module__):
            yield _version(value.__module__).encode()
            return
        yield from self.parts(value.__bases__, depth)
        if issubclass(value, enum.Enum):
            yield from self.parts([(one.name, one.value) for one in value], depth)
        for name, one in sorted(vars(value).items()):
            is_code = isinstance(one, types.FunctionType | staticmethod | classmethod)
            if (is_code or not name.startswith("__")) and name != "_abc_impl" and not isinstance(one, value):
                yield from self._all([name, one], depth)

    def _object(self, value: Any, depth: int) -> Iterator[bytes]:
        kind = type(value)
        yield from self.parts(kind, depth)
        if hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor of torch
            try:
                yield from self._array(value.detach().cpu().numpy(), depth)
            except (TypeError, RuntimeError) as error:
                raise _UntoldError from error
            return
        state = self._state(value)
        if isinstance(state, dict):
            left_out = getattr(kind, OF_NO_IDENTITY, ())
            state = {key: state[key] for key in sorted(state, key=str) if key not in left_out}
        yield from self.parts(state, depth)

    def _state(self, value: Any) -> Any:
        """What of an object would travel, of which nothing is open; an object of C says itself how it is made."""
        kind = type(value)
        try:
            if _own(kind, "__getstate__"):
                return value.__getstate__()
            told = kind in copyreg.dispatch_table or _own(kind, "__reduce__") or _own(kind, "__reduce_ex__")
            if told or not (hasattr(value, "__dict__") or any("__slots__" in vars(one) for one in kind.__mro__)):
                reduce: Any = copyreg.dispatch_table.get(kind)
                made = value.__reduce_ex__(2) if reduce is None else reduce(value)
                return [list(part) if isinstance(part, Iterator) else part for part in made] if made else made
        except Exception as error:  # of the user's objects too
            raise _UntoldError from error
        state = dict(getattr(value, "__dict__", {}))
        for one in kind.__mro__:
            slots = vars(one).get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                name = f"_{one.__name__.lstrip('_')}{slot}" if slot[:2] == "__" != slot[-2:] else slot
                if slot not in ("__dict__", "__weakref__") and hasattr(value, name):
                    state[name] = getattr(value, name)
        return state

    def _file(self, path: str) -> Iterator[bytes]:
        if mark := file_mark(path, self._folders):
            yield mark

    def _array(self, value: np.ndarray[Any, Any], depth: int) -> Iterator[bytes]:
        yield f"array {value.dtype} {value.shape}".encode()
        if value.dtype.hasobject:
            yield from self._all(value.tolist() if value.shape else [value.item()], depth)
            return
        base: Any = value
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        path = getattr(base, "filename", None)
        if path is not None and base.mode == "r":
            place = value.__array_interface__["data"][0] - base.__array_interface__["data"][0] + base.offset
            yield f"{path} {place} {value.strides}".encode("utf-8", "surrogateescape")
            yield from self._file(str(path))
            return
        self._bytes -= value.nbytes
        if self._bytes < 0:
            raise _UntoldError
        plain = np.ascontiguousarray(value).reshape(-1).view(np.uint8) if value.size else np.zeros(0, np.uint8)
        yield hashlib.blake2b(plain.data, digest_size=16).digest()


_DESCRIPTORS = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType,
)  # fmt: skip


def marks_of(paths: Iterable[str]) -> str:
    """Of many files or objects: a digest of what `file_mark` says of each, or of its path."""
    digest, folders = hashlib.blake2b(digest_size=16), dict[str, str]()
    for path in paths:
        mark = file_mark(path, folders) or path.encode("utf-8", "surrogateescape")
        digest.update(len(mark).to_bytes(8, "little"))
        digest.update(mark)
    return digest.hexdigest()


def file_mark(path: str, folders: dict[str, str]) -> bytes:
    """What of a file becomes something else when it is written anew, or when another one takes its place; empty where a text is no
    path of a file. `folders`: as they really are, to resolve each once."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return b""
    if not stat.S_ISREG(found.st_mode):
        return b""
    folder, slash, name = path.rpartition("/")
    real = folders.get(folder)
    if real is None:
        real = folders[folder] = os.path.realpath(folder + slash)
    told = f"{real}/{name} {found.st_ino} {found.st_size} {found.st_mtime_ns}"
    return told.encode("utf-8", "surrogateescape")


def _own(kind: type, name: str) -> bool:
    """Whether a class has a method that is not everybody's."""
    return getattr(kind, name, None) is not getattr(object, name, None)


def _names_in(code: types.CodeType) -> tuple[set[str], set[str], set[str]]:
    """Names that code takes from its module, names of attributes, and names of modules that it imports."""
    names, attributes, modules = set[str](), set[str](), set[str]()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            attributes.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            modules.add(step.argval)
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            for found, more in zip((names, attributes, modules), _names_in(one), strict=True):
                found |= more
    return names, attributes, modules


def _is_found(value: types.FunctionType) -> bool:
    """Whether a function is what its module has under its name."""
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


@functools.lru_cache(4096)
def _is_library(module: str | None) -> bool:
    """Whether a module is one of those that are installed, and have a version."""
    if module is None or module == "__main__":
        return False
    if module.partition(".")[0] == "carya":
        return True
    found = sys.modules.get(module)
    path = getattr(found, "__file__", None)
    if path is None:
        return found is not None and module.partition(".")[0] in sys.stdlib_module_names
    standard = os.path.join(sysconfig.get_paths()["stdlib"], "")
    return path.startswith(standard) or "site-packages" in path.split(os.sep) or "dist-packages" in path.split(os.sep)


def _version(module: str) -> str:
    top = module.partition(".")[0]
    return str(getattr(sys.modules.get(top), "__version__", "")) or (sys.version if _is_library(module) else "")
