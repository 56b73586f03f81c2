"""Filters and samplers beside native operations: native threads make what is native, with the bits of workers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import daemons
import numpy as np
import pytest
import workers
from picture_code import (
    Marking,
    bright,
    label_or_raises,
    marked,
    mean_of,
    narrow,
    narrow_or_raises,
    not_the_last_class,
    two_of,
)
from streams import digest, epoch_digest
from test_remote import at, read_until_remote

import carya
from carya._orders.draws import Draws

Made = Callable[..., carya.Pipeline]


def folder(photos: Path) -> carya.Pipeline:
    return carya.image_folder(str(photos))


# Each ends without a batch. `alone`: filters are all that is not native.
ALONE: dict[str, Callable[[Path], carya.Pipeline]] = {
    "by label": lambda at: folder(at).shuffle(seed=3).decode_image().resize((40, 40)).filter(not_the_last_class, fields="label"),
    "by what is drawn": lambda at: folder(at).decode_image().random_resized_crop(40).filter(bright).shuffle(seed=3),
    "between operations": lambda at: folder(at).shuffle(seed=2).decode_image().filter(narrow, fields="image").random_resized_crop(40)
    .random_horizontal_flip(),
    "twice": lambda at: folder(at).decode_image().filter(not_the_last_class, fields="label").resize((40, 40))
    .filter(bright).random_crop(32).to_dtype("float32"),
    "before the decode": lambda at: folder(at).filter(not_the_last_class, fields="label").shuffle(seed=3).decode_image()
    .random_resized_crop(40).random_horizontal_flip(),
    "before and behind the decode": lambda at: folder(at).shuffle(seed=3).filter(not_the_last_class, fields="label")
    .decode_image().filter(narrow, fields="image").random_resized_crop(40),
    "of a view": lambda at: folder(at).subset(range(20, 2, -1)).decode_image().resize((40, 40))
    .filter(not_the_last_class, fields="label"),
    "arrays": lambda _: carya.arrays({"x": np.arange(60).reshape(30, 2), "label": np.arange(30) % 3}).shuffle(seed=1)
    .filter(not_the_last_class, fields="label"),
    "drawn": lambda at: folder(at).weighted(np.arange(27), samples=50).decode_image().random_resized_crop(40),
    "drawn of what is left": lambda at: folder(at).decode_image().resize((40, 40)).filter(bright)
    .balanced(np.arange(27) % 3).random_crop(32),
    "several times": lambda at: folder(at).shuffle(seed=1).decode_image().random_resized_crop(40).repeated(3, within=6),
    "several times of what is left": lambda at: folder(at).subset(range(1, 20)).decode_image().random_resized_crop(40)
    .filter(not_the_last_class, fields="label").repeated(2, samples=21),
}  # fmt: skip
BESIDE: dict[str, Callable[[Path], carya.Pipeline]] = {
    "map": lambda at: folder(at).shuffle(seed=3).decode_image().filter(not_the_last_class, fields="label")
    .random_resized_crop(40).map(marked, fields="image").random_crop(32),
    "filter, map": lambda at: folder(at).shuffle(seed=3).decode_image().random_resized_crop(40).filter(bright)
    .random_horizontal_flip().map(marked, fields="image"),
    "drawn, map": lambda at: folder(at).decode_image().weighted(np.arange(27)).random_resized_crop(40).map(marked, fields="image"),
    "several times, map": lambda at: folder(at).shuffle(seed=1).decode_image().random_resized_crop(40).repeated(3)
    .map(marked, fields="image"),
}  # fmt: skip


def both(made: carya.Pipeline, **options: Any) -> dict[str, Any]:
    """The statistics of the loader by threads. Errors: AssertionError, where they give other bits than workers, or another state."""
    found = []
    for native in ("auto", "workers"):
        with carya.Loader(made, native=native, epochs=2, **options) as loader:  # type: ignore[arg-type]
            assert len(loader) > 0
            digests = [digest(loader)]
            state = loader.state_dict()
            named = ("record", "path", "epoch", "position", "substitute")  # workers call the stage by what is native
            entries = [[entry[name] for name in named] for entry in loader.quarantine()]
            found.append((*digests, digest(loader), state, entries, len(loader)))
            if native == "auto":
                stats = loader.stats()
                assert stats["native"]["by"] == "threads"
            else:
                assert loader.stats()["native"]["by"] == "workers"
    assert found[0] == found[1]
    return stats


# Each pipeline by one of them.
SHAPES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"batch_size": 4}, {"threads": 2}),
    ({"batch_size": 5, "drop_last": True}, {"threads": 1, "slots": 2, "seed": 9}),
    ({"global_size": 6, "pad_last": True}, {"threads": 2, "rank": 1, "world_size": 2}),
]


@pytest.mark.parametrize(("number", "name"), [*enumerate([*ALONE, *BESIDE])])
def test_native_threads_give_the_bits_of_workers(photos: Path, number: int, name: str) -> None:
    batch, options = SHAPES[number % 3]
    made = (ALONE | BESIDE)[name](photos).batch(**batch)
    stats = both(made, **options)
    assert ("workers" in stats) == (name in BESIDE)


def test_a_decode_behind_a_filter_is_one_wherever_the_sample_is_made(photos: Path) -> None:
    """In a mix, in `pipeline.sample`, beside a stage that makes samples of samples, and where a filter raises for some record."""
    whole = folder(photos).decode_image().resize((40, 40))
    part = folder(photos).filter(not_the_last_class, fields="label").decode_image().resize((40, 40))
    assert np.array_equal(part.sample(3)["image"], whole.sample(3)["image"])
    assert part.outputs == whole.outputs
    with carya.Loader(carya.mix([part, whole]).batch(5), threads=1, epochs=1) as loader:
        rows = {int(record): batch["image"][i].copy() for batch in loader for i, record in enumerate(batch.records)}
    assert sorted(rows) == [*range(18), *range(27, 54)]
    assert all(np.array_equal(row, whole.sample(record % 27)["image"]) for record, row in rows.items())
    twice = folder(photos).filter(not_the_last_class, fields="label").decode_image().resize((40, 40)).flat_map(two_of)
    with carya.Loader(twice.batch(36), threads=1, epochs=1) as loader:
        (batch,) = loader
        assert batch["image"].shape == (36, 40, 40, 3)
    raising = folder(photos).filter(label_or_raises, fields="label").decode_image().resize((40, 40)).batch(9)
    with carya.Loader(raising, threads=1, epochs=1, on_error="mask") as loader:
        assert [batch.valid.sum() for batch in loader] == [9, 0]
        assert {entry["reason"] for entry in loader.quarantine()} == {"ValueError: the class 1"}


def test_whole_batches_of_what_is_left(photos: Path) -> None:
    made = ALONE["by label"](photos)
    assert "workers" in both(made.batch(4).map_batches(mean_of), threads=2)
    assert "workers" in both(made.batch(4, lists=["label"]), threads=2)


def test_a_state_goes_on_by_whichever_threads(photos: Path) -> None:
    made: Made = lambda **batch: ALONE["between operations"](photos).batch(**batch)  # noqa: E731
    with carya.Loader(made(global_size=6), native="workers", threads=1) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        rest = digest(iterator)
    for ranks in (1, 2):
        parts = []
        for rank in range(ranks):
            with carya.Loader(made(global_size=6), state=state, rank=rank, world_size=ranks, threads=2) as loader:
                assert "workers" not in loader.stats()
                parts.append([batch.records.tolist() for batch in loader])
                loader.load_state_dict(state)
                if ranks == 1:
                    assert digest(loader) == rest
        records = [record for step in zip(*parts, strict=True) for part in step for record in part]
        with carya.Loader(made(global_size=6), state=state, threads=1, native="workers") as loader:
            assert records == [record for batch in loader for record in batch.records.tolist()]
    other = (
        folder(photos).shuffle(seed=2).decode_image().filter(bright).random_resized_crop(40).random_horizontal_flip()
    )
    with pytest.raises(carya.InvalidArgument, match=r"pipeline differs|dataset differs"):
        carya.Loader(other.batch(global_size=6), state=state)


def test_records_are_drawn_as_numpy_draws_them() -> None:
    random = np.random.default_rng(8)
    weights = random.random(1000) ** 4 * (random.random(1000) < 0.9)
    made = carya.arrays({"x": np.arange(1000)}).shuffle(seed=2**63 + 5).weighted(weights, samples=7001).batch(7001)
    expected = Draws(weights, 7001, True, 2**63 + 5)
    with carya.Loader(made, threads=1, epochs=3) as loader:
        assert "workers" not in loader.stats()
        for epoch in range(3):
            (found,) = [batch.records.tolist() for batch in loader]
            assert found == expected.at(epoch, 0, 7001).tolist()


def test_records_drawn_once_are_the_workers(photos: Path) -> None:
    made = folder(photos).decode_image().resize((40, 40)).weighted(np.arange(27), replacement=False)
    with carya.Loader(made.batch(4), threads=1, epochs=1) as loader:
        assert sorted(record for batch in loader for record in batch.records.tolist()) == list(range(1, 27))
        assert loader.stats()["native"]["by"] == "workers"
        assert "sampler" in loader.stats()["native"]["why"]


@pytest.mark.parametrize("policy", ["mask", "replace"])
def test_broken_records_that_are_drawn(damaged: list[str], policy: Any) -> None:
    made = carya.files(damaged).shuffle(seed=5).decode_image().random_crop(16)
    both(made.repeated(3, within=6).batch(4), threads=2, on_error=policy)
    both(made.weighted(np.arange(12), samples=30).batch(4), threads=2, on_error=policy)


@pytest.mark.parametrize("policy", ["mask", "replace"])
def test_broken_records_that_filters_keep(damaged: list[str], policy: Any) -> None:
    labels = np.arange(12) % 3
    made = carya.files(damaged, labels=labels).shuffle(seed=5).decode_image().random_crop(16)
    made = made.filter(not_the_last_class, fields="label").batch(4)
    both(made, threads=2, on_error=policy)
    with carya.Loader(made, on_error=policy, epochs=1) as loader:
        batches = [(batch.records.copy(), batch.valid.copy()) for batch in loader]
        entries = loader.quarantine()
    assert {entry["record"] for entry in entries} == {3}, "5 and 8 are of the last class, and nobody reads them"
    assert all(labels[records[valid]].max() < 2 for records, valid in batches)
    assert policy == "mask" or all(labels[entry["substitute"]] < 2 for entry in entries)


def test_what_a_filter_asks_of_memory_reads_no_file(photos: Path, tmp_path: Path) -> None:
    root = tmp_path / "photos"
    shutil.copytree(photos, root)
    made = folder(root).filter(not_the_last_class, fields="label").decode_image().resize((32, 32)).batch(4)
    expected = epoch_digest(made, threads=1)
    shutil.rmtree(root / "class_c")  # all of the class that the filter drops, after the listing
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    with carya.Loader(made, threads=2, epochs=1) as loader:
        assert digest(loader) == expected


def test_a_filter_that_raises_is_asked_once_and_again_at_its_records(photos: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    made = folder(photos).decode_image().resize((32, 32)).filter(Marking(str(marks))).batch(4)
    with carya.Loader(made, threads=2, epochs=1, on_error="mask") as loader:
        assert sum(int(batch.valid.sum()) for batch in loader) == 18
    assert marks.stat().st_size == 27 + 9


def test_a_filter_that_raises_is_asked_again_at_its_record(photos: Path) -> None:
    made = folder(photos).shuffle(seed=1).decode_image().resize((32, 32)).filter(narrow_or_raises).batch(4)
    with carya.Loader(made, threads=2, epochs=1) as loader:
        with pytest.raises(ValueError, match="a label that it does not know"):
            digest(loader)
        assert loader.stats()["native"]["by"] == "workers"
    with carya.Loader(made, threads=2, epochs=1, on_error="mask") as loader:
        rows = sum(int(batch.valid.sum()) for batch in loader)
        assert (rows, len(loader.quarantine())) == (18, 9)


def test_options_of_native_threads_and_reports(photos: Path) -> None:
    made = ALONE["by label"](photos).batch(4)
    expected = epoch_digest(made, 2, native="workers", threads=1)
    with carya.Loader(
        made, threads=2, cache={"memory": "100MB"}, read_ahead="1MB", as_tuple=("image", "label")
    ) as loader:
        assert [len(row) for _, row in zip(range(2), loader, strict=False)] == [2, 2]
        loader.set_epoch(0)
        assert sum(1 for _ in range(2) for _ in loader) == 10
        assert "decode_image" in str(loader.explain())
        assert "worker process" not in str(loader.explain())
        assert loader.stats()["bytes_read"] > 0
        assert loader.stats()["cache"]["hits"] > 0
    told = str(made.explain())
    assert "before the first batch, in worker processes" in told
    assert "worker process" not in told.splitlines()[-1]
    assert epoch_digest(made, 2, threads=3, reorder="off") == expected
    assert epoch_digest(made, 2, threads=2, weight=3.0) == expected
    with pytest.raises(carya.InvalidArgument, match="native"):
        carya.Loader(made, native="workers", cache={"memory": "1MB"})


DAEMON = [
    "by label",
    "between operations",
    "of a view",
    "arrays",
    "drawn of what is left",
    "several times of what is left",
]


def test_daemons_make_what_is_left(photos: Path) -> None:
    with daemons.running() as daemon:
        for name in DAEMON:
            made = ALONE[name](photos).batch(global_size=6)
            wanted = epoch_digest(made, 2, native="workers", threads=1)
            assert epoch_digest(made, 2, daemon=daemon.socket) == wanted
        with carya.Loader(made, daemon=daemon.socket, epochs=1) as loader:
            iterator = iter(loader)
            next(iterator)
            state, rest = loader.state_dict(), digest(iterator)
            assert loader.stats()["place"] == daemon.socket
        with carya.Loader(made, state=state, threads=1, native="workers") as loader:
            assert digest(loader) == rest
        common: dict[str, Any] = {"job": "two", "world_size": 2, "daemon": daemon.socket, "epochs": 1}
        with carya.Loader(made, rank=0, **common) as first, carya.Loader(made, rank=1, **common) as second:
            pairs = [[batch.records.tolist() for batch in step] for step in zip(first, second, strict=True)]
        with carya.Loader(made, threads=1, native="workers", epochs=1) as loader:
            assert [low + high for low, high in pairs] == [batch.records.tolist() for batch in loader]
        other = ALONE["by label"](photos).batch(global_size=6)
        with carya.Loader(made, rank=0, **common), pytest.raises(carya.InvalidArgument, match="another pipeline"):
            carya.Loader(other, rank=1, **common)
    with daemons.running() as daemon:
        with carya.Loader(made, daemon=daemon.socket, slots=2, reattach_timeout=0.1) as loader:
            iterator = iter(loader)
            got = [next(iterator).records.tolist()]
            daemon.end()
            with pytest.warns(RuntimeWarning):
                got += [batch.records.tolist() for batch in iterator]
            assert loader.stats()["place"] == "embedded"
        with carya.Loader(made, threads=1, native="workers", epochs=1) as loader:
            assert got == [batch.records.tolist() for batch in loader]


def test_each_job_of_a_daemon_has_the_order_of_its_pipeline(photos: Path) -> None:
    """Whichever jobs over the same files came before it, or run beside it."""
    plain = folder(photos).shuffle(seed=5).decode_image().resize((16, 16))
    chains = [one.batch(4) for one in (plain, plain.repeated(2), plain.repeated(3), plain)]
    wanted = [epoch_digest(one, threads=1, daemon="embedded") for one in chains]
    assert len(set(wanted)) == 3
    with daemons.running() as daemon:
        assert [epoch_digest(one, threads=1, daemon=daemon.socket) for one in chains] == wanted


def test_a_daemon_that_is_gone_is_told_at_the_line_of_the_loader(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> Any:
        raise carya.Closed("caryad: gone")

    monkeypatch.setattr(carya.Pipeline, "attach", gone)
    monkeypatch.setattr("carya._loading.function_job.ChosenRecords.attach", gone)
    with daemons.running() as daemon:
        monkeypatch.setenv("CARYA_DAEMON_SOCKET", daemon.socket)
        made = folder(photos).decode_image().resize((32, 32))
        for pipeline in (made.batch(4), made.filter(not_the_last_class, fields="label").batch(4)):
            with pytest.warns(RuntimeWarning, match="works without the daemon: caryad: gone") as told:
                carya.Loader(pipeline).close()
            assert [one.filename for one in told] == [__file__]


def test_jobs_share_what_is_left(photos: Path) -> None:
    made = ALONE["by label"](photos).batch(4)
    wanted = epoch_digest(made, native="workers", threads=1)
    with daemons.running() as daemon:
        options: dict[str, Any] = {"daemon": daemon.socket, "share": "sweep", "epochs": 1}
        with carya.Loader(made, **options) as first, carya.Loader(made, **options) as second:
            pairs = list(zip(first, second, strict=True))
            assert all((one.records == two.records).all() for one, two in pairs)
            assert len(daemon.status()["jobs"]) == 1
        del pairs
        assert epoch_digest(made, **options) == wanted


def test_remote_workers_make_what_is_left(photos: Path) -> None:
    made = ALONE["between operations"](photos).batch(4)
    wanted = epoch_digest(made, native="workers", threads=1)
    with (
        workers.running() as worker,
        carya.Loader(made, remote=at(worker), placement="remote:1", threads=1) as loader,
    ):
        assert read_until_remote(loader) == wanted


def test_what_a_daemon_does_not_make_is_told(photos: Path) -> None:
    drawn = folder(photos).decode_image().resize((40, 40)).weighted(np.arange(27), replacement=False).batch(4)
    raising = folder(photos).decode_image().resize((40, 40)).filter(narrow_or_raises).batch(4)
    with daemons.running() as daemon:
        for made in (drawn, raising):
            with pytest.raises(carya.Unsupported, match=r"weight: got 3.0 .* give 0\.01 to 1"):
                carya.Loader(made, weight=3.0)
            with pytest.raises(carya.Unsupported, match="which no daemon runs"):
                carya.Loader(made, daemon=daemon.socket)
            with pytest.raises(carya.Unsupported, match=r"job: got 'a' .* no daemon runs"):
                carya.Loader(made, job="a")


def chosen(records: dict[str, Any], **numbers: Any) -> carya._core.Dataset:
    """Of five records."""
    source = carya.arrays({"x": np.arange(5)})
    document = {**json.loads(source.to_json()), "records": records}
    memory = {f":{name}": np.array(value) for name, value in numbers.items()}
    return source.dataset.choose(carya._core.Pipeline.parse(json.dumps(document)), memory)


def test_what_is_chosen_is_checked() -> None:
    kept = {"count": 2, "fingerprint": ""}
    assert chosen({"kept": kept}, kept=np.array([1, 4], np.uint64)).kept_count == 2
    for records, told in (
        ([], "no records|not handed over"),
        ([2, 2], "do not rise"),
        ([0, 5], "got record 5"),
        ([-1], "got record"),
    ):
        with pytest.raises(carya.InvalidArgument, match=told):
            chosen({"kept": kept}, kept=np.array(records, np.int64).view(np.uint64))
    drawn = {"positions": 3, "key": 1, "fingerprint": ""}
    for ends in ([], [1, 2], [0, 0, 0, 0, 0], [3, 2, 4, 5, 6], [-1, 1, 2, 3, 4], [1, 2, 3, 4, 2**53 + 1]):
        with pytest.raises(carya.InvalidArgument, match=r"draw: |not handed over"):
            chosen({"drawn": drawn}, drawn=np.array(ends, np.int64))
    for given in ({"drawn": drawn}, {"kept": kept}):
        for numbers in ({}, {"drawn": np.arange(5, dtype=np.int32), "kept": np.arange(2, dtype=np.uint8)}):
            with pytest.raises(carya.InvalidArgument, match="was not handed over; make the pipeline anew"):
                chosen(given, **numbers)
    for times, within, positions in ((2, 3, 1), (2, 2, 11)):
        with pytest.raises(carya.InvalidArgument, match="repeat: got "):
            chosen({"repeated": {"times": times, "within": within, "positions": positions}})
    for times, within, positions in ((0, 1, 1), (2, 0, 1), (2, 2, 0)):
        with pytest.raises(carya.InvalidArgument, match=r"records: repeated: \w+: got 0"):
            chosen({"repeated": {"times": times, "within": within, "positions": positions}})
    with pytest.raises(carya.InvalidArgument, match="either this or drawn"):
        chosen({"repeated": {"times": 2, "within": 2, "positions": 2}, "drawn": drawn}, drawn=np.arange(5))
    assert chosen({"repeated": {"times": 2, "within": 2, "positions": 10}}).count == 5


def test_verdicts_are_those_of_the_operations_before_the_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verdicts that are kept in the cache folder are no one's whose filter saw other pictures."""
    pictures = np.zeros((6, 8, 8, 3), np.uint8)
    pictures[::2, :4] = 255  # bright above, and as a whole
    source = carya.arrays({"image": pictures})
    of_each = [
        source.crop(0, 0, 4, 8),
        source.crop(4, 0, 4, 8).invert(),
        source.crop(4, 0, 4, 8).invert().random_crop(2),
    ]
    kept = []
    for pipeline in of_each:
        with carya.Loader(pipeline.filter(bright).batch(1), threads=1) as loader:
            kept.append([int(batch.records[0]) for batch in loader])
    assert kept == [[0, 2, 4], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]


def test_a_filter_behind_what_is_drawn_goes_by_epoch_0(photos: Path) -> None:
    """All epochs have the records of epoch 0 of the seed, and a state inside of a later epoch is exact."""
    pipeline = folder(photos).decode_image().random_resized_crop(40).filter(bright).shuffle(seed=3).batch(2)
    with carya.Loader(pipeline, threads=2) as loader:
        records = sorted(record for batch in loader for record in batch.records.tolist())
        second = [(batch.records.tolist(), batch["image"].copy()) for batch in loader]
        assert len(second) == len(loader)
    assert sorted(record for step, _ in second for record in step) == records
    with carya.Loader(pipeline, threads=1) as loader:
        loader.set_epoch(1)
        for number, _ in enumerate(loader):
            if number == 1:
                state = loader.state_dict()
                break
    with carya.Loader(pipeline, threads=1) as loader:
        loader.load_state_dict(state)
        rest = [(batch.records.tolist(), batch["image"].copy()) for batch in loader]
    assert len(rest) == len(second) - 2
    for (found, picture), (records, expected) in zip(rest, second[2:], strict=True):
        assert found == records
        assert np.array_equal(picture, expected)
