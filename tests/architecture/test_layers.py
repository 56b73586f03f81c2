"""Arrows point down (DESIGN section 3), and third-party headers stay in the .cc files of the folder that uses them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tree import ANYTHING_GOES, INCLUDE, INNER, LEVELS, MODULES, ROOT, module_of, sources

# Third-party headers by folder (DESIGN section 11). Python's own binding layer may use pybind11 anywhere.
THIRD_PARTY = {
    "xxhash.h": ("base", "io"),
    "liburing": ("io",),
    "curl/": ("io",),
    "zstd.h": ("io",),
    "lz4": ("io",),
    "jpeglib.h": ("transforms",),
    "jerror.h": ("transforms",),
    "jmorecfg.h": ("transforms",),
    "turbojpeg.h": ("transforms",),
    "spng.h": ("transforms",),
    "zlib.h": ("transforms",),
    "FLAC/": ("transforms/audio",),
    "mpg123.h": ("transforms/audio",),
    "vorbis/": ("transforms/audio",),
    "opus/": ("transforms/audio",),
    "soxr.h": ("transforms/audio",),
    "hwy/": ("transforms", "transforms/audio", "transforms/coefficients", "transforms/jpeg", "transforms/simd"),
    "fmt/": (*MODULES, "transforms/audio", "transforms/text"),
    "boost/interprocess/": ("base", "shm"),
    "boost/asio": ("remote", "loader"),
    "boost/beast": ("loader",),
    "openssl/": ("remote", "io"),
    "oneapi/tbb": ("loader",),
    "tbb/": ("loader",),
    "nlohmann/": ("transforms", "loader", "autotune", "remote", "io"),
    "spdlog/": ("loader",),
    "CLI/": ("loader",),
    "toml++/": ("loader",),
    "pybind11/": ("python",),
    "Python.h": ("python",),
}


def arrow_error(source: str, target: str) -> str | None:
    """Why a file of the module `source` may not include the repository header `target`; None when it may."""
    source_module, target_module = module_of(source), module_of(target)
    if source_module in ANYTHING_GOES or source_module == target_module:
        return None
    if target_module in ANYTHING_GOES:
        return f"{source} includes {target}: product code never includes {target_module}/"
    if source_module in INNER:
        known = INNER[source_module]
        return None if target_module in known else f"{source} includes {target}: {source_module} knows {known} only"
    if target_module in ("transforms/audio", "transforms/coefficients", "transforms/jpeg"):
        return None if source_module == "transforms" else f"{source} includes {target}: only transforms/ may"
    if target_module in ("transforms/simd", "transforms/text"):
        target_module = "transforms"  # for everybody above: what it says of the machine, and ids without a plan
        if source_module == "transforms":
            return None
    if target_module not in LEVELS or source_module not in LEVELS:
        return f"{source} includes {target}: {target_module}/ has no level in tests/architecture/tree.py"
    if LEVELS[target_module] < LEVELS[source_module]:
        return None
    way = "sideways" if LEVELS[target_module] == LEVELS[source_module] else "up"
    return f"{source} includes {target}: the arrow points {way}"


def third_party_library(header: str) -> str | None:
    return next((name for name in THIRD_PARTY if header == name or header.startswith(name)), None)


@pytest.mark.parametrize("module", MODULES)
def test_includes_point_down(module: str) -> None:
    errors = []
    for path in sources(module):
        name = str(path.relative_to(ROOT))
        for mark, target in INCLUDE.findall(path.read_text()):
            if mark == '"' and "/" in target and (error := arrow_error(name, target)):
                errors.append(error)
    assert not errors, "\n".join(errors)


def is_known(path: Path, target: str) -> bool:
    """Seen from the root; python/src, one folder that nobody else includes, may also name a neighbour."""
    return (ROOT / target).is_file() or (path.is_relative_to(ROOT / "python") and (path.parent / target).is_file())


@pytest.mark.parametrize("module", MODULES)
def test_repository_headers_are_named_from_the_root(module: str) -> None:
    errors = []
    for path in sources(module):
        for mark, target in INCLUDE.findall(path.read_text()):
            # Highway's foreach_target includes the file itself by a macro, which is no literal include.
            if mark == '"' and third_party_library(target) is None and not is_known(path, target):
                errors.append(f'{path.relative_to(ROOT)}: "{target}" is no file seen from the root')
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize("module", MODULES)
def test_third_party_headers_stay_in_their_folder(module: str) -> None:
    errors = []
    for path in sources(module):
        name = str(path.relative_to(ROOT))
        for _, target in INCLUDE.findall(path.read_text()):
            library = third_party_library(target)
            if library is None:
                continue
            if module_of(name) not in THIRD_PARTY[library]:
                errors.append(f"{name} includes {target}: only {', '.join(THIRD_PARTY[library])} may")
    assert not errors, "\n".join(errors)


def test_headers_that_others_include_show_no_third_party_header() -> None:
    """A header reached from another folder, by whatever chain, must not bring a library with it."""
    includes = {
        str(path.relative_to(ROOT)): INCLUDE.findall(path.read_text()) for path in sources(*MODULES, *ANYTHING_GOES)
    }
    reached: set[str] = set()
    todo = [
        target
        for name, targets in includes.items()
        for mark, target in targets
        if mark == '"' and target in includes and name.split("/")[0] in MODULES and module_of(name) != module_of(target)
    ]
    while todo:
        header = todo.pop()
        if header in reached:
            continue
        reached.add(header)
        todo += [target for mark, target in includes[header] if mark == '"' and target in includes]
    errors = [
        f"{header} includes {target}, and another folder includes it"
        for header in sorted(reached)
        for _, target in includes[header]
        if third_party_library(target)
    ]
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize("header", [str(path.relative_to(ROOT)) for path in sources(*MODULES) if path.suffix == ".h"])
def test_headers_start_with_pragma_once(header: str) -> None:
    text = (ROOT / header).read_text()
    # What Highway includes once per target must not be guarded once for all.
    assert text.count("#pragma once") == 1 or "HWY_TARGET" in text or "HWY_DISABLED_TARGETS" in text, (
        f"{header} has no #pragma once"
    )


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("loader/engine/engine.cc", "io/manifest/manifest.h", True),
        ("io/manifest/manifest.cc", "loader/engine/engine.h", False),
        ("io/manifest/manifest.cc", "transforms/op/op.h", False),
        ("base/hash.cc", "io/manifest/manifest.h", False),
        ("transforms/plan/plan.cc", "transforms/jpeg/decoder.h", True),
        ("loader/engine/engine.cc", "transforms/jpeg/decoder.h", False),
        ("transforms/jpeg/decoder.cc", "transforms/op/op.h", False),
        ("transforms/jpeg/decoder.cc", "base/error.h", True),
        ("transforms/jpeg/decoder.cc", "transforms/simd/config.h", True),
        ("transforms/simd/targets.cc", "transforms/jpeg/decoder.h", False),
        ("python/src/bpe.cc", "transforms/text/bpe.h", True),
        ("transforms/text/bpe.cc", "transforms/op/op.h", False),
        ("transforms/plan/plan.cc", "transforms/simd/targets.h", True),
        ("loader/engine/engine.cc", "transforms/simd/targets.h", True),
        ("io/manifest/manifest.cc", "transforms/simd/targets.h", False),
        ("tests/io/manifest_test.cc", "loader/engine/engine.h", True),
        ("io/manifest/manifest.cc", "tests/io/maker.h", False),
    ],
)
def test_the_rule_itself(source: str, target: str, allowed: bool) -> None:
    assert (arrow_error(source, target) is None) == allowed
