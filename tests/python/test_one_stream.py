"""One stream: its digest depends on none of threads, slots, read-ahead, engine, ranks, SIMD target, restarts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streams import digest, epoch_digest, flat

import carya
from carya import _core


def vision(photos: Path | list[str], form: str = "float32", **batch: Any) -> carya.Pipeline:
    source = carya.files(photos) if isinstance(photos, list) else carya.image_folder(photos)
    chain = source.shuffle(seed=11).decode_image().random_resized_crop(48).random_horizontal_flip()
    if form == "float32":
        chain = chain.normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    return chain.batch(**(batch or {"global_size": 8}))


@pytest.fixture(scope="module", params=["uint8", "float32"])
def chain_and_digest(request: Any, photos: Path, real_photos: list[str]) -> tuple[carya.Pipeline, str]:
    chain = vision(real_photos[:120] or photos, request.param)
    return chain, epoch_digest(chain, epochs=2, threads=1)


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 2},
        {"threads": 3},
        {"threads": 7},
        {"slots": 2},
        {"slots": 9, "threads": 2},
        {"read_ahead": 1},
        {"read_ahead": "1MB", "threads": 3},
        {"io_engine": "pread"},
        {"io_engine": "pread", "threads": 3, "read_ahead": 4096},
        {"prefetch_epochs": False, "threads": 2},
        {"on_error": "mask"},
        {"on_error": "replace"},
        {"cache": "auto"},
        {"cache": {"memory": "1MB"}, "threads": 3},
        {"cache": {"memory": "1GB"}, "threads": 2},
    ],
    ids=str,
)
def test_options_change_no_bit(chain_and_digest: tuple[carya.Pipeline, str], options: dict[str, Any]) -> None:
    chain, wanted = chain_and_digest
    assert epoch_digest(chain, epochs=2, **options) == wanted


def test_io_uring_changes_no_bit(chain_and_digest: tuple[carya.Pipeline, str]) -> None:
    chain, wanted = chain_and_digest
    if not str(_core.doctor()["io_engine"]).startswith("io_uring"):
        pytest.skip("io_uring is refused here")
    assert epoch_digest(chain, epochs=2, io_engine="uring", threads=2) == wanted


def test_simd_targets_change_no_bit(chain_and_digest: tuple[carya.Pipeline, str]) -> None:
    chain, wanted = chain_and_digest
    targets = _core.simd_targets()
    assert targets
    try:
        for target in targets:
            _core.force_simd_target(target)
            assert epoch_digest(chain, epochs=2) == wanted, target
    finally:
        _core.force_simd_target("")


@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_ranks_concatenated_change_no_bit(photos: Path, world_size: int) -> None:
    chain = vision(photos)
    with carya.Loader(chain) as loader:
        whole = [(batch.records.tolist(), batch["image"].tobytes(), batch["label"].tolist()) for batch in loader]
    parts: list[Any] = []
    for rank in range(world_size):
        with carya.Loader(chain, rank=rank, world_size=world_size, threads=1) as loader:
            # A row that repeats another rank's is not valid.
            parts.append([[x[b.valid] for x in (b.records, b["image"], b["label"])] for b in loader])
    for step, (wanted_records, image, labels) in enumerate(whole):
        assert flat(part[step][0].tolist() for part in parts) == wanted_records
        assert b"".join(part[step][1].tobytes() for part in parts) == image
        assert flat(part[step][2].tolist() for part in parts) == labels


def test_breaking_off_and_resuming_at_every_step_changes_no_bit(photos: Path) -> None:
    chain = vision(photos)
    wanted = epoch_digest(chain, epochs=2)

    def pieces() -> Iterator[carya.Batch]:
        state, last = None, False
        while not last:
            with carya.Loader(chain, state=state, threads=2) as loader:
                for batch in loader:
                    yield batch
                    state = batch.state_dict()
                    break
                else:
                    last = state is not None and state["epoch"] == 1
                    state = loader.state_dict()

    assert digest(pieces()) == wanted


def test_the_tail_changes_no_row(photos: Path) -> None:
    plain = epoch_digest(vision(photos, global_size=8))
    assert epoch_digest(vision(photos, global_size=8, pad_last=True)) == plain
    assert epoch_digest(vision(photos, global_size=5)) == plain


def test_another_seed_or_epoch_is_another_stream(photos: Path) -> None:
    chain = vision(photos)
    assert epoch_digest(chain, seed=1) != epoch_digest(chain)
    with carya.Loader(chain) as loader:
        assert digest(loader) != digest(loader)


def test_c_library_variants_change_no_bit(photos: Path) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\nfrom streams import epoch_digest\nfrom test_one_stream import vision\n"
        "print(epoch_digest(vision(Path(sys.argv[1])), epochs=2))"
    )
    tunables = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2"}
    here = str(Path(__file__).parent)
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(photos), here],
            env={**os.environ, **extra},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for extra in ({}, tunables)
    }
    assert len(found) == 1
    assert found == {epoch_digest(vision(photos), epochs=2) + "\n"}


def test_substitutes_change_with_neither_threads_nor_ranks(damaged: list[str]) -> None:
    chain = carya.files(damaged).shuffle(seed=2).decode_image().random_resized_crop(16).batch(global_size=4)
    wanted = epoch_digest(chain, epochs=3, on_error="replace", threads=1)
    assert epoch_digest(chain, epochs=3, on_error="replace", threads=5, slots=2) == wanted
    with carya.Loader(chain, on_error="replace") as loader:
        whole = [np.concatenate([batch.records for batch in loader]) for _ in range(3)]
    parts = []
    for rank in range(2):
        with carya.Loader(chain, rank=rank, world_size=2, on_error="replace") as loader:
            parts.append([[batch.records for batch in loader] for _ in range(3)])
    for epoch in range(3):
        steps = [np.concatenate(pair) for pair in zip(parts[0][epoch], parts[1][epoch], strict=True)]
        assert np.array_equal(np.concatenate(steps), whole[epoch])
