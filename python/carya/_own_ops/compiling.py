"""Sources to a shared library, once for each content, compiler and flags."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .._errors import InvalidArgument, NotFound, Unsupported
from .._pipeline.dataset import cache_dir

INCLUDE = Path(__file__).absolute().parent.parent / "include"
# No contraction to fused multiply-adds, and no more than the machine's baseline: the same bits everywhere.
_FLAGS = ("-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fvisibility=hidden", "-Wall")
_SAID_MAX = 4000


def compiled(name: str, sources: list[str], flags: list[str]) -> str:
    """The path of the library. Errors: NotFound, Unsupported, InvalidArgument with what the compiler says."""
    digest = hashlib.blake2b(digest_size=16)
    for source in sources:
        try:
            text = Path(source).read_bytes()
        except OSError as error:
            raise NotFound(f"op: {name}: {source}: {error.strerror}") from None
        digest.update(hashlib.blake2b(text).digest())
    digest.update("\0".join(flags).encode())
    identity = digest.hexdigest()
    compiler, version = _compiler()
    built = hashlib.blake2b(f"{identity}\n{version}\n".encode() + _header(), digest_size=16).hexdigest()
    folder = _folder()
    path = folder / f"{name}-{built}.so"
    if path.exists():
        return str(path)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "op.so"
        command = [
            compiler,
            *_FLAGS,
            f'-DCARYA_OP_DIGEST="{identity}"',
            f"-I{INCLUDE}",
            *flags,
            *sources,
            "-o",
            str(made),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise InvalidArgument(f"op: {name}: {compiler} refuses it:\n{done.stderr.strip()[-_SAID_MAX:]}")
        os.replace(made, path)  # two processes may do so at once
    return str(path)


def _header() -> bytes:
    return (INCLUDE / "carya_op.h").read_bytes()


def _compiler() -> tuple[str, str]:
    """The compiler and what it says of itself. Errors: Unsupported."""
    for candidate in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        found = shutil.which(candidate)
        if found:
            done = subprocess.run([found, "--version"], capture_output=True, text=True)
            return found, done.stdout.splitlines()[0] if done.stdout else ""
    raise Unsupported(
        "op: this machine has no C++ compiler; install one (Debian: apt-get install g++), set CXX, or give library= of "
        "what was compiled elsewhere"
    )


def _folder() -> Path:
    """Where libraries are kept, of this user alone: their code is run."""
    kept = cache_dir(told=False)
    folder = Path(kept) / "ops" if kept else Path(tempfile.mkdtemp(prefix="carya-ops-"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = folder.stat()
    if owner.st_uid != os.geteuid() or owner.st_mode & 0o022:
        raise Unsupported(
            f"op: {folder} is not this user's alone, and code that is run must not lie there; chmod 700 it"
        )
    return folder
