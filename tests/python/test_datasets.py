"""`carya.dataset`: map-style objects, their samples as fields, collate functions, and datasets that misbehave."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code

import carya
from carya._stages.tree import flatten, rebuild, shape_of


def batches(pipeline: carya.Pipeline, **options: Any) -> list[dict[str, Any]]:
    """Copies of an epoch's batches."""
    with carya.Loader(pipeline, threads=2, **options) as loader:
        return [{n: v.copy() if isinstance(v, np.ndarray) else v for n, v in batch.items()} for batch in loader]


def test_samples_of_dicts_become_fields_with_dtypes_of_their_own() -> None:
    (first, second) = batches(carya.dataset(code.Squares(6)).batch(4))
    assert (first["x"].dtype, first["x"].shape, first["y"].dtype) == (np.float32, (4, 2), np.int64)
    assert (first["y"].tolist(), second["y"].tolist()) == ([0, 1, 4, 9], [16, 25])


def test_tuples_have_numbers_or_given_names() -> None:
    (batch,) = batches(carya.dataset(code.Pairs(3)).batch(4))
    assert list(batch) == ["0", "1"]
    (batch,) = batches(carya.dataset(code.Pairs(3), names=("image", "label")).batch(4))
    assert (batch["image"].shape, batch["label"].tolist()) == ((3, 2, 3), [0, 1, 2])
    assert batch["image"].dtype == np.int16


def test_names_that_do_not_fit_are_refused() -> None:
    with pytest.raises(carya.InvalidArgument, match=r"names: the dataset gives a tuple of 2, and there are 3 names"):
        carya.Loader(carya.dataset(code.Pairs(3), names=("a", "b", "c")).batch(2), threads=1)


def test_dataclasses_named_tuples_and_numbers_of_every_kind() -> None:
    (batch,) = batches(carya.dataset(code.Records(3)).batch(4))
    assert list(batch) == ["image", "point.left", "point.right", "name", "weight"]
    assert batch["point.left"].tolist() == [0.0, 0.5, 1.0]
    assert batch["point.right"].tolist() == [0, -1, -2]
    assert batch["weight"].dtype == np.float16
    assert batch["name"] == ["name 0", "name 1", "name 2"]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([True, False], "bool"),
        ([1, 2], "int64"),
        ([1.5, 2.0], "float64"),
        ([1j, 2j], "complex128"),
        ([np.float16(1), np.float16(2)], "float16"),
        ([np.uint64(2**63), np.uint64(1)], "uint64"),
        ([np.datetime64("2026-01-01"), np.datetime64("2026-01-02")], "datetime64[D]"),
        ([[1, 2], [3, 4]], "int64"),
        ([np.array([b"ab"]), np.array([b"cd"])], "|S2"),
    ],
)
def test_numbers_keep_their_dtype(values: list[Any], dtype: str) -> None:
    (batch,) = batches(carya.dataset(values).batch(2))
    assert batch["value"].dtype == np.dtype(dtype)
    assert np.array_equal(batch["value"], np.asarray(values))


def test_objects_are_lists_also_over_several_chunks() -> None:
    pipeline = carya.dataset(code.Texts(40)).shuffle(seed=3).batch(16, lists="tokens")
    with carya.Loader(pipeline, threads=2) as loader:
        for batch in loader:
            labels = batch["label"].tolist()
            assert [len(text) for text in batch["text"]] == [label % 7 for label in labels]
            assert [tokens.tolist() for tokens in batch["tokens"]] == [list(range(label % 5 + 1)) for label in labels]


def test_arrays_of_several_shapes_are_refused_with_the_way_out() -> None:
    with (
        carya.Loader(carya.dataset(code.Texts(8)).batch(8), threads=1) as loader,
        pytest.raises(carya.InvalidArgument, match=r"tokens: got int64 \(2,\).*first sample has int64 \(1,\).*lists="),
    ):
        list(loader)


def test_a_collate_function_makes_the_batch() -> None:
    pipeline = carya.dataset(code.Texts(10)).batch(4, collate=code.padded)
    with carya.Loader(pipeline, threads=2) as loader:
        shapes = [(batch["tokens"].shape, len(batch["text"]), batch.records.tolist()) for batch in loader]
    assert shapes == [((4, 4), 4, [0, 1, 2, 3]), ((4, 5), 4, [4, 5, 6, 7]), ((2, 5), 2, [8, 9])]


