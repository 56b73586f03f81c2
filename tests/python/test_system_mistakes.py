"""Sixty mistakes of new users (tests/MISTAKES.md). This file: rights, limits, daemons, devices, other machines."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import picture
from daemons import until
from PIL import Image
from said import said
from streams import numbers, records
from test_daemon_namespaces import namespaces

import carya
from carya import _core, _programs
from carya._loading import job

NOBODY = 61234  # a user that nobody is
IS_ROOT = os.getuid() == 0

HEAD = f"""
import logging, os, resource, sys, time
import numpy as np
import carya
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
def nobody():
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
        os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
def told(call):
    try:
        call()
    except carya.Error as error:
        print(type(error).__name__, error)
    else:
        print("nothing was said")
"""


def run(code: str, **env: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter: that of pytest is its owner's."""
    folder = Path(tempfile.mkdtemp(prefix="carya-"))
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def photo(path: Path, seed: int, side: int = 20) -> Path:
    Image.fromarray(picture(seed, side, side + 4)).save(path)
    return path


# Rights --------------------------------------------------------------------------------------------------------------


def test_row_10_an_unreadable_file_is_told_after_few_tries_with_who_may_not(open_folder: Path) -> None:
    paths = [str(photo(open_folder / f"{number}.jpg", number)) for number in range(3)]
    os.chmod(paths[2], 0)
    out = run(f"""
        nobody()
        chain = carya.files({paths!r}).decode_image().resize((8, 8)).batch(3)
        with carya.Loader(chain, epochs=1) as loader:  # with the io_timeout of 30 s that it has
            told(lambda: list(loader))
            print(loader.stats()["read_retries"])
        told(lambda: carya.files({paths!r}).decode_image().sample(2))
        """)
    user = NOBODY if IS_ROOT else os.getuid()
    lines = [line for line in out.splitlines() if not line.startswith("WARNING")]
    assert lines[0].startswith(f"IoError record 2 ({paths[2]}): read: 2.jpg, "), out
    assert f"tries: Permission denied: user {user} (python" in lines[0]
    assert "may not read it; give that user the right to (chmod, setfacl), or leave the file out" in lines[0]
    assert int(lines[1]) <= 8, "a second of tries has at most that many, 30 s have 36"
    assert f"user {user} (python" in lines[2]
    assert f"may not read it (mode 0000, of user {os.getuid()}); give that user the right to read it" in lines[2]


def test_row_11_an_unreadable_class_folder(open_folder: Path) -> None:
    (open_folder / "cats").mkdir()
    photo(open_folder / "cats" / "0.jpg", 0)
    (open_folder / "cats").chmod(0)
    out = run(f"nobody()\ntold(carya.image_folder({str(open_folder)!r}).open)")
    assert f"\nPermission {open_folder}/cats: user " in "\n" + out, out
    assert "may not read it (mode 0000, of user" in out
    assert "; give that user the right to read it (chmod, setfacl), or run as one who has it" in out


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_row_45_a_socket_of_another_user_is_said_once(open_folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(open_folder / "caryad.sock"))
        listening.listen()
        (open_folder / "caryad.sock").chmod(0o600)
        out = run(
            """
            nobody()
            rows = carya.arrays({"x": np.zeros((8, 2), np.float32)}).batch(4)
            for _ in range(2):
                with carya.Loader(rows, epochs=1) as loader:
                    print(len([batch.records for batch in loader]))
            """,
            CARYA_DAEMON_SOCKET=str(open_folder / "caryad.sock"),
        )
    (warning,) = [line for line in out.splitlines() if "caryad.sock" in line]
    assert warning.startswith("WARNING works without the daemon: ")
    assert "may not connect to it" in warning
    assert out.splitlines()[-2:] == ["2", "2"], "both loaders work without it"


