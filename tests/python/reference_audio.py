"""Definitions of audio features in float64 numpy, written from their sources: what the native ones are compared with."""

from __future__ import annotations

import numpy as np


def hz_to_mel(hz: np.ndarray, scale: str) -> np.ndarray:
    if scale != "slaney":
        return 1127.0 * np.log1p(np.asarray(hz, np.float64) / 700.0)
    hz = np.asarray(hz, np.float64)
    log_part = 15.0 + 27.0 * np.log(np.maximum(hz, 1e-9) / 1000.0) / np.log(6.4)
    return np.where(hz < 1000.0, hz * 3.0 / 200.0, log_part)


def mel_to_hz(mel: np.ndarray, scale: str) -> np.ndarray:
    if scale != "slaney":
        return 700.0 * np.expm1(mel / 1127.0)
    return np.where(mel < 15.0, mel * 200.0 / 3.0, 1000.0 * np.exp((mel - 15.0) * np.log(6.4) / 27.0))


def mel_bank(scale: str, n_mels: int, n_fft: int, rate: float, low: float, high: float) -> np.ndarray:
    """(n_mels, bins). "kaldi": triangles over mel; "htk", "slaney": over Hz, of height or area 1."""
    bins = n_fft // 2 + (0 if scale == "kaldi" else 1)
    hz = np.arange(bins) * rate / n_fft
    edges = np.linspace(hz_to_mel(np.array(low), scale), hz_to_mel(np.array(high), scale), n_mels + 2)
    at = hz_to_mel(hz, scale) if scale == "kaldi" else hz
    points = edges if scale == "kaldi" else mel_to_hz(edges, scale)
    left, center, right = points[:-2, None], points[1:-1, None], points[2:, None]
    bank = np.maximum(0.0, np.minimum((at - left) / (center - left), (right - at) / (right - center)))
    return bank * 2.0 / (right - left) if scale == "slaney" else bank


def power_frames(x: np.ndarray, n_fft: int, hop: int) -> np.ndarray:
    """(bins, 1 + samples // hop): powers with a periodic Hann window, the signal reflected at both ends."""
    padded = np.pad(np.asarray(x, np.float64), n_fft // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    count = 1 + len(x) // hop
    frames = np.stack([padded[i * hop : i * hop + n_fft] * window for i in range(count)])
    return np.abs(np.fft.rfft(frames)).T ** 2


def log_mel(x: np.ndarray, kind: str, n_mels: int, rate: int) -> np.ndarray:
    if kind == "kaldi":
        length, hop = rate * 25 // 1000, rate * 10 // 1000
        n_fft = 1 << (length - 1).bit_length()
        scaled = np.asarray(x, np.float64) * 32768.0
        window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / (length - 1))) ** 0.85
        rows = []
        for i in range(1 + (len(x) - length) // hop):
            frame = scaled[i * hop : i * hop + length]
            frame = frame - frame.mean()
            frame = (frame - 0.97 * np.concatenate([frame[:1], frame[:-1]])) * window
            rows.append(np.abs(np.fft.rfft(frame, n_fft)) ** 2)
        power = np.array(rows)[:, : n_fft // 2]
        mel = power @ mel_bank("kaldi", n_mels, n_fft, rate, 20.0, rate / 2).T
        return np.log(np.maximum(mel, np.finfo(np.float32).eps))
    mel = mel_bank("slaney" if kind == "whisper" else "htk", n_mels, 400, rate, 0.0, rate / 2) @ power_frames(
        x, 400, 160
    )
    if kind == "torchaudio":
        return np.log(mel + 1e-6)
    logs = np.log10(np.maximum(mel[:, : len(x) // 160], 1e-10))
    return (np.maximum(logs, logs.max() - 8.0) + 4.0) / 4.0
