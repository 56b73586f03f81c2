"""Small data made by the tests themselves, and the folder of real data where there is one."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

DATA = os.environ.get("CARYA_TEST_DATA")


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What fixtures of a whole module write goes to a folder of the run's; a daemon that the user runs is not found."""
    os.environ["CARYA_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["CARYA_DAEMON_SOCKET"] = str(tmp_path_factory.mktemp("none") / "caryad.sock")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests, indexes and profiles of a test go to a folder of its own: nothing was measured before it."""
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c() -> None:
    """A run in the background of a shell ignores Ctrl-C, and every process that a test starts would inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _torch_in_one_thread() -> None:
    """Where torch is a reference. Its threads spin between small operations, and beside other processes so most of their time."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)


def picture(seed: int, height: int, width: int) -> np.ndarray:
    """Structure at several scales, so that a wrong resize or crop shows."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (height // 16 + 2, width // 16 + 2, 3), np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    return np.clip(smooth + random.integers(-24, 25, smooth.shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 JPEGs of several sizes and samplings and 3 PNGs, in three class folders."""
    root = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(1)
    for number in range(27):
        folder = root / f"class_{'abc'[number % 3]}"
        folder.mkdir(exist_ok=True)
        image = Image.fromarray(picture(number, int(random.integers(60, 200)), int(random.integers(60, 200))))
        if number >= 24:
            image.save(folder / f"{number:02d}.png")
        elif number % 8 == 7:
            image.convert("L").save(folder / f"{number:02d}.jpg", quality=90)
        else:
            image.save(folder / f"{number:02d}.jpg", quality=75 + number, subsampling=number % 3)
    return root


@pytest.fixture(scope="session")
def real_photos() -> list[str]:
    """Photos as they come: the shared data's, else larger ones made here."""
    return [str(path) for path in sorted(Path(DATA or "", "images", "imagenet_sample").rglob("*.JPEG"))] if DATA else []


@pytest.fixture
def damaged(tmp_path: Path) -> list[str]:
    """12 files, of which 3 (cut off before any image data), 5 (empty) and 8 (text) are broken."""
    paths = []
    for number in range(12):
        path = tmp_path / f"{number:02d}.jpg"
        Image.fromarray(picture(100 + number, 64, 80)).save(path, quality=90)
        if number == 3:
            path.write_bytes(path.read_bytes()[:40])
        elif number == 5:
            path.write_bytes(b"")
        elif number == 8:
            path.write_bytes(b"this is no picture, whatever its name says\n" * 4)
        paths.append(str(path))
    return paths


BROKEN = (3, 5, 8)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may go into, as pytest's own may not be."""
    folder = Path(tempfile.mkdtemp(prefix="carya-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _quiet_skips() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*skipped .* files with other extensions.*")
        yield
