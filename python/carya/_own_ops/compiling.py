"""Sources to a shared library, once for each content (of the headers beside them too), compiler and flags."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from .._errors import InvalidArgument, IoError, NotFound, Unsupported
from .._pipeline.dataset import cache_dir
from .included import included

INCLUDE = Path(__file__).absolute().parent.parent / "include"
# No contraction to fused multiply-adds, and no more than the machine's baseline: the same bits everywhere.
_FLAGS = ("-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fvisibility=hidden", "-Wall")
_SAID_MAX = 4000


def compiled(name: str, sources: list[str], flags: list[str]) -> str:
    """The path of the library. Errors: NotFound, Unsupported, IoError, InvalidArgument with what the compiler says."""
    digest = hashlib.blake2b(digest_size=16)
    for source in sources:
        try:
            text = Path(source).read_bytes()
        except OSError as error:
            raise NotFound(f"op: {name}: {source}: {error.strerror}; give the path of a C or C++ file") from None
        digest.update(hashlib.blake2b(text).digest())
    digest.update("\0".join(flags).encode())
    for text in included(sources, flags):
        digest.update(hashlib.blake2b(text).digest())
    identity = digest.hexdigest()
    compiler, version = _compiler()
    languages = "".join("c" if source.endswith(".c") else "+" for source in sources)
    how = "\n".join([identity, version, *compiler[1:], languages, *_machine([*compiler[1:], *flags])])
    built = f"{name}-{hashlib.blake2b(how.encode() + _header(), digest_size=16).hexdigest()}"
    try:
        folder = _folder()
        return _kept(folder, built) or _made(
            name, folder, built, compiler, [f'-DCARYA_OP_DIGEST="{identity}"', *flags], sources
        )
    except OSError as error:
        where = error.filename or "where it is compiled"
        raise IoError(
            f"op: {name}: {where}: {error.strerror}; make room, or give a CARYA_CACHE_DIR that this user may write"
        ) from None


def _kept(folder: Path, built: str) -> str | None:
    """The library of an earlier time. Its name has the sum of its bytes: code of a file that broke off would crash."""
    for path in sorted(folder.glob(f"{built}-*.so")):
        if path.name == f"{built}-{_sum(path)}.so":
            return str(path)
        path.unlink(missing_ok=True)
    return None


def _sum(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def _made(name: str, folder: Path, built: str, compiler: list[str], flags: list[str], sources: list[str]) -> str:
    """Errors: OSError, Unsupported, InvalidArgument."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "op.so"
        command = [
            *compiler,
            *_FLAGS,
            f"-I{INCLUDE}",
            *flags,
            *_files(sources),
            "-o",
            str(made),
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        if done.returncode:
            said = done.stderr.strip()[:_SAID_MAX]  # the first error is the cause of others
            said = said or f"(not a word; it ended with status {done.returncode})"
            raise InvalidArgument(f"op: {name}: {compiler[0]} refuses it:\n{said}")
        if not made.exists():
            raise Unsupported(f"op: {name}: {compiler[0]} made no library, and no error; set CXX to a C++ compiler")
        path = folder / f"{built}-{_sum(made)}.so"
        os.replace(made, path)  # two processes may do so at once
    return str(path)


def _machine(flags: list[str]) -> list[str]:
    """What code depends on beside the compiler's words: homes, with their cache folders, are shared by machines of several kinds."""
    return [platform.machine(), *(_processor() if any("=native" in flag for flag in flags) else [])]


def _processor() -> list[str]:
    """What `-march=native` goes by: names and instructions of the first processor; nothing where the system does not say."""
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return []
    return [line for line in first.splitlines() if line.startswith(("model name", "flags", "Features", "CPU "))]


def _header() -> bytes:
    return (INCLUDE / "carya_op.h").read_bytes()


def _files(sources: list[str]) -> list[str]:
    """The sources as the compiler's arguments: what is called .c is C, which a compiler of C++ would take for C++."""
    found: list[str] = []
    for source in sources:
        found += ["-x", "c", source, "-x", "none"] if source.endswith(".c") else [source]
    return found


def _compiler() -> tuple[list[str], str]:
    """The compiler, with the words that CXX has beside it, and what it says of itself. Errors: Unsupported."""
    given = os.environ.get("CXX", "").strip()
    for candidate in [given] if given else ["c++", "g++", "clang++"]:
        try:
            program, *more = shlex.split(candidate)
        except ValueError as error:
            raise Unsupported(f"op: CXX={given!r}: {error}; set it to a C++ compiler, or unset it") from None
        found = shutil.which(program)
        if found:
            done = subprocess.run([found, *more, "--version"], capture_output=True, text=True, errors="replace")
            return [found, *more], done.stdout.splitlines()[0] if done.stdout else ""
    if given:
        raise Unsupported(
            f"op: CXX={given!r}: there is no such program in PATH; set it to a C++ compiler, such as g++, or unset it"
        )
    raise Unsupported(
        "op: this machine has no C++ compiler; install one (Debian: apt-get install g++), set CXX, or give library= of "
        "what was compiled elsewhere"
    )


def _folder() -> Path:
    """Where libraries are kept, of this user alone: their code is run."""
    kept = cache_dir(told=False)
    if not kept:
        return _scratch(os.getpid())
    folder = Path(kept) / "ops"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = folder.stat()
    if owner.st_uid != os.geteuid() or owner.st_mode & 0o022:
        raise Unsupported(
            f"op: {folder} is not this user's alone, and code that is run must not lie there; chmod 700 it"
        )
    return folder


@functools.cache
def _scratch(process: int) -> Path:
    """A folder of this process, where there is no cache folder; it ends with the process."""
    folder = tempfile.mkdtemp(prefix="carya-ops-")

    def remove() -> None:
        if os.getpid() == process:  # a forked child may end as its parent does
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)
