"""`carya.op`: operations of a user's own, in C++, in streams, caches, worker processes and workers; and what is wrong with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import workers
from daemons import running as running_daemon
from streams import digest, epoch_digest

import carya
from carya import _core
from carya._own_ops import compiling
from carya._own_ops.included import included

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
SOURCE = Path(__file__).with_name("own_op.cc")
C_SOURCE = r"""
#include <stdlib.h>
#include "carya_op.h"
#include "half.h"

static int plan(const char* parameters, const carya_tensor* in, carya_tensor* out, void** state, char* reason) {
  *out = *in;
  return 0;
}

static int run(const void* state, const carya_tensor* in, const void* from, const carya_tensor* out, void* to,
               carya_random* random, char* reason) {
  const unsigned char* values = from; /* C needs no cast of a void pointer */
  unsigned char* made = to;
  int64_t count = 1;
  for (int i = 0; i < in->dimensions; ++i) count *= in->shape[i];
  for (int64_t i = 0; i < count; ++i) made[i] = half(values[i]);
  return 0;
}

static const carya_op op = {.name = "in_c", .version = CARYA_OP_INTERFACE, .digest = CARYA_OP_DIGEST, .plan = plan, .run = run};

const carya_op* carya_op_entry(void) { return &op; }
"""


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache folder for all that is compiled here; the processes that tests start find it by CARYA_OPS."""
    before = os.environ.get("CARYA_OPS")
    _FOLDER.append(tmp_path_factory.mktemp("ops"))
    yield
    if before is None:
        os.environ.pop("CARYA_OPS", None)
    else:
        os.environ["CARYA_OPS"] = before


_FOLDER: list[Path] = []


def own(what: str, *flags: str, name: str | None = None) -> Any:
    kept = os.environ["CARYA_CACHE_DIR"]
    os.environ["CARYA_CACHE_DIR"] = str(_FOLDER[0])
    try:
        return carya.op(name or what, sources=[SOURCE], flags=[f'-DWHAT="{what}"', *flags])
    finally:
        os.environ["CARYA_CACHE_DIR"] = kept


def pictures(count: int = 12, side: int = 8) -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(3).integers(0, 256, (count, side, side + 2, 3), np.uint8)}


def chain(photos: Path) -> carya.Pipeline:
    """Of any size, between other operations, and as the last one."""
    p = carya.image_folder(str(photos)).shuffle(seed=2).decode_image().op(own("halved")).op(own("divided")(by=2))
    return p.random_resized_crop(24).op(own("divided")(by=3)).op(own("planes")).batch(4)


