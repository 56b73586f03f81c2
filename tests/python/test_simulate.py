"""`carya simulate`: the table, the files that it takes and refuses, the plots."""

from __future__ import annotations

import copy
import itertools
import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest

from carya import InvalidArgument, _core
from carya._simulate import fleet, svg
from carya._simulate.scenario import complete, load_scenario

pytest.importorskip("typer")
pytest.importorskip("rich")

EXAMPLE = Path(__file__).parents[2] / "examples" / "overflow.json"


def _carya(*arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.ended(*arguments, COLUMNS="160")


@pytest.fixture
def scenario() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(EXAMPLE.read_text())
    return read


def test_the_example_ends_near_the_oracle_and_cheaper_than_local() -> None:
    result = _carya("simulate", str(EXAMPLE), "--json")
    assert result.returncode == 0, result.stderr
    rows = {row["policy"]: row for row in json.loads(result.stdout)["scenarios"][0]["policies"]}
    assert rows["Carya"]["workers"] > 0
    assert rows["Carya"]["cost_per_epoch"] < 0.7 * rows["all local"]["cost_per_epoch"]
    assert rows["Carya"]["cost_per_epoch"] < 1.03 * rows["oracle"]["cost_per_epoch"]
    assert rows["Carya"]["moments"][0]["workers"] == 0
    assert rows["Carya"]["moments"][-1]["at_s"] == pytest.approx(3600, abs=30)


def test_the_same_file_gives_the_same_figures_and_another_seed_others(scenario: dict[str, Any], tmp_path: Path) -> None:
    scenario["noise"], scenario["workers"]["fails_per_hour"] = 0.3, 2
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    first, again = _carya("simulate", str(path), "--json"), _carya("simulate", str(path), "--json")
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    assert _carya("simulate", str(path), "--json", "--seed", "7").stdout != first.stdout


def test_pecans_workloads_have_all_rows_and_ours_costs_least(tmp_path: Path) -> None:
    svg = tmp_path / "pecan.svg"
    result = _carya("simulate", "pecan", "--json", "--svg", str(svg))
    assert result.returncode == 0, result.stderr
    groups = json.loads(result.stdout)["scenarios"]
    names = ["collocated", "Cachew", "FastFlow", "AutoPlacement only", "AutoOrder only", "Pecan", "oracle", "Carya"]
    assert len(groups) == 6  # five workloads, and the run whose log was published
    for group in groups:
        rows = {row["policy"]: row for row in group["policies"]}
        assert list(rows) == names
        assert rows["Carya"]["cost_per_epoch"] <= rows["Pecan"]["cost_per_epoch"]
        assert rows["Carya"]["cost_per_epoch"] <= 1.03 * rows["oracle"]["cost_per_epoch"]
    drawn = ElementTree.parse(svg).getroot()
    lines = [path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if path.get("class") == "line"]
    assert len(lines) == 2 * 8 * 6
    for plot in range(12):  # of lines in one place all are seen: each is thinner than those below it
        widths = [float(line.attrib["stroke-width"]) for line in lines[8 * plot : 8 * plot + 8]]
        assert widths == sorted(set(widths), reverse=True)
        assert len({line.attrib["stroke"] for line in lines[8 * plot : 8 * plot + 8]}) == 8
    ticks = [text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text") if text.get("text-anchor")]
    assert {"0", "1", "0 min"} <= set(ticks)
    assert all(re.fullmatch(r"\d+(\.\d)? min|\d+|\d*\.\d{1,2}", tick) for tick in ticks), ticks


@pytest.mark.parametrize(
    ("top", "ticks"), [(1, [0, 1]), (3, [0, 1, 2, 3]), (5, [0, 1, 2, 3, 4, 5]), (17, [0, 5, 10, 15])]
)
def test_workers_are_counted_in_whole_numbers(top: float, ticks: list[float]) -> None:
    assert svg._ticks(top, (1, 2, 5), whole=True) == ticks


# Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency (2009), severity 1.
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(color: str) -> np.ndarray:
    values = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    """CIELAB under D65."""
    ratios = XYZ @ np.clip(light, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISIONS)
def test_lines_differ_for_everyone(vision: str) -> None:
    colors = svg.COLORS
    assert len(colors) == 8
    for one, other in itertools.combinations(colors, 2):
        seen = [lab(VISIONS[vision] @ linear(color)) for color in (one, other)]
        assert np.linalg.norm(seen[0] - seen[1]) > 20, (one, other)  # 2.3 is just noticeable


def test_lines_stand_out_of_both_papers() -> None:
    """The contrast that WCAG 2.1 asks of graphics: 3 to 1."""
    for paper in ("#ffffff", "#14191f"):
        assert paper in svg.STYLE
        for color in svg.COLORS:
            light = sorted((XYZ[1] @ linear(each) for each in (paper, color)), reverse=True)
            assert (light[0] + 0.05) / (light[1] + 0.05) > 3, (paper, color)


def test_the_table_names_every_policy(tmp_path: Path) -> None:
    svg = tmp_path / "plot.svg"
    result = _carya("simulate", str(EXAMPLE), "--svg", str(svg))
    assert result.returncode == 0, result.stderr
    for word in ("all local", "Carya", "oracle", "$ / epoch", f"Plots: {svg}"):
        assert word in result.stdout
    drawn = list(ElementTree.parse(svg).getroot())
    for swatch, name in itertools.pairwise(drawn):  # a name stands clear of its color and of the next one
        if swatch.tag.endswith("rect") and name.tag.endswith("text") and swatch.get("class") is None:
            assert float(name.attrib["x"]) - float(swatch.attrib["x"]) - float(swatch.attrib["width"]) >= 4


def test_a_fleet_costs_little_more_than_who_knows_all_and_starves_nobody() -> None:
    minutes: list[int] = []
    found = _core.simulate_fleet(60, 600, 30, 1.0, 1, lambda minute: minutes.append(minute) or True)
    assert minutes == list(range(30))
    assert found["jobs"] > 60
    assert found["starved_s"] == 0
    assert found["workers_used"] > 10
    assert found["cost_best"] <= found["cost"] <= 1.03 * found["cost_best"]
    assert found["cost"] < 0.9 * found["cost_local"]
    often = _core.simulate_fleet(60, 600, 30, 60.0, 1)
    assert often["cost"] / often["cost_best"] > found["cost"] / found["cost_best"], "preemption costs"


def test_a_fleet_has_tables_and_plots_of_its_users() -> None:
    found = [_core.simulate_fleet(40, workers, 5, 1.0, 2) for workers in (400, 50)]
    (title, heads, rows, said), (_, user_heads, users, _) = fleet.tables(found)
    assert title == "A fleet that hosts and users share"
    assert all(len(row) == len(heads) for row in rows)
    assert rows[1][0] == "50"
    assert float(rows[1][3]) == pytest.approx(found[1]["cost"] / found[1]["cost_best"], abs=1e-4)
    assert "40 hosts" in said
    assert len(users) == 20
    assert all(len(row) == len(user_heads) for row in users)
    assert [row[1] for row in users[:5]] == ["1", "2", "3", "4", "1"]
    drawn = ElementTree.fromstring(fleet.draw(found))
    lines = [path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if path.get("class") == "line"]
    assert len(lines) == 2 * (4 + 2), "a line for each weight, one for shares and one for costs"


def test_simulate_fleet_is_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fleet, "HOSTS", 20)
    monkeypatch.setattr(fleet, "MINUTES", 3)
    monkeypatch.setattr(fleet, "FLEETS", (200, 20))
    import typer
    from typer.testing import CliRunner

    from carya._cli.main import make_app

    plot = tmp_path / "fleet.svg"
    shown = CliRunner().invoke(make_app(typer), ["simulate", "fleet", "--plot", str(plot)])
    assert shown.exit_code == 0, shown.output
    assert "Who knows all pays no start" in shown.output
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")
    printed = CliRunner().invoke(make_app(typer), ["simulate", "fleet", "--json"])
    fleets = json.loads(printed.output)["fleets"]
    assert [one["workers"] for one in fleets] == [200, 20]
    assert len(fleets[0]["users"][0]["workers"]) == 3


def test_help_has_an_example() -> None:
    assert "Example: carya simulate" in _carya("simulate", "--help").stdout


WRONG = [
    (("host", "cores"), 0, "host.cores: got 0; give a number above 0"),
    (("host", "cores"), "many", "host.cores: got 'many'; give a number"),
    (("host", "cores"), "8", "host.cores: got '8'; give a number"),
    (("host", "cores"), True, "host.cores: got True; give a number"),
    (("host", "price"), None, "host.price: it is missing"),
    (("host", "price"), float("nan"), "host.price: got nan; give a number"),
    (("host", "price"), 10**400, "host.price: got 1000"),
    (("host", "colour"), 1, "host.colour: there is no such field"),
    (("host",), [], "host: got []; give an object"),
    (("workers", "max"), 1e9, "workers.max: got 1000000000.0; give a number from 0 to 1000"),
    (("workers", "max"), 1.5, "workers.max: got 1.5; give a whole number"),
    (("trainer", "samples_per_s"), -1, "trainer.samples_per_s: got -1; give"),
    (("cuts",), {}, "cuts: got {}; give a list"),
    (("cuts",), [{"host_cpu_s": 1}], "cuts[0].worker_cpu_s: it is missing"),
    (("cuts",), [1], "cuts[0]: got 1; give an object"),
    (("events",), [{"at_s": 1, "what": "rain"}], "events[0].what: got 'rain'; give one of demand"),
    (("events",), [{"at_s": 1e9, "what": "demand", "factor": 2}], "events[0].at_s: got 1000000000.0; give"),
    (("events",), [{"at_s": 1, "what": "demand"}], "events[0].factor: it is missing"),
    (("hours",), 1e9, "hours: got 1000000000.0; give a number from 0.05 to 200"),
    (("seed",), 0.5, "seed: got 0.5; give a whole number"),
    (("name",), 3, "name: got 3; give a text"),
    (("\x1b[2J",), 3, "there is no such field"),
]


@pytest.mark.parametrize(("where", "value", "message"), WRONG, ids=[message[:40] for _, _, message in WRONG])
def test_a_wrong_field_is_named(scenario: dict[str, Any], where: tuple[str, ...], value: Any, message: str) -> None:
    wrong = copy.deepcopy(scenario)
    part = wrong
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = value
    with pytest.raises(InvalidArgument) as raised:
        complete(wrong)
    assert message in str(raised.value)
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "[", "[]", "null", '{"host": ' * 5000, "\x00"])
def test_what_is_no_scenario_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(text)
    result = _carya("simulate", str(path))
    assert result.returncode == 1
    assert result.stderr.startswith(f"carya: {path}: ")
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_not_there_says_what_to_give() -> None:
    result = _carya("simulate", "nothing.json")
    assert result.returncode == 1
    assert "or the word pecan" in result.stderr


def test_the_example_of_the_page_is_the_file() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "simulate.md").read_text()
    assert json.loads(page.split("```json")[1].split("```")[0]) == json.loads(EXAMPLE.read_text())


def test_missing_fields_have_their_defaults(scenario: dict[str, Any]) -> None:
    least = {key: scenario[key] for key in ("host", "trainer", "workers")}
    made = complete(least)
    assert made["workers"]["max"] == 40
    assert made["noise"] == 0.05
    assert made["cuts"] == []
    assert load_scenario(str(EXAMPLE))["events"] == [{"at_s": 1200.0, "factor": 2.0, "kind": 0}]
