"""Traces: every packet read by Perfetto's own definitions, what they say, and what they change: nothing."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import workers
from daemons import running
from PIL import Image
from streams import digest

import carya
from carya import _core
from carya._tracing.chrome import to_chrome
from carya._tracing.recording import Trace

proto: Any = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4


class Read:
    """A trace as Perfetto's definitions see it. Fails where a name, a track or the end of a slice is missing."""

    def __init__(self, bytes_: bytes) -> None:
        trace = proto.Trace()
        trace.ParseFromString(bytes_)
        trace.DiscardUnknownFields()
        assert len(trace.SerializeToString()) == len(bytes_)  # the definitions know all of it
        self.packets = list(trace.packet)
        self.tracks: dict[int, Any] = {}
        self.slices: list[dict[str, Any]] = []
        self.counters: dict[str, list[int]] = defaultdict(list)
        self.instants: list[dict[str, Any]] = []
        names: dict[tuple[int, int], str] = {}
        arguments: dict[tuple[int, int], str] = {}
        stacks: dict[int, list[dict[str, Any]]] = defaultdict(list)
        last: dict[int, int] = {}
        for packet in self.packets:
            writer = packet.trusted_packet_sequence_id
            assert writer > 0
            if packet.sequence_flags & 1:
                assert packet.trace_packet_defaults.timestamp_clock_id == 3
            names |= {(writer, one.iid): one.name for one in packet.interned_data.event_names}
            arguments |= {(writer, one.iid): one.name for one in packet.interned_data.debug_annotation_names}
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                parent = packet.track_descriptor.parent_uuid
                assert not parent or parent in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            track = self.tracks[event.track_uuid]
            assert packet.timestamp >= last.get(writer, 0)
            last[writer] = packet.timestamp
            if event.type == COUNTER:
                self.counters[track.name].append(event.counter_value)
                continue
            if event.type == SLICE_END:
                stacks[track.uuid].pop()["end"] = packet.timestamp
                continue
            one = {
                "name": names[writer, event.name_iid], "begin": packet.timestamp, "track": track,
                "flows": set(event.flow_ids), "ends": set(event.terminating_flow_ids),
                **{
                    arguments[writer, said.name_iid]: said.string_value or said.uint_value
                    for said in event.debug_annotations
                },
            }  # fmt: skip
            if event.type == INSTANT:
                self.instants.append(one)
                continue
            stacks[track.uuid].append(one)
            assert len(stacks[track.uuid]) <= 2  # only a worker's computing lies inside of another slice
            self.slices.append(one)
        assert not any(stacks.values())
        # A flow may not lead back in time: who reads the trace would drop it.
        began: dict[int, int] = {}
        for one in sorted([*self.slices, *self.instants], key=lambda one: one["begin"]):
            began |= {flow: one["begin"] for flow in one["flows"] if flow not in began}
        for one in [*self.slices, *self.instants]:
            assert all(began.get(flow, 0) <= one["begin"] for flow in one["ends"])

    def named(self, name: str) -> list[dict[str, Any]]:
        return [one for one in self.slices if one["name"] == name]

    def moments(self, name: str) -> list[dict[str, Any]]:
        return [one for one in self.instants if one["name"] == name]

    def counts(self) -> Counter[str]:
        return Counter(one["name"] for one in self.slices)


def read(path: Path) -> Read:
    return Read(path.read_bytes())


def pipeline(photos: Path, rows: int = 4) -> carya.Pipeline:
    return carya.image_folder(str(photos)).shuffle(seed=3).decode_image().random_resized_crop(24).batch(rows)


def traced(
    path: Path, source: carya.Pipeline, epochs: int = 2, daemon: str = "embedded", **options: Any
) -> tuple[Read, str]:
    """From before the loader is made, so that its first batches are in it too."""
    there = None if daemon == "embedded" else (daemon, "")
    with Trace(path, daemon=lambda: there), carya.Loader(source, epochs=epochs, daemon=daemon, **options) as loader:
        found = digest(batch for _ in range(epochs) for batch in loader)
    return read(path), found


