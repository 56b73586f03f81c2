#include "transforms/ops/audio/mfcc.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/det_math.h"

namespace carya::transforms {

Result<std::unique_ptr<Op>> Mfcc::parse(Params& params) {
  const std::int64_t count = params.integer("n_mfcc", 1, 1024, 40);
  const double lifter = params.number("lifter", 0.0, 1000.0, 0.0);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<Mfcc>(params.take_canonical(), count, lifter, std::move(fields));
}

Mfcc::Mfcc(Json::Object canonical, std::int64_t count, double lifter,
           std::optional<std::vector<std::string>> fields)
    : AudioOp("mfcc",
              OpTraits{.kind = OpKind::kAudio, .assumed_cost = {.fixed_ns = 5'000, .per_byte_in_ns = 2.0}},
              std::move(canonical), std::move(fields)),
      count_(count),
      lifter_(lifter) {}

Status Mfcc::infer_field(FieldState& field) const {
  if (field.form != FieldState::Form::kSpectrum) return refuse(field, "a spectrum: put log_mel before");
  std::int64_t& bins = field.spec.shape[field.time_first ? 1 : 0];
  if (bins < count_) return refuse(field, fmt::format("n_mfcc up to its {} bins", bins));
  bins = count_;
  return {};
}

Status Mfcc::apply(SampleRng&, AudioClip& clip) const {
  const bool time_first = clip.time_first();
  const std::int64_t bins = time_first ? clip.columns() : clip.rows();
  const std::int64_t frames = time_first ? clip.rows() : clip.columns();
  float* const cosines = clip.scratch(bins * count_, 0);
  float* const out = clip.next(frames * count_);
  if (cosines == nullptr || out == nullptr)
    return fail(Code::kExhausted, fmt::format("no memory for {} frames", frames));
  for (std::int64_t k = 0; k < count_; ++k) {
    const double norm = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(bins));
    const double lift =
        lifter_ > 0 ? 1.0 + lifter_ / 2 * det_sin(std::numbers::pi * static_cast<double>(k) / lifter_) : 1.0;
    for (std::int64_t b = 0; b < bins; ++b)
      cosines[k * bins + b] =
          static_cast<float>(norm * lift *
                             det_cos(std::numbers::pi * static_cast<double>(k) *
                                     (static_cast<double>(b) + 0.5) / static_cast<double>(bins)));
  }
  const float* const in = clip.values();
  if (time_first) {
    for (std::int64_t f = 0; f < frames; ++f)
      for (std::int64_t k = 0; k < count_; ++k) {
        float sum = 0;
        for (std::int64_t b = 0; b < bins; ++b) sum += cosines[k * bins + b] * in[f * bins + b];
        out[f * count_ + k] = sum;
      }
  } else {
    for (std::int64_t k = 0; k < count_; ++k) {
      float* const row = out + k * frames;
      std::fill(row, row + frames, 0.0F);
      for (std::int64_t b = 0; b < bins; ++b)
        for (std::int64_t f = 0; f < frames; ++f) row[f] += cosines[k * bins + b] * in[b * frames + f];
    }
  }
  const std::int64_t valid = clip.valid();
  if (time_first)
    clip.become(frames, count_, valid, true);
  else
    clip.become(count_, frames, valid);
  return {};
}

}  // namespace carya::transforms
