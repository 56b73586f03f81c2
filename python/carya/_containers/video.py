"""Clips of video files."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .._errors import Error, SampleError, invalid
from .._formats.kept import Listed, digest, kept_name, make_once, source_files
from .._formats.needed import needed
from .._pipeline.dataset import cache_dir
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike
from .._stages.source import checked_dataset

NAMED = re.compile(r"^[^.].*\.(mp4|m4v|mov|mkv|webm|avi|ts|mts|m2ts|mpg|mpeg|ogv|flv|3gp|wmv)$", re.IGNORECASE)
_OPEN_MAX = 8  # files that a process has open
_CLIP_MAX = 1 << 30  # bytes of a clip
_PIXELS_MAX = 1 << 26  # of a frame
_PACKET_LEAST = 4  # bytes of a file for each of its frames
_FPS = 1e-4, 1e6
# Numbers of frames that `fps` gives: a picture that is shown long is many, and a wrong time is no reason for endless ones.
_SHOWN_MAX, _SHOWN_PER_FRAME = 1 << 20, 256
_STREAMS_MAX = 1000  # that FFmpeg reads of a file
# Only formats that hold their data themselves, and no other file: no playlists, no lists of files.
_OPTIONS = {
    "protocol_whitelist": "file",
    "format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,ogg,flv,asf",
}
_FIXED = 2  # rows of a table in front of those of frames: time base, width and height

Array = np.ndarray[Any, Any]


def video(
    paths: PathLike | Sequence[PathLike],
    *,
    frames: int = 1,
    every: int | None = None,
    fps: float | None = None,
    stride: int | None = None,
    endpoint: str | None = None,
) -> Pipeline:
    """Clips of video files in any order, decoded in worker processes by PyAV. Needs it: `pip install carya[video]`.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.mp4", "*.mkv", "*.webm", "*.avi" and the like,
    bytewise), their clips one behind the other. A clip has `frames` frames: each one that follows, each `every`-th, or those that
    are shown `fps` times a second (the one whose time has come last). The next clip begins `stride` of these frames later
    (default: `frames`, so that clips follow each other); frames behind a file's last clip are left out, and a file with less
    than a clip has none. Samples: `{"video": uint8 [frames, height, width, 3], "times": float64 [frames], "path": str}`, pixels in
    RGB as PyAV's `to_ndarray("rgb24")` makes them (turns in the file's head are not made), times in seconds as the file has them.

    The times of all frames are read from a file's packets, once, and kept in the cache folder: frames are told by their time, so a
    clip has the frames of decoding the file in order, wherever decoding begins. It begins at the last key frame before the clip,
    and each process goes on where it is for a later clip behind the same key frame.

    A file that cannot be read is one broken record (`Loader(on_error=)`), as is a clip with a frame that is damaged or missing. A
    file that changes while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. Objects behind URLs are copied into the cache
    folder as a whole, once for each version.
    Errors: NotFound, InvalidArgument (numbers below 1, `fps` below 0.0001, `every` with `fps`, no clip), Unsupported (PyAV is missing).
    Reference: av.VideoFrame.to_ndarray of all frames in order.

    >>> import av, carya, numpy as np, tempfile
    >>> name = tempfile.mkdtemp() + "/a.mp4"
    >>> with av.open(name, "w") as file:
    ...     stream = file.add_stream("mpeg4", rate=25, width=32, height=16)
    ...     for n in range(10):
    ...         file.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((16, 32, 3), n, np.uint8))))
    ...     file.mux(stream.encode())
    >>> carya.video(name, frames=2, every=2)[1]["times"]
    array([0.16, 0.24])
    """
    for name, given in (("frames", frames), ("every", every), ("stride", stride)):
        if given is None and name != "frames":
            continue
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise invalid(f"video: {name}", given, "a number of frames from 1 on")
    if every is not None and fps is not None:
        raise invalid("video: every, fps", (every, fps), "one of them")
    if fps is not None and (not isinstance(fps, int | float) or isinstance(fps, bool) or not _FPS[0] <= fps <= _FPS[1]):
        raise invalid("video: fps", fps, f"frames per second, from {_FPS[0]} to {_FPS[1]:,.0f}")
    needed("video", "av", "video")
    files = source_files("video", paths, NAMED, "*.mp4, *.mkv and the like", endpoint)
    clips = VideoClips(files, frames, every or 1, fps, stride or frames)
    return Pipeline._of_dataset(checked_dataset(clips, None, False, clips.version))


class _File(NamedTuple):
    """A file's frames."""

    listed: Listed
    problem: str  # why it cannot be read; it is one broken record then
    table: Array  # int64 (_FIXED + frames, 2): what is fixed; of each frame its time, and whether it is a key frame
    grid: Array  # int64: numbers of the frames that clips are cut from


