"""carya-worker as its users see it: starting, refusing, certificates, limits, ending."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chunk_client import Host, table, to_cbor
from conftest import picture
from daemons import until
from PIL import Image
from workers import make_certificates, running

import carya
from carya import _core, _programs

PROGRAM = _programs.program("carya-worker")
FACTS = [
    {"name": "chunks", "value": "2"},
    *({"name": "codec", "value": codec} for codec in _core.doctor()["codecs"]),
]


def refused(*arguments: str) -> tuple[int, str]:
    """Status and error of a worker that does not start."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stderr


# --- starting


def test_help_teaches_and_version_is_said() -> None:
    shown = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    for text in ("--insecure", "tools/test_ca.sh", "carya-worker --listen 0.0.0.0:7070 --cert"):
        assert text in shown
    script = [sys.executable, "-c", "import carya._programs; carya._programs.worker_main()", "--version"]
    assert subprocess.run(script, capture_output=True, text=True, check=True).stdout.startswith("carya-worker ")


def test_a_file_in_the_place_of_its_socket_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("kept")
    link = tmp_path / "link"
    link.symlink_to(file)
    for path in (file, link, tmp_path):
        assert refused("--listen", f"unix:{path}") == (
            2,
            f"carya-worker: listen at unix:{path}: it exists and is no socket; remove it, or give another path\n",
        )
    assert link.is_symlink()
    assert file.read_text() == "kept"


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_plain_tcp_to_other_machines_wants_a_word(address: str) -> None:
    status, error = refused("--listen", address)
    assert status == 2
    assert "give certificates (--cert, --key, --ca), or let everybody in by --insecure" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--listen", "nowhere"], "give host:port"),
        (["--listen", "127.0.0.1:0", "--cert", "x"], "--cert, --key and --ca belong together"),
        (["--listen", "127.0.0.1:0", "--cert", "/no/a", "--key", "/no/b", "--ca", "/no/c"], "/no/"),
        (["--listen", "127.0.0.1:0", "--token-file", "/no/token"], "/no/token: No such file"),
        (["--listen", "127.0.0.1:0", "--token-file", "/dev/null"], "give 1 to 1048576 bytes of text"),
        (["--listen", "127.0.0.1:0", "--memory", "much"], "--memory much: give a size"),
        (["--listen", "127.0.0.1:0", "--threads", "x"], "--threads"),
        ([], "--listen is required"),
    ],
)
def test_wrong_arguments_are_status_2_and_say_what_is_wrong(arguments: list[str], text: str) -> None:
    status, error = refused(*arguments)
    assert status == 2
    assert text in error


def test_a_port_in_use_is_status_1() -> None:
    with running() as worker:
        status, error = refused("--listen", f"127.0.0.1:{worker.port}")
        assert status == 1
        assert error == f"carya-worker: listen at 127.0.0.1:{worker.port}: Address already in use\n"


def test_the_service_manager_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(300)
        os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        try:
            with running() as worker:
                assert manager.recv(1000).startswith(b"READY=1\nSTATUS=serving at 127.0.0.1:0")
                assert worker.end() == 0
                assert manager.recv(1000).startswith(b"STOPPING=1")
        finally:
            del os.environ["NOTIFY_SOCKET"]


# --- who may come


def test_codecs_of_another_version_are_refused_with_the_difference() -> None:
    with running() as worker, Host(worker.address) as host:
        kind, said = host.hello(facts=[{**FACTS[0]}, {"name": "codec", "value": "libjpeg-turbo 1.0"}])
        assert kind == "Error"
        assert "the other libjpeg-turbo 1.0; install the same release" in said["error"]["message"]
        until(lambda: "refused peer=" in worker.log())
        assert "install the same release" in worker.log()


