"""Samples of several lengths, and several samples of a record: `pad_sequences`, `bucket_by_length`, `pack`, `flat_map`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import user_code as code
from hypothesis import given, settings
from hypothesis import strategies as some
from streams import copied, digest, epoch_digest, killed_and_resumed

import carya
from carya import _core
from carya._joined import Joined
from carya._stages.padding import Pad, checked_pad
from carya._stages.units import BestFit, Buckets, Many, Packed

COUNT = 37


def unpadded(batches: Any) -> list[tuple[int, list[int], int]]:
    """(label, tokens, rows of weights) of each valid row."""
    found = []
    for batch in batches:
        for row in np.flatnonzero(np.asarray(batch.valid)):
            count = int(batch["tokens_length"][row])
            assert batch["tokens"][row, count:].tolist() == [-1] * (batch["tokens"].shape[1] - count)
            assert not batch["weights"][row, int(batch["weights_length"][row]) :].any()
            found.append(
                (int(batch["label"][row]), batch["tokens"][row, :count].tolist(), int(batch["weights_length"][row]))
            )
    return found


def ragged(**batch: Any) -> carya.Pipeline:
    p = carya.dataset(code.Ragged(COUNT)).shuffle(seed=3)
    return p.pad_sequences("tokens", multiple_of=4, value=-1).pad_sequences("weights").batch(**batch)


def expected(records: Any) -> list[tuple[int, list[int], int]]:
    samples = [code.Ragged(COUNT)[record] for record in records]
    return [(int(s["label"]), s["tokens"].tolist(), len(s["weights"])) for s in samples]


def test_a_batch_is_padded_to_its_longest_rounded_up_on_any_ranks_from_any_step_on() -> None:
    with carya.Loader(ragged(global_size=8, pad_last=True), threads=2) as loader:
        batches, states = [], []
        for batch in loader:
            batches.append(carya.Batch({k: np.array(v) for k, v in batch.items()}, like=batch))
            states.append(loader.state_dict())
            longest = max(1, int(batch["tokens_length"].max()))
            assert batch["tokens"].shape == (8, -(-longest // 4) * 4)
            assert batch["weights"].shape == (8, max(1, int(batch["weights_length"].max())), 2)
        records = [int(r) for batch in batches for r, ok in zip(batch.records, batch.valid, strict=True) if ok]
        assert sorted(records) == list(range(COUNT))
        whole = unpadded(batches)
        assert whole == expected(records)
        loader.load_state_dict(states[2])
        assert unpadded(loader) == whole[24:]
    parts = []
    for rank in range(3):
        with carya.Loader(
            ragged(global_size=9, pad_last=True), threads=1, epochs=1, rank=rank, world_size=3, state=states[1]
        ) as loader:
            parts += unpadded(loader)
    assert sorted(parts) == sorted(whole[16:])


@pytest.mark.parametrize("size", [1, 8])
def test_batches_that_no_slot_has_room_for_are_their_own_among_many_that_fit(size: int) -> None:
    """Those lie in files of their own, and one message of a worker has several batches."""
    p = carya.dataset(code.HeavyTailed(600)).shuffle(seed=3).pad_sequences("ids").batch(size)
    with carya.Loader(p, threads=1, epochs=2) as loader:
        for _ in range(2):
            for batch in loader:
                assert batch["ids"].shape == (size, batch["ids_length"].max())
                for record, ids, length in zip(batch.records, batch["ids"], batch["ids_length"], strict=True):
                    assert length == (1 if record % 20 else 1 + record * 7919 % 4000)
                    assert (ids[:length] == record).all()
                    assert not ids[length:].any()


def test_pad_to_one_length_writes_rows_in_place_and_operations_may_follow() -> None:
    p = carya.dataset(code.Ragged(COUNT)).pad_sequences(("tokens", "weights"), to=12).shuffle(seed=1)
    with carya.Loader(p.batch(8), threads=1, epochs=1) as loader:
        for batch in loader:
            assert batch["tokens"].shape[1:] == (12,)
            assert batch["weights"].shape[1:] == (12, 2)
            assert batch["tokens_length"].dtype == np.int64
        job: Any = loader._job
        assert job.fields
    assert p.sample(3)["tokens_length"] == len(code.Ragged(COUNT)[3]["tokens"])
    assert epoch_digest(p.batch(5), threads=2) == epoch_digest(p.batch(9), threads=1)
    cut = carya.dataset(code.Ragged(COUNT)).pad_sequences("tokens", to=4, truncate=True)
    longest = int(np.argmax(code.Ragged(COUNT).lengths))
    assert (cut.sample(longest)["tokens"].tolist(), cut.sample(longest)["tokens_length"]) == (
        [100 * longest + k for k in range(4)],
        4,
    )


def test_mistakes_of_pad() -> None:
    p = carya.dataset(code.Ragged(COUNT))
    for options, told in [
        ({"fields": ()}, "pad_sequences: fields"),
        ({"fields": "tokens", "to": 0}, "pad_sequences: to"),
        ({"fields": "tokens", "to": True}, "pad_sequences: to"),
        ({"fields": "tokens", "to": 6, "multiple_of": 4}, "pad_sequences: to"),
        ({"fields": "tokens", "multiple_of": 0}, "pad_sequences: multiple_of"),
        ({"fields": "tokens", "value": "x"}, "pad_sequences: value"),
        ({"fields": "tokens", "truncate": True}, "pad_sequences: truncate"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            p.pad_sequences(**options)  # type: ignore[arg-type]
    with pytest.raises(carya.InvalidArgument, match="batch: collate"):
        p.pad_sequences("tokens").batch(4, collate=len)
    with pytest.raises(carya.InvalidArgument, match=r"pad_sequences: comes after batch; call \.pad_sequences"):
        p.batch(4, lists="tokens").pad_sequences("tokens")
    for wrong, told in [
        (
            p.pad_sequences("token").batch(4, lists=("tokens", "weights")),
            r"pad_sequences: fields: got 'token'; give some of",
        ),
        (
            p.pad_sequences("token", to=12).batch(4, lists=("tokens", "weights")),
            r"pad_sequences: fields: the sample has no 'token'",
        ),
        (
            p.pad_sequences("label").pad_sequences("tokens").pad_sequences("weights").batch(4),
            r"pad_sequences: label: got int64 \(\); give arrays",
        ),
        (p.pad_sequences(("tokens", "weights"), to=3).batch(40), r"pad_sequences: .*to=3; give to= at least"),
        *(
            (
                p.pad_sequences("tokens", value=value).pad_sequences("weights").batch(4),
                r"pad_sequences: value: got .* for int",
            )
            for value in (0.5, float("nan"), 1 << 70)
        ),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            list(carya.Loader(wrong, threads=1, epochs=1))


def test_empty_lists_have_the_dtype_of_the_others() -> None:
    found = Pad(("ids",), None, 1, 7, False)({"ids": [[], [1, 2], []]})
    assert found["ids"].dtype == np.int64
    assert found["ids"].tolist() == [[7, 7], [1, 2], [7, 7]]
    assert found["ids_length"].tolist() == [0, 2, 0]


def lengths_of(of: code.Ragged) -> np.ndarray:
    return np.array(of.lengths)


SIZES = some.lists(some.integers(0, 9), min_size=1, max_size=80)


def permuted(seed: int, count: int) -> Any:
    return lambda epoch, first, number: _core.Permutation(seed, epoch, count).records(first, number)


@settings(max_examples=80, deadline=None)
@given(sizes=SIZES, group=some.integers(1, 7), times=some.integers(1, 5), shuffle=some.booleans(), data=some.data())
def test_buckets_have_every_record_once_and_any_part_of_them_is_the_same(
    sizes: list[int], group: int, times: int, shuffle: bool, data: some.DataObject
) -> None:
    of = np.array(sizes)
    ordered = permuted(3, len(of))
    for epoch in range(2):
        whole = Buckets(of, group * times, group, 3, ordered, shuffle).at(epoch, 0, len(of))
        assert sorted(unit.place for unit in whole) == list(range(len(of)))
        first = data.draw(some.integers(0, len(of) - 1))
        count = data.draw(some.integers(0, len(of) - first))
        assert (
            Buckets(of, group * times, group, 3, ordered, shuffle).at(epoch, first, count)
            == whole[first : first + count]
        )
        for begin in range(0, len(of), group * times):  # groups of a window do not overlap in length
            window = [unit.place for unit in whole[begin : begin + group * times]]
            assert sorted(window) == sorted(ordered(epoch, begin, len(window)).tolist())
            groups = sorted(sorted(of[window[i : i + group]].tolist()) for i in range(0, len(window), group))
            assert [size for one in groups for size in one] == sorted(of[window].tolist())


@settings(max_examples=80, deadline=None)
@given(sizes=SIZES, length=some.integers(1, 30), data=some.data())
def test_packed_rows_and_samples_of_records_have_every_element_once(
    sizes: list[int], length: int, data: some.DataObject
) -> None:
    of = np.array(sizes)
    ordered = permuted(5, len(of))
    expected = [(place, element) for place in ordered(1, 0, len(of)).tolist() for element in range(sizes[place])]
    packed, many = Packed(of, length, ordered), Many(of, ordered)
    assert (packed.count, many.count) == (-(-len(expected) // length), len(expected))
    for units, rows in ((packed, length), (many, 1)):
        whole = units.at(1, 0, units.count)
        spans = [
            unit.part[1] if rows > 1 or units is packed else ((unit.place, unit.part[0], unit.part[0] + 1, 0),)
            for unit in whole
        ]
        assert [(s[0], k) for row in spans for s in row for k in range(s[1], s[2])] == expected
        if units.count:
            first = data.draw(some.integers(0, units.count - 1))
            count = data.draw(some.integers(0, units.count - first))
            assert units.at(1, first, count) == whole[first : first + count]
    if len(expected):
        assert [sum(s.end - s.begin for s in unit.part[1]) for unit in packed.at(1, 0, packed.count)][:-1] == [
            length
        ] * (packed.count - 1)


@settings(max_examples=100, deadline=None)
@given(sizes=SIZES, length=some.integers(1, 30), window=some.integers(1, 90), shuffle=some.booleans(), data=some.data())
def test_rows_by_best_fit_have_every_element_once_and_cut_no_sample_that_fits(
    sizes: list[int], length: int, window: int, shuffle: bool, data: some.DataObject
) -> None:
    of = np.array(sizes)
    fit = BestFit(of, length, window, 7, shuffle)
    compositions = []
    for epoch in (0, 3):
        whole = fit.at(epoch, 0, fit.count)
        spans = [unit.part[1] for unit in whole]
        assert [unit.part[0] for unit in whole] == list(range(fit.count))
        assert sorted((s.place, k) for row in spans for s in row for k in range(s.begin, s.end)) == [
            (place, element) for place, size in enumerate(sizes) for element in range(size)
        ]
        assert all(0 < sum(s.end - s.begin for s in row) <= length for row in spans)
        assert all((s.begin, s.end) == (0, s.size) for row in spans for s in row if s.size <= length)
        compositions.append(sorted(spans))
        if fit.count:
            first = data.draw(some.integers(0, fit.count - 1))
            count = data.draw(some.integers(0, fit.count - first))
            assert BestFit(of, length, window, 7, shuffle).at(epoch, first, count) == whole[first : first + count]
    assert compositions[0] == compositions[1]


def test_best_fit_leaves_little_empty() -> None:
    of = np.minimum(np.random.default_rng(3).lognormal(6.2, 1.0, 20_000), 8192).astype(np.int64)
    for window, share in ((256, 0.96), (1024, 0.985), (4096, 0.995)):
        fit = BestFit(of, 8192, window, 1, True)
        assert of.sum() / (fit.count * 8192) > share


def test_joined_records_over_many_blocks_and_epochs() -> None:
    of = np.random.default_rng(1).integers(0, 4, 10_000)
    many = Many(of, permuted(2, len(of)))
    for epoch in (0, 7):
        order = permuted(2, len(of))(epoch, 0, len(of))
        at = int(of[order[:9_000]].sum())
        assert [unit.place for unit in many.at(epoch, at, 50)] == np.repeat(order[9_000:], of[order[9_000:]]).tolist()[
            :50
        ]


PIPELINES = {
    "pack by best fit": lambda: carya.dataset(code.Ragged(COUNT)).shuffle(seed=3).pack(
        16, ("tokens", "weights"), value=-1, best_fit=10
    ).map(code.noisy),
    "bucket": lambda: carya.dataset(code.Ragged(COUNT)).shuffle(seed=3).map(code.noisy).bucket_by_length(
        lengths_of(code.Ragged(COUNT)), window=12, group=3
    ).pad_sequences(("tokens", "weights"), to=12),
    "bucket of what is left": lambda: carya.dataset(code.Ragged(COUNT)).shuffle(seed=3).filter(code.many_labels)
    .bucket_by_length(code.token_count, window=6, group=2).pad_sequences(("tokens", "weights"), to=12),
    "flat_map": lambda: carya.dataset(code.Ragged(COUNT)).shuffle(seed=3).flat_map(code.words).map(code.noisy),
    "random flat_map of what is left": lambda: carya.dataset(code.Ragged(COUNT)).filter(code.many_labels).flat_map(code.views),
    "pack": lambda: carya.dataset(code.Ragged(COUNT)).shuffle(seed=3).pack(16, ("tokens", "weights"), value=-1).map(code.noisy),
    "pack of what is left": lambda: carya.dataset(code.Ragged(COUNT)).filter(code.many_labels).pack(5, "tokens"),
}  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
def test_world_sizes_chunks_kills_and_resumes_give_the_same_stream(name: str) -> None:
    made = PIPELINES[name]
    whole = epoch_digest(made().batch(7), 2, threads=1, slots=2)
    assert digest(killed_and_resumed(lambda **batch: made().batch(**batch), steps=2, ranks=2, global_size=4)) == whole


def test_rows_of_pack_say_where_their_elements_are_from() -> None:
    found: dict[int, list[int]] = {}
    with carya.Loader(PIPELINES["pack"]().batch(3), threads=2, epochs=1) as loader:
        for batch in loader:
            for row in np.flatnonzero(np.asarray(batch.valid)):
                tokens, segment, position = (batch[name][row].tolist() for name in ("tokens", "segment", "position"))
                assert batch["weights"][row].shape == (16, 2)
                for token, number, place, weight in zip(
                    tokens, segment, position, batch["weights"][row].tolist(), strict=True
                ):
                    if number:
                        assert weight == [token // 100] * 2
                        found.setdefault(token // 100, []).append(token % 100)
                        assert place == token % 100
                    else:
                        assert (token, place) == (-1, 0)
    assert found == {i: list(range(n)) for i, n in enumerate(code.Ragged(COUNT).lengths) if n}


def test_flat_map_samples_have_numbers_of_their_own_and_lengths_are_known() -> None:
    of = code.Ragged(COUNT)
    with carya.Loader(PIPELINES["flat_map"]().batch(8), threads=2, epochs=1) as loader:
        assert len(loader) == -(-int(of.lengths.sum()) // 8)
        batches = [copied(batch) for batch in loader]
    tokens = np.concatenate([batch["token"] for batch in batches])
    assert sorted(tokens.tolist()) == [100 * i + k for i in range(COUNT) for k in range(of.lengths[i])]
    noise = np.concatenate([batch["noise"] for batch in batches])
    assert len(np.unique(noise[:, 0])) == len(noise)
    assert [int(t) // 100 for t in tokens] == np.concatenate([batch.records for batch in batches]).tolist()
    first = PIPELINES["flat_map"]().sample(int(tokens[0]) // 100)
    assert (int(first["token"]), first["noise"].tolist()) == (int(tokens[0]), noise[0].tolist())


def test_sizes_are_kept_for_the_next_loader(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path))
    made = PIPELINES["pack of what is left"]
    first = epoch_digest(made().batch(7), threads=2)
    (kept,) = tmp_path.rglob("*.npz")
    assert epoch_digest(made().batch(7), threads=2) == first
    kept.write_bytes(kept.read_bytes()[:-40])  # damaged: found anew
    assert epoch_digest(made().batch(7), threads=2) == first


def test_broken_records_are_replaced_by_other_samples() -> None:
    p = carya.dataset(code.Ragged(COUNT)).flat_map(code.words).map(code.broken_label_2).batch(8)
    with carya.Loader(p, threads=2, epochs=1, on_error="replace") as loader:
        labels = np.concatenate([batch["label"].copy() for batch in loader])
        entries = loader.quarantine()
    assert 2 not in labels
    assert {entry["record"] for entry in entries} == {2}
    assert len(entries) >= code.Ragged(COUNT).lengths[2]
    with pytest.raises(ValueError, match="label 2"):
        list(carya.Loader(p, threads=1, epochs=1))


def test_mistakes_of_what_regroups(tmp_path: Any) -> None:
    p = carya.dataset(code.Ragged(COUNT))
    for call, told in [
        (lambda: p.pack(0, "tokens"), "pack: length"),
        (lambda: p.pack(8, ()), "pack: fields"),
        (lambda: p.pack(8, "segment"), 'pack: fields: .*other names than "segment"'),
        (lambda: p.pack(8, "tokens", lengths=[-1]), "pack: lengths"),
        (lambda: p.pack(8, "tokens", value="x"), "pack: value"),
        (lambda: p.pack(8, "tokens", value={"label": -100}), "pack: value: got .*; give a number, or one for each of"),
        (lambda: p.pack(8, "tokens", value={"tokens": None}), "pack: value"),  # type: ignore[dict-item]
        (lambda: p.pack(8, "tokens", best_fit=0), "pack: best_fit"),
        (lambda: p.bucket_by_length(3.5), "bucket_by_length: length"),
        (lambda: p.bucket_by_length("tokens", group=0), "bucket_by_length: group"),
        (lambda: p.bucket_by_length("tokens", window=10, group=4), "bucket_by_length: window: .*multiple of group=4"),
        (lambda: p.flat_map(3), "flat_map: fn"),
        (lambda: p.pack(8, "tokens").flat_map(code.words), "flat_map: it comes after pack"),
        (lambda: p.flat_map(code.words).filter(code.even), "filter: it comes after flat_map"),
        (lambda: p.map(code.noisy).pack(8, "tokens"), "pack: it comes after random numbers"),
        (lambda: p.batch(2).flat_map(code.words), "flat_map: comes after batch"),
        (lambda: carya.mix([p, p.flat_map(code.words)]), "mix: pipeline 1 has a flat_map"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            call()
    with pytest.raises(carya.Unsupported, match=r"len: how many samples \.pack"):
        len(p.pack(8, "tokens"))
    for wrong, told in [
        (p.pack(8, "token"), "pack: fields: the sample has no 'token'"),
        (p.pack(8, ("tokens", "label")), r"pack: fields: label: got int64 \(\)"),
        (p.pack(8, "tokens", lengths=[1, 2]), "pack: lengths: got 2 for 37 records"),
        (p.pack(8, "tokens", lengths=np.full(COUNT, 20)), "record .* has .* elements, and 20 were told"),
        (p.bucket_by_length(code.same), "bucket_by_length: length: got"),
        (p.flat_map(code.same), "flat_map.*: it returned an object of type dict; return a list"),
        (p.flat_map(code.none), "flat_map.*: it returned None; return a list"),
        (p.flat_map(code.Unsteady(str(tmp_path))), "samples of record 5, and made .* before"),
        (carya.dataset(code.Ragged(1, seed=4)).subset([0] * 3).flat_map(code.nothing), "flat_map.*: nothing is left"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            list(carya.Loader(wrong.batch(64), threads=1, epochs=1))


def test_fingerprints_tell_them_apart() -> None:
    p = carya.dataset(code.Ragged(COUNT))
    made = [
        p.pack(8, "tokens"),
        p.pack(9, "tokens"),
        p.pack(8, "tokens", value=1),
        p.pack(8, "tokens", best_fit=16),
        p.bucket_by_length("tokens"),
        p.bucket_by_length("tokens", group=32),
        p.bucket_by_length([1] * COUNT),
        p.bucket_by_length([2] * COUNT),
        p.flat_map(code.words),
        p.pad_sequences("tokens"),
        p.pad_sequences("tokens", to=8),
    ]
    assert len({one.batch(4, lists=("tokens",)).native.fingerprint("raise") for one in made}) == len(made)


@pytest.mark.parametrize("dtype", ["bool", "int16", "int32", "float64", "complex128"])
@pytest.mark.parametrize(("to", "multiple_of"), [(None, 1), (None, 4), (3, 1), (40, 1)])
def test_joined_arrays_are_padded_as_each_by_itself(dtype: str, to: int | None, multiple_of: int) -> None:
    random = np.random.default_rng(5)
    for lengths in ([], [0], [0, 0], [1], [5, 0, 17, 2], random.integers(0, 30, 20).tolist()):
        arrays = [random.integers(0, 2**15, length).astype(dtype) for length in lengths]
        rows, found = Joined.of(arrays, dtype).padded(to, multiple_of, np.array(7).astype(dtype))
        longest = max([1, *lengths])
        width = to or -(-longest // multiple_of) * multiple_of
        expected = np.full((len(arrays), width), np.array(7).astype(dtype))
        for row, array in zip(expected, arrays, strict=True):
            row[: len(array)] = array[:width]
        assert (rows.dtype, rows.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(rows, expected)
        assert found.tolist() == [min(length, width) for length in lengths]


def test_what_cannot_be_padded_is_refused() -> None:
    for values, ends, filling in (
        (np.arange(4), [2, 1, 4], np.array(0)),
        (np.arange(4), [5], np.array(0)),
        (np.arange(4), [-1], np.array(0)),
        (np.arange(4), [4], np.array(0, np.int8)),
        (np.arange(8)[::2], [4], np.array(0)),
        (np.array([1, "a"], object), [2], np.array(0, object)),
    ):
        with pytest.raises(carya.InvalidArgument, match="give"):
            Joined(values, np.array(ends, np.int64)).padded(None, 1, filling)


@pytest.mark.parametrize(("dtype", "value"), [("uint16", -100), ("uint8", 256), ("int64", 0.5), ("bool", -1)])
def test_a_padding_that_the_type_does_not_have_is_refused(dtype: str, value: float) -> None:
    """It became another number: -100 of uint16 is 65436."""
    texts = carya.dataset([{"ids": np.ones(2 + n % 3, dtype)} for n in range(8)])
    told = rf"value: got {value} for {dtype}; give a number of that kind"
    for padded in (
        texts.pad_sequences("ids", value=value).batch(4),
        texts.pad_sequences("ids", value=value, to=6).batch(4),
        texts.pack(8, "ids", value=value).batch(2),
    ):
        with pytest.raises(carya.InvalidArgument, match=told):
            list(carya.Loader(padded, threads=1, epochs=1))


def test_each_packed_field_is_filled_up_by_its_own_value() -> None:
    samples = [{"ids": np.arange(n, dtype=np.int32), "labels": np.arange(n), "mask": np.ones(n, bool)} for n in (3, 2)]
    packed = carya.dataset(samples).pack(8, ("ids", "labels", "mask"), value={"labels": -100, "ids": np.int64(7)})
    others = carya.dataset(samples).pack(8, ("ids", "labels", "mask"), value={"labels": -1, "ids": 7})
    again = carya.dataset(samples).pack(8, ("ids", "labels", "mask"), value={"ids": 7, "mask": 0, "labels": -100})
    with carya.Loader(packed.batch(1), threads=1) as one, carya.Loader(others.batch(1), threads=1) as other:
        assert one.state_dict()["pipeline"] != other.state_dict()["pipeline"]
        with carya.Loader(again.batch(1), threads=1) as third:  # however it is written
            assert third.state_dict()["pipeline"] == one.state_dict()["pipeline"]
        (batch,) = [{name: value[0].tolist() for name, value in batch.items()} for batch in one]
    assert batch["ids"] == [0, 1, 2, 0, 1, 7, 7, 7]
    assert batch["labels"] == [0, 1, 2, 0, 1, -100, -100, -100]
    assert batch["mask"] == [True] * 5 + [False] * 3


def _ids(rows: list[list[int]]) -> list[dict[str, Any]]:
    return [{"ids": row, "row": number} for number, row in enumerate(rows)]


def _worse(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["row"] >= 4:
        raise ValueError("no row behind the fourth can be made")
    return sample


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_without_a_valid_row_is_of_the_dtype_of_the_others(threads: int) -> None:
    rows = [{"ids": np.ones((n, 2), np.int16), "row": k} for k, n in enumerate((3, 1, 2, 4, 1, 1, 1, 1))]
    chain = carya.dataset(rows).map(_worse).pad_sequences("ids").batch(2)
    with carya.Loader(chain, threads=threads, on_error="mask") as loader:
        found = [(batch["ids"].dtype, batch["ids"].shape[2:], batch.valid.tolist()) for batch in loader]
    assert found == [(np.int16, (2,), [True, True])] * 2 + [(np.int16, (2,), [False, False])] * 2


def _numbered(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "n": 1}


def test_lists_without_elements_are_so_before_a_function_and_in_a_mix_too() -> None:
    padded = carya.dataset(_ids([[], [1, 2], [], [3]])).pad_sequences("ids", to=2)
    mixed = carya.mix([padded, padded], weights=[1, 1], seed=1)
    for chain in (padded.map(_numbered), mixed.map(_numbered)):
        with carya.Loader(chain.batch(2), threads=1) as loader:
            found = [(batch["ids"].dtype, row) for batch in loader for row in batch["ids"].tolist()]
        assert {dtype for dtype, _ in found} == {np.dtype(np.int64)}
        assert {tuple(row) for _, row in found} == {(0, 0), (1, 2), (3, 0)}


@pytest.mark.parametrize("to", [None, 4])
def test_lists_without_elements_are_of_the_dtype_of_the_others(to: int | None) -> None:
    """A list of JSON says no dtype where it is empty: in the first record, or in all of a batch."""
    chain = carya.dataset(_ids([[], [], [1, 2], [3], [], [], [4, 5, 6], []])).pad_sequences("ids", to=to).batch(2)
    with carya.Loader(chain, threads=2) as loader:
        found = [(batch["ids"].dtype, batch["ids_length"].tolist()) for batch in loader]
    assert found == [(np.int64, [0, 0]), (np.int64, [2, 1]), (np.int64, [0, 0]), (np.int64, [3, 0])]


def test_floats_are_rounded_to_the_dtype_that_is_said_and_no_other_number() -> None:
    for numbers, dtype in (([2**24 + 1], "float32"), ([2**53 + 1], "float64"), ([-1], "uint64"), ([1.5], "int64")):
        array = np.array(numbers)
        with pytest.raises(carya.InvalidArgument, match=f"got {array.dtype} with numbers that {dtype} does not have"):
            checked_pad("ids", 4, 1, 0, False, dtype).sample({"ids": array})
    for numbers, dtype in (([0.1, 2**24], "float32"), ([2**24, -3], "float32"), ([0.1, 1j], "complex64")):
        array = np.array(numbers)
        found = checked_pad("ids", 2, 1, 0, False, dtype).sample({"ids": array})["ids"]
        np.testing.assert_array_equal(found, array.astype(dtype), strict=True)


@pytest.mark.parametrize("to", [None, 4])
def test_the_dtype_of_what_is_padded_may_be_said(to: int | None) -> None:
    empty = carya.dataset(_ids([[]] * 4)).pad_sequences("ids", to=to, dtype="int32").batch(2)
    with carya.Loader(empty, threads=1) as loader:
        assert [batch["ids"].dtype for batch in loader] == [np.int32] * 2
    some = (
        carya.dataset(_ids([[], [1, 2], [3], [70_000]])).pad_sequences("ids", to=to, value=-1, dtype="int32").batch(4)
    )
    with carya.Loader(some, threads=1) as loader:
        (batch,) = [dict(batch) for batch in loader]
        assert (batch["ids"].dtype, batch["ids"][:, 0].tolist()) == (np.int32, [-1, 1, 3, 70_000])
    narrow = carya.dataset(_ids([[1], [70_000]])).pad_sequences("ids", to=to, dtype="int16").batch(2)
    with (
        pytest.raises(
            carya.InvalidArgument, match=r"pad_sequences: ids: got int64 with numbers that int16 does not have"
        ),
        carya.Loader(narrow, threads=1) as loader,
    ):
        list(loader)
    for dtype in (str, "object", "nothing"):
        with pytest.raises(carya.InvalidArgument, match="pad_sequences: dtype"):
            carya.dataset(_ids([[1]])).pad_sequences("ids", dtype=dtype)
    with pytest.raises(carya.InvalidArgument, match="value: got -1 for uint8"):
        carya.dataset(_ids([[1]])).pad_sequences("ids", value=-1, dtype="uint8")