def plain(source: carya.Pipeline, epochs: int = 2, **options: Any) -> str:
    with carya.Loader(source, epochs=epochs, **options) as loader:
        return digest(batch for _ in range(epochs) for batch in loader)


@pytest.mark.parametrize("io_engine", ["auto", "pread"])
def test_bits_are_the_same_with_a_trace_and_without(photos: Path, tmp_path: Path, io_engine: Any) -> None:
    _, found = traced(tmp_path / "t", pipeline(photos), io_engine=io_engine, threads=2)
    assert found == plain(pipeline(photos), io_engine=io_engine, threads=2)


def test_a_record_is_followed_from_its_read_to_next(photos: Path, tmp_path: Path) -> None:
    for file in photos.rglob("*.*"):  # not from the page cache, so that they are read
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    trace, _ = traced(tmp_path / "t", pipeline(photos), epochs=1, threads=2)
    steps = -(-27 // 4)
    counts = trace.counts()
    assert counts["next"] == counts["fill"] == counts["ready"] == steps
    assert counts["trainer"] == steps - 1
    fills, computes = trace.named("fill"), trace.named("compute")
    assert sum(one["rows"] for one in fills) == sum(one["rows"] for one in computes) == 27
    published, took = trace.moments("published"), trace.moments("took")
    assert len(published) == len(took) == steps
    for one, waited in zip(took, trace.named("next"), strict=True):
        assert one["begin"] == waited["end"]
        (there,) = [there for there in published if there["flows"] & one["ends"]]
        (fill,) = [fill for fill in fills if fill["batch"] == waited["batch"]]
        assert fill["end"] == there["begin"] <= one["begin"]
        assert fill["track"] is there["track"]
        chunks = [chunk for chunk in computes if chunk["flows"] & there["ends"]]
        assert sum(chunk["rows"] for chunk in chunks) == fill["rows"]
        assert all(chunk["end"] <= there["begin"] for chunk in chunks)
    for one in trace.named("read"):
        assert one["path"].startswith(str(photos))
        assert one["bytes"] == os.path.getsize(one["path"])
        (chunk,) = [chunk for chunk in computes if one["flows"] <= chunk["ends"]]
        assert chunk["chunk"] == one["chunk"]
        assert one["end"] <= chunk["end"]
    names = {one["track"].name for one in fills}
    assert names
    assert all(name.startswith("slot ") for name in names)
    threads = {one["track"].thread.thread_name for one in computes}
    assert threads == {"carya-compute"}
    assert {"ready slots", "read buffers", "reads under way", "chunks computed at once"} <= trace.counters.keys()


def test_clocks_are_told_at_the_beginning_and_the_end(tmp_path: Path) -> None:
    trace, _ = traced(tmp_path / "t", carya.arrays({"x": np.arange(64)}).batch(8))
    snapshots = [packet.clock_snapshot for packet in trace.packets if packet.HasField("clock_snapshot")]
    assert len(snapshots) >= 2
    for snapshot in snapshots:
        assert {clock.clock_id for clock in snapshot.clocks} == {1, 3, 6}
    times = [{clock.clock_id: clock.timestamp for clock in snapshot.clocks} for snapshot in snapshots]
    assert times[0][3] < times[-1][3]
    assert times[0][6] < times[-1][6]


def test_slots_are_held_until_the_last_view_is_gone(tmp_path: Path) -> None:
    with carya.Loader(carya.arrays({"x": np.arange(64)}).batch(8), epochs=1) as loader:
        trace = loader.trace(tmp_path / "t").start()
        for batch in loader:
            view = batch["x"][:1]
            del batch
        gc.collect()
        before = Read(_core.trace_stop(0, "x")).counts()["held"]
        assert before == 7  # one is held still
        with pytest.raises(carya.Closed):
            trace.stop()
        assert view.shape == (1,)


@pytest.mark.parametrize(
    "hostile", [b"a\xff\x1b[2J.jpg", "\u202e<script>alert(1)<.jpg".encode(), b"new\nline.jpg", b"x" * 240 + b".jpg"]
)
def test_hostile_file_names_are_escaped(tmp_path: Path, hostile: bytes) -> None:
    folder = tmp_path / "photos" / "class"
    folder.mkdir(parents=True)
    path = os.path.join(os.fsencode(folder), hostile)
    Image.fromarray(np.zeros((40, 40, 3), np.uint8)).save(tmp_path / "made.jpg")
    (tmp_path / "made.jpg").rename(os.fsdecode(path))
    with open(os.path.join(os.fsencode(folder), b"zz.jpg"), "wb") as broken:
        broken.write(b"no photo")
    trace, _ = traced(tmp_path / "t", pipeline(folder.parent, 2), io_engine="pread", on_error="mask", threads=1)
    bytes_ = (tmp_path / "t").read_bytes()
    assert (hostile.isascii() and hostile.decode().isprintable()) or hostile not in bytes_
    for one in [*trace.slices, *trace.instants]:
        shown = str(one.get("path", ""))
        assert shown.isprintable()
        assert "\u202e" not in shown
        assert len(shown.encode()) < 300
    (broken_one, *_) = trace.moments("broken record")
    assert broken_one["path"].endswith("zz.jpg")


def test_no_bytes_of_records(tmp_path: Path) -> None:
    secret = b"SECRET-OF-A-RECORD" * 8
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"{secret.decode()} {i}"}) + "\n" for i in range(64)))
    traced(tmp_path / "t", carya.jsonl(str(tmp_path / "a.jsonl"), fields={"text": "str"}).batch(8))
    assert b"SECRET" not in (tmp_path / "t").read_bytes()


