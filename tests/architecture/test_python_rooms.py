"""The package's rooms: private, small, explained, and in levels."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tree import ROOT

PACKAGE = ROOT / "python" / "carya"
MODULES_MAX = 15
# A room imports from those on lower levels, and from modules that lie in no room. A higher one is imported inside of a
# function only by the package's own doors (`__init__`, `__main__`, torch, jax), which may know all.
LEVELS = {
    "_explain": 0, "_orders": 0, "_processes": 0, "_simulate": 0, "_sources": 0, "_text": 0, "_tracing": 0, "_stages": 1, "_traits": 2, "_functions": 3, "_pipeline": 3, "_afar": 4, "_detection": 4, "_formats": 4, "_own_ops": 4, "_iterables": 4, "_loading": 4, "_containers": 5, "_torch": 5, "_seeds": 5, "_wrapping": 5, "_records": 6, "_bench": 7, "_convert": 7, "_inspect": 7, "_watching": 8, "_cli": 9
}  # fmt: skip
PUBLIC = {"fleet"}
DOORS = {"__init__", "__main__", "_pickled", "torch", "jax"}


def imported(path: Path) -> Iterator[str]:
    """What a module imports of the package: names from its root, such as "_loading.loader"."""
    inside = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("carya."):
                    yield alias.name.removeprefix("carya.")
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == 0 and not f"{module}.".startswith("carya."):
                continue
            above = inside[: len(inside) - node.level + 1] if node.level else ()
            start = ".".join([*above, *([module.removeprefix("carya").lstrip(".")] if module else [])]).strip(".")
            yield from ([start] if start else [alias.name for alias in node.names])


def rooms() -> list[Path]:
    return sorted(path for path in PACKAGE.iterdir() if (path / "__init__.py").is_file())


def test_every_room_is_private_or_public_by_its_name_and_has_a_level() -> None:
    names = {room.name for room in rooms()}
    assert names == LEVELS.keys() | PUBLIC
    assert all(name.startswith("_") for name in LEVELS)


@pytest.mark.parametrize("room", sorted(LEVELS))
def test_a_room_is_small_and_explains_every_module(room: str) -> None:
    modules = {path.name for path in (PACKAGE / room).glob("*.py")} - {"__init__.py"}
    assert len(modules) <= MODULES_MAX, f"{room}: {len(modules)} modules"
    readme = (PACKAGE / room / "README.md").read_text()
    assert not (missing := sorted(name for name in modules if f"`{name}`" not in readme)), missing
    for test in {word.split("`")[0] for word in readme.split("`")[1::2] if word.startswith("test_")}:
        assert (ROOT / "tests" / "python" / test).is_file(), f"{room}/README.md names {test}"


def test_rooms_import_from_lower_levels_only() -> None:
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).parts
        room = inside[0] if len(inside) > 1 else None
        if room is None and path.stem in DOORS:
            continue
        for name in imported(path):
            other = name.split(".")[0]
            if other not in LEVELS or other == room:
                continue
            if room not in LEVELS or LEVELS[other] >= LEVELS[room]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, wrong


def test_an_import_is_read_as_python_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "_room").mkdir()
    module = tmp_path / "_room" / "one.py"
    module.write_text(
        "from . import two\nfrom .three import x\nfrom .. import _core, files\nfrom .._other.four import y\n"
        "import carya._fifth\nfrom carya._sixth.six import z\nfrom carya import seven\nimport os\n"
    )
    assert list(imported(module)) == [
        "_room", "_room.three", "_core", "files", "_other.four", "_fifth", "_sixth.six", "seven"
    ]  # fmt: skip
