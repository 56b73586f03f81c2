#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/philox.h"
#include "transforms/op/op.h"
#include "transforms/op/params.h"
#include "transforms/ops/audio/audio_clip.h"

namespace carya::transforms {

/// The field that audio ops take by default.
inline constexpr std::string_view kAudioField = "audio";

/// An op on audio: it decodes a field, changes its samples, or makes a spectrum of them. A plan runs the ops of a field
/// one behind the other, with the same code whether it fuses others or not.
class AudioOp : public Op {
 public:
  AudioOp(std::string name, OpTraits traits, Json::Object canonical,
          std::optional<std::vector<std::string>> fields)
      : Op(std::move(name), traits, std::move(canonical)), fields_(std::move(fields)) {}

  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;

  /// Begin with the bytes of a file; only decode_audio does. Errors: kCorrupt, kExhausted, kUnsupported.
  virtual Status begin(AudioBytes, AudioClip&) const;
  /// Errors: kCorrupt (an op that this clip is too short for, or damage where it is decoded), kExhausted, kTimeout.
  virtual Status apply(SampleRng& rng, AudioClip& clip) const = 0;

 protected:
  /// Check one field and set what it becomes.
  virtual Status infer_field(FieldState& field) const = 0;
  /// Errors: kInvalidArgument unless the field is samples (float32 if `floats`).
  Status check_samples(const FieldState& field, bool floats) const;
  const std::optional<std::vector<std::string>>& given_fields() const { return fields_; }

 private:
  std::optional<std::vector<std::string>> fields_;
};

}  // namespace carya::transforms
