"""`carya service`: caryad as a service, of this user or of the system, by systemd."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .. import _programs
from .._errors import InvalidArgument, IoError, NotFound, Permission, invalid

UNITS = ("caryad.service", "caryad.socket")
_SHIPPED_START = "ExecStart=/usr/local/bin/caryad "
_SHIPPED_CONFIG = " --config /etc/carya/caryad.toml"
_SYSTEM_USER = "carya"  # of sysusers.conf
_SYSTEM_SOCKET = "/run/carya/caryad.sock"


class Scope(NamedTuple):
    """Whose service it is. Paths are those of the running system; `root` stands before them when files are written."""

    system: bool = False
    root: str = ""  # another system's tree
    run_as: str = _SYSTEM_USER  # the user of a system service
    all_users: bool = False  # a system service that starts a daemon for each user

    @property
    def units(self) -> Path:
        """Where the units lie. Source: systemd.unit(5)."""
        return Path("/etc/systemd/system") if self.system else _config_home() / "systemd" / "user"

    @property
    def config(self) -> Path:
        return Path("/etc/carya/caryad.toml") if self.system else _config_home() / "carya" / "caryad.toml"

    @property
    def sysusers(self) -> Path:
        return Path("/etc/sysusers.d/carya.conf")

    @property
    def links(self) -> list[Path]:
        """What `systemctl enable` makes."""
        wanted = "multi-user" if self.system else "default"
        names = ("sockets.target.wants/caryad.socket", f"{wanted}.target.wants/caryad.service")
        return [self.units / name for name in names]

    @property
    def systemctl(self) -> str:
        return "systemctl" if self.system else "systemctl --user"

    def at(self, path: Path) -> Path:
        """Where a path of that system is to be written."""
        return Path(self.root) / path.relative_to("/") if self.root else path


_OF_USER = Scope()


def register(app: Any, typer: Any) -> None:
    """Add the commands to the application."""
    service = typer.Typer(
        name="service",
        help="caryad as a systemd service of this user or of the system, started by the first loader that looks for it.",
        epilog="Example: carya service install",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(service)
    user = typer.Option(False, "--user", help="For this user; the default.")
    system = typer.Option(
        False, "--system", help="For the system, as root: for the jobs of one user (--run-as), or --all-users."
    )
    root = typer.Option("", "--root", help="With --system: the tree of another system, such as an image.")
    dry_run = typer.Option(False, "--dry-run", help="Show what would be done.")
    as_json = typer.Option(False, "--json", help="One JSON line.")

    @service.command("install", epilog="Example: carya service install --dry-run")  # type: ignore[untyped-decorator]
    def install_command(
        user: bool = user,
        system: bool = system,
        run_as: str = typer.Option(
            _SYSTEM_USER, "--run-as", help="With --system: the user whose jobs it serves; carya is made, others exist."
        ),
        all_users: bool = typer.Option(
            False,
            "--all-users",
            help="With --system: for the jobs of all users, each of whom gets a process of their own.",
        ),
        root: str = root,
        config: str = typer.Option(
            None, help="Configuration (default: caryad.toml in ~/.config/carya or /etc/carya, made if missing)."
        ),
        dry_run: bool = dry_run,
        as_json: bool = as_json,
    ) -> None:
        """Write the units with the path of this package's caryad; say the commands that start it."""
        _show(install(config, dry_run, _scope(user, system, root, run_as, all_users)), as_json)

    @service.command("uninstall", epilog="Example: carya service uninstall")  # type: ignore[untyped-decorator]
    def uninstall_command(
        user: bool = user,
        system: bool = system,
        root: str = root,
        dry_run: bool = dry_run,
        as_json: bool = as_json,
    ) -> None:
        """Remove the units; the configuration stays, and a running daemon until it is stopped."""
        _show(uninstall(dry_run, _scope(user, system, root)), as_json)


def _scope(user: bool, system: bool, root: str, run_as: str = _SYSTEM_USER, all_users: bool = False) -> Scope:
    if user and system:
        raise InvalidArgument("carya service: --user and --system; give one of them")
    if not system and (root or run_as != _SYSTEM_USER or all_users):
        raise InvalidArgument("carya service: --root, --run-as and --all-users are for --system; leave them out")
    if all_users and run_as != _SYSTEM_USER:
        raise InvalidArgument("carya service: --run-as and --all-users; give one of them")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", run_as):
        raise invalid("carya service: --run-as", run_as, "the name of a user")
    if system and not root and os.geteuid() != 0:
        raise Permission("carya service: --system writes to /etc; run it as root (sudo), or leave --system out")
    return Scope(system, os.path.abspath(root) if root else "", "root" if all_users else run_as, all_users)