@pytest.mark.skipif(not IS_ROOT, reason="only root can start a program as another user")
def test_row_44_a_daemon_of_another_user(open_folder: Path) -> None:
    open_folder.chmod(0o777)
    place = str(open_folder / "caryad.sock")
    # A checkout below /root is closed to others.
    program = shutil.copy(_programs.program(), open_folder / "caryad")
    daemon = subprocess.Popen(
        [program, "--socket", place], cwd="/", stderr=subprocess.DEVNULL, user=NOBODY, group=NOBODY,
        env={**os.environ, "HOME": str(open_folder), "CARYA_CACHE_DIR": ""},
    )  # fmt: skip
    try:
        until(lambda: _core.daemon_listens(place))
        said(
            carya.Permission, lambda: carya.Loader(numbers(8, batch_size=4), daemon=place),
            f"daemon: {place} belongs to user {NOBODY}, and this user (0) trusts its own and root's only",
            'run caryad as this user or as a system service, or give daemon="embedded"',
        )  # fmt: skip
    finally:
        daemon.kill()
        daemon.wait()


# Limits --------------------------------------------------------------------------------------------------------------


def test_row_50_a_cache_that_takes_nothing_is_said_in_the_log(open_folder: Path) -> None:
    paths = [str(photo(open_folder / f"{number}.jpg", number)) for number in range(3)]
    cache = open_folder / "cache"
    code = f"""
        chain = carya.files({paths!r}).decode_image().random_resized_crop(8).batch(3)
        for _ in range(2):
            with carya.Loader(chain, daemon="embedded", decode_index=8) as loader:
                print(sum(len(batch["image"]) for epoch in range(2) for batch in loader))
        """
    assert run(code, CARYA_CACHE_DIR=str(cache)).split() == ["6", "6"]
    for store in cache.glob("*.store"):  # now nothing can be kept there
        store.unlink()
        store.mkdir()
    out = run(code, CARYA_CACHE_DIR=str(cache))
    lines = out.splitlines()
    assert [line for line in lines if line.isdecimal()] == ["6", "6"], out
    (said_once,) = [line for line in lines if not line.isdecimal()]
    assert said_once.startswith(f"WARNING the cache folder keeps no decode index: open {cache}/"), out
    assert "; make room in it, or give CARYA_CACHE_DIR a folder that this user can write" in said_once


def in_other_mounts(changes: str, code: str, **env: str) -> str:
    """The same of a process that sees other file systems: `changes` are commands of a shell."""
    if why := namespaces():
        pytest.skip(why)
    shell = f'set -e; {changes}; exec {sys.executable} -c "$CODE"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", shell],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "CODE": HEAD + textwrap.dedent(code), **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_row_50_a_disk_that_is_full_is_said_once_and_costs_no_batch(open_folder: Path) -> None:
    paths = [str(photo(open_folder / f"{number}.jpg", number, side=1024)) for number in range(8)]
    cache = open_folder / "cache"
    cache.mkdir()
    lines = in_other_mounts(
        f"mount -t tmpfs -o size=64k none {cache}; head -c 60k /dev/zero > {cache}/full",
        f"""
        chain = carya.files({paths!r}).decode_image().random_resized_crop(8).batch(4)
        for _ in range(2):
            with carya.Loader(chain, daemon="embedded", decode_index=8) as loader:
                print(sum(len(batch["image"]) for epoch in range(2) for batch in loader))
        """,
        CARYA_CACHE_DIR=str(cache),
    ).splitlines()
    assert [line for line in lines if line.isdecimal()] == ["16", "16"], lines
    (said_once,) = [line for line in lines if not line.isdecimal()]
    assert "No space left on device" in said_once
    assert "make room in it, or give CARYA_CACHE_DIR a folder that this user can write" in said_once


