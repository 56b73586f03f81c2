"""`carya service`: caryad as a service of this user, by systemd."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from . import _daemon
from ._errors import InvalidArgument, NotFound

UNITS = ("caryad.service", "caryad.socket")
# Where `systemctl --user enable` puts its links.
_WANTED = ("sockets.target.wants/caryad.socket", "default.target.wants/caryad.service")
_OURS = "Documentation=man:caryad(8)"
_SHIPPED_START = "ExecStart=/usr/local/bin/caryad "


def register(app: Any, typer: Any) -> None:
    """Add the commands to the application."""
    service = typer.Typer(
        name="service",
        help="caryad as a systemd service of this user, started by the first loader that looks for it.",
        epilog="Example: carya service install",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(service)
    user = typer.Option(True, "--user", help="For this user; the default. For the system: make install.")
    dry_run = typer.Option(False, "--dry-run", help="Show what would be done.")
    as_json = typer.Option(False, "--json", help="One JSON line.")

    @service.command("install", epilog="Example: carya service install --dry-run")  # type: ignore[untyped-decorator]
    def install_command(
        user: bool = user,
        config: str = typer.Option(
            None, help="Configuration (default: caryad.toml in ~/.config/carya, made if missing)."
        ),
        dry_run: bool = dry_run,
        as_json: bool = as_json,
    ) -> None:
        """Write the units with the path of this package's caryad; say the two commands that start it."""
        _show(install(config, dry_run), as_json)

    @service.command("uninstall", epilog="Example: carya service uninstall")  # type: ignore[untyped-decorator]
    def uninstall_command(user: bool = user, dry_run: bool = dry_run, as_json: bool = as_json) -> None:
        """Remove the units; the configuration stays, and a running daemon until it is stopped."""
        _show(uninstall(dry_run), as_json)


def install(config: str | None = None, dry_run: bool = False) -> dict[str, Any]:
    """Write the units, and the configuration where there is none. What was done, and the commands that come next.

    Errors: NotFound (caryad, or the configuration), InvalidArgument (a unit of this name is somebody else's).
    """
    own = _config_home() / "carya" / "caryad.toml"
    chosen = Path(config).absolute() if config else own
    if config and not chosen.is_file():
        raise NotFound(f"carya service: --config {config}: no such file; leave it out to begin with the defaults")
    files = {unit_folder() / unit: _shipped(unit) for unit in UNITS}
    service = unit_folder() / "caryad.service"
    files[service] = with_start(files[service], str(Path(_daemon.program()).absolute()), str(chosen))
    for path in files:
        _check_ours(path)
    if not chosen.exists():
        files[chosen] = _shipped("caryad.toml")
    if not dry_run:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return {
        "action": "install",
        "dry_run": dry_run,
        "program": _daemon.program(),
        "config": str(chosen),
        "files": {str(path): text for path, text in files.items()},
        "next": ["systemctl --user daemon-reload", "systemctl --user enable --now caryad.socket"],
    }


def uninstall(dry_run: bool = False) -> dict[str, Any]:
    """Remove what install() wrote except the configuration, and the links that enabled it.

    Errors: InvalidArgument (a unit of this name is somebody else's).
    """
    found = [path for path in (unit_folder() / unit for unit in UNITS) if path.exists()]
    for path in found:
        _check_ours(path)
    found += [path for path in (unit_folder() / name for name in _WANTED) if path.is_symlink()]
    if not dry_run:
        for path in found:
            path.unlink()
    return {
        "action": "uninstall",
        "dry_run": dry_run,
        "files": [str(path) for path in found],
        "next": ["systemctl --user stop caryad.socket caryad.service", "systemctl --user daemon-reload"],
    }


def unit_folder() -> Path:
    """Where this user's units lie. Source: systemd.unit(5)."""
    return _config_home() / "systemd" / "user"


def with_start(unit: str, program: str, config: str) -> str:
    """The unit's text with another program, and with a configuration."""
    start = f"ExecStart={quoted(program)} --config {quoted(config)} "
    assert unit.count(_SHIPPED_START) == 1
    return unit.replace(_SHIPPED_START, start)


def quoted(word: str) -> str:
    """A word of ExecStart= that systemd reads as it is. Source: systemd.service(5), "Command lines"."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if text.isascii() and not set(text) & set(" \t'\"\\;") else f'"{text}"'


def _config_home() -> Path:
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(chosen) if os.path.isabs(chosen) else Path.home() / ".config"


def _shipped(name: str) -> str:
    """A file of packaging/, from the installed package, else from the source tree."""
    packaging = Path(__file__).resolve().parents[2] / "packaging"
    places = [Path(__file__).parent / "service" / name, packaging / "systemd" / "user" / name, packaging / name]
    for place in places:
        if place.is_file():
            return place.read_text()
    raise NotFound(f"carya service: {name} is not in this package; install carya anew")


def _check_ours(path: Path) -> None:
    if path.exists() and _OURS not in path.read_text():
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
