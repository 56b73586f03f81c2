"""A user's functions and datasets on their way to the processes that run them."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import multiprocessing.spawn
import os
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._errors import InvalidArgument


def _make_tensor(array: np.ndarray[Any, Any]) -> Any:
    return importlib.import_module("torch").from_numpy(array)


def _map_file(path: str, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], order: Any) -> Any:
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)


def _reduced(value: Any) -> Any:
    """How arrays that lie elsewhere travel: tensors as arrays, mapped files by their path."""
    kind = type(value)
    if kind.__module__ == "torch" and kind.__name__ == "Tensor":
        plain = value.layout.__str__() == "torch.strided" and not value.requires_grad and value.device.type == "cpu"
        if plain and not value.is_quantized:
            try:
                return _make_tensor, (value.numpy(),)
            except (TypeError, RuntimeError):  # a dtype that numpy has not
                return NotImplemented
    elif isinstance(value, np.ndarray) and value.size and value.dtype.kind in "biufcmMSUV":
        return _reduced_array(value)
    return NotImplemented


def _reduced_array(value: np.ndarray[Any, Any]) -> Any:
    if not value.flags.c_contiguous or value.dtype.hasobject:
        return NotImplemented
    base: Any = value
    while isinstance(base, np.ndarray) and not (isinstance(base, np.memmap) and not isinstance(base.base, np.ndarray)):
        base = base.base
    path = getattr(base, "filename", None)
    if not isinstance(base, np.memmap) or path is None or base.mode not in ("r", "c") or not os.path.isfile(path):
        return NotImplemented
    if base.mode == "c":  # what was written to it lies in this process only
        return NotImplemented
    offset = base.offset + value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return _map_file, (os.path.abspath(path), value.dtype, offset, value.shape, "C")


class _Plain(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType | type) and getattr(value, "__module__", "") == "__main__":
            if not main_script():
                raise _InMainError(value.__qualname__)
            _of_main.append(value.__qualname__)
        return _reduced(value)


# Names of the main script in the pickle that is being written.
_of_main: list[str] = []


def main_script() -> dict[str, Any]:
    """How another process finds the main script, as `multiprocessing` does it: by module or path; {} where it has neither."""
    data = multiprocessing.spawn.get_preparation_data("carya")
    wanted = ("init_main_from_name", "init_main_from_path")
    found = {key: data[key] for key in wanted if key in data}
    return {} if not os.path.isfile(found.get("init_main_from_path", __file__)) else found


def import_main_script(found: dict[str, Any]) -> None:
    """Run the trainer's main script under another name than `__main__`, so that what it defines can be unpickled."""
    if found:
        multiprocessing.spawn.prepare(found)


class _InMainError(Exception):
    pass


class ResultPickler(pickle.Pickler):
    """Of what functions return: tensors as arrays."""

    def reducer_override(self, value: Any) -> Any:
        return _reduced_tensor(value)


def _reduced_tensor(value: Any) -> Any:
    return _reduced(value) if type(value).__module__ == "torch" else NotImplemented


def dumps_result(value: Any, *, protocol: int, buffer_callback: Callable[[Any], Any] | None) -> bytes:
    """As `pickle.dumps`. A class of a script that came here by value goes back by value, and is the script's own class there.

    Errors: InvalidArgument, of a value that cannot travel.
    """
    try:
        return _dumped(ResultPickler, value, protocol, buffer_callback)
    except Exception as error:  # of pickle, or of the user's objects
        with contextlib.suppress(Exception):
            return _dumped(_by_value(_reduced_tensor), value, protocol, buffer_callback)
        raise InvalidArgument(
            f"it cannot be sent from a worker process: {type(error).__name__}: {error}; return numbers, arrays, text, "
            "or lists and dicts of them"
        ) from error


def _check_no_file(value: Any) -> None:
    """cloudpickle would send a copy of an open file's text, whose positions are others. Errors: TypeError, as pickle has it."""
    if isinstance(value, io.TextIOWrapper) and value not in (sys.stdin, sys.stdout, sys.stderr):
        raise TypeError(f"cannot pickle '_io.{type(value).__name__}' object")


