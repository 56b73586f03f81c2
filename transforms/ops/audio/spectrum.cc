#include "transforms/ops/audio/spectrum.h"

#include <fmt/core.h>
#include <algorithm>
#include <bit>
#include <numbers>
#include <span>

#include "base/det_math.h"
#include "transforms/audio/signal/spectrum_simd.h"
#include "transforms/ops/audio/kept_tables.h"

namespace carya::transforms {
namespace {

constexpr float kInt16Scale = 32768.0F;
constexpr double kKaldiFloor = 1.1920928955078125e-07;  // of Kaldi: the step of float32 at 1
constexpr std::int64_t kFiltersMax = 1024;

std::vector<float> hann(std::size_t length) {
  std::vector<float> window;
  for (std::size_t i = 0; i < length; ++i)
    window.push_back(static_cast<float>(
        0.5 - 0.5 * det_cos(2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length))));
  return window;
}

// Kaldi's own: a symmetric Hann window to the power of 0.85.
std::vector<float> povey(std::size_t length) {
  std::vector<float> window;
  for (std::size_t i = 0; i < length; ++i) {
    const double x = 0.5 - 0.5 * det_cos(2.0 * std::numbers::pi * static_cast<double>(i) /
                                         static_cast<double>(length - 1));
    window.push_back(x < 1e-300 ? 0.0F : static_cast<float>(det_exp(0.85 * det_log(x))));
  }
  return window;
}

std::int64_t power_of_two_from(std::int64_t length) {
  std::int64_t power = 1;
  while (power < length) power *= 2;
  return power;
}

// Index -3 is sample 3, and so on at the end.
std::int64_t reflected(std::int64_t i, std::int64_t count) {
  if (i < 0) i = -i;
  return i < count ? i : 2 * (count - 1) - i;
}

// Whether all samples are 0. Joined bits, unlike a loop that may end early, are computed in vectors.
bool is_silent(std::span<const float> samples) {
  std::uint32_t any = 0;
  for (const float sample : samples) any |= std::bit_cast<std::uint32_t>(sample);
  return any << 1 == 0;
}

}  // namespace

Result<std::unique_ptr<Op>> Spectrum::parse_spectrogram(Params& params) {
  Options options;
  options.n_fft = params.integer("n_fft", 4, 8192, 400);
  options.hop = params.integer_or_null("hop_length", 1, 8192).value_or(options.n_fft / 2);
  options.magnitude = params.integer("power", 1, 2, 2) == 1;
  if (params.ok() && !is_transform_length(options.n_fft))
    params.reject("n_fft", "an even number with no prime factor above 5");
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<Spectrum>("spectrogram", params.take_canonical(), options, std::move(fields));
}

Result<std::unique_ptr<Op>> Spectrum::parse_mel_spectrogram(Params& params) {
  Options options;
  options.mel = true;
  options.n_fft = params.integer("n_fft", 4, 8192, 400);
  options.hop = params.integer_or_null("hop_length", 1, 8192).value_or(options.n_fft / 2);
  options.filters = params.integer("n_mels", 1, kFiltersMax, 128);
  options.low_hz = params.number("f_min", 0, kAudioRateMax, 0.0);
  const auto high = params.numbers_or_null("f_max", 1, 1, 1, kAudioRateMax, "None or a frequency in Hz");
  options.high_hz = high ? high->front() : 0;
  options.scale = params.choice("mel_scale", {"htk", "slaney"}) == 0 ? MelScale::kHtk : MelScale::kSlaney;
  if (params.ok() && !is_transform_length(options.n_fft))
    params.reject("n_fft", "an even number with no prime factor above 5");
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<Spectrum>("mel_spectrogram", params.take_canonical(), options, std::move(fields));
}

Result<std::unique_ptr<Op>> Spectrum::parse_log_mel(Params& params) {
  Options options;
  options.mel = true;
  const std::size_t kind = params.choice("kind", {"kaldi", "whisper", "torchaudio"}, true);
  options.filters = params.integer("n_mels", 1, kFiltersMax, 80);
  const auto n_fft = params.integer_or_null("n_fft", 4, 8192);
  const auto hop = params.integer_or_null("hop_length", 1, 8192);
  const bool is_torchaudio = kind == 2;
  if (params.ok() && !is_torchaudio && n_fft)
    params.reject("n_fft", "None: only kind=\"torchaudio\" leaves it open");
  if (params.ok() && !is_torchaudio && hop)
    params.reject("hop_length", "None: only kind=\"torchaudio\" leaves it open");
  if (params.ok() && n_fft && !is_transform_length(*n_fft))
    params.reject("n_fft", "an even number with no prime factor above 5");
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  if (kind == 0) {
    options.rule = Rule::kSnip;
    options.scale = MelScale::kKaldi;
    options.low_hz = 20;
    options.logarithm = Logarithm::kFloor;
    options.floor = kKaldiFloor;
  } else {
    options.n_fft = n_fft.value_or(400);
    options.hop = hop.value_or(160);
    options.rule = is_torchaudio ? Rule::kCentered : Rule::kWhisper;
    options.scale = is_torchaudio ? MelScale::kHtk : MelScale::kSlaney;
    options.logarithm = is_torchaudio ? Logarithm::kAdd : Logarithm::kFloor;
    options.floor = is_torchaudio ? 1e-6 : 1e-10;
  }
  return std::make_unique<Spectrum>("log_mel", params.take_canonical(), options, std::move(fields));
}