class _Decoder:
    """A file that is being decoded."""

    def __init__(self, path: str) -> None:
        self.container, self.stream = _opened(path)
        self.frames: Iterator[Any] = self.container.decode(self.stream)
        self.key = -1  # time of the key frame that decoding began at; -1: the file's beginning
        self.last: int | None = None  # time of the last frame
        self.ahead: Any = None  # a frame that was decoded, and that nobody took yet


class VideoClips:
    """Clips by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(self, files: Sequence[Listed], frames: int, every: int, fps: float | None, stride: int) -> None:
        self._frames, self._stride = frames, stride
        self._folder = cache_dir()
        self._files = [self._looked_at(file, every, fps) for file in files]
        counts = [1 if file.problem else max(0, (len(file.grid) - frames) // stride + 1) for file in self._files]
        self._starts = [0, *itertools.accumulate(counts)]
        if not len(self):
            raise invalid(
                "video: paths", [file.path for file in files], f"files with at least {frames:,} frames of a clip"
            )
        about = [
            (os.path.basename(file.listed.path), file.listed.size, bool(file.problem), digest(file.table.tobytes()))
            for file in self._files
        ]
        self.version = f"video 1 {digest(about, frames, every, fps, stride)}"
        self._open: dict[int, _Decoder] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        import av

        number = bisect.bisect_right(self._starts, index) - 1
        file = self._files[number]
        if file.problem:
            file.listed.check("video")
            raise SampleError(f"video: {file.listed.path}: {file.problem}; copy the file again, or leave it out")
        first = (index - self._starts[number]) * self._stride
        rows = file.table[_FIXED + file.grid[first : first + self._frames]]
        try:
            pictures = self._decoded(number, rows[:, 0])
            file.listed.check("video")
        except (av.FFmpegError, ValueError) as error:
            self._forget(number)
            file.listed.check("video")
            wanted = "copy the file again, or leave the clip out"
            raise SampleError(f"{self.place(index)}: {error}; {wanted}") from error
        numerator, denominator = file.table[0].tolist()
        return {"video": pictures, "times": rows[:, 0] * numerator / denominator, "path": file.listed.path}

    def place(self, index: int) -> str:
        """Where a clip is, for people: its file, and the number of its first frame."""
        number = bisect.bisect_right(self._starts, index) - 1
        file = self._files[number]
        if file.problem:
            return f"video: {file.listed.path}"
        frame = file.grid.item((index - self._starts[number]) * self._stride)
        seconds = file.table.item(_FIXED + frame, 0) * file.table.item(0, 0) / file.table.item(0, 1)
        return f"video: {file.listed.path}, clip from frame {frame:,} at {seconds:.3f} s"

    def unpack(self, show: Callable[[int, int], None] = lambda done, count: None) -> None:
        """The tables of frames are there. `show(done, count)` is told of files."""
        show(len(self._files), len(self._files))

    def kept_paths(self) -> list[str]:
        """What is in the cache folder of it."""
        paths = [self._kept(file.listed) for file in self._files]
        return [path for path in paths if self._folder and os.path.exists(path)]

    def _decoded(self, number: int, times: Array) -> Array:
        """The frames at these times. Errors: ValueError, those of PyAV."""
        table = self._files[number].table[_FIXED:]
        wanted: list[int] = times.tolist()
        keys = table[table[:, 1] != 0, 0]
        at = int(np.searchsorted(keys, wanted[0], "right")) - 1
        decoder = self._open.get(number)
        key = keys.item(at) if at >= 0 else -1
        if decoder is None or decoder.key != key or decoder.last is None or decoder.last >= wanted[0]:
            decoder = self._begun(number, keys, at, wanted[0])
        out: Array | None = None
        i = 0
        while i < len(wanted):
            frame = _next(decoder)
            if frame is None or frame.pts > wanted[i]:
                raise ValueError(f"its frame at {wanted[i]} is missing")
            if frame.pts != wanted[i]:
                continue
            if frame.is_corrupt:
                raise ValueError(f"its frame at {frame.pts} is damaged")
            if out is None:
                if frame.width * frame.height * 3 * len(wanted) > _CLIP_MAX:
                    raise ValueError(
                        f"clips of {len(wanted)} frames of {frame.width} x {frame.height} have more than 1 GiB"
                    )
                out = np.empty((len(wanted), frame.height, frame.width, 3), np.uint8)
            if out.shape[1:3] != (frame.height, frame.width):
                raise ValueError(f"its frame at {frame.pts} is {frame.width} x {frame.height}, unlike those before it")
            picture = _pixels(frame)
            while i < len(wanted) and wanted[i] == frame.pts:
                out[i] = picture
                i += 1
        assert out is not None
        return out

    def _begun(self, number: int, keys: Array, at: int, first: int) -> _Decoder:
        """A decoder whose next frame is none behind `first`: from a key frame on, an earlier one where that is not enough."""
        key = keys.item(at) if at >= 0 else -1
        while True:
            decoder = self._open.get(number)
            if decoder is None or at < 0:
                self._forget(number)
                if len(self._open) >= _OPEN_MAX:
                    self._forget(next(iter(self._open)))
                decoder = self._open[number] = _Decoder(self._files[number].listed.path)
            if at >= 0:
                decoder.container.seek(keys.item(at), stream=decoder.stream, backward=True)
                decoder.frames = decoder.container.decode(decoder.stream)
            decoder.key, decoder.ahead = key, None
            decoder.ahead = _next(decoder)
            if at < 0 or (decoder.ahead is not None and decoder.ahead.pts <= first):
                return decoder
            at -= 1

    def _forget(self, number: int) -> None:
        decoder = self._open.pop(number, None)
        if decoder is not None:
            decoder.container.close()

    def _kept(self, file: Listed) -> str:
        return os.path.join(self._folder, kept_name("video", [file], 1) + ".npy")

    def _looked_at(self, file: Listed, every: int, fps: float | None) -> _File:
        import av

        try:
            table = self._table(file)
            times = table[_FIXED:, 0]
            grid = np.arange(0, len(times), every) if fps is None else _grid(times, table[0].tolist(), fps)
        except (av.FFmpegError, ValueError, OverflowError) as error:
            if isinstance(error, Error):
                raise
            return _File(
                file, str(error) or type(error).__name__, np.zeros((_FIXED, 2), np.int64), np.zeros(0, np.int64)
            )
        return _File(file, "", table, grid.astype(np.int64))

    def _table(self, file: Listed) -> Array:
        """The file's table, kept in the cache folder. Errors: ValueError, those of PyAV."""
        if not self._folder:
            return _table_of(file.path)
        path = self._kept(file)

        def write(name: str) -> None:
            with open(name, "wb") as out:
                np.save(out, _table_of(file.path), allow_pickle=False)
            file.check("video")

        for _ in range(2):
            make_once(path, write, [file])
            with contextlib.suppress(ValueError, EOFError):
                found: Array = np.load(path, allow_pickle=False)
                sound = found.dtype == np.int64 and found.ndim == 2 and found.shape[1] == 2 and len(found) > _FIXED
                if sound and found[0].min() > 0 and bool((np.diff(found[_FIXED:, 0]) > 0).all()):
                    return found
            os.unlink(path)  # damaged
        return _table_of(file.path)


