#pragma once

#include <memory>
#include <span>
#include <string>

#include "transforms/audio/signal/spectrum_plan.h"
#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Makes a spectrum of mono samples: spectrogram, mel_spectrogram (both as torchaudio's), and log_mel of three named
/// kinds, which differ in window, padding, scale of pitch, logarithm and axes.
class Spectrum final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse_spectrogram(Params& params);
  static Result<std::unique_ptr<Op>> parse_mel_spectrogram(Params& params);
  static Result<std::unique_ptr<Op>> parse_log_mel(Params& params);

  /// How the signal is cut into frames, and what follows the kernel.
  enum class Rule : std::uint8_t {
    kCentered,  ///< reflected at both ends, 1 + samples / hop frames; (filters, frames)
    kWhisper,   ///< as kCentered without the last frame; then log10, cut 8 below the largest, (x + 4) / 4
    kSnip,      ///< only whole frames of samples in the range of int16; (frames, filters)
  };
  struct Options {
    Rule rule = Rule::kCentered;
    bool mel = false;
    bool magnitude = false;
    MelScale scale = MelScale::kHtk;
    std::int64_t n_fft = 0;  ///< 0: by the rate (kSnip)
    std::int64_t hop = 0;    ///< samples; 0: by the rate
    std::int64_t filters = 0;
    double low_hz = 0;
    double high_hz = 0;  ///< 0: half of the rate
    Logarithm logarithm = Logarithm::kNone;
    double floor = 0;
  };
  Spectrum(std::string name, Json::Object canonical, const Options& options,
           std::optional<std::vector<std::string>> fields);
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  struct Shape {
    std::int64_t window = 0;
    std::int64_t hop = 0;
    std::int64_t n_fft = 0;
  };
  Shape shape_at(std::int64_t rate) const;
  std::int64_t frames_of(const Shape& shape, std::int64_t samples) const;
  std::int64_t heard_frames(const Shape& shape, std::span<const float> samples, std::int64_t pad,
                            std::int64_t frames) const;
  SpectrumPlan plan_at(std::int64_t rate) const;
  std::shared_ptr<const SpectrumPlan> kept_plan(std::int64_t rate) const;

  Options options_;
};

}  // namespace carya::transforms
