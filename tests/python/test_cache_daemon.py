"""`[cache]` of caryad.toml: where a daemon keeps samples, and that no job gets more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import run as command
from daemons import running, until
from streams import digest
from test_cache_files import PHOTOS, crops, photos, tier_bytes  # noqa: F401

import carya

EPOCHS = 2


def configured(folder: Path, text: str) -> str:
    path = folder / "caryad.toml"
    path.write_text(text)
    return str(path)


def stream(loader: carya.Loader) -> str:
    return digest(batch for _ in range(EPOCHS) for batch in loader)


def expected(folder: Path) -> str:
    with carya.Loader(crops(folder), epochs=EPOCHS, threads=1, daemon="embedded") as loader:
        return stream(loader)


def all_written(loader: carya.Loader) -> Any:
    """What is kept, once the only tier has written all photos."""
    until(lambda: loader.stats()["cache"]["files"][0]["written"] == PHOTOS)
    return loader.stats()["cache"]


@pytest.mark.parametrize("asked", [("own", "64MB"), "64MB"], ids=str)
def test_a_job_gets_the_daemon_s_folder_and_no_more_than_its_size(
    photos: Path,  # noqa: F811
    tmp_path: Path,
    asked: Any,
) -> None:
    kept = tmp_path / "kept"
    file = configured(tmp_path, f'[cache]\nmemory = "8MB"\ndisk = "{kept}"\ndisk_size = "16MB"\n')
    if isinstance(asked, tuple):
        asked = (tmp_path / asked[0], asked[1])
    cache = {"memory": "32MB", "disk": asked}
    with (
        running("--config", file) as daemon,
        carya.Loader(crops(photos), epochs=EPOCHS, daemon=daemon.socket, job="kept", cache=cache) as loader,
    ):
        assert stream(loader) == expected(photos)
        told = all_written(loader)
        assert told["files"][0]["path"] == str(kept)
        assert told["files"][0]["capacity_bytes"] == 16_000_000
        assert (told["capacity_bytes"], told["asked_bytes"]) == (8_000_000, 32_000_000)
        (line,) = told["bounded"]
        assert line.startswith("disk: asked for 64000000 B")
        assert f"given 16000000 B in {kept} by [cache] of caryad.toml" in line
        text = str(loader.explain())
        assert "Disk: asked for 64000000 B" in text
        assert "of memory were asked for, and" in text
        shown = command("status", "--socket", daemon.socket)
        shown = "".join(shown.split())  # which is wrapped anywhere
        assert f"keptindisk{kept}:" in shown
        assert "keptinmemory:" in shown
        status = json.loads(command("status", "--socket", daemon.socket, "--json"))
        assert status["cache_bytes"] == status["cache_bytes_limit"] == 8_000_000
        assert status["cache_written_bytes"] == told["files"][0]["written_bytes"] > 0
        assert status["cache_write_budget"] is None
    assert not (tmp_path / "own").exists()
    assert 0 < tier_bytes(kept) <= 16_000_000


@pytest.mark.parametrize("marked", ["decode_image", "resize"])
@pytest.mark.parametrize("mode", ["on", "auto"])
def test_a_second_job_keeps_where_the_first_has_filled(
    photos: Path,  # noqa: F811
    tmp_path: Path,
    marked: str,
    mode: str,
) -> None:
    """It has no room of its own: unmarked it gets what a marked one does, from its first epoch on."""
    file = configured(tmp_path, '[cache]\nmemory = "8MB"\n')

    def pipeline() -> carya.Pipeline:
        return carya.image_folder(str(photos)).shuffle(seed=1).decode_image().resize(40).random_crop(32).batch(16)

    with carya.Loader(pipeline(), epochs=EPOCHS, threads=1, daemon="embedded") as loader:
        alone = stream(loader)
    asked = {"memory": "8MB"} if mode == "on" else "auto"
    with (
        running("--config", file) as daemon,
        carya.Loader(
            pipeline(), epochs=EPOCHS, daemon=daemon.socket, job="first", cache={"memory": "8MB", "after": marked}
        ) as first,
    ):
        assert stream(first) == alone
        epochs = EPOCHS if mode == "on" else None  # "auto" has measured something after some epochs
        with carya.Loader(pipeline(), epochs=epochs, daemon=daemon.socket, job="second", cache=asked) as second:
            if mode == "on":
                assert stream(second) == alone
            else:
                until(lambda: [0 for _ in second] and second.stats()["cache"]["after"])
            told = second.stats()["cache"]
            assert told["after"] == marked
            assert told["found_share"] == 1
            assert told["filled"] == PHOTOS
            assert "100 % of the samples were there already" in told["why"]
            assert "100% of the samples were there already" in str(second.explain())


def test_no_more_is_written_in_a_day_than_the_file_allows(photos: Path, tmp_path: Path) -> None:  # noqa: F811
    """A quarter of what would be, for two jobs together."""
    file = configured(tmp_path, f'[cache]\ndisk = "{tmp_path / "kept"}"\nwrite_budget = "60KB"\n')
    with running("--config", file) as daemon:
        for job in ("first", "second"):
            cache = {"disk": "64MB", "after": "decode_image"}
            with carya.Loader(crops(photos), epochs=EPOCHS, daemon=daemon.socket, job=job, cache=cache) as loader:
                assert stream(loader) == expected(photos)
                until(lambda: loader.stats()["cache"]["files"][0]["over_budget"])
                assert "write_budget of the daemon is used" in str(loader.explain())
            status = daemon.status()
            assert 40_000 < status["cache_written_bytes"] <= status["cache_write_budget"] == 60_000
    assert tier_bytes(tmp_path / "kept") < 120_000


@pytest.mark.parametrize("served", [True, False])
def test_a_loader_s_own_budget_is_of_all_that_it_writes(photos: Path, tmp_path: Path, served: bool) -> None:  # noqa: F811
    """Its next run has what is left of the day; the daemon's own budget is above it."""
    cache = {"disk": (tmp_path / "kept", "64MB"), "after": "decode_image"}
    file = configured(tmp_path, f'[cache]\ndisk = "{tmp_path / "kept"}"\n')
    with running("--config", file) as daemon:
        place = str(daemon.socket) if served else "embedded"
        for budget, least, most in (("60KB/day", 40_000, 60_000), ("60KB/day", 0, 20_000), ("120KB", 40_000, 80_000)):
            asked = {**cache, "write_budget": budget}
            with carya.Loader(crops(photos), epochs=EPOCHS, daemon=place, job=budget, cache=asked) as loader:
                assert stream(loader) == expected(photos)
                until(lambda: loader.stats()["cache"]["files"][0]["over_budget"])
                told = loader.stats()["cache"]
                assert least <= told["files"][0]["written_bytes"] <= most
                assert "that of this loader or of the daemon is used" in str(loader.explain())


