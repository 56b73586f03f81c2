"""Native threads before Python functions: the bits are those of workers that make everything, and what ends them ends no stream."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import workers
from daemons import until
from picture_code import bright, cut, marked, mean_of, slow, twice
from streams import digest, epoch_digest

import carya
from carya._functions.job import FunctionJob


def prefix(photos: Path) -> carya.Pipeline:
    return (
        carya.image_folder(str(photos)).shuffle(seed=3).decode_image().random_resized_crop(40).random_horizontal_flip()
    )


def pipeline(photos: Path, **batch: Any) -> carya.Pipeline:
    """Native operations, a function, and native operations again."""
    return prefix(photos).map(marked, fields="image").random_crop(32).batch(**(batch or {"batch_size": 4}))


def native(loader: carya.Loader) -> dict[str, Any]:
    """Who made what is before the functions, once the first figures have come."""
    found: dict[str, Any] = loader.stats()["native"]
    return found


def epoch_of(loader: carya.Loader) -> Iterator[carya.Batch]:
    """The next epoch, begun when its first batch is asked for."""
    yield from loader


def both(made: carya.Pipeline, **options: Any) -> None:
    """Errors: AssertionError, where native threads give other bits than workers."""
    with carya.Loader(made, native="threads", **options) as loader:
        threads = [digest(loader) for _ in range(options["epochs"])]
        assert native(loader)["by"] == "threads"
    with carya.Loader(made, native="workers", **options) as loader:
        assert [digest(loader) for _ in range(options["epochs"])] == threads
        assert native(loader) == {"by": "workers", "why": 'native="workers" was given', "pid": None}
        assert loader.stats()["bytes_read"] == 0


@pytest.mark.parametrize(
    ("batch", "options"),
    [
        ({"batch_size": 4}, {"threads": 2}),
        ({"batch_size": 5, "drop_last": True}, {"threads": 1, "slots": 2}),
        ({"global_size": 8, "pad_last": True}, {"threads": 2, "rank": 1, "world_size": 2}),
        ({"global_size": 9}, {"threads": 2, "rank": 2, "world_size": 3, "seed": 5}),
        ({"batch_size": 64}, {"threads": 3, "prefetch_epochs": False}),
    ],
)
def test_native_threads_give_the_bits_of_workers(photos: Path, batch: dict[str, Any], options: dict[str, Any]) -> None:
    both(pipeline(photos, **batch), epochs=3, **options)


def test_functions_of_whole_batches_and_lists(photos: Path) -> None:
    both(prefix(photos).batch(4).map_batches(mean_of), epochs=2, threads=2)
    both(prefix(photos).map(marked, fields="image").batch(4, lists=["label"]), epochs=2, threads=2)


def test_it_is_what_files_with_operations_get_and_the_reason_is_told_elsewhere(photos: Path) -> None:
    arrays = carya.arrays({"image": np.zeros((8, 4, 4, 3), np.uint8)})
    told = {
        "": pipeline(photos),
        "in memory": arrays.random_crop(2).map(cut, fields="image").batch(4),
        "no native operation": arrays.map(cut, fields="image").batch(4),
        "filter": prefix(photos).filter(bright).flat_map(twice).batch(4),
        "sampler": prefix(photos).map(marked, fields="image").weighted([1.0] * 27, replacement=False).batch(4),
        "size of its own": carya.image_folder(str(photos)).decode_image().map(cut, fields="image").batch(4),
    }
    for why, made in told.items():
        with carya.Loader(made, threads=1, epochs=1) as loader:
            for _ in loader:
                pass
            assert why in native(loader)["why"]
            assert (native(loader)["by"] == "threads") == (not why)
    with carya.Loader(told["in memory"], threads=1, epochs=1, native="threads") as loader:
        assert digest(loader) == epoch_digest(told["in memory"], threads=1)
        assert native(loader)["by"] == "threads"


def test_a_state_goes_on_and_another_place_may_be_sought(photos: Path) -> None:
    whole = epoch_digest(pipeline(photos, global_size=6), threads=2, native="workers")
    with carya.Loader(pipeline(photos, global_size=6), threads=2, epochs=2) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        rest = digest(iterator)
        loader.load_state_dict(state)  # back, while later batches lie ready
        assert digest(loader) == rest
        loader.set_epoch(0)
        assert digest(loader) == whole
        assert native(loader)["by"] == "threads"
    with carya.Loader(pipeline(photos, global_size=4), threads=2, state=state, native="workers") as loader:
        expected = digest(loader)
    with carya.Loader(pipeline(photos, global_size=4), threads=2, state=state) as loader:  # steps begin elsewhere
        assert digest(loader) == expected
        assert native(loader)["by"] == "threads"


@pytest.mark.parametrize("policy", ["mask", "replace"])
def test_broken_records_are_the_workers_business(damaged: list[str], policy: Any) -> None:
    made = carya.files(damaged).decode_image().random_crop(16).map(marked, fields="image").batch(4)
    found = []
    for who in ("threads", "workers"):
        with carya.Loader(made, native=who, threads=2, epochs=2, on_error=policy) as loader:  # type: ignore[arg-type]
            digests = [digest(loader), digest(loader)]
            found.append((digests, loader.quarantine()))
    assert found[0] == found[1]
    assert len(found[0][1]) == 6
    with carya.Loader(made, native="threads", threads=2) as loader, pytest.raises(carya.SampleError, match=r"03\.jpg"):
        digest(loader)


def test_a_killed_process_of_native_threads_costs_no_bit(photos: Path) -> None:
    made = prefix(photos).map(slow, fields="image").map(marked, fields="image").batch(2)
    expected = epoch_digest(made, 3, threads=2, native="workers")
    rng = random.Random(4)
    for _ in range(6):
        with carya.Loader(made, threads=2, epochs=3) as loader:
            batches = iter(loader)
            begun = [next(batches)]  # the process is told with a batch
            pid = native(loader)["pid"]
            time.sleep(rng.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            assert digest(itertools.chain(begun, batches, epoch_of(loader), epoch_of(loader))) == expected
            assert native(loader) == {"by": "workers", "why": "its process has ended", "pid": None}


def test_data_that_change_while_a_loader_is_made_are_an_error(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes list the folder anew, after the trainer did."""
    folder, start = tmp_path / "photos", FunctionJob._start
    shutil.copytree(photos, folder)

    def changed(job: FunctionJob, epoch: int) -> None:
        shutil.copy(folder / "class_a" / "00.jpg", folder / "class_a" / "zz.jpg")
        shutil.rmtree(os.environ["CARYA_CACHE_DIR"])  # of the manifest
        start(job, epoch)

    monkeypatch.setattr(FunctionJob, "_start", changed)
    with pytest.raises(carya.NotFound, match="the data changed while it was made"):
        carya.Loader(pipeline(folder), threads=1)


