"""caryad as a service: its units, man pages, installation, activation, and what it says when it is set up wrongly."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import commands
import numpy as np
import pytest

import carya
from carya import _core, _programs
from carya._cli import service as service_command

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
CARYAD = _programs.program()
BIN = str(Path(CARYAD).parent)
HANG_S = 60


def need(program: str) -> str:
    """Its path; skips where it is not installed (tests/ENVIRONMENT.md)."""
    found = shutil.which(program)
    if not found:
        pytest.skip(f"{program} is not installed")
    return found


def run(*words: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=HANG_S, env={**os.environ, **variables}
    )
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


# --- the program


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\n[limits]\njobs = 0\n", ":3: limits.jobs: got 0; give an integer of 1 to 100000"),
        ('log_level = "loud"', ':1: log_level: got \'loud\'; give "debug", "info", "warning" or "error"'),
        ("lingerseconds = 3", ":1: lingerseconds is no setting"),
        ("[limits", ":1: "),
    ],
)
def test_wrong_configuration_is_status_2_and_names_the_line(tmp_path: Path, text: str, error: str) -> None:
    config = tmp_path / "caryad.toml"
    config.write_text(text)
    done = run(CARYAD, "--socket", str(tmp_path / "s"), "--config", str(config), code=2)
    assert f"{config}{error}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_wrong_arguments_are_status_2(tmp_path: Path) -> None:
    assert "--config" in run(CARYAD, "--config", str(tmp_path / "absent"), code=2).stderr
    run(CARYAD, "--no-such-option", code=2)
    assert "Example: caryad --socket" in run(CARYAD, "--help").stdout


def test_a_home_that_cannot_be_written_is_one_line() -> None:
    said = run(sys.executable, "-m", "carya", "service", "install", code=1, HOME="/proc/no-home").stderr
    assert said == (
        "carya: carya service: /proc/no-home: No such file or directory; give HOME (or --root) as a folder that this user can write\n"
    )


def test_the_packages_script_becomes_the_program() -> None:
    script = [sys.executable, "-c", "import carya._programs; carya._programs.main()"]
    shown = subprocess.run([*script, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == subprocess.run([_programs.program(), "--version"], capture_output=True, text=True).stdout
    # A package without the program does not look in PATH, where it would find itself.
    alone = "import carya._programs as d; d.__file__ = '/nowhere/_programs.py'; d.main()"
    missing = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "/nowhere/bin/caryad: No such file" in missing.stderr


def test_term_ends_it_with_status_0_while_a_batch_is_held(short: Path) -> None:
    """Without anybody who gives the batch back, drain_seconds is the limit."""
    path, config = str(short / "s"), short / "caryad.toml"
    config.write_text("drain_seconds = 0.2\n")
    with subprocess.Popen(
        [CARYAD, "--socket", path, "--config", str(config)], stderr=subprocess.PIPE, text=True
    ) as daemon:
        wait_until(lambda: _core.daemon_listens(path))
        pipeline = carya.arrays({"x": np.arange(64, dtype=np.float32)}).batch(4)
        with carya.Loader(pipeline, daemon=path, reattach_timeout=0.1) as loader:
            batches = iter(loader)
            held = next(batches)
            daemon.send_signal(signal.SIGTERM)
            log = daemon.communicate(timeout=HANG_S)[1]
            assert daemon.returncode == 0
            assert re.search(r"draining held=[1-9].*seconds=0\.2", log)
            assert [len(held["x"]), *(len(batch["x"]) for batch in batches)] == [4] * 16  # on in this process
    assert not os.path.exists(path)


def test_log_goes_to_the_journal_with_priorities_only_when_stderr_is_the_journal(short: Path) -> None:
    for is_journal in (True, False):
        path = str(short / "s")
        read, write = os.pipe()
        info = os.fstat(write)
        stream = f"{info.st_dev}:{info.st_ino + (not is_journal)}"
        with subprocess.Popen(
            [CARYAD, "--socket", path], stderr=write, env={**os.environ, "JOURNAL_STREAM": stream}
        ) as daemon:
            os.close(write)
            with os.fdopen(read) as log:
                line = log.readline()
                daemon.terminate()
        assert re.match("<6>ready socket=" if is_journal else r"\d{4}-\d\d-\d\dT\S+ info ready socket=", line), line


def wait_until(holds: object) -> None:
    until = time.monotonic() + HANG_S
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.01)


# --- activation


def test_socket_activation_starts_it_for_the_first_loader(short: Path) -> None:
    activate, path = need("systemd-socket-activate"), str(short / "s")
    command = [activate, "--seqpacket", "--listen", path, CARYAD, "--socket", path, "--idle-exit", "0.2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as manager:
        wait_until(lambda: os.path.exists(path))
        pipeline = carya.arrays({"x": np.arange(64, dtype=np.float32)}).shuffle(seed=1).batch(4)
        with carya.Loader(pipeline, daemon="embedded") as loader:
            expected = [batch["x"].tolist() for batch in loader]
        with carya.Loader(pipeline, daemon=path) as loader:
            assert [batch["x"].tolist() for batch in loader] == expected
        log = manager.communicate(timeout=HANG_S)[1]  # it took the manager's place and ends when idle
        assert manager.returncode == 0, log
    assert f"ready socket={path}" in log
    assert "attached job=" in log
    assert os.path.exists(path)  # the manager's, who goes on listening


def test_the_first_job_has_the_cache_that_the_service_makes(
    short: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CacheDirectory= is made when the first loader starts the unit; that loader cannot make it itself."""
    activate, path = need("systemd-socket-activate"), str(short / "s")
    (short / "var").symlink_to(short / "real")
    cache = short / "var" / "carya"
    monkeypatch.setenv("CARYA_CACHE_DIR", str(cache))
    unit = f"mkdir -p {short}/real/carya; exec {CARYAD} --socket {path} --idle-exit 0.2"
    command = [activate, "--seqpacket", "--listen", path, "sh", "-c", unit]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as manager:
        wait_until(lambda: os.path.exists(path))
        pipeline = carya.image_folder(photos).decode_image().center_crop(32).batch(4)
        with carya.Loader(pipeline, daemon=path, decode_index="rows", epochs=1) as loader:
            for _ in loader:
                pass
            assert "no cache folder" not in json.dumps(loader.stats())
        manager.communicate(timeout=HANG_S)
    assert ".store" in {file.suffix for file in cache.iterdir()}  # the decode index


