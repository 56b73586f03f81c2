"""`carya.augment` beside torchvision's policies, and the recipes of `examples/recipes.py`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_torchvision
from PIL import Image

import carya
from carya import augment

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import recipes  # noqa: E402

NAMES = {
    "identity": "Identity", "shear_x": "ShearX", "shear_y": "ShearY", "translate_x": "TranslateX", "translate_y": "TranslateY",
    "rotate": "Rotate", "brightness": "Brightness", "color": "Color", "contrast": "Contrast", "sharpness": "Sharpness",
    "posterize": "Posterize", "solarize": "Solarize", "autocontrast": "AutoContrast", "equalize": "Equalize",
}  # fmt: skip


def noise(height: int = 41, width: int = 57) -> np.ndarray:
    smooth = np.random.default_rng(4).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    return np.array(Image.fromarray(smooth).resize((width, height)))


@pytest.mark.parametrize("policy", ["TrivialAugmentWide", "RandAugment"])
def test_operations_and_magnitudes_are_torchvision_s(policy: str) -> None:
    transforms = reference_torchvision.module("transforms")
    theirs: Any = getattr(transforms, policy)()
    apply_op = sys.modules["torchvision.transforms.autoaugment"]._apply_op
    size = (57, 41)
    space = (
        theirs._augmentation_space(31) if policy == "TrivialAugmentWide" else theirs._augmentation_space(31, size[::-1])
    )
    ours = augment._SPACE_WIDE if policy == "TrivialAugmentWide" else augment._SPACE
    assert {NAMES[name] for name, *_ in ours} == set(space)
    assert len(ours) == len(space)
    modes = transforms.InterpolationMode
    picture = Image.fromarray(noise())
    for name, magnitude_of, signed in ours:
        magnitudes, theirs_signed = space[NAMES[name]]
        assert signed == theirs_signed
        for number in (0, 1, 9, 15, 30):
            magnitude = magnitude_of(number, size)
            if magnitudes.ndim:
                assert magnitude == pytest.approx(float(magnitudes[number]), rel=1e-5, abs=1e-6), (name, number)
            for sign in (1, -1) if signed else (1,):
                for place, mode in enumerate((modes.NEAREST, modes.BILINEAR)):
                    mine = augment.applied(picture, name, sign * magnitude, place, (0, 0, 0))
                    other = apply_op(picture, NAMES[name], sign * magnitude, interpolation=mode, fill=[0.0, 0.0, 0.0])
                    assert np.abs(np.asarray(mine).astype(int) - np.asarray(other)).max() <= (
                        1 if "shear" in name else 0
                    )


def test_what_is_drawn_depends_on_the_generator_only_and_all_of_it_comes() -> None:
    for policy in (augment.TrivialAugmentWide(), augment.RandAugment(), augment.RandAugmentIncreasing()):
        image = noise()
        again = pickle.loads(pickle.dumps(policy))
        for seed in range(20):
            first = policy(image, np.random.default_rng(seed))
            assert np.array_equal(first, again(image, np.random.default_rng(seed)))
            assert (first.shape, first.dtype) == (image.shape, image.dtype)
        rng = np.random.default_rng(1)
        drawn = [policy._drawn(rng, (100, 100)) for _ in range(3000)]
        counts = Counter(name for one in drawn for name, _ in one)
        each = sum(counts.values()) / len(counts)
        assert len(counts) == (15 if isinstance(policy, augment.RandAugmentIncreasing) else 14)
        assert all(0.7 * each < count < 1.3 * each for count in counts.values())
        turned = [magnitude for one in drawn for name, magnitude in one if name == "rotate"]
        assert 0.3 < np.mean([magnitude > 0 for magnitude in turned if magnitude]) < 0.7
    assert len({len(one) for one in drawn}) == 3  # each of the two with a probability of its own


def test_what_grows_with_timm_s_level() -> None:
    by = dict(augment._INCREASING)
    assert [by["posterize"](level, 1, (0, 0)) for level in (0, 0.5, 1)] == [4, 2, 0]
    assert [by["solarize"](level, 1, (0, 0)) for level in (0, 0.5, 1)] == [256, 128, 0]
    assert [by["translate_x"](1.0, sign, (200, 100)) for sign in (1, -1)] == [90, -90]
    added = np.asarray(augment.applied(Image.fromarray(noise()), "solarize_add", 30, 0, (0, 0, 0)))
    assert np.array_equal(added, np.where(noise() < 128, np.minimum(noise().astype(int) + 30, 255), noise()))


def test_mistakes_of_policies() -> None:
    rng = np.random.default_rng(1)
    for wrong, told in [
        (
            lambda: augment.TrivialAugmentWide("cubic"),
            'TrivialAugmentWide: interpolation: got .cubic.; give "nearest" or',
        ),
        (lambda: augment.TrivialAugmentWide(fill=(1, 2)), "TrivialAugmentWide: fill: got"),
        (lambda: augment.RandAugment(fill=256), "RandAugment: fill: got 256; give a number of 0 to 255"),
        (lambda: augment.RandAugment(0), "RandAugment: num_ops: got 0; give"),
        (lambda: augment.RandAugment(magnitude=31), "RandAugment: magnitude: got 31; give an integer of 0 to 30"),
        (lambda: augment.RandAugmentIncreasing(p=2), "RandAugmentIncreasing: p: got 2; give a number of 0 to 1"),
        (
            lambda: augment.RandAugment()(np.zeros((4, 4), np.uint8), rng),
            "RandAugment: got uint8 .*; give pictures of uint8",
        ),
        (lambda: carya.arrays({"x": np.zeros(4)}).batch(2).mixup(cutmix=0), "mixup: cutmix: got 0; give alpha"),
        (lambda: carya.arrays({"x": np.zeros(4)}).batch(2).mixup(cutmix=1, switch=2), "mixup: switch: got 2; give"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            wrong()


def test_a_mixup_that_is_a_cutmix_for_some_groups() -> None:
    arrays = {"image": np.arange(200, dtype=np.float32).repeat(64).reshape(200, 1, 8, 8), "label": np.arange(200)}
    p = carya.arrays(arrays).batch(20).mixup(1.0, cutmix=1.0, switch=0.3, num_classes=200)
    kinds = Counter()
    with carya.Loader(p, threads=1, epochs=1) as loader:
        for batch in loader:
            for image, label in zip(batch["image"], batch["label"], strict=True):
                assert image.mean() == pytest.approx(float((label * np.arange(200)).sum()), rel=1e-3)
                kinds["cut" if len(np.unique(image)) == 2 else "mixed" if image.min() % 1 else "neither"] += 1
    assert 20 < kinds["cut"] < 100
    assert kinds["mixed"] > 90
    plain = carya.arrays(arrays).batch(20).mixup(1.0, num_classes=200)
    assert "cutmix" not in vars(plain._stages[0].fn)  # its identity, and so the states of earlier versions, stay


@pytest.mark.parametrize("recipe", sorted(recipes.RECIPES))
def test_a_recipe_gives_the_same_batches_with_any_number_of_workers(
    recipe: str, photos: Path, real_photos: list[str], tmp_path: Path
) -> None:
    folder = photos
    if real_photos:
        folder = tmp_path
        for number, path in enumerate(real_photos[:12]):
            (tmp_path / f"class_{number % 3}").mkdir(exist_ok=True)
            os.symlink(path, tmp_path / f"class_{number % 3}" / f"{number}.jpg")
    pipeline = recipes.RECIPES[recipe](folder, 3, 4)
    assert recipes.run(pipeline, 3, 1)[0] == recipes.run(pipeline, 3, 2)[0]
    side = 176 if recipe == "resnet50" else 224
    with carya.Loader(pipeline, threads=1) as loader:
        batch = next(iter(loader))
        assert batch["image"].shape == (4, 3, side, side)
        assert batch["label"].sum(1) == pytest.approx(1, abs=1e-5)
    with carya.Loader(getattr(recipes, f"{recipe}_eval")(folder, 4), threads=1) as loader:
        assert next(iter(loader))["image"].shape == (4, 3, 224, 224)


def test_the_script_says_rate_and_digest(photos: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "recipes.py"), str(photos), "--batch-size", "4", "--steps", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.startswith("resnet50: ")
    assert "batches of 4 per second, digest " in done.stdout