def test_row_51_too_few_open_files_are_said_as_what_they_are() -> None:
    out = run("""
        chain = carya.arrays({"x": np.arange(64)}).batch(4)
        told(lambda: carya.Loader(chain, daemon="embedded", slots=3, io_engine="uring").close())
        used = len(os.listdir("/proc/self/fd"))
        for more in range(1, 40):
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, 4096))
            told(lambda: carya.Loader(chain, daemon="embedded", slots=16).close())
            told(lambda: carya.Loader(chain, daemon="embedded", slots=2, io_engine="uring").close())
        """)
    if "nothing was said" not in out.splitlines()[0]:
        pytest.skip("io_uring is not available")
    assert re.search(
        r"Exhausted slots: 16 take a descriptor each, and this process may open \d+ files; raise that limit \(ulimit -n",
        out,
    ), out
    assert re.search(
        r"Exhausted io_uring: Too many open files; raise this process's limit of open files \(ulimit", out
    ), out
    assert "Lower" not in out
    assert out.splitlines()[-1] == "nothing was said"


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("EMFILE", "this process has no file descriptor left for io_uring: raise its limit of open files (ulimit -n)"),
        ("ENOMEM", "io_uring got no memory: raise the limit of locked memory (ulimit -l)"),
        ("EPERM", "`carya doctor` says how to allow io_uring"),
    ],
)
def test_row_51_why_there_is_no_io_uring_is_said_as_what_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: str, advice: str
) -> None:
    monkeypatch.setattr(job, "_said_what_reads", False)
    for _ in range(2):
        job.say_what_reads(f"pread (io_uring: {why})")
    (record,) = caplog.records
    assert record.getMessage() == f"reads go through pread (io_uring: {why}), which costs more CPU; {advice}"


@pytest.mark.skipif(not IS_ROOT, reason="the processes of this user are not counted, those of another are")
def test_row_52_too_few_processes() -> None:
    out = run("""
        chain = carya.arrays({"x": np.arange(64)}).batch(4)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        nobody()
        os.environ["CARYA_CACHE_DIR"] = "/tmp"
        told(lambda: carya.Loader(chain, daemon="embedded", threads=4))
        """)
    assert re.search(
        r"Exhausted engine: start of thread \d: .*; lower threads, or raise the limit of processes \(ulimit -u", out
    )
    assert "slots" not in out


def test_row_53_nothing_that_can_be_written(open_folder: Path) -> None:
    paths = [str(photo(open_folder / f"{number}.jpg", number)) for number in range(3)]
    code = f"""
        for name in ("HOME", "CARYA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "CARYA_DAEMON_SOCKET"):
            os.environ.pop(name, None)
        os.environ["HOME"] = "/nowhere"
        nobody()
        with carya.Loader(carya.files({paths!r}).decode_image().resize((8, 8)).batch(3), epochs=1) as loader:
            print(sum(len(batch["image"]) for batch in loader))
        """
    lines = run(code).splitlines()
    assert lines[-1] == "3", lines
    if IS_ROOT:  # then the process is another user's, who may not make /nowhere
        assert lines[0].startswith("WARNING no cache: /nowhere/.cache/carya: "), lines
        assert lines[0].endswith("give CARYA_CACHE_DIR a folder that this user can write")


def test_row_53_a_root_that_is_read_only_without_proc_sys_and_shared_memory(open_folder: Path) -> None:
    paths = [str(photo(open_folder / f"{number}.jpg", number)) for number in range(3)]
    lines = in_other_mounts(
        "mount --make-rprivate /; umount -l /dev/shm 2>/dev/null || true; mount -o remount,bind,ro /; "
        "mount -t tmpfs -o ro none /sys; mount -t tmpfs -o ro none /proc",
        f"""
        assert not os.listdir("/proc") and not os.listdir("/sys")
        try:
            open("/anything", "w")
        except OSError as error:
            assert error.errno == 30, error
        with carya.Loader(carya.files({paths!r}).decode_image().resize((8, 8)).batch(3), epochs=1) as loader:
            print(sum(len(batch["image"]) for batch in loader))
        """,
        HOME="/nowhere",
        CARYA_CACHE_DIR="/nowhere/cache",
        CARYA_DAEMON_SOCKET="",
    ).splitlines()
    assert lines[-1] == "3", lines
    (said_once,) = lines[:-1]
    assert said_once.startswith("WARNING no cache: /nowhere/cache: "), lines


