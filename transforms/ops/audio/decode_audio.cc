#include "transforms/ops/audio/decode_audio.h"

#include <algorithm>

namespace carya::transforms {

Result<std::unique_ptr<Op>> DecodeAudio::parse(Params& params) {
  Options options;
  options.rate = params.integer_or_null("rate", kAudioRateMin, kAudioRateMax).value_or(0);
  if (!params.word("channels", "mono"))
    options.channels = params.integer("channels", 1, kAudioChannelsMax, 1);
  options.int16 = params.choice("dtype", {"float32", "int16"}) == 1;
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<DecodeAudio>(params.take_canonical(), options, std::move(fields));
}

DecodeAudio::DecodeAudio(Json::Object canonical, Options options,
                         std::optional<std::vector<std::string>> fields)
    : AudioOp("decode_audio",
              OpTraits{.kind = OpKind::kAudio, .assumed_cost = {.fixed_ns = 10'000, .per_byte_in_ns = 6.0}},
              std::move(canonical), std::move(fields)),
      options_(options) {}

Status DecodeAudio::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  if (given_fields()) return AudioOp::infer(fields, indices);
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].form == FieldState::Form::kEncoded) indices.push_back(i);
  if (indices.empty())
    return fail(Code::kInvalidArgument,
                name() + ": no encoded field among " + field_names(fields) +
                    "; take a source of encoded files (audio_folder, files, webdataset), and decode once");
  for (const std::size_t i : indices) TRY(infer_field(fields[i]));
  return {};
}

Status DecodeAudio::infer_field(FieldState& field) const {
  if (field.form != FieldState::Form::kEncoded) return refuse(field, "fields that are still encoded");
  field.form = FieldState::Form::kAudio;
  field.spec.dtype = options_.int16 ? DType::kInt16 : DType::kFloat32;
  field.spec.shape = {-1};
  if (options_.channels > 1) field.spec.shape = {options_.channels, -1};
  field.rate = options_.rate;
  return {};
}

Status DecodeAudio::begin(AudioBytes bytes, AudioClip& clip) const {
  return clip.open(bytes, options_.channels, options_.rate);
}

Status DecodeAudio::apply(SampleRng&, AudioClip&) const {
  return {};  // decoded when an op needs samples
}

}  // namespace carya::transforms
