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


def transformers_steps(
    steps: int, folder: Path, resume: bool = False, slots: Any = "auto", **options: Any
) -> list[list[int]]:
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

    with carya.torch.Loader(rows(), slots=slots) as train, carya.torch.Loader(rows(12)) as validation:

        class Trainer(transformers.Trainer):  # type: ignore[misc,name-defined]
            def get_train_dataloader(self) -> Any:
                return train

            def get_eval_dataloader(self, _: Any = None) -> Any:
                return validation

        arguments = transformers.TrainingArguments(
            output_dir=str(folder), max_steps=steps, save_steps=7, eval_strategy="epoch", report_to=[], use_cpu=True,
            disable_tqdm=True, per_device_train_batch_size=4, **options,
        )  # fmt: skip
        trainer = Trainer(model=Model(), args=arguments, train_dataset=train.dataset, eval_dataset=validation.dataset)
        trainer.train(resume_from_checkpoint=resume)
    return seen


def test_the_trainer_of_transformers_evaluates_and_resumes_inside_an_epoch(tmp_path: Path) -> None:
    whole = stream(3)
    assert transformers_steps(14, tmp_path) == whole[:14]
    assert transformers_steps(25, tmp_path, resume=True) == whole[14:25]


def test_the_trainer_of_transformers_accumulates_with_the_slots_that_its_guide_names(tmp_path: Path) -> None:
    steps = 8
    seen = transformers_steps(2, tmp_path, slots=2 * steps + 2, gradient_accumulation_steps=steps)
    assert seen == stream(1), "the last step of an epoch is a shorter one"


def test_accelerate_skips_the_first_batches() -> None:
    import accelerate

    whole = stream(2)
    accelerator = accelerate.Accelerator(cpu=True)
    with carya.torch.Loader(rows()) as loader:
        prepared = accelerator.prepare(loader)
        seen = [batch["labels"].tolist() for batch in accelerate.skip_first_batches(prepared, 4)]
        assert seen == whole[4:10]
        assert [batch["labels"].tolist() for batch in prepared] == whole[10:]


def lightning_run(loaders: Any, resume: Path | None = None, save: Path | None = None, **options: Any) -> list[Any]:
    """The labels that each step of a Lightning run had, of one loader or of each of several."""
    import lightning

    seen: list[Any] = []

    class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(WEIGHTS, 3)

        def training_step(self, batch: Any, _: int) -> Any:
            several = "x" not in batch
            seen.append(
                {name: one["labels"].tolist() for name, one in batch.items()} if several else batch["labels"].tolist()
            )
            return self.layer((next(iter(batch.values())) if several else batch)["x"]).mean()

        def validation_step(self, batch: Any, _: int) -> None:
            pass

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    class Saved(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if save is not None:
                trainer.save_checkpoint(save / f"{trainer.global_step}.ckpt")

    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    trainer = lightning.Trainer(accelerator="cpu", callbacks=[Saved()], **quiet, **options)
    how = {} if resume is None else {"ckpt_path": resume, "weights_only": False}
    trainer.fit(Model(), loaders, **how)
    if save is not None:
        trainer.save_checkpoint(save / "end.ckpt")
    return seen


def test_lightning_resumes_with_limited_epochs(tmp_path: Path) -> None:
    """An epoch that `limit_train_batches` ended is done; its rest is not asked for, and the next one has all its steps."""
    whole = stream(3)
    wanted = whole[:6] + whole[10:16] + whole[20:26]
    with carya.torch.Loader(rows()) as loader:
        assert lightning_run(loader, save=tmp_path, max_epochs=2, limit_train_batches=6) == wanted[:12]
    for step in (4, 6, 9, 12):
        with carya.torch.Loader(rows()) as loader:
            rest = lightning_run(loader, tmp_path / f"{step}.ckpt", max_epochs=3, limit_train_batches=6)
        assert wanted[:step] + rest == wanted


def test_lightning_may_be_stopped_inside_of_several_epochs(tmp_path: Path) -> None:
    """Each `max_steps` inside of an epoch sets its count of epochs one more ahead."""
    seen: list[Any] = []
    for steps in (14, 24, 35):
        with carya.torch.Loader(rows()) as loader:
            seen += lightning_run(loader, tmp_path / "end.ckpt" if seen else None, tmp_path, max_steps=steps)
    assert seen == stream(4)[:35]


def test_another_trainer_begins_with_a_loader_that_was_restored(tmp_path: Path) -> None:
    with carya.torch.Loader(rows()) as loader:
        lightning_run(loader, save=tmp_path, max_steps=14)
    with carya.torch.Loader(rows()) as loader:
        lightning_run(loader, tmp_path / "end.ckpt", max_steps=22)
        assert lightning_run(loader, max_epochs=1) == stream(1)


def test_lightning_resumes_loaders_of_two_lengths(tmp_path: Path) -> None:
    """The shorter is begun anew inside of an epoch of Lightning's."""

    def run(**options: Any) -> list[Any]:
        with carya.torch.Loader(rows()) as long, carya.torch.Loader(rows(20)) as short:
            return lightning_run({"long": long, "short": short}, max_epochs=2, **options)

    whole = run(save=tmp_path)
    assert [one["long"] for one in whole] == stream(2)
    for step in (3, 5, 7, 10, 13, 18):
        assert whole[:step] + run(resume=tmp_path / f"{step}.ckpt") == whole


def test_lightning_overfits_the_first_batches_of_what_is_not_shuffled() -> None:
    data = {"x": np.zeros((40, WEIGHTS), np.float32), "labels": np.arange(40)}
    with carya.torch.Loader(carya.arrays(data).batch(4)) as loader:
        seen = lightning_run(loader, max_epochs=3, overfit_batches=2)
        assert isinstance(loader.sampler, torch.utils.data.SequentialSampler)
        assert len(loader.sampler) == 40
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7]] * 3
    with carya.torch.Loader(rows()) as loader:
        assert not isinstance(loader.sampler, torch.utils.data.SequentialSampler)


