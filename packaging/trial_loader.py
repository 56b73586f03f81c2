"""A loader over small pictures that it makes, in this process and through the daemon: the same batches. Uses numpy only.

trial_loader.py DAEMON [FOLDER]: DAEMON as in `Loader(daemon=)`; FOLDER for the pictures, made when it is missing.
"""

from __future__ import annotations

import hashlib
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import carya


def write_png(path: Path, shade: int) -> None:
    """A square of 32 x 32 that gets lighter from row to row."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes([shade + row]) * 96 for row in range(32))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def make_pictures(folder: Path) -> None:
    for label in ("a", "b"):
        (folder / label).mkdir(parents=True)
        for i in range(12):
            write_png(folder / label / f"{i}.png", 10 * i)


def digest(pipeline: carya.Pipeline, daemon: str) -> tuple[str, str]:
    """Who made the batches of an epoch, and the hash of their bytes."""
    text = hashlib.sha256()
    with carya.Loader(pipeline, daemon=daemon) as loader:
        for batch in loader:
            for name in sorted(batch):
                text.update(batch[name].tobytes())
        return loader.stats()["place"], text.hexdigest()


def main() -> None:
    daemon = sys.argv[1]
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="carya-trial-"))
    if not any(folder.glob("*/*.png")):
        make_pictures(folder)
    pipeline = carya.image_folder(folder).shuffle(seed=1).decode_image().random_crop(16).batch(batch_size=4)
    place, through = digest(pipeline, daemon)
    assert place != "embedded", "the batches were made in this process"
    assert through == digest(pipeline, "embedded")[1], "the daemon gives other batches than this process"
    print(f"the batches of {place} are those of embedded mode: sha256 {through[:16]}")


if __name__ == "__main__":
    main()
