"""The loader at its edges: interrupts, errors in the user's code, files that change, limits, many lives."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from streams import numbers, records

import carya


def run(code: str, **env: str) -> str:
    """What a process of its own prints; it must end well and say nothing else (but log that io_uring is refused)."""
    start = "import carya, gc, logging, os, signal, time\nimport numpy as np\n"
    start += "logging.getLogger('carya').addHandler(logging.NullHandler())\n"
    # From 3.12 on Python warns of every fork of a process with threads.
    done = subprocess.run(
        [sys.executable, "-W", "ignore:.*multi-threaded:DeprecationWarning", "-c", start + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **env},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def photo(path: Path, seed: int) -> str:
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 48, 3), np.uint8)
    Image.fromarray(pixels).save(path, "jpeg", quality=90)
    return str(path)


@pytest.fixture
def twelve(tmp_path: Path) -> list[str]:
    return [photo(tmp_path / f"{number:02d}.jpg", number) for number in range(12)]


def small(paths: list[str], batch: int = 4) -> carya.Pipeline:
    return carya.files(paths).decode_image().resize((8, 8)).batch(batch)


# What interrupts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("step", [0, 3, 9])
def test_a_batch_that_map_batch_failed_on_comes_again(error: type[BaseException], step: int) -> None:
    left = [1]

    def fail_once(batch: Any) -> Any:
        if batch.step == step and left:
            left.pop()
            raise error
        return batch

    with carya.Loader(numbers(40, batch_size=4)) as plain:
        wanted = [records(plain), records(plain)]
    with carya.Loader(numbers(40, batch_size=4).map_batch(fail_once)) as loader:
        iterator = iter(loader)
        seen = [next(iterator).records.tolist() for _ in range(step)]
        with pytest.raises(error):
            next(iterator)
        assert loader.state_dict()["position"] == 4 * step, "what was not yielded is not behind the state"
        seen += [batch.records.tolist() for batch in iterator]
        assert [seen, records(loader)] == wanted


def test_interrupts_at_any_moment_lose_and_double_nothing() -> None:
    out = run("""
    def stop(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, stop)
    pipeline = carya.arrays({"x": np.arange(4000)}).shuffle(seed=3).batch(1)
    hits = 0
    with carya.Loader(pipeline, threads=2) as loader:
        for epoch in range(60):
            if epoch > 2 and hits > 20:
                break
            iterator, seen = iter(loader), []
            while True:
                batch = None
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.00005 + 0.000037 * (hits % 11))
                    batch = next(iterator, None)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    hits += 1
                    # Between the call's return and the assignment an interrupt takes the batch from us, not from it.
                    if batch is None:
                        state = loader.state_dict()
                        if state["epoch"] == epoch and state["position"] != len(seen):
                            seen.append(None)
                        continue
                if batch is None:
                    break
                seen.append(int(batch.records[0]))
            assert len(seen) == 4000, len(seen)
            known = [each for each in seen if each is not None]
            assert len(known) == len(set(known))
    print("interrupted" if hits > 20 else hits)
    """)
    assert out == "interrupted\n"


# Options and states that cannot be -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", 0), ("threads", 1.5), ("threads", 100_000), ("threads", 2**40), ("slots", 1), ("slots", 257),
        ("slots", 2**70), ("seed", 2**64), ("seed", -1), ("rank", 2**70), ("world_size", 0), ("epochs", 2**70),
        ("epochs", 0), ("read_ahead", 2**70), ("read_ahead", 0), ("read_ahead", "99999999999999GB"),
        ("io_timeout", -1), ("io_timeout", float("nan")), ("io_timeout", "x"), ("hold_timeout", float("nan")),
        ("on_error", "ignore"), ("io_engine", "aio"), ("reorder", "best"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_is_named(name: str, value: Any) -> None:
    with pytest.raises(carya.InvalidArgument, match=name):
        carya.Loader(numbers(40, batch_size=4), **{name: value})


@pytest.mark.parametrize("key", ["epoch", "position", "seed", "global_size", "version"])
@pytest.mark.parametrize("value", [2**70, -1, "1", None, True, 1.5])
def test_a_state_that_cannot_be_is_named(key: str, value: Any) -> None:
    with carya.Loader(numbers(40, batch_size=4)) as loader:
        state = {**loader.state_dict(), key: value}
        with pytest.raises(carya.InvalidArgument, match=key):
            loader.load_state_dict(state)
        assert next(iter(loader)).step == 0


def test_an_epoch_that_cannot_be_is_named() -> None:
    with carya.Loader(numbers(40, batch_size=4)) as loader, pytest.raises(carya.InvalidArgument, match="set_epoch"):
        loader.set_epoch(2**70)


def test_slots_beyond_the_memory_say_how_much_was_wanted() -> None:
    big = carya.arrays({"image": np.zeros((4, 4096, 4096, 3), np.uint8)}).to_dtype("float32").batch(1024)
    with pytest.raises(carya.Exhausted, match=r"256 of [\d.]+ GiB want [\d.]+ TiB: .*fewer slots="):
        carya.Loader(big, slots=256)


# Policies ------------------------------------------------------------------------------------------------------------


def test_a_new_policy_holds_from_the_next_batch_on(damaged: list[str]) -> None:
    with carya.Loader(small(damaged, 2), slots=8) as loader:
        iterator = iter(loader)
        assert next(iterator).step == 0
        time.sleep(0.3)  # the failure of step 1 waits in its slot
        loader.on_error = "mask"
        rest = list(iterator)
        assert [batch.step for batch in rest] == [1, 2, 3, 4, 5]
        assert [entry["record"] for entry in loader.quarantine()] == [3, 5, 8]
        time.sleep(0.3)
        loader.on_error = "raise"
        with pytest.raises(carya.SampleError):
            list(loader)


def test_after_an_error_and_a_new_policy_a_break_abandons_the_epoch(damaged: list[str]) -> None:
    with carya.Loader(small(damaged, 2)) as loader:
        iterator = iter(loader)
        next(iterator)
        for _ in range(3):
            with pytest.raises(carya.SampleError, match=r"03\.jpg"):
                next(iterator)
        loader.on_error = "replace"
        assert (next(iterator).step, loader.epoch) == (1, 0)
        assert next(iter(loader)).epoch == 1


# Files that are not what they were -----------------------------------------------------------------------------------


def _longer(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"more")


def _shorter(path: str) -> None:
    os.truncate(path, os.path.getsize(path) - 5)


def _pipe(path: str) -> None:
    os.unlink(path)
    os.mkfifo(path)


def _folder(path: str) -> None:
    os.unlink(path)
    os.mkdir(path)


def _loop(path: str) -> None:
    os.unlink(path)
    os.symlink(os.path.basename(path), path)


@pytest.mark.parametrize("engine", ["uring", "pread"])
@pytest.mark.parametrize("change", [_longer, _shorter, os.unlink, _pipe, _folder, _loop])
@pytest.mark.parametrize("policy", ["raise", "mask", "replace"])
def test_a_file_that_changed_is_an_io_error(
    twelve: list[str], engine: Any, change: Any, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = small(twelve)
    listed = chain.open()
    monkeypatch.setattr(carya.Pipeline, "open", lambda _: listed)  # it changes after the loader has listed it
    change(twelve[6])
    try:
        loader = carya.Loader(chain, io_engine=engine, io_timeout=0.05, on_error=policy)
    except carya.Unsupported:
        pytest.skip("this kernel refuses io_uring")
    with loader:
        iterator = iter(loader)
        assert next(iterator).step == 0
        with pytest.raises(carya.IoError, match=r"06\.jpg") as raised:
            next(iterator)
        assert raised.value.record == 6
        assert not loader.quarantine()
        os.unlink(twelve[6]) if not os.path.isdir(twelve[6]) and os.path.lexists(twelve[6]) else None
        if os.path.isdir(twelve[6]):
            os.rmdir(twelve[6])
        photo(Path(twelve[6]), 6)
        loader.load_state_dict(loader.state_dict())
        assert [batch.step for batch in loader] == [1, 2], "storage is back, and so is the stream"


def test_a_file_without_permission_is_an_io_error_that_says_so(twelve: list[str]) -> None:
    os.chmod(twelve[6], 0)
    out = (
        run(f"""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    paths = {twelve!r}
    chain = carya.files(paths).decode_image().resize((8, 8)).batch(4)
    with carya.Loader(chain, io_timeout=0.05) as loader:
        iterator = iter(loader)
        next(iterator)
        try:
            next(iterator)
        except carya.IoError as error:
            print("Permission denied" in str(error), "06.jpg" in str(error), error.errno)
    """)
        if _others_may_enter(Path(twelve[6]).parent)
        else "True True 13\n"
    )
    assert out == "True True 13\n"


def _others_may_enter(folder: Path) -> bool:
    if os.getuid() != 0:
        return True
    for each in (folder, *folder.parents):
        if each.stat().st_mode & 0o001 == 0 and str(each).startswith("/tmp"):
            each.chmod(each.stat().st_mode | 0o005)
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def test_a_tar_written_anew_is_read_anew_while_an_older_loader_lives(tmp_path: Path) -> None:
    tar = tmp_path / "shard.tar"

    def write(first: int) -> None:
        with tarfile.open(tmp_path / "new.tar", "w") as file:
            for number in range(first, first + 8):
                file.add(photo(tmp_path / "one.jpg", number), f"{number:03d}.jpg")
                (tmp_path / "one.cls").write_text("1")
                file.add(tmp_path / "one.cls", f"{number:03d}.cls")
        (tmp_path / "new.tar").rename(tar)

    def first_pixels() -> list[list[int]]:
        with carya.Loader(carya.webdataset([str(tar)]).decode_image().resize((4, 4)).batch(8)) as loader:
            return next(iter(loader))["image"].reshape(8, -1)[:, :6].tolist()

    write(100)
    wanted = first_pixels()  # nothing else lives: what is in the tar
    write(0)
    with carya.Loader(carya.webdataset([str(tar)]).decode_image().resize((4, 4)).batch(2), slots=3) as older:
        iterator = iter(older)
        next(iterator)
        write(100)
        assert first_pixels() == wanted
        assert [batch.step for batch in iterator] == [1, 2, 3], "the older one reads what it has listed"


# Lives ---------------------------------------------------------------------------------------------------------------


def test_a_cell_run_again_and_again_leaks_nothing(tmp_path: Path) -> None:
    paths = [photo(tmp_path / f"{number:02d}.jpg", number) for number in range(12)]
    out = run(f"""
    paths = {paths!r}
    def figures():
        gc.collect()
        time.sleep(0.05)
        maps = len(open("/proc/self/maps").readlines())
        pages = int(open("/proc/self/statm").read().split()[0])
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), maps, pages * 4096
    loader = None
    def cell(cycle):
        global loader
        chain = carya.files(paths).decode_image().resize((8, 8)).batch(4)
        loader = carya.Loader(chain, threads=2, decode_index="off") if cycle % 2 else carya.Loader(
            carya.arrays({{"x": np.arange(100)}}).batch(10), threads=2)
        next(iter(loader))
    for cycle in range(10):
        cell(cycle)
    before = figures()
    for cycle in range(50):
        cell(cycle)
    after = figures()
    print(after[0] - before[0], after[1] - before[1], after[2] - before[2] < 20, after[3] - before[3] < 64 << 20)
    """)
    assert out == "0 0 True True\n"


@pytest.mark.parametrize("variable", ["LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE"])
def test_ranks_of_one_host_share_its_cores(variable: str) -> None:
    code = """
    with carya.Loader(carya.arrays({"x": np.arange(100)}).batch(10)) as loader:
        print(loader.threads)
    """
    alone = int(run(code))
    assert int(run(code, **{variable: str(alone)})) == 1
    assert int(run(code, **{variable: "1000"})) == 1
    assert int(run(code, **{variable: "nonsense"})) == alone


def test_views_outlive_close_and_collection() -> None:
    loader = carya.Loader(numbers(40, batch_size=4))
    wanted = next(iter(carya.Loader(numbers(40, batch_size=4))))["x"].tolist()
    view = next(iter(loader))["x"][::-1]
    loader.close()
    del loader
    with carya.Loader(numbers(400, batch_size=4)) as other:
        for _ in other:
            pass
    assert view[::-1].tolist() == wanted


def test_figures_in_a_forked_child_are_refused_and_never_hang() -> None:
    out = run("""
    loader = carya.Loader(carya.arrays({"x": np.arange(10**6)}).batch(1), threads=2)
    iterator = iter(loader)
    for _ in range(30):
        next(iterator)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            told = 0
            for call in (loader.stats, loader.quarantine, lambda: next(iterator), lambda: loader._job.set_on_error("mask")):
                try:
                    call()
                except carya.ForkedError:
                    told += 1
            os._exit(told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    print("told")
    """)
    assert out == "told\n"


def test_figures_while_it_runs() -> None:
    with carya.Loader(numbers(8_000, batch_size=2), threads=2) as loader:
        done = threading.Event()
        failures: list[BaseException] = []

        def ask() -> None:
            try:
                while not done.is_set():
                    slots = loader.stats()["slots"]
                    assert sum(slots[state] for state in ("free", "filling", "ready", "held")) == slots["count"]
                    loader.quarantine()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert sum(1 for _ in loader) == 4_000
        done.set()
        for thread in threads:
            thread.join()
        assert not failures


def test_closing_while_another_thread_waits_ends_its_wait() -> None:
    loader = carya.Loader(numbers(40, batch_size=4), slots=2, hold_timeout=600)
    iterator = iter(loader)
    held = [next(iterator), next(iterator)]
    threading.Timer(0.3, loader.close).start()
    with pytest.raises(carya.Closed):
        next(iterator)
    assert [batch.step for batch in held] == [0, 1]


def test_one_row_in_batches_of_one() -> None:
    with carya.Loader(carya.arrays({"x": np.array([7])}).batch(1), epochs=300) as loader:
        seen = [batch["x"].tolist() for _ in range(300) for batch in loader]
        assert seen == [[7]] * 300
        with pytest.raises(carya.Closed, match="epochs=300"):
            next(iter(loader))


@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize("world_size", [1, 3])
def test_epochs_breaks_and_restores_in_any_order(prefetch: bool, world_size: int) -> None:
    chain = numbers(10, global_size=3)

    def fresh() -> carya.Loader:
        return carya.Loader(
            chain, world_size=world_size, rank=world_size - 1, prefetch_epochs=prefetch, slots=3, epochs=4
        )

    with fresh() as loader:
        wanted = [records(loader) for _ in range(4)]
    for stop, epoch in itertools.product(range(5), range(3)):
        with fresh() as loader:
            loader.set_epoch(epoch)
            seen = []
            for batch in loader:
                seen.append(batch.records[batch.valid].tolist())
                if len(seen) == stop:
                    break
            state = loader.state_dict()
            rest = records(loader)
            assert rest == wanted[epoch + 1], "a break abandons the rest, the end of an epoch too"
            loader.load_state_dict(state)
            if state["epoch"] == epoch:
                loader.set_epoch(epoch)
                assert seen + records(loader) == wanted[epoch]
            assert records(loader) == wanted[epoch + 1]


def test_many_threads_have_more_slots_unless_their_number_is_given() -> None:
    """So that a chunk of theirs has more rows than one; each batch here is 4 MB."""
    pipeline = carya.arrays({"x": np.zeros((8, 1 << 20), np.uint8)}).batch(4)

    def slots(**given: int) -> int:
        with carya.Loader(pipeline, daemon="embedded", **given) as loader:
            return int(loader.stats()["slots"]["count"])

    assert (slots(threads=2), slots(threads=64), slots(threads=64, slots=5)) == (4, 16, 5)
