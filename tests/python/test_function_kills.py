"""A short run of `tests/faults/functions.py`: kills of workers, of their host, and of the trainer, at random moments."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FUNCTIONS = Path(__file__).parents[1] / "faults" / "functions.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(FUNCTIONS), *arguments], capture_output=True, text=True, timeout=600)


def test_each_kind_of_kill_leaves_the_stream_as_it_is() -> None:
    done = run("-n", "7")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^7 faults in .*each that of the undisturbed stream; .*leaks 0; seed", done.stdout, re.MULTILINE)
    assert len(re.findall(r"^(?:kill|stop) .* +1 ", done.stdout, re.MULTILINE)) == 7  # each kind once


def test_a_kind_that_there_is_not_is_refused() -> None:
    done = run("--kind", "flood")
    assert done.returncode == 1
    assert "--kind: got 'flood'; give a part of one of: kill worker" in done.stderr
