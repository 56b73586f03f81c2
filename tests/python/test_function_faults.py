"""Functions that fail, die, hang, leak, fork, print and exit, in real processes; trainers that are killed."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code

import carya
from carya._functions.crew import End
from carya._functions.faults import Fault, raised
from carya._functions.host import _death

HERE = Path(__file__).parent


def doing(what: str, *records: int, count: int = 24, once: Path | None = None) -> carya.Pipeline:
    """Batches of 8 of the numbers below `count`, with a function that does `what` on some."""
    fn = code.Doing(what, records, None if once is None else str(once))
    return carya.dataset(code.Squares(count)).map(fn).batch(8)


def values(loader: carya.Loader) -> list[int]:
    return [int(y) for batch in loader for y in batch["y"][batch.valid]]


def children(group: int) -> list[int]:
    """Processes of a group that are there and no zombies."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] not in "ZX":
                    found.append(int(entry))
    return found


def gone(group: int, seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not children(group):
            return True
        time.sleep(0.05)
    return False


def host_of(loader: carya.Loader) -> int:
    return loader._job._process.pid  # type: ignore[attr-defined]


# Exceptions ---------------------------------------------------------------------------------------------------------


def test_a_fault_keeps_its_text_on_every_way() -> None:
    """From worker to host to trainer it is sent twice; what is not sent is not made into text."""
    try:
        raise KeyError("here")
    except KeyError as error:
        fault = Fault(2, 7, "map(f)", error)
    assert fault.text == ""
    once = pickle.loads(pickle.dumps(fault))
    twice = pickle.loads(pickle.dumps(once))
    assert (twice.row, twice.record, twice.stage, twice.kind, twice.reason) == (
        2,
        7,
        "map(f)",
        "data",
        "KeyError: 'here'",
    )
    assert 'raise KeyError("here")' in twice.text
    told = raised(twice, "record 7")
    assert type(told) is KeyError
    assert 'raise KeyError("here")' in str(told.__cause__)


def test_an_exception_is_the_users_own_with_its_traceback_and_record() -> None:
    with carya.Loader(doing("own_error", 11), threads=2) as loader:
        iterator = iter(loader)
        assert next(iterator)["y"].tolist() == [i * i for i in range(8)]
        with pytest.raises(code.TroubleError) as raised:
            next(iterator)
        error: Any = raised.value
        assert (error.index, error.record, error.stage, error.position) == (11, 11, "map(Doing)", 11)
        cause = str(error.__cause__)
        assert "record 11: map(Doing)" in cause
        assert 'user_code.py", line' in cause
        assert "raise TroubleError(index" in cause
        with pytest.raises(code.TroubleError):  # again, until the policy changes
            next(iterator)
        loader.on_error = "mask"
        assert next(iterator)["y"].tolist() == [64, 81, 100, 0, 144, 169, 196, 225]


def test_a_traceback_begins_with_the_users_code() -> None:
    for records, where in (((3,), "record 3"), (range(24), "record 0")):  # of a batch, and of the first sample
        with (
            pytest.raises(code.TroubleError) as caught,
            carya.Loader(doing("own_error", *records), threads=1) as loader,
        ):
            values(loader)
        lines = str(caught.value.__cause__).strip().splitlines()
        assert lines[0].startswith(f"{where}")
        assert lines[2].startswith("Traceback")
        assert "user_code.py" in lines[3]
        assert not any("_functions" in line or "_stages" in line for line in lines)


def test_the_lowest_row_of_a_step_is_raised_whatever_came_first() -> None:
    for _ in range(3):
        with carya.Loader(doing("value_error", 9, 12, 15), threads=3) as loader:
            with pytest.raises(ValueError, match="bad record 9"):
                values(loader)
            assert loader.state_dict()["position"] == 8


@pytest.mark.parametrize("policy", ["replace", "mask"])
def test_policies_make_entries_and_move_no_other_record(policy: Any) -> None:
    with carya.Loader(doing("value_error", 3, 20), threads=2, on_error=policy) as loader:
        batches = [(b["y"].copy(), b.records, b.valid) for b in loader]
        entries = loader.quarantine()
        y, records, valid = (np.concatenate(part) for part in zip(*batches, strict=True))
    others = [i for i in range(24) if i not in (3, 20)]
    assert y[others].tolist() == [i * i for i in others]
    assert [(e["record"], e["position"], e["stage"]) for e in entries] == [(3, 3, "map(Doing)"), (20, 20, "map(Doing)")]
    assert all(e["reason"] == f"ValueError: bad record {e['record']}" for e in entries)
    if policy == "mask":
        assert (valid[[3, 20]].any(), y[[3, 20]].any(), entries[0]["substitute"]) == (False, False, None)
    else:
        assert valid.all()
        assert [e["substitute"] for e in entries] == records[[3, 20]].tolist()
        assert (y[[3, 20]] == records[[3, 20]] ** 2).all()


def test_substitutes_are_those_of_native_streams(tmp_path: Path) -> None:
    """The same position draws the same substitute, whoever makes the sample."""
    from PIL import Image

    paths = []
    for i in range(12):
        path = tmp_path / f"{i:02d}.jpg"
        Image.fromarray(np.full((16, 16, 3), i * 20, np.uint8)).save(path)
        if i in (3, 7):
            path.write_bytes(b"no picture")
        paths.append(str(path))
    native = carya.files(paths, labels=range(12)).shuffle(seed=5).decode_image().resize((8, 8))
    with carya.Loader(native.batch(4), on_error="replace") as loader:
        expected = [(batch.records.tolist(), batch["image"].copy()) for batch in loader]
    with carya.Loader(native.map(dict).batch(4), on_error="replace", threads=2) as loader:
        for (records, images), batch in zip(expected, loader, strict=True):
            assert batch.records.tolist() == records
            assert np.array_equal(batch["image"], images)
        assert {Path(e["path"]).name for e in loader.quarantine()} == {"03.jpg", "07.jpg"}
        assert {e["stage"] for e in loader.quarantine()} == {"native"}


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("os_error", FileNotFoundError, "gone"),
        ("memory_error", MemoryError, ""),
        ("exits", carya.Error, r"sys.exit\(3\)"),
        ("other_shape", carya.InvalidArgument, r"x: got float32 \(5,\), and the first sample has float32 \(2,\)"),
        ("other_dtype", carya.InvalidArgument, r"x: got float64 \(2,\)"),
        ("other_object", carya.InvalidArgument, r"x: got an object of type str"),
        ("fewer", carya.InvalidArgument, r"the sample has no 'x'"),
        ("more", carya.InvalidArgument, r"the sample has 'z', which the first one has not"),
        ("nothing", carya.InvalidArgument, r"map\(Doing\): it returned None; return the sample"),
    ],
)
def test_what_says_nothing_about_a_record_is_raised_under_every_policy(what: str, kind: Any, text: str) -> None:
    with carya.Loader(doing(what, 10), threads=2, on_error="mask") as loader, pytest.raises(kind, match=text):
        values(loader)


