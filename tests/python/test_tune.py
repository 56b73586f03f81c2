"""`carya profile` and `carya tune`: what is measured before a long training."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from daemons import until
from test_explain import chain

import carya
from carya import _core
from carya._cli import measuring

pytest.importorskip("typer")
pytest.importorskip("rich")


@pytest.fixture
def document(photos: Path, tmp_path: Path) -> str:
    (tmp_path / "p.json").write_text(chain(photos).to_json())
    return str(tmp_path / "p.json")


def command(*words: str, code: int = 0) -> str:
    return run(*words, code=code, COLUMNS="120")


def test_profile_measures_the_order_as_written_and_keeps_it(document: str, photos: Path) -> None:
    report = json.loads(command("profile", document, "--seconds", "0.5", "--json"))
    assert report["order"] == report["declared"]
    assert report["best"]["order"] != report["order"]
    assert report["run"]["samples"] > 0
    assert report["run"]["samples_per_s"] > 0
    assert report["assumed"] == []
    for op in report["ops"]:
        assert op["source"] != "assumed"
        assert op["bytes_in"] > 0
    assert chain(photos).explain()["assumed"] == []
    text = command("profile", document, "--seconds", "0.2")
    assert "pass, as timed" in text
    assert "By the estimates the cheapest order is" in text
    assert "samples/s" in text


def test_profile_takes_another_folder(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "p.json").write_text(chain(tmp_path / "elsewhere").to_json())
    assert "elsewhere" in command("profile", str(tmp_path / "p.json"), code=1)
    report = json.loads(
        command("profile", str(tmp_path / "p.json"), "--data", str(photos), "--seconds", "0.2", "--json")
    )
    assert report["run"]["samples"] > 0
    arrays = tmp_path / "arrays.py"
    arrays.write_text("import carya, numpy\np = carya.arrays({'x': numpy.zeros((9, 4), 'uint8')}).batch(4)\n")
    assert "reads from arrays" in command("profile", str(arrays), "--data", str(photos), code=1)
    assert json.loads(command("profile", str(arrays), "--seconds", "0.1", "--json"))["run"]["samples"] > 0


def test_tune_shows_what_each_technique_brings(document: str, photos: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    words = ("tune", document, "--seconds", "0.1", "--rounds", "2", "-o", str(plan), "--json")
    result = json.loads(command(*words))
    names = [line["setting"] for line in result["settings"]]
    assert names[:4] == ["as written, one by one", "order", "fusion", "order + fusion"]
    assert all(name.startswith("order + fusion + ") for name in names[4:])
    assert result["best"] in names
    assert result["finished"]
    for line in result["settings"]:
        assert 0 < line["lowest"] <= line["samples_per_s"] <= line["highest"]
        assert line["cpu_us_per_sample"] > 0
    assert result["settings"][0]["times"] == 1
    with carya.Loader(chain(photos), epochs=1, plan=plan, daemon="embedded") as loader:
        assert loader.stats()["order"] == result["order"]
    written = json.loads(plan.read_text())
    assert [op["op"] for op in written["chosen_by"]["ops"]] == result["order"]


def test_tune_tries_an_order_with_other_bits_when_it_is_allowed(photos: Path, tmp_path: Path) -> None:
    pipeline = carya.image_folder(str(photos)).decode_image().equalize().resize((24, 24)).batch(4)
    (tmp_path / "p.json").write_text(pipeline.to_json())
    words = ("tune", str(tmp_path / "p.json"), "--seconds", "0.05", "--rounds", "1", "--reorder", "relaxed")
    result = json.loads(command(*words, "--json"))
    assert result["settings"][2]["setting"] == "relaxed order + fusion"
    fixed = pipeline.native.fixed_order("relaxed")
    settings = measuring._settings(pipeline.explain(), 2, "relaxed", fixed)
    assert [setting.options["reorder"] for setting in settings] == ["off", "off", "relaxed", "relaxed"]
    assert settings[-1].options["order"] == fixed == [0, 2, 1]
    assert '"exact"' in command(*words[:-1], "none", code=1)


def test_each_setting_is_what_it_says(photos: Path) -> None:
    report = measuring.profile(chain(photos), 0.3, lambda done, whole, text: None)
    settings = measuring._settings(report, 4)
    assert [setting.threads for setting in settings] == [1, 1, 1, 1, 2, 4]
    stages, orders = [], []
    for setting in settings:
        given: dict[str, Any] = {"epochs": 1, "daemon": "embedded", "threads": setting.threads}
        with carya.Loader._create(chain(photos), measuring=setting.options, **given) as loader:
            rows = sum(len(batch.records) for batch in loader)
            stages.append([stage["name"] for stage in loader.stats()["ops"]])
            orders.append(loader.stats()["order"])
        assert rows == 27
    declared, best = report["declared"], report["best"]["order"]
    assert orders == [declared, best, declared, best, best, best]
    assert stages[0] == stages[1] == ["op_by_op"]
    assert all("op_by_op" not in names for names in stages[2:])


def test_an_order_as_written_has_no_setting_of_its_own(photos: Path) -> None:
    pipeline = carya.image_folder(str(photos)).decode_image().equalize().resize((24, 24)).batch(200)
    result = measuring.tune(pipeline, 0.05, 1, lambda done, whole, text: None)
    assert [line["setting"] for line in result["settings"]][:2] == ["as written, one by one", "fusion"]
    assert result["order"] == result["declared"]


def test_small_and_unbatched_data_is_measured_too(photos: Path) -> None:
    few = carya.image_folder(str(photos)).take(3).decode_image().resize((8, 8)).batch(128, drop_last=True)
    assert measuring.profile(few, 0.05, lambda done, whole, text: None)["run"]["samples"] >= 3
    unbatched = carya.image_folder(str(photos)).decode_image().resize((8, 8))
    assert measuring.profile(unbatched, 0.05, lambda done, whole, text: None)["run"]["samples"] > 0
    functions = few.map_batch(lambda batch: 1 / 0)
    assert measuring.profile(functions, 0.05, lambda done, whole, text: None)["run"]["samples"] >= 3


def test_a_pipeline_with_python_functions_is_profiled_and_not_tuned() -> None:
    pipeline = carya.arrays({"x": np.arange(64.0)}).map(np.square, fields="x").batch(8)
    report = measuring.profile(pipeline, 0.05, lambda done, whole, text: None)
    assert report["run"]["samples"] > 0
    assert [op["op"] for op in report["ops"]] == ["map(square)"]
    with pytest.raises(carya.Unsupported, match="tune: the pipeline has Python functions"):
        measuring.tune(pipeline, 0.05, 1, lambda done, whole, text: None)


def test_ctrl_c_ends_cleanly(photos: Path, tmp_path: Path) -> None:
    script, begun = tmp_path / "train.py", tmp_path / "begun"
    script.write_text(
        f"import carya, pathlib\np = carya.Pipeline.from_json({chain(photos).to_json()!r})\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
    )
    for name in ("profile", "tune"):
        words = [sys.executable, "-m", "carya", name, str(script), "--seconds", "60"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            until(begun.exists)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=300)
        assert child.returncode == 130, out + err
        assert "stopped" in err
        assert "Traceback" not in err
        assert out == ""
        begun.unlink()


def test_tune_says_what_it_knows_when_it_is_stopped(photos: Path) -> None:
    def stop(done: float, whole: float, text: str) -> None:
        if text.startswith("round 3: order"):
            raise KeyboardInterrupt

    result = measuring.tune(chain(photos), 0.05, 9, stop)
    assert not result["finished"]
    assert result["rounds"] == 2

    def at_once(done: float, whole: float, text: str) -> None:
        if text.startswith("round 1: fusion"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measuring.tune(chain(photos), 0.05, 9, at_once)


def test_threads_that_are_tried() -> None:
    assert [list(measuring._thread_counts(count)) for count in (1, 2, 3, 8)] == [[], [2], [3], [4, 8]]
    assert _core.doctor()["auto_threads"] >= 1
