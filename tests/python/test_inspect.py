"""`carya inspect`: what it says of each format, pictures, the page, and what hostile data does to it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import tarfile
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
import record_writers as write
from conftest import DATA, picture
from PIL import Image

import carya
from carya._inspect.pictures import pixels_of, png, shrunk
from carya._inspect.terminal import picture as terminal_picture
from carya._inspect.terminal import protocol_of

pytest.importorskip("typer")
pytest.importorskip("rich")

COMMAND = [sys.executable, "-m", "carya", "inspect"]
HOSTILE = "a\x1b[2J\x07\u202e<script>alert(1)</script>[red]"


def run(*words: str | Path, code: int = 0, **environment: str) -> str:
    return commands.run("inspect", *words, code=code, **{"COLUMNS": "120", **environment})


def found(*words: str | Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*words, "--json"))
    return document


def jpeg(seed: int = 1, height: int = 60, width: int = 90) -> bytes:
    out = io.BytesIO()
    Image.fromarray(picture(seed, height, width)).save(out, "jpeg")
    return out.getvalue()


def tar(path: Path, given: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in given.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def every_kind(folder: Path, photos: Path) -> dict[str, Path]:
    """One of each format that needs nothing but numpy, by the name of its source."""
    made = {"image_folder": photos}
    made["webdataset"] = tar(folder / "a.tar", {"0.jpg": jpeg(), "0.cls": b"4", "1.jpg": jpeg(2), "1.cls": b"5"})
    features = [write.example({"image/encoded": jpeg(n), "label": [n]}) for n in range(3)]
    made["tfrecord"] = write.write_records(folder / "a.tfrecord", features)
    columns = {"image": ("jpeg", None), "label": ("int", 8)}
    samples = [{"image": jpeg(n), "label": n.to_bytes(8, "little")} for n in range(3)]
    made["mds"] = write.write_mds(folder / "mds", [write.mds_shard(columns, samples)])
    made["jsonl"] = folder / "a.jsonl"
    made["jsonl"].write_text('{"text": "one", "n": 1}\n{"text": "two", "n": 2}\n')
    made["text"] = folder / "a.txt"
    made["text"].write_text("one\n\ntwo\n")
    made["csv"] = folder / "a.tsv"
    made["csv"].write_text("x\ty\n1\ttwo\n")
    made["npy"], made["npz"] = folder / "a.npy", folder / "a.npz"
    np.save(made["npy"], np.zeros((4, 20, 20, 3), np.uint8))
    np.savez(made["npz"], x=np.arange(4), y=np.ones((4, 2), np.float32))
    return made


def test_each_kind_is_told_and_its_line_opens_it(photos: Path, tmp_path: Path) -> None:
    for kind, path in every_kind(tmp_path, photos).items():
        told = found(path)
        assert told["is"] == kind, told
        pipeline = eval(told["python"], {"carya": carya})
        assert len(pipeline) == told["records"] > 0
        sample = pipeline[0]
        if kind in ("image_folder", "webdataset", "tfrecord", "mds"):
            assert sample["image"].tobytes()[:3] == b"\xff\xd8\xff"
            assert "label" in sample
        assert run(path).rstrip().endswith(told["python"])


def test_a_damaged_first_record_hides_no_fields(tmp_path: Path) -> None:
    records = [write.example({"image/encoded": jpeg(n), "label": [n]}) for n in range(3)]
    path = write.write_records(tmp_path / "a.tfrecord", records)
    with path.open("r+b") as file:
        file.seek(200)
        file.write(b"\0\0\0\0")
    told = found(path)
    assert (told["records"], told["broken"]) == (3, 1)
    assert [field["name"] for field in told["fields"]] == ["image/encoded", "label"]
    assert told["python"].endswith('image="image/encoded", label="label")')


def test_a_zip_that_the_source_refuses_is_told(tmp_path: Path) -> None:
    for name, how in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w", how) as archive:
            archive.writestr("0.jpg", jpeg())
    assert found(tmp_path / "stored.zip")["notes"] == []
    (note,) = found(tmp_path / "deflated.zip")["notes"]
    assert "members are compressed" in note
    assert "zip -0" in note


@pytest.mark.parametrize("kind", ["parquet", "arrow", "hf_dataset", "hdf5", "lmdb"])
def test_kinds_over_libraries(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    if kind in ("parquet", "arrow", "hf_dataset"):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        table = pa.table({"image": [{"bytes": jpeg(n), "path": None} for n in range(3)], "label": [0, 1, 2]})
        if kind == "parquet":
            pq.write_table(table, path)
        else:
            path = tmp_path / "set"
            path.mkdir()
            with pa.ipc.new_stream(path / "data-00000-of-00001.arrow", table.schema) as writer:
                writer.write_table(table)
            if kind == "hf_dataset":
                names = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
                (path / "state.json").write_text(json.dumps(names))
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(6).reshape(3, 2)
    else:
        lmdb = pytest.importorskip("lmdb")
        with lmdb.open(str(path)) as env, env.begin(write=True) as transaction:
            for n in range(3):
                transaction.put(b"%d" % n, jpeg(n))
    told = found(path)
    assert (told["is"], told["records"]) == (kind, 3)
    pipeline = eval(told["python"], {"carya": carya})
    assert len(pipeline) == 3
    if kind in ("parquet", "arrow", "hf_dataset"):
        assert pipeline[1]["image"].tobytes() == jpeg(1)
        assert pipeline[1]["label"] == 1


def test_fields_and_sizes(tmp_path: Path) -> None:
    lines = ['{"x": [1, 2], "t": "one", "n": 1}', '{"x": [1, 2, 3], "t": null, "n": 1.5}', "broken", '{"t": "three"}']
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    told = found(tmp_path / "a.jsonl", "--records", "4")
    assert told["record_bytes"] == {"min": 7, "median": int(np.median([len(line) + 1 for line in lines])), "max": 38}
    fields = {field["name"]: (field["dtype"], field["shape"], field["seen"]) for field in told["fields"]}
    assert fields == {"x": ("list", "(varies,)", 2), "t": ("text", "", 2), "n": ("int64 or float64", "()", 2)}
    assert told["broken"] == 1
    assert [record.get("problem", "")[:15] for record in told["shown"]] == ["", "", "JSONDecodeError", ""]
    assert told["shown"][2]["place"].endswith("a.jsonl @72")
    assert "broken: JSONDecodeError" in run(tmp_path / "a.jsonl", "--records", "4")


def test_positions(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(1000))
    assert [one["record"] for one in found(tmp_path / "a.npy", "--records", "3")["shown"]] == [0, 499, 999]
    assert [one["record"] for one in found(tmp_path / "a.npy", "--at", "998")["shown"]] == [998, 999]
    assert found(tmp_path / "a.npy", "--records", "0")["shown"] == []
    assert "got 1000; give a position of 0 to 999" in run(tmp_path / "a.npy", "--at", "1000", code=1)


def test_what_cannot_be_inspected_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.jsonl").write_text("1\n")
    for path, said in (
        (tmp_path / "absent", "there is no such file"),
        (tmp_path, "it could be csv or jsonl"),
        (Path(__file__), "nothing that is known"),
    ):
        error = run(path, code=1)
        assert said in error
        assert error.startswith("carya: ")
        assert error.count("\n") == 1
    assert "give one of auto, kitty" in run(tmp_path / "a.csv", "--pictures", "all", code=1)
    assert "give a path that this user may write" in run(
        tmp_path / "a.csv", "--html", tmp_path / "no" / "p.html", code=1
    )
    run(tmp_path / "a.csv", "--records", "x", code=2)
    if os.geteuid():
        (tmp_path / "a.csv").chmod(0)
        assert "give read permission" in run(tmp_path / "a.csv", code=1)


def test_hostile_names_and_texts_steer_nothing(tmp_path: Path) -> None:
    path = tmp_path / f"{HOSTILE.replace('/', '_')}.jsonl"
    path.write_text(json.dumps({HOSTILE: HOSTILE}) + "\n" + HOSTILE + "\n")
    told = run(path, "--records", "2", "--html", tmp_path / "p.html")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", told)
    assert "[red]" in told
    page = (tmp_path / "p.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page
    line = told.rstrip().rpartition("\n")[2]
    assert len(eval(line, {"carya": carya})) == 2


class Parts(HTMLParser):
    """What a page loads or runs."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        assert not [name for name, _ in attrs if name.startswith("on")]


