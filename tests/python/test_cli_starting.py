"""How the command `carya` begins, and how it ends when somebody does not wait for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from carya import _core

pytest.importorskip("typer")
pytest.importorskip("rich")

# Interrupts the process when this module is asked for; "": when Python ends.
INTERRUPTS = """
import atexit, importlib.abc, os, signal, sys

class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == os.environ["AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
if not os.environ["AT"]:
    atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
"""


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-m", "carya", *words], capture_output=True, text=True, check=False, env=variables, timeout=120
    )


@pytest.mark.parametrize(
    "at", ["numpy", "carya._core", "carya._loading.loader", "carya._cli.main", "typer", "carya._cli.cache", ""]
)
def test_ctrl_c_is_no_traceback_wherever_it_comes(at: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = command("cache", "ls", PYTHONPATH=path, AT=at, CARYA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "KeyboardInterrupt" not in done.stderr


def test_a_script_that_imports_carya_has_its_own_ctrl_c() -> None:
    code = "import signal, carya; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_wrong_simd_target_is_one_line_that_names_those_there_are() -> None:
    done = command("doctor", CARYA_SIMD="FOO")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "carya: CARYA_SIMD=FOO: no SIMD target of that name runs on this machine; use one of "
        + ", ".join(_core.simd_targets())
    ]


@pytest.mark.parametrize("name", ["carya", "caryad", "carya-worker"])
def test_the_scripts_of_an_installed_package_say_so_too(name: str, tmp_path: Path) -> None:
    script = tmp_path / name
    entry = {"carya": "_cli.main import main", "caryad": "_programs import main"}
    script.write_text(f"from carya.{entry.get(name, '_programs import worker_main as main')}\nmain()\n")
    done = subprocess.run(
        [sys.executable, str(script), "--version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CARYA_SIMD": "FOO"},
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"{name}: CARYA_SIMD=FOO: no SIMD target of that name runs on this machine; use one")
    assert done.stderr.count("\n") == 1


def test_who_looks_at_a_cache_that_is_not_there_makes_none(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = command("cache", "ls", CARYA_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    assert "0 files" in done.stdout
    listed = command("cache", "ls", "--json", CARYA_CACHE_DIR=str(cache))
    assert json.loads(listed.stdout) == {"cache": str(cache), "bytes": 0, "files": []}
    assert command("cache", "verify", CARYA_CACHE_DIR=str(cache)).returncode == 0
    assert not cache.exists()


def test_a_cache_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    done = command("cache", "ls", CARYA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert done.stderr == (
        f"carya: cache: {tmp_path / 'cache'} is no folder that this user can read; set CARYA_CACHE_DIR to one\n"
    )