def test_old_events_are_dropped_and_counted(tmp_path: Path) -> None:
    with (
        carya.Loader(carya.arrays({"x": np.arange(4096)}).batch(8), epochs=1, threads=1) as loader,
        loader.trace(tmp_path / "t", events=64),
    ):
        for _ in loader:
            pass
    trace = read(tmp_path / "t")
    (process,) = [track for track in trace.tracks.values() if track.HasField("process")]
    dropped = int(process.name.split("(")[1].split()[0])
    assert dropped > 500
    assert trace.counts()["next"] <= 64
    assert max(one["batch"] for one in trace.named("next")) == 512  # the newest stay


def test_streams_that_run_at_the_same_time_have_tracks_of_their_own(tmp_path: Path) -> None:
    with Trace(tmp_path / "t"), carya.Loader(carya.arrays({"x": np.arange(64)}).batch(8), epochs=1) as one:
        for _ in one:
            pass
        with carya.Loader(carya.arrays({"x": np.arange(32)}).batch(8), epochs=1) as other:
            for _ in other:
                pass
    trace = read(tmp_path / "t")
    tracks = Counter(fill["track"].name.split(":")[0] for fill in trace.named("fill"))
    assert tracks == {"stream 1": 8, "stream 2": 4}
    assert {"stream 1: ready slots", "stream 2: ready slots"} <= trace.counters.keys()


def test_one_trace_at_a_time_and_the_next_is_new(tmp_path: Path) -> None:
    with carya.Loader(carya.arrays({"x": np.arange(64)}).batch(8)) as loader:
        with loader.trace(tmp_path / "a"), pytest.raises(carya.InvalidArgument, match="another one"):
            loader.trace(tmp_path / "b").start()
        with loader.trace(tmp_path / "b"):
            for _ in loader:
                pass
        assert read(tmp_path / "a").counts()["next"] == 0
        assert read(tmp_path / "b").counts()["next"] == 8
        with pytest.raises(carya.NotFound, match="no folder"):
            loader.trace(tmp_path / "none" / "t").start()
        assert not _core.trace_on()
        with pytest.raises(carya.InvalidArgument, match="events"):
            loader.trace(tmp_path / "c", events=0).start()


