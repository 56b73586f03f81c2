"""Exceptions on their way between processes, and what kind of failure each is."""

from __future__ import annotations

import os
import pickle
import time
import traceback
from typing import Any

from .. import _errors
from .._errors import Error, Exhausted, InvalidArgument, SampleError
from .code import dumps_result

_TEXT_MAX = 32 << 10
_PACKAGE = os.path.join(os.path.dirname(_errors.__file__), "")
_READ_ONLY = "; rows of arrays are the memory of their source, which all processes read: change a copy (x = x.copy())"


class WorkerTraceback(Exception):
    """What a worker process printed of an exception, as the cause of the same exception here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Fault:
    """What kept a row from being made. `kind`: "data" (the record is broken), "fatal" (it says nothing about the record).

    The traceback's text and the exception's pickle (`text`, `pickled`) are made when the fault is sent: they take ten times
    as long as the rest, and most faults of `mask` and `replace` become entries of the quarantine, which have neither.
    """

    _SENT = ("kind", "pickled", "reason", "record", "row", "stage", "text")
    __slots__ = ("_error", *_SENT)

    def __init__(self, row: int, record: int, stage: str, error: BaseException) -> None:
        self.row, self.record, self.stage = row, record, stage
        self.kind = "data" if is_data(error) else "fatal"
        self.reason = _reason(error)[:2000]
        self.text = ""
        self.pickled: bytes | None = None
        self._error: BaseException | None = error  # until it is sent

    def __reduce__(self) -> Any:
        error, self._error = self._error, None
        if error is not None:
            self.text = _text(error)[-_TEXT_MAX:]
            self.pickled = _pickled(error)
        return _rebuilt, tuple(getattr(self, name) for name in Fault._SENT)


def _text(error: BaseException) -> str:
    """The traceback from the user's code on: the frames of Carya that have called it say nothing of what is wrong with it."""
    if isinstance(error.__cause__, WorkerTraceback):  # raised here as it was in a worker
        return str(error.__cause__.args[0])
    shown = traceback.TracebackException.from_exception(error)
    theirs = (number for number, frame in enumerate(shown.stack) if not frame.filename.startswith(_PACKAGE))
    del shown.stack[: next(theirs, 0)]
    return "".join(shown.format())


def _rebuilt(*values: Any) -> Fault:
    fault = object.__new__(Fault)
    fault._error = None
    for name, value in zip(Fault._SENT, values, strict=True):
        setattr(fault, name, value)
    return fault


def is_data(error: BaseException) -> bool:
    """Whether an exception says that the record is broken, for the policies "replace" and "mask".

    An error of the system (with a number: a missing file, a network that is down), a lack of memory or of time, and an attempt
    to end the process are not: with another record in its place they would go unseen.
    """
    if isinstance(error, SampleError):
        return True
    if isinstance(error, Error | MemoryError | TimeoutError | SystemExit | KeyboardInterrupt | GeneratorExit):
        return False
    return not (isinstance(error, OSError) and error.errno is not None)


def _reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r})"
    return f"{type(error).__name__}: {error}"


def _pickled(error: BaseException) -> bytes | None:
    if not isinstance(error, Exception):
        return None
    kept = {name: value for name, value in vars(error).items() if _is_plain(value)}
    try:
        text = dumps_result((error.with_traceback(None), kept), protocol=5, buffer_callback=None)
        pickle.loads(text)
    except Exception:  # of the user's class
        return None
    return text if len(text) <= 1 << 20 else None


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | bytes)


def raised(fault: Fault, where: str) -> Exception:
    """The exception to raise in the trainer: the user's own, caused by the text of the worker's traceback.

    `where` says which record it was. One that cannot be pickled, or that ends a process, becomes a SampleError or an Error.
    """
    error: Exception | None = None
    if fault.pickled is not None:
        try:
            error, kept = pickle.loads(fault.pickled)
            for name, value in kept.items():
                setattr(error, name, value)
        except Exception:  # its class cannot be found or made here
            error = None
    told = f"{where}: {fault.stage}: {fault.reason}"
    if isinstance(error, SampleError | InvalidArgument):
        error = type(error)(f"{where}: {error}") if where.split(" (")[0] not in str(error) else error
    if error is None:
        kind = SampleError if fault.kind == "data" else _errors.Unsupported
        error = kind(f"{told}; let the function return, or raise an exception of its own")
    for name, value in (("record", fault.record), ("stage", fault.stage), ("reason", fault.reason)):
        try:
            setattr(error, name, value)
        except AttributeError:
            break
    note = getattr(error, "add_note", None)
    if note is not None and not isinstance(error, Error):
        note(f"carya: {where}: {fault.stage}{_READ_ONLY if 'read-only' in fault.reason else ''}")
    first, _, _ = fault.text.partition("\n")
    error.__cause__ = WorkerTraceback(fault.text if fault.reason in first else f"{told}\n\n{fault.text}")
    return error


def out_of_memory(subject: str) -> Exhausted:
    return Exhausted(f"{subject}: out of memory; give fewer threads=, a smaller batch, or raise the memory limit")


class Made:
    """What came of a chunk: faults, entries of the quarantine, and what its worker answers."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.entries: list[dict[str, Any]] = []

    def answer(self, number: int, rows: int, begin: float, cpu_begin: float) -> dict[str, Any]:
        return {
            "number": number,
            "faults": self.faults,
            "entries": self.entries,
            "rows": rows,
            "began": begin,
            "seconds": time.perf_counter() - begin,
            "cpu_seconds": time.thread_time() - cpu_begin,
        }
