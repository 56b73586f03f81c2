"""What new users get wrong: each mistake is put right, or told in words that name the cure."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ports import free_port
from streams import numbers, records

import carya


@pytest.mark.parametrize(
    ("rank", "world"),
    [
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ],
)
def test_a_loader_takes_its_rank_from_the_launcher(monkeypatch: pytest.MonkeyPatch, rank: str, world: str) -> None:
    chain, seen = numbers(24, batch_size=4), []
    monkeypatch.setenv(world, "3")
    for number in range(3):
        monkeypatch.setenv(rank, str(number))
        with carya.Loader(chain) as loader:
            assert (loader.rank, loader.world_size) == (number, 3)
            seen += records(loader)
        with carya.Loader(chain, rank=0, world_size=1) as loader:
            assert len(records(loader)) == 6  # who says so reads all
    assert sorted(np.concatenate(seen).tolist()) == list(range(24))


@pytest.mark.parametrize(("rank", "world"), [("2", "2"), ("-1", "2"), ("0", "0"), ("one", "2"), ("0", "")])
def test_an_environment_that_names_no_rank_is_refused(monkeypatch: pytest.MonkeyPatch, rank: str, world: str) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(carya.InvalidArgument, match=r"RANK='.*WORLD_SIZE=.*; give Loader\(rank=, world_size=\)"):
        carya.Loader(numbers(8, batch_size=4))


def test_the_batch_script_of_slurm_is_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    with carya.Loader(numbers(8, batch_size=4)) as loader:
        assert (loader.rank, loader.world_size) == (0, 1)


def test_a_process_group_that_comes_later_and_disagrees_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    import carya.torch

    with carya.torch.Loader(numbers(16, batch_size=2)) as loader:
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        with pytest.warns(RuntimeWarning, match=r"rank 0 of 1, .* says rank 1 of 2: .* after init_process_group"):
            records(loader)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            records(loader)  # once


TRAINER = """
import json, sys, warnings
import torch
import carya.torch
sys.path.append(sys.argv[2])
from streams import flat, numbers, records
with carya.torch.Loader(numbers(24, batch_size=4), epochs=1) as loader:
    torch.distributed.init_process_group("gloo")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seen = flat(records(loader))
    rank = torch.distributed.get_rank()
    found = {"rank": [rank, loader.rank, loader.world_size], "seen": seen, "told": [str(one.message) for one in told]}
    with open(f"{sys.argv[1]}/{rank}.json", "w") as file:
        json.dump(found, file)
