"""What tools/ci.py leaves to later runs, which parts it names as grown, and how it ends in time."""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("carya_ci", ROOT / "tools" / "ci.py")
assert _spec
assert _spec.loader
ci = importlib.util.module_from_spec(_spec)
sys.modules["carya_ci"] = ci
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
        (["docs/plan.md", "python/carya/_loading/loader.py"], set()),
    ],
)
def test_a_change_reaches_its_module_and_those_above(files: list[str], reached: set[str]) -> None:
    assert ci.reached_modules(files) == reached


@pytest.mark.parametrize("files", [["docs/plan.md"], ["io/reader.cc"], ["base/hash.h"]])
def test_each_sanitizer_runs_every_folder_of_tests_that_it_is_for_within_eight_runs(files: list[str]) -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("*_test.cc"))} | {"faults"}
    seen: dict[str, set[str]] = {"asan": set(), "tsan": set()}
    for turn in range(8):
        name, run = ci.sanitized_folders(files, turn)
        assert run
        assert set(run) | set(ci.left_out(name, run)) >= folders - ci.WITHOUT_THREADS
        seen[name] |= set(run)
    assert seen == {"asan": folders, "tsan": folders - ci.WITHOUT_THREADS}


def test_where_a_change_reaches_few_modules_each_run_has_those_below_the_loader() -> None:
    for turn in range(8):
        (name, few), (_, many) = (ci.sanitized_folders(files, turn) for files in (["io/reader.cc"], ["base/hash.h"]))
        assert {"io", "store"} <= set(few), name
        assert set(few) - {"io", "store"} <= set(many)


def test_the_loaders_folders_which_take_the_longest_are_in_every_other_run_at_most() -> None:
    having = [bool(set(ci.sanitized_folders(["base/hash.h"], turn)[1]) & set(ci.TESTS["loader"])) for turn in range(8)]
    assert sum(having) == 4


@pytest.mark.parametrize("turn", range(8))
def test_the_second_lane_builds_what_the_sanitizer_of_the_first_one_tests(
    monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    monkeypatch.setattr(ci, "git", lambda *_: str(turn))
    monkeypatch.setattr(ci, "changed_files", lambda: ["base/hash.h"])
    parts = {part.name: part for part in ci.parts(False)[0]}
    (name,) = {"asan", "tsan"} & set(parts)
    (folders,) = (word.removeprefix("FOLDERS=") for word in parts[name].command if word.startswith("FOLDERS="))
    ahead = parts[f"{name}-build"]
    assert ahead.command == ["tools/build.sh", name, *(f"{folder}_test" for folder in folders.split())]
    assert ahead.computes
    assert not parts[name].computes


def test_packages_are_tried_when_their_files_change_and_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ci.os, "geteuid", lambda: 0)
    assert {part.name for turn in range(3) for part in ci.tried_packages([], turn)} == set(ci.PACKAGES)
    for turn in range(3):
        assert "deb-trial" in {part.name for part in ci.tried_packages(["packaging/deb.sh"], turn)}


def names(text: str, words: list[str]) -> list[str]:
    return [word for word in words if re.search(rf"\b{re.escape(word)}\b", text)]


@pytest.mark.parametrize("turn", range(12))
def test_what_a_run_leaves_to_later_ones_is_named(monkeypatch: pytest.MonkeyPatch, turn: int) -> None:
    monkeypatch.setattr(ci, "git", lambda *_: str(turn))
    monkeypatch.setattr(ci, "changed_files", lambda: ["base/hash.h"])
    monkeypatch.setattr(ci.os, "geteuid", lambda: 0)
    chosen, left = ci.parts(False)
    commands = {part.name: " ".join(part.command) for part in chosen}
    said = "; ".join(left)
    for name in ("asan", "tsan"):
        folders = {folder for some in ci.TESTS.values() for folder in some}
        folders -= ci.WITHOUT_THREADS if name == "tsan" else set()
        missing = folders - set(names(commands.get(name, ""), sorted(folders)))
        told = next((one for one in left if one.startswith(f"{name} of ")), "")
        assert set(names(told.partition(" of ")[2], sorted(folders))) == missing
    for part in ci.LONG:
        assert (" ".join(part.command) in commands.values()) != (" ".join(part.command[1:]) in said)
    for name in ci.PACKAGES:
        assert (name in commands) != (name in left)
    assert {"test", "lint", "docs", "mutants", "gccbits", "armbits", "fuzz"} <= set(commands)


