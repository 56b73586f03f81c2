"""The rows of tests/mutants fit the source tree, and tools/mutants.py judges what they come to."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from tree import ROOT

_spec = importlib.util.spec_from_file_location("carya_mutants", ROOT / "tools" / "mutants.py")
assert _spec
assert _spec.loader
mutants = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = mutants  # dataclasses look there
_spec.loader.exec_module(mutants)

ROWS = mutants.read_tables()
ROWS_MIN = 60
MODULES = ("autotune", "base", "io", "loader", "python", "remote", "shm", "transforms")


def test_there_are_many_and_of_every_module() -> None:
    assert len(ROWS) >= ROWS_MIN
    assert {row.file.split("/")[0] for row in ROWS} == set(MODULES)
    assert {row.property for row in ROWS} == set(mutants.PROPERTIES)
    assert len({row.name for row in ROWS}) == len(ROWS), "names are unique"


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_stands_in_the_tree(row: mutants.Mutant) -> None:
    assert row.mutated() != (ROOT / row.file).read_text()
    for test in row.tests:
        program = test.split()[0]
        if program.startswith("tests/"):
            assert (ROOT / program).is_file(), program
        else:
            folder = ROOT / "tests" / program.removesuffix("_test")
            assert any(folder.glob("*_test.cc")), program
            assert len(test.split()) == 2, f"want a program and a filter: {test}"


@pytest.mark.parametrize("text", ["", "twice twice"])
def test_a_stale_row_is_an_error_that_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "a.cc").write_text(text)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    row = mutants.Mutant("m", "bits", "a.cc", "twice", "once", ("base_test *",))
    with pytest.raises(ValueError, match=r"a\.cc has the text \d times: twice"):
        row.mutated()


def test_ten_tenths_are_all() -> None:
    tenths = [mutants.chosen(ROWS, ".", turn) for turn in range(10)]
    assert sorted(row.name for tenth in tenths for row in tenth) == sorted(row.name for row in ROWS)
    later = mutants.chosen(ROWS, ".", 13)
    assert later != tenths[3], "it begins elsewhere"
    assert sorted(row.name for row in later) == sorted(row.name for row in tenths[3])


def verdicts(**counted: int) -> list[mutants.Verdict]:
    """So many of each end, of the property `bits`; `alive_liveness`: survivors of that one."""
    found = []
    for how, count in counted.items():
        broken = "liveness" if how == "alive_liveness" else "bits"
        end = "survived" if how.startswith("alive") else how.replace("_", " ")
        row = mutants.Mutant(how, broken, "a.cc", "x", "y", ("base_test *",))
        found += [mutants.Verdict(row, end)] * count
    return found


@pytest.mark.parametrize(
    ("counted", "why"),
    [
        ({"killed": 10}, []),
        ({"killed": 9, "alive": 1}, []),
        ({"killed": 9, "alive": 1, "not_tried": 5, "left": 5}, []),
        ({"killed": 8, "alive": 1}, ["8 of 9 die"]),
        ({"killed": 99, "alive_liveness": 1}, ["alive_liveness survives: liveness"]),
        ({"killed": 99, "stale": 1}, ["stale is stale"]),
        ({"killed": 99, "unbuilt": 1}, ["unbuilt is unbuilt"]),
        ({"left": 3}, []),
    ],
)
def test_what_fails(counted: dict[str, int], why: list[str]) -> None:
    reasons = mutants.fails(verdicts(**counted))
    assert len(reasons) == len(why)
    assert all(reason.startswith(begin) for reason, begin in zip(reasons, why, strict=True))


def test_who_killed_is_read_from_what_tests_print() -> None:
    gtest = "[ RUN      ] A.One\n[       OK ] A.One (0 ms)\n[ RUN      ] A.Two\n"
    assert mutants.failures("base_test *", gtest) == ["A.Two"], "it died in it"
    assert mutants.failures("base_test *", gtest + "[  FAILED  ] A.Two (3 ms)\n") == ["A.Two"]
    assert mutants.counts("base_test *", "[==========] 2 tests from 1 test suite ran. (1 ms total)\n") == (2, 0)
    skipped = "[  SKIPPED ] A.One (0 ms)\n[==========] 1 test from 1 test suite ran. (1 ms total)\n"
    assert mutants.counts("base_test *", skipped) == (1, 1)
    assert mutants.failures("tests/x.py", "FAILED tests/python/x.py::test_a - assert\n1 failed") == ["x.py::test_a"]
    hung = "tests/python/x.py::test_a PASSED [ 50%]\ntests/python/x.py::test_b "
    assert mutants.failures("tests/x.py", hung) == ["x.py::test_b"]
    assert mutants.failures("tests/x.py", hung + "PASSED [100%]\n\n2 passed in 1 s\n") == []
    assert mutants.counts("tests/x.py", "3 passed, 2 skipped in 1 s") == (5, 2)
