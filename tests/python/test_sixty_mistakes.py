"""Sixty mistakes of new users (tests/MISTAKES.md): what each is told. This file: data, pipelines and options of loaders."""

from __future__ import annotations

import io
import os
import pickle
import re
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import picture
from PIL import Image
from said import said
from streams import numbers

import carya

HERE = Path(__file__).parent


def encoded(seed: int, kind: str = "jpeg") -> bytes:
    out = io.BytesIO()
    Image.fromarray(picture(seed, 20, 24)).save(out, kind)
    return out.getvalue()


def decoded() -> carya.Pipeline:
    return carya.image_folder("photos").decode_image()


def images(**shape: Any) -> carya.Pipeline:
    return carya.arrays({"image": np.zeros((4, 8, 8, 3), np.uint8), **shape})


def sample_of(path: Path) -> Callable[[], object]:
    return lambda: carya.files([path]).decode_image().sample(0)


# The table -----------------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_is_held_by_tests_that_are_there() -> None:
    table = (HERE.parent / "MISTAKES.md").read_text()
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| [A-D], now A\*? \| ([^|]+) \|$", table, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 61))
    for number, tests in rows:
        named = re.findall(r"`(test_\w+)::(test_\w+)`", tests)
        assert named, f"row {number} names no test"
        for file, test in named:
            assert f"def {test}(" in (HERE / f"{file}.py").read_text(), f"row {number}: {file} has no {test}"


# Paths and folders ---------------------------------------------------------------------------------------------------


def test_row_1_a_wrong_path_names_the_part_that_is_missing_and_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "imagenet" / "train").mkdir(parents=True)
    wrong = tmp_path / "imagenett" / "train"
    said(
        carya.NotFound, carya.image_folder(wrong).open,
        f"{wrong}: there is no imagenett in {tmp_path}; give a path that exists, such as {tmp_path}/imagenet/train",
    )  # fmt: skip
    text = said(carya.NotFound, carya.files([tmp_path / "a" / "b.jpg"]).open, f"there is no a in {tmp_path}; give")
    assert "such as" not in text
    said(carya.NotFound, carya.files(["no-such.jpg"]).open, f"no-such.jpg in the working folder {os.getcwd()}; give")
    os.symlink("nowhere", tmp_path / "link")
    said(carya.NotFound, carya.image_folder(tmp_path / "link").open, "is a link to what is not there; mend the link")


def test_row_2_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encoded(1))
    advice = "is a file, and no folder; give the folder that holds the class folders, or single files to carya.files"
    said(carya.NotFound, carya.image_folder(tmp_path / "a.jpg").open, f"{tmp_path}/a.jpg {advice}")


def test_row_5_a_folder_without_classes(tmp_path: Path) -> None:
    advice = f"{tmp_path}: no class folder; give a folder that holds one folder per class, or single files"
    said(carya.NotFound, carya.image_folder(tmp_path).open, advice)
    (tmp_path / "a.jpg").write_bytes(encoded(1))
    said(carya.NotFound, carya.image_folder(tmp_path).open, advice)


