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
    (mono,), (noise,), rooms = sounds(1, 300, 1), sounds(1, 900, 2), sounds(1, 40, 3)
    stereo = np.stack([mono, mono])  # as decode_audio(channels=2) has it
    noisy = AddNoise([np.stack([noise, noise])], 3.0)(stereo, RNG(0))
    assert noisy.shape == (2, 300)
    assert np.array_equal(noisy[0], noisy[1])
    assert np.array_equal(noisy[0], AddNoise([noise], 3.0)(mono, RNG(0)))
    heard = Reverberate(rooms)(stereo, RNG(0))
    assert np.array_equal(heard[0], heard[1])
    assert np.allclose(heard[0], Reverberate(rooms)(mono, RNG(0)), atol=1e-6)


def test_files_of_two_channels_get_noise_in_time(tmp_path: Path) -> None:
    write_sounds(tmp_path / "clips", 2, 1)
    write_sounds(tmp_path / "noises", 2, 2)
    noises = carya.audio_folder(tmp_path / "noises").decode_audio(channels=2)
    clips = carya.audio_folder(tmp_path / "clips").decode_audio(channels=2)
    plain, noisy = clips[0]["audio"], clips.map(AddNoise(noises, 3.0), fields="audio")[0]["audio"]
    added = noisy - plain
    assert np.array_equal(added[0], added[1])
    assert np.abs(np.diff(added[0])).max() > 0, "no one value for all samples of a channel"


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
        (lambda: AddNoise(sounds(1, 9, 0))(np.ones((98, 80), np.float32), RNG(0)), "channels x samples"),  # a spectrum
        (
            lambda: AddNoise([np.ones((900, 2))])(np.ones(9, np.float32), RNG(0)),
            "channels x samples",
        ),  # as soundfile has it
        (lambda: Reverberate(sounds(1, 9, 0))(np.ones((2, 0), np.float32), RNG(0)), "channels x samples"),
        (lambda: Reverberate([np.zeros(9, np.float32)])(np.ones(9, np.float32), RNG(0)), "silent"),
    ],
)
def test_what_is_no_sound_is_refused(make: Any, named: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=named):
        make()


def test_noise_of_another_rate_or_behind_a_spectrum_is_refused(tmp_path: Path) -> None:
    write_sounds(tmp_path / "clips", 2, 1)
    write_sounds(tmp_path / "noises", 2, 2)
    clips, noises = carya.audio_folder(tmp_path / "clips"), carya.audio_folder(tmp_path / "noises")
    noise = AddNoise(noises.decode_audio(rate=8000))
    with pytest.raises(
        carya.InvalidArgument, match=r"AddNoise: source: got 'sounds of 8000 Hz'; .* decode_audio\(rate=16000"
    ):
        clips.decode_audio(rate=16000).map(noise, fields="audio")[0]
    clips.decode_audio(rate=16000).resample(8000).map(noise, fields="audio")[0]
    clips.decode_audio().map(noise, fields="audio")[0]  # each at its own rate
    clips.decode_audio(rate=16000).map(_halved, fields="audio").map(noise, fields="audio")[0]  # nobody knows
    AddNoise(noises.decode_audio(rate=16000).map(_halved, fields="audio"))
    spectra = clips.decode_audio(rate=8000).crop_audio(2000).log_mel("kaldi")
    with pytest.raises(carya.InvalidArgument, match=r"AddNoise: audio is a spectrum; put .map\(AddNoise"):
        spectra.map(noise, fields="audio")[0]


def _halved(sound: Any) -> Any:
    return np.ascontiguousarray(sound[..., ::2])


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


def test_spectra_of_sounds_that_functions_return_are_those_of_decoded_ones(tmp_path: Path) -> None:
    write_sounds(tmp_path / "clips", 6, 1)
    decoded = carya.audio_folder(tmp_path / "clips").shuffle(seed=1).decode_audio(rate=16000)
    clips, longer = decoded.crop_audio(8000), decoded.crop_audio(2000)
    same: Any = np.copy  # a function that leaves a sound as it is

    def rows(chain: carya.Pipeline) -> list[Any]:
        with carya.Loader(chain.batch(3), epochs=1, threads=2) as loader:
            return [{name: np.array(value) for name, value in batch.items()} for batch in loader]

    chains: list[Any] = [
        lambda one: one.log_mel("kaldi", n_mels=40),
        lambda one: one.log_mel("whisper"),
        lambda one: one.resample(8000).spectrogram(200, 80).time_stretch(0.9).mel_scale(20),
        lambda one: one.log_mel("torchaudio", n_mels=40).mfcc(13),
        lambda one: one.gain(3.0),
    ]
    for chain in chains:
        for source in (clips, longer):
            plain, behind = rows(chain(source)), rows(chain(source.map(same, fields="audio")))
            for one, other in zip(plain, behind, strict=True):
                assert one.keys() == other.keys()
                for name in one:
                    assert one[name].dtype == other[name].dtype
                    assert np.array_equal(one[name], other[name]), name
    spectra = clips.log_mel("kaldi", n_mels=40)
    plain, behind = (
        rows(spectra.spec_augment(0, 0, 1, 9, value=7)),
        rows(spectra.map(same, fields="audio").spec_augment(0, 0, 1, 9, value=7)),
    )
    assert [one["audio"].shape for one in plain] == [one["audio"].shape for one in behind]
    hidden = [(row == 7).all(axis=1) for batch in behind for row in batch["audio"]]
    frames = [int(count) for batch in behind for count in batch["audio_length"]]
    assert any(one.any() for one in hidden)
    assert not any(one[count:].any() for one, count in zip(hidden, frames, strict=True)), "padding is not masked"


def test_noisy_spectra_are_one_stream(tmp_path: Path) -> None:
    """The example of docs/guides/speech.md."""
    write_sounds(tmp_path / "clips", 6, 1)
    write_sounds(tmp_path / "noises", 2, 2)
    noises = carya.audio_folder(tmp_path / "noises").decode_audio(rate=16000)
    clips = carya.audio_folder(tmp_path / "clips").shuffle(seed=1).decode_audio(rate=16000).crop_audio(seconds=0.2)
    chain = clips.map(AddNoise(noises), fields="audio").log_mel("kaldi").spec_augment(time_width=5).batch(2)
    assert epoch_digest(chain, threads=1) == epoch_digest(chain, threads=3)


def test_what_is_no_sound_any_more_is_told(tmp_path: Path) -> None:
    write_sounds(tmp_path / "clips", 2, 1)
    clips = carya.audio_folder(tmp_path / "clips").decode_audio(rate=16000).crop_audio(8000)
    with pytest.raises(carya.InvalidArgument, match=r"log_mel: audio: got float64 \(8000,\) of the function before it"):
        clips.map(np.float64, fields="audio").log_mel("kaldi")[0]
    with pytest.raises(carya.InvalidArgument, match=r"gain: audio: got float32 \(2, 2, 2000\)"):
        clips.map(_as_cube, fields="audio").gain(3)[0]
    with pytest.raises(carya.SampleError, match="gain: audio: it has no samples"):
        clips.map(_nothing, fields="audio").gain(3)[0]


def _as_cube(audio: Any) -> Any:
    return audio.reshape(2, 2, 2000)


def _nothing(audio: Any) -> Any:
    return audio[:0]
