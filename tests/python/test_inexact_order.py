"""Orders with other bits: chosen once, part of the state, the same wherever the stream is made, and measured."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from daemons import Daemon, running

import carya
from carya._loading.plan_file import plan_text

DECLARED = ["decode_image", "color_jitter", "gaussian_blur", "grayscale", "random_crop"]


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with running("--linger", "5") as started:
        yield started


def chain(folder: Path, *, global_size: int = 4, **order: Any) -> carya.Pipeline:
    """What `relaxed` turns round: colors of whole pictures, a blur, a gray, and then a crop."""
    return (
        carya.image_folder(str(folder))
        .shuffle(seed=3)
        .decode_image()
        .color_jitter(contrast=0.4, hue=0.1)
        .gaussian_blur(5, **order)
        .grayscale()
        .random_crop(40, pad_if_needed=True, padding_mode="edge")
        .batch(global_size=global_size)
    )


def images(loader: carya.Loader) -> list[np.ndarray]:
    return [np.array(batch["image"]) for batch in loader]


def same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> bool:
    return len(ours) == len(theirs) and all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def relaxed(folder: Path, **options: Any) -> carya.Loader:
    return carya.Loader(chain(folder), **{"daemon": "embedded", "epochs": 2, "reorder": "relaxed", **options})


@pytest.fixture(scope="module")
def epoch(photos: Path) -> list[np.ndarray]:
    """The first epoch of the relaxed stream."""
    with relaxed(photos) as loader:
        return images(loader)


def test_relaxed_runs_a_cheaper_order_with_other_bits(photos: Path, epoch: list[np.ndarray]) -> None:
    with relaxed(photos) as loader:
        order = loader.stats()["order"]
        assert order.index("random_crop") < order.index("color_jitter")
        assert order.index("grayscale") < order.index("gaussian_blur")
        assert chain(photos).explain("relaxed")["order"] == order
        state = loader.state_dict()
    assert [DECLARED[op] for op in state["order"]] == order
    assert len(json.dumps(state)) < 300
    with relaxed(photos, reorder="exact") as loader:
        declared = images(loader)
        assert loader.state_dict()["pipeline"] != state["pipeline"]
        assert "order" not in loader.state_dict()
    assert not same(epoch, declared)
    assert [image.shape for image in epoch] == [image.shape for image in declared]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_stream_is_a_function(photos: Path, epoch: list[np.ndarray], threads: int) -> None:
    with relaxed(photos, threads=threads) as loader:
        assert same(images(loader), epoch)


def test_a_daemon_makes_the_same_stream(photos: Path, epoch: list[np.ndarray], daemon: Daemon) -> None:
    with relaxed(photos, daemon=daemon.socket) as loader:
        assert same(images(loader), epoch)
        assert loader.stats()["order"][1] != "color_jitter"
        loader.set_epoch(0)
        next(iter(loader))
        state = loader.state_dict()
    with relaxed(photos, state=state) as loader:
        assert same(images(loader), epoch[1:])


@pytest.mark.parametrize("restore", ["when it is made", "later"])
@pytest.mark.parametrize("served", [False, True])
def test_a_state_goes_on_with_its_order(
    photos: Path, epoch: list[np.ndarray], daemon: Daemon, restore: str, served: bool
) -> None:
    with relaxed(photos) as loader:
        steps = iter(loader)
        next(steps), next(steps)
        state = json.loads(json.dumps(loader.state_dict()))
    options: dict[str, Any] = {"daemon": daemon.socket if served else "embedded"}
    if restore == "when it is made":
        options["state"] = state
    with relaxed(photos, **options) as loader:
        if restore == "later":
            loader.load_state_dict(state)
        assert same(images(loader), epoch[2:])
        assert loader.state_dict()["order"] == state["order"]


def test_the_order_of_the_state_runs_though_another_is_cheaper(photos: Path) -> None:
    # What another version chose: the crop behind the gray, the blur last.
    with relaxed(photos) as loader:
        state = {**loader.state_dict(), "order": [0, 3, 1, 4, 2]}
        state["pipeline"] = loader._native.fingerprint("raise", state["order"])
    with relaxed(photos, state=state) as loader:
        assert loader.stats()["order"] == [DECLARED[op] for op in state["order"]]
        assert loader.state_dict() == state
        made = images(loader)
    with relaxed(photos) as loader:
        assert not same(images(loader), made)
        with pytest.raises(carya.InvalidArgument, match=r"order of operations differs.*Loader\(\.\.\., state=state\)"):
            loader.load_state_dict(state)


def test_another_world_size_delivers_the_rest_of_the_same_stream(photos: Path, epoch: list[np.ndarray]) -> None:
    with relaxed(photos) as loader:
        next(iter(loader))
        state = loader.state_dict()
    parts = []
    for rank in range(2):
        with relaxed(photos, state=state, rank=rank, world_size=2) as loader:
            parts.append(images(loader))
    together = [np.concatenate(step) for step in zip(*parts, strict=True)]
    assert same(together, epoch[1:])


def test_a_state_with_other_bits_is_refused_where_it_cannot_run(photos: Path) -> None:
    with relaxed(photos) as loader:
        state = loader.state_dict()
    for reorder in ("exact", "off", "rounding"):
        with pytest.raises(carya.InvalidArgument, match=f'order of operations differs.*reorder="{reorder}" does not'):
            relaxed(photos, reorder=reorder, state=state)
    held = chain(photos, keep_position=True)
    with pytest.raises(carya.InvalidArgument, match='runs before color_jitter, which reorder="relaxed" does not'):
        carya.Loader(held, daemon="embedded", reorder="relaxed", state=state)
    with carya.Loader(held, daemon="embedded", reorder="relaxed") as loader:
        own = loader.state_dict().get("order")
        loader.load_state_dict(state, strict=False)
        assert loader.state_dict().get("order") == own


@pytest.mark.parametrize("order", ["relaxed", [0, 1, 2, 3, "x"], [0, 1.5], [-1], [True]])
def test_an_order_that_is_none_is_refused(photos: Path, order: Any) -> None:
    with relaxed(photos) as loader, pytest.raises(carya.InvalidArgument, match="load_state_dict: order"):
        loader.load_state_dict({**loader.state_dict(), "order": order})


@pytest.mark.parametrize("order", [[0, 1], [4, 3, 2, 1, 0], [0, 0, 1, 2, 3], [0, 1, 2, 3, 9], list(range(70))])
def test_an_order_of_another_pipeline_is_refused(photos: Path, order: list[int]) -> None:
    with relaxed(photos) as loader:
        state = {**loader.state_dict(), "order": order}
    with pytest.raises(carya.InvalidArgument, match="load_state_dict: the pipeline differs"):
        relaxed(photos, state=state)
    with relaxed(photos) as loader:
        state["pipeline"] = loader._native.fingerprint("raise", order)
        with pytest.raises(carya.InvalidArgument, match="load_state_dict"):
            loader.load_state_dict(state)


def test_a_state_of_the_declared_bits_goes_on_with_them(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    with relaxed(photos, reorder="exact") as loader:
        steps = iter(loader)
        next(steps)
        state = loader.state_dict()
        rest = [np.array(batch["image"]) for batch in steps]
    with caplog.at_level(logging.WARNING, logger="carya"), relaxed(photos, state=state) as loader:
        assert same(images(loader), rest)
        assert "order" not in loader.state_dict()
    assert sum("as declared" in entry.message for entry in caplog.records) == 1


def test_where_nothing_with_other_bits_is_cheaper_the_bits_are_the_declared_ones(photos: Path) -> None:
    plain = carya.image_folder(str(photos)).decode_image().random_resized_crop(24).color_jitter(0.4).batch(4)
    with carya.Loader(plain, daemon="embedded", reorder="relaxed") as loader:
        assert "order" not in loader.state_dict()
    report = plain.explain("relaxed")
    assert (report["reorder"], report["same_bits"], report["difference"]) == ("relaxed", True, None)


def test_the_ranks_of_a_job_run_the_same_order(photos: Path, daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "job": "one", "world_size": 2}
    with relaxed(photos, rank=0, **options):
        with pytest.raises(carya.InvalidArgument, match="runs its ops in another order; give all its ranks the same"):
            relaxed(photos, rank=1, reorder="exact", **options)
        relaxed(photos, rank=1, **options).close()


def test_replicas_run_the_same_order(photos: Path, daemon: Daemon) -> None:
    options: dict[str, Any] = {"daemon": daemon.socket, "job": "two", "replicas": 2}
    with relaxed(photos, replica=0, **options), pytest.raises(carya.InvalidArgument, match="another order"):
        relaxed(photos, replica=1, reorder="exact", **options)


def test_the_policy_changes_with_the_order_kept(photos: Path, epoch: list[np.ndarray]) -> None:
    with relaxed(photos) as loader:
        loader.on_error = "mask"
        assert same(images(loader), epoch)
        state = loader.state_dict()
    with pytest.raises(carya.InvalidArgument, match="on_error differs"):
        relaxed(photos, state=state)
    relaxed(photos, state=state, on_error="mask").close()


def test_rounding_stays_within_a_level(photos: Path) -> None:
    gray = carya.image_folder(str(photos)).decode_image().gaussian_blur(7, 2.0).grayscale().center_crop(32).batch(4)
    report = gray.explain("rounding")
    assert report["order"].index("grayscale") < report["order"].index("gaussian_blur")
    assert not report["same_bits"]
    assert report["difference"]["records"] == 27
    assert report["difference"]["tensors"]["image"]["max"] == 1
    with carya.Loader(gray, daemon="embedded", reorder="rounding") as loader:
        assert loader.stats()["order"] == report["order"]


def test_explain_measures_what_relaxed_changes(photos: Path) -> None:
    declared = chain(photos)
    report = declared.explain("relaxed")
    measured = report["difference"]["tensors"]["image"]
    with relaxed(photos) as loader:
        apart = np.concatenate(
            [
                np.abs(
                    np.array(batch["image"], np.float64) - np.stack([declared[int(i)]["image"] for i in batch.records])
                )
                for batch in loader
            ]
        )
    assert report["difference"]["records"] == len(apart) == 27
    assert measured["mean"] == pytest.approx(apart.mean())
    assert measured["max"] == apart.max()
    assert measured["psnr"] == pytest.approx(10 * np.log10(255**2 / np.square(apart).mean()))
    assert list(report["difference"]["tensors"]) == ["image"]


def test_explain_measures_on_other_data(photos: Path, tmp_path: Path) -> None:
    away = carya.Pipeline.from_json(chain(tmp_path / "none").to_json())
    assert away.explain("relaxed")["difference"] is None
    here = chain(photos).explain("relaxed")["difference"]
    assert away.explain("relaxed", data=photos)["difference"] == here
    assert away.explain("relaxed", data=carya.image_folder(str(photos)))["difference"] == here
    with pytest.raises(carya.NotFound):
        away.explain("relaxed", data=tmp_path / "neither")
    with pytest.raises(carya.InvalidArgument, match=r"data|image"):
        away.explain("relaxed", data=carya.arrays({"x": np.zeros((3, 2), np.float32)}))
    with pytest.raises(carya.InvalidArgument, match="reorder"):
        away.explain("best")  # type: ignore[arg-type]


def test_the_commands_take_reorder(photos: Path, tmp_path: Path) -> None:
    document = tmp_path / "p.json"
    document.write_text(chain(photos).to_json())

    text = run("explain", str(document), "--reorder", "relaxed")
    assert "The bits are others." in text
    assert "Measured over 27 records, to what is written:" in text
    assert "PSNR" in text
    report = json.loads(run("explain", str(document), "--reorder", "relaxed", "--json"))
    assert report == chain(photos).explain("relaxed")
    result = json.loads(run("run", str(document), "--steps", "1", "--reorder", "relaxed", "--json"))
    assert [DECLARED[op] for op in result["state"]["order"]] == report["order"]


def test_a_plan_file_of_such_an_order_is_the_same_stream(photos: Path, tmp_path: Path) -> None:
    pipeline = chain(photos)
    path = tmp_path / "plan.json"
    path.write_text(plan_text(pipeline, reorder="relaxed"))
    wanted = images(relaxed(photos, epochs=1))
    with carya.Loader(pipeline, epochs=1, reorder="relaxed", plan=path) as loader:
        assert same(images(loader), wanted)
        state = loader.state_dict()
        report = loader.explain()
    assert state["order"] == pipeline.native.fixed_order("relaxed")
    assert not report["same_bits"]
    assert "The bits are others" in str(report)
    assert "others than as written" in report.svg()
    with pytest.raises(carya.InvalidArgument, match='was made under reorder="relaxed"'):
        carya.Loader(pipeline, plan=path)
    # Of the declared bits is another stream, which this state does not belong to.
    with pytest.raises(carya.InvalidArgument, match="the order of operations differs"):
        carya.Loader(pipeline, plan=path, reorder="relaxed", state=carya.Loader(pipeline).state_dict())
