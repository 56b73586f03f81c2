"""`carya.sound`: noise and rooms from a second source."""

from __future__ import annotations

import pickle
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streams import epoch_digest

import carya
from carya._stages.identity import identity
from carya.sound import AddNoise, Reverberate

RNG = np.random.default_rng


def sounds(count: int, length: int, seed: int) -> list[Any]:
    drawn = RNG(seed)
    return [drawn.standard_normal(length + 7 * number).astype(np.float32) for number in range(count)]


@pytest.mark.parametrize("length", [50, 1000, 5000])
def test_noise_is_as_loud_as_asked(length: int) -> None:
    (sound,) = sounds(1, 2000, 1)
    for noise in sounds(3, length, 2):
        for snr in (-10.0, 0.0, 15.0):
            noisy = AddNoise([noise], snr)(sound, RNG(3))
            assert noisy.dtype == np.float32
            assert noisy.shape == sound.shape
            added = noisy.astype(np.float64) - sound
            ratio = 10 * np.log10(np.mean(sound.astype(np.float64) ** 2) / np.mean(added**2))
            assert abs(ratio - snr) < 1e-3
            begin = int(
                np.argmax(
                    [np.corrcoef(np.resize(np.roll(noise, -at), 40), added[:40])[0, 1] for at in range(len(noise))]
                )
            )
            repeated = np.resize(np.roll(noise, -begin), 2000)
            assert np.allclose(added / added.std(), repeated / repeated.std(), atol=1e-3), "the noise from one place on"


def test_noise_is_that_of_torchaudio() -> None:
    sound, noise = sounds(2, 400, 5)
    noisy = AddNoise([noise[:400]], 7.5)(sound, RNG(1))
    begin = int(np.argmax([np.corrcoef(np.roll(noise[:400], -at), noisy - sound)[0, 1] for at in range(400)]))
    moved = np.roll(noise[:400], -begin).astype(np.float64)
    scale = 10 ** ((10 * (np.log10((sound.astype(np.float64) ** 2).sum()) - np.log10((moved**2).sum())) - 7.5) / 20)
    assert np.allclose(noisy, scale * moved + sound, atol=1e-5)


def test_ratios_and_noises_are_drawn() -> None:
    (sound,) = sounds(1, 500, 1)
    made = AddNoise(sounds(4, 300, 2), (0.0, 30.0), p=0.5)
    heard = [made(sound, RNG(seed)) for seed in range(200)]
    same = sum(one is sound or np.array_equal(one, sound) for one in heard)
    assert 60 < same < 140
    loud = sorted({float(np.std(one - sound)) for one in heard} - {0.0})
    assert loud[-1] > 5 * loud[0]
    assert np.array_equal(made(sound, RNG(9)), made(sound, RNG(9)))


def test_silence_stays() -> None:
    silence, (sound,) = np.zeros(100, np.float32), sounds(1, 100, 1)
    assert not AddNoise([sound])(silence, RNG(0)).any()
    assert np.array_equal(AddNoise([silence])(sound, RNG(0)), sound)


def test_channels_get_the_same_noise() -> None:
    stereo = np.stack(sounds(1, 300, 1) * 2, axis=1)
    noisy = AddNoise([np.stack(sounds(1, 900, 2) * 2, axis=1)], 3.0)(stereo, RNG(0))
    assert noisy.shape == (300, 2)
    assert np.array_equal(noisy[:, 0], noisy[:, 1])
    heard = Reverberate(sounds(1, 40, 3))(stereo, RNG(0))
    assert np.array_equal(heard[:, 0], heard[:, 1])


@pytest.mark.parametrize("length", [1, 60, 3000])
def test_a_room_is_a_convolution(length: int) -> None:
    (sound,) = sounds(1, 1000, 1)
    for response in sounds(3, length, 2):
        heard = Reverberate([response])(sound, RNG(0))
        straight = response[int(np.argmax(np.abs(response))) :][:1000].astype(np.float64)
        wanted = np.convolve(sound.astype(np.float64), straight / np.sqrt((straight**2).sum()))[:1000]
        assert heard.dtype == np.float32
        assert np.abs(heard - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: AddNoise([]), "at least one"),
        (lambda: AddNoise("noise"), "source"),
        (lambda: AddNoise(sounds(1, 9, 0), (9.0, 3.0)), "snr"),
        (lambda: AddNoise(sounds(1, 9, 0), (1.0, 2.0, 3.0)), "snr"),
        (lambda: AddNoise(sounds(1, 9, 0), float("nan")), "snr"),
        (lambda: Reverberate(sounds(1, 9, 0), p=2), "p"),
        (lambda: AddNoise([np.zeros(9, np.int16)])(np.ones(9, np.float32), RNG(0)), "sound 0"),
        (lambda: AddNoise([{"x": 1}])(np.ones(9, np.float32), RNG(0)), "sound 0"),
        (lambda: AddNoise(sounds(1, 9, 0))(np.ones(9), RNG(0)), "float64"),
        (lambda: Reverberate([np.zeros(9, np.float32)])(np.ones(9, np.float32), RNG(0)), "silent"),
    ],
)
def test_what_is_no_sound_is_refused(make: Any, named: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=named):
        make()


def write_sounds(folder: Path, count: int, seed: int) -> None:
    folder.mkdir()
    for number, sound in enumerate(sounds(count, 3000, seed)):
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes((np.clip(sound / 4, -1, 1) * 32767).astype("<i2").tobytes())


def test_noise_of_a_pipeline_in_a_pipeline(tmp_path: Path) -> None:
    write_sounds(tmp_path / "speech", 12, 1)
    write_sounds(tmp_path / "noise", 3, 2)
    noises = carya.audio_folder(tmp_path / "noise").decode_audio(rate=8000)
    speech = carya.audio_folder(tmp_path / "speech").shuffle(seed=4).decode_audio(rate=8000).pad_audio(seconds=0.5)
    noisy = (
        speech.map(AddNoise(noises, (0.0, 20.0)), fields="audio")
        .map(Reverberate(noises, p=0.5), fields="audio")
        .batch(4)
    )
    assert epoch_digest(noisy, threads=1) == epoch_digest(noisy, threads=2) != epoch_digest(speech.batch(4), threads=1)


def test_sounds_travel_without_what_they_have_decoded() -> None:
    made = AddNoise(sounds(3, 500, 1))
    heard = made(sounds(1, 400, 2)[0], RNG(0))
    again = pickle.loads(pickle.dumps(made))
    assert identity(made) == identity(again) == identity(AddNoise(sounds(3, 500, 1))), (
        "what was decoded is no part of it"
    )
    assert np.array_equal(again(sounds(1, 400, 2)[0], RNG(0)), heard)
    assert identity(AddNoise(sounds(3, 500, 1))) != identity(AddNoise(sounds(3, 500, 2)))
