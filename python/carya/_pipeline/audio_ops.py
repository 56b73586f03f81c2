"""The operations of a pipeline on audio, one method each: decoding, windows of a fixed length, spectra, augmentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .._errors import InvalidArgument
from .document import plain

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .order import OrderHints

_SPECTRA = frozenset({"spectrogram", "mel_spectrogram", "log_mel"})


def check_logarithm(fields: Sequence[str] | None, before: Iterable[Mapping[str, Any]]) -> None:
    """Errors: InvalidArgument, where `mfcc` would get powers or magnitudes: numbers come out that no model was made with.

    `fields`: those of `mfcc`; None: all spectra. `before`: the operations since the source or since a function, which may
    have taken a logarithm.
    """
    made: dict[
        str | None, str
    ] = {}  # by which operation a field became a spectrum; None: all fields that are not named
    for op in before:
        if op["op"] in _SPECTRA:
            of = op.get("fields")
            made = {None: op["op"]} if of is None else made | dict.fromkeys(of, op["op"])
    for field in made if fields is None else fields:
        found = made.get(field, made.get(None))
        if found is not None and found != "log_mel":
            raise InvalidArgument(
                f"mfcc: {found} before it takes no logarithm, and these are coefficients of a logarithmic spectrum; put "
                f'.log_mel("torchaudio", n_mels=...) or .log_mel("kaldi", ...) in place of .{found}(...), or a function that takes the '
                "logarithm between the two"
            )


class AudioOps:
    """Methods that append an operation on audio.

    Clips have any length; a batch needs one. `crop_audio` and `pad_audio` give it, and add a field `audio_length`
    (`NAME_length` of a field NAME): the samples that are no padding, and behind a spectrum its frames.

    `fields`: None means all audio of a sample (`decode_audio`: every encoded field).
    """

    def _with_op(self, op: str, order: OrderHints, **parameters: Any) -> Self:
        raise NotImplementedError

    def decode_audio(
        self,
        rate: int | None = None,
        channels: Literal["mono"] | int = "mono",
        dtype: Literal["float32", "int16"] = "float32",
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Decode WAV, FLAC, MP3, Ogg Vorbis or Ogg Opus, told by content and not by file name.

        Shape: encoded bytes -> (samples,) for "mono" (the mean of all channels), (channels, samples) for a number above
        1: files of as many channels, or copies of the only one. float32 with full scale at 1, or int16 (rounded).
        `rate`: Hz; files of another rate are resampled by soxr's HQ, a window of them with the values of the whole file to
        1e-6. None leaves each file at its own, Opus at 48,000. WAV: PCM of 8, 16, 24, 32 bits, float of 32, 64 bits, A-law
        and mu-law. A `crop_audio` or `pad_audio` right behind it decodes only what it shows.
        Errors: InvalidArgument here; an unknown, damaged or cut-off file, a rate outside 1,000 to 768,000 Hz, more than 64
        channels or 2**26 values at once are bad data when a sample is made (`on_error`); Unsupported if the library of a
        format is not installed.
        Reference: libFLAC, mpg123, libvorbisfile and opusfile, their values; torchaudio.load.

        >>> import carya
        >>> carya.files(["a.flac"], field="audio").decode_audio(rate=16000).outputs[0]
        ('audio', 'float32', (None,))
        """
        return self._with_op(
            "decode_audio", order, rate=plain(rate), channels=plain(channels), dtype=dtype, fields=plain(fields)
        )

    def crop_audio(
        self,
        samples: int | None = None,
        seconds: float | None = None,
        random: bool = True,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Keep a window of `samples` or `seconds`: at a random place, or in the middle if `random` is False.

        Shape: (..., any) -> (..., samples); shorter clips are filled up with zeros at their end. The field `audio_length`
        (int64) says how many samples are no filling. Right behind `decode_audio`, only the window is decoded.
        Errors: InvalidArgument (neither or both lengths; seconds of files whose rate is not fixed).

        >>> import carya
        >>> p = carya.files(["a.flac"], field="audio").decode_audio(rate=16000).crop_audio(seconds=2)
        >>> p.outputs
        [('audio', 'float32', (32000,)), ('audio_length', 'int64', ())]
        """
        return self._with_op(
            "crop_audio", order, samples=plain(samples), seconds=plain(seconds), random=random, fields=plain(fields)
        )

    def pad_audio(
        self,
        samples: int | None = None,
        seconds: float | None = None,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Make every clip as long as `samples` or `seconds`: zeros at the end of shorter ones, longer ones are cut there.

        Shape: (..., any) -> (..., samples). The field `audio_length` (int64) says how many samples are no padding.
        Errors: InvalidArgument (neither or both lengths; seconds of files whose rate is not fixed).
        Reference: whisper.pad_or_trim.

        >>> import carya
        >>> carya.files(["a.flac"], field="audio").decode_audio().pad_audio(48000).outputs[0]
        ('audio', 'float32', (48000,))
        """
        return self._with_op("pad_audio", order, samples=plain(samples), seconds=plain(seconds), fields=plain(fields))

    def gain(
        self, db: float | Sequence[float], fields: Sequence[str] | None = None, **order: Unpack[OrderHints]
    ) -> Self:
        """Multiply by 10 ** (db / 20), with `db` in decibels: a number, or a range from which each sample draws evenly.

        Shape and dtype (float32) stay; nothing is cut at full scale. Errors: InvalidArgument (outside -120..120).
        Reference: torchaudio.transforms.Vol(gain_type="db") without its clamp; 1e-6 relative.

        >>> import carya
        >>> carya.files(["a.flac"], field="audio").decode_audio().gain((-6, 6)).outputs[0]
        ('audio', 'float32', (None,))
        """
        return self._with_op("gain", order, db=plain(db), fields=plain(fields))

    def resample(self, rate: int, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """Bring samples to `rate` Hz. Right behind `decode_audio()` it is `decode_audio(rate)`.

        Shape: (..., samples) -> (..., samples * rate / rate before, rounded); float32.
        Errors: InvalidArgument (a rate outside 1,000 to 768,000; windows of files whose rate is not fixed).
        Reference: soxr HQ; exact.

        >>> import carya
        >>> p = carya.files(["a.flac"], field="audio").decode_audio(rate=16000).pad_audio(seconds=2)
        >>> p.resample(8000).outputs[0]
        ('audio', 'float32', (16000,))
        """
        return self._with_op("resample", order, rate=plain(rate), fields=plain(fields))

    def speed_perturb(
        self,
        factors: Sequence[float] = (0.9, 1.0, 1.1),
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Play each clip faster by one of `factors` (whole thousandths, 0.25 to 4), pitch and all; below 1 is slower.

        Shape: (..., samples) -> (..., samples / factor, rounded), so it comes before `crop_audio`. The whole clip is decoded.
        Errors: InvalidArgument (behind crop_audio or pad_audio).
        Reference: torchaudio.transforms.SpeedPerturbation, with soxr's filter: soxr.resample(x, factor, 1).

        >>> import carya
        >>> carya.files(["a.flac"], field="audio").decode_audio(rate=16000).speed_perturb().outputs[0]
        ('audio', 'float32', (None,))
        """
        return self._with_op("speed_perturb", order, factors=plain(factors), fields=plain(fields))

    def time_shift(self, share: float = 0.1, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """Move each clip later or earlier, by up to `share` (0..1) of its length; zeros come in at the other end.

        Shape and dtype (float32) stay; `audio_length` moves with the end. Errors: InvalidArgument.
        Reference: numpy.roll with zeros for what comes around; own random numbers.

        >>> import carya
        >>> carya.files(["a.flac"], field="audio").decode_audio().pad_audio(16000).time_shift(0.2).outputs[0]
        ('audio', 'float32', (16000,))
        """
        return self._with_op("time_shift", order, share=plain(share), fields=plain(fields))

    def trim_silence(
        self,
        top_db: float = 60.0,
        frame_length: int = 2048,
        hop_length: int = 512,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Cut off the beginning and the end of a mono clip that are `top_db` decibels or more below its loudest frame.

        Shape: (samples,) -> (as many or fewer,), so it comes before `crop_audio`; of silence nothing is left.
        Errors: InvalidArgument (not mono; behind crop_audio or pad_audio).
        Reference: librosa.effects.trim; exact.

        >>> import carya
        >>> carya.files(["a.flac"], field="audio").decode_audio().trim_silence(30).outputs[0]
        ('audio', 'float32', (None,))
        """
        return self._with_op(
            "trim_silence",
            order,
            top_db=plain(top_db),
            frame_length=plain(frame_length),
            hop_length=plain(hop_length),
            fields=plain(fields),
        )

    def spectrogram(
        self,
        n_fft: int = 400,
        hop_length: int | None = None,
        power: Literal[1, 2] = 2,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Magnitudes (`power` 1) or powers (2) of short Fourier transforms, with a Hann window of `n_fft` samples.

        Shape: (samples,) float32 -> (n_fft // 2 + 1, 1 + samples // hop_length) float32; `audio_length` counts frames then.
        The clip is reflected at both ends. `hop_length`: None is half of `n_fft`.
        Errors: InvalidArgument (n_fft that is odd, above 8,192 or has a prime factor above 5; not mono).
        Reference: torchaudio.transforms.Spectrogram; 1e-5 of the largest value.

        >>> import carya
        >>> carya.files(["a.flac"], field="audio").decode_audio().pad_audio(16000).spectrogram().outputs[0]
        ('audio', 'float32', (201, 81))
        """
        return self._with_op(
            "spectrogram",
            order,
            n_fft=plain(n_fft),
            hop_length=plain(hop_length),
            power=plain(power),
            fields=plain(fields),
        )

    def mel_spectrogram(
        self,
        n_fft: int = 400,
        hop_length: int | None = None,
        n_mels: int = 128,
        f_min: float = 0.0,
        f_max: float | None = None,
        mel_scale: Literal["htk", "slaney"] = "htk",
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Powers as `spectrogram`, summed by `n_mels` triangles evenly spaced in pitch from `f_min` to `f_max` Hz.

        Shape: (samples,) float32 -> (n_mels, 1 + samples // hop_length) float32. `f_max`: None is half of the rate.
        `mel_scale`: "htk" has triangles of height 1, "slaney" of area 1 (torchaudio's norm="slaney").
        Errors: InvalidArgument (files of different rates; a frequency above half of the rate).
        Reference: torchaudio.transforms.MelSpectrogram; 1e-5 of the largest value.

        >>> import carya
        >>> p = carya.files(["a.flac"], field="audio").decode_audio(rate=16000).pad_audio(seconds=1)
        >>> p.mel_spectrogram(n_mels=64).outputs[0]
        ('audio', 'float32', (64, 81))
        """
        return self._with_op(
            "mel_spectrogram",
            order,
            n_fft=plain(n_fft),
            hop_length=plain(hop_length),
            n_mels=plain(n_mels),
            f_min=plain(f_min),
            f_max=plain(f_max),
            mel_scale=mel_scale,
            fields=plain(fields),
        )

    def time_stretch(
        self,
        rate: float,
        power: Literal[1, 2] = 2,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Play a spectrum `rate` times as fast (0.1 to 10) at the same pitch: behind `spectrogram(power=power)`.

        Shape: (bins, frames) -> (bins, frames / rate, rounded up); float32. Magnitudes are interpolated between two frames, as a
        phase vocoder does it; the phases that it carries on are none of a spectrum's. Values below 0 count as 0.
        Errors: InvalidArgument (no spectrogram before, or another power).
        Reference: torchaudio.transforms.TimeStretch(n_freq, fixed_rate=rate) between Spectrogram(power=None) and the magnitudes
        (power 1) or powers (2) of what it gives; 1e-6 of the largest value.

        >>> import carya
        >>> p = carya.files(["a.flac"], field="audio").decode_audio(rate=8000).pad_audio(seconds=1)
        >>> p.spectrogram(400, 100).time_stretch(0.8).outputs[0]
        ('audio', 'float32', (201, 102))
        """
        return self._with_op("time_stretch", order, rate=plain(rate), power=plain(power), fields=plain(fields))

    def mel_scale(
        self,
        n_mels: int = 128,
        f_min: float = 0.0,
        f_max: float | None = None,
        mel_scale: Literal["htk", "slaney"] = "htk",
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Sum the bins of a spectrogram by `n_mels` triangles, as `mel_spectrogram` does: for what is changed before.

        Shape: (bins, frames) -> (n_mels, frames); float32. `f_min`, `f_max`, `mel_scale` as in `mel_spectrogram`.
        Errors: InvalidArgument (no spectrogram before; files of different rates; a frequency above half of the rate).
        Reference: torchaudio.transforms.MelScale; 1e-6 of the largest value.

        >>> import carya
        >>> p = carya.files(["a.flac"], field="audio").decode_audio(rate=16000).pad_audio(seconds=1)
        >>> p.spectrogram().spec_augment(freq_width=10).mel_scale(64).outputs[0]
        ('audio', 'float32', (64, 81))
        """
        return self._with_op(
            "mel_scale",
            order,
            n_mels=plain(n_mels),
            f_min=plain(f_min),
            f_max=plain(f_max),
            mel_scale=mel_scale,
            fields=plain(fields),
        )

    def log_mel(
        self,
        kind: Literal["kaldi", "whisper", "torchaudio"],
        n_mels: int = 80,
        n_fft: int | None = None,
        hop_length: int | None = None,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Logarithms of a mel spectrogram. The three kinds are different features; a model needs the one it was made with.

        "kaldi": (frames, n_mels). Frames of 25 ms each 10 ms, whole ones only; samples in the range of int16, no dither; mean
        taken off, preemphasis 0.97, Povey window, Kaldi's mel scale from 20 Hz; ln of at least 1.19e-7.
        "whisper": (n_mels, samples // 160). 16 kHz; Hann window of 400, Slaney's mel scale; log10 of at least 1e-10, cut 8
        below the largest value of the clip, (x + 4) / 4.
        "torchaudio": (n_mels, 1 + samples // hop_length). ln(x + 1e-6) of `mel_spectrogram(n_fft, hop_length, n_mels)`;
        `n_fft` 400 and `hop_length` 160 unless given.
        All float32; `audio_length` counts frames then.
        Errors: InvalidArgument (files of different rates; not mono; n_fft or hop_length for a kind that fixes them).
        Reference: torchaudio.compliance.kaldi.fbank(32768 * x, dither=0, num_mel_bins=n_mels); whisper.log_mel_spectrogram;
        torchaudio. Against float64: 1e-5 on the mean, 5e-3 at most.

        >>> import carya
        >>> p = carya.files(["a.flac"], field="audio").decode_audio(rate=16000).pad_audio(seconds=1)
        >>> p.log_mel("kaldi").outputs[0]
        ('audio', 'float32', (98, 80))
        """
        return self._with_op(
            "log_mel",
            order,
            kind=kind,
            n_mels=plain(n_mels),
            n_fft=plain(n_fft),
            hop_length=plain(hop_length),
            fields=plain(fields),
        )

    def mfcc(
        self,
        n_mfcc: int = 40,
        lifter: float = 0.0,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """The first `n_mfcc` coefficients of the orthonormal cosine transform over the bins of a logarithmic spectrum.

        Shape: n_mfcc in place of the bins; float32. `lifter`: coefficient k is multiplied by 1 + lifter / 2 * sin(pi * k /
        lifter); 0 for none. Errors: InvalidArgument (no spectrum, one without a logarithm, or fewer bins).
        Reference: behind log_mel("torchaudio", n_mels): torchaudio.transforms.MFCC(log_mels=True); behind log_mel("kaldi", 23)
        with n_mfcc=13, lifter=22: torchaudio.compliance.kaldi.mfcc(32768 * x, dither=0). 1e-4 of the largest value.

        >>> import carya
        >>> p = carya.files(["a.flac"], field="audio").decode_audio(rate=16000).pad_audio(seconds=1)
        >>> p.log_mel("kaldi", 23).mfcc(13, lifter=22).outputs[0]
        ('audio', 'float32', (98, 13))
        """
        return self._with_op("mfcc", order, n_mfcc=plain(n_mfcc), lifter=plain(lifter), fields=plain(fields))

    def spec_augment(
        self,
        freq_masks: int = 2,
        freq_width: int = 27,
        time_masks: int = 2,
        time_width: int = 100,
        time_share: float = 1.0,
        value: float = 0.0,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Overwrite `freq_masks` runs of bins and `time_masks` runs of frames of a spectrum with `value`.

        Each run has a width drawn evenly from 0 to `freq_width` or `time_width`, then a place; a run of frames lies among
        those that are no padding, and hides at most the share `time_share` of them.
        Shape and dtype stay. Errors: InvalidArgument (no spectrum).
        Reference: torchaudio.transforms.SpecAugment(iid_masks=True); own random numbers.

        >>> import carya
        >>> p = carya.files(["a.flac"], field="audio").decode_audio(rate=16000).crop_audio(seconds=1)
        >>> p.log_mel("whisper").spec_augment(time_width=20).outputs[0]
        ('audio', 'float32', (80, 100))
        """
        return self._with_op(
            "spec_augment",
            order,
            freq_masks=plain(freq_masks),
            freq_width=plain(freq_width),
            time_masks=plain(time_masks),
            time_width=plain(time_width),
            time_share=plain(time_share),
            value=plain(value),
            fields=plain(fields),
        )