def test_row_6_a_class_without_files(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    said(
        carya.NotFound, carya.image_folder(tmp_path).open,
        f"{tmp_path}/cats: the class has no image file (.jpg .jpeg .png); remove the folder, or put images into it",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "(empty)"), (b"<html><body>404</body></html>", "HTML or XML"), (encoded(1)[:300], "JPEG")],
)
def test_row_7_a_file_that_is_no_picture(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "one.jpg"
    path.write_bytes(content)
    words = (f"record 0 ({path})", "decode_image: ", what, 'give on_error="replace" or "mask" to go on without it')
    said(carya.SampleError, sample_of(path), *words)
    with carya.Loader(carya.files([path]).decode_image().resize((8, 8)).batch(1)) as loader:
        said(carya.SampleError, lambda: next(iter(loader)), *words)


def test_row_8_a_format_that_is_not_decoded(tmp_path: Path) -> None:
    (tmp_path / "one.webp").write_bytes(encoded(1, "webp"))
    said(carya.SampleError, sample_of(tmp_path / "one.webp"), "not a JPEG or PNG", "WebP", "one.webp")
    (tmp_path / "one.webp").unlink()
    (tmp_path / "class").mkdir()
    for name in ("a.jpg", "b.webp"):
        (tmp_path / "class" / name).write_bytes(encoded(1))
    with pytest.warns(UserWarning, match=r"skipped 1 files .*: class/b.webp; convert them to JPEG or PNG"):
        carya.image_folder(tmp_path).open()


def test_row_9_a_random_crop_larger_than_the_image(tmp_path: Path) -> None:
    (tmp_path / "one.jpg").write_bytes(encoded(1))
    chain = carya.files([tmp_path / "one.jpg"]).decode_image().random_crop(64)
    said(
        carya.SampleError, lambda: chain.sample(0), "one.jpg", "random_crop: size: got 64x64 for an image of 24x20",
        "give at most the padded image, or pad_if_needed=True",
    )  # fmt: skip


# Batches, seeds, order -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "shown"), [(0, "0"), (-1, "-1"), (1.5, "1.5"), ("32", "'32'"), (True, "True")])
def test_row_12_a_batch_size_that_is_none(given: Any, shown: str) -> None:
    said(carya.InvalidArgument, lambda: images().batch(given), f"batch: batch_size: got {shown}; give an integer, 1 to")


def test_row_13_a_batch_larger_than_the_dataset_with_drop_last() -> None:
    said(
        carya.InvalidArgument, lambda: carya.Loader(numbers(5, batch_size=8, drop_last=True)),
        "the dataset has 5 records, fewer than one step of 8", "use drop_last=False or a smaller batch",
    )  # fmt: skip


def test_row_14_a_huge_batch_says_how_much_is_wanted_in_units() -> None:
    huge = carya.arrays({"x": np.zeros((2, 1 << 24), np.uint8)}).batch(1 << 20)  # 16 TiB a slot
    text = said(
        carya.Exhausted, lambda: carya.Loader(huge, slots=16), "slots: 16 of 16.0 TiB want 256 TiB: ",
        "iB of memory are left for slots here; give a smaller batch or image, or fewer slots=", "raise the memory limit",
    )  # fmt: skip
    assert "read_ahead" not in text


def test_row_15_a_seed_that_is_none() -> None:
    said(carya.InvalidArgument, lambda: images().shuffle(-1), "shuffle: seed: got -1; give an integer, 0 to 184467440")
    said(carya.InvalidArgument, lambda: images().shuffle("a"), "shuffle: seed: got 'a'; give an integer")
    said(carya.InvalidArgument, lambda: images().shuffle(None), "shuffle: seed: got None; give an integer of 0 or more")


def test_row_17_no_decode_or_resize_before_the_batch() -> None:
    folder = carya.image_folder("photos")
    words = ("batch: image has no fixed shape yet", "decode it and bring it to one size first", ".resize((224, 224))")
    said(carya.InvalidArgument, lambda: folder.batch(4), *words)
    said(carya.InvalidArgument, lambda: folder.decode_image().batch(4), *words)
    clips = carya.files(["a.wav"], field="audio")
    words = ("batch: audio has no fixed shape yet", "give all clips one length: add .crop_audio(seconds=...)")
    said(carya.InvalidArgument, lambda: clips.batch(4), "decode it by .decode_audio(rate=16000)", *words)
    said(carya.InvalidArgument, lambda: clips.decode_audio().batch(4), *words)
    said(carya.InvalidArgument, lambda: folder.resize(8), "resize: image is still encoded; put decode_image before")


def test_row_18_operations_in_an_order_that_cannot_be() -> None:
    said(
        carya.InvalidArgument, lambda: images().batch(2).center_crop(4),
        "center_crop: comes after batch; call .center_crop(...) before .batch(...)",
    )  # fmt: skip
    said(
        carya.InvalidArgument, lambda: decoded().normalize(0.5, 0.5).color_jitter(0.4),
        "color_jitter: image is float32[3, ?, ?]; give uint8 HWC images: put it before normalize",
    )  # fmt: skip
    said(
        carya.InvalidArgument,
        lambda: decoded().decode_image(),
        "decode_image: image is a picture already; call .decode_image() once",
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: decoded().normalize(0.5, 0), "normalize: std: got [0]; give one number, or one per channel"),
        (lambda: decoded().normalize([0.5] * 4, 1), "give mean and std with one number or one for each of 3 channels"),
        (lambda: decoded().random_horizontal_flip(2), "random_horizontal_flip: p: got 2; give a number, 0.0 to 1.0"),
        (
            lambda: decoded().resize(8, interpolation="cubic"),
            'resize: interpolation: got \'cubic\'; give one of "bilinear", "nearest"',
        ),
        (lambda: decoded().resize(8, antialias=None), "resize: antialias: got None; give True or False"),
    ],
)
def test_row_21_values_out_of_range(call: Callable[[], object], message: str) -> None:
    said(carya.InvalidArgument, call, message)


