"""Exceptions on their way between processes, and what kind of failure each is."""

from __future__ import annotations

import pickle
import time
import traceback
from typing import Any

from .. import _errors
from .._errors import Error, Exhausted, InvalidArgument, SampleError

_TEXT_MAX = 32 << 10


class WorkerTraceback(Exception):
    """What a worker process printed of an exception, as the cause of the same exception here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Fault:
    """What kept a row from being made. `kind`: "data" (the record is broken), "fatal" (it says nothing about the record)."""

    __slots__ = ("kind", "pickled", "reason", "record", "row", "stage", "text")

    def __init__(self, row: int, record: int, stage: str, error: BaseException) -> None:
        self.row, self.record, self.stage = row, record, stage
        self.kind = "data" if is_data(error) else "fatal"
        self.reason = _reason(error)[:2000]
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-_TEXT_MAX:]
        self.pickled = _pickled(error)

    def __reduce__(self) -> Any:
        return _rebuilt, tuple(getattr(self, name) for name in Fault.__slots__)


def _rebuilt(*values: Any) -> Fault:
    fault = object.__new__(Fault)
    for name, value in zip(Fault.__slots__, values, strict=True):
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
        text = pickle.dumps((error.with_traceback(None), kept))
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
        note(f"carya: {where}: {fault.stage}")
    error.__cause__ = WorkerTraceback(f"{told}\n\n{fault.text}")
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
