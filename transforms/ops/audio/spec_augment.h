#pragma once

#include <memory>

#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Overwrites random runs of frames and of bins of a spectrum. Source: Park et al., "SpecAugment", Interspeech 2019,
/// without the warp of time; torchaudio.transforms.SpecAugment with iid masks.
class SpecAugment final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  struct Options {
    std::int64_t freq_masks = 2;
    std::int64_t freq_width = 27;
    std::int64_t time_masks = 2;
    std::int64_t time_width = 100;
    double time_share = 1;  ///< the most of the valid frames that one mask hides
    float value = 0;
  };
  SpecAugment(Json::Object canonical, const Options& options, std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  Options options_;
};

}  // namespace carya::transforms