def _dumped(pickler: Any, value: Any, protocol: int, buffer_callback: Callable[[Any], Any] | None) -> bytes:
    text, buffers = io.BytesIO(), list[Any]()
    pickler(text, protocol, buffer_callback=None if buffer_callback is None else buffers.append).dump(value)
    for buffer in buffers:  # now that all went well: another pickler would begin anew
        assert buffer_callback is not None
        buffer_callback(buffer)
    return text.getvalue()


def check_result(name: str, value: Any) -> None:
    """Whether a value of a sample can leave its worker. Errors: InvalidArgument."""
    if isinstance(value, types.GeneratorType):
        raise InvalidArgument(
            f"{name}: it returned a generator; return one value, or give it to .flat_map(fn), which makes several samples"
        )
    try:
        dumps_result(value, protocol=5, buffer_callback=lambda buffer: None)
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from error.__cause__


def first_unfit(label: str, objects: dict[str, list[Any]]) -> tuple[int, InvalidArgument] | None:
    """The first row of columns of objects that cannot leave its worker, and why."""
    for row, values in enumerate(zip(*objects.values(), strict=True)):
        for name, value in zip(objects, values, strict=True):
            try:
                check_result(f"{label}: {name}", value)
            except InvalidArgument as error:
                return row, error
    return None


def told_of(leaf: Any) -> bytes:
    """What of a value is the same in every process: of an object that is none of JSON's, its type."""
    if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
        return f"{leaf.dtype} {leaf.shape}".encode() + leaf.tobytes()
    try:
        return json.dumps(leaf).encode()
    except (TypeError, ValueError):
        return type(leaf).__qualname__.encode()


def needs_main_script() -> bool:
    """Whether the pickle that `dumps_code` wrote last names what the main script defines."""
    return bool(_of_main)


def dumps_code(value: Any, *, protocol: int, buffer_callback: Callable[[Any], Any]) -> bytes:
    """As `pickle.dumps`: functions and classes by reference; by value, with cloudpickle, those that no other process can import.

    Without cloudpickle those of the main script are named too, and the other process runs the script (`import_main_script`).

    Errors: InvalidArgument that says what cannot travel and what to do.
    """
    text = io.BytesIO()
    _of_main.clear()
    try:
        _pickler()(text, protocol, buffer_callback=buffer_callback).dump(value)
    except _InMainError as error:
        raise InvalidArgument(_BY_VALUE.format(f"{error.args[0]} of __main__")) from None
    except (pickle.PicklingError, AttributeError) as error:
        shown = str(error)
        if "local object" in shown or "<lambda>" in shown or "not the same object" in shown or "not found as" in shown:
            raise InvalidArgument(_BY_VALUE.format(shown)) from error
        raise InvalidArgument(_CANNOT.format(f"{type(error).__name__}: {shown}")) from error
    except Exception as error:  # of the user's objects
        raise InvalidArgument(_CANNOT.format(f"{type(error).__name__}: {error}")) from error
    return text.getvalue()


_BY_VALUE = (
    "functions: {}: worker processes cannot import it; put it into a module that they can import, or install cloudpickle "
    "(pip install cloudpickle), which sends functions and classes of scripts, notebooks and lambdas by value"
)
_CANNOT = (
    "functions: a function or dataset cannot be sent to worker processes: {}; open files, locks and connections where they "
    "are used (in the first __getitem__ or call) and leave them out of the pickle (__getstate__)"
)


def _pickler() -> Any:
    try:
        return _by_value(_reduced)
    except ImportError:
        return _Plain


def _by_value(reduced_of: Callable[[Any], Any]) -> Any:
    """cloudpickle's pickler, for which `reduced_of` says first what becomes of a value. Errors: ImportError."""
    import cloudpickle

    class ByValue(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            _check_no_file(value)
            if isinstance(value, types.CodeType):
                return _with_file_name(self.dispatch_table[types.CodeType](value), value)
            reduced = reduced_of(value)
            return reduced if reduced is not NotImplemented else super().reducer_override(value)

    return ByValue


def _with_file_name(reduced: tuple[Any, ...], code: types.CodeType) -> tuple[Any, ...]:
    """What cloudpickle makes of code, and the file that it leaves out: a traceback shows where the user's function failed."""
    make, given, *more = reduced
    return make, tuple(code.co_filename if one == "<dynamic-code>" else one for one in given), *more
