"""`carya simulate cachew`: Cachew's own choices as published, ours beside them, by the code that decides in a loader."""

from __future__ import annotations

import itertools
import json
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import commands
import pytest

from carya import InvalidArgument, _core
from carya._simulate import cachew, caching, experiments, pool

pytest.importorskip("typer")
pytest.importorskip("rich")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    result = _simulate("--json")
    assert result.returncode == 0, result.stderr
    read: dict[str, Any] = json.loads(result.stdout)
    return read


def _simulate(*words: str) -> subprocess.CompletedProcess[str]:
    return commands.ended("simulate", "cachew", *words, COLUMNS="160")


def test_cachews_table_is_linear_between_its_points_and_beyond_both_ends() -> None:
    assert cachew.row_ms(5e6) == pytest.approx(5.626863)
    assert cachew.row_ms(7.5e6) == pytest.approx((5.626863 + 11.9417165) / 2)
    assert cachew.row_ms(20e3) == pytest.approx(-0.019, abs=0.001), "small rows cost less than nothing"
    assert cachew.row_ms(86.5e3) == pytest.approx(0, abs=1e-4)
    assert cachew.row_ms(800e6) == pytest.approx(624.65508275 + 2 * (624.65508275 - 306.62446275))


def test_cachew_decides_seven_of_the_eight_published_points_right_and_carya_all(found: dict[str, Any]) -> None:
    rows = found["fig7"]
    assert [row["cachew"] for row in rows] == ["source"] * 4 + ["full"] * 4, "as published"
    assert [row["sleep_ms"] for row in rows if row["cachew_cost"] > 1.02] == [400]
    assert rows[4]["cachew_cost"] == pytest.approx(1.07, abs=0.005)
    assert max(row["carya_cost"] for row in rows) <= 1.02
    assert {row["carya"] for row in rows} == {"source", "compute", "full"}
    for row in rows:  # the world is the published one, within 4 %
        for place, told in row["published_ms"].items():
            assert row["world_ms"][place] == pytest.approx(told, rel=0.04)


def test_of_drawn_worlds_nineteen_of_twenty_are_within_a_twentieth_of_the_best(found: dict[str, Any]) -> None:
    grid = found["grid"]
    assert len(grid) == 200
    many = experiments.counts(grid)
    assert many["carya"] >= 0.95 * many["worlds"]
    assert many["carya"] > many["nothing"] > many["cachew"]
    assert len({row["best"] for row in grid}) > 10, "no one answer is right everywhere"
    assert all(row["carya_cost"] >= 1 for row in grid)


def test_what_a_fixed_choice_costs_is_played_epoch_by_epoch() -> None:
    kept = caching.Kept("all", 2.0, 0.5, 10.0, copy_s=0.25, fetch_s=1.0, put_s=4.0, capacity=50.0)
    world = caching.Caching("by hand", 2.0, 0.1, 2, 10, 3, (kept,))  # half fits
    assert caching.epoch_s(world, None, 0) == pytest.approx(1.0, rel=1e-6)
    assert caching.epoch_s(world, 0, 0) == pytest.approx(2.0, rel=1e-6), "half of the records is put, 4 s each"
    assert caching.epoch_s(world, 0, 1) == pytest.approx((1.0 + 0.5 * 0.75) / 2, rel=1e-3)
    assert caching.run_s(world, 0) == pytest.approx(2.0 + 2 * (1.0 + 0.5 * 0.75) / 2, rel=1e-3)


def test_the_code_of_the_loader_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def nothing(facts: dict[str, Any]) -> dict[str, Any]:
        asked.append(facts)
        return {"place": None}

    monkeypatch.setattr(_core, "choose_cache", nothing)
    assert {row["carya"] for row in caching.fig7()} == {"compute"}
    assert len(asked) == 8


def test_what_cannot_be_chosen_of_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"cache: after 0 ops: fetch_s is -1"):
        _core.choose_cache(
            {
                "sample_s": 1.0,
                "records": 1.0,
                "epochs_left": 2.0,
                "places": [{"fill_s": 1.0, "hit_s": 0.1, "bytes": 1.0, "fetch_s": -1.0}],
            }
        )


def test_cachew_scales_to_the_published_numbers_of_workers(found: dict[str, Any]) -> None:
    six = found["fig6a"]
    assert six["cachew"] == 4
    assert six["world_s"] == pytest.approx(six["published_s"], rel=0.05)
    assert 3 <= six["carya"] <= 7
    assert six["cost"][six["carya"] - 1] <= 1.03 * min(six["cost"])


def test_a_stable_count_changes_when_a_batch_takes_half_as_long_again() -> None:
    scaling = cachew.Scaling(workers_max=8)
    for seconds in (1.0, 0.5, 0.49):
        scaling.take(seconds)
    assert (scaling.workers, scaling.stable) == (2, True)
    for _ in range(25):
        scaling.take(0.5)
    assert scaling.workers == 2
    scaling.take(0.9)
    assert (scaling.workers, scaling.stable) == (3, False)


def test_two_jobs_of_one_pipeline_meet_the_bars(found: dict[str, Any]) -> None:
    ten = found["fig10"]
    lines = {(line["policy"], line["job"]): line for line in ten["lines"]}
    assert lines["Cachew", "job 1"]["modes"] == ["profile", "put", "get", "get"]
    assert lines["Cachew", "job 1"]["workers"] == 2, "as published, while it reads"
    assert lines["Cachew", "job 2"]["workers"] == 4
    counts = [workers for _, workers in lines["Cachew", "job 1"]["moments"]]
    resets = [after for before, after in itertools.pairwise(counts) if before > 2 and after == 1]
    assert len(resets) == 2, "it begins again at each change of mode"
    assert ten["carya_keeps"] == "full"
    for job, ideal in ten["ideal_s"].items():
        ours = lines["Carya", job]
        assert ours["epoch_s"][0] <= 1.05 * ideal, job
        assert max(ours["epoch_s"]) <= 1.05 * ideal, job
        assert ours["changes"] <= 3, job
    assert ten["worker_s"]["Carya"] <= 0.7 * min(ten["worker_s"]["Cachew"], ten["worker_s"]["published"])


def test_tables_and_plots_have_all_of_it(tmp_path: Path) -> None:
    svg = tmp_path / "cachew.svg"
    result = _simulate("--svg", str(svg))
    assert result.returncode == 0, result.stderr
    for word in ("Fig. 7", "drawn worlds", "Fig. 6a", "Fig. 10", "worker-seconds", f"Plots: {svg}"):
        assert word in result.stdout
    drawn = ElementTree.parse(svg).getroot()
    lines = [one for one in drawn.iter("{http://www.w3.org/2000/svg}path") if one.get("class") == "line"]
    assert len(lines) == 5 + 3 + 2 + 4
    assert "NaN" not in svg.read_text()


def test_the_same_seed_gives_the_same_figures_and_another_one_others(found: dict[str, Any]) -> None:
    assert json.loads(_simulate("--json").stdout) == found
    assert [row["world"] for row in caching.grid(2, 7)] == [7, 8]


def test_a_world_of_other_rates_has_its_worker_seconds() -> None:
    """What bench/two_jobs.py holds its own against."""
    published = pool.fig10()["worker_s"]["Cachew"]
    assert pool.fig10_by_cachew(583 / 2560) == (pytest.approx(published), pytest.approx(250.2, abs=0.1))
    strong, _ = pool.fig10_by_cachew(1.0)
    assert strong < published / 2, "a worker that serves the trainer alone"
