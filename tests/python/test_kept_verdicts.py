"""What filters keep, and lengths, are found again in the cache folder by everything that decides them, and by nothing less."""

from __future__ import annotations

import json
import operator
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stores import FaultStore

import carya
from carya._stages.identity import content


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(pipeline: carya.Pipeline) -> list[int]:
    with carya.Loader(pipeline.batch(1), threads=1) as loader:
        return [int(batch.records[0]) for batch in loader]


def below_two(sample: Any) -> bool:
    return bool(sample["x"] < 2)


def is_small(value: Any) -> bool:
    return bool(value < 2)


def a_class(limit: int) -> Callable[[Any], bool]:
    """Objects of classes of one name that have other methods."""

    class Below:
        def __call__(self, sample: Any) -> bool:
            return bool(sample["x"] < 2)

    class BelowMore:
        def __call__(self, sample: Any) -> bool:
            return bool(sample["x"] < 4)

    BelowMore.__qualname__ = Below.__qualname__
    return Below() if limit == 2 else BelowMore()


def in_sets(these: set[int], others: set[int]) -> Callable[[Any], bool]:
    return lambda sample: int(sample["x"]) in these and int(sample["x"]) not in others


def by_array(ones: int) -> Callable[[Any], bool]:
    """An array of more than a MiB, of which the middle differs."""
    marks = np.zeros(2_000_000, np.bool_)
    marks[1_000_000 : 1_000_000 + ones] = True
    return lambda sample: bool(marks[1_000_000 + int(sample["x"])])


def by_list(ones: int) -> Callable[[Any], bool]:
    marks = [0] * 15_000 + [1] * ones + [0] * 5_000
    return lambda sample: marks[15_000 + int(sample["x"])] == 1


def by_pattern(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda sample: bool(pattern.match(str(int(sample["x"]))))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (a_class(2), a_class(4)),
        (operator.itemgetter("x"), operator.itemgetter("y")),
        (in_sets({1, 2}, {3}), in_sets({1}, {2, 3})),
        (by_array(2), by_array(3)),
        (by_list(2), by_list(3)),
        (by_pattern(re.compile("1")), by_pattern(re.compile("2"))),
    ],
    ids=["class", "itemgetter", "sets", "array", "list", "pattern"],
)
def test_verdicts_are_those_of_the_filter(
    one: Callable[[Any], bool], other: Callable[[Any], bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = carya.arrays({"x": np.arange(5), "y": np.array([1, 0, 0, 1, 0])})
    first = kept(source.filter(one))
    second = kept(source.filter(other))
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "another"))
    assert second == kept(source.filter(other)) != first


def made(text: str) -> Callable[[Any], bool]:
    """A function of a module that no process can import, as one of a notebook."""
    space: dict[str, Any] = {"__name__": "of_no_module"}
    exec(text, space)
    found: Callable[[Any], bool] = space["keeps"]
    return found


_KEEPS = """
LIMIT = {limit}
def helper(value):
    return value {than} 2
def keeps(sample):
    return any(helper(value) and value < LIMIT for value in [sample["x"]])
"""


def test_verdicts_are_those_of_the_globals_of_the_filter() -> None:
    pytest.importorskip("cloudpickle")
    source = carya.arrays({"x": np.arange(5)})
    for limit, than, expected in ((2, "<", [0, 1]), (1, "<", [0]), (4, ">=", [2, 3])):
        assert kept(source.filter(made(_KEEPS.format(limit=limit, than=than)))) == expected


def lines(path: Path, values: list[int]) -> carya.Pipeline:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"x": value}) + "\n" for value in values))
    return carya.jsonl(path)


def test_verdicts_are_those_of_the_files(tmp_path: Path) -> None:
    """Names and sizes of files are the same, as is the version of the stream, for which a copy elsewhere is as good."""
    for values, expected in (([0, 1, 2, 3], [0, 1]), ([3, 2, 1, 0], [2, 3])):
        assert kept(lines(tmp_path / "a" / "x.jsonl", values).filter(below_two)) == expected
    assert kept(lines(tmp_path / "b" / "x.jsonl", [0, 3, 3, 1]).filter(below_two)) == [0, 3]
    mixed = [lines(tmp_path / "c" / "x.jsonl", [5, 5, 1]).filter(below_two), carya.dataset([{"x": 9}])]
    assert sorted(kept(carya.mix(mixed, seed=None))) == [2, 3]
    mixed[0] = lines(tmp_path / "d" / "x.jsonl", [1, 5, 5]).filter(below_two)
    assert sorted(kept(carya.mix(mixed, seed=None))) == [0, 3]


def is_dark(sample: Any) -> bool:
    return bool(sample["image"].max() < 100)


def test_verdicts_are_those_of_the_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")

    def folder(name: str, values: list[int]) -> carya.Pipeline:
        (tmp_path / name / "c").mkdir(parents=True, exist_ok=True)
        for number, value in enumerate(values):
            image.new("L", (8, 8), value).save(tmp_path / name / "c" / f"{number}.png", compress_level=0)
        return carya.image_folder(tmp_path / name).decode_image().filter(is_dark).resize((8, 8))

    assert kept(folder("a", [0, 200, 0])) == [0, 2]
    assert kept(folder("a", [200, 0, 200])) == [1]
    assert kept(folder("b", [0, 0, 200])) == [0, 1]


