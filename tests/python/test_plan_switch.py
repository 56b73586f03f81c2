"""A running loader measures what operations cost, keeps it, and turns to another order: the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya


def colors_first(folder: Path) -> carya.Pipeline:
    return (
        carya.image_folder(str(folder))
        .shuffle(seed=3)
        .decode_image()
        .color_jitter(0.4, saturation=0.4, hue=0.1)
        .posterize(5)
        .random_crop(40, pad_if_needed=True)
        .normalize(mean=0.4, std=0.2)
        .batch(4)
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(cache: Path) -> tuple[Path, dict[str, Any]]:
    (path,) = cache.glob("profile-*.json")
    document = json.loads(path.read_text())
    assert isinstance(document, dict)
    return path, document


def pixels(loader: carya.Loader) -> list[np.ndarray]:
    return [np.array(batch["image"]) for batch in loader]


def same(some: list[np.ndarray], others: list[np.ndarray]) -> bool:
    return len(some) == len(others) and all(map(np.array_equal, some, others))


def test_what_was_measured_is_kept_for_the_next_loader(photos: Path, cache: Path) -> None:
    chain = colors_first(photos)
    with carya.Loader(chain, daemon="embedded", epochs=1, decode_index="off") as loader:
        for _ in loader:
            pass
        assert loader.stats()["plan_switches"] == 0
        order = loader.stats()["order"]
    _, document = kept(cache)
    (known,) = document["orders"]
    assert [chain.explain()["declared"][op] for op in known["order"]] == order
    assert known["stages"][0]["pictures"] >= 1
    with carya.Loader(chain, daemon="embedded", epochs=1) as loader:
        assert loader.stats()["order"] == order
        assert loader.stats()["plan_log"] == []


def test_a_wrong_order_is_left_while_the_loader_runs(photos: Path, cache: Path) -> None:
    chain = colors_first(photos)
    with carya.Loader(chain, daemon="embedded", epochs=1) as loader:
        expected = pixels(loader)
    path, document = kept(cache)
    # A profile in which colors cost nothing and the declared order is what ran: one sample of lies.
    stages = [
        {"name": name, "ops": ops, "samples": 1, "timed": 1, "cpu_ns": ns, "bytes_in": into, "bytes_out": out,
         "pictures": int(ops == [0]), "height": 130 * (ops == [0]), "width": 130 * (ops == [0])}
        for name, ops, ns, into, out in [
            ("decode_image", [0], 3_600_000, 900_000, 50_700),
            ("color_jitter", [1], 1, 50_700, 50_700),
            ("posterize", [2], 1, 50_700, 50_700),
            ("random_crop+normalize", [3, 4], 1_000, 50_700, 19_200),
        ]
    ]  # fmt: skip
    document["orders"] = [{"order": [0, 1, 2, 3, 4], "at": 1_700_000_000, "stages": stages}]
    path.write_text(json.dumps(document))
    with carya.Loader(chain, daemon="embedded", threads=2) as loader:
        assert loader.stats()["order"] == chain.explain()["declared"]
        epochs = 0
        while not loader.stats()["plan_switches"] and epochs < 100_000:
            images = pixels(loader)
            assert epochs > 0 or same(images, expected)
            epochs += 1
        stats = loader.stats()
        assert stats["plan_switches"] >= 1
        assert stats["order"].index("random_crop") < stats["order"].index("color_jitter")
        assert "random_crop before color_jitter" in stats["plan_log"][0]
        assert "predicted" in stats["plan_log"][0]
        images = pixels(loader)
    with carya.Loader(chain, daemon="embedded", reorder="off") as loader:
        loader.set_epoch(epochs)
        assert same(images, pixels(loader))


def test_a_damaged_profile_changes_nothing(photos: Path, cache: Path) -> None:
    chain = colors_first(photos)
    with carya.Loader(chain, daemon="embedded", epochs=1) as loader:
        expected = pixels(loader)
    path, _ = kept(cache)
    path.write_text('{"carya_profile": 1, "orders": [{"order": "all"}]}')
    with carya.Loader(chain, daemon="embedded", epochs=1) as loader:
        images = pixels(loader)
        assert "begun without it" in loader.stats()["plan_log"][0]
    assert same(images, expected)