def test_what_a_collate_function_returns_is_yielded_when_it_is_no_mapping() -> None:
    with carya.Loader(carya.dataset(code.Squares(4)).batch(4, collate=code.as_tuple), threads=1) as loader:
        ((x, y),) = list(loader)
    assert (x.shape, y) == ((4, 2), [0, 1, 4, 9])


def test_torch_gets_tensors_of_every_form() -> None:
    torch = pytest.importorskip("torch")
    import carya.torch as carya_torch

    for pipeline in (
        carya.dataset(code.Squares(4)).batch(4),
        carya.dataset(code.Squares(4)).batch(4, collate=code.as_tensors),
    ):
        with carya_torch.Loader(pipeline, threads=1) as loader:
            (batch,) = list(loader)
            assert isinstance(batch["x"], torch.Tensor)
            assert batch["x"].tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    with carya_torch.Loader(carya.dataset(code.Texts(4)).batch(4, lists="tokens"), threads=1) as loader:
        (batch,) = list(loader)
        assert batch["text"] == ["", "a", "aa", "aaa"]
        assert all(isinstance(tokens, torch.Tensor) for tokens in batch["tokens"]) is True
    with carya_torch.Loader(carya.dataset(code.Squares(4)).batch(4, collate=code.as_tuple), threads=1) as loader:
        ((x, y),) = list(loader)
        assert isinstance(x, torch.Tensor)
        assert y == [0, 1, 4, 9]


def test_torch_datasets_and_their_tensors_travel() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    (batch,) = batches(carya.dataset(data, names=("x", "y")).batch(6))
    assert batch["x"].tolist() == torch.arange(12.0).reshape(6, 2).tolist()
    assert batch["y"].dtype == np.int64
    subset = torch.utils.data.Subset(data, [4, 2])
    assert [b["1"].tolist() for b in batches(carya.dataset(subset).batch(2))] == [[4, 2]]


def test_jax_gets_arrays() -> None:
    jax = pytest.importorskip("jax")
    import carya.jax as carya_jax

    with carya_jax.Loader(carya.dataset(code.Squares(3)).batch(2), threads=1) as loader:
        found = list(loader)
        assert all(isinstance(batch["x"], jax.Array) for batch in found)
        assert [batch["y"].tolist() for batch in found] == [[0, 1], [4, 0]]
        assert found[1].valid.tolist() == [True, False]


def test_views_and_splits_hold_for_datasets() -> None:
    (batch,) = batches(carya.dataset(code.Squares(9)).subset([8, 1, 5]).batch(3))
    assert batch["y"].tolist() == [64, 1, 25]
    train, rest = carya.dataset(code.Squares(10)).split(0.7, seed=1)
    together = [y for part in (train, rest) for b in batches(part.batch(16)) for y in b["y"].tolist()]
    assert (len(train), sorted(together)) == (7, [i * i for i in range(10)])


def test_single_samples_and_outputs_are_the_streams() -> None:
    pipeline = carya.dataset(code.Squares(5)).map(code.noisy).shuffle(seed=7)
    (batch,) = batches(pipeline.batch(5))
    with carya.Loader(pipeline.batch(5), threads=1) as loader:
        records = next(iter(loader)).records.tolist()
    assert np.array_equal(pipeline.sample(records[2])["noise"], batch["noise"][2])
    assert pipeline.outputs == [("x", "float32", (2,)), ("y", "int64", ()), ("noise", "float64", (3,))]
    assert len(pipeline) == 5


def test_a_memory_map_travels_by_its_path(tmp_path: Path) -> None:
    from carya._functions.code import dumps_code
    from carya._processes.transport import Packed

    path = tmp_path / "big.npy"
    np.save(path, np.arange(4000).reshape(1000, 4))
    mapped = np.load(path, mmap_mode="r")
    assert Packed([mapped, mapped[100:]], dumps_code).size == 0
    pipeline = carya.arrays({"x": str(path)}).map(np.square, fields="x").batch(500)
    assert Packed(pipeline._stream_spec(None).arrays, dumps_code).size == 0
    assert np.array_equal(np.concatenate([b["x"] for b in batches(pipeline)]), np.arange(4000).reshape(1000, 4) ** 2)


