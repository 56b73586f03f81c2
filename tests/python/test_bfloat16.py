"""bfloat16: the bits of torch and ml_dtypes, whoever makes the batch and whoever takes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import daemons
import numpy as np
import pytest
import user_code as code
import workers

import carya

ml_dtypes = pytest.importorskip("ml_dtypes")
torch = pytest.importorskip("torch")
import carya.torch  # noqa: E402

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def floats(photos: Path) -> carya.Pipeline:
    chain = carya.image_folder(photos).shuffle(seed=5).decode_image().random_resized_crop(40)
    return chain.random_horizontal_flip().normalize(0.5, 0.25)


def words(loader: Any, dtype: Any) -> list[np.ndarray[Any, Any]]:
    """The two bytes of each value of an epoch's batches, which are of the framework's own `dtype`."""
    found = []
    for batch in loader:
        values = batch["image"]
        assert values.dtype == dtype
        array = values.view(torch.int16).numpy() if dtype is torch.bfloat16 else np.asarray(values)
        found.append(np.array(array).view(np.uint16))
    return found


@pytest.fixture(scope="module")
def wanted(photos: Path) -> list[np.ndarray[Any, Any]]:
    """torch's, of the batches of float32."""
    found = []
    with carya.torch.Loader(floats(photos).batch(4), daemon="embedded", epochs=1) as loader:
        for batch in loader:
            found.append(batch["image"].to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16))
    return found


def same(found: list[np.ndarray[Any, Any]], expected: list[np.ndarray[Any, Any]]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[: len(other)], other)  # jax pads the last one


def test_every_number_is_torch_s_and_ml_dtypes_s() -> None:
    # All upper halves, subnormals, infinities and NaN among them, below, at and above each half way.
    upper = np.arange(2**16, dtype=np.uint32) << 16
    lower = np.uint32([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    values = (upper[:, None] | lower).ravel().view(np.float32)
    found = carya.arrays({"x": values[None]}).to_dtype("bfloat16", fields=["x"])[0]["x"]
    assert found.dtype == BFLOAT16
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(found.view(np.uint16), values.astype(BFLOAT16).view(np.uint16))
    by_torch = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    odd = np.isnan(values)
    np.testing.assert_array_equal(found.view(np.uint16)[~odd], by_torch[~odd])
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), odd)


def test_pictures_in_one_pass_and_op_by_op_are_those_of_float32(photos: Path) -> None:
    decoded = carya.image_folder(photos).decode_image()
    for chain in (
        floats(photos),
        decoded.resize((40, 50)).to_dtype("float32").subtract_mean((123.68, 116.78, 103.94)),
        decoded.to_dtype("float32", scale=True).resize((40, 50)).to_layout("CHW"),
    ):
        halves = chain.to_dtype("bfloat16")
        assert halves.outputs[0][1] == "bfloat16"
        for index in range(3):
            expected = chain[index]["image"].astype(BFLOAT16)
            np.testing.assert_array_equal(halves[index]["image"].view(np.uint16), expected.view(np.uint16))


def test_what_has_none_is_refused(photos: Path) -> None:
    decoded = carya.image_folder(photos).decode_image()
    with pytest.raises(carya.InvalidArgument, match=r'float32 \(for dtype="bfloat16"\)'):
        decoded.to_dtype("bfloat16")
    with pytest.raises(carya.InvalidArgument, match="scale: got True; give False when dtype is bfloat16"):
        decoded.to_dtype("float32").to_dtype("bfloat16", scale=True)
    with pytest.raises(carya.InvalidArgument, match="normalize"):
        decoded.to_dtype("float32").to_dtype("bfloat16").normalize(0.5, 0.5)
    with pytest.raises(carya.InvalidArgument, match="dtype"):
        carya.arrays({"x": np.zeros((3, 2), BFLOAT16)})
    # A library's own type, as users of jax and ml_dtypes give it.
    assert decoded.to_dtype("float32").to_dtype(ml_dtypes.bfloat16).outputs[0][1] == "bfloat16"
    assert decoded.to_dtype("float32").to_dtype(torch.bfloat16).outputs[0][1] == "bfloat16"


