"""Decode indexes change no bit: without, in the first epoch, later, lying, shared, interrupted, in tars."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import commands
import pytest
from conftest import picture
from PIL import Image
from streams import epoch_digest

import carya

CROP = {"scale": (0.2, 1.0)}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CARYA_CACHE_DIR", str(folder))
    return folder


def crops(source: carya.Pipeline) -> carya.Pipeline:
    return source.shuffle(seed=3).decode_image().random_resized_crop((24, 24), **CROP).batch(4)


def indexed(pipeline: carya.Pipeline, epochs: int = 2, index: Any = 8, **options: Any) -> tuple[str, dict[str, Any]]:
    """Digest of some epochs of a new loader, and what it says of its index."""
    from streams import digest

    with carya.Loader(pipeline, decode_index=index, epochs=epochs, **options) as loader:
        found = digest(batch for _ in range(epochs) for batch in loader)
        return found, loader.stats()["decode_index"]


def stores(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.store"))


@pytest.mark.parametrize("index", ["auto", "rows", 16, 8])
def test_no_bit_changes_in_any_epoch(photos: Path, cache: Path, index: Any) -> None:
    pipeline = crops(carya.image_folder(photos))
    expected = epoch_digest(pipeline, epochs=2, decode_index="off")
    for threads in (1, 3):
        found, stats = indexed(pipeline, index=index, threads=threads)
        assert found == expected
        assert stats["mismatches"] == stats["refused"] == 0
    if index != "auto":  # photos of a few KB are too small for the budget
        assert stats["spacing"] == index
        assert stats["hits"] >= 40
        assert stats["entries"] == 24
        assert 0.5 < stats["points_known_share"] <= 1
        assert stats["bytes"] > 0


def test_off_leaves_no_file_and_says_why(photos: Path, cache: Path) -> None:
    _, stats = indexed(crops(carya.image_folder(photos)), index="off")
    assert stores(cache) == []
    assert (stats["spacing"], stats["reason"]) == (None, "switched off")


def test_other_values_are_refused(photos: Path) -> None:
    for value in ("row", 4, True, None):
        with pytest.raises(carya.InvalidArgument, match="decode_index"):
            carya.Loader(crops(carya.image_folder(photos)), decode_index=value)


def test_lying_index_files(photos: Path, cache: Path) -> None:
    pipeline = crops(carya.image_folder(photos))
    expected, _ = indexed(pipeline)
    (store,) = stores(cache)
    whole = store.read_bytes()
    numbers = random.Random(5)
    for round_ in range(9):
        damaged = bytearray(whole)
        for _ in range(40):
            damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
        if round_ % 3 == 1:
            damaged = damaged[: numbers.randrange(len(damaged))]
        if round_ % 3 == 2:
            damaged[64:] = numbers.randbytes(len(damaged) - 64)
        store.write_bytes(damaged)
        assert indexed(pipeline)[0] == expected


def test_tars_have_indexes_too(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "part-0.tar"
    with tarfile.open(path, "w") as tar:
        for number in range(12):
            memory = io.BytesIO()
            Image.fromarray(picture(number, 120, 150)).save(memory, "JPEG", quality=90)
            for name, data in ((f"{number:04d}.jpg", memory.getvalue()), (f"{number:04d}.cls", b"3")):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    pipeline = crops(carya.webdataset(str(path)))
    expected = epoch_digest(pipeline, epochs=2, decode_index="off")
    assert indexed(pipeline)[0] == expected
    found, stats = indexed(pipeline)
    assert found == expected
    assert stats["entries"] == 12
    assert stats["hits"] >= 24


def test_replaced_files_of_the_same_size(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)

    def write(number: int, seed: int) -> None:
        memory = io.BytesIO()
        Image.fromarray(picture(seed, 130, 160)).save(memory, "JPEG", quality=85)
        data = memory.getvalue()
        padding = 40_000 - len(data) - 4  # a comment behind the start marker: every file has the same size
        comment = b"\xff\xfe" + (padding + 2).to_bytes(2, "big") + bytes(padding)
        (folder / f"{number}.jpg").write_bytes(data[:2] + comment + data[2:])

    for number in range(8):
        write(number, number)
    pipeline = crops(carya.image_folder(folder.parent))
    before, _ = indexed(pipeline)
    for number in range(8):
        write(number, 50 + number)
    expected = epoch_digest(pipeline, epochs=2, decode_index="off")
    assert expected != before
    found, stats = indexed(pipeline)
    assert found == expected
    assert stats["refused"] >= 8
    assert indexed(pipeline)[1]["refused"] == 0


SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
import carya
from streams import digest
pipeline = carya.Pipeline.from_json(open({document!r}).read())
with carya.Loader(pipeline, decode_index=8, epochs={epochs}, threads=2) as loader:
    print(digest(batch for _ in range({epochs}) for batch in loader), flush=True)
"""


