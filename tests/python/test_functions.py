"""`map`, `filter`, `map_batches`: what functions are given, what is made of what they return, what is refused."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code

import carya


def columns(pipeline: carya.Pipeline, **options: Any) -> dict[str, np.ndarray]:
    """Of a whole epoch, the batches one behind the other."""
    with carya.Loader(pipeline, threads=2, **options) as loader:
        parts = [{name: np.array(value) for name, value in batch.items()} for batch in loader]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def numbers(count: int = 10) -> carya.Pipeline:
    return carya.arrays({"x": np.arange(count, dtype=np.float32), "y": np.arange(count) ** 2})


def test_a_function_of_fields_replaces_them_or_makes_others() -> None:
    found = columns(numbers().map(code.double, fields="x").batch(4))
    assert (found["x"].tolist(), found["y"].tolist()) == ([2.0 * i for i in range(10)], [i * i for i in range(10)])
    found = columns(numbers().map(operator.add, fields=("x", "y"), out="sum").batch(4))
    assert list(found) == ["x", "y", "sum"]
    assert found["sum"].tolist() == [i + i * i for i in range(10)]
    found = columns(numbers().subset(range(1, 10)).map(divmod, fields=("y", "x"), out=("q", "r")).batch(4))
    assert found["q"].tolist() == list(range(1, 10))


def test_a_label_is_what_a_function_says_of_the_sample(photos: Path) -> None:
    digits = carya.dataset(code.Squares(8)).label(code.last_digit).batch(8)
    with carya.Loader(digits, threads=1) as loader:
        batch = next(iter(loader))
        assert batch["label"].tolist() == [i * i % 10 for i in range(8)]
        assert batch["y"].tolist() == [i * i for i in range(8)]
    # It replaces that of a native source, behind native operations and in front of others.
    read = carya.image_folder(photos).decode_image().label(np.size, fields="image").resize((8, 8)).batch(2)
    with carya.Loader(read, threads=1) as loader:
        batch = next(iter(loader))
        sizes = [np.size(carya.image_folder(photos).decode_image()[i]["image"]) for i in batch.records]
        assert batch["label"].tolist() == sizes
        assert batch["image"].shape == (2, 8, 8, 3)


def test_a_label_may_draw_by_the_record() -> None:
    drawn = carya.dataset(code.Squares(12)).label(code.drawn_label)
    seen = []
    for threads, size in ((1, 12), (2, 3)):
        with carya.Loader(drawn.batch(size), threads=threads) as loader:
            seen.append(np.concatenate([np.array(batch["label"]) for batch in loader]))
    assert np.array_equal(*seen)
    assert np.array_equal(np.floor(seen[0]), np.arange(12.0) ** 2)
    assert (seen[0] % 1).all()
    other = carya.dataset(code.Squares(12)).label(code.last_digit)
    assert drawn != other


def test_a_label_wants_a_function_and_samples_with_names() -> None:
    with pytest.raises(carya.InvalidArgument, match="fn"):
        carya.dataset(code.Squares(2)).label(3)  # type: ignore[arg-type]
    with pytest.raises(carya.InvalidArgument, match=r"before \.batch"):
        carya.dataset(code.Squares(2)).batch(2).label(code.last_digit)
    with pytest.raises(carya.InvalidArgument, match="samples that are dicts, or use map"):
        carya.Loader(carya.dataset(code.Pairs(4)).label(len).batch(2), threads=1)


def test_functions_follow_each_other_and_partials_and_methods_are_functions() -> None:
    pipeline = numbers().map(functools.partial(np.add, 1), fields="x").map(np.square, fields="x").map(dict).batch(3)
    assert columns(pipeline)["x"].tolist() == [float((i + 1) ** 2) for i in range(10)]


def test_declared_outputs_are_checked_for_every_sample() -> None:
    found = columns(numbers().map(np.sqrt, fields="x", out={"root": ("float32", ())}).batch(5))
    assert np.allclose(found["root"], np.sqrt(np.arange(10)))
    with pytest.raises(
        carya.InvalidArgument, match=r"map\(sqrt\): root: got float32 \(\), and out= declares float64 \(2,\)"
    ):
        columns(numbers().map(np.sqrt, fields="x", out={"root": ("float64", (2,))}).batch(5))


def test_native_operations_run_before_functions_with_the_bits_of_a_native_stream(photos: Path) -> None:
    native = carya.image_folder(photos).shuffle(seed=4).decode_image().random_resized_crop(32).random_horizontal_flip()
    with carya.Loader(native.batch(6), epochs=2) as loader:
        expected = [(b["image"].copy(), b["label"].copy()) for _ in range(2) for b in loader]
    with carya.Loader(native.map(code.double, fields="image").batch(6), threads=2, epochs=2) as loader:
        found = [(b["image"].copy(), b["label"].copy()) for _ in range(2) for b in loader]
    for (image, label), (doubled, same) in zip(expected, found, strict=True):
        assert np.array_equal(image * 2, doubled)
        assert np.array_equal(label, same)


def test_a_function_may_decode_by_itself(photos: Path) -> None:
    pipeline = carya.image_folder(photos).map(_thumbnail).batch(8)
    found = columns(pipeline)
    assert found["image"].shape == (27, 8, 8, 3)


def _thumbnail(sample: dict[str, Any]) -> dict[str, Any]:
    import io

    from PIL import Image

    with Image.open(io.BytesIO(sample["image"].tobytes())) as image:
        return {"image": image.convert("RGB").resize((8, 8)), "label": sample["label"]} | {
            "image": np.asarray(image.convert("RGB").resize((8, 8)))
        }


def test_map_batches_sees_whole_batches_and_its_dict_is_a_batch() -> None:
    with carya.Loader(carya.dataset(code.Squares(10)).batch(4).map_batches(code.scaled), threads=2) as loader:
        found = [(batch["x"][:, 0].tolist(), batch["total"].tolist(), batch.records.tolist()) for batch in loader]
    assert found == [
        ([0.0, 0.5, 1.0, 1.5], [14], [0, 1, 2, 3]),
        ([2.0, 2.5, 3.0, 3.5], [126], [4, 5, 6, 7]),
        ([4.0, 4.5], [145], [8, 9]),
    ]


def test_map_batches_and_map_batch_in_their_order() -> None:
    pipeline = (
        carya.dataset(code.Squares(4)).batch(4).map_batches(code.scaled).map_batch(lambda batch: int(batch["total"][0]))
    )
    with carya.Loader(pipeline, threads=1) as loader:
        assert list(loader) == [14]
    with pytest.raises(carya.InvalidArgument, match="map_batches: it comes after map_batch"):
        carya.dataset(code.Squares(4)).batch(4).map_batch(dict).map_batches(dict)


def test_a_filter_leaves_an_exact_stream() -> None:
    pipeline = carya.dataset(code.Squares(30)).filter(code.even).shuffle(seed=1).batch(4)
    with carya.Loader(pipeline, threads=2) as loader:
        batches = [(b["y"].tolist(), b.records.tolist()) for b in loader]
        state = loader.state_dict()
        assert (len(loader), loader._job.count) == (4, 15)
    assert sorted(y for ys, _ in batches for y in ys) == [i * i for i in range(0, 30, 2)]
    assert all(record**2 == y for ys, records in batches for y, record in zip(ys, records, strict=True))
    with carya.Loader(pipeline, threads=1, state={**state, "epoch": 0, "position": 8}) as loader:
        assert [b["y"].tolist() for b in loader] == [ys for ys, _ in batches[2:]]
    parts = []
    for rank in range(2):
        with carya.Loader(pipeline, threads=1, rank=rank, world_size=2) as loader:
            parts += [y for b in loader for y in b["y"][b.valid].tolist()]
    assert sorted(parts) == [i * i for i in range(0, 30, 2)]


def test_a_filter_is_asked_once_and_its_verdicts_are_kept(tmp_path: Path) -> None:
    counted = _Counting(str(tmp_path / "calls"))
    pipeline = carya.dataset(code.Squares(20)).filter(counted).batch(4)
    for _ in range(2):
        assert columns(pipeline)["y"].tolist() == [i * i for i in range(0, 20, 2)]
        assert (tmp_path / "calls").stat().st_size == 20
    assert columns(carya.dataset(code.Squares(22)).filter(counted).batch(4))["y"].shape == (11,)


def test_a_filter_that_raises_says_so_at_its_record(tmp_path: Path) -> None:
    pipeline = carya.dataset(code.Squares(8)).filter(code.picky).batch(4)
    for _ in range(2):  # no verdict is kept of it
        with carya.Loader(pipeline, threads=1) as loader, pytest.raises(ValueError, match="nine is neither") as raised:
            next(iter(loader))
    assert "record 3" in "".join(raised.value.__notes__)
    with carya.Loader(pipeline, threads=2, on_error="mask") as loader:
        rows = [y for batch in loader for y in batch["y"][batch.valid].tolist()]
        assert [entry["record"] for entry in loader.quarantine()] == [3]
    assert rows == [0, 4, 16, 36]


class _Counting:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, sample: Any) -> bool:
        with open(self.path, "ab") as file:
            file.write(b".")
        return code.even(sample)


def test_filters_that_cannot_be_are_refused() -> None:
    with pytest.raises(carya.InvalidArgument, match="filter: it keeps none of the records"):
        carya.Loader(carya.dataset(code.Squares(4)).filter(code.never).batch(2), threads=1)
    with pytest.raises(carya.InvalidArgument, match="filter: it comes after random numbers"):
        carya.dataset(code.Squares(4)).map(code.noisy).filter(code.even)
    with pytest.raises(carya.Unsupported, match=r"len\(loader\)"):
        len(carya.dataset(code.Squares(4)).filter(code.even))


@pytest.mark.parametrize("fn", [code.old_fashioned, code.with_torch])
def test_global_generators_are_keyed_by_the_record(fn: Any) -> None:
    if fn is code.with_torch:
        pytest.importorskip("torch")
    pipeline = carya.dataset(code.Squares(12)).map(fn).batch(4)
    name = "a" if fn is code.old_fashioned else "t"
    first, again = columns(pipeline)[name], columns(pipeline)[name]
    assert np.array_equal(first, again)
    assert len(np.unique(first[:, 0])) == 12
    (other,) = (columns(pipeline, seed=5)[name],)
    assert not np.array_equal(first, other)
    with carya.Loader(pipeline, threads=1) as loader:
        epochs = [np.concatenate([batch[name].copy() for batch in loader]) for _ in range(2)]
    assert np.array_equal(epochs[0], first)
    assert not np.array_equal(epochs[0], epochs[1])


@pytest.mark.parametrize(
    "make", [lambda: carya.dataset(code.DrawsTorch(12)), lambda: carya.iterable(code.draws_torch, shards=2, lengths=6)]
)
def test_torch_that_is_imported_late_is_keyed_too(make: Any) -> None:
    """The sample for which a worker imports it draws the numbers that it has in every other worker."""
    pytest.importorskip("torch")
    pipeline = make().batch(4)
    with carya.Loader(pipeline, threads=1) as loader:
        whole = [batch["t"].copy() for batch in loader]
    assert len(np.unique(np.concatenate(whole)[:, 0])) == 12
    with carya.Loader(pipeline, threads=2) as loader:  # the second worker imports it at its own first sample
        np.testing.assert_equal([batch["t"].copy() for batch in loader], whole)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: p.map(3), "map: fn: got 3; give a function"),
        (lambda p: p.map(dict, fields=()), r"map: fields: got \(\)"),
        (lambda p: p.map(dict, fields=("x", "x")), "map: fields: got .*different ones"),
        (lambda p: p.map(dict, out="x"), "map: out: got 'x'; give fields= too"),
        (
            lambda p: p.map(dict, out={"x": "float32"}),
            r"map: out\['x'\]: got 'float32'; give a pair of dtype and shape",
        ),
        (lambda p: p.map(dict, seed_globals=1), "map: seed_globals: got 1; give True or False"),
        (lambda p: p.batch(2).map(dict), r"map: comes after batch; call .map\(...\) before .batch"),
        (lambda p: p.batch(2).filter(dict), "filter: comes after batch"),
        (lambda p: p.map_batches(dict), "map_batches: comes before batch"),
        (lambda p: p.batch(2, collate=5), "collate: fn: got 5"),
        (lambda p: p.batch(2, lists="x"), "batch: lists: got 'x'"),
        (lambda p: p.map(dict).batch(0), "batch_size: got 0"),
        (lambda p: p.map(dict).batch(2, drop_last=True, pad_last=True), "drop_last"),
    ],
)
def test_mistakes_are_named_when_the_pipeline_is_built(call: Any, text: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=text):
        call(numbers())


@pytest.mark.parametrize(
    ("pipeline", "text"),
    [
        (numbers().map(dict, fields="z"), r"map\(dict\): fields: the sample has no 'z'; give one of \('x', 'y'\)"),
        (
            numbers().map(divmod, fields=("x", "y"), out=("a", "b", "c")),
            r"it returned a tuple of 2; return a tuple of 3",
        ),
        (numbers().map(np.add, fields=("x", "y")), r"return a tuple of 2 values, for x, y"),
    ],
)
def test_mistakes_of_functions_are_named_by_the_first_sample(pipeline: carya.Pipeline, text: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=text):
        carya.Loader(pipeline.batch(2), threads=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"read_ahead": "1MB"},
            "read_ahead: it is for native threads, .* no native operation stands before .*; leave read_ahead",
        ),
        ({"native": "threads"}, "native: it is for native threads, .* no native operation stands before the functions"),
        ({"daemon": "required"}, "daemon: got 'required'"),
        ({"job": "a"}, "job: got 'a' for a pipeline with Python functions; leave it out"),
        ({"remote": "dns://x:1"}, "remote: it is for native threads"),
        ({"replicas": 2}, "replicas"),
        ({"placement": "remote:1", "remote": "dns://x:1"}, "remote: it is for native threads"),
        ({"decode_index": "rows"}, "decode_index"),
    ],
)
def test_options_of_native_streams_are_refused_and_not_ignored(options: dict[str, Any], text: str) -> None:
    with pytest.raises(carya.Unsupported, match=text):
        carya.Loader(numbers().map(dict).batch(2), **options)


def test_options_of_functions_are_checked() -> None:
    with pytest.raises(carya.InvalidArgument, match='native: got \'host\'; give "auto" or "threads" or "workers"'):
        carya.Loader(numbers().map(dict).batch(2), native="host")  # type: ignore[arg-type]
    with pytest.raises(carya.InvalidArgument, match="cache: got 'auto' beside native=\"workers\""):
        carya.Loader(numbers().map(dict).batch(2), native="workers", cache="auto")
    with pytest.raises(carya.InvalidArgument, match="native: got 'workers' for a pipeline without Python functions"):
        carya.Loader(numbers().batch(2), native="workers")
    with pytest.raises(carya.InvalidArgument, match="function_timeout: got 0; give seconds of more than 0"):
        carya.Loader(numbers().map(dict).batch(2), function_timeout=0)
    with pytest.raises(carya.InvalidArgument, match="max_rss: got 'much'"):
        carya.Loader(numbers().map(dict).batch(2), max_rss="much")
    with pytest.raises(
        carya.InvalidArgument, match=r"function_timeout: got 5\.0 for a pipeline without Python functions"
    ):
        carya.Loader(numbers().batch(2), function_timeout=5.0)
    with pytest.raises(carya.InvalidArgument, match='on_error: got "mask" with a collate function'):
        carya.Loader(carya.dataset(code.Squares(4)).batch(2, collate=code.as_tuple), on_error="mask")
    with carya.Loader(numbers().map(dict).batch(2), threads=1, function_timeout=math.inf) as loader:
        assert loader.threads == 1


def test_lambdas_need_cloudpickle_or_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)  # as where it is not installed
    with pytest.raises(carya.InvalidArgument, match=r"lambda.*pip install cloudpickle"):
        carya.Loader(numbers().map(lambda x: x + 1, fields="x").batch(10), threads=1)


def test_lambdas_closures_and_local_classes_travel_by_value() -> None:
    """With what they close over, arrays beside the pickle among it; state and fingerprint are those of the code."""
    pytest.importorskip("cloudpickle")
    table, step = np.arange(40_000.0), 2.0

    class Local:
        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"x": table[index], "name": f"{type(self).__name__} {index}"}

    def pipeline(by: float) -> carya.Pipeline:
        return carya.dataset(Local()).map(lambda x: x * step + by, fields="x").filter(lambda s: s["x"] < 19).batch(3)

    found = columns(pipeline(1.0))
    assert found["x"].tolist() == [i * 2.0 + 1 for i in range(9)]
    with carya.Loader(pipeline(1.0), threads=2, epochs=1) as loader:
        batch = next(iter(loader))
        assert batch["name"] == ["Local 0", "Local 1", "Local 2"]
        state = loader.state_dict()
    with carya.Loader(pipeline(1.0), threads=1, epochs=1, state=state) as loader:
        assert [batch["x"].tolist() for batch in loader] == [[7.0, 9.0, 11.0], [13.0, 15.0, 17.0]]
    with pytest.raises(carya.InvalidArgument, match="pipeline"):
        carya.Loader(pipeline(2.0), threads=1, state=state)


def test_pipelines_with_functions_print_compare_and_have_no_json() -> None:
    pipeline = numbers().shuffle(seed=1).map(np.square, fields="x").batch(4).map_batches(dict)
    assert str(pipeline).split("\n")[-3:] == ["map(square)", "batch(batch_size=4)", "map_batches(dict)"]
    assert pipeline == numbers().shuffle(seed=1).map(np.square, fields="x").batch(4).map_batches(dict)
    assert pipeline != numbers().shuffle(seed=1).map(np.sqrt, fields="x").batch(4).map_batches(dict)
    with pytest.raises(carya.Unsupported, match=r"to_json: map\(square\) is a Python function"):
        pipeline.to_json()
    import pickle

    again = pickle.loads(pickle.dumps(carya.dataset(code.Squares(6)).map(code.noisy).batch(3)))
    assert columns(again)["y"].tolist() == [i * i for i in range(6)]


@pytest.mark.parametrize(("weight", "steps"), [(1.0, 0), (0.5, 3), (0.1, 10)])
def test_the_weight_of_a_job_is_how_nice_its_processes_are(weight: float, steps: int) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with carya.Loader(carya.dataset(code.Squares(64)).map(code.noisy).batch(4), threads=2, weight=weight) as loader:
        next(iter(loader))
        job: Any = loader._job
        host = job._process.pid
        pids = [host, *job._figures["pids"]]
        assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids] == [min(19, own + steps)] * 3
        group = Path(f"/proc/{host}/autogroup")
        if group.exists() and steps:  # what counts where the system shares the cores among sessions first
            assert group.read_text().endswith(f"nice {steps}\n")


def test_a_weight_of_more_than_one_is_refused_for_functions() -> None:
    with pytest.raises(carya.Unsupported, match=r"weight: got 2 .* give 0\.01 to 1"):
        carya.Loader(carya.dataset(code.Squares(8)).batch(4), weight=2)


def test_a_long_pass_before_the_first_batch_shows_how_far_it_is(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import time, carya\n"
        "def slow(sample):\n    time.sleep(0.01)\n    return sample < 300\n"
        "if __name__ == '__main__':\n"
        "    with carya.Loader(carya.dataset(range(512)).filter(slow).batch(100), threads=2, epochs=1) as loader:\n"
        "        print(len(loader))\n"
    )
    screen, terminal = os.openpty()
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(screen, 4096):
                shown += part
        os.close(screen)
        assert process.stdout is not None
        assert process.stdout.read() == b"3\n"
    assert re.search(rb"asking filter\(slow\) before the first batch: [1-9]\d?%", shown), shown
