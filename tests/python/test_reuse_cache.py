"""What `reuse_augmentation(epochs=k)` repeats is kept for those epochs: the same bits, computed once in each period."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemons import running
from streams import digest

import carya

EPOCHS = 7
KEPT = {"memory": "64MB", "after": "random_resized_crop"}


def chain(photos: Path, k: int = 3, seed: int = 5) -> carya.Pipeline:
    read = carya.image_folder(photos).shuffle(seed=seed).decode_image().random_resized_crop(40)
    return read.reuse_augmentation(k).random_crop(24).random_horizontal_flip().batch(4)


def batches(loader: carya.Loader, epochs: int = EPOCHS) -> Iterator[Any]:
    return (batch for _ in range(epochs) for batch in loader)


def stream(pipeline: carya.Pipeline, cache: Any = "off", epochs: int = EPOCHS, **options: Any) -> tuple[str, Any]:
    """The digest of the stream, and what it says of its cache."""
    with carya.Loader(pipeline, epochs=epochs, cache=cache, **{"daemon": "embedded", **options}) as loader:
        return digest(batches(loader, epochs)), loader.stats()["cache"]


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_bit_changes_and_each_period_computes_once(photos: Path, k: int, threads: int) -> None:
    wanted, _ = stream(chain(photos, k), threads=1)
    found, cache = stream(chain(photos, k), KEPT, threads=threads, prefetch_epochs=False)
    assert found == wanted
    assert (cache["after"], cache["period_epochs"]) == ("random_resized_crop", k)
    rows = cache["looked"] // EPOCHS
    computed = -(-EPOCHS // k)  # one epoch of each period
    assert cache["hits"] == rows * (EPOCHS - computed)
    assert cache["bytes"] > 0 or (EPOCHS - 1) % k == 0, "the last period began with the last epoch"


def test_part_of_it_in_little_memory(photos: Path) -> None:
    wanted, everything = stream(chain(photos), KEPT, threads=1)
    with carya.Loader(chain(photos), epochs=2, cache=KEPT, daemon="embedded", threads=1) as loader:
        digest(batches(loader, 1))
        needed = loader.stats()["cache"]["bytes"]
    found, part = stream(chain(photos), KEPT | {"memory": needed // 2}, threads=2)
    assert found == wanted == stream(chain(photos))[0]
    assert 0 < part["hits"] < everything["hits"]


def test_ranks_of_a_daemon_share_each_period(photos: Path) -> None:
    with carya.Loader(chain(photos), epochs=EPOCHS, daemon="embedded", world_size=2, rank=0) as loader:
        wanted = digest(batches(loader))
    with running() as daemon:
        options = {"daemon": str(daemon.socket), "cache": KEPT, "epochs": EPOCHS, "world_size": 2}
        with (
            carya.Loader(chain(photos), rank=0, **options) as first,
            carya.Loader(chain(photos), rank=1, **options) as second,
        ):
            turns = zip(batches(first), batches(second), strict=True)
            assert digest(mine for mine, _ in turns) == wanted
            assert first.stats()["cache"]["hits"] > 0
            assert second.stats()["cache"]["hits"] > 0


def test_a_state_goes_on_in_the_middle_of_a_period_and_behind_it(photos: Path) -> None:
    pipeline = chain(photos)
    with carya.Loader(pipeline, epochs=EPOCHS, daemon="embedded") as loader:
        whole = [digest([batch]) for batch in batches(loader)]
    steps = len(whole) // EPOCHS
    with carya.Loader(pipeline, epochs=EPOCHS, daemon="embedded", cache=KEPT) as loader:
        taken = []
        for turn, batch in enumerate(batches(loader, 5)):
            taken.append(digest([batch]))
            if turn == steps + 1:
                state = json.loads(json.dumps(loader.state_dict()))
        assert taken == whole[: 5 * steps]
        loader.load_state_dict(state)  # from the second period back into the first
        again = [digest([batch]) for batch in loader]
        assert again == whole[steps + 2 : 2 * steps]
        assert [digest([batch]) for batch in batches(loader, 5)] == whole[2 * steps :]


def test_substitutes_draw_for_themselves(photos: Path, tmp_path: Path) -> None:
    some = shutil.copytree(photos, tmp_path / "photos")
    for folder in ("class_a", "class_b"):
        (some / folder / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    wanted, _ = stream(chain(some), on_error="replace", threads=1)
    for memory in ("64MB", "20KB"):
        assert stream(chain(some), KEPT | {"memory": memory}, on_error="replace", threads=2)[0] == wanted


def test_records_that_come_more_than_once_are_not_kept_there(photos: Path) -> None:
    plain = carya.image_folder(photos).shuffle(seed=5).decode_image().random_resized_crop(40).reuse_augmentation(3)
    pipeline = plain.repeated(2).batch(4)
    with pytest.raises(carya.InvalidArgument, match="random_resized_crop is random"):
        carya.Loader(pipeline, epochs=3, cache=KEPT, daemon="embedded")
    assert stream(pipeline, {"memory": "64MB"}, 3)[0] == stream(pipeline, epochs=3)[0]


def test_files_do_not_have_it_and_that_is_said(photos: Path, tmp_path: Path) -> None:
    disk = {"disk": (str(tmp_path / "kept"), "1GB"), "after": "random_resized_crop"}
    with pytest.raises(carya.InvalidArgument, match=r'in memory only.*reuse_augmentation.*give "memory" too'):
        carya.Loader(chain(photos), epochs=3, cache=disk, daemon="embedded")
    found, cache = stream(chain(photos), disk | {"memory": "64MB"})
    assert found == stream(chain(photos))[0]
    assert cache["hits"] > 0
    assert cache["files"] == []


def test_explain_says_for_how_long(photos: Path) -> None:
    with carya.Loader(chain(photos), epochs=3, cache=KEPT, daemon="embedded") as loader:
        digest(batches(loader, 2))
        said = str(loader.explain())
    assert "Kept after random_resized_crop: " in said
    assert "those of 3 epochs, as reuse_augmentation says" in said
