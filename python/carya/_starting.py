"""The first moments of `carya`, `caryad` and `carya-worker`, before their modules are there: what ends them then is no traceback.

The package imports this module before all others; nothing happens in a process that is none of these commands.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any

INTERRUPTED = 130  # as shells count a process that SIGINT ended


def command() -> str:
    """Which command of the package this process is, by its script or by `python -m carya`; "": none."""
    first = sys.argv[0] if sys.argv else ""
    if first == "-m":  # Python is about to find the module
        return "carya" if ("-m", "carya") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False) else ""
    folder, name = os.path.split(first)
    if name == "__main__.py":
        return "carya" if os.path.basename(folder) == "carya" else ""
    return name if name in ("carya", "caryad", "carya-worker") else ""


def end_quietly() -> None:
    """Let Ctrl-C end the command at once, where it would raise KeyboardInterrupt amid imports or amid Python's own end."""
    if command():
        _replace(signal.default_int_handler, _end)


def interrupt_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    _replace(_end, signal.default_int_handler)


def _replace(old: Any, new: Any) -> None:
    if signal.getsignal(signal.SIGINT) is old:
        with contextlib.suppress(ValueError):  # not in the main thread, which alone is interrupted
            signal.signal(signal.SIGINT, new)


def _end(number: int, frame: Any) -> None:
    os._exit(INTERRUPTED)


def explain(error: ImportError) -> None:
    """End the command with one line where the user's own word is why the native module cannot be had."""
    if command() and str(error).startswith("CARYA_SIMD="):
        print(f"{command()}: {error}", file=sys.stderr)
        raise SystemExit(2) from None


end_quietly()