def test_traces_begin_and_end_while_streams_run(tmp_path: Path, photos: Path) -> None:
    over = threading.Event()

    def train() -> None:
        with carya.Loader(pipeline(photos), threads=2) as loader:
            while not over.is_set():
                for _ in loader:
                    pass

    trainers = [threading.Thread(target=train) for _ in range(2)]
    for trainer in trainers:
        trainer.start()
    try:
        with carya.Loader(carya.arrays({"x": np.arange(64)}).batch(8)) as loader:
            for number in range(20):
                with loader.trace(tmp_path / "t", events=1 << (number % 8)):
                    for _ in loader:
                        pass
                read(tmp_path / "t")
    finally:
        over.set()
        for trainer in trainers:
            trainer.join()


def test_a_forked_child_is_not_traced(tmp_path: Path) -> None:
    with carya.Loader(carya.arrays({"x": np.arange(64)}).batch(8)) as loader, loader.trace(tmp_path / "t"):
        child = os.fork()
        if child == 0:
            os._exit(1 if _core.trace_on() else 0)
        assert os.waitpid(child, 0)[1] == 0
        assert _core.trace_on()


def test_chrome_json_says_the_same(tmp_path: Path, photos: Path) -> None:
    with carya.Loader(pipeline(photos), epochs=1) as loader, loader.trace(tmp_path / "t"):
        for _ in loader:
            pass
    trace = read(tmp_path / "t")
    events = to_chrome((tmp_path / "t").read_bytes())["traceEvents"]
    assert Counter(one["name"] for one in events if one["ph"] == "B") == trace.counts()
    assert Counter(one["ph"] for one in events)["E"] == len(trace.slices)
    begun = Counter(one["id"] for one in events if one["ph"] == "s")
    assert begun
    assert begun == Counter(one["id"] for one in events if one["ph"] == "f")
    with carya.Loader(pipeline(photos), epochs=1) as loader, loader.trace(tmp_path / "j", chrome=True):
        for _ in loader:
            pass
    assert {"B", "E", "M", "C"} <= {one["ph"] for one in json.loads((tmp_path / "j").read_text())["traceEvents"]}


def test_a_daemon_and_its_trainer_are_one_trace(tmp_path: Path, photos: Path) -> None:
    with running() as daemon:
        trace, found = traced(tmp_path / "t", pipeline(photos), epochs=2, daemon=daemon.socket)
        assert found == plain(pipeline(photos), daemon="embedded")
        processes = {track.process.process_name for track in trace.tracks.values() if track.HasField("process")}
        assert len(processes) == 2
        assert "carya: trainer" in processes
        fills = {flow for one in trace.moments("published") for flow in one["flows"]}
        nexts = trace.moments("took")
        assert len(nexts) == 14
        assert sum(bool(one["ends"] & fills) for one in nexts) == 14
        with carya.Loader(pipeline(photos), job="other", daemon=daemon.socket) as other:
            next(iter(other))
            session = _core.daemon_trace_start(daemon.socket, 1024)
            for _ in other:
                pass
            mine = Read(_core.daemon_trace_stop(daemon.socket, session, "other"))
            assert mine.counts()["fill"] > 0
            with pytest.raises(carya.Closed, match="does not run"):
                _core.daemon_trace_stop(daemon.socket, session, "")
            session = _core.daemon_trace_start(daemon.socket, 1024)
            with pytest.raises(carya.NotFound, match="carya status"):
                _core.daemon_trace_stop(daemon.socket, session, "nobody")


def test_a_daemon_that_ends_costs_its_part_only(tmp_path: Path, photos: Path) -> None:
    with running() as daemon, carya.Loader(pipeline(photos), daemon=daemon.socket, epochs=1) as loader:
        with loader.trace(tmp_path / "t"):
            for _ in loader:
                pass
            daemon.end()
        assert read(tmp_path / "t").counts()["next"] == 7