def _pixels(frame: Any) -> Array:
    """What `frame.to_ndarray(format="rgb24")` gives, without a copy."""
    plane = frame.reformat(format="rgb24").planes[0]
    rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: frame.height, : 3 * frame.width]
    return rows.reshape(frame.height, frame.width, 3)


def _next(decoder: _Decoder) -> Any:
    """The next frame that has a time; None at the end."""
    frame, decoder.ahead = decoder.ahead, None
    while frame is None or frame.pts is None:
        frame = next(decoder.frames, None)
        if frame is None:
            return None
    decoder.last = frame.pts
    return frame


def _opened(path: str) -> tuple[Any, Any]:
    """A container and its first stream of video. Errors: ValueError (there is none), those of PyAV."""
    import av

    # Streams are decoded in here already, to find out what they are.
    limits = [{"max_pixels": str(_PIXELS_MAX)}] * _STREAMS_MAX
    container = av.open(
        "file:" + os.path.abspath(path), options=_OPTIONS, stream_options=limits, metadata_errors="ignore"
    )
    try:
        if not container.streams.video:
            raise ValueError("it has no video")
        stream = container.streams.video[0]
        context = stream.codec_context
        if context is None:
            raise ValueError("its codec is none that FFmpeg knows here")
        # One thread: processes are many, and frames come in one order whatever happens to them.
        context.thread_count = 1
        context.options = dict(limits[0])
        if context.width * context.height > _PIXELS_MAX:
            raise ValueError(f"its frames are {context.width} x {context.height}")
    except BaseException:
        container.close()
        raise
    return container, stream