def test_a_socket_of_another_kind_is_refused(short: Path) -> None:
    activate, path = need("systemd-socket-activate"), str(short / "s")
    with subprocess.Popen(
        [activate, "--listen", path, CARYAD, "--socket", path], stderr=subprocess.PIPE, text=True
    ) as manager:
        wait_until(lambda: os.path.exists(path))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(path)
            log = manager.communicate(timeout=HANG_S)[1]
        assert manager.returncode == 1
    assert "use ListenSequentialPacket= in caryad.socket" in log


# --- units and installation


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What packaging/install.sh puts below a DESTDIR."""
    root = tmp_path_factory.mktemp("destdir")
    run(str(PACKAGING / "install.sh"), BIN, "/usr", str(root))
    return root


def test_install_puts_everything_in_place_and_keeps_a_configuration(installed: Path) -> None:
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    units = {f"usr/lib/systemd/{kind}/caryad.{unit}" for kind in ("system", "user") for unit in ("service", "socket")}
    assert files == units | {
        "usr/share/carya/all-users/caryad.service",
        "usr/share/carya/all-users/caryad.socket",
        "usr/bin/caryad",
        "usr/bin/carya-worker",
        "usr/lib/systemd/system/carya-worker.service",
        "usr/share/man/man1/carya-worker.1",
        "usr/lib/sysusers.d/carya.conf",
        "usr/share/man/man8/caryad.8",
        "usr/share/man/man1/carya.1",
        "etc/carya/caryad.toml",
    }
    assert "Usage" in run(str(installed / "usr/bin/caryad"), "--help").stdout
    for kind in ("system", "user"):
        unit = (installed / f"usr/lib/systemd/{kind}/caryad.service").read_text()
        assert "\nExecStart=/usr/bin/caryad --socket %t/carya/caryad.sock" in unit
    config = installed / "etc/carya/caryad.toml"
    config.write_text(config.read_text() + "# mine\n")
    run(str(PACKAGING / "install.sh"), BIN, "/usr", str(installed))
    assert config.read_text().endswith("# mine\n")
    assert "PREFIX" in run(str(PACKAGING / "install.sh"), BIN, code=2).stderr


def test_uninstall_takes_away_what_install_put_and_no_more(tmp_path: Path) -> None:
    for folder in ("usr/bin", "usr/lib/systemd/system"):  # of others
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/bin/other").write_text("")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    config = tmp_path / "etc/carya/caryad.toml"
    for changed in (False, True):
        run(str(PACKAGING / "install.sh"), BIN, "/usr", str(tmp_path))
        if changed:
            config.write_text(config.read_text() + "# mine\n")
        done = run(str(PACKAGING / "uninstall.sh"), "/usr", str(tmp_path))
        left = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert (f"kept, because it was changed: {config}" in done.stdout) == changed
        assert left.pop(config, b"").endswith(b"# mine\n") == changed
        assert left == before
        assert config.parent.exists() == changed
    run(str(PACKAGING / "uninstall.sh"), "/usr", str(tmp_path))  # nothing is there any more: no error
    assert "PREFIX" in run(str(PACKAGING / "uninstall.sh"), "usr", code=2).stderr


@pytest.mark.parametrize("kind", ["system", "user", "all-users"])
def test_units_are_valid(installed: Path, tmp_path: Path, kind: str) -> None:
    """`systemd-analyze verify` is silent about the units as they are installed, here below another folder."""
    analyze = need("systemd-analyze")
    folder = installed / ("usr/share/carya" if kind == "all-users" else "usr/lib/systemd") / kind
    units = (*service_command.UNITS, *(["carya-worker.service"] if kind == "system" else []))
    for unit in units:
        text = (folder / unit).read_text().replace("/usr/bin/carya", f"{BIN}/carya")
        (tmp_path / unit).write_text(text)
    for unit in units:
        done = run(
            analyze,
            *(["--user"] if kind == "user" else []),
            "verify",
            "--man=no",
            str(tmp_path / unit),
            XDG_RUNTIME_DIR=str(tmp_path),
        )
        assert done.stdout + done.stderr == ""


@pytest.mark.parametrize(
    ("unit", "threshold"), [("caryad.service", 20), ("carya-worker.service", 20), ("all-users/caryad.service", 31)]
)
def test_system_units_are_hardened(unit: str, threshold: int) -> None:
    """That of all users becomes any of them, and so has more rights than the others."""
    analyze = need("systemd-analyze")
    done = run(analyze, "security", "--offline=true", f"--threshold={threshold}", str(PACKAGING / "systemd" / unit))
    assert "Overall exposure level" in done.stdout + done.stderr


def test_units_allow_io_uring() -> None:
    for unit in ("caryad.service", "user/caryad.service", "all-users/caryad.service"):
        filters = re.findall("^SystemCallFilter=(.*)$", (PACKAGING / "systemd" / unit).read_text(), re.MULTILINE)
        assert filters[0] == "@system-service"
        assert "@aio" not in " ".join(filters[1:])
        assert "setpriority" in filters[-1].split()
    analyze = need("systemd-analyze")
    assert "@aio" in run(analyze, "syscall-filter", "@system-service").stdout
    assert "io_uring_enter" in run(analyze, "syscall-filter", "@aio").stdout


@pytest.mark.parametrize("unit", ["caryad.service", "user/caryad.service"])
def test_units_allow_the_metrics_port_of_the_documents(unit: str) -> None:
    text = re.sub("(?m)^#.*", "", (PACKAGING / "systemd" / unit).read_text())
    assert "\nPrivateNetwork=yes" not in text  # it has a loopback of its own, which nobody reaches
    families = re.search("^RestrictAddressFamilies=(.*)$", text, re.MULTILINE)
    assert families
    assert {"AF_INET", "AF_INET6"} <= set(families[1].split())
    assert ("\nIPAddressDeny=any\n" in text) == ("\nIPAddressAllow=localhost\n" in text)


@pytest.mark.parametrize("unit", ["caryad.service", "user/caryad.service", "all-users/caryad.service"])
def test_units_say_what_the_daemon_relies_on(unit: str) -> None:
    text = (PACKAGING / "systemd" / unit).read_text()
    for line in (
        "Type=notify",
        "WatchdogSec=30",
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
        "RuntimeDirectory=carya",
        "RuntimeDirectoryPreserve=yes",
        "ExecReload=kill -HUP $MAINPID",
        "CPUWeight=20",
    ):
        assert f"\n{line}\n" in text, line
    assert "\nRemoveIPC=yes" not in text  # it would take the trainers' shared memory away


# --- man pages


def page(name: str) -> str:
    """The page as text, without the escapes for hyphens."""
    text = (PACKAGING / "man" / name).read_text()
    return text.replace("\\-", "-")


@pytest.mark.parametrize("name", ["caryad.8", "carya.1", "carya-worker.1"])
def test_man_pages_are_set_without_warnings(name: str) -> None:
    done = run(need("groff"), "-ww", "-mandoc", "-Tascii", str(PACKAGING / "man" / name))
    assert done.stderr == ""
    assert "The Carya authors." in done.stdout


@pytest.mark.parametrize(("name", "known"), [("caryad.8", "config"), ("carya-worker.1", "listen")])
def test_every_option_of_a_program_is_in_its_page(name: str, known: str) -> None:
    shown = run(f"{BIN}/{name[:-2]}", "--help").stdout.split("Options:")[1].split("Example")[0]
    options = re.findall(r"^ +(?:-\w,)?--([a-z-]+)", shown, re.MULTILINE)
    assert known in options
    missing = [
        option for option in options if not re.search(rf"^\.It Fl (?:\w , )?-{option}\b", page(name), re.MULTILINE)
    ]
    assert not missing


def test_every_key_of_the_configuration_is_in_the_page() -> None:
    prefix, missing = "", []
    for line in (PACKAGING / "caryad.toml").read_text().splitlines():
        if line in ("[limits]", "[cache]", "[remote]", "[users]"):
            prefix = line[1:-1] + "."
        elif (found := re.match(r"#?(\w+) = ", line)) and f"{prefix}{found[1]}" not in page("caryad.8"):
            missing.append(found[1])
    assert not missing


def test_every_command_of_carya_is_in_its_page() -> None:
    typer = pytest.importorskip("typer")
    from carya._cli.main import make_app

    def commands(group: object, prefix: str = "") -> Iterator[str]:
        for name, command in group.commands.items():  # type: ignore[attr-defined]
            if hasattr(command, "commands"):
                yield from commands(command, f"{prefix}{name} ")
            else:
                yield prefix + name

    names = list(commands(typer.main.get_command(make_app(typer))))
    assert "service install" in names
    missing = [name for name in names if not re.search(rf"^\.It Ic {name}\b", page("carya.1"), re.MULTILINE)]
    assert not missing


# --- carya service


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With a short path: systemd-analyze also reads the units of other packages, whose sockets lie below it."""
    pytest.importorskip("typer")
    with tempfile.TemporaryDirectory(prefix="carya-") as folder:
        monkeypatch.setenv("XDG_CONFIG_HOME", f"{folder}/a home/.config")
        yield Path(folder) / "a home" / ".config"


