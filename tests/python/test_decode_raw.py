"""`decode_raw`: bytes of records as arrays, wherever samples are made."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import daemons
import numpy as np
import pytest
import workers
from streams import digest, epoch_digest, shuffled_epoch
from test_remote import at, read_until_remote

import carya

COUNT, SHAPE = 23, (6, 5, 3)


def row(number: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(number).integers(0, 256, SHAPE, np.uint8)


@pytest.fixture(scope="module")
def tar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "a.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(COUNT):
            for kind, content in (("bin", row(number).tobytes()), ("cls", b"%d" % (number % 5))):
                info = tarfile.TarInfo(f"{number:03}.{kind}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def source(tar: Path, field: str = "image") -> carya.Pipeline:
    return carya.webdataset([tar], fields={field: ["bin"]}).decode_raw(np.uint8, SHAPE)


def chain(start: carya.Pipeline) -> carya.Pipeline:
    return start.shuffle(seed=3).random_crop((4, 3)).normalize(0.5, 0.25).batch(global_size=6)


def in_memory() -> carya.Pipeline:
    labels = np.arange(COUNT) % 5
    return carya.arrays({"image": np.stack([row(number) for number in range(COUNT)]), "label": labels})


def test_records_are_numpys(tmp_path: Path) -> None:
    for dtype in ("bool", "int8", "uint16", "int64", "float16", np.float32, np.dtype("<f8")):
        values = np.arange(6).astype(dtype).reshape(3, 2)
        (tmp_path / "a.bin").write_bytes(values.tobytes())
        pipeline = carya.files([tmp_path / "a.bin"], field="x").decode_raw(dtype, (3, 2))
        assert pipeline.outputs == [("x", values.dtype.name, (3, 2))]
        assert pipeline[0]["x"].dtype == values.dtype
        assert np.array_equal(pipeline[0]["x"], values)
    with pytest.raises(carya.InvalidArgument, match="decode_raw: dtype: got '>f4'; give a numpy name"):
        carya.files([tmp_path / "a.bin"], field="x").decode_raw(np.dtype(">f4"), (3, 2))


def test_a_stream_has_the_bits_of_arrays_in_memory(tar: Path) -> None:
    wanted = epoch_digest(chain(in_memory()), epochs=2)
    for options in ({}, {"threads": 3, "io_engine": "pread"}, {"cache": "off"}):
        assert epoch_digest(chain(source(tar)), epochs=2, **options) == wanted
    with daemons.running() as daemon:
        assert epoch_digest(chain(source(tar)), epochs=2, daemon=daemon.socket) == wanted


def test_remote_workers_make_the_arrays(tar: Path) -> None:
    wanted = epoch_digest(chain(in_memory()))
    options: dict[str, Any] = {"placement": "remote:1", "threads": 1}
    for root in (["--root", "/"], []):  # a worker that reads itself, and one that is sent the records
        with workers.running(*root) as worker, carya.Loader(chain(source(tar)), remote=at(worker), **options) as loader:
            assert read_until_remote(loader) == wanted


def test_functions_follow_it(tar: Path) -> None:
    def doubled(value: Any) -> Any:
        return value.astype(np.int32) * 2

    pipeline = source(tar, "value").shuffle(seed=3).map(doubled, fields="value").batch(global_size=6)
    batches, order = shuffled_epoch(pipeline, COUNT)
    made = np.concatenate([np.asarray(batch["value"]) for batch in batches])
    assert np.array_equal(made, np.stack([row(number) for number in order]).astype(np.int32) * 2)


def test_a_record_of_another_length_is_an_entry_of_the_quarantine(tmp_path: Path) -> None:
    paths = []
    for number in range(8):
        paths.append(tmp_path / f"{number}.bin")
        content = row(number).tobytes()
        paths[-1].write_bytes({2: b"", 5: content[:-1], 6: content + b"\0"}.get(number, content))
    pipeline = carya.files(paths, field="value").decode_raw("uint8", SHAPE).batch(4)
    with carya.Loader(pipeline, on_error="mask") as loader:
        assert [bool(valid) for batch in loader for valid in batch.valid] == [n not in (2, 5, 6) for n in range(8)]
        entries = {entry["record"]: entry for entry in loader.quarantine()}
    assert sorted(entries) == [2, 5, 6]
    assert entries[5]["path"] == str(paths[5])
    assert (entries[5]["stage"], entries[5]["reason"]) == ("decode_raw", "value: 89 B, and uint8[6, 5, 3] are 90 B")
    with pytest.raises(carya.SampleError, match=r"decode_raw: value: 91 B, and uint8\[6, 5, 3\] are 90 B"):
        pipeline[6]
    with carya.Loader(pipeline) as loader, pytest.raises(carya.SampleError, match=r"2\.bin"):
        digest(loader)
