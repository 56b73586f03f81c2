"""What lies in the stores of the tests: photos in tars, in TFRecord files, and as files with odd names."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from conftest import picture
from PIL import Image
from record_writers import example, write_records

import carya

BUCKET = "photos-of-tests"


def jpeg(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(number, 60 + number, 70)).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def tar_bytes(begin: int, count: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number in range(begin, begin + count):
            for name, data in ((f"{number:04d}.jpg", jpeg(number)), (f"{number:04d}.cls", str(number % 5).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def write_data(folder: Path) -> Path:
    """16 photos in two tars, in two TFRecord files, and as files, in a new folder."""
    folder.mkdir()
    for shard in range(2):
        (folder / f"train-{shard:04d}.tar").write_bytes(tar_bytes(8 * shard, 8))
        records = [example({"image": jpeg(n), "label": n % 5}) for n in range(8 * shard, 8 * shard + 8)]
        write_records(folder / f"train-{shard:05d}-of-00002", records)
    (folder / "odd keys").mkdir()
    for number in range(6):
        (folder / "odd keys" / f"a b+{number}~ü%41=&'(1).jpg").write_bytes(jpeg(number))
    return folder


def objects_of(folder: Path) -> dict[str, bytes]:
    """By path on a server whose first folder is the bucket."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {f"/{BUCKET}/{path.relative_to(folder)}": path.read_bytes() for path in files}


def forget_credentials(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """No credentials of the user, and none of the machine."""
    for name in list(os.environ):
        if name.startswith(
            ("AWS_", "GOOGLE_", "GS_", "AZURE_", "GCE_", "STORAGE_EMULATOR_", "SSL_CERT")
        ) or name.lower().endswith(("_proxy", "_ca_bundle")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))


def training(source: carya.Pipeline) -> carya.Pipeline:
    return source.shuffle(seed=3).decode_image().random_resized_crop(32).batch(4)


def tars(where: str | Path, **options: str) -> carya.Pipeline:
    return training(carya.webdataset(f"{where}/train-{{0000..0001}}.tar", **options))
