#pragma once

#include <memory>

#include "transforms/ops/audio/audio_op.h"

namespace carya::transforms {

/// Decodes WAV, FLAC, MP3, Ogg Vorbis or Ogg Opus, recognized by its content, mixes channels and brings it to one rate.
/// References: libFLAC, libmpg123, libvorbisfile, opusfile; soxr HQ.
class DecodeAudio final : public AudioOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  struct Options {
    std::int64_t rate = 0;  ///< Hz; 0: each file's own
    std::int64_t channels = 1;
    bool int16 = false;
  };
  DecodeAudio(Json::Object canonical, Options options, std::optional<std::vector<std::string>> fields);
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;
  Status begin(AudioBytes bytes, AudioClip& clip) const override;
  Status apply(SampleRng& rng, AudioClip& clip) const override;

 protected:
  Status infer_field(FieldState& field) const override;

 private:
  Options options_;
};

}  // namespace carya::transforms
