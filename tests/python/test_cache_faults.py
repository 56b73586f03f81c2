"""Samples in files on storage that fails, through a FUSE file system of our own: the stream keeps its bits and says so.

What happens to bytes that lie there is in test_cache_files.py; kills are, too.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemons import until
from test_cache_files import EPOCHS, PHOTOS, crops, photos, rows, run, tier_bytes  # noqa: F401

import carya

SOURCE = Path(__file__).with_name("faulty_folder.c")
FIELDS = (
    "changes_from",
    "changes_errno",
    "reads_from",
    "reads_errno",
    "hangs",
    "changes",
    "reads",
    "spoilt",
    "delay_us",
)
HOST = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False)
    if found.returncode != 0 or shutil.which("cc") is None:
        pytest.skip("needs a C compiler and libfuse3-dev")
    made = tmp_path_factory.mktemp("fuse") / "faulty_folder"
    subprocess.run(["cc", "-O1", "-o", made, SOURCE, *found.stdout.split()], check=True)
    return made


class Storage:
    """A folder `path` that shows `source`, and fails as it is told."""

    def __init__(self, program: Path, source: Path, path: Path) -> None:
        source.mkdir(exist_ok=True)
        path.mkdir()
        self.source, self.path = source, path
        control = path.with_suffix(".control")
        control.write_bytes(bytes(8 * len(FIELDS)))
        with control.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._server = subprocess.Popen([program, source, path, control], stderr=subprocess.DEVNULL)
        until(lambda: os.path.ismount(path) or self._server.poll() is not None, 30)
        if not os.path.ismount(path):
            pytest.skip("nothing may be mounted here (FUSE)")

    def __getitem__(self, name: str) -> int:
        value: int = struct.unpack_from("<Q", self._memory, 8 * FIELDS.index(name))[0]
        return value

    def __setitem__(self, name: str, value: int) -> None:
        struct.pack_into("<Q", self._memory, 8 * FIELDS.index(name), value)

    def fail(self, kind: str, number: int, code: int) -> None:
        """The call of this kind with this number from now on, and all behind it, fail."""
        self["spoilt"] = 0
        self[f"{kind}_errno"] = code
        self[f"{kind}_from"] = self[kind] + number

    def heal(self) -> None:
        self["changes_from"] = self["reads_from"] = self["hangs"] = self["delay_us"] = 0

    def close(self) -> None:
        self.heal()
        self._server.terminate()  # it unmounts
        self._server.wait(60)


@pytest.fixture
def storage(program: Path, tmp_path: Path) -> Iterator[Storage]:
    made = Storage(program, tmp_path / "source", tmp_path / "mounted")
    yield made
    made.close()


def filled(photos: Path, storage: Storage) -> Any:  # noqa: F811
    """The options of a tier that has all photos."""
    cache = {"disk": (storage.path / "tier", "64MB")}
    run(photos, cache, written=PHOTOS)
    return cache


def serves(photos: Path, cache: Any, hits: int, epochs: int = EPOCHS) -> None:  # noqa: F811
    """Some loader soon finds so many there: a busy machine may open a folder later than its first loader reads."""
    expected, _ = run(photos, "off", epochs)

    def found_all() -> bool:
        found, told = run(photos, cache, epochs)
        assert found == expected
        assert told["files"][0]["damaged"] == 0
        return bool(told["files"][0]["hits"] >= hits)

    until(found_all)


def is_late(loader: carya.Loader) -> bool:
    """Whether the tier is opened later than its loader begins, on a busy machine: what it meets then shows nothing."""
    (tier,) = loader.stats()["cache"]["files"]
    return not tier["open"] and tier["trouble"] is None


def one_epoch(photos: Path, cache: Any) -> tuple[list[bytes], Any] | None:  # noqa: F811
    """The batches, and what the loader says once all is written or trouble was met; None where the tier is late."""
    with carya.Loader(crops(photos), epochs=1, threads=1, daemon="embedded", cache=cache) as loader:
        late = is_late(loader)
        found = rows(loader, 1)
        if late:
            return None

        def settled() -> bool:
            (tier,) = loader.stats()["cache"]["files"]
            known = tier["written"] + tier["hits"] >= PHOTOS
            return known or tier["trouble"] is not None or tier["full"]

        until(settled, 30)
        return found, loader.stats()["cache"]["files"][0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
def test_the_first_second_third_change_that_fails_costs_no_bit(
    photos: Path,  # noqa: F811
    storage: Storage,
    code: int,
) -> None:
    """A full disk, a broken one and one that has become read-only, at every call that changes anything."""
    expected, _ = run(photos, "off", 1)
    number, step = 1, 1 if code == errno.ENOSPC else 7
    for attempt in itertools.count():
        cache = {"disk": (storage.path / f"tier{attempt}", "64MB")}
        storage.fail("changes", number, code)
        made, spoilt = one_epoch(photos, cache), storage["spoilt"]
        storage.heal()
        if made is None:
            continue
        found, tier = made
        said = tier["trouble"]
        assert found == expected, number
        if spoilt == 0:
            break
        # The last calls cut what was promised and not used, when the loader has gone: nobody can be told.
        told_all = tier["written"] == PHOTOS or tier["full"] or (said is not None and os.strerror(code) in said)
        assert told_all, (number, tier)
        serves(photos, cache, tier["written"], 1)  # what was written before is there
        number += step
    assert number > 2 * PHOTOS


def test_the_first_second_third_read_that_fails_costs_no_bit(photos: Path, storage: Storage) -> None:  # noqa: F811
    expected, _ = run(photos, "off", 1)
    cache = filled(photos, storage)
    number = 1
    while True:
        storage.fail("reads", number, errno.EIO)
        with carya.Loader(crops(photos), epochs=1, threads=1, daemon="embedded", cache=cache) as loader:
            late = is_late(loader)
            assert rows(loader, 1) == expected, number
            (tier,) = loader.stats()["cache"]["files"]
        del loader  # with its tier, which the next one would share
        spoilt = storage["spoilt"]
        storage.heal()
        if late:
            continue
        if spoilt == 0:
            break
        assert tier["fetch_failures"] > 0 or os.strerror(errno.EIO) in (tier["trouble"] or ""), (number, tier)
        number += 3
    assert number > PHOTOS, str(tier)
    serves(photos, cache, EPOCHS * PHOTOS)


def test_a_read_only_folder_gives_what_it_has(photos: Path, storage: Storage) -> None:  # noqa: F811
    cache = filled(photos, storage)
    storage.fail("changes", 1, errno.EROFS)
    serves(photos, cache, EPOCHS * PHOTOS)
    made = None
    while made is None:
        made = one_epoch(photos, {"disk": (storage.path / "another", "64MB")})
    found, tier = made
    assert found == run(photos, "off", 1)[0]
    assert os.strerror(errno.EROFS) in tier["trouble"]


@pytest.mark.parametrize("kind", ["disk", "shared"])
def test_a_folder_that_hangs_holds_nobody_up(
    photos: Path,  # noqa: F811
    storage: Storage,
    kind: str,
) -> None:
    """From the start, and in the middle of an epoch; when it answers again it is used again by the next loader."""
    expected, _ = run(photos, "off", 3)
    cache = {kind: (storage.path / "tier", "64MB")}
    run(photos, cache, written=PHOTOS)
    storage["hangs"] = 1
    assert run(photos, cache, 3)[0] == expected
    storage.heal()
    with carya.Loader(crops(photos), epochs=3, threads=1, daemon="embedded", cache=cache) as loader:
        found = []
        for batch in loader:
            found.append(bytes(batch.records) + batch["image"].tobytes() + batch["label"].tobytes())
            if len(found) == 2:
                storage["hangs"] = 1
        found += rows(loader, 2)
        until(lambda: loader.stats()["cache"]["files"][0]["trouble"])
        assert "hangs" in loader.stats()["cache"]["files"][0]["trouble"]
    storage.heal()
    assert found == expected
    serves(photos, cache, EPOCHS * PHOTOS)


TRAINER = """
import hashlib, sys, carya, numpy as np
folder, tier, capacity = sys.argv[1:]
pipeline = carya.image_folder(folder).shuffle(seed=3).decode_image().random_resized_crop(32).batch(4)
hashed = hashlib.sha256()
with carya.Loader(pipeline, epochs=6, threads=1, daemon="embedded", cache={"shared": (tier, int(capacity))}) as loader:
    for _ in range(6):
        for batch in loader:
            hashed.update(bytes(np.asarray(batch["image"])))
