"""A real carya-worker for tests."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from daemons import until

from carya import _programs

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A carya-worker at a free port of the loopback (or at --listen), once it is ready. `program`: another one than that
    of the package, perhaps in an emulator."""

    def __init__(self, log: Path, *arguments: str, program: Sequence[str] = ()) -> None:
        self._log = log
        listen = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [
                    *(program or [_programs.program("carya-worker")]),
                    *("--threads", "1", "--max-silence", "600", *listen, *arguments),
                ],
                cwd="/",
                stderr=out,
            )
        found = until(lambda: self.process.poll() is not None or re.search(r" ready .*port=(\d+)", self.log()))
        assert not isinstance(found, bool), self.log()
        self.port = int(found[1])

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def log(self) -> str:
        return self._log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(300)


@contextmanager
def running(*arguments: str, program: Sequence[str] = ()) -> Iterator[Worker]:
    """A worker for a `with`; killed at its end."""
    with tempfile.TemporaryDirectory(prefix="carya-worker-") as folder:
        worker = Worker(Path(folder) / "log", *arguments, program=program)
        try:
            yield worker
        finally:
            if worker.process.poll() is None:
                worker.end(signal.SIGKILL)


def make_certificates(folder: Path, *names: str) -> dict[str, str]:
    """tools/test_ca.sh: paths of ca.pem, server.pem, server.key, client.pem, client.key by name."""
    subprocess.run([str(ROOT / "tools" / "test_ca.sh"), str(folder), *names], check=True, stdout=subprocess.DEVNULL)
    return {path.name: str(path) for path in folder.iterdir()}
