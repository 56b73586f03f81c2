"""Functions and datasets as users write them: in a module that worker processes can import."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Squares:
    """Samples {"x": [i, i], "y": i * i}; `marks` is a folder for what tests want to count."""

    def __init__(self, count: int, marks: str | None = None) -> None:
        self.count, self.marks = count, marks

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return {"x": np.full(2, index, np.float32), "y": index * index}


def last_digit(sample: dict[str, Any]) -> int:
    return int(sample["y"]) % 10


def drawn_label(sample: dict[str, Any], rng: np.random.Generator) -> float:
    return int(sample["y"]) + float(rng.random())


class Pairs(Squares):
    def __getitem__(self, index: int) -> Any:
        return np.full((2, 3), index, np.int16), index % 10


class Point(NamedTuple):
    left: float
    right: int


@dataclasses.dataclass
class Record:
    image: np.ndarray
    point: Point
    name: str
    weight: float


class Records(Squares):
    def __getitem__(self, index: int) -> Any:
        return Record(np.full((4, 4), index, np.uint8), Point(index / 2, -index), f"name {index}", np.float16(index))


class Texts(Squares):
    """Text of several lengths, and tokens of several lengths."""

    def __getitem__(self, index: int) -> Any:
        return {"text": "a" * (index % 7), "tokens": np.arange(index % 5 + 1), "label": index}


class Shrinking(Squares):
    """Lies about its length from the second process on."""

    def __len__(self) -> int:
        return self.count - (os.environ.get("CARYA_TEST_TRAINER") != str(os.getpid()))


class Early(Squares):
    """Has fewer records than it says."""

    def __getitem__(self, index: int) -> Any:
        if index >= self.count - 2:
            raise IndexError("no such row")
        return super().__getitem__(index)


class OpenFile(Squares):
    """Opens a file when it is unpickled, and reads records at its position."""

    def __init__(self, path: str, count: int) -> None:
        super().__init__(count)
        self.path = path
        self.file = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self.file = open(self.path, "rb")  # noqa: SIM115

    def __getitem__(self, index: int) -> Any:
        assert self.file is not None
        self.file.seek(8 * index)
        time.sleep(0.0005)
        return {"x": int.from_bytes(self.file.read(8), "little")}


class Locked(Squares):
    """Cannot be pickled."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.lock = threading.Lock()


def noisy(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**sample, "noise": rng.random(3)}


def old_fashioned(sample: dict[str, Any]) -> dict[str, Any]:
    """Random numbers of the global generators."""
    return {**sample, "a": np.array([random.random(), np.random.rand()])}  # noqa: NPY002


