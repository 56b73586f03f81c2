"""Noise and rooms from a second source, as functions of sounds: `.map(carya.sound.AddNoise(noises), fields="audio")`.

What is drawn depends on seed, epoch and record only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ._errors import InvalidArgument, invalid

__all__ = ["AddNoise", "Reverberate"]

Sound = np.ndarray[Any, np.dtype[np.float32]]
_KEPT_BYTES = 64 << 20  # of decoded sounds, in each worker process
_CHANNELS_MAX = 64  # as of decode_audio: more rows than that are samples, or frames of a spectrum


class _Second:
    """Sounds that others are changed by: anything with a length and an index, such as a pipeline that decodes them."""

    def __init__(self, source: Any, p: float) -> None:
        self._who = type(self).__name__
        if (
            not hasattr(type(source), "__len__")
            or not hasattr(type(source), "__getitem__")
            or isinstance(source, str | bytes)
        ):
            raise invalid(
                f"{self._who}: source",
                source,
                "a pipeline as carya.audio_folder(...).decode_audio(rate=...), or a list of arrays",
            )
        if not len(source):
            raise invalid(f"{self._who}: source", source, "at least one sound")
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
            raise invalid(f"{self._who}: p", p, "a probability of 0 to 1")
        self._source, self._p = source, float(p)

    def check_sounds(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        """What is known of the fields that it gets, before the first of them. Errors: InvalidArgument (a spectrum, another rate)."""
        of_source = self._source._sounds().get("audio", {}) if hasattr(self._source, "_sounds") else {}
        for field, sound in known.items():
            if sound.get("spectrum"):
                raise InvalidArgument(
                    f"{self._who}: {field} is a spectrum; put .map({self._who}(...)) before log_mel, spectrogram and their kin"
                )
            rates = of_source.get("rate"), sound["rate"]
            if all(rates) and rates[0] != rates[1]:
                raise invalid(
                    f"{self._who}: source",
                    f"sounds of {rates[0]} Hz",
                    f"those of {rates[1]} Hz, as {field} has: decode_audio(rate={rates[1]})",
                )

    def _of_one(self, rng: np.random.Generator) -> Sound:
        """One of the sounds, all of it, of one channel."""
        number = int(rng.integers(len(self._source)))
        kept = _decoded.setdefault(self, OrderedDict())
        if number in kept:
            kept.move_to_end(number)
            return kept[number]
        sample = self._source[number]
        found = np.asarray(sample.get("audio") if isinstance(sample, dict) else sample)
        if found.dtype.kind != "f" or not _can_be_sound(found):
            raise InvalidArgument(
                f"{self._who}: source: sound {number} is no float array of samples, or of at most {_CHANNELS_MAX} channels x samples, and "
                'no dict with one as "audio"; give carya.audio_folder(...).decode_audio(rate=...)'
            )
        sound: Sound = found.astype(np.float32, copy=False)
        if sound.ndim == 2:
            sound = sound.mean(axis=0, dtype=np.float32)
        kept[number] = sound
        while sum(one.nbytes for one in kept.values()) > _KEPT_BYTES and len(kept) > 1:
            kept.popitem(last=False)
        return sound

    def _checked(self, audio: Any) -> Sound:
        given = np.asarray(audio)
        if given.dtype != np.float32 or not _can_be_sound(given):
            raise InvalidArgument(
                f"{self._who}: got {given.dtype} {given.shape}; give float32 of samples, or of at most {_CHANNELS_MAX} channels x samples, "
                'as decode_audio makes them, before spectra: .map(..., fields="audio")'
            )
        return given


def _can_be_sound(given: np.ndarray[Any, Any]) -> bool:
    """Whether it has the shape of one: (samples,), or (channels, samples) as decode_audio makes it."""
    return given.size > 0 and (given.ndim == 1 or (given.ndim == 2 and len(given) <= _CHANNELS_MAX))


# Beside the objects, not in them: what was decoded is no part of what they are, nor does it travel.
_decoded: WeakKeyDictionary[_Second, OrderedDict[int, Sound]] = WeakKeyDictionary()


class AddNoise(_Second):
    """A sound with one of the noises behind it, from any place of the noise on, as loud as `snr` says.

    `source`: noises of the same rate; one that is shorter than the sound begins anew. `snr`: a signal-to-noise ratio in dB, or the
    lowest and the highest of which one is drawn; negative is louder than the sound. `p`: how often. Silence stays as it is.
    Sounds are float32 [samples] or [channels, samples], as decode_audio makes them; all channels get the same noise.
    Errors: InvalidArgument (no such sound or noise; noises of another rate, a spectrum).
    Reference: torchaudio.functional.add_noise.

    >>> import carya, numpy as np
    >>> noisy = carya.sound.AddNoise([np.ones(3, np.float32)], snr=20.0)(np.ones(4, np.float32), np.random.default_rng(0))
    >>> [round(sample, 3) for sample in noisy.tolist()]
    [1.1, 1.1, 1.1, 1.1]
    """

    def __init__(self, source: Any, snr: float | Sequence[float] = (5.0, 20.0), *, p: float = 1.0) -> None:
        super().__init__(source, p)
        pair = tuple(snr) if isinstance(snr, Sequence) else (snr, snr)
        good = all(isinstance(one, int | float) and not isinstance(one, bool) and -200 <= one <= 200 for one in pair)
        if len(pair) != 2 or not good or pair[0] > pair[1]:
            raise invalid("AddNoise: snr", snr, "a ratio in dB, or the lowest and the highest one, of -200 to 200")
        self._snr = (float(pair[0]), float(pair[1]))

    def __call__(self, audio: Any, rng: np.random.Generator) -> Sound:
        given = self._checked(audio)
        if rng.random() >= self._p:
            return given
        snr = rng.uniform(*self._snr)
        noise = self._of_one(rng)
        begin = int(rng.integers(len(noise)))
        samples = given.shape[-1]
        noise = np.resize(np.roll(noise, -begin) if len(noise) < samples + begin else noise[begin:], samples)
        loud, behind = (float(np.mean(np.square(one, dtype=np.float64))) for one in (given, noise))
        if loud == 0 or behind == 0:
            return given
        scaled = noise * np.float32(np.sqrt(loud / (behind * 10 ** (snr / 10))))
        noisy: Sound = given + scaled
        return noisy


class Reverberate(_Second):
    """A sound as it is heard in one of the rooms of `source`, whose sounds are impulse responses of the same rate.

    The sound is convolved with the response from its greatest value on, which is what comes straight, scaled so that the response has
    an energy of 1; what rings on behind the end is left out, so that lengths stay. `p`: how often.
    Sounds are float32 [samples] or [channels, samples], as decode_audio makes them.
    Errors: InvalidArgument (no such sound, or a response that is silent).
    Reference: numpy.convolve in float64, within 1e-5 of the loudest sample.

    >>> import carya, numpy as np
    >>> carya.sound.Reverberate([np.float32([0, 3, 4])])(np.float32([1, 0, 1]), np.random.default_rng(0)).round(3).tolist()
    [1.0, 0.0, 1.0]
    """

    def __init__(self, source: Any, *, p: float = 1.0) -> None:
        super().__init__(source, p)

    def __call__(self, audio: Any, rng: np.random.Generator) -> Sound:
        given = self._checked(audio)
        if rng.random() >= self._p:
            return given
        response = self._of_one(rng).astype(np.float64)
        samples = given.shape[-1]
        response = response[int(np.argmax(np.abs(response))) :][:samples]
        energy = float(np.sqrt(np.sum(np.square(response))))
        if energy == 0:
            raise InvalidArgument("Reverberate: source: an impulse response is silent; leave it out")
        size = 1 << (samples + len(response) - 1).bit_length()
        along = np.fft.rfft(response / energy, size)
        heard = np.fft.irfft(np.fft.rfft(given.astype(np.float64), size) * along, size)
        return heard[..., :samples].astype(np.float32)
