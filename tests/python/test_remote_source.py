"""Workers that read records themselves: real carya-workers with --root, and what they refuse."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import workers
from chunk_client import Host, from_cbor, table, to_cbor
from daemons import until
from streams import digest, epoch_digest
from test_remote import at, read_until_remote, vision
from test_worker import FACTS, ROW, Registered, pipeline_of, refused
from workers import Worker

import carya


def said(loader: carya.Loader, text: str) -> bool:
    return any(text in line for line in loader.placement()["events"])


def loader_at(photos: Path, worker: Worker) -> carya.Loader:
    return carya.Loader(vision(photos), remote=at(worker), placement="remote:1", threads=1)


def test_a_worker_that_sees_the_source_is_sent_addresses(photos: Path) -> None:
    with workers.running("--root", str(photos)) as worker, loader_at(photos, worker) as loader:
        assert read_until_remote(loader) == epoch_digest(vision(photos))
        assert said(loader, "reads records itself")
        stats = loader.stats()
        row = 3 * 48 * 48 * 4 + 8  # of a result; an address takes less than 500 bytes more
        assert stats["remote_bytes"] < stats["remote_chunks"] * stats["chunk_rows"] * (row + 500)


def test_tars_are_read_too(photos: Path, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for number, photo in enumerate(sorted(photos.rglob("*.jpg"))):
            tar.add(photo, f"{number:04}.jpg")
    chain = carya.webdataset([str(tmp_path / "0.tar")], fields={"image": ["jpg"]}, label=None).shuffle(seed=3)
    pipeline = chain.decode_image().random_resized_crop(32).batch(4)
    options: dict[str, Any] = {"placement": "remote:1", "threads": 1}
    started = workers.running("--root", str(tmp_path))
    with started as worker, carya.Loader(pipeline, remote=at(worker), **options) as loader:
        assert read_until_remote(loader) == epoch_digest(pipeline)
        assert said(loader, "reads records itself")


def test_a_worker_that_does_not_see_it_is_sent_records(photos: Path, tmp_path: Path) -> None:
    with workers.running("--root", str(tmp_path)) as worker, loader_at(photos, worker) as loader:
        assert read_until_remote(loader) == epoch_digest(vision(photos))
        assert said(loader, "is under no --root of this worker")
    shutil.copytree(photos, tmp_path / "copy", copy_function=shutil.copyfile)  # with other times
    with workers.running("--root", f"{photos}={tmp_path / 'copy'}") as worker, loader_at(photos, worker) as loader:
        assert read_until_remote(loader) == epoch_digest(vision(photos))
        assert said(loader, "keep times when copying")


def test_files_that_change_on_the_workers_side_change_no_bit(photos: Path, tmp_path: Path) -> None:
    expected = epoch_digest(vision(photos))
    shutil.copytree(photos, tmp_path / "copy")
    with workers.running("--root", f"{photos}={tmp_path / 'copy'}") as worker, loader_at(photos, worker) as loader:
        assert read_until_remote(loader) == expected
        assert said(loader, "reads records itself")
        copies = sorted((tmp_path / "copy").rglob("*.jpg"))
        copies[0].unlink()
        for copy in copies[1:]:
            copy.write_bytes(copies[-1].read_bytes())

        def found() -> bool:
            loader.set_epoch(0)
            assert digest(loader) == expected
            return said(loader, "is sent records now")

        until(found)
        assert read_until_remote(loader) == expected


@pytest.mark.parametrize("root", ["data", "/no/such/folder", "=/tmp"])
def test_a_root_that_is_none_is_status_2(root: str) -> None:
    status, error = refused("--listen", "127.0.0.1:0", "--root", root)
    assert status == 2
    assert f"--root {root}" in error


# --- what a hostile host gets


def link_out(root: Path) -> str:
    (root / "link").symlink_to(root.parent / "secret.jpg")
    return str(root / "link")


def fifo(root: Path) -> str:
    os.mkfifo(root / "fifo")
    return str(root / "fifo")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (lambda root: str(root.parent / "secret.jpg"), "under no --root"),
        (lambda root: f"{root}/../secret.jpg", "leads out of --root"),
        (lambda root: f"{root}/../../../../../../etc/passwd", "leads out of --root"),
        (link_out, "leads out of --root"),
        (fifo, "no regular file"),
        (lambda root: str(root), "under no --root"),
        (lambda root: f"{root}/", "No such file"),
        (lambda root: f"{root}/none", "No such file"),
        (lambda root: f"{root}/\0", "zero byte"),
    ],
)
def test_nothing_else_is_opened(tmp_path: Path, path: Callable[[Path], str], why: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    photo = tmp_path / "secret.jpg"
    photo.write_bytes(bytes(100))
    with workers.running("--root", str(root)) as worker, Host(worker.address) as host:
        Registered(host, pipeline_of(root / "a" / "0.jpg"))
        size, time = photo.stat().st_size, photo.stat().st_mtime_ns
        item = struct.pack("<QQQq", 0, size, size, time) + path(root).encode()
        about = to_cbor({"plan": 1, "epoch": 0, "rows": 1, "addresses": True})
        host.say(
            "Request", {"plan": 1, "about": about, "result_bytes": ROW}, table(1, [item, bytes(8)], [True, False]), 2
        )
        kind, body, payload, _ = host.hear("Result", "ChunkFailed", "Error")
        assert (kind, payload) == ("Result", bytes(ROW))
        result = from_cbor(body["about"])
        assert result["broken"] == [0]
        assert why in result["unread"].decode()


def test_addresses_that_are_none_fail_their_chunk(tmp_path: Path) -> None:
    for arguments in ([], ["--root", str(tmp_path)]):
        with workers.running(*arguments) as worker, Host(worker.address) as host:
            Registered(host, pipeline_of(tmp_path / "a" / "0.jpg"))
            about = to_cbor({"plan": 1, "epoch": 0, "rows": 1, "addresses": True})
            body = {"plan": 1, "about": about, "result_bytes": ROW}
            host.say("Request", body, table(1, [bytes(20), bytes(8)], [True, False]), 2)
            kind, answer, _, _ = host.hear("Result", "ChunkFailed", "Error")
            assert kind == "ChunkFailed"
            assert "address" in answer["error"]["message"]
    assert FACTS[0]["value"] == "2"
