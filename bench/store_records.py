#!/usr/bin/env python3
"""Lines of JSON and records of ArrayRecord behind http: what do ranges cost beside a copy of the object?

Ceiling: the copy, whose records lie in the page cache once it is made. A server of asyncio (a process of its own) answers at once or 20 ms
late. Figures of each: seconds until the pipeline is made, and then, in order, shuffled, and shuffled by windows, for some seconds or an epoch, records a second,
and requests and bytes of the store for a thousand records. `--smoke` takes a small object, and a moment of each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from store_faults import Server

import carya

_BLOCK, _BLOCK_HEAD, _CHUNK_HEAD = 1 << 16, 24, 40  # of Riegeli's files


class CountingServer(Server):
    """`how[3]` and `how[4]`: ranges that were asked for, and their bytes."""

    async def answer(self, head: str, writer: Any) -> None:
        found = head.lower().partition("range: bytes=")[2].partition("\r\n")[0]
        if found:
            first, last = map(int, found.split("-"))
            self.how[3] += 1
            self.how[4] += last + 1 - first
        await super().answer(head, writer)


def lines_of(size: int, each: int) -> bytes:
    """JSON Lines of so many bytes, about `each` a line."""
    rng = np.random.default_rng(1)
    lines, total = [], 0
    while total < size:
        about = int(rng.integers(each // 2, each + each // 2))
        lines.append(json.dumps({"n": len(lines), "text": "x" * max(about - 24, 0)}).encode() + b"\n")
        total += len(lines[-1])
    return b"".join(lines)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


class _Riegeli:
    """Chunks one behind the other, with the heads of blocks among them. (Hashes are zero: Carya does not compare them.)"""

    def __init__(self) -> None:
        self.data = bytearray(bytes.fromhex("83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a9"))
        self.data += bytes(_BLOCK_HEAD + _CHUNK_HEAD - len(self.data))

    def put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if len(self.data) % _BLOCK == 0:
                self.data += bytes(_BLOCK_HEAD)
            part = view[: _BLOCK - len(self.data) % _BLOCK]
            self.data += part
            view = view[len(part) :]

    def chunk(self, records: list[bytes]) -> int:
        """Where it begins."""
        begin = len(self.data)
        lengths, values = b"".join(_varint(len(record)) for record in records), b"".join(records)
        body = b"\0" + _varint(len(lengths)) + lengths + values
        self.put(struct.pack("<QQQQQ", 0, len(body), 0, ord("r") | len(records) << 8, len(values)) + body)
        return begin


def array_records_of(size: int, each: int) -> bytes:
    """An ArrayRecord file of records that are not compressed, each in a chunk of its own."""
    file, entries = _Riegeli(), list[bytes]()
    record = np.random.default_rng(1).bytes(each)
    while len(file.data) < size:
        begin = file.chunk([record])
        entries.append(b"\x08" + _varint(begin) + b"\x10" + _varint(each) + b"\x18\x01")
    footer = file.chunk([b"", *entries])
    file.data += bytes(-len(file.data) % _BLOCK)
    file.chunk([b"\x08" + _varint(footer) + b"\x10" + _varint(0x71930E704FDAE05E)])
    file.data += bytes(-len(file.data) % _BLOCK)
    return bytes(file.data)


class Windows:
    """A sampler: runs of neighbours in a new order, a few of which are shuffled together."""

    def __init__(self, count: int, run: int, together: int = 8) -> None:
        self.count, self.run, self.together = count, run, together

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng()
        begins = rng.permutation(np.arange(0, self.count, self.run))
        for first in range(0, len(begins), self.together):
            rows = [np.arange(at, min(at + self.run, self.count)) for at in begins[first : first + self.together]]
            yield from rng.permutation(np.concatenate(rows)).tolist()


def by_windows(pipeline: carya.Pipeline, batch: int, size: int) -> Any:
    """A torch DataLoader over runs of a megabyte."""
    import carya.torch

    sampler = Windows(len(pipeline), max(len(pipeline) * 1_000_000 // size, 1))
    return carya.torch.DataLoader(pipeline.map_style, batch, sampler=sampler, num_workers=2)


def epoch(loader: Any, how: Any, seconds: float) -> dict[str, float]:
    """An epoch behind its first batch, for which processes are started, or as much of it as so many seconds make."""
    batches = iter(loader)
    next(batches)
    asked, sent = how[3], how[4]
    begin, count = time.monotonic(), 0
    for batch in batches:
        count += len(batch["n"]) if isinstance(batch, dict) and "n" in batch else len(batch["record"])
        if time.monotonic() - begin > seconds:
            break
    taken = time.monotonic() - begin
    asked, sent = how[3] - asked, how[4] - sent
    return {"per s": count / taken, "requests a 1000": 1000 * asked / count, "MB a 1000": sent / count / 1000}


def measured(data: bytes, make: dict[str, Callable[[str], carya.Pipeline]], seconds: float) -> dict[str, Any]:
    """Of the object, by each way of reading it, with each latency."""
    port, how = multiprocessing.Value("i", 0), multiprocessing.Array("d", [0.0] * 5)
    process = multiprocessing.Process(target=CountingServer, args=(data, port, how), daemon=True)
    process.start()
    while port.value == 0:
        time.sleep(0.01)
    found: dict[str, Any] = {}
    for late_ms in (0, 20):
        how[0] = late_ms / 1000
        for name, pipeline_of in make.items():
            with tempfile.TemporaryDirectory() as folder:
                os.environ["CARYA_CACHE_DIR"] = folder
                begin = time.monotonic()
                pipeline = pipeline_of(f"http://127.0.0.1:{port.value}/{name}-{late_ms}")
                figures: dict[str, Any] = {"made s": time.monotonic() - begin, "records": len(pipeline)}
                batch = min(64, max(len(pipeline) // 8, 1))
                for order, ordered in (("in order", pipeline), ("shuffled", pipeline.shuffle(seed=1))):
                    with carya.Loader(ordered.batch(batch), epochs=1) as loader:
                        figures[order] = epoch(loader, how, seconds)
                if seconds >= 1:
                    figures["by windows"] = epoch(by_windows(pipeline, batch, len(data)), how, seconds)
                found[f"{name}, {late_ms} ms"] = figures
    process.kill()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seconds", type=float, default=10, help="of each figure, at most")
    parser.add_argument("--only", default="", help="what begins so, such as 'lines of 100'")
    parser.add_argument("--mb", type=float, default=50, help="of the object")
    given = parser.parse_args()
    size, seconds = (2_000_000, 0.3) if given.smoke else (int(given.mb * 1e6), given.seconds)
    lines = {"copy": carya.jsonl, "ranges": lambda url: carya.jsonl(url, copy=False)}
    found = {}
    data: dict[str, Any] = {f"lines of {each} B": (lines_of, each, lines) for each in (100, 4000)}
    records = {"ranges": carya.array_record}
    data |= {f"ArrayRecords of {each} B": (array_records_of, each, records) for each in (1000, 110_000)}
    for what, (make, each, ways) in data.items():
        if what.startswith(given.only):
            found[what] = measured(make(size, each), ways, seconds)
    for what, ways_of in found.items():
        for way, figures in ways_of.items():
            print(f"{what}, {way}: made in {figures['made s']:.2f} s, {figures['records']:,} records")
            for order in [one for one in figures if isinstance(figures[one], dict)]:
                told = figures[order]
                print(
                    f"  {order:10} {told['per s']:10,.0f} a second, for 1,000 records {told['requests a 1000']:8.1f} requests, "
                    f"{told['MB a 1000']:8.3f} MB"
                )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