class Items(torch.utils.data.Dataset):  # type: ignore[type-arg,misc]
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.zeros(WEIGHTS), "labels": index}


def loader_of_items(workers: int, **options: Any) -> Any:
    return carya.torch.DataLoader(
        Items(), 4, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(3), **options
    )


@pytest.mark.parametrize("workers", [0, 1])
def test_lightning_resumes_a_dataloader_behind_the_last_batch_of_an_epoch(workers: int, tmp_path: Path) -> None:
    """The rest of that epoch is empty, and Lightning asks for a whole one."""
    loader = loader_of_items(workers)
    whole = lightning_run(loader, max_epochs=3, save=tmp_path)
    loader.close()
    for first in (0, 6, 12):
        assert sorted(label for labels in whole[first : first + 6] for label in labels) == list(range(24))
    for step in (6, 8):
        loader = loader_of_items(workers)
        assert whole[:step] + lightning_run(loader, tmp_path / f"{step}.ckpt", max_epochs=3) == whole
        loader.close()


class Unmeasured(torch.utils.data.IterableDataset):  # type: ignore[type-arg,misc]
    """Without a length: Lightning takes one batch ahead of the model."""

    def __iter__(self) -> Any:
        yield from ({"x": torch.zeros(WEIGHTS), "labels": label} for label in range(24))


def of_no_length(kind: str) -> Any:
    items = Unmeasured() if "iterable" in kind else Items()
    sampler = None
    if kind == "sampler":
        sampler = type("Sampler", (), {"__iter__": lambda _: iter(range(24))})()
    return carya.torch.DataLoader(items, 4, sampler=sampler, num_workers=int(kind == "iterable by a worker"))


@pytest.mark.parametrize("kind", ["iterable", "iterable by a worker", "sampler"])
def test_lightning_loses_no_batch_of_what_has_no_length(kind: str, tmp_path: Path) -> None:
    loader = of_no_length(kind)
    whole = lightning_run(loader, max_epochs=2, save=tmp_path)
    assert whole == [[*range(first, first + 4)] for _ in range(2) for first in range(0, 24, 4)]
    loader.close()
    for step in (1, 5, 6, 7):
        loader = of_no_length(kind)
        assert whole[:step] + lightning_run(loader, tmp_path / f"{step}.ckpt", max_epochs=2) == whole, step
        loader.close()
    (tmp_path / "behind").mkdir()
    loader = of_no_length(kind)
    seen = lightning_run(loader, max_steps=4, save=tmp_path / "behind")  # saved behind `fit` too
    loader.close()
    loader = of_no_length(kind)
    assert seen + lightning_run(loader, tmp_path / "behind" / "end.ckpt", max_steps=6) == whole[:6]
    loader.close()


def test_lightning_loses_no_batch_of_a_loader_beside_one_without_a_length(tmp_path: Path) -> None:
    def run(**options: Any) -> list[Any]:
        other = of_no_length("iterable")
        with carya.torch.Loader(rows(24)) as loader:
            found = lightning_run({"ours": loader, "other": other}, max_epochs=2, **options)
        other.close()
        return found

    whole = run(save=tmp_path)
    assert len(whole) == 12
    for step in (2, 5, 8):
        assert whole[:step] + run(resume=tmp_path / f"{step}.ckpt") == whole, step


def test_batches_of_a_dataloader_that_are_skipped_are_those_that_it_gave() -> None:
    """Accelerate, and so the Trainer of Transformers, makes another loader of the sampler of this one."""
    import accelerate

    first = loader_of_items(1)
    whole = [[batch["labels"].tolist() for batch in first] for _ in range(3)]
    first.close()
    second = loader_of_items(1)
    second.set_epoch(1)
    assert isinstance(second.sampler, torch.utils.data.RandomSampler)
    assert [batch["labels"].tolist() for batch in accelerate.skip_first_batches(second, 2)] == whole[1][2:]
    second.set_epoch(2)
    assert [batch["labels"].tolist() for batch in second] == whole[2]
    second.close()
    assert sorted(second.sampler) == list(range(24))
