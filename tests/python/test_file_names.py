"""Files whose names are no UTF-8: they are listed, named in errors and found again, as os.fsdecode names them."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from PIL import Image

import carya


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A class folder, a photo and junk whose names are no UTF-8, with a second class that is plain."""
    folder = os.fsencode(tmp_path / "nu")
    try:
        os.makedirs(folder + b"/cl\xff")
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    os.mkdir(folder + b"/plain")
    for path in (b"/cl\xff/p\xfe.jpg", b"/plain/a.jpg"):
        with open(folder + path, "wb") as file:
            Image.new("RGB", (16, 16)).save(file, "jpeg")
    Path(os.fsdecode(folder + b"/cl\xff/q\xfd.jpg")).write_bytes(b"no picture at all\n" * 8)
    return tmp_path / "nu"


def chain(source: carya.Pipeline, size: int = 3) -> carya.Pipeline:
    return source.decode_image().resize((8, 8)).batch(size)


def test_a_broken_file_is_named_in_the_error(odd: Path) -> None:
    with carya.Loader(chain(carya.image_folder(odd))) as loader:
        with pytest.raises(carya.SampleError) as caught:
            next(iter(loader))
        assert os.fsencode(caught.value.path).endswith(b"cl\xff/q\xfd.jpg")
        assert "cl\\xff/q\\xfd.jpg" in str(caught.value)
        str(caught.value).encode()  # can be printed


def test_a_broken_file_is_named_in_quarantine(odd: Path) -> None:
    with carya.Loader(chain(carya.image_folder(odd)), on_error="mask") as loader:
        assert [batch.valid.tolist() for batch in loader] == [[True, False, True]]
        (entry,) = loader.quarantine()
    assert os.fsencode(entry["path"]).endswith(b"cl\xff/q\xfd.jpg")
    assert os.path.exists(entry["path"])


def test_classes_and_addresses_are_named(odd: Path) -> None:
    pipeline = carya.image_folder(odd)
    assert [os.fsencode(name) for name in pipeline.class_names] == [b"cl\xff", b"plain"]
    assert os.fsencode(pipeline.address(0)["path"]).endswith(b"cl\xff/p\xfe.jpg")


def test_a_skipped_file_is_named_and_the_rest_opens(odd: Path) -> None:
    Path(os.fsdecode(os.fsencode(odd) + b"/plain/notes\xfc.txt")).write_text("x")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert len(carya.image_folder(odd)) == 3
    assert any("notes\udcfc.txt" in str(warning.message) for warning in seen)


def test_a_missing_file_is_named(odd: Path) -> None:
    pipeline = carya.image_folder(odd)
    assert len(pipeline) == 3
    os.remove(os.fsencode(odd) + b"/cl\xff/p\xfe.jpg")
    with pytest.raises(carya.Error, match=r"p\\xfe\.jpg"):
        pipeline.decode_image().sample(0)
