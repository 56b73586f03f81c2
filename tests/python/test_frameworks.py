"""Trainers and references that are not installed everywhere: used as their users do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_torchvision
from PIL import Image

import carya


def needs(name: str) -> pytest.MarkDecorator:
    """Skipped where the package is not installed."""
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


def vision(photos: Path) -> carya.Pipeline:
    chain = carya.image_folder(photos).shuffle(seed=1).decode_image().random_resized_crop(16).normalize(0.5, 0.5)
    return chain.batch(8, drop_last=True)


def sums(photos: Path, epochs: int) -> list[float]:
    """One number per step of the stream."""
    import carya.torch

    with carya.torch.Loader(vision(photos)) as loader:
        return [float(batch["image"].sum()) for _ in range(epochs) for batch in loader]


@pytest.mark.filterwarnings("ignore")
def test_lightning_trains_on_the_loader(photos: Path) -> None:
    import lightning
    import torch

    import carya.torch

    seen: list[float] = []

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3 * 16 * 16, 3)

        def training_step(self, batch: Any, index: int) -> Any:
            image, label = batch
            seen.append(float(image.sum()))
            return torch.nn.functional.cross_entropy(self.layer(image.flatten(1)), label)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    with carya.torch.Loader(vision(photos), as_tuple=("image", "label")) as loader:
        lightning.Trainer(max_epochs=2, accelerator="cpu", **quiet).fit(Model(), loader)
    assert seen == sums(photos, 2)


def test_accelerate_prepares_the_loader(photos: Path) -> None:
    import accelerate
    import torch

    import carya.torch

    accelerator = accelerate.Accelerator(cpu=True)
    layer = torch.nn.Linear(3 * 16 * 16, 3)
    with carya.torch.Loader(vision(photos)) as loader:
        layer, optimizer, prepared = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), 1e-3), loader)
        seen = []
        for batch in prepared:
            accelerator.backward(layer(batch["image"].flatten(1)).square().mean())
            optimizer.step()
            seen.append(float(batch["image"].sum()))
    assert seen == sums(photos, 1)


@needs("accelerate")
def test_accelerate_keeps_the_loader_s_state(photos: Path, tmp_path: Path) -> None:
    """As docs/guides/huggingface.md has it: the loader is not prepared, its state goes with the checkpoint."""
    import accelerate

    import carya.torch

    whole = sums(photos, 1)
    accelerator = accelerate.Accelerator(cpu=True)
    with carya.torch.Loader(vision(photos), device=accelerator.device) as loader:
        accelerator.register_for_checkpointing(loader)
        batches = iter(loader)
        assert float(next(batches)["image"].sum()) == whole[0]
        accelerator.save_state(str(tmp_path))
        next(batches)
        accelerator.load_state(str(tmp_path))
        assert [float(batch["image"].sum()) for batch in loader] == whole[1:]


@needs("transformers")
@needs("accelerate")
@pytest.mark.filterwarnings("ignore")
def test_the_trainer_of_hugging_face_takes_the_loader(photos: Path, tmp_path: Path) -> None:
    """As docs/guides/huggingface.md has it: a subclass gives the loader, `map_batch` the names of the arguments."""
    import torch
    import transformers

    import carya.torch

    seen: list[float] = []

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3 * 16 * 16, 3)

        def forward(self, pixel_values: Any, labels: Any) -> Any:
            seen.append(float(pixel_values.sum()))
            logits = self.layer(pixel_values.flatten(1))
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    class CaryaTrainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            train = vision(photos).map_batch(lambda batch: {"pixel_values": batch["image"], "labels": batch["label"]})
            return carya.torch.Loader(train)

    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=3, report_to=[], use_cpu=True, save_strategy="no", remove_unused_columns=False
    )
    CaryaTrainer(Model(), arguments).train()
    assert seen[:3] == sums(photos, 1)[:3]


@pytest.mark.parametrize("size", [(24, 24), (150, 190)])
def test_resize_is_torchvisions(photos: Path, size: tuple[int, int]) -> None:
    v2 = reference_torchvision.module("transforms.v2")
    for path in sorted(photos.glob("*/*.jpg"))[:12]:
        with Image.open(path) as opened:
            expected = np.asarray(v2.functional.resize(opened.convert("RGB"), list(size), antialias=True), np.int16)
        got = carya.files([path]).decode_image().resize(size)[0]["image"].astype(np.int16)
        difference = np.abs(expected - got)
        assert difference.max() <= 2
        assert (difference > 1).mean() <= 0.001


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_loader_overrides_what_the_contract_names(name: str) -> None:
    from carya._loading.delivery import Delivery

    loader = pytest.importorskip(f"carya.{name}").Loader
    own = {
        key for key in vars(loader) if key.startswith("_") and not key.startswith("__") and hasattr(carya.Loader, key)
    }
    assert own
    assert own <= vars(Delivery).keys()
    assert not own & {key for key in vars(carya.Loader) if not key.startswith("__")}
