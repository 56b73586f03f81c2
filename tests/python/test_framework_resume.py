"""Lightning, Transformers and Accelerate with the real packages: validation and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya

torch = pytest.importorskip("torch")
import carya.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
WEIGHTS = 8


def rows(count: int = 40) -> carya.Pipeline:
    data = np.random.default_rng(0).random((count, WEIGHTS), np.float32)
    return carya.arrays({"x": data, "labels": np.arange(count) % 3}).shuffle(seed=1).batch(4, drop_last=True)


def stream(epochs: int) -> list[list[int]]:
    """The labels of each step."""
    with carya.torch.Loader(rows(), epochs=epochs) as loader:
        return [batch["labels"].tolist() for _ in range(epochs) for batch in loader]


def lightning_steps(steps: int, folder: Path, resume: bool = False) -> list[list[int]]:
    """What a model saw of the stream until step `steps`; its checkpoint is left in the folder."""
    import lightning

    seen: list[list[int]] = []

    class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(WEIGHTS, 3)

        def training_step(self, batch: Any, _: int) -> Any:
            seen.append(batch["labels"].tolist())
            return torch.nn.functional.cross_entropy(self.layer(batch["x"]), batch["labels"])

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("loss", self.layer(batch["x"]).mean(), batch_size=len(batch["labels"]))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(
        max_steps=steps, accelerator="cpu", default_root_dir=folder, enable_checkpointing=False, **quiet
    )
    checkpoint = folder / "last.ckpt"
    with carya.torch.Loader(rows()) as train, carya.torch.Loader(rows(12)) as validation:
        how = {"ckpt_path": checkpoint, "weights_only": False} if resume else {}
        trainer.fit(Model(), train, validation, **how)
        trainer.save_checkpoint(checkpoint)
    return seen


def test_lightning_fits_validates_and_resumes(tmp_path: Path) -> None:
    first = lightning_steps(20, tmp_path)
    second = lightning_steps(30, tmp_path, resume=True)
    assert first + second == stream(3)


def test_lightning_resumes_after_max_steps_inside_an_epoch(tmp_path: Path) -> None:
    whole = stream(4)
    assert lightning_steps(14, tmp_path) == whole[:14]
    assert lightning_steps(34, tmp_path, resume=True) == whole[14:34]


def transformers_steps(steps: int, folder: Path, resume: bool = False) -> list[list[int]]:
    import transformers

    seen: list[list[int]] = []

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(WEIGHTS, 3)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            if self.training:
                seen.append(labels.tolist())
            logits = self.layer(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    with carya.torch.Loader(rows()) as train, carya.torch.Loader(rows(12)) as validation:

        class Trainer(transformers.Trainer):  # type: ignore[misc,name-defined]
            def get_train_dataloader(self) -> Any:
                return train

            def get_eval_dataloader(self, _: Any = None) -> Any:
                return validation

        arguments = transformers.TrainingArguments(
            output_dir=str(folder), max_steps=steps, save_steps=7, eval_strategy="epoch", report_to=[], use_cpu=True,
            disable_tqdm=True, per_device_train_batch_size=4,
        )  # fmt: skip
        trainer = Trainer(model=Model(), args=arguments, train_dataset=train.dataset, eval_dataset=validation.dataset)
        trainer.train(resume_from_checkpoint=resume)
    return seen


def test_the_trainer_of_transformers_evaluates_and_resumes_inside_an_epoch(tmp_path: Path) -> None:
    whole = stream(3)
    assert transformers_steps(14, tmp_path) == whole[:14]
    assert transformers_steps(25, tmp_path, resume=True) == whole[14:25]


def test_accelerate_skips_the_first_batches() -> None:
    import accelerate

    whole = stream(2)
    accelerator = accelerate.Accelerator(cpu=True)
    with carya.torch.Loader(rows()) as loader:
        prepared = accelerator.prepare(loader)
        seen = [batch["labels"].tolist() for batch in accelerate.skip_first_batches(prepared, 4)]
        assert seen == whole[4:10]
        assert [batch["labels"].tolist() for batch in prepared] == whole[10:]
