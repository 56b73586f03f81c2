#pragma once

#include <memory>

#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Gives a field a fixed number of samples, and the sample a field that counts those that are no padding: crop_audio, at
/// a random place or in the middle, and pad_audio, from the beginning. Of a file that is not decoded yet, only what the
/// window shows is.
class AudioWindow final : public AudioOp {
 public:
  enum class Place : std::uint8_t { kRandom, kCenter, kBegin };
  static Result<std::unique_ptr<Op>> parse_crop(Params& params);
  static Result<std::unique_ptr<Op>> parse_pad(Params& params);
  struct Options {
    std::int64_t samples = 0;  ///< 0: by `seconds`
    double seconds = 0;
    Place place = Place::kBegin;
  };
  AudioWindow(std::string name, Json::Object canonical, Options options,
              std::optional<std::vector<std::string>> fields);
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  std::int64_t samples_at(std::int64_t rate) const;

  Options options_;
};

}  // namespace carya::transforms
