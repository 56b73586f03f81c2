"""Plans as files: the same order for ever, or a refusal that names the difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from daemons import running

import carya
from carya import _core


def chain(folder: Path, size: int = 40) -> carya.Pipeline:
    return (
        carya.image_folder(str(folder))
        .shuffle(seed=3)
        .decode_image()
        .color_jitter(0.4, saturation=0.4, hue=0.1)
        .posterize(5)
        .random_crop(size, pad_if_needed=True, padding_mode="reflect")
        .normalize(mean=0.4, std=0.2)
        .batch(4)
    )


@pytest.fixture
def frozen(photos: Path, tmp_path: Path) -> Path:
    """A plan file of `chain(photos)`, made by the command."""
    (tmp_path / "p.json").write_text(chain(photos).to_json())
    run("plan", "freeze", str(tmp_path / "p.json"), "-o", str(tmp_path / "plan.json"))
    return tmp_path / "plan.json"


def reordered(path: Path, order: list[int], **changes: Any) -> Path:
    """The plan with this order in place of its own."""
    plan = json.loads(path.read_text())
    names = [op["op"] for op in plan["ops"]]
    plan["order"] = [{"index": index, "op": names[index]} for index in order]
    other = path.with_name("other.json")
    other.write_text(json.dumps({**plan, **changes}))
    return other


def images(loader: carya.Loader) -> list[np.ndarray[Any, Any]]:
    with loader:
        return [np.array(batch["image"]) for batch in loader]


def test_a_plan_file_says_what_it_is(frozen: Path, photos: Path) -> None:
    plan = json.loads(frozen.read_text())
    assert plan["carya_plan"] == 1
    assert [op["op"] for op in plan["ops"]] == chain(photos).explain()["declared"]
    assert [step["op"] for step in plan["order"]] == chain(photos).explain()["order"]
    assert plan["chosen_by"]["us"] < plan["chosen_by"]["declared_us"]
    assert plan["machine"]["cpu"]
    assert plan["date"].endswith("Z")


def test_exactly_its_order_is_run_with_the_same_bits(frozen: Path, photos: Path) -> None:
    declared = images(carya.Loader(chain(photos), epochs=1, daemon="embedded", reorder="off"))
    for path in (frozen, reordered(frozen, [0, 1, 3, 2, 4])):
        loader = carya.Loader(chain(photos), epochs=1, daemon="embedded", plan=path)
        order = loader.stats()["order"]
        assert order == [step["op"] for step in json.loads(path.read_text())["order"]]
        for ours, theirs in zip(images(loader), declared, strict=True):
            assert np.array_equal(ours, theirs)


def test_a_daemon_keeps_it_too(frozen: Path, photos: Path) -> None:
    path = reordered(frozen, [0, 1, 3, 2, 4])
    wanted = [step["op"] for step in json.loads(path.read_text())["order"]]
    declared = images(carya.Loader(chain(photos), epochs=1, daemon="embedded", reorder="off"))
    with running() as daemon:
        loader = carya.Loader(chain(photos), epochs=1, daemon=daemon.socket, plan=path)
        assert loader.stats()["place"] == daemon.socket
        assert loader.stats()["order"] == wanted
        for ours, theirs in zip(images(loader), declared, strict=True):
            assert np.array_equal(ours, theirs)
        # Ranks may have different plans; replicas read the same slots and may not.
        options: dict[str, Any] = {"daemon": daemon.socket, "job": "j", "world_size": 2}
        first = carya.Loader(chain(photos), rank=0, plan=path, **options)
        second = carya.Loader(chain(photos), rank=1, replicas=2, replica=0, **options)
        assert first.stats()["order"] == wanted != second.stats()["order"]
        with pytest.raises(carya.InvalidArgument, match="rank 1 has another order of ops"):
            carya.Loader(chain(photos), rank=1, replicas=2, replica=1, plan=path, **options)
        first.close()
        second.close()


def test_a_daemon_believes_no_order(photos: Path) -> None:
    """What came over the socket is checked there, whatever the trainer's side has checked."""

    def ask(order: list[int], reorder: str = "exact") -> _core.Job:
        asked, options = _core.DaemonOptions(), _core.JobOptions()
        asked.socket, asked.job, asked.on_loss, asked.reattach_timeout = daemon.socket, "j", "raise", 1.0
        options.order, options.reorder = order, reorder
        return _core.Job(native, None, options, daemon=asked)

    native = chain(photos).native
    with running() as daemon:
        for order in ([4, 3, 2, 1, 0], [0, 0, 1, 2, 3], [0, 1], [2**63] * 5, list(range(1000))):
            with pytest.raises(carya.InvalidArgument, match=r"^(plan|options\.order\[\]): "):
                ask(order)
        with pytest.raises(carya.InvalidArgument, match=r'runs before .*reorder="off" does not allow'):
            ask([0, 3, 1, 2, 4], "off")
        ask([0, 3, 1, 2, 4]).close()


