"""Blocks of ids in files of nanoGPT, llm.c, Megatron-LM and numpy."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from streams import check_resume, shuffled_epoch

import carya


def ids(count: int, seed: int = 1, most: int = 50_000) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, most, count)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32", "int64"])
def test_blocks_are_slices_of_the_file(tmp_path: Path, dtype: str) -> None:
    parts = [ids(1000, 1).astype(dtype), ids(64, 2).astype(dtype), ids(63, 3).astype(dtype), ids(0, 4).astype(dtype)]
    for name, part in zip("abcd", parts, strict=True):
        part.tofile(tmp_path / f"{name}.bin")
    pipeline = carya.token_blocks(tmp_path, 64, dtype=dtype)
    expected = [part[i : i + 64] for part in parts for i in range(0, len(part) - 63, 64)]
    assert len(pipeline) == len(expected) == 16
    for n, block in enumerate(expected):
        got = pipeline[n]["ids"]
        assert got.dtype == np.int32
        assert got.tolist() == block.tolist()
    overlapping = carya.token_blocks(tmp_path / "a.bin", 65, stride=64, dtype=dtype)
    assert len(overlapping) == 15
    assert overlapping[3]["ids"].tolist() == parts[0][192:257].tolist()


def test_the_header_of_llm_c(tmp_path: Path) -> None:
    head = np.zeros(256, "<i4")
    for name, magic, version, dtype in (("a", 20240520, 1, "<u2"), ("b", 20240801, 7, "<u4")):
        head[:3] = magic, version, 100
        (tmp_path / f"{name}.bin").write_bytes(head.tobytes() + np.arange(100, dtype=dtype).tobytes())
    pipeline = carya.token_blocks(tmp_path, 50)
    assert [pipeline[n]["ids"][0] for n in range(4)] == [0, 50, 0, 50]
    head[2] = 101
    (tmp_path / "a.bin").write_bytes(head.tobytes() + bytes(200))
    with pytest.raises(carya.SampleError, match="its header says 101 ids, and it has 50; copy it again"):
        carya.token_blocks(tmp_path, 50)


def test_a_file_that_is_shorter_than_any_header_is_read(tmp_path: Path) -> None:
    for size in (1, 7, 11):
        np.arange(size, dtype=np.uint8).tofile(tmp_path / "a.bin")
        pipeline = carya.token_blocks(tmp_path / "a.bin", 1, dtype="uint8")
        assert [pipeline[n]["ids"].tolist() for n in range(len(pipeline))] == [[n] for n in range(size)]


def test_an_index_of_megatron_says_the_dtype(tmp_path: Path) -> None:
    tokens = ids(300, most=1 << 20).astype("<i4")
    tokens.tofile(tmp_path / "a.bin")
    index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, 2, 3)
    (tmp_path / "a.idx").write_bytes(index + struct.pack("<2i2q3q", 100, 200, 0, 400, 0, 1, 2))
    assert carya.token_blocks(tmp_path, 128)[1]["ids"].tolist() == tokens[128:256].tolist()
    for head, why in ((b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, 6), "code 6"), (b"other", "no index of Megatron-LM")):
        (tmp_path / "a.idx").write_bytes(head)
        with pytest.raises(carya.SampleError, match=why):
            carya.token_blocks(tmp_path, 128)


def test_arrays_of_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(100, dtype=">i8"))
    assert carya.token_blocks(tmp_path, 40)[1]["ids"].tolist() == list(range(40, 80))
    for array, why in ((np.zeros((2, 3), int), r"int64 \[2, 3\]"), (np.zeros(9), "float64")):
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(carya.SampleError, match=why):
            carya.token_blocks(tmp_path, 2)
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(carya.SampleError, match=r"give files of numpy\.save"):
        carya.token_blocks(tmp_path, 2)


def test_ids_beyond_int32_are_broken_records(tmp_path: Path) -> None:
    np.array([1, 2, 1 << 31, 4], "<u4").tofile(tmp_path / "a.bin")
    pipeline = carya.token_blocks(tmp_path / "a.bin", 2, dtype="uint32").batch(2)
    with carya.Loader(pipeline, threads=1, on_error="mask") as loader:
        (batch,) = list(loader)
        (entry,) = loader.quarantine()
    assert batch["ids"].tolist() == [[1, 2], [0, 0]]
    assert "ids from 2 on: an id of it is beyond int32" in entry["reason"]


def test_any_order_and_any_resume(tmp_path: Path) -> None:
    tokens = ids(1024).astype("<u2")
    tokens.tofile(tmp_path / "a.bin")
    pipeline = carya.token_blocks(tmp_path / "a.bin", 16).shuffle(seed=4).batch(8)
    batches, order = shuffled_epoch(pipeline, 64)
    got = np.concatenate([np.array(batch["ids"]) for batch in batches])
    assert got.tolist() == tokens.reshape(64, 16)[order].tolist()
    check_resume(pipeline, batches)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(31))
    with pytest.raises(carya.SampleError, match="31 B, no whole number of uint16; give the dtype"):
        carya.token_blocks(tmp_path, 4)
    (tmp_path / "a.bin").write_bytes(bytes(30))
    with pytest.raises(carya.InvalidArgument, match="files with at least 16 ids, or a smaller length"):
        carya.token_blocks(tmp_path, 16)
    for length, stride in ((0, None), (True, None), (4, 0), (4.0, None)):
        with pytest.raises(carya.InvalidArgument, match="a number of ids from 1 on"):
            carya.token_blocks(tmp_path, length, stride=stride)  # type: ignore[arg-type]
    with pytest.raises(carya.InvalidArgument, match="give one of uint16"):
        carya.token_blocks(tmp_path, 4, dtype="float32")
    with pytest.raises(carya.NotFound):
        carya.token_blocks(tmp_path / "absent.bin", 4)


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    np.arange(64, dtype="<u2").tofile(tmp_path / "a.bin")
    pipeline = carya.token_blocks(tmp_path / "a.bin", 8).batch(2)
    np.arange(80, dtype="<u2").tofile(tmp_path / "a.bin")
    with pytest.raises(carya.IoError, match="it changed"), carya.Loader(pipeline, threads=1, on_error="mask") as loader:
        list(loader)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_negative_numbers_stay_as_they_are(tmp_path: Path, dtype: str, native: bool) -> None:
    values = np.array([5, -100, 7, -1, 60_000 if dtype != "int16" else 9, -(2**15)], dtype)
    values.tofile(tmp_path / "a.bin")
    np.save(tmp_path / "a.npy", values)
    for name, options in (("a.bin", {"dtype": dtype}), ("a.npy", {})):
        pipeline = carya.token_blocks(tmp_path / name, 3, native=native, **options)
        assert [pipeline[i]["ids"].tolist() for i in range(2)] == values.reshape(2, 3).tolist()


@pytest.mark.parametrize(("dtype", "wide"), [("int32", 32), ("uint32", 32), ("int64", 64)])
def test_wider_ids_than_nothing_says_are_refused(tmp_path: Path, dtype: str, wide: int) -> None:
    """They were taken for twice as many of 16 bits: -100 for 65436 and 65535."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 200_000, 3000)
    if dtype != "uint32":
        ids[::7] = -100
    ids.astype(dtype).tofile(tmp_path / "a.bin")
    with pytest.raises(
        carya.InvalidArgument, match=rf'a\.bin: its bytes look like ids of {wide} bits.*give dtype="int{wide}"'
    ):
        carya.token_blocks(tmp_path / "a.bin", 4)
    assert len(carya.token_blocks(tmp_path / "a.bin", 4, dtype=dtype)) == 750
    assert len(carya.token_blocks(tmp_path / "a.bin", 4, dtype="uint16")) == 750 * wide // 16


def test_small_ids_of_16_bits_are_not_taken_for_wider_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for most in (1, 2, 5, 17, 65, 256, 50_257):
        rng.integers(0, most, 4096).astype("uint16").tofile(tmp_path / "a.bin")
        assert len(carya.token_blocks(tmp_path / "a.bin", 4)) == 1024
