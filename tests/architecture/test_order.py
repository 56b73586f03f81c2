"""A folder explains itself, files stay small, and nothing of one machine or of nobody's concern is left in them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tree import MODULES, ROOT, sources

FOLDERS = [
    *MODULES,
    "bench",
    "tests",
    "tools",
    "packaging",
]
# Built elsewhere on purpose: system paths that every Debian has.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home/\w+|root|Users|mnt|tmp/bash|opt/(?!venv))[/\w]")
MARKS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
VAGUE = re.compile(r"(?:^|_)(?:util|utils|common|helper|helpers|manager|misc)$")
FILE_LINES_MAX = 600  # STYLE: hardly any file passes 400; none passes this


def tracked_files() -> list[Path]:
    """Files that git knows or would add; all files where there is no git."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        skip = {".git", ".venv", "build", "dist", "site"}
        paths = [path for path in ROOT.rglob("*") if not skip & set(path.relative_to(ROOT).parts)]
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder_has_a_readme(folder: str) -> None:
    readme = ROOT / folder / "README.md"
    assert readme.is_file(), f"{folder}/ has no README.md"
    assert len(readme.read_text()) > 200


def test_no_path_of_one_machine() -> None:
    errors = []
    for path in tracked_files():
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if MACHINE_PATH.search(line) and path != Path(__file__):
                errors.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not errors, "\n".join(errors)


def test_no_unfinished_marks() -> None:
    errors = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked_files()
        if path.suffix in (".cc", ".h", ".py", ".sh", ".cmake") and path != Path(__file__)
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if MARKS.search(line)
    ]
    assert not errors, "\n".join(errors)


def test_names_say_what_a_file_is() -> None:
    vague = [str(path.relative_to(ROOT)) for path in tracked_files() if VAGUE.search(path.stem.lstrip("_"))]
    assert not vague, vague


def test_files_stay_small() -> None:
    large = {
        str(path.relative_to(ROOT)): lines
        for path in sources(*MODULES)
        if (lines := len(path.read_text().splitlines())) > FILE_LINES_MAX
    }
    assert not large, large


def test_every_bench_is_built_and_listed() -> None:
    listed = (ROOT / "bench" / "CMakeLists.txt").read_text()
    readme = (ROOT / "bench" / "README.md").read_text()
    for path in [*(ROOT / "bench").glob("*.cc"), *(ROOT / "bench").glob("*.py")]:
        if path.suffix == ".cc" and "int main(" in path.read_text():
            assert re.search(rf"carya_bench\(\s*{path.stem}\b", listed), (
                f"bench/CMakeLists.txt does not build {path.name}"
            )
        assert path.stem in readme, f"bench/README.md does not name {path.name}"


def test_every_fuzz_target_is_built() -> None:
    for path in (ROOT / "tests" / "fuzz").glob("*.cc"):
        assert path.stem.endswith("_fuzz"), f"tests/fuzz/CMakeLists.txt builds *_fuzz.cc only, not {path.name}"
        assert "LLVMFuzzerTestOneInput" in path.read_text(), path.name


def test_folders_of_tests_are_built() -> None:
    listed = (ROOT / "tests" / "CMakeLists.txt").read_text()
    for path in (ROOT / "tests").glob("*/*_test.cc"):
        assert re.search(rf"\b{path.parent.name}\b", listed), (
            f"tests/CMakeLists.txt does not build tests/{path.parent.name}"
        )


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "index.md").read_text()
    missing = [path.name for path in folder.glob("[0-9]*.md") if f"({path.name})" not in listed]
    assert not missing, f"docs/decisions/index.md does not list {missing}"


def test_cited_sections_of_the_design_exist() -> None:
    sections = set(re.findall(r"^## (\d+)\.", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE))
    cited = re.compile(r"DESIGN,?[\s/#*]*section[\s/#*]*(\d+)")
    wrong = [
        f"{path.relative_to(ROOT)}: section {number}"
        for path in tracked_files()
        if path.suffix in {".h", ".cc", ".py", ".md"}
        for number in cited.findall(path.read_text())
        if number not in sections
    ]
    assert not wrong, f"docs/design.md has no such section: {wrong}"
