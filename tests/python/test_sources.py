"""Where records come from, and what is said when they do not."""

from __future__ import annotations

import io
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import picture
from PIL import Image

import carya


def test_image_folder_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(carya.NotFound) as caught:
        carya.image_folder(tmp_path / "nowhere").open()
    assert "nowhere" in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(carya.NotFound):
        carya.image_folder(tmp_path).open()
    (tmp_path / "class").mkdir()
    with pytest.raises(carya.NotFound, match="class"):
        carya.image_folder(tmp_path).open()


def test_image_folder_skips_and_names_other_files(photos: Path, tmp_path: Path) -> None:
    os.symlink(photos / "class_a", tmp_path / "linked")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "notes.txt").write_text("no picture")
    Image.fromarray(picture(1, 20, 20)).save(tmp_path / "real" / "one.png")
    with pytest.warns(UserWarning, match=r"notes\.txt"):
        dataset = carya.image_folder(tmp_path).open()
    assert dataset.class_names == ["linked", "real"]
    assert dataset.count == 10


def test_the_second_listing_comes_from_disk(photos: Path) -> None:
    first = again = carya.image_folder(photos).open()
    deadline = time.monotonic() + 300
    while not again.from_cache and time.monotonic() < deadline:  # a folder that changed just now is not trusted yet
        time.sleep(0.2)
        again = carya.image_folder(photos).open()
    assert again.from_cache
    assert again.fingerprint == first.fingerprint
    assert carya.image_folder(photos).open(verify=True).fingerprint == first.fingerprint


def test_files_with_labels_and_masks_are_cut_alike(tmp_path: Path) -> None:
    images, masks = [], []
    for number in range(6):
        pixels = picture(number, 50, 60)
        images.append(tmp_path / f"{number}.png")
        masks.append(tmp_path / f"{number}_mask.png")
        Image.fromarray(pixels).save(images[-1])
        Image.fromarray(pixels).save(masks[-1])  # the same picture: then both must stay equal
    chain = carya.files(images, labels=lambda path: int(Path(path).stem), extra={"mask": masks})
    chain = chain.shuffle(seed=1).decode_image().random_resized_crop(24, extra_interpolation="bilinear")
    chain = chain.random_horizontal_flip().random_vertical_flip()
    with carya.Loader(chain.batch(3)) as loader:
        for batch in loader:
            assert set(batch) == {"image", "mask", "label"}
            assert np.array_equal(batch["image"], batch["mask"])
            assert batch["label"].tolist() == batch.records.tolist()


def test_files_by_glob_are_in_bytewise_order(photos: Path) -> None:
    chain = carya.files(f"{photos}/**/*.jpg")
    assert len(chain) == 24
    paths = [chain.address(i)["path"] for i in range(24)]
    assert [os.fsencode(path) for path in paths] == sorted(os.fsencode(path) for path in paths)
    with pytest.raises(carya.NotFound, match="nothing matches"):
        carya.files(f"{photos}/*.gif")
    with pytest.raises(carya.NotFound, match=r"gone\.jpg"):
        carya.files([*paths, "gone.jpg"]).open()


