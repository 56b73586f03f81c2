"""`reuse_augmentation(epochs=k)`: what is before it draws with epoch e - e mod k, whoever makes the samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import workers
from daemons import running
from streams import digest

import carya

EPOCHS = 4


def started(photos: Path) -> carya.Pipeline:
    return carya.image_folder(photos).shuffle(seed=5).decode_image().random_resized_crop(40)


def chain(photos: Path, k: int = 2) -> carya.Pipeline:
    return started(photos).reuse_augmentation(k).random_crop(24).random_horizontal_flip().batch(4)


def by_record(pipeline: carya.Pipeline, epochs: int = EPOCHS, **options: Any) -> list[dict[int, bytes]]:
    """Each epoch's pictures by their records."""
    with carya.Loader(pipeline, epochs=epochs, daemon="embedded", **options) as loader:
        return [
            {
                int(record): bytes(np.asarray(image))
                for batch in loader
                for record, image in zip(batch.records, batch["image"], strict=True)
            }
            for _ in range(epochs)
        ]


def stream(pipeline: carya.Pipeline, **options: Any) -> str:
    with carya.Loader(pipeline, epochs=EPOCHS, **options) as loader:
        return digest(batch for _ in range(EPOCHS) for batch in loader)


def test_epochs_share_what_is_before_it(photos: Path) -> None:
    plain = by_record(started(photos).batch(4))
    again = by_record(started(photos).reuse_augmentation(epochs=2).batch(4))
    assert again == [plain[0], plain[0], plain[2], plain[2]]
    assert plain[0] != plain[1]


SCHEDULE = {0: 2, 3: 2, 4: 1}
SCHEDULED = (0, 0, 2, 3, 4, 5)  # the epoch whose numbers each one has; two groups are cut short


def test_a_schedule_has_groups_of_other_lengths(photos: Path) -> None:
    plain = by_record(started(photos).batch(4), 6)
    pipeline = started(photos).reuse_augmentation(SCHEDULE).batch(4)
    wanted = [plain[epoch] for epoch in SCHEDULED]
    assert by_record(pipeline, 6) == wanted
    assert by_record(pipeline, 6, cache={"memory": "64MB", "after": "random_resized_crop"}) == wanted
    assert carya.Pipeline.from_json(pipeline.to_json()) == pipeline
    assert "reuse_augmentation(epochs={0: 2, 3: 2, 4: 1})" in repr(pipeline)
    assert started(photos).reuse_augmentation({0: 2}) == started(photos).reuse_augmentation(2)
    with carya.Loader(pipeline, epochs=6) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with pytest.raises(carya.Error, match="pipeline"):
        carya.Loader(started(photos).reuse_augmentation(2).batch(4), epochs=6, state=state)


def test_what_is_behind_it_differs(photos: Path) -> None:
    found = by_record(chain(photos))
    assert found[0] != found[1]
    plain = by_record(started(photos).random_crop(24).random_horizontal_flip().batch(4))
    assert found[0::2] == plain[0::2]
    assert found[1::2] != plain[1::2]
    assert by_record(chain(photos, 1)) == plain


def test_samples_taken_singly_are_those_of_the_stream(photos: Path) -> None:
    pipeline = chain(photos, 3)
    found = by_record(pipeline)
    for epoch in range(EPOCHS):
        assert bytes(np.asarray(pipeline.sample(4, epoch=epoch)["image"])) == found[epoch][4]


def test_daemon_workers_and_caches_give_the_same(photos: Path) -> None:
    wanted = stream(chain(photos), daemon="embedded", threads=1)
    assert stream(chain(photos), daemon="embedded", threads=2, reorder="off") == wanted
    assert stream(chain(photos), daemon="embedded", cache={"memory": "64MB"}) == wanted
    with running() as daemon:
        assert stream(chain(photos), daemon=str(daemon.socket)) == wanted
    with workers.running("--insecure") as worker:
        remote = {"remote": [f"127.0.0.1:{worker.port}"], "placement": "remote:1"}
        assert stream(chain(photos), daemon="embedded", threads=1, **remote) == wanted


@pytest.mark.parametrize("steps", [3, 10])
def test_a_state_goes_on_exactly_and_belongs_to_its_number(photos: Path, steps: int) -> None:
    with carya.Loader(chain(photos), epochs=3) as loader:
        whole = [bytes(np.asarray(batch["image"])) for _ in range(3) for batch in loader]
    with carya.Loader(chain(photos), epochs=3) as loader:
        batches = (batch for _ in range(3) for batch in loader)
        for _ in range(steps):
            next(batches)
        state = loader.state_dict()
        batches.close()
    with carya.Loader(chain(photos), epochs=3, state=state) as loader:
        rest = [bytes(np.asarray(batch["image"])) for _ in range(3 - steps // 7) for batch in loader]
    assert rest == whole[steps:]
    with pytest.raises(carya.Error, match="pipeline"):
        carya.Loader(chain(photos, 3), epochs=3, state=state)


def test_functions_behind_it_have_their_own_numbers(photos: Path) -> None:
    def shifted(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return image + rng.integers(0, 2, image.shape, np.uint8)

    def same(image: np.ndarray) -> np.ndarray:
        return image

    plain = by_record(started(photos).batch(4))
    reused = started(photos).reuse_augmentation(2)
    for native in ("threads", "workers"):
        assert by_record(reused.map(same, fields="image").batch(4), 2, native=native) == [plain[0], plain[0]]
    found = by_record(reused.map(shifted, fields="image").batch(4), 2)
    assert found[0] != found[1]


def test_it_is_written_and_read(photos: Path) -> None:
    assert carya.Pipeline.from_json(chain(photos).to_json()) == chain(photos)
    assert "reuse_augmentation(epochs=2)" in repr(chain(photos))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda p: p.reuse_augmentation(0), "epochs"),
        (lambda p: p.reuse_augmentation(True), "epochs"),
        (lambda p: p.reuse_augmentation(1.5), "epochs"),
        (lambda p: p.reuse_augmentation(1 << 60), "epochs"),
        (lambda p: p.reuse_augmentation({}), "begins with epoch 0"),
        (lambda p: p.reuse_augmentation({1: 2}), "begins with epoch 0"),
        (lambda p: p.reuse_augmentation({0: 0}), "of 1 or more"),
        (lambda p: p.reuse_augmentation({0: 2, 3: 1.5}), "of 1 or more"),
        (lambda p: p.reuse_augmentation({0: 2, -3: 1}), "of 1 or more"),
        (lambda p: p.reuse_augmentation({5 * i: 2 for i in range(65)}), "epochs"),
        (lambda p: p.reuse_augmentation(2).reuse_augmentation(2), "one already"),
        (lambda p: p.batch(2).reuse_augmentation(2), "before .batch"),
        (lambda p: p.map(lambda sample: sample).reuse_augmentation(2), "function"),
    ],
)
def test_where_it_cannot_be_is_said(photos: Path, build: Any, words: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=words) as caught:
        build(started(photos))
    assert "reuse_augmentation" in str(caught.value)


def test_without_random_operations_it_says_nothing(photos: Path) -> None:
    plain = carya.image_folder(photos).decode_image().resize((20, 20))
    assert by_record(plain.reuse_augmentation(5).batch(4), 2) == by_record(plain.batch(4), 2)
