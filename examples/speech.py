#!/usr/bin/env python3
"""Spoken digits or commands from sound files: log-mel features, SpecAugment, and a small model in numpy.

    python examples/speech.py FOLDER [--seconds 1] [--epochs 8]

FOLDER has one folder of sound files per word or speaker (WAV, FLAC, MP3, Ogg Vorbis or Opus, of any length and rate). Nine
tenths train a softmax over the mean and the deviation of each band, the rest tests it. Without FOLDER, tones of three pitches are made.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import carya

RATE, BANDS = 16000, 40


def make_tones(root: Path) -> None:
    """30 WAVs, each a tone of one of three pitches in noise."""
    random = np.random.default_rng(0)
    for number in range(30):
        pitch = (220, 440, 880)[number % 3]
        t = np.arange(RATE // 2 + 200 * number) / RATE
        tone = 6000 * np.sin(2 * np.pi * pitch * random.uniform(0.97, 1.03) * t) + random.normal(0, 900, t.size)
        samples = tone.astype("<i2").tobytes()
        form = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
        head = struct.pack("<4sI4s4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", len(form)) + form
        (root / str(pitch)).mkdir(exist_ok=True)
        (root / str(pitch) / f"{number}.wav").write_bytes(head + struct.pack("<4sI", b"data", len(samples)) + samples)


def features(batch: Mapping[str, Any]) -> np.ndarray:
    """Mean and deviation of each band over the frames that are no padding: (rows, 2 x bands)."""
    rows = []
    for clip, frames in zip(np.asarray(batch["audio"]), np.asarray(batch["audio_length"]), strict=True):
        heard = clip[: max(int(frames), 1)]
        rows.append(np.concatenate([heard.mean(0), heard.std(0)]))
    return np.stack(rows) / 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if given.folder is None:
            make_tones(Path(made))
        clips = carya.audio_folder(given.folder or made, labels="folder")
        learn, test = clips.split(0.9, seed=1)
        heard = learn.shuffle(seed=1).decode_audio(rate=RATE).crop_audio(seconds=given.seconds).log_mel("kaldi", BANDS)
        train = heard.spec_augment(freq_masks=1, freq_width=4, time_masks=1, time_width=10).batch(8)
        words = 1 + max(int(clips[i]["label"]) for i in range(len(clips)))
        weights = np.zeros((2 * BANDS + 1, words))
        with carya.Loader(train, epochs=given.epochs, on_error="mask") as loader:
            for _ in range(given.epochs):
                for batch in loader:
                    x = np.pad(features(batch), ((0, 0), (0, 1)), constant_values=1.0)
                    scores = np.exp(x @ weights - (x @ weights).max(1, keepdims=True))
                    error = scores / scores.sum(1, keepdims=True) - np.eye(words)[np.asarray(batch["label"])]
                    weights -= 0.1 * x.T @ error
        quiet = test.decode_audio(rate=RATE).crop_audio(seconds=given.seconds, random=False).log_mel("kaldi", BANDS)
        right = 0
        with carya.Loader(quiet.batch(8), epochs=1) as loader:
            for batch in loader:
                x = np.pad(features(batch), ((0, 0), (0, 1)), constant_values=1.0)
                right += int(((x @ weights).argmax(1) == np.asarray(batch["label"])).sum())
        print(f"{right} of {len(test)} are told apart, among {words}")


if __name__ == "__main__":
    main()
