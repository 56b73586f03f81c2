"""Arrays and their slots: zero copies, never rewritten while held, alive after everything else."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np

import carya


def rows(count: int = 64, width: int = 1000) -> carya.Pipeline:
    data = np.repeat(np.arange(count, dtype=np.int64)[:, None], width, axis=1)
    return carya.arrays({"x": data}).shuffle(seed=2).batch(4)


def expected(batch: carya.Batch) -> list[int]:
    return batch.records.tolist()


def test_arrays_outlive_the_loader_and_its_collection() -> None:
    loader = carya.Loader(rows())
    iterator = iter(loader)
    batch = next(iterator)
    wanted = expected(batch)
    array = batch["x"]
    view = array[1:, ::7]
    loader.close()
    del loader, iterator, batch
    gc.collect()
    assert array[:, 0].tolist() == wanted
    del array
    gc.collect()
    assert view[:, 3].tolist() == wanted[1:]


def test_a_held_slot_is_not_rewritten() -> None:
    with carya.Loader(rows(), slots=4, threads=2) as loader:
        iterator = iter(loader)
        first = next(iterator)
        kept = first["x"][:, -1]
        wanted = expected(first)
        del first
        for _ in range(3):
            for _batch in iterator:
                assert kept.tolist() == wanted
            iterator = iter(loader)
        assert kept.tolist() == wanted


def test_slots_are_used_again_once_their_arrays_are_gone() -> None:
    with carya.Loader(rows(), slots=3) as loader:
        addresses = set()
        for _ in range(3):
            for batch in loader:
                addresses.add(batch["x"].ctypes.data)
    assert len(addresses) <= 3


def test_arrays_are_aligned_and_lie_in_one_slot() -> None:
    data = {"a": np.zeros((8, 3), np.uint8), "b": np.arange(8), "c": np.zeros((8, 2, 2), np.float32)}
    with carya.Loader(carya.arrays(data).batch(4)) as loader:
        batch = next(iter(loader))
        for array in batch.values():
            assert array.ctypes.data % 64 == 0
            assert not array.flags.owndata
            assert array.flags.writeable


def test_a_trainer_may_write_into_its_batch() -> None:
    with carya.Loader(rows(), slots=2) as loader:
        for _ in range(2):
            for batch in loader:
                assert batch["x"][:, 5].tolist() == expected(batch)
                batch["x"][:] = -1


def test_leases_end_in_any_thread_also_after_close() -> None:
    with carya.Loader(rows(), slots=4) as loader:
        held = []
        iterator = iter(loader)
        for _ in range(3):
            batch = next(iterator)
            held.append((batch["x"], expected(batch)))
            del batch

        def check_and_drop() -> None:
            while held:
                array, wanted = held.pop()
                time.sleep(0.01)
                assert array[:, 0].tolist() == wanted
                failures.remove("pending")

        failures = ["pending"] * 3
        threads = [threading.Thread(target=check_and_drop) for _ in range(3)]
        for thread in threads:
            thread.start()
        loader.close()
        for thread in threads:
            thread.join()
        assert failures == []


def test_many_threads_may_hold_batches_of_one_loader() -> None:
    with carya.Loader(rows(256), slots=8, threads=2) as loader:
        errors: list[str] = []
        threads = []

        def hold(array: np.ndarray, wanted: list[int], delay: float) -> None:
            time.sleep(delay)
            if array[:, 0].tolist() != wanted or array[:, -1].tolist() != wanted:
                errors.append("rewritten")

        for number, batch in enumerate(loader):
            thread = threading.Thread(target=hold, args=(batch["x"], expected(batch), 0.001 * (number % 5)))
            thread.start()
            threads.append(thread)
        del batch
        for thread in threads:
            thread.join()
    assert errors == []


def test_the_buffer_protocol_and_dlpack_see_the_slot() -> None:
    with carya.Loader(rows()) as loader:
        batch = next(iter(loader))
        array = batch["x"]
        assert memoryview(array).nbytes == array.nbytes
        again = np.from_dlpack(array)
        assert again.ctypes.data == array.ctypes.data


def test_kept_records_and_valid_hold_no_slot() -> None:
    with carya.Loader(rows(), slots=2, hold_timeout=60) as loader:
        kept = [(batch.records, batch.valid) for batch in loader]
    assert len(kept) == 16
    assert sorted(int(record) for records, _ in kept for record in records) == list(range(64))
