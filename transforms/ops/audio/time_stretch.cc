#include "transforms/ops/audio/time_stretch.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

namespace carya::transforms {

Result<std::unique_ptr<Op>> TimeStretch::parse(Params& params) {
  const double rate = params.number("rate", 0.1, 10.0, std::nullopt);
  const std::int64_t power = params.integer("power", 1, 2, 2);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<TimeStretch>(params.take_canonical(), rate, power, std::move(fields));
}

TimeStretch::TimeStretch(Json::Object canonical, double rate, std::int64_t power,
                         std::optional<std::vector<std::string>> fields)
    : AudioOp("time_stretch",
              OpTraits{.kind = OpKind::kAudio, .assumed_cost = {.fixed_ns = 1'000, .per_byte_in_ns = 0.3}},
              std::move(canonical), std::move(fields)),
      rate_(rate),
      power_(power) {}

// As many as there are multiples of the rate below the number of frames.
std::int64_t TimeStretch::frames_of(std::int64_t frames) const {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(frames) / rate_));
}

Status TimeStretch::infer_field(FieldState& field) const {
  if (field.form != FieldState::Form::kSpectrum || field.power == 0)
    return refuse(field,
                  "a spectrum with the bins of its transform: put spectrogram before, and mel_scale behind");
  if (field.power != power_)
    return refuse(field, fmt::format("power={}, as its spectrogram has", field.power));
  std::int64_t& frames = field.spec.shape[1];
  if (frames >= 0) frames = frames_of(frames);
  return {};
}

Status TimeStretch::apply(SampleRng&, AudioClip& clip) const {
  const std::int64_t bins = clip.rows();
  const std::int64_t frames = clip.columns();
  const std::int64_t made = frames_of(frames);
  if (made > kAudioValuesMax / std::max<std::int64_t>(bins, 1))
    return fail(Code::kCorrupt, fmt::format("{} frames of {} values; at most {} values are made", made, bins,
                                            kAudioValuesMax));
  float* const out = clip.next(bins * made);
  float* const row = clip.scratch(frames + 2, 0);
  float* const parts = clip.scratch(made, 1);
  auto* const places = reinterpret_cast<std::int32_t*>(clip.scratch(made, 2));
  if (out == nullptr || row == nullptr || parts == nullptr || places == nullptr)
    return fail(Code::kExhausted, fmt::format("no memory for {} frames", made));
  for (std::int64_t f = 0; f < made; ++f) {
    const double at = static_cast<double>(f) * rate_;
    places[f] = static_cast<std::int32_t>(at);  // of at most kAudioValuesMax frames
    parts[f] = static_cast<float>(at - std::floor(at));
  }
  row[frames] = row[frames + 1] = 0.0F;  // behind the last frame is silence
  for (std::int64_t b = 0; b < bins; ++b) {
    const float* const from = clip.values() + b * frames;
    if (power_ == 2)
      for (std::int64_t f = 0; f < frames; ++f) row[f] = std::sqrt(std::max(from[f], 0.0F));
    else
      std::copy_n(from, frames, row);
    float* const to = out + b * made;
    for (std::int64_t f = 0; f < made; ++f)
      to[f] = parts[f] * row[places[f] + 1] + (1.0F - parts[f]) * row[places[f]];
    if (power_ == 2)
      for (std::int64_t f = 0; f < made; ++f) to[f] *= to[f];
  }
  clip.become(bins, made, std::min(made, frames_of(clip.valid())));
  return {};
}

}  // namespace carya::transforms