def double(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return 2 * x


def test_functions_are_traced_in_their_processes(tmp_path: Path) -> None:
    source = carya.arrays({"x": np.arange(256, dtype=np.int64)}).map(double, fields=["x"]).batch(16)
    with carya.Loader(source, threads=2, epochs=2) as loader, loader.trace(tmp_path / "t"):
        found = digest(batch for _ in range(2) for batch in loader)
    trace = read(tmp_path / "t")
    assert found == plain(source, threads=2)
    calls, nexts = trace.named("functions"), trace.moments("took")
    assert len(nexts) == 32
    assert calls
    assert {one["track"].name for one in calls} <= {"function process 0", "function process 1"}
    known = {flow for one in calls for flow in one["flows"]}
    assert any(one["ends"] & known for one in nexts)
    assert all(one["begin"] <= one["end"] for one in calls)


def test_remote_workers_have_tracks(tmp_path: Path, photos: Path) -> None:
    source = pipeline(photos)
    with workers.running("--insecure") as worker:
        address = f"127.0.0.1:{worker.port}"
        with carya.Loader(source, remote=[address], placement="remote:1", daemon="embedded", threads=1) as loader:
            trace = loader.trace(tmp_path / "t").start()
            wanted = loader.stats()["remote_chunks"] + 3
            epochs: list[str] = []
            while loader.stats()["remote_chunks"] < wanted:
                epochs.append(digest(loader))
                assert len(epochs) < 20_000
            epochs.append(digest(loader))  # in which what came from the worker last is published
            trace.stop()
    with carya.Loader(source, epochs=len(epochs), daemon="embedded") as loader:
        assert [digest(loader) for _ in epochs] == epochs
    seen = read(tmp_path / "t")
    away = seen.named("away")
    assert away
    assert all(one["track"].name == f"worker {address}" for one in away)
    fills = [one["ends"] for one in seen.moments("published")]
    assert any(one["flows"] & ends for one in away for ends in fills)
    assert seen.named("computed there")


def test_the_command_traces_pipelines_scripts_and_daemons(tmp_path: Path, photos: Path) -> None:
    document = tmp_path / "pipeline.json"
    document.write_text(pipeline(photos).to_json())
    run = [sys.executable, "-m", "carya", "trace"]
    out = tmp_path / "out"
    subprocess.run([*run, str(document), "-o", str(out)], check=True, capture_output=True)
    assert read(out).counts()["next"] == 7
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, carya, numpy as np\n"
        "if __name__ == '__main__':\n"
        "    assert sys.argv[1:] == ['--steps', '3']\n"
        "    with carya.Loader(carya.arrays({'x': np.arange(24)}).batch(8), epochs=1) as loader:\n"
        "        for _ in loader: pass\n"
        "    sys.exit(5)\n"
    )
    done = subprocess.run([*run, str(script), "-o", str(out), "--", "--steps", "3"], capture_output=True, text=True)
    assert done.returncode == 5, done.stderr
    assert read(out).counts()["next"] == 3
    with running() as daemon, carya.Loader(pipeline(photos), job="mine", daemon=daemon.socket) as loader:
        over = threading.Event()

        def train() -> None:
            while not over.is_set():
                for _ in loader:
                    pass

        trainer = threading.Thread(target=train)
        trainer.start()
        try:
            said = [*run, "--socket", daemon.socket, "--job", "mine", "--seconds", "0.3", "-o", str(out), "--chrome"]
            subprocess.run(said, check=True, capture_output=True)
        finally:
            over.set()
            trainer.join()
    assert "fill" in {one.get("name") for one in json.loads(out.read_text())["traceEvents"]}


def test_a_file_that_cannot_be_written_is_told_before_anything_is_recorded(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('it ran')\n")
    (tmp_path / "folder").mkdir()
    wrong = {tmp_path / "folder": "is a folder", tmp_path / "none" / "out": "there is no folder"}
    for out, said in wrong.items():
        command = [sys.executable, "-m", "carya", "trace", str(script), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.startswith("carya: trace: --output")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "train.py"]


def test_a_disk_that_is_full_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))\n")
    run = [sys.executable, "-B", "-m", "carya", "trace", str(script), "-o", str(tmp_path / "out")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"carya: trace: {tmp_path}/out: File too large; make room there, or name another file by -o\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_an_earlier_file_is_not_said_to_be_this_trace(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("earlier")
    with running() as daemon:
        said = ["--socket", daemon.socket, "--job", "none", "--seconds", "0", "-o", str(out)]
        done = subprocess.run(
            [sys.executable, "-m", "carya", "trace", *said], capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (1, ""), done
    assert out.read_text() == "earlier"