def test_an_exception_that_cannot_be_pickled_becomes_its_text() -> None:
    with (
        carya.Loader(doing("unpicklable", 5), threads=1) as loader,
        pytest.raises(carya.SampleError, match=r"record 5: map\(Doing\): UnpicklableError: 5"),
    ):
        values(loader)


def test_stop_iteration_ends_no_epoch() -> None:
    with (
        carya.Loader(doing("stop_iteration", 5), threads=1) as loader,
        pytest.raises(RuntimeError, match="StopIteration"),
    ):
        values(loader)


def test_a_function_that_fails_on_every_record_is_raised_when_the_loader_is_made() -> None:
    with pytest.raises(ValueError, match="bad record 0"):
        carya.Loader(doing("value_error", *range(24)), threads=1)


# Processes that end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["kills", "ends", "crashes"])
def test_a_worker_that_dies_once_costs_nothing(what: str, tmp_path: Path) -> None:
    with carya.Loader(doing(what, 13, once=tmp_path / "done"), threads=2) as loader:
        assert values(loader) == [i * i for i in range(24)]
        assert loader.stats()["workers"]["died"] == 1


@pytest.mark.parametrize(
    ("what", "how"), [("kills", "was killed by SIGKILL"), ("ends", "ended with status 7"), ("crashes", "SIGSEGV")]
)
@pytest.mark.parametrize("policy", ["raise", "mask"])
def test_a_record_that_ends_workers_again_is_named(what: str, how: str, policy: Any) -> None:
    with carya.Loader(doing(what, 13), threads=2, on_error=policy) as loader:
        with pytest.raises(carya.WorkerDied, match=rf"record 13: .*map\(Doing\) {how}|record 13: .*{how}") as raised:
            values(loader)
        error: Any = raised.value
        assert (error.record, error.stage, error.code) == (13, "map(Doing)", "worker_died")
        assert loader.state_dict()["position"] == 8
        assert ("so did three others" if what == "kills" else "so did a second one") in str(error)
        if what == "crashes":
            assert "user_code.py" in str(error), "the stack of the crash"


