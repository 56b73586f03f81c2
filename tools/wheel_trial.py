"""What a wheel must do where there is nothing but Python and numpy. Run by wheel.sh in an environment of its own."""

from __future__ import annotations

import importlib.util
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

PROGRAMS = Path(sys.executable).parent


def said(*words: str | Path, status: int = 0) -> str:
    """What a program prints; it must end with the status."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def write_png(path: Path, shade: int) -> None:
    """A grey square of 32 x 32."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes([shade]) * 96) * 32
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def try_programs() -> None:
    """The daemon and the worker are there; where the command line lacks packages, it names them."""
    assert said(PROGRAMS / "carya-worker", "--version").startswith("carya-worker ")
    assert said(PROGRAMS / "caryad", "--version").startswith("caryad ")
    assert "--socket" in said(PROGRAMS / "caryad", "--help")
    said(PROGRAMS / "caryad", "--no-such-option", status=2)
    with tempfile.TemporaryDirectory() as empty:
        bounds = Path(str(importlib.util.find_spec("carya").origin)).parent / "bin" / "bench_limit"  # type: ignore[union-attr]
        assert "no photos in" in said(bounds, "--photos", empty, status=1)
    if importlib.util.find_spec("typer"):
        assert said(PROGRAMS / "carya", "--version").startswith("carya ")
        return
    for command in ([PROGRAMS / "carya"], [sys.executable, "-m", "carya"]):
        assert "pip install rich typer" in said(*command, "--help", status=2)


def try_loaders(folder: Path) -> None:
    """A daemon is started by the first loader, and gives what this process gives."""
    import numpy as np

    import carya
    from carya import _core

    assert not {"torch", "jax", "rich", "typer"} & set(sys.modules)
    for label in ("a", "b"):
        (folder / "photos" / label).mkdir(parents=True)
        for i in range(12):
            write_png(folder / "photos" / label / f"{i}.png", 10 * i)
    rows = {"x": np.arange(400, dtype=np.float32).reshape(100, 4), "y": np.arange(100)}
    for pipeline in (
        carya.arrays(rows).shuffle(seed=1).batch(batch_size=10),
        carya.image_folder(folder / "photos").shuffle(seed=1).decode_image().random_crop(16).batch(batch_size=4),
    ):
        seen = {}
        for daemon in ("embedded", "spawn"):
            with carya.Loader(pipeline, daemon=daemon) as loader:
                place = loader.stats()["place"]
                assert place == ("embedded" if daemon == "embedded" else _core.daemon_socket())
                seen[daemon] = [{name: np.array(batch[name]) for name in batch} for batch in loader]
        assert len(seen["spawn"]) == len(seen["embedded"]) > 0
        for one, other in zip(seen["spawn"], seen["embedded"], strict=True):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name]) for name in one)


def end_daemon() -> None:
    from carya import _core

    socket = _core.daemon_socket()
    if _core.daemon_listens(socket):
        _core.daemon_drain(socket)


def main() -> None:
    try_programs()
    with tempfile.TemporaryDirectory(prefix="carya-wheel-") as folder:
        os.environ["CARYA_DAEMON_SOCKET"] = str(Path(folder) / "caryad.sock")
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        try:
            try_loaders(Path(folder))
        finally:
            end_daemon()


if __name__ == "__main__":
    main()
