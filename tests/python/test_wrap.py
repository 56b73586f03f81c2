"""`carya.wrap`: loaders of other libraries behind a thread, exact and measured."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import carya


class Counting:
    """A loader with a state: goes on inside an epoch after a restore, else begins anew. Its state is one dict that it changes."""

    def __init__(self, count: int = 12) -> None:
        self.count, self.state = count, {"next": 0}
        self._inside = False
        self.inside_calls = 0
        self.most_inside = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        if not self._inside:
            self.state["next"] = 0
        self._inside = False
        while self.state["next"] < self.count:
            self.inside_calls += 1
            self.most_inside = max(self.most_inside, self.inside_calls)
            time.sleep(0.001)
            self.state["next"] += 1
            self.inside_calls -= 1
            yield self.state["next"] - 1

    def state_dict(self) -> dict[str, int]:
        return self.state

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.state, self._inside = dict(state), True


def threads() -> int:
    return sum(thread.name == "carya.wrap" for thread in threading.enumerate())


def wait_for_threads(count: int) -> None:
    gc.collect()  # what an exception of an earlier test holds
    while threads() > count:
        time.sleep(0.01)


@pytest.mark.parametrize("ahead", [0, 1, 2, 100])
def test_the_same_batches_in_the_same_order_in_each_epoch(ahead: int) -> None:
    loader = carya.wrap([{"x": np.full(3, number)} for number in range(20)], ahead=ahead)
    for _ in range(2):
        assert [batch["x"][0] for batch in loader] == list(range(20))
    assert len(loader) == 20
    assert loader.stats()["batches"] == 40
    assert loader.stats()["samples"] == 120
    assert loader.stats()["slots"]["count"] == ahead
    assert loader.stats()["place"] == ("thread" if ahead else "trainer")
    wait_for_threads(0)


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_a_state_is_that_of_the_last_delivered_batch_at_every_step(ahead: int) -> None:
    for stop in range(13):
        loader = carya.wrap(Counting(), ahead=ahead)
        assert loader.state_dict() == {"next": 0}
        seen = []
        iterator = iter(loader)
        for _ in range(stop):
            seen.append(next(iterator))
            time.sleep(0.002)  # the thread is ahead
        state = dict(loader.state_dict())
        assert state == {"next": stop}
        again = carya.wrap(Counting(), ahead=ahead)
        again.load_state_dict(state)
        assert seen + list(again) == list(range(12))
        loader.load_state_dict(state)
        assert seen + list(loader) == list(range(12))
        assert loader.state_dict() == {"next": 12}
        if stop:
            with pytest.raises(carya.InvalidArgument, match="overtaken by a newer one"):
                next(iterator)
    assert list(loader) == list(range(12))


def test_a_state_exists_where_the_loader_has_one_and_is_refused_where_it_is_not_exact() -> None:
    assert not hasattr(carya.wrap([1]), "state_dict")
    assert not hasattr(carya.wrap([1]), "load_state_dict")
    loader = carya.wrap(Counting(), states=False)
    next(iter(loader))
    with pytest.raises(carya.Unsupported, match="give states=True or ahead=0"):
        loader.state_dict()

    class Broken(Counting):
        def state_dict(self) -> dict[str, int]:
            if self.state["next"] > 2:
                raise OSError("no state today")
            return super().state_dict()

    loader = carya.wrap(Broken())
    iterator = iter(loader)
    next(iterator), next(iterator)
    assert loader.state_dict() == {"next": 2}
    next(iterator)
    with pytest.raises(OSError, match="no state today"):
        loader.state_dict()


def test_the_state_of_a_loader_of_carya_goes_on_at_the_next_batch() -> None:
    pipeline = carya.arrays({"x": np.arange(40)}).shuffle(seed=1).batch(4)
    with carya.Loader(pipeline, threads=1) as plain:
        expected = [batch["x"].tolist() for batch in plain]
    with carya.Loader(pipeline, threads=1) as one, carya.Loader(pipeline, threads=1) as other:
        iterator = iter(carya.wrap(one, ahead=3))
        loader = iterator._of  # type: ignore[attr-defined]
        seen = [next(iterator)["x"].tolist() for _ in range(4)]
        again = carya.wrap(other)
        again.load_state_dict(loader.state_dict())
        assert seen + [batch["x"].tolist() for batch in again] == expected
        loader.close()
        again.close()


def test_an_exception_comes_in_its_place_with_its_traceback_and_the_loader_goes_on() -> None:
    class Third:
        def __init__(self) -> None:
            self.at = 0

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            self.at += 1
            if self.at == 3:
                raise ValueError("the third is broken")
            if self.at > 5:
                raise StopIteration
            return self.at

    source = Third()
    loader = carya.wrap(source, ahead=8)
    iterator = iter(loader)
    assert [next(iterator), next(iterator)] == [1, 2]
    with pytest.raises(ValueError, match="the third is broken") as caught:
        next(iterator)
    assert "raise ValueError" in "".join(traceback.format_exception(caught.value))
    time.sleep(0.05)
    assert source.at == 3  # nothing is asked for behind an exception, until the trainer does
    assert list(iterator) == [4, 5]
    assert list(iterator) == []

    def leaves() -> Iterator[int]:
        yield 1
        sys.exit(3)

    with pytest.raises(SystemExit):
        list(carya.wrap(leaves()))


def test_a_break_loses_nothing_of_an_iterator_and_ends_the_thread_of_others() -> None:
    def numbers() -> Iterator[int]:
        yield from range(10)

    loader = carya.wrap(numbers(), ahead=3)
    seen = []
    for number in loader:
        seen.append(number)
        if number == 4:
            break
    assert seen + list(loader) == list(range(10))

    ended = threading.Event()

    class Closing:
        def __iter__(self) -> Iterator[int]:
            try:
                yield from range(10)
            finally:
                ended.set()

    loader = carya.wrap(Closing())
    for _ in loader:
        break
    assert ended.wait(10)
    wait_for_threads(0)
    assert list(loader) == list(range(10))
    unended = carya.wrap(numbers())
    next(iter(unended))
    gone = weakref.ref(unended)
    del unended
    gc.collect()
    assert gone() is None
    wait_for_threads(0)


def test_two_threads_never_call_into_one_loader() -> None:
    source = Counting(40)
    loader = carya.wrap(source, ahead=2)
    for _ in range(10):
        for number in loader:
            if number == 2:
                break
    assert list(loader) == list(range(40))
    assert source.most_inside == 1


def interrupt(number: int, frame: Any) -> None:
    """Ctrl-C, where it comes inside of the wrapper; elsewhere the test itself would lose a batch."""
    while frame is not None:
        if "_wrapping" in frame.f_code.co_filename and frame.f_code.co_name == "__next__":
            raise KeyboardInterrupt
        frame = frame.f_back


def test_no_batch_is_lost_or_doubled_by_ctrl_c_at_any_moment() -> None:
    loader = carya.wrap(iter(range(3000)), ahead=2)
    iterator, seen, interrupts = iter(loader), [], 0
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    ended = False
    try:
        while not ended:
            try:
                for number in iterator:
                    seen.append(number)
                ended = True
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == list(range(3000))
    assert interrupts > 5


def test_ctrl_c_while_the_thread_starts_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        begin(thread)
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:  # as a Condition that is interrupted where it gives its lock back
            raise RuntimeError("release unlocked lock")  # noqa: B904

    iterator = iter(carya.wrap(iter(range(5)), ahead=2))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
    assert list(iterator) == list(range(5))


def test_attributes_are_the_loader_s_own() -> None:
    source = Counting()
    loader = carya.wrap(source)
    assert loader.count == 12
    loader.count = 5
    assert source.count == 5
    assert list(loader) == list(range(5))
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = loader.nothing_of_the_kind
    with pytest.raises(TypeError, match="has no len"):
        len(carya.wrap(iter([1])))
    with pytest.raises(TypeError, match="pickle the loader"):
        loader.__reduce__()


def test_mistakes_of_wrap() -> None:
    for wrong, told in [
        (lambda: carya.wrap(5), "wrap: loader: got 5; give an iterable"),
        (lambda: carya.wrap(threads), "wrap: loader: .*; give what the function returns"),
        (lambda: carya.wrap([1], ahead=-1), "wrap: ahead: got -1; give a count of 0 to 1024 batches"),
        (lambda: carya.wrap([1], ahead=True), "wrap: ahead: got True; give"),
        (lambda: carya.wrap([1]).headroom(len, steps=0), "wrap: headroom: steps: got 0; give"),
        (lambda: carya.wrap([]).headroom(len), "wrap: headroom: the loader has no batches left; give"),
        (lambda: carya.wrap(iter([[1]])).headroom(len), "wrap: headroom: the loader has no batches left; give"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            wrong()


def test_a_loader_that_writes_over_its_batches_is_told() -> None:
    def same() -> Iterator[Any]:
        buffer = np.zeros(4)
        for number in range(6):
            buffer[:] = number
            yield {"x": buffer}

    with pytest.warns(
        RuntimeWarning, match=r"wrap: generator gave a batch that lies where .*give carya.wrap\(loader, ahead=0\)"
    ):
        list(carya.wrap(same(), ahead=4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iterator = iter(carya.wrap(same(), ahead=4))
        next(iterator)
        with pytest.raises(RuntimeWarning, match=r"give carya\.wrap"):
            next(iterator)
        assert len(list(iterator)) == 5  # the batch that it was about is among them
    assert [float(batch["x"][0]) for batch in carya.wrap(same(), ahead=0)] == [0, 1, 2, 3, 4, 5]


def test_what_is_measured_adds_up_and_says_who_limits() -> None:
    def slow() -> Iterator[np.ndarray]:
        for _ in range(12):
            time.sleep(0.02)
            yield np.zeros((4, 2))

    loader = carya.wrap(slow())
    assert "nothing is measured yet" in loader.report()
    began = time.perf_counter()
    for _ in loader:
        pass
    stats = loader.stats()
    assert stats["batches"] == 12
    assert stats["samples"] == 48
    assert stats["make_seconds"] >= 0.02
    assert 0.2 <= stats["stall_seconds"] <= time.perf_counter() - began
    assert 0.02 <= stats["start_seconds"] <= stats["stall_seconds"]
    assert stats["stall_share"] > 0.5
    assert stats["demand_per_second"] == pytest.approx(4 / stats["step_seconds"])
    assert "The loader limits" in loader.report()

    loader = carya.wrap([np.zeros((4, 2)) for _ in range(12)])
    for _ in loader:
        time.sleep(0.01)
    stats = loader.stats()
    assert stats["step_seconds"] >= 0.01
    assert stats["stall_share"] < 0.5
    assert stats["slots"]["ready_mean"] > 0.5


def test_headroom_compares_the_loader_with_batches_in_memory_and_with_carya_s() -> None:
    class Slow:
        def __iter__(self) -> Iterator[Any]:
            for number in range(9):
                time.sleep(0.02)
                yield [np.full((4, 2), number, np.float32), np.arange(4)]

    seen = []

    def step(batch: Any) -> None:
        assert type(batch) is list
        assert batch[0].dtype == np.float32
        seen.append(float(batch[0][0, 0]))
        time.sleep(0.001)

    loader = carya.wrap(Slow())
    found = loader.headroom(step, steps=6, cached=2, rounds=2)
    assert found["steps"] == 12
    assert found["present_seconds"] >= 0.02 - 0.001
    assert found["gain"] > 2
    assert found["carya_seconds"] > found["hand_over_seconds"] > 0
    assert found["carya_cpu_seconds"] is None or found["carya_cpu_seconds"] > 0
    assert set(seen) == set(range(9))
    assert "gains" in str(found)
    assert str(found) in loader.report()
    assert loader.stats()["headroom"] is found

    texts = carya.wrap([["a", "b"]] * 8).headroom(len, steps=2, rounds=1)
    assert texts["carya_seconds"] is None
    assert "no dicts, lists or tuples of arrays" in str(texts)
    assert carya.wrap([[1]] * 8).headroom(len, steps=2, rounds=1, carya=False)["reason"] == "carya=False"


def test_a_forked_child_is_told() -> None:
    loader = carya.wrap(iter(range(100)), ahead=1)
    iterator = iter(loader)
    next(iterator)
    child = os.fork()
    if child == 0:
        try:
            for _ in range(3):
                next(iterator)
        except carya.ForkedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert list(iterator) == list(range(1, 100))


@pytest.mark.parametrize("ends", ["pass", "raise KeyboardInterrupt", "raise ValueError"])
def test_the_interpreter_ends_while_a_thread_is_in_a_loader(ends: str) -> None:
    code = (
        "import carya, time\n"
        "def slow():\n"
        "    while True:\n"
        "        time.sleep(0.05); yield 1\n"
        f"kept = iter(carya.wrap(slow()))\nnext(kept)\n{ends}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "Fatal" not in done.stderr
    assert done.returncode == {"pass": 0, "raise ValueError": 1}.get(ends, -signal.SIGINT)


def test_torch_s_dataloader_gives_the_same_batches(tmp_path: Any) -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(40).reshape(20, 2), torch.arange(20))

    def epochs(wrapped: bool, workers: int, **options: Any) -> list[Any]:
        torch.manual_seed(3)
        loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, num_workers=workers, **options)
        source = carya.wrap(loader) if wrapped else loader
        assert (source.batch_size, source.num_workers) == (4, workers)
        found = []
        for epoch in range(3):
            for step, (_x, y) in enumerate(source):
                found.append(y.tolist())
                if epoch == 1 and step == 1:
                    break
        return found

    assert epochs(True, 0) == epochs(False, 0)
    assert epochs(True, 1, persistent_workers=True) == epochs(False, 1, persistent_workers=True)
    wrapped = carya.wrap(torch.utils.data.DataLoader(data, batch_size=4))
    found = wrapped.headroom(lambda batch: batch[0].sum(), steps=3, rounds=1)
    assert found["carya_seconds"] is not None
