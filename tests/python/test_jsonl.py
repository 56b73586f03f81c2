"""Lines of JSON, as the json module wrote them."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA
from streams import check_resume, shuffled_epoch

import carya
from carya._formats import texts
from carya._formats.texts import lines_of


def zstd(data: bytes) -> bytes:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return pa.compress(data, codec="zstd", asbytes=True)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd
}  # fmt: skip


def row(n: int) -> dict[str, Any]:
    return {
        "n": n,
        "text": f"zeile ü {n}\n" * (n % 4),
        "in": {"x": n / 3, "list": [n, n + 1]},
        "any": [None, "a", {"b": n}],
    }


def lines(first: int, last: int, **options: Any) -> bytes:
    return b"".join(json.dumps(row(n), **options).encode() + b"\n" for n in range(first, last))


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("two", [False, True], ids=["one_member", "two_members"])
def test_every_line_is_jsons(tmp_path: Path, suffix: str, two: bool) -> None:
    pack, data = PACKERS[suffix], lines(0, 50, ensure_ascii=False)
    middle = data.index(b"\n", 999) + 1
    (tmp_path / f"a.jsonl{suffix}").write_bytes(pack(data[:middle]) + pack(data[middle:]) if two else pack(data))
    (tmp_path / f"b.jsonl{suffix}").write_bytes(pack(lines(50, 70)))
    pipeline = carya.jsonl(tmp_path)
    assert len(pipeline) == 70
    dataset = pipeline._source.dataset.dataset
    for n in np.random.default_rng(1).permutation(70).tolist():
        assert dataset[n] == row(n)
    assert pipeline[5]["in.list"].tolist() == [5, 6]


def test_a_shuffled_stream_has_every_line_once_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 90))
    pipeline = carya.jsonl(tmp_path / "a.jsonl", fields=["n", "in.list", "text"]).shuffle(seed=3).batch(16)
    batches, order = shuffled_epoch(pipeline, 90)
    assert order != sorted(order)
    assert [int(n) for batch in batches for n in batch["n"]] == order
    assert batches[0]["text"] == [row(n)["text"] for n in order[:16]]
    check_resume(pipeline, batches, ("n", "in.list"))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize(
    "data",
    [
        b"1\n2\n3\n",
        b"1\n22\n333",
        b"\n\n1\n\n2\r\n\r\n3\n\n",
        b"1\r\n2\r\n3\r\n\r",
        b"\xef\xbb\xbf1\n2\n3",
        b"\xef\xbb\xbf\n1\n2\n3\r\n",
        b"1\n2\n3\n\n\n",
    ],
)
def test_lines_begin_where_they_begin(monkeypatch: pytest.MonkeyPatch, data: bytes, block: int) -> None:
    monkeypatch.setattr(texts, "_BLOCK", block)
    starts = lines_of(lambda: io.BytesIO(data), len(data)).tolist()
    found = [data[begin:end].strip().decode() for begin, end in itertools.pairwise(starts)]
    assert found == data.decode("utf-8-sig").split()
    assert starts[-1] == len(data)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\n\r\n\n", b"\xef\xbb\xbf\n"])
def test_files_without_lines_are_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(data)
    assert len(lines_of(lambda: io.BytesIO(data), len(data))) == 1
    with pytest.raises(carya.InvalidArgument, match="give files with at least one line"):
        carya.jsonl(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"n": 1', "JSONDecodeError: Expecting ',' delimiter"),
        (b"\xff\xfe", "UnicodeDecodeError"),
        (b'{"n": "\xc3"}', "UnicodeDecodeError"),
        (b"[" * 100_000, "RecursionError"),
        (b'{"n": ' + b"9" * 5000 + b"}", "ValueError: Exceeds the limit"),
        (b'{"m": 1}', r"ValueError: it has no 'n', only 'm'"),
        (b"[1]", "ValueError: it has no 'n', since it is a list"),
        (b'{"n": "1"}', "ValueError: n: got '1', and its dtype is int16"),
        (b'{"n": 1.5}', "ValueError: n: got 1.5, and its dtype is int16"),
        (b'{"n": 40000}', "ValueError: n: got 40000, and its dtype is int16"),
        (b'{"n": null}', "ValueError: n: got None, and its dtype is int16"),
        (b"\x00", "JSONDecodeError"),
    ],
)
def test_a_broken_line_is_a_broken_record(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n\n' + line + b'\n{"n": 3}')
    pipeline = carya.jsonl(path, fields="n", dtypes={"n": "int16"}).batch(3)
    with pytest.raises(carya.SampleError, match=rf"a\.jsonl @10: {reason}"):
        pipeline[1]
    with carya.Loader(pipeline, threads=1, on_error="mask") as loader:
        (batch,) = list(loader)
        (entry,) = loader.quarantine()
    assert batch["n"].tolist() == [1, 0, 3]
    assert batch["n"].dtype == np.int16
    assert entry["record"] == 1
    assert f"{path} @10: " in entry["reason"]


def test_a_json_list_is_told_from_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for indent in (None, 1):
        path.write_text(json.dumps([{"n": 1}, {"n": 2}], indent=indent))
        with pytest.raises(
            carya.SampleError, match=r"a\.json @0: .*; a JSON list is no JSON Lines: write each of its records"
        ):
            carya.jsonl(path, fields="n")[0]


def test_dtypes_fit_numbers_of_both_kinds_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": {"x": 1}, "v": []}\n{"a": {"x": 2.5}, "v": [1, 2]}\n')
    pipeline = carya.jsonl(path, dtypes={"a.x": np.float32, "v": "uint8"})
    assert [(float(pipeline[n]["a.x"]), pipeline[n]["v"].tolist()) for n in range(2)] == [(1, []), (2.5, [1, 2])]
    assert pipeline[0]["a.x"].dtype == np.float32
    assert pipeline[0]["v"].dtype == np.uint8
    with pytest.raises(carya.InvalidArgument, match=r"dtypes\['v'\]: got 'datetime64\[s\]'; give a dtype of numbers"):
        carya.jsonl(path, dtypes={"v": "datetime64[s]"})


def upper(line: str) -> Any:
    return {"line": line.strip().upper()}


def test_lines_can_be_parsed_by_another_function(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("a\nb\n")
    assert carya.jsonl(tmp_path / "a.jsonl", loads=upper)[1] == {"line": "B"}
    versions = {carya.jsonl(tmp_path / "a.jsonl", loads=loads)._source.dataset.version for loads in (upper, json.loads)}
    assert len(versions) == 2


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_what_is_packed_and_cut_off_is_told_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    whole = PACKERS[suffix](os.urandom(5000) + lines(0, 50))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(carya.SampleError, match=rf"a\.jsonl\{suffix}: it is .*copy it again"):
        carya.jsonl(path)
    assert not list(Path(os.environ["CARYA_CACHE_DIR"]).glob("unpacked-*/text"))
    path.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    with pytest.raises(carya.SampleError, match=rf"a\.jsonl\{suffix}: it is "):
        carya.jsonl(path)


def test_a_bomb_stops_where_a_tenth_of_the_disk_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(bytes(1 << 20)))
    monkeypatch.setattr(texts, "_BLOCK", 1 << 16)
    monkeypatch.setattr(
        texts, "has_room", lambda folder, _: sum(p.stat().st_size for p in Path(folder).iterdir()) < 500_000
    )
    with pytest.raises(carya.Exhausted, match="less than a tenth of the disk free; make room"):
        carya.jsonl(tmp_path / "a.jsonl.gz")


def test_other_formats_are_told_by_their_first_bytes(tmp_path: Path) -> None:
    for content, name in (('{"a": 1}'.encode("utf-16"), "UTF-16"), (b"PK\x03\x04..", "zip"), (b"PAR1....", "Parquet")):
        (tmp_path / "a.jsonl").write_bytes(content)
        with pytest.raises(carya.SampleError, match=rf"a\.jsonl: it is {name}; give text in UTF-8"):
            carya.jsonl(tmp_path / "a.jsonl")


def test_an_index_of_a_large_file_is_kept_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_KEPT_MIN", 1)
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(0, 20))
    assert carya.jsonl(path)[7]["n"] == 7
    (kept,) = Path(os.environ["CARYA_CACHE_DIR"]).glob("lines-*.npy")
    whole, stamp = kept.read_bytes(), kept.stat().st_mtime_ns
    assert carya.jsonl(path)[8]["n"] == 8
    assert kept.stat().st_mtime_ns == stamp
    for content in (b"", whole[:50], whole[:-9], whole[:-8] + bytes(8), whole[:128] + whole[-8:] * 21):
        kept.write_bytes(content)
        assert carya.jsonl(path)[9]["n"] == 9
        assert kept.read_bytes() == whole
    cache = pytest.importorskip("carya._cli.cache")
    (line,) = (line for line in cache.files(os.environ["CARYA_CACHE_DIR"]) if line["kind"] == "lines")
    assert line["records"] == 20
    cache.remove([line["name"]], False, None, True)
    assert not kept.exists()


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 20))
    pipeline, opened = (carya.jsonl(tmp_path / "a.jsonl") for _ in range(2))
    assert opened[0]["n"] == 0
    (tmp_path / "a.jsonl").write_bytes(lines(0, 5))
    with pytest.raises(carya.IoError, match=r"a\.jsonl: it changed since it was listed"):
        pipeline[0]
    with pytest.raises(carya.IoError, match=r"a\.jsonl @\d+: wanted .* B, got 0 B"):
        opened[19]


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
def test_real_files_have_the_lines_that_json_reads() -> None:
    for path in sorted(Path(DATA or "", "text").glob("**/*.jsonl")):
        dataset = carya.jsonl(path)._source.dataset.dataset
        wanted = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
        assert [dataset[n] for n in range(len(dataset))] == wanted