def test_the_page_is_one_file_without_scripts(photos: Path, tmp_path: Path) -> None:
    run(photos, "--html", tmp_path / "p.html", "--records", "5")
    parts = Parts()
    parts.feed((tmp_path / "p.html").read_text())
    assert not {"script", "link", "iframe", "object", "embed", "form"} & set(parts.tags)
    assert len(parts.sources) == 5
    assert all(source.startswith("data:image/png;base64,") for source in parts.sources)
    assert "prefers-color-scheme: dark" in (tmp_path / "p.html").read_text()


def test_pictures_are_those_that_lie_there() -> None:
    pixels = picture(3, 64, 96)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    decoded, problem = pixels_of(out.getvalue(), 1000)
    assert problem == ""
    assert decoded is not None
    assert np.array_equal(decoded, pixels)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(pixels)))), pixels)
    small = shrunk(pixels, 32)
    assert small.shape == (21, 32, 3)
    assert np.array_equal(small[0, 0], pixels[:3, :3].mean(axis=(0, 1)).round())
    assert shrunk(np.zeros((1, 5000, 3), np.uint8), 100).shape == (1, 100, 3)
    assert pixels_of(np.zeros((28, 28), np.uint8), 10)[0].shape == (9, 9, 3)  # type: ignore[union-attr]
    assert pixels_of(b"\xff\xd8\xff broken", 10) == (None, "its header says no size that is shown")
    cut = jpeg()[:200] + bytes(50)
    assert pixels_of(cut, 10)[0] is None
    assert pixels_of(cut, 10)[1]
    assert pixels_of("text", 10) == pixels_of(np.arange(30), 10) == (None, "")


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ({"TERM": "xterm-256color"}, "blocks"),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, "blocks"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "off"),
        ({"TERM": "dumb"}, "off"),
        ({}, "off"),
    ],
)
def test_the_protocol_is_that_of_the_terminal(environment: dict[str, str], protocol: str) -> None:
    assert protocol_of(environment, True) == protocol
    assert protocol_of(environment, False) == "off"


