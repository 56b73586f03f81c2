"""Forks, collection, Ctrl-C, the end of the interpreter, wedged trainers: in processes of their own."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from daemons import until
from streams import numbers, records

import carya

START = """
import carya, gc, os, signal, sys, threading, time
import logging
import numpy as np
logging.getLogger("carya").addHandler(logging.NullHandler())  # where io_uring is refused that is logged
def pipeline(count=100_000, batch=16):
    return carya.arrays({"x": np.arange(count)}).shuffle(seed=1).batch(batch)
"""


def run(code: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", START + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def engine_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_a_forked_child_gets_an_error_and_the_parent_goes_on() -> None:
    done = run("""
    loader = carya.Loader(pipeline(), threads=2)
    iterator = iter(loader)
    batch = next(iterator)
    child = os.fork()
    if child == 0:
        try:
            next(iterator)
        except carya.ForkedError as error:
            del batch
            os._exit(7 if "child" in str(error) or "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    seen = len(batch["x"]) + sum(len(each["x"]) for each in iterator)
    assert seen == 100_000, seen
    loader.close()
    print("parent done")
    """)
    assert (done.returncode, done.stdout) == (0, "parent done\n"), done.stderr


def test_a_child_forked_while_another_thread_takes_a_batch_is_told() -> None:
    done = run("""
    loader = carya.Loader(pipeline(), threads=1, slots=2, hold_timeout=600)
    iterator = iter(loader)
    held = [next(iterator), next(iterator)]  # all slots: whoever takes the next one waits, and holds the lock
    taken = []
    thread = threading.Thread(target=lambda: taken.append(next(iterator)))
    thread.start()
    while loader._taking.acquire(blocking=False):
        loader._taking.release()
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        try:
            next(iterator)
        except carya.ForkedError:
            os._exit(7)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    held.clear()
    thread.join()
    assert len(taken) == 1
    taken.clear()
    loader.close()
    print("parent done")
    """)
    assert (done.returncode, done.stdout) == (0, "parent done\n"), done.stderr


def test_a_forked_child_may_end_in_order_and_make_its_own_loader() -> None:
    done = run("""
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    loader = carya.Loader(pipeline(), threads=2)
    iterator = iter(loader)
    batch = next(iterator)
    child = os.fork()
    if child == 0:
        del batch, iterator, loader
        gc.collect()
        with carya.Loader(pipeline(100), threads=1) as own:
            assert sum(len(each["x"]) for each in own) == 100
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert next(iterator).step == 1
    print("parent done")
    """)
    assert (done.returncode, done.stdout) == (0, "parent done\n"), done.stderr


@pytest.mark.parametrize("hold", ["batch = next(iterator)", "array = next(iterator)['x']", "pass"])
def test_the_interpreter_ends_silently_without_close(hold: str) -> None:
    done = run(f"""
    loader = carya.Loader(pipeline(), threads=2)
    iterator = iter(loader)
    next(iterator)
    {hold}
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_interpreter_ends_silently_with_a_waiting_thread() -> None:
    done = run("""
    loader = carya.Loader(pipeline(), slots=2, hold_timeout=60)
    iterator = iter(loader)
    held = [next(iterator), next(iterator)]
    thread = threading.Thread(target=lambda: next(iterator, None), daemon=True)
    thread.start()
    time.sleep(0.3)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("moment", [0.01, 0.06, 0.13, 0.21])
def test_the_interpreter_ends_silently_while_a_thread_iterates(moment: float) -> None:
    done = run(f"""
    loader = carya.Loader(pipeline(), threads=2)
    def iterate():
        for _ in range(100):
            for _ in loader:
                pass
    threading.Thread(target=iterate, daemon=True).start()
    time.sleep({moment})
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ctrl_c_ends_a_wait_at_once() -> None:
    code = START + textwrap.dedent("""
    loader = carya.Loader(pipeline(), slots=2, hold_timeout=600)
    iterator = iter(loader)
    held = [next(iterator), next(iterator)]
    print("waiting", flush=True)
    try:
        next(iterator)
    except KeyboardInterrupt:
        loader.close()
        print("interrupted")
    """)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
    assert (out, err, child.returncode) == ("interrupted\n", "", 0)


def test_a_trainer_that_is_terminated_ends_at_once_and_leaves_nothing() -> None:
    code = START + textwrap.dedent("""
    loader = carya.Loader(pipeline().map_batches(dict), slots=2, threads=2)
    iterator = iter(loader)
    held = [next(iterator), next(iterator)]
    print("waiting", flush=True)
    next(iterator)
    """)
    before = set(os.listdir("/dev/shm"))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
        own = children(child.pid)
        assert own  # the processes of the function
        child.terminate()
        assert child.wait(60) == -signal.SIGTERM
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in own))
    assert set(os.listdir("/dev/shm")) <= before


def test_a_collected_loader_stops_its_engine() -> None:
    gc.collect()
    before = engine_threads()
    for _ in range(3):
        loader = carya.Loader(numbers(1000, batch_size=4), threads=2)
        next(iter(loader))
        del loader
        gc.collect()
    with carya.Loader(numbers(1000, batch_size=4), threads=2) as loader:
        next(iter(loader))
        with_one = engine_threads()
    deadline = time.monotonic() + 300
    while engine_threads() > max(before, with_one) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert engine_threads() <= max(before, with_one)


def test_an_abandoned_loader_gives_back_its_descriptors() -> None:
    with carya.Loader(numbers(1000, batch_size=4)) as loader:
        next(iter(loader))
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        loader = carya.Loader(numbers(1000, batch_size=4))
        next(iter(loader))
        del loader
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_waiting_lets_other_threads_run() -> None:
    ticks = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    with carya.Loader(numbers(40, batch_size=4), slots=2, hold_timeout=60) as loader:
        iterator = iter(loader)
        held = [next(iterator), next(iterator)]
        threading.Timer(1.0, held.clear).start()
        counter = threading.Thread(target=count)
        counter.start()
        assert next(iterator).step == 2
        stop.set()
        counter.join()
    assert ticks > 20


def test_many_loaders_at_once_share_the_process() -> None:
    loaders = [carya.Loader(numbers(60, batch_size=7), threads=2) for _ in range(6)]
    wanted = records(loaders[0])
    assert all(records(loader) == wanted for loader in loaders[1:])
    for loader in loaders:
        loader.close()


def test_a_torch_style_worker_process_is_told(tmp_path: Path) -> None:
    done = run("""
    import multiprocessing, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    loader = carya.Loader(pipeline(), threads=1)
    iterator = iter(loader)
    next(iterator)
    def work(queue):
        try:
            next(iterator)
        except carya.ForkedError:
            queue.put("told")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
    loader.close()
    """)
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr
