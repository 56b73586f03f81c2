#pragma once

#include <array>
#include <memory>

#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Multiplies samples by a factor in decibels, drawn evenly from a range. Reference: torchaudio.transforms.Vol(db).
class Gain final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Gain(Json::Object canonical, std::array<double, 2> db, std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override { return check_samples(field, true); }

 private:
  std::array<double, 2> db_;
};

}  // namespace carya::transforms
