"""`carya index` of the formats over kept libraries: what it keeps is what a pipeline then uses, and nothing is made twice."""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
from conftest import picture
from PIL import Image
from test_beton import stored

import carya

pytest.importorskip("typer")
pytest.importorskip("rich")

run = functools.partial(commands.run, "index")


def index(*words: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--json"))
    return found


def kept_files() -> dict[str, int]:
    """Everything in the cache folder, and when it was made."""
    root = Path(os.environ["CARYA_CACHE_DIR"])
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


def parquet(path: Path, count: int = 60) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    def jpeg(number: int) -> bytes:
        out = io.BytesIO()
        Image.fromarray(picture(number, 40, 40)).save(out, "jpeg")
        return out.getvalue()

    columns = {"image": [jpeg(n) for n in range(count)], "label": range(count), "x": np.arange(count) / 2}
    pq.write_table(pa.table(columns), path, row_group_size=20)
    return path


def test_row_groups_are_unpacked_for_the_columns_of_the_training(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet")
    told = index(path, "--columns", "label, x")
    assert (told["is"], told["records"], len(told["kept"])) == ("parquet", 60, 1)
    assert sorted(os.listdir(told["kept"][0]["path"])) == [f"000000-00000{n}.arrow" for n in range(3)]
    assert told["kept_bytes"] == told["kept"][0]["bytes"] > 0
    before = kept_files()
    rows = carya.parquet(path, columns=["label", "x"])
    assert [int(rows[i]["label"]) for i in range(60)] == list(range(60))
    assert kept_files() == before
    assert index(path)["kept"][0]["path"] != told["kept"][0]["path"]  # all columns are another matter
    assert "keeps " in run(path)


def test_images_in_parquet_get_a_decode_index_too(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet")
    told = index(path, "--image", "image", "--label", "label", "--decode-index", "8")
    assert (told["records"], told["decode_index"]) == (60, 8)
    before = kept_files()
    pipeline = carya.parquet(path, image="image", label="label").decode_image()
    assert [int(pipeline[i]["label"]) for i in (0, 59)] == [0, 59]
    assert {name: time for name, time in kept_files().items() if name in before} == before
    assert not [name for name in kept_files() if name.endswith(".arrow") and name not in before]


def test_images_in_lmdb_and_beton_get_one(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    out = io.BytesIO()
    Image.fromarray(picture(1, 80, 80)).save(out, "jpeg")
    with lmdb.open(str(tmp_path / "db")) as env, env.begin(write=True) as transaction:
        for n in range(5):
            transaction.put(b"%d" % n, out.getvalue())
    told = index(tmp_path / "db", "--image", "value", "--decode-index", "8")
    assert (told["records"], told["decode_index"]) == (5, 8)
    told = index(stored(tmp_path), "--image", "photo", "--label", "label", "--decode-index", "8")
    assert (told["records"], told["decode_index"]) == (12, 8)
    assert "keeps nothing" in run(tmp_path / "db")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "text"])
def test_compressed_text_is_unpacked(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{'txt' if kind == 'text' else kind}.gz"
    lines = [json.dumps({"x": n}) for n in range(50)] if kind == "jsonl" else ["x", *map(str, range(50))]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    told = index(path)
    assert (told["is"], told["records"], len(told["kept"])) == (kind, 51 if kind == "text" else 50, 1)
    before = kept_files()
    assert carya.open(path)[49]["text" if kind == "text" else "x"] == ("48" if kind == "text" else 49)
    assert kept_files() == before


def test_where_lines_begin_is_kept_of_large_files(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("x\ty\n" + ("1\t" + "y" * 998 + "\n") * 9000)
    told = index(path)
    assert told["records"] == 9000
    assert [Path(one["path"]).name.split("-")[0] for one in told["kept"]] == ["lines"]
    before = kept_files()
    assert carya.open(path)[8999]["x"] == 1
    assert kept_files() == before


def test_compressed_arrays_are_unpacked(tmp_path: Path) -> None:
    for number in range(2):
        np.savez_compressed(tmp_path / f"{number}.npz", x=np.arange(30), y=np.ones((30, 2)))
    told = index(tmp_path / "*.npz")
    assert (told["is"], told["records"], len(told["kept"])) == ("npz", 60, 2)
    before = kept_files()
    assert carya.npz(tmp_path / "*.npz")[59]["x"] == 29
    assert kept_files() == before


def test_it_says_why_it_keeps_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    assert "keeps nothing: files are mapped as they lie" in run(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    assert index(tmp_path / "a.npz")["why_nothing"].startswith("arrays are not compressed")
    (tmp_path / "a.jsonl").write_text("1\n")
    assert index(tmp_path / "a.jsonl")["why_nothing"].endswith("files of less than 8 MiB")


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("1\n")
    path = parquet(tmp_path / "a.parquet")
    for words, said in (
        ((tmp_path / "a.jsonl", "--image", "image"), "jsonl has no such columns; leave them out"),
        ((tmp_path / "a.jsonl", "--columns", "x"), "give it of Parquet files alone"),
        ((path, "--label", "label"), "give the column of the image too"),
        ((path, "--columns", "none"), "has no column 'none'; give some of image, label, x"),
        ((tmp_path / "absent.jsonl",), "absent.jsonl"),
    ):
        error = run(*words, code=1)
        assert said in error
        assert error.count("\n") == 1
    data = bytearray(path.read_bytes())
    data[100:4000] = bytes(3900)
    path.write_bytes(data)
    error = run(path, code=1)
    assert "row group 0" in error
    assert error.count("\n") == 1


def test_a_folder_without_pictures_is_not_taken_for_classes(tmp_path: Path) -> None:
    (tmp_path / "year=2020").mkdir()
    parquet(tmp_path / "year=2020" / "a.parquet")
    assert "no pictures, but parquet (year=2020/a.parquet)" in run(tmp_path, code=1)


def test_what_is_no_format_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 20)
    said = run(tmp_path / "x.bin", code=1)
    assert "x.bin: its name and its first bytes are of no format that is known, and it is no tar either; give" in said
    assert "tfrecord, mds, arrow" in said
    (tmp_path / "x.tar").write_bytes(bytes(range(256)) * 20)
    assert "x.tar @0: not a tar header" in run(tmp_path / "x.tar", code=1), "its name says that it is to be one"