def test_verdicts_are_those_of_a_dataset_without_a_version() -> None:
    assert kept(carya.dataset([{"x": value} for value in (0, 1, 2, 3)]).filter(below_two)) == [0, 1]
    assert kept(carya.dataset([{"x": value} for value in (3, 2, 1, 0)]).filter(below_two)) == [2, 3]


def test_verdicts_are_those_of_whole_arrays() -> None:
    array = np.zeros((16, 1_000_000), np.uint8)
    assert len(kept(carya.arrays({"x": array}).filter(lambda sample: not sample["x"].any()))) == 16
    array = array.copy()
    array.reshape(-1)[1_000_003:1_000_006] = 1
    found = kept(carya.arrays({"x": array}).filter(lambda sample: not sample["x"].any()))
    assert found == [0, *range(2, 16)]


class Numbers:
    """Samples of a file of numbers, with states."""

    def __init__(self, rows: list[int]) -> None:
        self.rows, self.at = rows, 0

    def __iter__(self) -> Numbers:
        return self

    def __next__(self) -> dict[str, Any]:
        if self.at >= len(self.rows):
            raise StopIteration
        self.at += 1
        return {"x": np.int64(self.rows[self.at - 1])}

    def state_dict(self) -> dict[str, Any]:
        return {"rest": self.rows[self.at :]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows, self.at = state["rest"], 0


class OfFile:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, shard: int) -> Numbers:
        return Numbers([int(line) for line in Path(self.path).read_text().split()])


def test_lengths_of_shards_are_those_of_the_file_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "numbers.txt"
    for count in (2, 3):
        path.write_text("".join(f"{number}\n" for number in range(count)))
        assert kept(carya.iterable(OfFile(str(path)), shards=1)) == list(range(count))


def test_states_of_iterators_are_those_of_their_data(tmp_path: Path) -> None:
    """A state that another stream of the same function has left is none of this one."""
    path = tmp_path / "numbers.txt"

    def stream(first: int) -> carya.Loader:
        path.write_text("".join(f"{first + number}\n" for number in range(1500)))
        os.utime(path, ns=(first, first))
        return carya.Loader(carya.iterable(OfFile(str(path)), shards=1, lengths=[1500]).batch(100), threads=1)

    state: dict[str, Any] = {}
    for first in (10_000, 50_000):
        with stream(first) as loader:
            for number, _ in enumerate(loader):
                if number == 12 and first == 10_000:
                    state = loader.state_dict()
    with stream(10_000) as loader:
        loader.load_state_dict(state)
        assert int(next(iter(loader))["x"][0]) == 11_300


_TOLD = """
import re, sys
sys.path.insert(0, {folder!r})
import numpy as np
import module_of_a_user as given
from carya._stages.identity import content
print(content(given.keeps), content(given.Of({{"b", "a", "c"}})), content([re.compile("a"), np.arange(3), {{1: (2.5, None)}}]))
"""
_MODULE = """
import enum, functools, json, logging, pathlib
import numpy as np
log = logging.getLogger("a")
WORDS = {"one", "two", "three", "four"}
class Kind(enum.Enum):
    A = 1
class Of:
    __slots__ = ("words", "__own")
    def __init__(self, words):
        self.words, self.__own = words, pathlib.Path("/a")
    @property
    def first(self):
        return min(self.words)
@functools.lru_cache(8)
def helper(value):
    log.debug("%s", value)
    return json.dumps(value) in WORDS and Kind.A
def keeps(sample):
    return helper(str(sample)) and np.mean([1, 2]) > 1 and Of(WORDS).first
"""


def test_the_same_name_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "module_of_a_user.py").write_text(_MODULE)
    names = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", _TOLD.format(folder=str(tmp_path))],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        names.add(done.stdout)
    assert len(names) == 1
    assert "None" not in names.pop()


def test_what_cannot_be_told_is_asked_anew(cache: Path) -> None:
    """Of a function that holds what is too deep to be looked into nothing is kept."""
    assert content(np.frompyfunc(is_small, 1, 1)) is None
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    assert kept(carya.arrays({"x": np.arange(4)}).filter(lambda sample: len(deep) == 1)) == [0, 1, 2, 3]
    assert not (cache / "filters").exists()


def test_what_is_kept_is_found(tmp_path: Path, cache: Path) -> None:
    """One file of verdicts, however often the same is asked."""
    for _ in range(2):
        lines_of = (
            carya.jsonl(tmp_path / "x.jsonl")
            if (tmp_path / "x.jsonl").exists()
            else lines(tmp_path / "x.jsonl", [0, 5])
        )
        kept(lines_of.filter(below_two))
        assert len(list((cache / "filters").iterdir())) == 1


def test_verdicts_are_those_of_the_objects(cache: Path) -> None:
    """Objects that are overwritten by others of the same size."""

    def raw(values: list[int]) -> dict[str, bytes]:
        return {f"/bucket/{number}.raw": bytes([value] * 64) for number, value in enumerate(values)}

    def found(store: FaultStore) -> list[int]:
        urls = [store.url + path for path in sorted(store.objects)]
        return kept(carya.files(urls).decode_raw("uint8", (64,)).filter(is_dark))

    with FaultStore(raw([0, 200, 0])) as store:
        assert found(store) == [0, 2]
        store.objects.update(raw([200, 0, 200]))
        assert found(store) == [1]
        assert found(store) == [1]
        assert len(list((cache / "filters").iterdir())) == 2
