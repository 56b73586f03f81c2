"""Clips of video files, against decoding the whole file in order by PyAV."""

from __future__ import annotations

import contextlib
import json
import os
import random
import struct
import subprocess
import sys
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya
from carya._records.opening import open_records

av = pytest.importorskip("av", reason="av is not installed")

KINDS = {
    "a.mp4": ("libx264", {"g": "12", "bf": "2"}),
    "b.mkv": ("libx264", {"x264-params": "open-gop=1:keyint=10:bframes=3"}),
    "c.avi": ("mpeg4", {"g": "9"}),
    "d.webm": ("libvpx-vp9", {"g": "9"}),
    "e.ts": ("mpeg2video", {"g": "6", "bf": "2"}),
}
COUNT = 40


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))


def write(path: Path, count: int = COUNT, size: tuple[int, int] = (48, 32)) -> Path:
    codec, options = KINDS[f"{'abcde'[['.mp4', '.mkv', '.avi', '.webm', '.ts'].index(path.suffix)]}{path.suffix}"]
    if codec not in av.codecs_available:
        pytest.skip(f"PyAV has no {codec}")
    draw = np.random.default_rng(1)
    with av.open(str(path), "w") as file:
        stream = file.add_stream(
            codec, rate=25, width=size[0], height=size[1], pix_fmt="yuv420p", options=dict(options)
        )
        for n in range(count):
            picture = draw.integers(0, 60, (size[1], size[0], 3), np.uint8)
            picture[n % size[1]] = 255
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode())
    return path


def all_frames(path: Path) -> tuple[np.ndarray[Any, Any], list[float]]:
    with av.open(str(path)) as file:
        frames = [(frame.to_ndarray(format="rgb24"), frame.time) for frame in file.decode(video=0)]
    return np.stack([picture for picture, _ in frames]), [time for _, time in frames]


@pytest.mark.parametrize("name", KINDS)
def test_clips_have_the_frames_of_decoding_in_order(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name)
    pictures, times = all_frames(path)
    assert len(pictures) == COUNT
    for frames, every, stride in ((1, 1, 1), (4, 1, 4), (3, 5, 1), (5, 2, 2)):
        clips = carya.video(path, frames=frames, every=every, stride=stride).map_style
        grid = list(range(0, COUNT, every))
        wanted = [grid[at : at + frames] for at in range(0, len(grid) - frames + 1, stride)]
        assert len(clips) == len(wanted)
        for n in random.Random(frames).sample(range(len(wanted)), min(len(wanted), 12)):
            sample = clips[n]
            assert np.array_equal(sample["video"], pictures[wanted[n]])
            assert np.allclose(sample["times"], [times[i] for i in wanted[n]], rtol=0, atol=1e-9)
            assert sample["path"] == str(path)


