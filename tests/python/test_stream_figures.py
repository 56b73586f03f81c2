"""What is measured of a stream as a whole: reads, the trainer's demand, waiting, pressure; in `stats` and `explain`."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import running, until

import carya
from carya._explain.stream import add_stream, lines

RATES = {"read_latency_s", "read_bytes_per_s", "read_age_s", "demand_per_s", "demand_age_s"}
KEYS = RATES | {"make_per_s", "step_s", "stall_share", "ready_slots", "slots", "pressure", "limit", "functions"}
PRESSURE = {"cpu", "io", "memory", "runnable", "cores", "throttled_share", "throttled_seconds"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def chain(folder: Path) -> carya.Pipeline:
    return carya.image_folder(str(folder)).shuffle(seed=3).decode_image().resize((32, 32)).batch(4)


def figures(pipeline: carya.Pipeline, epochs: int, **options: Any) -> tuple[dict[str, Any], carya.Explanation]:
    with carya.Loader(pipeline, epochs=epochs, **options) as loader:
        for _ in range(epochs):
            for _batch in loader:
                pass
        return loader.stats(), loader.explain()


def check_pressure(pressure: dict[str, Any]) -> None:
    assert set(pressure) == PRESSURE
    for share in ("cpu", "io", "memory", "throttled_share"):
        assert pressure[share] is None or 0 <= pressure[share] <= 1
    assert pressure["runnable"] is None or pressure["runnable"] >= 1
    assert pressure["cores"] >= 1


def check_measured(stats: dict[str, Any], report: carya.Explanation) -> None:
    assert stats["step_seconds"] > 0
    assert stats["demand_per_second"] > 0
    assert stats["read_bytes_per_second"] > 0
    assert stats["read_latency_seconds"] > 0
    assert 0 <= stats["cached_reads"] <= stats["reads"]
    assert 0 <= stats["cached_bytes"] <= stats["bytes_read"]
    assert 0 <= stats["stall_share"] <= 1
    assert 0 <= stats["slots"]["ready_mean"] <= stats["slots"]["count"]
    check_pressure(stats["pressure"])
    stream = report["stream"]
    assert set(stream) == KEYS
    assert stream["step_s"] == stats["step_seconds"]
    assert stream["demand_per_s"] == stats["demand_per_second"]
    assert stream["demand_age_s"] < 600
    assert stream["read_age_s"] < 600
    assert stream["make_per_s"] > 0
    assert stream["slots"] == stats["slots"]["count"]
    assert stream["limit"] in ("trainer", "cores", "other")
    check_pressure(stream["pressure"])
    text = str(report)
    assert f"The trainer takes {stream['demand_per_s']:,.0f} samples/s, " in text
    assert "slots were ready when it came." in text
    assert "while under way" in text
    json.dumps(report)


def test_a_loader_says_what_its_stream_met(photos: Path) -> None:
    stats, report = figures(chain(photos), 6, daemon="embedded")
    assert stats["batches"] == 42
    check_measured(stats, report)


def test_before_enough_steps_nothing_is_said_of_the_demand(photos: Path) -> None:
    with carya.Loader(chain(photos), epochs=2, daemon="embedded") as loader:
        stats, stream = loader.stats(), loader.explain()["stream"]
        assert stats["step_seconds"] is stats["demand_per_second"] is stats["slots"]["ready_mean"] is None
        assert stats["stall_share"] == 0
        assert stream["stall_share"] is stream["limit"] is stream["demand_age_s"] is None
        for _ in loader:
            pass
        assert loader.stats()["demand_per_second"] is None
        assert loader.stats()["slots"]["ready_mean"] is not None
        assert "The trainer" not in str(loader.explain())


def test_memory_has_no_reads() -> None:
    pipeline = carya.arrays({"x": np.zeros((100, 8), np.uint8)}).batch(4)
    stats, report = figures(pipeline, 1, daemon="embedded")
    assert stats["read_bytes_per_second"] is None
    assert report["stream"]["read_latency_s"] is report["stream"]["read_age_s"] is None
    assert report["stream"]["demand_per_s"] > 0
    assert "Reads" not in str(report)


def kept_demand(folder: Path) -> Any:
    return chain(folder).explain()["stream"]["demand_per_s"]


def test_the_next_run_begins_with_what_this_one_met(photos: Path, cache: Path) -> None:
    assert kept_demand(photos) is None
    stats, _ = figures(chain(photos), 6, daemon="embedded")
    (path,) = cache.glob("profile-*.json")
    document = json.loads(path.read_text())
    document["stream"] |= {"demand_at": 1_700_000_000, "reads_at": 1_700_000_000}
    path.write_text(json.dumps(document))
    report = chain(photos).explain()
    stream = report["stream"]
    assert set(stream) == KEYS
    assert stream["demand_per_s"] == stats["demand_per_second"]
    assert stream["demand_age_s"] > 86_400
    assert stream["read_age_s"] > 86_400
    assert stream["limit"] in ("trainer", "cores")
    assert stream["stall_share"] is stream["pressure"] is stream["step_s"] is None
    assert "days ago)" in str(report)
    with carya.Loader(chain(photos), epochs=1, daemon="embedded") as loader:
        begun = loader.explain()["stream"]
        assert loader.stats()["demand_per_second"] is None
        assert begun["demand_per_s"] == stream["demand_per_s"]
        assert begun["demand_age_s"] >= stream["demand_age_s"]
    assert kept_demand(photos) == stream["demand_per_s"], "who measured none leaves what is known"


def test_a_profile_of_before_is_read(photos: Path, cache: Path) -> None:
    figures(chain(photos), 1, daemon="embedded")
    (path,) = cache.glob("profile-*.json")
    document = json.loads(path.read_text())
    del document["stream"]
    path.write_text(json.dumps(document))
    report = chain(photos).explain()
    assert report["measured"] != []
    assert report["stream"]["demand_per_s"] is None
    document["stream"] = {"demand_per_s": "many"}
    path.write_text(json.dumps(document))
    assert chain(photos).explain()["measured"] == []


def test_a_daemon_reads_and_this_process_knows_its_trainer(photos: Path) -> None:
    with running() as daemon:
        stats, report = figures(chain(photos), 6, daemon=daemon.socket)
        check_measured(stats, report)
        until(lambda: kept_demand(photos))  # told at the end of the loader, kept at that of the stream


def report_of(demand: float | None, us: float, stall: float | None = 0.0, **pressure: Any) -> dict[str, Any]:
    """A report by which the text can be told."""
    stream = {
        "demand_per_s": demand,
        "demand_age_s": 0,
        "read_latency_s": None,
        "read_bytes_per_s": None,
        "read_age_s": None,
    }
    report: dict[str, Any] = {"order": ["a"], "us": us, "measured": [], "assumed": [], "stream": stream}
    report["parallelism"] = {"threads": 2, "cores": 2.0, "slots": 4}
    stats = {
        "step_seconds": 0.25,
        "batches": 9,
        "stall_share": stall,
        "slots": {"ready_mean": 3.0, "count": 4},
        "pressure": dict.fromkeys(PRESSURE) | {"cores": 2} | pressure,
    }
    add_stream(report, stats)
    return report


def test_the_text_says_which_side_limits() -> None:
    trainer = report_of(3_100, 400)
    assert trainer["stream"]["make_per_s"] == 5_000
    assert next(lines(trainer)) == (
        "The trainer takes 3,100 samples/s, 250 ms a step; 2 threads can make 5,000 as measured: the trainer limits."
    )
    assert trainer["stream"]["limit"] == "trainer"
    cores = report_of(9_000, 400, stall=0.6)
    assert cores["stream"]["limit"] == "cores"
    assert "the cores limit." in next(lines(cores))
    other = report_of(3_100, 400, stall=0.6)
    assert other["stream"]["limit"] == "other"
    assert "it waits all the same" in next(lines(other))
    assert report_of(None, 400)["stream"]["limit"] is None
    assert report_of(3_100, 0)["stream"]["make_per_s"] is None


def test_a_slow_function_is_charged_for_what_it_takes(photos: Path) -> None:
    def slow(batch: carya.Batch) -> carya.Batch:
        time.sleep(0.03)
        return batch

    stats, report = figures(chain(photos).map_batch(slow), 6, daemon="embedded")
    (function,) = stats["functions"]
    assert function["name"].endswith("slow")
    assert 0.03 <= function["seconds"] <= stats["step_seconds"] * 1.5
    assert report["stream"]["limit"] == "map_batch"
    text = str(report)
    assert "the functions of map_batch limit." in text
    assert "the trainer limits" not in text
    assert re.search(
        r"map_batch\(\S*slow\) takes \d\S* ms of each batch in the trainer's own thread, \d+% of its step\.", text
    )


def test_unknown_pressure_is_not_said() -> None:
    assert not any("Pressure" in line for line in lines(report_of(1, 1)))
    (line,) = [line for line in lines(report_of(1, 1, cpu=0.5, runnable=6)) if "Pressure" in line]
    assert line == ("Pressure: something waited in the last 10 s: for a core 50%; 6 tasks run or could, on 2 cores.")
    (line,) = [
        line for line in lines(report_of(1, 1, throttled_share=0.25, throttled_seconds=1.0)) if "Pressure" in line
    ]
    assert "the CPU quota was used up in 25.0% of its periods" in line


def test_who_measures_names_options_that_there_are() -> None:
    with pytest.raises(TypeError, match="no_such"):
        carya.Loader._create(carya.arrays({"x": np.arange(4)}).batch(2), measuring={}, no_such=1)
    with pytest.raises(AttributeError, match="no_such"):
        carya.Loader._create(carya.arrays({"x": np.arange(4)}).batch(2), measuring={"no_such": 1})


def test_who_only_reads_has_no_demand(photos: Path) -> None:
    with carya.Loader._create(chain(photos), measuring={"trains": False}, epochs=6, daemon="embedded") as loader:
        for _ in range(6):
            for _batch in loader:
                pass
        assert loader.stats()["demand_per_second"] is loader.stats()["step_seconds"] is None
        assert loader.stats()["batches"] == 42
    assert kept_demand(photos) is None
    assert chain(photos).explain()["stream"]["read_latency_s"] > 0