torch.distributed.destroy_process_group()
"""


def test_ranks_of_torchrun_share_the_records_of_loaders_made_before_their_group(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed")
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    words = [f"--master-port={free_port()}", str(script), str(tmp_path), str(Path(__file__).parent)]
    done = subprocess.run([*torchrun, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    one, two = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert (one["rank"], two["rank"]) == ([0, 0, 2], [1, 1, 2])
    assert (one["told"], two["told"]) == ([], [])
    assert len(one["seen"]) == len(two["seen"]) == 12
    assert sorted(one["seen"] + two["seen"]) == list(range(24))


def test_a_pipeline_has_records_and_a_loader_has_batches() -> None:
    assert "`len(loader)` is that of batches" in (carya.Pipeline.batch.__doc__ or "")
    chain = carya.arrays({"x": np.arange(20)}).batch(8)
    with carya.Loader(chain) as loader:
        assert (len(chain), len(loader)) == (20, 3)


def test_no_rank_is_left_without_a_row() -> None:
    chain, last, seen = numbers(26, batch_size=4), [], []  # 2 steps of 12, and 2 records for 3 ranks
    for rank in range(3):
        with carya.Loader(chain, rank=rank, world_size=3) as loader:
            batches = list(zip(range(len(loader)), loader, strict=True))
            last.append(batches[-1][1])
            seen += [record for _, batch in batches for record in batch.records[batch.valid].tolist()]
    assert sorted(seen) == list(range(26))
    assert [batch.valid.tolist() for batch in last] == [[True], [True], [False]]
    assert last[2]["x"].tolist() == last[0]["x"].tolist() == last[0].records.tolist()  # the record, and not zeros


def test_a_state_from_before_the_short_step_restores_at_any_world_size() -> None:
    chain = numbers(26, global_size=12)
    with carya.Loader(chain, rank=0, world_size=3) as loader:
        stream = iter(loader)
        next(stream), next(stream)
        state = loader.state_dict()
    assert state["position"] == 24
    for world in (1, 2, 3, 4, 12):
        seen = []
        for rank in range(world):
            with carya.Loader(chain, rank=rank, world_size=world, state=state) as loader:
                (batch,) = (batch.to("cpu") for batch in loader)
            assert len(batch.valid) >= 1
            seen += batch.records[batch.valid].tolist()
        assert len(seen) == len(set(seen)) == 2


def test_a_list_of_a_loader_is_an_error_and_a_list_of_copies_is_not() -> None:
    with carya.Loader(numbers(80, batch_size=4), slots=4, hold_timeout=0.3) as loader:
        with pytest.raises(carya.Exhausted, match=r"holds 4 of 4 slots.*\.copy\(\) for k, v in batch.items\(\)"):
            list(loader)
        loader.set_epoch(0)
        assert len([{k: v.copy() for k, v in batch.items()} for batch in loader]) == 20


def test_batches_in_reference_cycles_are_no_reason_to_stop() -> None:
    with carya.Loader(numbers(40, batch_size=4), slots=3, hold_timeout=0.3) as loader:
        gc.disable()
        try:
            steps = 0
            for batch in loader:
                cycle: list[object] = [batch]
                cycle.append(cycle)
                steps += 1
                del batch, cycle
        finally:
            gc.enable()
    assert steps == 10


def test_threads_that_share_an_iterator_share_its_batches() -> None:
    with carya.Loader(numbers(400, batch_size=2), threads=2) as loader:
        for _ in range(2):
            stream, taken = iter(loader), [[] for _ in range(4)]

            def take(into: list[int], stream: Iterator[carya.Batch] = stream) -> None:
                for batch in stream:
                    into.extend(batch.records.tolist())

            threads = [threading.Thread(target=take, args=(into,)) for into in taken]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(record for into in taken for record in into) == list(range(400))
        assert loader.state_dict()["epoch"] == 2


def test_threads_that_wait_for_the_same_iterator_get_a_batch_each() -> None:
    with carya.Loader(numbers(400, batch_size=2), slots=4) as loader:
        stream = iter(loader)
        held = [next(stream) for _ in range(4)]  # so that all that ask now wait inside of the iterator
        taken: list[list[int]] = []
        threads = [threading.Thread(target=lambda: taken.append(next(stream).records.tolist())) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        assert not taken
        expected = [batch.records.tolist() for batch in held]
        held.clear()
        for thread in threads:
            thread.join()
        with carya.Loader(numbers(400, batch_size=2)) as other:
            alone = [batch.records.tolist() for batch in other]
        assert expected == alone[:4]
        assert sorted(taken) == sorted(alone[4:8])
        assert next(stream).records.tolist() == alone[8]


def test_unpacking_a_batch_is_refused() -> None:
    chain = carya.arrays({"image": np.zeros((4, 3)), "label": np.arange(4)}).batch(2)
    with carya.Loader(chain) as loader:
        with pytest.raises(TypeError, match=r"as_tuple=\('image', 'label',\)"):
            for _image, _label in loader:
                pass
        batch = next(iter(loader))
        with pytest.raises(TypeError, match="as_tuple"):
            _first, *_others = batch
        assert list(batch) == sorted(batch) == [*batch] == ["image", "label"]
        assert dict(batch).keys() == {**batch}.keys() == batch.keys()
    with carya.Loader(chain, as_tuple=("image", "label")) as loader:
        assert [label.tolist() for _, label in loader] == [[0, 1], [2, 3]]


def test_a_dataloader_over_a_pipeline_with_augmentation_is_refused(photos: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    plain = carya.image_folder(photos).decode_image().resize((8, 8))
    assert sum(len(batch["label"]) for batch in data.DataLoader(plain, batch_size=5)) == 27
    any_file = next(path for path in sorted(photos.rglob("*")) if path.is_file())  # it is refused before it is decoded
    clips = carya.files([any_file], field="audio").decode_audio(rate=16000)
    drawing = [plain.random_horizontal_flip(), plain.color_jitter(0.4), plain.scale_jitter(9), clips.gain((-3, 3))]
    drawing += [clips.crop_audio(9), clips.speed_perturb(), clips.pad_audio(9).time_shift()]
    drawing += [clips.pad_audio(800).log_mel("kaldi").spec_augment()]
    for chain in drawing:
        assert any(chain.native.draws())
        with pytest.raises(carya.Unsupported, match=r"the same augmentation; use carya.torch.Loader\(pipeline.batch"):
            next(iter(data.DataLoader(chain, batch_size=1)))


def test_the_seed_of_shuffle_may_stand_first_and_none_is_told() -> None:
    chain = carya.arrays({"x": np.arange(8)})
    assert chain.shuffle(42) == chain.shuffle(seed=42)
    with pytest.raises(carya.InvalidArgument, match="got None; give an integer of 0 or more; for another order"):
        chain.shuffle(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["s3://bucket/train", "gs://b/x.tar", "https://host/x-{0..3}.tar", "file:///data"])
def test_a_url_is_named_as_what_it_is(url: str) -> None:
    with pytest.raises(
        carya.InvalidArgument,
        match=r"a path on this machine: \w+:// is not read here, but by most sources .* or mount",
    ):
        carya.audio_folder(url)
    if url.startswith("file:"):
        for source in (carya.files, carya.webdataset, carya.image_folder, carya.csv, carya.hf_dataset):
            with pytest.raises(carya.InvalidArgument, match=r"\w+:// is not read; copy .* or mount"):
                source(url)


def test_the_home_folder_is_expanded_and_variables_are_told(monkeypatch: pytest.MonkeyPatch, photos: Path) -> None:
    monkeypatch.setenv("HOME", str(photos.parent))
    assert len(carya.image_folder(f"~/{photos.name}")) == 27
    with pytest.raises(carya.InvalidArgument, match=f"variables replaced: '{photos}'"):
        carya.image_folder(f"$HOME/{photos.name}")


def test_a_socket_that_cannot_be_used_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    for name, why in (("none.sock", "no such socket"), ("mute.sock", "nobody listens")):
        caplog.clear()
        monkeypatch.setenv("CARYA_DAEMON_SOCKET", str(tmp_path / name))
        if name == "mute.sock":
            with socket.socket(socket.AF_UNIX) as mute:
                mute.bind(str(tmp_path / name))
        for _ in range(2):
            carya.Loader(numbers(8, batch_size=4)).close()
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert why in caplog.text
        assert "works without the daemon: CARYA_DAEMON_SOCKET=" in caplog.text


def test_a_cache_folder_that_cannot_be_made_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    for _ in range(2):
        carya.Loader(numbers(8, batch_size=4), daemon="embedded").close()
    assert caplog.text.count("give CARYA_CACHE_DIR a folder that this user can write") == 1


def test_normalizing_twice_or_in_the_units_of_bytes_is_refused() -> None:
    decoded = carya.image_folder("photos").decode_image().resize((8, 8))
    with pytest.raises(carya.InvalidArgument, match=r"in units of 0..1, so 0.48.* in place of 123.7"):
        decoded.normalize((123.7, 116.3, 103.5), (58.4, 57.1, 57.4))
    with pytest.raises(carya.InvalidArgument, match="image is normalized already"):
        decoded.normalize(0.5, 0.5).normalize(0.5, 0.5, layout="keep")
    decoded.to_dtype("float32").normalize((123.7, 116.3, 103.5), (58.4, 57.1, 57.4))  # values of 0..255


def test_a_field_that_a_batch_has_not_is_told_with_those_that_it_has() -> None:
    with carya.Loader(carya.arrays({"image": np.zeros((4, 3)), "label": np.arange(4)}).batch(2)) as loader:
        batch = next(iter(loader))
        for name in ("images", 0):
            with pytest.raises(KeyError, match="the batch has no such field; give one of 'image', 'label'"):
                batch[name]
        with pytest.raises(AttributeError, match=r"has no attribute 'image'; give batch\['image'\]"):
            _ = batch.image
        assert batch.get("images") is None
        assert not hasattr(batch, "images")


def test_a_pipeline_is_true_whatever_its_length() -> None:
    assert carya.arrays({"x": np.arange(3)}).filter(len)  # not known before a loader has asked
    assert carya.image_folder("nowhere")


def test_an_empty_path_is_told() -> None:
    with pytest.raises(carya.InvalidArgument, match=r"image_folder: path: got ''; give a path that is not empty"):
        carya.image_folder("")


def test_a_batch_that_outlives_the_modules_is_no_trouble(tmp_path: Path) -> None:
    """Of worker processes, whose leases are ended by code of a module that is empty when the main module ends."""
    script = tmp_path / "script.py"
    script.write_text(
        "import __main__\n"
        "import carya, numpy as np\n"
        "class Points:\n"
        "    def __len__(self): return 12\n"
        "    def __getitem__(self, i): return {'x': np.full(2, i)}\n"
        "if __name__ == '__main__':\n"
        "    loader = carya.Loader(carya.dataset(Points()).batch(4), threads=1)\n"
        "    for batch in loader: pass\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
