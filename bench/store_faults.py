#!/usr/bin/env python3
"""Pictures of 110 KB out of tars behind http: what do latency, a storm of 503 and slow requests cost the stream?

Ceiling: the same stream from the same server (asyncio, a process of its own) that answers at once; with latency also as
many requests as may be under way, divided by what one takes alone. `--smoke` takes a second of each. Figures: rates in samples a second,
and their quotients; and of each record the time from its read's start to its bytes, by a trace of a stream that has as many reads under way
as there may be requests, so that no record waits for others.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import io
import json
import multiprocessing
import random
import re
import resource
import tarfile
import tempfile
import threading
import time
from typing import Any

import numpy as np
from PIL import Image

import carya

BYTES = 110_000
# So few that this server in Python is not what ends first: a sixteenth of the descriptors (io/http/http_engine.cc).
REQUESTS_MAX = 32
resource.setrlimit(resource.RLIMIT_NOFILE, (16 * REQUESTS_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def photo(number: int) -> bytes:
    """A small picture, padded by comments: what is measured is reading."""
    buffer = io.BytesIO()
    Image.fromarray(np.full((32, 32, 3), number % 256, np.uint8)).save(buffer, "JPEG")
    data, padding = buffer.getvalue(), b""
    left = BYTES - len(data)
    while left > 4:
        part = min(left, 65_000)
        padding += b"\xff\xfe" + (part - 2).to_bytes(2, "big") + bytes(part - 4)
        left -= part
    return data[:2] + padding + data[2:]


def tar_of(count: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number in range(count):
            member = tarfile.TarInfo(f"{number:06d}.jpg")
            data = photo(number)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


class Server:
    """One object, whose ranges come late, sometimes much later, or not for a while."""

    def __init__(self, data: bytes, port: Any, how: Any) -> None:
        self.data, self.how = data, how
        self.random = random.Random(1)
        asyncio.run(self.serve(port))

    async def serve(self, port: Any) -> None:
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0, backlog=512)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                await self.answer(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        late_s, slow_share, storm = self.how[0], self.how[1], self.how[2] > 0
        found = re.search(r"[Rr]ange: bytes=(\d+)-(\d+)", head)
        if late_s > 0:
            is_slow = found and self.random.random() < slow_share
            await asyncio.sleep(late_s * (100 if is_slow else 1))
        about = 'ETag: "1"\r\nAccept-Ranges: bytes\r\nContent-Length: '
        if storm and found:
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n")
        elif found is None:
            writer.write(f"HTTP/1.1 200 OK\r\n{about}{len(self.data)}\r\n\r\n".encode())
        else:
            first, last = int(found[1]), int(found[2])
            range_is = f"Content-Range: bytes {first}-{last}/{len(self.data)}\r\n"
            writer.write(f"HTTP/1.1 206 Partial\r\n{range_is}{about}{last + 1 - first}\r\n\r\n".encode())
            writer.write(memoryview(self.data)[first : last + 1])
        await writer.drain()


class Reading:
    """A stream over the server, and when its batches came."""

    def __init__(self, url: str, read_ahead: str = "256MB") -> None:
        pipeline = carya.webdataset(url, label=None).shuffle(seed=1).decode_image().resize((32, 32)).batch(8)
        self.loader = carya.Loader(pipeline, epochs=None, daemon="embedded", read_ahead=read_ahead, io_timeout=120)
        self.batches = self.endless()

    def endless(self) -> Any:
        while True:
            yield from self.loader

    def rate(self, seconds: float) -> float:
        begin, count = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            count += len(next(self.batches).records)
        return count / (time.monotonic() - begin)

    def store(self) -> dict[str, Any]:
        figures: dict[str, Any] = self.loader.stats()["store"][0]
        return figures


def record_times(url: str, how: Any, slow_share: float, seconds: float) -> tuple[list[float], float]:
    """Seconds of each record, sorted, and the share of requests that were sent twice."""
    reading = Reading(url, f"{REQUESTS_MAX * BYTES}B")
    how[1] = slow_share
    reading.rate(seconds / 4)
    before = reading.store()
    with tempfile.TemporaryDirectory() as folder:
        with reading.loader.trace(f"{folder}/trace", chrome=True):
            reading.rate(seconds)
        after = reading.store()
        with open(f"{folder}/trace", "rb") as file:
            events = json.load(file)["traceEvents"]
    reading.loader.close()
    how[1] = 0
    times: list[float] = []
    began: dict[int, float] = {}
    for event in events:
        if event["ph"] == "B" and event["name"] == "read":
            began[event["tid"]] = event["ts"]
        elif event["ph"] == "E" and event["tid"] in began:
            times.append((event["ts"] - began.pop(event["tid"])) * 1e-6)
    return sorted(times), (after["hedged"] - before["hedged"]) / (after["requests"] - before["requests"])


def alone_s(url: str) -> float:
    """What one request takes where no other is under way: the median of 50, by the standard library."""
    place, path = re.fullmatch(r"http://([^/]+)(/.*)", url).groups()  # type: ignore[union-attr]
    connection, times = http.client.HTTPConnection(place, timeout=60), []
    for number in range(50):  # fewer than there are pictures
        begin = time.monotonic()
        connection.request("GET", path, headers={"Range": f"bytes={number * BYTES}-{(number + 1) * BYTES - 1}"})
        connection.getresponse().read()
        times.append(time.monotonic() - begin)
    return sorted(times)[25]


def measure(url: str, how: Any, seconds: float, smoke: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    reading = Reading(url)
    reading.rate(seconds / 4)
    found["at once, per s"] = at_once = reading.rate(seconds)
    how[0] = 0.02
    reading.rate(seconds / 2)
    found["20 ms late, per s"] = late = reading.rate(seconds)
    found["s of a request alone"] = alone_s(url)
    found["of the bound"] = late / min(at_once, REQUESTS_MAX / found["s of a request alone"])
    found["requests allowed"] = reading.store()["requests_allowed"]

    over: list[tuple[float, int]] = []

    def end_storm() -> None:
        over.append((time.monotonic(), reading.store()["requests"]))
        how[2] = 0

    how[2], asked = 1, reading.store()["requests"]
    threading.Timer(seconds, end_storm).start()
    share = 0 if smoke else 0.9  # the rate of a smoke run means nothing, and need not come back
    while reading.rate(0.5) < share * late or not over:  # the first batches of a storm were read before
        pass
    found["s after a storm to 90 %"] = time.monotonic() - over[0][0]
    found["requests per s of a storm"] = (over[0][1] - asked) / seconds

    before = reading.store()
    how[1] = 0.01
    found["with 1 % 100 x slower, per s"] = reading.rate(seconds)
    after = reading.store()
    found["of 20 ms late"] = found["with 1 % 100 x slower, per s"] / late
    found["requests sent twice"] = (after["hedged"] - before["hedged"]) / (after["requests"] - before["requests"])
    reading.loader.close()
    for name, share in (("without", 0.0), ("with 1 % 100 x slower", 0.01)):
        times, twice = record_times(url, how, share, seconds)
        found[f"records {name}"] = len(times)
        for percent in (50, 90, 99):
            found[f"p{percent} of a record {name}, s"] = times[len(times) * percent // 100]
        found[f"p99 of p50 {name}"] = times[len(times) * 99 // 100] / times[len(times) // 2]
        found[f"sent twice {name}"] = twice
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seconds", type=float, default=10, help="of each figure, and of the storm")
    given = parser.parse_args()
    count, seconds = (64, 0.5) if given.smoke else (2000, given.seconds)
    port, how = multiprocessing.Value("i", 0), multiprocessing.Array("d", [0.0, 0.0, 0.0])
    process = multiprocessing.Process(target=Server, args=(tar_of(count), port, how), daemon=True)
    process.start()
    while port.value == 0:
        time.sleep(0.01)
    found = measure(f"http://127.0.0.1:{port.value}/photos.tar", how, seconds, given.smoke)
    process.kill()
    for name, figure in found.items():
        print(f"{name:40} {figure:10.3f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
