"""Samples kept in files change no bit, serve later runs and other processes, and never more than a file's version."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import running
from PIL import Image

import carya

PHOTOS, EPOCHS = 24, 2
OLD = time.time() - 3600  # files that were changed long before the loader is made


def picture(path: Path, seed: int) -> None:
    random_pixels = np.random.default_rng(seed).integers(0, 255, (6, 5, 3), np.uint8)
    Image.fromarray(random_pixels).resize((60 + seed % 7, 50)).save(path, quality=90)
    os.utime(path, (OLD, OLD))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number in range(PHOTOS):
        (folder / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        picture(folder / f"class{number % 2}" / f"{number:03}.jpg", number)
    return folder


def crops(folder: Path, seed: int = 3) -> carya.Pipeline:
    return carya.image_folder(str(folder)).shuffle(seed=seed).decode_image().random_resized_crop(32).batch(4)


def rows(loader: carya.Loader, epochs: int = EPOCHS) -> list[bytes]:
    """Every batch's records and pixels."""
    return [
        bytes(np.asarray(batch.records)) + bytes(np.asarray(batch["image"])) + bytes(np.asarray(batch["label"]))
        for _ in range(epochs)
        for batch in loader
    ]


def run(
    folder: Path, cache: Any, epochs: int = EPOCHS, written: int | tuple[int, ...] = 0, daemon: str = "embedded"
) -> tuple[list[bytes], Any]:
    """The batches, and what the loader says of its cache once each tier has `written` so many, which it does by and by."""
    with carya.Loader(crops(folder), epochs=epochs, threads=1, daemon=daemon, cache=cache) as loader:
        found = rows(loader, epochs)
        for _ in range(1000):
            told = loader.stats()["cache"]
            if told is None:
                break
            least = written if isinstance(written, tuple) else (written,) * len(told["files"])
            if all(tier["written"] >= count for tier, count in zip(told["files"], least, strict=True)):
                break
            time.sleep(0.01)
        return found, told


def tier_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.segment"))


@pytest.mark.parametrize("kind", ["disk", "shared"])
def test_a_later_run_takes_what_an_earlier_one_wrote(photos: Path, tmp_path: Path, kind: str) -> None:
    expected, _ = run(photos, "off")
    cache = {kind: (tmp_path / "tier", "64MB")}
    first, told = run(photos, cache, written=PHOTOS)
    assert first == expected
    assert told["files"][0]["written"] == PHOTOS
    again, told = run(photos, cache)
    assert again == expected
    assert told["files"][0]["hits"] == EPOCHS * PHOTOS
    assert told["files"][0]["written"] == 0
    assert told["files"][0]["trouble"] is None


def test_a_daemon_goes_on_with_what_one_before_it_kept(photos: Path, tmp_path: Path) -> None:
    expected, _ = run(photos, "off")
    cache = {"disk": (tmp_path / "tier", "64MB")}
    for hits in (False, True):
        with running() as daemon:  # killed at its end
            found, told = run(photos, cache, written=0 if hits else PHOTOS, daemon=str(daemon.socket))
        assert found == expected
        assert (told["files"][0]["hits"] == EPOCHS * PHOTOS) == hits


def test_coefficients_serve_later_runs_too(photos: Path, tmp_path: Path) -> None:
    expected, _ = run(photos, "off")
    cache = {"disk": (tmp_path / "tier", "64MB"), "form": "coefficients"}
    first, told = run(photos, cache, written=PHOTOS)
    assert first == expected
    again, told = run(photos, cache)
    assert again == expected
    assert told["files"][0]["hits"] == EPOCHS * PHOTOS
    assert told["damaged_records"] == 0
    (about,) = (tmp_path / "tier").glob("samples-*/about.json")
    assert json.loads(about.read_text())["form"] == "coefficients"
    assert run(photos, {"disk": (tmp_path / "tier", "64MB")})[1]["files"][0]["hits"] < EPOCHS * PHOTOS, (
        "pictures are others"
    )


@pytest.mark.parametrize("share", [0.15, 0.4, 40])
def test_no_bit_depends_on_the_capacity_which_is_kept(photos: Path, tmp_path: Path, share: float) -> None:
    expected, _ = run(photos, "off", 3)
    run(photos, {"disk": (tmp_path / "all", "64MB")}, written=PHOTOS)
    capacity = int(share * tier_bytes(tmp_path / "all"))
    for _ in range(2):
        found, told = run(photos, {"disk": (tmp_path / "tier", capacity)}, 3)
        assert found == expected
        assert tier_bytes(tmp_path / "tier") <= capacity
    assert (told["files"][0]["hits"] == 3 * PHOTOS) == (share > 1)