def start(pipeline: carya.Pipeline, folder: Path, epochs: int) -> subprocess.Popen[str]:
    document = folder / "pipeline.json"
    document.write_text(pipeline.to_json())
    script = SCRIPT.format(tests=str(Path(__file__).parent), document=str(document), epochs=epochs)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=dict(os.environ))


def test_processes_at_once_share_the_file(photos: Path, cache: Path, tmp_path: Path) -> None:
    pipeline = crops(carya.image_folder(photos))
    expected = epoch_digest(pipeline, epochs=3, decode_index="off")
    jobs = [start(pipeline, tmp_path, 3) for _ in range(3)]
    for job in jobs:
        assert job.communicate(timeout=300)[0].strip() == expected
    assert len(stores(cache)) == 1
    found, stats = indexed(pipeline, epochs=3)
    assert found == expected
    assert stats["entries"] == 24


def test_killed_in_the_middle(photos: Path, cache: Path, tmp_path: Path) -> None:
    pipeline = crops(carya.image_folder(photos))
    expected = epoch_digest(pipeline, epochs=2, decode_index="off")
    for wait in (0.0, 0.05, 0.6, 1.3):
        job = start(pipeline, tmp_path, 100_000)
        deadline = time.monotonic() + 300
        while not stores(cache) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(wait)
        job.send_signal(signal.SIGKILL)
        job.communicate()
        found, stats = indexed(pipeline)
        assert found == expected
        assert stats["mismatches"] == 0


def test_command_completes_shows_checks_and_removes(photos: Path, cache: Path) -> None:
    pytest.importorskip("typer")
    pytest.importorskip("rich")

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        done = commands.ended(*words, "--json")
        assert done.returncode == code, done.stderr
        return dict(json.loads(done.stdout))

    first = run("index", str(photos), "--decode-index", "8")
    assert (first["index_made"], first["index_unsuited"], first["index_points_known_share"]) == (24, 3, 1.0)
    again = run("index", str(photos), "--decode-index", "8")
    assert (again["index_complete"], again["index_made"]) == (24, 0)
    _, stats = indexed(crops(carya.image_folder(photos)))
    assert stats["made"] == 0
    assert stats["hits"] >= 48

    listed = run("cache", "ls")["files"]
    assert [line["kind"] for line in listed] == ["manifest", "index", "profile"]
    assert listed[2]["records"] > 0
    assert run("cache", "verify")["ok"] is True
    (profile,) = cache.glob("profile-*.json")
    whole = profile.read_text()
    for damaged in (
        "",
        "[1]",
        '{"orders":[{"stages":[{}]}]}',
        '{"orders":7}',
        "[" * 100_000,
        '{"orders":[{"stages":[{"samples":1e999}]}]}',
    ):
        profile.write_text(damaged)
        assert run("cache", "verify", code=1)["ok"] is False
    profile.write_text(whole)
    (store,) = stores(cache)
    with open(store, "r+b") as file:
        file.seek(store.stat().st_size // 2)
        file.write(b"damage!!")
    report = run("cache", "verify", code=1)
    assert [line["ok"] for line in report["files"]] == [True, False, True]
    assert run("cache", "rm", store.name)["removed"] == [store.name]
    assert stores(cache) == []
    assert run("cache", "rm", "--all")["bytes"] > 0
    assert run("cache", "ls")["files"] == []
    assert run("index", str(photos), "--decode-index", "off")["decode_index"] is None