def test_pictures_in_each_protocol() -> None:
    pixels = picture(1, 100, 200)
    sent = terminal_picture(pixels, "kitty", 100)
    commands = re.findall(r"\x1b_G([^;]*);([A-Za-z0-9+/=]*)\x1b\\", sent)
    assert "".join(f"\x1b_G{how};{data}\x1b\\" for how, data in commands) + "\n" == sent
    assert all(len(data) <= 4096 for _, data in commands)
    assert commands[-1][0].endswith("m=0")
    import base64

    assert np.array_equal(
        np.asarray(Image.open(io.BytesIO(base64.b64decode("".join(data for _, data in commands))))), pixels
    )
    assert re.fullmatch(
        r"\x1b\]1337;File=inline=1;[^:]*:[A-Za-z0-9+/=]+\x07\n", terminal_picture(pixels, "iterm2", 100)
    )
    lines = terminal_picture(pixels, "blocks", 100).splitlines()
    assert len(lines) == 10
    assert all(line.count("\u2580") == 40 and line.endswith("\x1b[0m") for line in lines)
    assert terminal_picture(pixels, "off", 100) == ""


def test_a_terminal_gets_pictures_and_a_pipe_none(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", {"0.jpg": jpeg()})
    assert "\x1b" not in run(path, TERM="xterm-kitty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-kitty", "COLUMNS": "100"}
    with subprocess.Popen([*COMMAND, str(path)], stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        read = b""
        try:
            while block := os.read(ours, 65536):
                read += block
        except OSError:  # the other side is closed
            pass
        assert process.wait() == 0
    os.close(ours)
    assert b"\x1b_Ga=T,f=100" in read


@pytest.mark.skipif(not DATA, reason="needs CARYA_TEST_DATA")
@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("formats/tfrecord_raccoon/test.record", "tfrecord", 40),
        ("formats/webdataset/mpdata.tar", "webdataset", 100),
        ("formats/lmdb_generated/dev_fsdd60", "lmdb", 60),
        ("text/gsm8k/train.jsonl", "jsonl", 7473),
        ("images", "image_folder", 823),
    ],
)
def test_real_data(name: str, kind: str, count: int, tmp_path: Path) -> None:
    told = found(os.path.join(DATA or "", name), "--html", tmp_path / "p.html")
    assert (told["is"], told["records"], told["broken"]) == (kind, count, 0)
