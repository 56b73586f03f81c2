"""`carya bench seeds`: both sides of each pipeline make the same of the same draws, and each has a row."""

from __future__ import annotations

import ctypes.util
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_torchvision
from commands import run

import carya
from carya._bench import Options, seeds
from carya._seeds import pipelines
from carya._seeds.data import Files, find
from carya._seeds.table import SEEDS, form_of, named


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    folder = tmp_path_factory.mktemp("seeds")
    return {kind: find(kind, None, folder, True) for kind in {seed.files for seed in SEEDS}}


def first_batch(pipeline: carya.Pipeline) -> dict[str, Any]:
    with carya.Loader(pipeline, threads=1, epochs=1) as loader:
        batch = next(iter(loader))
        found = {name: np.array(value) for name, value in batch.items()}
        return found | {"records": np.array(getattr(batch, "records", ()))}  # functions of batches leave them out


# Of each pipeline: its document, which of its blocks of Python, and some fields of a batch.
DOCUMENTS: dict[str, tuple[str, int, dict[str, tuple[str, tuple[int | None, ...]]]]] = {
    "cedar cv": ("cedar-cv.md", 0, {"image": ("float32", (16, 1, 244, 244))}),
    "cedar nlp torch": ("cedar-nlp.md", 0, {"ids": ("int32", (64, None))}),
    "cedar nlp hf": ("cedar-nlp.md", 1, {"ids": ("int32", (64, None))}),
    "cedar asr": ("cedar-asr.md", 0, {"audio": ("float32", (16, 256, 802)), "audio_length": ("int64", (16,))}),
    "cedar ssd": (
        "cedar-ssd.md",
        0,
        {
            "image": ("float32", (16, 3, 300, 300)),
            "class_targets": ("int64", (16, 8732)),
            "box_targets": ("float32", (16, 8732, 4)),
        },
    ),
    "pecan resnet50": ("pecan.md", 0, {"image": ("float16", (16, 224, 224, 3))}),
    "pecan simclr": (
        "pecan.md",
        1,
        dict.fromkeys(("view_0", "view_1"), ("float32", (16, 224, 224, 3))),
    ),
    "pecan retinanet": (
        "pecan.md",
        2,
        {"image": ("float32", (8, 3, 640, 640)), "class_targets": ("int64", (8, 76725))},
    ),
    "pecan asr": ("pecan.md", 3, {"audio": ("float32", (16, 1598, 80))}),
}


def test_every_pipeline_has_a_document_and_its_sides() -> None:
    assert list(DOCUMENTS) == [seed.name for seed in SEEDS]
    for seed in SEEDS:
        assert all(callable(form_of(side.form)) for side in seed.sides)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_pipeline_is_what_its_document_says(name: str, drawn: dict[str, Files]) -> None:
    if name.endswith("asr") and ctypes.util.find_library("soxr") is None:
        pytest.skip("libsoxr is not on this machine")
    seed = named(name)
    document, block, fields = DOCUMENTS[name]
    text = (Path(__file__).parents[2] / "examples" / "seeds" / document).read_text()
    names = {"carya": carya, **drawn[seed.files]}
    exec(text.split("```python\n")[1 + block].split("```")[0], names)
    batch, told = first_batch(getattr(pipelines, seed.form)(drawn[seed.files])), first_batch(names["train"])
    assert batch.keys() == told.keys()
    for field, value in batch.items():
        np.testing.assert_array_equal(value, told[field], err_msg=field)
    for field, (dtype, shape) in fields.items():
        assert batch[field].dtype == dtype
        assert all(want in (None, side) for want, side in zip(shape, batch[field].shape, strict=True))


def test_pictures_are_those_of_torchvision_where_nothing_is_drawn(drawn: dict[str, Files]) -> None:
    reference_torchvision.module("transforms")
    forms = importlib.import_module("carya._seeds.torch_forms")
    none = (1.0, 1.0)
    draws = pipelines.Draws(none, (4 / 3, 4 / 3), 1.0, ((0.9, 0.9), none, none, (0.0, 0.0)), (1.5, 1.5))
    batch = first_batch(pipelines.cedar_cv(drawn["photos"], draws))
    make = forms.CedarCv(draws)()
    for image, record in zip(batch["image"][:4], batch["records"][:4], strict=True):
        other = make(drawn["photos"]["paths"][record]).numpy()
        assert np.abs(image - other).max() < 2e-2  # of 3.2 from black to white: luma differs by rounded weights
        assert np.abs(image - other).mean() < 2e-3


