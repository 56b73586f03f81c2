"""Records of stores that are kept for later epochs: no request for them again, the same bits, and what the rest costs."""

from __future__ import annotations

import hashlib
import io
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import until
from PIL import Image
from store_data import BUCKET, forget_credentials
from stores import FaultStore

import carya

PHOTOS, BYTES = 40, 40_000


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_credentials(monkeypatch, tmp_path)


def jpeg(number: int) -> bytes:
    """40 kB of noise, so that what files take beside records does not count; all of one size, as a change may be."""
    pixels = np.random.default_rng(number).integers(0, 255, (160, 150, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
    assert buffer.tell() <= BYTES
    return buffer.getvalue().ljust(BYTES, b"\0")


def name(number: int) -> str:
    return f"/{BUCKET}/{number:02}.jpg"


@pytest.fixture
def store() -> Iterator[FaultStore]:
    with FaultStore({name(number): jpeg(number) for number in range(PHOTOS)}) as running:
        yield running


@pytest.fixture
def local(tmp_path: Path, store: FaultStore) -> list[str]:
    """The same objects as files."""
    folder = tmp_path / "local"
    folder.mkdir()
    for path, data in store.objects.items():
        (folder / Path(path).name).write_bytes(data)
    return sorted(str(path) for path in folder.iterdir())


def urls(store: FaultStore) -> list[str]:
    return [store.url + path for path in sorted(store.objects)]


def crops(paths: list[str], **options: Any) -> carya.Pipeline:
    source = carya.files(paths, labels=list(range(len(paths))), **options)
    return source.shuffle(seed=3).decode_image().random_resized_crop(32).batch(4)


def epoch(loader: carya.Loader) -> str:
    """A digest of one epoch."""
    state = hashlib.sha256()
    for batch in loader:
        for array in (batch.records, batch["image"], batch["label"]):
            state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def epochs(pipeline: carya.Pipeline, count: int, **options: Any) -> list[str]:
    with carya.Loader(pipeline, threads=1, epochs=count, **options) as loader:
        return [epoch(loader) for _ in range(count)]


def loader_of(store: FaultStore, cache: Any, **options: Any) -> carya.Loader:
    options = {"threads": 1, "prefetch_epochs": False, "cache": cache, **options}
    return carya.Loader(crops(urls(store)), **options)


def cache_figures(loader: carya.Loader) -> dict[str, Any]:
    figures: dict[str, Any] = loader.stats()["cache"]
    return figures


def written(loader: carya.Loader, count: int = PHOTOS) -> bool:
    """Whether the first tier of files was given `count` samples by this loader."""
    return bool(cache_figures(loader)["files"][0]["written"] >= count)


def fill(store: FaultStore, cache: Any) -> None:
    """An epoch, until all of it is written. Files are open as long as there is a loader, so none is given back."""
    with loader_of(store, cache) as loader:
        epoch(loader)
        until(lambda: written(loader))


def one_epoch(store: FaultStore, cache: Any) -> tuple[str, int]:
    """Its digest, and how much was found damaged."""
    with loader_of(store, cache, epochs=1) as loader:
        return epoch(loader), cache_figures(loader)["files"][0]["damaged"]


def settled(loader: carya.Loader) -> bool:
    """Whether the first tier of files has written something, and nothing more for a moment."""
    before = cache_figures(loader)["files"][0]["written"]
    time.sleep(0.1)
    return bool(0 < before == cache_figures(loader)["files"][0]["written"])


def questions(store: FaultStore) -> int:
    """How many there were, once no request that nobody waits for is on its way: those that are late are asked twice."""
    while True:
        before = len(store.seen)
        time.sleep(0.05)
        if len(store.seen) == before:
            return before


def asked(store: FaultStore, since: int = 0) -> list[str]:
    """The objects that were read since so many questions."""
    return sorted({path for method, path, _ in store.seen[since : questions(store)] if method == "GET"})


@pytest.mark.parametrize("form", [{}, {"form": "records"}, {"form": "coefficients"}], ids=str)
@pytest.mark.parametrize("tier", ["memory", "disk", "shared"])
def test_no_request_for_what_is_kept(
    store: FaultStore, local: list[str], tmp_path: Path, tier: str, form: dict[str, str]
) -> None:
    expected = epochs(crops(local), 3)
    cache = {tier: "64MB" if tier == "memory" else (tmp_path / "tier", "64MB"), **form}
    with loader_of(store, cache) as loader:
        found = [epoch(loader)]
        assert len(asked(store)) == PHOTOS
        begun = questions(store)
        if tier != "memory":
            until(lambda: written(loader))
        found += [epoch(loader), epoch(loader)]
        assert cache_figures(loader)["form"] == form.get("form", "raw")
        (asked_of,) = loader.stats()["store"]
    assert found == expected
    assert asked(store, begun) == []
    assert asked_of["requests"] - asked_of["hedged"] == PHOTOS
    assert asked_of["bytes"] == sum(map(len, store.objects.values()))
    if tier == "memory":
        return
    with loader_of(store, cache) as loader:
        assert [epoch(loader)] == expected[:1]
    assert asked(store, begun) == [], "nor does another run ask"


def test_records_are_shared_by_other_operations(store: FaultStore, tmp_path: Path) -> None:
    cache = {"disk": (tmp_path / "tier", "64MB"), "form": "records"}
    fill(store, cache)
    begun = questions(store)
    resized = carya.files(urls(store), labels=list(range(PHOTOS))).decode_image().resize((24, 24)).batch(8)
    with carya.Loader(resized, threads=1, cache=cache) as loader:
        for _ in loader:
            pass
    assert asked(store, begun) == []


@pytest.mark.parametrize("tier", ["memory", "disk"])
def test_the_same_records_are_asked_for_in_each_epoch(
    store: FaultStore, local: list[str], tmp_path: Path, tier: str
) -> None:
    expected = epochs(crops(local), 4)
    room = sum(map(len, store.objects.values())) * 2 // 5
    cache = {tier: room if tier == "memory" else (tmp_path / "tier", room), "form": "records"}
    found, seen = [], []
    begun = len(store.seen)
    with loader_of(store, cache) as loader:  # which begins to read
        for _ in range(4):
            found.append(epoch(loader))
            seen.append(asked(store, begun))
            if tier == "disk":  # what was offered is written by and by
                until(lambda: settled(loader))
                assert cache_figures(loader)["files"][0]["bytes"] <= room
            begun = questions(store)
    assert found == expected
    assert len(seen[0]) == PHOTOS
    assert seen[2] == seen[3]
    assert PHOTOS // 2 <= len(seen[3]) <= PHOTOS * 4 // 5


@pytest.mark.parametrize("tier", ["memory", "disk"])
def test_an_object_that_changed_is_never_taken_from_what_was_kept(store: FaultStore, tmp_path: Path, tier: str) -> None:
    cache = {tier: "64MB" if tier == "memory" else (tmp_path / "tier", "64MB"), "form": "records"}
    with loader_of(store, cache) as loader:
        before = epoch(loader)
        if tier == "disk":
            until(lambda: written(loader))
        for number in range(0, PHOTOS, 2):
            store.objects[name(number)] = jpeg(number + PHOTOS)
        epoch(loader)  # as they were listed: nothing is asked for
    now = epochs(crops(urls(store)), 1)
    assert now != [before]
    begun = questions(store)
    with loader_of(store, cache) as loader:
        assert [epoch(loader)] == now
    changed = [name(number) for number in range(0, PHOTOS, 2)]
    assert asked(store, begun) == (sorted(store.objects) if tier == "memory" else changed)


def test_an_object_that_changed_raises_where_it_is_read(store: FaultStore) -> None:
    room = sum(map(len, store.objects.values())) // 4
    with loader_of(store, {"memory": room, "form": "records"}, io_timeout=2) as loader:
        epoch(loader)
        epoch(loader)
        for number in range(PHOTOS):
            store.objects[name(number)] = jpeg(number + PHOTOS)
        with pytest.raises(carya.IoError, match="changed"):
            epoch(loader)


def test_damaged_records_are_read_from_the_store_again(store: FaultStore, local: list[str], tmp_path: Path) -> None:
    expected = epochs(crops(local), 1)
    cache = {"disk": (tmp_path / "tier", "64MB"), "form": "records"}
    fill(store, cache)
    whole = {path: path.read_bytes() for path in (tmp_path / "tier").rglob("*.segment")}
    chance = random.Random(4)
    damaged = again = 0
    for _ in range(4):
        for other in (tmp_path / "tier").rglob("*.segment"):
            other.unlink()
        for path, data in whole.items():
            now = bytearray(data)
            for _ in range(20):
                now[chance.randrange(len(now))] ^= 1 << chance.randrange(8)
            path.write_bytes(now)
        begun = questions(store)
        found, now_damaged = one_epoch(store, cache)
        assert [found] == expected
        damaged += now_damaged
        again += len(asked(store, begun))
    assert damaged > 0
    assert again > 0


def test_a_loader_that_was_closed_holds_no_files(store: FaultStore, tmp_path: Path) -> None:
    cache = {"disk": (tmp_path / "tier", "64MB"), "form": "records"}

    def held() -> list[str]:
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return [path for path in map(os.readlink, filter(os.path.lexists, links)) if path.startswith(str(tmp_path))]

    with carya.Loader(crops(urls(store)), threads=1) as other:  # its threads are those of the process
        next(iter(other))
        for _ in range(10):
            with loader_of(store, cache) as loader:
                epoch(loader)
                assert held()
            until(lambda: not held())  # threads of the tier close them as they end
            assert cache_figures(loader)["files"][0]["records"] > 0, "what was so is still said"


def test_versions_that_do_not_last_are_not_kept_in_files(
    store: FaultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weak(data: bytes) -> dict[str, str]:
        return {"ETag": f'W/"{hashlib.md5(data).hexdigest()}"'}

    monkeypatch.setattr(store, "version", weak)
    monkeypatch.setattr(store, "is_another", lambda request, version: False)
    with loader_of(store, {"memory": "64MB", "disk": (tmp_path / "tier", "64MB"), "form": "records"}) as loader:
        epoch(loader)
        begun = questions(store)
        epoch(loader)
        assert asked(store, begun) == [], "memory has them"
        assert cache_figures(loader)["files"][0]["written"] == 0


TRAINER = """
import sys, carya
tier, *paths = sys.argv[1:]
source = carya.files(paths, labels=list(range(len(paths))))
pipeline = source.shuffle(seed=3).decode_image().random_resized_crop(32).batch(4)
print("begun", flush=True)
with carya.Loader(pipeline, epochs=50, threads=2, daemon="embedded", cache={"disk": (tier, "64MB"), "form": "records"}) as loader:
    for _ in range(50):
        for _ in loader:
            pass
"""


def test_processes_killed_at_any_moment_leave_the_right_bits(
    store: FaultStore, local: list[str], tmp_path: Path
) -> None:
    expected = epochs(crops(local), 1)
    chance = random.Random(5)
    for _ in range(int(os.environ.get("CARYA_CACHE_KILLS", "6")) // 2):
        trainers = [
            subprocess.Popen(
                [sys.executable, "-c", TRAINER, str(tmp_path / "tier"), *urls(store)], stdout=subprocess.PIPE
            )
            for _ in range(2)
        ]
        for trainer in trainers:
            assert trainer.stdout is not None
            assert trainer.stdout.readline() == b"begun\n"
        time.sleep(chance.random() * 0.3)
        for trainer in trainers:
            trainer.send_signal(signal.SIGKILL)
            trainer.communicate()
        with loader_of(store, {"disk": (tmp_path / "tier", "64MB"), "form": "records"}) as loader:
            assert [epoch(loader)] == expected
            assert cache_figures(loader)["files"][0]["damaged"] == 0
    assert sum(path.stat().st_size for path in (tmp_path / "tier").rglob("*.segment")) <= 64_000_000


def test_auto_keeps_what_saves_requests(store: FaultStore, local: list[str]) -> None:
    store.fault = lambda path, count: "late 0.01"
    found: list[str] = []
    with loader_of(store, "auto", prices={"request": 0.0004}) as loader:

        def quiet() -> bool:
            begun = store.gets
            found.append(epoch(loader))
            return store.gets == begun

        until(quiet)
        said = str(loader.explain())
        assert cache_figures(loader)["after"] is not None
    assert found == epochs(crops(local), len(found))
    assert "with what is kept 0 requests" in said
    assert "us of CPU time for the money" in said


def test_what_a_store_was_asked_is_counted_and_priced(store: FaultStore) -> None:
    store.fault = lambda path, count: "503" if count % 10 == 3 else "500" if count % 10 == 7 else ""
    with loader_of(store, "off", prices={"request": 0.5, "gb": 2.0}) as loader:
        before = loader.explain()["store"]
        epoch(loader)
        (figures,) = loader.stats()["store"]
        said = loader.explain()
    size = sum(map(len, store.objects.values()))
    assert before[0]["epoch"] == {
        "requests": PHOTOS,
        "bytes": size,
        "cost": pytest.approx(0.5 * PHOTOS / 1000 + 2e-9 * size),
    }
    assert figures["source"] == store.url
    assert store.gets > PHOTOS
    assert store.gets <= figures["requests"] <= store.gets + figures["hedged"], "one may have been given up on its way"
    assert (figures["reads"], figures["bytes"]) == (PHOTOS, size)
    assert figures["retries"] == sum(count % 10 in (3, 7) for count in range(1, store.gets + 1))
    assert figures["throttled"] == sum(count % 10 == 3 for count in range(1, store.gets + 1))
    assert figures["prices"] == {"request": 0.5, "gb": 2.0}
    assert figures["cost"] == pytest.approx(0.5 * figures["requests"] / 1000 + 2e-9 * size)
    assert figures["epoch_reads"] == PHOTOS
    assert said["store"][0]["epoch"]["requests"] == pytest.approx(figures["requests"])
    assert f"{store.url}: {figures['requests']} requests" in str(said)
    assert "$0.5 per 1,000 requests and $2 per GB" in str(said)


def test_late_requests_that_are_asked_twice_are_counted(store: FaultStore) -> None:
    store.fault = lambda path, count: "late 1.5" if count == PHOTOS - 2 else ""
    with loader_of(store, "off", read_ahead=1) as loader:
        epoch(loader)
        (figures,) = loader.stats()["store"]
    assert figures["hedged"] == figures["requests"] - PHOTOS
    assert figures["hedged"] > 0


@pytest.mark.parametrize(
    ("where", "prices"),
    [("s3", {"request": 0.0004, "gb": 0.0}), ("http", {"request": 0.0, "gb": 0.0})],
)
def test_prices_are_those_of_the_cloud_until_others_are_given(
    store: FaultStore, monkeypatch: pytest.MonkeyPatch, where: str, prices: dict[str, float]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.url)
    paths = [f"s3:/{path}" for path in sorted(store.objects)] if where == "s3" else urls(store)
    with carya.Loader(crops(paths), threads=1) as loader:
        next(iter(loader))
        assert loader.stats()["store"][0]["prices"] == prices


def test_the_page_shows_it(store: FaultStore) -> None:
    with loader_of(store, "off") as loader:
        epoch(loader)
        (figures,) = loader.stats()["store"]
        with carya.watch(loader) as server, urllib.request.urlopen(server.url, timeout=30) as answer:
            body = answer.read().decode()
    assert f"<dt>{store.url}</dt><dd>{figures['requests']} requests and " in body


def test_files_have_no_store(local: list[str]) -> None:
    with carya.Loader(crops(local), threads=1) as loader:
        epoch(loader)
        assert loader.stats()["store"] == []
        assert loader.explain()["store"] == []
        assert "requests" not in str(loader.explain())


@pytest.mark.parametrize("prices", [{"request": -1}, {"gb": "much"}, {"requests": 1}, {"request": "v3-8"}], ids=str)
def test_prices_that_cannot_be_are_refused(local: list[str], prices: dict[str, Any]) -> None:
    with pytest.raises(carya.InvalidArgument, match="request"):
        carya.Loader(crops(local), prices=prices)


@pytest.mark.parametrize(("scheme", "labels", "mode"), [("", False, 0o644), ("s3+", False, 0o600), ("", True, 0o600)])
def test_what_is_read_with_credentials_and_what_a_program_gave_are_this_user_s_alone(
    store: FaultStore, tmp_path: Path, scheme: str, labels: bool, mode: int
) -> None:
    """In a shared folder. What plain HTTP gives without credentials is everybody's; a store of a cloud may find some."""
    paths = [scheme + url for url in urls(store)]
    source = carya.files(paths, labels=list(range(PHOTOS))) if labels else carya.files(paths)
    pipeline = source.decode_image().random_resized_crop(32).batch(4)
    cache = {"shared": (str(tmp_path / "tier"), "64MB"), "form": "records"}
    before = os.umask(0o022)
    try:
        with carya.Loader(pipeline, threads=1, cache=cache) as loader:
            for _ in loader:
                pass
            until(lambda: written(loader))
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "tier").rglob("*.segment")} == {mode}
