"""`carya convert`: each format, the same bytes whatever happens, and whatever can go wrong on the way."""

from __future__ import annotations

import functools
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
import record_writers as write
from commands import contents
from conftest import DATA, picture
from PIL import Image

import carya
from carya._cli.converting import bytes_of
from carya._convert.conversion import Request, convert
from carya._convert.formats import format_of
from carya._convert.journal import NAME
from carya._convert.mds import encoding
from carya._convert.schema import schema_of
from carya._convert.worker import Check, compared
from carya._records.opening import open_records
from carya._records.tfrecords import TfRecords

pytest.importorskip("typer")
pytest.importorskip("rich")

COMMAND = [sys.executable, "-m", "carya", "convert"]
FORMATS = ("webdataset", "mds", "tfrecord")


run = functools.partial(commands.run, "convert")


def shards(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.startswith("shard-"))


def path_of(folder: Path, to: str) -> Path:
    """What opens it."""
    return folder if to != "webdataset" or len(shards(folder)) > 1 else shards(folder)[0]


LINES: list[dict[str, Any]] = [
    {
        "text": f"n\u00e4me {n}\n",
        "number": n,
        "ratio": n / 4,
        "tokens": list(range(n % 4)),
        "deep": {"a": [n, None, "x"]},
    }
    for n in range(300)
]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


@pytest.mark.parametrize("to", FORMATS)
def test_photos_come_back_in_order_by_the_sources_of_carya(photos: Path, tmp_path: Path, to: str) -> None:
    """Also: the bytes are the same by one worker and by three, and no shard is larger than asked for."""
    for workers in (1, 3):
        told = json.loads(
            run(
                photos,
                tmp_path / f"{workers}",
                "--to",
                to,
                "--workers",
                str(workers),
                "--shard-bytes",
                "100k",
                "--json",
            )
        )
        assert (told["records"], told["skipped"], told["shards_verified"]) == (27, [], told["shards"])
        assert told["shards"] > 1
    made = contents(tmp_path / "1")
    assert made == contents(tmp_path / "3")
    assert max(len(made[path.name]) for path in shards(tmp_path / "1")) <= 100_000
    source = carya.image_folder(photos)
    if to == "webdataset":
        pipeline = carya.open(tmp_path / "1")
    elif to == "mds":
        pipeline = carya.mds(tmp_path / "1", encoded={"image": "image"}, label="label")
    else:
        pipeline = carya.tfrecord(tmp_path / "1", image="image", label="label")
    assert len(pipeline) == 27
    for index in range(27):
        ours, theirs = source[index], pipeline[index]
        assert ours["image"].tobytes() == theirs["image"].tobytes()
        assert ours["label"] == theirs["label"]


def test_values_of_every_kind_in_each_format(lines: Path, tmp_path: Path) -> None:
    for to in FORMATS:
        convert(Request(str(lines), str(tmp_path / to), to, 2))
        records = open_records(path_of(tmp_path / to, to)).records
        assert len(records) == 300
        for index in (0, 1, 2, 299):
            found, line = records.read(index), LINES[index]
            if to == "webdataset":
                assert found == {"json": line}
            elif to == "mds":
                assert found == line
            else:
                assert (found["text"].decode(), found["number"], float(found["ratio"])) == (
                    line["text"], line["number"], line["ratio"],
                )  # fmt: skip
                assert json.loads(found["deep"]) == line["deep"]
    assert (
        "ratio: float64 became float32" in convert(Request(str(lines), str(tmp_path / "tfrecord"), "tfrecord")).notes[0]
    )


def test_arrays_in_each_format(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(24, dtype=np.int16).reshape(4, 2, 3), f=np.array([0.5, np.nan, np.inf, -0.0]),
             v=np.arange(8, dtype=np.float32).reshape(4, 2), b=np.array([True, False, True, True]))  # fmt: skip
    for to in FORMATS:
        convert(Request(str(tmp_path / "a.npz"), str(tmp_path / to), to, 1))
        found = open_records(path_of(tmp_path / to, to)).records.read(3)
        if to == "webdataset":
            assert found["x.npy"].tolist() == [[18, 19, 20], [21, 22, 23]]
            assert found["x.npy"].dtype == np.int16
            assert found["json"] == {"f": -0.0, "b": True}
        elif to == "mds":
            assert found["x"].tolist() == [[18, 19, 20], [21, 22, 23]]
            assert found["v"].tolist() == [6, 7]
            assert found["b"] == 1
        else:
            assert np.frombuffer(found["x"], found["x/dtype"].decode()).reshape(found["x/shape"])[1, 2] == 23
            assert found["v"].tolist() == [6, 7]


