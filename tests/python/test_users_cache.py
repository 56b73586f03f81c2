"""Who may read what is kept of data is who may read the data: other users attack a shared folder of samples, and a cache folder.

As root, with users who are none of this machine's accounts (tests/ENVIRONMENT.md).
"""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_user import Refused, User
from PIL import Image
from test_users import ALICE, BOB, GROUP, MALLORY, running

PHOTOS = 12
WORD = b"A picture of Alice's. "
OLD = time.time() - 3600  # files that were changed long before the loader is made

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")

RUN = """
import hashlib
pipeline = carya.image_folder(folder).shuffle(seed=3).decode_image().random_crop(16).batch(4)
cache = {"shared": (tier, "64MB"), "after": "decode_image"}
with carya.Loader(pipeline, epochs=2, threads=1, daemon=where, cache=cache) as loader:
    state = hashlib.sha256()
    for _ in range(2):
        for batch in loader:
            state.update(bytes(batch["image"].tobytes()))
    for _ in range(1000):
        (told,) = loader.stats()["cache"]["files"]
        if told["written"] >= written:
            break
        time.sleep(0.01)
result = [told["hits"], told["written"], told["trouble"], state.hexdigest()]
"""
# What is imported late lies where other users may not look.
EARLY = """
import gzip, os, tempfile
import carya
import carya._cli.cache
with tempfile.TemporaryDirectory() as folder:
    os.environ["CARYA_CACHE_DIR"] = folder
    with gzip.open(folder + "/rows.jsonl.gz", "wt") as file:
        file.write('{"said": ""}' + chr(10))
    carya.jsonl(folder + "/rows.jsonl.gz")[0]
"""
LOOK = """
found = b""
for place, _, names in os.walk(folder):
    for name in names:
        found += os.fsencode(name)
        try:
            with open(os.path.join(place, name), "rb") as file:
                found += file.read()
        except PermissionError:
            pass
result = word.encode() in found
"""