Spectrum::Spectrum(std::string name, Json::Object canonical, const Options& options,
                   std::optional<std::vector<std::string>> fields)
    : AudioOp(std::move(name),
              OpTraits{.kind = OpKind::kAudio, .assumed_cost = {.fixed_ns = 2'000, .per_byte_in_ns = 0.5}},
              std::move(canonical), std::move(fields)),
      options_(options) {}

Spectrum::Shape Spectrum::shape_at(std::int64_t rate) const {
  if (options_.rule != Rule::kSnip) return {options_.n_fft, options_.hop, options_.n_fft};
  const std::int64_t window = rate * 25 / 1000;
  return {window, rate * 10 / 1000, std::max<std::int64_t>(4, power_of_two_from(window))};
}

std::int64_t Spectrum::frames_of(const Shape& shape, std::int64_t samples) const {
  switch (options_.rule) {
    case Rule::kSnip:
      return samples < shape.window ? 0 : 1 + (samples - shape.window) / shape.hop;
    case Rule::kWhisper:
      return samples / shape.hop;
    case Rule::kCentered:
      return 1 + samples / shape.hop;
  }
  return 0;
}

Status Spectrum::infer_field(FieldState& field) const {
  TRY(check_samples(field, true));
  if (field.spec.shape.size() != 1) return refuse(field, "mono: decode_audio(channels=\"mono\")");
  const bool by_rate = options_.mel || options_.rule == Rule::kSnip;
  if (by_rate && field.rate == 0) return refuse(field, "one rate for all files: decode_audio(rate=16000)");
  if (options_.rule == Rule::kWhisper && field.rate != 16'000)
    return refuse(field, "16 kHz, which Whisper is trained on: decode_audio(rate=16000)");
  const Shape shape = shape_at(field.rate);
  if (shape.n_fft > 8192) return refuse(field, "a rate up to 327 kHz, or resample it");
  if (options_.mel && options_.high_hz > static_cast<double>(field.rate) / 2)
    return refuse(field, fmt::format("f_max up to half of the rate, {} Hz", field.rate / 2));
  const double high = options_.high_hz > 0 ? options_.high_hz : static_cast<double>(field.rate) / 2;
  if (options_.mel && options_.low_hz >= high) return refuse(field, fmt::format("f_min below {} Hz", high));
  const std::int64_t width = options_.mel ? options_.filters : shape.n_fft / 2 + 1;
  const std::int64_t samples = field.spec.shape[0];
  const std::int64_t frames = samples < 0 ? -1 : frames_of(shape, samples);
  const std::int64_t least = options_.rule == Rule::kSnip ? shape.window : shape.n_fft / 2 + 1;
  if (samples >= 0 && samples < least) return refuse(field, fmt::format("at least {} samples", least));
  field.form = FieldState::Form::kSpectrum;
  field.time_first = options_.rule == Rule::kSnip;
  field.power = options_.mel ? 0 : options_.magnitude ? 1 : 2;
  field.spec.shape = {width, frames};
  if (field.time_first) std::swap(field.spec.shape[0], field.spec.shape[1]);
  return {};
}

SpectrumPlan Spectrum::plan_at(std::int64_t rate) const {
  const Shape shape = shape_at(rate);
  SpectrumOptions options;
  options.n_fft = static_cast<std::size_t>(shape.n_fft);
  options.window_length = static_cast<std::size_t>(shape.window);
  options.hop = static_cast<std::size_t>(shape.hop);
  const bool kaldi = options_.rule == Rule::kSnip;
  options.window = kaldi ? povey(options.window_length) : hann(options.window_length);
  options.subtract_mean = kaldi;
  options.preemphasis = kaldi ? 0.97F : 0.0F;
  options.magnitude = options_.magnitude;
  const double high = options_.high_hz > 0 ? options_.high_hz : static_cast<double>(rate) / 2;
  if (options_.mel)
    options.bank = make_mel_bank(options_.scale, static_cast<std::size_t>(options_.filters), options.n_fft,
                                 static_cast<double>(rate), options_.low_hz, high);
  options.logarithm = options_.logarithm;
  options.floor = static_cast<float>(options_.floor);
  return SpectrumPlan(std::move(options));
}

std::shared_ptr<const SpectrumPlan> Spectrum::kept_plan(std::int64_t rate) const {
  return kept_table<SpectrumPlan>(json() + fmt::format("@{}", rate), [&] { return plan_at(rate); });
}

// The frames to compute: of those that see nothing but silence, which padding makes many, one is enough. `samples` are
// followed by `pad` reflected ones.
std::int64_t Spectrum::heard_frames(const Shape& shape, std::span<const float> samples, std::int64_t pad,
                                    std::int64_t frames) const {
  constexpr std::int64_t kStep = 256;
  auto end = static_cast<std::int64_t>(samples.size());
  while (end >= kStep && is_silent(samples.subspan(static_cast<std::size_t>(end - kStep), kStep)))
    end -= kStep;
  if (end + pad >= static_cast<std::int64_t>(samples.size())) return frames;
  return std::min(frames, (end + pad + shape.hop - 1) / shape.hop + 1);
}

Status Spectrum::apply(SampleRng&, AudioClip& clip) const {
  TRY(clip.decode());
  const std::shared_ptr<const SpectrumPlan> plan = kept_plan(clip.rate());
  const Shape shape = shape_at(clip.rate());
  const std::int64_t samples = clip.columns();
  const std::int64_t frames = frames_of(shape, samples);
  const std::int64_t pad = options_.rule == Rule::kSnip ? 0 : shape.n_fft / 2;
  const std::int64_t least = options_.rule == Rule::kSnip ? shape.window : pad + 1;
  if (samples < least)
    return fail(Code::kCorrupt, fmt::format("{} samples; at least {} are needed", samples, least));
  const auto width = static_cast<std::int64_t>(plan->width());
  if (frames > kAudioValuesMax / width)
    return fail(Code::kCorrupt, fmt::format("{} frames of {} values; at most {} values are made", frames,
                                            width, kAudioValuesMax));
  const float* const from = clip.values();
  const std::int64_t heard = heard_frames(shape, {from, static_cast<std::size_t>(samples)}, pad, frames);
  const auto readable = static_cast<std::int64_t>(plan->samples_read(static_cast<std::size_t>(heard)));
  const std::int64_t held = heard < frames ? readable : std::max(readable, samples + 2 * pad);
  float* const in = clip.scratch(held, 0);
  float* const work = clip.scratch(static_cast<std::int64_t>(plan->work_values()), 1);
  float* const out = clip.next(frames * width);
  if (in == nullptr || work == nullptr || out == nullptr)
    return fail(Code::kExhausted, fmt::format("no memory for {} frames", frames));
  for (std::int64_t i = 0; i < pad; ++i) in[i] = from[reflected(i - pad, samples)];
  const float scale = options_.rule == Rule::kSnip ? kInt16Scale : 1.0F;
  const std::int64_t copied = std::min(samples, held - pad);  // the rest is silence that no frame needs
  for (std::int64_t i = 0; i < copied; ++i) in[pad + i] = from[i] * scale;
  std::fill(in + pad + copied, in + held, 0.0F);
  for (std::int64_t i = 0; i < pad && heard == frames; ++i)
    in[pad + samples + i] = from[reflected(samples + i, samples)];
  const bool time_first = options_.rule == Rule::kSnip;
  spectrum_frames(*plan, in, static_cast<std::size_t>(heard), work, out,
                  time_first ? static_cast<std::size_t>(width) : 1,
                  time_first ? 1 : static_cast<std::size_t>(frames));
  if (time_first) {
    for (std::int64_t f = heard; f < frames; ++f)
      std::copy_n(out + (heard - 1) * width, width, out + f * width);
  } else if (heard < frames) {
    for (std::int64_t w = 0; w < width; ++w)
      std::fill(out + w * frames + heard, out + (w + 1) * frames, out[w * frames + heard - 1]);
  }
  if (options_.rule == Rule::kWhisper) {
    constexpr float kLog10OfE = 0.434294481903251828F;
    float largest = out[0];
    for (std::int64_t i = 1; i < frames * width; ++i) largest = std::max(largest, out[i]);
    const float least_value = largest * kLog10OfE - 8.0F;
    for (std::int64_t i = 0; i < frames * width; ++i)
      out[i] = (std::max(out[i] * kLog10OfE, least_value) + 4.0F) * 0.25F;
  }
  const std::int64_t valid = clip.valid() == 0 ? 0 : std::min(frames, frames_of(shape, clip.valid()));
  if (time_first)
    clip.become(frames, width, valid, true);
  else
    clip.become(width, frames, valid);
  return {};
}

}  // namespace carya::transforms