def install(config: str | None = None, dry_run: bool = False, scope: Scope = _OF_USER) -> dict[str, Any]:
    """Write the units, and the configuration where there is none. What was done, and the commands that come next.

    Errors: NotFound (caryad, the configuration, or the user), InvalidArgument (a file of this name is somebody else's),
    Permission (the service's user cannot reach caryad or the configuration).
    """
    chosen = Path(config).absolute() if config else scope.config
    if config and not scope.at(chosen).is_file():
        raise NotFound(f"carya service: --config {config}: no such file; leave it out to begin with the defaults")
    program = Path(_programs.program()).absolute()
    files = {scope.units / unit: _unit(unit, scope) for unit in UNITS}
    if scope.system:
        program = program.resolve()
        _check_reachable(program, scope, os.R_OK | os.X_OK)
        if config:
            _check_reachable(scope.at(chosen), scope, os.R_OK)
        if scope.all_users:
            _check_of_root(program)
            if config:
                _check_of_root(scope.at(chosen))
        if scope.run_as == _SYSTEM_USER:
            files[scope.sysusers] = _shipped("systemd/sysusers.conf")
    service = scope.units / "caryad.service"
    files[service] = with_start(files[service], str(program), str(chosen))
    for path in files:
        _check_ours(scope.at(path))
    if not scope.at(chosen).exists():
        files[chosen] = _shipped("caryad.toml")
    written = {scope.at(path): text for path, text in files.items()}
    if not dry_run:
        with _told():
            for path, text in written.items():
                _write(path, text, scope)
    following = ["systemd-sysusers carya.conf"] if scope.sysusers in files else []
    following += [f"{scope.systemctl} daemon-reload", f"{scope.systemctl} enable --now caryad.socket"]
    if scope.system:
        whose = "of any user" if scope.all_users else f"of the user {scope.run_as}"
        following += [f"export CARYA_DAEMON_SOCKET={_SYSTEM_SOCKET}  # where trainers {whose} run"]
    return {
        "action": "install",
        "dry_run": dry_run,
        "program": str(program),
        "config": str(chosen),
        "files": {str(path): text for path, text in written.items()},
        "next": following,
    }


