#!/usr/bin/env python3
"""Question: what CPU time does a photo out of a store cost, against the readers that people use: WebDataset, Mosaic's
streaming, LitData, and s3fs in a torch Dataset?

Each side reads the same photos (CARYA_TEST_DATA's, or made ones) from the same server (asyncio, a process of its own, that
answers at once) for one epoch with nothing kept on this machine before, shuffled, and makes batches of random crops, 224 x 224.
Theirs decode by simplejpeg where it is installed, else Pillow, in two workers of torch's DataLoader, and crop as torchvision v2.
Each run is a process; what counts is the CPU time of it and its children beyond a run over 256 photos alone. Must reach 2 x the
best of them. Packages need not be there: a side without them says so. One JSON line. Flags: --smoke, --only SIDE.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import io
import json
import multiprocessing
import os
import re
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from PIL import Image

BATCH, SIZE, SHARDS = 32, 224, 8
PR_SET_CHILD_SUBREAPER = 36
FEW = 8 * BATCH  # photos: two workers that have two batches each ahead are through with them
SIDES: dict[str, tuple[str, ...]] = {
    "tars": ("carya", "webdataset"),
    "mds": ("carya", "streaming"),
    "litdata": ("carya", "litdata"),
    "objects": ("carya", "s3fs"),
}


def photos(count: int) -> list[bytes]:
    """Of some 110 KB."""
    data = os.environ.get("CARYA_TEST_DATA")
    found = sorted(Path(data).glob("images/imagenet_sample/**/*.*")) if data else []
    found = [path for path in found if path.suffix.lower() in (".jpg", ".jpeg")]
    pictures = [path.read_bytes() for path in found[:count]]
    while not pictures or (len(pictures) < count and not found):
        pixels = np.random.default_rng(len(pictures)).integers(0, 255, (40, 50, 3), np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).resize((500, 400)).save(buffer, "JPEG", quality=95)
        pictures.append(buffer.getvalue())
    return [pictures[number % len(pictures)] for number in range(count)]


def write(folder: Path, count: int) -> None:
    """The photos in each form whose writer is there."""
    data = photos(count)
    (folder / "objects").mkdir(parents=True)
    (folder / "tars").mkdir()
    each = -(-count // SHARDS)
    for number, photo in enumerate(data):
        (folder / "objects" / f"{number:06}.jpg").write_bytes(photo)
    for shard in range(SHARDS):
        with tarfile.open(folder / "tars" / f"{shard:03}.tar", "w") as tar:
            for number in range(shard * each, min(count, (shard + 1) * each)):
                member = tarfile.TarInfo(f"{number:06}.jpg")
                member.size = len(data[number])
                tar.addfile(member, io.BytesIO(data[number]))
    bytes_of_shard = sum(map(len, data)) // SHARDS
    try:
        from streaming import MDSWriter

        with MDSWriter(out=str(folder / "mds"), columns={"image": "bytes"}, size_limit=bytes_of_shard) as writer:
            for photo in data:
                writer.write({"image": photo})
    except ImportError:
        pass
    try:
        from litdata.streaming.writer import BinaryWriter

        chunks = BinaryWriter(str(folder / "litdata"), chunk_bytes=bytes_of_shard)
        for number, photo in enumerate(data):
            chunks[number] = {"image": photo}
        chunks.done()
        chunks.merge()
    except ImportError:
        pass


async def serve(folder: Path, port: Any) -> None:
    """An S3 without signatures, that has no listing: HEAD, GET, ranges."""
    objects = {f"/bucket/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, path = head.split(" ", 2)[:2]
                body = objects.get(unquote(path.partition("?")[0]))
                if body is None:
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                found = re.search(r"[Rr]ange: bytes=(\d+)-(\d*)", head)
                first, last = (int(found[1]), int(found[2] or len(body) - 1)) if found else (0, len(body) - 1)
                status = f"206 Partial\r\nContent-Range: bytes {first}-{last}/{len(body)}" if found else "200 OK"
                about = (
                    f'ETag: "{len(body):032x}"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nAccept-Ranges: bytes'
                )
                writer.write(f"HTTP/1.1 {status}\r\n{about}\r\nContent-Length: {last + 1 - first}\r\n\r\n".encode())
                if method == "GET":
                    writer.write(memoryview(body)[first : last + 1])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=512)
    port.value = server.sockets[0].getsockname()[1]
    await server.serve_forever()


def run_server(folder: Path, port: Any) -> None:
    asyncio.run(serve(folder, port))


def decoder() -> Callable[[bytes], Any]:
    """What a peer makes of a photo: torchvision's RandomResizedCrop on tensors of uint8, without torchvision."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng()
    try:
        from simplejpeg import decode_jpeg

        def decoded(data: bytes) -> Any:
            return decode_jpeg(data)
    except ImportError:

        def decoded(data: bytes) -> Any:
            return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).copy()

    def cropped(data: bytes) -> Any:
        pixels = torch.from_numpy(decoded(data)).permute(2, 0, 1)
        height, width = pixels.shape[1:]
        area, ratio = height * width * rng.uniform(0.08, 1), np.exp(rng.uniform(-0.29, 0.29))
        high, wide = min(height, round((area / ratio) ** 0.5)), min(width, round((area * ratio) ** 0.5))
        top, left = rng.integers(0, height - high + 1), rng.integers(0, width - wide + 1)
        part = pixels[None, :, top : top + high, left : left + wide]
        return torch.nn.functional.interpolate(part, (SIZE, SIZE), mode="bilinear", antialias=True)[0]

    return cropped