def test_row_54_a_memory_limit_is_told_in_units_with_what_is_left() -> None:
    chain = carya.arrays({"x": np.zeros((4, 1 << 20), np.float32)}).batch(1 << 16)
    text = said(
        carya.Exhausted, lambda: carya.Loader(chain, slots=64), "slots: 64 of 256 GiB want 16.0 TiB: ", "raise the"
    )
    assert re.search(r": [\d.]+ [KMG]iB of memory are left for slots here; give a smaller batch or image", text), text


# Daemons -------------------------------------------------------------------------------------------------------------


def test_row_43_a_daemon_that_is_required_and_not_there(tmp_path: Path) -> None:
    chain = numbers(8, batch_size=4)
    for daemon in ("required", str(tmp_path / "none.sock")):
        said(
            carya.NotFound, lambda daemon=daemon: carya.Loader(chain, daemon=daemon), f"daemon={daemon!r}: nobody listens at",
            "; start one (caryad --socket ", 'use daemon="spawn", or daemon="embedded" to work without',
        )  # fmt: skip
    said(carya.InvalidArgument, lambda: carya.Loader(chain, daemon="requird"), "daemon: got 'requird'; give \"auto\"")


# Devices and other machines ------------------------------------------------------------------------------------------


def test_row_59_devices_that_are_not_there() -> None:
    torch = pytest.importorskip("torch")
    import carya.torch

    chain = numbers(8, batch_size=4)
    for device in ("mps", "xla", "xpu"):
        text = said(
            carya.InvalidArgument, lambda device=device: carya.torch.Loader(chain, device=device),
            f"Loader: device: got '{device}'; give \"cpu\" or \"cuda\", or a device_backend=",
        )  # fmt: skip
        assert "CUDA" not in text
    if not torch.cuda.is_available():
        said(
            carya.InvalidArgument, lambda: carya.torch.Loader(chain, device="cuda"),
            "device: got 'cuda', but torch finds no CUDA device here", 'give device="cpu", or install a CUDA build',
        )  # fmt: skip


def test_row_60_workers_that_have_no_address() -> None:
    chain, plain = numbers(8, batch_size=4), {"remote_tls": {"insecure": True}}
    for remote, words in (
        (["no-such-host.invalid:7070"], ("no-such-host.invalid:7070", "give a name that this host can look up")),
        (["host"], ('worker address: got "host"; give host:port',)),
        (5, ("remote: got 5; give ", "host:7070")),
    ):
        text = said(carya.InvalidArgument, lambda remote=remote: carya.Loader(chain, remote=remote, **plain), *words)
        assert "Correct" not in text


# The launcher --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank", "world"),
    [
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ],
)
def test_row_41_the_loader_of_jax_takes_its_rank_from_the_launcher(
    monkeypatch: pytest.MonkeyPatch, rank: str, world: str
) -> None:
    jax = pytest.importorskip("jax")
    import carya.jax

    chain, seen = numbers(24, batch_size=4), []
    monkeypatch.setenv(world, "3")
    for number in range(3):
        monkeypatch.setenv(rank, str(number))
        with carya.jax.Loader(chain) as loader:
            assert (loader.rank, loader.world_size) == (number, 3)
            seen += records(loader)
    assert sorted(np.concatenate(seen).tolist()) == list(range(24))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    said(
        carya.InvalidArgument, lambda: carya.jax.Loader(chain, sharding=sharding),
        "sharding: this is rank 2 of 3, and jax knows 1 process(es)", "call jax.distributed.initialize() before the loader",
    )  # fmt: skip
    with carya.jax.Loader(chain, sharding=sharding, rank=0, world_size=1) as loader:
        assert len(loader) == 6


def test_row_41_what_jax_was_told_comes_before_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    import carya.jax

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    facts: Any = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setattr(jax, "distributed", facts)
    with carya.jax.Loader(numbers(24, batch_size=4)) as loader:
        assert (loader.rank, loader.world_size) == (0, 1)  # of the one process that was initialized
    monkeypatch.setattr(facts, "is_initialized", lambda: False)
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    monkeypatch.setattr(jax, "process_index", lambda: 3)
    with carya.jax.Loader(numbers(24, batch_size=4)) as loader:
        assert (loader.rank, loader.world_size) == (3, 4)
