"""Samples kept in memory for later epochs change no bit, whoever makes them; what the option says, and what is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import running
from streams import digest, epoch_digest

import carya
from carya._options import byte_size


def crops(photos: Path) -> carya.Pipeline:
    return carya.image_folder(photos).shuffle(seed=3).decode_image().random_resized_crop(24).batch(4)


def resized(photos: Path) -> carya.Pipeline:
    return carya.image_folder(photos).shuffle(seed=3).decode_image().resize((40, 40)).random_crop(24).batch(4)


def kept(pipeline: carya.Pipeline, cache: Any, epochs: int = 3, **options: Any) -> tuple[str, dict[str, Any]]:
    """Digest of some epochs of a new loader, and what it says of its cache. With `prefetch_epochs` some records of an epoch are
    looked up before the last one has made them."""
    with carya.Loader(pipeline, epochs=epochs, cache=cache, **options) as loader:
        found = digest(batch for _ in range(epochs) for batch in loader)
        return found, loader.stats()["cache"]


@pytest.mark.parametrize("made", [crops, resized])
def test_no_bit_changes_whatever_is_kept(photos: Path, made: Any) -> None:
    pipeline = made(photos)
    wanted = epoch_digest(pipeline, epochs=3)
    everything, stats = kept(pipeline, {"memory": "64MB"}, threads=1, prefetch_epochs=False)
    assert everything == wanted
    assert stats["hits"] == stats["looked"] * 2 / 3
    for share in (0.1, 0.4):
        found, part = kept(pipeline, {"memory": max(1, int(stats["bytes"] * share))}, threads=2)
        assert found == wanted
        assert part["bytes"] <= stats["bytes"] * share
    assert kept(pipeline, "auto")[0] == wanted


@pytest.mark.parametrize("form", ["coefficients", "records"])
@pytest.mark.parametrize("made", [crops, resized])
def test_photos_that_are_kept_give_the_same_bits(photos: Path, made: Any, form: str) -> None:
    pipeline = made(photos)
    wanted = epoch_digest(pipeline, epochs=3)
    found, stats = kept(pipeline, {"memory": "64MB", "form": form}, threads=1, prefetch_epochs=False)
    assert found == wanted
    assert (stats["after"], stats["form"], stats["damaged_records"]) == ("reading", form, 0)
    assert stats["hits"] == stats["looked"] * 2 / 3
    found, part = kept(pipeline, {"memory": int(stats["bytes"] * 0.4), "form": form}, threads=2)
    assert found == wanted
    assert part["bytes"] <= stats["bytes"] * 0.4


def test_what_is_said_of_coefficients(photos: Path) -> None:
    cache = {"memory": "64MB", "form": "coefficients"}
    with carya.Loader(crops(photos), epochs=2, threads=1, cache=cache) as loader:
        for _ in range(2):
            for _batch in loader:
                pass
        stats, text = loader.stats(), str(loader.explain())
    assert stats["jpeg_decodes"]["packed"] > 0
    assert [choice["form"] for choice in stats["cache"]["choices"]] == [None, "coefficients"]
    assert f"Kept after reading, as packed coefficients: {stats['cache']['records']} samples" in text
    assert "  after reading, as packed coefficients: " in text


def test_records_that_are_kept_are_decoded_with_their_index(photos: Path) -> None:
    indexed = []
    for cache in ("off", "off", {"memory": "64MB", "form": "records"}):  # the first one makes the index
        options: dict[str, Any] = {"threads": 1, "decode_index": 8, "prefetch_epochs": False}
        with carya.Loader(crops(photos), epochs=3, cache=cache, **options) as loader:
            for _ in range(3):
                for _batch in loader:
                    pass
            stats, text = loader.stats(), str(loader.explain())
            indexed.append(stats["jpeg_decodes"]["indexed"])
    assert indexed[1] == indexed[2] > 0
    assert stats["cache"]["records"] > 0
    assert f"Kept after reading, as the records are: {stats['cache']['records']} samples" in text
    assert stats["bytes_read"] == sum(path.stat().st_size for path in photos.rglob("*.*")), "each was read once"


def test_a_record_that_is_broken_meets_its_policy_in_each_epoch(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    for path in sorted((tmp_path / "photos").rglob("*.jpg"))[:3]:
        path.write_bytes(path.read_bytes()[:40])
    pipeline = crops(tmp_path / "photos")
    wanted = epoch_digest(pipeline, epochs=3, on_error="mask")
    with carya.Loader(
        pipeline, epochs=3, on_error="mask", cache={"memory": "64MB", "form": "records"}, threads=1
    ) as loader:
        assert digest(batch for _ in range(3) for batch in loader) == wanted
        assert len(loader.quarantine()) == 9
        assert loader.stats()["masked"] == 9


def test_records_in_memory_are_not_kept_once_more() -> None:
    with pytest.raises(carya.InvalidArgument, match="read from storage"):
        carya.Loader(carya.arrays({"x": np.zeros(8, np.uint8)}).batch(2), cache={"memory": "1MB", "form": "records"})


@pytest.mark.parametrize("form", ["coefficients", "records"])
def test_a_daemon_keeps_them_too(photos: Path, form: str) -> None:
    pipeline = crops(photos)
    wanted = epoch_digest(pipeline, epochs=3)
    with running() as daemon:
        cache = {"memory": "64MB", "form": form}
        found, stats = kept(pipeline, cache, threads=1, daemon=str(daemon.socket))
    assert found == wanted
    assert stats["form"] == form


def test_a_daemon_keeps_for_all_its_ranks(photos: Path) -> None:
    pipeline = crops(photos)
    wanted = epoch_digest(pipeline, epochs=3)
    with running() as daemon:
        socket = str(daemon.socket)
        found, stats = kept(pipeline, {"memory": "64MB"}, threads=1, daemon=socket, prefetch_epochs=False)
    assert found == wanted
    assert stats["hits"] == stats["looked"] * 2 / 3


def test_restored_loaders_keep_too(photos: Path) -> None:
    pipeline = crops(photos)
    wanted = [batch["image"].tobytes() for _ in range(1) for batch in carya.Loader(pipeline, epochs=1)]
    state: dict[str, Any] | None = None
    seen: list[bytes] = []
    while len(seen) < len(wanted):
        with carya.Loader(pipeline, state=state, cache={"memory": "64MB"}) as loader:
            for batch in loader:
                seen.append(batch["image"].tobytes())
                state = batch.state_dict()
                break
    assert seen == wanted


def test_what_is_said_of_it(photos: Path) -> None:
    asked = {"memory": "64MB", "after": "decode_image"}
    with carya.Loader(resized(photos), epochs=2, threads=1, cache=asked, prefetch_epochs=False) as loader:
        for _ in range(2):
            for _batch in loader:
                pass
        stats, text = loader.stats()["cache"], str(loader.explain())
        assert loader.explain()["cache"]["after"] == "decode_image"
    assert stats["mode"] == "on"
    assert stats["after"] == "decode_image"
    assert [choice["after"] for choice in stats["choices"]] == [None, "decode_image"]
    assert stats["records"] == stats["filled"] > 0
    assert stats["given_up"] == 0
    assert 0 < stats["bytes"] <= stats["capacity_bytes"] == 64_000_000
    assert f"Kept after decode_image: {stats['records']} samples" in text
    assert "50.0% of the look-ups found one" in text


def test_off_is_the_default_and_says_nothing(photos: Path) -> None:
    with carya.Loader(crops(photos), epochs=1) as loader:
        assert loader.stats()["cache"] is None
        assert "later epochs" not in str(loader.explain())


def test_auto_says_why_nothing_is_kept(photos: Path) -> None:
    with carya.Loader(crops(photos), epochs=1, cache="auto") as loader:
        for _ in loader:
            pass
        assert loader.stats()["cache"]["after"] is None
        assert str(loader.explain()).splitlines()[-1].startswith("Nothing is kept for later epochs: ")


@pytest.mark.parametrize(
    ("cache", "told"),
    [
        ("on", '"off", "auto"'),
        ({"memory": "0%"}, "more than 0%"),
        ({"memory": "91%"}, '"90%"'),
        ({"memory": "much"}, "64MB"),
        ({"memory": "1GB", "disk": "/x"}, "500GB"),
        ({"after": "decode_image"}, '"memory"'),
        ({"memory": "1GB", "after": 3}, "the name of an operation"),
        ({"memory": "1GB", "form": "lossy"}, '"raw" or "coefficients"'),
        ({"memory": "1GB", "form": "coefficients", "after": "decode_image"}, 'give "raw"'),
        ({"form": "coefficients"}, '"memory"'),
        ({"memory": "1GB", "after": "random_resized_crop"}, "since random_resized_crop is random"),
        ({"memory": "1GB", "after": "nothing"}, 'give "decode_image"'),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(photos: Path, cache: Any, told: str) -> None:
    with pytest.raises(carya.InvalidArgument, match="cache") as refused:
        carya.Loader(crops(photos), cache=cache)
    assert told in str(refused.value)


def test_functions_in_workers_keep_no_samples() -> None:
    with pytest.raises(carya.Unsupported, match="cache"):
        carya.Loader(carya.arrays({"x": np.zeros(8, np.uint8)}).map(lambda x: x).batch(2), cache="auto")


def test_sizes_are_bytes_with_any_usual_unit() -> None:
    assert [byte_size("x", text) for text in ("1TB", "1.5 GiB", "2TiB", 7)] == [10**12, 3 << 29, 2 << 40, 7]
    with pytest.raises(carya.InvalidArgument, match="a size of 1 byte or more"):
        byte_size("x", "3 parsecs")
