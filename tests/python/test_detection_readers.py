"""Annotations of Pascal VOC, YOLO and Open Images, compared with a plain reading of the same files."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import carya

HEIGHT, WIDTH, COUNT = 40, 80, 7
NAMES = ["dog", "cat", "person"]
FIELDS = {"labels": "int64", "areas": "float32", "crowd": "bool", "object_ids": "int64"}


def photos(folder: Path, count: int = COUNT) -> None:
    image = pytest.importorskip("PIL.Image")
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        image.fromarray(np.full((HEIGHT, WIDTH, 3), i, np.uint8)).save(folder / f"p{i}.png")


def drawn() -> list[list[tuple[int, np.ndarray]]]:
    """The objects of each picture: a label, and left, top, right, bottom in whole pixels; picture i has i."""
    rng = np.random.default_rng(9)
    found = []
    for i in range(COUNT):
        begin = rng.integers(0, [40, 20], (i, 2))
        boxes = np.concatenate([begin, begin + rng.integers(2, 20, (i, 2))], axis=1)
        found.append([(int(rng.integers(3)), box) for box in boxes])
    return found


def voc_text(i: int, objects: list[tuple[int, np.ndarray]]) -> str:
    parts = [
        f"<object><name>{NAMES[label]}</name><difficult>{k % 2}</difficult>"
        f"<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
        f"<bndbox><ymax>{box[3]}</ymax><xmax>{box[2]}</xmax><xmin>{box[0] + 1}</xmin><ymin>{box[1] + 1}.0</ymin></bndbox>"
        "</object>"
        for k, (label, box) in enumerate(objects)
    ]
    return f"<?xml version='1.0'?><annotation><filename>p{i}.png</filename>{''.join(parts)}</annotation>"


def write_voc(root: Path) -> carya.Pipeline:
    photos(root / "JPEGImages")
    (root / "Annotations").mkdir()
    for i, objects in enumerate(drawn()):
        (root / "Annotations" / f"p{i}.xml").write_text(voc_text(i, objects))
    return carya.voc(root, classes=NAMES)


def write_yolo(root: Path) -> carya.Pipeline:
    photos(root / "images" / "train")
    folder = root / "labels" / "train"
    folder.mkdir(parents=True)
    (root / "labels" / "classes.txt").write_text("\n".join(NAMES))
    for i, objects in enumerate(drawn()):
        lines = []
        for k, (label, box) in enumerate(objects):
            left, top, right, bottom = box / np.array([WIDTH, HEIGHT] * 2)
            if k % 3 == 2:  # an outline
                lines.append(f"{label} {left} {(top + bottom) / 2} {right} {bottom} {(left + right) / 2} {top}")
            else:
                lines.append(f"{label} {(left + right) / 2} {(top + bottom) / 2} {right - left} {bottom - top}")
        if lines:
            (folder / f"p{i}.txt").write_text("\n".join(lines) + "\r\n")
    return carya.yolo(root / "images", root / "labels")


COLUMNS = ["ImageID", "Source", "LabelName", "XMin", "XMax", "YMin", "YMax", "IsGroupOf"]


def write_open_images(root: Path) -> carya.Pipeline:
    photos(root)
    rows = []
    for i, objects in enumerate(drawn()):
        for k, (label, box) in enumerate(objects):
            left, top, right, bottom = box / np.array([WIDTH, HEIGHT] * 2)
            rows.append([f"p{i}", "a, b", NAMES[label], left, right, top, bottom, k % 2])
    order = np.random.default_rng(2).permutation(len(rows))
    with open(root / "boxes.csv", "w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *(rows[k] for k in order)])
    with open(root / "classes.csv", "w", newline="") as file:
        csv.writer(file).writerows([["LabelName", "DisplayName"], *([name, name.upper()] for name in NAMES)])
    return carya.open_images(root, root / "boxes.csv", classes=root / "classes.csv", extension=".png")


WRITERS = {"voc": write_voc, "yolo": write_yolo, "open_images": write_open_images}


@pytest.mark.parametrize("kind", WRITERS)
def test_pictures_have_the_objects_of_their_annotations(kind: str, tmp_path: Path) -> None:
    source = WRITERS[kind](tmp_path)
    chain = source.shuffle(seed=3).decode_image().boxes(relative=kind != "voc").random_horizontal_flip(p=1.0)
    chain = chain.crop(0, 0, HEIGHT, WIDTH)
    expected = drawn()
    seen = set()
    with carya.Loader(chain.batch(2), epochs=1, threads=1) as loader:
        for batch in loader:
            for row, count in enumerate(batch["boxes_count"]):
                number = int(batch["image"][row, 0, 0, 0])
                seen.add(number)
                boxes, labels = batch["boxes"][row][:count], batch["labels"][row][:count]
                found = sorted(
                    (int(label), *np.rint(box).astype(int)) for label, box in zip(labels, boxes, strict=True)
                )
                wanted = [(n, WIDTH - b[2], b[1], WIDTH - b[0], b[3]) for n, b in expected[number]]
                assert found == sorted(tuple(int(value) for value in one) for one in wanted)
                assert not batch["boxes"][row][count:].any()
    assert seen == set(range(kind == "open_images", COUNT))  # a CSV file names no picture without objects


@pytest.mark.parametrize("kind", WRITERS)
def test_all_readers_give_the_same_fields(kind: str, tmp_path: Path) -> None:
    row = WRITERS[kind](tmp_path)[COUNT - 2 if kind != "open_images" else 0]
    count = len(row["boxes"])
    assert row["boxes"].dtype == np.float32
    assert {name: (str(row[name].dtype), row[name].shape) for name in FIELDS} == {
        name: (dtype, (count,)) for name, dtype in FIELDS.items()
    }
    sides = row["boxes"][:, 2:] - row["boxes"][:, :2]
    np.testing.assert_allclose(row["areas"], sides.prod(axis=1), rtol=1e-6)
    assert len(set(row["object_ids"].tolist())) == count


def test_voc_is_what_a_plain_reading_gives(tmp_path: Path) -> None:
    source = write_voc(tmp_path)
    for i in range(COUNT):
        root = ElementTree.parse(tmp_path / "Annotations" / f"p{i}.xml").getroot()
        boxes = [
            [float(o.find(f"bndbox/{n}").text) for n in ("xmin", "ymin", "xmax", "ymax")] for o in root.iter("object")
        ]
        row = source[i]
        assert row["boxes"].tolist() == [[a - 1, b - 1, c, d] for a, b, c, d in boxes]
        assert row["difficult"].tolist() == [k % 2 == 1 for k in range(i)]
        assert row["object_ids"].tolist() == list(range(1, i + 1))
        taken = carya.voc(tmp_path / "JPEGImages", tmp_path / "Annotations", classes=NAMES, one_based=False)
        assert taken[i]["boxes"].tolist() == boxes


def test_voc_reads_a_list_and_leaves_out_what_is_not_wanted(tmp_path: Path) -> None:
    write_voc(tmp_path)
    folder = tmp_path / "ImageSets" / "Main"
    folder.mkdir(parents=True)
    (folder / "val.txt").write_text("p4\np0\np2\n")
    source = carya.voc(tmp_path, split="val", classes=NAMES, difficult=False)
    assert [len(source[i]["boxes"]) for i in range(3)] == [2, 0, 1]
    assert source[0]["object_ids"].tolist() == [1, 3]
    assert len(carya.voc(tmp_path, split="val", classes=NAMES, empty=False)) == 2
    for text, said in (("p1 -1\n", "one name in a line"), ("p1\np1\n", "p1 is there twice"), ("../p1\n", "below the")):
        (folder / "val.txt").write_text(text)
        with pytest.raises(carya.InvalidArgument, match=said):
            carya.voc(tmp_path, split="val", classes=NAMES)
    (folder / "val.txt").write_text("none\n")
    with pytest.raises(carya.NotFound, match=r"none\.xml: no such file"):
        carya.voc(tmp_path, split="val", classes=NAMES)
    with pytest.raises(carya.NotFound, match=r"test\.txt"):
        carya.voc(tmp_path, split="test", classes=NAMES)
    with pytest.raises(carya.InvalidArgument, match="split"):
        carya.voc(tmp_path, tmp_path, split="val")


def test_open_images_numbers_classes_by_name_and_keeps_lines(tmp_path: Path) -> None:
    write_open_images(tmp_path)
    source = carya.open_images(tmp_path, tmp_path / "boxes.csv", extension=".png")
    with open(tmp_path / "boxes.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    order = list(dict.fromkeys(row["ImageID"] for row in rows))
    assert len(source) == len(order)
    for i, name in enumerate(order):
        mine = [(line, row) for line, row in enumerate(rows, 2) if row["ImageID"] == name]
        sample = source[i]
        assert sample["object_ids"].tolist() == [line for line, _ in mine]
        assert sample["labels"].tolist() == [sorted(NAMES).index(row["LabelName"]) for _, row in mine]
        assert sample["crowd"].tolist() == [row["IsGroupOf"] == "1" for _, row in mine]
        expected = np.float32([[float(row[key]) for key in ("XMin", "YMin", "XMax", "YMax")] for _, row in mine])
        np.testing.assert_array_equal(sample["boxes"], expected)
    alone = carya.open_images(tmp_path, tmp_path / "boxes.csv", crowd=False, extension=".png", classes=NAMES)
    assert sum(len(alone[i]["boxes"]) for i in range(len(alone))) == sum(row["IsGroupOf"] == "0" for row in rows)


def test_yolo_leaves_out_pictures_without_a_box(tmp_path: Path) -> None:
    write_yolo(tmp_path)
    assert len(carya.yolo(tmp_path / "images", tmp_path / "labels", empty=False)) == COUNT - 1


def test_real_label_files_are_read() -> None:
    data = os.environ.get("CARYA_TEST_DATA")
    root = Path(data or "") / "images" / "coco128"
    if not data or not root.is_dir():
        pytest.skip("no coco128 in CARYA_TEST_DATA")
    folder = root / "object_detection" / "labels" / "train2017"
    source = carya.yolo(root / "images" / "train2017", folder)
    boxes = 0
    for i in range(len(source)):
        row = source[i]
        text = folder / (Path(source._source.document["paths"][i]).stem + ".txt")
        lines = [line.split() for line in text.read_text().splitlines()] if text.exists() else []
        assert row["labels"].tolist() == [int(line[0]) for line in lines]
        given = np.array([line[1:] for line in lines], float).reshape(-1, 4)
        expected = np.concatenate([given[:, :2] - given[:, 2:] / 2, given[:, :2] + given[:, 2:] / 2], axis=1)
        np.testing.assert_allclose(row["boxes"], expected, atol=1e-6)
        boxes += len(row["boxes"])
    assert boxes > 100


# Bad input ------------------------------------------------------------------------------------------------------------

BOX = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>20</xmax><ymax>30</ymax></bndbox>"
GOOD_VOC = f"<annotation><filename>p1.png</filename><object><name>dog</name>{BOX}</object></annotation>"
LAUGHS = "<!DOCTYPE a [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;'>]>"
OUTSIDE = "<!DOCTYPE a [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>"


def voc_with(old: str, new: str) -> str:
    assert old in GOOD_VOC
    return GOOD_VOC.replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS + voc_with("dog", "&b;"), "a document type or an entity"),
        (OUTSIDE + voc_with("dog", "&a;"), "a document type or an entity"),
        ("<!DOCTYPE annotation SYSTEM 'http://example.org/a.dtd'>" + GOOD_VOC, "a document type or an entity"),
        (voc_with("dog", "&b;"), "undefined entity"),
        ("<a>" * 5000, "more than 16 elements"),
        ("", "no element found"),
        (GOOD_VOC[:-5], r"p1\.xml: "),
        (GOOD_VOC + "x", "junk"),
        ("<?xml version='1.0' encoding='none'?>" + GOOD_VOC, r"p1\.xml: "),
        ("<html/>", "root is an annotation"),
        (voc_with("p1.png", "../p1.png"), "below the folder"),
        (voc_with("p1.png", ""), "below the folder"),
        (voc_with("dog", "wolf"), "object 1: name: got 'wolf'"),
        (voc_with("<xmin>2", "<xmin>NaN"), "object 1: bndbox.*four finite numbers"),
        (voc_with("<xmin>2", "<xmin>"), "object 1: bndbox.*four finite numbers"),
        (voc_with(BOX, ""), "object 1: bndbox.*four finite numbers"),
        (voc_with("<xmin>2<", "<xmin>40<"), "ends behind where it begins"),
        (voc_with("</name>", "</name><difficult>very</difficult>"), "difficult: got 'very'"),
    ],
)
def test_a_document_that_cannot_be_is_refused_by_name(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "p1.xml").write_text(text)
    with pytest.raises(carya.InvalidArgument, match=said) as raised:
        carya.voc(tmp_path, tmp_path, classes=NAMES)
    assert "p1.xml: " in str(raised.value)
    if "object 1" in said or "behind" in said or "difficult" in said:  # left out, beside one that is sound
        (tmp_path / "p1.xml").write_text(text.replace("</annotation>", GOOD_VOC.split("</filename>")[1]))
        source = carya.voc(tmp_path, tmp_path, classes=NAMES, invalid="drop")
        assert source._source.arrays["object_ids"].tolist() == [2]


def test_a_picture_has_one_document(tmp_path: Path) -> None:
    for name in ("a.xml", "b.xml"):
        (tmp_path / name).write_text(GOOD_VOC)
    with pytest.raises(carya.InvalidArgument, match=r"b\.xml.*a\.xml has its picture"):
        carya.voc(tmp_path, tmp_path, classes=NAMES)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0 0.5 0.5 0.1", "three corners or more"),
        ("0 0.5 0.5 0.1 0.1 0.9", "three corners or more"),
        ("0 0.1 0.1 0.2 0.2 0.3 0.3 0.4", "three corners or more"),
        ("-1 0.5 0.5 0.1 0.1", "a class of 0 or more"),
        ("1.5 0.5 0.5 0.1 0.1", "a class of 0 or more"),
        ("9" * 30 + " 0.5 0.5 0.1 0.1", "a class of 0 or more"),
        ("9" * 9000 + " 0.5 0.5 0.1 0.1", "a class of 0 or more"),
        ("dog 0.5 0.5 0.1 0.1", "a class of 0 or more"),
        ("0 nan 0.5 0.1 0.1", "numbers of 0 to 1"),
        ("0 0.5 inf 0.1 0.1", "numbers of 0 to 1"),
        ("0 40 20 10 10", "numbers of 0 to 1"),
        ("0 0.5 0.5 -0.0005 0.1", "width and a height of 0 or more"),
    ],
)
def test_a_line_that_cannot_be_is_refused_or_left_out(line: str, said: str, tmp_path: Path) -> None:
    photos(tmp_path, 2)
    (tmp_path / "p1.txt").write_text(f"2 0.5 0.5 0.2 0.2\n\n{line}\n")
    with pytest.raises(carya.InvalidArgument, match=rf"p1\.txt: line 3: .*{said}"):
        carya.yolo(tmp_path, tmp_path)
    assert carya.yolo(tmp_path, tmp_path, invalid="drop")[1]["object_ids"].tolist() == [1]


def test_files_of_yolo_belong_together(tmp_path: Path) -> None:
    photos(tmp_path, 2)
    with pytest.raises(carya.NotFound, match="no file that ends with"):
        carya.yolo(tmp_path, tmp_path)
    with pytest.raises(carya.NotFound, match="no such folder"):
        carya.yolo(tmp_path, tmp_path / "none")
    with pytest.raises(carya.NotFound, match="no such folder"):
        carya.yolo(tmp_path / "none", tmp_path)
    (tmp_path / "q.txt").write_text("0 0.5 0.5 0.1 0.1")
    with pytest.raises(carya.InvalidArgument, match=r"q\.txt: no picture"):
        carya.yolo(tmp_path, tmp_path)
    for name in ("q.png", "q.jpg"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(carya.InvalidArgument, match=r"q\.png: .*q\.jpg has its text file"):
        carya.yolo(tmp_path, tmp_path)


GOOD_CSV = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\np1,dog,0.1,0.5,0.2,0.6,0\np1,cat,0,1,0,1,1\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("IsGroupOf", "Group", "one column IsGroupOf"),
        ("IsGroupOf", "XMin", "one column XMin"),
        (GOOD_CSV, "", "one column ImageID"),
        ("0.1,0.5", "0.1,0.5,7", "line 2: got '8 values'"),
        (",cat", "", "line 3: got '6 values'"),
        ("p1,cat", "../p1,cat", "below the folder"),
        ("p1,cat", ",cat", "below the folder"),
        ("cat", "a" * 200_000, "field larger"),
        ("cat", "wolf", "line 3: LabelName: got 'wolf'"),
        (",0,1,0,1,1", ",0,1,0,1,2", "line 3: IsGroupOf: got '2'"),
        (",0,1,0,1,1", ",0,nan,0,1,1", "line 3: .*four finite numbers"),
        (",0,1,0,1,1", ",0,x,0,1,1", "line 3: .*four finite numbers"),
        (",0,1,0,1,1", ",0,30,0,1,1", "line 3: .*numbers of 0 to 1"),
        (",0,1,0,1,1", ",0.9,0.1,0,1,1", "line 3: .*ends behind where it begins"),
    ],
)
def test_a_row_that_cannot_be_is_refused_or_left_out(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    assert old in GOOD_CSV
    path.write_text(GOOD_CSV.replace(old, new))
    with pytest.raises(carya.InvalidArgument, match=said) as raised:
        carya.open_images(tmp_path, path, classes=NAMES)
    assert "boxes.csv: " in str(raised.value)
    if "line 3" in said and "values" not in said:
        source = carya.open_images(tmp_path, path, classes=NAMES, invalid="drop")
        assert source._source.arrays["object_ids"].tolist() == [2]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: carya.voc(p, p, classes=[]),
        lambda p: carya.voc(p, p, classes=["a", "a"]),
        lambda p: carya.voc(p, p, classes="dog"),
        lambda p: carya.voc(p, p, invalid="ignore"),
        lambda p: carya.voc(p, p, one_based="no"),
        lambda p: carya.yolo(p, p, invalid=None),
        lambda p: carya.yolo(p, p, empty=1),
        lambda p: carya.open_images(p, p / "boxes.csv", classes=["a", 3]),
        lambda p: carya.open_images(p, p / "boxes.csv", classes=7),
        lambda p: carya.open_images(p, p / "boxes.csv", extension="png"),
        lambda p: carya.open_images(p, p),
    ],
)
def test_arguments_that_cannot_be(make: Any, tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text(GOOD_CSV)
    with pytest.raises(carya.InvalidArgument):
        make(tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(carya.NotFound, match="no such folder"):
        carya.voc(tmp_path / "none")
    with pytest.raises(carya.NotFound, match=r"ends with \.xml"):
        carya.voc(tmp_path, tmp_path)
    with pytest.raises(carya.NotFound, match=r"none\.csv"):
        carya.open_images(tmp_path, tmp_path / "none.csv")
    (tmp_path / "boxes.csv").write_text(GOOD_CSV)
    with pytest.raises(carya.NotFound, match=r"p1\.jpg"):
        carya.open_images(tmp_path, tmp_path / "boxes.csv").open()


@pytest.mark.parametrize("kind", ["voc", "yolo", "open_images"])
def test_any_change_of_a_file_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    """Bytes that are changed, left out and put in, wherever it is drawn: an error of ours, or a pipeline."""
    rng = np.random.default_rng(31)
    good = {
        "voc": f"<?xml version='1.0' encoding='utf-8'?>{GOOD_VOC}",
        "yolo": "2 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.5 0.1 0.5 0.3\n",
        "open_images": GOOD_CSV,
    }[kind].encode()
    pieces = [b"<", b"&a;", b"]]>", b"<!--", b"\0", b"\xff", b'"', b"\n", b",", b"nan", b"-", b"9" * 40, b"1e999", b" "]
    photos(tmp_path, 2)
    path = tmp_path / {"voc": "p1.xml", "yolo": "p1.txt", "open_images": "boxes.csv"}[kind]
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            begin = int(rng.integers(len(data)))
            data[begin : begin + int(rng.integers(0, 4))] = pieces[rng.integers(len(pieces))]
        path.write_bytes(data)
        try:
            if kind == "voc":
                carya.voc(tmp_path, tmp_path, classes=NAMES)
            elif kind == "yolo":
                carya.yolo(tmp_path, tmp_path)
            else:
                carya.open_images(tmp_path, path)
        except carya.InvalidArgument as error:
            refused += path.name in str(error)
    assert refused > 100
