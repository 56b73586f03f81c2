"""What users give by mistake: every refusal names the parameter, what was given and what is allowed."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from streams import numbers

import carya


def rows(count: int = 6) -> carya.Pipeline:
    return carya.arrays({"x": np.arange(count)})


def loaded(**options: Any) -> None:
    carya.Loader(numbers(8, batch_size=4), **options).close()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rows()[1.5], ["record", "1.5", "subset"]),
        (lambda: rows()["a"], ["record", "'a'"]),
        (lambda: rows()[0:2], ["record", "slice", "subset"]),
        (lambda: rows().sample(0, epoch=-1), ["sample: epoch", "-1"]),
        (lambda: rows().sample(0, epoch=1.0), ["sample: epoch", "1.0"]),
        (lambda: rows().sample(0, seed=2**64), ["sample: seed", "2^64 - 1"]),
        (lambda: carya.Pipeline.from_json(3), ["from_json: text", "3", "to_json"]),
        (lambda: carya.Pipeline.from_json("\udcff"), ["from_json: text"]),
        (lambda: rows().shuffle(seed=2**64), ["shuffle: seed", "18446744073709551615"]),
        (lambda: rows().shuffle(seed=-1), ["shuffle: seed", "-1"]),
        (lambda: carya.files(["a", "b"], labels=[2**63, 0]), ["files: label of a", "9223372036854775808", "64 bits"]),
        (lambda: carya.files(["a"], labels=5), ["files: labels", "5", "one integer per path"]),
        (lambda: rows().split(float("nan")), ["split", "fraction", "nan"]),
        (lambda: rows().subset(i for i in range(2)), ["subset: indices", "generator", "list"]),
        (lambda: rows().subset({1, 2}), ["subset: indices", "{1, 2}", "list"]),
        (lambda: carya.image_folder(None), ["image_folder: path", "None", "a path"]),
        (lambda: carya.files([None]), ["paths", "None", "a path"]),
        (lambda: carya.files(5), ["paths", "5", "a path"]),
        (lambda: loaded(as_tuple=3), ["as_tuple", "3", "'x'"]),
        (lambda: loaded(as_tuple="x"), ["as_tuple", "'x'"]),
        (lambda: loaded(read_ahead="9" * 400 + "GB"), ["read_ahead", "999", "64MB"]),
        (lambda: loaded(prefetch_epochs="no"), ["prefetch_epochs", "'no'", "True or False"]),
        (lambda: loaded(job=3), ["job", "3", "a name"]),
        (lambda: loaded(share=3), ["share", "3", "a name"]),
        (lambda: loaded(share="\udcff"), ["share", "a name"]),
        (lambda: loaded(job="\udcff"), ["job", "a name"]),
        (lambda: loaded(share=("a", 0)), ["share", "0", "1 to 32"]),
        (lambda: loaded(share="a", replicas=2), ["share='a'", "replicas=2"]),
        (lambda: loaded(weight=0), ["weight", "0", "0.01 to 100"]),
        (lambda: loaded(weight=10**400), ["weight", "0.01 to 100"]),
        (lambda: loaded(weight=float("nan")), ["weight", "nan", "0.01 to 100"]),
        (lambda: loaded(weight=True), ["weight", "True", "0.01 to 100"]),
        (lambda: loaded(replica="a"), ["replica", "'a'"]),
        (lambda: loaded(reattach_timeout="x"), ["reattach_timeout", "'x'"]),
        (lambda: loaded(on_daemon_loss="x"), ["on_daemon_loss", "'x'"]),
        (lambda: loaded(on_error=["mask"]), ["on_error", "replace"]),
        (lambda: loaded(decode_index=[8]), ["decode_index", "[8]"]),
        (lambda: loaded(io_timeout="1"), ["io_timeout", "'1'"]),
        (lambda: loaded(io_timeout=np.float32("nan")), ["io_timeout", "nan"]),
        (lambda: loaded(threads=np.arange(2)), ["threads"]),
    ],
)
def test_a_wrong_argument_is_named(call: Callable[[], object], words: list[str]) -> None:
    with pytest.raises(carya.InvalidArgument) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_seeds_of_shuffle_and_loader_have_the_same_range() -> None:
    largest = 2**64 - 1
    chained = rows().shuffle(seed=largest).batch(6)
    assert carya.Pipeline.from_json(chained.to_json(), arrays={"x": np.arange(6)}) == chained
    with carya.Loader(chained) as one, carya.Loader(rows().shuffle().batch(6), seed=largest) as other:
        assert one.seed == other.seed == largest
        assert next(iter(one))["x"].tolist() == next(iter(other))["x"].tolist()


def test_numbers_of_numpy_are_numbers() -> None:
    loaded(io_timeout=np.float32(3), hold_timeout=np.int64(2), prefetch_epochs=np.bool_(True), as_tuple=iter(["x"]))
    assert rows()[np.int64(2)]["x"] == rows()[2]["x"]


def test_paths_may_be_bytes_and_may_look_like_patterns(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    odd = tmp_path / "c" / "a[1].jpg"
    Image.new("RGB", (8, 8)).save(odd)
    assert carya.image_folder(os.fsencode(tmp_path)) == carya.image_folder(tmp_path)
    assert carya.files(os.fsencode(odd)) == carya.files([odd])
    assert len(carya.files(odd)) == 1
    assert carya.files(str(tmp_path / "c" / "*.jpg")) == carya.files([odd])


def test_stop_iteration_of_map_batch_does_not_end_the_epoch() -> None:
    def stops(batch: Any) -> Any:
        return next(iter(()))

    with carya.Loader(numbers(8, batch_size=4).map_batch(stops)) as loader:
        with pytest.raises(RuntimeError, match=r"map_batch.*StopIteration") as caught:
            list(loader)
        assert isinstance(caught.value.__cause__, StopIteration)


def test_a_broken_sample_says_how_to_go_on(damaged: list[str]) -> None:
    with pytest.raises(carya.SampleError, match=r'give on_error="replace" or "mask" to go on without it$'):
        carya.files(damaged).decode_image().sample(3)


NO_IO_URING = """
import ctypes, errno, logging, platform, struct, sys
logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
def statement(code, value, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, value)
program = (statement(0x20, 0) + statement(0x15, 425, 0, 1) + statement(0x06, 0x50000 | errno.EPERM)
           + statement(0x06, 0x7FFF0000))