@pytest.mark.parametrize(
    ("shape", "dtype", "fact", "advice"),
    [
        ((8, 8, 3), "float64", "image float64[8, 8, 3]", '(image * 255).astype("uint8") where it is 0..1'),
        ((3, 8, 8), "uint8", "image uint8[3, 8, 8]", "image.transpose(0, 2, 3, 1) turns CHW to HWC"),
        ((8, 8), "uint8", "image uint8[8, 8]", "image[..., None] has 1"),
    ],
)
def test_row_22_arrays_that_are_no_images_for_a_crop(
    shape: tuple[int, ...], dtype: str, fact: str, advice: str
) -> None:
    data = {"image": np.zeros((4, *shape), dtype)}
    for op in ("center_crop", "random_resized_crop"):
        said(
            carya.InvalidArgument, lambda op=op: getattr(carya.arrays(data), op)(4),
            f"{op}: no image among the fields ({fact})", "give uint8 of (height, width, channels)", advice,
        )  # fmt: skip
    said(
        carya.InvalidArgument, lambda: carya.arrays({"x": np.zeros((4, 8, 8, 3), np.uint8)}).center_crop(4),
        'give the array of the images the name "image"',
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": np.arange(3), "y": np.arange(4)}, "arrays: lengths: got {'x': 3, 'y': 4}; give arrays with one row per"),
        ({"x": np.array([object()])}, "arrays: x: dtype: got 'object'; give bool, an integer or float"),
        ({"x": np.array(["a"])}, "arrays: x: dtype: got '<U1'; give bool, an integer or float"),
        ({"x": [[1, 2], [3]]}, "arrays: x: rows differ in shape; give rows of one shape: pad them"),
        ([1, 2], "arrays: data: got [1, 2]; give a mapping of names to arrays"),
    ],
)
def test_row_23_arrays_that_are_no_table(data: Any, message: str) -> None:
    said(carya.InvalidArgument, lambda: carya.arrays(data), message)


def test_row_23_arrays_without_rows() -> None:
    chain = carya.arrays({"x": np.zeros((0, 3))}).batch(2)
    said(carya.InvalidArgument, lambda: carya.Loader(chain), "arrays: the dataset is empty; give it one record or more")


@pytest.mark.parametrize("label", ["cat", 1.5, [1]])
def test_row_24_labels_that_are_no_integers(label: Any) -> None:
    said(
        carya.InvalidArgument, lambda: carya.files(["a.jpg"], labels=[label]),
        f"files: label of a.jpg: got {label!r}; give an integer of 64 bits; map class names to numbers first",
    )  # fmt: skip


# Names of other libraries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (
            lambda: carya.image_folder(root="photos"),
            "image_folder() got an unexpected keyword argument 'root'; give the path first",
        ),
        (lambda: carya.image_folder("photos", transform=len), "'transform'; append operations, as .decode_image()"),
        (lambda: images().shuffle(buffer_size=9), "'buffer_size'; leave it out: the whole of the data"),
        (lambda: carya.arrays({"x": np.arange(8)}).batch(4, collate_fn=len), "'collate_fn'; give collate="),
        (lambda: carya.arrays({"x": np.arange(8)}).batch(4, droplast=True), "'droplast'; give drop_last="),
        (lambda: images().resize(8, interp=1), "resize() got an unexpected keyword argument 'interp'; give"),
        (lambda: images().resize(8, interpolaton=1), "'interpolaton'; give interpolation="),
    ],
)
def test_row_25_an_argument_that_is_not_there(call: Any, advice: str) -> None:
    said(TypeError, call, advice)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("random_resize_crop", "give .random_resized_crop;"),
        ("RandomResizedCrop", "give .random_resized_crop;"),
        ("shufle", "give .shuffle;"),
        ("apply", "give .map(fn)"),
        ("ToTensor", 'give .to_dtype("float32", scale=True).to_layout("CHW")'),
        ("repeat", "give Loader(epochs=)"),
        ("cache", 'give Loader(cache="auto")'),
        ("concatenate", "give carya.mix([one, another])"),
        ("qqq", "give another;"),
    ],
)
def test_row_25_an_operation_that_is_not_there(name: str, advice: str) -> None:
    said(
        AttributeError, lambda: getattr(images(), name), f"carya.Pipeline: got .{name}, which is no operation;", advice,
        "docs/reference/ops.md",
    )  # fmt: skip
    assert not hasattr(carya.ops(), name)
    assert not hasattr(images(), "__array__")