def service(*words: str, code: int = 0) -> str:
    return commands.run("service", *words, code=code, COLUMNS="160")


def test_service_install_writes_units_that_start_this_caryad(home: Path) -> None:
    result = json.loads(service("install", "--user", "--json"))
    folder = home / "systemd" / "user"
    config = home / "carya" / "caryad.toml"
    assert set(result["files"]) == {str(folder / "caryad.service"), str(folder / "caryad.socket"), str(config)}
    assert result["next"] == ["systemctl --user daemon-reload", "systemctl --user enable --now caryad.socket"]
    start = re.search("^ExecStart=(.*)$", (folder / "caryad.service").read_text(), re.MULTILINE)
    assert start
    assert start[1] == f'{service_command.quoted(CARYAD)} --config "{config}" --socket %t/carya/caryad.sock'
    if shutil.which("systemd-analyze"):
        verified = run(
            "systemd-analyze", "--user", "verify", "--man=no", str(folder / "caryad.service"), XDG_RUNTIME_DIR=str(home)
        )
        assert verified.stderr == ""
    config.write_text("# mine\n")
    assert str(config) not in json.loads(service("install", "--json"))["files"]
    assert config.read_text() == "# mine\n"


def test_service_dry_run_shows_and_writes_nothing(home: Path) -> None:
    text = service("install", "--dry-run")
    assert f"# would be written: {home}/systemd/user/caryad.service" in text
    assert "WatchdogSec=30" in text
    assert "systemctl --user enable --now caryad.socket" in text
    assert not home.exists()