memory = ctypes.create_string_buffer(program)
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(memory)))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filter):
    print("no seccomp")
    sys.exit()
import carya
import numpy as np
pipeline = carya.arrays({"x": np.arange(4)}).batch(2)
for _ in range(2):
    with carya.Loader(pipeline, daemon="embedded") as loader:
        assert len(list(loader)) == 2
try:
    carya.Loader(pipeline, daemon="embedded", io_engine="uring")
except carya.Error as error:
    print(error)
"""


def test_refused_io_uring_is_said_once_and_the_error_says_how_to_allow_it() -> None:
    done = subprocess.run([sys.executable, "-c", NO_IO_URING], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    if "no seccomp" in done.stdout:
        pytest.skip("seccomp is not available")
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stdout
    assert lines[0].startswith("carya WARNING reads go through pread (io_uring: EPERM)")
    assert "kernel.io_uring_disabled" in lines[1]
    assert "seccomp" in lines[1]
    assert 'io_engine="pread"' in lines[1]
    assert "right to read" not in lines[1]


def test_a_compressed_tar_is_to_be_unpacked_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(gzip.compress(bytes(1024)))
    with pytest.raises(carya.Unsupported, match=r"unpack it first: gunzip \S+$"):
        len(carya.webdataset(tmp_path / "a.tar"))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: rows().split(0.8, 0.2),
            r"split\(\) takes 1 argument without a name, got 0.2 behind; give the share of the first part",
        ),
        (
            lambda: rows().split(),
            r"split\(\) lacks 'fraction'; give the share of the first part: train, rest = pipeline\.split\(0\.8",
        ),
        (lambda: rows().split(lengths=[4, 2]), r"'lengths'; give the share of the first part"),
        (lambda: rows().split(0.5, random_state=1), r"'random_state'; give seed="),
        (lambda: rows().map(str, num_parallel_calls=4), r"'num_parallel_calls'; give threads= to the Loader"),
        (
            lambda: rows().map(str, "x"),
            r"map\(\) takes 1 argument without a name, got 'x' behind; give it by name: fields=, out=",
        ),
        (lambda: rows().map(str, batched=True), r"'batched'; leave it out: .*map_batches"),
        (lambda: rows().filter(bool, field="x"), r"'field'; give fields="),
        (lambda: carya.npz("a.npz", fields=["x"]), r"npz\(\) .*'fields'; give arrays="),
        (lambda: carya.hdf5("a.h5", keys=["x"]), r"'keys'; give datasets="),
        (lambda: carya.csv("a.csv", fields=["x"]), r"'fields'; give columns="),
        (lambda: rows().shuffle(1, 2), r"shuffle\(\) takes 1 argument without a name, got 2 behind; leave it out"),
    ],
)
def test_arguments_that_are_none_are_answered_with_those_that_are(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_several_fractions_of_a_split_are_answered_with_two_splits() -> None:
    with pytest.raises(
        carya.InvalidArgument, match=r"split: fraction: got \[0\.8, 0\.2\]; give the share .*rest\.split\(0\.5\)"
    ):
        rows().split([0.8, 0.2])  # type: ignore[arg-type]
    assert [len(part) for part in rows().split(np.array(0.5))] == [len(part) for part in rows().split(0.5)]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: rows().balanced([0, 1, 1]), r"balanced: labels: got 3 for 6 records; give one for each record"),
        (lambda: rows().weighted([1, 2, 1]), r"weighted: weights: got 3 for 6 records; give one for each record"),
        (lambda: rows().balanced([0, 1] * 3, samples=0), r"balanced: samples: got 0"),
    ],
)
def test_labels_and_weights_are_told_by_their_names(made: Callable[[], carya.Pipeline], said: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=said):
        carya.Loader(made().batch(2), threads=1)
