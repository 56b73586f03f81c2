"""The Grafana dashboard as a document: what Grafana takes silently and shows wrongly (test_prometheus.py asks its queries)."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

DASHBOARD = Path(__file__).parents[2] / "packaging" / "grafana" / "carya.json"
COLUMNS = 24  # of Grafana's grid

Panel = dict[str, Any]


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def rows() -> list[list[Panel]]:
    """The panels that are placed together: the open ones, and those of each closed row, below it."""
    shown: list[Panel] = document()["panels"]
    return [shown, *([one, *one["panels"]] for one in shown if one["type"] == "row" and one["panels"])]


def panels() -> list[Panel]:
    """All that ask something, also those in closed rows."""
    return [one for row in rows() for one in row if one["type"] != "row"]


def titled(title: str) -> Panel:
    (found,) = [one for one in panels() if one["title"] == title]
    return found


def test_grafana_9_knows_all_that_is_in_it() -> None:
    """Later ones raise a document to their own schema; none lowers one. 36 is that of Grafana 9.0."""
    assert document()["schemaVersion"] <= 36
    assert {one["type"] for one in panels()} <= {"stat", "state-timeline", "timeseries"}


def test_panels_have_numbers_of_their_own() -> None:
    """Of two with the same number Grafana shows or opens one."""
    numbers = [one["id"] for one in [*panels(), *(one for one in document()["panels"] if one["type"] == "row")]]
    assert len(set(numbers)) == len(numbers)


def test_the_grid_has_no_holes_and_nothing_lies_on_another() -> None:
    for row in rows():
        taken: set[tuple[int, int]] = set()
        for one in row:
            at = one["gridPos"]
            cells = set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
            assert not cells & taken, one["title"]
            taken |= cells
        begin, end = min(y for _, y in taken), max(y for _, y in taken) + 1
        assert taken == set(itertools.product(range(COLUMNS), range(begin, end))), row[0]["title"]


@pytest.mark.parametrize("one", panels(), ids=lambda one: str(one["title"]))
def test_each_panel_says_what_it_shows(one: Panel) -> None:
    assert re.fullmatch(r"[A-Z].*\.", one["description"])
    assert one["fieldConfig"]["defaults"]["unit"]
    assert one["datasource"] == {"type": "prometheus", "uid": "${source}"}
    assert one["type"] != "stat" or len(one["title"]) <= 24  # more is cut, at 1440 pixels
    assert one["type"] != "timeseries" or one["options"]["legend"]["displayMode"] == "table"  # a list of many is cut


@pytest.mark.parametrize("one", panels(), ids=lambda one: str(one["title"]))
def test_queries_take_what_was_chosen(one: Panel) -> None:
    for target in one["targets"]:
        for name, labels in re.findall(r"\b((?:carya|process)_\w+|up)\{(.*?)\}", target["expr"]):
            job = not re.match(
                "process_|carya_(user|uptime|connections|function_|shared_memory|cache_memory|readers_|cache_written_day)",
                name,
            )
            assert 'instance=~"$host"' in labels
            assert ('user=~"$user"' in labels) == (name != "up")
            assert ('carya_job=~"$job"' in labels) == (job and name != "up"), name


@pytest.mark.parametrize("one", panels(), ids=lambda one: str(one["title"]))
def test_windows_are_as_long_as_scraping_needs(one: Panel) -> None:
    """A rate over a minute has no value where Prometheus looks once a minute, its default; $__rate_interval is four looks."""
    for target in one["targets"]:
        windows = re.findall(r"\[(.*?)\]", re.sub(r"\{.*?\}", "", target["expr"]))
        assert set(windows) <= {"$__rate_interval", "5m", "1h", "1d"}, target["expr"]


def test_counters_are_read_as_counters() -> None:
    """A slope would be wrong at each restart of a daemon."""
    used = [target["expr"] for one in panels() for target in one["targets"] if "carya_op_cpu" in target["expr"]]
    assert used
    assert all(re.search(r"\brate\(carya_op_cpu", one) for one in used)
    assert not [one for one in used if "deriv" in one]


@pytest.mark.parametrize("one", panels(), ids=lambda one: str(one["title"]))
def test_lines_of_a_panel_have_names_that_differ(one: Panel) -> None:
    """All labels that a sum keeps are in the legend, and of several queries each says which it is."""
    legends = [target["legendFormat"] for target in one["targets"]]
    assert len(set(legends)) == len(legends)
    for target in one["targets"]:
        kept = re.match(r"(?:max|sum) by \((.*?)\)", target["expr"])
        if kept:
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) == set(kept[1].split(", "))


def test_a_panel_has_one_unit() -> None:
    """Cores and GiB, or a rate and what there is, on one axis: the smaller one lies on 0."""
    for one in panels():
        rates = {bool(re.search(r"\b(rate|increase|deriv)\(", target["expr"])) for target in one["targets"]}
        assert len(rates) == 1, one["title"]
        seconds = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
        assert len({name for name in seconds if name in str(one["targets"])}) <= 1, one["title"]


def test_what_alerts_fire_at_is_seen() -> None:
    stall = titled("Share of time that readers wait")["fieldConfig"]["defaults"]
    assert stall["custom"]["thresholdsStyle"] == {"mode": "dashed"}
    assert {step["value"] for step in stall["thresholds"]["steps"]} == {None, 0.1}
    assert stall["custom"]["axisSoftMax"] > 0.1  # else a calm day's axis ends below the line
    first = [one["title"] for one in document()["panels"][:4]]
    assert first == ["Longest wait of a reader", "Daemons down", "Workers missing", "Broken records in 1 h"]
    for title in first:  # what is not known is not green
        one = titled(title)["fieldConfig"]["defaults"]
        assert one["noValue"]
        assert one["thresholds"]["steps"][0]["color"] != "green"


def test_whether_a_user_is_answered_is_no_time() -> None:
    users = titled("Daemons of users that answer")["fieldConfig"]["defaults"]
    assert users["unit"] == "none"
    assert {key: one["text"] for key, one in users["mappings"][0]["options"].items()} == {
        "0": "no answer",
        "1": "answers",
    }