@pytest.mark.parametrize("labels", [[1], [0.5] * 2, ["a", "b"], [True, False]])
def test_files_refuses_labels_that_are_no_integers_or_too_few(labels: Any) -> None:
    with pytest.raises(carya.InvalidArgument, match="label"):
        carya.files(["a.jpg", "b.jpg"], labels=labels)


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def encoded(seed: int, kind: str = "JPEG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(seed, 40, 48)).save(buffer, kind)
    return buffer.getvalue()


def test_webdataset_groups_members_by_key(tmp_path: Path) -> None:
    for shard in range(2):
        members = []
        for number in range(5):
            key = f"train/{shard}{number}"
            members += [
                (f"{key}.jpg", encoded(10 * shard + number)),
                (f"{key}.seg.png", encoded(10 * shard + number, "PNG")),
                (f"{key}.cls", str(10 * shard + number).encode()),
            ]
        write_tar(tmp_path / f"part-{shard:03d}.tar", members)
    pattern = str(tmp_path / "part-{000..001}.tar")
    chain = carya.webdataset(pattern, fields={"image": ["jpg"], "mask": ["seg.png"]}).shuffle(seed=2).decode_image()
    assert len(chain) == 10
    assert chain.address(0)["member"].endswith("00.jpg")
    seen = []
    with carya.Loader(chain.resize((16, 16)).batch(4)) as loader:
        for batch in loader:
            seen += batch["label"].tolist()
            assert batch["mask"].shape == batch["image"].shape
    assert sorted(seen) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    for number in (0, 7):
        sample = carya.webdataset(pattern).decode_image()[number]
        label = int(sample["label"])
        assert np.array_equal(sample["image"], np.asarray(Image.open(io.BytesIO(encoded(label)))))


def test_webdataset_notices_a_changed_tar(tmp_path: Path) -> None:
    tar = tmp_path / "a.tar"
    write_tar(tar, [("0.jpg", encoded(1)), ("0.cls", b"1")])
    first = carya.webdataset(str(tar)).open()
    write_tar(tar, [("0.jpg", encoded(1)), ("0.cls", b"1"), ("1.jpg", encoded(2)), ("1.cls", b"2")])
    again = carya.webdataset(str(tar)).open()
    assert (first.count, again.count) == (1, 2)
    assert first.fingerprint != again.fingerprint


def test_a_webdataset_key_that_lacks_something_is_a_broken_record(tmp_path: Path) -> None:
    whole = [("0.jpg", encoded(1)), ("0.cls", b"1")]
    write_tar(tmp_path / "a.tar", [*whole, ("lonely.cls", b"2"), ("plain.jpg", encoded(2))])
    write_tar(tmp_path / "b.tar", [("x.jpg", encoded(3)), ("x.cls", b"3"), ("cut.cls", b"4"), ("cut.jpg", encoded(4))])
    appended = (tmp_path / "b.tar").read_bytes()[: 512 * 8]  # behind an end mark, and cut off inside cut.jpg
    with (tmp_path / "a.tar").open("ab") as file:
        file.write(appended)
    chain = carya.webdataset(tmp_path / "a.tar").decode_image().resize((8, 8)).batch(5)
    with carya.Loader(chain, on_error="mask") as loader:
        batch = next(iter(loader))
        assert batch.valid.tolist() == [True, False, False, True, False]
        assert batch["label"][batch.valid].tolist() == [1, 3]
        assert [entry["member"] for entry in loader.quarantine()] == [
            "lonely (has no .jpg or .jpeg or .png)", "plain.jpg", "cut (has no .jpg or .jpeg or .png)",
        ]  # fmt: skip
    with carya.Loader(chain) as loader, pytest.raises(carya.SampleError, match=r"member lonely \(has no .jpg"):
        next(iter(loader))


def test_hidden_members_of_a_webdataset_are_passed_over(tmp_path: Path) -> None:
    members = [("./.DS_Store", b"x")]
    for n in range(3):
        for name, data in ((f"{n}.jpg", encoded(n)), (f"{n}.cls", str(n).encode())):
            members += [(f"./._{name}", b"AppleDouble"), (f"./{name}", data)]  # as tar of macOS packs them
    write_tar(tmp_path / "a.tar", members)
    pipeline = carya.webdataset(tmp_path / "a.tar").decode_image()
    assert len(pipeline) == 3
    assert [int(pipeline[n]["label"]) for n in range(3)] == [0, 1, 2]


def test_what_a_webdataset_key_lacks_never_reaches_a_function(tmp_path: Path) -> None:
    members = [("0.txt", b"one"), ("0.json", b"1"), ("1.txt", b"two"), ("2.txt", b""), ("2.json", b"3")]
    write_tar(tmp_path / "a.tar", members)
    source = carya.webdataset(tmp_path / "a.tar", fields={"text": ["txt"], "more": ["json"]}, label=None)
    assert source[2]["text"].size == 0  # a member that is empty is one
    with pytest.raises(carya.SampleError, match=r"1 \(has no \.json\): there are no bytes of it"):
        source[1]
    pipeline = source.map(bytes, fields="more").batch(3, lists=["text", "more"])
    with carya.Loader(pipeline, threads=1, epochs=1, on_error="mask") as loader:
        (batch,) = loader
        assert batch.valid.tolist() == [True, False, True]
        assert [batch["more"][n] for n in (0, 2)] == [b"1", b"3"]
        assert [entry["record"] for entry in loader.quarantine()] == [1]


def test_a_webdataset_of_other_extensions_is_refused(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("0.webp", encoded(1)), ("0.cls", b"1")])
    with pytest.raises(carya.NotFound, match=r"key 0 has no .jpg or .jpeg or .png, and no other key has it"):
        carya.Loader(carya.webdataset(tmp_path / "a.tar").decode_image().resize((8, 8)).batch(1))


def test_images_that_cannot_be_decoded_are_not_listed(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.webp", "c.TIFF"):
        (tmp_path / "class").mkdir(exist_ok=True)
        (tmp_path / "class" / name).write_bytes(encoded(1))
    with pytest.warns(UserWarning, match=r"skipped 2 files with other extensions: .*b.webp"):
        assert len(carya.image_folder(tmp_path)) == 1


def test_arrays_deliver_their_rows_unchanged(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    data: dict[str, Any] = {
        "image": random.integers(0, 256, (20, 5, 6, 3), np.uint8),
        "wide": random.normal(size=(20, 3)).astype(np.float64),
        "half": random.normal(size=20).astype(np.float16),
        "flag": random.random(20) < 0.5,
        "label": np.arange(20, dtype=np.int16),
    }
    np.save(tmp_path / "image.npy", data["image"])
    chain = carya.arrays({**data, "image": tmp_path / "image.npy"}).shuffle(seed=1).batch(6)
    with carya.Loader(chain) as loader:
        for batch in loader:
            for name, values in data.items():
                assert batch[name].dtype == values.dtype
                assert np.array_equal(batch[name], values[batch.records])


def test_arrays_that_are_not_contiguous_are_taken() -> None:
    base = np.arange(24).reshape(4, 6)
    chain = carya.arrays({"x": base.T})
    assert [chain[i]["x"].tolist() for i in range(6)] == base.T.tolist()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"x": np.array(1)},
        {"x": np.arange(3), "y": np.arange(4)},
        {"x": np.array(["a"])},
        {"x": np.array([object()])},
        {"x": np.arange(3).astype(">i4")},
        {"x": np.zeros(3, np.complex64)},
        [1, 2],
    ],
)
def test_arrays_refuses_what_is_no_table_of_numbers(data: Any) -> None:
    with pytest.raises(carya.InvalidArgument, match="arrays"):
        carya.arrays(data)


def test_arrays_from_a_document_need_the_same_memory() -> None:
    data = {"x": np.arange(6)}
    text = carya.arrays(data).shuffle(seed=1).batch(3).to_json()
    with pytest.raises(carya.InvalidArgument, match="arrays="):
        carya.Pipeline.from_json(text).open()
    with pytest.raises(carya.InvalidArgument, match="same arrays"):
        carya.Pipeline.from_json(text, arrays={"x": np.arange(6) + 1})
    assert len(carya.Pipeline.from_json(text, arrays=data)) == 6
