#pragma once

#include <memory>

#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Brings samples to another rate. Reference: soxr HQ; exact.
class Resample final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Resample(Json::Object canonical, std::int64_t rate, std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override {
    return static_cast<void>(rng), clip.change_rate(rate_);
  }

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  std::int64_t rate_;
};

/// Plays samples faster or slower, pitch and all, by one of several factors. Source: Ko et al., "Audio augmentation for
/// speech recognition", Interspeech 2015. Reference: soxr HQ from rate * factor to rate.
class SpeedPerturb final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  SpeedPerturb(Json::Object canonical, std::vector<std::int64_t> factors,
               std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  std::vector<std::int64_t> factors_;  // in thousandths
};

}  // namespace carya::transforms
