"""Files that commands write where the user says: whole, in place of a file, and of nothing else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import carya
from carya._cli.plan import check_file, write_file
from carya._tracing.whole_file import write_whole


def test_a_pipe_stays_one(tmp_path: Path) -> None:
    """As /dev/null stays a device: as root, a file would take its place for the whole machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_file(str(pipe), "plän")
    reader.join(60)
    assert read == ["plän".encode()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_stays_one_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link, target = tmp_path / "plan.json", tmp_path / "kept" / "plan.json"
    link.symlink_to(target)
    for content in (b"first", b"second"):
        write_whole(str(link), content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert [path.name for path in target.parent.iterdir()] == ["plan.json"]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with pytest.raises(carya.IoError, match=r"kept: Is a directory; give a path that this user may write"):
        write_file(str(tmp_path / "kept"), "text")
    with pytest.raises(carya.IoError, match=r"none/plan.json: No such file or directory"):
        write_file(str(tmp_path / "none" / "plan.json"), "text")
    with pytest.raises(carya.IoError, match=r"/dev/full: No space left on device"):
        write_file("/dev/full", "text")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_path_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "none" / "plan.json", "No such file or directory")):
        with pytest.raises(carya.IoError, match=f"{path}: {why}; give a path that this user may write"):
            check_file(str(path))
    for fine in (None, str(tmp_path / "plan.json"), "/dev/null"):
        check_file(fine)
    assert not list(tmp_path.iterdir())


def test_what_is_tried_is_the_folder_in_which_a_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    closed = path
    monkeypatch.setattr(os, "access", lambda place, mode: str(place) != str(closed))  # root may write all
    check_file(str(path))
    write_file(str(path), "new")
    assert path.read_text() == "new"
    closed = tmp_path
    check_file(str(pipe))
    with pytest.raises(carya.IoError, match=r"plan\.json: Permission denied"):
        check_file(str(path))


@pytest.mark.parametrize("command", [("tune", "absent.py:pipeline", "-o"), ("simulate", "fleet", "--svg")])
def test_long_commands_try_their_file_first(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = str(tmp_path / "none" / "file")
    done = subprocess.run([sys.executable, "-m", "carya", *command, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"carya: {path}: No such file or directory; give a path that this user may write" in done.stderr
