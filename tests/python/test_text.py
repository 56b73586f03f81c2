"""Lines and files of text."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import check_resume, shuffled_epoch

import carya
from carya._formats.kept import look_at
from carya._formats.lines import TextLines


def lines_of(data: bytes) -> list[str]:
    return [line for one in data.decode("utf-8-sig").split("\n") if (line := one.removesuffix("\r"))]


def number(text: str) -> int:
    return int(text[1:]) + 100 * (text[0] == "b")


@pytest.mark.parametrize("source", [carya.text, carya.jsonl, carya.csv])
def test_a_list_without_a_file_is_told(source: Callable[..., carya.Pipeline]) -> None:
    with pytest.raises(carya.InvalidArgument, match=r"paths: got \[\]; give files with at least one"):
        source([])


@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.sampled_from(["a", "é", "\n", "\r\n", "\r", " ", "字", "\0", "\u2028", "\v"]), max_size=30))
def test_lines_are_those_between_line_ends(pieces: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("t") / "a.txt"
    path.write_bytes("".join(pieces).encode())
    expected = lines_of(path.read_bytes())
    if not expected:
        with pytest.raises(carya.InvalidArgument, match="give files with at least one line"):
            carya.text(path)
        return
    pipeline = carya.text(path)
    assert [pipeline[n]["text"] for n in range(len(pipeline))] == expected


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\ntwo")
    assert [carya.text(tmp_path / "a.txt")[n]["text"] for n in range(2)] == ["one", "two"]
    assert carya.text(tmp_path / "a.txt", by="file")[0] == {"text": "one\ntwo"}


def test_files_are_records(tmp_path: Path) -> None:
    texts = ["one\n\ntwo\r\n", "\n", "drei ü"]
    for name, text in zip("abc", texts, strict=True):
        (tmp_path / f"{name}.md").write_bytes(text.encode())
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"packed\n"))
    (tmp_path / "e.txt").write_bytes(b"")
    (tmp_path / "photo.jpg").write_bytes(b"")
    pipeline = carya.text(tmp_path, by="file")
    assert [pipeline[n]["text"] for n in range(len(pipeline))] == [*texts, "packed\n"]


def test_a_record_that_is_no_utf_8_is_a_broken_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\xff\nthree\n")
    with pytest.raises(carya.SampleError, match=r"a\.txt @4: .*save it as UTF-8"):
        carya.text(path)[1]
    pipeline = carya.text(path).map(len, fields="text").batch(3)
    with carya.Loader(pipeline, threads=1, on_error="mask") as loader:
        (batch,) = list(loader)
        (entry,) = loader.quarantine()
    assert batch["text"].tolist() == [3, 0, 5]
    assert (entry["record"], "a.txt @4" in entry["reason"]) == (1, True)


def test_any_order_and_any_resume(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}{n}\n" for n in range(40)))
    lines = carya.text(tmp_path / "*.txt").shuffle(seed=3)
    batches, order = shuffled_epoch(lines.batch(8, lists="text"), 80)
    got = list(itertools.chain.from_iterable(batch["text"] for batch in batches))
    assert got == [f"{'ab'[record // 40]}{record % 40}" for record in order]
    numbered = lines.map(number, fields="text").batch(8)
    check_resume(numbered, shuffled_epoch(numbered, 80)[0])


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(carya.InvalidArgument, match='give "line" or "file"'):
        carya.text(tmp_path / "a.txt", by="word")  # type: ignore[arg-type]
    with pytest.raises(carya.NotFound, match=r"absent\.txt"):
        carya.text(tmp_path / "absent.txt")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfea\0")
    with pytest.raises(carya.SampleError, match="it is UTF-16"):
        carya.text(tmp_path / "b.txt")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"x\n" * 1000)[:-9])
    with pytest.raises(carya.SampleError, match=r"it is gzip, and .*copy it again"):
        carya.text(tmp_path / "c.txt.gz")


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
def test_real_text_has_all_its_lines() -> None:
    assert DATA is not None
    for name in ("text/tinyshakespeare/input.txt", "text/wikitext103/wiki.valid.tokens"):
        pipeline = carya.text(Path(DATA) / name)
        expected = lines_of((Path(DATA) / name).read_bytes())
        assert len(pipeline) == len(expected)
        assert [pipeline[n]["text"] for n in range(0, len(expected), 7)] == expected[::7]


def test_lines_read_at_once_are_those_read_one_by_one(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(70)]
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(f"{number}\r\nzwei ü\n\n\r\n".encode() + b"last" * number)
    texts = TextLines([look_at("text", str(tmp_path / name)) for name in names], "line")
    for wanted in ([5], [3, 4, 3, 0], [*range(0, 120, 2)], [*range(60, 120)], [*range(9)]):
        found = texts.columns(wanted)
        assert found is not None
        assert list(found["text"]) == [texts[index]["text"] for index in wanted]
    assert texts.columns(range(len(texts))) is None  # of more files than a process has open


def test_a_record_that_is_broken_is_told_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nthree\n")
    texts = TextLines([look_at("text", str(path))], "line")
    assert texts.columns([0, 1, 2]) is not None
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff")
    assert texts.columns([0, 1]) is None
    found = texts.columns([0, 2])
    assert found is not None
    assert list(found["text"]) == ["one", "three"]
    with path.open("r+b") as file:
        file.truncate(10)
    assert texts.columns([0, 2]) is None
    with pytest.raises(carya.IoError, match=r"a\.txt @8: wanted 6 B, got 2 B"):
        texts[2]