def test_memory_is_nearer_and_gets_what_files_have(photos: Path, tmp_path: Path) -> None:
    expected, _ = run(photos, "off", 3)
    cache = {"memory": "64MB", "disk": (tmp_path / "disk", "64MB"), "shared": (tmp_path / "shared", "64MB")}
    assert run(photos, cache, 3, written=PHOTOS)[0] == expected
    shutil.rmtree(tmp_path / "disk")
    found, told = run(photos, cache, 3, written=(1, 0))
    assert found == expected
    disk, shared = told["files"]
    assert shared["hits"] >= PHOTOS
    assert disk["written"] > 0, "what the shared folder had"
    assert told["hits"] >= PHOTOS, "and memory after that"


def test_another_seed_and_other_operations_behind_the_place_share(photos: Path, tmp_path: Path) -> None:
    run(photos, {"disk": (tmp_path / "tier", "64MB")}, written=PHOTOS)
    other = carya.image_folder(str(photos)).shuffle(seed=9).decode_image().random_crop(16).batch(3)
    with carya.Loader(
        other, epochs=1, threads=1, daemon="embedded", cache={"disk": (tmp_path / "tier", "64MB")}
    ) as loader:
        assert sum(len(batch.records) for batch in loader) == PHOTOS
        assert loader.stats()["cache"]["files"][0]["hits"] == PHOTOS
    resized = carya.image_folder(str(photos)).decode_image().resize(20).random_crop(16).batch(3)
    cache = {"disk": (tmp_path / "tier", "64MB"), "after": "resize"}
    with carya.Loader(resized, epochs=1, threads=1, daemon="embedded", cache=cache) as loader:
        for _ in loader:
            pass
        assert loader.stats()["cache"]["files"][0]["hits"] == 0


@pytest.mark.parametrize("listed", [True, False], ids=["listed anew", "in place"])
def test_a_file_that_changed_loses_its_own_sample_only(photos: Path, tmp_path: Path, listed: bool) -> None:
    cache = {"disk": (tmp_path / "tier", "64MB")}
    run(photos, cache, written=PHOTOS)
    changed = photos / "class1" / "005.jpg"
    size = changed.stat().st_size
    picture(changed, 5 + 7000)
    with changed.open("ab") as file:
        file.write(b"\0" * max(0, size - changed.stat().st_size))  # behind the end marker
    same_size = changed.stat().st_size == size
    os.utime(changed, (OLD + 60, OLD + 60))
    if listed or not same_size:
        pipeline = crops(photos)
        pipeline.open(verify=True)
    found, told = run(photos, cache)
    assert found == run(photos, "off")[0]
    assert told["files"][0]["hits"] >= (PHOTOS - 1) * EPOCHS


def test_a_file_that_was_changed_just_now_is_not_kept_yet(photos: Path, tmp_path: Path) -> None:
    fresh = photos / "class0" / "000.jpg"
    now = time.time() + 5
    os.utime(fresh, (now, now))
    _, told = run(photos, {"disk": (tmp_path / "tier", "64MB")}, written=PHOTOS - 1)
    assert told["files"][0]["written"] == PHOTOS - 1


PLACES = 10_000 if os.environ.get("CARYA_LONG") else 300  # that are damaged, of each form


@pytest.mark.parametrize("form", ["raw", "coefficients", "records", "transcode"])
def test_damage_anywhere_changes_nothing(photos: Path, tmp_path: Path, form: str) -> None:
    """Flipped bits, 20 at a time, and cuts, of segments and of what says what is in them."""
    pipeline = crops(photos)
    choice = {"form": form}
    if form == "transcode":
        source = carya.image_folder(str(photos)).shuffle(seed=3).transcode(max_side=40)
        pipeline, choice = source.decode_image().random_resized_crop(32).batch(4), {"after": form}

    def stream(cache: Any) -> tuple[list[bytes], Any]:
        with carya.Loader(pipeline, epochs=1, threads=1, daemon="embedded", cache=cache) as loader:
            return rows(loader, 1), loader.stats()["cache"]

    expected, _ = stream("off")
    cache = {"disk": (tmp_path / "tier", "64MB"), **choice}
    while stream(cache)[1]["files"][0]["hits"] < PHOTOS:
        pass
    (path,) = (tmp_path / "tier").rglob("*.segment")
    about = path.with_name("about.json")
    whole, told_about = path.read_bytes(), about.read_bytes()
    chance = random.Random(1)
    damaged = places = number = 0
    while places < PLACES:
        number += 1
        for other in (tmp_path / "tier").rglob("*.segment"):
            other.unlink()
        bytes_now, about_now = bytearray(whole), bytearray(told_about)
        if number % 4 == 3:
            del bytes_now[chance.randrange(len(bytes_now)) :]
            del about_now[chance.randrange(len(about_now)) :]
            places += 1
        for _ in range(0 if len(bytes_now) < len(whole) else 20):
            # Half of them in the head and the rows, which are a small part.
            at = chance.randrange(4096 if number % 2 else len(bytes_now))
            bytes_now[at] ^= 1 << chance.randrange(8)
            about_now[chance.randrange(len(about_now))] ^= 1 << chance.randrange(8)
            places += 1
        path.write_bytes(bytes_now)
        about.write_bytes(about_now)
        found, told = stream(cache)
        assert found == expected, places
        damaged += told["files"][0]["damaged"]
    assert damaged > 0


