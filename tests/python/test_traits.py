"""What is said of functions: operations pass them with the same bits, and what is not so is refused with a counter-example."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code
from daemons import until
from picture_code import at_random, brighter, fussy, gamma, halved, inverted, less_its_mean, lit_from_the_left, mirrored
from streams import copied, digest, epoch_digest, killed_and_resumed

import carya
from carya._traits.moves import as_written, moved, moves_of


def photos_of(photos: Path) -> carya.Pipeline:
    return carya.image_folder(str(photos)).shuffle(seed=3).decode_image()


def runs_as(pipeline: carya.Pipeline) -> list[str]:
    """The chain as it runs: operations before the first function, and stages."""
    spec = moved(pipeline._stream_spec(None))
    first = [line for line, _ in carya._core.Pipeline.parse(spec.native).lines()[1:]] if spec.dataset is None else []
    names = [line.split("(")[0] for line in first if not line.startswith(("part(", "shuffle("))]
    return [*names, *(stage.label for stage in spec.stages)]


def same_bits(make: Callable[..., carya.Pipeline], resumed: bool = False) -> None:
    """Errors: AssertionError, where a stream has other bits than what is written; `resumed`: also after a kill and a resume."""
    whole = epoch_digest(make(global_size=6), 2, threads=1, reorder="off")
    assert epoch_digest(make(global_size=4), 2, threads=2) == whole
    if resumed:
        assert digest(killed_and_resumed(make, steps=2, ranks=2, global_size=8)) == whole


def cropped(photos: Path, **batch: Any) -> carya.Pipeline:
    made = photos_of(photos).random_vertical_flip().map(brighter, fields="image", elementwise=True)
    return made.random_crop(32).random_horizontal_flip().normalize((0.5,) * 3, (0.2,) * 3).batch(**batch)


def test_crops_and_flips_run_before_a_function_of_pixels_on_native_threads(photos: Path) -> None:
    assert runs_as(cropped(photos, batch_size=4)) == [
        "decode_image", "random_vertical_flip", "random_crop", "random_horizontal_flip", "map(brighter)", "normalize"
    ]  # fmt: skip
    same_bits(lambda **batch: cropped(photos, **batch), resumed=True)
    pipeline = cropped(photos, batch_size=4)
    with carya.Loader(pipeline, epochs=1, threads=1) as loader:
        for batch in loader:
            for row, record in enumerate(batch.records[:1].tolist()):
                assert np.array_equal(batch["image"][row], pipeline.sample(record)["image"])
        assert loader.stats()["native"]["by"] == "threads", "its rows have one size now"
    with carya.Loader(cropped(photos, batch_size=4), epochs=1, threads=1, reorder="off") as loader:
        assert sum(len(one.records) for one in loader) > 0
        until(lambda: "has a size of its own" in loader.stats()["native"]["why"])


def test_an_operation_keeps_the_random_numbers_of_its_place_before_and_behind_several_functions(photos: Path) -> None:
    def make(**batch: Any) -> carya.Pipeline:
        made = photos_of(photos).random_crop(48).map(gamma, fields="image", elementwise=True).random_crop(40)
        return made.map(inverted, elementwise=True).random_crop(32).random_horizontal_flip().batch(**batch)

    assert runs_as(make(batch_size=2)) == [
        "decode_image", "random_crop", "random_crop", "random_crop", "random_horizontal_flip", "map(gamma)", "map(inverted)"
    ]  # fmt: skip
    same_bits(make)


def test_a_cast_runs_behind_a_function_that_says_so(photos: Path) -> None:
    def make(**batch: Any) -> carya.Pipeline:
        made = photos_of(photos).random_crop(32).to_dtype("float32", scale=True)
        return made.map(mirrored, fields="image", commutes_with="to_dtype").batch(**batch)

    assert runs_as(make(batch_size=2)) == ["decode_image", "random_crop", "map(mirrored)", "to_dtype"]
    same_bits(make)
    drawn = photos_of(photos).resize((40, 40)).map(gamma, fields="image", commutes_with=["random_crop"])
    assert runs_as(drawn.random_crop(32).batch(2))[-1] == "random_crop", "its numbers may follow the size"
    drawn = (
        photos_of(photos)
        .resize((40, 40))
        .map(gamma, fields="image", commutes_with=["random_crop"], shape_preserving=True)
    )
    assert runs_as(drawn.random_crop(32).batch(2))[-1] == "map(gamma)"


def test_samples_of_a_dataset_are_cut_before_the_function_too() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (12, 20, 20, 3), np.uint8)

    def make(**batch: Any) -> carya.Pipeline:
        made = carya.dataset(code.Pictures(pictures)).shuffle(seed=1)
        return made.map(brighter, fields="image", elementwise=True, shape_preserving=True).random_crop(8).batch(**batch)

    assert runs_as(make(batch_size=2)) == ["random_crop", "map(brighter)"]
    same_bits(make)
    arrays = carya.arrays({"image": pictures}).map(inverted, elementwise=True).random_crop(8)
    assert runs_as(arrays.batch(2)) == ["random_crop", "map(inverted)"]
    same_bits(lambda **batch: arrays.batch(**batch))


def test_what_says_nothing_and_what_stands_in_the_way_is_passed_by_nothing(photos: Path) -> None:
    start = photos_of(photos)
    said: dict[str, Any] = {"fields": "image", "elementwise": True}
    for chain, last in [
        (start.map(gamma, fields="image").random_crop(32), "random_crop"),
        (start.map(gamma, **said).random_crop(32, keep_position=True), "random_crop"),
        (
            start.map(gamma, **said).random_crop(32).normalize(0.5, 0.2, depends_on=["random_crop"]),
            "random_crop+normalize",
        ),
        (start.map(gamma, **said).barrier().random_crop(32), "random_crop"),
        (start.map(gamma, **said).resize((32, 32)), "resize"),
        (start.map(gamma, **said).random_resized_crop(32), "random_resized_crop"),
        (start.map(gamma, **said | {"out": "dark"}).random_crop(32), "random_crop"),
        (start.map(tuple_of).map(second, elementwise=True).map(gamma, **said).random_crop(32), "passed"),
        (start.map(gamma, **said).random_crop(40).random_crop(32), "random_crop+random_crop"),
        (start.map(gamma, deterministic=True, shape_preserving=True, fields="image").random_crop(32), "random_crop"),
    ]:
        expected = last if last != "passed" else "map(gamma)"
        assert runs_as(chain.batch(2))[-1] == expected
    assert runs_as(start.map(tuple_of).map(second, elementwise=True).random_crop(32))[-1] == "random_crop"
    spec = start.map(gamma, **said).random_crop(32)._stream_spec(None)
    assert as_written(moved(spec)) == spec
    assert [tuple(move) for move in moves_of(moved(spec))] == [("random_crop", 0, "map(gamma)", 0, True, "elementwise")]


def tuple_of(sample: dict[str, Any]) -> Any:
    return sample["image"], sample["label"]


def second(sample: Any) -> Any:
    return {"image": sample[0], "label": sample[1]}


def test_traits_change_no_fingerprint(photos: Path) -> None:
    plain = photos_of(photos).map(gamma, fields="image").random_crop(32).batch(4)
    said = photos_of(photos).map(gamma, fields="image", elementwise=True, deterministic=True).random_crop(32).batch(4)
    assert plain.native.fingerprint("raise") == said.native.fingerprint("raise")
    with carya.Loader(plain, threads=1) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        expected = digest([next(iterator)])
    with carya.Loader(said, threads=1, state=state) as loader:
        assert digest([next(iter(loader))]) == expected


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (lit_from_the_left, {"elementwise": True}, r"map\(lit_from_the_left\): elementwise=True.*record 0, image\["),
    (
        less_its_mean,
        {"elementwise": True},
        r"elementwise=True.*image\[0, 0, 0\]: -?[0-9.]+ of its input without its ends and",
    ),
    (mirrored, {"elementwise": True}, r"elementwise=True.*without its ends"),
    (at_random, {"deterministic": True}, r"deterministic=True.*image\[[0-9, ]+\]: \d+ at one call and \d+ at the next"),
    (halved, {"shape_preserving": True}, r"shape_preserving=True.*image: \(\d+, \d+, 3\) before it and"),
    (fussy, {"elementwise": True}, r"elementwise=True.*it raises ValueError: a picture is too small"),
]


@pytest.mark.parametrize(("fn", "said", "told"), WRONG)
def test_what_is_not_so_is_refused_with_the_counter_example(
    photos: Path, fn: Any, said: dict[str, Any], told: str
) -> None:
    made = photos_of(photos).resize((44, 48)).map(fn, fields="image", **said).batch(2)
    with pytest.raises(carya.InvalidArgument, match=told):
        carya.Loader(made, threads=1)


def test_an_order_that_gives_other_bits_is_refused(photos: Path) -> None:
    lit = photos_of(photos).resize((44, 48)).normalize((0.5,) * 3, (0.2,) * 3)
    lit = lit.map(less_its_mean, fields="image", commutes_with="normalize")
    with pytest.raises(carya.InvalidArgument, match=r"commutes_with names operations.*record 0, image.* as written"):
        carya.Loader(lit.batch(2), threads=1)
    with carya.Loader(lit.batch(2), threads=1, reorder="off", epochs=1) as loader:
        assert len(next(iter(loader)).records) == 2, "nothing relies on it"


def test_a_deterministic_function_is_not_seeded_and_its_neighbours_are(photos: Path) -> None:
    def make(**batch: Any) -> carya.Pipeline:
        made = photos_of(photos).resize((20, 20)).map(gamma, fields="image", deterministic=True)
        return made.map(at_random, fields="image").batch(**batch)

    same_bits(make)


def test_mistakes() -> None:
    start = carya.arrays({"image": np.zeros((4, 8, 8, 3), np.uint8)})
    for said, told in [
        ({"elementwise": 1}, "map: elementwise: got 1"),
        ({"deterministic": "yes"}, "map: deterministic"),
        ({"shape_preserving": None}, "map: shape_preserving"),
        ({"commutes_with": 3}, "map: commutes_with"),
        ({"commutes_with": ["a", "a"]}, "map: commutes_with"),
    ]:
        with pytest.raises(carya.InvalidArgument, match=told):
            start.map(gamma, **said)  # type: ignore[arg-type]
    with pytest.raises(
        carya.InvalidArgument, match="deterministic: got True; give False for a function with a parameter rng"
    ):
        start.map(brighter, fields="image", deterministic=True)


def twice(sample: dict[str, Any]) -> list[Any]:
    return [sample, sample]


def explained(pipeline: carya.Pipeline, **options: Any) -> tuple[dict[str, Any], str]:
    """The report, which is JSON and a picture too, and its text."""
    report = pipeline.explain(**options)
    ET.fromstring(report.svg())
    assert json.loads(json.dumps(report)) == report
    return report, str(report)


def test_explain_has_what_each_function_costs_and_what_samples_say_of_it(photos: Path) -> None:
    report, text = explained(cropped(photos, batch_size=4))
    written = [
        "decode_image",
        "random_vertical_flip",
        "map(brighter)",
        "random_crop",
        "random_horizontal_flip",
        "normalize",
    ]
    assert report["declared"] == written
    assert sorted(report["order"]) == sorted(written)
    assert report["order"].index("random_crop") < report["order"].index("map(brighter)")
    (function,) = report["functions"]
    assert function["samples"] == 8
    assert function["us"] > 0
    assert [(one["trait"], one["tried"], one["against"]) for one in function["found"]] == [
        ("elementwise", 8, ""),
        ("commutes_with", 16, ""),
    ]
    assert report["us"] == pytest.approx(sum(op["us"] for op in report["ops"]))
    row = next(op for op in report["ops"] if op["op"] == "map(brighter)")
    assert (row["us"], row["bytes_out"], row["place"]) == (function["us"], 32 * 32 * 3 + 8, "worker")
    assert "elementwise is said, and so it was on 8 samples." in text
    assert "random_crop runs before map(brighter)" in text
    assert explained(cropped(photos, batch_size=4), reorder="off")[0]["order"] == report["declared"]


def test_explain_refuses_what_is_not_so_and_names_what_could_pass(photos: Path) -> None:
    start = photos_of(photos).resize((44, 48))
    report, text = explained(start.map(mirrored, fields="image", elementwise=True).batch(2))
    assert "REFUSED: elementwise is not so: record 0, image[" in text
    report, text = explained(start.map(gamma, fields="image").random_crop(32).random_crop(24).map(gamma).batch(2))
    assert report["declared"] == [
        "decode_image",
        "resize",
        "map(gamma)#0",
        "random_crop#0",
        "random_crop#1",
        "map(gamma)#1",
    ]
    report, text = explained(start.map(gamma, fields="image").random_crop(32).batch(2))
    assert "random_crop could run before it, if each pixel follows from itself: give elementwise=True." in text


def test_a_loader_explains_what_its_workers_measured_and_charges_it_to_the_function(photos: Path) -> None:
    with carya.Loader(cropped(photos, batch_size=4), threads=1, epochs=2) as loader:
        for _ in range(2):
            for _ in loader:
                pass
        report = loader.explain()
    ET.fromstring(report.svg())
    (function,) = report["functions"]
    assert function["us"] > 0
    assert function["samples"] == loader_samples(report)
    assert report["declared"].index("map(brighter)") < report["declared"].index("random_crop")
    assert "Native operations before the functions: made by threads." in str(report)
    assert "1 worker process" in str(report)


def loader_samples(report: dict[str, Any]) -> int:
    return int(next(op["samples"] for op in report["ops"] if op["op"] == "normalize"))


@pytest.mark.parametrize(
    "pipeline",
    [
        carya.dataset(code.Squares(9)).map(code.noisy).batch(3),
        carya.dataset(code.Squares(9)).filter(code.even).flat_map(twice).map(code.noisy).batch(3),
        carya.mix([carya.dataset(code.Squares(9)), carya.dataset(code.Squares(4))]).map(code.noisy).batch(3),
        carya.iterable(code.Squared([9, 4]), shards=2, lengths=[9, 4]).map(code.noisy).batch(3),
        carya.arrays({"x": np.arange(9.0)}).map(np.square, fields="x", elementwise=True).batch(3).map_batches(dict),
    ],
)
def test_every_kind_of_chain_is_explained(pipeline: carya.Pipeline) -> None:
    report, _ = explained(pipeline)
    assert report["order"] == report["declared"]
    assert len(report["functions"]) >= 1
    with carya.Loader(pipeline, threads=1, epochs=1) as loader:
        assert sum(1 for _ in loader) > 0
        assert loader.explain()["order"] == report["order"]


def relaxed(photos: Path, **batch: Any) -> carya.Pipeline:
    made = photos_of(photos).random_horizontal_flip().map(gamma, fields="image", elementwise=True)
    return made.random_resized_crop(32).map(brighter, fields="image").batch(**batch)


def test_under_relaxed_what_computes_pixels_passes_too_and_the_order_is_part_of_the_state(photos: Path) -> None:
    def make(**batch: Any) -> carya.Pipeline:
        return relaxed(photos, **batch)

    written = ["decode_image", "random_horizontal_flip", "map(gamma)", "random_resized_crop", "map(brighter)"]
    assert runs_as(make(batch_size=4)) == written
    report, text = explained(make(batch_size=4), reorder="relaxed")
    assert report["order"].index("random_resized_crop") < report["order"].index("map(gamma)")
    assert (report["same_bits"], report["difference"]["records"]) == (False, 27)
    assert 0 < report["difference"]["tensors"]["image"]["mean"] < 60
    assert "Measured over 27 records" in text
    with carya.Loader(make(global_size=6), threads=1, epochs=1, reorder="exact") as loader:
        exact = digest(loader)
        assert "order" not in loader.state_dict()
    options: dict[str, Any] = {"epochs": 1, "reorder": "relaxed"}
    with carya.Loader(make(global_size=6), threads=2, **options) as loader:
        whole = digest(loader)
    assert whole not in (exact, "")
    with carya.Loader(make(global_size=6), threads=1, **options) as loader:
        iterator = iter(loader)
        first = [copied(next(iterator)), copied(next(iterator))]
        state = loader.state_dict()
        assert [written[place] for place in state["order"]] == report["order"]
        assert loader.explain()["order"] == report["order"]
    with carya.Loader(make(global_size=9), threads=1, state=state, **options) as loader:
        assert digest([*first, *map(copied, loader)]) == whole
    other = carya.Loader(make(global_size=6), threads=1)
    with other, pytest.raises(carya.InvalidArgument, match="the order of operations differs"):
        other.load_state_dict(state)
    keeps = photos_of(photos).map(gamma, fields="image", elementwise=True).random_crop(32).batch(global_size=6)
    with carya.Loader(keeps, threads=1, epochs=1, reorder="relaxed") as loader:
        next(iter(loader))
        assert "order" not in loader.state_dict(), "it has the bits of what is written"


def slowly(image: np.ndarray) -> np.ndarray:
    time.sleep(0.8)  # eight times of it are more than one call may take
    return gamma(image)


def test_each_call_that_tries_a_function_has_the_time_of_one_call() -> None:
    pictures = np.zeros((1, 20, 20, 3), np.uint8)
    said: dict[str, Any] = {"fields": "image", "elementwise": True, "deterministic": True, "shape_preserving": True}
    pipeline = carya.arrays({"image": pictures}).map(slowly, **said).random_crop(8).batch(1)
    with carya.Loader(pipeline, threads=1, epochs=1, function_timeout=5) as loader:
        assert loader.explain()["functions"][0]["found"][0]["tried"] == 1


@pytest.mark.parametrize(
    "pipeline",
    [
        carya.mix([carya.dataset(code.Squares(9)), carya.dataset(code.Squares(4))]),
        carya.iterable(code.Squared([9, 4]), shards=2, lengths=[9, 4]).shuffle(seed=1),
        carya.dataset(code.Squares(9)).filter(code.even).flat_map(twice),
        carya.dataset(code.Pairs(9)),
    ],
)
def test_what_is_said_is_tried_on_samples_of_every_source(pipeline: carya.Pipeline) -> None:
    chain = pipeline.map(same, elementwise=True, deterministic=True).batch(3)
    with carya.Loader(chain, threads=1, epochs=1) as loader:
        assert sum(1 for _ in loader) > 0
        function = loader.explain()["functions"][-1]
        single = "flat_map" not in str(pipeline)
        assert {one["trait"]: one["tried"] for one in function["found"]} == dict.fromkeys(function["said"], 2 * single)


def same(sample: Any) -> Any:
    return sample
