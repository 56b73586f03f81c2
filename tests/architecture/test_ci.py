"""What tools/ci.py leaves to later runs, and which parts it names as grown."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("carya_ci", ROOT / "tools" / "ci.py")
assert _spec
assert _spec.loader
ci = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ci)


@pytest.mark.parametrize(
    ("files", "reached"),
    [
        (["base/hash.h"], {"base", "shm", "io", "transforms", "autotune", "remote", "loader"}),
        (["io/reader.cc", "docs/plan.md"], {"io", "loader"}),
        (["loader/daemon/server.cc"], {"loader"}),
        (["tests/overflow/pool_test.cc"], {"loader"}),
        (["tests/jpeg/a_test.cc"], {"transforms"}),
        (["CMakePresets.json"], {"base", "shm", "io", "transforms", "autotune", "remote", "loader"}),
        (["docs/plan.md", "python/carya/_loader.py"], set()),
    ],
)
def test_a_change_reaches_its_module_and_those_above(files: list[str], reached: set[str]) -> None:
    assert ci.reached_modules(files) == reached


@pytest.mark.parametrize("files", [["docs/plan.md"], ["io/reader.cc"], ["base/hash.h"]])
def test_each_sanitizer_runs_every_folder_of_tests_that_it_is_for_within_six_runs(files: list[str]) -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("*_test.cc"))} | {"faults"}
    seen: dict[str, set[str]] = {"asan": set(), "tsan": set()}
    for turn in range(6):
        for name, run in ci.sanitized_folders(files, turn).items():
            assert set(run) | set(ci.left_out(name, sorted(folders), {name: run})) >= folders - ci.WITHOUT_THREADS
            seen[name] |= set(run)
    assert seen == {"asan": folders, "tsan": folders - ci.WITHOUT_THREADS}


def test_what_a_change_reaches_is_run_by_both_sanitizers_or_by_one_in_turn() -> None:
    own = {"io", "store", "loader", "overflow", "daemon", "faults"}
    for turn in range(6):
        few, all_of_it = (ci.sanitized_folders(files, turn) for files in (["io/reader.cc"], ["base/hash.h"]))
        assert own <= set(few["asan"])
        assert own <= set(few["tsan"])
        assert own <= set(all_of_it["tsan" if turn % 2 else "asan"])


def test_packages_are_tried_when_their_files_change_and_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ci.os, "geteuid", lambda: 0)
    assert {part.name for turn in range(3) for part in ci.tried_packages([], turn)} == set(ci.PACKAGES)
    for turn in range(3):
        assert "deb-trial" in {part.name for part in ci.tried_packages(["packaging/deb.sh"], turn)}


def test_mutants_run_in_both_forms_and_stress_in_the_full_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_LONG", "")  # which the full thing sets: here it is to be as it was
    commands = {
        everything: {part.name: part.command for part in ci.parts(everything)[0]} for everything in (False, True)
    }
    assert commands[False]["mutants"] == ["make", "mutants", f"MUTANTS=--tenth --seconds {ci.MUTANTS_BUDGET_S}"]
    assert commands[True]["mutants"] == ["make", "mutants"]
    assert commands[True]["stress"] == ["make", "stress"]
    assert "stress" not in commands[False]


def test_a_part_has_grown_by_what_the_speed_of_the_machine_does_not_explain() -> None:
    before = {"test": 400.0, "lint": 100.0, "docs": 5.0, "asan": 200.0}
    twice_as_slow = {name: 2 * seconds for name, seconds in before.items()}
    assert ci.grown(twice_as_slow, before) == {}
    assert ci.grown({**twice_as_slow, "lint": 260.0}, before) == {"lint": pytest.approx(1.3)}
    assert ci.grown({**twice_as_slow, "docs": 15.0}, before) == {}  # 5 s are noise
    assert ci.grown({"new": 50.0}, before) == {}