def uninstall(dry_run: bool = False, scope: Scope = _OF_USER) -> dict[str, Any]:
    """Remove what install() wrote except the configuration, and the links that enabled it.

    Errors: InvalidArgument (a file of this name is somebody else's).
    """
    ours = [scope.units / unit for unit in UNITS] + ([scope.sysusers] if scope.system else [])
    found = [path for path in map(scope.at, ours) if path.exists()]
    for path in found:
        _check_ours(path)
    found += [path for path in map(scope.at, scope.links) if path.is_symlink()]
    if not dry_run:
        with _told():
            for path in found:
                path.unlink()
    return {
        "action": "uninstall",
        "dry_run": dry_run,
        "files": [str(path) for path in found],
        "next": [f"{scope.systemctl} stop caryad.socket caryad.service", f"{scope.systemctl} daemon-reload"],
    }


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Errors: IoError, that names what this user cannot write."""
    try:
        yield
    except OSError as error:
        raise IoError(
            f"carya service: {error.filename}: {error.strerror}; give HOME (or --root) as a folder that this user can write"
        ) from error


def _write(path: Path, text: str, scope: Scope) -> None:
    """Write a file. What the system has is read by every user, whatever the umask of who installs it."""
    made = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if scope.system:
        path.chmod(0o644)
        for folder in made:
            folder.chmod(0o755)


def _unit(name: str, scope: Scope) -> str:
    """The text of a unit, for the user that the service is to run as (whose own group is systemd's default)."""
    kind = "all-users/" if scope.all_users else "" if scope.system else "user/"
    text = _shipped(f"systemd/{kind}{name}")
    if scope.system and not scope.all_users and scope.run_as != _SYSTEM_USER:
        text = re.sub(r"(?m)^((?:Socket)?User)=.*\n(?:Socket)?Group=.*$", rf"\1={scope.run_as}", text)
        assert f"User={scope.run_as}\n" in text
    return text


def with_start(unit: str, program: str, config: str) -> str:
    """The unit's text with another program, and with a configuration."""
    assert unit.count(_SHIPPED_START) == 1
    unit = unit.replace(_SHIPPED_CONFIG, "")
    return unit.replace(_SHIPPED_START, f"ExecStart={quoted(program)} --config {quoted(config)} ")


def _check_reachable(path: Path, scope: Scope, wanted: int) -> None:
    """Whether the service's user may go through the folders above a file and use it. Errors: NotFound, Permission."""
    identity = _identity(scope)
    for place in [*reversed(path.parents), path]:
        if not _allows(place, identity, os.X_OK if place != path else wanted):
            what = "run" if wanted & os.X_OK else "read"
            raise Permission(
                f"carya service: {_whose(scope)} {what} {path}: {place} (mode "
                f"{stat.S_IMODE(place.stat().st_mode):o}) does not let it; install the wheel where every user can read it, "
                f"for example in a virtual environment below /opt, or give --run-as the user who owns {place}"
            )


def _check_of_root(path: Path) -> None:
    """Whether root alone may change what root is to run or read. Errors: Permission."""
    for place in [*reversed(path.parents), path]:
        info = place.stat()
        sticky = stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX  # whose files only their owners replace
        if info.st_uid != 0 or (info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
            raise Permission(
                f"carya service: --all-users runs {path} as root, and others than root may change {place}; install the wheel "
                "as root, for example in a virtual environment below /opt"
            )


def _whose(scope: Scope) -> str:
    return "not every user can" if scope.all_users else f"the user {scope.run_as} cannot"


def _identity(scope: Scope) -> tuple[int, set[int]] | None:
    """Number and groups of the service's user; None for everyone, or where that user is not made yet."""
    import pwd

    if scope.all_users:
        return None  # of everyone
    try:
        user = pwd.getpwnam(scope.run_as)
    except KeyError:
        if scope.run_as != _SYSTEM_USER and not scope.root:
            raise NotFound(f"carya service: --run-as {scope.run_as}: no such user; name one that exists") from None
        return None
    return user.pw_uid, set(os.getgrouplist(user.pw_name, user.pw_gid))


def _allows(path: Path, identity: tuple[int, set[int]] | None, wanted: int) -> bool:
    """What access(2) would say to that user; access control lists are not looked at."""
    info = path.stat()
    if identity is not None and identity[0] == 0:
        return True
    shift = 0
    if identity is not None:
        shift = 6 if info.st_uid == identity[0] else 3 if info.st_gid in identity[1] else 0
    return (info.st_mode >> shift) & wanted == wanted


def quoted(word: str) -> str:
    """A word of ExecStart= that systemd reads as it is. Source: systemd.service(5), "Command lines"."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if text.isascii() and not set(text) & set(" \t'\"\\;") else f'"{text}"'


def _config_home() -> Path:
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(chosen) if os.path.isabs(chosen) else Path.home() / ".config"


def _shipped(name: str) -> str:
    """A file of packaging/, from the installed package, else from the source tree."""
    for folder in (Path(__file__).parent.parent / "service", Path(__file__).resolve().parents[3] / "packaging"):
        if (folder / name).is_file():
            return (folder / name).read_text()
    raise NotFound(f"carya service: {name} is not in this package; install carya anew")


def _check_ours(path: Path) -> None:
    if path.exists() and not re.search(
        r"(?m)^(Documentation=man:caryad\(8\)|# sysusers\.d\(5\): .*caryad)", path.read_text()
    ):
        raise InvalidArgument(f"carya service: {path} is not Carya's; move it away first")


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        files = list(result["files"])
        print(json.dumps({**result, "files": files}))
        return
    verb = {"install": "wrote", "uninstall": "removed"}[result["action"]]
    for path in result["files"]:
        if not result["dry_run"]:
            print(f"{verb} {path}")
        elif result["action"] == "install":
            print(f"# would be written: {path}\n{result['files'][path]}")
        else:
            print(f"would be removed: {path}")
    if not result["files"]:
        print("nothing to remove")
    print("next:")
    for command in result["next"]:
        print(f"  {command}")
