"""`carya cache` for folders of samples: what is in them is shown, checked to the last byte and removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from PIL import Image

import carya

PHOTOS = 6


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """A folder with the samples of six photos behind two places."""
    old = time.time() - 3600  # a file that was changed just now is not kept
    (tmp_path / "photos" / "class").mkdir(parents=True)
    for number in range(PHOTOS):
        path = tmp_path / "photos" / "class" / f"{number}.jpg"
        Image.fromarray(np.random.default_rng(number).integers(0, 255, (24, 30, 3), np.uint8)).save(path)
        os.utime(path, (old, old))
    pipeline = carya.image_folder(tmp_path / "photos").decode_image().resize((20, 20)).random_crop(16).batch(2)
    for after in ("decode_image", "resize"):
        cache = {"disk": (tmp_path / "tier", "64MB"), "after": after}
        with carya.Loader(pipeline, epochs=1, threads=1, daemon="embedded", cache=cache) as loader:
            for _ in loader:
                pass
            for _ in range(1000):
                if loader.stats()["cache"]["files"][0]["written"] == PHOTOS:
                    break
                time.sleep(0.01)
            else:
                pytest.fail(str(loader.stats()["cache"]))
    return tmp_path / "tier"


def listed(tier: Path) -> dict[str, Any]:
    """The lines of `cache ls` by the operation behind which the samples are."""
    return {line["after"]: line for line in json.loads(run("cache", "ls", "--folder", tier, "--json"))["files"]}


def test_places_are_shown(tier: Path) -> None:
    lines = listed(tier)
    assert set(lines) == {"decode_image", "resize"}
    for line in lines.values():
        assert line["kind"] == "samples"
        assert line["segments"] == 1
        assert line["bytes"] == sum(path.stat().st_size for path in Path(line["path"]).glob("*.segment"))
        assert line["used"][:2] == "20"
    table = run("cache", "ls", "--folder", tier, COLUMNS="200")
    assert all(line["name"] in table for line in lines.values())
    assert "decode_image" in table
    about = Path(lines["resize"]["path"]) / "about.json"
    about.write_bytes(b'{"after": "\xff[red]')
    os.utime(about, (1 << 40, 1 << 40))  # no calendar has it, where the file system does
    assert set(listed(tier)) == {"decode_image", ""}
    about.unlink()
    assert listed(tier)[""]["used"] == ""


def test_what_about_says_steers_no_terminal(tier: Path) -> None:
    about = Path(listed(tier)["resize"]["path"]) / "about.json"
    about.write_text(json.dumps({"after": "[red]\x1b[2J"}))
    table = run("cache", "ls", "--folder", tier, COLUMNS="200")
    assert "\x1b" not in table
    assert "[red]" in table


def test_every_byte_is_checked(tier: Path) -> None:
    found = json.loads(run("cache", "verify", "--folder", tier, "--json"))
    assert found["ok"]
    assert [line["entries"] for line in found["files"]] == [PHOTOS, PHOTOS]
    (path,) = Path(listed(tier)["resize"]["path"]).glob("*.segment")
    held = bytearray(path.read_bytes())
    held[-1] ^= 1
    path.write_bytes(held)
    assert "damaged" in run("cache", "verify", "--folder", tier, "--json", code=1)
    name = listed(tier)["decode_image"]["name"]
    (line,) = json.loads(run("cache", "verify", name, "--folder", tier, "--json"))["files"]
    assert line["ok"]


def test_files_of_other_users_are_not_damaged(tier: Path) -> None:
    place = Path(listed(tier)["resize"]["path"])
    (path,) = place.glob("*.segment")
    path.chmod(0)
    arguments = ["cache", "verify", place.name, "--folder", str(tier), "--json"]
    command = [sys.executable, "-m", "carya", *arguments]
    if os.geteuid() == 0:  # root may read everything
        if not shutil.which("setpriv"):
            pytest.skip("needs setpriv, or not to be root")
        less = "-dac_override,-dac_read_search"
        command = ["setpriv", f"--bounding-set={less}", f"--inh-caps={less}", *command]

    def verified(code: int) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done

    found = json.loads(verified(0).stdout)
    (line,) = found["files"]
    assert found["ok"]
    assert line["entries"] == line["damaged_count"] == 0
    assert line["problem"] == "1 files are another user's, and not checked"
    tier.chmod(0)
    said = verified(1).stderr
    tier.chmod(0o700)
    assert "this user may not read it" in said
    assert len(said.splitlines()) == 1


def test_places_are_removed_and_nothing_else(tier: Path) -> None:
    (tier / "other").write_text("of somebody else")
    lines = listed(tier)
    place = Path(lines["resize"]["path"])
    (place / "about.json.4fQx1a").write_text("what a killed writer left")
    removed = json.loads(run("cache", "rm", lines["resize"]["fingerprint"][:8], "--folder", tier, "--json"))
    assert removed == {"removed": [place.name], "bytes": lines["resize"]["bytes"]}
    assert not place.exists()
    assert set(listed(tier)) == {"decode_image"}
    run("cache", "rm", "--all", "--folder", tier)
    assert [path.name for path in tier.iterdir()] == ["other"]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for words in (["ls"], ["verify"], ["rm", "--all"]):
        assert "--folder" in run("cache", *words, "--folder", tmp_path / "none", code=1)
    run("cache", "ls", "--folder", tmp_path)
    assert "ls --folder" in run("cache", "rm", "samples-0", "--folder", tmp_path, code=1)


def test_a_folder_is_warmed_before_a_training(tmp_path: Path) -> None:
    old = time.time() - 3600
    (tmp_path / "photos" / "class").mkdir(parents=True)
    for number in range(PHOTOS):
        path = tmp_path / "photos" / "class" / f"{number}.jpg"
        Image.fromarray(np.random.default_rng(number).integers(0, 255, (24, 30, 3), np.uint8)).save(path)
        os.utime(path, (old, old))
    (tmp_path / "photos" / "class" / "broken.jpg").write_bytes(b"no picture")
    pipeline = carya.image_folder(tmp_path / "photos").decode_image().resize((20, 20)).random_crop(16).batch(2)
    document, folder = tmp_path / "pipeline.json", tmp_path / "tier"
    document.write_text(pipeline.to_json())
    words = ["cache", "warm", document, "--folder", folder, "--capacity", "64MB", "--json"]
    result = json.loads(run(*words))
    assert (result["written"], result["records"], result["full"], result["after"]) == (PHOTOS, PHOTOS, False, "resize")
    assert json.loads(run(*words))["written"] == 0, "it is there already"
    cache = {"disk": (folder, "64MB")}
    with carya.Loader(pipeline, epochs=1, daemon="embedded", on_error="mask", cache=cache) as loader:
        for _ in loader:
            pass
        assert loader.stats()["cache"]["files"][0]["hits"] == PHOTOS
    other = ["cache", "warm", document, "--folder", tmp_path / "other", "--capacity"]
    assert "random_crop" in run(*other, "64MB", "--after", "random_crop", code=1)
    assert "lots" in run(*other, "lots", code=1)


def test_warming_what_may_not_lie_in_files_says_what_to_give(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("import carya, numpy\npipeline = carya.arrays({'x': numpy.zeros((8, 4), 'uint8')}).batch(2)\n")
    words = ["cache", "warm", f"{program}:pipeline", "--folder", str(tmp_path / "kept"), "--capacity", "64MB"]
    done = subprocess.run([sys.executable, "-m", "carya", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nothing of this pipeline is kept in files (" in done.stderr
    assert "; give --after an operation behind which samples may lie in files" in done.stderr
