#include "transforms/ops/audio/resample.h"

#include <cmath>

namespace carya::transforms {
namespace {

constexpr AssumedCost kCost = {.fixed_ns = 5'000, .per_byte_in_ns = 0.7};

}  // namespace

Result<std::unique_ptr<Op>> Resample::parse(Params& params) {
  const std::int64_t rate = params.integer("rate", kAudioRateMin, kAudioRateMax);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<Resample>(params.take_canonical(), rate, std::move(fields));
}

Resample::Resample(Json::Object canonical, std::int64_t rate, std::optional<std::vector<std::string>> fields)
    : AudioOp("resample", OpTraits{.kind = OpKind::kAudio, .assumed_cost = kCost}, std::move(canonical),
              std::move(fields)),
      rate_(rate) {}

Status Resample::infer_field(FieldState& field) const {
  TRY(check_samples(field, true));
  std::int64_t& samples = field.spec.shape.back();
  if (samples >= 0 && field.rate == 0)
    return refuse(field, "clips of any length: put it before crop_audio, or give decode_audio a rate");
  if (samples >= 0) samples = resampled_frames(samples, field.rate, rate_);
  field.rate = rate_;
  return {};
}

Result<std::unique_ptr<Op>> SpeedPerturb::parse(Params& params) {
  const std::vector<double> given = params.numbers(
      "factors", 1, 64, 0.25, 4.0, "a list of factors, 0.25 to 4", std::vector<double>{0.9, 1.0, 1.1});
  std::vector<std::int64_t> factors;
  for (const double factor : given) {
    factors.push_back(static_cast<std::int64_t>(std::rint(factor * 1000.0)));
    if (params.ok() && std::fabs(factor * 1000.0 - std::rint(factor * 1000.0)) > 1e-6)
      params.reject("factors", "whole thousandths, such as 0.9 or 1.125");
  }
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<SpeedPerturb>(params.take_canonical(), std::move(factors), std::move(fields));
}

SpeedPerturb::SpeedPerturb(Json::Object canonical, std::vector<std::int64_t> factors,
                           std::optional<std::vector<std::string>> fields)
    : AudioOp("speed_perturb", OpTraits{.kind = OpKind::kAudio, .random = true, .assumed_cost = kCost},
              std::move(canonical), std::move(fields)),
      factors_(std::move(factors)) {}

Status SpeedPerturb::infer_field(FieldState& field) const {
  TRY(check_samples(field, true));
  if (field.spec.shape.back() >= 0)
    return refuse(field,
                  "clips of any length, since it changes lengths: put it before crop_audio or pad_audio");
  return {};
}

Status SpeedPerturb::apply(SampleRng& rng, AudioClip& clip) const {
  const std::int64_t factor = factors_[rng.next_below(factors_.size())];
  return clip.resample(factor, 1000);
}

}  // namespace carya::transforms