@pytest.mark.parametrize("what", ["hangs", "hangs_in_c"])
def test_a_call_that_hangs_is_ended_and_shown(what: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    with carya.Loader(doing(what, 13), threads=2, function_timeout=0.6) as loader:
        with pytest.raises(carya.Timeout, match=r"record 13: .*map\(Doing\) took more than 0.6 s") as raised:
            values(loader)
        assert ("user_code.py" in str(raised.value)) == (what == "hangs")
    assert time.monotonic() - begin < 60
    with carya.Loader(doing(what, 13, once=tmp_path / "done"), threads=2, function_timeout=0.6) as loader:
        assert values(loader) == [i * i for i in range(24)]


def test_a_first_sample_that_hangs_or_dies_is_an_error_of_the_loader() -> None:
    with pytest.raises(carya.Timeout, match="record 0"):
        carya.Loader(doing("hangs", *range(24)), threads=1, function_timeout=0.5)
    with pytest.raises(carya.WorkerDied, match="record 0"):
        carya.Loader(doing("kills", *range(24)), threads=1)


def test_killed_workers_at_any_moment_change_no_bit() -> None:
    """A record that is lost with four workers is an error. So the next one dies when all that lay in the hands of the last
    one has come: a batch more than there are slots."""
    pipeline = carya.dataset(code.Squares(800)).map(code.noisy).map(code.Sleeping(0.001)).shuffle(seed=2).batch(16)
    with carya.Loader(pipeline, threads=2, epochs=1) as loader:
        expected = [(batch["y"].tolist(), batch["noise"].tolist()) for batch in loader]
    random = np.random.default_rng(3)
    with carya.Loader(pipeline, threads=3, slots=4, epochs=1) as loader:
        found = []
        wait = 0
        for batch in loader:
            found.append((batch["y"].tolist(), batch["noise"].tolist()))
            wait -= 1
            if wait < 0:
                time.sleep(random.random() * 0.01)
                pids = loader._job._figures["pids"]  # type: ignore[attr-defined]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(random.choice(pids)), signal.SIGKILL)
                wait = loader.stats()["slots"]["count"] + 1
        died = loader.stats()["workers"]["died"]
    assert found == expected
    assert died >= 5


def test_a_worker_that_grows_is_replaced_and_the_stream_goes_on() -> None:
    pipeline = carya.dataset(code.Squares(64)).map(code.Leaking(4 << 20)).batch(8)
    with carya.Loader(pipeline, threads=1, max_rss="120MB") as loader:
        assert values(loader) == [i * i for i in range(64)]
        workers = loader.stats()["workers"]
    assert workers["recycled"] >= 1
    assert workers["died"] == 0


def test_a_call_that_takes_all_memory_is_ended() -> None:
    pipeline = carya.dataset(code.Squares(8)).map(code.Leaking(900 << 20)).batch(8)
    with pytest.raises(carya.WorkerDied, match=r"more than twice max_rss=100000000|killed"):
        carya.Loader(pipeline, threads=1, max_rss="100MB")


# Things that functions do -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["forks", "starts_a_thread", "closes_stdout", "writes_input"])
def test_what_a_function_does_to_its_process_harms_no_other(what: str) -> None:
    with carya.Loader(doing(what, 2, 9), threads=2) as loader:
        host = host_of(loader)
        assert values(loader) == [i * i for i in range(24)]
    assert gone(host)


def test_what_functions_start_ends_with_the_loader() -> None:
    with carya.Loader(doing("leaves_a_child", 2, 9), threads=2) as loader:
        host = host_of(loader)
        values(loader)
        assert len(children(host)) >= 5
    assert gone(host)


def test_prints_come_out(capfd: pytest.CaptureFixture[str]) -> None:
    with carya.Loader(doing("prints", 2, 9), threads=1) as loader:
        values(loader)
    assert {"printed 2", "printed 9"} <= set(capfd.readouterr().out.split("\n"))


def test_kept_views_and_reused_buffers_change_nothing() -> None:
    pipeline = carya.arrays({"x": np.arange(400, dtype=np.float32).reshape(200, 2)}).map(code.Keeping()).batch(20)
    with carya.Loader(pipeline, threads=2) as loader:
        assert np.concatenate([b["x"].copy() for b in loader]).tolist() == np.arange(400).reshape(200, 2).tolist()


def test_arrays_that_come_from_memory_cannot_be_written() -> None:
    pipeline = carya.arrays({"x": np.ones((8, 2), np.float32)}).map(code.Doing("writes_input", (1,))).batch(8)
    with pytest.raises(ValueError, match="read-only"):
        carya.Loader(pipeline, threads=1)


# Trainers and hosts that end ----------------------------------------------------------------------------------------


def test_close_leaves_nothing_behind_and_arrays_stay() -> None:
    loader = carya.Loader(carya.dataset(code.Squares(64)).batch(8), threads=2)
    host = host_of(loader)
    batch = next(iter(loader))
    begin = time.monotonic()
    loader.close()
    loader.close()
    assert time.monotonic() - begin < 2
    assert gone(host)
    assert batch["y"].tolist() == [i * i for i in range(8)]
    with pytest.raises(carya.Closed):
        next(iter(loader))


def test_a_host_that_is_killed_is_an_error_and_nothing_stays() -> None:
    with carya.Loader(carya.dataset(code.Squares(6400)).map(code.Sleeping(0.001)).batch(8), threads=2) as loader:
        iterator = iter(loader)
        next(iterator)
        host = host_of(loader)
        os.kill(host, signal.SIGKILL)
        with pytest.raises(carya.WorkerDied, match="host process of the workers ended with status -9"):
            for _ in iterator:
                pass
        assert gone(host)


TRAINER = """
import sys, time, threading
sys.path.insert(0, {here!r})
import carya, user_code as code
pipeline = carya.dataset(code.Squares(100_000)).map(code.Sleeping({sleep})).batch(8)
loader = carya.Loader(pipeline, threads=2)
print(loader._job._process.pid, flush=True)
for batch in loader:
    print("batch", flush=True)
    {then}
"""


@contextlib.contextmanager
def trainer(then: str = "", sleep: float = 0.002, **options: Any) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(TRAINER).format(here=str(HERE), sleep=sleep, then=then or "pass")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    assert process.stdout is not None
    group = int(process.stdout.readline())
    process.stdout.readline()
    try:
        yield process, group
    finally:
        process.kill()
        process.communicate()


SCRIPT = """
import carya
from carya._functions.faults import Fault, raised
def triple(x):
    return x * 3
{guard}
    import numpy as np
    with carya.Loader(carya.arrays({{"x": np.arange(4)}}).map(triple, fields="x").batch(4), threads=1) as loader:
        print([batch["x"].tolist() for batch in loader])
"""


@pytest.mark.parametrize(("guarded", "by_value"), [(True, True), (True, False), (False, True), (False, False)])
def test_functions_of_the_main_script_work_where_it_has_a_guard(guarded: bool, by_value: bool, tmp_path: Path) -> None:
    """Or where cloudpickle is there, so that no process has to run the script."""
    if by_value:
        pytest.importorskip("cloudpickle")
    hidden = "" if by_value else 'import sys\nsys.modules["cloudpickle"] = None\n'
    path = tmp_path / "script.py"
    path.write_text(hidden + SCRIPT.format(guard='if __name__ == "__main__":' if guarded else "if True:"))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False)
    if guarded or by_value:
        assert (done.returncode, done.stdout) == (0, "[[0, 3, 6, 9]]\n"), done.stderr
    else:
        assert done.returncode == 1
        assert 'put what makes loaders and trains under `if __name__ == "__main__":`' in done.stderr


