#pragma once

#include <memory>

#include "transforms/audio/signal/mel_bank.h"
#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Sums the bins of a spectrum by triangles evenly spaced in pitch, as mel_spectrogram does on its way: for spectra that
/// something is done to before. Reference: torchaudio.transforms.MelScale.
class MelFilters final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  struct Options {
    MelScale scale = MelScale::kHtk;
    std::int64_t filters = 128;
    double low_hz = 0;
    double high_hz = 0;  ///< 0: half of the rate
  };
  MelFilters(Json::Object canonical, const Options& options, std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  double high_at(std::int64_t rate) const;

  Options options_;
};

}  // namespace carya::transforms
