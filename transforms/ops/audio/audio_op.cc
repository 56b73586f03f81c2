#include "transforms/ops/audio/audio_op.h"

#include <algorithm>

namespace carya::transforms {

Status AudioOp::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  if (fields_) {
    ASSIGN(indices, find_fields(name(), fields, *fields_));
  } else {
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (fields[i].form == FieldState::Form::kAudio || fields[i].form == FieldState::Form::kSpectrum)
        indices.push_back(i);
    if (indices.empty())
      return fail(Code::kInvalidArgument,
                  name() + ": no audio among " + field_names(fields) + "; put decode_audio before");
  }
  for (const std::size_t i : indices) TRY(infer_field(fields[i]));
  return {};
}

Status AudioOp::begin(AudioBytes, AudioClip&) const {
  return {};
}

Status AudioOp::check_samples(const FieldState& field, bool floats) const {
  if (field.form != FieldState::Form::kAudio)
    return refuse(field, field.form == FieldState::Form::kSpectrum ? "samples: put it before the spectrum"
                                                                   : "audio: put decode_audio before");
  if (floats && field.spec.dtype != DType::kFloat32)
    return refuse(field, "float32 samples: decode_audio(dtype=\"float32\")");
  return {};
}

}  // namespace carya::transforms