CLASSES = """
import dataclasses, enum, sys
{hide}
import carya
import numpy as np

class Odd(Exception):
    pass

class Kind(enum.Enum):
    EVEN = 0

@dataclasses.dataclass
class Sample:
    x: int
    kind: Kind

def made(sample):
    return Sample(int(sample["x"]), Kind.EVEN)

def refused(x):
    raise Odd(f"{{x}} is odd")

if __name__ == "__main__":
    numbers = carya.arrays({{"x": np.arange(4)}})
    with carya.Loader(numbers.map(made).batch(4), threads=1) as loader:
        batch = next(iter(loader))
        print(batch["x"].tolist(), all(kind is Kind.EVEN for kind in batch["kind"]))
    try:
        carya.Loader(numbers.map(refused, fields="x").batch(4), threads=1)
    except Odd as error:
        print(error)
"""


@pytest.mark.parametrize("by_value", [True, False])
def test_classes_of_the_main_script_come_back_as_what_they_are(by_value: bool, tmp_path: Path) -> None:
    """Dataclasses, values and exceptions of a script that functions return and raise: no process has them under their name."""
    if by_value:
        pytest.importorskip("cloudpickle")
    path = tmp_path / "script.py"
    path.write_text(CLASSES.format(hide="" if by_value else 'sys.modules["cloudpickle"] = None'))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "[0, 1, 2, 3] True\n0 is odd\n"