print(hashed.hexdigest())
"""


@pytest.mark.parametrize("share", [0.5, 300])
def test_two_hosts_fill_one_shared_folder(
    photos: Path,  # noqa: F811
    program: Path,
    tmp_path: Path,
    share: float,
) -> None:
    """Each sees it through a mount of its own, so that neither sees the locks of the other, as over a network."""
    run(photos, {"shared": (tmp_path / "whole", "64MB")}, written=PHOTOS)
    capacity = int(share * tier_bytes(tmp_path / "whole"))
    mounts = [Storage(program, tmp_path / "server", tmp_path / f"host{number}") for number in range(2)]
    apart = HOST if subprocess.run([*HOST, "true"], capture_output=True, check=False).returncode == 0 else ()
    try:
        words = [[*apart, sys.executable, "-c", TRAINER, photos, one.path / "tier", str(capacity)] for one in mounts]
        hosts = [subprocess.Popen(word, stdout=subprocess.PIPE, text=True) for word in words]
        told = {host.communicate(timeout=300)[0] for host in hosts}
        lone = subprocess.run(
            [sys.executable, "-c", TRAINER, photos, tmp_path / "alone", "64000000"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert told == {lone.stdout}
        assert tier_bytes(tmp_path / "server") <= capacity
        serves(photos, {"shared": (mounts[0].path / "tier", capacity)}, EPOCHS * PHOTOS if share > 1 else 1)
    finally:
        for one in mounts:
            one.close()
