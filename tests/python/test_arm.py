"""The aarch64 build in an emulator, beside the one for x86-64: hosts and workers of both give the same bits.

`make arm` builds it and sets CARYA_ARM; the digests of whole epochs are compared by tools/digests.py.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import workers
from streams import epoch_digest
from test_remote import at, read_until_remote, vision
from test_simd import digests

import carya

BUILD = Path(__file__).resolve().parents[2] / "build" / "arm"
pytestmark = pytest.mark.skipif("CARYA_ARM" not in os.environ, reason="make arm builds for aarch64 and runs this")

# Reads epochs until three chunks came from the worker; then the digest of one, which the worker had a part in.
HOST = """
import sys
import carya
from streams import digest
document, address = sys.argv[1:]
pipeline = carya.Pipeline.from_json(document)
with carya.Loader(pipeline, remote=[address], placement="remote:1", threads=1) as loader:
    seen = set()
    while loader.stats()["remote_chunks"] < 3:
        loader.set_epoch(0)
        seen.add(digest(loader))
    print(*seen, loader.placement()["workers"][0]["state"])
"""


def in_the_emulator(*arguments: str) -> str:
    """What the Python of the aarch64 build prints. It finds the tests' own modules as we do."""
    python, variables = digests.python_of(BUILD)
    variables["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    done = subprocess.run(
        [*python, *arguments], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_doctor_names_the_target() -> None:
    found = in_the_emulator("-m", "carya", "doctor")
    assert "NEON" in found
    code = "import platform; from carya import _core; print(platform.machine(), _core.simd_target())"
    assert in_the_emulator("-c", code).split() == ["aarch64", "NEON"]


def test_a_worker_of_the_other_architecture_is_accepted_and_gives_the_bits_of_the_host(photos: Path) -> None:
    program = [*digests.ARM_EMULATOR, str(BUILD / "python" / "carya" / "bin" / "carya-worker")]
    with (
        workers.running("--insecure", program=program) as worker,
        carya.Loader(vision(photos), remote=at(worker), placement="remote:1", threads=1) as loader,
    ):
        # The first chunk of a worker is computed by the host too: one whose bits differ gets no second one.
        assert read_until_remote(loader, 3) == epoch_digest(vision(photos))
        assert loader.placement()["workers"][0]["state"] == "up"


def test_a_host_of_the_other_architecture_takes_our_worker(photos: Path) -> None:
    with workers.running("--insecure") as worker:
        said = in_the_emulator("-c", HOST, vision(photos).to_json(), at(worker)[0]).split()
    assert said == [epoch_digest(vision(photos)), "up"]
