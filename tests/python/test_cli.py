"""The command `carya`: every command with --json and --help, errors in one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import carya
from carya._bench import limit
from carya._cli import doctor

pytest.importorskip("typer")
pytest.importorskip("rich")


def run(*words: str, code: int = 0, columns: int = 160) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "carya", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": str(columns)},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "explain",
        "plan freeze",
        "profile",
        "tune",
        "simulate",
        "doctor",
        "bench",
        "index",
        "cache ls",
        "cache rm",
        "cache verify",
    ],
)
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    text = run(*command.split(), "--help")
    assert f"Example: carya {command}" in text
    assert "--json" in text


def test_run_iterates_a_document(photos: Path, tmp_path: Path) -> None:
    chain = carya.image_folder(photos).shuffle(seed=1).decode_image().resize((16, 16)).batch(4)
    (tmp_path / "p.json").write_text(chain.to_json())
    result = json.loads(run("run", str(tmp_path / "p.json"), "--epochs", "2", "--threads", "2", "--json"))
    assert (result["samples"], result["steps"], result["threads"]) == (54, 14, 2)
    assert result["state"]["epoch"] == 2
    assert json.loads(run("run", str(tmp_path / "p.json"), "--steps", "3", "--json"))["samples"] == 12
    assert "samples per s" in run("run", str(tmp_path / "p.json"))


def test_run_demo_takes_a_folder(photos: Path) -> None:
    result = json.loads(run("run", "demo", "--data", str(photos), "--json"))
    assert result["samples"] == 27


def test_run_names_the_stages_as_they_are(photos: Path, tmp_path: Path) -> None:
    chain = carya.image_folder(photos).decode_image().random_resized_crop(16).batch(4)
    (tmp_path / "p.json").write_text(chain.to_json())
    assert "decode_image+random_resized_crop[window]" in run("run", str(tmp_path / "p.json"))


def test_errors_are_one_line_that_says_what_to_do(damaged: list[str], tmp_path: Path) -> None:
    assert "to_json" in run("run", str(tmp_path / "absent.json"), code=1)
    assert "--data" in run("run", "demo", "--data", str(tmp_path / "absent"), code=1)
    (tmp_path / "p.json").write_text(carya.files(damaged).decode_image().resize((8, 8)).batch(4).to_json())
    error = run("run", str(tmp_path / "p.json"), "--json", code=1)
    assert damaged[3] in error
    assert "--on-error mask" in error
    said = [
        line for line in error.splitlines() if not line.startswith("works without the daemon: ")
    ]  # our own variable
    assert len(said) == 1
    result = json.loads(run("run", str(tmp_path / "p.json"), "--on-error", "mask", "--json"))
    assert result["quarantined"] == 3


def test_a_target_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "closed.json").write_text("{}")
    (tmp_path / "closed.json").chmod(0)
    absent = "/proc/self/mem" if os.geteuid() == 0 else str(tmp_path / "closed.json")
    for target in (str(tmp_path), absent):
        error = run("run", target, code=1)
        assert error.count("\n") == 1, error
        assert target in error
        assert "give" in error
    (tmp_path / "no.json").write_text("root:x:0:0")
    error = run("run", str(tmp_path / "no.json"), code=1)
    assert "no.json': no JSON at line 1, column 1, near 'r'; give a document that Pipeline.to_json() wrote" in error
    (tmp_path / "no.json").write_text('{"version": 1, "source": {"type": "files", "paths": 5}}')
    assert "no.json': source: paths: got 5; give" in run("run", str(tmp_path / "no.json"), code=1)


def lines(folder: Path, name: str = "a.jsonl") -> Path:
    (folder / name).write_text('{"n": 1}\n')
    return folder / name


def inspected(path: Path, stdout: int, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "carya", "inspect", str(path)],
        stdout=stdout, stderr=subprocess.PIPE, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def test_a_disk_without_room_for_the_output_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = inspected(lines(tmp_path), full.fileno())
    assert done.returncode == 1
    assert done.stderr == b"carya: the output: No space left on device; make room where it goes\n"


def test_the_version_names_the_compiler_and_python() -> None:
    said = subprocess.check_output([sys.executable, "-m", "carya", "--version"], text=True)
    assert re.fullmatch(r"carya \d+\.\d+\.\d+ \((Clang|GCC) [\d.]+, Python 3\.[\d.]+\S*\)\n", said), said


def test_help_and_version_say_so_too() -> None:
    for option in ("--help", "--version"):
        with open("/dev/full", "wb") as full:
            command = [sys.executable, "-m", "carya", option]
            done = subprocess.run(command, stdout=full.fileno(), stderr=subprocess.PIPE, check=False)
        assert done.returncode == 1
        assert done.stderr == b"carya: the output: No space left on device; make room where it goes\n", option


def test_a_reader_that_goes_is_no_error_to_tell(tmp_path: Path) -> None:
    read, written = os.pipe()
    os.close(read)
    done = inspected(lines(tmp_path), written)
    os.close(written)
    assert (done.returncode, done.stderr) == (1, b"")


def test_what_the_terminal_has_no_letters_for_is_escaped(tmp_path: Path) -> None:
    done = inspected(lines(tmp_path, "\u5b57\u00fc.jsonl"), subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert b"\\u5b57\\xfc.jsonl" in done.stdout


def test_names_in_a_pipe_are_in_one_piece(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "CARYA_CACHE_DIR": str(tmp_path),
    }  # given, since readline adds COLUMNS to that of children
    environment.pop("COLUMNS", None)
    name = "unpacked-" + "0123456789abcdef" * 2
    (tmp_path / name).mkdir()
    command = [sys.executable, "-m", "carya", "cache", "ls"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert name in done.stdout


def test_index_lists_a_folder(photos: Path) -> None:
    result = json.loads(run("index", str(photos), "--verify", "--json"))
    assert (result["records"], result["classes"], result["verified"]) == (27, 3, True)
    assert "absent" in run("index", str(photos / "absent.tar"), code=1)


def test_doctor_says_what_is_here() -> None:
    facts = json.loads(run("doctor", "--json"))
    for name in (
        "kernel",
        "allowed_cores",
        "memlock_bytes",
        "io_engine",
        "simd",
        "simd_targets",
        "simd_missing",
        "codecs",
        "numpy",
        "problems",
    ):
        assert name in facts
    assert "kernel" in run("doctor")


GOOD = {
    "io_engine": "io_uring",
    "memlock_bytes": 1 << 30,
    "open_files_max": 4096,
    "online_cores": 8,
    "allowed_cores": 8,
    "equal_weight_siblings": 0,
    "thp_shmem": "advise",
    "memory_bytes": 1 << 36,
    "cache_dir": "somewhere",
    "simd": "AVX2",
    "simd_targets": ["AVX2", "SSE4"],
    "simd_missing": {"AVX3_DL": ["avx512f", "vaes"], "AVX3": ["avx512f"]},
    "simd_chosen": "",
}


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"io_engine": "pread (io_uring: EPERM)"}, "io_uring"),
        ({"memlock_bytes": 65536}, "memlock"),
        ({"open_files_max": 256}, "open files"),
        ({"allowed_cores": 2.0, "quota_source": "/sys/fs/cgroup/cpu.max"}, "cores"),
        ({"equal_weight_siblings": 3}, "neighbours"),
        ({"thp_shmem": "never"}, "huge pages"),
        ({"memory_bytes": 1 << 30}, "memory"),
        ({"cache_dir": ""}, "cache folder"),
        ({"simd": "SSE4", "simd_chosen": "SSE4"}, "SIMD"),
    ],
)
def test_doctor_judges_each_fact(change: dict[str, object], subject: str) -> None:
    assert doctor.judge(GOOD) == []
    (problem,) = doctor.judge({**GOOD, **change})
    assert problem.subject == subject
    assert problem.fix


def test_doctor_says_which_simd_target_runs_and_why_no_better_one(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.show({**GOOD, "simd_chosen": "AVX2"}, [])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "AVX2 (by CARYA_SIMD); not AVX3: this processor, or its kernel, lacks avx512f" in shown
    assert "AVX3_DL" not in shown


@pytest.mark.parametrize("arguments", ["vision --daemon", "raw", "start --files 40", "cache"])
def test_benches_run(arguments: str) -> None:
    """By the command. `make test` runs each of them by its program below bench/."""
    report = json.loads(run("bench", *arguments.split(), "--smoke", "--json"))
    assert report["bench"] == arguments.split()[0]
    assert report["rows"]
    assert all(np.isfinite(value) for row in report["rows"] for value in row.values() if isinstance(value, float))


def test_the_bounds_of_a_bench_are_read_from_its_program() -> None:
    """`carya bench vision` reads the last JSON line of bench_limit: both forms, one and two threads, each loop."""
    if limit.find_program() is None:
        pytest.skip("bench_limit is not built here")
    found = limit.bounds("", smoke=True)
    loops = ("", "own_", "own_rows_", "own_8_")
    wanted = {f"{loop}{form}_threads_{n}" for loop in loops for form in ("uint8", "float32") for n in (1, 2)}
    assert set(found) == wanted
    assert all(row["cpu_us"] > 0 and row["per_second"] > 0 for row in found.values())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(shell: str) -> None:
    """The script for the shell, and what the shell then asks."""
    without = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "carya"]
    script = subprocess.run(
        [*command, "--show-completion", shell], capture_output=True, text=True, check=True, env=without
    )
    assert "_CARYA_COMPLETE" in script.stdout
    asked = {
        "_CARYA_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "carya st",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "carya st",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    found = subprocess.run(command, capture_output=True, text=True, check=False, env={**without, **asked})
    assert "status" in found.stdout
    assert "doctor" not in found.stdout


def test_the_reference_says_what_help_says() -> None:
    """tools/cli_reference.py writes the second part of the document anew."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    try:
        import cli_reference as reference
    finally:
        sys.path.pop(0)
    head, text = reference.DOCUMENT.read_text().split(reference.MARK)
    assert text.strip() == reference.section().strip()
    typer = pytest.importorskip("typer")
    from carya._cli.main import make_app

    names = [name for name, _ in reference.commands(typer.main.get_command(make_app(typer)))]
    assert [name for name in names if f"`carya {name}`" not in head] == []


def test_bench_help_names_every_bench() -> None:
    from carya import _bench

    said = run("bench", "--help")
    assert [name for name in _bench.NAMES if not re.search(rf"\b{name}\b", said)] == []