def test_nothing_is_left_when_a_loader_or_its_trainer_ends(photos: Path) -> None:
    with carya.Loader(pipeline(photos), threads=2, epochs=1) as loader:
        for _ in loader:
            pass
        pid = native(loader)["pid"]
        assert pid is not None
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_samples_are_kept_before_functions_and_figures_are_those_of_native_threads(photos: Path) -> None:
    made = prefix(photos).map(marked, fields="image").batch(4)
    expected = epoch_digest(made, threads=2, native="workers")
    with carya.Loader(made, threads=2, cache={"memory": "1GB"}) as loader:
        for _ in range(1000):  # figures come four times a second, with batches
            loader.set_epoch(0)
            assert digest(loader) == expected
            stats = loader.stats()
            if stats["bytes_read"] and stats["cache"]["hits"]:
                break
        assert stats["cache"]["after"] == "decode_image"
        assert stats["io_engine"]
        assert "map(marked)" in [op["name"] for op in stats["ops"]]
        assert any("decode_image" in op["name"] for op in stats["ops"])


def test_remote_workers_make_what_is_before_functions(photos: Path) -> None:
    made = prefix(photos).map(slow, fields="image").map(marked, fields="image").batch(4)
    expected = epoch_digest(made, 1, threads=2, native="workers")
    with workers.running("--insecure") as worker:
        options: dict[str, Any] = {"remote": [f"127.0.0.1:{worker.port}"], "placement": "remote:1"}
        with carya.Loader(made, threads=1, **options) as loader:
            for _ in range(1000):
                loader.set_epoch(0)
                assert digest(loader) == expected
                if loader.stats()["remote_chunks"]:
                    break
            assert loader.placement()["running"]["workers"] == 1
