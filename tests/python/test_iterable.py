"""`carya.iterable`: shards of iterators as one stream, however it is cut, killed, resumed or shared."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code
from hypothesis import given, settings
from hypothesis import strategies as some
from streams import check_resume, copied, digest, epoch_digest, killed_and_resumed

import carya
from carya._iterables.order import Endless, Rounds
from carya._iterables.reading import IterableSource
from carya._iterables.spec import checked_iterable

LENGTHS = [17, 0, 9, 23, 5, 12]
LISTS = some.lists(some.integers(0, 30), min_size=1, max_size=9).filter(any)


def spec(fn: Any, shards: int, **options: Any) -> Any:
    given_all: dict[str, Any] = {
        "lengths": None, "samples": None, "window": 8, "names": None, "seed_globals": True, "version": None
    }  # fmt: skip
    return checked_iterable(fn, shards, **{**given_all, **options})


@settings(max_examples=150, deadline=None)
@given(
    lengths=LISTS,
    seed=some.one_of(some.none(), some.integers(0, 2**64 - 1)),
    window=some.integers(1, 40),
    data=some.data(),
)
def test_every_sample_of_every_shard_once_in_each_epoch_and_any_part_is_the_same(
    lengths: list[int], seed: int | None, window: int, data: some.DataObject
) -> None:
    rounds = Rounds(np.array(lengths), seed, window)
    assert rounds.count == sum(lengths)
    for epoch in (0, 3):
        shards, offsets = rounds.at(epoch, 0, rounds.count)
        found = Counter(zip(shards.tolist(), offsets.tolist(), strict=True))
        assert found == Counter((shard, at) for shard, length in enumerate(lengths) for at in range(length))
        first = data.draw(some.integers(0, rounds.count - 1))
        count = data.draw(some.integers(0, rounds.count - first))
        part = rounds.at(epoch, first, count)
        assert [one.tolist() for one in part] == [
            shards[first : first + count].tolist(), offsets[first : first + count].tolist()
        ]  # fmt: skip
        behind = shards[first // window * window if seed is not None else first :]
        floor = rounds.floor(epoch, first)
        assert offsets[len(shards) - len(behind) :].min() >= floor
        if seed is None:  # each shard in turn, and in its order
            for shard, length in enumerate(lengths):
                assert offsets[shards == shard].tolist() == list(range(length))


@settings(max_examples=60, deadline=None)
@given(shards=some.integers(1, 7), count=some.integers(1, 40), window=some.integers(1, 9), seed=some.integers(0, 99))
def test_endless_shards_go_on_from_epoch_to_epoch(shards: int, count: int, window: int, seed: int) -> None:
    for of in (Endless(shards, count, None, window), Endless(shards, count, seed, window)):
        found = [one for epoch in range(4) for one in zip(*of.at(epoch, 0, count), strict=True)]
        assert sorted((offset, shard) for shard, offset in found) == [divmod(n, shards) for n in range(4 * count)]
        assert min(offset for _, offset in zip(*of.at(2, 0, count), strict=True)) >= of.floor(2, 0)


@settings(max_examples=60, deadline=None)
@given(
    lengths=LISTS, shuffle=some.booleans(), window=some.integers(1, 12), workers=some.integers(1, 3), data=some.data()
)
def test_readers_that_share_the_shards_read_each_sample_once(
    lengths: list[int], shuffle: bool, window: int, workers: int, data: some.DataObject
) -> None:
    of = spec(code.Counting(lengths), len(lengths), lengths=lengths, window=window)
    readers = [IterableSource(of, 5, shuffle, "") for _ in range(workers)]
    at, found = 0, []
    while at < of.count:
        count = min(data.draw(some.integers(1, 10)), of.count - at)
        for number, reader in enumerate(readers):
            records, _ = reader.rows(0, at, count)
            mine = reader.owners(np.array(records), workers) == number
            found += [(record, reader.sample(record, 0, 0)) for record, own in zip(records, mine, strict=True) if own]
            assert sum(len(cursor.kept) for cursor in reader._cursors.values()) <= window
        at += count
    assert [reader.skipped for reader in readers] == [0] * workers
    assert sorted(sample["x"] for _, sample in found) == [
        1000 * shard + offset for shard, length in enumerate(lengths) for offset in range(length)
    ]
    alone = IterableSource(of, 5, shuffle, "")
    assert all(alone.sample(record, 0, 1)["r"] == sample["r"] for record, sample in found[:5]), "drawn by the record"


def shards(**batch: Any) -> carya.Pipeline:
    return carya.iterable(code.Counting(LENGTHS), shards=6, window=10).shuffle(seed=4).map(code.noisy).batch(**batch)


def in_turn(**batch: Any) -> carya.Pipeline:
    return carya.iterable(code.Counting(LENGTHS), shards=6, lengths=LENGTHS).map(code.with_name).batch(**batch)


def filtered(**batch: Any) -> carya.Pipeline:
    p = carya.iterable(code.Counting(LENGTHS), shards=6, window=7).filter(code.no_third)
    return p.shuffle(seed=2).map(code.noisy).batch(**batch)


def endless(**batch: Any) -> carya.Pipeline:
    return carya.iterable(code.Counting([7, 3, 5]), shards=3, samples=41, window=6).shuffle(seed=1).batch(**batch)


def whole(**batch: Any) -> carya.Pipeline:
    return carya.iterable(code.Counting(LENGTHS), shards=6).shuffle(seed=3).batch(**batch).map_batches(dict)


def mix(**batch: Any) -> carya.Pipeline:
    lengths = [9, 4, 11]
    of = carya.iterable(code.Counting(lengths), shards=3, lengths=lengths, window=5).shuffle(seed=1)
    parts = [of, carya.dataset(code.Numbers(13)).shuffle(seed=2)]
    return carya.mix(parts, weights=(2, 1), stop="all", seed=3).map(code.noisy).batch(**batch)


MADE = {"shards": shards, "in turn": in_turn, "filtered": filtered, "endless": endless, "whole": whole, "mix": mix}


@pytest.mark.parametrize("name", MADE)
def test_world_sizes_kills_and_resumes_give_the_stream_of_an_undisturbed_run(name: str) -> None:
    made = MADE[name]
    names = ("x", "r")
    undisturbed = epoch_digest_of(made(global_size=6), names)
    assert epoch_digest_of(made(batch_size=5), names, threads=3) == undisturbed
    assert digest(killed_and_resumed(made, steps=3, ranks=3, global_size=9), names) == undisturbed


def epoch_digest_of(pipeline: carya.Pipeline, names: tuple[str, ...], **options: Any) -> str:
    with carya.Loader(pipeline, **{"threads": 1, **options}) as loader:
        return digest((batch for _ in range(2) for batch in loader), names)


def test_an_epoch_has_every_sample_once_and_its_length_is_known_to_the_loader() -> None:
    pipeline = shards(batch_size=8)
    with carya.Loader(pipeline, threads=2, epochs=1) as loader:
        batches = [copied(batch) for batch in loader]
        assert len(loader) == len(batches) == -(-sum(LENGTHS) // 8)
    found = sorted(int(x) for batch in batches for x in batch["x"])
    assert found == [1000 * shard + offset for shard, length in enumerate(LENGTHS) for offset in range(length)]
    records = [int(record) for batch in batches for record in batch.records]
    assert [r % 6 * 1000 + r // 6 for r in records] == [int(x) for batch in batches for x in batch["x"]]
    assert int(pipeline.sample(records[3])["x"]) == int(batches[0]["x"][3])
    with pytest.raises(carya.Unsupported, match=r"len: an iterable has no length .*lengths="):
        len(pipeline)
    with pytest.raises(IndexError, match="there is no sample 3 of shard 1"):
        in_turn(batch_size=2).sample(19)
    assert len(in_turn(batch_size=2)) == sum(LENGTHS)
    assert len(list(carya.iterable(code.Counting([2, 1]), shards=2, lengths=[2, 1]))) == 3


def test_counts_are_kept_and_lengths_need_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    marks = tmp_path / "marks"
    lengths = [4, 6]
    total = 0
    for options, reads in (({}, 20), ({}, 10), ({"lengths": lengths}, 10)):
        # It writes the file that it names, so it says itself what it is.
        p = carya.iterable(code.Seeking(lengths, str(marks)), shards=2, version=1, **options).batch(2)
        with carya.Loader(p, threads=1, epochs=1) as loader:
            assert sorted(int(x) for batch in loader for x in batch["x"]) == [0, 1, 2, 3, *range(1000, 1006)]
        total += reads
        # A generator runs to its next yield; the sample that tells what fields there are is made once more.
        assert total <= marks.stat().st_size <= total + 1
        total = marks.stat().st_size


def test_a_resume_passes_over_samples_or_begins_behind_them(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    lengths = [3000, 3000]
    plain = carya.iterable(code.Counting(lengths), shards=2, lengths=lengths).batch(100)
    seeks = carya.iterable(code.Seeking(lengths, str(marks)), shards=2, lengths=lengths).batch(100)
    for pipeline, skipped in ((plain, 2500 * 2), (seeks, 0)):
        with carya.Loader(pipeline, threads=2, epochs=1) as loader:
            state = {**loader.state_dict(), "position": 5000}
        before = marks.stat().st_size if marks.exists() else 0
        with carya.Loader(pipeline, threads=2, epochs=1, state=state) as loader:
            assert sorted(int(x) % 100_000 for batch in loader for x in batch["x"]) == [
                shard * 1000 + offset for shard in range(2) for offset in range(2500, 3000)
            ]
            # The sample that tells what fields there are is one of them, in whichever worker made it.
            assert skipped - 1 <= loader.stats()["workers"]["skipped"] <= skipped
        if pipeline is seeks:
            assert marks.stat().st_size - before <= 1000 + 2


def test_the_epoch_is_told_to_who_takes_it(tmp_path: Path) -> None:
    p = carya.iterable(code.Seeking([3, 2], str(tmp_path / "marks")), shards=2).batch(5)
    with carya.Loader(p, threads=1, epochs=2) as loader:
        assert [[int(x) // 100_000 for x in batch["x"]] for _ in range(2) for batch in loader] == [[0] * 5, [1] * 5]


def test_an_iterator_with_states_goes_on_near_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path))
    for kind in (code.StatefulIterator, code.StatefulIterable):
        p = carya.iterable(code.Of(kind, 5000), shards=1, lengths=5000, version=kind.__name__).batch(100)
        with carya.Loader(p, threads=1, epochs=1) as loader:
            state = {**loader.state_dict(), "position": 4700}
            assert sum(len(batch["x"]) for batch in loader) == 5000
        with carya.Loader(p, threads=1, epochs=1, state=state) as loader:
            assert [int(x) for batch in loader for x in batch["x"]] == list(range(4700, 5000))
            assert loader.stats()["workers"]["skipped"] == 4700 - 4 * 1024
        for path in (tmp_path / "iterables").iterdir():
            path.write_text("{" if kind is code.StatefulIterator else '{"states": 3, "every": "x"}')
        with carya.Loader(p, threads=1, epochs=1, state=state) as loader:  # damaged: only slower
            assert [int(x) for batch in loader for x in batch["x"]] == list(range(4700, 5000))
            assert loader.stats()["workers"]["skipped"] in (4699, 4700)


def test_workers_killed_again_and_again_change_no_bit() -> None:
    expected = epoch_digest(shards(batch_size=4), 6, threads=1)
    found: list[Any] = []
    with carya.Loader(shards(batch_size=4), threads=3, epochs=6) as loader:
        for _ in range(6):
            for step, batch in enumerate(loader):
                found.append(copied(batch))
                pids = loader._job._figures.get("pids", [])  # type: ignore[attr-defined]
                if step % 5 == 2 and pids:
                    try:
                        os.kill(pids[step % len(pids)], signal.SIGKILL)
                    except ProcessLookupError:  # figures of before the last kill
                        continue
        assert loader.stats()["workers"]["died"] >= 3
    assert digest(found) == expected


def test_resume_at_every_few_steps() -> None:
    pipeline = filtered(batch_size=4)
    with carya.Loader(pipeline, threads=2, epochs=1) as loader:
        batches = [copied(batch) for batch in loader]
    check_resume(pipeline, batches)


def fault(what: str, at: tuple[int, int], once: str = "", **options: Any) -> carya.Pipeline:
    lengths = [5, 5]
    return carya.iterable(code.Counting(lengths, what, at, once), shards=2, **options).batch(4)


def test_what_an_iterator_raises_stands_at_its_sample() -> None:
    with carya.Loader(fault("raise", (1, 2)), threads=2, epochs=1) as loader:
        with pytest.raises(ValueError, match="a bad sample") as raised:
            list(loader)
        assert "record 5 (sample 2 of shard 1)" in "".join(raised.value.__notes__)
        assert (raised.value.record, raised.value.position) == (5, 5)  # type: ignore[attr-defined]
    for policy in ("mask", "replace"):
        with carya.Loader(fault("raise", (1, 2)), threads=2, epochs=1, on_error=policy) as loader:  # type: ignore[arg-type]
            rows = [int(x) for batch in loader for x in batch["x"][batch.valid]]
            (entry,) = loader.quarantine()
            assert (entry["record"], entry["substitute"] is None) == (5, policy == "mask")
        assert set(rows) == {0, 1, 2, 3, 4, 1000, 1001}, "a generator is over behind an exception"
        assert len(rows) == 7 + (policy == "replace")


def test_a_shard_that_ends_early_is_told_under_every_policy() -> None:
    for what, told in (
        ("", r"shard 1 ended after 5 samples \(lengths= says 7\); give the lengths"),
        (
            "raise",
            r"shard 1 ended after 5 samples \(lengths= says 7, and the last one raised ValueError: a bad sample\); catch",
        ),
    ):
        pipeline = fault(what, (1, 4), lengths=[5, 7])
        with (
            carya.Loader(pipeline, threads=2, epochs=1, on_error="mask") as loader,
            pytest.raises(carya.InvalidArgument, match=told),
        ):
            list(loader)
    with carya.Loader(fault("", (-1, -1), lengths=3), threads=1, epochs=1) as loader:
        assert [int(x) for batch in loader for x in batch["x"]] == [0, 1000, 1, 1001, 2, 1002], "no more are asked for"


def test_a_shard_that_kills_or_hangs_is_tried_again_and_is_then_named(tmp_path: Path) -> None:
    undisturbed = epoch_digest(fault("", (-1, -1)), threads=1)
    once = str(tmp_path / "once")
    assert epoch_digest(fault("kill", (1, 2), once, lengths=5), threads=2) == undisturbed
    with (
        carya.Loader(fault("kill", (1, 2), lengths=5), threads=2, epochs=1) as loader,
        pytest.raises(carya.WorkerDied, match=r"record 5: .*SIGKILL, and so did three others"),
    ):
        list(loader)
    with (
        carya.Loader(fault("hang", (1, 2), lengths=5), threads=2, epochs=1, function_timeout=0.5) as loader,
        pytest.raises(carya.Timeout, match="record 5"),
    ):
        list(loader)


def test_passing_over_many_samples_is_no_hang() -> None:
    p = carya.iterable(code.Slow(60, 0.02), shards=1, lengths=60).batch(10)
    with carya.Loader(p, threads=1, epochs=1) as loader:
        state = {**loader.state_dict(), "position": 50}
    with carya.Loader(p, threads=1, epochs=1, state=state, function_timeout=0.6) as loader:
        assert [int(x) for batch in loader for x in batch["x"]] == list(range(50, 60))


@pytest.mark.parametrize(
    ("fn", "kind", "told"),
    [
        (code.none, carya.InvalidArgument, r"iterable\(none\): for shard 0 it returned None; return an iterator"),
        (code.a_text, carya.InvalidArgument, "it returned an object of type str"),
        (code.refuses, ValueError, "no such shard"),
        (code.nothing, carya.InvalidArgument, "no shard has a sample"),
        (code.several_shapes, carya.InvalidArgument, "the first sample has"),
    ],
)
def test_functions_that_give_no_samples_say_so(fn: Any, kind: Any, told: str) -> None:
    for policy in ("raise", "mask"):
        with pytest.raises(kind, match=told):
            list(carya.Loader(carya.iterable(fn, shards=2).batch(2), threads=1, epochs=1, on_error=policy))  # type: ignore[arg-type]


def test_endless_shards_are_no_problem_and_empty_ones_are() -> None:
    p = carya.iterable(code.forever, shards=3, samples=10).batch(5)
    with carya.Loader(p, threads=2, epochs=3) as loader:
        found = [int(x) for _ in range(3) for batch in loader for x in batch["value"]]
    assert found == [n // 3 for n in range(30)]
    assert len(p) == 10
    with pytest.raises(carya.InvalidArgument, match="shard 1 has no sample; give shards of at least one"):
        list(carya.Loader(carya.iterable(code.Counting([2, 0]), shards=2, samples=4).batch(4), threads=1, epochs=1))


def test_mistakes() -> None:
    fn = code.Counting([3, 3])
    for call, told in [
        (lambda: carya.iterable([1, 2], shards=2), "iterable: fn: .*iterator can be read once only"),  # type: ignore[arg-type]
        (lambda: carya.iterable(code.Counting, shards=2), "iterable: fn: got 'Counting'"),
        (lambda: carya.iterable(code.no_argument, shards=2), "iterable: fn: .*a function of one argument"),
        (lambda: carya.iterable(fn, shards=0), "iterable: shards"),
        (lambda: carya.iterable(fn, shards=2, lengths=[3]), "iterable: lengths: .*each of the 2 shards"),
        (lambda: carya.iterable(fn, shards=2, lengths=-1), "iterable: lengths"),
        (lambda: carya.iterable(fn, shards=2, lengths=[0, 0]), "iterable: lengths"),
        (lambda: carya.iterable(fn, shards=2, lengths=[1.5, 2]), "iterable: lengths"),  # type: ignore[list-item]
        (lambda: carya.iterable(fn, shards=2, samples=0), "iterable: samples"),
        (lambda: carya.iterable(fn, shards=2, samples=4, lengths=3), "iterable: samples: .*give one of the two"),
        (lambda: carya.iterable(fn, shards=2, window=0), "iterable: window"),
        (lambda: carya.iterable(fn, shards=2, names=("x", "x")), "iterable: names"),
        (lambda: carya.iterable(fn, shards=2, seed_globals=1), "iterable: seed_globals"),  # type: ignore[arg-type]
        (lambda: carya.iterable(fn, shards=2).take(3), "take: the samples of an iterable have no index"),
        (
            lambda: carya.iterable(fn, shards=2).pack(4, "x"),
            "pack: the samples of an iterable have no index; do it inside",
        ),
        (lambda: carya.iterable(fn, shards=2, samples=4).filter(code.even), "filter: an iterable with samples="),
        (
            lambda: carya.mix([carya.iterable(fn, shards=2), carya.dataset([1])]),
            r"mix: pipeline 0 is an iterable .*lengths=",
        ),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            call()
    prints = {
        one.batch(2).native.fingerprint("raise")
        for one in (
            carya.iterable(fn, shards=2),
            carya.iterable(fn, shards=3),
            carya.iterable(fn, shards=2, lengths=3),
            carya.iterable(fn, shards=2, samples=3),
            carya.iterable(fn, shards=2, window=3),
            carya.iterable(fn, shards=2, version=1),
            carya.iterable(code.forever, shards=2),
        )
    }
    assert len(prints) == 7
