"""SIMD targets: each one gives the same bits and uses only instructions that its dispatch has checked."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from carya import _core, _programs
from carya._bench import limit

ROOT = Path(__file__).resolve().parent.parent.parent


def tool(name: str) -> ModuleType:
    """A program of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 instructions")
digests = tool("digests")
instruction_sets = tool("instruction_sets")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pictures")
    digests.make_pictures(root)
    return root


@pytest.fixture(scope="module")
def wanted(pictures: Path) -> list[str]:
    lines: list[str] = digests.digests(pictures, 1)
    assert len(lines) == 6
    return lines


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind, for an emulator: a minute of a processor otherwise."""
    root = tmp_path_factory.mktemp("few")
    digests.make_pictures(root, 18)
    return root


@pytest.fixture(scope="module")
def wanted_of_few(few: Path) -> list[str]:
    lines: list[str] = digests.digests(few, 1)
    return lines


@pytest.mark.parametrize("target", _core.simd_targets())
def test_every_target_that_runs_here_changes_no_bit(pictures: Path, wanted: list[str], target: str) -> None:
    assert digests.digests(pictures, 2, CARYA_SIMD=target) == wanted


# Processors without AVX-512, without AVX2, and without AES, which Highway's lowest x86 target needs.
@X86
@pytest.mark.parametrize(("processor", "target"), [("Haswell", "AVX2"), ("Westmere", "SSE4"), ("Nehalem", "EMU128")])
def test_older_processors_change_no_bit(
    few: Path, wanted_of_few: list[str], processor: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = ["qemu-x86_64-static", "-cpu", processor, sys.executable]
    for forced in ("CARYA_SIMD", "OPENBLAS_CORETYPE"):  # the latter is of the numpy that is imported there
        monkeypatch.delenv(forced, raising=False)
    code = "from carya import _core; print(_core.simd_target())" + digests.PROGRAM
    said, *found = digests.digests(few, 2, python, code)
    # A build by a compiler without vector types (GCC 12) has SCALAR in place of EMU128.
    assert said in {target, target.replace("EMU128", "SCALAR")}
    assert found == wanted_of_few


def test_the_target_of_the_environment_is_the_one_that_runs() -> None:
    for target in _core.simd_targets():
        code = "from carya import _core; _core.force_simd_target(''); print(_core.simd_target())"
        env = {**os.environ, "CARYA_SIMD": target}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == target


def test_a_target_that_does_not_run_here_is_an_error_that_names_those_that_do() -> None:
    programs = {
        "carya": [sys.executable, "-c", "import carya"],
        "caryad": [_programs.program(), "--idle-exit", "1"],
        "carya-worker": [_programs.program("carya-worker"), "--listen", "127.0.0.1:0"],
    }
    for name, command in programs.items():
        env = {**os.environ, "CARYA_SIMD": "AVX9000"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == (1 if name == "carya" else 2), name
        assert "CARYA_SIMD=AVX9000" in done.stderr, name
        assert ", ".join(_core.simd_targets()) in done.stderr, name


@X86
@pytest.mark.parametrize("program", ["extension", "caryad", "carya-worker", "bench_limit"])
def test_programs_use_only_instructions_that_their_dispatch_checks(program: str) -> None:
    places = {"extension": lambda: _core.__file__, "bench_limit": limit.find_program}
    path = places.get(program, lambda: _programs.program(program))()
    assert path is not None
    assert instruction_sets.offences(Path(path), _core.simd_needs()) == []


@X86
def test_a_program_without_symbols_is_refused_by_the_check(tmp_path: Path) -> None:
    stripped = tmp_path / "program"
    program = limit.find_program() or _programs.program("carya-worker")  # the former is smaller
    subprocess.run(["strip", "-o", str(stripped), program], check=True)
    with pytest.raises(SystemExit, match="stripped of its symbols"):
        instruction_sets.offences(stripped, _core.simd_needs())


# What the check is for: Highway 1.0.3 had AVX3_DL compiled with "avxvnni", which Zen 4 and Ice Lake do not have.
WRONG = """
#include <immintrin.h>
namespace carya::N_AVX3_DL {
__attribute__((target("avxvnni"))) __m256i vex_vnni(__m256i a, __m256i b, __m256i c) {
  return _mm256_dpwssd_avx_epi32(a, b, c);
}
__attribute__((target("avx512vnni,avx512vl"))) __m256i evex_vnni(__m256i a, __m256i b, __m256i c) {
  return _mm256_dpwssd_epi32(a, b, c);  // what it may use
}
}  // namespace carya::N_AVX3_DL
namespace carya::N_AVX2 {
__attribute__((target("avx2"))) void evex_form() { asm volatile("{evex} vpaddd %ymm0, %ymm1, %ymm2"); }
}  // namespace carya::N_AVX2
namespace carya {
__attribute__((target("avx2"))) __m256i ordinary(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
__attribute__((target("popcnt"))) int also_ordinary(unsigned a) { return __builtin_popcount(a); }
}  // namespace carya
"""


@X86
def test_the_check_names_function_instruction_and_set(tmp_path: Path) -> None:
    built = tmp_path / "wrong.o"
    compiler = ["clang++-19", "-O2", "-x", "c++", "-c", "-o", str(built), "-"]
    subprocess.run(compiler, input=WRONG, text=True, check=True)
    targets = {
        "AVX2": ["avx2"],
        "AVX3_DL": ["avx2", "avx512f", "avx512vl", "avx512vnni"],
    }
    found = instruction_sets.offences(built, targets)
    named = {
        (function.split("(")[0], one.instruction.split(" 0x")[0].split(" %")[0], one.missing)
        for one, function in zip(found, instruction_sets.demangled([one.function for one in found]), strict=True)
    }
    assert named == {
        ("carya::N_AVX3_DL::vex_vnni", "{vex} vpdpwssd", "avxvnni"),
        ("carya::N_AVX2::evex_form", "vpaddd", "avx512f"),
        ("carya::ordinary", "vmovdqa", "avx"),
        ("carya::ordinary", "vpaddd", "avx2"),
        ("carya::also_ordinary", "popcntl", "popcnt"),
    }