class Place:
    """Alice's pictures, with a word in the pixels of each, beside a folder in which all users keep samples."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.tier, self.cache = folder, folder / "data", folder / "tier", folder / "cache"
        for shared in (self.tier, self.cache):
            shared.mkdir()
            shared.chmod(0o1777)
        (folder / "early.py").write_text(EARLY)
        pixels = np.frombuffer((WORD * 200)[: 60 * 20 * 3], np.uint8).reshape(60, 20, 3)
        for number in range(PHOTOS):
            path = self.data / "class" / f"secret-{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.roll(pixels, number, 0)).save(path)
            os.utime(path, (OLD, OLD))

    def give(self, group: int, folders: int, files: int) -> None:
        for path in (self.data, *self.data.rglob("*")):
            os.chown(path, ALICE, group)
            path.chmod(folders if path.is_dir() else files)

    @contextmanager
    def user(self, uid: int, *groups: int) -> Iterator[User]:
        home = self.folder / f"home-{uid}"
        home.mkdir(mode=0o700, exist_ok=True)
        os.chown(home, uid, uid)
        with User(uid, groups, "", str(home), (str(self.folder / "early.py"),)) as one:
            one.do("os.umask(0o022)")
            yield one

    def run(self, user: User, written: int = 0, where: str = "embedded") -> Any:
        """Hits, samples written, trouble, a digest of the pixels."""
        return user.do(RUN, folder=str(self.data), tier=str(self.tier), written=written, where=where)

    def sees(self, user: User, word: bytes = WORD, folder: str = "tier") -> bool:
        """Whether a file that the user may read has the word, or its name does."""
        found: bool = user.do(LOOK, folder=str(self.folder / folder), word=word.decode())
        return found

    def modes(self) -> set[int]:
        return {path.stat().st_mode & 0o777 for path in self.tier.rglob("*.segment")}


@pytest.fixture
def place() -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="carya-readers-"))
    folder.chmod(0o755)
    yield Place(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize(("folders", "files"), [(0o755, 0o600), (0o700, 0o644), (0o711, 0o640)])
def test_who_may_not_read_the_data_reads_no_byte_of_its_samples(place: Place, folders: int, files: int) -> None:
    place.give(ALICE, folders, files)
    with place.user(ALICE) as alice, place.user(BOB, GROUP) as bob:
        _, written, trouble, digest = place.run(alice, written=PHOTOS)
        assert (written, trouble) == (PHOTOS, None)
        assert place.sees(alice), "the word is in the samples"
        assert not place.sees(bob)
        with pytest.raises(Refused, match="Permission"):
            place.run(bob)
        assert place.run(alice) == [2 * PHOTOS, 0, None, digest]


def test_a_folder_above_the_data_counts(place: Place) -> None:
    place.give(ALICE, 0o755, 0o644)
    above = place.folder / "home"
    above.mkdir(mode=0o700)
    place.data = place.data.rename(above / "data")
    os.chown(above, ALICE, ALICE)
    with place.user(ALICE) as alice, place.user(BOB) as bob:
        assert place.run(alice, written=PHOTOS)[1] == PHOTOS
        assert not place.sees(bob)


def test_who_may_read_the_data_has_the_hits_of_others(place: Place) -> None:
    place.give(ALICE, 0o755, 0o644)
    with place.user(ALICE) as alice, place.user(BOB) as bob:
        digest = place.run(alice, written=PHOTOS)[3]
        assert place.run(bob) == [2 * PHOTOS, 0, None, digest]
        assert place.sees(bob)


def test_a_group_shares_what_its_members_may_read(place: Place) -> None:
    place.give(GROUP, 0o750, 0o640)
    with place.user(ALICE, GROUP) as alice, place.user(BOB, GROUP) as bob, place.user(MALLORY) as mallory:
        digest = place.run(alice, written=PHOTOS)[3]
        assert place.modes() == {0o640}
        assert not place.sees(mallory)
        assert place.run(bob) == [2 * PHOTOS, 0, None, digest]


def test_a_group_that_the_writer_is_not_in_gets_nothing(place: Place) -> None:
    place.give(GROUP, 0o750, 0o640)
    with place.user(ALICE) as alice, place.user(BOB, GROUP) as bob:
        assert place.run(alice, written=PHOTOS)[1] == PHOTOS
        assert place.modes() == {0o600}
        assert not place.sees(bob)


def test_files_of_unlike_rights_are_kept_apart(place: Place) -> None:
    place.give(ALICE, 0o755, 0o644)
    private = place.data / "class" / "secret-0.png"
    pixels = np.full((60, 20, 3), 200, np.uint8)
    pixels[:5] = np.frombuffer((b"For Alice alone. " * 20)[:300], np.uint8).reshape(5, 20, 3)
    Image.fromarray(pixels).save(private)
    os.utime(private, (OLD, OLD))
    private.chmod(0o600)
    with place.user(ALICE) as alice, place.user(BOB) as bob:
        assert place.run(alice, written=PHOTOS)[1] == PHOTOS
        assert place.modes() == {0o600, 0o644}
        assert place.sees(alice, b"For Alice alone.")
        assert not place.sees(bob, b"For Alice alone.")
        assert place.sees(bob)


def test_what_became_private_is_given_to_nobody_and_closed_by_the_next_run(place: Place) -> None:
    place.give(ALICE, 0o755, 0o644)
    with place.user(ALICE) as alice, place.user(BOB) as bob:
        digest = place.run(alice, written=PHOTOS)[3]
        place.give(ALICE, 0o755, 0o600)
        with pytest.raises(Refused, match="Permission"):  # though the samples can still be read
            place.run(bob)
        assert place.run(alice) == [2 * PHOTOS, 0, None, digest]
        assert place.modes() == {0o600}
        assert not place.sees(bob)


def test_an_acl_lets_nobody_else_read_samples(place: Place) -> None:
    """The file's group seems to be let in by the mode, which shows the mask that is for Mallory."""
    place.give(GROUP, 0o755, 0o600)
    entries = [(1, 6, -1), (2, 4, MALLORY), (4, 0, -1), (0x10, 4, -1), (0x20, 0, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    for path in place.data.rglob("*.png"):
        try:
            os.setxattr(path, "system.posix_acl_access", acl)
        except OSError:
            pytest.skip("no ACLs here")
        assert path.stat().st_mode & 0o777 == 0o640
    with place.user(ALICE, GROUP) as alice, place.user(BOB, GROUP) as bob:
        assert place.run(alice, written=PHOTOS)[1] == PHOTOS
        assert place.modes() == {0o600}
        assert not place.sees(bob)


def test_a_daemon_of_all_users_keeps_to_it(place: Place) -> None:
    place.give(ALICE, 0o755, 0o600)
    config = f'[cache]\nshared = "{place.tier}"\nshared_size = "64MB"\n'
    with running(config) as host, place.user(ALICE) as alice, place.user(BOB) as bob:
        assert place.run(alice, PHOTOS, host.socket)[1] == PHOTOS
        assert not place.sees(bob)
        with pytest.raises(Refused, match="Permission"):
            place.run(bob, where=host.socket)
        place.give(ALICE, 0o755, 0o644)  # what was kept before stays as it is
        assert place.run(bob, PHOTOS, host.socket)[1:3] == [PHOTOS, None], "Bob's own, in the same place"


KEEP = """
os.environ["CARYA_CACHE_DIR"] = cache
pictures = carya.image_folder(folder + "/pictures").decode_image().center_crop(16).batch(4)
texts = carya.jsonl(folder + "/rows.jsonl.gz")
tar = carya.webdataset(folder + "/shard.tar", label=None).decode_image().center_crop(16).batch(4)
result = [len(texts), texts[1]["said"]]
for pipeline in (pictures, tar):
    with carya.Loader(pipeline, threads=1, daemon="embedded", decode_index=8) as loader:
        for batch in loader:
            pass
"""


def test_a_cache_folder_of_all_users_tells_nothing_of_private_data(place: Place) -> None:
    """Neither bytes nor names: listings, indexes, what is unpacked, and folders of it."""
    public, private = place.folder / "public", place.folder / "private"
    for side, folder in ((40, public), (48, private)):
        (folder / "pictures" / "class").mkdir(parents=True)
        pixels = np.random.default_rng(1).integers(0, 255, (side, side, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / "class" / "secret-name.jpg")
        with tarfile.open(folder / "shard.tar", "w") as tar:
            tar.add(folder / "pictures" / "class" / "secret-name.jpg", "secret-member.jpg")
        rows = "".join(f'{{"said": "a secret row {row % 2}"}}\n' for row in range(8_000))
        (folder / "rows.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
        for path in (folder, *folder.rglob("*")):
            os.chown(path, ALICE, ALICE)
            os.utime(path, (OLD, OLD))
            path.chmod(0o755 if path.is_dir() else 0o644)
    private.chmod(0o700)
    kept = ["secret-name", "secret-member", "a secret row"]
    with place.user(ALICE) as alice, place.user(BOB) as bob:
        for folder in (private, public):
            assert not any(place.sees(bob, word.encode(), "cache") for word in kept)
            assert alice.do(KEEP, folder=str(folder), cache=str(place.cache)) == [8_000, "a secret row 1"]
            # Of the pictures and of the tar a listing and a decode index, and the unpacked text.
            own = [path for path in place.cache.rglob("*") if path.is_file() and path.suffix != ".json"]
            assert len(own) == (5 if folder is private else 10), own
        assert all(place.sees(bob, word.encode(), "cache") for word in kept), "of the public data"
        listed = bob.do(
            "from carya._cli.cache import files\nresult = [line['kind'] for line in files(cache)]",
            cache=str(place.cache),
        )
        assert sorted(kind for kind in listed if kind != "profile") == [
            "index",
            "index",
            "manifest",
            "manifest",
            "unpacked",
        ]
        before = {path: path.stat().st_mtime_ns for path in place.cache.rglob("*") if path.is_file()}
        assert bob.do(KEEP, folder=str(public), cache=str(place.cache)) == [8_000, "a secret row 1"]
        assert {path: path.stat().st_mtime_ns for path in place.cache.rglob("*") if path.is_file()} == before
