"""Commands of carya, run as a user runs them, and what they leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from carya._convert.journal import NAME


def run(command: str, *words: str | Path, code: int = 0, **environment: str) -> str:
    """What `carya COMMAND WORDS` prints; of one that is to fail, what it says on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "carya", command, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a conversion, without its journal."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != NAME}
