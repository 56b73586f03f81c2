"""Rows of Python functions that `carya function-worker` makes: the same bits, whatever dies, and nobody without the token."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import afar_code as code
import numpy as np
import pytest

import carya
from carya._processes import wire

ROOT = Path(__file__).resolve().parents[2]
COUNT = 240
DEADLINE_S = 60.0


class Program:
    """A `carya function-worker` as a user starts it."""

    def __init__(self, folder: Path, port: int = 0, processes: int = 2, *more: str, **environment: str) -> None:
        self.token = folder / "token"
        if not self.token.exists():
            self.token.write_text(secrets.token_hex(16))
            self.token.chmod(0o600)
        command = [
            "env",
            "--default-signal=HUP",  # whatever runs these tests may have it ignored, as nohup does
            sys.executable,
            "-m",
            "carya",
            "function-worker",
            "--allow-functions",
            "--token-file",
            str(self.token),
        ]
        command += ["--listen", f"127.0.0.1:{port}", "--processes", str(processes), *more]
        path = os.pathsep.join([str(ROOT / "tests" / "python"), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": path, "CARYA_TEST_AFAR": "1", **environment},
        )  # fmt: skip
        assert self.process.stdout
        said = self.process.stdout.readline()
        assert "whoever has the token may run any code" in said, said
        self.port = int(said.split(":")[1])
        self.address = f"127.0.0.1:{self.port}"

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(DEADLINE_S)
        assert self.process.stdout
        self.process.stdout.close()
        return status


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def start(*given: Any, **more: Any) -> Program:
        programs.append(Program(tmp_path, *given, **more))
        return programs[-1]

    yield start
    for program in programs:
        program.end(signal.SIGKILL)


@pytest.fixture
def plain(tmp_path: Path) -> carya.Pipeline:
    (tmp_path / "offset").write_text("7")
    return carya.dataset(code.Numbered(COUNT, str(tmp_path / "offset"))).shuffle(seed=3)


def rows(loader: Any) -> str:
    """A digest of all that comes in an epoch."""
    made = hashlib.sha256()
    for batch in loader:
        for name in sorted(batch):
            made.update(
                np.asarray(batch[name]).tobytes() if not isinstance(batch[name], list) else repr(batch[name]).encode()
            )
        made.update(np.asarray(batch.records).tobytes())
    return made.hexdigest()


def until(loader: Any, wanted: Callable[[], bool]) -> list[str]:
    """Epochs, until something is so, which is asked behind each of them."""
    made, late = [rows(loader)], time.monotonic() + DEADLINE_S
    while not wanted():
        assert time.monotonic() < late, told(loader)
        made.append(rows(loader))
    return made


def check(pipeline: carya.Pipeline, made: list[str]) -> None:
    """These are its first epochs."""
    cheap = mock.patch.dict(os.environ, {"CARYA_TEST_CHEAP": "1"})
    with cheap, carya.Loader(pipeline, threads=2, epochs=len(made)) as loader:
        assert [rows(loader) for _ in made] == made


def made_afar(loader: Any) -> int:
    return sum(one["rows"] for one in told(loader))


def told(loader: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = loader.stats()["workers"]["afar"]
    return found


def beside(program: Program, places: int = 2, **more: Any) -> dict[str, Any]:
    """Options of a loader with one worker of its own."""
    return {
        "threads": 1,
        "function_workers": [program.address] * places,
        "function_tls": {"token": str(program.token)},
        **more,
    }


FORMS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda plain: plain.map(code.slow_numbers).batch(8),
    "with objects": lambda plain: plain.map(code.slow).batch(8),
    "whole batches": lambda plain: plain.map(code.slow_numbers).batch(8).map_batches(code.summed),
    "batches of many sizes": lambda plain: plain.map(code.slow_numbers).batch(8).map_batches(code.lengthened),
    "filtered": lambda plain: plain.filter(code.is_even).map(code.slow_numbers).batch(7, pad_last=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_the_same_bits_wherever_they_are_made(
    form: str, plain: carya.Pipeline, started: Callable[..., Program]
) -> None:
    pipeline = FORMS[form](plain)
    with carya.Loader(pipeline, epochs=None, **beside(started())) as loader:
        made = until(loader, lambda: made_afar(loader) > 100)
    check(pipeline, made)


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_operations_of_the_trainers_own_are_found_at_their_path(started: Callable[..., Program]) -> None:
    program = started(CARYA_OPS="")
    source = Path(__file__).with_name("own_op.cc")
    with mock.patch.dict(os.environ):
        op = carya.op("divided", sources=[source], flags=['-DWHAT="divided"'])
        pictures = np.random.default_rng(1).integers(0, 256, (COUNT, 4, 4, 3), np.uint8)
        pipeline = carya.arrays({"image": pictures}).shuffle(seed=2).op(op(by=3)).map(code.slowly).op(op(by=2)).batch(8)
        with carya.Loader(pipeline, epochs=None, **beside(program)) as loader:
            made = until(loader, lambda: made_afar(loader) > 100)
        check(pipeline, made)


def test_a_program_that_comes_goes_and_is_killed_costs_no_row(
    plain: carya.Pipeline, started: Callable[..., Program]
) -> None:
    pipeline = plain.map(code.slow_numbers).batch(8)
    program = started()
    made: list[str] = []
    with carya.Loader(pipeline, epochs=None, **beside(program)) as loader:
        for again in range(3):
            before = made_afar(loader)
            made += until(loader, lambda before=before: made_afar(loader) > before)  # type: ignore[misc]
            if again == 1:  # its sessions alone
                for pid in children(program.process.pid):
                    os.kill(pid, signal.SIGKILL)
                continue
            os.killpg(program.process.pid, signal.SIGKILL)
            program.end()
            made.append(rows(loader))
            program = started(program.port)
    check(pipeline, made)


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it has ended
        return []


def test_a_worker_that_dies_there_and_a_record_that_raises_only_there_are_made_here(
    plain: carya.Pipeline, started: Callable[..., Program]
) -> None:
    program = started()
    for function in (code.deadly, code.only_here):
        pipeline = plain.map(function).batch(8)
        with carya.Loader(pipeline, epochs=None, **beside(program)) as loader:
            made = until(loader, lambda: made_afar(loader) > 100)
        check(pipeline, made)


def test_a_machine_that_falls_silent_holds_nobody_up_for_long(
    plain: carya.Pipeline, started: Callable[..., Program]
) -> None:
    program = started()
    pipeline = plain.map(code.slow_numbers).batch(8)
    with carya.Loader(pipeline, epochs=None, **beside(program)) as loader:
        made = until(loader, lambda: made_afar(loader) > 0)
        for pid in children(program.process.pid):
            os.kill(pid, signal.SIGSTOP)
        made += until(loader, lambda: all(one["away"] for one in told(loader)))
        made.append(rows(loader))
    check(pipeline, made)


def test_a_machine_that_was_lost_before_its_samples_were_compared_gets_nothing(
    plain: carya.Pipeline, started: Callable[..., Program]
) -> None:
    program = started()

    def lose() -> None:
        """Once it has sessions whose samples are made, while those of this machine are not."""
        while not (sessions := children(program.process.pid)) or not all(map(children, sessions)):
            time.sleep(0.05)
        time.sleep(1.5)
        os.kill(program.process.pid, signal.SIGSTOP)
        for pid in sessions:
            os.kill(pid, signal.SIGKILL)
        time.sleep(6)
        os.kill(program.process.pid, signal.SIGCONT)

    loser = threading.Thread(target=lose)
    loser.start()
    with carya.Loader(plain.map(code.late_here).batch(8), epochs=4, **beside(program)) as loader:
        made = [np.asarray(batch["y"]).tolist() for _ in range(4) for batch in loader]
    loser.join()
    with carya.Loader(plain.batch(8), threads=1, epochs=4) as loader:
        assert made == [np.asarray(batch["y"]).tolist() for _ in range(4) for batch in loader]


def test_what_functions_have_started_there_ends_with_them(
    plain: carya.Pipeline, started: Callable[..., Program]
) -> None:
    program = started()
    with carya.Loader(plain.map(code.starts_a_process).batch(8), epochs=None, **beside(program)) as loader:
        left: list[int] = []

        def some_are_there() -> bool:  # not each record starts one
            below_sessions = (pid for session in children(program.process.pid) for pid in below(session))
            left[:] = [pid for pid in below_sessions if name_of(pid) == "sleep"]
            return bool(left)

        until(loader, some_are_there)
    late = time.monotonic() + DEADLINE_S
    while any(name_of(pid) == "sleep" for pid in left):
        assert time.monotonic() < late
        time.sleep(0.05)


def below(pid: int) -> list[int]:
    found = children(pid)
    return found + [other for one in found for other in below(one)]


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_a_module_that_is_not_there_and_a_function_that_always_raises_there_are_named(
    tmp_path: Path, plain: carya.Pipeline, started: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = started()
    (tmp_path / "only_here").mkdir()
    (tmp_path / "only_here" / "carya_test_only_here.py").write_text("def same(sample):\n    return sample\n")
    monkeypatch.syspath_prepend(str(tmp_path / "only_here"))
    import carya_test_only_here  # type: ignore[import-not-found]

    pipeline = plain.map(carya_test_only_here.same).map(code.slow_numbers).batch(8)
    with carya.Loader(pipeline, epochs=None, **beside(program)) as loader:
        (tmp_path / "only_here" / "carya_test_only_here.py").unlink()
        until_told(loader, "carya_test_only_here")
    with carya.Loader(plain.map(code.never_afar).batch(8), epochs=None, **beside(program)) as loader:
        made = until(
            loader, lambda: all("time after time: ValueError: not here" in one["away"] for one in told(loader))
        )
        made += [rows(loader), rows(loader)]
    check(plain.map(code.never_afar).batch(8), made)


def test_connections_without_the_token_are_ended_and_hold_nobody_up(
    plain: carya.Pipeline, started: Callable[..., Program]
) -> None:
    program = started()
    with contextlib.ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(socket.create_connection(("127.0.0.1", program.port))).sendall(b"carya")
        with carya.Loader(plain.map(code.slow_numbers).batch(8), epochs=None, **beside(program)) as loader:
            until(loader, lambda: made_afar(loader) > 0)
            assert len(children(program.process.pid)) >= 12
            until(loader, lambda: len(children(program.process.pid)) <= 2)


def until_told(loader: Any, wanted: str) -> None:
    """Until each place says so."""
    until(loader, lambda: bool(told(loader)) and all(wanted in one["away"] for one in told(loader)))


def test_other_files_versions_and_tokens_are_refused_by_name(
    tmp_path: Path, plain: carya.Pipeline, started: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = plain.map(code.slow_numbers).batch(8)
    program = started()
    other = tmp_path / "other"
    other.write_text(secrets.token_hex(16))
    other.chmod(0o600)
    with carya.Loader(pipeline, epochs=None, **beside(program, function_tls={"token": str(other)})) as loader:
        until_told(loader, "it has another token")
    with carya.Loader(
        pipeline, epochs=None, threads=1, function_workers="127.0.0.1:1", function_tls={"token": str(other)}
    ) as loader:
        until_told(loader, "start carya function-worker there")
    lying = plain.map(unlike).batch(8)
    with carya.Loader(lying, epochs=None, **beside(program)) as loader:
        until_told(loader, "its samples are not those that are made here")
        assert made_afar(loader) == 0
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "sitecustomize.py").write_text(
        "import importlib.metadata as m\nold = m.version\nm.version = lambda name: '0.1' if name == 'numpy' else old(name)\n"
    )
    aged = started(PYTHONPATH=os.pathsep.join([str(tmp_path / "old"), os.environ["PYTHONPATH"]]))
    with carya.Loader(pipeline, epochs=None, **beside(aged)) as loader:
        until_told(loader, "it has numpy 0.1, and the trainer")


def unlike(sample: dict[str, Any]) -> dict[str, Any]:
    return {"x": sample["x"] + bool(os.environ.get("CARYA_TEST_AFAR")), "y": sample["y"]}


def test_rows_that_cost_more_to_bring_than_to_make_are_not_brought(started: Callable[..., Program]) -> None:
    pictures = carya.arrays({"x": np.zeros((48, 1 << 18), np.uint8), "y": np.arange(48)}).map(code.cheap)
    with carya.Loader(pictures.batch(4), epochs=None, **beside(started())) as loader:
        until(loader, lambda: any("bringing its rows here costs" in one["away"] for one in told(loader)))


def test_nothing_is_unpickled_before_the_token_is_proven(tmp_path: Path, started: Callable[..., Program]) -> None:
    program = started()
    trap = tmp_path / "sprung"

    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(trap),)

    text = pickle.dumps(("open", Trap()))
    frame = struct.pack("<IQ", 0, len(text)) + text
    for sent in (
        b"",
        b"carya functions 1\n",
        b"carya functions 1\n" + bytes(32),
        b"carya functions 1\n" + bytes(64),
        bytes(90),
    ):
        with socket.create_connection(("127.0.0.1", program.port)) as link, contextlib.suppress(OSError):
            link.sendall(sent + frame + bytes(1000))
            link.shutdown(socket.SHUT_WR)
            while link.recv(4096):
                pass
    with socket.create_server(("127.0.0.1", 0)) as false:
        place = wire.Place(f"127.0.0.1:{false.getsockname()[1]}", program.token.read_bytes())

        def lie() -> None:
            link, _ = false.accept()
            with link, contextlib.suppress(OSError):
                link.sendall(b"carya functions 1\n" + bytes(32) + bytes(32) + frame)
                while link.recv(4096):
                    pass

        liar = threading.Thread(target=lie)
        liar.start()
        with pytest.raises(wire.UnreachableError, match="another token"):
            wire.connect(place, 5.0)
        liar.join()
    assert not trap.exists()
    wire.connect(wire.Place(program.address, program.token.read_bytes()), 5.0).close()


def test_tls_and_its_refusals(tmp_path: Path, plain: carya.Pipeline, started: Callable[..., Program]) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def sign() -> None:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True,
        )  # fmt: skip

    sign()
    program = started(0, 2, "--tls-cert", str(certificate), "--tls-key", str(key))
    pipeline = plain.map(code.slow_numbers).batch(8)
    proof = {"token": str(program.token), "ca": str(certificate), "server_name": "localhost"}
    with carya.Loader(pipeline, epochs=None, **beside(program, function_tls=proof)) as loader:
        made = until(loader, lambda: made_afar(loader) > 0)
    check(pipeline, made)
    with carya.Loader(pipeline, epochs=None, **beside(program)) as loader:
        until_told(loader, "")
        assert made_afar(loader) == 0
    with carya.Loader(
        pipeline, epochs=None, **beside(program, function_tls={**proof, "server_name": "other"})
    ) as loader:
        until_told(loader, "its certificate is not trusted")
    sign()  # a renewed one, which the program takes for its next connections
    with carya.Loader(pipeline, epochs=None, **beside(program, function_tls=proof)) as loader:
        made = until(loader, lambda: made_afar(loader) > 0)
    check(pipeline, made)


def test_what_cannot_be_is_refused(tmp_path: Path, plain: carya.Pipeline) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    pipeline = plain.map(code.cheap).batch(8)
    with pytest.raises(carya.Permission, match="chmod 600"):
        carya.Loader(pipeline, function_workers="127.0.0.1:1", function_tls={"token": token})
    token.chmod(0o600)
    for options, match in [
        ({"function_workers": "127.0.0.1:1"}, "function_tls"),
        ({"function_workers": 3, "function_tls": {"token": token}}, "once for each process"),
        ({"function_workers": "there", "function_tls": {"token": token}}, 'give "host:port"'),
        ({"function_workers": "10.0.0.7:7071", "function_tls": {"token": token}}, "unprotected"),
        ({"function_tls": {"token": token}}, "function_workers= too"),
        ({"function_workers": "127.0.0.1:1", "function_tls": {"token": None}}, "function_tls"),
        ({"function_workers": "127.0.0.1:1", "function_tls": {"token": token, "ca": token}}, "certificates in PEM"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=match):
            carya.Loader(pipeline, **options)
    with pytest.raises(carya.InvalidArgument, match="without Python functions"):
        carya.Loader(
            carya.arrays({"x": np.arange(8)}).batch(2), function_workers="127.0.0.1:1", function_tls={"token": token}
        )
    assert "0123456789abcdef" not in repr(wire.Place("a:1", b"0123456789abcdef"))
    run = [sys.executable, "-m", "carya", "function-worker", "--token-file", str(token)]
    for more, wanted in [
        ([], "--allow-functions"),
        (["--allow-functions", "--listen", "0.0.0.0:0"], "--tls-cert"),
        (["--allow-functions", "--tls-cert", "x"], "give both"),
        (["--allow-functions", "--token-file", str(tmp_path / "none")], "openssl rand"),
    ]:
        done = subprocess.run([*run, *more], capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        assert done.returncode != 0
        assert wanted in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_when_it_is_told_with_all_that_it_started(
    number: int, plain: carya.Pipeline, started: Callable[..., Program], tmp_path: Path
) -> None:
    (tmp_path / "temporary").mkdir()
    program = started(TMPDIR=str(tmp_path / "temporary"))
    with carya.Loader(plain.map(code.slow_numbers).batch(8), epochs=None, **beside(program)) as loader:
        until(loader, lambda: made_afar(loader) > 0)
        sessions = children(program.process.pid)
        assert sessions
        assert program.end(number) == (130 if number == signal.SIGINT else 0)
        assert not list((tmp_path / "temporary").glob("carya-afar-*"))
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                fd = os.pidfd_open(pid)
                assert select.select([fd], [], [], DEADLINE_S)[0]
                os.close(fd)
        rows(loader)
