#pragma once

#include <memory>

#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Moves samples later or earlier by a drawn time; what leaves at one end is lost, and silence comes in at the other.
class TimeShift final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  TimeShift(Json::Object canonical, double share, std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override { return check_samples(field, true); }

 private:
  double share_;  // of the clip
};

/// Cuts off the quiet begin and end of a mono clip. Reference: librosa.effects.trim; exact, but for frames whose power is
/// the threshold to a rounding.
class TrimSilence final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  struct Options {
    double top_db = 60;
    std::int64_t frame_length = 2048;
    std::int64_t hop = 512;
  };
  TrimSilence(Json::Object canonical, const Options& options, std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  Options options_;
};

}  // namespace carya::transforms
