"""The daemon in namespaces of its own, as in another container: other mounts, other process numbers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import until

import carya
from carya import _core, _programs

UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def namespaces() -> str:
    """Why there are none here, or "" (tests/ENVIRONMENT.md)."""
    if not shutil.which("unshare"):
        return "unshare is not installed"
    done = subprocess.run(
        [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True, check=False
    )
    return f"mount and PID namespaces are refused: {done.stderr.strip()}" if done.returncode else ""


pytestmark = pytest.mark.skipif(bool(namespaces()), reason=namespaces())


@contextmanager
def contained(hidden: Path | None = None, *arguments: str) -> Iterator[str]:
    """The socket of a daemon in namespaces of its own, in which an empty file system lies over the folder `hidden`."""
    with tempfile.TemporaryDirectory(prefix="caryad-") as folder:
        socket = f"{folder}/caryad.sock"
        hide = f"mount -t tmpfs tmpfs '{hidden}' && " if hidden else ""
        command = [*UNSHARE, "sh", "-c", f'{hide}exec "$@"', "-", _programs.program(), "--socket", socket, *arguments]
        with subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL) as process:
            try:
                until(lambda: process.poll() is not None or _core.daemon_listens(socket))
                yield socket
            finally:
                process.kill()  # unshare takes the daemon with it


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of small pictures."""
    from PIL import Image

    for label in ("a", "b"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(8):
            Image.fromarray(np.full((16, 16, 3), 10 * i, np.uint8)).save(tmp_path / "photos" / label / f"{i}.png")
    return tmp_path / "photos"


def stream(folder: Path) -> carya.Pipeline:
    return carya.image_folder(folder).shuffle(seed=3).decode_image().random_crop(8).batch(4)


def images(pipeline: carya.Pipeline, **options: Any) -> tuple[str, list[Any]]:
    """Who made the batches of an epoch, and the batches."""
    with carya.Loader(pipeline, **options) as loader:
        return loader.stats()["place"], [batch["image"].tolist() for batch in loader]


def test_the_stream_is_the_same_from_a_daemon_in_another_container(photos: Path) -> None:
    with contained() as socket:
        place, seen = images(stream(photos), daemon=socket)
    assert place == socket
    assert seen == images(stream(photos), daemon="embedded")[1]


def test_data_that_the_daemon_does_not_see_is_an_error_that_names_it(photos: Path) -> None:
    with contained(photos) as socket:
        with pytest.raises(carya.NotFound) as caught:
            carya.Loader(stream(photos), daemon=socket)
        text = str(caught.value)
        assert f"the daemon at {socket} (caryad, process 1, in another mount namespace" in text
        assert str(photos) in text
        assert (
            'mount the same folder at the same path for both and let its user read it, or give daemon="embedded"'
            in text
        )
        # What lies elsewhere it serves.
        rows = carya.arrays({"x": np.arange(8)}).batch(4)
        with carya.Loader(rows, daemon=socket) as loader:
            assert [batch["x"].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_auto_works_without_such_a_daemon_and_says_why_once(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contained(photos) as socket:
        monkeypatch.setenv("CARYA_DAEMON_SOCKET", socket)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            place, seen = images(stream(photos))
    assert place == "embedded"
    assert [warning.category for warning in said] == [RuntimeWarning]
    assert "carya: works without the daemon: Loader: the daemon at" in str(said[0].message)
    assert "in another mount namespace" in str(said[0].message)
    assert seen == images(stream(photos), daemon="embedded")[1]


def test_data_that_nobody_sees_is_the_plain_error(photos: Path) -> None:
    with contained(photos) as socket:
        with pytest.raises(carya.NotFound) as caught:
            carya.Loader(stream(photos / "absent"), daemon=socket)
        assert "daemon" not in str(caught.value)


@pytest.mark.skipif(
    tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 5), reason="Linux 6.5 has SO_PEERPIDFD"
)
def test_a_trainer_of_another_container_that_dies_is_succeeded(photos: Path) -> None:
    """The daemon has no number for it, and sees its end all the same (Linux 6.5)."""
    trainer = (
        "import sys, time, carya\n"
        "p = carya.image_folder(sys.argv[1]).shuffle(seed=3).decode_image().random_crop(8).batch(4)\n"
        "loader = carya.Loader(p, daemon=sys.argv[2], job='j')\n"
        "batch = next(iter(loader))\n"
        "print(batch.step, flush=True)\n"
        "time.sleep(600)\n"
    )
    with contained() as socket:
        words = [sys.executable, "-c", trainer, str(photos), socket]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            process.stdout.readline()
            assert job(socket)["ranks"][0]["readers"][0]["pid"] == 0
            process.send_signal(signal.SIGKILL)
        until(lambda: job(socket)["state"] == "lingering")
        assert json.loads(_core.daemon_status(socket))["killed"] == 1


def job(socket: str) -> Any:
    return json.loads(_core.daemon_status(socket))["jobs"][0]
