"""The order in which operations run: the same bits, and a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya


def colors_first(folder: Path) -> carya.Pipeline:
    """Colors of single pixels before crops: all of it may be turned round."""
    return (
        carya.image_folder(str(folder))
        .shuffle(seed=3)
        .decode_image()
        .color_jitter(0.4, saturation=0.4, hue=0.1)
        .random_horizontal_flip()
        .posterize(5)
        .random_crop(40, pad_if_needed=True, padding_mode="reflect")
        .normalize(mean=0.4, std=0.2)
        .batch(4)
    )


def rows(chain: carya.Pipeline, **options: Any) -> tuple[list[np.ndarray], list[str]]:
    with carya.Loader(chain, daemon="embedded", epochs=1, **options) as loader:
        images = [np.array(batch["image"]) for batch in loader]
        return images, loader.stats()["order"]


@pytest.mark.parametrize("threads", [1, 3])
def test_another_order_gives_the_same_bits(photos: Path, threads: int) -> None:
    chain = colors_first(photos)
    declared, as_written = rows(chain, reorder="off", threads=threads)
    chosen, order = rows(chain, threads=threads)
    names = [
        "decode_image", "color_jitter", "random_horizontal_flip", "posterize", "random_crop", "normalize"
    ]  # fmt: skip
    assert as_written == names
    assert order.index("random_crop") < order.index("color_jitter") < order.index("posterize")
    assert sorted(order) == sorted(names)
    assert len(chosen) == len(declared)
    for ours, theirs in zip(chosen, declared, strict=True):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(chosen[0][0], chain[next_record(chain)]["image"])


def next_record(chain: carya.Pipeline) -> int:
    with carya.Loader(chain, daemon="embedded") as loader:
        return int(next(iter(loader)).records[0])


def test_explain_says_what_moves_and_what_it_saves(photos: Path) -> None:
    report = colors_first(photos).explain()
    assert report["declared"][1] == "color_jitter"
    assert report["us"] < report["declared_us"]
    assert report["proven"]
    assert {"op": "random_crop", "passes": "color_jitter"}.items() <= next(
        move for move in report["moves"] if move["op"] == "random_crop"
    ).items()
    assert all(move["saved_us"] > 0 for move in report["moves"])
    assert [op["op"] for op in report["ops"]] == report["order"]
    assert report["ops"][-1]["bytes_out"] == 40 * 40 * 3 * 4
    assert abs(sum(op["us"] for op in report["ops"]) - report["us"]) < 1e-6 * report["us"]


def test_explain_of_a_chain_that_cannot_be_turned(photos: Path) -> None:
    chain = carya.image_folder(str(photos)).decode_image().equalize().random_crop(40).batch(4)
    report = chain.explain()
    assert report["order"] == report["declared"] == ["decode_image", "equalize", "random_crop"]
    assert report["moves"] == []


def test_the_command_explains(photos: Path, tmp_path: Path) -> None:
    document = tmp_path / "p.json"
    document.write_text(colors_first(photos).to_json())
    command = [sys.executable, "-m", "carya", "explain", str(document)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "random_crop runs before color_jitter (saves" in text
    assert "The bits are the same." in text
    line = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
    assert json.loads(line) == colors_first(photos).explain()
