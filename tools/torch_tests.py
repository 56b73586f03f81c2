#!/usr/bin/env python3
"""Run torch's own tests of its DataLoader, or torchdata's of StatefulDataLoader, against `carya.torch.DataLoader`.

torch's wheel has no tests; give their file from a checkout:

    tools/torch_tests.py ~/pytorch/test/test_dataloader.py
    tools/torch_tests.py ~/data/test/stateful_dataloader/test_dataloader.py

A copy in which the class is Carya's runs in a folder of its own, each test in a process of its own that is ended after
twice `--limit` seconds. Prints a Markdown table: test, outcome, whose engine made batches, first line of the error. Needs
`expecttest` and `psutil`. Ends with 0 whatever fails; the table in docs/reference/torch-tests.md says why each does.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

_OURS = "import torch.utils.data\nimport carya.torch\ntorch.utils.data.DataLoader = carya.torch.DataLoader\n"
_STATEFUL = re.compile(r"^from torchdata\.stateful_dataloader import (.*)$", re.MULTILINE)
_JOIN = re.compile(r"^JOIN_TIMEOUT = .*$", re.MULTILINE)
# How seldom StatefulDataLoader is to take a snapshot: there is no such argument here, where a state is exact at each step.
_EVERY = re.compile(r"^\s*snapshot_every_n_steps=[^,\n]*,$", re.MULTILINE)


def substituted(source: str, limit: float = 60.0) -> str:
    """The text of a test file whose DataLoader, or StatefulDataLoader, is Carya's, and which waits `limit` seconds for processes.

    >>> substituted("from torchdata.stateful_dataloader import StatefulDataLoader as DataLoader")
    'from carya.torch import DataLoader as DataLoader'
    """
    source = _EVERY.sub("", _JOIN.sub(f"JOIN_TIMEOUT = {limit}", source))
    return _STATEFUL.sub(_imports, source) if _STATEFUL.search(source) else _OURS + source


def _imports(found: re.Match[str]) -> str:
    lines = []
    for name in found[1].split(", "):
        of, _, alias = name.partition(" as ")
        if of == "StatefulDataLoader":
            lines.append(f"from carya.torch import DataLoader as {alias or of}")
        else:
            lines.append(f"from torch.distributed.checkpoint.stateful import {name}")
    return "; ".join(lines)


def tests_of(suite: Any) -> list[unittest.TestCase]:
    """The tests of a suite, one by one."""
    return [test for part in suite for test in (tests_of(part) if isinstance(part, unittest.TestSuite) else [part])]


def run_here(test: unittest.TestCase) -> dict[str, Any]:
    """Outcome, engines and error of a test that runs in this process."""
    import carya.torch

    engines: set[str] = set()
    iterate: Any = carya.torch.DataLoader.__iter__

    def noted(self: Any) -> Any:
        engines.add("torch" if self.engine.startswith("torch") else "carya")
        return iterate(self)

    carya.torch.DataLoader.__iter__ = noted  # type: ignore[method-assign]
    result = unittest.TestResult()
    test.run(result)
    broken = result.failures + result.errors
    outcome = "fails" if broken else "skipped" if result.skipped else "passes"
    text = broken[0][1] if broken else result.skipped[0][1] if result.skipped else ""
    return {"outcome": outcome, "engines": sorted(engines), "text": text}


def run_apart(test: unittest.TestCase, limit: float) -> dict[str, Any]:
    """The same in a forked process, ended after `limit` seconds."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(reading)
        told: dict[str, Any] = {"outcome": "fails", "engines": [], "text": "the process of the test ended"}
        sys.stdout = sys.stderr = io.StringIO()
        try:
            told = run_here(test)
        finally:
            os.write(writing, json.dumps(told).encode()[-60_000:])
            os._exit(0)
    os.close(writing)
    found = b""
    until = time.monotonic() + limit
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            break
        found += part
        if found.endswith(b"}"):
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    return json.loads(found) if found else {"outcome": "fails", "engines": [], "text": f"no end after {limit:g} s"}


def last_line(text: str) -> str:
    """What an error says, in one line for a table."""
    lines = [line for line in text.strip().splitlines() if line and not line.startswith(" ")]
    wanted = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Unsupported|InvalidArgument)\b", line)]
    return ((wanted or lines or [""])[-1]).replace("|", "\\|")[:160]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="torch's test/test_dataloader.py, or one of torchdata's")
    parser.add_argument(
        "--limit", type=float, default=120.0, help="seconds: what the tests wait for processes; twice that for a test"
    )
    parser.add_argument("--only", default="", help="tests whose name has this in it, a regular expression")
    parser.add_argument("--errors", action="store_true", help="print whole errors, to stderr")
    asked = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="torch-tests-")
    name = f"{asked.file.stem}_with_carya"
    (Path(folder) / f"{name}.py").write_text(substituted(asked.file.read_text(), asked.limit))
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    counted: Counter[str] = Counter()
    sys.argv = sys.argv[:1]  # torch's test helpers read it
    try:
        module = importlib.import_module(name)
        module.load_tests = None  # type: ignore[attr-defined]  # torch's own refuses tests that are not the script's
        print("| test | outcome | engine | |\n|---|---|---|---|", flush=True)
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            short = test.id().removeprefix(f"{name}.")
            if not re.search(asked.only, short):
                continue
            told = run_apart(test, 2 * asked.limit)
            counted[told["outcome"]] += 1
            said = "" if told["outcome"] == "passes" else last_line(told["text"])
            print(f"| {short} | {told['outcome']} | {' and '.join(told['engines'])} | {said} |", flush=True)
            if asked.errors and told["outcome"] == "fails":
                print(short, told["text"], file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{', '.join(f'{count} {outcome}' for outcome, count in sorted(counted.items()))}")


if __name__ == "__main__":
    main()