def test_it_computes_what_it_says(photos: Path) -> None:
    arrays = pictures()
    with carya.Loader(carya.arrays(arrays).op(own("planes")).batch(12)) as loader:
        batch = next(iter(loader))
        assert batch["image"].dtype == np.float32
        assert np.array_equal(batch["image"], arrays["image"].astype(np.float32).sum(3))
    halved = carya.image_folder(str(photos)).decode_image()
    for record in (0, 5, 26):
        whole = halved.sample(record)["image"]
        assert np.array_equal(halved.op(own("halved")).sample(record)["image"], whole[::2, ::2])
    by = carya.arrays(arrays).op(own("divided")(by=4))
    more = by.sample(3)["image"].astype(int) - arrays["image"][3] // 4
    assert len(np.unique(more)) == 1  # one random number per sample, and another for the next
    assert 0 <= more.flat[0] < 8
    assert len({int((by.sample(i)["image"].astype(int) - arrays["image"][i] // 4).flat[0]) for i in range(12)}) > 2


def test_two_of_one_kind_have_random_numbers_of_their_own() -> None:
    arrays = pictures()
    twice = carya.arrays(arrays).op(own("divided")(by=1)).op(own("divided")(by=1))
    sums = [int((twice.sample(i)["image"] - arrays["image"][i]).flat[0]) for i in range(12)]
    assert any(one % 2 for one in sums)  # twice the same number is even


def test_samples_and_streams_are_the_same_bits(photos: Path) -> None:
    made = chain(photos)
    with carya.Loader(made, threads=2) as loader:
        for batch in loader:
            for row, record in enumerate(batch.records):
                assert np.array_equal(batch["image"][row], made.sample(int(record))["image"])
        names = [op["name"] for op in loader.stats()["ops"]]
        assert {"halved", "divided", "planes"} <= set(names)
        assert loader.stats()["order"] == [
            "decode_image",
            "halved",
            "divided",
            "random_resized_crop",
            "divided",
            "planes",
        ]
    assert made.explain()["order"][:3] == ["decode_image", "halved", "divided#0"]


def test_what_it_makes_of_pictures_of_any_size_is_counted(photos: Path) -> None:
    made = carya.image_folder(str(photos)).decode_image().op(own("halved")).random_crop(20, pad_if_needed=True).batch(4)
    with carya.Loader(made, threads=1, epochs=4) as loader:
        for _ in range(4):
            for _batch in loader:
                pass
        ops = {op["name"]: op for op in loader.stats()["ops"]}
    halved = ops["halved"]
    assert 0 < halved["bytes_out_per_sample"] < halved["bytes_in_per_sample"] < 200 * 200 * 3
    assert all(op["bytes_out_per_sample"] < 200 * 200 * 3 for op in ops.values())


def test_threads_caches_functions_and_workers_change_no_bit(photos: Path) -> None:
    made = chain(photos)
    expected = epoch_digest(made, threads=1)
    assert epoch_digest(made, threads=3, slots=3) == expected
    for place in ("decode_image", "halved"):
        with carya.Loader(made, cache={"memory": "1GB", "after": place}) as loader:
            for _ in range(3):
                loader.set_epoch(0)
                assert digest(loader) == expected
            assert loader.stats()["cache"]["after"] == place
    same = carya.Pipeline.from_json(made.to_json())
    assert epoch_digest(same) == expected
    whole = made._with(batch=None).map(unchanged).batch(4)
    for native in ("threads", "workers"):
        assert epoch_digest(whole, threads=2, native=native) == expected
    with (
        workers.running(
            "--insecure", "--op", own("halved").path, "--op", own("divided").path, "--op", own("planes").path
        ) as one,
        carya.Loader(made, threads=1, remote=[f"127.0.0.1:{one.port}"], placement="remote:1") as loader,
    ):
        for _ in range(2000):
            loader.set_epoch(0)
            assert digest(loader) == expected
            if loader.stats()["remote_chunks"]:
                break
        assert loader.stats()["remote_chunks"] > 0


def unchanged(sample: dict[str, Any]) -> dict[str, Any]:
    return sample


def test_a_worker_or_daemon_without_the_library_is_done_without(photos: Path) -> None:
    made = chain(photos)
    expected = epoch_digest(made, threads=1)
    with (
        workers.running("--insecure") as one,
        carya.Loader(made, threads=1, remote=[f"127.0.0.1:{one.port}"], placement="remote:1") as loader,
    ):
        assert digest(loader) == expected
    with running_daemon() as daemon:
        match = (
            r"loads no code of users, .* operations of your own \(halved, divided, planes\); give daemon=\"embedded\"$"
        )
        with pytest.raises(carya.NotFound, match=match):
            carya.Loader(made, daemon=daemon.socket)


def test_a_record_that_it_refuses_is_a_broken_one() -> None:
    arrays = pictures()
    odd = np.flatnonzero(arrays["image"][:, 0, 0, 0] % 2 == 1).tolist()
    assert odd
    made = carya.arrays(arrays).op(own("refusing")).batch(4)
    with carya.Loader(made, on_error="mask") as loader:
        digest(loader)
        entries = loader.quarantine()
        assert sorted(entry["record"] for entry in entries) == odd
        assert (entries[0]["stage"], entries[0]["reason"][:19]) == ("refusing", "the first value is ")
    with carya.Loader(made) as loader, pytest.raises(carya.SampleError, match="refusing: the first value is"):
        digest(loader)


def test_what_it_was_compiled_from_is_part_of_the_state() -> None:
    arrays = pictures()
    first, second = own("divided"), own("divided", "-DANOTHER")
    assert first.digest != second.digest
    with carya.Loader(carya.arrays(arrays).op(first).batch(4)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with pytest.raises(carya.InvalidArgument, match="pipeline"):
        carya.Loader(carya.arrays(arrays).op(second).batch(4), state=state)
    assert own("divided").path == first.path  # compiled once


@pytest.mark.parametrize("order", [[10**6, 0], [0, 10**6], [0, 0], [0]])
def test_an_order_that_names_other_operations_is_refused(order: list[int]) -> None:
    made = carya.arrays(pictures()).op(own("divided")).random_crop(4)
    with pytest.raises(carya.InvalidArgument, match=r"plan: order has \d indices; give each of 0 to 1 once"):
        _core.Sampler(made.native, made.dataset, 0, order)


def test_between_functions_it_has_its_own_name(photos: Path) -> None:
    made = carya.image_folder(str(photos)).decode_image().op(own("halved")).resize((8, 8)).map(unchanged)
    made = made.op(own("divided")).random_horizontal_flip().batch(4)
    assert "divided+random_horizontal_flip" in str(made)
    order = ["decode_image", "halved", "resize", "map(unchanged)", "divided", "random_horizontal_flip"]
    assert made.explain()["order"] == order
    with carya.Loader(made, native="workers") as loader:
        next(iter(loader))
        assert loader.explain()["order"] == order
        assert any("divided" in op["name"] for op in loader.stats()["ops"])
    refusing = carya.arrays(pictures()).map(unchanged).op(own("refusing")).batch(4)
    with carya.Loader(refusing, on_error="mask") as loader:
        digest(loader)
        assert {entry["stage"] for entry in loader.quarantine()} == {"refusing"}


def test_mistakes_are_named(tmp_path: Path) -> None:
    arrays = carya.arrays(pictures())
    with pytest.raises(carya.InvalidArgument, match="divided: by: got 0; give 1 or more"):
        arrays.op(own("divided")(by=0))
    with pytest.raises(carya.InvalidArgument, match="planes: give a uint8 picture"):
        arrays.to_dtype("float32").op(own("planes"))
    with pytest.raises(carya.InvalidArgument, match=r"planes: image is uint8\[\?\]; give decoded fields"):
        carya.files([str(SOURCE)]).op(own("planes"))
    with pytest.raises(carya.InvalidArgument, match=r"wrong: its plan\(\) makes an array that cannot be"):
        arrays.op(own("wrong"))
    with pytest.raises(carya.InvalidArgument, match="its operation is 'planes', not 'other'; give that name"):
        own("planes", name="other")
    with pytest.raises(carya.Unsupported, match=r"has no carya_op_entry\(\)"):
        own("planes", "-DNO_ENTRY")
    with pytest.raises(carya.Unsupported, match="is of version 99 of the interface, and this is version 1"):
        own("planes", "-DVERSION=99")
    broken = tmp_path / "broken.cc"
    broken.write_text("int main( {")
    with pytest.raises(carya.InvalidArgument, match=r"op: broken: .* refuses it:\n.*broken\.cc"):
        carya.op("broken", sources=[broken])
    broken.write_text('#error "the cause"\n' + "".join(f"static int unused_{n}() {{ return 0; }}\n" for n in range(99)))
    with pytest.raises(carya.InvalidArgument, match=r"the cause"):
        carya.op("broken", sources=[broken])
    with pytest.raises(carya.InvalidArgument, match=r"op: sources: got \[5\]; give a path, or a list of paths"):
        carya.op("five", sources=[5])  # type: ignore[list-item]
    with pytest.raises(carya.InvalidArgument, match=r"op: flags: got '-O3'; give a list of texts"):
        carya.op("text", sources=[SOURCE], flags="-O3")
    with pytest.raises(carya.NotFound, match=r"op: .*nothing\.so: no such file; give a library"):
        carya.op("text", library=tmp_path / "nothing.so")
    with pytest.raises(
        carya.InvalidArgument, match=r"op: divided: got 3; give each parameter by its name, as divided\("
    ):
        own("divided")(3)
    with pytest.raises(carya.InvalidArgument, match=r"^divided: parameters: got .*; give finite numbers"):
        arrays.op(own("divided")(by=float("nan")))
    with pytest.raises(carya.InvalidArgument, match=r"^op: comes after batch; call \.op\(...\) before"):
        arrays.batch(2).op(own("planes"))
    with pytest.raises(TypeError, match=r"^op\(\) got an unexpected keyword argument 'by'"):
        arrays.op(own("divided"), by=3)
    with pytest.raises(carya.NotFound, match=r"op: none: .*nothing\.cc"):
        carya.op("none", sources=[tmp_path / "nothing.cc"])
    with pytest.raises(carya.InvalidArgument, match="op: two: give sources="):
        carya.op("two")
    with pytest.raises(carya.InvalidArgument, match="op: name: got 'No Name'"):
        carya.op("No Name", sources=[SOURCE])
    with pytest.raises(carya.InvalidArgument, match="op: own: got 'planes'"):
        arrays.op("planes")
    with pytest.raises(carya.InvalidArgument, match=r"op: .*a:b\.so: got ':' in its path"):
        carya.op("text", library=tmp_path / "a:b.so")
    with pytest.raises(carya.Unsupported, match="cannot be loaded"):
        carya.op("text", library=SOURCE)
    with pytest.raises(carya.NotFound, match=r"op planes: its library \(0+\) is not loaded here"):
        arrays.op(type(own("planes"))("planes", "0" * 32, ""))


def test_what_is_called_c_is_compiled_as_c(tmp_path: Path) -> None:
    source = tmp_path / "halved.c"
    source.write_text(C_SOURCE)
    (tmp_path / "half.h").write_text("static int half(int value) { int *kept = malloc(sizeof *kept); *kept = value / 2;"
                                     " value = *kept; free(kept); return value; }")  # fmt: skip
    first = carya.op("in_c", sources=[source])
    arrays = pictures()
    assert np.array_equal(carya.arrays(arrays).op(first).sample(1)["image"], arrays["image"][1] // 2)


def test_a_header_beside_the_sources_is_part_of_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    source = tmp_path / "in_c.c"
    source.write_text(C_SOURCE)
    header, below = tmp_path / "half.h", tmp_path / "more" / "by.h"
    header.write_text(
        '#pragma once\n#include <by.h>\n#include "half.h"\nstatic int half(int value) { return value / BY; }\n'
    )
    arrays, found = pictures(), {}
    for by in (2, 4):
        below.write_text(f"#define BY {by}\n")
        op = found[by] = carya.op("in_c", sources=[source], flags=[f"-I{tmp_path / 'more'}"])
        assert np.array_equal(carya.arrays(arrays).op(op).sample(1)["image"], arrays["image"][1] // by)
    assert found[2].digest != found[4].digest
    below.write_text("#define BY 2\n")
    assert carya.op("in_c", sources=[source], flags=["-I", str(tmp_path / "more")]).path != found[2].path  # other flags
    assert carya.op("in_c", sources=[source], flags=[f"-I{tmp_path / 'more'}"]).path == found[2].path


def test_a_header_that_flags_include_is_part_of_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "op.cc").write_text('#include "carya_op.h"\n')
    (tmp_path / "carya_op.h").write_text("")
    (tmp_path / "first.h").write_text('#include "below.h"\n')
    (tmp_path / "below.h").write_text("below\n")
    (tmp_path / "more" / "named.h").write_text("named\n")
    monkeypatch.chdir(tmp_path)
    found = included(["op.cc"], ["-include", "first.h", "-imacrosnamed.h", "-I", "more", "-include", "none.h"])
    assert sorted(found) == [b'#include "below.h"\n', b"below\n", b"named\n"]


def test_a_library_of_another_machine_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines of several kinds share a home, and compilers of one version say the same of themselves on all of them."""
    source = tmp_path / "in_c.c"
    source.write_text(C_SOURCE)
    (tmp_path / "half.h").write_text("static int half(int value) { return value / 2; }")
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))

    def made(flags: list[str]) -> str:
        return compiling.compiled("in_c", [str(source)], flags)

    plain, native = made([]), made(["-march=native"])
    monkeypatch.setattr(compiling, "_processor", lambda: ["flags : others"])
    assert made([]) == plain
    assert made(["-march=native"]) != native
    monkeypatch.setattr("platform.machine", lambda: "another")
    assert made([]) != plain


def test_a_library_that_was_compiled_anew_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    include = Path(carya.__file__).parent / "include"
    library = tmp_path / "libplanes.so"
    command = ["c++", "-shared", "-fPIC", f"-I{include}", '-DWHAT="planes"', str(SOURCE), "-o"]
    subprocess.run([*command, str(library)], check=True)
    first = carya.op("planes", library=library)
    assert carya.op("planes", library=library).digest == first.digest
    subprocess.run([*command, str(tmp_path / "new.so"), "-DANOTHER", "-O1"], check=True)
    os.replace(tmp_path / "new.so", library)
    with pytest.raises(
        carya.InvalidArgument, match=r"compiled anew since this process loaded it.*give the new one another path"
    ):
        carya.op("planes", library=library)


@pytest.mark.parametrize(
    ("cxx", "match"),
    [
        ("/nothing/c++", "CXX='/nothing/c\\+\\+': there is no such program in PATH; set it"),
        ("false", r"refuses it:\n\(not a word; it ended with status 1\)"),
        ("true", "made no library, and no error; set CXX to a C\\+\\+ compiler"),
        ("c++ -DFROM_CXX=1", ""),
    ],
)
def test_the_compiler_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cxx: str, match: str) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", cxx)
    source = tmp_path / "named.cc"
    source.write_text(f'#ifndef FROM_CXX\n#error "without it"\n#endif\n#include "{SOURCE}"\n')
    if match:
        with pytest.raises(carya.Error, match=match):
            carya.op("planes", sources=[source], flags=['-DWHAT="planes"'])
    else:
        assert carya.op("planes", sources=[source], flags=['-DWHAT="planes"']).name == "planes"


@pytest.mark.parametrize("part", [0, 3000])
def test_a_kept_library_that_broke_off_is_made_anew(tmp_path: Path, part: int) -> None:
    code = f"import carya; print(carya.op('planes', sources=[{str(SOURCE)!r}], flags=['-DWHAT=\"planes\"']).path)"
    command, environment = [sys.executable, "-c", code], {**os.environ, "CARYA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        library = Path(done.stdout.strip())
        assert [path.name for path in (tmp_path / "ops").iterdir()] == [library.name]
        library.write_bytes(library.read_bytes()[:part])


def test_a_folder_that_cannot_be_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path))
    (tmp_path / "ops").touch()
    with pytest.raises(carya.IoError, match=r"op: planes: .*/ops: File exists; make room, or give a CARYA_CACHE_DIR"):
        carya.op("planes", sources=[SOURCE])


def test_without_a_cache_folder_nothing_is_left_behind(tmp_path: Path) -> None:
    code = f"import carya, os; print(carya.op('planes', sources=[{str(SOURCE)!r}], flags=['-DWHAT=\"planes\"']).path)"
    (tmp_path / "no_folder").touch()
    environment = {**os.environ, "CARYA_CACHE_DIR": str(tmp_path / "no_folder" / "kept"), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path / "carya-ops-"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["no_folder"]


def test_a_library_that_was_compiled_by_hand(tmp_path: Path) -> None:
    include = Path(carya.__file__).parent / "include"
    library = tmp_path / "libplanes.so"
    subprocess.run(
        ["c++", "-shared", "-fPIC", f"-I{include}", '-DWHAT="planes"', str(SOURCE), "-o", str(library)], check=True
    )
    op = carya.op("planes", library=library)
    assert len(op.digest) == 32
    arrays = pictures()
    assert np.array_equal(carya.arrays(arrays).op(op).sample(2)["image"], arrays["image"][2].astype(np.float32).sum(2))


def test_a_folder_that_others_write_to_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path))
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops").chmod(0o777)
    with pytest.raises(carya.Unsupported, match="is not this user's alone"):
        carya.op("planes", sources=[SOURCE], flags=['-DWHAT="planes"'])


def test_the_guides_example_works(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "own-ops.md").read_text()
    source = tmp_path / "gamma.cc"
    source.write_text(guide.split("```cpp\n")[1].split("```")[0])
    gamma = carya.op("gamma", sources=[source])
    arrays = pictures()
    made = carya.arrays(arrays).op(gamma(gamma=2.0)).sample(1)["image"]
    table = np.floor(255 * (np.arange(256) / 255) ** 2 + 0.5).astype(np.uint8)
    assert np.array_equal(made, table[arrays["image"][1]])