def test_trouble_is_said_once_and_the_stream_goes_on(
    photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected, _ = run(photos, "off")
    (tmp_path / "file").write_text("no folder")
    found, told = run(photos, {"disk": (tmp_path / "file" / "tier", "64MB")})
    assert found == expected
    assert "file" in told["files"][0]["trouble"]
    assert caplog.text.count("the stream goes on without") == 1


def test_a_folder_that_is_made_is_its_user_s_alone(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was there keeps its mode: who shares it with others has given it one."""
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "own" / "cache"))
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    for kept in (tmp_path / "made", there):
        run(photos, {"disk": (str(kept), "64MB")}, written=PHOTOS)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "made", tmp_path / "own" / "cache", there)]
    assert modes == [0o700, 0o700, 0o755]


@pytest.mark.parametrize(("tier", "mode"), [("disk", 0o600), ("shared", 0o644)])
def test_what_a_disk_keeps_is_its_user_s_alone(
    photos: Path, tmp_path: Path, open_folder: Path, tier: str, mode: int
) -> None:
    """A folder that others may read has files that they may not, but where it is there for others, as the data is."""
    tmp_path.joinpath("tier").mkdir(mode=0o755)
    before = os.umask(0o022)
    try:
        data = shutil.copytree(photos, open_folder / "photos")
        for path in (data, *data.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        run(data, {tier: (str(tmp_path / "tier"), "64MB")}, written=PHOTOS)
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "tier").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".segment", ".json"}
    assert {path.stat().st_mode & 0o777 for path in files} == {mode}


def test_a_folder_that_vanishes_stops_nothing(photos: Path, tmp_path: Path) -> None:
    expected, _ = run(photos, "off", 4)
    cache = {"disk": (tmp_path / "tier", "64MB")}
    run(photos, cache)
    with carya.Loader(crops(photos), epochs=4, threads=1, daemon="embedded", cache=cache) as loader:
        found = rows(loader, 2)
        shutil.rmtree(tmp_path / "tier")
        found += rows(loader, 2)
    assert found == expected


TRAINER = """
import sys, carya
folder, tiers = sys.argv[1:]
pipeline = carya.image_folder(folder).shuffle(seed=3).decode_image().random_resized_crop(32).batch(4)
cache = {"disk": (tiers + "/disk", "64MB"), "shared": (tiers + "/shared", "64MB")}
print("begun", flush=True)
with carya.Loader(pipeline, epochs=50, threads=2, daemon="embedded", cache=cache) as loader:
    for _ in range(50):
        for _ in loader:
            pass
"""


def test_processes_killed_at_any_moment_leave_the_right_bits(photos: Path, tmp_path: Path) -> None:
    expected, _ = run(photos, "off")
    chance = random.Random(2)
    for _ in range(int(os.environ.get("CARYA_CACHE_KILLS", "24")) // 2):
        trainers = [
            subprocess.Popen([sys.executable, "-c", TRAINER, str(photos), str(tmp_path)], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for trainer in trainers:
            assert trainer.stdout is not None
            assert trainer.stdout.readline() == b"begun\n"
        time.sleep(chance.random() * 0.3)
        for trainer in trainers:
            trainer.send_signal(signal.SIGKILL)
            trainer.communicate()
        cache = {"disk": (tmp_path / "disk", "64MB"), "shared": (tmp_path / "shared", "64MB")}
        found, told = run(photos, cache)
        assert found == expected
        assert told["files"][0]["damaged"] == 0, "an entry is whole or not there"
    assert tier_bytes(tmp_path / "disk") <= 64_000_000
    assert tier_bytes(tmp_path / "shared") <= 64_000_000


def test_the_folder_says_what_it_has(photos: Path, tmp_path: Path) -> None:
    run(photos, {"disk": (tmp_path / "tier", "64MB")})
    (about,) = (tmp_path / "tier").glob("samples-*/about.json")
    assert json.loads(about.read_text())["after"] == "decode_image"


@pytest.mark.parametrize("given", ["/x", ("/x",), ("", "1GB"), ("/x", "much"), ("/x", 0)], ids=str)
def test_what_is_no_folder_with_a_size_is_refused(photos: Path, given: Any) -> None:
    with pytest.raises(carya.InvalidArgument, match="disk"):
        carya.Loader(crops(photos), cache={"disk": given})
