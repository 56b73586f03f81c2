"""Batches on a real CUDA device, by torch and by jax: no slot is rewritten under a copy, and pages are really pinned.

Machines without such a device leave these out (tests/ENVIRONMENT.md); tests/python/test_devices.py has the same rules
with a device that a thread plays.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya

torch = pytest.importorskip("torch")
import carya.torch  # noqa: E402

with_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

LATE = 20_000_000  # cycles: some 10 ms for which the device does nothing else
SIDE = 64


def rows(count: int = 96) -> carya.Pipeline:
    """Rows of 48 KB that say which record they are."""
    data = np.repeat(np.arange(count, dtype=np.int32)[:, None], SIDE * SIDE * 3, axis=1)
    return carya.arrays({"x": data, "label": np.arange(count)}).shuffle(seed=4).batch(8)


def check(seen: list[tuple[list[int], Any, Any]], epochs: int, count: int = 96) -> None:
    """All that arrived on the device is what the batch said of itself, and each record came once an epoch."""
    assert sorted(record for records, _, _ in seen for record in records) == sorted(list(range(count)) * epochs)
    for records, x, label in seen:
        assert x.device.type == label.device.type == "cuda"
        assert torch.equal(x.cpu(), torch.tensor(records, dtype=torch.int32)[:, None].expand_as(x.cpu()))
        assert label.tolist() == records


@with_cuda
@pytest.mark.parametrize("daemon", ["embedded", "spawn"])
@pytest.mark.parametrize("pin", [None, False, True])
@pytest.mark.parametrize("slots", [2, 6])
def test_what_the_loader_copies_arrives_whole(daemon: str, pin: bool | None, slots: int) -> None:
    with carya.torch.Loader(rows(), device="cuda", pin_memory=pin, slots=slots, daemon=daemon) as loader:
        seen = []
        for _ in range(3):
            for batch in loader:
                torch.cuda._sleep(LATE // 10)
                seen.append((batch.records.tolist(), batch["x"] + 0, batch["label"] + 0))
        assert loader.stats()["pinned"] is (pin is not False)
    check(seen, 3)


@with_cuda
@pytest.mark.parametrize("slots", [2, 6])
def test_a_pinned_slot_waits_for_the_stream_that_reads_it(slots: int) -> None:
    with carya.torch.Loader(rows(), pin_memory=True, slots=slots) as loader:
        seen = []
        for _ in range(2):
            for batch in loader:
                assert batch["x"].is_pinned()
                torch.cuda._sleep(LATE)  # the copies stand in the queue, the loop goes on without them
                records = batch.records.tolist()
                copied = {name: batch[name].to("cuda", non_blocking=True) for name in batch}
                seen.append((records, copied["x"], copied["label"]))
                del batch
        assert loader.stats()["pinned"] is True
    check(seen, 2)


@with_cuda
def test_a_stream_that_is_named_is_waited_for() -> None:
    side = torch.cuda.Stream()
    with carya.torch.Loader(rows(), pin_memory=True, slots=2) as loader:
        seen = []
        for batch in loader:
            batch.record_stream(side)
            with torch.cuda.stream(side):
                torch.cuda._sleep(LATE)
                seen.append((batch.records.tolist(), *(batch[name].to("cuda", non_blocking=True) for name in batch)))
            del batch
    side.synchronize()
    check(seen, 1)


@with_cuda
def test_closing_gives_the_pages_back() -> None:
    """Registered pages that were not given back would make the next loader's registration fail, or leak locked memory."""

    def locked() -> int:
        return next(
            int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmPin" in line
        )

    for again in range(4):
        with carya.torch.Loader(rows(), device="cuda", slots=4) as loader:
            for batch in loader:
                del batch
            assert loader.stats()["pinned"] is True
        gc.collect()
        if again == 0:
            first = locked()
    assert locked() <= first


@with_cuda
def test_two_loaders_and_a_break_in_the_middle() -> None:
    with (
        carya.torch.Loader(rows(), device="cuda", slots=3) as one,
        carya.torch.Loader(rows(), pin_memory=True, slots=3) as two,
    ):
        for batch, other in zip(one, two, strict=True):
            assert torch.equal(batch["x"], other["x"].to("cuda", non_blocking=True))
            if batch.step == 3:
                state = batch.state_dict()
                break
        one.load_state_dict(state)
        rest = [(batch.records.tolist(), batch["x"], batch["label"]) for batch in one]
    with carya.Loader(rows()) as plain:
        whole = [batch.records.tolist() for batch in plain]
    assert [records for records, _, _ in rest] == whole[4:]
    for records, x, label in rest:
        assert (x[:, 0].tolist(), label.tolist()) == (records, records)


@with_cuda
def test_what_cannot_be_pinned_leaves_the_device_as_it_was() -> None:
    """Pages that are registered already: the reason is said, copies go on, and no later call of torch fails for it."""
    with carya.torch.Loader(rows(), slots=2) as first:
        backend = carya.torch.CudaBackend(torch.device("cuda"))
        batch = next(iter(first))
        assert backend.pin([batch["x"]]) == ""
        other = carya.torch.CudaBackend(torch.device("cuda"))
        assert "cudaHostRegister" in other.pin([batch["x"]])
        assert (torch.ones(8, device="cuda") * 2).sum().item() == 16
        backend.close()
        del batch


@with_cuda
def test_bfloat16_arrives(photos: Path) -> None:
    chain = (
        carya.image_folder(photos)
        .shuffle(seed=1)
        .decode_image()
        .random_resized_crop(32)
        .normalize((0.5,) * 3, (0.25,) * 3)
        .to_dtype("bfloat16")
    )
    with carya.torch.Loader(chain.batch(4), device="cuda") as loader, carya.torch.Loader(chain.batch(4)) as plain:
        for batch, same in zip(loader, plain, strict=True):
            assert batch["image"].dtype == torch.bfloat16
            assert torch.equal(batch["image"].cpu().view(torch.int16), same["image"].view(torch.int16))


@with_cuda
def test_the_drop_in_pins_what_it_gives() -> None:
    class Squares(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> Any:
            return torch.full((1000,), index), index

    loader = carya.torch.DataLoader(Squares(), batch_size=8, num_workers=2, pin_memory=True)
    for x, index in loader:
        assert x.is_pinned()
        assert index.is_pinned()
        assert torch.equal(x.to("cuda", non_blocking=True)[:, 0].cpu(), index)


def test_jax_on_a_gpu_takes_the_bits_of_the_host() -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("no CUDA device here")
    import carya.jax

    def placed(**options: Any) -> list[tuple[list[int], Any]]:
        with carya.jax.Loader(rows(), slots=3, **options) as loader:
            return [(batch.records.tolist(), batch["x"]) for _ in range(3) for batch in loader]

    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    over = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    for options in ({}, {"sharding": over}, {"daemon": "spawn"}):
        seen = placed(**options)
        assert len(seen) == 36
        for records, x in seen:
            assert next(iter(x.devices())).platform == "gpu"
            assert (np.asarray(x) == np.array(records, np.int32)[:, None]).all()