def with_torch(sample: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {**sample, "t": torch.rand(2)}


class DrawsTorch(Squares):
    """A dataset that imports torch at its first sample, and draws from it."""

    def __getitem__(self, index: int) -> Any:
        return with_torch({"x": index})


def draws_torch(shard: int, *, start: int = 0) -> Any:
    """Samples of a shard, the first of which imports torch."""
    for i in range(start, 6):
        yield with_torch({"x": 10 * shard + i})


def same(sample: Any) -> Any:
    return sample


def with_text(sample: dict[str, Any]) -> dict[str, Any]:
    label = int(sample["label"])
    return {**sample, "text": f"label {label}", "boxes": np.zeros((label, 4), np.float32)}


def broken_label_2(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["label"] == 2:
        raise ValueError("label 2")
    return sample


class Plus:
    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        return {**sample, "y": sample["y"] + self.by}


class Pictures:
    def __init__(self, pictures: np.ndarray) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": self.pictures[index], "label": index}


def double(x: np.ndarray) -> np.ndarray:
    return x * 2


def even(sample: dict[str, Any]) -> bool:
    return bool(sample["y"] % 2 == 0)


def picky(sample: dict[str, Any]) -> bool:
    if sample["y"] == 9:
        raise ValueError("nine is neither")
    return even(sample)


def never(sample: Any) -> bool:
    return False


class TroubleError(ValueError):
    """A user's own exception with a constructor of its own."""

    def __init__(self, index: int, what: str) -> None:
        super().__init__(index, what)
        self.index = index


class UnpicklableError(ValueError):
    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.handle = threading.Lock()

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


def written(x: Any) -> Any:
    x += 1
    return x


class Returning:
    """A text for each sample, and for that of one record what cannot leave a process."""

    def __init__(self, what: str, record: int) -> None:
        self.what, self.record = what, record

    def __call__(self, index: int) -> Any:
        if index != self.record:
            return f"text {index}"
        return open(__file__) if self.what == "file" else (i for i in range(3))


class Doing:
    """Does something bad on some records; `once` is a file that says that it was done."""

    def __init__(self, what: str, records: tuple[int, ...], once: str | None = None) -> None:
        self.what, self.records, self.once = what, records, once

    def __call__(self, sample: dict[str, Any]) -> Any:
        index = int(sample["x"].reshape(-1)[0])
        if index not in self.records:
            return sample
        if self.once is not None:
            try:
                Path(self.once).touch(exist_ok=False)
            except FileExistsError:
                return sample
        return getattr(self, self.what)(sample, index)

    def value_error(self, sample: Any, index: int) -> Any:
        raise ValueError(f"bad record {index}")

    def own_error(self, sample: Any, index: int) -> Any:
        raise TroubleError(index, "own")

    def unpicklable(self, sample: Any, index: int) -> Any:
        raise UnpicklableError(index)

    def os_error(self, sample: Any, index: int) -> Any:
        raise FileNotFoundError(2, "gone", "/nowhere")

    def memory_error(self, sample: Any, index: int) -> Any:
        raise MemoryError

    def stop_iteration(self, sample: Any, index: int) -> Any:
        raise StopIteration

    def exits(self, sample: Any, index: int) -> Any:
        sys.exit(3)

    def ends(self, sample: Any, index: int) -> Any:
        os._exit(7)

    def kills(self, sample: Any, index: int) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def crashes(self, sample: Any, index: int) -> Any:
        import ctypes

        ctypes.string_at(0)

    def hangs(self, sample: Any, index: int) -> Any:
        time.sleep(1000)

    def hangs_in_c(self, sample: Any, index: int) -> Any:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        time.sleep(1000)

    def other_shape(self, sample: Any, index: int) -> Any:
        return {**sample, "x": np.zeros(5, np.float32)}

    def other_dtype(self, sample: Any, index: int) -> Any:
        return {**sample, "x": sample["x"].astype(np.float64)}

    def other_object(self, sample: Any, index: int) -> Any:
        return {**sample, "x": "text"}

    def fewer(self, sample: Any, index: int) -> Any:
        return {"y": sample["y"]}

    def more(self, sample: Any, index: int) -> Any:
        return {**sample, "z": 1}

    def nothing(self, sample: Any, index: int) -> Any:
        return None

    def forks(self, sample: Any, index: int) -> Any:
        if (pid := os.fork()) != 0:
            os.waitpid(pid, 0)
        return sample

    def leaves_a_child(self, sample: Any, index: int) -> Any:
        import subprocess

        subprocess.Popen(["sleep", "1000"])
        return sample

    def starts_a_thread(self, sample: Any, index: int) -> Any:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        return sample

    def prints(self, sample: Any, index: int) -> Any:
        print(f"printed {index}")
        return sample

    def closes_stdout(self, sample: Any, index: int) -> Any:
        sys.stdout.close()
        return sample

    def writes_input(self, sample: Any, index: int) -> Any:
        sample["x"][...] = 7
        return sample


class Keeping:
    """Keeps what it was given and what it returned, and writes into both later."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self.buffer = np.zeros(2, np.float32)

    def __call__(self, sample: dict[str, Any]) -> Any:
        for array in self.kept:
            if array.flags.writeable:
                array[...] = -1
        self.buffer[...] = sample["x"]  # one buffer for all samples
        self.kept = [sample["x"], self.buffer]
        return {**sample, "x": self.buffer}


class Leaking:
    """Keeps memory."""

    kept: list[bytearray] = []  # noqa: RUF012

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, sample: Any) -> Any:
        self.kept.append(bytearray(b"x" * self.size))
        return sample


class Sleeping:
    """Takes its time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, sample: Any) -> Any:
        time.sleep(self.seconds)
        return sample


def pid_of(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "pid": os.getpid()}


def padded(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """A collate function as of a tokenizer: pads to the longest of the batch."""
    longest = max(len(sample["tokens"]) for sample in samples)
    tokens = np.zeros((len(samples), longest), np.int64)
    for row, sample in enumerate(samples):
        tokens[row, : len(sample["tokens"])] = sample["tokens"]
    return {"tokens": tokens, "text": [sample["text"] for sample in samples]}


def as_tuple(samples: list[Any]) -> Any:
    return np.stack([sample["x"] for sample in samples]), [sample["y"] for sample in samples]


def as_tensors(samples: list[Any]) -> Any:
    import torch

    return {"x": torch.stack([torch.from_numpy(sample["x"]) for sample in samples])}


def scaled(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"x": batch["x"] / 2, "total": batch["y"].sum(keepdims=True)}


def shuffled_batch(batch: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: array[rng.permutation(len(array))] for name, array in batch.items()}


def forgets(sample: Any) -> None:
    """Without its return."""
    sample["x"] * 2


class Ragged:
    """Token lists of several lengths, of 0 to 12; `weights` has as many rows."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.lengths = np.random.default_rng(seed).integers(0, 13, count)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        count = int(self.lengths[index])
        return {
            "tokens": np.arange(count) + 100 * index,
            "weights": np.full((count, 2), index, np.float32),
            "label": index,
        }


class HeavyTailed(Squares):
    """Arrays of one element, and now and then one of many, all of them their record's number."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"ids": np.full(1 if index % 20 else 1 + index * 7919 % 4000, index)}


def words(sample: dict[str, Any]) -> Any:
    """The tokens of a sample one by one: none, one or many."""
    for token in sample["tokens"]:
        yield {"token": token, "label": sample["label"]}


def views(sample: dict[str, Any], rng: np.random.Generator) -> list[Any]:
    """As many samples as tokens, with random numbers."""
    return [{"token": token, "random": rng.random()} for token in sample["tokens"]]


def token_count(sample: dict[str, Any]) -> int:
    return len(sample["tokens"])


def many_labels(sample: dict[str, Any]) -> bool:
    return bool(sample["label"] % 3)


class Unsteady:
    """Makes another number of samples each time."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, sample: dict[str, Any]) -> list[Any]:
        if sample["label"] != 5:
            return [sample["label"]]
        with (Path(self.folder) / "calls").open("a") as file:
            file.write("x")
        return [5] * (Path(self.folder) / "calls").stat().st_size


def nothing(sample: Any) -> list[Any]:
    return []


def none(sample: Any) -> None:
    """A function that forgot its return."""


class Counting:
    """A shard of numbers: shard s has `lengths[s]` samples {"x": 1000 s + o, "r": a random number}. `what` happens at `at`."""

    def __init__(self, lengths: list[int], what: str = "", at: tuple[int, int] = (-1, -1), once: str = "") -> None:
        self.lengths, self.what, self.at, self.once = lengths, what, at, once

    def __call__(self, shard: int) -> Any:
        for offset in range(self.lengths[shard]):
            if (shard, offset) == self.at:
                self.do()
            yield {"x": 1000 * shard + offset, "r": random.random()}

    def do(self) -> None:
        if self.once:
            try:
                Path(self.once).touch(exist_ok=False)
            except FileExistsError:
                return
        if self.what == "raise":
            raise ValueError("a bad sample")
        if self.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.what == "hang":
            time.sleep(1000)


class Seeking(Counting):
    """The same, which can begin anywhere; `marks` is a file that gets a byte for each sample that was made."""

    def __init__(self, lengths: list[int], marks: str) -> None:
        super().__init__(lengths)
        self.marks = marks

    def __call__(self, shard: int, *, epoch: int, start: int = 0) -> Any:
        for offset in range(start, self.lengths[shard]):
            with open(self.marks, "ab") as file:
                file.write(b".")
            yield {"x": 1000 * shard + offset + 100_000 * epoch}


class Numbers(Squares):
    """Samples like those of Counting."""

    def __getitem__(self, index: int) -> Any:
        return {"x": -index, "r": random.random()}


class Slow(Counting):
    """A shard of numbers that takes its time for each."""

    def __init__(self, count: int, seconds: float) -> None:
        super().__init__([count])
        self.seconds = seconds

    def __call__(self, shard: int) -> Any:
        for sample in super().__call__(shard):
            time.sleep(self.seconds)
            yield sample


class StatefulIterator:
    """Numbers below `count`, with states of its own."""

    def __init__(self, count: int) -> None:
        self.count, self.at = count, 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if self.at >= self.count:
            raise StopIteration
        self.at += 1
        return {"x": self.at - 1}

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


class StatefulIterable(StatefulIterator):
    """The same, whose iterators are generators: the states are the object's, as those of Hugging Face's datasets."""

    def __iter__(self) -> Any:
        while self.at < self.count:
            self.at += 1
            yield {"x": self.at - 1}


class Of:
    """A shard that is an object of a class."""

    def __init__(self, kind: Any, count: int) -> None:
        self.kind, self.count = kind, count

    def __call__(self, shard: int) -> Any:
        return self.kind(self.count)


def with_name(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "name": f"number {sample['x']}"}


def no_third(sample: dict[str, Any]) -> bool:
    return bool(sample["x"] % 3)


def a_text(shard: int) -> str:
    return "text"


def refuses(shard: int) -> Any:
    raise ValueError("no such shard")


def several_shapes(shard: int) -> Any:
    yield {"x": np.zeros(2)}
    yield {"x": np.zeros(3)}


def forever(shard: int) -> Any:
    number = 0
    while True:
        yield number
        number += 1


def no_argument() -> Any:
    return []


class Squared(Counting):
    """Shards of samples like those of Squares."""

    def __call__(self, shard: int) -> Any:
        for offset in range(self.lengths[shard]):
            index = 100 * shard + offset
            yield {"x": np.full(2, index, np.float32), "y": index * index}


class CountedEven:
    """A predicate; `path` gets a byte for each call."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, sample: Any) -> bool:
        with open(self.path, "ab") as file:
            file.write(b".")
        return even(sample)


def larger(image: Any) -> Any:
    """Of bfloat16, and one more. It is here and not beside its tests, with which a host would import torch."""
    assert image.dtype.name == "bfloat16"
    return image + image.dtype.type(1)


def to_bfloat16(image: Any) -> Any:
    import ml_dtypes

    return image.astype(ml_dtypes.bfloat16)
