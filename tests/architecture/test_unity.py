"""Builds that join sources (tools/unity.py): what compiles source by source compiles, and what fails is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def join(tmp_path: Path, *texts: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The launcher over a joined source of these texts, as CMake would call it; and the object that it makes."""
    folder = tmp_path / "Unity"
    folder.mkdir(exist_ok=True)
    (tmp_path / "shared.h").write_text("#pragma once\nint both();\n")
    sources = []
    for number, text in enumerate(texts):
        source = tmp_path / f"{number}.cc"
        source.write_text(text)
        sources.append(source)
    joined, out = folder / "unity_0_cxx.cxx", folder / "unity_0_cxx.cxx.o"
    joined.write_text("".join(f'#include "{source}"\n' for source in sources))
    command = [
        ROOT / "tools" / "unity.py",
        "clang++-19",
        "-MD",
        "-MT",
        "x.o",
        "-MF",
        f"{out}.d",
        "-o",
        out,
        "-c",
        joined,
    ]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False), out


def symbols(out: Path) -> set[str]:
    said = subprocess.run(["nm", "--defined-only", "-C", out], capture_output=True, text=True, check=True).stdout
    return {line.split(" ", 2)[2] for line in said.splitlines()}


def test_sources_that_go_together_are_compiled_as_one(tmp_path: Path) -> None:
    done, out = join(tmp_path, "int a() { return 1; }\n", "int b() { return 2; }\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert symbols(out) == {"a()", "b()"}
    assert not Path(f"{out}.parts").exists()


def test_sources_that_use_one_name_twice_are_compiled_apart_and_said_to_be(tmp_path: Path) -> None:
    mine = "namespace { struct Same { int it = 1; }; }\nint a() { return Same{}.it; }\n"
    other = '#include "shared.h"\nnamespace { using Same = long; }\nlong b() { return Same{2}; }\n'
    done, out = join(tmp_path, mine, "int c() { return 3; }\n", other, "int d() { return 4; }\n")
    assert done.returncode == 0
    assert "is made of 2 parts" in done.stdout
    assert Path(f"{out}.parts/1.cxx").read_text() == f'#include "{tmp_path / "2.cc"}"\n', "the one that the error names"
    assert "Same" in done.stdout
    assert {"a()", "b()", "c()", "d()"} <= symbols(out)
    read = Path(f"{out}.d").read_text()
    assert read.startswith("x.o: ")
    assert read.split()[1].endswith("unity_0_cxx.cxx")
    assert read.count("\n") == 1
    for name in ("0.cc", "1.cc", "2.cc", "3.cc", "shared.h"):
        assert f"/{name}" in read
    assert ".parts/" not in read, "made while the command ran: ninja would run it again each time"


def test_a_source_that_does_not_compile_fails_with_its_own_message(tmp_path: Path) -> None:
    done, out = join(tmp_path, "int a() { return 1; }\n", "int b() { return nothing; }\n", "int c() { return 3; }\n")
    assert done.returncode != 0
    assert not out.exists()
    assert "1.cc:1:18: error: use of undeclared identifier 'nothing'" in done.stderr
    assert "0.cc" not in done.stderr
