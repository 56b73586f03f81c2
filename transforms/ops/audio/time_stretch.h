#pragma once

#include <memory>

#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Makes a spectrum faster or slower at the same pitch: what torchaudio's TimeStretch leaves of one whose magnitudes or
/// powers are taken afterwards. A phase vocoder interpolates magnitudes between two frames and carries their phases on;
/// a spectrum without phases needs the first alone.
class TimeStretch final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  TimeStretch(Json::Object canonical, double rate, std::int64_t power,
              std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  std::int64_t frames_of(std::int64_t frames) const;

  double rate_;         // above 1: fewer frames
  std::int64_t power_;  // as FieldState::power
};

}  // namespace carya::transforms