@pytest.mark.parametrize(("what", "record", "told"), [
    ("generator", 0, r"record 0: map\(Returning\): value: it returned a generator; return one value, or .* \.flat_map\(fn\)"),
    ("file", 0, r"record 0: map\(Returning\): value: it cannot be sent from a worker process: TypeError: cannot pickle"),
    ("file", 13, r"record 13: map\(Returning\): value: it cannot be sent from a worker process: .*; return numbers"),
])  # fmt: skip
def test_what_cannot_leave_a_worker_is_told_with_its_record_and_ends_no_worker(
    what: str, record: int, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pipeline = carya.arrays({"x": np.arange(24)}).map(code.Returning(what, record), fields="x", out="value").batch(8)

    def train() -> None:
        with carya.Loader(pipeline, threads=1, epochs=1) as loader:
            for _ in loader:
                assert loader.stats()["workers"]["died"] == 0

    with pytest.raises(carya.InvalidArgument, match=told):
        train()
    assert capfd.readouterr().err == ""


def test_a_worker_that_dies_without_a_record_names_none() -> None:
    ends = [End("ended with status 1", "", False)]
    assert str(_death("arrays", -1, ends, False)).startswith(
        "the worker process that ran arrays ended with status 1; look at"
    )
    assert str(_death("map(f)", 3, ends, False)).startswith("record 3: the worker process that ran map(f) ended")


def test_a_traceback_shows_the_line_of_a_function_that_travelled_by_value() -> None:
    pytest.importorskip("cloudpickle")

    def local(x: Any) -> Any:
        return x / "two"  # this line

    with pytest.raises(TypeError) as caught:
        carya.Loader(carya.arrays({"x": np.arange(4)}).map(local, fields="x").batch(4), threads=1)
    assert f'File "{__file__}"' in str(caught.value.__cause__)
    assert "# this line" in str(caught.value.__cause__)


def test_an_open_file_does_not_travel_with_a_function(tmp_path: Path) -> None:
    """Not even one of text, of which cloudpickle makes a copy with other positions."""
    pytest.importorskip("cloudpickle")
    (tmp_path / "lines.txt").write_text("é\nb\n")
    with (tmp_path / "lines.txt").open() as lines:
        pipeline = carya.arrays({"x": np.arange(4)}).map(lambda x: (lines.seek(int(x)), lines.readline()), fields="x")
        with pytest.raises(carya.InvalidArgument, match=r"cannot pickle '_io\.TextIOWrapper' object; open files"):
            carya.Loader(pipeline.batch(4), threads=1)


def test_writing_into_rows_of_arrays_names_the_cure() -> None:
    pipeline = carya.arrays({"x": np.zeros((4, 2))}).map(code.written, fields="x").batch(4)
    with pytest.raises(ValueError, match="read-only") as caught:
        carya.Loader(pipeline, threads=1)
    assert any("record 0" in note and "change a copy (x = x.copy())" in note for note in caught.value.__notes__)


def test_a_killed_trainer_leaves_no_process() -> None:
    with trainer() as (process, group):
        assert len(children(group)) == 3
        process.kill()
        assert gone(group)


def test_a_killed_trainer_leaves_no_process_though_a_function_hangs_and_it_has_forked() -> None:
    then = "import os; os.fork() or (time.sleep(300), os._exit(0)); time.sleep(1000)"
    with trainer(then=then, sleep=0.3, process_group=0) as (process, group):
        time.sleep(0.5)
        process.kill()
        assert gone(group)
        os.killpg(process.pid, signal.SIGKILL)  # the forked child, which holds what the trainer held


def test_ctrl_c_ends_a_training_loop_cleanly() -> None:
    with trainer(process_group=0) as (process, group):
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode != 0
        assert err.strip().endswith("KeyboardInterrupt")
        assert len(re.findall("Traceback", err)) == 1, "no worker says anything"
        assert gone(group)


def test_a_script_that_ends_without_close_ends() -> None:
    with trainer(then="break") as (process, group):
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, "")
        assert gone(group)


