"""Each operation on pictures of 224x224x3, beside Pillow's, and with `peers` beside OpenCV's and torchvision's.

Ceiling: the same chain without the operation, which copies the picture into its batch; its cost is taken off.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._loading.loader import Loader
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import arrays
from .measure import measure, median
from .report import Options, Report

SIDE = 224
BATCH = 64
ANGLE = 15.0

Change = Callable[[Any], Any]


class Case(NamedTuple):
    """One operation here and there; None where a library has none that computes the same."""

    name: str
    ours: Callable[[Pipeline], Pipeline]
    pillow: str | None = None
    opencv: str | None = None
    torchvision: str | None = None


# The others' calls as text, evaluated with their modules where those are installed: `i` is the picture.
CASES = [
    Case("invert", lambda p: p.invert(), "ops.invert(i)", "255 - i", "f.invert(i)"),
    Case("solarize", lambda p: p.solarize(128), "ops.solarize(i, 128)", None, "f.solarize(i, 128)"),
    Case("posterize", lambda p: p.posterize(4), "ops.posterize(i, 4)", "i & 240", "f.posterize(i, 4)"),
    Case("grayscale", lambda p: p.grayscale(), "i.convert('L')", "cv.cvtColor(i, 7)", "f.rgb_to_grayscale(i)"),
    Case("autocontrast", lambda p: p.autocontrast(), "ops.autocontrast(i)", None, "f.autocontrast(i)"),
    Case("equalize", lambda p: p.equalize(), "ops.equalize(i)", None, "f.equalize(i)"),
    Case(
        "sharpness 1.5",
        lambda p: p.adjust_sharpness(1.5),
        "enhance.Sharpness(i).enhance(1.5)",
        None,
        "f.adjust_sharpness(i, 1.5)",
    ),
    Case(
        "brightness 1.3",
        lambda p: p.color_jitter(brightness=(1.3, 1.3)),
        "enhance.Brightness(i).enhance(1.3)",
        "cv.convertScaleAbs(i, alpha=1.3)",
        "f.adjust_brightness(i, 1.3)",
    ),
    Case(
        "contrast 1.3",
        lambda p: p.color_jitter(contrast=(1.3, 1.3)),
        "enhance.Contrast(i).enhance(1.3)",
        None,
        "f.adjust_contrast(i, 1.3)",
    ),
    Case(
        "saturation 1.3",
        lambda p: p.color_jitter(saturation=(1.3, 1.3)),
        "enhance.Color(i).enhance(1.3)",
        None,
        "f.adjust_saturation(i, 1.3)",
    ),
    Case("hue 0.1", lambda p: p.color_jitter(hue=(0.1, 0.1)), None, None, "f.adjust_hue(i, 0.1)"),
    Case(
        "blur 11, 2",
        lambda p: p.gaussian_blur(11, 2.0),
        None,
        "cv.GaussianBlur(i, (11, 11), 2.0)",
        "f.gaussian_blur(i, [11, 11], [2.0, 2.0])",
    ),
    Case(
        "blur 23, 5",
        lambda p: p.gaussian_blur(23, 5.0),
        None,
        "cv.GaussianBlur(i, (23, 23), 5.0)",
        "f.gaussian_blur(i, [23, 23], [5.0, 5.0])",
    ),
    Case(
        "rotate nearest",
        lambda p: p.rotate(ANGLE),
        "i.rotate(15)",
        "cv.warpAffine(i, cv.getRotationMatrix2D((112, 112), 15, 1), (224, 224), flags=0)",
        "f.rotate(i, 15.0)",
    ),
    Case(
        "rotate bilinear",
        lambda p: p.rotate(ANGLE, "bilinear"),
        "i.rotate(15, 2)",
        "cv.warpAffine(i, cv.getRotationMatrix2D((112, 112), 15, 1), (224, 224), flags=1)",
        "f.rotate(i, 15.0, bilinear)",
    ),
    Case(
        "affine bilinear",
        lambda p: p.affine(5, (3, 4), 1.1, 8, "bilinear"),
        "i.transform((224, 224), 0, (0.9, -0.2, 31, 0.08, 0.92, -4), 2)",
        "cv.warpAffine(i, np.array([[0.9, -0.2, 31], [0.08, 0.92, -4]]), (224, 224), flags=17)",
        "f.affine(i, 5.0, [3, 4], 1.1, [8.0, 0.0], bilinear)",
    ),
]


def run(options: Options) -> Report:
    options = options.scaled()
    pictures = _pictures()
    source = arrays({"image": pictures})
    libraries = _libraries(options.peers, pictures[0])
    chains = {"": source, **{case.name: case.ours(source) for case in CASES}}
    seconds = options.seconds / 25  # of the many
    ours: dict[str, list[float]] = {name: [] for name in chains}
    theirs: dict[tuple[str, str], list[float]] = {}
    for _ in range(options.rounds):
        for name, chain in chains.items():
            with Loader(chain.batch(BATCH), threads=1) as loader:
                ours[name].append(measure(_sizes(loader), seconds).cpu_us)
        for case in CASES:
            for library, (names, picture) in libraries.items():
                call = getattr(case, library)
                if call:
                    cost = _cpu_us(call, {**names, "i": picture}, seconds)
                    theirs.setdefault((case.name, library), []).append(cost)
    copying = median(ours[""])
    report = Report("ops", facts={"picture": f"{SIDE}x{SIDE}x3", "copying_us": round(copying, 1)})
    for case in CASES:
        cost = max(0.1, median(ours[case.name]) - copying)
        row: dict[str, Any] = {"op": case.name, "carya_us": round(cost, 1)}
        for library in libraries:
            found = theirs.get((case.name, library))
            row[f"{library}_us"] = round(median(found), 1) if found else None
            row[f"{library}_ratio"] = round(median(found) / cost, 1) if found else None
        report.rows.append(row)
    return report


def _pictures() -> np.ndarray[Any, Any]:
    """Smooth with some noise, as photos are."""
    random = np.random.default_rng(0)
    ramp = np.add.outer(np.arange(SIDE) // 2, np.arange(SIDE) // 3)[None, :, :, None]
    noise = random.integers(0, 40, (BATCH, SIDE, SIDE, 3))
    return np.ascontiguousarray((ramp + noise).clip(0, 255), np.uint8)


def _libraries(peers: bool, picture: np.ndarray[Any, Any]) -> dict[str, tuple[dict[str, Any], Any]]:
    """By name of a field of Case: the names that its calls use, and the picture as it wants it; one thread each."""
    found: dict[str, tuple[dict[str, Any], Any]] = {}
    if importlib.util.find_spec("PIL"):
        from PIL import Image, ImageEnhance, ImageOps

        found["pillow"] = ({"ops": ImageOps, "enhance": ImageEnhance}, Image.fromarray(picture))
    if peers and importlib.util.find_spec("cv2"):
        cv = importlib.import_module("cv2")
        cv.setNumThreads(1)
        found["opencv"] = ({"cv": cv, "np": np}, picture)
    if peers and importlib.util.find_spec("torchvision"):
        torch = importlib.import_module("torch")
        functional = importlib.import_module("torchvision.transforms.v2.functional")
        mode = importlib.import_module("torchvision.transforms").InterpolationMode.BILINEAR
        torch.set_num_threads(1)
        planes = torch.from_numpy(picture.transpose(2, 0, 1).copy())
        found["torchvision"] = ({"f": functional, "bilinear": mode}, planes)
    return found


def _cpu_us(call: str, names: dict[str, Any], seconds: float) -> float:
    """CPU microseconds of one call."""
    code = compile(call, "<bench>", "eval")
    eval(code, names)  # of this file: the bench trusts itself
    count = 0
    cpu, end = time.process_time(), time.perf_counter() + seconds
    while count == 0 or time.perf_counter() < end:
        eval(code, names)
        count += 1
    return (time.process_time() - cpu) / count * 1e6


def _sizes(loader: Loader) -> Iterator[int]:
    while True:
        for batch in loader:
            yield len(batch["image"])