class Decoded:
    """Of a sample of a peer, as a function that travels to its workers."""

    def __init__(self) -> None:
        self.decode: Callable[[bytes], Any] | None = None

    def __call__(self, data: bytes) -> Any:
        self.decode = self.decode or decoder()
        return self.decode(data)


def ours(form: str, url: str, count: int) -> Iterator[int]:
    import carya

    names = sorted(
        {"tars": [f"{n:03}.tar" for n in range(SHARDS)], "objects": [f"{n:06}.jpg" for n in range(count)]}.get(form, [])
    )
    where = [f"{url}/{form}/{name}" for name in names]
    source: carya.Pipeline
    if form == "tars":
        source = carya.webdataset(where, label=None)
    elif form == "objects":
        source = carya.files(where)
    elif form == "mds":
        source = carya.mds(f"{url}/mds", image="image")
    else:
        source = carya.litdata(f"{url}/litdata").map(Decoded(), fields="image").shuffle(seed=1)
        with carya.Loader(source.batch(BATCH, drop_last=True), threads=2, epochs=1) as loader:
            yield from (len(batch["image"]) for batch in loader)
        return
    pipeline = source.shuffle(seed=1).decode_image().random_resized_crop(SIZE).batch(BATCH, drop_last=True)
    with carya.Loader(pipeline, threads=2, epochs=1, daemon="embedded") as loader:
        yield from (len(batch["image"]) for batch in loader)


class Objects:
    """A torch Dataset of objects by s3fs."""

    def __init__(self, url: str, count: int) -> None:
        self.url, self.count, self.place = url, count, ""
        self.files: Any = None
        self.decode = Decoded()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if self.files is None:
            import s3fs

            endpoint, _, self.place = self.url.partition("/bucket/")
            self.files = s3fs.S3FileSystem(anon=True, client_kwargs={"endpoint_url": endpoint})
        return self.decode(self.files.cat_file(f"bucket/{self.place}/objects/{index:06}.jpg"))


def batches(dataset: Any, shuffle: bool | None = None) -> Iterator[int]:
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, BATCH, shuffle=shuffle, num_workers=2, drop_last=True)
    yield from (len(batch["image"] if isinstance(batch, dict) else batch) for batch in loader)


def theirs(peer: str, url: str, count: int, folder: str) -> Iterator[int]:
    endpoint, _, place = url.partition("/bucket/")
    decode = Decoded()
    if peer == "s3fs":
        yield from batches(Objects(url, count), shuffle=True)
    elif peer == "webdataset":
        import webdataset

        shards = [f"{url}/tars/{n:03}.tar" for n in range(SHARDS)]
        data = (
            webdataset.WebDataset(shards, shardshuffle=SHARDS)
            .shuffle(256)
            .to_tuple("jpg")
            .map(lambda one: decode(one[0]))
        )
        yield from batches(data)
    elif peer == "streaming":
        from streaming import StreamingDataset

        class Photos(StreamingDataset):  # type: ignore[misc, valid-type]
            def __getitem__(self, index: Any) -> Any:
                return decode(super().__getitem__(index)["image"])

        yield from batches(
            Photos(remote=f"s3://bucket/{place}/mds", local=f"{folder}/mds", shuffle=True, batch_size=BATCH)
        )
    else:
        from litdata import StreamingDataLoader, StreamingDataset

        class Samples(StreamingDataset):  # type: ignore[misc, valid-type]
            def __getitem__(self, index: Any) -> Any:
                return decode(super().__getitem__(index)["image"])

        keys = {
            "endpoint_url": endpoint,
            "aws_access_key_id": "a",
            "aws_secret_access_key": "b",
            "region_name": "us-east-1",
        }
        data = Samples(
            f"s3://bucket/{place}/litdata", cache_dir=f"{folder}/litdata", shuffle=True, storage_options=keys
        )
        loader = StreamingDataLoader(data, batch_size=BATCH, num_workers=2, drop_last=True)
        yield from (len(batch) for batch in loader)