def test_batches_of_plain_arrays_travel_without_a_pickle() -> None:
    from carya._processes.transport import Packed, unpacked

    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    plain = {"a": wide, "none": np.zeros((0, 3), np.int16), "one": np.array(True), "z": wide[:2].astype(np.complex64)}
    others = [
        {"a": wide.T},
        {"a": wide[:, ::2]},
        {"a": wide, "b": [1]},
        {"a": np.array(["x"])},
        {1: wide},
        [wide],
        {"a": 1},
    ]
    for value in (plain, {}, *others):
        packed = Packed(value, plain=True)
        assert isinstance(packed.text, bytes) == any(value is other for other in others)
        memory = bytearray(packed.size + 64)
        packed.write(memory, 64)
        found = unpacked(packed.text, packed.places, np.frombuffer(memory, np.uint8), 64)
        assert type(found) is type(value)
        if value is plain:
            for name, array in plain.items():
                assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
                assert np.array_equal(found[name], array)
            memory[64:68] = np.float32(7).tobytes()
            assert found["a"][0, 0] == 7, "arrays are views of the memory"


def test_a_dataset_that_opens_a_file_has_it_in_each_process(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"".join(i.to_bytes(8, "little") for i in range(200)))
    with carya.Loader(carya.dataset(_open_file(path)).shuffle(seed=1).batch(20), threads=3) as loader:
        for batch in loader:
            assert batch["x"].tolist() == batch.records.tolist()


def _open_file(path: Path) -> code.OpenFile:
    dataset = code.OpenFile(str(path), 200)
    dataset.file = None
    return dataset


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"x": np.zeros(3)}, r"carya.arrays"),
        (iter([1, 2]), r"got 'list_iterator'; give an object with __len__.*only be iterated"),
        ("text", r"got 'text'"),
        (5, r"got 'int'"),
        (code.Early, r"got 'the class Early'; give an object of it: Early\(\.\.\.\)"),
        ([], r"len\(dataset\): got 0"),
        ({1, 2}, r"got 'set'; give an object with __len__ and __getitem__"),
    ],
)
def test_what_is_no_dataset_is_refused(given: Any, text: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=text):
        carya.dataset(given)


def test_a_length_that_changes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_TEST_TRAINER", str(os.getpid()))
    with pytest.raises(carya.InvalidArgument, match=r"was 9 in the trainer and is 8"):
        carya.Loader(carya.dataset(code.Shrinking(9)).batch(2), threads=1)


def test_an_early_index_error_names_the_record() -> None:
    with (
        carya.Loader(carya.dataset(code.Early(6)).batch(2), threads=1) as loader,
        pytest.raises(IndexError, match="no such row") as raised,
    ):
        list(loader)
    assert (raised.value.record, "record 4: dataset(Early)" in str(raised.value.__cause__)) == (4, True)


def test_a_return_that_was_forgotten_is_told() -> None:
    """None would be an array of objects, which no trainer wants."""
    chain = carya.arrays({"x": np.arange(8)}).map(code.forgets).batch(2)
    with pytest.raises(carya.InvalidArgument, match=r"map\(forgets\): it returned None; return the sample"):
        carya.Loader(chain, threads=1)


def test_a_dataset_that_cannot_travel_says_why() -> None:
    with pytest.raises(carya.InvalidArgument, match=r"cannot be sent to worker processes: .*lock.*__getstate__"):
        carya.Loader(carya.dataset(code.Locked(3)).batch(1), threads=1)


@pytest.mark.parametrize(
    "sample",
    [
        {"a": 1, "b": {"c": 2, "d": (3, 4)}},
        (1, [2, 3], {"x": "y"}),
        code.Point(1.0, 2),
        code.Record(np.zeros(1), code.Point(0.5, 1), "n", 2.0),
        7,
        (),
    ],
)
def test_trees_are_rebuilt_from_their_leaves(sample: Any) -> None:
    leaves = flatten(sample)
    assert repr(rebuild(shape_of(sample), iter(leaves.values()))) == repr(_with_lists(sample))


def _with_lists(sample: Any) -> Any:
    """Plain tuples as lists, which is what torch makes of them."""
    if isinstance(sample, dict):
        return {name: _with_lists(value) for name, value in sample.items()}
    return [_with_lists(value) for value in sample] if type(sample) is tuple else sample
