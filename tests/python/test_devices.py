"""No slot is rewritten under a pending device copy: a fake device reads the host memory late, in a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import numpy as np
import pytest

import carya

torch = pytest.importorskip("torch")
import carya.torch  # noqa: E402


class LateEvent:
    """Done when the device's thread has come to it."""

    def __init__(self) -> None:
        self._done = threading.Event()

    def query(self) -> bool:
        return self._done.is_set()

    def pass_by(self) -> None:
        self._done.set()


class LateDevice:
    """A device whose one stream runs `delay_s` behind: copies and events are done in order by a thread."""

    def __init__(self, delay_s: float = 0.01) -> None:
        self._delay_s = delay_s
        self._work: queue.Queue[Any] = queue.Queue()
        self.events: list[LateEvent] = []
        self.visible: list[bool] = []
        self.streams: list[Any] = []
        self.pinned = 0
        self.closed = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for action in iter(self._work.get, None):
            time.sleep(self._delay_s)
            action()

    def copy(self, tensors: Any) -> tuple[list[Any], LateEvent]:
        targets = [torch.full_like(tensor, 99) for tensor in tensors]
        # The device sees addresses, not tensors: the host memory must stay as it is though nobody here holds it.
        sources = [(tensor.data_ptr(), tensor.numel() * tensor.element_size()) for tensor in tensors]
        event = LateEvent()

        def late() -> None:
            for (address, size), target in zip(sources, targets, strict=True):
                target.view(-1).view(torch.uint8).numpy()[:] = read(address, size)
            event.pass_by()

        self._work.put(late)
        return targets, event

    def make_visible(self, tensors: Any, event: LateEvent) -> None:
        self.visible.append(event.query())
        while not event.query():  # what a stream would wait for, the fake's user waits for on the host
            time.sleep(0.0005)

    def record(self, stream: Any | None) -> LateEvent:
        event = LateEvent()
        self.events.append(event)
        self.streams.append(stream)
        self._work.put(event.pass_by)
        return event

    def later(self, action: Any) -> None:
        """What a trainer gives to its stream."""
        self._work.put(action)

    def pin(self, tensors: Any) -> str:
        self.pinned += 1
        return ""

    def close(self) -> None:
        self.closed += 1
        done = threading.Event()
        self._work.put(done.set)
        done.wait()


def read(address: int, size: int) -> np.ndarray:
    import ctypes

    return np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8).copy()


def rows(count: int = 48) -> carya.Pipeline:
    data = np.repeat(np.arange(count, dtype=np.int64)[:, None], 512, axis=1)
    return carya.arrays({"x": data, "label": np.arange(count)}).shuffle(seed=4).batch(4)


@pytest.mark.parametrize("slots", [2, 3, 6])
def test_copies_to_a_device_see_their_own_batch(slots: int) -> None:
    device = LateDevice()
    with carya.torch.Loader(rows(), device_backend=device, slots=slots) as loader:
        for _ in range(2):
            seen = []
            for batch in loader:
                wanted = batch.records.tolist()
                assert batch["label"].tolist() == wanted
                assert torch.equal(batch["x"], torch.tensor(wanted)[:, None].expand(-1, 512))
                assert batch.state_dict() == loader.state_dict()
                seen += wanted
            assert sorted(seen) == list(range(48))
    assert len(device.visible) == 24
    assert device.closed == 1


def test_the_copy_of_the_next_batch_is_under_way_early() -> None:
    device = LateDevice(0.002)
    with carya.torch.Loader(rows(), device_backend=device, slots=6) as loader:
        for _ in loader:
            time.sleep(0.02)  # the trainer computes: the next copy has time
    assert sum(device.visible) >= 8


def test_breaks_and_restores_drop_what_was_staged() -> None:
    device = LateDevice()
    with carya.torch.Loader(rows(), device_backend=device, slots=4) as loader, carya.Loader(rows()) as plain:
        for batch in loader:
            if batch.step == 1:
                state = batch.state_dict()
                break
        second = [batch.records.tolist() for batch in loader]
        loader.load_state_dict(state)
        rest = [(batch.records.tolist(), batch["label"].tolist()) for batch in loader]
        epochs = [[batch.records.tolist() for batch in plain] for _ in range(2)]
    assert second == epochs[1]
    assert rest == [(step, step) for step in epochs[0][2:]]