def test_frames_a_second_are_those_whose_time_came_last(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4")
    for fps in (10, 25, 60, 7.5):
        clips = carya.video(path, frames=2, fps=fps).map_style
        assert len(clips) == int(COUNT / 25 * fps) // 2
        for n in range(len(clips)):
            shown = [int((2 * n + i) / fps * 25 + 1e-6) for i in range(2)]
            assert np.allclose(clips[n]["times"] * 25, shown, rtol=0, atol=1e-6)


def test_a_stream_of_clips_is_the_same_with_any_number_of_workers(tmp_path: Path) -> None:
    write(tmp_path / "a.mp4")
    write(tmp_path / "c.avi")
    found = []
    for threads in (1, 3):
        with carya.Loader(carya.video(tmp_path, frames=4).shuffle(seed=1).batch(5), threads=threads) as loader:
            found.append([(batch.records.tolist(), np.array(batch["video"])) for batch in loader])
    assert len(found[0]) == 4
    for one, other in zip(*found, strict=True):
        assert one[0] == other[0]
        assert np.array_equal(one[1], other[1])


def test_a_file_that_cannot_be_read_is_one_broken_record(tmp_path: Path) -> None:
    write(tmp_path / "a.mp4")
    (tmp_path / "b.mp4").write_bytes(b"none")
    write(tmp_path / "c.avi", count=3)  # less than a clip
    (tmp_path / "d.mp4").write_bytes((tmp_path / "a.mp4").read_bytes()[:300])
    pipeline = carya.video(tmp_path, frames=8)
    assert len(pipeline) == COUNT // 8 + 2
    with carya.Loader(pipeline.batch(4), threads=1, on_error="replace", seed=1) as loader:
        assert sum(len(batch["video"]) for batch in loader) == len(pipeline)
        reasons = {entry["record"]: entry["reason"] for entry in loader.quarantine()}
    assert set(reasons) == {5, 6}
    assert "b.mp4" in reasons[5]
    assert "d.mp4" in reasons[6]
    with pytest.raises(carya.InvalidArgument, match="files with at least 99 frames of a clip"):
        carya.video(tmp_path / "a.mp4", frames=99)


def test_a_playlist_names_no_other_file(tmp_path: Path) -> None:
    write(tmp_path / "e.ts")
    for name, text in (
        ("list.mp4", f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{tmp_path}/e.ts\n#EXT-X-ENDLIST\n"),
        ("concat.mp4", f"ffconcat version 1.0\nfile {tmp_path}/e.ts\n"),
    ):
        (tmp_path / name).write_text(text)
        clips = carya.video(tmp_path / name)
        assert len(clips) == 1
        with pytest.raises(carya.SampleError, match=name):
            clips[0]


def test_what_is_damaged_is_an_error_or_a_clip_and_never_more(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4")
    whole = path.read_bytes()
    draw = random.Random(1)
    for turn in range(25):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data[: draw.randrange(len(data))] if turn % 4 == 0 else data)
        os.utime(path, ns=(0, turn))
        with contextlib.suppress(carya.InvalidArgument):
            clips = carya.video(path, frames=5).map_style
            for n in range(min(len(clips), 9)):
                with contextlib.suppress(carya.SampleError):
                    assert clips[n]["video"].shape[0] == 5


def test_a_codec_that_is_not_known_is_one_broken_record(tmp_path: Path) -> None:
    path = write(tmp_path / "c.avi")
    data = path.read_bytes()
    (tmp_path / "d.avi").write_bytes(data.replace(b"FMP4", b"zzzz"))
    clips = carya.video(tmp_path).map_style
    assert len(clips) == COUNT + 1
    assert clips[0]["path"] == str(path)
    with pytest.raises(carya.SampleError, match=r"d\.avi: its codec is none that FFmpeg knows here; copy"):
        clips[COUNT]


def test_frames_a_second_of_a_gap_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "b.mkv"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=25, width=32, height=16)
        stream.codec_context.time_base, stream.codec_context.gop_size = Fraction(1, 25), 1
        for time in (0, 25, 25_000_000):
            frame = av.VideoFrame.from_ndarray(np.zeros((16, 32, 3), np.uint8))
            frame.pts, frame.time_base = time, Fraction(1, 25)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    clips = carya.video(path, fps=1e-3).map_style
    # The last frame is shown as long as the middle one of the gaps.
    assert len(clips) == 1500
    assert [clips[n]["times"].item() for n in (0, 1, 999, 1000)] == [0, 1, 1, 1_000_000]
    with pytest.raises(carya.SampleError, match=r"at 25 frames a second its 3 are 37,[\d,]+, and at most 1,049,344"):
        carya.video(path, fps=25)[0]


def test_more_frames_than_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from carya._containers import video

    path = write(tmp_path / "a.mp4")
    monkeypatch.setattr(video, "_PACKET_LEAST", path.stat().st_size // (COUNT - 1))
    with pytest.raises(carya.SampleError, match=r"it has more than 39 frames, for which its bytes are too few"):
        carya.video(path)[0]


def test_a_picture_that_is_too_large_is_not_decoded_to_look_at_it(tmp_path: Path) -> None:
    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    width, height = 13_000, 8_000
    pixels = zlib.compress(bytes((width + 1) * height), 1)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", pixels) + part(b"IEND", b"")
    path = tmp_path / "large.avi"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("png", rate=25, width=width, height=height)
        stream.pix_fmt = "gray"
        packet = av.Packet(data)
        packet.stream, packet.pts, packet.dts, packet.time_base = stream, 0, 0, Fraction(1, 25)
        file.mux(packet)
    code = (
        "import carya, av, re, sys\n"
        "def high(): return int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
        "carya.video(sys.argv[1])\n"
        "before = high()\n"
        "try: carya.video(sys.argv[2])[0]\n"
        "except carya.SampleError as error: print(high() - before, error)\n"
    )
    small = write(tmp_path / "c.avi", count=2)
    out = subprocess.run(
        [sys.executable, "-c", code, str(small), str(path)], capture_output=True, check=True, text=True
    ).stdout
    assert "large.avi" in out
    assert int(out.split()[0]) < 50 << 10  # KiB; the picture has 100 MiB


def test_tables_are_kept_and_made_anew_where_they_are_damaged(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4")
    clips = carya.video(path, frames=4).map_style
    (kept,) = clips.kept_paths()
    listed = subprocess.run(
        [sys.executable, "-m", "carya", "cache", "ls", "--json"], capture_output=True, check=True
    ).stdout
    (line,) = [one for one in json.loads(listed)["files"] if one["name"] == Path(kept).name]
    assert line["records"] == COUNT
    for content in (b"", b"\x93NUMPY", Path(kept).read_bytes()[:-8]):
        Path(kept).write_bytes(content)
        again = carya.video(path, frames=4).map_style
        assert again.version == clips.version
        assert np.array_equal(again[3]["video"], clips[3]["video"])


def test_it_is_recognised_and_inspected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4")
    assert carya.open(path, frames=8)[1]["video"].shape == (8, 32, 48, 3)
    records = open_records(str(path)).records
    assert (records.kind, len(records)) == ("video", COUNT)
    assert "clip from frame 5 at 0.200 s" in records.place(5)


def test_a_file_that_changes_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4")
    clips = carya.video(path).map_style
    assert clips[0]["video"].shape == (1, 32, 48, 3)  # it is open now
    for change in (lambda: os.utime(path, ns=(1, 1)), lambda: path.write_bytes(b"another")):
        change()
        with pytest.raises(carya.IoError, match=r"a\.mp4: it changed since it was listed"):
            clips[1]


def test_arguments_and_a_missing_library_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.mp4", count=2)
    for wrong in ({"frames": 0}, {"every": 0}, {"stride": True}, {"every": 2, "fps": 5}, {"fps": 0}, {"fps": 1e-7}):
        with pytest.raises(carya.InvalidArgument, match="video: "):
            carya.video(path, **wrong)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(carya.Unsupported, match=r"pip install 'carya\[video\]'"):
        carya.video(path)