def test_boxes_and_codes_are_those_of_torchvision(drawn: dict[str, Files]) -> None:
    """Flipped and resized, behind that encoded; and flipped, shrunk and padded for RetinaNet."""
    reference_torchvision.module("transforms.v2")
    forms = importlib.import_module("carya._seeds.object_forms")
    data = drawn["objects"]
    pictures = forms.annotated(data)
    picture_of = {one["id"]: one["image_id"] for one in json.loads(Path(data["instances"]).read_text())["annotations"]}
    cases = (
        (pipelines.cedar_ssd(data, drawn=False), forms.CedarSsd(drawn=False)(), 300),
        (pipelines.pecan_retinanet(data, flip=1.0), forms.PecanRetinaNet(flip=1.0)(), 480),
    )
    for pipeline, make, rows in cases:  # below them is the padding, black here and the mean there
        batch = first_batch(pipeline)
        for row, objects in enumerate(batch["object_ids"][:4]):
            image, classes, codes = make(pictures[picture_of[int(objects[0])]])
            np.testing.assert_array_equal(batch["class_targets"][row], classes.numpy())
            np.testing.assert_allclose(batch["box_targets"][row], codes.numpy(), atol=2e-3)
            assert np.abs(batch["image"][row] - image.numpy())[:, :rows].max() < 0.03
            assert (classes.numpy() >= 0).any()


def test_spectra_are_those_of_torch(drawn: dict[str, Files]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("soundfile")
    pytest.importorskip("soxr")
    forms = importlib.import_module("carya._seeds.sound_forms")
    batch = first_batch(pipelines.cedar_asr(drawn["clips"], masks=0))
    make = forms.PlainAsr(masks=0)()
    for mel, record in zip(batch["audio"][:4], batch["records"][:4], strict=True):
        other = make(drawn["clips"]["paths"][record]).numpy()
        assert mel.shape == other.shape
        assert np.abs(mel - other).max() <= 1e-4 * other.max()


def test_pictures_of_pecan_are_those_of_torch(drawn: dict[str, Files]) -> None:
    reference_torchvision.module("transforms")
    forms = importlib.import_module("carya._seeds.torch_forms")
    batch = first_batch(pipelines.pecan_resnet50(drawn["photos"], drawn=False))
    make = forms.PecanResNet50(drawn=False)()
    for image, record in zip(batch["image"][:4], batch["records"][:4], strict=True):
        other = make(drawn["photos"]["paths"][record]).numpy()
        assert other.dtype == image.dtype
        apart = np.abs(image.astype(np.float32) - other.astype(np.float32))
        assert np.mean(apart > 1) < 0.01  # where a nearest pixel is another one


def ids_of(data: Files, pipeline: carya.Pipeline) -> dict[int, list[int]]:
    batch = first_batch(pipeline)
    lengths = batch["ids_length"]
    return {
        int(record): row[:length].tolist()
        for record, row, length in zip(batch["records"], batch["ids"], lengths, strict=True)
    }


def test_ids_are_those_of_tokenizers_and_a_vocabulary(drawn: dict[str, Files]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    forms = importlib.import_module("carya._seeds.torch_forms")
    data = drawn["lines"]
    lines = forms.lines_of(data)
    chain, single = forms.CedarNlp(data, "tokenizers")(), forms.HfSingle(data)
    found = ids_of(data, pipelines.cedar_nlp_torch(data))
    assert found == {record: chain(lines[record]).tolist() for record in found}
    assert any(len(ids) == 256 for ids in found.values())
    found = ids_of(data, pipelines.cedar_nlp_hf(data))
    assert found == {record: single(lines[record]).tolist() for record in found}


@pytest.mark.parametrize("name", ["cedar cv", "cedar nlp hf"])
def test_a_pipeline_is_measured_in_its_orders(name: str) -> None:
    report = json.loads(run("bench", "seeds", "--only", name, "--smoke", "--json"))
    assert report["bench"] == "seeds"
    assert report["target"]
    assert "drawn" in report[f"files of {name}"]
    assert [row["side"] for row in report["rows"]] == ["carya"] * max(1, len(named(name).orders))
    assert all(row["samples_per_cpu_s"] > 0 for row in report["rows"])


def test_a_side_that_cannot_run_has_a_row_with_its_reason(drawn: dict[str, Files], tmp_path: Path) -> None:
    """Where torchtext is not installed, and by an interpreter that does not exist."""
    if importlib.util.find_spec("torchtext") is not None:
        pytest.skip("torchtext is installed")
    seed = named("cedar nlp torch")
    seed = seed._replace(sides=tuple(side for side in seed.sides if side.name == "torch+torchtext"))
    options = Options(seconds=0.05, rounds=1, python=(str(tmp_path / "none"),))
    measured = seeds.turns(seed, drawn["lines"], 1, True, options, str(tmp_path))
    ours, other = (seeds.row(seed, one, measured) for one in measured)
    assert ours["samples_per_cpu_s"] > 0
    assert other["side"] == "torch+torchtext"
    assert other["samples_per_cpu_s"] is None
    assert "No module named 'torchtext" in other["note"]
    assert "/none" in other["note"]


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(carya.InvalidArgument, match="'cedar cv' or"):
        seeds.run(Options(only=("cedar",)))
