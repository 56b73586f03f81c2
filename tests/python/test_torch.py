"""The torch loader: tensors in the slot, ranks of torch.distributed, trainers' conventions."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import numpy as np
import pytest
from ports import free_port
from streams import digest, epoch_digest, numbers, records

import carya

torch = pytest.importorskip("torch")
import carya.torch  # noqa: E402


def pictures(count: int = 32) -> carya.Pipeline:
    data = np.repeat(np.arange(count, dtype=np.uint8)[:, None], 300, axis=1)
    return carya.arrays({"image": data, "label": np.arange(count)}).shuffle(seed=3).batch(4)


def test_tensors_lie_in_the_slot() -> None:
    with carya.torch.Loader(pictures()) as loader:
        batch = next(iter(loader))
        assert isinstance(batch["image"], torch.Tensor)
        assert batch["image"].dtype == torch.uint8
        assert batch["label"].dtype == torch.int64
        assert batch["image"].data_ptr() % 64 == 0
        assert batch["image"].data_ptr() == batch._core.numpy("image").ctypes.data
        assert batch["label"].tolist() == batch.records.tolist()
        assert isinstance(batch.valid, torch.Tensor)
        assert batch.valid.dtype == torch.bool


def test_the_stream_is_that_of_numpy(photos: Path) -> None:
    chain = (
        carya.image_folder(photos).shuffle(seed=1).decode_image().random_resized_crop(32).normalize(0.5, 0.5).batch(5)
    )
    with carya.torch.Loader(chain, threads=2) as loader:
        assert digest(loader) == epoch_digest(chain)


def test_tensors_and_views_outlive_the_loader() -> None:
    loader = carya.torch.Loader(pictures(), slots=3)
    batch = next(iter(loader))
    wanted = batch.records.tolist()
    view = batch["image"][:, 7].view(-1)
    alias = batch["image"].reshape(-1, 10).T
    del batch
    loader.close()
    del loader
    gc.collect()
    assert view.tolist() == wanted
    assert alias.shape == (10, 120)


def test_a_held_tensor_is_not_rewritten() -> None:
    with carya.torch.Loader(pictures(), slots=3) as loader:
        first = next(iter(loader))["image"][:, 299]
        values = first.tolist()
        for _ in range(3):
            for _batch in loader:
                assert first.tolist() == values


def test_a_batch_moves_with_its_place() -> None:
    with carya.torch.Loader(pictures()) as loader:
        batch = next(iter(loader))
        moved = batch.to("cpu")
        assert moved.state_dict() == batch.state_dict()
        assert moved.records.tolist() == batch.records.tolist()
        assert torch.equal(moved["image"], batch["image"])


def test_as_tuple_and_training_in_place() -> None:
    with carya.torch.Loader(pictures(), as_tuple=("image", "label"), slots=2) as loader:
        for _ in range(2):
            for image, label in loader:
                assert torch.equal(image[:, 0].long(), label)
                image.zero_()


def test_rank_and_world_size_come_from_torch_distributed() -> None:
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed")
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    try:
        with carya.torch.Loader(numbers(8, batch_size=4)) as loader:
            assert (loader.rank, loader.world_size) == (0, 1)
        with carya.torch.Loader(numbers(8, batch_size=4), rank=1, world_size=2) as loader:
            assert (loader.rank, loader.world_size) == (1, 2)
    finally:
        torch.distributed.destroy_process_group()


def test_distributed_facts_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    with carya.torch.Loader(numbers(16, batch_size=2)) as loader:
        assert (loader.rank, loader.world_size, loader.global_size) == (2, 4, 8)


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is here")
def test_without_cuda_pinning_says_why_and_goes_on() -> None:
    with pytest.warns(RuntimeWarning, match="no CUDA"):
        loader = carya.torch.Loader(pictures(), pin_memory=True)
    assert len(records(loader)) == 8
    assert loader.stats()["pinned"] == "torch finds no CUDA device here"
    loader.close()
    with pytest.raises(carya.InvalidArgument, match="device"):
        carya.torch.Loader(pictures(), device="cuda")


def test_device_cpu_is_the_plain_loader() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with carya.torch.Loader(pictures(), device="cpu") as loader:
            assert len(records(loader)) == 8


def test_a_model_trains_the_same_after_a_resume() -> None:
    data = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    chain = carya.arrays({"x": data, "label": (data[:, 0] > 0).astype(np.int64)}).shuffle(seed=1).batch(8)

    def run(stop: int | None) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses: list[float] = []
        state = None
        while len(losses) < 16:
            with carya.torch.Loader(chain, state=state) as loader:
                while len(losses) < 16:
                    for batch in loader:
                        loss = torch.nn.functional.cross_entropy(model(batch["x"]), batch["label"])
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                        losses.append(float(loss.detach()))
                        if len(losses) == stop:
                            break
                    state = loader.state_dict()
                    if len(losses) == stop:
                        break
        return losses

    assert run(5) == run(None)


def test_a_batch_is_a_tree_of_its_tensors() -> None:
    from torch.utils import _pytree

    with carya.torch.Loader(pictures()) as loader:
        batch = next(iter(loader))
        assert [leaf.shape for leaf in _pytree.tree_leaves(batch)] == [(4, 300), (4,)]
        doubled = _pytree.tree_map(lambda tensor: tensor * 2, batch)
        assert isinstance(doubled, carya.Batch)
        assert doubled["label"].tolist() == [2 * label for label in batch["label"].tolist()]
