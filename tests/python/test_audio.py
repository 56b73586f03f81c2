"""Audio: decoding beside libsndfile, resampling beside soxr, spectra beside their definitions, windows, hostile files."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_audio import log_mel, mel_bank, power_frames

import carya
from carya import _core

sf = pytest.importorskip("soundfile", reason="soundfile writes the files")
soxr = pytest.importorskip("soxr")

RATE = 16000
FORMATS = {
    "u8.wav": (8000, 1, {"subtype": "PCM_U8"}),
    "s16.wav": (16000, 1, {"subtype": "PCM_16"}),
    "s24.wav": (44100, 2, {"subtype": "PCM_24"}),
    "s32.wav": (8000, 3, {"subtype": "PCM_32"}),
    "float.wav": (48000, 1, {"subtype": "FLOAT"}),
    "double.wav": (48000, 2, {"subtype": "DOUBLE"}),
    "alaw.wav": (8000, 1, {"subtype": "ALAW"}),
    "ulaw.wav": (8000, 2, {"subtype": "ULAW"}),
    "extensible.wav": (44100, 2, {"subtype": "PCM_16", "format": "WAVEX"}),
    "mono.flac": (16000, 1, {"subtype": "PCM_16"}),
    "stereo.flac": (96000, 2, {"subtype": "PCM_24"}),
    "mono.mp3": (16000, 1, {}),
    "stereo.mp3": (44100, 2, {}),
    "stereo.ogg": (44100, 2, {}),
    "mono.opus": (48000, 1, {"format": "OGG", "subtype": "OPUS"}),
    "stereo.opus": (48000, 2, {"format": "OGG", "subtype": "OPUS"}),
}


def voice(seed: int, samples: int, rate: int = RATE) -> np.ndarray:
    """A chirp with harmonics, pauses and noise."""
    random = np.random.default_rng(seed)
    t = np.arange(samples) / rate
    tone = sum(np.sin(2 * np.pi * k * (120 * t + 40 * t**2)) / k for k in range(1, 6))
    return (0.15 * tone * (np.sin(5 * t) > -0.5) + 0.02 * random.standard_normal(samples)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sounds")
    for number, (name, (rate, channels, how)) in enumerate(FORMATS.items()):
        sound = np.stack([voice(number + c, 2 * rate, rate) for c in range(channels)], 1)
        sf.write(root / name, sound, rate, **how)
    return root


def samples_of(path: Path | str, **options: object) -> np.ndarray:
    return np.asarray(carya.files([str(path)], field="audio").decode_audio(**options)[0]["audio"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMATS)
def test_decoded_samples_are_those_of_libsndfile(folder: Path, name: str) -> None:
    wanted, rate = sf.read(folder / name, dtype="float32", always_2d=True)
    # libsndfile brings decoders of its own along; MP3 and Vorbis are float arithmetic of theirs.
    within = 1e-6 if name.endswith(("mp3", "ogg", "opus")) else 0
    mono = samples_of(folder / name)
    assert mono.dtype == np.float32
    assert mono.shape == (len(wanted),)
    assert np.abs(mono - wanted.mean(1)).max() <= max(within, 1e-7)
    channels = wanted.shape[1]
    if channels > 1:
        every = samples_of(folder / name, channels=channels)
        assert every.shape == (channels, len(wanted))
        assert np.abs(every - wanted.T).max() <= within
    assert rate == FORMATS[name][0]


def test_int16_is_what_the_file_has(folder: Path) -> None:
    wanted, _ = sf.read(folder / "mono.flac", dtype="int16")
    found = samples_of(folder / "mono.flac", dtype="int16")
    assert found.dtype == np.int16
    assert np.array_equal(found, wanted)
    loud = folder / "loud.wav"
    sf.write(loud, np.array([0.0, 2.0, -2.0, 0.5, np.nan], np.float32), RATE, subtype="FLOAT")
    assert samples_of(loud, dtype="int16").tolist() == [0, 32767, -32768, 16384, 0]


def test_one_channel_is_copied_and_others_are_not_guessed(folder: Path) -> None:
    copied = samples_of(folder / "mono.flac", channels=2)
    assert np.array_equal(copied[0], copied[1])
    assert np.array_equal(copied[0], samples_of(folder / "mono.flac"))
    with pytest.raises(carya.SampleError, match="3 channels; 2 are wanted"):
        samples_of(folder / "s32.wav", channels=2)


@pytest.mark.parametrize("name", FORMATS)
def test_a_window_is_a_part_of_the_whole(folder: Path, name: str) -> None:
    whole = samples_of(folder / name)
    window = carya.files([str(folder / name)], field="audio").decode_audio().crop_audio(samples=3000)
    behind = carya.files([str(folder / name)], field="audio").decode_audio().gain(0).crop_audio(samples=3000)
    starts = set()
    for epoch in range(8):
        found = window.sample(0, epoch=epoch)
        assert int(found["audio_length"]) == 3000
        assert np.abs(found["audio"] - behind.sample(0, epoch=epoch)["audio"]).max() <= 1e-6
        views = np.lib.stride_tricks.sliding_window_view(whole, 3000)[:, ::100]
        start = int(np.abs(views - found["audio"][::100]).max(1).argmin())
        assert np.abs(whole[start : start + 3000] - found["audio"]).max() <= 1e-6
        starts.add(start)
    assert len(starts) == 8
    middle = carya.files([str(folder / name)], field="audio").decode_audio().crop_audio(samples=3000, random=False)
    start = (len(whole) - 3000) // 2
    assert np.abs(middle[0]["audio"] - whole[start : start + 3000]).max() <= 1e-6


def test_a_window_of_flac_decodes_little_of_it(tmp_path: Path) -> None:
    """Damage at the end of a file is not seen by a window at its beginning: what is not shown is not decoded."""
    path = tmp_path / "long.flac"
    sf.write(path, voice(1, 60 * RATE), RATE, subtype="PCM_16")
    data = bytearray(path.read_bytes())
    data[-4000:-3000] = bytes(1000)
    path.write_bytes(data)
    assert carya.files([str(path)], field="audio").decode_audio().pad_audio(5000)[0]["audio"].any()
    with pytest.raises(carya.SampleError, match="FLAC"):
        samples_of(path)


def test_a_block_of_flac_with_a_wrong_checksum_is_bad_data(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    sf.write(path, voice(1, RATE), RATE, subtype="PCM_16")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # the checksum of the last block is all that is wrong
    path.write_bytes(data)
    with pytest.raises(carya.SampleError, match="a block with a wrong checksum"):
        samples_of(path)


@pytest.mark.parametrize("to", [8000, 16000, 24000, 44100])
def test_resampled_samples_are_those_of_soxr(folder: Path, to: int) -> None:
    wanted = soxr.resample(samples_of(folder / "float.wav"), 48000, to)
    found = samples_of(folder / "float.wav", rate=to)
    assert np.array_equal(found, wanted)
    for samples in (47, 3001, 9001, 48001):  # also where the last ones make no sample of their own
        part = samples_of(folder / "float.wav")[:samples]
        sf.write(folder / "part.wav", part, 48000, subtype="FLOAT")
        wanted = soxr.resample(part, 48000, to)
        assert np.array_equal(samples_of(folder / "part.wav", rate=to), wanted)
    wanted = soxr.resample(samples_of(folder / "float.wav"), 48000, to)
    pipeline = carya.files([str(folder / "float.wav")], field="audio").decode_audio(rate=to)
    middle = pipeline.crop_audio(samples=2500, random=False)[0]["audio"]
    start = (len(wanted) - 2500) // 2
    assert np.abs(middle - wanted[start : start + 2500]).max() <= 1e-6


@pytest.mark.parametrize("kind", ["kaldi", "whisper", "torchaudio"])
@pytest.mark.parametrize("n_mels", [40, 80, 128])
def test_log_mel_is_its_definition(folder: Path, kind: str, n_mels: int) -> None:
    pipeline = carya.files([str(folder / "s16.wav")], field="audio").decode_audio(rate=RATE)
    sound = pipeline[0]["audio"]
    wanted = log_mel(sound, kind, n_mels, RATE)
    found = pipeline.log_mel(kind, n_mels)[0]["audio"]  # type: ignore[arg-type]
    assert found.shape == wanted.shape
    off = np.abs(found - wanted)
    assert off.mean() <= 1e-5
    assert off.max() <= 5e-3


@pytest.mark.parametrize("kind", ["kaldi", "whisper", "torchaudio"])
@pytest.mark.parametrize("samples", [1, 159, 400, 5000, 15600, 15799, 15800, 15999, 16000])
def test_padding_has_the_values_that_it_would_be_computed_to_have(tmp_path: Path, kind: str, samples: int) -> None:
    sf.write(tmp_path / "a.wav", voice(samples, samples), RATE, subtype="PCM_16")
    pipeline = carya.files([str(tmp_path / "a.wav")], field="audio").decode_audio(rate=RATE).pad_audio(16000)
    wanted = log_mel(pipeline[0]["audio"], kind, 80, RATE)
    assert np.abs(pipeline.log_mel(kind)[0]["audio"] - wanted).max() <= 5e-3  # type: ignore[arg-type]


def test_log_mel_of_another_rate_is_its_definition(folder: Path) -> None:
    pipeline = carya.files([str(folder / "alaw.wav")], field="audio").decode_audio(rate=8000)
    wanted = log_mel(pipeline[0]["audio"], "kaldi", 40, 8000)
    assert np.abs(pipeline.log_mel("kaldi", 40)[0]["audio"] - wanted).max() <= 5e-3


@pytest.mark.parametrize(("n_fft", "hop"), [(400, 200), (512, 128), (600, 150), (1024, 256), (50, 25), (24, 7), (4, 1)])
def test_spectra_are_their_definition(folder: Path, n_fft: int, hop: int) -> None:
    pipeline = carya.files([str(folder / "s16.wav")], field="audio").decode_audio(rate=RATE).pad_audio(5001)
    wanted = power_frames(pipeline[0]["audio"], n_fft, hop)
    power = pipeline.spectrogram(n_fft, hop)[0]["audio"]
    assert power.shape == wanted.shape
    assert np.abs(power - wanted).max() <= 1e-6 * wanted.max()
    magnitude = pipeline.spectrogram(n_fft, hop, power=1)[0]["audio"]
    assert np.abs(magnitude - np.sqrt(wanted)).max() <= 1e-5 * np.sqrt(wanted.max())
    for scale in ("htk", "slaney"):
        mel = pipeline.mel_spectrogram(n_fft, hop, 20, 100.0, 6000.0, scale)[0]["audio"]  # type: ignore[arg-type]
        summed = mel_bank(scale, 20, n_fft, RATE, 100.0, 6000.0) @ wanted
        assert np.abs(mel - summed).max() <= 1e-5 * max(summed.max(), 1e-9)


def vocoder(x: np.ndarray, n_fft: int, hop: int, rate: float) -> np.ndarray:
    """torchaudio's TimeStretch of a complex spectrum, in float64, from its definition: phases and all."""
    padded = np.pad(np.asarray(x, np.float64), n_fft // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    starts = range(0, len(x) // hop * hop + 1, hop)
    spectrum = np.fft.rfft(np.stack([padded[i : i + n_fft] * window for i in starts])).T
    advance = np.linspace(0, np.pi * hop, len(spectrum))
    followed = np.pad(spectrum, ((0, 0), (0, 2)))
    phase = np.angle(spectrum[:, 0])
    columns = []
    for at in np.arange(0, spectrum.shape[1], rate):
        before, behind = followed[:, int(at)], followed[:, int(at) + 1]
        part = at - int(at)
        columns.append(((1 - part) * np.abs(before) + part * np.abs(behind)) * np.exp(1j * phase))
        turned = np.angle(behind) - np.angle(before) - advance
        phase = phase + advance + turned - 2 * np.pi * np.round(turned / (2 * np.pi))
    return np.stack(columns, 1)


@pytest.mark.parametrize("rate", [0.8, 1.0, 1.3, 2.0])
def test_a_stretched_spectrum_is_that_of_a_phase_vocoder(folder: Path, rate: float) -> None:
    pipeline = carya.files([str(folder / "s16.wav")], field="audio").decode_audio(rate=RATE).pad_audio(5001)
    stretched = np.abs(vocoder(pipeline[0]["audio"], 400, 100, rate))
    power = pipeline.spectrogram(400, 100).time_stretch(rate)
    assert power.outputs[0][2] == power[0]["audio"].shape == stretched.shape
    assert np.abs(power[0]["audio"] - stretched**2).max() <= 1e-6 * stretched.max() ** 2
    magnitude = pipeline.spectrogram(400, 100, power=1).time_stretch(rate, power=1)[0]["audio"]
    assert np.abs(magnitude - stretched).max() <= 1e-6 * stretched.max()
    mel = power.mel_scale(40, 100.0, 6000.0, "slaney")[0]["audio"]
    summed = mel_bank("slaney", 40, 400, RATE, 100.0, 6000.0) @ stretched**2
    assert np.abs(mel - summed).max() <= 1e-6 * summed.max()


def test_a_spectrogram_summed_by_pitch_is_a_mel_spectrogram(folder: Path) -> None:
    pipeline = carya.files([str(folder / "s16.wav")], field="audio").decode_audio(rate=RATE).pad_audio(5001)
    for scale in ("htk", "slaney"):
        whole = pipeline.mel_spectrogram(512, 128, 30, 50.0, None, scale)[0]["audio"]  # type: ignore[arg-type]
        parts = pipeline.spectrogram(512, 128).mel_scale(30, 50.0, None, scale)[0]["audio"]  # type: ignore[arg-type]
        assert np.abs(whole - parts).max() <= 1e-6 * whole.max()


def test_a_stretched_clip_has_as_much_more_of_its_own(folder: Path) -> None:
    clip = carya.files([str(folder / "s16.wav")], field="audio").decode_audio(rate=RATE)
    whole = clip.pad_audio(60_000).spectrogram(400, 100)  # 2 s of sound
    assert int(whole[0]["audio_length"]) == 1 + 2 * RATE // 100
    assert int(whole.time_stretch(0.5)[0]["audio_length"]) == 2 * (1 + 2 * RATE // 100)
    masked = whole.spec_augment(time_masks=0, freq_masks=1, freq_width=9, value=-1.0).time_stretch(0.5)[0]["audio"]
    assert masked.min() == 0.0


def test_lengths_count_what_is_no_padding(tmp_path: Path) -> None:
    lengths = [399, 400, 16000, 20000, 40000]
    paths = [str(tmp_path / f"{n}.wav") for n in lengths]
    for path, samples in zip(paths, lengths, strict=True):
        sf.write(path, voice(samples, samples), RATE)
    padded = carya.files(paths, field="audio").decode_audio(rate=RATE).pad_audio(seconds=1.25)
    assert [int(padded[i]["audio_length"]) for i in range(5)] == [399, 400, 16000, 20000, 20000]
    assert not padded[0]["audio"][399:].any()
    kaldi = padded.log_mel("kaldi")
    assert [int(kaldi[i]["audio_length"]) for i in range(5)] == [0, 1, 98, 123, 123]
    assert kaldi[0]["audio"].shape == (123, 80)
    whisper = padded.log_mel("whisper")
    assert [int(whisper[i]["audio_length"]) for i in range(5)] == [2, 2, 100, 125, 125]
    narrower = padded.crop_audio(samples=18000, random=False)
    assert [int(narrower[i]["audio_length"]) for i in range(5)] == [0, 0, 15000, 18000, 18000]


def test_masks_lie_where_they_may(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    sf.write(path, voice(1, 8000), RATE)
    plain = carya.files([str(path)], field="audio").decode_audio(rate=RATE).pad_audio(16000).log_mel("kaldi")
    whole = plain[0]["audio"]
    masked = plain.spec_augment(freq_masks=1, freq_width=9, time_masks=1, time_width=12, value=-99.0)
    widths, places = set(), set()
    for epoch in range(200):
        found = masked.sample(0, epoch=epoch)["audio"]
        hidden = found == -99.0
        assert np.array_equal(found[~hidden], whole[~hidden])
        bins, frames = np.flatnonzero(hidden.all(0)), np.flatnonzero(hidden.all(1))
        for run, most in ((bins, 9), (frames, 12)):
            assert len(run) <= most
            assert len(run) == 0 or run[-1] - run[0] + 1 == len(run)
        assert len(frames) == 0 or frames[-1] < 48  # the frames that are no padding
        assert hidden.sum() == len(bins) * 98 + len(frames) * 80 - len(bins) * len(frames)
        widths.add(len(frames))
        places.update(bins.tolist())
    assert widths == set(range(13))
    assert places == set(range(80))
    first = carya.files([str(path)], field="audio").decode_audio(rate=RATE).pad_audio(16000).log_mel("whisper")
    hidden = first.spec_augment(0, 0, 1, 12, value=-99.0).sample(0, epoch=1)["audio"] == -99.0
    assert hidden.all(0).sum() == hidden.any(0).sum()


def test_gain_is_in_decibels(folder: Path) -> None:
    sound = samples_of(folder / "s16.wav")
    pipeline = carya.files([str(folder / "s16.wav")], field="audio").decode_audio()
    assert np.allclose(pipeline.gain(-6)[0]["audio"], sound * 10 ** (-6 / 20), rtol=1e-6)
    drawn = [float(np.abs(pipeline.gain((-6, 6)).sample(0, epoch=e)["audio"]).max()) for e in range(50)]
    decibels = 20 * np.log10(np.array(drawn) / np.abs(sound).max())
    assert decibels.min() >= -6.001
    assert decibels.max() <= 6.001
    assert decibels.std() > 2


def test_rates_change_behind_a_decode_as_in_it(folder: Path) -> None:
    sounds = carya.files([str(folder / "float.wav")], field="audio")
    assert np.array_equal(
        sounds.decode_audio().resample(16000)[0]["audio"], samples_of(folder / "float.wav", rate=16000)
    )
    fixed = sounds.decode_audio().gain(0).resample(24000)[0]["audio"]
    assert np.array_equal(fixed, soxr.resample(samples_of(folder / "float.wav"), 48000, 24000))
    window = sounds.decode_audio(rate=48000).pad_audio(9001).resample(16000)
    assert window[0]["audio"].shape == (3000,)
    assert int(window[0]["audio_length"]) == 3000
    assert np.array_equal(window[0]["audio"], soxr.resample(samples_of(folder / "float.wav")[:9001], 48000, 16000))


def test_speeds_are_drawn_and_resampled(folder: Path) -> None:
    sound = samples_of(folder / "s16.wav")
    pipeline = carya.files([str(folder / "s16.wav")], field="audio").decode_audio().speed_perturb([0.9, 1.0, 1.1])
    lengths = set()
    for epoch in range(20):
        found = pipeline.sample(0, epoch=epoch)["audio"]
        factor = next(f for f in (0.9, 1.0, 1.1) if round(len(sound) / f) == len(found))
        wanted = sound if factor == 1.0 else soxr.resample(sound, round(factor * 10), 10)
        assert np.array_equal(found, wanted[: len(found)])
        lengths.add(len(found))
    assert len(lengths) == 3


def test_shifts_move_samples_and_their_end(folder: Path) -> None:
    plain = carya.files([str(folder / "s16.wav")], field="audio").decode_audio().pad_audio(40000)
    whole = plain[0]["audio"]
    shifts = []
    for epoch in range(60):
        found = plain.time_shift(0.1).sample(0, epoch=epoch)
        shift = int(found["audio_length"]) - 32000
        wanted = np.roll(whole, shift)
        if shift > 0:
            wanted[:shift] = 0
        else:
            wanted[40000 + shift :] = 0
        assert np.array_equal(found["audio"], wanted)
        shifts.append(shift)
    assert -4000 <= min(shifts) < -2000
    assert 2000 < max(shifts) <= 4000


def test_silence_is_trimmed_as_librosa_does(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    for number, (before, after, top_db) in enumerate(
        [(5000, 3000, 40), (0, 9000, 30), (700, 0, 60), (20000, 20000, 20)]
    ):
        x = np.concatenate(
            [1e-4 * random.standard_normal(before), voice(number, 9000), 1e-4 * random.standard_normal(after)]
        )
        sf.write(tmp_path / "a.wav", x, RATE, subtype="FLOAT")
        sound = samples_of(tmp_path / "a.wav")
        padded = np.pad(sound.astype(np.float64), 1024)
        power = np.array([(padded[i : i + 2048] ** 2).mean() for i in range(0, len(sound) + 1, 512)])
        loud = np.flatnonzero(10 * np.log10(np.maximum(power, 1e-20) / power.max()) > -top_db)
        wanted = sound[loud[0] * 512 : min(len(sound), (loud[-1] + 1) * 512)]
        found = carya.files([str(tmp_path / "a.wav")], field="audio").decode_audio().trim_silence(top_db)[0]["audio"]
        assert np.array_equal(found, wanted)
    sf.write(tmp_path / "quiet.wav", np.zeros(5000, np.float32), RATE)
    quiet = carya.files([str(tmp_path / "quiet.wav")], field="audio").decode_audio().trim_silence()
    assert quiet[0]["audio"].shape == (0,)
    assert int(quiet.pad_audio(100)[0]["audio_length"]) == 0


@pytest.mark.parametrize(("kind", "n_mels", "count", "lifter"), [("kaldi", 23, 13, 22.0), ("torchaudio", 80, 40, 0.0)])
def test_cepstra_are_their_definition(folder: Path, kind: str, n_mels: int, count: int, lifter: float) -> None:
    pipeline = carya.files([str(folder / "s16.wav")], field="audio").decode_audio(rate=RATE)
    logs = log_mel(pipeline[0]["audio"], kind, n_mels, RATE)
    k, b = np.arange(count)[:, None], np.arange(n_mels)
    cosines = np.cos(np.pi * k * (b + 0.5) / n_mels) * np.sqrt(np.where(k == 0, 1, 2) / n_mels)
    if lifter:
        cosines *= 1 + lifter / 2 * np.sin(np.pi * k / lifter)
    wanted = logs @ cosines.T if kind == "kaldi" else cosines @ logs
    found = pipeline.log_mel(kind, n_mels).mfcc(count, lifter)[0]["audio"]  # type: ignore[arg-type]
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_batches_are_the_same_with_any_number_of_threads(folder: Path, tmp_path: Path) -> None:
    paths = []
    for number in range(12):
        paths.append(str(tmp_path / f"{number:02d}.flac"))
        sf.write(paths[-1], voice(number, 12000 + 3000 * number), RATE)
    train = (
        carya.files(paths, labels=list(range(12)), field="audio")
        .shuffle(seed=3)
        .decode_audio(rate=RATE)
        .crop_audio(seconds=1)
        .log_mel("kaldi")
        .spec_augment()
        .batch(4)
    )
    seen = []
    for threads in (1, 3):
        with carya.Loader(train, threads=threads, epochs=1) as loader:
            seen.append(
                [{name: np.array(batch[name]) for name in ("audio", "audio_length", "label")} for batch in loader]
            )
    assert len(seen[0]) == 3
    assert seen[0][0]["audio"].shape == (4, 98, 80)
    for one, other in zip(*seen, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    single = [train.sample(int(i)) for i in seen[0][0]["label"]]
    assert all(np.array_equal(row["audio"], batch) for row, batch in zip(single, seen[0][0]["audio"], strict=True))


def test_tars_and_folders_are_sources(tmp_path: Path) -> None:
    for word in ("no", "yes"):
        (tmp_path / "words" / word).mkdir(parents=True)
        for number in range(2):
            sf.write(tmp_path / "words" / word / f"{number}.flac", voice(number, 8000), RATE)
    (tmp_path / "words" / "README.txt").write_text("no sound")
    words = carya.audio_folder(tmp_path / "words", labels="folder").decode_audio(rate=RATE).pad_audio(8000)
    assert [int(words[i]["label"]) for i in range(4)] == [0, 0, 1, 1]
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number in range(2):
            tar.add(tmp_path / "words" / "yes" / f"{number}.flac", f"{number}.flac")
    shard = carya.webdataset(str(tmp_path / "a.tar"), fields={"audio": ["flac"]}, label=None)
    assert np.array_equal(shard.decode_audio(rate=RATE)[1]["audio"], words[3]["audio"])
    (tmp_path / "words" / "yes" / "again").symlink_to(tmp_path / "words")
    assert words.class_names == pickle.loads(pickle.dumps(words.take(1).batch(1))).class_names == ["no", "yes"]
    assert len(carya.audio_folder(tmp_path / "words")) == 4
    assert carya.audio_folder(tmp_path / "words").class_names == []
    with pytest.raises(carya.NotFound, match="no such folder"):
        carya.audio_folder(tmp_path / "none")
    with pytest.raises(carya.NotFound, match=r"\.mp3"):
        carya.audio_folder(tmp_path / "words", extensions=["mp3"])
    assert len(carya.audio_folder(tmp_path / "words", extensions="flac")) == 4
    with pytest.raises(carya.InvalidArgument, match="audio_folder: labels: got 'folders'; give \"folder\""):
        carya.audio_folder(tmp_path / "words", labels="folders")  # type: ignore[arg-type]


def wav(
    samples: bytes, *, coding: int = 1, channels: int = 1, rate: int = RATE, bits: int = 16, said: int | None = None
) -> bytes:
    frame = channels * bits // 8
    form = struct.pack("<HHIIHH", coding, channels, rate, min(rate * frame, 2**32 - 1), frame, bits)
    data = struct.pack("<4sI", b"data", len(samples) if said is None else said) + samples
    return b"RIFF" + struct.pack("<I4s4sI", 36 + len(samples), b"WAVE", b"fmt ", len(form)) + form + data


HOSTILE = {
    "zero channels": (wav(bytes(100), channels=0), "0 channels"),
    "1 Hz": (wav(bytes(100), rate=1), "a rate of 1 Hz"),
    "10 MHz": (wav(bytes(100), rate=10_000_000), "a rate of 10000000 Hz"),
    "2**31 samples": (wav(bytes(100), said=2**32 - 2**16), "50 of 2147450880 frames"),
    "12 bits": (wav(bytes(100), bits=12), "coding 1 with 12 bits"),
    "ADPCM": (wav(bytes(100), coding=2), "coding 2 with 16 bits"),
    "no data": (wav(b"")[:-8], "no data chunk"),
    "empty": (b"", "empty"),
    "text": (b"this is no sound at all", "not a WAV, FLAC"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_headers_are_bad_data_with_a_reason(tmp_path: Path, what: str) -> None:
    data, reason = HOSTILE[what]
    path = tmp_path / "bad.wav"
    path.write_bytes(data)
    with pytest.raises(carya.SampleError, match=reason):
        samples_of(path)


def test_a_wav_of_open_length_reaches_to_the_end(tmp_path: Path) -> None:
    sound = np.arange(500, dtype=np.int16)
    for said in (0, 0xFFFFFFFF):
        (tmp_path / "a.wav").write_bytes(wav(sound.tobytes(), said=said))
        assert np.array_equal(samples_of(tmp_path / "a.wav", dtype="int16"), sound)


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_files_have_a_verdict(folder: Path, tmp_path: Path, name: str) -> None:
    """Files that were cut off or changed are good or bad data; a loader goes on without the bad ones and names them."""
    data = (folder / name).read_bytes()
    random = np.random.default_rng(7)
    paths = []
    for number in range(40):
        bad = bytearray(data)
        if number % 2:
            bad = bad[: int(random.integers(0, len(data)))]
        else:
            reach = 200 if number % 4 else len(data)
            for place in random.integers(0, min(reach, len(data)), 4):
                bad[place] = int(random.integers(0, 256))
        paths.append(str(tmp_path / f"{number:02d}"))
        Path(paths[-1]).write_bytes(bad)
    train = (
        carya.files(paths, field="audio").decode_audio(rate=RATE).crop_audio(samples=4000).log_mel("whisper").batch(40)
    )
    with carya.Loader(train, on_error="mask", epochs=1) as loader:
        batch = next(iter(loader))
        assert batch["audio"].shape == (40, 80, 25)
        valid = np.array(batch["valid"]) if "valid" in batch else np.ones(40, bool)
    for i in range(40):
        if valid[i]:
            assert 0 <= int(batch["audio_length"][i]) <= 25


def as_it_is(sample: Any) -> Any:
    return sample


def logarithm(power: Any) -> Any:
    return np.log(power + np.float32(1e-6))


def test_a_function_may_take_the_logarithm_of_mfcc(folder: Path) -> None:
    fixed = carya.files([str(folder / "s16.wav")], field="audio").decode_audio(rate=RATE).pad_audio(RATE)
    made = fixed.mel_spectrogram(n_mels=40, hop_length=160).map(logarithm, fields="audio").mfcc(13)[0]["audio"]
    np.testing.assert_allclose(made, fixed.log_mel("torchaudio", 40).mfcc(13)[0]["audio"], rtol=1e-3, atol=1e-3)


def test_what_cannot_be_is_refused(folder: Path) -> None:
    sounds = carya.files([str(folder / "s16.wav")], field="audio")
    fixed = sounds.decode_audio(rate=RATE).pad_audio(RATE)
    for make, message in (
        (lambda: sounds.crop_audio(samples=5), "put decode_audio before"),
        (lambda: sounds.decode_audio(rate=1), "rate"),
        (lambda: sounds.decode_audio().crop_audio(), "either samples or seconds"),
        (lambda: sounds.decode_audio().crop_audio(samples=5, seconds=1.0), "either samples or seconds"),
        (lambda: sounds.decode_audio().crop_audio(seconds=1.0), "no length in seconds"),
        (lambda: sounds.decode_audio().log_mel("kaldi"), "one rate for all files"),
        (lambda: sounds.decode_audio(rate=8000).log_mel("whisper"), "16 kHz"),
        (lambda: sounds.decode_audio(rate=RATE, channels=2).log_mel("kaldi"), "mono"),
        (lambda: sounds.decode_audio(rate=RATE, dtype="int16").log_mel("kaldi"), "float32 samples"),
        (lambda: fixed.spectrogram(n_fft=14), "prime factor"),
        (lambda: fixed.log_mel("kaldi", n_fft=512), "n_fft"),
        (lambda: fixed.log_mel("kaldi").gain(1), "before the spectrum"),
        (lambda: fixed.spec_augment(), "a spectrum"),
        (lambda: fixed.mfcc(), "a spectrum"),
        (lambda: fixed.log_mel("kaldi", 20).mfcc(21), "up to its 20 bins"),
        (lambda: fixed.mel_spectrogram().mfcc(13), "mel_spectrogram before it takes no logarithm"),
        (lambda: fixed.spectrogram().mel_scale(64).spec_augment().mfcc(13), "spectrogram before it takes no logarithm"),
        (lambda: fixed.map(as_it_is).mel_spectrogram().filter(bool).mfcc(13, fields=["audio"]), "takes no logarithm"),
        (lambda: fixed.time_stretch(0.9), "put spectrogram before"),
        (lambda: fixed.mel_spectrogram().time_stretch(0.9), "put spectrogram before"),
        (lambda: fixed.spectrogram(power=1).time_stretch(0.9), "power=1, as its spectrogram"),
        (lambda: fixed.spectrogram().time_stretch(0.0), "rate"),
        (lambda: fixed.log_mel("kaldi").mel_scale(), "put spectrogram before"),
        (lambda: fixed.spectrogram().mel_scale().mel_scale(), "put spectrogram before"),
        (lambda: fixed.spectrogram().mel_scale(f_max=9000.0), "half of the rate"),
        (lambda: fixed.spectrogram().mel_scale(f_min=8000.0), "f_min below"),
        (lambda: sounds.decode_audio().spectrogram().mel_scale(), "one rate for all files"),
        (lambda: fixed.speed_perturb(), "before crop_audio"),
        (lambda: sounds.decode_audio().speed_perturb().pack(99, "audio"), "pack: it comes after speed_perturb"),
        (lambda: fixed.trim_silence(), "before crop_audio"),
        (lambda: sounds.decode_audio().speed_perturb([0.91234]), "thousandths"),
        (lambda: sounds.decode_audio().pad_audio(50).resample(8000), "put it before crop_audio"),
        (lambda: fixed.mel_spectrogram(f_max=9000.0), "half of the rate"),
        (lambda: fixed.decode_audio(), "no encoded field"),
        (lambda: fixed.normalize(0.5, 0.5, layout="keep", fields=["audio"]), "ops of its own"),
    ):
        with pytest.raises(carya.InvalidArgument, match=message):
            _ = make().outputs
    with (
        pytest.raises(carya.InvalidArgument, match=r"add \.crop_audio"),
        carya.Loader(sounds.decode_audio().batch(1)) as loader,
    ):
        next(iter(loader))


DIGEST = """
import hashlib, sys
import carya
digest = hashlib.sha256()
for kind in ("kaldi", "whisper", "torchaudio"):
    p = carya.files([sys.argv[1]], field="audio").decode_audio(rate=16000).pad_audio(20000).log_mel(kind)
    digest.update(p[0]["audio"].tobytes())
for n_fft in (50, 400, 600):
    digest.update(carya.files([sys.argv[1]], field="audio").decode_audio().spectrogram(n_fft)[0]["audio"].tobytes())
p = carya.files([sys.argv[1]], field="audio").decode_audio(rate=16000).spectrogram().time_stretch(0.9).mel_scale(40)
digest.update(p[0]["audio"].tobytes())
print(digest.hexdigest())
"""


def test_simd_targets_change_no_bit(folder: Path) -> None:
    found = set()
    for target in _core.simd_targets():
        run = [sys.executable, "-c", DIGEST, str(folder / "s16.wav")]
        found.add(subprocess.check_output(run, env={**os.environ, "CARYA_SIMD": target}, text=True))
    assert len(found) == 1


def test_bytes_in_a_record_are_decoded_like_a_file(tmp_path: Path) -> None:
    memory = io.BytesIO()
    sf.write(memory, voice(1, 8000), RATE, format="FLAC")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in ("0.speech", "0.noise"):
            member = tarfile.TarInfo(name)
            member.size = len(memory.getvalue())
            tar.addfile(member, io.BytesIO(memory.getvalue()))
    both = carya.webdataset(str(tmp_path / "a.tar"), fields={"speech": ["speech"], "noise": ["noise"]}, label=None)
    sample = both.decode_audio(rate=RATE).pad_audio(9000)[0]
    assert int(sample["speech_length"]) == int(sample["noise_length"]) == 8000
    assert np.array_equal(sample["speech"], sample["noise"])