def test_service_uninstall_removes_units_and_links_only(home: Path) -> None:
    service("install")
    folder = home / "systemd" / "user"
    (folder / "sockets.target.wants").mkdir()
    (folder / "sockets.target.wants" / "caryad.socket").symlink_to(folder / "caryad.socket")
    assert len(json.loads(service("uninstall", "--dry-run", "--json"))["files"]) == 3
    assert (folder / "caryad.socket").exists()
    assert "systemctl --user stop caryad.socket caryad.service" in service("uninstall")
    assert [path for path in folder.rglob("*") if not path.is_dir()] == []
    assert (home / "carya" / "caryad.toml").exists()
    assert "nothing to remove" in service("uninstall")


def test_service_errors_name_the_way_out(home: Path) -> None:
    assert "leave it out" in service("install", "--config", str(home / "absent.toml"), code=1)
    folder = home / "systemd" / "user"
    folder.mkdir(parents=True)
    (folder / "caryad.service").write_text("[Service]\nExecStart=/bin/true\n")
    for command in ("install", "uninstall"):
        assert "is not Carya's; move it away first" in service(command, code=1)
    assert (folder / "caryad.service").read_text() == "[Service]\nExecStart=/bin/true\n"


def test_service_help_has_an_example(home: Path) -> None:
    assert "Example: carya service install" in service("--help")
    assert "Example: carya service install --dry-run" in service("install", "--help")


