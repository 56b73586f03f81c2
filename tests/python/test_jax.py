"""The jax loader: arrays in the slot, full shapes, shardings, donation."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from streams import digest, epoch_digest, numbers

import carya

jax = pytest.importorskip("jax")
import carya.jax  # noqa: E402


def pictures(count: int = 30, **batch: bool) -> carya.Pipeline:
    data = np.repeat(np.arange(count, dtype=np.float32)[:, None], 300, axis=1)
    return carya.arrays({"image": data, "label": np.arange(count, dtype=np.int32)}).shuffle(seed=3).batch(4, **batch)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="arrays lie on another device here")
def test_arrays_lie_in_the_slot() -> None:
    with carya.jax.Loader(pictures()) as loader:
        batch = next(iter(loader))
        assert isinstance(batch["image"], jax.Array)
        assert batch["image"].unsafe_buffer_pointer() == batch._core.numpy("image").ctypes.data
        assert batch["label"].tolist() == batch.records.tolist()


def _as_it_is(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return batch


@pytest.mark.parametrize("functions", [False, True])
def test_a_step_compiles_once(functions: bool) -> None:
    """A batch is bound to no device, so that weights which a step returns are not either."""
    step = jax.jit(lambda weights, image, label, valid: weights + (image.sum(1) * valid).sum() + label.sum())
    weights = jax.numpy.zeros(3)
    chain = pictures().map_batches(_as_it_is) if functions else pictures()
    with carya.jax.Loader(chain, epochs=2) as loader:
        for _ in range(2):
            for batch in loader:
                weights = step(weights, batch["image"], batch["label"], batch.valid)
    assert step._cache_size() == 1


def test_labels_are_int32(photos: Path) -> None:
    chain = carya.image_folder(photos).shuffle(seed=1).decode_image().random_resized_crop(16).batch(9)
    with carya.jax.Loader(chain) as loader, carya.Loader(chain) as plain:
        for batch, same in zip(loader, plain, strict=True):
            assert batch["label"].dtype == np.int32
            assert batch["label"].tolist() == same["label"].tolist()
            assert np.array_equal(batch["image"], same["image"])


def test_every_step_has_the_full_shape() -> None:
    with carya.jax.Loader(pictures()) as loader:
        shapes = {(batch["image"].shape, batch.valid.shape) for batch in loader}
        assert shapes == {((4, 300), (4,))}
        assert digest(loader) != ""
    with carya.jax.Loader(pictures(drop_last=True)) as loader:
        assert len(loader) == 7


def test_the_stream_is_that_of_numpy() -> None:
    with carya.jax.Loader(pictures()) as loader:
        assert digest(loader) == epoch_digest(pictures())


def test_64_bit_fields_are_narrowed_by_jax() -> None:
    with carya.jax.Loader(numbers(8, batch_size=4)) as loader:
        batch = next(iter(loader))
        assert batch["x"].dtype == np.int32
        assert batch["x"].tolist() == batch.records.tolist()


def test_arrays_outlive_the_loader_and_are_not_rewritten() -> None:
    loader = carya.jax.Loader(pictures(), slots=3)
    first = next(iter(loader))
    image, wanted = first["image"], first.records.tolist()
    del first
    for _ in range(3):
        for _batch in loader:
            assert image[:, 0].tolist() == wanted
    loader.close()
    del loader, _batch
    gc.collect()
    assert image[:, 299].tolist() == wanted


def test_donating_a_batch_tears_nothing() -> None:
    step = jax.jit(lambda image: image * 0 - 1, donate_argnums=0)
    with carya.jax.Loader(pictures(), slots=2) as loader:
        for _ in range(3):
            seen = []
            for batch in loader:
                wanted = [int(r) for r, ok in zip(batch.records, batch.valid, strict=True) if ok]
                assert np.asarray(batch["image"])[: len(wanted), 5].tolist() == wanted
                result = step(batch.pop("image"))
                assert float(result.max()) == -1
                seen += wanted
            assert sorted(seen) == list(range(30))


def test_a_sharding_gives_global_arrays_over_all_devices(tmp_path: Path) -> None:
    """Four CPU devices, in a process of its own."""
    code = textwrap.dedent("""
    import numpy as np, jax, carya, carya.jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    data = np.repeat(np.arange(32, dtype=np.float32)[:, None], 300, axis=1)
    chain = carya.arrays({"image": data}).shuffle(seed=3).batch(8)
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    with carya.jax.Loader(chain, sharding=sharding) as loader, carya.Loader(chain) as plain:
        for batch, same in zip(loader, plain, strict=True):
            assert batch["image"].sharding == sharding
            assert len(batch["image"].addressable_shards) == 4
            assert np.array_equal(batch["image"], same["image"])
            assert batch.valid.sharding == sharding
    print("same")
    """)
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr


def test_the_process_index_is_the_rank() -> None:
    with carya.jax.Loader(pictures()) as loader:
        assert (loader.rank, loader.world_size) == (jax.process_index(), jax.process_count())
    with carya.jax.Loader(pictures(), rank=1, world_size=2) as loader:
        assert loader.global_size == 8


def test_a_batch_is_a_tree_that_compiled_functions_take() -> None:
    with carya.jax.Loader(pictures()) as loader:
        batch = next(iter(loader))
        total = jax.jit(lambda taken: taken["label"].sum())(batch)
        assert int(total) == sum(batch["label"].tolist())
        shapes = jax.tree.map(lambda array: array.shape, batch)
        assert shapes["label"] == batch["label"].shape
        assert [path[0].key for path, _ in jax.tree_util.tree_flatten_with_path(batch)[0]] == list(batch)