def test_what_must_not_wait_for_a_later_run_is_not_rotating() -> None:
    required = {part.name for part in ci.parts(False)[0] if not part.rotating}
    assert {"test", "lint", "docs"} <= required
    assert required & {"asan", "tsan"}
    assert not required & {"gccbits", "armbits", "mutants", "fuzz", "faults", "long", *ci.PACKAGES}


def test_the_full_thing_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_LONG", "")  # which the full thing sets: here it is to be as it was
    full, left = ci.parts(True)
    commands = {part.name: part.command for part in full}
    assert left == []
    assert not [part.name for part in full if part.rotating]
    assert commands["mutants"] == ["make", "mutants"]
    assert commands["stress"] == ["make", "stress"]
    assert commands["lint"] == ["make", "lint", "LINT=--each"]
    for name in ("test", "docs", "asan", "tsan", "gcc", "arm", "faults"):
        assert commands[name] == ["make", name]
    assert set(ci.PACKAGES) <= set(commands)


def test_a_part_has_grown_by_what_the_speed_of_the_machine_does_not_explain() -> None:
    before = {name: ci.Taken(99, cpu) for name, cpu in {"test": 400, "lint": 100, "docs": 5, "asan": 200}.items()}
    twice_as_slow = {name: ci.Taken(7, 2 * one.cpu) for name, one in before.items()}  # whatever the wall time
    assert ci.grown(twice_as_slow, before) == {}
    assert ci.grown({**twice_as_slow, "lint": ci.Taken(7, 260)}, before) == {"lint": pytest.approx(1.3)}
    assert ci.grown({**twice_as_slow, "docs": ci.Taken(7, 15)}, before) == {}  # 5 s are noise
    assert ci.grown({"new": ci.Taken(50, 50)}, before) == {}


def test_a_part_that_takes_turns_is_compared_with_the_same_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ci, "SECONDS", tmp_path / "seconds.tsv")
    assert ci.recorded([ci.Part("asan", ["make", "asan"])]) == {}
    turn = ci.Part("asan", ["make", "asan", "FOLDERS=io store"])
    taken = {"asan": ci.Taken(10, 20), "asan build asan": ci.Taken(5, 9)}
    ci.record([turn], taken)
    assert ci.recorded([turn]) == taken
    other = ci.Part("asan", ["make", "asan", "FOLDERS=shm"])
    assert ci.recorded([other]) == {}
    assert ci.recorded([]) == {}
    # Of a turn that is not known, it is expected to take as much as the dearest that is.
    assert ci.expected([other])["asan"] == ci.Taken(10, 20)
    dearer = {"asan": ci.Taken(30, 60), "asan build asan": ci.Taken(6, 10)}
    ci.record([other, ci.Part("not run", [])], dearer)
    assert ci.recorded([turn]) == taken
    assert ci.recorded([other]) == dearer
    assert ci.expected([turn])["asan"] == ci.Taken(10, 20)
    assert ci.expected([ci.Part("asan", ["make", "asan", "FOLDERS=jpeg"])])["asan"] == ci.Taken(30, 60)


def shell(name: str, script: str, rotating: bool = False, computes: bool = False) -> object:
    return ci.Part(name, ["bash", "-c", script], rotating, computes)


def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[object], end_s: float = 600, **before: float):
    monkeypatch.setattr(ci, "ROOT", tmp_path)
    known = {name: ci.Taken(seconds, seconds) for name, seconds in before.items()}
    run = ci.Run(parts, known, end_s)
    run.all_of_it()
    return run


