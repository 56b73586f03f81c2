"""`carya.torch.DataLoader` has the arguments of torch's, and refuses what torch refuses, in torch's words."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest

import carya

torch = pytest.importorskip("torch")
data = torch.utils.data

from dataloader_code import Items, number  # noqa: E402

from carya.torch import DataLoader  # noqa: E402

# Each argument of torch's, and where the tests are of what it means here. One that is not in the list is of a newer torch: say what it
# means here, refuse it, or hand it on.
KNOWN = {
    "dataset": "test_dataloader.py",
    "batch_size": "test_dataloader.py",
    "shuffle": "test_dataloader.py",
    "sampler": "test_dataloader.py, test_dataloader_orders.py",
    "batch_sampler": "test_dataloader.py",
    "num_workers": "test_dataloader.py, test_dataloader_here.py",
    "collate_fn": "test_dataloader_forms.py",
    "pin_memory": "test_cuda.py",
    "drop_last": "test_dataloader.py",
    "timeout": "test_dataloader.py",
    "worker_init_fn": "test_dataloader.py",
    "multiprocessing_context": "below",
    "generator": "test_dataloader.py",
    "prefetch_factor": "test_dataloader.py",
    "persistent_workers": "test_dataloader.py, test_iterable_dataset.py",
    "pin_memory_device": "below",
    "in_order": "below, test_iterable_dataset.py",
}
LATER = {"in_order"}  # than the oldest torch that is taken: handed on by name


def parameters(of: Any) -> dict[str, inspect.Parameter]:
    return {name: one for name, one in inspect.signature(of.__init__).parameters.items() if name != "self"}


def test_every_argument_of_torchs_is_known_stands_at_its_place_and_has_its_default() -> None:
    theirs, ours = parameters(data.DataLoader), parameters(DataLoader)
    assert not theirs.keys() - KNOWN.keys(), "of a newer torch"
    said = DataLoader.__doc__ or ""
    for name, one in theirs.items():
        assert name in said, f"{name} is in no line of the documentation"
        if name not in LATER:
            assert (ours[name].kind, ours[name].default) == (one.kind, one.default), name
    names = [name for name in ours if name != "others"]
    assert names == [name for name in theirs if name not in LATER], "the same order, for arguments without a name"


class Endless(data.IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(3))


MAPPED: list[dict[str, Any]] = [
    {"num_workers": -1},
    {"timeout": -1},
    {"prefetch_factor": 2},
    {"prefetch_factor": -1, "num_workers": 1},
    {"prefetch_factor": 3, "num_workers": 1},
    {"persistent_workers": True},
    {"persistent_workers": True, "num_workers": 1},
    {"multiprocessing_context": "fork"},
    {"multiprocessing_context": "fork", "num_workers": 1},
    {"multiprocessing_context": "spawn", "num_workers": 1},
    {"multiprocessing_context": "no such", "num_workers": 1},
    {"multiprocessing_context": 5, "num_workers": 1},
    {"shuffle": True, "sampler": [0]},
    {"shuffle": False, "sampler": [0]},
    {"batch_sampler": [[0]], "shuffle": True},
    {"batch_sampler": [[0]], "batch_size": 2},
    {"batch_sampler": [[0]], "sampler": [0]},
    {"batch_sampler": [[0]], "drop_last": True},
    {"batch_size": None, "drop_last": True},
    {"batch_size": None, "shuffle": True},
    {"batch_size": 0},
    {"batch_size": -1},
    {"batch_size": 2.0},
    {"batch_size": True},
    {"batch_size": "2"},
    {"drop_last": 1},
    {"generator": 5, "shuffle": True},
    {"in_order": False, "num_workers": 1},
    {"in_order": False},
    {"pin_memory": False, "pin_memory_device": "cuda"},
    {"hue": 3},
    {"collate_fn": None, "worker_init_fn": None},
]
ITERABLE: list[dict[str, Any]] = [
    {"shuffle": True},
    {"shuffle": False},
    {"sampler": [0]},
    {"batch_sampler": [[0]]},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 0},
    {"persistent_workers": True},
]


def told(kind: Any, dataset: Any, options: dict[str, Any]) -> Any:
    """The attributes of a loader, or the error in place of one, with the warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            loader = kind(dataset, **options)
        except Exception as error:
            return type(error), str(error).replace("DataLoader.__init__", "__init__"), len(warned)
    names = (
        "batch_size",
        "num_workers",
        "drop_last",
        "timeout",
        "pin_memory",
        "pin_memory_device",
        "prefetch_factor",
        "in_order",
    )
    found = [getattr(loader, name, None) for name in (*names, "persistent_workers", "generator")]
    context = getattr(loader.multiprocessing_context, "_name", None)
    return found, context, isinstance(loader.sampler, data.RandomSampler), type(loader.batch_sampler), len(warned)


@pytest.mark.parametrize(
    ("dataset", "options"),
    [(Items(4, number), options) for options in MAPPED]
    + [(Endless(), options) for options in ITERABLE]
    + [([], {"shuffle": True}), ([], {}), (5, {}), (iter([1]), {})],
    ids=lambda given: repr(given) if isinstance(given, dict) else type(given).__name__,
)
def test_the_constructor_takes_and_refuses_what_torchs_does(dataset: Any, options: dict[str, Any]) -> None:
    assert told(DataLoader, dataset, options) == told(data.DataLoader, dataset, options)


@pytest.mark.parametrize("options", [{"in_order": False}, {"multiprocessing_context": "spawn"}])
def test_what_decides_nothing_here_changes_no_batch(options: dict[str, Any]) -> None:
    loader = DataLoader(Items(9, number), 2, num_workers=2, **options)
    assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in data.DataLoader(Items(9, number), 2)]
    loader.close()


def test_an_argument_of_a_newer_torch_is_refused_where_carya_makes_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    of_today = data.DataLoader.__init__

    def of_tomorrow(self: Any, *given: Any, hue: int = 0, **named: Any) -> None:
        of_today(self, *given, **named)

    monkeypatch.setattr(data.DataLoader, "__init__", of_tomorrow)
    assert DataLoader(Items(4, number), num_workers=1, hue=0).engine == "carya"
    assert next(iter(DataLoader(Items(4, number), 4, hue=3))).tolist() == [0, 2, 4, 6]
    with pytest.raises(carya.Unsupported, match=r"hue=3: this version of carya does not know .*; leave it out"):
        DataLoader(Items(4, number), num_workers=1, hue=3)