def test_a_loader_that_a_short_thread_made_works() -> None:
    import threading

    made: list[carya.Loader] = []
    thread = threading.Thread(
        target=lambda: made.append(carya.Loader(carya.dataset(code.Squares(64)).batch(8), threads=1, epochs=2))
    )
    thread.start()
    thread.join()
    time.sleep(0.3)
    with made[0] as loader:
        assert values(loader) == [i * i for i in range(64)]


def test_a_forked_child_is_told_and_may_have_its_own() -> None:
    pipeline = carya.dataset(code.Squares(16)).batch(8)
    with carya.Loader(pipeline, threads=1, epochs=2) as loader:
        iterator = iter(loader)
        batch = next(iterator)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                try:
                    next(iterator)
                except carya.ForkedError:
                    status = 0
                del batch
                loader.close()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert batch["y"].tolist() == [i * i for i in range(8)]
        assert next(iterator)["y"].tolist() == [i * i for i in range(8, 16)]


def test_nothing_is_named_in_dev_shm() -> None:
    before = set(os.listdir("/dev/shm"))
    with carya.Loader(carya.dataset(code.Texts(16)).batch(8, lists="tokens"), threads=2) as loader:
        list(loader)
        assert set(os.listdir("/dev/shm")) == before


def test_too_much_shared_memory_is_an_error_when_the_loader_is_made() -> None:
    pipeline = carya.arrays({"x": np.zeros((4, 1 << 20), np.uint8)}).map(np.negative, fields="x").batch(1 << 20)
    with pytest.raises(carya.Exhausted, match="bytes of shared memory"):
        carya.Loader(pipeline, threads=1)


def test_a_host_that_fails_says_why_before_it_ends() -> None:
    """It ends its group by a signal, and that was all that anybody saw."""
    program = """
        import os, socket
        from carya._functions import host
        from carya._processes.transport import Channel

        class Host:
            def __init__(self, link, trainer, dump):
                pass

            def run(self, message, fds):
                os.close(-1)

        host.Host = Host
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        Channel(ours).send(("first",))
        host.main(its.detach(), os.open(os.devnull, os.O_RDWR), os.getppid())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=False, start_new_session=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert "OSError: [Errno 9] Bad file descriptor" in done.stderr