def test_a_part_has_the_cpu_seconds_of_all_its_processes_and_those_of_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = "bash -c 'while ((SECONDS < 2)); do :; done'; printf 'step\\t3\\t2\\nstep\\t1\\t1\\n' >> $CARYA_PARTS"
    run = run_of(tmp_path, monkeypatch, [shell("busy", busy), shell("idle", "sleep 0.3; exit 3", computes=True)])
    assert run.taken["busy step"] == (4, 3)
    assert run.taken["idle"].wall >= 0.3
    assert run.taken["idle"].cpu < 0.3
    assert run.taken["busy"].cpu > run.taken["idle"].cpu
    assert run.failed == ["idle"]
    assert run.left == []


def test_a_rotating_part_is_left_out_by_name_when_it_and_what_must_follow_would_end_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        shell("first", "sleep 1"),
        shell("rotates", "exit 1", rotating=True),
        shell("must", "exit 0"),
        shell("rotates_too", "exit 0", rotating=True),
    ]
    half = ci.GUARD_S / 2 + 1
    run = run_of(tmp_path, monkeypatch, parts, first=0.9, rotates=half, must=half, rotates_too=half)
    assert run.left == ["rotates (no time)"]
    assert run.failed == []
    assert {"must", "rotates_too"} <= set(run.taken)
    slow = run_of(tmp_path, monkeypatch, parts, first=0.01, must=0.001, rotates=100, rotates_too=1000)
    assert slow.left == ["rotates (no time)", "rotates_too (no time)"]  # a machine of a hundredth of the speed
    assert slow.failed == []


def test_a_rotating_part_is_left_out_when_the_other_lane_needs_the_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ci.os, "cpu_count", lambda: 2)
    parts = [shell("test", "sleep 2"), shell("bits", "exit 0", rotating=True, computes=True)]
    most = ci.GUARD_S * 2 * ci.BUSY
    assert run_of(tmp_path, monkeypatch, parts, test=most - 2000, bits=1900).left == []
    assert run_of(tmp_path, monkeypatch, parts, test=most - 1000, bits=1900).left == ["bits (no time)"]
    # A step of what runs took three times what is recorded: so will the rest.
    slow = "printf 'step\\t9\\t30\\n' >> $CARYA_PARTS; sleep 2"
    parts = [shell("test", slow), shell("quick", "sleep 1", computes=True), parts[1]]
    known = {"test": 1000, "test step": 10, "bits": 500}
    assert run_of(tmp_path, monkeypatch, parts, **known).left == ["bits (no time)"]
    assert run_of(tmp_path, monkeypatch, parts, **(known | {"test step": 30})).left == []


def test_a_run_ends_in_time_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    start = time.monotonic()
    run = run_of(
        tmp_path,
        monkeypatch,
        [
            shell("hangs", f"sleep 300 & echo $! > {pid}; wait"),
            shell("never", "exit 0"),
            shell("fuzz", "sleep 300", rotating=True, computes=True),
        ],
        end_s=1,
    )
    assert time.monotonic() - start < 60
    assert sorted(run.left) == ["fuzz (no time)", "hangs (no time)", "never (no time)"]
    assert sorted(run.failed) == ["hangs", "never"]  # fuzz may wait for a later run
    status = Path(f"/proc/{pid.read_text().strip()}/status")
    for _ in range(600):  # it was killed, and ends when a processor is free for it
        if not status.exists() or "State:\tZ" in status.read_text():
            return
        time.sleep(0.1)
    raise AssertionError(status.read_text())


def test_the_summary_names_growth_and_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path, monkeypatch, [shell("lint", "exit 1")], lint=100)
    run.taken |= {name: ci.Taken(100, 100) for name in ("test", "docs")}
    run.before |= {name: ci.Taken(50, 50) for name in ("test", "docs")}
    run.taken["lint"] = ci.Taken(1, 300)
    ci.show(run, ["tsan of shm"])
    said = capsys.readouterr().out
    assert re.search(r"^lint +1 +300 +100 +FAILED$", said, re.MULTILINE)
    assert "left to later runs (make all-checks runs all): tsan of shm\n" in said
    assert "grown by more than 20 %: lint\n" in said