ADVICE = {
    "name": "give job=",
    "num_workers": "give threads=",
    "collate_fn": "pipeline.batch(n, collate=fn)",
    "sampler": "pipeline.shuffle(seed=...) or .subset(indices)",
    "batch_sampler": "rank= and world_size=",
    "epoch": "loader.set_epoch(epoch)",
    "prefetch_factor": "give slots=",
    "persistent_workers": "leave it out: no worker process",
    "drop_last": "pipeline.batch(n, drop_last=True)",
    "drop_remainder": "pipeline.batch(n, drop_last=True)",
    "worker_init_fn": "leave it out: no worker process",
    "generator": "give seed=",
    "timeout": "give io_timeout=",
    "shuffle": "pipeline.shuffle(seed=...)",
    "batch_size": "pipeline.batch(batch_size)",
    "slot": "which is no option; give slots=",
    "zzz": "which is no option; give one of help(carya.Loader)",
}


@pytest.mark.parametrize("name", ADVICE)
def test_row_26_options_of_other_loaders(name: str) -> None:
    said(TypeError, lambda: carya.Loader(numbers(8, batch_size=4), **{name: 3}), f"Loader: got {name}=3", ADVICE[name])


def test_row_26_every_loader_tells_and_names_its_own_options() -> None:
    chain = numbers(8, batch_size=4)
    said(TypeError, lambda: carya.Loader(chain, 32), "Loader: got 32 behind the pipeline; give options by name")
    said(TypeError, lambda: carya.Loader(chain, pin_memory=True), "give it to carya.torch.Loader")
    both = said(TypeError, lambda: carya.Loader(chain, num_workers=1, timeout=2), "got num_workers=1", "got timeout=2")
    assert both.count("Loader: ") == 1


def test_row_26_the_loaders_of_torch_and_jax_tell_too() -> None:
    chain = numbers(8, batch_size=4)
    pytest.importorskip("torch")
    import carya.torch

    said(TypeError, lambda: carya.torch.Loader(chain, num_workers=2), "got num_workers=2", "give threads=")
    said(TypeError, lambda: carya.torch.Loader(chain, pin_memry=True), "give pin_memory=")
    pytest.importorskip("jax")
    import carya.jax

    said(TypeError, lambda: carya.jax.Loader(chain, sampler=2), "got sampler=2")
    said(TypeError, lambda: carya.jax.Loader(chain, shardin=2), "give sharding=")


class _Dataset:
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return index


def test_row_27_something_else_than_a_pipeline() -> None:
    for given, advice in (
        (_Dataset(), "an object of type _Dataset; give a pipeline of it: carya.dataset(it).batch(32)"),
        ("data/train", "got 'data/train'; give a pipeline of it: carya.image_folder('data/train').decode_image()"),
        ({"x": np.arange(3)}, "give a pipeline of the arrays: carya.arrays("),
        (np.arange(3), "give a pipeline of the arrays: carya.arrays("),
        (
            7,
            "got 7; give a pipeline: carya.image_folder(path), files, webdataset, tfrecord, mds, arrow, hf_dataset, arrays or dataset",
        ),
    ):
        said(carya.InvalidArgument, lambda given=given: carya.Loader(given), "Loader: pipeline: got ", advice)
    said(carya.InvalidArgument, lambda: carya.Loader(images()), "it has no batch; give one that ends with .batch(n)")


# A loader's life -----------------------------------------------------------------------------------------------------


def test_row_28_more_epochs_than_there_are() -> None:
    with carya.Loader(numbers(8, batch_size=4), epochs=1) as loader:
        assert len(list(loader)) == 2
        said(carya.Closed, lambda: list(loader), "epoch 1 does not exist, epochs=1; give more epochs, or go back with")


def test_rows_29_and_30_a_closed_loader_and_an_overtaken_iterator() -> None:
    loader = carya.Loader(numbers(8, batch_size=4))
    first, second = iter(loader), iter(loader)
    next(first), next(second)
    said(carya.InvalidArgument, lambda: next(first), "overtaken by a newer one", "keep one `for` at a time, or make a")
    loader.close()
    said(carya.Closed, lambda: iter(loader), "Loader: it is closed; make a new one")