# --- carya service --system


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The tree of another system, into which every user may look, with a package of its own."""
    pytest.importorskip("typer")
    monkeypatch.setattr(_programs, "program", lambda: str(program))
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    program = root / "opt" / "venv" / "caryad"
    program.parent.mkdir(parents=True)
    shutil.copy(CARYAD, program)
    yield root
    shutil.rmtree(root)


def scope(root: Path, run_as: str = "carya") -> service_command.Scope:
    return service_command.Scope(True, str(root), run_as)


def test_system_service_has_the_real_path_of_this_caryad(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = system / "opt" / "venv" / "caryad"
    (system / "link").symlink_to(real.parent)
    monkeypatch.setattr(_programs, "program", lambda: str(system / "link" / "caryad"))
    before = os.umask(0o077)
    try:
        result = service_command.install(scope=scope(system))
    finally:
        os.umask(before)
    units, config = system / "etc/systemd/system", system / "etc/carya/caryad.toml"
    users = system / "etc/sysusers.d/carya.conf"
    assert set(result["files"]) == {str(units / unit) for unit in service_command.UNITS} | {str(config), str(users)}
    assert all(stat.S_IMODE(Path(path).stat().st_mode) == 0o644 for path in result["files"])
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o755
    assert result["next"][:3] == [
        "systemd-sysusers carya.conf",
        "systemctl daemon-reload",
        "systemctl enable --now caryad.socket",
    ]
    text = (units / "caryad.service").read_text()
    assert f"\nExecStart={real} --config /etc/carya/caryad.toml --socket %t/carya/caryad.sock\n" in text
    assert "\nUser=carya\n" in text
    assert "\nProtectHome=read-only\n" in text  # an environment in a home can be read
    shipped = (PACKAGING / "systemd/caryad.service").read_text()
    assert text.count("\n") == shipped.count("\n")  # one line differs
    verified = run(need("systemd-analyze"), "verify", "--man=no", str(units / "caryad.service"))
    assert verified.stdout + verified.stderr == ""
    config.write_text("# mine\n")
    assert str(config) not in service_command.install(scope=scope(system))["files"]
    assert config.read_text() == "# mine\n"


def test_system_service_of_another_user(system: Path) -> None:
    result = service_command.install(scope=scope(system, "alice"))
    units = system / "etc/systemd/system"
    assert "\nUser=alice\n" in (units / "caryad.service").read_text()
    assert "Group=" not in re.sub("(?m)^#.*", "", (units / "caryad.service").read_text())
    assert "\nSocketUser=alice\nSocketMode=0600\n" in (units / "caryad.socket").read_text()
    assert not (system / "etc/sysusers.d").exists()
    assert "sysusers" not in " ".join(result["next"])


def test_system_service_of_all_users(system: Path) -> None:
    everyone = service_command.Scope(True, str(system), "root", all_users=True)
    result = service_command.install(scope=everyone)
    units = system / "etc/systemd/system"
    text = (units / "caryad.service").read_text()
    assert re.search(r"(?m)^ExecStart=\S+/caryad --config /etc/carya/caryad.toml --socket \S+ --all-users$", text)
    assert not re.search("(?m)^User=", text)
    assert "\nSocketMode=0666\n" in (units / "caryad.socket").read_text()
    assert not (system / "etc/sysusers.d").exists()
    assert result["next"][-1].endswith("# where trainers of any user run")
    if os.geteuid() == 0:
        for change in (lambda path: os.chown(path, 1, 0), lambda path: path.chmod(0o775)):
            change(system / "opt" / "venv")
            with pytest.raises(carya.Permission, match="others than root may change"):
                service_command.install(scope=everyone, dry_run=True)
            os.chown(system / "opt" / "venv", 0, 0)
            (system / "opt" / "venv").chmod(0o755)
    (system / "opt" / "venv").chmod(0o750)
    with pytest.raises(carya.Permission, match="not every user can run"):
        service_command.install(scope=everyone, dry_run=True)
    for wrong in (["--all-users"], ["--system", "--all-users", "--run-as", "alice", "--root", str(system)]):
        assert "--all-users" in service("install", *wrong, code=1)


def test_system_service_refuses_a_program_that_its_user_cannot_reach(system: Path) -> None:
    program = system / "opt" / "venv" / "caryad"
    program.parent.chmod(0o700)
    with pytest.raises(carya.Permission, match=re.escape(f"{program.parent} (mode 700) does not let it; install")):
        service_command.install(scope=scope(system))
    assert not (system / "etc").exists()
    program.parent.chmod(0o711)
    program.chmod(0o744)
    with pytest.raises(carya.Permission, match="cannot run"):
        service_command.install(scope=scope(system))
    program.chmod(0o755)
    config = system / "mine.toml"
    config.write_text("")
    config.chmod(0o600)
    with pytest.raises(carya.Permission, match="cannot read"):
        service_command.install(str(config), scope=service_command.Scope(True, "", "carya"), dry_run=True)
    service_command.install(scope=scope(system), dry_run=True)
    # Who owns the folder can.
    program.parent.chmod(0o700)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    service_command.install(scope=scope(system, owner), dry_run=True)


def test_system_service_uninstall_removes_all_but_the_configuration(system: Path) -> None:
    service_command.install(scope=scope(system))
    units = system / "etc/systemd/system"
    for link in ("sockets.target.wants/caryad.socket", "multi-user.target.wants/caryad.service"):
        (units / link).parent.mkdir()
        (units / link).symlink_to(units / link.split("/")[1])
    (units / "other.service").write_text("")
    assert len(service_command.uninstall(scope=scope(system))["files"]) == 5
    left = {str(path.relative_to(system)) for path in (system / "etc").rglob("*") if not path.is_dir()}
    assert left == {"etc/carya/caryad.toml", "etc/systemd/system/other.service"}
    (units / "caryad.service").write_text("[Service]\nExecStart=/bin/true\n")
    for command in (service_command.install, service_command.uninstall):
        with pytest.raises(carya.InvalidArgument, match="is not Carya's; move it away first"):
            command(scope=scope(system))


def test_system_service_options_are_checked(home: Path, tmp_path: Path) -> None:
    assert "give one of them" in service("install", "--system", "--user", code=1)
    assert "are for --system" in service("install", "--run-as", "alice", code=1)
    assert "the name of a user" in service("install", "--system", "--root", str(tmp_path), "--run-as", "a b", code=1)
    if os.geteuid() == 0:
        assert "no such user" in service("install", "--system", "--run-as", "nobody-at-all", "--dry-run", code=1)
    else:
        assert "run it as root" in service("install", "--system", code=1)


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/usr/libexec/caryad", "/usr/libexec/caryad"),
        ("/a b/caryad", '"/a b/caryad"'),
        ("/50%/$HOME", "/50%%/$$HOME"),
        ('/a"b\\c', '"/a\\"b\\\\c"'),
    ],
)
def test_paths_in_units_are_read_as_they_are(word: str, written: str) -> None:
    assert service_command.quoted(word) == written
