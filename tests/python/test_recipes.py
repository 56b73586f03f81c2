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
    "posterize": "Posterize", "solarize": "Solarize", "autocontrast": "AutoContrast", "equalize": "Equalize", "invert": "Invert",
}  # fmt: skip


def noise(height: int = 41, width: int = 57) -> np.ndarray:
    smooth = np.random.default_rng(4).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    return np.array(Image.fromarray(smooth).resize((width, height)))


OURS = {
    "TrivialAugmentWide": (augment._SPACE_WIDE, 31),
    "RandAugment": (augment._SPACE, 31),
    "AutoAugment": ([(name, *of) for name, of in augment._LEARNED_SPACE.items() if name != "identity"], 10),
    "AugMix": (augment._SPACE_MIX, 10),
}


@pytest.mark.parametrize("policy", sorted(OURS))
def test_operations_and_magnitudes_are_torchvision_s(policy: str) -> None:
    transforms = reference_torchvision.module("transforms")
    theirs: Any = getattr(transforms, policy)()
    apply_op = sys.modules["torchvision.transforms.autoaugment"]._apply_op
    size = (57, 41)
    ours, bins = OURS[policy]
    by_size = () if policy == "TrivialAugmentWide" else (size[::-1],)
    space = theirs._augmentation_space(bins, *by_size)
    assert {NAMES[name] for name, *_ in ours} == set(space)
    assert len(ours) == len(space)
    modes = transforms.InterpolationMode
    picture = Image.fromarray(noise())
    for name, magnitude_of, signed in ours:
        magnitudes, theirs_signed = space[NAMES[name]]
        assert signed == theirs_signed
        for number in (0, 1, 9, 15, 30) if bins == 31 else range(10):
            magnitude = magnitude_of(number, size)
            if magnitudes.ndim:
                # The last bit hangs on whether torch's processor multiplies and adds in one step.
                assert magnitude == pytest.approx(float(magnitudes[number]), rel=2e-7, abs=2e-6), (name, number)
            for sign in (1, -1) if signed else (1,):
                for place, mode in enumerate((modes.NEAREST, modes.BILINEAR)):
                    mine = augment.applied(picture, name, sign * magnitude, place, (0, 0, 0))
                    if (name, magnitude) == ("posterize", 0):  # no bits: black, as torchvision has it on tensors
                        assert not np.asarray(mine).any()
                        continue
                    other = apply_op(picture, NAMES[name], sign * magnitude, interpolation=mode, fill=[0.0, 0.0, 0.0])
                    assert np.abs(np.asarray(mine).astype(int) - np.asarray(other)).max() <= (
                        1 if "shear" in name else 0
                    )


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_a_learned_policy_is_torchvision_s_for_every_pair(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transforms = reference_torchvision.module("transforms")
    torch = pytest.importorskip("torch")
    theirs = transforms.AutoAugment(transforms.AutoAugmentPolicy(policy), fill=[9.0, 8.0, 7.0])
    ours = augment.AutoAugment(policy, fill=(9, 8, 7))
    assert len(theirs.policies) == len(ours._pairs) == 25
    picture = Image.fromarray(noise())
    drawn = np.random.default_rng(2)
    for pair in range(25):
        assert [(NAMES[name], p) for name, p, _ in ours._pairs[pair]] == [one[:2] for one in theirs.policies[pair]]
        for signs in ((0, 1), (1, 0)):
            for chances in ((0.0, 0.0), tuple(drawn.random(2))):
                given = (pair, torch.tensor(chances, dtype=torch.float64), torch.tensor(signs))
                monkeypatch.setattr(theirs, "get_params", lambda _, given=given: given)
                mine = ours._behind(picture, ours._steps(pair, chances, signs, picture.size))
                difference = np.abs(np.asarray(mine).astype(int) - np.asarray(theirs(picture)))
                # A level where a shear falls between two pixels, which what follows may spread.
                sheared = any("shear" in name for name, *_ in ours._pairs[pair])
                assert difference.max() == 0 or (sheared and (difference > 0).mean() < 0.01), (pair, signs, chances)


def test_aug_mix_weighs_as_torchvision_does_and_mixes_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    transforms = reference_torchvision.module("transforms")
    torch = pytest.importorskip("torch")
    image = noise()
    theirs = transforms.AugMix(mixture_width=3, chain_depth=1)
    own, weights = [0.3, 0.7], [0.2, 0.5, 0.3]
    dirichlet = iter([torch.tensor([own]), torch.tensor([weights])])
    monkeypatch.setattr(theirs, "_sample_dirichlet", lambda _: next(dirichlet))
    chains = [[("invert", 0.0)], [("posterize", 2.0)], [("solarize", 100.0)]]  # which tensors have to the bit too
    names = iter([(NAMES[name], magnitude) for ((name, magnitude),) in chains])
    module = sys.modules["torchvision.transforms.autoaugment"]
    apply_op = module._apply_op

    def as_given(img: Any, *_: Any, interpolation: Any, fill: Any) -> Any:
        return apply_op(img, *next(names), interpolation=interpolation, fill=fill)

    monkeypatch.setattr(module, "_apply_op", as_given)
    expected = np.asarray(theirs(Image.fromarray(image)))
    ours = augment.AugMix(mixture_width=3)
    combined = (torch.tensor(weights) * torch.tensor(own)[1]).tolist()
    assert np.array_equal(ours._mixed(image, Image.fromarray(image), [own[0], *combined], chains), expected)
    white = np.full((5, 5, 3), 255, np.uint8)
    assert ours(white, np.random.default_rng(1)).shape == white.shape
    assert ours._mixed(white, Image.fromarray(white), [0.1, 0.2, 0.3, 0.4000001], [[], [], []]).min() == 255


def test_aug_mix_draws_chains_magnitudes_and_weights() -> None:
    rng = np.random.default_rng(3)
    policy = augment.AugMix(severity=2)
    drawn = [policy._drawn(rng, (90, 60)) for _ in range(3000)]
    assert Counter(map(len, drawn)).keys() == {1, 2, 3}
    assert {name for chain in drawn for name, _ in chain} == {name for name, *_ in augment._SPACE_MIX}
    rotated = {round(abs(magnitude), 6) for chain in drawn for name, magnitude in chain if name == "rotate"}
    assert rotated == {0.0, round(30 / 9, 6)}  # the first two of ten
    few = augment.AugMix(all_ops=False, chain_depth=2)
    names = {name for _ in range(500) for name, _ in few._drawn(rng, (90, 60))}
    assert names == {name for name, *_ in augment._SPACE_MIX} - set(augment._ENHANCERS)
    sure = augment.AugMix(alpha=1e6, mixture_width=2)  # all weights are a half: half the picture, a quarter each
    image = noise()
    chains = []
    sure._drawn = lambda *_: chains.append(0) or []  # type: ignore[method-assign, return-value]
    assert np.abs(sure(image, rng).astype(int) - image).max() <= 1
    assert len(chains) == 2


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_erasing_floats_with_noise_numbers_and_colors(layout: str) -> None:
    image = np.full((3, 60, 80), 9, np.float32)
    given = image if layout == "CHW" else np.ascontiguousarray(image.transpose(1, 2, 0))
    given.flags.writeable = False
    rng = np.random.default_rng(1)
    areas, ratios, noises = [], [], []
    for value in ("random", "color", 0.5, (1, 2, 3)):
        erase = pickle.loads(pickle.dumps(augment.RandomErasing(1.0, (0.05, 0.2), (0.5, 2), value, layout)))
        for _ in range(200):
            made = erase(given, rng)
            assert (made.shape, made.dtype) == (given.shape, given.dtype)
            planes = made if layout == "CHW" else made.transpose(2, 0, 1)
            changed = (planes != 9).all(0)
            rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
            tall, wide = rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
            assert changed.sum() == tall * wide == (planes != 9).sum() // 3
            areas.append(tall * wide / 4800)
            ratios.append(tall / wide)
            inside = planes[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            if value == "random":
                noises.append(inside.ravel())
            elif value == "color":
                assert np.ptp(inside.reshape(3, -1), 1).tolist() == [0, 0, 0]
                assert len(set(inside[:, 0, 0])) == 3
            else:
                assert inside.reshape(3, -1)[:, 0].tolist() == ([0.5] * 3 if value == 0.5 else [1, 2, 3])
    assert 0.04 < min(areas) < 0.06
    assert 0.19 < max(areas) < 0.21
    assert 0.45 < min(ratios) < 0.6
    assert 1.7 < max(ratios) < 2.2
    assert abs(np.mean(np.log(ratios))) < 0.1
    noise_of_all = np.concatenate(noises)
    assert abs(noise_of_all.mean()) < 0.02
    assert abs(noise_of_all.std() - 1) < 0.02
    seldom = augment.RandomErasing(0.25, layout=layout)
    assert 0.2 < np.mean([seldom(given, rng) is not given for _ in range(2000)]) < 0.3
    flat = np.ones((3, 1, 500), np.float32)  # every rectangle is as high as the picture
    assert augment.RandomErasing(1.0)(flat, rng) is flat


def test_erasing_follows_torchvision_s_rule() -> None:
    """With torchvision's random numbers in place of one's own, the rectangle is torchvision's."""
    v2 = reference_torchvision.module("transforms.v2")
    torch = pytest.importorskip("torch")
    theirs = v2.RandomErasing(1.0, value="random")

    class Numbers:
        """Draws as torchvision does, from torch's generator."""

        def random(self) -> float:
            return 0.0

        def uniform(self, low: float, high: float) -> float:
            return float(torch.empty(1).uniform_(low, high).item())

        def integers(self, high: int) -> int:
            return int(torch.randint(0, high, size=(1,)).item())

    boxes = 0
    for seed in range(50):
        torch.manual_seed(seed)
        params = theirs.make_params([torch.zeros(3, 64, 48)])
        torch.manual_seed(seed)
        ours = augment.RandomErasing(1.0, value=0.0)._box(Numbers(), 64, 48)  # type: ignore[arg-type]
        assert ours is not None
        assert ours[2:] == (params["h"], params["w"])
        boxes += params["v"].shape == (3, *ours[2:])
    assert boxes == 50


def test_what_is_drawn_depends_on_the_generator_only_and_all_of_it_comes() -> None:
    of_all = [
        augment.AutoAugment(),
        augment.AutoAugment("svhn"),
        augment.AugMix(),
        augment.RandomErasing(1.0, layout="HWC"),
    ]
    for one in of_all:
        given = noise() if not isinstance(one, augment.RandomErasing) else noise().astype(np.float32)
        again = pickle.loads(pickle.dumps(one))
        results = [one(given, np.random.default_rng(seed)) for seed in range(40)]
        for seed, first in enumerate(results):
            assert np.array_equal(first, again(given, np.random.default_rng(seed)))
            assert (first.shape, first.dtype) == (given.shape, given.dtype)
        assert len({first.tobytes() for first in results}) > 10
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
    assert not np.asarray(augment.applied(Image.fromarray(noise()), "posterize", 0, 0, (0, 0, 0))).any()
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
            lambda: augment.AutoAugment("food"),
            'AutoAugment: policy: got .food.; give "imagenet" or "cifar10" or "svhn"',
        ),
        (lambda: augment.AugMix(severity=11), "AugMix: severity: got 11; give an integer of 1 to 10"),
        (lambda: augment.AugMix(chain_depth=0), "AugMix: chain_depth: got 0; give an integer of 1 to 100, or -1"),
        (lambda: augment.AugMix(alpha=0), "AugMix: alpha: got 0; give"),
        (lambda: augment.AugMix(all_ops=1), "AugMix: all_ops: got 1; give True or False"),  # type: ignore[arg-type]
        (lambda: augment.AugMix()(np.zeros((4, 4, 3), np.float32), rng), "AugMix: got float32"),
        (lambda: augment.RandomErasing(2), "RandomErasing: p: got 2; give"),
        (lambda: augment.RandomErasing(scale=(0.3, 0.1)), "RandomErasing: scale: got .*; give two numbers of 0 to 1"),
        (lambda: augment.RandomErasing(ratio=(0, 1)), "RandomErasing: ratio: got"),
        (lambda: augment.RandomErasing(value="noise"), "RandomErasing: value: got .noise.; give"),
        (lambda: augment.RandomErasing(value=float("nan")), "RandomErasing: value: got nan; give"),
        (lambda: augment.RandomErasing(value=()), "RandomErasing: value: got"),
        (lambda: augment.RandomErasing(layout="NCHW"), 'RandomErasing: layout: got .NCHW.; give "CHW" or "HWC"'),
        (
            lambda: augment.RandomErasing(value=(1, 2))(np.zeros((3, 9, 9), np.float32), rng),
            "RandomErasing: value: got 2 for 3 channels",
        ),
        (
            lambda: augment.RandomErasing()(np.zeros((3, 9, 9), np.uint8), rng),
            "RandomErasing: got uint8 .*; give pictures of floats",
        ),
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