def test_tars_and_tfrecords_keep_their_bytes(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in (
            ("d/x.json", b'{"a":  1}'),
            ("d/x.txt", b"\xff"),
            ("../y.bin", b"y"),
            ("k" * 120 + ".txt", b"long"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    convert(Request(str(tmp_path / "a.tar"), str(tmp_path / "tars"), "webdataset", 1))
    with tarfile.open(shards(tmp_path / "tars")[0]) as archive:
        found = {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]
    assert found == {"d/x.json": b'{"a":  1}', "d/x.txt": b"\xff", "y.bin": b"y", "k" * 120 + ".txt": b"long"}
    records = [write.example({"x": [n], "y": [0.1 * n]}) for n in range(5)] + [b"no example"]
    path = write.write_records(tmp_path / "a.tfrecord", records)
    convert(Request(str(path), str(tmp_path / "records"), "tfrecord", 1))
    assert shards(tmp_path / "records")[0].read_bytes() == path.read_bytes()


@pytest.mark.parametrize("to", FORMATS)
def test_broken_records_are_skipped_and_named_or_end_it(lines: Path, tmp_path: Path, to: str) -> None:
    text = lines.read_text().splitlines(keepends=True)
    text[7], text[200] = "broken\n", "[1, 2\n"
    lines.write_text("".join(text))
    alone = ("--to", to, "--shard-bytes", "4k", "--workers", "1")
    words = (lines, tmp_path / "out", *alone[:-1], "2")
    error = run(lines, tmp_path / "out", *alone, code=1)
    assert "lines.jsonl @" in error
    assert "or --on-error skip" in error
    assert error.count("\n") == 1
    told = json.loads(run(*words, "--on-error", "skip", "--json"))
    assert [one["record"] for one in told["skipped"]] == [7, 200]
    assert told["records"] == 298
    other = json.loads(run(lines, tmp_path / "whole", *alone, "--on-error", "skip", "--json"))
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert other["skipped"] == told["skipped"]
    assert json.loads(run(*words, "--on-error", "skip", "--json"))["skipped"] == told["skipped"]  # all was done
    lines.write_text("broken\n" * 3)
    assert "no record could be written" in run(
        lines, tmp_path / "none", "--to", "webdataset", "--workers", "1", "--on-error", "skip", code=1
    )


def children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # none of a zombie
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_end(processes: list[int]) -> None:
    """Workers end with their owner, however that ended."""
    last = time.monotonic() + 60
    while alive := [one for one in processes if is_alive(one)]:
        assert time.monotonic() < last, alive
        time.sleep(0.01)


# Some forty shards each: three times seven, and what was begun, leave the last run something to do.
@pytest.mark.parametrize(("to", "shard"), [("webdataset", "9k"), ("mds", "1k"), ("tfrecord", "1k")])
def test_killed_at_any_moment_and_run_again_it_makes_the_same_files(
    lines: Path, tmp_path: Path, to: str, shard: str
) -> None:
    seed = int(os.environ.get("CARYA_SEED", time.time_ns() % 2**32))
    print("CARYA_SEED", seed)
    moments = random.Random(seed)
    words = ["--to", to, "--shard-bytes", shard, "--workers", "2"]
    run(lines, tmp_path / "whole", *words)
    out = tmp_path / "out"
    ended = 0
    for _ in range(3):
        with subprocess.Popen(
            [*COMMAND, str(lines), str(out), *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as process:
            had = len(shards(out)) if out.exists() else 0
            stop = had + moments.randrange(1, 8)
            while process.poll() is None and (not out.exists() or len(shards(out)) < stop):
                time.sleep(0.002)
            time.sleep(moments.random() * 0.02)
            ended += process.poll() is None
            workers = children(process.pid)
            process.kill()
            process.wait()
        wait_for_end(workers)
    assert ended
    run(lines, out, *words)
    assert contents(out) == contents(tmp_path / "whole")
    assert not [name for name in os.listdir(out) if name.endswith(".part")]


def test_a_journal_that_was_cut_off_and_shards_without_a_line(lines: Path, tmp_path: Path) -> None:
    request = Request(str(lines), str(tmp_path / "out"), "mds", 1, 4096)
    report = convert(request)
    whole = contents(tmp_path / "out")
    journal = tmp_path / "out" / NAME
    kept = journal.read_bytes()
    for end in (len(kept) // 2, len(kept) - 3, kept.index(b"\n") + 1):
        journal.write_bytes(kept[:end])
        (tmp_path / "out" / ".shard-000001.mds.part").write_bytes(b"left behind")
        again = convert(request)
        assert contents(tmp_path / "out") == whole
        assert 0 <= again.before <= report.shards
    (tmp_path / "out" / "shard-000001.mds").write_bytes(b"short")
    with pytest.raises(carya.IoError, match=r"shard-000001\.mds: wanted [\d,]+ B, got 5 B"):
        convert(request)


def test_ctrl_c_ends_it_in_one_line_and_leaves_what_is_done(lines: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [str(lines), str(out), "--to", "tfrecord", "--shard-bytes", "600", "--workers", "2"]
    with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while process.poll() is None and (not out.exists() or len(shards(out)) < 2):
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGINT)
        error = process.communicate()[1]
    assert process.returncode == 130, error
    assert "it was interrupted, with" in error
    assert "goes on where it was" in error
    assert error.count("\n") == 1
    assert json.loads(run(*words, "--json"))["shards_before"] >= 1


def test_pictures_that_were_written_anew_are_another_conversion(tmp_path: Path) -> None:
    """Shards of before, with those of now behind them, would be a mix of both."""
    picture = tmp_path / "photos" / "a" / "0.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + b"1" * 100)
    request = Request(str(tmp_path / "photos"), str(tmp_path / "out"), "mds", 1)
    convert(request)
    convert(request)  # which is done
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + b"2" * 100)
    with pytest.raises(carya.InvalidArgument, match=r"another conversion \(records differ\)"):
        convert(request)


def test_folders_that_are_not_its_own_are_refused(lines: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "set").mkdir()
    shutil.copy(lines, tmp_path / "set")
    run(lines, tmp_path / "out", "--to", "mds")
    for words, said in (
        ((lines, tmp_path / "full", "--to", "mds"), "it holds 'mine' and no conversion"),
        ((lines, tmp_path / "full" / "mine", "--to", "mds"), "it is a file"),
        ((lines, tmp_path / "out", "--to", "tfrecord"), "it holds another conversion"),
        ((lines, tmp_path / "out", "--to", "mds", "--shard-bytes", "1k"), "(shard_bytes differ)"),
        ((tmp_path / "set", tmp_path / "set" / "out", "--to", "mds"), "the source lies there too"),
        ((lines, lines.parent, "--to", "mds"), "the source lies there too"),
        ((lines, tmp_path / "empty", "--to", "zip"), "one of webdataset, mds"),
        ((lines, tmp_path / "empty", "--to", "mds", "--shard-bytes", "many"), "as 500M, 1Gi"),
        ((lines, tmp_path / "empty", "--to", "mds", "--shard-bytes", "5Gi"), "at most 4,294,967,295 for mds"),
        ((lines, tmp_path / "empty", "--to", "mds", "--on-error", "mask"), "raise or skip"),
        ((tmp_path / "none", tmp_path / "empty", "--to", "mds"), "there is no such file"),
    ):
        error = run(*words, code=1)
        assert said in error
        assert error.startswith("carya: ")
        assert error.count("\n") == 1
    assert (tmp_path / "full" / "mine").exists()
    assert os.listdir(tmp_path / "full") == ["mine"]
    run(lines, tmp_path / "empty", code=2)
    run(lines, tmp_path / "empty", "--to", "mds")
    with lines.open("a") as file:
        file.write("{}\n")
    assert "(records, schema differ)" in run(lines, tmp_path / "empty", "--to", "mds", code=1)


def test_two_at_once_into_one_folder_are_refused(lines: Path, tmp_path: Path) -> None:
    import fcntl

    convert(Request(str(lines), str(tmp_path / "out"), "mds", 1))
    with (tmp_path / "out" / NAME).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another process converts into it" in run(lines, tmp_path / "out", "--to", "mds", code=1)


def test_a_full_disk_says_so_and_it_goes_on_when_there_is_room(lines: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = " ".join(
        [*COMMAND, str(lines), f"{disk}/out", "--to", "webdataset", "--shard-bytes", "50k", "--workers", "1"]
    )
    script = (
        f"mount -t tmpfs -o size=300k tmpfs {disk} || exit 77; {command}; echo status $?; ls -A {disk}/out >&2; "
        f"mount -o remount,size=10m {disk}; {command}"
    )
    done = subprocess.run(["unshare", "-rm", "bash", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no tmpfs can be mounted here")
    assert "No space left on device; make room and run the same command again" in done.stderr
    assert "status 1" in done.stdout
    assert ".part" not in done.stderr
    assert "300 records" in done.stdout
    assert "of them there before" in done.stdout


def test_a_shard_that_differs_is_noticed(photos: Path, tmp_path: Path) -> None:
    for to in FORMATS:
        convert(Request(str(photos), str(tmp_path / to), to, 1))
        records = open_records(photos).records
        form = format_of(to, records, schema_of(records))
        shard = shards(tmp_path / to)[0]
        check = Check(str(shard), list(range(27)), [])
        assert compared(records, form, check) == ""
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
        assert compared(records, form, check)
        assert "and 26 were written" in compared(records, form, Check(str(shard), list(range(26)), []))


def test_values_that_a_format_has_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": 1}\n' * 300 + '{"x": "text"}\n' + '{"x": 1}\n' * 300)
    told = json.loads(run(path, tmp_path / "mds", "--to", "mds", "--on-error", "skip", "--json"))
    assert [one["record"] for one in told["skipped"]] == [300]
    assert "x: it is str, and its column is int; give another --to" in told["skipped"][0]["problem"]
    path.write_text('{"x": 36893488147419103232}\n{"x": 1e300}\n')
    error = run(path, tmp_path / "tf", "--to", "tfrecord", "--on-error", "skip", code=1)
    assert "no record could be written" in error
    assert "beyond those of 64 bits" in error
    with pytest.raises(carya.InvalidArgument, match="MDS has no missing bytes"):
        encoding("image", ("jpeg", "null"))


@pytest.mark.parametrize(
    ("text", "bytes_"), [("4096", 4096), ("1k", 1000), ("1Ki", 1024), ("1.5 MiB".replace(" ", ""), 3 << 19)]
)
def test_numbers_of_bytes(text: str, bytes_: int) -> None:
    assert bytes_of(text) == bytes_


# By the formats' own packages, where they are installed -----------------------------------------------------------------


def jpegs(folder: Path) -> Path:
    for number in range(12):
        (folder / f"c{number % 2}").mkdir(exist_ok=True, parents=True)
        Image.fromarray(picture(number, 40, 50)).save(folder / f"c{number % 2}" / f"{number:02d}.jpg")
    return folder


def test_webdataset_reads_it(tmp_path: Path, lines: Path) -> None:
    wds = pytest.importorskip("webdataset")
    source = carya.image_folder(jpegs(tmp_path / "photos"))
    convert(Request(str(tmp_path / "photos"), str(tmp_path / "out"), "webdataset", 2, 8192))
    read = list(wds.WebDataset([str(path) for path in shards(tmp_path / "out")], shardshuffle=False).decode())
    assert [one["__key__"] for one in read] == [f"{n:09d}" for n in range(12)]
    raw = list(wds.WebDataset([str(path) for path in shards(tmp_path / "out")], shardshuffle=False))
    for index in range(12):
        assert raw[index]["jpg"] == source[index]["image"].tobytes()
        assert read[index]["cls"] == source[index]["label"]
        assert read[index]["json"] == {"class": f"c{int(read[index]['cls'])}"}
    convert(Request(str(lines), str(tmp_path / "lines"), "webdataset", 2, 20_000))
    read = list(wds.WebDataset([str(path) for path in shards(tmp_path / "lines")], shardshuffle=False).decode())
    assert [one["json"] for one in read] == LINES


def test_streaming_reads_it(tmp_path: Path, lines: Path) -> None:
    streaming = pytest.importorskip("streaming")
    source = carya.image_folder(jpegs(tmp_path / "photos"))
    convert(Request(str(tmp_path / "photos"), str(tmp_path / "out"), "mds", 2, 8192))
    read = streaming.LocalDataset(str(tmp_path / "out"))
    assert len(read) == 12
    for index in range(12):
        theirs = read[index]
        assert np.array_equal(
            np.asarray(theirs["image"]), np.asarray(Image.open(io.BytesIO(source[index]["image"].tobytes())))
        )
        assert (theirs["label"], theirs["class"]) == (source[index]["label"], f"c{int(source[index]['label'])}")
    convert(Request(str(lines), str(tmp_path / "lines"), "mds", 2, 20_000))
    read = streaming.LocalDataset(str(tmp_path / "lines"))
    assert [read[i] for i in range(len(read))] == LINES
    np.savez(tmp_path / "a.npz", x=np.arange(24, dtype=np.int16).reshape(4, 2, 3), y=np.arange(4, dtype=np.uint8))
    convert(Request(str(tmp_path / "a.npz"), str(tmp_path / "arrays"), "mds", 1))
    read = streaming.LocalDataset(str(tmp_path / "arrays"))
    assert read[3]["x"].tolist() == [[18, 19, 20], [21, 22, 23]]
    assert read[3]["y"] == 3


def test_tfrecord_reads_it(tmp_path: Path, lines: Path) -> None:
    tfrecord = pytest.importorskip("tfrecord")
    convert(Request(str(lines), str(tmp_path / "lines"), "tfrecord", 2, 20_000))
    kinds = {"text": "byte", "number": "int", "ratio": "float", "deep": "byte"}
    read = [one for path in shards(tmp_path / "lines") for one in tfrecord.tfrecord_loader(str(path), None, kinds)]
    assert [bytes(one["text"]).decode() for one in read] == [line["text"] for line in LINES]
    assert [int(one["number"][0]) for one in read] == list(range(300))
    assert [float(one["ratio"][0]) for one in read] == [line["ratio"] for line in LINES]
    assert [json.loads(bytes(one["deep"])) for one in read] == [line["deep"] for line in LINES]


def test_array_record_reads_it(tmp_path: Path, lines: Path) -> None:
    module = pytest.importorskip("array_record.python.array_record_module")
    for workers in (1, 2):
        convert(Request(str(lines), str(tmp_path / f"{workers}"), "array_record", workers, 80_000))
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    convert(Request(str(lines), str(tmp_path / "tf"), "tfrecord", 1))
    wanted = TfRecords(open_records(tmp_path / "tf").records.files)
    at = 0
    for path in shards(tmp_path / "1"):
        reader = module.ArrayRecordReader(str(path))
        for row in range(reader.num_records()):
            assert reader.read([row])[0] == wanted.data(at)
            at += 1
    assert at == 300


@pytest.mark.skipif(not DATA, reason="needs CARYA_TEST_DATA")
@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("images", 823),
        ("text/gsm8k/train.jsonl", 7473),
        ("formats/tfrecord_raccoon/test.record", 40),
        ("formats/webdataset/mpdata.tar", 100),
        ("formats/lmdb_generated/dev_fsdd60", 60),
        ("formats/parquet_testing/data/alltypes_plain.parquet", 8),
    ],
)
def test_real_data_comes_back(name: str, count: int, to: str, tmp_path: Path) -> None:
    report = convert(Request(os.path.join(DATA or "", name), str(tmp_path / "out"), to, 2, 16 << 20))
    assert (report.records, report.skipped) == (count, [])
    assert report.verified == report.shards
