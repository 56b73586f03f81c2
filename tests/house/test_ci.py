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


def test_each_test_folder_is_run_or_named_and_all_within_three_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("*_test.cc"))} | {"faults"}
    monkeypatch.setattr(ci, "changed_files", lambda: ["docs/plan.md"])
    seen: set[str] = set()
    for turn in range(3):
        run, left = ci.sanitized_folders(turn)
        assert set(run) | set(left) == everything
        assert not set(run) & set(left)
        seen |= set(run)
    assert seen == everything


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
