"""What `explain` says: measured and assumed figures, as a dict, a text and a picture."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from daemons import running

import carya
from carya._explain.explanation import Explanation, microseconds

SVG = "{http://www.w3.org/2000/svg}"


def chain(folder: Path) -> carya.Pipeline:
    return (
        carya.image_folder(str(folder))
        .shuffle(seed=3)
        .decode_image()
        .color_jitter(0.4, saturation=0.4, hue=0.1)
        .random_horizontal_flip()
        .random_crop(40, pad_if_needed=True, padding_mode="edge")
        .normalize(mean=0.4, std=0.2)
        .batch(4)
    )


def measured(pipeline: carya.Pipeline, epochs: int = 12, **options: object) -> tuple[carya.Loader, Explanation]:
    with carya.Loader(pipeline, epochs=epochs, **options) as loader:  # type: ignore[arg-type]
        for _ in range(epochs):
            for _batch in loader:
                pass
        return loader, loader.explain()


def check_measured(report: Explanation) -> None:
    """Every figure of the order that ran was timed, or is said to be assumed."""
    present = [ran for ran in report["measured"] if ran["order"] == report["order"]]
    assert len(present) == 1
    assert present[0]["us"] == pytest.approx(sum(stage["us"] for stage in present[0]["stages"]))
    assert {op for stage in present[0]["stages"] for op in stage["ops"]} == set(report["order"])
    for op in report["ops"]:
        assert op["source"] in ("measured", "shared")
        assert op["samples"] > 0
        assert 0 <= op["age_s"] < 600
    assert report["assumed"] == []
    assert report["sizes"]["pictures"] > 0


def test_a_loader_says_what_it_measured(photos: Path) -> None:
    _, report = measured(chain(photos), daemon="embedded", threads=1)
    check_measured(report)
    assert report["order"].index("random_crop") < report["order"].index("color_jitter")
    assert report["parallelism"]["threads"] == 1
    assert report["parallelism"]["slots"] > 1
    text = str(report)
    assert "pass, as timed" in text
    assert "assumed" not in text
    assert text.startswith(" > ".join(report["order"]))


def test_one_text_has_one_set_of_figures(photos: Path) -> None:
    """A decode that only a crop's region is needed of costs less than the estimate of the whole picture: one is shown."""
    _, report = measured(
        carya.image_folder(photos).decode_image().color_jitter(0.4).random_crop(32).batch(4), epochs=20
    )
    (ran,) = [one for one in report["measured"] if one["order"] == report["order"]]
    text = str(report)
    for name in report["order"]:  # at the beginning of one line of one table
        stages = [stage["name"] for stage in ran["stages"] if name in stage["ops"]]
        assert sum(line.startswith((f"{stages[0]} ", f"{name} ")) and "%" in line for line in text.splitlines()) == 1
    us = microseconds(ran["us"])
    assert f"{us} us of CPU time per sample" in text
    assert f"At {us} us a thread makes" in text
    for op, other in re.findall(r"^(\w+) shares the pass of (\w+)", text, re.MULTILINE):
        assert any({op, other} <= set(stage["ops"]) for stage in ran["stages"])
    assert "inf" not in re.findall(r"\w+", text)


def test_a_daemon_measures_for_its_readers(photos: Path) -> None:
    with running() as daemon:
        _, report = measured(chain(photos), daemon=daemon.socket)
    check_measured(report)


def test_what_was_measured_is_kept_for_the_next(photos: Path) -> None:
    _, report = measured(chain(photos), daemon="embedded")
    kept = chain(photos).explain()
    check_measured(kept)
    assert kept["measured"][-1]["samples"] == report["measured"][-1]["samples"]
    assert "assumed" not in str(kept)


def test_the_order_that_runs_is_explained_whatever_is_cheaper(photos: Path, tmp_path: Path) -> None:
    _, report = measured(chain(photos), daemon="embedded", reorder="off")
    assert report["order"] == report["declared"]
    assert report["moves"] == []
    pipeline = chain(photos)
    plan = json.loads(pipeline.native.freeze_plan(reorder="exact", order=[0, 1, 2, 3, 4]))
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    _, report = measured(pipeline, daemon="embedded", plan=tmp_path / "plan.json")
    assert report["order"] == report["declared"]
    assert report["best"]["order"] != report["order"]
    assert report["best"]["us"] < report["us"]
    assert "the plan was given and is kept" in str(report)
    assert report["plan"] == str(tmp_path / "plan.json")