def test_row_34_a_loader_that_is_pickled() -> None:
    with carya.Loader(numbers(8, batch_size=4)) as loader:
        said(TypeError, lambda: pickle.dumps(loader), "cannot pickle", "pickle loader.pipeline and loader.state_dict()")


@pytest.mark.parametrize(
    "op",
    [
        lambda p: p.random_horizontal_flip(),
        lambda p: p.color_jitter(0.4),
        lambda p: p.gaussian_blur(3),
        lambda p: p.random_apply(carya.ops().invert()),
        lambda p: p.two_views(carya.ops().random_resized_crop(8)),
    ],
)
def test_row_35_a_dataloader_that_takes_samples_one_by_one(photos: Path, op: Any) -> None:
    data = pytest.importorskip("torch.utils.data")
    chain = op(carya.image_folder(photos).decode_image().resize((8, 8)))
    one_by_one = data.DataLoader(chain, batch_size=None)
    said(
        carya.Unsupported, lambda: next(iter(one_by_one)), "DataLoader(pipeline, batch_size=None): it does not tell the",
        "use carya.torch.Loader(pipeline.batch(n))", "pipeline.sample(i, epoch=epoch)",
    )  # fmt: skip


def test_row_35_a_loop_over_samples_is_told_when_it_begins_anew(photos: Path) -> None:
    chain = carya.image_folder(photos).decode_image().random_resized_crop(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index in range(len(chain)):  # one pass is right: it is epoch 0
            chain[index]
        list(carya.image_folder(photos).decode_image().random_resized_crop(8))
        chain.random_horizontal_flip()[0]  # another pipeline
    with pytest.warns(
        RuntimeWarning, match=r"pipeline\[i\]: .*same augmentation; use .*pipeline.sample\(i, epoch=epoch"
    ):
        chain[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain[0]  # said once
        plain = carya.image_folder(photos).decode_image().resize((8, 8))
        assert len([*plain, *plain]) == 54  # nothing is random in it


class _Samples:
    """A Dataset of the user's own around a pipeline."""

    def __init__(self, chain: carya.Pipeline) -> None:
        self.chain = chain

    def __len__(self) -> int:
        return len(self.chain)

    def __getitem__(self, index: int) -> int:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.chain[index]
        return sum("same augmentation" in str(warning.message) for warning in told)


def test_row_35_a_worker_of_a_dataloader_is_told_at_once(photos: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    chain = carya.image_folder(photos).decode_image().random_resized_crop(8)
    loader = data.DataLoader(_Samples(chain), batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert sum(int(told) for told in loader) == 2  # each of the two workers


def test_row_37_a_file_that_is_no_plan(tmp_path: Path) -> None:
    path, chain = tmp_path / "plan.json", numbers(8, batch_size=4)
    path.write_text('{"carya_plan": 1,\n  hello}')
    advice = "; give a plan file, which `carya plan freeze PIPELINE -o PLAN` writes, or leave plan= out"
    text = said(
        carya.InvalidArgument, lambda: carya.Loader(chain, plan=path),
        f"plan: {str(path)!r}: no JSON at line 2, column 3, near ", advice,
    )  # fmt: skip
    assert "nlohmann" not in text
    assert "json.exception" not in text
    path.write_text("{}")
    said(carya.InvalidArgument, lambda: carya.Loader(chain, plan=path), f"{str(path)!r}: has no key carya_plan", advice)
    said(
        carya.NotFound,
        lambda: carya.Loader(chain, plan=tmp_path / "none.json"),
        "none.json",
        "make one: carya plan freeze",
    )


def test_row_38_files_that_change_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / f"{number:02}.jpg" for number in range(12)]
    for number, path in enumerate(paths):
        path.write_bytes(encoded(number))
    chain = carya.files(paths).decode_image().resize((8, 8)).batch(4)
    listed = chain.open()
    monkeypatch.setattr(carya.Pipeline, "open", lambda _: listed)  # they change after a loader has listed them
    whole = paths[11].read_bytes()
    advice = "list it anew: pipeline.open(verify=True), then make a new Loader"
    for content, what in (
        (b"x" * 9, "got 9 B; the dataset changed: "),
        (whole + b"x" * 9, "the file has grown past the "),
        (whole, f"it changed since it was listed (written again with the same {len(whole)} B); "),
        (None, "No such file or directory; the dataset changed: "),
    ):
        paths[11].unlink()
        if content is not None:
            paths[11].write_bytes(content[:2] + bytes(len(content) - 2) if "again" in what else content)
        with carya.Loader(chain, io_timeout=0.05) as loader:
            said(carya.IoError, lambda loader=loader: list(loader), f"record 11 ({paths[11]})", what, advice)


def test_row_40_a_rank_beyond_the_world() -> None:
    chain = numbers(8, batch_size=4)
    said(
        carya.InvalidArgument,
        lambda: carya.Loader(chain, rank=2, world_size=2),
        "rank: got 2; give 0 to 1 for world_size",
    )
    said(
        carya.InvalidArgument,
        lambda: carya.Loader(chain, rank=-1, world_size=2),
        "Loader: rank: got -1; give an integer",
    )


def test_row_56_a_function_that_raises() -> None:
    def wrong(batch: carya.Batch) -> Any:
        return batch["y"]

    with (
        carya.Loader(numbers(8, batch_size=4).map_batch(wrong)) as loader,
        pytest.raises(KeyError, match="y") as caught,
    ):
        next(iter(loader))
    assert "wrong" in [entry.name for entry in caught.traceback]


# Tars ----------------------------------------------------------------------------------------------------------------


def write_tar(path: Path, count: int, first: int = 0) -> Path:
    with tarfile.open(path, "w") as file:
        for number in range(first, first + count):
            for name, content in ((f"{number}.jpg", encoded(number)), (f"{number}.cls", b"1")):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
    return path


def test_row_57_what_is_no_tar(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"<html>" * 200)
    said(
        carya.SampleError, carya.webdataset(tmp_path / "a.tar").open, f"tar {tmp_path}/a.tar @0: not a tar header",
        "the tar is damaged, or is none: copy or make it again",
    )  # fmt: skip
    with tarfile.open(tmp_path / "b.tar", "w") as file:
        info = tarfile.TarInfo("0.jpg")
        file.addfile(info, io.BytesIO())
    said(
        carya.NotFound, carya.webdataset(tmp_path / "b.tar").open, f"tar {tmp_path}/b.tar: key 0 has no .cls",
        "name the extensions that its keys have",
    )  # fmt: skip


def test_row_58_a_tar_whose_only_image_is_cut_off_is_told_as_that(tmp_path: Path) -> None:
    whole = write_tar(tmp_path / "whole.tar", 1)
    with tarfile.open(whole) as file:
        first = file.getmembers()[0]
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole.read_bytes()[: first.offset_data + 100])
    said(
        carya.NotFound,
        lambda: carya.webdataset(cut).open(),
        f"tar {cut}: member {first.name} is cut off or no tar, and no other key has .",
        "; copy or make the tar again",
    )


def test_row_58_a_tar_that_is_cut_off_between_two_members_is_told(tmp_path: Path) -> None:
    whole = write_tar(tmp_path / "whole.tar", 3)
    with tarfile.open(whole) as file:
        ends = [member.offset_data + -(-member.size // 512) * 512 for member in file.getmembers()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert carya.webdataset(whole).open().count == 3
    for end, count in ((ends[1], 1), (ends[3], 2), (ends[2], 2)):  # between two keys, and inside of one
        cut = tmp_path / f"cut{end}.tar"
        cut.write_bytes(whole.read_bytes()[:end])
        for _ in range(2):  # also from the kept index
            with pytest.warns(UserWarning, match=rf"1 of 2 tars have no end mark: {cut}; .* compare its size"):
                dataset = carya.webdataset([whole, cut]).open()
        assert dataset.count == 3 + count


@pytest.mark.parametrize(
    "opens",
    [
        lambda tars: tars.open(),
        lambda tars: len(tars),
        lambda tars: carya.Loader(tars.decode_image().resize((8, 8)).batch(1), threads=1).close(),
        lambda tars: carya.Loader(tars.map(str).batch(1), threads=1).close(),
    ],
)
def test_a_tar_without_an_end_mark_is_told_at_the_line_of_the_user(tmp_path: Path, opens: Any) -> None:
    whole = write_tar(tmp_path / "whole.tar", 3)
    with tarfile.open(whole) as file:
        member = file.getmembers()[1]
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole.read_bytes()[: member.offset_data + -(-member.size // 512) * 512])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        opens(carya.webdataset(cut))
    assert {one.filename for one in found if "no end mark" in str(one.message)} == {__file__}
