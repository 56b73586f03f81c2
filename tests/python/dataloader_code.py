"""Datasets, samples and functions of carya.torch.DataLoader's tests, in a module of their own: what unpickles them imports no
test, and torch only where a sample needs it, which takes each process that is started seconds."""

from __future__ import annotations

import collections
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

Pair = collections.namedtuple("Pair", "data label")


class Items:
    """Samples made by one of the functions below."""

    def __init__(self, count: int, make: Any) -> None:
        self.count, self.make = count, make

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def tensors(i: int) -> Any:
    import torch

    return torch.full((2, 3), float(i)), i


def dicts(i: int) -> Any:
    return {"a": np.arange(3) + i, "b": {"c": float(i), "d": f"text {i}"}, "e": (np.float32(i), bool(i % 2))}


def pairs(i: int) -> Any:
    import torch

    return Pair(torch.tensor([i, i + 1], dtype=torch.int16), np.int64(i))


def lists(i: int) -> Any:
    return [i, i + 0.5], {"names": ["a", "b"]}


def single(i: int) -> Any:
    return np.full((4,), i, np.uint8)


def number(i: int) -> Any:
    return i * 2


def bulk(i: Any) -> Any:
    import torch

    return torch.as_tensor(i)


def strings(i: int) -> Any:
    return f"s{i}", b"bytes"


def of_numbers(i: int) -> Any:
    """What is stacked by Carya, all in one sample."""
    return {"tensors": tensors(i), "pairs": pairs(i), "single": single(i), "number": number(i)}


def of_words(i: int) -> Any:
    """What torch's own `default_collate` makes batches of."""
    return [dicts(i), lists(i), strings(i), pairs(i)]


def halves(i: int) -> Any:
    import torch

    return torch.full((2,), i, dtype=torch.bfloat16)


def collate(samples: list[Any]) -> Any:
    import torch

    return torch.stack([sample[0] for sample in samples]).sum(0), len(samples)


def drawn(i: int) -> Any:
    import torch

    return i, torch.rand(1).item()


def summed(samples: list[int]) -> Any:
    import torch

    return torch.tensor([sum(samples), len(samples)])


def info(i: int) -> Any:
    from torch.utils import data

    worker = data.get_worker_info()
    assert worker is not None
    return worker.id, worker.num_workers, worker.dataset.count


def has_torch(i: int) -> Any:
    return "torch" in sys.modules


def odd_raises(i: int) -> Any:
    if i % 4 == 1:
        raise KeyError(f"no {i}")
    return i


def always_raises(i: int) -> Any:
    raise KeyError(i)


class FailsInWorker:
    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, worker: int) -> None:
        import torch

        assert torch.utils.data.get_worker_info().seed == torch.initial_seed()
        if worker == self.number:
            raise RuntimeError("this start fails")


def slow(i: int) -> Any:
    time.sleep(0.01)
    return i


class Touch:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, worker: int) -> None:
        (Path(self.folder) / str(worker)).touch()


def raises_and_hangs(i: int) -> Any:
    if i == 1:
        raise IndexError("no such row")
    time.sleep(1000 if i == 4 else 0)
    return i


def of_shapes(i: int) -> Any:
    """Three at a time alike."""
    return np.full(1 + i // 3, i, np.float32), i


def of_dtypes(i: int) -> Any:
    return {"x": i if i % 2 else float(i), "y": np.zeros(2, np.int16 if i < 6 else np.int32)}


def of_names(i: int) -> Any:
    return {"a" if i < 3 else "b": i}


def ragged(i: int) -> Any:
    return np.zeros(1 + (i == 4), np.float32)


def ordered(i: int) -> Any:
    return collections.OrderedDict(b=i, a={"c": collections.OrderedDict(d=float(i))})


class Held:
    """What a collate function may make: an object with tensors in it."""

    def __init__(self, samples: list[int]) -> None:
        import torch

        self.tensor = torch.tensor(samples)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and bool((self.tensor == other.tensor).all())

    __hash__ = None  # type: ignore[assignment]


def none_of(samples: list[int]) -> Any:
    return None


def arrays_of(samples: list[int]) -> Any:
    import torch

    return {"array": np.array(samples), "tensor": torch.tensor(samples), "inside": (np.float32(1), [np.zeros(2)])}


def ordered_of(samples: list[int]) -> Any:
    return collections.OrderedDict(z=np.array(samples), a=None)


def array_of(samples: list[int]) -> Any:
    return np.array(samples)
