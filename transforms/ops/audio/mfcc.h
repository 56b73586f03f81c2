#pragma once

#include <memory>

#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Cepstral coefficients: the orthonormal cosine transform (type 2) of the bins of a logarithmic spectrum, with a lifter.
/// References: torchaudio.transforms.MFCC(log_mels=True) behind log_mel("torchaudio"); Kaldi's, without its energy, behind
/// log_mel("kaldi").
class Mfcc final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Mfcc(Json::Object canonical, std::int64_t count, double lifter,
       std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  std::int64_t count_;
  double lifter_;  // 0: none
};

}  // namespace carya::transforms