@pytest.mark.parametrize("pin", [None, True, False])
def test_slots_are_pinned_for_copies_unless_that_is_refused(pin: bool | None) -> None:
    device = LateDevice(0.0001)
    # A backend of one's own copies where pin_memory does not ask for pinned slots alone.
    given = {"device": "meta"} if pin else {}
    with carya.torch.Loader(rows(), device_backend=device, pin_memory=pin, **given) as loader:
        assert len([batch.records for batch in loader]) == 12
        assert loader.stats()["pinned"] is (pin is not False)
    assert (device.pinned > 0) is (pin is not False)


def summed(sample: dict[str, Any]) -> dict[str, Any]:
    """Arrays, a number, and two fields that no device takes."""
    first = int(sample["x"][0])
    return {"x": sample["x"][: first % 3 + 1], "y": sample["x"] + 1, "name": f"row {first}", "label": first}


def halves(batch: dict[str, Any]) -> Any:
    return [{"low": batch["y"][:, :256]}, batch["label"], "kept"]


@pytest.mark.parametrize("slots", [2, 4])
def test_what_functions_make_is_copied_too(slots: int) -> None:
    device = LateDevice(0.002)
    data = np.repeat(np.arange(24, dtype=np.int64)[:, None], 512, axis=1)
    samples = carya.arrays({"x": data}).shuffle(seed=4).map(summed)
    with carya.torch.Loader(samples.batch(4, lists=["x"]), device_backend=device, slots=slots) as loader:
        seen = []
        for batch in loader:
            wanted = batch.records.tolist()
            assert batch["label"].tolist() == wanted
            assert batch["name"] == [f"row {record}" for record in wanted]
            assert [x.tolist() for x in batch["x"]] == [[record] * (record % 3 + 1) for record in wanted]
            assert torch.equal(batch["y"], torch.tensor(wanted)[:, None].expand(-1, 512) + 1)
            assert batch.valid.all()
            seen += wanted
        assert sorted(seen) == list(range(24))
    whole = samples.batch(4, lists=["x"]).map_batches(halves)
    with carya.torch.Loader(whole, device_backend=device, slots=slots) as loader:
        for low, label, word in loader:
            assert torch.equal(low["low"], label[:, None].expand(-1, 256) + 1)
            assert word == "kept"
        assert "function" in loader.stats()["pinned"]
    assert len(device.visible) == 12


@pytest.mark.parametrize("slots", [2, 4])
def test_a_pinned_slot_waits_for_the_stream_that_still_reads_it(slots: int) -> None:
    """The trainer copies by itself on the late stream and drops the batch at once."""
    device = LateDevice(0.004)
    results: list[tuple[list[int], np.ndarray]] = []
    with carya.torch.Loader(rows(), pin_memory=True, device_backend=device, slots=slots) as loader:
        for _ in range(2):
            for batch in loader:
                address, size = batch["x"].data_ptr(), batch["x"].numel() * 8
                wanted = batch.records.tolist()

                def late(address: int = address, size: int = size, wanted: list[int] = wanted) -> None:
                    results.append((wanted, read(address, size).view(np.int64).reshape(-1, 512)))

                device.later(late)
                del batch
        loader.close()
    assert len(results) == 24
    for wanted, values in results:
        assert (values == np.array(wanted)[:, None]).all()
    assert len(device.events) >= 20


def test_streams_that_were_named_are_waited_for_too() -> None:
    device = LateDevice(0.001)
    with carya.torch.Loader(rows(), pin_memory=True, device_backend=device, slots=3) as loader:
        for batch in loader:
            batch.record_stream("side stream")
            del batch
    assert "side stream" in device.streams
    assert None in device.streams


def test_without_events_the_slot_would_be_rewritten() -> None:
    """The test above can fail: the same late reads over a loader that knows no device see other batches."""
    device = LateDevice(0.004)
    torn = []
    with carya.torch.Loader(rows(), slots=2) as loader:
        for _ in range(2):
            for batch in loader:
                address, size, wanted = batch["x"].data_ptr(), batch["x"].numel() * 8, batch.records.tolist()

                def late(address: int = address, size: int = size, wanted: list[int] = wanted) -> None:
                    values = read(address, size).view(np.int64).reshape(-1, 512)
                    torn.append(bool((values != np.array(wanted)[:, None]).any()))

                device.later(late)
                del batch
        device.close()
    assert any(torn)