def test_what_was_written_in_a_day_outlives_the_daemon(photos: Path, tmp_path: Path) -> None:  # noqa: F811
    """The next one adds nothing to a day that is used, and one with more to write adds the difference."""
    cache = {"disk": "64MB", "after": "decode_image"}
    kept, written = tmp_path / "kept", []
    for budget in ("60KB", "60KB", "120KB"):
        file = configured(tmp_path, f'[cache]\ndisk = "{kept}"\nwrite_budget = "{budget}"\n')
        with running("--config", file) as daemon:
            with carya.Loader(crops(photos), epochs=EPOCHS, daemon=daemon.socket, cache=cache) as loader:
                assert stream(loader) == expected(photos)
                until(lambda: loader.stats()["cache"]["files"][0]["over_budget"])
            written.append(daemon.status()["cache_written_bytes"])
    assert 40_000 < written[0] == written[1] <= 60_000 < written[2] <= 120_000


def test_a_size_alone_is_kept_in_the_cache_folder(
    photos: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "own"))
    with carya.Loader(crops(photos), epochs=EPOCHS, threads=1, daemon="embedded", cache={"disk": "64MB"}) as loader:
        assert stream(loader) == expected(photos)
        told = all_written(loader)
        until(lambda: loader.stats()["cache"]["files"][0]["age_s"] is not None)  # at the next look
        assert loader.stats()["cache"]["files"][0]["age_s"] >= 0
    assert told["files"][0]["path"] == str(tmp_path / "own" / "samples")
    with pytest.raises(carya.InvalidArgument, match='"shared": got a size alone'):
        carya.Loader(crops(photos), daemon="embedded", cache={"shared": "64MB"})
