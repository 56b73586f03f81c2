"""The pipelines on sound by torch's DataLoader: soundfile decodes, torchaudio or plain torch does the rest."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .data import Files
from .pipelines import CLIPS, RATE, SECONDS, UTTERANCE
from .torch_forms import Samples, loaded


def decoded(path: str) -> tuple[Any, int]:
    """Mono float32 samples, and their rate."""
    import torch

    sound, rate = importlib.import_module("soundfile").read(path, dtype="float32", always_2d=True)
    return torch.from_numpy(sound.mean(axis=1)), rate


def padded(sound: Any, samples: int) -> Any:
    import torch

    return torch.nn.functional.pad(sound[:samples], (0, max(samples - len(sound), 0)))


class CedarAsr:
    """Opened in a worker: a path to float32 [256, frames], by torchaudio's transforms."""

    def __init__(self, masks: int = 1) -> None:
        self.masks = masks

    def __call__(self) -> Callable[[str], Any]:
        audio: Any = importlib.import_module("torchaudio")
        of = audio.transforms
        spectrum = of.Spectrogram(400, hop_length=100, power=None)
        stretch = of.TimeStretch(100, 201, fixed_rate=0.8)
        hidden = [of.FrequencyMasking(80), of.TimeMasking(80)] * self.masks
        mel = of.MelScale(256, RATE, n_stft=201, norm="slaney", mel_scale="slaney")
        rates: dict[int, Any] = {}

        def make(path: str) -> Any:
            sound, rate = decoded(path)
            if rate not in rates:
                rates[rate] = of.Resample(rate, RATE)
            power = stretch(spectrum(padded(rates[rate](sound), RATE * SECONDS))).abs().square()
            for mask in hidden:
                power = mask(power[None])[0]
            return mel(power)

        return make


class PlainAsr:
    """Opened in a worker: the same where torchaudio is not there, by torch's Fourier transform and soxr."""

    def __init__(self, masks: int = 1) -> None:
        self.masks = masks

    def __call__(self) -> Callable[[str], Any]:
        import torch

        soxr: Any = importlib.import_module("soxr")
        window, bank = torch.hann_window(400), torch.from_numpy(slaney_bank(256, 400, RATE)).float()
        draw = np.random.default_rng()

        def make(path: str) -> Any:
            sound, rate = decoded(path)
            sound = torch.from_numpy(soxr.resample(sound.numpy(), rate, RATE))
            spectrum = torch.stft(padded(sound, RATE * SECONDS), 400, 100, window=window, return_complex=True)
            power = stretched(spectrum, 100, 0.8).abs().square()
            for axis in (0, 1) * self.masks:
                width = int(draw.integers(80))
                begin = int(draw.integers(power.shape[axis] - width + 1))
                power.narrow(axis, begin, width).zero_()
            return bank @ power

        return make


def stretched(spectrum: Any, hop: int, rate: float) -> Any:
    """A phase vocoder: [bins, frames] complex to as many frames as multiples of `rate` fit."""
    import torch

    steps = torch.arange(0, spectrum.shape[1], rate)
    followed = torch.nn.functional.pad(spectrum, (0, 2))
    before, behind = followed[:, steps.long()], followed[:, steps.long() + 1]
    part = steps % 1.0
    advance = torch.linspace(0, np.pi * hop, len(spectrum))[:, None]
    turned = behind.angle() - before.angle() - advance
    turned = turned - 2 * np.pi * torch.round(turned / (2 * np.pi)) + advance
    phase = torch.cumsum(torch.cat([spectrum[:, :1].angle(), turned[:, :-1]], dim=1), dim=1)
    return torch.polar(part * behind.abs() + (1 - part) * before.abs(), phase)


def slaney_bank(n_mels: int, n_fft: int, rate: int) -> np.ndarray[Any, Any]:
    """Slaney's triangles of area 1: [n_mels, bins], float64."""
    top = rate / 2
    highest = top * 3 / 200 if top < 1000 else 15 + 27 * np.log(top / 1000) / np.log(6.4)
    mels = np.linspace(0, highest, n_mels + 2)
    edges = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
    bins = np.linspace(0, top, n_fft // 2 + 1)
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - left) / (middle - left), (right - bins) / (right - middle)
    bank: np.ndarray[Any, Any] = np.maximum(0, np.minimum(rising, falling)) * 2 / (right - left)
    return bank


def cedar_asr_torchaudio(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(data["paths"], CedarAsr()), CLIPS, cores, None)


def cedar_asr_plain(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(data["paths"], PlainAsr()), CLIPS, cores, None)


class PecanSpeech:
    """Opened in a worker: a path to float32 [frames, 80]: Kaldi's log-mel by torchaudio, and masks."""

    def __init__(self, masks: int = 2) -> None:
        self.masks = masks

    def __call__(self) -> Callable[[str], Any]:
        audio: Any = importlib.import_module("torchaudio")
        fbank = importlib.import_module("torchaudio.compliance.kaldi").fbank
        hidden = [audio.transforms.FrequencyMasking(28), audio.transforms.TimeMasking(101)] * self.masks
        rates: dict[int, Any] = {}

        def make(path: str) -> Any:
            sound, rate = decoded(path)
            if rate != 16000:
                sound = rates.setdefault(rate, audio.transforms.Resample(rate, 16000))(sound)
            sound = padded(sound, 16000 * UTTERANCE)
            mel = fbank(32768 * sound[None], num_mel_bins=80, dither=0.0, sample_frequency=16000.0).T
            for mask in hidden:
                mel = mask(mel[None])[0]
            return mel.T.contiguous()

        return make


def pecan_speech(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(data["paths"], PecanSpeech()), CLIPS, cores, None)
