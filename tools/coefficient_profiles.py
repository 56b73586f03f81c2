#!/usr/bin/env python3
"""Makes transforms/coefficients/profile_table.cc: the widths with which blocks of coefficients are packed.

    tools/coefficient_profiles.py PHOTOS... [--out FILE] [--blocks 60000] [--seed 1]

PHOTOS are photos or folders of them. Each is scaled down, so that traces of its own compression vanish, and quantised
as JPEG encoders do at several qualities and samplings. Profiles are then found by turns, as in k-means: each block goes
to the profile that takes the fewest bits, and each profile gets the widths that are best for its blocks. The table is
part of the format (transforms/coefficients/FORMAT.md): another one is another version.

The table of version 1: the twelve nature photographs of Debian's package mate-backgrounds and the photos of
NVIDIA's DALI_extra (single, coco_dummy), --blocks 40000 --seed 1.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

EXCEPTION_BITS = 24
PLACE_GROUPS = (0, 2, 5, 9, 14, 20, 27, 35, 42, 48, 57, 63)
RANK_GROUPS = (0, 1, 2, 4, 7, 11, 16, 23, 31, 43, 63)
BITMAP_BITS = (2, 4, 6, 8, 10, 13, 16, 20, 24, 28, 33, 38, 43, 48, 52, 57)
DENSE, SPARSE = 128, 128
WIDTHS = 9  # 0 to 8 bits
PACKED_MAX = 127
ROUNDS = 30

# Like ImageNet's photos: most have full colour resolution and little loss.
LONG_SIDES = (500, 500, 640, 320)
QUALITIES = (75, 85, 90, 92, 94, 95, 95, 96, 96, 96, 96, 97, 98, 99)
SHARE_444 = 0.75

# ITU-T T.81, tables K.1 and K.2.
LUMA = """16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56 14 17 22 29 51 87 80 62 18 22 37 56 68 109
103 77 24 35 55 64 81 104 113 92 49 64 78 87 103 121 120 101 72 92 95 98 112 100 103 99"""
CHROMA = (
    """17 18 24 47 99 99 99 99 18 21 26 66 99 99 99 99 24 26 56 99 99 99 99 99 47 66 99 99 99 99 99 99""" + " 99" * 32
)


def zigzag() -> np.ndarray:
    """The natural place of each zigzag index."""
    places = sorted(range(64), key=lambda i: (i // 8 + i % 8, i // 8 if (i // 8 + i % 8) % 2 else i % 8))
    return np.array(places)


def dct_matrix() -> np.ndarray:
    k, x = np.mgrid[0:8, 0:8]
    matrix = np.cos((2 * x + 1) * k * np.pi / 16) / 2
    matrix[0] /= np.sqrt(2)
    return matrix


def quantiser(text: str, quality: int) -> np.ndarray:
    """As libjpeg scales the tables of the standard."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    table = np.array([int(word) for word in text.split()])
    return np.clip((table * scale + 50) // 100, 1, 255)


def blocks_of(plane: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The quantised AC coefficients of a plane in zigzag order: (blocks, 63)."""
    height, width = (side // 8 * 8 for side in plane.shape)
    cut = plane[:height, :width].astype(np.float64) - 128
    tiles = cut.reshape(height // 8, 8, width // 8, 8).swapaxes(1, 2).reshape(-1, 8, 8)
    matrix = dct_matrix()
    values = (matrix @ tiles @ matrix.T).reshape(-1, 64) / table
    return np.rint(values).astype(np.int32)[:, zigzag()[1:]]


def photos_below(names: list[str]) -> Iterator[Path]:
    for name in names:
        path = Path(name)
        yield from sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def sample_blocks(names: list[str], count: int, rng: np.random.Generator) -> np.ndarray:
    """So many blocks of all photos, at several sizes, qualities and samplings."""
    found = []
    for path in photos_below(names):
        try:
            with Image.open(path) as opened:
                photo = opened.convert("RGB")
        except (OSError, ValueError, SyntaxError):
            continue
        if max(photo.size) < 640:
            continue
        for _ in range(8):
            width, height = photo.size
            share = rng.uniform(0.4, 1)
            left, top = rng.uniform(0, 1 - share, 2)
            box = (left * width, top * height, (left + share) * width, (top + share) * height)
            scale = min(1.0, rng.choice(LONG_SIDES) / (share * max(photo.size)))
            size = (max(16, round(share * width * scale)), max(16, round(share * height * scale)))
            small = np.asarray(photo.resize(size, Image.Resampling.LANCZOS, box).convert("YCbCr"))
            quality = int(rng.choice(QUALITIES))
            found.append(blocks_of(small[..., 0], quantiser(LUMA, quality)))
            halved = rng.random() > SHARE_444
            for c in (1, 2):
                plane = small[..., c].astype(np.float64)
                if halved:
                    h, w = (side // 2 * 2 for side in plane.shape)
                    plane = plane[:h, :w].reshape(h // 2, 2, w // 2, 2).mean((1, 3))
                found.append(blocks_of(plane, quantiser(CHROMA, quality)))
    blocks = np.concatenate(found)
    blocks = blocks[(blocks != 0).any(1)]  # those without AC coefficients have a profile of their own
    return blocks[rng.choice(len(blocks), min(count, len(blocks)), replace=False)]


def widths(values: np.ndarray, sparse: bool) -> np.ndarray:
    """The bits that each value takes; WIDTHS where no width suffices."""
    size = np.abs(values) - 1 if sparse else np.where(values < 0, -values - 1, values)
    bits = 1 + np.ceil(np.log2(np.maximum(size, 0) + 1)).astype(int)
    return np.where(values == 0, 0, np.where(np.abs(values) > PACKED_MAX, WIDTHS, bits))


class Kind:
    """One kind of profiles: the cost of each number in each group, for each block, side by side."""

    def __init__(self, costs: list[np.ndarray]) -> None:
        self.sizes = [cost.shape[1] for cost in costs]
        self.costs = np.concatenate(costs, 1).astype(np.float32)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def best(self, costs: np.ndarray) -> np.ndarray:
        """The numbers with the least cost, per group."""
        parts = [costs[:, a:b].argmin(1) for a, b in itertools.pairwise(self.starts)]
        return np.stack(parts, 1)

    def of(self, profiles: np.ndarray) -> np.ndarray:
        """What each block costs with each profile: (blocks, profiles)."""
        chosen = np.zeros((len(profiles), self.costs.shape[1]), np.float32)
        for g, start in enumerate(self.starts[:-1]):
            chosen[np.arange(len(profiles)), start + profiles[:, g]] = 1
        return self.costs @ chosen.T


def dense_kind(blocks: np.ndarray) -> Kind:
    bits = widths(blocks, sparse=False)
    costs = []
    for a, b in itertools.pairwise(PLACE_GROUPS):
        over = [(bits[:, a:b] > w).sum(1) for w in range(WIDTHS)]
        costs.append(np.stack([(b - a) * w + EXCEPTION_BITS * o for w, o in enumerate(over)], 1))
    return Kind(costs)


def sparse_kind(blocks: np.ndarray) -> Kind:
    set_ = blocks != 0
    order = np.argsort(~set_, axis=1, kind="stable")
    bits = np.take_along_axis(widths(blocks, sparse=True), order, 1)
    costs = []
    for a, b in itertools.pairwise(RANK_GROUPS):
        part = bits[:, a:b]
        there = (part > 0).sum(1)
        costs.append(np.stack([there * w + EXCEPTION_BITS * (part > w).sum(1) for w in range(WIDTHS)], 1))
    costs.append(np.stack([m + EXCEPTION_BITS * set_[:, m:].sum(1) for m in BITMAP_BITS], 1))
    return Kind(costs)


def find_profiles(blocks: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    kinds = (dense_kind(blocks), sparse_kind(blocks))
    counts = (DENSE, SPARSE)
    starts = [rng.choice(len(blocks), count, replace=False) for count in counts]
    profiles = [kind.best(kind.costs[at]) for kind, at in zip(kinds, starts, strict=True)]
    profiles[0][0] = 0  # of blocks without AC coefficients
    own = np.minimum(*(kind.costs[np.arange(len(blocks))[:, None], kind.starts[:-1] + kind.best(kind.costs)].sum(1)
                       for kind in kinds))  # fmt: skip
    for step in range(ROUNDS):
        costs = np.concatenate([kind.of(p) for kind, p in zip(kinds, profiles, strict=True)], 1)
        chosen, least = costs.argmin(1), costs.min(1)
        print(f"round {step}: {least.mean():.2f} bits per block; {own.mean():.2f} with profiles of their own")
        worst = np.argsort(own - least)[:2000]
        first = 0
        for kind, found in zip(kinds, profiles, strict=True):
            for p in range(len(found)):
                mine = np.flatnonzero(chosen == first + p)
                if first + p == 0:
                    continue
                sums = kind.costs[mine].sum(0, keepdims=True) if len(mine) > 5 else kind.costs[rng.choice(worst, 1)]
                found[p] = kind.best(sums)[0]
            first += len(found)
    return profiles[0], profiles[1]


def table_text(dense: np.ndarray, sparse: np.ndarray) -> str:
    def row(numbers: np.ndarray) -> str:
        return "    {{" + ", ".join(str(n) for n in numbers) + "}},\n"

    text = '#include "transforms/coefficients/profile.h"\n\n'
    text += "// Made by tools/coefficient_profiles.py. These are constants of the format: never change them.\n"
    text += "namespace carya::coefficients {\n\n// clang-format off\n"
    text += "const std::array<Profile, kProfiles> kProfileTable = {{\n"
    text += "    // dense\n" + "".join(row(numbers) for numbers in dense)
    text += "    // sparse\n" + "".join(row(numbers) for numbers in sparse)
    return text + "}};\n// clang-format on\n\n}  // namespace carya::coefficients\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("photos", nargs="+")
    parser.add_argument("--out", default="transforms/coefficients/profile_table.cc")
    parser.add_argument("--blocks", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    blocks = sample_blocks(arguments.photos, arguments.blocks, rng)
    print(f"{len(blocks)} blocks, {(blocks != 0).sum(1).mean():.1f} values each")
    dense, sparse = find_profiles(blocks, rng)
    Path(arguments.out).write_text(table_text(dense, sparse))


if __name__ == "__main__":
    main()