def _table_of(path: str) -> Array:
    """The times of a file's frames in order, by its packets, or where those say too little by decoding all of it."""
    most = os.path.getsize(path) // _PACKET_LEAST
    container, stream = _opened(path)
    with container:
        base = stream.time_base
        size = stream.codec_context.width, stream.codec_context.height
        packets = (packet for packet in container.demux(stream) if packet.size != 0 and not packet.is_discard)
        times, keys = _listed((packet.pts, packet.is_keyframe, packet.is_corrupt) for packet in _bounded(packets, most))
    order = np.argsort(times, kind="stable")
    times, keys = times[order], keys[order]
    if not len(times) or np.any(times[1:] == times[:-1]):
        container, stream = _opened(path)
        with container:
            frames = (frame for frame in container.decode(stream) if frame.pts is not None)
            times, keys = _listed((frame.pts, False, False) for frame in _bounded(frames, most))
        rising = np.ones(len(times), bool)
        rising[1:] = times[1:] > np.maximum.accumulate(times)[:-1]
        times, keys = times[rising], keys[rising]
    if not len(times) or not base:
        raise ValueError("it has no frames with times")
    if max(abs(times.item(0)), abs(times.item(-1))) >= 1 << 62:
        raise ValueError(f"its frames have times from {times[0]} to {times[-1]}")
    fixed = np.array([(base.numerator, base.denominator), size], np.int64)
    return np.concatenate([fixed, np.stack([times, keys], 1)])


def _bounded(found: Iterator[Any], most: int) -> Iterator[Any]:
    """Errors: ValueError (there are more)."""
    for n, one in enumerate(found):
        if n >= most:
            raise ValueError(f"it has more than {most:,} frames, for which its bytes are too few")
        yield one


def _listed(found: Iterator[tuple[int | None, bool, bool]]) -> tuple[Array, Array]:
    """Times, and what is a key frame, int64; none where one of them has no time, or is damaged."""
    times, keys = array("q"), bytearray()
    for time, key, damaged in found:
        if time is None or damaged:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        times.append(time)
        keys.append(key)
    return np.array(times, np.int64), np.frombuffer(keys, np.uint8).astype(np.int64)


def _grid(times: Array, base: Sequence[int], fps: float) -> Array:
    """Which frame is shown at each of the times 0, 1/fps, 2/fps, ... behind the first. Errors: ValueError."""
    step = Fraction(base[1], base[0]) / Fraction(fps).limit_denominator(1 << 20)
    shown = times - times[0]
    end = int(shown[-1]) + (int(np.median(np.diff(shown))) if len(shown) > 1 else 1)
    count = -(-end * step.denominator // step.numerator)
    most = _SHOWN_MAX + _SHOWN_PER_FRAME * len(times)
    if count > most:
        raise ValueError(f"at {fps} frames a second its {len(times):,} are {count:,}, and at most {most:,} are given")
    # The first of these times that each frame is shown at, in integers of any size.
    firsts = (-(-time * step.denominator // step.numerator) for time in map(int, shown))
    edges: Array = np.append(np.fromiter(firsts, np.int64, len(times)), count)
    return np.repeat(np.arange(len(times)), edges[1:] - edges[:-1])
