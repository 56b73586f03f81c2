"""What `carya bench` is given and does not have is an error: figures of something else would be taken for what was asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import carya
from carya._bench import Options, cache, peers, run, vision
from carya._bench.measure import Rate
from carya._bench.photos import find_photos
from carya._bench.seeds import Runner
from carya._cli.main import make_app
from carya._seeds.data import find


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("vision", {"data": "/nothing"}, r"bench: --data: no folder '/nothing'; give one that exists"),
        ("seeds", {"data": "/nothing"}, r"bench: --data: no folder '/nothing'"),
        ("seeds", {"python": ("/nothing/python",)}, r"bench seeds: --python: no program '/nothing/python'; give the path"),
        ("seeds", {"only": ("cedar",)}, r"bench seeds: --only: got 'cedar'; give 'cedar cv' or"),
        ("small", {"only": ("cedar cv",)}, r"bench: --only: got 'small'; give it for the benches seeds and cache only"),
        ("cache", {"only": ("ice",)}, r"bench cache: --only: got 'ice'; give photos or heavy or"),
        ("cache", {"epochs": (0,)}, r"bench cache: --epochs: got 0; give a number of 1 or more"),
        ("small", {"svg": "x"}, r"bench: --svg: got 'small'; give it for the bench cache only"),
        ("ops", {"python": ("python3",)}, r"bench: --python: got 'ops'; give it for the bench seeds only"),
        ("small", {"seconds": -1.0}, r"bench: --seconds: got -1.0; give a number above 0"),
        ("small", {"seconds": float("nan")}, r"bench: --seconds: got nan; give a number above 0"),
    ],
)  # fmt: skip
def test_a_choice_that_cannot_be_is_named(name: str, options: dict[str, Any], match: str) -> None:
    with pytest.raises(carya.Error, match=match):
        run(name, Options(smoke=True, **options))


def test_photos_are_those_of_the_folder_that_is_given(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARYA_BENCH_DATA", str(photos))
    assert find_photos(Options(), tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        carya.NotFound, match=r"bench: --data: no JPEG \(.jpg, .jpeg\) in '.*/empty'; give a folder of photos"
    ):
        find_photos(Options(data=str(tmp_path / "empty")), tmp_path)


def test_a_peer_that_is_not_here_has_a_row_that_says_why(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typer = pytest.importorskip("typer")
    from typer.testing import CliRunner

    def measured(*_: Any) -> Rate:
        return Rate(samples=100, wall_s=1.0, cpu_s=1.0)

    def fails(name: str, *_: Any) -> Rate:
        raise vision.PeerFailed(f"{name} ended")

    monkeypatch.setattr(vision, "_carya", measured)
    monkeypatch.setattr(vision, "bounds", lambda *_: {})
    monkeypatch.setattr(vision, "_cache", lambda *_: "")
    monkeypatch.setattr(vision, "_peer", lambda name, *_: fails(name) if name == "spdl" else measured())
    monkeypatch.setattr(peers, "_importable", lambda module: module in ("torch", "tensorflow", "spdl.io"))
    shown = CliRunner().invoke(make_app(typer), ["bench", "vision", "--peers", "--rounds", "1", "--data", str(photos)])
    assert shown.exit_code == 0, shown.output
    rows = [line for line in shown.output.splitlines() if line.lstrip().startswith(peers.PEERS)]
    notes = {row.split()[0]: row.partition("not installed: ")[2] for row in rows}
    assert notes == {
        "torch+pillow": "pip install pillow",
        "torch+opencv": "pip install opencv-python-headless",
        "torch+simplejpeg": "pip install simplejpeg opencv-python-headless",
        "tf.data": "",
        "dali": "pip install nvidia-dali-cuda120",
        "ffcv": "pip install ffcv",
        "grain+opencv": "pip install grain opencv-python-headless",
        "spdl": "",
    }
    assert [row.split()[0] for row in rows].count("tf.data") == 2  # figures of both forms
    assert [row.endswith("  spdl ended") for row in rows].count(True) == 1


def test_ctrl_c_while_a_side_begins_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(runner: Runner, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        processes.append(runner._process)
        raise KeyboardInterrupt

    processes: list[subprocess.Popen[str]] = []
    monkeypatch.setattr(Runner, "_ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Runner(sys.executable, {}, str(tmp_path))
    assert processes[0].returncode is not None


def test_it_is_said_why_files_are_drawn(tmp_path: Path) -> None:
    assert find("lines", None, tmp_path, smoke=False)["what"] == "drawn, for no real ones are given"
    assert find("lines", tmp_path, tmp_path, smoke=False)["what"] == f"drawn, for {tmp_path} has none"
    assert find("lines", tmp_path, tmp_path, smoke=True)["what"] == "drawn, as in all short runs"


def test_the_plots_of_the_cache_have_a_line_for_each_number_of_epochs(tmp_path: Path) -> None:
    picture = tmp_path / "grid.svg"
    report = run("cache", Options(smoke=True, svg=str(picture), epochs=(1, 2)))
    assert [(row["epochs"], row["capacity"]) for row in report.rows] == [(1, 50), (1, 100), (2, 50), (2, 100)]
    root = ElementTree.fromstring(picture.read_text())
    lines = [path for path in root.iter("{http://www.w3.org/2000/svg}path") if path.get("class") == "line"]
    assert [line[0].text for line in lines] == ["auto, 1", "best, 1", "auto, 2", "best, 2"]
    with pytest.raises(carya.IoError, match=r"bench cache: --svg: .*No such file or directory"):
        run("cache", Options(smoke=True, svg=str(tmp_path / "none" / "grid.svg")))


def test_what_is_best_is_compared_round_by_round() -> None:
    """A machine that is twice as slow in one round changes nothing."""
    took = {"nothing": [100.0, 200.0, 100.0], "after decode_image": [50.0, 100.0, 50.0], "auto": [60.0, 120.0, 60.0]}
    row = cache._row(took, {"epochs": 2})
    assert (row["best"], row["of_best"], row["of_nothing"]) == ("after decode_image", 0.833, 0.6)