def test_what_differs_is_named(frozen: Path, photos: Path, tmp_path: Path) -> None:
    def refusal(pipeline: carya.Pipeline, plan: Any, **options: Any) -> str:
        with pytest.raises(carya.InvalidArgument) as error:
            carya.Loader(pipeline, plan=plan, daemon="embedded", **options)
        return str(error.value)

    said = refusal(chain(photos, 48), frozen)
    assert "random_crop: has size = [40, 40] in the plan and [48, 48] here" in said
    assert "carya plan freeze" in said
    assert str(frozen) in said
    assert "runs before" in refusal(chain(photos), reordered(frozen, [1, 0, 2, 3, 4]))
    assert "format 9" in refusal(chain(photos), reordered(frozen, [0, 1, 2, 3, 4], carya_plan=9))
    assert 'under reorder="rounding"' in refusal(chain(photos), reordered(frozen, [0, 1, 2, 3, 4], reorder="rounding"))
    assert 'under reorder="exact"' in refusal(chain(photos), frozen, reorder="off")
    assert "the path of a file" in refusal(chain(photos), 7)
    (tmp_path / "half.json").write_bytes(frozen.read_bytes()[:300])
    assert "no JSON at line 8" in refusal(chain(photos), tmp_path / "half.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{")
    assert "no JSON at line 1, column 1" in refusal(chain(photos), tmp_path / "bytes.json")
    (tmp_path / "large.json").write_bytes(b" " * (5 << 20))
    assert "has over" in refusal(chain(photos), tmp_path / "large.json")
    with pytest.raises(carya.NotFound, match="carya plan freeze"):
        carya.Loader(chain(photos), plan=tmp_path / "absent.json")
    with pytest.raises(carya.IoError, match="give a file"):
        carya.Loader(chain(photos), plan=tmp_path)
    # What a plan does not depend on: data, batch, shuffle, policy, seed.
    other = carya.image_folder(str(photos)).take(9).decode_image().color_jitter(0.4, saturation=0.4, hue=0.1)
    other = other.posterize(5).random_crop(40, pad_if_needed=True, padding_mode="reflect").normalize(0.4, 0.2).batch(3)
    assert len(images(carya.Loader(other, epochs=1, plan=frozen, on_error="mask", seed=9, daemon="embedded"))) == 3


def test_the_command_takes_a_python_file(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "helper_of_train.py").write_text("SIZE = 32\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import carya\nfrom helper_of_train import SIZE\n"
        f"train = carya.image_folder({str(photos)!r}).decode_image().resize((SIZE, SIZE)).batch(4)\n"
        "test = train.map_batch(len)\n"
        'if __name__ == "__main__":\n    raise SystemExit("trained")\n'
    )
    plan = json.loads(run("plan", "freeze", f"{script}:test", "--json"))
    assert [step["op"] for step in plan["order"]] == ["decode_image", "resize"]
    assert "train, test" in run("plan", "freeze", str(script), code=1)
    assert "train.py:NAME" in run("explain", f"{script}:absent", code=1)
    report = json.loads(run("explain", f"{script}:train", "--json"))
    assert report["order"] == ["decode_image", "resize"]
    script.write_text("import no_such_module_here\n")
    assert "ModuleNotFoundError" in run("explain", str(script), code=1)


def test_a_plan_that_cannot_be_written_leaves_nothing(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(chain(photos).to_json())
    (tmp_path / "folder").mkdir()
    assert "may write" in run("plan", "freeze", str(tmp_path / "p.json"), "-o", str(tmp_path / "folder"), code=1)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "p.json"]