def one_run(form: str, side: str, url: str, count: int) -> None:
    """An epoch, in a process of its own, which says how many rows it had."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # so that whose parent ends first counts too
    with tempfile.TemporaryDirectory() as folder:
        rows = sum(ours(form, url, count) if side == "carya" else theirs(side, url, count, folder))
    end = time.monotonic() + 5  # some, as multiprocessing's tracker, end with this process only
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < end:
            time.sleep(0 if os.waitpid(-1, os.WNOHANG)[0] else 0.05)
    sys.stdout.write(json.dumps({"rows": rows}) + "\n")


def cpu_of(form: str, side: str, url: str, count: int) -> tuple[float, int]:
    """CPU seconds of a run and its children, and its rows. Errors: ImportError."""
    with tempfile.TemporaryDirectory() as cache:
        endpoint = url[: url.index("/bucket")]
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
        env = {
            **os.environ,
            **keys,
            "S3_ENDPOINT_URL": endpoint,
            "AWS_ENDPOINT_URL": endpoint,
            "CARYA_CACHE_DIR": cache,
        }
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, __file__, "--run", form, side, url, str(count)]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=1800)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode:
        raise ImportError(ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else f"status {ran.returncode}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, json.loads(ran.stdout.strip().splitlines()[-1])["rows"]


def measured(form: str, side: str, url: str, count: int) -> float:
    """CPU milliseconds of a photo."""
    begun, few = cpu_of(form, side, f"{url}/few", FEW)
    whole, rows = cpu_of(form, side, f"{url}/all", count)
    return (whole - begun) * 1e3 / (rows - few)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a moment of Carya's sides")
    parser.add_argument("--only", default="", help="one form: " + ", ".join(SIDES))
    parser.add_argument("--photos", type=int, default=1536)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        form, side, url, count = args.run
        one_run(form, side, url, int(count))
        return
    count, repeats = (FEW + BATCH, 1) if args.smoke else (args.photos, args.repeats)
    found: dict[str, Any] = {"photos": count}
    with tempfile.TemporaryDirectory() as folder:
        for name, many in (("few", FEW), ("all", count)):
            write(Path(folder) / name, many)
        port = multiprocessing.Value("i", 0)
        server = multiprocessing.Process(target=run_server, args=(Path(folder), port), daemon=True)
        server.start()
        while not port.value:
            server.join(0.05)
            if not server.is_alive():
                raise SystemExit("the server ended before it listened")
        url = f"http://127.0.0.1:{port.value}/bucket"
        for form, sides in SIDES.items():
            if args.only and form != args.only:
                continue
            if not (Path(folder) / "all" / form).exists():
                found.setdefault("failed", {})[form] = f"the package {sides[1]}, which writes it, is not installed"
                continue
            runs: dict[str, list[float]] = {side: [] for side in sides if not args.smoke or side == "carya"}
            for _ in range(repeats):  # by turns, since the machine is not alike from one minute to the next
                for side, times in runs.items():
                    try:
                        times.append(measured(form, side, url, count))
                    except ImportError as error:
                        if side == "carya":
                            raise SystemExit(f"{form}: {error}") from None
                        found.setdefault("failed", {})[f"{form} {side}"] = str(error)
            found[form] = {side: round(statistics.median(times), 3) for side, times in runs.items() if times}
        server.terminate()
    peers = [cpu for form in SIDES for side, cpu in found.get(form, {}).items() if side != "carya"]
    if peers:
        mine = {form: found[form]["carya"] for form in SIDES if "carya" in found.get(form, {})}
        found["best_of_theirs_over_ours"] = {form: round(min(peers) / cpu, 2) for form, cpu in mine.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