@pytest.fixture(scope="module", params=["embedded", "daemon", "worker"])
def place(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Options of loaders whose batches are made in this process, by a daemon and by a worker."""
    if request.param == "embedded":
        yield {"daemon": "embedded", "threads": 1}
    elif request.param == "daemon":
        with daemons.running() as daemon:
            yield {"daemon": daemon.socket}
    else:
        with workers.running("--insecure") as worker:
            yield {
                "daemon": "embedded",
                "threads": 1,
                "remote": [f"127.0.0.1:{worker.port}"],
                "placement": "remote:1",
            }


def test_batches_are_the_same_from_everywhere_and_for_everyone(
    photos: Path, wanted: list[np.ndarray[Any, Any]], place: dict[str, Any]
) -> None:
    jax = pytest.importorskip("jax")
    import carya.jax

    pipeline = floats(photos).to_dtype("bfloat16").batch(4)
    for kind, dtype in (
        (carya.Loader, BFLOAT16),
        (carya.torch.Loader, torch.bfloat16),
        (carya.jax.Loader, jax.numpy.bfloat16),
    ):
        with kind(pipeline, epochs=1, **place) as loader:
            same(words(loader, dtype), wanted)
            while "remote" in place and not loader.stats()["remote_chunks"]:  # until some are the worker's
                loader.set_epoch(0)
                same(words(loader, dtype), wanted)


def test_a_state_and_a_cache_change_no_bit(photos: Path, wanted: list[np.ndarray[Any, Any]]) -> None:
    pipeline = floats(photos).to_dtype("bfloat16").batch(4)
    with carya.torch.Loader(pipeline, epochs=1, daemon="embedded") as loader:
        next(iter(loader))
        state = loader.state_dict()
    with carya.torch.Loader(pipeline, epochs=1, daemon="embedded", state=state) as loader:
        same(words(loader, torch.bfloat16), wanted[1:])
    fixed = (
        carya.image_folder(photos).decode_image().resize((40, 40)).normalize(0.5, 0.25).to_dtype("bfloat16").batch(4)
    )
    with carya.Loader(fixed, epochs=2, daemon="embedded", threads=1, cache={"memory": "64MB"}) as loader:
        first, second = words(loader, BFLOAT16), words(loader, BFLOAT16)
        assert loader.stats()["cache"]["hits"] > 0
    same(second, first)
    assert "bfloat16" in repr(fixed)


@pytest.mark.parametrize("native", ["threads", "workers"])
def test_functions_take_and_give_it(photos: Path, wanted: list[np.ndarray[Any, Any]], native: str) -> None:
    pipeline = floats(photos).to_dtype("bfloat16").map(code.larger, fields="image", out=("image",)).batch(4)
    expected = [(one.view(BFLOAT16) + BFLOAT16.type(1)).view(np.uint16) for one in wanted]
    with carya.torch.Loader(pipeline, epochs=1, threads=1, native=native) as loader:
        same(words(loader, torch.bfloat16), expected)
        assert loader.stats()["native"]["by"] == native


def test_a_function_may_declare_it_and_what_follows_may_make_it(
    photos: Path, wanted: list[np.ndarray[Any, Any]]
) -> None:
    jax = pytest.importorskip("jax")
    import carya.jax

    declared = floats(photos).map(code.to_bfloat16, fields="image", out={"image": ("bfloat16", (3, 40, 40))}).batch(4)
    made = floats(photos).map(np.copy, fields="image").to_dtype("bfloat16").batch(4)
    for pipeline in (declared, made):
        with carya.jax.Loader(pipeline, epochs=1, threads=1) as loader:
            same(words(loader, jax.numpy.bfloat16), wanted)


def test_without_ml_dtypes_torch_has_it_and_numpy_is_told_what_to_install(
    photos: Path, wanted: list[np.ndarray[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = floats(photos).to_dtype("bfloat16").batch(4)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with carya.torch.Loader(pipeline, daemon="embedded", epochs=1) as loader:
        same(words(loader, torch.bfloat16), wanted)
    for refused in (lambda: carya.Loader(pipeline), lambda: pipeline[0]):
        with pytest.raises(carya.Unsupported, match=r"pip install ml_dtypes.*carya\.torch\.Loader"):
            refused()
    assert pipeline.outputs[0][1] == "bfloat16"
