"""`"auto"` weighs files beside memory by rates that it measures: what a slow disk has is computed, what a fast one has is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import running
from PIL import Image
from test_cache_daemon import configured
from test_cache_faults import Storage, program, storage  # noqa: F401
from test_cache_files import OLD, rows, tier_bytes

import carya

PHOTOS = 48


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large progressive ones: milliseconds each, and 9 KB behind the resize."""
    folder = tmp_path_factory.mktemp("cache") / "photos" / "class"
    folder.mkdir(parents=True)
    for number in range(PHOTOS):
        pixels = np.random.default_rng(number).integers(0, 255, (70, 90, 3), np.uint8)
        path = folder / f"{number:03}.jpg"
        Image.fromarray(pixels).resize((900, 700)).save(path, quality=85, progressive=True)
        os.utime(path, (OLD, OLD))
    return folder.parent


def crops(folder: Path) -> carya.Pipeline:
    return carya.image_folder(str(folder)).shuffle(seed=3).decode_image().resize(48).random_crop(32).batch(16)


def auto(folder: Path, **more: Any) -> dict[str, Any]:
    """Memory for a few samples, and a disk for all."""
    return {"place": "auto", "memory": "100KB", "disk": (folder, "64MB"), **more}


def until_told(loader: carya.Loader, holds: Callable[[Any], bool]) -> Any:
    """What is kept, once that holds: epoch after epoch."""
    for _ in range(2000):
        for _batch in loader:
            pass
        told = loader.stats()["cache"]
        if holds(told):
            return told
    raise AssertionError(json.dumps(told, indent=1))


def is_weighed(told: Any) -> bool:
    """Whether places on the disk were compared."""
    return any(choice["disk"] for choice in told["choices"])


def test_a_fast_disk_keeps_what_memory_has_no_room_for(photos: Path, tmp_path: Path) -> None:
    with carya.Loader(crops(photos), epochs=3, threads=1, daemon="embedded") as loader:
        expected = rows(loader, 3)
    cache = auto(tmp_path / "tier")
    with carya.Loader(crops(photos), threads=1, daemon="embedded", cache=cache) as loader:
        assert rows(loader, 3) == expected
        told = until_told(loader, lambda told: told["files"] and told["files"][0]["hits"] > PHOTOS)
        assert told["after"] == "resize"
        assert told["storages"][0]["known"]
        assert told["storages"][0]["read_bytes_per_s"] > 0
        text = str(loader.explain())
        assert "in files of a disk too" in told["why"]
        assert "on the disk too" in text
        assert "were written to save" in text
    assert tier_bytes(tmp_path / "tier") > 0
    assert not list((tmp_path / "tier").glob("probe-*"))
    # The next run knows the rates, and the bits are the same from the first epoch on.
    with carya.Loader(crops(photos), epochs=3, threads=1, daemon="embedded", cache=cache) as loader:
        assert loader.stats()["cache"]["storages"][0]["known"]
        assert rows(loader, 3) == expected


def test_a_slow_disk_keeps_nothing_and_says_what_it_would_have_cost(
    photos: Path,
    storage: Storage,  # noqa: F811
) -> None:
    storage["delay_us"] = 60_000
    cache = auto(storage.path / "tier")
    with carya.Loader(crops(photos), threads=1, daemon="embedded", cache=cache) as loader:
        told = until_told(loader, is_weighed)
        for _ in range(3):
            assert told["files"] == []
            nothing = told["choices"][0]["run_us"]
            assert all(choice["run_us"] > nothing for choice in told["choices"] if choice["disk"])
            for _batch in loader:
                pass
            told = loader.stats()["cache"]
        assert "on the disk too" in str(loader.explain())
    assert tier_bytes(storage.source) == 0


def test_a_disk_that_becomes_slow_is_left(photos: Path, storage: Storage) -> None:  # noqa: F811
    """A neighbour fills its queue: seen by the reads themselves."""
    cache = auto(storage.path / "tier")
    with carya.Loader(crops(photos), threads=1, daemon="embedded", cache=cache) as loader:
        until_told(loader, lambda told: told["files"] and told["files"][0]["hits"] > PHOTOS)
        storage["delay_us"] = 60_000
        until_told(loader, lambda told: told["files"] == [])
        storage.heal()


def test_a_daemon_s_disk_serves_auto(photos: Path, tmp_path: Path) -> None:
    file = configured(tmp_path, f'[cache]\nmemory = "100KB"\ndisk = "{tmp_path / "kept"}"\ndisk_size = "64MB"\n')
    with (
        running("--config", file) as daemon,
        carya.Loader(crops(photos), threads=1, daemon=daemon.socket, cache="auto") as loader,
    ):
        told = until_told(loader, lambda told: told["files"] and told["files"][0]["hits"] > 0)
        assert told["files"][0]["path"] == str(tmp_path / "kept")
        assert told["bounded"] == []


def test_nothing_more_is_written_where_it_no_longer_pays_before_the_end(photos: Path, tmp_path: Path) -> None:
    cache = auto(tmp_path / "tier")
    with carya.Loader(crops(photos), threads=1, daemon="embedded", cache=cache) as loader:
        until_told(loader, lambda told: told["storages"][0]["known"])
    kept = tier_bytes(tmp_path / "tier")  # none, or some on a machine that was slow to say what it knows
    with carya.Loader(crops(photos), epochs=1, threads=1, daemon="embedded", cache=cache) as loader:
        rows(loader, 1)
        assert loader.stats()["cache"]["files"] == [] or kept
    assert tier_bytes(tmp_path / "tier") == kept


@pytest.mark.parametrize(
    "given",
    [
        {"place": "auto"},
        {"place": "here", "memory": "1MB"},
        {"place": "auto", "memory": "1MB", "after": "resize"},
        {"memory": "1MB", "write_budget": "1GB"},
        {"disk": "1GB", "write_budget": "much"},
        {"disk": "1GB", "write_budget": 0},
    ],
    ids=str,
)
def test_what_cannot_be_asked_for_is_refused(photos: Path, given: Any) -> None:
    with pytest.raises(carya.InvalidArgument, match="cache"):
        carya.Loader(crops(photos), cache=given)