def test_before_anything_ran_all_is_assumed(photos: Path) -> None:
    report = chain(photos).explain()
    assert sorted(report["assumed"]) == sorted(report["order"])
    assert all(op["source"] == "assumed" and op["age_s"] is None for op in report["ops"])
    assert report["measured"] == []
    assert report["ops"][1]["text"].startswith("random_")
    text = str(report)
    assert text.count("assumed") == len(report["ops"])
    assert "random_crop runs before color_jitter (saves at least" in text
    assert "cores allowed" in text


def test_what_relaxed_would_bring_is_said_first(photos: Path) -> None:
    pipeline = carya.image_folder(photos).decode_image().equalize().resize((16, 16)).batch(4)
    report = pipeline.explain()
    assert report["order"] == report["declared"]
    assert report["relaxed"]["order"] == pipeline.explain("relaxed")["order"] == ["decode_image", "resize", "equalize"]
    assert report["relaxed"]["indices"] == [0, 2, 1]
    assert report["relaxed"]["us"] < 0.95 * report["us"]
    said = str(report).splitlines()[0]
    assert said.startswith('reorder="relaxed" would make a sample ')
    assert "decode_image > resize > equalize. The bits would be others" in said
    with carya.Loader(pipeline) as loader:
        assert loader.explain()["relaxed"]["order"] == report["relaxed"]["order"]
    for sense in ("relaxed", "off"):
        assert pipeline.explain(sense)["relaxed"] is None  # type: ignore[arg-type]
    nothing_moves = carya.image_folder(photos).decode_image().resize((16, 16)).batch(4).explain()
    assert nothing_moves["relaxed"] is None
    assert "relaxed" not in str(nothing_moves)


def test_passes_are_marked(photos: Path) -> None:
    report = chain(photos).explain()
    assert report["stages"][0][0] == "decode_image"
    fused = [op["op"] for op in report["ops"] if op["fused"]]
    assert fused == [name for stage in report["stages"] for name in stage[1:]]
    assert all(f"+ {name}" in str(report) for name in fused)


def boxes(picture: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(picture).iter(f"{SVG}text")]


def test_the_picture_has_both_orders_and_every_move(photos: Path) -> None:
    report = chain(photos).explain()
    picture = report.svg()
    root = ET.fromstring(picture)
    assert root.tag == f"{SVG}svg"
    names = [text for text in boxes(picture) if text in report["order"]]
    assert names == report["declared"] + report["order"]
    arrows = [path for path in root.iter(f"{SVG}path") if path.get("class") == "moved"]
    assert len(arrows) == len({move["op"] for move in report["moves"]}) > 0
    assert "prefers-color-scheme: dark" in picture
    assert "href" not in picture  # nothing is fetched
    assert report._repr_svg_() == picture


def test_a_picture_of_any_report_is_xml(photos: Path) -> None:
    """A report may come from a file: names are text, whatever they hold."""
    report = copy.deepcopy(chain(photos).explain())
    hostile = '</text><script>alert("1")</script>&\x00\x1b]]>' + "x" * 200
    swap = json.loads(json.dumps(report).replace('"color_jitter"', json.dumps(hostile)))
    root = ET.fromstring(Explanation(swap).svg())
    assert list(root.iter(f"{SVG}script")) == []
    assert any("<script>" in (title.text or "") for title in root.iter(f"{SVG}title"))
    empty = carya.image_folder(str(photos)).explain()  # no operation at all
    ET.fromstring(empty.svg())
    assert "0.00 us" in str(empty)


def test_the_command_draws(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(chain(photos).to_json())
    command = [sys.executable, "-m", "carya", "explain", str(tmp_path / "p.json"), "--svg", str(tmp_path / "plan.svg")]
    subprocess.run(command, check=True, capture_output=True)
    assert "As it runs" in boxes((tmp_path / "plan.svg").read_text())