def test_a_token_must_be_known(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open sesame\n")
    (tmp_path / "token").chmod(0o600)
    with running("--token-file", str(tmp_path / "token")) as worker:
        with Host(worker.address) as host:
            assert host.hello("open", FACTS)[1]["error"]["message"] == "the client does not know the token"
        with Host(worker.address) as host:
            assert host.hello("open sesame", FACTS)[0] == "Welcome"


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("open sesame\n")
    for mode in (0o644, 0o640, 0o602):
        token.chmod(mode)
        status, error = refused("--listen", "127.0.0.1:0", "--token-file", str(token))
        assert (status, "chmod 600" in error) == (2, True)


def test_connections_are_limited_and_refusals_logged() -> None:
    with running("--max-connections", "1") as worker:
        with Host(worker.address) as one, Host(worker.address) as two:
            assert one.hello(facts=FACTS)[0] == "Welcome"
            kind, said = two.hello(facts=FACTS)
            assert (kind, "which is the limit" in said["error"]["message"]) == ("Error", True)
            until(lambda: "refused peer=127.0.0.1:" in worker.log())
        assert 'why="there are 1 connections, which is the limit"' in worker.log()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Of the right authority, and of one that has nothing to say."""
    return {name: make_certificates(tmp_path_factory.mktemp(name)) for name in ("right", "wrong")}


def context(trusted: dict[str, str], own: dict[str, str] | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=trusted["ca.pem"])
    if own:
        made.load_cert_chain(own["client.pem"], own["client.key"])
    return made


def secured(files: dict[str, str], *arguments: str) -> Any:
    return running(*("--cert", files["server.pem"], "--key", files["server.key"], "--ca", files["ca.pem"]), *arguments)


def test_certificates_are_checked_on_both_sides(certificates: dict[str, dict[str, str]]) -> None:
    right, wrong = certificates["right"], certificates["wrong"]
    with secured(right) as worker:
        assert "tls=1.3" in worker.log()
        with Host(worker.address, context(right, right)) as host:
            assert host.hello(facts=FACTS)[0] == "Welcome"
            assert host.socket.version() == "TLSv1.3"  # type: ignore[attr-defined]
        for trusted, own, name in ((right, None, "localhost"), (right, wrong, "localhost")):  # the worker refuses
            with pytest.raises((OSError, EOFError)), Host(worker.address, context(trusted, own), name) as host:
                host.hello(facts=FACTS)
        for trusted, own, name in ((wrong, right, "localhost"), (right, right, "elsewhere.test")):  # the host refuses
            with pytest.raises(ssl.SSLCertVerificationError):
                Host(worker.address, context(trusted, own), name)
        with pytest.raises((OSError, EOFError)), Host(worker.address) as host:  # no TLS at all
            host.hello(facts=FACTS)
        with Host(worker.address, context(right, right)) as host:
            assert host.hello(facts=FACTS)[0] == "Welcome"
        until(lambda: worker.log().count("gone connection=") == 2 and "refused peer=" in worker.log())
        assert worker.log().count("welcome connection=") == 2


def test_names_of_hosts_are_checked_where_they_are_given(certificates: dict[str, dict[str, str]]) -> None:
    right = certificates["right"]
    for name, welcome in (("client.test", True), ("somebody.test", False)):
        with secured(right, "--client", name) as worker:
            try:
                with Host(worker.address, context(right, right)) as host:
                    assert host.hello(facts=FACTS)[0] == "Welcome"
                    assert welcome
            except (OSError, EOFError):
                assert not welcome


def test_a_key_of_another_certificate_is_status_2(certificates: dict[str, dict[str, str]]) -> None:
    right, wrong = certificates["right"], certificates["wrong"]
    status, error = refused(
        *("--listen", "127.0.0.1:0", "--cert", right["server.pem"], "--key", wrong["server.key"]),
        *("--ca", right["ca.pem"]),
    )
    assert status == 2
    assert wrong["server.key"] in error


# --- chunks


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photo") / "a"
    path.mkdir()
    Image.fromarray(picture(7, 240, 320)).save(path / "0.jpg", quality=90)
    return path / "0.jpg"


def pipeline_of(photo: Path) -> carya.Pipeline:
    return carya.image_folder(photo.parents[1]).decode_image().resize((32, 24))


def minutes_of(photo: Path) -> carya.Pipeline:
    """Seconds for each row: what has to wait for 400 of them waits longer than any wait of a test."""
    large = carya.image_folder(photo.parents[1]).decode_image().resize((6000, 6000))
    for _ in range(16):
        large = large.gaussian_blur(127, 60.0)
    return large.resize((32, 24))


def plan_of(pipeline: carya.Pipeline, ops: int = 2) -> bytes:
    native = pipeline.batch(1).native
    mark = native.fingerprint("raise")
    return to_cbor(
        {
            "id": 1,
            "pipeline": native.to_json(),
            "fingerprint": {"high": int(mark[:16], 16), "low": int(mark[16:], 16)},
            "seed": 0,
            "order": list(range(ops)),
            "cut": ops,
        }
    )


class Registered:
    """A welcome host whose worker has plan 1."""

    def __init__(self, host: Host, pipeline: carya.Pipeline, ops: int = 2) -> None:
        self.host = host
        assert host.hello(facts=FACTS)[0] == "Welcome"
        host.say("Register", {"plan": 1, "about": b""}, plan_of(pipeline, ops), 1)
        assert host.hear("Registered", "Error")[0] == "Registered"

    def ask(self, photos: list[bytes], row_bytes: int, request: int) -> None:
        rows = len(photos)
        inputs = [item for photo in photos for item in (photo, bytes(8))]
        about = to_cbor({"plan": 1, "epoch": 0, "rows": rows})
        body = {"plan": 1, "about": about, "result_bytes": rows * row_bytes}
        self.host.say("Request", body, table(rows, inputs, [True, False]), request)

    def answer(self) -> tuple[str, dict[str, Any], bytes, int]:
        return self.host.hear("Result", "ChunkFailed", "Error")


ROW = 32 * 24 * 3 + 8


def test_a_chunk_has_the_bits_of_the_host(photo: Path) -> None:
    with running() as worker, Host(worker.address) as host:
        client = Registered(host, pipeline_of(photo))
        client.ask([photo.read_bytes()] * 2, ROW, 5)
        kind, _, payload, request = client.answer()
        assert (kind, request) == ("Result", 5)
        with carya.Loader(pipeline_of(photo).batch(1), daemon="embedded") as loader:
            expected = np.array(next(iter(loader))["image"]).tobytes()
        assert payload[: len(expected)] == expected


def test_draining_finishes_what_there_is_and_ends_with_status_0(photo: Path) -> None:
    with running() as worker, Host(worker.address) as host:
        client = Registered(host, pipeline_of(photo))
        for request in range(10, 30):
            client.ask([photo.read_bytes()] * 20, ROW, request)
        host.say("Ping", {}, request=99)
        seen: list[tuple[str, int]] = []
        while True:  # the Pong says that the worker has all of them
            kind, _, _, request = host.hear("Result", "ChunkFailed", "Pong")
            if kind == "Pong":
                break
            seen.append((kind, request))
        worker.process.send_signal(signal.SIGTERM)
        drains = False
        while len(seen) < 20 or not drains:
            kind, _, _, request = host.hear("Result", "ChunkFailed", "Drain", "Error")
            if kind == "Drain":
                drains = True
            else:
                seen.append((kind, request))
        assert sorted(seen) == [("Result", request) for request in range(10, 30)]
        host.socket.close()
        assert worker.process.wait(300) == 0
        assert "draining connections=1" in worker.log()


def test_int_ends_it_too_and_a_second_signal_at_once() -> None:
    with running() as worker:
        assert worker.end(signal.SIGINT) == 0
    with running() as worker, Host(worker.address) as host:
        assert host.hello(facts=FACTS)[0] == "Welcome"
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: "draining" in worker.log())
        assert worker.end() == 0
        assert "ending at once" in worker.log()


def test_a_second_signal_ends_it_in_the_middle_of_minutes_of_work(photo: Path) -> None:
    with running("--max-seconds", "3600", "--grace", "3600") as worker, Host(worker.address) as host:
        client = Registered(host, minutes_of(photo), 19)
        client.ask([photo.read_bytes()] * 400, ROW, 1)
        host.say("Ping", {}, request=99)
        host.hear("Pong")
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: "draining connections=1 chunks=1" in worker.log())
        assert worker.process.poll() is None  # the first one waits for what there is
        assert worker.end() == 0
        assert "ending at once connections=1 chunks=1" in worker.log()


def test_a_killed_worker_is_found_again_at_its_port(photo: Path) -> None:
    with running() as worker:
        with Host(worker.address) as host:
            client = Registered(host, pipeline_of(photo))
            client.ask([photo.read_bytes()] * 200, ROW, 1)
            assert worker.end(signal.SIGKILL) == -signal.SIGKILL
            with pytest.raises((EOFError, OSError)):
                host.hear("Error")
        with running("--listen", f"127.0.0.1:{worker.port}") as again, Host(again.address) as host:
            assert host.hello(facts=FACTS)[0] == "Welcome"


# --- what a hostile host gets


def alive(address: tuple[str, int], photo: Path) -> None:
    """Another host is served as if nothing were."""
    with Host(address) as host:
        client = Registered(host, pipeline_of(photo))
        client.ask([photo.read_bytes()], ROW, 1)
        assert client.answer()[0] == "Result"


def test_pictures_above_the_limit_are_left_to_the_host(photo: Path) -> None:
    """As they are stored, and as an operation in the middle makes them."""
    with running("--max-megapixels", "0.05") as worker, Host(worker.address) as host:
        client = Registered(host, pipeline_of(photo))
        client.ask([photo.read_bytes()], ROW, 1)
        kind, said, payload, _ = client.answer()
        assert kind == "Result"
        assert payload == bytes(ROW)  # the one row is broken: no result
        assert b"broken\x81\x00" in said["about"]
    with running("--max-megapixels", "0.1") as worker:
        alive(worker.address, photo)
        with Host(worker.address) as host:
            bomb = carya.image_folder(photo.parents[1]).decode_image().resize((13000, 13000)).resize((32, 24))
            client = Registered(host, bomb, 3)
            client.ask([photo.read_bytes()], ROW, 1)
            assert b"broken\x81\x00" in client.answer()[1]["about"]


def test_the_worst_row_keeps_to_the_memory(photo: Path) -> None:
    """What a picture may take is priced by --memory before it is made, and what a plan's document takes to be read."""
    bomb = carya.image_folder(photo.parents[1]).decode_image().resize((8000, 8000)).gaussian_blur(3).resize((32, 24))
    with running("--memory", "64MiB") as worker:
        with Host(worker.address) as host:
            client = Registered(host, bomb, 4)
            client.ask([photo.read_bytes()], ROW, 1)
            kind, said, _, _ = client.answer()
            assert (kind, b"broken\x81\x00" in said["about"]) == ("Result", True)
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{worker.process.pid}/status").read_text())
        assert peak is not None
        assert int(peak[1]) < 64 * 1024
        alive(worker.address, photo)


def test_a_long_plan_keeps_to_the_memory(photo: Path) -> None:
    """To read a document takes many times its bytes: one that fits into a frame may be too long for --memory."""
    long = to_cbor({"pipeline": "x" * (14 << 20)})
    few = rf"worker: a plan of {len(long)} bytes; give at most \d{{6}}, or the worker more --memory"
    for memory, too_long in (("64MiB", True), ("2GiB", False)):  # the second reads it, and it is no plan
        with running("--memory", memory) as worker, Host(worker.address) as host:
            assert host.hello(facts=FACTS)[0] == "Welcome"
            host.say("Register", {"plan": 1, "about": b""}, long, 1)
            said = host.hear("Error")[1]["error"]["message"]
            assert bool(re.fullmatch(few, said)) == too_long, said
            host.say("Register", {"plan": 2, "about": b""}, plan_of(pipeline_of(photo)), 2)
            assert host.hear("Registered", "Error")[0] == "Registered"


def test_a_chunk_that_takes_too_long_is_given_back(photo: Path) -> None:
    slow = carya.image_folder(photo.parents[1]).decode_image().resize((6000, 6000)).resize((32, 24))
    with running("--max-seconds", "0.1") as worker:
        with Host(worker.address) as host:
            client = Registered(host, slow, 3)
            client.ask([photo.read_bytes()] * 40, ROW, 1)
            kind, said, _, _ = client.answer()
            assert kind == "ChunkFailed"
            assert said["error"]["code"] == 5  # timeout
        # Its thread is free again after the row that it was at.
        with Host(worker.address) as host:
            client = Registered(host, pipeline_of(photo))
            until(lambda: client.ask([photo.read_bytes()], ROW, 1) or client.answer()[0] == "Result")


def test_an_operation_that_takes_too_long_is_given_up_in_the_middle(tmp_path: Path) -> None:
    """One step each, which no look between steps sees: many scans, one blur, an interlaced PNG, floats."""
    (tmp_path / "a").mkdir()
    Image.fromarray(picture(3, 4500, 4500)).save(tmp_path / "a" / "0.jpg", progressive=True)
    small = tmp_path / "a" / "1.jpg"
    Image.fromarray(picture(3, 32, 32)).save(small)
    photos = carya.image_folder(tmp_path).decode_image()
    long = {
        "scans": (photos.resize((32, 24)), 2, tmp_path / "a" / "0.jpg"),
        "resize": (photos.resize((9000, 9000), interpolation="bicubic").resize((32, 24)), 3, small),
        "blur": (
            photos.resize((3000, 3000), interpolation="nearest").gaussian_blur(127, 60.0).resize((32, 24)),
            4,
            small,
        ),
        "floats": (
            photos.resize((2000, 2000), interpolation="nearest")
            .to_dtype("float32", scale=True)
            .gaussian_blur(127, 60.0)
            .resize((32, 24)),
            5,
            small,
        ),
    }
    with running("--max-seconds", "0.1") as worker:
        for name, (pipeline, ops, photo) in long.items():
            with Host(worker.address) as host:
                client = Registered(host, pipeline, ops)
                row_bytes = ROW if name != "floats" else 32 * 24 * 3 * 4 + 8

                def ends_in_the_middle(client: Registered = client, photo: Path = photo, row: int = row_bytes) -> bool:
                    client.ask([photo.read_bytes()], row, 1)
                    kind, said, _, _ = client.answer()
                    assert kind == "ChunkFailed"
                    # A thread that waits for a core has used up the time before the row begins.
                    return "in the middle of row 0 of 1" in said["error"]["message"]

                until(ends_in_the_middle)
        alive(worker.address, small)


def test_passes_are_priced_before_they_are_made(photo: Path) -> None:
    """A chain that is sure to take longer than a chunk may is left to the host at once: no picture of it is made."""
    chain = carya.image_folder(photo.parents[1]).decode_image().resize((6000, 6000))
    for _ in range(40):
        chain = chain.gaussian_blur(3)
    with running("--max-seconds", "3") as worker:
        with Host(worker.address) as host:
            client = Registered(host, chain.resize((32, 24)), 43)
            client.ask([photo.read_bytes()], ROW, 1)
            kind, said, _, _ = client.answer()
            assert (kind, b"broken\x81\x00" in said["about"]) == ("Result", True)
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{worker.process.pid}/status").read_text())
        assert peak is not None
        assert int(peak[1]) < 100 * 1024  # one picture has 108 MB
        alive(worker.address, photo)


def test_what_nobody_waits_for_is_given_up(photo: Path) -> None:
    """A host that goes leaves the one thread to the next one, in the middle of many minutes of work."""
    with running("--max-seconds", "3600") as worker:
        for leave in ("closes", "cancels"):
            with Host(worker.address) as host:
                client = Registered(host, minutes_of(photo), 19)
                client.ask([photo.read_bytes()] * 400, ROW, 1)
                client.host.say("Ping", {}, request=99)
                host.hear("Pong")
                if leave == "cancels":
                    host.say("Cancel", {}, request=1)
                    assert client.answer()[0] == "ChunkFailed"
            alive(worker.address, photo)


def test_memory_is_limited(photo: Path) -> None:
    with running("--memory", "8MiB") as worker:
        with Host(worker.address) as host:
            kind, said = host.hello(facts=FACTS)
            assert kind == "Welcome"
            assert (said["request_bytes_max"], said["result_bytes_max"]) == (4 << 20, 4 << 20)
            host.say("Request", {"plan": 1, "about": b"", "result_bytes": 5 << 20}, request=1)
            assert "give at most 4194304" in host.hear("Error")[1]["error"]["message"]
        alive(worker.address, photo)


Change = Callable[[dict[str, Any]], None]


def without_ops(plan: dict[str, Any]) -> None:
    plan["pipeline"] = json.dumps({**json.loads(plan["pipeline"]), "ops": [{"op": "exec", "code": "x"}] * 2})


@pytest.mark.parametrize(
    "change",
    [
        without_ops,
        lambda plan: plan.update(pipeline="[" * 100_000),
        lambda plan: plan.update(pipeline="{}"),
        lambda plan: plan.update(cut=2**63),
        lambda plan: plan.update(order=[2**63, 1]),
        lambda plan: plan.update(order=[1, 1]),
        lambda plan: plan.update(order=list(range(60_000)), cut=60_000),
        lambda plan: plan.update(fingerprint={"high": 0, "low": 0}),
        lambda plan: plan.update(pipeline="x" * (17 << 20)),
    ],
)
def test_a_hostile_plan_is_refused_and_the_connection_goes_on(photo: Path, change: Change) -> None:
    from chunk_client import from_cbor

    with running() as worker:
        with Host(worker.address) as host:
            assert host.hello(facts=FACTS)[0] == "Welcome"
            plan = from_cbor(plan_of(pipeline_of(photo)))
            change(plan)
            host.say("Register", {"plan": 1, "about": b""}, to_cbor(plan), 1)
            kind, said, _, request = host.hear("Registered", "Error")
            assert (kind, request) == ("Error", 1)
            assert said["error"]["message"]
            host.say("Register", {"plan": 2, "about": b""}, plan_of(pipeline_of(photo)), 2)
            assert host.hear("Registered", "Error")[0] == "Registered"
        assert worker.process.poll() is None


def lengths(numbers: list[int], rest: bytes = b"") -> bytes:
    """Of one row: the photo's, its index entry's, the label's."""
    return b"".join(number.to_bytes(8, "little") for number in [0, 0, *numbers]) + rest


@pytest.mark.parametrize(
    ("about", "payload"),
    [
        ({"plan": 1, "epoch": 0, "rows": 2**62}, b""),
        ({"plan": 1, "epoch": 0, "rows": 0}, b""),
        ({"plan": 1, "epoch": 0, "rows": 1}, b""),
        ({"plan": 1, "epoch": 0, "rows": 1}, lengths([2**64 - 1, 0, 8], bytes(100))),
        ({"plan": 1, "epoch": 0, "rows": 1}, lengths([2**63, 0, 2**63], bytes(100))),
        ({"plan": 1, "epoch": 0, "rows": 1}, lengths([0, 0, 8], bytes(64 + 8 + 1))),
        ({"plan": 1, "epoch": 0, "rows": 1}, lengths([0, 0, 8], b"\x01" * 72)),
        ({"plan": 1, "epoch": 0, "rows": 1}, lengths([0, 2**64 - 1, 8], bytes(72))),
        ({"plan": 1, "epoch": 0, "rows": 1}, lengths([0, 9, 8], bytes(72))),
        ({"plan": 1, "epoch": 0, "rows": 16_000}, lengths([0, 0, 8], bytes(72))),
    ],
)
def test_a_hostile_chunk_is_refused_and_the_connection_goes_on(
    photo: Path, about: dict[str, int], payload: bytes
) -> None:
    with running() as worker, Host(worker.address) as host:
        client = Registered(host, pipeline_of(photo))
        rows = min(about["rows"], 16_000)
        body = {"plan": 1, "about": to_cbor(about), "result_bytes": rows * ROW}
        host.say("Request", body, payload, 3)
        kind, said, _, request = client.answer()
        assert (kind, request) == ("ChunkFailed", 3)
        assert said["error"]["message"].startswith("remote ")
        client.ask([photo.read_bytes()], ROW, 4)
        assert client.answer()[0] == "Result"


def test_rubbish_ends_its_connection_only(photo: Path) -> None:
    with running() as worker, Host(worker.address) as host:
        host.socket.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(100))
        assert host.hear("Error")[0] == "Error"
        with pytest.raises((EOFError, OSError)):
            host.hear("Error")
        alive(worker.address, photo)


def test_hundreds_of_silent_connections_are_a_few_lines_of_the_log(photo: Path) -> None:
    with running() as worker, ExitStack() as connected:
        began = time.monotonic()
        silent = [connected.enter_context(Host(worker.address)) for _ in range(600)]
        for host in silent[:500]:  # they had to make room for later ones, and were told so
            assert "did not say who they are" in host.hear("Error")[1]["error"]["message"]
        until(lambda: "refused peer=" in worker.log())
        lines = worker.log().splitlines()
        assert len(lines) <= 3 + (time.monotonic() - began), lines  # it is ready, and one a second
        alive(worker.address, photo)
