"""A function that writes into its sample changes that sample only: not what the dataset keeps, and none beside it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import writing_code as code

import carya
from carya._stages.tree import own

COUNT = 20


def listed() -> list[dict[str, Any]]:
    return [{"x": np.full(4, number, np.float64), "seen": [0] * number} for number in range(COUNT)]


def values(pipeline: carya.Pipeline, threads: int) -> list[list[Any]]:
    """Of two epochs."""
    with carya.Loader(pipeline, threads=threads, epochs=2) as loader:
        return [[np.asarray(row).tolist() for batch in loader for row in batch["x"]] for _ in range(2)]


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_function_writes_is_in_no_later_epoch(threads: int) -> None:
    wanted = [[[number + 1.0] * 4 for number in range(COUNT)]] * 2
    assert values(carya.dataset(listed()).map(code.plus_one, fields="x").batch(8), threads) == wanted
    assert values(carya.dataset(listed()).map(code.replaced).batch(8), threads) == wanted
    rows = (code.Rows(COUNT).data + 1).tolist()
    assert values(carya.dataset(code.Rows(COUNT)).map(code.plus_one, fields="x").batch(8), threads) == [rows] * 2


def test_looking_at_a_sample_leaves_the_list_as_it_was() -> None:
    given = listed()
    pipeline = carya.dataset(given).map(code.replaced)
    assert [int(pipeline[3]["seen"]) for _ in range(3)] == [4] * 3
    assert given[3]["x"].tolist() == [3.0] * 4
    assert len(given[3]["seen"]) == 3


def test_a_collate_function_may_take_fields_out() -> None:
    with carya.Loader(carya.dataset(listed()).batch(8, collate=code.popped), threads=1, epochs=2) as loader:
        found = [batch["fields"] for _ in range(2) for batch in loader]
    assert all(fields == ["seen"] for one in found for fields in one)


@pytest.mark.parametrize(("many", "wanted"), [(code.thrice, 4), (code.windows, 2)])
def test_samples_of_one_record_share_nothing(many: Any, wanted: int) -> None:
    for batch_size, threads in ((4, 1), (5, 2), (60, 1)):  # a record's samples in one chunk, and in several
        pipeline = carya.dataset(code.Fresh()).flat_map(many).map(code.plus_one, fields="x").batch(batch_size)
        assert values(pipeline, threads) == [[[number // 3 + 1.0] * wanted for number in range(3 * COUNT)]] * 2


def test_what_is_the_samples_alone_is_not_copied() -> None:
    made = {"x": np.zeros(3), "deep": [{"y": np.zeros(2)}], "pair": (np.zeros(1), 2), "part": np.zeros((2, 3)).T}
    places = [made[name].__array_interface__["data"] for name in ("x", "part")]
    places += [made["deep"][0]["y"].__array_interface__["data"], made["pair"][0].__array_interface__["data"]]
    given = [made]
    del made
    mine = own(given)
    found = [mine["x"], mine["part"], mine["deep"][0]["y"], mine["pair"][0]]
    assert [array.__array_interface__["data"] for array in found] == places


def test_what_others_hold_is_copied_however_deep_it_lies() -> None:
    kept = np.zeros(3)
    refused = np.zeros(3)
    refused.flags.writeable = False
    mine = own([{"a": [(kept, 1)], "b": kept[1:], "c": code.Sample(kept), "d": refused}])
    for array in (mine["a"][0][0], mine["b"], mine["c"].x):
        array += 1
    assert kept.tolist() == [0] * 3
    assert mine["d"] is refused


def test_tensors_that_others_hold_are_copied() -> None:
    torch = pytest.importorskip("torch")
    kept, array = torch.zeros(3), np.zeros(3)
    mine = own([{"a": kept, "b": kept[1:], "c": torch.from_numpy(array), "d": (kept, torch.ones(2))}])
    for tensor in (mine["a"], mine["b"], mine["c"], mine["d"][0]):
        tensor += 1
    assert kept.tolist() == [0] * 3
    assert array.tolist() == [0] * 3
    given = [torch.zeros(2)]
    place = given[0].data_ptr()
    assert own(given).data_ptr() == place


class Views:
    """Rows of one array, as datasets in memory have them."""

    def __init__(self) -> None:
        self.data = np.arange(4.0 * COUNT).reshape(COUNT, 4)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return {"x": self.data[index]}


def test_what_nobody_writes_is_not_copied_and_who_writes_gets_a_copy() -> None:
    dataset = Views()
    chain = carya.dataset(dataset).map(code.looked_at, fields="x")
    assert np.shares_memory(chain[3]["x"], dataset.data) == ("torch" not in sys.modules)
    before = dataset.data.copy()
    for write in (code.plus_one, code.sorted_here, code.filled):
        written = carya.dataset(dataset).map(code.same).map(write, fields="x")
        wanted = write(before[3].copy())
        assert written[3]["x"].tolist() == wanted.tolist()
        assert values(written.batch(4), 1)[1][3] == wanted.tolist()
        assert np.array_equal(dataset.data, before)


def test_a_function_that_draws_and_writes_draws_once() -> None:
    found = carya.dataset(Views()).map(code.jittered, fields="x")
    again = carya.dataset(Views()).map(code.jittered_anew, fields="x", version="x")
    assert found[5]["x"].tolist() == again[5]["x"].tolist()
