"""Files of records, written byte by byte from their specifications, so that no library of a format is needed."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

LONG_AGO = 1_000_000_000


def _table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """CRC-32C as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, data: bytes) -> bytes:
    """A field of bytes, or a message in a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(value: Any) -> bytes:
    """bytes, a list of bytes, floats or integers; one of those stands for a list."""
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, bytes) else [value]
    if values and isinstance(values[0], bytes):
        return field(1, b"".join(field(1, item) for item in values))
    if values and isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(varint(item) for item in values)))


def example(features: Mapping[str, Any]) -> bytes:
    """A tf.train.Example."""
    return field(
        1, b"".join(field(1, field(1, key.encode()) + field(2, feature(item))) for key, item in features.items())
    )


def write_records(path: Path, records: Iterable[bytes], tail: bytes = b"") -> Path:
    """A TFRecord file of long ago, so that its index is kept."""
    path.write_bytes(b"".join(map(frame, records)) + tail)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def mds_shard(columns: Mapping[str, tuple[str, int | None]], samples: Sequence[Mapping[str, bytes]]) -> bytes:
    """An MDS shard: columns with their encoding and the size of each value, None where it varies."""
    names = sorted(columns)
    config = {
        "column_encodings": [columns[name][0] for name in names],
        "column_names": names,
        "column_sizes": [columns[name][1] for name in names],
        "compression": None,
        "format": "mds",
        "version": 2,
    }
    text = json.dumps(config, sort_keys=True).encode()
    bodies = []
    for sample in samples:
        sizes = [len(sample[name]) for name in names if columns[name][1] is None]
        bodies.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(sample[name] for name in names))
    offsets = [8 + 4 * len(bodies) + len(text)]
    for body in bodies:
        offsets.append(offsets[-1] + len(body))
    return struct.pack(f"<{len(offsets) + 1}I", len(bodies), *offsets) + text + b"".join(bodies)


def write_mds(folder: Path, shards: Sequence[bytes]) -> Path:
    """A folder of shards of long ago, with its index.json."""
    folder.mkdir(exist_ok=True)
    listed = []
    for number, shard in enumerate(shards):
        name = f"shard.{number:05d}.mds"
        (folder / name).write_bytes(shard)
        os.utime(folder / name, (LONG_AGO, LONG_AGO))
        listed.append({"raw_data": {"basename": name, "bytes": len(shard), "hashes": {}}, "zip_data": None})
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": listed}))
    return folder
