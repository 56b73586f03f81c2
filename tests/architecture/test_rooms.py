"""Rooms: floors, sizes, one class in one file, a README in each. What is not met yet stands in lists that only shrink."""

from __future__ import annotations

import re
import sys
from collections import defaultdict

import pytest
from tree import FLOOR, FLOORS, INCLUDE, MODULES, ROOT, folders_with_sources, sources, stems, without_comments

# Arrows between rooms that do not point down yet.
STILL_UP: set[tuple[str, str]] = set()
STEMS_MAX = 16
STILL_LARGE: set[str] = set()
# Classes whose bodies lie in more than one .cc.
STILL_SPLIT: set[str] = set()


def room_of(name: str) -> str:
    return name.rsplit("/", 1)[0]


def arrows() -> dict[tuple[str, str], list[str]]:
    """Every include from one room of a module to another, with the files that have it."""
    found = defaultdict(list)
    for module in FLOORS:
        for path in sources(module):
            source = str(path.relative_to(ROOT))
            for mark, target in INCLUDE.findall(path.read_text()):
                if mark == '"' and target.startswith(f"{module}/") and room_of(source) != room_of(target):
                    found[room_of(source), room_of(target)].append(f"{source} includes {target}")
    return found


@pytest.mark.parametrize("module", FLOORS)
def test_every_source_lies_in_a_room(module: str) -> None:
    folders = {folder for folder in folders_with_sources() if folder.split("/")[0] == module}
    rooms = {room for room in FLOOR if room.startswith(f"{module}/")}
    assert folders == rooms, f"tests/architecture/tree.py and the folders differ: {sorted(folders ^ rooms)}"


def test_arrows_between_rooms_point_down() -> None:
    up = {arrow: files for arrow, files in arrows().items() if FLOOR[arrow[1]] >= FLOOR[arrow[0]]}
    errors = [file for arrow, files in up.items() if arrow not in STILL_UP for file in files]
    assert not errors, "\n".join(errors)
    assert set(up) >= STILL_UP, f"these arrows point down now; take them off the list: {STILL_UP - set(up)}"


def test_folders_stay_small() -> None:
    large = {folder: len(stems(folder)) for folder in folders_with_sources() if len(stems(folder)) > STEMS_MAX}
    assert set(large) <= STILL_LARGE, f"more than {STEMS_MAX} files, headers and their implementations once: {large}"
    assert set(large) == STILL_LARGE, f"small enough now; take them off the list: {STILL_LARGE - set(large)}"


DEFINITION = re.compile(r"^[^\s#/}][^;{}()]*?\b((?:\w+::)+)(~?\w+|operator[^\s(]*)\(", re.MULTILINE)


def classes_by_file() -> dict[str, set[str]]:
    """The classes of the product, and the .cc files in which their functions are defined."""
    found = defaultdict(set)
    for path in sources(*MODULES):
        if path.suffix == ".cc":
            name = str(path.relative_to(ROOT))
            folder = room_of(name)
            for scope, _ in DEFINITION.findall(without_comments(path.read_text())):
                found[f"{folder}: {scope.removesuffix('::')}"].add(name)
    return found


def test_a_class_is_defined_in_one_file() -> None:
    split = {name for name, files in classes_by_file().items() if len(files) > 1 and not name.endswith(": std")}
    assert split <= STILL_SPLIT, f"the functions of one class lie in several files: {sorted(split - STILL_SPLIT)}"
    assert split == STILL_SPLIT, f"in one file now; take them off the list: {sorted(STILL_SPLIT - split)}"


@pytest.mark.parametrize("folder", folders_with_sources())
def test_room_has_a_readme_that_names_its_files(folder: str) -> None:
    if folder == "python/src":  # its table stands in python/README.md
        return
    readme = ROOT / folder / "README.md"
    assert readme.is_file(), f"{folder}/ has no README.md"
    text = readme.read_text()
    missing = sorted(stem for stem in stems(folder) if stem not in text)
    assert not missing, f"{folder}/README.md does not name {missing}"


def test_the_picture_of_the_rooms_is_of_this_tree() -> None:
    sys.path.insert(0, str(ROOT / "tools" / "docs"))
    import rooms

    assert rooms.PICTURE.read_text() == rooms.draw(), "draw it again: python tools/docs/rooms.py"
